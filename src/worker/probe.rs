//! The probe: a process that looks at the box through the GPU libraries and tells the supervisor, which never loads them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::gpu::cuda::{Context, Device, DeviceBuffer, Stream};
use crate::gpu::nvml::Management;
use crate::gpu::{GpuError, communicator, cuda};
use crate::topology::{BusId, Driver, DriverPair, GpuFacts, Lanes, P2p, Path};
use crate::wire::Probe;

/// Bytes of one copy that keeps a link busy, how long it is kept so, and how long before it counts.
const LOAD_BYTES: usize = 16 << 20;
const LOAD: Duration = Duration::from_millis(600);
const WARM: Duration = Duration::from_millis(200);
const GLANCE: Duration = Duration::from_millis(20);

/// Looks at driver, GPUs, their processes and the NCCL library. No GPU context is made, so GPUs in use are not disturbed,
/// unless `load` asks for a look at the links while data moves.
#[must_use]
pub fn probe(load: bool) -> Probe {
    let cuda = cuda::devices();
    let gpus = cuda.as_ref().map(|(_, devices)| devices.as_slice()).unwrap_or_default();
    let management = Management::load();
    let mut wiring = wiring(management.as_ref().ok(), gpus);
    if let (true, Ok(management)) = (load, &management) {
        look_under_load(management, gpus, &mut wiring);
    }
    Probe {
        management: management.as_ref().map_err(Clone::clone).and_then(|of| processes(of, gpus)),
        loads: management.map(|of| gpus.iter().map(|gpu| of.load_percent(&gpu.uuid)).collect()).unwrap_or_default(),
        wiring,
        nccl: communicator::version().map(|version| (version, communicator::loaded_from())),
        cuda,
    }
}

fn processes(management: &Management, gpus: &[Device]) -> Result<(String, Vec<crate::gpu::nvml::Process>), GpuError> {
    let driver = management.driver_version()?;
    let processes = gpus.iter().map(|gpu| management.processes(&gpu.uuid, std::process::id()));
    // A GPU whose processes NVML does not tell (a container may hide them) counts as idle.
    Ok((driver, processes.flat_map(Result::unwrap_or_default).collect()))
}

/// What NVML tells, with CUDA's word on who may map whose memory; CUDA's alone where NVML does not answer.
fn wiring(management: Option<&Management>, gpus: &[Device]) -> Driver {
    let mut wiring = management.map(Management::wiring).unwrap_or_default();
    let seen: Vec<(&Device, BusId)> = gpus.iter().filter_map(|gpu| Some((gpu, gpu.bus_id()?))).collect();
    for (gpu, bus_id) in &seen {
        if !wiring.gpus.iter().any(|(known, _)| known == bus_id) {
            let facts = GpuFacts { name: Some(gpu.name.clone()), uuid: Some(gpu.uuid.clone()), ..GpuFacts::default() };
            wiring.gpus.push((*bus_id, facts));
        }
    }
    for ((gpu, from), (peer, to)) in seen.iter().flat_map(|from| seen.iter().map(move |to| (from, to))) {
        let at = |bus_id: &BusId| wiring.gpus.iter().position(|(known, _)| known == bus_id);
        let (Some(from), Some(to)) = (at(from), at(to)) else { continue };
        let access = if from == to { None } else { cuda::can_access_peer(gpu.ordinal, peer.ordinal).ok() };
        match wiring.pairs.iter_mut().find(|pair| (pair.from, pair.to) == (from, to)) {
            Some(pair) => pair.p2p.access = access,
            None if access.is_some() => {
                wiring.pairs.push(DriverPair { from, to, path: Path::Unknown, p2p: P2p { access, ..P2p::default() } });
            }
            None => {}
        }
    }
    wiring
}

/// Reads every GPU's link while all of them copy from host memory; the best that was seen counts.
fn look_under_load(management: &Management, gpus: &[Device], wiring: &mut Driver) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for gpu in gpus {
            // A GPU that cannot be used has no link under load, which is then unknown.
            scope.spawn(|| copy_until(gpu.ordinal, &over));
        }
        std::thread::sleep(WARM);
        let end = Instant::now() + LOAD;
        while Instant::now() < end {
            for (bus_id, facts) in
                wiring.gpus.iter_mut().filter(|(bus_id, _)| gpus.iter().any(|g| g.bus_id() == Some(*bus_id)))
            {
                let (now, best) = (management.link_now(*bus_id), facts.loaded.unwrap_or_default());
                let loaded =
                    Lanes { generation: now.generation.max(best.generation), width: now.width.max(best.width) };
                facts.loaded = (loaded != Lanes::default()).then_some(loaded);
            }
            std::thread::sleep(GLANCE);
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn copy_until(ordinal: u32, over: &AtomicBool) -> Result<(), GpuError> {
    let context = Context::retain(ordinal)?;
    context.bind()?;
    let (stream, buffer, host) = (Stream::create()?, DeviceBuffer::alloc(LOAD_BYTES)?, vec![0; LOAD_BYTES]);
    while !over.load(Ordering::Relaxed) {
        buffer.upload(&host, stream)?;
    }
    buffer.free()?;
    stream.destroy()?;
    context.release()
}
