//! `quarry related` as a user or a script runs it.

use std::io::Write as _;
use std::process::Stdio;

use quarry_test_support::git::GitRepository;
use serde_json::Value;

use crate::fixture::{Fixture, check_error, stderr, stdout};

const NET: &str = "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host, \"net.timeout\")\n\n\n\
                   def dial(host, key):\n    return (host, key)\n";

/// A tree with a history in which `connect` and `retry` change together.
fn fixture() -> (Fixture, GitRepository) {
    let fixture = Fixture::new();
    let mut repository = GitRepository::with_work_tree(&fixture.path("tree"));
    let retry = |n: usize| format!("def retry(call):\n    for attempt in range({n}):\n        call()\n");
    repository.commit(
        "Start",
        &[
            ("net.py", Some(NET)),
            ("retry.py", Some(&retry(1))),
            ("page.py", Some("from net import connect\n\n\ndef load(url):\n    return connect(url)\n")),
            ("config.py", Some("DEFAULTS = {}\n\n\ndef timeout():\n    return DEFAULTS[\"net.timeout\"]\n")),
            (
                "tests/test_page.py",
                Some("from page import load\n\n\ndef test_load():\n    assert load(\"a\")\n"),
            ),
            ("tests/test_other.py", Some("def test_nothing():\n    assert True\n")),
            ("docs/guide.md", Some("# Guide\n\nOpen a page with `connect(host)`.\n")),
        ],
    );
    for n in 2..5 {
        let net = NET.replacen("dial(host,", &format!("dial(host * {n},"), 1);
        let message = format!("Try {n} times\n\nReviewed-by: Jane <jane@example.org>");
        repository.commit(message, &[("net.py", Some(&net)), ("retry.py", Some(&retry(n)))]);
    }
    (fixture, repository)
}

fn reasons(answer: &Value, name: &str) -> Vec<String> {
    let results = answer["results"].as_array().unwrap();
    let Some(place) = results.iter().find(|place| place["name"] == name) else { return Vec::new() };
    let reason = |reason: &Value| {
        format!("{}: {}", reason["kind"].as_str().unwrap(), reason["evidence"].as_str().unwrap())
    };
    place["reasons"].as_array().unwrap().iter().map(reason).collect()
}

#[track_caller]
fn check_reason(answer: &Value, name: &str, expected: &str) {
    let reasons = reasons(answer, name);
    assert!(reasons.iter().any(|reason| reason == expected), "{name}: {reasons:?}");
}

#[test]
fn places_come_with_their_reasons() {
    let (fixture, _) = fixture();
    let answer = fixture.json("related connect --json");
    check_reason(&answer, "load", "caller: calls it");
    check_reason(&answer, "dial", "callee: called by it");
    check_reason(&answer, "test_load", "test: calls it through load");
    check_reason(&answer, "retry", "change: changed in 3 of its 3 commits");
    check_reason(&answer, "timeout", "literal: only both have `net.timeout`");
    check_reason(&answer, "Guide", "doc: names `connect`");
    assert_eq!(reasons(&answer, "test_nothing"), Vec::<String>::new());
    let results = answer["results"].as_array().unwrap();
    let probabilities: Vec<f64> =
        results.iter().map(|place| place["probability"].as_f64().unwrap()).collect();
    assert!(probabilities.is_sorted_by(|a, b| a >= b));
    assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)));
    let retry = results.iter().find(|place| place["name"] == "retry").unwrap();
    let change =
        retry["reasons"].as_array().unwrap().iter().find(|reason| reason["kind"] == "change").unwrap();
    assert_eq!(change["commits"][0]["subject"], "Try 4 times");
    let load = results.iter().find(|place| place["name"] == "load").unwrap();
    assert_eq!(load["reasons"][0]["line"], 5);
    assert_eq!(load["reasons"][0]["text"], "return connect(url)");
    assert_eq!(answer["history"][0]["commits"], 3);
    assert_eq!(answer["history"][0]["complete"], true);
    assert!(fixture.path("cache/quarry/related").is_dir() && !fixture.path("tree/.quarry").exists());
    let again = fixture.json("related connect --json");
    assert_eq!(again["results"], answer["results"], "from the cache");
}

#[test]
fn scripts_get_paths_and_positions() {
    let (fixture, _) = fixture();
    let output = fixture.run("related connect --kind test -l -0");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "tests/test_page.py\0"));
    let output = fixture.run(&["related", "net.py:1", "--kind", "caller", "--vimgrep"]);
    assert_eq!(stdout(&output), "page.py:4:1:load: calls it\n");
    let output = fixture.run("related tests/test_other.py --kind test -l");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("nothing related found among"), "{}", stderr(&output));
    let output = fixture.run("related no_such_name");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing in the tree defines `no_such_name`"), "{}", stderr(&output));
    fixture.check_error("related", "expected a name, FILE:LINE or a file");
    fixture.check_error("related page.py:1", "name a line in one");
    fixture.check_error("related connect --kind tests", "expected one of test, caller");
}

#[test]
fn people_get_the_evidence() {
    let (fixture, _) = fixture();
    let text = fixture.stdout(&["related", "connect", "--kind", "caller", "--kind", "change"]);
    assert!(
        text.contains(
            "page.py:4  function load\n       caller: calls it\n         page.py:5: return connect(url)\n"
        ),
        "{text}"
    );
    assert!(text.contains("change: changed in 3 of its 3 commits\n"), "{text}");
    let commits = fixture.stdout("related net.py:1 --kind commit -k 2");
    let subjects: Vec<&str> = commits.lines().filter_map(|line| line.split("  ").last()).collect();
    assert_eq!(subjects, ["Try 4 times", "Try 3 times"]);
    let answer = fixture.json("related net.py:1 --kind commit --json");
    assert_eq!(answer["commits"][0]["message"], "Try 4 times\n\nReviewed-by: Jane");
}

#[test]
fn a_change_leads_to_its_tests() {
    let (fixture, mut repository) = fixture();
    let tests = |arguments: &[&str]| fixture.stdout(&[arguments, &["--kind", "test", "-l"]].concat());
    assert_eq!(tests(&["related", "--diff", "HEAD~1.."]), "tests/test_page.py\n");
    assert_eq!(tests(&["related", "--diff", "HEAD~1...HEAD", "."]), "tests/test_page.py\n");
    fixture.check_error("related --diff HEAD", "expected REV..REV");
    fixture.check_error("related --diff no..such", "the commit no is missing");
    let diff = "--- a/net.py\n+++ b/net.py\n@@ -2,1 +2,1 @@\n-x\n+    \"\"\"Open a socket to a host.\"\"\"\n";
    let mut command = fixture.command("related - --kind test -l");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(diff.as_bytes()).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "tests/test_page.py\n");
    repository.commit("Test", &[("tests/test_other.py", Some("def test_nothing():\n    assert 1 + 1\n"))]);
    assert_eq!(
        tests(&["related", "--diff", "HEAD~1.."]),
        "tests/test_other.py\n",
        "a changed test tests the change"
    );
}

#[test]
fn without_a_repository_the_tree_counts() {
    let fixture = Fixture::new();
    fixture.write("tree/page.py", "from net import connect\n\n\ndef load(url):\n    return connect(url)\n");
    let output = fixture.run(&["related", "connect", "--kind", "caller"]);
    assert!(stdout(&output).contains("function load"), "{}", stdout(&output));
    assert!(stderr(&output).contains("no history: no git repository"), "{}", stderr(&output));
}

#[test]
fn commits_are_found_by_what_they_say() {
    let (fixture, mut repository) = fixture();
    let body = "def total(prices):\n    return sum(prices)\n";
    repository.commit("Round prices half to even", &[("shop.py", Some(body))]);
    let found = fixture.stdout("search --kind commit 'why are prices rounded' -k 1");
    assert!(found.contains("Round prices half to even") && found.lines().count() == 1, "{found}");
    let answer = fixture.json("search --kind commit 'rounding of prices' --json");
    assert_eq!(answer["results"][0]["message"], "Round prices half to even");
    assert_eq!(answer["results"][0]["functions"][0]["name"], "total");
    let units = fixture.json("search 'why are prices rounded' --json");
    assert!(units["results"].as_array().unwrap().iter().all(|result| result["path"].is_string()));
    fixture.check_error("search --kind commit --kind type x", "commits are found alone");
    let status = fixture.stdout("status");
    assert!(status.contains("history  4 commits up to "), "{status}");
    let caches = fixture.json("cache list --kind related --json");
    assert_eq!(caches["entries"].as_array().unwrap().len(), 1);
}

fn related_to(fixture: &Fixture, diff: &str, arguments: &[&str]) -> std::process::Output {
    let mut command = fixture.command(&[&["related", "-"], arguments].concat());
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A refused diff is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(diff.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn diffs_in_all_forms_are_read() {
    let (fixture, _) = fixture();
    let body = "@@ -3 +3 @@\n-x\n+y\n";
    let absolute = fixture.path("tree/net.py").canonicalize().unwrap();
    for diff in [
        format!("--- i/net.py\n+++ w/net.py\n{body}"),
        format!("--- net.py\n+++ net.py\n{body}"),
        format!("--- ./net.py\n+++ ./net.py\n{body}"),
        format!(
            "diff -ruN old/net.py new/net.py\n--- old/net.py\t2026-01-01\n+++ new/net.py\t2026-01-02\n{body}"
        ),
        format!("--- {0}\n+++ {0}\n{body}", absolute.display()),
        format!("\u{1b}[1m--- a/net.py\u{1b}[m\n\u{1b}[1m+++ b/net.py\u{1b}[m\n\u{1b}[36m{body}\u{1b}[m"),
        "diff --cc net.py\n--- a/net.py\n+++ b/net.py\n@@@ -3,1 -3,1 +3,1 @@@\n- x\n -y\n++z\n".to_owned(),
        "diff --git a/wire.py b/net.py\nsimilarity index 100%\nrename from wire.py\nrename to net.py\n"
            .to_owned(),
    ] {
        let output = related_to(&fixture, &diff, &["--kind", "test", "-l"]);
        assert_eq!(stdout(&output), "tests/test_page.py\n", "{diff}{}", stderr(&output));
    }
    let once = "--- a/net.py\n+++ b/net.py\n@@ -3 +3 @@\n-x\n+y\n";
    let answer: Value =
        serde_json::from_str(&stdout(&related_to(&fixture, &once.repeat(20_000), &["--json"]))).unwrap();
    assert_eq!(answer["targets"].as_array().unwrap().len(), 1);
    check_error(&related_to(&fixture, "hello\n", &[]), "stdin is not a diff in the unified format");
    let output = related_to(&fixture, "\n", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the diff is empty"), "{}", stderr(&output));
}

#[test]
fn removed_files_are_mentioned() {
    let (fixture, mut repository) = fixture();
    let output =
        related_to(&fixture, "--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-def gone(): pass\n", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("1 removed file is not compared"), "{}", stderr(&output));
    let output =
        related_to(&fixture, "--- a/net.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", &["--kind", "test", "-l"]);
    assert_eq!(stdout(&output), "tests/test_page.py\n", "what is still there counts as changed");
    repository.commit("Drop the configuration", &[("config.py", None)]);
    let output = fixture.run("related --diff 'HEAD~1..'");
    assert!(stderr(&output).contains("1 removed file is not compared"), "{}", stderr(&output));
}

#[test]
fn commits_of_a_file_need_not_change_a_definition() {
    let (fixture, mut repository) = fixture();
    repository.commit(
        "Say what it is",
        &[(
            "config.py",
            Some("# Settings.\n\nDEFAULTS = {}\n\n\ndef timeout():\n    return DEFAULTS[\"net.timeout\"]\n"),
        )],
    );
    let commits = fixture.stdout("related config.py --kind commit");
    assert!(commits.contains("Say what it is"), "{commits}");
}

#[test]
fn all_changed_tests_are_run_however_large_the_change() {
    let (fixture, mut repository) = fixture();
    let many: String = (0..70).map(|n| format!("def helper_{n}():\n    return {n}\n\n\n")).collect();
    let test = "from net import dial\n\n\ndef test_last():\n    assert dial(1, 2)\n";
    let net = NET.replacen("dial(host,", "dial(host + 1,", 1);
    repository
        .commit("Much", &[("a.py", Some(&many)), ("net.py", Some(&net)), ("tests/test_z.py", Some(test))]);
    let arguments = ["related", "--diff", "HEAD~1..", "--kind", "test", "-l"];
    let output = fixture.run(&arguments);
    let paths = stdout(&output);
    assert!(paths.contains("tests/test_z.py\n") && paths.contains("tests/test_page.py\n"), "{paths}");
    let note = "60 of 72 changed definitions were compared; name a path to narrow";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    let answer = fixture.json("related --diff 'HEAD~1..' --json");
    assert_eq!((&answer["compared_targets"], &answer["notes"][0]), (&60.into(), &note.into()));
    let output = fixture.run(&[&arguments[..], &["-k", "1"]].concat());
    assert!(stderr(&output).contains("1 of 2 places; -k shows more"), "{}", stderr(&output));
}

#[test]
fn scripts_that_call_it_are_callers() {
    let (fixture, mut repository) = fixture();
    repository.commit("Run", &[("run.py", Some("from net import connect\n\nprint(connect(\"a\"))\n"))]);
    let output = fixture.run(&["related", "connect", "--kind", "caller", "--vimgrep"]);
    let lines = stdout(&output);
    let mut lines = lines.lines();
    assert!(lines.any(|line| line.starts_with("run.py:") && line.ends_with(": calls it")), "{lines:?}");
}

#[test]
fn direct_tests_beyond_the_limit_are_counted() {
    let (fixture, mut repository) = fixture();
    let tests: String =
        (0..9).map(|n| format!("def test_case_{n}():\n    assert dial({n}, 1)\n\n\n")).collect();
    repository.commit("Test", &[("tests/test_net.py", Some(&format!("from net import dial\n\n\n{tests}")))]);
    let output = fixture.run("related dial -k 1");
    assert!(stderr(&output).contains("certainly use it: --kind"), "{}", stderr(&output));
    let answer = fixture.json("related dial --kind test -k 4 --json");
    assert_eq!(answer["results"].as_array().unwrap().len(), 4);
    let all = fixture.json("related dial --kind test -k 50 --json");
    let n_all = all["results"].as_array().unwrap().len();
    assert!(n_all >= 9 && all["more"].is_null(), "{n_all}");
    assert_eq!(answer["more"]["places"], n_all - 4);
}

#[test]
fn commits_are_printed_in_forms_that_they_have() {
    let (fixture, _) = fixture();
    for form in [&["-l"][..], &["-l", "-0"], &["--vimgrep"]] {
        let arguments = [&["related", "net.py", "--kind", "commit"], form].concat();
        fixture.check_error(&arguments, "commits are not in files");
        let arguments = [&["search", "times", "--kind", "commit"], form].concat();
        fixture.check_error(&arguments, "commits are not code; omit");
    }
    let lines = fixture.stdout("search times --kind commit --jsonl");
    let commits: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(commits.len() > 1 && commits.iter().all(|commit| commit["subject"].is_string()), "{lines}");
    let output = fixture.run("search times --kind commit -q");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), ""));
}
