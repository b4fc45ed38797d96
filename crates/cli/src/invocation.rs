//! The command line of this process, which is the program's or that of an interpreter that loaded it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A command line that runs inside an interpreter.
#[derive(Debug)]
pub struct Embedded {
    /// The path of the script, and its arguments.
    pub arguments: Vec<OsString>,
    /// The file that this code was loaded from.
    pub library: PathBuf,
}

#[derive(Debug)]
struct Embedding {
    embedded: Embedded,
    /// The library, which an update may replace while the process runs.
    #[cfg(all(unix, feature = "eval"))]
    file: io::Result<std::fs::File>,
}

static EMBEDDING: OnceLock<Embedding> = OnceLock::new();

/// States that this process is an interpreter's. The first call counts.
pub fn embed(embedded: Embedded) {
    EMBEDDING.get_or_init(|| Embedding {
        #[cfg(all(unix, feature = "eval"))]
        file: std::fs::File::open(&embedded.library),
        embedded,
    });
}

/// The command line, with the program as its first word.
pub fn arguments() -> Vec<OsString> {
    EMBEDDING
        .get()
        .map_or_else(|| env::args_os().collect(), |Embedding { embedded, .. }| embedded.arguments.clone())
}

/// The file that starts this program.
pub fn program() -> io::Result<PathBuf> {
    let Some(Embedding { embedded, .. }) = EMBEDDING.get() else { return env::current_exe() };
    let script = embedded.arguments.first().map(PathBuf::from).unwrap_or_default();
    // On Windows, scripts are started by a program, whose suffix Python's package managers remove from the name.
    let program = if script.exists() { script } else { script.with_extension(env::consts::EXE_EXTENSION) };
    program.canonicalize()
}

/// The file that has the code of this program. On Linux, a link to the running code, even if its file was replaced in the
/// meantime.
#[cfg(feature = "eval")]
pub fn code() -> io::Result<PathBuf> {
    let (link, path) = match EMBEDDING.get() {
        None => (Some("/proc/self/exe".into()), env::current_exe()),
        #[cfg(unix)]
        Some(Embedding { file: Ok(file), embedded }) => {
            use std::os::fd::AsRawFd as _;

            (Some(format!("/proc/self/fd/{}", file.as_raw_fd()).into()), Ok(embedded.library.clone()))
        }
        Some(Embedding { embedded, .. }) => (None, Ok(embedded.library.clone())),
    };
    link.filter(|link: &PathBuf| link.exists()).map_or(path, Ok)
}
