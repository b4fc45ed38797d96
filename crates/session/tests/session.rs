//! Trees that are opened, kept fresh, and opened again when their index is gone.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quarry_index::{Error, RebuildReason, Update, UserDirectories};
use quarry_session::{Notice, OpenChoice, Query, Session, SessionError, Snapshot, Tree, search};
use quarry_test_support::files::write;
use tempfile::TempDir;

const NET: &str = "def connect(host):\n    return dial(host)\n";

/// Two trees, and indexes in a directory beside them.
fn fixture() -> (TempDir, Vec<PathBuf>, OpenChoice) {
    let directory = tempfile::tempdir().unwrap();
    let trees = ["a", "b"].map(|name| directory.path().join(name)).to_vec();
    write(trees[0].join("net.py"), NET);
    write(trees[1].join("mail.py"), "def post(letter):\n    return stamp(letter)\n");
    let user = UserDirectories::below(&directory.path().join("user"));
    (directory, trees, OpenChoice { user, ..OpenChoice::default() })
}

/// The names of what a search finds, best first.
fn names(query: &str) -> impl Fn(&Tree, &Snapshot) -> Result<Vec<String>, SessionError> {
    move |tree, snapshot| {
        let all = quarry_index::Filter::default();
        let request = snapshot.defaults.request(&all, snapshot.defaults.limit);
        let found = search(&tree.index, Query::plain(query), &request)?;
        Ok(found.hits.into_iter().map(|hit| hit.name).collect())
    }
}

#[test]
fn settings_of_each_tree_and_of_the_user_apply() {
    let (_directory, trees, choice) = fixture();
    write(trees[0].join(".quarry.toml"), "globs = [\"!old*\"]\nlimit = 1\n");
    write(trees[0].join("old.py"), "def connect_old(host):\n    return dial(host)\n");
    write(trees[1].join("old.py"), "def connect_too(host):\n    return dial(host)\n");
    let session = Session::new(trees.clone(), choice.clone());
    let found = session.ask(None, &|_| {}, names("connect")).unwrap();
    assert_eq!(found, ["connect", "connect_too"], "the limit is of one tree alone");
    let session = Session::new(trees[..1].to_vec(), choice.clone());
    assert_eq!(session.ask(None, &|_| {}, names("connect")).unwrap(), ["connect"]);
    write(trees[1].join(".quarry.toml"), "limit = many\n");
    let strict = Session::new(trees.clone(), choice.clone());
    let problem = strict.snapshot(None, &|_| {}).err().unwrap().to_string();
    assert!(problem.contains(".quarry.toml:1:"), "{problem}");
    let n_ignored = AtomicUsize::new(0);
    let missing = trees[0].with_file_name("missing");
    let lenient = Session::new([trees, vec![missing]].concat(), choice).lenient();
    let notices = |notice: Notice| {
        n_ignored.fetch_add(usize::from(matches!(notice, Notice::Ignored(_))), Ordering::SeqCst);
    };
    let snapshot = lenient.snapshot(None, &notices).unwrap();
    assert_eq!((snapshot.paths.len(), snapshot.n_unsearched, n_ignored.into_inner()), (2, 1, 1));
}

#[test]
fn a_tree_stays_open_until_something_changes() {
    let (_directory, trees, choice) = fixture();
    let n_changes = Arc::clone(&choice.n_changes);
    let session = Session::new(trees[..1].to_vec(), choice).comparing_files();
    let now = || session.snapshot(Some(Instant::now()), &|_| {}).unwrap();
    let asked = Instant::now();
    let first = session.snapshot(Some(asked), &|_| {}).unwrap();
    assert!(Arc::ptr_eq(&first, &session.snapshot(Some(asked), &|_| {}).unwrap()), "it is late enough");
    // Files that changed just now may change again without a trace.
    thread::sleep(Duration::from_millis(2_100));
    let old = now();
    assert!(Arc::ptr_eq(&old, &now()) && Arc::ptr_eq(&old, &session.snapshot(None, &|_| {}).unwrap()));
    n_changes.fetch_add(1, Ordering::SeqCst);
    let next = now();
    assert!(!Arc::ptr_eq(&old, &next));
    write(trees[0].join("new.py"), "def listen(port):\n    return bind(port)\n");
    assert_eq!(session.ask(Some(Instant::now()), &|_| {}, names("listen")).unwrap()[0], "listen");
    write(trees[0].join(".quarry.toml"), "globs = [\"!new.py\"]\n");
    assert!(
        !session.ask(Some(Instant::now()), &|_| {}, names("listen")).unwrap().contains(&"listen".to_owned())
    );
}

#[test]
fn an_index_that_is_gone_is_built_again_and_asked_once_more() {
    let (_directory, trees, choice) = fixture();
    let lost = |session: &Session, fail: &dyn Fn(usize) -> Result<(), SessionError>| {
        let (n_asked, n_built) = (Cell::new(0), AtomicUsize::new(0));
        let notices = |notice: Notice| {
            let is_anew =
                matches!(notice, Notice::Event(quarry_index::Event::Rebuilding(RebuildReason::Requested)));
            n_built.fetch_add(usize::from(is_anew), Ordering::SeqCst);
        };
        let answer = session.ask(None, &notices, |tree, snapshot| {
            n_asked.set(n_asked.get() + 1);
            fail(n_asked.get())?;
            names("connect")(tree, snapshot)
        });
        (
            answer.map(|names| names[0].clone()).map_err(|error| error.to_string()),
            n_asked.get(),
            n_built.into_inner(),
        )
    };
    let damaged = || Error::Corrupt { path: PathBuf::from("units"), problem: "is cut".to_owned() };
    let replaced = || Error::Replaced { path: PathBuf::from("units"), source: Box::new(damaged()) };
    let once = |n: usize, error: &dyn Fn() -> Error| if n == 1 { Err(error().into()) } else { Ok(()) };
    let found = || Ok("connect".to_owned());
    let session = Session::new(trees[..1].to_vec(), choice.clone());
    assert_eq!(lost(&session, &|n| once(n, &damaged)), (found(), 2, 1));
    assert_eq!(lost(&session, &|n| once(n, &replaced)), (found(), 2, 0));
    let panic = |n: usize| {
        assert!(n > 1, "as a decoder does on damaged bytes");
        Ok(())
    };
    assert_eq!(lost(&session, &panic), (found(), 2, 1));
    // An error that occurs again is reported.
    assert_eq!(lost(&session, &|_| Err(damaged().into())), (Err("units: is cut".to_owned()), 2, 1));
    assert!(lost(&session, &|_| Err(replaced().into())).0.is_err());
    assert_eq!(lost(&session, &|_| Err(Error::EmptyQuery.into())).1, 1, "the index is not to blame");
    // An index that must not be written is left as it is.
    let session = Session::new(trees[..1].to_vec(), choice).with_update(Update::Never);
    let (answer, n_asked, n_built) = lost(&session, &|n| once(n, &damaged));
    assert!(answer.is_err() && (n_asked, n_built) == (1, 0));
}

#[test]
fn a_server_answers_from_the_index_as_it_is_while_that_is_refreshed() {
    let (directory, trees, choice) = fixture();
    let tree = trees[0].clone();
    let n_ready = Arc::new(AtomicUsize::new(0));
    let start = || {
        let n_ready = Arc::clone(&n_ready);
        let on_notice = move |notice: Notice| {
            n_ready.fetch_add(usize::from(matches!(notice, Notice::Ready(_))), Ordering::SeqCst);
        };
        let session = Session::new(vec![tree.clone()], choice.clone()).comparing_files();
        session.waiting(Duration::from_millis(100), on_notice)
    };
    let listen = |session: &Session| {
        let question = |tree: &Tree, snapshot: &Snapshot| -> Result<_, SessionError> {
            let is_found = names("listen")(tree, snapshot)?.contains(&"listen".to_owned());
            let changed = tree.changed_files().map(|behind| behind.files.clone());
            Ok((is_found, changed))
        };
        session.ask(Some(Instant::now()), &|_| {}, question).unwrap()
    };
    let session = start();
    assert_eq!(listen(&session), (false, None), "a first index is waited for");
    assert_eq!(n_ready.load(Ordering::SeqCst), 1);

    // Whoever refreshes an index waits for its writer.
    let index = fs::read_dir(directory.path().join("user/cache/index")).unwrap().next().unwrap().unwrap();
    let lock = fs::File::options().append(true).open(index.path().join("lock")).unwrap();
    lock.lock().unwrap();
    write(trees[0].join("new.py"), "def listen(port):\n    return bind(port)\n");
    let stale = (false, Some(vec![(0, "new.py".to_owned())]));
    let (begun, restarted) = (Instant::now(), start());
    for session in [&session, &session, &restarted] {
        assert_eq!(listen(session), stale);
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(n_ready.load(Ordering::SeqCst), 1);
    lock.unlock().unwrap();
    // Only a server answers so.
    let patient = Session::new(vec![tree.clone()], choice.clone());
    assert_eq!(listen(&patient), (true, None));
    for session in [&session, &restarted] {
        let is_fresh = || listen(session) == (true, None);
        assert!((0..600).any(|_| is_fresh() || {
            thread::sleep(Duration::from_millis(100));
            false
        }));
    }
    assert!(n_ready.load(Ordering::SeqCst) > 1);
}
