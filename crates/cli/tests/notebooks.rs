//! `quarry search` and what is like it over Jupyter notebooks: lines of the file, and code as its author wrote it.

use crate::fixture::{Fixture, stderr, stdout};
use serde_json::{Value, json};

/// As Jupyter writes it: a line of the source a line.
const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "metadata": {},
   "source": [
    "# Exchange rates\n",
    "\n",
    "Currencies of the world."
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 1,
   "metadata": {},
   "outputs": [
    {"data": {"image/png": "iVBORw0KGgoAAAANzebra"}, "output_type": "display_data"}
   ],
   "source": [
    "%matplotlib inline\n",
    "\n",
    "def convert_currency(amount, rate):\n",
    "    \"\"\"Turns an \"amount\" into another currency.\"\"\"\n",
    "    path = 'C:\\rates'\n",
    "    return amount * rate"
   ]
  },
  {
   "cell_type": "code",
   "metadata": {},
   "outputs": [],
   "source": [
    "%%bash\n",
    "mirror_rates() {\n",
    "  curl \"$1\"\n",
    "}"
   ]
  }
 ],
 "metadata": {"kernelspec": {"language": "python", "name": "python3"}},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn notebooks() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("tree/rates.ipynb", NOTEBOOK);
    fixture
}

/// The same cells on one line of the file.
fn compact() -> String {
    let file: Value = serde_json::from_str(NOTEBOOK).unwrap();
    file.to_string()
}

#[test]
fn a_function_is_found_on_the_lines_of_the_file() {
    let fixture = notebooks();
    let output = fixture.succeed("search 'convert an amount into another currency' --lines 0 -k 1");
    let expected = concat!(
        " 1. rates.ipynb:22  function convert_currency\n",
        "      22 │ def convert_currency(amount, rate):\n",
        "      23 │     \"\"\"Turns an \"amount\" into another currency.\"\"\"\n",
        "      24 │     path = 'C:\\rates'\n",
        "      25 │     return amount * rate\n",
    );
    assert_eq!(stdout(&output), expected);
    for (line, code) in [(22, "def convert_currency"), (25, "return amount")] {
        assert!(NOTEBOOK.lines().nth(line - 1).unwrap().contains(code), "line {line}");
    }
    let answer = fixture.json("search convert_currency --json -k 1 --lines 0");
    let first = &answer["results"][0];
    assert_eq!((&first["start_line"], &first["end_line"]), (&json!(22), &json!(25)));
    assert_eq!((&first["language"], &first["kind"]), (&json!("python"), &json!("function")));
    let snippet = first["snippet"].as_str().unwrap();
    assert!(
        snippet.starts_with("def convert_currency(amount, rate):\n    \"\"\"Turns an \"amount\""),
        "{snippet}"
    );
    let paths = fixture.stdout("search convert_currency -l -k 1");
    assert_eq!(paths, "rates.ipynb\n");
    let line = fixture.stdout("search convert_currency --vimgrep -k 1");
    assert_eq!(line, "rates.ipynb:22:5:def convert_currency(amount, rate):\n");
}

#[test]
fn patterns_see_the_code_and_not_the_json() {
    let fixture = notebooks();
    let search = |arguments: &[&str]| fixture.stdout(&[&["search", "--vimgrep"], arguments].concat());
    assert_eq!(search(&["-e", r"'C:\\rates'$"]), "rates.ipynb:24:12:    path = 'C:\\rates'\n");
    assert_eq!(search(&["-e", r#"an "amount" into"#]).split(':').nth(1), Some("23"));
    assert_eq!(search(&["-e", "^# Exchange"]), "rates.ipynb:7:1:# Exchange rates\n");
    assert_eq!(search(&["-e", "cell_type|zebra|image/png"]), "");
    let context = fixture.stdout("search -e 'path =' -C 1");
    assert!(
        context.contains(
            "      23 │     \"\"\"Turns an \"amount\" into another currency.\"\"\"\n      24 │     path"
        ),
        "{context}"
    );
    assert!(context.contains("      25 │     return amount * rate\n"), "{context}");
    let output = fixture.run("search zebra -t ipynb");
    assert!(!stdout(&output).contains("zebra"), "outputs are not searched: {}", stdout(&output));
}

#[test]
fn each_cell_has_a_language() {
    let fixture = notebooks();
    let found = |language: &str| {
        let answer = fixture.json(&["search", "currency rates of a header", "-t", language, "--json"]);
        let results = answer["results"].as_array().unwrap().clone();
        let unit = |result: Value| {
            format!("{} {}", result["path"].as_str().unwrap(), result["name"].as_str().unwrap())
        };
        let mut units: Vec<String> = results.into_iter().map(unit).collect();
        units.sort();
        units
    };
    assert_eq!(found("bash"), ["rates.ipynb mirror_rates"]);
    assert_eq!(found("markdown"), ["rates.ipynb Exchange rates"]);
    let python = found("python");
    assert!(python.contains(&"rates.ipynb convert_currency".to_owned()), "{python:?}");
    assert!(python.iter().any(|unit| unit.starts_with("http/header.py")), "{python:?}");
    assert!(!python.contains(&"rates.ipynb mirror_rates".to_owned()), "{python:?}");
    for notebook in ["ipynb", "jupyter", "notebook"] {
        let units = found(notebook);
        assert_eq!(units.len(), 4, "{units:?}");
        assert!(units.iter().all(|unit| unit.starts_with("rates.ipynb")), "{units:?}");
    }
    let status = fixture.stdout("status");
    assert!(status.contains("bash 1") && status.contains("markdown 1"), "{status}");
}

#[test]
fn all_lines_of_a_notebook_may_be_one_of_the_file() {
    let fixture = Fixture::new();
    fixture.write("tree/rates.ipynb", &compact());
    let output = fixture.run("search convert_currency --lines 0 -k 1");
    let expected = concat!(
        " 1. rates.ipynb:1  function convert_currency\n",
        "       1 │ def convert_currency(amount, rate):\n",
        "       1 │     \"\"\"Turns an \"amount\" into another currency.\"\"\"\n",
        "       1 │     path = 'C:\\rates'\n",
        "       1 │     return amount * rate\n",
    );
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    let lines = fixture.stdout("search -e 'curl|amount \\*' --vimgrep");
    assert_eq!(lines, "rates.ipynb:1:12:    return amount * rate\nrates.ipynb:1:3:  curl \"$1\"\n");
}

#[test]
fn a_notebook_that_changes_is_read_again() {
    let fixture = notebooks();
    fixture.run("index");
    fixture.write("tree/rates.ipynb", &NOTEBOOK.replace("\"iVBOR", "\n\n\"iVBOR"));
    let line = fixture.stdout("search convert_currency --vimgrep -k 1");
    assert_eq!(line, "rates.ipynb:24:5:def convert_currency(amount, rate):\n", "an output moved the lines");
    fixture.write("tree/rates.ipynb", &NOTEBOOK.replace("convert_currency", "exchange_currency"));
    let line = fixture.stdout("search exchange_currency --vimgrep -k 1");
    assert_eq!(line, "rates.ipynb:22:5:def exchange_currency(amount, rate):\n");
}

#[test]
fn the_size_limit_is_for_the_text_of_the_cells() {
    let fixture = Fixture::new();
    let large = NOTEBOOK.replace("zebra", &"A".repeat(3_000_000));
    fixture.write("tree/rates.ipynb", &large);
    let found = |arguments: &[&str]| {
        let all = [&["search", "convert_currency", "-l", "-t", "ipynb"], arguments].concat();
        fixture.stdout(&all)
    };
    assert_eq!(found(&[]), "rates.ipynb\n", "an image does not count");
    assert_eq!(found(&["--max-bytes", "100"]), "");
    assert_eq!(found(&["--max-bytes", "100kB"]), "rates.ipynb\n");
    fixture.run("index --max-bytes 100");
    assert!(fixture.stdout("status").contains("over the size limit"));
    assert_eq!(found(&[]), "");
    fixture.run("index --max-bytes 1M");
    assert_eq!(found(&[]), "rates.ipynb\n", "another limit lets it in again");
}

#[test]
fn invalid_notebooks_are_reported_and_left_out() {
    let fixture = Fixture::new();
    fixture.write("tree/broken.ipynb", "{\"cells\": [\n  {\"cell_type\": \n");
    fixture.write("tree/deep.ipynb", &"[".repeat(1_000_000));
    fixture.write("tree/empty.ipynb", "");
    fixture.write("tree/list.ipynb", "{\"cells\": {\"cell_type\": \"code\"}}");
    let output = fixture.succeed("search 'open a socket' -k 1");
    assert!(stdout(&output).starts_with(" 1. net.py:1"), "{}", stdout(&output));
    let status = fixture.stdout("status");
    for (name, reason) in [
        ("broken.ipynb", "malformed: a notebook must be JSON"),
        ("deep.ipynb", "malformed: a notebook must be JSON"),
        ("empty.ipynb", "malformed: a notebook must be JSON"),
        ("list.ipynb", "malformed: a notebook must have a list of `cells`"),
    ] {
        let line = status.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains(reason)), "{name}: {status}");
    }
    assert!(!fixture.stderr("search 'open a socket' -v").contains("panicked"));
    fixture.write("tree/broken.ipynb", NOTEBOOK);
    let line = fixture.stdout("search convert_currency -l -k 1");
    assert_eq!(line, "broken.ipynb\n", "a repaired one is found");
}

#[test]
fn code_like_that_of_a_cell_is_found() {
    let fixture = notebooks();
    fixture.write("tree/money.py", "def exchange(amount, rate):\n    return amount * rate\n");
    let output = fixture.run(&["similar", "rates.ipynb:24", "-k", "1", "--kind", "function"]);
    assert!(stdout(&output).contains("money.py:1"), "{}{}", stdout(&output), stderr(&output));
    let back = fixture.run(&["similar", "money.py:1", "-k", "1", "--kind", "function"]);
    assert!(stdout(&back).contains("rates.ipynb:22"), "{}", stdout(&back));
}
