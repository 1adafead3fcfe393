//! What was measured, how sure it is, and which verdict it carries. Pure functions of numbers; `docs/statistics.md` derives them.
//!
//! The stages of a number: [`Sample`] (the iterations of one replicate) → [`Visit`] (one value per communicator of one
//! process) → [`Cell`] (the visits of one env set × case) → [`Comparison`] (a cell against the baseline's) →
//! [`Judgement`] (its verdict within the whole family of cells). The visit is the unit of every interval: communicators
//! of one process share its luck, iterations of one communicator even more so.
//!
//! ```
//! use ncclsweep::stats::{Cell, Looks, Pair, Plan, Sample, Tolerance, Verdict, Visit, judge};
//!
//! # fn main() -> ncclsweep::error::Result<()> {
//! // A replicate: what one communicator measured, its start cut where it settles.
//! let sample = Sample::settled(vec![52.1, 48.9, 49.3, 49.0, 49.2, 48.8, 49.1, 49.4, 49.0, 49.1])?.sample;
//! assert_eq!(sample.median().0, 49.1);
//!
//! // A cell: per visit its round (from 0) and one value for each communicator, in the order they were made.
//! let baseline = [[54.0, 51.0, 50.6], [53.1, 50.2, 51.1], [53.7, 50.9, 50.3]];
//! let tuned = [[43.5, 41.2, 40.8], [42.6, 40.3, 41.0], [43.2, 41.1, 40.4]];
//! let cell = |visits: [[f64; 3]; 3]| {
//!     Cell::new((0..).zip(visits).map(|(round, values)| Visit::new(round, values)).collect::<Result<_, _>>()?)
//! };
//! let (baseline, tuned) = (cell(baseline)?, cell(tuned)?);
//! let typical = baseline.typical().expect("three visits");
//! assert!(typical.interval.0 < typical.point && typical.point < typical.interval.1);
//!
//! // The family: every cell of the run but the baseline's, so that one error rate holds for the whole table.
//! let plan = Plan { tolerance: Tolerance::new(0.05)?, looks: Looks::Auto, error: Plan::ERROR };
//! let judged = judge(&plan, &[Pair { baseline: &baseline, candidate: &tuned, kin: 0 }], 3);
//! assert_eq!(judged[0].verdict, Verdict::Faster);
//! let comparison = judged[0].comparison.expect("three rounds");
//! println!("ratio {:.3}, 95% {:.3?}", comparison.ratio(), comparison.interval(0.95));
//! # Ok(())
//! # }
//! ```
//!
//! Beside it: [`Cell::joint`] makes one cell of all sizes of an env set, judged as a family of its own; [`judge_runs`]
//! compares two runs; a cell whose visits hold their own p95 as single value has the typical p95 with its interval.
//! [`Looks::next`] says when the next verdicts are due; a run should end at a look.

mod cell;
mod comparison;
mod family;
mod paired;
mod sample;
mod sequential;
mod special;
mod spread;
mod unpaired;
mod verdict;

pub use cell::{Cell, Typical, Visit};
pub use comparison::Comparison;
pub use family::{Judgement, Pair, Plan, judge, judge_runs};
pub use sample::{Sample, Settled, Summary, median_of};
pub use sequential::Looks;
pub use verdict::{Tolerance, Undecided, Verdict};

/// The fewest rounds (or visits) from which an interval or a verdict is drawn.
pub const MIN_ROUNDS: usize = 3;
