//! CoSQA: web queries paired with Python functions, labeled 0 or 1. The question answering files and the retrieval
//! files are arrays of pairs; the code base of the retrieval task is one object from code to number.
//!
//! Source: github.com/Jun-jie-Huang/CoCLR. `doc` is the **web query**, `code` is raw with its docstring,
//! `code_tokens` and `docstring_tokens` are strings of space-separated tokens.

use super::{
    Document, Encoding, Field, Format, FormatError, Kind, Pair, Record, RecordKind, Row, Side, Sink, Value,
};

const IDX: Field = Field::unique("idx", Kind::Text, "id of the pair");
const DOC: Field = Field::filled("doc", "the web query");
const CODE: Field = Field::required("code", Kind::Text, "the code with its docstring");
const CODE_TOKENS: Field = Field::optional("code_tokens", Kind::Tokens, "its tokens without docstring");
const DOCSTRING_TOKENS: Field = Field::optional("docstring_tokens", Kind::Tokens, "tokens of its docstring");
const LABEL: Field = Field::required("label", Kind::Whole, "1 if the code answers the query, 0 if not");

/// `cosqa-train.json`, `cosqa-dev.json`, `cosqa-all.json`. Equal queries are one query, equal codes one code.
pub static QA: Format = Format {
    name: "cosqa-qa",
    about: "CoSQA question answering: web queries and codes with a label",
    holds: RecordKind::Pairs,
    container: Encoding::JsonArray,
    fields: &[IDX, DOC, CODE, CODE_TOKENS, DOCSTRING_TOKENS, LABEL],
    read: |row, sink| pair(row, None, None, sink),
    write: Some(|record, number| match record {
        Record::Pair(pair) => columns(pair, number),
        _ => None,
    }),
    ..Format::BASE
};

/// `cosqa-retrieval-*.json`. Each record is a separate query; its code is the one with the number in [`CODES`].
pub static RETRIEVAL: Format = Format {
    name: "cosqa-retrieval",
    about: "CoSQA code search: web queries with the number of their code in the code base",
    holds: RecordKind::Pairs,
    container: Encoding::JsonArray,
    fields: &[
        IDX,
        DOC,
        Field::optional("code", Kind::Text, "the code with its docstring"),
        CODE_TOKENS,
        DOCSTRING_TOKENS,
        LABEL,
        Field::required("retrieval_idx", Kind::Whole, "number of the code in the code base"),
    ],
    read: |row, sink| pair(row, row.get("idx"), row.get("retrieval_idx"), sink),
    write: Some(|record, number| {
        // If a query has several codes, each is a separate record.
        let Record::Pair(pair) = record else { return None };
        let mut columns = columns(pair, number)?;
        columns.push(Value::Whole(pair.code.id.as_ref()?.parse().ok()?));
        Some(columns)
    }),
    ..Format::BASE
};

/// `code_idx_map`: the code base, raw code to number.
pub static CODES: Format = Format {
    name: "cosqa-codes",
    about: "CoSQA code base: an object from code to number",
    holds: RecordKind::Documents,
    container: Encoding::JsonObject,
    fields: &[CODE, Field::unique("id", Kind::Whole, "number of the code")],
    read: |row, sink| {
        let (id, text) = (row.text("id"), row.text("code"));
        sink(Record::Document(Document { language: Some("python".into()), ..Document::new(id, text) }))
    },
    write: Some(|record, _| {
        let Record::Document(document) = record else { return None };
        Some(vec![document.full_text().into_owned().into(), Value::Whole(document.id.parse().ok()?)])
    }),
    ..Format::BASE
};

fn columns(pair: &Pair, number: usize) -> Option<Vec<Value<'static>>> {
    Some(vec![
        pair.id.clone().unwrap_or_else(|| format!("cosqa-{number}")).into(),
        pair.query.text.clone().into(),
        pair.code.text.clone().into(),
        pair.code.tokens.clone().into(),
        pair.documentation.clone().into(),
        Value::Whole(pair.label?.into()),
    ])
}

fn pair(
    row: &Row<'_>,
    query_id: Option<String>,
    code_id: Option<String>,
    sink: &mut Sink<'_>,
) -> Result<(), FormatError> {
    sink(Record::Pair(Box::new(Pair {
        id: row.get("idx"),
        query: Side::new(query_id, row.text("doc"), None),
        code: Side::new(code_id, row.text("code"), row.get("code_tokens")),
        label: row.one_of("label", 0..=1)?,
        documentation: row.get("docstring_tokens"),
        language: Some("python".into()),
        ..Pair::default()
    })))
}
