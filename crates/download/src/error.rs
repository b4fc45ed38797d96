//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a file is missing.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The server did not give the file.
    #[error("{url}: {failure}")]
    Failed {
        /// Where it was asked for.
        url: String,
        /// What went wrong.
        #[source]
        failure: Failure,
    },
    /// Another file has the name.
    #[error("{}: another file has this name: {failure}; move it, or remove it", path.display())]
    Other {
        /// The file that was to be written.
        path: PathBuf,
        /// What tells it from the right one.
        #[source]
        failure: Failure,
    },
    /// The file is being downloaded by another process.
    #[error("{}: it is being downloaded already; wait until that download ends", path.display())]
    Busy {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// A file that is there cannot be read.
    #[error("{}: cannot be read; check its permissions", path.display())]
    Read {
        /// The file that was to be written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file cannot be written. What is there is kept.
    #[error(
        "{}: cannot be written; check the directory, its permissions and the free space, and try again: it resumes where \
         it stopped",
        path.display()
    )]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A failure of a server or of its answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no connection.
    #[error("cannot be reached: {problem}; check the network and the address")]
    Unreachable {
        /// What the client met.
        problem: String,
    },
    /// It refuses.
    #[error("expected the file, found the status {status}; check the address, or try again later")]
    Status {
        /// HTTP status.
        status: u16,
    },
    /// Its answer makes no sense.
    #[error("expected the file, found {problem}; try again")]
    Answer {
        /// What came.
        problem: String,
    },
    /// The connection ended early.
    #[error("the connection ended after {found} of {expected} bytes; try again: it resumes where it stopped")]
    Cut {
        /// Bytes of the whole file.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// The connection broke.
    #[error("the connection broke: {problem}; try again: it resumes where it stopped")]
    Broken {
        /// What the client met.
        problem: String,
    },
    /// Next to nothing comes.
    #[error("only {bytes} bytes came in {seconds} s; try again: it resumes where it stopped")]
    Slow {
        /// Bytes that came.
        bytes: u64,
        /// In this time.
        seconds: u64,
    },
    /// It is another file, or an error page.
    #[error("expected {expected} bytes, found {found}; check the address: the file may have changed")]
    Length {
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// It is longer than the file can be.
    #[error("expected at most {max_size} bytes, found more; check the address")]
    TooLong {
        /// Maximum number of bytes.
        max_size: u64,
    },
    /// It has another content.
    #[error("expected SHA-256 {expected}, found {found}; the file was damaged on its way, or has changed")]
    Hash {
        /// Hash that it should have.
        expected: String,
        /// Hash that it has.
        found: String,
    },
}

impl Failure {
    /// Whether it makes sense to ask again.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Length { .. } | Self::TooLong { .. } | Self::Hash { .. } => {
                false
            }
            Self::Status { status } => matches!(status, 408 | 429 | 500..),
            Self::Answer { .. } | Self::Cut { .. } | Self::Broken { .. } | Self::Slow { .. } => true,
        }
    }

    pub(crate) fn of_reading(error: io::Error) -> Self {
        Self::Broken { problem: error.to_string() }
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
