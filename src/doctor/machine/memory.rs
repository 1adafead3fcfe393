//! Shared and locked memory.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use super::super::files::Root;
use super::Check;
use crate::units::{Bytes, plural};

/// What a container gets when nothing is said, and too little: NCCL takes about 9 MiB for a connection, so eight ranks fill it.
const TOO_SMALL: u64 = 64 << 20;
/// What NVIDIA advises to give a container (`--shm-size=1g`).
const ENOUGH: u64 = 1 << 30;

pub(super) fn checks(root: Root) -> Vec<Check> {
    let mut checks = vec![match statvfs(&root.path("dev/shm")) {
        Ok(of) => shared(of.blocks() * of.fragment_size(), of.blocks_available() * of.fragment_size()),
        Err(error) => Check::fault("/dev/shm", format!("cannot be used: {error}"))
            .next("NCCL talks through it between processes: mount a tmpfs there"),
    }];
    checks.extend(left(root));
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).ok().map(|(soft, _)| soft);
    let limit = limit.map(|soft| if soft == RLIM_INFINITY { None } else { Some(soft) });
    let adapters = root.names("sys/class/infiniband").unwrap_or_default();
    checks.push(match limit {
        Some(limit) => locked(limit, &adapters),
        None => super::hidden("locked memory", "the limit"),
    });
    checks
}

pub(super) fn shared(total: u64, free: u64) -> Check {
    let name = "/dev/shm";
    let rounded = |bytes: u64| if bytes >= 1 << 20 { Bytes(bytes >> 20 << 20) } else { Bytes(bytes) };
    let shown = format!("{} free of {}", rounded(free), rounded(total));
    let more =
        "in a container give --shm-size=1g or --ipc=host; else remove what is left of old runs, or mount it larger";
    match free {
        free if free <= TOO_SMALL => Check::fault(
            name,
            format!("{shown}: ranks in processes of their own share memory there, and it will not do"),
        )
        .next(more),
        free if free < ENOUGH => Check::warning(name, format!("{shown}: little for many ranks or channels")).next(more),
        _ => Check::ok(name, shown),
    }
}

/// Files of NCCL there that no process holds.
fn left(root: Root) -> Option<Check> {
    let files: Vec<_> = root.names("dev/shm")?.into_iter().filter(|name| name.starts_with("nccl-")).collect();
    if files.is_empty() {
        return None;
    }
    let bytes: u64 = files
        .iter()
        .filter_map(|name| std::fs::metadata(root.path(&format!("dev/shm/{name}"))).ok())
        .map(|file| file.len())
        .sum();
    let shown = format!("{} of NCCL, {} MiB", plural(files.len(), "file"), bytes.div_ceil(1 << 20));
    Some(Check::warning("/dev/shm/nccl-*", shown).next(
        "of running servers, or left by killed ones: `fuser /dev/shm/nccl-*` tells; remove those that nobody holds",
    ))
}

/// The limit of locked memory, none when there is none. Network adapters register memory, which counts; pinned memory of CUDA does not.
pub(in crate::doctor) fn locked(limit: Option<u64>, adapters: &[String]) -> Check {
    let name = "locked memory";
    match limit {
        None => Check::ok(name, "no limit"),
        Some(limit) if adapters.is_empty() => {
            Check::ok(name, format!("limit {}; it matters to network adapters only, and there is none", Bytes(limit)))
        }
        Some(limit) => Check::warning(name, format!("limit {}, and there is {}", Bytes(limit), adapters.join(", ")))
            .next("NCCL's network transports register memory: `ulimit -l unlimited`, LimitMEMLOCK=infinity, or --ulimit memlock=-1"),
    }
}
