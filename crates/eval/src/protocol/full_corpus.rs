//! Ranking the full corpus for each query: any benchmark, CoSQA's search, and its ablation by component of the code.

use super::request::Request;
use super::{BENCHMARK, Outcome, Part, Protocol, Role};
use crate::EvalError;
use crate::evaluation::evaluate_method;
use crate::method::Prepared;
use quarry_corpus::dataset::convert;
use quarry_corpus::formats::Query;
use quarry_corpus::formats::beir::Benchmark;
use quarry_metrics::Measure;
use quarry_metrics::rank::reciprocal_rank;
use quarry_metrics::ranking::{Hit, TiePolicy};
use quarry_metrics::significance::mean;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Measures that papers report of a ranking of all documents.
const MEASURES: [Measure; 4] = [
    Measure::ReciprocalRank(None),
    Measure::AveragePrecision(None),
    Measure::Ndcg(Some(10)),
    Measure::Recall(10),
];

pub(super) static FULL_CORPUS: Protocol = Protocol {
    name: "full-corpus",
    source: "CoSQA, CoSQA+, BEIR",
    about: "Ranks all documents for each query that has an answer",
    roles: &[BENCHMARK],
    measures: &MEASURES,
    options: &["measures", "ties"],
    discrepancies: &[],
    strata: None,
    published: None,
    run: |request| {
        let benchmark = request.benchmark(&["benchmark"], &convert::ConvertOptions::default())?;
        let (part, model) = rank(request, "all", &benchmark, TiePolicy::DocidDesc)?;
        let mut outcome = Outcome::new(request, model, vec![part]);
        outcome.figures.insert("mrr ceiling, equal texts in any order".into(), mrr_ceiling(&benchmark));
        Ok(outcome)
    },
};

/// Expected MRR of a perfect method if equal texts are in random order: not all of them need be judged, as in the
/// CosQA task of CoIR and MTEB.
pub fn mrr_ceiling(benchmark: &Benchmark) -> f64 {
    let mut counts: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let mut texts = HashMap::new();
    for document in &benchmark.documents {
        *counts.entry(document.full_text()).or_default() += 1;
        texts.insert(document.id.as_str(), document.full_text());
    }
    let best = |judged: &BTreeMap<String, i32>| {
        let mut answers: HashMap<&str, usize> = HashMap::new();
        for (document, _) in judged.iter().filter(|(_, grade)| **grade > 0) {
            if let Some(text) = texts.get(document.as_str()) {
                *answers.entry(text).or_default() += 1;
            }
        }
        let expected = |(text, n): (&str, usize)| {
            reciprocal_rank(&vec![Hit { rank: 1, tied: counts[text], grade: 1 }; n], None)
        };
        answers.into_iter().map(expected).max_by(f64::total_cmp)
    };
    let values: Vec<f64> = benchmark.qrels.values().filter_map(best).collect();
    mean(&[&values])
}

const COSQA_ROLES: &[Role] = &[
    Role::required("queries", &["cosqa-retrieval"], "web queries with the numbers of their codes"),
    Role::required("codes", &["cosqa-codes"], "the code base"),
];

/// CoSQA's code search. The MRR has no cut-off; the only answer of a query is its own code.
pub(super) static COSQA_SEARCH: Protocol = Protocol {
    name: "cosqa-search",
    source: "CoSQA, code search",
    about: "CoSQA's code search: all codes of the code base for each web query; as released, equal scores are ordered \
            by NumPy, which tends to put later codes first",
    roles: COSQA_ROLES,
    measures: &MEASURES,
    options: &["measures", "ties", "as_released"],
    discrepancies: &["C5", "C11", "W5", "W7"],
    strata: None,
    published: None,
    run: |request| {
        let benchmark = cosqa(request)?;
        let (part, model) = rank(request, "all", &benchmark, cosqa_ties(request))?;
        Ok(Outcome::new(request, model, vec![part]).with_discrepancies(&["C5", "C11"]))
    },
};

/// CoSQA's ablation by component, with the complete code and six variants of it.
pub(super) static COSQA_ABLATION: Protocol = Protocol {
    name: "cosqa-ablation",
    source: "CoSQA, table 7",
    about: "CoSQA's code search over codes without their header, documentation or body",
    roles: COSQA_ROLES,
    measures: &MEASURES,
    options: &["measures", "ties", "as_released"],
    discrepancies: &["C6", "C11", "W5"],
    strata: None,
    published: None,
    run: |request| {
        let complete = cosqa(request)?;
        let ties = cosqa_ties(request);
        let (part, model) = rank(request, "complete", &complete, ties)?;
        let mut parts = vec![part];
        for variant in VARIANTS {
            parts.push(rank(request, variant.name, &variant.apply(&complete), ties)?.0);
        }
        let mut outcome = Outcome::new(request, model, parts).with_discrepancies(&["C6", "C11"]);
        let codes = || complete.documents.iter().map(|document| document.text.as_str());
        let undocumented = codes().filter(|code| !code.contains(MARK)).count();
        outcome.figures.insert("codes without documentation".into(), undocumented as f64);
        let whole = outcome.parts[0].means();
        for (part, variant) in outcome.parts.iter().skip(1).zip(VARIANTS) {
            for (measure, value) in part.means() {
                outcome
                    .figures
                    .insert(format!("{} less complete {measure}", variant.name), value - whole[&measure]);
            }
        }
        Ok(outcome)
    },
};

fn cosqa(request: &Request<'_>) -> Result<Benchmark, EvalError> {
    request.benchmark(&["queries", "codes"], &convert::ConvertOptions::default())
}

fn cosqa_ties(request: &Request<'_>) -> TiePolicy {
    if request.options.as_released { TiePolicy::IndexDesc } else { TiePolicy::DocidDesc }
}

/// Ranks the full corpus for each query; also returns the model's identity.
pub(super) fn rank(
    request: &Request<'_>,
    name: &str,
    benchmark: &Benchmark,
    ties: TiePolicy,
) -> Result<(Part, Option<String>), EvalError> {
    let Prepared { scorer, model } = request.prepare(benchmark)?;
    let (measures, conventions) = (request.measures(), request.options.conventions(ties));
    let queries: HashMap<&str, &Query> =
        benchmark.queries.iter().map(|query| (query.id.as_str(), query)).collect();
    let evaluation =
        evaluate_method(benchmark, scorer.as_ref(), &measures, &conventions, |query, scores| {
            match (request.observe, queries.get(query)) {
                (Some(observe), Some(query)) => observe(name, benchmark, query, scores),
                _ => Ok(()),
            }
        })?;
    Ok((Part::rankings(name, benchmark.documents.len(), evaluation), model))
}

/// Delimiter of the documentation in a code.
const MARK: &str = "\"\"\"";

/// Components of a code that are kept.
struct Variant {
    name: &'static str,
    header: bool,
    documentation: bool,
    body: bool,
}

/// The six variants of the paper, by the names of the released files.
const VARIANTS: [Variant; 6] = [
    Variant { name: "header_only", header: true, documentation: false, body: false },
    Variant { name: "doc_only", header: false, documentation: true, body: false },
    Variant { name: "body_only", header: false, documentation: false, body: true },
    Variant { name: "no_header", header: false, documentation: true, body: true },
    Variant { name: "no_doc", header: true, documentation: false, body: true },
    Variant { name: "no_body", header: true, documentation: true, body: false },
];

impl Variant {
    /// The benchmark with only the kept components as codes. As in the release, where a code is identified by its
    /// text, codes that have become equal are distinguished by newlines at the end.
    fn apply(&self, complete: &Benchmark) -> Benchmark {
        let mut benchmark = complete.clone();
        let (mut known, mut endings) = (HashSet::new(), BTreeMap::new());
        for document in &mut benchmark.documents {
            let [header, documentation, body] = components(&document.text);
            // Only alone, documentation is without its delimiters.
            let documentation = match self.header || self.body {
                true => &document.text[header.len()..document.text.len() - body.len()],
                false => documentation,
            };
            let kept = [(self.header, header), (self.documentation, documentation), (self.body, body)];
            let mut text: String = kept.into_iter().filter(|(kept, _)| *kept).map(|(_, text)| text).collect();
            // There are hundreds of equal texts: remembering the last number of newlines saves trying them all.
            let newlines: &mut usize = endings.entry(text.clone()).or_default();
            text.extend(std::iter::repeat_n('\n', *newlines));
            while !known.insert(text.clone()) {
                text.push('\n');
                *newlines += 1;
            }
            document.text = text;
        }
        benchmark
    }
}

/// Header, documentation and body of a code: the text before the first `"""`, between the first and second, and after
/// the second. A code without the delimiter is all header.
fn components(code: &str) -> [&str; 3] {
    let (header, rest) = code.split_once(MARK).unwrap_or((code, ""));
    let (documentation, body) = rest.split_once(MARK).unwrap_or((rest, ""));
    [header, documentation, body]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{Fixture, check};

    #[test]
    fn codes_are_taken_apart_at_their_documentation() {
        let code = "def f():\n  \"\"\"Says x.\"\"\"\n  return \"\"\"x\"\"\"";
        assert_eq!(components(code), ["def f():\n  ", "Says x.", "\n  return \"\"\"x\"\"\""]);
        assert_eq!(components("x = 1"), ["x = 1", "", ""]);
        assert_eq!(components("def f():\n \"\"\"open"), ["def f():\n ", "open", ""]);
    }

    #[test]
    fn equal_variants_are_distinguished_by_newlines() {
        let fixture = cosqa_fixture();
        let files = fixture.files(&[("queries", &["pairs.json"]), ("codes", &["codes.json"])]);
        let request = fixture.request("cosqa-ablation", &files);
        let complete = cosqa(&request).unwrap();
        let documentation = VARIANTS[1].apply(&complete);
        let texts: Vec<&str> =
            documentation.documents.iter().map(|document| document.text.as_str()).collect();
        assert_eq!(texts, ["alpha", "alpha\n", "", "\n"]);
        // As `split_code_for_retrieval.py` writes them.
        for (variant, expected) in VARIANTS.iter().zip([
            ["def f(): ", "b = 1"],
            ["alpha", ""],
            [" beta", ""],
            ["\"\"\"alpha\"\"\" beta", ""],
            ["def f():  beta", "b = 1"],
            ["def f(): \"\"\"alpha\"\"\"", "b = 1"],
        ]) {
            let documents = variant.apply(&complete).documents;
            let found = [0, 2].map(|position| documents[position].text.trim_end_matches('\n').to_owned());
            assert_eq!(found, expected, "{}", variant.name);
        }
    }

    #[test]
    fn equal_texts_that_nobody_judged_lower_the_ceiling() {
        let pairs = r#"[{"pair-idx":0,"query-idx":0,"query":"a","code-idx":0,"code":"a","label":1},
            {"pair-idx":1,"query-idx":1,"query":"b","code-idx":1,"code":"a","label":0},
            {"pair-idx":2,"query-idx":1,"query":"b","code-idx":2,"code":"b","label":1}]"#;
        let fixture = Fixture::new(&[("pairs.json", pairs)]);
        let outcome = fixture.run("full-corpus", &[("benchmark", &["pairs.json"])]);
        // `a` is first or second with equal probability; by id it is second.
        check(outcome.figures["mrr ceiling, equal texts in any order"], ((1.0 + 0.5) / 2.0 + 1.0) / 2.0);
        check(outcome.parts[0].means()["mrr"], (0.5 + 1.0) / 2.0);
    }

    fn cosqa_fixture() -> Fixture {
        // Numbers 0 to 3; the letters that the test's method counts: a, b.
        let codes = serde_json::json!({
            "def f(): \"\"\"alpha\"\"\" beta": 0, "def g(): \"\"\"alpha\"\"\"": 1, "b = 1": 2, "bb = 2": 3
        });
        Fixture::new(&[
            ("codes.json", &codes.to_string()),
            (
                "pairs.json",
                r#"[{"idx":"q-1","doc":"b","label":1,"retrieval_idx":2},
                    {"idx":"q-2","doc":"a","label":1,"retrieval_idx":1}]"#,
            ),
        ])
    }

    #[test]
    fn cosqa_ranks_the_code_base() {
        let fixture = cosqa_fixture();
        let files: &[(&str, &[&str])] = &[("queries", &["pairs.json"]), ("codes", &["codes.json"])];
        let outcome = fixture.run("cosqa-search", files);
        assert_eq!((outcome.parts[0].queries, outcome.parts[0].documents), (2, 4));
        // `b`: the codes 3 and 2 contain only b, and 3 is the larger id. `a`: code 1 has two of a and no b.
        check(outcome.parts[0].means()["mrr"], (1.0 / 2.0 + 1.0) / 2.0);
        assert_eq!(outcome.discrepancies, ["C5", "C11"]);
        let outcome = fixture.run("cosqa-ablation", files);
        let names: Vec<&str> = outcome.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(
            names,
            ["complete", "header_only", "doc_only", "body_only", "no_header", "no_doc", "no_body"]
        );
        // Documentation only: `b` matches nothing, so ids decide and 2 is second; for `a` the codes 0 and 1 are tied,
        // and 1 is the larger id.
        check(outcome.parts[2].means()["mrr"], (1.0 / 2.0 + 1.0) / 2.0);
        assert_eq!(outcome.figures["codes without documentation"], 2.0);
        check(outcome.figures["doc_only less complete mrr"], 0.0);
    }
}
