//! `quarry data build`, as a user runs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::fixture::{self, Fixture, Running, copy_examples, stderr, stdout};
use quarry_test_support::files::contents_below as files;
use quarry_test_support::model_server::{Reply, Seen, Server, completion};
use quarry_test_support::nats::Nats;
use serde_json::{Value, json};

/// A copy of the example, which a test may change.
fn example() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    let to = fixture.path("build");
    copy_examples("build", &to);
    (fixture, to)
}

/// Builds a plan of the example in a directory; returns the names of the steps that were done now, and of those that were
/// done before.
fn build(fixture: &Fixture, plan: &str, out: &str) -> (Vec<String>, Vec<String>) {
    let output = fixture.run(&format!("data build ../build/{plan}.toml --out ../{out}"));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let lines = said.lines().filter_map(|line| line.strip_prefix("quarry: ")?.split_once(": "));
    let (known, new): (Vec<_>, Vec<_>) =
        lines.map(|(step, _)| step).partition(|step| step.ends_with(" (already done)"));
    let names =
        |steps: Vec<&str>| steps.into_iter().map(|step| step.replace(" (already done)", "")).collect();
    (names(new), names(known))
}

#[test]
fn the_example_is_built_and_the_same_again() {
    let (fixture, _) = example();
    let [one, two] = ["one", "two"].map(|name| fixture.path(name));
    let (new, known) = build(&fixture, "plan", "one");
    assert_eq!((new.len(), known.len()), (13, 0), "{new:?}");
    build(&fixture, "plan", "two");
    let exports = files(&one.join("exports"));
    assert_eq!(exports.len(), 11, "{:?}", exports.keys());
    assert!(exports == files(&two.join("exports")), "two builds differ");
    for about in ["card.md", "card.html", "croissant.json"] {
        assert!(fs::read(one.join(about)).unwrap() == fs::read(two.join(about)).unwrap(), "{about}");
    }
    let (new, known) = build(&fixture, "plan", "one");
    assert_eq!((new.len(), known.len()), (0, 13), "{new:?}");

    // Other commands can read the output.
    let measured = fixture.json("eval ../one/exports/beir --method bm25 --json");
    assert!(measured["metrics"]["mrr"].as_f64().unwrap() > 0.3, "{measured}");
    fixture.succeed("data check ../one/exports/cosqa-plus");
    let pairs = String::from_utf8(exports["training-pairs/train.jsonl"].clone()).unwrap();
    let pair: BTreeMap<String, Value> = serde_json::from_str(pairs.lines().next().unwrap()).unwrap();
    let fields: Vec<&str> = pair.keys().map(String::as_str).collect();
    assert_eq!(fields, ["code", "doc", "language", "name", "negatives", "query", "repository"]);

    // A query that two functions were documented with is answered by both; the documentation is in neither.
    let corpus = String::from_utf8(exports["beir/corpus.jsonl"].clone()).unwrap();
    assert!(!corpus.contains("Compute the mean of a list"));
    let queries = String::from_utf8(exports["beir/queries.jsonl"].clone()).unwrap();
    assert!(queries.contains("Compute the mean of a list"));
}

#[test]
fn a_change_redoes_what_depends_on_it() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    build(&fixture, "plan", "out");
    let change = |from: &str, to: &str| {
        let text = fs::read_to_string(&plan).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&plan, text.replace(from, to)).unwrap();
        build(&fixture, "plan", "out")
    };
    let exports = ["export beir", "export cosqa-plus", "export training-pairs"];
    // Another seed is for the splits: no queries are drawn here.
    assert_eq!(change("seed = 42", "seed = 43").0, [&["splits"][..], &exports].concat());
    assert_eq!(change("dev = 2", "dev = 3").0, [&["splits"][..], &exports].concat());
    assert_eq!(change("format = \"cosqa-plus\"", "format = \"gecs\"").0, ["export gecs"]);
    // Fewer candidates: the remaining ones were judged before.
    assert_eq!(
        change("k = 3", "k = 2").0,
        [&["candidates", "labels", "splits"][..], &["export beir", "export gecs", "export training-pairs"]]
            .concat()
    );
    fs::write(directory.join("sources/text/more.py"), "def twice(x):\n    return [x, x]\n").unwrap();
    let (new, known) = change("k = 2", "k = 1");
    assert_eq!(known, ["source shapes", "source files", "queries typed"]);
    assert_eq!(new[..2], ["source text", "pool"]);
}

#[test]
fn errors_are_reported_and_leave_the_build_unchanged() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let out = fixture.path("out");
    build(&fixture, "plan", "out");
    let before = files(&out.join("exports"));
    let refused = |from: &str, to: &str, expected: &[&str]| {
        let text = fs::read_to_string(&plan).unwrap();
        fs::write(directory.join("other.toml"), text.replacen(from, to, 1)).unwrap();
        let output = fixture.run("data build ../build/other.toml --out ../out");
        assert_eq!(output.status.code(), Some(2));
        for words in expected {
            assert!(stderr(&output).contains(words), "{words}: {}", stderr(&output));
        }
    };
    refused("k = 3", "k = 0", &["other.toml:", "expected 1 to 1000 as `k`, found 0"]);
    refused("sources/text", "sources/none", &["sources/none: no such file or directory"]);
    refused(
        "[pool]",
        "[pool]\nlanguages = [\"rust\"]",
        &["step pool: expected code that is kept, found none of 34"],
    );
    refused(
        "kind = \"judge\"\npath = \"judge.toml\"",
        "kind = \"file\"\npath = \"none.jsonl\"",
        &["none.jsonl: no such file or directory"],
    );
    refused("\"static\"", "\"no-such-model\"", &["no-such-model"]);
    refused("test = 2", "test = 0.0001", &["enough queries for the part test", "in all, of which"]);
    assert!(before == files(&out.join("exports")));
    let steps = fs::read_dir(out.join("steps"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(steps.into_iter().all(|name| !name.starts_with('.')));
}

#[test]
fn a_second_process_is_refused() {
    let (fixture, _) = example();
    fixture.write("out/.lock", "");
    let lock = fs::File::create(fixture.path("out/.lock")).unwrap();
    lock.lock().unwrap();
    let message = "another `quarry data build` is running here";
    fixture.check_error("data build ../build/plan.toml --out ../out", message);
}

#[test]
fn a_rehearsal_lists_its_steps_and_writes_nothing() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let out = fixture.path("out");
    let build_command = "data build ../build/plan.toml --out ../out";
    let dry = fixture.succeed(&format!("{build_command} --dry-run"));
    assert_eq!(stdout(&dry).matches("to do").count(), 13, "{}", stdout(&dry));
    for expected in ["files of text", "codes in the pool", "queries typed", "pairs to judge", "tokens", "~"] {
        assert!(stdout(&dry).contains(expected), "{expected}: {}", stdout(&dry));
    }
    assert!(!out.exists());
    let status = fixture.json(&format!("{build_command} --status --json"));
    assert!(status["steps"].as_array().unwrap().iter().all(|step| step["done"] == false));
    build(&fixture, "plan", "out");
    let status = fixture.json(&format!("{build_command} --status --json"));
    assert_eq!(status["steps"].as_array().unwrap().len(), 13);
    assert!(status["steps"].as_array().unwrap().iter().all(|step| step["done"] == true), "{status}");
    // Counts are a table; a build without written queries has no more to report.
    let report = fixture.stdout("data report ../out");
    assert!(report.lines().any(|line| line.starts_with("labels ") && line.contains("negative")), "{report}");
    let report = fixture.json("data report ../out --json");
    assert_eq!(report["steps"][0]["name"], "source text", "{report}");
    let depth = fixture.json("data report ../out --depth --plot ../depth.svg --json");
    fixture::schema::check("data-report", &depth);
    let methods = depth["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 2);
    for method in methods {
        let ranks = method["ranks"].as_array().unwrap();
        assert_eq!(method["queries"].as_u64(), Some(40));
        assert_eq!(ranks.len(), 3);
        assert_eq!(ranks[0]["labeled"].as_u64(), Some(40));
        assert_eq!(ranks[0]["hit"], ranks[0]["answered"], "{method}");
        assert!(ranks[2]["answers"].as_f64() >= ranks[0]["answers"].as_f64(), "{method}");
    }
    let svg = fixture.read("depth.svg");
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
    assert_eq!((svg.matches("<svg").count(), svg.matches("<polyline").count()), (1, 4), "{svg}");
    // With other candidates the pairs are to be judged anew: at most two of each of two methods for 40 queries.
    fs::write(&plan, fs::read_to_string(&plan).unwrap().replace("k = 3", "k = 2")).unwrap();
    let dry = fixture.stdout(&format!("{build_command} --dry-run"));
    assert_eq!(dry.matches("to do").count(), 6, "{dry}");
    assert!(dry.contains("candidates: at most 160, of 40 queries"), "{dry}");
    assert!(dry.contains("judging: at most 160 pairs"), "{dry}");
}

#[test]
fn two_builds_are_compared() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    build(&fixture, "plan", "one");
    fs::write(&plan, fs::read_to_string(&plan).unwrap().replace("k = 3", "k = 2")).unwrap();
    build(&fixture, "plan", "two");
    let difference = fixture.json("data report ../one --against ../two --json");
    assert_eq!(difference["changed"][0]["name"], "candidates", "{difference}");
    assert!(difference["pairs_removed"].as_u64().unwrap() > 0);
    assert_eq!((&difference["pairs_added"], &difference["pairs_relabelled"]), (&0.into(), &0.into()));
    let same = fixture.stdout("data report ../one --against ../one");
    assert!(same.contains("labeled pairs: 0 removed, 0 added, 0 with a different label"), "{same}");
    let message = "none/build.json: no such file or directory";
    fixture.check_error("data report ../one --against ../none", message);
}

#[test]
fn exports_that_were_altered_are_noticed_and_built_again() {
    let (fixture, _) = example();
    let out = fixture.path("out");
    build(&fixture, "plan", "out");
    let before = files(&out.join("exports"));
    let status = || fixture.stdout("data build ../build/plan.toml --out ../out --status");
    assert!(!status().contains("since the last build"), "{}", status());
    fs::remove_file(out.join("exports/beir/corpus.jsonl")).unwrap();
    fs::write(out.join("exports/training-pairs/train.jsonl"), "{}\n").unwrap();
    fs::write(out.join("exports/beir/other.txt"), "").unwrap();
    let said = status();
    for expected in [
        "exports/beir/corpus.jsonl is missing since the last build",
        "exports/beir/other.txt was not built since the last build",
        "exports/training-pairs/train.jsonl was altered since the last build",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let difference = fixture.json("data report ../out --against ../out --json");
    assert_eq!(difference["damaged"][1].as_array().unwrap().len(), 3, "{difference}");
    build(&fixture, "plan", "out");
    assert!(before == files(&out.join("exports")) && !status().contains("since the last build"));
}

#[test]
fn all_that_a_plan_names_is_looked_at_before_anything_is_done() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(directory.join("table.csv"), "a,b\n1,2\n").unwrap();
    fs::write(directory.join("latin.txt"), b"first\nsecond \xe9\n").unwrap();
    let out = fixture.path("out");
    for (from, to, expected) in [
        ("\"queries.txt\"", "\"latin.txt\"", "latin.txt:2: expected text in UTF-8"),
        ("\"queries.txt\"", "\"table.csv\"", "table.csv: expected a file of a known format"),
        ("\"judge.toml\"", "\"none.toml\"", "none.toml"),
        ("path = \"sources/files\"", "path = \"sources/none\"", "sources/none: no such file or directory"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&plan, text.replace(from, to)).unwrap();
        fixture.check_error("data build ../build/plan.toml --out ../out", expected);
        assert_eq!(fs::read_dir(out.join("steps")).unwrap().count(), 0, "{expected}");
    }
    #[cfg(unix)]
    fixture.check_error("data intent /dev/zero", "/dev/zero");
    fixture.write("empty.txt", "\n");
    fixture.check_error("data intent ../empty.txt", "empty.txt: expected queries, found none");
}

#[test]
fn queries_that_look_for_something_else_are_explained() {
    let (fixture, _) = example();
    let said = fixture.stdout("data intent ../build/queries.txt --explain");
    assert!(said.contains("tool-usage\tinstall\tpython install module from file\n"), "{said}");
    assert!(said.contains("looks for code       11  68.8"), "{said}");
}

#[test]
#[cfg(unix)]
fn links_in_the_directory_of_a_build_are_not_followed() {
    let (fixture, _) = example();
    let elsewhere = fixture.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("beir"), "precious").unwrap();
    for name in ["exports", "steps", "work", ".lock"] {
        let out = fixture.path(&format!("out-{name}"));
        fs::create_dir(&out).unwrap();
        let target = if name == ".lock" { elsewhere.join("beir") } else { elsewhere.clone() };
        std::os::unix::fs::symlink(target, out.join(name)).unwrap();
        fixture.check_error(&format!("data build ../build/plan.toml --out ../out-{name}"), "is a link");
    }
    assert_eq!(files(&elsewhere), BTreeMap::from([("beir".to_owned(), b"precious".to_vec())]));
}

#[test]
fn queries_that_a_model_wrote_are_built_from_a_recording() {
    let (fixture, directory) = example();
    let plan = directory.join("written.toml");
    let [one, two] = ["one", "two"].map(|name| fixture.path(name));
    let dry = || fixture.stdout("data build ../build/written.toml --out ../one --dry-run");
    let estimated = dry();
    assert!(estimated.contains("questions to models") && estimated.contains("exact"), "{estimated}");
    build(&fixture, "written", "one");
    build(&fixture, "written", "two");
    let exports = files(&one.join("exports"));
    assert!(exports == files(&two.join("exports")), "two builds differ");
    let triples = String::from_utf8(exports["query4code-triples/train.jsonl"].clone()).unwrap();
    let triple: BTreeMap<String, String> = serde_json::from_str(triples.lines().next().unwrap()).unwrap();
    assert_eq!(triple.keys().collect::<Vec<_>>(), ["code", "query", "summary", "url"]);
    fixture.succeed("data check ../one/exports/query4code");

    let report = fixture.json("data report ../one --json");
    assert_eq!(report["classes"][0], 22);
    assert_eq!(report["classes"][2], 2);
    assert_eq!(report["kept"], 22);
    assert_eq!(report["calls"][0]["calls"], 3, "{report}");
    let text = fixture.stdout("data report ../one");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert!(lines.iter().any(|line| line.starts_with("of class 1") && line.contains("22   91.7")), "{text}");
    assert_eq!(fixture.run("data report ../none").status.code(), Some(2));

    // Another style must be written, none of which is in the recording.
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("styles = [\"keyword\", \"question\"]", "styles = [\"imperative\"]"))
        .unwrap();
    let dry = dry();
    assert!(dry.contains("writing 12 queries and 0 summaries: 24 questions, about "), "{dry}");
    assert!(dry.contains(" dollars and 6 s at 2 s per answer"), "{dry}");
    let refused = fixture.run("data build ../build/written.toml --out ../one");
    assert!(!refused.status.success(), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("written.jsonl: no recorded answer"), "{}", stderr(&refused));
}

#[test]
fn metadata_names_every_file_of_the_exports_and_its_columns() {
    let (fixture, _) = example();
    let out = fixture.path("out");
    build(&fixture, "plan", "out");
    let metadata: Value = serde_json::from_slice(&fs::read(out.join("croissant.json")).unwrap()).unwrap();
    let described: Vec<&str> = metadata["distribution"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["contentUrl"].as_str().unwrap())
        .collect();
    let exports = files(&out.join("exports"));
    assert_eq!(described, exports.keys().map(|name| format!("exports/{name}")).collect::<Vec<_>>());
    let set = |id: &str| {
        let sets = metadata["recordSet"].as_array().unwrap();
        let set = sets.iter().find(|set| set["@id"] == id).unwrap_or_else(|| panic!("{id}: {metadata}"));
        let names = set["field"].as_array().unwrap().iter().map(|field| field["name"].as_str().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(set("beir.queries.jsonl"), ["_id", "text"]);
    assert_eq!(set("beir.qrels.test.tsv"), ["query-id", "corpus-id", "score"]);
    assert_eq!(metadata["license"], json!(["MIT OR Apache-2.0"]));
    let page = fs::read_to_string(out.join("card.html")).unwrap();
    assert!(page.contains("<h1>Small functions in three languages</h1>"));
    assert!(page.matches("<svg").count() >= 6);
}

#[test]
fn every_export_can_be_read_and_converted_back() {
    let (fixture, directory) = example();
    let written = fs::read_to_string(directory.join("written.toml")).unwrap();
    let formats = [
        ("beir", "query-code"),
        ("coir", "beir"),
        ("mteb", "beir"),
        ("mteb-parquet", "beir"),
        ("cosqa", "beir"),
        ("cosqa-qa", "query-code"),
        ("cosqa-plus", "query-code"),
        ("cosqa-plus-folder", "beir"),
        ("gecs", "query-code"),
        ("query4code", "query-code"),
        ("query-code", "cosqa-qa"),
    ];
    let without = |text: &str| text.split("[[exports]]").next().unwrap().to_owned();
    let exports: String =
        formats.iter().map(|(format, _)| format!("[[exports]]\nformat = \"{format}\"\n")).collect();
    fs::write(directory.join("all.toml"), without(&written) + &exports).unwrap();
    let out = fixture.path("out");
    build(&fixture, "all", "out");
    for (format, other) in formats {
        let export = out.join("exports").join(format);
        let checked = fixture.run(&["data", "check", export.to_str().unwrap(), "--split", "train"]);
        assert!(checked.status.success(), "{format}: {}", stderr(&checked));
        // For formats of pairs the file of a part, for those that number each part anew its files, for others the
        // directory.
        let names = files(&export).into_keys();
        let from: Vec<PathBuf> = match format {
            "cosqa" | "cosqa-plus-folder" => {
                names.filter(|name| !name.contains("dev")).map(|name| export.join(name)).collect()
            }
            _ => match names.into_iter().find(|name| name.starts_with("train.")) {
                Some(name) => vec![export.join(name)],
                None => vec![export],
            },
        };
        let run = |command: &[&str], paths: &[PathBuf], more: &[&str]| {
            let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
            let output = fixture.run(&[&["data"], command, &paths, more, &["--split", "train"]].concat());
            assert!(output.status.success(), "{format}: {command:?} {paths:?}: {}", stderr(&output));
            stdout(&output)
        };
        let convert = |from: &[PathBuf], to: &str, name: &str| {
            let ending = match to {
                "query-code" | "gecs" | "query4code" => ".jsonl",
                "cosqa-qa" | "cosqa-plus" => ".json",
                _ => "",
            };
            let path = fixture.path(&format!("{name}-{format}{ending}"));
            run(&["convert"], &[from, std::slice::from_ref(&path)].concat(), &["--to", to]);
            vec![path]
        };
        let pairs = |paths: &[PathBuf], name: &str| {
            let line = |line: &str| -> (String, String, Value) {
                let pair: Value = serde_json::from_str(line).unwrap();
                (pair["query"].to_string(), pair["code"].to_string(), pair["label"].clone())
            };
            let written = fs::read_to_string(&convert(paths, "query-code", name)[0]).unwrap();
            let mut pairs: Vec<_> = written.lines().map(line).collect();
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            pairs
        };
        let back = convert(&convert(&from, other, "there"), format, "back");
        run(&["check"], &back, &[]);
        let pairs_before = pairs(&from, "pairs-before");
        assert!(pairs_before.len() > 10, "{format}");
        assert_eq!(pairs_before, pairs(&back, "pairs-after"), "{format} by way of {other}");
    }
}

/// Answers of models to everything that a build asks: the same to the same question.
fn said(seen: &Seen) -> Reply {
    thread::sleep(Duration::from_millis(20));
    if seen.path.ends_with("/embeddings") {
        let vector = |text: &Value| {
            let text = text.as_str().unwrap();
            let counts = "etaoinshr".chars().map(|c| text.matches(c).count()).collect::<Vec<_>>();
            json!(counts)
        };
        let texts = seen.body["input"].as_array().unwrap();
        let data: Vec<Value> = (texts.iter().enumerate())
            .map(|(index, text)| json!({"index": index, "embedding": vector(text)}))
            .collect();
        return Reply::ok(json!({"data": data, "usage": {"prompt_tokens": 5, "total_tokens": 5}}));
    }
    let messages = seen.body["messages"].as_array().unwrap();
    let [system, text] =
        [&messages[0], &messages[messages.len() - 1]].map(|message| message["content"].as_str().unwrap());
    let number: usize = text.bytes().map(usize::from).sum();
    let said = if system.starts_with("You document") {
        format!("Does what it does, number {number}.")
    } else if system.contains("search engine") {
        json!({"Query": format!("do thing {number}")}).to_string()
    } else if system.starts_with("Say how well") {
        json!({"explanation": "It does that.", "related_score": (2 + number % 2).to_string()}).to_string()
    } else {
        let judgement = if number.is_multiple_of(3) { "yes" } else { "no" };
        json!({"analysis": "It is so.", "judgement": judgement}).to_string()
    };
    Reply::ok(completion(&said, 10, 5))
}

/// While a build judges, its cost and evidence are those of `quarry judge`, before, during and after.
#[test]
fn judging_in_a_build_is_estimated_followed_and_shown() {
    let is_open = Arc::new(AtomicBool::new(false));
    let server = Server::script({
        let is_open = Arc::clone(&is_open);
        move |_, seen| match is_open.load(Ordering::SeqCst) {
            true => said(seen),
            false => Reply::status(401, "{}"),
        }
    });
    let (fixture, directory) = example();
    let judge = fs::read_to_string(directory.join("judge.toml")).unwrap();
    let judge = judge
        .replace("replay = \"recording.jsonl\"\n", "")
        .replace("http://localhost:8766/v1", &server.url());
    fs::write(directory.join("judge.toml"), judge + "input_price = 1.0\noutput_price = 2.0\n").unwrap();
    let build = "data build ../build/plan.toml";
    let refused = fixture.run(build);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let dry = fixture.run(&format!("{build} --dry-run"));
    let dry = format!("{}{}", stdout(&dry), stderr(&dry));
    let estimate = dry.lines().find(|line| line.starts_with("judging by cosqa-plus: ")).expect(&dry);
    assert!(estimate.contains(" pairs, about ") && estimate.contains("tokens, $0."), "{estimate}");
    assert!(estimate.contains("at 2 s per answer"), "{estimate}");
    let status = fixture.stdout(&format!("{build} --status"));
    assert!(status.contains("to do; judged 0 of "), "{status}");

    is_open.store(true, Ordering::SeqCst);
    let built = fixture.run(build);
    let printed = stderr(&built);
    assert!(built.status.success(), "{printed}");
    assert!(printed.contains("pairs to judge\n  next "), "{printed}");
    assert!(printed.contains(" answers of models, "), "{printed}");
    let state = fixture.json("judge status ../build/plan.toml --json");
    assert_eq!((&state["waiting"], &state["judge"]), (&json!(0), &json!("cosqa-plus")), "{state}");
    let (answers, tokens) = (state["answers"].as_u64().unwrap(), state["cost"]["tokens"].as_u64().unwrap());
    assert_eq!(tokens, 15 * answers);
    let card = fs::read_to_string(directory.join("plan.build/card.md")).unwrap();
    let dollars = answers as f64 * 20.0 / 1e6;
    assert!(card.contains(&format!("| labels | {answers} | {tokens} | {dollars:.6} |")), "{card}");
    let shown = fixture.stdout("judge show ../build/plan.toml");
    assert!(shown.lines().count() > 10, "{shown}");
    let run = fixture.run("judge run ../build/plan.toml");
    assert!(stderr(&run).contains("use `quarry data build"), "{}", stderr(&run));
    // The next estimate is by what was measured.
    let text = fs::read_to_string(directory.join("plan.toml")).unwrap();
    fs::write(directory.join("plan.toml"), text.replace("k = 3", "k = 4")).unwrap();
    is_open.store(false, Ordering::SeqCst);
    assert_eq!(fixture.run(build).status.code(), Some(2));
    let dry = fixture.stdout(&format!("{build} --dry-run"));
    assert!(dry.contains("pairs judged so far"), "{dry}");
}

/// A build whose queries a model writes, whose candidates a server embeds and whose pairs a model judges: with one
/// worker, and with two of which one is killed, the output is the same as without workers, and nothing is asked twice
/// except what was in progress at the killed worker.
#[test]
fn workers_build_the_same() {
    const QUESTIONS: usize = 2;
    let Some(nats) = Nats::start() else { return };
    let server = Server::script(|_, seen| said(seen));
    let (fixture, directory) = example();
    let model = server.url();
    let change = |name: &str, changes: &[(&str, &str)]| {
        let mut text = fs::read_to_string(directory.join(name)).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{name}: {from}");
            text = text.replace(from, to);
        }
        fs::write(directory.join(name), text).unwrap();
    };
    let address = ("http://localhost:8766/v1", &*model);
    change("judge.toml", &[address, ("replay = \"recording.jsonl\"\n", "")]);
    let judge = "kind = \"judge\"\npath = \"judge.toml\"";
    change(
        "written.toml",
        &[
            address,
            ("replay = \"written.jsonl\"\n", ""),
            ("kind = \"negative\"", judge),
            ("\"static\"", "\"api:letters\""),
            // The judge says yes to all, so that all queries have answers in common.
            ("[splits.parts]", "[splits]\nequal_queries = true\n\n[splits.parts]"),
        ],
    );
    fs::write(directory.join("endpoint.toml"), format!("base_url = \"{model}\"\n")).unwrap();
    let [plan, endpoint] =
        ["written.toml", "endpoint.toml"].map(|name| directory.join(name).to_str().unwrap().to_owned());
    let begin = |out: &Path, more: &[&str]| {
        let out = out.to_str().unwrap();
        let arguments = ["data", "build", &plan, "--out", out, "--llm", &endpoint, "--llm", "cache=false"];
        let mut command = fixture.command(&[&arguments, more].concat());
        Running::silent(&mut command)
    };
    let alone = fixture.path("alone");
    assert!(begin(&alone, &[]).0.wait().unwrap().success());
    let n_questions = server.count();
    assert!(n_questions > 60, "{n_questions}");

    let url = nats.url();
    let worker = || {
        let questions = QUESTIONS.to_string();
        let arguments = ["worker", "--nats", &url, "--model", &model, "--questions", &questions];
        let mut command = fixture.command(&[&arguments[..], &["--programs", "0", "--lease", "3"]].concat());
        Running::silent(&mut command)
    };
    for n_workers in [1, 2] {
        let out = fixture.path(&format!("workers-{n_workers}"));
        let before = server.count();
        let mut workers: Vec<Running> = (0..n_workers).map(|_| worker()).collect();
        let mut building = begin(&out, &["--nats", &url]);
        if n_workers == 2 {
            while server.count() < before + n_questions / 3 && building.0.try_wait().unwrap().is_none() {
                thread::sleep(Duration::from_millis(2));
            }
            workers[0] = worker();
        }
        assert!(building.0.wait().unwrap().success());
        let asked = server.count() - before;
        let repeated = QUESTIONS * (n_workers - 1);
        assert!((n_questions..=n_questions + repeated).contains(&asked), "{asked} of {n_questions}");
        let same = files(&alone.join("exports")) == files(&out.join("exports"));
        assert!(same, "{n_workers} workers build something else");
        assert!(fs::read(alone.join("card.md")).unwrap() == fs::read(out.join("card.md")).unwrap());
    }
}
