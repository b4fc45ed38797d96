//! BEIR directories: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`.

use super::qrels::{self, Qrels};
use super::source::Source;
use super::{Document, Encoding, Field, Format, FormatError, Kind, Query, Record, RecordKind, excerpt, open};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A retrieval benchmark: a corpus, queries, and which documents answer them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// Documents, in the order of the file, with unique ids.
    pub documents: Vec<Document>,
    /// Queries of all splits, in the order of the file, with unique ids.
    pub queries: Vec<Query>,
    /// Judgments of one split, on existing queries and documents.
    pub qrels: Qrels,
}

pub static CORPUS: Format = Format {
    name: "beir-corpus",
    about: "BEIR documents (CoIR's and MTEB's too)",
    holds: RecordKind::Documents,
    container: Encoding::JsonLines,
    fields: &[
        Field::unique("_id", Kind::Id, "id of the document"),
        Field::optional("title", Kind::Text, "title, often empty"),
        Field::required("text", Kind::Text, "body"),
        Field::optional("language", Kind::Text, "programming language"),
        Field::optional("location", Kind::Text, "path and first line, as src/a.py:12"),
    ],
    hint: "corpus",
    read: |row, sink| {
        let (id, title, text) = (row.text("_id"), row.text("title"), row.text("text"));
        let (language, location) = (row.get("language"), row.get("location"));
        sink(Record::Document(Document { id, title, text, language, location }))
    },
    write: Some(|record, _| {
        let Record::Document(document) = record else { return None };
        let Document { id, title, text, language, location } = document.clone();
        Some(vec![id.into(), title.into(), text.into(), language.into(), location.into()])
    }),
    ..Format::BASE
};

pub static QUERIES: Format = Format {
    name: "beir-queries",
    about: "BEIR queries (CoIR's and MTEB's too)",
    holds: RecordKind::Queries,
    container: Encoding::JsonLines,
    fields: &[Field::unique("_id", Kind::Id, "id of the query"), Field::filled("text", "the query")],
    hint: "queries",
    read: |row, sink| sink(Record::Query(Query { id: row.text("_id"), text: row.text("text") })),
    write: Some(|record, _| {
        let Record::Query(query) = record else { return None };
        Some(vec![query.id.clone().into(), query.text.clone().into()])
    }),
    ..Format::BASE
};

/// Reads a BEIR directory with the judgments of one split (`test`, `dev`, ...).
///
/// # Errors
/// When a file is missing or malformed, a document or query id is used twice, or a judgment refers to a query or
/// document that does not exist. Unknown fields are ignored.
pub fn read(directory: &Path, split: &str) -> Result<Benchmark, FormatError> {
    let qrels_path = qrels_path(directory, split);
    if !qrels_path.is_file() {
        return Err(missing_split(directory, split));
    }
    let (queries, documents) = read_texts(directory)?;
    let document_ids: HashSet<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    let query_ids: HashSet<&str> = queries.iter().map(|query| query.id.as_str()).collect();
    let qrels = qrels::parse_checked(open(&qrels_path)?, &qrels_path, |line, judgment| {
        let known = [
            ("query", judgment.query, &query_ids, "queries.jsonl"),
            ("document", judgment.document, &document_ids, "corpus.jsonl"),
        ];
        for (what, id, ids, file) in known {
            if !ids.contains(id) {
                return Err(line.error(
                    format!("the id of a {what} in {file}"),
                    excerpt(id),
                    format!("add the {what} to {file}, or remove the line"),
                ));
            }
        }
        Ok(())
    })?;
    Ok(Benchmark { documents, queries, qrels })
}

/// Reads the queries and documents of a BEIR directory, without judgments.
///
/// # Errors
/// When a file is missing or malformed, or a document or query id is used twice.
pub fn read_texts(directory: &Path) -> Result<(Vec<Query>, Vec<Document>), FormatError> {
    let (corpus_path, queries_path) = (directory.join("corpus.jsonl"), directory.join("queries.jsonl"));
    let documents: Vec<Document> = read_all(&corpus_path, &CORPUS)?
        .into_iter()
        .filter_map(|record| if let Record::Document(document) = record { Some(document) } else { None })
        .collect();
    let queries: Vec<Query> = read_all(&queries_path, &QUERIES)?
        .into_iter()
        .filter_map(|record| if let Record::Query(query) = record { Some(query) } else { None })
        .collect();
    Ok((queries, documents))
}

fn qrels_path(directory: &Path, split: &str) -> PathBuf {
    directory.join("qrels").join(format!("{split}.tsv"))
}

fn missing_split(directory: &Path, split: &str) -> FormatError {
    let mut splits: Vec<String> = fs::read_dir(directory.join("qrels"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".tsv")?.to_owned()))
        .collect();
    splits.sort();
    let (found, remedy) = if splits.is_empty() {
        (
            "no qrels".to_owned(),
            "name a BEIR directory (corpus.jsonl, queries.jsonl, qrels/<split>.tsv)".to_owned(),
        )
    } else {
        (format!("the splits {}", splits.join(", ")), "choose one of them with --split".to_owned())
    };
    FormatError::File {
        path: directory.to_owned(),
        expected: format!("a BEIR directory with qrels/{split}.tsv"),
        found,
        remedy,
    }
}

/// The records of a file, whose ids must be unique.
fn read_all(path: &Path, format: &'static Format) -> Result<Vec<Record>, FormatError> {
    let mut records = Vec::new();
    let mut ids = HashSet::new();
    let source = Source { path: path.to_owned(), format, container: Encoding::JsonLines };
    source.for_each_row(&mut |row| {
        let row = row?;
        for (field, id) in row.unique_values() {
            if ids.contains(&id) {
                return Err(row.line.error(
                    format!("each `{field}` once"),
                    format!("{} again", excerpt(&id)),
                    "remove one, or give it a different id",
                ));
            }
            ids.insert(id);
        }
        (format.read)(&row, &mut |record| {
            records.push(record);
            Ok(())
        })
    })?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with one query, two documents and the split `dev`.
    fn directory(corpus: &str, row: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("qrels")).unwrap();
        for (name, text) in [
            ("corpus.jsonl", corpus),
            ("queries.jsonl", "{\"_id\": \"q\", \"text\": \"say \\\"hello\\\"\"}\n"),
            ("qrels/dev.tsv", &format!("query-id\tcorpus-id\tscore\n{row}\n")),
        ] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    const CORPUS: &str =
        "{\"_id\": 7, \"text\": \"a\", \"metadata\": {}}\n{\"_id\":\"8\",\"title\":null,\"text\":\"b\"}\n";

    fn message(directory: &Path, split: &str) -> String {
        read(directory, split).unwrap_err().to_string()
    }

    #[test]
    fn ids_may_be_numbers_titles_may_be_absent_and_other_fields_are_ignored() {
        let benchmark = read(directory(CORPUS, "q\t7\t2").path(), "dev").unwrap();
        let ids: Vec<(&str, &str)> =
            benchmark.documents.iter().map(|d| (d.id.as_str(), d.title.as_str())).collect();
        assert_eq!(ids, [("7", ""), ("8", "")]);
        assert_eq!(benchmark.queries[0].text, "say \"hello\"");
        assert_eq!(benchmark.qrels["q"]["7"], 2);
    }

    #[test]
    fn a_missing_split_names_those_that_exist() {
        let error = message(directory(CORPUS, "q\t7\t1").path(), "test");
        assert!(error.contains("qrels/test.tsv, found the splits dev; choose one"), "{error}");
        let error = message(tempfile::tempdir().unwrap().path(), "test");
        assert!(error.contains("found no qrels; name a BEIR directory"), "{error}");
    }

    #[test]
    fn a_judgment_of_something_unknown_is_refused_with_its_line() {
        for (row, expected) in [
            ("q9\t7\t1", "dev.tsv:2: expected the id of a query in queries.jsonl, found \"q9\""),
            ("q\t9\t1", "dev.tsv:2: expected the id of a document in corpus.jsonl, found \"9\""),
        ] {
            let error = message(directory(CORPUS, row).path(), "dev");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        for (corpus, expected) in [
            ("{\"_id\":\"1\",\"text\":\"a\"}\n{\"_id\":\"2\"}\n", "corpus.jsonl:2: expected `text`"),
            (
                "{\"_id\":\"1\",\"text\":\"a\"}\n\n{\"_id\":\"1\",\"text\":\"b\"}\n",
                "corpus.jsonl:3: expected each `_id` once",
            ),
            ("{\"_id\":[],\"text\":\"a\"}\n", "corpus.jsonl:1: expected text or a whole number as `_id`"),
            ("not json\n", "corpus.jsonl:1: expected an object"),
            ("[]\n", "corpus.jsonl:1: expected an object"),
        ] {
            let error = message(directory(corpus, "q\t1\t1").path(), "dev");
            assert!(error.contains(expected), "{error}");
        }
    }
}
