//! Reading a ledger: comparing judges.

use quarry_llm::Cost;
use rusqlite::params;

use super::Ledger;
use super::read::{ANSWER_TOKENS, LISTED, WITH_MEMBERS, cost, sums};
use crate::error::AnnotateError;
use crate::evidence::OptionalStep;
use crate::judge::Outcome;

/// What a judge did for one option.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionalWork {
    /// The option.
    pub optional_step: OptionalStep,
    /// Number of model answers.
    pub answers: u64,
    /// Cost of these by their tokens.
    pub cost: Cost,
    /// Number of program runs.
    pub runs: u64,
    /// Total time of the answers and runs.
    pub seconds: f64,
}

/// What a judge did for a set of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JudgeWork {
    /// Number of model answers.
    pub answers: u64,
    /// Cost of these by their tokens.
    pub cost: Cost,
    /// Number of program runs.
    pub runs: u64,
}

/// The verdicts of several judges on a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairVotes {
    /// The label in the file.
    pub label: Option<i32>,
    /// The outcome of each judge, in the order of the request; `None` if undecided.
    pub outcomes: Vec<Option<Outcome>>,
}

impl Ledger {
    /// What `judge` and its members did for options, in the order of the options.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn optional_work(&self, judge: i64) -> Result<Vec<OptionalWork>, AnnotateError> {
        self.read(|connection| {
            let mut select = connection.prepare(&format!(
                "SELECT extra, count(answer), {}, count(run), coalesce(sum(seconds), 0) + coalesce(sum(wall_seconds), 0) \
                 FROM events LEFT JOIN answers USING (answer) LEFT JOIN runs USING (run) JOIN pairs USING (pair) \
                 WHERE judge {WITH_MEMBERS} AND {LISTED} AND extra IS NOT NULL GROUP BY 1",
                sums(ANSWER_TOKENS, "money")
            ))?;
            let rows = select.query_map([judge], |row| {
                let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0) as u64);
                let Some(optional_step) = OptionalStep::named(&row.get::<_, String>(0)?) else { return Ok(None) };
                let cost = cost(row.get(2)?, row.get(3)?);
                let (answers, runs) = (count(1)?, count(4)?);
                Ok(Some(OptionalWork { optional_step, answers, cost, runs, seconds: row.get(5)? }))
            })?;
            let mut found: Vec<OptionalWork> = rows.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            found.sort_by_key(|work| work.optional_step);
            Ok(found)
        })
    }

    /// What `judge` and its members did for the pairs that `other` has decided as well.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) fn work_on_pairs_of(&self, judge: i64, other: i64) -> Result<JudgeWork, AnnotateError> {
        self.read(|connection| {
            let select = format!(
                "SELECT count(answer), {}, count(run) FROM events LEFT JOIN answers USING (answer) \
                 JOIN pairs USING (pair) WHERE judge {WITH_MEMBERS} AND {LISTED} \
                 AND pair IN (SELECT pair FROM verdicts WHERE judge = ?1) \
                 AND pair IN (SELECT pair FROM verdicts WHERE judge = ?2)",
                sums(ANSWER_TOKENS, "money")
            );
            connection.query_row(&select, params![judge, other], |row| {
                let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0) as u64);
                Ok(JudgeWork { answers: count(0)?, cost: cost(row.get(1)?, row.get(2)?), runs: count(3)? })
            })
        })
    }

    /// Calls `each` with the verdicts of `judges` on each pair of the last start, in the order of the pairs' numbers.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) fn for_each_votes(
        &self,
        judges: &[i64],
        mut each: impl FnMut(PairVotes),
    ) -> Result<(), AnnotateError> {
        self.read(|connection| {
            let outcomes: String = (1..=judges.len())
                .map(|parameter| {
                    format!(
                        ", (SELECT outcome FROM verdicts WHERE judge = ?{parameter} AND verdicts.pair = pairs.pair)"
                    )
                })
                .collect();
            let mut select = connection
                .prepare(&format!("SELECT label{outcomes} FROM pairs WHERE {LISTED} ORDER BY pair"))?;
            let mut rows = select.query(rusqlite::params_from_iter(judges))?;
            while let Some(row) = rows.next()? {
                let outcome = |column: usize| {
                    let name: Option<String> = row.get(column)?;
                    Ok(name.as_deref().and_then(Outcome::named))
                };
                let outcomes = (1..=judges.len()).map(outcome).collect::<rusqlite::Result<_>>()?;
                each(PairVotes { label: row.get(0)?, outcomes });
            }
            Ok(())
        })
    }
}
