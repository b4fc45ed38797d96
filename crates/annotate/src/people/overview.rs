//! What the organizer of a form sees: how far people are, how far they agree, what they disagree on, and all labels.

use std::collections::BTreeMap;

use quarry_metrics::agreement::{Level, krippendorff_alpha};
use serde_json::{Value as Json, json};

use super::form::{Item, Subject};
use super::guideline::Value;
use super::session::{Kept, Said, Session, position};
use crate::error::AnnotateError;
use crate::ledger::FormReply;

/// How far a person has come.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonProgress {
    /// Who.
    pub person: String,
    /// Items that they answered.
    pub answered: usize,
    /// Items that they put off.
    pub put_off: usize,
    /// Median time of an answer, in minutes, of those whose time is known.
    pub median_minutes: Option<f64>,
    /// Time of all answers.
    pub total_minutes: f64,
}

/// How far people agree.
#[derive(Clone, Debug, PartialEq)]
pub struct FormAgreement {
    /// On what, such as `exact`.
    pub name: &'static str,
    /// Whether it is about what they said before they tested.
    pub is_untested: bool,
    /// Items that two people or more rated.
    pub items: usize,
    /// Krippendorff's α; none where there is nothing to compare.
    pub alpha: Option<f64>,
}

/// How far a form is filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct FormOverview {
    /// Items that as many people have answered as are to.
    pub finished: usize,
    /// All items.
    pub items: usize,
    /// Items that people answered differently and nobody has adjudicated.
    pub disputed: usize,
    /// Everybody who is to answer.
    pub people: Vec<PersonProgress>,
    /// By what the guideline speaks of.
    pub agreement: Vec<FormAgreement>,
}

/// An item that people answered differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispute<'a> {
    /// What it is about.
    pub item: &'a Item,
    /// Who said what, by name.
    pub said: Vec<FormReply>,
    /// What was decided.
    pub adjudicated: Option<Said>,
}

/// What a value counts as, in one way of comparing labels.
struct Scale {
    name: &'static str,
    level: Level,
    number: fn(&Value) -> Option<f64>,
}

const SCALES: [Scale; 4] = [
    Scale { name: "exact", level: Level::Nominal, number: |value| value.exact.map(f64::from) },
    Scale { name: "50 %", level: Level::Nominal, number: |value| value.half.map(f64::from) },
    Scale { name: "scale", level: Level::Ordinal, number: |value| value.scale },
    Scale {
        name: "preference",
        level: Level::Nominal,
        number: |value| value.prefers.map(|preferred| f64::from(preferred as u8)),
    },
];

/// Replies that count, by item and person: the last ones.
type LastReplies = BTreeMap<(i64, String), FormReply>;

fn last(replies: Vec<FormReply>) -> LastReplies {
    replies.into_iter().map(|reply| ((reply.item, reply.person.clone()), reply)).collect()
}

/// By item, in the order of the form.
fn by_item(replies: &LastReplies) -> BTreeMap<i64, Vec<&FormReply>> {
    let mut items: BTreeMap<i64, Vec<&FormReply>> = BTreeMap::new();
    for ((item, _), reply) in replies {
        items.entry(*item).or_default().push(reply);
    }
    items
}

fn differs(replies: &[&FormReply]) -> bool {
    replies.windows(2).any(|pair| pair[0].said.label != pair[1].said.label)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

impl Session {
    fn final_replies(&self) -> Result<LastReplies, AnnotateError> {
        Ok(last(self.ledger().replies_of(&self.form().name)?))
    }

    fn untested_replies(&self) -> Result<LastReplies, AnnotateError> {
        let replies = self.untested().map(|form| self.ledger().replies_of(form)).transpose()?;
        Ok(last(replies.unwrap_or_default()))
    }

    fn alphas(&self, replies: &LastReplies, is_untested: bool) -> Vec<FormAgreement> {
        let guideline = &self.form().guideline;
        let mut people: Vec<&str> = replies.keys().map(|(_, person)| person.as_str()).collect();
        people.sort_unstable();
        people.dedup();
        let used = SCALES
            .iter()
            .filter(|scale| guideline.values().iter().any(|value| (scale.number)(value).is_some()));
        let of = |scale: &Scale| {
            let rating = |reply: &&FormReply| guideline.value(&reply.said.label).and_then(scale.number);
            let mut table: Vec<Vec<Option<f64>>> = Vec::new();
            for replies in by_item(replies).into_values() {
                let by =
                    |person: &&str| replies.iter().find(|reply| reply.person == *person).and_then(rating);
                table.push(people.iter().map(by).collect());
            }
            let items = table.iter().filter(|row| row.iter().flatten().count() > 1).count();
            let alpha = krippendorff_alpha(&table, scale.level);
            FormAgreement { name: scale.name, is_untested, items, alpha }
        };
        used.map(of).collect()
    }

    /// How far the form is filled in by `people`.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn overview(&self, people: &[String]) -> Result<FormOverview, AnnotateError> {
        let (replies, untested) = (self.final_replies()?, self.untested_replies()?);
        let progress = |person: &String| {
            let (answered, put_off) = self.counts(person);
            let of = |replies: &LastReplies| -> Vec<f64> {
                let own = replies.values().filter(|reply| reply.person == *person);
                own.filter_map(|reply| reply.minutes).collect()
            };
            let (minutes, before) = (of(&replies), of(&untested));
            let total_minutes = minutes.iter().chain(&before).sum();
            PersonProgress {
                person: person.clone(),
                answered,
                put_off,
                median_minutes: median(minutes),
                total_minutes,
            }
        };
        let (finished, items) = self.finished();
        let agreement = [self.alphas(&replies, false), self.alphas(&untested, true)].concat();
        let disputed = self.disputes()?.iter().filter(|dispute| dispute.adjudicated.is_none()).count();
        Ok(FormOverview {
            finished,
            items,
            disputed,
            people: people.iter().map(progress).collect(),
            agreement,
        })
    }

    /// Items that people answered differently, those first that nobody has adjudicated.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn disputes(&self) -> Result<Vec<Dispute<'_>>, AnnotateError> {
        let (replies, adjudicated) = (self.final_replies()?, self.ledger().adjudications(&self.form().name)?);
        let mut disputes: Vec<Dispute<'_>> = by_item(&replies)
            .into_iter()
            .filter(|(_, replies)| differs(replies))
            .filter_map(|(number, replies)| {
                let said = replies.into_iter().cloned().collect();
                Some(Dispute {
                    item: self.item(number)?,
                    said,
                    adjudicated: adjudicated.get(&number).cloned(),
                })
            })
            .collect();
        disputes.sort_by_key(|dispute| dispute.adjudicated.is_some());
        Ok(disputes)
    }

    /// Keeps what was decided about an item; the last decision counts.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn adjudicate(&self, item: i64, said: &Said) -> Result<Kept, AnnotateError> {
        let value = self.form().guideline.value(&said.label);
        let (Some(_), Some(value)) = (position(self.form(), item), value) else { return Ok(Kept::Unknown) };
        let said =
            Said { label: value.name().to_owned(), comment: said.comment.trim().to_owned(), program: None };
        if self.ledger().adjudications(&self.form().name)?.get(&item) == Some(&said) {
            return Ok(Kept::Known);
        }
        self.writer().add_adjudication(&self.form().name, item, &said)?;
        Ok(Kept::New)
    }

    /// All labels, a JSON object a line: pairs with `label` 1 or 0 are as `quarry data` reads them. What counts is what
    /// was adjudicated, else the majority.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn export(&self) -> Result<String, AnnotateError> {
        let (replies, untested) = (self.final_replies()?, self.untested_replies()?);
        let adjudicated = self.ledger().adjudications(&self.form().name)?;
        let (replies, untested) = (by_item(&replies), by_item(&untested));
        let mut text = String::new();
        for item in &self.form().items {
            let said = replies.get(&item.number).map_or(&[][..], Vec::as_slice);
            let decided = adjudicated.get(&item.number);
            let value = decided.map(|said| said.label.as_str()).or_else(|| majority(said));
            let mut line = self.exported(item, value);
            line["annotations"] = said.iter().map(|reply| annotation(reply)).collect();
            if self.form().tests {
                let before = untested.get(&item.number).into_iter().flatten();
                line["annotations_before_testing"] = before.map(|reply| annotation(reply)).collect();
            }
            if let Some(decided) = decided {
                line["adjudicated"] = json!({ "label": decided.label, "comment": decided.comment });
            }
            text.push_str(&line.to_string());
            text.push('\n');
        }
        Ok(text)
    }

    /// An item with the value that counts for it.
    fn exported(&self, item: &Item, value: Option<&str>) -> Json {
        let mut line = match &item.subject {
            Subject::Pair(pair) => json!({
                "id": pair.id, "query_id": pair.query_id, "code_id": pair.code_id, "query": pair.query,
                "code": pair.code, "language": pair.language,
            }),
            subject => subject
                .shown()
                .into_iter()
                .map(|(column, text)| (column.to_owned(), Json::from(text)))
                .collect(),
        };
        line["item"] = item.number.into();
        line["guideline"] =
            json!({ "name": self.form().guideline.name, "version": self.form().guideline.version });
        line["value"] = value.into();
        let meaning = value.and_then(|value| self.form().guideline.value(value));
        if let Some(is_match) = meaning.and_then(|value| value.exact.or(value.half)) {
            line["label"] = u8::from(is_match).into();
        }
        line
    }
}

/// What more than half of some people say.
fn majority<'r>(replies: &[&'r FormReply]) -> Option<&'r str> {
    let votes = |label: &str| replies.iter().filter(|reply| reply.said.label == label).count();
    let label = replies.iter().map(|reply| reply.said.label.as_str()).max_by_key(|label| votes(label))?;
    (votes(label) * 2 > replies.len()).then_some(label)
}

/// What somebody said, as it is exported.
fn annotation(reply: &FormReply) -> Json {
    let Said { label, comment, program } = &reply.said;
    let program = program.as_ref().map(|source| json!({ "source": source, "result": reply.result }));
    json!({
        "person": reply.person, "label": label, "comment": comment, "minutes": reply.minutes, "time": reply.time,
        "test_program": program,
    })
}
