//! Steps of a build: directories named by the hash of their dependencies, which are created atomically.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::AtomicBool;

use quarry_corpus::dataset;
use quarry_files::{Readers, replace, sha256, sha256_of, try_lock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::BuildError;
use crate::outputs::BUILD;

/// Prefix of the names of incomplete directories and files.
const PARTIAL: &str = ".partial-";

/// Keeps a build out of git, of searches, and above all of its own sources, which it may be in.
const IGNORE: &str = ".gitignore";

/// The file in a step's directory that describes it.
const DESCRIPTION: &str = "step.json";

/// Hash of everything that a step's output depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(String);

impl Key {
    /// The 32 hexadecimal digits that are the name of the step's directory.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A step with its counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name in the build, such as `pool` or `queries docstrings`.
    pub name: String,
    /// Incremented when the program's implementation of the step changes.
    pub version: u32,
    /// The parameters of the plan, with hashes of the files that they name.
    pub parameters: Value,
    /// The steps whose output it reads.
    pub inputs: Vec<Key>,
    /// Counts that summarize the output, by name.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// The files of its output by their paths in its directory, `/` between parts.
    #[serde(default)]
    pub files: BTreeMap<String, OutputFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

impl Step {
    pub(crate) fn new(
        name: impl Into<String>,
        version: u32,
        parameters: &impl Serialize,
        inputs: &[&Key],
    ) -> Self {
        Self {
            name: name.into(),
            version,
            parameters: serde_json::to_value(parameters).unwrap_or_default(),
            inputs: inputs.iter().map(|key| (*key).clone()).collect(),
            counts: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }

    /// Its key. The name, except for its first word, and the counts are not part of it.
    pub fn key(&self) -> Key {
        // The first word of the name is the kind of step.
        let kind = self.name.split(' ').next().unwrap_or_default();
        let described = serde_json::json!([kind, self.version, self.parameters, self.inputs]);
        Key(sha256(described.to_string())[..32].to_owned())
    }
}

/// The signal that ends a step, and the callback for its progress.
#[derive(Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) stop: &'a AtomicBool,
    pub(crate) counted: &'a dyn Fn(u64, &str),
}

/// SHA-256 of a regular file, in hexadecimal.
pub(crate) fn hash_file(path: &Path) -> Result<String, BuildError> {
    let hash = quarry_files::open_regular(path).and_then(sha256_of).map_err(BuildError::read(path))?;
    Ok(hash.1)
}

/// Hash of a file, or of the files of a directory.
pub(crate) fn content_hash(path: &Path) -> Result<String, BuildError> {
    if path.is_dir() {
        let sources = dataset::sources(slice::from_ref(&path.to_owned()), "", "test")?;
        let hashes: Result<Vec<String>, _> =
            sources.iter().map(|source| content_hash(&source.path)).collect();
        return Ok(sha256(hashes?.join(" ")));
    }
    hash_file(path)
}

/// The directory of a build, used by one process at a time.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    /// The system releases the lock when the process ends, however it ends.
    _lock: File,
}

impl Store {
    /// Opens the directory, creating it if necessary; removes incomplete output of a killed process.
    pub(crate) fn open(root: &Path) -> Result<Self, BuildError> {
        make_directory(root)?;
        // Nothing else is written before it is known that no other process does.
        let path = root.join(".lock");
        refuse_link(&path)?;
        let lock = File::create(&path).map_err(BuildError::write(&path))?;
        if !try_lock(&lock).map_err(BuildError::write(path))? {
            return Err(BuildError::InUse(root.to_owned()));
        }
        let is_new = !root.join("steps").exists();
        for directory in ["steps", "work", "exports"] {
            make_directory(&root.join(directory))?;
        }
        let ignore = root.join(IGNORE);
        if is_new && fs::symlink_metadata(&ignore).is_err() {
            write_file(&ignore, b"*\n")?;
        }
        for directory in [root.to_owned(), root.join("steps"), root.join("exports")] {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for entry in entries {
                let entry = entry.map_err(BuildError::read(&directory))?;
                if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                    remove(&entry.path())?;
                }
            }
        }
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    /// Does a step unless it is done: `work` writes its output to the first directory, which is renamed when
    /// complete, and returns the counts; the second directory is kept until then, for resuming an interrupted step.
    pub(crate) fn run(
        &self,
        step: Step,
        work: impl FnOnce(&Step, &Path, &Path) -> Result<BTreeMap<String, u64>, BuildError>,
    ) -> Result<(Step, bool), BuildError> {
        let key = step.key();
        if let Some(known) = read(&self.root, &key) {
            return Ok((Step { name: step.name, ..known }, true));
        }
        let target = directory_of(&self.root, &key);
        let partial = target.with_file_name(format!("{PARTIAL}{}", key.as_str()));
        fs::create_dir_all(&partial).map_err(BuildError::write(&partial))?;
        let workspace = self.root.join("work").join(key.as_str());
        make_directory(&workspace)?;
        let counts = match work(&step, &partial, &workspace) {
            Ok(counts) => counts,
            Err(error) => {
                // No incomplete output is left, whatever the reason.
                let _ = fs::remove_dir_all(&partial);
                return Err(error);
            }
        };
        let step = Step { counts, files: files_of(&partial)?, ..step };
        let text = serde_json::to_vec_pretty(&step).unwrap_or_default();
        write_file(&partial.join(DESCRIPTION), &text)?;
        // The existing directory is not a valid step; otherwise it would have been found.
        if target.exists() {
            remove(&target)?;
        }
        fs::rename(&partial, &target).map_err(BuildError::write(&target))?;
        remove(&workspace)?;
        Ok((step, false))
    }

    /// Copies the output of a step to `path` atomically, replacing an existing directory. A step without output removes
    /// it; returns whether there is output.
    pub(crate) fn publish(&self, key: &Key, path: &Path) -> Result<bool, BuildError> {
        if read(&self.root, key).is_some_and(|step| step.files.is_empty()) {
            return if path.exists() { remove(path).map(|()| false) } else { Ok(false) };
        }
        let directory = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(directory).map_err(BuildError::write(directory))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let [partial, old] = ["", "old-"].map(|what| directory.join(format!("{PARTIAL}{what}{name}")));
        copy(&directory_of(&self.root, key), &partial)?;
        if path.exists() {
            fs::rename(path, &old).map_err(BuildError::write(path))?;
        }
        fs::rename(&partial, path).map_err(BuildError::write(path))?;
        if old.exists() {
            remove(&old)?;
        }
        Ok(true)
    }
}

/// Creates a directory of a build if it does not exist. The build may be in an untrusted tree, whose symbolic links
/// may point anywhere.
fn make_directory(path: &Path) -> Result<(), BuildError> {
    refuse_link(path)?;
    fs::create_dir_all(path).map_err(BuildError::write(path))
}

fn refuse_link(path: &Path) -> Result<(), BuildError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err(BuildError::Link(path.to_owned())),
        _ => Ok(()),
    }
}

pub(crate) fn directory_of(root: &Path, key: &Key) -> PathBuf {
    root.join("steps").join(key.as_str())
}

/// The directory of the step with a name, if it is done.
pub(crate) fn finished(steps: &[(Step, bool)], root: &Path, name: &str) -> Option<PathBuf> {
    let found = steps.iter().find(|(step, is_done)| *is_done && step.name == name);
    found.map(|(step, _)| directory_of(root, &step.key()))
}

/// The finished step with a key, if all of its files exist with the recorded sizes.
pub(crate) fn read(root: &Path, key: &Key) -> Option<Step> {
    let directory = directory_of(root, key);
    let text = fs::read(directory.join(DESCRIPTION)).ok()?;
    let is_there = |(name, file): (&String, &OutputFile)| {
        fs::symlink_metadata(directory.join(name))
            .is_ok_and(|found| found.is_file() && found.len() == file.bytes)
    };
    serde_json::from_slice(&text)
        .ok()
        .filter(|step: &Step| step.key() == *key && step.files.iter().all(is_there))
}

/// The steps of the last build in a directory.
///
/// # Errors
/// When nothing was built there, or it cannot be read.
pub fn last_build(directory: &Path) -> Result<Vec<Step>, BuildError> {
    let path = directory.join(BUILD);
    let text = fs::read(&path).map_err(BuildError::read(&path))?;
    serde_json::from_slice(&text).map_err(|error| BuildError::Line {
        path,
        line: error.line(),
        problem: format!("expected the steps of a build of this version of quarry: {error}; build again"),
    })
}

/// The files below a directory, except the description of a step.
pub(crate) fn files_of(directory: &Path) -> Result<BTreeMap<String, OutputFile>, BuildError> {
    let (mut files, mut open) = (BTreeMap::new(), vec![(directory.to_owned(), String::new())]);
    while let Some((directory, prefix)) = open.pop() {
        for entry in fs::read_dir(&directory).map_err(BuildError::read(&directory))? {
            let entry = entry.map_err(BuildError::read(&directory))?;
            let path = entry.path();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let metadata = fs::symlink_metadata(&path).map_err(BuildError::read(&path))?;
            if metadata.is_dir() {
                open.push((path, format!("{name}/")));
            } else if metadata.is_file() && name != DESCRIPTION {
                files.insert(name, OutputFile { bytes: metadata.len(), sha256: hash_file(&path)? });
            }
        }
    }
    Ok(files)
}

fn remove(path: &Path) -> Result<(), BuildError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(BuildError::write(path))
}

/// Copies a directory, without the description of its step.
fn copy(from: &Path, to: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(to).map_err(BuildError::write(to))?;
    for entry in fs::read_dir(from).map_err(BuildError::read(from))? {
        let entry = entry.map_err(BuildError::read(from))?;
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else if name != DESCRIPTION {
            fs::copy(&path, to.join(&name)).map_err(BuildError::write(to.join(&name)))?;
        }
    }
    Ok(())
}

pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), BuildError> {
    replace(path, PARTIAL, Readers::Umask, content).map_err(BuildError::write(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(parameter: u32, inputs: &[&Key]) -> Step {
        Step::new("test one", 1, &parameter, inputs)
    }

    #[test]
    fn a_key_stands_for_what_a_step_depends_on() {
        let one = step(1, &[]);
        assert_ne!(one.key(), step(2, &[]).key());
        assert_ne!(one.key(), step(1, &[&one.key()]).key());
        assert_ne!(one.key(), Step { version: 2, ..one.clone() }.key());
        assert_eq!(one.key(), Step { name: "test two".into(), ..one.clone() }.key());
        assert_ne!(one.key(), Step { name: "other".into(), ..one.clone() }.key());
        let counts = [("n".to_owned(), 1)].into();
        assert_eq!(one.key(), Step { counts, ..one.clone() }.key());
    }

    #[test]
    fn a_step_is_done_once_and_leaves_nothing_when_it_fails() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let failed = store.run(step(1, &[]), |_, path, _| {
            fs::write(path.join("half"), "").unwrap();
            Err(BuildError::Stopped)
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(directory.path().join("steps")).unwrap().count(), 0);
        for is_known in [false, true] {
            let (done, known) = store
                .run(step(1, &[]), |_, path, _| {
                    assert!(!is_known);
                    fs::write(path.join("whole"), "text").unwrap();
                    Ok([("n".to_owned(), 7)].into())
                })
                .unwrap();
            assert_eq!((known, done.counts["n"]), (is_known, 7));
            let target = directory.path().join("exports/x");
            store.publish(&done.key(), &target).unwrap();
            assert_eq!(fs::read_to_string(target.join("whole")).unwrap(), "text");
            assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_step_whose_files_are_gone_or_cut_is_done_again() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let mut n_done = 0;
        let mut work = |_: &Step, path: &Path, _: &Path| {
            n_done += 1;
            fs::create_dir(path.join("in")).unwrap();
            fs::write(path.join("in/file"), "text").unwrap();
            Ok(BTreeMap::new())
        };
        let (done, _) = store.run(step(1, &[]), &mut work).unwrap();
        assert_eq!(done.files["in/file"].bytes, 4);
        let file = directory_of(directory.path(), &done.key()).join("in/file");
        fs::write(&file, "te").unwrap();
        store.run(step(1, &[]), &mut work).unwrap();
        fs::remove_file(&file).unwrap();
        store.run(step(1, &[]), &mut work).unwrap();
        store.run(step(1, &[]), &mut work).unwrap();
        assert_eq!((n_done, fs::read_to_string(&file).unwrap()), (3, "text".to_owned()));
    }

    #[test]
    fn one_process_at_a_time_works_in_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let steps = directory.path().join("steps");
        fs::create_dir_all(steps.join(".partial-0")).unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert!(!steps.join(".partial-0").exists());
        let error = Store::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("another `quarry data build` is running here"), "{error}");
        drop(store);
        Store::open(directory.path()).unwrap();
    }

    #[test]
    fn only_one_of_concurrent_builds_works_in_a_new_directory() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let root = directory.path().join(format!("{round}/build"));
            let begin = std::sync::Barrier::new(4);
            let open = || {
                begin.wait();
                let store = Store::open(&root);
                begin.wait();
                store
            };
            let opened = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            let refused = opened.iter().filter(|store| matches!(store, Err(BuildError::InUse(_))));
            assert_eq!((refused.count(), opened.iter().filter(|store| store.is_ok()).count()), (3, 1));
            assert_eq!(fs::read_to_string(root.join(IGNORE)).unwrap(), "*\n");
            assert_eq!(fs::read_dir(&root).unwrap().count(), 5, "three directories and two files");
        }
    }
}
