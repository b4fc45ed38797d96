//! A repository as a benchmark of itself, without a label: what stands in it says what is asked and what answers.
//!
//! [`docstrings`], [`commits`] and [`test_names`] are pure functions from files ([`tree`]) and commits to questions with
//! the places that answer them; each is a *proxy* for the questions that people would ask. A [`view::View`] hides what
//! would give an answer away, [`variants`] are the methods that are compared, [`evaluation`] asks them, [`report`] says
//! which is best and whether that is more than chance, and [`agreement`] how far proxies order methods as labels do.

pub mod agreement;
pub mod commits;
pub mod docstrings;
pub mod evaluation;
pub mod export;
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
use quarry_corpus::git::{Commit, HistoryOptions, read_history};
use quarry_corpus::pairs::Extent;
use quarry_text::counted;
use serde::{Deserialize, Serialize};

use self::commits::CommitQuestions;
use self::tree::{Functions, SourceFile};
use self::view::View;
use crate::EvalError;
use crate::repo_search::{K, Place, lies_in};
use quarry_metrics::ranking::Hit;
use quarry_metrics::{Gain, rank};

/// Where questions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proxy {
    /// What a function's documentation says.
    Docstring,
    /// What a commit says that it does.
    Commit,
    /// What a test's name says.
    Test,
    /// What the user asks.
    Queries,
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Proxy::Docstring => "docstring",
            Proxy::Commit => "commit",
            Proxy::Test => "test",
            Proxy::Queries => "queries",
        })
    }
}

/// A question and what answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledQuery {
    /// What is asked.
    pub text: String,
    /// What is to be found, each in any of its places: those of near-duplicates are equals.
    pub answers: Vec<Vec<Target>>,
}

impl From<&RepositoryQuery> for LabelledQuery {
    fn from(query: &RepositoryQuery) -> Self {
        let answers = query.targets.iter().map(|target| vec![target.clone()]).collect();
        Self { text: query.text.clone(), answers }
    }
}

impl LabelledQuery {
    /// NDCG at [`K`] of ranked results, best first: each answer, of grade 1, stands at the rank of the first result
    /// that lies in one of its places. At most 1, also where a result lies in several answers. It is
    /// [`crate::repo_search::ndcg`] where each answer has one place.
    #[must_use]
    pub fn ndcg(&self, results: &[Place]) -> f64 {
        let is_in = |places: &[Target], result: &Place| places.iter().any(|place| lies_in(result, place));
        let mut hits: Vec<Hit> = self
            .answers
            .iter()
            .filter_map(|places| results.iter().position(|result| is_in(places, result)))
            .map(|index| Hit::new(index + 1, 1))
            .collect();
        hits.sort_unstable_by_key(|hit| hit.rank);
        rank::ndcg(&hits, &vec![1; self.answers.len()], Some(K), Gain::Linear).min(1.0)
    }
}

/// Questions, and what gave none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Questions {
    /// In the order of what they come from.
    pub queries: Vec<LabelledQuery>,
    /// How much was left out, by the reason in words.
    pub left_out: BTreeMap<&'static str, usize>,
}

impl Questions {
    fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// Keeps at most `n` questions, drawn by `seed`, in their order.
    pub fn sample(&mut self, n: usize, seed: u64) {
        if self.queries.len() <= n {
            return;
        }
        let mut places: Vec<usize> = (0..self.queries.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut places);
        places.truncate(n);
        places.sort_unstable();
        let mut kept = places.into_iter().peekable();
        let mut place = 0..;
        self.queries.retain(|_| kept.next_if_eq(&place.next().unwrap_or_default()).is_some());
    }
}

/// Questions of one proxy, to be asked of what a view shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Where they come from.
    pub proxy: Proxy,
    /// What is hidden.
    pub view: View,
    /// The questions.
    pub questions: Questions,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Options {
    /// Proxies, each once.
    pub proxies: Vec<Proxy>,
    /// Questions of each that are asked at most: a sample of documentation and tests, the newest commits.
    pub queries: usize,
    /// Seed of the sample.
    pub seed: u64,
    /// How much of a documentation is asked.
    pub extent: Extent,
    /// Whether documentation stays where it stands, when it is asked about.
    pub keeps_docs: bool,
    /// Whether names are hidden, when documentation is asked about.
    pub hides_names: bool,
    /// How much of the history is read.
    pub history: HistoryOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            proxies: vec![Proxy::Docstring, Proxy::Commit, Proxy::Test],
            queries: 300,
            seed: 42,
            extent: Extent::default(),
            keeps_docs: false,
            hides_names: false,
            history: HistoryOptions::default(),
        }
    }
}

/// Questions of all proxies that have some, and what is to be said of the others, in words.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Never without a question.
    pub asked: Vec<Asked>,
    /// What could not be asked, and why; what to know of what can.
    pub notes: Vec<String>,
}

/// Turns a repository into questions. `files` are those of the folder `root`, whose history is read where there is one;
/// `own` are the user's questions.
#[must_use]
pub fn questions(root: &Path, files: &[SourceFile], own: Vec<RepositoryQuery>, options: &Options) -> Found {
    let functions = Functions::of(files);
    let mut found = Found::default();
    for &proxy in &options.proxies {
        let (view, mut questions) = match proxy {
            Proxy::Docstring => (
                View { hides_docs: !options.keeps_docs, hides_names: options.hides_names, ..View::default() },
                docstrings::questions(&functions, options.extent),
            ),
            Proxy::Commit => (View::default(), from_history(root, &functions, options, &mut found.notes)),
            Proxy::Test => {
                (View { hides_tests: true, ..View::default() }, test_names::questions(files, &functions))
            }
            Proxy::Queries => {
                let queries = own.iter().map(LabelledQuery::from).collect();
                (View::default(), Questions { queries, ..Questions::default() })
            }
        };
        questions.sample(options.queries, options.seed);
        if questions.queries.is_empty() {
            let reasons: Vec<String> =
                questions.left_out.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            let reasons =
                if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
            found.notes.push(format!("{proxy}: nothing to ask{reasons}"));
        } else {
            found.asked.push(Asked { proxy, view, questions });
        }
    }
    found
}

/// Commits that are taken apart together.
const COMMITS_PER_BATCH: usize = 64;

fn from_history(
    root: &Path,
    functions: &Functions<'_>,
    options: &Options,
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
    let is_wanted = |header: &quarry_corpus::git::Header| commits::question(header).is_some();
    let reach = read_history(root, &options.history, &is_wanted, &is_file, &mut on_commit);
    let mut questions = questions.into_inner();
    questions.add(&batch);
    match reach {
        Ok(reach) if reach.is_shallow && questions.len() < options.queries => notes.push(format!(
            "commit: the clone is shallow and has only {}; `git fetch --unshallow` brings the others",
            counted(reach.commits, "commit")
        )),
        Ok(reach) if reach.unreadable > 0 => notes.push(format!(
            "commit: {} of {} commits cannot be read; `git fsck` says why, `git fetch --refetch` brings what is missing",
            reach.unreadable, reach.commits
        )),
        Ok(_) => {}
        Err(error) => {
            let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
            let causes: String = causes.map(|cause| format!(": {cause}")).collect();
            notes.push(format!("commit: {error}{causes}"));
        }
    }
    questions.finish()
}

/// Reads the user's questions: `query TAB path[:line[-line]]`, a line each; those of one text have several answers.
///
/// # Errors
/// A line of another form, or one that names a file or line that is not there.
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

    fn place(path: &str, start_line: u32, end_line: u32) -> Place {
        Place { path: path.into(), start_line, end_line }
    }

    fn target(path: &str, lines: (u32, u32)) -> Target {
        Target { path: path.into(), lines: Some(lines) }
    }

    #[test]
    fn any_of_equal_places_answers_wholly() {
        let query = LabelledQuery {
            text: String::new(),
            answers: vec![vec![target("a", (1, 5)), target("b", (1, 5))], vec![target("c", (3, 4))]],
        };
        let results = [place("b", 5, 9), place("a", 1, 5), place("c", 1, 3)];
        let expected = (1.0 + 0.5) / (1.0 + 1.0 / 3.0_f64.log2());
        assert!((query.ndcg(&results) - expected).abs() < 1e-12);
        assert_eq!(query.ndcg(&[place("c", 1, 2)]), 0.0);
    }

    #[test]
    fn a_sample_is_drawn_in_order_and_by_its_seed() {
        let of = |seed| {
            let query = |n: usize| LabelledQuery { text: n.to_string(), answers: vec![] };
            let mut questions = Questions { queries: (0..100).map(query).collect(), ..Questions::default() };
            questions.sample(10, seed);
            questions.queries.into_iter().map(|query| query.text.parse().unwrap()).collect::<Vec<usize>>()
        };
        assert_eq!(of(1).len(), 10);
        assert!(of(1).is_sorted() && of(1) == of(1) && of(1) != of(2));
    }
}
