//! `quarry train encoder` as a user runs it, and every recipe on tiny data.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fixture::{self, Fixture, stderr};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tiny_model() -> String {
    repository().join("crates/transformer/tests/fixtures/tiny-bert").display().to_string()
}

const SORT: &str =
    "def sort ( list ) : return list by value and sort every line of the file in it , open and read it again";

/// A directory with pairs to train on and pairs to choose by.
fn data() -> Fixture {
    let words = ["sort", "list", "value", "open", "file", "read", "every", "line", "find", "one"];
    let lines = |offset: usize| -> String {
        (0..words.len())
            .map(|at| {
                let (a, b) = (words[at], words[(at + offset) % words.len()]);
                let label = usize::from(at % 4 != 0);
                format!(
                    "{{\"query\": \"{a} {b}\", \"code\": \"def {a} ( {b} ) : return {b}\", \"summary\": \"{b} of {a}\", \
                     \"label\": {label}, \"repository\": \"o/r\", \"license\": \"MIT\"}}\n"
                )
            })
            .collect()
    };
    Fixture::with(&[
        ("pairs.jsonl", &lines(1)),
        ("dev.jsonl", &lines(3)),
        ("evaluation.json", &format!("[{{\"code\": \"{SORT}\"}}]")),
    ])
}

/// The exit code and what is said.
fn run(fixture: &Fixture, arguments: &str) -> (Option<i32>, String) {
    let output = fixture.run(arguments);
    (output.status.code(), stderr(&output))
}

fn train(fixture: &Fixture, words: &str) -> (Option<i32>, String) {
    run(fixture, &format!("train encoder --model {} --pairs pairs.jsonl {words}", tiny_model()))
}

/// Trains, and returns what is said.
#[track_caller]
fn trained(fixture: &Fixture, words: &str) -> String {
    let (code, errors) = train(fixture, words);
    assert_eq!(code, Some(0), "{words}: {errors}");
    errors
}

#[track_caller]
fn check_refused(fixture: &Fixture, words: &str, message: &str) {
    let (code, errors) = train(fixture, words);
    assert!(code == Some(2) && errors.contains(message), "{words}: {errors}");
}

/// Finds negatives for the pairs as the documentation says, and puts the result in their place.
fn add_negatives(fixture: &Fixture) {
    let errors = fixture.stderr(
        "data negatives pairs.jsonl new.jsonl --method bm25 --maximum-share 2 --count 2 --llm cache=false",
    );
    assert!(errors.contains("new.jsonl: 14 negatives for 7 queries, 0 of which have none"), "{errors}");
    let found = fixture.read("tree/new.jsonl");
    // Those labeled 0 ask nothing.
    assert_eq!((found.lines().count(), found.matches("\"negatives\":[").count()), (10, 7));
    fs::rename(fixture.path("tree/new.jsonl"), fixture.path("tree/pairs.jsonl")).unwrap();
}

#[test]
fn pairs_without_a_query_or_code_and_files_that_exist_are_refused() {
    let fixture = data();
    let find = |pairs: &str| {
        run(&fixture, &format!("data negatives {pairs} out.jsonl --method bm25 --llm cache=false"))
    };
    let row = "{\"query\": \"a\", \"code\": \"b\", \"negatives\": \"c\"}";
    for (line, problem) in [
        ("{\"query\": \"a\"}", "bad.jsonl:1: expected an object with query and code"),
        ("{}", "bad.jsonl:1: expected an object with query and code"),
        ("[1]", "bad.jsonl:1: expected an object with query and code"),
        (row, "bad.jsonl:1: expected negatives to be a list of strings"),
        ("{\"query\": \"a\", \"code\": \"b\", \"label\": 7}", "bad.jsonl:1: expected the label 1"),
        (
            "{\"query\": \"a\", \"code\": \"b\", \"id\": [123456789012345678901234567890]}",
            "bad.jsonl:1: expected numbers of at most 64 bits",
        ),
    ] {
        fixture.write("tree/bad.jsonl", line);
        let (code, errors) = find("bad.jsonl");
        assert!(code == Some(2) && errors.contains(problem), "{errors}");
        assert!(!fixture.path("tree/out.jsonl").exists());
    }
    fixture.write("tree/out.jsonl", "mine");
    let (code, errors) = find("pairs.jsonl");
    assert!(code == Some(2) && errors.contains("out.jsonl"), "{errors}");
    assert_eq!(fixture.read("tree/out.jsonl"), "mine");
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_gpu_needs_a_program_that_is_built_for_it() {
    let fixture = data();
    let (code, errors) = train(&fixture, "--device cuda --out model");
    assert_eq!(code, Some(2));
    for part in ["without the feature `cuda`", "`cargo install --locked --path crates/cli --features cuda`"] {
        assert!(errors.contains(part), "{errors}");
    }
    assert!(!fixture.path("tree/model").exists());
}

#[test]
fn every_recipe_runs_as_written() {
    let teacher = tiny_model();
    let cross_encoder = teacher.replace("tiny-bert", "tiny-cross-bert");
    let mut n_recipes = 0;
    for entry in fs::read_dir(repository().join("recipes")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let recipe = path.display().to_string();
        let fixture = data();
        let mut words = format!("--recipe {recipe} --dev dev.jsonl --out {name}");
        match name.as_str() {
            // The tiny model lacks UniXcoder's tokens.
            "cosqa-plus-v1-unixcoder" | "cosqa-plus-v2-unixcoder" => {
                words += " --set \"options = 'mean:cosine'\"";
            }
            // It has 16 columns.
            "small-encoder" => words += &format!(" --teacher {teacher} --set 'matryoshka = [8, 16]'"),
            "distilled-encoder" => {
                words += &format!(" --teacher {cross_encoder}");
                add_negatives(&fixture);
            }
            // And few layers.
            "query-encoder" => words += &format!(" --teacher {teacher} --set 'layers = 1'"),
            _ => {}
        }
        let errors = trained(&fixture, &words);
        assert!(errors.contains("epoch 1: step 1, loss "), "{name}: {errors}");
        let card = fixture.read(&format!("tree/{name}/README.md"));
        for part in ["--recipe", "- MIT: 10", "pairs.jsonl", "| 1 | 1 |"] {
            assert!(card.contains(part), "{name}: {part} in {card}");
        }
        // Differences from the paper are printed, and are on the card.
        let differs =
            name.starts_with("cosqa-qa") || name.starts_with("query4code") || name.contains("codet5p");
        let differs = differs || name.starts_with("gencodesearchnet") || name == "cosqa-pretraining";
        assert_eq!(errors.contains("differs from the paper: W"), differs, "{name}: {errors}");
        assert_eq!(card.contains("## Differences from the paper\n\n- W"), differs, "{name}: {card}");
        assert!(fixture.path(&format!("tree/{name}/model.safetensors")).exists());
        let page = fixture.read(&format!("tree/{name}/report.html"));
        let measured = usize::from(!card.contains("| 1 | 1 |") || !errors.contains("nothing measured"));
        assert_eq!(page.matches("<polyline").count(), 1 + measured, "{name}");
        assert!(page.contains("max_query_tokens") && page.contains("optimizer.weight_decay"), "{name}");
        n_recipes += 1;
    }
    assert_eq!(n_recipes, 22);
}

#[test]
fn evaluation_data_is_refused_unless_it_is_allowed() {
    let fixture = data();
    let pairs = fixture.path("tree/pairs.jsonl");
    let own = fs::read_to_string(&pairs).unwrap();
    let exact = SORT.to_uppercase().replace(' ', "  ");
    let near = format!("{SORT} , one more");
    for (code, is_refused) in
        [(exact.as_str(), true), (near.as_str(), true), ("def find ( list ) : return one", false)]
    {
        fs::write(&pairs, format!("{own}{{\"query\": \"sort lines\", \"code\": \"{code}\"}}\n")).unwrap();
        let (status, errors) = train(&fixture, "--exclude evaluation.json --dev dev.jsonl --out out");
        assert_eq!(status, Some(if is_refused { 2 } else { 0 }), "{code}: {errors}");
        if is_refused {
            assert!(errors.contains("pair 11 (\"sort lines\")"), "{errors}");
            assert!(errors.contains("--allow-evaluation-data"), "{errors}");
            assert!(!fixture.path("tree/out").exists());
        }
    }
    fs::write(&pairs, format!("{own}{{\"query\": \"sort lines\", \"code\": \"{near}\"}}\n")).unwrap();
    let words = "--exclude evaluation.json --allow-evaluation-data --dev dev.jsonl --out allowed";
    let errors = trained(&fixture, words);
    assert!(errors.contains("warning"), "{errors}");
    let card = fixture.read("tree/allowed/README.md");
    let statement = "**the training data contain evaluation data: pair 11 (\"sort lines\"), whose code is in evaluation.json**";
    assert!(card.contains(statement), "{card}");
}

/// As with `--exclude` of `train static`, `tune` and `data pairs`, which read evaluation data by the same function.
#[test]
fn evaluation_data_of_an_uncertain_form_is_refused_and_the_card_has_counts() {
    let fixture = data();
    let row = "how to sort a list\tdef sort ( list ) : return one two three four\n";
    fixture.write("tree/two.tsv", row);
    let words = |file: &str| format!("--exclude {file} --dev dev.jsonl --out out");
    let found = "two.tsv: expected a data set with queries or codes (`quarry data formats` lists the formats), found text \
                 that would be compared line by line, as 1 text: \"how to sort a list\\tdef sort";
    check_refused(&fixture, &words("two.tsv"), found);
    assert!(!fixture.path("tree/out").exists());
    fixture.write("tree/short.jsonl", "{\"query\": \"sort\"}\n");
    let errors = trained(&fixture, &words("short.jsonl"));
    let warning =
        "warning: short.jsonl excludes nothing: 0 queries, 0 codes, and 1 text too short to be compared";
    assert!(errors.contains(warning), "{errors}");
    trained(&fixture, "--exclude evaluation.json --dev dev.jsonl --out model");
    let card = fixture.read("tree/model/README.md");
    assert!(card.contains("share a query or a code with evaluation.json (0 queries, 1 code)"), "{card}");
}

#[test]
fn tolerated_evaluation_data_is_counted_in_the_card() {
    let fixture = data();
    let own = fixture.read("tree/pairs.jsonl");
    let more = "{\"query\": \"Sort every line of it\", \"code\": \"x\"}\n";
    fixture.write("tree/pairs.jsonl", &format!("{own}{more}"));
    fixture.write("tree/dev-split.jsonl", "{\"query\": \"sorting every line of it\"}\n");
    check_refused(&fixture, "--exclude dev-split.jsonl --dev dev.jsonl --out out", "--tolerate");
    trained(&fixture, "--exclude dev-split.jsonl --dev dev.jsonl --out model --tolerate dev-split.jsonl");
    let card = fixture.read("tree/model/README.md");
    assert!(card.contains("tolerated: 1 pair with a query of dev-split.jsonl"), "{card}");
    check_refused(&fixture, "--tolerate none.jsonl --out out", "none.jsonl");
}

#[test]
fn data_sets_that_call_themselves_evaluation_data_are_refused() {
    let fixture = data();
    let row = r#"[{"idx":"cosqa-dev-7","doc":"sort a list","code":"def sort(list): return list","code_tokens":"def sort","docstring_tokens":"","label":1}]"#;
    fixture.write("tree/pairs.jsonl", row);
    check_refused(&fixture, "--dev dev.jsonl --out out", "cosqa-dev-7 of pairs.jsonl");
    let own = "{\"query\":\"sort\",\"code\":\"def sort\",\"id\":\"cosqa-dev-7\"}\n";
    fixture.write("tree/pairs.jsonl", own);
    check_refused(&fixture, "--dev dev.jsonl --out out", "line 1 of pairs.jsonl");
    fixture.write("tree/pairs.jsonl", &row.replace("cosqa-dev", "cosqa-train"));
    let words = "--dev dev.jsonl --out out --set \"objective = 'siamese'\"";
    check_refused(&fixture, words, "too few");
}

#[test]
fn labels_are_0_or_1() {
    let fixture = data();
    let path = fixture.path("tree/pairs.jsonl");
    let own = fs::read_to_string(&path).unwrap();
    for label in ["-1", "2", "7", "0.5", "true", "\"1\"", "null"] {
        fs::write(&path, format!("{own}{{\"query\": \"sort\", \"code\": \"x\", \"label\": {label}}}\n"))
            .unwrap();
        let (code, errors) = train(&fixture, "--dev dev.jsonl --out out");
        assert_eq!(code, Some(2), "{label}: {errors}");
        assert!(errors.contains("pairs.jsonl:11: ") && errors.contains("label"), "{label}: {errors}");
        assert!(!fixture.path("tree/out").exists());
    }
    // An array is read as a data set of any kind, whose null is a field that is not there.
    let rows = own.lines().chain([r#"{"query": "sort", "code": "x", "label": null}"#]);
    fs::write(&path, format!("[{}]", rows.collect::<Vec<_>>().join(","))).unwrap();
    check_refused(&fixture, "--dev dev.jsonl --out out", "1 of 11 pairs have no label");
}

#[test]
fn evaluation_queries_are_refused_and_contradictory_rows_left_out() {
    let fixture = data();
    let own = fixture.read("tree/pairs.jsonl");
    let more = "{\"query\": \"Sort every line of it\", \"code\": \"x\"}\n";
    fixture.write("tree/pairs.jsonl", &format!("{own}{more}"));
    fixture.write("tree/queries.json", "[{\"query\": \"sort every line of it!\"}]");
    let words = "--exclude queries.json --dev dev.jsonl --out out";
    check_refused(&fixture, words, "pair 11 (\"Sort every line of it\")");

    let contradictory =
        "{\"query\": \"a b c\", \"code\": \"def a(): b\", \"negatives\": [\"def  a(): b\", \"def b\"]}\n";
    let empty = "{\"query\": \"a b c\", \"code\": \" \"}\n";
    fixture.write("tree/pairs.jsonl", &format!("{own}{contradictory}{empty}"));
    let errors = trained(&fixture, "--dev dev.jsonl --out out");
    assert!(errors.contains("left out: 1 pair without a query or a code"), "{errors}");
    assert!(errors.contains("left out: 1 code labeled 0 for a query that the same code answers"), "{errors}");
    // The seven positive ones of the others, and this one.
    assert!(errors.contains("8 examples"), "{errors}");
}

/// Trains a static model on data that its file or fields call evaluation data, or that is excluded.
#[test]
fn the_static_trainer_refuses_evaluation_data_too() {
    let fixture = data();
    let refused = |words: &str, message: &str| {
        let (code, errors) = run(&fixture, &format!("train static --out static --pairs {words}"));
        assert!(code == Some(2) && errors.contains(message), "{words}: {errors}");
        assert!(!fixture.path("tree/static/model.bin").exists());
    };
    let row = |partition: &str| {
        format!(
            "{{\"repo\":\"o/r\",\"path\":\"a.py\",\"func_name\":\"sort\",\"original_string\":\"def sort(): pass\",\
             \"language\":\"python\",\"code\":\"def sort(): pass\",\"code_tokens\":[\"def\"],\"docstring\":\"Sort it.\",\
             \"docstring_tokens\":[\"Sort\"],\"sha\":\"0\",\"partition\":\"{partition}\",\"url\":\"https://x/y\"}}\n"
        )
    };
    for partition in ["test", "valid"] {
        fixture.write("tree/csn.jsonl", &row(partition));
        refused("csn.jsonl", "evaluation data: a pair of csn.jsonl");
    }
    fixture.write("tree/csn.jsonl", &row("train"));
    refused("csn.jsonl", "do not fill one batch");
    let dev = r#"[{"idx":"cosqa-dev-7","doc":"sort a list","code":"def sort(list): return list","code_tokens":"def sort","docstring_tokens":"","label":1}]"#;
    fixture.write("tree/dev.json", dev);
    refused("dev.json", "cosqa-dev-7 of dev.json");
    let named = dev.replace("cosqa-dev", "cosqa-train");
    fixture.write("tree/train.json", &named);
    refused("train.json --exclude dev.json", "evaluation data: pair 1 (\"sort a list\")");
    let pair = "{\"query\":\"sort a list\",\"doc\":\"\",\"name\":\"f\",\"code\":\"x\",\"language\":\"\",\"repository\":\"\"";
    fixture.write("tree/own.jsonl", &format!("{pair}}}\n"));
    refused("own.jsonl --exclude dev.json", "evaluation data: pair 1 (\"sort a list\")");
    // Beside the pairs, under its public name, and with rows that are called something else.
    fixture.write("tree/cosqa/cosqa-retrieval-dev-500.json", &named);
    refused("own.jsonl", "whose query is in cosqa-retrieval-dev-500.json of cosqa");
    fixture.write("tree/own.jsonl", &format!("{pair},\"label\":2}}\n"));
    refused("own.jsonl", "own.jsonl:1: ");
    refused("own.jsonl", "the label 1");
}

#[test]
fn the_card_of_a_static_model_names_evaluation_data_that_were_allowed() {
    let fixture = data();
    let queries = [
        "sort a list of words",
        "open the file again",
        "close idle connections",
        "reverse long strings slowly",
    ];
    let row = |query: &str| {
        let name = query.replace(' ', "_");
        format!(
            "{{\"query\":\"{query}\",\"doc\":\"\",\"name\":\"{name}\",\"code\":\"def {name}(): pass\",\"language\":\"python\",\
             \"repository\":\"o/r\"}}\n"
        )
    };
    fixture.write("tree/own.jsonl", &queries.map(row).concat());
    // In full-width letters.
    fixture.write("tree/evaluation.jsonl", "{\"query\":\"ｒｅｖｅｒｓｅ long ｓｔｒｉｎｇｓ slowly\"}\n");
    let train = |words: &str| {
        let settings = "--set batch=2 --set dimension=8 --set validation=0.0";
        let files = "--pairs own.jsonl --exclude evaluation.jsonl --out static";
        run(&fixture, &format!("train static {files} {settings} {words}"))
    };
    let (code, errors) = train("");
    assert!(code == Some(2) && errors.contains("or give --allow-evaluation-data"), "{errors}");
    assert!(!fixture.path("tree/static").exists());
    let (code, errors) = train("--allow-evaluation-data");
    assert_eq!(code, Some(0), "{errors}");
    let statement = "**the training data contain evaluation data: pair 4 (\"reverse long strings slowly\"), whose query is in \
                evaluation.jsonl**, which was allowed";
    let card = fixture.read("tree/static/README.md");
    for text in [statement, "--allow-evaluation-data", "4 pairs, 0 held out: `own.jsonl`", "dimension = 8"] {
        assert!(card.contains(text), "{text}\n{card}");
    }
    assert!(errors.contains(statement), "{errors}");
}

#[cfg(unix)]
#[test]
fn pipes_are_refused_where_files_are_read_twice() {
    let fixture = data();
    let pipe = fixture.path("tree/pipe.jsonl");
    fixture::make_pipe(&pipe);
    for option in ["--pairs", "--dev", "--exclude"] {
        let message = "pipe.jsonl: expected a file, which is read more than once";
        check_refused(&fixture, &format!("{option} pipe.jsonl --out out"), message);
    }
}

#[test]
fn a_line_that_is_no_pair_is_named() {
    let fixture = data();
    let path = fixture.path("tree/pairs.jsonl");
    let own = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{own}{{\"query\": \"sort\"}}\n")).unwrap();
    check_refused(&fixture, "--out out", "pairs.jsonl:11: expected an object with query and code");
    assert!(!fixture.path("tree/out").exists());
}

#[test]
fn a_sweep_trains_every_combination_once() {
    let fixture = data();
    let model = tiny_model();
    let sweep = |grid: &str| {
        let data = format!("--model {model} --pairs pairs.jsonl --dev dev.jsonl");
        let options = "--set epochs=2 --set batch=4 --seeds 2 --out sweep --json";
        fixture.run(&format!("train encoder {data} {options} {grid}"))
    };
    let grid = "--grid rate=1e-5,1e-2 --grid objective=info-nce,margin";
    let output = sweep(grid);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let combinations = report["combinations"].as_array().unwrap();
    let means: Vec<f64> =
        combinations.iter().map(|combination| combination["mean"].as_f64().unwrap()).collect();
    assert!(means.len() == 4 && means.is_sorted_by(|a, b| a >= b), "{report}");
    assert!(combinations.iter().all(|combination| combination["values"].as_array().unwrap().len() == 2));
    let best = fixture.path("tree").join(combinations[0]["best_run"].as_str().unwrap());
    assert!(best.join("model.safetensors").is_file() && best.join("README.md").is_file());
    let page = fixture.read("tree/sweep/report.html");
    assert_eq!(page.matches("<polyline").count(), 16, "a curve of the measure and of the loss for each run");

    // Runs that have ended are not trained again, and one that was lost is.
    let lost = fixture.path("tree/sweep/rate=1e-5,objective=margin,seed=2");
    fs::remove_dir_all(&lost).unwrap();
    let kept = best.join("model.safetensors");
    let time = fs::metadata(&kept).unwrap().modified().unwrap();
    let again = sweep(grid);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&again.stdout).unwrap(), report);
    assert!(lost.join("model.safetensors").is_file());
    assert!(best == lost || fs::metadata(&kept).unwrap().modified().unwrap() == time);

    for (grid, words) in
        [("--grid rate=1,none", "rate=none"), ("--grid speed=1,2", "speed"), ("--grid batch=0,2", "batch")]
    {
        let output = sweep(grid);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(words) && !errors.contains("run 1 of"), "{errors}");
    }
}
