//! BEIR folders: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`.

use super::qrels::{self, Qrels};
use super::{
    Container, Document, Field, Format, FormatError, Holds, Kind, Line, Query, Record, excerpt,
    for_each_line, open,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A retrieval benchmark: a corpus, questions, and which documents answer them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// Documents, in the order of the file, ids unique.
    pub documents: Vec<Document>,
    /// Questions of all splits, in the order of the file, ids unique.
    pub queries: Vec<Query>,
    /// Judgements of one split; every query and document in it exists above.
    pub qrels: Qrels,
}

/// `corpus.jsonl`.
pub static CORPUS: Format = Format {
    name: "beir-corpus",
    about: "BEIR documents (CoIR's and MTEB's too)",
    holds: Holds::Documents,
    container: Container::JsonLines,
    fields: &[
        Field::unique("_id", Kind::Id, "id of the document"),
        Field::optional("title", Kind::Text, "title, often empty"),
        Field::required("text", Kind::Text, "body"),
    ],
    hint: "corpus",
    read: |row, sink| {
        let (id, title, text) = (row.text("_id"), row.text("title"), row.text("text"));
        sink(Record::Document(Document { id, title, text }))
    },
    write: Some(|record, _| {
        let Document { id, title, text } = record.document()?.clone();
        Some(vec![id.into(), title.into(), text.into()])
    }),
    split: None,
};

/// `queries.jsonl`.
pub static QUERIES: Format = Format {
    name: "beir-queries",
    about: "BEIR queries (CoIR's and MTEB's too)",
    holds: Holds::Queries,
    container: Container::JsonLines,
    fields: &[
        Field::unique("_id", Kind::Id, "id of the query"),
        Field::required("text", Kind::Text, "what is asked"),
    ],
    hint: "queries",
    read: |row, sink| sink(Record::Query(Query { id: row.text("_id"), text: row.text("text") })),
    write: Some(|record, _| {
        let Query { id, text } = record.query()?.clone();
        Some(vec![id.into(), text.into()])
    }),
    split: None,
};

#[derive(Serialize, Deserialize)]
struct CorpusLine<'a> {
    #[serde(rename = "_id", deserialize_with = "text_or_number")]
    id: Cow<'a, str>,
    #[serde(default)]
    title: Option<Cow<'a, str>>,
    text: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct QueryLine<'a> {
    #[serde(rename = "_id", deserialize_with = "text_or_number")]
    id: Cow<'a, str>,
    text: Cow<'a, str>,
}

/// Some data sets write their ids as JSON numbers.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'static, str>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "text or a whole number as `_id`")]
    enum Id {
        Text(String),
        Number(i64),
    }
    Ok(match Id::deserialize(deserializer)? {
        Id::Text(text) => text.into(),
        Id::Number(number) => number.to_string().into(),
    })
}

/// Reads a BEIR folder with the judgements of one split (`test`, `dev`, ...).
///
/// # Errors
/// A file that is missing or wrong, a document or query id used twice, or a judgement that names a query or
/// document which does not exist. Fields that the format does not know are ignored.
pub fn read(folder: &Path, split: &str) -> Result<Benchmark, FormatError> {
    let qrels_path = qrels_path(folder, split);
    if !qrels_path.is_file() {
        return Err(missing_split(folder, split));
    }
    let (corpus_path, queries_path) = (folder.join("corpus.jsonl"), folder.join("queries.jsonl"));
    let documents = parse_corpus(open(&corpus_path)?, &corpus_path)?;
    let queries = parse_queries(open(&queries_path)?, &queries_path)?;
    let document_ids: HashSet<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    let query_ids: HashSet<&str> = queries.iter().map(|query| query.id.as_str()).collect();
    let qrels = qrels::parse_checked(open(&qrels_path)?, &qrels_path, |line, judgement| {
        let known = [
            ("query", judgement.query, &query_ids, "queries.jsonl"),
            ("document", judgement.document, &document_ids, "corpus.jsonl"),
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

fn qrels_path(folder: &Path, split: &str) -> PathBuf {
    folder.join("qrels").join(format!("{split}.tsv"))
}

fn missing_split(folder: &Path, split: &str) -> FormatError {
    let mut splits: Vec<String> = fs::read_dir(folder.join("qrels"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".tsv")?.to_owned()))
        .collect();
    splits.sort();
    let (found, remedy) = if splits.is_empty() {
        (
            "no qrels".to_owned(),
            "name a BEIR folder (corpus.jsonl, queries.jsonl, qrels/<split>.tsv)".to_owned(),
        )
    } else {
        (format!("the splits {}", splits.join(", ")), "choose one of them with --split".to_owned())
    };
    FormatError::File {
        path: folder.to_owned(),
        expected: format!("a BEIR folder with qrels/{split}.tsv"),
        found,
        remedy,
    }
}

/// Reads `corpus.jsonl`: one object a line with `_id`, `text` and an optional `title`.
///
/// # Errors
/// A line that is no such object, or an id used twice.
pub fn parse_corpus(reader: impl BufRead, path: &Path) -> Result<Vec<Document>, FormatError> {
    let mut documents = Vec::new();
    let mut ids = HashSet::new();
    for_each_line(reader, path, |line| {
        let CorpusLine { id, title, text } = json(line, "an object with `_id`, `title` and `text`")?;
        unique(&mut ids, &id, line)?;
        documents.push(Document {
            id: id.into(),
            title: title.unwrap_or_default().into(),
            text: text.into_owned(),
        });
        Ok(())
    })?;
    Ok(documents)
}

/// Reads `queries.jsonl`: one object a line with `_id` and `text`.
///
/// # Errors
/// A line that is no such object, or an id used twice.
pub fn parse_queries(reader: impl BufRead, path: &Path) -> Result<Vec<Query>, FormatError> {
    let mut queries = Vec::new();
    let mut ids = HashSet::new();
    for_each_line(reader, path, |line| {
        let QueryLine { id, text } = json(line, "an object with `_id` and `text`")?;
        unique(&mut ids, &id, line)?;
        queries.push(Query { id: id.into(), text: text.into() });
        Ok(())
    })?;
    Ok(queries)
}

fn json<'a, T: Deserialize<'a>>(line: &Line<'a>, expected: &str) -> Result<T, FormatError> {
    serde_json::from_str(line.text).map_err(|error| {
        let message = error.to_string();
        // serde_json counts lines within the one line that it was given.
        let problem = message.split(" at line ").next().unwrap_or(&message);
        line.error(
            expected,
            format!("{} ({problem}, column {})", excerpt(line.text), error.column()),
            "write one JSON object a line",
        )
    })
}

fn unique(ids: &mut HashSet<String>, id: &str, line: &Line<'_>) -> Result<(), FormatError> {
    if ids.insert(id.to_owned()) {
        Ok(())
    } else {
        Err(line.error(
            "each `_id` once",
            format!("{} again", excerpt(id)),
            "remove one, or give it an id of its own",
        ))
    }
}

/// Writes a BEIR folder: corpus, queries, and the judgements as `qrels/<split>.tsv`, in the order given.
///
/// # Errors
/// When `folder` exists and is not empty (nothing is overwritten), or a file cannot be written.
pub fn write(folder: &Path, split: &str, benchmark: &Benchmark) -> Result<(), FormatError> {
    let occupied = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied || folder.is_file() {
        return Err(FormatError::File {
            path: folder.to_owned(),
            expected: "a folder that is new or empty".into(),
            found: "something there already".into(),
            remedy: "name another folder, or remove this one".into(),
        });
    }
    let qrels_folder = folder.join("qrels");
    fs::create_dir_all(&qrels_folder)
        .map_err(|source| FormatError::Write { path: qrels_folder.clone(), source })?;
    write_lines(&folder.join("corpus.jsonl"), |file| {
        benchmark.documents.iter().try_for_each(|Document { id, title, text }| {
            let line = CorpusLine { id: id.into(), title: Some(title.into()), text: text.into() };
            serde_json::to_writer(&mut *file, &line)?;
            writeln!(file)
        })
    })?;
    write_lines(&folder.join("queries.jsonl"), |file| {
        benchmark.queries.iter().try_for_each(|Query { id, text }| {
            serde_json::to_writer(&mut *file, &QueryLine { id: id.into(), text: text.into() })?;
            writeln!(file)
        })
    })?;
    write_lines(&qrels_path(folder, split), |file| {
        writeln!(file, "query-id\tcorpus-id\tscore")?;
        benchmark.qrels.iter().try_for_each(|(query, grades)| {
            grades.iter().try_for_each(|(document, grade)| writeln!(file, "{query}\t{document}\t{grade}"))
        })
    })
}

fn write_lines(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), FormatError> {
    File::create(path)
        .and_then(|file| {
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            file.flush()
        })
        .map_err(|source| FormatError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn benchmark() -> Benchmark {
        let document = |id: &str, title: &str, text: &str| Document {
            id: id.into(),
            title: title.into(),
            text: text.into(),
        };
        let query = |id: &str, text: &str| Query { id: id.into(), text: text.into() };
        Benchmark {
            documents: vec![
                document("2", "", "def f():\n\t\"\"\"Doc \u{e9} \\ \"\"\"\n"),
                document("1", "t", ""),
            ],
            queries: vec![query("q1", "say \"hello\""), query("q2", "")],
            qrels: Qrels::from([("q1".into(), BTreeMap::from([("1".into(), 2), ("2".into(), 0)]))]),
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new");
        write(&out, "dev", &benchmark()).unwrap();
        assert_eq!(read(&out, "dev").unwrap(), benchmark());
    }

    #[test]
    fn a_folder_in_use_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("precious"), "x").unwrap();
        let error = write(folder.path(), "test", &benchmark()).unwrap_err().to_string();
        assert!(error.contains("expected a folder that is new or empty"), "{error}");
    }

    #[test]
    fn a_missing_split_names_those_that_exist() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new");
        write(&out, "dev", &benchmark()).unwrap();
        let error = read(&out, "test").unwrap_err().to_string();
        assert!(error.contains("qrels/test.tsv, found the splits dev; choose one"), "{error}");
        let error = read(folder.path(), "test").unwrap_err().to_string();
        assert!(error.contains("found no qrels; name a BEIR folder"), "{error}");
    }

    #[test]
    fn a_judgement_of_something_unknown_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new");
        write(&out, "test", &benchmark()).unwrap();
        for (row, expected) in [
            ("q9\t1\t1", "test.tsv:2: expected the id of a query in queries.jsonl, found \"q9\""),
            ("q1\t9\t1", "test.tsv:2: expected the id of a document in corpus.jsonl, found \"9\""),
        ] {
            fs::write(out.join("qrels/test.tsv"), format!("query-id\tcorpus-id\tscore\n{row}\n")).unwrap();
            let error = read(&out, "test").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn ids_may_be_numbers_titles_may_be_absent_and_other_fields_are_ignored() {
        let lines = "{\"_id\": 7, \"text\": \"a\", \"metadata\": {}}\n{\"_id\":\"8\",\"title\":null,\"text\":\"b\"}\n";
        let documents = parse_corpus(lines.as_bytes(), Path::new("c")).unwrap();
        let ids: Vec<(&str, &str)> = documents.iter().map(|d| (d.id.as_str(), d.title.as_str())).collect();
        assert_eq!(ids, [("7", ""), ("8", "")]);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (lines, start) in [
            (
                "{\"_id\":\"1\",\"text\":\"a\"}\n{\"_id\":\"2\"}\n",
                "c:2: expected an object with `_id`, `title` and",
            ),
            (
                "{\"_id\":\"1\",\"text\":\"a\"}\n\n{\"_id\":\"1\",\"text\":\"b\"}\n",
                "c:3: expected each `_id` once",
            ),
            ("{\"_id\":[],\"text\":\"a\"}\n", "c:1: expected an object"),
            ("not json\n", "c:1: expected an object"),
            ("[]\n", "c:1: expected an object"),
        ] {
            let error = parse_corpus(lines.as_bytes(), Path::new("c")).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        }
        let error = parse_queries("{\"_id\":\"1\"}".as_bytes(), Path::new("q")).unwrap_err().to_string();
        assert!(error.contains("(missing field `text`, column"), "{error}");
    }
}
