//! Report of tokens to the answer: shares within budgets, medians, intervals and paired tests.

use std::collections::BTreeMap;

use quarry_metrics::significance::{
    Bootstrap, Interval, PairedComparison, compare_paired, correct_together, mean, mean_interval,
    resampled_interval,
};
use serde::Serialize;

use super::{BUDGETS, MAX_TOKENS, Read};
use crate::EvalError;

/// Tokens to the answer by all policies.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ReadingReport {
    /// Number of questions.
    pub questions: usize,
    /// Number of repositories, which are the strata.
    pub repositories: usize,
    /// One entry per policy.
    pub policies: Vec<PolicyReport>,
    /// Each further policy compared with the first: shares by budget.
    pub comparisons: Vec<PolicyComparison>,
}

/// Tokens to the answer by a policy.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "PolicyTokens")]
pub struct PolicyReport {
    /// Name of the policy.
    pub policy: String,
    /// Share of the questions that were answered within each budget in tokens: mean over repositories.
    pub shares: BTreeMap<usize, f64>,
    /// Their intervals.
    pub intervals: BTreeMap<usize, Interval>,
    /// Share of questions answered at all.
    pub answered: f64,
    /// Median of tokens to the answer.
    pub median: usize,
    /// Its interval.
    pub median_interval: Option<Interval>,
}

/// Difference of a policy from the first one.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PolicyComparison {
    /// Name of the policy.
    pub policy: String,
    /// Of whether a question is answered, by budget in tokens.
    pub budgets: BTreeMap<usize, PairedComparison>,
}

/// Reports on what policies, given by their names, needed.
///
/// # Errors
/// Without questions.
pub fn report(names: &[String], reads: &[Read], bootstrap: &Bootstrap) -> Result<ReadingReport, EvalError> {
    let mut strata: BTreeMap<&str, Vec<&Read>> = BTreeMap::new();
    for read in reads {
        strata.entry(&read.repository).or_default().push(read);
    }
    let within = |policy: usize, budget: usize| -> Vec<Vec<f64>> {
        let value = |read: &&Read| f64::from(read.tokens[policy].is_some_and(|tokens| tokens <= budget));
        strata.values().map(|reads| reads.iter().map(value).collect()).collect()
    };
    let of_policy = |(policy, name): (usize, &String)| {
        let (mut shares, mut intervals) = (BTreeMap::new(), BTreeMap::new());
        for budget in BUDGETS {
            let values = within(policy, budget);
            let values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
            shares.insert(budget, mean(&values));
            intervals.insert(budget, mean_interval(&values, bootstrap)?);
        }
        let answered = within(policy, MAX_TOKENS);
        let tokens = |read: &Read| read.tokens[policy].unwrap_or(MAX_TOKENS);
        let all: Vec<usize> = reads.iter().map(tokens).collect();
        let of_drawn =
            |drawn: &[usize]| Some(median(drawn.iter().map(|position| all[*position]).collect()) as f64);
        Ok(PolicyReport {
            policy: name.clone(),
            shares,
            intervals,
            answered: mean(&answered.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            median: median(all.clone()),
            median_interval: resampled_interval(all.len(), bootstrap, of_drawn),
        })
    };
    let policies = names.iter().enumerate().map(of_policy).collect::<Result<_, EvalError>>()?;
    let mut comparisons = Vec::new();
    for (policy, name) in names.iter().enumerate().skip(1) {
        let compared = |budget: usize| {
            let [first, other] = [0, policy].map(|policy| within(policy, budget).concat());
            Ok((budget, compare_paired(&first, &other, reads.len(), bootstrap)?))
        };
        let budgets = BUDGETS.into_iter().map(compared).collect::<Result<_, EvalError>>()?;
        comparisons.push(PolicyComparison { policy: name.clone(), budgets });
    }
    correct_together(comparisons.iter_mut().flat_map(|comparison| comparison.budgets.values_mut()));
    Ok(ReadingReport { questions: reads.len(), repositories: strata.len(), policies, comparisons })
}

/// The middle value, the larger one of two; 0 without values.
fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_means_over_repositories_and_unanswered_questions_count_as_the_most() {
        let read = |repository: &str, tokens: [Option<usize>; 2]| Read {
            question: String::new(),
            repository: repository.to_owned(),
            tokens: tokens.to_vec(),
        };
        let reads = [
            read("a", [Some(900), None]),
            read("a", [Some(1_500), Some(1_001)]),
            read("b", [Some(1_000), Some(16_001)]),
        ];
        let names = ["x".to_owned(), "y".to_owned()];
        let bootstrap = Bootstrap { resamples: 20, ..Bootstrap::default() };
        let found = report(&names, &reads, &bootstrap).unwrap();
        assert_eq!((found.questions, found.repositories), (3, 2));
        let shares = |policy: usize| found.policies[policy].shares.values().copied().collect::<Vec<_>>();
        assert_eq!(shares(0), [0.75, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(shares(1), [0.0, 0.25, 0.25, 0.25, 0.25]);
        assert_eq!((found.policies[0].median, found.policies[1].median), (1_000, 16_001));
        assert_eq!((found.policies[0].answered, found.policies[1].answered), (1.0, 0.75));
        assert_eq!(found.comparisons[0].budgets[&2_000].losses, 2);
        assert!(report(&names, &[], &bootstrap).is_err());
    }
}
