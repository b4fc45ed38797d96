//! `quarry judge` beyond CoSQA+'s agents, as a user runs it, with programs that really run.

use std::io::Write;

use crate::fixture::{Fixture, can_run, layouts, stderr, stdout};
use quarry_test_support::model_server::{Reply, Seen, Server, completion};
use serde_json::{Value, json};

/// A model that leaves everything to tests. Those that it writes at first prove nothing.
fn model(seen: &Seen) -> Reply {
    let said = |place: usize| seen.body["messages"][place]["content"].as_str().unwrap();
    let (task, text) = (said(0), seen.body["messages"][1]["content"].as_str().unwrap_or_default());
    let part = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>\n")).unwrap();
        rest.split_once(&format!("</{name}>")).unwrap().0.to_owned()
    };
    let answer = if task.contains("preliminary_screening") {
        "preliminary_screening: 0.5, explanation: run it".to_owned()
    } else if task.contains("what has to stand before those tests") {
        let code = part("code");
        let name = code.strip_prefix("def ").unwrap().split('(').next().unwrap().to_owned();
        format!("```python\n{code}\nsubject = {name}\n```")
    } else if task.contains("proves nothing") {
        "def main():\n    assert subject([3, 1, 2]) == 3, 'the greatest'\n\nmain()".to_owned()
    } else if task.contains("You do not see the function") {
        "def main():\n    assert callable(subject), 'it can be called'\n\nmain()".to_owned()
    } else if task.contains("You write tests") {
        format!("{}\n\ndef main():\n    assert len(str(1)) == 1\n\nmain()", part("code"))
    } else if task.contains("for people who search for it") {
        "def least(items):\n    return min(items)".to_owned()
    } else {
        let held =
            u8::from(text.contains("1 assertion ran, and it held") || text.contains("return min(items)"));
        match task.contains("confidence") {
            true => format!("final_verdict: {held}, confidence: 0.8, final_explanation: by the tests"),
            false => format!("final_verdict: {held}, final_explanation: by the tests"),
        }
    };
    Reply::ok(completion(&answer, 50, 10))
}

fn write(fixture: &Fixture, url: &str) {
    let pair = |number: usize, query: &str, code: &str, label: u8| {
        json!({"pair-idx": number, "query-idx": query.len(), "query": query, "code-idx": number, "code": code,
               "label": label})
        .to_string()
    };
    let pairs = [
        pair(
            0,
            "python greatest of a list",
            "def greatest(items):\n    best = items[0]\n    for item in items:\n        if item > best:\n            best = item\n    return best\n",
            1,
        ),
        pair(1, "python greatest of a list", "def first(items):\n    return items[0] + 1\n", 0),
        pair(2, "python least of a list", "def last(items):\n    return items[-1] - 1\n", 0),
    ];
    fixture.write("tree/pairs.jsonl", &pairs.join("\n"));
    let model = format!("[model]\nprovider = 'openai-compatible'\nbase_url = '{url}'\nmodel = 'm'\n");
    let head = "pairs = ['pairs.jsonl']\nledger = 'x.ledger'\n";
    fixture.write("tree/plain.toml", &format!("{head}{model}"));
    let tests = "[tests]\nfrom = 'query'\nmutation = true\ndifferential = true\nconfidence = true\n";
    fixture.write("tree/options.toml", &format!("{head}rounds = 2\n{model}{tests}"));
    fixture.write("tree/one.toml", &format!("{head}{model}{tests}"));
}

#[test]
fn options_find_tests_that_prove_nothing_and_say_what_that_costs() {
    if !can_run("JUDGING WITH OPTIONS", &["bwrap", "python3"]) {
        return;
    }
    let server = Server::script(|_, seen| model(seen));
    let fixture = Fixture::new();
    write(&fixture, &server.url());
    let run = |plan: &str| fixture.run(&["judge", "run", plan]);
    let plain = run("plain.toml");
    if stderr(&plain).contains("the sandbox cannot be set up") {
        let _ = writeln!(std::io::stderr(), "\nJUDGING WITH OPTIONS IS SKIPPED: {}\n", stderr(&plain));
        return;
    }
    assert!(plain.status.success(), "{}", stderr(&plain));
    // Tests that prove nothing call everything right.
    assert_eq!(fixture.json("judge status plain.toml --json")["outcomes"]["yes"], 3);
    fixture.check_error("judge study plain.toml --calibration", "confidence = true");

    let with = run("one.toml");
    assert!(with.status.success(), "{}", stderr(&with));
    let status = fixture.json("judge status one.toml --json");
    assert_eq!((&status["outcomes"]["yes"], &status["outcomes"]["no"]), (&json!(1), &json!(2)), "{status}");
    let added = &status["options"]["added"];
    let names: Vec<&Value> = added.as_array().unwrap().iter().map(|added| &added["option"]).collect();
    assert_eq!(names, ["from_query", "mutation", "rewritten", "differential"]);
    // Calls that were bound once are not asked for again; each program is improved.
    let calls: Vec<&Value> = added.as_array().unwrap().iter().map(|added| &added["calls"]).collect();
    assert_eq!(calls, [3, 0, 3, 0]);
    let beside = &status["options"]["beside_plain"];
    assert_eq!((&beside["pairs"], &beside["changed"]), (&json!(3), &json!([["yes", "no", 2]])));
    assert_eq!(beside["accuracy"], json!([1.0 / 3.0, 1.0]));
    assert!(beside["tokens"].as_i64().unwrap() == 6 * 60, "{beside}");
    let text = fixture.stdout("judge status one.toml");
    let words: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "Cost of the options of `[tests]`",
        "labels changed 2",
        "from yes to no 2",
        "agreement with the file, without 33.3 %",
        "agreement with the file, with 100.0 %",
    ] {
        assert!(words.iter().any(|found| found == line), "{line}: {text}");
    }
    layouts::check_layouts(|words| fixture.run(words), "judge status one.toml");
    layouts::check_layouts(|words| fixture.run(words), "judge study one.toml --calibration --folds 2");
    let story = fixture.stdout("judge show one.toml 0");
    for words in
        ["query-test-generator", "test-adapter", "query-test-improver", "for mutation", "confidence 0.80"]
    {
        assert!(story.contains(words), "{words}: {story}");
    }
    // The arbiter learned that the tests tell the function from broken ones, and from another candidate.
    let asked = fixture.stdout("judge show one.toml 0 --questions");
    assert!(asked.contains("versions with a fault put in, the program fails for"), "{asked}");
    assert!(asked.contains("for another candidate for the query an assertion does not hold"), "{asked}");
    let calibrated = fixture.json("judge study one.toml --calibration --folds 2 --json");
    assert_eq!((&calibrated["pairs"], &calibrated["accuracy"]), (&json!(3), &json!(1.0)));
    let brier = calibrated["as_said"]["brier"].as_f64().unwrap();
    assert!((brier - 0.04).abs() < 1e-9, "{brier}");
    let text = fixture.run("judge study one.toml --calibration");
    // A single confidence is reported, without conclusions.
    assert!(stdout(&text).contains("as stated") && !stdout(&text).contains("can be kept"));
    assert!(stderr(&text).contains("only 3 pairs: other pairs may give different numbers"));
    assert!(stderr(&text).contains("all confidences are equal"));
    let audit = fixture.run("judge audit one.toml");
    assert!(audit.status.success(), "{}", stdout(&audit));

    // A second round asks all again, by itself, and the majority is known from both.
    let before = server.count();
    let rounds = run("options.toml");
    assert!(rounds.status.success(), "{}", stderr(&rounds));
    assert!(stderr(&rounds).contains("3 verdicts of 2 members to go"), "{}", stderr(&rounds));
    assert!(server.count() > before);
    let status = fixture.json("judge status options.toml --json");
    assert_eq!(status["members"]["pairs"], 3);
    assert_eq!(status["members"]["percent_agreement"], 1.0);
    assert_eq!(status["members"]["members"][1]["name"], "round 2");
    let text = fixture.stdout("judge status options.toml");
    assert!(text.contains("Majority of 2 members, on 3 pairs"), "{text}");
    assert!(text.contains("agreement with majority"), "{text}");
    layouts::check_layouts(|words| fixture.run(words), "judge status options.toml --all");
    assert_eq!(stdout(&rounds), text, "a run ends with the table of `status`");
    let story = fixture.stdout("judge show options.toml 1");
    assert!(story.contains("══ round 2") && story.contains("verdict: no, by majority"), "{story}");

    // The query without an answer gets one.
    let generate =
        |rest: &[&str]| fixture.run(&[&["judge", "run", "one.toml", "--generate"][..], rest].concat());
    let dry = generate(&["--dry-run"]);
    assert!(stderr(&dry).contains("1 query that no candidate answers"), "{}", stderr(&dry));
    let generated = generate(&["--json"]);
    assert!(generated.status.success(), "{}", stderr(&generated));
    let generation: Value = serde_json::from_slice(&generated.stdout).unwrap();
    assert_eq!(generation["queries"], json!(1), "{generation}");
    assert_eq!(generation["answered"], json!({"1": 1}), "{generation}");
    assert!(stdout(&generate(&[])).contains("in round 1"));
    assert!(fixture.stdout("judge status one.toml").contains("for 1 query"));
    let out = fixture.path("labels");
    fixture.succeed(&["judge", "export", "one.toml", out.to_str().unwrap(), "--to", "beir"]);
    let beside = std::fs::read_to_string(out.with_added_extension("generated.jsonl")).unwrap();
    assert!(beside.contains("\"status\":\"generated\"") && beside.contains("def least"), "{beside}");
    assert_eq!(std::fs::read_to_string(out.join("corpus.jsonl")).unwrap().lines().count(), 4);
}
