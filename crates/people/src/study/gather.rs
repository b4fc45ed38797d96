//! Collecting the data of a study from ledgers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quarry_judge::ledger::{Answers, ComparableVerdict, GeneratedStatus, Ledger, PersonReply, Subject};
use quarry_judge::{Criterion, JudgeError, RunResult, Verdict};

use super::{Annotator, Label, LabeledPair};
use crate::guideline::Preferred;
use crate::labels::PeopleLabels;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyData {
    /// The annotators: people first, by name.
    pub annotators: Vec<Annotator>,
    /// Pairs that people labeled, or that have a label in the file to compare a judge with.
    pub pairs: Vec<LabeledPair>,
    pub work: Vec<LabelWork>,
    /// Ratings, by guideline.
    pub scales: Vec<Scale>,
    pub votes: Vec<PreferenceVote>,
    /// Reviews of generated code: person, model, decision.
    pub reviews: Vec<(String, String, GeneratedStatus)>,
}

/// The effort behind a label.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelWork {
    pub person: String,
    pub tests: bool,
    /// Index of the pair.
    pub pair: usize,
    /// The result of the test program, and its number of tests.
    pub program: Option<(RunResult, u64)>,
    pub minutes: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    pub guideline: String,
    pub items: Vec<ScoredItem>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoredItem {
    /// The system, for a list of results.
    pub system: Option<String>,
    /// Ratings by person.
    pub people: BTreeMap<String, f64>,
    pub judges: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PreferenceVote {
    /// Hash of the query with its two answers.
    pub content: String,
    /// The systems, in the order shown.
    pub sides: [String; 2],
    pub person: String,
    pub prefers: Preferred,
}

#[derive(Clone, Copy, Debug)]
pub struct StudiedJudge<'a> {
    pub ledger: &'a Ledger,
    /// Its number in the ledger.
    pub judge: i64,
    pub name: &'a str,
    pub criterion: Criterion,
}

/// The minimum grades with which the code does all that the query asks for, and more than half of it, by
/// Query4Code's classes.
const EXACT_GRADE: u8 = 3;
const HALF_GRADE: u8 = 2;

/// Pairs by id and content, because ledgers of different plans may use the same id.
#[derive(Default)]
struct Pairs {
    positions: HashMap<(String, String), usize>,
    pairs: Vec<LabeledPair>,
    /// True for pairs that people labeled.
    by_people: Vec<bool>,
    grades: Vec<BTreeMap<String, f64>>,
}

impl Pairs {
    fn position(&mut self, id: &str, content: &str, file: Option<i32>) -> usize {
        let key = (id.to_owned(), content.to_owned());
        let next = self.pairs.len();
        let position = *self.positions.entry(key).or_insert(next);
        if position == next {
            let file = file.map(|label| label >= 1);
            self.pairs.push(LabeledPair { id: id.to_owned(), file, ..LabeledPair::default() });
            self.by_people.push(false);
            self.grades.push(BTreeMap::new());
        }
        position
    }
}

/// A verdict as a label under each criterion.
fn label(verdict: Verdict, criterion: Criterion) -> Label {
    let answered = verdict.outcome.label();
    let from = |minimum: u8| verdict.grade.map(|grade| grade >= minimum);
    let own = |wanted| answered.filter(|_| criterion == wanted);
    Label {
        exact: own(Criterion::Exact).or(from(EXACT_GRADE)),
        half: own(Criterion::Half).or(from(HALF_GRADE)),
        names: BTreeMap::from([(String::new(), verdict.outcome.name().to_owned())]),
        comment: verdict.reason,
        ..Label::default()
    }
}

/// Ratings by guideline, while they are collected.
#[derive(Default)]
struct Scales(BTreeMap<String, Items>);

/// The rated items of a guideline, their positions by content, and the pairs among them.
#[derive(Default)]
struct Items {
    positions: HashMap<String, usize>,
    items: Vec<(ScoredItem, Option<usize>)>,
}

impl Scales {
    fn add(&mut self, guideline: &str, reply: &PersonReply, pair: Option<usize>, score: f64) {
        let Items { positions, items } = self.0.entry(guideline.to_owned()).or_default();
        let position = *positions.entry(reply.content.clone()).or_insert(items.len());
        if position == items.len() {
            let system = match &reply.subject {
                Some(Subject::Answers(Answers { sides, .. })) => {
                    sides.first().map(|side| side.system.clone())
                }
                _ => None,
            };
            items.push((ScoredItem { system, ..ScoredItem::default() }, pair));
        }
        let rater = match pair {
            Some(_) => Annotator::Person { name: reply.person.clone(), tests: reply.tests }.title(),
            None => reply.person.clone(),
        };
        items[position].0.people.insert(rater, score);
    }

    fn finish(self, grades: &[BTreeMap<String, f64>]) -> Vec<Scale> {
        let scored = |(mut scored, pair): (ScoredItem, Option<usize>)| {
            scored.judges = pair.map(|position| grades[position].clone()).unwrap_or_default();
            scored
        };
        let scale = |(guideline, Items { items, .. })| Scale {
            guideline,
            items: items.into_iter().map(scored).collect(),
        };
        self.0.into_iter().map(scale).collect()
    }
}

/// Collects the replies of people from `ledgers`, each given once, and the verdicts of `judges` on the pairs that
/// people or files label.
pub fn gather(ledgers: &[&Ledger], judges: &[StudiedJudge<'_>]) -> Result<StudyData, JudgeError> {
    let (mut gathered, mut pairs) = (StudyData::default(), Pairs::default());
    let mut annotators: BTreeMap<Annotator, Vec<(usize, Label)>> = BTreeMap::new();
    let PeopleLabels { guidelines, replies } = PeopleLabels::read_all(ledgers)?;
    let ids: BTreeSet<&str> = replies.iter().filter_map(|reply| reply.pair.as_deref()).collect();
    // Judges first, so that pairs are in the order of their files.
    for judge in judges {
        let who = annotators.entry(Annotator::Judge { name: judge.name.to_owned() }).or_default();
        judge.ledger.for_each_comparable(
            judge.judge,
            &ids,
            |ComparableVerdict { id, content, file, verdict }| {
                let position = pairs.position(&id, &content, file);
                if let Some(grade) = verdict.grade {
                    pairs.grades[position].insert(judge.name.to_owned(), f64::from(grade));
                }
                who.push((position, label(verdict, judge.criterion)));
            },
        )?;
    }
    let mut scales = Scales::default();
    for reply in replies {
        let guideline = &guidelines[reply.guideline];
        let Some(value) = guideline.value(&reply.label) else { continue };
        let pair = reply.pair.as_ref().map(|id| pairs.position(id, &reply.content, reply.file));
        if let Some(score) = value.scale {
            scales.add(&guideline.name, &reply, pair, score);
        }
        let PersonReply { tests, content, subject, person, program, minutes, comment, .. } = reply;
        if let Some(position) = pair {
            pairs.by_people[position] = true;
            let own = guideline.criterion();
            let given = |criterion| guideline.under(value, criterion).filter(|_| criterion == own);
            let beside = |criterion| Some((criterion, guideline.under(value, criterion)?));
            let label = Label {
                exact: given(Criterion::Exact),
                half: given(Criterion::Half),
                beside: Criterion::ALL.into_iter().filter(|other| *other != own).filter_map(beside).collect(),
                names: BTreeMap::from([(guideline.name.clone(), reply.label)]),
                comment,
            };
            let who = Annotator::Person { name: person.clone(), tests };
            annotators.entry(who).or_default().push((position, label));
            gathered.work.push(LabelWork { person: person.clone(), tests, pair: position, program, minutes });
        }
        match (subject, value.prefers, value.review) {
            (Some(Subject::Answers(Answers { sides, .. })), Some(prefers), _) => {
                if let [first, second] = sides.as_slice() {
                    let sides = [first.system.clone(), second.system.clone()];
                    gathered.votes.push(PreferenceVote { content, sides, person, prefers });
                }
            }
            (Some(Subject::Generated(code)), _, Some(review)) => {
                gathered.reviews.push((person, code.model, review));
            }
            _ => {}
        }
    }
    gathered.scales = scales.finish(&pairs.grades);
    for (who, labels) in annotators {
        let annotator = gathered.annotators.len();
        gathered.annotators.push(who);
        for (position, label) in labels {
            let known = pairs.pairs[position].labels.entry(annotator).or_default();
            // If several guidelines give a label under a criterion, the latest counts.
            known.exact = label.exact.or(known.exact);
            known.half = label.half.or(known.half);
            known.beside.extend(label.beside);
            known.names.extend(label.names);
            known.comment = label.comment;
        }
    }
    let by_people = pairs.by_people;
    gathered.pairs = pairs
        .pairs
        .into_iter()
        .zip(by_people)
        .filter(|(pair, by_people)| *by_people || pair.file.is_some())
        .map(|(pair, _)| pair)
        .collect();
    Ok(gathered)
}
