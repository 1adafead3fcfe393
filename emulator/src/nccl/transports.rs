//! Making connections, which happens at the first collective of an algorithm, and the log lines it leaves.

use std::sync::PoisonError;

use super::comm::Comm;
use super::tuning::{RING, TREE};
use super::{env, log};
use crate::settings::Version;
use crate::topology::Transport;

/// Peers of sends are remembered beside the algorithms, from this number on.
const PEERS: usize = 16;

/// Connects for an algorithm unless that was done before.
pub(crate) fn connect(comm: &Comm, algorithm: usize) {
    if !first_time(comm, algorithm) || comm.plan.ranks() == 1 {
        return;
    }
    let (next, previous) = comm.plan.neighbours(comm.rank);
    for channel in 0..comm.plan.channels {
        let (receives, sends) = if algorithm == TREE {
            let (above, below) = comm.plan.tree(comm.rank, channel);
            let ends: Vec<usize> = above.into_iter().chain(below).collect();
            (ends.clone(), ends)
        } else {
            (vec![previous], vec![next])
        };
        for from in receives {
            if comm.plan.transport(from, comm.rank) == Transport::Socket {
                tell_socket(comm, channel, from, comm.rank, "receive");
            }
        }
        sends.into_iter().for_each(|to| tell(comm, channel, comm.rank, to));
    }
    let what = if algorithm == TREE { "trees" } else { "rings" };
    let ring = if algorithm == RING && comm.plan.version.since(24) { ", use ring PXN 0 GDR 1" } else { "" };
    log::info(log::INIT, &format!("Connected all {what}{ring}"));
}

/// Up to 2.21 everything is connected when the communicator is made.
pub(crate) fn connect_all(comm: &Comm) {
    connect(comm, RING);
    connect(comm, TREE);
}

/// Connects to a peer of sends and receives.
pub(crate) fn connect_peer(comm: &Comm, peer: usize) {
    if peer != comm.rank && first_time(comm, PEERS + peer) {
        for channel in 0..2 {
            tell(comm, channel, comm.rank, peer);
        }
    }
}

fn first_time(comm: &Comm, what: usize) -> bool {
    comm.memory.lock().unwrap_or_else(PoisonError::into_inner).connected.insert(what)
}

fn tell(comm: &Comm, channel: usize, from: usize, to: usize) {
    let pair = pair(comm, from, to);
    match comm.plan.transport(from, to) {
        Transport::SameGpu | Transport::Nvlink | Transport::Pcie => {
            let line = format!("Channel {channel:02}/0 : {pair} via P2P/{}", way(comm, from, to));
            log::info(log::INIT | log::P2P, &line);
        }
        Transport::HostMemory => {
            tell_buffers(comm, channel);
            let way = if comm.plan.version >= Version::new(2, 30, 7) { "direct" } else { "direct/direct" };
            log::info(log::INIT | log::SHM, &format!("Channel {channel:02} : {pair} via SHM/{way}"));
        }
        Transport::Socket => tell_socket(comm, channel, from, to, "send"),
    }
}

/// Ranks of one process use each other's pointers; others share memory by handles of the driver, or by CUDA's own.
fn way(comm: &Comm, from: usize, to: usize) -> &'static str {
    match () {
        () if comm.plan.together(from, to) && env::parameter("NCCL_P2P_DIRECT_DISABLE") != Some(1) => "direct pointer",
        () if env::parameter("NCCL_CUMEM_ENABLE") == Some(0) => "IPC",
        () => "CUMEM",
    }
}

/// What a connection through host memory needs: the receiver's end has the buffers of all protocols, the sender's a page. Threads
/// of one process share mapped files.
fn tell_buffers(comm: &Comm, channel: usize) {
    if !comm.plan.version.since(24) {
        return;
    }
    let set = |name: &'static str, default: i64| env::parameter(name).filter(|bytes| *bytes >= 0).unwrap_or(default);
    let buffers =
        set("NCCL_BUFFSIZE", 4 << 20) + set("NCCL_LL_BUFFSIZE", 512 << 10) + set("NCCL_LL128_BUFFSIZE", 4_915_200);
    for (end, bytes) in [("r", 4096 + buffers), ("s", 4096)] {
        let file = format!("{end}{:02x}{:03x}", comm.rank, channel);
        let line = format!("MMAP allocated shareable host buffer /dev/shm/nccl-{file} size {bytes} ptr 0x7f0000000000");
        log::info(log::SHM, &line);
    }
}

fn tell_socket(comm: &Comm, channel: usize, from: usize, to: usize, end: &str) {
    let line = format!("Channel {channel:02}/0 : {} [{end}] via NET/Socket/0", pair(comm, from, to));
    log::info(log::INIT | log::NET, &line);
}

fn pair(comm: &Comm, from: usize, to: usize) -> String {
    format!("{from}[{}] -> {to}[{}]", comm.plan.gpus[from], comm.plan.gpus[to])
}
