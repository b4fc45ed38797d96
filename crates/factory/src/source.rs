//! Sources: from what a plan names to records of functions.

mod directory;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::error::FactoryError;
use crate::jsonl::Writer;
use crate::plan::{SourceKind, SourcePlan};
use crate::step::Step;

/// Changes when the same source gives other records.
const VERSION: u32 = 1;

/// The records of a source, in its step's directory.
pub(crate) const RECORDS: &str = "records.jsonl";

/// What the records of a source depend on.
#[derive(Debug, Serialize)]
struct Identity<'p> {
    name: &'p str,
    kind: SourceKind,
    repository: Option<&'p str>,
    license: Option<&'p str>,
    commit: Option<&'p str>,
    tests: bool,
    /// Stands for all that is read.
    content: &'p str,
}

/// A source that was looked at.
pub(crate) struct Opened<'p> {
    plan: &'p SourcePlan,
    tests: bool,
    content: directory::Directory,
}

impl<'p> Opened<'p> {
    /// Lists and hashes what is there.
    ///
    /// # Errors
    /// When there is nothing, or it cannot be read.
    pub(crate) fn open(plan: &'p SourcePlan, tests: bool) -> Result<Self, FactoryError> {
        let content = match plan.kind {
            SourceKind::Directory => directory::Directory::open(plan, tests)?,
        };
        Ok(Self { plan, tests, content })
    }

    /// The step that reads it.
    pub(crate) fn step(&self) -> Step {
        let identity = Identity {
            name: &self.plan.name,
            kind: self.plan.kind,
            repository: self.plan.repository.as_deref(),
            license: self.plan.license.as_deref(),
            commit: self.content.commit(),
            tests: self.tests,
            content: self.content.hash(),
        };
        Step::new(format!("source {}", self.plan.name), VERSION, &identity, &[])
    }

    /// Writes the records of all its functions to a step's directory; how many files and functions there are.
    ///
    /// # Errors
    /// When it cannot be read, has changed since it was opened, or the records cannot be written.
    pub(crate) fn write(&self, step: &Path) -> Result<BTreeMap<String, u64>, FactoryError> {
        let mut writer = Writer::create(&step.join(RECORDS))?;
        let mut counts = BTreeMap::new();
        self.content.read(self.plan, &mut counts, &mut |record| writer.write(&record))?;
        writer.finish()?;
        Ok(counts)
    }
}
