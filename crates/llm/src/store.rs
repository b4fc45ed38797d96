//! Storage of paid answers: a cache on disk, and recordings.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use quarry_files::cache::mark_used;
use quarry_files::{Readers, create_private_directory, replace, sha256};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::LlmError;

/// A request without its credentials: its destination, its body, and its sample number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) sample: u32,
    pub(crate) request: Value,
}

impl Request {
    /// SHA-256 of the serialized request, in hexadecimal. The model is part of the body.
    pub(crate) fn key(&self) -> String {
        sha256(format!("{}\n{}\n{}", self.url, self.sample, self.request))
    }
}

/// A request and the body of its answer: a line of a recording, and the content of a cache entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Exchange {
    #[serde(flatten)]
    request: Request,
    response: Value,
}

/// Like [`Exchange`], with borrowed values, for writing.
#[derive(Serialize)]
struct ExchangeRef<'a> {
    #[serde(flatten)]
    request: &'a Request,
    response: &'a Value,
}

/// Written and removed again to check that answers can be stored: white space, which is ignored in recordings.
const PROBE: [u8; 4096] = [b' '; 4096];

fn failed(path: &Path, problem: &str, source: io::Error) -> LlmError {
    LlmError::Store { path: path.to_owned(), problem: format!("{problem}: {source}"), source: Some(source) }
}

/// Maximum number of tries to store an answer while others remove its directory, because answers were paid for.
const STORE_ATTEMPTS: usize = 20;

/// Answers on disk under the hash of their request, one file each: a line with the hash of the rest, and the exchange
/// as JSON. Can be shared between threads and processes. As a cache, it can be removed at any time.
#[derive(Debug, Clone)]
pub struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// Opens the cache in `directory`, which is created if necessary.
    ///
    /// # Errors
    /// [`LlmError::Store`] if the directory cannot be created, or is not writable: this is detected before an answer
    /// is paid for.
    pub fn open(directory: &Path) -> Result<Self, LlmError> {
        let probe = || -> io::Result<()> {
            create_private_directory(directory)?;
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(&PROBE)?;
            file.as_file().sync_all()
        };
        probe().map_err(|source| {
            failed(
                directory,
                "the answer cache cannot be written; free some space or name another directory",
                source,
            )
        })?;
        Ok(Self { directory: directory.to_owned() })
    }

    fn file(&self, key: &str) -> PathBuf {
        let (first, rest) = key.split_at(2);
        self.directory.join(first).join(format!("{rest}.json"))
    }

    /// The answer to `request`, if it is present and intact. Damaged entries count as missing, with a warning; the
    /// next answer replaces them.
    pub(crate) fn get(&self, request: &Request) -> Result<Option<Value>, LlmError> {
        let path = self.file(&request.key());
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&path)?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            mark_used(&file);
            Ok(bytes)
        };
        let bytes = match read() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(&path, "cannot read an entry of the answer cache", source)),
        };
        let whole = String::from_utf8(bytes).ok().and_then(|text| {
            let (checksum, exchange) = text.split_once('\n')?;
            if sha256(exchange) != checksum {
                return None;
            }
            serde_json::from_str::<Exchange>(exchange).ok()
        });
        match whole {
            Some(exchange) if exchange.request == *request => Ok(Some(exchange.response)),
            _ => {
                tracing::warn!("{}: a damaged entry of the answer cache counts as missing", path.display());
                Ok(None)
            }
        }
    }

    /// Stores an answer atomically. It is on disk when this returns.
    pub(crate) fn put(&self, request: &Request, response: &Value) -> Result<(), LlmError> {
        let path = self.file(&request.key());
        let write = || -> io::Result<()> {
            let text = serde_json::to_string(&ExchangeRef { request, response })?;
            let directory = path.parent().unwrap_or(&self.directory);
            create_private_directory(directory)?;
            let whole = format!("{}\n{text}", sha256(&text));
            replace(&path, cached::TEMPORARY, Readers::User, whole.as_bytes())
        };
        // Another process that clears the cache may remove the directory between two steps.
        let again = |error: io::Error| if error.kind() == ErrorKind::NotFound { write() } else { Err(error) };
        let written = (1..STORE_ATTEMPTS).fold(write(), |written, _| written.or_else(again));
        written.map_err(|source| {
            failed(
                &path,
                "cannot store an answer; free some space or name another directory for the cache",
                source,
            )
        })
    }
}

pub(crate) mod cached;

/// Writes answers to a recording as JSON lines with `url`, `sample`, `request` and `response`.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: Mutex<File>,
}

impl Recorder {
    /// Opens or creates the recording at `path`. A truncated last line is removed.
    ///
    /// # Errors
    /// [`LlmError::Store`] if the file is not a recording, or not writable: this is detected before an answer is paid for.
    pub fn append(path: &Path) -> Result<Self, LlmError> {
        let open = || -> io::Result<File> {
            let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("it is not a file"));
            }
            locked(&file, || {
                let mut bytes = Vec::new();
                (&file).read_to_end(&mut bytes)?;
                if !is_recording(&bytes) {
                    return Err(io::Error::other("it is another file, not a recording"));
                }
                let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
                file.set_len(whole as u64)?;
                append(&file, &PROBE)?;
                file.sync_all()?;
                file.set_len(whole as u64)
            })?;
            Ok(file)
        };
        let problem = "cannot write a recording; free some space, or name another file";
        let file = open().map_err(|source| failed(path, problem, source))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    pub(crate) fn put(&self, request: &Request, response: &Value) -> Result<(), LlmError> {
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_string(&ExchangeRef { request, response })?;
            line.push('\n');
            let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            locked(&file, || append(&file, line.as_bytes()))
        };
        let problem = "cannot write to the recording; free some space, or name another file";
        write().map_err(|source| failed(&self.path, problem, source))
    }
}

/// Returns true if a file begins like a recording, even if truncated.
fn is_recording(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => serde_json::from_slice::<Exchange>(&bytes[..end]).is_ok(),
        None => {
            let first = br#"{"url":"#;
            first.starts_with(&bytes[..bytes.len().min(first.len())])
        }
    }
}

/// Runs `work` while holding an exclusive lock on the file, across processes.
fn locked(file: &File, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    file.lock()?;
    let done = work();
    file.unlock()?;
    done
}

/// Appends `bytes` to a file, all or none.
fn append(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    file.write_all(bytes).inspect_err(|_| drop(file.set_len(before)))
}

/// A recording that answers instead of the endpoint. The last answer to a request counts.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    answers: HashMap<String, Value>,
}

impl Recording {
    /// Reads the recording at `path`.
    ///
    /// # Errors
    /// [`LlmError::Store`] if it cannot be read, naming the line that is not an exchange.
    pub fn open(path: &Path) -> Result<Self, LlmError> {
        let file = File::open(path).map_err(|source| failed(path, "cannot read the recording", source))?;
        let mut answers = HashMap::new();
        for (index, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|source| failed(path, "cannot read the recording", source))?;
            if line.trim().is_empty() {
                continue;
            }
            let exchange: Exchange = serde_json::from_str(&line).map_err(|error| LlmError::Store {
                path: path.to_owned(),
                problem: format!(
                    "line {}: expected an object with `url`, `request`, `response` and perhaps `sample`: {error}; \
                     remove the line or record it again",
                    index + 1
                ),
                source: None,
            })?;
            answers.insert(exchange.request.key(), exchange.response);
        }
        Ok(Self { path: path.to_owned(), answers })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn get(&self, request: &Request) -> Option<&Value> {
        self.answers.get(&request.key())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn request(text: &str) -> Request {
        Request {
            url: "http://localhost/v1/x".to_owned(),
            sample: 0,
            request: json!({"model": "m", "input": text}),
        }
    }

    #[test]
    fn each_part_of_a_request_makes_another_key() {
        let base = request("a");
        let others = [
            request("b"),
            Request { sample: 1, ..base.clone() },
            Request { url: "http://localhost/v2/x".to_owned(), ..base.clone() },
            Request { request: json!({"model": "n", "input": "a"}), ..base.clone() },
        ];
        assert_eq!(base.key().len(), 64);
        assert!(others.iter().all(|other| other.key() != base.key()));
    }

    #[test]
    fn damage_anywhere_in_an_entry_is_a_missing_entry() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        let (request, response) = (request("ä\n"), json!({"text": "b"}));
        assert_eq!(cache.get(&request).unwrap(), None);
        cache.put(&request, &response).unwrap();
        assert_eq!(cache.get(&request).unwrap().as_ref(), Some(&response));
        let path = cache.file(&request.key());
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.get(&request).unwrap(), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.get(&request).unwrap(), None, "cut at {at}");
        }
        cache.put(&request, &response).unwrap();
        assert_eq!(cache.get(&request).unwrap(), Some(response));
    }

    #[test]
    fn an_entry_of_another_request_is_not_an_answer() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        cache.put(&request("a"), &json!(1)).unwrap();
        let (from, to) = (cache.file(&request("a").key()), cache.file(&request("b").key()));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
        assert_eq!(cache.get(&request("b")).unwrap(), None);
    }

    #[test]
    fn a_recording_continues_after_a_truncated_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording.jsonl");
        Recorder::append(&path).unwrap().put(&request("a"), &json!(1)).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"url\": \"ht").unwrap();
        let error = Recording::open(&path).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("recording.jsonl"), "{error}");
        let recorder = Recorder::append(&path).unwrap();
        recorder.put(&request("b"), &json!(2)).unwrap();
        recorder.put(&request("a"), &json!(3)).unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.get(&request("a")), Some(&json!(3)));
        assert_eq!(recording.get(&request("b")), Some(&json!(2)));
        assert_eq!(recording.get(&request("c")), None);
    }

    #[test]
    fn another_file_does_not_become_a_recording() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        for text in ["alias ls=rm\n", "no end of line", "{\"url\": 1}\n", "{\"a\": 1"] {
            fs::write(&path, text).unwrap();
            let error = Recorder::append(&path).unwrap_err().to_string();
            assert!(error.contains("not a recording"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        for text in ["", "{\"ur", "{\"url\":\"ht"] {
            fs::write(&path, text).unwrap();
            Recorder::append(&path).unwrap();
        }
    }

    proptest! {
        #[test]
        fn stored_answers_are_read_back(text in ".*", sample in any::<u32>(), answer in ".*", number in any::<f32>()) {
            let directory = tempfile::tempdir().unwrap();
            let (cache, path) = (Cache::open(directory.path()).unwrap(), directory.path().join("r.jsonl"));
            let request = Request { sample, ..request(&text) };
            let response = json!({"text": answer, "number": number});
            cache.put(&request, &response).unwrap();
            Recorder::append(&path).unwrap().put(&request, &response).unwrap();
            let cached = cache.get(&request).unwrap();
            prop_assert_eq!(cached.as_ref(), Some(&response));
            let recording = Recording::open(&path).unwrap();
            prop_assert_eq!(recording.get(&request), Some(&response));
        }
    }
}
