//! The frame and the marks of a plot, as inline SVG.
//!
//! Places across are per cent and places down are pixels, so that a plot fills a phone and a wide screen alike while its text
//! and its lines keep their size. Curves stand in a nested drawing that is stretched, with strokes that are not. Colours are
//! classes, so that they follow the reader's theme; that, and texts that are escaped by the page's engine, are why the plots
//! are not left to a plotting library, which writes fixed colours.

use maud::{Markup, html};

use super::axis::{Scale, across, down, label, place};

/// Units across of a stretched drawing.
const STRETCHED: f64 = 1000.0;

/// A plot: its axes, and what screen readers say instead of it.
pub(super) struct Plot<'a> {
    /// Unique on the page.
    pub(super) id: String,
    pub(super) title: &'a str,
    /// Where the figures are found in words.
    pub(super) description: &'a str,
    /// Height of the plotted area in pixels.
    pub(super) height: f64,
    /// Ticks across: place and text.
    pub(super) across: Vec<(f64, String)>,
    pub(super) x_title: &'a str,
    pub(super) y: Scale,
    pub(super) y_title: &'a str,
    /// The axis upwards as texts of its own, else its figures.
    pub(super) y_ticks: Option<Vec<(f64, String)>>,
}

impl Plot<'_> {
    /// The plot around its marks.
    pub(super) fn draw(&self, marks: &Markup) -> Markup {
        let (title, description) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        let bottom = place(self.height);
        let own = || self.y.ticks((self.height / 30.0) as usize).into_iter().map(|tick| (self.y.at(tick), label(tick)));
        let y_ticks = self.y_ticks.clone().unwrap_or_else(|| own().collect());
        html! {
            div.plot {
                svg role="img" width="100%" height=(bottom) aria-labelledby={ (title) " " (description) } {
                    title id=(title) { (self.title) }
                    desc id=(description) { (self.description) }
                    @for (at, text) in &y_ticks {
                        @let y = down(*at, self.height);
                        line.g x1="0" x2="100%" y1=(y) y2=(y) {}
                        text x="-8" y=(y) text-anchor="end" dominant-baseline="central" { (text) }
                    }
                    line.axis x1="0" x2="100%" y1=(bottom) y2=(bottom) {}
                    @for (at, text) in &self.across {
                        line.axis x1=(across(*at)) x2=(across(*at)) y1=(bottom) y2=(place(self.height + 4.0)) {}
                        text x=(across(*at)) y=(place(self.height + 17.0)) text-anchor=(anchor(*at)) { (text) }
                    }
                    text x="100%" y=(place(self.height + 33.0)) text-anchor="end" { (self.x_title) }
                    text x="-46" y="-10" { (self.y_title) }
                    (marks)
                }
            }
        }
    }
}

/// Texts at the ends of an axis stay within it.
fn anchor(at: f64) -> &'static str {
    match at {
        at if at < 0.04 => "start",
        at if at > 0.96 => "end",
        _ => "middle",
    }
}

/// The mark of a series at a place: each has a shape of its own, for those who do not see its colour.
pub(super) fn mark(series: usize, at: f64, y: f64) -> Markup {
    html! { svg x=(across(at)) y=(place(y)) width="1" height="1" { path class={ "mark s" (series) } d=(shape(series)) {} } }
}

fn shape(series: usize) -> &'static str {
    match series % 8 {
        0 => "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0",
        1 => "M-4.2-4.2h8.4v8.4h-8.4z",
        2 => "M0-5.6L5.4 4h-10.8z",
        3 => "M0-6L6 0L0 6L-6 0z",
        4 => "M0 5.6L5.4-4h-10.8z",
        5 => "M-2-5.5h4v3.5h3.5v4H2V5.5h-4V2h-3.5v-4H-2z",
        6 => "M-5.5-3h11v6h-11z",
        _ => "M-3-5.5h6v11h-6z",
    }
}

/// The keys of series with their marks.
pub(super) fn legend(series: &[(usize, String)]) -> Markup {
    html! {
        ul.legend {
            @for (at, name) in series {
                li { svg viewBox="-7 -7 14 14" aria-hidden="true" { path class={ "mark s" (at) } d=(shape(*at)) {} } (name) }
            }
        }
    }
}

/// Paths in a drawing that is stretched to the plot: `draw` turns a place across (0 to 1) into its units.
pub(super) fn stretched(height: f64, paths: &[(String, String)]) -> Markup {
    html! {
        svg x="0" y="0" width="100%" height=(place(height)) viewBox={ "0 0 " (STRETCHED) " " (place(height)) } preserveAspectRatio="none" {
            @for (class, d) in paths {
                path class=(class) d=(d) {}
            }
        }
    }
}

/// A place in a stretched drawing of this height.
pub(super) fn point(at: f64, up: f64, height: f64) -> String {
    format!("{} {}", place(at * STRETCHED), down(up, height))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(title: &str) -> String {
        let plot = Plot {
            id: "p1".into(),
            title,
            description: "in the table",
            height: 150.0,
            across: vec![(0.0, "1".into()), (1.0, "4".into())],
            x_title: "tokens",
            y: Scale::linear(0.0, 50.0),
            y_title: "µs",
            y_ticks: None,
        };
        plot.draw(&mark(1, 0.5, 75.0)).into_string()
    }

    #[test]
    fn a_plot_has_a_name_and_a_description_and_both_are_escaped() {
        let text = plot("a<b & c");
        assert!(text.contains(r#"role="img""#) && text.contains(r#"aria-labelledby="p1-title p1-desc""#));
        assert!(text.contains(r#"<title id="p1-title">a&lt;b &amp; c</title>"#), "{text}");
    }

    #[test]
    fn a_plot_is_well_formed() {
        let text = plot("latency");
        let mut reader = quick_xml::Reader::from_str(&text);
        reader.config_mut().check_end_names = true;
        while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    }

    #[test]
    fn shapes_differ_for_as_many_series_as_a_plot_has() {
        let shapes: std::collections::BTreeSet<_> = (0..8).map(shape).collect();
        assert_eq!(shapes.len(), super::super::shown::CURVES);
    }
}
