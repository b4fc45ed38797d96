//! Public development and test sets that are present during training, and their overlap with the training data.
//!
//! Names are unreliable: in CoSQA's development split, 486 of 500 rows are named `cosqa-train-…`. So texts are
//! compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::dataset::compared::{ComparedCode, ComparedQuery};
use crate::dataset::public::{PublicFile, PublicSet, public_sets};
use crate::evaluation_data::{EvaluationData, TextCounts, published_as};
use crate::formats::FormatError;
use crate::formats::source::check_regular;
use quarry_source::FunctionPair;
use quarry_text::counted;

/// Incremented when the comparison of the same texts may give a different result.
pub const VERSION: u32 = 1;

/// Maximum number of files examined in a directory: one with more is not a directory of data sets.
const MAX_FILES: usize = 10_000;

/// Words in the names of files with evaluation queries.
const SPLITS: [&str; 4] = ["dev", "test", "valid", "val"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationFile {
    pub path: PathBuf,
    pub name: String,
    /// The first part of the name of its set, which it shares with the training split; `None` if the user named the
    /// file.
    family: Option<&'static str>,
}

impl EvaluationFile {
    fn named(path: &Path) -> Self {
        Self { path: path.to_owned(), name: path.display().to_string(), family: None }
    }
}

/// Returns true if a file of a public set contains evaluation queries.
fn is_evaluated(set: &PublicSet, file: &PublicFile) -> bool {
    let name = file.name().to_lowercase();
    let is_split = || name.split(|c: char| !c.is_alphanumeric()).any(|word| SPLITS.contains(&word));
    set.purpose == "evaluation"
        || ["evaluation", "development"].iter().any(|purpose| set.purpose.contains(purpose)) && is_split()
}

fn family(set: &PublicSet) -> &'static str {
    let set = public_sets().iter().find(|known| known.name == set.name);
    set.map_or("", |set| set.name.split('-').next().unwrap_or_default())
}

/// Returns true if the file at a path belongs to a public set: by its name, in a directory or under a name that
/// identifies the set, and by its length if known.
fn is_file_of(path: &Path, set: &PublicSet, file: &PublicFile) -> bool {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (name, directory) = (text(path.file_name()), text(path.parent().and_then(Path::file_name)));
    let is_distinctive = directory == set.name || name.contains(family(set)) || file.sha256.is_some();
    let has_length = || path.metadata().is_ok_and(|data| file.size.is_none_or(|size| size == data.len()));
    name == file.name() && is_distinctive && has_length()
}

/// The public set that a training file belongs to, by its name.
fn family_of(path: &Path) -> Option<&'static str> {
    let contains = |set: &PublicSet| set.files.iter().any(|file| is_file_of(path, set, file));
    public_sets().iter().find(|set| contains(set)).map(family)
}

/// The evaluation files of public sets in these directories, and in their subdirectories where `quarry data pull`
/// puts these sets; in order of their paths. Unreadable ones are ignored.
pub fn evaluation_files(directories: &BTreeSet<PathBuf>) -> Vec<EvaluationFile> {
    let mut searched = directories.clone();
    for directory in directories {
        searched.extend(public_sets().iter().map(|set| directory.join(&set.name)));
    }
    let mut found: BTreeMap<PathBuf, EvaluationFile> = BTreeMap::new();
    for directory in searched {
        let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let paths = entries.take(MAX_FILES).flatten().map(|entry| entry.path());
        for path in paths.filter(|path| path.is_file()) {
            let registered = public_sets().iter().find_map(|set| {
                let is_it = |file: &&PublicFile| is_evaluated(set, file) && is_file_of(&path, set, file);
                let file = set.files.iter().find(is_it)?;
                Some((format!("{} of {}", file.name(), set.name), Some(family(set))))
            });
            // A renamed file is recognized by its content.
            let published = || {
                let name = published_as(&path).ok().flatten()?;
                let family = if name.starts_with("CoSQA") { Some("cosqa") } else { Some("") };
                Some((name.to_owned(), family))
            };
            if let Some((name, family)) = registered.or_else(published) {
                let path = path.canonicalize().unwrap_or(path);
                found.insert(path.clone(), EvaluationFile { path, name, family });
            }
        }
    }
    found.into_values().collect()
}

fn directories(files: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    files.iter().map(|path| match path.is_dir() {
        true => path.clone(),
        false => path.parent().unwrap_or(Path::new("")).to_owned(),
    })
}

/// Evaluation data that training data are compared with.
#[derive(Debug, Default)]
pub struct EvaluationGuard {
    sets: Vec<Set>,
    /// Names of measured files that are not compared because they are not data sets.
    uncompared: Vec<String>,
}

#[derive(Debug)]
struct Set {
    file: EvaluationFile,
    data: EvaluationData,
    is_tolerated: bool,
}

/// The files that training data are compared with, in addition to public sets.
#[derive(Debug, Clone, Copy, Default)]
pub struct ComparedFiles<'a> {
    /// Evaluation data.
    pub named: &'a [PathBuf],
    /// Files that the model is measured on after training. Some may only contain ids.
    pub measured: &'a [PathBuf],
    /// Compared files whose queries and codes may occur in training pairs.
    pub tolerated: &'a [PathBuf],
}

/// A query or code that a pair shares with a set of evaluation data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared<'g> {
    pub is_query: bool,
    pub set: &'g str,
    /// True if the user allows it, or if the pair belongs to the published training split of the same set, whose
    /// splits share codes.
    pub is_tolerated: bool,
}

impl EvaluationGuard {
    /// The given files, and the public sets in the directory of each training file and in the working directory.
    ///
    /// # Errors
    /// When a named or public file cannot be read, or a tolerated one does not exist.
    pub fn open(files: ComparedFiles<'_>, training: &[PathBuf]) -> Result<Self, FormatError> {
        let directories = directories(training).chain([PathBuf::from(".")]).collect();
        let whole = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let mut known: BTreeSet<PathBuf> = BTreeSet::new();
        files.tolerated.iter().try_for_each(|path| check_regular(path))?;
        let tolerated: Vec<PathBuf> = files.tolerated.iter().map(whole).collect();
        let mut guard = Self::default();
        for path in files.measured.iter().filter(|path| known.insert(whole(path))) {
            match EvaluationData::read_with_ids(path) {
                Ok((data, _)) if data.counts() == TextCounts::default() => {}
                Ok((data, _)) => {
                    guard.add(EvaluationFile::named(path), data, tolerated.contains(&whole(path)))
                }
                Err(_) => guard.uncompared.push(path.display().to_string()),
            }
        }
        let named = files.named.iter().chain(files.tolerated).filter(|path| known.insert(whole(path)));
        let mut read: Vec<EvaluationFile> = named.map(|path| EvaluationFile::named(path)).collect();
        known.extend(training.iter().map(whole));
        read.extend(evaluation_files(&directories).into_iter().filter(|file| !known.contains(&file.path)));
        for file in read {
            let data = EvaluationData::read(&file.path)?;
            let is_tolerated = tolerated.contains(&whole(&file.path));
            guard.add(file, data, is_tolerated);
        }
        Ok(guard)
    }

    /// Compares with the files that the user names only.
    pub fn new(named: &[PathBuf]) -> Result<Self, FormatError> {
        Self::read(named.iter().map(|path| EvaluationFile::named(path)))
    }

    /// The public sets in the directories of these files, including the files themselves.
    pub fn for_files(files: &[PathBuf]) -> Result<Self, FormatError> {
        Self::read(evaluation_files(&directories(files).collect()).into_iter())
    }

    fn read(files: impl Iterator<Item = EvaluationFile>) -> Result<Self, FormatError> {
        let mut guard = Self::default();
        for file in files {
            let data = EvaluationData::read(&file.path)?;
            guard.add(file, data, false);
        }
        Ok(guard)
    }

    fn add(&mut self, file: EvaluationFile, data: EvaluationData, is_tolerated: bool) {
        self.sets.push(Set { file, data, is_tolerated });
    }

    /// The names of the files that are not tolerated, with the counts of their texts.
    pub fn files(&self) -> impl Iterator<Item = (&str, TextCounts)> {
        let sets = self.sets.iter().filter(|set| !set.is_tolerated);
        sets.map(|set| (set.file.name.as_str(), set.data.counts()))
    }

    /// Names of measured files that could not be compared.
    pub fn uncompared(&self) -> &[String] {
        &self.uncompared
    }

    /// Warnings about files that exclude nothing.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let excludes_nothing = |(_, counts): &(&str, TextCounts)| counts.queries + counts.codes == 0;
        let empty = self.files().filter(excludes_nothing);
        empty.map(|(name, counts)| format!("warning: {name} excludes nothing: {counts}"))
    }

    /// Returns whether a function is in the data: by its code, with or without its documentation, by its name and
    /// summary together, or by the query derived from its documentation.
    pub fn has_function(&self, whole: &str, pair: &FunctionPair) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let query = ComparedQuery::new(&pair.query);
        let codes = [ComparedCode::new(whole, Some(&pair.language)), ComparedCode::from_text(&pair.code)];
        self.sets.iter().any(|Set { data, .. }| {
            data.has_summary(&pair.name, &pair.query)
                || data.has_query(&query)
                || codes.iter().any(|code| data.has_code(code))
        })
    }

    /// Finds the overlap of a pair made of these training files with evaluation data. Documentation in its codes is
    /// compared with queries. Of several overlaps, one that is not tolerated comes first, then the query. Codes
    /// come with the names of their languages, if known.
    pub fn shared<'c>(
        &self,
        training: &[PathBuf],
        query: &str,
        codes: impl Iterator<Item = (&'c str, Option<&'c str>)>,
    ) -> Option<Shared<'_>> {
        if self.sets.is_empty() {
            return None;
        }
        let query = ComparedQuery::new(query);
        let codes: Vec<ComparedCode> =
            codes.map(|(code, language)| ComparedCode::new(code, language)).collect();
        let own: Vec<&str> = training.iter().filter_map(|path| family_of(path)).collect();
        let is_of_split = |file: &EvaluationFile| {
            file.family.is_some_and(|family| !family.is_empty() && own.contains(&family))
        };
        let found = self.sets.iter().filter_map(|set| {
            let mut queries = codes.iter().flat_map(ComparedCode::documentation).chain([&query]);
            let is_query = queries.any(|query| set.data.has_query(query));
            let is_shared = is_query || codes.iter().any(|code| set.data.has_code(code));
            let is_tolerated = set.is_tolerated || !is_query && is_of_split(&set.file);
            is_shared.then_some(Shared { is_query, set: &set.file.name, is_tolerated })
        });
        found.min_by_key(|shared| (shared.is_tolerated, !shared.is_query))
    }
}

/// Numbers of training pairs that share queries and codes with evaluation data.
#[derive(Debug, Default)]
pub struct SharedCounts {
    leaks: BTreeMap<String, usize>,
    tolerated: BTreeMap<String, usize>,
}

impl SharedCounts {
    pub fn add(&mut self, shared: Shared<'_>) {
        let what = if shared.is_query { "query" } else { "code" };
        let counts = if shared.is_tolerated { &mut self.tolerated } else { &mut self.leaks };
        *counts.entry(format!("with a {what} of {}", shared.set)).or_default() += 1;
    }

    /// Lists the overlaps that are not tolerated, such as `2 pairs with a query of dev.json`.
    pub fn leaks(&self) -> Vec<String> {
        listed(&self.leaks)
    }

    /// Lists the tolerated overlaps.
    pub fn tolerated(&self) -> Vec<String> {
        listed(&self.tolerated)
    }
}

fn listed(counts: &BTreeMap<String, usize>) -> Vec<String> {
    counts.iter().map(|(what, n)| format!("{} {what}", counted(*n, "pair"))).collect()
}

#[cfg(test)]
impl From<EvaluationData> for EvaluationGuard {
    fn from(data: EvaluationData) -> Self {
        let mut guard = Self::default();
        guard.add(EvaluationFile::named(Path::new("evaluation")), data, false);
        guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str =
        "def sort_by_length(values):\n    ordered = sorted(values, key=len)\n    return ordered[::-1]";

    /// A row of CoSQA with a name that suggests the wrong split.
    fn row(query: &str, code: &str) -> serde_json::Value {
        serde_json::json!({
            "idx": "cosqa-train-1", "doc": query, "code": code, "code_tokens": code, "docstring_tokens": "",
            "label": 1, "retrieval_idx": 0,
        })
    }

    #[test]
    fn a_public_development_set_beside_the_pairs_is_recognized_by_its_texts() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let dev = serde_json::json!([row("python sort list by length of strings", CODE)]).to_string();
        let training = path("pairs.jsonl");
        std::fs::write(&training, "{}").unwrap();
        std::fs::write(path("cosqa-retrieval-train-19604.json"), "[]").unwrap();
        let guard = EvaluationGuard::open(ComparedFiles::default(), std::slice::from_ref(&training)).unwrap();
        assert_eq!(guard.files().filter(|(name, _)| name.contains("cosqa")).count(), 0);
        for place in ["cosqa-retrieval-dev-500.json", "cosqa/cosqa-retrieval-dev-500.json"] {
            let file = path(place);
            quarry_test_support::files::write(&file, &dev);
            let guard =
                EvaluationGuard::open(ComparedFiles::default(), std::slice::from_ref(&training)).unwrap();
            let found = |query: &str, code: &str| {
                guard.shared(std::slice::from_ref(&training), query, std::iter::once((code, None)))
            };
            let shared = |is_query: bool, is_tolerated: bool| {
                Some(Shared { is_query, set: "cosqa-retrieval-dev-500.json of cosqa", is_tolerated })
            };
            // Verbatim, with a different order and inflection, and nearly the same code alone.
            for query in ["Python: sort list by length of strings", "sorting lists by the length of a string"]
            {
                assert_eq!(found(query, "x"), shared(true, false), "{query}");
            }
            let renamed = format!("# Sorts.\n{CODE}");
            assert_eq!(found("something else", &renamed), shared(false, false));
            assert_eq!(found("sort a list", "def f(x):\n    return x"), None);
            // The published training split shares codes with it, but no queries.
            let split = [path("cosqa-retrieval-train-19604.json")];
            let of_split = |query: &str| guard.shared(&split, query, std::iter::once((CODE, None)));
            assert_eq!(of_split("something else"), shared(false, true));
            assert_eq!(of_split("sort list by length of strings"), shared(true, false));
            std::fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn files_of_public_sets_are_recognized_by_name_and_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["queries.csv", "cosqa-retrieval-train-19604.json", "test-00000-of-00001.parquet"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let found = evaluation_files(&[directory.path().to_owned()].into());
        assert_eq!(found, []);
        std::fs::create_dir(path("coir-cosqa")).unwrap();
        std::fs::write(path("coir-cosqa/queries-00000-of-00001.parquet"), "x").unwrap();
        let found = evaluation_files(&[directory.path().to_owned()].into());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "queries-00000-of-00001.parquet of coir-cosqa");
        // A named file that cannot be read is an error.
        let named = [path("none")];
        let named = ComparedFiles { named: &named, ..ComparedFiles::default() };
        assert!(EvaluationGuard::open(named, &[]).is_err());
    }

    #[test]
    fn shared_evaluation_texts_are_refused_unless_tolerated() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let training = write("pairs.jsonl", "");
        let test = write("test.jsonl", "{\"query\":\"sort a list of words\",\"code\":\"x\"}\n");
        let measured =
            [test.clone(), write("qrels.tsv", "q1\t0\td1\t1\n"), write("other.bin", "no data set at all\n")];
        let shared_with = |tolerated: &[PathBuf]| {
            let files = ComparedFiles { measured: &measured, tolerated, ..ComparedFiles::default() };
            let guard = EvaluationGuard::open(files, std::slice::from_ref(&training)).unwrap();
            assert_eq!(guard.uncompared(), [measured[2].display().to_string()]);
            let shared = guard.shared(&[], "sort a list of words", std::iter::empty()).unwrap();
            let mut counts = SharedCounts::default();
            counts.add(shared);
            (shared.is_tolerated, counts.leaks(), counts.tolerated())
        };
        let shared = vec![format!("1 pair with a query of {}", test.display())];
        assert_eq!(shared_with(&[]), (false, shared.clone(), Vec::new()));
        assert_eq!(shared_with(std::slice::from_ref(&test)), (true, Vec::new(), shared));
        let missing = [directory.path().join("none")];
        let files = ComparedFiles { tolerated: &missing, ..ComparedFiles::default() };
        assert!(EvaluationGuard::open(files, &[]).is_err());
    }
}
