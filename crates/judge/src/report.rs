//! Reporting the work of a judge, in the terms of CoSQA+'s accounting.

use std::collections::BTreeMap;

use quarry_llm::Cost;
use serde::{Serialize, Serializer};

use crate::evidence::RunResult;
use crate::judge::Outcome;
use crate::ledger::{Effort, JudgeCounts};

/// The definition shown beside the executable rate, with and without packages: both are stricter than the paper's,
/// which also ran code that sets up packages.
pub const EXECUTABLE_RULES: [&str; 2] = [
    "at least one of its assertions ran, whether or not it held, after missing packages were installed; only wheels and \
     the files of npm packages are installed, and no setup code runs, so a program that needs more counts as not \
     executable",
    "at least one of its assertions ran, whether or not it held; no packages are installed, so a program that needs one \
     counts as not executable",
];

/// Summary of a judge's work.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct JudgeReport {
    /// Pairs of the plan.
    pub pairs: u64,
    /// Pairs by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Pairs without a verdict.
    pub waiting: u64,
    /// Labels by the prompt that decided, with their share of all labels.
    pub decided_by: BTreeMap<String, (u64, f64)>,
    /// Pairs decided without tests; under a majority, without tests by every member.
    pub clear: u64,
    /// Share of these among the pairs with a verdict; `None` without verdicts.
    pub clear_share: Option<f64>,
    /// Pairs with a verdict and a test program for it.
    pub tested: u64,
    /// The test programs of finished verdicts, by the result of their last run.
    pub runs: BTreeMap<String, u64>,
    /// Verdicts whose test program could not be parsed from the model's answer.
    pub without_program: u64,
    /// Share of the test programs that could be executed, one that could not be read counting as one that could not;
    /// see `executable_rule`.
    pub executable_rate: Option<f64>,
    /// Mean number of evaluated assertions per executable test program, counted by position, but by evaluation inside
    /// helper functions.
    pub mean_tests: Option<f64>,
    /// Test programs that lacked a package.
    pub missing_packages: u64,
    /// Number of these that were executable after installing it.
    pub repaired: u64,
    /// Number of answers in the histories of the pairs.
    pub answers: u64,
    /// Cost of these answers by their tokens, no matter when they were paid for.
    #[serde(serialize_with = "in_dollars")]
    #[schemars(with = "CostView")]
    pub cost: Cost,
    /// Average effort for pairs with a verdict.
    pub per_pair: PerPairs,
    /// Booked cost of this ledger's calls, failed ones included.
    #[serde(serialize_with = "in_dollars")]
    #[schemars(with = "CostView")]
    pub spent: Cost,
    /// Part of that at the worst case: attempts of unknown cost, and interrupted or current calls.
    #[serde(serialize_with = "in_dollars")]
    #[schemars(with = "CostView")]
    pub unconfirmed: Cost,
    /// Pairs with a label in the file.
    pub labelled: u64,
    /// Pairs of labels as (file, judge, number).
    pub labels: Vec<(i32, i32, u64)>,
    /// Share of agreement over the pairs with both labels; a label of 1 or more in the file counts as 1.
    pub accuracy: Option<f64>,
    /// Why pairs have no label, most frequent first.
    pub reasons: Vec<(String, u64)>,
}

/// Average effort for pairs with a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PerPairs {
    /// Pairs that were decided without tests.
    pub clear: PerPair,
    /// All others.
    pub unclear: PerPair,
}

/// Average effort for a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PerPair {
    /// Number of pairs averaged.
    pub pairs: u64,
    /// Tokens of the answers.
    pub tokens: f64,
    /// Cost of the answers, in dollars; `None` if no price is known.
    pub dollars: Option<f64>,
    /// Time of the answers, as far as reported by the server, and of the programs, in seconds.
    pub seconds: f64,
}

impl From<Effort> for PerPair {
    fn from(Effort { pairs, cost, seconds, .. }: Effort) -> Self {
        if pairs == 0 {
            return Self::default();
        }
        let mean = |sum: f64| sum / pairs as f64;
        Self {
            pairs,
            tokens: mean(cost.tokens as f64),
            dollars: cost.dollars().map(mean),
            seconds: mean(seconds),
        }
    }
}

/// Reports give dollars instead of the internal unit of money.
fn in_dollars<S: Serializer>(cost: &Cost, serializer: S) -> Result<S::Ok, S::Error> {
    CostView::from(cost).serialize(serializer)
}

/// An amount of tokens and money.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Cost")]
pub struct CostView {
    /// Number of tokens.
    pub tokens: u64,
    /// Price in dollars; null if no price is known.
    pub dollars: Option<f64>,
}

impl From<&Cost> for CostView {
    fn from(cost: &Cost) -> Self {
        Self { tokens: cost.tokens, dollars: cost.dollars() }
    }
}

impl JudgeReport {
    /// Computes the report from a ledger's counts.
    pub fn new(counts: JudgeCounts) -> Self {
        let JudgeCounts {
            pairs,
            verdicts,
            clear,
            unclear,
            waiting,
            tested,
            runs,
            without_program,
            tests,
            lacking: [missing_packages, repaired],
            spent,
            unconfirmed,
            labelled,
            labels,
            reasons,
        } = counts;
        let mut outcomes: BTreeMap<&'static str, u64> =
            Outcome::ALL.iter().map(|outcome| (outcome.name(), 0)).collect();
        let mut deciders: BTreeMap<String, u64> = BTreeMap::new();
        let mut n_labels = 0;
        for (outcome, decided_by, number) in verdicts {
            let Some(outcome) = Outcome::named(&outcome) else { continue };
            *outcomes.entry(outcome.name()).or_default() += number;
            if matches!(outcome, Outcome::Yes | Outcome::No) {
                n_labels += number;
                *deciders.entry(decided_by).or_default() += number;
            }
        }
        let n_runs: u64 = runs.values().sum();
        let executable: u64 = (RunResult::ALL.iter())
            .filter(|result| result.is_executable())
            .filter_map(|result| runs.get(result.name()))
            .sum();
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let agreeing = |(file, judge, _): &&(i32, i32, u64)| (*file >= 1) == (*judge >= 1);
        let count = |labels: Vec<&(i32, i32, u64)>| labels.iter().map(|(_, _, number)| number).sum::<u64>();
        let mut cost = Cost::default();
        let efforts = [clear, unclear, waiting];
        efforts.iter().for_each(|effort| cost += effort.cost);
        Self {
            pairs,
            waiting: waiting.pairs,
            decided_by: deciders
                .into_iter()
                .map(|(name, number)| (name, (number, number as f64 / n_labels.max(1) as f64)))
                .collect(),
            clear: clear.pairs,
            clear_share: share(clear.pairs, clear.pairs + unclear.pairs),
            tested,
            executable_rate: share(executable, n_runs + without_program),
            mean_tests: share(tests, executable),
            missing_packages,
            repaired,
            answers: efforts.iter().map(|effort| effort.answers).sum(),
            cost,
            per_pair: PerPairs { clear: clear.into(), unclear: unclear.into() },
            spent,
            unconfirmed,
            labelled,
            accuracy: share(count(labels.iter().filter(agreeing).collect()), count(labels.iter().collect())),
            outcomes,
            runs,
            without_program,
            labels,
            reasons,
        }
    }

    /// Pairs that both the file and the judge labeled.
    pub fn compared(&self) -> u64 {
        self.labels.iter().map(|(_, _, number)| number).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_llm::Money;

    fn effort(pairs: u64, answers: u64, tokens: u64, seconds: f64) -> Effort {
        let cost = Cost { tokens, money: Money::from_units(tokens * 1_000_000) };
        Effort { pairs, answers, cost, seconds }
    }

    #[test]
    fn the_accounting_of_an_unfinished_ledger() {
        let text = |text: &str| text.to_owned();
        // One of eleven pairs waits, with a test program whose costs do not belong to a finished pair.
        let report = JudgeReport::new(JudgeCounts {
            pairs: 11,
            verdicts: vec![
                (text("no"), text("screener"), 4),
                (text("unresolved"), text("arbiter"), 1),
                (text("yes"), text("arbiter"), 2),
                (text("yes"), text("screener"), 3),
            ],
            clear: effort(7, 7, 700, 7.0),
            unclear: effort(3, 9, 3000, 9.0),
            waiting: effort(1, 4, 900, 5.0),
            tested: 2,
            runs: [("passed", 1), ("missing_package", 1)].map(|(name, n)| (text(name), n)).into(),
            without_program: 2,
            tests: 8,
            labelled: 10,
            labels: vec![(0, 0, 4), (1, 0, 1), (1, 1, 4)],
            lacking: [2, 1],
            ..JudgeCounts::default()
        });
        assert_eq!((report.waiting, report.outcomes["unresolved"], report.outcomes["yes"]), (1, 1, 5));
        assert_eq!((report.clear, report.clear_share), (7, Some(0.7)));
        assert_eq!((report.executable_rate, report.mean_tests), (Some(0.25), Some(8.0)));
        assert_eq!((report.accuracy, report.compared(), report.labelled), (Some(8.0 / 9.0), 9, 10));
        assert_eq!(report.decided_by["arbiter"], (2, 2.0 / 9.0));
        assert_eq!((report.answers, report.cost.tokens), (20, 4600));
        let PerPairs { clear, unclear } = report.per_pair;
        assert_eq!((clear.tokens, unclear.seconds), (100.0, 3.0));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["cost"], serde_json::json!({"tokens": 4600, "dollars": 0.0046}));
        let unpriced = Cost { tokens: 7, money: Money::default() };
        let json = serde_json::to_value(JudgeReport { cost: unpriced, ..report }).unwrap();
        assert_eq!(json["cost"], serde_json::json!({"tokens": 7, "dollars": null}));
        let empty = JudgeReport::new(JudgeCounts::default());
        assert_eq!((empty.clear_share, empty.executable_rate, empty.accuracy), (None, None, None));
    }
}
