//! Labels as data sets.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use quarry_corpus::dataset::{self, convert};
use serde_json::{Value, json};

use crate::error::AnnotateError;
use crate::judge::Outcome;
use crate::ledger::{Decided, Ledger};

/// What is exported, and how.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// The format or folder.
    pub target: convert::Target,
    /// Name of the split.
    pub split: &'a str,
    /// Grades rather than labels, where the guideline has grades.
    pub graded: bool,
    /// Number queries and codes anew.
    pub renumber: bool,
}

/// Writes the labels of `judge` to `out`; the files with their numbers of records. Pairs without a label are left out.
///
/// # Errors
/// When `out` is there already or cannot be written, the format cannot hold the labels, or there are none.
pub fn export(
    ledger: &Ledger,
    judge: i64,
    export: &Export<'_>,
    out: &Path,
) -> Result<Vec<(String, usize)>, AnnotateError> {
    let folder =
        tempfile::tempdir().map_err(|source| AnnotateError::Write { path: std::env::temp_dir(), source })?;
    let mut whole_ids = true;
    ledger.for_each_decided(judge, |decided| {
        let ids = [&decided.pair.id, &decided.pair.query_id, &decided.pair.code_id];
        whole_ids &= ids.iter().all(|id| id.parse::<i64>().is_ok());
        Ok(())
    })?;
    // Pairs keep their numbers where they have some; grades and other ids want a format that holds them.
    let path = if whole_ids && !export.graded {
        write_pairs(ledger, judge, folder.path())?
    } else {
        write_benchmark(ledger, judge, folder.path(), export)?
    };
    let from = if path.is_dir() { "" } else { "cosqa-plus" };
    let sources = dataset::sources(&[path], from, export.split)?;
    let options = convert::Options { renumber: export.renumber, ..convert::Options::default() };
    Ok(convert::convert(&sources, export.target, out, export.split, &options)?)
}

fn label(decided: &Decided, graded: bool) -> Option<i32> {
    let label = match decided.verdict.outcome {
        Outcome::Yes => 1,
        Outcome::No => 0,
        Outcome::Discarded | Outcome::Unresolved => return None,
    };
    Some(decided.verdict.grade.filter(|_| graded).map_or(label, i32::from))
}

/// One file with a pair a line, as CoSQA+ has them.
fn write_pairs(ledger: &Ledger, judge: i64, folder: &Path) -> Result<std::path::PathBuf, AnnotateError> {
    let path = folder.join("pairs.jsonl");
    let mut lines = Lines::create(&path)?;
    ledger.for_each_decided(judge, |decided| {
        let Some(label) = label(&decided, false) else { return Ok(()) };
        let pair = decided.pair;
        let number = |id: &str| id.parse::<i64>().map_or(Value::Null, Value::from);
        lines.write(&json!({
            "pair-idx": number(&pair.id), "query-idx": number(&pair.query_id), "query": pair.query,
            "code-idx": number(&pair.code_id), "code": pair.code, "label": label, "language": pair.language,
        }))
    })?;
    lines.finish()?;
    Ok(path)
}

/// A BEIR folder.
fn write_benchmark(
    ledger: &Ledger,
    judge: i64,
    folder: &Path,
    export: &Export<'_>,
) -> Result<std::path::PathBuf, AnnotateError> {
    let qrels = folder.join("qrels").join(format!("{}.tsv", export.split));
    let folder_of = |source| AnnotateError::Write { path: folder.to_owned(), source };
    fs::create_dir_all(folder.join("qrels")).map_err(folder_of)?;
    let mut corpus = Lines::create(&folder.join("corpus.jsonl"))?;
    let mut queries = Lines::create(&folder.join("queries.jsonl"))?;
    let mut judgements = Lines::create(&qrels)?;
    judgements.line("query-id\tcorpus-id\tscore")?;
    let (mut known_queries, mut known_codes) = (HashSet::new(), HashSet::new());
    ledger.for_each_decided(judge, |decided| {
        let Some(label) = label(&decided, export.graded) else { return Ok(()) };
        let pair = decided.pair;
        if known_queries.insert(pair.query_id.clone()) {
            queries.write(&json!({"_id": pair.query_id, "text": pair.query}))?;
        }
        if known_codes.insert(pair.code_id.clone()) {
            corpus.write(&json!({"_id": pair.code_id, "title": "", "text": pair.code}))?;
        }
        judgements.line(&format!("{}\t{}\t{label}", pair.query_id, pair.code_id))
    })?;
    for lines in [corpus, queries, judgements] {
        lines.finish()?;
    }
    Ok(folder.to_owned())
}

struct Lines {
    path: std::path::PathBuf,
    file: BufWriter<File>,
}

impl Lines {
    fn create(path: &Path) -> Result<Self, AnnotateError> {
        let file =
            File::create(path).map_err(|source| AnnotateError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn line(&mut self, line: &str) -> Result<(), AnnotateError> {
        writeln!(self.file, "{line}")
            .map_err(|source| AnnotateError::Write { path: self.path.clone(), source })
    }

    fn write(&mut self, value: &Value) -> Result<(), AnnotateError> {
        self.line(&value.to_string())
    }

    fn finish(mut self) -> Result<(), AnnotateError> {
        self.file.flush().map_err(|source| AnnotateError::Write { path: self.path, source })
    }
}
