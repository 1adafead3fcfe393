//! Slips of the pen that the parser of arguments tells in words that lead astray.

use clap::error::{ContextKind, ErrorKind};
use clap::{Command, CommandFactory};

use super::args::Arguments;
use crate::error::Error;
use crate::plan::config::Config;

/// What to say instead of the parser's `error` of these words, the program's name first.
pub(super) fn of(error: &clap::Error, words: &[String]) -> Option<Error> {
    value_apart(error, words)
        .or_else(|| of_the_plan(error, words))
        .or_else(|| word_too_many(error, words))
        .or_else(|| gpus_by_name(error))
}

/// The parser's error without its advice to write an unknown flag behind `--`, where it would be one more path.
pub(super) fn plainly(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument && error.get(ContextKind::SuggestedArg).is_none() {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// A blank between a flag that may do without a value, as `--emulate`, and its value, which is then taken for a command or a path.
fn value_apart(error: &clap::Error, words: &[String]) -> Option<Error> {
    let (program, text) = (Arguments::command(), error.to_string());
    let may_do_without = |flag: &str| {
        let named = |arg: &&clap::Arg| arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
        program.get_arguments().find(named).is_some_and(clap::Arg::is_require_equals_set)
    };
    let is_meant = |pair: &&[String]| {
        let (flag, value) = (&pair[0], &pair[1]);
        let is_told = text.contains(&format!("'{value}'")) && !text.contains(&format!("argument '{flag}"));
        is_told && may_do_without(flag) && program.find_subcommand(value).is_none() && !value.starts_with('-')
    };
    let pair = words.windows(2).find(is_meant)?;
    let (flag, value) = (&pair[0], &pair[1]);
    Some(Error::usage(format!("`{flag} {value}` has a blank before its value")).help(format!("write {flag}={value}")))
}

/// A flag of `sweep` that `accept` has not, because the plan's file says it.
fn of_the_plan(error: &clap::Error, words: &[String]) -> Option<Error> {
    if words.get(1).is_none_or(|word| word != "accept") || error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let flag = error.get(ContextKind::InvalidArg)?.to_string();
    let name = flag.strip_prefix("--")?.split('=').next()?;
    let is_of_sweep = |program: &Command| program.get_arguments().any(|arg| arg.get_long() == Some(name));
    (is_of_sweep(&Arguments::command()) && Config::takes(name)).then(|| {
        Error::usage(format!("accept takes no --{name}: the plan says what is measured"))
            .help(format!("write `{name} = …` at the top of the plan"))
    })
}

/// `--gpus 0,1`, as other programs name GPUs.
fn gpus_by_name(error: &clap::Error) -> Option<Error> {
    let list = error.get(ContextKind::InvalidValue)?.to_string();
    let is_meant = error.get(ContextKind::InvalidArg)?.to_string().starts_with("--gpus") && list.contains(',');
    is_meant
        .then(|| Error::usage(format!("--gpus {list} is a list, not how many")).help(format!("write --devices {list}")))
}

/// A word that belongs to no flag, which the parser takes for a command beside flags, whether there is such a command or not.
fn word_too_many(error: &clap::Error, words: &[String]) -> Option<Error> {
    let word = error.get(ContextKind::InvalidSubcommand)?.to_string();
    if error.kind() != ErrorKind::ArgumentConflict || Arguments::command().find_subcommand(&word).is_some() {
        return None;
    }
    let before = words.windows(2).find(|pair| pair[1] == word).map(|pair| pair[0].as_str());
    let (message, help) = match before {
        Some(flag) if flag.starts_with("--") => (format!("{flag} takes no value, and `{word}` is no command"), HELP),
        Some(list) if list.ends_with(',') || word.starts_with(',') => (
            format!("`{list} {word}` is a list with a blank in it"),
            "write its parts with a comma and no blank between them",
        ),
        _ => (format!("`{word}` is the value of no flag, and no command"), HELP),
    };
    Some(Error::usage(message).help(help))
}

/// Where flags and commands are told.
const HELP: &str = "`ncclsweep --help` lists all flags and commands";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::examples::command;

    /// What is said of these words: ours, else the parser's.
    fn said(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = command().try_get_matches_from(&words).unwrap_err();
        match of(&error, &words) {
            Some(error) => format!("{error}; {}", error.next_step().unwrap_or_default()),
            None => plainly(error).to_string(),
        }
    }

    #[test]
    fn a_box_behind_a_blank_is_told_to_be_written_behind_an_equals_sign() {
        for line in ["ncclsweep --emulate 8xpcie-flat", "ncclsweep topo --emulate 8xpcie-flat --load"] {
            assert!(said(line).contains("write --emulate=8xpcie-flat"), "{line}: {}", said(line));
        }
        let both = said("ncclsweep --in-place both --emulate");
        assert!(both.contains("write --in-place=both"), "{both}");
        assert!(said("ncclsweep --emulate topo").contains("subcommand 'topo' cannot be used"), "it is a command");
        assert!(said("ncclsweep compare a b --emulate x").contains("unexpected argument '--emulate'"));
    }

    #[test]
    fn a_flag_that_the_plan_of_an_acceptance_says_is_sent_there() {
        assert!(said("ncclsweep accept plan.toml --gpus 8").contains("write `gpus = …` at the top of the plan"));
        assert!(said("ncclsweep accept plan.toml --wrap env").contains("unexpected argument '--wrap'"));
    }

    #[test]
    fn a_word_in_a_wrong_place_is_told_where_it_belongs() {
        for (line, told) in [
            ("ncclsweep --gpus 2 --rotate-buffers 16MiB", "--rotate-buffers takes no value"),
            ("ncclsweep --sizes 7168x1, 7168x4", "`7168x1, 7168x4` is a list with a blank in it"),
            ("ncclsweep --gpus 2 foo", "`foo` is the value of no flag"),
            ("ncclsweep pairs --gpus 0,1", "write --devices 0,1"),
        ] {
            assert!(said(line).contains(told), "{line}: {}", said(line));
        }
        assert!(said("ncclsweep --gpus 2 report x").contains("subcommand 'report' cannot be used"), "it is a command");
    }

    #[test]
    fn nobody_is_told_to_pass_an_unknown_flag_as_a_value() {
        let text = said("ncclsweep accept --colour red");
        assert!(text.contains("unexpected argument '--colour'") && !text.contains("as a value"), "{text}");
        assert!(said("ncclsweep --size 7168x1").contains("'--sizes'"), "what was meant is told");
    }
}
