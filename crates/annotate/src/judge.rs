//! Judging as a function: from what is known about a pair to what is done next.
//!
//! A judge holds no state. All that it knows is the list of events, in which the ledger keeps what happened: whoever
//! goes on with a pair, in the same process or after a crash, asks [`Judge::next`] with that list, does what it says,
//! and adds what came of it. The agents are those of CoSQA+ (2024): a screener, a test generator, an executor, a bug
//! fixer for missing packages, and an arbiter.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use quarry_llm::{ChatRequest, Message, Role};
use serde::{Deserialize, Serialize};

use crate::answer::{self, Reading, Then};
use crate::digest::digest;
use crate::error::AnnotateError;
use crate::evidence::{Answer, Event, Run, RunResult, TestProgram};
use crate::language::Language;
use crate::pair::Pair;
use crate::prompt::{Prompt, Prompts};

/// Who decides a pair in the place of a prompt, where nobody could.
const NOBODY: &str = "nobody";

/// Decides whether a code answers a query.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Its name.
    pub name: String,
    /// Stands for all its prompts and choices; part of every label.
    pub version: String,
    steps: Vec<Prompt>,
    tests: Option<Tests>,
    /// How often a question is asked until the answer can be read.
    attempts: u32,
}

#[derive(Clone, Debug)]
struct Tests {
    generator: Prompt,
    fixer: Prompt,
    arbiter: Prompt,
}

/// A judge as `judges.toml` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outline {
    about: String,
    steps: Vec<String>,
    #[serde(default)]
    tests: Option<TestsOutline>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestsOutline {
    generator: String,
    fixer: String,
    arbiter: String,
}

static JUDGES: LazyLock<BTreeMap<String, Outline>> = LazyLock::new(|| {
    toml::from_str(include_str!("../prompts/judges.toml")).expect("judges.toml is well-formed")
});

/// What is to be done for a pair.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A model is to be asked.
    Ask(Question),
    /// A program is to be run.
    Run(TestProgram),
    /// Nothing more: this is the verdict.
    Decide(Verdict),
}

/// A question to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The prompt that it was made from.
    pub prompt: String,
    /// The version of that.
    pub version: String,
    /// What is asked.
    pub request: ChatRequest,
}

/// What judging a pair came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it is.
    pub outcome: Outcome,
    /// How well the code answers, where the guideline has grades.
    pub grade: Option<u8>,
    /// The prompt whose answer decided.
    pub decided_by: String,
    /// Why, in the words of the model where there are some.
    pub reason: String,
}

/// Whether there is a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The code answers the query.
    Yes,
    /// It does not.
    No,
    /// The query is none that looks for code.
    Discarded,
    /// It could not be decided.
    Unresolved,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Yes, Self::No, Self::Discarded, Self::Unresolved];

    /// As the ledger has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Discarded => "discarded",
            Self::Unresolved => "unresolved",
        }
    }

    /// The outcome of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// The events of a pair are none that this judge makes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the evidence does not fit the judge: expected {expected} as event {position}, found {found}")]
pub struct OutOfOrder {
    /// From 1.
    pub position: usize,
    /// What the judge would have done.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// Why [`Judge::next`] goes no further: there is something to be done, or something is wrong.
enum Halt {
    Next(Box<Next>),
    Wrong(OutOfOrder),
}

impl From<OutOfOrder> for Halt {
    fn from(wrong: OutOfOrder) -> Self {
        Self::Wrong(wrong)
    }
}

impl Judge {
    /// The names of all judges with what they are, in alphabetical order.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        JUDGES.iter().map(|(name, outline)| (name.as_str(), outline.about.as_str()))
    }

    /// The judge of a name, which asks a question at most `attempts` times until it can read the answer.
    ///
    /// # Errors
    /// `None` within `Ok` where there is no such judge; an error where its prompts do not fit their places.
    pub fn named(name: &str, prompts: &Prompts, attempts: u32) -> Result<Option<Self>, AnnotateError> {
        let Some(outline) = JUDGES.get(name) else { return Ok(None) };
        let prompt = |name: &String| prompts.named(name).cloned();
        let steps = outline.steps.iter().map(prompt).collect::<Result<Vec<_>, _>>()?;
        let tests = match &outline.tests {
            Some(TestsOutline { generator, fixer, arbiter }) => Some(Tests {
                generator: prompt(generator)?,
                fixer: prompt(fixer)?,
                arbiter: prompt(arbiter)?,
            }),
            None => None,
        };
        let mut judge = Self { name: name.to_owned(), version: String::new(), steps, tests, attempts };
        judge.check_forms()?;
        let attempts = attempts.to_string();
        let mut parts = vec![name, &attempts];
        let prompts: Vec<&Prompt> = judge.prompts().collect();
        parts.extend(prompts.iter().flat_map(|prompt| [prompt.name.as_str(), prompt.version.as_str()]));
        let version = digest(&parts)[..16].to_owned();
        judge.version = version;
        Ok(Some(judge))
    }

    /// Every prompt that it may ask.
    pub fn prompts(&self) -> impl Iterator<Item = &Prompt> {
        let tests = self.tests.iter().flat_map(|tests| [&tests.generator, &tests.fixer, &tests.arbiter]);
        self.steps.iter().chain(tests)
    }

    /// Whether it runs programs.
    pub fn runs_tests(&self) -> bool {
        self.tests.is_some()
    }

    /// Bytes of the prompts for a test program and for the verdict on it, where there are tests.
    pub(crate) fn test_prompt_bytes(&self) -> Option<usize> {
        self.tests.as_ref().map(|tests| tests.generator.text.len() + tests.arbiter.text.len())
    }

    /// A replaced prompt must still answer in the form that its place needs.
    fn check_forms(&self) -> Result<(), AnnotateError> {
        use crate::answer::Grammar;
        let verdict = |prompt: &Prompt| !matches!(prompt.grammar(), Grammar::Program | Grammar::Packages);
        let mut places: Vec<(&Prompt, bool, &str)> =
            self.steps.iter().map(|prompt| (prompt, verdict(prompt), "`json`, `fields` or `word`")).collect();
        if let Some(tests) = &self.tests {
            let is = |prompt: &Prompt, grammar: Grammar| *prompt.grammar() == grammar;
            places.push((&tests.generator, is(&tests.generator, Grammar::Program), "`program`"));
            places.push((&tests.fixer, is(&tests.fixer, Grammar::Packages), "`packages`"));
            places.push((&tests.arbiter, verdict(&tests.arbiter), "`json`, `fields` or `word`"));
        }
        match places.iter().find(|(_, fits, _)| !fits) {
            Some((prompt, _, expected)) => Err(AnnotateError::Prompt {
                place: prompt.name.clone(),
                problem: format!(
                    "the form of its answer does not fit the judge {}; expected {expected}",
                    self.name
                ),
            }),
            None => Ok(()),
        }
    }

    /// What is to be done for `pair` after `events`.
    ///
    /// # Errors
    /// When the events are none that this judge makes.
    pub fn next(&self, pair: &Pair, events: &[Event]) -> Result<Next, OutOfOrder> {
        let mut known = Known { events, position: 0 };
        match self.decide(pair, &mut known) {
            Ok(verdict) => match events.get(known.position) {
                None => Ok(Next::Decide(verdict)),
                Some(event) => Err(known.out_of_order("nothing more".to_owned(), event)),
            },
            Err(Halt::Next(next)) => Ok(*next),
            Err(Halt::Wrong(wrong)) => Err(wrong),
        }
    }

    fn decide(&self, pair: &Pair, known: &mut Known<'_>) -> Result<Verdict, Halt> {
        let mut values = values(pair);
        let mut problem = String::new();
        for prompt in &self.steps {
            let read = self.ask(prompt, &values, known, |text| prompt.grammar().read(text))?;
            match read {
                Ok(reading) => match verdict(prompt, reading) {
                    Some(verdict) => return Ok(verdict),
                    None => problem = format!("{} left it open", prompt.name),
                },
                // What cannot be read counts as not clear where somebody else can decide.
                Err(unreadable) => {
                    problem = unreadable;
                    if self.tests.is_none() {
                        return Ok(unresolved(NOBODY, problem));
                    }
                }
            }
        }
        let Some(tests) = &self.tests else { return Ok(unresolved(NOBODY, problem)) };
        let Some(language) = Language::named(&pair.language) else {
            return Ok(unresolved(NOBODY, format!("no tests can be run in {}", pair.language)));
        };
        let written = |text: &str| answer::program(text, language);
        match self.ask(&tests.generator, &values, known, written)? {
            Ok(source) => {
                let run = known.run(TestProgram { language: pair.language.clone(), source })?;
                values.insert("program", run.program.source.clone());
                values.insert("output", run.shown(language));
                let mut result = run.told(language);
                if run.result(language) == RunResult::MissingPackage {
                    // The answer is evidence of what would be needed; nothing is installed.
                    let wanted = |text: &str| language.packages(text);
                    if let Ok(packages) = self.ask(&tests.fixer, &values, known, wanted)? {
                        result.push_str(&format!(" (to be installed: {})", packages.join(", ")));
                    }
                }
                values.insert("result", result);
            }
            Err(problem) => {
                values.insert("program", "(none)".to_owned());
                values.insert("output", "(nothing)".to_owned());
                values.insert("result", format!("there is no program: {problem}"));
            }
        }
        let arbiter = &tests.arbiter;
        match self.ask(arbiter, &values, known, |text| arbiter.grammar().read(text))? {
            Ok(reading) => Ok(verdict(arbiter, reading)
                .unwrap_or_else(|| unresolved(&arbiter.name, "the arbiter left it open".to_owned()))),
            Err(problem) => Ok(unresolved(&arbiter.name, problem)),
        }
    }

    /// What `read` makes of the answer to a prompt. An answer that cannot be read is shown to the model again, with
    /// what is wrong with it; the error is what is wrong with the last one.
    fn ask<T>(
        &self,
        prompt: &Prompt,
        values: &BTreeMap<&str, String>,
        known: &mut Known<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Result<T, String>, Halt> {
        let mut request = prompt.request(values);
        let mut last = String::new();
        for _ in 0..self.attempts {
            let Some(answer) = known.answer(&prompt.name)? else {
                let (prompt, version) = (prompt.name.clone(), prompt.version.clone());
                return Err(Halt::Next(Box::new(Next::Ask(Question { prompt, version, request }))));
            };
            match read(&answer.text) {
                Ok(found) => return Ok(Ok(found)),
                Err(problem) => {
                    if !answer.text.trim().is_empty() {
                        request.messages.push(Message::new(Role::Assistant, answer.text.trim()));
                    }
                    let correction = format!(
                        "That cannot be read: {problem}. Answer again, in the form that was asked for."
                    );
                    request.messages.push(Message::new(Role::User, correction));
                    last = format!("the answer of {} cannot be read: {problem}", prompt.name);
                }
            }
        }
        Ok(Err(last))
    }
}

/// The events in their order, with those that were looked at.
struct Known<'e> {
    events: &'e [Event],
    position: usize,
}

impl<'e> Known<'e> {
    fn answer(&mut self, prompt: &str) -> Result<Option<&'e Answer>, OutOfOrder> {
        match self.events.get(self.position) {
            None => Ok(None),
            Some(Event::Answer(answer)) if answer.prompt == prompt => {
                self.position += 1;
                Ok(Some(answer))
            }
            Some(event) => Err(self.out_of_order(format!("an answer of {prompt}"), event)),
        }
    }

    fn run(&mut self, program: TestProgram) -> Result<&'e Run, Halt> {
        match self.events.get(self.position) {
            None => Err(Halt::Next(Box::new(Next::Run(program)))),
            Some(Event::Run(run)) if run.program == program => {
                self.position += 1;
                Ok(run)
            }
            Some(event) => Err(self.out_of_order("the run of the test program".to_owned(), event).into()),
        }
    }

    fn out_of_order(&self, expected: String, found: &Event) -> OutOfOrder {
        let found = match found {
            Event::Answer(answer) => format!("an answer of {}", answer.prompt),
            Event::Run(_) => "the run of a program".to_owned(),
        };
        OutOfOrder { position: self.position + 1, expected, found }
    }
}

/// What prompts can name of a pair. Its label is not among it.
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

fn verdict(prompt: &Prompt, reading: Reading) -> Option<Verdict> {
    let Reading { meaning, reason } = reading;
    let outcome = match (meaning.label, meaning.then) {
        (Some(0), _) => Outcome::No,
        (Some(_), _) => Outcome::Yes,
        (None, Some(Then::Discard)) => Outcome::Discarded,
        (None, _) => return None,
    };
    Some(Verdict { outcome, grade: meaning.grade, decided_by: prompt.name.clone(), reason })
}

fn unresolved(decided_by: &str, reason: String) -> Verdict {
    Verdict { outcome: Outcome::Unresolved, grade: None, decided_by: decided_by.to_owned(), reason }
}
