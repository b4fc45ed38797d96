//! Indexes in untrusted trees: whatever replaces a file of theirs, nothing outside is written, read or waited for.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_embed::{Embedder, StaticModel};
use quarry_index::{Error, Index, LOCAL_DIRECTORY, OpenOptions, Opened, Update, UserDirectories};

/// An untrusted tree, a user's own files beside it, and the user's directories.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(fixture.tree()).unwrap();
        fs::write(fixture.tree().join("a.py"), "def connect(host):\n    return dial(host)\n").unwrap();
        fs::create_dir_all(fixture.home().join("empty")).unwrap();
        fs::create_dir_all(fixture.home().join("full")).unwrap();
        fs::write(fixture.home().join("rc"), "mine").unwrap();
        fs::write(fixture.home().join("full/notes"), "mine too").unwrap();
        fixture
    }

    fn tree(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    fn local(&self) -> PathBuf {
        self.tree().join(LOCAL_DIRECTORY)
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { user: UserDirectories::below(self.directory.path()), ..OpenOptions::default() }
    }

    fn open_as(&self, options: &OpenOptions) -> Result<Opened, Error> {
        let model: Arc<dyn Embedder> = Arc::new(StaticModel::builtin());
        Index::open_or_build(&self.tree(), options, Some(model), &|_| {})
    }

    fn open(&self) -> Result<Opened, Error> {
        self.open_as(&self.options())
    }

    /// Builds the index in the tree, as requested by its user.
    fn index_in_tree(&self) -> Result<Opened, Error> {
        self.open_as(&OpenOptions { local: true, update: Update::Required, ..self.options() })
    }

    /// Changes the tree, so that the index has to be written.
    fn change(&self) {
        let path = self.tree().join("a.py");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}\n\ndef another():\n    return connect('here')\n")).unwrap();
    }
}

/// Everything below a directory: files with their content, directories, and targets of links.
fn contents(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(contents(&path));
            found.insert(path, "a directory".to_owned());
        } else if kind.is_symlink() {
            found.insert(path.clone(), format!("{:?}", fs::read_link(&path).unwrap()));
        } else if kind.is_file() && entry.metadata().unwrap().len() < 1 << 20 {
            found.insert(path.clone(), String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        } else {
            found.insert(path, "something without end".to_owned());
        }
    }
    found
}

/// Everything in an index, relative to its directory.
fn members(directory: &Path) -> Vec<PathBuf> {
    contents(directory).into_keys().map(|path| path.strip_prefix(directory).unwrap().to_owned()).collect()
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

fn pipe(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

/// Files that an attacker can put anywhere in a tree.
const PLANTED: [&str; 9] =
    ["rc", "empty", "full", "full/notes", "nowhere", "/dev/zero", "pipe", "sparse", "directory"];

fn plant(what: &str, path: &Path, home: &Path) {
    remove(path);
    if let Some(around) = path.parent().filter(|around| fs::symlink_metadata(around).is_err()) {
        fs::create_dir_all(around).unwrap();
    }
    match what {
        "pipe" => pipe(path),
        "sparse" => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        "directory" => fs::create_dir(path).unwrap(),
        "/dev/zero" => symlink(what, path).unwrap(),
        what => symlink(home.join(what), path).unwrap(),
    }
}

#[test]
fn an_index_that_came_with_the_tree_is_left_alone() {
    let fixture = Fixture::new();
    let mine = contents(&fixture.home());
    let names = [
        "manifest.json",
        "manifest.copy.json",
        "manifest.json.new",
        ".gitignore",
        "lock",
        "part-1",
        "generation-1",
    ];
    for what in PLANTED {
        for name in names {
            plant(what, &fixture.local().join(name), &fixture.home());
        }
        let theirs = members(&fixture.local());
        assert_eq!(fixture.open().unwrap().index.n_files(), 1, "{what}");
        fixture.change();
        fixture.open().unwrap();
        assert_eq!(members(&fixture.local()), theirs, "{what}");
        assert_eq!(contents(&fixture.home()), mine, "{what}");
        remove(&fixture.local());
    }
    for what in PLANTED {
        plant(what, &fixture.local(), &fixture.home());
        assert_eq!(fixture.open().unwrap().index.n_files(), 1, "{what}");
        let options = OpenOptions { directory: Some(fixture.local()), ..fixture.options() };
        if what != "directory" {
            assert!(fixture.open_as(&options).is_err(), "{what}");
            assert!(fixture.index_in_tree().is_err(), "{what}");
        }
        assert_eq!(contents(&fixture.home()), mine, "{what}");
    }
}

#[test]
fn replaced_files_are_not_followed() {
    let fixture = Fixture::new();
    let mine = contents(&fixture.home());
    fixture.index_in_tree().unwrap();
    for what in ["rc", "empty", "nowhere", "pipe"] {
        for member in members(&fixture.local()) {
            plant(what, &fixture.local().join(&member), &fixture.home());
            // A damaged index is rebuilt, or the cache is used.
            assert_eq!(fixture.open().unwrap().index.n_files(), 1, "{what} {member:?}");
            fixture.change();
            let made = fixture.index_in_tree();
            assert_eq!(contents(&fixture.home()), mine, "{what} {member:?}");
            if made.is_err() {
                remove(&fixture.local());
                fixture.index_in_tree().unwrap();
            }
        }
    }
    // The next names that a writer would use.
    for what in PLANTED {
        for name in [
            "manifest.json.new",
            "manifest.copy.json.new",
            "part-2",
            "part-3",
            "generation-2",
            "generation-3",
        ] {
            plant(what, &fixture.local().join(name), &fixture.home());
        }
        fixture.change();
        fixture.index_in_tree().unwrap();
        assert_eq!(contents(&fixture.home()), mine, "{what}");
        assert!(fixture.open().unwrap().built.is_none(), "{what}");
    }
}

#[test]
fn a_hard_link_to_a_file_of_ours_is_not_written_through() {
    let fixture = Fixture::new();
    fixture.index_in_tree().unwrap();
    let rc = fixture.home().join("rc");
    fs::set_permissions(&rc, fs::Permissions::from_mode(0o644)).unwrap();
    let names = ["manifest.json", "manifest.copy.json", "manifest.json.new", ".gitignore", "lock"];
    for name in names {
        let path = fixture.local().join(name);
        remove(&path);
        fs::hard_link(&rc, &path).unwrap();
        fixture.change();
        let _ = fixture.open();
        let _ = fixture.index_in_tree();
        assert_eq!(fs::read_to_string(&rc).unwrap(), "mine", "{name}");
        assert_eq!(fs::metadata(&rc).unwrap().permissions().mode() & 0o777, 0o644, "{name}");
        remove(&fixture.local());
        fixture.index_in_tree().unwrap();
    }
}

#[test]
fn a_directory_that_is_swapped_for_a_link_again_and_again_is_not_left() {
    let fixture = Fixture::new();
    let mine = contents(&fixture.home());
    let (local, aside, link) = (fixture.local(), fixture.tree().join(".aside"), fixture.tree().join(".link"));
    fixture.index_in_tree().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                symlink(fixture.home().join("empty"), &link).unwrap();
                let _ = fs::rename(&local, &aside);
                let _ = fs::rename(&link, &local);
                let _ = fs::remove_file(&local);
                let _ = fs::rename(&aside, &local);
                let _ = fs::remove_file(&link);
                // A writer may have started a new one meanwhile.
                let _ = fs::remove_dir_all(&aside);
            }
        });
        for _ in 0..60 {
            fixture.change();
            let _ = fixture.index_in_tree();
            let _ = fixture.open();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(contents(&fixture.home()), mine);
}

#[test]
fn a_path_into_the_tree_does_not_go_through_its_links() {
    let fixture = Fixture::new();
    let mine = contents(&fixture.home());
    symlink(fixture.home().join("empty"), fixture.tree().join("out")).unwrap();
    // Whichever way the path of the tree is given.
    symlink("tree", fixture.directory.path().join("alias")).unwrap();
    for tree in ["tree", "alias", "home/../tree", "tree/../alias"] {
        for index in ["out", "out/index", "out/../out/index"] {
            let directory = fixture.directory.path().join(tree).join(index);
            let options = OpenOptions { directory: Some(directory), ..fixture.options() };
            let error = fixture.open_as(&OpenOptions { update: Update::Required, ..options }).err().unwrap();
            assert!(matches!(error, Error::IndexDirectory { .. } | Error::ForeignIndex(_)), "{error:?}");
        }
    }
    assert_eq!(contents(&fixture.home()), mine);
}

#[test]
fn indexes_are_private() {
    let fixture = Fixture::new();
    fixture.open().unwrap();
    fixture.index_in_tree().unwrap();
    // An index of an earlier version, which others could read.
    fs::set_permissions(fixture.local(), fs::Permissions::from_mode(0o755)).unwrap();
    fixture.change();
    fixture.open().unwrap();
    for directory in
        [fixture.local(), fixture.directory.path().join("cache"), fixture.directory.path().join("state")]
    {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700, "{directory:?}");
        let paths: Vec<PathBuf> = contents(&directory).into_keys().collect();
        assert!(paths.len() > 3 || directory.ends_with("state"), "{paths:?}");
        for path in paths {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{path:?}");
        }
    }
}
