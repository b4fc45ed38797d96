//! Queries as a BEIR directory, for other tools.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use quarry_corpus::formats::FormatError;
use quarry_corpus::formats::write::Staged;
use serde_json::json;

use super::QuerySet;
use super::evaluation::Units;
use crate::spans::CodeSpan;

/// Writes `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`: a document for each unit of the view, with the id
/// `path:first-last` (lines), and with path and name as title. Every unit in any span of an answer is relevant,
/// because the format cannot express which are equivalent.
///
/// # Errors
/// When the directory exists and is not empty, or cannot be written; nothing is left behind in that case.
pub fn write_beir(directory: &Path, set: &QuerySet, units: &Units) -> Result<(), FormatError> {
    let spans: Vec<CodeSpan> = units.hits.iter().map(|hit| CodeSpan::from(hit.clone())).collect();
    // Two units may share their only line.
    let id = |number: usize| {
        let CodeSpan { path, start_line, end_line } = &spans[number];
        let before = spans[..number].iter().rev().take_while(|other| other.path == *path);
        let twins = before.filter(|other| **other == spans[number]).count();
        let twin = if twins == 0 { String::new() } else { format!("+{twins}") };
        format!("{path}:{start_line}-{end_line}{twin}")
    };
    let ids: Vec<String> = (0..spans.len()).map(id).collect();
    let (mut corpus, mut queries) = (String::new(), String::new());
    let mut qrels = "query-id\tcorpus-id\tscore\n".to_owned();
    for ((id, hit), text) in ids.iter().zip(&units.hits).zip(&units.texts) {
        let title = format!("{} {}", hit.path, hit.name);
        corpus += &format!("{}\n", json!({ "_id": id, "title": title.trim(), "text": text }));
    }
    for (number, query) in set.questions.queries.iter().enumerate() {
        let query_id = format!("{}-{}", set.source, number + 1);
        queries += &format!("{}\n", json!({ "_id": query_id, "text": query.text }));
        let targets: Vec<_> = query.answers.iter().flatten().collect();
        for (id, _) in
            ids.iter().zip(&spans).filter(|(_, span)| targets.iter().any(|target| span.answers(target)))
        {
            qrels += &format!("{query_id}\t{id}\t1\n");
        }
    }
    let staged = Staged::new(directory)?;
    let files = [("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/test.tsv", qrels)];
    for (name, text) in files {
        let path = staged.path().join(name);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(directory))?;
            let mut file = fs::File::create(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|source| FormatError::Write { path: directory.join(name), source })?;
    }
    staged.publish()
}
