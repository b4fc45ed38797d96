//! Code for queries without a correct candidate: written by a model, judged like any other, and rewritten with the
//! judge's feedback (CoSQA+, first version, 2024, section 3.3, where people gave the feedback).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use quarry_llm::{ChatRequest, Cost};
use serde::Serialize;

use super::waiting::lock;
use super::{Judging, SharedState, StepError};
use crate::answer;
use crate::error::JudgeError;
use crate::evidence::{Event, ModelAnswer};
use crate::judge::{Outcome, Question, ask_until_parsed};
use crate::language::Language;
use crate::ledger::{GeneratedCode, GeneratedStatus, NewCode, Unanswered};
use crate::prompt::Prompt;

/// The results of generating code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Generation")]
pub struct GenerationSummary {
    /// Queries without a correct candidate.
    pub queries: u64,
    /// Queries that are skipped because some candidates are undecided.
    pub open: u64,
    /// Queries with code that is correct according to the judge or a person, by the round in which it was written.
    pub answered: BTreeMap<u32, u64>,
    /// Queries whose code was judged wrong in the last round, or rejected by a person.
    pub unanswered: u64,
    /// Queries that failed, with the error. They are retried next time.
    pub failed: Vec<(String, String)>,
}

enum QueryOutcome {
    Answered(u32),
    Unanswered,
    Failed(String),
}

struct CodeWriter<'a> {
    judging: &'a Judging,
    writer: SharedState<'a>,
    judges: Vec<SharedState<'a>>,
}

impl Judging {
    /// The number of queries without a correct candidate, the number of those with undecided candidates, and the
    /// maximum cost of writing code for the former once each. No question is asked.
    pub fn estimate_generation(&self) -> Result<(u64, u64, Cost), JudgeError> {
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

    /// Writes code for the queries without a correct candidate, judges it, and rewrites it with the judge's feedback,
    /// up to the number of rounds in the plan. Code that was written and judged before is not written again.
    ///
    /// # Errors
    /// When an error affects all queries, as for [`Judging::run`].
    pub fn generate(
        &self,
        stop: &AtomicBool,
        progress: &(dyn Fn() + Sync),
    ) -> Result<GenerationSummary, JudgeError> {
        self.generate_for(&|_| true, stop, progress)
    }

    /// The same for queries with these ids only: others may have answers that the judge was not asked about.
    pub fn generate_for(
        &self,
        is_wanted: &dyn Fn(&str) -> bool,
        stop: &AtomicBool,
        progress: &(dyn Fn() + Sync),
    ) -> Result<GenerationSummary, JudgeError> {
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
                                let counted = author.writer.record_failure(&reason);
                                (QueryOutcome::Failed(reason), counted)
                            }
                            Err(StepError::Stop) => return,
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
            return Err(JudgeError::Stopped);
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
    /// Writes and judges until there is an answer, or the maximum number of rounds is reached.
    fn write(&self, query: &Unanswered) -> Result<QueryOutcome, StepError> {
        let Judging { writer, plan, judge, client, .. } = self.judging;
        loop {
            let known = writer.ledger().generated_for(*judge, &query.query_id)?;
            let mut values = values(query);
            let (prompt, round) = match known.last() {
                None => (&plan.generation.generator, 1),
                Some(last) if last.is_accepted() => return Ok(QueryOutcome::Answered(last.round)),
                // Rejected by a person, which is final.
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

    /// The code in the answer to a request, asked until it can be parsed, with the hash of the request that it
    /// answers.
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
        let code = ask_until_parsed(attempts, &prompt.name, &mut request, answer, read)?;
        Ok(code.map(|code| (code, self.judging.client.chat_name(&request))))
    }

    /// Judges code. The verdict of a majority follows from those of its members.
    fn judge(&self, code: &GeneratedCode) -> Result<(), StepError> {
        for judge in &self.judges {
            let Judging { writer, judge: number, .. } = judge.judging;
            if let Some(waiting) = writer.ledger().waiting_pair(*number, code.number)? {
                judge.judge(waiting)?;
            }
        }
        Ok(())
    }

    /// Why code does not answer its query, in the words of the person or judge, with the test results.
    fn review(&self, code: &GeneratedCode) -> Result<String, JudgeError> {
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
                parts.push(format!("A test program {}:\n{}", run.description(language), run.shown(language)));
            }
        }
        if parts.is_empty() {
            parts.push("It could not be decided whether the code does all that is asked for.".to_owned());
        }
        Ok(parts.join("\n\n"))
    }
}

/// The values that prompts can use about a query.
fn values(query: &Unanswered) -> BTreeMap<&'static str, String> {
    let title = Language::named(&query.language).map_or(query.language.as_str(), |language| &language.title);
    BTreeMap::from([("query", query.query.clone()), ("language", title.to_owned())])
}
