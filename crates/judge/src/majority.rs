//! Combining the verdicts of several judges into one.

use crate::judge::{Outcome, Verdict};

pub(crate) const MAJORITY: &str = "majority";

/// The verdict that more than half of all `votes` have; unresolved votes support no other verdict. Without such a
/// majority, the result is unresolved. The grade is the median of those who decided, the lower of the two middle ones
/// if there are two: so it is at least some grade exactly if more than half of them are. The confidence is the share of
/// votes that agree.
pub(crate) fn majority(votes: &[Verdict]) -> Verdict {
    let count = |outcome: Outcome| votes.iter().filter(|vote| vote.outcome == outcome).count();
    let counts = Outcome::ALL.map(|outcome| (outcome, count(outcome)));
    let tally: Vec<String> = (counts.iter())
        .filter(|(_, count)| *count > 0)
        .map(|(outcome, count)| format!("{count} {}", outcome.name()))
        .collect();
    let decided = || counts.iter().filter(|(outcome, count)| *outcome != Outcome::Unresolved && *count > 0);
    let most = decided().map(|(_, count)| *count).max().unwrap_or_default();
    let best: Vec<Outcome> =
        decided().filter(|(_, count)| *count == most).map(|(outcome, _)| *outcome).collect();
    let verdict = |outcome, grade, reason: String, confidence| Verdict {
        outcome,
        grade,
        decided_by: MAJORITY.to_owned(),
        reason,
        confidence,
    };
    let tally = tally.join(", ");
    match best.as_slice() {
        [outcome] if 2 * most > votes.len() => {
            let mut grades: Vec<u8> = (votes.iter())
                .filter(|vote| vote.outcome != Outcome::Unresolved)
                .filter_map(|vote| vote.grade)
                .collect();
            grades.sort_unstable();
            let median = grades.get(grades.len().saturating_sub(1) / 2).copied();
            let grade = median.filter(|_| *outcome != Outcome::Discarded);
            verdict(*outcome, grade, tally, Some(most as f64 / votes.len() as f64))
        }
        [] => verdict(Outcome::Unresolved, None, format!("nobody decided: {tally}"), None),
        [_] => verdict(Outcome::Unresolved, None, format!("no majority: {tally}"), None),
        _ => verdict(Outcome::Unresolved, None, format!("a tie: {tally}"), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vote(outcome: Outcome, grade: Option<u8>) -> Verdict {
        Verdict { outcome, grade, decided_by: "x".into(), reason: "y".into(), confidence: Some(0.9) }
    }

    #[track_caller]
    fn check(votes: &[(Outcome, Option<u8>)], outcome: Outcome, grade: Option<u8>, reason: &str) {
        let votes: Vec<Verdict> = votes.iter().map(|(outcome, grade)| vote(*outcome, *grade)).collect();
        let found = majority(&votes);
        assert_eq!((found.outcome, found.grade, found.reason.as_str()), (outcome, grade, reason));
        assert_eq!(found.decided_by, "majority");
    }

    #[test]
    fn most_votes_win_and_ties_are_unresolved() {
        use Outcome::{Discarded, No, Unresolved, Yes};
        check(&[(Yes, None), (No, None), (Yes, None)], Yes, None, "2 yes, 1 no");
        check(&[(Yes, None), (No, None)], Unresolved, None, "a tie: 1 yes, 1 no");
        check(&[(Yes, None), (Unresolved, None)], Unresolved, None, "no majority: 1 yes, 1 unresolved");
        let one_of_three = [(Unresolved, None), (Yes, None), (Unresolved, None)];
        check(&one_of_three, Unresolved, None, "no majority: 1 yes, 2 unresolved");
        check(&[(Yes, None), (Yes, None), (Unresolved, None)], Yes, None, "2 yes, 1 unresolved");
        let two_of_five = [(Yes, None), (Yes, None), (No, None), (Discarded, None), (Unresolved, None)];
        check(&two_of_five, Unresolved, None, "no majority: 2 yes, 1 no, 1 discarded, 1 unresolved");
        check(&[(Unresolved, None), (Unresolved, None)], Unresolved, None, "nobody decided: 2 unresolved");
        check(
            &[(No, None), (Discarded, None), (Discarded, None), (Yes, None), (No, None)],
            Unresolved,
            None,
            "a tie: 1 yes, 2 no, 2 discarded",
        );
        check(&[(Yes, Some(3)), (Yes, Some(2)), (No, Some(1))], Yes, Some(2), "2 yes, 1 no");
        check(&[(Yes, Some(3)), (Yes, Some(2)), (Yes, Some(3))], Yes, Some(3), "3 yes");
        // Two of five give the highest grade.
        let grades = [(Yes, Some(3)), (Yes, Some(3)), (Yes, Some(2)), (No, Some(0)), (No, Some(0))];
        check(&grades, Yes, Some(2), "3 yes, 2 no");
        check(&[(Yes, Some(3)), (Discarded, None), (Discarded, None)], Discarded, None, "1 yes, 2 discarded");
        check(&[(No, Some(1)), (No, Some(0)), (Unresolved, None)], No, Some(0), "2 no, 1 unresolved");
        check(&[], Unresolved, None, "nobody decided: ");
        assert_eq!(
            majority(&[vote(Yes, None), vote(Yes, None), vote(No, None), vote(Yes, None)]).confidence,
            Some(0.75)
        );
    }

    proptest! {
        /// At each threshold, the median is on the side of the majority.
        #[test]
        fn a_grade_is_reached_where_more_than_half_reach_it(grades in prop::collection::vec(0_u8..4, 1..8),
            minimum in 1_u8..4) {
            let votes: Vec<Verdict> = grades
                .iter()
                .map(|grade| vote(if *grade >= 2 { Outcome::Yes } else { Outcome::No }, Some(*grade)))
                .collect();
            let found = majority(&votes);
            let reach = grades.iter().filter(|grade| **grade >= minimum).count();
            if let Some(grade) = found.grade {
                prop_assert_eq!(grade >= minimum, 2 * reach > grades.len());
                prop_assert_eq!(grade >= 2, found.outcome == Outcome::Yes);
            } else {
                prop_assert_eq!(found.outcome, Outcome::Unresolved);
            }
        }

        #[test]
        fn a_label_has_more_than_half_of_all_votes(indices in prop::collection::vec(0_usize..4, 0..9)) {
            let votes: Vec<Verdict> = indices.iter().map(|index| vote(Outcome::ALL[*index], None)).collect();
            let found = majority(&votes).outcome;
            let agreeing = votes.iter().filter(|vote| vote.outcome == found).count();
            prop_assert!(found == Outcome::Unresolved || 2 * agreeing > votes.len());
        }

        #[test]
        fn the_order_of_votes_does_not_count(indices in prop::collection::vec((0_usize..4, 0_u8..4), 0..7)) {
            let votes: Vec<Verdict> =
                indices.iter().map(|(index, grade)| vote(Outcome::ALL[*index], Some(*grade))).collect();
            let reversed: Vec<Verdict> = votes.iter().rev().cloned().collect();
            prop_assert_eq!(majority(&votes), majority(&reversed));
        }
    }
}
