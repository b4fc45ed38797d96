//! Models by location: those that come with the program, and those at a path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{EmbedError, Embedder, StaticModel, WithReranker};

/// Name of the file that holds a static model in the directory that `quarry train static` writes.
pub const STATIC_MODEL_FILE: &str = "model.bin";

/// Directory of the vectors of [`CachedEmbedder`](crate::CachedEmbedder), in the user's cache directory.
pub const VECTORS: &str = "embeddings";

/// The files of the models of the tiers: path, length in bytes, SHA-256. A test compares it with them, and writes it with
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

/// The quality tiers in which models re-rank results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// A small transformer reads the first results.
    Balanced,
    /// In addition, a larger one reads the first of these.
    Best,
}

impl Tier {
    /// Name of the tier, and of the directory of its transformer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Best => "best",
        }
    }

    /// The tier of this name.
    #[must_use]
    pub fn named(name: &Path) -> Option<Self> {
        [Self::Balanced, Self::Best].into_iter().find(|tier| name == Path::new(tier.name()))
    }

    /// The files of the transformer, of which searches need all but the documentation.
    pub fn files(self) -> impl Iterator<Item = ShippedFile> {
        FILES.lines().filter_map(move |line| {
            let mut fields = line.split('\t');
            let path = fields.next()?.strip_prefix(self.name())?.strip_prefix('/')?;
            Some(ShippedFile { path, size: fields.next()?.parse().ok()?, sha256: fields.next()? })
        })
    }

    /// The re-ranker of a tier; `load` is called with the directory of each model.
    ///
    /// # Errors
    /// When a model is not installed, or cannot be loaded.
    pub fn reranker(
        self,
        directories: &[PathBuf],
        load: impl Fn(&Path) -> Result<Arc<dyn Embedder>, EmbedError> + Sync,
    ) -> Result<Arc<dyn Embedder>, EmbedError> {
        let tiers = match self {
            Self::Balanced => &[Self::Balanced][..],
            Self::Best => &[Self::Balanced, Self::Best],
        };
        let found = self.installed(tiers, &with_pulled(directories))?;
        match &found[..] {
            [first, second] => {
                let (first, reranker) = rayon::join(|| load(first), || load(second));
                Ok(Arc::new(WithReranker { first: first?, reranker: reranker? }))
            }
            _ => load(&found[0]),
        }
    }

    /// The directory of the transformer: in one of `directories`, or among the pulled models.
    ///
    /// # Errors
    /// When it is not installed; the message names the command that installs it.
    pub fn directory(self, directories: &[PathBuf]) -> Result<PathBuf, EmbedError> {
        Ok(self.installed(&[self], &with_pulled(directories))?.remove(0))
    }

    /// The directories of the transformers that this tier needs.
    fn installed(self, needed: &[Self], directories: &[PathBuf]) -> Result<Vec<PathBuf>, EmbedError> {
        let (mut found, mut missing) = (Vec::new(), String::new());
        for tier in needed {
            let mut places = directories.iter().map(|directory| directory.join(tier.name()));
            match places.find(|place| place.join("config.json").is_file()) {
                Some(place) => found.push(place),
                None => missing = format!("{missing} {}", tier.name()),
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let problem = format!("this quality is not installed; install it with `quarry model pull{missing}`");
        Err(EmbedError::model(Path::new(self.name()), problem))
    }
}

fn with_pulled(directories: &[PathBuf]) -> Vec<PathBuf> {
    directories.iter().cloned().chain(pulled_models()).collect()
}

/// The directory of pulled models, in the user's cache directory; none if the user has none.
#[must_use]
pub fn pulled_models() -> Option<PathBuf> {
    Some(quarry_files::cache_directory()?.join("models"))
}

/// The file of the static model at `path`, unless that is a transformer's directory.
#[must_use]
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
        let mut directories = vec![models.join("balanced"), models.join("best")];
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
        assert_eq!(Tier::Balanced.files().chain(Tier::Best.files()).count(), paths.len());
        let weights = Tier::Best.files().find(|file| file.path == "model.safetensors").unwrap();
        assert_eq!((weights.size, weights.sha256.len()), (62_039_824, 64));
    }

    #[test]
    fn a_missing_quality_names_the_command_that_installs_what_it_needs() {
        let directory = tempfile::tempdir().unwrap();
        let directories = [directory.path().to_owned()];
        let message = || {
            let needed = [Tier::Balanced, Tier::Best];
            Tier::Best.installed(&needed, &directories).unwrap_err().to_string()
        };
        let expected =
            "best: this quality is not installed; install it with `quarry model pull balanced best`";
        assert_eq!(message(), expected);
        fs::create_dir(directory.path().join("balanced")).unwrap();
        fs::write(directory.path().join("balanced/config.json"), "").unwrap();
        assert!(message().ends_with("`quarry model pull best`"), "{}", message());
        assert_eq!(Tier::Balanced.directory(&directories).unwrap(), directory.path().join("balanced"));
    }
}
