//! Adding to a ledger.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use quarry_llm::{Booked, ChatAnswer, Cost, Message, Origin, Stop};
use rusqlite::{Connection, MAIN_DB, OptionalExtension, Transaction, params};

use super::read::{VERDICT_COLUMNS, verdict};
use super::{
    Ledger, LedgerFiles, NOT_WRITABLE, canonical, check_names, create, lock_for_writing, now, problem,
    sqlite, with_suffix,
};
use crate::error::JudgeError;
use crate::evidence::{OptionalStep, Run, RunResult};
use crate::judge::Verdict;
use crate::language::Language;
use crate::majority::majority;
use crate::plan::Plan;
use crate::prompt::Prompt;

/// Maximum number of waiting transactions; the workers block when the queue is full.
const QUEUE: usize = 1024;

/// Maximum number of transactions that are committed together.
const GROUP: usize = 256;

type LedgerWrite = Box<dyn FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send>;

/// A change, and the channel on which to report that it is on disk.
struct QueuedWrite {
    change: LedgerWrite,
    done: SyncSender<Result<(), WriteFailure>>,
}

#[derive(Clone)]
enum WriteFailure {
    Sqlite(Arc<rusqlite::Error>),
    /// It is in a file that has no name any more.
    Gone,
}

/// The only process that adds to a ledger. Can be shared between threads.
#[derive(Debug)]
pub struct Writer {
    ledger: Ledger,
    pub(super) list: i64,
    jobs: Mutex<Option<SyncSender<QueuedWrite>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    _lock: File,
}

#[derive(Clone, Debug)]
pub struct CallBegin<'a> {
    pub pair: i64,
    /// Hash of the request.
    pub request: &'a str,
    pub worst: Cost,
}

#[derive(Clone, Copy, Debug)]
pub struct CallEnd {
    pub call: i64,
    /// Amount booked for all its attempts.
    pub booked: Booked,
    pub seconds: f64,
}

#[derive(Clone, Debug)]
pub struct AnsweredQuestion<'a> {
    /// The hash of the whole request and its destination.
    pub request: &'a str,
    /// Address and model.
    pub model: &'a str,
    pub prompt: &'a str,
    pub messages: &'a [Message],
    pub answer: &'a ChatAnswer,
    /// The cost of the answer by its tokens, in 10⁻¹² dollars.
    pub money: u64,
    pub seconds: f64,
}

impl Writer {
    /// Opens a ledger for writing; creates it if it does not exist.
    ///
    /// # Errors
    /// When another process has it open for writing, it is not a ledger or has another version or several names, or it
    /// cannot be written.
    pub fn open(path: &Path) -> Result<Self, JudgeError> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|source| JudgeError::Write { path: directory.to_owned(), source })?;
        }
        let (lock, lock_path) = lock_for_writing(path)?;
        check_names(path)?;
        create(path)?;
        let mut files = LedgerFiles::identify(path, &lock_path)?;
        let log = with_suffix(&canonical(path), "-wal");
        let ledger = Ledger::open(path)?;
        let writing = Ledger::open(path)?.connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        let failed = |error| sqlite(path, error);
        if writing.is_readonly(MAIN_DB).map_err(failed)? {
            return Err(problem(path, NOT_WRITABLE));
        }
        writing.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        writing.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        writing.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        let list = "SELECT coalesce(max(list), 0) + 1 FROM starts";
        let list = writing.query_row(list, [], |row| row.get(0)).map_err(failed)?;
        let (jobs, queue) = mpsc::sync_channel(QUEUE);
        let thread = thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || commit_groups(writing, &queue, || files.are_unchanged(&log)))
            .map_err(|source| JudgeError::Write { path: path.to_owned(), source })?;
        Ok(Self { ledger, list, jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)), _lock: lock })
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Applies a change; when this returns without an error, it is on disk.
    pub(super) fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JudgeError> {
        let ended = || problem(self.ledger.path(), "the thread that writes the ledger has ended");
        let (result, results) = mpsc::sync_channel(1);
        let (done, waiting) = mpsc::sync_channel(1);
        let change: LedgerWrite = Box::new(move |transaction| {
            let _ = result.send(change(transaction)?);
            Ok(())
        });
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(ended)?;
        jobs.send(QueuedWrite { change, done }).map_err(|_| ended())?;
        match waiting.recv().map_err(|_| ended())? {
            Ok(()) => results.recv().map_err(|_| ended()),
            Err(WriteFailure::Gone) => Err(problem(
                self.ledger.path(),
                "the ledger was removed or replaced while it was in use, and what was written since is lost; stop this \
                 process, restore the ledger with the files beside it, and start again",
            )),
            Err(WriteFailure::Sqlite(error)) => Err(match Arc::try_unwrap(error) {
                Ok(error) => sqlite(self.ledger.path(), error),
                // Others wait for the same commit, and the error cannot be cloned.
                Err(shared) => {
                    let code = match shared.sqlite_error() {
                        Some(code) => rusqlite::Error::SqliteFailure(*code, Some(shared.to_string())),
                        None => return Err(problem(self.ledger.path(), &shared.to_string())),
                    };
                    sqlite(self.ledger.path(), code)
                }
            }),
        }
    }

    /// Records a start of the judge of a plan; returns its number. If it has `members`, given by their numbers, its
    /// verdicts are their majority from now on.
    pub(crate) fn start(&self, plan: &Plan, members: &[i64]) -> Result<i64, JudgeError> {
        let prompts: Vec<Prompt> = plan.judge.prompts().cloned().collect();
        let (name, version, description) =
            (plan.judge.name.clone(), plan.version.clone(), plan.description());
        let (plan, members, list) = (plan.text.clone(), members.to_vec(), self.list);
        self.change(move |transaction| {
            insert_prompts(transaction, &prompts)?;
            transaction.execute(
                "INSERT OR IGNORE INTO judges (version, name, description) VALUES (?1, ?2, ?3)",
                params![version, name, description],
            )?;
            let judge =
                transaction
                    .query_row("SELECT judge FROM judges WHERE version = ?1", [&version], |row| row.get(0))?;
            transaction.execute(
                "INSERT INTO starts (judge, list, time, plan, quarry) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![judge, list, now(), plan, env!("CARGO_PKG_VERSION")],
            )?;
            for member in &members {
                let insert = "INSERT OR IGNORE INTO members VALUES (?1, ?2)";
                transaction.execute(insert, params![judge, member])?;
            }
            settle_all(transaction, judge)?;
            Ok(judge)
        })
    }

    /// Records that a question is about to be sent; returns the number of the call.
    pub(crate) fn begin_call(&self, call: &CallBegin<'_>) -> Result<i64, JudgeError> {
        let (pair, request, worst) = (call.pair, call.request.to_owned(), call.worst);
        self.change(move |transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO calls (pair, request, worst_tokens, worst_money, time) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            insert.insert(params![pair, request, signed(worst.tokens), signed(worst.money.units()), now()])
        })
    }

    /// Records the end of calls without an answer.
    pub(crate) fn end_calls(&self, ends: Vec<CallEnd>, problem: &str) -> Result<(), JudgeError> {
        let problem = problem.to_owned();
        self.change(move |transaction| {
            ends.into_iter().try_for_each(|end| insert_end(transaction, end, Some(&problem)))
        })
    }

    /// Adds an answer, the end of the calls that produced it, its step in the history of its pair if it has one, and
    /// the verdict if it leads to one.
    pub(crate) fn add_answer(
        &self,
        key: Option<EventKey>,
        prompt: &str,
        answered: &AnsweredQuestion<'_>,
        ends: Vec<CallEnd>,
        verdict: Option<Verdict>,
    ) -> Result<(), JudgeError> {
        let [request, model, version, prompt] =
            [answered.request, answered.model, answered.prompt, prompt].map(str::to_owned);
        let messages = serde_json::to_string(answered.messages).unwrap_or_default();
        let (answer, money, seconds) = (answered.answer.clone(), answered.money, answered.seconds);
        self.change(move |transaction| {
            ends.into_iter().try_for_each(|end| insert_end(transaction, end, None))?;
            let tokens = |count: fn(&quarry_llm::Usage) -> u64| answer.usage.as_ref().map(|usage| signed(count(usage)));
            let mut insert = transaction.prepare_cached(
                "INSERT OR IGNORE INTO answers (request, model, prompt, origin, messages, text, stop, input_tokens, \
                 output_tokens, money, seconds, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?;
            insert.execute(params![
                request,
                model,
                version,
                origin_name(answer.origin),
                messages,
                answer.text,
                stop_name(&answer.stop),
                tokens(|usage| usage.input_tokens),
                tokens(|usage| usage.output_tokens),
                signed(money),
                seconds,
                now()
            ])?;
            let Some(key) = key else { return Ok(()) };
            insert_answer_event(transaction, key, &prompt, &request)?;
            insert_verdict(transaction, key, verdict.as_ref())
        })
    }

    /// Adds an answer that is already in the ledger as a step of another pair's history.
    pub(crate) fn add_known_answer(
        &self,
        key: EventKey,
        prompt: &str,
        request: &str,
        verdict: Option<Verdict>,
    ) -> Result<(), JudgeError> {
        let [prompt, request] = [prompt, request].map(str::to_owned);
        self.change(move |transaction| {
            insert_answer_event(transaction, key, &prompt, &request)?;
            insert_verdict(transaction, key, verdict.as_ref())
        })
    }

    pub(crate) fn add_run(&self, key: EventKey, run: &Run, language: &Language) -> Result<(), JudgeError> {
        let (result, tests) = (run.result(language), run.n_tests(language));
        let run = run.clone();
        self.change(move |transaction| {
            let number = insert_run(transaction, &run, result, tests)?;
            let mut insert = transaction.prepare_cached(
                "INSERT INTO events (judge, pair, position, run, extra) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let optional_step = key.optional_step.map(OptionalStep::name);
            insert.execute(params![key.judge, key.pair, key.position, number, optional_step])?;
            Ok(())
        })
    }

    pub fn add_verdict(&self, key: EventKey, verdict: Verdict) -> Result<(), JudgeError> {
        self.change(move |transaction| insert_verdict(transaction, key, Some(&verdict)))
    }

    /// Records why a pair has no verdict yet.
    pub(crate) fn add_failure(&self, key: EventKey, reason: &str) -> Result<(), JudgeError> {
        let reason = reason.to_owned();
        self.change(move |transaction| {
            let mut insert = transaction
                .prepare_cached("INSERT INTO failures (judge, pair, reason, time) VALUES (?1, ?2, ?3, ?4)")?;
            insert.execute(params![key.judge, key.pair, reason, now()])?;
            Ok(())
        })
    }
}

/// The position of an event: a judge, a pair, and the number of events before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKey {
    pub judge: i64,
    pub pair: i64,
    /// 0-based position among the events of the pair.
    pub position: i64,
    /// The option that the event belongs to; `None` if the judge without options would have it too.
    pub optional_step: Option<OptionalStep>,
}

impl EventKey {
    /// The position of a verdict or failure, which are not events.
    pub fn of_pair(judge: i64, pair: i64) -> Self {
        Self { judge, pair, position: 0, optional_step: None }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends when the last sender is dropped.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

/// Commits all waiting changes together, until the last sender is dropped. If one fails, its whole group is rolled
/// back. `are_unchanged` is whether the files are still those of the ledger.
fn commit_groups(
    mut connection: Connection,
    queue: &Receiver<QueuedWrite>,
    mut are_unchanged: impl FnMut() -> bool,
) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(GROUP - 1));
        let (changes, waiting): (Vec<LedgerWrite>, Vec<_>) =
            group.into_iter().map(|job| (job.change, job.done)).unzip();
        let result = match commit(&mut connection, changes) {
            Ok(()) if are_unchanged() => Ok(()),
            Ok(()) => Err(WriteFailure::Gone),
            Err(error) => Err(WriteFailure::Sqlite(Arc::new(error))),
        };
        for done in waiting {
            let _ = done.send(result.clone());
        }
    }
}

fn commit(connection: &mut Connection, changes: Vec<LedgerWrite>) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for change in changes {
        change(&transaction)?;
    }
    transaction.commit()
}

pub(super) fn insert_end(
    transaction: &Transaction<'_>,
    end: CallEnd,
    problem: Option<&str>,
) -> rusqlite::Result<()> {
    let mut insert =
        transaction.prepare_cached("INSERT INTO call_ends VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let [cost, unconfirmed] = [end.booked.cost, end.booked.unconfirmed]
        .map(|cost| [signed(cost.tokens), signed(cost.money.units())]);
    insert.execute(params![
        end.call,
        cost[0],
        cost[1],
        unconfirmed[0],
        unconfirmed[1],
        end.seconds,
        problem
    ])?;
    Ok(())
}

pub(super) fn insert_run(
    transaction: &Transaction<'_>,
    run: &Run,
    result: RunResult,
    tests: u64,
) -> rusqlite::Result<i64> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO runs (language, program, packages, provided, unavailable, tests, result, ended, stdout, \
         stderr, wall_seconds, cpu_seconds, memory_bytes, isolation, time, assertions) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    insert.insert(params![
        run.program.language,
        run.program.source,
        json(&run.program.packages),
        run.provided.as_ref().ok().map(json),
        run.provided.as_ref().err(),
        signed(tests),
        result.name(),
        serde_json::to_string(&run.ended).unwrap_or_default(),
        run.stdout,
        run.stderr,
        run.wall_time.as_secs_f64(),
        run.cpu_time.as_secs_f64(),
        signed(run.peak_memory_bytes),
        run.isolation,
        now(),
        run.assertions.map(|found| serde_json::to_string(&found).unwrap_or_default())
    ])
}

fn insert_answer_event(
    transaction: &Transaction<'_>,
    key: EventKey,
    prompt: &str,
    request: &str,
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO events (judge, pair, position, prompt, answer, extra) \
         SELECT ?1, ?2, ?3, ?4, answer, ?6 FROM answers WHERE request = ?5",
    )?;
    let optional_step = key.optional_step.map(OptionalStep::name);
    insert.execute(params![key.judge, key.pair, key.position, prompt, request, optional_step])?;
    Ok(())
}

pub(super) fn insert_verdict(
    transaction: &Transaction<'_>,
    key: EventKey,
    verdict: Option<&Verdict>,
) -> rusqlite::Result<()> {
    let Some(verdict) = verdict else { return Ok(()) };
    let EventKey { judge, pair, .. } = key;
    let mut insert =
        transaction.prepare_cached("INSERT INTO verdicts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    let Verdict { outcome, grade, decided_by, reason, confidence } = verdict;
    insert.execute(params![judge, pair, outcome.name(), grade, decided_by, reason, confidence, now()])?;
    let mut select = transaction.prepare_cached("SELECT judge FROM members WHERE member = ?1")?;
    let majorities: Vec<i64> = select.query_map([judge], |row| row.get(0))?.collect::<Result<_, _>>()?;
    majorities.into_iter().try_for_each(|majority| settle(transaction, majority, pair))
}

/// Adds the verdicts of a judge with members on the pairs that all members have decided.
fn settle_all(transaction: &Transaction<'_>, judge: i64) -> rusqlite::Result<()> {
    let mut select = transaction.prepare(
        "SELECT pair FROM members JOIN verdicts ON verdicts.judge = members.member WHERE members.judge = ?1 \
         GROUP BY pair HAVING count(*) = (SELECT count(*) FROM members WHERE judge = ?1) \
         AND pair NOT IN (SELECT pair FROM verdicts WHERE judge = ?1)",
    )?;
    let pairs: Vec<i64> = select.query_map([judge], |row| row.get(0))?.collect::<Result<_, _>>()?;
    pairs.into_iter().try_for_each(|pair| settle(transaction, judge, pair))
}

pub(super) fn insert_prompts(transaction: &Transaction<'_>, prompts: &[Prompt]) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO prompts VALUES (?1, ?2, ?3)")?;
    for Prompt { version, name, text, .. } in prompts {
        insert.execute(params![version, name, text])?;
    }
    Ok(())
}

/// Adds the verdict of a judge with members on a pair, once all members have decided.
fn settle(transaction: &Transaction<'_>, judge: i64, pair: i64) -> rusqlite::Result<()> {
    let mut select = transaction.prepare_cached(&format!(
        "SELECT {VERDICT_COLUMNS} FROM members LEFT JOIN verdicts ON verdicts.judge = member AND pair = ?2 \
         WHERE members.judge = ?1 ORDER BY member"
    ))?;
    let mut rows = select.query(params![judge, pair])?;
    let mut votes = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get::<_, Option<String>>(0)?.is_none() {
            return Ok(());
        }
        votes.push(verdict(row, 0)?);
    }
    insert_verdict(transaction, EventKey::of_pair(judge, pair), Some(&majority(&votes)))
}

fn json(names: &Vec<String>) -> String {
    serde_json::to_string(names).unwrap_or_default()
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Endpoint => "endpoint",
        Origin::Cache => "cache",
        Origin::Recording => "recording",
    }
}

fn stop_name(stop: &Stop) -> &str {
    match stop {
        Stop::Complete => "complete",
        Stop::Length => "length",
        Stop::Refusal => "refusal",
        Stop::Other(other) => other,
    }
}

/// The count as SQLite's signed integer.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Ledger {
    /// The text of a stored answer to the request with this hash.
    pub fn answer(&self, request: &str) -> Result<Option<String>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached("SELECT text FROM answers WHERE request = ?1")?;
            select.query_row([request], |row| row.get(0)).optional()
        })
    }
}
