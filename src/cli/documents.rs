//! `completions`, `man` and `schema`: what is installed or published beside the program, made by the program itself.

use std::path::Path;

use clap_complete::Shell;

use super::answer::{answer_text, unwritten};
use super::examples;
use super::exit::Exit;
use super::terminal;
use crate::error::{Error, Result};
use crate::record::schema;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut examples::command(), "ncclsweep", &mut text);
    answer_text(text)
}

/// Prints the page of the program or of one command, or writes all pages into a folder.
pub fn man(of: Option<&str>, folder: Option<&Path>) -> Result<Exit> {
    let mut program = examples::command();
    // Gives every command its full name, `ncclsweep report`.
    program.build();
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(examples::command(), folder))
            .map_err(|error| Error::usage(format!("cannot write pages into {}", folder.display())).because(error))?;
        terminal::note(format!("pages in {}", folder.display()));
        return Ok(Exit::Held);
    }
    let command = match of {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            let names: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
            Error::usage(format!("there is no command `{name}`")).help(format!("one of: {}", names.join(", ")))
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(unwritten)?;
    answer_text(page)
}

/// Prints the JSON Schema of `run.json`.
pub fn schema() -> Result<Exit> {
    answer_text(format!("{:#}\n", schema::schema()))
}
