//! Relevance judgments: TREC qrels and BEIR qrels.

use super::{
    Encoding, Field, Format, FormatError, Kind, Line, Record, RecordKind, Row, Sink, Value, excerpt,
    for_each_line, open,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::BufRead;
use std::path::Path;

/// Grades by query id, then document id. A grade of 1 or more is relevant; a negative one counts as unjudged.
pub type Qrels = BTreeMap<String, BTreeMap<String, i32>>;

/// BEIR's `qrels/<split>.tsv`.
pub static BEIR: Format = Format {
    name: "beir-qrels",
    about: "BEIR judgments: query-id TAB corpus-id TAB score",
    holds: RecordKind::Judgments,
    container: Encoding::Lines { header: true },
    fields: &[
        Field::required("query-id", Kind::Text, "id of the query"),
        Field::required("corpus-id", Kind::Text, "id of the document"),
        Field::required("score", Kind::Whole, "grade: 1 or more is relevant"),
    ],
    read: |row, sink| read_judgment(row, ["query-id", "corpus-id", "score"], sink),
    write: Some(write_judgment),
    split: Some(|line| {
        if is_header(line) && line.text.split('\t').count() == 3 {
            return Ok(None);
        }
        let Judgment { query, document, grade } = judgment(line, true)?;
        Ok(Some(vec![Value::Text(query.into()), Value::Text(document.into()), Value::Whole(grade.into())]))
    }),
    ..Format::BASE
};

pub static TREC: Format = Format {
    name: "trec-qrels",
    about: "TREC judgments: query iteration document grade",
    holds: RecordKind::Judgments,
    container: Encoding::Lines { header: false },
    fields: &[
        Field::required("query", Kind::Text, "id of the query"),
        Field::optional("iteration", Kind::Text, "always 0"),
        Field::required("document", Kind::Text, "id of the document"),
        Field::required("grade", Kind::Whole, "1 or more is relevant"),
    ],
    read: |row, sink| read_judgment(row, ["query", "document", "grade"], sink),
    write: Some(|record, _| {
        let Record::Judgment(judgment) = record else { return None };
        let (query, document) = (judgment.query.clone(), judgment.document.clone());
        Some(vec![query.into(), Value::Whole(0), document.into(), Value::Whole(judgment.grade.into())])
    }),
    split: Some(|line| {
        let Judgment { query, document, grade } = judgment(line, false)?;
        let [query, document] = [query, document].map(|id| Value::Text(id.into()));
        Ok(Some(vec![query, Value::Absent, document, Value::Whole(grade.into())]))
    }),
    ..Format::BASE
};

pub(super) fn write_judgment(record: &Record, _: usize) -> Option<Vec<Value<'static>>> {
    let Record::Judgment(judgment) = record else { return None };
    let (query, document) = (judgment.query.clone(), judgment.document.clone());
    Some(vec![query.into(), document.into(), Value::Whole(judgment.grade.into())])
}

pub(super) fn read_judgment(
    row: &Row<'_>,
    [query, document, grade]: [&str; 3],
    sink: &mut Sink<'_>,
) -> Result<(), FormatError> {
    sink(Record::Judgment(super::Judgment {
        query: row.text(query),
        document: row.text(document),
        grade: row.integer(grade)?.unwrap_or_default(),
        language: None,
    }))
}

pub(crate) struct Judgment<'a> {
    pub(crate) query: &'a str,
    pub(crate) document: &'a str,
    pub(crate) grade: i32,
}

/// Reads a qrels file. See [`parse`].
///
/// # Errors
/// When the file cannot be read, and as [`parse`].
pub fn read(path: &Path) -> Result<Qrels, FormatError> {
    parse(open(path)?, path)
}

/// Parses TREC qrels (`query iteration document grade`) or BEIR qrels (`query-id TAB corpus-id TAB score`, header
/// line optional). The first line determines the format; `path` is for error messages only.
///
/// # Errors
/// When a line has the wrong number of fields, a grade is not a 32-bit integer, a document is judged twice with
/// different grades, or there is no judgment.
pub fn parse(reader: impl BufRead, path: &Path) -> Result<Qrels, FormatError> {
    parse_checked(reader, path, |_, _| Ok(()))
}

/// Like [`parse`]; `check` may reject a judgment.
pub(crate) fn parse_checked(
    reader: impl BufRead,
    path: &Path,
    mut check: impl FnMut(&Line<'_>, &Judgment<'_>) -> Result<(), FormatError>,
) -> Result<Qrels, FormatError> {
    let mut qrels = Qrels::new();
    let mut is_beir = None;
    for_each_line(reader, path, |line| {
        if is_beir.is_none() {
            is_beir = Some(has_beir_layout(line)?);
            if is_header(line) {
                return Ok(());
            }
        }
        let judgment = judgment(line, is_beir == Some(true))?;
        check(line, &judgment)?;
        match qrels.entry(judgment.query.to_owned()).or_default().entry(judgment.document.to_owned()) {
            Entry::Vacant(free) => {
                free.insert(judgment.grade);
            }
            Entry::Occupied(taken) if *taken.get() != judgment.grade => {
                return Err(line.error(
                    format!("one grade for query {:?} and document {:?}", judgment.query, judgment.document),
                    format!("{} after {}", judgment.grade, taken.get()),
                    "remove one of the two lines",
                ));
            }
            Entry::Occupied(_) => {}
        }
        Ok(())
    })?;
    if qrels.is_empty() {
        return Err(FormatError::empty(path, "at least one judgment", "none"));
    }
    Ok(qrels)
}

/// Returns whether a line has the fields `query-id TAB corpus-id TAB score`, where ids may contain spaces, and not `query
/// iteration document grade`, separated by any white space.
fn has_beir_layout(line: &Line<'_>) -> Result<bool, FormatError> {
    if line.text.split('\t').count() == 3 {
        Ok(true)
    } else if line.text.split_whitespace().count() == 4 {
        Ok(false)
    } else {
        Err(line.error(
            "TREC qrels (query iteration document grade) or BEIR qrels (query-id TAB corpus-id TAB score)",
            excerpt(line.text),
            "check that this is a qrels file",
        ))
    }
}

/// BEIR's header is `query-id corpus-id score`; other tools write `query_id` or `qid`.
fn is_header(line: &Line<'_>) -> bool {
    let first = line.text.split('\t').next().unwrap_or_default().trim();
    ["query-id", "query_id", "qid", "query"].iter().any(|name| first.eq_ignore_ascii_case(name))
}

fn judgment<'a>(line: &Line<'a>, beir: bool) -> Result<Judgment<'a>, FormatError> {
    let (query, document, grade) = if beir {
        let mut fields = line.text.split('\t');
        match (fields.next(), fields.next(), fields.next(), fields.next()) {
            (Some(query), Some(document), Some(grade), None) => (query, document, grade.trim()),
            _ => {
                return Err(line.error(
                    "3 fields separated by tabs: query-id, corpus-id, score",
                    excerpt(line.text),
                    "fix the line, or remove it",
                ));
            }
        }
    } else {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        match fields[..] {
            [query, _iteration, document, grade] => (query, document, grade),
            _ => {
                return Err(line.error(
                    "4 fields: query, iteration, document, grade",
                    format!("{} in {}", fields.len(), excerpt(line.text)),
                    "fix the line, or remove it",
                ));
            }
        }
    };
    let grade = grade.parse().map_err(|_| {
        line.error(
            "a whole number as grade",
            excerpt(grade),
            "write 0 for not relevant, 1 or more for relevant",
        )
    })?;
    Ok(Judgment { query, document, grade })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Qrels, String> {
        parse(text.as_bytes(), Path::new("q")).map_err(|error| error.to_string())
    }

    #[test]
    fn both_layouts_read_the_same() {
        let expected = Qrels::from([
            ("1".into(), BTreeMap::from([("a".into(), 2), ("b".into(), -1)])),
            ("2".into(), BTreeMap::from([("a".into(), 0)])),
        ]);
        let beir = parse_text("query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t-1\n2\ta\t0\n");
        let bare = parse_text("1\ta\t2\n1\tb\t-1\n2\ta\t0\n");
        let trec = parse_text("1 0 a 2\n1\t0\tb\t-1\n2 Q0 a  0\n");
        assert_eq!(beir.as_ref(), Ok(&expected));
        assert_eq!(bare.as_ref(), Ok(&expected));
        assert_eq!(trec.as_ref(), Ok(&expected));
    }

    #[test]
    fn beir_ids_may_contain_spaces() {
        let qrels = parse_text("query-id\tcorpus-id\tscore\nq 1\ta b\t1\n").unwrap();
        assert_eq!(qrels["q 1"]["a b"], 1);
    }

    #[test]
    fn equal_judgments_merge_and_contradictory_ones_are_refused() {
        assert_eq!(parse_text("1 0 a 1\n1 0 a 1\n").unwrap()["1"]["a"], 1);
        let error = parse_text("1 0 a 1\n1 0 a 2\n").unwrap_err();
        assert!(
            error.starts_with("q:2: expected one grade for query \"1\" and document \"a\", found 2 after 1")
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, start) in [
            ("1 0 a 1\n1 0 a\n", "q:2: expected 4 fields"),
            ("1\ta\t1\n1\ta\n", "q:2: expected 3 fields"),
            ("1 0 a x\n", "q:1: expected a whole number as grade, found \"x\""),
            ("1\ta\tx\n", "q:1: expected a whole number as grade, found \"x\""),
            ("1\ta\t1.5\n", "q:1: expected a whole number as grade, found \"1.5\""),
            ("1 0 a 99999999999\n", "q:1: expected a whole number"),
            ("hello\n", "q:1: expected TREC qrels"),
            ("", "q: expected at least one judgment"),
            ("query-id\tcorpus-id\tscore\n", "q: expected at least one judgment"),
        ] {
            let error = parse_text(text).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
    }
}
