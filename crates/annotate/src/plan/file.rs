//! What is in a plan's file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use quarry_llm::Settings;
use quarry_sandbox::Limits;
use serde::Deserialize;

use super::packages::PackagesPlan;
use crate::judge::TestOptions;

/// A plan's file. Paths are relative to its directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    /// Files of pairs, of any format that holds pairs with their texts.
    pub(super) pairs: Vec<PathBuf>,
    /// Their format, or the beginning of its name; what they hold decides otherwise.
    #[serde(default)]
    pub(super) format: String,
    /// Language of the pairs that have none.
    #[serde(default)]
    pub(super) language: Option<String>,
    /// Where the evidence goes; the plan's name with `.ledger` otherwise.
    #[serde(default)]
    pub(super) ledger: Option<PathBuf>,
    /// The judge; see [`Judge::names`].
    #[serde(default = "agents")]
    pub(super) judge: String,
    /// Directory with prompts that replace those of the program.
    #[serde(default)]
    pub(super) prompts: Option<PathBuf>,
    /// How often a question is asked until the answer can be read.
    #[serde(default = "two")]
    pub(super) attempts: u32,
    /// Pairs that are judged at the same time; the model's `concurrency` otherwise.
    #[serde(default)]
    pub(super) workers: Option<usize>,
    /// Whether questions are sent in batches, which take up to a day and cost half.
    #[serde(default)]
    pub(super) batch: bool,
    /// A recording that answers instead of the model.
    #[serde(default)]
    pub(super) replay: Option<PathBuf>,
    /// A file that all answers are recorded in.
    #[serde(default)]
    pub(super) record: Option<PathBuf>,
    /// A directory with answers that were paid for before.
    #[serde(default)]
    pub(super) cache: Option<PathBuf>,
    /// The model that judges; or `models`.
    #[serde(default)]
    pub(super) model: Option<Settings>,
    /// Several, by names of the user, whose majority is the label.
    #[serde(default)]
    pub(super) models: BTreeMap<String, Settings>,
    /// How often each model judges each pair; the majority of all is the label.
    #[serde(default = "one")]
    pub(super) rounds: u32,
    /// How much chance there is in answers; what the prompts say otherwise.
    #[serde(default)]
    pub(super) temperature: Option<f64>,
    #[serde(default)]
    pub(super) budget: BudgetPlan,
    #[serde(default)]
    pub(super) sandbox: SandboxPlan,
    #[serde(default)]
    pub(super) tests: Option<TestOptions>,
    #[serde(default)]
    pub(super) packages: PackagesPlan,
    #[serde(default)]
    pub(super) generation: GenerationPlan,
    #[serde(default)]
    pub(super) nats: Option<NatsPlan>,
}

/// Which server brings the work to workers on other machines, and which work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NatsPlan {
    pub(super) url: String,
    /// Whether they ask the models too, rather than this process.
    #[serde(default = "yes")]
    pub(super) questions: bool,
}

fn yes() -> bool {
    true
}

fn agents() -> String {
    "agents".to_owned()
}
fn one() -> u32 {
    1
}
fn two() -> u32 {
    2
}

/// Maximum spending of all runs of a plan together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetPlan {
    #[serde(default)]
    pub(crate) tokens: Option<u64>,
    #[serde(default)]
    pub(crate) dollars: Option<f64>,
}

/// How code is written for queries that no candidate answers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GenerationPlan {
    /// How often code is written for a query until the judge says yes.
    pub(super) rounds: u32,
}

impl Default for GenerationPlan {
    fn default() -> Self {
        Self { rounds: 3 }
    }
}

/// What a test program may use, and how many run at the same time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SandboxPlan {
    pub(super) wall_seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) memory_mib: u64,
    pub(super) processes: u64,
    /// As many as there are cores otherwise.
    pub(super) at_once: Option<usize>,
}

impl Default for SandboxPlan {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            wall_seconds: limits.wall_time.as_secs_f64(),
            cpu_seconds: limits.cpu_time.as_secs_f64(),
            memory_mib: limits.memory_bytes >> 20,
            processes: limits.processes,
            at_once: None,
        }
    }
}

impl SandboxPlan {
    pub(super) fn limits(self) -> Result<Limits, String> {
        let seconds = |name: &str, seconds: f64| {
            let fits = seconds > 0.0 && seconds <= 3600.0;
            let wrong =
                || format!("`sandbox.{name}` is {seconds}; expected more than 0 and at most 3600 seconds");
            fits.then(|| Duration::from_secs_f64(seconds)).ok_or_else(wrong)
        };
        for (name, count, minimum, maximum) in [
            ("memory_mib", self.memory_mib, 16, 1 << 20),
            ("processes", self.processes, 1, 1 << 16),
            ("at_once", self.at_once.unwrap_or(1) as u64, 1, 1024),
        ] {
            if count < minimum || count > maximum {
                return Err(format!("`sandbox.{name}` is {count}; expected {minimum} to {maximum}"));
            }
        }
        Ok(Limits {
            wall_time: seconds("wall_seconds", self.wall_seconds)?,
            cpu_time: seconds("cpu_seconds", self.cpu_seconds)?,
            memory_bytes: self.memory_mib << 20,
            processes: self.processes,
            ..Limits::default()
        })
    }
}
