//! `ncclsweep topo`: how the GPUs of this box, or of one a file tells of, are wired.

use std::io::Read;
use std::path::Path;

use super::answer::answer;
use super::args::Topo as Args;
use super::devices::Devices;
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::terminal;
use crate::error::{Error, Result};
use crate::record::look::{Look, Source};
use crate::report;
use crate::supervisor::look::{self, Wanted};
use crate::supervisor::private::Private;
use crate::topology::{self, Topology};

/// Longest file that is read: a dump of the largest box is far below.
const MOST: u64 = 16 << 20;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let look = match &args.from {
        Some(file) => read(file)?,
        None => {
            let interrupt = Interrupt::install()?;
            let private = Private::create()?;
            let wanted = Wanted { emulate: args.emulation.emulate.clone(), load: args.load };
            let devices = Devices::of(&args.devices, None)?;
            look::look(&wanted, &private, &|gpus| devices.on(gpus), &|| interrupt.asked())?
        }
    };
    let look = if args.redact { look.redacted() } else { look };
    // It answers anyway; that there is nothing to tell of is what a script must see.
    let nothing = look.topology.gpus.is_empty() && look.graphs.is_empty();
    let exit = if nothing { Exit::Environment } else { Exit::Held };
    answer(exit, |out| report::topology::write(&look, args.format, terminal::style(), out))
}

/// The look that a file tells of: NCCL's topology or graphs, or the output of `nvidia-smi topo -m`.
fn read(file: &Path) -> Result<Look> {
    let name = if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() };
    let failed = |error: std::io::Error| Error::usage(format!("cannot read {name}")).because(error);
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().take(MOST).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|file| file.take(MOST).read_to_end(&mut bytes)),
    };
    read.map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let graphs = text.contains("<graphs");
    let (topology, graphs) = match text.trim_start().starts_with('<') {
        true if graphs => (Topology::default(), topology::parse_graphs(&name, &text)?),
        true => (topology::parse_xml(&name, &text)?, Vec::new()),
        false => (topology::parse_nvidia_smi(&name, &text)?, Vec::new()),
    };
    Ok(Look {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::now(),
        source: Source::File(name),
        emulated: None,
        driver: None,
        cuda: None,
        visible_devices: None,
        unasked: Vec::new(),
        topology,
        graphs,
    })
}
