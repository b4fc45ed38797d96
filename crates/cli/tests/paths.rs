//! Search of files and several paths, with and without an index around them.

use std::fs;
#[cfg(feature = "transformers")]
use std::path::Path;

use crate::fixture::{Fixture, stderr, stdout};
#[cfg(feature = "transformers")]
use quarry_test_support::files::copy;
use serde_json::{Value, json};

#[test]
fn a_named_file_is_searched_although_all_files_around_it_became_ignored() {
    let fixture = Fixture::new();
    fixture.run("index");
    fixture.write("tree/.gitignore", "*.py\n");
    for path in ["net.py", "http/header.py"] {
        let output = fixture.run(&["search", "socket host header", path, "-l", "--threshold", "0"]);
        assert_eq!(stdout(&output), format!("{path}\n"), "{}", stderr(&output));
    }
    // A directory with nothing else in it says so itself.
    fixture.check_error("search socket http", "http: nothing to index");
    fixture.check_error("search socket", ": nothing to index");
}

#[test]
fn a_named_file_is_searched_regardless_of_ignored_and_hidden_options() {
    let fixture = Fixture::new();
    fixture.write("tree/.hidden.py", "def frobnicate():\n    pass\n");
    fixture.write("tree/out/made.py", "def frobnicate():\n    pass\n");
    fixture.write("tree/.gitignore", "out\n");
    fixture.run("index --hidden --no-ignore");
    for options in [&[][..], &["--ignore"], &["--no-hidden"], &["--ignore", "--no-hidden"], &["--hidden"]] {
        for path in [".hidden.py", "out/made.py"] {
            let output = fixture.run(&[&["search", "frobnicate", path, "-l"], options].concat());
            assert_eq!(stdout(&output), format!("{path}\n"), "{options:?}: {}", stderr(&output));
        }
    }
}

#[test]
fn the_reason_for_skipping_a_named_file_is_reported_with_and_without_an_enclosing_index() {
    let fixture = Fixture::new();
    fixture.write("tree/sub/malformed.ipynb", "{");
    fixture.write("tree/sub/large.py", &"socket = 1\n".repeat(200_000));
    fixture.write("tree/sub/good.py", &"socket = 1\n".repeat(20));
    let cell = json!({"cell_type": "code", "source": "socket = 1\n".repeat(200_000)});
    fixture.write("tree/sub/large.ipynb", &json!({"cells": [cell]}).to_string());
    for _ in 0..2 {
        for (arguments, words) in [
            (&["sub/malformed.ipynb"][..], "sub/malformed.ipynb: nothing to index; it is malformed"),
            (&["sub/large.py"], "sub/large.py: nothing to index; it is over the size limit"),
            (&["sub/large.ipynb"], "sub/large.ipynb: nothing to index; it is over the size limit"),
            (
                &["sub/good.py", "--max-bytes", "9"],
                "sub/good.py: nothing to index; it is over the size limit",
            ),
        ] {
            fixture.check_error(&[&["search", "open a socket"], arguments].concat(), words);
        }
        // Lines are searched in every text file.
        for (arguments, code) in [
            (&["sub/malformed.ipynb"][..], 1),
            (&["sub/large.py"], 0),
            (&["sub/good.py", "--max-bytes", "9"], 0),
        ] {
            let found = fixture.run(&[&["search", "-e", "socket", "-l"], arguments].concat());
            assert_eq!(found.status.code(), Some(code), "{arguments:?}: {}", stderr(&found));
        }
        fixture.run("index");
    }
}

#[test]
fn a_search_that_fails_leaves_nothing() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("tree/empty")).unwrap();
    fs::create_dir_all(fixture.path("named")).unwrap();
    fixture.write("tree/malformed.ipynb", "{");
    for path in ["empty", "malformed.ipynb"] {
        fixture.check_error(&format!("search 'open a socket' {path}"), "nothing to index");
        fixture.check_error(&format!("search 'open a socket' {path} --index ../made"), "nothing to index");
        fixture.check_error(&format!("search 'open a socket' {path} --index ../named"), "nothing to index");
    }
    assert_eq!(fixture.json("cache list --json")["entries"], json!([]));
    assert!(!fixture.path("made").exists());
    assert_eq!(fs::read_dir(fixture.path("named")).unwrap().count(), 0, "it was there before");
    // An index that is there stays.
    fixture.run("index");
    fixture.write("tree/.gitignore", "*\n");
    fixture.check_error("search 'open a socket'", "nothing to index");
    fs::remove_file(fixture.path("tree/.gitignore")).unwrap();
    assert_eq!(fixture.json("index --json")["embedded_units"], 0);
}

/// A copy of a small model, which can be removed.
#[cfg(feature = "transformers")]
fn tiny_model(fixture: &Fixture, name: &str) -> String {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-bert");
    copy(&model, &fixture.path(name));
    fixture.path(name).to_str().unwrap().to_owned()
}

#[test]
#[cfg(feature = "transformers")]
fn lines_are_found_regardless_of_the_models() {
    let fixture = Fixture::new();
    fixture.write("other/socket.py", "def listen(port):\n    return bind(port)\n");
    let model = tiny_model(&fixture, "model");
    fixture.run(&format!("index --model {model}"));
    fixture.run("index ../other");
    let lines = |paths: &[&str]| {
        let output = fixture.succeed(&[&["search", "--vimgrep", "-e", "^def"], paths].concat());
        stdout(&output)
    };
    let expected = lines(&["../other"]) + &lines(&["."]);
    assert_eq!(lines(&["../other", "."]), expected);
    fixture.check_error("search -e '^def' socket ../other .", "one model for both");
    fs::remove_dir_all(&model).unwrap();
    assert_eq!(lines(&["../other", "."]), expected);
    assert!(lines(&["."]).contains("net.py:1:1:def"));
    fixture.check_error(&format!("search -e '^def' --model {model}"), "model");
}

#[test]
#[cfg(feature = "transformers")]
fn remembered_settings_are_shown() {
    let fixture = Fixture::new();
    fixture.write("tree/.quarry.toml", "max_bytes = 2000\n");
    let model = tiny_model(&fixture, "model");
    let setting = |path: &str, name: &str| {
        let answer = fixture.json(&["config", path, "--json"]);
        let settings = answer["settings"].as_array().unwrap().clone();
        settings.into_iter().find(|setting| setting["name"] == name).unwrap()
    };
    let index = || fixture.json("status --json")["index"].clone();
    fixture.run("index");
    assert_eq!(setting(".", "model")["value"], Value::Null);
    assert_eq!(setting(".", "model")["from"], Value::Null);
    assert_eq!(setting(".", "max_bytes")["value"], 2000);
    let nothing = fixture.json("status --json")["holds"]["remembered"].clone();
    assert_eq!(nothing, json!({"model": null, "max_bytes": null, "hidden": null, "ignored": null}));

    fixture.run(&format!("index --model {model} --max-bytes 3000 --hidden"));
    for path in [".", "http"] {
        assert_eq!(setting(path, "model")["value"], model.as_str());
        assert_eq!(setting(path, "model")["from"], index());
        assert_eq!(setting(path, "max_bytes")["value"], 3000);
        assert_eq!(setting(path, "max_bytes")["from"], index());
    }
    let text = fixture.stdout("config");
    assert!(text.contains(&model) && text.contains("index"), "{text}");
    let holds = fixture.json("status --json")["holds"].clone();
    let expected = json!({"model": model, "max_bytes": 3000, "hidden": true, "ignored": null});
    assert_eq!(holds["remembered"], expected);
    let text = fixture.stdout("status");
    assert!(text.contains(&format!("options  --model {model} --max-bytes 3000 --hidden\n")), "{text}");
    // Also where the model is gone, and what is shown of the index may not be read.
    fs::remove_dir_all(&model).unwrap();
    assert_eq!(setting(".", "model")["value"], model.as_str());
    fixture.run("index --model builtin --no-hidden");
    assert_eq!(setting(".", "model")["value"], "builtin");
    let text = fixture.stdout("status");
    assert!(text.contains("options  --model builtin --max-bytes 3000 --no-hidden\n"), "{text}");
}

#[test]
#[cfg(unix)]
fn options_apply_when_the_index_cannot_be_written() {
    let fixture = Fixture::new();
    fixture.write("tree/.hidden.py", "def frobnicate_hidden():\n    pass\n");
    fixture.write("tree/.gitignore", "out\n");
    fixture.write("tree/out/made.py", "def frobnicate_ignored():\n    pass\n");
    let functions: String =
        (0..300).map(|i| format!("def frobnicate_{i}(x):\n    return x + {i}\n\n")).collect();
    fixture.write("tree/.many.py", &functions);
    fixture.run("index");
    let found = |options: &[&str]| {
        let arguments = [&["search", "-e", "frobnicate_(hidden|ignored)", "-l"], options].concat();
        let output = fixture.run_without_space(&arguments);
        (stdout(&output), stderr(&output))
    };
    let (files, printed) = found(&["--hidden"]);
    assert_eq!(files, ".hidden.py\n", "{printed}");
    assert!(printed.contains("in memory"), "{printed}");
    assert!(printed.contains("cannot write the index directory"), "{printed}");
    let (files, printed) = found(&["--hidden", "--no-ignore"]);
    assert_eq!(files, ".hidden.py\nout/made.py\n", "{printed}");
    // Without other options, the existing index answers.
    fixture.write("tree/more.py", &functions.replace("frobnicate", "calibrate"));
    let (files, printed) = found(&[]);
    assert!(files.is_empty() && printed.contains("searching the existing index (1 file new)"), "{printed}");
}

#[test]
fn the_reason_for_not_writing_an_index_is_printed_once_and_not_with_quiet() {
    let fixture = Fixture::new();
    fixture.write("other/socket.py", "def listen(port):\n    return bind(port)\n");
    for arguments in
        [&["search", "open a socket", ".", "../other"][..], &["search", "-e", "def", ".", "../other"]]
    {
        let output = fixture.run_without_cache(arguments);
        assert_eq!(stderr(&output).matches("in memory").count(), 1, "{}", stderr(&output));
        let quiet = fixture.run_without_cache(&[arguments, &["-q"]].concat());
        assert_eq!(quiet.status.code(), Some(0));
        assert_eq!(stderr(&quiet), "");
        assert_eq!(stdout(&quiet), "");
    }
    let similar = fixture.run_without_cache(&["similar", "net.py:1", "-q", "--threshold", "0"]);
    assert_eq!((similar.status.code(), stderr(&similar).as_str()), (Some(0), ""));
    fs::create_dir(fixture.path("tree/empty")).unwrap();
    let quiet = fixture.run("search 'open a socket' empty net.py -q");
    assert_eq!((quiet.status.code(), stderr(&quiet).as_str()), (Some(0), ""));
    // An error is reported all the same.
    fixture.check_error("search 'open a socket' empty -q", "empty: nothing to index");
}

#[test]
fn a_path_is_not_taken_for_an_option() {
    let fixture = Fixture::new();
    fixture.write("tree/-l.py", "def frobnicate():\n    pass\n");
    fixture.write("tree/-d/a.py", "def frobnicate_too():\n    pass\n");
    let search = |arguments: &[&str]| fixture.stdout(&[&["search", "-e", "frobnicate"], arguments].concat());
    assert_eq!(search(&["-l", "-0"]), "./-d/a.py\0./-l.py\0");
    assert_eq!(search(&["-l"]), "./-d/a.py\n./-l.py\n");
    assert!(search(&["--vimgrep"]).starts_with("./-d/a.py:1:5:"));
    assert_eq!(search(&["-l", "./-d"]), "./-d/a.py\n");
    // In JSON, paths are relative to the root.
    let answer: Value = serde_json::from_str(&search(&["--json"])).unwrap();
    assert_eq!(answer["results"][1]["path"], "-l.py");
}

/// As of ripgrep, globs are relative to the current directory; and to the path that is searched.
#[test]
fn globs_are_relative_to_the_current_directory_or_to_the_path() {
    let fixture = Fixture::new();
    fixture.write("tree/a/x/one.py", "def frobnicate():\n    pass\n");
    fixture.write("tree/b/x/two.py", "def frobnicate():\n    pass\n");
    let search =
        |arguments: &[&str]| fixture.stdout(&[&["search", "-e", "frobnicate", "-l"], arguments].concat());
    let (one, two) = ("a/x/one.py\n", "b/x/two.py\n");
    for paths in [&["."][..], &["a", "b"], &["a/x", "b/x/two.py"], &["./a", "b"]] {
        let search = |globs: &[&str]| search(&[paths, globs].concat());
        assert_eq!(search(&["-g", "a/x/*.py"]), one, "{paths:?}");
        assert_eq!(search(&["-g", "/b/**"]), two, "{paths:?}");
        assert_eq!(search(&["-g", "!a/**"]), two, "{paths:?}");
        assert_eq!(search(&["-g", "*.py", "-g", "!b/x/two.py"]), one, "{paths:?}");
        assert_eq!(search(&["-g", "!a/**", "-g", "a/x/one.py"]), one, "{paths:?}");
    }
    assert_eq!(search(&["a", "b", "-g", "x/*.py"]), format!("{one}{two}"));
    assert_eq!(search(&["a", "b", "-g", "!x/two.py"]), one);
    assert_eq!(search(&["a", "b", "-g", "x/*.py", "-g", "!b/**"]), one);
}

#[test]
fn the_settings_of_each_tree_apply_in_it() {
    let fixture = Fixture::new();
    fixture.write("other/socket.py", "def listen(port):\n    return bind(port)\n");
    fixture.write("other/socket_test.py", "def test_socket():\n    assert listen(1)\n");
    fixture.write("other/.quarry.toml", "globs = [\"!*_test.py\"]\nlimit = 1\n");
    fixture.write("tree/.quarry.toml", "limit = 1\n");
    fixture.write("tree/http/net_test.py", "def test_socket_too():\n    assert connect(1)\n");
    let found = fixture.stdout(&["search", "socket", ".", "../other", "-l", "--threshold", "0"]);
    assert!(found.contains("http/net_test.py") && !found.contains("../other/socket_test.py"), "{found}");
    assert!(found.lines().count() > 1, "{found}");
}
