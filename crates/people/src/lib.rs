//! Human annotators: their forms, their replies, and studies of their labels.
//!
//! A [`Form`] is a file for people: its rows are pairs, lists of results, two answers side by side, or generated
//! code, in random order, without any labels. The question and the meanings of labels are a [`Guideline`], a file.
//! The ledger of `quarry-judge` records the subject of each row, so that the file does not need to reveal it;
//! filled-in forms are checked against that ([`import`]), test programs are run, and all of it is stored. [`study`]
//! computes statistics of labels, as a pure function.

mod answers;
mod error;
mod export;
mod form;
mod guideline;
mod import;
mod labels;
mod overview;
mod sample;
mod session;
pub mod study;
mod votes;

pub use answers::{AnswersOptions, answers};
pub use error::ImportError;
pub use export::{ExportedForm, export_answers, export_generated, export_pairs};
pub use form::{FileFormat, Form, shown_columns};
pub use guideline::{Guideline, ItemKind, Preferred, Value};
pub use import::{ImportRequest, ImportSummary, import};
pub use labels::PeopleLabels;
pub use overview::{Dispute, FormAgreement, FormOverview, PersonProgress};
pub use sample::{Candidate, Sampling, candidates};
pub use session::{Session, Stage, Submission, TestDraft, TestSandbox, TestState, forms_to_fill};
pub use votes::{MajorityRules, PairVotes, VotedLabel, VotedLabels};
