//! Finds evaluation data among training data.

use std::path::{Path, PathBuf};

use anyhow::bail;
use quarry_corpus::dataset;
use quarry_corpus::evaluation_data::{EvaluationData, is_marked, published_as};
use quarry_corpus::formats::Record;
use quarry_corpus::formats::source::Source;
use quarry_train::{Example, Pair};

/// What a file is, or its rows say to be, without regard to `--exclude`.
pub fn named(path: &Path) -> anyhow::Result<Vec<String>> {
    match path.is_file().then(|| published_as(path)).transpose()?.flatten() {
        Some(name) => Ok(vec![format!("{} is {name}", path.display())]),
        None => Ok(Vec::new()),
    }
}

/// As [`named`] for the files of a data set.
pub fn named_in(sources: &[Source]) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for source in sources {
        found.extend(named(&source.path)?);
    }
    dataset::for_each(sources, &mut |source, record| {
        if let Record::Pair(pair) = record
            && is_marked(pair.id.as_deref(), pair.partition.as_deref())
        {
            let id = pair.id.as_deref().filter(|id| !id.is_empty()).unwrap_or("a pair");
            found.push(format!("{id} of {}", source.path.display()));
        }
        Ok(())
    })?;
    Ok(found)
}

/// The rows with a query or code that is in the data.
pub fn found_in<E: Example>(data: &EvaluationData, rows: &[E]) -> Vec<String> {
    let name = |(at, row): (usize, &E)| {
        let query: String = row.query().chars().take(60).collect();
        let is_known = data.has_query(row.query())
            || data.has_code(row.code())
            || row.negatives().iter().any(|code| data.has_code(code));
        is_known.then(|| format!("pair {} ({query:?})", at + 1))
    };
    rows.iter().enumerate().filter_map(name).collect()
}

/// What was found: the first three by name, and the number of the others.
pub fn summary(found: &[String]) -> String {
    let (first, others) = found.split_at(found.len().min(3));
    let more = if others.is_empty() { String::new() } else { format!("; and {} more", others.len()) };
    format!("the training data hold evaluation data: {}{more}", first.join("; "))
}

/// Refuses pairs that are evaluation data.
///
/// # Errors
/// When some are, or a file of evaluation data cannot be read.
pub fn refuse(named: Vec<String>, exclude: &[PathBuf], pairs: &[Pair]) -> anyhow::Result<()> {
    let mut found = named;
    found.extend(found_in(&EvaluationData::read(exclude)?, pairs));
    if found.is_empty() {
        return Ok(());
    }
    bail!("{}; remove them: a model that was trained on them cannot be measured on them", summary(&found))
}
