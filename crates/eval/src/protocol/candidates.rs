//! Ranking a few documents per query: the relevant ones among random distractors.

use super::request::{Request, Sampling};
use super::{BENCHMARK, Outcome, Part, Protocol};
use crate::EvalError;
use crate::evaluation::{Evaluation, positions};
use crate::method::{Prepared, Scorer};
use quarry_corpus::dataset::convert;
use quarry_corpus::dataset::distractors::{self, sample};
use quarry_corpus::formats::{Document, FormatError, Query};
use quarry_metrics::Measure;
use quarry_metrics::MetricsError;
use quarry_metrics::abstention::Confidence;
use quarry_metrics::ranking::{TiePolicy, rank_judged};
use quarry_metrics::significance::mean_and_deviation;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Number of distractors per query, and the seed for drawing them, in GenCodeSearchNet.
pub(super) const DISTRACTORS: usize = 99;
pub(super) const SEED: u32 = 42;

/// GenCodeSearchNet's ranking task, on any benchmark.
pub(super) static DISTRACTORS_PROTOCOL: Protocol = Protocol {
    name: "distractors",
    source: "GenCodeSearchNet section 5",
    about: "Ranks each answer of a query among 99 drawn documents that do not answer it, after all with the same score",
    roles: &[BENCHMARK],
    measures: &[Measure::ReciprocalRank(None)],
    options: &["measures", "ties", "seeds", "distractors", "sampling", "without_twins"],
    discrepancies: &["G2", "G4", "G5"],
    strata: None,
    published: None,
    run: |request| {
        let benchmark = request.benchmark(&["benchmark"], &convert::ConvertOptions::default())?;
        let Prepared { scorer, model } = request.prepare(&benchmark)?;
        let queries: HashMap<&str, &Query> =
            benchmark.queries.iter().map(|query| (query.id.as_str(), query)).collect();
        let positions = positions(&benchmark.documents);
        let sampling = request.options.sampling.unwrap_or_default();
        let count = request.options.distractors.unwrap_or(DISTRACTORS);
        let path = request.files["benchmark"].first().map_or(Path::new(""), |path| path.as_path());
        let (mut parts, mut figures) = (Vec::new(), Vec::new());
        for seed in request.options.seeds(SEED) {
            let options = distractors::DistractorOptions {
                count,
                sampling: sampling.into(),
                without_twins: request.options.without_twins,
                seed: seed.into(),
            };
            let lists = sample(&benchmark, options, path)?;
            let lists: Vec<Candidates<'_>> = lists
                .iter()
                .map(|(query, ids)| Candidates {
                    query: queries[query.as_str()],
                    positions: ids.iter().map(|id| positions[id.as_str()]).collect(),
                    n_answers: ids.len() - count,
                })
                .collect();
            let part = rank(request, &format!("seed {seed}"), &benchmark.documents, scorer.as_ref(), &lists)?;
            let mut of_seed = part.means();
            of_seed.insert("mrr ceiling".into(), ceiling(&benchmark.documents, &lists));
            parts.push(part);
            figures.push(of_seed);
        }
        let outcome = Outcome::new(request, model, parts).with_figures(over_seeds(&figures));
        Ok(outcome.with_discrepancies(match sampling {
            Sampling::Uniform => &["G2", "G5"],
            Sampling::Rolling => &["G2", "G4", "G5"],
        }))
    },
};

pub(super) struct Candidates<'a> {
    pub query: &'a Query,
    /// Indices in the corpus: distractors, then relevant documents.
    pub positions: Vec<usize>,
    pub n_answers: usize,
}

/// Ranks candidates, relevant ones after all ties unless the options say otherwise.
pub(super) fn rank(
    request: &Request<'_>,
    name: &str,
    documents: &[Document],
    scorer: &dyn Scorer,
    lists: &[Candidates<'_>],
) -> Result<Part, EvalError> {
    let conventions = request.options.conventions(TiePolicy::Pessimistic);
    let asked: Vec<(&Query, &[usize])> =
        lists.iter().map(|list| (list.query, list.positions.as_slice())).collect();
    let scores = scorer.scores_of(&asked)?;
    let mut evaluation = Evaluation::new(request.measures());
    for (list, scores) in lists.iter().zip(scores) {
        let first_answer = list.positions.len() - list.n_answers;
        let judged: Vec<(usize, i32)> =
            (first_answer..list.positions.len()).map(|position| (position, 1)).collect();
        // A rolling sample may contain the answer twice, so candidates are identified by position.
        let ids: Vec<(&str, usize)> = list
            .positions
            .iter()
            .enumerate()
            .map(|(number, position)| (documents[*position].id.as_str(), number))
            .collect();
        let ranking = rank_judged(&ids, &scores, &judged, conventions.ties)?;
        let grades = vec![1; list.n_answers];
        let values =
            evaluation.measures.iter().map(|of| of.value(&ranking, &grades, conventions.gain)).collect();
        evaluation.push(list.query.id.clone(), values, Confidence::new(&scores));
    }
    if evaluation.queries.is_empty() {
        return Err(
            MetricsError::NoQueries { remedy: "no query has a relevant document; check the qrels" }.into()
        );
    }
    Ok(Part::rankings(name, documents.len(), evaluation))
}

/// MRR of a perfect method under pessimistic ties: equal codes score the same, so an answer is ranked after each
/// candidate with the same text.
pub(super) fn ceiling(documents: &[Document], lists: &[Candidates<'_>]) -> f64 {
    let best = |list: &Candidates<'_>| {
        let answers = &list.positions[list.positions.len() - list.n_answers..];
        let twins = |answer: &usize| {
            let same = |position: &&usize| documents[**position].text == documents[*answer].text;
            list.positions.iter().filter(same).count()
        };
        answers.iter().map(twins).min().map_or(0.0, |rank| 1.0 / rank as f64)
    };
    lists.iter().map(best).sum::<f64>() / lists.len() as f64
}

/// Means over seeds by name, and with several seeds their sample standard deviations as `NAME deviation`.
pub(crate) fn over_seeds(by_seed: &[BTreeMap<String, f64>]) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for name in by_seed.first().into_iter().flat_map(BTreeMap::keys) {
        let values: Vec<f64> = by_seed.iter().filter_map(|figures| figures.get(name).copied()).collect();
        let (mean, deviation) = mean_and_deviation(&values);
        figures.extend(deviation.map(|deviation| (format!("{name} deviation"), deviation)));
        figures.insert(name.clone(), mean);
    }
    figures
}

/// The error that there are fewer records than a protocol draws.
pub(super) fn too_few_records(path: &Path, (number, found): (usize, usize), count: usize) -> EvalError {
    EvalError::Format(FormatError::File {
        path: path.to_owned(),
        expected: format!("{count} codes that do not answer query {}", number + 1),
        found: format!("{found} to draw from"),
        remedy: "ask for fewer with --distractors, or name more data".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{Fixture, check};

    #[test]
    fn an_answer_stands_behind_its_equals() {
        // Four pairs; the codes of the last two are equal, and all others are drawn for each.
        let pairs = r#"{"input":"a [CODESPLIT] a","target":1}
{"input":"b [CODESPLIT] b","target":1}
{"input":"a [CODESPLIT] ab","target":1}
{"input":"b [CODESPLIT] ab","target":1}
"#;
        let mut fixture = Fixture::new(&[("pairs.jsonl", pairs)]);
        fixture.options.distractors = Some(3);
        fixture.options.seeds = vec![1, 2];
        let files: &[(&str, &[&str])] = &[("benchmark", &["pairs.jsonl"])];
        let outcome = fixture.run("distractors", files);
        let names: Vec<&str> = outcome.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["seed 1", "seed 2"]);
        // The first two rank their codes first; the third has code `a` before it and its duplicate tied; the fourth
        // likewise with b.
        check(outcome.figures["mrr"], (1.0 + 1.0 + 1.0 / 3.0 + 1.0 / 3.0) / 4.0);
        check(outcome.figures["mrr deviation"], 0.0);
        check(outcome.figures["mrr ceiling"], (1.0 + 1.0 + 1.0 / 2.0 + 1.0 / 2.0) / 4.0);
        assert_eq!(outcome.discrepancies, ["G2", "G5"]);
        fixture.options = crate::protocol::ProtocolOptions {
            distractors: Some(2),
            sampling: Some(Sampling::Uniform),
            without_twins: true,
            ..Default::default()
        };
        let outcome = fixture.run("distractors", files);
        check(outcome.figures["mrr ceiling"], 1.0);
        fixture.options.distractors = Some(4);
        let error = fixture.error("distractors", files);
        assert!(error.contains("pairs.jsonl: expected 4 documents that do not answer"), "{error}");
    }

    #[test]
    fn figures_over_seeds_have_a_mean_and_a_deviation() {
        let figure = |value| BTreeMap::from([("x".to_owned(), value)]);
        assert_eq!(over_seeds(&[figure(2.0)]), figure(2.0));
        let figures = over_seeds(&[figure(1.0), figure(3.0)]);
        check(figures["x"], 2.0);
        check(figures["x deviation"], 2.0_f64.sqrt());
    }
}
