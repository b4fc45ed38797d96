//! Finds evaluation data among training data.

use std::path::{Path, PathBuf};

use anyhow::bail;
use quarry_corpus::dataset;
use quarry_corpus::evaluation_data::{is_marked, published_as};
use quarry_corpus::evaluation_guard::{ComparedFiles, EvaluationGuard, Shared, SharedCounts};
use quarry_corpus::formats::Record;
use quarry_corpus::formats::source::Source;
use quarry_source::FunctionPair;
use quarry_train::Example;
use rayon::prelude::*;

use crate::output;

/// Evaluation data that a file is, by name, regardless of `--exclude`.
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

/// Overlap of training data with evaluation data.
#[derive(Debug, Default)]
pub struct Leakage {
    pub found: Vec<String>,
    counts: SharedCounts,
}

impl Leakage {
    /// Adds the rows of a file with a query or code that is in evaluation data.
    pub fn add<E: Example + Sync>(&mut self, guard: &EvaluationGuard, file: &PathBuf, rows: &[E]) {
        let shared = |row: &E| {
            let codes = std::iter::once(row.code()).chain(row.negatives().iter().map(String::as_str));
            let language = Some(row.language()).filter(|language| !language.is_empty());
            guard.shared(std::slice::from_ref(file), row.query(), codes.map(|code| (code, language)))
        };
        let shared: Vec<Option<Shared<'_>>> = rows.par_iter().map(shared).collect();
        for (at, (row, shared)) in rows.iter().zip(shared).enumerate() {
            let Some(shared) = shared else { continue };
            self.counts.add(shared);
            if !shared.is_tolerated {
                let query: String = row.query().chars().take(60).collect();
                let what = if shared.is_query { "query" } else { "code" };
                self.found.push(format!("pair {} ({query:?}), whose {what} is in {}", at + 1, shared.set));
            }
        }
    }

    /// Returns a sentence about what is tolerated; empty if nothing is.
    pub fn tolerated(&self) -> String {
        match self.counts.tolerated() {
            tolerated if tolerated.is_empty() => String::new(),
            tolerated => format!("tolerated: {}", tolerated.join(", ")),
        }
    }

    /// Summarizes what was found: the first three by name, and the numbers of all if there are more.
    fn summary(&self) -> String {
        let (first, others) = self.found.split_at(self.found.len().min(3));
        let more = match (others, self.counts.leaks()) {
            ([], _) => String::new(),
            (others, leaks) if leaks.is_empty() => format!("; and {} more", others.len()),
            (_, leaks) => format!("; in all {}", leaks.join(", ")),
        };
        format!("the training data contain evaluation data: {}{more}", first.join("; "))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// The command has no option for it.
    Never,
    /// Its option was not given.
    OnRequest,
    /// Its option was given, and the model's card says so.
    Now,
}

/// The statement of a card about evaluation data among the pairs, of which `leakage` names the first.
pub fn checked(guard: &EvaluationGuard, leakage: &Leakage, allowed: Permission) -> anyhow::Result<String> {
    let tolerated = match leakage.tolerated() {
        tolerated if tolerated.is_empty() => tolerated,
        tolerated => format!("; {tolerated}"),
    };
    let uncompared = match guard.uncompared() {
        [] => String::new(),
        names => format!("; not compared: {}", names.join(", ")),
    };
    if leakage.found.is_empty() {
        let files: Vec<String> = guard.files().map(|(name, counts)| format!("{name} ({counts})")).collect();
        let outcome = match files.as_slice() {
            [] => "no file of evaluation data was given or found to check the pairs against".to_owned(),
            files => format!("no other pair was found to share a query or a code with {}", files.join(", ")),
        };
        let outcome = if tolerated.is_empty() { outcome.replace("other ", "") } else { outcome };
        return Ok(format!("{outcome}{tolerated}{uncompared}"));
    }
    let summary = leakage.summary();
    match allowed {
        Permission::Never => {
            bail!("{summary}; remove them: a model that was trained on them cannot be measured on them")
        }
        Permission::OnRequest => {
            bail!(
                "{summary}; remove them, name the files with which they may share texts (--tolerate, in plans `tolerate`), or give \
                 --allow-evaluation-data (`allow_evaluation_data`) for an experiment; the model's card states either"
            )
        }
        Permission::Now => Ok(format!("**{summary}**, which was allowed{tolerated}{uncompared}")),
    }
}

/// As [`checked`] for pairs of a file, of which `named` is evaluation data by name.
pub fn check_pairs(
    named: Vec<String>,
    files: ComparedFiles<'_>,
    path: &Path,
    pairs: &[FunctionPair],
    allowed: Permission,
) -> anyhow::Result<String> {
    let mut leakage = Leakage { found: named, ..Leakage::default() };
    let file = path.to_owned();
    let guard = EvaluationGuard::open(files, std::slice::from_ref(&file))?;
    guard.warnings().for_each(|warning| output::note(&warning));
    leakage.add(&guard, &file, pairs);
    let statement = checked(&guard, &leakage, allowed)?;
    if !leakage.found.is_empty() {
        output::note(&format!("warning: {statement}"));
    } else if !leakage.tolerated().is_empty() {
        output::note(&leakage.tolerated());
    }
    Ok(statement)
}
