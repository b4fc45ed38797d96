//! The state of a run on disk, as a safetensors file that is replaced in one rename.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::optimizer::Moments;
use super::{Curve, Evaluation, Mean, Settings};
use crate::TrainError;

/// The state of a run between two steps, besides its settings and data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    /// Steps of the optimizer that are done.
    pub step: u64,
    pub values: Vec<Vec<f32>>,
    /// The optimizer's means.
    pub moments: Vec<Moments>,
    /// The moving average of the values, if the settings ask for one.
    pub average: Option<Vec<Vec<f32>>>,
    /// Losses of the epoch that is under way.
    pub losses: Mean,
    pub curve: Curve,
    /// The best epoch so far and its values.
    pub best: Option<(Evaluation, Vec<Vec<f32>>)>,
    pub evaluations: Vec<Evaluation>,
}

impl State {
    pub(super) fn measured(&self) -> &Vec<Vec<f32>> {
        self.average.as_ref().unwrap_or(&self.values)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    settings: Settings,
    identity: u64,
    step: u64,
    losses: Mean,
    curve: Curve,
    best: Option<Evaluation>,
    evaluations: Vec<Evaluation>,
    /// XXH3 of the values of all tensors, in their order.
    hash: u64,
}

/// Directory of a run's state, and the identity of the run.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    settings: Settings,
    /// Hash of the data and of the model that the run begins with.
    identity: u64,
}

const HEAD: &str = "head";

/// Name of the file that is locked while a run is at work.
const LOCK_FILE: &str = "checkpoint.lock";

/// Files that a run may leave in its directory before its first checkpoint.
const RUN_FILES: [&str; 3] = [LOCK_FILE, "checkpoint.new", "report.html"];

/// Prefixes of files that are written under another name first: those of safetensors, and the page.
const PARTIAL: [&str; 2] = [".tmp", ".partial-"];

const CHECKPOINT_FILE: &str = "checkpoint.safetensors";

impl Checkpoint {
    pub(super) fn new(directory: &Path, settings: &Settings, identity: u64) -> Checkpoint {
        Checkpoint { path: directory.join(CHECKPOINT_FILE), settings: settings.clone(), identity }
    }

    /// The kept state of a run whose parameters have these numbers of values; none if nothing is kept.
    pub(super) fn read(&self, lengths: &[usize]) -> Result<Option<State>, TrainError> {
        if !self.path.exists() {
            return Ok(None);
        }
        let bad = |problem: &str| {
            let advice =
                "move the directory away to start again, or give the model, settings and pairs of that run";
            TrainError::file(&self.path, format!("{problem}; {advice}"))
        };
        let bytes = fs::read(&self.path).map_err(|error| TrainError::file(&self.path, error))?;
        let mut tensors = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu)
            .map_err(|_| bad("is not a complete checkpoint"))?;
        let head = tensors.remove(HEAD).and_then(|head| head.to_vec1::<u8>().ok());
        let head: Head = head
            .and_then(|head| serde_json::from_slice(&head).ok())
            .ok_or_else(|| bad("is not a checkpoint"))?;
        if head.settings != self.settings || head.identity != self.identity {
            return Err(bad("belongs to a run with another model or teacher, other settings or other pairs"));
        }
        let mut hash = Xxh3::new();
        let mut group = |name: &str| {
            let group = lengths
                .iter()
                .enumerate()
                .map(|(at, length)| {
                    let values = tensors
                        .remove(&format!("{name}.{at}"))
                        .filter(|tensor| tensor.dtype() == DType::F32)
                        .and_then(|tensor| tensor.to_vec1::<f32>().ok());
                    values.filter(|values| values.len() == *length)
                })
                .collect::<Option<Vec<Vec<f32>>>>()
                .ok_or_else(|| bad("lacks tensors of the model"))?;
            group.iter().for_each(|values| hash.update(bytemuck::cast_slice(values)));
            Ok::<_, TrainError>(group)
        };
        let values = group("values")?;
        let (first, second) = (group("first")?, group("second")?);
        let average = if self.settings.average_decay > 0.0 { Some(group("average")?) } else { None };
        let best = match head.best {
            Some(evaluation) => Some((evaluation, group("best")?)),
            None => None,
        };
        if hash.digest() != head.hash {
            return Err(bad("is damaged"));
        }
        let moments =
            first.into_iter().zip(second).map(|(first, second)| Moments { first, second }).collect();
        Ok(Some(State {
            step: head.step,
            losses: head.losses,
            curve: head.curve,
            values,
            moments,
            average,
            best,
            evaluations: head.evaluations,
        }))
    }

    pub(super) fn write(&self, state: &State) -> Result<(), TrainError> {
        // In the order in which they are read.
        let mut groups: Vec<(&str, Vec<&Vec<f32>>)> = vec![
            ("values", state.values.iter().collect()),
            ("first", state.moments.iter().map(|moments| &moments.first).collect()),
            ("second", state.moments.iter().map(|moments| &moments.second).collect()),
        ];
        groups.extend(state.average.iter().map(|average| ("average", average.iter().collect())));
        groups.extend(state.best.iter().map(|(_, best)| ("best", best.iter().collect())));
        let (mut hash, mut tensors) = (Xxh3::new(), HashMap::new());
        for (name, group) in groups {
            for (at, values) in group.into_iter().enumerate() {
                hash.update(bytemuck::cast_slice(values));
                let tensor = Tensor::from_slice(values, values.len(), &Device::Cpu)?;
                tensors.insert(format!("{name}.{at}"), tensor);
            }
        }
        let head = Head {
            hash: hash.digest(),
            settings: self.settings.clone(),
            identity: self.identity,
            step: state.step,
            losses: state.losses,
            curve: state.curve.clone(),
            best: state.best.as_ref().map(|(evaluation, _)| evaluation.clone()),
            evaluations: state.evaluations.clone(),
        };
        let head = serde_json::to_vec(&head).map_err(|error| TrainError::file(&self.path, error))?;
        let n = head.len();
        tensors.insert(HEAD.to_owned(), Tensor::from_vec(head, n, &Device::Cpu)?);
        write_tensors(&self.path, &tensors)
    }

    /// Removes the kept state of a run that is done.
    pub(super) fn remove(&self) -> Result<(), TrainError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TrainError::file(&self.path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Writes a safetensors file beside the old one, and then in its place; a disk without space leaves the old one.
pub(super) fn write_tensors(path: &Path, tensors: &HashMap<String, Tensor>) -> Result<(), TrainError> {
    let aside = path.with_extension("new");
    let failed = |error: &dyn std::fmt::Display| {
        // Half a file is of no use, and may fill the disk.
        _ = fs::remove_file(&aside);
        let advice = "make space or name another directory, and run the same command again: it resumes from the last \
                      checkpoint";
        TrainError::file(&aside, format!("cannot be written: {error}; {advice}"))
    };
    quarry_transformer::convert::save(tensors, &aside).map_err(|error| failed(&error))?;
    let sync = || fs::File::open(&aside)?.sync_all();
    sync().and_then(|()| fs::rename(&aside, path)).map_err(|error| failed(&error))
}

/// Checks that a directory contains only what an interrupted run left.
pub(super) fn check_directory(directory: &Path) -> Result<(), TrainError> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    let names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| !RUN_FILES.contains(&name.as_str()) && !is_partial(name))
        .collect();
    match names.iter().min() {
        // Files that a run wrote before it removed its checkpoint are written again.
        _ if directory.join(CHECKPOINT_FILE).exists() => Ok(()),
        None => Ok(()),
        Some(_) if names.iter().any(|name| name == "model.safetensors") => {
            let weights = directory.join("model.safetensors");
            Err(TrainError::file(&weights, "is a finished model; name another directory"))
        }
        Some(name) => Err(TrainError::file(
            directory,
            format!("contains {name}, which might be overwritten; name a new or empty directory"),
        )),
    }
}

fn is_partial(name: &str) -> bool {
    PARTIAL.iter().any(|beginning| name.starts_with(beginning))
}

/// Keeps other runs out of a directory; they would write the same checkpoint.
pub(super) struct RunLock {
    path: PathBuf,
    /// Locked as long as it is open.
    _file: fs::File,
}

impl RunLock {
    /// Locks a directory, and removes what a killed run has written in part.
    pub(super) fn take(directory: &Path) -> Result<RunLock, TrainError> {
        let path = directory.join(LOCK_FILE);
        let file = fs::File::create(&path).map_err(|error| TrainError::file(&path, error))?;
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => Err(TrainError::file(
                directory,
                "is in use by another run; wait for it, or name another directory",
            )),
            // A file system without locks cannot tell.
            _ => {
                for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                    if is_partial(&entry.file_name().to_string_lossy()) {
                        _ = fs::remove_file(entry.path());
                    }
                }
                Ok(RunLock { path, _file: file })
            }
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.path);
    }
}
