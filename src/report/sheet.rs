//! [`Sheet`]: columns of figures that stand under each other digit by digit.

use std::borrow::Cow;

use super::ink::{Tone, cut_names, width};

/// Columns of a name that are worth another column's place.
const LONG_NAME: usize = 24;
/// Columns that every name keeps.
const SHORT_NAME: usize = 10;

/// How the texts of a column stand under each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Words.
    Left,
    /// Whole numbers.
    Right,
    /// Figures, by their decimal point.
    Point,
    /// Intervals, by their dash.
    Dash,
}

/// A column: what it holds, in which unit.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Second line of the head.
    pub(super) unit: &'static str,
    pub(super) align: Align,
    /// Blanks before it.
    pub(super) gap: usize,
    /// What must give way in a narrow terminal, the highest first; 0 stays.
    pub(super) spare: u8,
    texts: Texts,
}

/// Texts one behind the other: a table of ten thousand cells has too many of them for an allocation each.
#[derive(Clone, Debug, Default)]
struct Texts {
    all: String,
    ends: Vec<usize>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet {
    columns: Vec<Column>,
    /// Names over several columns: the first column, how many, the name.
    spans: Vec<(usize, usize, String)>,
    /// Rows that a blank line goes before.
    breaks: Vec<usize>,
}

impl Texts {
    fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, at: usize) -> &str {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[begin..self.ends[at]]
    }

    fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        (0..self.len()).map(|at| self.get(at))
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text.as_ref()));
        all
    }
}

impl Column {
    pub(super) fn new(head: &'static str, unit: &'static str, align: Align) -> Self {
        Self { head, unit, align, gap: 2, spare: 0, texts: Texts::default() }
    }

    /// Gives way in a narrow terminal, before all columns of a lower number.
    pub(super) fn spare(mut self, order: u8) -> Self {
        self.spare = order;
        self
    }

    pub(super) fn width(&self) -> usize {
        let inset = self.inset();
        let texts = self.texts.iter().map(|text| width(&self.aligned(text, inset)));
        texts.chain([self.head, self.unit].map(width)).max().unwrap_or(0)
    }

    /// The most columns behind a point, or before a dash.
    fn inset(&self) -> usize {
        self.texts.iter().map(|text| self.own_inset(text)).max().unwrap_or(0)
    }

    fn own_inset(&self, text: &str) -> usize {
        match self.align {
            Align::Left | Align::Right => 0,
            Align::Point => text.find('.').map_or(0, |at| width(&text[at..])),
            Align::Dash => text.find('–').map_or(0, |at| width(&text[..at])),
        }
    }

    /// A text padded so that points or dashes stand under each other once the column is set flush.
    fn aligned<'a>(&self, text: &'a str, inset: usize) -> Cow<'a, str> {
        let blanks = " ".repeat(inset - self.own_inset(text));
        match self.align {
            _ if text.is_empty() => text.into(),
            Align::Left | Align::Right => text.into(),
            Align::Point => (text.to_owned() + &blanks).into(),
            Align::Dash => (blanks + text).into(),
        }
    }

    /// A text set flush in `columns` columns behind the gap.
    fn set(&self, out: &mut String, text: &str, columns: usize) {
        let blanks = columns.saturating_sub(width(text));
        let (before, behind) = match self.align {
            Align::Left | Align::Dash => (self.gap, blanks),
            Align::Right | Align::Point => (self.gap + blanks, 0),
        };
        out.extend(std::iter::repeat_n(' ', before));
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', behind));
    }
}

impl Sheet {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Adds a column that is already filled.
    pub(super) fn add(&mut self, mut column: Column, texts: Vec<String>) {
        column.texts = texts.into_iter().collect();
        self.columns.push(column);
    }

    /// Names the columns from `first` to the last, and sets them apart from those before.
    pub(super) fn span(&mut self, first: usize, name: String) {
        self.columns[first].gap = 4;
        self.spans.push((first, self.columns.len() - first, name));
    }

    /// Adds a row: a text for each column.
    pub(super) fn row(&mut self, texts: Vec<String>) {
        debug_assert_eq!(texts.len(), self.columns.len());
        for (column, text) in self.columns.iter_mut().zip(texts) {
            column.texts.push(&text);
        }
    }

    /// Sets the next row apart from those before.
    pub(super) fn blank(&mut self) {
        let rows = self.columns.first().map_or(0, |column| column.texts.len());
        if rows > 0 {
            self.breaks.push(rows);
        }
    }

    /// Columns of the terminal that the whole takes.
    pub(super) fn width(&self) -> usize {
        self.columns.iter().map(|column| column.gap + column.width()).sum()
    }

    /// Whether a column headed `head` is left.
    pub(super) fn has(&self, head: &str) -> bool {
        self.columns.iter().any(|column| column.head == head)
    }

    /// Makes it fit into `columns`: the names headed `head` are cut, then columns give way, then names take what room is left.
    pub(super) fn fit(mut self, columns: usize, head: &str) -> Self {
        let whole = self.named(head).map(|column| column.texts.clone()).unwrap_or_default();
        self.cut(columns, head, LONG_NAME);
        while self.width() > columns {
            let spare = (0..self.columns.len()).filter(|&at| self.columns[at].spare > 0);
            match spare.max_by_key(|&at| self.columns[at].spare) {
                Some(at) => drop(self.columns.remove(at)),
                None => break,
            }
        }
        if let Some(column) = self.named(head) {
            column.texts = whole;
        }
        self.cut(columns, head, SHORT_NAME);
        self
    }

    fn named(&mut self, head: &str) -> Option<&mut Column> {
        self.columns.iter_mut().find(|column| column.head == head)
    }

    /// Cuts the names headed `head` to no less than `least` columns when all is wider than `columns`.
    fn cut(&mut self, columns: usize, head: &str, least: usize) {
        let excess = self.width().saturating_sub(columns);
        if excess == 0 {
            return;
        }
        if let Some(column) = self.named(head) {
            let target = column.width().saturating_sub(excess).max(least);
            column.texts = cut_names(column.texts.iter(), target).collect();
        }
    }

    /// The table, each line ended.
    pub(super) fn render(&self) -> String {
        let mut out = self.names();
        let widths: Vec<usize> = self.columns.iter().map(Column::width).collect();
        let insets: Vec<usize> = self.columns.iter().map(Column::inset).collect();
        // Line by line, for a table of thousands of cells is large enough once.
        let mut line = |text: &dyn Fn(usize, &Column) -> String| {
            let begun = out.len();
            for (at, column) in self.columns.iter().enumerate() {
                column.set(&mut out, &text(at, column), widths[at]);
            }
            out.truncate(begun + out[begun..].trim_end().len());
            out.push('\n');
        };
        line(&|_, column| Tone::Quiet.ink(column.head));
        if self.columns.iter().any(|column| !column.unit.is_empty()) {
            line(&|_, column| Tone::Quiet.ink(column.unit));
        }
        let rows = self.columns.first().map_or(0, |column| column.texts.len());
        for row in 0..rows {
            if self.breaks.binary_search(&row).is_ok() {
                line(&|_, _| String::new());
            }
            line(&|at, column| column.aligned(column.texts.get(row), insets[at]).into_owned());
        }
        out
    }

    /// The line of names over several columns.
    fn names(&self) -> String {
        let room = |(first, length, _): &(usize, usize, String)| {
            let spanned = &self.columns[*first..first + length];
            let gaps: usize = spanned.iter().skip(1).map(|column| column.gap).sum();
            spanned.iter().map(Column::width).sum::<usize>() + gaps
        };
        let least = self.spans.iter().map(room).min().unwrap_or_default();
        let names = cut_names(self.spans.iter().map(|(_, _, name)| name.as_str()), least);
        let mut line = String::new();
        for ((first, ..), name) in self.spans.iter().zip(names) {
            let before: usize = self.columns[..*first].iter().map(|column| column.gap + column.width()).sum();
            let start = before + self.columns[*first].gap;
            line.push_str(&" ".repeat(start.saturating_sub(width(&line))));
            line.push_str(&Tone::Strong.ink(&name));
        }
        if !line.is_empty() {
            line.push('\n');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ink::Style;

    fn sheet() -> Sheet {
        let columns = vec![
            Column::new("set", "", Align::Left),
            Column::new("median", "µs", Align::Point),
            Column::new("95%", "interval", Align::Dash).spare(1),
        ];
        let mut sheet = Sheet::new(columns);
        sheet.row(["default", "9.87", "9.61–10.1"].map(String::from).into());
        sheet.row(["PROTO=LL+MAX_NCHANNELS=16+NTHREADS=256", "1234", "1199–1301"].map(String::from).into());
        sheet
    }

    fn shown(sheet: &Sheet) -> String {
        Style::default().finish(&sheet.render())
    }

    #[test]
    fn points_and_dashes_stand_under_each_other() {
        insta::assert_snapshot!(shown(&sheet()), @r"
        set                                      median  95%
                                                     µs  interval
        default                                    9.87  9.61–10.1
        PROTO=LL+MAX_NCHANNELS=16+NTHREADS=256  1234     1199–1301
        ");
    }

    #[test]
    fn names_take_the_room_of_a_column_that_gave_way() {
        let mut sheet = Sheet::new(vec![
            Column::new("requirement", "", Align::Left),
            Column::new("95%", "interval", Align::Dash).spare(1),
        ]);
        sheet.row(["packets that the links repeated", "1199–1301"].map(String::from).into());
        assert!(shown(&sheet.fit(33, "requirement")).contains("packets that the links repeated"));
    }

    #[test]
    fn names_are_cut_before_columns_give_way() {
        insta::assert_snapshot!(shown(&sheet().fit(50, "set")), @r"
        set                           median  95%
                                          µs  interval
        default                         9.87  9.61–10.1
        PROTO=LL+MAX_N=16+NTHRE=256  1234     1199–1301
        ");
        insta::assert_snapshot!(shown(&sheet().fit(30, "set")), @r"
        set                  median
                                 µs
        default                9.87
        PR=LL+MA=16+NT=256  1234
        ");
    }

    #[test]
    fn a_name_over_columns_is_no_wider_than_they_are() {
        let mut sheet = Sheet::new(vec![Column::new("size", "", Align::Left)]);
        sheet.row(vec!["7168x1".into()]);
        sheet.add(Column::new("µs", "", Align::Point), vec!["48.2".into()]);
        sheet.add(Column::new("verdict", "", Align::Left), vec!["faster".into()]);
        sheet.span(1, "a name that is too long".into());
        insta::assert_snapshot!(shown(&sheet), @r"
                  a name…o long
        size        µs  verdict
        7168x1    48.2  faster
        ");
    }
}
