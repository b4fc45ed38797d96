//! The `quarry` command: parses, dispatches, and turns errors into messages and exit codes.

mod data;
mod eval;
mod index;
mod mcp;
mod model;
mod output;
mod pairs;
mod search;
mod train;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Finds code by meaning, and measures how well it is found
///
/// Exit codes: 0 found or done, 1 nothing good enough found, 2 error.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find code by a description or a symbol; indexes on first use
    Search(search::SearchArgs),
    /// Build or refresh the index of a source tree
    Index(index::IndexArgs),
    /// Serve search to coding agents over the Model Context Protocol on stdin and stdout
    Mcp(mcp::McpArgs),
    /// Measure how well code is found
    Eval(eval::EvalArgs),
    /// Convert and make data sets
    Data(data::DataArgs),
    /// Train a retrieval model
    Train(train::TrainArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log();
    let outcome = match cli.command {
        Command::Search(args) => search::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Mcp(args) => mcp::run(args),
        Command::Eval(args) => eval::run(args),
        Command::Data(args) => data::run(args),
        Command::Train(args) => train::run(args),
    };
    outcome.unwrap_or_else(|error| {
        // Whoever reads our output has seen enough.
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        output::print_error(&error);
        ExitCode::from(2)
    })
}

/// Writes the log to stderr as `QUARRY_LOG` asks (`debug`, `quarry_index=trace`); by default there is none.
fn start_log() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("QUARRY_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
