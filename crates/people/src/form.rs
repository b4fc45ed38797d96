//! Forms as files: tables for spreadsheets, or JSON lines.
//!
//! Spreadsheets treat a cell that begins with `=`, `+`, `-`, `@`, a tab or a line break as a formula, or drop the
//! first character. In CSV, such texts, and those that begin with an apostrophe, are prefixed with an apostrophe. The
//! text that people were given is known, and compared with and without the apostrophe; what they fill in is taken
//! unchanged, except for an apostrophe that they copied with the code.

use std::collections::BTreeMap;

use quarry_files::digest;
use quarry_judge::ledger::{
    Answers, Generated, GeneratedStatus, GuidelineText, Item, Ledger, Reply, StoredForm, Subject, Writer,
};
use quarry_judge::{JudgeError, Pair};

use crate::guideline::{Guideline, ItemKind};

/// Characters at the beginning of a cell that spreadsheets may interpret.
const RISKY: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\''];

/// The longest text that many spreadsheets allow in a cell, in characters.
const MAX_CELL_CHARACTERS: usize = 32_767;

/// Entered instead of a test program if none is possible.
const NO_PROGRAM: &str = "none";

/// Maximum time for a row, in minutes.
const MAX_MINUTES: f64 = 10_000.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// Hash of its whole content; each row of the file contains it.
    pub name: String,
    pub guideline: Guideline,
    pub tests: bool,
    pub seed: u64,
    pub items: Vec<Item>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    Csv,
    JsonLines,
}

/// A row of a filled-in form: its line, and its cells by column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) cells: BTreeMap<String, String>,
}

impl Row {
    /// The trimmed text in a column; empty if there is none.
    pub(crate) fn cell(&self, column: &str) -> &str {
        self.cells.get(column).map_or("", |cell| cell.trim())
    }
}

/// The code of a subject; empty for answers.
fn code(subject: &Subject) -> &str {
    match subject {
        Subject::Pair(pair) => &pair.code,
        Subject::Generated(generated) => &generated.code,
        Subject::Answers(_) => "",
    }
}

/// The columns of a subject that are shown to people. They contain no label, system or model.
pub fn shown_columns(subject: &Subject) -> Vec<(&'static str, String)> {
    match subject {
        Subject::Pair(Pair { query, code, language, .. })
        | Subject::Generated(Generated { query, code, language, .. }) => {
            vec![("query", query.clone()), ("code", code.clone()), ("language", language.clone())]
        }
        Subject::Answers(Answers { query, sides, .. }) => {
            let columns: &[&str] = if sides.len() == 1 { &["results"] } else { &["a", "b"] };
            let sides = columns.iter().copied().zip(sides.iter().map(|side| results(&side.codes)));
            std::iter::once(("query", query.clone())).chain(sides).collect()
        }
    }
}

/// The results of a list one below the other, numbered if there are several.
fn results(codes: &[String]) -> String {
    match codes {
        [only] => only.clone(),
        several => {
            let numbered = several
                .iter()
                .enumerate()
                .map(|(position, code)| format!("[{}]\n{}", position + 1, code.trim_end()));
            numbered.collect::<Vec<_>>().join("\n\n")
        }
    }
}

/// The columns that people fill in.
fn asked(asks: ItemKind, tests: bool) -> impl Iterator<Item = &'static str> {
    let own = match asks {
        ItemKind::Generated => Some("edited_code"),
        _ => tests.then_some("test_program"),
    };
    std::iter::once("label").chain(own).chain(["minutes", "comment"])
}

impl Form {
    pub fn new(guideline: Guideline, tests: bool, seed: u64, subjects: Vec<Subject>) -> Self {
        let items: Vec<Item> =
            (1..).zip(subjects).map(|(number, subject)| Item { number, subject }).collect();
        let (tests_text, seed_text) = (tests.to_string(), seed.to_string());
        let shown: Vec<String> = items
            .iter()
            .flat_map(|item| {
                shown_columns(&item.subject).into_iter().map(|(_, text)| text).chain([item.subject.content()])
            })
            .collect();
        let mut parts = vec![guideline.name.as_str(), &guideline.version, &tests_text, &seed_text];
        parts.extend(shown.iter().map(String::as_str));
        Self { name: digest(&parts)[..12].to_owned(), guideline, tests, seed, items }
    }

    /// The form of a ledger with this name, if there is one.
    ///
    /// # Errors
    /// When the ledger cannot be read, or the form's guideline cannot be parsed.
    pub fn read(ledger: &Ledger, name: &str) -> Result<Option<Self>, JudgeError> {
        let Some(StoredForm { name, guideline, tests, seed, items }) = ledger.form(name)? else {
            return Ok(None);
        };
        let guideline = Guideline::stored(&guideline, ledger)?;
        Ok(Some(Self { name, guideline, tests, seed, items }))
    }

    /// Records the form in a ledger, unless it is there.
    pub(crate) fn record(&self, writer: &Writer) -> Result<(), JudgeError> {
        let Self { name, guideline, tests, seed, items } = self.clone();
        let guideline = GuidelineText { name: guideline.name, text: guideline.text };
        writer.add_form(StoredForm { name, guideline, tests, seed, items })?;
        Ok(())
    }

    /// The same form without test programs, which has the answers before testing; `None` if this one has none.
    pub fn untested(&self) -> Option<Self> {
        let subjects = || self.items.iter().map(|item| item.subject.clone()).collect();
        self.tests.then(|| Self::new(self.guideline.clone(), false, self.seed, subjects()))
    }

    /// The content of the form's file.
    pub fn write(&self, format: FileFormat) -> String {
        let mut text = String::new();
        for item in &self.items {
            let given = [("form", self.name.clone()), ("item", item.number.to_string())];
            let given = given.into_iter().chain(shown_columns(&item.subject));
            let blank = asked(self.guideline.asks(), self.tests).map(|column| (column, String::new()));
            let cells: Vec<(&str, String)> = given.chain(blank).collect();
            match format {
                FileFormat::JsonLines => {
                    let object: serde_json::Map<String, serde_json::Value> =
                        cells.into_iter().map(|(column, text)| (column.to_owned(), text.into())).collect();
                    text.push_str(&serde_json::Value::Object(object).to_string());
                    text.push('\n');
                }
                FileFormat::Csv => {
                    if text.is_empty() {
                        // Without a byte order mark, some spreadsheets do not recognize UTF-8.
                        text.push('\u{feff}');
                        text.push_str(&csv_line(cells.iter().map(|(column, _)| (*column).to_owned())));
                    }
                    text.push_str(&csv_line(cells.into_iter().map(|(_, text)| protected(&text))));
                }
            }
        }
        text
    }

    /// Numbers of the rows with a text that many spreadsheets would truncate.
    pub(crate) fn too_long_for_spreadsheets(&self) -> Vec<i64> {
        let is_long = |item: &&Item| {
            shown_columns(&item.subject).iter().any(|(_, text)| text.chars().count() >= MAX_CELL_CHARACTERS)
        };
        self.items.iter().filter(is_long).map(|item| item.number).collect()
    }

    /// Parses the reply in a row; `None` if nothing is filled in; an error describes what was expected.
    pub(crate) fn reply(&self, item: &Item, row: &Row) -> Result<Option<Reply>, String> {
        for (column, text) in shown_columns(&item.subject) {
            let Some(cell) = row.cells.get(column) else { continue };
            if !same_text(cell, &text) && !same_text(cell, &protected(&text)) {
                return Err(format!(
                    "the text of the column {column} has changed since the form was exported, so the label may be \
                     about another text; restore it from the form, or export the form as JSON lines"
                ));
            }
        }
        let asks = self.guideline.asks();
        let filled = |column: &str| Some(row.cell(column)).filter(|cell| !cell.is_empty());
        let label = match filled("label") {
            Some(label) => self.guideline.value(label).ok_or_else(|| {
                format!("expected one of {} as label, found {label:?}", self.guideline.expected())
            })?,
            None => {
                let other = asked(asks, self.tests).find(|column| filled(column).is_some());
                return match other {
                    None => Ok(None),
                    Some(column) => Err(format!(
                        "the column {column} is filled in but label is not; fill in both or neither"
                    )),
                };
            }
        };
        let minutes = filled("minutes")
            .map(|text| {
                let minutes = text.replace(',', ".").parse::<f64>().ok();
                minutes
                    .filter(|minutes| (0.0..=MAX_MINUTES).contains(minutes))
                    .ok_or_else(|| format!("expected a number of minutes, such as 1.5, found {text:?}"))
            })
            .transpose()?;
        let program = filled("test_program");
        match (self.tests, program) {
            (true, None) => {
                return Err(format!(
                    "expected a test program, since this form asks for tests; add one, or write {NO_PROGRAM:?} where \
                     none is possible"
                ));
            }
            (false, Some(_)) => {
                return Err(
                    "found a test program in a form that asks for labels without tests; remove it, or export a form \
                     with tests"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let edited = filled("edited_code");
        if asks == ItemKind::Generated && (label.review == Some(GeneratedStatus::Edited)) != edited.is_some()
        {
            return Err("expected the whole changed code in edited_code where the label is edit, and nothing otherwise"
                .to_owned());
        }
        let shown = code(&item.subject);
        // Leading white space of code is kept.
        let code_in = |column: &str| {
            let code = row.cells.get(column)?.trim_matches(['\r', '\n']);
            Some(without_copied_apostrophe(code, shown).to_owned())
        };
        Ok(Some(Reply {
            label: label.name().to_owned(),
            program: program
                .filter(|program| !program.eq_ignore_ascii_case(NO_PROGRAM))
                .and_then(|_| code_in("test_program")),
            edited: edited.and_then(|_| code_in("edited_code")),
            minutes,
            comment: row.cell("comment").to_owned(),
        }))
    }
}

/// A text that spreadsheets do not interpret as a formula.
fn protected(text: &str) -> String {
    if text.starts_with(RISKY) { format!("'{text}") } else { text.to_owned() }
}

/// Code without the apostrophe that [`protected`] added to the shown text, if it was copied too: the code begins like
/// the protected text and not like the original.
fn without_copied_apostrophe<'c>(code: &'c str, shown: &str) -> &'c str {
    let beginning = |text: &str| {
        let after = text.trim_start_matches('\'');
        (text.len() - after.len(), after.chars().next())
    };
    match code.strip_prefix('\'') {
        Some(copied) if shown.starts_with(RISKY) && beginning(copied) == beginning(shown) => copied,
        _ => code,
    }
}

/// Returns whether two texts are equal except for white space, which spreadsheets change.
fn same_text(a: &str, b: &str) -> bool {
    let visible = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<Vec<char>>();
    visible(a) == visible(b)
}

/// All cells are quoted, because some programs also split forms at semicolons and tabs.
fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let cell = |cell: String| format!("\"{}\"", cell.replace('"', "\"\""));
    cells.map(cell).collect::<Vec<_>>().join(",") + "\n"
}

/// Reads the rows of a filled-in form: CSV with commas, semicolons or tabs, or JSON lines, detected from the text. An
/// error is the line with what was expected.
pub(crate) fn rows(text: &str) -> Result<Vec<Row>, (usize, String)> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') { json_rows(text) } else { csv_rows(text) }
}

fn json_rows(text: &str) -> Result<Vec<Row>, (usize, String)> {
    let mut rows = Vec::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|error| (line, format!("expected a JSON object: {error}")))?;
        let mut cells = BTreeMap::new();
        for (column, value) in object {
            let cell = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Null => String::new(),
                value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => value.to_string(),
                _ => return Err((line, format!("expected text, a number or null as {column:?}"))),
            };
            cells.insert(column, cell);
        }
        rows.push(Row { line, cells });
    }
    Ok(rows)
}

fn csv_rows(text: &str) -> Result<Vec<Row>, (usize, String)> {
    let first = text.lines().next().unwrap_or_default();
    // In locales with a decimal comma, spreadsheets write semicolons.
    let delimiter = [b',', b';', b'\t']
        .into_iter()
        .max_by_key(|delimiter| first.bytes().filter(|byte| byte == delimiter).count())
        .unwrap_or(b',');
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text.as_bytes());
    let failed = |error: csv::Error| {
        let line = error.position().map_or(1, |position| position.line() as usize);
        (line, format!("expected a table: {error}"))
    };
    let columns: Vec<String> =
        reader.headers().map_err(failed)?.iter().map(|name| name.trim().to_lowercase()).collect();
    if let Some(twice) = columns
        .iter()
        .enumerate()
        .find(|(position, name)| !name.is_empty() && columns[..*position].contains(name))
    {
        return Err((1, format!("expected columns with different names, found {:?} twice", twice.1)));
    }
    let mut rows = Vec::new();
    // Lines are counted here, because the reader's line number is that of the end of the previous row.
    let (mut line, mut counted) = (1, 0);
    for record in reader.records() {
        let record = record.map_err(failed)?;
        let start = record.position().map_or(counted, |position| position.byte() as usize);
        let start = start + text[start..].bytes().take_while(|byte| b"\r\n".contains(byte)).count();
        line += text[counted..start].bytes().filter(|byte| *byte == b'\n').count();
        counted = start;
        if record.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        if record.len() > columns.len() {
            return Err((
                line,
                format!("expected {} cells, one per column, found {}", columns.len(), record.len()),
            ));
        }
        let cells = columns.iter().cloned().zip(record.iter().map(str::to_owned)).collect();
        rows.push(Row { line, cells });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_named_by_the_lines_that_they_begin_on() {
        for end in ["\n", "\r\n"] {
            let text = ["a,b", "1,2", "\"x", "y\",3", "4,5", ""].join(end);
            let lines: Vec<usize> = rows(&text).unwrap().iter().map(|row| row.line).collect();
            assert_eq!(lines, [2, 3, 5], "{end:?}");
        }
    }

    fn form(texts: &[(String, String)], tests: bool) -> Form {
        let pair = |(query, code): &(String, String)| {
            let (query, code) = (query.clone(), code.clone());
            Subject::Pair(Pair {
                id: "1".to_owned(),
                query_id: "2".to_owned(),
                query,
                code_id: "3".to_owned(),
                code,
                language: "python".to_owned(),
                label: Some(1),
                alternative: None,
            })
        };
        let guideline = Guideline::named("cosqa-plus").unwrap();
        Form::new(guideline, tests, 1, texts.iter().map(pair).collect())
    }

    #[test]
    fn a_changed_text_is_seen_and_changed_white_space_is_not() {
        let form = form(&[("=a  b".to_owned(), "x\n  y\n".to_owned())], false);
        let reply = |query: &str, code: &str| {
            let cells = [("query", query), ("code", code), ("label", "no")];
            let cells = cells.map(|(column, cell)| (column.to_owned(), cell.to_owned())).into();
            form.reply(&form.items[0], &Row { line: 1, cells })
        };
        for (query, code) in [("=a  b", "x\n  y\n"), ("'=a b", "x\r\n  y"), ("=a b", "x y")] {
            assert!(reply(query, code).is_ok(), "{query} {code}");
        }
        for (query, code) in [("a b", "x y"), ("'=a b", "x z"), ("", "x y")] {
            assert!(
                reply(query, code).unwrap_err().contains("has changed since the form was exported"),
                "{query} {code}"
            );
        }
    }

    #[test]
    fn an_apostrophe_that_was_copied_is_no_code() {
        for (shown, written, expected) in [
            ("@cache\ndef f(): pass", "'@cache\ndef f(): return 1", "@cache\ndef f(): return 1"),
            ("@cache\ndef f(): pass", "'@other\ndef f(): pass", "@other\ndef f(): pass"),
            ("@cache\ndef f(): pass", "@cache\ndef f(): pass", "@cache\ndef f(): pass"),
            ("'''doc'''", "''''doc'''", "'''doc'''"),
            ("'''doc'''", "'''doc'''", "'''doc'''"),
            ("@cache\ndef f(): pass", "'''doc'''", "'''doc'''"),
            ("def f(): pass", "'@' + x", "'@' + x"),
        ] {
            let form = form(&[("q".to_owned(), shown.to_owned())], true);
            let cells = [("label", "yes"), ("test_program", written)];
            let cells = cells.map(|(column, cell)| (column.to_owned(), cell.to_owned())).into();
            let reply = form.reply(&form.items[0], &Row { line: 1, cells }).unwrap().unwrap();
            assert_eq!(reply.program.as_deref(), Some(expected), "{shown} {written}");
        }
    }

    #[test]
    fn the_name_stands_for_all_that_is_in_it() {
        let texts = |last: &str| [("a".to_owned(), "b".to_owned()), ("c".to_owned(), last.to_owned())];
        assert_eq!(form(&texts("d"), true), form(&texts("d"), true));
        assert_ne!(form(&texts("d"), true).name, form(&texts("e"), true).name);
        assert_ne!(form(&texts("d"), true).name, form(&texts("d"), false).name);
    }

    #[test]
    fn tables_that_cannot_be_read_say_where() {
        for (text, line, words) in [
            ("a,b,a\n1,2,3\n", 1, "different names"),
            ("a,b\n1,2\n1,2,3\n", 3, "expected 2 cells"),
            ("{\"a\": 1}\n{\"a\": \n", 2, "expected a JSON object"),
            ("{\"a\": 1}\n\n{\"a\": []}\n", 3, "expected text"),
        ] {
            let (found, problem) = rows(text).unwrap_err();
            assert!(found == line && problem.contains(words), "{found} {problem}");
        }
        assert_eq!(rows("a,b\n\n ,\n").unwrap().len(), 0);
        assert_eq!(rows("").unwrap().len(), 0);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(texts in prop::collection::vec((any::<String>(), "\\PC*"), 1..5), tests: bool) {
            let form = form(&texts, tests);
            for format in [FileFormat::Csv, FileFormat::JsonLines] {
                let mut rows = rows(&form.write(format)).unwrap();
                prop_assert_eq!(rows.len(), texts.len());
                for (item, row) in form.items.iter().zip(&mut rows) {
                    prop_assert_eq!(row.cell("form"), &form.name);
                    prop_assert_eq!(row.cell("item"), item.number.to_string());
                    prop_assert_eq!(form.reply(item, row), Ok(None));
                    row.cells.insert("label".to_owned(), "yes".to_owned());
                    row.cells.insert("test_program".to_owned(), if tests { "none" } else { "" }.to_owned());
                    prop_assert_eq!(form.reply(item, row).unwrap().unwrap().label, "yes");
                }
            }
        }

        #[test]
        fn no_cell_is_a_formula(texts in prop::collection::vec(("[=+@'\t\r\n,;\" a-]{0,8}", any::<String>()), 1..5)) {
            let text = form(&texts, false).write(FileFormat::Csv);
            for row in rows(&text).unwrap() {
                for cell in row.cells.values() {
                    prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell:?}");
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = rows(&text);
        }
    }
}
