//! A study of ten pairs; the expected numbers come from the packages krippendorff, scikit-learn, SciPy and
//! statsmodels.

use std::collections::BTreeMap;

use quarry_judge::RunResult;
use quarry_judge::ledger::GeneratedStatus;

use super::gather::{LabelWork, PreferenceVote, Scale, ScoredItem, StudyData};
use super::*;
use crate::guideline::Preferred;

const NONE: u8 = 9;

/// Three people with tests, three without, a judge; a column for each pair.
const LABELS: [(&str, Option<bool>, [u8; 10]); 7] = [
    ("ann", Some(true), [1, 1, 1, 0, 0, 1, 0, 1, 0, 0]),
    ("bob", Some(true), [1, 1, 0, 0, 0, 1, 0, 1, 1, 0]),
    ("cyd", Some(true), [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]),
    ("dee", Some(false), [1, 0, 1, 0, 0, 1, NONE, 1, 1, 0]),
    ("eve", Some(false), [1, 1, 1, 1, 0, 1, 0, 0, 0, NONE]),
    ("fay", Some(false), [0, 1, 1, 0, 0, 1, 0, 1, 1, 0]),
    ("model", None, [1, 1, 1, 0, 1, 0, 0, 1, 0, 1]),
];

const FILE: [u8; 10] = [1, 1, 1, 0, 0, 1, 1, 1, 0, 0];

fn gathered() -> StudyData {
    let annotators = LABELS
        .iter()
        .map(|(name, tests, _)| match tests {
            Some(tests) => Annotator::Person { name: (*name).to_owned(), tests: *tests },
            None => Annotator::Judge { name: (*name).to_owned() },
        })
        .collect();
    let label = |given: u8| Label { exact: Some(given == 1), ..Label::default() };
    let pair = |column: usize| LabeledPair {
        id: column.to_string(),
        file: Some(FILE[column] == 1),
        labels: (LABELS.iter().enumerate())
            .filter(|(_, (.., given))| given[column] != NONE)
            .map(|(number, (.., given))| (number, label(given[column])))
            .collect(),
    };
    StudyData { annotators, pairs: (0..10).map(pair).collect(), ..StudyData::default() }
}

fn options() -> StudyOptions {
    let bootstrap = Bootstrap { resamples: 200, ..Bootstrap::default() };
    StudyOptions {
        truth: ReferenceMajority::Auto,
        min_labels: 1,
        min_alpha: None,
        block: None,
        executable_rule: "",
        bootstrap,
    }
}

#[track_caller]
fn near(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} {expected}");
}

#[track_caller]
fn row<'s>(study: &'s Study, name: &str) -> &'s AnnotatorRow {
    study.annotators.iter().find(|row| row.annotator == name).unwrap()
}

#[test]
fn the_annotator_table() {
    let study = Study::new(&gathered(), &StudyOptions { block: Some(5), ..options() });
    assert_eq!((study.truth, study.pairs), (ReferenceMajority::WithTests, 10));
    let [with, without] = study.agreement.as_slice() else { panic!("{:?}", study.agreement) };
    assert_eq!((with.tests, with.people, with.pairs, with.labels), (true, 3, 10, 30));
    assert_eq!((without.tests, without.people, without.pairs, without.labels), (false, 3, 10, 28));
    near(with.alpha, 0.484_444_444_444_444_46);
    near(without.alpha, 0.307_692_307_692_307_7);
    near(with.alpha_by_blocks, 0.481_481_481_481_481_5);
    assert!(with.interval.unwrap().low < 0.48 && with.interval.unwrap().high > 0.49);
    for (name, hits, of) in [
        ("people, with tests", 26, 30),
        ("people, without tests", 22, 28),
        ("ann, with tests", 10, 10),
        ("bob, with tests", 8, 10),
        ("dee, without tests", 7, 9),
        ("fay, without tests", 8, 10),
        ("model", 7, 10),
    ] {
        let accuracy = row(&study, name).exact.accuracy.unwrap();
        assert_eq!((accuracy.hits, accuracy.of), (hits, of), "{name}");
        assert_eq!(row(&study, name).half, MajorityAgreement::default());
    }
    // The model together with the three people who wrote tests.
    near(row(&study, "model").exact.alpha, 0.380_952_380_952_380_95);
    near(row(&study, "model").exact.alpha_by_blocks, 0.360_576_923_076_923_1);
    near(row(&study, "people, with tests").exact.alpha, 0.484_444_444_444_444_46);
}

#[test]
fn the_file_and_one_model_alone_make_a_table() {
    let mut gathered = gathered();
    gathered.annotators = vec![Annotator::Judge { name: "model".to_owned() }];
    for pair in &mut gathered.pairs {
        pair.labels = pair.labels.remove(&6).map(|label| (0, label)).into_iter().collect();
    }
    let study = Study::new(&gathered, &options());
    assert!(study.annotators.is_empty() && study.agreement.is_empty());
    let [row] = study.against_file.as_slice() else { panic!("{:?}", study.against_file) };
    near(Some(row.accuracy.share), 0.6);
    near(Some(row.positive.f1), 2.0 / 3.0);
    near(row.alpha, 0.208_333_333_333_333_26);
    let titles: Vec<String> = study.tables().into_iter().map(|(title, _)| title).collect();
    assert_eq!(titles, ["Annotators against the labels of the file"]);
}

#[test]
fn whose_majority_is_the_truth_is_a_choice() {
    let of = |truth, min_labels| {
        let study = Study::new(&gathered(), &StudyOptions { truth, min_labels, ..options() });
        let accuracy = row(&study, "model").exact.accuracy.unwrap();
        (study.truth, accuracy.hits, accuracy.of)
    };
    // The majority of those without tests is 1 1 1 0 0 1 0 1 1 0; pairs 6 and 9 have two labels.
    assert_eq!(of(ReferenceMajority::WithoutTests, 1), (ReferenceMajority::WithoutTests, 6, 10));
    assert_eq!(of(ReferenceMajority::WithoutTests, 3), (ReferenceMajority::WithoutTests, 5, 8));
    // With all six, pair 8 is a tie.
    assert_eq!(of(ReferenceMajority::People, 1), (ReferenceMajority::People, 6, 9));
}

#[test]
fn who_alone_is_the_majority_is_not_compared_with_it() {
    let mut gathered = gathered();
    for (column, pair) in gathered.pairs.iter_mut().enumerate() {
        // Only one pair has labels of two people: Ann and Bob.
        pair.labels.retain(|number, _| [0, 3, 6].contains(number) || (*number, column) == (1, 2));
    }
    let study = Study::new(&gathered, &options());
    // They disagree on pair 2, so there is no majority.
    let accuracy = |name: &str| row(&study, name).exact.accuracy.map(|share| (share.hits, share.of));
    assert!(study.annotators.iter().all(|row| !row.annotator.starts_with("ann")), "{:?}", study.annotators);
    assert_eq!((accuracy("model"), accuracy("dee, without tests")), (Some((6, 9)), Some((6, 8))));
    gathered.pairs[0].labels.insert(1, Label { exact: Some(true), ..Label::default() });
    let study = Study::new(&gathered, &options());
    let ann = row(&study, "ann, with tests").exact.accuracy.unwrap();
    assert_eq!((ann.hits, ann.of), (1, 1));
}

#[test]
fn pairs_on_which_people_disagree_are_removed_and_listed() {
    let study = Study::new(&gathered(), &StudyOptions { min_alpha: Some(0.0), ..options() });
    let removed: Vec<&str> = study.removed.iter().map(|(pair, _)| pair.as_str()).collect();
    assert_eq!(removed, ["2", "4", "7", "8"]);
    near(Some(study.removed[0].1), -0.288_888_888_888_888_75);
    near(study.agreement_before_removal[0].alpha, 0.484_444_444_444_444_46);
    near(study.agreement[0].alpha, 1.0);
    near(row(&study, "model").exact.alpha, 0.680_555_555_555_555_6);

    let all = Study::new(&gathered(), &options());
    let listed: Vec<(&str, bool)> =
        all.disagreements.iter().map(|pair| (pair.pair.as_str(), pair.among_people)).collect();
    // Only the model disagrees on 5 and 9.
    assert_eq!(listed, [("2", true), ("4", true), ("5", false), ("7", true), ("8", true), ("9", false)]);
    assert_eq!(all.disagreements[0].majority, Some(true));
    assert_eq!(all.disagreements[0].labels[1], ("bob, with tests".to_owned(), false, String::new()));
}

#[test]
fn pairs_without_a_majority_are_listed_where_any_two_disagree() {
    let judge = |name: &str| Annotator::Judge { name: name.to_owned() };
    let person = |name: &str, tests| Annotator::Person { name: name.to_owned(), tests };
    let annotators =
        vec![person("ann", false), person("bob", true), person("cyd", true), judge("x"), judge("y")];
    let pair = |id: &str, said: &[(usize, bool)]| LabeledPair {
        id: id.to_owned(),
        file: Some(true),
        labels: said
            .iter()
            .map(|(number, yes)| (*number, Label { exact: Some(*yes), ..Label::default() }))
            .collect(),
    };
    let pairs = vec![
        pair("only judges, who agree", &[(3, true), (4, true)]),
        pair("only judges", &[(3, true), (4, false)]),
        pair("nobody of those who count, and judges", &[(0, true), (3, false)]),
        pair("nobody of those who count, who agrees", &[(0, false), (4, false)]),
        pair("a tie", &[(1, true), (2, false)]),
    ];
    let listed = |annotators: &[Annotator], pairs: &[LabeledPair]| {
        let gathered =
            StudyData { annotators: annotators.to_vec(), pairs: pairs.to_vec(), ..StudyData::default() };
        let disagreements = Study::new(&gathered, &options()).disagreements;
        assert!(disagreements.iter().all(|pair| pair.majority.is_none()));
        disagreements.into_iter().map(|pair| (pair.pair, pair.among_people)).collect::<Vec<_>>()
    };
    let expected =
        [("only judges", false), ("nobody of those who count, and judges", false), ("a tie", true)];
    assert_eq!(listed(&annotators, &pairs), expected.map(|(pair, people)| (pair.to_owned(), people)));
}

#[test]
fn a_label_counts_only_under_what_it_speaks_of() {
    let mut gathered = gathered();
    for pair in &mut gathered.pairs {
        for (number, label) in &mut pair.labels {
            // The model judges by the criterion 50 %, and two of the people label by both.
            if *number == 6 {
                (label.half, label.exact) = (label.exact, None);
            } else if *number < 2 {
                label.half = Some(true);
            }
        }
    }
    let study = Study::new(&gathered, &options());
    let model = row(&study, "model");
    assert_eq!(model.exact, MajorityAgreement::default());
    let accuracy = model.half.accuracy.unwrap();
    assert_eq!((accuracy.hits, accuracy.of), (6, 10));
    let criteria: Vec<(bool, Criterion, usize)> =
        study.agreement.iter().map(|row| (row.tests, row.criterion, row.people)).collect();
    assert_eq!(
        criteria,
        [(true, Criterion::Exact, 3), (true, Criterion::Half, 2), (false, Criterion::Exact, 3)]
    );
    // α is undefined if everybody always says yes.
    assert_eq!(study.agreement[1].alpha, None);
}

#[test]
fn several_labels_of_a_pair_are_no_several_pairs() {
    let interval = |study: &Study, name: &str| {
        let accuracy = row(study, name).exact.accuracy.unwrap();
        accuracy.interval.map(|interval| interval.high - interval.low).unwrap()
    };
    // Three people who always give the same labels add no information beyond one.
    let mut gathered = gathered();
    for pair in &mut gathered.pairs {
        let label = pair.labels[&0].clone();
        pair.labels = [0, 3, 4, 5].map(|number| (number, label.clone())).into();
    }
    for pair in &mut gathered.pairs[..4] {
        let expert = pair.labels.get_mut(&0).unwrap();
        expert.exact = expert.exact.map(|label| !label);
    }
    let options =
        StudyOptions { bootstrap: Bootstrap { resamples: 2000, ..Bootstrap::default() }, ..options() };
    let study = Study::new(&gathered, &options);
    let (one, all) = (interval(&study, "dee, without tests"), interval(&study, "people, without tests"));
    assert_eq!(row(&study, "people, without tests").exact.accuracy.unwrap().of, 30);
    assert!(all > 0.9 * one && all < 1.3 * one, "{one} {all}");
    // A small sample without errors is not certain.
    let certain = Share::of_labels(&[(3, 3), (3, 3)], &options.bootstrap).unwrap();
    assert_eq!((certain.share, certain.interval), (1.0, Share::new(2, 2, 0.95).unwrap().interval));
}

#[test]
fn a_person_who_labels_with_tests_and_without_has_one_vote_among_all() {
    let person = |name: &str, tests| Annotator::Person { name: name.to_owned(), tests };
    let annotators = vec![person("ann", false), person("ann", true), person("bob", false)];
    let label = |yes| Label { exact: Some(yes), ..Label::default() };
    let pair = LabeledPair {
        id: "1".to_owned(),
        labels: [(0, label(true)), (1, label(true)), (2, label(false))].into(),
        ..LabeledPair::default()
    };
    let gathered = StudyData { annotators, pairs: vec![pair], ..StudyData::default() };
    let study = Study::new(&gathered, &StudyOptions { truth: ReferenceMajority::People, ..options() });
    assert_eq!(study.disagreements[0].majority, None, "one of two is not a majority");
}

#[test]
fn programs_and_time() {
    let work = |person: &str, pair, program, minutes| LabelWork {
        person: person.to_owned(),
        tests: true,
        pair,
        program,
        minutes,
    };
    let gathered = StudyData {
        work: vec![
            work("ann", 0, Some((RunResult::Passed, 4)), Some(2.0)),
            work("ann", 1, Some((RunResult::Failed, 5)), Some(3.0)),
            work("ann", 2, Some((RunResult::MissingPackage, 3)), None),
            work("bob", 0, Some((RunResult::Error, 0)), Some(10.0)),
            work("bob", 1, None, Some(4.0)),
        ],
        ..StudyData::default()
    };
    let rows = Study::new(&gathered, &options()).programs;
    let people: Vec<&str> = rows.iter().map(|row| row.people.as_str()).collect();
    assert_eq!(people, ["people, with tests", "ann, with tests", "bob, with tests"]);
    assert_eq!((rows[0].labels, rows[0].programs, rows[0].timed), (5, 4, 4));
    near(rows[0].executable.map(|share| share.share), 0.5);
    near(rows[0].mean_tests, 3.0);
    near(rows[0].mean_minutes, 4.75);
    near(rows[0].median_minutes, 3.5);
    assert_eq!(rows[1].results, BTreeMap::from([("passed", 1), ("failed", 1), ("missing_package", 1)]));
}

#[test]
fn ratings_have_means_and_correlations() {
    let (p, q, g) = (
        [3.0, 2.0, 3.0, 0.0, 1.0, 2.0, 0.0, 3.0],
        [3.0, 3.0, 2.0, 0.0, 1.0, 1.0, -1.0, 3.0],
        [3.0, 2.0, 2.0, 1.0, 1.0, 3.0, 0.0, 3.0],
    );
    let scored = |item: usize| {
        let people = [("p", p[item]), ("q", q[item])];
        ScoredItem {
            system: Some(if item < 4 { "old" } else { "new" }.to_owned()),
            people: (people.into_iter().filter(|(_, score)| *score >= 0.0))
                .map(|(name, score)| (name.to_owned(), score))
                .collect(),
            judges: [("model".to_owned(), g[item])].into(),
        }
    };
    let scale = Scale { guideline: "query4code".to_owned(), items: (0..8).map(scored).collect() };
    let gathered = StudyData { scales: vec![scale], ..StudyData::default() };
    let study = Study::new(&gathered, &options());
    let find = |rater: &str, against: Option<&str>| {
        let is = |row: &&ScoreRow| row.rater == rater && row.against.as_deref() == against;
        study.scores.iter().find(is).unwrap()
    };
    let q = find("q", Some("model"));
    assert_eq!((q.items, q.common), (7, 7));
    near(Some(q.mean), 13.0 / 7.0);
    near(q.pearson, 0.631_629_920_710_096_7);
    near(q.kendall, 0.545_705_156_331_749_2);
    let others = find("p", Some("the other people"));
    near(others.pearson, 0.831_584_185_795_110_1);
    near(others.kendall, 0.705_882_352_941_176_3);
    near(Some(find("p", Some("model")).mean), 1.75);
    near(study.score_agreement[0].alpha_ordinal, 0.776_329_509_906_152_2);
    near(study.score_agreement[0].alpha_nominal, 0.434_782_608_695_652_1);
    // Lists 4 to 7 of the new system: means 1, 1.5, 0 and 3.
    let new = study.systems.iter().find(|row| row.system == "new").unwrap();
    assert_eq!((new.lists, new.ratings), (4, 7));
    near(Some(new.mean), 5.5 / 4.0);
    let interval = new.interval.unwrap();
    assert!(interval.low < new.mean && new.mean < interval.high);
}

#[test]
fn preferences_count_queries_and_not_sides() {
    // Of nine queries the new data set wins seven, the old one wins one, one is tied; sides are swapped in every other.
    let vote = |query: usize, person: &str, winner: &str| {
        let sides = if query.is_multiple_of(2) { ["new", "old"] } else { ["old", "new"] };
        let prefers = match winner {
            "tie" => Preferred::Neither,
            winner if winner == sides[0] => Preferred::First,
            _ => Preferred::Second,
        };
        PreferenceVote {
            content: query.to_string(),
            sides: sides.map(str::to_owned),
            person: person.to_owned(),
            prefers,
        }
    };
    let winners = ["new", "new", "new", "old", "tie", "new", "new", "new", "new"];
    let mut votes: Vec<PreferenceVote> = (0..9).map(|query| vote(query, "ann", winners[query])).collect();
    let only = |votes: Vec<PreferenceVote>| {
        Study::new(&StudyData { votes, ..StudyData::default() }, &options()).preferences.remove(0)
    };
    let one = only(votes.clone());
    assert_eq!(one.systems, ["new", "old"]);
    assert_eq!((one.people, one.votes, one.queries), (1, [7, 1, 1], [7, 1, 1]));
    near(one.vote_share, 7.0 / 8.0);
    near(Some(one.p), 0.070_312_5);
    near(one.share.and_then(|share| share.interval).map(|interval| interval.low), 0.529_111_817_787_146_6);
    // The second person turns one more query into a tie; no query is counted twice.
    votes.extend([vote(0, "bob", "old"), vote(1, "bob", "new")]);
    let two = only(votes);
    assert_eq!((two.people, two.votes, two.queries), (2, [8, 2, 1], [6, 1, 2]));
}

#[test]
fn reviews_are_counted_by_person_and_model() {
    let said = |person: &str, review| (person.to_owned(), "model".to_owned(), review);
    let reviews = vec![
        said("ann", GeneratedStatus::Approved),
        said("ann", GeneratedStatus::Edited),
        said("bob", GeneratedStatus::Rejected),
    ];
    let study = Study::new(&StudyData { reviews, ..StudyData::default() }, &options());
    let counts: Vec<_> = study
        .reviews
        .iter()
        .map(|row| (row.person.as_str(), row.approved, row.edited, row.rejected))
        .collect();
    assert_eq!(counts, [("ann", 1, 1, 0), ("bob", 0, 0, 1)]);
    assert_eq!(study.tables().len(), 1);
}

#[test]
fn nothing_makes_no_table_and_no_noise() {
    let study = Study::new(&StudyData::default(), &options());
    assert!(study.tables().is_empty());
}
