//! [`AcceptPlan`]: what is measured, and what is required of it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::collective::{Mode, SizeList};
use crate::error::Result;
use crate::plan::config::{self, Config};
use crate::plan::settings::Percent;

/// A configuration of a sweep with requirements beside it, in TOML.
#[derive(Clone, Debug)]
pub struct AcceptPlan {
    /// What is measured.
    pub config: Config,
    /// What is required, in the order of the file.
    pub requirements: Vec<Requirement>,
}

/// One line of `[require]`.
#[derive(Clone, Debug)]
pub enum Requirement {
    /// So many GPUs, no more and no fewer.
    Gpus(u32),
    /// Every GPU's name contains this.
    GpuName(String),
    /// The PCIe link of every GPU ran at this generation at least.
    LinkGeneration(u32),
    /// The PCIe link of every GPU was never narrower than this.
    LinkWidth(u32),
    /// So many outputs were compared at least, none of them wrong.
    CheckedOutputs(u64),
    /// The settings of this set took effect in every cell.
    Applied(String),
    /// No GPU was throttled in any visit.
    NoThrottling,
    /// No link repeated a packet in any visit.
    NoReplays,
    /// Times of a set are within bounds.
    Latency(Latency),
    /// A set is faster than another by a factor.
    Speedup(Speedup),
    /// No cell is slower than in an earlier run.
    Golden(Golden),
}

/// Which cells of a set a requirement is about.
#[derive(Clone, Debug)]
pub struct Cells {
    /// Name of the set.
    pub set: String,
    /// Sizes; none for all.
    pub sizes: Option<SizeList>,
    /// Mode; none for all.
    pub mode: Option<Mode>,
}

/// `[[require.latency]]`.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Of which cells.
    pub cells: Cells,
    /// The most that each quantile may take, in µs.
    pub bounds: Vec<(Quantile, f64)>,
}

/// `[[require.speedup]]`.
#[derive(Clone, Debug)]
pub struct Speedup {
    /// Of which cells.
    pub cells: Cells,
    /// The set that must be slower.
    pub over: String,
    /// Time of that set over time of this one, at least.
    pub at_least: f64,
}

/// `[require.golden]`.
#[derive(Clone, Debug)]
pub struct Golden {
    /// The earlier run.
    pub run: PathBuf,
    /// What counts as the same; none for what the plan says.
    pub tolerance: Option<Percent>,
}

/// A quantile of the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// The typical time.
    P50,
    /// 95% of the samples took at most this.
    P95,
    /// 99% of the samples took at most this.
    P99,
}

impl Quantile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::P50, Self::P95, Self::P99];

    /// As a share.
    #[must_use]
    pub const fn share(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P95 => 0.95,
            Self::P99 => 0.99,
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
        })
    }
}

impl AcceptPlan {
    /// The way to a first plan.
    pub const BEGIN: &str = "`ncclsweep accept --example > plan.toml` writes one to begin with";

    /// Reads the file at `path`. A golden run that it names is looked for beside it.
    pub fn load(path: &Path) -> Result<Self> {
        let text = config::read_text(path, "acceptance plan", Self::BEGIN)?;
        let mut plan = Self::parse(&path.display().to_string(), &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for requirement in &mut plan.requirements {
            if let Requirement::Golden(golden) = requirement {
                golden.run = folder.join(&golden.run);
            }
        }
        Ok(plan)
    }

    /// Reads the `text` of a plan called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        super::read::plan(name, text)
    }

    /// The earlier run that the plan asks to compare with.
    #[must_use]
    pub fn golden(&self) -> Option<&Path> {
        self.requirements.iter().find_map(|requirement| match requirement {
            Requirement::Golden(golden) => Some(golden.run.as_path()),
            _ => None,
        })
    }
}
