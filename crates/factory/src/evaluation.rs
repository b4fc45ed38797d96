//! Keeps public evaluation data out of the parts that models are trained on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_corpus::evaluation_guard::{EvaluationGuard, Shared};
use quarry_text::counted;

use crate::error::FactoryError;
use crate::jsonl;
use crate::outputs::part_file;
use crate::plan::{Plan, SourceKind};
use crate::record::PairRecord;

/// What the names of parts that are trained on begin with.
const TRAINING: &str = "train";

/// The training pairs that share a query or a code with public development and test sets, as sentences for the card: of
/// the sets in the directories of the plan and of the files that it names. Codes that the published splits of a set share
/// are counted, and not leaks.
///
/// # Errors
/// When there are some and the plan does not allow them, or a file cannot be read.
pub(crate) fn check(plan: &Plan, splits: &Path) -> Result<Vec<String>, FactoryError> {
    let sources = plan.sources.iter().filter(|source| source.kind == SourceKind::DataSet);
    let files = (sources.map(|source| source.path.clone()))
        .chain(plan.queries.iter().filter_map(|queries| queries.path.clone()))
        .chain(plan.labels.iter().filter_map(|labels| labels.path.clone()));
    let files: Vec<PathBuf> = files.collect();
    let searched: Vec<PathBuf> = files.iter().cloned().chain([plan.path.clone()]).collect();
    let guard = EvaluationGuard::beside(&searched)?;
    let (mut found, mut first): (BTreeMap<String, usize>, Option<String>) = (BTreeMap::new(), None);
    for part in plan.splits.parts.keys().filter(|part| part.starts_with(TRAINING)) {
        jsonl::for_each(&part_file(splits, part), &mut |pair: PairRecord, _| {
            let shared = guard.shared(&files, &pair.query, std::iter::once(pair.code.as_str()));
            let (what, set, is_leak) = match shared {
                None => return Ok(()),
                Some(Shared::Query(set)) => ("with a query", set, true),
                Some(Shared::Code(set)) => ("with a code", set, true),
                Some(Shared::CodeOfSplit(set)) => ("with a code that published splits share", set, false),
            };
            *found.entry(format!("{what} of {set}, in {part}")).or_default() += 1;
            if is_leak {
                first.get_or_insert(pair.query);
            }
            Ok(())
        })?;
    }
    let told: Vec<String> =
        found.into_iter().map(|(what, n)| format!("{} {what}", counted(n, "pair"))).collect();
    match first.filter(|_| !plan.allow_evaluation_data) {
        None => Ok(told),
        Some(query) => Err(FactoryError::step(
            "splits",
            format!(
                "the training parts contain evaluation data: {}; the first is {query:?}. Name the sets in `against` of [leaks] \
                 to remove what they share, or set `allow_evaluation_data = true` for an experiment; its card notes \
                 this",
                told.join("; ")
            ),
        )),
    }
}
