//! Units of each language's fixture.

use std::fmt::Write;

use quarry_source::{Language, SourceText};

use crate::fixtures::check_fixtures;

#[test]
fn units() {
    check_fixtures("fixtures", Language::has_rules, describe);
}

fn describe(language: Language, source: &str) -> String {
    let name = format!("a.{}", language.extensions()[0]);
    let source = SourceText::read(name.as_ref(), source.as_bytes().to_vec()).unwrap();
    let extraction = source.extract(language);
    let source = source.to_str();
    let mut text = String::new();
    let starts: Vec<u32> = extraction.units.iter().map(|unit| unit.start_line).collect();
    for unit in extraction.units {
        let parent = unit.parent.map(|parent| format!(" in {}", starts[parent])).unwrap_or_default();
        let test = if unit.is_test { " (test)" } else { "" };
        let (kind, of_cell) = (unit.kind, unit.language.name());
        let of_cell = if unit.language == language { String::new() } else { format!(" ({of_cell})") };
        let name = unit.name;
        writeln!(text, "{}-{} {kind:?} {name}{parent}{test}{of_cell}", unit.start_line, unit.end_line)
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
    text
}
