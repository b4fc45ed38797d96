//! Questions as a BEIR folder, for any other tool.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use quarry_corpus::formats::FormatError;
use quarry_corpus::formats::write::Staged;
use serde_json::json;

use super::Asked;
use super::evaluation::Units;
use crate::repo_search::{Place, lies_in};

/// Writes `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`: a document for each unit of the view, its id being
/// `path:first-last` (lines), its title its path and name; every unit in any place of an answer is relevant, so that a
/// tool that knows no equals wants them all.
///
/// # Errors
/// When the folder exists and is not empty, or cannot be written; nothing is left behind then.
pub fn write_beir(folder: &Path, asked: &Asked, units: &Units) -> Result<(), FormatError> {
    let places: Vec<Place> = units.hits.iter().map(|hit| Place::from(hit.clone())).collect();
    // Two units may share their only line.
    let id = |number: usize| {
        let Place { path, start_line, end_line } = &places[number];
        let before = places[..number].iter().rev().take_while(|other| other.path == *path);
        let twins = before.filter(|other| **other == places[number]).count();
        let twin = if twins == 0 { String::new() } else { format!("+{twins}") };
        format!("{path}:{start_line}-{end_line}{twin}")
    };
    let ids: Vec<String> = (0..places.len()).map(id).collect();
    let (mut corpus, mut queries) = (String::new(), String::new());
    let mut qrels = "query-id\tcorpus-id\tscore\n".to_owned();
    for ((id, hit), text) in ids.iter().zip(&units.hits).zip(&units.texts) {
        let title = format!("{} {}", hit.path, hit.name);
        corpus += &format!("{}\n", json!({ "_id": id, "title": title.trim(), "text": text }));
    }
    for (number, query) in asked.questions.queries.iter().enumerate() {
        let query_id = format!("{}-{}", asked.proxy, number + 1);
        queries += &format!("{}\n", json!({ "_id": query_id, "text": query.text }));
        let targets: Vec<_> = query.answers.iter().flatten().collect();
        for (id, _) in
            ids.iter().zip(&places).filter(|(_, place)| targets.iter().any(|target| lies_in(place, target)))
        {
            qrels += &format!("{query_id}\t{id}\t1\n");
        }
    }
    let staged = Staged::new(folder)?;
    let files = [("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/test.tsv", qrels)];
    for (name, text) in files {
        let path = staged.path().join(name);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            let mut file = fs::File::create(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|source| FormatError::Write { path: folder.join(name), source })?;
    }
    staged.publish()
}
