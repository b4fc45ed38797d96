//! `quarry index` and `quarry search` as a user or a script runs them.

use std::fs;
use std::process::{Command, Stdio};

use crate::fixture::{Fixture, check_error, stderr, stdout};
use serde_json::Value;

#[test]
fn search_indexes_on_first_use_and_prints_plain_text_into_a_pipe() {
    let fixture = Fixture::new();
    let output = fixture.succeed("search 'open a socket'");
    let text = stdout(&output);
    assert!(text.starts_with(" 1. net.py:1  function connect"), "{text}");
    assert!(text.contains("    def connect(host)\n       2 │     \"\"\"Open a socket"), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
}

#[test]
fn color_comes_when_asked_for() {
    let fixture = Fixture::new();
    assert!(fixture.stdout(&["search", "socket", "--color", "always"]).contains('\x1b'));
    assert!(!fixture.stdout(&["search", "socket", "--color", "never"]).contains('\x1b'));
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
    assert_eq!(first["name"], "HeaderParser");
    assert_eq!(first["kind"], "type");
    assert_eq!(first["language"], "python");
    assert!(first["snippet"].as_str().unwrap().contains("HeaderParser"));
    assert!(first["score"].as_f64().unwrap() > 0.0 && first["parts"]["defines"].as_bool().unwrap());
}

#[test]
fn programs_get_paths_relative_to_the_searched_path_with_its_root() {
    let fixture = Fixture::new();
    let root = fixture.path("tree/http").canonicalize().unwrap();
    for path in ["http", "./http/", "http/header.py", root.to_str().unwrap()] {
        let answer = fixture.json(&["search", "parse a line", path, "--json"]);
        let result = &answer["results"][0];
        assert_eq!(result["path"], "header.py", "{path}");
        assert_eq!(answer["root"].as_str(), root.to_str(), "{path}");
        assert_eq!(result["root"].as_str(), root.to_str(), "{path}");
    }
}

#[test]
fn people_get_paths_that_open_from_where_they_are() {
    let fixture = Fixture::new();
    let absolute = fixture.path("tree").canonicalize().unwrap();
    let absolute = absolute.to_str().unwrap();
    let first = |current: &str, arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        let output = command.current_dir(fixture.path(current)).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).lines().next().unwrap_or_default().to_owned()
    };
    for (current, path, expected) in [
        ("tree", ".", "http/header.py"),
        ("tree", "http", "http/header.py"),
        ("tree", "http/header.py", "http/header.py"),
        ("tree", absolute, "http/header.py"),
        ("tree/http", "..", "../http/header.py"),
        ("tree/http", "header.py", "header.py"),
        (".", "tree/http", "tree/http/header.py"),
    ] {
        assert!(fixture.path(current).join(expected).is_file());
        let search =
            |options: &[&str]| first(current, &[&["search", "header parser", path], options].concat());
        assert!(search(&[]).starts_with(&format!(" 1. {expected}:")), "{current} {path}: {}", search(&[]));
        assert_eq!(search(&["-l"]), expected, "{current} {path}");
        assert!(search(&["--vimgrep"]).starts_with(&format!("{expected}:1:")), "{}", search(&["--vimgrep"]));
        assert!(search(&["-e", "parse"]).contains(&format!(" {expected}:")), "{current} {path}");
    }
    fs::create_dir(fixture.path("tree/http/v2")).unwrap();
    let place = first("tree/http", &["similar", "../net.py:1", "..", "-l", "--threshold", "0"]);
    assert_eq!(place, "../http/header.py");
    let elsewhere = first("tree/http/v2", &["search", "header parser", absolute, "-l"]);
    assert_eq!(elsewhere, format!("{absolute}/http/header.py"));
}

#[test]
fn a_missing_subject_exits_with_1_and_still_lists_results() {
    let fixture = Fixture::new();
    let output = fixture.run("search 'zebra unicorn host recipes' --json --threshold 0.9");
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["confident"], false);
    assert!(!answer["results"].as_array().unwrap().is_empty());
    let output = fixture.run("search 'zebra unicorn host recipes' --threshold 0");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn low_confidence_is_stated_in_text() {
    let fixture = Fixture::new();
    let search =
        |arguments: &[&str]| fixture.run(&[&["search", "zebra unicorn host recipes"], arguments].concat());
    let unsure = search(&["--threshold", "0.9"]);
    let text = stdout(&unsure);
    assert_eq!(text.lines().next(), Some("No match clearly answers the query; showing the closest ones:"));
    assert!(text.contains("\n 1. net.py:1  function connect\n"), "{text}");
    assert_eq!((unsure.status.code(), stderr(&unsure).contains("clearly")), (Some(1), false));
    assert!(stdout(&search(&["--threshold", "0"])).starts_with(" 1. net.py"));
    // For programs, warnings are beside the results, or in them.
    let paths = search(&["--threshold", "0.9", "-l"]);
    assert!(stdout(&paths).starts_with("net.py\n"), "{}", stdout(&paths));
    assert!(stderr(&paths).contains("clearly answers"), "{}", stderr(&paths));
    let similar = fixture.stdout(&["similar", "net.py:1", "--threshold", "1"]);
    assert!(similar.starts_with("No unit is clearly similar; showing the closest ones:\n"), "{similar}");
}

#[test]
fn text_shows_no_score() {
    let fixture = Fixture::new();
    let heading = |arguments: &[&str]| {
        let text = fixture.stdout(arguments);
        text.lines().find(|line| line.contains(" 1. ")).unwrap_or_default().to_owned()
    };
    assert_eq!(heading(&["search", "open a socket"]), " 1. net.py:1  function connect");
    let similar = heading(&["similar", "net.py:1", "-k", "1"]);
    assert_eq!(similar, " 1. http/header.py:4  method HeaderParser.parse");
}

#[test]
fn a_long_definition_is_found_at_its_head() {
    let fixture = Fixture::new();
    // The later parts have more of the words, and the name of the whole.
    let body = "    print(make_plan, 'make plan')\n".repeat(150);
    fixture.write("tree/long.py", &format!("def make_plan(\n{}):\n{body}", "    argument,\n".repeat(150)));
    let answer = fixture.json("search make_plan --json");
    let results = answer["results"].as_array().unwrap();
    // All of its parts are one result.
    assert_eq!(results.iter().filter(|result| result["name"] == "make_plan").count(), 1, "{answer}");
    assert_eq!((&results[0]["path"], &results[0]["start_line"]), (&"long.py".into(), &1.into()));
}

#[test]
fn errors_name_the_thing_and_exit_with_2() {
    let fixture = Fixture::new();
    fixture.check_error("search x no/such/directory", "no/such/directory: no such file or directory");
    fixture.check_error("search delete targets", "in quotes: \"delete targets\"");
    fixture.check_error("search '  '", "the query has no word");
    fixture.check_error("search x --model nothing", "nothing");
    fixture.check_error("search socket -k 0", "at least 1");
    fixture.check_error("similar net.py:1 -k 0", "at least 1");
    fixture.check_error("pick -k 0", "at least 1");
    fs::create_dir(fixture.path("tree/empty")).unwrap();
    fixture.check_error("index empty", "empty: nothing to index; it contains no files");
    fixture.write("tree/blank/a.py", "()\n");
    fixture.write("tree/blank/b.c", "\n");
    let blank = fixture.run("index blank");
    check_error(&blank, "blank: nothing to index; 2 files without words (such as a.py)");
    fixture.check_error("index blank/a.py", "it has no words");
    fixture.write("tree/blobs/a.unknown-kind", "x");
    fixture.check_error("index blobs", "1 in an unknown language (such as a.unknown-kind)");
    fixture.write("occupied/file", "x");
    fixture.check_error("index --index ../occupied", "not an index directory");
    fixture.check_error("index --index ../occupied/file/index", "cannot write the index directory");
}

#[test]
fn index_says_what_it_did() {
    let fixture = Fixture::new();
    let summary = fixture.json("index --json");
    assert_eq!((&summary["files"], &summary["built"]), (&2.into(), &true.into()));
    let units = summary["units"].as_u64().unwrap();
    assert!(units >= 3, "{summary}");
    assert_eq!(summary["embedded_units"].as_u64(), Some(units));
    assert_eq!(summary["reason"], Value::Null, "there was nothing wrong with an index: {summary}");
    assert_eq!(fixture.json("index --json")["built"], false);
    let again = fixture.run("index");
    assert!(stderr(&again).contains("up to date") && stdout(&again).is_empty(), "{}", stderr(&again));
    assert_eq!(fixture.json("index --json --rebuild")["built"], true);
    let first = Fixture::new().stderr("index --quality fast");
    assert!(first.contains("indexed 3 units in 2 files in ") && first.ends_with(" s\n"), "{first}");
    fixture.write("tree/net.py", "def one(): pass\n");
    fs::remove_file(fixture.path("tree/http/header.py")).unwrap();
    let changed = fixture.stderr("index --quality fast");
    assert!(changed.contains("indexed 1 unit in 1 file in "), "{changed}");
    assert!(changed.ends_with("(1 file changed, 1 removed)\n"), "{changed}");
}

#[test]
fn the_index_is_in_the_cache_or_in_the_given_directory() {
    let fixture = Fixture::new();
    fixture.run("index");
    let in_cache: Vec<_> = fs::read_dir(fixture.path("cache/quarry/index")).unwrap().flatten().collect();
    assert_eq!(in_cache.len(), 1);
    assert!(in_cache[0].file_name().to_string_lossy().starts_with("tree-"));
    fixture.run("index --index ../own");
    assert!(fixture.path("own/manifest.json").is_file());
}

#[test]
fn an_index_of_another_version_is_rebuilt_with_a_word() {
    let fixture = Fixture::new();
    fixture.run("index --index ../own");
    fs::write(fixture.path("own/manifest.json"), r#"{"format": 99, "generation": "generation-1"}"#).unwrap();
    let output = fixture.succeed("search socket --index ../own");
    assert!(stderr(&output).contains("format 99"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let fixture = Fixture::new();
    let mut child =
        fixture.command("search socket").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
    fixture.run("index");
    let answer = fixture.json("search 'parse a line' http --json");
    assert_eq!(answer["results"][0]["path"], "header.py");
    assert_eq!(fs::read_dir(fixture.path("cache/quarry/index")).unwrap().count(), 1);
    let status = fixture.json("status http --json");
    assert_eq!((&status["part"], &status["holds"]["files_in_part"]), (&"http".into(), &1.into()));
    // Asked for by name, a directory gets an index of its own.
    assert_eq!(fixture.json("index http --json")["files"], 1);
    assert_eq!(fixture.json("status http --json")["part"], "");
}

#[test]
fn options_of_an_index_hold_until_they_are_changed() {
    let fixture = Fixture::new();
    let large = format!("def frobnicate():\n    pass\n{}", "# Filler.\n".repeat(200_000));
    fixture.write("tree/large.py", &large);
    fixture.write("tree/.hidden/secret.py", "def frobnicate_hidden():\n    pass\n");
    fixture.write("tree/out/made.py", "def frobnicate_ignored():\n    pass\n");
    fixture.write("tree/.gitignore", "out\n");
    let found = |options: &[&str]| {
        let arguments =
            ["search", "frobnicate", "-l", "--json", "--threshold", "0", "-g", "!net.py", "-g", "!http/**"];
        let answer = fixture.json(&[&arguments, options].concat());
        let results = answer["results"].as_array().unwrap().iter();
        let mut paths: Vec<String> =
            results.map(|result| result["path"].as_str().unwrap().to_owned()).collect();
        paths.sort_unstable();
        paths
    };
    let (large, hidden, ignored) = ("large.py", ".hidden/secret.py", "out/made.py");
    assert_eq!(found(&[]), [""; 0]);
    // Options of a search hold for it alone, and undo nothing.
    assert_eq!(found(&["--max-bytes", "10M"]), [large]);
    assert_eq!(found(&[]), [""; 0]);
    assert_eq!(found(&["--hidden"]), [hidden]);
    assert_eq!(found(&["--no-ignore"]), [ignored]);
    assert_eq!(found(&["--hidden", "--no-ignore", "--max-bytes", "10M"]), [hidden, large, ignored]);
    assert_eq!(fixture.json("status --json")["fresh"], true);
    // Options of `quarry index` hold for all, and the index holds nothing else.
    assert_eq!(fixture.json("index --json --max-bytes 10000000")["files"], 3);
    assert_eq!(found(&[]), [large]);
    assert_eq!(fixture.json("index --json")["built"], false);
    fixture.run("index --hidden --no-ignore");
    assert_eq!(found(&[]), [hidden, large, ignored]);
    assert_eq!(found(&["--no-hidden", "--max-bytes", "1M"]), [ignored]);
    assert_eq!(found(&["--ignore"]), [hidden, large]);
    assert_eq!(fixture.json("index --json")["built"], false, "no search has undone it");
    assert_eq!(fixture.json("index --json --no-hidden --ignore --max-bytes 1M")["files"], 2);
    assert_eq!(found(&[]), [""; 0]);
}

#[test]
fn a_file_that_is_named_is_searched_even_if_it_is_ignored() {
    let fixture = Fixture::new();
    fixture.write("tree/.hidden.py", "def frobnicate():\n    pass\n");
    fixture.write("tree/out/made.py", "def frobnicate():\n    pass\n");
    fixture.write("tree/.gitignore", "out\n");
    fixture.run("index");
    for path in [".hidden.py", "out/made.py"] {
        assert_eq!(fixture.stdout(&["search", "frobnicate", path, "-l"]), format!("{path}\n"));
    }
}

#[test]
fn an_index_can_lie_in_the_tree() {
    let fixture = Fixture::new();
    fixture.run("index --local");
    assert!(fixture.path("tree/.quarry/manifest.json").is_file());
    assert_eq!(fixture.json("index --json")["built"], false);
    let answer = fixture.json("search 'parse a line' http --json");
    assert_eq!(answer["results"][0]["path"], "header.py");
    assert!(!fixture.path("cache").exists());
    fixture.check_error("index net.py --local", "net.py: not a directory");
}

#[test]
#[cfg(unix)]
fn without_space_the_former_index_answers() {
    let fixture = Fixture::new();
    let functions = |n: usize| {
        (0..n).map(|i| format!("def frobnicate_{i}(x):\n    return x + {i}\n\n")).collect::<String>()
    };
    fixture.write("tree/many.py", &functions(200));
    // It fills up in the middle of the build: nothing is left behind, and the index is in memory.
    let first = fixture.run_without_space("search 'open a socket' -l -k 1");
    assert_eq!((first.status.code(), stdout(&first).as_str()), (Some(0), "net.py\n"), "{}", stderr(&first));
    assert_eq!(fs::read_dir(fixture.path("cache/quarry/index")).unwrap().count(), 0);
    let nothing = fixture.run_without_space("search socket --index ../named");
    check_error(&nothing, "cannot write the index directory");
    for words in ["free some space", "MB", "named"] {
        assert!(stderr(&nothing).contains(words), "{}", stderr(&nothing));
    }
    fixture.run("index");
    fixture.write("tree/more.py", &functions(300));
    let output = fixture.run_without_space("search 'open a socket' --json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("searching the existing index (1 file new)"), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["results"][0]["path"], "net.py");
    check_error(&fixture.run_without_space("index"), "free some space");
    assert_eq!(fixture.json("index --json")["files"], 4);
}

#[test]
fn without_a_cache_the_index_is_in_memory() {
    let fixture = Fixture::new();
    let expected = fixture.stdout("search 'open a socket'");
    let output = fixture.run_without_cache("search 'open a socket'");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), expected);
    let warning = stderr(&output);
    assert_eq!(warning.lines().count(), 1, "{warning}");
    for words in ["in memory", "cannot write the index directory", "file/cache", "XDG_CACHE_HOME", "--index"]
    {
        assert!(warning.contains(words), "{words}: {warning}");
    }
    let similar = fixture.run_without_cache(&["similar", "net.py:1", "-l", "--threshold", "0"]);
    assert_eq!(stdout(&similar), "http/header.py\n", "{}", stderr(&similar));
    // Commands that must write an index fail, and so does a search that must not build one.
    check_error(&fixture.run_without_cache("index"), "cannot write the index directory");
    let as_it_is = fixture.run_without_cache("search socket --no-index-update");
    check_error(&as_it_is, "there is no index yet");
    let doctor = fixture.run_without_cache(&["doctor"]);
    assert!(stdout(&doctor).contains("in memory"), "{}", stdout(&doctor));
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_writable_directory_the_index_is_in_memory() {
    let fixture = Fixture::new();
    for home in ["/proc/nonexistent", "/proc/self"] {
        let mut command = fixture.command("search 'open a socket' -l -k 1");
        command.env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME").env("HOME", home);
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "net.py\n"), "{home}");
        assert!(stderr(&output).contains("in memory"), "{}", stderr(&output));
    }
}

/// An index in the tree is not part of the tree, whatever it is called.
#[test]
fn an_index_is_not_indexed() {
    let fixture = Fixture::new();
    let index = |arguments: &[&str]| {
        let listed = [&["index", "--no-ignore", "--hidden", "--json"], arguments].concat();
        let summary = fixture.json(&listed);
        (summary["files"].as_u64().unwrap(), summary["skipped"].as_object().unwrap().len())
    };
    for _ in 0..2 {
        assert_eq!(index(&["--rebuild", "--index", "made/here"]), (2, 0));
    }
    fs::remove_file(fixture.path("tree/made/here/manifest.json")).unwrap();
    assert_eq!(index(&["--rebuild"]), (2, 0));
    // A directory that is an index in name only is part of the tree.
    fixture.write("tree/made/here/.gitignore", "*.o");
    fixture.write("tree/made/here/retry.py", "def retry(): pass\n");
    assert_eq!(index(&["--rebuild"]).0, 3);
}

/// An unreadable file is reported as such, not as one without the word.
#[test]
fn unreadable_paths_are_reported() {
    let fixture = Fixture::new();
    fixture.write("tree/odd/binary.py", "socket = 1\0\n");
    fixture.write("tree/empty/empty.py", "");
    fixture.write("tree/large/large.py", &"socket = 1\n".repeat(200_000));
    // Found in an index of the whole tree, or in one of their own.
    for _ in 0..2 {
        for (path, words) in [
            ("odd/binary.py", "odd/binary.py: nothing to index; it is binary"),
            ("odd", "odd: nothing to index; skipped 1 binary (such as binary.py)"),
            ("large/large.py", "large/large.py: nothing to index; it is over the size limit"),
        ] {
            fixture.check_error(&format!("search 'open a socket' {path}"), words);
            // Lines are searched in every text file, however large.
            let exact = fixture.run(&["search", "-e", "socket", path]);
            let is_text = path == "large/large.py";
            assert_eq!(exact.status.code(), Some(i32::from(!is_text)), "{path}: {}", stderr(&exact));
            assert_eq!(stderr(&exact).contains("no line of the searched text files"), !is_text);
        }
        fixture.run("index");
    }
    fixture.check_error("index empty/empty.py", "nothing to index; it is empty");
    #[cfg(unix)]
    {
        use std::fs::{Permissions, set_permissions};
        use std::os::unix::fs::PermissionsExt;

        // The superuser cannot read it either.
        let pipe = Command::new("mkfifo").arg(fixture.path("tree/.gitignore")).status();
        assert!(pipe.unwrap().success());
        let output = fixture.run("search 'knit a woollen mitten'");
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(
            printed.contains("1 path could not be read, such as .gitignore: unreadable: a pipe"),
            "{printed}"
        );
        set_permissions(fixture.path("tree/net.py"), Permissions::from_mode(0o000)).unwrap();
        if fs::read(fixture.path("tree/net.py")).is_err() {
            let words = "net.py: nothing to index; it is unreadable: Permission denied";
            fixture.check_error("search 'open a socket' net.py", words);
        }
    }
}

#[test]
fn an_empty_directory_among_several_paths_is_named_and_left_out() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("tree/empty")).unwrap();
    let together = fixture.succeed("search 'open a socket' empty net.py -l");
    assert_eq!(stdout(&together), "net.py\n");
    let error = stderr(&together);
    assert!(error.contains("empty: nothing to index; it contains no files"), "{error}");
    fixture.check_error("search 'open a socket' empty", "empty: nothing to index");
    fixture.check_error("search 'open a socket' empty empty", "empty: nothing to index");
}

#[test]
fn similar_code_is_found_in_several_paths() {
    let fixture = Fixture::new();
    fixture.write(
        "other/socket.py",
        "def listen(port):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(port)\n",
    );
    let similar =
        ["similar", "../other/socket.py:2", "net.py", "http", "../other", "--threshold", "0", "--json"];
    let answer = fixture.json(&similar);
    assert_eq!(answer["similar_to"]["path"], "socket.py");
    assert_eq!(answer["similar_to"]["name"], "listen");
    assert_eq!(answer["results"][0]["path"], "net.py", "{answer}");
    assert_eq!(answer["roots"].as_array().unwrap().len(), 3);
    // The innermost path decides, and the position need not be in the first one.
    let nested = fixture.json(&["similar", "http/header.py:4", ".", "http", "--threshold", "0", "--json"]);
    assert_eq!(nested["similar_to"]["path"], "header.py", "{nested}");
    assert!(
        nested["results"].as_array().unwrap().iter().any(|result| result["path"] == "net.py"),
        "{nested}"
    );
    fixture.check_error("similar ../other/socket.py:2 net.py http", "is not in any PATH");
}

#[test]
fn several_paths_are_ranked_together() {
    let fixture = Fixture::new();
    fixture.write(
        "other/socket.py",
        "def listen(port):\n    \"\"\"Open a socket that listens.\"\"\"\n    return bind(port)\n",
    );
    let other = fixture.path("other").canonicalize().unwrap();
    let tree = fixture.path("tree").canonicalize().unwrap();
    let (other, tree) = (other.to_str().unwrap(), tree.to_str().unwrap());
    let search = |arguments: &[&str]| {
        let paths = ["../other", "net.py", "http", "http", "http/header.py", other];
        fixture.run(
            &[&["search", "open a socket and split", "--threshold", "0"], &paths[..], arguments].concat(),
        )
    };
    let answer: Value = serde_json::from_slice(&search(&["--json"]).stdout).unwrap();
    assert!(answer.get("root").is_none(), "{answer}");
    let http = format!("{tree}/http");
    assert_eq!(answer["roots"], serde_json::json!([other, tree, http]));
    let place =
        |result: &Value| format!("{}/{}", result["root"].as_str().unwrap(), result["path"].as_str().unwrap());
    let mut files: Vec<String> = answer["results"].as_array().unwrap().iter().map(place).collect();
    assert_eq!(files[2..].iter().filter(|file| !file.ends_with("header.py")).count(), 0, "{files:?}");
    files.dedup();
    files.sort_unstable();
    assert_eq!(files, [format!("{other}/socket.py"), format!("{http}/header.py"), format!("{tree}/net.py")]);

    // From the current directory, as with one path.
    let paths = stdout(&search(&["-l"]));
    let mut lines: Vec<&str> = paths.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["../other/socket.py", "http/header.py", "net.py"]);
    assert_eq!(stdout(&search(&["-l", "-0"])).matches('\0').count(), 3);
    assert!(stdout(&search(&["--vimgrep"])).contains("../other/socket.py:"));
    assert!(stdout(&search(&["-C", "1"])).contains(". net.py:1  function connect"));
    let explained = stdout(&search(&["--explain=numbers"]));
    assert_eq!(explained.matches("    score ").count(), answer["results"].as_array().unwrap().len());
    assert_eq!((search(&["-q"]).status.code(), stdout(&search(&["-q"])).as_str()), (Some(0), ""));
    assert_eq!(stdout(&search(&["--jsonl", "-k", "1"])).lines().count(), 1);
    // Lines of several paths; the first argument is one too.
    let lines = fixture.stdout(&["search", "-e", "^def", "net.py", "../other"]);
    assert!(lines.contains("net.py:1") && lines.contains("../other/socket.py:1"), "{lines}");
    let ordered = fixture.run("search -e '^def' 'listen on a port' net.py ../other --explain");
    assert!(
        stdout(&ordered).starts_with(" 1. ../other/socket.py:1"),
        "{}{}",
        stdout(&ordered),
        stderr(&ordered)
    );
    // Nothing is searched where one of them is missing.
    fixture.check_error("search socket net.py nowhere http", "nowhere: no such file or directory");
    fixture.check_error("search -e def net.py nowhere", "nowhere: no such file or directory");
    fixture.check_error("search open a socket net.py", "in quotes: \"open a socket\"");
    fixture.check_error("search socket net.py http --index x", "one path");
    // Without a cache as well.
    let in_memory =
        fixture.run_without_cache("search 'open a socket and split' http net.py ../other -l -k 9");
    assert_eq!(stdout(&in_memory).lines().count(), 3, "{}", stderr(&in_memory));
}

#[test]
fn results_without_words_of_the_query_can_be_explained() {
    let fixture = Fixture::new();
    fixture.write("tree/zero.txt", "1234567890\n");
    let output = fixture.succeed("search -e '^(def|123)' 'open a socket' --explain=numbers --threshold 0");
    assert_eq!(stdout(&output).matches("    score ").count(), 2, "{}", stdout(&output));
}

#[test]
fn a_query_has_phrases_expressions_and_filters() {
    let fixture = Fixture::new();
    let names = |query: &str| {
        let answer = fixture.json(&["search", query, "--json"]);
        let results = answer["results"].as_array().unwrap().iter();
        results.map(|result| result["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("\"LINE.SPLIT\""), ["HeaderParser.parse"]);
    assert!(names("\"LINE.SPLIT\" case:yes").is_empty());
    assert_eq!(names("socket /host\\)/"), ["connect"]);
    assert_eq!(names("header path:net").first().unwrap(), "connect");
    assert_eq!(names("name:PARSE*"), ["HeaderParser.parse"]);
    assert!(!names("socket kind:type").contains(&"connect".to_owned()));
    assert!(!names("socket tree:tree !path:net").contains(&"connect".to_owned()));
    let answer = fixture.json("search 'socket \"dial\"' --json");
    assert_eq!((&answer["query"], &answer["patterns"][0]), (&"socket \"dial\"".into(), &"dial".into()));
    assert_eq!(answer["results"][0]["matches"][0]["line"], 3);

    let broken = fixture.run("search 'socket /dial(/'");
    check_error(&broken, "`/dial(/` is not a regular expression");
    assert!(stderr(&broken).contains("dial(\n") && stderr(&broken).contains("^"), "{}", stderr(&broken));
    fixture.check_error("search 'socket tree:shop'", "unknown tree \"shop\"; the searched ones are tree");
    let hint = fixture.run("search 'socket file:net.py'");
    assert!(stderr(&hint).contains("did you mean `path:`?"), "{}", stderr(&hint));
}

#[test]
fn texts_are_not_read_as_queries() {
    let fixture = Fixture::new();
    let text = "open a socket \"zebra\" lang:rust";
    let found = |arguments: &[&str], input: &str| {
        let mut command = fixture.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    assert!(found(&["search", "-", "-l"], text).starts_with("net.py\n"));
    assert!(found(&["search", &format!("{text}\n/zebra/"), "-l"], "").starts_with("net.py\n"));
    assert!(!fixture.stdout(&["search", text, "-l"]).contains("net.py"));
}

#[test]
fn exact_search_reads_every_text_file() {
    let fixture = Fixture::new();
    fixture.write("tree/site.caddyfiletest", ":80 {\n\treverse_proxy host:8080\n}\n");
    fixture.write("tree/00-RELEASENOTES", "The socket is closed.\n");
    fixture.write("tree/only/a.cheatmd", "# Open a Socket\n");
    fixture.write("tree/data.unknown", "\0socket");
    fixture.write("tree/.hidden", "socket");
    let paths = |arguments: &[&str]| {
        let text = fixture.stdout(&[&["search", "-l"], arguments].concat());
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(paths(&["-e", "[Ss]ocket"]), ["00-RELEASENOTES", "net.py", "only/a.cheatmd"]);
    assert_eq!(paths(&["/reverse_proxy/"]), ["site.caddyfiletest"]);
    assert_eq!(paths(&["-e", "socket", "-i", "-g", "*.cheatmd"]), ["only/a.cheatmd"]);
    assert_eq!(paths(&["-e", "socket", "--hidden"]), [".hidden", "00-RELEASENOTES", "net.py"]);
    // The same in paths without indexed files.
    for path in ["only", "only/a.cheatmd"] {
        assert_eq!(paths(&["-e", "Socket", path]), ["only/a.cheatmd"], "{path}");
        fixture.check_error(&format!("search 'open a socket' {path}"), "nothing to index");
    }
    assert_eq!(paths(&["-e", "Socket", "only", "http"]), ["only/a.cheatmd"]);
    let shown = fixture.stdout("search -e reverse_proxy -C 1");
    assert!(shown.starts_with(" 1. site.caddyfiletest:2") && shown.contains(":80 {"), "{shown}");
    // By meaning they are not found, unless a setting gives them a language.
    assert!(!paths(&["reverse proxy", "--threshold", "0"]).contains(&"site.caddyfiletest".to_owned()));
    fixture.write("tree/.quarry.toml", "[languages]\ncaddyfiletest = \"text\"\n");
    assert_eq!(paths(&["reverse proxy to a host", "--threshold", "0"])[0], "site.caddyfiletest");
    let kinds = fixture.run("search -e ocket --kind function");
    assert!(stderr(&kinds).contains("leaves out 3 files without units"), "{}", stderr(&kinds));
}

#[test]
fn calls_outside_of_definitions_have_one_heading() {
    let fixture = Fixture::new();
    let others =
        "\n\ndef other(a):\n    b = a + 1\n    c = b + 2\n    d = c + 3\n    return [a, b, c, d]\n\n\n";
    fixture.write("tree/start.py", &format!("from net import connect\n\nconnect(1)\n{others}connect(2)\n"));
    let text = stdout(&fixture.succeed("callers connect"));
    assert_eq!(text.matches("outside of definitions").count(), 1, "{text}");
    assert_eq!(text.matches(" │ ").count(), 2, "{text}");
}
