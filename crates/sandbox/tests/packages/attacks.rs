//! Packages that mean harm.

use std::fs;

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
fn a_wheel_cannot_write_outside_of_its_folder() {
    if !can_fetch("python") {
        return;
    }
    for path in ["../../escaped.py", "/opt/out/escaped.py", "../fetched/escaped.py"] {
        let fixture =
            Fixture::new(&[wheel("traversal", "1", json!({path: "x = 1\n", "traversal.py": ""}), &[])]);
        match fixture.provide("python", &["traversal"]) {
            Err(error) => assert!(error.to_string().contains("outside"), "{error}"),
            // pip may also strip the path. Nothing lies elsewhere.
            Ok(provided) => {
                let (_, folder) = provided.folder.unwrap();
                let around = folder.parent().unwrap().parent().unwrap();
                assert!(!around.join("escaped.py").exists() && !folder.join("../escaped.py").exists());
            }
        }
    }
}

#[test]
fn nothing_that_a_package_brings_runs_while_it_is_fetched() {
    if !can_fetch("python") {
        return;
    }
    // Direct addresses of what others need go past the rule that only wheels are taken.
    let setup = "import socket; socket.create_connection(('127.0.0.1', {PORT}))\n";
    let server = Server::new(|_| (404, Vec::new()));
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let evil = json!({"kind": "source", "name": "evil", "version": "1.0",
                      "files": {"setup.py": setup.replace("{PORT}", &port), "evil.py": ""}});
    let mut fixture = Fixture::new(&[evil]);
    let files = Server::simple(fixture.index());
    let needs = format!("evil @ {}/files/evil-1.0.tar.gz", files.address);
    let other = Fixture::new(&[wheel("lure", "1", json!({"lure.py": ""}), &[&needs])]);
    fs::copy(other.index().join("lure-1-py3-none-any.whl"), fixture.index().join("lure-1-py3-none-any.whl"))
        .unwrap();
    fixture.settings.pip.index = Some(Index::Address(format!("{}/simple", files.address)));
    let error = fixture.provide("python", &["lure"]).unwrap_err();
    assert!(!error.to_string().is_empty());
    assert_eq!(server.count.load(std::sync::atomic::Ordering::SeqCst), 0, "its code ran: {error}");
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
    let (_, folder) = provided.folder.clone().unwrap();
    let before = fs::read(folder.join("writer.py")).unwrap();
    let outcome = run("python", "import writer\nwriter.attack()", &provided);
    assert_eq!(outcome.stdout.text(), "the end\n", "{}", outcome.stderr.text());
    assert_eq!(outcome.ended, Ended::Exited { code: 0 });
    assert_eq!(fs::read(folder.join("writer.py")).unwrap(), before);
    assert!(!folder.join("new.py").exists());
}

#[test]
fn code_that_python_runs_at_its_start_is_in_the_sandbox_too() {
    if !can_fetch("python") {
        return;
    }
    // Installing the next package must not run what the first one brought.
    let hook = "import os; os.getenv('x') or open('/opt/out/hook', 'w')\n";
    let fixture = Fixture::new(&[wheel(
        "hooked",
        "1",
        json!({"hooked.pth": hook, "sitecustomize.py": hook, "pip.py": hook}),
        &[],
    )]);
    let provided = fixture.provide("python", &["hooked"]).unwrap();
    let (_, folder) = provided.folder.unwrap();
    assert!(!folder.join("hook").exists() && !folder.join("../hook").exists());
    fixture.provide("python", &["hooked", "hooked==1"]).unwrap();
}
