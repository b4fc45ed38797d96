//! Whatever the bytes: no panic, and units that hold every line.

use std::time::{Duration, Instant};

use quarry_source::{
    Extraction, Language, Limits, Unit, extract, extract_with_references, extract_within, language_for,
    language_named, languages,
};

use crate::fixtures::{Fixture, fixtures};
use crate::invariants::{self, check_repeated};

fn check(language: Language, source: &[u8]) -> Extraction {
    invariants::check(language, source, &Limits::default()).0
}

/// Inputs that once broke something; the extension says in which language.
#[test]
fn past_failures() {
    for Fixture { language, source, .. } in fixtures("failures") {
        check_repeated(language, &source);
    }
}

/// Properties that do not depend on the position of a unit.
fn gist(unit: &Unit) -> (String, String, String, u32, u32) {
    (unit.name.clone(), unit.signature.clone(), unit.doc.clone(), unit.start_line, unit.end_line)
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    for Fixture { language, source, .. } in fixtures("fixtures") {
        let expected: Vec<_> = check(language, &source).units.iter().map(gist).collect();
        let carriage_returns = String::from_utf8(source.clone()).unwrap().replace('\n', "\r\n");
        let marked = [b"\xef\xbb\xbf", source.as_slice()].concat();
        // A carriage return in a here-document or a continued line is part of the text or ends the continuation.
        if !["bash", "php", "c"].contains(&language.name()) {
            // Every other line end, as editors leave files that two systems wrote.
            let lines = carriage_returns.split_inclusive('\n').enumerate();
            let mixed: String = lines
                .map(|(row, line)| if row % 2 == 0 { line.to_owned() } else { line.replace('\r', "") })
                .collect();
            for source in [&carriage_returns, &mixed] {
                let units = check(language, source.as_bytes()).units;
                assert_eq!(units.iter().map(gist).collect::<Vec<_>>(), expected, "{language:?}");
            }
        }
        // To grammars a carriage return alone is white space or nothing; lines end with a line feed only.
        check(language, String::from_utf8(source.clone()).unwrap().replace('\n', "\r").as_bytes());
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
            invariants::check(language, source.as_bytes(), &limits);
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{language:?} {open:?}: {:?}",
                start.elapsed()
            );
        }
    }
}

/// Grammars that look ahead to the end of the file at every byte, which took all of the time that parsing may take.
#[test]
fn looking_ahead_again_and_again_is_stopped_soon() {
    let lua = language_for("x.lua".as_ref(), b"").unwrap();
    let start = Instant::now();
    let extraction = check(lua, "[=[".repeat(33_000).as_bytes());
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(
        extraction.diagnostics[0].message,
        "parsing read the file more than 256 times; split into line windows"
    );
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
    for (path, definition) in [("x.py", "def f():\n    return 1\n\n\n"), ("x.md", "# f\n\ntext\n\n\n")] {
        let language = language_for(path.as_ref(), b"").unwrap();
        let source = definition.repeat(1000);
        let named = |extraction: &Extraction| extraction.units.iter().filter(|unit| unit.name == "f").count();
        let whole = check(language, source.as_bytes());
        assert_eq!((named(&whole), whole.diagnostics.len()), (1000, 0));
        for (limits, message) in [
            (Limits { parse_time: Duration::ZERO, ..Limits::default() }, "took longer than 0 s"),
            (Limits { parse_bytes: source.len() - 1, ..Limits::default() }, "exceed the limit"),
        ] {
            let (windows, _) = invariants::check(language, source.as_bytes(), &limits);
            assert_eq!(named(&windows), 0);
            assert_eq!(windows.diagnostics.len(), 1);
            assert!(windows.diagnostics[0].message.contains(message), "{:?}", windows.diagnostics);
            // A parser that was stopped must not go on with the old text.
            assert_eq!(named(&check(language, definition.as_bytes())), 1);
        }
    }
}

#[test]
fn ambiguity_is_stopped_before_it_takes_much_memory() {
    let cpp = language_for("x.cpp".as_ref(), b"").unwrap();
    // More than 3,000 bytes of memory for each of its own.
    let source = "A<".repeat(20_000);
    let patient = Limits { parse_time: Duration::from_secs(60), ..Limits::default() };
    let limits = Limits { parse_memory: 16 << 20, ..patient };
    let (windows, _) = invariants::check(cpp, source.as_bytes(), &limits);
    let messages: Vec<&str> = windows.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(messages, ["parsing took more than 16 MiB of memory; split into line windows"]);
    // The parser is as good as new, and other files need less.
    let functions = "int f(int a) { return g<int>(a); }\n".repeat(5_000);
    let (whole, _) = invariants::check(cpp, functions.as_bytes(), &limits);
    assert_eq!((whole.units.len(), whole.diagnostics.len()), (5_000, 0));
}

/// No walk lists files of this size, but a call with one must return soon.
#[test]
#[ignore = "takes seconds and a gigabyte: cargo test --release -p quarry-source megabytes -- --ignored --nocapture"]
#[allow(clippy::print_stdout, reason = "the times are what it is run for")]
fn hundred_megabytes() {
    let binary: String = (0..=255_u8).map(char::from).collect();
    for (path, piece) in [
        ("x.py", "def f():\n    return 1\n\n\n"),
        ("x.min.js", "function f(a,b){return a+b}"),
        ("x.md", "# Heading\n\nText of a few words.\n\n"),
        ("x.txt", "A line of a few words.\r\n"),
        ("x.c", binary.as_str()),
    ] {
        let language = language_for(path.as_ref(), b"").unwrap();
        let source = piece.repeat(100_000_000 / piece.len());
        let start = Instant::now();
        let extraction = extract(language, source.as_bytes());
        let time = start.elapsed();
        println!("{path}: {} units in {time:?}", extraction.units.len());
        assert!(time < Duration::from_secs(20), "{path}: {time:?}");
        let held: usize = extraction.units.iter().map(|unit| unit.bytes.len()).sum();
        assert!(held > source.len() / 2 && extraction.units.last().unwrap().bytes.end > source.len() - 10);
    }
}

#[test]
fn binary_files() {
    let limits = Limits { parse_time: Duration::from_millis(100), ..Limits::default() };
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let random: Vec<u8> = (0..100_000).map(|_| random()).collect();
    for language in languages().filter(|language| language.has_rules()) {
        for source in [random.as_slice(), &[0; 100_000], &[0xff; 100_000]] {
            let start = Instant::now();
            let extraction = extract_within(language, source, &limits);
            let time = start.elapsed();
            assert!(time < Duration::from_secs(20), "{language:?} {:?}: {time:?}", source[0]);
            assert!(!extraction.units.is_empty() && !extraction.diagnostics.is_empty() || source[0] == 0);
        }
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

#[test]
fn kotlin_ends_within_a_line() {
    let language = language_named("kotlin").unwrap();
    for code in
        ["class A\n@foo", "class A {\n  val a = 1\n  @get:Foo(", "var a = 1\n  set(", "fun f() {\n  @", "@"]
    {
        extract(language, code.as_bytes());
    }
}

#[test]
fn names_that_begin_like_words_of_kotlin_are_read() {
    let code = "class Http2Stream {\n  fun receive() {\n    notifyAll()\n    open = isOpen\n    inline.close()\n  }\n\n  fun read() {\n    call1.cancel()\n    in1.close()\n    open(1)\n  }\n}\n";
    let extraction = extract(language_named("kotlin").unwrap(), code.as_bytes());
    assert_eq!(extraction.diagnostics.len(), 0, "{extraction:?}");
    let names: Vec<&str> =
        extraction.units.iter().map(|unit| unit.name.as_str()).filter(|name| !name.is_empty()).collect();
    assert_eq!(names, ["Http2Stream", "Http2Stream.receive", "Http2Stream.read"]);
    let (_, references) =
        extract_with_references(language_named("kotlin").unwrap(), code.as_bytes(), &Limits::default());
    let called: Vec<&str> = references.calls.iter().map(|call| call.callee.as_str()).collect();
    assert_eq!(called, ["notifyAll", "close", "cancel", "close", "open"]);
    let receivers: Vec<_> = references.calls.iter().filter_map(|call| call.receiver.as_deref()).collect();
    assert_eq!(receivers, ["inline", "call1", "in1"]);
}
