//! What judging came to, in the terms of CoSQA+'s accounting.

use std::collections::BTreeMap;

use quarry_llm::Cost;
use serde::Serialize;

use crate::evidence::RunResult;
use crate::judge::Outcome;
use crate::ledger::Counts;

/// The rule that stands beside the executable rate, with and without packages: either is stricter than the paper's,
/// which also ran the setup code of packages.
pub const EXECUTABLE_RULES: [&str; 2] = [
    "its assertions held or one did not, after missing packages were installed; only wheels and, of npm, files are \
     installed, and no setup code runs, so that what needs more counts as not executable",
    "its assertions held or one did not; no packages are installed, so that what needs one counts as not executable",
];

/// The table of a judge's work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Pairs of the plan.
    pub pairs: u64,
    /// Pairs by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Pairs without a verdict.
    pub waiting: u64,
    /// Labels by the prompt that decided, with their share of all labels.
    pub decided_by: BTreeMap<String, (u64, f64)>,
    /// Share of the labels that needed no test program; `None` without labels.
    pub clear_share: Option<f64>,
    /// Pairs with a test program.
    pub tested: u64,
    /// Test programs by the result of their last run.
    pub runs: BTreeMap<String, u64>,
    /// Share of the test programs that could be executed; see [`EXECUTABLE_RULES`].
    pub executable_rate: Option<f64>,
    /// Assertions of a test program.
    pub mean_tests: Option<f64>,
    /// Test programs that lacked a package.
    pub missing_packages: u64,
    /// Of them, those that could be executed once they had it.
    pub repaired: u64,
    /// Answers that the labels rest on.
    pub answers: u64,
    /// What these answers cost by their tokens, whoever paid when.
    pub cost: Cost,
    /// Of a pair that needed no test program, and of one that did.
    pub per_pair: [PerPair; 2],
    /// What this ledger's calls have booked, failed ones included.
    pub spent: Cost,
    /// Of that, worst cases of attempts whose cost nobody told, and of calls that were cut off or are under way.
    pub unconfirmed: Cost,
    /// Labels of the file with those of the judge: (file, judge, number).
    pub labels: Vec<(i32, i32, u64)>,
    /// Share of the pairs with both labels in which they agree, a label of the file counting as 1 from 1 on.
    pub accuracy: Option<f64>,
    /// Why pairs have no label, most frequent first.
    pub reasons: Vec<(String, u64)>,
}

/// What a pair takes on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PerPair {
    /// Pairs that were averaged.
    pub pairs: u64,
    /// Tokens of its answers.
    pub tokens: f64,
    /// What they cost, in dollars.
    pub dollars: f64,
    /// Time of its answers, as far as an endpoint gave them, and of its program, in seconds.
    pub seconds: f64,
}

impl Report {
    /// From what a ledger counts.
    pub fn new(counts: Counts) -> Self {
        let Counts {
            pairs,
            verdicts,
            tested,
            runs,
            tests,
            cost,
            seconds,
            answers,
            spent,
            unconfirmed,
            labels,
            reasons,
            lacking,
        } = counts;
        let mut outcomes: BTreeMap<&'static str, u64> =
            Outcome::ALL.iter().map(|outcome| (outcome.name(), 0)).collect();
        let mut deciders: BTreeMap<String, u64> = BTreeMap::new();
        let (mut n_labels, mut n_decided) = (0, 0);
        for (outcome, decided_by, number) in verdicts {
            n_decided += number;
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
        let per_pair = |part: usize, pairs: u64| {
            let mean = |sum: f64| if pairs == 0 { 0.0 } else { sum / pairs as f64 };
            let Cost { tokens, money } = cost[part];
            PerPair {
                pairs,
                tokens: mean(tokens as f64),
                dollars: mean(money.dollars()),
                seconds: mean(seconds[part]),
            }
        };
        let agreeing = |(file, judge, _): &&(i32, i32, u64)| (*file >= 1) == (*judge >= 1);
        let count = |labels: Vec<&(i32, i32, u64)>| labels.iter().map(|(_, _, number)| number).sum::<u64>();
        let mut total = cost[0];
        total += cost[1];
        Self {
            pairs,
            waiting: pairs.saturating_sub(n_decided),
            decided_by: deciders
                .into_iter()
                .map(|(name, number)| (name, (number, number as f64 / n_labels.max(1) as f64)))
                .collect(),
            clear_share: share(n_decided.saturating_sub(tested), n_decided),
            tested,
            executable_rate: share(executable, n_runs),
            mean_tests: share(tests, n_runs),
            missing_packages: lacking[0],
            repaired: lacking[1],
            answers,
            cost: total,
            per_pair: [per_pair(0, n_decided.saturating_sub(tested)), per_pair(1, tested)],
            spent,
            unconfirmed,
            accuracy: share(count(labels.iter().filter(agreeing).collect()), count(labels.iter().collect())),
            outcomes,
            runs,
            labels,
            reasons,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_llm::Money;

    #[test]
    fn the_accounting_of_a_small_ledger() {
        let text = |text: &str| text.to_owned();
        let cost = |tokens: u64| Cost { tokens, money: Money::from_units(tokens * 1_000_000) };
        let report = Report::new(Counts {
            pairs: 11,
            verdicts: vec![
                (text("no"), text("screener"), 4),
                (text("unresolved"), text("arbiter"), 1),
                (text("yes"), text("arbiter"), 2),
                (text("yes"), text("screener"), 3),
            ],
            tested: 3,
            runs: [("passed", 1), ("failed", 1), ("missing_package", 1)]
                .map(|(name, n)| (text(name), n))
                .into(),
            tests: 12,
            cost: [cost(700), cost(3000)],
            seconds: [7.0, 9.0],
            answers: 20,
            labels: vec![(0, 0, 4), (1, 0, 1), (1, 1, 4)],
            lacking: [2, 1],
            ..Counts::default()
        });
        assert_eq!((report.waiting, report.outcomes["unresolved"], report.outcomes["yes"]), (1, 1, 5));
        assert_eq!(report.clear_share, Some(0.7));
        assert_eq!(report.executable_rate, Some(2.0 / 3.0));
        assert_eq!(report.mean_tests, Some(4.0));
        assert_eq!(report.accuracy, Some(8.0 / 9.0));
        assert_eq!(report.decided_by["arbiter"], (2, 2.0 / 9.0));
        assert_eq!(report.cost, cost(3700));
        assert_eq!((report.per_pair[0].tokens, report.per_pair[1].seconds), (100.0, 3.0));
        let empty = Report::new(Counts::default());
        assert_eq!((empty.clear_share, empty.executable_rate, empty.accuracy), (None, None, None));
    }
}
