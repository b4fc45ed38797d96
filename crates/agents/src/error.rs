use std::io;
use std::path::PathBuf;

/// Why settings cannot be changed. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent has nothing to write in this scope.
    #[error("{agent} has no settings of the {scope}; leave out --scope {scope}, or name another agent")]
    NoTarget {
        /// The agent.
        agent: String,
        /// The scope.
        scope: String,
    },
    /// A file cannot be read.
    #[error("{}: cannot be read; check its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written; check its permissions and those of its directory", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Settings are in a regular file of text.
    #[error("{}: expected a text file of at most {max_mib} MiB, found {found}", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// The most that is read.
        max_mib: u64,
    },
    /// A project does not decide which files outside of it are written.
    #[error(
        "{}: leads out of the project, to {}; add the entry by hand if that is meant", path.display(), target.display()
    )]
    Outside {
        /// The file.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Somebody else wrote the file after it was read.
    #[error("{}: was changed by another program meanwhile; try again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be edited without damage.
    #[error("{}: {problem}; nothing was changed: add this by hand: {by_hand}", path.display())]
    Edit {
        /// The file.
        path: PathBuf,
        /// What is in the way.
        problem: String,
        /// What was to be added.
        by_hand: String,
    },
    /// What is known of earlier installations cannot be read.
    #[error("{}: expected the record of what was installed; move it away, and remove what was installed by hand", path.display())]
    Receipts {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}
