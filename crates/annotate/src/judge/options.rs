//! What a judge does beyond the agents of CoSQA+, each an entry of a plan.

use serde::{Deserialize, Serialize};

use crate::digest::digest;
use crate::mutant::MUTANTS_TEXT;

/// Programs that a pair may have.
pub(crate) const MAX_PROGRAMS: u32 = 16;

/// Options of a judge beyond its prompts. Where it departs from the default, it is part of the version.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JudgeOptions {
    /// Which of several rounds of the same questions this is, from 0.
    pub round: u32,
    /// How much chance there is in answers, instead of what the prompts say.
    pub temperature: Option<f64>,
    /// How pairs are tested.
    pub tests: TestOptions,
}

/// How pairs are tested: `[tests]` of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestOptions {
    /// What the writer of the tests sees.
    pub from: TestsFrom,
    /// Programs that are written for a pair, each without knowing of the others.
    pub programs: u32,
    /// Whether programs that passed are run again with the function broken; those that pass even when its body does
    /// nothing are written anew, once.
    pub mutation: bool,
    /// Whether programs are run with another candidate of the same query too.
    pub differential: bool,
    /// Whether the arbiter says how sure it is.
    pub confidence: bool,
}

impl Default for TestOptions {
    fn default() -> Self {
        Self { from: TestsFrom::Code, programs: 1, mutation: false, differential: false, confidence: false }
    }
}

impl TestOptions {
    /// How many questions programs take that pass and prove something.
    pub(crate) fn questions_about_programs(&self) -> u64 {
        let per_program = if self.from == TestsFrom::Query { 2 } else { 1 };
        per_program * u64::from(self.programs)
    }
}

/// What the writer of tests sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TestsFrom {
    /// The query and the code.
    #[default]
    Code,
    /// The query, and how the function is called under a name that says nothing.
    Query,
}

impl JudgeOptions {
    /// Stands for the choices; empty if they are the default.
    pub(crate) fn version(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let faults = if self.tests.mutation || self.tests.differential { MUTANTS_TEXT } else { "" };
        digest(&[&serde_json::to_string(self).unwrap_or_default(), faults])
    }
}
