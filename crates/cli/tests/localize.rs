//! `quarry eval localize` as a user runs it.

use std::fs;
use std::path::Path;

use crate::fixture::{Fixture, check_error, stderr, stdout};
use quarry_test_support::git::GitRepository;
use serde_json::{Value, json};

const RETRY: &str = "\
class Client:
    def __init__(self, host):
        self.host = host

    def send(self, request):
        def attempt():
            return self.socket.write(request)
        return retry_with_backoff(attempt)

def retry_with_backoff(function):
    return wait_and_repeat(function)
";
const TABLE: &str = "def read_table(path):\n    return parse_rows(path)\n";

fn issue(id: &str, commit: &str, text: &str, functions: &[&str]) -> Value {
    let source = if id.starts_with('a') { "one" } else { "two" };
    json!({"id": id, "repository": "o/demo", "commit": commit, "text": text, "functions": functions, "source": source})
}

/// A clone with two commits, the second of which renames a directory, and issues of both.
fn benchmark(fixture: &Fixture) {
    let mut clone = GitRepository::bare(&fixture.path("tree/mirrors/o+demo/repo"));
    let first = clone.commit("one", &[("net/retry.py", Some(RETRY)), ("table.py", Some(TABLE))]);
    let second = clone.commit(
        "two",
        &[
            ("net/retry.py", None),
            ("net.py", Some(RETRY)),
            ("table.py", None),
            ("table.py/rows.py", Some(TABLE)),
        ],
    );
    let issues = [
        issue("a2", &second, "retry_with_backoff gives up too early", &["net.py:retry_with_backoff"]),
        issue("a1", &first, "read_table fails for empty rows", &["table.py:read_table", "table.py:added"]),
        issue(
            "b1",
            &first,
            "a Client cannot send a request",
            &["net/retry.py:Client.send.attempt", "net/retry.py:Client.__init__"],
        ),
        issue("b2", &second, "read_table again", &["table.py/rows.py:read_table"]),
        issue("b3", &second, "removed", &["net/retry.py:Client.send"]),
        issue("b4", &second, "nothing", &[]),
        issue("b5", &"0".repeat(40), "elsewhere", &["net.py:Client"]),
    ];
    let lines: String = issues.iter().map(|issue| format!("{issue}\n")).collect();
    fixture.write("tree/issues.jsonl", &lines);
}

fn localize(fixture: &Fixture, more: &[&str]) -> (Value, String) {
    let arguments = ["eval", "localize", "issues.jsonl", "--repos", "mirrors", "--json"];
    let output = fixture.succeed(&[&arguments, more].concat());
    (serde_json::from_slice(&output.stdout).unwrap(), stderr(&output))
}

/// The lines of a file of values by issue and method.
fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn issues_are_asked_of_the_tree_before_the_fix() {
    let fixture = Fixture::new();
    benchmark(&fixture);
    let methods = ["--method", "fast", "--method", "grep", "--method", "bm25-lucene", "--method", "bm25"];
    let files = ["--work", "work", "--per-query", "values.jsonl", "--page", "page.html"];
    let (report, notes) = localize(&fixture, &[&methods[..], &files].concat());
    assert_eq!(report["issues"], 4);
    assert_eq!(report["left_out"], json!({"gold_not_in_tree": 1, "no_commit": 1, "no_gold": 1}));
    assert_eq!((&report["absent_gold"], &report["several"]), (&json!(1), &json!(1)));
    assert!(notes.contains("left out 1 issue whose commit is not, or not wholly, in the clone"), "{notes}");
    for method in report["methods"].as_array().unwrap() {
        // The class of b1 has no word of its constructor.
        let all = if method["method"] == "grep" { 0.75 } else { 1.0 };
        assert_eq!(method["functions"]["metrics"]["acc@10"], all, "{method}");
        assert_eq!(method["files"]["metrics"]["acc@1"], 1.0, "{method}");
        assert_eq!(method["repositories"]["o/demo"]["functions"]["queries"], 4);
        assert_eq!(method["sources"]["one"]["functions"]["queries"], 2);
    }
    assert_eq!(report["comparisons"].as_array().unwrap().len(), 3);
    let values = lines(&fixture.path("tree/values.jsonl"));
    let find = |id: &str, method: &str| {
        let is_it = |line: &&Value| line["query"] == id && line["method"] == method;
        values.iter().find(is_it).unwrap()
    };
    assert_eq!(values.len(), 4 * 4);
    // A function inside a function is the one around it, and `__init__` its class.
    let gold = &find("b1", "hybrid")["functions"]["gold"];
    assert_eq!(gold, &json!(["net/retry.py:Client.send", "net/retry.py:Client"]));
    assert_eq!(find("b1", "hybrid")["modules"]["gold"], json!(["net/retry.py:Client"]));
    assert_eq!(find("a1", "grep")["functions"]["found"][0], "table.py:read_table");
    assert_eq!(
        find("a2", "grep")["functions"]["found"],
        json!(["net.py:Client.send", "net.py:retry_with_backoff"])
    );
    let page = fixture.read("tree/page.html");
    assert!(page.contains("a1: read_table fails") && page.contains("<strong>table.py:read_table</strong>"));

    // A second run opens the indexes as they are, and finds the same; files that are written again have new times.
    let index = fs::read_dir(fixture.path("tree/work/o+demo")).unwrap().map(|entry| entry.unwrap().path());
    let manifests: Vec<_> = index
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("index-"))
        .flat_map(|path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path().join("manifest.json")))
        .map(|path| (fs::metadata(&path).unwrap().modified().unwrap(), path))
        .collect();
    assert_eq!(manifests.len(), 4);
    let (again, _) = localize(&fixture, &[&methods[..], &["--work", "work"]].concat());
    for (before, after) in
        report["methods"].as_array().unwrap().iter().zip(again["methods"].as_array().unwrap())
    {
        assert_eq!(before["functions"], after["functions"]);
    }
    for (modified, path) in manifests {
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified, "{}", path.display());
    }
}

/// Gold files are distinct in any order of the functions, and a commit with missing directories is left out alone.
#[test]
fn gold_files_are_distinct_and_an_incomplete_commit_is_left_out() {
    let fixture = Fixture::new();
    let mut clone = GitRepository::bare(&fixture.path("tree/mirrors/o+demo/repo"));
    let functions = "def first():\n    return 1\n\n\ndef third():\n    return 3\n";
    let whole =
        clone.commit("one", &[("a.py", Some(functions)), ("b.py", Some("def second():\n    return 2\n"))]);
    let (tree, who) = ("1".repeat(40), "A B <a@b> 1000 +0000");
    let incomplete =
        clone.object("commit", format!("tree {tree}\nauthor {who}\ncommitter {who}\n\ntwo").as_bytes());
    let gold = ["a.py:first", "b.py:second", "a.py:third"];
    let issues =
        [issue("a1", &whole, "first, second and third", &gold), issue("a2", &incomplete, "x", &gold)];
    fixture.write("tree/issues.jsonl", &issues.map(|issue| format!("{issue}\n")).concat());
    let (report, _) = localize(&fixture, &["--method", "bm25", "--per-query", "values.jsonl"]);
    assert_eq!(report["left_out"], json!({"no_commit": 1}));
    assert_eq!(report["methods"][0]["files"]["metrics"]["acc@3"], 1.0);
    let values = lines(&fixture.path("tree/values.jsonl"));
    assert_eq!(values[0]["files"]["gold"], json!(["a.py", "b.py"]));
}

#[test]
fn issues_are_chosen_by_repository_source_and_number() {
    let fixture = Fixture::new();
    benchmark(&fixture);
    let n = |more: &[&str]| localize(&fixture, more).0["issues"].clone();
    assert_eq!(n(&["--source", "one", "--repository", "o/demo"]), 2);
    assert_eq!(n(&["--limit", "2", "--source", "one"]), 2);
    assert_eq!(n(&["--limit", "1", "--source", "one"]), 1);
    let refused = |more: &[&str], words: &str| {
        let arguments = ["eval", "localize", "issues.jsonl", "--repos", "mirrors"];
        fixture.check_error(&[&arguments, more].concat(), words);
    };
    refused(&["--repository", "o/other"], "check --repository and --source");
    refused(&["--limit", "0"], "'--limit <N>': expected at least 1");
    fixture.write("tree/issues.jsonl", &format!("{}\n", issue("1", &"a".repeat(40), "t", &["a.py:f"])));
    let output = fixture.run("eval localize issues.jsonl --repos nowhere");
    check_error(&output, "o/demo: expected a clone of it in nowhere");
    let text = fixture.run("eval localize --help");
    assert!(stdout(&text).contains("bm25-lucene"));
}

#[test]
fn changed_lines_are_places_to_find() {
    let fixture = Fixture::new();
    benchmark(&fixture);
    let commit = {
        let text = fixture.read("tree/issues.jsonl");
        let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        first["commit"].as_str().unwrap().to_owned()
    };
    let issue = |id: &str, text: &str, lines: Value| {
        json!({"id": id, "repository": "o/demo", "commit": commit, "text": text, "lines": lines}).to_string()
            + "\n"
    };
    let place = |path: &str, start: u32, end: u32| json!({"path": path, "start": start, "end": end});
    let issues = [
        issue(
            "1",
            "retry_with_backoff gives up too early",
            json!([place("net.py", 11, 11), place("net.py", 3, 3)]),
        ),
        issue("2", "read_table fails for empty rows", json!([place("table.py/rows.py", 1, 2)])),
        issue("3", "nothing of this is there", json!([place("gone.py", 1, 2)])),
        issue("4", "a license without a year", json!([place("net.py", 9, 9)])),
    ];
    fixture.write("tree/issues.jsonl", &issues.concat());
    let (report, _) = localize(&fixture, &["--per-query", "values.jsonl"]);
    assert_eq!((&report["issues"], &report["left_out"]), (&json!(3), &json!({"gold_not_in_tree": 1})));
    let lines_of = &report["methods"][0]["lines"];
    assert_eq!(lines_of["issues"], 3);
    let values = lines(&fixture.path("tree/values.jsonl"));
    let value = |id: &str, measure: &str| {
        values.iter().find(|line| line["query"] == id).unwrap()["lines"][measure].clone()
    };
    assert_eq!(value("1", "hit@1"), 1.0);
    assert_eq!(value("1", "mrr"), 1.0);
    assert_eq!(value("1", "hunks@10"), 1.0);
    assert_eq!((value("2", "mrr"), value("2", "context@2000")), (json!(1.0), json!(1.0)));
    // The functions of the lines are gold.
    let gold = &values.iter().find(|line| line["query"] == "1").unwrap()["functions"]["gold"];
    assert_eq!(gold, &json!(["net.py:retry_with_backoff", "net.py:Client"]));
    let output = fixture.run("eval localize issues.jsonl --repos mirrors");
    assert!(stdout(&output).contains("hunks@10"), "{}", stdout(&output));
}
