//! The documentation of functions of other packages, for the models that write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quarry_files::{read_regular_text, sha256};

use crate::error::BuildError;

/// Maximum size of a documentation file in bytes, and of the part shown to the model in characters.
const MAX_DOCUMENTATION_BYTES: u64 = 1 << 20;
const MAX_DOCUMENTATION_CHARS: usize = 6000;

/// The name, without extension, of the file that documents a function of another package.
pub fn file_name(api: &str) -> String {
    api.replace(['/', ':', '\\'], ".")
}

/// The documented functions of other packages in a directory, one per file: `NAME.txt` or `NAME.md`.
#[derive(Default)]
pub(crate) struct Documented {
    files: BTreeMap<String, PathBuf>,
}

impl Documented {
    /// Lists a directory; without one, no function is documented.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, BuildError> {
        let Some(directory) = directory else { return Ok(Self::default()) };
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(BuildError::read(directory))? {
            let path = entry.map_err(BuildError::read(directory))?.path();
            if path.extension().is_some_and(|ending| ending == "txt" || ending == "md")
                && let Some(name) = path.file_stem()
            {
                files.insert(name.to_string_lossy().into_owned(), path);
            }
        }
        Ok(Self { files })
    }

    pub(crate) fn has(&self, api: &str) -> bool {
        self.files.contains_key(&file_name(api))
    }

    /// The documentation of a function as a model is shown it; empty if there is none.
    pub(crate) fn text(&self, api: &str) -> Result<String, BuildError> {
        let Some(path) = self.files.get(&file_name(api)) else { return Ok(String::new()) };
        let text = read_regular_text(path, MAX_DOCUMENTATION_BYTES).map_err(BuildError::read(path))?;
        Ok(text.chars().take(MAX_DOCUMENTATION_CHARS).collect())
    }
}

pub(crate) fn documentation_hash(directory: &Path) -> Result<String, BuildError> {
    let mut all = String::new();
    for (name, path) in Documented::open(Some(directory))?.files {
        let text = read_regular_text(&path, MAX_DOCUMENTATION_BYTES).map_err(BuildError::read(&path))?;
        all += &format!("{name} {}\n", sha256(text));
    }
    Ok(sha256(all))
}
