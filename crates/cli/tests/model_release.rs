//! `quarry model pull best`: what `packaging/pack.sh` packs, from a server on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::fixture::file_server::{kill_after, serve};
use crate::fixture::{Fixture, WITHOUT_SPACE, after, check_error, stderr, stdout};

const ARCHIVE: &str = "quarry-model-best.tar.gz";

static RELEASE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let script = root().join("packaging/pack.sh");
    let packed = Command::new("sh").arg(script).arg("--models").arg(directory.path()).output().unwrap();
    assert!(packed.status.success(), "{}", stderr(&packed));
    directory
});

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn archive(name: &str) -> Vec<u8> {
    fs::read(RELEASE.path().join(name)).unwrap()
}

/// A program that finds no model beside itself.
struct Alone {
    fixture: Fixture,
    program: PathBuf,
}

impl Alone {
    fn new() -> Self {
        let fixture = Fixture::new();
        let program = fixture.path("alone/bin/quarry");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_quarry"));
        if fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program).unwrap();
        }
        Self { fixture, program }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.fixture.command_of(&self.program, arguments)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn pull(&self, from: &str) -> Output {
        self.run(&["model", "pull", "best", "--from", from])
    }

    /// The names of what is below the directory of models, but for locks, which are empty.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.fixture.path("cache/quarry/models")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
        names.sort();
        names
    }

    #[track_caller]
    fn check_refused(&self, from: &str, message: &str) {
        check_error(&self.pull(from), message);
        assert_eq!(self.names(), Vec::<String>::new());
    }
}

#[test]
fn a_packed_model_is_pulled_once_and_then_used() {
    let alone = Alone::new();
    let (address, seen) = serve(|path| path.strip_prefix("/release/").map(archive), Duration::ZERO);
    let address = format!("{address}/release/");
    let search = ["search", "open a socket", "--quality", "best", "--json", "--threshold", "0"];
    check_error(&alone.run(&search), "install it with `quarry model pull best`");

    // By its former name too.
    let pull = ["model", "pull", "balanced", "--from", &address];
    let pulled = alone.run(&pull);
    assert!(pulled.status.success(), "{}", stderr(&pulled));
    let directories = stdout(&pulled);
    assert!(directories.ends_with("quarry/models/best\n"), "{directories}");
    assert!(stderr(&pulled).contains("bytes, verified"), "{}", stderr(&pulled));
    assert_eq!(alone.names(), ["best"]);
    let found = alone.run(&search);
    assert!(found.status.success(), "{}", stderr(&found));
    let list = stdout(&alone.run(&["model", "list"]));
    assert!(list.contains("best") && list.contains("pulled"), "{list}");
    let about = stdout(&alone.run(&["model", "list", "best"]));
    assert!(about.contains(concat!("from: best at ", env!("CARGO_PKG_VERSION"))), "{about}");

    let again = alone.run(&pull);
    assert_eq!(stdout(&again), directories);
    assert!(stderr(&again).contains("installed already, verified"), "{}", stderr(&again));
    assert_eq!(*seen.lock().unwrap(), ["/release/quarry-model-best.tar.gz whole"]);

    // One of another version is replaced.
    let config = alone.fixture.path("cache/quarry/models/best/config.json");
    let right = fs::read(&config).unwrap();
    fs::write(&config, "{}").unwrap();
    assert!(alone.pull(&address).status.success());
    assert_eq!((fs::read(&config).unwrap(), alone.names().len()), (right, 1));
    // A directory that was not created by a pull is not.
    fs::write(&config, "{}").unwrap();
    fs::remove_file(config.with_file_name("pulled.json")).unwrap();
    check_error(
        &alone.pull(&address),
        "models/best: exists, and was not created by `quarry model pull`; move it, or remove it",
    );
    assert_eq!(fs::read_to_string(&config).unwrap(), "{}");
}

#[test]
fn files_are_taken_from_an_archive_its_directory_or_a_clone() {
    let release = RELEASE.path().display().to_string();
    let models = root().join("crates/embed/models").display().to_string();
    for from in [&release, &format!("{release}/{ARCHIVE}"), &models] {
        let alone = Alone::new();
        let pulled = alone.pull(from);
        assert!(pulled.status.success(), "{}", stderr(&pulled));
        assert_eq!(alone.names(), ["best"]);
        assert!(alone.fixture.path("cache/quarry/models/best/1_Pooling/config.json").is_file());
    }
    // Beside the program it is not pulled again.
    let fixture = Fixture::new();
    let beside = fixture.run("model pull best");
    assert!(stderr(&beside).contains("embed/models/best: installed already"), "{}", stderr(&beside));
    assert!(!fixture.path("cache/quarry/models").exists());
}

#[test]
fn a_pull_that_was_killed_is_resumed_and_two_at_once_pull_once() {
    let alone = Alone::new();
    let content = archive(ARCHIVE);
    let length = content.len() as u64;
    let (address, seen) = serve(move |_| Some(content.clone()), Duration::from_millis(1));
    let pull = ["model", "pull", "best", "--from", &address];
    let name = format!(".quarry-model-best-{}.tar.gz.part", env!("CARGO_PKG_VERSION"));
    let part = alone.fixture.path(&format!("cache/quarry/models/{name}"));
    kill_after(&mut alone.command(&pull), &part, 100_000);
    assert!(!alone.fixture.path("cache/quarry/models/best").exists());

    let start = || alone.command(&pull).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let outputs = [start(), start()].map(|child| child.wait_with_output().unwrap());
    let texts = outputs.each_ref().map(stderr);
    assert!(outputs.iter().all(|output| output.status.success()), "{texts:?}");
    assert_eq!(texts.iter().filter(|text| text.contains("installed already")).count(), 1, "{texts:?}");
    assert_eq!(alone.names(), ["best"]);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
    let from: u64 = seen[1].split_once("bytes=").unwrap().1.trim_end_matches('-').parse().unwrap();
    assert!((100_000..length).contains(&from), "{from}");

    // Remains of a pull that was killed while unpacking are removed by the next one.
    fs::remove_dir_all(alone.fixture.path("cache/quarry/models/best")).unwrap();
    alone.fixture.write("cache/quarry/models/.best-killed/new/model.safetensors", "half");
    let list = stdout(&alone.run(&["model", "list"]));
    assert!(!list.contains("killed"), "{list}");
    assert!(alone.pull(&RELEASE.path().display().to_string()).status.success());
    assert_eq!(alone.names(), ["best"]);
}

#[test]
fn models_of_other_versions_are_refused_and_leave_nothing() {
    let alone = Alone::new();
    let whole = archive(ARCHIVE);
    let changed = packed("sed -i s/hidden/Hidden/ best/config.json", "best");
    let escaping = packed("ln -s / best/out", "best");
    let files: [(&str, Vec<u8>, &str); 4] = [
        ("/page", b"<html>Not here</html>".to_vec(), "expected a gzipped tar archive, found something else"),
        ("/cut", whole[..whole.len() / 2].to_vec(), "the archive is damaged; download it again"),
        ("/changed", changed, "config.json: expected SHA-256 953f9c0d"),
        ("/escaping", escaping, "expected only the files of `best`, each once, found \"best/out\""),
    ];
    let served = files.clone();
    let (address, _) = serve(
        move |path| {
            let file = served.iter().find(|(name, ..)| path.starts_with(*name));
            file.map(|(_, content, _)| content.clone())
        },
        Duration::ZERO,
    );
    for (name, content, message) in &files {
        alone.check_refused(&format!("{address}{name}"), message);
        let expected = format!("{address}{name}/{ARCHIVE}: expected the model best of Quarry");
        alone.check_refused(&format!("{address}{name}"), &expected);
        let file = alone.fixture.path("file.tar.gz");
        fs::write(&file, content).unwrap();
        alone.check_refused(&file.display().to_string(), message);
    }
    let other = alone.fixture.path("other.tar.gz");
    fs::write(&other, packed("mv best other", "other")).unwrap();
    let other = other.display().to_string();
    alone.check_refused(&other, "expected only the files of `best`, each once, found \"other/");
    alone.check_refused(&format!("{address}/none"), "expected the file, found the status 404");
    let (endless, _) = serve(|_| Some(vec![0; 30_000_000]), Duration::ZERO);
    alone.check_refused(&endless, "expected at most");
    alone.check_refused(
        "none",
        "none: expected an address that begins with https:// or http://, an archive such as",
    );
    alone.check_refused("http://[", "expected an address, such as https://host");
    if option_env!("QUARRY_REPOSITORY").is_none() && env!("CARGO_PKG_REPOSITORY").is_empty() {
        let error = alone.run(&["model", "pull", "best"]);
        check_error(&error, "this build has no release URL; name one with --from");
    }
    let out = ["model", "pull", "best", "--out", "here"];
    check_error(&alone.run(&out), "--out and --revision are for models of a hub");
}

/// An archive of a directory, packed after a command changed a copy of the model.
fn packed(change: &str, name: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let models = root().join("crates/embed/models").canonicalize().unwrap();
    let script = format!("cp -R {}/best . && {change} && tar -czf ../out.tar.gz {name}", models.display());
    let inner = directory.path().join("in");
    fs::create_dir(&inner).unwrap();
    assert!(Command::new("sh").args(["-ec", &script]).current_dir(inner).status().unwrap().success());
    fs::read(directory.path().join("out.tar.gz")).unwrap()
}

#[test]
fn a_full_disk_is_named_and_leaves_no_half() {
    let alone = Alone::new();
    let models = root().join("crates/embed/models").display().to_string();
    let full = |from: &str| {
        let quarry = alone.command(&["model", "pull", "best", "--from", from]);
        after(WITHOUT_SPACE, &quarry).output().unwrap()
    };
    check_error(&full(&models), "check the directory, its permissions and the free space");
    assert_eq!(alone.names(), Vec::<String>::new());
    let (address, _) = serve(|_| Some(archive(ARCHIVE)), Duration::ZERO);
    check_error(
        &full(&address),
        "cannot be written; check the directory, its permissions and the free space",
    );
    assert!(!alone.names().contains(&"best".to_owned()));
    // The downloaded part is kept for the next try.
    assert!(alone.pull(&address).status.success());
    assert_eq!(alone.names(), ["best"]);
}
