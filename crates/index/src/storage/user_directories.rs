//! Directories of a user's indexes, and records of them.

use std::path::{Path, PathBuf};

/// Directories that only the user can write to; by default those of the operating system.
#[derive(Debug, Clone)]
pub struct UserDirectories {
    /// Cache directory: for indexes, which can be built again.
    pub cache: Option<PathBuf>,
    /// State directory: records which indexes in trees this machine wrote.
    pub state: Option<PathBuf>,
}

impl Default for UserDirectories {
    fn default() -> Self {
        Self { cache: quarry_files::cache_directory(), state: quarry_files::state_directory() }
    }
}

impl UserDirectories {
    /// Subdirectories of `directory`.
    pub fn below(directory: &Path) -> Self {
        Self { cache: Some(directory.join("cache")), state: Some(directory.join("state")) }
    }
}
