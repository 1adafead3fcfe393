//! The four boxes.
//!
//! Figures that were measured or published, and are met within a few percent:
//! - `2xh200-nvlink`: the tables "Seen on 2×H200" (NVLink, host memory, 8 ranks on two GPUs), and two hosts of a GPU each
//!   (`results/processes/2xh200-two-hostids`).
//! - `8xrtxpro6000-switch`: published 48 µs (default: Simple on two channels) against 26 µs (LL, all pairs P2P) at 32 KiB
//!   on eight ranks. On this host NCCL's graph search fails across the sockets (0.1 GB/s, type SYS/SYS, 2 channels), so
//!   that its own model prefers Simple from about 8 KiB on.
//!
//! `8xpcie-flat` and `4x4090-phb` are hosts where the search works and the driver allows no P2P over PCIe: LL through host
//! memory is the default already. Their figures follow from the same model with hops of the same order; nobody measured
//! them.

use super::{Base, Gpu, Hop, HostCosts, Iommu, Machine, Slot, Transport};

/// The names of all boxes; the first is the default.
pub(crate) const NAMES: [&str; 4] = ["8xrtxpro6000-switch", "8xpcie-flat", "4x4090-phb", "2xh200-nvlink"];

/// The box of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static Machine> {
    [&SWITCH, &FLAT, &GEFORCE, &H200].into_iter().find(|machine| machine.name == name)
}

const GIB: u64 = 1 << 30;

const RTX_PRO_6000: Gpu = Gpu {
    name: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    memory: 95 * GIB,
    capability: 120,
    multiprocessors: 188,
    pci_device: 0x2BB5_10DE,
    power_limit_mw: 600_000,
    sm_clock_mhz: 2430,
    memory_clock_mhz: 12_481,
    ecc: true,
};

const BARE_METAL: HostCosts =
    HostCosts { launch: 7.0, submit: 4.0, skew: 0.3, graph_launch: 6.0, wake: 4.0, eager_share: 0.04, callback: 12.7 };

/// Sockets of one host, as two H200 used them that took each other for another host's. LL sends every byte twice, hence twice the
/// wire of Simple; LL128 was not measured. One thread serves all channels: the second costs as much as a step.
const SOCKET: Hop = Hop { step: [8.5, 12.0, 22.8], wire: [1.14, 0.64, 0.57], crowd: 57.0 };

const fn slot(socket: u32, switch: u32, bus: u32) -> Slot {
    Slot { socket, switch, address: bus << 12 }
}

static SWITCH: Machine = Machine {
    name: "8xrtxpro6000-switch",
    gpu: RTX_PRO_6000,
    slots: &[
        slot(0, 0, 0x03),
        slot(0, 0, 0x04),
        slot(0, 1, 0x23),
        slot(0, 1, 0x24),
        slot(1, 2, 0x83),
        slot(1, 2, 0x84),
        slot(1, 3, 0xA3),
        slot(1, 3, 0xA4),
    ],
    cpu: "AMD EPYC 9355 32-Core Processor",
    cpus: &["0-31,64-95", "32-63,96-127"],
    amd: true,
    guest: false,
    iommu: Iommu::Passthrough,
    nvlink: false,
    p2p: true,
    search_fails: true,
    host: BARE_METAL,
    base: Base { ring: [6.0, 9.0, 8.0], tree: [6.4, 9.5, 9.0] },
    hops: &[
        (Transport::Pcie, Hop { step: [1.0, 1.5, 2.3], wire: [0.52, 0.55, 0.6], crowd: 0.8 }),
        (Transport::HostMemory, Hop { step: [1.35, 2.0, 2.9], wire: [0.52, 0.55, 0.6], crowd: 0.8 }),
        (Transport::SameGpu, Hop { step: [1.2, 1.7, 2.4], wire: [0.52, 0.55, 0.6], crowd: 0.8 }),
        (Transport::Socket, SOCKET),
    ],
};

static FLAT: Machine = Machine {
    name: "8xpcie-flat",
    gpu: Gpu { name: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", pci_device: 0x2BB1_10DE, ..RTX_PRO_6000 },
    slots: &[
        slot(0, 0, 0x01),
        slot(0, 1, 0x21),
        slot(0, 2, 0x41),
        slot(0, 3, 0x61),
        slot(0, 4, 0x81),
        slot(0, 5, 0xA1),
        slot(0, 6, 0xC1),
        slot(0, 7, 0xE1),
    ],
    cpu: "AMD EPYC 9554P 64-Core Processor",
    cpus: &["0-127"],
    amd: true,
    guest: false,
    iommu: Iommu::Off,
    nvlink: false,
    p2p: false,
    search_fails: false,
    host: BARE_METAL,
    base: Base { ring: [6.0, 9.0, 8.0], tree: [6.4, 9.5, 9.0] },
    hops: HOST_ONLY,
};

static GEFORCE: Machine = Machine {
    name: "4x4090-phb",
    gpu: Gpu {
        name: "NVIDIA GeForce RTX 4090",
        memory: 24 * GIB,
        capability: 89,
        multiprocessors: 128,
        pci_device: 0x2684_10DE,
        power_limit_mw: 450_000,
        sm_clock_mhz: 2520,
        memory_clock_mhz: 10_501,
        ecc: false,
    },
    slots: &[slot(0, 0, 0x01), slot(0, 1, 0x25), slot(0, 2, 0x41), slot(0, 3, 0x61)],
    cpu: "AMD EPYC 7313P 16-Core Processor",
    cpus: &["0-31"],
    amd: true,
    guest: false,
    iommu: Iommu::Translating,
    nvlink: false,
    p2p: false,
    search_fails: false,
    host: BARE_METAL,
    base: Base { ring: [6.2, 9.2, 8.4], tree: [6.6, 9.8, 9.4] },
    hops: HOST_ONLY,
};

const HOST_ONLY: &[(Transport, Hop)] = &[
    (Transport::HostMemory, Hop { step: [1.6, 2.3, 3.2], wire: [0.5, 0.5, 0.55], crowd: 1.2 }),
    (Transport::SameGpu, Hop { step: [1.5, 2.1, 3.0], wire: [0.5, 0.5, 0.55], crowd: 1.2 }),
    (Transport::Socket, SOCKET),
];

static H200: Machine = Machine {
    name: "2xh200-nvlink",
    gpu: Gpu {
        name: "NVIDIA H200",
        memory: 143_771 << 20,
        capability: 90,
        multiprocessors: 132,
        pci_device: 0x2335_10DE,
        power_limit_mw: 700_000,
        sm_clock_mhz: 1980,
        memory_clock_mhz: 3201,
        ecc: true,
    },
    slots: &[Slot { socket: 0, switch: 0, address: 0x60 }, Slot { socket: 0, switch: 1, address: 0x70 }],
    cpu: "Intel(R) Xeon(R) Platinum 8481C",
    cpus: &["0-31"],
    amd: false,
    guest: true,
    iommu: Iommu::Off,
    nvlink: true,
    p2p: true,
    search_fails: false,
    host: HostCosts {
        launch: 12.0,
        submit: 6.4,
        skew: 0.35,
        graph_launch: 8.0,
        wake: 5.0,
        eager_share: 0.04,
        callback: 12.7,
    },
    base: Base { ring: [2.8, 5.2, 6.2], tree: [3.2, 5.6, 7.0] },
    hops: &[
        (Transport::Nvlink, Hop { step: [2.25, 2.6, 3.8], wire: [0.012, 0.009, 0.008], crowd: 0.0 }),
        (Transport::HostMemory, Hop { step: [2.6, 4.4, 8.6], wire: [0.375, 0.2, 0.108], crowd: 3.0 }),
        (Transport::SameGpu, Hop { step: [3.48, 4.6, 6.0], wire: [0.375, 0.2, 0.108], crowd: 3.0 }),
        (Transport::Socket, SOCKET),
    ],
};
