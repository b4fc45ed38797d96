//! CodeSearchNet (CSN): functions of six languages with their documentation, in shards of JSON lines for each language
//! and split; and the "deduplicated definitions", a pickled list of all functions, documented or not.
//!
//! Source: github.com/github/CodeSearchNet and huggingface.co/datasets/code_search_net, whose columns have different
//! names. A pair's query is the documentation; `url` is the link to the code at its commit.

use super::{Document, Encoding, Field, Format, Kind, Pair, Record, RecordKind, Side, Value};

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
    hint: "",
    read: |row, sink| {
        let url = row.get("url");
        sink(Record::Pair(Box::new(Pair {
            query: Side::new(url.clone(), row.text("docstring"), row.get("docstring_tokens")),
            code: Side::new(url.clone(), row.text("code"), row.get("code_tokens")),
            label: Some(1),
            language: row.get("language"),
            repository: row.get("repo"),
            path: row.get("path"),
            name: row.get("func_name"),
            url,
            partition: row.get("partition"),
            ..Pair::default()
        })))
    },
    write: Some(|record, number| {
        let pair = record.pair().filter(|pair| pair.label != Some(0))?;
        let url = pair.url.clone().or_else(|| pair.code.id.clone()).unwrap_or_else(|| number.to_string());
        let tokens =
            |side: &Side| Value::List(side.tokens_or_text().split_whitespace().map(str::to_owned).collect());
        let text = |text: &Option<String>| Value::from(text.clone().unwrap_or_default());
        Some(vec![
            text(&pair.repository),
            text(&pair.path),
            text(&pair.name),
            pair.code.text.clone().into(),
            text(&pair.language),
            pair.code.text.clone().into(),
            tokens(&pair.code),
            pair.query.text.clone().into(),
            tokens(&pair.query),
            Value::Absent,
            pair.partition.clone().into(),
            url.into(),
        ])
    }),
    split: None,
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
    hint: "",
    read: |row, sink| {
        let url = row.get("func_code_url");
        sink(Record::Pair(Box::new(Pair {
            query: Side::new(
                url.clone(),
                row.text("func_documentation_string"),
                row.get("func_documentation_tokens"),
            ),
            code: Side::new(url.clone(), row.text("func_code_string"), row.get("func_code_tokens")),
            label: Some(1),
            language: row.get("language"),
            repository: row.get("repository_name"),
            path: row.get("func_path_in_repository"),
            name: row.get("func_name"),
            url,
            partition: row.get("split_name"),
            ..Pair::default()
        })))
    },
    write: None,
    split: None,
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
        let docstring = row.text("docstring");
        if docstring.trim().is_empty() {
            let document = Document::new(row.text("url"), row.text("function"));
            return sink(Record::Document(Document { language: row.get("language"), ..document }));
        }
        let url = row.get("url");
        sink(Record::Pair(Box::new(Pair {
            query: Side::new(url.clone(), docstring, row.get("docstring_tokens")),
            code: Side::new(url.clone(), row.text("function"), row.get("function_tokens")),
            label: Some(1),
            language: row.get("language"),
            repository: row.get("nwo"),
            path: row.get("path"),
            name: row.get("identifier"),
            url,
            ..Pair::default()
        })))
    },
    write: None,
    split: None,
};
