//! `quarry index` and `quarry search` as a user or a script runs them.

mod fixture;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use fixture::{Fixture, check_error, stderr, stdout};
use serde_json::Value;

#[test]
fn search_indexes_on_first_use_and_prints_plain_text_into_a_pipe() {
    let fixture = Fixture::new();
    let output = fixture.run(&["search", "open a socket"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with(" 1. net.py:1  function connect"), "{text}");
    assert!(text.contains("def connect(host)") && text.contains("Open a socket"), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
}

#[test]
fn colour_comes_when_asked_for() {
    let fixture = Fixture::new();
    assert!(stdout(&fixture.run(&["search", "socket", "--color", "always"])).contains('\x1b'));
    assert!(!stdout(&fixture.run(&["search", "socket", "--color", "never"])).contains('\x1b'));
}

#[test]
fn json_keeps_the_contract() {
    let fixture = Fixture::new();
    let answer = fixture.json(&["search", "HeaderParser", ".", "--json", "-k", "1"]);
    assert_eq!(answer["query"], "HeaderParser");
    assert_eq!(answer["confident"], true);
    assert!(answer["took_ms"].as_f64().unwrap() >= 0.0);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    let first = &results[0];
    assert_eq!(first["rank"], 1);
    assert_eq!(first["path"], "http/header.py");
    assert_eq!((first["start_line"].as_u64(), first["end_line"].as_u64()), (Some(1), Some(2)));
    assert_eq!(
        (&first["name"], &first["kind"], &first["language"]),
        (&"HeaderParser".into(), &"type".into(), &"python".into())
    );
    assert!(first["snippet"].as_str().unwrap().contains("HeaderParser"));
    assert!(first["score"].as_f64().unwrap() > 0.0 && first["parts"]["defines"].as_bool().unwrap());
}

#[test]
fn paths_are_relative_to_the_searched_path() {
    let fixture = Fixture::new();
    let answer = fixture.json(&["search", "parse a line", "http", "--json"]);
    assert_eq!(answer["results"][0]["path"], "header.py");
    let answer = fixture.json(&["search", "parse a line", "http/header.py", "--json"]);
    assert_eq!(answer["results"][0]["path"], "header.py");
}

#[test]
fn what_is_not_there_exits_with_1_and_still_lists_results() {
    let fixture = Fixture::new();
    let output = fixture.run(&["search", "zebra unicorn host recipes", "--json", "--threshold", "0.9"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["confident"], false);
    assert!(!answer["results"].as_array().unwrap().is_empty());
    let output = fixture.run(&["search", "zebra unicorn host recipes", "--threshold", "0"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_long_definition_is_found_at_its_head() {
    let fixture = Fixture::new();
    // The later parts have more of the words, and the name of the whole.
    let body = "    print(make_plan, 'make plan')\n".repeat(150);
    fixture.write("tree/long.py", &format!("def make_plan(\n{}):\n{body}", "    argument,\n".repeat(150)));
    let answer = fixture.json(&["search", "make_plan", "--json"]);
    let results = answer["results"].as_array().unwrap();
    assert!(results.iter().filter(|result| result["name"] == "make_plan").count() > 1, "{answer}");
    assert_eq!((&results[0]["path"], &results[0]["start_line"]), (&"long.py".into(), &1.into()));
}

#[test]
fn errors_name_the_thing_and_exit_with_2() {
    let fixture = Fixture::new();
    check_error(&fixture.run(&["search", "x", "no/such/folder"]), "no/such/folder: no such file or folder");
    check_error(&fixture.run(&["search", "delete", "targets"]), "into quotes: \"delete targets\"");
    check_error(&fixture.run(&["search", "  "]), "the query has no word");
    check_error(&fixture.run(&["search", "x", "--model", "nothing"]), "nothing");
    fs::create_dir(fixture.path("tree/empty")).unwrap();
    check_error(&fixture.run(&["index", "empty"]), "empty: nothing to index; it holds no files");
    fixture.write("tree/blobs/a.unknown-kind", "x");
    check_error(&fixture.run(&["index", "blobs"]), "1 in no known language (such as a.unknown-kind)");
    fixture.write("occupied/file", "x");
    let occupied = fixture.path("occupied");
    check_error(&fixture.run(&["index", "--index", occupied.to_str().unwrap()]), "not an index folder");
    let below_a_file = fixture.path("occupied/file/index");
    check_error(
        &fixture.run(&["index", "--index", below_a_file.to_str().unwrap()]),
        "cannot write the index folder",
    );
}

#[test]
fn index_says_what_it_did() {
    let fixture = Fixture::new();
    let summary = fixture.json(&["index", "--json"]);
    assert_eq!((&summary["files"], &summary["built"]), (&2.into(), &true.into()));
    let units = summary["units"].as_u64().unwrap();
    assert!(units >= 3, "{summary}");
    assert_eq!(summary["embedded_units"].as_u64(), Some(units));
    assert_eq!(fixture.json(&["index", "--json"])["built"], false);
    let again = fixture.run(&["index"]);
    assert!(stderr(&again).contains("up to date") && stdout(&again).is_empty(), "{}", stderr(&again));
    assert_eq!(fixture.json(&["index", "--json", "--rebuild"])["built"], true);
}

#[test]
fn the_index_lies_in_the_cache_or_where_asked() {
    let fixture = Fixture::new();
    fixture.run(&["index"]);
    let in_cache: Vec<_> = fs::read_dir(fixture.path("cache/quarry/index")).unwrap().flatten().collect();
    assert_eq!(in_cache.len(), 1);
    assert!(in_cache[0].file_name().to_string_lossy().starts_with("tree-"));
    let own: &Path = &fixture.path("own");
    fixture.run(&["index", "--index", own.to_str().unwrap()]);
    assert!(own.join("manifest.json").is_file());
}

#[test]
fn an_index_of_another_version_is_rebuilt_with_a_word() {
    let fixture = Fixture::new();
    let own = fixture.path("own");
    let own = own.to_str().unwrap();
    fixture.run(&["index", "--index", own]);
    fs::write(fixture.path("own/manifest.json"), r#"{"format": 99, "generation": "generation-1"}"#).unwrap();
    let output = fixture.run(&["search", "socket", "--index", own]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("format 99"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let fixture = Fixture::new();
    let mut child =
        fixture.command(&["search", "socket"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn help_and_version_need_nothing() {
    let fixture = Fixture::new();
    for arguments in [["--help"].as_slice(), &["search", "--help"], &["--version"]] {
        assert_eq!(fixture.run(arguments).status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_path_in_an_indexed_tree_uses_its_index() {
    let fixture = Fixture::new();
    fixture.run(&["index"]);
    let answer = fixture.json(&["search", "parse a line", "http", "--json"]);
    assert_eq!(answer["results"][0]["path"], "header.py");
    assert_eq!(fs::read_dir(fixture.path("cache/quarry/index")).unwrap().count(), 1);
    let status = fixture.json(&["status", "http", "--json"]);
    assert_eq!((&status["part"], &status["holds"]["files_in_part"]), (&"http".into(), &1.into()));
    // Asked for by name, a folder gets an index of its own.
    assert_eq!(fixture.json(&["index", "http", "--json"])["files"], 1);
    assert_eq!(fixture.json(&["status", "http", "--json"])["part"], "");
}

#[test]
fn an_index_can_lie_in_the_tree() {
    let fixture = Fixture::new();
    fixture.run(&["index", "--local"]);
    assert!(fixture.path("tree/.quarry/manifest.json").is_file());
    assert_eq!(fixture.json(&["index", "--json"])["built"], false);
    let answer = fixture.json(&["search", "parse a line", "http", "--json"]);
    assert_eq!(answer["results"][0]["path"], "header.py");
    assert!(!fixture.path("cache").exists());
    check_error(&fixture.run(&["index", "net.py", "--local"]), "net.py: no folder");
}

#[test]
#[cfg(unix)]
fn without_space_the_former_index_answers() {
    let fixture = Fixture::new();
    let functions = |n: usize| {
        (0..n).map(|i| format!("def frobnicate_{i}(x):\n    return x + {i}\n\n")).collect::<String>()
    };
    fixture.write("tree/many.py", &functions(200));
    let nothing = fixture.run_without_space(&["search", "socket", "--threshold", "0"]);
    check_error(&nothing, "cannot write the index folder");
    for words in ["make room there", "MB", "cache/quarry/index/tree-"] {
        assert!(stderr(&nothing).contains(words), "{}", stderr(&nothing));
    }
    fixture.run(&["index"]);
    fixture.write("tree/more.py", &functions(300));
    let output = fixture.run_without_space(&["search", "open a socket", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("searching the index as it was (1 file new)"), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["results"][0]["path"], "net.py");
    check_error(&fixture.run_without_space(&["index"]), "make room there");
    assert_eq!(fixture.json(&["index", "--json"])["files"], 4);
}
