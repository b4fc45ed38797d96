//! `quarry data build`, as a user runs it.
#![cfg(feature = "full")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod fixture;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fixture::{Fixture, stderr, stdout};

/// A copy of the example, which a test may change.
fn example() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/build");
    let to = fixture.path("build");
    copy(&from, &to);
    (fixture, to)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|ending| ending == "build") {
            continue;
        } else if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The files of a directory by their paths in it.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(
                files(&entry.path()).into_iter().map(|(path, text)| (format!("{name}/{path}"), text)),
            );
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// Builds in a directory; the names of the steps that were done now, and of those that were done before.
fn build(fixture: &Fixture, plan: &Path, out: &Path) -> (Vec<String>, Vec<String>) {
    let output = fixture.run(&["data", "build", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let lines = said.lines().filter_map(|line| line.strip_prefix("quarry: ")?.split_once(": "));
    let (known, new): (Vec<_>, Vec<_>) =
        lines.map(|(step, _)| step).partition(|step| step.ends_with(" (done before)"));
    let names = |steps: Vec<&str>| steps.into_iter().map(|step| step.replace(" (done before)", "")).collect();
    (names(new), names(known))
}

#[test]
fn the_example_is_built_and_the_same_again() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let [one, two] = ["one", "two"].map(|name| fixture.path(name));
    let (new, known) = build(&fixture, &plan, &one);
    assert_eq!((new.len(), known.len()), (13, 0), "{new:?}");
    build(&fixture, &plan, &two);
    let exports = files(&one.join("exports"));
    assert_eq!(exports.len(), 11, "{:?}", exports.keys());
    assert!(exports == files(&two.join("exports")), "two builds differ");
    assert_eq!(fs::read(one.join("card.md")).unwrap(), fs::read(two.join("card.md")).unwrap());
    let (new, known) = build(&fixture, &plan, &one);
    assert_eq!((new.len(), known.len()), (0, 13), "{new:?}");

    // What comes out is what other commands read.
    let beir = one.join("exports/beir");
    let measured = fixture.json(&["eval", beir.to_str().unwrap(), "--method", "bm25", "--json"]);
    assert!(measured["metrics"]["mrr"].as_f64().unwrap() > 0.3, "{measured}");
    let checked = fixture.run(&["data", "check", one.join("exports/cosqa-plus").to_str().unwrap()]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    let pairs = String::from_utf8(exports["training-pairs/train.jsonl"].clone()).unwrap();
    let pair: BTreeMap<String, String> = serde_json::from_str(pairs.lines().next().unwrap()).unwrap();
    let fields: Vec<&str> = pair.keys().map(String::as_str).collect();
    assert_eq!(fields, ["code", "doc", "language", "name", "query", "repository"]);

    // A query that two functions were documented with is answered by both; the documentation is in neither.
    let corpus = String::from_utf8(exports["beir/corpus.jsonl"].clone()).unwrap();
    assert!(!corpus.contains("Compute the mean of a list"));
    assert!(
        String::from_utf8(exports["beir/queries.jsonl"].clone())
            .unwrap()
            .contains("Compute the mean of a list")
    );
}

#[test]
fn a_change_redoes_what_depends_on_it() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let out = fixture.path("out");
    build(&fixture, &plan, &out);
    let change = |from: &str, to: &str| {
        let text = fs::read_to_string(&plan).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&plan, text.replace(from, to)).unwrap();
        build(&fixture, &plan, &out)
    };
    let exports = ["export beir", "export cosqa-plus", "export training-pairs"];
    // Another seed is for the splits: no queries are drawn here.
    assert_eq!(change("seed = 42", "seed = 43").0, [&["splits"][..], &exports].concat());
    assert_eq!(change("dev = 2", "dev = 3").0, [&["splits"][..], &exports].concat());
    assert_eq!(change("format = \"cosqa-plus\"", "format = \"gecs\"").0, ["export gecs"]);
    // Fewer candidates: those that are left were judged before.
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
fn what_is_wrong_is_said_and_leaves_the_build_as_it_was() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let out = fixture.path("out");
    build(&fixture, &plan, &out);
    let before = files(&out.join("exports"));
    let refused = |from: &str, to: &str, expected: &[&str]| {
        let text = fs::read_to_string(&plan).unwrap();
        let other = directory.join("other.toml");
        fs::write(&other, text.replacen(from, to, 1)).unwrap();
        let output = fixture.run(&["data", "build", other.to_str().unwrap(), "--out", out.to_str().unwrap()]);
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
        &["none.jsonl: cannot be read"],
    );
    refused("\"static\"", "\"no-such-model\"", &["no-such-model"]);
    refused("test = 2", "test = 0.0001", &["enough queries for the part test"]);
    assert!(before == files(&out.join("exports")));
    let steps = fs::read_dir(out.join("steps"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(steps.into_iter().all(|name| !name.starts_with('.')));
}

#[test]
fn a_second_process_is_refused() {
    let (fixture, directory) = example();
    let out = fixture.path("out");
    fs::create_dir_all(&out).unwrap();
    let lock = fs::File::create(out.join(".lock")).unwrap();
    lock.lock().unwrap();
    let plan = directory.join("plan.toml");
    let output = fixture.run(&["data", "build", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("another `quarry data build` is at work here"), "{}", stderr(&output));
}

#[test]
fn a_rehearsal_says_what_is_to_be_done_and_writes_nothing() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let out = fixture.path("out");
    let [plan_path, out_path] = [&plan, &out].map(|path| path.to_str().unwrap());
    let dry = fixture.run(&["data", "build", plan_path, "--out", out_path, "--dry-run"]);
    assert!(dry.status.success(), "{}", stderr(&dry));
    assert_eq!(stdout(&dry).matches("to do").count(), 13, "{}", stdout(&dry));
    assert!(!out.exists());
    let status = fixture.json(&["data", "status", plan_path, "--out", out_path, "--json"]);
    assert!(status["steps"].as_array().unwrap().iter().all(|step| step["done"] == false));
    build(&fixture, &plan, &out);
    let status = fixture.json(&["data", "status", plan_path, "--out", out_path, "--json"]);
    assert_eq!(status["steps"].as_array().unwrap().len(), 13);
    assert!(status["steps"].as_array().unwrap().iter().all(|step| step["done"] == true), "{status}");
    // With other candidates the pairs are to be judged anew: at most two of each of two methods for 40 queries.
    fs::write(&plan, fs::read_to_string(&plan).unwrap().replace("k = 3", "k = 2")).unwrap();
    let dry = stdout(&fixture.run(&["data", "build", plan_path, "--out", out_path, "--dry-run"]));
    assert_eq!(dry.matches("to do").count(), 6, "{dry}");
    assert!(dry.contains("candidates: at most 160, of 40 queries"), "{dry}");
    assert!(dry.contains("judging: at most 160 pairs"), "{dry}");
}

#[test]
fn two_builds_are_compared() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let [one, two] = ["one", "two"].map(|name| fixture.path(name));
    build(&fixture, &plan, &one);
    fs::write(&plan, fs::read_to_string(&plan).unwrap().replace("k = 3", "k = 2")).unwrap();
    build(&fixture, &plan, &two);
    let [one_path, two_path] = [&one, &two].map(|path| path.to_str().unwrap());
    let difference = fixture.json(&["data", "diff", one_path, two_path, "--json"]);
    assert_eq!(difference["changed"][0]["name"], "candidates", "{difference}");
    assert!(difference["pairs_removed"].as_u64().unwrap() > 0);
    assert_eq!((&difference["pairs_added"], &difference["pairs_relabelled"]), (&0.into(), &0.into()));
    let same = stdout(&fixture.run(&["data", "diff", one_path, one_path]));
    assert!(same.contains("labeled pairs: 0 removed, 0 added, 0 with another label"), "{same}");
    let missing = fixture.run(&["data", "diff", one_path, fixture.path("none").to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("none/build.json: cannot be read"), "{}", stderr(&missing));
}

#[test]
fn exports_that_were_altered_are_noticed_and_built_again() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let out = fixture.path("out");
    build(&fixture, &plan, &out);
    let before = files(&out.join("exports"));
    let [plan_path, out_path] = [&plan, &out].map(|path| path.to_str().unwrap());
    let status = || stdout(&fixture.run(&["data", "status", plan_path, "--out", out_path]));
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
    let difference = fixture.json(&["data", "diff", out_path, out_path, "--json"]);
    assert_eq!(difference["damaged"][1].as_array().unwrap().len(), 3, "{difference}");
    build(&fixture, &plan, &out);
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
        let output = fixture.run(&["data", "build", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
        assert_eq!(fs::read_dir(out.join("steps")).unwrap().count(), 0, "{said}");
    }
    #[cfg(unix)]
    {
        let output = fixture.run(&["data", "intent", "/dev/zero"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("/dev/zero"), "{}", stderr(&output));
    }
    let empty = fixture.path("empty.txt");
    fs::write(&empty, "\n").unwrap();
    let output = fixture.run(&["data", "intent", empty.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("empty.txt: expected queries, found none"), "{}", stderr(&output));
}

#[test]
fn queries_that_look_for_something_else_are_explained() {
    let (fixture, directory) = example();
    let queries = directory.join("queries.txt");
    let said = stdout(&fixture.run(&["data", "intent", queries.to_str().unwrap(), "--explain"]));
    assert!(said.contains("tool-usage\tinstall\tpython install module from file\n"), "{said}");
    assert!(said.contains("looks for code       11  68.8"), "{said}");
}

#[test]
#[cfg(unix)]
fn links_in_the_directory_of_a_build_are_not_followed() {
    let (fixture, directory) = example();
    let plan = directory.join("plan.toml");
    let elsewhere = fixture.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("beir"), "precious").unwrap();
    for name in ["exports", "steps", "work", ".lock"] {
        let out = fixture.path(&format!("out-{name}"));
        fs::create_dir(&out).unwrap();
        let target = if name == ".lock" { elsewhere.join("beir") } else { elsewhere.clone() };
        std::os::unix::fs::symlink(target, out.join(name)).unwrap();
        let output = fixture.run(&["data", "build", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(stderr(&output).contains("is a link"), "{name}: {}", stderr(&output));
    }
    assert_eq!(files(&elsewhere), BTreeMap::from([("beir".to_owned(), b"precious".to_vec())]));
}

#[test]
fn queries_that_a_model_wrote_are_built_from_a_recording() {
    let (fixture, directory) = example();
    let plan = directory.join("written.toml");
    let [one, two] = ["one", "two"].map(|name| fixture.path(name));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let dry =
        |out: &Path| stdout(&fixture.run(&["data", "build", &path(&plan), "--out", &path(out), "--dry-run"]));
    assert!(dry(&one).contains("writing queries: what it takes follows from the pool"), "{}", dry(&one));
    build(&fixture, &plan, &one);
    build(&fixture, &plan, &two);
    let exports = files(&one.join("exports"));
    assert!(exports == files(&two.join("exports")), "two builds differ");
    let triples = String::from_utf8(exports["query4code-triples/train.jsonl"].clone()).unwrap();
    let triple: BTreeMap<String, String> = serde_json::from_str(triples.lines().next().unwrap()).unwrap();
    assert_eq!(triple.keys().collect::<Vec<_>>(), ["code", "query", "summary", "url"]);
    let checked = fixture.run(&["data", "check", &path(&one.join("exports/query4code"))]);
    assert!(checked.status.success(), "{}", stderr(&checked));

    let report = fixture.json(&["data", "written", &path(&one), "--json"]);
    assert_eq!(
        (&report["classes"][0], &report["classes"][2], &report["kept"]),
        (&22.into(), &2.into(), &22.into())
    );
    assert_eq!(report["calls"][0]["calls"], 3, "{report}");
    let text = stdout(&fixture.run(&["data", "written", &path(&one)]));
    assert!(text.contains("queries written: 24, by class 1: 22, 2: 0, 3: 2, 4: 0"), "{text}");
    let missing = fixture.run(&["data", "written", &path(&fixture.path("none"))]);
    assert_eq!(missing.status.code(), Some(2));

    // Another style is to be written, and nothing of it is in the recording.
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("styles = [\"keyword\", \"question\"]", "styles = [\"imperative\"]"))
        .unwrap();
    let dry = dry(&one);
    assert!(dry.contains("writing 12 queries and 0 summaries: 24 questions, about "), "{dry}");
    assert!(dry.contains(" dollars and 6 s at 2 s an answer"), "{dry}");
    let refused = fixture.run(&["data", "build", &path(&plan), "--out", &path(&one)]);
    assert!(
        !refused.status.success() && stderr(&refused).contains("written.jsonl: no recorded answer"),
        "{}",
        stderr(&refused)
    );
}
