//! Notebooks that are not as they should be.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use quarry_source::{Extraction, NotebookError, SourceText, UnitKind, language_named};
use serde_json::{Value, json};

use crate::fixtures::fixtures;
use crate::invariants::check_repeated;

fn read(file: &[u8]) -> Result<SourceText, NotebookError> {
    SourceText::read("a.ipynb".as_ref(), file.to_vec())
}

fn notebooks() -> Vec<Vec<u8>> {
    let notebooks = fixtures("fixtures").into_iter().filter(|fixture| fixture.language.is_notebook());
    notebooks.map(|fixture| fixture.source).collect()
}

fn extract(file: &[u8]) -> Extraction {
    let jupyter = language_named("jupyter").unwrap();
    check_repeated(jupyter, file);
    read(file).unwrap().extract(jupyter)
}

#[test]
fn lines_are_those_of_the_file() {
    for fixture in notebooks() {
        let file = str::from_utf8(&fixture).unwrap();
        let on_line: Vec<&str> = file.lines().collect();
        let text = read(&fixture).unwrap();
        assert!(text.to_str().lines().count() > 5);
        for (index, line) in text.to_str().lines().enumerate() {
            // The longest part that JSON writes as it is.
            let plain = line.split(|c: char| !c.is_ascii_alphanumeric()).max_by_key(|part| part.len());
            let number = text.line_number(index) as usize;
            assert!(on_line[number - 1].contains(plain.unwrap_or_default()), "line {number}: {line}");
        }
    }
}

#[test]
fn other_files_are_not_notebooks() {
    let check = |file: &str, expected: &str| {
        let message = read(file.as_bytes()).unwrap_err().to_string();
        assert!(message.contains(expected), "{file}: {message}");
    };
    check("", "must be JSON");
    check("{\"cells\": [\n1,\n", "line 3");
    check("{\"cells\": []} x", "must be JSON");
    check("[]", "`cells`");
    check("null", "`cells`");
    check("{}", "`cells`");
    check("{\"cells\": {}}", "`cells`");
    check("{\"cells\": \"[]\", \"worksheets\": 1}", "`cells`");
    check("{\"cells\":\n[3]}", "line 2: a cell must be an object");
    check(
        "{\"cells\":\n[{\"cell_type\": \"code\",\n\"source\": {}}]}",
        "line 3: the source of a cell must be",
    );
    let deep = format!("{{\"cells\": {}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    check(&deep, "a cell must be an object");
    check(&"{\"a\":".repeat(1_000_000), "must be JSON");
}

/// A mistake in one cell affects that cell, piece or character only, and the lines of the others stay.
#[test]
fn a_malformed_cell_is_left_out_alone() {
    for (cell, expected) in [
        (&br#"{"cell_type": "code", "source": "a = '\ud800'"}"#[..], Some("a = '\u{fffd}'")),
        (br#"{"cell_type": "code", "source": ["a = '\ud800\n", "b = 1"]}"#, Some("a = '\u{fffd}\nb = 1")),
        (br#"{"cell_type": "code", "source": "a = '\u0000'"}"#, Some("a = '\u{fffd}'")),
        (b"{\"cell_type\": \"code\", \"source\": \"a = '\0'\"}", Some("a = ' '")),
        (b"{\"cell_type\": \"code\", \"source\": \"a = '\xe4'\"}", Some("a = '\u{fffd}'")),
        (br#"{"cell_type": "code", "source": [null, "a = 1", 5, {}, "b"]}"#, Some("a = 1b")),
        (br#"{"cell_type": "code", "source": null}"#, None),
        (br#"{"cell_type": "code", "source": 5}"#, None),
        (br#"{"cell_type": "code", "source": {"a": "b"}}"#, None),
        (br#"{"cell_type": "\ud800", "source": "a = 1"}"#, None),
        (b"null", None),
        (b"[\"a\"]", None),
    ] {
        let function = br#"{"cell_type": "code", "source": ["def f():\n",
"    return 1"]}"#;
        let file = [&b"{\"cells\": [\n"[..], cell, b",\n", function, b"\n]}"].concat();
        let text = read(&file).unwrap();
        let before = expected.map_or_else(String::new, |text| format!("{text}\n\n"));
        let shown = String::from_utf8_lossy(&file);
        assert_eq!(text.to_str(), format!("{before}def f():\n    return 1"), "{shown}");
        let unit = extract(&file).units.pop().unwrap();
        assert_eq!((unit.name.as_str(), unit.start_line, unit.end_line), ("f", 3, 4), "{shown}");
    }
}

#[test]
fn missing_and_useless_cells_are_left_out() {
    for file in [
        r#"{"cells": []}"#,
        r#"{"worksheets": [{}, {"cells": 1}, 2]}"#,
        r#"{"cells": [{}, {"cell_type": "code"}, {"source": "a"}, {"cell_type": 1, "source": "a"}]}"#,
        r#"{"cells": [{"cell_type": "code", "source": null}, {"cell_type": "code", "source": [""]}]}"#,
        r#"{"cells": [{"cell_type": "raw", "source": "a"}]}"#,
    ] {
        assert_eq!(extract(file.as_bytes()).units, [], "{file}");
        assert_eq!(read(file.as_bytes()).unwrap().bytes(), b"", "{file}");
    }
    let deep = format!(
        r#"{{"cells": [{{"cell_type": "code", "outputs": {}{}, "source": "a = 1"}}]}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(extract(deep.as_bytes()).units.len(), 1);
}

#[test]
fn the_language_is_what_the_notebook_says() {
    let check = |metadata: Value, expected: &str| {
        let cells = json!([{"cell_type": "code", "source": "x"}]);
        let file = json!({"cells": cells, "metadata": metadata}).to_string();
        assert_eq!(extract(file.as_bytes()).units[0].language.name(), expected, "{file}");
    };
    check(json!({}), "python");
    check(json!(null), "python");
    check(json!({"kernelspec": {"language": null}, "language_info": 7}), "python");
    check(json!({"kernelspec": {"language": "R"}}), "r");
    check(json!({"kernelspec": {"language": "C++17"}}), "cpp");
    check(json!({"kernelspec": {"name": "x"}, "language_info": {"name": "julia"}}), "julia");
    check(json!({"language_info": {"name": "sos", "file_extension": ".scala"}}), "scala");
    check(json!({"kernelspec": {"language": "cobweb"}}), "text");
}

#[test]
fn before_format_3_line_ends_were_left_out() {
    let cell = json!({"cell_type": "code", "input": ["def f():", "", "    return 1"], "language": "python"});
    let file = |version| json!({"nbformat": version, "worksheets": [{"cells": [cell]}]}).to_string();
    assert_eq!(read(file(2).as_bytes()).unwrap().bytes(), b"def f():\n\n    return 1");
    assert_eq!(read(file(3).as_bytes()).unwrap().bytes(), b"def f():    return 1");
}

#[test]
fn a_section_continues_in_the_cells_after_its_heading() {
    let markdown = |source: &str| json!({"cell_type": "markdown", "source": source});
    let code = json!({"cell_type": "code", "source": "f()"});
    let cells = [markdown("before"), markdown("# A\n## B"), code, markdown("more\n\n## C"), markdown("end")];
    let units = extract(json!({"cells": cells}).to_string().as_bytes()).units;
    let names: Vec<(&str, &str)> =
        units.iter().map(|unit| (unit.name.as_str(), unit.signature.as_str())).collect();
    let expected =
        [("", ""), ("A", "A"), ("A > B", "B"), ("", ""), ("A > B", ""), ("A > C", "C"), ("A > C", "")];
    assert_eq!(names, expected);
}

/// A cell that never ends takes its own cell only.
#[test]
fn a_broken_cell_does_not_spoil_the_next() {
    let cell = |source: &str| json!({"cell_type": "code", "source": source});
    let file = json!({"cells": [cell("x = '''"), cell("def f():\n    return [\n"), cell("def g(): pass")]});
    let names: Vec<_> = extract(file.to_string().as_bytes())
        .units
        .into_iter()
        .filter(|unit| unit.kind == UnitKind::Function)
        .map(|unit| unit.name)
        .collect();
    assert_eq!(names.last().map(String::as_str), Some("g"));
}

/// Values that may replace any value.
const VALUES: &[&str] = &[
    "null",
    "-1e400",
    "\"\"",
    "\"\\n\"",
    "\"def f():\\n    pass\\n\"",
    "\"%%bash\\n\"",
    "\"# a\\n## b\"",
    "[]",
    "{}",
    "[\"a\\n\", \"\\nb\", \"\"]",
    "[[\"a\"]]",
    "{\"cells\": [{\"cell_type\": \"code\", \"source\": \"x\"}]}",
    "\"code\"",
    "\"markdown\"",
    "\"rust\"",
    "\"\\ud83d\\ude00\\t\\u0000\\\\\"",
    "\"\\ud83d\"",
];

/// Puts `value` instead of one of the values below `root`, or of `root` itself.
fn replace(root: &mut Value, at: Index, value: &Value) {
    let mut pointers = vec![String::new()];
    let mut next = 0;
    while let Some(pointer) = pointers.get(next).cloned() {
        match root.pointer(&pointer) {
            Some(Value::Array(list)) => {
                pointers.extend((0..list.len()).map(|index| format!("{pointer}/{index}")));
            }
            Some(Value::Object(members)) => {
                pointers.extend(members.keys().map(|key| format!("{pointer}/{key}")));
            }
            _ => {}
        }
        next += 1;
    }
    if let Some(place) = root.pointer_mut(&pointers[at.index(pointers.len())]) {
        place.clone_from(value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// JSON, but not always a notebook.
    #[test]
    fn changed_values(
        original in select(notebooks()),
        changes in proptest::collection::vec((any::<Index>(), select(VALUES)), 1..6),
        is_pretty in any::<bool>(),
    ) {
        let mut file: Value = serde_json::from_slice(&original).unwrap();
        for (at, value) in changes {
            // Values that serde_json cannot hold are still written as they are.
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String("@".to_owned() + value));
            replace(&mut file, at, &value);
        }
        let text = if is_pretty { serde_json::to_string_pretty(&file) } else { serde_json::to_string(&file) };
        let text = text.unwrap().replace("\"@\\\"\\\\ud83d\\\"\"", "\"\\ud83d\"").replace("\"@-1e400\"", "-1e400");
        check_repeated(language_named("jupyter").unwrap(), text.as_bytes());
    }
}
