//! A commit of a git repository, read without a checkout.

use std::collections::HashMap;
use std::time::Instant;

use quarry_history::Snapshot;
use quarry_text::with_causes;
use quarry_walk::{WalkOptions, max_bytes_of_member};

use super::files::{Batches, FILES_PER_SAMPLE, Reading};
use super::licenses::Licenses;
use super::{Content, Counts, LINKS, NOT_UTF8, Sample, SampleLimits, TakeRecord, wrong};
use crate::error::BuildError;
use crate::plan::SourcePlan;
use crate::sources::license::is_license_file;

pub(crate) struct Commit<'p> {
    reading: Reading<'p>,
    snapshot: Snapshot,
    commit: String,
}

impl<'p> Commit<'p> {
    pub(crate) fn open(plan: &'p SourcePlan, tests: bool) -> Result<Self, BuildError> {
        let snapshot = Snapshot::open(&plan.path, plan.revision.as_deref())
            .map_err(|error| BuildError::Source { name: plan.name.clone(), problem: with_causes(&error) })?;
        let commit = snapshot.commit();
        let options = WalkOptions::default();
        if !snapshot.paths().any(|path| max_bytes_of_member(path, &options).is_some()) {
            return Err(wrong(
                plan,
                format!(
                    "expected files in a known language in the commit {commit}, found none among {}",
                    snapshot.paths().count()
                ),
            ));
        }
        let numbers: HashMap<&str, usize> = snapshot
            .paths()
            .enumerate()
            .filter(|(_, path)| is_license_file(path))
            .map(|(number, path)| (path, number))
            .collect();
        let licenses = Licenses::new(
            plan.license.as_deref(),
            numbers.keys().map(|path| (*path).to_owned()).collect(),
            &mut |path, limit| snapshot.content(*numbers.get(path)?, limit),
        );
        drop(numbers);
        let reading = Reading { plan, commit: Some(commit.clone()), licenses, tests };
        Ok(Self { reading, snapshot, commit })
    }
}

impl Content for Commit<'_> {
    /// The id of a commit is a hash of its files.
    fn hash(&self) -> &str {
        &self.commit
    }

    fn commit(&self) -> Option<&str> {
        Some(&self.commit)
    }

    fn read(&self, each: &mut TakeRecord<'_>) -> Result<Counts, BuildError> {
        let options = WalkOptions::default();
        let mut batches = Batches::new(self.reading.clone(), options, each);
        for (number, path) in self.snapshot.paths().enumerate() {
            match max_bytes_of_member(path, &options) {
                None => batches.tally.skip(1),
                Some(limit) => match self.snapshot.content(number, limit) {
                    Some(bytes) => batches.add(path.to_owned(), bytes)?,
                    None => batches.add_unreadable(),
                },
            }
        }
        let mut counts = batches.finish()?;
        counts.insert(LINKS.into(), self.snapshot.n_links() as u64);
        if self.snapshot.n_not_utf8() > 0 {
            counts.insert(NOT_UTF8.into(), self.snapshot.n_not_utf8() as u64);
        }
        Ok(counts)
    }

    fn sample(&self, limits: &SampleLimits, each: &mut TakeRecord<'_>) -> Result<Sample, BuildError> {
        let options = WalkOptions::default();
        let files: Vec<(usize, &str, u64)> = (self.snapshot.paths().enumerate())
            .filter_map(|(number, path)| Some((number, path, max_bytes_of_member(path, &options)?)))
            .collect();
        let chosen = limits.chosen(files.len());
        let (mut n_read, mut blocks) = (0, Vec::new());
        for numbers in chosen.chunks(FILES_PER_SAMPLE) {
            if limits.is_over() {
                break;
            }
            let mut batches = Batches::new(self.reading.clone(), options, each);
            for (number, path, limit) in numbers.iter().map(|number| files[*number]) {
                if let Some(bytes) = self.snapshot.content(number, limit) {
                    batches.add(path.to_owned(), bytes)?;
                }
            }
            batches.finish()?;
            n_read += numbers.len();
            blocks.push((n_read, Instant::now()));
        }
        Ok(Sample::from_files(files.len(), n_read, &blocks))
    }
}
