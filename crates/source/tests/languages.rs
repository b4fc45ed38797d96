//! What each language's fixture is cut into.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fmt::Write;

use expect_test::{ExpectFile, expect_file};
use quarry_source::{extract, language_named};

/// Compares the units of a fixture with the file of what is expected; `UPDATE_EXPECT=1` writes the latter.
fn check(language: &str, source: &str, expected: ExpectFile) {
    let extraction = extract(language_named(language).unwrap(), source.as_bytes());
    let mut text = String::new();
    let starts: Vec<u32> = extraction.units.iter().map(|unit| unit.start_line).collect();
    for unit in extraction.units {
        let parent = unit.parent.map(|parent| format!(" in {}", starts[parent])).unwrap_or_default();
        let test = if unit.is_test { " (test)" } else { "" };
        writeln!(text, "{}-{} {:?} {}{parent}{test}", unit.start_line, unit.end_line, unit.kind, unit.name)
            .unwrap();
        let mut field = |label: &str, value: &str| {
            if !value.is_empty() {
                writeln!(text, "    {label}: {value}").unwrap();
            }
        };
        field("signature", &unit.signature);
        field("doc", &unit.doc.replace('\n', "\n         "));
        for bytes in unit.doc_bytes {
            field("cut", &format!("{:?}", &source[bytes]));
        }
        let code = &source[unit.bytes];
        let (first, last) = (code.lines().next().unwrap(), code.lines().last().unwrap());
        field("from", first);
        field("to", last);
    }
    for diagnostic in extraction.diagnostics {
        writeln!(text, "line {}: {}", diagnostic.line, diagnostic.message).unwrap();
    }
    expected.assert_eq(&text);
}

macro_rules! fixtures {
    ($($language:ident: $file:literal,)*) => {$(
        #[test]
        fn $language() {
            let language = stringify!($language);
            let source = include_str!(concat!("fixtures/", $file));
            check(language, source, expect_file![concat!("fixtures/", $file, ".txt")]);
        }
    )*};
}

fixtures! {
    bash: "bash.sh",
    c: "c.c",
    cpp: "cpp.cpp",
    csharp: "csharp.cs",
    go: "go.go",
    java: "java.java",
    javascript: "javascript.js",
    kotlin: "kotlin.kt",
    lua: "lua.lua",
    markdown: "markdown.md",
    php: "php.php",
    python: "python.py",
    r: "r.R",
    ruby: "ruby.rb",
    rust: "rust.rs",
    scala: "scala.scala",
    swift: "swift.swift",
    tsx: "tsx.tsx",
    typescript: "typescript.ts",
}
