//! Agreement between people, and of each annotator with their majority and with the labels of the file.

use quarry_judge::Criterion;
use quarry_metrics::agreement::{
    Level, krippendorff_alpha, krippendorff_alpha_by_blocks, krippendorff_interval, percent_agreement,
};
use quarry_metrics::classification::{ClassScores, class_scores};
use quarry_metrics::significance::Interval;
use serde::Serialize;

use super::{Annotator, AnnotatorColumns, LabelTable, LabeledPair, Ratings, Share};

/// Agreement between people.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StudyAgreement")]
pub struct AgreementRow {
    /// True if they wrote test programs.
    pub tests: bool,
    /// The criterion of their labels.
    pub criterion: Criterion,
    /// Number of people.
    pub people: usize,
    /// Number of pairs with two labels or more.
    pub pairs: usize,
    /// Number of labels of these pairs.
    pub labels: usize,
    /// Share of equal labels among the pairs of labels, averaged over the pairs.
    pub percent_agreement: Option<f64>,
    /// Krippendorff's α, nominal.
    pub alpha: Option<f64>,
    /// Bootstrap interval of α.
    pub interval: Option<Interval>,
    /// Mean α of blocks of pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha_by_blocks: Option<f64>,
}

/// An annotator compared with the majority of people under a criterion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StudyCriterion")]
pub struct MajorityAgreement {
    /// Share of the pairs with a majority on which the annotator agrees with it.
    pub accuracy: Option<Share>,
    /// Krippendorff's α of all people of a condition, or of a judge together with the people whose majority is the
    /// reference; `None` for a single person.
    pub alpha: Option<f64>,
    /// Mean α of blocks of pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha_by_blocks: Option<f64>,
}

/// A row of the annotator table.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StudyAnnotator")]
pub struct AnnotatorRow {
    /// A person, a judge, or all people of a condition together.
    pub annotator: String,
    /// By the criterion `half`.
    pub half: MajorityAgreement,
    /// By the criterion `exact`.
    pub exact: MajorityAgreement,
}

impl AnnotatorRow {
    pub(crate) fn under(&self, criterion: Criterion) -> &MajorityAgreement {
        match criterion {
            Criterion::Half => &self.half,
            Criterion::Exact => &self.exact,
        }
    }
}

/// An annotator compared with the labels of the file.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StudyAgainstFile")]
pub struct FileAgreement {
    /// The annotator.
    pub annotator: String,
    /// The criterion of the annotator's labels; the meaning of the file's labels is up to the reader.
    pub criterion: Criterion,
    /// Pairs with a label in the file and any reply of the annotator, even that it cannot be decided.
    pub pairs: usize,
    /// Share of agreement over the pairs with both labels.
    pub accuracy: Share,
    /// Precision, recall and F1 for the pairs that are answered.
    pub positive: ClassScores,
    /// Nominal Krippendorff's α of the two.
    pub alpha: Option<f64>,
}

impl LabelTable<'_> {
    pub(crate) fn agreement(&self) -> Vec<AgreementRow> {
        let mut rows = Vec::new();
        for tests in [true, false] {
            for criterion in Criterion::ALL {
                let people = self.voices(tests);
                let mut ratings = self.ratings(&people, criterion);
                let labeled = |column: &usize| ratings.iter().any(|row| row[*column].is_some());
                let n_people = (0..people.len()).filter(labeled).count();
                ratings.retain(|row| row.iter().flatten().count() > 1);
                if ratings.is_empty() {
                    continue;
                }
                rows.push(AgreementRow {
                    tests,
                    criterion,
                    people: n_people,
                    pairs: ratings.len(),
                    labels: ratings.iter().flatten().flatten().count(),
                    percent_agreement: percent_agreement(&ratings),
                    alpha: krippendorff_alpha(&ratings, Level::Nominal),
                    interval: krippendorff_interval(&ratings, Level::Nominal, &self.options.bootstrap),
                    alpha_by_blocks: self.by_blocks(&ratings),
                });
            }
        }
        rows
    }

    fn by_blocks(&self, ratings: &Ratings) -> Option<f64> {
        krippendorff_alpha_by_blocks(ratings, Level::Nominal, self.options.block?)
    }

    /// People by condition, then each person, then each judge; rows without any number are omitted.
    pub(crate) fn annotator_rows(&self) -> Vec<AnnotatorRow> {
        let experts = self.experts();
        let row = |annotator: String, who: &[AnnotatorColumns], together: &[AnnotatorColumns]| {
            let against = |criterion| self.against(who, together, criterion);
            AnnotatorRow { annotator, half: against(Criterion::Half), exact: against(Criterion::Exact) }
        };
        let mut rows = Vec::new();
        for tests in [true, false] {
            let people = self.voices(tests);
            rows.push(row(format!("people, {}", super::condition(tests)), &people, &people));
        }
        for (column, annotator) in self.annotators.iter().enumerate() {
            let own = vec![vec![column]];
            let together: Vec<AnnotatorColumns> = match annotator {
                Annotator::Person { .. } => Vec::new(),
                Annotator::Judge { .. } => [experts.as_slice(), &own].concat(),
            };
            rows.push(row(annotator.title(), &own, &together));
        }
        rows.retain(|row| {
            [&row.half, &row.exact].iter().any(|against| **against != MajorityAgreement::default())
        });
        rows
    }

    fn against(
        &self,
        who: &[AnnotatorColumns],
        together: &[AnnotatorColumns],
        criterion: Criterion,
    ) -> MajorityAgreement {
        let (mut by_pair, experts) = (Vec::new(), self.experts());
        for pair in &self.pairs {
            let Some(majority) = self.majority(pair, criterion) else { continue };
            let mut sayers = experts.iter().filter(|voice| pair.rating_by(voice, criterion).is_some());
            let (first, more) = (sayers.next(), sayers.next().is_some());
            // A person who alone is the majority is not compared with it.
            let is_alone = |voice: &AnnotatorColumns| {
                !more && first.is_some_and(|first| first.iter().any(|column| voice.contains(column)))
            };
            let (mut hits, mut of) = (0, 0);
            let others = who.iter().filter(|voice| !is_alone(voice));
            for label in others.filter_map(|voice| pair.rating_by(voice, criterion)) {
                of += 1;
                hits += usize::from(label == majority);
            }
            if of > 0 {
                by_pair.push((hits, of));
            }
        }
        let Some(accuracy) = Share::of_labels(&by_pair, &self.options.bootstrap) else {
            return MajorityAgreement::default();
        };
        let mut ratings = self.ratings(together, criterion);
        // Blocks consist of the pairs that people labeled.
        ratings.retain(|row| row.iter().flatten().count() > 1);
        MajorityAgreement {
            accuracy: Some(accuracy),
            alpha: krippendorff_alpha(&ratings, Level::Nominal),
            alpha_by_blocks: self.by_blocks(&ratings),
        }
    }

    pub(crate) fn against_file(&self) -> Vec<FileAgreement> {
        let mut rows = Vec::new();
        for (column, annotator) in self.annotators.iter().enumerate() {
            let is_seen = |pair: &&&LabeledPair| pair.file.is_some() && pair.labels.contains_key(&column);
            let pairs = self.pairs.iter().filter(is_seen).count();
            for criterion in Criterion::ALL {
                let both =
                    |pair: &&LabeledPair| Some((pair.file?, pair.labels.get(&column)?.under(criterion)?));
                let (file, given): (Vec<bool>, Vec<bool>) = self.pairs.iter().filter_map(both).unzip();
                let hits = file.iter().zip(&given).filter(|(file, given)| file == given).count();
                let Some(accuracy) = Share::new(hits, file.len(), self.options.bootstrap.confidence) else {
                    continue;
                };
                let number = |label: &bool| Some(f64::from(u8::from(*label)));
                let table: Ratings =
                    file.iter().zip(&given).map(|(file, given)| vec![number(file), number(given)]).collect();
                rows.push(FileAgreement {
                    annotator: annotator.title(),
                    criterion,
                    pairs,
                    accuracy,
                    positive: class_scores(&file, &given, &true),
                    alpha: krippendorff_alpha(&table, Level::Nominal),
                });
            }
        }
        rows
    }
}
