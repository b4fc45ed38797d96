//! Reading a ledger: comparing judges.

use quarry_llm::Cost;
use rusqlite::params;
use serde::Serialize;

use super::Ledger;
use super::read::{ANSWER_TOKENS, LISTED, WITH_MEMBERS, cost, sums};
use crate::error::JudgeError;
use crate::evidence::OptionalStep;
use crate::judge::Outcome;

/// Work and cost of one option.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OptionCost {
    /// Name of the option in `[tests]`.
    pub option: &'static str,
    /// Calls of models.
    pub calls: u64,
    /// Tokens of these calls.
    pub tokens: u64,
    /// Cost of these calls; `None` if no price is known.
    pub dollars: Option<f64>,
    /// Runs of programs.
    pub runs: u64,
    /// Total time of calls and runs.
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JudgeWork {
    pub answers: u64,
    pub cost: Cost,
    pub runs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairVotes {
    /// The label in the file.
    pub label: Option<i32>,
    /// The outcome of each judge, in the order of the request; `None` if undecided.
    pub outcomes: Vec<Option<Outcome>>,
}

impl Ledger {
    /// Work of `judge` and its members for options, in the order of the options.
    pub fn option_costs(&self, judge: i64) -> Result<Vec<OptionCost>, JudgeError> {
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
                let cost = OptionCost {
                    option: optional_step.name(),
                    calls: count(1)?,
                    tokens: cost.tokens,
                    dollars: cost.dollars(),
                    runs: count(4)?,
                    seconds: row.get(5)?,
                };
                Ok(Some((optional_step, cost)))
            })?;
            let mut found: Vec<_> = rows.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            found.sort_by_key(|(optional_step, _)| *optional_step);
            Ok(found.into_iter().map(|(_, cost)| cost).collect())
        })
    }

    /// Work of `judge` and its members for the pairs that `other` has decided as well.
    pub(crate) fn work_on_shared_pairs(&self, judge: i64, other: i64) -> Result<JudgeWork, JudgeError> {
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
    pub(crate) fn for_each_votes(
        &self,
        judges: &[i64],
        mut each: impl FnMut(PairVotes),
    ) -> Result<(), JudgeError> {
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
