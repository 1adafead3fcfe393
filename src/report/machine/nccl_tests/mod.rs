//! What nccl-tests' `all_reduce_perf` gives out, for what already reads it: [`text`] and [`json`].
//!
//! Each env set and mode of a run is one start of that program: a block of text, a document of JSON. `docs/formats.md` tells
//! where figures mean something else here than there. Layouts as of nccl-tests 2.19 (`src/util.cu`).

pub(super) mod json;
pub(super) mod text;

use crate::collective::{Case, Dtype, Mode, Op, Placement, Size};
use crate::plan::schedule::Arm;
use crate::record::run::{Cell, Run};
use crate::record::visit::WorkerFacts;
use crate::report::cells::arms;
use crate::report::ink::plain;
use crate::units::Micros;

/// One env set in one mode.
struct Block<'a> {
    run: &'a Run,
    arm: Arm,
    mode: Mode,
    lines: Vec<Line>,
}

/// Both placements of one size: a line.
struct Line {
    size: Size,
    dtype: Dtype,
    op: Op,
    /// Out of place, in place.
    halves: [Option<Half>; 2],
}

/// What one placement measured.
struct Half {
    time: Option<Micros>,
    algbw: f64,
    busbw: f64,
    /// `None` when the data was not checked.
    wrong: Option<u64>,
    replicates: u32,
}

/// How the sizes of a block follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Bytes(u64),
    Factor(u64),
    /// Neither by the same number of bytes nor by the same factor.
    Irregular,
}

/// A rank and its GPU.
struct Device {
    rank: usize,
    pid: u32,
    host: String,
    ordinal: u32,
    /// Without the function, as there.
    address: String,
    name: String,
}

/// The blocks of a run: mode by mode, the baseline first.
fn blocks(run: &Run) -> impl Iterator<Item = Block<'_>> {
    let of =
        move |mode: Mode| arms(run).into_iter().map(move |arm| Block { run, arm, mode, lines: lines(run, arm, mode) });
    run.header.plan.modes().into_iter().flat_map(of)
}

impl Block<'_> {
    fn halves(&self) -> impl Iterator<Item = &Half> {
        self.lines.iter().flat_map(|line| line.halves.iter().flatten())
    }

    fn wrong(&self) -> u64 {
        self.halves().filter_map(|half| half.wrong).sum()
    }

    fn average(&self) -> f64 {
        let measured: Vec<f64> = self.halves().filter(|half| half.time.is_some()).map(|half| half.busbw).collect();
        measured.iter().sum::<f64>() / measured.len().max(1) as f64
    }

    /// What the set's first worker said of itself.
    fn worker(&self) -> Option<&WorkerFacts> {
        self.run.visits.iter().filter(|visit| visit.arm == self.arm).find_map(|visit| visit.worker.as_ref())
    }

    /// Least and most bytes of a message.
    fn ends(&self) -> (u64, u64) {
        let bytes = || self.lines.iter().map(|line| line.size.bytes(line.dtype).0);
        (bytes().min().unwrap_or(0), bytes().max().unwrap_or(0))
    }

    fn step(&self) -> Step {
        let mut bytes: Vec<u64> = self.lines.iter().map(|line| line.size.bytes(line.dtype).0).collect();
        bytes.sort_unstable();
        bytes.dedup();
        let all = |holds: &dyn Fn(&[u64]) -> bool| bytes.windows(2).all(holds);
        match bytes.as_slice() {
            [] | [_] => Step::Bytes(0),
            [first, second, ..] if all(&|pair| pair[1] - pair[0] == second - first) => Step::Bytes(second - first),
            [first, second, ..]
                if second.is_multiple_of(*first) && all(&|pair| pair[1] == pair[0] * (second / first)) =>
            {
                Step::Factor(second / first)
            }
            _ => Step::Irregular,
        }
    }

    /// Calls in one measurement, and how often a graph of them is launched; 0 for no graph.
    fn iterations(&self) -> (u32, u32) {
        let measure = &self.run.header.plan.measure;
        match self.mode {
            Mode::Graph => (measure.graph_length, measure.replays),
            Mode::Stream => (measure.launches, 0),
            Mode::Sync => (measure.calls, 0),
        }
    }

    fn devices(&self) -> Vec<Device> {
        let (plan, provenance) = (&self.run.header.plan, &self.run.header.provenance);
        let of = |rank: usize| {
            let gpu = provenance.gpus.get(rank % plan.devices.len().max(1))?;
            let address = gpu.pci.rsplit_once('.').map_or(gpu.pci.as_str(), |(address, _)| address);
            Some(Device {
                rank,
                pid: self.worker().map_or(0, |worker| worker.pid),
                host: plain(&provenance.host),
                ordinal: gpu.ordinal,
                address: plain(address),
                name: plain(&gpu.name),
            })
        };
        (0..plan.ranks as usize).filter_map(of).collect()
    }
}

/// The cells of an arm in one mode, both placements of a size in one line.
fn lines(run: &Run, arm: Arm, mode: Mode) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let cells: Vec<&Cell> = run.cells.iter().filter(|cell| cell.arm == arm).collect();
    for (at, case) in run.header.plan.cases.iter().enumerate().filter(|(_, case)| case.mode == mode) {
        let half = cells.iter().find(|cell| cell.case == at).map(|cell| half(case, cell));
        let side = match case.placement {
            Placement::OutOfPlace => 0,
            Placement::InPlace => 1,
        };
        let same = |line: &&mut Line| (line.size, line.dtype, line.op) == (case.size, case.dtype, case.op);
        match lines.iter_mut().find(same) {
            Some(line) => line.halves[side] = half,
            None => {
                let mut halves = [None, None];
                halves[side] = half;
                lines.push(Line { size: case.size, dtype: case.dtype, op: case.op, halves });
            }
        }
    }
    lines
}

fn half(case: &Case, cell: &Cell) -> Half {
    let time = cell.mean_us.map(Micros);
    Half {
        time,
        algbw: time.map_or(0.0, |time| case.algbw(time).0),
        busbw: time.map_or(0.0, |time| case.busbw(time, cell.ranks as usize).0),
        wrong: (cell.checked_outputs > 0).then_some(cell.wrong_outputs),
        replicates: cell.replicates,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn sizes_follow_each_other_by_bytes_by_a_factor_or_by_neither() {
        for (tokens, expected) in [
            (vec![1, 2, 3, 4], Step::Bytes(14_336)),
            (vec![4, 1, 2, 8], Step::Factor(2)),
            (vec![1, 2, 5], Step::Irregular),
            (vec![3], Step::Bytes(0)),
        ] {
            let cases: Vec<Case> = tokens.iter().map(|tokens| fixture::case(*tokens, Mode::Graph)).collect();
            let run = fixture::run(&["default"], &cases);
            assert_eq!(blocks(&run).next().unwrap().step(), expected, "{tokens:?}");
        }
    }
}
