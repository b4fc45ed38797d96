//! Queries that are not in English: a data set of its own, with the codes that they were made of, in the formats of the
//! other exports. It has no candidates and is not judged.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::FactoryError;
use crate::export::{self, Inputs};
use crate::jsonl::Writer;
use crate::outputs::{OTHER_LANGUAGES, PARTS, QUERIES, part_file};
use crate::plan::{ExportPlan, SplitPlan};
use crate::pool::PoolReader;
use crate::query::{self, ENGLISH, merged};
use crate::record::PairRecord;
use crate::step::{Key, Step};

/// Incremented when the same queries lead to another data set.
const VERSION: u32 = 1;

/// Its only part.
const PART: &str = "all";

/// The step that collects the queries of all sources in other languages, with their pairs.
pub(crate) fn step(pool: &Key, sources: &[&Key]) -> Step {
    Step::new(OTHER_LANGUAGES, VERSION, &(), &[&[pool], sources].concat())
}

/// Whether queries of a source are kept apart.
pub(crate) fn is_separate(queries: &crate::plan::QueryPlan) -> bool {
    queries.has_filter(ENGLISH)
}

/// Writes queries and pairs to a step's directory.
///
/// # Errors
/// When queries or codes cannot be read, or something cannot be written.
pub(crate) fn write(
    sources: &[PathBuf],
    pool: &Path,
    step: &Path,
) -> Result<BTreeMap<String, u64>, FactoryError> {
    let (queries, _) = merged(sources, query::OTHER_LANGUAGES)?;
    let mut writer = Writer::create(&step.join(QUERIES))?;
    queries.iter().try_for_each(|query| writer.write(query))?;
    writer.finish()?;
    let parts = step.join(PARTS);
    fs::create_dir_all(&parts).map_err(FactoryError::write(&parts))?;
    let mut pool = PoolReader::open(pool)?;
    let mut writer = Writer::create(&part_file(step, PART))?;
    let (mut n_pairs, mut answered) = (0, HashSet::new());
    for query in &queries {
        for code in &query.codes {
            let (_, record) = pool.get(code)?;
            n_pairs += 1;
            answered.insert(&query.id);
            writer.write(&PairRecord::new(query, code, record, Some(1), Some("pairing".to_owned())))?;
        }
    }
    writer.finish()?;
    let counts = [
        ("queries", queries.len() as u64),
        ("pairs", n_pairs),
        ("queries with an answer", answered.len() as u64),
    ];
    Ok(counts.map(|(name, count)| (name.to_owned(), count)).into())
}

/// What an export of a plan is called for these queries.
pub(crate) fn format_of(export: &ExportPlan) -> String {
    format!("{OTHER_LANGUAGES}/{}", export.format)
}

fn plans(export: &ExportPlan) -> (ExportPlan, SplitPlan) {
    let splits = SplitPlan { parts: [(PART.to_owned(), 1.0)].into(), positives_only: Vec::new() };
    (ExportPlan { format: export.format.clone(), parts: Vec::new() }, splits)
}

/// The step that exports them in the format of an export of a plan.
pub(crate) fn export_step(export: &ExportPlan, inputs: &[&Key]) -> Step {
    let (plan, splits) = plans(export);
    Step { name: format!("export {}", format_of(export)), ..export::step(&plan, &splits, inputs) }
}

/// Writes one export; nothing where there are no queries, or no pairs for a format of pairs.
///
/// # Errors
/// As [`export::write`].
pub(crate) fn write_export(
    export: &ExportPlan,
    inputs: &Inputs<'_>,
    directories: (&Path, &Path),
) -> Result<BTreeMap<String, u64>, FactoryError> {
    let has_queries = export::has_content(&inputs.queries.join(QUERIES))?;
    let has_pairs = export::has_content(&part_file(inputs.splits, PART))?;
    if !has_queries || !has_pairs && !export::holds_queries(&export.format) {
        return Ok(BTreeMap::new());
    }
    let (plan, splits) = plans(export);
    export::write(&plan, &splits, inputs, directories)
}
