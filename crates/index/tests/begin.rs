//! Start of a first index: from the index of another checkout, and concurrently with another process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use quarry_embed::{EmbedError, Embedder, StaticModel, Vectors};
use quarry_index::{Event, Filter, Index, OpenOptions, Opened, SearchRequest, Update, UserDirectories};
use quarry_test_support::files;

use crate::request;

const N_FILES: usize = 12;

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, content: &str) {
        files::write(self.path(path), content);
    }

    /// A tree of some files.
    fn tree(&self, name: &str) {
        for number in 0..N_FILES {
            let text = format!(
                "def connect_{number}(host):\n    \"\"\"Opens socket {number}.\"\"\"\n    return dial(host, {number})\n"
            );
            self.write(&format!("{name}/src/net_{number}.py"), &text);
        }
    }

    /// A repository with a second working tree and a clone, as git creates them; and an unrelated tree.
    fn repository(&self) {
        for tree in ["main", "worktree", "clone", "unrelated"] {
            self.tree(tree);
        }
        self.write("main/.git/HEAD", "ref: refs/heads/main\n");
        self.write("main/.git/worktrees/other/commondir", "../..\n");
        let git = self.path("main/.git");
        self.write("worktree/.git", &format!("gitdir: {}\n", git.join("worktrees/other").display()));
        self.write("clone/.git/HEAD", "");
        self.write(
            "clone/.git/config",
            &format!("[remote \"origin\"]\n\turl = {}\n", git.parent().unwrap().display()),
        );
        self.write("unrelated/.git/HEAD", "");
    }

    fn options(&self) -> OpenOptions {
        let user = UserDirectories::below(self.directory.path());
        OpenOptions { update: Update::Required, user, ..OpenOptions::default() }
    }

    /// Opens an index with the built-in model, and returns it with the number of files that were read.
    fn open(&self, tree: &str, options: &OpenOptions) -> (Opened, usize) {
        let n_read = AtomicUsize::new(0);
        let events = |event: Event| {
            if let Event::Read { .. } = event {
                n_read.fetch_add(1, Ordering::SeqCst);
            }
        };
        let model = Arc::new(StaticModel::builtin());
        let opened = Index::open_or_build(&self.path(tree), options, Some(model), &events).unwrap();
        (opened, n_read.into_inner())
    }
}

fn n_embedded(opened: &Opened) -> usize {
    opened.built.as_ref().map_or(0, |report| report.n_embedded)
}

/// The results of a search: paths, lines and scores.
fn found(index: &Index) -> Vec<(String, u32, String)> {
    let filter = Filter::default();
    let request = SearchRequest { limit: 50, ..request("open a socket to a host 7", &filter) };
    let response = index.search(&request).unwrap();
    response.hits.iter().map(|hit| (hit.path.clone(), hit.start_line, format!("{:.4}", hit.score))).collect()
}

#[test]
fn another_checkout_starts_from_the_index_of_the_first() {
    let fixture = Fixture::new();
    fixture.repository();
    let (first, n_read) = fixture.open("main", &fixture.options());
    assert_eq!((n_read, n_embedded(&first)), (N_FILES, N_FILES));
    fixture.write("clone/src/net_3.py", "def listen(port):\n    return bind(port)\n");
    fs::remove_file(fixture.path("clone/src/net_4.py")).unwrap();
    for (tree, expected) in [("worktree", (0, 0)), ("clone", (1, 1)), ("worktree/src", (N_FILES, N_FILES))] {
        let options = OpenOptions { enclosing: false, ..fixture.options() };
        let (opened, n_read) = fixture.open(tree, &options);
        // In the clone, other files in the same part may be read together with the changed one.
        let (read, embedded) = expected;
        assert_eq!(n_embedded(&opened), embedded, "{tree}");
        assert!(if embedded == 1 { n_read >= 1 } else { n_read == read }, "{tree}: {n_read}");
        let elsewhere = Fixture::new();
        let cold = OpenOptions { user: elsewhere.options().user, ..options };
        assert_eq!(found(&opened.index), found(&fixture.open(tree, &cold).0.index), "{tree}");
        assert!(fixture.open(tree, &fixture.options()).0.built.is_none(), "{tree} is fresh");
    }
    // Both work without each other.
    fs::remove_dir_all(fixture.path("main")).unwrap();
    let cache = fixture.options().user.cache.unwrap().join("index");
    let of_main = fs::read_dir(&cache)
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("main-"));
    fs::remove_dir_all(of_main.unwrap().path()).unwrap();
    assert!(fixture.open("worktree", &fixture.options()).0.built.is_none());
}

#[test]
fn only_what_this_machine_indexed_of_the_same_repository_is_copied_and_only_where_the_user_reads() {
    let fixture = Fixture::new();
    fixture.repository();
    fixture.open("main", &fixture.options());
    assert_eq!(n_embedded(&fixture.open("unrelated", &fixture.options()).0), N_FILES);
    // Nothing of another tree is copied into a tree, which others may read.
    let local = OpenOptions { local: true, ..fixture.options() };
    assert_eq!(n_embedded(&fixture.open("clone", &local).0), N_FILES);
    // From a tree, only what this machine made is used.
    let other_user = OpenOptions { user: Fixture::new().options().user, ..fixture.options() };
    assert_eq!(n_embedded(&fixture.open("worktree", &other_user).0), N_FILES);
    let user = fixture.options().user;
    fs::remove_dir_all(user.cache.unwrap()).unwrap();
    assert_eq!(n_embedded(&fixture.open("worktree", &fixture.options()).0), 0, "from the index in the clone");
}

#[test]
fn damaged_files_are_not_copied() {
    let fixture = Fixture::new();
    fixture.repository();
    fixture.open("main", &fixture.options());
    let cache = fixture.options().user.cache.unwrap().join("index");
    let index = fs::read_dir(cache).unwrap().next().unwrap().unwrap().path();
    let damage = |name: &str| {
        let path = index.join("part-1").join(name);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let is_vectors = |name: &String| name.starts_with("vectors-");
    let names = fs::read_dir(index.join("part-1")).unwrap();
    let vectors =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).find(is_vectors).unwrap();
    damage(&vectors);
    let (opened, n_read) = fixture.open("worktree", &fixture.options());
    assert_eq!((n_read, n_embedded(&opened)), (0, N_FILES), "texts are whole, vectors are not");
    damage("strings");
    let (opened, n_read) =
        fixture.open("clone", &OpenOptions { user: fixture.options().user, ..fixture.options() });
    // The index of the worktree is complete.
    assert_eq!((n_read, n_embedded(&opened)), (0, 0));
    assert_eq!(found(&opened.index).len(), N_FILES);
}

/// A model that waits until another process waits for its index.
struct SlowModel {
    model: StaticModel,
    others_wait: Mutex<mpsc::Receiver<()>>,
}

impl Embedder for SlowModel {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn dimension(&self) -> usize {
        self.model.dimension()
    }

    fn adds_words(&self) -> bool {
        self.model.adds_words()
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.model.embed_queries(texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.others_wait.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
        self.model.embed_documents(texts)
    }
}

#[test]
fn two_that_begin_the_same_index_do_the_work_once() {
    let fixture = Fixture::new();
    fixture.tree("tree");
    let (sender, receiver) = mpsc::channel();
    let slow = Arc::new(SlowModel { model: StaticModel::builtin(), others_wait: Mutex::new(receiver) });
    let has_begun = Barrier::new(2);
    let open = |path: &Path, model: Arc<dyn Embedder>, events: &(dyn Fn(Event) + Sync)| {
        Index::open_or_build(path, &fixture.options(), Some(model), events).unwrap()
    };
    let tree = fixture.path("tree");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let events = |event: Event| {
                if let Event::Rebuilding(_) = event {
                    has_begun.wait();
                }
            };
            open(&tree, slow.clone(), &events)
        });
        has_begun.wait();
        let n_read = AtomicUsize::new(0);
        let events = |event: Event| match event {
            Event::Waiting => sender.send(()).unwrap(),
            Event::Read { .. } | Event::Embedded { .. } => drop(n_read.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        };
        let second = open(&tree, Arc::new(StaticModel::builtin()), &events);
        assert!(second.built.is_none() && n_read.into_inner() == 0);
        let first = first.join().unwrap();
        assert_eq!(n_embedded(&first), N_FILES);
        assert_eq!(found(&second.index), found(&first.index));
    });
}
