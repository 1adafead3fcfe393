//! Faults on order: `KIND@PHASE[,rank=R|all][,gpus=A+B][,size=BYTES][,comm=N][,nth=N][,p=PROB][,when=NCCL_X=V]`, separated by
//! `;`. A kind that a phase cannot have is refused, so that no fault on order stays away in silence.

use crate::noise;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Never comes back.
    Hang,
    Segv,
    Kill,
    Abort,
    /// `_exit(1)`.
    Exit,
    /// One element of the result is wrong.
    Wrong,
    /// One element of the result is not a number.
    Nan,
    /// `ncclCommGetAsyncError` reports, and the stream's CUDA errors follow.
    AsyncError,
    NcclError,
    CudaError,
    /// CUDA and NVML both lose the GPU.
    GpuLost,
    /// Takes this many times as long.
    Slow(f64),
    /// Writes a gigabyte to the debug file.
    LogFlood,
    /// After a hang NVML shows the GPU busy with no process.
    Busy,
    /// A line that is no message on the descriptor that a worker reports to.
    Garbage,
    /// Half a message there, then SIGKILL.
    Torn,
}

/// When it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `cuInit`.
    Load,
    /// `ncclCommInitRank*`.
    Init,
    /// The first collective of a communicator.
    First,
    /// A later eager collective.
    Eager,
    /// A collective being captured.
    Capture,
    /// A collective of a graph that is replayed.
    Replay,
    /// A copy from the device to the host.
    Copy,
    /// A flag that hops between two GPUs.
    Flag,
    /// `ncclCommDestroy`.
    Destroy,
}

/// The moment a fault is looked up for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub phase: Phase,
    pub rank: usize,
    pub bytes: usize,
    /// The GPUs of the communicator as far as they are known, a bit each.
    pub gpus: u64,
    /// Communicators are counted from 1.
    pub communicator: u64,
    /// Calls of this phase on this communicator, counted from 1; equal collectives in a row of one graph are one call, copies
    /// are counted over the process.
    pub nth: u64,
}

/// One fault of the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub kind: Kind,
    pub phase: Phase,
    /// None: every rank.
    rank: Option<usize>,
    bytes: Option<usize>,
    /// GPUs that the communicator must hold, a bit each.
    gpus: u64,
    communicator: Option<u64>,
    nth: Option<u64>,
    probability: f64,
    when: Option<(String, String)>,
}

/// Reads the list.
pub(crate) fn parse(text: &str) -> Result<Vec<Fault>, String> {
    text.split(';').filter(|part| !part.is_empty()).map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<Fault, String> {
    let mut parts = text.split(',');
    let head = parts.next().unwrap_or_default();
    let (kind, phase) = head.split_once('@').ok_or(format!("{head:?} is not KIND@PHASE"))?;
    let mut fault = Fault {
        kind: parse_kind(kind)?,
        phase: parse_phase(phase)?,
        rank: None,
        bytes: None,
        gpus: 0,
        communicator: None,
        nth: None,
        probability: 1.0,
        when: None,
    };
    for part in parts {
        let (key, value) = part.split_once('=').ok_or(format!("{part:?} is not KEY=VALUE"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{part:?}: not a number"));
        match key {
            "rank" if value == "all" => fault.rank = None,
            "rank" => fault.rank = Some(number()? as usize),
            "gpus" => fault.gpus = gpus(value).ok_or(format!("{part:?}: not gpus=A+B"))?,
            "size" => fault.bytes = Some(number()? as usize),
            "comm" => fault.communicator = Some(number()?),
            "nth" => fault.nth = Some(number()?),
            "p" => fault.probability = value.parse().map_err(|_| format!("{part:?}: not a probability"))?,
            "when" => {
                let (name, wanted) = value.split_once('=').ok_or(format!("{part:?} is not when=NAME=VALUE"))?;
                fault.when = Some((name.to_owned(), wanted.to_owned()));
            }
            _ => return Err(format!("{key:?} is none of rank, gpus, size, comm, nth, p, when")),
        }
    }
    if !is_possible(fault.kind, fault.phase) {
        return Err(format!("{head:?}: this kind does not happen in this phase"));
    }
    let known = match fault.phase {
        Phase::Load => 0,
        Phase::Init | Phase::Copy => 1,
        Phase::Flag => 2,
        Phase::First | Phase::Eager | Phase::Capture | Phase::Replay | Phase::Destroy => u64::BITS,
    };
    if fault.gpus.count_ones() > known {
        return Err(format!("{text:?}: so many GPUs are not known in this phase"));
    }
    if !(0.0..=1.0).contains(&fault.probability) {
        return Err(format!("p={} is not a probability", fault.probability));
    }
    Ok(fault)
}

/// Numbers of GPUs joined by `+`, as bits.
fn gpus(text: &str) -> Option<u64> {
    text.split('+').try_fold(0, |all, gpu| {
        let gpu: u32 = gpu.parse().ok().filter(|gpu| *gpu < u64::BITS)?;
        Some(all | 1 << gpu)
    })
}

/// Whether the phase can have the fault: it has data to spoil, time to stretch, a call that can fail or hang.
fn is_possible(kind: Kind, phase: Phase) -> bool {
    let runs = matches!(phase, Phase::First | Phase::Eager | Phase::Replay);
    match kind {
        Kind::Segv | Kind::Kill | Kind::Abort | Kind::Exit | Kind::CudaError | Kind::Garbage | Kind::Torn => true,
        Kind::Hang => phase != Phase::Copy,
        Kind::Busy => phase != Phase::Copy,
        Kind::Wrong | Kind::Nan => runs || phase == Phase::Copy,
        Kind::Slow(_) => runs || phase == Phase::Flag,
        Kind::GpuLost => phase != Phase::Capture,
        Kind::AsyncError => !matches!(phase, Phase::Capture | Phase::Flag),
        Kind::NcclError | Kind::LogFlood => !matches!(phase, Phase::Load | Phase::Copy | Phase::Flag),
    }
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    Ok(match text {
        "hang" => Kind::Hang,
        "segv" => Kind::Segv,
        "kill" => Kind::Kill,
        "abort" => Kind::Abort,
        "exit" => Kind::Exit,
        "wrong" => Kind::Wrong,
        "nan" => Kind::Nan,
        "async-error" => Kind::AsyncError,
        "nccl-error" => Kind::NcclError,
        "cuda-error" => Kind::CudaError,
        "gpu-lost" => Kind::GpuLost,
        "slow" => Kind::Slow(2.0),
        "log-flood" => Kind::LogFlood,
        "busy" => Kind::Busy,
        "garbage" => Kind::Garbage,
        "torn" => Kind::Torn,
        other => match other.strip_prefix("slow:").map(str::parse) {
            Some(Ok(factor)) if factor > 0.0 => Kind::Slow(factor),
            _ => return Err(format!("{text:?} is no kind of fault")),
        },
    })
}

fn parse_phase(text: &str) -> Result<Phase, String> {
    Ok(match text {
        "load" => Phase::Load,
        "init" => Phase::Init,
        "first" => Phase::First,
        "eager" => Phase::Eager,
        "capture" => Phase::Capture,
        "replay" => Phase::Replay,
        "copy" => Phase::Copy,
        "flag" => Phase::Flag,
        "destroy" => Phase::Destroy,
        _ => return Err(format!("{text:?} is no phase")),
    })
}

impl Fault {
    /// Whether this fault strikes now.
    pub(crate) fn strikes(&self, moment: &Moment, seed: u64) -> bool {
        self.phase == moment.phase
            && self.rank.is_none_or(|rank| rank == moment.rank)
            && self.bytes.is_none_or(|bytes| bytes == moment.bytes)
            && self.gpus & moment.gpus == self.gpus
            && self.communicator.is_none_or(|number| number == moment.communicator)
            && self.nth.is_none_or(|nth| nth == moment.nth)
            && self.when.as_ref().is_none_or(|(name, value)| std::env::var(name).as_ref() == Ok(value))
            && (self.probability >= 1.0 || self.draw(moment, seed) < self.probability)
    }

    fn draw(&self, moment: &Moment, seed: u64) -> f64 {
        let rank = if self.rank.is_some() { moment.rank as u64 } else { 0 };
        noise::uniform(&[seed, 5, moment.phase as u64, rank, moment.communicator, moment.bytes as u64, moment.nth])
    }
}

/// The descriptor that workers of ncclsweep report to.
const WIRE: i32 = 3;

/// Ends the process the way the kind says; returns for kinds that do not end it.
pub(crate) fn end_process(kind: Kind) {
    let said: &[u8] = match kind {
        Kind::Garbage => b"NCCL WARN no message of anybody\n",
        Kind::Torn => b"{\"event\":\"phase\",\"at\":{\"pha",
        _ => b"",
    };
    // SAFETY: the pointer and length are those of a live slice; a descriptor that is not open makes the call fail.
    unsafe { libc::write(WIRE, said.as_ptr().cast(), said.len()) };
    let signal = match kind {
        Kind::Segv => libc::SIGSEGV,
        Kind::Kill | Kind::Torn => libc::SIGKILL,
        Kind::Abort => libc::SIGABRT,
        // SAFETY: _exit ends the process; nothing is left to be unsound.
        Kind::Exit => unsafe { libc::_exit(1) },
        _ => return,
    };
    // SAFETY: plain calls with valid arguments; the default action of the signal ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Blocks this thread for good, without using the processor.
pub(crate) fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(phase: Phase, rank: usize) -> Moment {
        Moment { phase, rank, bytes: 14336, gpus: 0b1010, communicator: 1, nth: 1 }
    }

    #[test]
    fn a_fault_strikes_only_where_all_its_conditions_hold() {
        let fault = &parse("hang@first,rank=3,size=14336,comm=1,nth=1").unwrap()[0];
        assert!(fault.strikes(&moment(Phase::First, 3), 0));
        assert!(!fault.strikes(&moment(Phase::First, 2), 0));
        assert!(!fault.strikes(&moment(Phase::Eager, 3), 0));
        assert!(!fault.strikes(&Moment { bytes: 1, ..moment(Phase::First, 3) }, 0));
        assert!(!fault.strikes(&Moment { nth: 2, ..moment(Phase::First, 3) }, 0));
        for (gpus, strikes) in [("1", true), ("1+3", true), ("2", false), ("1+2", false)] {
            let fault = &parse(&format!("hang@first,gpus={gpus}")).unwrap()[0];
            assert_eq!(fault.strikes(&moment(Phase::First, 0), 0), strikes, "{gpus}");
        }
    }

    #[test]
    fn a_list_holds_several_faults() {
        let faults = parse("wrong@replay,rank=all;slow:1.5@eager,p=0.5").unwrap();
        assert_eq!(faults.len(), 2);
        assert_eq!(faults[1].kind, Kind::Slow(1.5));
    }

    #[test]
    fn a_probability_is_met_over_many_calls_and_is_the_same_each_time() {
        let fault = &parse("wrong@eager,p=0.25").unwrap()[0];
        let count = || (0..4000).filter(|&nth| fault.strikes(&Moment { nth, ..moment(Phase::Eager, 0) }, 11)).count();
        assert_eq!(count(), count());
        assert!((900..1100).contains(&count()));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "hang",
            "sing@first",
            "hang@lunch",
            "hang@first,colour=red",
            "hang@first,p=2",
            "slow:x@eager",
            "hang@first,gpus=1+",
            "hang@first,gpus=64",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_fault_that_would_never_strike_is_refused() {
        for text in [
            "hang@copy",
            "busy@copy",
            "gpu-lost@capture",
            "async-error@capture",
            "nccl-error@copy",
            "nccl-error@load",
            "wrong@init",
            "nan@capture",
            "slow@destroy",
            "log-flood@copy",
            "hang@load,gpus=1",
            "hang@init,gpus=1+2",
            "wrong@flag",
            "hang@flag,gpus=0+1+2",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
