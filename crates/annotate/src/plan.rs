//! Plans: what is judged, by whom, with which model, for how much.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quarry_llm::budget::Price;
use quarry_llm::{Budget, Cache, Client, Limits as Spendable, Money, Recording, Settings};
use quarry_sandbox::Limits;
use serde::Deserialize;
use serde_json::json;

use crate::digest::digest;
use crate::error::AnnotateError;
use crate::judge::Judge;
use crate::language::LANGUAGES_TEXT;
use crate::prompt::Prompts;

/// A plan's file. Paths are relative to its folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    /// Files of pairs, of any format that holds pairs with their texts.
    pairs: Vec<PathBuf>,
    /// Their format, or the beginning of its name; what they hold decides otherwise.
    #[serde(default)]
    format: String,
    /// Language of the pairs that have none.
    #[serde(default)]
    language: Option<String>,
    /// Where the evidence goes; the plan's name with `.ledger` otherwise.
    #[serde(default)]
    ledger: Option<PathBuf>,
    /// Who judges; see [`Judge::names`].
    #[serde(default = "agents")]
    judge: String,
    /// Folder with prompts that replace those of the program.
    #[serde(default)]
    prompts: Option<PathBuf>,
    /// How often a question is asked until the answer can be read.
    #[serde(default = "two")]
    attempts: u32,
    /// Pairs that are judged at the same time; the model's `concurrency` otherwise.
    #[serde(default)]
    workers: Option<usize>,
    /// A recording that answers in the place of the model.
    #[serde(default)]
    replay: Option<PathBuf>,
    /// A file that all answers are recorded in.
    #[serde(default)]
    record: Option<PathBuf>,
    /// A folder with answers that were paid for before.
    #[serde(default)]
    cache: Option<PathBuf>,
    model: Settings,
    #[serde(default)]
    budget: BudgetPlan,
    #[serde(default)]
    sandbox: SandboxPlan,
}

fn agents() -> String {
    "agents".to_owned()
}
fn two() -> u32 {
    2
}

/// The most that all runs of a plan with its ledger may spend together.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetPlan {
    #[serde(default)]
    tokens: Option<u64>,
    #[serde(default)]
    dollars: Option<f64>,
}

/// What a test program may use up, and how many run at the same time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxPlan {
    wall_seconds: f64,
    cpu_seconds: f64,
    memory_mib: u64,
    processes: u64,
    /// As many as there are cores otherwise.
    at_once: Option<usize>,
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

/// A plan that was read and can work, as far as that can be said without its pairs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its file.
    pub path: PathBuf,
    /// The text of that.
    pub text: String,
    /// Files of pairs.
    pub pairs: Vec<PathBuf>,
    /// Their format, or the beginning of its name.
    pub format: String,
    /// Language of the pairs that have none.
    pub language: Option<String>,
    /// Where the evidence goes.
    pub ledger: PathBuf,
    /// Who judges.
    pub judge: Judge,
    /// Stands for the judge, the model and the limits of programs: all that a label depends on.
    pub version: String,
    /// Pairs that are judged at the same time.
    pub workers: usize,
    /// Programs that run at the same time.
    pub programs: usize,
    /// What each may use up.
    pub limits: Limits,
    /// The price of a token.
    pub price: Price,
    settings: Settings,
    spendable: Spendable,
    replay: Option<PathBuf>,
    record: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Plan {
    /// Reads a plan, with the ledger at another place if one is given.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong, naming the entry and what was expected.
    pub fn open(path: &Path, ledger: Option<&Path>) -> Result<Self, AnnotateError> {
        let text = fs::read_to_string(path)
            .map_err(|source| AnnotateError::Read { path: path.to_owned(), source })?;
        let wrong = |problem: String| AnnotateError::Plan { path: path.to_owned(), problem };
        let file: PlanFile = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let place = |path: &PathBuf| folder.join(path);

        if file.pairs.is_empty() {
            return Err(wrong("`pairs` is empty; expected files of pairs".to_owned()));
        }
        for (name, count) in [("attempts", file.attempts as usize), ("workers", file.workers.unwrap_or(1))] {
            if count == 0 || count > 1000 {
                return Err(wrong(format!("`{name}` is {count}; expected 1 to 1000")));
            }
        }
        if file.replay.is_some() && (file.record.is_some() || file.cache.is_some()) {
            return Err(wrong(
                "`replay` takes the place of the model; remove `record` and `cache`".to_owned(),
            ));
        }
        let prompts = Prompts::open(file.prompts.as_ref().map(place).as_deref())?;
        let judge = Judge::named(&file.judge, &prompts, file.attempts)?.ok_or_else(|| {
            let known: Vec<&str> = Judge::names().map(|(name, _)| name).collect();
            wrong(format!("there is no judge {:?}; expected one of {}", file.judge, known.join(", ")))
        })?;
        let limits = file.sandbox.limits().map_err(wrong)?;
        let dollars = |name: &str, dollars: Option<f64>, per: f64| {
            let dollars = dollars.unwrap_or(0.0);
            Money::from_dollars(dollars / per)
                .ok_or_else(|| wrong(format!("`{name}` is {dollars}; expected dollars, 0 or more")))
        };
        let price = Price {
            input: dollars("model.input_price", file.model.input_price, 1e6)?,
            output: dollars("model.output_price", file.model.output_price, 1e6)?,
        };
        let money =
            file.budget.dollars.map(|_| dollars("budget.dollars", file.budget.dollars, 1.0)).transpose()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let limits_text = format!("{limits:?}");
        let version =
            digest(&[&judge.version, &file.model.base_url, &file.model.model, &limits_text, LANGUAGES_TEXT]);
        Ok(Self {
            path: path.to_owned(),
            pairs: file.pairs.iter().map(place).collect(),
            ledger: ledger.map(Path::to_owned).unwrap_or_else(|| match &file.ledger {
                Some(ledger) => place(ledger),
                None => path.with_extension("ledger"),
            }),
            workers: file.workers.unwrap_or(file.model.concurrency as usize),
            programs: file.sandbox.at_once.unwrap_or(cores).max(1),
            version: version[..16].to_owned(),
            spendable: Spendable { tokens: file.budget.tokens, money },
            replay: file.replay.as_ref().map(place),
            record: file.record.as_ref().map(place),
            cache: file.cache.as_ref().map(place),
            settings: file.model,
            format: file.format,
            language: file.language,
            text,
            judge,
            limits,
            price,
        })
    }

    /// Whether a recording answers, so that nothing is paid.
    pub fn is_replay(&self) -> bool {
        self.replay.is_some()
    }

    /// How often a call may be sent.
    pub(crate) fn attempts(&self) -> u32 {
        self.settings.attempts
    }

    /// Who judges, as the ledger describes it.
    pub(crate) fn description(&self) -> String {
        let prompts: Vec<_> = (self.judge.prompts())
            .map(|prompt| json!({"name": prompt.name, "version": prompt.version}))
            .collect();
        let model = json!({"base_url": self.settings.base_url, "model": self.settings.model});
        let limits = &self.limits;
        json!({
            "judge": self.judge.name,
            "prompts": prompts,
            "model": model,
            "limits": {
                "wall_seconds": limits.wall_time.as_secs_f64(),
                "cpu_seconds": limits.cpu_time.as_secs_f64(),
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes,
            },
        })
        .to_string()
    }

    /// The model that is asked, of whose budget `spent` is gone.
    ///
    /// # Errors
    /// When its settings cannot work, its key is missing, or the recording or cache cannot be used.
    pub(crate) fn client(&self, spent: quarry_llm::Cost) -> Result<Client, AnnotateError> {
        let settings = self.settings.clone();
        let mut client = match &self.replay {
            Some(recording) => Client::replay(settings, Recording::open(recording)?)?,
            None => Client::new(settings)?,
        };
        if let Some(folder) = &self.cache {
            client = client.with_cache(Cache::open(folder)?);
        }
        if let Some(path) = &self.record {
            client = client.with_recording(path)?;
        }
        Ok(client.with_budget(Budget::new(self.spendable, spent))?)
    }
}

impl SandboxPlan {
    fn limits(self) -> Result<Limits, String> {
        let seconds = |name: &str, seconds: f64| {
            let fits = seconds > 0.0 && seconds <= 3600.0;
            let wrong =
                || format!("`sandbox.{name}` is {seconds}; expected more than 0 and at most 3600 seconds");
            fits.then(|| Duration::from_secs_f64(seconds)).ok_or_else(wrong)
        };
        for (name, count, least, most) in [
            ("memory_mib", self.memory_mib, 16, 1 << 20),
            ("processes", self.processes, 1, 1 << 16),
            ("at_once", self.at_once.unwrap_or(1) as u64, 1, 1024),
        ] {
            if count < least || count > most {
                return Err(format!("`sandbox.{name}` is {count}; expected {least} to {most}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "pairs = ['p.json']\n[model]\nprovider = 'openai-compatible'\nbase_url = 'http://localhost:1'\n\
                        model = 'm'\n";

    fn open(text: &str) -> Result<Plan, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        Plan::open(&path, None).map_err(|error| error.to_string())
    }

    #[test]
    fn paths_are_relative_to_the_plan() {
        let plan = open(PLAN).unwrap();
        assert!(plan.pairs[0].ends_with("p.json") && plan.pairs[0].is_absolute());
        assert!(plan.ledger.ends_with("plan.ledger"));
        assert_eq!((plan.judge.name.as_str(), plan.workers), ("agents", 8));
    }

    #[test]
    fn what_a_label_depends_on_changes_the_version_and_nothing_else_does() {
        let version = |text: &str| open(text).unwrap().version;
        let plan = |first: &str, last: &str| format!("{first}\n{PLAN}\n{last}");
        assert_eq!(version(PLAN), version(&plan("workers = 3", "[budget]\ntokens = 5")));
        for (first, last) in
            [("judge = 'cosqa'", ""), ("attempts = 3", ""), ("", "[sandbox]\nwall_seconds = 3.0")]
        {
            assert_ne!(version(PLAN), version(&plan(first, last)), "{first}{last}");
        }
        assert_ne!(version(PLAN), version(&PLAN.replace("'m'", "'n'")));
    }

    #[test]
    fn plans_that_cannot_work_say_why() {
        for (from, to, words) in [
            ("pairs", "pears", "pears"),
            ("['p.json']", "[]", "`pairs` is empty"),
            ("['p.json']", "['p.json']\njudge = 'agent'", "expected one of agents"),
            ("['p.json']", "['p.json']\nattempts = 0", "`attempts`"),
            ("['p.json']", "['p.json']\nworkers = 0", "`workers`"),
            ("['p.json']", "['p.json']\nreplay = 'r'\ncache = 'c'", "`replay`"),
            ("['p.json']", "['p.json']\nprompts = 'nowhere'", "nowhere"),
            ("model = 'm'", "modle = 'm'", "modle"),
            ("model = 'm'", "model = 'm'\ninput_price = -1.0", "input_price"),
            ("model = 'm'", "model = 'm'\n[budget]\ndollars = -1.0", "budget.dollars"),
            ("model = 'm'", "model = 'm'\n[budget]\nmoney = 1.0", "money"),
            ("model = 'm'", "model = 'm'\n[sandbox]\nwall_seconds = 0.0", "wall_seconds"),
            ("model = 'm'", "model = 'm'\n[sandbox]\nmemory_mib = 1", "memory_mib"),
        ] {
            let error = open(&PLAN.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
