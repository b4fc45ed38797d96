//! CodeSearchNet (CSN): functions of six languages with their documentation, in shards of JSON lines for each language
//! and split; and the "deduplicated definitions", a pickled list of all functions, documented or not.
//!
//! Source: github.com/github/CodeSearchNet and huggingface.co/datasets/code_search_net, whose columns have different
//! names. A pair's query is the documentation; `url` is the link to the code at its commit.

use super::{Document, Encoding, Field, Format, Kind, Pair, Record, RecordKind, Row, Side, Value};

pub static FUNCTIONS: Format = Format {
    name: "codesearchnet",
    about: "CodeSearchNet: documented functions of a language and split",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("repo", Kind::Text, "repository, owner/name"),
        Field::required("path", Kind::Text, "path in the repository"),
        Field::required("func_name", Kind::Text, "qualified name"),
        Field::optional("original_string", Kind::Text, "the function with its documentation"),
        Field::required("language", Kind::Text, "programming language"),
        Field::required("code", Kind::Text, "the function"),
        Field::required("code_tokens", Kind::Tokens, "its tokens, without documentation"),
        Field::required("docstring", Kind::Text, "its documentation"),
        Field::required("docstring_tokens", Kind::Tokens, "tokens of the documentation's summary"),
        Field::optional("sha", Kind::Text, "commit"),
        Field::optional("partition", Kind::Text, "split"),
        Field::required("url", Kind::Text, "link to the lines at the commit"),
    ],
    read: |row, sink| {
        let (documentation, code) = (["docstring", "docstring_tokens"], ["code", "code_tokens"]);
        let pair = function(row, documentation, code, ["url", "repo", "path", "func_name"]);
        sink(Record::Pair(Box::new(Pair { partition: row.get("partition"), ..pair })))
    },
    write: Some(|record, number| {
        let pair = record.matching_pair()?;
        let url = pair.url.clone().or_else(|| pair.code.id.clone()).unwrap_or_else(|| number.to_string());
        let text = |text: &Option<String>| Value::from(text.clone().unwrap_or_default());
        Some(vec![
            text(&pair.repository),
            text(&pair.path),
            text(&pair.name),
            pair.code.text.clone().into(),
            text(&pair.language),
            pair.code.text.clone().into(),
            pair.code.token_list(),
            pair.query.text.clone().into(),
            pair.query.token_list(),
            Value::Absent,
            pair.partition.clone().into(),
            url.into(),
        ])
    }),
    ..Format::BASE
};

/// The same with the column names of the Hugging Face data set.
pub static HUGGINGFACE: Format = Format {
    name: "codesearchnet-huggingface",
    about: "CodeSearchNet with the column names of code_search_net on Hugging Face",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("repository_name", Kind::Text, "repository, owner/name"),
        Field::required("func_path_in_repository", Kind::Text, "path in the repository"),
        Field::required("func_name", Kind::Text, "qualified name"),
        Field::required("language", Kind::Text, "programming language"),
        Field::required("func_code_string", Kind::Text, "the function"),
        Field::required("func_code_tokens", Kind::Tokens, "its tokens, without documentation"),
        Field::required("func_documentation_string", Kind::Text, "its documentation"),
        Field::required("func_documentation_tokens", Kind::Tokens, "tokens of the documentation's summary"),
        Field::optional("split_name", Kind::Text, "split"),
        Field::required("func_code_url", Kind::Text, "link to the lines at the commit"),
    ],
    read: |row, sink| {
        let documentation = ["func_documentation_string", "func_documentation_tokens"];
        let origin = ["func_code_url", "repository_name", "func_path_in_repository", "func_name"];
        let pair = function(row, documentation, ["func_code_string", "func_code_tokens"], origin);
        sink(Record::Pair(Box::new(Pair { partition: row.get("split_name"), ..pair })))
    },
    ..Format::BASE
};

/// All functions: a pair for each documented one, a document for each of the others.
pub static DEFINITIONS: Format = Format {
    name: "codesearchnet-definitions",
    about: "deduplicated definitions of CodeSearchNet: all functions of a language, as a pickled list",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("nwo", Kind::Text, "repository, owner/name"),
        Field::optional("sha", Kind::Text, "commit"),
        Field::required("path", Kind::Text, "path in the repository"),
        Field::required("language", Kind::Text, "programming language"),
        Field::required("identifier", Kind::Text, "qualified name"),
        Field::optional("docstring", Kind::Text, "documentation, often empty"),
        Field::optional("docstring_tokens", Kind::Tokens, "tokens of the documentation"),
        Field::required("function", Kind::Text, "the function"),
        Field::optional("function_tokens", Kind::Tokens, "its tokens"),
        Field::required("url", Kind::Text, "link to the lines at the commit"),
    ],
    hint: "definitions",
    read: |row, sink| {
        if row.text("docstring").trim().is_empty() {
            let document = Document::new(row.text("url"), row.text("function"));
            return sink(Record::Document(Document { language: row.get("language"), ..document }));
        }
        let (documentation, code) = (["docstring", "docstring_tokens"], ["function", "function_tokens"]);
        let pair = function(row, documentation, code, ["url", "nwo", "path", "identifier"]);
        sink(Record::Pair(Box::new(pair)))
    },
    ..Format::BASE
};

/// A function and its documentation, given the fields with the text and the tokens of each, and those with its link,
/// repository, path and name.
fn function(row: &Row<'_>, documentation: [&str; 2], code: [&str; 2], origin: [&str; 4]) -> Pair {
    let [url, repository, path, name] = origin.map(|field| row.get(field));
    let side = |[text, tokens]: [&str; 2]| Side::new(url.clone(), row.text(text), row.get(tokens));
    Pair {
        query: side(documentation),
        code: side(code),
        label: Some(1),
        language: row.get("language"),
        repository,
        path,
        name,
        url,
        ..Pair::default()
    }
}
