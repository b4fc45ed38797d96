//! AdvTest of CodeXGLUE: CodeSearchNet's Python functions, with the identifiers of the validation and test splits
//! anonymized. Train has `code` and `code_tokens`; the others have `function` and `function_tokens`.
//!
//! Source: `Text-Code/NL-code-search-Adv` of github.com/microsoft/CodeXGLUE. `url` identifies the query and `idx` the
//! code; its model reads both sides as space-separated tokens.

use super::huggingface::ranking;
use super::{Encoding, Field, Format, Kind, Pair, Record, RecordKind, Side, Value};

/// The files of one split.
pub static FUNCTIONS: Format = Format {
    name: "advtest",
    about: "AdvTest of CodeXGLUE: Python functions whose names are hidden in the test split",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::unique("idx", Kind::Id, "id of the code"),
        Field::required("url", Kind::Text, "id of the query: link to the lines at the commit"),
        Field::optional("docstring", Kind::Text, "documentation"),
        Field::required("docstring_tokens", Kind::Tokens, "its tokens"),
        Field::optional("code", Kind::Text, "the function, in train"),
        Field::optional("code_tokens", Kind::Tokens, "its tokens, in train"),
        Field::optional("function", Kind::Text, "the function, in validation and test"),
        Field::optional("function_tokens", Kind::Tokens, "its tokens, in validation and test"),
        Field::optional("language", Kind::Text, "programming language"),
        Field::optional("repo", Kind::Text, "repository, owner/name"),
        Field::optional("path", Kind::Text, "path in the repository"),
        Field::optional("func_name", Kind::Text, "qualified name"),
    ],
    read: |row, sink| {
        let tokens = row.get("function_tokens").or_else(|| row.get("code_tokens"));
        let Some(code) = row.get("function").or_else(|| row.get("code")).or_else(|| tokens.clone()) else {
            return Err(row.line.error(
                "`function` or `code`, or the tokens of one",
                "a record without code",
                "add it, or remove the record",
            ));
        };
        let docstring = row.get("docstring_tokens");
        sink(Record::Pair(Box::new(Pair {
            id: row.get("idx"),
            query: Side::new(
                row.get("url"),
                row.get("docstring").or_else(|| docstring.clone()).unwrap_or_default(),
                docstring,
            ),
            code: Side::new(row.get("idx"), code, tokens),
            label: Some(1),
            language: row.get("language").or_else(|| Some("python".into())),
            repository: row.get("repo"),
            path: row.get("path"),
            name: row.get("func_name"),
            url: row.get("url"),
            ..Pair::default()
        })))
    },
    write: Some(|record, number| {
        let pair = record.matching_pair()?;
        let index = Value::Whole(i64::try_from(number).ok()?);
        let url = pair.url.clone().or_else(|| pair.query.id.clone()).unwrap_or_else(|| number.to_string());
        Some(vec![
            index,
            url.into(),
            pair.query.text.clone().into(),
            pair.query.token_list(),
            Value::Absent,
            Value::Absent,
            pair.code.text.clone().into(),
            pair.code.token_list(),
            pair.language.clone().into(),
            pair.repository.clone().into(),
            pair.path.clone().into(),
            pair.name.clone().into(),
        ])
    }),
    ..Format::BASE
};

/// Predictions: for each query, the retrieved codes, best first.
pub static PREDICTIONS: Format = Format {
    name: "advtest-predictions",
    about: "predictions for AdvTest: the ids of the codes found for each url, best first",
    holds: RecordKind::Rankings,
    container: Encoding::JsonLines,
    fields: &[
        Field::unique("url", Kind::Text, "id of the query"),
        Field::required("answers", Kind::Ids, "ids of codes, best first"),
    ],
    hint: "predictions",
    read: |row, sink| ranking(&row.text("url"), row.ids("answers"), sink),
    ..Format::BASE
};
