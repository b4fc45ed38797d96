//! Packages that are available, and those that are not.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quarry_sandbox::Ended;
use quarry_sandbox::packages::{Index, PackageError, PackageSource, SETS_AT_ONCE};
use serde_json::json;

use crate::harness::{Fixture, Server, can_fetch, run, wheel};

/// Two packages, one of which depends on the other, if packages can be fetched here; the names of packages and modules
/// differ.
fn two() -> Option<Fixture> {
    let words = "import base\nsix = base.double(3)\n";
    let packages = [
        wheel("Number_Words", "1.2", json!({"words/__init__.py": words}), &["base-x>=1"]),
        wheel("base_x", "1.0", json!({"base.py": "def double(n): return 2 * n\n"}), &[]),
    ];
    can_fetch("python").then(|| Fixture::new(&packages))
}

#[test]
fn a_package_is_there_with_what_it_needs_and_is_fetched_once() {
    let Some(fixture) = two() else { return };
    let provided = fixture.provide("python", &["number.words"]).unwrap();
    assert_eq!(provided.packages, ["Number-Words 1.2", "base-x 1.0"]);
    let outcome = run("python", "import words\nprint(words.six)", &provided);
    assert_eq!(outcome.stdout.text(), "6\n", "{}", outcome.stderr.text());
    assert_eq!(fixture.kept().len(), 1);
    // Cached packages need no index.
    fs::remove_dir_all(fixture.index()).unwrap();
    fs::create_dir(fixture.index()).unwrap();
    assert_eq!(fixture.provide("python", &["number.words"]).unwrap(), provided);
    assert!(fixture.provide("python", &["base-x"]).is_err());
    // Without packages, the program fails.
    assert_eq!(run("python", "import words", &Default::default()).ended, Ended::Exited { code: 1 });
}

#[test]
fn an_index_is_asked_over_the_network() {
    let Some(mut fixture) = two() else { return };
    let server = fixture.serve();
    let provided = fixture.provide("python", &["Number_Words==1.2"]).unwrap();
    assert_eq!(run("python", "import words\nprint(words.six)", &provided).stdout.text(), "6\n");
    let asked = server.count.load(Ordering::SeqCst);
    fixture.provide("python", &["Number_Words==1.2"]).unwrap();
    assert_eq!(server.count.load(Ordering::SeqCst), asked);
    let reason = fixture.provide("python", &["Number_Words==9"]).unwrap_err().to_string();
    assert!(reason.contains("there is no package Number_Words==9"), "{reason}");
}

#[test]
fn many_at_once_fetch_a_set_once() {
    let Some(mut fixture) = two() else { return };
    let server = fixture.serve();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            // Each opens the cache itself, as separate processes do.
            scope.spawn(|| fixture.provide("python", &["base_x"]).unwrap());
        }
    });
    let paths = server.paths.lock().unwrap().clone();
    assert_eq!(paths.iter().filter(|path| path.ends_with(".whl")).count(), 1, "{paths:?}");
    assert_eq!(fixture.kept().len(), 1);
}

#[test]
fn leftovers_of_a_killed_run_are_replaced() {
    let Some(fixture) = two() else { return };
    let first = fixture.provide("python", &["base_x"]).unwrap();
    let (_, kept) = first.directory.clone().unwrap();
    let set = kept.parent().unwrap().to_owned();
    let half = set.with_extension("partial");
    fs::rename(&set, &half).unwrap();
    fs::remove_dir_all(half.join("packages")).unwrap();
    let second = fixture.provide("python", &["base_x"]).unwrap();
    assert_eq!(first, second);
    assert!(kept.join("base.py").is_file() && !half.exists());
}

#[test]
fn source_is_not_built_and_that_is_reported() {
    if !can_fetch("python") {
        return;
    }
    let setup = "open('/opt/out/ran', 'w')\nimport setuptools; setuptools.setup(name='only', version='1')\n";
    let source =
        json!({"kind": "source", "name": "only-source", "version": "1.0", "files": {"setup.py": setup}});
    let mut fixture = Fixture::new(&[source]);
    let _server = fixture.serve();
    let reason = fixture.refusal("python", &["only-source"]);
    assert!(reason.contains("only-source exists as source only"), "{reason}");
    let reason = fixture.refusal("python", &["no-such-package"]);
    assert!(reason.contains("there is no package no-such-package"), "{reason}");
}

#[test]
fn lists_hold_for_what_a_package_needs_too() {
    let Some(mut fixture) = two() else { return };
    let reason = |fixture: &Fixture| fixture.refusal("python", &["number-words"]);
    fixture.settings.pip.deny = vec!["Base.X".to_owned()];
    assert!(reason(&fixture).contains("base-x is on the list of denied"), "{}", reason(&fixture));
    fixture.settings.pip.deny = vec!["number_words".to_owned()];
    assert!(reason(&fixture).contains("number-words is on the list of denied"));
    fixture.settings.pip.deny = Vec::new();
    fixture.settings.pip.allow = Some(vec!["number-words".to_owned()]);
    assert!(reason(&fixture).contains("base-x is not on the list of allowed"));
    fixture.settings.pip.allow = Some(vec!["number-words".to_owned(), "base-x".to_owned()]);
    fixture.provide("python", &["number-words"]).unwrap();
    // The lists apply to cached packages as well.
    fixture.settings.pip.deny = vec!["base-x".to_owned()];
    assert!(fixture.provide("python", &["number-words"]).is_err());
}

#[test]
fn an_unreachable_package_index_is_no_reason_to_refuse() {
    let Some(mut fixture) = two() else { return };
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, manager) in
        [(format!("http://{nobody}/simple"), "python"), (format!("http://{nobody}"), "javascript")]
    {
        if !can_fetch(manager) {
            continue;
        }
        fixture.settings.pip.index = Some(Index::Address(address.clone()));
        fixture.settings.npm.index = Some(Index::Address(address));
        let error = fixture.provide(manager, &["base-x"]).unwrap_err();
        assert!(matches!(error, PackageError::Failed { .. }), "{error}");
    }
}

#[test]
fn size_and_time_are_bounded() {
    if !can_fetch("python") {
        return;
    }
    let large = "x = '".to_owned() + &"0".repeat(24 << 20) + "'\n";
    let mut fixture = Fixture::new(&[wheel("large", "1", json!({"large.py": large}), &[])]);
    let reason = fixture.refusal("python", &["large"]);
    assert!(reason.contains("large: larger than 16 MiB") || reason.contains("File too large"), "{reason}");
    let server = Server::new(|_| {
        std::thread::sleep(Duration::from_secs(10));
        (404, Vec::new())
    });
    fixture.settings.pip.index = Some(Index::Address(server.address.clone()));
    fixture.settings.wall_time = Duration::from_secs(3);
    let error = fixture.provide("python", &["large"]).unwrap_err();
    assert!(matches!(error, PackageError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("took longer than 3 s"), "{error}");
}

#[test]
fn few_are_fetched_at_once_and_stopped_fetches_end_soon() {
    let Some(mut fixture) = two() else { return };
    // An unanswered request may be sent again.
    let asked: Arc<Mutex<HashSet<String>>> = Arc::default();
    let server = Server::new({
        let asked = Arc::clone(&asked);
        move |path| {
            asked.lock().unwrap().insert(path.to_owned());
            std::thread::sleep(Duration::from_secs(60));
            (404, Vec::new())
        }
    });
    fixture.settings.pip.index = Some(Index::Address(server.address.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let packages = fixture.packages().stopped_by(Arc::clone(&stop));
    let count = || asked.lock().unwrap().len();
    let packages = &packages;
    std::thread::scope(|scope| {
        // Two with the same name, so that one waits for the lock.
        let waiting: Vec<_> = ["a", "a", "b", "c", "d"]
            .map(|name| scope.spawn(move || packages.provide("python", &[name.to_owned()])))
            .into_iter()
            .collect();
        let start = Instant::now();
        while count() < SETS_AT_ONCE && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
        // The others would have started by then.
        std::thread::sleep(2 * start.elapsed());
        assert_eq!(count(), SETS_AT_ONCE, "after {:?}", start.elapsed());
        let stopped = Instant::now();
        stop.store(true, Ordering::SeqCst);
        for waiting in waiting {
            let error = waiting.join().unwrap().unwrap_err();
            assert!(matches!(error, PackageError::Stopped), "{error}");
        }
        assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    });
    assert_eq!(fixture.kept(), [] as [String; 0]);
}

#[test]
fn a_cache_is_created_when_packages_are_needed() {
    let Some(mut fixture) = two() else { return };
    let file = fixture.index().join("base_x-1.0-py3-none-any.whl");
    fixture.settings.cache = file.join("cache");
    let packages = fixture.packages();
    packages.check("python").unwrap();
    let error = packages.provide("python", &["base-x".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("`cache` in `[packages]`") && error.contains("Not a directory"), "{error}");
}

#[test]
fn a_cache_that_programs_cannot_enter_is_named_with_what_closes_it() {
    // Only root's programs run as another user.
    let Some(mut fixture) = two().filter(|_| rustix::process::geteuid().is_root()) else { return };
    let closed = fixture.index().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    fixture.settings.cache = closed.join("cache");
    let error = fixture.packages().provide("python", &["base-x".to_owned()]).unwrap_err().to_string();
    let named = format!("who cannot enter {};", closed.display());
    assert!(error.contains(&named) && error.contains("XDG_CACHE_HOME"), "{error}");
}

#[test]
fn a_directory_of_wheels_that_is_not_there_is_noticed_at_once() {
    let Some(mut fixture) = two() else { return };
    fixture.settings.pip.index = Some(Index::Directory("no/such/directory".into()));
    let error = quarry_sandbox::packages::Packages::open(fixture.settings.clone()).err().unwrap().to_string();
    assert!(error.contains("no/such/directory") && error.contains("`[packages.pip]`"), "{error}");
}

#[test]
fn a_refusal_is_remembered_and_names_are_taken_together() {
    let Some(mut fixture) = two() else { return };
    let server = fixture.serve();
    let packages = fixture.packages();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let first = packages.provide("python", &names(&["none-such"])).unwrap_err().to_string();
    let asked = server.count.load(Ordering::SeqCst);
    assert_eq!(
        packages.provide("python", &names(&["none-such", "none-such"])).unwrap_err().to_string(),
        first
    );
    assert_eq!(server.count.load(Ordering::SeqCst), asked);
    let both = packages.provide("python", &names(&["base-x", "number-words"])).unwrap();
    assert_eq!(packages.provide("python", &names(&["number-words", "base-x"])).unwrap(), both);
}

#[test]
fn languages_without_a_package_manager_have_none() {
    let Some(fixture) = two() else { return };
    let reason = fixture.refusal("go", &["x"]);
    assert!(reason.contains("no packages are installed for go"), "{reason}");
}
