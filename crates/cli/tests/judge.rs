//! `quarry judge` as a user runs it: the example, kills, and plans that cannot work.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::cosqa::{self, labels};
use crate::fixture::{Fixture, assert_private, can_run, check_error, layouts, stderr, stdout};
use quarry_test_support::model_server::{Reply, Seen, Server};
use serde_json::{Value, json};

/// Pairs that the model judges at the same time in the test of kills.
const CONCURRENCY: usize = 4;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/judging/plan.toml")
}

#[test]
fn the_example_needs_no_key_and_runs_its_programs() {
    if !can_run("THE EXAMPLE OF JUDGING", &["bwrap", "python3", "node"]) {
        return;
    }
    let fixture = Fixture::new();
    let plan = example();
    let judge = |rest: &[&str]| {
        let options = [plan.to_str().unwrap(), "--ledger", "../example.ledger"];
        fixture.run(&[&["judge", rest[0]], &options[..], &rest[1..]].concat())
    };
    let run = judge(&["run", "--json"]);
    if stderr(&run).contains("the sandbox cannot be set up") {
        let _ = writeln!(std::io::stderr(), "\nTHE EXAMPLE OF JUDGING IS SKIPPED: {}\n", stderr(&run));
        return;
    }
    assert!(run.status.success(), "{}", stderr(&run));
    let table: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&table["pairs"], &table["waiting"], &table["tested"]), (&json!(40), &json!(0), &json!(14)));
    assert_eq!(table["runs"], json!({"error": 1, "failed": 6, "missing_package": 3, "passed": 4}));
    assert_eq!((&table["spent"]["tokens"], &table["accuracy"]), (&json!(0), &json!(0.95)));

    // A second run has nothing to do, and prints the same.
    let again = judge(&["run", "--json"]);
    assert!(stderr(&again).contains("every pair has a verdict"), "{}", stderr(&again));
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap(), table);
    layouts::check_layouts(judge, "status");
    let status = stdout(&judge(&["status"]));
    for words in [
        "clear share",
        "65.0 %",
        "executable rate",
        "71.4 %",
        "mean number of tests",
        "agreement with the file",
    ] {
        assert!(status.contains(words), "{words}: {status}");
    }
    let story = stdout(&judge(&["show", "27"]));
    for words in [
        "binary search",
        "screener",
        "AssertionError: nothing to search",
        "bubblewrap",
        "verdict: no, by arbiter",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
    // The program is in the answer that it was read from, and nowhere else.
    assert_eq!(story.matches("def position(items, wanted):").count(), 1, "{story}");
    assert!(story.contains("test program, python: as above") && story.contains("exited with status 1"));
    assert!(stdout(&judge(&["show", "27", "--questions"])).contains("asked by arbiter"));
    check_error(&judge(&["show", "400"]), "lists the pairs of the plan");
    let list = stdout(&judge(&["show"]));
    assert_eq!(list.lines().count(), 41);
    assert!(
        list.contains("\n27    no       arbiter     0      python binary search in a sorted list\n"),
        "{list}"
    );
    // Two of 40 differ, as in the table.
    let differing = stdout(&judge(&["show", "--differing"]));
    let ids: Vec<&str> = differing.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(ids, ["14", "36"]);
    let audit = judge(&["audit"]);
    assert!(audit.status.success() && stdout(&audit).starts_with("14 test programs"), "{}", stdout(&audit));
    let export = judge(&["export", "../labels", "--to", "beir"]);
    assert!(export.status.success(), "{}", stderr(&export));
    assert_eq!(fixture.read("labels/qrels/test.tsv").lines().count(), 41);
    let matches = stderr(&judge(&["export", "../matches", "--to", "advtest"]));
    for words in ["matches: 22 pairs", "18 pairs with label 0 are left out", "6 pairs are not in python"] {
        assert!(matches.contains(words), "{words}: {matches}");
    }
}

/// A directory with each code of the example in a file of its own, by the number of its pair, without those that begin
/// with imports: a label is about a function.
fn write_functions(fixture: &Fixture, directory: &str, changes: &[(usize, &str, &str)]) {
    let pairs = fs::read_to_string(example().with_file_name("pairs.json")).unwrap();
    let pairs: Vec<Value> = serde_json::from_str(&pairs).unwrap();
    for (number, pair) in pairs.iter().enumerate().filter(|(number, _)| ![31, 32, 37].contains(number)) {
        let mut code = pair["code"].as_str().unwrap().to_owned();
        for (_, from, to) in changes.iter().filter(|(changed, ..)| *changed == number) {
            assert!(code.contains(from), "{number}: {code}");
            code = code.replace(from, to);
        }
        let extension = if pair["language"] == "javascript" { "js" } else { "py" };
        fixture.write(&format!("{directory}/{number}.{extension}"), &code);
    }
}

#[test]
fn labels_are_checked_against_a_later_commit() {
    if !can_run("LABELS AT A LATER COMMIT", &["bwrap", "python3", "node"]) {
        return;
    }
    let fixture = Fixture::new();
    let plan = example();
    let judge = |command: &str| {
        fixture.run(&format!("judge {command} '{}' --ledger ../example.ledger", plan.display()))
    };
    let run = judge("run");
    if stderr(&run).contains("the sandbox cannot be set up") {
        return;
    }
    assert!(run.status.success(), "{}", stderr(&run));
    write_functions(&fixture, "before", &[]);
    let changes = [
        (5, "def count_lines(text):\n    return len(text.splitlines())\n", "# Removed.\n"),
        (8, "celsius * 9 / 5", "9 * celsius / 5"),
        (26, "result, i, j = [], 0, 0", "result = []\n    i = j = 0"),
        (28, "sorted(set(numbers))", "sorted(numbers)"),
    ];
    write_functions(&fixture, "now", &changes);
    fs::create_dir(fixture.path("now/units")).unwrap();
    fs::rename(fixture.path("now/9.py"), fixture.path("now/units/kelvin.py")).unwrap();
    // By all labels `early` is better, and by those that hold `late`: those of 8 and 28 do not.
    let ids = |number: usize| {
        let pairs = fs::read_to_string(plan.with_file_name("pairs.json")).unwrap();
        let pair = &serde_json::from_str::<Value>(&pairs).unwrap()[number];
        (pair["query-idx"].to_string(), pair["code-idx"].to_string())
    };
    for (name, order) in [("early", [8, 9, 28, 15, 1, 0]), ("late", [9, 8, 15, 28, 0, 1])] {
        let lines = order.iter().enumerate().map(|(rank, number)| {
            let (query, code) = ids(*number);
            format!("{query} Q0 {code} {} {} {name}\n", 1 + rank % 2, 2 - rank % 2)
        });
        fixture.write(&format!("{name}.run"), &lines.collect::<String>());
    }
    let trees = "--now ../now --before ../before --run ../early.run --run ../late.run";
    let audit = judge(&format!("audit {trees} --page ../page.md --json"));
    assert_eq!(audit.status.code(), Some(1), "{}", stderr(&audit));
    let report: Value = serde_json::from_slice(&audit.stdout).unwrap();
    let fates = |fate: &str| -> Vec<(&str, bool)> {
        let pairs = report["pairs"].as_array().unwrap().iter().filter(|pair| pair["fate"] == fate);
        pairs.map(|pair| (pair["pair"].as_str().unwrap(), pair["holds"] == true)).collect()
    };
    assert_eq!(fates("moved"), [("9", true)]);
    assert_eq!(fates("changed"), [("8", false), ("26", true), ("28", false)]);
    assert_eq!(fates("gone"), [("5", false), ("31", false), ("32", false), ("37", false)]);
    assert!(fates("same").iter().all(|(_, holds)| *holds), "{report}");
    let places = |run: &str| {
        let runs = report["runs"].as_array().unwrap();
        runs.iter().find(|found| found["run"].as_str().unwrap().starts_with(run)).unwrap()["places"].clone()
    };
    assert_eq!((places("early"), places("late")), (json!([1, 2]), json!([2, 1])));
    let page = fixture.read("page.md");
    for words in [
        "units/kelvin.py:1 to_kelvin",
        "its tests passed before, and failed now",
        "no test ran for its label",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

fn model(seen: &Seen) -> Reply {
    cosqa::model(seen, Duration::from_millis(15))
}

fn write_plan(fixture: &Fixture, n_pairs: usize, url: &str) {
    cosqa::write_plan(fixture, n_pairs, url, &format!("concurrency = {CONCURRENCY}"));
}

/// A run that is killed again and again ends with the labels of an undisturbed one. What was stored is not asked
/// again: only calls that were under way at a kill are repeated.
#[test]
fn kills_lose_nothing_and_repeat_only_what_was_under_way() {
    const PAIRS: usize = 60;
    let server = Server::script(|_, seen| model(seen));
    let undisturbed = Fixture::new();
    write_plan(&undisturbed, PAIRS, &server.url());
    undisturbed.succeed("judge run plan.toml");
    let before = server.count();
    assert_eq!(before, 2 * PAIRS);

    let killed = Fixture::new();
    write_plan(&killed, PAIRS, &server.url());
    let (mut kills, seed) = (0, fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let start = Instant::now();
    loop {
        let mut command = killed.command("judge run plan.toml");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let life = Duration::from_millis(random.u64(1..250));
        let born = Instant::now();
        // Later ones live longer, so that a slow machine comes to an end too.
        while born.elapsed() < life + start.elapsed() / 20 && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        match child.try_wait().unwrap() {
            Some(status) => {
                assert!(status.success(), "seed {seed}, after {kills} kills: {status}");
                break;
            }
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
            }
        }
    }
    assert_eq!(labels(&killed), labels(&undisturbed), "seed {seed}");
    assert!(kills > 0, "seed {seed}");
    let mut asked: HashMap<String, usize> = HashMap::new();
    for seen in &server.seen()[before..] {
        *asked.entry(seen.body.to_string()).or_default() += 1;
    }
    assert_eq!(asked.len(), 2 * PAIRS, "seed {seed}");
    let repeated: usize = asked.values().map(|times| times - 1).sum();
    assert!(repeated <= kills * CONCURRENCY, "seed {seed}: {repeated} repeated after {kills} kills");
    let status = killed.json("judge status plan.toml --json");
    assert_eq!((&status["waiting"], &status["answers"]), (&json!(0), &json!(2 * PAIRS)), "seed {seed}");
}

#[test]
fn a_plan_that_cannot_work_is_refused_before_anything_is_asked() {
    let server = Server::script(|_, seen| model(seen));
    let fixture = Fixture::new();
    write_plan(&fixture, 2, &server.url());
    let plan = fixture.read("tree/plan.toml");
    let with = |from: &str, to: &str| {
        fixture.write("tree/plan.toml", &plan.replacen(from, to, 1));
        fixture.run("judge run plan.toml")
    };
    check_error(&with("judge =", "jugde ="), "jugde");
    check_error(&with("'cosqa'", "'cosqua'"), "expected one of agents");
    check_error(&with("pairs.jsonl", "nowhere.jsonl"), "nowhere.jsonl");
    for entry in ["key_variable", "api_key"] {
        let refused = with("model = 'm'", &format!("model = 'm'\n{entry} = 'sk-live-0123456789abcdef'"));
        check_error(&refused, entry);
        assert!(!stderr(&refused).contains("sk-live"), "{}", stderr(&refused));
    }
    check_error(&with("model = 'm'", "model = 'm'\nkey_variable = 'NO_SUCH_KEY'"), "NO_SUCH_KEY");
    fixture.check_error("judge run none.toml", "none.toml");
    fixture.check_error("judge status plan.toml", "there is no ledger");
    assert!(!fixture.path("tree/plan.ledger").exists());
    let dry = with("judge", "judge");
    assert!(dry.status.success());
    assert_eq!(server.count(), 4);
    // Input is quoted without its control characters.
    let pair = json!({"id": "\u{1b}]0;a\u{7}\u{9b}2J\u{202e}", "query": " ", "code": "c"});
    fixture
        .write("tree/pairs.jsonl", &format!("{}\n{pair}\n", json!({"id": "b", "query": "b", "code": "c"})));
    fixture.check_error("judge run plan.toml", "pairs.jsonl:2: expected `query`");
    fixture.write("tree/pairs.jsonl", &pair.to_string().replace("\" \"", "\"q\"").replace("\"c\"", "\" \""));
    let refused = fixture.run("judge run plan.toml");
    check_error(&refused, "it has no code");
    let speaks = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!stderr(&refused).contains(speaks), "{:?}", stderr(&refused));
}

#[test]
fn pairs_without_a_verdict_end_with_an_error() {
    let server = Server::script(|_, _| Reply::status(400, "{\"error\": \"not today\"}"));
    let fixture = Fixture::new();
    write_plan(&fixture, 2, &server.url());
    let run = fixture.run("judge run plan.toml");
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(stderr(&run).contains("not today"), "{}", stdout(&run));
    assert!(stdout(&run).contains("2 without a verdict"), "{}", stdout(&run));
    // Equal failures are reported once.
    fixture.run("judge run plan.toml");
    let story = fixture.stdout("judge show plan.toml 0");
    assert!(story.contains("failed, 2 times") && story.matches("not today").count() == 1, "{story}");
    fixture.check_error("judge export plan.toml labels.json", "no pair has a label yet");
}

#[test]
fn a_full_disk_stops_with_advice_and_keeps_existing_files() {
    let server = Server::script(|_, seen| model(seen));
    let fixture = Fixture::new();
    write_plan(&fixture, 3, &server.url());
    check_error(&fixture.run_without_space("judge run plan.toml"), "plan.ledger");
    fixture.succeed("judge run plan.toml");
    assert_eq!(labels(&fixture).lines().count(), 3);
}

/// A damaged entry of a cache counts as missing, with a warning.
#[test]
fn a_damaged_answer_is_asked_for_again_with_a_warning() {
    let server = Server::script(|_, seen| model(seen));
    let fixture = Fixture::new();
    write_plan(&fixture, 1, &server.url());
    let plan = fixture.read("tree/plan.toml");
    fixture.write("tree/plan.toml", &format!("cache = 'answers'\n{plan}"));
    let run = |ledger: &str| fixture.stderr(&["judge", "run", "plan.toml", "--ledger", ledger]);
    assert!(!run("first").contains("damaged") && server.count() == 2);
    let mut damaged = 0;
    for directory in fs::read_dir(fixture.path("tree/answers")).unwrap() {
        for entry in fs::read_dir(directory.unwrap().path()).unwrap() {
            fs::write(entry.unwrap().path(), "{").unwrap();
            damaged += 1;
        }
    }
    let printed = run("second");
    assert!(printed.contains("WARN") && printed.contains("a damaged entry of the answer cache"), "{printed}");
    assert_eq!((damaged, server.count()), (2, 4));
    fs::set_permissions(fixture.path("tree/second"), Permissions::from_mode(0o640)).unwrap();
    assert!(!run("third").contains("damaged") && server.count() == 4);
    // Ledgers and answers are for their user alone, unless the user says otherwise.
    for path in ["answers", "first", "third"] {
        assert_private(&fixture.path("tree").join(path));
    }
    run("second");
    let mode = fs::metadata(fixture.path("tree/second")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn people_label_before_any_model_does() {
    let fixture = Fixture::new();
    let plan = example();
    let judge = |command: &str, rest: &str| {
        fixture.run(&format!("judge {command} '{}' --ledger ../people.ledger {rest}", plan.display()))
    };
    let export = judge("people export", "../form.csv --sample 3");
    assert!(export.status.success() && stderr(&export).contains("3 rows"), "{}", stderr(&export));
    check_error(&judge("people export", "../form.csv"), "one that exists");
    check_error(&judge("people export", "../other.csv --guideline nobodys"), "no such guideline");
    check_error(&judge("study", ""), "there is nothing to study");

    // The last cells of a row are label, minutes and comment.
    let text = fixture.read("form.csv");
    fixture.write("form.csv", &text.replace(",\"\",\"\",\"\"\n", ",\"yes\",\"2\",\"\"\n"));
    check_error(&judge("people import", "../form.csv"), "give --by NAME");
    // A table whose labels stand elsewhere.
    fixture.write("renamed.csv", &text.replacen("label", "my label", 1));
    let import = judge("people import", "../renamed.csv --by ann");
    check_error(&import, ":1: expected a column `label` with the labels that people gave");
    for by in ["ann", "bob"] {
        let import = judge("people import", &format!("../form.csv --by {by}"));
        assert!(import.status.success() && stderr(&import).contains("3 new"), "{}", stderr(&import));
    }
    let study: Value = serde_json::from_slice(&judge("study", "--json").stdout).unwrap();
    assert_eq!(study["programs"][0]["mean_minutes"], json!(2.0));
    let accuracy = &study["annotators"][0]["exact"]["accuracy"];
    assert_eq!((&accuracy["hits"], &accuracy["of"]), (&json!(6), &json!(6)));
    let markdown = stdout(&judge("study", "--format markdown"));
    assert!(markdown.contains("| ann, without tests | 3 | 1.000 [0.439, 1.000] | - |"), "{markdown}");
    // The story of a pair holds what people say.
    let pairs: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(example().with_file_name("pairs.json")).unwrap()).unwrap();
    let given = pairs.iter().find(|pair| text.contains(pair["code"].as_str().unwrap())).unwrap();
    let story = stdout(&judge("show", &given["pair-idx"].to_string()));
    // Without a date of its own, an answer has the time of the import.
    let date = story.split("ann, imported ").nth(1).and_then(|rest| rest.get(..10)).unwrap_or(&story);
    assert!(date.starts_with("20") && date.matches('-').count() == 2, "{date}");
    assert!(story.contains(&format!("ann, imported {date}, without tests: yes (cosqa-plus)")), "{story}");
    let guidelines = fixture.stdout("judge people guidelines");
    assert!(guidelines.contains("cosqa-plus-half") && guidelines.contains("preference"), "{guidelines}");
}
