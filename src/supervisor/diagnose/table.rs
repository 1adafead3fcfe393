//! The rows. Special signs come before general ones: the first that holds is told.

use super::Row;
use crate::record::visit::{Outcome, Phase};

/// `CUDA_ERROR_*` codes.
const OUT_OF_MEMORY: i32 = 2;
const STUB_LIBRARY: i32 = 34;
const NO_DEVICE: i32 = 100;
const NO_BINARY_FOR_GPU: i32 = 209;
const ECC: i32 = 214;
const PEER_ACCESS: i32 = 217;
const NVLINK: i32 = 220;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_FAILED: i32 = 719;
const SYSTEM_NOT_READY: i32 = 802;
const DRIVER_MISMATCH: i32 = 803;

pub(super) const ROWS: &[Row] = &[
    Row {
        sign: "Xid 79, `fallen off the bus`, `GPU is lost`",
        holds: |signs| {
            signs.says(&["xid", ": 79,"]) || signs.says(&["fallen off the bus"]) || signs.says(&["gpu is lost"])
        },
        meaning: "a GPU fell off the PCIe bus",
        next: "reboot, then look at its power cables, riser and slot; `dmesg | grep Xid` names its PCI id",
    },
    Row {
        sign: "other Xid errors of the driver",
        holds: |signs| signs.says(&["nvrm: xid"]),
        meaning: "the driver reported a hardware or driver fault of a GPU",
        next: "look the Xid up in NVIDIA's list; `dmesg | grep Xid` shows all of them",
    },
    Row {
        sign: "uncorrectable ECC error (CUDA 214, 220)",
        holds: |signs| signs.cuda(&[ECC, NVLINK]) || signs.says(&["uncorrectable ecc"]),
        meaning: "the memory or a link of a GPU has errors that cannot be corrected",
        next: "`nvidia-smi -q -d ECC,ROW_REMAPPER` shows which GPU; reset it, replace it if it comes back",
    },
    Row {
        sign: "`ncclMaxSharedMem … exceeds device/fn maxSharedMem`, `no kernel image`",
        holds: |signs| {
            signs.cuda(&[NO_BINARY_FOR_GPU])
                || signs.says(&["ncclmaxsharedmem", "exceeds device"])
                || signs.says(&["no kernel image is available"])
        },
        meaning: "the NCCL library is too old for this GPU: it has no kernels for its architecture",
        next: "take a newer library with --nccl PATH",
    },
    Row {
        sign: "a collective hangs, and ranks have different settings: by --rank-env, or as hosts inherit them",
        holds: |signs| signs.mismatched && signs.hung_in_a_collective(),
        meaning: "ranks that chose another algorithm, protocol or number of channels wait for each other for ever",
        next: "that is what a variable that misses one rank does; give it to all ranks (--base), or take it from all (--clean-env)",
    },
    Row {
        sign: "`/dev/shm/nccl-…` of size 0 cannot be attached",
        holds: |signs| signs.says(&["attaching to shared memory", "(size 0)"]),
        meaning: "host memory from cuMem cannot be shared here, as in some containers",
        next: "try --base NCCL_CUMEM_HOST_ENABLE=0",
    },
    Row {
        sign: "`no space left` with `/dev/shm/nccl-…` or `posix_fallocate`; SIGBUS",
        holds: |signs| {
            let full = signs.says(&["no space left"]);
            let shared = signs.says(&["/dev/shm/nccl"]) || signs.says(&["shared memory"]);
            (full && shared)
                || signs.says(&["posix_fallocate failed"])
                || signs.says(&["failed to extend /dev/shm"])
                || signs.signal("SIGBUS")
        },
        meaning: "/dev/shm is full or too small: ranks that talk through host memory share it there",
        next: "`df -h /dev/shm`; remove what is left of old runs; in a container give --shm-size=1g or --ipc=host",
    },
    Row {
        sign: "`Duplicate GPU detected`, `Multiple Ranks are using the same GPU`",
        holds: |signs| signs.says(&["duplicate gpu detected"]) || signs.says(&["using the same gpu"]),
        meaning: "two ranks are on one GPU, or on two MIG slices of one, and this NCCL does not allow it",
        next: "as many --ranks as GPUs, or NCCL 2.30 or later; MIG slices of one GPU cannot talk over NCCL",
    },
    Row {
        sign: "`no algorithm/protocol available`",
        holds: |signs| signs.says(&["no algorithm/protocol available"]),
        meaning: "algorithm and protocol that are asked for cannot be had together on this box",
        next: "leave one of NCCL_ALGO and NCCL_PROTO out; `ncclsweep explain NCCL_ALGO` tells what there is",
    },
    Row {
        sign: "peer access not supported (CUDA 217)",
        holds: |signs| signs.cuda(&[PEER_ACCESS]) || signs.says(&["peer access is not supported"]),
        meaning: "the driver does not let two of these GPUs reach into each other's memory",
        next: "`nvidia-smi topo -p2p r` shows which pairs; a set with NCCL_P2P_DISABLE=1 goes through host memory",
    },
    Row {
        sign: "`no socket interface found`, connections refused or timed out in the bootstrap",
        holds: |signs| {
            signs.says(&["no socket interface found"])
                || signs.says(&["socketpollconnect: connect"])
                || signs.says(&["socketstartconnect: connect"])
        },
        meaning: "the ranks do not find each other over the network interface that NCCL chose",
        next: "name one that works: --base NCCL_SOCKET_IFNAME=lo on a single box",
    },
    Row {
        sign: "`Too many open files`",
        holds: |signs| signs.says(&["too many open files"]),
        meaning: "the process may not open as many files as NCCL needs",
        next: "raise it: `ulimit -n 65536`",
    },
    Row {
        sign: "out of memory (CUDA 2)",
        holds: |signs| signs.cuda(&[OUT_OF_MEMORY]) || signs.says(&["cuda failure", "out of memory"]),
        meaning: "a GPU has not enough free memory for buffers and connections",
        next: "`nvidia-smi` shows who holds it; smaller --sizes, or a smaller NCCL_BUFFSIZE",
    },
    Row {
        sign: "system not ready (CUDA 802)",
        holds: |signs| signs.cuda(&[SYSTEM_NOT_READY]),
        meaning: "the driver waits for the fabric manager of the NVSwitches",
        next: "`systemctl status nvidia-fabricmanager`; its version must be the driver's",
    },
    Row {
        sign: "driver mismatch or stub library (CUDA 803, 34)",
        holds: |signs| signs.cuda(&[DRIVER_MISMATCH, STUB_LIBRARY]) || signs.says(&["driver version is insufficient"]),
        meaning: "the driver's libraries and its kernel module do not fit, or the library is newer than the driver",
        next: "reboot after a driver update; inside a container use the host's libcuda, not a stub",
    },
    Row {
        sign: "no device (CUDA 100)",
        holds: |signs| signs.cuda(&[NO_DEVICE]),
        meaning: "the driver shows no GPU any more",
        next: "`nvidia-smi` and `dmesg | grep -i nvrm` tell since when; reboot",
    },
    Row {
        sign: "wrong data while LL128 is used",
        holds: |signs| signs.wrong() && signs.ll128,
        meaning: "LL128 needs stores of 128 bytes to arrive whole, which not every PCIe path gives",
        next: "do not use this set; name protocols without LL128: NCCL_PROTO=LL,Simple",
    },
    Row {
        sign: "wrong data over P2P",
        holds: |signs| signs.wrong() && signs.p2p,
        meaning: "writes from one GPU into another are lost or garbled: P2P over this path may corrupt",
        next: "do not use this set; look at ACS and IOMMU; a set with NCCL_P2P_DISABLE=1 shows whether host memory is right",
    },
    Row {
        sign: "wrong data otherwise",
        holds: |signs| signs.wrong(),
        meaning: "what arrives is not the sum of what was sent",
        next: "do not use this set; `dmesg | grep -iE 'xid|aer'`, then single GPUs out with --devices",
    },
    Row {
        sign: "a hang with ranks on one GPU that are processes",
        holds: |signs| signs.hung() && signs.oversubscribed && signs.processes,
        meaning: "processes on one GPU take turns unless MPS runs, and a kernel may wait for one whose turn it is not",
        next: "start `nvidia-cuda-mps-control -d`, take --launch threads, or a GPU for each rank",
    },
    Row {
        sign: "a hang with several ranks on a GPU",
        holds: |signs| signs.hung() && signs.oversubscribed,
        meaning: "several ranks share a GPU, which NCCL calls experimental: their kernels can wait for each other",
        next: "try --base NCCL_MAX_CTAS=4, or fewer ranks on a GPU",
    },
    Row {
        sign: "init completes, a collective over P2P never returns",
        holds: |signs| signs.hung_in_a_collective() && signs.p2p,
        meaning: "P2P hangs though the driver allows it; mostly ACS or the IOMMU turns writes between GPUs aside",
        next: "`sudo lspci -vvv | grep ACSCtl` must not show SrcValid+: turn ACS off on the PCIe bridges, boot with iommu=pt; \
               a set with NCCL_P2P_DISABLE=1 shows whether host memory works meanwhile",
    },
    Row {
        sign: "communicator init never returns",
        holds: |signs| signs.hung_in(Phase::Init),
        meaning: "ranks wait for each other while NCCL sets up: one cannot be reached, or its GPU does not answer",
        next: "try --base NCCL_SOCKET_IFNAME=lo; else find the GPU with --devices, a pair at a time",
    },
    Row {
        sign: "the worker never gets past its start",
        holds: |signs| matches!(signs.outcome, Outcome::TimedOut { at: None, .. }) || signs.hung_in(Phase::Start),
        meaning: "the driver does not set up every GPU",
        next: "`nvidia-smi` tells whether it answers; `nvidia-smi -pm 1` keeps GPUs set up; a wedged GPU needs a reset",
    },
    Row {
        sign: "SIGSEGV or CUDA's `invalid argument` with a very small NCCL_BUFFSIZE",
        holds: |signs| {
            let tiny = |value: &str| crate::nccl::number::strtoll(value).value < 4096;
            // Seen with 2.21.5 on two H200: the error of a communicator's init, or the crash of a caller that went on.
            let failed = signs.signal("SIGSEGV") || signs.says(&["cuda failure 1 'invalid argument'"]);
            failed && signs.variable("NCCL_BUFFSIZE").is_some_and(tiny)
        },
        meaning: "NCCL cannot work with buffers of a few bytes: it reads `4M` as 4",
        next: "write the number of bytes: NCCL_BUFFSIZE=4194304",
    },
    Row {
        sign: "SIGKILL that ncclsweep did not send",
        holds: |signs| signs.signal("SIGKILL"),
        meaning: "something else killed the worker: the kernel when memory runs out, or a limit of a container or scheduler",
        next: "`dmesg | grep -i oom` tells; pinned host memory counts too",
    },
    Row {
        sign: "illegal address or failed launch (CUDA 700, 719) over P2P",
        holds: |signs| signs.cuda(&[ILLEGAL_ADDRESS, LAUNCH_FAILED]) && signs.p2p,
        meaning: "a kernel of NCCL failed while GPUs reach into each other's memory",
        next: "`dmesg | grep -iE 'xid|iommu|dmar'` shows refused accesses; compare with a set with NCCL_P2P_DISABLE=1",
    },
    Row {
        sign: "more than 256 MiB of output and log",
        holds: |signs| matches!(signs.outcome, Outcome::Flooded { .. }),
        meaning: "NCCL or a library logs without end",
        next: "look at the lines kept; leave TRACE and NCCL_DEBUG_SUBSYS=ALL out of the environment",
    },
];

/// Lines that tell of something, and not why a visit failed: visits that complete have them too.
pub(super) const MILD: &[Row] = &[Row {
    sign: "`Could not find real path of /sys/class/pci_bus/…`",
    holds: |signs| signs.says(&["could not find real path of /sys"]),
    meaning: "the PCIe tree is hidden, as in VMs and containers: unknown to NCCL, not broken",
    next: "give NCCL the topology with --base NCCL_TOPO_FILE=FILE, or show /sys to the container",
}];
