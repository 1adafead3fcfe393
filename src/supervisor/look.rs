//! One look at the box, without a plan and without an NCCL library: `ncclsweep topo`. There is always an answer.

use super::deadlines::Deadlines;
use super::emulator;
use super::prepare::probe;
use super::private::Private;
use super::visit::Emulation;
use super::{provenance, wiring};
use crate::error::{Kind, Result};
use crate::gpu::GpuError;
use crate::gpu::cuda::Device;
use crate::record::look::{Look, Source};
use crate::topology::Topology;

/// Said where neither of the driver's libraries is there: what lacks is told once, in words that are no loader's.
const NO_DRIVER: &str = "there is no NVIDIA driver here: neither libcuda.so.1 nor libnvidia-ml.so.1 is found";

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Name of an emulated box; none for the real one.
    pub emulate: Option<String>,
    /// Look at the links while data moves, too.
    pub load: bool,
}

/// Looks at the box through the kernel and, in a process of its own, through the driver; `devices` tells the GPUs, in the
/// order of ranks, by CUDA's numbers.
pub fn look(
    wanted: &Wanted,
    private: &Private,
    devices: &dyn Fn(&[Device]) -> Result<Vec<u32>>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Look> {
    let emulation = wanted.emulate.as_deref().map(emulation).transpose()?;
    let folder = match &emulation {
        Some(_) => private.library_folder(0, &emulator::find()?, true)?,
        None => private.file("no-library"),
    };
    let inherited: Vec<_> = provenance::environment().collect();
    let root = wiring::root(private, emulation.is_some());
    let mut look = Look {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::now(),
        source: Source::Host(provenance::host()),
        emulated: emulation.as_ref().map(|emulation| emulation.topology.clone()),
        driver: None,
        cuda: None,
        visible_devices: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
        unasked: Vec::new(),
        topology: Topology::default(),
        graphs: Vec::new(),
    };
    let limit = Deadlines::default().setup;
    match probe(&inherited, &folder, emulation.as_ref(), limit, private, wanted.load, interrupted) {
        Ok(probe) => {
            look.topology = wiring::topology(&root, &probe);
            if [probe.cuda.as_ref().err(), probe.management.as_ref().err()].iter().all(is_not_there) {
                look.unasked.push(NO_DRIVER.to_owned());
                return Ok(look);
            }
            match &probe.cuda {
                Ok((version, gpus)) => {
                    look.cuda = Some(version.clone());
                    let devices = if gpus.is_empty() { Vec::new() } else { devices(gpus)? };
                    look.topology = look.topology.with_ranks(&devices, devices.len() as u32);
                }
                Err(error) => look.unasked.push(error.to_string()),
            }
            match probe.management {
                Ok((version, _)) => look.driver = Some(version),
                Err(error) => look.unasked.push(error.to_string()),
            }
        }
        Err(error) if error.kind() == Kind::Interrupted => return Err(error),
        Err(error) => {
            // A driver that hangs or crashes its process is a reason to look at the box, not one to say nothing.
            look.unasked.push(error.to_string());
            look.topology = wiring::kernel(&root);
        }
    }
    Ok(look)
}

fn is_not_there(error: &Option<&GpuError>) -> bool {
    error.is_some_and(GpuError::is_no_library)
}

fn emulation(name: &str) -> Result<Emulation> {
    emulator::known_box(name)?;
    Ok(Emulation { topology: name.to_owned() })
}
