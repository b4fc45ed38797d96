//! The log of calls: a line with the worst case before a call is sent, and a line with the actual cost after it. A
//! call without its second line was interrupted, and is booked at its worst case.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use quarry_llm::Cost;
use serde::{Deserialize, Serialize};

use crate::error::JudgeError;

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// An attempt at a question is about to be sent.
    Begin { request: String, worst: Cost },
    /// A call has ended, with all its attempts.
    End { request: String, attempts: u64, cost: Cost },
}

pub(super) struct CallLog {
    path: PathBuf,
    file: Mutex<File>,
    spent: Cost,
}

impl CallLog {
    /// Opens or creates a log. A truncated last line is removed: the call that it was about had not been sent yet, or
    /// is booked at its worst case.
    pub(super) fn open(path: &Path) -> Result<Self, JudgeError> {
        let failed = |source| JudgeError::Write { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            quarry_files::create_private_directory(directory).map_err(failed)?;
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let spent = replay(&file).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), spent })
    }

    /// Total spent before it was opened.
    pub(super) fn spent(&self) -> Cost {
        self.spent
    }

    pub(super) fn begin(&self, request: &str, worst: Cost) -> Result<(), JudgeError> {
        self.append(&Line::Begin { request: request.to_owned(), worst }, true)
    }

    pub(super) fn end(&self, request: &str, attempts: u64, cost: Cost) -> Result<(), JudgeError> {
        self.append(&Line::End { request: request.to_owned(), attempts, cost }, false)
    }

    fn append(&self, line: &Line, sync: bool) -> Result<(), JudgeError> {
        let write = || -> io::Result<()> {
            let mut text = serde_json::to_vec(line)?;
            text.push(b'\n');
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(&text)?;
            if sync { file.sync_data() } else { Ok(()) }
        };
        write().map_err(|source| JudgeError::Write { path: self.path.clone(), source })
    }
}

/// The total of a log's lines.
fn replay(file: &File) -> io::Result<Cost> {
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0))?;
    let mut spent = Cost::default();
    let mut open: HashMap<String, Vec<Cost>> = HashMap::new();
    let (mut text, mut whole) = (Vec::new(), 0);
    loop {
        text.clear();
        let n_bytes = reader.read_until(b'\n', &mut text)?;
        if n_bytes == 0 {
            break;
        }
        if text.last() != Some(&b'\n') {
            file.set_len(whole)?;
            break;
        }
        whole += n_bytes as u64;
        match serde_json::from_slice(&text).map_err(io::Error::from)? {
            Line::Begin { request, worst } => open.entry(request).or_default().push(worst),
            Line::End { request, attempts, cost } => {
                let begun = open.entry(request).or_default();
                begun.truncate(begun.len().saturating_sub(usize::try_from(attempts).unwrap_or(usize::MAX)));
                spent += cost;
            }
        }
    }
    open.into_values().flatten().for_each(|worst| spent += worst);
    Ok(spent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(tokens: u64) -> Cost {
        Cost { tokens, ..Cost::default() }
    }

    #[test]
    fn calls_that_were_cut_off_count_at_their_worst_case() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answers/calls.jsonl");
        let log = CallLog::open(&path).unwrap();
        assert_eq!(log.spent(), Cost::default());
        log.begin("a", cost(100)).unwrap();
        log.begin("a", cost(100)).unwrap();
        log.end("a", 2, cost(30)).unwrap();
        log.begin("b", cost(50)).unwrap();
        drop(log);
        // The process was killed while writing a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"Begin\": {\"requ").unwrap();
        let log = CallLog::open(&path).unwrap();
        assert_eq!(log.spent(), cost(80));
        log.begin("b", cost(50)).unwrap();
        log.end("b", 1, cost(5)).unwrap();
        drop(log);
        // The first call of "b" stays booked.
        assert_eq!(CallLog::open(&path).unwrap().spent(), cost(85));
        std::fs::write(&path, "no line of a log\n").unwrap();
        assert!(CallLog::open(&path).is_err());
    }
}
