//! Exporting labels as data sets.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use quarry_corpus::dataset::convert::{Converted, WrittenFile};
use quarry_corpus::dataset::{self, convert};
use quarry_corpus::formats::cosqa_plus;
use quarry_corpus::formats::query_code::PAIRS;
use serde_json::{Value, json};

use crate::error::JudgeError;
use crate::ledger::{GeneratedCode, JudgedPair, Ledger};
use crate::pair::Pair;

#[derive(Clone, Copy, Debug)]
pub struct ExportRequest<'a> {
    pub target: convert::Target,
    pub split: &'a str,
    pub graded: bool,
    pub renumber: bool,
    /// Merge of different labels of one query and code, in formats that allow only one.
    pub grades: convert::Grades,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSummary {
    pub files: Vec<WrittenFile>,
    /// The file that lists generated code and the number of codes in it, if any.
    pub generated: Option<(PathBuf, usize)>,
    /// Pairs of the plan without a label, which are omitted.
    pub unlabeled: u64,
    /// Omitted pairs with label 0, if the format holds positive pairs only.
    pub negatives: usize,
    /// Omitted generated codes, which neither people nor the judge accepted.
    pub rejected: usize,
    /// Pairs in another language than the one that readers of the format assume for all code.
    pub foreign: usize,
    /// Labels without a grade, if grades were requested.
    pub ungraded: u64,
}

/// Writes the labels of `judge` to `out`. Generated code that answers its query is included with label 1, and a
/// separate file lists what was generated.
///
/// # Errors
/// When `out` already exists or cannot be written, the format cannot represent the labels, or there are none.
pub fn export(
    ledger: &Ledger,
    judge: i64,
    export: &ExportRequest<'_>,
    out: &Path,
) -> Result<ExportSummary, JudgeError> {
    let directory =
        tempfile::tempdir().map_err(|source| JudgeError::Write { path: std::env::temp_dir(), source })?;
    let mut generated = ledger.generated(judge)?;
    let n_generated = generated.len();
    generated.retain(GeneratedCode::is_accepted);
    let is_foreign = |pair: &Pair| export.target.language().is_some_and(|language| pair.language != language);
    let (mut whole_ids, mut maximum) = (true, [-1; 2]);
    let (mut labeled, mut unlabeled, mut ungraded) = (0, ledger.n_waiting(judge)?, 0);
    // The number of pairs with label 0, and of the others.
    let mut foreign = [0, generated.iter().filter(|code| is_foreign(&code.pair)).count()];
    ledger.for_each_decided(judge, |decided| {
        let JudgedPair { pair, verdict } = &decided;
        match label(&decided, export.graded) {
            Some(label) => {
                labeled += 1;
                ungraded += u64::from(export.graded && verdict.grade.is_none());
                foreign[usize::from(label > 0)] += usize::from(is_foreign(pair));
            }
            None => unlabeled += 1,
        }
        let ids = [&pair.id, &pair.code_id, &pair.query_id].map(|id| id.parse::<i64>());
        whole_ids &= ids.iter().all(Result::is_ok);
        for (maximum, id) in maximum.iter_mut().zip(ids) {
            *maximum = id.unwrap_or_default().max(*maximum);
        }
        Ok(())
    })?;
    if labeled == 0 && generated.is_empty() {
        return Err(JudgeError::Ledger {
            path: ledger.path().to_owned(),
            problem: "no pair has a label yet; run `quarry judge run` to continue, or `quarry judge status` for the reason"
                .to_owned(),
            source: None,
        });
    }
    if whole_ids && !export.graded {
        number(&mut generated, maximum);
    }
    let labels = ExportedLabels { ledger, judge, generated: &generated, graded: export.graded };
    // Grades require a format that holds them.
    let (path, from) = match export.graded {
        false => (write_pairs(&labels, directory.path())?, PAIRS.name),
        true => (write_benchmark(&labels, directory.path(), export)?, ""),
    };
    let sources = dataset::sources(&[path], from, export.split)?;
    let renumber = export.renumber || !whole_ids && export.target.name() == cosqa_plus::PAIRS.name;
    let options =
        convert::ConvertOptions { renumber, grades: export.grades, ..convert::ConvertOptions::default() };
    let Converted { files, negatives, .. } =
        convert::convert(&sources, export.target, out, export.split, &options)?;
    let mut exported = ExportSummary {
        files,
        generated: None,
        unlabeled,
        negatives,
        rejected: n_generated - generated.len(),
        foreign: foreign[1] + if negatives > 0 { 0 } else { foreign[0] },
        ungraded,
    };
    if !generated.is_empty() {
        // Inside the directory, it would be read as part of the data set.
        let path = out.with_added_extension("generated.jsonl");
        write_generated(&generated, &path)?;
        exported.generated = Some((path, generated.len()));
    }
    Ok(exported)
}

/// Numbers pairs of generated code after the largest numbers of other pairs and codes, as CoSQA+ does. Code written
/// for several queries is one code.
fn number(generated: &mut [GeneratedCode], maximum: [i64; 2]) {
    let mut codes: HashMap<String, i64> = HashMap::new();
    for (number, code) in (1..).zip(generated) {
        let Pair { id, code_id, .. } = &mut code.pair;
        let next = maximum[1] + 1 + codes.len() as i64;
        *id = (maximum[0] + number).to_string();
        *code_id = codes.entry(std::mem::take(code_id)).or_insert(next).to_string();
    }
}

/// Exported data: the labels of a judge, and the code that was generated.
struct ExportedLabels<'a> {
    ledger: &'a Ledger,
    judge: i64,
    generated: &'a [GeneratedCode],
    graded: bool,
}

impl ExportedLabels<'_> {
    fn for_each(&self, mut each: impl FnMut(Pair, i32) -> Result<(), JudgeError>) -> Result<(), JudgeError> {
        self.ledger.for_each_decided(self.judge, |decided| match label(&decided, self.graded) {
            Some(label) => each(decided.pair, label),
            None => Ok(()),
        })?;
        self.generated.iter().try_for_each(|code| {
            let grade = code.verdict.as_ref().and_then(|verdict| verdict.grade).filter(|_| self.graded);
            each(code.pair.clone(), grade.map_or(1, i32::from))
        })
    }
}

fn write_generated(generated: &[GeneratedCode], path: &Path) -> Result<(), JudgeError> {
    let mut lines = JsonLines::create(path)?;
    for code in generated {
        let GeneratedCode { pair, round, model, prompt, status, person, verdict, .. } = code;
        lines.write(&json!({
            "query_id": pair.query_id, "code_id": pair.code_id, "query": pair.query, "code": pair.code,
            "model": model, "prompt": prompt, "round": round, "status": status, "person": person,
            "judged": verdict.as_ref().map(|verdict| verdict.outcome),
        }))?;
    }
    lines.finish()
}

fn label(decided: &JudgedPair, graded: bool) -> Option<i32> {
    let label = i32::from(decided.verdict.outcome.label()?);
    Some(decided.verdict.grade.filter(|_| graded).map_or(label, i32::from))
}

/// Writes one file with all that is known of each pair, one pair per line.
fn write_pairs(labels: &ExportedLabels<'_>, directory: &Path) -> Result<PathBuf, JudgeError> {
    let path = directory.join("pairs.jsonl");
    let mut lines = JsonLines::create(&path)?;
    labels.for_each(|pair, label| {
        let language = Some(&pair.language).filter(|language| !language.is_empty());
        lines.write(&json!({
            "id": pair.id, "query_id": pair.query_id, "query": pair.query, "code_id": pair.code_id,
            "code": pair.code, "label": label, "language": language,
        }))
    })?;
    lines.finish()?;
    Ok(path)
}

fn write_benchmark(
    labels: &ExportedLabels<'_>,
    directory: &Path,
    export: &ExportRequest<'_>,
) -> Result<PathBuf, JudgeError> {
    let qrels = directory.join("qrels").join(format!("{}.tsv", export.split));
    let directory_of = |source| JudgeError::Write { path: directory.to_owned(), source };
    fs::create_dir_all(directory.join("qrels")).map_err(directory_of)?;
    let mut corpus = JsonLines::create(&directory.join("corpus.jsonl"))?;
    let mut queries = JsonLines::create(&directory.join("queries.jsonl"))?;
    let mut judgments = JsonLines::create(&qrels)?;
    judgments.line("query-id\tcorpus-id\tscore")?;
    let (mut known_queries, mut known_codes) = (HashSet::new(), HashSet::new());
    labels.for_each(|pair, label| {
        if known_queries.insert(pair.query_id.clone()) {
            queries.write(&json!({"_id": pair.query_id, "text": pair.query}))?;
        }
        if known_codes.insert(pair.code_id.clone()) {
            let Pair { code_id, code, language, .. } = &pair;
            corpus.write(&json!({"_id": code_id, "title": "", "text": code, "language": language}))?;
        }
        judgments.line(&format!("{}\t{}\t{label}", pair.query_id, pair.code_id))
    })?;
    for lines in [corpus, queries, judgments] {
        lines.finish()?;
    }
    Ok(directory.to_owned())
}

struct JsonLines {
    path: PathBuf,
    file: BufWriter<File>,
}

impl JsonLines {
    fn create(path: &Path) -> Result<Self, JudgeError> {
        let file =
            File::create(path).map_err(|source| JudgeError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn line(&mut self, line: &str) -> Result<(), JudgeError> {
        writeln!(self.file, "{line}").map_err(|source| JudgeError::Write { path: self.path.clone(), source })
    }

    fn write(&mut self, value: &Value) -> Result<(), JudgeError> {
        self.line(&value.to_string())
    }

    fn finish(mut self) -> Result<(), JudgeError> {
        self.file.flush().map_err(|source| JudgeError::Write { path: self.path, source })
    }
}
