//! StatCodeSearch, the R set of GenCodeSearchNet: comments and the code that follows them, from social science
//! projects, with the kind of analysis as label.
//!
//! Source: github.com/drndr/gencodesearchnet, a CSV table (a fuller one also has authors, packages and links) and a
//! JSON variant. The set for ranking has the format of [`super::gecs`].

use super::{Encoding, Field, Format, FormatError, Kind, Pair, Record, RecordKind, Row, Side, Sink, Value};

/// The CSV table, one row per comment.
pub static TABLE: Format = Format {
    name: "statcodesearch",
    about: "StatCodeSearch: comments and R code with the kind of analysis (CSV)",
    holds: RecordKind::Pairs,
    container: Encoding::Csv,
    fields: &[
        Field::unique("Idx", Kind::Id, "id of the pair"),
        Field::required("Comment", Kind::Text, "the comment"),
        Field::required("Code", Kind::Text, "the code that follows it"),
        Field::optional("License", Kind::Text, "license of the project"),
        Field::optional("Label", Kind::Text, "kind of analysis"),
    ],
    read: |row, sink| pair(row, "Idx", sink),
    write: Some(|record, number| {
        let pair = record.matching_pair()?;
        let rest = [Value::Absent, pair.category.clone().into()];
        Some(texts(pair, number).into_iter().chain(rest).collect())
    }),
    ..Format::BASE
};

/// The JSON variant, with the same fields.
pub static JSON: Format = Format {
    name: "statcodesearch-json",
    about: "StatCodeSearch: comments and R code with the kind of analysis (JSON)",
    holds: RecordKind::Pairs,
    container: Encoding::JsonArray,
    fields: &[
        Field::unique("ID", Kind::Id, "id of the pair"),
        Field::required("Comment", Kind::Text, "the comment"),
        Field::required("Code", Kind::Text, "the code that follows it"),
        Field::optional("Label", Kind::Text, "kind of analysis"),
        Field::optional("Source", Kind::Text, "project"),
        Field::optional("File", Kind::Text, "file in the project"),
    ],
    read: |row, sink| pair(row, "ID", sink),
    write: Some(|record, number| {
        let pair = record.matching_pair()?;
        let rest = [&pair.category, &pair.repository, &pair.path].map(|value| value.clone().into());
        Some(texts(pair, number).into_iter().chain(rest).collect())
    }),
    ..Format::BASE
};

/// Id, comment and code.
fn texts(pair: &Pair, number: usize) -> [Value<'static>; 3] {
    let id = pair.id.clone().unwrap_or_else(|| number.to_string());
    [id, pair.query.text.clone(), pair.code.text.clone()].map(Value::from)
}

fn pair(row: &Row<'_>, id: &str, sink: &mut Sink<'_>) -> Result<(), FormatError> {
    let id = row.get(id);
    sink(Record::Pair(Box::new(Pair {
        id: id.clone(),
        query: Side::new(id.clone(), row.text("Comment"), None),
        code: Side::new(id, row.text("Code"), None),
        label: Some(1),
        language: Some("r".into()),
        category: row.get("Label"),
        ..Pair::default()
    })))
}
