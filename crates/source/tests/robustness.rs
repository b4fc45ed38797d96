//! Whatever the bytes: no panic, and units that hold every line.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quarry_source::{Extraction, Language, Limits, Unit, extract, extract_within, language_for, languages};

/// Extracts and checks everything that holds for any input.
fn check(language: Language, source: &[u8]) -> Extraction {
    check_within(language, source, &Limits::default())
}

fn check_within(language: Language, source: &[u8], limits: &Limits) -> Extraction {
    let extraction = extract_within(language, source, limits);
    let units = &extraction.units;
    for (index, unit) in units.iter().enumerate() {
        assert!(unit.parent.is_none_or(|parent| parent < index), "{unit:?}");
        assert!(unit.bytes.start < unit.bytes.end && unit.bytes.end <= source.len());
        if let Ok(text) = str::from_utf8(source) {
            let borders = [&unit.bytes].into_iter().chain(&unit.doc_bytes);
            for bytes in borders {
                assert!(text.get(bytes.clone()).is_some(), "cut within a character: {unit:?}");
            }
        }
        assert!(!source[unit.bytes.clone()].trim_ascii().is_empty(), "blank unit: {unit:?}");
        let line = |byte: usize| 1 + source[..byte].iter().filter(|byte| **byte == b'\n').count() as u32;
        if source.len() < 100_000 {
            assert_eq!((unit.start_line, unit.end_line), (line(unit.bytes.start), line(unit.bytes.end - 1)));
        }
        for bytes in &unit.doc_bytes {
            assert!(bytes.start < bytes.end && bytes.end <= source.len());
        }
        assert!(unit.doc_bytes.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
    for pair in units.windows(2) {
        assert!(pair[0].bytes.end <= pair[1].bytes.start, "overlap: {pair:?}");
    }
    let mut covered = vec![false; source.iter().filter(|byte| **byte == b'\n').count() + 2];
    for unit in units {
        covered[unit.start_line as usize..=unit.end_line as usize].fill(true);
    }
    let text = source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(source);
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        assert!(covered[line] || text.trim_ascii().is_empty(), "line {line} is in no unit");
    }
    extraction
}

fn fixture_folder(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Every fixture with its language.
fn fixtures() -> Vec<(Language, Vec<u8>)> {
    let folder = fixture_folder("fixtures").into_iter();
    let fixtures: Vec<_> =
        folder.filter_map(|(path, source)| Some((language_for(&path, b"")?, source))).collect();
    assert!(fixtures.len() >= 19);
    fixtures
}

/// Inputs that once broke something; the extension says in which language.
#[test]
fn past_failures() {
    for (path, source) in fixture_folder("failures") {
        check(language_for(&path, b"").unwrap(), &source);
    }
}

#[test]
fn random_mutations() {
    const PIECES: &[&[u8]] = &[
        b"\n",
        b"\r\n",
        b"\n\n\n",
        b"(",
        b")",
        b"{",
        b"}",
        b"[",
        b"<",
        b"\"",
        b"'",
        b"`",
        b"/*",
        b"*/",
        b"//",
        b"#",
        b"\"\"\"",
        b"--[[",
        b"<<EOF\n",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\0",
        b"\t",
        b"  ",
        b";",
        b"=",
        b":",
        b"end",
        b"def ",
        b"class ",
        b"function ",
        b"\xe2\x82\xac",
        b"\\",
        b"@",
        b"?>",
        b"---\n",
        b"=begin\n",
        b"\r",
    ];
    let mut random = fastrand::Rng::with_seed(20_240_229);
    for (language, original) in fixtures() {
        for round in 0..150 {
            let mut source = original.clone();
            for _ in 0..=round % 5 {
                let at = random.usize(..=source.len());
                let end = (at + random.usize(..40)).min(source.len());
                match random.u8(..5) {
                    0 if round % 2 == 0 => source.truncate(at),
                    1 => drop(source.drain(at..end)),
                    2 => drop(source.splice(at..at, original[..original.len().min(300)].to_vec())),
                    _ => drop(source.splice(at..at, random.choice(PIECES).unwrap().iter().copied())),
                }
            }
            let outcome = std::panic::catch_unwind(|| check(language, &source));
            if outcome.is_err() {
                panic!("{}, round {round}: {:?}", language.name(), String::from_utf8_lossy(&source));
            }
        }
    }
}

/// What does not depend on where a unit stands.
fn gist(unit: &Unit) -> (String, String, String, u32, u32) {
    (unit.name.clone(), unit.signature.clone(), unit.doc.clone(), unit.start_line, unit.end_line)
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    for (language, source) in fixtures() {
        let expected: Vec<_> = check(language, &source).units.iter().map(gist).collect();
        let carriage_returns = String::from_utf8(source.clone()).unwrap().replace('\n', "\r\n");
        let marked = [b"\xef\xbb\xbf", source.as_slice()].concat();
        // A carriage return in a here-document or a continued line is part of the text or ends the continuation.
        if !["bash", "php", "c"].contains(&language.name()) {
            let units = check(language, carriage_returns.as_bytes()).units;
            assert_eq!(units.iter().map(gist).collect::<Vec<_>>(), expected, "{language:?}");
        }
        if !source.starts_with(b"#!") && !source.starts_with(b"---") {
            let units = check(language, &marked).units;
            assert_eq!(units.iter().map(gist).collect::<Vec<_>>(), expected, "{language:?}");
        }
    }
}

#[test]
fn empty_and_blank_files() {
    for language in languages() {
        for source in ["", "\n", " \t\r\n\n", "\u{feff}", "\u{feff}\n"] {
            assert_eq!(check(language, source.as_bytes()).units, [], "{language:?} {source:?}");
        }
    }
}

#[test]
fn deep_nesting_neither_overflows_nor_hangs() {
    let limits = Limits { parse_time: Duration::from_millis(100), ..Limits::default() };
    for language in languages() {
        // Functions in functions would have quadratically long names.
        let functions = ("function f(){", "}");
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("f(", ""), ("> ", ""), functions] {
            let start = Instant::now();
            let source = [open.repeat(100_000), close.repeat(100_000)].concat();
            check_within(language, source.as_bytes(), &limits);
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{language:?} {open:?}: {:?}",
                start.elapsed()
            );
        }
    }
}

#[test]
fn minified_files_keep_their_functions() {
    let language = language_for("x.min.js".as_ref(), b"").unwrap();
    let mut source = String::from("!function(){\"use strict\";");
    for index in 0..5000 {
        source.push_str(&format!("function f{index}(a,b){{return a+b*{index}}}var v{index}=[1,2,3];"));
    }
    source.push_str("}();");
    let extraction = check(language, source.as_bytes());
    assert_eq!(extraction.units.iter().filter(|unit| unit.name.starts_with('f')).count(), 5000);
    assert_eq!(extraction.diagnostics, []);
}

#[test]
fn functions_in_long_callbacks_are_units() {
    let names = |padding: usize| {
        let padding = "  work();\n".repeat(padding);
        let source = format!("define(function () {{\n  // Inside.\n  function inner() {{}}\n{padding}}});\n");
        let units = check(language_for("x.js".as_ref(), b"").unwrap(), source.as_bytes()).units;
        units.into_iter().map(|unit| (unit.name, unit.doc)).collect::<Vec<_>>()
    };
    assert!(!names(20).contains(&("inner".into(), "Inside.".into())));
    assert!(names(60).contains(&("inner".into(), "Inside.".into())));
}

#[test]
fn closing_brackets_have_no_words() {
    let source = "class A {\n  void f() {}\n}\n// \u{e9}\n";
    let units = check(language_for("A.java".as_ref(), b"").unwrap(), source.as_bytes()).units;
    let words: Vec<_> =
        units.iter().map(|unit| (unit.start_line, unit.has_words(source.as_bytes()))).collect();
    assert_eq!(words, [(1, true), (2, true), (3, false), (4, true)]);
}

#[test]
fn limits_fall_back_to_line_windows() {
    let language = language_for("x.py".as_ref(), b"").unwrap();
    let source = "def f():\n    return 1\n\n\n".repeat(1000);
    let functions = |extraction: &Extraction| extraction.units.iter().filter(|unit| unit.name == "f").count();
    let whole = check(language, source.as_bytes());
    assert_eq!((functions(&whole), whole.diagnostics.len()), (1000, 0));
    for (limits, message) in [
        (Limits { parse_time: Duration::ZERO, ..Limits::default() }, "took longer than 0 s"),
        (Limits { parse_bytes: source.len() - 1, ..Limits::default() }, "more than the"),
    ] {
        let windows = check_within(language, source.as_bytes(), &limits);
        assert_eq!(functions(&windows), 0);
        assert_eq!(windows.diagnostics.len(), 1);
        assert!(windows.diagnostics[0].message.contains(message), "{:?}", windows.diagnostics);
        // A parser that was stopped must not go on with the old text.
        assert_eq!(functions(&check(language, b"def f(): pass\n")), 1);
    }
}

#[test]
fn broken_syntax_is_reported_where_it_is() {
    let language = language_for("x.go".as_ref(), b"").unwrap();
    let source = b"package p\n\nfunc ok() {}\n\nfunc broken( {\n\treturn ]\n}\n\n// Fine.\nfunc fine() {}\n";
    let extraction = check(language, source);
    assert!(extraction.units.iter().any(|unit| unit.name == "ok"));
    assert!(extraction.units.iter().any(|unit| unit.name == "fine" && unit.doc == "Fine."));
    let lines: Vec<u32> = extraction.diagnostics.iter().map(|diagnostic| diagnostic.line).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| (5..=7).contains(line)), "{lines:?}");
    assert!(lines.is_sorted());
}

#[test]
fn other_encodings_keep_their_offsets() {
    let language = language_for("x.rb".as_ref(), b"").unwrap();
    let source = b"# Gr\xfc\xdfe.\ndef gr\xfcss\n  1\nend\n";
    let extraction = check(language, source);
    let unit = extraction.units.iter().find(|unit| unit.doc == "Gr\u{fffd}\u{fffd}e.");
    assert!(unit.is_some(), "{extraction:?}");
    assert_eq!(extraction.diagnostics[0].line, 1);
    let utf16: Vec<u8> = "def f():\n  pass\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for language in languages() {
        check(language, &utf16);
    }
}

#[test]
fn long_functions_are_cut_at_statements() {
    let body: String =
        (0..300).map(|i| format!("    if a == {i}:\n        b(\n            {i})\n")).collect();
    let source = format!("# Long.\ndef f(a):\n{body}    def inner():\n        pass\n    return a\n");
    let units = extract(language_for("x.py".as_ref(), b"").unwrap(), source.as_bytes()).units;
    let names: Vec<_> = units.iter().map(|unit| unit.name.as_str()).collect();
    assert_eq!(names, ["f", "f", "f", "f", "f", "f.inner", "f"]);
    assert_eq!((units[0].signature.as_str(), units[0].doc.as_str()), ("def f(a)", "Long."));
    for unit in &units[1..5] {
        let text = &source[unit.bytes.clone()];
        assert!(
            text.starts_with("    if a == ") && unit.doc.is_empty() && unit.signature.is_empty(),
            "{text}"
        );
        assert!((100..=200).contains(&(unit.end_line - unit.start_line + 1)));
    }
}
