//! The trees of one server: those that it was started with, and those that a client has open (its roots).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;

use crate::tools::Call;
use crate::{ReportProgress, ToolAnswer, ToolError, Workspace};

/// Maximum number of roots of a client that are searched; the first ones.
const MAX_ROOTS: usize = 64;

/// Maximum time that calls wait for the roots of a client that has announced some.
const ROOTS_PATIENCE: Duration = Duration::from_secs(2);

type MakeWorkspace = dyn Fn(Vec<PathBuf>) -> Workspace + Send + Sync;

pub struct Trees {
    given: Vec<PathBuf>,
    make: Option<Box<MakeWorkspace>>,
    /// True if the roots of a client replace the given trees, which nobody named.
    gives_way: bool,
    /// The searched paths, and their workspace.
    current: RwLock<(Vec<PathBuf>, Arc<Workspace>)>,
    /// True once the client has reported its roots, or calls no longer wait for them.
    roots_known: watch::Sender<bool>,
}

impl Trees {
    /// One workspace, whatever a client has open.
    pub fn single(workspace: Arc<Workspace>) -> Self {
        let current = RwLock::new((Vec::new(), workspace));
        Self {
            given: Vec::new(),
            make: None,
            gives_way: false,
            current,
            roots_known: watch::Sender::new(true),
        }
    }

    /// The trees at some paths, and the roots of a client; these replace the given ones if `gives_way`.
    pub fn new(
        paths: &[PathBuf],
        gives_way: bool,
        make: impl Fn(Vec<PathBuf>) -> Workspace + Send + Sync + 'static,
    ) -> Self {
        let given = paths.to_vec();
        let current = RwLock::new((given.clone(), Arc::new(make(given.clone()))));
        Self { given, make: Some(Box::new(make)), gives_way, current, roots_known: watch::Sender::default() }
    }

    /// Returns true if the roots of a client are used.
    pub(crate) fn takes_roots(&self) -> bool {
        self.make.is_some()
    }

    /// Waits until a client that has announced roots has reported them, within a limit, and once.
    pub(crate) async fn wait_for_roots(&self) {
        let mut roots_known = self.roots_known.subscribe();
        // It fails only if the sender is gone.
        let _ = timeout(ROOTS_PATIENCE, roots_known.wait_for(|roots_known| *roots_known)).await;
        self.roots_known.send_replace(true);
    }

    /// Makes calls wait no longer for the roots of the client.
    pub(crate) fn expect_no_roots(&self) {
        self.roots_known.send_replace(true);
    }

    /// Sets the roots of the client; directories that are already given trees are left out.
    pub(crate) fn set_roots(&self, roots: &[PathBuf]) {
        let Some(make) = &self.make else { return };
        let given = if self.gives_way && !roots.is_empty() { &[][..] } else { &self.given };
        let mut seen: BTreeSet<PathBuf> = given.iter().map(|path| canonical(path)).collect();
        let mut new = roots.iter().filter(|path| seen.insert(canonical(path)));
        let searched: Vec<PathBuf> = given.iter().chain(new.by_ref().take(MAX_ROOTS)).cloned().collect();
        let n_left_out = new.count();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // An unchanged workspace stays open.
        if current.0 != searched || n_left_out > 0 {
            let workspace = make(searched.clone()).with_left_out(n_left_out);
            *current = (searched, Arc::new(workspace));
        }
        drop(current);
        self.roots_known.send_replace(true);
    }

    fn workspace(&self) -> Arc<Workspace> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Answers a call that may have waited since it was `asked`.
    pub(crate) fn answer_of(
        &self,
        call: &Call,
        asked: Instant,
        report: ReportProgress,
    ) -> Result<ToolAnswer, ToolError> {
        self.workspace().answer_of(call, asked, report)
    }
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
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

    use quarry_index::UserDirectories;
    use quarry_session::{OpenChoice, count_tokens};
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

    /// Makes workspaces with indexes in a directory.
    fn make(directory: &Path) -> impl Fn(Vec<PathBuf>) -> Workspace + Send + Sync + Clone + 'static {
        let user = UserDirectories::below(&directory.join("user"));
        move |paths| Workspace::new(paths, OpenChoice { user: user.clone(), ..OpenChoice::default() })
    }

    fn write(files: &[(PathBuf, &str)]) {
        for (path, text) in files {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn several_trees_are_ranked_together_and_a_path_names_one() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        write(&[
            (
                at("a/net/http.py"),
                "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n",
            ),
            (at("a/main.py"), "def main():\n    return 1\n"),
            (at("b/main.py"), "def send_letter(address):\n    return post(address)\n"),
            (at("b/b/letter.py"), "def fold(paper):\n    return paper.half()\n"),
            (at("b/socket.py"), "def close(socket):\n    \"\"\"Close a socket.\"\"\"\n    hang_up(socket)\n"),
        ]);
        let make = make(directory.path());
        // The third one appears later.
        let trees = Trees::new(&[at("a"), at("b"), at("c/a")], false, make.clone());
        let found = ask(&trees, "search", json!({"query": "open a socket to a host", "k": 2}));
        assert!(
            found.starts_with("1. a/net/http.py:1-3 function connect\n")
                && found.contains("\n2. b/socket.py:1-3"),
            "one ranking of all trees: {found}"
        );
        assert!(found.ends_with("1 of 3 trees could not be searched; see index_status.\n"), "{found}");
        let found = ask(&trees, "search", json!({"query": "open a socket to a host", "path": "b"}));
        assert!(found.contains("1. b/socket.py") && !found.contains("http.py"), "{found}");
        for (path, expected) in [
            ("a/main.py", "a/main.py:1-2 function main\n"),
            ("net/http.py", "a/net/http.py:1-3 "),
            ("b/letter.py", "b/b/letter.py:1-2 "),
            ("main.py", "main.py: is in several trees; give a/main.py, b/main.py"),
            ("../secret.py", "../secret.py: no such file"),
        ] {
            let found = ask(&trees, "read_unit", json!({"path": path, "line": 1}));
            assert!(found.starts_with(expected), "{path}: {found}");
        }
        let found = ask(&trees, "similar", json!({"path": "b/socket.py", "line": 1}));
        assert!(found.contains(" b/socket.py:1-3 function close"), "{found}");
        write(&[(at("c/a/late.py"), "def bake_bread(oven):\n    return oven.bake()\n")]);
        let found = ask(&trees, "search", json!({"query": "bake bread", "path": "a-2"}));
        assert!(found.contains("a-2/late.py:1-2 function bake_bread"), "{found}");
        assert!(!found.contains("of 3 trees"), "{found}");
        let status = ask(&trees, "index_status", json!({}));
        assert_eq!(status.matches("Tree ").count(), 3, "{status}");
        let found = ask(&trees, "context", json!({"query": "send a letter", "max_tokens": 200}));
        assert!(found.contains("b/main.py:1-2") && count_tokens(&found) <= 200, "{found}");
        let found = ask(&trees, "outline", json!({"path": "c/a"}));
        assert!(found.contains("no such file"), "{found}");
        let found = ask(&trees, "outline", json!({"path": "b"}));
        assert!(found.contains("b/main.py\n") && !found.contains("http.py"), "{found}");

        // The roots of a client are searched if nothing else was named.
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
        assert_eq!(ask(&trees, "index_status", json!({})).matches("Tree ").count(), 2);
    }

    #[test]
    fn calls_of_all_trees_are_listed_and_what_is_cut_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let trees: Vec<PathBuf> = (0..6).map(|n| directory.path().join(format!("tree{n}"))).collect();
        let main = "def post(letter):\n    return stamp(letter)\n";
        write(&trees.iter().map(|tree| (tree.join("main.py"), main)).collect::<Vec<_>>());
        let trees = Trees::new(&trees, false, make(directory.path()));
        let found = ask(&trees, "callers", json!({"name": "stamp"}));
        assert!(found.starts_with("6 calls of stamp"), "{found}");
        for n in 0..6 {
            assert!(found.contains(&format!("\ntree{n}/main.py:2 in function post")), "{found}");
        }
        let found = ask(&trees, "callers", json!({"name": "stamp", "k": 4}));
        assert!(found.ends_with("2 more; raise k or max_tokens to see them.\n"), "{found}");
        let found = ask(&trees, "callees", json!({"name": "post", "k": 50}));
        assert_eq!(found.matches("/main.py:1-2 function post calls:\n").count(), 6, "{found}");
    }

    #[test]
    fn trees_stay_open_and_roots_beyond_the_limit_are_stated() {
        let directory = tempfile::tempdir().unwrap();
        let at = |n: usize| directory.path().join(format!("tree{n}"));
        let roots: Vec<PathBuf> = (0..MAX_ROOTS + 2).map(at).collect();
        let text = "def post_letter(address):\n    return stamp(address)\n";
        write(&[(at(0).join("a.py"), text), (at(1).join("b.py"), text)]);
        let trees = Trees::new(&[], true, make(directory.path()));
        trees.set_roots(&roots[..2]);
        let first = trees.workspace();
        trees.set_roots(&roots[..2]);
        assert!(Arc::ptr_eq(&first, &trees.workspace()), "the same trees stay open");
        trees.set_roots(&roots);
        let found = ask(&trees, "search", json!({"query": "post a letter", "max_tokens": 200}));
        let stated = "66 directories are open; only the first 64 are searched.\n62 of 64 trees could not be searched; \
                      see index_status.\n";
        assert!(found.ends_with(stated) && count_tokens(&found) <= 200, "{found}");
        let many: Vec<PathBuf> = (0..20_000).map(|n| PathBuf::from(format!("/none/{n}/a"))).collect();
        trees.set_roots(&many);
        assert!(ask(&trees, "index_status", json!({})).contains("20000 directories are open"));
    }

    #[test]
    fn long_names_of_trees_keep_to_the_budget() {
        let directory = tempfile::tempdir().unwrap();
        let trees: Vec<PathBuf> = ["\u{12000}", "\u{12001}", "\u{12002}"]
            .map(|letter| directory.path().join(letter.repeat(62)))
            .to_vec();
        for tree in &trees {
            let code: String =
                (0..40).map(|n| format!("def post_{n}(letter):\n    return {n}\n\n\n")).collect();
            write(&[(tree.join("main.py"), &code)]);
        }
        let trees = Trees::new(&trees, false, make(directory.path()));
        for (tool, max_tokens) in [("context", 200), ("outline", 200), ("outline", 500), ("search", 300)] {
            let mut arguments = json!({"max_tokens": max_tokens});
            if tool != "outline" {
                arguments["query"] = "post a letter".into();
            }
            let text = ask(&trees, tool, arguments);
            assert!(count_tokens(&text) <= max_tokens, "{tool} {max_tokens}: {text}");
        }
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
