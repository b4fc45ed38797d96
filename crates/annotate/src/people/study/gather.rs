//! What ledgers hold, as the values that a study is made of.

use std::collections::{BTreeMap, HashMap};

use super::{Annotator, Label, LabelledPair};
use crate::criterion::Criterion;
use crate::error::AnnotateError;
use crate::evidence::RunResult;
use crate::judge::Outcome;
use crate::ledger::{GeneratedStatus, Ledger, Said};
use crate::people::{Answers, Prefers, Subject};

/// All that a study is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// Who labelled, people first, by name.
    pub annotators: Vec<Annotator>,
    /// Pairs that people labelled, or whose file has a label that a judge can be compared with.
    pub pairs: Vec<LabelledPair>,
    /// What labels of pairs took.
    pub work: Vec<Work>,
    /// Ratings, by guideline.
    pub scales: Vec<Scale>,
    /// Preferences.
    pub votes: Vec<Vote>,
    /// What is said of generated code: who, whose code, what.
    pub reviews: Vec<(String, String, GeneratedStatus)>,
}

/// What a label took.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Who.
    pub person: String,
    /// Whether test programs were asked for.
    pub tests: bool,
    /// What the program came to, and how many tests it has.
    pub program: Option<(RunResult, u64)>,
    /// How long it took.
    pub minutes: Option<f64>,
}

/// Ratings under one guideline.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Its name.
    pub guideline: String,
    /// What was rated.
    pub items: Vec<Scored>,
}

/// Something that was rated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// The system, of a list.
    pub system: Option<String>,
    /// Ratings by person.
    pub people: BTreeMap<String, f64>,
    /// Grades by judge.
    pub judges: BTreeMap<String, f64>,
}

/// A preference.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote {
    /// Stands for the query with its two answers.
    pub content: String,
    /// The systems, as they were shown.
    pub sides: [String; 2],
    /// Who.
    pub person: String,
    /// Which is better.
    pub prefers: Prefers,
}

/// A judge whose verdicts are studied.
#[derive(Clone, Copy, Debug)]
pub struct JudgeOf<'a> {
    /// The ledger.
    pub ledger: &'a Ledger,
    /// Its number in there.
    pub judge: i64,
    /// How tables call it.
    pub name: &'a str,
    /// What its labels speak of.
    pub criterion: Criterion,
}

/// The grade from which on a verdict says that the code does all that the query asks for, and more than half of it:
/// Query4Code's classes.
const EXACT_GRADE: u8 = 3;
const HALF_GRADE: u8 = 2;

/// Pairs by id and content, as ledgers of different plans may use an id twice.
#[derive(Default)]
struct Pairs {
    places: HashMap<(String, String), usize>,
    pairs: Vec<LabelledPair>,
    /// Whether people labelled it, and the grades of judges.
    by_people: Vec<bool>,
    grades: Vec<BTreeMap<String, f64>>,
}

impl Pairs {
    fn place(&mut self, id: &str, content: &str, file: Option<i32>) -> usize {
        let key = (id.to_owned(), content.to_owned());
        let next = self.pairs.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            let file = file.map(|label| label >= 1);
            self.pairs.push(LabelledPair { id: id.to_owned(), file, ..LabelledPair::default() });
            self.by_people.push(false);
            self.grades.push(BTreeMap::new());
        }
        place
    }
}

/// Gathers what people said with `ledgers`, each given once, and what `judges` said of the pairs that people or files
/// label.
///
/// # Errors
/// When a ledger cannot be read.
pub fn gather(ledgers: &[&Ledger], judges: &[JudgeOf<'_>]) -> Result<Gathered, AnnotateError> {
    let (mut gathered, mut pairs) = (Gathered::default(), Pairs::default());
    let mut scales: BTreeMap<String, Vec<(String, Scored, Option<usize>)>> = BTreeMap::new();
    let mut annotators: BTreeMap<Annotator, Vec<(usize, Label)>> = BTreeMap::new();
    // The judges go first, so that pairs stand in the order of their files.
    for judge in judges {
        let who = annotators.entry(Annotator::Judge { name: judge.name.to_owned() }).or_default();
        judge.ledger.for_each_decided(judge.judge, |decided| {
            let (pair, verdict) = (decided.pair, decided.verdict);
            let answered = match verdict.outcome {
                Outcome::Yes => Some(true),
                Outcome::No => Some(false),
                Outcome::Discarded | Outcome::Unresolved => None,
            };
            let from = |least: u8| verdict.grade.map(|grade| grade >= least);
            let own = |criterion| answered.filter(|_| judge.criterion == criterion);
            let label = Label {
                exact: own(Criterion::Exact).or(from(EXACT_GRADE)),
                half: own(Criterion::Half).or(from(HALF_GRADE)),
                said: BTreeMap::from([(String::new(), verdict.outcome.name().to_owned())]),
                comment: verdict.reason,
            };
            let place = pairs.place(&pair.id, &pair.content(), pair.label);
            if let Some(grade) = verdict.grade {
                pairs.grades[place].insert(judge.name.to_owned(), f64::from(grade));
            }
            who.push((place, label));
            Ok(())
        })?;
    }
    for ledger in ledgers {
        let labelled = ledger.labelled()?;
        for said in labelled.said {
            let guideline = &labelled.guidelines[said.guideline];
            let Some(value) = guideline.value(&said.label) else { continue };
            let pair = said.pair.as_ref().map(|id| pairs.place(id, &said.content, said.file));
            let rater = match pair {
                Some(place) => {
                    pairs.by_people[place] = true;
                    let who = Annotator::Person { name: said.person.clone(), tests: said.tests };
                    let rater = who.title();
                    let label = Label {
                        exact: value.exact,
                        half: value.half,
                        said: BTreeMap::from([(guideline.name.clone(), said.label.clone())]),
                        comment: said.comment.clone(),
                    };
                    annotators.entry(who).or_default().push((place, label));
                    let Said { person, tests, program, minutes, .. } = said.clone();
                    gathered.work.push(Work { person, tests, program, minutes });
                    rater
                }
                None => said.person.clone(),
            };
            if let Some(score) = value.scale {
                let items = scales.entry(guideline.name.clone()).or_default();
                let place =
                    items.iter().position(|(content, ..)| *content == said.content).unwrap_or(items.len());
                if place == items.len() {
                    let system = match &said.subject {
                        Some(Subject::Answers(Answers { sides, .. })) => {
                            sides.first().map(|side| side.system.clone())
                        }
                        _ => None,
                    };
                    items.push((said.content.clone(), Scored { system, ..Scored::default() }, pair));
                }
                items[place].1.people.insert(rater, score);
            }
            match (&said.subject, value.prefers, value.review) {
                (Some(Subject::Answers(Answers { sides, .. })), Some(prefers), _) => {
                    if let [first, second] = sides.as_slice() {
                        let sides = [first.system.clone(), second.system.clone()];
                        gathered.votes.push(Vote {
                            content: said.content,
                            sides,
                            person: said.person,
                            prefers,
                        });
                    }
                }
                (Some(Subject::Generated(code)), _, Some(review)) => {
                    gathered.reviews.push((said.person, code.model.clone(), review));
                }
                _ => {}
            }
        }
    }
    for (guideline, items) in scales {
        let scored = |(_, mut scored, pair): (String, Scored, Option<usize>)| {
            scored.judges = pair.map(|place| pairs.grades[place].clone()).unwrap_or_default();
            scored
        };
        gathered.scales.push(Scale { guideline, items: items.into_iter().map(scored).collect() });
    }
    for (who, labels) in annotators {
        let annotator = gathered.annotators.len();
        gathered.annotators.push(who);
        for (place, label) in labels {
            let known = pairs.pairs[place].labels.entry(annotator).or_default();
            // Under several guidelines the later label counts where both speak of a criterion.
            known.exact = label.exact.or(known.exact);
            known.half = label.half.or(known.half);
            known.said.extend(label.said);
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
