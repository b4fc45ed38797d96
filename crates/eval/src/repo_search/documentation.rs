//! Questions from documentation, in addition to those written by people: descriptions of functions, asked of copies
//! in which they are hidden.

use std::path::{Path, PathBuf};

use quarry_corpus::formats::repo_search::{Repository, RepositoryQuery};
use quarry_corpus::pairs::Extent;
use tempfile::TempDir;

use super::{indexed_directory, indexed_path};
use crate::EvalError;
use crate::self_benchmark::tree::{self, Functions};
use crate::self_benchmark::view::View;
use crate::self_benchmark::{LabeledQuery, docstrings};

pub const DOCUMENTATION: &str = "documentation";

/// Maximum number of questions per repository, and the seed of their sample.
const QUESTIONS: usize = 50;
const SEED: u64 = 42;

/// Repositories with the documentation of their functions hidden, and used as questions.
pub struct Documented {
    /// The repositories that have documentation, with their questions.
    pub repositories: Vec<Repository>,
    directory: TempDir,
}

impl Documented {
    /// Copies the source files of repositories to a temporary directory, with the documentation of functions hidden,
    /// and uses a sample of it as questions, each answered by the lines of one function.
    ///
    /// # Errors
    /// When a repository cannot be read, or a copy cannot be written.
    pub fn new(repositories: &[Repository], directories: &[PathBuf]) -> Result<Self, EvalError> {
        let directory = tempfile::tempdir().map_err(EvalError::TemporaryDirectory)?;
        let mut found = Vec::new();
        for repository in repositories {
            let files = tree::read(&indexed_directory(directories, repository))?;
            let mut questions = docstrings::questions(&Functions::collect(&files), Extent::Sentence);
            questions.queries.retain(|query| query.answers.concat().len() == 1);
            questions.sample(QUESTIONS, SEED);
            if questions.queries.is_empty() {
                continue;
            }
            let view = View { hides_docs: true, ..View::default() };
            view.write(&files, &directory.path().join(indexed_path(repository)))
                .map_err(EvalError::TemporaryDirectory)?;
            let query = |LabeledQuery { text, answers }| RepositoryQuery {
                category: DOCUMENTATION.to_owned(),
                text,
                targets: answers.concat(),
            };
            let queries = questions.queries.into_iter().map(query).collect();
            found.push(Repository { queries, ..repository.clone() });
        }
        Ok(Self { repositories: found, directory })
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn documentation_is_asked_for_and_hidden() {
        let checkouts = tempfile::tempdir().unwrap();
        fs::create_dir_all(checkouts.path().join("shop/src")).unwrap();
        fs::create_dir_all(checkouts.path().join("bare")).unwrap();
        let code = "def total(items):\n    \"\"\"Adds up the prices of all items.\"\"\"\n    result = 0\n    for item in items:\n        result += item.price\n    return result\n";
        fs::write(checkouts.path().join("shop/src/cart.py"), code).unwrap();
        fs::write(checkouts.path().join("bare/cart.py"), "def total(items):\n    return sum(items)\n")
            .unwrap();
        let repository = |name: &str, root: &str| Repository {
            name: name.to_owned(),
            revision: String::new(),
            root: root.to_owned(),
            queries: Vec::new(),
        };
        let repositories = [repository("shop", "src"), repository("bare", "")];
        let found = Documented::new(&repositories, &[checkouts.path().to_owned()]).unwrap();
        let [shop] = &found.repositories[..] else { panic!("{:?}", found.repositories) };
        let [query] = &shop.queries[..] else { panic!("{:?}", shop.queries) };
        assert!(query.text.starts_with("Adds up the prices") && query.targets[0].lines == Some((1, 6)));
        let copy = fs::read_to_string(found.directory().join("shop/src/cart.py")).unwrap();
        assert!(copy.contains("def total(items)") && !copy.contains("Adds up"), "{copy}");
    }
}
