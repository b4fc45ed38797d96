//! Benchmark plans: data sets and methods in one file, results as one page.
//!
//! A plan is TOML. Paths of data are relative to a folder that the caller names, those of the results to the
//! plan's own folder. Reference points, measured elsewhere or published, are part of the plan, with their sources.
//!
//! Each method on each data set is a [`Cell`], kept in a file as soon as it is measured. Started again, a plan measures
//! what is missing or what depends on something else now, also on another build of the program ([`Identity`]), and ends
//! with the same results.

mod cell;
mod identity;
mod page;
mod results;
mod run;
mod tables;

pub use cell::{Answer, Cell, RankedQuery, Store, write_whole};
pub use identity::{Identity, Input, Program, running_build};
pub use results::{DatasetResults, MethodResults, Moved, PartResults, Results, Slice, Slices};
pub use run::{Event, Locations};

use crate::EvalError;
use crate::method::Method;
use crate::protocol::{Options, PROTOCOLS, Protocol, protocol};
use quarry_metrics::MetricsError;
use quarry_metrics::significance::Bootstrap;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is measured and where results go.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Heading of the page.
    pub title: String,
    /// Markdown before the first data set.
    #[serde(default)]
    pub introduction: String,
    /// Where the page goes too, relative to the plan's folder.
    pub page: Option<PathBuf>,
    /// Where the results go as JSON too, relative to the plan's folder.
    pub json: Option<PathBuf>,
    /// How intervals and p-values are drawn.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// What is measured.
    pub datasets: Vec<DatasetPlan>,
}

/// A data set, and what is measured on it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetPlan {
    /// Heading.
    pub name: String,
    /// Markdown below it.
    #[serde(default)]
    pub description: String,
    /// Name of the protocol, or `repo-search`.
    #[serde(default = "full_corpus")]
    pub protocol: String,
    /// Files by the protocol's roles; `table` for `repo-search`.
    pub files: BTreeMap<String, Paths>,
    /// Which judgements of a folder: `qrels/SPLIT.tsv`.
    #[serde(default = "test")]
    pub split: String,
    /// Options of the protocol.
    #[serde(default)]
    pub options: Options,
    /// Names of the measures that are shown; all without any. Those of rankings are what is measured.
    #[serde(default)]
    pub measures: Vec<String>,
    /// Methods, as for `quarry eval --method`; paths in them are relative to the folder of the data.
    pub methods: Vec<String>,
    /// The one among `methods` that the others are compared with.
    pub baseline: String,
    /// What others reached.
    #[serde(default)]
    pub references: Vec<Reference>,
}

/// One path or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths(pub Vec<PathBuf>);

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a path or a list of paths")]
        enum OneOrMany {
            One(PathBuf),
            Many(Vec<PathBuf>),
        }
        Ok(Self(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(path) => vec![path],
            OneOrMany::Many(paths) => paths,
        }))
    }
}

/// A number that was not measured by this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The method.
    pub name: String,
    /// Values by measure.
    pub values: BTreeMap<String, f64>,
    /// Values by part of the data set (repository).
    #[serde(default)]
    pub parts: BTreeMap<String, f64>,
    /// Who measured it, on what, and how that differs from here.
    pub source: String,
}

/// Name of the protocol over whole repositories, which is not one over documents.
const REPO_SEARCH: &str = "repo-search";

fn full_corpus() -> String {
    "full-corpus".into()
}

fn test() -> String {
    "test".into()
}

impl DatasetPlan {
    fn is_repo_search(&self) -> bool {
        self.protocol == REPO_SEARCH
    }
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// When the file cannot be read or is no plan, names a protocol that there is not, or a baseline that is not among
    /// the methods.
    pub fn read(path: &Path) -> Result<Plan, EvalError> {
        let refuse = |problem: String| EvalError::Plan { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path)
            .map_err(|error| refuse(format!("the plan cannot be read: {error}")))?;
        let mut plan: Plan = toml::from_str(&text)
            .map_err(|error| refuse(format!("expected a benchmark plan, found\n{error}")))?;
        for dataset in &mut plan.datasets {
            for method in &dataset.methods {
                method.parse::<Method>().map_err(|error| refuse(error.to_string()))?;
            }
            dataset.check().map_err(refuse)?;
        }
        Ok(plan)
    }
}

impl DatasetPlan {
    /// Refuses what cannot be run, and makes the measures that are shown the ones that are measured.
    fn check(&mut self) -> Result<(), String> {
        let Self { name, protocol: of, methods, baseline, measures, files, .. } = self;
        if !methods.contains(baseline) {
            return Err(format!(
                "expected the baseline of {name:?} among its methods {}, found {baseline:?}; add it, or name another",
                methods.join(", ")
            ));
        }
        if of == REPO_SEARCH {
            let roles: Vec<&str> = files.keys().map(String::as_str).collect();
            return match (&roles[..], &measures[..]) {
                (["table"], []) => Ok(()),
                (["table"], [measure]) if *measure == crate::repo_search::MEASURE.to_string() => Ok(()),
                (["table"], _) => Err(format!(
                    "expected measures = [\"{}\"] for {name:?}: repository search has no other",
                    crate::repo_search::MEASURE
                )),
                _ => Err(format!(
                    "expected files = {{ table = \"FILE\" }} for {name:?}, found {}",
                    roles.join(", ")
                )),
            };
        }
        let takes_measures = self.known_protocol()?.options.contains(&"measures");
        if self.options.measures.is_empty() && takes_measures {
            let measures = self.measures.iter().map(|name| name.parse());
            self.options.measures = measures
                .collect::<Result<_, MetricsError>>()
                .map_err(|error| format!("{:?}: {error}", self.name))?;
        }
        Ok(())
    }

    fn known_protocol(&self) -> Result<&'static Protocol, String> {
        protocol(&self.protocol).ok_or_else(|| {
            let names: Vec<&str> =
                PROTOCOLS.iter().map(|protocol| protocol.name).chain([REPO_SEARCH]).collect();
            let (name, found) = (&self.name, &self.protocol);
            format!("expected the protocol of {name:?} to be one of {}, found {found:?}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests;
