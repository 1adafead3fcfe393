//! The pairs of a box for a terminal: matrices with P2P above the diagonal and host memory below it, and what they tell.

use std::fmt::Write;

use super::Style;
use super::head::Line;
use super::ink::{Tone, paragraph, plain};
use super::table::{LEAST, WIDEST, labelled};
use super::topology::brief;
use crate::pairs::{Pair, Pairs, Trouble, Way, is_far, trouble_of, without_like};
use crate::record::visit::Outcome;
use crate::units::{Bytes, duration, plural, significant};

/// The report.
#[must_use]
pub fn render(of: &Pairs, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    let time = of.created.strftime("%Y-%m-%d %H:%M UTC");
    let title = format!("ncclsweep {} · pairs of {} · {time}", of.version, plain(&of.host));
    paragraph(&mut out, "", &Tone::Strong.ink(&title), columns);
    if let Some(name) = &of.emulated {
        let alarm = format!("EMULATED: virtual time of {}. These figures say nothing about a real box.", plain(name));
        paragraph(&mut out, "", &Tone::Bad.ink(&alarm), columns);
    }
    out.push('\n');
    labelled(&mut out, head(of), columns);
    let bytes = |bytes: u64| Bytes(bytes).to_string();
    let (small, large) = (bytes(of.latency_bytes), bytes(of.bandwidth_bytes));
    let tables: [(String, Read); 4] = [
        (format!("all-reduce of {small}, µs"), |pair| pair.all_reduce.latency_us),
        (format!("send/recv of {small}, µs"), |pair| pair.send_recv.latency_us),
        (format!("all-reduce of {large}, GB/s (busbw)"), |pair| pair.all_reduce.bandwidth_gbps),
        (format!("send/recv of {large}, GB/s each way"), |pair| pair.send_recv.bandwidth_gbps),
    ];
    for (at, (title, figure)) in tables.into_iter().enumerate() {
        let _ = write!(out, "\n{}\n{}", Tone::Strong.ink(&title), matrix(of, at, figure));
    }
    paragraph(&mut out, "  ", &Tone::Quiet.ink(&legend(of)), columns);
    out.push('\n');
    labelled(&mut out, findings(of), columns);
    style.finish(&out)
}

type Read = fn(&Pair) -> Option<f64>;

fn head(of: &Pairs) -> Vec<Line> {
    let name = of.gpus.first().map_or_else(|| "GPU".into(), |gpu| plain(&gpu.name));
    let file = of.library.path.rsplit('/').next().unwrap_or_default();
    let mut lines = vec![
        Line::new("GPUs", format!("{} × {name}", of.gpus.len())),
        Line::new("driver", of.driver.as_deref().map_or_else(|| "?".into(), plain)),
        Line::new("NCCL", format!("{} · {}", of.library.version, plain(file))),
    ];
    lines.extend(brief(&of.topology));
    if !of.inherited.is_empty() {
        let all: Vec<_> =
            of.inherited.iter().map(|(name, value)| format!("{}={}", plain(name), plain(value))).collect();
        let warning = Tone::Doubt.ink("in every visit;");
        lines.push(Line::new("inherited", format!("{} {warning} --clean-env drops them", all.join(" "))));
    }
    let seconds: f64 = of.pairs.iter().map(|pair| pair.seconds).sum();
    let communicators = plural(of.communicators as usize, "communicator");
    lines.push(Line::new(
        "sampled",
        format!("{communicators} for each pair and way · {} · seed {}", duration(seconds), of.seed),
    ));
    lines
}

/// One figure of every pair; `at` is its place in [`is_far`].
fn matrix(of: &Pairs, at: usize, figure: Read) -> String {
    let count = of.gpus.len();
    let cell = |row: usize, column: usize| {
        let way = if row < column { Way::P2p } else { Way::HostMemory };
        if row == column {
            Cell::plain("·")
        } else {
            of.get(row, column, way).map_or_else(|| Cell::plain("-"), |pair| self::cell(of, pair, at, figure))
        }
    };
    let rows: Vec<Vec<Cell>> = (0..count).map(|row| (0..count).map(|column| cell(row, column)).collect()).collect();
    let names: Vec<String> = of.gpus.iter().map(|gpu| format!("GPU {} {}", gpu.ordinal, plain(&gpu.pci))).collect();
    let margin = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let width = |column: usize| rows.iter().map(|row| row[column].text.chars().count()).max().unwrap_or(0).max(4);
    let mut out = " ".repeat(margin);
    for (column, gpu) in of.gpus.iter().enumerate() {
        let _ = write!(out, "  {}", Tone::Quiet.ink(&format!("{:>1$}", gpu.ordinal, width(column))));
    }
    out.push('\n');
    for (name, row) in names.iter().zip(&rows) {
        let _ = write!(out, "{name:margin$}");
        for (column, cell) in row.iter().enumerate() {
            let text = format!("{:>1$}", cell.text, width(column));
            let _ = write!(out, "  {}", if cell.bad { Tone::Bad.ink(&text) } else { text });
        }
        out.push('\n');
    }
    out
}

/// A word or figure, and whether it must be looked at.
struct Cell {
    text: String,
    bad: bool,
}

impl Cell {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), bad: false }
    }
}

fn cell(of: &Pairs, pair: &Pair, at: usize, figure: Read) -> Cell {
    let bad = |text: &str| Cell { text: text.into(), bad: true };
    match trouble_of(of, pair) {
        Some(Trouble::Hang) => bad("hang"),
        Some(Trouble::Failure) => bad("fail"),
        Some(Trouble::WrongData) => bad("wrong"),
        Some(Trouble::Slow) | None => {
            if let Outcome::NotRun { .. } = pair.outcome {
                return Cell::plain("no");
            }
            // P2P that was allowed and not used: the figure is that of host memory.
            let other_way = pair.way == Way::P2p && pair.used_p2p() == Some(false);
            let far = is_far(of, pair)[at];
            let marks = format!("{}{}", if other_way { "*" } else { "" }, if far { "!" } else { "" });
            let text = figure(pair).map_or_else(|| "?".to_owned(), significant);
            Cell { text: text + &marks, bad: far }
        }
    }
}

fn legend(of: &Pairs) -> String {
    let mut parts = vec!["above the diagonal P2P, below it host memory"];
    let any = |what: &dyn Fn(&Pair) -> bool| of.pairs.iter().any(what);
    if any(&|pair| matches!(pair.outcome, Outcome::NotRun { .. })) {
        parts.push("no: the driver does not allow P2P");
    }
    if any(&|pair| pair.way == Way::P2p && pair.used_p2p() == Some(false)) {
        parts.push("*: NCCL did not use P2P though it might");
    }
    if any(&|pair| trouble_of(of, pair) == Some(Trouble::Slow)) {
        parts.push("!: much slower than others alike");
    }
    parts.join(" · ")
}

fn findings(of: &Pairs) -> Vec<Line> {
    let mut lines = Vec::new();
    for finding in &of.findings {
        let label = match finding.trouble {
            Trouble::Hang => "hang",
            Trouble::Failure => "failure",
            Trouble::WrongData => "wrong",
            Trouble::Slow => "slow",
        };
        lines.push(Line::new(label, format!("{}. {}", Tone::Bad.ink(&plain(&finding.text)), plain(&finding.next))));
    }
    let (outputs, wrong) =
        of.pairs.iter().fold((0, 0), |(all, bad), pair| (all + pair.checked_outputs, bad + pair.wrong_outputs));
    let wrong = if wrong == 0 { "none wrong".to_owned() } else { Tone::Bad.ink(&format!("{wrong} wrong")) };
    lines.push(Line::new("data", format!("{} outputs checked, {wrong}", crate::units::count(outputs))));
    let alone: Vec<&Pair> = without_like(of).collect();
    let measured = of.pairs.iter().filter(|pair| pair.outcome.is_completed()).count();
    let compared = alone.len() < measured;
    if !alone.is_empty() {
        lines.push(Line::new("alone", Tone::Doubt.ink(&not_compared(of, &alone))));
    }
    if let Some(why) = &of.stopped {
        lines.push(Line::new("stopped", Tone::Bad.ink(&plain(why))));
    } else if of.findings.is_empty() {
        let slow = if compared { ", none is much slower than others alike" } else { "" };
        lines.push(Line::new("verdict", Tone::Good.ink(&format!("no pair hangs, no data is wrong{slow}"))));
    }
    lines
}

/// That pairs have no other to be held against, and what else tells whether they are slow.
fn not_compared(of: &Pairs, alone: &[&Pair]) -> String {
    let told = alone.iter().map(|pair| {
        let gpu = |at: usize| of.gpus.get(at).map_or(at, |gpu| gpu.ordinal as usize);
        format!("GPUs {} and {} over {}", gpu(pair.a), gpu(pair.b), pair.way)
    });
    let told: Vec<_> = told.collect();
    format!(
        "{}: no other pair is alike, so nothing here tells whether that is slow; `ncclsweep topo --load` shows what the links \
         carry, an older run of the box what they did",
        told.join(", ")
    )
}

#[cfg(test)]
mod tests;
