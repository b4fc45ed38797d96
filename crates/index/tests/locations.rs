//! The index that is used for a path, and the fallback if it cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_embed::{Embedder, StaticModel};
use quarry_index::{
    Changes, Error, Filter, Index, LOCAL_DIRECTORY, OpenOptions, Opened, RebuildReason, Update,
    UserDirectories,
};
use quarry_test_support::files;

use crate::{answer, request};

const CONNECT: &str = "def connect(host):\n    return dial(host)\n";
const PARSE: &str = "def parse_header(line):\n    return line.split(':')\n";

/// A tree with an index in `.quarry`, and separate directories for everything else a user has.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    /// A fixture without an index.
    fn bare() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        write(&fixture.path(), "net.py", CONNECT);
        write(&fixture.path(), "http/header.py", PARSE);
        write(&fixture.path(), "http/client/net.py", CONNECT);
        fixture
    }

    fn new() -> Self {
        let fixture = Self::bare();
        fixture.index_in(&fixture.path()).unwrap();
        fixture
    }

    fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("tree")
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { user: UserDirectories::below(self.directory.path()), ..OpenOptions::default() }
    }

    /// Builds an index in a tree.
    fn index_in(&self, path: &Path) -> Result<Opened, Error> {
        let options = OpenOptions { local: true, update: Update::Required, ..self.options() };
        Index::open_or_build(path, &options, None, &|_| {})
    }

    fn open_as(&self, path: &Path, update: Update) -> Result<Opened, Error> {
        Index::open_or_build(path, &OpenOptions { update, ..self.options() }, None, &|_| {})
    }

    fn open(&self, path: &Path) -> Opened {
        self.open_as(path, Update::IfPossible).unwrap()
    }

    fn index_directory(&self, path: &Path) -> PathBuf {
        Index::status(path, &self.options()).unwrap().directory
    }

    fn ignored(&self, path: &Path) -> Vec<PathBuf> {
        Index::ignored(path, &self.options()).unwrap()
    }
}

fn write(root: &Path, path: &str, content: &str) {
    files::write(root.join(path), content);
}

fn paths_with(index: &Index, query: &str, filter: &Filter) -> Vec<String> {
    let hits = index.search(&request(query, filter)).unwrap().hits;
    let mut paths: Vec<String> = hits.into_iter().map(|hit| hit.path).collect();
    paths.sort();
    paths
}

fn paths(index: &Index, query: &str) -> Vec<String> {
    paths_with(index, query, &Filter::default())
}

#[test]
fn a_path_in_an_indexed_tree_uses_its_index_and_finds_what_is_below() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    fixture.open(&tree);
    let sub = tree.join("http");
    let Opened { index, built, .. } = fixture.open(&sub);
    assert!(built.is_none());
    assert_eq!(paths(&index, "connect"), ["client/net.py"]);
    assert_eq!(paths(&index, "header"), ["header.py"]);
    let hit = index.unit_at("client/net.py", 1).unwrap();
    assert_eq!(
        (hit.path.as_str(), index.source(&hit).unwrap().text.as_str()),
        ("client/net.py", CONNECT.trim_end())
    );
    let similar = index.similar("client/net.py", 1, 10, &Filter::default()).unwrap().hits;
    assert_eq!(similar.iter().map(|hit| hit.path.as_str()).collect::<Vec<_>>(), ["header.py"]);
    // Globs are relative to the path as well.
    let filter = Filter::new(&[], &[], &["/client/**".to_owned()]).unwrap();
    assert_eq!(paths_with(&index, "connect", &filter), ["client/net.py"]);
    assert_eq!(paths(&fixture.open(&sub.join("client/net.py")).index, "connect host"), ["net.py"]);
    // A new file in the path is new in the tree.
    write(&sub, "proxy.py", CONNECT);
    let built = fixture.open(&sub).built.unwrap();
    assert_eq!(built.reason, RebuildReason::Files(Changes { new: 1, ..Changes::default() }));
    assert_eq!(paths(&fixture.open(&sub).index, "connect"), ["client/net.py", "proxy.py"]);
    assert_eq!(paths(&fixture.open(&tree).index, "connect").len(), 3);
}

#[test]
fn the_nearest_index_counts() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    write(&tree, "beside.py", "\0");
    write(&tree, "http/client/within.py", "\0");
    fixture.open(&tree);
    let sub = tree.join("http");
    let whole = Index::status(&sub.join("client"), &fixture.options()).unwrap();
    assert_eq!((whole.root, whole.part.as_str()), (tree.clone(), "http/client"));
    let status = whole.index.unwrap();
    assert_eq!(status.files_in_part, 2);
    let skipped: Vec<&str> = status.skipped.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(skipped, ["http/client/within.py"]);
    let part = fixture.open(&sub.join("client")).index;
    assert_eq!((part.sizes_of_roots(), part.n_files()), ((1, 2), status.files));

    // A directory with the name of an index directory is not necessarily one.
    fs::create_dir(sub.join(LOCAL_DIRECTORY)).unwrap();
    assert_eq!(fixture.index_directory(&sub.join("client")), tree.join(LOCAL_DIRECTORY));
    assert_eq!(fixture.index_in(&sub).unwrap().index.n_files(), 3);
    assert_eq!(fixture.index_directory(&sub.join("client")), tree.join("http").join(LOCAL_DIRECTORY));
    assert_eq!(fixture.index_directory(&tree), tree.join(LOCAL_DIRECTORY));

    // An index that is given explicitly belongs to exactly this path.
    let named = tempfile::tempdir().unwrap();
    let options = OpenOptions { directory: Some(named.path().join("index")), ..fixture.options() };
    let client = Index::open_or_build(&sub.join("client"), &options, None, &|_| {}).unwrap();
    assert_eq!((client.index.n_files(), client.built.unwrap().reason), (2, RebuildReason::Missing));
}

#[test]
fn a_path_that_the_tree_ignores_does_not_use_its_index() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    write(&tree, ".gitignore", "http/\n");
    fixture.open(&tree);
    let ignored = tree.join("http");
    assert_eq!(
        fixture.index_directory(&ignored).parent().unwrap(),
        fixture.directory.path().join("cache/index")
    );
    assert_eq!(paths(&fixture.open(&ignored).index, "connect"), ["client/net.py"]);
}

#[test]
fn an_index_in_the_tree_is_neither_committed_nor_indexed() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    assert_eq!(fixture.open(&tree).index.n_files(), 3);
    let local = tree.join(LOCAL_DIRECTORY);
    assert_eq!(fs::read_to_string(local.join(".gitignore")).unwrap(), "*\n");
    assert!(fixture.open(&tree).built.is_none());
}

#[test]
#[cfg(unix)]
fn a_link_is_no_directory_for_an_index() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    let local = tree.join(LOCAL_DIRECTORY);
    fs::rename(&local, fixture.directory.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", &local).unwrap();
    assert_ne!(fixture.index_directory(&tree), local);
    assert_eq!(fixture.ignored(&tree), [local]);
    assert!(fixture.index_in(&tree).is_err());
}

#[test]
#[cfg(unix)]
fn a_link_to_a_file_is_the_file_that_it_leads_to() {
    let fixture = Fixture::bare();
    let link = fixture.directory.path().join("link.py");
    std::os::unix::fs::symlink("tree/net.py", &link).unwrap();
    let index = fixture.open(&link).index;
    assert_eq!(paths(&index, "connect"), ["net.py"]);
    let hit = index.unit_at("net.py", 1).unwrap();
    assert_eq!(index.text(&hit).unwrap().to_str(), CONNECT);
}

#[test]
fn only_what_this_machine_made_is_an_index_of_a_tree() {
    let fixture = Fixture::bare();
    let tree = fixture.path();
    let local = tree.join(LOCAL_DIRECTORY);
    assert!(fixture.ignored(&tree).is_empty());
    fs::create_dir(&local).unwrap();
    assert_eq!(fixture.ignored(&tree), std::slice::from_ref(&local));
    assert!(fixture.index_directory(&tree).starts_with(fixture.directory.path().join("cache")));
    // An index that is requested replaces it, and is found again.
    fixture.index_in(&tree).unwrap();
    assert!(fixture.open(&tree).built.is_none());
    assert_eq!((fixture.index_directory(&tree), fixture.ignored(&tree)), (local.clone(), Vec::new()));

    // For another user, or on another machine, it does not count as ours.
    let other = OpenOptions {
        user: UserDirectories::below(&fixture.directory.path().join("other")),
        ..fixture.options()
    };
    assert_eq!(Index::ignored(&tree, &other).unwrap(), std::slice::from_ref(&local));
    assert_ne!(Index::status(&tree, &other).unwrap().directory, local);
    // Not even if it is given explicitly, but a new one can be built.
    let named = |path: &Path| OpenOptions { directory: Some(path.to_owned()), ..other.clone() };
    let opened = Index::open_or_build(&tree, &named(&local), None, &|_| {});
    assert!(matches!(opened, Err(Error::ForeignIndex(_))));
    for _ in 0..2 {
        Index::open_or_build(&tree, &named(&tree.join("new/index")), None, &|_| {}).unwrap();
    }
    // If it cannot be recorded, no index is built in a tree.
    let nobody = UserDirectories { state: None, ..fixture.options().user };
    let options = OpenOptions { user: nobody, ..named(&tree.join("newer")) };
    let error = Index::open_or_build(&tree, &options, None, &|_| {}).err().unwrap();
    assert!(format!("{:?}", error).contains("NoStateDirectory"), "{error:?}");

    // An index that was moved does not belong to any tree that this machine knows.
    let moved = fixture.directory.path().canonicalize().unwrap().join("moved");
    fs::rename(&tree, &moved).unwrap();
    assert_eq!(fixture.ignored(&moved), [moved.join(LOCAL_DIRECTORY)]);
    // It can be replaced, and nothing of its contents is reused.
    assert_eq!(
        fixture.index_in(&moved).unwrap().built.unwrap().reason,
        RebuildReason::Broken("manifest.json: its content differs from what was written".to_owned())
    );
    // But not if the directory contains something else.
    write(&moved.join("http"), ".quarry/notes.txt", "mine");
    assert!(matches!(
        fixture.index_in(&moved.join("http")),
        Err(Error::IndexDirectory { .. } | Error::ForeignDirectory(_))
    ));
}

#[test]
fn another_manifest_in_its_place_is_not_ours() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    let local = tree.join(LOCAL_DIRECTORY);
    let manifest = local.join("manifest.json");
    // A damaged one is rebuilt from the copy.
    let ours = fs::read(&manifest).unwrap();
    fs::write(&manifest, "{}").unwrap();
    assert!(matches!(fixture.open(&tree).built.unwrap().reason, RebuildReason::Broken(_)));
    // The same as an attacker would write it: for the same tree, complete, with a checksum, and in any format.
    let strangers = Fixture::bare();
    let user = UserDirectories::below(strangers.directory.path());
    let options = OpenOptions {
        directory: Some(strangers.directory.path().join("index")),
        user,
        ..OpenOptions::default()
    };
    Index::open_or_build(&tree, &options, None, &|_| {}).unwrap();
    let theirs = fs::read(strangers.directory.path().join("index/manifest.json")).unwrap();
    let newer = String::from_utf8(theirs.clone()).unwrap().replacen("\"format\": ", "\"format\": 9", 1);
    for content in [&theirs[..], newer.as_bytes(), b"", b"{", &ours[..ours.len() / 2]] {
        for name in ["manifest.json", "manifest.copy.json"] {
            fs::write(local.join(name), content).unwrap();
        }
        assert_eq!(fixture.ignored(&tree), std::slice::from_ref(&local));
        assert!(fixture.open(&tree).index.n_files() == 3);
        assert_eq!(fs::read(&manifest).unwrap(), content);
    }
    // Our own earlier index is as good as before.
    fs::write(&manifest, &ours).unwrap();
    assert!(fixture.ignored(&tree).is_empty());
    assert_eq!(fixture.open(&tree).index.n_files(), 3);
}

#[test]
fn an_index_that_cannot_be_written_still_answers() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    fixture.open(&tree);
    write(&tree, "new.py", CONNECT);
    // Not even the superuser can write to this lock.
    let lock = tree.join(LOCAL_DIRECTORY).join("lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let Opened { index, built, outdated, .. } = fixture.open(&tree);
    assert_eq!(paths(&index, "connect"), ["http/client/net.py", "net.py"]);
    let outdated = outdated.unwrap();
    assert!(built.is_none());
    assert_eq!(outdated.reason, RebuildReason::Files(Changes { new: 1, ..Changes::default() }));
    let message = outdated.error.to_string();
    assert!(message.contains("cannot write the index directory") && message.contains("--index"), "{message}");
    assert!(message.contains(".quarry"), "{message}");
    // If an update is required, it is an error.
    assert!(matches!(fixture.open_as(&tree, Update::Required), Err(Error::IndexDirectory { .. })));
    fs::remove_dir(&lock).unwrap();
    assert_eq!(paths(&fixture.open(&tree).index, "connect").len(), 3);
}

/// Options of a user whose cache path is a file.
fn without_cache(fixture: &Fixture) -> OpenOptions {
    let blocked = fixture.directory.path().join("blocked");
    fs::write(&blocked, "").unwrap();
    let user = UserDirectories {
        cache: Some(blocked.join("cache")),
        ..UserDirectories::below(fixture.directory.path())
    };
    OpenOptions { user, ..OpenOptions::default() }
}

fn ranked(index: &Index, query: &str) -> Vec<(String, u32, f32)> {
    let hits = answer(index, query).unwrap().hits;
    hits.into_iter().map(|hit| (hit.path, hit.start_line, hit.score)).collect()
}

#[test]
fn without_a_cache_an_index_in_memory_gives_the_same_answers() {
    let fixture = Fixture::bare();
    let tree = fixture.path();
    let model: Arc<dyn Embedder> = Arc::new(StaticModel::builtin());
    let saved = Index::open_or_build(&tree, &fixture.options(), Some(model.clone()), &|_| {}).unwrap();
    assert!(saved.unsaved.is_none() && !saved.index.is_current_in_memory());
    let nowhere = UserDirectories { cache: None, state: None };
    for options in [without_cache(&fixture), OpenOptions { user: nowhere, ..OpenOptions::default() }] {
        let opened = Index::open_or_build(&tree, &options, Some(model.clone()), &|_| {}).unwrap();
        let message = opened.unsaved.unwrap().to_string();
        assert!(message.contains("--index"), "{message}");
        assert_eq!(opened.built.unwrap().n_embedded, 3);
        for query in ["connect to a host", "parse_header", "split a line at colons"] {
            assert_eq!(ranked(&opened.index, query), ranked(&saved.index, query), "{query}");
        }
        assert!(opened.index.is_current_in_memory());
        // Parts of the tree and single files as well.
        let part = Index::open_or_build(&tree.join("http/header.py"), &options, None, &|_| {}).unwrap();
        assert!(part.unsaved.is_some());
        assert_eq!(paths(&part.index, "header"), ["header.py"]);
        // If an index on disk is required, it is an error.
        for update in [Update::Required, Update::Anew, Update::Never] {
            let options = OpenOptions { update, ..options.clone() };
            assert!(Index::open_or_build(&tree, &options, None, &|_| {}).is_err(), "{update:?}");
        }
    }
    let opened = Index::open_or_build(&tree, &without_cache(&fixture), None, &|_| {}).unwrap();
    write(&tree, "new.py", PARSE);
    assert!(!opened.index.is_current_in_memory());
}

#[test]
fn a_directory_that_was_named_and_cannot_be_written_is_an_error() {
    let fixture = Fixture::bare();
    let options = without_cache(&fixture);
    let named = OpenOptions { directory: options.user.cache.clone(), ..options };
    let opened = Index::open_or_build(&fixture.path(), &named, None, &|_| {});
    assert!(matches!(opened.err(), Some(Error::IndexDirectory { .. })));
}

#[test]
fn a_path_uses_its_own_index_if_the_enclosing_one_cannot_be_rebuilt() {
    let fixture = Fixture::new();
    let tree = fixture.path();
    // An index of another program version that cannot be written.
    let local = tree.join(LOCAL_DIRECTORY);
    for name in ["manifest.json", "manifest.copy.json"] {
        fs::write(local.join(name), "{").unwrap();
    }
    fs::remove_file(local.join("lock")).unwrap();
    fs::create_dir(local.join("lock")).unwrap();
    let opened = fixture.open(&tree.join("http"));
    assert!(opened.unsaved.is_none());
    assert_eq!(paths(&opened.index, "connect"), ["client/net.py"]);
}
