//! Collectives and point-to-point calls on their way to the streams.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::comm::{self, Comm};
use super::plan::Choice;
use super::tuning::SIMPLE;
use super::{INTERNAL, INVALID_ARGUMENT, INVALID_USAGE, Nccl, SYSTEM, UNHANDLED_CUDA, env, log, profiler, transports};
use crate::clock;
use crate::cuda::Handle;
use crate::engine::{self, Batch, Collective, Dtype, Engine, Operation, Part, Work};
use crate::fault::{self, Kind};
use crate::noise::Mode;
use crate::settings;
use crate::topology::Transport;

/// One all-reduce call.
pub(crate) struct AllReduce {
    comm: Arc<Comm>,
    send: u64,
    receive: u64,
    count: usize,
    dtype: Dtype,
    operation: Operation,
    stream: Handle,
}

/// One send or receive call.
pub(crate) struct P2p {
    comm: Arc<Comm>,
    part: Part,
    stream: Handle,
}

fn dtype(code: u32) -> Nccl<Dtype> {
    Dtype::from_code(code, settings::get().nccl.since(24)).ok_or_else(|| invalid(&format!("invalid type {code}")))
}

fn invalid(what: &str) -> super::NcclError {
    log::warn("misc/argcheck.cc:63", &format!("AllReduce : {what}"));
    INVALID_ARGUMENT
}

impl AllReduce {
    pub(crate) fn new(
        send: u64,
        receive: u64,
        count: usize,
        dtype_code: u32,
        operation: u32,
        comm: Handle,
        stream: Handle,
    ) -> Nccl<AllReduce> {
        let comm = comm::find(comm)?;
        let dtype = dtype(dtype_code)?;
        let operation = Operation::from_code(operation)
            .ok_or_else(|| invalid(&format!("invalid reduction operation {operation}")))?;
        if count > 0 && (send == 0 || receive == 0) {
            return Err(invalid("sendbuff or recvbuff argument is NULL"));
        }
        Ok(AllReduce { comm, send, receive, count, dtype, operation, stream })
    }

    fn bytes(&self) -> usize {
        self.count * self.dtype.size()
    }
}

impl P2p {
    pub(crate) fn new(
        sends: bool,
        address: u64,
        count: usize,
        dtype_code: u32,
        peer: c_int,
        comm: Handle,
        stream: Handle,
    ) -> Nccl<P2p> {
        let comm = comm::find(comm)?;
        let dtype = dtype(dtype_code)?;
        let bytes = count * dtype.size();
        let peer = usize::try_from(peer).ok().filter(|&peer| peer < comm.plan.ranks());
        let peer = peer.ok_or_else(|| invalid("invalid peer"))?;
        Ok(P2p { comm, part: Part { sends, peer, address, bytes, dtype }, stream })
    }
}

/// The stream of a call; NCCL's default stream is that of the communicator's device.
fn stream_of(engine: &mut Engine, comm: &Comm, handle: Handle) -> Nccl<usize> {
    match handle as u64 {
        0..=2 => Ok(engine.default_stream(comm.device)),
        handle => engine.streams.index(handle).ok_or(UNHANDLED_CUDA),
    }
}

/// Launches an all-reduce.
pub(crate) fn all_reduce(call: &AllReduce) -> Nccl<()> {
    if call.count == 0 {
        return Ok(());
    }
    let comm = &*call.comm;
    let mut choice = comm.choice(call.bytes()).ok_or_else(|| nothing_left(call))?;
    let (stream, captured, shared) = {
        let mut engine = engine::lock();
        let stream = stream_of(&mut engine, comm, call.stream)?;
        if !engine.memory.holds(call.send, call.bytes()) || !engine.memory.holds(call.receive, call.bytes()) {
            return Err(invalid("sendbuff or recvbuff is not a valid device pointer"));
        }
        (stream, engine.streams[stream].capture.is_some(), engine.memory.is_shared(call.receive))
    };
    if captured && shared && is_registered(call, &choice) {
        choice.micros *= share_when_registered(call.bytes());
    }
    strike(comm, captured, call.bytes())?;
    if comm.plan.ranks() == 1 {
        // As NCCL does: a copy, of which neither its log nor a profiler hears.
        enqueue(call, &choice, stream, captured);
        return Ok(());
    }
    transports::connect(comm, choice.algorithm);
    tell_choice(call, &choice);
    let announced = profiler::announce(comm, described(call, &choice, captured)).map(Arc::new);
    let at_replay = captured && comm.plan.has_proxy(comm.rank, choice.algorithm);
    // A callback in its graph tells of a captured call that has work for a proxy. Up to 2.26 nothing tells of others.
    let at_once = !at_replay && (!captured || settings::get().nccl.since(27));
    if at_once {
        announced.iter().for_each(|announced| announced.tell());
    }
    enqueue(call, &choice, stream, captured);
    if let Some(announced) = announced {
        announced.returned();
        if at_replay {
            engine::lock().at_replay(stream, Arc::new(move || announced.tell()));
        }
    }
    Ok(())
}

/// Whether NCCL registers the receive buffer of a captured call, so that peers write to it and not to a buffer of NCCL's.
fn is_registered(call: &AllReduce, choice: &Choice) -> bool {
    let wanted = || env::parameter("NCCL_GRAPH_REGISTER").is_none_or(|value| value != 0);
    let plan = &call.comm.plan;
    choice.protocol == SIMPLE && call.send != call.receive && plan.is_direct() && plan.ranks() > 1 && wanted()
}

/// The share of the time that it then takes: 0.94 at 8 MiB, 0.87 at 32, 0.84 at 64, as between two ranks of one H200
/// (`results/vs-nccl-tests`).
fn share_when_registered(bytes: usize) -> f64 {
    const HALF: f64 = (16 << 20) as f64;
    1.0 - 0.2 * bytes as f64 / (bytes as f64 + HALF)
}

fn described(call: &AllReduce, choice: &Choice, captured: bool) -> profiler::Described {
    profiler::Described {
        choice: *choice,
        dtype: call.dtype,
        send: call.send,
        receive: call.receive,
        count: call.count,
        operation: call.operation as u32,
        // Since 2.26 captured calls are not numbered.
        number: call.comm.calls.fetch_add(u64::from(!captured || !settings::get().nccl.since(26)), Ordering::Relaxed),
        captured,
    }
}

fn enqueue(call: &AllReduce, choice: &Choice, stream: usize, captured: bool) {
    let comm = &*call.comm;
    let next = Collective {
        group: comm.group,
        rank: comm.rank,
        send: call.send,
        receive: call.receive,
        count: call.count,
        dtype: call.dtype,
        operation: call.operation,
        micros: choice.micros + if captured { choice.replayed } else { 0.0 },
        choice: (choice.algorithm << 32 | choice.protocol << 16 | choice.channels) as u64,
    };
    let mut memory = comm.memory.lock().unwrap_or_else(PoisonError::into_inner);
    let collective = match &memory.last {
        Some(last) if **last == next => Arc::clone(last),
        _ => Arc::new(next),
    };
    memory.last = Some(Arc::clone(&collective));
    drop(memory);

    let mut engine = engine::lock();
    let settings = engine.settings;
    let host = &settings.machine.host;
    let mut at = clock::now();
    if !captured {
        let number = engine.groups[comm.group].number;
        let slow = settings.noise.communicator(settings.seed, Mode::Stream, number, call.bytes());
        let busy = !engine.streams[stream].settled;
        // A call on an idle stream starts its kernel before it returns; calls in a row come one launch after the other.
        clock::spend((host.launch * 1e3 * if busy { slow } else { 1.0 }) as u64);
        let submit = host.submit + host.skew * comm.plan.ranks() as f64;
        at = if busy { clock::now() } else { at + (submit * 1e3) as u64 };
    }
    engine.enqueue(stream, Work::Collective(collective), at);
}

/// The line that rank 0 writes for each call.
fn tell_choice(call: &AllReduce, choice: &Choice) {
    if call.comm.rank != 0 || !log::wants(log::TUNING) {
        return;
    }
    let bytes = call.bytes();
    let (algorithm, protocol) = (ALGORITHMS[choice.algorithm], PROTOCOLS[choice.protocol]);
    let version = call.comm.plan.version;
    let line = if version.since(24) {
        let cluster = if version.since(32) { " cgaClusterSize 4" } else { "" };
        let last = choice.channels - 1;
        format!(
            "AllReduce: {bytes} Bytes -> Algo {algorithm} proto {protocol} channel{{Lo..Hi}}={{0..{last}}}{cluster}"
        )
    } else {
        let function = if version.since(23) { "AllReduce: " } else { "" };
        format!(
            "{function}{bytes} Bytes -> Algo {} proto {} time {:.6}",
            choice.algorithm, choice.protocol, choice.estimate
        )
    };
    log::info(log::TUNING, &line);
}

const ALGORITHMS: [&str; 2] = ["TREE", "RING"];
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "SIMPLE"];

/// What NCCL says when the lists leave nothing that this box can do.
fn nothing_left(call: &AllReduce) -> super::NcclError {
    if !call.comm.plan.version.since(24) {
        log::warn("enqueue.cc:1465", "Error : no algorithm/protocol available");
        return INTERNAL;
    }
    let (algo, proto) = (env::get("NCCL_ALGO"), env::get("NCCL_PROTO"));
    let told = |name: &str, value: &Option<String>| {
        value.as_ref().map_or(String::new(), |value| format!(" {name} was set to {value}."))
    };
    let message = format!(
        "Error : no algorithm/protocol available for function AllReduce with datatype {}.{}{}",
        call.dtype.name().to_string_lossy(),
        told("NCCL_ALGO", &algo),
        told("NCCL_PROTO", &proto)
    );
    log::warn("enqueue.cc:1842", &message);
    if algo.is_some() || proto.is_some() { INVALID_USAGE } else { INTERNAL }
}

/// Faults that strike inside the call; those of the running collective strike when it runs.
fn strike(comm: &Comm, captured: bool, bytes: usize) -> Nccl<()> {
    let settings = settings::get();
    if settings.faults.is_empty() {
        return Ok(());
    }
    let moment = engine::lock().groups[comm.group].next_moment(captured, comm.rank, bytes);
    for hit in settings.faults.iter().filter(|fault| fault.strikes(&moment, settings.seed)) {
        match hit.kind {
            Kind::NcclError => {
                log::warn("transport/shm.cc:590", "Error while opening shared memory segment");
                return Err(SYSTEM);
            }
            Kind::CudaError if captured => return Err(UNHANDLED_CUDA),
            Kind::Hang | Kind::Busy if captured => {
                crate::nvml::note_hang(hit.kind == Kind::Busy);
                fault::hang();
            }
            Kind::LogFlood if captured => log::flood(),
            kind @ (Kind::Segv | Kind::Kill | Kind::Abort | Kind::Exit | Kind::Garbage | Kind::Torn) => {
                fault::end_process(kind);
            }
            _ => (),
        }
    }
    Ok(())
}

/// Launches the sends and receives of a group: one batch per communicator and stream.
pub(crate) fn p2p(calls: Vec<P2p>) -> Nccl<()> {
    type Bundle = (Arc<Comm>, Handle, Vec<Part>);
    let mut batches: HashMap<(usize, usize), Bundle> = HashMap::new();
    for call in calls {
        let key = (Arc::as_ptr(&call.comm) as usize, call.stream as usize);
        match batches.entry(key) {
            Entry::Occupied(entry) => entry.into_mut().2.push(call.part),
            Entry::Vacant(entry) => {
                entry.insert((call.comm, call.stream, vec![call.part]));
            }
        }
    }
    for (comm, stream, parts) in batches.into_values() {
        launch_batch(&comm, stream, parts)?;
    }
    Ok(())
}

fn launch_batch(comm: &Comm, handle: Handle, parts: Vec<Part>) -> Nccl<()> {
    if parts.iter().any(|part| !comm.plan.together(comm.rank, part.peer)) {
        log::warn("transport.cc:1", "The emulator sends between ranks of one process only.");
        return Err(SYSTEM);
    }
    for part in &parts {
        transports::connect_peer(comm, part.peer);
    }
    let micros = parts.iter().map(|part| p2p_micros(comm, part)).fold(0.0, f64::max);
    let mut engine = engine::lock();
    let stream = stream_of(&mut engine, comm, handle)?;
    if !parts.iter().all(|part| engine.memory.holds(part.address, part.bytes)) {
        return Err(invalid("buffer is not a valid device pointer"));
    }
    let host = &engine.settings.machine.host;
    let at = clock::now() + (host.submit * 1e3) as u64;
    clock::spend((host.launch * 1e3) as u64);
    let batch = Batch { group: comm.group, rank: comm.rank, parts, micros };
    engine.enqueue(stream, Work::Batch(Arc::new(batch)), at);
    Ok(())
}

/// What a send takes: the start of a kernel, a hop of the Simple protocol, and the bytes at the link's rate.
fn p2p_micros(comm: &Comm, part: &Part) -> f64 {
    let transport = comm.plan.transport(comm.rank, part.peer);
    let rate = match transport {
        Transport::SameGpu => 1000.0,
        Transport::Nvlink => 370.0,
        Transport::Pcie => 50.0,
        Transport::HostMemory => 22.0,
        Transport::Socket => 3.0,
    };
    4.0 + comm.plan.machine.hop(transport).step[2] + part.bytes as f64 / rate * 1e-3
}
