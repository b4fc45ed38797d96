//! `quarry completions`: what a shell needs to complete the command line.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output;

/// Arguments of `quarry completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `quarry completions`; `command` is the whole command line.
pub fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "quarry", &mut script);
    output::print_bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
