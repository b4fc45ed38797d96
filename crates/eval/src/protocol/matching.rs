//! Matching a query with a code: verdicts on pairs, by a method's score and a threshold.

use super::request::Request;
use super::{Outcome, Part, Predictions, Protocol, Role, Values, Verdicts};
use crate::EvalError;
use crate::method::{Corpus, Prepared, Scale};
use quarry_corpus::formats::{Document, FormatError, Pair, Query, Record};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Numbers in addition to the measures, by name.
type Figures = BTreeMap<String, f64>;

const DEV: Role = Role::optional(
    "dev",
    &["cosqa-qa", "gecs", "cosqa-plus"],
    "labeled pairs on which another threshold is chosen",
);

pub(super) static PAIR_MATCHING: Protocol = Protocol {
    name: "pair-matching",
    source: "CoSQA, GenCodeSearchNet section 5",
    about: "Decides for each pair whether the code answers the query, with the threshold of the method's scores (0.5, \
            or 0 for log-odds) and with the best one on other pairs",
    roles: &[Role::required("pairs", &[], "labeled pairs"), DEV],
    measures: &[],
    options: &[],
    discrepancies: &["G6", "W1"],
    strata: None,
    published: None,
    run: |request| {
        let mut outcome = labeled(request)?;
        if request.method.asks_chat_models() {
            outcome.discrepancies.push("W1".into());
        }
        if outcome.figures["positives"] == outcome.figures["pairs"] {
            outcome.discrepancies.push("G6".into());
        }
        Ok(outcome)
    },
};

pub(super) static COSQA_QA: Protocol = Protocol {
    name: "cosqa-qa",
    source: "CoSQA, question answering",
    about: "CoSQA's question answering on labeled pairs; CodeXGLUE chooses by the mean of accuracy and F1",
    roles: &[Role::required("pairs", &["cosqa-qa"], "labeled pairs"), DEV],
    measures: &[],
    options: &[],
    discrepancies: &["P9"],
    strata: None,
    published: None,
    run: |request| Ok(labeled(request)?.with_discrepancies(&["P9"])),
};

pub(super) static WEBQUERYTEST: Protocol = Protocol {
    name: "webquerytest",
    source: "CodeXGLUE NL-code-search-WebQuery, CoSQA",
    about: "WebQueryTest: a verdict for each pair to submit, scored if answers are given, and the overlap with \
            the code base of CoSQA",
    roles: &[
        Role::required("pairs", &["webquery"], "the pairs"),
        DEV,
        Role::optional("answers", &["webquery-answers"], "their labels"),
        Role::optional(
            "predictions",
            &["webquery-answers"],
            "verdicts that are scored instead of a method's",
        ),
        Role::optional("codes", &["cosqa-codes"], "CoSQA's code base, for the overlap of codes"),
        Role::optional(
            "queries",
            &["cosqa-qa", "cosqa-retrieval"],
            "CoSQA's pairs, for the overlap of queries",
        ),
    ],
    measures: &[],
    options: &[],
    discrepancies: &["C9", "C10"],
    strata: None,
    published: None,
    run: webquerytest,
};

/// Verdicts on pairs with labels in the same file.
fn labeled(request: &Request<'_>) -> Result<Outcome, EvalError> {
    let pairs = request.pairs("pairs")?;
    let unlabeled = |pairs: &[Pair], role: &str| match pairs.iter().find(|pair| pair.label.is_none()) {
        Some(pair) => Err(EvalError::Format(FormatError::File {
            path: request.files[role][0].clone(),
            expected: "a label of 0 or 1 for each pair".into(),
            found: format!("none for {}", pair.id.as_deref().unwrap_or("a pair without id")),
            remedy: "name labeled pairs; WebQueryTest has its own protocol".into(),
        })),
        None => Ok(()),
    };
    unlabeled(&pairs, "pairs")?;
    let truth: Vec<Option<bool>> = pairs.iter().map(|pair| pair.label.map(|label| label > 0)).collect();
    let dev = request.pairs("dev")?;
    unlabeled(&dev, "dev")?;
    let (parts, model, mut figures) = verdicts(request, &pairs, &truth, &dev)?;
    figures.insert("pairs".into(), pairs.len() as f64);
    figures.insert("positives".into(), truth.iter().filter(|truth| **truth == Some(true)).count() as f64);
    Ok(Outcome::new(request, model, parts).with_figures(figures))
}

/// Parts at the threshold of the method's scale and, with `dev`, at the best threshold on it, along with the model
/// and figures.
fn verdicts(
    request: &Request<'_>,
    pairs: &[Pair],
    truth: &[Option<bool>],
    dev: &[Pair],
) -> Result<(Vec<Part>, Option<String>, Figures), EvalError> {
    // One corpus for both, so that scores are comparable.
    let all: Vec<&Pair> = pairs.iter().chain(dev).collect();
    let (mut scores, scale, model) = scores(request, &all)?;
    let of_dev = scores.split_off(pairs.len());
    let ids: Vec<String> = (0..).zip(pairs).map(|(n, pair)| pair_id(pair, n)).collect();
    let part = |name: &str, threshold| {
        let scored =
            ids.iter().zip(truth).zip(&scores).map(|((id, truth), score)| (id.clone(), *truth, *score));
        decided(name, pairs, scored, threshold)
    };
    let mut parts = vec![part(&format!("at {}", scale.threshold()), scale.threshold())?];
    let mut figures = BTreeMap::new();
    if !dev.is_empty() {
        let labels: Vec<bool> = dev.iter().map(|pair| pair.label.is_some_and(|label| label > 0)).collect();
        let (threshold, accuracy) = best_threshold(&labels, &of_dev);
        figures.insert("threshold of dev".into(), threshold);
        figures.insert("accuracy on dev".into(), accuracy);
        parts.push(part("at the threshold of dev", threshold)?);
    }
    if let Some(truth) = truth.iter().copied().collect::<Option<Vec<bool>>>() {
        // The maximum over all thresholds, selected on the same pairs on which it is measured.
        figures.insert("accuracy at best, an upper bound".into(), best_threshold(&truth, &scores).1);
        for part in &parts {
            let means = part.means();
            let mean = (means["accuracy"] + means["f1"]) / 2.0;
            figures.insert(format!("{}: mean of accuracy and f1", part.name), mean);
        }
    }
    Ok((parts, model, figures))
}

/// The part of pairs with a truth, if it is known, and a score.
fn decided(
    name: &str,
    pairs: &[Pair],
    scored: impl IntoIterator<Item = (String, Option<bool>, f64)>,
    threshold: f64,
) -> Result<Part, EvalError> {
    let codes: HashSet<&str> = pairs.iter().map(|pair| pair.code.text.as_str()).collect();
    let queries: HashSet<&str> = pairs.iter().map(|pair| pair.query.text.as_str()).collect();
    let values = Values::Verdicts(Verdicts::decide(scored, threshold)?);
    Ok(Part { name: name.into(), queries: queries.len(), documents: codes.len(), values })
}

fn webquerytest(request: &Request<'_>) -> Result<Outcome, EvalError> {
    let pairs = request.pairs("pairs")?;
    let labels = labels(request, "answers")?;
    let label_of = |labels: &HashMap<String, bool>, role: &str, pair: &Pair, n: usize| {
        let id = pair_id(pair, n);
        labels.get(&id).copied().ok_or_else(|| lacking(request, role, &id))
    };
    let known = request.has("answers");
    let truth = (0..)
        .zip(&pairs)
        .map(|(n, pair)| if known { label_of(&labels, "answers", pair, n).map(Some) } else { Ok(None) });
    let truth = truth.collect::<Result<Vec<_>, _>>()?;
    let (parts, model, mut figures) = if request.has("predictions") {
        let predicted = self::labels(request, "predictions")?;
        let scored = (0..).zip(&pairs).zip(&truth).map(|((n, pair), truth)| {
            let says = label_of(&predicted, "predictions", pair, n)?;
            Ok((pair_id(pair, n), *truth, f64::from(u8::from(says))))
        });
        let scored = scored.collect::<Result<Vec<_>, EvalError>>()?;
        let part = decided("predictions", &pairs, scored, Scale::Probability.threshold())?;
        (vec![part], None, BTreeMap::new())
    } else {
        verdicts(request, &pairs, &truth, &request.pairs("dev")?)?
    };
    let mut discrepancies = vec![];
    if !known {
        discrepancies.push("C10");
    }
    // White space was normalized before publication, but only in the codes of WebQueryTest.
    let shared = |role: &str, side: fn(&Pair) -> &str, known: &HashSet<String>| {
        let texts = pairs.iter().map(side).map(normalized);
        let texts: Vec<String> = if role == "codes" {
            texts.collect()
        } else {
            texts.collect::<HashSet<_>>().into_iter().collect()
        };
        texts.iter().filter(|text| known.contains(*text)).count() as f64
    };
    if request.has("codes") {
        let known = texts(request, "codes")?;
        figures.insert("codes that CoSQA has too".into(), shared("codes", |pair| &pair.code.text, &known));
        discrepancies.push("C9");
    }
    if request.has("queries") {
        let known = texts(request, "queries")?;
        figures.insert("queries of CoSQA".into(), known.len() as f64);
        figures
            .insert("queries that CoSQA has too".into(), shared("queries", |pair| &pair.query.text, &known));
        discrepancies.push("C9");
    }
    figures.insert("pairs".into(), pairs.len() as f64);
    discrepancies.dedup();
    let mut outcome =
        Outcome::new(request, model, parts).with_figures(figures).with_discrepancies(&discrepancies);
    let handed_in = outcome.parts.last().and_then(|part| match &part.values {
        Values::Verdicts(verdicts) => {
            Some(verdicts.pairs.iter().map(|pair| (pair.pair.clone(), pair.prediction)).collect())
        }
        Values::Rankings(_) => None,
    });
    outcome.predictions = handed_in.map(Predictions::Webquery);
    Ok(outcome)
}

fn lacking(request: &Request<'_>, role: &str, id: &str) -> EvalError {
    EvalError::Format(FormatError::File {
        path: request.files[role][0].clone(),
        expected: "a line for each pair".into(),
        found: format!("none for {id:?}"),
        remedy: "add it".into(),
    })
}

/// Labels by the id of the pair.
fn labels(request: &Request<'_>, role: &str) -> Result<HashMap<String, bool>, EvalError> {
    let mut labels = HashMap::new();
    for source in request.sources(role)? {
        source.for_each(&mut |record| {
            if let Record::Label(label) = record {
                labels.insert(label.pair, label.label > 0);
            }
            Ok(())
        })?;
    }
    Ok(labels)
}

/// The distinct texts of codes, or of the queries of pairs, with runs of white space replaced by a space.
fn texts(request: &Request<'_>, role: &str) -> Result<HashSet<String>, EvalError> {
    let mut texts = HashSet::new();
    for source in request.sources(role)? {
        source.for_each(&mut |record| {
            match record {
                Record::Document(document) => texts.insert(normalized(&document.text)),
                Record::Pair(pair) => texts.insert(normalized(&pair.query.text)),
                _ => false,
            };
            Ok(())
        })?;
    }
    Ok(texts)
}

fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn pair_id(pair: &Pair, number: usize) -> String {
    pair.id.clone().unwrap_or_else(|| number.to_string())
}

/// Score of each pair, with the distinct codes of all of them as corpus, their scale, and the model's identity.
fn scores(request: &Request<'_>, pairs: &[&Pair]) -> Result<(Vec<f64>, Scale, Option<String>), EvalError> {
    let (mut code_positions, mut query_positions) = (HashMap::new(), HashMap::new());
    let (mut documents, mut queries) = (Vec::new(), Vec::new());
    // For each query, the indices of its codes, and those of the pairs.
    let mut asked: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (number, pair) in pairs.iter().enumerate() {
        let code = *code_positions.entry(pair.code.text.as_str()).or_insert_with(|| {
            let (id, text) = (documents.len().to_string(), pair.code.text.clone());
            documents.push(Document::new(id, text));
            documents.len() - 1
        });
        let query = *query_positions.entry(pair.query.text.as_str()).or_insert_with(|| {
            queries.push(Query { id: queries.len().to_string(), text: pair.query.text.clone() });
            asked.push(Default::default());
            queries.len() - 1
        });
        asked[query].0.push(code);
        asked[query].1.push(number);
    }
    let Prepared { scorer, model } = request.method.prepare(Corpus { documents: &documents, qrels: None })?;
    let candidates: Vec<(&Query, &[usize])> =
        queries.iter().zip(&asked).map(|(query, (codes, _))| (query, codes.as_slice())).collect();
    let mut scores = vec![0.0; pairs.len()];
    for ((_, numbers), found) in asked.iter().zip(scorer.scores_of(&candidates)?) {
        for (number, score) in numbers.iter().zip(found) {
            scores[*number] = f64::from(score);
        }
    }
    Ok((scores, scorer.scale(), model))
}

/// The threshold with the maximum accuracy if pairs with a higher score match, and that accuracy. It is halfway
/// between two neighboring scores, or below or above all of them; the lowest of several. Scores must not be NaN.
pub(super) fn best_threshold(positive: &[bool], scores: &[f64]) -> (f64, f64) {
    let mut cases: Vec<(f64, bool)> = scores.iter().copied().zip(positive.iter().copied()).collect();
    cases.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let Some(&(minimum, _)) = cases.first() else { return (Scale::Similarity.threshold(), 0.0) };
    // Below the minimum score, everything matches.
    let mut right = positive.iter().filter(|positive| **positive).count();
    let mut best = (minimum - 1.0, right);
    for (at, &(score, positive)) in cases.iter().enumerate() {
        right = if positive { right - 1 } else { right + 1 };
        let above = cases.get(at + 1).map_or(score + 1.0, |next| next.0);
        if above > score && right > best.1 {
            best = (score + (above - score) / 2.0, right);
        }
    }
    (best.0, best.1 as f64 / cases.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{Fixture, check, prepare_log_odds, run};

    #[test]
    fn the_best_threshold_lies_between_scores() {
        // Correct verdicts, below all: 2 of 4; above the first: 3; above the second: 2; above the third: 3; above
        // all: 2.
        let best = best_threshold(&[false, true, false, true], &[0.1, 0.3, 0.5, 0.9]);
        assert_eq!(best, (0.2, 0.75));
        assert_eq!(best_threshold(&[true, true], &[0.5, 0.5]), (-0.5, 1.0));
        assert_eq!(best_threshold(&[false, true], &[0.5, 0.5]), (-0.5, 0.5));
        assert_eq!(best_threshold(&[false, false], &[0.5, 0.75]), (1.25, 1.0));
        assert_eq!(best_threshold(&[], &[]), (0.5, 0.0));
    }

    const PAIRS: &str = r#"[
        {"idx":"p-1","doc":"a","code":"a","label":1}, {"idx":"p-2","doc":"a","code":"abb","label":1},
        {"idx":"p-3","doc":"b","code":"aab","label":0}, {"idx":"p-4","doc":"b","code":"ab","label":0}]"#;
    const DEV: &str = r#"[{"idx":"d-1","doc":"a","code":"abb","label":1},
        {"idx":"d-2","doc":"a","code":"abbb","label":0}]"#;

    #[test]
    fn pairs_are_matched_at_two_thresholds() {
        let fixture = Fixture::new(&[("pairs.json", PAIRS), ("dev.json", DEV)]);
        let outcome = fixture.run("cosqa-qa", &[("pairs", &["pairs.json"]), ("dev", &["dev.json"])]);
        // Cosines 1, 1/√5 = 0.447, 0.447 and 1/√2 = 0.707: at 0.5 the first and the last match.
        let means = outcome.parts[0].means();
        check(means["accuracy"], 0.5);
        check(means["f1"], 0.5);
        check(means["roc_auc"], 2.5 / 4.0);
        // On dev, 0.447 is a match and 1/√10 = 0.316 is not; with the resulting threshold, all match.
        check(outcome.figures["threshold of dev"], (0.2_f64.sqrt() + 0.1_f64.sqrt()) / 2.0);
        let means = outcome.parts[1].means();
        check(means["accuracy"], 0.5);
        check(means["recall"], 1.0);
        check(outcome.figures["at the threshold of dev: mean of accuracy and f1"], (0.5 + 2.0 / 3.0) / 2.0);
        // Above 0.707 only the first matches.
        check(outcome.figures["accuracy at best, an upper bound"], 0.75);
        assert_eq!(outcome.discrepancies, ["P9"]);
        let matches = r#"{"input":"a [CODESPLIT] b","target":1}"#;
        let fixture = Fixture::new(&[("pairs.jsonl", matches)]);
        assert_eq!(fixture.run("pair-matching", &[("pairs", &["pairs.jsonl"])]).discrepancies, ["G6"]);
    }

    #[test]
    fn log_odds_match_above_zero() {
        let fixture = Fixture::new(&[("pairs.json", PAIRS)]);
        let files = fixture.files(&[("pairs", &["pairs.json"])]);
        let request = Request { method: &prepare_log_odds, ..fixture.request("cosqa-qa", &files) };
        let outcome = run(&request);
        // 0.2, and 0.447 and 0.707 less 0.8: only the first matches, and none is above 0.5.
        assert_eq!(outcome.parts[0].name, "at 0");
        let Values::Verdicts(verdicts) = &outcome.parts[0].values else { panic!("no verdicts") };
        assert_eq!(verdicts.threshold, 0.0);
        let predictions: Vec<bool> = verdicts.pairs.iter().map(|pair| pair.prediction).collect();
        assert_eq!(predictions, [true, false, false, false]);
        let lines =
            "{\"input\":\"a [CODESPLIT] a\",\"target\":1}\n{\"input\":\"b [CODESPLIT] b\",\"target\":1}\n";
        let mut fixture = Fixture::new(&[("pairs.jsonl", lines)]);
        fixture.options.matching_only = true;
        let files = fixture.files(&[("cosqa", &["pairs.jsonl"])]);
        let request = Request { method: &prepare_log_odds, ..fixture.request("gecs", &files) };
        check(run(&request).parts[0].means()["recall"], 1.0);
    }

    #[test]
    fn webquerytest_hands_in_verdicts_and_counts_what_is_shared() {
        let pairs = r#"[{"idx":"w-1","doc":"a","code":"a  a"}, {"idx":"w-2","doc":"a","code":"b"},
            {"idx":"w-3","doc":"b","code":"a a"}]"#;
        let fixture = Fixture::new(&[
            ("web.json", pairs),
            ("answers.txt", "w-1\t1\nw-2\t0\nw-3\t1\n"),
            ("short.txt", "w-1\t1\nw-3\t1\n"),
            ("codes.json", r#"{"a\na": 0, "c": 1}"#),
            ("known.json", r#"[{"idx":"q","doc":"b","code":"b","label":0}]"#),
        ]);
        let outcome = fixture.run(
            "webquerytest",
            &[("pairs", &["web.json"]), ("codes", &["codes.json"]), ("queries", &["known.json"])],
        );
        let verdicts = [("w-1", true), ("w-2", false), ("w-3", false)];
        let handed_in = verdicts.map(|(id, says)| (id.to_owned(), says)).to_vec();
        assert_eq!(outcome.predictions, Some(Predictions::Webquery(handed_in)));
        assert_eq!(outcome.predictions.as_ref().unwrap().text(), "w-1\t1\nw-2\t0\nw-3\t0\n");
        check(outcome.parts[0].means()["predicted_positive"], 1.0 / 3.0);
        assert_eq!(outcome.figures["codes that CoSQA has too"], 2.0);
        assert_eq!(outcome.figures["queries that CoSQA has too"], 1.0);
        assert_eq!(outcome.discrepancies, ["C10", "C9"]);
        let outcome = fixture.run("webquerytest", &[("pairs", &["web.json"]), ("answers", &["answers.txt"])]);
        check(outcome.parts[0].means()["accuracy"], 2.0 / 3.0);
        assert!(outcome.discrepancies.is_empty());
        let outcome = fixture.run(
            "webquerytest",
            &[("pairs", &["web.json"]), ("answers", &["answers.txt"]), ("predictions", &["answers.txt"])],
        );
        check(outcome.parts[0].means()["accuracy"], 1.0);
        let error = fixture.error("webquerytest", &[("pairs", &["web.json"]), ("answers", &["short.txt"])]);
        assert!(
            error.contains("short.txt: expected a line for each pair, found none for \"w-2\""),
            "{error}"
        );
    }
}
