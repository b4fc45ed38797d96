//! Reading a ledger.

use std::time::Duration;

use quarry_llm::{Cost, Money};
use quarry_sandbox::Ended;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Ledger, sqlite};
use crate::error::JudgeError;
use crate::evidence::{Event, ModelAnswer, OptionalStep, Run, TestProgram};
use crate::judge::{Outcome, Verdict};
use crate::pair::Pair;

/// Matches the pairs of the last start of judge ?1.
pub(super) const LISTED: &str = "EXISTS (SELECT 1 FROM listed WHERE listed.pair = pairs.pair AND listed.list = \
                                 (SELECT list FROM starts WHERE starts.judge = ?1 ORDER BY start DESC LIMIT 1))";

pub(super) const PAIR_COLUMNS: &str = "pairs.pair, id, query_id, query, code_id, code, language, label";

/// The code of the first other candidate. Pairs are never removed, so this remains the same once there is one.
pub(super) const ALTERNATIVE: &str = "(SELECT other.code FROM pairs AS other WHERE other.query_id = pairs.query_id \
                     AND other.language = pairs.language AND other.code <> pairs.code AND other.list > 0 ORDER BY other.pair LIMIT 1)";

pub(super) const VERDICT_COLUMNS: &str = "outcome, grade, decided_by, reason, confidence";

pub(super) const WITH_MEMBERS: &str =
    "IN (SELECT ?1 UNION SELECT member FROM members WHERE members.judge = ?1)";

#[derive(Clone, Debug)]
pub struct UnjudgedPair {
    pub number: i64,
    pub pair: Pair,
    pub events: Vec<Event>,
}

#[derive(Clone, Debug)]
pub struct JudgedPair {
    pub pair: Pair,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListedPair {
    pub id: String,
    pub query: String,
    /// The label in its file.
    pub file: Option<i32>,
    /// The judge's outcome, and the prompt that decided.
    pub verdict: Option<(Outcome, String)>,
}

impl ListedPair {
    /// Returns whether the judge and the file have different labels.
    pub fn differs(&self) -> bool {
        let judged = self.verdict.as_ref().and_then(|(outcome, _)| outcome.label());
        judged.zip(self.file).is_some_and(|(judged, label)| (label >= 1) != judged)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabeledByJudge {
    pub id: String,
    pub query_id: String,
    pub code_id: String,
    pub label: bool,
    /// True if the judge or one of its members ran a test program for it.
    pub tested: bool,
}

#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// Id of the pair.
    pub pair: String,
    pub code: String,
    /// Author of the program; `None` if a model wrote it.
    pub person: Option<String>,
    pub run: Run,
}

#[derive(Clone, Debug)]
pub struct History {
    pub pair: Pair,
    pub steps: Vec<Step>,
    pub verdict: Option<Verdict>,
    /// Reasons of failures so far, if there is no verdict.
    pub failures: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub event: Event,
    /// For an answer: the version of the prompt, the model, and the source of the answer.
    pub asked: Option<[String; 3]>,
    /// For an answer: the question as JSON messages.
    pub messages: String,
    pub cost: Cost,
    pub seconds: f64,
    /// When it was recorded, in seconds since 1970.
    pub time: f64,
}

pub(super) const ANSWER_TOKENS: &str = "coalesce(input_tokens, 0) + coalesce(output_tokens, 0)";

/// The sums of two columns, as integers. `sum` fails when a sum overflows, which would fail every query about the
/// ledger; `total` does not, and is exact up to 2⁵³.
pub(super) fn sums(tokens: &str, money: &str) -> String {
    format!("CAST(total({tokens}) AS INTEGER), CAST(total({money}) AS INTEGER)")
}

pub(super) fn cost(tokens: i64, money: i64) -> Cost {
    Cost { tokens: tokens.max(0) as u64, money: Money::from_units(money.max(0) as u64) }
}

pub(super) fn pair(row: &Row<'_>) -> rusqlite::Result<(i64, Pair)> {
    let pair = Pair {
        id: row.get(1)?,
        query_id: row.get(2)?,
        query: row.get(3)?,
        code_id: row.get(4)?,
        code: row.get(5)?,
        language: row.get(6)?,
        label: row.get(7)?,
        alternative: None,
    };
    Ok((row.get(0)?, pair))
}

/// A pair with its number, from [`PAIR_COLUMNS`] and [`ALTERNATIVE`].
pub(super) fn pair_with_alternative(row: &Row<'_>) -> rusqlite::Result<(i64, Pair)> {
    let (number, found) = pair(row)?;
    Ok((number, Pair { alternative: row.get(8)?, ..found }))
}

pub(super) fn unjudged(
    connection: &Connection,
    judge: i64,
    (number, pair): (i64, Pair),
) -> rusqlite::Result<UnjudgedPair> {
    let events = steps(connection, judge, number)?.into_iter().map(|step| step.event).collect();
    Ok(UnjudgedPair { number, pair, events })
}

pub(super) fn verdict(row: &Row<'_>, first: usize) -> rusqlite::Result<Verdict> {
    let name: String = row.get(first)?;
    let unknown = || rusqlite::Error::InvalidColumnName(format!("outcome {name:?}"));
    Ok(Verdict {
        outcome: Outcome::named(&name).ok_or_else(unknown)?,
        grade: row.get(first + 1)?,
        decided_by: row.get(first + 2)?,
        reason: row.get(first + 3)?,
        confidence: row.get(first + 4)?,
    })
}

pub(super) fn run(row: &Row<'_>, first: usize) -> rusqlite::Result<Run> {
    let ended: String = row.get(first + 2)?;
    let optional_step: Option<String> = row.get(first + 9)?;
    let names = |json: String| serde_json::from_str(&json).unwrap_or_default();
    let unavailable: Option<String> = row.get(first + 12)?;
    let assertions: Option<String> = row.get(first + 13)?;
    let seconds = |column: usize| -> rusqlite::Result<Duration> {
        Ok(Duration::try_from_secs_f64(row.get(column)?).unwrap_or_default())
    };
    Ok(Run {
        program: TestProgram {
            language: row.get(first)?,
            source: row.get(first + 1)?,
            optional_step: optional_step.as_deref().and_then(OptionalStep::named),
            packages: names(row.get(first + 10)?),
        },
        provided: match unavailable {
            Some(reason) => Err(reason),
            None => Ok(names(row.get(first + 11)?)),
        },
        // Programs whose record cannot be read count as exited.
        ended: serde_json::from_str(&ended).unwrap_or(Ended::Exited { code: 255 }),
        stdout: row.get(first + 3)?,
        stderr: row.get(first + 4)?,
        assertions: assertions.and_then(|json| serde_json::from_str(&json).ok()),
        wall_time: seconds(first + 5)?,
        cpu_time: seconds(first + 6)?,
        peak_memory_bytes: row.get::<_, i64>(first + 7)?.max(0) as u64,
        isolation: row.get(first + 8)?,
    })
}

pub(super) const RUN_COLUMNS: &str = "runs.language, runs.program, runs.ended, runs.stdout, runs.stderr, runs.wall_seconds, \
                           runs.cpu_seconds, runs.memory_bytes, runs.isolation, events.extra, runs.packages, \
                           runs.provided, runs.unavailable, runs.assertions";

impl Ledger {
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, JudgeError> {
        read(&self.lock()).map_err(|error| sqlite(&self.path, error))
    }

    /// The unique id of this ledger.
    pub fn identity(&self) -> Result<String, JudgeError> {
        self.read(|connection| connection.query_row("SELECT id FROM identity", [], |row| row.get(0)))
    }

    pub fn judge(&self, version: &str) -> Result<Option<i64>, JudgeError> {
        self.read(|connection| {
            let select = "SELECT judge FROM judges WHERE version = ?1";
            connection.query_row(select, [version], |row| row.get(0)).optional()
        })
    }

    /// The next pairs after number `after` without a verdict of `judge`, at most `limit`, in the order of their
    /// numbers.
    pub fn waiting(&self, judge: i64, after: i64, limit: usize) -> Result<Vec<UnjudgedPair>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {PAIR_COLUMNS}, {ALTERNATIVE} FROM pairs WHERE {LISTED} AND pair > ?2 AND NOT EXISTS \
                 (SELECT 1 FROM verdicts WHERE judge = ?1 AND verdicts.pair = pairs.pair) ORDER BY pair LIMIT ?3"
            ))?;
            let pairs = select.query_map(params![judge, after, limit as i64], pair_with_alternative)?;
            pairs.map(|found| unjudged(connection, judge, found?)).collect()
        })
    }

    /// Number of pairs of the last start that have no verdict of `judge`.
    pub fn n_waiting(&self, judge: i64) -> Result<u64, JudgeError> {
        self.read(|connection| {
            let select = format!(
                "SELECT count(*) FROM pairs WHERE {LISTED} AND NOT EXISTS \
                 (SELECT 1 FROM verdicts WHERE judge = ?1 AND verdicts.pair = pairs.pair)"
            );
            connection.query_row(&select, [judge], |row| row.get::<_, i64>(0)).map(|count| count as u64)
        })
    }

    /// Total that all calls have booked; and the part of it booked at the worst case, because the cost of an attempt is
    /// unknown, the process ended before the call did, or the call has not ended yet.
    pub fn spent(&self) -> Result<[Cost; 2], JudgeError> {
        self.read(|connection| {
            let sum =
                |select: &str| connection.query_row(select, [], |row| Ok(cost(row.get(0)?, row.get(1)?)));
            let mut spent = sum(&format!("SELECT {} FROM call_ends", sums("tokens", "money")))?;
            let unconfirmed = sums("unconfirmed_tokens", "unconfirmed_money");
            let mut unconfirmed = sum(&format!("SELECT {unconfirmed} FROM call_ends"))?;
            let cut_off = sum(&format!(
                "SELECT {} FROM calls WHERE call NOT IN (SELECT call FROM call_ends)",
                sums("worst_tokens", "worst_money")
            ))?;
            spent += cut_off;
            unconfirmed += cut_off;
            Ok([spent, unconfirmed])
        })
    }

    /// Calls `each` with the verdicts of `judge` on the pairs of the last start, in the order of the pairs' numbers.
    ///
    /// # Errors
    /// When the ledger cannot be read, and errors that `each` returns.
    pub fn for_each_decided(
        &self,
        judge: i64,
        mut each: impl FnMut(JudgedPair) -> Result<(), JudgeError>,
    ) -> Result<(), JudgeError> {
        let connection = self.lock();
        let failed = |error| sqlite(&self.path, error);
        let mut select = connection
            .prepare_cached(&format!(
                "SELECT {PAIR_COLUMNS}, {VERDICT_COLUMNS} FROM pairs JOIN verdicts USING (pair) \
                 WHERE judge = ?1 AND {LISTED} ORDER BY pairs.pair"
            ))
            .map_err(failed)?;
        let mut rows = select.query([judge]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (_, pair) = pair(row).map_err(failed)?;
            each(JudgedPair { pair, verdict: verdict(row, 8).map_err(failed)? })?;
        }
        Ok(())
    }

    /// The pairs of the last start that `judge` labeled, and whether it or a member ran a test program for them.
    pub fn labeled_by(&self, judge: i64) -> Result<Vec<LabeledByJudge>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare(&format!(
                "SELECT id, query_id, code_id, outcome = 'yes', EXISTS (SELECT 1 FROM events \
                 WHERE events.judge {WITH_MEMBERS} AND events.pair = pairs.pair AND run IS NOT NULL) \
                 FROM pairs JOIN verdicts USING (pair) \
                 WHERE verdicts.judge = ?1 AND outcome IN ('yes', 'no') AND {LISTED} ORDER BY pairs.pair"
            ))?;
            let rows = select.query_map([judge], |row| {
                Ok(LabeledByJudge {
                    id: row.get(0)?,
                    query_id: row.get(1)?,
                    code_id: row.get(2)?,
                    label: row.get(3)?,
                    tested: row.get(4)?,
                })
            })?;
            rows.collect()
        })
    }

    /// Calls `each` with the pairs of the last start and the outcomes of `judge`, in the order of the pairs' numbers.
    pub fn for_each_listed(&self, judge: i64, mut each: impl FnMut(ListedPair)) -> Result<(), JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT id, query, label, outcome, decided_by FROM pairs \
                 LEFT JOIN verdicts ON verdicts.judge = ?1 AND verdicts.pair = pairs.pair \
                 WHERE {LISTED} ORDER BY pairs.pair"
            ))?;
            let mut rows = select.query([judge])?;
            while let Some(row) = rows.next()? {
                let outcome = row.get::<_, Option<String>>(3)?.and_then(|name| Outcome::named(&name));
                let verdict = outcome.zip(row.get(4)?);
                each(ListedPair { id: row.get(0)?, query: row.get(1)?, file: row.get(2)?, verdict });
            }
            Ok(())
        })
    }

    /// Calls `each` with the runs that the labels of `judge`, of its members and of people are based on, in pages of at
    /// most `limit`, until it returns false.
    pub fn for_each_finished(
        &self,
        judge: i64,
        limit: usize,
        mut each: impl FnMut(Vec<FinishedRun>) -> Result<bool, JudgeError>,
    ) -> Result<(), JudgeError> {
        let mut after = [0; 3];
        while let page = self.finished(judge, after, limit)?
            && let Some((last, _)) = page.last()
        {
            after = *last;
            if !each(page.into_iter().map(|(_, finished)| finished).collect())? {
                return Ok(());
            }
        }
        let mut after = 0;
        while let page = self.programs_of_people(judge, after, limit)?
            && let Some((last, _)) = page.last()
        {
            after = *last;
            if !each(page.into_iter().map(|(_, finished)| finished).collect())? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The runs that the labels of `judge` and its members are based on, in the order of judges, pairs and events: at
    /// most `limit` of those after position `after`, each with its position, for the next call.
    fn finished(
        &self,
        judge: i64,
        after: [i64; 3],
        limit: usize,
    ) -> Result<Vec<([i64; 3], FinishedRun)>, JudgeError> {
        self.read(|connection| {
            // The plus keeps SQLite from starting each page at a judge's first event.
            let mut select = connection.prepare_cached(&format!(
                "SELECT events.judge, pairs.pair, events.position, id, code, {RUN_COLUMNS} FROM events \
                 JOIN pairs USING (pair) JOIN runs USING (run) JOIN verdicts USING (judge, pair) \
                 WHERE +events.judge {WITH_MEMBERS} AND (events.judge, events.pair, events.position) > (?2, ?3, ?4) \
                 AND {LISTED} AND unavailable IS NULL AND outcome IN ('yes', 'no') \
                 ORDER BY events.judge, events.pair, events.position LIMIT ?5"
            ))?;
            let [after_judge, pair, position] = after;
            let values = params![judge, after_judge, pair, position, limit as i64];
            let rows = select.query_map(values, |row| {
                let key = [row.get(0)?, row.get(1)?, row.get(2)?];
                Ok((key, FinishedRun { pair: row.get(3)?, code: row.get(4)?, person: None, run: run(row, 5)? }))
            })?;
            rows.collect()
        })
    }

    /// The full id for `called`: an id or, with four characters or more, an unambiguous prefix of one.
    pub fn id_of(&self, called: &str) -> Result<Option<String>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT id FROM pairs WHERE id = ?1 OR length(?1) >= 4 AND substr(id, 1, length(?1)) = ?1 \
                 ORDER BY id <> ?1 LIMIT 2",
            )?;
            let found = select.query_map([called], |row| row.get(0))?;
            let found = found.collect::<Result<Vec<String>, _>>()?;
            let is_one = found.len() == 1 || found.first().is_some_and(|id| id == called);
            Ok(found.into_iter().next().filter(|_| is_one))
        })
    }

    /// Everything known about the pair with this id.
    pub fn history(&self, judge: i64, id: &str) -> Result<Option<History>, JudgeError> {
        self.read(|connection| {
            let select = format!("SELECT {PAIR_COLUMNS} FROM pairs WHERE id = ?1");
            let Some((number, pair)) = connection.query_row(&select, [id], pair).optional()? else {
                return Ok(None);
            };
            let select = format!("SELECT {VERDICT_COLUMNS} FROM verdicts WHERE judge = ?1 AND pair = ?2");
            let verdict =
                connection.query_row(&select, params![judge, number], |row| verdict(row, 0)).optional()?;
            let mut failures = connection.prepare_cached(
                "SELECT reason FROM failures WHERE judge = ?1 AND pair = ?2 ORDER BY failure",
            )?;
            let failures = failures.query_map(params![judge, number], |row| row.get(0))?;
            let failures = failures.collect::<Result<_, _>>()?;
            Ok(Some(History { pair, steps: steps(connection, judge, number)?, verdict, failures }))
        })
    }

    /// The id of the first pair of the last start without a verdict of `judge` after a failure, with the last reason.
    pub fn failed(&self, judge: i64) -> Result<Option<(String, String)>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT id, reason FROM failures JOIN pairs USING (pair) WHERE judge = ?1 AND {LISTED} \
                 AND NOT EXISTS (SELECT 1 FROM verdicts WHERE judge = ?1 AND verdicts.pair = failures.pair) \
                 ORDER BY failures.pair, failure DESC LIMIT 1"
            ))?;
            select.query_row([judge], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
    }

    /// At most `limit` ids of pairs without a label, each with the reason: unresolved, or failed so far.
    pub fn unresolved(&self, judge: i64, limit: usize) -> Result<Vec<(String, String)>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT id, coalesce(verdicts.reason, (SELECT reason FROM failures \
                     WHERE failures.judge = ?1 AND failures.pair = pairs.pair ORDER BY failure DESC LIMIT 1)) AS why \
                 FROM pairs LEFT JOIN verdicts ON verdicts.judge = ?1 AND verdicts.pair = pairs.pair \
                 WHERE {LISTED} AND coalesce(outcome, 'unresolved') = 'unresolved' AND why IS NOT NULL \
                 ORDER BY pairs.pair LIMIT ?2"
            ))?;
            let rows = select.query_map(params![judge, limit as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
    }
}

pub(super) fn steps(connection: &Connection, judge: i64, pair: i64) -> rusqlite::Result<Vec<Step>> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT events.prompt, answers.text, answers.prompt, answers.model, answers.origin, answers.messages, \
         CAST({ANSWER_TOKENS} AS INTEGER), coalesce(answers.money, 0), \
         coalesce(answers.seconds, runs.wall_seconds), coalesce(answers.time, runs.time), {RUN_COLUMNS} \
         FROM events LEFT JOIN answers USING (answer) LEFT JOIN runs USING (run) \
         WHERE judge = ?1 AND pair = ?2 ORDER BY position"
    ))?;
    let rows = select.query_map(params![judge, pair], |row| {
        let prompt: Option<String> = row.get(0)?;
        let (event, asked, messages) = match prompt {
            Some(prompt) => (
                Event::Answer(ModelAnswer { prompt, text: row.get(1)? }),
                Some([row.get(2)?, row.get(3)?, row.get(4)?]),
                row.get(5)?,
            ),
            None => (Event::Run(run(row, 10)?), None, String::new()),
        };
        let cost = cost(row.get(6)?, row.get(7)?);
        Ok(Step { event, asked, messages, cost, seconds: row.get(8)?, time: row.get(9)? })
    })?;
    rows.collect()
}
