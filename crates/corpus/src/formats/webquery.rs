//! WebQueryTest of CodeXGLUE: 1,046 pairs of web queries and Python functions, 523 queries with two codes each. Its
//! labels are not public, so they are in a separate file: the answers, which is also the format of predictions.
//!
//! Source: `Text-Code/NL-code-search-WebQuery` of github.com/microsoft/CodeXGLUE. Line breaks in `code` were replaced
//! by spaces before publication, so the code cannot be parsed.

use super::{
    Encoding, Field, Format, FormatError, Kind, Label, Line, Pair, Record, RecordKind, Side, Value, excerpt,
};

pub static PAIRS: Format = Format {
    name: "webquery",
    about: "WebQueryTest of CodeXGLUE: web queries and codes, without labels",
    holds: RecordKind::Pairs,
    container: Encoding::JsonArray,
    fields: &[
        Field::unique("idx", Kind::Text, "id of the pair"),
        Field::filled("doc", "the web query"),
        Field::required("code", Kind::Text, "the code, newlines as spaces"),
    ],
    hint: "webquery",
    read: |row, sink| {
        sink(Record::Pair(Box::new(Pair {
            id: row.get("idx"),
            query: Side::new(None, row.text("doc"), None),
            code: Side::new(None, row.text("code"), None),
            language: Some("python".into()),
            ..Pair::default()
        })))
    },
    write: Some(|record, number| {
        let Record::Pair(pair) = record else { return None };
        let id = pair.id.clone().unwrap_or_else(|| format!("webquery-test-{}", number + 1));
        let code = pair.code.text.replace(['\n', '\r'], " ");
        Some(vec![id.into(), pair.query.text.clone().into(), code.into()])
    }),
    ..Format::BASE
};

/// The answers, or predictions: `idx TAB 0/1`.
pub static ANSWERS: Format = Format {
    name: "webquery-answers",
    about: "answers or predictions of WebQueryTest: idx TAB 0/1",
    holds: RecordKind::Labels,
    container: Encoding::Lines { header: false },
    fields: &[
        Field::unique("idx", Kind::Text, "id of the pair"),
        Field::required("label", Kind::Whole, "1 if the code answers the query, 0 if not"),
    ],
    hint: "answers",
    read: |row, sink| {
        let label = row.one_of("label", 0..=1)?.unwrap_or_default();
        sink(Record::Label(Label { pair: row.text("idx"), label }))
    },
    write: Some(|record, number| match record {
        Record::Label(label) => Some(vec![label.pair.clone().into(), Value::Whole(label.label.into())]),
        Record::Pair(pair) => {
            let id = pair.id.clone().unwrap_or_else(|| format!("webquery-test-{}", number + 1));
            Some(vec![id.into(), Value::Whole(pair.label?.into())])
        }
        _ => None,
    }),
    split: Some(split),
};

fn split<'a>(line: &Line<'a>) -> Result<Option<Vec<Value<'a>>>, FormatError> {
    let fields: Vec<&str> = line.text.split('\t').collect();
    let [idx, label] = fields[..] else {
        return Err(line.error(
            "2 fields separated by a tab: idx, 0 or 1",
            excerpt(line.text),
            "fix the line, or remove it",
        ));
    };
    Ok(Some(vec![Value::Text(idx.into()), Kind::Whole.parse_cell(label)]))
}
