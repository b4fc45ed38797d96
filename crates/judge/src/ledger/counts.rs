//! Reading a ledger: the progress of a judge.

use std::collections::BTreeMap;

use quarry_llm::Cost;
use rusqlite::{Connection, params};

use super::Ledger;
use super::read::{ANSWER_TOKENS, LISTED, WITH_MEMBERS, cost};
use crate::error::JudgeError;
use crate::evidence::RunResult;
use crate::judge::{Judge, NO_PROMPT};
use crate::majority::MAJORITY;

/// Matches programs in which tests were written, excluding runs with mutants or alternatives.
const IS_TEST: &str = "coalesce(events.extra, 'programs') IN ('programs', 'rewritten')";

/// Progress of a judge on the pairs of the last start, and its effort.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgeCounts {
    pub pairs: u64,
    /// Verdicts as (outcome, decided by, number).
    pub verdicts: Vec<(String, String, u64)>,
    /// Effort for pairs that were decided without tests; under a majority, without tests by every member.
    pub clear: Effort,
    /// Effort for the other pairs with a verdict.
    pub unclear: Effort,
    /// Effort so far for pairs without a verdict.
    pub waiting: Effort,
    /// Pairs with a verdict and a test program for it.
    pub tested: u64,
    /// The test programs of finished verdicts, by the result of their last run.
    pub runs: BTreeMap<String, u64>,
    /// Verdicts for which a test program was requested, but none could be parsed.
    pub without_program: u64,
    /// Number of tests in all executable programs together.
    pub tests: u64,
    /// Test programs that lacked a package; and how many of these became executable.
    pub lacking: [u64; 2],
    /// All that this ledger's calls have booked, failed ones included.
    pub spent: Cost,
    /// Part of that booked at the worst case: attempts of unknown cost, and interrupted or current calls.
    pub unconfirmed: Cost,
    pub labelled: u64,
    /// Pairs of labels as (file, judge, number).
    pub labels: Vec<(i32, i32, u64)>,
    /// Reasons why pairs have no verdict after a failed attempt, or are unresolved, with their number.
    pub reasons: Vec<(String, u64)>,
}

/// Effort of a judge and its members for a set of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    pub pairs: u64,
    pub answers: u64,
    /// Cost of these by their tokens, no matter when they were paid for.
    pub cost: Cost,
    /// Total time of the answers and runs, in seconds.
    pub seconds: f64,
}

fn count(value: i64) -> u64 {
    value.max(0).cast_unsigned()
}

impl Ledger {
    /// Progress of judge number `judge`, including its members; `as_judge` is the judge that each of them applies.
    pub fn counts(&self, judge: i64, as_judge: &Judge) -> Result<JudgeCounts, JudgeError> {
        let [spent, unconfirmed] = self.spent()?;
        // The values of `decided_by` for pairs decided without tests.
        let steps: Vec<&str> = as_judge.steps().chain([MAJORITY]).collect();
        let steps = serde_json::json!(steps).to_string();
        self.read(|connection| {
            let mut counts = JudgeCounts { spent, unconfirmed, ..JudgeCounts::default() };
            let select = format!("SELECT count(*), count(label) FROM pairs WHERE {LISTED}");
            (counts.pairs, counts.labelled) =
                connection.query_row(&select, [judge], |row| Ok((count(row.get(0)?), count(row.get(1)?))))?;
            add_verdicts(&mut counts, connection, judge, &steps)?;
            add_programs(&mut counts, connection, judge, &steps)?;
            counts.reasons = reasons(connection, judge)?;
            Ok(counts)
        })
    }
}

fn add_verdicts(
    counts: &mut JudgeCounts,
    connection: &Connection,
    judge: i64,
    steps: &str,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(&format!(
        "SELECT outcome, decided_by, count(*) FROM verdicts JOIN pairs USING (pair) \
         WHERE judge = ?1 AND {LISTED} GROUP BY 1, 2 ORDER BY 1, 2"
    ))?;
    let rows = select.query_map([judge], |row| Ok((row.get(0)?, row.get(1)?, count(row.get(2)?))))?;
    counts.verdicts = rows.collect::<Result<_, _>>()?;

    let mut select = connection.prepare(&format!(
        "WITH classes AS MATERIALIZED (SELECT pairs.pair, CASE WHEN outcome IS NULL THEN 0 \
             WHEN outcome = 'unresolved' OR EXISTS (SELECT 1 FROM verdicts AS own WHERE own.judge {WITH_MEMBERS} \
                 AND own.pair = pairs.pair AND own.decided_by NOT IN (SELECT value FROM json_each(?2))) THEN 1 \
             ELSE 2 END AS class \
             FROM pairs LEFT JOIN verdicts ON verdicts.judge = ?1 AND verdicts.pair = pairs.pair WHERE {LISTED}), \
         done AS (SELECT class, count(answer) AS answers, \
             total({ANSWER_TOKENS}) AS tokens, total(money) AS money, \
             coalesce(sum(seconds), 0) + coalesce(sum(wall_seconds), 0) AS seconds \
             FROM (SELECT DISTINCT class, pair, answer, run FROM classes JOIN events USING (pair) \
                 WHERE judge {WITH_MEMBERS}) \
             LEFT JOIN answers USING (answer) LEFT JOIN runs USING (run) GROUP BY class) \
         SELECT class, count(*), coalesce(max(answers), 0), \
             CAST(coalesce(max(tokens), 0) AS INTEGER), CAST(coalesce(max(money), 0) AS INTEGER), \
             coalesce(max(seconds), 0.0) FROM classes LEFT JOIN done USING (class) GROUP BY class"
    ))?;
    let mut rows = select.query(params![judge, steps])?;
    while let Some(row) = rows.next()? {
        let effort = Effort {
            pairs: count(row.get(1)?),
            answers: count(row.get(2)?),
            cost: cost(row.get(3)?, row.get(4)?),
            seconds: row.get(5)?,
        };
        match row.get::<_, i64>(0)? {
            0 => counts.waiting = effort,
            1 => counts.unclear = effort,
            _ => counts.clear = effort,
        }
    }

    let mut select = connection.prepare(&format!(
        "SELECT label, outcome = 'yes', count(*) FROM verdicts JOIN pairs USING (pair) WHERE judge = ?1 \
         AND {LISTED} AND label IS NOT NULL AND outcome IN ('yes', 'no') GROUP BY 1, 2 ORDER BY 1, 2"
    ))?;
    let rows = select.query_map([judge], |row| Ok((row.get(0)?, row.get(1)?, count(row.get(2)?))))?;
    counts.labels = rows.collect::<Result<_, _>>()?;
    Ok(())
}

/// Only programs of pairs with a verdict: others may still be run again with packages.
fn add_programs(
    counts: &mut JudgeCounts,
    connection: &Connection,
    judge: i64,
    steps: &str,
) -> rusqlite::Result<()> {
    // The last run of each program, with all packages that were available.
    let programs = format!(
        "SELECT pair, program, max(position), result, tests, sum(result = 'missing_package') > 0 AS lacked \
         FROM events JOIN runs USING (run) JOIN pairs USING (pair) JOIN verdicts USING (judge, pair) \
         WHERE judge {WITH_MEMBERS} AND {LISTED} AND {IS_TEST} GROUP BY judge, pair, program"
    );
    let mut select =
        connection.prepare(&format!("SELECT result, count(*) FROM ({programs}) GROUP BY 1 ORDER BY 1"))?;
    let rows = select.query_map([judge], |row| Ok((row.get(0)?, count(row.get(1)?))))?;
    counts.runs = rows.collect::<Result<_, _>>()?;
    let executable: Vec<String> = RunResult::ALL
        .into_iter()
        .filter(|result| result.is_executable())
        .map(|result| format!("'{}'", result.name()))
        .collect();
    let executable = format!("result IN ({})", executable.join(", "));
    let tested = format!(
        "SELECT count(DISTINCT pair), coalesce(sum(CASE WHEN {executable} THEN tests END), 0), \
         coalesce(sum(lacked), 0), coalesce(sum(lacked AND {executable}), 0) FROM ({programs})"
    );
    (counts.tested, counts.tests, counts.lacking) = connection.query_row(&tested, [judge], |row| {
        let lacking = [count(row.get(2)?), count(row.get(3)?)];
        Ok((count(row.get(0)?), count(row.get(1)?), lacking))
    })?;
    let select = format!(
        "SELECT count(*) FROM verdicts JOIN pairs USING (pair) WHERE judge {WITH_MEMBERS} AND {LISTED} \
         AND decided_by NOT IN (SELECT value FROM json_each(?2)) AND decided_by <> ?3 \
         AND NOT EXISTS (SELECT 1 FROM events WHERE events.judge = verdicts.judge \
             AND events.pair = verdicts.pair AND run IS NOT NULL)"
    );
    counts.without_program =
        connection.query_row(&select, params![judge, steps, NO_PROMPT], |row| Ok(count(row.get(0)?)))?;
    Ok(())
}

/// Why pairs have no label, most frequent first.
fn reasons(connection: &Connection, judge: i64) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut select = connection.prepare(&format!(
        "SELECT reason, count(*) FROM ( \
            SELECT reason FROM verdicts JOIN pairs USING (pair) \
                WHERE judge = ?1 AND {LISTED} AND outcome = 'unresolved' \
            UNION ALL \
            SELECT reason FROM failures JOIN pairs USING (pair) WHERE judge = ?1 AND {LISTED} \
                AND failure IN (SELECT max(failure) FROM failures WHERE judge = ?1 GROUP BY pair) \
                AND NOT EXISTS (SELECT 1 FROM verdicts WHERE judge = ?1 AND verdicts.pair = failures.pair) \
         ) GROUP BY 1 ORDER BY 2 DESC, 1"
    ))?;
    let rows = select.query_map([judge], |row| Ok((row.get(0)?, count(row.get(1)?))))?;
    rows.collect()
}
