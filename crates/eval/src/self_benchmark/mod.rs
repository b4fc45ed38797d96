//! The self-benchmark: a repository as a benchmark of itself, without labels.
//!
//! [`docstrings`], [`commits`] and [`test_names`] are pure functions from files ([`tree`]) and commits to queries
//! with the spans that answer them; each is a [`QuerySource`] that replaces queries by people. A [`view::View`]
//! hides text that would give an answer away, [`variants`] are the methods to compare, [`evaluation`] runs them,
//! [`report`] names the best one and the significance of the difference, and [`agreement`] tests whether sources
//! rank methods in the same order as labels do. [`hold_out`] splits questions into a training set and a selection
//! set.

pub mod agreement;
pub mod commits;
pub mod docstrings;
pub mod evaluation;
pub mod export;
pub mod hold_out;
mod page;
pub mod report;
pub mod test_names;
pub mod tree;
pub mod variants;
pub mod view;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use quarry_corpus::formats::repo_search::{RepositoryQuery, Target};
use quarry_corpus::pairs::{Extent, fingerprint};
use quarry_history::{Commit, HistoryOptions, read_history};
use quarry_text::{counted, with_causes};
use serde::{Deserialize, Serialize};

use self::commits::CommitQuestions;
use self::tree::{Functions, SourceFile};
use self::view::View;
use crate::EvalError;
use crate::spans::{CodeSpan, ndcg};

/// Source of queries.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum QuerySource {
    /// The documentation of functions.
    Docstring,
    /// The messages of commits.
    Commit,
    /// The names of tests.
    Test,
    /// The user's own queries.
    Queries,
}

impl fmt::Display for QuerySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            QuerySource::Docstring => "docstring",
            QuerySource::Commit => "commit",
            QuerySource::Test => "test",
            QuerySource::Queries => "queries",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabeledQuery {
    pub text: String,
    /// Answers, each with equivalent spans: near-duplicates of an answer are equally good.
    pub answers: Vec<Vec<Target>>,
}

impl From<&RepositoryQuery> for LabeledQuery {
    fn from(query: &RepositoryQuery) -> Self {
        let answers = query.targets.iter().map(|target| vec![target.clone()]).collect();
        Self { text: query.text.clone(), answers }
    }
}

impl LabeledQuery {
    /// [`spans::ndcg`](crate::spans::ndcg) of ranked results; a result in any span of an answer counts.
    pub fn ndcg(&self, results: &[CodeSpan]) -> f64 {
        ndcg(&self.answers, results, |answer, span| answer.iter().any(|target| span.answers(target)))
    }

    /// Reciprocal rank of the first of ranked results in a span of any answer; 0 if none is.
    pub fn reciprocal_rank(&self, results: &[CodeSpan]) -> f64 {
        let answers = |span: &CodeSpan| self.answers.iter().flatten().any(|target| span.answers(target));
        results.iter().position(answers).map_or(0.0, |position| 1.0 / (position + 1) as f64)
    }
}

/// Queries of one source, and the number of rejected candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Questions {
    /// Queries, in the order of the source.
    pub queries: Vec<LabeledQuery>,
    /// Number of rejected candidates, by reason.
    pub left_out: BTreeMap<&'static str, usize>,
}

impl Questions {
    fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// Keeps a random sample of at most `n` queries, in the original order. Sampling depends only on their texts
    /// and the seed, so that the samples of two versions of a tree have most queries in common.
    pub fn sample(&mut self, n: usize, seed: u64) {
        if self.queries.len() <= n {
            return;
        }
        let drawn = |query: &LabeledQuery| fastrand::Rng::with_seed(fingerprint(&query.text) ^ seed).u64(..);
        let mut order: Vec<(u64, usize)> = self.queries.iter().map(drawn).zip(0..).collect();
        order.sort_unstable();
        let mut is_kept = vec![false; order.len()];
        order.iter().take(n).for_each(|(_, position)| is_kept[*position] = true);
        let mut is_kept = is_kept.into_iter();
        self.queries.retain(|_| is_kept.next().unwrap_or_default());
    }
}

/// Queries of one source, and the view in which their answers are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuerySet {
    pub source: QuerySource,
    /// Text hidden from search.
    pub view: View,
    pub questions: Questions,
}

#[derive(Debug, Clone)]
pub struct SelfBenchmarkOptions {
    /// Sources of queries, without duplicates.
    pub sources: Vec<QuerySource>,
    /// Maximum number of queries per source: a random sample of documentation and tests, the newest commits.
    pub queries: usize,
    pub seed: u64,
    /// The part of a function's documentation that becomes the query.
    pub extent: Extent,
    /// If true, documentation stays visible in the code when it is the query.
    pub keeps_docs: bool,
    /// If true, names of functions are hidden when documentation is the query.
    pub hides_names: bool,
    pub history: HistoryOptions,
}

impl Default for SelfBenchmarkOptions {
    fn default() -> Self {
        Self {
            sources: vec![QuerySource::Docstring, QuerySource::Commit, QuerySource::Test],
            queries: 300,
            seed: 42,
            extent: Extent::default(),
            keeps_docs: false,
            hides_names: false,
            history: HistoryOptions::default(),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct SelfBenchmark {
    /// Non-empty sets of queries.
    pub sets: Vec<QuerySet>,
    /// Sources without queries and the reasons, and limitations of the other sources.
    pub notes: Vec<String>,
}

/// Creates a self-benchmark of a repository. `files` are those below `root`, whose history is read if it has one;
/// `own` are the user's queries.
pub fn questions(
    root: &Path,
    files: &[SourceFile],
    own: Vec<RepositoryQuery>,
    options: &SelfBenchmarkOptions,
) -> SelfBenchmark {
    questions_about(&Functions::collect(files), root, files, own, options)
}

/// Like [`questions`], with the `functions` of the files already known.
pub fn questions_about(
    functions: &Functions<'_>,
    root: &Path,
    files: &[SourceFile],
    own: Vec<RepositoryQuery>,
    options: &SelfBenchmarkOptions,
) -> SelfBenchmark {
    let mut benchmark = SelfBenchmark::default();
    for &source in &options.sources {
        let (view, mut questions) = match source {
            QuerySource::Docstring => (
                View { hides_docs: !options.keeps_docs, hides_names: options.hides_names, ..View::default() },
                docstrings::questions(functions, options.extent),
            ),
            QuerySource::Commit => {
                (View::default(), from_history(root, functions, options, &mut benchmark.notes))
            }
            QuerySource::Test => {
                (View { hides_tests: true, ..View::default() }, test_names::questions(files, functions))
            }
            QuerySource::Queries => {
                let queries = own.iter().map(LabeledQuery::from).collect();
                (View::default(), Questions { queries, ..Questions::default() })
            }
        };
        questions.sample(options.queries, options.seed);
        if questions.queries.is_empty() {
            let reasons: Vec<String> =
                questions.left_out.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            let reasons =
                if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
            benchmark.notes.push(format!("{source}: no queries{reasons}"));
        } else {
            benchmark.sets.push(QuerySet { source, view, questions });
        }
    }
    benchmark
}

const COMMITS_PER_BATCH: usize = 64;

fn from_history(
    root: &Path,
    functions: &Functions<'_>,
    options: &SelfBenchmarkOptions,
    notes: &mut Vec<String>,
) -> Questions {
    let questions = std::cell::RefCell::new(CommitQuestions::new(functions));
    let is_file = |path: &str| questions.borrow().has_file(path);
    let mut batch: Vec<Commit> = Vec::new();
    let mut on_commit = |commit: Commit| {
        batch.push(commit);
        let mut questions = questions.borrow_mut();
        if batch.len() == COMMITS_PER_BATCH {
            questions.add(&std::mem::take(&mut batch));
        }
        if questions.len() < options.queries { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let is_wanted = |header: &quarry_history::Header| commits::question(header).is_some();
    let reach = read_history(root, &options.history, &is_wanted, &is_file, &mut on_commit);
    let mut questions = questions.into_inner();
    questions.add(&batch);
    match reach {
        Ok(reach) if reach.is_shallow && questions.len() < options.queries => notes.push(format!(
            "commit: the clone is shallow and has only {}; `git fetch --unshallow` fetches the others",
            counted(reach.commits, "commit")
        )),
        Ok(reach) if reach.unreadable > 0 => notes.push(format!(
            "commit: {} of {} commits cannot be read; `git fsck` shows why, and `git fetch --refetch` fetches what is \
             missing",
            reach.unreadable, reach.commits
        )),
        Ok(_) => {}
        Err(error) => notes.push(format!("commit: {}", with_causes(&error))),
    }
    questions.finish()
}

/// Reads the user's queries, one `query TAB path[:line[-line]]` per line; a query on several lines has several answers.
///
/// # Errors
/// When a line is malformed, or names a file or line that does not exist.
pub fn own_questions(path: &Path, files: &[SourceFile]) -> Result<Vec<RepositoryQuery>, EvalError> {
    let lengths: BTreeMap<&str, usize> = files
        .iter()
        .map(|file| {
            let ends = file.bytes.iter().filter(|byte| **byte == b'\n').count();
            (file.path.as_str(), ends + usize::from(!file.bytes.ends_with(b"\n")))
        })
        .collect();
    Ok(quarry_corpus::formats::repo_search::read_questions(path, &lengths)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(path: &str, start_line: u32, end_line: u32) -> CodeSpan {
        CodeSpan { path: path.into(), start_line, end_line }
    }

    fn target(path: &str, lines: (u32, u32)) -> Target {
        Target { path: path.into(), lines: Some(lines) }
    }

    #[test]
    fn any_of_equal_spans_answers_wholly() {
        let query = LabeledQuery {
            text: String::new(),
            answers: vec![vec![target("a", (1, 5)), target("b", (1, 5))], vec![target("c", (3, 4))]],
        };
        let results = [span("b", 5, 9), span("a", 1, 5), span("c", 1, 3)];
        let expected = (1.0 + 0.5) / (1.0 + 1.0 / 3.0_f64.log2());
        assert!((query.ndcg(&results) - expected).abs() < 1e-12);
        assert_eq!(query.ndcg(&[span("c", 1, 2)]), 0.0);
        assert_eq!(query.reciprocal_rank(&results), 1.0);
        assert_eq!(query.reciprocal_rank(&[span("b", 6, 9), span("c", 1, 3)]), 0.5);
        assert_eq!(query.reciprocal_rank(&[span("c", 1, 2)]), 0.0);
    }

    #[test]
    fn a_sample_is_drawn_in_order_by_texts_and_seed() {
        let sample = |n: usize, seed| {
            let query = |n: usize| LabeledQuery { text: n.to_string(), answers: vec![] };
            let mut questions = Questions { queries: (0..n).map(query).collect(), ..Questions::default() };
            questions.sample(10, seed);
            questions.queries.into_iter().map(|query| query.text.parse().unwrap()).collect::<Vec<usize>>()
        };
        let drawn = sample(100, 1);
        assert_eq!(drawn.len(), 10);
        assert!(drawn.is_sorted() && drawn == sample(100, 1) && drawn != sample(100, 2));
        // One additional query replaces at most one.
        assert!(sample(101, 1).iter().filter(|number| drawn.contains(number)).count() >= 9);
    }
}
