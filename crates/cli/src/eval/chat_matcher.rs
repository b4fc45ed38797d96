//! A judge as an evaluation method: a chat model that decides for each pair whether it matches, as in
//! GenCodeSearchNet (2023), section 5.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use quarry_eval::EvalError;
use quarry_eval::method::{ChatModel, PairScorer, Scale};
use quarry_judge::{
    Event, Judge, JudgeError, JudgeOptions, ModelAnswer, Next, Outcome, Pair, Prompts, Verdict,
};
use quarry_llm::Client;

/// Maximum number of tries until the answer can be parsed.
const ATTEMPTS: u32 = 2;

/// Scores a pair by the verdict of a judge without tests.
#[derive(Debug)]
pub struct ChatMatcher {
    judge: Judge,
    client: Client,
    model: String,
    language: String,
    at_once: usize,
}

impl ChatMatcher {
    /// Asks `client` as specified by `chat`, with at most `at_once` concurrent questions.
    pub fn new(client: Client, chat: &ChatModel, at_once: usize) -> Result<Self, JudgeError> {
        let ChatModel { model, judge, language, prompts, temperature } = chat;
        let options = JudgeOptions { temperature: *temperature, ..JudgeOptions::default() };
        let found = Judge::with_options(judge, &Prompts::open(prompts.as_deref())?, ATTEMPTS, options)?;
        let Some(found) = found.filter(|found| !found.runs_tests()) else {
            let mut known = Vec::new();
            for (name, _) in Judge::names() {
                let other = Judge::named(name, &Prompts::open(None)?, ATTEMPTS)?;
                known.extend(other.filter(|other| !other.runs_tests()).map(|other| other.name));
            }
            return Err(JudgeError::Prompt {
                file: judge.clone(),
                problem: format!("expected a judge that does not run programs: one of {}", known.join(", ")),
            });
        };
        let (model, language) = (model.clone(), language.to_lowercase());
        Ok(Self { judge: found, client, model, language, at_once: at_once.max(1) })
    }

    /// Hash of the prompts of `chat` if they replace built-in ones; otherwise empty.
    pub fn prompts_identity(chat: &ChatModel) -> Result<String, JudgeError> {
        let Some(directory) = &chat.prompts else { return Ok(String::new()) };
        let judge = Judge::named(&chat.judge, &Prompts::open(Some(directory))?, ATTEMPTS)?;
        Ok(judge.map_or_else(String::new, |judge| judge.version))
    }

    pub fn id(&self) -> String {
        format!("{}, {} {}", self.client.name(), self.judge.name, self.judge.version)
    }

    fn failed(&self, source: impl std::error::Error + Send + Sync + 'static) -> EvalError {
        EvalError::Chat { model: self.model.clone(), source: Box::new(source) }
    }

    fn judge(&self, query: &str, code: &str) -> Result<Verdict, EvalError> {
        let pair = Pair {
            id: String::new(),
            query_id: String::new(),
            query: query.to_owned(),
            code_id: String::new(),
            code: code.to_owned(),
            language: self.language.clone(),
            label: None,
            alternative: None,
        };
        let mut events = Vec::new();
        loop {
            match self.judge.next(&pair, &events).map_err(|error| self.failed(error))? {
                Next::Decide(verdict) => return Ok(verdict),
                Next::Ask(question) => {
                    let answer = self.client.chat(&question.request).map_err(|error| self.failed(error))?;
                    events.push(Event::Answer(ModelAnswer { prompt: question.prompt, text: answer.text }));
                }
                Next::Run(_) => {
                    let source = "this judge runs programs; use one that only asks".into();
                    return Err(EvalError::Chat { model: self.model.clone(), source });
                }
            }
        }
    }

    /// 1 for a pair that matches and 0 for one that does not; with grades, the grade divided by the highest one. One
    /// half if undecided.
    fn score(&self, verdict: &Verdict) -> f32 {
        match (verdict.grade, self.judge.max_grade(), verdict.outcome) {
            (Some(grade), Some(maximum), _) if maximum > 0 => f32::from(grade) / f32::from(maximum),
            (_, _, Outcome::Yes) => 1.0,
            (_, _, Outcome::No | Outcome::Discarded) => 0.0,
            (_, _, Outcome::Unresolved) => 0.5,
        }
    }
}

impl PairScorer for ChatMatcher {
    type Query = String;
    type Document = String;

    const SCALE: Scale = Scale::Probability;
    const PAIRS_PER_CALL: usize = 1024;

    fn prepare_queries(&self, texts: &[&str]) -> Result<Vec<String>, EvalError> {
        Ok(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn prepare_documents(&self, texts: &[&str]) -> Result<Vec<String>, EvalError> {
        self.prepare_queries(texts)
    }

    fn score_pairs(&self, pairs: &[(&String, &String)]) -> Result<Vec<f32>, EvalError> {
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let worker = || {
            let mut scores = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                let position = next.fetch_add(1, Ordering::SeqCst);
                let Some((query, code)) = pairs.get(position) else { break };
                let verdict =
                    self.judge(query, code).inspect_err(|_| is_over.store(true, Ordering::SeqCst))?;
                scores.push((position, self.score(&verdict)));
            }
            Ok(scores)
        };
        let mut scores = vec![0.0; pairs.len()];
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.at_once.min(pairs.len())).map(|_| scope.spawn(worker)).collect();
            for worker in workers {
                let found: Result<Vec<_>, EvalError> =
                    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                found?.into_iter().for_each(|(position, score)| scores[position] = score);
            }
            Ok(scores)
        })
    }
}
