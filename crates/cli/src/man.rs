//! `quarry man`: manual pages.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;
use quarry_text::did_you_mean;

use crate::output;

/// Arguments of `quarry man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command to describe, such as `search` or `eval score` [default: quarry itself]
    command: Vec<String>,
    /// Write the pages of all commands into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

/// Runs `quarry man`; `command` is the whole command line.
pub fn run(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &args.out {
        let failed = || format!("cannot write manual pages into {}", directory.display());
        fs::create_dir_all(directory).with_context(failed)?;
        clap_mangen::generate_to(command, directory).with_context(failed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = Vec::new();
    Man::new(named(command, &args.command)?).render(&mut page)?;
    output::print_bytes(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// The command below `command` that `names` lead to.
fn named(mut command: Command, names: &[String]) -> anyhow::Result<Command> {
    // Gives every command its whole name.
    command.build();
    for name in names {
        let below = command.get_subcommands().find(|below| below.get_name() == name).cloned();
        command = below.with_context(|| {
            let meant = did_you_mean(name, command.get_subcommands().map(Command::get_name));
            let meant = meant.as_deref().unwrap_or("`quarry --help` lists the commands");
            format!("unknown command `{} {name}`; {meant}", command.get_name())
        })?;
    }
    Ok(command)
}
