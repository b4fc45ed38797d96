//! Batches: questions that are sent together and answered within a day.
//!
//! A batch is recorded with its calls before it is sent, then with the provider's id for it when that is known, and
//! with its end when every call has one.

use quarry_llm::{Cost, Money};
use rusqlite::{OptionalExtension, Row, params};

use super::read::{PAIR_COLUMNS, pair, steps, sums};
use super::write::{CallEnd, insert_end, signed};
use super::{Ledger, UnjudgedPair, Writer, now};
use crate::error::AnnotateError;

/// A batch that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenBatch {
    /// Its number in the ledger.
    pub batch: i64,
    /// The name under which it was sent.
    pub name: String,
    /// The provider's id, if known.
    pub id: Option<String>,
    /// When it was sent, in seconds since 1970.
    pub sent: f64,
    /// Number of its questions.
    pub n_questions: usize,
    /// Worst-case cost of its calls that have not ended.
    pub worst: Cost,
}

/// A call of a batch that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchCall {
    /// Its number in the ledger.
    pub call: i64,
    /// Number of the pair that it was made for.
    pub pair: i64,
    /// Hash of the request.
    pub request: String,
    /// Its worst-case cost.
    pub worst: Cost,
}

const CALL_COLUMNS: &str = "call, pair, calls.request, worst_tokens, worst_money";

/// Joins the calls of a batch that have not ended.
const OPEN_CALLS: &str = "FROM batch_calls JOIN calls USING (call) \
                          WHERE batch = ?1 AND NOT EXISTS (SELECT 1 FROM call_ends WHERE call_ends.call = calls.call)";

fn cost(row: &Row<'_>, first: usize) -> rusqlite::Result<Cost> {
    let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0) as u64);
    Ok(Cost { tokens: count(first)?, money: Money::from_units(count(first + 1)?) })
}

fn call(row: &Row<'_>) -> rusqlite::Result<BatchCall> {
    Ok(BatchCall { call: row.get(0)?, pair: row.get(1)?, request: row.get(2)?, worst: cost(row, 3)? })
}

impl Ledger {
    /// The open batches of `judge`, or of its versions under earlier rules, oldest first.
    ///
    /// # Errors
    /// When the ledger cannot be read, as for all that follow.
    pub(crate) fn open_batches(&self, judge: i64) -> Result<Vec<OpenBatch>, AnnotateError> {
        self.read(|connection| {
            let worst = format!("SELECT {} {OPEN_CALLS}", sums("worst_tokens", "worst_money"));
            let mut worst = connection.prepare_cached(&worst)?;
            let mut select = connection.prepare_cached(
                "SELECT batch, name, number, batches.time, \
                 (SELECT count(*) FROM batch_calls WHERE batch_calls.batch = batches.batch) \
                 FROM batches LEFT JOIN batch_numbers USING (batch) \
                 WHERE judge IN (SELECT judge FROM judges WHERE description = \
                     (SELECT description FROM judges WHERE judge = ?1)) AND batch NOT IN (SELECT batch FROM batch_ends) ORDER BY batch",
            )?;
            let rows = select.query_map([judge], |row| {
                let batch = row.get(0)?;
                Ok(OpenBatch {
                    batch,
                    name: row.get(1)?,
                    id: row.get(2)?,
                    sent: row.get(3)?,
                    n_questions: row.get::<_, i64>(4)?.max(0) as usize,
                    worst: worst.query_row([batch], |row| cost(row, 0))?,
                })
            })?;
            rows.collect()
        })
    }

    /// Whether an open batch contains a request.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) fn is_in_batch(&self, request: &str) -> Result<bool, AnnotateError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM batch_calls WHERE request = ?1 \
                 AND NOT EXISTS (SELECT 1 FROM call_ends WHERE call_ends.call = batch_calls.call))",
            )?;
            select.query_row([request], |row| row.get(0))
        })
    }

    /// Whether this ledger has a batch with the provider's id.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) fn knows_batch(&self, id: &str) -> Result<bool, AnnotateError> {
        self.read(|connection| {
            let select = "SELECT EXISTS (SELECT 1 FROM batch_numbers WHERE number = ?1)";
            connection.query_row(select, [id], |row| row.get(0))
        })
    }

    /// The call of a batch for a request, if it has not ended.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) fn batch_call(&self, batch: i64, request: &str) -> Result<Option<BatchCall>, AnnotateError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {CALL_COLUMNS} {OPEN_CALLS} AND batch_calls.request = ?2"
            ))?;
            select.query_row(params![batch, request], call).optional()
        })
    }

    /// The calls of a batch that have not ended.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) fn open_calls(&self, batch: i64) -> Result<Vec<BatchCall>, AnnotateError> {
        self.read(|connection| {
            let mut select =
                connection.prepare_cached(&format!("SELECT {CALL_COLUMNS} {OPEN_CALLS} ORDER BY call"))?;
            select.query_map([batch], call)?.collect()
        })
    }

    /// A pair with its events so far.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn pair(&self, judge: i64, number: i64) -> Result<UnjudgedPair, AnnotateError> {
        self.read(|connection| {
            let mut select =
                connection.prepare_cached(&format!("SELECT {PAIR_COLUMNS} FROM pairs WHERE pair = ?1"))?;
            let (number, pair) = select.query_row([number], pair)?;
            let events = steps(connection, judge, number)?.into_iter().map(|step| step.event).collect();
            Ok(UnjudgedPair { number, pair, events })
        })
    }
}

impl Writer {
    /// Records a batch that is about to be sent: for each question the number of its pair, the hash of its request
    /// and its worst-case cost. Returns the number of the batch.
    ///
    /// # Errors
    /// When the ledger cannot be written, as for all that follow.
    pub(crate) fn begin_batch(
        &self,
        judge: i64,
        name: &str,
        calls: Vec<(i64, String, Cost)>,
    ) -> Result<i64, AnnotateError> {
        let name = name.to_owned();
        self.change(move |transaction| {
            transaction.execute(
                "INSERT INTO batches (judge, name, time) VALUES (?1, ?2, ?3)",
                params![judge, name, now()],
            )?;
            let batch = transaction.last_insert_rowid();
            let mut insert = transaction.prepare_cached(
                "INSERT INTO calls (pair, request, worst_tokens, worst_money, time) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let mut belongs = transaction.prepare_cached("INSERT INTO batch_calls VALUES (?1, ?2, ?3)")?;
            for (pair, request, worst) in calls {
                let (tokens, money) = (signed(worst.tokens), signed(worst.money.units()));
                let call = insert.insert(params![pair, request, tokens, money, now()])?;
                belongs.execute(params![call, batch, request])?;
            }
            Ok(batch)
        })
    }

    /// Records the provider's id of a batch.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub(crate) fn number_batch(&self, batch: i64, id: &str) -> Result<(), AnnotateError> {
        let id = id.to_owned();
        self.change(move |transaction| {
            transaction
                .execute("INSERT INTO batch_numbers VALUES (?1, ?2, ?3)", params![batch, id, now()])?;
            Ok(())
        })
    }

    /// Records the end of a batch, and of those of its calls that have none, which have no answer because of
    /// `problem`.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub(crate) fn end_batch(
        &self,
        batch: i64,
        rest: Vec<CallEnd>,
        problem: &str,
    ) -> Result<(), AnnotateError> {
        let problem = problem.to_owned();
        self.change(move |transaction| {
            for end in rest {
                insert_end(transaction, end, Some(&problem))?;
            }
            transaction.execute("INSERT INTO batch_ends VALUES (?1, ?2)", params![batch, now()])?;
            Ok(())
        })
    }
}
