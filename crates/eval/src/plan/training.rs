//! Models that a plan trains before it measures them.
//!
//! This crate does not train: a [`Trainer`] does, which gets the files of a run, and those that are measured on to refuse pairs
//! that share texts with them. A trained model is in a directory named by the hash of everything that it depends on, so that no
//! run is done twice.

use super::results::PREFIX;
use super::{Event, Input, Locations, Paths, Plan, Store, TrainedCombination, TrainingResults};
use crate::EvalError;
use quarry_corpus::evaluation_guard::VERSION;
use quarry_files::sha256;
use quarry_metrics::significance::mean_and_deviation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Maximum number of models of an entry, without seeds: all of them are trained.
const MAX_COMBINATIONS: usize = 1_000;

/// The name of the model in the program.
const BUILTIN: &str = "builtin";

/// A model that a plan trains, once for each seed. Methods name it as `trained:NAME`; their values are means over seeds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingPlan {
    /// Name, which methods and later models use.
    pub name: String,
    /// Values that replace `{KEY}` in the name, paths and settings: one model for each combination.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<String>>,
    /// Directory of the model to begin with, relative to that of the data; or `trained:NAME`, an earlier one of the plan.
    pub model: String,
    /// File of settings, relative to the plan's directory.
    pub recipe: Option<PathBuf>,
    /// Settings in place of the recipe's.
    #[serde(default)]
    pub set: Table,
    /// Values of settings: every combination is trained, and the one with the best mean on held-out pairs is used.
    #[serde(default)]
    pub grid: BTreeMap<String, Vec<Value>>,
    /// Seeds in place of the recipe's.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Files of pairs to learn from.
    pub pairs: Paths,
    /// Files of pairs to choose the best epoch by.
    #[serde(default)]
    pub dev: Paths,
    /// Files of codes that are ranked for these.
    #[serde(default)]
    pub corpus: Paths,
    /// Directory of a model to learn from, `trained:NAME`, or `builtin`.
    pub teacher: Option<PathBuf>,
    /// Files of evaluation data that the pairs must not contain.
    #[serde(default)]
    pub exclude: Paths,
    /// Data sets with which the pairs may share queries and codes, which are counted: those that the plan measures on are
    /// evaluation data too.
    #[serde(default)]
    pub tolerate: Paths,
    #[serde(default)]
    pub allow_evaluation_data: bool,
}

/// One run of training: files, and settings as `KEY=VALUE` in TOML.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRun {
    /// Directory of the model to begin with, maybe with options after it.
    pub model: PathBuf,
    pub recipe: Option<PathBuf>,
    pub settings: Vec<String>,
    pub pairs: Vec<PathBuf>,
    /// Files of pairs to choose the best epoch by.
    pub dev: Vec<PathBuf>,
    pub corpus: Vec<PathBuf>,
    pub teacher: Option<PathBuf>,
    /// Files of evaluation data that the pairs must not contain.
    pub exclude: Vec<PathBuf>,
    /// Files that the plan measures on, which the pairs must not contain either.
    pub measured: Vec<PathBuf>,
    /// Those of these files with which the pairs may share queries and codes.
    pub tolerate: Vec<PathBuf>,
    pub allow_evaluation_data: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainedRun {
    /// The measure on held-out pairs, such as `MRR`.
    pub measure: String,
    /// Its value for the weights that were kept; `None` if nothing was measured.
    pub value: Option<f64>,
    /// The epoch of these weights.
    pub epoch: Option<usize>,
    pub examples: usize,
}

/// Estimated time of a run, from one measured step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TrainingEstimate {
    /// Number of examples to learn from.
    pub examples: usize,
    /// Number of steps of the optimizer.
    pub steps: u64,
    /// Seconds of one step.
    pub step_seconds: f64,
    /// Seconds of measuring the held-out pairs after each epoch, all epochs together.
    pub measure_seconds: f64,
}

impl TrainingEstimate {
    pub fn seconds(&self) -> f64 {
        self.steps as f64 * self.step_seconds + self.measure_seconds
    }
}

pub type TrainerError = Box<dyn Error + Send + Sync>;

pub trait Trainer {
    /// All settings of a run, and the version of what computes it: with these, the same model and files, a run gives the
    /// same weights.
    ///
    /// # Errors
    /// When the recipe cannot be read or a setting is wrong.
    fn settings(&self, run: &TrainingRun) -> Result<String, TrainerError>;

    /// Compares the pairs of a run with evaluation data and with the files that are measured on; returns what they share, as a sentence.
    ///
    /// # Errors
    /// When a file cannot be used, or they share what they must not.
    fn compare(&self, run: &TrainingRun) -> Result<String, TrainerError>;

    /// Trains into a directory, where an interrupted run resumes.
    ///
    /// # Errors
    /// When a file cannot be used, or the settings do not allow training.
    fn train(&self, run: &TrainingRun, directory: &Path) -> Result<(), TrainerError>;

    /// Result of the run in a directory; `None` if it has not ended.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn finished(&self, directory: &Path) -> Result<Option<TrainedRun>, TrainerError>;

    /// Measures a step.
    ///
    /// # Errors
    /// As [`Trainer::train`].
    fn estimate(&self, run: &TrainingRun) -> Result<TrainingEstimate, TrainerError>;
}

/// A run, with the settings of the grid that it has.
type RunWithSettings = (TrainingRun, Vec<String>);

/// The directories of the models that a plan trained, and how the training went.
#[derive(Debug, Clone, Default)]
pub struct TrainedModels {
    directories: HashMap<String, Vec<PathBuf>>,
    pub results: Vec<TrainingResults>,
}

/// A run of a plan that a dry run lists.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PlannedRun {
    /// Name of the model.
    pub name: String,
    /// Settings of the grid, and the seed.
    pub settings: Vec<String>,
    /// True if it was trained before.
    pub trained: bool,
    /// Estimated time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<TrainingEstimate>,
}

/// Everything that the weights of a run depend on.
#[derive(Debug, Serialize)]
struct RunIdentity<'a> {
    settings: String,
    model: String,
    pairs: &'a [Input],
    dev: &'a [Input],
    corpus: &'a [Input],
    teacher: Option<String>,
}

impl RunIdentity<'_> {
    fn hash(&self) -> String {
        sha256(serde_json::to_vec(self).unwrap_or_default())[..32].to_owned()
    }
}

struct LocatedRun {
    run: TrainingRun,
    /// Settings of the grid, and the seed if the plan has it.
    varied: Vec<String>,
    directory: PathBuf,
    /// Text of the identity, for people who look at the directory.
    identity: String,
}

/// The model's name and the options after it, if a path is that of a trained one.
pub(super) fn trained_name(path: &Path) -> Option<(&str, &str)> {
    let name = path.to_str()?.strip_prefix(PREFIX)?;
    Some(name.split_once(':').unwrap_or((name, "")))
}

impl TrainingPlan {
    /// One entry for each combination of `each`.
    ///
    /// # Errors
    /// With the key and the problem, if there are more than [`MAX_COMBINATIONS`] of it and of the grid together.
    pub(super) fn expanded(&self) -> Result<Vec<TrainingPlan>, (&'static str, String)> {
        let numbers = self.each.values().map(Vec::len).chain(self.grid.values().map(Vec::len));
        let n_combinations = numbers.fold(1, usize::saturating_mul);
        if n_combinations > MAX_COMBINATIONS {
            let key = if self.each.is_empty() { "grid" } else { "each" };
            let problem = format!(
                "expected at most {MAX_COMBINATIONS} combinations for {:?}, found {n_combinations}; give fewer values",
                self.name
            );
            return Err((key, problem));
        }
        let mut entries = vec![TrainingPlan { each: BTreeMap::new(), ..self.clone() }];
        for (key, values) in &self.each {
            let with = |entry: &TrainingPlan| {
                values.iter().map(|value| entry.replaced(&format!("{{{key}}}"), value)).collect::<Vec<_>>()
            };
            entries = entries.iter().flat_map(with).collect();
        }
        Ok(entries)
    }

    fn replaced(&self, pattern: &str, value: &str) -> TrainingPlan {
        let text = |text: &String| text.replace(pattern, value);
        let path = |path: &PathBuf| PathBuf::from(path.to_string_lossy().replace(pattern, value));
        let paths = |Paths(paths): &Paths| Paths(paths.iter().map(path).collect());
        let setting = |(key, setting): (&String, &Value)| {
            let setting = match setting {
                Value::String(setting) => Value::String(text(setting)),
                other => other.clone(),
            };
            (key.clone(), setting)
        };
        TrainingPlan {
            name: text(&self.name),
            model: text(&self.model),
            recipe: self.recipe.as_ref().map(path),
            set: self.set.iter().map(setting).collect(),
            pairs: paths(&self.pairs),
            dev: paths(&self.dev),
            corpus: paths(&self.corpus),
            teacher: self.teacher.as_ref().map(path),
            exclude: paths(&self.exclude),
            tolerate: paths(&self.tolerate),
            ..self.clone()
        }
    }

    /// Rejects an entry that names something that is not in the plan, with the key of the wrong entry.
    pub(super) fn check(&self, earlier: &[TrainingPlan]) -> Result<(), (&'static str, String)> {
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_safe) {
            let problem = format!(
                "expected a name of letters, digits, -, _, . and + for a trained model, found {:?}",
                self.name
            );
            return Err(("name", problem));
        }
        if earlier.iter().any(|other| other.name == self.name) {
            return Err(("name", format!("two trained models are called {:?}; rename one", self.name)));
        }
        for (key, path) in [("model", Some(Path::new(&self.model))), ("teacher", self.teacher.as_deref())] {
            let Some((base, _)) = path.and_then(trained_name) else { continue };
            if earlier.iter().all(|other| other.name != base) {
                return Err((key, format!("{:?} needs {base:?}, which no earlier entry trains", self.name)));
            }
        }
        if let Some((key, _)) = self.grid.iter().find(|(_, values)| values.is_empty()) {
            return Err(("grid", format!("expected values of {key:?} for {:?}, found none", self.name)));
        }
        if self.grid.contains_key("seed") || self.set.contains_key("seed") {
            return Err(("set", format!("{:?}: seeds are listed in `seeds`", self.name)));
        }
        Ok(())
    }

    fn combinations(&self) -> Vec<Vec<String>> {
        let mut combinations = vec![Vec::new()];
        for (key, values) in &self.grid {
            let with = |combination: &Vec<String>| {
                let with = |value: &Value| [combination.clone(), vec![format!("{key}={value}")]].concat();
                values.iter().map(with).collect::<Vec<_>>()
            };
            combinations = combinations.iter().flat_map(with).collect();
        }
        combinations
    }
}

impl TrainedModels {
    /// The directories of a model, one for each seed.
    fn get(&self, name: &str) -> &[PathBuf] {
        self.directories.get(name).map_or(&[], Vec::as_slice)
    }

    /// The path of a model for a seed, by its number: for a trained one its directory, with the options of `path`;
    /// others are in the directory of the data.
    pub(super) fn located(&self, path: &Path, data: &Path, seed: usize) -> PathBuf {
        let Some((name, options)) = trained_name(path) else { return data.join(path) };
        let directories = self.get(name);
        let Some(directory) = directories.get(seed).or(directories.first()) else { return data.join(path) };
        if options.is_empty() {
            return directory.clone();
        }
        let mut path = directory.clone().into_os_string();
        path.push(":");
        path.push(options);
        path.into()
    }

    /// Number of seeds over which a method is measured: the number of its trained models with several seeds; those with
    /// one are used with each.
    pub(super) fn n_seeds(&self, paths: &[&Path]) -> Result<usize, EvalError> {
        let n_trained = |path: &&Path| Some(self.get(trained_name(path)?.0).len());
        let mut numbers: Vec<usize> = paths.iter().filter_map(n_trained).filter(|n| *n != 1).collect();
        numbers.dedup();
        match numbers[..] {
            [] => Ok(1),
            [n] => Ok(n.max(1)),
            _ => Err(EvalError::Seeds { numbers }),
        }
    }
}

impl Plan {
    /// Trains the models that are not in the store; `on_run` is called for each run.
    ///
    /// # Errors
    /// When a setting is wrong, which is found before the first run, or a run fails; those that have ended are kept.
    pub fn train(
        &self,
        locations: &Locations,
        store: &Store,
        trainer: &dyn Trainer,
        mut on_run: impl FnMut(Event, &str, &[String]),
    ) -> Result<TrainedModels, EvalError> {
        let mut models = TrainedModels::default();
        let mut compared = Vec::with_capacity(self.training.len());
        for entry in &self.training {
            let mut probe = TrainedModels::default();
            // Their places are not known before those of the models that they begin with.
            probe.directories.insert(
                trained_name(Path::new(&entry.model)).map_or("", |found| found.0).into(),
                vec![PathBuf::new()],
            );
            let runs = entry.runs(locations, &probe, true)?.concat();
            let settings = |(run, _): &RunWithSettings| trainer.settings(run);
            let settings: Vec<String> = runs
                .iter()
                .map(settings)
                .collect::<Result<_, _>>()
                .map_err(|error| failed(&entry.name, error))?;
            // Also before the pairs of a model that is trained already: what is measured may be new.
            compared.push(match runs.first().zip(settings.first()) {
                Some(((run, _), settings)) => entry.compared(run, settings, store, trainer)?,
                None => String::new(),
            });
        }
        for (entry, evaluation_data) in self.training.iter().zip(compared) {
            let runs = entry.located(locations, store, &models, trainer)?;
            let mut combinations = Vec::new();
            let mut outcomes: Vec<Vec<TrainedRun>> = Vec::new();
            for runs in &runs {
                let mut of_seeds = Vec::new();
                for located in runs {
                    of_seeds.push(located.outcome(&entry.name, trainer, &mut on_run)?);
                }
                outcomes.push(of_seeds);
            }
            for (of_seeds, settings) in outcomes.iter().zip(entry.combinations()) {
                let values: Option<Vec<f64>> = of_seeds.iter().map(|run| run.value).collect();
                let (mean, deviation) = values.map_or((None, None), |values| {
                    let (mean, deviation) = mean_and_deviation(&values);
                    (Some(mean), deviation)
                });
                let epochs = of_seeds.iter().map(|run| run.epoch).collect();
                combinations.push(TrainedCombination { settings, mean, deviation, epochs });
            }
            let chosen = best(&combinations).ok_or_else(|| {
                let problem = "nothing was measured to choose among the combinations of the grid by; give `dev`, or set \
                               select to \"mrr\", \"ndcg\" or \"accuracy\"";
                failed(&entry.name, problem.into())
            })?;
            let directories = runs[chosen].iter().map(|located| located.directory.clone()).collect();
            models.directories.insert(entry.name.clone(), directories);
            let first = outcomes.first().and_then(|of_seeds| of_seeds.first());
            models.results.push(TrainingResults {
                name: entry.name.clone(),
                model: entry.model.clone(),
                recipe: entry.recipe.as_ref().map_or_else(String::new, |path| path.display().to_string()),
                examples: first.map_or(0, |run| run.examples),
                evaluation_data,
                measure: first.map_or_else(String::new, |run| run.measure.clone()),
                combinations,
                chosen,
            });
        }
        Ok(models)
    }

    /// Lists the runs of training with their times, and trains nothing. Of runs that differ in seeds only, one is measured.
    ///
    /// # Errors
    /// When a setting is wrong, a file cannot be used, or a step fails.
    pub fn planned_runs(
        &self,
        locations: &Locations,
        store: &Store,
        trainer: &dyn Trainer,
    ) -> Result<Vec<PlannedRun>, EvalError> {
        let mut models = TrainedModels::default();
        let mut planned = Vec::new();
        for entry in &self.training {
            for runs in entry.located(locations, store, &models, trainer)? {
                let mut estimate = None;
                for located in &runs {
                    let trained =
                        trainer.finished(&located.directory).map_err(|error| failed(&entry.name, error))?;
                    if trained.is_none() && estimate.is_none() {
                        // A model that is not trained yet takes as long as the one that it begins with.
                        let model = self.untrained(&entry.model, locations, &models);
                        let run = TrainingRun { model, ..located.run.clone() };
                        estimate = Some(trainer.estimate(&run).map_err(|error| failed(&entry.name, error))?);
                    }
                    planned.push(PlannedRun {
                        name: entry.name.clone(),
                        settings: located.varied.clone(),
                        trained: trained.is_some(),
                        estimate: estimate.filter(|_| trained.is_none()),
                    });
                }
                // With a grid, which one is chosen is not known: any stands for it.
                let directories = runs.into_iter().map(|located| located.directory).collect();
                models.directories.insert(entry.name.clone(), directories);
            }
        }
        Ok(planned)
    }

    /// A model on disk with the shape of `model`.
    fn untrained(&self, model: &str, locations: &Locations, models: &TrainedModels) -> PathBuf {
        let path = models.located(Path::new(model), &locations.data, 0);
        let base = trained_name(Path::new(model)).filter(|_| !path.is_dir());
        match base.and_then(|(name, _)| self.training.iter().find(|entry| entry.name == name)) {
            Some(entry) => self.untrained(&entry.model, locations, models),
            None => path,
        }
    }
}

impl TrainingPlan {
    /// The runs of each combination, for each seed, with the settings that vary; an entry that begins with a trained model
    /// has at least as many as that has seeds. Those of `each_base` are not looked up.
    fn runs(
        &self,
        locations: &Locations,
        models: &TrainedModels,
        is_probe: bool,
    ) -> Result<Vec<Vec<RunWithSettings>>, EvalError> {
        let n_bases = if is_probe { 1 } else { models.n_seeds(&[Path::new(&self.model)])? };
        let mut seeds: Vec<Option<u64>> = self.seeds.iter().copied().map(Some).collect();
        if seeds.is_empty() {
            seeds = vec![None; n_bases];
        }
        if n_bases > 1 && n_bases != seeds.len() {
            return Err(EvalError::Seeds { numbers: vec![seeds.len(), n_bases] });
        }
        let in_data = |Paths(paths): &Paths| paths.iter().map(|path| locations.data.join(path)).collect();
        let set: Vec<String> = self.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let run = |combination: &Vec<String>, (number, seed): (usize, &Option<u64>)| {
            let seed = seed.map(|seed| format!("seed={seed}"));
            let varied: Vec<String> = combination.iter().cloned().chain(seed).collect();
            let run = TrainingRun {
                model: models.located(Path::new(&self.model), &locations.data, number),
                recipe: self.recipe.as_ref().map(|path| locations.plan.join(path)),
                settings: set.iter().cloned().chain(varied.iter().cloned()).collect(),
                pairs: in_data(&self.pairs),
                dev: in_data(&self.dev),
                corpus: in_data(&self.corpus),
                teacher: self.teacher.as_ref().map(|path| match path.as_os_str() == BUILTIN {
                    true => path.clone(),
                    false => models.located(path, &locations.data, number),
                }),
                exclude: in_data(&self.exclude),
                measured: locations.measured.clone(),
                tolerate: in_data(&self.tolerate),
                allow_evaluation_data: self.allow_evaluation_data,
            };
            (run, varied)
        };
        let of_combination =
            |combination| seeds.iter().enumerate().map(|seed| run(combination, seed)).collect();
        Ok(self.combinations().iter().map(of_combination).collect())
    }

    /// Returns what the pairs share with evaluation data, which is looked up if the same files were compared before.
    fn compared(
        &self,
        run: &TrainingRun,
        settings: &str,
        store: &Store,
        trainer: &dyn Trainer,
    ) -> Result<String, EvalError> {
        #[derive(Serialize)]
        struct Compared<'a> {
            version: u32,
            settings: &'a str,
            files: [Vec<Input>; 4],
            allow: bool,
        }
        let read = |paths: &Vec<PathBuf>| -> Result<Vec<Input>, EvalError> {
            paths.iter().map(|path| Input::read(Path::new(""), path)).collect()
        };
        let files = [read(&run.pairs)?, read(&run.exclude)?, read(&run.measured)?, read(&run.tolerate)?];
        let compared = Compared { version: VERSION, settings, files, allow: self.allow_evaluation_data };
        let hash = sha256(serde_json::to_vec(&compared).unwrap_or_default());
        let path = store.compared().join(&hash[..32]).with_extension("txt");
        if let Ok(known) = fs::read_to_string(&path) {
            return Ok(known);
        }
        let found = trainer.compare(run).map_err(|error| failed(&self.name, error))?;
        super::write_whole(&path, found.as_bytes())?;
        Ok(found)
    }

    /// The runs of each combination with their directories.
    fn located(
        &self,
        locations: &Locations,
        store: &Store,
        models: &TrainedModels,
        trainer: &dyn Trainer,
    ) -> Result<Vec<Vec<LocatedRun>>, EvalError> {
        let read = |Paths(paths): &Paths| -> Result<Vec<Input>, EvalError> {
            paths.iter().map(|path| Input::read(&locations.data, path)).collect()
        };
        let (pairs, dev, corpus) = (read(&self.pairs)?, read(&self.dev)?, read(&self.corpus)?);
        // Hashed once, not once for each run.
        let mut bases: HashMap<PathBuf, String> = HashMap::new();
        let mut model_of = |path: &Path| -> Result<String, EvalError> {
            if let Some(found) = bases.get(path) {
                return Ok(found.clone());
            }
            let (directory, options) = quarry_transformer::split_options(path);
            let is_ours = directory.parent() == Some(store.models().as_path());
            let content = match directory.file_name().filter(|_| is_ours) {
                // By what it was trained from: it may not be there yet.
                Some(name) => name.to_string_lossy().into_owned(),
                None => Input::read(Path::new(""), &directory)?.sha256,
            };
            let identity = format!("{content}:{}", options.unwrap_or_default());
            bases.insert(path.to_owned(), identity.clone());
            Ok(identity)
        };
        let mut all = Vec::new();
        for runs in self.runs(locations, models, false)? {
            let mut of_seeds = Vec::new();
            for (run, varied) in runs {
                let teacher = match &run.teacher {
                    Some(path) if path.as_os_str() == BUILTIN => Some(BUILTIN.to_owned()),
                    Some(path) => Some(model_of(path)?),
                    None => None,
                };
                let identity = RunIdentity {
                    settings: trainer.settings(&run).map_err(|error| failed(&self.name, error))?,
                    model: model_of(&run.model)?,
                    pairs: &pairs,
                    dev: &dev,
                    corpus: &corpus,
                    teacher,
                };
                let directory = store.models().join(identity.hash());
                let identity = serde_json::to_string_pretty(&identity).unwrap_or_default();
                of_seeds.push(LocatedRun { run, varied, directory, identity });
            }
            all.push(of_seeds);
        }
        Ok(all)
    }
}

impl LocatedRun {
    /// Result of the run; trains unless it has ended before.
    fn outcome(
        &self,
        name: &str,
        trainer: &dyn Trainer,
        on_run: &mut impl FnMut(Event, &str, &[String]),
    ) -> Result<TrainedRun, EvalError> {
        let finished = || trainer.finished(&self.directory).map_err(|error| failed(name, error));
        if let Some(outcome) = finished()? {
            on_run(Event::Known, name, &self.varied);
            return Ok(outcome);
        }
        on_run(Event::Started, name, &self.varied);
        super::write_whole(&self.directory.with_extension("json"), self.identity.as_bytes())?;
        trainer.train(&self.run, &self.directory).map_err(|error| failed(name, error))?;
        finished()?.ok_or_else(|| failed(name, "left no model; run the plan again".into()))
    }
}

fn failed(name: &str, source: TrainerError) -> EvalError {
    EvalError::Training { name: name.to_owned(), source }
}

/// The combination with the largest mean, the first one in a tie; the only one even without a mean.
fn best(combinations: &[TrainedCombination]) -> Option<usize> {
    if combinations.len() == 1 {
        return Some(0);
    }
    let measured = combinations.iter().enumerate().filter_map(|(number, found)| Some((number, found.mean?)));
    measured.reduce(|best, other| if other.1 > best.1 { other } else { best }).map(|(number, _)| number)
}
