//! What must be known before the first visit: the box as a probe process sees it.

use std::path::Path;
use std::time::Duration;

use super::child::{Child, Heard, Spec, WIRE_FD, signal_of};
use super::emulator;
use super::private::Private;
use super::visit::{Emulation, Setup};
use crate::error::{Error, Kind, Result};
use crate::plan::environment::{Environment, Origin};
use crate::units;
use crate::wire::{Probe, Received};

/// The hidden command that makes the executable a probe.
pub const PROBE: &str = "__probe";

/// The name, in the folder of library links, by which the emulator is brought in for the host's raw clock.
const EMULATED_CLOCK: &str = "libcuda.so.1";
/// Its argument that asks for a look at the links while data moves.
pub const UNDER_LOAD: &str = "load";

/// Puts the folder of library links first on the loader's path; brings in the emulator when there is one.
pub(super) fn lead_to_libraries(environment: &mut Environment, folder: &Path, emulation: Option<&Emulation>) {
    let path = environment.get("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let path = path.map_or_else(|| folder.display().to_string(), |path| format!("{}:{path}", folder.display()));
    environment.set("LD_LIBRARY_PATH", &path, Origin::Tool);
    if let Some(emulation) = emulation {
        // By its link: the place it was built in may have blanks in its name, at which the loader splits.
        environment.set("LD_PRELOAD", &folder.join(EMULATED_CLOCK).display().to_string(), Origin::Tool);
        environment.set("NCCLSWEEP_EMULATE_TOPOLOGY", &emulation.topology, Origin::Tool);
    }
}

/// Looks at the box of a run that is under way.
pub(super) fn probe_again(setup: &Setup, private: &Private, interrupted: &dyn Fn() -> bool) -> Result<Probe> {
    let folder = setup.library_folders.first().map_or(Path::new(""), |folder| folder.as_path());
    probe(&setup.inherited, folder, setup.emulation.as_ref(), setup.deadlines.setup, private, false, interrupted)
}

/// Looks at the box through the library links in `folder`; it may take as long as the start of a worker, since a driver that
/// was not used since boot initialises every GPU first. `load` asks for the links while data moves.
pub fn probe(
    inherited: &[(String, String)],
    folder: &Path,
    emulation: Option<&Emulation>,
    limit: Duration,
    private: &Private,
    load: bool,
    interrupted: &dyn Fn() -> bool,
) -> Result<Probe> {
    // The probe is no measurement: variables that could make NCCL talk or fail stay out of it.
    let mut environment = Environment::inherit(inherited.iter().cloned(), true);
    lead_to_libraries(&mut environment, folder, emulation);
    if emulation.is_some() {
        environment.set("NCCLSWEEP_EMULATE_ROOT", &private.root().display().to_string(), Origin::Tool);
    }
    let mut arguments = vec![PROBE.to_owned(), WIRE_FD.to_string()];
    arguments.extend(load.then(|| UNDER_LOAD.to_owned()));
    let output = private.file("probe.out");
    let spec = Spec { wrap: &[], arguments: &arguments, environment: &environment, output: &output };
    let failed =
        |what: &str| Error::new(Kind::Environment, format!("cannot look at the GPUs: the probe process {what}"));
    let mut child: Child<Probe> = Child::spawn(&spec, None::<&()>).map_err(|error| {
        failed("did not start")
            .because(error)
            .help("limits of this shell may be too tight: `ulimit -a`, above all -n and -u")
    })?;
    match child.hear(limit, interrupted) {
        Heard::Received(Received::Message(probe)) => match emulation.and_then(|_| emulator::complaint(&output)) {
            Some(why) => Err(Error::new(Kind::Environment, format!("the emulator does not start: {why}"))
                .help("correct the variable, or unset it")),
            None => Ok(probe),
        },
        Heard::Received(Received::Garbage(what)) => Err(failed(&format!("said {what}"))),
        Heard::Received(Received::End) => {
            let said = std::fs::read_to_string(&output).unwrap_or_default();
            let said = said.lines().last().map(|line| format!("; its last line: {line}")).unwrap_or_default();
            let signal = child.end().ok().and_then(signal_of).map(|signal| format!(" of {signal}")).unwrap_or_default();
            Err(failed(&format!("died{signal}{said}"))
                .help("a driver or library that cannot even be loaded; try `nvidia-smi`"))
        }
        Heard::Silence => Err(failed(&format!("hangs for {}", units::limit(limit.as_secs_f64())))
            .help("the driver does not answer; try `nvidia-smi`; a wedged GPU needs a reset or a reboot")),
        Heard::Interrupted => Err(Error::new(Kind::Interrupted, "interrupted while looking at the GPUs")),
    }
}
