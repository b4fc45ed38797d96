//! Keeps evaluation data out of training data: by its content, by the hashes of published files, and by what rows state about
//! themselves.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use quarry_source::{FunctionPair, extract, language_named};
use quarry_text::{TermRules, identifiers, is_language_name, is_stop_word};
use serde::Deserialize;

use crate::dataset::near::NearIndex;
use crate::dataset::public::public_sets;
use crate::dataset::{for_each, sources};
use crate::disguise::undisguised;
use crate::formats::source::check_regular;
use crate::formats::{FormatError, Record};
use crate::pairs::{MIN_CODE_WORDS, cut_out, fingerprint, split_summary, summary_fingerprint};

/// The similarity from which on two codes are near duplicates.
const NEAR: f64 = 0.8;
/// Minimum number of words of a code for near duplicates to mean anything.
const MIN_NEAR_WORDS: usize = 20;
/// Minimum number of words of a query that is compared: shorter ones are asked by many.
const MIN_QUERY_WORDS: usize = 3;
/// Maximum number of words of a query that is compared by its words.
const MAX_QUERY_WORDS: usize = 40;

/// Texts that no training pair may contain: codes and queries, exactly but for white space, punctuation, case and letters
/// that only look alike, and codes that are nearly identical.
#[derive(Debug)]
pub struct EvaluationData {
    /// Hashes of codes, and of name and summary of the functions in them.
    codes: HashSet<u64>,
    queries: HashSet<u64>,
    /// Hashes of the words of queries, whatever their order and inflection.
    query_words: HashSet<u64>,
    near: NearIndex,
}

impl Default for EvaluationData {
    fn default() -> Self {
        let [codes, queries, query_words] = [(); 3].map(|()| HashSet::new());
        Self { codes, queries, query_words, near: NearIndex::new(NEAR) }
    }
}

impl EvaluationData {
    /// Reads files of any text, and data sets in any format, directories of them included.
    ///
    /// # Errors
    /// When one cannot be read, or is neither text nor a data set.
    pub fn read(paths: &[PathBuf]) -> Result<Self, FormatError> {
        let mut data = Self::default();
        for path in paths {
            check_regular(path)?;
            let is_data_set = sources(std::slice::from_ref(path), "", "test").and_then(|sources| {
                for_each(&sources, &mut |_, record| {
                    data.add_record(&record);
                    Ok(())
                })
            });
            if path.is_dir() {
                is_data_set?;
                continue;
            }
            let unreadable = |source| FormatError::Read { path: path.clone(), source };
            match (String::from_utf8(std::fs::read(path).map_err(unreadable)?), is_data_set) {
                // Every text of a file that is one, whatever a format makes of it.
                (Ok(content), _) => each_text(&content, &mut |text| data.add(text)),
                (Err(_), is_data_set) => is_data_set?,
            }
        }
        Ok(data)
    }

    fn add_record(&mut self, record: &Record) {
        match record {
            Record::Pair(pair) => {
                let sides = [&pair.query, &pair.code];
                let tokens = sides.iter().filter_map(|side| side.tokens.as_ref());
                let texts = sides.iter().map(|side| &side.text).chain(tokens).chain(&pair.documentation);
                texts.for_each(|text| self.add(text));
            }
            Record::Query(query) => self.add(&query.text),
            Record::Document(document) => self.add(&document.text),
            Record::Judgment(_) | Record::Label(_) | Record::Retrieved(_) => {}
        }
    }

    /// Adds a text, whole and split at ` [CODESPLIT] `, and, if it contains Python functions, each of them with its
    /// summary, so that other versions of them are recognized.
    pub fn add(&mut self, text: &str) {
        let text = &*undisguised(text);
        for text in
            std::iter::once(text).chain(text.split("[CODESPLIT]").filter(|part| part.len() < text.len()))
        {
            let n_words = identifiers(text).take(MIN_NEAR_WORDS).count();
            if n_words >= MIN_QUERY_WORDS {
                self.queries.insert(fingerprint(text));
                self.query_words.extend(words_hash(text));
            }
            if n_words >= MIN_CODE_WORDS {
                self.codes.insert(fingerprint(text));
            }
            if n_words >= MIN_NEAR_WORDS {
                self.near.find_or_add(text);
            }
        }
        let Some(python) = language_named("python").filter(|_| text.trim_start().starts_with("def ")) else {
            return;
        };
        for unit in extract(python, text.as_bytes()).units {
            let code = cut_out(text.as_bytes(), unit.bytes.clone(), &unit.doc_bytes);
            self.codes.insert(fingerprint(&code));
            let (summary, _) = split_summary(&unit.doc, &unit.name);
            self.codes.extend(summary_fingerprint(&unit.name, &summary));
        }
    }

    /// Whether a query is in the data.
    #[must_use]
    pub fn has_query(&self, query: &str) -> bool {
        let query = &*undisguised(query);
        !self.queries.is_empty()
            && identifiers(query).take(MIN_QUERY_WORDS).count() == MIN_QUERY_WORDS
            && self.queries.contains(&fingerprint(query))
    }

    /// Whether a query is in the data, or one of the same words in another order or inflection, without those that say
    /// little (stop words and names of languages). Of at least three words.
    #[must_use]
    pub fn has_query_nearly(&self, query: &str) -> bool {
        self.has_query(query)
            || words_hash(&undisguised(query)).is_some_and(|hash| self.query_words.contains(&hash))
    }

    /// Whether a code is in the data, from any of its first lines on (decorators and comments may precede the part that
    /// is), or nearly.
    #[must_use]
    pub fn has_code(&self, code: &str) -> bool {
        if self.codes.is_empty() {
            return false;
        }
        let code = &*undisguised(code);
        let starts = std::iter::once(0).chain(code.match_indices('\n').map(|(at, _)| at + 1)).take(12);
        starts.into_iter().any(|at| self.codes.contains(&fingerprint(&code[at..])))
            || identifiers(code).take(MIN_NEAR_WORDS).count() == MIN_NEAR_WORDS
                && self.near.find(code).is_some()
    }

    /// Whether a function is in the data: by its code, with or without its documentation, by name and summary
    /// together, or, nearly, by the query that its documentation becomes.
    pub(crate) fn has_function(&self, whole: &str, pair: &FunctionPair) -> bool {
        summary_fingerprint(&undisguised(&pair.name), &undisguised(&pair.query))
            .is_some_and(|hash| self.codes.contains(&hash))
            || self.has_query_nearly(&pair.query)
            || self.has_code(whole)
            || self.has_code(&pair.code)
    }
}

/// Hash of the distinct stems of a short text, without stop words and names of languages; `None` for fewer than three,
/// and for what is too long for a query.
fn words_hash(text: &str) -> Option<u64> {
    if identifiers(text).take(MAX_QUERY_WORDS + 1).count() > MAX_QUERY_WORDS {
        return None;
    }
    let mut words = BTreeSet::new();
    TermRules::default().terms(text, |term, at| {
        let word = text[at].to_lowercase();
        if !is_stop_word(&word) && !is_language_name(&word) {
            words.insert(term.to_owned());
        }
    });
    (words.len() >= MIN_QUERY_WORDS).then(|| fingerprint(&words.into_iter().collect::<Vec<_>>().join(" ")))
}

/// Passes on every text in the content of a file: those of one JSON document, else of one a line, else the lines.
pub(crate) fn each_text(content: &str, each: &mut dyn FnMut(&str)) {
    if let Ok(value) = serde_json::from_str(content) {
        return each_text_of(&value, each);
    }
    for line in content.lines() {
        match serde_json::from_str(line) {
            Ok(value) => each_text_of(&value, each),
            Err(_) => each(line),
        }
    }
}

fn each_text_of(value: &serde_json::Value, each: &mut dyn FnMut(&str)) {
    match value {
        serde_json::Value::String(text) => each(text),
        serde_json::Value::Array(values) => values.iter().for_each(|value| each_text_of(value, each)),
        serde_json::Value::Object(entries) => {
            for (key, value) in entries {
                each(key);
                each_text_of(value, each);
            }
        }
        _ => {}
    }
}

/// Whether a pair is marked as evaluation data: by its split, or by an id with the name of a set that is.
#[must_use]
pub fn is_marked(id: Option<&str>, partition: Option<&str>) -> bool {
    let is_split = |name: &str| ["test", "val", "dev"].iter().any(|split| name.starts_with(split));
    let id = id.unwrap_or_default();
    partition.is_some_and(is_split)
        || ["cosqa-dev", "cosqa-test", "webquery-test"].iter().any(|set| id.starts_with(set))
}

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    name: String,
    size: u64,
    sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: Vec<Published>,
}

/// The published files of evaluation data with known hashes.
fn published() -> &'static [Published] {
    static FILES: LazyLock<Vec<Published>> = LazyLock::new(|| {
        // A test parses it, so it cannot be invalid in a release.
        let mut files = toml::from_str(include_str!("dataset/evaluation.toml"))
            .map_or_else(|_| Vec::new(), |table: Table| table.file);
        for set in public_sets().iter().filter(|set| set.purpose == "evaluation") {
            files.extend(set.files.iter().filter_map(|file| {
                let name = format!("{} of {}", file.name(), set.name);
                Some(Published { name, size: file.size?, sha256: file.sha256.clone()? })
            }));
        }
        files
    });
    &FILES
}

/// The name of the published evaluation data that a file is, if it is one.
///
/// # Errors
/// When it cannot be read.
pub fn published_as(path: &Path) -> Result<Option<&'static str>, FormatError> {
    let unreadable = |source| FormatError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut same_size = published().iter().filter(|known| known.size == size).peekable();
    if same_size.peek().is_none() {
        return Ok(None);
    }
    let (_, hash) = quarry_files::sha256_of(file).map_err(unreadable)?;
    Ok(same_size.find(|known| known.sha256 == hash).map(|known| known.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let table: Table = toml::from_str(include_str!("dataset/evaluation.toml")).unwrap();
        assert!(published().len() > table.file.len());
        let mut hashes = HashSet::new();
        for Published { name, size, sha256 } in published() {
            assert!(*size > 0 && sha256.len() == 64, "{name}");
            assert!(sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{name}");
            assert!(hashes.insert(sha256), "{name}");
        }
    }

    #[test]
    fn files_are_known_by_their_hash() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.json");
        let known = &published()[0];
        std::fs::write(&path, vec![b' '; known.size as usize]).unwrap();
        assert_eq!(published_as(&path).unwrap(), None);
        assert!(published_as(&directory.path().join("none")).is_err());
    }

    #[test]
    fn queries_and_codes_are_found_in_files_of_any_form() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let code = "def sort(values):\\n    values.sort()\\n    return values[0] if values else None";
        let row = format!("{{\"query\":\"how to sort a list\",\"code\":\"{code}\"}}\n");
        std::fs::write(path("rows.jsonl"), &row).unwrap();
        std::fs::write(path("rows.csv"), "Idx,Comment,Code,License,Label\n1,how to sort a list,\"numbers <- c(first, second, third)\nsorted <- sort(numbers, decreasing = TRUE)\",MIT,Data Variable\n").unwrap();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packed, row.as_bytes()).unwrap();
        std::fs::write(path("rows.jsonl.gz"), packed.finish().unwrap()).unwrap();
        std::fs::write(path("noise.bin"), [0xff, 0xfe, 0x00]).unwrap();
        let code = code.replace("\\n", "\n");
        for (name, code) in [
            ("rows.jsonl", code.as_str()),
            ("rows.jsonl.gz", &code),
            ("rows.csv", "numbers <- c(first, second, third)\nsorted <- sort(numbers, decreasing = TRUE)"),
        ] {
            let data = EvaluationData::read(&[path(name)]).unwrap();
            assert!(data.has_query("How to sort a list?") && !data.has_query("how to sort"), "{name}");
            assert!(data.has_code(&format!("# first\n{code}")), "{name}");
            assert!(!data.has_code("def read(path):\n    return open(path).read().split()[0]"), "{name}");
        }
        assert!(EvaluationData::read(&[path("noise.bin")]).is_err());
        assert!(EvaluationData::read(&[path("none")]).is_err());
        assert!(!EvaluationData::default().has_query("how to sort a list"));
    }

    #[test]
    fn disguised_letters_are_recognized_on_either_side() {
        let code = "def sort(values):\n    values.sort()\n    return values[0] if values else None";
        let full_width = |text: &str| -> String {
            let wide = |c: char| char::from_u32(u32::from(c) + 0xfee0).filter(|_| c.is_ascii_graphic());
            text.chars().map(|c| wide(c).unwrap_or(c)).collect()
        };
        let homoglyphs = |text: &str| text.replace('a', "а").replace('o', "ο").replace('e', "е");
        let hidden = |text: &str| text.replace('s', "s\u{200b}");
        let disguises: [&dyn Fn(&str) -> String; 3] = [&full_width, &homoglyphs, &hidden];
        let of = |texts: [&str; 2]| {
            let mut data = EvaluationData::default();
            texts.into_iter().for_each(|text| data.add(text));
            data
        };
        let query = "python sort list by length of strings";
        let plain = of([query, code]);
        for disguise in disguises {
            assert!(plain.has_query(&disguise(&query.to_uppercase())));
            assert!(plain.has_query_nearly(&disguise("sorting lists by the length of a string")));
            assert!(!plain.has_query_nearly(&disguise("reversing lists by the length of a string")));
            assert!(plain.has_code(&disguise(code)));
            let disguised = of([&disguise(query), &disguise(code)]);
            assert!(disguised.has_query(query) && disguised.has_code(code));
        }
    }
}
