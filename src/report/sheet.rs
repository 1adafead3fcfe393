//! [`Sheet`]: columns of figures that stand under each other digit by digit.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::ink::{Tone, cut_middle, cut_names, width};

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
    texts: Vec<String>,
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

impl Column {
    pub(super) fn new(head: &'static str, unit: &'static str, align: Align) -> Self {
        Self { head, unit, align, gap: 2, spare: 0, texts: Vec::new() }
    }

    /// Gives way in a narrow terminal, before all columns of a lower number.
    pub(super) fn spare(mut self, order: u8) -> Self {
        self.spare = order;
        self
    }

    pub(super) fn width(&self) -> usize {
        let texts = aligned(self.align, &self.texts);
        let heads = [self.head, self.unit].map(width);
        texts.iter().map(|text| width(text)).chain(heads).max().unwrap_or(0)
    }
}

impl Sheet {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Adds a column that is already filled.
    pub(super) fn add(&mut self, mut column: Column, texts: Vec<String>) {
        column.texts = texts;
        self.columns.push(column);
    }

    /// Names the columns from `first` to the last, and sets them apart from those before.
    pub(super) fn span(&mut self, first: usize, name: String) {
        self.columns[first].gap = 4;
        let spanned = &self.columns[first..];
        let gaps: usize = spanned.iter().skip(1).map(|column| column.gap).sum();
        let name = cut_middle(&name, spanned.iter().map(Column::width).sum::<usize>() + gaps);
        self.spans.push((first, spanned.len(), name));
    }

    /// Adds a row: a text for each column.
    pub(super) fn row(&mut self, texts: Vec<String>) {
        debug_assert_eq!(texts.len(), self.columns.len());
        for (column, text) in self.columns.iter_mut().zip(texts) {
            column.texts.push(text);
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

    /// Makes it fit into `columns`: the names headed `head` are cut, then columns give way, then names are cut again.
    pub(super) fn fit(mut self, columns: usize, head: &str) -> Self {
        self.cut(columns, head, LONG_NAME);
        while self.width() > columns {
            let spare = (0..self.columns.len()).filter(|&at| self.columns[at].spare > 0);
            match spare.max_by_key(|&at| self.columns[at].spare) {
                Some(at) => drop(self.columns.remove(at)),
                None => break,
            }
        }
        self.cut(columns, head, SHORT_NAME);
        self
    }

    /// Cuts the names headed `head` to no less than `least` columns when all is wider than `columns`.
    fn cut(&mut self, columns: usize, head: &str, least: usize) {
        let excess = self.width().saturating_sub(columns);
        if excess == 0 {
            return;
        }
        if let Some(column) = self.columns.iter_mut().find(|column| column.head == head) {
            let target = column.width().saturating_sub(excess).max(least);
            column.texts = cut_names(&column.texts, target);
        }
    }

    /// The table, each line ended.
    pub(super) fn render(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let quiet = |text: &str| Tone::Quiet.ink(text);
        table.add_row(self.columns.iter().map(|column| quiet(column.head)));
        let units = self.columns.iter().any(|column| !column.unit.is_empty());
        if units {
            table.add_row(self.columns.iter().map(|column| quiet(column.unit)));
        }
        let columns: Vec<_> = self.columns.iter().map(|column| aligned(column.align, &column.texts)).collect();
        let rows = columns.first().map_or(0, Vec::len);
        for row in 0..rows {
            table.add_row(columns.iter().map(|column| column[row].as_str()));
        }
        for (at, column) in self.columns.iter().enumerate() {
            let shown = table.column_mut(at).expect("every row has a text for each column");
            shown.set_padding((column.gap as u16, 0));
            shown.set_cell_alignment(match column.align {
                Align::Left | Align::Dash => CellAlignment::Left,
                Align::Right | Align::Point => CellAlignment::Right,
            });
        }
        let heads = if units { 2 } else { 1 };
        let mut out = self.names();
        for (at, line) in table.lines().enumerate() {
            if at >= heads && self.breaks.contains(&(at - heads)) {
                out.push('\n');
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The line of names over several columns.
    fn names(&self) -> String {
        let mut line = String::new();
        for (first, _, name) in &self.spans {
            let before: usize = self.columns[..*first].iter().map(|column| column.gap + column.width()).sum();
            let start = before + self.columns[*first].gap;
            line.push_str(&" ".repeat(start.saturating_sub(width(&line))));
            line.push_str(&Tone::Strong.ink(name));
        }
        if !line.is_empty() {
            line.push('\n');
        }
        line
    }
}

/// Texts padded so that points or dashes stand under each other once the column is set flush.
fn aligned(align: Align, texts: &[String]) -> Vec<String> {
    match align {
        Align::Left | Align::Right => texts.to_vec(),
        Align::Point => {
            let tail = |text: &str| text.find('.').map_or(0, |at| width(&text[at..]));
            let longest = texts.iter().map(|text| tail(text)).max().unwrap_or(0);
            let pad = |text: &String| match text.as_str() {
                "" => String::new(),
                text => format!("{text}{}", " ".repeat(longest - tail(text))),
            };
            texts.iter().map(pad).collect()
        }
        Align::Dash => {
            let lead = |text: &str| text.find('–').map_or(0, |at| width(&text[..at]));
            let longest = texts.iter().map(|text| lead(text)).max().unwrap_or(0);
            texts.iter().map(|text| format!("{}{text}", " ".repeat(longest - lead(text)))).collect()
        }
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
