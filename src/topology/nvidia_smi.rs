//! Reads the matrix of `nvidia-smi topo -m`, as the terminal shows it and as people paste it.
//!
//! Drivers differ in the columns after the matrix, in the names of network adapters and in colour codes; pasting turns tabs
//! into blanks and puts the prompt before the header. So cells are words between blanks, and the header is found by what it
//! holds.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::model::{Gpu, Nic, Topology};
use super::path::Path;
use crate::error::{Error, Result};

/// The topology in `text`, which came from the file `name`.
pub fn parse(name: &str, text: &str) -> Result<Topology> {
    let input = Input { name, text };
    let plain = blanked(text);
    let lines: Vec<_> = lines(&plain).collect();
    let Some((at, header)) = lines.iter().enumerate().find_map(|(at, line)| Some((at, header(line)?))) else {
        return Err(input.fault(0..0, "no header with GPU0, GPU1, …").help(HELP));
    };
    let mut rows: HashMap<&str, Row<'_>> = HashMap::new();
    for line in &lines[at + 1..] {
        let Some(first) = line.words.first() else { continue };
        if !header.names.contains(&first.text) {
            if is_row(line) {
                return Err(input.fault(first.span.clone(), "the header has no such column").help(HELP));
            }
            continue;
        }
        let row = row(&input, line, &header)?;
        if rows.insert(first.text, row).is_some() {
            return Err(input.fault(first.span.clone(), format!("a second row of {}", first.text)).help(HELP));
        }
    }
    assemble(&input, &lines, &header, &rows)
}

const HELP: &str = "pass the output of `nvidia-smi topo -m` as it is, the header line included";

struct Input<'a> {
    name: &'a str,
    text: &'a str,
}

impl Input<'_> {
    fn fault(&self, span: Range<usize>, label: impl Into<String>) -> Error {
        let line = self.text[..span.start].matches('\n').count() + 1;
        let message = format!("cannot read the topology {}, line {line}", self.name);
        Error::usage(message).at(self.name, self.text, span, label)
    }
}

struct Word<'a> {
    text: &'a str,
    /// In the text as it was given.
    span: Range<usize>,
}

struct Line<'a> {
    words: Vec<Word<'a>>,
    span: Range<usize>,
}

/// Columns of the matrix, and of what follows it.
struct Header<'a> {
    names: Vec<&'a str>,
    gpus: usize,
    extra: Vec<Extra>,
}

#[derive(Clone, Copy, PartialEq)]
enum Extra {
    CpuAffinity,
    NumaAffinity,
    GpuNumaId,
}

struct Row<'a> {
    cells: Vec<(Path, Range<usize>)>,
    cpus: Option<&'a str>,
    numa: Option<u32>,
}

/// The text with terminal control sequences and table rules blanked, byte by byte, so that places in it stay true.
fn blanked(text: &str) -> String {
    let mut in_sequence = false;
    let blank = |c: char| match c {
        '\u{1b}' => {
            in_sequence = true;
            ' '
        }
        'A'..='Z' | 'a'..='z' if in_sequence => {
            in_sequence = false;
            ' '
        }
        '\n' => {
            in_sequence = false;
            '\n'
        }
        '|' => ' ',
        c if in_sequence && c.is_ascii() => ' ',
        c => c,
    };
    let plain: String = text.chars().map(blank).collect();
    // Forums drop the escape character and leave the rest of the sequence.
    plain.replace("[4m", "   ").replace("[0m", "   ")
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    text.lines().map(move |line| {
        let span = |part: &str| offset(part)..offset(part) + part.len();
        let words = line.split_whitespace().map(|word| Word { text: word, span: span(word) }).collect();
        Line { words, span: span(line) }
    })
}

/// The header in a line: names of devices up to the first affinity column, if it has any.
fn header<'a>(line: &Line<'a>) -> Option<Header<'a>> {
    let words: Vec<_> = line.words.iter().map(|word| word.text).collect();
    let first = words.iter().position(|word| gpu_index(word).is_some())?;
    let end = words[first..].iter().position(|word| matches!(*word, "CPU" | "NUMA" | "GPU"));
    let end = end.map_or(words.len(), |end| first + end);
    let names = words[first..end].to_vec();
    let gpus = names.iter().take_while(|name| gpu_index(name).is_some()).count();
    // Names of devices are numbered. Words without a number are those of a row, or of a sentence.
    let numbered = |name: &&str| name.contains(|c: char| c.is_ascii_digit()) && name.parse::<Path>().is_err();
    if !names.iter().all(numbered) || names[gpus..].iter().any(|name| gpu_index(name).is_some()) {
        return None;
    }
    let rest = words[end..].join(" ");
    let known = [
        ("CPU Affinity", Extra::CpuAffinity),
        ("NUMA Affinity", Extra::NumaAffinity),
        ("GPU NUMA ID", Extra::GpuNumaId),
    ];
    let extra = known.into_iter().filter(|(title, _)| rest.contains(title)).map(|(_, extra)| extra).collect();
    Some(Header { names, gpus, extra })
}

fn gpu_index(name: &str) -> Option<u32> {
    name.strip_prefix("GPU").and_then(|index| index.parse().ok())
}

/// Whether a line looks like the row of a GPU: its name, then a path.
fn is_row(line: &Line<'_>) -> bool {
    match &line.words[..] {
        [name, cell, ..] => gpu_index(name.text).is_some() && cell.text.parse::<Path>().is_ok(),
        _ => false,
    }
}

fn row<'a>(input: &Input<'_>, line: &Line<'a>, header: &Header<'_>) -> Result<Row<'a>> {
    let size = header.names.len();
    let fault = |span: &Range<usize>, label: String| Err(input.fault(span.clone(), label).help(HELP));
    let cells = cells(input, line, header)?;
    let itself = header.names.iter().position(|name| *name == line.words[0].text);
    if let Some((path, span)) = itself.and_then(|at| cells.get(at)).filter(|(path, _)| *path != Path::Loc) {
        return fault(span, format!("{path} from {} to itself: the columns are shifted", line.words[0].text));
    }
    let rest = &line.words[1 + size..];
    if let Some(word) = rest.first().filter(|word| word.text.parse().is_ok_and(|path: Path| path != Path::Unknown)) {
        return fault(&word.span, format!("a cell more than the {size} columns of the header"));
    }
    let extra = |which| match header.extra.iter().position(|extra| *extra == which) {
        // An empty column leaves no word, so only a full row tells which word is which.
        Some(at) if rest.len() == header.extra.len() => {
            rest.get(at).map(|word| word.text).filter(|word| *word != "N/A")
        }
        _ => None,
    };
    let numa = extra(Extra::NumaAffinity).and_then(|numa| numa.parse().ok());
    Ok(Row { cells, cpus: extra(Extra::CpuAffinity), numa })
}

/// The cells of a row: as many as the header has columns.
fn cells(input: &Input<'_>, line: &Line<'_>, header: &Header<'_>) -> Result<Vec<(Path, Range<usize>)>> {
    let size = header.names.len();
    let mut cells = Vec::with_capacity(size);
    for (word, column) in line.words[1..].iter().zip(&header.names) {
        let path = match word.text.parse() {
            Ok(path) => path,
            Err(_) if is_status_of_p2p(word.text) => {
                let label = format!("{} is a peer-to-peer status, as `topo -p2p` prints it", word.text);
                return Err(input.fault(word.span.clone(), label).help(HELP));
            }
            // A word newer than this program is a path of unknown kind; anything else is not part of the matrix.
            Err(_) if word.text.len() > 1 && word.text.bytes().all(|byte| byte.is_ascii_uppercase()) => Path::Unknown,
            Err(_) => {
                let label = format!("no path to {column}: the row has {} of {size} cells", cells.len());
                return Err(input.fault(word.span.clone(), label).help(HELP));
            }
        };
        cells.push((path, word.span.clone()));
    }
    if cells.len() < size {
        let label = format!("the row ends after {} of {size} cells", cells.len());
        return Err(input.fault(line.span.clone(), label).help(HELP));
    }
    Ok(cells)
}

fn is_status_of_p2p(word: &str) -> bool {
    matches!(word, "OK" | "CNS" | "GNS" | "TNS" | "NS" | "DR")
}

fn assemble(
    input: &Input<'_>,
    lines: &[Line<'_>],
    header: &Header<'_>,
    rows: &HashMap<&str, Row<'_>>,
) -> Result<Topology> {
    let mut seen = HashSet::new();
    if let Some(twice) = header.names.iter().find(|name| !seen.insert(**name)) {
        return Err(input.fault(0..0, format!("the header names {twice} twice")).help(HELP));
    }
    let missing = header.names[..header.gpus].iter().find(|name| !rows.contains_key(**name));
    if let Some(missing) = missing {
        let end = input.text.trim_end().len();
        return Err(input.fault(end..end, format!("no row of {missing}")).help(HELP));
    }
    for (at, a) in header.names.iter().enumerate() {
        for (other, b) in header.names[..at].iter().enumerate() {
            let (Some(row), Some(transposed)) = (rows.get(a), rows.get(b)) else { continue };
            let ((path, span), (reverse, _)) = (&row.cells[other], &transposed.cells[at]);
            if path != reverse {
                let label = format!("{path} from {a} to {b}, but {reverse} from {b} to {a}");
                return Err(input.fault(span.clone(), label).help(HELP));
            }
        }
    }
    let gpu = |name: &&str| Gpu {
        index: gpu_index(name).unwrap_or_default(),
        numa: rows[*name].numa,
        cpus: rows[*name].cpus.map(str::to_owned),
        ..Gpu::default()
    };
    let (gpus, nics) = header.names.split_at(header.gpus);
    let full_names = nic_legend(lines);
    let nic = |name: &&str| Nic { name: full_names.get(*name).unwrap_or(name).to_string() };
    let cell = |a: usize, b: usize| {
        // Either row does: rows of NICs may be missing.
        let row = rows.get(header.names[a]).map(|row| row.cells[b].0);
        row.or_else(|| rows.get(header.names[b]).map(|row| row.cells[a].0)).unwrap_or(Path::Unknown)
    };
    Ok(Topology::new(gpus.iter().map(gpu).collect(), nics.iter().map(nic).collect(), Vec::new(), cell))
}

/// Names behind NIC0, NIC1, …: lines such as `NIC0: mlx5_0`.
fn nic_legend<'a>(lines: &[Line<'a>]) -> HashMap<&'a str, &'a str> {
    let entry = |line: &Line<'a>| match &line.words[..] {
        [nic, name] => Some((nic.text.strip_suffix(':').filter(|nic| nic.starts_with("NIC"))?, name.text)),
        _ => None,
    };
    lines.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests;
