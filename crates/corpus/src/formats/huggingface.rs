//! CoIR and MTEB data sets in their Hugging Face layout: tables of documents, queries and judgments, as JSON lines or
//! Parquet.
//!
//! CoIR (huggingface.co/CoIR-Retrieval) has two data sets per task, `<task>-queries-corpus` and `<task>-qrels`, with
//! texts in the columns of BEIR; MTEB has configurations `corpus`, `queries` and `default` or `qrels`, prefixed by
//! the language if there are several. Newer MTEB files use `id` instead of `_id`.

use super::qrels::{read_judgment, write_judgment};
use super::{
    Document, Encoding, Field, Format, FormatError, Kind, Query, Record, RecordKind, Retrieved, Sink,
};

pub static CORPUS: Format = Format {
    name: "mteb-corpus",
    about: "MTEB: documents",
    holds: RecordKind::Documents,
    container: Encoding::JsonLines,
    fields: &[
        Field::unique("id", Kind::Id, "id of the document"),
        Field::optional("title", Kind::Text, "title, often empty"),
        Field::required("text", Kind::Text, "body"),
        Field::optional("language", Kind::Text, "programming language"),
    ],
    hint: "corpus",
    read: |row, sink| {
        let (id, title, text) = (row.text("id"), row.text("title"), row.text("text"));
        let document = Document { title, language: row.get("language"), ..Document::new(id, text) };
        sink(Record::Document(document))
    },
    ..Format::BASE
};

/// Queries, with the column `id`.
pub static QUERIES: Format = Format {
    name: "mteb-queries",
    about: "MTEB: queries",
    holds: RecordKind::Queries,
    container: Encoding::JsonLines,
    fields: &[Field::unique("id", Kind::Id, "id of the query"), Field::filled("text", "the query")],
    hint: "queries",
    read: |row, sink| sink(Record::Query(Query { id: row.text("id"), text: row.text("text") })),
    ..Format::BASE
};

pub static COIR_QRELS: Format = Format {
    name: "coir-qrels",
    about: "CoIR: judgments",
    holds: RecordKind::Judgments,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("query_id", Kind::Id, "id of the query"),
        Field::required("corpus_id", Kind::Id, "id of the document"),
        Field::required("score", Kind::Whole, "grade: 1 or more is relevant"),
    ],
    read: |row, sink| read_judgment(row, ["query_id", "corpus_id", "score"], sink),
    write: Some(write_judgment),
    ..Format::BASE
};

pub static MTEB_QRELS: Format = Format {
    name: "mteb-qrels",
    about: "MTEB: judgments",
    holds: RecordKind::Judgments,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("query-id", Kind::Id, "id of the query"),
        Field::required("corpus-id", Kind::Id, "id of the document"),
        Field::required("score", Kind::Whole, "grade: 1 or more is relevant"),
    ],
    read: |row, sink| read_judgment(row, ["query-id", "corpus-id", "score"], sink),
    write: Some(write_judgment),
    ..Format::BASE
};

/// Candidates to re-rank, in MTEB's format, which is also used for [distractors](crate::dataset::distractors).
pub static TOP_RANKED: Format = Format {
    name: "mteb-top-ranked",
    about: "MTEB: the candidates of each query that are ranked",
    holds: RecordKind::Rankings,
    container: Encoding::JsonLines,
    fields: &[
        Field::unique("query-id", Kind::Id, "id of the query"),
        Field::required("corpus-ids", Kind::Ids, "ids of the candidates"),
    ],
    read: |row, sink| ranking(&row.text("query-id"), row.ids("corpus-ids"), sink),
    ..Format::BASE
};

/// Assigns scores to a ranked list without scores: descending by 1.
pub(super) fn ranking(query: &str, documents: Vec<String>, sink: &mut Sink<'_>) -> Result<(), FormatError> {
    let count = documents.len();
    documents.into_iter().enumerate().try_for_each(|(rank, document)| {
        let score = (count - rank) as f64;
        sink(Record::Retrieved(Retrieved { query: query.to_owned(), document, score }))
    })
}
