//! The request to a protocol: files by role, options, and the method to measure.

use super::{Protocol, Role};
use crate::EvalError;
use crate::evaluation::{Conventions, QuerySelection};
use crate::method::{Corpus, LoadModel, Method, Prepared};
use crate::repo_search::{self, RepoSearchScores};
use quarry_corpus::dataset::convert::{self, benchmark};
use quarry_corpus::dataset::{self, distractors, for_each, sources};
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::repo_search::Repository;
use quarry_corpus::formats::source::Source;
use quarry_corpus::formats::{FormatError, Pair, Query, Record};
use quarry_metrics::Measure;
use quarry_metrics::ranking::TiePolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The method to measure, as protocols use it. Implemented for functions that prepare corpora; these do not search
/// repositories.
pub trait MeasuredMethod {
    /// Prepares the method for scoring a corpus. A protocol may prepare several.
    ///
    /// # Errors
    /// As [`Method::prepare`].
    fn prepare(&self, corpus: Corpus<'_>) -> Result<Prepared, EvalError>;

    /// Returns true if it calls chat models, with prompts that are not from any paper.
    fn asks_chat_models(&self) -> bool {
        false
    }

    /// Searches each repository, found in a directory of its name in one of `checkouts`, for the answers to its
    /// queries.
    ///
    /// # Errors
    /// As [`repo_search::evaluate`]; when the method ranks documents only.
    fn search(
        &self,
        repositories: &[Repository],
        checkouts: &[PathBuf],
    ) -> Result<RepoSearchScores, EvalError> {
        let _ = (repositories, checkouts);
        Err(EvalError::NoRepositoryMethod { found: "a function over documents".to_owned() })
    }
}

impl<F: Fn(Corpus<'_>) -> Result<Prepared, EvalError>> MeasuredMethod for F {
    fn prepare(&self, corpus: Corpus<'_>) -> Result<Prepared, EvalError> {
        self(corpus)
    }
}

pub struct MethodWithModels<'a> {
    pub method: &'a Method,
    pub load: &'a LoadModel<'a>,
}

impl MeasuredMethod for MethodWithModels<'_> {
    fn prepare(&self, corpus: Corpus<'_>) -> Result<Prepared, EvalError> {
        self.method.prepare(corpus, self.load, &mut |_| {})
    }

    fn asks_chat_models(&self) -> bool {
        self.method.asks_chat_models()
    }

    fn search(
        &self,
        repositories: &[Repository],
        checkouts: &[PathBuf],
    ) -> Result<RepoSearchScores, EvalError> {
        repo_search::evaluate(repositories, checkouts, self.method, self.load, |_| {})
    }
}

/// Called for each query for which all documents of a benchmark are ranked, with the part, the benchmark, the query,
/// and the scores of the documents in corpus order.
pub type Observe<'a> = dyn Fn(&str, &Benchmark, &Query, &[f32]) -> Result<(), EvalError> + 'a;

/// A method to measure, and the data to measure it on.
pub struct Request<'a> {
    pub protocol: &'static Protocol,
    pub files: &'a BTreeMap<String, Vec<PathBuf>>,
    /// Split whose qrels are read from a directory: `qrels/SPLIT.tsv`.
    pub split: &'a str,
    pub options: &'a ProtocolOptions,
    pub method: &'a dyn MeasuredMethod,
    /// Called for each query that is ranked.
    pub observe: Option<&'a Observe<'a>>,
}

/// Options of protocols. Each protocol has defaults for those that are not set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(default, deny_unknown_fields)]
pub struct ProtocolOptions {
    /// Measures of rankings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<Measure>,
    /// Order among equal scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ties: Option<TiePolicy>,
    /// Random seeds; with several, figures are means over them, with deviations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<u32>,
    /// Number of distractors per query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distractors: Option<usize>,
    /// Source of distractors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Exclude documents with the same text as an answer from distractors.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_twins: bool,
    /// Only classify pairs as matching or not, without ranking.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub matching_only: bool,
    /// Length of the lists that are evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Number of pairs per batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Part of the queries to measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
    /// Follow the published code where it differs from the paper.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub as_released: bool,
    /// Have models read as many tokens as the published script lets them, with a run of white space as one space.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub as_published: bool,
}

/// Source of distractors: all others, or a rolling list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// All documents that are not answers.
    #[default]
    Uniform,
    /// The distractors of the previous query, as the released script for CodeT5+ draws them.
    Rolling,
}

impl From<Sampling> for distractors::Sampling {
    fn from(sampling: Sampling) -> Self {
        match sampling {
            Sampling::Uniform => Self::Uniform,
            Sampling::Rolling => Self::Rolling,
        }
    }
}

/// A part of the queries, split 8 : 1 : 1, stratified by number of positives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// Eight tenths.
    Train,
    /// One tenth.
    Dev,
    /// One tenth.
    Test,
}

impl ProtocolOptions {
    /// Names of the options that are set.
    pub fn set(&self) -> Vec<&'static str> {
        let options = [
            ("measures", !self.measures.is_empty()),
            ("ties", self.ties.is_some()),
            ("seeds", !self.seeds.is_empty()),
            ("distractors", self.distractors.is_some()),
            ("sampling", self.sampling.is_some()),
            ("without_twins", self.without_twins),
            ("matching_only", self.matching_only),
            ("depth", self.depth.is_some()),
            ("batch", self.batch.is_some()),
            ("fold", self.fold.is_some()),
            ("as_released", self.as_released),
            ("as_published", self.as_published),
        ];
        options.into_iter().filter_map(|(name, is_set)| is_set.then_some(name)).collect()
    }

    pub(super) fn seeds(&self, default: u32) -> Vec<u32> {
        if self.seeds.is_empty() { vec![default] } else { self.seeds.clone() }
    }

    /// Conventions over all queries with an answer, with the protocol's order of ties unless it is set.
    pub(super) fn conventions(&self, ties: TiePolicy) -> Conventions {
        Conventions {
            ties: self.ties.unwrap_or(ties),
            queries: QuerySelection::WithPositive,
            ..Conventions::default()
        }
    }
}

impl Request<'_> {
    /// Rejects unknown roles and options, and missing roles.
    pub(super) fn check(&self) -> Result<(), EvalError> {
        let protocol = self.protocol;
        for role in self.files.keys() {
            if protocol.roles.iter().all(|known| known.name != role) {
                return Err(EvalError::UnknownRole {
                    protocol: protocol.name,
                    found: role.clone(),
                    roles: roles(protocol),
                });
            }
        }
        if let Some(found) = self.options.set().into_iter().find(|name| !protocol.options.contains(name)) {
            return Err(EvalError::UnknownOption {
                protocol: protocol.name,
                found,
                options: protocol.options.join(", "),
            });
        }
        match protocol.roles.iter().find(|role| !role.optional && !self.has(role.name)) {
            Some(role) => Err(EvalError::MissingRole {
                protocol: protocol.name,
                role: role.name,
                formats: role.formats_text(),
                about: role.about,
            }),
            None => Ok(()),
        }
    }

    /// Measures of rankings: those of the options, or the protocol's.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let measures = &self.options.measures;
        if measures.is_empty() { self.protocol.measures.to_vec() } else { measures.clone() }
    }

    pub(super) fn has(&self, role: &str) -> bool {
        self.files.get(role).is_some_and(|paths| !paths.is_empty())
    }

    /// The error for a missing input of several alternative roles.
    pub(super) fn missing_any(&self) -> EvalError {
        EvalError::MissingAnyRole { protocol: self.protocol.name, roles: roles(self.protocol) }
    }

    /// The files of a role with their formats; empty if none are given.
    pub(super) fn sources(&self, role: &str) -> Result<Vec<Source>, EvalError> {
        let Some(paths) = self.files.get(role) else { return Ok(Vec::new()) };
        let formats = self.protocol.role(role).map_or(&[][..], |role| role.formats);
        let [single] = formats else {
            let found = sources(paths, "", self.split)?;
            let wrong = |source: &&Source| !formats.is_empty() && !formats.contains(&source.format.name);
            return match found.iter().find(wrong) {
                Some(source) => Err(EvalError::Format(FormatError::File {
                    path: source.path.clone(),
                    expected: format!("one of the formats {}", formats.join(", ")),
                    found: source.format.name.into(),
                    remedy: format!(
                        "name another file with --{role}, or convert it with `quarry data convert`"
                    ),
                })),
                None => Ok(found),
            };
        };
        Ok(sources(paths, single, self.split)?)
    }

    pub(super) fn benchmark(
        &self,
        roles: &[&str],
        options: &convert::ConvertOptions,
    ) -> Result<Benchmark, EvalError> {
        let mut all = Vec::new();
        for role in roles {
            all.extend(self.sources(role)?);
        }
        dataset::sort(&mut all);
        let benchmark = benchmark(&all, options)?;
        if benchmark.qrels.values().flat_map(BTreeMap::values).all(|grade| *grade < 1) {
            return Err(EvalError::Format(FormatError::File {
                path: all.first().map(|source| source.path.clone()).unwrap_or_default(),
                expected: "queries with documents that answer them".into(),
                found: "no grade of 1 or more".into(),
                remedy: "also name the file with the qrels or labels".into(),
            }));
        }
        Ok(benchmark)
    }

    /// The pairs of a role, in the order of its files.
    pub(super) fn pairs(&self, role: &str) -> Result<Vec<Pair>, EvalError> {
        let mut pairs = Vec::new();
        let sources = self.sources(role)?;
        for_each(&sources, &mut |_, record| {
            if let Record::Pair(pair) = record {
                pairs.push(*pair);
            }
            Ok(())
        })?;
        match (sources.first(), pairs.is_empty()) {
            (Some(source), true) => Err(EvalError::Format(FormatError::File {
                path: source.path.clone(),
                expected: "texts with codes".into(),
                found: format!("no pair in the format {}", source.format.name),
                remedy: format!("name a file of pairs with --{role}"),
            })),
            _ => Ok(pairs),
        }
    }

    /// Prepares the method to score all documents of a benchmark.
    pub(super) fn prepare(&self, benchmark: &Benchmark) -> Result<Prepared, EvalError> {
        self.method.prepare(Corpus::from(benchmark))
    }
}

fn roles(protocol: &Protocol) -> String {
    let role_text = |role: &Role| format!("--{} ({})", role.name, role.formats_text());
    protocol.roles.iter().map(role_text).collect::<Vec<_>>().join(", ")
}
