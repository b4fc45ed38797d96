//! The commands of the documentation, run: in a `console` block, each line that begins with `$ ` is typed in a shell,
//! in a copy of `examples/`, and what it prints is compared with the lines below it. `UPDATE_EXPECT=1 cargo test`
//! writes what is printed now into the pages.
//!
//! Times, sizes, hashes and versions may differ; `...` on a line of its own stands for any lines.
#![cfg(target_os = "linux")]
#![cfg(feature = "full")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect_file;
use regex::Regex;
use serde_json::Value;

/// Begins the line that the shell prints after each command, with its exit code.
const END: &str = "\u{1}";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A home with a copy of the examples in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        copy(&root().join("examples"), &home.directory().join("quarry/examples"));
        home
    }

    fn directory(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// What commands print, each with its exit code, typed one after the other into one shell.
    fn run(&self, commands: &[&str]) -> Vec<(String, i32)> {
        let mut script = String::new();
        for command in commands {
            let _ = writeln!(script, "{command}\nprintf '{END}%s\\n' $?");
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_quarry")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .current_dir(self.directory().join("quarry/examples"))
            .env("HOME", self.directory())
            .env("PATH", format!("{}:{path}", binary.display()))
            .envs(["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"].map(|name| (name, "")))
            .env_remove("CLICOLOR_FORCE")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let text = text.replace(self.directory().to_str().unwrap(), "~");
        let mut parts = text.split(END);
        let mut printed = vec![parts.next().unwrap().to_owned()];
        let mut codes = Vec::new();
        for part in parts {
            let (code, next) = part.split_once('\n').unwrap();
            codes.push(code.parse().unwrap());
            printed.push(next.to_owned());
        }
        assert_eq!(codes.len(), commands.len(), "the shell stopped early: {text}");
        printed.into_iter().zip(codes).collect()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        // What somebody built there.
        if entry.path().extension().is_some_and(|ending| ending == "build") {
            continue;
        }
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The README and all pages of the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut directories = vec![root().join("docs")];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A text without what differs between runs and machines.
fn without_what_varies(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, stands) in [
        (r"\d+(\.\d+)? (ms|s|seconds?|minutes?)\b", "[TIME]"),
        (r"\d+(\.\d+)? (B|kB|KiB|MiB|MB|GiB)\b", "[SIZE]"),
        (r"[0-9a-f]{16,}", "[HASH]"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, stands).into_owned();
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Whether what a page has below a command is what the command printed.
fn agrees(documented: &str, printed: &str) -> bool {
    let pattern = without_what_varies(documented);
    let lines = pattern.lines().map(|line| match line {
        "..." => "(.*\n)*?".to_owned(),
        line => format!("{}\n", regex::escape(line)),
    });
    let pattern = Regex::new(&format!("^{}$", lines.collect::<String>())).unwrap();
    let printed = without_what_varies(printed);
    pattern.is_match(&if printed.is_empty() { printed } else { format!("{printed}\n") })
}

/// A page with what its commands print now, where it says something else; and what went wrong.
fn rerun(text: &str) -> (String, Vec<String>) {
    // Lines before, between and behind the commands, and the commands with what the page has below them.
    enum Piece<'a> {
        Text(&'a str),
        Command(&'a str, String),
    }
    let mut pieces = Vec::new();
    let mut is_console = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with("```") {
            is_console = line.trim_end() == "```console";
            pieces.push(Piece::Text(line));
            continue;
        }
        match (is_console, line.strip_prefix("$ "), pieces.last_mut()) {
            (true, Some(command), _) => pieces.push(Piece::Command(command.trim_end(), String::new())),
            (true, None, Some(Piece::Command(_, documented))) => documented.push_str(line),
            _ => pieces.push(Piece::Text(line)),
        }
    }
    let commands: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Command(command, _) => Some(*command),
            Piece::Text(_) => None,
        })
        .collect();
    if commands.is_empty() {
        return (text.to_owned(), Vec::new());
    }
    let mut printed = Home::new().run(&commands).into_iter();
    let (mut page, mut problems) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(line) => page.push_str(line),
            Piece::Command(command, documented) => {
                let (now, code) = printed.next().unwrap();
                if !(0..2).contains(&code) && !documented.starts_with("error: ") {
                    problems.push(format!("{command}: exit code {code}\n{now}"));
                }
                let now: String = now.lines().map(|line| format!("{}\n", line.trim_end())).collect();
                let _ =
                    write!(page, "$ {command}\n{}", if agrees(&documented, &now) { documented } else { now });
            }
        }
    }
    (page, problems)
}

#[test]
fn commands_of_the_documentation_print_what_it_shows() {
    let mut n_pages = 0;
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let (page, problems) = rerun(&text);
        assert!(problems.is_empty(), "{}: {}", path.display(), problems.join("\n"));
        n_pages += usize::from(text.contains("\n```console\n"));
        expect_file![&path].assert_eq(&page);
    }
    assert!(n_pages > 2, "only {n_pages} pages have commands with their output");
}

#[test]
fn the_readme_is_a_front_page() {
    let n_words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(
        n_words <= 900,
        "README.md has {n_words} words; what a reader needs later belongs to a page in docs/"
    );
}

#[test]
fn what_is_printed_otherwise_is_found() {
    let page =
        |printed: &str| format!("Text.\n\n```console\n$ echo 1 ms && echo two\n{printed}```\n\nMore.\n");
    for agreeing in ["2 ms\ntwo\n", "...\ntwo\n", "1 ms\n...\n", "...\n"] {
        assert_eq!(rerun(&page(agreeing)), (page(agreeing), Vec::new()));
    }
    for other in ["", "1 ms\n", "1 ms\ntwo\nthree\n", "1 s\nthree\n"] {
        assert_eq!(rerun(&page(other)), (page("1 ms\ntwo\n"), Vec::new()), "{other}");
    }
    let (_, problems) = rerun("```console\n$ quarry index --made-up\n```\n");
    assert!(problems[0].contains("exit code 2") && problems[0].contains("--made-up"), "{problems:?}");
}

/// Objects whose fields have names that are data.
const NAMED_BY_DATA: [&str; 5] = ["classes", "figures", "intervals", "metrics", "tests"];

/// What a JSON value is made of.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Leaf(&'static str),
    List(Option<Box<Shape>>),
    /// Fields, and whether all values have them.
    Object(BTreeMap<String, (Shape, bool)>),
    Either(Vec<Shape>),
}

impl Shape {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Leaf("null"),
            Value::Bool(_) => Self::Leaf("true or false"),
            Value::Number(number) if number.is_f64() => Self::Leaf("number"),
            Value::Number(_) => Self::Leaf("integer"),
            Value::String(_) => Self::Leaf("string"),
            Value::Array(items) => Self::List(items.iter().map(Self::of).reduce(Self::or).map(Box::new)),
            Value::Object(fields) => Self::Object(
                fields.iter().map(|(name, value)| (name.clone(), (Self::of(value), true))).collect(),
            ),
        }
    }

    /// What is of this shape or of the other one.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Leaf("integer"), Self::Leaf("number")) | (Self::Leaf("number"), Self::Leaf("integer")) => {
                Self::Leaf("number")
            }
            (Self::List(None), list @ Self::List(_)) | (list @ Self::List(_), Self::List(None)) => list,
            (Self::List(Some(one)), Self::List(Some(other))) => Self::List(Some(Box::new(one.or(*other)))),
            (Self::Object(mut one), Self::Object(mut other)) => {
                for (name, (shape, is_always)) in &mut one {
                    match other.remove(name) {
                        Some((second, always)) => {
                            *shape = shape.clone().or(second);
                            *is_always &= always;
                        }
                        None => *is_always = false,
                    }
                }
                one.extend(other.into_iter().map(|(name, (shape, _))| (name, (shape, false))));
                Self::Object(one)
            }
            (Self::Either(mut shapes), other) | (other, Self::Either(mut shapes)) => {
                if !shapes.contains(&other) {
                    shapes.push(other);
                }
                Self::Either(shapes)
            }
            (one, other) => Self::Either(vec![one, other]),
        }
    }

    fn write(&self, text: &mut String, indent: usize) {
        match self {
            Self::Leaf(name) => text.push_str(name),
            Self::List(None) => text.push_str("list"),
            Self::List(Some(item)) => {
                text.push_str("list of ");
                item.write(text, indent);
            }
            Self::Either(shapes) => {
                for (n, shape) in shapes.iter().enumerate() {
                    text.push_str(if n > 0 { ", or " } else { "" });
                    shape.write(text, indent);
                }
            }
            Self::Object(fields) => {
                text.push_str("object");
                for (name, (shape, is_always)) in fields {
                    let optional = if *is_always { "" } else { " (optional)" };
                    let _ = write!(text, "\n{}{name}{optional}: ", "  ".repeat(indent + 1));
                    match shape {
                        Self::Object(values) if NAMED_BY_DATA.contains(&name.as_str()) => {
                            text.push_str("by name, ");
                            let values = values.values().map(|(shape, _)| shape.clone());
                            values.reduce(Self::or).unwrap_or(Self::Leaf("nothing")).write(text, indent + 1);
                        }
                        // A tree, whose items have the fields of the one above.
                        Self::List(Some(item)) if matches!(&**item, Self::Object(inner) if inner.contains_key(name)) =>
                        {
                            let Self::Object(inner) = &**item else { unreachable!() };
                            let mut inner = inner.clone();
                            inner.insert(name.clone(), (Self::Leaf("list of the same"), false));
                            Self::List(Some(Box::new(Self::Object(inner)))).write(text, indent + 1);
                        }
                        shape => shape.write(text, indent + 1),
                    }
                }
            }
        }
    }
}

/// What the page of JSON output shows: its headings, and commands that print an object each as their last line.
const JSON_COMMANDS: [(&str, &[&str]); 18] = [
    (
        "quarry search",
        &[
            "quarry search 'retry with backoff' shop --json",
            "quarry search 'render a scene' shop --explain --json",
            "quarry search 'retry with backoff' shop/net shop/web --json",
        ],
    ),
    ("quarry search -e", &["quarry search -e 'fn \\w+_lock' shop --json"]),
    ("quarry search -l", &["quarry search 'parse a header' shop -l --json"]),
    ("quarry similar", &["quarry similar shop/net/client.py:20 shop --json"]),
    ("quarry callers", &["quarry callers try_lock shop --json"]),
    ("quarry callees", &["quarry callees wait_for_lock shop --json"]),
    ("quarry index", &["quarry index shop --json", "quarry index shop --rebuild --json"]),
    ("quarry status", &["quarry index shop && quarry status shop --json"]),
    ("quarry config", &["quarry config shop --json"]),
    ("quarry languages", &["quarry languages --json"]),
    (
        "quarry eval",
        &[
            "quarry eval benchmark --method bm25 --json",
            "quarry eval benchmark --method hybrid --nauc --json",
        ],
    ),
    ("quarry eval score", &["quarry eval score --qrels benchmark/qrels/test.tsv --run runs/bm25.run --json"]),
    (
        "quarry eval compare",
        &["quarry eval compare runs/bm25.run runs/hybrid.run --qrels benchmark/qrels/test.tsv --json"],
    ),
    (
        "quarry eval agreement",
        &["quarry eval agreement ratings.csv --level ordinal --unit-column pair --json"],
    ),
    ("quarry eval classification", &["quarry eval classification verdicts.csv --json"]),
    ("quarry eval calibration", &["quarry eval calibration forecasts.csv --json"]),
    (
        "quarry eval protocol",
        &["quarry eval protocol full-corpus --benchmark benchmark --method bm25 --json"],
    ),
    ("quarry judge run --dry-run", &["quarry judge run judging/plan.toml --dry-run --json"]),
];

#[test]
fn the_page_of_json_output_has_the_fields_that_are_printed() {
    let mut text = "<!-- Generated from what the commands print: UPDATE_EXPECT=1 cargo test --release -p quarry-cli \
                    rewrites this page. -->\n\n# JSON output\n\n`--json` prints one object, on one line. New versions \
                    may add fields. Each block has the fields of what the commands above it printed in `examples/`; a \
                    field that one of them lacks is optional. Paths are relative to `root`, lines count from 1, and \
                    ranges of lines include both ends.\n"
        .to_owned();
    for (name, commands) in JSON_COMMANDS {
        let home = Home::new();
        let shapes = home.run(commands).into_iter().map(|(printed, code)| {
            assert!((0..2).contains(&code), "{commands:?}: {printed}");
            let line = printed.lines().last().unwrap();
            Shape::of(
                &serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{commands:?}: {error}\n{printed}")),
            )
        });
        let shape = shapes.reduce(Shape::or).unwrap();
        let _ = write!(text, "\n## {name}\n\n```sh\n{}\n```\n\n```text\n", commands.join("\n"));
        shape.write(&mut text, 0);
        text.push_str("\n```\n");
    }
    expect_file![root().join("docs/reference/json.md")].assert_eq(&text);
}
