//! Examples and exit codes under the help of each command. A test reads every one of them.

pub(super) const SWEEP: &str = "\
Examples:
  ncclsweep --gpus 8 --sizes 7168x1..4          default settings against pcie-ll
  ncclsweep --emulate --gpus 8                  rehearse without a GPU
  ncclsweep --set ll:NCCL_PROTO=LL              default against one set of your own
  ncclsweep --vary NCCL_PROTO=LL,Simple --vary NCCL_NTHREADS=256,512
  ncclsweep --config channels --modes graph,sync --rounds 10
  ncclsweep --ranks 8 --gpus 2                  several ranks on each GPU (NCCL 2.30 or later)

Exit status, the first that holds:
  130 interrupted, results are kept   2 usage   3 no GPU, driver or library, or the GPUs are busy
  4 incomplete: a hang, a crash, wrong data   1 a gate failed   5 undecided   0 all decided, every gate held";

pub(super) const REPORT: &str = "\
Examples:
  ncclsweep report results/before
  ncclsweep report results/before --why         what NCCL chose, and the evidence for each variable
  ncclsweep report results/* --format csv       a row for each cell
  ncclsweep report results/before --samples     every sample, for a statistics program
  ncclsweep report results/before --redact --format markdown

Exit status:
  0 shown   2 a run cannot be read";

pub(super) const COMPARE: &str = "\
Examples:
  ncclsweep compare results/before results/after
  ncclsweep compare results/before results/after --tolerance 3%
  ncclsweep compare golden.json results/after --format json

Exit status, the first that holds:
  2 usage, or the runs must not be compared   4 a cell is invalid   1 a cell is slower   5 undecided
  0 no cell is slower";

pub(super) const ACCEPT: &str = "\
Examples:
  ncclsweep accept bench-configs/accept/pcie-8gpu.toml
  ncclsweep accept plan.toml --run results/before     judge a run that was made already
  ncclsweep accept plan.toml --junit accept.xml       for a CI server
  ncclsweep accept plan.toml --emulate                rehearse

Exit status, the first that holds:
  130 interrupted   2 usage   3 no GPU, driver or library, or the GPUs are busy
  4 a requirement was not measured   1 a requirement failed   5 undecided   0 accepted";

pub(super) const EXPORT: &str = "\
Examples:
  ncclsweep export results/before --set pcie-ll --to nccl.conf --output /etc/nccl.conf
  ncclsweep export results/before --set pcie-ll --to systemd
  ncclsweep export results/before --set pcie-ll --to wrapper --output with-nccl
  ncclsweep export results/grid --to tuner-csv        per size the fastest set

Exit status:
  0 written   2 usage, or the run does not carry the set (--force writes it nevertheless)";

pub(super) const IMPORT: &str = "\
Examples:
  ncclsweep import all_reduce_perf.txt --out before
  ncclsweep import all_reduce_perf.json --set pcie-ll
  ncclsweep import run-1.txt run-2.txt run-3.txt --repeats --base NCCL_PROTO=LL
  ncclsweep import - --out before                     from a pipe

Exit status:
  0 imported   2 a file cannot be read, is cut off, mixed, or at odds with itself";

pub(super) const EXPLAIN: &str = "\
Examples:
  ncclsweep explain                  all variables, a line each
  ncclsweep explain buffsize
  ncclsweep explain NCCL_P2P_LEVEL

Exit status:
  0 told   2 no such variable";

pub(super) const COMPLETIONS: &str = "\
Examples:
  ncclsweep completions bash         to ~/.local/share/bash-completion/completions/ncclsweep
  ncclsweep completions zsh          to _ncclsweep in a folder of $fpath
  ncclsweep completions fish         to ~/.config/fish/completions/ncclsweep.fish";

pub(super) const MAN: &str = "\
Examples:
  ncclsweep man                      of ncclsweep itself; pipe it into man -l -
  ncclsweep man compare
  ncclsweep man --out /usr/local/share/man/man1";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::args::Arguments;

    /// The commands in a help text: up to two blanks in a row, where their remark begins.
    fn commands(help: &str) -> Vec<String> {
        let lines = help.lines().filter_map(|line| line.strip_prefix("  ncclsweep"));
        lines.map(|rest| format!("ncclsweep{}", rest.split("  ").next().unwrap_or_default())).collect()
    }

    #[test]
    fn every_command_has_examples_and_each_of_them_is_read() {
        let program = Arguments::command();
        let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
        for command in visible.chain([&program]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = commands(&help);
            assert!(!examples.is_empty(), "{} has no examples", command.get_name());
            for example in examples {
                let words = shell_words::split(&example).unwrap();
                let read = Arguments::try_parse_from(&words);
                assert!(read.is_ok(), "{example}: {}", read.unwrap_err());
            }
        }
    }

    #[test]
    fn the_definition_of_arguments_is_sound() {
        Arguments::command().debug_assert();
    }
}
