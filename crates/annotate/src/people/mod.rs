//! Human raters: the forms that they fill in, their answers, and the results.
//!
//! A [`Form`] is a file for people: its rows are pairs, lists of results, two answers side by side, or code that a
//! model wrote, in an order that a seed draws, without anybody's label. What is asked and what a label means is a
//! [`Guideline`], a file. The ledger keeps which row stood for what, so that the file need not say it; what comes back
//! is checked against that ([`import`]), test programs run, and all of it is kept. [`study`] is what labels come to: a
//! function of values.

mod answers;
mod export;
mod form;
mod guideline;
mod import;
mod sample;
mod session;
pub mod study;

pub use answers::{AnswersOptions, answers};
pub use export::{ExportedForm, export_answers, export_generated, export_pairs, open_ledger};
pub use form::{Answers, FileFormat, Form, Generated, Item, Reply, Side, Subject};
pub use guideline::{Guideline, ItemKind, Preferred, Value};
pub use import::{ImportRequest, ImportSummary, import};
pub use sample::{Candidate, Sampling};
pub use session::{Kept, PersonProgress, Said, Session};
