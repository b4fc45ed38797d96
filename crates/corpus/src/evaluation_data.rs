//! Excludes evaluation data from training data: by its content, by the hashes of published files, and by the marks
//! that rows carry.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use quarry_source::{extract, language_named};
use quarry_text::counted;
use serde::Deserialize;

use crate::dataset::compared::{ComparedCode, ComparedQuery, Insertion, TextSet};
use crate::dataset::public::public_sets;
use crate::dataset::{for_each, sources};
use crate::disguise::undisguised;
use crate::formats::source::check_regular;
use crate::formats::{FormatError, Record, excerpt};
use crate::summary::{split_summary, summary_fingerprint};

/// Similarity from which two codes are near-duplicates.
const NEAR: f64 = 0.8;
const MAX_LISTED: usize = 3;

/// Texts that must not occur in training pairs, compared as by [`compared`].
///
/// [`compared`]: crate::dataset::compared
#[derive(Debug)]
pub struct EvaluationData {
    texts: TextSet,
    /// Hashes of name and summary of the functions in codes.
    summaries: HashSet<u64>,
    counts: TextCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextCounts {
    /// Number of queries that training pairs are compared with.
    pub queries: usize,
    /// Number of codes that training pairs are compared with.
    pub codes: usize,
    /// Number of queries and codes that are too short to be compared.
    pub short: usize,
}

impl fmt::Display for TextCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queries, codes, short } = *self;
        write!(f, "{}, {}", counted(queries, "query"), counted(codes, "code"))?;
        if short > 0 {
            write!(f, ", and {} too short to be compared", counted(short, "text"))?;
        }
        Ok(())
    }
}

impl Default for EvaluationData {
    fn default() -> Self {
        let texts = TextSet::new(Some(NEAR), false);
        Self { texts, summaries: HashSet::new(), counts: TextCounts::default() }
    }
}

/// An object of a file in an unknown format that names its texts.
#[derive(Deserialize)]
struct NamedTexts {
    query: Option<String>,
    code: Option<String>,
}

impl EvaluationData {
    /// Reads a data set in any format, a directory of data sets, or JSON whose objects name their texts `query` and
    /// `code`.
    ///
    /// # Errors
    /// When it cannot be read, its format is ambiguous, or it contains ids without texts.
    pub fn read(path: &Path) -> Result<Self, FormatError> {
        let (data, n_ids) = Self::read_with_ids(path)?;
        if n_ids > 0 && data.counts == TextCounts::default() {
            return Err(FormatError::File {
                path: path.to_owned(),
                expected: "queries or codes".into(),
                found: format!("{} with ids and no text", counted(n_ids, "record")),
                remedy: "name the files with the texts that the ids belong to".into(),
            });
        }
        Ok(data)
    }

    /// Reads like [`EvaluationData::read`], and counts the records that consist of ids.
    pub(crate) fn read_with_ids(path: &Path) -> Result<(Self, usize), FormatError> {
        check_regular(path)?;
        let mut data = Self::default();
        let mut n_ids = 0_usize;
        match sources(&[path.to_owned()], "", "") {
            Ok(sources) => for_each(&sources, &mut |_, record| {
                n_ids += usize::from(!data.add_record(&record));
                Ok(())
            })?,
            Err(error) => {
                let content = std::fs::read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let Some(content) = content.filter(|content| !content.trim().is_empty()) else {
                    return Err(error);
                };
                let texts = named_texts(&content).ok_or_else(|| uncertain(path, &content))?;
                for NamedTexts { query, code } in texts {
                    query.iter().for_each(|query| data.add_query(query));
                    code.iter().for_each(|code| data.add_code(code, None));
                }
            }
        }
        Ok((data, n_ids))
    }

    pub fn counts(&self) -> TextCounts {
        self.counts
    }

    /// Adds the texts of a record; returns false if it consists of ids.
    fn add_record(&mut self, record: &Record) -> bool {
        match record {
            Record::Pair(pair) => {
                self.add_query(&pair.query.text);
                self.add_code(&pair.code.text, pair.language_name().as_deref());
                for query in pair.query.tokens.iter().chain(&pair.documentation) {
                    self.texts.add_query(&ComparedQuery::new(query));
                }
                if let Some(code) = &pair.code.tokens {
                    self.texts.add_code(&ComparedCode::from_text(code));
                }
            }
            Record::Query(query) => self.add_query(&query.text),
            Record::Document(document) => {
                self.add_code(&document.full_text(), document.language_name().as_deref());
            }
            Record::Judgment(_) | Record::Label(_) | Record::Retrieved(_) => return false,
        }
        true
    }

    pub fn add_query(&mut self, text: &str) {
        match self.texts.add_query(&ComparedQuery::new(text)) {
            Insertion::New => self.counts.queries += 1,
            Insertion::Short => self.counts.short += 1,
            Insertion::Known => {}
        }
    }

    /// Adds a code, detecting its language if the name is unknown.
    pub fn add_code(&mut self, text: &str, language: Option<&str>) {
        match self.texts.add_code(&ComparedCode::new(text, language)) {
            Insertion::New => self.counts.codes += 1,
            Insertion::Short => self.counts.short += 1,
            Insertion::Known => {}
        }
        let text = &*undisguised(text);
        // Other versions of a function have the same name and summary.
        if let Some(python) = language_named("python").filter(|_| text.trim_start().starts_with("def ")) {
            for unit in extract(python, text.as_bytes()).units {
                let (summary, _) = split_summary(&unit.doc, &unit.name);
                self.summaries.extend(summary_fingerprint(&unit.name, &summary));
            }
        }
    }

    pub fn has_query(&self, query: &ComparedQuery) -> bool {
        self.texts.find_query(query).is_some()
    }

    pub fn has_code(&self, code: &ComparedCode) -> bool {
        self.texts.find_code(code).is_some()
    }

    pub(crate) fn has_summary(&self, name: &str, summary: &str) -> bool {
        let hash = summary_fingerprint(&undisguised(name), &undisguised(summary));
        hash.is_some_and(|hash| self.summaries.contains(&hash))
    }
}

/// The objects of a JSON array or of JSON Lines; `None` if one of them names neither a query nor a code.
fn named_texts(content: &str) -> Option<Vec<NamedTexts>> {
    let lines = || {
        let lines = content.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| serde_json::from_str(line).ok()).collect()
    };
    let texts: Vec<NamedTexts> = serde_json::from_str(content).ok().or_else(lines)?;
    texts.iter().all(|texts| texts.query.is_some() || texts.code.is_some()).then_some(texts)
}

/// The error for a text whose queries and codes cannot be distinguished, quoting its first lines.
fn uncertain(path: &Path, content: &str) -> FormatError {
    let lines: Vec<&str> = content.lines().filter(|line| !line.trim().is_empty()).collect();
    let first: Vec<String> = lines.iter().take(MAX_LISTED).map(|line| excerpt(line)).collect();
    FormatError::File {
        path: path.to_owned(),
        expected: "a data set with queries or codes (`quarry data formats` lists the formats)".into(),
        found: format!(
            "text that would be compared line by line, as {}: {}{}",
            counted(lines.len(), "text"),
            first.join(", "),
            if lines.len() > first.len() { ", …" } else { "" }
        ),
        remedy: "write each record on a line as {\"query\": \"…\", \"code\": \"…\"}, or with one of the two"
            .into(),
    }
}

/// Returns true if a pair is marked as evaluation data, by its split or by an id with the name of an evaluation
/// set.
pub fn is_marked(id: Option<&str>, partition: Option<&str>) -> bool {
    let is_split = |name: &str| ["test", "val", "dev"].iter().any(|split| name.starts_with(split));
    let id = id.unwrap_or_default();
    partition.is_some_and(is_split)
        || ["cosqa-dev", "cosqa-test", "webquery-test"].iter().any(|set| id.starts_with(set))
}

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

/// The name of the published evaluation data that a file contains, if any.
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

    fn has_query(data: &EvaluationData, query: &str) -> bool {
        data.has_query(&ComparedQuery::new(query))
    }

    fn has_code(data: &EvaluationData, code: &str) -> bool {
        data.has_code(&ComparedCode::new(code, None))
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
            let data = EvaluationData::read(&path(name)).unwrap();
            assert!(has_query(&data, "How to sort a list?") && !has_query(&data, "how to sort"), "{name}");
            assert!(has_code(&data, &format!("# first\n{code}")), "{name}");
            assert!(!has_code(&data, "def read(path):\n    return open(path).read().split()[0]"), "{name}");
        }
        assert!(EvaluationData::read(&path("noise.bin")).is_err());
        assert!(EvaluationData::read(&path("none")).is_err());
        assert!(!has_query(&EvaluationData::default(), "how to sort a list"));
    }

    #[test]
    fn ambiguous_files_are_refused_with_their_possible_formats() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let code = "def sort(values):\\n    return sorted(values, key=len)";
        let notebook = serde_json::json!({"cells": [{"cell_type": "code", "source": ["def sort(values):\n", "    return 1"]}]});
        for (name, content, problem) in [
            (
                "two.tsv",
                format!("how to sort a list\t{code}\nhow to open a file\t{code}\n"),
                "line by line, as 2 texts: ",
            ),
            (
                "header.tsv",
                format!("query\tcode\nhow to sort a list\t{code}\n"),
                "line by line, as 2 texts: ",
            ),
            ("qrels.tsv", "q1\t0\td1\t1\nq2\t0\td2\t1\n".to_owned(), "found 2 records with ids and no text"),
            ("code.py", code.replace("\\n", "\n"), "line by line, as 2 texts: "),
            (
                "text.txt",
                "how to sort\na list of strings\n\nby length\nquickly".to_owned(),
                ", …; write each record",
            ),
            ("notebook.ipynb", notebook.to_string(), "line by line"),
            ("other.jsonl", "{\"question\":\"how to sort a list\"}\n".to_owned(), "line by line"),
            (
                "cut.jsonl",
                format!("{{\"query\":\"how to sort a list\",\"code\":\"{code}\"}}\n{{\"query\":\"how to"),
                "cut.jsonl:2: ",
            ),
            ("empty.jsonl", String::new(), "found an empty file"),
            ("blank.txt", " \n".to_owned(), ""),
        ] {
            let error = EvaluationData::read(&write(name, &content)).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains(name), "{error}");
        }
        // Named texts are unambiguous, and so is a table with known columns.
        let comma =
            "query,code\nhow to sort a list,\"def sort(values, key): return sorted(values, key=key)[0]\"\n";
        for (name, content, queries, codes, short) in [
            ("queries.json", "[{\"query\":\"how to sort a list\"},{\"query\":\"sort\"}]", 1, 0, 1),
            (
                "queries.jsonl",
                "{\"query\":\"how to sort a list\"}\n{\"query\":\"How to sort a list?\"}\n",
                1,
                0,
                0,
            ),
            ("two.csv", comma, 1, 1, 0),
        ] {
            let counts = EvaluationData::read(&write(name, content)).unwrap().counts();
            assert_eq!(counts, TextCounts { queries, codes, short }, "{name}");
        }
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
        let with = |[query, code]: [&str; 2]| {
            let mut data = EvaluationData::default();
            data.add_query(query);
            data.add_code(code, None);
            data
        };
        let query = "python sort list by length of strings";
        let plain = with([query, code]);
        for disguise in disguises {
            assert!(has_query(&plain, &disguise(&query.to_uppercase())));
            assert!(has_query(&plain, &disguise("sorting lists by the length of a string")));
            assert!(!has_query(&plain, &disguise("reversing lists by the length of a string")));
            assert!(has_code(&plain, &disguise(code)));
            let disguised = with([&disguise(query), &disguise(code)]);
            assert!(has_query(&disguised, query) && has_code(&disguised, code));
        }
    }
}
