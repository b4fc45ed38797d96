//! Judges whether code answers a query, with language models that write tests and a sandbox that runs them.
//!
//! A [`Judge`] is a function from a pair and its events so far to the next step. [`Judging`] carries out the steps
//! for all pairs of a [`Plan`], in many threads, and keeps all evidence in a [`ledger`]. Prompts are files; the
//! properties of languages are a table.

mod answer;
mod assertions;
mod audit;
mod author;
mod calibration;
mod comparison;
mod criterion;
mod error;
mod evidence;
mod export;
mod judge;
mod language;
pub mod ledger;
mod majority;
mod mutant;
mod pair;
mod pairs;
mod plan;
mod programs;
mod prompt;
mod remote;
mod report;
mod reread;
mod run;
mod worker;

pub use answer::{
    AnswerFormat, FollowUp, ParsedAnswer, TextFormat, VerdictFormat, VerdictMeaning, is_same_value,
};
pub use assertions::Assertions;
pub use audit::{AuditReport, ChangedRun, SkippedRun, audit, audit_changed};
pub use author::queue_of;
pub use author::{Author, AuthorAnswer, AuthorPlan, AuthorRole, AuthorUsage, Graded, language_title};
pub use calibration::{Calibration, Coverage, Forecasts};
pub use comparison::{MemberAgreement, MemberRow, OptionCosts, PlainComparison};
pub use criterion::Criterion;
pub use error::JudgeError;
pub use evidence::{Event, ModelAnswer, OptionalStep, Run, RunResult, TestProgram};
pub use export::{ExportRequest, ExportSummary, export};
pub use judge::{
    Judge, JudgeOptions, Next, Outcome, Question, TestOptions, TestsFrom, UnexpectedEvent, Verdict,
};
pub use language::Language;
pub use ledger::Ledger;
pub use pair::Pair;
pub use pairs::{open_ledger, record_pairs};
pub use plan::Plan;
pub use programs::{IsolatedPrograms, Programs, run_with_packages};
pub use prompt::{Prompt, Prompts};
pub use remote::WorkerModels;
pub use report::{CostView, EXECUTABLE_RULES, JudgeReport, PerPair, PerPairs};
pub use reread::{RereadSummary, has_earlier_labels, reread};
pub use run::{Estimate, GenerationSummary, Judging, Progress, SECONDS_PER_ANSWER, TypicalCost};
pub use worker::{OpenPrograms, Worker, WorkerSummary};
