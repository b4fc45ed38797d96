//! Selecting pairs for people to label.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quarry_judge::ledger::Ledger;
use quarry_judge::{JudgeError, Outcome};

use crate::labels::PeopleLabels;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub number: i64,
    pub verdict: Option<Outcome>,
    pub tested: bool,
    /// True if two of its labels differ, among those of the file, judges and people.
    pub disputed: bool,
}

/// The pairs of a ledger's last start, with the verdicts of `judge` and the labels of others.
///
/// # Errors
/// When the ledger cannot be read, or one of its guidelines cannot be parsed.
pub fn candidates(ledger: &Ledger, judge: i64) -> Result<Vec<Candidate>, JudgeError> {
    let labeled = PeopleLabels::read(ledger)?;
    let mut labels: HashMap<String, BTreeSet<bool>> = HashMap::new();
    for reply in &labeled.replies {
        let guideline = labeled.guidelines.get(reply.guideline);
        let label = guideline.and_then(|guideline| guideline.label(&reply.label));
        if let (Some(pair), Some(label)) = (&reply.pair, label) {
            labels.entry(pair.clone()).or_default().insert(label);
        }
    }
    let pairs = ledger.pair_labels(judge)?.into_iter().map(|mut pair| {
        pair.labels.extend(labels.remove(&pair.id).unwrap_or_default());
        Candidate {
            number: pair.number,
            verdict: pair.outcome,
            tested: pair.tested,
            disputed: pair.labels.len() > 1,
        }
    });
    Ok(pairs.collect())
}

/// Criteria for selecting pairs. The order is random in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Only pairs without a label of the judge.
    pub unresolved: bool,
    /// Only pairs with two different labels.
    pub disputed: bool,
    /// Only pairs for which the judge ran a test program (`true`), or ran none (`false`).
    pub tested: Option<bool>,
    /// Maximum number per verdict; pairs without a verdict count as one more kind.
    pub per_verdict: Option<usize>,
    pub at_most: Option<usize>,
    pub seed: u64,
}

impl Sampling {
    /// The numbers of the selected pairs, in random order.
    pub fn choose(&self, mut candidates: Vec<Candidate>) -> Vec<i64> {
        fastrand::Rng::with_seed(self.seed).shuffle(&mut candidates);
        let mut of_verdict: BTreeMap<Option<Outcome>, usize> = BTreeMap::new();
        candidates
            .into_iter()
            .filter(|pair| {
                let open = matches!(pair.verdict, None | Some(Outcome::Unresolved));
                (open || !self.unresolved)
                    && (pair.disputed || !self.disputed)
                    && self.tested.is_none_or(|tested| pair.tested == tested)
            })
            .filter(|pair| {
                let count = of_verdict.entry(pair.verdict).or_default();
                *count += 1;
                self.per_verdict.is_none_or(|most| *count <= most)
            })
            .take(self.at_most.unwrap_or(usize::MAX))
            .map(|pair| pair.number)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forty pairs: yes, no, unresolved and none in turn; every fifth was tested, every third is disputed.
    fn candidates() -> Vec<Candidate> {
        let verdicts = [Some(Outcome::Yes), Some(Outcome::No), Some(Outcome::Unresolved), None];
        (0..40)
            .map(|number| Candidate {
                number,
                verdict: verdicts[number as usize % 4],
                tested: number % 5 == 0,
                disputed: number % 3 == 0,
            })
            .collect()
    }

    fn sorted(sampling: Sampling) -> Vec<i64> {
        let mut chosen = sampling.choose(candidates());
        chosen.sort_unstable();
        chosen
    }

    #[test]
    fn the_order_is_drawn_and_nothing_is_lost() {
        let draw = |seed| Sampling { seed, ..Sampling::default() }.choose(candidates());
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(draw(1), (0..40).collect::<Vec<_>>());
        assert_eq!(sorted(Sampling::default()), (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn every_choice_counts() {
        let all = Sampling::default();
        assert!(sorted(Sampling { unresolved: true, ..all }).iter().all(|number| number % 4 > 1));
        assert_eq!(sorted(Sampling { unresolved: true, ..all }).len(), 20);
        assert_eq!(sorted(Sampling { disputed: true, tested: Some(true), ..all }), [0, 15, 30]);
        assert_eq!(sorted(Sampling { tested: Some(false), ..all }).len(), 32);
        let some = sorted(Sampling { per_verdict: Some(3), ..all });
        assert_eq!(
            (0..4).map(|kind| some.iter().filter(|n| *n % 4 == kind).count()).collect::<Vec<_>>(),
            [3; 4]
        );
        assert_eq!(sorted(Sampling { per_verdict: Some(3), at_most: Some(5), ..all }).len(), 5);
    }
}
