//! Errors, with what to do about them.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("{url}: {failure}")]
    Failed {
        url: String,
        #[source]
        failure: Failure,
    },
    #[error("{}: another file has this name: {failure}; move it, or remove it", path.display())]
    Other {
        path: PathBuf,
        #[source]
        failure: Failure,
    },
    #[error("{}: it is already being downloaded; wait until that download ends", path.display())]
    Busy { path: PathBuf },
    #[error("{}: cannot be read; check its permissions", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{}: cannot be written; check the directory, its permissions and the free space, and try again: it resumes where \
         it stopped",
        path.display()
    )]
    Write { path: PathBuf, source: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("cannot be reached: {problem}; check the network and the address")]
    Unreachable { problem: String },
    #[error("expected the file, found the status {status}; check the address, or try again later")]
    Status { status: u16 },
    #[error("expected the file, found {problem}; try again")]
    Answer { problem: String },
    #[error("the connection ended after {found} of {expected} bytes; try again: it resumes where it stopped")]
    Cut { expected: u64, found: u64 },
    #[error("the connection broke: {problem}; try again: it resumes where it stopped")]
    Broken { problem: String },
    #[error("only {bytes} bytes arrived in {seconds} s; try again: it resumes where it stopped")]
    Slow { bytes: u64, seconds: u64 },
    /// It is another file, or an error page.
    #[error("expected {expected} bytes, found {found}; check the address: the file may have changed")]
    Length { expected: u64, found: u64 },
    #[error("expected at most {max_size} bytes, found more; check the address")]
    TooLong { max_size: u64 },
    #[error("expected SHA-256 {expected}, found {found}; the file was damaged on its way, or has changed")]
    Hash { expected: String, found: String },
}

impl Failure {
    /// Returns whether it makes sense to ask again.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Length { .. } | Self::TooLong { .. } | Self::Hash { .. } => {
                false
            }
            Self::Status { status } => matches!(status, 408 | 429 | 500..),
            Self::Answer { .. } | Self::Cut { .. } | Self::Broken { .. } | Self::Slow { .. } => true,
        }
    }
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Self {
        let problem = error.to_string();
        match error {
            ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => {
                Self::Broken { problem }
            }
            _ => Self::Unreachable { problem },
        }
    }
}
