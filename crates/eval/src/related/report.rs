//! Accuracy of change predictions, compared with simple rankings.

use std::collections::BTreeMap;

use quarry_metrics::calibration::{Binning, expected_calibration_error, reliability};
use quarry_metrics::significance::{Bootstrap, Interval, mean, mean_interval};
use quarry_related::{Class, Features, Scorer};
use serde::{Deserialize, Serialize};

use super::{DEPTH, FLOORS, RepositorySamples, Sample};
use crate::EvalError;

/// Number of top places in which answers count as found.
const AMONG: usize = 10;

const N_BINS: usize = 10;

/// Probability from which a place is shown as likely.
const LIKELY: f64 = 0.5;

/// Kind of question.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// The test functions that changed with a function.
    Tests,
    /// The other functions that changed, of two to six.
    Others,
}

impl QuestionKind {
    pub const ALL: [Self; 2] = [Self::Tests, Self::Others];

    fn is_place(self, class: Class) -> bool {
        match self {
            Self::Tests => class == Class::Tests,
            Self::Others => class != Class::Documents,
        }
    }

    /// The answers to the question; empty if the sample does not pose it.
    fn gold(self, sample: &Sample) -> Vec<u32> {
        if self == Self::Others && !(1..=5).contains(&sample.gold.len()) {
            return Vec::new();
        }
        sample
            .gold
            .iter()
            .copied()
            .filter(|place| self.is_place(sample.places[*place as usize].class))
            .collect()
    }
}

/// Means over questions.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RelatedMeans")]
pub struct Means {
    /// Reciprocal rank of the first answer.
    pub mrr: f64,
    /// Share of the answers among the first 10 places.
    pub recall: f64,
    /// Its interval.
    pub interval: Interval,
}

impl Means {
    /// Means of reciprocal ranks and recalls by repository, with equal weight for each repository; `None` if there
    /// are none.
    fn compute(repositories: &[Vec<[f64; 2]>], bootstrap: &Bootstrap) -> Result<Option<Self>, EvalError> {
        let [ranks, shares] = [0, 1].map(|which| {
            let values = |questions: &Vec<[f64; 2]>| questions.iter().map(|values| values[which]).collect();
            let asked = repositories.iter().filter(|questions| !questions.is_empty());
            asked.map(values).collect::<Vec<Vec<f64>>>()
        });
        if ranks.is_empty() {
            return Ok(None);
        }
        let [ranks, shares] =
            [&ranks, &shares].map(|of| of.iter().map(Vec::as_slice).collect::<Vec<&[f64]>>());
        let interval = mean_interval(&shares, bootstrap)?;
        Ok(Some(Self { mrr: mean(&ranks), recall: mean(&shares), interval }))
    }
}

/// Scores of a method on questions of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RelatedMethod")]
pub struct MethodScores {
    /// Name of the method.
    pub method: String,
    /// Over functions.
    pub functions: Means,
    /// Over files other than that of the function, if any changed.
    pub files: Option<Means>,
}

/// Probabilities and what became of them.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RelatedReliability")]
pub struct Reliability {
    /// Mean probability of each bin of equal width, share that changed, and number of places.
    pub bins: Vec<(f64, f64, usize)>,
    /// Mean difference of both, weighted by number.
    pub calibration_error: f64,
    /// Number of places with a probability over 0.5.
    pub likely: usize,
    /// Share of these that did not change.
    pub false_alarms: f64,
}

/// Report on related places.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RelatedReport {
    /// Number of samples by repository, with its main language.
    pub repositories: BTreeMap<String, (String, usize)>,
    /// Number of questions of each kind.
    pub questions: BTreeMap<QuestionKind, usize>,
    /// Each method, the product first.
    pub methods: BTreeMap<QuestionKind, Vec<MethodScores>>,
    /// Recall@10 of the product over that of the best simple ranking.
    pub gains: BTreeMap<QuestionKind, f64>,
    /// Reliability of probabilities over all samples.
    pub reliability: Reliability,
}

/// Values of a question: MRR and recall of functions, and of files if an answer is in another file.
struct Values {
    functions: [f64; 2],
    files: Option<[f64; 2]>,
}

fn values(ranking: &[u32], gold: &[u32], sample: &Sample) -> Values {
    let score = |found: &[u32], gold: &[u32]| {
        let first = found.iter().position(|place| gold.contains(place));
        let n_found = found.iter().take(AMONG).filter(|place| gold.contains(place)).count();
        [first.map_or(0.0, |at| 1.0 / (at + 1) as f64), n_found as f64 / gold.len() as f64]
    };
    let file = |place: &u32| sample.places[*place as usize].file;
    let own = file(&sample.target);
    let distinct = |places: &[u32]| {
        let mut files: Vec<u32> = Vec::new();
        for file in places.iter().map(file).filter(|file| *file != own) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files
    };
    let gold_files = distinct(gold);
    let files = (!gold_files.is_empty()).then(|| score(&distinct(ranking), &gold_files));
    Values { functions: score(ranking, gold), files }
}

/// The places of a sample in descending order of probability.
fn ranked(sample: &Sample, scorer: &Scorer, kind: QuestionKind, with_evidence: bool) -> Vec<u32> {
    let places = (0_u32..).zip(&sample.places);
    let places = places.filter(|(number, place)| {
        *number != sample.target && kind.is_place(place.class) && (place.has_evidence || !with_evidence)
    });
    let mut scored: Vec<(u32, f32)> = places
        .map(|(number, place)| {
            (number, scorer.probability(place.class, &Features::from_values(&place.features)))
        })
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.into_iter().map(|(number, _)| number).take(DEPTH).collect()
}

/// Evaluates samples; `scorers` contains the scorer of each repository.
///
/// # Errors
/// If the samples pose no question.
pub fn report(
    repositories: &[RepositorySamples],
    scorers: &[Scorer],
    bootstrap: &Bootstrap,
) -> Result<RelatedReport, EvalError> {
    let mut found = RelatedReport {
        repositories: BTreeMap::new(),
        questions: BTreeMap::new(),
        methods: BTreeMap::new(),
        gains: BTreeMap::new(),
        reliability: reliability_of(repositories, scorers)?,
    };
    for repository in repositories {
        let described = (repository.language.clone(), repository.samples.len());
        found.repositories.insert(repository.name.clone(), described);
    }
    let names = ["related", "related, without evidence too"].into_iter().chain(FLOORS);
    for kind in QuestionKind::ALL {
        let mut methods = Vec::new();
        for (method, name) in names.clone().enumerate() {
            let (mut functions, mut files) = (Vec::new(), Vec::new());
            for (repository, scorer) in repositories.iter().zip(scorers) {
                let answer = |sample: &Sample| {
                    let gold = Some(kind.gold(sample)).filter(|gold| !gold.is_empty())?;
                    let ranking: Vec<u32> = match method {
                        0 | 1 => ranked(sample, scorer, kind, method == 0),
                        floor => {
                            let of_kind = |place: &&u32| kind.is_place(sample.places[**place as usize].class);
                            sample.floors[floor - 2].iter().filter(of_kind).take(DEPTH).copied().collect()
                        }
                    };
                    Some(values(&ranking, &gold, sample))
                };
                let answers: Vec<Values> = repository.samples.iter().filter_map(answer).collect();
                functions.push(answers.iter().map(|values| values.functions).collect());
                files.push(answers.iter().filter_map(|values| values.files).collect());
            }
            found.questions.insert(kind, functions.iter().map(Vec::len).sum());
            let files = Means::compute(&files, bootstrap)?;
            let functions = Means::compute(&functions, bootstrap)?;
            let scores = |functions| MethodScores { method: name.to_owned(), functions, files };
            methods.extend(functions.map(scores));
        }
        if let [product, _, floors @ ..] = methods.as_slice() {
            let best = floors.iter().map(|method| method.functions.recall).fold(f64::MIN_POSITIVE, f64::max);
            found.gains.insert(kind, product.functions.recall / best);
        }
        found.methods.insert(kind, methods);
    }
    Ok(found)
}

fn reliability_of(repositories: &[RepositorySamples], scorers: &[Scorer]) -> Result<Reliability, EvalError> {
    let (mut probabilities, mut outcomes) = (Vec::new(), Vec::new());
    for (repository, scorer) in repositories.iter().zip(scorers) {
        for sample in &repository.samples {
            for (number, place) in (0_u32..).zip(&sample.places) {
                if number != sample.target && place.has_evidence {
                    probabilities.push(f64::from(
                        scorer.probability(place.class, &Features::from_values(&place.features)),
                    ));
                    outcomes.push(sample.is_changed(number));
                }
            }
        }
    }
    quarry_metrics::calibration::check_forecasts(&probabilities, &outcomes)?;
    let bins = reliability(&probabilities, &outcomes, N_BINS, Binning::Width);
    let likely: Vec<bool> = probabilities
        .iter()
        .zip(&outcomes)
        .filter(|(p, _)| **p > LIKELY)
        .map(|(_, outcome)| *outcome)
        .collect();
    let n_false = likely.iter().filter(|outcome| !**outcome).count();
    Ok(Reliability {
        calibration_error: expected_calibration_error(&bins),
        bins: bins.iter().map(|bin| (bin.mean_probability, bin.share_held, bin.count)).collect(),
        likely: likely.len(),
        false_alarms: n_false as f64 / likely.len().max(1) as f64,
    })
}
