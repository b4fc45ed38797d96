//! The entries of a plan's file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use quarry_llm::Settings;
use quarry_sandbox::Limits;
use serde::Deserialize;

use super::packages::PackagesPlan;
use crate::judge::TestOptions;

/// A plan's file. Paths are relative to its directory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlanFile {
    /// Files of pairs, of any format that holds pairs with their texts. A data set build substitutes its own.
    pub(super) pairs: Vec<PathBuf>,
    /// Name of their format, or a prefix of it; detected if not given.
    pub(super) format: String,
    pub(super) language: Option<String>,
    /// Path of the ledger; the plan's name with `.ledger` by default.
    pub(super) ledger: Option<PathBuf>,
    /// Name of the judge; see [`Judge::names`].
    #[serde(default = "agents")]
    pub(super) judge: String,
    /// Directory with prompts that replace the built-in ones.
    pub(super) prompts: Option<PathBuf>,
    /// Maximum number of tries until the answer can be parsed.
    #[serde(default = "two")]
    pub(super) attempts: u32,
    /// Maximum number of pairs judged concurrently; the model's `concurrency` by default.
    pub(super) workers: Option<usize>,
    /// A recording whose answers are replayed instead of asking the model.
    pub(super) replay: Option<PathBuf>,
    pub(super) record: Option<PathBuf>,
    pub(super) cache: Option<PathBuf>,
    pub(super) model: Option<Settings>,
    /// Several models, by names of the user's choice, whose majority is the label.
    pub(super) models: BTreeMap<String, Settings>,
    /// Number of times that each model judges each pair; the majority of all is the label.
    #[serde(default = "one")]
    pub(super) rounds: u32,
    /// Sampling temperature; that of each prompt by default.
    pub(super) temperature: Option<f64>,
    pub(super) budget: BudgetPlan,
    pub(super) sandbox: SandboxPlan,
    pub(super) tests: Option<TestOptions>,
    pub(super) packages: PackagesPlan,
    pub(super) generation: GenerationPlan,
    pub(super) nats: Option<NatsPlan>,
}

/// The NATS server that connects workers on other machines, and what they do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NatsPlan {
    pub(super) url: String,
    /// If true, workers also call the models, instead of this process.
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

/// The budget for all runs of a plan together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetPlan {
    pub(crate) tokens: Option<u64>,
    pub(crate) dollars: Option<f64>,
}

/// Settings of writing code for queries without a correct candidate.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GenerationPlan {
    /// Maximum number of times that code is written for a query until the judge accepts one.
    pub(super) rounds: u32,
}

impl Default for GenerationPlan {
    fn default() -> Self {
        Self { rounds: 3 }
    }
}

/// Resource limits of a test program, and the number of concurrent programs.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SandboxPlan {
    pub(super) wall_seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) memory_mib: u64,
    pub(super) processes: u64,
    /// Maximum number of concurrent programs; the number of cores by default.
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
