//! Vectors of texts that were embedded before, kept on disk.
//!
//! A model has a file for queries and one for documents, a header and then a record for each text: the hash of the
//! text, its vector, and a checksum of both, all of one length and in little-endian order. Records are only ever
//! appended, under an operating system's lock, so that any number of processes may share a directory; what a process
//! that was killed left of a record is truncated by the next writer. A record whose checksum is wrong counts as
//! missing. It is a cache: it can be removed at any time.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_files::cache::mark_used;
use quarry_files::{create_private_directory, is_same_file, open_private};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::{EmbedError, Embedder, Side, Vectors};

/// Beginning of every file. The number changes with the layout, and if a model with the same weights gives other
/// vectors than before.
const MAGIC: &[u8; 16] = b"quarry vectors 1";

/// The magic, the hash of the model's id and the dimension, as 8 bytes each.
const HEADER_LENGTH: u64 = 32;

/// Bytes of a record besides its vector: the hash of the text, and the checksum.
const KEY_LENGTH: usize = 16;
const CHECKSUM_LENGTH: usize = 8;

const ENDING: &str = ".vectors";

/// Number of tries to open a file that is removed meanwhile.
const MAX_LOCKS: usize = 10;

/// An embedder that caches the vectors of another one in a directory.
pub struct CachedEmbedder {
    embedder: Arc<dyn Embedder>,
    queries: Mutex<Store>,
    documents: Mutex<Store>,
}

impl CachedEmbedder {
    /// Caches the vectors of `embedder` in separate files in `directory`, which is created if it is missing.
    ///
    /// # Errors
    /// When the files cannot be created or read.
    pub fn new(embedder: Arc<dyn Embedder>, directory: &Path) -> Result<Self, EmbedError> {
        let open = |side| {
            let name = format!("{}{ENDING}", file_name(embedder.id(), side));
            let store = Store::open(directory.join(name), embedder.id(), embedder.dimension());
            store.map(Mutex::new).map_err(|error| {
                EmbedError::model_file(
                    directory,
                    "cannot be used for cached vectors; name another directory",
                    error,
                )
            })
        };
        create_private_directory(directory).map_err(|error| {
            EmbedError::model_file(directory, "cannot be created as a cache of vectors", error)
        })?;
        Ok(Self { queries: open("queries")?, documents: open("documents")?, embedder })
    }

    fn embed(&self, side: Side, texts: &[&str]) -> Result<Vectors, EmbedError> {
        let dimension = self.embedder.dimension();
        let store = match side {
            Side::Query => &self.queries,
            Side::Document => &self.documents,
        };
        let keys: Vec<u128> = texts.iter().map(|text| xxh3_128(text.as_bytes())).collect();
        let mut rows = store.lock().unwrap_or_else(PoisonError::into_inner).get(&keys);
        let mut seen = HashSet::new();
        let missing: Vec<usize> = (0..texts.len())
            .filter(|&text| !rows.contains_key(&keys[text]) && seen.insert(keys[text]))
            .collect();
        if !missing.is_empty() {
            let texts: Vec<&str> = missing.iter().map(|&text| texts[text]).collect();
            let vectors = match side {
                Side::Query => self.embedder.embed_queries(&texts)?,
                Side::Document => self.embedder.embed_documents(&texts)?,
            };
            let vectors = vectors.values.chunks(dimension.max(1)).map(<[f32]>::to_vec);
            let new: Vec<(u128, Vec<f32>)> = missing.iter().map(|&text| keys[text]).zip(vectors).collect();
            store.lock().unwrap_or_else(PoisonError::into_inner).put(&new);
            rows.extend(new);
        }
        let values = keys.iter().filter_map(|key| rows.get(key)).flatten().copied().collect();
        Ok(Vectors { dimension, values })
    }
}

impl Embedder for CachedEmbedder {
    fn id(&self) -> &str {
        self.embedder.id()
    }

    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(Side::Query, texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(Side::Document, texts)
    }
}

/// A file name that shows the name of the model, and is unique for each model and side.
fn file_name(id: &str, side: &str) -> String {
    let shown = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let shown: String = id.chars().take(60).map(shown).collect();
    format!("{shown}-{:016x}-{side}", xxh3_64(id.as_bytes()))
}

/// A file of cached vectors.
struct Store {
    path: PathBuf,
    file: File,
    header: [u8; HEADER_LENGTH as usize],
    dimension: usize,
    /// Offset of the record of each text, by its hash.
    offsets: HashMap<u128, u64>,
    /// Offset up to which the file has been read; 0 until its header is checked.
    end: u64,
}

impl Store {
    fn open(path: PathBuf, id: &str, dimension: usize) -> io::Result<Self> {
        let mut header = [0; HEADER_LENGTH as usize];
        header[..16].copy_from_slice(MAGIC);
        header[16..24].copy_from_slice(&xxh3_64(id.as_bytes()).to_le_bytes());
        header[24..].copy_from_slice(&(dimension as u64).to_le_bytes());
        let file = open_file(&path)?;
        let mut store = Self { path, file, header, dimension, offsets: HashMap::new(), end: 0 };
        store.locked(Self::read_appended)?;
        mark_used(&store.file);
        Ok(store)
    }

    /// Checks the header of the file, and writes it to an empty one.
    fn begin(&mut self) -> io::Result<()> {
        let mut found = Vec::new();
        self.file.rewind()?;
        (&self.file).take(HEADER_LENGTH).read_to_end(&mut found)?;
        if found != self.header {
            if !found.is_empty() {
                self.warn("does not contain vectors of this model; starting over");
            }
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(&self.header)?;
        }
        self.end = HEADER_LENGTH;
        Ok(())
    }

    fn warn(&self, what: &str) {
        tracing::warn!("{} {what}", self.path.display());
    }

    fn record_length(&self) -> usize {
        KEY_LENGTH + 4 * self.dimension + CHECKSUM_LENGTH
    }

    /// Runs `task` while no other process reads or writes.
    fn locked<T>(&mut self, task: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        for _ in 0..MAX_LOCKS {
            self.file.lock()?;
            if self.is_current() {
                let begun = if self.end == 0 { self.begin() } else { Ok(()) };
                let result = begun.and_then(|()| task(self));
                self.file.unlock()?;
                return result;
            }
            // Clearing the cache removed the file, and another process may have created it again.
            self.file = open_file(&self.path)?;
            self.offsets.clear();
            self.end = 0;
        }
        Err(io::Error::other("it was removed each time it was opened"))
    }

    /// Returns whether the open file is still the one at its path.
    fn is_current(&self) -> bool {
        File::open(&self.path).and_then(|there| is_same_file(&self.file, &there)).unwrap_or(false)
    }

    /// Reads the records appended since the last call.
    fn read_appended(&mut self) -> io::Result<()> {
        let record_length = self.record_length();
        let length = self.file.metadata()?.len();
        let n_new = length.saturating_sub(self.end) / record_length as u64;
        if n_new == 0 {
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(self.end))?;
        let mut reader = BufReader::with_capacity(1 << 20, &self.file);
        let mut record = vec![0; record_length];
        let mut n_damaged = 0;
        for _ in 0..n_new {
            reader.read_exact(&mut record)?;
            match key(&record) {
                Some(key) => _ = self.offsets.insert(key, self.end),
                None => n_damaged += 1,
            }
            self.end += record_length as u64;
        }
        if n_damaged > 0 {
            self.warn(&format!("contains {n_damaged} damaged vectors of {n_new}; computing them again"));
        }
        Ok(())
    }

    /// The cached vectors that are intact; none if the file cannot be read.
    fn get(&mut self, keys: &[u128]) -> HashMap<u128, Vec<f32>> {
        let mut rows = HashMap::new();
        let read = self.locked(|store| {
            store.read_appended()?;
            let mut record = vec![0; store.record_length()];
            for &wanted in keys {
                let Some(&offset) = store.offsets.get(&wanted) else { continue };
                store.file.seek(SeekFrom::Start(offset))?;
                store.file.read_exact(&mut record)?;
                if key(&record) == Some(wanted) {
                    rows.insert(wanted, vector(&record));
                } else {
                    store.offsets.remove(&wanted);
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            self.warn(&format!("cannot be read; computing vectors again: {error}"));
        }
        rows
    }

    /// Appends vectors. If that fails, they are not cached.
    fn put(&mut self, rows: &[(u128, Vec<f32>)]) {
        let written = self.locked(|store| {
            store.read_appended()?;
            let mut records = Vec::new();
            for (key, vector) in rows.iter().filter(|(key, _)| !store.offsets.contains_key(key)) {
                append(&mut records, *key, vector);
            }
            // Bytes after the last complete record are those of an interrupted writer.
            store.file.set_len(store.end)?;
            store.file.seek(SeekFrom::Start(store.end))?;
            store.file.write_all(&records)?;
            store.read_appended()
        });
        if let Err(error) = written {
            self.warn(&format!("cannot be written; not caching vectors: {error}"));
        }
    }
}

/// Opens a file of vectors, or creates an empty one.
fn open_file(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        create_private_directory(directory)?;
    }
    open_private(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

fn append(records: &mut Vec<u8>, key: u128, vector: &[f32]) {
    let begin = records.len();
    records.extend(key.to_le_bytes());
    records.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
    let checksum = xxh3_64(&records[begin..]);
    records.extend(checksum.to_le_bytes());
}

/// The hash of the text of a record, if the record is intact.
fn key(record: &[u8]) -> Option<u128> {
    let (rest, checksum) = record.split_last_chunk()?;
    let key = rest.first_chunk()?;
    (xxh3_64(rest) == u64::from_le_bytes(*checksum)).then(|| u128::from_le_bytes(*key))
}

fn vector(record: &[u8]) -> Vec<f32> {
    let values = record[KEY_LENGTH..record.len() - CHECKSUM_LENGTH].as_chunks().0;
    values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

pub(crate) mod cached;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Embeds a text as its length and its first byte, or half of them, and counts texts.
    struct Counting {
        id: &'static str,
        dimension: usize,
        n_embedded: AtomicUsize,
    }

    impl Counting {
        fn new(id: &'static str, dimension: usize) -> Arc<Self> {
            Arc::new(Self { id, dimension, n_embedded: AtomicUsize::new(0) })
        }

        fn count(&self) -> usize {
            self.n_embedded.swap(0, Ordering::SeqCst)
        }

        fn embed(&self, texts: &[&str], factor: f32) -> Result<Vectors, EmbedError> {
            self.n_embedded.fetch_add(texts.len(), Ordering::SeqCst);
            let value = |text: &str, column: usize| {
                factor * if column == 0 { text.len() as f32 } else { f32::from(text.as_bytes()[0]) }
            };
            let values = texts.iter().flat_map(|text| (0..self.dimension).map(|column| value(text, column)));
            Ok(Vectors { dimension: self.dimension, values: values.collect() })
        }
    }

    impl Embedder for Counting {
        fn id(&self) -> &str {
            self.id
        }

        fn dimension(&self) -> usize {
            self.dimension
        }

        fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            self.embed(texts, 0.5)
        }

        fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            self.embed(texts, 1.0)
        }
    }

    const TEXTS: [&str; 4] = ["ab", "c", "ab", "def"];

    fn files(directory: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn each_text_is_embedded_once_for_a_model_and_side() {
        let directory = tempfile::tempdir().unwrap();
        let (model, other) = (Counting::new("some/model", 2), Counting::new("some_model", 2));
        for repeat in 0..3 {
            let cached = CachedEmbedder::new(model.clone(), directory.path()).unwrap();
            assert_eq!(cached.embed_documents(&TEXTS).unwrap(), model.embed(&TEXTS, 1.0).unwrap());
            assert_eq!(model.count() - TEXTS.len(), if repeat == 0 { 3 } else { 0 });
            assert_eq!(cached.embed_queries(&["c", "g"]).unwrap(), model.embed(&["c", "g"], 0.5).unwrap());
            assert_eq!(model.count() - 2, if repeat == 0 { 2 } else { 0 });
            assert!(cached.embed_documents(&[]).unwrap().values.is_empty());
        }
        let cached = CachedEmbedder::new(other.clone(), directory.path()).unwrap();
        cached.embed_documents(&TEXTS).unwrap();
        assert_eq!((other.count(), files(directory.path()).len()), (3, 4));
    }

    #[test]
    fn two_writers_see_what_the_other_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let (model, directory) = (Counting::new("m", 2), directory.path());
        let (a, b) = (
            CachedEmbedder::new(model.clone(), directory).unwrap(),
            CachedEmbedder::new(model.clone(), directory).unwrap(),
        );
        a.embed_documents(&TEXTS).unwrap();
        assert_eq!(model.count(), 3);
        b.embed_documents(&["def", "new"]).unwrap();
        assert_eq!(model.count(), 1);
        a.embed_documents(&["new", "c"]).unwrap();
        assert_eq!(model.count(), 0);
        // Many at the same time: nothing is torn.
        let texts: Vec<String> = (0..200).map(|i| format!("{i} text")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        std::thread::scope(|scope| {
            for offset in 0..4 {
                let (model, texts) = (model.clone(), &texts);
                scope.spawn(move || {
                    let cached = CachedEmbedder::new(model, directory).unwrap();
                    texts[offset * 20..]
                        .chunks(7)
                        .for_each(|texts| _ = cached.embed_documents(texts).unwrap());
                });
            }
        });
        model.count();
        let cached = CachedEmbedder::new(model.clone(), directory).unwrap();
        assert_eq!(cached.embed_documents(&texts).unwrap(), model.embed(&texts, 1.0).unwrap());
        assert_eq!(model.count(), texts.len());
    }

    #[test]
    fn damage_is_found_and_computed_again() {
        let directory = tempfile::tempdir().unwrap();
        let model = Counting::new("m", 2);
        let expected = model.embed(&TEXTS, 1.0).unwrap();
        let embed =
            || CachedEmbedder::new(model.clone(), directory.path()).unwrap().embed_documents(&TEXTS).unwrap();
        embed();
        let path = files(directory.path())
            .into_iter()
            .find(|path| path.display().to_string().contains("docu"))
            .unwrap();
        let whole = fs::read(&path).unwrap();
        model.count();
        for offset in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[offset] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(embed(), expected, "byte {offset}");
            assert_eq!(model.count(), if offset < HEADER_LENGTH as usize { 3 } else { 1 }, "byte {offset}");
            fs::write(&path, &whole[..offset]).unwrap();
            assert_eq!(embed(), expected, "cut at {offset}");
            let n_whole = offset.saturating_sub(HEADER_LENGTH as usize) / 32;
            assert_eq!(model.count(), 3 - n_whole, "cut at {offset}");
            assert_eq!(embed(), expected, "after it was cut at {offset}");
            assert_eq!(model.count(), 0, "after it was cut at {offset}");
        }
        // Another length of vectors under the same name.
        let longer = Counting::new("m", 3);
        let cached = CachedEmbedder::new(longer.clone(), directory.path()).unwrap();
        assert_eq!(cached.embed_documents(&TEXTS).unwrap(), longer.embed(&TEXTS, 1.0).unwrap());
    }

    #[test]
    fn an_uncreatable_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let error = CachedEmbedder::new(Counting::new("m", 1), &file).err().unwrap();
        assert!(error.to_string().contains("cannot be created"), "{error}");
    }
}
