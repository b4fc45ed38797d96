//! Judging as a function from the evidence about a pair to the next step.
//!
//! A judge is stateless. It works on the list of events that the ledger keeps: whichever process continues with a
//! pair, even after a crash, calls [`Judge::next`] with that list, carries out the step, and appends the resulting
//! event. The agents are those of CoSQA+ (2024): a screener, a test generator, an executor, a bug fixer for missing
//! packages, and an arbiter.

mod options;
mod repair;
mod trial;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use quarry_files::digest;
use quarry_llm::{ChatRequest, Message, Role};
use serde::{Deserialize, Serialize};

use crate::answer::{AnswerFormat, FollowUp, ParsedAnswer};
use crate::criterion::Criterion;
use crate::error::JudgeError;
use crate::evidence::{Event, ModelAnswer, OptionalStep, Run, TestProgram};
use crate::language::Language;
use crate::pair::Pair;
use crate::prompt::{Prompt, Prompts};

pub(crate) use options::MAX_PROGRAMS;
pub use options::{JudgeOptions, TestOptions, TestsFrom};
pub(crate) use repair::RepairState;
use trial::TestRunner;

/// Number of distinct samples that a question may have in a round.
const SAMPLES_PER_ROUND: u32 = MAX_PROGRAMS;

/// Minimum temperature for additional programs for a pair, which would otherwise repeat the first one.
const RESAMPLING_TEMPERATURE: f64 = 0.7;

/// Value of `decided_by` if a pair could not be decided.
pub(crate) const NO_PROMPT: &str = "nobody";

#[derive(Clone, Debug)]
pub struct Judge {
    pub name: String,
    /// A hash of all its prompts and options; part of every label.
    pub version: String,
    pub criterion: Criterion,
    steps: Vec<Prompt>,
    tests: Option<TestPrompts>,
    installs: bool,
    /// Maximum number of tries until the answer can be parsed.
    attempts: u32,
    options: JudgeOptions,
}

#[derive(Clone, Debug)]
struct TestPrompts {
    generator: Prompt,
    query_generator: Prompt,
    adapter: Prompt,
    improver: Prompt,
    query_improver: Prompt,
    fixer: Prompt,
    arbiter: Prompt,
}

/// A judge as `judges.toml` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JudgeSpec {
    about: String,
    #[serde(default)]
    criterion: Criterion,
    steps: Vec<String>,
    tests: Option<TestsSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestsSpec {
    generator: String,
    query_generator: String,
    adapter: String,
    improver: String,
    query_improver: String,
    fixer: String,
    arbiter: String,
    confident_arbiter: String,
}

static JUDGES: LazyLock<BTreeMap<String, JudgeSpec>> = LazyLock::new(|| {
    toml::from_str(include_str!("../prompts/judges.toml")).expect("judges.toml is well-formed")
});

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Ask(Question),
    Run(TestProgram),
    Decide(Verdict),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub prompt: String,
    pub version: String,
    pub request: ChatRequest,
    /// The option that it belongs to; `None` if a judge without options would ask it too.
    pub optional_step: Option<OptionalStep>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub outcome: Outcome,
    pub grade: Option<u8>,
    /// The prompt whose answer decided.
    pub decided_by: String,
    pub reason: String,
    /// Confidence of the model or person that decided, from 0 to 1, if requested.
    pub confidence: Option<f64>,
}

/// The label, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The code answers the query.
    Yes,
    /// The code does not answer the query.
    No,
    /// The query does not look for code.
    Discarded,
    /// No decision could be reached.
    Unresolved,
}

impl Outcome {
    pub const ALL: [Self; 4] = [Self::Yes, Self::No, Self::Discarded, Self::Unresolved];

    /// The name in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Discarded => "discarded",
            Self::Unresolved => "unresolved",
        }
    }

    /// True if the code answers the query; `None` without a label.
    pub fn label(self) -> Option<bool> {
        match self {
            Self::Yes => Some(true),
            Self::No => Some(false),
            Self::Discarded | Self::Unresolved => None,
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// The recorded events of a pair are not those that this judge would produce.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the evidence does not fit the judge: expected {expected} as event {position}, found {found}; another version of \
     quarry started with this pair: use that one, or name another ledger"
)]
pub struct UnexpectedEvent {
    /// 1-based position of the event.
    pub position: usize,
    /// The step that the judge would have taken.
    pub expected: String,
    pub found: String,
}

/// Why [`Judge::next`] returns early: a step is due, or an event does not fit.
enum Interrupt {
    Next(Box<Next>),
    Unexpected(UnexpectedEvent),
}

impl From<UnexpectedEvent> for Interrupt {
    fn from(wrong: UnexpectedEvent) -> Self {
        Self::Unexpected(wrong)
    }
}

impl TestPrompts {
    /// The prompts that may be used with these options.
    fn asked(&self, options: &TestOptions) -> Vec<&Prompt> {
        let mut prompts = vec![&self.generator];
        let is_unseen = options.from == TestsFrom::Query;
        if is_unseen {
            prompts.extend([&self.query_generator, &self.adapter]);
        }
        if options.mutation {
            prompts.push(&self.improver);
            prompts.extend(is_unseen.then_some(&self.query_improver));
        }
        prompts.extend([&self.fixer, &self.arbiter]);
        prompts
    }
}

impl Judge {
    /// The names of all judges with their descriptions, in alphabetical order.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        JUDGES.iter().map(|(name, outline)| (name.as_str(), outline.about.as_str()))
    }

    /// The judge with this name, which asks a question at most `attempts` times until the answer can be parsed.
    ///
    /// # Errors
    /// If the judge's prompts do not fit its steps. `Ok(None)` if no judge has that name.
    pub fn named(name: &str, prompts: &Prompts, attempts: u32) -> Result<Option<Self>, JudgeError> {
        Self::with_options(name, prompts, attempts, JudgeOptions::default())
    }

    /// Like [`Judge::named`], with options.
    pub fn with_options(
        name: &str,
        prompts: &Prompts,
        attempts: u32,
        options: JudgeOptions,
    ) -> Result<Option<Self>, JudgeError> {
        let Some(outline) = JUDGES.get(name) else { return Ok(None) };
        let prompt = |name: &String| prompts.named(name).cloned();
        let steps = outline.steps.iter().map(prompt).collect::<Result<Vec<_>, _>>()?;
        let tests = match &outline.tests {
            Some(outline) => Some(TestPrompts {
                generator: prompt(&outline.generator)?,
                query_generator: prompt(&outline.query_generator)?,
                adapter: prompt(&outline.adapter)?,
                improver: prompt(&outline.improver)?,
                query_improver: prompt(&outline.query_improver)?,
                fixer: prompt(&outline.fixer)?,
                arbiter: prompt(match options.tests.confidence {
                    true => &outline.confident_arbiter,
                    false => &outline.arbiter,
                })?,
            }),
            None => None,
        };
        let mut judge = Self {
            name: name.to_owned(),
            version: String::new(),
            criterion: outline.criterion,
            steps,
            tests,
            installs: false,
            attempts,
            options,
        };
        judge.check_forms()?;
        let (attempts, options) = (attempts.to_string(), judge.options.version());
        let mut parts = vec![name, &attempts];
        let prompts: Vec<&Prompt> = judge.prompts().collect();
        parts.extend(prompts.iter().flat_map(|prompt| [prompt.name.as_str(), prompt.version.as_str()]));
        parts.extend((!options.is_empty()).then_some(options.as_str()));
        let version = digest(&parts)[..16].to_owned();
        judge.version = version;
        Ok(Some(judge))
    }

    /// The same judge with installation of missing packages; no effect without tests.
    pub fn with_packages(mut self) -> Self {
        if self.tests.is_some() && !self.installs {
            self.version = digest(&[&self.version, "installs packages"])[..16].to_owned();
            self.installs = true;
        }
        self
    }

    /// Every prompt that it may use.
    pub fn prompts(&self) -> impl Iterator<Item = &Prompt> {
        let tests = self.tests.iter().flat_map(|tests| tests.asked(&self.options.tests));
        self.steps.iter().chain(tests)
    }

    /// Names of the prompts that decide clear pairs, without tests.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|prompt| prompt.name.as_str())
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub fn options(&self) -> &JudgeOptions {
        &self.options
    }

    /// The highest grade that its last step can give; `None` if the guideline has no grades.
    pub fn max_grade(&self) -> Option<u8> {
        self.steps.last().and_then(|prompt| prompt.grammar().max_grade())
    }

    pub fn runs_tests(&self) -> bool {
        self.tests.is_some()
    }

    /// Total size in bytes of the prompts for a test program and for the verdict on it; `None` without tests.
    pub(crate) fn test_prompt_bytes(&self) -> Option<usize> {
        self.tests.as_ref().map(|tests| tests.generator.text.len() + tests.arbiter.text.len())
    }

    /// Checks that replaced prompts still use the answer format that their step needs.
    fn check_forms(&self) -> Result<(), JudgeError> {
        let wrong = |prompt: &Prompt, problem: &str| {
            let problem = format!("{problem} of the judge {}", self.name);
            Err(JudgeError::Prompt { file: prompt.name.clone(), problem })
        };
        let verdict = |prompt: &Prompt| {
            !matches!(
                prompt.grammar(),
                AnswerFormat::Program | AnswerFormat::Packages | AnswerFormat::Text(_)
            )
        };
        for prompt in self.steps.iter().chain(self.tests.as_ref().map(|tests| &tests.arbiter)) {
            if !verdict(prompt) {
                return wrong(
                    prompt,
                    "the form of its answer does not fit; expected `json`, `fields` or `word` in this step",
                );
            }
        }
        let Some(tests) = &self.tests else { return Ok(()) };
        let TestPrompts { generator, query_generator, adapter, improver, query_improver, fixer, arbiter } =
            tests;
        for prompt in [generator, query_generator, adapter, improver, query_improver] {
            if *prompt.grammar() != AnswerFormat::Program {
                return wrong(prompt, "the form of its answer does not fit; expected `program` in this step");
            }
        }
        if *fixer.grammar() != AnswerFormat::Packages {
            return wrong(fixer, "the form of its answer does not fit; expected `packages` in this step");
        }
        for prompt in [query_generator, query_improver] {
            if prompt.names("code") {
                return wrong(
                    prompt,
                    "{{code}} may not be in it: its tests are written unseen, in this step",
                );
            }
        }
        if self.options.tests.confidence && !arbiter.grammar().asks_for_confidence() {
            return wrong(arbiter, "its answer has no `confidence`, which is asked for in this step");
        }
        Ok(())
    }

    /// The next step for `pair` after `events`.
    ///
    /// # Errors
    /// When the events are not those that this judge would produce.
    pub fn next(&self, pair: &Pair, events: &[Event]) -> Result<Next, UnexpectedEvent> {
        let mut known = EventReader { events, position: 0 };
        match self.decide(pair, &mut known) {
            Ok(verdict) => match events.get(known.position) {
                None => Ok(Next::Decide(verdict)),
                Some(event) => Err(known.out_of_order("nothing more".to_owned(), event)),
            },
            Err(Interrupt::Next(next)) => Ok(*next),
            Err(Interrupt::Unexpected(wrong)) => Err(wrong),
        }
    }

    fn decide(&self, pair: &Pair, known: &mut EventReader<'_>) -> Result<Verdict, Interrupt> {
        let mut values = values(pair);
        let mut problem = String::new();
        for prompt in &self.steps {
            let read = self.ask(prompt, 0, None, &values, known, |text| prompt.grammar().read(text))?;
            match read {
                Ok(reading) => match verdict(prompt, reading) {
                    Some(verdict) => return Ok(verdict),
                    None => problem = format!("{} left it open", prompt.name),
                },
                // An unparsable answer counts as unclear if a later step can decide.
                Err(unreadable) => {
                    problem = unreadable;
                    if self.tests.is_none() {
                        return Ok(unresolved(NO_PROMPT, problem));
                    }
                }
            }
        }
        let Some(tests) = &self.tests else { return Ok(unresolved(NO_PROMPT, problem)) };
        let Some(language) = Language::named(&pair.language) else {
            return Ok(unresolved(NO_PROMPT, format!("no tests can be run in {}", pair.language)));
        };
        TestRunner { judge: self, tests, pair, language }.run(&mut values, known)?;
        let arbiter = &tests.arbiter;
        match self.ask(arbiter, 0, None, &values, known, |text| arbiter.grammar().read(text))? {
            Ok(reading) => Ok(verdict(arbiter, reading)
                .unwrap_or_else(|| unresolved(&arbiter.name, "the arbiter left it open".to_owned()))),
            Err(problem) => Ok(unresolved(&arbiter.name, problem)),
        }
    }

    /// The value that `read` parses from the answer to sample `sample` of a prompt, for `optional_step`. An
    /// unparsable answer is shown to the model again with the problem; the error is the problem with the last one.
    fn ask<T>(
        &self,
        prompt: &Prompt,
        sample: u32,
        optional_step: Option<OptionalStep>,
        values: &BTreeMap<&str, String>,
        known: &mut EventReader<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Result<T, String>, Interrupt> {
        let mut request = prompt.request(values);
        request.sample = self.options.round * SAMPLES_PER_ROUND + sample;
        let JudgeOptions { round, temperature, .. } = self.options;
        request.temperature = temperature.or(request.temperature);
        // At temperature 0, the same question would get the same answer.
        if sample > 0 || round > 0 && temperature.is_none() {
            request.temperature = request.temperature.map(|given| given.max(RESAMPLING_TEMPERATURE));
        }
        let answer = |request: &ChatRequest| match known.answer(&prompt.name)? {
            Some(answer) => Ok(answer.text.as_str()),
            None => Err(Interrupt::Next(Box::new(Next::Ask(Question {
                prompt: prompt.name.clone(),
                version: prompt.version.clone(),
                request: request.clone(),
                optional_step,
            })))),
        };
        ask_until_parsed(self.attempts, &prompt.name, &mut request, answer, read)
    }
}

/// Asks until an answer can be parsed, at most `attempts` times. An unparsable answer is shown to the model again
/// with the problem; the inner error is the problem with the last one. `request` is left as the request that was
/// answered.
pub(crate) fn ask_until_parsed<A: AsRef<str>, T, E>(
    attempts: u32,
    prompt: &str,
    request: &mut ChatRequest,
    mut ask: impl FnMut(&ChatRequest) -> Result<A, E>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Result<T, String>, E> {
    let mut last = String::new();
    for _ in 0..attempts {
        let answer = ask(request)?;
        match read(answer.as_ref()) {
            Ok(found) => return Ok(Ok(found)),
            Err(problem) => {
                correct(request, answer.as_ref(), &problem);
                last = format!("the answer of {prompt} cannot be read: {problem}");
            }
        }
    }
    Ok(Err(last))
}

/// Appends an unparsable answer and the problem with it to the conversation.
fn correct(request: &mut ChatRequest, answer: &str, problem: &str) {
    if !answer.trim().is_empty() {
        request.messages.push(Message::new(Role::Assistant, answer.trim()));
    }
    let correction = format!("That cannot be read: {problem}. Answer again, in the form that was asked for.");
    request.messages.push(Message::new(Role::User, correction));
}

/// The events in order, with the number of those already read.
struct EventReader<'e> {
    events: &'e [Event],
    position: usize,
}

impl<'e> EventReader<'e> {
    fn answer(&mut self, prompt: &str) -> Result<Option<&'e ModelAnswer>, UnexpectedEvent> {
        match self.events.get(self.position) {
            None => Ok(None),
            Some(Event::Answer(answer)) if answer.prompt == prompt => {
                self.position += 1;
                Ok(Some(answer))
            }
            Some(event) => Err(self.out_of_order(format!("an answer of {prompt}"), event)),
        }
    }

    fn run(&mut self, program: TestProgram) -> Result<&'e Run, Interrupt> {
        match self.events.get(self.position) {
            None => Err(Interrupt::Next(Box::new(Next::Run(program)))),
            Some(Event::Run(run)) if run.program == program => {
                self.position += 1;
                Ok(run)
            }
            Some(event) => Err(self.out_of_order("the run of the test program".to_owned(), event).into()),
        }
    }

    /// Like [`EventReader::run`], for a run that may be absent even if later events are present.
    fn run_if_any(&mut self, program: TestProgram) -> Result<Option<&'e Run>, Interrupt> {
        match self.events.get(self.position) {
            Some(Event::Run(run)) if run.program == program => self.run(program).map(Some),
            Some(_) => Ok(None),
            None => self.run(program).map(Some),
        }
    }

    fn out_of_order(&self, expected: String, found: &Event) -> UnexpectedEvent {
        let found = match found {
            Event::Answer(answer) => format!("an answer of {}", answer.prompt),
            Event::Run(_) => "the run of a program".to_owned(),
        };
        UnexpectedEvent { position: self.position + 1, expected, found }
    }
}

/// The values that prompts can use about a pair. The label is not one of them.
fn values(pair: &Pair) -> BTreeMap<&'static str, String> {
    let language = Language::named(&pair.language);
    let title = language.map_or(pair.language.as_str(), |language| language.title.as_str());
    BTreeMap::from([
        ("query", pair.query.clone()),
        ("code", pair.code.clone()),
        ("language", title.to_owned()),
        ("guidance", language.map(|language| language.guidance.clone()).unwrap_or_default()),
    ])
}

fn verdict(prompt: &Prompt, reading: ParsedAnswer) -> Option<Verdict> {
    let ParsedAnswer { meaning, reason, confidence } = reading;
    let outcome = match (meaning.label, meaning.then) {
        (Some(0), _) => Outcome::No,
        (Some(_), _) => Outcome::Yes,
        (None, Some(FollowUp::Discard)) => Outcome::Discarded,
        (None, _) => return None,
    };
    Some(Verdict { outcome, grade: meaning.grade, decided_by: prompt.name.clone(), reason, confidence })
}

fn unresolved(decided_by: &str, reason: String) -> Verdict {
    Verdict {
        outcome: Outcome::Unresolved,
        grade: None,
        decided_by: decided_by.to_owned(),
        reason,
        confidence: None,
    }
}
