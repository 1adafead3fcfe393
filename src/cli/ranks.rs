//! How ranks are started, what single ones have of their own, and how many communicators take turns.

use super::args::Sweep;
use crate::error::{Error, Result};
use crate::plan::config::Config;
use crate::plan::env_set::{self, RankEnv};
use crate::plan::schedule::{Launch, Plan};

/// Renumbers the GPUs of a process, which is told its GPU by number.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// `--launch`, else of the configuration, else threads.
pub(super) fn launches(args: &Sweep, config: &Config) -> Result<Vec<Launch>> {
    factor("--launch", &args.launch, config.launch.as_ref(), Launch::Threads)
}

/// `--alive`, else of the configuration, else none.
pub(super) fn alive(args: &Sweep, config: &Config) -> Result<Vec<u32>> {
    factor("--alive", &args.alive, config.alive.as_ref(), 0)
}

/// The values of a factor: those of its flag, else of the configuration, else the usual one; each once.
pub(super) fn factor<T: Clone + PartialEq + std::fmt::Display>(
    flag: &str,
    flags: &[T],
    file: Option<&Vec<T>>,
    standard: T,
) -> Result<Vec<T>> {
    let asked = if flags.is_empty() { file.cloned().unwrap_or_else(|| vec![standard]) } else { flags.to_vec() };
    each_once(flag, &asked)?;
    Ok(asked)
}

fn each_once<T: PartialEq + std::fmt::Display>(flag: &str, values: &[T]) -> Result<()> {
    match values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
        Some((_, twice)) => Err(Error::usage(format!("{flag} names {twice} twice")).help("drop one")),
        None => Ok(()),
    }
}

/// `--rank-env RANK:K=V,…`, where ranks have an environment of their own.
pub(super) fn rank_env(flags: &[String], launches: &[Launch]) -> Result<Vec<RankEnv>> {
    let all = env_set::rank_env_from_flags(flags)?;
    if !all.is_empty() && launches != [Launch::Processes] {
        return Err(Error::usage("--rank-env needs a process for each rank: threads share one environment")
            .help("add --launch processes"));
    }
    if all.iter().any(|of| of.vars.get(VISIBLE).is_some()) {
        return Err(Error::usage(format!("--rank-env cannot give a rank another {VISIBLE}"))
            .help("--devices says which GPU each rank has"));
    }
    Ok(all)
}

/// What is to be said of a plan before its figures are read; `mps` is whether MPS serves its GPUs.
pub(super) fn warnings(plan: &Plan, mps: bool) -> Vec<String> {
    let turns = plan.oversubscribed() && plan.launches.contains(&Launch::Processes) && !mps;
    let said = "processes that share a GPU take turns on it, some milliseconds each, and their figures are of these turns: \
                MPS lets them run at once";
    turns.then(|| said.to_owned()).into_iter().collect()
}

/// Whether the ranks that have variables of their own are there.
pub(super) fn check(rank_env: &[RankEnv], ranks: u32) -> Result<()> {
    match rank_env.iter().find(|of| of.rank >= ranks) {
        Some(of) => Err(Error::usage(format!("--rank-env names rank {}, but there are {ranks}", of.rank))
            .help(format!("ranks count from 0: 0 to {}", ranks - 1))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESSES: [Launch; 1] = [Launch::Processes];

    fn read(flags: &[&str]) -> Result<Vec<RankEnv>> {
        rank_env(&flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>(), &PROCESSES)
    }

    #[test]
    fn a_rank_is_named_with_what_it_has_of_its_own() {
        let all = read(&["3:NCCL_PROTO=", "0:NCCL_ALGO=Ring,NCCL_NTHREADS=256", "3:NCCL_ALGO=Tree"]).unwrap();
        let of: Vec<_> = all.iter().map(|of| (of.rank, of.vars.iter().collect::<Vec<_>>())).collect();
        assert_eq!(of[0], (0, vec![("NCCL_ALGO", "Ring"), ("NCCL_NTHREADS", "256")]));
        assert_eq!(of[1], (3, vec![("NCCL_PROTO", ""), ("NCCL_ALGO", "Tree")]));
    }

    #[test]
    fn what_names_no_rank_or_no_variable_is_refused() {
        for flag in ["NCCL_PROTO=", "x:NCCL_PROTO=LL", "-1:NCCL_PROTO=LL", "3:", "3", "3:NCCL_PROTO", "3:=LL", ""] {
            assert!(read(&[flag]).is_err(), "{flag}");
        }
        assert!(read(&["3:NCCL_PROTO=", "3:NCCL_PROTO=LL"]).unwrap_err().message().contains("twice"));
        assert!(read(&["1:CUDA_VISIBLE_DEVICES=0"]).unwrap_err().next_step().unwrap().contains("--devices"));
    }

    #[test]
    fn threads_have_no_environment_of_their_own() {
        for launches in [&[Launch::Threads][..], &[Launch::Threads, Launch::Processes]] {
            let error = rank_env(&["1:NCCL_PROTO=LL".to_owned()], launches).unwrap_err();
            assert!(error.next_step().unwrap().contains("--launch processes"));
        }
        assert_eq!(rank_env(&[], &[Launch::Threads]).unwrap(), []);
    }

    #[test]
    fn a_rank_that_is_not_there_is_refused() {
        let all = read(&["8:NCCL_PROTO=LL"]).unwrap();
        assert!(check(&all, 8).unwrap_err().next_step().unwrap().contains("0 to 7"));
        assert!(check(&all, 9).is_ok());
    }
}
