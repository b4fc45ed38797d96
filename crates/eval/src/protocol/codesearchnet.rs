//! CodeSearchNet: MRR within batches, and NDCG over the annotations of its challenge.
//!
//! As in `src/model_test.py` and `src/relevanceeval.py` of github.com/github/CodeSearchNet.

use super::candidates::over_seeds;
use super::request::Request;
use super::{Outcome, Part, Protocol, Role};
use crate::EvalError;
use crate::evaluation::{Evaluation, evaluate_method};
use crate::method::{Corpus, Prepared, QUERIES_PER_BATCH};
use quarry_corpus::dataset::numpy_random::shuffled;
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::{Document, FormatError, Judgment, Pair, Query, Record};
use quarry_metrics::Measure;
use quarry_metrics::MetricsError;
use quarry_metrics::abstention::Confidence;
use quarry_metrics::ranking::{TiePolicy, best_first, rank_judged};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Pairs per batch in CodeSearchNet.
const BATCH: usize = 1_000;

pub(super) static CSN_MRR: Protocol = Protocol {
    name: "csn-mrr",
    source: "CodeSearchNet, model_test.py",
    about: "Ranks within shuffled batches of 1,000 pairs, without a last shorter one: the queries for each code, \
            as the script does, and the codes for each query; the correct one comes after all with the same \
            score",
    roles: &[Role::required("pairs", &[], "functions with their documentation")],
    measures: &[Measure::ReciprocalRank(None)],
    options: &["measures", "seeds", "batch"],
    discrepancies: &[],
    strata: None,
    published: None,
    run: csn_mrr,
};

fn csn_mrr(request: &Request<'_>) -> Result<Outcome, EvalError> {
    let pairs = request.pairs("pairs")?;
    let pairs: Vec<&Pair> = pairs.iter().filter(|pair| pair.label != Some(0)).collect();
    // As in the script if there are too few for one batch.
    let size = request.options.batch.unwrap_or(BATCH).clamp(1, pairs.len().max(1));
    let (mut parts, mut model, mut figures) = (Vec::new(), None, Vec::new());
    for seed in request.options.seeds(0) {
        let order = shuffled(pairs.len(), seed);
        let mut evaluations = ["queries for each code", "codes for each query"]
            .map(|direction| (direction, Evaluation::new(request.measures())));
        for batch in order.chunks_exact(size) {
            let scores;
            (scores, model) = score_batch(request, &pairs, batch)?;
            for (position, number) in batch.iter().enumerate() {
                let of_queries = scores.iter().map(|of_query| of_query[position]).collect();
                let of_codes = scores[position].clone();
                for ((_, evaluation), scores) in evaluations.iter_mut().zip([of_queries, of_codes]) {
                    add_ranked(evaluation, number.to_string(), &scores, position)?;
                }
            }
        }
        let mut of_seed = BTreeMap::new();
        for (direction, evaluation) in evaluations {
            if evaluation.queries.is_empty() {
                return Err(MetricsError::NoQueries {
                    remedy: "no pair is labeled as a match; name a file of matches",
                }
                .into());
            }
            let part = Part::rankings(format!("{direction}, seed {seed}"), size, evaluation);
            of_seed.extend(
                part.means().into_iter().map(|(name, value)| (format!("{direction}: {name}"), value)),
            );
            parts.push(part);
        }
        of_seed.insert("batches".into(), (pairs.len() / size) as f64);
        of_seed.insert("pairs dropped".into(), (pairs.len() % size) as f64);
        figures.push(of_seed);
    }
    Ok(Outcome::new(request, model, parts).with_figures(over_seeds(&figures)))
}

/// Scores of the codes of a batch for each of its queries, and the model's identity.
fn score_batch(
    request: &Request<'_>,
    pairs: &[&Pair],
    batch: &[usize],
) -> Result<(Vec<Vec<f32>>, Option<String>), EvalError> {
    let document =
        |number: &usize| Document::new(number.to_string(), pairs[*number].code.form(true).to_owned());
    let query =
        |number: &usize| Query { id: number.to_string(), text: pairs[*number].query.form(true).to_owned() };
    let documents: Vec<Document> = batch.iter().map(document).collect();
    let queries: Vec<Query> = batch.iter().map(query).collect();
    let Prepared { scorer, model } = request.method.prepare(Corpus { documents: &documents, qrels: None })?;
    let mut scores = Vec::with_capacity(queries.len());
    for queries in queries.chunks(QUERIES_PER_BATCH) {
        scores.extend(scorer.scores(&queries.iter().collect::<Vec<_>>())?);
    }
    Ok((scores, model))
}

/// Adds a query whose only answer is at an index, ranked after all ties.
fn add_ranked(
    evaluation: &mut Evaluation,
    query: String,
    scores: &[f32],
    answer: usize,
) -> Result<(), EvalError> {
    let positions: Vec<usize> = (0..scores.len()).collect();
    let ranking = rank_judged(&positions, scores, &[(answer, 1)], TiePolicy::Pessimistic)?;
    let values = evaluation.measures.iter().map(|of| of.value(&ranking, &[1], Default::default())).collect();
    evaluation.push(query, values, Confidence::new(scores));
    Ok(())
}

/// Formats of files with the functions of a language.
pub(super) const FUNCTIONS: &[&str] =
    &["codesearchnet", "codesearchnet-huggingface", "codesearchnet-definitions"];

const ANNOTATIONS: Role = Role::required("annotations", &["csn99"], "annotationStore.csv");

pub(super) static CSN99_NDCG: Protocol = Protocol {
    name: "csn99-ndcg",
    source: "CodeSearchNet, relevanceeval.py",
    about: "NDCG of the 99 queries, language by language, with the mean of the annotators as relevance r and \
            gain 2^r - 1, over the first 300 functions: unannotated ones are skipped (annotated only), or keep \
            their ranks (full ranking)",
    roles: &[
        ANNOTATIONS,
        Role::required("corpus", FUNCTIONS, "all functions, one or more files for each language"),
    ],
    measures: &[Measure::Ndcg(None)],
    options: &["depth"],
    discrepancies: &[],
    strata: None,
    published: None,
    run: csn99_ndcg,
};

/// Relevance by link, by query in lower case, by language in lower case.
type Relevances = BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>;

fn csn99_ndcg(request: &Request<'_>) -> Result<Outcome, EvalError> {
    let depth = request.options.depth.unwrap_or(300);
    let relevances = mean_relevances(&annotations(request)?);
    let mut corpora: BTreeMap<String, Vec<Document>> = BTreeMap::new();
    for source in request.sources("corpus")? {
        // Functions without documentation do not specify their language, but share a file with those that do.
        let (mut language, mut documents) = (None, Vec::new());
        source.for_each(&mut |record| {
            match record {
                Record::Document(document) => documents.push(document),
                Record::Pair(pair) => {
                    language = language.take().or(pair.language);
                    let (Some(id), text) = (pair.url.or(pair.code.id), pair.code.text) else { return Ok(()) };
                    documents.push(Document::new(id, text));
                }
                _ => {}
            }
            Ok(())
        })?;
        let Some(language) = language.filter(|language| relevances.contains_key(&language.to_lowercase()))
        else {
            return Err(EvalError::Format(FormatError::File {
                path: source.path.clone(),
                expected: format!(
                    "functions of one of {}",
                    relevances.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
                ),
                found: "none of these languages".into(),
                remedy: "name files of CodeSearchNet, one or more for each language".into(),
            }));
        };
        corpora.entry(language.to_lowercase()).or_default().append(&mut documents);
    }
    let (mut parts, mut model, mut figures) = (Vec::new(), None, BTreeMap::<String, f64>::new());
    let n_languages = corpora.len() as f64;
    for (language, mut documents) in corpora {
        let mut known = HashSet::new();
        documents.retain(|document| known.insert(document.id.clone()));
        let of_language = &relevances[&language];
        let prepared = request.method.prepare(Corpus { documents: &documents, qrels: None })?;
        model = prepared.model;
        let ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
        let queries: Vec<Query> =
            of_language.keys().map(|query| Query { id: query.clone(), text: query.clone() }).collect();
        let mut evaluations = ["annotated only", "full ranking"]
            .map(|convention| (convention, Evaluation::new(request.measures())));
        for batch in queries.chunks(QUERIES_PER_BATCH) {
            let scores = prepared.scorer.scores(&batch.iter().collect::<Vec<_>>())?;
            for (query, scores) in batch.iter().zip(scores) {
                let annotated = &of_language[&query.id];
                let order = best_first(&ids, &scores)?;
                let ranked = order.iter().take(depth).map(|position| annotated.get(ids[*position]).copied());
                let ranked: Vec<Option<f64>> = ranked.collect();
                for (convention, evaluation) in &mut evaluations {
                    let skip = *convention == "annotated only";
                    // The script omits queries whose functions are all irrelevant.
                    if let Some(value) = ndcg_of_annotations(&ranked, annotated.values(), skip) {
                        evaluation.push(query.id.clone(), vec![value], Confidence::new(&scores));
                    }
                }
            }
        }
        let covered = |wanted: fn(f64) -> bool| {
            let links = of_language.values().flatten().filter(|(_, relevance)| wanted(**relevance));
            let (mut all, mut found) = (0, 0);
            for (link, _) in links {
                all += 1;
                found += usize::from(known.contains(link));
            }
            f64::from(found as u32) / f64::from(all.max(1) as u32)
        };
        figures.insert(format!("{language}: share of annotated functions in the corpus"), covered(|_| true));
        figures.insert(format!("{language}: share of relevant ones"), covered(|relevance| relevance > 0.0));
        for (convention, evaluation) in evaluations {
            if evaluation.queries.is_empty() {
                return Err(MetricsError::NoQueries {
                    remedy: "nothing is annotated as relevant; check the annotations",
                }
                .into());
            }
            let part = Part::rankings(format!("{language}, {convention}"), documents.len(), evaluation);
            let mean = figures.entry(format!("mean over languages, {convention}: ndcg")).or_default();
            *mean += part.means()["ndcg"] / n_languages;
            parts.push(part);
        }
    }
    Ok(Outcome::new(request, model, parts).with_figures(figures))
}

/// NDCG with gain 2^r − 1 and discount log₂(rank + 1) over the relevances of a ranking; `None` stands for a function
/// without annotation, which takes no rank if it is skipped. The ideal ranking contains all annotated functions,
/// without cut-off. Returns `None` if nothing is relevant (CodeSearchNet, `relevanceeval.py`).
fn ndcg_of_annotations<'a>(
    ranked: &[Option<f64>],
    annotated: impl Iterator<Item = &'a f64>,
    skip_unannotated: bool,
) -> Option<f64> {
    let worth = |(index, relevance): (usize, f64)| (relevance.exp2() - 1.0) / (index as f64 + 2.0).log2();
    let mut ideal: Vec<f64> = annotated.copied().collect();
    ideal.sort_unstable_by(|a, b| b.total_cmp(a));
    let best: f64 = ideal.into_iter().enumerate().map(worth).sum();
    let kept = ranked.iter().filter(|relevance| !skip_unannotated || relevance.is_some());
    let found: f64 = kept.map(|relevance| relevance.unwrap_or(0.0)).enumerate().map(worth).sum();
    (best > 0.0).then(|| found / best)
}

/// The annotations, with their languages in lower case.
fn annotations(request: &Request<'_>) -> Result<Vec<(String, Judgment)>, EvalError> {
    let mut annotations = Vec::new();
    for source in request.sources("annotations")? {
        source.for_each(&mut |record| {
            if let Record::Judgment(judgment) = record {
                let language = judgment.language.as_deref().unwrap_or_default().to_lowercase();
                annotations.push((language, judgment));
            }
            Ok(())
        })?;
    }
    Ok(annotations)
}

fn mean_relevances(annotations: &[(String, Judgment)]) -> Relevances {
    let mut counted: BTreeMap<(&str, &str, &str), (i32, i32)> = BTreeMap::new();
    for (language, Judgment { query, document, grade, .. }) in annotations {
        let (sum, count) = counted.entry((language, query, document)).or_default();
        *sum += grade;
        *count += 1;
    }
    let mut relevances = Relevances::new();
    for ((language, query, link), (sum, count)) in counted {
        let of_query = relevances.entry(language.into()).or_default().entry(query.into()).or_default();
        of_query.insert(link.into(), f64::from(sum) / f64::from(count));
    }
    relevances
}

/// The challenge in the variant of CoSQA+.
pub(super) static CSN99_PYTHON: Protocol = Protocol {
    name: "csn99-python",
    source: "CoSQA+ version 1, CSN Python test set",
    about: "Ranks the annotated Python functions for the queries of the challenge, positive where any annotator gave 3: \
            among the positive ones, and among all that were annotated, since the paper does not state which",
    roles: &[
        ANNOTATIONS,
        Role::optional(
            "corpus",
            FUNCTIONS,
            "Python functions with the texts of the annotated ones; without them only counts are reported",
        ),
    ],
    measures: &[
        Measure::ReciprocalRank(None),
        Measure::MultiChoiceReciprocalRank(None),
        Measure::AveragePrecision(None),
        Measure::Ndcg(Some(10)),
    ],
    options: &["measures", "ties", "as_published"],
    discrepancies: &["V5", "W2", "W6"],
    strata: None,
    published: Some([128, 256]),
    run: csn99_python,
};

fn csn99_python(request: &Request<'_>) -> Result<Outcome, EvalError> {
    let mut annotations = annotations(request)?;
    annotations.retain(|(language, _)| language == "python");
    let mut qrels = Qrels::new();
    for (_, Judgment { query, document, grade, .. }) in &annotations {
        let positive = i32::from(*grade == 3);
        let known = qrels.entry(query.clone()).or_default().entry(document.clone()).or_insert(0);
        *known = positive.max(*known);
    }
    let links = |of: fn(i32) -> bool| -> BTreeSet<&str> {
        let judged = qrels.values().flatten().filter(|(_, grade)| of(**grade));
        judged.map(|(link, _)| link.as_str()).collect()
    };
    let (positive, annotated) = (links(|grade| grade > 0), links(|_| true));
    let n_positive = |judged: &BTreeMap<String, i32>| judged.values().filter(|grade| **grade > 0).count();
    let figures = BTreeMap::from([
        ("positive pairs".to_owned(), qrels.values().map(n_positive).sum::<usize>() as f64),
        ("queries with a positive".to_owned(), qrels.values().filter(|of| n_positive(of) > 0).count() as f64),
        ("positive functions".to_owned(), positive.len() as f64),
        ("annotated pairs".to_owned(), qrels.values().map(BTreeMap::len).sum::<usize>() as f64),
        ("annotated functions".to_owned(), annotated.len() as f64),
    ]);
    let (mut parts, mut model) = (Vec::new(), None);
    if request.has("corpus") {
        let mut texts: HashMap<String, String> = HashMap::new();
        for source in request.sources("corpus")? {
            source.for_each(&mut |record| {
                let (id, text) = match record {
                    Record::Document(document) => (document.id, document.text),
                    Record::Pair(pair) => (pair.url.or(pair.code.id).unwrap_or_default(), pair.code.text),
                    _ => return Ok(()),
                };
                if annotated.contains(id.as_str()) {
                    texts.insert(id, text);
                }
                Ok(())
            })?;
        }
        for (name, links) in
            [("among positive functions", &positive), ("among annotated functions", &annotated)]
        {
            let document = |link: &&str| {
                let text = texts.get(*link).cloned()?;
                Some(Document::new((*link).to_owned(), text))
            };
            let documents: Vec<Document> = links.iter().filter_map(document).collect();
            if documents.len() < links.len() {
                return Err(EvalError::Format(FormatError::File {
                    path: request.files["corpus"][0].clone(),
                    expected: format!("the texts of all {} functions {name}", links.len()),
                    found: format!("{} of them", documents.len()),
                    remedy: "name the file of all Python functions, documented or not".into(),
                }));
            }
            let mut of_links = qrels.clone();
            of_links.values_mut().for_each(|judged| judged.retain(|link, _| links.contains(link.as_str())));
            let queries =
                qrels.keys().map(|query| Query { id: query.clone(), text: query.clone() }).collect();
            let benchmark = Benchmark { documents, queries, qrels: of_links };
            let prepared = request.prepare(&benchmark)?;
            model = prepared.model;
            let conventions = request.options.conventions(TiePolicy::IndexDesc);
            let evaluation = evaluate_method(
                &benchmark,
                prepared.scorer.as_ref(),
                &request.measures(),
                &conventions,
                |_, _| Ok(()),
            )?;
            parts.push(Part::rankings(name, benchmark.documents.len(), evaluation));
        }
    }
    let departures: &[&str] = if request.options.as_published { &["V5"] } else { &["V5", "W2"] };
    Ok(Outcome::new(request, model, parts).with_figures(figures).with_discrepancies(departures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{Fixture, check};

    #[test]
    fn a_batch_is_ranked_in_both_directions() {
        // Codes a, ab, b for the queries a, a, b, and one pair that is dropped.
        let pairs: Vec<String> = [("a", "a"), ("a", "ab"), ("b", "b")]
            .iter()
            .map(|(query, code)| format!("{{\"input\":\"{query} [CODESPLIT] {code}\",\"target\":1}}\n"))
            .collect();
        let mut fixture = Fixture::new(&[("pairs.jsonl", &pairs.concat())]);
        let files: &[(&str, &[&str])] = &[("pairs", &["pairs.jsonl"])];
        let outcome = fixture.run("csn-mrr", files);
        // Codes: 1, after a, 1. Queries: for a, the two queries a are tied; for ab, all three are.
        check(outcome.figures["codes for each query: mrr"], (1.0 + 1.0 / 2.0 + 1.0) / 3.0);
        check(outcome.figures["queries for each code: mrr"], (1.0 / 2.0 + 1.0 / 3.0 + 1.0) / 3.0);
        assert_eq!((outcome.figures["batches"], outcome.figures["pairs dropped"]), (1.0, 0.0));
        let queries: Vec<String> = match &outcome.parts[0].values {
            crate::protocol::Values::Rankings(evaluation) => {
                evaluation.queries.iter().map(|(id, _)| id.clone()).collect()
            }
            crate::protocol::Values::Verdicts(_) => Vec::new(),
        };
        assert_eq!(queries, ["0", "1", "2"]);
        fixture.options.batch = Some(2);
        let outcome = fixture.run("csn-mrr", files);
        assert_eq!((outcome.figures["batches"], outcome.figures["pairs dropped"]), (1.0, 1.0));
        assert_eq!((outcome.parts[0].queries, outcome.parts[0].documents), (2, 2));
    }

    #[test]
    fn annotations_are_means_and_unannotated_functions_skipped_or_not() {
        // Relevances 1.5 and 0, after a function without annotation; ideal (2^1.5 - 1) / 1.
        let ranked = [None, Some(0.0), Some(1.5)];
        let ideal = [1.5, 0.0];
        check(ndcg_of_annotations(&ranked, ideal.iter(), true).unwrap(), 1.0 / 3.0_f64.log2());
        check(ndcg_of_annotations(&ranked, ideal.iter(), false).unwrap(), 1.0 / 4.0_f64.log2());
        assert_eq!(ndcg_of_annotations(&ranked, [0.0].iter(), true), None);
    }

    const ANNOTATED: &str = "Language,Query,GitHubUrl,Relevance,Notes\n\
        Python,A b,u1,3,\nPython,a B,u1,0,\nPython,a b,u2,0,\nPython,a b,u4,1,\nPython,a,u2,3,\nJava,a,u9,3,\n\
        Python,b,u2,0,\n";

    /// A corpus of functions with link and code; the first is documented.
    fn functions(of: &[(&str, &str)]) -> String {
        let line = |(number, (link, code)): (usize, &(&str, &str))| {
            let docstring = if number == 0 { "says" } else { "" };
            let record = serde_json::json!({
                "nwo": "o/r", "path": "p", "language": "python", "identifier": "f", "docstring": docstring,
                "docstring_tokens": [], "function": code, "function_tokens": [], "url": link
            });
            format!("{record}\n")
        };
        of.iter().enumerate().map(line).collect()
    }

    #[test]
    fn the_challenge_is_scored_in_both_conventions() {
        let corpus = functions(&[("u0", "ab"), ("u1", "aab"), ("u2", "a"), ("u3", "bb")]);
        let fixture = Fixture::new(&[("annotations.csv", ANNOTATED), ("definitions.jsonl", &corpus)]);
        let outcome = fixture
            .run("csn99-ndcg", &[("annotations", &["annotations.csv"]), ("corpus", &["definitions.jsonl"])]);
        let means: Vec<f64> = outcome.parts.iter().map(|part| part.means()["ndcg"]).collect();
        // `a b` (letters a, b once): u0, u1, then u3 and u2, tied with the larger link first; u1 has (3 + 0) / 2, u2
        // 0, and u4 with 1 is missing. `a`: u2 first. `b` has no relevant function and is omitted.
        let (worth, other) = (1.5_f64.exp2() - 1.0, 1.0 / 3.0_f64.log2());
        let ideal = worth + other;
        check(means[0], (worth / ideal + 1.0) / 2.0);
        check(means[1], (worth / 3.0_f64.log2() / ideal + 1.0) / 2.0);
        assert_eq!(outcome.parts[0].queries, 2);
        check(outcome.figures["python: share of annotated functions in the corpus"], 4.0 / 5.0);
        check(outcome.figures["mean over languages, full ranking: ndcg"], means[1]);
    }

    #[test]
    fn the_python_set_is_counted_and_ranked() {
        let corpus = functions(&[("u0", "ab"), ("u1", "aab"), ("u2", "a"), ("u4", "bb")]);
        let fixture = Fixture::new(&[("annotations.csv", ANNOTATED), ("definitions.jsonl", &corpus)]);
        let outcome = fixture.run("csn99-python", &[("annotations", &["annotations.csv"])]);
        let count = |name: &str| outcome.figures[name];
        assert_eq!(
            ["positive pairs", "queries with a positive", "positive functions"].map(count),
            [2.0, 2.0, 2.0]
        );
        assert_eq!(["annotated pairs", "annotated functions"].map(count), [5.0, 3.0]);
        assert!(outcome.parts.is_empty());
        let outcome = fixture.run(
            "csn99-python",
            &[("annotations", &["annotations.csv"]), ("corpus", &["definitions.jsonl"])],
        );
        let part = |index: usize| (outcome.parts[index].documents, outcome.parts[index].means()["mrr"]);
        assert_eq!((part(0), part(1)), ((2, 1.0), (3, 1.0)));
        let short = functions(&[("u1", "aab")]);
        let fixture = Fixture::new(&[("annotations.csv", ANNOTATED), ("definitions.jsonl", &short)]);
        let error = fixture.error(
            "csn99-python",
            &[("annotations", &["annotations.csv"]), ("corpus", &["definitions.jsonl"])],
        );
        assert!(error.contains("found 1 of them"), "{error}");
    }
}
