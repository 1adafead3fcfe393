//! Noise as measured: what `results/statistics/data/aa-communicators-8ranks-hostmem.csv` says of one mode.
//!
//! Six communicators in each of five processes: enough for the spread of communicators (20 degrees of freedom a size), a
//! rough figure for that of processes (4).

use std::path::{Path, PathBuf};

use ncclsweep::error::{Error, Result};

use crate::table::Table;

/// The timing modes of the recorded runs, and their columns.
pub const MODES: [(&str, usize); 3] = [("graph", 6), ("stream", 3), ("sync", 4)];

const PROCESSES: usize = 5;
const COMMUNICATORS: usize = 6;
const SIZES: usize = 5;

/// Noise of one size, as fractions (log scale).
#[derive(Clone, Copy, Debug)]
pub struct OfSize {
    /// SD between communicators of one process.
    pub communicator: f64,
    /// SD that processes add.
    pub process: f64,
    /// How much slower the first communicator of a process is than the others.
    pub first: f64,
    /// The variance between the means of processes, over what their communicators alone would cause.
    pub ratio: f64,
}

/// Noise of one mode.
#[derive(Clone, Debug)]
pub struct Measured {
    pub sizes: Vec<OfSize>,
    /// Correlation over sizes of what communicators add.
    pub correlation: f64,
    /// Correlation over sizes of the levels of processes.
    pub process_correlation: f64,
    /// Skewness of communicators.
    pub skew: f64,
}

/// The folder of results, whatever the working directory.
pub fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/statistics")
}

/// Log times by process, communicator, size.
type Logs = [[[f64; SIZES]; COMMUNICATORS]; PROCESSES];

fn read(column: usize) -> Result<Logs> {
    let path = results().join("data/aa-communicators-8ranks-hostmem.csv");
    let fault = |what: &str| Error::usage(format!("cannot read {}: {what}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|cause| fault("no such text").because(cause))?;
    let mut logs = Logs::default();
    for (at, line) in text.lines().skip(1).enumerate() {
        let time = line.split(',').nth(column).and_then(|cell| cell.parse::<f64>().ok());
        // Rows run over sizes within communicators within processes.
        let slot = logs.get_mut(at / SIZES / COMMUNICATORS).ok_or_else(|| fault("more rows than 5 × 6 × 5"))?;
        slot[at / SIZES % COMMUNICATORS][at % SIZES] = time.ok_or_else(|| fault(line))?.ln();
    }
    Ok(logs)
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// Mean over all pairs of sizes of the correlation of two columns.
fn correlation(rows: &[[f64; SIZES]]) -> f64 {
    let centred = |size: usize| {
        let middle = mean(rows.iter().map(|row| row[size]));
        rows.iter().map(move |row| row[size] - middle)
    };
    let product = |a: usize, b: usize| centred(a).zip(centred(b)).map(|(a, b)| a * b).sum::<f64>();
    let pairs = (0..SIZES).flat_map(|a| (0..a).map(move |b| (a, b)));
    mean(pairs.map(|(a, b)| product(a, b) / (product(a, a) * product(b, b)).sqrt()))
}

/// The noise of the mode in `column`.
pub fn measure(column: usize) -> Result<Measured> {
    let logs = read(column)?;
    let level = |process: usize, size: usize| mean(logs[process].iter().map(|row| row[size]));
    let overall = |size: usize| mean((0..PROCESSES).map(|process| level(process, size)));
    let position = |k: usize, size: usize| mean(logs.iter().map(|process| process[k][size])) - overall(size);
    let mut residuals = Vec::new();
    for (process, communicators) in logs.iter().enumerate() {
        for (k, row) in communicators.iter().enumerate() {
            residuals.push(std::array::from_fn(|size| row[size] - level(process, size) - position(k, size)));
        }
    }
    let freedom = ((PROCESSES - 1) * (COMMUNICATORS - 1)) as f64;
    let of_size = |size: usize| {
        let within = residuals.iter().map(|row: &[f64; SIZES]| row[size].powi(2)).sum::<f64>() / freedom;
        let squares = (0..PROCESSES).map(|process| (level(process, size) - overall(size)).powi(2)).sum::<f64>();
        let (between, cause) = (squares / (PROCESSES - 1) as f64, within / COMMUNICATORS as f64);
        OfSize {
            communicator: within.sqrt(),
            process: (between - cause).max(0.0).sqrt(),
            first: position(0, size) - mean((1..COMMUNICATORS).map(|k| position(k, size))),
            ratio: between / cause,
        }
    };
    let levels: Vec<[f64; SIZES]> =
        (0..PROCESSES).map(|process| std::array::from_fn(|size| level(process, size))).collect();
    let moment = |power: i32, size: usize| mean(residuals.iter().map(|row| row[size].powi(power)));
    Ok(Measured {
        sizes: (0..SIZES).map(of_size).collect(),
        correlation: correlation(&residuals).max(0.0),
        process_correlation: correlation(&levels).max(0.0),
        skew: mean((0..SIZES).map(|size| moment(3, size) / moment(2, size).powf(1.5))).max(0.0),
    })
}

/// Prints what was measured.
pub fn print() -> Result<()> {
    let mut table = Table::new(&[
        "mode",
        "size",
        "communicator_sd",
        "process_sd",
        "first",
        "variance_ratio",
        "correlation",
        "process_correlation",
        "skew",
    ]);
    for (mode, column) in MODES {
        let measured = measure(column)?;
        for (size, of) in measured.sizes.iter().enumerate() {
            let figures = [
                of.communicator,
                of.process,
                of.first,
                of.ratio,
                measured.correlation,
                measured.process_correlation,
                measured.skew,
            ];
            let mut row = vec![mode.to_owned(), size.to_string()];
            row.extend(figures.map(|figure| format!("{figure:.4}")));
            table.push(row);
        }
    }
    table.print();
    table.save(&results().join("calibration.csv"), "cargo xtask calibrate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_mode_has_slow_first_communicators_and_processes_that_differ() {
        let [graph, stream] = [6, 3].map(|column| measure(column).unwrap());
        assert!(stream.sizes.iter().all(|size| size.first > 0.06 && size.process > 0.02));
        assert!(graph.sizes.iter().all(|size| size.first < 0.05 && size.process < 0.012));
        assert!(stream.process_correlation > 0.9 && graph.correlation == 0.0);
    }
}
