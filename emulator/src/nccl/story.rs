//! The lines that NCCL writes while a communicator comes and goes, in the form of the emulated version.

use std::sync::Once;

use super::comm::Comm;
use super::lists::{ALGORITHMS, FUNCTIONS, PROTOCOLS};
use super::log::{BOOTSTRAP, ENV, GRAPH, INIT, NET, TUNING, info};
use super::plan::Plan;
use super::tuning::Tuning;
use super::{dump, env, log};
use crate::settings;
use crate::topology::{Graph, Path};

/// The rank a line is about.
pub(crate) struct Who {
    pub rank: usize,
    pub ranks: usize,
    pub device: usize,
    pub gpu: usize,
    pub hash: u64,
    pub comm: u64,
}

/// Parameters that every initialisation looks at, whether or not they change anything here.
const READ_AT_INIT: [&str; 14] = [
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_P2P_READ_ENABLE",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_WORK_FIFO_BYTES",
];

pub(crate) fn on_unique_id() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| info(BOOTSTRAP | INIT, "Bootstrap: Using eth0:192.0.2.1<0>"));
}

/// The first rank to initialise tells what holds for the process.
pub(crate) fn on_init_start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        info(INIT, "cudaDriverVersion 13000");
        log::version(&format!("NCCL version {}+cuda13.0", settings::get().nccl));
        info(INIT | NET, "NET/Plugin: Could not find: libnccl-net.so");
        info(INIT | NET, "NET/IB : No device found.");
        info(INIT | NET, "NET/Socket : Using [0]eth0:192.0.2.1<0>");
    });
}

pub(crate) fn on_join(who: &Who) {
    info(INIT | NET, "Using network Socket");
    info(INIT, &format!("{} - Init START", head(who)));
}

fn head(who: &Who) -> String {
    let settings = settings::get();
    let prefix = if settings.nccl.since(32) { format!("[Rank {}] ", who.rank) } else { String::new() };
    let Who { rank, ranks, device, gpu, hash, comm } = who;
    let bus = settings.machine.slots[*gpu].address;
    format!(
        "{prefix}ncclCommInitRank comm {comm:#x} rank {rank} nranks {ranks} cudaDev {device} nvmlDev {gpu} busId {bus:x} \
         commId {hash:#x}"
    )
}

/// NCCL_PROTO and NCCL_ALGO are read, and logged, by every rank of every communicator.
pub(crate) fn on_refused() {
    for name in ["NCCL_PROTO", "NCCL_ALGO"] {
        if let Some(value) = env::get(name) {
            info(ENV, &format!("{name} set by environment to {value}"));
        }
    }
}

/// Topology, graphs, rings and trees.
pub(crate) fn on_plan(who: &Who, plan: &Plan) {
    for name in READ_AT_INIT {
        env::parameter(name);
    }
    dump::topology(who.rank, plan);
    if log::wants(GRAPH) {
        system(plan);
        pattern(4, &plan.ring_graph, plan, who.ranks);
        // A plain tree where each host has one GPU, else a balanced one.
        let tree = if plan.hosts(who.rank).0 > 1 && plan.hosts(who.rank).1.len() == 1 { 3 } else { 1 };
        pattern(tree, &plan.tree_graph, plan, who.ranks);
    }
    let Who { rank, ranks, comm, .. } = who;
    let (nodes, local) = plan.hosts(*rank);
    let (local_ranks, local_rank) = (local.len(), local.iter().position(|other| other == rank).unwrap_or(0));
    info(
        INIT,
        &format!(
            "comm {comm:#x} rank {rank} nRanks {ranks} nNodes {nodes} localRanks {local_ranks} localRank {local_rank} \
             MNNVL 0"
        ),
    );
    rings_and_trees(who, plan);
    let chunk = if plan.ring_graph.intra == Path::Nvl { 524_288 } else { 131_072 };
    info(INIT, &format!("P2P Chunksize set to {chunk}"));
}

fn system(plan: &Plan) {
    let machine = plan.machine;
    let (nvlink, pci) = (370.8, 48.0);
    let most = if machine.nvlink && plan.direct { nvlink } else { pci };
    let total = if machine.nvlink { nvlink } else { pci };
    info(GRAPH, &format!("=== System : maxBw {most:.1} totalBw {total:.1} ==="));
    let mut gpus: Vec<usize> = plan.gpus.clone();
    gpus.sort_unstable();
    gpus.dedup();
    let name = |gpu: usize| format!("GPU/0-{:x}", machine.slots[gpu].address);
    let mut sockets: Vec<u32> = gpus.iter().map(|&gpu| machine.slots[gpu].socket).collect();
    sockets.dedup();
    let cpu = if machine.amd { "(1/2/-1)" } else { "(1/1/4)" };
    for socket in sockets {
        info(GRAPH, &format!("CPU/0-{socket:x} {cpu}"));
        for &gpu in gpus.iter().filter(|&&gpu| machine.slots[gpu].socket == socket) {
            let ranks: Vec<String> =
                (0..plan.ranks()).filter(|&rank| plan.gpus[rank] == gpu).map(|rank| rank.to_string()).collect();
            info(GRAPH, &format!("+ PCI[{pci:.1}] - {} ({})", name(gpu), ranks.join(",")));
            if machine.nvlink {
                info(GRAPH, &format!("              + NVL[{nvlink:.1}] - NVS/0-0"));
            }
        }
    }
    info(GRAPH, "==========================================");
    for &a in &gpus {
        let mut line = format!("{} :", name(a));
        for &b in &gpus {
            let path = if plan.direct { machine.path(a, b) } else { machine.pci_path(a, b) };
            let (hops, bandwidth) = match path {
                Path::Loc => (0, 5000.0),
                Path::Nvl => (2, nvlink),
                Path::Sys => (3, 22.0),
                _ => (2, pci),
            };
            line += &format!("{} ({hops}/{bandwidth:.1}/{}) ", name(b), path.name());
        }
        line += &format!("CPU/0-{:x} (1/{pci:.1}/PHB) ", machine.slots[a].socket);
        info(GRAPH, &line);
    }
}

fn pattern(number: u32, graph: &Graph, plan: &Plan, ranks: usize) {
    let Graph { channels, bandwidth, intra, inter } = graph;
    let same = u32::from(number == 4);
    info(
        GRAPH,
        &format!(
            "Pattern {number}, crossNic 0, nChannels {channels}, bw {bandwidth:.6}/{bandwidth:.6}, type {}/{}, \
             sameChannels {same}",
            intra.name(),
            inter.name()
        ),
    );
    let old = !plan.version.since(22);
    for channel in 0..*channels {
        let gpus: Vec<String> = plan
            .ring
            .iter()
            .map(|&rank| {
                let address = plan.machine.slots[plan.gpus[rank]].address;
                if old { format!("GPU/{rank}") } else { format!("GPU/0-{address:x}") }
            })
            .collect();
        debug_assert_eq!(gpus.len(), ranks);
        info(GRAPH, &format!("{channel:2} : {}", gpus.join(" ")));
    }
}

fn rings_and_trees(who: &Who, plan: &Plan) {
    let rank = who.rank;
    let (next, previous) = plan.neighbours(rank);
    let shown = |rank: Option<usize>| rank.map_or("-1".to_owned(), |rank| rank.to_string());
    let mut trees = String::new();
    for channel in 0..plan.channels {
        let (up, below) = plan.tree(rank, channel);
        let down = [0, 1, 2].map(|at| shown(below.get(at).copied())).join("/");
        let up = shown(up);
        info(GRAPH, &format!("Tree {channel} : {up} -> {rank} -> {down}"));
        trees += &format!(" [{channel}] {down}->{rank}->{up}");
    }
    if rank == 0 {
        let order: Vec<String> = plan.ring.iter().map(ToString::to_string).collect();
        for channel in 0..plan.channels {
            info(INIT, &format!("Channel {channel:02}/{:02} : {}", plan.channels, order.join(" ")));
        }
    }
    for channel in 0..plan.channels {
        info(GRAPH, &format!("Ring {channel:02} : {previous} -> {rank} -> {next}"));
    }
    info(INIT, &format!("Trees{trees}"));
}

/// Plugins, tuner tables and what they lead to.
pub(crate) fn on_tuned(who: &Who, plan: &Plan) {
    if who.rank == 0 {
        let fallback = "TUNER/Plugin: Could not find: libnccl-tuner.so. Using internal tuner plugin.";
        info(INIT | TUNING, fallback);
    }
    on_refused();
    if who.rank == 0 {
        if plan.version.since(24) && (env::get("NCCL_ALGO").is_some() || env::get("NCCL_PROTO").is_some()) {
            matrix(&plan.tuning);
        }
        if log::wants(TUNING) {
            tables(plan);
        }
    }
    let (channels, threshold) = (plan.channels, plan.ring_ll_threshold());
    info(INIT, &format!("threadThresholds 8/8/64 | {threshold}/8/64 | 512 | 512"));
    let peer = if plan.ring_graph.intra == Path::Nvl { 32 } else { 2 };
    let p2p = channels.max(if peer == 32 { 32 } else { 0 });
    info(
        INIT,
        &format!(
            "{channels} coll channels, {channels} collnet channels, 0 nvls channels, {p2p} p2p channels, {peer} p2p \
             channels per peer"
        ),
    );
    if who.rank == 0 {
        info(INIT, "CC Off, workFifoBytes 1048576");
    }
}

/// What NCCL_ALGO and NCCL_PROTO leave switched on.
fn matrix(tuning: &Tuning) {
    let mut text = String::from("Enabled NCCL Func/Proto/Algo Matrix:\n     Function | ");
    PROTOCOLS.iter().for_each(|name| text += &format!("{name:>8}  "));
    text += " | ";
    ALGORITHMS.iter().for_each(|name| text += &format!("{name:>13}  "));
    text += "\n";
    for (function, name) in FUNCTIONS.iter().enumerate() {
        text += &format!("{name:>13} | ");
        tuning.protocols[function].iter().for_each(|on| text += &format!("{on:>8}  "));
        text += " | ";
        tuning.algorithms[function].iter().for_each(|on| text += &format!("{on:>13}  "));
        text += "\n";
    }
    info(ENV, &text);
}

/// Latency and bandwidth of every algorithm and protocol, three algorithms a block.
fn tables(plan: &Plan) {
    let tuning = &plan.tuning;
    for block in [0..3, 3..6, 6..7] {
        let algorithms = || block.clone();
        let mut line = String::from("  Algorithm   |");
        algorithms().for_each(|a| line += &format!(" {:>14}   {:>14}   {:>14} |", "", ALGORITHMS[a], ""));
        info(TUNING, &line);
        line = String::from("  Protocol    |");
        (0..9).for_each(|column| line += &format!(" {:>14} |", PROTOCOLS[column % 3]));
        info(TUNING, &line);
        if !plan.version.since(30) {
            line = String::from(" Max NThreads |");
            algorithms().for_each(|a| tuning.max_threads[a].iter().for_each(|n| line += &format!(" {n:>14} |")));
            info(TUNING, &line);
        }
        for (function, name) in FUNCTIONS.iter().enumerate() {
            line = format!("{name:>13} |");
            for a in algorithms() {
                let columns = tuning.latency[function][a].iter().zip(&tuning.bandwidth[function][a]);
                columns.for_each(|(latency, bandwidth)| line += &format!("{latency:>8.1}/{bandwidth:>6.1} |"));
            }
            info(TUNING, &line);
        }
    }
}

pub(crate) fn on_complete(who: &Who) {
    info(INIT, &format!("{} - Init COMPLETE", head(who)));
    if settings::get().nccl.since(22) {
        let Who { rank, ranks, .. } = who;
        info(
            INIT,
            &format!(
                "Init timings - ncclCommInitRank: rank {rank} nranks {ranks} total 0.50 (kernels 0.35, alloc 0.08, \
                 bootstrap 0.00, allgathers 0.00, topo 0.05, graphs 0.01, connections 0.00, rest 0.01)"
            ),
        );
    }
}

pub(crate) fn on_destroy(comm: &Comm, handle: u64, what: &str) {
    let (rank, ranks, device) = (comm.rank, comm.plan.ranks(), comm.device);
    let bus = comm.plan.machine.slots[comm.plan.gpus[rank]].address;
    info(INIT, &format!("comm {handle:#x} rank {rank} nranks {ranks} cudaDev {device} busId {bus:x} - {what}"));
}
