//! Plans: what is judged, by whom, with which model, for how much.

mod file;
pub(crate) mod member;
mod packages;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use file::PlanFile;
use member::member;
use packages::what_labels_depend_on;
use quarry_files::read_regular_text;
use quarry_llm::budget::Price;
use quarry_llm::{Batches, Budget, Cache, Client, Limits as Spendable, LlmError, Money, Recording, Settings};
use quarry_sandbox::Limits;
use quarry_sandbox::packages::Index;
use serde_json::json;

use crate::answer::Grammar;
use crate::digest::digest;
use crate::error::AnnotateError;
use crate::judge::{Choices, Judge, MAX_PROGRAMS, TestChoices};
use crate::language::{LANGUAGES_TEXT, Language};
use crate::ledger::Ledger;
use crate::prompt::{Prompt, Prompts};
use crate::remote::Remote;

/// The most rounds of a plan.
const MAX_ROUNDS: u32 = 100;

/// Pairs that are judged at the same time where workers on other machines do the work.
const PAIRS_FOR_WORKERS: usize = 64;

/// Bytes of the longest plan.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// How code is written for queries that no candidate answers, with what is asked.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    pub(crate) rounds: u32,
    pub(crate) generator: Prompt,
    pub(crate) repairer: Prompt,
}

/// Stands for how answers are read and what runs come to, as far as no text of the program's data does: it changes with
/// that, so that labels of other rules are told apart.
const READING_RULES: &str = "a value is all that its name is given; assertions that run are counted";

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
    /// Stands for the judge, the model and the limits of programs: all that a label depends on. Where there are
    /// members, it stands for all of theirs.
    pub version: String,
    /// The version of the same plan without options beyond the judge, where there are some.
    pub plain_version: Option<String>,
    /// Which member of a majority it is: its model, its round or both.
    pub member: Option<String>,
    /// The same plan for each model and each round, where there are several: their majority is the label.
    pub members: Vec<Plan>,
    /// How code is written for queries that no candidate answers.
    pub(crate) generation: Generation,
    /// Pairs that are judged at the same time.
    pub workers: usize,
    /// Programs that run at the same time.
    pub programs: usize,
    /// What each may use up.
    pub limits: Limits,
    /// How packages are had that programs lack, where they are installed.
    pub packages: Option<quarry_sandbox::packages::Settings>,
    /// The price of a token.
    pub price: Price,
    /// The address of the server that brings the work to workers on other machines, if the plan names one.
    pub nats: Option<String>,
    /// Whether such workers ask the models too.
    asks_elsewhere: bool,
    /// Whether the plan says how many pairs are judged at the same time.
    says_workers: bool,
    settings: Settings,
    spendable: Spendable,
    batch: bool,
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
        let text = read_regular_text(path, MAX_PLAN_BYTES)
            .map_err(|source| AnnotateError::Read { path: path.to_owned(), source })?;
        let wrong = |problem: String| AnnotateError::Plan { path: path.to_owned(), problem };
        let file: PlanFile = toml::from_str(&text).map_err(|error| {
            // The line itself may hold a key under a name that nobody knows.
            let line = 1 + text[..error.span().map_or(0, |span| span.start)].matches('\n').count();
            wrong(format!("line {line}: {}", error.message()))
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let place = |path: &PathBuf| member(folder, path).map_err(wrong);

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
        // The plan becomes part of the ledger.
        if file.nats.as_ref().is_some_and(|nats| nats.url.contains('@')) {
            return Err(wrong("`nats.url` holds a user; give that address by --nats instead".to_owned()));
        }
        if file.rounds == 0 || file.rounds > MAX_ROUNDS {
            return Err(wrong(format!("`rounds` is {}; expected 1 to {MAX_ROUNDS}", file.rounds)));
        }
        if let Some(temperature) = file.temperature.filter(|given| !(0.0..=2.0).contains(given)) {
            return Err(wrong(format!("`temperature` is {temperature}; expected 0 to 2")));
        }
        let models: Vec<(String, Settings)> = match (file.model.clone(), file.models.is_empty()) {
            (Some(model), true) => vec![(model.model.clone(), model)],
            (None, false) => file.models.clone().into_iter().collect(),
            (Some(_), false) => {
                return Err(wrong("there are `model` and `models`; expected one of them".to_owned()));
            }
            (None, true) => {
                return Err(wrong(
                    "there is no `[model]`; expected one, or several `[models.NAME]`".to_owned(),
                ));
            }
        };
        let prompts = Prompts::open(file.prompts.as_ref().map(place).transpose()?.as_deref())?;
        let packages = file.packages.settings(folder).map_err(wrong)?;
        if file.generation.rounds == 0 || file.generation.rounds > MAX_ROUNDS {
            let rounds = file.generation.rounds;
            return Err(wrong(format!("`generation.rounds` is {rounds}; expected 1 to {MAX_ROUNDS}")));
        }
        let writes = |name: &str| match prompts.named(name)? {
            prompt if *prompt.grammar() == Grammar::Program => Ok(prompt.clone()),
            prompt => Err(AnnotateError::Prompt {
                place: prompt.name.clone(),
                problem: "the form of its answer does not fit; expected `program`".to_owned(),
            }),
        };
        let generation = Generation {
            rounds: file.generation.rounds,
            generator: writes("code-generator")?,
            repairer: writes("code-repairer")?,
        };
        let judge = |round: u32, tests: TestChoices| {
            let choices = Choices { round, temperature: file.temperature, tests };
            let judge =
                Judge::with_choices(&file.judge, &prompts, file.attempts, choices)?.ok_or_else(|| {
                    let known: Vec<&str> = Judge::names().map(|(name, _)| name).collect();
                    wrong(format!("there is no judge {:?}; expected one of {}", file.judge, known.join(", ")))
                })?;
            Ok::<_, AnnotateError>(if packages.is_some() { judge.with_packages() } else { judge })
        };
        let tests = file.tests.clone().unwrap_or_default();
        if tests.programs == 0 || tests.programs > MAX_PROGRAMS {
            return Err(wrong(format!(
                "`tests.programs` is {}; expected 1 to {MAX_PROGRAMS}",
                tests.programs
            )));
        }
        let first = judge(0, tests.clone())?;
        if file.tests.is_some() && !first.runs_tests() {
            return Err(wrong(format!("`[tests]` is for judges that run programs; {} does not", file.judge)));
        }
        if let Some(language) = &file.language
            && first.runs_tests()
            && Language::named(&crate::pairs::language(language)).is_none()
        {
            let known = Language::names().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!("`language` is {language:?}; expected one of {known}")));
        }
        let limits = file.sandbox.limits().map_err(wrong)?;
        let packages = packages.clone().filter(|_| first.runs_tests());
        let limits_text = format!("{limits:?}");
        let packages_text =
            packages.as_ref().map_or(String::new(), |settings| what_labels_depend_on(settings, folder));
        let version = |judge: &Judge, model: &Settings| {
            let Settings { base_url, model, .. } = model;
            let parts = [
                &judge.version,
                base_url,
                model,
                &limits_text,
                LANGUAGES_TEXT,
                &packages_text,
                READING_RULES,
            ];
            digest(&parts)[..16].to_owned()
        };
        let money = match file.budget.dollars {
            Some(dollars) => Some(Money::from_dollars(dollars).ok_or_else(|| {
                wrong(format!("`budget.dollars` is {dollars}; expected dollars, 0 or more"))
            })?),
            None => None,
        };
        let price_of = |model: &Settings| {
            let price = price(model)?;
            Ok(if file.batch && file.replay.is_none() { price.in_batch() } else { price })
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut plan = Self {
            path: path.to_owned(),
            pairs: file.pairs.iter().map(place).collect::<Result<_, _>>()?,
            ledger: match (ledger, &file.ledger) {
                (Some(ledger), _) => ledger.to_owned(),
                (None, Some(ledger)) => place(ledger)?,
                (None, None) => {
                    member(folder, path.with_extension("ledger").file_name().unwrap_or_default().as_ref())
                        .map_err(wrong)?
                }
            },
            workers: file.workers.unwrap_or(models[0].1.concurrency as usize),
            programs: file.sandbox.at_once.unwrap_or(cores).max(1),
            version: version(&first, &models[0].1),
            plain_version: None,
            member: None,
            members: Vec::new(),
            generation,
            nats: file.nats.as_ref().map(|nats| nats.url.clone()),
            asks_elsewhere: file.nats.as_ref().is_none_or(|nats| nats.questions),
            says_workers: file.workers.is_some(),
            spendable: Spendable { tokens: file.budget.tokens, money },
            replay: file.replay.as_ref().map(place).transpose()?,
            record: file.record.as_ref().map(place).transpose()?,
            cache: file.cache.as_ref().map(place).transpose()?,
            price: price_of(&models[0].1).map_err(wrong)?,
            batch: file.batch,
            settings: models[0].1.clone(),
            judge: first,
            format: file.format.clone(),
            language: file.language.clone(),
            text: text.clone(),
            limits,
            packages,
        };
        let plain = |round: u32, settings: &Settings| match tests == TestChoices::default() {
            true => Ok(None),
            false => judge(round, TestChoices::default()).map(|judge| Some(version(&judge, settings))),
        };
        plan.plain_version = plain(0, &plan.settings)?;
        let n_models = models.len();
        if n_models == 1 && file.rounds == 1 {
            return Ok(plan);
        }
        let (mut members, mut plain_versions) = (Vec::new(), Vec::new());
        for (name, settings) in models {
            for round in 0..file.rounds {
                let judge = judge(round, tests.clone())?;
                let parts = [
                    (n_models > 1).then(|| name.clone()),
                    (file.rounds > 1).then(|| format!("round {}", round + 1)),
                ];
                let plain_version = plain(round, &settings)?;
                plain_versions.extend(plain_version.clone());
                members.push(Self {
                    version: version(&judge, &settings),
                    plain_version,
                    member: Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", ")),
                    workers: file.workers.unwrap_or(settings.concurrency as usize),
                    price: price_of(&settings).map_err(wrong)?,
                    settings: settings.clone(),
                    judge,
                    ..plan.clone()
                });
            }
        }
        let versions: Vec<&str> = members.iter().map(|member| member.version.as_str()).collect();
        if let Some(twice) = (1..versions.len()).find(|at| versions[..*at].contains(&versions[*at])) {
            let name = members[twice].member.as_deref().unwrap_or_default();
            return Err(wrong(format!(
                "`models.{name}` is the same model at the same address as one before it; use `rounds` to ask a model \
                 several times"
            )));
        }
        plan.version = majority_version(&versions);
        plan.plain_version = (!plain_versions.is_empty())
            .then(|| majority_version(&plain_versions.iter().map(String::as_str).collect::<Vec<_>>()));
        plan.members = members;
        Ok(plan)
    }

    /// With as many pairs at the same time as keep workers on other machines busy, unless the plan says how many.
    ///
    /// # Errors
    /// When it needs a folder that other machines do not have.
    pub(crate) fn for_workers(mut self) -> Result<Self, AnnotateError> {
        let rules = self.packages.iter().flat_map(|packages| [&packages.pip, &packages.npm]);
        if rules.into_iter().any(|rules| matches!(rules.index, Some(Index::Directory(_)))) {
            return Err(AnnotateError::Plan {
                path: self.path,
                problem: "`packages.pip.index` is a folder, which workers on other machines do not have; expected the \
                          address of an index"
                    .to_owned(),
            });
        }
        if !self.says_workers {
            self.workers = self.workers.max(PAIRS_FOR_WORKERS);
        }
        self.programs = self.workers;
        self.members = self.members.into_iter().map(Self::for_workers).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// The same plan with a copy of its ledger, so that what is done with it leaves no trace. The copy is removed with
    /// what is returned beside the plan.
    ///
    /// # Errors
    /// When the ledger cannot be read, or there is no room for the copy.
    pub fn rehearsal(self) -> Result<(Self, tempfile::TempDir), AnnotateError> {
        let failed = |source| AnnotateError::Write { path: std::env::temp_dir(), source };
        let folder = tempfile::tempdir().map_err(failed)?;
        let copy = folder.path().join("ledger");
        if self.ledger.exists() {
            Ledger::open_to_copy(&self.ledger)?.copy_to(&copy)?;
        }
        let at_copy = |plan: Self| Self { ledger: copy.clone(), ..plan };
        let members = self.members.iter().cloned().map(at_copy).collect();
        Ok((Self { members, ..at_copy(self) }, folder))
    }

    /// Whether a recording answers, so that nothing is paid.
    pub fn is_replay(&self) -> bool {
        self.replay.is_some()
    }

    /// The address of the server that is asked.
    pub(crate) fn server(&self) -> Result<String, AnnotateError> {
        Ok(self.settings.address()?)
    }

    /// Whom it asks: the address of each server, and the environment variable with the key that is sent there.
    pub fn asked(&self) -> Vec<String> {
        let of = |plan: &Self| match &plan.settings.key_variable {
            Some(variable) => format!("{} with the key in {variable}", plan.settings.base_url),
            None => format!("{} without a key", plan.settings.base_url),
        };
        let mut asked: Vec<String> = self.members.iter().chain([self]).map(of).collect();
        asked.sort();
        asked.dedup();
        asked
    }

    /// How tables call who judges: the model, the judge, and which member of a majority it is.
    pub fn title(&self) -> String {
        let model = match self.members.is_empty() {
            true => self.settings.model.clone(),
            false => format!("majority of {}", self.members.len()),
        };
        let member = self.member.as_ref().map_or_else(String::new, |member| format!(", {member}"));
        format!("{model} ({}{member})", self.judge.name)
    }

    /// How often a call may be sent.
    pub(crate) fn attempts(&self) -> u32 {
        self.settings.attempts
    }

    /// What sends questions in batches, where the plan wants that.
    ///
    /// # Errors
    /// When its settings cannot work, or its key is missing.
    pub(crate) fn batches(&self) -> Result<Option<Batches>, AnnotateError> {
        let is_asked = self.batch && !self.is_replay();
        Ok(is_asked.then(|| Batches::new(self.settings.clone())).transpose()?)
    }

    /// Who judges, as the ledger describes it.
    pub(crate) fn description(&self) -> String {
        let prompts: Vec<_> = (self.judge.prompts())
            .map(|prompt| json!({"name": prompt.name, "version": prompt.version}))
            .collect();
        let model = |plan: &Self| {
            let Settings { base_url, model, .. } = &plan.settings;
            json!({"base_url": base_url, "model": model, "round": plan.judge.choices().round})
        };
        let models: Vec<_> = match self.members.is_empty() {
            true => vec![model(self)],
            false => self.members.iter().map(model).collect(),
        };
        let Choices { temperature, tests, .. } = self.judge.choices();
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

    /// What may be spent, of which `spent` is gone.
    pub(crate) fn budget(&self, spent: quarry_llm::Cost) -> Budget {
        Budget::new(self.spendable, spent)
    }

    /// The model that is asked, which pays from `budget`.
    ///
    /// # Errors
    /// When its settings cannot work, its key is missing, or the recording or cache cannot be used.
    pub(crate) fn client(
        &self,
        budget: Budget,
        remote: Option<&Arc<Remote>>,
    ) -> Result<Client, AnnotateError> {
        let settings = self.settings.clone();
        let asks_workers = remote.filter(|_| self.asks_elsewhere);
        // What is wrong with the settings is wrong with this file.
        let here = |error| match error {
            LlmError::Settings { problem } => {
                AnnotateError::Plan { path: self.path.clone(), problem: format!("model: {problem}") }
            }
            error @ LlmError::Key { .. } => {
                AnnotateError::Plan { path: self.path.clone(), problem: error.to_string() }
            }
            error => AnnotateError::Model(error),
        };
        let client = match (&self.replay, asks_workers) {
            (Some(recording), _) => Client::replay(settings, Recording::open(recording)?),
            (None, Some(remote)) => {
                let transport = remote.questions(&settings)?;
                Client::with_transport(settings, Box::new(transport))
            }
            (None, None) => Client::new(settings),
        };
        let mut client = client.map_err(here)?;
        if let Some(folder) = &self.cache {
            client = client.with_cache(Cache::open(folder)?);
        }
        if let Some(path) = &self.record {
            client = client.with_recording(path)?;
        }
        client.with_budget(budget).map_err(here)
    }
}

/// Stands for a majority of judges, and for what counts as one.
fn majority_version(members: &[&str]) -> String {
    let mut parts = vec!["more than half"];
    parts.extend(members);
    digest(&parts)[..16].to_owned()
}

/// The price of a token of a model.
fn price(model: &Settings) -> Result<Price, String> {
    let dollars = |name: &str, dollars: Option<f64>| {
        let dollars = dollars.unwrap_or(0.0);
        Money::from_dollars(dollars / 1e6)
            .ok_or_else(|| format!("`model.{name}` is {dollars}; expected dollars, 0 or more"))
    };
    Ok(Price {
        input: dollars("input_price", model.input_price)?,
        output: dollars("output_price", model.output_price)?,
    })
}

#[cfg(test)]
mod tests;
