//! People's replies, in the ledger.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{OptionalExtension, Row, params};

use super::forms::{GuidelineText, Subject, subject};
use super::generated::{NewCode, insert_generated};
use super::read::{
    FinishedRun, LISTED, PAIR_COLUMNS, RUN_COLUMNS, VERDICT_COLUMNS, WITH_MEMBERS, pair, run, verdict,
};
use super::write::insert_run;
use super::{Ledger, Writer, now};
use crate::error::JudgeError;
use crate::evidence::{Run, RunResult};
use crate::judge::{Outcome, Verdict};
use crate::language::Language;
use crate::pair::Pair;

#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The name of a value of the guideline.
    pub label: String,
    pub program: Option<String>,
    pub edited: Option<String>,
    pub minutes: Option<f64>,
    pub comment: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemAnswer {
    /// A word of the guideline, or the name of a value.
    pub label: String,
    pub comment: String,
    pub program: Option<String>,
}

#[derive(Clone, Debug)]
pub struct NewReply<'a> {
    /// The form's name.
    pub form: &'a str,
    pub item: i64,
    pub person: &'a str,
    /// The date that they gave, if any.
    pub date: Option<&'a str>,
    pub reply: &'a Reply,
    pub run: Option<&'a Run>,
    pub code: Option<NewCode>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PersonReply {
    /// Index of the guideline in the list that the reply comes with.
    pub guideline: usize,
    pub tests: bool,
    /// Hash of the subject, independent of the form.
    pub content: String,
    /// Id of the pair, if the item is one.
    pub pair: Option<String>,
    /// The label of that pair in its file.
    pub file: Option<i32>,
    pub subject: Option<Subject>,
    pub person: String,
    /// The name of a value of the guideline.
    pub label: String,
    /// Generated code as the person edited it.
    pub edited: Option<String>,
    /// The result of the test program, and its number of tests.
    pub program: Option<(RunResult, u64)>,
    pub minutes: Option<f64>,
    pub comment: String,
    /// When it was imported, in seconds since 1970.
    pub time: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ComparableVerdict {
    pub id: String,
    /// Hash of its language, query and code.
    pub content: String,
    /// The label in its file.
    pub file: Option<i32>,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PairReply {
    pub person: String,
    /// The date that they gave, otherwise the date of the import.
    pub date: String,
    pub guideline: String,
    pub tests: bool,
    /// The name of a value of the guideline.
    pub label: String,
    pub comment: String,
    pub run: Option<Run>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FormReply {
    pub item: i64,
    pub person: String,
    pub answer: ItemAnswer,
    /// The result of the test program, if there is one.
    pub result: Option<String>,
    pub minutes: Option<f64>,
    /// When it was stored, in seconds since 1970.
    pub time: f64,
}

/// A pair with what is known of it without people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLabels {
    pub number: i64,
    pub id: String,
    /// The outcome of the judge; `None` if undecided.
    pub outcome: Option<Outcome>,
    /// True if the judge or one of its members ran a test program for it.
    pub tested: bool,
    /// The different labels that its file and all judges give it.
    pub labels: BTreeSet<bool>,
}

impl Writer {
    /// Adds a reply, with the run of its test program and the resulting generated code.
    pub fn add_reply(&self, new: &NewReply<'_>) -> Result<(), JudgeError> {
        let [form, person] = [new.form, new.person].map(str::to_owned);
        let (item, date, reply) = (new.item, new.date.map(str::to_owned), new.reply.clone());
        let run = new.run.and_then(|run| {
            let language = Language::named(&run.program.language)?;
            Some((run.clone(), run.result(language), run.n_tests(language)))
        });
        let code = new.code.clone();
        self.change(move |transaction| {
            if let Some(code) = code {
                insert_generated(transaction, code)?;
            }
            transaction.execute("INSERT OR IGNORE INTO people (name) VALUES (?1)", [&person])?;
            let run = match &run {
                Some((run, result, tests)) => Some(insert_run(transaction, run, *result, *tests)?),
                None => None,
            };
            let mut insert = transaction.prepare_cached(
                "INSERT INTO replies (form, item, person, label, run, edited, minutes, comment, date, time) \
                 VALUES ((SELECT form FROM forms WHERE name = ?1), ?2, (SELECT person FROM people WHERE name = ?3), \
                 ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?;
            let Reply { label, program: _, edited, minutes, comment } = &reply;
            insert.execute(params![form, item, person, label, run, edited, minutes, comment, date, now()])?;
            Ok(())
        })
    }

    /// Adds a decision about an item that people answered differently.
    pub fn add_adjudication(&self, form: &str, item: i64, answer: &ItemAnswer) -> Result<(), JudgeError> {
        let (form, answer) = (form.to_owned(), answer.clone());
        self.change(move |transaction| {
            transaction.execute(
                "INSERT INTO adjudications (form, item, label, comment, time) \
                 VALUES ((SELECT form FROM forms WHERE name = ?1), ?2, ?3, ?4, ?5)",
                params![form, item, answer.label, answer.comment, now()],
            )?;
            Ok(())
        })
    }
}

impl Ledger {
    /// A person's last reply to an item.
    pub fn reply(&self, form: &str, item: i64, person: &str) -> Result<Option<Reply>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT label, program, edited, minutes, comment FROM replies JOIN forms USING (form) \
                 JOIN people USING (person) LEFT JOIN runs USING (run) \
                 WHERE forms.name = ?1 AND item = ?2 AND people.name = ?3 ORDER BY reply DESC LIMIT 1",
            )?;
            let columns = |row: &Row<'_>| {
                Ok(Reply {
                    label: row.get(0)?,
                    program: row.get(1)?,
                    edited: row.get(2)?,
                    minutes: row.get(3)?,
                    comment: row.get(4)?,
                })
            };
            select.query_row(params![form, item, person], columns).optional()
        })
    }

    /// All replies ever given to the items of a form, oldest first.
    pub fn replies_of(&self, form: &str) -> Result<Vec<FormReply>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT item, people.name, label, comment, program, result, minutes, replies.time FROM replies \
                 JOIN forms USING (form) JOIN people USING (person) LEFT JOIN runs USING (run) \
                 WHERE forms.name = ?1 ORDER BY reply",
            )?;
            let rows = select.query_map([form], |row| {
                let answer = ItemAnswer { label: row.get(2)?, comment: row.get(3)?, program: row.get(4)? };
                let (item, person) = (row.get(0)?, row.get(1)?);
                Ok(FormReply { item, person, answer, result: row.get(5)?, minutes: row.get(6)?, time: row.get(7)? })
            })?;
            rows.collect()
        })
    }

    /// The last decision about each item of a form, by the item's number.
    pub fn adjudications(&self, form: &str) -> Result<HashMap<i64, ItemAnswer>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT item, label, comment FROM adjudications JOIN forms USING (form) WHERE forms.name = ?1 \
                 ORDER BY adjudication",
            )?;
            let rows = select.query_map([form], |row| {
                Ok((row.get(0)?, ItemAnswer { label: row.get(1)?, comment: row.get(2)?, program: None }))
            })?;
            rows.collect()
        })
    }

    /// The guidelines of all forms, one for each form; and all replies ever given, oldest first.
    pub fn all_replies(&self) -> Result<(Vec<GuidelineText>, Vec<PersonReply>), JudgeError> {
        let texts = self.read(|connection| {
            let mut select = connection.prepare("SELECT form, guideline, text FROM forms ORDER BY form")?;
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<Vec<(i64, String, String)>, _>>()
        })?;
        let (mut guidelines, mut positions) = (Vec::new(), HashMap::new());
        for (form, name, text) in texts {
            positions.insert(form, guidelines.len());
            guidelines.push(GuidelineText { name, text });
        }
        let replies = self.read(|connection| {
            let mut select = connection.prepare(
                "SELECT form, forms.tests, items.content, pairs.id, items.subject, people.name, replies.label, edited, \
                 runs.result, runs.tests, minutes, comment, pairs.label, replies.time FROM replies JOIN forms USING (form) \
                 JOIN items USING (form, item) JOIN people USING (person) LEFT JOIN pairs USING (pair) \
                 LEFT JOIN runs USING (run) ORDER BY reply",
            )?;
            let rows = select.query_map([], |row| {
                let result = row.get::<_, Option<String>>(8)?;
                let result = result.and_then(|name| RunResult::ALL.into_iter().find(|result| result.name() == name));
                Ok(PersonReply {
                    guideline: positions.get(&row.get(0)?).copied().unwrap_or_default(),
                    tests: row.get(1)?,
                    content: row.get(2)?,
                    pair: row.get(3)?,
                    file: row.get(12)?,
                    subject: row.get::<_, Option<String>>(4)?.map(|stored| subject(&stored)).transpose()?,
                    person: row.get(5)?,
                    label: row.get(6)?,
                    edited: row.get(7)?,
                    program: result.zip(row.get::<_, Option<i64>>(9)?.map(i64::cast_unsigned)),
                    minutes: row.get(10)?,
                    comment: row.get(11)?,
                    time: row.get(13)?,
                })
            })?;
            rows.collect()
        })?;
        Ok((guidelines, replies))
    }

    /// Calls `each` with the verdicts of `judge` on those pairs of the last start that have a label in the file or
    /// one of these ids.
    pub fn for_each_comparable(
        &self,
        judge: i64,
        ids: &BTreeSet<&str>,
        mut each: impl FnMut(ComparableVerdict),
    ) -> Result<(), JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT id, content, label, {VERDICT_COLUMNS} FROM pairs JOIN verdicts USING (pair) \
                 WHERE judge = ?1 AND {LISTED} \
                 AND (label IS NOT NULL OR id IN (SELECT value FROM json_each(?2))) ORDER BY pairs.pair"
            ))?;
            let mut rows = select.query(params![judge, serde_json::json!(ids).to_string()])?;
            while let Some(row) = rows.next()? {
                let (id, content, file) = (row.get(0)?, row.get(1)?, row.get(2)?);
                each(ComparableVerdict { id, content, file, verdict: verdict(row, 3)? });
            }
            Ok(())
        })
    }

    /// All replies ever given about the pair with this id, oldest first.
    pub fn replies_to(&self, pair: &str) -> Result<Vec<PairReply>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT people.name, coalesce(date, 'imported ' || date(replies.time, 'unixepoch')), guideline, forms.tests, \
                 replies.label, comment, replies.run IS NOT NULL, {} FROM replies JOIN items USING (form, item) JOIN forms USING (form) JOIN people USING (person) \
                 JOIN pairs USING (pair) LEFT JOIN runs USING (run) WHERE pairs.id = ?1 ORDER BY reply",
                RUN_COLUMNS.replace("events.extra", "NULL")
            ))?;
            let rows = select.query_map([pair], |row| {
                Ok(PairReply {
                    person: row.get(0)?,
                    date: row.get(1)?,
                    guideline: row.get(2)?,
                    tests: row.get(3)?,
                    label: row.get(4)?,
                    comment: row.get(5)?,
                    run: if row.get(6)? { Some(run(row, 7)?) } else { None },
                })
            })?;
            rows.collect()
        })
    }

    /// The runs of the programs in people's last replies about the pairs of `judge`: at most `limit` of those after
    /// position `after`, each with its position, for the next call.
    pub(super) fn programs_of_people(
        &self,
        judge: i64,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, FinishedRun)>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT reply, pairs.id, pairs.code, people.name, {} FROM replies JOIN items USING (form, item) \
                 JOIN people USING (person) JOIN pairs USING (pair) JOIN runs USING (run) \
                 WHERE reply IN (SELECT max(reply) FROM replies GROUP BY form, item, person) \
                 AND {LISTED} AND unavailable IS NULL AND reply > ?2 ORDER BY reply LIMIT ?3",
                RUN_COLUMNS.replace("events.extra", "NULL")
            ))?;
            let rows = select.query_map(params![judge, after, limit as i64], |row| {
                let [pair, code] = [row.get(1)?, row.get(2)?];
                Ok((row.get(0)?, FinishedRun { pair, code, person: row.get(3)?, run: run(row, 4)? }))
            })?;
            rows.collect()
        })
    }

    /// The pairs of the last start with the outcomes of `judge`, and the labels that they have without people.
    pub fn pair_labels(&self, judge: i64) -> Result<Vec<PairLabels>, JudgeError> {
        self.read(|connection| {
            let mut select = connection.prepare(&format!(
                "SELECT pair, id, label, \
                 (SELECT outcome FROM verdicts WHERE judge = ?1 AND verdicts.pair = pairs.pair), \
                 EXISTS (SELECT 1 FROM events WHERE judge {WITH_MEMBERS} AND events.pair = pairs.pair AND run IS NOT NULL), \
                 EXISTS (SELECT 1 FROM verdicts WHERE verdicts.pair = pairs.pair AND outcome = 'yes' \
                         AND judge IN (SELECT judge FROM judges)), \
                 EXISTS (SELECT 1 FROM verdicts WHERE verdicts.pair = pairs.pair AND outcome = 'no' \
                         AND judge IN (SELECT judge FROM judges)) \
                 FROM pairs WHERE {LISTED} ORDER BY pair"
            ))?;
            let rows = select.query_map([judge], |row| {
                let mut labels = BTreeSet::new();
                labels.extend(row.get::<_, Option<i32>>(2)?.map(|label| label >= 1));
                labels.extend(row.get::<_, bool>(5)?.then_some(true));
                labels.extend(row.get::<_, bool>(6)?.then_some(false));
                Ok(PairLabels {
                    number: row.get(0)?,
                    id: row.get(1)?,
                    outcome: row.get::<_, Option<String>>(3)?.and_then(|name| Outcome::named(&name)),
                    tested: row.get(4)?,
                    labels,
                })
            })?;
            rows.collect()
        })
    }

    /// The pairs with these numbers, in the same order.
    ///
    /// # Errors
    /// When the ledger cannot be read or does not have one of the numbers.
    pub fn pairs(&self, numbers: &[i64]) -> Result<Vec<Pair>, JudgeError> {
        self.read(|connection| {
            let mut select =
                connection.prepare_cached(&format!("SELECT {PAIR_COLUMNS} FROM pairs WHERE pair = ?1"))?;
            numbers.iter().map(|number| Ok(select.query_row([number], pair)?.1)).collect()
        })
    }
}
