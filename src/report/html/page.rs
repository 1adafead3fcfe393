//! The frame of every page, and the small parts that pages share.
//!
//! A page has no script, and its policy lets it load nothing: whoever opens the report of a stranger runs none of their code
//! and tells nobody. Every text goes through the template engine, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::record::run::{Applied, Verdict};
use crate::report::cells;
use crate::report::head::Line;
use crate::report::ink::{Tone, cut_middle, pieces, plain, width};

const STYLE: &str = include_str!("style.css");
/// Nothing may be loaded and nothing may run; only the style above and an empty icon, which keeps browsers from asking for one.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
/// Columns of a name in a table; the whole name is its title.
const NAME: usize = 44;
/// Lines of findings; a run of thousands of sets has thousands.
const LINES: usize = 60;

/// A whole page.
pub(super) fn page(title: &str, alarm: Option<&str>, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="generator" content=(concat!("ncclsweep ", env!("CARGO_PKG_VERSION")));
                title { (plain(title)) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                @if let Some(alarm) = alarm { p.alarm role="note" { (alarm) } }
                main { (body) }
            }
        }
    };
    whole.into_string()
}

/// A text whose tones are colours.
pub(super) fn toned(text: &str) -> Markup {
    html! {
        @for (tone, piece) in pieces(text) {
            @match tone {
                None => (breakable(piece)),
                Some(tone) => span class=(class(tone)) { (breakable(piece)) },
            }
        }
    }
}

/// A text whose long names may break between their settings, `PROTO=LL+NTHREADS=512`, and not in the midst of a word.
fn breakable(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split_inclusive('+').enumerate() {
            @if at > 0 { wbr; }
            (part)
        }
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Doubt => "doubt",
        Tone::Quiet => "quiet",
        Tone::Strong => "strong",
    }
}

/// Labelled lines as a list of terms; lines of one label stand under it once.
pub(super) fn facts(lines: &[Line]) -> Markup {
    let shown = &lines[..lines.len().min(LINES)];
    let starts = shown.iter().enumerate().filter(|(at, line)| {
        let same = *at > 0 && (line.label.is_empty() || line.label == shown[at - 1].label);
        !same
    });
    let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
    html! {
        dl.facts {
            @for (of, start) in starts.iter().enumerate() {
                dt { (shown[*start].label) }
                @for line in &shown[*start..starts.get(of + 1).copied().unwrap_or(shown.len())] {
                    dd {
                        @match (line.label, line.lead.trim_end()) {
                            ("command", "") => @for word in line.text.split(' ') { span.word { (word) } " " },
                            (_, "") => (toned(&line.text)),
                            ("", "|") => code { (toned(&line.text)) },
                            ("", _) => { "→ " (toned(&line.text)) },
                            (_, lead) => { span.strong { (lead) } " " (toned(&line.text)) },
                        }
                    }
                }
            }
        }
        @if lines.len() > LINES {
            p.note { (lines.len() - LINES) " more lines of this kind are left out; " code { "ncclsweep report" } " prints all of them." }
        }
    }
}

/// The name of an env set beside its colour, cut when it is long.
pub(super) fn set_name(series: Option<usize>, name: &str) -> Markup {
    let short = cut_middle(name, NAME);
    html! {
        span.set title=[(width(name) > NAME).then_some(name)] {
            @if let Some(series) = series { span class={ "key s" (series) } aria-hidden="true" {} }
            (breakable(&short))
        }
    }
}

/// The verdict as a label.
pub(super) fn verdict(verdict: Verdict) -> Markup {
    html! { span class={ "pill " (verdict) } { (verdict) } }
}

/// Whether the settings took effect, in its colour.
pub(super) fn applied(applied: Applied) -> Markup {
    toned(&cells::applied(applied))
}

/// What is left out, when something is, and where all of it is.
pub(super) fn left_out(sentences: &[String], all: &str) -> Markup {
    html! {
        @if !sentences.is_empty() {
            p.note { "Of this run the page shows " (sentences.join(", ")) ". " (all) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_runs_nothing_and_loads_nothing() {
        let text = page("a <title>", None, &html! { p { "</p><script>alert(1)</script>" } });
        assert!(text.contains("<title>a &lt;title&gt;</title>"));
        assert!(text.contains("default-src 'none'"));
        assert!(!text.contains("<script") && !text.contains("http://") && !text.contains("https://"));
    }

    #[test]
    fn tones_become_classes_and_text_is_escaped() {
        let text = format!("{} than <b>", Tone::Good.ink("faster & better"));
        assert_eq!(toned(&text).into_string(), r#"<span class="good">faster &amp; better</span> than &lt;b&gt;"#);
    }

    #[test]
    fn a_name_made_of_settings_breaks_between_them_alone() {
        let name = set_name(None, "PROTO=LL+NTHREADS=512").into_string();
        assert!(name.contains("PROTO=LL+<wbr>NTHREADS=512"), "{name}");
        assert!(!set_name(None, "pcie-ll").into_string().contains("<wbr>"));
    }

    #[test]
    fn lines_of_one_label_stand_under_it_once() {
        let mut evidence = Line::new("", "free(): invalid <pointer>");
        evidence.lead = "|".into();
        let lines = [Line::new("failed", "one"), evidence, Line::new("visits", "two"), Line::new("visits", "three")];
        let text = facts(&lines).into_string();
        assert_eq!(text.matches("<dt>").count(), 2);
        assert!(text.contains("<code>free(): invalid &lt;pointer&gt;</code>"));
        assert!(facts(&vec![Line::new("why", "x"); 100]).into_string().contains("40 more lines"));
    }

    /// `#rrggbb` of a variable in one half of the style: light first, then dark.
    fn color(name: &str, half: usize) -> [f64; 3] {
        let half = STYLE.split("@media (prefers-color-scheme: dark)").nth(half).unwrap();
        let at = half.find(&format!("--{name}: #")).unwrap_or_else(|| panic!("--{name}")) + name.len() + 5;
        [0, 2, 4].map(|of| f64::from(u8::from_str_radix(&half[at + of..at + of + 2], 16).unwrap()) / 255.0)
    }

    /// Contrast as WCAG 2 defines it.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let linear = |c: f64| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        let luminance = |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn words_and_marks_stand_out_from_their_ground_by_day_and_by_night() {
        for half in [0, 1] {
            for ground in ["ground", "panel"] {
                for word in ["ink", "quiet", "good", "bad", "doubt", "level", "s1"] {
                    let found = contrast(color(word, half), color(ground, half));
                    assert!(found >= 4.5, "--{word} on --{ground} ({half}): {found:.2}");
                }
            }
            for mark in ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"] {
                let found = contrast(color(mark, half), color("ground", half));
                assert!(found >= 3.0, "--{mark} ({half}): {found:.2}");
            }
        }
    }

    #[test]
    fn a_command_breaks_between_its_words_and_not_behind_their_dashes() {
        let text = facts(&[Line::new("command", "--gpus 8 --set '<a>'")]).into_string();
        let words = ["--gpus", "8", "--set", "'&lt;a&gt;'"].map(|word| format!("<span class=\"word\">{word}</span> "));
        assert!(text.contains(&words.concat()), "{text}");
    }
}
