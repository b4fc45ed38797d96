//! Listing and removing cached answers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use quarry_files::Directory;
use quarry_files::cache::{CacheEntry, EntryState, PruneOutcome, Pruned, Selection, is_abandoned};
use serde::Deserialize;

/// Number of digits of a request's hash in the name of its directory, and in that of its file.
const DIGITS: [usize; 2] = [2, 62];

/// Maximum size of an answer whose model is looked up, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Prefix of the names of temporary files.
pub(super) const TEMPORARY: &str = ".tmp";

/// The answers in a cache directory.
pub struct CachedAnswers;

struct AnswerFile {
    around: Directory,
    name: PathBuf,
    bytes: u64,
    modified: SystemTime,
    /// True if it is a temporary file abandoned by a killed process, rather than an answer.
    is_left_over: bool,
}

/// The part of an entry that identifies the model.
#[derive(Deserialize)]
struct Head {
    url: String,
    request: Model,
}

#[derive(Deserialize)]
struct Model {
    model: Option<String>,
}

impl CachedAnswers {
    /// Lists them: one entry for each model and address, and one for abandoned temporary files. Reads every answer
    /// to determine its model. Other files in the directory are ignored.
    pub fn list(directory: &Path) -> io::Result<Vec<CacheEntry>> {
        let mut groups: BTreeMap<(EntryState, String), (usize, u64, SystemTime)> = BTreeMap::new();
        for_each(directory, false, &mut |found| {
            let (state, of) = match found.is_left_over {
                true => (EntryState::Unfinished, "unfinished".to_owned()),
                false => (EntryState::Useful, found.model().unwrap_or_else(|| "unreadable".to_owned())),
            };
            let group = groups.entry((state, of)).or_insert((0, 0, SystemTime::UNIX_EPOCH));
            *group = (group.0 + 1, group.1 + found.bytes, group.2.max(found.modified));
        })?;
        let entry = |((state, of), (n, bytes, used))| CacheEntry {
            what: format!("{of} ({n})"),
            path: directory.to_owned(),
            bytes,
            used,
            state,
        };
        Ok(groups.into_iter().map(entry).collect())
    }

    /// Removes answers and reports their numbers; with `dry_run`, nothing is removed. A process that is
    /// using the directory continues, and requests removed answers again.
    pub fn prune(directory: &Path, selection: Selection, dry_run: bool) -> io::Result<Vec<Pruned>> {
        let (mut n, mut bytes) = (0, 0);
        let mut pruned = Vec::new();
        for_each(directory, !dry_run, &mut |found| {
            let state = if found.is_left_over { EntryState::Unfinished } else { EntryState::Useful };
            if !selection.includes(state, found.modified) {
                return;
            }
            let removed = if dry_run { Ok(()) } else { found.around.remove_file(&found.name) };
            match PruneOutcome::new(removed, found.bytes) {
                PruneOutcome::Removed(of_one) => (n, bytes) = (n + 1, bytes + of_one),
                outcome => {
                    let path = found.around.path().join(&found.name);
                    pruned.push(Pruned { what: found.name.display().to_string(), path, outcome });
                }
            }
        })?;
        if n > 0 {
            let what = if n == 1 { "1 answer".to_owned() } else { format!("{n} answers") };
            let outcome = PruneOutcome::Removed(bytes);
            pruned.push(Pruned { what, path: directory.to_owned(), outcome });
        }
        Ok(pruned)
    }
}

impl AnswerFile {
    /// The model that answered, with its address.
    fn model(&self) -> Option<String> {
        let bytes = self.around.read(&self.name, MAX_BYTES).ok()?;
        let line = bytes.iter().position(|&byte| byte == b'\n')?;
        let Head { url, request } = serde_json::from_slice(&bytes[line + 1..]).ok()?;
        Some(format!("{} at {url}", request.model.as_deref().unwrap_or("a model")))
    }
}

/// Calls `see` for each answer and each abandoned temporary file; then, if `remove_empty`, removes empty directories
/// of answers.
fn for_each(cache: &Path, remove_empty: bool, see: &mut dyn FnMut(&AnswerFile)) -> io::Result<()> {
    let directory = match Directory::open(cache) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut names = directory.names()?;
    names.sort();
    for name in names {
        let name = Path::new(&name);
        if let Some(found) = examine(&directory, name, None) {
            see(&found);
        }
        let Some(first) = hash(name, DIGITS[0]) else { continue };
        let Ok(inner) = directory.directory(name) else { continue };
        for name in inner.names()? {
            if let Some(found) = examine(&inner, Path::new(&name), Some(&first)) {
                see(&found);
            }
        }
        if remove_empty {
            // Does nothing if the directory is not empty.
            let _ = directory.remove_directory(name);
        }
    }
    Ok(())
}

/// A file, if it is an answer or an abandoned temporary file. Answers are in a directory named by the first digits of
/// their hash.
fn examine(around: &Directory, name: &Path, first: Option<&str>) -> Option<AnswerFile> {
    let text = name.to_str()?;
    let is_answer = first.is_some() && hash(Path::new(text.strip_suffix(".json")?), DIGITS[1]).is_some();
    let is_temporary = text.starts_with(TEMPORARY);
    if !is_answer && !is_temporary {
        return None;
    }
    let file = around.file(name).ok()?;
    let metadata = file.metadata().ok()?;
    let modified = metadata.modified().ok()?;
    let is_left_over = is_temporary && is_abandoned(modified);
    let is_entry = is_left_over || (is_answer && begins_with_hash(file));
    if !is_entry {
        return None;
    }
    Some(AnswerFile {
        around: around.clone(),
        name: name.to_owned(),
        bytes: metadata.len(),
        modified,
        is_left_over,
    })
}

fn hash(name: &Path, digits: usize) -> Option<String> {
    let text = name.to_str()?;
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_owned())
}

/// Returns whether a file begins with a line that is a hash, as answers do.
fn begins_with_hash(mut file: File) -> bool {
    let mut start = [0; 65];
    file.read_exact(&mut start).is_ok() && start[..64].iter().all(u8::is_ascii_hexdigit) && start[64] == b'\n'
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::store::{Cache, Request};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn request(model: &str, text: &str) -> Request {
        let request = json!({"input": text, "model": model});
        Request { url: "http://localhost/v1/embeddings".to_owned(), sample: 0, request }
    }

    fn age(path: &Path, days: u32) {
        File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::now() - DAY * days)
            .unwrap();
    }

    fn n_files(directory: &Path) -> usize {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { n_files(&path) } else { 1 }).sum()
    }

    #[test]
    fn answers_are_listed_by_model_and_removed_by_age() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        let requests = [request("a", "1"), request("a", "2"), request("b", "1")];
        for request in &requests {
            cache.put(request, &json!([1, 2, 3])).unwrap();
            age(&cache.file(&request.key()), 40);
        }
        let listed = CachedAnswers::list(directory.path()).unwrap();
        let what: Vec<&str> = listed.iter().map(|entry| entry.what.as_str()).collect();
        let at = "at http://localhost/v1/embeddings";
        assert_eq!(what, [format!("a {at} (2)"), format!("b {at} (1)")]);
        // A recently used answer is not old.
        assert!(cache.get(&requests[0]).unwrap().is_some());
        assert!(CachedAnswers::prune(directory.path(), Selection::Useless, false).unwrap().is_empty());
        let unused = Selection::UnusedSince(SystemTime::now() - DAY * 30);
        for dry_run in [true, false] {
            let pruned = CachedAnswers::prune(directory.path(), unused, dry_run).unwrap();
            assert!(matches!(pruned.as_slice(), [one] if one.what == "2 answers"), "{pruned:?}");
        }
        assert!(cache.get(&requests[0]).unwrap().is_some() && cache.get(&requests[1]).unwrap().is_none());
        cache.put(&requests[1], &json!([])).unwrap();
        assert_eq!(cache.get(&requests[1]).unwrap(), Some(json!([])));
    }

    #[test]
    fn files_that_are_not_answers_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        cache.put(&request("a", "1"), &json!([])).unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("00")).unwrap();
        let digits = "0".repeat(62);
        fs::write(at("notes.json"), "{}").unwrap();
        fs::write(at(&format!("00/{digits}.json")), "{}").unwrap();
        fs::write(at(".tmpNew"), "being written").unwrap();
        fs::write(at(".tmpOld"), "left").unwrap();
        age(&at(".tmpOld"), 2);
        #[cfg(unix)]
        {
            let outside = tempfile::tempdir().unwrap();
            let answer = outside.path().join("11");
            fs::create_dir(&answer).unwrap();
            fs::write(answer.join(format!("{digits}.json")), format!("{}\n{{}}", "0".repeat(64))).unwrap();
            std::os::unix::fs::symlink(&answer, at("11")).unwrap();
            CachedAnswers::prune(directory.path(), Selection::All, false).unwrap();
            assert_eq!(n_files(&answer), 1, "what a link leads to is as it was");
            fs::remove_file(at("11")).unwrap();
        }
        CachedAnswers::prune(directory.path(), Selection::All, false).unwrap();
        assert_eq!(n_files(directory.path()), 3);
        assert!(!at(".tmpOld").exists() && at(".tmpNew").exists());
    }

    #[test]
    #[cfg(unix)]
    fn answers_are_private() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let answers = directory.path().join("cache/answers");
        let cache = Cache::open(&answers).unwrap();
        let request = request("a", "1");
        cache.put(&request, &json!([])).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = cache.file(&request.key());
        assert_eq!([&answers, file.parent().unwrap()].map(mode), [0o700; 2]);
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn answers_are_stored_while_they_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        std::thread::scope(|scope| {
            let storing = scope.spawn(|| {
                for n in 0..300 {
                    cache.put(&request("a", &n.to_string()), &json!([n])).unwrap();
                }
            });
            while !storing.is_finished() {
                CachedAnswers::prune(directory.path(), Selection::All, false).unwrap();
            }
        });
    }
}
