//! Keeps public evaluation data out of the parts that models are trained on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_corpus::evaluation_guard::{EvaluationGuard, SharedCounts};

use crate::error::BuildError;
use crate::jsonl;
use crate::outputs::part_file;
use crate::plan::{Plan, SourceKind};
use crate::record::PairRecord;

/// Prefix of the names of training parts.
const TRAINING: &str = "train";

/// The training pairs that share a query or a code with public development and test sets, as sentences for the card: of
/// the sets in the directories of the plan and of the files that it names. Codes that the published splits of a set share
/// are counted, and not leaks.
pub(crate) fn check(plan: &Plan, splits: &Path) -> Result<Vec<String>, BuildError> {
    let sources = plan.sources.iter().filter(|source| source.kind == SourceKind::DataSet);
    let files = (sources.map(|source| source.path.clone()))
        .chain(plan.queries.iter().filter_map(|queries| queries.path.clone()))
        .chain(plan.labels.iter().filter_map(|labels| labels.path.clone()));
    let files: Vec<PathBuf> = files.collect();
    let searched: Vec<PathBuf> = files.iter().cloned().chain([plan.path.clone()]).collect();
    let guard = EvaluationGuard::for_files(&searched)?;
    let (mut counts, mut first) = (BTreeMap::<&str, SharedCounts>::new(), None);
    for part in plan.splits.parts.keys().filter(|part| part.starts_with(TRAINING)) {
        jsonl::for_each(&part_file(splits, part), &mut |pair: PairRecord, _| {
            if let Some(shared) =
                guard.shared(&files, &pair.query, std::iter::once((&*pair.code, Some(&*pair.language))))
            {
                counts.entry(part).or_default().add(shared);
                if !shared.is_tolerated {
                    first.get_or_insert(pair.query);
                }
            }
            Ok(())
        })?;
    }
    let of_part = |(part, counts): (&&str, &SharedCounts)| {
        let published =
            counts.tolerated().into_iter().map(|shared| format!("{shared} that published splits share"));
        let all = counts.leaks().into_iter().chain(published);
        all.map(|shared| format!("{shared}, in {part}")).collect::<Vec<_>>()
    };
    let shared: Vec<String> = counts.iter().flat_map(of_part).collect();
    match first.filter(|_| !plan.allow_evaluation_data) {
        None => Ok(shared),
        Some(query) => Err(BuildError::step(
            "splits",
            format!(
                "the training parts contain evaluation data: {}; the first is {query:?}. Name the sets in `against` of [leaks] \
                 to remove what they share, or set `allow_evaluation_data = true` for an experiment; its card notes \
                 this",
                shared.join("; ")
            ),
        )),
    }
}
