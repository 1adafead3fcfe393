//! The probe: a process that looks at the box through the GPU libraries and tells the supervisor, which never loads them.

use crate::gpu::cuda::Device;
use crate::gpu::nvml::Management;
use crate::gpu::{GpuError, communicator, cuda};
use crate::wire::Probe;

/// Looks at driver, GPUs, their processes and the NCCL library. No GPU context is made, so GPUs in use are not disturbed.
#[must_use]
pub fn probe() -> Probe {
    let cuda = cuda::devices();
    let gpus = cuda.as_ref().map(|(_, devices)| devices.as_slice()).unwrap_or_default();
    Probe {
        management: management(gpus),
        loads: Management::load()
            .map(|of| gpus.iter().map(|gpu| of.load_percent(&gpu.uuid)).collect())
            .unwrap_or_default(),
        nccl: communicator::version().map(|version| (version, communicator::loaded_from())),
        cuda,
    }
}

fn management(gpus: &[Device]) -> Result<(String, Vec<crate::gpu::nvml::Process>), GpuError> {
    let management = Management::load()?;
    let driver = management.driver_version()?;
    let processes = gpus.iter().map(|gpu| management.processes(&gpu.uuid, std::process::id()));
    // A GPU whose processes NVML does not tell (a container may hide them) counts as idle.
    Ok((driver, processes.flat_map(Result::unwrap_or_default).collect()))
}
