//! Comparing judges: the members of a majority, and a judge with options with the same judge without.

use quarry_metrics::agreement::{Level, krippendorff_alpha, percent_agreement};
use serde::Serialize;

use crate::error::JudgeError;
use crate::judge::Outcome;
use crate::ledger::{JudgeWork, Ledger, OptionCost, PairVotes};
use crate::plan::Plan;

/// Agreement of the members of a majority.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MemberAgreement {
    /// Pairs that two or more members decided.
    pub pairs: u64,
    /// Mean over these pairs of the share of member pairs that agree.
    pub percent_agreement: Option<f64>,
    /// Nominal Krippendorff's α between the members.
    pub krippendorff_alpha: Option<f64>,
    /// Pairs without a majority: no outcome has more than half of the votes.
    pub without_majority: u64,
    /// The members.
    pub members: Vec<MemberRow>,
}

/// A member of a majority.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "MajorityMember")]
pub struct MemberRow {
    /// Model, round, or both.
    pub name: String,
    /// Number of pairs that it decided.
    pub decided: u64,
    /// Number of these with the verdict yes.
    pub yes: u64,
    /// Share of agreement over the pairs that both it and the majority decided.
    pub agreement_with_majority: Option<f64>,
    /// Share of agreement with the file over the labeled pairs that it decided.
    pub accuracy: Option<f64>,
}

/// Costs and effects of a judge's options.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OptionCosts {
    /// Work and cost of each option.
    pub added: Vec<OptionCost>,
    /// Comparison with the judge without options, over the pairs that both judged.
    pub beside_plain: Option<PlainComparison>,
}

/// A judge with options compared with the same judge without.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PlainComparison {
    /// Pairs that both decided or left unresolved.
    pub pairs: u64,
    /// Pairs whose outcome differs: (without, with, number).
    pub changed: Vec<(&'static str, &'static str, u64)>,
    /// Additional calls for these pairs.
    pub calls: i64,
    /// Additional tokens for these pairs.
    pub tokens: i64,
    /// Additional dollars for these pairs; `None` if no price is known.
    pub dollars: Option<f64>,
    /// Additional program runs for these pairs.
    pub runs: i64,
    /// Accuracy by the file over the labeled pairs that both decided: without, with.
    pub accuracy: Option<[f64; 2]>,
}

/// The rating for agreement statistics; `None` if undecided.
fn rating(outcome: Option<Outcome>) -> Option<f64> {
    match outcome? {
        Outcome::Yes => Some(1.0),
        Outcome::No => Some(0.0),
        Outcome::Discarded => Some(2.0),
        Outcome::Unresolved => None,
    }
}

/// A number of cases, and how many of them are correct.
#[derive(Clone, Copy, Default)]
struct Proportion(u64, u64);

impl Proportion {
    fn add(&mut self, a: Option<f64>, b: Option<f64>) {
        if let (Some(a), Some(b)) = (a, b) {
            self.0 += u64::from(a == b);
            self.1 += 1;
        }
    }

    fn value(self) -> Option<f64> {
        (self.1 > 0).then(|| self.0 as f64 / self.1 as f64)
    }
}

fn truth(votes: &PairVotes) -> Option<f64> {
    votes.label.map(|label| f64::from(label >= 1))
}

impl MemberAgreement {
    /// The agreement of a plan's members, whose majority is `judge`; `None` for plans without members.
    pub fn measure(plan: &Plan, ledger: &Ledger, judge: i64) -> Result<Option<Self>, JudgeError> {
        let mut judges = vec![judge];
        let mut names = Vec::new();
        for member in &plan.members {
            let Some(number) = ledger.judge(&member.version)? else { continue };
            judges.push(number);
            names.push(member.member.clone().unwrap_or_default());
        }
        if names.is_empty() {
            return Ok(None);
        }
        let mut votes = Vec::new();
        ledger.for_each_votes(&judges, |of_pair| votes.push(of_pair))?;
        Ok(Some(Self::new(names, &votes)))
    }

    /// Computed from the votes on pairs; the first vote is the majority's, the others those of `names`.
    fn new(names: Vec<String>, votes: &[PairVotes]) -> Self {
        let rows: Vec<Vec<Option<f64>>> = votes
            .iter()
            .map(|votes| votes.outcomes.iter().map(|outcome| rating(*outcome)).collect())
            .collect();
        let table: Vec<Vec<Option<f64>>> = rows.iter().map(|row| row[1..].to_vec()).collect();
        let member = |(position, name): (usize, String)| {
            let (mut member, mut agreement, mut accuracy) =
                (MemberRow { name, ..MemberRow::default() }, Proportion::default(), Proportion::default());
            for (row, votes) in rows.iter().zip(votes) {
                let own: Option<f64> = row[position + 1];
                member.decided += u64::from(own.is_some());
                member.yes += u64::from(own == Some(1.0));
                agreement.add(own, row[0]);
                accuracy.add(own.filter(|own| *own < 2.0), truth(votes));
            }
            MemberRow { agreement_with_majority: agreement.value(), accuracy: accuracy.value(), ..member }
        };
        Self {
            pairs: table.iter().filter(|row| row.iter().flatten().count() > 1).count() as u64,
            percent_agreement: percent_agreement(&table),
            krippendorff_alpha: krippendorff_alpha(&table, Level::Nominal),
            without_majority: votes
                .iter()
                .filter(|votes| votes.outcomes[0] == Some(Outcome::Unresolved))
                .count() as u64,
            members: names.into_iter().enumerate().map(member).collect(),
        }
    }
}

impl OptionCosts {
    /// The costs of `judge`, which belongs to `plan`; `None` if the plan has no options.
    pub fn sum(plan: &Plan, ledger: &Ledger, judge: i64) -> Result<Option<Self>, JudgeError> {
        let Some(version) = &plan.plain_version else { return Ok(None) };
        let beside_plain = match ledger.judge(version)? {
            Some(plain) => {
                let mut votes = Vec::new();
                ledger.for_each_votes(&[plain, judge], |of_pair| votes.push(of_pair))?;
                let work =
                    [ledger.work_on_shared_pairs(plain, judge)?, ledger.work_on_shared_pairs(judge, plain)?];
                PlainComparison::new(&votes, work)
            }
            None => None,
        };
        Ok(Some(Self { added: ledger.option_costs(judge)?, beside_plain }))
    }
}

impl PlainComparison {
    /// Computed from the votes of the judge without and with options, and the work of each for the pairs that both
    /// decided.
    fn new(votes: &[PairVotes], work: [JudgeWork; 2]) -> Option<Self> {
        let mut beside = Self::default();
        let mut shares = [Proportion::default(); 2];
        for votes in votes {
            let [Some(plain), Some(other)] = votes.outcomes[..] else { continue };
            beside.pairs += 1;
            if plain != other {
                let [from, to] = [plain.name(), other.name()];
                match beside.changed.iter_mut().find(|change| (change.0, change.1) == (from, to)) {
                    Some(change) => change.2 += 1,
                    None => beside.changed.push((from, to, 1)),
                }
            }
            let ratings = [plain, other].map(|outcome| rating(Some(outcome)).filter(|rating| *rating < 2.0));
            if ratings.iter().all(Option::is_some) {
                shares[0].add(ratings[0], truth(votes));
                shares[1].add(ratings[1], truth(votes));
            }
        }
        beside.changed.sort_unstable();
        let [plain, other] = work;
        let more = |with: u64, without: u64| with as i64 - without as i64;
        beside.calls = more(other.answers, plain.answers);
        beside.tokens = more(other.cost.tokens, plain.cost.tokens);
        beside.dollars = other.cost.dollars().zip(plain.cost.dollars()).map(|(with, without)| with - without);
        beside.runs = more(other.runs, plain.runs);
        beside.accuracy = match shares.map(Proportion::value) {
            [Some(plain), Some(other)] => Some([plain, other]),
            _ => None,
        };
        (beside.pairs > 0).then_some(beside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{No, Unresolved, Yes};
    use quarry_llm::{Cost, Money};

    fn votes(label: i32, outcomes: &[Outcome]) -> PairVotes {
        PairVotes { label: Some(label), outcomes: outcomes.iter().copied().map(Some).collect() }
    }

    #[test]
    fn members_are_compared_with_one_another_the_majority_and_the_file() {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let found = MemberAgreement::new(
            names,
            &[
                votes(1, &[Yes, Yes, Yes, Yes]),
                votes(0, &[Yes, Yes, Yes, No]),
                votes(0, &[No, No, No, No]),
                votes(1, &[Unresolved, Yes, No, Unresolved]),
            ],
        );
        assert_eq!((found.pairs, found.without_majority), (4, 1));
        // The shares of member pairs that agree are 1, 1/3, 1 and 0.
        assert!((found.percent_agreement.unwrap() - (1.0 + 1.0 / 3.0 + 1.0) / 4.0).abs() < 1e-12);
        // Coincidences of 11 ratings: 6 of yes, 5 of no; observed disagreement 2·(1 + 1)/11, expected 2·6·5/(11·10).
        let alpha = 1.0 - (4.0 / 11.0) / (60.0 / 110.0);
        assert!((found.krippendorff_alpha.unwrap() - alpha).abs() < 1e-12, "{found:?}");
        let row = |position: usize| {
            let MemberRow { decided, yes, agreement_with_majority, accuracy, .. } = &found.members[position];
            (*decided, *yes, agreement_with_majority.unwrap(), accuracy.unwrap())
        };
        assert_eq!(row(0), (4, 3, 1.0, 0.75));
        assert_eq!(row(2), (3, 1, 2.0 / 3.0, 1.0));
    }

    #[test]
    fn options_are_measured_on_what_both_decided() {
        let cost = |tokens: u64| Cost { tokens, money: Money::from_units(tokens * 1_000_000) };
        let work = [
            JudgeWork { answers: 4, cost: cost(100), runs: 2 },
            JudgeWork { answers: 6, cost: cost(150), runs: 9 },
        ];
        let mut pairs = vec![
            votes(1, &[No, Yes]),
            votes(1, &[No, Yes]),
            votes(0, &[No, Yes]),
            votes(0, &[No, No]),
            votes(0, &[Unresolved, No]),
        ];
        pairs.push(PairVotes { label: Some(1), outcomes: vec![None, Some(Yes)] });
        let found = PlainComparison::new(&pairs, work).unwrap();
        assert_eq!(found.pairs, 5);
        assert_eq!(found.changed, [("no", "yes", 3), ("unresolved", "no", 1)]);
        assert_eq!((found.calls, found.tokens, found.runs), (2, 50, 7));
        assert_eq!(found.accuracy, Some([0.5, 0.75]));
        assert_eq!(PlainComparison::new(&pairs[5..], work), None);
    }
}
