//! Plans: the pairs to judge, and the judge, model and budget to use.

pub(crate) mod file;
pub(crate) mod open;
mod packages;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_llm::budget::Price;
use quarry_llm::{Budget, Cache, Client, Limits as BudgetLimits, LlmError, Recording, Settings};
use quarry_sandbox::Limits;
use quarry_sandbox::packages::Index;
use serde_json::json;

use crate::error::JudgeError;
use crate::judge::{Judge, JudgeOptions};
use crate::ledger::Ledger;
use crate::prompt::Prompt;
use crate::remote::Remote;

/// Pairs judged concurrently when workers on other machines do the work.
const PAIRS_FOR_WORKERS: usize = 64;

/// Settings of writing code for queries without a correct candidate, with its prompts.
#[derive(Clone, Debug)]
pub(crate) struct GenerationSettings {
    pub(crate) rounds: u32,
    pub(crate) generator: Prompt,
    pub(crate) repairer: Prompt,
}

/// A plan that was read and validated, except for its pairs.
#[derive(Clone, Debug)]
pub struct Plan {
    pub path: PathBuf,
    pub text: String,
    pub pairs: Vec<PathBuf>,
    pub format: String,
    /// Language of pairs that do not specify one.
    pub language: Option<String>,
    pub ledger: PathBuf,
    pub judge: Judge,
    /// Hash of the judge, the model and the limits of programs: everything that a label depends on. With members, a
    /// hash of their versions.
    pub version: String,
    /// The version of the same plan without options of the judge, if it has any.
    pub plain_version: Option<String>,
    /// The name of this member of a majority: its model, its round, or both.
    pub member: Option<String>,
    /// The same plan for each model and each round, if there are several: the label is their majority.
    pub members: Vec<Plan>,
    /// Settings of writing code for queries without a correct candidate.
    pub(crate) generation: GenerationSettings,
    /// Maximum number of pairs judged concurrently.
    pub workers: usize,
    pub programs: usize,
    pub limits: Limits,
    /// Source of missing packages; `None` if they are not installed.
    pub packages: Option<quarry_sandbox::packages::Settings>,
    pub price: Price,
    /// The address of the NATS server that connects workers on other machines, if the plan names one.
    pub nats: Option<String>,
    /// True if workers also call the models.
    asks_elsewhere: bool,
    /// True if the plan specifies the number of pairs judged concurrently.
    says_workers: bool,
    /// True if the plan is only estimated or read again, so that it needs no key.
    is_rehearsal: bool,
    settings: Settings,
    spendable: BudgetLimits,
    replay: Option<PathBuf>,
    record: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Plan {
    /// Reads a plan, optionally with another ledger: parses the file, validates its entries, resolves the names in
    /// them, and multiplies the plan by its models and rounds.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid, naming the entry and what was expected.
    pub fn open(path: &Path, ledger: Option<&Path>) -> Result<Self, JudgeError> {
        let (text, file) = open::parse(path)?;
        open::validate(&file).map_err(|(at, problem)| open::wrong(path, &text, at, problem))?;
        open::Resolved::new(path, &text, &file)?.plan(ledger)
    }

    /// Sets enough concurrent pairs to keep workers on other machines busy, unless the plan specifies the number.
    pub(crate) fn for_workers(mut self) -> Result<Self, JudgeError> {
        let rules = self.packages.iter().flat_map(|packages| [&packages.pip, &packages.npm]);
        if rules.into_iter().any(|rules| matches!(rules.index, Some(Index::Directory(_)))) {
            let problem = "`packages.pip.index` is a directory, which workers on other machines do not have; expected the \
                           address of an index";
            let at = ["packages", "pip", "index"];
            return Err(open::wrong(&self.path, &self.text, &at, problem.to_owned()));
        }
        if !self.says_workers {
            self.workers = self.workers.max(PAIRS_FOR_WORKERS);
        }
        self.programs = self.workers;
        self.members = self.members.into_iter().map(Self::for_workers).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// The same plan with other files of pairs, all of one format.
    #[must_use]
    pub fn with_pairs(self, pairs: Vec<PathBuf>, format: &str) -> Self {
        let members =
            self.members.into_iter().map(|member| member.with_pairs(pairs.clone(), format)).collect();
        Self { pairs, format: format.to_owned(), members, ..self }
    }

    /// The same plan with a copy of its ledger, so that an estimate leaves no trace, and without keys. The copy is removed
    /// when the returned directory is dropped.
    pub fn rehearsal(self) -> Result<(Self, tempfile::TempDir), JudgeError> {
        let failed = |source| JudgeError::Write { path: std::env::temp_dir(), source };
        let directory = tempfile::tempdir().map_err(failed)?;
        let copy = directory.path().join("ledger");
        if self.ledger.exists() {
            Ledger::open(&self.ledger)?.copy_to(&copy)?;
        }
        let at_copy = |plan: Self| Self { ledger: copy.clone(), is_rehearsal: true, ..plan };
        let members = self.members.iter().cloned().map(at_copy).collect();
        Ok((Self { members, ..at_copy(self) }, directory))
    }

    /// Returns whether answers come from a recording, so that nothing is paid.
    pub fn is_replay(&self) -> bool {
        self.replay.is_some()
    }

    /// The address of the model's server.
    pub(crate) fn server(&self) -> Result<String, JudgeError> {
        Ok(self.settings.address()?)
    }

    /// The destinations of questions: the address of each server, and the environment variable with the key that is
    /// sent there.
    pub fn asked(&self) -> Vec<String> {
        let endpoint = |plan: &Self| match &plan.settings.key_variable {
            Some(variable) => format!("{} with the key in {variable}", plan.settings.base_url),
            None => format!("{} without a key", plan.settings.base_url),
        };
        let mut asked: Vec<String> = self.members.iter().chain([self]).map(endpoint).collect();
        asked.sort();
        asked.dedup();
        asked
    }

    /// The name in tables: the model, the judge, and the name of the member.
    pub fn title(&self) -> String {
        let model = match self.members.is_empty() {
            true => self.settings.model.clone(),
            false => format!("majority of {}", self.members.len()),
        };
        let member = self.member.as_ref().map_or_else(String::new, |member| format!(", {member}"));
        format!("{model} ({}{member})", self.judge.name)
    }

    pub(crate) fn description(&self) -> String {
        let prompts: Vec<_> = (self.judge.prompts())
            .map(|prompt| json!({"name": prompt.name, "version": prompt.version}))
            .collect();
        let model = |plan: &Self| {
            let Settings { base_url, model, .. } = &plan.settings;
            json!({"base_url": base_url, "model": model, "round": plan.judge.options().round})
        };
        let models: Vec<_> = match self.members.is_empty() {
            true => vec![model(self)],
            false => self.members.iter().map(model).collect(),
        };
        let JudgeOptions { temperature, tests, .. } = self.judge.options();
        let limits = &self.limits;
        json!({
            "judge": self.judge.name,
            "prompts": prompts,
            "models": models,
            "temperature": temperature,
            "tests": tests,
            "limits": {
                "wall_seconds": limits.wall_time.as_secs_f64(),
                "cpu_seconds": limits.cpu_time.as_secs_f64(),
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes,
            },
            "packages": self.packages.is_some(),
        })
        .to_string()
    }

    /// The budget, minus the amount already `spent`.
    pub(crate) fn budget(&self, spent: quarry_llm::Cost) -> Budget {
        Budget::new(self.spendable, spent)
    }

    pub(crate) fn client(&self, budget: Budget, remote: Option<&Arc<Remote>>) -> Result<Client, JudgeError> {
        let settings = self.settings.clone();
        let asks_workers = remote.filter(|_| self.asks_elsewhere);
        // An error in the settings is an error in this file.
        let here = |error| match error {
            LlmError::Settings { problem } => {
                open::wrong(&self.path, &self.text, &["model"], format!("model: {problem}"))
            }
            error @ LlmError::Key { .. } => {
                JudgeError::Plan { path: self.path.clone(), problem: error.to_string() }
            }
            error => JudgeError::Model(error),
        };
        let client = match (&self.replay, asks_workers) {
            (Some(recording), _) => Client::replay(settings, Recording::open(recording)?),
            (None, Some(remote)) => {
                let transport = remote.questions(&settings)?;
                Client::with_transport(settings, Box::new(transport))
            }
            (None, None) if self.is_rehearsal => Client::with_key(settings, None),
            (None, None) => Client::new(settings),
        };
        let mut client = client.map_err(here)?;
        if let Some(directory) = &self.cache {
            client = client.with_cache(Cache::open(directory)?);
        }
        if let Some(path) = &self.record {
            client = client.with_recording(path)?;
        }
        client.with_budget(budget).map_err(here)
    }
}

#[cfg(test)]
mod tests;
