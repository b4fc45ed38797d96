//! Queries from the history: the message of a commit is a query for the functions that it changed.
//!
//! A commit's functions are those of the files after it, if the searched tree still has them under the same path and
//! name: an added function does not exist before the commit, and users search today's code.

use std::collections::{HashMap, HashSet};

use quarry_corpus::changes::{MAX_FUNCTIONS, changed_functions};
use quarry_corpus::messages::{Scopes, question_of_commit};
use quarry_corpus::pairs::fingerprint;
use quarry_history::{Commit, Header};

use super::tree::Functions;
use super::{LabeledQuery, Questions};

/// The query in a commit's subject, if it describes what code does, with the component in brackets or before a colon.
/// `None` for merges, reverts, releases, formatting and updates of dependencies, which are generated or say nothing
/// about the changed functions.
pub fn question(header: &Header) -> Option<String> {
    question_of_commit(header, Scopes::Kept).ok()
}

pub struct CommitQuestions<'a> {
    functions: &'a Functions<'a>,
    /// Indices of functions by path and name.
    by_name: HashMap<(&'a str, &'a str), Vec<usize>>,
    paths: HashSet<&'a str>,
    asked: HashSet<u64>,
    questions: Questions,
}

impl<'a> CommitQuestions<'a> {
    pub fn new(functions: &'a Functions<'a>) -> Self {
        let mut by_name: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
        for (number, function) in functions.all.iter().enumerate() {
            by_name.entry((&function.file.path, &function.unit.name)).or_default().push(number);
        }
        let paths = functions.all.iter().map(|function| function.file.path.as_str()).collect();
        Self { functions, by_name, paths, asked: HashSet::new(), questions: Questions::default() }
    }

    /// Returns whether a file contains a function that can be an answer.
    pub fn has_file(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Number of queries so far.
    pub(super) fn len(&self) -> usize {
        self.questions.queries.len()
    }

    pub fn add(&mut self, commits: &[Commit]) {
        use rayon::prelude::*;
        let changed: Vec<Vec<(&str, String)>> = commits.par_iter().map(changed_functions).collect();
        for (commit, changed) in commits.iter().zip(changed) {
            self.add_one(commit, &changed);
        }
    }

    fn add_one(&mut self, commit: &Commit, changed: &[(&str, String)]) {
        let Some(text) = question(&commit.header) else { return };
        if commit.n_files > 0 && commit.changes.is_empty() {
            self.questions.leave_out("commits without a file that is searched, or with too many");
        } else if changed.is_empty() {
            self.questions.leave_out("commits that change no function");
        } else if changed.len() > MAX_FUNCTIONS {
            self.questions.leave_out("commits that change more than 5 functions");
        } else {
            let answers: Vec<_> = changed
                .iter()
                .filter_map(|(path, name)| self.by_name.get(&(*path, name.as_str())))
                .map(|numbers| self.functions.spans(numbers.iter().copied()))
                .collect();
            if answers.is_empty() {
                self.questions.leave_out("commits whose functions no longer exist");
            } else if self.asked.insert(fingerprint(&text)) {
                self.questions.queries.push(LabeledQuery { text, answers });
            } else {
                self.questions.leave_out("commits with the same message as a newer one");
            }
        }
    }

    /// The queries, newest first.
    #[must_use]
    pub fn finish(self) -> Questions {
        self.questions
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::files;
    use super::*;
    use quarry_history::Change;

    fn header(subject: &str) -> Header {
        Header { id: "0".into(), message: subject.into(), author: "A B".into(), parents: 1, seconds: 0 }
    }

    const BEFORE: &str = "def keep(a, b):\n    return [a + b for a in range(b)]\n\n\ndef change(a, b):\n    return [a * b for b in range(a)]\n";
    const AFTER: &str = "def change(a, b):\n    return [a * b + 1 for b in range(a)]\n\n\ndef keep(a, b):\n    return [\n        a + b for a in range(b)\n    ]\n\n\ndef new(a, b):\n    return [a - b for b in range(a) if b]\n";

    fn commit(subject: &str, after: &str) -> Commit {
        let change = Change { path: "a.py".into(), before: BEFORE.into(), after: after.into() };
        Commit {
            header: header(subject),
            parent: "1".into(),
            n_files: 1,
            changes: vec![change],
            ..Commit::default()
        }
    }

    #[test]
    fn a_commit_asks_for_what_is_still_there() {
        let now = AFTER.replace("def new", "def renamed");
        let files = files(&[("a.py", &now)]);
        let functions = Functions::collect(&files);
        let mut questions = CommitQuestions::new(&functions);
        assert!(questions.has_file("a.py") && !questions.has_file("b.py"));
        let text = "Count one more in every product";
        let many: String = (0..6).map(|n| format!("def f{n}(a):\n    return a + {n}\n\n\n")).collect();
        questions.add(&[
            commit(text, AFTER),
            commit(text, AFTER),
            commit("Change nothing in any product", BEFORE),
            commit("Add six functions for products", &many),
        ]);
        let questions = questions.finish();
        let expected = vec![functions.spans([0])];
        assert_eq!(questions.queries, [LabeledQuery { text: text.into(), answers: expected }]);
        assert_eq!(questions.left_out.values().sum::<usize>(), 3, "{:?}", questions.left_out);
    }
}
