//! Malicious packages.

use std::fs;
use std::sync::atomic::Ordering;

use quarry_sandbox::Ended;
use quarry_sandbox::packages::Index;
use serde_json::json;

use crate::harness::{Fixture, Server, can_fetch, run, wheel};

#[test]
fn names_are_neither_options_nor_paths_nor_addresses() {
    if !can_fetch("python") {
        return;
    }
    let fixture = Fixture::new(&[wheel("good", "1", json!({"good.py": ""}), &[])]);
    for name in [
        "--index-url=http://127.0.0.1",
        "-rrequirements.txt",
        "x @ http://127.0.0.1/x.whl",
        "../x",
        "/opt/index",
        "git+https://127.0.0.1/x",
        "good\n--pre",
        "",
    ] {
        let reason = fixture.refusal("python", &["good", name]);
        assert!(reason.contains("is not the name of a package"), "{name}: {reason}");
    }
}

#[test]
fn a_wheel_cannot_write_outside_of_its_directory() {
    if !can_fetch("python") {
        return;
    }
    let paths =
        ["../../escaped.py", "/opt/out/escaped.py", "../fetched/escaped.py", "VICTIM", "../../../..VICTIM"];
    for path in paths {
        let fixture = Fixture::new(&[]);
        let path = path.replace("VICTIM", fixture.victim().to_str().unwrap());
        fixture.add(&[wheel("traversal", "1", json!({&path: "x = 1\n", "traversal.py": ""}), &[])]);
        // pip may also strip the path.
        if let Err(error) = fixture.provide("python", &["traversal"]) {
            assert!(error.to_string().contains("outside"), "{error}");
        }
        fixture.assert_untouched();
    }
}

#[test]
fn nothing_that_a_package_brings_runs_while_it_is_fetched() {
    if !can_fetch("python") {
        return;
    }
    // Dependencies given by URL bypass the rule that only wheels are accepted.
    let setup = "import socket; socket.create_connection(('127.0.0.1', {PORT}))\n";
    let server = Server::new(|_| (404, Vec::new()));
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let evil = json!({"kind": "source", "name": "evil", "version": "1.0",
                      "files": {"setup.py": setup.replace("{PORT}", &port), "evil.py": ""}});
    let mut fixture = Fixture::new(&[evil]);
    let files = fixture.serve();
    let needs = format!("evil @ {}/files/evil-1.0.tar.gz", files.address);
    let other = Fixture::new(&[wheel("lure", "1", json!({"lure.py": ""}), &[&needs])]);
    fs::copy(other.index().join("lure-1-py3-none-any.whl"), fixture.index().join("lure-1-py3-none-any.whl"))
        .unwrap();
    let error = fixture.provide("python", &["lure"]).unwrap_err();
    assert!(!error.to_string().is_empty());
    assert_eq!(server.count.load(Ordering::SeqCst), 0, "its code ran: {error}");
    let asked = files.paths.lock().unwrap().clone();
    assert!(asked.iter().any(|path| path.contains("lure-1")), "{asked:?}");
}

#[test]
fn a_package_cannot_change_the_cache_during_a_run() {
    if !can_fetch("python") {
        return;
    }
    let code = "
import os
def refused(function, *arguments):
    try: function(*arguments)
    except OSError: return
    print('ESCAPED', function, arguments)
def attack():
    here = os.path.dirname(__file__)
    refused(open, __file__, 'a')
    refused(open, os.path.join(here, 'new.py'), 'w')
    refused(os.remove, __file__)
    refused(os.rename, __file__, __file__ + '.old')
    refused(os.chmod, __file__, 0o777)
    refused(os.symlink, '/etc/passwd', os.path.join(here, 'link'))
    refused(os.listdir, os.path.join(here, '..', '..', 'cache'))
    print('the end')
";
    let fixture = Fixture::new(&[wheel("writer", "1", json!({"writer.py": code}), &[])]);
    let provided = fixture.provide("python", &["writer"]).unwrap();
    let (_, directory) = provided.directory.clone().unwrap();
    let before = fs::read(directory.join("writer.py")).unwrap();
    let outcome = run("python", "import writer\nwriter.attack()", &provided);
    assert_eq!(outcome.stdout.text(), "the end\n", "{}", outcome.stderr.text());
    assert_eq!(outcome.ended, Ended::Exited { code: 0 });
    assert_eq!(fs::read(directory.join("writer.py")).unwrap(), before);
    assert!(!directory.join("new.py").exists());
}

#[test]
fn code_that_python_runs_at_its_start_is_in_the_sandbox_too() {
    if !can_fetch("python") {
        return;
    }
    // Code that runs leaves a trace in the cached set, among the wheels, which are then refused, or at a server.
    let server = Server::new(|_| (404, Vec::new()));
    let hook = "
import os, socket
def attempt(function, *arguments):
    try: return function(*arguments)
    except OSError: pass
attempt(socket.create_connection, ('127.0.0.1', PORT), 1)
for directory in ['/opt/out/site', '/opt/out/wheels']:
    attempt(os.mkdir, directory)
    attempt(open, directory + '/hook_ran', 'w')
"
    .replace("PORT", server.address.rsplit(':').next().unwrap());
    let files =
        json!({"hooked.pth": "import hooked", "hooked.py": hook, "sitecustomize.py": hook, "pip.py": hook});
    let mut fixture = Fixture::new(&[wheel("hooked", "1", files, &[])]);
    let _index = fixture.serve();
    // Installing the next set must not run code of the first one, either.
    for names in [&["hooked"][..], &["hooked", "hooked==1"]] {
        let provided = fixture.provide("python", names).unwrap();
        let (_, directory) = provided.directory.unwrap();
        assert!(directory.join("sitecustomize.py").exists() && !directory.join("hook_ran").exists());
    }
    assert_eq!(server.count.load(Ordering::SeqCst), 0);
}

#[test]
fn wheels_come_from_the_index_alone() {
    if !can_fetch("python") {
        return;
    }
    let elsewhere = Fixture::new(&[wheel("evil", "1", json!({"evil.py": ""}), &[])]);
    let files = Server::simple(elsewhere.index());
    let needs = format!("evil @ {}/files/evil-1-py3-none-any.whl", files.address);
    let mut fixture = Fixture::new(&[
        wheel("lure", "1", json!({"lure.py": ""}), &[&needs]),
        wheel("luring", "1", json!({"other.py": ""}), &["lure"]),
        // A dependency of an extra that is not requested does no harm.
        wheel("choosy", "1", json!({"choosy.py": ""}), &[&format!("{needs} ; extra == 'all'")]),
    ]);
    let index = Server::simple(fixture.index());
    for from in [Index::Directory(fixture.index()), Index::Address(format!("{}/simple", index.address))] {
        fixture.settings.pip.index = Some(from);
        let reason = fixture.refusal("python", &["luring"]);
        assert!(reason.contains("needs something that is not in the index"), "{reason}");
    }
    fixture.settings.pip.deny = vec!["EVIL".to_owned()];
    let reason = fixture.refusal("python", &["lure"]);
    assert!(reason.contains("evil is on the list of denied packages"), "{reason}");
    assert_eq!(fixture.provide("python", &["choosy"]).unwrap().packages, ["choosy 1"]);
}
