//! Checks data files and reports all problems, not only the first.

use super::key;
use crate::formats::source::Source;
use crate::formats::{FormatError, Record, RecordKind};
use std::collections::{HashMap, HashSet};

#[derive(Debug)]
pub struct Checked {
    pub source: Source,
    pub n_rows: usize,
    /// Number of errors, including those that are not listed.
    pub n_errors: usize,
    pub n_warnings: usize,
    /// The first problems, in the order of the file, up to the limit.
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub struct Problem {
    /// True if it may be intended, such as an empty text or a repeated record.
    pub is_warning: bool,
    /// The position, what was expected and found, and what to do.
    pub error: FormatError,
}

/// Checks files on their own and against each other: every row matches its format, ids are unique, and judgments,
/// rankings and labels refer to ids in the files of queries, documents and pairs, if there are such files. Lists at
/// most `max_listed` problems per file. Only hashes of ids and texts are kept in memory.
pub fn check(sources: &[Source], max_listed: usize) -> Result<Vec<Checked>, FormatError> {
    let mut known = SeenIds::new(sources);
    // Labels refer to pairs, so they are read after them, as in a conversion.
    let mut order: Vec<&Source> = sources.iter().collect();
    order.sort_by_key(|source| source.format.holds == RecordKind::Labels);
    order.into_iter().map(|source| known.check(source, max_listed)).collect()
}

/// Hashes of the ids in all files so far.
struct SeenIds {
    queries: Option<HashSet<u128>>,
    documents: Option<HashSet<u128>>,
    pairs: Option<HashSet<u128>>,
}

impl SeenIds {
    /// Ids are only known for records in a separate file; other references cannot be checked.
    fn new(sources: &[Source]) -> Self {
        let has = |holds| sources.iter().any(|source| source.format.holds == holds).then(HashSet::new);
        Self {
            queries: has(RecordKind::Queries),
            documents: has(RecordKind::Documents),
            pairs: has(RecordKind::Pairs),
        }
    }

    fn check(&mut self, source: &Source, max_listed: usize) -> Result<Checked, FormatError> {
        let mut checked =
            Checked { source: source.clone(), n_rows: 0, n_errors: 0, n_warnings: 0, problems: Vec::new() };
        // First line of each value of a unique field, and of each record.
        let mut first_lines: HashMap<u128, usize> = HashMap::new();
        let outcome = source.for_each_row(&mut |row| {
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    checked.add(Problem { is_warning: false, error }, max_listed);
                    return Ok(());
                }
            };
            for (field, value) in row.unique_values() {
                if let Some(first) = first_lines.insert(key(&format!("{field}\0{value}")), row.line.number) {
                    let error = row.line.error(
                        format!("each `{field}` once"),
                        format!("{value:?} again, first in {}", row.line.named(first)),
                        "remove one, or give it a different id",
                    );
                    checked.add(Problem { is_warning: false, error }, max_listed);
                }
            }
            let mut problems = Vec::new();
            let read = (source.format.read)(&row, &mut |record| {
                problems.extend(self.problems_of(&record).into_iter().map(
                    |(is_warning, expected, found)| {
                        let remedy = "fix the record, or remove it";
                        Problem { is_warning, error: row.line.error(expected, found, remedy) }
                    },
                ));
                if let Some(text) = identity(&record)
                    && let Some(first) = first_lines.insert(key(&text), row.line.number)
                {
                    let found = format!("the same again, first in {}", row.line.named(first));
                    let error = row.line.error("each record once", found, "quarry data dedupe removes it");
                    problems.push(Problem { is_warning: true, error });
                }
                Ok(())
            });
            problems.extend(read.err().map(|error| Problem { is_warning: false, error }));
            if problems.iter().all(|problem| problem.is_warning) {
                checked.n_rows += 1;
            }
            problems.into_iter().for_each(|problem| checked.add(problem, max_listed));
            Ok(())
        });
        match outcome {
            Err(error @ FormatError::Read { .. }) => return Err(error),
            Err(error) => checked.add(Problem { is_warning: false, error }, max_listed),
            Ok(()) if checked.n_rows == 0 && checked.n_errors == 0 => {
                let error = FormatError::empty(&source.path, "at least one record", "none");
                checked.add(Problem { is_warning: false, error }, max_listed);
            }
            Ok(()) => {}
        }
        Ok(checked)
    }

    /// Problems of a record that are not visible in its row alone, as tuples: whether it may be intended, what was
    /// expected, and what was found.
    fn problems_of(&mut self, record: &Record) -> Vec<(bool, String, String)> {
        let mut problems = Vec::new();
        let mut empty = |what: &str, text: &str| {
            if text.trim().is_empty() {
                problems.push((true, format!("a {what} with text"), "an empty one".to_owned()));
            }
        };
        match record {
            Record::Pair(pair) => {
                empty("query", &pair.query.text);
                // The texts of codes may be in the code base instead.
                if self.documents.is_none() || pair.code.id.is_none() {
                    empty("code", &pair.code.text);
                }
                add(&mut self.pairs, pair.id.as_deref());
                if let Some(id) = &pair.code.id {
                    problems.extend(unknown("code", id, self.documents.as_ref()));
                }
            }
            Record::Query(query) => {
                empty("query", &query.text);
                add(&mut self.queries, Some(&query.id));
            }
            Record::Document(document) => {
                empty("document", &document.full_text());
                add(&mut self.documents, Some(&document.id));
            }
            Record::Judgment(judgment) => {
                problems.extend(unknown("query", &judgment.query, self.queries.as_ref()));
                problems.extend(unknown("document", &judgment.document, self.documents.as_ref()));
            }
            Record::Retrieved(found) => {
                problems.extend(unknown("query", &found.query, self.queries.as_ref()));
                problems.extend(unknown("document", &found.document, self.documents.as_ref()));
            }
            Record::Label(label) => problems.extend(unknown("pair", &label.pair, self.pairs.as_ref())),
        }
        problems
    }
}

fn add(ids: &mut Option<HashSet<u128>>, id: Option<&str>) {
    if let (Some(ids), Some(id)) = (ids, id) {
        ids.insert(key(id));
    }
}

fn unknown(what: &str, id: &str, ids: Option<&HashSet<u128>>) -> Option<(bool, String, String)> {
    let missing = ids.is_some_and(|ids| !ids.contains(&key(id)));
    missing.then(|| (false, format!("the id of an existing {what}"), format!("{id:?}")))
}

/// The identity of a record: texts of a pair, ids of a judgment. Repeated ids are detected separately.
fn identity(record: &Record) -> Option<String> {
    match record {
        Record::Pair(pair) => Some(format!("\0{}\0{}", pair.query.text, pair.code.text)),
        Record::Judgment(judgment) => Some(format!("\0{}\0{}", judgment.query, judgment.document)),
        Record::Retrieved(found) => Some(format!("\0{}\0{}", found.query, found.document)),
        Record::Query(_) | Record::Document(_) | Record::Label(_) => None,
    }
}

impl Checked {
    fn add(&mut self, problem: Problem, max_listed: usize) {
        if problem.is_warning {
            self.n_warnings += 1;
        } else {
            self.n_errors += 1;
        }
        if self.problems.len() < max_listed {
            self.problems.push(problem);
        }
    }
}
