//! Trees made to break a program: nothing panics or hangs, and what is left out is said.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{Fixture, make_pipe, stderr, stdout};
use quarry_test_support::process::output_within;

/// Longer than any of these trees takes, even on a busy machine; a hang takes for ever.
const TIME: Duration = Duration::from_secs(240);

#[track_caller]
fn run(fixture: &Fixture, arguments: &[&str]) -> Output {
    let output = output_within(&mut fixture.command(arguments), TIME, &fixture.path(""));
    // A panic exits with 101, a signal with none.
    assert!(matches!(output.status.code(), Some(0..=2)), "{arguments:?}: {}", stderr(&output));
    output
}

fn skipped(fixture: &Fixture) -> HashMap<String, String> {
    let output = run(fixture, &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = status["holds"]["skipped"].as_array().unwrap().iter();
    files
        .map(|file| (file["path"].as_str().unwrap().to_owned(), file["reason"].as_str().unwrap().to_owned()))
        .collect()
}

fn finds_the_socket(fixture: &Fixture) {
    let output = run(fixture, &["search", "open a socket", "-k", "1"]);
    assert!(stdout(&output).starts_with(" 1. net.py:1"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_limit_on_the_size_of_files_ends_no_search() {
    let fixture = Fixture::new();
    let output = fixture.command_after("ulimit -f 1", &["search", "open a socket"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).starts_with(" 1. net.py:1"), "{}", stdout(&output));
    assert!(stderr(&output).contains("the index is in memory"), "{}", stderr(&output));
}

#[test]
fn impossible_names_are_refused() {
    let fixture = Fixture::new();
    let refused = |subject: &str, words: &str| {
        for command in ["callers", "callees"] {
            let output = run(&fixture, &[command, subject]);
            assert_eq!(output.status.code(), Some(2), "{command} {subject:?}: {}", stdout(&output));
            assert!(stderr(&output).contains(words), "{command} {subject:?}: {}", stderr(&output));
        }
    };
    for nothing in ["", ".", "::", "/", " "] {
        refused(nothing, "expected a name");
    }
    refused("net.py:0", "lines are counted from 1");
    refused("net.py:99999999999", "no function, method or type is indexed there");
    refused("none.py:3", "none.py: no such file or directory");
    refused("net.py", "net.py is a file; name a line of a definition in it, such as net.py:12");
    let output = run(&fixture, &["callers", "a\nb\u{1b}[31m"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no calls of `a\\nb\\u{1b}[31m` found"), "{}", stderr(&output));
}

#[test]
fn odd_files_are_left_out_and_named() {
    let fixture = Fixture::new();
    let tree = fixture.path("tree");
    symlink(&tree, tree.join("loop")).unwrap();
    symlink("b", tree.join("a")).unwrap();
    symlink("a", tree.join("b")).unwrap();
    symlink("/dev/zero", tree.join("zero.py")).unwrap();
    symlink("nowhere", tree.join("broken.py")).unwrap();
    for name in ["pipe.py", "pipe"] {
        make_pipe(&tree.join(name));
    }
    let _socket = UnixListener::bind(tree.join("socket.py")).unwrap();
    // Only the superuser can make a device.
    let device = Command::new("mknod").arg(tree.join("device.py")).args(["c", "1", "5"]).output().unwrap();
    fs::write(tree.join(OsStr::from_bytes(b"caf\xe9.py")), "def coffee(): pass\n").unwrap();
    fs::write(tree.join("two\nlines\x1b[31m.py"), "def two_lines_in_a_name(): pass\n").unwrap();
    fixture.write("tree/binary.py", "x = 1\0\n");
    fs::File::create(tree.join("huge.py")).unwrap().set_len(1 << 40).unwrap();
    fixture.write("tree/minified.js", &"function f(a){return a+1};".repeat(30_000));
    fixture.write("tree/brackets.py", &"(".repeat(100_000));
    fixture.write("tree/blank.py", "\n\n  \n");
    fixture.write("tree/closed.py", "def closed(): pass\n");
    fixture.write("tree/shut/inside.py", "def inside(): pass\n");
    fs::set_permissions(tree.join("closed.py"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(tree.join("shut"), Permissions::from_mode(0o000)).unwrap();
    finds_the_socket(&fixture);

    let skipped = skipped(&fixture);
    let reason = |path: &str| skipped.get(path).map_or("none", String::as_str);
    for link in ["loop", "a", "b", "zero.py", "broken.py"] {
        assert_eq!(reason(link), "symbolic link", "{link}");
    }
    for odd in ["pipe.py", "pipe", "socket.py"] {
        assert_eq!(reason(odd), "not a regular file", "{odd}");
    }
    if device.status.success() && fs::metadata(tree.join("device.py")).unwrap().file_type().is_char_device() {
        assert_eq!(reason("device.py"), "not a regular file");
    }
    assert_eq!(reason("caf\u{fffd}.py"), "not named in valid UTF-8");
    assert_eq!((reason("binary.py"), reason("huge.py")), ("binary", "over the size limit"));
    // The superuser reads what nobody may.
    if fs::read(tree.join("closed.py")).is_err() {
        assert!(reason("closed.py").starts_with("unreadable: "), "{}", reason("closed.py"));
        assert!(reason("shut").starts_with("unreadable: "), "{}", reason("shut"));
    }
    // A name cannot look like more than one, nor speak to the terminal.
    let found = stdout(&run(&fixture, &["search", "two_lines_in_a_name", "-k", "1"]));
    assert!(found.starts_with(" 1. two\\nlines\\u{1b}[31m.py:1"), "{found:?}");
    let text = stdout(&run(&fixture, &["status"]));
    assert!(text.contains("not a regular file: ") && !text.contains('\x1b'), "{text}");

    // A file that becomes readable is indexed, though nothing about the file itself has changed.
    fs::set_permissions(tree.join("closed.py"), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(tree.join("shut"), Permissions::from_mode(0o755)).unwrap();
    for name in ["closed", "inside"] {
        let output = run(&fixture, &["search", name, "-l", "--threshold", "0"]);
        assert!(stdout(&output).contains(&format!("{name}.py")), "{}", stderr(&output));
    }
}

#[test]
fn a_thousand_directories_deep_is_not_too_deep() {
    let fixture = Fixture::new();
    let deep = format!("tree/{}bottom.py", "d/".repeat(1000));
    fixture.write(&deep, "def bottom_of_the_well(): pass\n");
    let found = stdout(&run(&fixture, &["search", "bottom_of_the_well", "-l", "-k", "1"]));
    assert_eq!(found.trim(), deep.trim_start_matches("tree/"));
}

#[test]
fn many_tiny_files_are_found() {
    let fixture = Fixture::new();
    for n in 0..10_000 {
        fixture.write(&format!("tree/{}/f{n}.py", n % 100), &format!("def tiny_{n}(): return {n}\n"));
    }
    let found = stdout(&run(&fixture, &["search", "tiny_2718", "-l", "-k", "1"]));
    assert_eq!(found.trim(), "18/f2718.py");
    // One of many is touched.
    fixture.write("tree/0/f0.py", "def changed_a_little(): pass\n");
    let found = stdout(&run(&fixture, &["search", "changed_a_little", "-l", "-k", "1"]));
    assert_eq!(found.trim(), "0/f0.py");
}

#[test]
fn files_may_change_kind_and_content_while_they_are_read() {
    let fixture = Fixture::new();
    let target = fixture.path("tree/moving.py");
    let versions = [String::new(), "def moving(): pass\n".to_owned(), "def moving_on(): pass\n".repeat(500)];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                match round % 5 {
                    3 => drop(fs::create_dir(&target)),
                    4 => drop(fs::remove_dir(&target)),
                    n => {
                        fs::write(fixture.path("next"), &versions[n]).unwrap();
                        fs::rename(fixture.path("next"), &target).unwrap();
                        if n == 2 {
                            fs::remove_file(&target).unwrap();
                        }
                    }
                }
            }
        });
        (0..10).for_each(|_| finds_the_socket(&fixture));
        stop.store(true, Ordering::Relaxed);
    });
    let _ = fs::remove_dir(&target);
    fs::write(&target, "def at_rest(): pass\n").unwrap();
    let found = stdout(&run(&fixture, &["search", "at_rest", "-l", "-k", "1"]));
    assert_eq!(found.trim(), "moving.py");
}
