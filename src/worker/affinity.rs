//! Binding the threads of ranks to CPUs.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::topology::CpuList;

/// Those of `wanted` on which this process may run; `None` when that is none, and the rank is then not bound.
pub(super) fn possible(wanted: Option<&CpuList>) -> Option<CpuList> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    CpuList::new(wanted?.iter().filter(|cpu| allowed.is_set(*cpu as usize) == Ok(true)))
}

/// Binds the calling thread.
pub(super) fn bind(cpus: &CpuList) -> Result<(), String> {
    let mut set = CpuSet::new();
    let bound =
        cpus.iter().try_for_each(|cpu| set.set(cpu as usize)).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    bound.map_err(|error| format!("cannot bind a rank to CPUs {cpus}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_is_bound_and_others_are_left_alone() {
        let allowed = || {
            CpuList::new(
                (0..1024).filter(|cpu| sched_getaffinity(Pid::from_raw(0)).unwrap().is_set(*cpu as usize) == Ok(true)),
            )
        };
        let all = allowed().unwrap();
        let first = CpuList::new(all.iter().take(1)).unwrap();
        let bound = std::thread::spawn(move || {
            bind(&first).unwrap();
            (allowed().unwrap(), first)
        });
        let (bound, first) = bound.join().unwrap();
        assert_eq!(bound, first);
        assert_eq!(possible(Some(&all)), Some(all));
    }

    #[test]
    fn cpus_that_are_not_there_bind_nothing() {
        assert_eq!(possible(Some(&"1000-1023".parse().unwrap())), None);
        assert_eq!(possible(None), None);
        assert!(bind(&"5000".parse().unwrap()).is_err());
    }
}
