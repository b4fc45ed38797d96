//! Error rates of a judge by the labels of people: the calibration of labels.

use std::collections::{BTreeMap, HashMap};

use quarry_judge::JudgeError;
use quarry_metrics::significance::LabelErrors;

use super::{Annotator, LabelTable, StudiedJudge, Study, StudyData, StudyOptions};

fn stratum(tested: bool) -> &'static str {
    if tested { "tested" } else { "untested" }
}

/// The labels of a judge against the majority of people, or against the label in the file where people gave none,
/// separately for pairs with and without tests. Each count is weighted, so that the share of positive labels is that
/// among all pairs of the judge.
///
/// # Errors
/// When the ledger cannot be read, or no pair has both labels.
pub fn label_errors(
    gathered: &StudyData,
    judge: &StudiedJudge<'_>,
    options: &StudyOptions,
) -> Result<LabelErrors, JudgeError> {
    let annotators = &gathered.annotators;
    let truth = Study::truth_of(gathered, options);
    let mut labels = LabelTable { annotators, pairs: gathered.pairs.iter().collect(), truth, options };
    if let Some(minimum) = options.min_alpha {
        labels.remove_below(minimum);
    }
    let is_judge = |who: &Annotator| matches!(who, Annotator::Judge { name } if name == judge.name);
    let column = annotators.iter().position(is_judge);
    let known: HashMap<&str, (bool, bool)> = labels
        .pairs
        .iter()
        .filter_map(|pair| {
            let truth = labels.majority(pair, judge.criterion).or(pair.file)?;
            Some((pair.id.as_str(), (pair.labels.get(&column?)?.under(judge.criterion)?, truth)))
        })
        .collect();
    let mut errors = LabelErrors {
        judge: judge.name.to_owned(),
        truth: match labels.experts().is_empty() {
            true => "the labels of the file".to_owned(),
            false => "the majority of people, and the labels of the file where they gave none".to_owned(),
        },
        ..LabelErrors::default()
    };
    let mut positive: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for pair in judge.ledger.labeled_by(judge.judge)? {
        let name = stratum(pair.tested);
        positive.entry(name).or_default()[usize::from(pair.label)] += 1.0;
        if let Some((label, truth)) = known.get(pair.id.as_str()) {
            errors.strata.entry(name.to_owned()).or_default().add(*label, *truth);
        }
        errors.pairs.entry(pair.query_id).or_default().insert(pair.code_id, name.to_owned());
    }
    if errors.strata.is_empty() {
        let problem = format!(
            "expected pairs with a label of {} and one of people or of their file, found none; let people label some \
             (`quarry judge people export --per-verdict 50`)",
            judge.name
        );
        return Err(JudgeError::Ledger { path: judge.ledger.path().to_owned(), problem, source: None });
    }
    for (name, confusion) in &mut errors.strata {
        let [no, yes] = positive[name.as_str()];
        *confusion = confusion.with_share(yes / (yes + no));
    }
    Ok(errors)
}
