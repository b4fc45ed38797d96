//! The trees that questions are asked about: checkouts of tables of repositories, and the commits of issues.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_corpus::formats::localize::Issue;
use quarry_corpus::formats::repo_search::{Repository, RepositoryQuery};
use quarry_embed::Embedder;
use quarry_index::{Index, OpenOptions, RankingWeights};

use super::{Question, Read, gold_at, gold_named};
use crate::EvalError;
use crate::localize::{Directories, Outcome, each_commit};
use crate::method::{LoadModel, Method};
use crate::repo_search::{indexed_directory, searching};

#[derive(Clone, Copy)]
pub struct AskedTree<'a> {
    pub root: &'a Path,
    /// The directory of its index, which is up to date.
    pub index_directory: &'a Path,
    pub index: &'a Index,
    pub embedder: Option<&'a Arc<dyn Embedder>>,
    pub ranking: &'a RankingWeights,
}

pub type Ask<'a> = &'a mut dyn FnMut(AskedTree<'_>, &[Question]) -> Result<Vec<Read>, EvalError>;

/// Asks the questions of a table whose targets are lines, each about the checkout of its repository.
///
/// # Errors
/// When a checkout is missing or cannot be indexed, the method cannot be searched with, or `ask` fails.
pub fn ask_table(
    repositories: &[Repository],
    directories: &[PathBuf],
    method: &Method,
    load: &LoadModel<'_>,
    ask: Ask<'_>,
) -> Result<Vec<Read>, EvalError> {
    let (embedder, ranking) = searching(method, load)?;
    let mut reads = Vec::new();
    for repository in repositories {
        let scratch = tempfile::tempdir().map_err(EvalError::TemporaryDirectory)?;
        let index_directory = scratch.path().join("index");
        let root = indexed_directory(directories, repository);
        let options = OpenOptions { directory: Some(index_directory.clone()), ..OpenOptions::default() };
        let index = Index::open_or_build(&root, &options, embedder.clone(), &|_| {})?.index;
        let questions: Vec<Question> = repository
            .queries
            .iter()
            .enumerate()
            .map(|(number, query)| question(&index, &repository.name, number, query))
            .collect::<Result<Vec<_>, EvalError>>()?
            .into_iter()
            .flatten()
            .collect();
        let index_directory = index_directory.as_path();
        let (embedder, ranking) = (embedder.as_ref(), &ranking);
        reads.extend(ask(
            AskedTree { root: &root, index_directory, index: &index, embedder, ranking },
            &questions,
        )?);
    }
    not_empty(reads, "the table")
}

fn question(
    index: &Index,
    repository: &str,
    number: usize,
    query: &RepositoryQuery,
) -> Result<Option<Question>, EvalError> {
    let targets = query.targets.iter().filter_map(|target| Some((target, target.lines?)));
    let gold: Vec<_> = targets
        .map(|(target, (start, end))| gold_at(index, &target.path, &(start..=end)))
        .collect::<Result<Vec<_>, EvalError>>()?;
    let gold: Vec<_> = gold.into_iter().flatten().collect();
    Ok((!gold.is_empty()).then(|| Question {
        id: format!("{repository}:{}", number + 1),
        repository: repository.to_owned(),
        text: query.text.clone(),
        gold,
    }))
}

/// Asks issues, each about its repository as it was before the fix.
///
/// # Errors
/// When a clone is missing or cannot be read, the method cannot be searched with, or `ask` fails.
pub fn ask_issues(
    issues: &[Issue],
    method: &Method,
    places: Directories<'_>,
    load: &LoadModel<'_>,
    on_issue: &dyn Fn(),
    ask: Ask<'_>,
) -> Result<Vec<Read>, EvalError> {
    let (embedder, ranking) = searching(method, load)?;
    let (embedder, ranking) = (embedder.as_ref(), &ranking);
    let mut reads = Vec::new();
    let mut outcome = Outcome::default();
    each_commit(issues, places, &mut outcome, on_issue, &mut |commit, _, numbers, _| {
        let (index, index_directory) = commit.open(embedder)?;
        let mut questions = Vec::new();
        for &number in numbers {
            let Issue { id, repository, text, functions, .. } = &issues[number];
            let named = functions.iter().filter_map(|function| function.split_once(':'));
            let gold: Vec<_> =
                named.map(|(path, name)| gold_named(&index, path, name)).collect::<Result<Vec<_>, _>>()?;
            let gold: Vec<_> = gold.into_iter().flatten().collect();
            if !gold.is_empty() {
                let (id, repository, text) = (id.clone(), repository.clone(), text.clone());
                questions.push(Question { id, repository, text, gold });
            }
        }
        let (root, index, index_directory) = (commit.tree(), &index, index_directory.as_path());
        reads.extend(ask(AskedTree { root, index_directory, index, embedder, ranking }, &questions)?);
        Ok(())
    })?;
    not_empty(reads, "the file of issues")
}

fn not_empty(reads: Vec<Read>, name: &str) -> Result<Vec<Read>, EvalError> {
    if reads.is_empty() { Err(EvalError::NothingToAsk { name: name.to_owned() }) } else { Ok(reads) }
}
