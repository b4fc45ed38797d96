//! A directory of source files.

use std::collections::BTreeMap;

use quarry_corpus::git;
use quarry_walk::{FileFlags, ListedFile, WalkOptions, base_directory, list, open, read, resolved};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::error::FactoryError;
use crate::function::{Origin, extract_records};
use crate::plan::SourcePlan;
use crate::record::CodeRecord;
use crate::step::hexadecimal;

/// Files that are in memory at the same time.
const FILES_AT_ONCE: usize = 256;

/// A directory whose files were listed and hashed.
pub(super) struct Directory {
    files: Vec<ListedFile>,
    tests: bool,
    skipped: usize,
    commit: Option<String>,
    hash: String,
}

/// What became of a file.
enum File {
    Read {
        hash: [u8; 32],
        records: Vec<CodeRecord>,
        bytes: usize,
    },
    /// Code that is not taken: tests and the like.
    LeftOut([u8; 32]),
    Unreadable,
}

impl Directory {
    pub(super) fn open(plan: &SourcePlan, tests: bool) -> Result<Self, FactoryError> {
        let listing = list(&plan.path, &WalkOptions::default())?;
        let mut directory = Self {
            files: listing.files,
            tests,
            skipped: listing.skipped.len(),
            commit: git::head(&plan.path),
            hash: String::new(),
        };
        if directory.files.is_empty() {
            return Err(FactoryError::Source {
                name: plan.name.clone(),
                problem: format!(
                    "{}: expected files in a known language, found none; `quarry status` says what is left out and why",
                    plan.path.display()
                ),
            });
        }
        directory.hash = directory.visit(plan, false, &mut |_| Ok(()))?;
        Ok(directory)
    }

    pub(super) fn commit(&self) -> Option<&str> {
        self.commit.as_deref()
    }

    /// Stands for the names and texts of all files.
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn read(
        &self,
        plan: &SourcePlan,
        counts: &mut BTreeMap<String, u64>,
        each: &mut dyn FnMut(CodeRecord) -> Result<(), FactoryError>,
    ) -> Result<(), FactoryError> {
        let (mut n_files, mut n_left_out, mut n_unreadable, mut n_bytes, mut n_functions) = (0, 0, 0, 0, 0);
        let hash = self.visit(plan, true, &mut |file| {
            match file {
                File::Read { records, bytes, .. } => {
                    n_files += 1;
                    n_bytes += bytes as u64;
                    n_functions += records.len() as u64;
                    records.into_iter().try_for_each(&mut *each)?;
                }
                File::LeftOut(_) => n_left_out += 1,
                File::Unreadable => n_unreadable += 1,
            }
            Ok(())
        })?;
        if hash != self.hash {
            return Err(FactoryError::Source {
                name: plan.name.clone(),
                problem: format!(
                    "{}: the files changed while they were read; build again when nothing writes there",
                    plan.path.display()
                ),
            });
        }
        for (name, count) in [
            ("files", n_files),
            ("files of tests and the like", n_left_out),
            ("unreadable files", n_unreadable),
            ("files in no known language", self.skipped as u64),
            ("bytes", n_bytes),
            ("functions", n_functions),
        ] {
            counts.insert(name.to_owned(), count);
        }
        Ok(())
    }

    /// Reads all files, some at a time, in their order; stands for their names and texts.
    fn visit(
        &self,
        plan: &SourcePlan,
        extract: bool,
        each: &mut dyn FnMut(File) -> Result<(), FactoryError>,
    ) -> Result<String, FactoryError> {
        let options = WalkOptions::default();
        let root = &*resolved(&plan.path);
        let base = open(base_directory(root)?)?;
        let origin = |path: &str| Origin {
            source: plan.name.clone(),
            repository: plan.repository.clone().unwrap_or_else(|| plan.name.clone()),
            commit: self.commit.clone(),
            path: path.to_owned(),
            license: plan.license.clone(),
        };
        let read = |file: &ListedFile| match read(&base, file, &options) {
            Err(_) => File::Unreadable,
            Ok(content) => {
                let hash = Sha256::digest(content.text.bytes()).into();
                let is_other = !content.flags.difference(FileFlags::DOCUMENTATION).is_empty();
                if is_other && !self.tests {
                    return File::LeftOut(hash);
                }
                let records = match extract {
                    true => extract_records(&origin(&file.path), file.language, &content.text),
                    false => Vec::new(),
                };
                File::Read { hash, records, bytes: content.text.bytes().len() }
            }
        };
        let mut hash = Sha256::new();
        for files in self.files.chunks(FILES_AT_ONCE) {
            let contents: Vec<File> = files.par_iter().map(read).collect();
            for (file, content) in files.iter().zip(contents) {
                hash.update((file.path.len() as u64).to_le_bytes());
                hash.update(&file.path);
                match &content {
                    File::Read { hash: of_file, .. } | File::LeftOut(of_file) => hash.update(of_file),
                    File::Unreadable => hash.update([0]),
                }
                each(content)?;
            }
        }
        Ok(hexadecimal(&hash.finalize()))
    }
}
