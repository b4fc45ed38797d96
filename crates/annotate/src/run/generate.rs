//! Code for queries that no candidate answers: written by a model, judged like any other, written anew with what the
//! judge said (CoSQA+, first version, 2024, section 3.3, where people did the latter).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use quarry_llm::{ChatRequest, Cost};
use serde::Serialize;

use super::waiting::lock;
use super::{Judging, SharedState, StepError};
use crate::answer;
use crate::error::AnnotateError;
use crate::evidence::{Event, ModelAnswer};
use crate::judge::{Outcome, Question, ask_until_read};
use crate::language::Language;
use crate::ledger::{GeneratedCode, GeneratedStatus, NewCode, Unanswered};
use crate::prompt::Prompt;

/// The results of generating code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GenerationSummary {
    /// Queries that no candidate answers.
    pub queries: u64,
    /// Queries that are left alone, as candidates are not decided yet.
    pub open: u64,
    /// Queries with code that the judge, or a person, says answers them, by the round that it was written in.
    pub answered: BTreeMap<u32, u64>,
    /// Queries whose code was judged not to answer them in the last round, or rejected by a person.
    pub unanswered: u64,
    /// Queries that something went wrong with, and what. They are tried again next time.
    pub failed: Vec<(String, String)>,
}

/// The outcome for a query.
enum QueryOutcome {
    Answered(u32),
    Unanswered,
    Failed(String),
}

/// Writes code and has it judged.
struct CodeWriter<'a> {
    judging: &'a Judging,
    writer: SharedState<'a>,
    judges: Vec<SharedState<'a>>,
}

impl Judging {
    /// The queries that no candidate answers, with what writing code for them would cost at most, the first time each;
    /// and the number of those with candidates that are not decided yet. Nothing is asked.
    ///
    /// # Errors
    /// When the ledger or the cache cannot be read.
    pub fn estimate_generation(&self) -> Result<(u64, u64, Cost), AnnotateError> {
        let (queries, open) = self.writer.ledger().unanswered(self.judge)?;
        let mut worst = Cost::default();
        for query in &queries {
            if self.writer.ledger().generated_for(self.judge, &query.query_id)?.is_empty() {
                let request = self.plan.generation.generator.request(&values(query));
                worst += self.client.estimate_chat(std::slice::from_ref(&request))?.worst;
            }
        }
        Ok((queries.len() as u64, open, worst))
    }

    /// Writes code for the queries that the judge has found no answer to, judges it, and writes it anew with what the
    /// judge said, as often as the plan says. What was written and judged before is not written again.
    ///
    /// # Errors
    /// When something is wrong that concerns all queries, as for [`Judging::run`].
    pub fn generate(
        &self,
        stop: &AtomicBool,
        progress: &(dyn Fn() + Sync),
    ) -> Result<GenerationSummary, AnnotateError> {
        self.generate_for(&|_| true, stop, progress)
    }

    /// The same for some queries alone, by their ids: others may be answered by what the judge was not asked about.
    ///
    /// # Errors
    /// As for [`Judging::generate`].
    pub fn generate_for(
        &self,
        is_wanted: &dyn Fn(&str) -> bool,
        stop: &AtomicBool,
        progress: &(dyn Fn() + Sync),
    ) -> Result<GenerationSummary, AnnotateError> {
        let (mut queries, open) = self.writer.ledger().unanswered(self.judge)?;
        queries.retain(|query| is_wanted(&query.query_id));
        let written = &self.plan.generation;
        self.writer.add_prompts(&[&written.generator, &written.repairer])?;
        let is_stopped = || stop.load(Ordering::SeqCst);
        let judges = self.judges().iter().map(|judging| SharedState::new(judging, &is_stopped)).collect();
        let author = CodeWriter { judging: self, writer: SharedState::new(self, &is_stopped), judges };
        let generation = Mutex::new(GenerationSummary {
            queries: queries.len() as u64,
            open,
            ..GenerationSummary::default()
        });
        let failed = Mutex::new(None);
        let queries = Mutex::new(queries.into_iter());
        thread::scope(|scope| {
            for _ in 0..self.plan.workers {
                scope.spawn(|| {
                    while !is_stopped() && lock(&failed).is_none() {
                        let next = lock(&queries).next();
                        let Some(query) = next else { return };
                        let (ending, counted) = match author.write(&query) {
                            Ok(ending) => {
                                author.writer.passed();
                                (ending, Ok(()))
                            }
                            Err(StepError::Pair(reason)) => {
                                let counted = author.writer.failed_once_more(&reason);
                                (QueryOutcome::Failed(reason), counted)
                            }
                            Err(StepError::Stop | StepError::Later) => return,
                            Err(StepError::All(error)) => {
                                lock(&failed).get_or_insert(error);
                                return;
                            }
                        };
                        lock(&generation).add(query, ending);
                        progress();
                        if let Err(error) = counted {
                            lock(&failed).get_or_insert(error);
                            return;
                        }
                    }
                });
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        if is_stopped() {
            return Err(AnnotateError::Stopped);
        }
        let mut generation = generation.into_inner().unwrap_or_else(PoisonError::into_inner);
        generation.failed.sort();
        Ok(generation)
    }
}

impl GenerationSummary {
    fn add(&mut self, query: Unanswered, ending: QueryOutcome) {
        match ending {
            QueryOutcome::Answered(round) => *self.answered.entry(round).or_default() += 1,
            QueryOutcome::Unanswered => self.unanswered += 1,
            QueryOutcome::Failed(reason) => self.failed.push((query.query_id, reason)),
        }
    }
}

impl CodeWriter<'_> {
    /// Writes and judges until there is an answer, or it was tried often enough.
    fn write(&self, query: &Unanswered) -> Result<QueryOutcome, StepError> {
        let Judging { writer, plan, judge, client, .. } = self.judging;
        loop {
            let known = writer.ledger().generated_for(*judge, &query.query_id)?;
            let mut values = values(query);
            let (prompt, round) = match known.last() {
                None => (&plan.generation.generator, 1),
                Some(last) if last.is_accepted() => return Ok(QueryOutcome::Answered(last.round)),
                // What people rejected stays so.
                Some(last) if last.status != GeneratedStatus::Generated => {
                    return Ok(QueryOutcome::Unanswered);
                }
                Some(last) if last.verdict.is_none() => {
                    self.judge(last)?;
                    continue;
                }
                Some(last) if last.round >= plan.generation.rounds => return Ok(QueryOutcome::Unanswered),
                Some(last) => {
                    values.insert("code", last.pair.code.clone());
                    values.insert("verdict", self.review(last)?);
                    (&plan.generation.repairer, last.round + 1)
                }
            };
            let (code, request) = match self.ask(query, prompt, prompt.request(&values))? {
                Ok(found) => found,
                Err(problem) => return Ok(QueryOutcome::Failed(problem)),
            };
            writer.add_generated(NewCode {
                judge: *judge,
                query_id: query.query_id.clone(),
                query: query.query.clone(),
                code,
                language: query.language.clone(),
                round,
                model: client.name(),
                prompt: prompt.version.clone(),
                request: Some(request),
                status: GeneratedStatus::Generated,
                person: None,
            })?;
        }
    }

    /// The code in the answer to a request, asked until it can be read, with the name of the request that it answers.
    fn ask(
        &self,
        query: &Unanswered,
        prompt: &Prompt,
        mut request: ChatRequest,
    ) -> Result<Result<(String, String), String>, StepError> {
        let Some(language) = Language::named(&query.language) else {
            return Ok(Err(format!("no code can be read in {}", query.language)));
        };
        let answer = |request: &ChatRequest| {
            let question = Question {
                prompt: prompt.name.clone(),
                version: prompt.version.clone(),
                request: request.clone(),
                optional_step: None,
            };
            let mut text = String::new();
            self.writer.ask(query.pair, None, question, &mut |ModelAnswer { text: answer, .. }| {
                text = answer;
                None
            })?;
            Ok::<String, StepError>(text)
        };
        let read = |text: &str| answer::program(text, language);
        let attempts = self.judging.plan.judge.attempts();
        let code = ask_until_read(attempts, &prompt.name, &mut request, answer, read)?;
        Ok(code.map(|code| (code, self.judging.client.chat_name(&request))))
    }

    /// Has code judged. The verdict of a majority follows from those of its members.
    fn judge(&self, code: &GeneratedCode) -> Result<(), StepError> {
        for judge in &self.judges {
            let Judging { writer, judge: number, .. } = judge.judging;
            if let Some(waiting) = writer.ledger().waiting_pair(*number, code.number)? {
                judge.judge(waiting)?;
            }
        }
        Ok(())
    }

    /// Why code does not answer its query, in the words of who says so, with what came of the tests.
    fn review(&self, code: &GeneratedCode) -> Result<String, AnnotateError> {
        let mut parts: Vec<String> = Vec::new();
        for judge in &self.judges {
            let Judging { writer, judge: number, .. } = judge.judging;
            let Some(history) = writer.ledger().history(*number, &code.pair.id)? else { continue };
            match history.verdict {
                Some(verdict) if verdict.outcome == Outcome::No => parts.push(verdict.reason),
                _ => continue,
            }
            let tests = history.steps.iter().rev().find_map(|step| match &step.event {
                Event::Run(run) if run.program.optional_step.is_none() => Some(run),
                _ => None,
            });
            if let Some((run, language)) = tests.zip(Language::named(&code.pair.language)) {
                parts.push(format!("A test program {}:\n{}", run.told(language), run.shown(language)));
            }
        }
        if parts.is_empty() {
            parts.push("It could not be decided whether the code does all that is asked for.".to_owned());
        }
        Ok(parts.join("\n\n"))
    }
}

/// What prompts can name of a query.
fn values(query: &Unanswered) -> BTreeMap<&'static str, String> {
    let title = Language::named(&query.language).map_or(query.language.as_str(), |language| &language.title);
    BTreeMap::from([("query", query.query.clone()), ("language", title.to_owned())])
}
