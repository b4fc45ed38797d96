//! Code that a model wrote for queries without a correct candidate.

use quarry_files::digest;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::read::{
    ALTERNATIVE, LISTED, PAIR_COLUMNS, VERDICT_COLUMNS, pair, pair_with_alternative, unjudged, verdict,
};
use super::write::{Writer, insert_prompts};
use super::{Ledger, now};
use crate::error::JudgeError;
use crate::judge::{Outcome, Verdict};
use crate::ledger::UnjudgedPair;
use crate::pair::Pair;
use crate::prompt::Prompt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GeneratedStatus {
    /// Not reviewed.
    Generated,
    /// Correct as generated.
    Approved,
    /// Correct after a person edited it.
    Edited,
    /// Wrong.
    Rejected,
}

impl GeneratedStatus {
    pub const ALL: [Self; 4] = [Self::Generated, Self::Approved, Self::Edited, Self::Rejected];

    /// The name in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generated => "generated",
            Self::Approved => "approved",
            Self::Edited => "edited",
            Self::Rejected => "rejected",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewCode {
    pub judge: i64,
    pub query_id: String,
    pub query: String,
    /// The code, as the model or a person wrote it.
    pub code: String,
    /// Its language, in lower case.
    pub language: String,
    /// Number of times that code was written for the query, including this one.
    pub round: u32,
    /// Address and name of the model that wrote it, or the version before a person's edit.
    pub model: String,
    /// The version of the prompt.
    pub prompt: String,
    /// Hash of the request whose answer contains it; `None` if a person edited it.
    pub request: Option<String>,
    pub status: GeneratedStatus,
    pub person: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedCode {
    pub pair: Pair,
    pub number: i64,
    /// Number of times that code was written for the query, including this one.
    pub round: u32,
    /// Address and name of the model.
    pub model: String,
    /// The version of the prompt.
    pub prompt: String,
    pub status: GeneratedStatus,
    pub person: Option<String>,
    /// When it was added, in seconds since 1970.
    pub time: f64,
    pub verdict: Option<Verdict>,
}

impl GeneratedCode {
    /// Returns whether it counts as an answer to the query: by its review if there was one, otherwise by its verdict.
    pub fn is_accepted(&self) -> bool {
        match self.status {
            GeneratedStatus::Approved | GeneratedStatus::Edited => true,
            GeneratedStatus::Rejected => false,
            GeneratedStatus::Generated => {
                self.verdict.as_ref().is_some_and(|verdict| verdict.outcome == Outcome::Yes)
            }
        }
    }
}

/// A query without a correct candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    pub query_id: String,
    pub query: String,
    /// The language of its first candidate.
    pub language: String,
    /// The number of that candidate's pair.
    pub pair: i64,
}

const GENERATED: &str = "round, model, prompt, status, person, time";

fn generated(row: &Row<'_>) -> rusqlite::Result<GeneratedCode> {
    let (number, pair) = pair(row)?;
    let status: String = row.get(11)?;
    let unknown = || rusqlite::Error::InvalidColumnName(format!("status {status:?}"));
    let judged: Option<String> = row.get(14)?;
    Ok(GeneratedCode {
        pair,
        number,
        round: row.get(8)?,
        model: row.get(9)?,
        prompt: row.get(10)?,
        status: GeneratedStatus::named(&status).ok_or_else(unknown)?,
        person: row.get(12)?,
        time: row.get(13)?,
        verdict: judged.map(|_| verdict(row, 14)).transpose()?,
    })
}

impl Ledger {
    /// The queries of the last start for which `judge` decided all candidates and found no correct one, in the order
    /// of their first candidates; and the number of queries without a correct candidate so far, but with undecided
    /// ones.
    pub fn unanswered(&self, judge: i64) -> Result<(Vec<Unanswered>, u64), JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare(&format!(
                "SELECT query_id, query, language, min(pairs.pair), \
                 count(*) FILTER (WHERE coalesce(outcome, 'unresolved') = 'unresolved') \
                 FROM pairs LEFT JOIN verdicts ON verdicts.judge = ?1 AND verdicts.pair = pairs.pair \
                 WHERE {LISTED} GROUP BY query_id \
                 HAVING count(*) FILTER (WHERE outcome = 'yes') = 0 \
                 AND count(*) FILTER (WHERE coalesce(outcome, 'unresolved') <> 'discarded') > 0 ORDER BY 4"
            ))?;
            let (mut unanswered, mut open) = (Vec::new(), 0);
            let mut rows = select.query([judge])?;
            while let Some(row) = rows.next()? {
                if row.get::<_, i64>(4)? > 0 {
                    open += 1;
                    continue;
                }
                let (query_id, query) = (row.get(0)?, row.get(1)?);
                unanswered.push(Unanswered { query_id, query, language: row.get(2)?, pair: row.get(3)? });
            }
            Ok((unanswered, open))
        })
    }

    /// The latest generated or edited code for each query of the last start without a correct candidate, in the order
    /// in which it was added.
    pub fn generated(&self, judge: i64) -> Result<Vec<GeneratedCode>, JudgeError> {
        let condition = format!(
            "generated IN (SELECT max(generated) FROM generated WHERE judge = ?1 GROUP BY query_id) \
             AND generated.query_id IN (SELECT query_id FROM pairs \
                 LEFT JOIN verdicts ON verdicts.judge = ?1 AND verdicts.pair = pairs.pair WHERE {LISTED} \
                 GROUP BY query_id HAVING count(*) FILTER (WHERE outcome = 'yes') = 0) AND ?2 IS NULL"
        );
        self.generated_where(judge, &condition, None)
    }

    /// All code that was generated for a query under the plan of `judge`, or edited by people, oldest first.
    pub fn generated_for(&self, judge: i64, query_id: &str) -> Result<Vec<GeneratedCode>, JudgeError> {
        self.generated_where(judge, "generated.query_id = ?2", Some(query_id))
    }

    /// Hash of what people said of the code that was generated under the plan of `judge`; `None` if they said nothing.
    pub fn reviews_digest(&self, judge: i64) -> Result<Option<String>, JudgeError> {
        let reviews: Vec<String> = self.read(|connection| {
            let mut select = connection.prepare(
                "SELECT id, status FROM generated JOIN pairs USING (pair) \
                 WHERE judge = ?1 AND status <> 'generated' ORDER BY generated",
            )?;
            let review =
                |row: &Row<'_>| Ok(format!("{} {}", row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            select.query_map([judge], review)?.collect()
        })?;
        let reviews: Vec<&str> = reviews.iter().map(String::as_str).collect();
        Ok((!reviews.is_empty()).then(|| digest(&reviews)))
    }

    fn generated_where(
        &self,
        judge: i64,
        condition: &str,
        query_id: Option<&str>,
    ) -> Result<Vec<GeneratedCode>, JudgeError> {
        self.read(|connection| {
            let columns = PAIR_COLUMNS.replace(" query_id", " pairs.query_id");
            let verdicts = VERDICT_COLUMNS.replace("outcome", "verdicts.outcome");
            let mut select = connection.prepare_cached(&format!(
                "SELECT {columns}, {}, {verdicts} FROM generated JOIN pairs USING (pair) \
                 LEFT JOIN verdicts ON verdicts.judge = generated.judge AND verdicts.pair = generated.pair \
                 WHERE generated.judge = ?1 AND {condition} ORDER BY generated",
                GENERATED.replace("time", "generated.time")
            ))?;
            select.query_map(params![judge, query_id], generated)?.collect()
        })
    }

    /// A pair by its number, with its events so far; `None` if `judge` has decided it.
    pub(crate) fn waiting_pair(&self, judge: i64, number: i64) -> Result<Option<UnjudgedPair>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {PAIR_COLUMNS}, {ALTERNATIVE} FROM pairs WHERE pair = ?2 AND NOT EXISTS \
                 (SELECT 1 FROM verdicts WHERE judge = ?1 AND verdicts.pair = pairs.pair)"
            ))?;
            let found = select.query_row(params![judge, number], pair_with_alternative).optional()?;
            found.map(|found| unjudged(connection, judge, found)).transpose()
        })
    }
}

impl Writer {
    /// Adds code for a query and returns the number of its pair. Adding the same code for a query again returns the
    /// existing pair.
    pub fn add_generated(&self, new: NewCode) -> Result<i64, JudgeError> {
        self.change(move |transaction| insert_generated(transaction, new))
    }

    /// Records prompts that do not belong to a judge.
    pub(crate) fn add_prompts(&self, prompts: &[&Prompt]) -> Result<(), JudgeError> {
        let prompts: Vec<Prompt> = prompts.iter().copied().cloned().collect();
        self.change(move |transaction| insert_prompts(transaction, &prompts))
    }
}

pub(super) fn insert_generated(transaction: &Transaction<'_>, new: NewCode) -> rusqlite::Result<i64> {
    let code = &digest(&[&new.language, &new.code])[..16];
    let pair = Pair {
        id: format!("generated-{}-{code}", new.query_id),
        query_id: new.query_id,
        query: new.query,
        code_id: format!("generated-{code}"),
        code: new.code,
        language: new.language,
        label: None,
        alternative: None,
    };
    // It is not part of a list: its use is recorded in `generated`.
    let insert = "INSERT OR IGNORE INTO pairs (id, query_id, query, code_id, code, language, content, list) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)";
    let Pair { id, query_id, query, code_id, code, language, .. } = &pair;
    let content = pair.content();
    transaction.execute(insert, params![id, query_id, query, code_id, code, language, content])?;
    let select = "SELECT pair FROM pairs WHERE id = ?1";
    let number: i64 = transaction.query_row(select, [id], |row| row.get(0))?;
    transaction.execute(
        "INSERT INTO generated (judge, query_id, pair, round, model, prompt, status, person, time, answer) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, (SELECT answer FROM answers WHERE request = ?10))",
        params![
            new.judge,
            query_id,
            number,
            new.round,
            new.model,
            new.prompt,
            new.status.name(),
            new.person,
            now(),
            new.request
        ],
    )?;
    Ok(number)
}
