//! The calls and imports that are found in each language.

use std::fmt::Write;
use std::time::Duration;

use quarry_source::{ImportedName, Language, Limits, extract_with_references, language_named};

use crate::fixtures::check_fixtures;

#[test]
fn calls_and_imports() {
    check_fixtures("references", |language| language.grammar().is_some(), describe);
}

fn describe(language: Language, source: &str) -> String {
    let (extraction, references) = extract_with_references(language, source.as_bytes(), &Limits::default());
    let mut text = String::new();
    let renamed = |alias: Option<String>| alias.map(|alias| format!(" as {alias}")).unwrap_or_default();
    for import in references.imports {
        let names = import.names.into_iter().map(|ImportedName { name, alias }| name + &renamed(alias));
        let names = names.collect::<Vec<_>>().join(", ");
        let line = format!("import {}: {}{} {{{names}}}", import.line, import.module, renamed(import.alias));
        writeln!(text, "{}", line.trim_end_matches(" {}")).unwrap();
    }
    for call in references.calls {
        assert!(source[call.byte..].starts_with(&call.callee));
        assert_eq!(call.line as usize, 1 + source[..call.byte].matches('\n').count());
        let receiver = call.receiver.map(|receiver| receiver + " . ").unwrap_or_default();
        let unit = &extraction.units[call.unit.unwrap()];
        assert!(unit.bytes.contains(&call.byte));
        writeln!(text, "call {} in {:?}: {receiver}{}", call.line, unit.name, call.callee).unwrap();
    }
    for diagnostic in extraction.diagnostics {
        writeln!(text, "line {}: {}", diagnostic.line, diagnostic.message).unwrap();
    }
    text
}

/// Chains that took time quadratic in their length; in 5 s these would not be read to their end.
#[test]
fn long_chains_are_read_to_their_end() {
    const LENGTH: usize = 12_000;
    let chain = ".f()".repeat(LENGTH);
    for (language, source) in [
        ("csharp", format!("class C {{ void g(A a) {{ a{chain}; }} }}\n")),
        ("java", format!("class C {{ void g(A a) {{ a{chain}; }} }}\n")),
        ("javascript", format!("function g(a) {{ a{chain}; }}\n")),
        ("kotlin", format!("fun g(a: A) {{ a{chain} }}\n")),
        ("php", format!("<?php function g($a) {{ $a{}; }}\n", "->f()".repeat(LENGTH))),
        ("ruby", format!("def g(a)\n  a{chain}\nend\n")),
        ("rust", format!("fn g(a: A) {{ a{chain}; }}\n")),
        ("swift", format!("func g(a: A) {{ a{chain} }}\n")),
    ] {
        let language = language_named(language).unwrap();
        if language.grammar().is_none() {
            continue;
        }
        let (_, references) = extract_with_references(language, source.as_bytes(), &Limits::default());
        assert_eq!((references.calls.len(), references.missing), (LENGTH, None), "{language:?}");
    }
}

#[test]
fn missing_references_are_reported() {
    let javascript = language_named("javascript").unwrap();
    let limits = Limits { parse_time: Duration::ZERO, ..Limits::default() };
    let (_, references) = extract_with_references(javascript, b"f();\n".repeat(9_000).as_slice(), &limits);
    assert!(
        references.missing.is_some_and(|missing| missing.line == 1 && missing.message.contains("longer"))
    );
    let (_, references) = extract_with_references(javascript, b"f();\n", &Limits::default());
    assert_eq!((references.calls.len(), references.missing), (1, None));
}

#[test]
fn hostile_files_stay_within_time_and_memory() {
    let limits = Limits { parse_time: Duration::from_millis(200), ..Limits::default() };
    let chain = format!("x{}\n", ".f()".repeat(20_000));
    let names = (0..20_000).map(|index| format!("n{index},")).collect::<String>();
    let import = format!("import {{{names}}} from 'm';\n");
    let groups = format!("use {}b{};\n", "a::{".repeat(2_000), "}".repeat(2_000));
    for (language, source) in [("javascript", chain), ("javascript", import), ("rust", groups)] {
        let start = std::time::Instant::now();
        let language = language_named(language).unwrap();
        let (extraction, references) = extract_with_references(language, source.as_bytes(), &limits);
        assert!(start.elapsed() < Duration::from_secs(10), "{language:?}: {:?}", start.elapsed());
        assert!(
            references.calls.iter().all(|call| call.receiver.as_ref().is_none_or(|text| text.len() <= 256))
        );
        let is_cut = extraction.diagnostics.iter().any(|diagnostic| diagnostic.message.contains("long"));
        assert!(is_cut || !references.calls.is_empty() || !references.imports.is_empty());
    }
}
