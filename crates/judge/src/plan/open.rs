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

const MAX_ROUNDS: u32 = 100;

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
    let counts: [(EntryPath, usize); 2] =
        [(&["attempts"], file.attempts as usize), (&["workers"], file.workers.unwrap_or(1))];
    for (at, count) in counts {
        if count == 0 || count > 1000 {
            return Err((at, format!("`{}` is {count}; expected 1 to 1000", at.join("."))));
        }
    }
    if file.replay.is_some() && (file.record.is_some() || file.cache.is_some()) {
        return Err((&["replay"], "`replay` replaces the model; remove `record` and `cache`".to_owned()));
    }
    // The plan is stored in the ledger.
    if file.nats.as_ref().is_some_and(|nats| nats.url.contains('@')) {
        let problem = "`nats.url` contains a user; give that address with --nats instead";
        return Err((&["nats", "url"], problem.to_owned()));
    }
    let rounds: [(EntryPath, u32); 2] =
        [(&["rounds"], file.rounds), (&["generation", "rounds"], file.generation.rounds)];
    for (at, rounds) in rounds {
        if rounds == 0 || rounds > MAX_ROUNDS {
            return Err((at, format!("`{}` is {rounds}; expected 1 to {MAX_ROUNDS}", at.join("."))));
        }
    }
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
    if let Some(TestOptions { programs, .. }) = &file.tests
        && (*programs == 0 || *programs > MAX_PROGRAMS)
    {
        let problem = format!("`tests.programs` is {programs}; expected 1 to {MAX_PROGRAMS}");
        return Err((&["tests", "programs"], problem));
    }
    Ok(())
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

/// A model and a round of a plan: the only differences between the members of a majority.
pub(super) struct Member {
    /// Its model, its round, or both; `None` in a plan with one member.
    name: Option<String>,
    judge: Judge,
    version: String,
    plain_version: Option<String>,
    settings: Settings,
    price: Price,
    workers: usize,
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

    fn member(&self, name: Option<String>, settings: &Settings, round: u32) -> Result<Member, JudgeError> {
        let Self { file, .. } = self;
        let judge = self.judge(round, self.tests())?;
        let plain_version = match self.tests() == TestOptions::default() {
            true => None,
            false => Some(self.version(&self.judge(round, TestOptions::default())?, settings)),
        };
        let at = if file.model.is_some() { "model" } else { "models" };
        let price = price(settings).map_err(|problem| self.wrong(at, problem))?;
        Ok(Member {
            name,
            version: self.version(&judge, settings),
            plain_version,
            judge,
            settings: settings.clone(),
            price,
            workers: file.workers.unwrap_or(settings.concurrency as usize),
        })
    }

    /// The only member of a plan with one model and one round.
    pub(super) fn first_member(&self) -> Result<Member, JudgeError> {
        match self.models().first() {
            Some((_, settings)) => self.member(None, settings, 0),
            None => Err(self.wrong("model", "`[model]` is missing; add it".to_owned())),
        }
    }

    /// A member for each model and each round; empty if there would be only one.
    pub(super) fn members(&self) -> Result<Vec<Member>, JudgeError> {
        let (models, n_rounds) = (self.models(), self.file.rounds);
        if models.len() == 1 && n_rounds == 1 {
            return Ok(Vec::new());
        }
        let mut members = Vec::new();
        for (name, settings) in &models {
            for round in 0..n_rounds {
                let parts = [
                    (models.len() > 1).then(|| (*name).to_owned()),
                    (n_rounds > 1).then(|| format!("round {}", round + 1)),
                ];
                let name = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
                members.push(self.member(Some(name), settings, round)?);
            }
        }
        Ok(members)
    }

    pub(super) fn plan(&self, ledger: Option<&Path>, member: Member) -> Result<Plan, JudgeError> {
        let Self { file, path, text, directory, .. } = self;
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
        let Member { name, judge, version, plain_version, settings, price, workers } = member;
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
            judge,
            version,
            plain_version,
            member: name,
            members: Vec::new(),
            generation: self.generation()?,
            workers,
            programs: file.sandbox.at_once.unwrap_or(cores).max(1),
            limits: self.limits.clone(),
            price,
            nats: file.nats.as_ref().map(|nats| nats.url.clone()),
            asks_elsewhere: file.nats.as_ref().is_none_or(|nats| nats.questions),
            says_workers: file.workers.is_some(),
            is_rehearsal: false,
            settings,
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

/// The plan with its members, whose majority is then the label.
pub(super) fn multiply(plan: Plan, members: Vec<Member>) -> Result<Plan, String> {
    if members.is_empty() {
        return Ok(plan);
    }
    let versions: Vec<String> = members.iter().map(|member| member.version.clone()).collect();
    if let Some(twice) = (1..versions.len()).find(|at| versions[..*at].contains(&versions[*at])) {
        let name = members[twice].name.as_deref().unwrap_or_default();
        return Err(format!(
            "`models.{name}` is the same model at the same address as one before it; use `rounds` to ask a model \
             several times"
        ));
    }
    let plain_versions: Vec<String> =
        members.iter().filter_map(|member| member.plain_version.clone()).collect();
    let members = members.into_iter().map(|member| for_member(&plan, member)).collect();
    Ok(Plan {
        version: majority_version(&versions),
        plain_version: (!plain_versions.is_empty()).then(|| majority_version(&plain_versions)),
        members,
        ..plan
    })
}

fn for_member(plan: &Plan, member: Member) -> Plan {
    let Member { name, judge, version, plain_version, settings, price, workers } = member;
    Plan { member: name, judge, version, plain_version, settings, price, workers, ..plan.clone() }
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
fn majority_version(members: &[String]) -> String {
    let mut parts = vec!["more than half"];
    parts.extend(members.iter().map(String::as_str));
    digest(&parts)[..16].to_owned()
}

/// The price of a model's tokens.
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
