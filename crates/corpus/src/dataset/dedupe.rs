//! Removes duplicates, and rows that another data set contains too.

use super::compared::compared_text;
use super::rows::{row_writer, writable};
use super::{key, normalized};
use crate::formats::source::Source;
use crate::formats::write::{Staged, Writer};
use crate::formats::{FormatError, Record, Row, Side};
use quarry_text::near::NearIndex;
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// When two texts count as equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Equality {
    Exact,
    /// Ignoring differences in white space.
    Normalized,
    /// When their similarity is at least this, see [`NearIndex`]; comments in code do not count.
    Near(f64),
}

/// The compared texts of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedText {
    Query,
    /// The code, or the document. Separate queries are kept.
    Code,
    Pair,
}

/// The result of removing duplicates.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DedupeReport {
    /// Number of rows read.
    pub rows: usize,
    /// Number of rows whose text occurred before in the same data set.
    pub repeated: usize,
    /// Number of other rows whose text is in the other data set.
    pub leaked: usize,
    /// Number of distinct texts of the other data set that were found.
    pub leaking: usize,
    /// Number of remaining rows.
    pub kept: usize,
    /// The first matches.
    pub examples: Vec<Duplicate>,
}

/// A row with the one that it duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Duplicate {
    /// The row, as `file:line`.
    pub row: String,
    /// The other, as `file:line`.
    pub same_as: String,
    /// True if the other is in the other data set.
    pub is_leak: bool,
}

/// Finds rows of `sources` that duplicate earlier ones or one of `against`, reports at most `max_examples` of them,
/// and writes the others unchanged to `out`: a file for one source, a directory for several. Keeps hashes of the
/// texts in memory, or of their token n-grams for [`Equality::Near`].
///
/// # Errors
/// An invalid row, or when `out` exists or cannot be written.
pub fn dedupe(
    sources: &[Source],
    against: &[Source],
    (same, on): (Equality, ComparedText),
    out: Option<&Path>,
    max_examples: usize,
) -> Result<DedupeReport, FormatError> {
    let staged = out.map(Staged::new).transpose()?;
    let mut theirs = SeenTexts::new(same);
    for source in against {
        source.for_each_row(&mut |row| {
            let row = row?;
            if let Some(text) = text_of(source, &row, (same, on))?
                && theirs.find(&text).is_none()
            {
                theirs.add(&text, position(source, &row));
            }
            Ok(())
        })?;
    }
    let mut ours = SeenTexts::new(same);
    let mut report =
        DedupeReport { rows: 0, repeated: 0, leaked: 0, leaking: 0, kept: 0, examples: Vec::new() };
    let mut leaking = std::collections::HashSet::new();
    for source in sources {
        let mut writer = match &staged {
            None => None,
            Some(staged) => {
                writable(source)?;
                let name = source.path.file_name().unwrap_or_default().to_string_lossy();
                let path = if sources.len() == 1 {
                    staged.path.clone()
                } else {
                    staged.path.join(name.trim_end_matches(".gz"))
                };
                Some(row_writer(&path, source)?)
            }
        };
        source.for_each_row(&mut |row| {
            let row = row?;
            report.rows += 1;
            let found = match text_of(source, &row, (same, on))? {
                None => None,
                Some(text) => {
                    let found = ours.find(&text).map(|other| (false, other));
                    let found = found.or_else(|| theirs.find(&text).map(|other| (true, other)));
                    if found.is_none() {
                        ours.add(&text, position(source, &row));
                    }
                    found
                }
            };
            let Some((is_leak, other)) = found else {
                report.kept += 1;
                return writer.as_mut().map_or(Ok(()), |writer| writer.write_text(row.line.text));
            };
            if is_leak {
                report.leaked += 1;
                leaking.insert(other);
            } else {
                report.repeated += 1;
            }
            if report.examples.len() < max_examples {
                let same_as = if is_leak { theirs.named(other) } else { ours.named(other) };
                let (path, number) = position(source, &row);
                report.examples.push(Duplicate { row: named(&path, number), same_as, is_leak });
            }
            Ok(())
        })?;
        writer.map(Writer::finish).transpose()?;
    }
    report.leaking = leaking.len();
    staged.map_or(Ok(()), Staged::publish)?;
    Ok(report)
}

fn position(source: &Source, row: &Row<'_>) -> (PathBuf, usize) {
    (source.path.clone(), row.line.number)
}

fn named(path: &Path, number: usize) -> String {
    format!("{}:{number}", path.display())
}

/// The text to compare; `None` for a row without one, or one that refers to a text in another file by its id.
fn text_of(
    source: &Source,
    row: &Row<'_>,
    (same, on): (Equality, ComparedText),
) -> Result<Option<String>, FormatError> {
    let code = |text: &str, language: Option<&str>| match same {
        Equality::Near(_) => compared_text(text, language),
        Equality::Exact | Equality::Normalized => text.to_owned(),
    };
    let mut text = None;
    (source.format.read)(row, &mut |record| {
        let is_elsewhere = |side: &Side| side.id.is_some() && side.text.is_empty();
        let own = match (record, on) {
            (Record::Pair(pair), ComparedText::Code) if is_elsewhere(&pair.code) => None,
            (Record::Pair(pair), ComparedText::Query) if is_elsewhere(&pair.query) => None,
            (Record::Pair(pair), ComparedText::Pair)
                if is_elsewhere(&pair.query) || is_elsewhere(&pair.code) =>
            {
                None
            }
            (Record::Pair(pair), ComparedText::Query) => Some(pair.query.text),
            (Record::Pair(pair), ComparedText::Code) => {
                Some(code(&pair.code.text, pair.language_name().as_deref()))
            }
            (Record::Pair(pair), ComparedText::Pair) => {
                let code = code(&pair.code.text, pair.language_name().as_deref());
                Some(format!("{}\n{code}", pair.query.text))
            }
            (Record::Query(query), ComparedText::Query | ComparedText::Pair) => Some(query.text),
            (Record::Document(document), ComparedText::Code | ComparedText::Pair) => {
                Some(code(&document.full_text(), document.language_name().as_deref()))
            }
            _ => None,
        };
        text = text.take().or(own);
        Ok(())
    })?;
    Ok(text)
}

/// The texts seen so far, with their positions.
struct SeenTexts {
    same: Equality,
    hashes: HashMap<u128, usize>,
    near: NearIndex,
    positions: Vec<(u32, usize)>,
    paths: Vec<PathBuf>,
}

impl SeenTexts {
    fn new(same: Equality) -> Self {
        let threshold = if let Equality::Near(threshold) = same { threshold } else { 1.0 };
        Self {
            same,
            hashes: HashMap::new(),
            near: NearIndex::new(threshold),
            positions: Vec::new(),
            paths: Vec::new(),
        }
    }

    /// The index of the first equal text.
    fn find(&self, text: &str) -> Option<usize> {
        self.hashes.get(&self.hash(text)).copied().or_else(|| match self.same {
            Equality::Near(_) => self.near.find(text),
            Equality::Exact | Equality::Normalized => None,
        })
    }

    fn add(&mut self, text: &str, (path, number): (PathBuf, usize)) {
        self.hashes.insert(self.hash(text), self.positions.len());
        if let Equality::Near(_) = self.same {
            self.near.add(text);
        }
        if self.paths.last() != Some(&path) {
            self.paths.push(path);
        }
        self.positions.push((self.paths.len() as u32 - 1, number));
    }

    fn hash(&self, text: &str) -> u128 {
        if self.same == Equality::Exact { key(text) } else { key(&normalized(text)) }
    }

    fn named(&self, index: usize) -> String {
        let (path, number) = self.positions[index];
        named(&self.paths[path as usize], number)
    }
}
