//! `quarry eval` and `quarry data` as a user runs them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const CODES: &str = r#"{"def read_csv(path):\n    return rows": 0, "def sort_list(xs): pass": 1,
    "def parse_date(text): pass": 2, "def copy_file(source, target): pass": 3}"#;
const PAIRS: &str = r#"[
    {"idx": "q-1", "doc": "python read a csv", "code": "", "label": 1, "retrieval_idx": 0},
    {"idx": "q-2", "doc": "python sort list", "code": "", "label": 1, "retrieval_idx": 1},
    {"idx": "q-3", "doc": "list", "code": "", "label": 1, "retrieval_idx": 3}]"#;

#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn quarry(folder: &Path, arguments: &str) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_quarry"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn json(folder: &Path, arguments: &str) -> Value {
    let outcome = quarry(folder, arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stdout);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[track_caller]
fn check_refused(folder: &Path, arguments: &str, message: &str) {
    let outcome = quarry(folder, arguments);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
}

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// A folder `score` with a BEIR data set of three queries and four documents.
fn converted() -> tempfile::TempDir {
    let folder = folder_with(&[("codes.json", CODES), ("pairs.json", PAIRS)]);
    let outcome =
        quarry(folder.path(), "data convert --from cosqa --queries pairs.json --corpus codes.json score");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    folder
}

#[test]
fn every_method_ranks_a_converted_data_set() {
    let folder = converted();
    for method in ["bow", "bm25", "static", "hybrid"] {
        let report = json(folder.path(), &format!("eval ./score --method {method} --json"));
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
    // Ranks 1, 1, and for `list`, which only document 1 holds, 2: of the rest 3 has the greatest id.
    let mrr = json(folder.path(), "eval ./score --method bm25 --json")["metrics"]["mrr"].as_f64().unwrap();
    assert!((mrr - (1.0 + 1.0 + 0.5) / 3.0).abs() < 1e-12, "{mrr}");
}

#[test]
fn the_run_and_the_values_of_each_query_agree_with_the_means() {
    let folder = converted();
    let report = json(folder.path(), "eval ./score --method hybrid --run run --per-query values --json");
    let run = fs::read_to_string(folder.path().join("run")).unwrap();
    assert_eq!(run.lines().count(), 3 * 4);
    let scored = json(folder.path(), "eval score --qrels score/qrels/test.tsv --run run --json");
    assert_eq!(report["metrics"], scored["metrics"]);
    assert_eq!(report["intervals"], scored["intervals"]);
    let values = fs::read_to_string(folder.path().join("values")).unwrap();
    let values: Vec<Value> = values.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        values.iter().map(|line| line["query"].as_str().unwrap()).collect::<Vec<_>>(),
        ["q-1", "q-2", "q-3"]
    );
    let mean = values.iter().map(|line| line["metrics"]["mrr"].as_f64().unwrap()).sum::<f64>() / 3.0;
    assert!((mean - report["metrics"]["mrr"].as_f64().unwrap()).abs() < 1e-12);
    let shallow = quarry(folder.path(), "eval ./score --method bow --run run --depth 2");
    assert_eq!(shallow.code, Some(0), "{}", shallow.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("run")).unwrap().lines().count(), 3 * 2);
}

#[test]
fn conventions_are_options() {
    let files = [
        ("qrels", "1 0 a 1\n2 0 a 1\n"),
        ("run", "1 Q0 a 1 0.5 t\n1 Q0 b 2 0.50000000001 t\n1 Q0 c 3 0.1 t\n"),
    ];
    let folder = folder_with(&files);
    let mrr = |options: &str| {
        let report = json(folder.path(), &format!("eval score --qrels qrels --run run --json {options}"));
        report["metrics"]["mrr"].as_f64().unwrap()
    };
    assert_eq!(mrr(""), 0.5);
    assert_eq!(mrr("--ties docid-asc"), 1.0);
    assert_eq!(mrr("--ties docid-asc --scores double"), 0.5);
    assert_eq!(mrr("--ties optimistic --queries with-positive"), 0.5);
    check_refused(folder.path(), "eval score --qrels qrels --run run --ties any", "docid-desc");
}

#[test]
fn runs_are_compared_query_by_query() {
    let folder = converted();
    for method in ["bow", "bm25"] {
        json(folder.path(), &format!("eval ./score --method {method} --run {method} --json"));
    }
    let compared = json(folder.path(), "eval compare bow bm25 --qrels score/qrels/test.tsv --json");
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
    let outcome = quarry(folder.path(), &format!("eval compare bow bm25 bm25 {options}"));
    assert_eq!(
        outcome.stdout.lines().filter(|line| line.starts_with("success@1 ")).count(),
        2,
        "{outcome:?}"
    );
}

#[test]
fn metrics_are_chosen_by_name() {
    let files = [
        ("qrels", "1 0 a 1\n1 0 b 1\n1 0 c 0\n2 0 a 1\n3 0 a 0\n"),
        ("run", "1 Q0 x 1 4 t\n1 Q0 a 2 3 t\n1 Q0 c 3 2 t\n1 Q0 b 4 1 t\n3 Q0 a 1 1 t\n"),
    ];
    let folder = folder_with(&files);
    let metrics = |options: &str| {
        json(folder.path(), &format!("eval score --qrels qrels --run run --json {options}"))["metrics"]
            .clone()
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
    check_refused(folder.path(), "eval score --qrels qrels --run run --metrics mrr,f1", "expected a measure");
}

const TABLE: &str = "repo\trevision\troot\tcategory\tquery\trelevant\tsecondary\n\
    demo\tabc\tsrc\tsymbol\tread_csv\tsrc/io/csv.py\t\n\
    demo\tabc\tsrc\tsemantic\tsort a list\tsrc/lists.py:1-2\t\n";

fn repositories() -> tempfile::TempDir {
    folder_with(&[
        ("table.tsv", TABLE),
        ("repos/demo/src/io/csv.py", "def read_csv(path):\n    return rows\n"),
        ("repos/demo/src/lists.py", "def sort_list(xs):\n    return sorted(xs)\n"),
        ("codes.json", CODES),
        ("pairs.json", PAIRS),
    ])
}

#[test]
fn repositories_are_searched() {
    let folder = repositories();
    let report = json(folder.path(), "eval repo-search table.tsv --repos repos --per-query values --json");
    assert_eq!((report["queries"].as_u64(), report["method"].as_str()), (Some(2), Some("hybrid")));
    assert_eq!(report["metrics"]["ndcg@10"].as_f64(), Some(1.0));
    assert_eq!(report["repositories"][0]["name"].as_str(), Some("demo"));
    assert!(report["repositories"][0]["query_ms"].as_f64().unwrap() >= 0.0);
    assert_eq!(fs::read_to_string(folder.path().join("values")).unwrap().lines().count(), 2);
    check_refused(folder.path(), "eval repo-search table.tsv --repos nowhere", "git archive abc -- src");
    check_refused(folder.path(), "eval repo-search table.tsv --repos repos --method bow", "found bow");
}

#[test]
fn a_plan_writes_its_page_beside_itself() {
    let folder = repositories();
    let plan = r#"
        title = "Numbers"
        page = "new/out.md"
        json = "new/out.json"
        [[datasets]]
        name = "Functions"
        source = { format = "cosqa", queries = "pairs.json", corpus = "codes.json" }
        methods = ["bm25", "hybrid"]
        baseline = "bm25"
        [[datasets]]
        name = "Repositories"
        source = { format = "repo-search", table = "table.tsv" }
        measures = ["ndcg@10"]
        methods = ["hybrid"]
        baseline = "hybrid"
    "#;
    fs::create_dir(folder.path().join("plans")).unwrap();
    fs::write(folder.path().join("plans/plan.toml"), plan).unwrap();
    let results = json(folder.path(), "eval run plans/plan.toml --data . --repos repos --json");
    assert_eq!(results["datasets"][1]["methods"][0]["metrics"]["ndcg@10"].as_f64(), Some(1.0));
    let written: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("plans/new/out.json")).unwrap()).unwrap();
    assert_eq!(written, results);
    let page = fs::read_to_string(folder.path().join("plans/new/out.md")).unwrap();
    assert!(page.contains("## Functions") && page.contains("| demo | 1.000 |"), "{page}");
    check_refused(folder.path(), "eval run plans/plan.toml --data plans", "pairs.json: cannot be read");
}

#[test]
fn wrong_input_is_refused_with_its_place() {
    let folder = converted();
    fs::write(folder.path().join("run"), "q-1 Q0 0 1 NaN t\n").unwrap();
    fs::write(folder.path().join("empty"), "q-9 Q0 0 1 1 t\n").unwrap();
    let qrels = "--qrels score/qrels/test.tsv";
    for (arguments, message) in [
        (format!("eval score {qrels} --run run"), "run:1: expected a number as score, found \"NaN\""),
        (format!("eval score {qrels} --run empty"), "the run holds no query of the qrels"),
        (format!("eval score {qrels} --run missing"), "missing: cannot be read"),
        (
            "eval ./score --split dev".into(),
            "qrels/dev.tsv, found the splits test; choose one of them with --split",
        ),
        (
            "eval ./score --method none/such".into(),
            "expected a method: bow, bm25, static, hybrid or the path",
        ),
        ("eval ./score --method bm25 --model score".into(), "--model goes with --method static or hybrid"),
        ("eval ./score --resamples 0".into(), "expected --resamples of 1 or more"),
        ("eval".into(), "<DIR>"),
        (
            "data convert --from cosqa-retrieval codes.json pairs.json out".into(),
            "codes.json:1: expected an object with `idx`",
        ),
        ("data convert pairs.json out".into(), "expected the text of the code \"0\""),
        (
            "data convert --from cosqa --queries pairs.json --corpus codes.json score".into(),
            "expected a name that is free, or an empty folder",
        ),
    ] {
        check_refused(folder.path(), &arguments, message);
    }
}
