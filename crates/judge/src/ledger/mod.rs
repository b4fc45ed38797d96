//! The ledger: all questions, answers, runs and decisions, in one SQLite file.
//!
//! Evidence is only ever added: triggers reject changes and deletions of rows. Rows that belong together (an answer,
//! its cost, its step in the history of its pair, the verdict that follows) are written in one transaction, which is
//! on disk before anything is done based on it. The file is in write-ahead mode with full synchronization: if the
//! process is killed or the machine stops, only uncommitted data is lost; and other processes can read while one
//! writes. A single thread writes, and commits all waiting changes of the workers at once, so that they share the
//! wait for the disk.

mod compare;
mod counts;
mod forms;
mod generated;
mod listed;
mod pace;
mod people;
mod read;
mod reread;
mod write;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quarry_files::{FileIdentity, create_private, identity, try_lock};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction};

use crate::error::JudgeError;

pub use compare::{JudgeWork, OptionCost, PairVotes};
pub use counts::{Effort, JudgeCounts};
pub use forms::{Answers, Generated, GuidelineText, Item, Side, StoredForm, Subject};
pub use generated::{GeneratedCode, GeneratedStatus, NewCode, Unanswered};
pub use pace::Pace;
pub use people::{
    ComparableVerdict, FormReply, ItemAnswer, NewReply, PairLabels, PairReply, PersonReply, Reply,
};
pub use read::{FinishedRun, History, JudgedPair, LabeledByJudge, ListedPair, Step, UnjudgedPair};
pub use reread::ChangedLabel;
pub(crate) use reread::{AdoptedPair, ChangedResult, StoredPair};
pub use write::{AnsweredQuestion, CallBegin, CallEnd, EventKey, Writer};

/// Marks a file as a ledger of Quarry: "QLed".
const APPLICATION: i32 = 0x514c_6564;

const VERSION: i32 = 6;

const NOT_WRITABLE: &str = "the ledger cannot be opened for writing; check the directory and its permissions";

const LOCK_TRIES: u32 = 4;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

const SCHEMA: &str = include_str!("schema.sql");

/// The tables that only grow.
const APPEND_ONLY: [&str; 18] = [
    "identity",
    "starts",
    "judges",
    "members",
    "prompts",
    "calls",
    "call_ends",
    "answers",
    "runs",
    "events",
    "verdicts",
    "failures",
    "generated",
    "forms",
    "items",
    "people",
    "replies",
    "adjudications",
];

/// A ledger opened for reading. [`Writer`] adds to it.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl Ledger {
    /// Opens an existing ledger for reading.
    ///
    /// # Errors
    /// When it does not exist, is not a ledger, or has another version.
    pub fn open(path: &Path) -> Result<Self, JudgeError> {
        if !path.exists() {
            return Err(problem(path, "there is no ledger yet; `quarry judge run` creates it"));
        }
        if path.is_dir() {
            return Err(problem(path, "this is a directory; expected a ledger, which is a file"));
        }
        match Self::connect(path, path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            // If the file cannot be opened for writing, other processes cannot write to it either, except through
            // another mount; what they write meanwhile may not be seen. Data that is still in the write-ahead log
            // would be missed.
            Err(JudgeError::Ledger { source: Some(error), .. })
                if is_read_only(&error) && !with_suffix(path, "-wal").exists() =>
            {
                let uri = format!("file:{}?immutable=1", escaped(path));
                Self::connect(
                    path,
                    Path::new(&uri),
                    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
                )
            }
            other => other,
        }
    }

    /// Opens the ledger at `path`, passing `name` to SQLite.
    fn connect(path: &Path, name: &Path, flags: OpenFlags) -> Result<Self, JudgeError> {
        let failed = |error| sqlite(path, error);
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(name, flags).map_err(failed)?;
        connection.busy_timeout(Duration::from_secs(20)).map_err(failed)?;
        let ledger = Self { path: path.to_owned(), connection: Mutex::new(connection) };
        if ledger.pragma("application_id")? != APPLICATION {
            return Err(problem(path, "this is not a Quarry ledger; name another file, or remove this one"));
        }
        match ledger.pragma("user_version")? {
            VERSION => Ok(ledger),
            other => Err(problem(
                path,
                &format!(
                    "this ledger has version {other}, but this program reads version {VERSION}: use the version of \
                     quarry that made it, or name another file and judge again (with a cache or a recording, answers \
                     are not paid for again)"
                ),
            )),
        }
    }

    fn pragma(&self, name: &str) -> Result<i32, JudgeError> {
        let read = self.lock().pragma_query_value(None, name, |row| row.get(0));
        read.map_err(|error| sqlite(&self.path, error))
    }

    /// Copies the whole ledger to a path where no file exists.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<(), JudgeError> {
        let copied = self.lock().execute("VACUUM INTO ?1", [path.to_string_lossy()]);
        copied.map(|_| ()).map_err(|error| sqlite(path, error))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes SQLite reject changes and deletions in append-only tables.
fn forbid_changes(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for table in APPEND_ONLY {
        for action in ["UPDATE", "DELETE"] {
            transaction.execute_batch(&format!(
                "CREATE TRIGGER IF NOT EXISTS no_{action}_of_{table} BEFORE {action} ON {table} \
                 BEGIN SELECT RAISE(ABORT, 'the evidence in a ledger is never changed'); END"
            ))?;
        }
    }
    Ok(())
}

fn create(path: &Path) -> Result<(), JudgeError> {
    let failed = |error| sqlite(path, error);
    // Readable by its user only; the files that SQLite keeps beside it get the same mode.
    create_private(path).map_err(|source| JudgeError::Write { path: path.to_owned(), source })?;
    let mut connection = Connection::open(path).map_err(failed)?;
    let count = "SELECT count(*) FROM sqlite_master";
    let n_tables: i64 = connection.query_row(count, [], |row| row.get(0)).map_err(failed)?;
    if n_tables > 0 {
        return Ok(());
    }
    let transaction = connection.transaction().map_err(failed)?;
    transaction.execute_batch(SCHEMA).map_err(failed)?;
    forbid_changes(&transaction).map_err(failed)?;
    transaction
        .execute_batch(
            "CREATE TRIGGER no_DELETE_of_pairs BEFORE DELETE ON pairs \
             BEGIN SELECT RAISE(ABORT, 'the evidence in a ledger is never changed'); END; \
             CREATE TRIGGER no_UPDATE_of_pairs BEFORE UPDATE OF pair, id, query_id, query, code_id, code, language, \
             content, list ON pairs BEGIN SELECT RAISE(ABORT, 'the evidence in a ledger is never changed'); END",
        )
        .map_err(failed)?;
    transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// The files of a ledger that is written, which must not be moved or removed: data written to a file without a name is
/// lost when the process ends.
struct LedgerFiles(Vec<(PathBuf, FileIdentity)>);

impl LedgerFiles {
    fn identify(path: &Path, lock: &Path) -> Result<Self, JudgeError> {
        let named = |path: &Path| match identity(path) {
            Ok((found, _)) => Ok((path.to_owned(), found)),
            Err(source) => Err(JudgeError::Read { path: path.to_owned(), source }),
        };
        Ok(Self(vec![named(path)?, named(lock)?]))
    }

    /// Returns whether all are still there; includes the write-ahead log, once there is one.
    fn are_unchanged(&mut self, log: &Path) -> bool {
        if self.0.iter().all(|(path, _)| path != log)
            && let Ok((found, _)) = identity(log)
        {
            self.0.push((log.to_owned(), found));
        }
        self.0.iter().all(|(path, known)| identity(path).is_ok_and(|(found, _)| found == *known))
    }
}

/// Refuses a ledger with several names, each of which would have a lock and a write-ahead log of its own.
fn check_names(path: &Path) -> Result<(), JudgeError> {
    match identity(path) {
        Ok((_, names)) if names > 1 => Err(problem(
            path,
            &format!(
                "this file has {names} names (hard links), and writes under one name may be missing under the others; \
                 copy it (`cp`), move the copy to this name, and try again"
            ),
        )),
        _ => Ok(()),
    }
}

/// Acquires the lock of a ledger's writer, in the file of this name. The system releases it when the process ends, however
/// it ends.
fn lock_for_writing(path: &Path) -> Result<(File, PathBuf), JudgeError> {
    let name = lock_file(path);
    let failed = |source| JudgeError::Write { path: name.clone(), source };
    create_private(&name).map_err(failed)?;
    let file = OpenOptions::new().write(true).open(&name).map_err(failed)?;
    // A process that only checks for a writer holds the lock for a moment.
    for _ in 0..LOCK_TRIES {
        if try_lock(&file).map_err(failed)? {
            return Ok((file, name));
        }
        thread::sleep(LOCK_PAUSE);
    }
    Err(problem(
        path,
        "another process is judging with this ledger; wait for it, stop it, or name another ledger",
    ))
}

/// Beside the file itself, so that whoever names it by a link waits for the same lock.
fn lock_file(path: &Path) -> PathBuf {
    with_suffix(&canonical(path), ".lock")
}

/// The path of a file without links, if it exists.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn problem(path: &Path, problem: &str) -> JudgeError {
    JudgeError::Ledger { path: path.to_owned(), problem: problem.to_owned(), source: None }
}

/// Returns whether a database cannot be opened because its directory is not writable.
fn is_read_only(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly)
    )
}

/// A path escaped for an SQLite URI.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// An error from SQLite, with what to do about it.
fn sqlite(path: &Path, error: rusqlite::Error) -> JudgeError {
    let problem = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "the disk is full: free some space and run the plan again; earlier answers are kept"
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "this is not a ledger, or it is damaged; name another file, or restore it from a copy"
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => NOT_WRITABLE,
        Some(ErrorCode::SystemIoFailure) => {
            "writing to the disk failed (is it full, or is a quota reached?); fix that and run the plan again; earlier \
             answers are kept"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has the ledger locked; close it and run the plan again"
        }
        _ => "the ledger cannot be used",
    };
    JudgeError::Ledger { path: path.to_owned(), problem: problem.to_owned(), source: Some(error) }
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
