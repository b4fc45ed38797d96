//! Reading records of code from the sources of a plan.

mod archive;
pub(crate) mod calls;
pub(crate) mod comments;
mod data_set;
pub(crate) mod detect;
mod directory;
pub(crate) mod documented;
mod files;
pub(crate) mod filter;
pub(crate) mod function;
mod git;
pub(crate) mod graph;
pub(crate) mod license;
mod licenses;
pub(crate) mod pool;
pub(crate) mod snippet;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use quarry_walk::Stamp;
use serde::Serialize;

use crate::error::BuildError;
use crate::jsonl::Writer;
use crate::plan::{SourceKind, SourcePlan, Units};
use crate::record::CodeRecord;
use crate::step::Step;

/// Incremented when the same source leads to other records.
const VERSION: u32 = 8;

/// The records of a source, in its step's directory.
pub(crate) const RECORDS: &str = "records.jsonl";

type Counts = BTreeMap<String, u64>;

const LEFT_OUT: &str = "files of tests, examples, generated or vendored code";
const UNKNOWN_FILES: &str = "files in an unknown language";
const UNREADABLE: &str = "unreadable files";
const LINKS: &str = "links";
const NOT_UTF8: &str = "paths that are not UTF-8";
const UNKNOWN_CODES: &str = "codes in an unknown language";

/// The names of the counts of what was not read of a source.
pub(crate) const EXCLUSIONS: [&str; 6] =
    [LEFT_OUT, UNKNOWN_FILES, UNREADABLE, LINKS, NOT_UTF8, UNKNOWN_CODES];

type TakeRecord<'t> = dyn FnMut(CodeRecord) -> Result<(), BuildError> + 't;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sample {
    /// Number of files of the source that can be read, if known.
    pub(crate) files: Option<u64>,
    /// Share of the source that was read, if known.
    pub(crate) share: Option<f64>,
    /// Seconds that reading all of it takes, if known.
    pub(crate) seconds: Option<f64>,
}

impl Sample {
    /// A sample of `n_files` files, from the number that was read and the time at each block. The first block is not
    /// representative, as rules of languages are compiled when they are first needed.
    fn from_files(n_files: usize, n_read: usize, blocks: &[(usize, Instant)]) -> Self {
        let timed = blocks.first().zip(blocks.last()).filter(|(first, last)| last.0 > first.0);
        let seconds = timed.map(|((first, begin), (last, end))| {
            (*end - *begin).as_secs_f64() / (last - first) as f64 * n_files as f64
        });
        let share = n_read as f64 / n_files.max(1) as f64;
        Self { files: Some(n_files as u64), share: Some(share), seconds }
    }
}

pub(crate) trait Content {
    fn hash(&self) -> &str;

    fn commit(&self) -> Option<&str>;

    fn read(&self, each: &mut TakeRecord<'_>) -> Result<Counts, BuildError>;

    /// Passes the records of a part to `each`, until `limits` are reached.
    fn sample(&self, limits: &SampleLimits, each: &mut TakeRecord<'_>) -> Result<Sample, BuildError> {
        // Without random access, from the beginning.
        let (mut n_records, mut is_cut) = (0, false);
        let read = self.read(&mut |record| {
            if n_records >= limits.records || limits.begin.elapsed() > limits.time {
                is_cut = true;
                return Err(BuildError::Stopped);
            }
            n_records += 1;
            each(record)
        });
        match read {
            Err(BuildError::Stopped) if is_cut => Ok(Sample::default()),
            Err(error) => Err(error),
            Ok(counts) => Ok(Sample { files: counts.get("files").copied(), share: Some(1.0), seconds: None }),
        }
    }
}

pub(crate) struct SampleLimits {
    /// Maximum number of files, where these can be chosen.
    pub(crate) files: usize,
    /// Maximum number of records, elsewhere.
    pub(crate) records: usize,
    pub(crate) time: Duration,
    pub(crate) begin: Instant,
}

impl SampleLimits {
    /// The files to read of `n_files`: evenly spread ones, in random order, so that the first of them are, too.
    fn chosen(&self, n_files: usize) -> Vec<usize> {
        let n_chosen = self.files.min(n_files);
        let mut chosen: Vec<usize> = (0..n_chosen).map(|number| number * n_files / n_chosen).collect();
        fastrand::Rng::with_seed(0).shuffle(&mut chosen);
        chosen
    }

    fn is_over(&self) -> bool {
        self.begin.elapsed() > self.time
    }
}

#[derive(Debug, Serialize)]
struct Identity<'p> {
    name: &'p str,
    kind: SourceKind,
    repository: Option<&'p str>,
    license: Option<&'p str>,
    language: Option<&'p str>,
    commit: Option<&'p str>,
    tests: bool,
    units: Units,
    as_released: bool,
    library_lines: bool,
    /// Added later: without it, steps keep their names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    without_blank_lines: bool,
    project_licenses: Option<&'p BTreeMap<String, String>>,
    /// Hash of everything that is read.
    content: &'p str,
}

pub(crate) struct OpenedSource<'p> {
    pub(crate) plan: &'p SourcePlan,
    tests: bool,
    pub(crate) content: Box<dyn Content + 'p>,
}

impl<'p> OpenedSource<'p> {
    /// Lists the files, and hashes them if asked for: without the hashes, the step is not that of the source. The plan
    /// file is not one of them, so that changing it does not change a source that it is in.
    pub(crate) fn open(
        plan: &'p SourcePlan,
        tests: bool,
        plan_file: &Path,
        is_hashed: bool,
    ) -> Result<Self, BuildError> {
        let content: Box<dyn Content> = match plan.kind {
            SourceKind::Directory => Box::new(directory::Directory::open(plan, tests, plan_file, is_hashed)?),
            SourceKind::Git => Box::new(git::Commit::open(plan, tests)?),
            SourceKind::Archive => Box::new(archive::Archive::open(plan, tests, is_hashed)?),
            SourceKind::DataSet => Box::new(data_set::DataSet::open(plan, is_hashed)?),
        };
        Ok(Self { plan, tests, content })
    }

    pub(crate) fn step(&self) -> Step {
        let identity = Identity {
            name: &self.plan.name,
            kind: self.plan.kind,
            repository: self.plan.repository.as_deref(),
            license: self.plan.license.as_deref(),
            language: self.plan.language.as_deref(),
            commit: self.content.commit(),
            tests: self.tests,
            units: self.plan.units,
            as_released: self.plan.as_released,
            library_lines: self.plan.library_lines,
            without_blank_lines: !self.plan.blank_lines,
            project_licenses: self.plan.project_licenses.as_ref(),
            content: self.content.hash(),
        };
        Step::new(format!("source {}", self.plan.name), VERSION, &identity, &[])
    }

    /// Writes the records of all its code to a step's directory; returns counts.
    pub(crate) fn write(&self, step: &Path) -> Result<Counts, BuildError> {
        let mut writer = Writer::create(&step.join(RECORDS))?;
        let counts = self.content.read(&mut |record| writer.write(&record))?;
        writer.finish()?;
        Ok(counts)
    }
}

fn wrong(plan: &SourcePlan, problem: impl std::fmt::Display) -> BuildError {
    let problem = format!("{}: {problem}", plan.path.display());
    BuildError::Source { name: plan.name.clone(), problem }
}

fn changed(plan: &SourcePlan) -> BuildError {
    wrong(plan, "changed while it was read; build again when nothing writes there")
}

struct Stamped(Stamp);

impl Stamped {
    fn read(path: &Path) -> Result<Self, BuildError> {
        Ok(Self(Stamp::from_metadata(&std::fs::metadata(path).map_err(BuildError::read(path))?)))
    }

    fn check(&self, plan: &SourcePlan) -> Result<(), BuildError> {
        if Self::read(&plan.path)?.0 == self.0 { Ok(()) } else { Err(changed(plan)) }
    }
}

#[cfg(test)]
mod tests;
