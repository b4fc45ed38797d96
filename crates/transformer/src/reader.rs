//! Reads the files of a model.

use std::error::Error;
use std::path::Path;

use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::Xxh3;

use quarry_embed::EmbedError;
use quarry_files::without_panic;

/// Runs a step of another crate on a model file. Both `tokenizers` and candle's pickle reader panic on some damaged
/// files; this turns panics into errors.
pub(crate) fn guarded<T, E: Into<Box<dyn Error + Send + Sync>>>(
    path: &Path,
    problem: &str,
    step: impl FnOnce() -> Result<T, E>,
) -> Result<T, EmbedError> {
    match without_panic(step) {
        Some(result) => result.map_err(|error| EmbedError::model_file(path, problem, error)),
        None => Err(EmbedError::model(path, problem)),
    }
}

/// The problem of a tokenizer that cannot split a text.
pub(crate) const FAILS: &str = "has a tokenizer that fails on a text; save the model's tokenizer again";

/// Reads files and hashes their content.
pub(crate) struct Reader<'a> {
    pub hash: &'a mut Xxh3,
}

impl Reader<'_> {
    /// The bytes of a file; `None` if it is missing.
    pub(crate) fn bytes(&mut self, path: &Path) -> Result<Option<Vec<u8>>, EmbedError> {
        match quarry_embed::read_file(path) {
            Ok(bytes) => {
                // The length makes the hash depend on the boundaries of files.
                self.hash.update(&(bytes.len() as u64).to_le_bytes());
                self.hash.update(&bytes);
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(EmbedError::model_file(path, "cannot be read", error)),
        }
    }

    /// The values in a JSON file; `None` if it is missing.
    pub(crate) fn optional<T: DeserializeOwned>(&mut self, path: &Path) -> Result<Option<T>, EmbedError> {
        let Some(bytes) = self.bytes(path)? else { return Ok(None) };
        parse(path, &bytes).map(Some)
    }

    /// The values in a JSON file that must be there.
    pub(crate) fn required<T: DeserializeOwned>(&mut self, path: &Path) -> Result<T, EmbedError> {
        self.optional(path)?.ok_or_else(|| missing(path))
    }
}

pub(crate) fn missing(path: &Path) -> EmbedError {
    EmbedError::model(path, "is missing; copy it from the model's source into the directory")
}

/// The values in the JSON file at `path`, whose content is `bytes`.
///
/// # Errors
/// When they are not what `T` expects; the error gives the line.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, EmbedError> {
    let problem = "does not contain the expected JSON; copy it again from the model's source";
    serde_json::from_slice(bytes).map_err(|error| EmbedError::model_file(path, problem, error))
}
