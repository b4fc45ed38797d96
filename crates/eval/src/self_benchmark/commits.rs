//! Queries from the history: the message of a commit is a query for the functions that it changed.
//!
//! A commit's functions are those of the files after it, if the searched tree still has them under the same path and
//! name: an added function does not exist before the commit, and users search today's code. A function counts as
//! changed if its letters and digits differ from those of every function in the files before, so that moved or
//! reformatted functions do not count.

use std::collections::{HashMap, HashSet};

use quarry_corpus::git::{Commit, Header};
use quarry_corpus::pairs::{cut_out, fingerprint};
use quarry_source::{extract, language_for};
use quarry_text::{identifiers, parts, query_terms};

use super::tree::{Functions, is_function};
use super::{LabeledQuery, Questions};

/// Maximum number of functions that a commit changes; a commit that changes more is not about any of them.
const MAX_FUNCTIONS: usize = 5;

/// Minimum number of distinctive terms of a subject.
const MIN_TERMS: usize = 3;

/// Maximum length of a subject, in words.
const MAX_WORDS: usize = 40;

/// First words of subjects that do not describe what code does, in lower case.
const FIRST_WORDS: &[&str] = &[
    "amend",
    "autofix",
    "automated",
    "automatic",
    "backport",
    "bump",
    "cherry",
    "cleanup",
    "clippy",
    "fixup",
    "fmt",
    "format",
    "formatting",
    "lint",
    "linting",
    "merge",
    "prettier",
    "reapply",
    "reformat",
    "release",
    "reland",
    "revert",
    "rollback",
    "rustfmt",
    "squash",
    "typo",
    "typos",
    "update",
    "upgrade",
    "version",
    "whitespace",
    "wip",
];

/// Types of conventional commits that do not describe what code does.
const TYPES: &[&str] =
    &["build", "chore", "ci", "deps", "doc", "docs", "format", "lint", "release", "style", "test", "tests"];

/// Phrases anywhere in subjects that do not describe what code does.
const PHRASES: &[&str] = &[
    "black",
    "code style",
    "coding style",
    "clang-format",
    "dependabot",
    "dependencies",
    "dependency",
    "eslint",
    "fix lint",
    "fix typo",
    "gofmt",
    "pep8",
    "pre-commit",
    "renovate",
    "run prettier",
    "rustfmt",
    "typo",
    "typos",
    "whitespace",
];

/// The query in a commit's subject, if it describes what code does: without the type of a conventional commit (but
/// with the component in brackets or before a colon) and without issue numbers. `None` for merges, reverts, releases,
/// formatting and updates of dependencies, which are generated or say nothing about the changed functions.
#[must_use]
pub fn question(header: &Header) -> Option<String> {
    if header.parents != 1 || header.author.contains("[bot]") {
        return None;
    }
    let mut subject = header.subject.trim();
    let mut component = "";
    if let Some((prefix, rest)) = subject.split_once(": ")
        && !prefix.contains(' ')
    {
        let (kind, scope) = prefix.split_once('(').unwrap_or((prefix, ""));
        if TYPES.contains(&kind.to_lowercase().trim_end_matches('!')) {
            return None;
        }
        component = if ["feat", "feature", "fix", "perf", "refactor"].contains(&kind.trim_end_matches('!')) {
            scope.trim_end_matches(['!', ')'])
        } else {
            prefix
        };
        subject = rest;
    }
    // `#12`, `gh-12`, and `ABC-12` at the beginning of the subject or in brackets: `UTF-8` is not an issue.
    let is_issue = |position: usize, word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        bare.strip_prefix('#').is_some_and(is_number)
            || (position == 0 || word.starts_with(['(', '[']))
                && bare.split_once('-').is_some_and(|(project, number)| {
                    project.len() > 1 && project.chars().all(|c| c.is_ascii_uppercase()) && is_number(number)
                })
    };
    let telling =
        subject.split_whitespace().enumerate().filter(|(position, word)| !is_issue(*position, word));
    let words: Vec<&str> = std::iter::once(component)
        .filter(|component| !component.is_empty())
        .chain(telling.map(|(_, word)| word))
        .collect();
    let text = words.join(" ");
    let lower = text.to_lowercase();
    let first = identifiers(subject).next().unwrap_or_default().to_lowercase();
    let holds = |phrase: &&str| {
        lower.match_indices(*phrase).any(|(at, _)| {
            let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !is_letter(lower[..at].chars().next_back())
                && !is_letter(lower[at + phrase.len()..].chars().next())
        })
    };
    let is_asked = !FIRST_WORDS.contains(&first.as_str())
        && !PHRASES.iter().any(holds)
        && query_terms(&text).len() >= MIN_TERMS
        && identifiers(&text).flat_map(parts).count() <= MAX_WORDS;
    is_asked.then_some(text)
}

/// Collects queries from commits.
pub struct CommitQuestions<'a> {
    functions: &'a Functions<'a>,
    /// Indices of functions by path and name.
    by_name: HashMap<(&'a str, &'a str), Vec<usize>>,
    paths: HashSet<&'a str>,
    asked: HashSet<u64>,
    questions: Questions,
}

impl<'a> CommitQuestions<'a> {
    /// For the functions of the searched tree.
    #[must_use]
    pub fn new(functions: &'a Functions<'a>) -> Self {
        let mut by_name: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
        for (number, function) in functions.all.iter().enumerate() {
            by_name.entry((&function.file.path, &function.unit.name)).or_default().push(number);
        }
        let paths = functions.all.iter().map(|function| function.file.path.as_str()).collect();
        Self { functions, by_name, paths, asked: HashSet::new(), questions: Questions::default() }
    }

    /// Whether a file contains a function that can be an answer.
    #[must_use]
    pub fn has_file(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Number of queries so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.questions.queries.len()
    }

    /// Whether there are no queries so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the queries of some commits.
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
                self.questions.leave_out("commits whose functions are no longer there");
            } else if self.asked.insert(fingerprint(&text)) {
                self.questions.queries.push(LabeledQuery { text, answers });
            } else {
                self.questions.leave_out("commits that say what a newer one says");
            }
        }
    }

    /// The queries, newest first.
    #[must_use]
    pub fn finish(self) -> Questions {
        self.questions
    }
}

/// The functions that a commit changed or added, by path and name, without duplicates.
#[must_use]
pub fn changed_functions(commit: &Commit) -> Vec<(&str, String)> {
    let functions = |path: &str, bytes: &[u8]| -> Vec<(String, u64)> {
        let Some(language) = language_for(path.as_ref(), bytes) else { return Vec::new() };
        let units = extract(language, bytes).units;
        let of_function = |unit: quarry_source::Unit| {
            let code = cut_out(bytes, unit.bytes.clone(), &unit.doc_bytes);
            (unit.name, fingerprint(&code))
        };
        units.into_iter().filter(is_function).map(of_function).collect()
    };
    let before: HashSet<u64> = commit
        .changes
        .iter()
        .flat_map(|change| functions(&change.path, &change.before))
        .map(|(_, hash)| hash)
        .collect();
    let mut changed: Vec<(&str, String)> = Vec::new();
    for change in &commit.changes {
        for (name, hash) in functions(&change.path, &change.after) {
            let function = (change.path.as_str(), name);
            if !before.contains(&hash) && !changed.contains(&function) {
                changed.push(function);
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::files;
    use super::*;
    use quarry_corpus::git::Change;

    fn header(subject: &str) -> Header {
        Header { id: "0".into(), subject: subject.into(), author: "A B".into(), parents: 1 }
    }

    #[test]
    fn subjects_lose_what_is_not_about_the_code() {
        let check = |subject: &str, expected: Option<&str>| {
            assert_eq!(question(&header(subject)).as_deref(), expected, "{subject}");
        };
        check("Retry requests after a timeout (#123)", Some("Retry requests after a timeout"));
        check("feat(client): retry requests after timeout", Some("client retry requests after timeout"));
        check("fix!: retry requests after timeout (GH-12)", Some("retry requests after timeout"));
        check("parser: accept empty header lines", Some("parser accept empty header lines"));
        check("Decode names as UTF-8 strictly", Some("Decode names as UTF-8 strictly"));
        check("ABC-77 Accept empty header lines", Some("Accept empty header lines"));
        for subject in [
            "Merge branch 'x' into main please",
            "Revert \"Retry requests after a timeout\"",
            "chore(deps): bump serde from 1.0 to 1.1",
            "Bump serde from 1.0 to 1.1",
            "docs: say how requests are retried",
            "Apply rustfmt to all files",
            "Fix typo in request handler name",
            "Fix it",
            "",
        ] {
            check(subject, None);
        }
        assert_eq!(question(&Header { parents: 2, ..header("Retry requests after a timeout") }), None);
        let bot = Header { author: "x[bot]".into(), ..header("Retry requests after a timeout") };
        assert_eq!(question(&bot), None);
    }

    const BEFORE: &str = "def keep(a, b):\n    return [a + b for a in range(b)]\n\n\ndef change(a, b):\n    return [a * b for b in range(a)]\n";
    const AFTER: &str = "def change(a, b):\n    return [a * b + 1 for b in range(a)]\n\n\ndef keep(a, b):\n    return [\n        a + b for a in range(b)\n    ]\n\n\ndef new(a, b):\n    return [a - b for b in range(a) if b]\n";

    fn commit(subject: &str, after: &str) -> Commit {
        let change = Change { path: "a.py".into(), before: BEFORE.into(), after: after.into() };
        Commit { header: header(subject), n_files: 1, changes: vec![change] }
    }

    #[test]
    fn moved_and_formatted_functions_are_not_changed() {
        let commit = commit("", AFTER);
        let changed = changed_functions(&commit);
        assert_eq!(changed, [("a.py", "change".to_owned()), ("a.py", "new".to_owned())]);
    }

    #[test]
    fn a_commit_asks_for_what_is_still_there() {
        let now = AFTER.replace("def new", "def renamed");
        let files = files(&[("a.py", &now)]);
        let functions = Functions::of(&files);
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
