//! Runs untrusted programs: with access only to the files given to them, without a network, within [`Limits`], and
//! without leaving anything behind.
//!
//! [`open`] returns a [`Sandbox`], or an error if isolation does not work; [`Runner`] knows how programs of a
//! language are started.
//!
//! ```no_run
//! use quarry_sandbox::{Ended, Isolation, Limits, Runner, open};
//!
//! let sandbox = open(Isolation::Bubblewrap)?;
//! let program = Runner::named("python")?.program("print(6 * 7)");
//! let outcome = sandbox.run(&program, &Limits::default())?;
//! assert_eq!(outcome.ended, Ended::Exited { code: 0 });
//! assert_eq!(outcome.stdout.bytes, b"42\n");
//! # Ok::<(), quarry_sandbox::Error>(())
//! ```
//!
//! Isolation requires Linux. Everything that depends on it is in `linux`; on other systems (and on Linux with `--cfg
//! quarry_no_sandbox`, or if `QUARRY_NO_SANDBOX` is set at compile time) it is replaced by `elsewhere`, which refuses
//! to run anything.
#![cfg_attr(quarry_no_sandbox, allow(dead_code, reason = "what only a sandbox that runs programs needs"))]

#[cfg(quarry_no_sandbox)]
mod elsewhere;
#[cfg(not(quarry_no_sandbox))]
mod linux;
pub mod packages;
mod runners;
mod semaphore;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(quarry_no_sandbox)]
use elsewhere as system;
#[cfg(not(quarry_no_sandbox))]
use linux as system;
#[cfg(not(quarry_no_sandbox))]
pub use linux::podman::Podman;
pub use runners::Runner;
pub use semaphore::{Permit, Semaphore};
pub use system::Bubblewrap;

/// The directory with a program's files, in which it starts.
pub const WORK_DIRECTORY: &str = "/box";

/// Search path of programs and their interpreters, whatever the environment contains: a sandbox has no other
/// directories with programs.
pub const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The environment variable with the number of the file descriptor for reports, see [`Program::reports`].
pub const REPORT_VARIABLE: &str = "QUARRY_REPORT";

/// The path of the only directory that a package manager can write to.
const OUTPUT_DIRECTORY: &str = "/opt/out";

/// Maximum number of files of a program: each needs a file descriptor while it is copied.
pub const MAX_FILES: usize = 200;

/// Runs programs. Concurrent runs are isolated from each other.
pub trait Sandbox: Send + Sync {
    /// Runs a program until it ends or exceeds a limit. Afterwards, all of its processes and files are gone.
    ///
    /// # Errors
    /// When the program could not be started. How it ended, successfully or not, is an [`Outcome`].
    fn run(&self, program: &Program, limits: &Limits) -> Result<Outcome, Error>;

    /// The reason why programs of a language cannot be run in it, with the remedy; `None` if they can.
    fn problem(&self, runner: &Runner) -> Result<Option<String>, Error> {
        Ok(runner.problem())
    }
}

/// The isolation that [`open`] should set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Linux namespaces, with bubblewrap.
    Bubblewrap,
    /// Containers, with Podman.
    Podman {
        /// The image that programs run in, with `sh`, `tar`, `prlimit` and the interpreters; if `None`, they see the
        /// machine's `/usr`.
        image: Option<String>,
    },
    /// None. The program can do whatever the user can; only some of the [`Limits`] are enforced. Only for users who
    /// explicitly asked for it.
    UnsafeNoSandbox,
}

/// Opens a sandbox and runs a program in it to check that it works.
///
/// # Errors
/// When isolation does not work on this machine. It never falls back to weaker isolation.
pub fn open(isolation: Isolation) -> Result<Box<dyn Sandbox>, Error> {
    system::open(isolation)
}

/// A program with its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The executable, looked up in `/usr/local/bin`, `/usr/bin` and `/bin`, and its arguments.
    pub command: Vec<String>,
    /// Files in the work directory: relative path and content. The program may change its copies.
    pub files: Vec<(String, Vec<u8>)>,
    /// Environment variables. Only these, `PATH`, `HOME` and `LANG` are set.
    pub environment: Vec<(String, String)>,
    /// Directories of the machine that the program sees read-only as `/opt/NAME`. Not available without isolation.
    pub read_only: Vec<(String, PathBuf)>,
    /// If true, the program gets a pipe for reports, separate from its output: the number of the descriptor is in
    /// the environment variable [`REPORT_VARIABLE`].
    pub reports: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time from start to end; after it, everything is killed.
    pub wall_time: Duration,
    /// CPU time, at a resolution of one second: of each process, and with a delay of up to a second of all together.
    /// Without a cgroup, processes that end between two samples, and that their parents do not wait for, are not
    /// counted.
    pub cpu_time: Duration,
    /// Memory of all processes together, in bytes.
    pub memory_bytes: u64,
    pub processes: u64,
    pub file_bytes: u64,
    /// Size of each writable directory (the work directory, `/tmp`, `/dev/shm`), in bytes. They are in memory.
    #[serde(rename = "folder_bytes")]
    pub directory_bytes: u64,
    /// Number of open files of each process.
    pub open_files: u64,
    /// Bytes kept of each output stream and of the reports. Further output is dropped.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_time: Duration::from_secs(10),
            cpu_time: Duration::from_secs(10),
            memory_bytes: 512 << 20,
            processes: 64,
            file_bytes: 16 << 20,
            directory_bytes: 64 << 20,
            open_files: 256,
            output_bytes: 64 << 10,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub ended: Ended,
    /// The beginning of standard output.
    pub stdout: Captured,
    /// The beginning of standard error, such as tracebacks.
    pub stderr: Captured,
    /// The beginning of the output to the pipe of [`Program::reports`]; empty without one. The program itself
    /// can write anything to it.
    pub report: Captured,
    pub wall_time: Duration,
    /// User and system time of all processes together. Exact with a cgroup; otherwise sampled, excluding time after
    /// the last sample.
    pub cpu_time: Duration,
    /// Peak memory of all processes together, in bytes. Exact with a cgroup, otherwise sampled.
    pub peak_memory_bytes: u64,
    /// Means by which the memory of the program was limited.
    pub memory_bound: MemoryBound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Ended {
    /// It exited with this status: 0–255, where 128 + N also means that signal N ended it, as in shells.
    Exited {
        /// The exit status, from 0 to 255.
        code: i32,
    },
    /// It exceeded [`Limits::wall_time`].
    WallTime,
    /// It exceeded [`Limits::cpu_time`].
    CpuTime,
    /// It exceeded [`Limits::memory_bytes`].
    Memory,
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(formatter, "exited with status {code}"),
            Self::WallTime => write!(formatter, "ended because it ran for too long"),
            Self::CpuTime => write!(formatter, "ended because it used too much processor time"),
            Self::Memory => write!(formatter, "ended because it needed too much memory"),
        }
    }
}

/// The beginning of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Captured {
    /// At most [`Limits::output_bytes`] bytes.
    pub bytes: Vec<u8>,
    pub total_bytes: u64,
}

impl Captured {
    /// The output as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns whether the program wrote more than was kept.
    pub fn is_truncated(&self) -> bool {
        self.total_bytes > self.bytes.len() as u64
    }
}

/// Means by which the total memory of a program's processes is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryBound {
    /// By the kernel, with a cgroup of version 2.
    CgroupV2,
    /// By the kernel, with a cgroup of version 1.
    CgroupV1,
    /// By sampling the total every few milliseconds; in addition, the kernel limits the data segment of each process.
    Watchdog,
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Watchdog => "watchdog",
        })
    }
}

/// The reason why a program could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{program} is not in {SEARCH_PATH}: {remedy}")]
    Missing { program: String, remedy: String },
    #[error("containers cannot be set up: {detail}")]
    Container {
        /// Podman's message, and what to do.
        detail: String,
    },
    #[error(
        "the sandbox cannot be set up: {detail}. bubblewrap 0.8 or newer and unprivileged user namespaces are \
         needed (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns); running without \
         isolation must be requested explicitly"
    )]
    Setup {
        /// Bubblewrap's message.
        detail: String,
    },
    #[error(
        "test programs cannot be run on this system: their sandbox needs Linux; have a `quarry worker` on Linux run them \
         (--nats), or use a judge that runs none"
    )]
    Unsupported,
    #[error(
        "the number of processes of a program cannot be limited here: this is root in a namespace without other users, \
         and the kernel does not count root's processes; run as another user, or in a namespace with the user 65534"
    )]
    Uncounted,
    #[error("the program cannot be run: {0}")]
    Program(String),
    #[error("no runner for {name:?}: expected one of {known}")]
    UnknownLanguage { name: String, known: String },
    #[error("cannot {action}: {source}")]
    Io {
        /// The operation, as an infinitive.
        action: &'static str,
        source: io::Error,
    },
    #[error("{}: cannot {action}: {source}; check its permissions and the free space", path.display())]
    File {
        path: PathBuf,
        /// The operation, as an infinitive.
        action: &'static str,
        source: io::Error,
    },
    #[error("processes of the program did not end within {seconds} s after they were killed")]
    Unkillable { seconds: u64 },
}

impl Error {
    /// Converts an error in `map_err`.
    fn io<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { action, source: source.into() }
    }

    /// Converts an error in `map_err`.
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), action, source }
    }
}

impl Program {
    /// Checks the assumptions of the backends.
    fn check(&self) -> Result<(), Error> {
        let problem = |problem: String| Err(Error::Program(problem));
        let Some(executable) = self.command.first() else {
            return problem("it has no command".to_owned());
        };
        if find_executable(executable).is_none() {
            return problem(format!("{executable} is not in {SEARCH_PATH}: install it"));
        }
        if self.files.len() > MAX_FILES {
            return problem(format!("it has {} files, more than {MAX_FILES}", self.files.len()));
        }
        if let Some((path, _)) = self.files.iter().find(|(path, _)| !is_plain_path(path)) {
            return problem(format!("{path:?} is not a plain relative path, as the path of a file must be"));
        }
        if let Some((name, _)) =
            self.read_only.iter().find(|(name, _)| !is_plain_path(name) || name.contains('/'))
        {
            return problem(format!(
                "{name:?} is not a plain name, as the name of a directory below /opt must be"
            ));
        }
        if let Some((name, _)) =
            self.environment.iter().find(|(name, _)| name.is_empty() || name.contains('='))
        {
            return problem(format!("{name:?} is not the name of an environment variable"));
        }
        let texts = self.environment.iter().flat_map(|(name, value)| [name, value]).chain(&self.command);
        match texts.into_iter().find(|text| text.contains('\0')) {
            Some(text) => problem(format!("{text:?} contains a NUL character")),
            None => Ok(()),
        }
    }
}

fn is_plain_path(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn find_executable(name: &str) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    SEARCH_PATH.split(':').map(|directory| PathBuf::from(directory).join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &Program, problem: &str) {
        let error = program.check().unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }

    #[test]
    fn bad_programs_are_refused_before_anything_runs() {
        let program = Program { command: vec!["true".to_owned()], ..Program::default() };
        program.check().unwrap();
        check(&Program::default(), "no command");
        check(&Program { command: vec!["no-such-program".to_owned()], ..program.clone() }, "install it");
        check(&Program { command: vec!["true".to_owned(), "a\0b".to_owned()], ..program.clone() }, "NUL");
        for path in ["/etc/passwd", "../x", "a/../x", "a//b", "", "./a", "a\0"] {
            check(
                &Program { files: vec![(path.to_owned(), vec![])], ..program.clone() },
                "plain relative path",
            );
        }
        for name in ["..", "a/b", ""] {
            let read_only = vec![(name.to_owned(), PathBuf::from("/usr"))];
            check(&Program { read_only, ..program.clone() }, "plain name");
        }
        let environment = vec![("A=B".to_owned(), String::new())];
        check(&Program { environment, ..program.clone() }, "environment variable");
        let files = (0..=MAX_FILES).map(|number| (number.to_string(), vec![])).collect();
        check(&Program { files, ..program }, "more than");
    }
}
