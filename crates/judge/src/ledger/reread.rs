//! Reading evidence judged by earlier rules, and adopting it.

use rusqlite::{OptionalExtension, Transaction, params};
use serde::Serialize;

use super::read::{
    ALTERNATIVE, LISTED, PAIR_COLUMNS, VERDICT_COLUMNS, pair_with_alternative, steps, verdict,
};
use super::write::{insert_run, insert_verdict};
use super::{EventKey, Ledger, Writer, now};
use crate::error::JudgeError;
use crate::evidence::{Event, Run, RunResult};
use crate::judge::{Outcome, Verdict};
use crate::pair::Pair;

/// A pair with the evidence that another judge had.
#[derive(Clone, Debug)]
pub(crate) struct StoredPair {
    pub(crate) number: i64,
    pub(crate) pair: Pair,
    pub(crate) events: Vec<StoredEvent>,
    pub(crate) verdict: Option<Verdict>,
}

/// An event, with its stored interpretation.
#[derive(Clone, Debug)]
pub(crate) struct StoredEvent {
    pub(crate) event: Event,
    pub(crate) result: Option<String>,
    prompt: Option<String>,
    answer: Option<i64>,
    run: Option<i64>,
    optional_step: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct AdoptedPair {
    pub(crate) number: i64,
    /// The events, with the new results of runs if these differ.
    pub(crate) events: Vec<(StoredEvent, Option<ChangedResult>)>,
    pub(crate) verdict: Option<Verdict>,
    /// Why there is no verdict, if there was one before.
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ChangedResult {
    pub(crate) run: Run,
    pub(crate) result: RunResult,
    pub(crate) tests: u64,
}

/// A label that differs under the current rules.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct ChangedLabel {
    /// Id of the pair.
    pub pair: String,
    /// The verdict before.
    pub before: Outcome,
    /// The current verdict; `None` while the pair waits for the next run.
    pub now: Option<Outcome>,
    /// Why the label changed, as a phrase.
    pub reason: String,
}

impl Ledger {
    /// The judges with this description and another version, each with the plan that it last used, the most recently
    /// started first.
    pub(crate) fn described(
        &self,
        version: &str,
        description: &str,
    ) -> Result<Vec<(i64, String)>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare(
                "SELECT judge, plan FROM starts JOIN judges USING (judge) WHERE description = ?2 AND version <> ?1 \
                 AND start IN (SELECT max(start) FROM starts GROUP BY judge) ORDER BY start DESC",
            )?;
            select.query_map([version, description], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }

    pub(crate) fn n_verdicts(&self, judge: i64) -> Result<u64, JudgeError> {
        self.read(|connection| {
            let select = "SELECT count(*) FROM verdicts WHERE judge = ?1";
            connection.query_row(select, [judge], |row| row.get::<_, i64>(0)).map(|count| count.max(0) as u64)
        })
    }

    /// The next pairs after number `after`, at most `limit`, of the last start of `judge` or generated for `writer`,
    /// for which `before` has events and `judge` has none.
    pub(crate) fn stored(
        &self,
        [judge, before, writer]: [i64; 3],
        after: i64,
        limit: usize,
    ) -> Result<Vec<StoredPair>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {PAIR_COLUMNS}, {ALTERNATIVE} FROM pairs WHERE pairs.pair > ?4 \
                 AND ({LISTED} OR pairs.pair IN (SELECT pair FROM generated WHERE generated.judge = ?3)) \
                 AND EXISTS (SELECT 1 FROM events WHERE events.judge = ?2 AND events.pair = pairs.pair) \
                 AND NOT EXISTS (SELECT 1 FROM events WHERE events.judge = ?1 AND events.pair = pairs.pair) \
                 ORDER BY pairs.pair LIMIT ?5"
            ))?;
            let mut select_events = connection.prepare_cached(
                "SELECT prompt, answer, run, extra, result FROM events LEFT JOIN runs USING (run) \
                 WHERE judge = ?1 AND pair = ?2 ORDER BY position",
            )?;
            let mut select_verdict = connection.prepare_cached(&format!(
                "SELECT {VERDICT_COLUMNS} FROM verdicts WHERE judge = ?1 AND pair = ?2"
            ))?;
            let values = params![judge, before, writer, after, limit as i64];
            let mut stored = Vec::new();
            for found in select.query_map(values, pair_with_alternative)? {
                let (number, pair) = found?;
                let steps = steps(connection, before, number)?;
                let rows = select_events.query_map([before, number], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
                })?;
                let mut events = Vec::new();
                for (step, row) in steps.into_iter().zip(rows) {
                    let (prompt, answer, run, optional_step, result) = row?;
                    events.push(StoredEvent {
                        event: step.event,
                        result,
                        prompt,
                        answer,
                        run,
                        optional_step,
                    });
                }
                let verdict = select_verdict.query_row([before, number], |row| verdict(row, 0)).optional()?;
                stored.push(StoredPair { number, pair, events, verdict });
            }
            Ok(stored)
        })
    }

    /// The pairs of the last start of `judge` on which its verdicts differ from those of `before`, in the order of
    /// the pairs; and the number of pairs with equal verdicts.
    pub(crate) fn differences(
        &self,
        judge: i64,
        before: i64,
    ) -> Result<(u64, Vec<ChangedLabel>), JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare(&format!(
                "SELECT id, earlier.outcome, later.outcome, coalesce(later.reason, (SELECT reason FROM failures \
                     WHERE failures.judge IN (SELECT ?1 UNION SELECT member FROM members WHERE members.judge = ?1) \
                     AND failures.pair = pairs.pair ORDER BY failure DESC LIMIT 1), ''), \
                 earlier.grade IS later.grade \
                 FROM pairs JOIN verdicts AS earlier ON earlier.judge = ?2 AND earlier.pair = pairs.pair \
                 LEFT JOIN verdicts AS later ON later.judge = ?1 AND later.pair = pairs.pair \
                 WHERE {LISTED} ORDER BY pairs.pair"
            ))?;
            let unknown = |name: &str| rusqlite::Error::InvalidColumnName(format!("outcome {name:?}"));
            let outcome = |name: String| Outcome::named(&name).ok_or_else(|| unknown(&name));
            let (mut same, mut differences) = (0, Vec::new());
            let mut rows = select.query([judge, before])?;
            while let Some(row) = rows.next()? {
                let before = outcome(row.get(1)?)?;
                let now = row.get::<_, Option<String>>(2)?.map(outcome).transpose()?;
                let is_same_grade: bool = row.get(4)?;
                match now == Some(before) && is_same_grade {
                    true => same += 1,
                    false => differences.push(ChangedLabel {
                        pair: row.get(0)?,
                        before,
                        now,
                        reason: row.get(3)?,
                    }),
                }
            }
            Ok((same, differences))
        })
    }
}

impl Writer {
    /// Adds the adopted evidence for `judge`, atomically.
    pub(crate) fn adopt(&self, judge: i64, pairs: Vec<AdoptedPair>) -> Result<(), JudgeError> {
        self.change(move |transaction| {
            pairs.into_iter().try_for_each(|taken| insert_adopted(transaction, judge, taken))
        })
    }

    /// Adopts the code that was generated for `before`, if none was generated for `judge`.
    pub(crate) fn adopt_generated(&self, judge: i64, before: i64) -> Result<(), JudgeError> {
        self.change(move |transaction| {
            transaction.execute(
                "INSERT INTO generated (judge, query_id, pair, round, model, prompt, answer, status, person, time) \
                 SELECT ?1, query_id, pair, round, model, prompt, answer, status, person, time FROM generated \
                 WHERE judge = ?2 AND query_id NOT IN (SELECT query_id FROM generated WHERE judge = ?1) \
                 ORDER BY generated",
                [judge, before],
            )?;
            Ok(())
        })
    }
}

fn insert_adopted(transaction: &Transaction<'_>, judge: i64, taken: AdoptedPair) -> rusqlite::Result<()> {
    let AdoptedPair { number, events, verdict, reason } = taken;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO events (judge, pair, position, prompt, answer, run, extra) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (position, (event, other)) in events.into_iter().enumerate() {
        // The row of a run contains its result, and never changes.
        let run = match other {
            Some(ChangedResult { run, result, tests }) => Some(insert_run(transaction, &run, result, tests)?),
            None => event.run,
        };
        let StoredEvent { prompt, answer, optional_step, .. } = event;
        insert.execute(params![judge, number, position as i64, prompt, answer, run, optional_step])?;
    }
    if let Some(reason) = reason {
        transaction.execute(
            "INSERT INTO failures (judge, pair, reason, time) VALUES (?1, ?2, ?3, ?4)",
            params![judge, number, reason, now()],
        )?;
    }
    insert_verdict(transaction, EventKey::of_pair(judge, number), verdict.as_ref())
}
