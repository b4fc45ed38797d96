//! Statistics of people's programs, ratings, preferences and reviews.

use std::collections::{BTreeMap, BTreeSet};

use quarry_judge::ledger::GeneratedStatus;
use quarry_metrics::agreement::{Level, kendall_tau_b, krippendorff_alpha, pearson};
use quarry_metrics::significance::{Interval, mcnemar, resampled_interval};
use serde::Serialize;

use super::gather::{LabelWork, PreferenceVote, Scale, ScoredItem, StudyData};
use super::{Ratings, Share, StudyOptions};
use crate::guideline::Preferred;

/// The results of a person's test programs, and the time taken for labels.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StudyPrograms")]
pub struct ProgramRow {
    /// The person and condition; the first row of a condition is all people of it together.
    pub people: String,
    /// Number of labels.
    pub labels: usize,
    /// Number of labels with a test program.
    pub programs: usize,
    /// Number of programs by result.
    pub results: BTreeMap<&'static str, usize>,
    /// Share of executable programs: their assertions held or failed.
    pub executable: Option<Share>,
    /// Mean number of assertions per program.
    pub mean_tests: Option<f64>,
    /// Number of labels with a known time.
    pub timed: usize,
    /// Mean time per label, in minutes.
    pub mean_minutes: Option<f64>,
    /// Median time per label, in minutes.
    pub median_minutes: Option<f64>,
}

/// Ratings of one rater on a scale.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct ScoreRow {
    /// The name of the guideline.
    pub guideline: String,
    /// A person or a judge.
    pub rater: String,
    /// Number of rated items.
    pub items: usize,
    /// Mean rating.
    pub mean: f64,
    /// The rater compared with: a judge, or the mean of the other people.
    pub against: Option<String>,
    /// Number of items that both rated.
    pub common: usize,
    /// Pearson's r.
    pub pearson: Option<f64>,
    /// Kendall's τ-b.
    pub kendall: Option<f64>,
}

/// Agreement between people on a scale.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct ScoreAgreement {
    /// The name of the guideline.
    pub guideline: String,
    /// Number of people.
    pub people: usize,
    /// Number of items with two ratings or more.
    pub items: usize,
    /// Ordinal Krippendorff's α.
    pub alpha_ordinal: Option<f64>,
    /// Nominal Krippendorff's α.
    pub alpha_nominal: Option<f64>,
}

/// Ratings of a system's lists of results.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct SystemRow {
    /// The name of the guideline.
    pub guideline: String,
    /// The system.
    pub system: String,
    /// Number of lists.
    pub lists: usize,
    /// Number of ratings.
    pub ratings: usize,
    /// Mean over the lists of each list's mean rating.
    pub mean: f64,
    /// Bootstrap interval of the mean, resampling lists.
    pub interval: Option<Interval>,
}

/// People's preference between two systems.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct PreferenceRow {
    /// The two systems, in alphabetical order.
    pub systems: [String; 2],
    /// Number of people.
    pub people: usize,
    /// Votes for the first, for the second, and for neither.
    pub votes: [usize; 3],
    /// Share of votes for the first among those for either, as in the papers.
    pub vote_share: Option<f64>,
    /// Number of queries won by the first, won by the second, and tied, by the majority of their votes.
    pub queries: [usize; 3],
    /// Share of the first among the queries won by either. Votes on one query are not independent; queries are.
    pub share: Option<Share>,
    /// p-value of the exact two-sided sign test over these queries.
    pub p: f64,
    /// Nominal Krippendorff's α of the votes.
    pub alpha: Option<f64>,
}

/// A person's reviews of a model's code.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct ReviewRow {
    /// The person.
    pub person: String,
    /// The model.
    pub model: String,
    /// Number of codes approved unchanged.
    pub approved: usize,
    /// Number of codes approved after an edit.
    pub edited: usize,
    /// Number of codes rejected.
    pub rejected: usize,
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

pub(crate) fn programs(gathered: &StudyData, options: &StudyOptions) -> Vec<ProgramRow> {
    let mut rows = Vec::new();
    for tests in [true, false] {
        let all: Vec<&LabelWork> = gathered.work.iter().filter(|work| work.tests == tests).collect();
        let names: BTreeSet<&str> = all.iter().map(|work| work.person.as_str()).collect();
        if all.is_empty() {
            continue;
        }
        let condition = super::condition(tests);
        rows.push(program_row(format!("people, {condition}"), &all, options));
        for name in names {
            let of: Vec<&LabelWork> = all.iter().copied().filter(|work| work.person == name).collect();
            rows.push(program_row(format!("{name}, {condition}"), &of, options));
        }
    }
    rows.retain(|row| row.programs > 0 || row.timed > 0);
    rows
}

fn program_row(people: String, work: &[&LabelWork], options: &StudyOptions) -> ProgramRow {
    let programs: Vec<_> = work.iter().filter_map(|work| work.program).collect();
    let mut results = BTreeMap::new();
    for (result, _) in &programs {
        *results.entry(result.name()).or_default() += 1;
    }
    let mut executable: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (pair, (result, _)) in work.iter().filter_map(|work| Some((work.pair, work.program?))) {
        let (hits, of) = executable.entry(pair).or_default();
        (*hits, *of) = (*hits + usize::from(result.is_executable()), *of + 1);
    }
    let executable: Vec<(usize, usize)> = executable.into_values().collect();
    let tests: Vec<f64> = programs.iter().map(|(_, tests)| *tests as f64).collect();
    let minutes: Vec<f64> = work.iter().filter_map(|work| work.minutes).collect();
    ProgramRow {
        people,
        labels: work.len(),
        programs: programs.len(),
        results,
        executable: Share::of_labels(&executable, &options.bootstrap),
        mean_tests: mean(&tests),
        timed: minutes.len(),
        mean_minutes: mean(&minutes),
        median_minutes: median(&minutes),
    }
}

/// Compares each person with each judge and with the mean of the other people, and lists each judge.
pub(crate) fn scores(gathered: &StudyData) -> Vec<ScoreRow> {
    let mut rows = Vec::new();
    for scale in &gathered.scales {
        let (people, judges) = (raters(scale, |item| &item.people), raters(scale, |item| &item.judges));
        let of = |pick: &dyn Fn(&ScoredItem) -> Option<f64>| scale.items.iter().map(pick).collect::<Scores>();
        let graded = |judge: &str| of(&|item| item.judges.get(judge).copied());
        for person in &people {
            let own = of(&|item| item.people.get(person).copied());
            for judge in &judges {
                rows.extend(score_row(scale, person, &own, Some((judge, graded(judge)))));
            }
            let others = of(&|item| {
                let others = item.people.iter().filter(|(other, _)| *other != person);
                mean(&others.map(|(_, score)| *score).collect::<Vec<_>>())
            });
            if people.len() > 1 {
                rows.extend(score_row(scale, person, &own, Some(("the other people", others))));
            } else if judges.is_empty() {
                rows.extend(score_row(scale, person, &own, None));
            }
        }
        for judge in &judges {
            rows.extend(score_row(scale, judge, &graded(judge), None));
        }
    }
    rows
}

fn raters<'a>(
    scale: &'a Scale,
    of: impl Fn(&'a ScoredItem) -> &'a BTreeMap<String, f64>,
) -> BTreeSet<String> {
    scale.items.iter().flat_map(|item| of(item).keys().cloned()).collect()
}

/// A value for each item of a scale, if it was rated.
type Scores = Vec<Option<f64>>;

fn score_row(scale: &Scale, rater: &str, own: &Scores, against: Option<(&str, Scores)>) -> Option<ScoreRow> {
    let all: Vec<f64> = own.iter().flatten().copied().collect();
    let (mine, others): (Vec<f64>, Vec<f64>) = match &against {
        Some((_, other)) => own.iter().zip(other).filter_map(|(own, other)| own.zip(*other)).unzip(),
        None => Default::default(),
    };
    Some(ScoreRow {
        guideline: scale.guideline.clone(),
        rater: rater.to_owned(),
        items: all.len(),
        mean: mean(&all)?,
        against: against.map(|(name, _)| name.to_owned()),
        common: mine.len(),
        pearson: pearson(&mine, &others),
        kendall: kendall_tau_b(&mine, &others),
    })
}

pub(crate) fn score_agreement(gathered: &StudyData) -> Vec<ScoreAgreement> {
    let of = |scale: &Scale| {
        let people = raters(scale, |item| &item.people);
        let row = |item: &ScoredItem| people.iter().map(|name| item.people.get(name).copied()).collect();
        let mut table: Ratings = scale.items.iter().map(row).collect();
        table.retain(|row| row.iter().flatten().count() > 1);
        (!table.is_empty()).then(|| ScoreAgreement {
            guideline: scale.guideline.clone(),
            people: people.len(),
            items: table.len(),
            alpha_ordinal: krippendorff_alpha(&table, Level::Ordinal),
            alpha_nominal: krippendorff_alpha(&table, Level::Nominal),
        })
    };
    gathered.scales.iter().filter_map(of).collect()
}

pub(crate) fn systems(gathered: &StudyData, options: &StudyOptions) -> Vec<SystemRow> {
    let mut rows = Vec::new();
    for scale in &gathered.scales {
        let systems: BTreeSet<&String> = scale.items.iter().filter_map(|item| item.system.as_ref()).collect();
        for system in systems {
            let lists: Vec<Vec<f64>> = (scale.items.iter())
                .filter(|item| item.system.as_ref() == Some(system))
                .map(|item| item.people.values().copied().collect::<Vec<_>>())
                .filter(|ratings| !ratings.is_empty())
                .collect();
            let means: Vec<f64> = lists.iter().filter_map(|ratings| mean(ratings)).collect();
            let Some(of_all) = mean(&means) else { continue };
            let drawn = |drawn: &[usize]| mean(&drawn.iter().map(|list| means[*list]).collect::<Vec<_>>());
            rows.push(SystemRow {
                guideline: scale.guideline.clone(),
                system: system.clone(),
                lists: lists.len(),
                ratings: lists.iter().map(Vec::len).sum(),
                mean: of_all,
                interval: resampled_interval(means.len(), &options.bootstrap, drawn),
            });
        }
    }
    rows
}

pub(crate) fn preferences(gathered: &StudyData, options: &StudyOptions) -> Vec<PreferenceRow> {
    let mut by_systems: BTreeMap<[&str; 2], Vec<&PreferenceVote>> = BTreeMap::new();
    for vote in &gathered.votes {
        let mut systems = [vote.sides[0].as_str(), &vote.sides[1]];
        systems.sort_unstable();
        by_systems.entry(systems).or_default().push(vote);
    }
    by_systems.into_iter().map(|(systems, votes)| preference(systems, &votes, options)).collect()
}

fn preference(systems: [&str; 2], all: &[&PreferenceVote], options: &StudyOptions) -> PreferenceRow {
    /// Index of the choice: 0 for the first, 1 for the second, 2 for neither.
    fn choice(vote: &PreferenceVote, systems: [&str; 2]) -> usize {
        match vote.prefers {
            Preferred::Neither => 2,
            Preferred::First => usize::from(vote.sides[0] != systems[0]),
            Preferred::Second => usize::from(vote.sides[1] != systems[0]),
        }
    }
    let people: BTreeSet<&str> = all.iter().map(|vote| vote.person.as_str()).collect();
    let (mut votes, mut by_query) = ([0; 3], BTreeMap::<&str, BTreeMap<&str, usize>>::new());
    for vote in all {
        let choice = choice(vote, systems);
        votes[choice] += 1;
        by_query.entry(&vote.content).or_default().insert(&vote.person, choice);
    }
    let mut queries = [0; 3];
    let mut winners = Vec::new();
    for choices in by_query.values() {
        let count = |side: usize| choices.values().filter(|choice| **choice == side).count();
        let winner = match count(0).cmp(&count(1)) {
            std::cmp::Ordering::Greater => 0,
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => 2,
        };
        queries[winner] += 1;
        winners.push((winner == 0, winner == 1));
    }
    let row = |choices: &BTreeMap<&str, usize>| {
        people.iter().map(|person| choices.get(person).map(|choice| *choice as f64)).collect()
    };
    let table: Ratings = by_query.values().map(row).collect();
    let either = votes[0] + votes[1];
    PreferenceRow {
        systems: systems.map(str::to_owned),
        people: people.len(),
        votes,
        vote_share: (either > 0).then(|| votes[0] as f64 / either as f64),
        queries,
        share: Share::new(queries[0], queries[0] + queries[1], options.bootstrap.confidence),
        // McNemar's exact test is the sign test on the discordant cases.
        p: mcnemar(winners).p,
        alpha: krippendorff_alpha(&table, Level::Nominal),
    }
}

pub(crate) fn reviews(gathered: &StudyData) -> Vec<ReviewRow> {
    let mut counts: BTreeMap<(&str, &str), [usize; 3]> = BTreeMap::new();
    for (person, model, review) in &gathered.reviews {
        let position = match review {
            GeneratedStatus::Approved => 0,
            GeneratedStatus::Edited => 1,
            GeneratedStatus::Rejected => 2,
            GeneratedStatus::Generated => continue,
        };
        counts.entry((person, model)).or_default()[position] += 1;
    }
    let row = |((person, model), [approved, edited, rejected]): ((&str, &str), [usize; 3])| ReviewRow {
        person: person.to_owned(),
        model: model.to_owned(),
        approved,
        edited,
        rejected,
    };
    counts.into_iter().map(row).collect()
}
