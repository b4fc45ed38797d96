//! Finds evaluation data among training data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use quarry_corpus::dataset;
use quarry_corpus::evaluation_data::{is_marked, published_as};
use quarry_corpus::evaluation_guard::{EvaluationGuard, Shared};
use quarry_corpus::formats::Record;
use quarry_corpus::formats::source::Source;
use quarry_source::FunctionPair;
use quarry_text::counted;
use quarry_train::Example;

use crate::output;

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

/// What training data share with evaluation data.
#[derive(Debug, Default)]
pub struct Leakage {
    /// What is evaluation data, by name.
    pub found: Vec<String>,
    /// Numbers of pairs of a published training split whose code is in another split of the same set, by its name.
    pub of_splits: BTreeMap<String, usize>,
}

impl Leakage {
    /// Adds the rows of a file with a query or code that is in evaluation data.
    pub fn add<E: Example>(&mut self, guard: &EvaluationGuard, file: &PathBuf, rows: &[E]) {
        for (at, row) in rows.iter().enumerate() {
            let codes = std::iter::once(row.code()).chain(row.negatives().iter().map(String::as_str));
            let query: String = row.query().chars().take(60).collect();
            match guard.shared(std::slice::from_ref(file), row.query(), codes) {
                None => {}
                Some(Shared::Query(set)) => {
                    self.found.push(format!("pair {} ({query:?}), whose query is in {set}", at + 1));
                }
                Some(Shared::Code(set)) => {
                    self.found.push(format!("pair {} ({query:?}), whose code is in {set}", at + 1));
                }
                Some(Shared::CodeOfSplit(set)) => *self.of_splits.entry(set.to_owned()).or_default() += 1,
            }
        }
    }

    /// Codes that published splits share, as a sentence; empty if there are none.
    pub fn shared_codes(&self) -> String {
        let told = |(set, n): (&String, &usize)| format!("{} with a code of {set}", counted(*n, "pair"));
        match self.of_splits.is_empty() {
            true => String::new(),
            false => {
                let told: Vec<String> = self.of_splits.iter().map(told).collect();
                format!("the published splits share codes: {}", told.join("; "))
            }
        }
    }
}

/// What was found: the first three by name, and the number of the others.
fn summary(found: &[String]) -> String {
    let (first, others) = found.split_at(found.len().min(3));
    let more = if others.is_empty() { String::new() } else { format!("; and {} more", others.len()) };
    format!("the training data contain evaluation data: {}{more}", first.join("; "))
}

/// Whether evaluation data may be trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// The command has no option for it.
    Never,
    /// Its option was not given.
    OnRequest,
    /// Its option was given, and the model's card says so.
    Now,
}

/// What a card says of evaluation data among the pairs, of which `leakage` names the first.
///
/// # Errors
/// When there are some that are not allowed.
pub fn checked(guard: &EvaluationGuard, leakage: &Leakage, allowed: Allowed) -> anyhow::Result<String> {
    let shared = leakage.shared_codes();
    let shared = if shared.is_empty() { shared } else { format!("; {shared}") };
    if leakage.found.is_empty() {
        let names: Vec<&str> = guard.names().collect();
        return Ok(match names.as_slice() {
            [] => "no file of evaluation data was given or found to check the pairs against".to_owned(),
            names => format!(
                "the pairs have no query and no other code of {}, exactly or nearly{shared}",
                names.join(", ")
            ),
        });
    }
    let summary = summary(&leakage.found);
    match allowed {
        Allowed::Never => {
            bail!("{summary}; remove them: a model that was trained on them cannot be measured on them")
        }
        Allowed::OnRequest => {
            bail!(
                "{summary}; remove them, or give --allow-evaluation-data for an experiment whose card says so"
            )
        }
        Allowed::Now => Ok(format!("**{summary}**, which was allowed{shared}")),
    }
}

/// As [`checked`] for pairs of a file, of which `named` is evaluation data by name.
///
/// # Errors
/// As [`checked`], and when a file of evaluation data cannot be read.
pub fn of_pairs(
    named: Vec<String>,
    exclude: &[PathBuf],
    path: &Path,
    pairs: &[FunctionPair],
    allowed: Allowed,
) -> anyhow::Result<String> {
    let mut leakage = Leakage { found: named, ..Leakage::default() };
    let file = path.to_owned();
    let guard = EvaluationGuard::open(exclude, std::slice::from_ref(&file))?;
    leakage.add(&guard, &file, pairs);
    let told = checked(&guard, &leakage, allowed)?;
    if !leakage.found.is_empty() {
        output::note(&format!("warning: {told}"));
    } else if !leakage.of_splits.is_empty() {
        output::note(&leakage.shared_codes());
    }
    Ok(told)
}
