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

static EMBEDDED: OnceLock<Embedded> = OnceLock::new();

/// States that this process is an interpreter's. The first call counts.
pub fn embed(embedded: Embedded) {
    EMBEDDED.get_or_init(|| embedded);
}

/// The command line, with the program as its first word.
pub fn arguments() -> Vec<OsString> {
    EMBEDDED.get().map_or_else(|| env::args_os().collect(), |embedded| embedded.arguments.clone())
}

/// The file that starts this program.
pub fn program() -> io::Result<PathBuf> {
    let Some(embedded) = EMBEDDED.get() else { return env::current_exe() };
    let script = embedded.arguments.first().map(PathBuf::from).unwrap_or_default();
    // On Windows, scripts are started by a program, whose suffix Python's package managers remove from the name.
    let program = if script.exists() { script } else { script.with_extension(env::consts::EXE_EXTENSION) };
    program.canonicalize()
}

/// The file that has the code of this program.
#[cfg(feature = "eval")]
pub fn code() -> io::Result<PathBuf> {
    if let Some(embedded) = EMBEDDED.get() {
        return Ok(embedded.library.clone());
    }
    // On Linux, the link refers to the running program even if its file was replaced in the meantime.
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { env::current_exe() }
}
