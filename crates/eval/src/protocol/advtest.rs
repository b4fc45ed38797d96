//! AdvTest of CodeXGLUE: MRR over the full corpus on dev, over submitted lists on test.
//!
//! As in `NL-code-search-Adv` of github.com/microsoft/CodeXGLUE; both queries and codes are space-separated tokens.

use super::request::Request;
use super::{Outcome, Part, Predictions, Protocol, Role};
use crate::EvalError;
use crate::evaluation::{Evaluation, evaluate_method};
use quarry_corpus::dataset::convert;
use quarry_corpus::formats::{FormatError, Record};
use quarry_metrics::Measure;
use quarry_metrics::abstention::Confidence;
use quarry_metrics::rank::reciprocal_rank;
use quarry_metrics::ranking::{Hit, TiePolicy};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

/// Length of the lists in CodeXGLUE.
const DEPTH: usize = 100;

pub(super) static ADVTEST: Protocol = Protocol {
    name: "advtest",
    source: "CodeXGLUE NL-code-search-Adv",
    about: "AdvTest: on dev, the MRR over all codes, with equal scores before the correct one; on test, lists of \
            100 codes are written and scored, with 0 if the answer is not among them; a missing list is an error",
    roles: &[
        Role::optional("dev", &["advtest"], "validation split"),
        Role::optional("test", &["advtest"], "test split"),
        Role::optional(
            "predictions",
            &["advtest-predictions"],
            "lists for the test split, scored instead of a method's",
        ),
    ],
    measures: &[Measure::ReciprocalRank(None)],
    options: &["depth"],
    discrepancies: &[],
    strata: None,
    published: None,
    run,
};

fn run(request: &Request<'_>) -> Result<Outcome, EvalError> {
    let tokens = convert::ConvertOptions { tokens: true, ..convert::ConvertOptions::default() };
    let (mut parts, mut model, mut figures, mut handed_in) = (Vec::new(), None, BTreeMap::new(), None);
    if request.has("dev") {
        let benchmark = request.benchmark(&["dev"], &tokens)?;
        let (part, model_of_dev) =
            super::full_corpus::rank(request, "dev", &benchmark, TiePolicy::Pessimistic)?;
        parts.push(part);
        model = model_of_dev;
    }
    if request.has("test") {
        let benchmark = request.benchmark(&["test"], &tokens)?;
        let lists = match request.has("predictions") {
            true => predictions(request)?,
            false => {
                let prepared = request.prepare(&benchmark)?;
                model = prepared.model;
                let conventions = request.options.conventions(TiePolicy::IndexDesc);
                let depth = request.options.depth.unwrap_or(DEPTH);
                let mut lists = HashMap::new();
                evaluate_method(&benchmark, prepared.scorer.as_ref(), &[], &conventions, |query, scores| {
                    let best = best_positions(scores, depth);
                    let ids = best.into_iter().map(|position| benchmark.documents[position].id.clone());
                    lists.insert(query.to_owned(), ids.collect::<Vec<_>>());
                    Ok(())
                })?;
                lists
            }
        };
        let mut evaluation = Evaluation::new(request.measures());
        let mut in_order = Vec::new();
        for query in &benchmark.queries {
            let Some(list) = lists.get(&query.id) else {
                return Err(EvalError::Format(FormatError::File {
                    path: request.files.get("predictions").map_or_else(Default::default, |of| of[0].clone()),
                    expected: "a list for each url of the test split".into(),
                    found: format!("none for {}", query.id),
                    remedy: "add it: the authors' script ends here".into(),
                }));
            };
            let answers = &benchmark.qrels[&query.id];
            let hits: Vec<Hit> =
                (1..).zip(list).filter_map(|(rank, id)| Some(Hit::new(rank, *answers.get(id)?))).collect();
            // A list has an order but no scores.
            let confidence = Confidence::new::<f64>(&[]);
            evaluation.push(query.id.clone(), vec![reciprocal_rank(&hits, None)], confidence);
            in_order.push((query.id.clone(), list.clone()));
        }
        let part = Part::rankings("test", benchmark.documents.len(), evaluation);
        // The authors' evaluator prints four decimals.
        figures.insert("test mrr, as printed".into(), (part.means()["mrr"] * 1e4).round_ties_even() / 1e4);
        parts.push(part);
        handed_in = Some(Predictions::Advtest(in_order));
    }
    if parts.is_empty() {
        return Err(request.missing_any());
    }
    let mut outcome = Outcome::new(request, model, parts);
    (outcome.figures, outcome.predictions) = (figures, handed_in);
    Ok(outcome)
}

/// Indices of the highest scores, best first, ties in reverse order. Scores must not be NaN.
fn best_positions(scores: &[f32], depth: usize) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..scores.len()).collect();
    positions.sort_unstable_by(|&a, &b| {
        scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal).then(b.cmp(&a))
    });
    positions.truncate(depth);
    positions
}

/// The lists of the predictions by URL.
fn predictions(request: &Request<'_>) -> Result<HashMap<String, Vec<String>>, EvalError> {
    let mut lists: HashMap<String, Vec<String>> = HashMap::new();
    for source in request.sources("predictions")? {
        source.for_each(&mut |record| {
            if let Record::Retrieved(found) = record {
                lists.entry(found.query).or_default().push(found.document);
            }
            Ok(())
        })?;
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use crate::protocol::Predictions;
    use crate::protocol::tests::{Fixture, check};

    /// Codes 0 to 3 for the queries `u0` to `u3`.
    fn fixture() -> Fixture {
        let line = |(number, (query, code)): (usize, (&str, &str))| {
            let record = serde_json::json!({
                "idx": number, "url": format!("u{number}"), "docstring_tokens": [query],
                "function": "unused a b", "function_tokens": [code]
            });
            format!("{record}\n")
        };
        let pairs = [("a", "a"), ("b", "ab"), ("a", "aab"), ("b", "aab")];
        let lines: String = pairs.into_iter().enumerate().map(line).collect();
        let predictions = "{\"url\":\"u0\",\"answers\":[3,0]}\n{\"url\":\"u1\",\"answers\":[1]}\n\
            {\"url\":\"u2\",\"answers\":[0]}\n{\"url\":\"u3\",\"answers\":[0,1,3,2]}\n";
        let short = "{\"url\":\"u0\",\"answers\":[3,0]}\n";
        Fixture::new(&[("split.jsonl", &lines), ("lists.jsonl", predictions), ("short.jsonl", short)])
    }

    #[test]
    fn dev_ranks_all_and_test_lists() {
        let mut fixture = fixture();
        fixture.options.depth = Some(2);
        let outcome = fixture.run("advtest", &[("dev", &["split.jsonl"]), ("test", &["split.jsonl"])]);
        // Ranks 1; for b, `ab` is first and the tied codes share 2 and 3; for a, they share 2 and 3.
        check(outcome.parts[0].means()["mrr"], (1.0 + 1.0 + 1.0 / 3.0 + 1.0 / 3.0) / 4.0);
        // Of ties, the later one is first: 3 is in the lists, 2 is not.
        check(outcome.parts[1].means()["mrr"], (1.0 + 1.0 + 0.0 + 1.0 / 2.0) / 4.0);
        let Some(Predictions::Advtest(lists)) = &outcome.predictions else { panic!("no lists") };
        assert_eq!(lists[2], ("u2".into(), vec!["0".into(), "3".into()]));
        let text = outcome.predictions.as_ref().unwrap().text();
        assert_eq!(text.lines().nth(2), Some("{\"url\":\"u2\",\"answers\":[0,3]}"));
    }

    #[test]
    fn lists_are_scored_and_must_be_whole() {
        let fixture = fixture();
        let outcome =
            fixture.run("advtest", &[("test", &["split.jsonl"]), ("predictions", &["lists.jsonl"])]);
        check(outcome.parts[0].means()["mrr"], (1.0 / 2.0 + 1.0 + 0.0 + 1.0 / 3.0) / 4.0);
        check(outcome.figures["test mrr, as printed"], 0.4583);
        let files: &[(&str, &[&str])] = &[("test", &["split.jsonl"]), ("predictions", &["short.jsonl"])];
        let error = fixture.error("advtest", files);
        assert!(error.contains("short.jsonl: expected a list for each url"), "{error}");
        let error = fixture.error("advtest", &[]);
        assert!(error.contains("--dev (advtest)"), "{error}");
    }
}
