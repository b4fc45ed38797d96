//! Operations on data sets of any format: converting, checking, describing, splitting, removing
//! duplicates, sampling distractors.

pub mod check;
pub mod compared;
pub mod convert;
pub mod dedupe;
pub mod describe;
pub mod distractors;
pub mod numpy_random;
pub mod public;
pub mod python_random;
mod rows;
pub mod split;
mod target;

use crate::formats::source::Source;
use crate::formats::{FormatError, Record, RecordKind};
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// Extensions of the files that are read in a directory, before `.gz`.
const ENDINGS: [&str; 8] = ["jsonl", "json", "csv", "tsv", "txt", "parquet", "pkl", "pickle"];
/// Maximum depth of directories that are read.
const MAX_DEPTH: usize = 4;

/// The files at some paths with their formats, in reading order: documents, queries, labels, then the rest, because
/// later ones refer to earlier ones. Of a directory these are all files with a known extension, but of files of
/// judgments only those of one split: `test.tsv` and `test-00000-of-00002.parquet` belong to the split `test`. With an empty
/// `split`, a directory's judgments are left out.
///
/// # Errors
/// When a path cannot be read, a file matches none of the wanted formats (see [`Source::open`]), or a directory has
/// judgments but none of the split.
pub fn sources(paths: &[PathBuf], wanted: &str, split: &str) -> Result<Vec<Source>, FormatError> {
    let mut sources = Vec::new();
    for path in paths {
        if !path.is_dir() {
            sources.push(Source::open(path, wanted)?);
            continue;
        }
        let mut files = Vec::new();
        list(path, 0, &mut files)?;
        let (mut found, mut splits) = (Vec::new(), Vec::new());
        for file in &files {
            let source = Source::open(file, wanted)?;
            if source.format.holds == RecordKind::Judgments {
                if split.is_empty() {
                    continue;
                }
                splits.push(split_of(file));
                if split_of(file) != split {
                    continue;
                }
            }
            found.push(source);
        }
        splits.sort();
        splits.dedup();
        if found.is_empty() || !splits.is_empty() && splits.iter().all(|name| name != split) {
            return Err(FormatError::File {
                path: path.clone(),
                expected: format!("a directory of data files with judgments of the split {split}"),
                found: if splits.is_empty() {
                    "no data file".into()
                } else {
                    format!("the splits {}", splits.join(", "))
                },
                remedy: "name the files of one of them, or choose it with --split where the command has that"
                    .into(),
            });
        }
        sources.append(&mut found);
    }
    sort(&mut sources);
    Ok(sources)
}

/// Sorts sources into reading order: documents, queries, labels, then the rest, because later ones refer to earlier
/// ones.
pub fn sort(sources: &mut [Source]) {
    sources.sort_by_key(|source| match source.format.holds {
        RecordKind::Documents => 0,
        RecordKind::Queries => 1,
        RecordKind::Labels => 2,
        RecordKind::Pairs => 3,
        RecordKind::Judgments | RecordKind::Rankings => 4,
    });
}

fn list(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), FormatError> {
    let error = |source| FormatError::Read { path: directory.to_owned(), source };
    let mut entries =
        fs::read_dir(directory).map_err(error)?.collect::<Result<Vec<_>, _>>().map_err(error)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            if depth < MAX_DEPTH {
                list(&path, depth + 1, files)?;
            }
        } else if is_data_file(&name) && !name.starts_with("dataset_info") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns whether a file with this name, in lower case, is read if it is in a given directory.
fn is_data_file(name: &str) -> bool {
    let ending = name.trim_end_matches(".gz").rsplit_once('.');
    ending.is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

fn split_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').next().unwrap_or_default();
    match stem.find("-0") {
        Some(shard) => stem[..shard].to_owned(),
        None => stem.to_owned(),
    }
}

/// Reads the records of all sources, in their order.
///
/// # Errors
/// The first invalid record, an error of `each`, or when a file cannot be read.
pub fn for_each(
    sources: &[Source],
    each: &mut dyn FnMut(&Source, Record) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    sources.iter().try_for_each(|source| source.for_each(&mut |record| each(source, record)))
}

/// Replaces runs of white space by one space, and trims the ends.
pub(crate) fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A hash that replaces a text if only equality matters; the texts of a whole data set would not fit in memory.
pub(crate) fn key(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}
