//! `quarry eval`: measures how well code is found.

pub mod agreement;
pub(crate) mod arguments;
pub mod benchmark;
#[cfg(feature = "data")]
mod chat_matcher;
pub mod compare;
pub mod localize;
pub mod models;
pub mod next;
pub mod plan;
pub mod protocol;
pub mod reading;
pub mod related;
mod reliability;
mod remote_model;
pub mod repo;
pub mod repo_search;
mod report;
pub(crate) mod shown;
pub mod tune;
pub mod verdicts;

use std::process::ExitCode;

use clap::{Args, Subcommand};
pub use protocol::INPUTS;
#[cfg(feature = "serve")]
pub use report::documents;

/// Arguments of `quarry eval`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct EvalArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    benchmark: benchmark::BenchmarkArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Score a TREC run against TREC or BEIR qrels, by default as trec_eval does
    Score(benchmark::ScoreArgs),
    /// Compare TREC runs with a baseline, query by query: intervals, tests, effect sizes
    Compare(compare::CompareArgs),
    /// Find the documents to judge next: those that could change the order of runs, until it is certain
    Next(next::NextArgs),
    /// Compute inter-rater agreement: Krippendorff's alpha, kappas, correlations, Cronbach's alpha
    Agreement(agreement::AgreementArgs),
    /// Score verdicts: accuracy, F1, ROC AUC, McNemar's test; or the calibration of probabilities
    Verdicts(verdicts::VerdictsArgs),
    /// Find the best method for your own repository, with queries from its documentation, history and tests
    Repo(repo::RepoArgs),
    /// Measure search over whole repositories, by the ranks of the files and functions that answer
    RepoSearch(repo_search::RepoSearchArgs),
    /// Measure how well issues lead to the functions that their fixes changed: Acc@k, MRR, NDCG
    Localize(localize::LocalizeArgs),
    /// Measure how well histories would have been foreseen: tests of a function, and what changes with it
    Related(related::RelatedArgs),
    /// Measure a method by the protocol of a paper, or list the protocols
    Protocol(Box<protocol::ProtocolArgs>),
    /// Choose the weights of the ranking, cross-validated by repository, and measure what each part contributes
    // For maintainers: it makes the weights that the program has.
    #[command(hide = true)]
    Tune(tune::TuneArgs),
    /// Run a benchmark plan: data sets and methods in one file, results as tables and a page; resumes where it stopped
    Run(plan::RunArgs),
}

pub fn run(args: &EvalArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(Command::Score(args)) => benchmark::score(args)?,
        Some(Command::Compare(args)) => compare::run(args)?,
        Some(Command::Next(args)) => return next::run(args),
        Some(Command::Agreement(args)) => agreement::run(args)?,
        Some(Command::Verdicts(args)) => verdicts::run(args)?,
        Some(Command::Repo(args)) => return repo::run(args),
        Some(Command::RepoSearch(args)) => repo_search::run(args)?,
        Some(Command::Localize(args)) => localize::run(args)?,
        Some(Command::Related(args)) => related::run(args)?,
        Some(Command::Protocol(args)) => protocol::run(args)?,
        Some(Command::Tune(args)) => tune::run(args)?,
        Some(Command::Run(args)) => plan::run(args)?,
        None => benchmark::evaluate(&args.benchmark)?,
    }
    Ok(ExitCode::SUCCESS)
}
