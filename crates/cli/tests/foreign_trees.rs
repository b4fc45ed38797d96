//! Trees made to have a program write, read or wait elsewhere: nothing in a tree decides where.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use crate::fixture::{Fixture, make_pipe, stderr, stdout};
use quarry_test_support::process::output_within;

/// Longer than any command here takes, even on a busy machine; a hang takes for ever.
const TIME: Duration = Duration::from_secs(120);

#[track_caller]
fn run(fixture: &Fixture, arguments: &[&str]) -> Output {
    // Endless input hits this limit before it exhausts the machine's memory.
    let mut shell = fixture.command_after("ulimit -v 4000000", arguments);
    let output = output_within(&mut shell, TIME, &fixture.path(""));
    assert!(matches!(output.status.code(), Some(0..=2)), "{arguments:?}: {}", stderr(&output));
    output
}

/// Special files that a stranger can put instead of a file, and words of the message about each.
const SPECIAL: [(&str, &str); 4] = [
    ("pipe", "a pipe, not a regular file"),
    ("/dev/zero", "a symbolic link, not a regular file"),
    ("elsewhere", "a symbolic link, not a regular file"),
    ("sparse", "longer than"),
];

fn put(path: &Path, what: &str, elsewhere: &Path) {
    let _ = fs::remove_file(path);
    match what {
        "pipe" => make_pipe(path),
        "sparse" => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        "elsewhere" => symlink(elsewhere, path).unwrap(),
        target => symlink(target, path).unwrap(),
    }
}

#[track_caller]
fn finds_the_socket(output: &Output) {
    assert!(stdout(output).contains("net.py:1"), "{}{}", stdout(output), stderr(output));
}

#[test]
fn settings_are_read_from_a_regular_file_only() {
    let fixture = Fixture::new();
    fixture.write("elsewhere.toml", "limit = 1\n");
    for (what, words) in SPECIAL {
        put(&fixture.path("tree/.quarry.toml"), what, &fixture.path("elsewhere.toml"));
        for command in [&["search", "socket"][..], &["config"], &["status"], &["index"]] {
            let output = run(&fixture, command);
            assert_eq!(output.status.code(), Some(2), "{what} {command:?}");
            let message = stderr(&output);
            assert!(message.contains(".quarry.toml") && message.contains(words), "{what}: {message}");
        }
        let doctor = stdout(&run(&fixture, &["doctor"]));
        assert!(doctor.contains("BROKEN   settings") && doctor.contains(words), "{what}: {doctor}");
    }
}

#[test]
fn ignore_files_are_read_from_regular_files_only() {
    let fixture = Fixture::new();
    fixture.write("elsewhere", "*\n");
    fixture.write("tree/.git/HEAD", "");
    fs::create_dir_all(fixture.path("tree/.git/info")).unwrap();
    for (what, words) in SPECIAL {
        for name in [".gitignore", ".ignore", ".quarryignore", "http/.gitignore", ".git/info/exclude"] {
            let path = fixture.path("tree").join(name);
            put(&path, what, &fixture.path("elsewhere"));
            finds_the_socket(&run(&fixture, &["search", "open a socket", "-k", "1"]));
            let status = fixture.json("status --json");
            let skipped = status["holds"]["skipped"].as_array().unwrap();
            let file = skipped.iter().find(|file| file["path"] == name);
            let reason = file.map_or("", |file| file["reason"].as_str().unwrap());
            assert!(reason.contains(words), "{what} {name}: {skipped:?}");
            fs::remove_file(&path).unwrap();
        }
    }
    // A `.git` that is a file names a directory elsewhere, which is not looked at.
    fs::remove_dir_all(fixture.path("tree/.git")).unwrap();
    fixture.write("tree/.git", &format!("gitdir: {}\n", fixture.path("git").display()));
    fixture.write("git/commondir", ".\n");
    fs::create_dir_all(fixture.path("git/info")).unwrap();
    make_pipe(&fixture.path("git/info/exclude"));
    finds_the_socket(&run(&fixture, &["search", "open a socket", "-k", "1"]));
}

fn is_here(command: &&[&str]) -> bool {
    command[0] != "mcp" || cfg!(feature = "mcp")
}

#[test]
fn settings_of_a_tree_name_nothing_outside_of_it() {
    let fixture = Fixture::new();
    fixture.write("tree/inside/model.bin", "not a model");
    fixture.write("tree/linked/real.bin", "not a model");
    fixture.write("outside/model.bin", "not a model");
    symlink("../../outside/model.bin", fixture.path("tree/linked/model.bin")).unwrap();
    symlink("../outside", fixture.path("tree/link")).unwrap();
    fs::create_dir(fixture.path("tree/waits")).unwrap();
    make_pipe(&fixture.path("tree/waits/model.bin"));
    let absolute = fixture.path("outside").display().to_string();
    let below = fixture.path("tree/inside").display().to_string();
    for model in
        ["../outside", "inside/../../outside", &absolute, &below, "link", "linked", "waits", "", "none"]
    {
        fixture.write("tree/.quarry.toml", &format!("model = {model:?}\n"));
        for command in [&["search", "socket"][..], &["mcp"], &["index"]].into_iter().filter(is_here) {
            let output = run(&fixture, command);
            assert_eq!(output.status.code(), Some(2), "{model} {command:?}");
            assert!(stderr(&output).contains("is ignored"), "{model}: {}", stderr(&output));
        }
    }
    // One in the tree is read, and here found to be none.
    for model in ["inside", "./inside/model.bin"] {
        fixture.write("tree/.quarry.toml", &format!("model = {model:?}\n"));
        let message = stderr(&run(&fixture, &["search", "socket"]));
        assert!(message.contains("not a static model"), "{message}");
    }
    // The user's own settings name what they like.
    fs::remove_file(fixture.path("tree/.quarry.toml")).unwrap();
    fixture.write("config/quarry/config.toml", &format!("model = {absolute:?}\n"));
    let message = stderr(&run(&fixture, &["search", "socket"]));
    assert!(message.contains("not a static model"), "{message}");
    fs::remove_file(fixture.path("config/quarry/config.toml")).unwrap();
    // Servers, programs and keys are not settings at all.
    for line in
        ["base_url = \"http://example.org\"", "key_variable = \"HOME\"", "editor = \"sh\"", "index = \"..\""]
    {
        fixture.write("tree/.quarry.toml", line);
        let message = stderr(&run(&fixture, &["search", "socket"]));
        assert!(message.contains("unknown setting"), "{message}");
    }
    fixture.write("tree/.quarry.toml", "max_bytes = 9223372036854775807\n");
    fs::File::create(fixture.path("tree/huge.py")).unwrap().set_len(1 << 40).unwrap();
    let message = stderr(&run(&fixture, &["search", "socket"]));
    assert!(message.contains("allow at most 67108864"), "{message}");
}

/// The names of an index, and of what its writer makes first.
const MEMBERS: [&str; 6] =
    ["manifest.json", "manifest.copy.json", "manifest.json.new", ".gitignore", "lock", "part-1"];

#[test]
fn an_index_in_a_tree_cannot_have_other_files_written() {
    let fixture = Fixture::new();
    fixture.write("home/rc", "mine");
    fs::create_dir_all(fixture.path("tree/.quarry")).unwrap();
    for name in MEMBERS {
        symlink("../../home/rc", fixture.path("tree/.quarry").join(name)).unwrap();
    }
    let mut commands: Vec<&[&str]> = vec![
        &["search", "socket"],
        &["search", "socket", "http"],
        &["similar", "net.py:1"],
        &["search", "-e", "dial"],
        &["status"],
        &["doctor"],
        &["index"],
        &["mcp"],
        &["config"],
    ];
    commands.push(&["search", "socket", "--index", ".quarry"]);
    for command in commands.into_iter().filter(is_here) {
        let output = run(&fixture, command);
        let message = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(fixture.read("home/rc"), "mine", "{command:?}");
        for name in MEMBERS {
            let link = fs::read_link(fixture.path("tree/.quarry").join(name));
            assert_eq!(link.unwrap(), Path::new("../../home/rc"), "{command:?}");
        }
        let is_named = command.contains(&"--index");
        // A server whose client is gone at once ends as it likes.
        if command[0] != "mcp" {
            assert_eq!(output.status.code() == Some(2), is_named, "{command:?}: {message}");
        }
        // Commands that do not touch an index print no message about it.
        if !matches!(command[0], "config") && command.last() != Some(&"http") {
            assert!(
                message.contains("built by this user on this machine")
                    || message.contains("this user built on this machine"),
                "{command:?}: {message}"
            );
        }
    }
    // An index in the tree that is asked for is built, without links.
    finds_the_socket(&run(&fixture, &["search", "open a socket"]));
    let output = run(&fixture, &["index", "--local"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fixture.read("home/rc"), "mine");
    let output = run(&fixture, &["search", "open a socket"]);
    finds_the_socket(&output);
    assert_eq!(stderr(&output), "");
    // The one that another user finds there is not read.
    let mut command = fixture.command("search 'open a socket'");
    let output = command.env("XDG_STATE_HOME", fixture.path("others")).output().unwrap();
    finds_the_socket(&output);
    assert!(stderr(&output).contains(".quarry was not built by this user"), "{}", stderr(&output));
}

#[test]
fn an_index_that_waits_or_does_not_end_is_left_alone() {
    let fixture = Fixture::new();
    for what in ["pipe", "/dev/zero", "sparse"] {
        let directory = fixture.path("tree/.quarry");
        fs::create_dir_all(&directory).unwrap();
        for name in MEMBERS {
            put(&directory.join(name), what, Path::new(""));
        }
        finds_the_socket(&run(&fixture, &["search", "open a socket"]));
        if is_here(&&["mcp"][..]) {
            run(&fixture, &["mcp"]);
        }
        for command in [&["status"][..], &["doctor"], &["index"]] {
            assert_eq!(run(&fixture, command).status.code(), Some(0), "{what} {command:?}");
        }
        fs::remove_dir_all(&directory).unwrap();
        put(&directory, what, Path::new(""));
        finds_the_socket(&run(&fixture, &["search", "open a socket"]));
        fs::remove_file(&directory).unwrap();
    }
}
