//! Vectors and scores that were computed by other programs.

use super::Scorer;
use crate::EvalError;
use crate::evaluation::positions;
use quarry_corpus::formats::run::{self, Run};
use quarry_corpus::formats::{Document, Query};
use quarry_embed::Vectors;
use quarry_transformer::{nearest, read_vectors};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Similarity {
    #[default]
    Cosine,
    /// Dot product, for models trained with it (CodeBERT on AdvTest, Query4Code).
    Dot,
}

/// Vectors of queries and documents from a directory.
///
/// The directory contains `queries.npy` or `queries.safetensors`, a matrix in a format of [`read_vectors`], and
/// `queries.txt`, the ids of its rows, one per line; and the same for `documents`. Rows of queries and documents that
/// are not in the benchmark are ignored.
pub struct Precomputed {
    path: PathBuf,
    rows_of_queries: HashMap<String, usize>,
    queries: Vectors,
    /// In the order of the corpus.
    documents: Vectors,
}

impl Precomputed {
    /// Reads vectors, and selects those of `documents`.
    ///
    /// # Errors
    /// When a file is missing or malformed, ids and rows differ in number, an id is repeated, a document has no row, or
    /// queries and documents differ in dimension.
    pub fn read(directory: &Path, documents: &[Document], similarity: Similarity) -> Result<Self, EvalError> {
        let (path, rows_of_queries, mut queries) = read_side(directory, "queries")?;
        let (documents_path, rows, of_file) = read_side(directory, "documents")?;
        if queries.dimension != of_file.dimension {
            let problem = format!(
                "expected vectors of {} values as the documents have, found {}; embed both with one model",
                of_file.dimension, queries.dimension
            );
            return Err(EvalError::File { path, problem });
        }
        let mut values = Vec::with_capacity(documents.len() * of_file.dimension);
        for document in documents {
            let row = row(&rows, &document.id, "document", &documents_path)?;
            values.extend(&of_file.values[row * of_file.dimension..][..of_file.dimension]);
        }
        let mut documents = Vectors { dimension: of_file.dimension, values };
        if similarity == Similarity::Cosine {
            queries.normalize();
            documents.normalize();
        }
        Ok(Self { path, rows_of_queries, queries, documents })
    }
}

impl Scorer for Precomputed {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let dimension = self.queries.dimension;
        let mut values = Vec::with_capacity(queries.len() * dimension);
        for query in queries {
            let row = row(&self.rows_of_queries, &query.id, "query", &self.path)?;
            values.extend(&self.queries.values[row * dimension..][..dimension]);
        }
        Ok(nearest::products(&Vectors { dimension, values }, &self.documents))
    }
}

/// The path of the file of ids, the row of each id, and the rows.
fn read_side(directory: &Path, side: &str) -> Result<(PathBuf, HashMap<String, usize>, Vectors), EvalError> {
    let path = directory.join(format!("{side}.txt"));
    let refuse = |problem: String| EvalError::File { path: path.clone(), problem };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        refuse(format!("expected ids, one per line, for the rows of {side}.npy: {error}"))
    })?;
    let names = [".npy", ".safetensors"].map(|ending| directory.join(format!("{side}{ending}")));
    let file = names.iter().find(|path| path.is_file()).unwrap_or(&names[0]);
    let vectors = read_vectors(file)?;
    let mut rows = HashMap::new();
    for (row, id) in text.lines().enumerate() {
        if let Some(before) = rows.insert(id.trim().to_owned(), row) {
            let problem = format!(
                "line {}: expected each id once, found {id:?} again, first in line {}",
                row + 1,
                before + 1
            );
            return Err(refuse(problem));
        }
    }
    if rows.len() != vectors.n_rows() {
        return Err(refuse(format!(
            "expected as many ids as {} has rows, {}, found {}; write both from one list",
            file.display(),
            vectors.n_rows(),
            rows.len()
        )));
    }
    Ok((path, rows, vectors))
}

fn row(rows: &HashMap<String, usize>, id: &str, what: &str, path: &Path) -> Result<usize, EvalError> {
    rows.get(id).copied().ok_or_else(|| EvalError::File {
        path: path.to_owned(),
        problem: format!("expected the {what} {id:?}, found no such line; embed it too"),
    })
}

/// Scores of a TREC run, in single precision. If the run has a query but not a document for it, the document scores
/// just below the lowest score in the run; if it lacks the query, all documents score 0.
pub struct RunScores {
    /// Indices of documents with their scores, by query.
    scores: HashMap<String, Vec<(usize, f32)>>,
    n_documents: usize,
}

impl RunScores {
    /// Reads a run, and looks up its documents.
    ///
    /// # Errors
    /// When the file is not a run, or contains a document that is not in the corpus.
    pub fn read(path: &Path, documents: &[Document]) -> Result<Self, EvalError> {
        Self::new(&run::read(path)?, path, documents)
    }

    fn new(run: &Run, path: &Path, documents: &[Document]) -> Result<Self, EvalError> {
        let positions = positions(documents);
        let mut scores = HashMap::new();
        for (query, found) in run {
            let mut of_query = Vec::with_capacity(found.len());
            for (document, score) in found.iter() {
                let Some(&position) = positions.get(document) else {
                    return Err(EvalError::File {
                        path: path.to_owned(),
                        problem: format!(
                            "expected documents of the corpus, found {document:?} for query {query:?}; take the run and \
                             the corpus that belong together"
                        ),
                    });
                };
                of_query.push((position, score as f32));
            }
            scores.insert(query.clone(), of_query);
        }
        Ok(Self { scores, n_documents: documents.len() })
    }

    fn score(&self, query: &Query) -> Vec<f32> {
        let found = self.scores.get(&query.id).map_or(&[][..], Vec::as_slice);
        let minimum = found.iter().map(|(_, score)| *score).reduce(f32::min);
        let mut scores = vec![minimum.map_or(0.0, f32::next_down); self.n_documents];
        found.iter().for_each(|&(position, score)| scores[position] = score);
        scores
    }
}

impl Scorer for RunScores {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        Ok(queries.par_iter().map(|query| self.score(query)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, documents};
    use super::*;
    use std::fs;

    /// Writes a version 1.0 `.npy` file of 32-bit floats: the format is documented in NumPy's `numpy.lib.format`.
    fn npy(path: &Path, rows: usize, values: &[f32]) {
        let columns = values.len() / rows;
        let mut header =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
        header += &" ".repeat(63 - (10 + header.len()) % 64);
        header.push('\n');
        let values = values.iter().flat_map(|value| value.to_le_bytes());
        let magic =
            [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
        fs::write(path, magic.into_iter().chain(values).collect::<Vec<u8>>()).unwrap();
    }

    #[test]
    fn vectors_are_found_by_id() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        npy(&path("queries.npy"), 2, &[0.0, 3.0, 2.0, 0.0]);
        fs::write(path("queries.txt"), "up\nright\n").unwrap();
        npy(&path("documents.npy"), 4, &[9.0, 9.0, 4.0, 3.0, 0.0, 0.0, 0.0, -2.0]);
        fs::write(path("documents.txt"), "unused\r\n2\r\n0\r\n1").unwrap();
        let scores = |similarity, query: &str| {
            let scorer = Precomputed::read(directory.path(), &documents(&["", "", ""]), similarity)?;
            Ok::<_, EvalError>(scorer.scores(&[&asked("up"), &asked(query)])?.remove(1))
        };
        assert_eq!(scores(Similarity::Cosine, "up").unwrap(), [0.0, -1.0, 0.6]);
        assert_eq!(scores(Similarity::Dot, "right").unwrap(), [0.0, 0.0, 8.0]);
        let check = |message: &str| {
            let error = scores(Similarity::Cosine, "down").unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        };
        check("queries.txt: expected the query \"down\"");
        fs::write(path("documents.txt"), "a\n2\n0\nb").unwrap();
        check("documents.txt: expected the document \"1\"");
        fs::write(path("documents.txt"), "1\n2\n0").unwrap();
        check("rows, 4, found 3");
        fs::write(path("documents.txt"), "1\n2\n0\n2").unwrap();
        check("line 4: expected each id once, found \"2\" again, first in line 2");
        npy(&path("queries.npy"), 2, &[1.0; 6]);
        fs::write(path("documents.txt"), "1\n2\n0\n3").unwrap();
        check("expected vectors of 2 values as the documents have, found 3");
        fs::remove_file(path("queries.txt")).unwrap();
        check("queries.txt: expected ids");
    }

    #[test]
    fn documents_missing_from_a_run_score_lowest() {
        let run = |text: &str| {
            let run = run::parse(text.as_bytes(), Path::new("a run")).unwrap();
            RunScores::new(&run, Path::new("a run"), &documents(&["", "", ""]))
        };
        let scorer = run("q Q0 2 1 -5 t\nq Q0 0 2 -7.5 t\nother Q0 1 1 3 t\n").unwrap();
        let scores = scorer.scores(&[&asked("q"), &asked("none")]).unwrap();
        assert_eq!(scores, [[-7.5, (-7.5_f32).next_down(), -5.0], [0.0; 3]]);
        assert!(scores[0][1] < -7.5);
        let error = run("q Q0 4 1 1 t\n").err().unwrap().to_string();
        assert!(
            error.contains("a run: expected documents of the corpus, found \"4\" for query \"q\""),
            "{error}"
        );
    }
}
