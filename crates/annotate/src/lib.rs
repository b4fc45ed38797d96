//! Judges whether code answers a query, by language models that write tests and a sandbox that runs them.
//!
//! A [`Judge`] is a function: from a pair and what happened to it so far to what is to be done next. [`Judging`] does
//! it, for all pairs of a [`Plan`] and on many threads, and keeps all evidence in a [`ledger`]. What is asked are
//! files, the prompts; what a language needs is a table.

mod answer;
mod assertions;
mod audit;
mod calibration;
mod comparison;
mod criterion;
mod digest;
mod error;
mod evidence;
mod export;
mod judge;
mod language;
pub mod ledger;
mod majority;
mod matching;
mod mutant;
mod pair;
mod pairs;
pub mod people;
mod plan;
mod programs;
mod prompt;
#[cfg_attr(not(feature = "workers"), path = "no_workers.rs")]
mod remote;
mod report;
mod reread;
mod run;
#[cfg(feature = "workers")]
mod worker;

pub use answer::{Grammar, Meaning, Reading, Then, Verdicts};
pub use assertions::Assertions;
pub use audit::{Audit, Changed, NotRun, audit};
pub use calibration::{Calibration, Forecasts, Kept};
pub use comparison::{Added, BesidePlain, Member, Members, Options};
pub use criterion::Criterion;
pub use error::AnnotateError;
pub use evidence::{Answer, Event, Extra, Run, RunResult, TestProgram};
pub use export::{Export, Exported, export};
pub use judge::{Choices, Judge, Next, OutOfOrder, Outcome, Question, TestChoices, TestsFrom, Verdict};
pub use language::Language;
pub use ledger::Ledger;
pub use matching::ChatMatcher;
pub use pair::Pair;
pub use plan::Plan;
pub use programs::{IsolatedPrograms, Programs};
pub use prompt::{Prompt, Prompts};
pub use report::{EXECUTABLE_RULES, PerPair, PerPairs, Report};
pub use reread::{ChangedLabel, Reread, has_earlier_labels, reread};
pub use run::{Estimate, Generation, Judging, Progress};
#[cfg(feature = "workers")]
pub use worker::{Done, OpenPrograms, Worker};
