//! Query4Code's retrieval: the best relevant code among the first 1,000.

use super::request::Request;
use super::{Outcome, Part, Protocol, Role};
use crate::EvalError;
use crate::evaluation::evaluate_method;
use crate::method::Prepared;
use quarry_corpus::dataset::convert;
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::{Document, FormatError, Query, Record};
use quarry_metrics::Measure;
use quarry_metrics::ranking::TiePolicy;
use std::collections::HashMap;

pub(super) static QUERY4CODE: Protocol = Protocol {
    name: "query4code",
    source: "Query4Code, code retrieval",
    about: "MRR in per cent of the best relevant code among the first 1,000 of the corpus, where only the first \
            record with an id counts as that code, and later ones just occupy ranks. All pairs of WebQueryTest \
            count as relevant, which is how we read the paper",
    roles: &[
        Role::required(
            "queries",
            &["query4code", "cosqa-retrieval", "webquery"],
            "queries with the ids of their codes",
        ),
        Role::optional(
            "corpus",
            &["query4code", "cosqa-codes"],
            "the codes; without it those of the queries",
        ),
    ],
    measures: &[Measure::ReciprocalRank(Some(1_000))],
    options: &["measures", "ties"],
    discrepancies: &["Q6", "W3", "W4", "W7"],
    strata: None,
    published: None,
    run: |request| {
        let of_paper = request.sources("queries")?.iter().all(|source| source.format.name == "query4code");
        let benchmark = if of_paper {
            read(request)?
        } else {
            let options =
                convert::ConvertOptions { unlabeled: Some(1), ..convert::ConvertOptions::default() };
            request.benchmark(&["queries", "corpus"], &options)?
        };
        let Prepared { scorer, model } = request.prepare(&benchmark)?;
        let conventions = request.options.conventions(TiePolicy::IndexDesc);
        let evaluation =
            evaluate_method(&benchmark, scorer.as_ref(), &request.measures(), &conventions, |_, _| Ok(()))?;
        let part = Part::rankings("all", benchmark.documents.len(), evaluation);
        let mut outcome = Outcome::new(request, model, vec![part]).with_discrepancies(&["Q6"]);
        for (name, mean) in outcome.parts[0].means() {
            outcome.figures.insert(format!("{name}, per cent"), 100.0 * mean);
        }
        Ok(outcome)
    },
};

fn read(request: &Request<'_>) -> Result<Benchmark, EvalError> {
    let (mut documents, mut counts): (Vec<Document>, HashMap<String, usize>) = Default::default();
    let corpus = if request.has("corpus") { "corpus" } else { "queries" };
    for source in request.sources(corpus)? {
        source.for_each(&mut |record| {
            let (id, text) = match record {
                Record::Pair(pair) => (pair.code.id.unwrap_or_default(), pair.code.text),
                Record::Document(document) => (document.id, document.text),
                _ => return Ok(()),
            };
            let count = counts.entry(id.clone()).or_default();
            *count += 1;
            // A number that no id in the data has: it is not looked for.
            let id = if *count == 1 { id } else { format!("{id} #{count}") };
            documents.push(Document::new(id, text));
            Ok(())
        })?;
    }
    let (mut queries, mut qrels) = (Vec::new(), Qrels::new());
    for source in request.sources("queries")? {
        // Numbering restarts in each file.
        let first = queries.len();
        let numbered =
            |id: &str| id.parse::<usize>().map_or_else(|_| id.to_owned(), |n| (first + n).to_string());
        source.for_each(&mut |record| {
            let (query, document) = match record {
                Record::Pair(pair) => {
                    let id = numbered(pair.query.id.as_deref().unwrap_or_default());
                    queries.push(Query { id: id.clone(), text: pair.query.text });
                    (id, pair.code.id.unwrap_or_default())
                }
                Record::Judgment(judgment) => (numbered(&judgment.query), judgment.document),
                _ => return Ok(()),
            };
            if !counts.contains_key(&document) {
                return Err(FormatError::File {
                    path: source.path.clone(),
                    expected: "ids of codes of the corpus".into(),
                    found: format!("{document:?}"),
                    remedy: "name the file that contains the code with --corpus, or remove the query".into(),
                });
            }
            qrels.entry(query).or_default().insert(document, 1);
            Ok(())
        })?;
    }
    Ok(Benchmark { documents, queries, qrels })
}

#[cfg(test)]
mod tests {
    use crate::protocol::tests::{Fixture, check};

    const QUERIES: &str = "{\"query\":\"a\",\"code\":\"\",\"relevant_ids\":[\"x\",\"y\"]}\n\
        {\"query\":\"b\",\"code\":\"\",\"relevant_ids\":\"y\"}\n";
    const CORPUS: &str = "{\"query\":\"\",\"code\":\"aab\",\"url\":\"x\"}\n{\"query\":\"\",\"code\":\"abb\",\"url\":\"y\"}\n\
        {\"query\":\"\",\"code\":\"b\",\"url\":\"y\"}\n{\"query\":\"\",\"code\":\"a\",\"url\":\"z\"}\n";

    #[test]
    fn the_first_record_of_an_id_counts() {
        let fixture = Fixture::new(&[
            ("queries.jsonl", QUERIES),
            ("first.jsonl", QUERIES.lines().next().unwrap()),
            ("corpus.jsonl", CORPUS),
        ]);
        let outcome =
            fixture.run("query4code", &[("queries", &["queries.jsonl"]), ("corpus", &["corpus.jsonl"])]);
        // a: z, then x. b: the second y, which does not count, then the first.
        assert_eq!((outcome.parts[0].queries, outcome.parts[0].documents), (2, 4));
        check(outcome.figures["mrr@1000, per cent"], 50.0);
        let error = fixture.error("query4code", &[("queries", &["first.jsonl"])]);
        assert!(error.contains("expected ids of codes of the corpus, found \"y\""), "{error}");
    }

    #[test]
    fn all_pairs_of_webquerytest_count() {
        let pairs = r#"[{"idx":"w-1","doc":"a","code":"a"}, {"idx":"w-2","doc":"a","code":"b"},
            {"idx":"w-3","doc":"b","code":"aab"}]"#;
        let fixture = Fixture::new(&[("web.json", pairs)]);
        let outcome = fixture.run("query4code", &[("queries", &["web.json"])]);
        check(outcome.parts[0].means()["mrr@1000"], (1.0 + 0.5) / 2.0);
    }
}
