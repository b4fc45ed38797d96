//! Invariants for any input in any language. The fuzz target checks the same.

use quarry_source::{
    Extraction, Language, Limits, MAX_DEFINITION_LINES, MAX_NAME_BYTES, MAX_SIGNATURE_BYTES,
    MAX_SYNTAX_DIAGNOSTICS, MAX_UNIT_BYTES, MAX_WINDOW_LINES, References, SourceText, Unit, UnitKind,
    extract_with_references, extract_within,
};

/// Checks that references do not change the units, nor does doing it again.
pub(crate) fn check_repeated(language: Language, source: &[u8]) {
    let limits = Limits::default();
    let first = check(language, source, &limits);
    assert_eq!(first.0, extract_within(language, source, &limits), "references change the units");
    assert_eq!(first, extract_with_references(language, source, &limits), "another time, another result");
}

/// Extracts, and checks everything that holds for any input.
pub(crate) fn check(language: Language, source: &[u8], limits: &Limits) -> (Extraction, References) {
    if language.is_notebook() {
        check_notebook(language, source);
    }
    let (extraction, references) = extract_with_references(language, source, limits);
    let file = File::new(source);
    for unit in &extraction.units {
        file.check_unit(unit);
    }
    file.check_order(&extraction.units);
    check_nesting(&extraction.units);
    let diagnostics = &extraction.diagnostics;
    assert!(diagnostics.iter().all(|diagnostic| file.has_line(diagnostic.line)), "{diagnostics:?}");
    assert!(diagnostics.is_sorted_by_key(|diagnostic| diagnostic.line), "{diagnostics:?}");
    let is_syntax = |message: &&str| message.starts_with("syntax error");
    let messages = diagnostics.iter().map(|diagnostic| diagnostic.message.as_str());
    assert!(messages.filter(is_syntax).count() <= MAX_SYNTAX_DIAGNOSTICS);
    file.check_references(&references, &extraction.units);
    (extraction, references)
}

/// Checks what holds for a file that may be a notebook.
fn check_notebook(language: Language, file: &[u8]) {
    let name = format!("a.{}", language.extensions()[0]);
    let Ok(text) = SourceText::read(name.as_ref(), file.to_vec()) else { return };
    assert!(str::from_utf8(text.bytes()).is_ok() && text.bytes().len() <= 2 * file.len());
    let n_lines = file.split(|byte| *byte == b'\n').count();
    let numbers: Vec<u32> = (0..text.to_str().lines().count()).map(|index| text.line_number(index)).collect();
    assert!(numbers.is_sorted() && numbers.iter().all(|number| (1..=n_lines).contains(&(*number as usize))));
    let Extraction { units, diagnostics } = text.extract(language);
    assert_eq!(text.extract(language).units, units, "another time, other units");
    let file = File::new(text.bytes());
    for unit in &units {
        assert!(unit.start_line <= unit.end_line, "{unit:?}");
        let indexes = text.line_indexes(unit.start_line..=unit.end_line, unit.bytes.clone());
        let lines = (file.line(unit.bytes.start), file.line(unit.bytes.end - 1));
        assert_eq!((indexes.start as u32 + 1, indexes.end as u32), lines, "{unit:?}");
        assert_eq!(unit.start_line, text.line_number(indexes.start), "{unit:?}");
        assert_eq!(unit.end_line, text.line_number(indexes.end - 1), "{unit:?}");
        // But for lines, a unit is as in any file.
        file.check_unit(&Unit { start_line: lines.0, end_line: lines.1, ..unit.clone() });
    }
    assert!(units.windows(2).all(|pair| pair[0].bytes.end <= pair[1].bytes.start), "overlap: {units:?}");
    check_nesting(&units);
    assert!(diagnostics.is_sorted_by_key(|diagnostic| diagnostic.line), "{diagnostics:?}");
    assert!(diagnostics.len() <= MAX_SYNTAX_DIAGNOSTICS);
}

struct File<'a> {
    source: &'a [u8],
    newlines: Vec<usize>,
    /// By byte, and the end: whether no character goes on there. Bad bytes are characters of their own.
    is_border: Vec<bool>,
}

impl<'a> File<'a> {
    fn new(source: &'a [u8]) -> Self {
        let newlines = (0..source.len()).filter(|at| source[*at] == b'\n').collect();
        let mut is_border = Vec::with_capacity(source.len() + 1);
        for chunk in source.utf8_chunks() {
            is_border.extend((0..chunk.valid().len()).map(|at| chunk.valid().is_char_boundary(at)));
            is_border.extend(chunk.invalid().iter().map(|_| true));
        }
        is_border.push(true);
        Self { source, newlines, is_border }
    }

    /// 1-based line of a byte.
    fn line(&self, byte: usize) -> u32 {
        1 + self.newlines.partition_point(|newline| *newline < byte) as u32
    }

    fn has_line(&self, line: u32) -> bool {
        (1..=self.line(self.source.len())).contains(&line)
    }

    fn check_unit(&self, unit: &Unit) {
        for bytes in [&unit.bytes].into_iter().chain(&unit.doc_bytes) {
            assert!(bytes.start < bytes.end && bytes.end <= self.source.len(), "{unit:?}");
            let is_whole = self.is_border[bytes.start] && self.is_border[bytes.end];
            assert!(is_whole, "cut within a character: {unit:?}");
        }
        assert!(unit.doc_bytes.windows(2).all(|pair| pair[0].end <= pair[1].start), "{unit:?}");
        assert_eq!(unit.doc.is_empty(), unit.doc.trim().is_empty(), "{unit:?}");
        assert!(unit.doc.is_empty() || !unit.doc_bytes.is_empty(), "{unit:?}");
        assert!(!self.source[unit.bytes.clone()].trim_ascii().is_empty(), "blank: {unit:?}");
        let lines = (self.line(unit.bytes.start), self.line(unit.bytes.end - 1));
        assert_eq!((unit.start_line, unit.end_line), lines, "{unit:?}");
        let max_lines = match unit.kind {
            UnitKind::Function | UnitKind::Method | UnitKind::Type => MAX_DEFINITION_LINES,
            UnitKind::Module | UnitKind::Section => MAX_WINDOW_LINES,
        };
        assert!((lines.1 - lines.0) < max_lines as u32, "too many lines: {unit:?}");
        assert!(unit.bytes.len() <= MAX_UNIT_BYTES, "too many bytes: {unit:?}");
        assert!(unit.signature.len() <= MAX_SIGNATURE_BYTES && !unit.signature.contains('\n'), "{unit:?}");
        assert!(unit.name.split(['.', '>']).all(|part| part.len() <= MAX_NAME_BYTES + 2), "{unit:?}");
    }

    fn check_order(&self, units: &[Unit]) {
        for pair in units.windows(2) {
            assert!(pair[0].bytes.end <= pair[1].bytes.start, "overlap: {pair:?}");
        }
        let mut is_covered = vec![false; self.newlines.len() + 2];
        for unit in units {
            is_covered[unit.start_line as usize..=unit.end_line as usize].fill(true);
        }
        let text = self.source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(self.source);
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            assert!(is_covered[line] || text.trim_ascii().is_empty(), "line {line} is in no unit");
        }
    }

    fn check_references(&self, references: &References, units: &[Unit]) {
        let is_text = |text: &String| text.len() <= MAX_NAME_BYTES && !text.contains('\n');
        let References { calls, imports, missing } = references;
        assert!(missing.iter().all(|missing| self.has_line(missing.line)), "{missing:?}");
        assert!(calls.windows(2).all(|pair| pair[0].byte < pair[1].byte), "{calls:?}");
        for call in calls {
            assert!(call.byte < self.source.len() && self.is_border[call.byte], "{call:?}");
            assert_eq!(call.line, self.line(call.byte), "{call:?}");
            assert!(!call.callee.is_empty(), "{call:?}");
            assert!(
                [Some(&call.callee), call.receiver.as_ref()].into_iter().flatten().all(is_text),
                "{call:?}"
            );
            let holder = units.iter().position(|unit| unit.bytes.contains(&call.byte));
            assert_eq!(call.unit, holder, "{call:?}");
        }
        for import in imports {
            assert!(self.has_line(import.line) && !import.module.is_empty(), "{import:?}");
            let names = import.names.iter().flat_map(|name| [Some(&name.name), name.alias.as_ref()]);
            let texts = names.chain([Some(&import.module), import.alias.as_ref()]);
            assert!(texts.flatten().all(is_text), "{import:?}");
        }
    }
}

/// A unit's parent is the unit before it or one that this is in, and lends it its name.
fn check_nesting(units: &[Unit]) {
    let mut open: Vec<usize> = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        while open.last().copied() != unit.parent {
            assert!(open.pop().is_some(), "its parent is not around it: {unit:?}");
        }
        open.push(index);
        if let Some(parent) = unit.parent {
            let rest = unit.name.strip_prefix(&units[parent].name);
            let is_named_after = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            let is_part = unit.kind == UnitKind::Module && unit.name.is_empty();
            assert!(is_named_after || is_part || units[parent].name.is_empty(), "{unit:?}");
        }
    }
}
