//! What a protocol is run on: files by role, options, and a method that is made ready for each corpus.

use super::{Protocol, Role};
use crate::EvalError;
use crate::evaluation::{Conventions, QuerySet};
use crate::method::{Corpus, Scorer};
use quarry_corpus::dataset::convert::{self, benchmark};
use quarry_corpus::dataset::{self, distractors, for_each, sources};
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::source::Source;
use quarry_corpus::formats::{FormatError, Pair, Query, Record};
use quarry_metrics::Measure;
use quarry_metrics::ranking::TiePolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Makes a method ready to score a corpus. A protocol may ask for several.
pub type PrepareMethod<'a> = dyn Fn(Corpus<'_>) -> Result<Box<dyn Scorer>, EvalError> + 'a;

/// Hears of each query that is ranked over all documents of a benchmark: the part, the benchmark, the query, and the
/// scores of the documents in their order.
pub type Observe<'a> = dyn Fn(&str, &Benchmark, &Query, &[f32]) -> Result<(), EvalError> + 'a;

/// What a protocol is run on.
pub struct Request<'a> {
    /// The protocol.
    pub protocol: &'static Protocol,
    /// Files or folders by the names of roles.
    pub files: &'a BTreeMap<String, Vec<PathBuf>>,
    /// Judgements that are read in a folder: `qrels/SPLIT.tsv`.
    pub split: &'a str,
    /// Choices that the protocol leaves.
    pub options: &'a Options,
    /// The method.
    pub prepare: &'a PrepareMethod<'a>,
    /// Who hears of rankings.
    pub observe: Option<&'a Observe<'a>>,
}

/// Choices that protocols leave. What is not said is as the protocol has it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What is measured of rankings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<Measure>,
    /// Order among equal scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ties: Option<TiePolicy>,
    /// Seeds of what is drawn; with several, figures are means over them, with deviations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<u32>,
    /// Distractors a query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distractors: Option<usize>,
    /// Where they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Draw no document with the text of one that answers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_twins: bool,
    /// Length of the lists that are scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Pairs a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Part of the queries that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
    /// Do as the published code does where that is not what the paper says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub as_released: bool,
}

/// Where distractors come from, see [`distractors::Sampling`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// All that does not answer.
    #[default]
    Uniform,
    /// The distractors of the query before.
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

/// A part of the queries, split 8 : 1 : 1 with as many of each number of positives in every part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// Eight tenths.
    Train,
    /// One tenth.
    Dev,
    /// One tenth.
    Test,
}

impl Options {
    /// Names of what is said.
    #[must_use]
    pub fn said(&self) -> Vec<&'static str> {
        let said = [
            ("measures", !self.measures.is_empty()),
            ("ties", self.ties.is_some()),
            ("seeds", !self.seeds.is_empty()),
            ("distractors", self.distractors.is_some()),
            ("sampling", self.sampling.is_some()),
            ("without_twins", self.without_twins),
            ("depth", self.depth.is_some()),
            ("batch", self.batch.is_some()),
            ("fold", self.fold.is_some()),
            ("as_released", self.as_released),
        ];
        said.into_iter().filter_map(|(name, said)| said.then_some(name)).collect()
    }

    /// The seeds, or the protocol's one.
    pub(super) fn seeds(&self, default: u32) -> Vec<u32> {
        if self.seeds.is_empty() { vec![default] } else { self.seeds.clone() }
    }

    /// Conventions over all queries with an answer, with the protocol's order among equal scores if none is said.
    pub(super) fn conventions(&self, ties: TiePolicy) -> Conventions {
        Conventions {
            ties: self.ties.unwrap_or(ties),
            queries: QuerySet::WithPositive,
            ..Conventions::default()
        }
    }
}

impl Request<'_> {
    /// Refuses roles and options that the protocol does not know, and roles that it lacks.
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
        if let Some(found) = self.options.said().into_iter().find(|name| !protocol.options.contains(name)) {
            return Err(EvalError::UnknownOption {
                protocol: protocol.name,
                found,
                options: protocol.options.join(", "),
            });
        }
        match protocol.roles.iter().find(|role| !role.optional && !self.has(role.name)) {
            Some(role) => Err(self.missing(role)),
            None => Ok(()),
        }
    }

    /// What is measured of rankings: what the options say, or what the protocol does.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let said = &self.options.measures;
        if said.is_empty() { self.protocol.measures.to_vec() } else { said.clone() }
    }

    /// Whether files are named for a role.
    pub(super) fn has(&self, role: &str) -> bool {
        self.files.get(role).is_some_and(|paths| !paths.is_empty())
    }

    fn missing(&self, role: &Role) -> EvalError {
        EvalError::MissingRole {
            protocol: self.protocol.name,
            role: role.name,
            formats: role.formats_text(),
            about: role.about,
        }
    }

    /// The error that one of several optional roles is needed.
    pub(super) fn missing_any(&self) -> EvalError {
        EvalError::MissingAnyRole { protocol: self.protocol.name, roles: roles(self.protocol) }
    }

    /// The files of a role with their formats; none where none are named.
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

    /// The files of some roles as one benchmark.
    pub(super) fn benchmark(
        &self,
        roles: &[&str],
        options: &convert::Options,
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
                found: "no judgement of 1 or more".into(),
                remedy: "name the file that holds the judgements or labels too".into(),
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

    /// Measures a method over all documents of a benchmark.
    pub(super) fn prepare(&self, benchmark: &Benchmark) -> Result<Box<dyn Scorer>, EvalError> {
        (self.prepare)(Corpus::from(benchmark))
    }
}

fn roles(protocol: &Protocol) -> String {
    let of = |role: &Role| format!("--{} ({})", role.name, role.formats_text());
    protocol.roles.iter().map(of).collect::<Vec<_>>().join(", ")
}
