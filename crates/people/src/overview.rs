//! Overview for the organizer of a form: progress, agreement, disagreements, and all labels.

use std::collections::BTreeMap;

use quarry_judge::JudgeError;
use quarry_judge::ledger::{FormReply, Item, ItemAnswer, Subject};
use quarry_metrics::agreement::{Level, krippendorff_alpha};
use serde_json::{Value as Json, json};

use crate::form::shown_columns;
use crate::guideline::{Guideline, Value};
use crate::session::{Session, Submission, position};
use crate::study::median;

#[derive(Clone, Debug, PartialEq)]
pub struct PersonProgress {
    pub person: String,
    pub answered: usize,
    pub skipped: usize,
    /// Median time per answer in minutes, over answers with a known time.
    pub median_minutes: Option<f64>,
    /// Total time of all answers, before and after testing, in minutes.
    pub total_minutes: f64,
}

/// Agreement on one scale of the guideline.
#[derive(Clone, Debug, PartialEq)]
pub struct FormAgreement {
    /// The name of the scale, such as `label`.
    pub name: &'static str,
    /// True if it covers the answers before testing.
    pub is_untested: bool,
    pub items: usize,
    /// Krippendorff's α; `None` if there is nothing to compare.
    pub alpha: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FormOverview {
    /// Items with enough answers.
    pub finished: usize,
    pub items: usize,
    /// Items with different answers that are not adjudicated.
    pub disputed: usize,
    pub people: Vec<PersonProgress>,
    pub agreement: Vec<FormAgreement>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Dispute<'a> {
    pub item: &'a Item,
    pub replies: Vec<FormReply>,
    pub adjudicated: Option<ItemAnswer>,
}

/// A way to compare replies: the number that each value of the guideline stands for.
struct Scale {
    name: &'static str,
    level: Level,
    number: fn(&Guideline, &Value) -> Option<f64>,
}

const SCALES: [Scale; 3] = [
    Scale {
        name: "label",
        level: Level::Nominal,
        number: |guideline, value| guideline.label(value.name()).map(f64::from),
    },
    Scale { name: "scale", level: Level::Ordinal, number: |_, value| value.scale },
    Scale {
        name: "preference",
        level: Level::Nominal,
        number: |_, value| value.prefers.map(|preferred| f64::from(preferred as u8)),
    },
];

/// The last reply for each item and person.
type LastReplies = BTreeMap<(i64, String), FormReply>;

fn last(replies: Vec<FormReply>) -> LastReplies {
    replies.into_iter().map(|reply| ((reply.item, reply.person.clone()), reply)).collect()
}

/// Replies by item, in the order of the form.
fn by_item(replies: &LastReplies) -> BTreeMap<i64, Vec<&FormReply>> {
    let mut items: BTreeMap<i64, Vec<&FormReply>> = BTreeMap::new();
    for ((item, _), reply) in replies {
        items.entry(*item).or_default().push(reply);
    }
    items
}

/// The value of more than half of the replies.
fn majority<T: PartialEq>(replies: impl Iterator<Item = T>) -> Option<T> {
    let mut replies: Vec<T> = replies.collect();
    let of_half = |reply: &T| 2 * replies.iter().filter(|other| *other == reply).count() > replies.len();
    let found = replies.iter().position(of_half)?;
    Some(replies.swap_remove(found))
}

impl Session {
    fn final_replies(&self) -> Result<LastReplies, JudgeError> {
        Ok(last(self.ledger().replies_of(&self.form().name)?))
    }

    fn untested_replies(&self) -> Result<LastReplies, JudgeError> {
        let replies = self.untested().map(|form| self.ledger().replies_of(form)).transpose()?;
        Ok(last(replies.unwrap_or_default()))
    }

    fn alphas(&self, replies: &LastReplies, is_untested: bool) -> Vec<FormAgreement> {
        let guideline = &self.form().guideline;
        let mut people: Vec<&str> = replies.keys().map(|(_, person)| person.as_str()).collect();
        people.sort_unstable();
        people.dedup();
        let used = SCALES.iter().filter(|scale| {
            guideline.values().iter().any(|value| (scale.number)(guideline, value).is_some())
        });
        let of = |scale: &Scale| {
            let rating = |reply: &&FormReply| {
                guideline.value(&reply.answer.label).and_then(|value| (scale.number)(guideline, value))
            };
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

    /// The state of the form, with the progress of each of `people`.
    pub fn overview(&self, people: &[String]) -> Result<FormOverview, JudgeError> {
        let (replies, untested) = (self.final_replies()?, self.untested_replies()?);
        let progress = |person: &String| {
            let (answered, skipped) = self.counts(person);
            let of = |replies: &LastReplies| -> Vec<f64> {
                let own = replies.values().filter(|reply| reply.person == *person);
                own.filter_map(|reply| reply.minutes).collect()
            };
            let (minutes, before) = (of(&replies), of(&untested));
            // The sum of an empty sequence is -0.0.
            let total_minutes = minutes.iter().chain(&before).sum::<f64>() + 0.0;
            PersonProgress {
                person: person.clone(),
                answered,
                skipped,
                median_minutes: median(&minutes),
                total_minutes,
            }
        };
        let (finished, items) = self.finished();
        let mut agreement = self.alphas(&replies, false);
        if self.untested().is_some() {
            agreement.extend(self.alphas(&untested, true));
        }
        let disputed = self.disputes()?.iter().filter(|dispute| dispute.adjudicated.is_none()).count();
        Ok(FormOverview {
            finished,
            items,
            disputed,
            people: people.iter().map(progress).collect(),
            agreement,
        })
    }

    /// Items with different answers, those that are not adjudicated first.
    pub fn disputes(&self) -> Result<Vec<Dispute<'_>>, JudgeError> {
        let (replies, adjudicated) = (self.final_replies()?, self.ledger().adjudications(&self.form().name)?);
        let differ = |pair: &[&FormReply]| {
            let [one, other] =
                [0, 1].map(|which| self.form().guideline.counted_as(&pair[which].answer.label));
            one != other
        };
        let mut disputes: Vec<Dispute<'_>> = by_item(&replies)
            .into_iter()
            .filter(|(_, replies)| replies.windows(2).any(differ))
            .filter_map(|(number, replies)| {
                let replies = replies.into_iter().cloned().collect();
                Some(Dispute {
                    item: self.item(number)?,
                    replies,
                    adjudicated: adjudicated.get(&number).cloned(),
                })
            })
            .collect();
        disputes.sort_by_key(|dispute| dispute.adjudicated.is_some());
        Ok(disputes)
    }

    /// Stores a decision about an item; the last one counts.
    pub fn adjudicate(&self, item: i64, answer: &ItemAnswer) -> Result<Submission, JudgeError> {
        let value = self.form().guideline.value(&answer.label);
        let (Some(_), Some(value)) = (position(self.form(), item), value) else {
            return Ok(Submission::Unknown);
        };
        let answer = ItemAnswer {
            label: value.name().to_owned(),
            comment: answer.comment.trim().to_owned(),
            program: None,
        };
        if self.ledger().adjudications(&self.form().name)?.get(&item) == Some(&answer) {
            return Ok(Submission::Known);
        }
        self.writer().add_adjudication(&self.form().name, item, &answer)?;
        Ok(Submission::New)
    }

    /// All labels as JSON lines. Pairs are as `quarry data` reads them, with `label` 1 or 0: that of the decision if the
    /// item was adjudicated, otherwise the majority of the replies. `value` is chosen in the same way among the
    /// values, so a label may have no majority value.
    pub fn export(&self) -> Result<String, JudgeError> {
        let (replies, untested) = (self.final_replies()?, self.untested_replies()?);
        let adjudicated = self.ledger().adjudications(&self.form().name)?;
        let (replies, untested) = (by_item(&replies), by_item(&untested));
        let mut text = String::new();
        for item in &self.form().items {
            let replies_of_item = replies.get(&item.number).map_or(&[][..], Vec::as_slice);
            let decided = adjudicated.get(&item.number);
            let values: Vec<&str> = match decided {
                Some(decided) => vec![&decided.label],
                None => replies_of_item.iter().map(|reply| reply.answer.label.as_str()).collect(),
            };
            let mut line = self.exported(item, &values);
            line["annotations"] = replies_of_item.iter().map(|reply| annotation(reply)).collect();
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

    fn exported(&self, item: &Item, values: &[&str]) -> Json {
        let mut line = match &item.subject {
            Subject::Pair(pair) => json!({
                "id": pair.id, "query_id": pair.query_id, "code_id": pair.code_id, "query": pair.query,
                "code": pair.code, "language": pair.language,
            }),
            subject => shown_columns(subject)
                .into_iter()
                .map(|(column, text)| (column.to_owned(), Json::from(text)))
                .collect(),
        };
        line["item"] = item.number.into();
        line["guideline"] =
            json!({ "name": self.form().guideline.name, "version": self.form().guideline.version });
        line["value"] = majority(values.iter().copied()).into();
        let labels = values.iter().map(|value| self.form().guideline.label(value));
        if let Some(is_match) = majority(labels).flatten() {
            line["label"] = u8::from(is_match).into();
        }
        line
    }
}

fn annotation(reply: &FormReply) -> Json {
    let ItemAnswer { label, comment, program } = &reply.answer;
    let program = program.as_ref().map(|source| json!({ "source": source, "result": reply.result }));
    json!({
        "person": reply.person, "label": label, "comment": comment, "minutes": reply.minutes, "time": reply.time,
        "test_program": program,
    })
}
