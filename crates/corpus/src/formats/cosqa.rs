//! The CoSQA retrieval files: a JSON array of annotated pairs and a JSON object from code to number.

use super::{FormatError, open};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// One record of a CoSQA retrieval file (`cosqa-retrieval-*.json`). Its other fields are not needed to rank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pair {
    /// Identifier of the pair, unique in its file.
    pub idx: String,
    /// The web query.
    pub doc: String,
    /// 1 if the code answers the query, 0 if it does not.
    pub label: u8,
    /// Number of the code in the code base.
    pub retrieval_idx: u64,
}

/// Reads a retrieval file, records in the order of the file.
///
/// # Errors
/// When the file cannot be read or is no array of such records.
pub fn read_pairs(path: &Path) -> Result<Vec<Pair>, FormatError> {
    read_json(path, "a JSON array of records with `idx`, `doc`, `label` and `retrieval_idx`")
}

/// Reads the code base (`code_idx_map.json`): raw code by number.
///
/// # Errors
/// When the file cannot be read, is no object from code to number, or uses a number twice.
pub fn read_codes(path: &Path) -> Result<BTreeMap<u64, String>, FormatError> {
    read_json::<Codes>(path, "a JSON object from code to its number, each number once").map(|codes| codes.0)
}

fn read_json<T: DeserializeOwned>(path: &Path, expected: &str) -> Result<T, FormatError> {
    serde_json::from_reader(open(path)?).map_err(|error| {
        if error.is_io() {
            return FormatError::Read { path: path.to_owned(), source: error.into() };
        }
        FormatError::Line {
            path: path.to_owned(),
            line: error.line(),
            expected: expected.into(),
            found: error.to_string(),
            remedy: "check that the two CoSQA files are not exchanged, and download a broken file again"
                .into(),
        }
    })
}

/// The code base turned round. An object may be a million entries long, so it is not read into a map first.
struct Codes(BTreeMap<u64, String>);

impl<'de> Deserialize<'de> for Codes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CodesVisitor;
        impl<'de> Visitor<'de> for CodesVisitor {
            type Value = Codes;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object from code to number")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Codes, A::Error> {
                let mut codes = BTreeMap::new();
                while let Some((code, number)) = map.next_entry::<String, u64>()? {
                    if codes.insert(number, code).is_some() {
                        return Err(serde::de::Error::custom(format_args!("number {number} a second time")));
                    }
                }
                Ok(Codes(codes))
            }
        }
        deserializer.deserialize_map(CodesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read_text<T>(text: &str, read: fn(&Path) -> Result<T, FormatError>) -> Result<T, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.json");
        fs::write(&path, text).unwrap();
        read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn codes_come_by_number_and_stay_raw() {
        let codes = read_text("{\"def b():\\n\\tpass\": 1, \" def a(): pass \": 0}", read_codes).unwrap();
        assert_eq!(
            codes,
            BTreeMap::from([(0, " def a(): pass ".to_owned()), (1, "def b():\n\tpass".to_owned())])
        );
    }

    #[test]
    fn pairs_keep_the_order_of_the_file_and_other_fields_are_ignored() {
        let text = r#"[{"idx":"b","doc":"web query","code":"x","label":0,"retrieval_idx":3},
                       {"idx":"a","doc":"other","code":"y","label":1,"retrieval_idx":3}]"#;
        let pairs = read_text(text, read_pairs).unwrap();
        assert_eq!(pairs.iter().map(|pair| pair.idx.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(pairs[0].doc, "web query");
        assert_eq!((pairs[1].label, pairs[1].retrieval_idx), (1, 3));
    }

    #[test]
    fn broken_files_are_named_with_their_line() {
        for (text, expected) in [
            ("{\"a\": 0,\n \"b\": 0}", "data.json:2: expected a JSON object from code to its number"),
            ("{\"a\": -1}", "data.json:1: expected a JSON object"),
            ("[]", "data.json:1: expected a JSON object"),
        ] {
            let error = read_text(text, read_codes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = read_text("[\n{\"idx\":\"a\",\"doc\":\"q\",\"label\":1}]", read_pairs).unwrap_err();
        assert!(error.contains("data.json:2: expected a JSON array of records"), "{error}");
        assert!(error.contains("missing field `retrieval_idx`"), "{error}");
    }
}
