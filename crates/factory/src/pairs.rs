//! The pairs of a build, for whoever looks at them.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::FactoryError;
use crate::jsonl;
use crate::labels::UNLABELED;
use crate::outputs::part_file;
use crate::record::PairRecord;
use crate::step::{self, Step, directory_of};

/// A pair of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct BuiltPair {
    /// Id of the query.
    pub query_id: String,
    /// What is asked.
    pub query: String,
    /// Id of the code.
    pub code_id: String,
    /// The code.
    pub code: String,
    /// Its language.
    pub language: String,
    /// 1 or more if the code answers, 0 if it does not.
    pub label: Option<i32>,
    /// Where the label comes from.
    pub evidence: Option<String>,
    /// The part of the data set that it is in; pairs without a label are in none.
    pub part: Option<String>,
}

/// Reads the pairs of the last build in a directory one at a time: part by part, then those without a label.
///
/// # Errors
/// When nothing was built there, or its steps cannot be read.
pub fn for_each_pair(root: &Path, each: &mut dyn FnMut(BuiltPair)) -> Result<(), FactoryError> {
    let steps = step::last_build(root)?;
    let of = |name: &str| -> Result<(&Step, PathBuf), FactoryError> {
        let step = steps.iter().find(|step| step.name == name);
        let problem = || format!("expected it in {}, found another build; build again", root.display());
        let step = step.ok_or_else(|| FactoryError::step(name, problem()))?;
        Ok((step, directory_of(root, &step.key())))
    };
    let ((splits, at_splits), (_, at_labels)) = (of("splits")?, of("labels")?);
    let parts = splits.counts.keys().filter_map(|name| name.strip_prefix("pairs in "));
    let files = parts.map(|part| (part_file(&at_splits, part), Some(part)));
    for (path, part) in files.chain([(at_labels.join(UNLABELED), None)]) {
        jsonl::for_each(&path, &mut |pair: PairRecord, _| {
            let PairRecord { query_id, query, code_id, code, language, label, evidence, .. } = pair;
            let part = part.map(str::to_owned);
            each(BuiltPair { query_id, query, code_id, code, language, label, evidence, part });
            Ok(())
        })?;
    }
    Ok(())
}
