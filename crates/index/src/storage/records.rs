//! Records of the indexes in trees that this machine wrote.
//!
//! A tree may be untrusted, and so may an index in it. For each index that is built in a tree, the user's state
//! directory contains a record, by the canonical path of the index, with a random key that is stored nowhere else.
//! The manifest of such an index is sealed with that key: one that came with the tree, or replaced ours, is not.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use quarry_files::{Directory, create_private_directory};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use xxhash_rust::xxh3::xxh3_128;

use crate::Error;
use crate::storage::stored_file::replace_file;

/// Maximum size of a record, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Length of a key in bytes: a block of the hash.
const KEY_BYTES: usize = 64;

const ENDING: &str = ".json";

/// The records of a user.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    /// Their directory; `None` if the user has no state directory.
    directory: Option<PathBuf>,
}

/// A key that seals what this machine wrote.
#[derive(Clone)]
pub(crate) struct Key([u8; KEY_BYTES]);

#[derive(Serialize, Deserialize)]
struct Record {
    /// Canonical path of the index.
    index: String,
    /// The key in hexadecimal.
    key: String,
}

impl Records {
    /// The records in the user's state directory `state`.
    pub fn new(state: Option<&Path>) -> Self {
        Self { directory: state.map(|state| state.join("indexes")) }
    }

    /// The key of the index in a directory, if this machine wrote it.
    pub fn key(&self, index: &Path) -> Option<Key> {
        let record = self.read(&file_name(index))?;
        // A copied record belongs to another index.
        (record.index == index.to_string_lossy()).then(|| Key::parse(&record.key)).flatten()
    }

    /// The key of the index in a directory; creates and records one if there is none.
    ///
    /// # Errors
    /// When the user's state directory cannot be written.
    pub fn make(&self, index: &Path) -> Result<Key, Error> {
        if let Some(key) = self.key(index) {
            return Ok(key);
        }
        let directory = self.directory.as_deref().ok_or(Error::NoStateDirectory)?;
        let failed = |source| Error::io("write", directory, source);
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|error| failed(io::Error::other(error)))?;
        let key = Key(key);
        let record = Record { index: index.to_string_lossy().into_owned(), key: key.digits() };
        let json = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
        create_private_directory(directory).map_err(failed)?;
        replace_file(&Directory::open(directory).map_err(failed)?, &file_name(index), &[&json])?;
        Ok(key)
    }

    /// The directories of all recorded indexes, ascending.
    pub fn indexes(&self) -> Vec<PathBuf> {
        let Some(Ok(names)) = self.directory.as_ref().map(|directory| Directory::open(directory)?.names())
        else {
            return Vec::new();
        };
        // A path that is not UTF-8 is not recorded verbatim.
        let index = |name: OsString| {
            let name = name.into_string().ok()?;
            let index = PathBuf::from(self.read(&name)?.index);
            (file_name(&index) == name).then_some(index)
        };
        let mut indexes: Vec<PathBuf> = names.into_iter().filter_map(index).collect();
        indexes.sort();
        indexes
    }

    fn read(&self, name: &str) -> Option<Record> {
        let bytes = quarry_files::read_regular(&self.directory.as_ref()?.join(name), MAX_BYTES).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

fn file_name(index: &Path) -> String {
    format!("{:032x}{ENDING}", xxh3_128(index.as_os_str().as_encoded_bytes()))
}

impl Key {
    /// The seal of some bytes, which can be computed only with the key.
    pub fn seal(&self, written: &[u8]) -> String {
        digits(&self.mac(written).finalize().into_bytes())
    }

    /// Returns whether a seal belongs to some bytes.
    pub fn is_seal(&self, seal: &str, written: &[u8]) -> bool {
        bytes(seal).is_some_and(|seal| self.mac(written).verify_slice(&seal).is_ok())
    }

    fn mac(&self, written: &[u8]) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&self.0.into());
        mac.update(written);
        mac
    }

    fn digits(&self) -> String {
        digits(&self.0)
    }

    fn parse(digits: &str) -> Option<Self> {
        bytes(digits)?.try_into().ok().map(Self)
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_seal_is_that_of_the_standard() {
        // RFC 4231, test case 2, with its key padded with zeros, which does not change the result.
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let seal = Key(key).seal(b"what do ya want for nothing?");
        assert_eq!(seal, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(Key(key).is_seal(&seal, b"what do ya want for nothing?"));
        assert!(!Key(key).is_seal(&seal, b"what do you want for nothing?"));
        assert!(!Key([1; KEY_BYTES]).is_seal(&seal, b"what do ya want for nothing?"));
        for wrong in ["", "5b", "xx", &seal[1..], "é"] {
            assert!(!Key(key).is_seal(wrong, b"what do ya want for nothing?"), "{wrong}");
        }
    }

    #[test]
    fn an_index_is_recorded_by_its_path() {
        let state = tempfile::tempdir().unwrap();
        let records = Records::new(Some(state.path()));
        let (one, other) = (Path::new("/tree/.quarry"), Path::new("/other/.quarry"));
        assert!(records.key(one).is_none());
        let key = records.make(one).unwrap();
        assert_eq!(records.make(one).unwrap().0, key.0);
        assert_ne!(records.make(other).unwrap().0, key.0);
        assert!(records.key(one).is_some() && records.key(other).is_some());
        assert_eq!(records.indexes(), [other, one]);
        let directory = state.path().join("indexes");
        fs::copy(directory.join(file_name(one)), directory.join(file_name(other))).unwrap();
        assert!(records.key(other).is_none(), "a record of another one");
        assert_eq!(records.indexes(), [one]);
        assert!(matches!(Records::new(None).make(one), Err(Error::NoStateDirectory)));
    }
}
