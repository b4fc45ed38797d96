//! The commands of the documentation, run: in a `console` block, each line that begins with `$ ` is typed in a shell,
//! in a copy of `examples/`, and what it prints is compared with the lines below it. `UPDATE_EXPECT=1 cargo test`
//! writes what is printed now into the pages.
//!
//! Times, sizes, hashes and versions may differ; `...` on a line of its own stands for any lines.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::{self, copy_examples};
use expect_test::expect_file;
use quarry_test_support::files::paths_below;
use regex::Regex;
use serde_json::Value;

/// Begins the line that the shell prints after each command, with its exit code.
const END: &str = "\u{1}";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        copy_examples("", &home.directory().join("quarry/examples"));
        home
    }

    fn directory(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// Output of commands, each with its exit code, typed one after the other into one shell.
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

/// The README and all pages of the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = paths_below(&root().join("docs"));
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.push(root().join("README.md"));
    pages
}

/// A text without what differs between runs and machines.
fn normalized(text: &str) -> String {
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

fn agrees(documented: &str, printed: &str) -> bool {
    let pattern = normalized(documented);
    let lines = pattern.lines().map(|line| match line {
        "..." => "(.*\n)*?".to_owned(),
        line => format!("{}\n", regex::escape(line)),
    });
    let pattern = Regex::new(&format!("^{}$", lines.collect::<String>())).unwrap();
    let printed = normalized(printed);
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

/// The files that the queries of the front page, which this one does not repeat, find first in this repository.
const ANSWERS: [&str; 4] = [
    "crates/files/src/lib.rs",
    "crates/llm/src/key.rs",
    "crates/transformer/src/tokens.rs",
    "crates/session/src/tokens.rs",
];

fn readme_commands() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks
        .flat_map(str::lines)
        .map(|line| line.replace("cargo run --release --no-default-features --", "quarry"));
    lines.filter(|line| line.starts_with("quarry ")).map(|line| shlex::split(&line).unwrap()).collect()
}

#[test]
fn commands_of_the_readme_name_files_of_a_clone() {
    let is_path = |word: &&String| {
        (word.contains('/') || *word == ".") && !word.contains(['*', '(']) && !word.contains("://")
    };
    let mut n_paths = 0;
    for word in readme_commands().iter().flatten().filter(is_path) {
        let path = word.split_once(':').map_or(word.as_str(), |(path, _)| path);
        assert!(root().join(path).exists(), "README.md: {word} is not in a clone");
        n_paths += 1;
    }
    assert!(n_paths >= 5, "{n_paths}");
}

#[test]
fn searches_of_the_readme_find_their_code_in_a_clone() {
    let home = tempfile::tempdir().unwrap();
    let quick = |words: &&Vec<String>| match words[1].as_str() {
        "search" | "similar" | "callers" => true,
        "eval" => words[2].starts_with("examples/") || words[2] == "compare",
        _ => false,
    };
    let mut answers = ANSWERS.iter();
    for words in readme_commands().iter().filter(quick) {
        let output = Command::new(env!("CARGO_BIN_EXE_quarry"))
            .args(&words[1..])
            .current_dir(root())
            .env("HOME", home.path())
            .envs(["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"].map(|name| (name, home.path())))
            .output()
            .unwrap();
        let printed = fixture::stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {printed}{}", fixture::stderr(&output));
        if words[1] == "search" {
            let answer = answers.next().unwrap();
            assert!(printed.starts_with(&format!(" 1. {answer}:")), "{words:?}: {printed}");
        }
    }
    assert_eq!(answers.len(), 0);
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
fn changed_output_is_found() {
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

/// Commands of the examples that print JSON, below the name of its schema.
const JSON_COMMANDS: [(&str, &[&str]); 23] = [
    (
        "search",
        &[
            "quarry search 'retry with backoff' shop --json",
            "quarry search 'render a scene' shop --explain --json",
            "quarry search 'retry with backoff' shop/net shop/web --json",
            "quarry search -e 'fn \\w+_lock' shop --json",
            "quarry search 'parse a header' shop -l --json",
        ],
    ),
    ("result", &["quarry search 'retry with backoff' shop --jsonl"]),
    ("similar", &["quarry similar shop/net/client.py:20 shop --json"]),
    ("callers", &["quarry callers try_lock shop --json"]),
    ("callees", &["quarry callees wait_for_lock shop --json"]),
    ("context", &["quarry context 'retry with backoff' shop --tokens 500 --json"]),
    ("outline", &["quarry outline shop --json"]),
    ("index", &["quarry index shop --json", "quarry index shop --rebuild --json"]),
    ("status", &["quarry index shop && quarry status shop --json"]),
    ("config", &["quarry config shop --json"]),
    ("languages", &["quarry languages --json"]),
    ("data-check", &["quarry data check judging/pairs.json --json"]),
    ("data-describe", &["quarry data describe judging/pairs.json --json"]),
    ("data-formats", &["quarry data formats --json", "quarry data formats gecs --json"]),
    (
        "eval",
        &[
            "quarry eval benchmark --method bm25 --json",
            "quarry eval benchmark --method hybrid --nauc --json",
        ],
    ),
    ("eval-score", &["quarry eval score --qrels benchmark/qrels/test.tsv --run runs/bm25.run --json"]),
    (
        "eval-compare",
        &["quarry eval compare runs/bm25.run runs/hybrid.run --qrels benchmark/qrels/test.tsv --json"],
    ),
    (
        "eval-next",
        &["quarry eval next runs/bm25.run runs/hybrid.run --qrels benchmark/qrels/test.tsv --json"],
    ),
    ("eval-agreement", &["quarry eval agreement ratings.csv --level ordinal --unit-column pair --json"]),
    (
        "eval-verdicts",
        &["quarry eval verdicts verdicts.csv --json", "quarry eval verdicts forecasts.csv --json"],
    ),
    (
        "eval-protocol",
        &[
            "quarry eval protocol pair-matching --pairs judging/pairs.json --method bm25 --json",
            "quarry eval protocol --list --json",
            "quarry eval protocol gecs --list --json",
        ],
    ),
    ("doctor", &["quarry doctor shop --json"]),
    ("judge-run", &["quarry judge run judging/plan.toml --dry-run --json"]),
];

#[test]
fn json_output_of_the_examples_has_the_published_form() {
    for (definition, commands) in JSON_COMMANDS {
        for (printed, code) in Home::new().run(commands) {
            assert!((0..2).contains(&code), "{commands:?}: {printed}");
            let value = serde_json::from_str(printed.lines().last().unwrap());
            fixture::schema::check(
                definition,
                &value.unwrap_or_else(|error| panic!("{commands:?}: {error}\n{printed}")),
            );
        }
    }
}

#[test]
fn a_field_without_a_schema_is_found() {
    let undocumented =
        serde_json::json!({"path": "a.rs", "language": "rust", "rank": 1, "root": "/", "score": 1.0});
    fixture::schema::check("result", &undocumented);
    for (field, value) in [("made_up", Value::Null), ("rank", "first".into())] {
        let mut wrong = undocumented.clone();
        wrong[field] = value;
        let outcome = std::panic::catch_unwind(|| fixture::schema::check("result", &wrong));
        assert!(outcome.is_err(), "{wrong}");
    }
}

/// The type of a schema, as TypeScript would write it.
fn notation(schema: &Value) -> String {
    let list = |items: &Value| match notation(items) {
        item if item.contains(" | ") => format!("({item})[]"),
        item => format!("{item}[]"),
    };
    let named = |name: &Value| match name.as_str().unwrap() {
        "array" => match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(items)), _) => {
                format!("[{}]", items.iter().map(notation).collect::<Vec<_>>().join(", "))
            }
            (_, items) => items.map_or("any[]".to_owned(), list),
        },
        "object" => match (schema.get("properties"), schema.get("additionalProperties")) {
            (Some(_), _) => format!("{{{}}}", fields(schema)),
            (None, Some(values)) => format!("{{[name]: {}}}", notation(values)),
            (None, None) => "object".to_owned(),
        },
        name => name.to_owned(),
    };
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return name.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    let choices = schema.get("anyOf").or(schema.get("oneOf"));
    let types = match (choices, schema.get("type"), schema.get("enum")) {
        (Some(choices), _, _) => choices.as_array().unwrap().iter().map(notation).collect(),
        (None, Some(Value::Array(names)), _) => names.iter().map(named).collect(),
        (None, Some(name), _) => vec![named(name)],
        (None, None, Some(names)) => names.as_array().unwrap().iter().map(Value::to_string).collect(),
        (None, None, None) => vec!["any".to_owned()],
    };
    types.join(" | ")
}

/// The fields of an object with their types, which are texts where nothing else is said.
fn fields(schema: &Value) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().unwrap().iter().map(|(name, field)| {
        let written = notation(field);
        let (is_nullable, written) =
            written.strip_suffix(" | null").map_or((false, written.as_str()), |rest| (true, rest));
        let optional = if is_nullable || !required.contains(&name.as_str()) { "?" } else { "" };
        match written {
            "string" => format!("{name}{optional}"),
            other => format!("{name}{optional}: {other}"),
        }
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// The name and description of each field of a definition and of the objects in it.
fn described_fields(schema: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(about) = field.get("description").and_then(Value::as_str) {
            found.push((name.clone(), about.to_owned()));
        }
        found.extend(described_fields(field));
    }
    for part in ["items", "additionalProperties"].iter().filter_map(|part| schema.get(part)) {
        found.extend(described_fields(part));
    }
    found
}

/// The names of the definitions that a schema refers to.
fn references(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(keys) => {
            let target =
                keys.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
            names.extend(target.map(str::to_owned));
            keys.values().for_each(|value| references(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        _ => {}
    }
}

/// A command for developers, whose output only the schema describes.
const UNLISTED: &str = "eval-tune";

#[test]
fn the_page_of_json_output_is_made_of_the_schemas() {
    let definitions = fixture::schema::definitions();
    let mut text = "<!-- Generated from output.schema.json: UPDATE_EXPECT=1 cargo test --release -p quarry-cli rewrites \
                    this page. -->\n\n# JSON output\n\n`--json` prints one object on one line. \
                    [output.schema.json](output.schema.json) has the JSON Schema of each command, such as \
                    `output.schema.json#/$defs/eval-compare` for `quarry eval compare`, with a description of every field; \
                    `eval-tune` is only there. New versions may add fields. Paths are relative to `root`, lines are counted from 1, and ranges of \
                    lines include both ends.\n\nBelow, `?` marks a field that may be missing or null, and a field without \
                    a type is a string. Names of other types are entries on this page.\n"
        .to_owned();
    for name in ["search", "result"] {
        let _ = write!(text, "\n## Fields of `{name}`\n\n");
        for (field, about) in described_fields(&definitions[name]) {
            let _ = writeln!(text, "- `{field}`: {about}");
        }
    }
    let is_command = |name: &str| definitions[name].get("title").is_some();
    let mut listed: BTreeSet<String> =
        definitions.keys().filter(|name| is_command(name) && *name != UNLISTED).cloned().collect();
    listed.insert("result".to_owned());
    let mut open: Vec<String> = listed.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let mut referred = BTreeSet::new();
        references(&definitions[&name], &mut referred);
        open.extend(referred.into_iter().filter(|name| listed.insert(name.clone())));
    }
    for (heading, commands) in [("Output of commands", true), ("Other types", false)] {
        let _ = write!(text, "\n## {heading}\n\n");
        // Names with the same type share a line.
        let mut lines: Vec<(String, String)> = Vec::new();
        for (name, schema) in &definitions {
            if !listed.contains(name) || is_command(name) != commands {
                continue;
            }
            let about = schema.get("description").and_then(Value::as_str).map(|about| format!("{about} "));
            let fields = if schema.get("properties").is_some() { fields(schema) } else { notation(schema) };
            let about = format!("{}`{fields}`", about.unwrap_or_default());
            match lines.iter_mut().find(|(_, known)| *known == about) {
                Some((names, _)) => *names = format!("{names}, **{name}**"),
                None => lines.push((format!("**{name}**"), about)),
            }
        }
        for (names, about) in lines {
            let _ = writeln!(text, "- {names}: {about}");
        }
    }
    expect_file![root().join("docs/reference/json.md")].assert_eq(&text);
}
