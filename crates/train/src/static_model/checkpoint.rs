//! The state of a run on disk.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{Settings, State, Table};
use crate::TrainError;

/// First line of a checkpoint: what it belongs to and how long its parts are. The tables follow in the order
/// documents, positions of documents, queries, as 32-bit floats in little-endian, and the XXH3 of all before.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    settings: Settings,
    pairs: u64,
    step: u64,
    n_documents: usize,
    n_queries: usize,
}

/// Directory of a run's state, and the identity of the run.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    settings: Settings,
    pairs: u64,
}

impl Checkpoint {
    pub(super) fn new(directory: &Path, settings: &Settings, pairs: u64) -> Checkpoint {
        Checkpoint { path: directory.join("checkpoint.bin"), settings: settings.clone(), pairs }
    }

    /// The kept state; none if nothing is kept.
    pub(super) fn read(&self) -> Result<Option<State>, TrainError> {
        if !self.path.exists() {
            return Ok(None);
        }
        let file = fs::read(&self.path).map_err(|error| TrainError::file(&self.path, error))?;
        let bad = |problem: &str| {
            let advice = "move the directory away to start again, or give the settings and pairs of that run";
            TrainError::file(&self.path, format!("{problem}; {advice}"))
        };
        let (file, hash) = file.split_last_chunk().ok_or_else(|| bad("is not a checkpoint"))?;
        let line = file.iter().position(|&byte| byte == b'\n').ok_or_else(|| bad("is not a checkpoint"))?;
        let head: Head = serde_json::from_slice(&file[..line]).map_err(|_| bad("is not a checkpoint"))?;
        if head.settings != self.settings || head.pairs != self.pairs {
            return Err(bad("belongs to a run with other settings or pairs"));
        }
        if xxh3_64(file) != u64::from_le_bytes(*hash) {
            return Err(bad("is damaged or incomplete"));
        }
        let (dimension, n_positions) = (head.settings.dimension, head.settings.positions);
        let lengths = [head.n_documents * dimension * 3, n_positions * 3, head.n_queries * dimension * 3]
            .map(|n| n * 4);
        let mut rest = &file[line + 1..];
        if rest.len() != lengths.iter().sum::<usize>() {
            return Err(bad("is incomplete"));
        }
        let mut next = |length: usize| {
            let (bytes, tail) = rest.split_at(length);
            rest = tail;
            bytemuck::pod_collect_to_vec::<u8, f32>(bytes)
        };
        let [documents, positions, queries] = lengths.map(&mut next);
        let positions = positions.chunks_exact(3).map(|x| [x[0], x[1], x[2]]).collect();
        Ok(Some(State {
            step: head.step,
            documents: Table { dimension, values: documents, positions },
            queries: Table { dimension, values: queries, positions: Vec::new() },
        }))
    }

    /// Replaces the kept state in one rename.
    pub(super) fn write(&self, state: &State) -> Result<(), TrainError> {
        let head = Head {
            settings: self.settings.clone(),
            pairs: self.pairs,
            step: state.step,
            n_documents: state.documents.n_rows(),
            n_queries: state.queries.n_rows(),
        };
        let aside = self.path.with_extension("new");
        let write = || -> std::io::Result<()> {
            if let Some(directory) = self.path.parent() {
                fs::create_dir_all(directory)?;
            }
            let mut file = std::io::BufWriter::new(fs::File::create(&aside)?);
            let mut hash = Xxh3::new();
            let head = serde_json::to_string(&head)? + "\n";
            for part in [
                head.as_bytes(),
                bytemuck::cast_slice(&state.documents.values),
                bytemuck::cast_slice(&state.documents.positions),
                bytemuck::cast_slice(&state.queries.values),
            ] {
                hash.update(part);
                file.write_all(part)?;
            }
            file.write_all(&hash.digest().to_le_bytes())?;
            file.into_inner().map_err(|error| error.into_error())?.sync_all()?;
            fs::rename(&aside, &self.path)
        };
        write().map_err(|error| TrainError::file(&aside, error))
    }
}
