//! CoSQA+: ranking the full corpus for every query with a positive; queries may have several.

use super::candidates::over_seeds;
use super::request::Request;
use super::{Outcome, Part, Protocol, Role};
use crate::EvalError;
use crate::evaluation::{Conventions, Evaluation, Unjudged, evaluate_method, positions, values};
use crate::method::Prepared;
use quarry_corpus::dataset::convert;
use quarry_corpus::dataset::split::{self, deal};
use quarry_corpus::formats::Query;
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::run as run_format;
use quarry_metrics::Measure;
use quarry_metrics::MetricsError;
use quarry_metrics::abstention::Confidence;
use quarry_metrics::agreement::{Variance, average_variance, cronbach_alpha};
use quarry_metrics::ranking::{TiePolicy, rank_judged};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

const ROLES: &[Role] = &[
    Role::required("pairs", &["cosqa-plus"], "labeled pairs"),
    Role::optional("codes", &["cosqa-plus-codes"], "the code base; without it the codes of the pairs"),
    Role::optional(
        "candidates",
        &["trec-run"],
        "TREC runs of the candidates that each encoder chose, a file for each: leaves the pool of each out in turn",
    ),
];
const OPTIONS: &[&str] = &["measures", "ties", "seeds", "fold", "as_released", "as_published"];

pub(super) static COSQA_PLUS_V1: Protocol = Protocol {
    name: "cosqa-plus-v1",
    source: "CoSQA+ version 1, research questions 3 and 4",
    about: "CoSQA+: all codes for each query with a positive, and for those with 2, 3, 4 and 5 of them; over several \
            methods, Cronbach's alpha and the average variance over these four. A fold is a part of the queries, split \
            8 : 1 : 1 as for fine-tuning. As released, MRR and MMRR see the first 1,000 codes only",
    roles: ROLES,
    measures: &[
        Measure::MultiChoiceReciprocalRank(None),
        Measure::ReciprocalRank(None),
        Measure::AveragePrecision(None),
        Measure::Ndcg(Some(10)),
        Measure::Judged(10),
    ],
    options: OPTIONS,
    discrepancies: &["P5", "P10", "W2"],
    strata: None,
    published: Some([128, 512]),
    run: |request| run(request, "P5", BY_POSITIVES.to_vec()),
};

pub(super) static COSQA_PLUS_V2: Protocol = Protocol {
    name: "cosqa-plus-v2",
    source: "CoSQA+ version 2, retrieval",
    about: "CoSQA+: all codes for each query with a positive, and for those with each number of them. A fold is a part of \
            the queries, split 8 : 1 : 1 as for fine-tuning. As released, all metrics are cut off at 10",
    roles: ROLES,
    measures: &[
        Measure::Ndcg(Some(10)),
        Measure::ReciprocalRank(None),
        Measure::AveragePrecision(None),
        Measure::MultiChoiceReciprocalRank(None),
        Measure::Judged(10),
    ],
    options: OPTIONS,
    discrepancies: &["P10", "V3", "V4", "V7", "W2"],
    strata: None,
    published: Some([128, 256]),
    run: |request| {
        let mut outcome = run(request, "V7", (1..=20).collect())?;
        outcome.discrepancies.extend(["V3", "V4"].map(String::from));
        Ok(outcome)
    },
};

/// Numbers of positives that the first paper distinguishes.
const BY_POSITIVES: [usize; 4] = [2, 3, 4, 5];

fn run(request: &Request<'_>, discrepancy: &str, by_positives: Vec<usize>) -> Result<Outcome, EvalError> {
    let benchmark = request.benchmark(&["codes", "pairs"], &convert::ConvertOptions::default())?;
    let Prepared { scorer, model } = request.prepare(&benchmark)?;
    let conventions = request.options.conventions(TiePolicy::IndexDesc);
    let measures: Vec<Measure> =
        request.measures().into_iter().map(|measure| cut_off(request, measure)).collect();
    let mut variants = vec![Variant {
        name: "unjudged removed".into(),
        qrels: benchmark.qrels.clone(),
        unjudged: Unjudged::Removed,
        evaluation: Evaluation::new(measures.clone()),
    }];
    variants.extend(without_each_pool(request, &benchmark.qrels, &measures)?);
    let positions = positions(&benchmark.documents);
    let ids: Vec<&str> = benchmark.documents.iter().map(|document| document.id.as_str()).collect();
    // Scoring is the expensive part: all variants are evaluated on the same scores.
    let queries: HashMap<&str, &Query> =
        benchmark.queries.iter().map(|query| (query.id.as_str(), query)).collect();
    let all = evaluate_method(&benchmark, scorer.as_ref(), &measures, &conventions, |query, scores| {
        if let (Some(observe), Some(query)) = (request.observe, queries.get(query)) {
            observe("all", &benchmark, query, scores)?;
        }
        let confidence = Confidence::new(scores);
        variants.iter_mut().try_for_each(|variant| {
            let conventions = Conventions { unjudged: variant.unjudged, ..conventions };
            let Some(judged) = variant.qrels.get(query) else { return Ok(()) };
            if judged.values().all(|grade| *grade < 1) {
                return Ok(());
            }
            let mut judged_positions: Vec<(usize, i32)> =
                judged.iter().map(|(document, grade)| (positions[document.as_str()], *grade)).collect();
            judged_positions.sort_unstable();
            let ranking = rank_judged(&ids, scores, &judged_positions, conventions.ties)?;
            let values = values(&measures, ranking, judged, &conventions);
            variant.evaluation.push(query.to_owned(), values, confidence);
            Ok(())
        })
    })?;
    let n_documents = benchmark.documents.len();
    let n_positives = |query: &str| benchmark.qrels[query].values().filter(|grade| **grade > 0).count();
    let (folds, mut figures) = folded(request, &benchmark, all)?;
    let counted: BTreeSet<String> = folds.iter().flat_map(Part::query_ids).map(str::to_owned).collect();
    let mut parts = Vec::new();
    for fold in folds {
        let ending = if fold.name == "all" { String::new() } else { format!(", {}", fold.name) };
        let of_number = |n: &usize| {
            let evaluation = only(fold.evaluation()?, |query| n_positives(query) == *n);
            let plural = if *n == 1 { "" } else { "s" };
            let name = format!("{n} positive{plural}{ending}");
            (!evaluation.queries.is_empty()).then(|| Part::rankings(name, n_documents, evaluation))
        };
        let of_numbers: Vec<Part> = by_positives.iter().filter_map(of_number).collect();
        parts.push(fold);
        parts.extend(of_numbers);
    }
    for variant in variants {
        let evaluation = only(&variant.evaluation, |query| counted.contains(query));
        if !evaluation.queries.is_empty() {
            parts.push(Part::rankings(variant.name, n_documents, evaluation));
        }
    }
    figures.insert(
        "queries with a positive".into(),
        benchmark.qrels.keys().filter(|of| n_positives(of) > 0).count() as f64,
    );
    figures
        .insert("positives".into(), benchmark.qrels.keys().map(|of| n_positives(of)).sum::<usize>() as f64);
    let departure: &[&str] = if request.options.as_published { &[] } else { &["W2"] };
    let outcome = Outcome::new(request, model, parts).with_figures(figures);
    Ok(outcome.with_discrepancies(&["P10", discrepancy]).with_discrepancies(departure))
}

fn cut_off(request: &Request<'_>, measure: Measure) -> Measure {
    let k = match (request.options.as_released, request.protocol.name) {
        (false, _) => return measure,
        (true, "cosqa-plus-v1") => 1_000,
        (true, _) => 10,
    };
    match measure {
        Measure::ReciprocalRank(None) => Measure::ReciprocalRank(Some(k)),
        Measure::MultiChoiceReciprocalRank(None) => Measure::MultiChoiceReciprocalRank(Some(k)),
        Measure::AveragePrecision(None) => Measure::AveragePrecision(Some(k)),
        other => other,
    }
}

/// Other judgments for the same scores.
struct Variant {
    name: String,
    qrels: Qrels,
    unjudged: Unjudged,
    evaluation: Evaluation,
}

/// For each encoder, the judgments without those that only its candidates contributed. Documents that no encoder
/// contributed, such as generated codes, remain.
fn without_each_pool(
    request: &Request<'_>,
    qrels: &Qrels,
    measures: &[Measure],
) -> Result<Vec<Variant>, EvalError> {
    let mut pools: Vec<(String, HashSet<(String, String)>)> = Vec::new();
    for path in request.files.get("candidates").into_iter().flatten() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let run = run_format::read(path)?;
        let pairs = run.iter().flat_map(|(query, found)| {
            found.documents().map(move |document| (query.clone(), document.to_owned()))
        });
        pools.push((name, pairs.collect()));
    }
    let without = |left_out: usize| {
        let mut qrels = qrels.clone();
        for (query, judged) in &mut qrels {
            judged.retain(|document, _| {
                let pair = (query.clone(), document.clone());
                let mut others = pools.iter().enumerate().filter(|(index, _)| *index != left_out);
                !pools[left_out].1.contains(&pair) || others.any(|(_, (_, pool))| pool.contains(&pair))
            });
        }
        Variant {
            name: format!("pool without {}", pools[left_out].0),
            qrels,
            unjudged: Unjudged::NonRelevant,
            evaluation: Evaluation::new(measures.to_vec()),
        }
    };
    Ok((0..pools.len()).map(without).collect())
}

/// The queries of a fold, for each seed; all queries without a fold. Also returns means and deviations over seeds.
fn folded(
    request: &Request<'_>,
    benchmark: &Benchmark,
    all: Evaluation,
) -> Result<(Vec<Part>, BTreeMap<String, f64>), EvalError> {
    let n_documents = benchmark.documents.len();
    let Some(fold) = request.options.fold else {
        return Ok((vec![Part::rankings("all", n_documents, all)], BTreeMap::new()));
    };
    let folds = [("train", 8.0), ("dev", 1.0), ("test", 1.0)].map(|(name, weight)| split::Part {
        name: name.into(),
        weight,
        positives_only: false,
    });
    let n_positives: Vec<usize> =
        benchmark.qrels.values().map(|judged| judged.values().filter(|grade| **grade > 0).count()).collect();
    let mut parts = Vec::new();
    for seed in request.options.seeds(0) {
        let dealt = deal(&n_positives, &folds, seed.into());
        let dealt: HashMap<&str, usize> = benchmark.qrels.keys().map(String::as_str).zip(dealt).collect();
        let evaluation = only(&all, |query| dealt[query] == fold as usize);
        if evaluation.queries.is_empty() {
            return Err(
                MetricsError::NoQueries { remedy: "the fold has no query; measure all, or another" }.into()
            );
        }
        let name = format!("{}, seed {seed}", folds[fold as usize].name);
        parts.push(Part::rankings(name, n_documents, evaluation));
    }
    let means: Vec<BTreeMap<String, f64>> = parts.iter().map(Part::means).collect();
    Ok((parts, over_seeds(&means)))
}

/// The evaluation restricted to the wanted queries.
fn only(evaluation: &Evaluation, wanted: impl Fn(&str) -> bool) -> Evaluation {
    let kept =
        || evaluation.queries.iter().zip(&evaluation.confidences).filter(|((query, _), _)| wanted(query));
    Evaluation {
        measures: evaluation.measures.clone(),
        queries: kept().map(|(query, _)| query.clone()).collect(),
        confidences: kept().map(|(_, confidence)| *confidence).collect(),
    }
}

/// Reliability of each measure over the queries with 2, 3, 4 and 5 positives, from the means by part of several methods
/// ([`Outcome::means`]): Cronbach's alpha with the methods as items and the four sets as cases, and the population
/// variance of a method's score over the four, averaged over methods. Undefined values are omitted.
pub fn reliability(methods: &[BTreeMap<String, BTreeMap<String, f64>>]) -> BTreeMap<String, f64> {
    let measures: BTreeSet<&String> =
        methods.iter().flat_map(BTreeMap::values).flat_map(BTreeMap::keys).collect();
    let mut figures = BTreeMap::new();
    for measure in measures {
        let of_number = |n: usize| -> Vec<Option<f64>> {
            let part = format!("{n} positives");
            methods.iter().map(|parts| parts.get(&part)?.get(measure).copied()).collect()
        };
        let table = BY_POSITIVES.map(of_number);
        if let Some(alpha) = cronbach_alpha(&table) {
            figures.insert(format!("{measure}: cronbach alpha"), alpha);
        }
        if let Some(variance) = average_variance(&table, Variance::Population) {
            figures.insert(format!("{measure}: average variance"), variance);
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use crate::protocol::request::Fold;
    use crate::protocol::tests::{Fixture, check};

    /// Queries with 0 to 2 positives over four codes: 0 `a`, 1 `aab`, 2 `abb`, 3 `b`.
    fn fixture() -> Fixture {
        let codes = ["a", "aab", "abb", "b"];
        let pair = |(number, (query, text, code, label)): (usize, (usize, &str, usize, u8))| {
            serde_json::json!({
                "pair-idx": number, "query-idx": query, "query": text, "code-idx": code, "code": codes[code],
                "label": label
            })
        };
        let pairs =
            [(0, "a", 1, 1), (0, "a", 2, 1), (0, "a", 0, 0), (1, "b", 0, 1), (1, "b", 3, 0), (2, "ab", 3, 0)];
        let pairs: Vec<serde_json::Value> = pairs.into_iter().enumerate().map(pair).collect();
        let base: Vec<serde_json::Value> =
            (0..).zip(codes).map(|(id, code)| serde_json::json!({"code-idx": id, "code": code})).collect();
        Fixture::new(&[
            ("pairs.json", &serde_json::to_string(&pairs).unwrap()),
            ("codes.json", &serde_json::to_string(&base).unwrap()),
            ("first.run", "0 Q0 0 1 3 t\n0 Q0 1 2 2 t\n1 Q0 0 1 1 t\n"),
            ("second.run", "0 Q0 0 1 3 t\n1 Q0 3 1 1 t\n"),
        ])
    }

    #[test]
    fn queries_with_a_positive_are_ranked_over_all_codes() {
        let fixture = fixture();
        let files: &[(&str, &[&str])] = &[("pairs", &["pairs.json"]), ("codes", &["codes.json"])];
        let outcome = fixture.run("cosqa-plus-v1", files);
        let part = |name: &str| outcome.parts.iter().find(|part| part.name == name).unwrap();
        assert_eq!((part("all").queries, part("all").documents), (2, 4));
        // `a`: 0, then the positives 1 and 2. `b`: 3, 2, 1, then the positive 0.
        check(part("all").means()["mrr"], (1.0 / 2.0 + 1.0 / 4.0) / 2.0);
        check(part("all").means()["mmrr"], ((1.0 / 2.0 + 1.0 / 2.0) / 2.0 + 1.0 / 4.0) / 2.0);
        check(part("all").means()["map"], ((1.0 / 2.0 + 2.0 / 3.0) / 2.0 + 1.0 / 4.0) / 2.0);
        check(part("all").means()["judged@10"], (3.0 / 4.0 + 2.0 / 4.0) / 2.0);
        check(part("2 positives").means()["mrr"], 0.5);
        // With the unjudged codes 2 and 1 removed, `b` ranks 0 after 3.
        check(part("unjudged removed").means()["mrr"], (1.0 / 2.0 + 1.0 / 2.0) / 2.0);
        assert_eq!((outcome.figures["queries with a positive"], outcome.figures["positives"]), (2.0, 3.0));
        assert_eq!(outcome.discrepancies, ["P10", "P5", "W2"]);
        let outcome = fixture.run("cosqa-plus-v2", files);
        let names: Vec<&str> = outcome.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["all", "1 positive", "2 positives", "unjudged removed"]);
        assert_eq!(outcome.discrepancies, ["P10", "V7", "W2", "V3", "V4"]);
    }

    #[test]
    fn pools_are_left_out_in_turn() {
        let fixture = fixture();
        let outcome = fixture.run(
            "cosqa-plus-v1",
            &[
                ("pairs", &["pairs.json"]),
                ("codes", &["codes.json"]),
                ("candidates", &["first.run", "second.run"]),
            ],
        );
        let part = |name: &str| outcome.parts.iter().find(|part| part.name == name).unwrap();
        // Without the candidates that only the first encoder found, query 0 keeps only code 2, which neither found,
        // at rank 3, and query 1 has no positive left.
        assert_eq!(part("pool without first").queries, 1);
        check(part("pool without first").means()["mrr"], 1.0 / 3.0);
        check(part("pool without first").means()["judged@10"], 2.0 / 4.0);
        // The second encoder alone contributed only the negative of query 1.
        check(part("pool without second").means()["mrr"], (1.0 / 2.0 + 1.0 / 4.0) / 2.0);
        check(part("pool without second").means()["judged@10"], (3.0 / 4.0 + 1.0 / 4.0) / 2.0);
    }

    #[test]
    fn folds_and_cut_offs_are_options() {
        let mut fixture = fixture();
        fixture.options.fold = Some(Fold::Train);
        fixture.options.seeds = vec![1, 2];
        fixture.options.as_released = true;
        let outcome = fixture.run("cosqa-plus-v2", &[("pairs", &["pairs.json"])]);
        // If only one query has a number of positives, it goes to the part that lacks most: train.
        let names: Vec<&str> = outcome.parts.iter().map(|part| part.name.as_str()).collect();
        assert!(names.contains(&"train, seed 1") && names.contains(&"train, seed 2"), "{names:?}");
        check(outcome.figures["mrr@10 deviation"], 0.0);
        assert!(outcome.parts[0].means().contains_key("mmrr@10"));
    }
}
