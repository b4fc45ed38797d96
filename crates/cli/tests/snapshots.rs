//! Output of the program, word for word: tables, lists and errors, as files in `tests/snapshots`, so that a change of
//! wording is seen and read as one. `UPDATE_EXPECT=1 cargo test` writes them anew. (Help texts are compared where the
//! command line is defined, see `src/command_lines.rs`.)

use std::fmt::Write as _;
use std::path::Path;

use crate::fixture::{CODES, Fixture, PAIRS, stderr, stdout};
use expect_test::expect_file;
use regex::Regex;

/// Runs commands one after the other, words separated by spaces or in single quotation marks, and compares what they
/// print, and their exit codes, with the file of this name.
fn check(fixture: &Fixture, name: &str, commands: &[&str]) {
    let mut text = String::new();
    for command in commands {
        let output = fixture.run(*command);
        writeln!(text, "$ quarry {command}").unwrap();
        text.push_str(&stdout(&output));
        for line in stderr(&output).lines() {
            writeln!(text, "stderr: {line}").unwrap();
        }
        writeln!(text, "exit code: {}\n", output.status.code().unwrap()).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.txt"));
    expect_file![path].assert_eq(&normalized(fixture, &text));
}

/// A text without the paths, times and sizes of this run.
fn normalized(fixture: &Fixture, text: &str) -> String {
    let directory = fixture.path("");
    let mut text = text.to_owned();
    for path in [directory.canonicalize().unwrap(), directory] {
        text = text.replace(path.to_str().unwrap().trim_end_matches('/'), "[DIRECTORY]");
    }
    for (pattern, stands) in [
        (r"\d+(\.\d+)? (ms|s)\b", "[TIME]"),
        (r"\d+(\.\d+)? (B|kB|KiB|MiB|MB)\b", "[SIZE]"),
        (r"\b(trees|dirs)/[0-9a-f]{16,}", "$1/[HASH]"),
        (r"[0-9a-f]{16,}", "[HASH]"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, stands).into_owned();
    }
    text
}

#[test]
fn search_and_related_commands() {
    let fixture = Fixture::new();
    let commands = [
        "search 'open a socket'",
        "search 'open a socket' -l",
        "search 'open a socket' --jsonl -k 1",
        "search 'knit a woollen mitten'",
        "search -e 'def \\w+'",
        "similar net.py:2",
    ];
    check(&fixture, "search", &commands);
    check(&fixture, "index", &["index", "index", "log show", "log on", "log off"]);
}

#[test]
fn settings_of_coding_agents() {
    let fixture = Fixture::new();
    fixture.write("home/.claude.json", "{\n  \"theme\": \"dark\" // at night\n}\n");
    fixture.write("home/.gemini/settings.json", "{\n  \"theme\" \"dark\"\n}\n");
    let commands = [
        "agent install claude-code --command quarry --dry-run",
        "agent install claude-code cursor --command quarry",
        "agent install claude-code --command quarry",
        "agent install gemini --command quarry",
        "agent install windsurf --scope project",
        "agent list",
        "agent uninstall claude-code --dry-run",
        "agent uninstall claude-code cursor windsurf",
        "agent uninstall windsurf --scope project",
    ];
    check(&fixture, "agent", &commands);
}

#[test]
fn data_sets() {
    let fixture = Fixture::new();
    fixture.write("tree/codes.json", CODES);
    fixture.write("tree/pairs.json", PAIRS);
    let commands = [
        "data convert --from cosqa --queries pairs.json --corpus codes.json score",
        "data convert pairs.json codes.json score.parquet",
        "data check pairs.json codes.json",
        "data describe pairs.json codes.json",
        "data dedupe pairs.json codes.json",
        "data split pairs.json --parts train:1,test:1 parts",
        "data distractors pairs.json codes.json --count 2 candidates.jsonl",
        "data pull",
        "data formats",
        "data formats gecs",
    ];
    check(&fixture, "data", &commands);
}

#[test]
fn evaluations() {
    let fixture = Fixture::new();
    fixture.write("tree/codes.json", CODES);
    fixture.write("tree/pairs.json", PAIRS);
    fixture.write("tree/ratings.csv", "anna,ben,carl\n1,1,1\n0,1,0\n0,0,0\n1,1,0\n");
    fixture.write("tree/verdicts.csv", "truth,prediction\n1,1\n1,0\n0,0\n0,1\n1,1\n");
    fixture.write("tree/forecasts.csv", "outcome,probability\n1,0.9\n1,0.4\n0,0.2\n0,0.6\n1,0.8\n");
    fixture.run("data convert pairs.json codes.json score");
    let commands = [
        "eval ./score --method bm25 --run bm25.run",
        "eval ./score --method bow --run bow.run --format markdown",
        "eval score --qrels score/qrels/test.tsv --run bm25.run --metrics mrr,ndcg@10",
        "eval compare bm25.run bow.run --qrels score/qrels/test.tsv --metrics mrr",
        "eval agreement ratings.csv",
        "eval verdicts verdicts.csv",
        "eval verdicts forecasts.csv",
        "eval protocol --list",
        "eval protocol gecs --list",
    ];
    check(&fixture, "eval", &commands);
}

#[test]
fn mistakes() {
    let fixture = Fixture::new();
    fixture.write("tree/broken/.quarry.toml", "limit = 2\ntreshold = 0.5\n");
    fixture.write("tree/wrong.jsonl", "{\"query\": \"x\"}\n");
    fixture.write("tree/plan.toml", "pairs = ['none.jsonl']\njudge = 'agents'\nmodle = 1\n");
    fixture.write("tree/bench.toml", "title = 'x'\n\n[[datasets]]\nname = 'a'\nmethds = ['bm25']\n");
    fixture.write("tree/build.toml", "title = 'x'\n\n[candidates]\nkk = 3\n");
    fixture.write("tree/recipe.toml", "epochs = 1\nbatc = 8\n");
    fixture.write("tree/codes.json", CODES);
    fixture.write("tree/pairs.json", PAIRS);
    fixture.run("data convert pairs.json codes.json score");
    let commands = [
        "search x --no-index-update",
        "serach x",
        "mpc",
        "frobnicate",
        "search",
        "eval",
        "eval run",
        "search x nowhere",
        "search '?!'",
        "search x --limt 3",
        "search x -t pyhton",
        "search x -g 'a[b'",
        "search x --kind klass",
        "search x --threshold 7",
        "search -e 'a('",
        "search x broken",
        "similar net.py",
        "similar net.py:400",
        "similar net.py:2 --quality best",
        "man nothing",
        "languages --json extra",
        "data check wrong.jsonl",
        "data check none.jsonl",
        "data convert wrong.jsonl",
        "data convert wrong.jsonl out --to parquet",
        "data convert --hide-names python pairs.json out",
        "data split wrong.jsonl",
        "data split wrong.jsonl --parts train out",
        "data pull csn9",
        "eval nowhere --method bm25",
        "eval ./score --method bm26",
        "eval score --qrels none --run none",
        "eval protocol gecs",
        "eval protocol --reliability a.json",
        "eval protocol repo-search",
        "judge run none.toml",
        "judge run plan.toml",
        "eval run bench.toml --data .",
        "data build build.toml",
        "train static --recipe recipe.toml --pairs pairs.jsonl --out model",
        "train static --set batc=8 --pairs pairs.jsonl --out model",
        "train static --pairs none --out model",
        "callers net.py:400",
        "callers none.py:1",
        "model list none",
    ];
    check(&fixture, "errors", &commands);
}
