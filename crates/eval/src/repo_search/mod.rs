//! Repository search: the rank of the first result within each target.
//!
//! [`evaluate`] measures the index and search of this project by [`spans::ndcg`](crate::spans::ndcg); [`Indexes`]
//! evaluates several rankings, between which [`tuning`] chooses. [`calibration`] measures how well a search knows
//! that it has found nothing.

pub mod calibration;
pub mod documentation;
pub mod drawn;
pub mod intent;
pub mod tuning;

use self::calibration::Sample;
use crate::EvalError;
use crate::method::cross_encoder::CachedCrossEncoder;
use crate::method::{LoadModel, Method, ModelName};
use crate::spans::{CodeSpan, K, MEASURE, ndcg};
use quarry_corpus::formats::repo_search::{Repository, RepositoryQuery};
use quarry_embed::{Embedder, WithCrossEncoder, WithReranker};
use quarry_index::rerank::CROSS_ENCODER_DEPTH;
use quarry_index::{Filter, Index, OpenOptions, RankingWeights, SearchRequest, SearchResponse};
use quarry_metrics::significance::{Bootstrap, Interval, mean, mean_interval};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug, Clone, PartialEq)]
pub struct RepoSearchScores {
    /// Identity of the method's model and its weights, if it has one.
    pub model: Option<String>,
    /// One entry per repository, in the order of the table.
    pub repositories: Vec<RepositoryScores>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RepositoryScores {
    pub name: String,
    pub units: usize,
    pub index_time: Duration,
    /// One entry per query with an answer, in the order of the table.
    pub queries: Vec<QueryScore>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryScore {
    pub repository: String,
    pub category: String,
    pub query: String,
    pub ndcg: f64,
    /// [`quarry_index::SearchResponse::confidence`].
    pub confidence: f32,
    /// Time of the search, including embedding the query.
    #[serde(skip)]
    pub time: Duration,
}

/// Means over repositories, with metrics by name.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// Total number of queries.
    pub queries: usize,
    /// Mean over repositories of the means over their queries.
    pub metrics: BTreeMap<String, f64>,
    /// Bootstrap intervals, resampling queries within repositories.
    pub intervals: BTreeMap<String, Interval>,
    /// Each repository, in the order of the table.
    pub repositories: Vec<RepositorySummary>,
    /// Mean over all queries of each category, in any repository.
    pub categories: BTreeMap<String, f64>,
    /// Median time of a query in milliseconds.
    pub query_ms: f64,
}

/// Means over the queries of one repository.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RepositorySummary {
    /// Short name.
    pub name: String,
    /// Number of queries.
    pub queries: usize,
    /// Means.
    pub metrics: BTreeMap<String, f64>,
    /// Bootstrap intervals of the means.
    pub intervals: BTreeMap<String, Interval>,
    /// Units in the index.
    pub units: usize,
    /// Time to build the index, in milliseconds.
    pub index_ms: f64,
    /// Median time of a query in milliseconds.
    pub query_ms: f64,
}

/// The directory to index for a repository, in [`directory_of`].
pub fn indexed_directory(directories: &[PathBuf], repository: &Repository) -> PathBuf {
    directory_of(directories, repository).join(indexed_path(repository))
}

/// The first of the directories that has a checkout of the repository, or the first of all if none has. Each contains
/// the output of `git archive REVISION -- ROOT` for each repository, in a directory of its short name.
pub fn directory_of<'a>(directories: &'a [PathBuf], repository: &Repository) -> &'a Path {
    let path = indexed_path(repository);
    let found = directories.iter().find(|directory| directory.join(&path).is_dir());
    found.or(directories.first()).map_or(Path::new(""), PathBuf::as_path)
}

/// The path of the indexed directory of a repository, relative to the directory of all checkouts.
pub fn indexed_path(repository: &Repository) -> PathBuf {
    Path::new(&repository.name).join(&repository.root)
}

/// Indexes each repository in a temporary directory, and searches it as `quarry search` does. `on_repository` is
/// called with the name of each repository that is indexed.
///
/// # Errors
/// As [`Indexes::build`], and when a search fails.
pub fn evaluate(
    repositories: &[Repository],
    directories: &[PathBuf],
    method: &Method,
    load: &LoadModel<'_>,
    on_repository: impl FnMut(&str),
) -> Result<RepoSearchScores, EvalError> {
    let indexes = Indexes::build(repositories, directories, method, load, on_repository)?;
    indexes.scores(&indexes.ranking)
}

pub struct Indexes<'a> {
    /// The ranking of the method for which they were built.
    pub ranking: RankingWeights,
    model: Option<String>,
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    repository: &'a Repository,
    index: Index,
    index_time: Duration,
    /// Keeps the index on disk.
    _directory: TempDir,
}

pub(crate) fn searching(
    method: &Method,
    load: &LoadModel<'_>,
) -> Result<(Option<Arc<dyn Embedder>>, RankingWeights), EvalError> {
    let dense_only = RankingWeights { dense_weight: 1.0, function_share: 0.0, ..RankingWeights::default() };
    Ok(match method {
        Method::Bm25 => (None, RankingWeights::default()),
        Method::Hybrid => (Some(load.load(ModelName::Builtin)?), RankingWeights::default()),
        Method::Best => {
            let first = load.load(ModelName::Builtin)?;
            let reranker = load.load(ModelName::Reranker)?;
            (Some(Arc::new(WithReranker { first, reranker })), RankingWeights::default())
        }
        Method::Static => (Some(load.load(ModelName::Builtin)?), dense_only),
        Method::Model(path) if path.exists() => (Some(load.load(ModelName::Path(path))?), dense_only),
        Method::Model(path) => return Err(EvalError::UnknownMethod { found: path.display().to_string() }),
        Method::Rerank { first, second, depth: CROSS_ENCODER_DEPTH } => {
            match (searching(first, load)?, &**second) {
                ((Some(embedder), ranking), Method::Model(path)) if embedder.cross_encoder().is_none() => {
                    let cross_encoder = Arc::new(CachedCrossEncoder::load(path)?);
                    (Some(Arc::new(WithCrossEncoder { embedder, cross_encoder })), ranking)
                }
                _ => return Err(EvalError::NoRepositoryMethod { found: method.to_string() }),
            }
        }
        other => return Err(EvalError::NoRepositoryMethod { found: other.to_string() }),
    })
}

impl<'a> Indexes<'a> {
    /// Indexes the [`indexed_directory`] of each repository in a temporary directory. `bm25` searches without a
    /// model, `hybrid` with the built-in one, `static` and a model's path with the model alone, `rerank` with a cross-encoder
    /// after any of these that has a model; ranking rules apply to all. `on_repository` is called with the name of each repository that is done.
    ///
    /// # Errors
    /// When a repository is missing or cannot be indexed, the method is none of these or a path without a model, or
    /// the model fails.
    pub fn build(
        repositories: &'a [Repository],
        directories: &[PathBuf],
        method: &Method,
        load: &LoadModel<'_>,
        mut on_repository: impl FnMut(&str),
    ) -> Result<Self, EvalError> {
        for repository in repositories {
            let path = indexed_directory(directories, repository);
            if !path.is_dir() {
                let Repository { name, revision, root, .. } = repository;
                return Err(EvalError::MissingRepository {
                    path,
                    name: name.clone(),
                    command: format!(
                        "git archive {revision} -- {}",
                        if root.is_empty() { "." } else { root }
                    ),
                });
            }
        }
        let (embedder, ranking) = searching(method, load)?;
        let entries = repositories
            .iter()
            .map(|repository| {
                let entry = Entry::build(repository, directories, embedder.clone())?;
                on_repository(&repository.name);
                Ok(entry)
            })
            .collect::<Result<_, EvalError>>()?;
        Ok(Self { ranking, model: embedder.map(|embedder| embedder.id().to_owned()), entries })
    }

    /// Searches for all queries with answers.
    ///
    /// # Errors
    /// When a search fails.
    pub fn scores(&self, ranking: &RankingWeights) -> Result<RepoSearchScores, EvalError> {
        let repositories =
            self.entries.iter().map(|entry| entry.scores(ranking)).collect::<Result<_, _>>()?;
        Ok(RepoSearchScores { model: self.model.clone(), repositories })
    }

    /// Searches every repository for its queries, with and without an answer, and for what is [`drawn`] from it.
    ///
    /// # Errors
    /// When a file cannot be read, or a search fails.
    pub fn samples(&self) -> Result<Vec<Sample>, EvalError> {
        let of_repository = |(repository, entry): (usize, &Entry)| {
            let drawn = drawn::questions(&entry.index)?;
            let ask = |query: &RepositoryQuery| {
                let response = search(&entry.index, &query.text, &self.ranking)?;
                let is_answer = |hit: quarry_index::Hit| {
                    let span = CodeSpan::from(hit);
                    query.targets.iter().any(|target| span.answers(target))
                };
                Ok(Sample {
                    repository,
                    answerable: !query.targets.is_empty(),
                    found: response.hits.into_iter().any(is_answer),
                    words: query.text.split_whitespace().count(),
                    evidence: response.evidence,
                })
            };
            entry.repository.queries.iter().chain(&drawn).map(ask).collect()
        };
        let samples: Result<Vec<Vec<Sample>>, EvalError> =
            self.entries.par_iter().enumerate().map(of_repository).collect();
        Ok(samples?.concat())
    }
}

impl<'a> Entry<'a> {
    fn build(
        repository: &'a Repository,
        directories: &[PathBuf],
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, EvalError> {
        let index_directory = tempfile::tempdir().map_err(EvalError::TemporaryDirectory)?;
        let options =
            OpenOptions { directory: Some(index_directory.path().join("index")), ..OpenOptions::default() };
        let start = Instant::now();
        let tree = indexed_directory(directories, repository);
        let index = Index::open_or_build(&tree, &options, embedder, &|_| {})?.index;
        Ok(Self { repository, index, index_time: start.elapsed(), _directory: index_directory })
    }

    fn scores(&self, ranking: &RankingWeights) -> Result<RepositoryScores, EvalError> {
        let name = &self.repository.name;
        let mut queries = Vec::new();
        for query in self.repository.queries.iter().filter(|query| !query.targets.is_empty()) {
            let start = Instant::now();
            let response = search(&self.index, &query.text, ranking)?;
            let time = start.elapsed();
            let spans: Vec<CodeSpan> = response.hits.into_iter().map(CodeSpan::from).collect();
            queries.push(QueryScore {
                repository: name.clone(),
                category: query.category.clone(),
                query: query.text.clone(),
                ndcg: ndcg(&query.targets, &spans, |target, span| span.answers(target)),
                confidence: response.confidence,
                time,
            });
        }
        if queries.is_empty() {
            return Err(EvalError::NothingToAsk { name: name.clone() });
        }
        let (name, units) = (name.clone(), self.index.n_units());
        Ok(RepositoryScores { name, units, index_time: self.index_time, queries })
    }
}

/// The first [`K`] results of a query.
pub(crate) fn search(
    index: &Index,
    query: &str,
    ranking: &RankingWeights,
) -> Result<SearchResponse, EvalError> {
    let request = SearchRequest { query, limit: K, ranking: ranking.clone(), filter: &Filter::default() };
    unless_empty(index.search(&request))
}

/// Results of a search; none if the query is empty.
pub(crate) fn unless_empty<T: Default>(found: Result<T, quarry_index::Error>) -> Result<T, EvalError> {
    match found {
        Err(quarry_index::Error::EmptyQuery) => Ok(T::default()),
        found => Ok(found?),
    }
}

impl RepoSearchScores {
    /// Values of the queries, with a stratum per repository.
    pub fn strata(&self) -> Vec<Vec<f64>> {
        let values =
            |repository: &RepositoryScores| repository.queries.iter().map(|query| query.ndcg).collect();
        self.repositories.iter().map(values).collect()
    }

    /// Means, intervals and times.
    ///
    /// # Errors
    /// Without a repository, or with one without queries.
    pub fn summary(&self, bootstrap: &Bootstrap) -> Result<Summary, EvalError> {
        let strata = self.strata();
        let strata: Vec<&[f64]> = strata.iter().map(Vec::as_slice).collect();
        let (metrics, intervals) = mean_and_interval(&strata, bootstrap)?;
        let queries = || self.repositories.iter().flat_map(|repository| &repository.queries);
        let mut categories: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for query in queries() {
            categories.entry(query.category.clone()).or_default().push(query.ndcg);
        }
        Ok(Summary {
            queries: queries().count(),
            metrics,
            intervals,
            repositories: self
                .repositories
                .iter()
                .zip(&strata)
                .map(|(repository, values)| {
                    let (metrics, intervals) = mean_and_interval(&[values], bootstrap)?;
                    Ok(RepositorySummary {
                        name: repository.name.clone(),
                        queries: values.len(),
                        metrics,
                        intervals,
                        units: repository.units,
                        index_ms: milliseconds(repository.index_time),
                        query_ms: median_ms(repository.queries.iter().map(|query| query.time)),
                    })
                })
                .collect::<Result<_, EvalError>>()?,
            categories: categories
                .into_iter()
                .map(|(category, values)| (category, mean(&[&values])))
                .collect(),
            query_ms: median_ms(queries().map(|query| query.time)),
        })
    }
}

type ByName<T> = BTreeMap<String, T>;

fn mean_and_interval(
    strata: &[&[f64]],
    bootstrap: &Bootstrap,
) -> Result<(ByName<f64>, ByName<Interval>), EvalError> {
    let interval = mean_interval(strata, bootstrap)?;
    Ok((ByName::from([(MEASURE.to_string(), mean(strata))]), ByName::from([(MEASURE.to_string(), interval)])))
}

/// The larger middle one of an even number; 0 without times.
pub(crate) fn median_ms(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().map_or(0.0, milliseconds)
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_corpus::formats::repo_search::{RepositoryQuery, Target};
    use quarry_embed::StaticModel;

    fn target(path: &str) -> Target {
        Target { path: path.into(), lines: None }
    }

    fn scores(name: &str, values: &[(&str, f64, u64)]) -> RepositoryScores {
        let query = |&(category, ndcg, ms): &(&str, f64, u64)| QueryScore {
            repository: name.into(),
            category: category.into(),
            query: "how".into(),
            ndcg,
            confidence: 1.0,
            time: Duration::from_millis(ms),
        };
        RepositoryScores {
            name: name.into(),
            units: 7,
            index_time: Duration::from_secs(1),
            queries: values.iter().map(query).collect(),
        }
    }

    #[test]
    fn repositories_weigh_equally_and_categories_pool_queries() {
        let repositories = vec![
            scores("a", &[("symbol", 1.0, 5), ("symbol", 0.5, 1), ("semantic", 0.0, 2)]),
            scores("b", &[("symbol", 0.0, 9)]),
        ];
        let scores = RepoSearchScores { model: None, repositories };
        let summary = scores.summary(&Bootstrap::default()).unwrap();
        assert_eq!((summary.queries, summary.metrics["ndcg@10"]), (4, 0.25));
        assert_eq!(summary.repositories[0].metrics["ndcg@10"], 0.5);
        assert_eq!(summary.categories, BTreeMap::from([("semantic".into(), 0.0), ("symbol".into(), 0.5)]));
        assert_eq!((summary.repositories[0].query_ms, summary.repositories[0].index_ms), (2.0, 1000.0));
        // Only the first repository's queries differ, so the mean moves by half of theirs.
        let interval = summary.intervals["ndcg@10"];
        assert!(0.0 <= interval.low && interval.low < 0.25 && interval.high <= 0.5, "{interval:?}");
    }

    fn repository(root: &str, queries: &[(&str, &str)]) -> Repository {
        let query = |&(text, path): &(&str, &str)| RepositoryQuery {
            category: "semantic".into(),
            text: text.into(),
            targets: vec![target(path)],
        };
        Repository {
            name: "demo".into(),
            revision: "0123abc".into(),
            root: root.into(),
            queries: queries.iter().map(query).collect(),
        }
    }

    fn no_model(_: ModelName<'_>) -> Result<Arc<dyn Embedder>, quarry_embed::EmbedError> {
        unreachable!("bm25 uses no model")
    }

    #[test]
    fn a_repository_is_searched_below_its_root() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("demo/src/lib");
        std::fs::create_dir_all(source.join("net")).unwrap();
        std::fs::write(source.join("net/retry.py"), "def retry(f):\n    return wait_and_repeat(f)\n")
            .unwrap();
        std::fs::write(source.join("csv.py"), "def read_table(path):\n    return parse_rows(path)\n")
            .unwrap();
        let queries = [("retry", "net/retry.py"), ("read a table", "csv.py"), ("?!", "csv.py")];
        let repositories = [repository("src/lib", &queries)];
        let mut heard = Vec::new();
        // The first directory lacks the repository.
        let directories = [directory.path().join("others"), directory.path().to_owned()];
        let scores = evaluate(&repositories, &directories, &Method::Bm25, &no_model, |name| {
            heard.push(name.to_owned());
        })
        .unwrap();
        assert_eq!(heard, ["demo"]);
        assert_eq!(scores.strata(), [[1.0, 1.0, 0.0]]);
        assert!(scores.model.is_none() && scores.repositories[0].units >= 2);
        // With a cross-encoder, of which search has one at most, and for as many results as it reads.
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures");
        let (model, embedder) = (fixtures.join("tiny-cross-bert"), fixtures.join("tiny-bert"));
        let builtin = |_: ModelName<'_>| Ok(Arc::new(StaticModel::builtin()) as Arc<dyn Embedder>);
        let ask = |method: String| {
            let method = method.parse().unwrap();
            evaluate(&repositories, &directories, &method, &builtin, |_| {})
        };
        let found = ask(format!("rerank(fast, \"{}\", depth = 12)", model.display())).unwrap();
        assert!(found.strata()[0][0] > 0.0);
        for (method, problem) in [
            (format!("rerank(fast, \"{}\", depth = 13)", model.display()), "depth = 12"),
            (format!("rerank(bm25, \"{}\", depth = 12)", model.display()), "with a model"),
            (
                format!("rerank(rerank(fast, \"{0}\", depth = 12), \"{0}\", depth = 12)", model.display()),
                "depth = 12",
            ),
            (format!("rerank(fast, \"{}\", depth = 12)", embedder.display()), "is not a cross-encoder"),
            (format!("rerank(fast, \"{}-none\", depth = 12)", embedder.display()), "is not a directory"),
        ] {
            let error = ask(method).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_missing_repository_is_refused_with_the_command_that_fetches_it() {
        let directory = tempfile::tempdir().unwrap();
        let repositories = [repository("src/lib", &[("how", "a")])];
        let directories = [directory.path().to_owned()];
        let error = evaluate(&repositories, &directories, &Method::Bm25, &no_model, |_| {}).unwrap_err();
        assert!(error.to_string().contains("git archive 0123abc -- src/lib"), "{error}");
    }
}
