//! The `quarry` command: parses, dispatches, and turns errors into messages and exit codes.

#![allow(unreachable_pub, reason = "`pub` marks what other modules of the program use")]

#[cfg(feature = "agent")]
mod agent;
mod cache;
mod calls;
mod completions;
mod config;
#[cfg(feature = "mcp")]
mod context;
#[cfg(feature = "data")]
mod data;
mod deferred;
mod doctor;
mod engine;
#[cfg(feature = "eval")]
mod eval;
mod explain;
mod index;
#[cfg(any(unix, feature = "data"))]
mod interrupt;
mod invocation;
#[cfg(feature = "data")]
mod judge;
mod languages;
mod left_out;
mod log;
#[cfg(feature = "lsp")]
mod lsp;
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
mod precompute;
mod progress;
mod related;
mod results;
#[cfg(all(test, feature = "full"))]
mod schemas;
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
#[cfg(feature = "eval")]
mod trained_queries;
#[cfg(feature = "train")]
mod tune;
mod tuned;
mod usage;
mod watch;
#[cfg(feature = "data")]
mod worker;

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::panic;
use std::process::{self, ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

use self::deferred::Deferred;
#[cfg(feature = "eval")]
pub use self::eval::INPUTS;
pub use self::invocation::Embedded;
pub use self::settings::documented as settings;

/// The exit code of a program that panicked.
const PANICKED: u8 = 101;

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
    Search(Deferred<search::SearchArgs>),
    /// Find code similar to the code at a position
    Similar(Deferred<similar::SimilarArgs>),
    /// List the callers of a function, method or type
    Callers(Deferred<calls::CallsArgs>),
    /// List what a function, method or type calls
    Callees(Deferred<calls::CallsArgs>),
    /// List what else must change with a definition, a file or a diff: tests, callers, what changes together
    Related(Box<Deferred<related::RelatedArgs>>),
    /// Print the code that answers a question, within a budget of tokens: whole functions first
    #[cfg(feature = "mcp")]
    Context(Deferred<context::ContextArgs>),
    /// Print a map of a tree or directory, within a budget of tokens: files, types and signatures
    #[cfg(feature = "mcp")]
    Outline(Deferred<context::OutlineArgs>),
    /// Choose a result in the terminal, with a preview; prints its position
    Pick(Deferred<pick::PickArgs>),
    /// Build or refresh the index of a source tree, or keep it fresh while files change
    Index(Deferred<index::IndexArgs>),
    /// Serve search to coding agents over the Model Context Protocol on stdin and stdout
    #[cfg(feature = "mcp")]
    Mcp(Deferred<mcp::McpArgs>),
    /// Serve search to editors over the Language Server Protocol on stdin and stdout
    #[cfg(feature = "lsp")]
    Lsp(Deferred<lsp::LspArgs>),
    /// Serve search in a browser and over HTTP, or pages of results
    #[cfg(feature = "serve")]
    Serve(Deferred<serve::ServeArgs>),
    /// Add Quarry to the settings of coding agents, or remove it
    #[cfg(feature = "agent")]
    Agent(Deferred<agent::AgentArgs>),
    /// Show what is indexed, what was skipped and why, and whether the index is fresh
    Status(Deferred<status::StatusArgs>),
    /// Diagnose problems and suggest fixes
    Doctor(Deferred<doctor::DoctorArgs>),
    /// List or clear caches: indexes, vectors, answers, packages
    Cache(Deferred<cache::CacheArgs>),
    /// Record searches on this machine, or stop recording them
    Log(Deferred<log::LogArgs>),
    /// List the languages that are indexed
    Languages(Deferred<languages::LanguagesArgs>),
    /// Show the settings of a tree, and where each comes from
    Config(Deferred<config::ConfigArgs>),
    /// Print a completion script for a shell
    Completions(Deferred<completions::CompletionsArgs>),
    /// Print a manual page
    Man(Deferred<man::ManArgs>),
    /// Measure how well code is found
    #[cfg(feature = "eval")]
    Eval(Box<Deferred<eval::EvalArgs>>),
    /// Label query–code pairs with LLM judges that write and run tests
    #[cfg(feature = "data")]
    Judge(Deferred<judge::JudgeArgs>),
    /// Ask models and run test programs for a `quarry judge run` on another machine, over NATS
    #[cfg(feature = "data")]
    Worker(Deferred<worker::WorkerArgs>),
    /// Convert and make data sets
    #[cfg(feature = "data")]
    Data(Deferred<data::DataArgs>),
    /// Describe models, and download them
    #[cfg(feature = "data")]
    Model(Deferred<models::ModelArgs>),
    /// Train a retrieval model
    #[cfg(feature = "train")]
    Train(Deferred<train::TrainArgs>),
    /// Fine-tune the search model on a source tree; keep it only if search improves significantly
    #[cfg(feature = "train")]
    Tune(Deferred<tune::TuneArgs>),
}

pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses a command line whose first word is the program's name, and describes it for comparison with others.
///
/// # Errors
/// When it does not parse, or asks for help.
pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<String, clap::Error> {
    Cli::try_parse_from(words).map(|cli| format!("{cli:?}"))
}

/// Runs a command line inside an interpreter, as the script of the Python package does, and returns the exit code. Signal
/// handlers and the log are those of the process, so that it runs one command.
pub fn run_embedded(embedded: Embedded) -> u8 {
    invocation::embed(embedded);
    let code = panic::catch_unwind(run).unwrap_or(ExitCode::from(PANICKED));
    // An interpreter does not flush the buffer.
    let _ = io::stdout().flush();
    (0..u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(u8::MAX)
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = Cli::try_parse_from(invocation::arguments()).unwrap_or_else(|error| exit_with_usage(error));
    start_log();
    #[cfg(unix)]
    interrupt::survive_file_size_limit();
    let outcome = match cli.command {
        Command::Search(Deferred(args)) => args.with_query().and_then(search::run),
        Command::Similar(Deferred(args)) => similar::run(args),
        Command::Callers(Deferred(args)) => calls::callers(&args),
        Command::Callees(Deferred(args)) => calls::callees(&args),
        Command::Related(args) => related::run(args.0),
        #[cfg(feature = "mcp")]
        Command::Context(Deferred(args)) => context::run(args),
        #[cfg(feature = "mcp")]
        Command::Outline(Deferred(args)) => context::run_outline(&args),
        Command::Status(Deferred(args)) => status::run(&args),
        Command::Cache(Deferred(args)) => cache::run(&args),
        Command::Log(Deferred(args)) => log::run(&args),
        Command::Pick(Deferred(args)) => pick::run(args),
        Command::Index(Deferred(args)) => index::run(args),
        Command::Doctor(Deferred(args)) => doctor::run(args),
        #[cfg(feature = "mcp")]
        Command::Mcp(Deferred(args)) => mcp::run(args),
        #[cfg(feature = "lsp")]
        Command::Lsp(Deferred(args)) => lsp::run(args),
        #[cfg(feature = "serve")]
        Command::Serve(Deferred(args)) => serve::run(args),
        #[cfg(feature = "agent")]
        Command::Agent(Deferred(args)) => agent::run(&args),
        Command::Languages(Deferred(args)) => languages::run(&args),
        Command::Config(Deferred(args)) => config::run(&args),
        Command::Completions(Deferred(args)) => completions::run(&args, Cli::command()),
        Command::Man(Deferred(args)) => man::run(&args, Cli::command()),
        #[cfg(feature = "eval")]
        Command::Eval(args) => eval::run(&args.0),
        #[cfg(feature = "data")]
        Command::Judge(Deferred(args)) => judge::run(&args),
        #[cfg(feature = "data")]
        Command::Worker(Deferred(args)) => worker::run(&args),
        #[cfg(feature = "data")]
        Command::Data(Deferred(args)) => data::run(args),
        #[cfg(feature = "data")]
        Command::Model(Deferred(args)) => models::run(&args),
        #[cfg(feature = "train")]
        Command::Train(Deferred(args)) => train::run(args),
        #[cfg(feature = "train")]
        Command::Tune(Deferred(args)) => tune::run(&args),
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
fn exit_with_usage(error: clap::Error) -> ! {
    if let Some(problem) = left_out::problem(&error) {
        output::note(&problem);
        process::exit(error.exit_code());
    }
    let arguments: Vec<String> = invocation::arguments()
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let error = usage::explained(error, Cli::command(), &arguments);
    if arguments.iter().all(|argument| matches!(output::printable(argument), Cow::Borrowed(_))) {
        error.exit();
    }
    // Without colors: quoted escape sequences could not be distinguished from them.
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
