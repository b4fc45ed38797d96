//! Sources and names of files cannot control a terminal.

use std::fs;
use std::process::Command;

use crate::fixture::Fixture;

/// Sets the title of a window; in two spellings.
const TITLE: &str = "\x1b]0;owned\x07";
const TITLE_C1: &str = "\u{9d}0;owned\u{9c}";
/// Turns text around.
const TURNED: &str = "\u{202e}";

/// A tree whose names and sources speak to terminals, with its settings.
fn hostile() -> Fixture {
    let fixture = Fixture::new();
    let source = format!(
        "# {TITLE} opens a door {TITLE_C1}\ndef open_door{TURNED}(key):\n    \"\"\"Opens a door {TITLE}.\"\"\"\n    return '{TITLE_C1}{TURNED}'\n"
    );
    fixture.write(&format!("tree/a{TITLE}{TITLE_C1}{TURNED}/do\nor.py"), &source);
    fixture.write(&format!("tree/b{TITLE}.py"), &source.replace("Opens", "Shuts"));
    fixture.write(&format!("tree/c{TITLE}.bin"), "x\0");
    fixture.write(&format!("tree/d{TITLE}.py"), "x\0");
    fixture.write("tree/.quarry.toml", "globs = [\"!\\u001b]0;owned\\u0007\"]\n");
    fixture
}

/// Output of a command to a terminal, including errors.
fn on_terminal(fixture: &Fixture, arguments: &[&str]) -> String {
    let quarry = fixture.command(arguments);
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', r"'\''"));
    let line: Vec<String> =
        std::iter::once(quarry.get_program()).chain(quarry.get_args()).map(quoted).collect();
    let mut script = Command::new("script");
    script
        .args(["-qec", &line.join(" "), "/dev/null"])
        .current_dir(fixture.path("tree"))
        .env("TERM", "xterm");
    for (name, value) in quarry.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    String::from_utf8(script.output().expect("`script` of util-linux is needed").stdout).unwrap()
}

/// The parts of a text that a terminal would obey and that are not our own.
fn commands(text: &str) -> Vec<&str> {
    ["\x1b]0", "\u{9d}", "\u{9c}", TURNED, "\x07"].into_iter().filter(|part| text.contains(part)).collect()
}

#[test]
fn nothing_that_was_read_speaks_to_the_terminal() {
    let fixture = hostile();
    let other = format!("tree/e{TITLE}");
    fs::create_dir_all(fixture.path(&other)).unwrap();
    let directory = format!("e{TITLE}");
    let place = format!("b{TITLE}.py:2");
    fixture.run("log on");
    for arguments in [
        &["index"][..],
        &["search", "open a door"],
        &["search", "open a door", "--lines", "0", "--explain"],
        &["search", "open a door", "-C", "5", "--color", "always"],
        &["search", "open a door", "-l"],
        &["search", "open a door", "--vimgrep"],
        &["search", "open a door", "--json"],
        &["search", "open a door", "--jsonl"],
        &["search", "-e", "open"],
        &["search", "-e", "open", "--vimgrep"],
        &["similar", &place],
        &["similar", &place, "--json"],
        &["similar", &format!("b{TITLE}.py:2000")],
        &["status"],
        &["status", "--json"],
        &["doctor"],
        &["config"],
        &["config", "--json"],
        &["search", &format!("door {TITLE}")],
        &["search", &format!("zebra {TITLE}"), "--threshold", "1"],
        &["search", "door", &format!("nowhere{TITLE}")],
        &["search", "door", "-t", &format!("python{TITLE}")],
        &["search", "door", "--kind", &format!("type{TITLE}")],
        &["index", &directory],
        &["log", "show"],
        &["log", "--opened", "1"],
    ] {
        let text = on_terminal(&fixture, arguments);
        assert!(!text.is_empty(), "{arguments:?}");
        assert_eq!(commands(&text), [""; 0], "{arguments:?}: {text:?}");
    }
    let text = on_terminal(&fixture, &["search", "open a door", "--color", "never"]);
    assert!(text.contains(r"\u{1b}]0;owned\u{7}") && text.contains(r"do\nor.py:1"), "{text:?}");
}

#[test]
fn programs_get_names_as_they_are() {
    let fixture = hostile();
    let first = |arguments: &[&str]| fixture.stdout(&[&["search", "shut a door"], arguments].concat());
    let name = format!("b{TITLE}.py");
    assert!(first(&["-l"]).starts_with(&format!("{name}\n")));
    // Also in a pipe, people read positions.
    assert_eq!(commands(&first(&["--vimgrep"])), [""; 0]);
    assert!(first(&["--vimgrep"]).starts_with(r"b\u{1b}]0;owned\u{7}.py:2:"), "{}", first(&["--vimgrep"]));
    assert_eq!(first(&["-l", "-0", "-k", "1"]), format!("{name}\0"));
    // Text for people may still come to a terminal, through a pager.
    assert_eq!(commands(&first(&[])), [""; 0]);
    // Output for programs is the same on a terminal.
    assert!(on_terminal(&fixture, &["search", "shut a door", "-l0"]).contains(&name));
    let json = fixture.json(&["search", "shut a door", "--json"]);
    assert_eq!(json["results"][0]["path"], name.as_str());
    let error = fixture.stderr(&["search", "door", &format!("nowhere{TITLE}")]);
    assert_eq!(commands(&error), [""; 0], "{error:?}");
}

#[test]
fn progress_is_shown_to_people_alone() {
    let fixture = Fixture::new();
    let shown = on_terminal(&fixture, &["index"]);
    assert!(shown.contains("reading") && shown.contains("embedding"), "{shown:?}");
    // Too little was done for an estimate.
    assert!(!shown.contains("left"), "{shown:?}");
    let quiet = on_terminal(&fixture, &["search", "open a socket", "http", "-q", "--index", "../other"]);
    assert_eq!(quiet, "");
    let printed = fixture.stderr("index --rebuild --quality fast");
    assert_eq!(printed.lines().count(), 1, "{printed}");
}
