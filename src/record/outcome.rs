//! How a visit ended, what its ranks were doing, and what that means.

use serde::{Deserialize, Serialize};

use super::visit::At;
use crate::gpu::GpuError;
use crate::units;

/// How a visit ended. Every way is a variant, shown and stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything was measured and every output was right.
    Completed,
    /// Everything was measured, some outputs were wrong.
    WrongData,
    /// A GPU library reported an error.
    Failed {
        /// Where.
        at: At,
        /// What.
        error: GpuError,
    },
    /// The worker panicked or refused its job.
    WorkerError {
        /// What it said.
        message: String,
    },
    /// A signal ended the worker.
    Crashed {
        /// The signal's name.
        signal: String,
        /// The last phase it reported.
        at: Option<At>,
    },
    /// The worker exited without finishing.
    Exited {
        /// Exit status.
        code: i32,
        /// The last phase it reported.
        at: Option<At>,
    },
    /// A deadline passed; the worker was killed.
    TimedOut {
        /// The phase that did not end.
        at: Option<At>,
        /// Seconds it was given.
        seconds: f64,
        /// What the ranks were doing; empty when the worker did not say.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ranks: Vec<RanksDoing>,
    },
    /// The worker wrote more output or log than a disk should have to hold; it was killed.
    Flooded {
        /// MiB it had written.
        mib: u64,
        /// The last phase it reported.
        at: Option<At>,
    },
    /// The worker could not be started.
    SpawnFailed {
        /// What the system said.
        message: String,
    },
    /// The worker wrote something that is not its protocol.
    BrokenWire {
        /// What was wrong with it.
        message: String,
    },
    /// A host of the ranks is gone, or answers no more. Says nothing of what was measured, so such a visit is not stored.
    HostLost {
        /// The host, with its ranks.
        host: String,
        /// What was seen of it.
        what: String,
    },
    /// It was not started, since others like it failed.
    NotRun {
        /// Why.
        why: String,
    },
    /// The user interrupted.
    Interrupted,
}

impl Outcome {
    /// Whether the visit's figures may be used.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed)
    }

    /// Whether the worker ended in a way that may leave a GPU in a state in which nothing measured counts.
    #[must_use]
    pub fn may_leave_traces(&self) -> bool {
        match self {
            Self::Crashed { .. } | Self::Exited { .. } | Self::TimedOut { .. } | Self::Failed { .. } => true,
            Self::Completed | Self::WrongData | Self::WorkerError { .. } | Self::Flooded { .. } => false,
            Self::SpawnFailed { .. } | Self::BrokenWire { .. } | Self::NotRun { .. } | Self::Interrupted => false,
            Self::HostLost { .. } => false,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on = |at: At| at.rank.map(|rank| format!(" on rank {rank}")).unwrap_or_default();
        let during = |at: &Option<At>| at.map(|at| format!(" during {}{}", at.phase, on(at))).unwrap_or_default();
        match self {
            Self::Completed => f.write_str("completed"),
            Self::WrongData => f.write_str("wrong data"),
            Self::Failed { at, error } => match at.rank {
                Some(rank) => write!(f, "failed during {} on rank {rank}: {error}", at.phase),
                None => write!(f, "failed during {}: {error}", at.phase),
            },
            Self::WorkerError { message } => write!(f, "worker error: {message}"),
            Self::Crashed { signal, at } => write!(f, "crashed with {signal}{}", during(at)),
            Self::Exited { code, at } => write!(f, "exited with status {code}{}", during(at)),
            Self::TimedOut { at, seconds, ranks } => {
                write!(f, "timed out after {}{}", units::limit(*seconds), during(at))?;
                for (place, some) in ranks.iter().enumerate() {
                    write!(f, "{}{some}", if place == 0 { ": " } else { ", " })?;
                }
                Ok(())
            }
            Self::Flooded { mib, at } => write!(f, "wrote {mib} MiB of output{}", during(at)),
            Self::SpawnFailed { message } => write!(f, "could not be started: {message}"),
            Self::BrokenWire { message } => write!(f, "broke its protocol: {message}"),
            Self::HostLost { host, what } => write!(f, "lost host {host}: {what}"),
            Self::NotRun { why } => write!(f, "not run: {why}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// The call that a rank is in, as it noted before it made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Doing {
    /// The driver, a context, buffers, its own work on the host.
    Start,
    /// It waits for the other ranks.
    Barrier,
    /// `ncclCommInitRank`.
    Init,
    /// `ncclAllReduce`, or `ncclGroupEnd` of a send and a receive.
    Enqueue,
    /// `cuStreamSynchronize`.
    Synchronize,
    /// Capture of a graph.
    Capture,
    /// Instantiation of a graph.
    Instantiate,
    /// The timed region, in which nothing is noted.
    Timing,
    /// A copy to the host and its comparison.
    Copy,
    /// Destruction of a graph or communicator.
    Destroy,
    /// Registration of buffers.
    Register,
}

impl Doing {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 11] = [
        Self::Start,
        Self::Barrier,
        Self::Init,
        Self::Enqueue,
        Self::Synchronize,
        Self::Capture,
        Self::Instantiate,
        Self::Timing,
        Self::Copy,
        Self::Destroy,
        Self::Register,
    ];

    /// With the verb: one rank, or several.
    fn phrase(self, several: bool) -> String {
        let (verb, object) = match self {
            Self::Start => ("is", "starting"),
            Self::Barrier => ("wait", "for the others"),
            Self::Init => ("wait", "in ncclCommInitRank"),
            Self::Enqueue => ("wait", "in the call of a collective"),
            Self::Synchronize => ("wait", "in cuStreamSynchronize"),
            Self::Capture => ("wait", "in the capture of a graph"),
            Self::Instantiate => ("wait", "in the instantiation of a graph"),
            Self::Timing => ("is", "in the timed calls"),
            Self::Copy => ("wait", "in a copy to the host"),
            Self::Destroy => ("wait", "in a destruction"),
            Self::Register => ("wait", "in the registration of buffers"),
        };
        let verb = match (verb, several) {
            ("is", true) => "are",
            ("wait", false) => "waits",
            (verb, _) => verb,
        };
        format!("{verb} {object}")
    }
}

/// Ranks that do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RanksDoing {
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
    /// What they do.
    pub doing: Doing,
}

impl RanksDoing {
    /// Groups what each rank does, those in a call of a library first: they are what the others wait for.
    #[must_use]
    pub fn of(ranks: impl Iterator<Item = (u32, Doing)>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (rank, doing) in ranks {
            match groups.iter_mut().find(|group| group.doing == doing) {
                Some(group) => group.ranks.push(rank),
                None => groups.push(Self { ranks: vec![rank], doing }),
            }
        }
        groups.sort_by_key(|group| (group.doing == Doing::Barrier, group.ranks[0]));
        groups
    }

    /// Each rank by itself, in the order of the groups.
    pub fn each(groups: &[Self]) -> impl Iterator<Item = (u32, Doing)> + '_ {
        groups.iter().flat_map(|group| group.ranks.iter().map(|rank| (*rank, group.doing)))
    }
}

impl std::fmt::Display for RanksDoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let several = self.ranks.len() > 1;
        let runs = self.ranks.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        });
        let word = if several { "ranks" } else { "rank" };
        write!(f, "{word} {} {}", runs.collect::<Vec<_>>().join(","), self.doing.phrase(several))
    }
}

/// What the signs of a failure mean, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Diagnosis {
    /// What was seen.
    pub sign: String,
    /// What is the matter.
    pub meaning: String,
    /// The next step.
    pub next: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::visit::Phase;

    #[test]
    fn every_call_stands_at_the_place_of_its_number() {
        for (place, doing) in Doing::ALL.into_iter().enumerate() {
            assert_eq!(doing as usize, place);
        }
    }

    #[test]
    fn a_time_out_tells_what_the_ranks_wait_in() {
        let doing = [Doing::Barrier, Doing::Barrier, Doing::Barrier, Doing::Synchronize, Doing::Barrier];
        let at = At { phase: Phase::First, communicator: 0, case: Some(0), rank: None };
        let outcome = Outcome::TimedOut { at: Some(at), seconds: 2.0, ranks: RanksDoing::of((0..).zip(doing)) };
        let told = "timed out after 2 s during first collective: rank 3 waits in cuStreamSynchronize, ranks 0-2,4 wait for \
                    the others";
        assert_eq!(outcome.to_string(), told);
    }
}
