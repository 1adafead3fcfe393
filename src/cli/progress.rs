//! The live line: which set is being visited, what it measures, what is open, how long it takes.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::terminal;
use crate::collective::Case;
use crate::plan::schedule::{Arm, Plan, Rounds};
use crate::record::pairs::PairTried;
use crate::record::summary::Judged;
use crate::record::visit::{Outcome, Replicate, Visit};
use crate::supervisor::sweep::Observer;
use crate::supervisor::visit::{Planned, Progress};
use crate::units::{Micros, duration, significant};

/// Shows a sweep's progress on stderr: one line that changes on a terminal, nothing but failures elsewhere.
pub struct Live<'a> {
    plan: &'a Plan,
    bar: ProgressBar,
    begun: Instant,
    head: String,
    visit: String,
    standing: String,
    verbose: bool,
}

impl<'a> Live<'a> {
    /// Draws to stderr when that is a terminal and `quiet` is not asked for; `verbose` adds a line for each visit.
    pub fn new(plan: &'a Plan, quiet: bool, verbose: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}").expect("a valid template");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(120));
        let (head, visit, standing) = Default::default();
        Self { plan, bar, begun: Instant::now(), head, visit, standing, verbose }
    }

    /// Takes the line away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }

    fn draw(&self) {
        let parts = [&self.head, &self.visit, &self.standing];
        let shown: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect();
        self.bar.set_message(shown.join(" · "));
    }

    fn note(&mut self, replicate: &Replicate) {
        let case = &self.plan.cases[replicate.case];
        let time = Micros(replicate.median_us);
        let number = replicate.communicator + 1;
        self.visit = format!("{number}/{} {} {} {time}", self.plan.communicators, case.label(), case.mode);
    }
}

/// A line for each case of a visit: the medians of its communicators.
fn typical(plan: &Plan, visit: &Visit) -> Vec<String> {
    let line = |(at, case): (usize, &Case)| {
        let medians = visit.replicates.iter().filter(|replicate| replicate.case == at);
        let medians: Vec<String> = medians.map(|replicate| significant(replicate.median_us)).collect();
        (!medians.is_empty()).then(|| format!("  {} {}: {} µs", case.label(), case.mode, medians.join(" ")))
    };
    plan.cases.iter().enumerate().filter_map(line).collect()
}

impl Observer for Live<'_> {
    fn visit_begins(&mut self, planned: Planned, place: usize, of: usize) {
        let rounds = match self.plan.rounds {
            Rounds::Auto => String::new(),
            Rounds::Fixed(rounds) => format!("/{rounds}"),
        };
        let name = self.plan.arm_name(planned.arm);
        self.head = format!("round {}{rounds}, set {}/{of} {name}", planned.round + 1, place + 1);
        self.visit.clear();
        self.draw();
    }

    fn pair_begins(&mut self, arm: Arm, gpus: [u32; 2], place: usize, of: usize) {
        self.head = format!("pair {}/{of} of {}: GPUs {} and {}", place + 1, self.plan.arm_name(arm), gpus[0], gpus[1]);
        self.visit.clear();
        self.draw();
    }

    fn pair_ended(&mut self, pair: &PairTried) {
        if pair.outcome != Outcome::Completed {
            let name = self.plan.arm_name(pair.arm);
            let line = format!("{name}, GPUs {} and {} alone: {}", pair.gpus[0], pair.gpus[1], pair.outcome);
            self.bar.suspend(|| terminal::note(line));
        }
    }

    fn progress(&mut self, progress: Progress) {
        match progress {
            Progress::Phase(at) => {
                if self.visit.is_empty() {
                    self.bar.set_message(format!("{} · {}", self.head, at.phase));
                }
            }
            Progress::Replicate(replicate) => {
                self.note(replicate);
                self.draw();
            }
        }
    }

    fn visit_ended(&mut self, visit: &Visit) {
        if visit.outcome != Outcome::Completed || self.verbose {
            let name = self.plan.arm_name(visit.arm);
            let took = if self.verbose { format!(" in {}", duration(visit.seconds)) } else { String::new() };
            let line = format!("{name}, round {}: {}{took}", visit.round + 1, visit.outcome);
            self.bar.suspend(|| terminal::note(line));
        }
        if self.verbose {
            self.bar.suspend(|| typical(self.plan, visit).into_iter().for_each(terminal::note));
        }
    }

    fn round_ended(&mut self, rounds: u32, judged: &Judged) {
        if let Some(asked) = self.plan.soak_s {
            let soaked = duration(self.begun.elapsed().as_secs_f64());
            self.standing = format!("soaked {soaked} of {}", duration(asked));
            return self.draw();
        }
        let (decided, of) = judged.decided();
        let each = self.begun.elapsed() / rounds.max(1);
        let left = match self.plan.rounds {
            Rounds::Fixed(planned) => format!(", {:.0} s left", (each * planned.saturating_sub(rounds)).as_secs_f64()),
            Rounds::Auto => String::new(),
        };
        self.standing = format!("{decided} of {of} decided{left}");
        self.draw();
    }
}
