//! `quarry eval repo` on a small tree.

use crate::fixture::{Fixture, stderr, stdout};
use serde_json::Value;

/// Functions with documentation, and a test of each.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let subjects = [
        ("sockets", "Open a connection to every host of a cluster", "connect"),
        ("shapes", "Compute the area that a polygon covers", "measure"),
        ("letters", "Write a letter to all customers who owe money", "remind"),
        ("engines", "Stop the engine before it gets too hot", "protect"),
    ];
    for (number, (file, doc, name)) in subjects.into_iter().enumerate() {
        fixture.write(
            &format!("tree/{file}.py"),
            &format!(
                "def {name}({file}, limit):\n    \"\"\"{doc}.\"\"\"\n    results_{number} = [{name}_one(each) for each in {file}]\n    return results_{number}[:limit]\n"
            ),
        );
        fixture.write(
            &format!("tree/tests/test_{file}.py"),
            &format!("def test_{name}_takes_no_more_than_the_limit():\n    assert {name}([], 0) == []\n"),
        );
    }
    fixture
}

#[test]
fn documentation_and_tests_ask_and_a_table_answers() {
    let fixture = fixture();
    let output = fixture.succeed("eval repo");
    assert!(stderr(&output).contains("found no .git"), "{}", stderr(&output));
    let text = stdout(&output);
    for words in [
        "docstring: 4 questions",
        "documentation hidden",
        "test: 4 questions",
        "tests hidden",
        "bm25 unstemmed",
        "keep the default",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn a_model_that_was_trained_on_the_tree_is_named() {
    let fixture = fixture();
    let pair = |query: &str, name: &str| {
        format!(
            "{{\"query\":\"{query}\",\"doc\":\"\",\"name\":\"{name}\",\"code\":\"def {name}(): {name}_one\",\
             \"language\":\"python\",\"repository\":\"o/r\"}}\n"
        )
    };
    let known = pair("Open a connection to every host of a cluster", "connect");
    fixture.write("tree/pairs.jsonl", &format!("{known}{}", pair("Count the sheep of a herd", "count")));
    let train = ["train", "static", "--begin", "builtin", "--pairs", "pairs.jsonl", "--out", "../model"];
    fixture.succeed(&[&train[..], &["--set", "batch=2", "--set", "validation=0.0"]].concat());
    let output = fixture.run("eval repo --proxies docstring --model ../model");
    assert!(stderr(&output).contains("1 of 4 questions are among those"), "{}", stderr(&output));
}

#[test]
fn one_object_holds_every_variant_and_proxy() {
    let fixture = fixture();
    fixture.write("questions.tsv", "area of a polygon\tshapes.py:1-4\nheat\tengines.py\n");
    let questions = fixture.path("questions.tsv");
    let questions = questions.to_str().unwrap();
    let report = fixture.json(&["eval", "repo", "--proxies", "docstring", "--ask", questions, "--json"]);
    let proxies: Vec<&Value> = report["proxies"].as_array().unwrap().iter().collect();
    let names: Vec<&str> = proxies.iter().map(|proxy| proxy["proxy"].as_str().unwrap()).collect();
    assert_eq!(names, ["docstring", "queries"]);
    let variants = proxies[1]["variants"].as_array().unwrap();
    assert!(variants.len() >= 12);
    assert_eq!((variants[0]["name"].as_str(), &variants[0]["to_default"]), (Some("search"), &Value::Null));
    assert!(variants[0]["ndcg@10"].as_f64().unwrap() >= 0.5, "{}", variants[0]);
    assert_eq!(report["advice"]["advice"], "keep_default");
    // The same again, except the time.
    let mut again = fixture.json(&["eval", "repo", "--proxies", "docstring", "--ask", questions, "--json"]);
    again["took_ms"] = report["took_ms"].clone();
    assert_eq!(again, report);
}

#[test]
fn hidden_documentation_is_not_found_by_its_words() {
    let fixture = fixture();
    let ndcg = |arguments: &[&str]| {
        let report =
            fixture.json(&[&["eval", "repo", "--proxies", "docstring", "--json"], arguments].concat());
        let variants = report["proxies"][0]["variants"].as_array().unwrap();
        let bm25 = variants.iter().find(|variant| variant["name"] == "bm25").unwrap();
        bm25["ndcg@10"].as_f64().unwrap()
    };
    let (hidden, kept) = (ndcg(&["--hide-names"]), ndcg(&["--keep-docs"]));
    assert!(kept > 0.95 && hidden < kept - 0.1, "{hidden} {kept}");
}

#[test]
fn questions_are_written_for_other_tools() {
    let fixture = fixture();
    fixture.succeed("eval repo --write ../out");
    let directory = fixture.path("out/docstring");
    let corpus = std::fs::read_to_string(directory.join("corpus.jsonl")).unwrap();
    assert!(corpus.contains("\"_id\":\"shapes.py:1-4\"") && !corpus.contains("polygon"), "{corpus}");
    let directory = directory.to_str().unwrap();
    let scores = fixture.json(&["eval", directory, "--method", "bm25", "--json"]);
    assert_eq!((scores["queries"].as_u64(), scores["split"].as_str()), (Some(4), Some("test")));
    fixture.check_error("eval repo --write ../out", "one that exists");
}

#[test]
fn the_values_of_each_query_are_written() {
    let fixture = fixture();
    let report = fixture.json("eval repo --json --per-query ../values.jsonl");
    let text = fixture.read("values.jsonl");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for proxy in report["proxies"].as_array().unwrap() {
        let questions: Vec<&Value> = lines.iter().filter(|line| line["proxy"] == proxy["proxy"]).collect();
        assert_eq!(proxy["questions"].as_u64().unwrap(), questions.len() as u64);
        for variant in proxy["variants"].as_array().unwrap() {
            let name = variant["name"].as_str().unwrap();
            let values = questions.iter().map(|line| line["ndcg@10"][name].as_f64().unwrap());
            let mean = values.sum::<f64>() / questions.len() as f64;
            assert!((mean - variant["ndcg@10"].as_f64().unwrap()).abs() < 1e-9, "{name}: {mean}");
        }
    }
    let area = lines.iter().find(|line| line["answer"] == "shapes.py" && line["proxy"] == "docstring");
    assert_eq!(area.unwrap()["query"], "Compute the area that a polygon covers.");
    fixture.run("eval repo --per-query ../values.csv");
    let table = fixture.read("values.csv");
    assert!(table.starts_with("proxy,query,answer,search,"), "{table}");
    assert_eq!(table.lines().count(), 1 + lines.len());
}

#[test]
fn the_results_are_also_a_page() {
    let fixture = fixture();
    let output = fixture.run("eval repo --page ../out/methods.html");
    assert!(stderr(&output).contains("wrote ../out/methods.html"), "{}", stderr(&output));
    assert!(stdout(&output).contains("bm25 unstemmed"), "{}", stdout(&output));
    let page = fixture.read("out/methods.html");
    for words in ["Search methods on tree", "4 questions", "bm25 unstemmed", "<svg", "keep the default"] {
        assert!(page.contains(words), "{words} in {page}");
    }
}

#[test]
fn impossible_questions_are_reported() {
    let fixture = Fixture::new();
    fixture.write("empty/a.py", "x = 1\n");
    let output = fixture.run("eval repo ../empty");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--ask FILE"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    fixture.write("questions.tsv", "how\tnet.py:99\n");
    fixture.check_error("eval repo --ask ../questions.tsv", "questions.tsv:1: expected lines of net.py");
    fixture.check_error("eval repo ../none", "no such file or directory");
    fixture.check_error("eval repo --proxies queries", "expected docstring, commit or test");
}

#[test]
fn agreement_with_labels_is_a_correlation_over_variants() {
    let fixture = fixture();
    let row = |query: &str, path: &str| format!("tree\tr\t\tsemantic\t{query}\t{path}\t\n");
    let table = "repo\trevision\troot\tcategory\tquery\trelevant\tsecondary\n".to_owned()
        + &row("area of a polygon", "shapes.py")
        + &row("overheating", "engines.py");
    fixture.write("table.tsv", &table);
    let arguments = ["eval", "repo", "--agreement", "../table.tsv", "--repos", "..", "--json"];
    // Four questions are too few to order methods by.
    let output = fixture.run(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let more: String = (0..9)
        .map(|n| format!("def f_{n}(first, second):\n    \"\"\"Take part number {n} from the {} drawer.\"\"\"\n    return [part_{n} + first * second for part_{n} in drawers_{n}]\n\n\n", ["red", "green", "blue"][n % 3]))
        .collect();
    fixture.write("tree/drawers.py", &more);
    let report = fixture.json(&arguments);
    assert_eq!(report["repositories"][0]["questions"], 2);
    let docstrings = &report["agreement"][0];
    assert_eq!(docstrings["proxy"].as_str(), Some("docstring"));
    assert_eq!(docstrings["repositories"].as_u64(), Some(1));
    let tau = docstrings["kendall"]["value"].as_f64().unwrap();
    assert!((-1.0..=1.0).contains(&tau) && docstrings["kendall"]["interval"].is_null(), "{docstrings}");
    fixture.check_error("eval repo --agreement ../table.tsv --repos ../none", "check --repos");
}
