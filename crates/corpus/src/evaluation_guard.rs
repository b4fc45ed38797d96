//! Public development and test sets that are at hand when a model is trained, and what training data share with them.
//!
//! Names do not tell: of CoSQA's development split 486 of 500 rows are called `cosqa-train-…`. So texts are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::dataset::public::{PublicFile, PublicSet, public_sets};
use crate::evaluation_data::{EvaluationData, published_as};
use crate::formats::FormatError;

/// Maximum number of files looked at in a directory: a directory with more is not one of data sets.
const MAX_FILES: usize = 10_000;

/// Words in the names of files with queries that are evaluated on.
const SPLITS: [&str; 4] = ["dev", "test", "valid", "val"];

/// A file of evaluation data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub name: String,
    /// The first part of the name of its set, which its training split has too; `None` if the user named the file.
    family: Option<&'static str>,
}

/// Whether a file of a public set has queries that models are evaluated on.
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

/// Whether the file at a path is one of a public set: by its name, in a directory or under a name that tells the set, and by
/// its length if that is known.
fn is_file_of(path: &Path, set: &PublicSet, file: &PublicFile) -> bool {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (name, directory) = (text(path.file_name()), text(path.parent().and_then(Path::file_name)));
    let tells = directory == set.name || name.contains(family(set)) || file.sha256.is_some();
    let has_length = || path.metadata().is_ok_and(|data| file.size.is_none_or(|size| size == data.len()));
    name == file.name() && tells && has_length()
}

/// The public set that a training file belongs to, by its name.
fn family_of(path: &Path) -> Option<&'static str> {
    let of = |set: &PublicSet| set.files.iter().any(|file| is_file_of(path, set, file));
    public_sets().iter().find(|set| of(set)).map(family)
}

/// The evaluation files of public sets in these directories, and in the directories below them in which `quarry data pull`
/// puts these sets; in the order of their paths. What cannot be read is not there.
#[must_use]
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
            // Under another name, by its content.
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

/// The directories that files are in; a directory itself.
fn directories(files: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    files.iter().map(|path| match path.is_dir() {
        true => path.clone(),
        false => path.parent().unwrap_or(Path::new("")).to_owned(),
    })
}

/// Evaluation data that training data are compared with.
#[derive(Debug, Default)]
pub struct EvaluationGuard {
    sets: Vec<(EvaluationFile, EvaluationData)>,
}

/// What a pair shares with evaluation data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared<'g> {
    /// The query, exactly or nearly.
    Query(&'g str),
    /// The code, exactly or nearly.
    Code(&'g str),
    /// The code, where the pair belongs to the published training split of the same set, whose splits share codes.
    CodeOfSplit(&'g str),
}

impl EvaluationGuard {
    /// The files that the user names, and the public sets in the directory of each training file and in the working
    /// directory.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn open(named: &[PathBuf], training: &[PathBuf]) -> Result<Self, FormatError> {
        let directories = directories(training).chain([PathBuf::from(".")]).collect();
        let whole = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let own: BTreeSet<PathBuf> = training.iter().chain(named).map(whole).collect();
        let named = named.iter().map(|path| EvaluationFile {
            path: path.clone(),
            name: path.display().to_string(),
            family: None,
        });
        let present = evaluation_files(&directories).into_iter().filter(|file| !own.contains(&file.path));
        Self::read(named.chain(present))
    }

    /// The public sets in the directories of these files, also if they are such a file.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn beside(files: &[PathBuf]) -> Result<Self, FormatError> {
        Self::read(evaluation_files(&directories(files).collect()).into_iter())
    }

    fn read(files: impl Iterator<Item = EvaluationFile>) -> Result<Self, FormatError> {
        let read = |file: EvaluationFile| {
            let data = EvaluationData::read(std::slice::from_ref(&file.path))?;
            Ok((file, data))
        };
        Ok(Self { sets: files.map(read).collect::<Result<_, FormatError>>()? })
    }

    /// The names of the files, those that the user named first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sets.iter().map(|(file, _)| file.name.as_str())
    }

    /// What a pair made of these training files shares with evaluation data; the query goes before codes.
    pub fn shared<'c>(
        &self,
        training: &[PathBuf],
        query: &str,
        codes: impl Iterator<Item = &'c str> + Clone,
    ) -> Option<Shared<'_>> {
        let by_query = self.sets.iter().find(|(_, data)| data.has_query_nearly(query));
        if let Some((file, _)) = by_query {
            return Some(Shared::Query(&file.name));
        }
        let mut with_code =
            self.sets.iter().filter(|(_, data)| codes.clone().any(|code| data.has_code(code))).peekable();
        with_code.peek()?;
        let own: Vec<&str> = training.iter().filter_map(|path| family_of(path)).collect();
        let is_of_split = |file: &EvaluationFile| {
            file.family.is_some_and(|family| !family.is_empty() && own.contains(&family))
        };
        let (mut splits, mut others): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for (file, _) in with_code {
            if is_of_split(file) { splits.push(&file.name) } else { others.push(&file.name) }
        }
        others.first().map(|name| Shared::Code(name)).or(splits.first().map(|name| Shared::CodeOfSplit(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str =
        "def sort_by_length(values):\n    ordered = sorted(values, key=len)\n    return ordered[::-1]";

    /// A row of CoSQA with a name that tells the wrong split.
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
        let guard = EvaluationGuard::open(&[], std::slice::from_ref(&training)).unwrap();
        assert_eq!(guard.names().filter(|name| name.contains("cosqa")).count(), 0);
        for place in ["cosqa-retrieval-dev-500.json", "cosqa/cosqa-retrieval-dev-500.json"] {
            let file = path(place);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &dev).unwrap();
            let guard = EvaluationGuard::open(&[], std::slice::from_ref(&training)).unwrap();
            let found = |query: &str, code: &str| {
                guard.shared(std::slice::from_ref(&training), query, std::iter::once(code))
            };
            let name = "cosqa-retrieval-dev-500.json of cosqa";
            // Word for word, in another order and inflection, and only the code, nearly.
            for query in ["Python: sort list by length of strings", "sorting lists by the length of a string"]
            {
                assert_eq!(found(query, "x"), Some(Shared::Query(name)), "{query}");
            }
            let renamed = format!("# Sorts.\n{CODE}");
            assert_eq!(found("something else", &renamed), Some(Shared::Code(name)));
            assert_eq!(found("sort a list", "def f(x):\n    return x"), None);
            // The published training split shares codes with it, and no query.
            let split = [path("cosqa-retrieval-train-19604.json")];
            let shared = guard.shared(&split, "something else", std::iter::once(CODE));
            assert_eq!(shared, Some(Shared::CodeOfSplit(name)));
            let shared = guard.shared(&split, "sort list by length of strings", std::iter::once(CODE));
            assert_eq!(shared, Some(Shared::Query(name)));
            std::fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn files_of_public_sets_are_told_by_name_and_length() {
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
        // What is named and cannot be read is an error.
        assert!(EvaluationGuard::open(&[path("none")], &[]).is_err());
    }
}
