//! `quarry eval` and `quarry data` as a user runs them.

use std::fs;
use std::io::Write as _;

use crate::fixture::{self, CODES, Fixture, PAIRS, stderr, stdout};
use serde_json::{Value, json};

mod layouts;

/// The only line that a command prints, with its exit code.
#[track_caller]
fn printed(fixture: &Fixture, arguments: &str, code: i32) -> Value {
    let output = fixture.run(arguments);
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 1, "{}", stdout(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn json(fixture: &Fixture, arguments: &str) -> Value {
    printed(fixture, arguments, 0)
}

/// The value of a row in a table of names and values.
#[track_caller]
fn value_of<'a>(text: &'a str, name: &str) -> &'a str {
    let row = text.lines().find(|line| line.starts_with(name));
    row.unwrap_or_else(|| panic!("{name} in {text}")).split_whitespace().last().unwrap()
}

/// A directory `score` with a BEIR data set of three queries and four documents.
fn converted() -> Fixture {
    let fixture = Fixture::with(&[("codes.json", CODES), ("pairs.json", PAIRS)]);
    fixture.succeed("data convert --from cosqa --queries pairs.json --corpus codes.json score");
    fixture
}

#[test]
fn every_method_ranks_a_converted_data_set() {
    let fixture = converted();
    for method in ["bow", "bm25", "static", "hybrid"] {
        let report = json(&fixture, &format!("eval ./score --method {method} --json"));
        assert_eq!((report["dataset"].as_str(), report["method"].as_str()), (Some("score"), Some(method)));
        assert_eq!((report["queries"].as_u64(), report["documents"].as_u64()), (Some(3), Some(4)));
        for measure in ["mrr", "mrr@10", "map", "ndcg@10", "recall@10", "precision@1000"] {
            let value = report["metrics"][measure].as_f64().unwrap();
            let low = report["intervals"][measure][0].as_f64().unwrap();
            let high = report["intervals"][measure][1].as_f64().unwrap();
            assert!(0.0 <= low && low <= value && value <= high && high <= 1.0, "{method} {measure}");
        }
        assert_eq!(report["model"].is_string(), ["static", "hybrid"].contains(&method));
    }
    // Ranks 1, 1, and for `list`, which only document 1 holds, 2: of the rest 3 has the largest id.
    let mrr = json(&fixture, "eval ./score --method bm25 --json")["metrics"]["mrr"].as_f64().unwrap();
    assert!((mrr - (1.0 + 1.0 + 0.5) / 3.0).abs() < 1e-12, "{mrr}");
}

#[test]
fn the_run_and_the_values_of_each_query_agree_with_the_means() {
    let fixture = converted();
    let report = json(&fixture, "eval ./score --method hybrid --run run --per-query values --json");
    let run = fixture.read("tree/run");
    assert_eq!(run.lines().count(), 3 * 4);
    let scored = json(&fixture, "eval score --qrels score/qrels/test.tsv --run run --json");
    assert_eq!(report["metrics"], scored["metrics"]);
    assert_eq!(report["intervals"], scored["intervals"]);
    let values = fixture.read("tree/values");
    let values: Vec<Value> = values.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        values.iter().map(|line| line["query"].as_str().unwrap()).collect::<Vec<_>>(),
        ["q-1", "q-2", "q-3"]
    );
    let mean = values.iter().map(|line| line["metrics"]["mrr"].as_f64().unwrap()).sum::<f64>() / 3.0;
    assert!((mean - report["metrics"]["mrr"].as_f64().unwrap()).abs() < 1e-12);
    fixture.run("eval ./score --method hybrid --per-query values.csv --metrics mrr,recall@1");
    let rows = fixture.read("tree/values.csv");
    assert!(rows.starts_with("query,mrr,recall@1\nq-1,1,1\n") && rows.lines().count() == 4, "{rows}");
    fixture.succeed("eval ./score --method bow --run run --depth 2");
    assert_eq!(fixture.read("tree/run").lines().count(), 3 * 2);
}

#[test]
fn conventions_are_options() {
    let files = [
        ("qrels", "1 0 a 1\n2 0 a 1\n"),
        ("run", "1 Q0 a 1 0.5 t\n1 Q0 b 2 0.50000000001 t\n1 Q0 c 3 0.1 t\n"),
    ];
    let fixture = Fixture::with(&files);
    let mrr = |options: &str| {
        let report = json(&fixture, &format!("eval score --qrels qrels --run run --json {options}"));
        report["metrics"]["mrr"].as_f64().unwrap()
    };
    assert_eq!(mrr(""), 0.5);
    assert_eq!(mrr("--ties docid-asc"), 1.0);
    assert_eq!(mrr("--ties docid-asc --scores double"), 0.5);
    assert_eq!(mrr("--ties optimistic --queries with-positive"), 0.5);
    fixture.check_error("eval score --qrels qrels --run run --ties any", "docid-desc");
}

#[test]
fn means_over_queries_without_an_answer_are_reported() {
    let fixture =
        Fixture::with(&[("qrels", "q1 0 a 1\nq2 0 a 0\n"), ("run", "q1 Q0 a 1 2 x\nq2 Q0 a 1 2 x\n")]);
    let warned =
        |more: &str| stderr(&fixture.run(&format!("eval score --qrels qrels --run run --json{more}")));
    let warning = warned("");
    assert!(warning.contains("without a relevant document, counted as 0: 1 of 2 queries"), "{warning}");
    assert_eq!(warned(" --queries with-positive"), "");
}

#[test]
fn runs_are_compared_query_by_query() {
    let fixture = converted();
    for method in ["bow", "bm25"] {
        json(&fixture, &format!("eval ./score --method {method} --run {method} --json"));
    }
    let compared = json(&fixture, "eval compare bow bm25 --qrels score/qrels/test.tsv --json");
    let of_run = &compared["comparisons"][0];
    let found = &of_run["metrics"]["mrr"];
    let [a, b, difference, p] =
        ["mean_a", "mean_b", "difference", "p"].map(|key| found[key].as_f64().unwrap());
    assert_eq!(of_run["queries"].as_u64(), Some(3));
    assert!((b - a - difference).abs() < 1e-12 && difference > 0.0 && 0.0 < p && p <= 1.0, "{compared}");
    for test in ["bootstrap", "randomisation", "t", "wilcoxon"] {
        let [p, holm] = ["p", "p_holm"].map(|key| found["tests"][test][key].as_f64().unwrap());
        assert!(0.0 < p && p <= holm && holm <= 1.0, "{test} {compared}");
    }
    let options = "--qrels score/qrels/test.tsv --metrics mrr,success@1 --planned-queries 1000";
    let text = fixture.stdout(&format!("eval compare bow bm25 bm25 {options}"));
    assert_eq!(text.lines().filter(|line| line.starts_with("success@1 ")).count(), 2, "{text}");
    let options = "--qrels score/qrels/test.tsv --metrics mrr --moved 1 --benchmark score";
    let shown = fixture.stdout(&format!("eval compare bow bm25 {options}"));
    for part in ["python read a csv", "0 (relevant)", "| def read_csv(path):"] {
        assert!(shown.contains(part), "{part} {shown}");
    }
    let rows = fixture.stdout("eval compare bow bm25 --qrels score/qrels/test.tsv --format csv");
    assert!(rows.starts_with(",a,b,b - a,interval,wins,losses,"), "{rows}");
}

#[test]
fn the_next_judgments_could_change_the_order_of_runs() {
    let fixture = converted();
    for method in ["bow", "bm25"] {
        json(&fixture, &format!("eval ./score --method {method} --run {method} --json"));
    }
    // One judgment leaves the order open.
    let judged = fixture.read("tree/score/qrels/test.tsv");
    let few: Vec<&str> = judged.lines().take(2).collect();
    fixture.write("tree/few.tsv", &(few.join("\n") + "\n"));
    let words = "eval next bow bm25 --qrels few.tsv --metric mrr --price 0.01 --pairs 3 --out next.tsv";
    let report = printed(&fixture, &format!("{words} --json"), 1);
    assert!(!report["stable"].as_bool().unwrap() && report["certainty"].as_f64().unwrap() < 0.95, "{report}");
    assert_eq!((report["pairs"].as_array().unwrap().len(), report["unknown"].as_u64()), (3, Some(11)));
    assert_eq!(report["price"], json!([0.03, 0.11]));
    let next = fixture.read("tree/next.tsv");
    assert_eq!(next.lines().count(), 3);
    assert!(next.starts_with(&format!("{}\t", report["pairs"][0]["query"].as_str().unwrap())), "{next}");
    assert!(fixture.stdout(words).contains("To judge next"));
    // With all judged there is nothing left to judge.
    let mut all = "query-id\tcorpus-id\tscore\n".to_owned();
    let run = fixture.read("tree/bm25");
    let is_judged = |query: &str, document: &str| judged.contains(&format!("{query}\t{document}\t1"));
    for line in run.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        all += &format!("{}\t{}\t{}\n", fields[0], fields[2], u8::from(is_judged(fields[0], fields[2])));
    }
    fixture.write("tree/all.tsv", &all);
    let report = json(&fixture, "eval next bow bm25 --qrels all.tsv --metric mrr --json");
    assert_eq!((&report["stable"], &report["unknown"]), (&Value::Bool(true), &Value::from(0)));
    fixture.check_error("eval next bow --qrels few.tsv", "expected two runs or more");
    fixture.check_error("eval next bow bm25 --qrels few.tsv --metric bpref", "unknown documents change");
}

#[test]
fn metrics_are_chosen_by_name() {
    let files = [
        ("qrels", "1 0 a 1\n1 0 b 1\n1 0 c 0\n2 0 a 1\n3 0 a 0\n"),
        ("run", "1 Q0 x 1 4 t\n1 Q0 a 2 3 t\n1 Q0 c 3 2 t\n1 Q0 b 4 1 t\n3 Q0 a 1 1 t\n"),
    ];
    let fixture = Fixture::with(&files);
    let metrics = |options: &str| {
        json(&fixture, &format!("eval score --qrels qrels --run run --json {options}"))["metrics"].clone()
    };
    let found = metrics("--metrics mmrr,bpref,judged@2,rbp.5,r_precision,success@2 --queries with-positive");
    // Of two queries, the second without a result.
    let expected = [
        ("mmrr", (1.0 / 2.0 + 1.0 / 3.0) / 2.0 / 2.0),
        ("bpref", 0.25),
        ("judged@2", 0.25),
        ("rbp.5", 0.5 * (0.5 + 0.125) / 2.0),
        ("r_precision", 0.25),
        ("success@2", 0.5),
    ];
    assert_eq!(found.as_object().unwrap().len(), expected.len());
    for (name, value) in expected {
        assert!((found[name].as_f64().unwrap() - value).abs() < 1e-12, "{name} {found}");
    }
    assert_eq!(metrics("--metrics mrr --queries all")["mrr"].as_f64(), Some(0.5 / 3.0));
    assert_eq!(metrics("--metrics mrr --unjudged removed")["mrr"].as_f64(), Some(0.5));
    fixture.check_error("eval score --qrels qrels --run run --metrics mrr,f1", "expected a measure");
}

#[test]
fn abstention_is_measured_on_request() {
    let fixture = converted();
    let report = json(&fixture, "eval ./score --method bm25 --metrics mrr --nauc --run run --json");
    let scored =
        json(&fixture, "eval score --qrels score/qrels/test.tsv --run run --metrics mrr --nauc --json");
    let area = |report: &Value| report["nauc"]["nauc_mrr_max"].as_f64().unwrap();
    assert!((area(&report) - area(&scored)).abs() < 1e-9 && area(&report) <= 1.0, "{report}");
    assert!(json(&fixture, "eval ./score --method bm25 --json").get("nauc").is_none());
}

#[test]
fn agreement_of_raters_is_one_table() {
    let ratings = "pair,ann,bob,model\np1,1,1,1\np2,1,0,1\np3,0,0,\np4,1,1,0\n";
    let labels = "ann\tbob\nyes\tyes\nno\tyes\nno\tno\n";
    let fixture = Fixture::with(&[("ratings.csv", ratings), ("labels.tsv", labels)]);
    let found = json(&fixture, "eval agreement ratings.csv --unit-column pair --block 2 --json");
    // Unlike ordered pairs in units: 0, 4 of three, 0 of two, 4 of three; seven 1 and four 0 of eleven.
    let alpha = 1.0 - 10.0 * (4.0 / 2.0 + 4.0 / 2.0) / (2.0 * 7.0 * 4.0);
    assert!((found["krippendorff_alpha"].as_f64().unwrap() - alpha).abs() < 1e-12, "{found}");
    assert_eq!((found["units"].as_u64(), found["pairs"].as_array().unwrap().len()), (Some(4), 3));
    assert!(found["krippendorff_alpha_by_blocks"].is_number() && found["fleiss_kappa"].is_null(), "{found}");
    let text = fixture.stdout("eval agreement ratings.csv --unit-column pair --level ordinal");
    assert!(text.contains("Kendall's tau-b") && text.contains("bob, model"), "{text}");
    let found = json(&fixture, "eval agreement labels.tsv --json");
    assert_eq!(found["labels"], json!(["no", "yes"]));
    assert!(found.get("cronbach_alpha").is_none() && found["fleiss_kappa"].is_number(), "{found}");
    let message = "labels.tsv:2: expected a number or nothing as ann";
    fixture.check_error("eval agreement labels.tsv --level interval", message);
}

#[test]
fn verdicts_are_scored_with_and_without_probabilities() {
    let forecasts = "probability,outcome\n0.9,1\n0.8,0\n0.2,0\n0.4,yes\n";
    let verdicts = "truth,prediction,score\n1,1,0.9\n0,1,0.8\n0,0,0.2\n1,0,0.4\n";
    let fixture = Fixture::with(&[
        ("forecasts.csv", forecasts),
        ("verdicts.csv", verdicts),
        ("others.csv", "truth,prediction\n1,1\n0,0\n0,0\n1,1\n"),
        ("unlike.csv", "truth,prediction\n0,1\n0,0\n0,0\n1,1\n"),
        ("unsure.csv", "probability,result\n0.9,1\n"),
        ("neither.csv", "ann,bob\n1,1\n"),
        ("wrong.csv", "probability,outcome\n0.9,1\n1.2,0\n"),
    ]);
    let close =
        |value: &Value, expected: f64| assert!((value.as_f64().unwrap() - expected).abs() < 1e-12, "{value}");
    let found = json(&fixture, "eval verdicts forecasts.csv --bins 2 --json");
    close(&found["brier_score"], (0.01 + 0.64 + 0.04 + 0.36) / 4.0);
    close(&found["expected_calibration_error"], (2.0 * (0.5 - 0.3) + 2.0 * (0.85 - 0.5)) / 4.0);
    assert_eq!(found["risk_coverage"].as_array().unwrap().last().unwrap()["risk"].as_f64(), Some(0.5));
    let text = fixture.stdout("eval verdicts forecasts.csv");
    assert_eq!(value_of(&text, "Brier score"), "0.2625", "{text}");
    let found = json(&fixture, "eval verdicts verdicts.csv --against others.csv --json");
    close(&found["accuracy"], 0.5);
    close(&found["macro_f1"], 0.5);
    close(&found["roc_auc"], 0.75);
    close(&found["classes"]["1"]["recall"], 0.5);
    close(&found["against"]["mcnemar"]["p"], 0.5);
    let text = fixture.stdout("eval verdicts verdicts.csv --against others.csv");
    assert_eq!(value_of(&text, "ROC AUC"), "0.7500", "{text}");
    assert_eq!(value_of(&text, "right only in the other"), "2", "{text}");
    for (arguments, message) in [
        (
            "eval verdicts wrong.csv",
            "wrong.csv:3: expected a number from 0 to 1 as probability, found \"1.2\"",
        ),
        ("eval verdicts unsure.csv", "expected a column \"outcome\""),
        (
            "eval verdicts neither.csv",
            "expected the columns truth and prediction, or probability and outcome",
        ),
        ("eval verdicts forecasts.csv --against others.csv", "only predictions can be compared"),
        ("eval verdicts verdicts.csv --against unlike.csv", "expected the truth of verdicts.csv"),
    ] {
        fixture.check_error(arguments, message);
    }
}

const TABLE: &str = "repo\trevision\troot\tcategory\tquery\trelevant\tsecondary\n\
    demo\tabc\tsrc\tsymbol\tread_csv\tsrc/io/csv.py\t\n\
    demo\tabc\tsrc\tsemantic\tsort a list\tsrc/lists.py:1-2\t\n";

fn repositories() -> Fixture {
    Fixture::with(&[
        ("table.tsv", TABLE),
        ("repos/demo/src/io/csv.py", "def read_csv(path):\n    return rows\n"),
        ("repos/demo/src/lists.py", "def sort_list(xs):\n    return sorted(xs)\n"),
        ("codes.json", CODES),
        ("pairs.json", PAIRS),
    ])
}

#[test]
fn the_weight_of_a_reranker_is_cross_validated() {
    let fixture = repositories();
    let arguments = "eval tune table.tsv --repos repos --reranking --model best --llm cache=false --json";
    let report = json(&fixture, arguments);
    assert_eq!(report["parameters"], json!(["rerank_function", "rerank_file"]));
    assert!(report.get("confidence").is_none() && report["ablation"] == json!([]));
    let folds = report["cross_validation"]["folds"].as_array().unwrap();
    assert_eq!(folds.len(), 1);
    assert_eq!(folds[0]["off_ndcg"], report["without"][0]["ndcg"]);
    // Both find everything, so that nothing differs.
    assert_eq!((&report["without"][0]["ndcg"], &report["p"]), (&json!(1.0), &json!(1.0)));
}

#[test]
fn repositories_are_searched() {
    let fixture = repositories();
    let report = json(&fixture, "eval repo-search table.tsv --repos repos --per-query values --json");
    fixture.run("eval repo-search table.tsv --repos repos --per-query values.csv");
    let rows = fixture.read("tree/values.csv");
    let lines = fixture.read("tree/values");
    assert!(rows.starts_with("repository,category,query,ndcg,"), "{rows}");
    assert!(rows.lines().count() == 1 + lines.lines().count(), "{rows}");
    assert_eq!((report["queries"].as_u64(), report["method"].as_str()), (Some(2), Some("hybrid")));
    assert_eq!(report["metrics"]["ndcg@10"].as_f64(), Some(1.0));
    assert_eq!(report["repositories"][0]["name"].as_str(), Some("demo"));
    assert!(report["repositories"][0]["query_ms"].as_f64().unwrap() >= 0.0);
    assert_eq!(fixture.read("tree/values").lines().count(), 2);
    fixture.check_error("eval protocol repo-search", "`quarry eval repo-search TSV --repos DIR`");
    // Of several directories, the first that has a repository counts.
    let from_two = json(&fixture, "eval repo-search table.tsv --repos nowhere --repos repos --json");
    assert_eq!(from_two["metrics"], report["metrics"]);
    fixture.check_error("eval repo-search table.tsv", "--repos <DIR>");
    fixture.check_error("eval repo --repos repos", "--agreement <TSV>");
    fixture.check_error("eval repo-search table.tsv --repos nowhere", "git archive abc -- src");
    fixture.check_error("eval repo-search table.tsv --repos repos --method bow", "found bow");
}

#[test]
fn a_plan_writes_its_page_beside_itself() {
    let fixture = repositories();
    let plan = r#"
        title = "Numbers"
        page = "new/out.md"
        json = "new/out.json"
        [[datasets]]
        name = "Functions"
        protocol = "cosqa-search"
        files = { queries = "pairs.json", codes = "codes.json" }
        methods = ["bm25", "hybrid"]
        baseline = "bm25"
        [[datasets]]
        name = "Repositories"
        protocol = "repo-search"
        files = { table = "table.tsv" }
        methods = ["hybrid"]
        baseline = "hybrid"
    "#;
    fixture.write("tree/plans/plan.toml", plan);
    let results = json(&fixture, "eval run plans/plan.toml --data . --repos repos --json");
    assert_eq!(results["datasets"][1]["parts"][0]["methods"][0]["metrics"]["ndcg@10"].as_f64(), Some(1.0));
    let written: Value = serde_json::from_str(&fixture.read("tree/plans/new/out.json")).unwrap();
    assert_eq!(written, results);
    let page = fixture.read("tree/plans/new/out.md");
    assert!(page.contains("## Functions") && page.contains("| demo | 1.000 |"), "{page}");
    let directory_of_results = fixture.path("tree/plans/plan.results");
    let read = |name: &str| fixture.read(&format!("tree/plans/plan.results/{name}"));
    let before = ["results.json", "results.md", "report.html", "environment.json"].map(read);
    assert_eq!((&before[0], &before[1]), (&(serde_json::to_string_pretty(&results).unwrap() + "\n"), &page));
    assert!(before[2].contains("<svg") && before[2].contains("<h2>Functions</h2>"), "{}", before[2]);
    // As if killed: one of the methods has to be measured again, and all comes out the same.
    let cells = fs::read_dir(directory_of_results.join("cells")).unwrap().map(|cell| cell.unwrap().path());
    let cell = cells.filter(|cell| cell.extension().is_some()).min().unwrap();
    fs::remove_file(cell).unwrap();
    let latex = fixture.stdout("eval run plans/plan.toml --data . --repos repos --format latex");
    assert!(latex.contains("\\begin{tabular}"), "{latex}");
    assert_eq!(before, ["results.json", "results.md", "report.html", "environment.json"].map(read));
    // An edited page is not replaced, nor is an unrelated file; the directory can be named.
    let page = fixture.path("tree/plans/new/out.md");
    fs::write(&page, "edited").unwrap();
    fixture.check_error("eval run plans/plan.toml --data . --repos repos", "not changed since");
    assert_eq!(fs::read_to_string(&page).unwrap(), "edited");
    let said = fixture.stderr("eval run plans/plan.toml --data . --repos repos --out elsewhere");
    assert!(said.contains("wrote elsewhere/new/out.md"), "{said}");
    fs::remove_file(&page).unwrap();
    for (key, path) in [
        ("page", "../out.md"),
        ("page", ".profile"),
        ("json", "plan.toml"),
        ("json", "/tmp/out.json"),
        ("json", "../pairs.json"),
    ] {
        let other = plan.replace("new/out.md", if key == "page" { path } else { "new/out.md" });
        let other = other.replace("new/out.json", if key == "json" { path } else { "new/out.json" });
        fixture.write("tree/plans/other.toml", &other);
        let refused = fixture.run("eval run plans/other.toml --data . --repos repos");
        let said = stderr(&refused);
        assert!(refused.status.code() == Some(2) && said.contains("expected a"), "{path}: {said}");
        assert!(!said.contains("Functions: bm25"), "before anything is measured: {said}");
    }
    let words = "eval run plans/plan.toml --data . --repos repos";
    let known = |stderr: &str| stderr.lines().filter(|line| line.ends_with("(already measured)")).count();
    assert_eq!(known(&fixture.stderr(words)), 3);
    // Another build measures all of it anew, and comes to the same. A byte more makes a program another one.
    let other = fixture.path("tree/another-build");
    fs::copy(env!("CARGO_BIN_EXE_quarry"), &other).unwrap();
    fs::OpenOptions::new().append(true).open(&other).unwrap().write_all(b"\n").unwrap();
    let run_other = || {
        let output = fixture.command_of(&other, words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        known(&stderr(&output))
    };
    assert_eq!([run_other(), run_other()], [0, 3]);
    assert_eq!(before[..3], ["results.json", "results.md", "report.html"].map(read));
    fs::remove_file(directory_of_results.join("report.html")).unwrap();
    fixture.run("eval run plans/plan.results");
    assert_eq!(before[2], read("report.html"));
    fixture.check_error("eval run plans", "results.json: no such file or directory; check the path");
    fixture.check_error("eval run plans/plan.toml --data plans", "codes.json: expected a file or directory");
}

#[test]
fn failures_leave_no_file_and_no_change() {
    let fixture = converted();
    // A run cannot hold the second query, so that the first was written before.
    for name in ["tree/score/queries.jsonl", "tree/score/qrels/test.tsv"] {
        fixture.write(name, &fixture.read(name).replace("q-2", "q 2"));
    }
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(fixture.path("tree")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let message = "a TREC run cannot contain the name \"q 2\"";
    fixture.check_error("eval ./score --method bow --run run", message);
    assert_eq!(names(), before);
    fixture.write("tree/run", "as it was");
    fixture.check_error("eval ./score --method bow --run run", message);
    assert_eq!(fixture.read("tree/run"), "as it was");
    json(&fixture, "eval ./score --method bow --per-query run --json");
    assert_eq!(fixture.read("tree/run").lines().count(), 3);
    #[cfg(target_os = "linux")]
    {
        let piped = fixture.stdout("eval ./score --method bow --per-query /dev/stdout");
        assert!(piped.contains("{\"query\":\"q 2\""), "{piped}");
    }
}

#[test]
fn wrong_input_is_refused_with_its_place() {
    let fixture = converted();
    fixture.write("tree/run", "q-1 Q0 0 1 NaN t\n");
    fixture.write("tree/empty", "q-9 Q0 0 1 1 t\n");
    let qrels = "--qrels score/qrels/test.tsv";
    for (arguments, message) in [
        (format!("eval score {qrels} --run run"), "run:1: expected a number as score, found \"NaN\""),
        (format!("eval score {qrels} --run empty"), "the run contains no query of the qrels"),
        (format!("eval score {qrels} --run missing"), "missing: no such file or directory"),
        (
            "eval ./score --split dev".into(),
            "qrels/dev.tsv, found the splits test; choose one of them with --split",
        ),
        ("eval ./score --method none/such".into(), "expected bow, bm25, bm25-lucene"),
        ("eval ./score --method bm25 --model score".into(), "--model requires --method static or hybrid"),
        ("eval ./score --resamples 0".into(), "'--resamples <N>': expected 1 to 1000000"),
        ("eval ./score --resamples 3000000000".into(), "'--resamples <N>': expected 1 to 1000000"),
        ("eval ./score --resamples 18446744073709551615".into(), "'--resamples <N>': expected 1 to 1000000"),
        ("eval ./score --run x --depth 0".into(), "'--depth <N>': expected at least 1"),
        ("eval protocol csn-mrr --batch 0".into(), "'--batch <N>': expected at least 1"),
        ("data negatives p.jsonl o.jsonl --maximum-share nan".into(), "expected a number above 0"),
        ("judge study p.toml --min-alpha nan".into(), "expected a number from -1 to 1"),
        ("eval".into(), "<DIR>"),
        (
            "data convert --from cosqa-retrieval codes.json pairs.json out".into(),
            "codes.json:1: expected an object with `idx`",
        ),
        ("data convert pairs.json out".into(), "expected the text of the code \"0\""),
        (
            "data convert --from cosqa --queries pairs.json --corpus codes.json score".into(),
            "expected a path that does not exist, or an empty directory",
        ),
    ] {
        fixture.check_error(&arguments, message);
    }
}

#[test]
fn protocols_are_run_and_listed() {
    let fixture = Fixture::with(&[("codes.json", CODES), ("pairs.json", PAIRS)]);
    let arguments = "eval protocol cosqa-search --queries pairs.json --codes codes.json --method bm25";
    let report = json(&fixture, &format!("{arguments} --as-released --per-query values --json"));
    let part = &report["parts"][0];
    assert_eq!((part["queries"].as_u64(), part["documents"].as_u64()), (Some(3), Some(4)));
    // Ranks 1, 1, and for `list`, which only document 1 holds, 2: of the rest 3 is the last.
    assert!((part["metrics"]["mrr"].as_f64().unwrap() - (1.0 + 1.0 + 0.5) / 3.0).abs() < 1e-12, "{report}");
    assert!(part["intervals"]["mrr"][0].is_number());
    assert_eq!(report["discrepancies"][1]["number"].as_str(), Some("C11"));
    assert_eq!(report["options"], json!({"as_released": true}));
    let values = fixture.read("tree/values");
    assert_eq!(values.lines().count(), 3);
    assert!(values.starts_with("{\"part\":\"all\",\"query\":\"q-1\",\"metrics\":{"), "{values}");
    let text = fixture.stdout(arguments);
    assert!(text.contains("all         3          4"), "{text}");
    assert!(text.contains("C11  Only a query's own code"), "{text}");
    let list = fixture.stdout("eval protocol --list");
    assert!(list.lines().count() >= 14 && list.contains("cosqa-plus-v2"), "{list}");
    let one = fixture.stdout("eval protocol csn-mrr --list");
    assert!(one.contains("--pairs") && one.contains("options: --metrics, --seeds, --batch"), "{one}");
    let help = fixture.stdout("eval protocol --help");
    assert!(help.contains("--statcodesearch"), "{help}");
    assert!(help.contains("StatCodeSearch"), "{help}");
    assert!(help.contains("(gecs)"), "{help}");
    for (arguments, message) in [
        (
            "eval protocol cosqa-search --queries pairs.json",
            "cosqa-search needs --codes (cosqa-codes): the code base",
        ),
        (
            "eval protocol cosqa-search --codes pairs.json --queries pairs.json",
            "pairs.json:1: expected a JSON object",
        ),
        ("eval protocol gecs", "gecs needs at least one of --advtest (gecs or advtest)"),
        ("eval protocol csn-mrr --pairs pairs.json --depth 3", "csn-mrr does not take the option depth"),
        ("eval protocol gecs --pairs pairs.json", "found --pairs"),
        ("eval protocol none", "unknown protocol; expected one of distractors"),
        ("eval protocol cosqa-serach", "did you mean `cosqa-search`?"),
    ] {
        fixture.check_error(arguments, message);
    }
}

#[test]
fn verdicts_are_handed_in_and_measures_are_compared_for_steadiness() {
    let web = r#"[{"idx":"w-1","doc":"sort list","code":"def sort_list(xs)"},
        {"idx":"w-2","doc":"sort list","code":"def parse(text)"}]"#;
    let report = |a: f64, b: f64| {
        let part =
            |(n, mrr): (usize, f64)| json!({"name": format!("{n} positives"), "metrics": {"mrr": mrr}});
        let parts = [(2, a), (3, b), (4, b), (5, a)].map(part);
        json!({ "parts": parts }).to_string()
    };
    let fixture = Fixture::with(&[
        ("web.json", web),
        ("a.json", &report(0.1, 0.3)),
        ("b.json", &report(0.2, 0.4)),
        ("c.json", "{\"parts\":[]}"),
    ]);
    json(&fixture, "eval protocol webquerytest --pairs web.json --method bm25 --out verdicts --json");
    assert_eq!(fixture.read("tree/verdicts"), "w-1\t1\nw-2\t0\n");
    // Both methods move alike, by 0.2.
    let found = json(&fixture, "eval protocol --reliability a.json --reliability b.json --json");
    assert!((found["mrr: cronbach alpha"].as_f64().unwrap() - 1.0).abs() < 1e-12, "{found}");
    assert!((found["mrr: average variance"].as_f64().unwrap() - 0.01).abs() < 1e-12, "{found}");
    fixture.check_error(
        "eval protocol --reliability c.json --reliability c.json",
        "expected parts by number of positives",
    );
    fixture::layouts::check_layouts(
        |words| fixture.run(words),
        "eval protocol --reliability a.json --reliability b.json",
    );
    let hands_nothing_in = "eval protocol distractors --benchmark web.json --method bm25 --out out";
    fixture.check_error(hands_nothing_in, "no grade of 1 or more");
}
