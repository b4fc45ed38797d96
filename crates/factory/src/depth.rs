//! How many candidates per query are worth labeling: how often the candidate at each rank is correct.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use quarry_corpus::dataset;
use quarry_corpus::formats::{Record, RecordKind};

use crate::error::FactoryError;
use crate::jsonl;
use crate::outputs::{CANDIDATES, PAIRS_FILE};
use crate::record::{Candidate, PairRecord};
use crate::step::{self, directory_of};

/// Labels of the candidates at a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DepthRow {
    /// The 1-based rank.
    pub rank: usize,
    /// Number of queries whose candidate at this rank has a label.
    pub labelled: usize,
    /// Share of these whose candidate is correct.
    pub hit: f64,
    /// Share of all queries with a correct candidate up to this rank.
    pub answered: f64,
    /// Mean number of correct candidates of a query up to this rank.
    pub answers: f64,
}

/// How many candidates of a method are worth labeling.
#[derive(Debug, Clone, PartialEq)]
pub struct Depth {
    /// Name of the method, or of the run.
    pub method: String,
    /// Number of queries with a labeled candidate.
    pub queries: usize,
    /// One row per rank.
    pub rows: Vec<DepthRow>,
}

/// Number of further ranks over which the gain is measured.
pub const AHEAD: usize = 5;

/// Gain over [`AHEAD`] ranks, as a share of queries with an answer, below which the curve counts as flat.
pub const FLAT: f64 = 0.01;

impl Depth {
    /// Counts the labels of the candidates of each query, best first; `None` is a candidate without a label.
    #[must_use]
    pub fn new(method: String, queries: &[Vec<Option<bool>>]) -> Self {
        let queries: Vec<&Vec<Option<bool>>> =
            queries.iter().filter(|labels| labels.iter().any(Option::is_some)).collect();
        let deepest = queries.iter().filter_map(|labels| labels.iter().rposition(Option::is_some)).max();
        let of_all =
            |count: usize| if queries.is_empty() { 0.0 } else { count as f64 / queries.len() as f64 };
        let mut rows = Vec::new();
        let (mut is_answered, mut n_answers) = (vec![false; queries.len()], 0);
        for place in 0..deepest.map_or(0, |place| place + 1) {
            let (mut labelled, mut hits) = (0, 0);
            for (labels, is_answered) in queries.iter().zip(&mut is_answered) {
                if let Some(Some(answers)) = labels.get(place) {
                    labelled += 1;
                    hits += usize::from(*answers);
                    *is_answered |= answers;
                }
            }
            n_answers += hits;
            rows.push(DepthRow {
                rank: place + 1,
                labelled,
                hit: if labelled == 0 { 0.0 } else { hits as f64 / labelled as f64 },
                answered: of_all(is_answered.iter().filter(|answered| **answered).count()),
                answers: of_all(n_answers),
            });
        }
        Self { method, queries: queries.len(), rows }
    }

    /// The number of candidates after which [`AHEAD`] more give an answer to fewer than [`FLAT`] of the queries.
    /// `None` if there is no such number among the known ranks.
    #[must_use]
    pub fn enough(&self) -> Option<usize> {
        let is_flat = |pair: &&[DepthRow]| {
            pair.last().zip(pair.first()).is_some_and(|(last, first)| last.answered - first.answered < FLAT)
        };
        self.rows.windows(AHEAD + 1).find(is_flat).map(|rows| rows[0].rank)
    }
}

/// Reads the candidates and labels of the last build in a directory, by method.
///
/// # Errors
/// When nothing was built there, or it cannot be read.
pub fn depth_of_build(root: &Path) -> Result<Vec<Depth>, FactoryError> {
    let steps = step::last_build(root)?;
    let directory = |name: &str| {
        let step = steps.iter().find(|step| step.name == name).ok_or_else(|| {
            FactoryError::step(
                "candidates",
                format!("expected a build with the step {name}, found none; build again"),
            )
        })?;
        Ok::<_, FactoryError>(directory_of(root, &step.key()))
    };
    let mut labels: HashMap<(String, String), bool> = HashMap::new();
    jsonl::for_each(&directory("labels")?.join(PAIRS_FILE), &mut |pair: PairRecord, _| {
        let answers = pair.is_positive();
        labels.insert((pair.query_id, pair.code_id), answers);
        Ok(())
    })?;
    // By method and query, in order of rank.
    let mut found: BTreeMap<String, BTreeMap<String, Vec<Option<bool>>>> = BTreeMap::new();
    jsonl::for_each(&directory("candidates")?.join(CANDIDATES), &mut |candidate: Candidate, _| {
        let pair = (candidate.query, candidate.code);
        let label = labels.get(&pair).copied();
        for by in candidate.found {
            let ranks = found.entry(by.by).or_default().entry(pair.0.clone()).or_default();
            if ranks.len() < by.rank {
                ranks.resize(by.rank, None);
            }
            ranks[by.rank - 1] = label;
        }
        Ok(())
    })?;
    let depth = |(method, queries): (String, BTreeMap<String, Vec<Option<bool>>>)| {
        Depth::new(method, &queries.into_values().collect::<Vec<_>>())
    };
    Ok(found.into_iter().map(depth).collect())
}

/// Reads a run and labels of its results, such as the judgments of a benchmark.
///
/// # Errors
/// When a file cannot be read, or there is no run or no judgment.
pub fn depth_of_run(run: &Path, labels: &Path, split: &str) -> Result<Depth, FactoryError> {
    let mut judged: HashMap<(String, String), bool> = HashMap::new();
    let sources = dataset::sources(&[labels.to_owned()], "", split)?;
    dataset::for_each(&sources, &mut |_, record| {
        match record {
            Record::Judgment(judgment) => {
                judged.insert((judgment.query, judgment.document), judgment.grade > 0);
            }
            Record::Pair(pair) => {
                if let (Some(query), Some(code), Some(label)) = (pair.query.id, pair.code.id, pair.label) {
                    judged.insert((query, code), label > 0);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    let mut found: BTreeMap<String, Vec<(f64, String)>> = BTreeMap::new();
    let sources = dataset::sources(&[run.to_owned()], "", split)?;
    if !sources.iter().any(|source| source.format.holds == RecordKind::Rankings) {
        let problem = "expected a run, such as `quarry eval --write-run` writes it; name the run first, then the labels";
        return Err(FactoryError::Line { path: run.to_owned(), line: 1, problem: problem.to_owned() });
    }
    dataset::for_each(&sources, &mut |_, record| {
        if let Record::Retrieved(result) = record {
            found.entry(result.query).or_default().push((result.score, result.document));
        }
        Ok(())
    })?;
    let labels_of = |(query, mut results): (String, Vec<(f64, String)>)| {
        results.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let label = |(_, document): (f64, String)| judged.get(&(query.clone(), document)).copied();
        results.into_iter().map(label).collect::<Vec<_>>()
    };
    let queries: Vec<Vec<Option<bool>>> = found.into_iter().map(labels_of).collect();
    let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let depth = Depth::new(name, &queries);
    if depth.queries == 0 {
        let problem = format!(
            "expected labels of the results of {}, found none of the same ids; name the data that the run is of",
            run.display()
        );
        return Err(FactoryError::Line { path: labels.to_owned(), line: 1, problem });
    }
    Ok(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_counted_by_rank_and_unlabelled_candidates_are_not_hits() {
        let (yes, no) = (Some(true), Some(false));
        let depth =
            Depth::new("m".into(), &[vec![no, yes, yes], vec![yes, None], vec![no, no, None], vec![None]]);
        assert_eq!((depth.queries, depth.rows.len()), (3, 3));
        let row =
            |rank, labelled, hit, answered, answers| DepthRow { rank, labelled, hit, answered, answers };
        let third = 1.0 / 3.0;
        assert_eq!(
            depth.rows,
            [
                row(1, 3, third, third, third),
                row(2, 2, 0.5, 2.0 * third, 2.0 * third),
                row(3, 1, 1.0, 2.0 * third, 1.0)
            ]
        );
        assert_eq!(depth.enough(), None);
    }

    #[test]
    fn it_is_enough_where_more_candidates_bring_nothing() {
        let mut labels = vec![Some(false); 12];
        labels[2] = Some(true);
        let depth = Depth::new("m".into(), &[labels, vec![Some(true)]]);
        assert_eq!(depth.enough(), Some(3));
    }

    #[test]
    fn a_run_is_read_with_its_labels() {
        let directory = tempfile::tempdir().unwrap();
        let [run, qrels] = ["run.trec", "qrels.tsv"].map(|name| directory.path().join(name));
        std::fs::write(&run, "q1 Q0 b 1 2.0 r\nq1 Q0 a 2 3.0 r\nq2 Q0 a 1 1.0 r\n").unwrap();
        std::fs::write(&qrels, "query-id\tcorpus-id\tscore\nq1\ta\t0\nq1\tb\t1\n").unwrap();
        let depth = depth_of_run(&run, &qrels, "qrels").unwrap();
        assert_eq!((depth.method.as_str(), depth.queries), ("run.trec", 1));
        let hits: Vec<f64> = depth.rows.iter().map(|row| row.hit).collect();
        assert_eq!(hits, [0.0, 1.0]);
        let error = depth_of_run(&qrels, &run, "qrels").unwrap_err().to_string();
        assert!(error.contains("expected a run"), "{error}");
    }
}
