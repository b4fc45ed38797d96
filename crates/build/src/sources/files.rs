//! Files of a source tree, from any kind of source.

use quarry_source::{Language, language_for};
use quarry_walk::{Content, FileFlags, SkipReason, WalkOptions, read_member};
use rayon::prelude::*;

use super::licenses::Licenses;
use super::{Counts, LEFT_OUT, TakeRecord, UNKNOWN_FILES, UNREADABLE};
use crate::error::BuildError;
use crate::plan::{SourcePlan, Units};
use crate::record::CodeRecord;
use crate::sources::function::{Origin, block_records, extract_records};

/// Maximum number of files in memory at a time, and their total size in bytes.
pub(crate) const FILES_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 64 << 20;

/// Number of files of a sample that are read at a time.
pub(crate) const FILES_PER_SAMPLE: usize = 32;

#[derive(Clone)]
pub(crate) struct Reading<'p> {
    pub(crate) plan: &'p SourcePlan,
    pub(crate) commit: Option<String>,
    pub(crate) licenses: Licenses,
    /// If true, tests and the like are also read.
    pub(crate) tests: bool,
}

pub(crate) enum File {
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
    /// Returns whether code is excluded because it is a test or the like.
    pub(crate) fn is_excluded(&self, content: &Content) -> bool {
        !self.tests && !content.flags.difference(FileFlags::DOCUMENTATION).is_empty()
    }

    pub(crate) fn extract(&self, path: &str, language: Language, content: &Content) -> File {
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
            license: self.licenses.detect(path, language, bytes),
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

#[derive(Default)]
pub(crate) struct Tally {
    files: u64,
    left_out: u64,
    unknown: u64,
    unreadable: u64,
    bytes: u64,
    functions: u64,
}

impl Tally {
    /// Counts a file, and calls `each` with its functions.
    pub(crate) fn add(&mut self, file: File, each: &mut TakeRecord<'_>) -> Result<(), BuildError> {
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

    /// Counts files that were not read because their names do not indicate a known language.
    pub(crate) fn skip(&mut self, n_files: usize) {
        self.unknown += n_files as u64;
    }

    pub(crate) fn counts(self) -> Counts {
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
pub(crate) struct Batches<'b> {
    reading: Reading<'b>,
    options: WalkOptions,
    each: &'b mut TakeRecord<'b>,
    pending: Vec<(String, Vec<u8>)>,
    n_bytes: usize,
    pub(crate) tally: Tally,
}

impl<'b> Batches<'b> {
    pub(crate) fn new(reading: Reading<'b>, options: WalkOptions, each: &'b mut TakeRecord<'b>) -> Self {
        Self { reading, options, each, pending: Vec::new(), n_bytes: 0, tally: Tally::default() }
    }

    /// Adds a file with its path, `/` between its parts.
    pub(crate) fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<(), BuildError> {
        self.n_bytes += bytes.len();
        self.pending.push((path, bytes));
        if self.pending.len() >= FILES_AT_ONCE || self.n_bytes >= BYTES_AT_ONCE {
            self.flush()
        } else {
            Ok(())
        }
    }

    pub(crate) fn add_unreadable(&mut self) {
        self.tally.unreadable += 1;
    }

    fn flush(&mut self) -> Result<(), BuildError> {
        let read = |(path, bytes): (String, Vec<u8>)| match read_member(&path, bytes, &self.options) {
            Ok((language, content)) => self.reading.extract(&path, language, &content),
            Err(SkipReason::UnknownLanguage) => File::Unknown,
            Err(_) => File::Unreadable,
        };
        let files: Vec<File> = std::mem::take(&mut self.pending).into_par_iter().map(read).collect();
        self.n_bytes = 0;
        files.into_iter().try_for_each(|file| self.tally.add(file, self.each))
    }

    pub(crate) fn finish(mut self) -> Result<Counts, BuildError> {
        self.flush()?;
        Ok(self.tally.counts())
    }
}
