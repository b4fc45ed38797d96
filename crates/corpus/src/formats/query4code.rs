//! Query4Code (Q4C): evaluation sets in a common format, and the output of its annotator.
//!
//! Source: the paper *Optimizing Code Retrieval: High-Quality and Scalable Dataset Annotation through Large Language
//! Models* and its repository. A record's code is identified by `url` or `relevant_ids`; if there are several of the
//! latter, all of them answer the query, and the record's own code is the first.

use super::{
    Document, Encoding, Field, Format, Judgment, Kind, Pair, Query, Record, RecordKind, Side, Value,
};

/// An evaluation set, or its corpus.
pub static PAIRS: Format = Format {
    name: "query4code",
    about: "Query4Code: an evaluation set of queries and codes",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("query", Kind::Text, "the query"),
        Field::required("code", Kind::Text, "the code"),
        Field::optional("url", Kind::Id, "id of the code"),
        Field::optional("relevant_ids", Kind::Ids, "ids of the codes that answer the query"),
    ],
    read: |row, sink| {
        let mut ids = row.ids("url");
        ids.extend(row.ids("relevant_ids"));
        let Some((own, others)) = ids.split_first() else {
            return Err(row.line.error(
                "`url` or `relevant_ids`",
                "neither",
                "add the id of the code that answers the query",
            ));
        };
        let query = row.index.to_string();
        sink(Record::Pair(Box::new(Pair {
            id: Some(query.clone()),
            query: Side::new(Some(query.clone()), row.text("query"), None),
            code: Side::new(Some(own.clone()), row.text("code"), None),
            label: Some(1),
            url: row.get("url"),
            ..Pair::default()
        })))?;
        others.iter().filter(|other| *other != own).try_for_each(|document| {
            sink(Record::Judgment(Judgment {
                query: query.clone(),
                document: document.clone(),
                grade: 1,
                language: None,
            }))
        })
    },
    write: Some(|record, number| {
        let pair = record.matching_pair()?;
        let url = pair.url.clone().or_else(|| pair.code.id.clone()).unwrap_or_else(|| number.to_string());
        Some(vec![pair.query.text.clone().into(), pair.code.text.clone().into(), url.into(), Value::Absent])
    }),
    ..Format::BASE
};

/// Output of the annotator: a summary of a function and a query for it.
pub static ANNOTATIONS: Format = Format {
    name: "query4code-annotations",
    about: "Query4Code: summaries and queries that the annotator wrote",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("summary", Kind::Text, "what the function does"),
        Field::filled("query", "what someone would ask to find it"),
    ],
    read: |row, sink| {
        let id = row.index.to_string();
        sink(Record::Query(Query { id: id.clone(), text: row.text("query") }))?;
        // A summary represents its function: it is what the query should find.
        sink(Record::Document(Document::new(id.clone(), row.text("summary"))))?;
        sink(Record::Judgment(Judgment { query: id.clone(), document: id, grade: 1, language: None }))
    },
    ..Format::BASE
};
