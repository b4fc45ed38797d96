//! User-provided pairs of queries and codes: the minimum that can be judged or measured, with optional fields for
//! everything else.

use super::{Encoding, Field, Format, Kind, Pair, Record, RecordKind, Side, Value};

pub static PAIRS: Format = Format {
    name: "query-code",
    about: "pairs of your own: queries and codes, with labels or without",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::filled("query", "the query"),
        Field::required("code", Kind::Text, "the code"),
        Field::optional("label", Kind::Whole, "1 if the code answers the query, 0 if not"),
        Field::optional("language", Kind::Text, "of the code"),
        Field::optional("id", Kind::Id, "id of the pair"),
        Field::optional("query_id", Kind::Id, "id of the query; equal queries are one otherwise"),
        Field::optional("code_id", Kind::Id, "id of the code; equal codes are one otherwise"),
    ],
    read: |row, sink| {
        sink(Record::Pair(Box::new(Pair {
            id: row.get("id"),
            query: Side::new(row.get("query_id"), row.text("query"), None),
            code: Side::new(row.get("code_id"), row.text("code"), None),
            label: row.one_of("label", 0..=1)?,
            language: row.get("language"),
            ..Pair::default()
        })))
    },
    write: Some(|record, _| {
        let Record::Pair(pair) = record else { return None };
        Some(vec![
            pair.query.text.clone().into(),
            pair.code.text.clone().into(),
            pair.label.map_or(Value::Absent, |label| Value::Whole(label.into())),
            pair.language.clone().into(),
            pair.id.clone().into(),
            pair.query.id.clone().into(),
            pair.code.id.clone().into(),
        ])
    }),
    ..Format::BASE
};
