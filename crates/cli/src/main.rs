//! The `quarry` command: parses, dispatches, and turns errors into messages and exit codes.

#[cfg(feature = "agent")]
mod agent;
mod byte_size;
mod cache;
mod calls;
#[cfg(all(test, feature = "full"))]
mod command_lines;
mod completions;
mod config;
#[cfg(feature = "data")]
mod data;
mod doctor;
#[cfg(feature = "eval")]
mod eval;
mod explain;
mod index;
#[cfg(feature = "data")]
mod interrupt;
#[cfg(feature = "judge")]
mod judge;
mod languages;
mod left_out;
mod lines;
mod log;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod model;
#[cfg(feature = "data")]
mod models;
#[cfg(any(feature = "data", feature = "eval"))]
mod new_file;
mod output;
#[cfg(feature = "data")]
mod pairs;
mod pick;
mod progress;
#[cfg(all(test, feature = "full"))]
mod reference;
mod results;
mod screen;
mod search;
#[cfg(feature = "serve")]
mod serve;
mod settings;
mod similar;
mod status;
mod terminal;
#[cfg(feature = "train")]
mod train;
mod watch;
#[cfg(feature = "workers")]
mod worker;

use std::borrow::Cow;
use std::io;
use std::process::{self, ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

/// Finds code by meaning, and measures how well it is found
///
/// Exit codes: 0 found or done, 1 nothing good enough found, 2 error.
#[derive(Debug, Parser)]
#[command(name = "quarry", version = concat!(env!("CARGO_PKG_VERSION"), " (", env!("QUARRY_BUILD"), ")"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find code by a description or a symbol; indexes on first use
    Search(search::SearchArgs),
    /// Find code similar to the code at a position
    Similar(similar::SimilarArgs),
    /// Say where a function, method or type is called
    Callers(calls::CallsArgs),
    /// Say what a function, method or type calls
    Callees(calls::CallsArgs),
    /// Choose a result in the terminal, with a preview; prints its position
    Pick(pick::PickArgs),
    /// Build or refresh the index of a source tree
    Index(index::IndexArgs),
    /// Keep the index of a source tree fresh while files change
    Watch(watch::WatchArgs),
    /// Serve search to coding agents over the Model Context Protocol on stdin and stdout
    #[cfg(feature = "mcp")]
    Mcp(mcp::McpArgs),
    /// Serve search in a browser and over HTTP
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    /// Add Quarry to the settings of coding agents, or remove it
    #[cfg(feature = "agent")]
    Agent(agent::AgentArgs),
    /// Show what is indexed, what was skipped and why, and whether the index is fresh
    Status(status::StatusArgs),
    /// Diagnose problems and suggest fixes
    Doctor(doctor::DoctorArgs),
    /// List or clear caches: indexes, vectors, answers, packages
    Cache(cache::CacheArgs),
    /// Record searches on this machine, or stop recording them
    Log(log::LogArgs),
    /// List the languages that are indexed
    Languages(languages::LanguagesArgs),
    /// Show the settings of a tree, and where each comes from
    Config(config::ConfigArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print a manual page
    Man(man::ManArgs),
    /// Measure how well code is found
    #[cfg(feature = "eval")]
    Eval(Box<eval::EvalArgs>),
    /// Label query–code pairs with LLM judges that write and run tests
    #[cfg(feature = "judge")]
    Judge(judge::JudgeArgs),
    /// Ask models and run test programs for a `quarry judge run` on another machine, over NATS
    #[cfg(feature = "workers")]
    Worker(worker::WorkerArgs),
    /// Convert and make data sets
    #[cfg(feature = "data")]
    Data(data::DataArgs),
    /// Describe models, and download them
    #[cfg(feature = "data")]
    Model(models::ModelArgs),
    /// Train a retrieval model
    #[cfg(feature = "train")]
    Train(train::TrainArgs),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| exit_with_usage(&error));
    start_log();
    let outcome = match cli.command {
        Command::Search(args) => search::run(args),
        Command::Similar(args) => similar::run(args),
        Command::Callers(args) => calls::callers(&args),
        Command::Callees(args) => calls::callees(&args),
        Command::Status(args) => status::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Log(args) => log::run(&args),
        Command::Pick(args) => pick::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Watch(args) => watch::run(args),
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::run(args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(args),
        #[cfg(feature = "agent")]
        Command::Agent(args) => agent::run(&args),
        Command::Languages(args) => languages::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
        #[cfg(feature = "eval")]
        Command::Eval(args) => eval::run(&args),
        #[cfg(feature = "judge")]
        Command::Judge(args) => judge::run(&args),
        #[cfg(feature = "workers")]
        Command::Worker(args) => worker::run(&args),
        #[cfg(feature = "data")]
        Command::Data(args) => data::run(args),
        #[cfg(feature = "data")]
        Command::Model(args) => models::run(&args),
        #[cfg(feature = "train")]
        Command::Train(args) => train::run(args),
    };
    outcome.unwrap_or_else(|error| {
        // The reader of the output has closed it.
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        output::print_error(&error);
        ExitCode::from(2)
    })
}

/// Prints help, or what is wrong with the command line, which may name files as they are called.
fn exit_with_usage(error: &clap::Error) -> ! {
    if let Some(problem) = left_out::problem(error) {
        output::note(&problem);
        process::exit(error.exit_code());
    }
    let is_harmless =
        std::env::args().skip(1).all(|argument| matches!(output::printable(&argument), Cow::Borrowed(_)));
    if is_harmless {
        error.exit();
    }
    // Without the colors, which could not be told from what was quoted.
    output::note(error.render().to_string().trim_end());
    process::exit(error.exit_code())
}

/// Writes the log to stderr as `QUARRY_LOG` asks (`debug`, `quarry_index=trace`); by default Quarry's own warnings.
fn start_log() {
    let log = tracing_subscriber::fmt().with_writer(io::stderr);
    match tracing_subscriber::EnvFilter::try_from_env("QUARRY_LOG") {
        Ok(filter) => log.with_env_filter(filter).init(),
        Err(_) => log.with_env_filter("off,quarry=warn").without_time().with_target(false).init(),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
