//! Forms for people, in the ledger. It keeps guidelines as texts, whose meaning is up to those who read the replies.

use quarry_files::digest;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::read::{PAIR_COLUMNS, pair};
use super::{Ledger, Writer, now};
use crate::error::JudgeError;
use crate::pair::Pair;

#[derive(Clone, Debug, PartialEq)]
pub struct StoredForm {
    pub name: String,
    pub guideline: GuidelineText,
    pub tests: bool,
    pub seed: u64,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuidelineText {
    /// The name of its file, without extension.
    pub name: String,
    /// The content of its file.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// 1-based number, in the order of the file.
    pub number: i64,
    pub subject: Subject,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// Stored as a reference to the pair.
    #[serde(skip)]
    Pair(Pair),
    /// One list of results, or two answers, in the order shown.
    Answers(Answers),
    Generated(Generated),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    pub query_id: String,
    pub query: String,
    /// One for a list, two for a preference, in the order shown.
    pub sides: Vec<Side>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The system or data set, which is not shown.
    pub system: String,
    /// Its results, best first.
    pub codes: Vec<String>,
}

/// Code that a model wrote for a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// The number of the judge that it was written for.
    pub judge: i64,
    /// Number of times that code was written for the query, including this one.
    pub round: u32,
    /// The version of the prompt.
    pub prompt: String,
    pub query_id: String,
    pub query: String,
    pub code: String,
    pub language: String,
    pub model: String,
}

impl Subject {
    /// Hash of the subject, independent of the form and of the order of the sides.
    pub fn content(&self) -> String {
        match self {
            Self::Pair(pair) => pair.content(),
            Self::Answers(Answers { query, sides, .. }) => {
                let side = |side: &Side| {
                    let codes: Vec<&str> = side.codes.iter().map(String::as_str).collect();
                    [side.system.clone(), digest(&codes)]
                };
                let mut sides: Vec<[String; 2]> = sides.iter().map(side).collect();
                sides.sort();
                let sides = sides.iter().flatten().map(String::as_str);
                digest(&std::iter::once(query.as_str()).chain(sides).collect::<Vec<_>>())
            }
            Self::Generated(generated) => digest(&[&generated.query, &generated.code]),
        }
    }
}

pub(super) fn subject(stored: &str) -> rusqlite::Result<Subject> {
    serde_json::from_str(stored)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

impl Writer {
    /// Records a form; returns whether it is new.
    pub fn add_form(&self, form: StoredForm) -> Result<bool, JudgeError> {
        self.change(move |transaction| {
            let StoredForm { name, guideline, tests, seed, items } = &form;
            let inserted = transaction.execute(
                "INSERT OR IGNORE INTO forms (name, guideline, text, tests, seed, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![name, guideline.name, guideline.text, tests, seed.cast_signed(), now()],
            )?;
            if inserted == 0 {
                return Ok(false);
            }
            let number = transaction.last_insert_rowid();
            let mut insert = transaction.prepare_cached(
                "INSERT INTO items (form, item, content, pair, subject) \
                 VALUES (?1, ?2, ?3, (SELECT pair FROM pairs WHERE id = ?4), ?5)",
            )?;
            for Item { number: item, subject } in items {
                let (pair, shown) = match subject {
                    Subject::Pair(pair) => (Some(&pair.id), None),
                    shown => (None, serde_json::to_string(shown).ok()),
                };
                insert.execute(params![number, item, subject.content(), pair, shown])?;
            }
            Ok(true)
        })
    }
}

impl Ledger {
    pub fn form(&self, name: &str) -> Result<Option<StoredForm>, JudgeError> {
        self.read(|connection| {
            let select = "SELECT form, guideline, text, tests, seed FROM forms WHERE name = ?1";
            let columns = |row: &Row<'_>| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get(3)?, row.get::<_, i64>(4)?))
            };
            let Some((number, guideline, text, tests, seed)) =
                connection.query_row(select, [name], columns).optional()?
            else {
                return Ok(None);
            };
            let mut select = connection.prepare_cached(&format!(
                "SELECT {PAIR_COLUMNS}, item, subject FROM items LEFT JOIN pairs USING (pair) WHERE form = ?1 ORDER BY item"
            ))?;
            let items = select.query_map([number], |row| {
                let subject = match row.get::<_, Option<String>>(9)? {
                    Some(stored) => subject(&stored)?,
                    None => Subject::Pair(pair(row)?.1),
                };
                Ok(Item { number: row.get(8)?, subject })
            })?;
            Ok(Some(StoredForm {
                name: name.to_owned(),
                guideline: GuidelineText { name: guideline, text },
                tests,
                seed: seed.cast_unsigned(),
                items: items.collect::<Result<_, _>>()?,
            }))
        })
    }

    /// The names of all forms, oldest first.
    pub fn forms(&self) -> Result<Vec<String>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached("SELECT name FROM forms ORDER BY form")?;
            select.query_map([], |row| row.get(0))?.collect()
        })
    }
}
