//! One rank of a visit: a thread that owns a stream, buffers and, in turn, each communicator.

use nccl_profiler_ncclsweep::recorder;

use super::buffers::{Buffers, chain};
use super::check::compare;
use super::data::POISON;
use super::team::Team;
use super::timing::{self, Call, InTurn};
use super::turns;
use crate::collective::{Case, Mode, Placement};
use crate::gpu::GpuError;
use crate::gpu::communicator::{Communicator, UniqueId};
use crate::gpu::cuda::{Context, DeviceBuffer, Event, Graph, GraphExec, Stream};
use crate::gpu::register::Registered;
use crate::record::visit::{Among, Checks, Doing, Phase, Replicate};
use crate::stats::median_of;
use crate::wire;

type Result<T> = std::result::Result<T, GpuError>;

/// Eager calls between two looks of the warm-up.
const WARM_UP_CALLS: u32 = 10;
/// The warm-up ends at the latest after so many looks.
const WARM_UP_LOOKS: usize = 60;
/// Looks whose median is held against the median of as many before them.
const WARM_UP_WINDOW: usize = 5;
/// The times have settled when the two medians differ by less than this.
const SETTLED: f64 = 0.02;

/// Runs `rank`'s part of the job; a failure ends the process.
pub(super) fn run(team: &Team, rank: u32, context: Context, report_gpus: &dyn Fn()) {
    let done = Rank::start(team, rank, context).and_then(|mut this| {
        (0..team.job.communicators).try_for_each(|index| this.measure_communicators(index, report_gpus))
    });
    if let Err(error) = done {
        team.fail(rank, error);
    }
}

struct Rank<'a> {
    team: &'a Team,
    rank: u32,
    context: Context,
    stream: Stream,
    marks: Vec<Event>,
    buffers: Buffers,
    host: Vec<u8>,
    /// Communicators that are done with and live on.
    kept: Vec<(Communicator, Registered)>,
}

impl<'a> Rank<'a> {
    /// Binds the context and allocates. Barriers keep allocations apart from enqueued work: with several ranks on one GPU,
    /// an allocation waits for that GPU, and a rank's work on it may wait for this rank.
    fn start(team: &'a Team, rank: u32, context: Context) -> Result<Self> {
        context.bind()?;
        let stream = Stream::create()?;
        let samples = team.job.cases.iter().map(|case| team.job.measure.samples(case.mode)).max().unwrap_or(0);
        let marks = (0..=samples.max(1)).map(|_| Event::create()).collect::<Result<_>>()?;
        let buffers = Buffers::alloc(team, rank, stream)?;
        team.meet(rank);
        Ok(Self { team, rank, context, stream, marks, buffers, host: Vec::new(), kept: Vec::new() })
    }

    fn leads(&self) -> bool {
        self.rank == 0
    }

    /// Notes what comes next, for the watchdog.
    fn note(&self, doing: Doing) {
        self.team.note(self.rank, doing);
    }

    fn meet(&self) {
        self.team.meet(self.rank);
    }

    fn synchronize(&self) -> Result<()> {
        self.note(Doing::Synchronize);
        self.stream.synchronize()
    }

    /// Begins a phase on all ranks: none is in it before it is told, so that a failure is never blamed on the phase before.
    fn begin(&self, phase: Phase, communicator: u32, case: Option<usize>) {
        self.meet();
        if self.leads() {
            self.team.begin(phase, communicator, case);
        }
        self.meet();
    }

    /// One replicate of every case, on communicators made for it.
    fn measure_communicators(&mut self, index: u32, report_gpus: &dyn Fn()) -> Result<()> {
        self.begin(Phase::Init, index, None);
        let communicators = (0..self.team.job.in_turn).map(|_| self.join()).collect::<Result<Vec<_>>>()?;
        let registered = communicators.iter().map(|one| self.register(*one)).collect::<Result<Vec<_>>>()?;
        let job = &self.team.job;
        let order = turns::order(job.cases.len(), job.measure.passes, job.salt ^ u64::from(index));
        for (place, case) in order.into_iter().enumerate() {
            self.measure_case(index, &communicators, case, place == 0)?;
        }
        self.meet();
        if index + 1 == self.team.job.communicators && self.rank == self.team.job.host.start {
            // Clocks and temperature belong to the measuring, so they are read before anything is torn down.
            report_gpus();
        }
        self.kept.extend(communicators.into_iter().zip(registered));
        if self.team.job.measure.keep && index + 1 < self.team.job.communicators {
            return Ok(());
        }
        self.begin(Phase::Teardown, index, None);
        self.destroy_kept()
    }

    /// Ends the communicators that are done with. One by one, unless they were to live on: then at once, for most of the time that
    /// NCCL takes it waits for a thread of its own that looks twice a second whether it should end.
    fn destroy_kept(&mut self) -> Result<()> {
        let mut ending = Vec::with_capacity(self.kept.len());
        for (communicator, registered) in std::mem::take(&mut self.kept) {
            self.note(Doing::Destroy);
            registered.undo()?;
            self.meet();
            ending.push(communicator);
        }
        if !self.team.job.measure.keep {
            return ending.into_iter().try_for_each(|communicator| {
                self.note(Doing::Destroy);
                communicator.destroy()?;
                self.meet();
                Ok(())
            });
        }
        self.note(Doing::Destroy);
        let context = self.context;
        let ended: Result<()> = std::thread::scope(|scope| {
            let end = |communicator: Communicator| move || context.bind().and_then(|()| communicator.destroy());
            let threads: Vec<_> = ending.into_iter().map(|communicator| scope.spawn(end(communicator))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a panic ends the process"))
        });
        ended?;
        self.meet();
        Ok(())
    }

    /// Makes a communicator together with the other ranks.
    fn join(&self) -> Result<Communicator> {
        let id = if self.leads() { Some(UniqueId::create()?) } else { None };
        let id = self.team.share_id(self.rank, id);
        self.note(Doing::Init);
        let communicator = Communicator::init(id, self.rank, self.team.ranks())?;
        self.meet();
        Ok(communicator)
    }

    /// Makes this rank's buffers known to a communicator, together with the other ranks.
    fn register(&self, communicator: Communicator) -> Result<Registered> {
        let register = self.team.job.register;
        self.note(Doing::Register);
        let registered = Registered::new(communicator, register, &self.buffers.all())?;
        self.meet();
        if register.is_by_call() {
            self.team.wire.send(&wire::Event::Registered { of: registered.of });
        }
        Ok(registered)
    }

    fn measure_case(&mut self, index: u32, communicators: &[Communicator], case: usize, first: bool) -> Result<()> {
        let team = self.team;
        let of = &team.job.cases[case];
        let data_index = self.data_of(case);
        let turns = self.buffers.turns(team, data_index, self.stream)?;
        let calls = turns.iter().flat_map(|buffers| communicators.iter().map(|one| self.call(*one, of, *buffers)));
        let calls: Vec<Call> = calls.collect();
        let in_turn = InTurn(&calls);

        self.begin(if first { Phase::First } else { Phase::WarmUp }, index, Some(case));
        let mut checks = Checks::default();
        for (turn, call) in (0..).zip(&calls[..communicators.len()]) {
            self.fresh(of, data_index, in_turn)?;
            self.observed(self.number(index) + turn, case, false, |this| {
                this.note(Doing::Enqueue);
                call.enqueue()?;
                this.synchronize()
            })?;
            // A path that spoils the very first call counts as spoiling data, though that call is not timed.
            checks.add(self.check_output(of, data_index, Among::First, turn as usize, call.recv)?);
        }
        self.begin(Phase::WarmUp, index, Some(case));
        let warm_up_calls = self.warm_up(in_turn)? + 1;

        let measure = &team.job.measure;
        let (samples, seen) = match of.mode {
            Mode::Graph => self.time_graph(in_turn, index, case)?,
            Mode::Stream => self.time(in_turn, index, case, |this, samples| {
                let marks = &this.marks[..=samples];
                timing::batches(in_turn, this.stream, measure.launches, marks)?;
                timing::between(marks, measure.launches)
            })?,
            Mode::Sync => self.time(in_turn, index, case, |this, samples| {
                let mut micros = vec![0.0; samples];
                timing::lone_calls(in_turn, &this.team.barrier, this.rank, &mut micros)?;
                Ok(micros)
            })?,
        };
        let samples = team.slowest(self.rank, &samples);
        checks.add(seen);

        self.begin(Phase::Check, index, Some(case));
        checks.add(self.check_chain(in_turn, index, case)?);
        communicators.iter().try_for_each(|one| one.async_error())?;
        let checks = team.all_checks(self.rank, &checks);

        if let (Some(samples_us), Some(checks)) = (samples, checks) {
            let replicate = Replicate {
                communicator: index,
                case,
                mean_us: samples_us.iter().sum::<f64>() / samples_us.len() as f64,
                median_us: median_of(samples_us.iter().copied()),
                warm_up_calls,
                checks,
                samples_us,
            };
            team.wire.send(&wire::Event::Replicate { replicate });
        }
        Ok(())
    }

    /// The number of a replicate's first communicator among all of the visit.
    fn number(&self, index: u32) -> u32 {
        index * self.team.job.in_turn
    }

    fn call(&self, communicator: Communicator, case: &Case, [send, recv]: [DeviceBuffer; 2]) -> Call {
        let (rank, ranks) = (self.rank, self.team.ranks());
        Call {
            function: case.function,
            neighbours: ((rank + 1) % ranks, (rank + ranks - 1) % ranks),
            communicator,
            send: match case.placement {
                Placement::OutOfPlace => send,
                Placement::InPlace => recv,
            },
            recv,
            count: case.size.elements as usize,
            dtype: case.dtype,
            op: case.op,
            stream: self.stream,
        }
    }

    /// Prepares the receive buffers: poison, or the input where the all-reduce is in place.
    fn fresh(&self, case: &Case, data: usize, calls: InTurn) -> Result<()> {
        for Call { recv, .. } in calls.0.iter().step_by(self.team.job.in_turn as usize) {
            match case.placement {
                Placement::OutOfPlace => recv.fill(POISON, self.stream)?,
                Placement::InPlace => recv.copy_from(self.buffers.inputs[data], self.stream)?,
            }
        }
        self.synchronize()?;
        self.meet();
        Ok(())
    }

    /// Calls eagerly until the times have settled; rank 0's times decide for all. Returns the number of calls.
    fn warm_up(&self, calls: InTurn) -> Result<u32> {
        let marks = &self.marks[..2];
        let mut looks: Vec<f64> = Vec::with_capacity(WARM_UP_LOOKS);
        loop {
            self.note(Doing::Enqueue);
            marks[0].record(self.stream)?;
            calls.enqueue_times(WARM_UP_CALLS)?;
            marks[1].record(self.stream)?;
            self.synchronize()?;
            looks.push(marks[1].micros_since(marks[0])?);
            if self.team.agree(self.rank, self.leads().then(|| looks.len() == WARM_UP_LOOKS || has_settled(&looks))) {
                return Ok(looks.len() as u32 * WARM_UP_CALLS);
            }
        }
    }

    fn time_graph(&mut self, calls: InTurn, index: u32, case: usize) -> Result<(Vec<f64>, Checks)> {
        let measure = &self.team.job.measure;
        self.begin(Phase::Capture, index, Some(case));
        let graph = self.instantiate(|| self.stream.capture(|| calls.enqueue_times(measure.graph_length)))?;
        let timed = self.time(calls, index, case, |this, samples| {
            let marks = &this.marks[..=samples];
            timing::replays(graph, this.stream, marks)?;
            timing::between(marks, measure.graph_length)
        })?;
        self.meet();
        self.note(Doing::Destroy);
        graph.destroy()?;
        Ok(timed)
    }

    /// Takes the samples of a case by `take`, which gets their number, in stretches: calls of a stretch overwrite each other's
    /// output, and that of its last is compared. All ranks end their stretches at the same places, which the seed chooses.
    fn time(
        &mut self,
        calls: InTurn,
        index: u32,
        case: usize,
        take: impl Fn(&Self, usize) -> Result<Vec<f64>>,
    ) -> Result<(Vec<f64>, Checks)> {
        let (team, data) = (self.team, self.data_of(case));
        let (of, measure) = (&team.job.cases[case], &team.job.measure);
        let (mut samples, mut checks) = (Vec::with_capacity(measure.samples(of.mode)), Checks::default());
        self.begin(Phase::Timing, index, Some(case));
        for length in turns::stretches(measure, of, team.job.salt ^ (u64::from(index) << 32) ^ case as u64) {
            self.fresh(of, data, calls)?;
            self.note(Doing::Timing);
            team.barrier.wait(self.rank);
            samples.extend(take(self, length)?);
            let last_call = samples.len() * measure.calls_per_sample(of.mode) - 1;
            let recv = calls.last_of(if of.mode == Mode::Sync { length } else { measure.calls_per_sample(of.mode) });
            checks.add(self.check_output(of, data, Among::Timed, last_call, recv)?);
            self.meet();
        }
        Ok((samples, checks))
    }

    fn data_of(&self, case: usize) -> usize {
        let of = &self.team.job.cases[case];
        self.team.data.iter().position(|data| data.is_of(of)).expect("made for all cases")
    }

    /// Captures and instantiates while no rank has work enqueued.
    fn instantiate(&self, capture: impl FnOnce() -> Result<Graph>) -> Result<GraphExec> {
        self.meet();
        self.note(Doing::Capture);
        let graph = capture()?;
        self.meet();
        self.note(Doing::Instantiate);
        let exec = graph.instantiate(self.stream)?;
        self.synchronize()?;
        self.meet();
        Ok(exec)
    }

    /// Calls `untimed` while the profiler plugin records what NCCL uses, and reports it. The plugin's mask is that of the
    /// whole process, so it changes between barriers only.
    fn observed<T>(
        &mut self,
        communicator: u32,
        case: usize,
        captured: bool,
        untimed: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.team.leads_worker(self.rank) {
            recorder::set_mask(true);
        }
        self.meet();
        let value = untimed(self)?;
        self.meet();
        if self.team.leads_worker(self.rank) {
            recorder::set_mask(false);
            self.team.report_used(communicator, case, captured);
        }
        self.meet();
        Ok(value)
    }

    /// Compares the output of the last call, number `call` `among` others, where calls leave one: in place, they reduce what
    /// they reduced.
    fn check_output(
        &mut self,
        case: &Case,
        data: usize,
        among: Among,
        call: usize,
        output: DeviceBuffer,
    ) -> Result<Checks> {
        if case.placement == Placement::InPlace {
            return Ok(Checks::default());
        }
        let mut checks = self.download_and_compare(output, data)?;
        if let Some(wrong) = &mut checks.first_wrong {
            (wrong.among, wrong.call) = (among, call as u32);
        }
        Ok(checks)
    }

    /// Runs a chain of all-reduces, each from fresh input into an output of its own, in the way the case is timed (captured
    /// or eager), and compares every output; as often as is asked for.
    fn check_chain(&mut self, in_turn: InTurn, index: u32, case_index: usize) -> Result<Checks> {
        let (team, stream, data) = (self.team, self.stream, self.data_of(case_index));
        let case = &team.job.cases[case_index];
        let bytes = team.data[data].bytes();
        let calls = chain(team, &team.data[data]);
        let outputs = self.buffers.outputs.part(0, bytes * calls);
        let input = self.buffers.inputs[data];
        let enqueue_all = || {
            (0..calls).zip(in_turn.0.iter().cycle()).try_for_each(|(index, call)| {
                let output = outputs.part(index * bytes, bytes);
                let send = match case.placement {
                    Placement::OutOfPlace => input,
                    Placement::InPlace => {
                        output.copy_from(input, stream)?;
                        output
                    }
                };
                Call { send, recv: output, ..*call }.enqueue()
            })
        };
        let check = |this: &mut Self, graph: Option<GraphExec>| {
            outputs.fill(POISON, stream)?;
            this.synchronize()?;
            this.meet();
            this.note(Doing::Enqueue);
            graph.map_or_else(&enqueue_all, |graph| graph.launch(stream))?;
            this.synchronize()?;
            this.meet();
            this.download_and_compare(outputs, data)
        };
        let (graph, mut checks) = match case.mode {
            // NCCL announces a captured call as it is captured, and one with work for a proxy when its graph is replayed.
            Mode::Graph => self.observed(self.number(index), case_index, true, |this| {
                let graph = Some(this.instantiate(|| stream.capture(enqueue_all))?);
                Ok((graph, check(this, graph)?))
            })?,
            Mode::Stream | Mode::Sync => (None, check(self, None)?),
        };
        for _ in 1..team.job.measure.checks {
            checks.add(check(self, graph)?);
        }
        if let Some(graph) = graph {
            self.meet();
            self.note(Doing::Destroy);
            graph.destroy()?;
        }
        Ok(checks)
    }

    fn download_and_compare(&mut self, outputs: DeviceBuffer, data: usize) -> Result<Checks> {
        self.note(Doing::Copy);
        // Grown only: filling it anew for every check would cost more than the comparison.
        if self.host.len() < outputs.bytes() {
            self.host.resize(outputs.bytes(), 0);
        }
        let host = &mut self.host[..outputs.bytes()];
        outputs.download(host, self.stream)?;
        Ok(compare(&self.team.data[data], self.rank, host))
    }
}

/// Whether the median of the last looks is that of the looks before them.
fn has_settled(looks: &[f64]) -> bool {
    let Some(start) = looks.len().checked_sub(2 * WARM_UP_WINDOW) else { return false };
    let (before, last) = looks[start..].split_at(WARM_UP_WINDOW);
    (median_of(last.iter().copied()) / median_of(before.iter().copied()) - 1.0).abs() < SETTLED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_time_has_not_settled_and_a_steady_one_has() {
        let falling: Vec<f64> = (0..10).map(|look| 200.0 - 10.0 * f64::from(look)).collect();
        assert!(!has_settled(&falling));
        let noisy_but_steady = [100.0, 101.0, 150.0, 100.5, 99.0, 100.0, 101.5, 99.5, 130.0, 100.0];
        assert!(has_settled(&noisy_but_steady));
        assert!(!has_settled(&noisy_but_steady[..9]), "nine looks are too few to tell");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median_of([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median_of([3.0, 1.0, 2.0]), 2.0);
    }
}
