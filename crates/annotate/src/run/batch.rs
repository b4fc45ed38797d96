//! Asking in batches, in rounds: pairs are advanced as far as known answers allow, their next questions are sent
//! together, and when all batches have ended, the next round begins with their answers.
//!
//! A batch is recorded in the ledger before it is sent, with the worst case of each of its calls, and its cost is
//! reserved in the budget. After a crash, the process finds its batches there, looks up the id of a batch that was
//! just being sent, and reads the answers. Failed or expired questions are part of the next round, up to the maximum
//! number of attempts of a call.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use quarry_files::digest;
use quarry_llm::batch::{
    BatchAnswer, BatchState, Cancellable, FindOutcome, MAX_BYTES, MAX_QUESTIONS, SendOutcome, SentBatch,
};
use quarry_llm::budget::{BudgetError, Reservation};
use quarry_llm::{Batches, Booked, ChatRequest, Cost, LlmError};

use super::waiting::{RequestsInFlight, lock};
use super::{Judging, Progress, ShouldStop, concerns_all};
use crate::error::AnnotateError;
use crate::judge::Next;
use crate::ledger::{AnsweredQuestion, BatchCall, CallEnd, EventKey, OpenBatch, now};

/// Pause between checks of the batches: initial and maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Threads that record the answers of a batch, so that they share the wait for the disk.
const READERS: usize = 16;

/// State shared by the rounds of a run.
pub(super) struct Rounds<'a> {
    judging: &'a Judging,
    batches: Cancellable<'a>,
    stop: &'a ShouldStop<'a>,
    progress: &'a (dyn Fn(Progress) + Sync),
    filling: Mutex<PendingBatch>,
    /// Reserved budget of each open batch.
    set_aside: Mutex<HashMap<i64, Reservation>>,
    /// How often each question ended without an answer.
    failures: Mutex<HashMap<String, u32>>,
    /// Pairs that are not advanced any further in this run.
    given_up: Mutex<HashSet<i64>>,
    /// Why the budget allows no more questions in this round.
    unpaid: Mutex<Option<BudgetError>>,
    reading: RequestsInFlight,
}

/// The batch that is being collected.
#[derive(Default)]
struct PendingBatch {
    questions: Vec<Collected>,
    names: HashSet<String>,
    bytes: usize,
}

struct Collected {
    pair: i64,
    name: String,
    request: ChatRequest,
}

/// Runs rounds until no question is left.
pub(super) fn run(
    judging: &Judging,
    batches: &Batches,
    stop: &ShouldStop<'_>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(), AnnotateError> {
    let rounds = Rounds {
        judging,
        batches: batches.until(stop),
        stop,
        progress,
        filling: Mutex::default(),
        set_aside: Mutex::default(),
        failures: Mutex::default(),
        given_up: Mutex::default(),
        unpaid: Mutex::default(),
        reading: RequestsInFlight::default(),
    };
    for open in rounds.open()? {
        // It was counted as spent, because its end is not recorded.
        let reservation = judging.client.budget().reopen(open.worst);
        lock(&rounds.set_aside).insert(open.batch, reservation);
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let n_failures = rounds.n_failures();
        judging.pass(stop, progress, Some(&rounds))?;
        let rest = std::mem::take(&mut *lock(&rounds.filling));
        rounds.send(rest.questions)?;
        let unpaid = lock(&rounds.unpaid).take();
        match (rounds.open()?.is_empty(), unpaid) {
            // Rejected batches are sent again, up to the maximum number of attempts.
            (true, None) if rounds.n_failures() > n_failures => {
                rounds.sleep(pause)?;
                pause = (pause * 3 / 2).min(LONGEST_PAUSE);
            }
            (true, None) => return Ok(()),
            (true, Some(problem)) => {
                return Err(LlmError::Budget { endpoint: judging.client.name(), problem }.into());
            }
            (false, _) => rounds.wait()?,
        }
    }
}

impl Rounds<'_> {
    pub(super) fn has_given_up(&self, pair: i64) -> bool {
        lock(&self.given_up).contains(&pair)
    }

    /// Adds a question to the next batch, unless an open batch contains it.
    pub(super) fn collect(&self, pair: i64, name: &str, request: ChatRequest) -> Result<(), AnnotateError> {
        let mut filling = lock(&self.filling);
        let is_known = filling.names.contains(name) || self.judging.writer.ledger().is_in_batch(name)?;
        if is_known || lock(&self.unpaid).is_some() {
            return Ok(());
        }
        filling.bytes += self.batches.bytes(&request);
        filling.names.insert(name.to_owned());
        filling.questions.push(Collected { pair, name: name.to_owned(), request });
        if filling.questions.len() < MAX_QUESTIONS && filling.bytes < MAX_BYTES {
            return Ok(());
        }
        // The lock is held, so that the next batch is not started before this one is recorded.
        let full = std::mem::take(&mut *filling);
        self.send(full.questions)
    }

    fn open(&self) -> Result<Vec<OpenBatch>, AnnotateError> {
        self.judging.writer.ledger().open_batches(self.judging.judge)
    }

    /// Sends as many of the questions as the budget allows.
    fn send(&self, mut questions: Vec<Collected>) -> Result<(), AnnotateError> {
        let Judging { writer, client, judge, .. } = self.judging;
        let mut worst: Vec<Cost> =
            questions.iter().map(|question| self.batches.worst(&question.request)).collect();
        let reservation = loop {
            if questions.is_empty() {
                return Ok(());
            }
            let mut sum = Cost::default();
            worst.iter().for_each(|&cost| sum += cost);
            match client.budget().reserve(sum, Instant::now()) {
                Ok(reservation) => break reservation,
                Err(problem) => {
                    *lock(&self.unpaid) = Some(problem);
                    questions.truncate(questions.len() / 2);
                    worst.truncate(questions.len());
                }
            }
        };
        let names: Vec<&str> = questions.iter().map(|question| question.name.as_str()).collect();
        let time = now().to_string();
        let name = format!("quarry-{}", &digest(&[&names.join(" "), &time])[..32]);
        let calls = questions
            .iter()
            .zip(worst)
            .map(|(question, worst)| (question.pair, question.name.clone(), worst))
            .collect();
        let batch = writer.begin_batch(*judge, &name, calls)?;
        lock(&self.set_aside).insert(batch, reservation);
        let questions: Vec<(String, ChatRequest)> =
            questions.into_iter().map(|question| (question.name, question.request)).collect();
        match self.batches.send(&name, &questions) {
            SendOutcome::Accepted(id) => writer.number_batch(batch, &id),
            // It is looked up later, as after a crash.
            SendOutcome::Unknown(_) => Ok(()),
            SendOutcome::NotSent(failure) => {
                self.refuse(batch, &failure.to_string())?;
                let error = LlmError::Failed { endpoint: client.name(), attempts: 1, failure };
                if concerns_all(&error) { Err(error.into()) } else { Ok(()) }
            }
        }
    }

    /// Waits until no batch is open.
    fn wait(&self) -> Result<(), AnnotateError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let mut n_open = 0;
            for open in self.open()? {
                n_open += usize::from(!self.look(&open)?);
            }
            if n_open == 0 {
                return Ok(());
            }
            self.sleep(pause)?;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }

    fn sleep(&self, time: Duration) -> Result<(), AnnotateError> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if (self.stop)() {
                return Err(AnnotateError::Stopped);
            }
            thread::sleep(FIRST_PAUSE.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Total number of questions that ended without an answer.
    fn n_failures(&self) -> u32 {
        lock(&self.failures).values().sum()
    }

    /// Checks the status of a batch, and reads it if it has ended; returns whether it has.
    fn look(&self, open: &OpenBatch) -> Result<bool, AnnotateError> {
        let writer = &self.judging.writer;
        let id = match &open.id {
            Some(id) => id.clone(),
            None => {
                let ledger = writer.ledger();
                let sent = SentBatch {
                    name: &open.name,
                    n_questions: open.n_questions,
                    sent: open.sent,
                    is_other: &|id| ledger.knows_batch(id).unwrap_or(true),
                    holds: &|name| ledger.batch_call(open.batch, name).is_ok_and(|call| call.is_some()),
                };
                match self.batches.find(&sent)? {
                    FindOutcome::Found(id) => {
                        writer.number_batch(open.batch, &id)?;
                        id
                    }
                    FindOutcome::NotFound if now() > open.sent + self.batches.seconds_until_settled() => {
                        self.refuse(open.batch, "the provider has no such batch")?;
                        return Ok(true);
                    }
                    FindOutcome::NotFound | FindOutcome::Pending => return Ok(false),
                }
            }
        };
        match self.batches.state(&id)? {
            BatchState::InProgress => Ok(false),
            BatchState::Refused(reason) => {
                self.refuse(open.batch, &format!("the provider rejected its batch: {reason}"))?;
                Ok(true)
            }
            BatchState::Ended => {
                self.read(open.batch, &id)?;
                Ok(true)
            }
        }
    }

    /// Ends a batch that costs nothing.
    fn refuse(&self, batch: i64, problem: &str) -> Result<(), AnnotateError> {
        self.end(batch, problem, |_| Booked::default(), Cost::default())
    }

    /// Ends a batch. `booked` returns the booking of each call that has not ended; `known` is that of the others.
    fn end(
        &self,
        batch: i64,
        problem: &str,
        booked: impl Fn(&BatchCall) -> Booked,
        mut known: Cost,
    ) -> Result<(), AnnotateError> {
        let writer = &self.judging.writer;
        let rest = writer.ledger().open_calls(batch)?;
        let ends: Vec<CallEnd> = (rest.iter())
            .map(|call| CallEnd { call: call.call, booked: booked(call), seconds: 0.0 })
            .collect();
        ends.iter().for_each(|end| known += end.booked.cost);
        writer.end_batch(batch, ends, problem)?;
        if let Some(reservation) = lock(&self.set_aside).remove(&batch) {
            reservation.settle(known);
        }
        rest.iter().try_for_each(|call| self.fail(call, problem))
    }

    /// Records that a question has no answer; for good after the maximum number of attempts.
    fn fail(&self, call: &BatchCall, problem: &str) -> Result<(), AnnotateError> {
        let Judging { writer, plan, judge, .. } = self.judging;
        let count = {
            let mut failures = lock(&self.failures);
            let count = failures.entry(call.request.clone()).or_default();
            *count += 1;
            *count
        };
        if count >= plan.attempts() && lock(&self.given_up).insert(call.pair) {
            let key = EventKey { judge: *judge, pair: call.pair, position: 0, optional_step: None };
            writer.add_failure(key, &format!("{problem} (batch {count})"))?;
            (self.progress)(Progress::Failed);
        }
        Ok(())
    }

    /// Records the answers of a batch.
    fn read(&self, batch: i64, id: &str) -> Result<(), AnnotateError> {
        let (sender, receiver) = mpsc::sync_channel::<BatchAnswer>(2 * READERS);
        let (receiver, booked, failed) =
            (Mutex::new(receiver), Mutex::new(Cost::default()), Mutex::new(None::<AnnotateError>));
        let given = thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    while let Ok(brought) = { lock(&receiver).recv() } {
                        if lock(&failed).is_some() {
                            // The next run reads the rest.
                            continue;
                        }
                        match self.take(batch, brought) {
                            Ok(cost) => *lock(&booked) += cost,
                            Err(error) => drop(lock(&failed).get_or_insert(error)),
                        }
                    }
                });
            }
            let given = self.batches.for_each_answer(id, &mut |brought| drop(sender.send(brought)));
            drop(sender);
            given
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let missing = match given? {
            None => "its batch has ended without mentioning it".to_owned(),
            Some((count, first)) => {
                format!("its batch ended without an answer to it; unreadable answers: {count}; {first}")
            }
        };
        let booked = booked.into_inner().unwrap_or_else(PoisonError::into_inner);
        // It is unknown whether missing answers are free.
        self.end(batch, &missing, |call| Booked::worst(call.worst), booked)
    }

    /// Records an answer of a batch and returns its cost. A duplicate is ignored.
    fn take(&self, batch: i64, answer: BatchAnswer) -> Result<Cost, AnnotateError> {
        let Judging { writer, client, plan, judge, .. } = self.judging;
        let BatchAnswer { name, body } = answer;
        let _alone = self.reading.enter(&name);
        let Some(call) = writer.ledger().batch_call(batch, &name)? else { return Ok(Cost::default()) };
        let end = |booked| CallEnd { call: call.call, booked, seconds: 0.0 };
        let fail = |booked: Booked, problem: &str| {
            writer.end_calls(vec![end(booked)], problem)?;
            self.fail(&call, problem)?;
            Ok(booked.cost)
        };
        let body = match body {
            Ok(body) => body,
            Err(reason) => return fail(Booked::default(), &reason),
        };
        let (answer, cost) = self.batches.read(&body);
        let booked = cost.map_or_else(|| Booked::worst(call.worst), Booked::counted);
        let answer = match answer {
            Ok(answer) => answer,
            Err(problem) => return fail(booked, &problem),
        };
        // The question follows from the pair, as it did when it was sent.
        let waiting = writer.ledger().pair(*judge, call.pair)?;
        let question = match plan.judge.next(&waiting.pair, &waiting.events) {
            Ok(Next::Ask(question)) if client.chat_name(&question.request) == name => question,
            _ => return fail(booked, "the pair now needs a different question"),
        };
        client.keep(&question.request, &body);
        let answered = AnsweredQuestion {
            request: &name,
            model: &client.name(),
            prompt: &question.version,
            messages: &question.request.messages,
            money: answer.usage.map_or(0, |usage| plan.price.of(usage).money.units()),
            answer: &answer,
            // The waiting time of a batch is not that of a question.
            seconds: 0.0,
        };
        writer.add_answer(None, &question.prompt, &answered, vec![end(booked)], None)?;
        client.check_kept()?;
        Ok(booked.cost)
    }
}
