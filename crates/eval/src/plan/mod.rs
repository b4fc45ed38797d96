//! Benchmark plans: data sets and methods in one file, results as one page.
//!
//! A plan is TOML. Paths of data are relative to a directory that the caller specifies, those of the results to the
//! plan's own directory. Reference points, measured elsewhere or published, are part of the plan, with their sources.
//!
//! Each method on each data set is a [`Cell`], stored in a file as soon as it is measured. When a plan runs again, it
//! measures only missing cells, and those whose dependencies have changed, including the build of the program
//! ([`Identity`]), and ends with the same results.

mod cell;
mod identity;
mod noise;
mod page;
mod results;
mod run;
mod tables;
mod training;

pub use cell::{Cell, FirstDocument, QueryCells, RankedQuery, Store, write_whole};
pub use identity::{Identity, Input, Program, running_build};
pub use noise::{JudgedRank, NoisyMean};
pub(crate) use page::RELIABILITY;
pub use results::{
    DatasetResults, MethodResults, Moved, PartResults, Results, Slice, Slices, TrainedCombination,
    TrainingResults,
};
pub use run::{Event, Locations};
pub use training::{
    PlannedRun, TrainedModels, TrainedRun, Trainer, TrainerError, TrainingEstimate, TrainingPlan, TrainingRun,
};

use crate::EvalError;
use crate::method::Method;
use crate::protocol::{PROTOCOLS, Protocol, ProtocolOptions, Role, RoleKind, VERDICT_MEASURES, protocol};
use quarry_corpus::toml_file::{self, At, Mistake, line_of};
use quarry_metrics::MetricsError;
use quarry_metrics::significance::Bootstrap;
use quarry_text::did_you_mean_or_all;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A benchmark plan: what to measure, and where the results go.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub title: String,
    /// Markdown before the first data set.
    #[serde(default)]
    pub introduction: String,
    /// Additional file to write the page to, below the directory for outputs. Its name ends in `.md`.
    pub page: Option<PathBuf>,
    /// Additional file to write the results to as JSON, below the directory for outputs. Its name ends in `.json`.
    pub json: Option<PathBuf>,
    /// Resampling of intervals and p-values.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    #[serde(default)]
    pub training: Vec<TrainingPlan>,
    pub datasets: Vec<DatasetPlan>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetPlan {
    /// Heading.
    pub name: String,
    /// Markdown below it.
    #[serde(default)]
    pub description: String,
    #[serde(default = "full_corpus")]
    pub protocol: String,
    /// Files by the protocol's roles. Checkouts are not included: their directory is specified when the plan is run.
    pub files: BTreeMap<String, Paths>,
    /// Split whose qrels are read from a directory: `qrels/SPLIT.tsv`.
    #[serde(default = "test")]
    pub split: String,
    #[serde(default)]
    pub options: ProtocolOptions,
    /// Names of the measures to show; all if empty. For rankings, only these are measured.
    #[serde(default)]
    pub measures: Vec<String>,
    /// Methods, as for `quarry eval --method`; paths in them are relative to the directory of the data, and `trained:NAME` is
    /// a model that the plan trains.
    pub methods: Vec<String>,
    /// The one of `methods` that the others are compared with.
    pub baseline: String,
    /// The ones of `methods` over which the reliability of measures is computed, under protocols of CoSQA+; all if empty.
    #[serde(default)]
    pub reliable: Vec<String>,
    /// File with how often the labels err, relative to the directory of the data: `quarry judge study --errors` writes it.
    pub label_errors: Option<PathBuf>,
    /// Reference points: results of others.
    #[serde(default)]
    pub references: Vec<Reference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

/// A number that was not measured in this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Name of the method.
    pub name: String,
    /// Values by measure.
    pub values: BTreeMap<String, f64>,
    /// Values by part of the data set (repository).
    #[serde(default)]
    pub parts: BTreeMap<String, f64>,
    /// Source of the number: who measured it, on what data, and differences of the setup.
    pub source: String,
}

fn full_corpus() -> String {
    "full-corpus".into()
}

fn test() -> String {
    "test".into()
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// When the file cannot be read or is not a plan, or it contains an unknown protocol, wrong inputs or measures,
    /// or a baseline that is not among the methods.
    pub fn read(path: &Path) -> Result<Plan, EvalError> {
        let text = std::fs::read_to_string(path).map_err(|error| EvalError::File {
            path: path.to_owned(),
            problem: format!("cannot be read: {error}"),
        })?;
        let refuse = |mistake: Mistake| EvalError::PlanEntry { path: path.to_owned(), mistake };
        let mut plan: Plan = toml_file::parse(&text).map_err(refuse)?;
        // Programs must not take an output, whose text the plan chooses, for something to run.
        for (key, output, ending) in [("page", &plan.page, "md"), ("json", &plan.json, "json")] {
            if let Some(output) = output.as_ref().filter(|path| path.extension() != Some(ending.as_ref())) {
                let problem = format!("expected a name that ends in .{ending}, found {:?}", output.display());
                return Err(refuse(Mistake { line: line_of(&text, &[At::Key(key)]), problem }));
            }
        }
        let mut trained: Vec<TrainingPlan> = Vec::new();
        for (number, entry) in plan.training.iter().enumerate() {
            let mistaken = |(key, problem)| {
                let entry = [At::Key("training"), At::Item(number), At::Key(key)];
                refuse(Mistake { line: line_of(&text, &entry), problem })
            };
            for entry in entry.expanded().map_err(mistaken)? {
                entry.check(&trained).map_err(mistaken)?;
                trained.push(entry);
            }
        }
        plan.training = trained;
        for (number, dataset) in plan.datasets.iter_mut().enumerate() {
            dataset.check(&plan.training).map_err(|(key, problem)| {
                let entry = [At::Key("datasets"), At::Item(number), At::Key(key)];
                refuse(Mistake { line: line_of(&text, &entry), problem })
            })?;
        }
        Ok(plan)
    }
}

impl DatasetPlan {
    /// Rejects plans that cannot be run, with the key of the wrong entry, and sets the measures to measure to those that
    /// are shown.
    fn check(&mut self, trained: &[TrainingPlan]) -> Result<(), (&'static str, String)> {
        let Self { name, methods, baseline, reliable, .. } = self;
        for method in &*methods {
            let method = method.parse::<Method>().map_err(|error| ("methods", error.to_string()))?;
            for (found, _) in method.paths().into_iter().filter_map(training::trained_name) {
                if trained.iter().all(|entry| entry.name != found) {
                    let names = did_you_mean_or_all(found, trained.iter().map(|entry| entry.name.as_str()));
                    return Err((
                        "methods",
                        format!("{name:?}: no model {found:?} is trained here; {names}"),
                    ));
                }
            }
        }
        if let Some(unknown) = reliable.iter().find(|method| !methods.contains(method)) {
            let problem = format!(
                "expected methods of {name:?}, {}, found {unknown:?}; add it to them, or remove it",
                methods.join(", ")
            );
            return Err(("reliable", problem));
        }
        if !methods.contains(baseline) {
            let problem = format!(
                "expected the baseline of {name:?} among its methods {}, found {baseline:?}; add it, or name another",
                methods.join(", ")
            );
            return Err(("baseline", problem));
        }
        let protocol = self.known_protocol().map_err(|problem| ("protocol", problem))?;
        self.check_files(protocol).map_err(|problem| ("files", problem))?;
        if !protocol.options.contains(&"measures") {
            return self.check_measures(protocol).map_err(|problem| ("measures", problem));
        }
        if self.options.measures.is_empty() {
            let measures = self.measures.iter().map(|name| name.parse());
            self.options.measures = measures
                .collect::<Result<_, MetricsError>>()
                .map_err(|error| ("measures", format!("{:?}: {error}", self.name)))?;
        }
        Ok(())
    }

    fn check_files(&self, protocol: &Protocol) -> Result<(), String> {
        let roles = || protocol.roles.iter().filter(|role| role.kind == RoleKind::Data);
        let is_known = |name: &String| roles().any(|role| role.name == name);
        let is_missing = |role: &Role| !role.optional && !self.files.contains_key(role.name);
        if self.files.keys().all(is_known) && !roles().any(is_missing) {
            return Ok(());
        }
        let (optional, required): (Vec<&Role>, Vec<&Role>) = roles().partition(|role| role.optional);
        let required: Vec<String> = required.iter().map(|role| format!("{} = \"FILE\"", role.name)).collect();
        let optional: Vec<&str> = optional.iter().map(|role| role.name).collect();
        let optional = match optional[..] {
            [] => String::new(),
            _ => format!(" (optional: {})", optional.join(", ")),
        };
        let found: Vec<&str> = self.files.keys().map(String::as_str).collect();
        Err(format!(
            "expected files = {{ {} }}{optional} for {:?}, found {}",
            required.join(", "),
            self.name,
            if found.is_empty() { "none".to_owned() } else { found.join(", ") }
        ))
    }

    /// Rejects measures that do not exist in a protocol with fixed measures.
    fn check_measures(&self, protocol: &Protocol) -> Result<(), String> {
        let known: Vec<String> = protocol.measures.iter().map(ToString::to_string).collect();
        let is_known = |name: &&String| known.contains(name) || VERDICT_MEASURES.contains(&name.as_str());
        if self.measures.iter().all(|name| is_known(&name)) {
            return Ok(());
        }
        let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
        Err(format!(
            "expected measures = [{}] for {:?}: {} has no other",
            known.join(", "),
            self.name,
            protocol.name
        ))
    }

    fn known_protocol(&self) -> Result<&'static Protocol, String> {
        protocol(&self.protocol).ok_or_else(|| {
            let names = PROTOCOLS.iter().map(|protocol| protocol.name);
            let (name, found) = (&self.name, &self.protocol);
            format!("{found:?} is not a protocol ({name:?}); {}", did_you_mean_or_all(found, names))
        })
    }
}

#[cfg(test)]
mod tests;
