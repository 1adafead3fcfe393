//! [`Style`] of the terminal, and text that carries its colours without a width.
//!
//! While a report is laid out, colours are invisible characters of no width around the coloured words, so that tables and
//! line breaks see the words only. [`Style::finish`] turns them into escape sequences, or drops them, as the last step.

use std::collections::HashMap;

use indexmap::IndexSet;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What the reader's terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether escape sequences for colours may be written.
    pub color: bool,
    /// Whether characters beyond ASCII may be written.
    pub unicode: bool,
}

impl Default for Style {
    /// What any terminal and any file can take: 80 columns, no colour.
    fn default() -> Self {
        Self { width: 80, color: false, unicode: true }
    }
}

/// What a coloured word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As wished.
    Good,
    /// Must be looked at.
    Bad,
    /// Not known yet, or of doubt.
    Doubt,
    /// Not what the eye should find first.
    Quiet,
    /// What the eye should find first.
    Strong,
}

/// Ends every tone. Unicode's word joiner: no width, no meaning between words.
const END: char = '\u{2060}';

impl Tone {
    const ALL: [Self; 5] = [Self::Good, Self::Bad, Self::Doubt, Self::Quiet, Self::Strong];

    /// Unicode's invisible operators, which no report contains otherwise, and a format character.
    const fn mark(self) -> char {
        match self {
            Self::Good => '\u{2061}',
            Self::Bad => '\u{2062}',
            Self::Doubt => '\u{2063}',
            Self::Quiet => '\u{2064}',
            Self::Strong => '\u{206a}',
        }
    }

    const fn escape(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[1;31m",
            Self::Doubt => "\x1b[33m",
            Self::Quiet => "\x1b[2m",
            Self::Strong => "\x1b[1m",
        }
    }

    /// `text` in this tone.
    pub(super) fn ink(self, text: &str) -> String {
        if text.is_empty() { String::new() } else { format!("{}{text}{END}", self.mark()) }
    }
}

impl Style {
    /// The text as the terminal takes it.
    pub(super) fn finish(self, text: &str) -> String {
        let mut finished = String::with_capacity(text.len());
        for c in text.chars() {
            match Tone::ALL.into_iter().find(|tone| tone.mark() == c) {
                Some(tone) if self.color => finished.push_str(tone.escape()),
                None if c == END && self.color => finished.push_str("\x1b[0m"),
                // Whatever came in from a file: nothing but our own colours steers the terminal.
                None if c != END && (c == '\n' || !steers(c)) => finished.push(if self.unicode { c } else { ascii(c) }),
                Some(_) | None => {}
            }
        }
        finished
    }
}

/// The pieces of a text with their tones, without the marks.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = (Option<Tone>, &str)> {
    let tone = |c: char| Tone::ALL.into_iter().find(|tone| tone.mark() == c);
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let toned = tone(first);
        let from = if toned.is_some() || first == END { first.len_utf8() } else { 0 };
        let to = rest[from..].find(|c: char| c == END || tone(c).is_some()).map_or(rest.len(), |to| from + to);
        let piece = &rest[from..to];
        rest = &rest[to..];
        Some((toned, piece))
    })
    .filter(|(_, piece)| !piece.is_empty())
}

/// The nearest ASCII character of the same width, for the characters reports themselves write.
fn ascii(c: char) -> char {
    match c {
        'µ' => 'u',
        '–' => '-',
        '×' => 'x',
        '·' => '|',
        '…' => '~',
        '→' => '>',
        '─' => '-',
        '\u{a0}' => ' ',
        c => c,
    }
}

/// Columns that `text` takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most `columns`, the end replaced by `…` when it is longer.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut left = columns.saturating_sub(1);
    for c in text.chars() {
        match c.width().unwrap_or(0) {
            w if w > left => break,
            w => left -= w,
        }
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// Names of env sets, each in at most `columns`, and different ones never alike. Those of a product (`PROTO=LL+NTHREADS=256`)
/// keep every value and as many letters of the variables as all have room for, then lose what all share; of others the middle
/// goes, as they tend to differ at their ends. Names that then look alike get their number before them.
pub(super) fn cut_names<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    columns: usize,
) -> impl Iterator<Item = String> {
    let distinct: IndexSet<&str> = names.clone().collect();
    let labels = labels(&distinct, columns);
    names.map(move |name| distinct.get_index_of(name).map_or_else(String::new, |at| labels[at].clone()))
}

fn labels(names: &IndexSet<&str>, columns: usize) -> Vec<String> {
    let long = |name: &&&str| width(name) > columns;
    let products: Vec<Vec<&str>> = names.iter().filter_map(|name| product(name)).collect();
    let shared = |part: &str| products.iter().all(|parts| parts.contains(&part) && parts.len() > 1);
    let whole = |_: &str| false;
    let ways: [&dyn Fn(&str) -> bool; 2] = [&whole, &shared];
    let shortest = ways.into_iter().find_map(|left_out| {
        let fits = |letters: &usize| {
            let short =
                |name: &&str| abbreviated(name, *letters, left_out).is_none_or(|short| width(&short) <= columns);
            names.iter().filter(long).all(short)
        };
        (1..columns).rev().find(fits).map(|letters| (letters, left_out))
    });
    let short = |name: &str| shortest.and_then(|(letters, left_out)| abbreviated(name, letters, left_out));
    let label = |name: &&str| match long(&name) {
        true => short(name).unwrap_or_else(|| cut_middle(name, columns)),
        false => (*name).to_owned(),
    };
    let cut: Vec<String> = names.iter().map(label).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    cut.iter().for_each(|label| *times.entry(label).or_default() += 1);
    let numbered = |(number, (name, label)): (usize, (&&str, &String))| {
        let number = format!("{number}:");
        match times[label.as_str()] > 1 && long(&name) {
            true => format!("{number}{}", cut_middle(name, columns.saturating_sub(width(&number)))),
            false => label.clone(),
        }
    };
    (1..).zip(names.iter().zip(&cut)).map(numbered).collect()
}

/// The parts of the name of a product's set.
fn product(name: &str) -> Option<Vec<&str>> {
    name.split('+').map(|part| part.contains('=').then_some(part)).collect()
}

/// `PRO=LL+NTH=256`: the name of a product's set with the first letters of its variables.
fn abbreviated(name: &str, letters: usize, left_out: &dyn Fn(&str) -> bool) -> Option<String> {
    let part = |part: &str| part.split_once('=').map(|(key, value)| format!("{key:.letters$}={value}"));
    let parts = product(name)?.into_iter().filter(|part| !left_out(part));
    let parts: Option<Vec<_>> = parts.map(part).collect();
    parts.map(|parts| parts.join("+")).filter(|short| !short.is_empty())
}

/// `text` in at most `columns`, its middle replaced by `…` when it is longer.
pub(super) fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns || columns < 3 {
        return cut(text, columns);
    }
    let fits = |at: &usize| width(&text[*at..]) <= (columns - 1) / 2;
    let tail = text.char_indices().map(|(at, _)| at).find(fits).map_or("", |at| &text[at..]);
    format!("{}{tail}", cut(text, columns - width(tail)))
}

/// Whether a terminal takes the character for an order: to move, to colour, to write from right to left.
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text of others (a library's log, a name) without what would move the cursor or change colours.
pub(super) fn plain(text: &str) -> String {
    let harmless = |c: &char| !steers(*c) && *c != END && Tone::ALL.iter().all(|tone| tone.mark() != *c);
    text.replace(['\t', '\n'], " ").chars().filter(harmless).collect()
}

/// Appends `text`, wrapped to `columns`; its first line begins with `first`, the others are as deep as `first` is wide.
pub(super) fn paragraph(out: &mut String, first: &str, text: &str, columns: usize) {
    let deep = " ".repeat(width(first));
    let options = textwrap::Options::new(columns.max(width(first) + 20))
        .initial_indent(first)
        .subsequent_indent(&deep)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace);
    out.push_str(&textwrap::fill(text, options));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_have_no_width_and_become_escapes_or_nothing() {
        for tone in Tone::ALL {
            let text = tone.ink("same");
            assert_eq!(width(&text), 4);
            assert_eq!(Style::default().finish(&text), "same");
            let colored = Style { color: true, ..Style::default() }.finish(&text);
            assert_eq!(colored, format!("{}same\x1b[0m", tone.escape()));
        }
    }

    #[test]
    fn what_is_too_long_ends_in_an_ellipsis() {
        assert_eq!(cut("pcie-ll", 7), "pcie-ll");
        assert_eq!(cut("pcie-ll-16", 7), "pcie-l…");
        assert_eq!(cut("環境変数", 5), "環境…");
        assert_eq!(cut("x", 0), "");
    }

    #[test]
    fn names_of_a_product_keep_their_values() {
        let names = ["default", "PROTO=LL+NTHREADS=256", "PROTO=Simple+NTHREADS=64"];
        let cut = |columns| cut_names(names.into_iter(), columns).collect::<Vec<_>>();
        assert_eq!(cut(24), names);
        assert_eq!(cut(22), ["default", "PROTO=LL+NTHREADS=256", "PROTO=Simple+NTHREA=64"]);
        assert_eq!(cut(18), ["default", "PRO=LL+NTH=256", "PRO=Simple+NTH=64"]);
        assert_eq!(cut(9), ["default", "PROT…=256", "PROT…S=64"]);
        let one = ["default", "PROTO=LL"];
        assert_eq!(cut_names(one.into_iter(), 6).collect::<Vec<_>>(), ["def…lt", "PRO=LL"], "one shares with none");
    }

    #[test]
    fn names_of_a_product_lose_what_all_share_before_they_lose_a_value() {
        let names = ["default", "PROTO=LL+NTHREADS=256+ALGO=Ring", "PROTO=LL+NTHREADS=128+ALGO=Ring"];
        let cut = |columns| cut_names(names.into_iter(), columns).collect::<Vec<_>>();
        assert_eq!(cut(20), ["default", "PR=LL+NT=256+AL=Ring", "PR=LL+NT=128+AL=Ring"]);
        assert_eq!(cut(12), ["default", "NTHREADS=256", "NTHREADS=128"]);
    }

    #[test]
    fn different_names_never_look_alike() {
        let names = [
            "default",
            "PROTO=LL+NTHREADS=128+MAX_NCHANNELS=4",
            "PROTO=LL+NTHREADS=256+MAX_NCHANNELS=4",
            "a-name-that-is-long-X-in-its-middle-and",
            "a-name-that-is-long-Y-in-its-middle-and",
            "default",
        ];
        for columns in 10..40 {
            let cut: Vec<String> = cut_names(names.into_iter(), columns).collect();
            let different: std::collections::BTreeSet<_> = cut.iter().collect();
            assert_eq!((different.len(), &cut[0]), (5, &cut[5]), "{cut:?}");
            assert!(cut.iter().all(|name| width(name) <= columns), "{cut:?}");
        }
    }

    #[test]
    fn the_middle_of_a_long_text_goes() {
        assert_eq!(cut_middle("pcie-ll-16-channels", 11), "pcie-…nnels");
        assert_eq!(cut_middle("環境変数環境変数", 9), "環境…変数");
        assert_eq!(cut_middle("abcdef", 2), "a…");
    }

    #[test]
    fn a_text_comes_apart_into_its_tones() {
        let text = format!("a {} b {}{}", Tone::Good.ink("good"), Tone::Bad.ink("bad"), Tone::Quiet.ink(""));
        let found: Vec<_> = pieces(&text).collect();
        assert_eq!(found, [(None, "a "), (Some(Tone::Good), "good"), (None, " b "), (Some(Tone::Bad), "bad")]);
        assert_eq!(pieces("").count(), 0);
    }

    #[test]
    fn ascii_has_the_same_width() {
        let text = "48.2 µs · 46.9–49.6 × 6…";
        let ascii = Style { unicode: false, ..Style::default() }.finish(text);
        assert!(ascii.is_ascii() && ascii.len() == width(text), "{ascii}");
    }

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\tc\u{2061}\r\u{202e}"), "a[2Jb c");
        let colored = Style { color: true, ..Style::default() };
        assert_eq!(colored.finish(&format!("a\x1b[2J\n{}", Tone::Strong.ink("b\u{9b}2J"))), "a[2J\n\x1b[1mb2J\x1b[0m");
    }
}
