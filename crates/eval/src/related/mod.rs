//! Evaluation of change prediction on histories: given a function that a commit changed, which others did it
//! change?
//!
//! The tree is that of the parent commit, and only older commits, which come after the commit in the log, are used.
//! Answers are the other functions that the commit changed, as far as they exist in the parent.

mod fit;
mod floors;
mod report;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quarry_embed::Embedder;
use quarry_history::{ChangeLog, Snapshot, UpdateOptions};
use quarry_index::{Index, OpenOptions, Update};
use quarry_related::{Changes, Class, FEATURES, LoggedRoot, N_FEATURES, Relations, Sources};
use quarry_walk::FileFlags;
use serde::{Deserialize, Serialize};

pub use self::fit::{Fitted, cross_validated, fit};
pub use self::floors::FLOORS;
pub use self::report::{Means, MethodScores, QuestionKind, RelatedReport, Reliability, report};
use crate::EvalError;
use crate::localize::checkout::Checkout;

/// Incremented when the same commits yield different samples.
const VERSION: u32 = 2;

/// Maximum number of functions that a sampled commit changes; larger commits have no single topic.
const MAX_CHANGED: usize = 20;

/// Minimum number of earlier commits that a sampled commit must have.
const MIN_EARLIER: usize = 50;

/// Number of top places kept of each ranking.
pub const DEPTH: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedOptions {
    /// Maximum number of commits sampled per repository.
    pub samples: usize,
    pub commits: usize,
    /// Maximum number of files in a tree; larger repositories are omitted.
    pub max_files: usize,
}

impl Default for RelatedOptions {
    fn default() -> Self {
        Self { samples: 15, commits: 3_000, max_files: 3_000 }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SampledPlace {
    /// Number of its file.
    pub file: u32,
    pub class: Class,
    /// True if there is evidence, so that the place would be shown.
    pub has_evidence: bool,
    /// Feature values, in the order of [`FEATURES`].
    pub features: Vec<f32>,
}

/// A function that a commit changed, with all places of the tree before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub commit: String,
    /// Position of the function among `places`.
    pub target: u32,
    /// Positions of the other functions that the commit changed.
    pub gold: Vec<u32>,
    /// Numbers of the files that the commit changed.
    pub files: Vec<u32>,
    pub places: Vec<SampledPlace>,
    /// The first places by each of [`FLOORS`].
    pub floors: Vec<Vec<u32>>,
}

impl Sample {
    /// Returns true if a place changed; for a document, if its file changed, because logs do not record sections.
    fn is_changed(&self, number: u32) -> bool {
        let place = &self.places[number as usize];
        match place.class {
            Class::Documents => self.files.contains(&place.file),
            _ => self.gold.binary_search(&number).is_ok(),
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RepositorySamples {
    version: u32,
    features: Vec<String>,
    pub name: String,
    /// The most frequent language among the repository's files.
    pub language: String,
    pub samples: Vec<Sample>,
}

/// The samples of a repository, given by its directory, bare or not. They are stored in `work`, and reused by later
/// runs.
///
/// # Errors
/// When the history or a tree cannot be read, or `work` cannot be written.
pub fn samples(
    repository: &Path,
    name: &str,
    work: &Path,
    model: &Arc<dyn Embedder>,
    options: &RelatedOptions,
    on_progress: &dyn Fn(),
) -> Result<RepositorySamples, EvalError> {
    let place = work.join(name.replace('/', "+"));
    let io = |path: &Path, source| EvalError::Results { path: path.to_owned(), source };
    fs::create_dir_all(&place).map_err(|source| io(&place, source))?;
    let kept_at = place.join("samples");
    if let Some(kept) = RepositorySamples::open(&kept_at) {
        return Ok(kept);
    }
    let log_at = place.join("history");
    let log = ChangeLog::open(&log_at).unwrap_or_else(|| ChangeLog::new(repository));
    let log = log.update(
        repository,
        &UpdateOptions { commits: options.commits, is_bare: true, ..UpdateOptions::default() },
    )?;
    log.save(&log_at)
        .map_err(|error| EvalError::Results { path: log_at.clone(), source: std::io::Error::other(error) })?;
    let log = Arc::new(log);
    let chosen = chosen(&log, options.samples);
    let mut found = RepositorySamples {
        version: VERSION,
        features: FEATURES.iter().map(|name| (*name).to_owned()).collect(),
        name: name.to_owned(),
        ..RepositorySamples::default()
    };
    let relations_at = place.join("relations");
    let mut checkout = Checkout::open(&place).map_err(|source| io(&place, source))?;
    for number in chosen {
        let parent = format!("{}^", log.commits[number].id);
        let Ok(snapshot) = Snapshot::open(repository, Some(&parent)) else { continue };
        if snapshot.paths().count() > options.max_files {
            continue;
        }
        checkout.switch(&snapshot).map_err(|source| io(&place, source))?;
        let open = OpenOptions {
            directory: Some(place.join("index")),
            update: Update::Required,
            ..OpenOptions::default()
        };
        let Ok(opened) = Index::open_or_build(checkout.tree(), &open, Some(Arc::clone(model)), &|_| {})
        else {
            continue;
        };
        let index = opened.index;
        let relations = Relations::open(&index, Some(&relations_at), &|_, _| {});
        let root = LoggedRoot { root: 0, log: Arc::clone(&log), from: number + 1 };
        let name = |unit: usize| index.linked_unit(unit).name.to_owned();
        let changes = Changes::new(&relations, &name, vec![root], i64::MAX);
        let sources = Sources { index: &index, relations: &relations, changes: &changes };
        if let Some(sample) = sample(&sources, &log, number)? {
            found.samples.push(sample);
        }
        if found.language.is_empty() {
            found.language = main_language(&index);
        }
        on_progress();
    }
    found.save(&kept_at).map_err(|source| io(&kept_at, source))?;
    let _ = fs::remove_dir_all(place.join("tree"));
    let _ = fs::remove_dir_all(place.join("index"));
    Ok(found)
}

/// Commits of a log that changed few functions, evenly spaced.
fn chosen(log: &ChangeLog, n: usize) -> Vec<usize> {
    let n_known = log.commits.len().saturating_sub(MIN_EARLIER);
    let suitable: Vec<usize> = (0..n_known)
        .filter(|number| (1..=MAX_CHANGED).contains(&log.commits[*number].functions.len()))
        .collect();
    let step = suitable.len().div_ceil(n.max(1)).max(1);
    suitable.into_iter().step_by(step).collect()
}

/// The language with the most code files.
fn main_language(index: &Index) -> String {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for file in index.linked_files().filter(|file| !file.flags.contains(FileFlags::DOCUMENTATION)) {
        let is_code = file.units.clone().any(|unit| {
            let kind = index.linked_unit(unit).kind;
            !matches!(kind, quarry_source::UnitKind::Section | quarry_source::UnitKind::Module)
        });
        *counts.entry(file.language).or_default() += usize::from(is_code);
    }
    counts.into_iter().max_by_key(|(_, n)| *n).map_or_else(String::new, |(name, _)| name.to_owned())
}

fn sample(sources: &Sources, log: &ChangeLog, number: usize) -> Result<Option<Sample>, EvalError> {
    let commit = &log.commits[number];
    // The paths of the files in the parent commit.
    let before =
        |path: u32| commit.renames.iter().find(|(_, new)| *new == path).map_or(path, |(old, _)| *old);
    let place = |(path, name): &(u32, u32)| {
        let (path, name) = (log.text(before(*path)), log.text(*name));
        sources.relations.number_of(sources.relations.unit_named(sources.index, 0, path, name)?)
    };
    let mut changed: Vec<u32> = commit.functions.iter().filter_map(place).collect();
    changed.sort_unstable();
    changed.dedup();
    let is_code = |number: &&u32| sources.class(**number) == Class::Code;
    // Chosen from the commit's id, so that the target does not depend on the other commits.
    let code: Vec<u32> = changed.iter().filter(is_code).copied().collect();
    let Some(target) =
        code.get(usize::from(commit.id.to_string().as_bytes()[0]) % code.len().max(1)).copied()
    else {
        return Ok(None);
    };
    let known = sources.place_features(target)?;
    let floors = floors::rankings(sources, target, &known)?;
    let first = |path: &u32| {
        let unit = sources.relations.unit_named(sources.index, 0, log.text(before(*path)), "")?;
        Some(known[sources.relations.number_of(unit)? as usize].file)
    };
    let files = commit.files.iter().filter_map(first).collect();
    let places = known.into_iter().map(|place| SampledPlace {
        file: place.file,
        class: place.class,
        has_evidence: place.has_evidence,
        features: place.features.values().to_vec(),
    });
    changed.retain(|place| *place != target);
    Ok(Some(Sample {
        commit: commit.id.to_string(),
        target,
        gold: changed,
        files,
        places: places.collect(),
        floors,
    }))
}

impl RepositorySamples {
    fn open(path: &Path) -> Option<Self> {
        let kept: Self = postcard::from_bytes(&fs::read(path).ok()?).ok()?;
        let is_same = kept.version == VERSION && kept.features == FEATURES;
        (is_same
            && kept
                .samples
                .iter()
                .flat_map(|sample| &sample.places)
                .all(|place| place.features.len() == N_FEATURES))
        .then_some(kept)
    }

    fn save(&self, path: &Path) -> std::io::Result<()> {
        fs::write(path, postcard::to_stdvec(self).map_err(std::io::Error::other)?)
    }
}

#[cfg(test)]
mod tests {
    use quarry_metrics::significance::Bootstrap;
    use quarry_related::Scorer;
    use quarry_test_support::git::GitRepository;

    use super::*;
    use crate::method::tests::TestEmbedder;

    /// Of 60 commits, every other one changes a function, its test and a function elsewhere.
    #[test]
    fn questions_come_from_commits_and_answers_from_those_before() {
        let directory = tempfile::tempdir().unwrap();
        let clone = directory.path().join("repo");
        let mut repository = GitRepository::bare(&clone);
        let function = |name: &str, n: usize| format!("def {name}(x):\n    return x + {n}\n");
        let lone = |n: usize| (1..20).map(|k| function(&format!("lone_{k}"), n) + "\n\n").collect::<String>();
        for n in 0..60 {
            let [load, save, test] = ["load", "store", "test_load"].map(|name| function(name, n));
            let files = [("a.py", load), ("b.py", save), ("tests/test_a.py", test)];
            let alone = [("other.py", lone(n))];
            let files: &[(&str, String)] = if n % 2 == 0 { &files } else { &alone };
            let files: Vec<(&str, Option<&str>)> =
                files.iter().map(|(path, text)| (*path, Some(text.as_str()))).collect();
            repository.commit("Change", &files);
        }
        let model = TestEmbedder::shared("same", |_| [1.0, 0.0], |_| [1.0, 0.0]);
        let options = RelatedOptions { samples: 16, ..RelatedOptions::default() };
        let work = directory.path().join("work");
        let read = || samples(&clone, "repo", &work, &model, &options, &|| {}).unwrap();
        let found = read();
        let names = |number: &u32| found.samples[0].places[*number as usize].class;
        let sample = found.samples.iter().find(|sample| sample.gold.len() == 2).unwrap();
        assert_eq!(sample.gold.iter().map(names).collect::<Vec<_>>(), [Class::Code, Class::Tests]);
        assert_eq!((found.language.as_str(), sample.files.len()), ("python", 3));
        assert_eq!(read().samples.len(), found.samples.len(), "kept");
        let fitted = cross_validated(std::slice::from_ref(&found), 5);
        for scorers in [vec![Scorer::shipped().clone()], fitted.scorers] {
            let report = report(std::slice::from_ref(&found), &scorers, &Bootstrap::default()).unwrap();
            for kind in QuestionKind::ALL {
                let product = &report.methods[&kind][0];
                assert_eq!(product.functions.recall, 1.0, "{kind:?}");
                assert!(report.questions[&kind] > 0 && report.gains[&kind] >= 1.0);
            }
        }
    }
}
