//! `--register` and `--rotate-buffers`: the memory that calls send from and receive into.

use clap::Args;

use super::args::read;
use crate::error::{Error, Kind, Result};
use crate::nccl::register::Register;
use crate::plan::config::Config;
use crate::plan::schedule::Library;

/// What is said of buffers.
#[derive(Clone, Debug, Default, Args)]
pub struct Buffers {
    /// Register buffers with NCCL: none, capture, local (2.19), symmetric (2.27); several are a factor [default: none]
    #[arg(long, value_name = "HOW,…", value_delimiter = ',', value_parser = read::<Register>, help_heading = "Cases")]
    pub register: Vec<Register>,
    /// Give each call of a chain buffers of its own, so that large messages do not come out of a cache
    #[arg(long, help_heading = "Cases")]
    pub rotate_buffers: bool,
}

impl Buffers {
    /// `--register`, else of the configuration, else not at all.
    pub fn registers(&self, config: &Config) -> Result<Vec<Register>> {
        super::ranks::factor("--register", &self.register, config.register.as_ref(), Register::None)
    }
}

/// Whether a library has the calls that all of these need.
pub fn check(library: &Library, registers: &[Register]) -> Result<()> {
    let (version, most) = (library.version, registers.iter().copied().max().unwrap_or_default());
    if version >= most.since() {
        return Ok(());
    }
    let since = most.since();
    let message = format!("--register {most} needs NCCL {}.{}; this is {version}", since.major, since.minor);
    Err(Error::new(Kind::Environment, message)
        .help(format!("--nccl takes the path of a newer library; this one is {}", library.path)))
}
