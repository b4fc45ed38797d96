//! CoSQA+: CoSQA's queries, a code base of functions, and pairs of both that models and tests labeled; "pairs for
//! search" has only the positive pairs.
//!
//! Source: github.com/DeepSoftwareAnalytics/CoSQA_Plus. Its evaluator expects queries and codes in the schema of the
//! pairs, with empty strings for missing values; such files are read like the plain ones.

use super::{Document, Encoding, Field, Format, Kind, Pair, Query, Record, RecordKind, Side, Value};

pub static PAIRS: Format = Format {
    name: "cosqa-plus",
    about: "CoSQA+: labeled pairs of queries and codes",
    holds: RecordKind::Pairs,
    container: Encoding::JsonArray,
    fields: &[
        Field::unique("pair-idx", Kind::Whole, "id of the pair"),
        Field::required("query-idx", Kind::Whole, "id of the query"),
        Field::required("query", Kind::Text, "the query"),
        Field::required("code-idx", Kind::Whole, "id of the code"),
        Field::required("code", Kind::Text, "the code"),
        Field::optional(
            "label",
            Kind::Whole,
            "1 if the code answers the query, 0 if not; absent before it is judged",
        ),
        Field::optional(
            "language",
            Kind::Text,
            "of the code, where it is not Python; not in the published files",
        ),
    ],
    read: |row, sink| {
        sink(Record::Pair(Box::new(Pair {
            id: row.get("pair-idx"),
            query: Side::new(row.get("query-idx"), row.text("query"), None),
            code: Side::new(row.get("code-idx"), row.text("code"), None),
            label: row.one_of("label", 0..=1)?,
            language: Some(row.get("language").unwrap_or_else(|| "python".into())),
            ..Pair::default()
        })))
    },
    write: Some(|record, number| {
        let Record::Pair(pair) = record else { return None };
        let whole = |id: &Option<String>| id.as_ref()?.parse().ok();
        Some(vec![
            Value::Whole(whole(&pair.id).unwrap_or(number as i64)),
            // Another number would turn one query into several.
            Value::Whole(whole(&pair.query.id)?),
            pair.query.text.clone().into(),
            Value::Whole(whole(&pair.code.id)?),
            pair.code.text.clone().into(),
            Value::Whole(pair.label?.into()),
            pair.language.clone().filter(|language| language != "python").into(),
        ])
    }),
    ..Format::BASE
};

pub static QUERIES: Format = Format {
    name: "cosqa-plus-queries",
    about: "CoSQA+: the queries",
    holds: RecordKind::Queries,
    container: Encoding::JsonArray,
    fields: &[
        Field::unique("query-idx", Kind::Whole, "id of the query"),
        Field::filled("query", "the query"),
    ],
    read: |row, sink| sink(Record::Query(Query { id: row.text("query-idx"), text: row.text("query") })),
    write: Some(|record, _| {
        let Record::Query(query) = record else { return None };
        Some(vec![Value::Whole(query.id.parse().ok()?), query.text.clone().into()])
    }),
    ..Format::BASE
};

pub static CODES: Format = Format {
    name: "cosqa-plus-codes",
    about: "CoSQA+: the code base",
    holds: RecordKind::Documents,
    container: Encoding::JsonArray,
    fields: &[
        Field::unique("code-idx", Kind::Whole, "id of the code"),
        Field::required("code", Kind::Text, "the code"),
    ],
    read: |row, sink| {
        let (id, text) = (row.text("code-idx"), row.text("code"));
        sink(Record::Document(Document::new(id, text)))
    },
    write: Some(|record, _| {
        let Record::Document(document) = record else { return None };
        Some(vec![Value::Whole(document.id.parse().ok()?), document.full_text().into_owned().into()])
    }),
    ..Format::BASE
};
