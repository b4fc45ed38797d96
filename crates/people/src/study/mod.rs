//! Statistics of the labels of people and judges: the annotator tables of the papers, as a pure function.
//!
//! There are two criteria: *exact*, whether the code does all that a query asks for, and *50 %*, whether it does
//! more than half of it. A guideline gives labels under one of them, and may state what a value means under the
//! other; nothing else is inferred from one about the other.

mod agreement;
mod errors;
mod gather;
mod people;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use quarry_judge::Criterion;
use quarry_metrics::agreement::Level;
use quarry_metrics::agreement::krippendorff_by_unit;
use quarry_metrics::significance::{Bootstrap, Interval, resampled_interval, wilson_interval};
use serde::{Deserialize, Serialize};

pub use agreement::{AgreementRow, AnnotatorRow, FileAgreement, MajorityAgreement};
pub use errors::label_errors;
pub use gather::{StudiedJudge, StudyData, gather};
pub(crate) use people::median;
pub use people::{PreferenceRow, ProgramRow, ReviewRow, ScoreAgreement, ScoreRow, SystemRow};

/// A person or a judge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Annotator {
    /// A person, with or without test programs: the same person in both conditions is two annotators.
    Person { name: String, tests: bool },
    Judge {
        /// The person's name, or the judge's title.
        name: String,
    },
}

impl Annotator {
    /// The name in tables.
    pub fn title(&self) -> String {
        match self {
            Self::Person { name, tests } => format!("{name}, {}", condition(*tests)),
            Self::Judge { name } => name.clone(),
        }
    }
}

pub(crate) fn condition(tests: bool) -> &'static str {
    if tests { "with tests" } else { "without tests" }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Label {
    pub exact: Option<bool>,
    pub half: Option<bool>,
    /// Labels under other criteria that the value implies, used where those have none.
    pub beside: BTreeMap<Criterion, bool>,
    /// The names of the labels given, by guideline.
    pub names: BTreeMap<String, String>,
    pub comment: String,
}

impl Label {
    fn given(&self, criterion: Criterion) -> Option<bool> {
        match criterion {
            Criterion::Exact => self.exact,
            Criterion::Half => self.half,
        }
    }

    /// The label under a criterion, given or derived; `None` if there is none under it.
    pub fn under(&self, criterion: Criterion) -> Option<bool> {
        self.given(criterion).or(self.beside.get(&criterion).copied())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabeledPair {
    pub id: String,
    /// `true` if the code answers the query according to the label in its file.
    pub file: Option<bool>,
    /// Labels by the index of the annotator.
    pub labels: BTreeMap<usize, Label>,
}

impl LabeledPair {
    fn rating_by(&self, voice: &[usize], criterion: Criterion) -> Option<bool> {
        voice.iter().find_map(|column| self.labels.get(column)?.under(criterion))
    }
}

/// The people whose majority is the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceMajority {
    /// People who wrote tests if there are any, otherwise those who did not.
    #[default]
    Auto,
    /// People who wrote tests.
    WithTests,
    /// People who wrote no tests.
    WithoutTests,
    /// All people.
    People,
}

#[derive(Clone, Debug)]
pub struct StudyOptions {
    pub truth: ReferenceMajority,
    /// Minimum number of labels of a pair for a majority.
    pub min_labels: usize,
    /// Pairs whose own α is below this, of the labels that people gave under either criterion, are removed.
    pub min_alpha: Option<f64>,
    /// Block size in pairs for also averaging α over blocks, as CoSQA+ does with 100.
    pub block: Option<usize>,
    /// The definition of executable: one of [`EXECUTABLE_RULES`](quarry_judge::EXECUTABLE_RULES).
    pub executable_rule: &'static str,
    /// Settings of bootstrapped intervals; `confidence` applies to all intervals.
    pub bootstrap: Bootstrap,
}

/// The results of a study.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Study {
    /// The people whose majority was the reference.
    pub truth: ReferenceMajority,
    /// Pairs that people labeled or that have a label in the file.
    pub pairs: usize,
    /// Agreement between people, by condition and criterion.
    pub agreement: Vec<AgreementRow>,
    /// The same before pairs were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agreement_before_removal: Vec<AgreementRow>,
    /// Removed pairs, with the α of their labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<(String, f64)>,
    /// Each annotator compared with the majority.
    pub annotators: Vec<AnnotatorRow>,
    /// Each annotator compared with the labels of the file.
    pub against_file: Vec<FileAgreement>,
    /// The definition of executable.
    pub executable_rule: &'static str,
    /// Test programs of people and the time taken.
    pub programs: Vec<ProgramRow>,
    /// Ratings on a scale.
    pub scores: Vec<ScoreRow>,
    /// Agreement of ratings.
    pub score_agreement: Vec<ScoreAgreement>,
    /// Ratings of lists by system.
    pub systems: Vec<SystemRow>,
    /// Preferences between two sides.
    pub preferences: Vec<PreferenceRow>,
    /// Reviews of generated code.
    pub reviews: Vec<ReviewRow>,
    /// Pairs on which people disagree, or a judge disagrees with their majority; without a majority, pairs on which
    /// any two annotators disagree.
    pub disagreements: Vec<Disagreement>,
}

/// A pair with different labels.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Disagreement {
    /// Id of the pair.
    pub pair: String,
    /// The criterion.
    pub criterion: Criterion,
    /// The majority of people; `None` if there is none.
    pub majority: Option<bool>,
    /// True if people disagree among themselves, rather than only a judge with them.
    pub among_people: bool,
    /// The annotators' labels: name, label, comment.
    pub labels: Vec<(String, bool, String)>,
}

impl Study {
    /// Computes the study of the collected data.
    pub fn new(gathered: &StudyData, options: &StudyOptions) -> Self {
        let truth = Self::truth_of(gathered, options);
        let annotators = &gathered.annotators;
        let mut labels = LabelTable { annotators, pairs: gathered.pairs.iter().collect(), truth, options };
        let mut study = Self {
            truth,
            pairs: 0,
            agreement: Vec::new(),
            agreement_before_removal: Vec::new(),
            removed: Vec::new(),
            annotators: Vec::new(),
            against_file: Vec::new(),
            executable_rule: options.executable_rule,
            programs: people::programs(gathered, options),
            scores: people::scores(gathered),
            score_agreement: people::score_agreement(gathered),
            systems: people::systems(gathered, options),
            preferences: people::preferences(gathered, options),
            reviews: people::reviews(gathered),
            disagreements: Vec::new(),
        };
        if let Some(minimum) = options.min_alpha {
            study.agreement_before_removal = labels.agreement();
            study.removed = labels.remove_below(minimum);
        }
        study.pairs = labels.pairs.len();
        study.agreement = labels.agreement();
        study.annotators = labels.annotator_rows();
        study.against_file = labels.against_file();
        study.disagreements = labels.disagreements();
        study
    }

    pub(crate) fn truth_of(gathered: &StudyData, options: &StudyOptions) -> ReferenceMajority {
        let any_tests =
            gathered.annotators.iter().any(|who| matches!(who, Annotator::Person { tests: true, .. }));
        match options.truth {
            ReferenceMajority::Auto if any_tests => ReferenceMajority::WithTests,
            ReferenceMajority::Auto => ReferenceMajority::WithoutTests,
            other => other,
        }
    }
}

/// The labels of a set of pairs.
pub(crate) struct LabelTable<'a> {
    pub(crate) annotators: &'a [Annotator],
    pub(crate) pairs: Vec<&'a LabeledPair>,
    pub(crate) truth: ReferenceMajority,
    pub(crate) options: &'a StudyOptions,
}

/// A row for each pair, with a column for each annotator.
pub(crate) type Ratings = Vec<Vec<Option<f64>>>;

/// The columns of one annotator: if several have a label, the first counts.
pub(crate) type AnnotatorColumns = Vec<usize>;

impl LabelTable<'_> {
    /// The people whose majority is the reference.
    pub(crate) fn experts(&self) -> Vec<AnnotatorColumns> {
        match self.truth {
            ReferenceMajority::WithTests => self.voices(true),
            ReferenceMajority::WithoutTests => self.voices(false),
            // A person who labeled both with and without tests counts once: labels with tests take precedence.
            ReferenceMajority::Auto | ReferenceMajority::People => {
                let mut voices: BTreeMap<&str, AnnotatorColumns> = BTreeMap::new();
                for column in [true, false].into_iter().flat_map(|tests| self.people(tests)) {
                    if let Annotator::Person { name, .. } = &self.annotators[column] {
                        voices.entry(name).or_default().push(column);
                    }
                }
                voices.into_values().collect()
            }
        }
    }

    /// The people who worked with tests, or without.
    pub(crate) fn voices(&self, tests: bool) -> Vec<AnnotatorColumns> {
        self.people(tests).map(|column| vec![column]).collect()
    }

    fn people(&self, wanted: bool) -> impl Iterator<Item = usize> {
        let is_wanted =
            move |who: &Annotator| matches!(who, Annotator::Person { tests, .. } if *tests == wanted);
        (0..self.annotators.len()).filter(move |column| is_wanted(&self.annotators[*column]))
    }

    pub(crate) fn ratings(&self, voices: &[AnnotatorColumns], criterion: Criterion) -> Ratings {
        self.ratings_by(voices, |label| label.under(criterion))
    }

    fn ratings_by(&self, voices: &[AnnotatorColumns], of: impl Fn(&Label) -> Option<bool>) -> Ratings {
        let rating = |pair: &LabeledPair, voice: &AnnotatorColumns| {
            let label = voice.iter().find_map(|column| of(pair.labels.get(column)?));
            label.map(|label| f64::from(u8::from(label)))
        };
        self.pairs.iter().map(|pair| voices.iter().map(|voice| rating(pair, voice)).collect()).collect()
    }

    /// The experts' majority label of a pair; `None` with too few labels or a tie.
    pub(crate) fn majority(&self, pair: &LabeledPair, criterion: Criterion) -> Option<bool> {
        let experts = self.experts();
        let labels = experts.iter().filter_map(|voice| pair.rating_by(voice, criterion));
        let (yes, no): (Vec<bool>, Vec<bool>) = labels.partition(|label| *label);
        let enough = yes.len() + no.len() >= self.options.min_labels.max(1) && yes.len() != no.len();
        enough.then_some(yes.len() > no.len())
    }

    /// Removes the pairs for which α of the experts' labels is below `minimum`, and returns them with their α. Only
    /// the labels as given count: annotators who rate the same pair 1 and 3 agree, if both are positive.
    fn remove_below(&mut self, minimum: f64) -> Vec<(String, f64)> {
        let experts = self.experts();
        let by_criterion = Criterion::ALL.map(|criterion| {
            let given = self.ratings_by(&experts, |label| label.given(criterion));
            krippendorff_by_unit(&given, Level::Nominal)
        });
        let lowest = |row: usize| by_criterion.iter().filter_map(|alphas| alphas[row]).reduce(f64::min);
        let (mut kept, mut removed) = (Vec::new(), Vec::new());
        for (row, pair) in self.pairs.iter().enumerate() {
            match lowest(row) {
                Some(alpha) if alpha < minimum => removed.push((pair.id.clone(), alpha)),
                _ => kept.push(*pair),
            }
        }
        self.pairs = kept;
        removed
    }

    fn disagreements(&self) -> Vec<Disagreement> {
        let experts = self.experts();
        let of = |pair: &LabeledPair, criterion: Criterion| {
            let majority = self.majority(pair, criterion);
            let label_at = |column: &usize| pair.labels.get(column)?.under(criterion);
            let is_judge = |column: &usize| matches!(self.annotators[*column], Annotator::Judge { .. });
            let differ = |labels: &[bool]| labels.contains(&true) && labels.contains(&false);
            let (judges, people): (Vec<usize>, Vec<usize>) = (0..self.annotators.len()).partition(is_judge);
            let judges: Vec<bool> = judges.iter().filter_map(label_at).collect();
            // Without a majority, the choice of annotators does not matter.
            let people: Vec<bool> = match majority {
                Some(_) => experts.iter().filter_map(|voice| pair.rating_by(voice, criterion)).collect(),
                None => people.iter().filter_map(label_at).collect(),
            };
            let disputed = match majority {
                Some(majority) => differ(&people) || judges.contains(&!majority),
                None => differ(&[people.clone(), judges].concat()),
            };
            disputed.then(|| Disagreement {
                pair: pair.id.clone(),
                criterion,
                majority,
                among_people: differ(&people),
                labels: pair
                    .labels
                    .iter()
                    .filter_map(|(column, label)| {
                        let title = self.annotators[*column].title();
                        Some((title, label.under(criterion)?, label.comment.clone()))
                    })
                    .collect(),
            })
        };
        let both = |pair: &&LabeledPair| Criterion::ALL.map(|criterion| of(pair, criterion));
        self.pairs.iter().flat_map(both).flatten().collect()
    }
}

/// A share of cases with an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "CorrectShare")]
pub struct Share {
    /// Cases that count.
    pub hits: usize,
    /// All cases, at least 1.
    pub of: usize,
    /// `hits / of`.
    pub share: f64,
    /// Wilson interval; for labels of several people the bootstrap interval, resampling pairs.
    pub interval: Option<Interval>,
}

impl Share {
    /// Returns `None` without cases.
    pub(crate) fn new(hits: usize, of: usize, confidence: f64) -> Option<Self> {
        let interval = wilson_interval(hits, of, confidence);
        (of > 0).then(|| Self { hits, of, share: hits as f64 / of as f64, interval })
    }

    /// The share of labels, given the hits and labels of each pair. Several people's labels of a pair are not
    /// independent, so the interval resamples pairs. If all labels are hits, or none is, resampling shows no spread,
    /// and the interval is Wilson's for the number of pairs.
    pub(crate) fn of_labels(pairs: &[(usize, usize)], bootstrap: &Bootstrap) -> Option<Self> {
        let sum = |drawn: &mut dyn Iterator<Item = usize>| {
            drawn.fold((0, 0), |sum, pair| (sum.0 + pairs[pair].0, sum.1 + pairs[pair].1))
        };
        let (hits, of) = sum(&mut (0..pairs.len()));
        if of == pairs.len() {
            return Self::new(hits, of, bootstrap.confidence);
        }
        let share = |(hits, of): (usize, usize)| (of > 0).then(|| hits as f64 / of as f64);
        let interval = if hits == 0 || hits == of {
            wilson_interval(if hits == 0 { 0 } else { pairs.len() }, pairs.len(), bootstrap.confidence)
        } else {
            resampled_interval(pairs.len(), bootstrap, |drawn| share(sum(&mut drawn.iter().copied())))
        };
        Some(Self { hits, of, share: share((hits, of))?, interval })
    }
}
