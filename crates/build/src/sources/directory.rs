//! A directory of source files.

use std::path::{Path, PathBuf};
use std::time::Instant;

use quarry_files::{hexadecimal, sha256};
use quarry_history as git;
use quarry_walk::{ListedFile, WalkOptions, base_directory, list, open, read, resolved};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::files::{FILES_AT_ONCE, FILES_PER_SAMPLE, File, Reading, Tally};
use super::licenses::Licenses;
use super::{Content, Counts, Sample, SampleLimits, TakeRecord, changed, wrong};
use crate::error::BuildError;
use crate::plan::SourcePlan;
use crate::sources::license::is_license_file;

pub(crate) struct Directory<'p> {
    reading: Reading<'p>,
    files: Vec<ListedFile>,
    skipped: usize,
    hash: String,
}

impl<'p> Directory<'p> {
    pub(crate) fn open(
        plan: &'p SourcePlan,
        tests: bool,
        plan_file: &Path,
        is_hashed: bool,
    ) -> Result<Self, BuildError> {
        let mut listing = list(&plan.path, &WalkOptions::default())?;
        if let Some(own) = path_below(base_directory(&resolved(&plan.path))?, plan_file) {
            listing.files.retain(|file| Path::new(&file.path) != own);
        }
        if listing.files.is_empty() {
            return Err(wrong(
                plan,
                "expected files in a known language, found none; run `quarry status` to list what is left out and why",
            ));
        }
        let base = open(base_directory(&resolved(&plan.path))?)?;
        let listed = listing.files.iter().map(|file| &file.path);
        let paths = listed.chain(listing.skipped.iter().map(|file| &file.path));
        let licenses = Licenses::new(
            plan.license.as_deref(),
            paths.filter(|path| is_license_file(path)).cloned().collect(),
            &mut |path, limit| base.read(Path::new(path), limit).ok(),
        );
        let mut directory = Self {
            reading: Reading { plan, commit: git::head(&plan.path), licenses, tests },
            files: listing.files,
            skipped: listing.skipped.len(),
            hash: String::new(),
        };
        if is_hashed {
            let files = directory.visit(false, &directory.files, &mut |_| Ok(()))?;
            directory.hash = directory.with_licenses(&files);
        }
        Ok(directory)
    }

    /// Combines the hash of the files with the texts of licenses, which are not source files.
    fn with_licenses(&self, files: &str) -> String {
        let licenses = serde_json::to_string(&self.reading.licenses).unwrap_or_default();
        sha256(format!("{files}{licenses}"))
    }

    /// Reads files in order, several at a time; returns a hash of their names and texts. Functions are extracted
    /// only if requested.
    fn visit(
        &self,
        extract: bool,
        files: &[ListedFile],
        each: &mut dyn FnMut(File) -> Result<(), BuildError>,
    ) -> Result<String, BuildError> {
        let options = WalkOptions::default();
        let root = &*resolved(&self.reading.plan.path);
        let base = open(base_directory(root)?)?;
        let read = |file: &ListedFile| match read(&base, file, &options) {
            Err(_) => (None, File::Unreadable),
            Ok(content) => {
                let hash = Sha256::digest(content.text.bytes());
                let file = match extract {
                    true => self.reading.extract(&file.path, file.language, &content),
                    false => File::LeftOut,
                };
                (Some(hash), file)
            }
        };
        let mut hash = Sha256::new();
        for files in files.chunks(FILES_AT_ONCE) {
            let contents: Vec<_> = files.par_iter().map(read).collect();
            for (file, (of_file, content)) in files.iter().zip(contents) {
                hash.update((file.path.len() as u64).to_le_bytes());
                hash.update(&file.path);
                match of_file {
                    Some(of_file) => hash.update(of_file),
                    None => hash.update([0]),
                }
                each(content)?;
            }
        }
        Ok(hexadecimal(&hash.finalize()))
    }
}

fn path_below(directory: &Path, file: &Path) -> Option<PathBuf> {
    let [directory, file] = [directory, file].map(|path| path.canonicalize().ok());
    Some(file?.strip_prefix(directory?).ok()?.to_owned())
}

impl Content for Directory<'_> {
    fn hash(&self) -> &str {
        &self.hash
    }

    fn commit(&self) -> Option<&str> {
        self.reading.commit.as_deref()
    }

    fn read(&self, each: &mut TakeRecord<'_>) -> Result<Counts, BuildError> {
        let mut tally = Tally::default();
        tally.skip(self.skipped);
        let hash = self.visit(true, &self.files, &mut |file| tally.add(file, each))?;
        if self.with_licenses(&hash) != self.hash {
            return Err(changed(self.reading.plan));
        }
        Ok(tally.counts())
    }

    fn sample(&self, limits: &SampleLimits, each: &mut TakeRecord<'_>) -> Result<Sample, BuildError> {
        let chosen: Vec<ListedFile> =
            limits.chosen(self.files.len()).into_iter().map(|number| self.files[number].clone()).collect();
        let (mut tally, mut n_read, mut blocks) = (Tally::default(), 0, Vec::new());
        for files in chosen.chunks(FILES_PER_SAMPLE) {
            if limits.is_over() {
                break;
            }
            self.visit(true, files, &mut |file| tally.add(file, each))?;
            n_read += files.len();
            blocks.push((n_read, Instant::now()));
        }
        Ok(Sample::from_files(self.files.len(), n_read, &blocks))
    }
}
