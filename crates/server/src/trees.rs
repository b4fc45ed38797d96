//! The trees of one server: those that it was started with, and those that a client has open (its roots).
//!
//! Each is a [`Workspace`], which holds nothing open between calls, so that many trees cost no more memory than those that
//! are asked at the time. A call names its tree by the first part of a path, or by a path that only one tree has; a question
//! without a path is asked of all trees, and those that are most confident answer.

use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

use quarry_answer::count_tokens;
use quarry_answer::text::quoted_start;

use crate::calls::shares;
use crate::tools::Call;
use crate::{ReportProgress, ToolAnswer, ToolError, Workspace};

/// Trees whose answers are shown to a question that names none.
const SHOWN: usize = 3;

/// Roots of a client that are searched; the first ones.
const MAX_ROOTS: usize = 64;

/// Tokens of the name of a tree.
const NAME_TOKENS: usize = 24;

/// Trees that an error names.
const NEAREST: usize = 8;

/// Makes the workspace of a directory.
type MakeWorkspace = dyn Fn(&Path) -> Workspace + Send + Sync;

/// The trees of a server.
pub struct Trees {
    given: Vec<NamedTree>,
    /// What the client has open.
    roots: RwLock<Vec<NamedTree>>,
    make: Option<Box<MakeWorkspace>>,
    /// Whether the roots of a client take the place of the given trees, which nobody named.
    gives_way: bool,
}

#[derive(Clone)]
struct NamedTree {
    name: String,
    workspace: Arc<Workspace>,
}

impl Trees {
    /// One tree, whatever a client has open.
    #[must_use]
    pub fn one(workspace: Arc<Workspace>) -> Self {
        let given = vec![NamedTree { name: String::new(), workspace }];
        Self { given, roots: RwLock::default(), make: None, gives_way: false }
    }

    /// The trees at some paths, and those that a client has open, which are made when they are first asked; these take the
    /// place of the given ones if `gives_way`. Names are those of the directories, numbered where two are equal.
    #[must_use]
    pub fn new(
        paths: &[PathBuf],
        gives_way: bool,
        make: impl Fn(&Path) -> Workspace + Send + Sync + 'static,
    ) -> Self {
        let given = named(paths.iter().map(|path| (path.clone(), Arc::new(make(path)))), &[]);
        Self { given, roots: RwLock::default(), make: Some(Box::new(make)), gives_way }
    }

    /// Whether the roots of a client are of use.
    pub(crate) fn takes_roots(&self) -> bool {
        self.make.is_some()
    }

    /// Sets what the client has open; directories that are given trees already are left out.
    pub(crate) fn set_roots(&self, paths: &[PathBuf]) {
        let Some(make) = &self.make else { return };
        let given = if self.gives_way { &[][..] } else { &self.given };
        let known = self.roots.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut seen: BTreeSet<PathBuf> = given.iter().map(|tree| canonical(tree.workspace.root())).collect();
        let new = paths.iter().filter(|path| seen.insert(canonical(path))).take(MAX_ROOTS);
        let workspace = |path: &PathBuf| {
            let same = known.iter().find(|tree| tree.workspace.root() == path);
            let workspace = same.map_or_else(|| Arc::new(make(path)), |tree| Arc::clone(&tree.workspace));
            (path.clone(), workspace)
        };
        let roots = named(new.map(workspace), given);
        *self.roots.write().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    fn all(&self) -> Vec<NamedTree> {
        let roots = self.roots.read().unwrap_or_else(PoisonError::into_inner);
        match self.gives_way && !roots.is_empty() {
            true => roots.clone(),
            false => self.given.iter().chain(&*roots).cloned().collect(),
        }
    }

    /// Answers a call that may have waited since it was `asked`.
    ///
    /// # Errors
    /// As [`Workspace::answer`], and when several trees have the path.
    pub(crate) fn answer_of(
        &self,
        call: &Call,
        asked: Instant,
        report: ReportProgress,
    ) -> Result<ToolAnswer, ToolError> {
        let trees = self.all();
        if let [only] = trees.as_slice() {
            return only.workspace.answer_of(call, asked, report);
        }
        let Some(path) = call.path().filter(|path| !path.is_empty()) else {
            return ask_all(&trees, call, asked, report);
        };
        let (tree, call) = named_by(&trees, path, call)?;
        tree.workspace.answer_of(&call, asked, report)
    }
}

/// The tree that a path names, and the call with the rest of the path.
fn named_by<'a>(trees: &'a [NamedTree], path: &str, call: &Call) -> Result<(&'a NamedTree, Call), ToolError> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let called = trees.iter().find(|tree| tree.name == first);
    // A tree may have a directory of its own name, as packages of Python do.
    if let Some(tree) = called.filter(|tree| rest.is_empty() || tree.workspace.has(rest)) {
        return Ok((tree, call.with_path(rest)));
    }
    let having: Vec<&NamedTree> = trees.iter().filter(|tree| tree.workspace.has(path)).collect();
    match (having.as_slice(), called) {
        ([only], _) => Ok((only, call.with_path(path))),
        ([], Some(tree)) => Ok((tree, call.with_path(rest))),
        ([], None) => Err(ToolError::UnknownPath {
            path: path.to_owned(),
            nearest: trees.iter().map(|tree| tree.name.clone()).take(NEAREST).collect(),
        }),
        (several, _) => Err(ToolError::SeveralTrees {
            path: path.to_owned(),
            trees: several.iter().map(|tree| format!("{}/{path}", tree.name)).take(NEAREST).collect(),
        }),
    }
}

/// The answers of the trees that are most confident, each under the name of its tree, within the budget of the call.
fn ask_all(
    trees: &[NamedTree],
    call: &Call,
    asked: Instant,
    report: ReportProgress,
) -> Result<ToolAnswer, ToolError> {
    let is_status = matches!(call, Call::IndexStatus(_));
    let headings = trees.iter().map(|tree| count_tokens(&heading(tree)));
    let heading_tokens = headings.max().unwrap_or_default();
    let whole = call.max_tokens().map(|max| call.with_budget(max.saturating_sub(heading_tokens)));
    let whole = whole.as_ref().unwrap_or(call);
    let mut found = at_once(trees, |tree| tree.workspace.answer_of(whole, asked, report));
    if found.iter().all(|(_, answer)| answer.is_err())
        && let Some((_, error)) = found.pop()
    {
        return error;
    }
    let confidence =
        |answer: &Result<ToolAnswer, ToolError>| answer.as_ref().map_or(-1.0, |found| found.confidence);
    // Stable: ties stay in the order of the trees.
    found.sort_by(|a, b| confidence(&b.1).total_cmp(&confidence(&a.1)));
    let confidence = found.first().map_or(0.0, |(_, answer)| confidence(answer));
    if !is_status {
        // What has nothing is told where none has more.
        let n_having =
            found.iter().filter(|(_, answer)| answer.as_ref().is_ok_and(|found| found.confidence > 0.0));
        found.truncate(n_having.count().clamp(1, SHOWN));
    }
    let text_of = |(tree, answer): &(&NamedTree, Result<ToolAnswer, ToolError>)| {
        let answer =
            answer.as_ref().map_or_else(|error| format!("{}\n", error.report()), |found| found.text.clone());
        heading(tree) + &answer
    };
    let mut answers: Vec<String> = found.iter().map(text_of).collect();
    if let Some(max_tokens) = call.max_tokens() {
        let is_too_long = |answers: &[String]| count_tokens(&answers.concat()) > max_tokens;
        if is_too_long(&answers) {
            // What the short answers leave is for the long ones.
            let costs: Vec<usize> = answers.iter().map(|answer| count_tokens(answer)).collect();
            let shares = shares(max_tokens, &costs);
            for (((tree, answer), share), cost) in found.iter_mut().zip(shares).zip(costs) {
                if share < cost {
                    let call = call.with_budget(share.saturating_sub(heading_tokens));
                    *answer = tree.workspace.answer_of(&call, asked, report);
                }
            }
            answers = found.iter().map(text_of).collect();
        }
        // What a tree answers may be longer than its share where that is too small for anything.
        while answers.len() > 1 && is_too_long(&answers) {
            answers.pop();
        }
    }
    Ok(ToolAnswer { text: answers.concat(), structured: None, confidence })
}

/// What each tree answers, as many of them at a time as there are processors: no more are open at once.
fn at_once<T: Send>(trees: &[NamedTree], ask: impl Fn(&NamedTree) -> T + Sync) -> Vec<(&NamedTree, T)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = iter::from_fn(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            trees.get(number).map(|tree| (number, tree, ask(tree)))
        });
        mine.collect::<Vec<_>>()
    };
    // Not those of rayon, which would wait for each other where one waits for an index that another one builds.
    let n_threads = thread::available_parallelism().map_or(2, usize::from).min(trees.len());
    let mut answers: Vec<(usize, &NamedTree, T)> = thread::scope(|scope| {
        let threads: Vec<_> = (1..n_threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        others.flatten().chain(own).collect()
    });
    answers.sort_by_key(|(number, ..)| *number);
    answers.into_iter().map(|(_, tree, answer)| (tree, answer)).collect()
}

/// What stands above the answer of a tree.
fn heading(tree: &NamedTree) -> String {
    let name = quoted_start(&tree.name);
    format!("Tree {name}, whose paths may begin with {name}/:\n")
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Trees with distinct names, none of which is of `others`.
fn named(trees: impl Iterator<Item = (PathBuf, Arc<Workspace>)>, others: &[NamedTree]) -> Vec<NamedTree> {
    let mut taken: BTreeSet<String> = others.iter().map(|tree| tree.name.clone()).collect();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (path, workspace) in trees {
        let own = canonical(&path).file_name().map(|name| name.to_string_lossy().into_owned());
        let mut own = own.unwrap_or_else(|| "root".to_owned());
        while count_tokens(&own) > NAME_TOKENS {
            own.pop();
        }
        let mut name = own.clone();
        let number = numbers.entry(own.clone()).or_insert(2);
        while !taken.insert(name.clone()) {
            name = format!("{own}-{number}");
            *number += 1;
        }
        found.push(NamedTree { name, workspace });
    }
    found
}

/// The directory that a `file:` URI of a root names.
pub(crate) fn directory_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = match (first, tail) {
            (b'%', [a, b, ..]) => {
                let digit =
                    |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(a).zip(digit(b)).map(|(a, b)| 16 * a + b)
            }
            _ => None,
        };
        bytes.push(hex.unwrap_or(*first));
        rest = if hex.is_some() { &tail[2..] } else { tail };
    }
    let path = String::from_utf8(bytes).ok()?;
    // On Windows a drive follows the slash.
    let is_drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
    let path = PathBuf::from(if is_drive { path.trim_start_matches('/') } else { path.as_str() });
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quarry_embed::StaticModel;
    use quarry_index::OpenOptions;
    use serde_json::{Value, json};

    use super::*;

    fn call(name: &str, arguments: Value) -> Call {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        Call::new(name, arguments).unwrap().unwrap()
    }

    fn ask(trees: &Trees, name: &str, arguments: Value) -> String {
        let answer = trees.answer_of(&call(name, arguments), Instant::now(), &|_| {});
        answer.map_or_else(|error| error.report(), |answer| answer.text)
    }

    #[test]
    fn several_trees_answer_and_a_path_names_one() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        for (path, text) in [
            (
                "a/net/http.py",
                "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n",
            ),
            ("a/main.py", "def main():\n    return 1\n"),
            ("b/main.py", "def send_letter(address):\n    return post(address)\n"),
            ("b/b/letter.py", "def fold(paper):\n    return paper.half()\n"),
        ] {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        }
        let indexes = at("indexes");
        let make = move |path: &Path| {
            let index = indexes.join(path.to_string_lossy().replace('/', "_"));
            let options = OpenOptions { directory: Some(index), ..OpenOptions::default() };
            Workspace::new(path.to_owned(), options, Arc::new(StaticModel::builtin()))
        };
        // The second one appears later.
        let trees = Trees::new(&[at("a"), at("b"), at("c/a")], false, make.clone());
        let found = ask(&trees, "search", json!({"query": "open a socket to a host"}));
        assert!(
            found
                .starts_with("Tree a, whose paths may begin with a/:\n1. net/http.py:1-3 function connect\n"),
            "{found}"
        );
        let found = ask(&trees, "read_unit", json!({"path": "a/main.py", "line": 1}));
        assert!(found.starts_with("main.py:1-2 function main\n"), "{found}");
        let found = ask(&trees, "read_unit", json!({"path": "net/http.py", "line": 1}));
        assert!(found.starts_with("net/http.py:1-3 "), "{found}");
        let found = ask(&trees, "read_unit", json!({"path": "b/letter.py", "line": 1}));
        assert!(found.starts_with("b/letter.py:1-2 "), "a directory with the name of its tree: {found}");
        let found = ask(&trees, "read_unit", json!({"path": "main.py", "line": 1}));
        assert!(found.contains("a/main.py, b/main.py"), "{found}");
        let found = ask(&trees, "read_unit", json!({"path": "../secret.py", "line": 1}));
        assert!(found.contains("no such file"), "{found}");
        fs::create_dir_all(at("c/a")).unwrap();
        fs::write(at("c/a/late.py"), "def bake_bread(oven):\n    return oven.bake()\n").unwrap();
        let found = ask(&trees, "search", json!({"query": "bake bread", "path": "a-2"}));
        assert!(found.contains("late.py:1-2 function bake_bread"), "{found}");
        let status = ask(&trees, "index_status", json!({}));
        assert_eq!(status.matches("Tree ").count(), 3, "{status}");

        let found = ask(&trees, "callers", json!({"name": "post"}));
        assert!(found.starts_with("Tree b,") && !found.contains("Tree a"), "{found}");
        let found = ask(&trees, "callers", json!({"name": "no_such_function"}));
        assert_eq!(found.matches("Tree ").count(), 1, "{found}");

        // What a client has open is found where nothing else was named.
        let trees = Trees::new(&[at("a")], true, make.clone());
        trees.set_roots(&[at("b")]);
        assert!(
            ask(&trees, "search", json!({"query": "send a letter"}))
                .contains("1. main.py:1-2 function send_letter")
        );
        trees.set_roots(&[]);
        assert!(ask(&trees, "search", json!({"query": "open a socket"})).contains("1. net/http.py"));
        let trees = Trees::new(&[at("a")], false, make);
        trees.set_roots(&[at("a"), at("b")]);
        assert_eq!(trees.all().len(), 2);
        assert!(
            count_tokens(&ask(&trees, "context", json!({"query": "send a letter", "max_tokens": 200})))
                <= 200
        );
    }

    #[test]
    fn what_a_short_answer_leaves_is_for_a_long_one() {
        let directory = tempfile::tempdir().unwrap();
        for (name, n) in [("a", 1), ("b", 60)] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
            let code: String = (0..n)
                .map(|n| format!("def post_{n}(letter):\n    return stamp(letter, {n})\n\n\n"))
                .collect();
            fs::write(directory.path().join(name).join("main.py"), code).unwrap();
        }
        let indexes = directory.path().join("indexes");
        let trees = Trees::new(&["a", "b"].map(|name| directory.path().join(name)), false, move |path| {
            let directory = Some(indexes.join(path.file_name().unwrap()));
            let options = OpenOptions { directory, ..OpenOptions::default() };
            Workspace::new(path.to_owned(), options, Arc::new(StaticModel::builtin()))
        });
        for max_tokens in [500, 1_000] {
            let text = ask(&trees, "callers", json!({"name": "stamp", "k": 50, "max_tokens": max_tokens}));
            let n_tokens = count_tokens(&text);
            assert!(text.contains("Tree a,") && text.contains("Tree b,"), "{text}");
            // Half of it would be lost to the tree that has one call.
            assert!(
                n_tokens <= max_tokens && 10 * n_tokens > 6 * max_tokens,
                "{n_tokens} of {max_tokens}: {text}"
            );
        }
    }

    #[test]
    fn trees_are_asked_at_once_and_answer_in_their_order() {
        let trees = Trees::new(
            &(0..9).map(|n| PathBuf::from(format!("/none/{n}"))).collect::<Vec<_>>(),
            false,
            |path| Workspace::new(path.to_owned(), OpenOptions::default(), Arc::new(StaticModel::builtin())),
        );
        let trees = trees.all();
        let (n_now, n_most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let answers = at_once(&trees, |tree| {
            n_most.fetch_max(n_now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(std::time::Duration::from_millis(20));
            n_now.fetch_sub(1, Ordering::SeqCst);
            tree.name.clone()
        });
        let names: Vec<&str> = answers.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
        let n_threads = thread::available_parallelism().map_or(2, usize::from);
        assert!((n_threads.min(2)..=n_threads).contains(&n_most.load(Ordering::SeqCst)));
        assert!(at_once(&[], |_| ()).is_empty());
    }

    #[test]
    fn long_names_of_trees_keep_to_the_budget_and_many_equal_ones_take_no_time() {
        let directory = tempfile::tempdir().unwrap();
        let trees: Vec<PathBuf> = ["\u{12000}", "\u{12001}", "\u{12002}"]
            .map(|letter| directory.path().join(letter.repeat(62)))
            .to_vec();
        for tree in &trees {
            fs::create_dir_all(tree).unwrap();
            let code: String =
                (0..40).map(|n| format!("def post_{n}(letter):\n    return {n}\n\n\n")).collect();
            fs::write(tree.join("main.py"), code).unwrap();
        }
        let indexes = directory.path().join("indexes");
        let make = move |path: &Path| {
            let name = path.to_string_lossy().len()
                + path.to_string_lossy().chars().map(|c| c as usize).sum::<usize>();
            let index = indexes.join(name.to_string());
            let options = OpenOptions { directory: Some(index), ..OpenOptions::default() };
            Workspace::new(path.to_owned(), options, Arc::new(StaticModel::builtin()))
        };
        let trees = Trees::new(&trees, false, make);
        for (tool, max_tokens) in [("context", 200), ("outline", 200), ("outline", 500), ("search", 300)] {
            let mut arguments = json!({"max_tokens": max_tokens});
            if tool != "outline" {
                arguments["query"] = "post a letter".into();
            }
            let text = ask(&trees, tool, arguments);
            assert!(count_tokens(&text) <= max_tokens, "{tool} {max_tokens}: {text}");
        }
        let roots: Vec<PathBuf> = (0..20_000).map(|n| PathBuf::from(format!("/none/{n}/a"))).collect();
        trees.set_roots(&roots);
        assert_eq!(trees.all().len(), 3 + MAX_ROOTS);
    }

    #[test]
    fn roots_are_directories() {
        assert_eq!(directory_of("file:///a/b%20c"), Some(PathBuf::from("/a/b c")));
        assert_eq!(directory_of("file://localhost/a"), Some(PathBuf::from("/a")));
        for uri in ["https://a/b", "file://", "file:a", "file:///%ff%zz"] {
            assert_eq!(directory_of(uri).filter(|_| uri != "file:///%ff%zz"), None, "{uri}");
        }
    }
}
