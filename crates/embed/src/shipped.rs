//! Models by location: those that come with the program, and those at a path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{EmbedError, Embedder, StaticModel};

/// Name of the file that holds a static model in the directory that `quarry train static` writes.
pub const STATIC_MODEL_FILE: &str = "model.bin";

/// Directory of the vectors of [`CachedEmbedder`](crate::CachedEmbedder), in the user's cache directory.
pub const VECTORS: &str = "embeddings";

/// Name of the transformer that re-ranks results, of the quality that uses it, and of its directory.
pub const RERANKER: &str = "best";

/// The files of that model: path, length in bytes, SHA-256. A test compares it with them, and writes it with
/// `UPDATE_EXPECT=1`.
const FILES: &str = include_str!("../models/files.tsv");

/// A file of a model that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShippedFile {
    /// Its path below the model's directory: names joined by `/`.
    pub path: &'static str,
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 hash of its content, as 64 digits in lower case.
    pub sha256: &'static str,
}

/// Returns whether a model is named by the quality that uses it: `best`, or `balanced`, an alias.
pub fn is_reranker(name: &Path) -> bool {
    name == Path::new(RERANKER) || name == Path::new("balanced")
}

/// The files of the re-ranker, of which searches need all but the documentation.
pub fn reranker_files() -> impl Iterator<Item = ShippedFile> {
    FILES.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let path = fields.next()?.strip_prefix(RERANKER)?.strip_prefix('/')?;
        Some(ShippedFile { path, size: fields.next()?.parse().ok()?, sha256: fields.next()? })
    })
}

/// The directory of the re-ranker: in one of `directories`, or among the pulled models.
///
/// # Errors
/// When it is not installed; the message names the command that installs it.
pub fn reranker(directories: &[PathBuf]) -> Result<PathBuf, EmbedError> {
    reranker_in(directories.iter().cloned().chain(pulled_models()))
}

fn reranker_in(directories: impl IntoIterator<Item = PathBuf>) -> Result<PathBuf, EmbedError> {
    let mut places = directories.into_iter().map(|models| models.join(RERANKER));
    let found = places.find(|place| place.join("config.json").is_file());
    found.ok_or_else(|| {
        let problem =
            format!("this quality is not installed; install it with `quarry model pull {RERANKER}`");
        EmbedError::model(Path::new(RERANKER), problem)
    })
}

/// The directory of pulled models, in the user's cache directory; none if the user has none.
pub fn pulled_models() -> Option<PathBuf> {
    Some(quarry_files::cache_directory()?.join("models"))
}

/// The file of the static model at `path`, unless that is a transformer's directory.
pub fn static_file(path: &Path) -> Option<PathBuf> {
    let inside = path.join(STATIC_MODEL_FILE);
    if path.is_file() { Some(path.to_owned()) } else { inside.is_file().then_some(inside) }
}

/// The model in the program, or the one at `path`: a static model's file or directory, or another directory, which
/// `load_other` reads.
///
/// # Errors
/// When the model at `path` is missing or damaged.
pub fn load(
    path: Option<&Path>,
    load_other: impl FnOnce(&Path) -> Result<Arc<dyn Embedder>, EmbedError>,
) -> Result<Arc<dyn Embedder>, EmbedError> {
    let Some(path) = path else { return Ok(Arc::new(StaticModel::builtin())) };
    match static_file(path) {
        Some(file) => Ok(Arc::new(StaticModel::load(&file)?)),
        None => load_other(path),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_files_of_models_are_those_that_are_there() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
        let mut paths = Vec::new();
        let mut directories = vec![models.join(RERANKER)];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { directories.push(path) } else { paths.push(path) }
            }
        }
        paths.sort();
        let mut table = String::new();
        for path in &paths {
            let (size, sha256) = quarry_files::sha256_of(fs::File::open(path).unwrap()).unwrap();
            let path = path.strip_prefix(&models).unwrap().display().to_string().replace('\\', "/");
            table += &format!("{path}\t{size}\t{sha256}\n");
        }
        expect_file![models.join("files.tsv")].assert_eq(&table);
        assert_eq!(reranker_files().count(), paths.len());
        let weights = reranker_files().find(|file| file.path == "model.safetensors").unwrap();
        assert_eq!((weights.size, weights.sha256.len()), (23_034_760, 64));
    }

    #[test]
    fn a_missing_quality_names_the_command_that_installs_it() {
        let directory = tempfile::tempdir().unwrap();
        let directories = [directory.path().to_owned()];
        let message = reranker_in(directories.clone()).unwrap_err().to_string();
        let expected = "best: this quality is not installed; install it with `quarry model pull best`";
        assert_eq!(message, expected);
        fs::create_dir(directory.path().join("best")).unwrap();
        fs::write(directory.path().join("best/config.json"), "").unwrap();
        assert_eq!(reranker_in(directories).unwrap(), directory.path().join("best"));
    }
}
