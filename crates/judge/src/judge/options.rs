//! Options of a judge beyond the agents of CoSQA+, each an entry of a plan.

use quarry_files::digest;
use serde::{Deserialize, Serialize};

use crate::mutant::MUTANTS_TEXT;

pub(crate) const MAX_PROGRAMS: u32 = 16;

/// Options of a judge beyond its prompts. Values other than the default are part of the version.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JudgeOptions {
    /// Number of this round of several with the same questions, from 0.
    pub round: u32,
    /// Sampling temperature, overriding that of the prompts.
    pub temperature: Option<f64>,
    pub tests: TestOptions,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestOptions {
    pub from: TestsFrom,
    /// Number of programs written for a pair, independently of one another.
    pub programs: u32,
    /// If true, programs that passed are run again with mutants, and those that pass even with an empty function
    /// body are rewritten once.
    pub mutation: bool,
    /// If true, programs are also run with another candidate of the same query.
    pub differential: bool,
    pub confidence: bool,
}

impl Default for TestOptions {
    fn default() -> Self {
        Self { from: TestsFrom::Code, programs: 1, mutation: false, differential: false, confidence: false }
    }
}

impl TestOptions {
    /// Number of questions needed to write the programs, if none needs a second try.
    pub(crate) fn questions_about_programs(&self) -> u64 {
        let per_program = if self.from == TestsFrom::Query { 2 } else { 1 };
        per_program * u64::from(self.programs)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TestsFrom {
    #[default]
    Code,
    /// The query, and the signature of the function under a meaningless name.
    Query,
}

impl JudgeOptions {
    /// A text that identifies the options; empty for the defaults.
    pub(crate) fn version(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let faults = if self.tests.mutation || self.tests.differential { MUTANTS_TEXT } else { "" };
        digest(&[&serde_json::to_string(self).unwrap_or_default(), faults])
    }
}
