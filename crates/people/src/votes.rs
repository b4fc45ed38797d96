//! Labels of pairs by the majority of people.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quarry_files::digest;
use quarry_judge::JudgeError;
use quarry_judge::ledger::{Ledger, Subject};
use quarry_metrics::agreement::{Level, krippendorff_alpha, krippendorff_by_unit};

use crate::form::Form;
use crate::guideline::Guideline;
use crate::labels::PeopleLabels;

/// Conditions under which people's votes count as a label.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MajorityRules {
    pub minimum: usize,
    /// Pairs for which Krippendorff's α of their own labels is below this are removed, as in CoSQA.
    pub minimum_alpha: Option<f64>,
}

/// Result of the votes on a pair.
#[derive(Clone, Debug, PartialEq)]
pub enum VotedLabel {
    /// `true` if the code answers the query, by the majority of people or the organizer's decision.
    Label(bool),
    /// The pair is removed from the data: α of its labels, and the labels.
    Removed(f64, String),
    /// Enough people answered, but gave no label: the reason.
    Undecided(String),
    /// Too few people answered: their number.
    Open(usize),
}

/// The last answer of each person about each pair, by one guideline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairVotes {
    /// Answers by pair and person.
    votes: BTreeMap<String, BTreeMap<String, String>>,
    /// The organizer's decisions, by pair.
    decisions: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct VotedLabels {
    pub labels: Vec<VotedLabel>,
    /// The names of the people who answered for any of them.
    pub people: BTreeSet<String>,
    /// Nominal Krippendorff's α of their labels, of all pairs and of those that are not removed; `None` where there is
    /// nothing to compare.
    pub alpha: [Option<f64>; 2],
}

impl PairVotes {
    /// The answers in a ledger by a guideline, of these people only, or of all if none is named. If a person
    /// answered both with and without test programs, the answer with them counts.
    pub fn read(ledger: &Ledger, guideline: &Guideline, annotators: &[String]) -> Result<Self, JudgeError> {
        let labeled = PeopleLabels::read(ledger)?;
        let mut found = Self::default();
        for tests in [false, true] {
            for reply in labeled.replies.iter().filter(|reply| reply.tests == tests) {
                let is_same =
                    labeled.guidelines.get(reply.guideline).is_some_and(|by| by.version == guideline.version);
                let counts = annotators.is_empty() || annotators.contains(&reply.person);
                if let (Some(pair), true) = (&reply.pair, is_same && counts) {
                    let votes = found.votes.entry(pair.clone()).or_default();
                    votes.insert(reply.person.clone(), reply.label.clone());
                }
            }
        }
        for name in ledger.forms()? {
            let decisions = ledger.adjudications(&name)?;
            let Some(form) =
                Form::read(ledger, &name)?.filter(|form| form.guideline.version == guideline.version)
            else {
                continue;
            };
            for item in form.items {
                if let (Subject::Pair(pair), Some(decision)) = (item.subject, decisions.get(&item.number)) {
                    found.decisions.insert(pair.id, decision.label.clone());
                }
            }
        }
        Ok(found)
    }

    /// Hash of all answers and decisions.
    pub fn digest(&self) -> String {
        let mut parts: Vec<&str> = Vec::new();
        for (pair, votes) in &self.votes {
            for (person, label) in votes {
                parts.extend(["vote", pair, person, label]);
            }
        }
        for (pair, label) in &self.decisions {
            parts.extend(["decision", pair, label]);
        }
        digest(&parts)
    }

    /// The labels of the pairs with these ids. Votes are compared by the label that their value gives: under
    /// CoSQA's guideline, 1 to 4 are the same vote. A value without a label is a vote for no label. The organizer's
    /// decisions are neither put to the vote nor removed.
    pub fn labels(&self, ids: &[&str], guideline: &Guideline, rules: MajorityRules) -> VotedLabels {
        let none = BTreeMap::new();
        let votes_of = |id: &&str| self.votes.get(*id).unwrap_or(&none);
        let people: BTreeSet<String> = ids.iter().flat_map(|id| votes_of(id).keys().cloned()).collect();
        let rating = |id: &&str, person: &String| {
            let label = guideline.label(votes_of(id).get(person)?)?;
            Some(f64::from(u8::from(label)))
        };
        let table: Vec<Vec<Option<f64>>> =
            ids.iter().map(|id| people.iter().map(|person| rating(id, person)).collect()).collect();
        let alphas = krippendorff_by_unit(&table, Level::Nominal);
        let labels: Vec<VotedLabel> = (ids.iter().zip(&alphas))
            .map(|(id, alpha)| match self.decisions.get(*id) {
                Some(decision) => guideline.label(decision).map_or_else(
                    || VotedLabel::Undecided(format!("the organizer decided {decision}")),
                    VotedLabel::Label,
                ),
                None => voted(votes_of(id), guideline, rules, *alpha),
            })
            .collect();
        let is_kept = |label: &VotedLabel| !matches!(label, VotedLabel::Removed(..));
        let kept: Vec<Vec<Option<f64>>> = (table.iter().zip(&labels))
            .filter(|(_, label)| is_kept(label))
            .map(|(row, _)| row.clone())
            .collect();
        let alpha = [&table, &kept].map(|table| krippendorff_alpha(table, Level::Nominal));
        VotedLabels { labels, people, alpha }
    }
}

fn voted(
    votes: &BTreeMap<String, String>,
    guideline: &Guideline,
    rules: MajorityRules,
    alpha: Option<f64>,
) -> VotedLabel {
    if votes.len() < rules.minimum.max(1) {
        return VotedLabel::Open(votes.len());
    }
    let said = votes.values().cloned().collect::<Vec<_>>().join(", ");
    if let (Some(alpha), Some(minimum)) = (alpha, rules.minimum_alpha)
        && alpha < minimum
    {
        return VotedLabel::Removed(alpha, said);
    }
    let mut counts: HashMap<Option<bool>, usize> = HashMap::new();
    for value in votes.values() {
        *counts.entry(guideline.label(value)).or_default() += 1;
    }
    match counts.into_iter().find(|(_, count)| 2 * count > votes.len()) {
        Some((Some(label), _)) => VotedLabel::Label(label),
        Some((None, _)) => VotedLabel::Undecided(format!("most give it no label: {said}")),
        None => VotedLabel::Undecided(format!("no majority: {said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(pairs: &[(&str, &[(&str, &str)])]) -> PairVotes {
        let of = |votes: &[(&str, &str)]| {
            votes.iter().map(|(person, value)| ((*person).to_owned(), (*value).to_owned())).collect()
        };
        let votes = pairs.iter().map(|(pair, votes)| ((*pair).to_owned(), of(votes))).collect();
        PairVotes { votes, decisions: BTreeMap::new() }
    }

    #[test]
    fn votes_are_compared_by_label_and_pairs_of_low_agreement_are_removed() {
        let guideline = Guideline::named("cosqa").unwrap();
        let votes = votes(&[
            // All are positive, by three words.
            ("a", &[("Ann", "1"), ("Bob", "3"), ("Cem", "4")]),
            ("b", &[("Ann", "6"), ("Bob", "7"), ("Cem", "5")]),
            // Disputed, but two of three.
            ("c", &[("Ann", "1"), ("Bob", "7"), ("Cem", "2")]),
            ("d", &[("Ann", "0"), ("Bob", "0"), ("Cem", "7")]),
            ("e", &[("Ann", "1")]),
        ]);
        let ids = ["a", "b", "c", "d", "e", "f"];
        let rules = MajorityRules { minimum: 2, minimum_alpha: None };
        let found = votes.labels(&ids, &guideline, rules);
        assert_eq!(
            found.labels,
            [
                VotedLabel::Label(true),
                VotedLabel::Label(false),
                VotedLabel::Label(true),
                VotedLabel::Undecided("most give it no label: 0, 0, 7".into()),
                VotedLabel::Open(1),
                VotedLabel::Open(0),
            ]
        );
        let [all, same] = found.alpha.map(Option::unwrap);
        assert!(all < 0.7 && all == same, "{all} {same}");
        let rules = MajorityRules { minimum_alpha: Some(0.0), ..rules };
        let found = votes.labels(&ids, &guideline, rules);
        assert!(
            matches!(&found.labels[2], VotedLabel::Removed(alpha, said) if *alpha < 0.0 && said == "1, 7, 2")
        );
        assert_eq!(found.labels.iter().filter(|label| matches!(label, VotedLabel::Label(_))).count(), 2);
        assert_eq!(found.alpha[1], Some(1.0));
    }

    #[test]
    fn the_organizer_decides_what_people_do_not() {
        let guideline = Guideline::named("cosqa").unwrap();
        let mut votes = votes(&[("a", &[("Ann", "1"), ("Bob", "7")]), ("b", &[("Ann", "1"), ("Bob", "2")])]);
        let rules = MajorityRules { minimum: 2, minimum_alpha: Some(0.5) };
        let before = votes.digest();
        assert!(matches!(votes.labels(&["a"], &guideline, rules).labels[0], VotedLabel::Removed(..)));
        votes.decisions.insert("a".into(), "3".into());
        assert_eq!(votes.labels(&["a"], &guideline, rules).labels, [VotedLabel::Label(true)]);
        assert_ne!(votes.digest(), before);
    }
}
