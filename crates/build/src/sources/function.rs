//! Extracting records of functions from the text of a file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Add, Range};

use quarry_corpus::pairs::cut_out;
use quarry_source::{
    Call, Import, Language, Limits, Lines, SourceText, Unit, UnitKind, extract_with_references,
    extract_within, function_shapes, functions, language_named,
};

use crate::plan::SourcePlan;
use crate::record::{CodeKind, CodeRecord, id_of};
use crate::sources::calls::head;
use crate::sources::comments::{CommentBlock, comment_blocks, comment_blocks_as_released};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub source: String,
    pub repository: String,
    pub commit: Option<String>,
    pub path: String,
    /// License, as an SPDX expression.
    pub license: Option<String>,
}

struct Definition {
    name: String,
    bytes: Range<usize>,
    parameters: Option<Vec<String>>,
    locals: Vec<String>,
    returns_value: Option<bool>,
}

/// The functions and methods of a file, except nested ones, in their order in the file. Empty for languages without a
/// grammar.
pub fn extract_records(origin: &Origin, language: Language, text: &SourceText) -> Vec<CodeRecord> {
    if language.is_notebook() {
        return notebook_records(origin, language, text);
    }
    let source = text.bytes();
    let definitions = outermost(definitions(language, source));
    if definitions.is_empty() {
        return Vec::new();
    }
    let (extraction, references) = extract_with_references(language, source, &Limits::default());
    let bindings = bindings(language, &references.imports);
    let lines = Lines::new(source);
    let mut records = Vec::with_capacity(definitions.len());
    for definition in definitions {
        let unit = unit_of(&extraction.units, &definition);
        let begin = unit.map_or(definition.bytes.start, |unit| unit.bytes.start.min(definition.bytes.start));
        let doc_bytes = unit.map_or(&[][..], |unit| &unit.doc_bytes);
        let span = begin..definition.bytes.end;
        let calls = references.calls.iter().filter(|call| definition.bytes.contains(&call.byte));
        let calls: Vec<String> = calls.map(as_written).collect();
        let heads: BTreeSet<&str> = calls.iter().map(|call| head(call)).collect();
        let imports =
            heads.iter().filter_map(|head| Some(((*head).to_owned(), bindings.get(*head)?.clone())));
        let bound = definition.parameters.iter().flatten().chain(&definition.locals);
        let locals = bound.filter(|name| heads.contains(name.as_str())).cloned().collect();
        let imports = imports.collect();
        let [start_line, end_line] =
            [span.start, span.end.saturating_sub(1)].map(|byte| text.line_number(lines.row(byte)));
        let is_broken = |line: u32| (start_line..=end_line).contains(&line);
        let whole = cut_out(source, span.clone(), &[]);
        records.push(CodeRecord {
            name: unit.map_or(definition.name, |unit| unit.name.clone()),
            signature: unit.map(|unit| unit.signature.clone()).unwrap_or_default(),
            documentation: unit.map(|unit| unit.doc.clone()).unwrap_or_default(),
            parameters: definition.parameters,
            returns_value: definition.returns_value,
            calls,
            imports,
            locals,
            has_syntax_errors: (extraction.diagnostics.iter()).any(|diagnostic| is_broken(diagnostic.line)),
            code: cut_out(source, span, doc_bytes),
            ..bare_record(origin, language, [start_line, end_line], whole)
        });
    }
    records
}

/// The functions and methods in the cells of a notebook. Each is parsed separately: there is prose between cells.
fn notebook_records(origin: &Origin, notebook: Language, text: &SourceText) -> Vec<CodeRecord> {
    let source = text.bytes();
    let (mut records, mut end) = (Vec::new(), 0);
    for unit in text.extract(notebook).units {
        let is_function =
            matches!(unit.kind, UnitKind::Function | UnitKind::Method) && !unit.signature.is_empty();
        if !is_function || unit.language == notebook || unit.bytes.start < end {
            continue;
        }
        end = unit.bytes.end;
        let Ok(alone) = SourceText::read("cell".as_ref(), source[unit.bytes.clone()].to_vec()) else {
            continue;
        };
        if let Some(record) = extract_records(origin, unit.language, &alone).into_iter().next() {
            let lines = [unit.start_line, unit.end_line];
            let bare = bare_record(origin, unit.language, lines, record.whole.clone());
            let CodeRecord { id, start_line, end_line, .. } = bare;
            let name = unit.name;
            records.push(CodeRecord { id, start_line, end_line, name, documentation: unit.doc, ..record });
        }
    }
    records
}

/// A text as a function, or as a snippet if it is none or more than one.
pub(crate) fn record_of_text(origin: &Origin, language: Language, text: &str) -> CodeRecord {
    let mut found = extract(origin, language, text);
    if found.is_empty()
        && let Cow::Owned(opened) = opened(language, text)
    {
        found = extract(origin, language, &opened);
    }
    match <[CodeRecord; 1]>::try_from(found) {
        Ok([record]) => record,
        Err(_) => snippet_record(origin, language, text),
    }
}

/// A text with the opening tag that code embedded in markup needs.
fn opened(language: Language, text: &str) -> Cow<'_, str> {
    match Some(language) == language_named("php") && !text.contains("<?") {
        true => Cow::Owned(format!("<?php {text}")),
        false => Cow::Borrowed(text),
    }
}

/// Returns whether the grammar of a language cannot read all of a text.
pub(crate) fn has_syntax_errors(language: Language, text: &str) -> bool {
    let diagnostics = |text: &str| extract_within(language, text.as_bytes(), &Limits::default()).diagnostics;
    let errors = |text: &str| !diagnostics(text).is_empty();
    match opened(language, text) {
        // Methods stand in a class.
        Cow::Owned(opened) => {
            errors(&opened) && errors(&opened.replacen("<?php ", "<?php class C { ", 1).add("}"))
        }
        Cow::Borrowed(text) => errors(text),
    }
}

fn extract(origin: &Origin, language: Language, text: &str) -> Vec<CodeRecord> {
    // Only notebooks can be rejected, by name.
    SourceText::read("text".as_ref(), text.as_bytes().to_vec())
        .map(|text| extract_records(origin, language, &text))
        .unwrap_or_default()
}

/// A text that may not be a function, such as the code in an answer.
pub(crate) fn snippet_record(origin: &Origin, language: Language, text: &str) -> CodeRecord {
    let (extraction, references) = extract_with_references(language, text.as_bytes(), &Limits::default());
    let n_lines = u32::try_from(text.lines().count().max(1)).unwrap_or(u32::MAX);
    CodeRecord {
        kind: CodeKind::Snippet,
        calls: references.calls.iter().map(as_written).collect(),
        has_syntax_errors: !extraction.diagnostics.is_empty(),
        code: text.to_owned(),
        ..bare_record(origin, language, [1, n_lines], text.to_owned())
    }
}

/// Comments with the code below them, as in StatCodeSearch.
pub(crate) fn block_records(
    origin: &Origin,
    language: Language,
    text: &[u8],
    plan: &SourcePlan,
) -> Vec<CodeRecord> {
    let blocks = match plan.as_released {
        true => comment_blocks_as_released(text),
        false => comment_blocks(language, text, [plan.library_lines, plan.blank_lines]),
    };
    let record = |CommentBlock { comment, code, start_line, end_line }| CodeRecord {
        kind: CodeKind::Block,
        documentation: comment,
        ..bare_record(origin, language, [start_line, end_line], code)
    };
    let of_code = |record: CodeRecord| CodeRecord { code: record.whole.clone(), ..record };
    blocks.into_iter().map(record).map(of_code).collect()
}

fn bare_record(
    origin: &Origin,
    language: Language,
    [start_line, end_line]: [u32; 2],
    whole: String,
) -> CodeRecord {
    let place = start_line.to_string();
    CodeRecord {
        id: id_of(&[&origin.source, &origin.path, &place, &whole]),
        kind: CodeKind::Function,
        source: origin.source.clone(),
        repository: origin.repository.clone(),
        commit: origin.commit.clone(),
        path: origin.path.clone(),
        start_line,
        end_line,
        language: language.name().to_owned(),
        license: origin.license.clone(),
        name: String::new(),
        signature: String::new(),
        documentation: String::new(),
        parameters: None,
        returns_value: None,
        calls: Vec::new(),
        imports: BTreeMap::new(),
        locals: Vec::new(),
        category: None,
        has_syntax_errors: false,
        code: String::new(),
        whole,
    }
}

fn as_written(call: &Call) -> String {
    match &call.receiver {
        Some(receiver) => format!("{receiver}.{}", call.callee),
        None => call.callee.clone(),
    }
}

/// The names bound by the imports of a file, with the full path of each.
fn bindings(language: Language, imports: &[Import]) -> BTreeMap<String, String> {
    let mut bindings = BTreeMap::new();
    for import in imports {
        let module = &import.module;
        if import.names.is_empty() {
            let (name, path) = match &import.alias {
                Some(alias) => (alias.as_str(), module.as_str()),
                // `import a.b` binds `a` in Python, and the last part of a path in other languages.
                None if language.name() == "python" => (head(module), head(module)),
                None => (module.rsplit(['/', '.', ':']).next().unwrap_or_default(), module.as_str()),
            };
            bindings.insert(name.to_owned(), path.to_owned());
        }
        for imported in &import.names {
            let name = imported.alias.as_ref().unwrap_or(&imported.name);
            let path = match imported.name.as_str() {
                "default" => module.clone(),
                name if module.ends_with('.') => format!("{module}{name}"),
                name => format!("{module}.{name}"),
            };
            bindings.insert(name.clone(), path);
        }
    }
    bindings
}

fn definitions(language: Language, source: &[u8]) -> Vec<Definition> {
    if let Some(shapes) = function_shapes(language, source) {
        let known = shapes.into_iter().map(|shape| Definition {
            name: shape.name,
            bytes: shape.bytes,
            parameters: Some(shape.parameters),
            locals: shape.locals,
            returns_value: Some(shape.returns_value),
        });
        return known.collect();
    }
    let unknown = functions(language, source).into_iter().map(|function| Definition {
        name: function.name,
        bytes: function.bytes,
        parameters: None,
        locals: Vec::new(),
        returns_value: None,
    });
    unknown.collect()
}

/// The definitions that are not nested in another one; sorted by their beginnings.
fn outermost(definitions: Vec<Definition>) -> Vec<Definition> {
    let mut end = 0;
    let is_outer = |definition: &Definition| {
        let is_outer = definition.bytes.start >= end;
        end = end.max(definition.bytes.end);
        is_outer
    };
    definitions.into_iter().filter(is_outer).collect()
}

/// The unit of a function, or the first part of it.
fn unit_of<'u>(units: &'u [Unit], definition: &Definition) -> Option<&'u Unit> {
    let next = units.partition_point(|unit| unit.bytes.start <= definition.bytes.start);
    let unit = &units[next.checked_sub(1)?];
    let is_function =
        matches!(unit.kind, UnitKind::Function | UnitKind::Method) && !unit.signature.is_empty();
    (is_function && definition.bytes.start < unit.bytes.end).then_some(unit)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quarry_source::language_named;

    use super::*;

    fn records(language: &str, text: &str) -> Vec<CodeRecord> {
        let origin = Origin { source: "s".into(), path: "a".into(), ..Origin::default() };
        let text = SourceText::read(Path::new("a"), text.as_bytes().to_vec()).unwrap();
        extract_records(&origin, language_named(language).unwrap(), &text)
    }

    #[test]
    fn a_function_comes_with_all_that_is_known_of_it() {
        let found = records(
            "python",
            "import os\n\nclass A:\n    @cached\n    def f(self, a, b=1):\n        \"\"\"Join two.\"\"\"\n        \
             def g():\n            return os.sep\n        return os.path.join(a, g(), b)\n",
        );
        assert_eq!(found.len(), 1, "{found:?}");
        let record = &found[0];
        assert_eq!((record.name.as_str(), record.signature.as_str()), ("A.f", "def f(self, a, b=1)"));
        assert_eq!((record.start_line, record.end_line), (4, 9));
        assert_eq!(record.documentation, "Join two.");
        assert_eq!(record.parameters.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
        assert_eq!(record.returns_value, Some(true));
        assert_eq!(record.calls, ["os.path.join", "g"]);
        assert!(record.whole.contains("Join two.") && !record.code.contains("Join two."));
        assert!(record.whole.starts_with("@cached"), "{}", record.whole);
    }

    #[test]
    fn a_comment_above_is_documentation_and_the_end_of_a_long_function_is_not_lost() {
        let body = "    x += 1;\n".repeat(2000);
        let found = records(
            "go",
            &format!("package p\n\n// F counts.\nfunc F(x int) int {{\n{body}    return x\n}}\n"),
        );
        assert_eq!((found.len(), found[0].documentation.as_str()), (1, "F counts."));
        assert!(found[0].code.starts_with("func F") && found[0].code.ends_with("return x\n}"));
        assert_eq!((found[0].start_line, found[0].end_line), (3, 2006));
    }

    #[test]
    fn broken_functions_are_reported_and_so_are_languages_without_rules() {
        let found = records("python", "def f(a):\n    b = = a\n    return b\n\n\ndef g(b):\n    return b\n");
        let broken: Vec<bool> = found.iter().map(|record| record.has_syntax_errors).collect();
        assert_eq!(broken, [true, false], "{found:?}");
        let found = records("bash", "f() {\n  echo 1\n}\n");
        assert_eq!((found.len(), found[0].parameters.as_ref(), found[0].returns_value), (1, None, None));
        assert!(records("markdown", "# a\n").is_empty());
    }
}
