//! Human annotators: their forms, their replies, and studies of their labels.
//!
//! A [`Form`] is a file for people: its rows are pairs, lists of results, two answers side by side, or generated
//! code, in random order, without any labels. The question and the meanings of labels are a [`Guideline`], a file.
//! The ledger records the subject of each row, so that the file does not need to reveal it; filled-in forms are
//! checked against that ([`import`]), test programs are run, and all of it is stored. [`study`] computes statistics
//! of labels, as a pure function.

mod answers;
mod export;
mod form;
mod guideline;
mod import;
mod overview;
mod sample;
mod session;
pub mod study;
mod votes;

pub use answers::{AnswersOptions, answers};
pub use export::{ExportedForm, export_answers, export_generated, export_pairs, open_ledger, record_pairs};
pub use form::{Answers, FileFormat, Form, Generated, Item, Reply, Side, Subject};
pub use guideline::{Guideline, ItemKind, Preferred, Value};
pub use import::{ImportRequest, ImportSummary, import};
pub use overview::{Dispute, FormAgreement, FormOverview, PersonProgress};
pub use sample::{Candidate, Sampling};
pub use session::{ItemAnswer, Session, Stage, Submission, TestDraft, TestSandbox, TestState, forms_to_fill};
pub use votes::{MajorityRules, PairVotes, VotedLabel, VotedLabels};
