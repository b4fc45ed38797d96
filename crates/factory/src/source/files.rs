//! Files of a source tree, from any kind of source.

use quarry_source::{Language, language_for};
use quarry_walk::{Content, FileFlags, SkipReason, WalkOptions, read_member};
use rayon::prelude::*;

use super::licenses::Licenses;
use super::{Counts, LEFT_OUT, TakeRecord, UNKNOWN_FILES, UNREADABLE};
use crate::error::FactoryError;
use crate::function::{Origin, block_records, extract_records};
use crate::plan::{SourcePlan, Units};
use crate::record::CodeRecord;

/// Maximum number of files in memory at a time, and their total size in bytes.
pub(super) const FILES_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 64 << 20;

/// Number of files of a sample that are read at a time.
pub(super) const FILES_PER_SAMPLE: usize = 32;

/// How to process the files of a source.
#[derive(Clone)]
pub(super) struct Reading<'p> {
    pub(super) plan: &'p SourcePlan,
    pub(super) commit: Option<String>,
    pub(super) licenses: Licenses,
    /// Whether tests and the like are read too.
    pub(super) tests: bool,
}

/// The outcome of processing a file.
pub(super) enum File {
    Read {
        records: Vec<CodeRecord>,
        bytes: usize,
    },
    /// Code that is excluded: tests and the like.
    LeftOut,
    /// A file in an unknown language.
    Unknown,
    Unreadable,
}

impl Reading<'_> {
    /// Whether code is excluded because it is a test or the like.
    pub(super) fn is_excluded(&self, content: &Content) -> bool {
        !self.tests && !content.flags.difference(FileFlags::DOCUMENTATION).is_empty()
    }

    /// Extracts the functions of a file.
    pub(super) fn extract(&self, path: &str, language: Language, content: &Content) -> File {
        if self.is_excluded(content) {
            return File::LeftOut;
        }
        let bytes = content.text.bytes();
        // If languages share an extension, the content determines the language.
        let language = language_for(path.as_ref(), bytes).unwrap_or(language);
        let plan = self.plan;
        let mut origin = Origin {
            source: plan.name.clone(),
            repository: plan.repository.clone().unwrap_or_else(|| plan.name.clone()),
            commit: self.commit.clone(),
            path: path.to_owned(),
            license: self.licenses.of(path, language, bytes),
        };
        if let (Some(licenses), Some((project, _))) = (&plan.project_licenses, path.split_once('/')) {
            origin.repository = project.to_owned();
            origin.license = licenses.get(project).cloned().or(origin.license);
        }
        let records = match plan.units {
            Units::Functions => extract_records(&origin, language, &content.text),
            Units::Comments => block_records(&origin, language, bytes, plan),
        };
        File::Read { records, bytes: bytes.len() }
    }
}

/// Number of files by outcome.
#[derive(Default)]
pub(super) struct Tally {
    files: u64,
    left_out: u64,
    unknown: u64,
    unreadable: u64,
    bytes: u64,
    functions: u64,
}

impl Tally {
    /// Counts a file, and calls `each` with its functions.
    pub(super) fn add(&mut self, file: File, each: &mut TakeRecord<'_>) -> Result<(), FactoryError> {
        match file {
            File::Read { records, bytes } => {
                self.files += 1;
                self.bytes += bytes as u64;
                self.functions += records.len() as u64;
                records.into_iter().try_for_each(each)?;
            }
            File::LeftOut => self.left_out += 1,
            File::Unknown => self.unknown += 1,
            File::Unreadable => self.unreadable += 1,
        }
        Ok(())
    }

    /// Counts files that were not read, because their names are not those of a known language.
    pub(super) fn skip(&mut self, n_files: usize) {
        self.unknown += n_files as u64;
    }

    pub(super) fn counts(self) -> Counts {
        [
            ("files", self.files),
            (LEFT_OUT, self.left_out),
            (UNREADABLE, self.unreadable),
            (UNKNOWN_FILES, self.unknown),
            ("bytes", self.bytes),
            ("functions", self.functions),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into()
    }
}

/// Collects files one by one, and processes batches of them in parallel.
pub(super) struct Batches<'b> {
    reading: Reading<'b>,
    options: WalkOptions,
    each: &'b mut TakeRecord<'b>,
    pending: Vec<(String, Vec<u8>)>,
    n_bytes: usize,
    pub(super) tally: Tally,
}

impl<'b> Batches<'b> {
    pub(super) fn new(reading: Reading<'b>, options: WalkOptions, each: &'b mut TakeRecord<'b>) -> Self {
        Self { reading, options, each, pending: Vec::new(), n_bytes: 0, tally: Tally::default() }
    }

    /// Adds a file with its path, `/` between its parts.
    pub(super) fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<(), FactoryError> {
        self.n_bytes += bytes.len();
        self.pending.push((path, bytes));
        if self.pending.len() >= FILES_AT_ONCE || self.n_bytes >= BYTES_AT_ONCE {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Counts a file that cannot be read.
    pub(super) fn add_unreadable(&mut self) {
        self.tally.unreadable += 1;
    }

    fn flush(&mut self) -> Result<(), FactoryError> {
        let read = |(path, bytes): (String, Vec<u8>)| match read_member(&path, bytes, &self.options) {
            Ok((language, content)) => self.reading.extract(&path, language, &content),
            Err(SkipReason::UnknownLanguage) => File::Unknown,
            Err(_) => File::Unreadable,
        };
        let files: Vec<File> = std::mem::take(&mut self.pending).into_par_iter().map(read).collect();
        self.n_bytes = 0;
        files.into_iter().try_for_each(|file| self.tally.add(file, self.each))
    }

    pub(super) fn finish(mut self) -> Result<Counts, FactoryError> {
        self.flush()?;
        Ok(self.tally.counts())
    }
}
