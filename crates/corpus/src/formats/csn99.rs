//! The CodeSearchNet challenge (CSN99): 99 queries, and grades from 0 to 3 that annotators gave to the results of
//! systems, in six languages. Several annotators may have judged the same link, on separate lines.
//!
//! Source: `resources` of github.com/github/CodeSearchNet. Queries are compared in lower case, as in its evaluation,
//! so the lower-cased query is its id.

use super::{Encoding, Field, Format, Judgment, Kind, Query, Record, RecordKind, Value};

/// `annotationStore.csv`.
pub static ANNOTATIONS: Format = Format {
    name: "csn99",
    about: "relevance annotations of the CodeSearchNet challenge",
    holds: RecordKind::Judgments,
    container: Encoding::Csv,
    fields: &[
        Field::required("Language", Kind::Text, "programming language"),
        Field::filled("Query", "the query"),
        Field::required("GitHubUrl", Kind::Text, "link to the function at its commit"),
        Field::required("Relevance", Kind::Whole, "0 irrelevant, 1 weak, 2 strong, 3 exact"),
        Field::optional("Notes", Kind::Text, "what the annotator remarked"),
    ],
    read: |row, sink| {
        sink(Record::Judgment(Judgment {
            query: row.text("Query").to_lowercase(),
            document: row.text("GitHubUrl"),
            grade: row.one_of("Relevance", 0..=3)?.unwrap_or_default(),
            language: row.get("Language"),
        }))
    },
    write: Some(|record, _| {
        let Record::Judgment(judgment) = record else { return None };
        Some(vec![
            judgment.language.clone().unwrap_or_default().into(),
            judgment.query.clone().into(),
            judgment.document.clone().into(),
            Value::Whole(judgment.grade.into()),
            Value::Absent,
        ])
    }),
    ..Format::BASE
};

pub static QUERIES: Format = Format {
    name: "csn99-queries",
    about: "queries of the CodeSearchNet challenge",
    holds: RecordKind::Queries,
    container: Encoding::Csv,
    fields: &[Field { unique: true, ..Field::filled("query", "the query") }],
    hint: "queries",
    read: |row, sink| {
        let text = row.text("query");
        sink(Record::Query(Query { id: text.to_lowercase(), text }))
    },
    write: Some(|record, _| match record {
        Record::Query(query) => Some(vec![query.text.clone().into()]),
        _ => None,
    }),
    ..Format::BASE
};
