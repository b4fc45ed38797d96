//! Opening a plan in four steps: parse, validate, resolve, multiply by members.

use std::path::{Path, PathBuf};

use quarry_corpus::toml_file::{self, At, Mistake, line_of};
use quarry_files::{digest, read_regular_text};
use quarry_llm::budget::Price;
use quarry_llm::{Limits as BudgetLimits, Money, Settings};
use quarry_sandbox::{Limits, packages};

use super::file::PlanFile;
use super::packages::label_inputs;
use super::{GenerationSettings, Plan};
use crate::answer::AnswerFormat;
use crate::error::JudgeError;
use crate::judge::{Judge, JudgeOptions, MAX_PROGRAMS, TestOptions};
use crate::language::{LANGUAGES_TEXT, Language};
use crate::prompt::{Prompt, Prompts};

const MAX_ROUNDS: usize = 100;

/// Maximum size of a plan's file, in bytes.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// Identifies the rules for parsing answers and classifying runs, as far as they are code: it has to be changed with
/// them, so that labels by different rules are distinguished.
const READING_RULES: &str = "a value is all that a name with no word before it is given, without half characters; assertions that run and can fail, by \
     their text and by the values that they check, are counted";

pub(super) fn parse(path: &Path) -> Result<(String, PlanFile), JudgeError> {
    let text = read_regular_text(path, MAX_PLAN_BYTES)
        .map_err(|source| JudgeError::Read { path: path.to_owned(), source })?;
    // Mistakes do not quote the line, which may contain an API key under an unknown name.
    let file = toml_file::parse(&text)
        .map_err(|mistake| JudgeError::PlanEntry { path: path.to_owned(), mistake })?;
    Ok((text, file))
}

/// The error of an entry, with its line.
pub(super) fn wrong(path: &Path, text: &str, at: &[&'static str], problem: String) -> JudgeError {
    let at: Vec<At> = at.iter().copied().map(At::Key).collect();
    let mistake = Mistake { line: line_of(text, &at), problem };
    JudgeError::PlanEntry { path: path.to_owned(), mistake }
}

/// The path of an entry: the names of its tables, and its own.
type EntryPath = &'static [&'static str];

/// Validates the entries of a plan, individually and in combination.
///
/// # Errors
/// The path of the invalid entry, and what was expected.
pub(super) fn validate(file: &PlanFile) -> Result<(), (EntryPath, String)> {
    let expect = |at: EntryPath, count: usize, most: usize| match (1..=most).contains(&count) {
        true => Ok(()),
        false => Err((at, format!("`{}` is {count}; expected 1 to {most}", at.join(".")))),
    };
    expect(&["attempts"], file.attempts as usize, 1000)?;
    expect(&["workers"], file.workers.unwrap_or(1), 1000)?;
    if file.replay.is_some() && (file.record.is_some() || file.cache.is_some()) {
        return Err((&["replay"], "`replay` replaces the model; remove `record` and `cache`".to_owned()));
    }
    // The plan is stored in the ledger.
    if file.nats.as_ref().is_some_and(|nats| nats.url.contains('@')) {
        let problem = "`nats.url` contains a user; give that address with --nats instead";
        return Err((&["nats", "url"], problem.to_owned()));
    }
    expect(&["rounds"], file.rounds as usize, MAX_ROUNDS)?;
    expect(&["generation", "rounds"], file.generation.rounds as usize, MAX_ROUNDS)?;
    if let Some(temperature) = file.temperature.filter(|given| !(0.0..=2.0).contains(given)) {
        return Err((&["temperature"], format!("`temperature` is {temperature}; expected 0 to 2")));
    }
    match (file.model.is_some(), file.models.is_empty()) {
        (true, false) => {
            return Err((&["models"], "both `model` and `models` are set; expected one of them".to_owned()));
        }
        (false, true) => {
            return Err((&[], "`[model]` is missing; add it, or several `[models.NAME]`".to_owned()));
        }
        _ => {}
    }
    match &file.tests {
        Some(TestOptions { programs, .. }) => {
            expect(&["tests", "programs"], *programs as usize, MAX_PROGRAMS as usize)
        }
        None => Ok(()),
    }
}

/// The resolved entries of a plan: prompts, limits, packages, prices.
pub(super) struct Resolved<'f> {
    path: &'f Path,
    text: &'f str,
    file: &'f PlanFile,
    directory: &'f Path,
    prompts: Prompts,
    packages: Option<packages::Settings>,
    limits: Limits,
    money: Option<Money>,
}

impl<'f> Resolved<'f> {
    pub(super) fn new(path: &'f Path, text: &'f str, file: &'f PlanFile) -> Result<Self, JudgeError> {
        let wrong = |at: &'static str| move |problem: String| wrong(path, text, &[at], problem);
        let directory = path.parent().unwrap_or(Path::new(""));
        let in_directory = |path: &PathBuf| quarry_files::member(directory, path).map_err(wrong("prompts"));
        let prompts = file.prompts.as_ref().map(in_directory).transpose()?;
        let prompts = Prompts::open(prompts.as_deref())?;
        let packages = file.packages.clone().settings(directory).map_err(wrong("packages"))?;
        let limits = file.sandbox.limits().map_err(wrong("sandbox"))?;
        let dollars = |dollars: f64| {
            Money::from_dollars(dollars).ok_or_else(|| {
                let problem = format!("`budget.dollars` is {dollars}; expected dollars, 0 or more");
                self::wrong(path, text, &["budget", "dollars"], problem)
            })
        };
        let money = file.budget.dollars.map(dollars).transpose()?;
        let resolved = Self { path, text, file, directory, prompts, packages, limits, money };
        resolved.check_judge()?;
        Ok(resolved)
    }

    fn wrong(&self, at: &'static str, problem: String) -> JudgeError {
        wrong(self.path, self.text, &[at], problem)
    }

    fn check_judge(&self) -> Result<(), JudgeError> {
        let Self { file, .. } = self;
        let runs_tests = self.judge(0, self.tests())?.runs_tests();
        if file.tests.is_some() && !runs_tests {
            let problem = format!("`[tests]` is for judges that run programs; {} does not", file.judge);
            return Err(self.wrong("tests", problem));
        }
        if let Some(language) = &file.language
            && runs_tests
            && Language::named(&crate::pairs::language(language)).is_none()
        {
            let known = Language::names().collect::<Vec<_>>().join(", ");
            let problem = format!("`language` is {language:?}; expected one of {known}");
            return Err(self.wrong("language", problem));
        }
        Ok(())
    }

    fn tests(&self) -> TestOptions {
        self.file.tests.clone().unwrap_or_default()
    }

    fn models(&self) -> Vec<(&str, &Settings)> {
        let only = self.file.model.iter().map(|model| (model.model.as_str(), model));
        only.chain(self.file.models.iter().map(|(name, model)| (name.as_str(), model))).collect()
    }

    fn judge(&self, round: u32, tests: TestOptions) -> Result<Judge, JudgeError> {
        let Self { file, .. } = self;
        let options = JudgeOptions { round, temperature: file.temperature, tests };
        let judge = Judge::with_options(&file.judge, &self.prompts, file.attempts, options)?;
        let judge = judge.ok_or_else(|| {
            let known: Vec<&str> = Judge::names().map(|(name, _)| name).collect();
            let problem = format!("unknown judge {:?}; expected one of {}", file.judge, known.join(", "));
            self.wrong("judge", problem)
        })?;
        Ok(if self.packages.is_some() { judge.with_packages() } else { judge })
    }

    /// The settings for packages, if this judge uses them.
    fn packages_of(&self, judge: &Judge) -> Option<&packages::Settings> {
        self.packages.as_ref().filter(|_| judge.runs_tests())
    }

    /// Hash of everything that a label of this judge depends on.
    fn version(&self, judge: &Judge, model: &Settings) -> String {
        let packages = self.packages_of(judge);
        let packages = packages.map_or(String::new(), |settings| label_inputs(settings, self.directory));
        let Settings { base_url, model, .. } = model;
        let limits = limits_text(&self.limits);
        let parts = [&judge.version, base_url, model, &limits, LANGUAGES_TEXT, &packages, READING_RULES];
        digest(&parts)[..16].to_owned()
    }

    /// The plan with its members: one for each model and each round, if there are several. Their majority is then the
    /// label.
    pub(super) fn plan(&self, ledger: Option<&Path>) -> Result<Plan, JudgeError> {
        let (models, n_rounds) = (self.models(), self.file.rounds);
        let Some((_, first)) = models.first() else {
            return Err(self.wrong("model", "`[model]` is missing; add it".to_owned()));
        };
        let plan = self.member(ledger, None, first, 0)?;
        if models.len() == 1 && n_rounds == 1 {
            return Ok(plan);
        }
        let mut members: Vec<Plan> = Vec::new();
        for (name, settings) in &models {
            for round in 0..n_rounds {
                let parts = [
                    (models.len() > 1).then(|| (*name).to_owned()),
                    (n_rounds > 1).then(|| format!("round {}", round + 1)),
                ];
                let name = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
                let member = self.member(ledger, Some(name.clone()), settings, round)?;
                if members.iter().any(|known| known.version == member.version) {
                    let problem = format!(
                        "`models.{name}` is the same model at the same address as one before it; use `rounds` to ask a \
                         model several times"
                    );
                    return Err(self.wrong("models", problem));
                }
                members.push(member);
            }
        }
        let versions: Vec<&str> = members.iter().map(|member| member.version.as_str()).collect();
        let plain: Vec<&str> = members.iter().filter_map(|member| member.plain_version.as_deref()).collect();
        Ok(Plan {
            version: majority_version(&versions),
            plain_version: (!plain.is_empty()).then(|| majority_version(&plain)),
            members,
            ..plan
        })
    }

    /// The plan for one model and one round: the only differences between the members of a majority. `name` is the
    /// model, the round, or both.
    fn member(
        &self,
        ledger: Option<&Path>,
        name: Option<String>,
        settings: &Settings,
        round: u32,
    ) -> Result<Plan, JudgeError> {
        let Self { file, path, text, directory, .. } = self;
        let judge = self.judge(round, self.tests())?;
        let plain_version = match self.tests() == TestOptions::default() {
            true => None,
            false => Some(self.version(&self.judge(round, TestOptions::default())?, settings)),
        };
        let at = if file.model.is_some() { "model" } else { "models" };
        let price = price(settings).map_err(|problem| self.wrong(at, problem))?;
        let resolve = |at: &'static str| {
            move |path: &PathBuf| {
                quarry_files::member(directory, path).map_err(|problem| self.wrong(at, problem))
            }
        };
        let output = |at: &'static str| {
            move |path: &PathBuf| {
                quarry_files::output(directory, path).map_err(|problem| self.wrong(at, problem))
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
            pairs: file.pairs.iter().map(resolve("pairs")).collect::<Result<_, _>>()?,
            format: file.format.clone(),
            language: file.language.clone(),
            ledger: match (ledger, &file.ledger) {
                (Some(ledger), _) => ledger.to_owned(),
                (None, Some(ledger)) => output("ledger")(ledger)?,
                (None, None) => {
                    let beside = path.with_extension("ledger");
                    output("ledger")(&PathBuf::from(beside.file_name().unwrap_or_default()))?
                }
            },
            packages: self.packages_of(&judge).cloned(),
            version: self.version(&judge, settings),
            judge,
            plain_version,
            member: name,
            members: Vec::new(),
            generation: self.generation()?,
            workers: file.workers.unwrap_or(settings.concurrency as usize),
            programs: file.sandbox.at_once.unwrap_or(cores).max(1),
            limits: self.limits.clone(),
            price,
            nats: file.nats.as_ref().map(|nats| nats.url.clone()),
            asks_elsewhere: file.nats.as_ref().is_none_or(|nats| nats.questions),
            says_workers: file.workers.is_some(),
            is_rehearsal: false,
            settings: settings.clone(),
            spendable: BudgetLimits { tokens: file.budget.tokens, money: self.money },
            replay: file.replay.as_ref().map(resolve("replay")).transpose()?,
            record: file.record.as_ref().map(output("record")).transpose()?,
            cache: file.cache.as_ref().map(output("cache")).transpose()?,
        })
    }

    fn generation(&self) -> Result<GenerationSettings, JudgeError> {
        let program = |name: &str| -> Result<Prompt, JudgeError> {
            let prompt = self.prompts.named(name)?;
            match prompt.grammar() {
                AnswerFormat::Program => Ok(prompt.clone()),
                _ => Err(JudgeError::Prompt {
                    file: prompt.name.clone(),
                    problem: "the form of its answer does not fit; expected `program`".to_owned(),
                }),
            }
        };
        Ok(GenerationSettings {
            rounds: self.file.generation.rounds,
            generator: program("code-generator")?,
            repairer: program("code-repairer")?,
        })
    }
}

/// The limits as text for the versions of labels: if it changes, the version does, and everything is judged again.
pub(super) fn limits_text(limits: &Limits) -> String {
    let Limits {
        wall_time,
        cpu_time,
        memory_bytes,
        processes,
        file_bytes,
        directory_bytes,
        open_files,
        output_bytes,
    } = limits;
    format!(
        "Limits {{ wall_time: {wall_time:?}, cpu_time: {cpu_time:?}, memory_bytes: {memory_bytes}, processes: \
         {processes}, file_bytes: {file_bytes}, folder_bytes: {directory_bytes}, open_files: {open_files}, \
         output_bytes: {output_bytes} }}"
    )
}

/// Hash of a majority's members, and of the rules for majorities.
fn majority_version(members: &[&str]) -> String {
    digest(&[&["more than half"][..], members].concat())[..16].to_owned()
}

pub(crate) fn price(model: &Settings) -> Result<Price, String> {
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
