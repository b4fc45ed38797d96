//! Builds from histories and issues, from a repository to exports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quarry_build::{Amount, BuildError, Built, DryRun, Plan, dry_run};
use quarry_test_support::files;
use quarry_test_support::git::GitRepository;
use serde_json::{Value, json};

use super::{counts, directory_of, made, rest, with_tools};

fn open_plan(directory: &Path, sources_and_queries: &str) -> Result<Plan, BuildError> {
    let rest = rest(2, &["pairing", "negative"], "train", &["beir", "query-code"]);
    super::open_plan(directory, &format!("{sources_and_queries}\n{rest}"))
}

fn refused(directory: &Path, sources_and_queries: &str) -> String {
    let built =
        open_plan(directory, sources_and_queries).and_then(|plan| made(&plan, &directory.join("out")));
    built.unwrap_err().to_string()
}

fn lines(path: &Path) -> Vec<Value> {
    super::lines(&fs::read_to_string(path).unwrap())
}

/// The queries of a step with the names of the functions that they were made of.
fn asked(built: &Built, out: &Path, name: &str) -> Vec<(String, Vec<String>)> {
    let names: BTreeMap<String, String> = lines(&directory_of(built, out, "pool").join("pool.jsonl"))
        .iter()
        .map(|code| (code["id"].as_str().unwrap().to_owned(), code["name"].as_str().unwrap().to_owned()))
        .collect();
    let queries = lines(&directory_of(built, out, name).join("queries.jsonl"));
    let of_query = |query: &Value| {
        let codes = query["codes"].as_array().cloned().unwrap_or_default();
        let codes = codes.iter().map(|code| names[code.as_str().unwrap()].clone()).collect();
        (query["text"].as_str().unwrap().to_owned(), codes)
    };
    queries.iter().map(of_query).collect()
}

fn function(name: &str, number: u32) -> String {
    format!(
        "def {name}(items):\n    total = {number}\n    for item in items:\n        total += item * {number}\n    return total\n\n\n"
    )
}

fn file(functions: &[(&str, u32)]) -> String {
    functions.iter().map(|(name, number)| function(name, *number)).collect()
}

/// A history with a file that is renamed, and with messages of all kinds.
fn repository(mut git: GitRepository) -> GitRepository {
    git.commit("Add the sums of items", &[("sums.py", Some(&file(&[("first", 1), ("second", 2)])))]);
    git.commit("fix(sums): start the second sum at three (#4)\n\nFixes #12\n\nSigned-off-by: Jane <jane@example.org>", &[
        ("sums.py", Some(&file(&[("first", 1), ("second", 3)]))),
    ]);
    git.commit("Merge branch of sums into main", &[]);
    let side = git.commit(
        "Count the first sum twice as often",
        &[("sums.py", Some(&file(&[("first", 4), ("second", 3)])))],
    );
    git.commit(
        "chore: move files",
        &[("sums.py", None), ("lib/total.py", Some(&file(&[("first", 4), ("second", 3)])))],
    );
    git.commit_by("dependabot[bot]", "Speed up sums of large lists", &[], &[]);
    git.commit("Fix typo in the name of the sum", &[]);
    git.commit(
        "Revert \"Count the first sum twice\"\n\nFixes #12",
        &[("lib/total.py", Some(&file(&[("first", 4), ("second", 5)])))],
    );
    git.commit("Bump the version of sums to two", &[]);
    git.commit(
        "Mail totals to jane.doe@example.org each night",
        &[("lib/total.py", Some(&file(&[("first", 4), ("second", 5), ("third", 6)])))],
    );
    git.commit(
        "Add seven functions for other sums",
        &[("lib/more.py", Some(&file(&[("a", 11), ("b", 12), ("c", 13), ("d", 14), ("e", 15), ("f", 16)])))],
    );
    git.commit(
        "Die Summe der Elemente wird jetzt bei der dritten Funktion richtig berechnet\n\nCloses: #14",
        &[("lib/total.py", Some(&file(&[("first", 4), ("second", 5), ("third", 7)])))],
    );
    git.commit("Say how sums of items are made", &[("README.md", Some("# Sums\n"))]);
    git.commit_by("Jane Doe", "Sums of two branches become one", &[], &[&side]);
    git.commit(b"Start \x1b[31mthe sums of items anew".as_slice(), &[]);
    git.commit(b"Start the sums \xff of items anew".as_slice(), &[]);
    git.commit([b"Start the sums \0".as_slice(), &[b'x'; 1 << 20]].concat(), &[]);
    git.commit([b"Start the sums ".as_slice(), &[b'x'; 1 << 20]].concat(), &[]);
    git
}

const SOURCE: &str = "[[sources]]\nname = \"sums\"\nkind = \"git\"\npath = \"sums.git\"\n";
const COMMITS: &str = "[[queries]]\nname = \"history\"\nkind = \"commits\"\nsources = [\"sums\"]\n";

#[test]
fn messages_of_commits_ask_for_the_functions_that_they_changed() {
    let directory = tempfile::tempdir().unwrap();
    repository(GitRepository::bare(&directory.path().join("sums.git")));
    let plan = open_plan(directory.path(), &format!("{SOURCE}{COMMITS}")).unwrap();
    let [one, two] = ["one", "two"].map(|name| directory.path().join(name));
    let built = made(&plan, &one).unwrap();
    let expected = [
        ("Die Summe der Elemente wird jetzt bei der dritten Funktion richtig berechnet", vec!["third"]),
        ("Mail totals to <EMAIL> each night", vec!["third"]),
        // Of before the file was renamed.
        ("Count the first sum twice as often", vec!["first"]),
        ("start the second sum at three", vec!["second"]),
    ];
    let expected: Vec<(String, Vec<String>)> = (expected.into_iter())
        .map(|(text, names)| (text.to_owned(), names.into_iter().map(str::to_owned).collect()))
        .collect();
    assert_eq!(asked(&built, &one, "queries history"), expected);
    let found = counts(&built, "queries history");
    for (name, count) in [
        ("commits", 18),
        ("kept", 4),
        ("removed by bot", 1),
        ("removed by first commit", 1),
        ("removed by merge", 2),
        ("removed by revert", 1),
        ("removed by typo", 1),
        ("removed by version", 1),
        ("removed by not about code", 1),
        ("removed by not text", 2),
        ("removed by too many functions changed", 1),
        ("removed by no file of the pool", 1),
        ("removed by too long", 1),
    ] {
        assert_eq!(found.get(name), Some(&count), "{name}: {found:?}");
    }
    let excluded = lines(&directory_of(&built, &one, "queries history").join("excluded.jsonl"));
    let removed: u64 =
        found.iter().filter(|(name, _)| name.starts_with("removed by")).map(|(_, count)| count).sum();
    assert_eq!(excluded.len() as u64, removed);
    assert!(excluded.iter().all(|excluded| excluded["text"].as_str().unwrap().chars().count() <= 300));
    let card = fs::read_to_string(one.join("card.md")).unwrap();
    assert!(card.contains("messages of commits") && card.contains("| history | typo | 1 |"), "{card}");
    assert!(!card.contains('\u{1b}'));

    // Another seed draws other queries of the same history, which is not read again.
    let drawn = |seed: u32| {
        let plan =
            open_plan(directory.path(), &format!("seed = {seed}\n{SOURCE}{COMMITS}maximum = 2\n")).unwrap();
        let built = made(&plan, &directory.path().join("drawn")).unwrap();
        let key = |name: &str| built.steps.iter().find(|step| step.name == name).unwrap().key();
        (key("history history"), key("queries history"))
    };
    let (first, second) = (drawn(1), drawn(2));
    assert!(first.0 == second.0 && first.1 != second.1);
    assert_eq!(counts(&built, "history history")["commits"], 18);

    // Again, in another directory, and from a work tree.
    let again = made(&plan, &two).unwrap();
    assert_eq!(built.steps, again.steps);
    let files = |root: &Path| fs::read(root.join("exports/query-code/train.jsonl")).unwrap();
    assert!(files(&one) == files(&two));
    repository(GitRepository::with_work_tree(&directory.path().join("tree")));
    let in_tree = SOURCE.replace("\"git\"", "\"directory\"").replace("sums.git", "tree");
    let plan = open_plan(directory.path(), &format!("{in_tree}{COMMITS}")).unwrap();
    let built = made(&plan, &directory.path().join("three")).unwrap();
    assert_eq!(asked(&built, &directory.path().join("three"), "queries history"), expected);
    // Of a directory in it.
    let in_lib = in_tree.replace("tree", "tree/lib");
    let plan = open_plan(directory.path(), &format!("{in_lib}{COMMITS}")).unwrap();
    let built = made(&plan, &directory.path().join("four")).unwrap();
    let found = asked(&built, &directory.path().join("four"), "queries history");
    assert_eq!(found, expected[..2]);
}

#[test]
fn titles_of_issues_ask_for_what_fixed_them() {
    let directory = tempfile::tempdir().unwrap();
    repository(GitRepository::bare(&directory.path().join("sums.git")));
    let issue = |number: u64, title: &str, more: &str| {
        format!(
            "{{\"number\":{number},\"title\":\"{title}\",\"body\":\"x\",\"labels\":[],\"state\":\"OPEN\",\"url\":\"https://github.com/a/b/issues/{number}\"{more}}}"
        )
    };
    let issues = [
        issue(12, "[Bug] Second sum is too small #11", ""),
        issue(13, "Totals of empty lists are wrong, ask jane@example.org", ""),
        issue(13, "Totals of empty lists are wrong again", ""),
        issue(14, "Third sum is wrong for long lists", ""),
        issue(15, "Add a pull request for sums", ",\"pull_request\":{}"),
        issue(16, "Fix typo in the third sum", ""),
        issue(17, "totals of empty lists are wrong, ask jane@example.org", ""),
    ];
    fs::write(directory.path().join("issues.json"), format!("[{}]", issues.join(","))).unwrap();
    let queries = "[[queries]]\nname = \"issues\"\nkind = \"issues\"\npath = \"issues.json\"\n";
    let with = format!("{SOURCE}{queries}sources = [\"sums\"]\n");
    let plan = open_plan(directory.path(), &with).unwrap();
    let out = directory.path().join("out");
    let built = made(&plan, &out).unwrap();
    let expected = [
        ("Second sum is too small", vec!["second".to_owned()]),
        ("Totals of empty lists are wrong, ask <EMAIL>", vec![]),
        ("Third sum is wrong for long lists", vec!["third".to_owned()]),
    ]
    .map(|(text, names)| (text.to_owned(), names));
    assert_eq!(asked(&built, &out, "queries issues"), expected);
    let found = counts(&built, "queries issues");
    for (name, count) in [
        ("issues", 5),
        ("with functions of a fixing commit", 2),
        ("removed by pull request", 1),
        ("removed by number is there already", 1),
        ("removed by typo", 1),
        ("removed by repeated", 1),
    ] {
        assert_eq!(found.get(name), Some(&count), "{name}: {found:?}");
    }

    // Without a history no answer is known.
    let plan = open_plan(directory.path(), &format!("{SOURCE}{queries}")).unwrap();
    let built = made(&plan, &directory.path().join("other")).unwrap();
    let found = asked(&built, &directory.path().join("other"), "queries issues");
    assert!(found.len() == 3 && found.iter().all(|(_, codes)| codes.is_empty()), "{found:?}");

    let other = issue(1, "Sums of other repositories are wrong", "").replace("a/b", "c/d");
    fs::write(directory.path().join("issues.json"), format!("[{},{other}]", issues.join(","))).unwrap();
    let error = refused(directory.path(), &with);
    assert!(
        error.contains("expected issues of one repository") && error.contains("github.com/c/d"),
        "{error}"
    );
    fs::write(directory.path().join("issues.json"), "[{\"number\":1}]").unwrap();
    let error = refused(directory.path(), &with);
    assert!(error.contains("issues.json:1: expected issues, as `gh issue list"), "{error}");
}

/// The history of a tracker: fixes of all kinds.
fn fixed_repository(path: &Path) -> BTreeMap<u64, String> {
    let mut git = GitRepository::bare(path);
    let mut sums = [("first", 1), ("second", 2), ("third", 3)];
    let mut before = BTreeMap::new();
    let side = git.commit("Add the sums", &[("sums.py", Some(&file(&sums)))]);
    sums[0].1 = 10;
    before.insert(1, side.clone());
    git.commit("Start the first sum at ten (#1)", &[("sums.py", Some(&file(&sums)))]);
    // The merge counts, not the commits that it merges.
    sums[1].1 = 20;
    git.commit("Double the second sum, fixes #2", &[("sums.py", Some(&file(&sums)))]);
    sums[2].1 = 30;
    before.insert(2, git.commit("Note the sums", &[("NOTES.md", Some("sums"))]));
    let merge = "Merge pull request #90 from jane/sums\n\nSums of items\n\nCloses #2";
    let test = function("test_sums", 5);
    git.commit_by("Jane", merge, &[("sums.py", Some(&file(&sums))), ("test_sums.py", Some(&test))], &[&side]);
    // Two commits fix one issue; the second renames the file, and adds a function.
    before.insert(3, git.commit("Say more of sums", &[("NOTES.md", Some("all sums"))]));
    sums[0].1 = 11;
    git.commit("Start at eleven\n\nFixes #3", &[("sums.py", Some(&file(&sums)))]);
    let new = [sums[0], ("second", 22), sums[2], ("fourth", 4)];
    git.commit("Start the second anew\n\nFixes #3", &[("sums.py", None), ("lib/all.py", Some(&file(&new)))]);
    let many = ["a", "b", "c", "d", "e", "f"];
    let many = |by: u32| file(&many.map(|name| (name, by)));
    git.commit("Add others", &[("lib/more.py", Some(&many(1)))]);
    git.commit("Reformat everything\n\nFixes #4", &[("lib/more.py", Some(&many(2)))]);
    git.commit("Test sums\n\nFixes #5", &[("test_sums.py", Some(&function("test_sums", 6)))]);
    git.commit("Revert \"Start at ten\"\n\nFixes #6", &[("lib/all.py", Some(&file(&[sums[0]])))]);
    git.commit("Add a sum\n\nFixes #8", &[("lib/all.py", Some(&file(&[sums[0], ("fifth", 5)])))]);
    before
}

#[test]
fn issues_are_exported_with_the_functions_that_fixed_them() {
    let directory = tempfile::tempdir().unwrap();
    let before = fixed_repository(&directory.path().join("sums.git"));
    let issue = |number: u64| {
        let url = format!("https://github.com/o/sums/issues/{number}");
        json!({"number": number, "title": format!("Sum {number} is wrong"), "body": "Ask jane@example.org.", "url": url})
    };
    let mut issues: Vec<Value> = (1..=8).map(issue).collect();
    issues[0]["body"] = Value::Null;
    issues.push(json!({"number": 90, "title": "Sums of items", "pull_request": {}}));
    fs::write(directory.path().join("issues.json"), Value::from(issues).to_string()).unwrap();
    let source = SOURCE.replace("kind", "repository = \"o/sums\"\nkind");
    let queries =
        "[[queries]]\nname = \"tracker\"\nkind = \"issues\"\npath = \"issues.json\"\nsources = [\"sums\"]\n";
    let export = "[[exports]]\nformat = \"localize\"\n";
    let candidates = "[candidates]\nencoders = []\n";
    let plan = super::open_plan(directory.path(), &format!("{source}{queries}{export}{candidates}")).unwrap();
    let out = directory.path().join("out");
    let built = made(&plan, &out).unwrap();
    let exported = out.join("exports/localize/issues.jsonl");
    let found = quarry_corpus::formats::localize::read(&exported).unwrap();
    let expected = |number: u64, text: &str, functions: &[&str]| quarry_corpus::formats::localize::Issue {
        id: format!("o__sums-{number}"),
        repository: "o/sums".into(),
        commit: before[&number].clone(),
        text: text.into(),
        functions: functions.iter().map(|function| format!("sums.py:{function}")).collect(),
        files: Vec::new(),
        lines: Vec::new(),
        source: "tracker".into(),
    };
    let expected = [
        expected(1, "Sum 1 is wrong", &["first"]),
        expected(2, "Sum 2 is wrong\nAsk <EMAIL>.", &["third"]),
        expected(3, "Sum 3 is wrong\nAsk <EMAIL>.", &["first", "second"]),
    ];
    assert_eq!(found, expected);
    let found = counts(&built, "export localize");
    let expected = [
        ("issues whose fix changes much, left out", 1),
        ("issues whose fix changes no function, left out", 2),
        ("issues without a fix, left out", 2),
        ("issues.jsonl", 3),
    ];
    assert_eq!(found, expected.map(|(name, count)| (name.to_owned(), count)).into());
    assert!(!built.steps.iter().any(|step| step.name == "labels"));
    let card = fs::read_to_string(out.join("card.md")).unwrap();
    assert!(card.contains("| localize | issues.jsonl | 3 |") && !card.contains("## Labels"), "{card}");
    assert!(with_tools(|tools| dry_run(&plan, &directory.path().join("dry"), tools)).is_ok());

    // Beside other exports, it is the same.
    let plan = open_plan(directory.path(), &format!("{source}{queries}{export}")).unwrap();
    let other = directory.path().join("other");
    made(&plan, &other).unwrap();
    let read = |out: &Path| fs::read(out.join("exports/localize/issues.jsonl")).unwrap();
    assert!(read(&out) == read(&other) && other.join("exports/beir/corpus.jsonl").exists());

    let error = refused(directory.path(), &format!("{SOURCE}{queries}{export}"));
    assert!(error.contains("expected `repository` as OWNER/NAME"), "{error}");
    let error = refused(directory.path(), &format!("{source}{COMMITS}{export}"));
    assert!(error.contains("needs [[queries]] of `kind = \"issues\"` with `sources`"), "{error}");
    let error = refused(directory.path(), &format!("{source}{queries}{export}parts = [\"train\"]\n"));
    assert!(error.contains("plan.toml:") && error.contains("remove `parts`"), "{error}");
    fs::write(directory.path().join("issues.json"), json!([issue(7)]).to_string()).unwrap();
    let error = refused(directory.path(), &format!("{source}{queries}{export}"));
    assert!(
        error.contains("expected issues that a commit fixes") && error.contains("--state all"),
        "{error}"
    );
}

#[test]
fn sources_without_a_history_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let git = repository(GitRepository::bare(&directory.path().join("sums.git")));
    fs::create_dir(directory.path().join("plain")).unwrap();
    fs::write(directory.path().join("plain/a.py"), file(&[("a", 1)])).unwrap();
    let error_for = |kind: &str, path: &str| {
        let source = SOURCE.replace("\"git\"", &format!("\"{kind}\"")).replace("sums.git", path);
        refused(directory.path(), &format!("{source}{COMMITS}"))
    };
    for kind in ["archive", "data-set"] {
        let error = error_for(kind, "plain");
        assert!(
            error.contains("plan.toml:") && error.contains("expected a source with a history"),
            "{error}"
        );
    }
    let error = error_for("directory", "plain");
    assert!(error.contains("source sums: ") && error.contains("found no .git in it or above it"), "{error}");
    assert!(error.contains("the queries history are made from its commits"), "{error}");
    drop(git);
    let head = fs::read_to_string(directory.path().join("sums.git/refs/heads/main")).unwrap();
    fs::write(directory.path().join("sums.git/shallow"), head).unwrap();
    let error = error_for("git", "sums.git");
    assert!(error.contains("is a shallow clone") && error.contains("`git fetch --unshallow`"), "{error}");
}

#[test]
fn a_plan_that_was_never_built_is_estimated() {
    let directory = tempfile::tempdir().unwrap();
    repository(GitRepository::bare(&directory.path().join("sums.git")));
    fs::write(directory.path().join("typed.txt"), "sum of a list\nsum of a list\nlast item\n").unwrap();
    let text =
        format!("{SOURCE}{COMMITS}[[queries]]\nname = \"typed\"\nkind = \"file\"\npath = \"typed.txt\"\n");
    let plan = open_plan(directory.path(), &text).unwrap();
    let out = directory.path().join("out");
    let DryRun { steps, forecast, judging: _ } = with_tools(|tools| dry_run(&plan, &out, tools)).unwrap();
    assert!(steps.iter().all(|(_, done)| !done) && !out.exists());
    let rows: BTreeMap<String, Amount> = forecast.unwrap().rows.into_iter().collect();
    let exact = |name: &str| rows[name].is_exact.then_some(rows[name].value);
    assert_eq!(
        (exact("files of sums"), exact("functions of sums"), exact("queries typed")),
        (Some(3.0), Some(9.0), Some(2.0))
    );
    assert_eq!((rows["queries history"].at_most, rows["queries history"].is_exact), (Some(6.0), false));
    assert_eq!(rows["candidates"].at_most, Some(16.0));
    assert!(rows["codes in the pool"].value == 9.0 && rows["seconds"].value < 60.0);
    // Once it is built nothing is estimated.
    made(&plan, &out).unwrap();
    let again = with_tools(|tools| dry_run(&plan, &out, tools)).unwrap();
    assert!(again.forecast.is_none() && again.steps.iter().all(|(_, done)| *done));
}

#[test]
fn the_card_says_what_was_excluded_of_each_source() {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| files::write(directory.path().join(path), text);
    let function = "def clean(text):\n    \"\"\"Remove spaces at both ends.\"\"\"\n    return text.strip()\n";
    write("one/a.py", &format!("# SPDX-License-Identifier: MIT\n\n{function}"));
    write("one/tests/test_a.py", "def test_clean():\n    assert clean(' a ') == 'a'\n");
    let other = function.replace("strip()", "strip().lower()");
    write(
        "two/b.py",
        &format!("# SPDX-License-Identifier: MIT\n# SPDX-License-Identifier: GPL-3.0-only\n\n{other}"),
    );
    write("two/logo.bin", "\0");
    let source =
        |name: &str| format!("[[sources]]\nname = \"{name}\"\nkind = \"directory\"\npath = \"{name}\"\n");
    let text = format!(
        "{}{}[pool]\nlicenses = [\"permissive\"]\n[[queries]]\nname = \"docstrings\"\nkind = \"docstrings\"\n",
        source("one"),
        source("two")
    );
    let out = directory.path().join("out");
    made(&open_plan(directory.path(), &text).unwrap(), &out).unwrap();
    let card = fs::read_to_string(out.join("card.md")).unwrap();
    for row in [
        "| one | files of tests, examples, generated or vendored code | 1 |",
        "| two | files in an unknown language | 1 |",
        "| two | codes removed by licenses | 1 |",
    ] {
        assert!(card.contains(row), "{row}\n{card}");
    }
}
