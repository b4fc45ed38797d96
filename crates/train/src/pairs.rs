use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use quarry_source::FunctionPair;
use serde::Deserialize;

use crate::TrainError;
use crate::rows::{key, label};

impl crate::Example for FunctionPair {
    fn query(&self) -> &str {
        &self.query
    }

    fn code(&self) -> &str {
        &self.code
    }

    fn language(&self) -> &str {
        &self.language
    }

    fn answers(&self) -> bool {
        true
    }

    /// A function without documentation is asked for by its name.
    fn is_empty(&self) -> bool {
        self.code.trim().is_empty() || self.query.trim().is_empty() && self.name.trim().is_empty()
    }

    fn negatives(&self) -> &[String] {
        &self.negatives
    }

    fn negatives_mut(&mut self) -> &mut Vec<String> {
        &mut self.negatives
    }
}

#[derive(Deserialize)]
struct Line {
    #[serde(flatten)]
    pair: FunctionPair,
    #[serde(default, deserialize_with = "label")]
    label: Option<i32>,
}

/// Reads a file of pairs. A code labeled 0 is a hard negative of the pairs with its query.
///
/// # Errors
/// When the file cannot be read; at the first line that is not a pair.
pub fn read_pairs(path: &Path) -> Result<Vec<FunctionPair>, TrainError> {
    let file = File::open(path).map_err(|error| TrainError::file(path, error))?;
    let mut pairs: Vec<FunctionPair> = Vec::new();
    let mut negatives: HashMap<u64, Vec<String>> = HashMap::new();
    for (line, text) in BufReader::new(file).lines().enumerate() {
        let text = text.map_err(|error| TrainError::file(path, error))?;
        let Line { pair, label } = serde_json::from_str(&text).map_err(|error| TrainError::Line {
            path: path.to_owned(),
            line: line + 1,
            problem: format!(
                "expected an object with query, doc, name, code, language and repository, all strings, and negatives, a list of them, where there \
                 are some: {error}"
            ),
        })?;
        match label {
            Some(0) => negatives.entry(key(&pair.query)).or_default().push(pair.code),
            _ => pairs.push(pair),
        }
    }
    if pairs.is_empty() {
        return Err(TrainError::file(path, "contains no pairs; make some with `quarry data pairs`"));
    }
    for pair in &mut pairs {
        pair.negatives.extend(negatives.get(&key(&pair.query)).into_iter().flatten().cloned());
    }
    Ok(pairs)
}
