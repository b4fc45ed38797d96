//! The options of `quarry search`, and `quarry similar`.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::fixture::{Fixture, check_error, stderr, stdout};
use serde_json::Value;

/// Two languages, a test, and two functions that are alike.
fn shop() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("tree/shop/cart.rs", "/// Adds up the prices of a cart.\npub fn total(prices: &[u32]) -> u32 {\n    let mut sum = 0;\n    for price in prices {\n        sum += price;\n    }\n    sum\n}\n\npub struct Cart {\n    prices: Vec<u32>,\n}\n");
    fixture.write("tree/shop/weight.rs", "/// Adds up the weights of a parcel.\npub fn total_weight(weights: &[u32]) -> u32 {\n    let mut sum = 0;\n    for weight in weights {\n        sum += weight;\n    }\n    sum\n}\n");
    fixture.write(
        "tree/tests/test_cart.py",
        "def test_total_of_cart_prices():\n    assert total([1, 2]) == 3\n",
    );
    fixture
}

fn paths(answer: &Value) -> Vec<&str> {
    answer["results"].as_array().unwrap().iter().map(|result| result["path"].as_str().unwrap()).collect()
}

#[test]
fn a_long_text_of_unknown_words_is_held_back() {
    let fixture = Fixture::new();
    let check = |words: usize, arguments: &[&str], code: i32, confident: Value| {
        let text = ["zebra unicorn host", &" recipes".repeat(words - 3)].concat();
        let output = fixture.run(&[&["search", &text, "--json"], arguments].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &answer["confident"]), (Some(code), &confident), "{arguments:?}");
    };
    check(30, &[], 1, false.into());
    check(30, &["--threshold", "0.99"], 1, false.into());
    check(30, &["--threshold", "0"], 0, true.into());
    check(29, &[], 1, false.into());
}

#[test]
fn languages_globs_and_kinds_narrow_a_search() {
    let fixture = shop();
    let search = |options: &[&str]| {
        fixture.json(&[&["search", "total of the prices in a cart", "--json"], options].concat())
    };
    let all = search(&[]);
    assert!(paths(&all).contains(&"tests/test_cart.py") && paths(&all).contains(&"shop/cart.rs"), "{all}");
    for options in [["-t", "rs"], ["--lang", "Rust"], ["-g", "*.rs"], ["-g", "!*.py"]] {
        let answer = search(&options);
        assert!(!paths(&answer).is_empty(), "{options:?}");
        assert!(paths(&answer).iter().all(|path| path.ends_with(".rs")), "{options:?}: {answer}");
    }
    let types = search(&["--kind", "type", "-t", "rust"]);
    assert_eq!((paths(&types), &types["results"][0]["name"]), (vec!["shop/cart.rs"], &"Cart".into()));
    fixture.check_error("search cart -t pyhton", "python");
    fixture.check_error("search cart -g 'a[b'", "a[b");
    fixture.check_error("search cart --kind klass", "function");
}

#[test]
fn headers_belong_to_c_and_to_cpp() {
    let fixture = Fixture::new();
    fixture.write("tree/plain.h", "int frobnicate(int value);\n");
    fixture.write("tree/class.h", "namespace a {\nclass Frobnicate { public: int value; };\n}\n");
    fixture.write("tree/frobnicate.c", "int frobnicate(int value) {\n    return value;\n}\n");
    fixture.write("tree/frobnicate.cpp", "int frobnicate(double value) {\n    return 0;\n}\n");
    let found = |language: &str| {
        let answer = fixture.json(&format!("search frobnicate -t {language} -l --json --threshold 0"));
        let mut paths: Vec<String> = paths(&answer).into_iter().map(str::to_owned).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(found("c"), ["class.h", "frobnicate.c", "plain.h"]);
    assert_eq!(found("cpp"), ["class.h", "frobnicate.cpp", "plain.h"]);
}

#[test]
fn utf_16_is_text() {
    let fixture = Fixture::new();
    let source =
        "def öffnen():\n    pass\n\n\ndef vernageln(tür):\n    nagel = 'spitz 🔨'\n    return nagel\n";
    let units = std::iter::once(0xfeff).chain(source.encode_utf16());
    fs::write(fixture.path("tree/wide.py"), units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let text = fixture.stdout("search vernageln --lines 0 -k 1");
    let expected = " 1. wide.py:5  function vernageln\n       5 │ def vernageln(tür):\n       6 │     nagel = 'spitz 🔨'\n       7 │     return nagel\n";
    assert_eq!(text, expected);
    assert!(fixture.stdout("search -e spitz").contains("       6 │     nagel = 'spitz 🔨'"));
    let again = fixture.json("index --json");
    assert_eq!((&again["built"], &again["embedded_units"]), (&false.into(), &0.into()));
    // Vectors of another model are made from the file, which is read again.
    assert_eq!(fixture.json("index --json --rebuild")["built"], true);
    let snippet = fixture.json("search vernageln --json -k 1")["results"][0]["snippet"].clone();
    assert!(snippet.as_str().unwrap().contains("vernageln(tür)"), "{snippet}");
}

#[test]
fn paths_come_once_each() {
    let fixture = shop();
    let output = fixture.run("search 'total prices cart' -l");
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "shop/cart.rs");
    let n = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), n);
    assert_eq!(fixture.stdout("search 'total prices cart' -l -k 2").lines().count(), 2);
}

#[test]
fn json_lines_are_one_result_each() {
    let fixture = shop();
    let output = fixture.run("search 'total prices' --jsonl -k 2");
    let text = stdout(&output);
    let results: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 2);
    assert_eq!((&results[0]["rank"], &results[1]["rank"]), (&1.into(), &2.into()));
    assert_eq!(fixture.run("search x --json --jsonl").status.code(), Some(2));
}

#[test]
fn context_reaches_beyond_the_lines_that_match() {
    let fixture = shop();
    let snippet = |context: &str| {
        let answer = fixture.json(&format!("search 'sum price' -t rs --json --lines 1 -C {context}"));
        answer["results"][0]["snippet"].as_str().unwrap().lines().count()
    };
    assert_eq!(snippet("0"), 1);
    assert_eq!(snippet("1"), 3);
}

#[test]
fn context_before_and_after_is_asked_for_apart() {
    let fixture = shop();
    let shown = |options: &[&str]| {
        let answer = fixture.json(&[&["search", "-e", "sum \\+= price", "--json"], options].concat());
        let result = &answer["results"][0];
        let n_lines = result["snippet"].as_str().unwrap().lines().count();
        (result["snippet_line"].as_u64().unwrap(), n_lines)
    };
    assert_eq!(shown(&[]), (5, 1));
    assert_eq!(shown(&["-A", "2"]), (5, 3));
    assert_eq!(shown(&["-B", "2"]), (3, 3));
    assert_eq!(shown(&["-B", "1", "-A", "2"]), (4, 4));
    assert_eq!(shown(&["-C", "1"]), (4, 3));
    assert_eq!(shown(&["-C", "1", "-A", "0"]), (4, 2));
}

#[test]
fn blank_lines_stay_where_whole_texts_are_asked_for() {
    let fixture = Fixture::new();
    let source = "def first():\n    pass\n\n\ndef spaced(\n    value,\n):\n    total = value\n\n    # Halves it.\n\n    return total / 2\n";
    fixture.write("tree/spaced.py", source);
    let text = |options: &[&str]| fixture.stdout(&[&["search", "spaced", "-k", "1"], options].concat());
    let whole: String = source
        .lines()
        .enumerate()
        .skip(4)
        .map(|(n, line)| format!("{:>8} │ {line}", n + 1).trim_end().to_owned() + "\n")
        .collect();
    assert_eq!(text(&["--lines", "0"]), format!(" 1. spaced.py:5  function spaced\n{whole}"));
    let around = "       9 │\n      10 │     # Halves it.\n      11 │\n";
    let found = fixture.stdout("search -e Halves -C 1");
    assert!(found.ends_with(around), "{found}");
    // The declaration and other lines, none of them twice.
    let expected = " 1. spaced.py:5  function spaced\n    def spaced(value)\n       8 │     total = value\n       9 │\n      10 │     # Halves it.\n";
    assert_eq!(text(&[]), expected);
}

#[test]
fn every_result_has_a_line_of_its_source() {
    let fixture = shop();
    for query in ["total", "total prices", "cart", "test_total_of_cart_prices", "Cart", "connect host"] {
        let text = fixture.stdout(&["search", query, "--threshold", "0"]);
        for result in text.split("\n\n") {
            assert!(result.contains(" │ "), "{query}: {result}");
        }
    }
}

#[test]
fn editors_get_a_line_and_a_column() {
    let fixture = shop();
    let output = fixture.run("search 'weights of a parcel' --vimgrep -k 1");
    assert_eq!(stdout(&output), "shop/weight.rs:2:14:pub fn total_weight(weights: &[u32]) -> u32 {\n");
    let output = fixture.run("search -e sum -t rs --vimgrep");
    let expected: String = [("cart", "price"), ("weight", "weight")]
        .map(|(file, what)| {
            format!(
                "shop/{file}.rs:3:13:    let mut sum = 0;\nshop/{file}.rs:5:9:        sum += {what};\nshop/{file}.rs:7:5:    sum\n"
            )
        })
        .concat();
    assert_eq!(stdout(&output), expected);
    fixture.check_error("search x --vimgrep --json", "--json");
}

#[test]
fn quiet_reports_through_the_exit_code() {
    let fixture = shop();
    for (arguments, code) in [
        (&["search", "weights of a parcel", "-q"][..], 0),
        (&["search", "weights of a parcel", "-q", "--json"], 0),
        (&["search", "zebra unicorn recipes", "-q", "--threshold", "0.9"], 1),
        (&["search", "-e", "zebra", "-q"], 1),
        (&["similar", "shop/cart.rs:4", "-q", "--threshold", "0"], 0),
    ] {
        let output = fixture.run(arguments);
        let said = (stdout(&output), stderr(&output), output.status.code());
        assert_eq!(said, (String::new(), String::new(), Some(code)), "{arguments:?}");
    }
    fixture.check_error("search x nowhere -q", "no such file");
}

#[test]
fn files_come_as_json_and_between_nul_bytes_too() {
    let fixture = shop();
    let files = fixture.json("search 'total prices cart' -l --json");
    let mut sorted = paths(&files);
    assert_eq!(sorted[0], "shop/cart.rs");
    sorted.sort_unstable();
    let n = sorted.len();
    sorted.dedup();
    assert_eq!((sorted.len(), n > 2), (n, true), "{files}");
    let first = &files["results"][0];
    assert_eq!(first["rank"], 1);
    assert_eq!(first["language"], "rust");
    assert_eq!(first["start_line"], Value::Null);
    let lines = fixture.stdout("search 'total prices cart' -l --jsonl");
    assert_eq!(lines.lines().count(), n);
    let nul = fixture.stdout("search 'total prices cart' -l -0 -k 2");
    assert_eq!(nul.split_terminator('\0').count(), 2);
    assert!(nul.starts_with("shop/cart.rs\0") && !nul.contains('\n'), "{nul:?}");
    fixture.check_error("search x -0", "--files-with-matches");
}

#[test]
fn an_explanation_names_the_parts_of_each_score() {
    let fixture = shop();
    let text = fixture.stdout("search 'total prices' --explain -k 1");
    assert!(text.contains("    the query is read as a question about behavior"), "{text}");
    assert!(text.contains("“total”") && !text.contains(" score "), "{text}");
    let text = fixture.stdout("search 'total prices' --explain=numbers -k 1");
    for words in ["    score ", "─ words ", "─ lexical ", "─ dense ", " body"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let answer = fixture.json("search 'total prices' --json --explain -k 1");
    let result = &answer["results"][0];
    assert_eq!(result["explanation"]["value"], result["score"]);
    assert_eq!(result["explanation"]["combination"], "sum");
    assert!(result["reasons"].as_array().unwrap().len() >= 2, "{result}");
    let answer = fixture.json("search 'total prices' --json");
    assert!(answer["results"][0]["parts"]["lexical"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_expression_alone_shows_every_line_in_the_order_of_paths() {
    let fixture = shop();
    let answer = fixture.json(&["search", "-e", r"^\s*sum \+=", "--json"]);
    assert_eq!(paths(&answer), ["shop/cart.rs", "shop/weight.rs"]);
    let line = &answer["results"][0]["matches"][0];
    assert_eq!((&line["line"], &line["text"]), (&5.into(), &"        sum += price;".into()));
    assert_eq!(answer["results"][0]["name"], "total");
    let text = fixture.stdout("search -e TOTAL -i shop");
    assert!(text.contains("cart.rs:1") && text.contains("       2 │ pub fn total("), "{text}");
    let nothing = fixture.run("search -e zebra");
    assert_eq!(nothing.status.code(), Some(1), "{}", stderr(&nothing));
    fixture.check_error("search -e 'a('", "not a regular expression");
    fixture.check_error("search", "QUERY");
    fixture.check_error("search x -i", "--regex");
}

#[test]
fn a_query_puts_the_lines_of_an_expression_in_order() {
    let fixture = shop();
    let first = |query| {
        let answer = fixture.json(&["search", "-e", "let mut sum", query, "--json"]);
        paths(&answer)[0].to_owned()
    };
    assert_eq!(first("weights of a parcel"), "shop/weight.rs");
    assert_eq!(first("prices of a cart"), "shop/cart.rs");
    // The threshold is about the query, which an expression alone has not.
    let code = |arguments: &[&str]| {
        fixture.run(&[&["search", "-e", "let mut sum"], arguments].concat()).status.code()
    };
    assert_eq!(code(&["zebra unicorn recipes", "--threshold", "0.9"]), Some(1));
    assert_eq!(code(&["zebra unicorn recipes", "--threshold", "0"]), Some(0));
    assert_eq!(code(&["--threshold", "0.9"]), Some(0));
    // Without one, lines that match are not called unclear.
    let output = fixture.succeed("search -e 'let mut sum' 'zebra unicorn recipes'");
    assert!(stdout(&output).starts_with(" 1. shop/"), "{}", stdout(&output));
}

#[test]
fn only_the_users_own_settings_color_what_is_no_terminal() {
    let fixture = shop();
    fixture.write("tree/.quarry.toml", "color = \"always\"\n");
    let search = || fixture.stdout("search 'weights of a parcel' -k 1");
    assert!(!search().contains('\x1b'), "{:?}", search());
    fixture.write("config/quarry/config.toml", "color = \"always\"\n");
    assert!(search().contains('\x1b'), "{:?}", search());
}

#[test]
fn settings_of_any_length_are_shown() {
    let fixture = shop();
    let glob = "a".repeat(70_000);
    fixture.write("tree/.quarry.toml", &format!("globs = [\"!{glob}\"]\n"));
    let output = fixture.succeed("config");
    assert!(stdout(&output).contains(&glob));
}

#[test]
fn similar_code_is_not_padded_with_other_code() {
    let fixture = shop();
    fixture.write(
        "tree/files.py",
        "def list_files(directory):\n    return [each for each in directory if each.size > 0]\n",
    );
    let scores = |options: &[&str]| -> Vec<f64> {
        let answer = fixture.json(&[&["similar", "shop/cart.rs:4", "--json"], options].concat());
        answer["results"].as_array().unwrap().iter().map(|result| result["score"].as_f64().unwrap()).collect()
    };
    let (similar, all) = (scores(&[]), scores(&["--threshold", "0"]));
    assert!(!similar.is_empty() && similar.iter().all(|score| *score >= 0.4), "{similar:?}");
    assert_eq!(similar, all[..similar.len()], "{all:?}");
    assert!(similar.len() < all.len(), "{all:?}");
    // If nothing is similar enough, the closest unit is shown.
    let output = fixture.run(&["similar", "shop/cart.rs:4", "--threshold", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("No unit is clearly similar"), "{}", stdout(&output));
}

#[test]
fn an_index_can_be_searched_as_it_is() {
    let fixture = shop();
    fixture.check_error("search parcel --no-index-update", "index");
    fixture.run("index");
    fixture.write("tree/new.py", "def zebra_unicorn():\n    pass\n");
    let search = |options: &[&str]| {
        fixture.stdout(&[&["search", "zebra_unicorn", "-l", "--threshold", "0"], options].concat())
    };
    assert!(!search(&["--no-index-update"]).contains("new.py"));
    assert!(search(&[]).starts_with("new.py\n"));
}

#[test]
fn settings_of_the_tree_are_defaults_of_a_search() {
    let fixture = shop();
    fixture.write("tree/.quarry.toml", "limit = 1\nglobs = [\"!tests/**\"]\n");
    let count = |options: &[&str]| {
        let answer = fixture.json(&[&["search", "total prices cart", "--json"], options].concat());
        assert!(paths(&answer).iter().all(|path| !path.starts_with("tests/")), "{answer}");
        paths(&answer).len()
    };
    assert_eq!(count(&[]), 1);
    assert_eq!(count(&["-k", "2"]), 2);
    fs::create_dir(fixture.path("tree/.git")).unwrap();
    assert_eq!(count(&["shop"]), 1, "below the root of a repository its settings hold");
    let from = fixture.json("config shop --json")["files"][0].clone();
    assert!(from["path"].as_str().unwrap().ends_with("tree/.quarry.toml"), "{from}");
    assert!(from["exists"] == true, "{from}");
    fixture.check_error("search x --threshold 7", "0 to 1");
}

#[test]
fn a_ranking_is_chosen_by_name_on_the_command_line_or_in_the_settings() {
    let fixture = shop();
    let scores = |options: &[&str]| {
        let answer =
            fixture.json(&[&["search", "total prices cart", "--threshold", "0", "--json"], options].concat());
        let results = answer["results"].as_array().unwrap().clone();
        results.iter().map(|result| result["score"].clone()).collect::<Vec<_>>()
    };
    let (default, chosen) = (scores(&[]), scores(&["--ranking", "words-only"]));
    assert_ne!(default, chosen);
    assert_eq!(scores(&["--ranking", "default"]), default);
    fixture.write("tree/.quarry.toml", "ranking = \"words-only\"\n");
    assert_eq!(scores(&[]), chosen);
    assert_eq!(scores(&["--ranking", "default"]), default, "the command line comes first");
    fixture.check_error("search x --ranking none", "words-only");
    fixture.write("tree/.quarry.toml", "limit = 3\nranking = \"none\"\n");
    fixture.check_error("search x", ".quarry.toml:2: \"none\" is not a ranking: default, no-rules");
}

#[test]
fn similar_finds_what_is_like_the_function_at_a_line() {
    let fixture = shop();
    let answer = fixture.json(&["similar", "shop/cart.rs:4", "--json", "--kind", "function", "-t", "rs"]);
    assert_eq!(answer["similar_to"]["name"], "total");
    assert_eq!(answer["results"][0]["name"], "total_weight");
    assert!(paths(&answer).len() == 1, "the unit itself is left out: {answer}");
    let inside = fixture.json(&["similar", "shop/cart.rs:4", "shop", "--json"]);
    assert_eq!(inside["similar_to"]["path"], "cart.rs");
    fixture.check_error("similar shop/cart.rs:4000", "no indexed unit covers this line");
    fixture.check_error("similar shop/cart.rs", "expected FILE:LINE");
    fixture.check_error("similar shop/none.rs:1", "shop/none.rs: no such file or directory");
    fixture.check_error("similar net.py:1 shop", "is not in");
}

#[cfg(feature = "transformers")]
#[test]
fn the_index_remembers_the_model_that_it_was_made_with() {
    let fixture = shop();
    let fixtures =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-bert");
    let model = fixture.path("models/tiny");
    quarry_test_support::files::copy(&fixtures, &model);
    let used = |arguments: &[&str]| {
        let answer = fixture.json(&[&["doctor", "--json"], arguments].concat());
        let checks = answer["checks"].as_array().unwrap().clone();
        checks.iter().find(|check| check["name"] == "model").unwrap()["found"].as_str().unwrap().to_owned()
    };
    let builtin = used(&[]);
    assert!(fixture.run("index --model ../models/tiny").status.success());
    let tiny = used(&[]);
    assert_ne!(tiny, builtin);
    let models = || fixture.json("status --json")["holds"]["models"].as_array().unwrap().clone();
    let search = ["search", "total prices", "--threshold", "0"];
    for arguments in
        [&search[..], &["search", "total prices", "shop"], &["similar", "shop/cart.rs:1"], &["index"]]
    {
        fixture.run(arguments);
        assert_eq!(models().len(), 1, "{arguments:?}");
    }
    // The model named in a search applies to that search only, and precedes the remembered one, which precedes the
    // settings.
    assert_eq!(used(&["--model", "builtin"]), builtin);
    fixture.run(&[&search[..], &["--model", "builtin"]].concat());
    assert_eq!((models().len(), used(&[]) == tiny), (2, true));
    fixture.write("config/quarry/config.toml", "model = \"nothing\"");
    assert_eq!(used(&[]), tiny);
    assert_eq!(used(&["shop"]), tiny, "a part of the tree");
    fixture.write("config/quarry/config.toml", "");
    // A model that has gone is named, with what to do.
    fs::rename(&model, fixture.path("models/moved")).unwrap();
    let gone = fixture.run(&search);
    check_error(&gone, "was indexed with the model");
    assert!(stderr(&gone).contains("models/tiny") && stderr(&gone).contains("--model"), "{}", stderr(&gone));
    fixture
        .check_error("index --model ../models/tiny", "the model ../models/tiny: no such file or directory");
    fixture.run("index --model builtin");
    assert_eq!(used(&[]), builtin);
    assert_eq!(fixture.run(&search).status.code(), Some(0));
}

#[test]
fn a_query_is_read_from_stdin() {
    let fixture = Fixture::new();
    let search = |input: &[u8]| {
        let mut process = fixture
            .command("search - --json")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(input).unwrap();
        process.wait_with_output().unwrap()
    };
    let found: Value = serde_json::from_slice(&search(b"open a\nsocket\n").stdout).unwrap();
    assert_eq!((&found["query"], &found["results"][0]["path"]), (&"open a\nsocket".into(), &"net.py".into()));
    check_error(&search(&[b'x'; (64 << 10) + 1]), "longer than 64 KiB");
    check_error(&search(b"open\n\xff\n"), "line 2 is not valid UTF-8");
    check_error(&search(b" \n"), "the query has no word");
}
