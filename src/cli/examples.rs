//! Examples and exit codes under the help of each command. A test reads every one of them.

use clap::{Command, CommandFactory};

use super::args::Arguments;

/// The program's commands with their examples.
pub(super) fn command() -> Command {
    let program = short(Arguments::command()).after_help(SWEEP).mut_subcommand("sweep", short);
    let names: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let known = |name: &str| ALL.iter().find(|(of, _)| *of == name).map(|(_, text)| *text);
    let with = |program: Command, name: String| match known(&name) {
        Some(text) => program.mut_subcommand(name, |command| command.after_help(text)),
        None => program,
    };
    names.into_iter().fold(program, with)
}

/// Leaves to `--help` what a first look does not need: `-h` shows [`COMMON`] alone.
fn short(program: Command) -> Command {
    program.mut_args(|arg| {
        let rare = !COMMON.contains(&arg.get_id().as_str());
        arg.hide_short_help(rare)
    })
}

/// The arguments of a sweep that `-h` shows.
const COMMON: &[&str] = &[
    "gpus",
    "emulate",
    "nccl",
    "sizes",
    "dtype",
    "modes",
    "set",
    "vary",
    "config",
    "sets",
    "rounds",
    "tolerance",
    "time_limit",
    "out",
    "resume",
    "baseline",
    "format",
    "why",
    "dry_run",
    "quiet",
    "help",
    "version",
];

/// What stands under the help of each command, by its name.
const ALL: &[(&str, &str)] = &[
    ("sweep", SWEEP),
    ("report", REPORT),
    ("compare", COMPARE),
    ("accept", ACCEPT),
    ("topo", TOPO),
    ("pairs", PAIRS),
    ("doctor", DOCTOR),
    ("audit", AUDIT),
    ("exec", EXEC),
    ("export", EXPORT),
    ("import", IMPORT),
    ("explain", EXPLAIN),
    ("completions", COMPLETIONS),
    ("man", MAN),
];

const SWEEP: &str = "\
Examples:
  ncclsweep --gpus 8 --sizes 7168x1..4          default settings against pcie-ll
  ncclsweep --emulate --gpus 8                  rehearse without a GPU
  ncclsweep --set ll:NCCL_PROTO=LL              default against a set of yours
  ncclsweep --vary NCCL_PROTO=LL,Simple --vary NCCL_NTHREADS=256,512
  ncclsweep --config channels --modes graph,sync --rounds 10
  ncclsweep --launch threads,processes          what a process per rank costs
  ncclsweep --gpus 2 --floor --timings          least cost; where time goes
  ncclsweep --register none,symmetric           do registered buffers help?
  ncclsweep --ranks 8 --gpus 2                  four ranks a GPU (NCCL 2.30)
  ncclsweep --gpus 8 --rendezvous node1:29400   several hosts (docs/hosts.md)

Exit status, the first that holds:
  130  interrupted, results are kept
    2  usage
    3  no GPU, driver or library, or the GPUs are busy
    4  incomplete: a hang, a crash, wrong data
    1  a gate failed
    5  undecided
    0  all decided, every gate held";

const REPORT: &str = "\
Examples:
  ncclsweep report results/before
  ncclsweep report results/before --why         what NCCL chose, with evidence
  ncclsweep report results/before --timings     where its time went
  ncclsweep report results/before --format html > page.html
  ncclsweep report results/* --format csv       every observation
  ncclsweep report results/* --format csv-cells a row for each cell
  ncclsweep report results/before --redact --format markdown

Exit status:
  0  shown
  2  a run cannot be read";

const COMPARE: &str = "\
Examples:
  ncclsweep compare results/before results/after
  ncclsweep compare results/before results/after --tolerance 3%
  ncclsweep compare golden.json results/after --format json

Exit status, the first that holds:
  2  usage, or the runs must not be compared
  4  a cell is invalid
  1  a cell is slower
  5  undecided
  0  no cell is slower";

const ACCEPT: &str = "\
Examples:
  ncclsweep accept --example                          a plan to begin with
  ncclsweep accept plan.toml                          measures, then judges
  ncclsweep accept plan.toml --run results/before     judge an earlier run
  ncclsweep accept plan.toml --junit accept.xml       for a CI server
  ncclsweep accept plan.toml --emulate                rehearse

Exit status, the first that holds:
  130  interrupted
    2  usage
    3  no GPU, driver or library, or the GPUs are busy
    4  a requirement was not measured
    1  a requirement failed
    5  undecided
    0  accepted";

const EXPORT: &str = "\
Examples:
  ncclsweep export results/before --set pcie-ll --to nccl.conf
  ncclsweep export results/before --set pcie-ll --to systemd
  ncclsweep export results/before --set pcie-ll --to wrapper --output with-nccl
  ncclsweep export results/grid --to tuner-csv        per size the fastest set

Exit status:
  0  written
  2  usage, or the run does not carry the set (--force writes it nevertheless)";

const IMPORT: &str = "\
Examples:
  ncclsweep import all_reduce_perf.txt --out before
  ncclsweep import all_reduce_perf.json --set pcie-ll
  ncclsweep import run-1.txt run-2.txt run-3.txt --repeats --base NCCL_PROTO=LL
  ncclsweep import - --out before                     from a pipe

Exit status:
  0  imported
  2  a file cannot be read, is cut off, mixed, or at odds with itself";

const EXPLAIN: &str = "\
Examples:
  ncclsweep explain                  all variables, a line each
  ncclsweep explain buffsize
  ncclsweep explain p2p              those with p2p in their names
  ncclsweep explain NCCL_P2P_LEVEL

Exit status:
  0  told
  2  no such variable";

const COMPLETIONS: &str = "\
Examples:
  ncclsweep completions bash         to a folder of bash-completion
  ncclsweep completions zsh          to _ncclsweep in a folder of $fpath
  ncclsweep completions fish         to ~/.config/fish/completions/";

const MAN: &str = "\
Examples:
  ncclsweep man                      of ncclsweep itself; pipe it into man -l -
  ncclsweep man compare
  ncclsweep man --out /usr/local/share/man/man1";

const TOPO: &str = "\
Examples:
  ncclsweep topo
  ncclsweep topo --load                         links while data moves
  ncclsweep topo --devices 2,0 --format svg     a drawing for a page
  ncclsweep topo --from topo.txt                of `nvidia-smi topo -m`
  ncclsweep topo --from nccl.xml                of NCCL_TOPO_DUMP_FILE
  ncclsweep topo --emulate=4x4090-phb

Exit status:
  0  shown
  2  usage, or the file cannot be read
  3  no GPU shows; what else is known is printed";

const PAIRS: &str = "\
Examples:
  ncclsweep pairs                               first of all on a new box
  ncclsweep pairs --gpus 2 --p2p off
  ncclsweep pairs --sizes 1K,64M --out pairs.json
  ncclsweep pairs --emulate

Exit status, the first that holds:
  130  interrupted
    2  usage
    3  no GPU, driver or library, or the GPUs are busy
    4  a pair hangs, fails or gets wrong data
    1  a pair is much slower than others alike
    0  none of this";

const DOCTOR: &str = "\
Examples:
  ncclsweep doctor                              this machine
  ncclsweep doctor --conf                       the files that NCCL reads here
  ncclsweep doctor --pid 4711                   a running server and its workers
  ncclsweep doctor --match vllm
  ncclsweep doctor --log server.log

Exit status, the first that holds:
  2  usage
  3  no GPU shows; what else is known is printed
  1  a fault
  0  sound";

const AUDIT: &str = "\
Examples:
  ncclsweep audit -- python serve.py --tp 8
  ncclsweep audit --expect pcie-ll -- python serve.py --tp 8

Exit status:
  2  usage, or the command cannot be started
  1  with --expect: settings were not in effect
  4  with --expect: too little was seen to tell
  else that of the command";

const EXEC: &str = "\
Examples:
  ncclsweep exec --set pcie-ll -- python serve.py --tp 8
  ncclsweep exec --set ll:NCCL_PROTO=LL --audit -- python serve.py
  ncclsweep exec --from results/before -- python serve.py --tp 8

Exit status:
  2  usage, or the command cannot be started
  1, 4  with --audit: as of `ncclsweep audit --expect`
  else that of the command";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The commands in a help text: up to two blanks in a row, where their remark begins.
    fn commands(help: &str) -> Vec<String> {
        let lines = help.lines().filter_map(|line| line.strip_prefix("  ncclsweep"));
        lines.map(|rest| format!("ncclsweep{}", rest.split("  ").next().unwrap_or_default())).collect()
    }

    #[test]
    fn every_command_has_examples_and_each_of_them_is_read() {
        let program = command();
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
    fn a_short_help_is_a_part_of_the_long_one() {
        let flags = |help: String| help.lines().filter(|line| line.trim_start().starts_with('-')).count();
        for name in [None, Some("sweep")] {
            let program = command();
            let of = name.map_or(Some(&program), |name| program.find_subcommand(name)).unwrap();
            let (short, long) = (of.clone().render_help().to_string(), of.clone().render_long_help().to_string());
            assert!(short.contains("--sizes") && !short.contains("--rotate-buffers"), "{short}");
            assert!(long.contains("--rotate-buffers"), "{long}");
            assert!(flags(short) * 2 < flags(long), "{name:?}");
        }
    }

    #[test]
    fn no_line_under_a_help_is_broken_on_a_terminal_of_80_columns() {
        for line in ALL.iter().flat_map(|(_, text)| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_argument_of_the_short_help_is_one() {
        let program = command();
        let is = |id: &str| ["help", "version"].contains(&id) || program.get_arguments().any(|arg| arg.get_id() == id);
        assert_eq!(COMMON.iter().find(|id| !is(id)), None);
    }

    #[test]
    fn the_definition_of_arguments_is_sound() {
        Arguments::command().debug_assert();
    }
}
