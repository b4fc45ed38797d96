//! Methods that score every document of a corpus for a query.

mod bag_of_words;
mod searched;

pub use bag_of_words::BagOfWords;
pub use searched::{Bm25, Dense, Hybrid};

use crate::EvalError;
use quarry_corpus::formats::Document;
use quarry_embed::{EmbedError, Embedder};
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// A method over a fixed corpus.
pub trait Scorer: Sync {
    /// Scores of all documents for each query, in corpus order, greater is better, never NaN.
    ///
    /// # Errors
    /// When a model or an index fails.
    fn scores(&self, queries: &[&str]) -> Result<Vec<Vec<f32>>, EvalError>;
}

/// Loads the model at a path, or the one built in.
pub type LoadModel<'a> = dyn Fn(Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> + 'a;

/// A method by the name that results carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// `bow`: [`BagOfWords`].
    BagOfWords,
    /// `bm25`: [`Bm25`].
    Bm25,
    /// `static`: [`Dense`] with the model built in.
    Static,
    /// `hybrid`: [`Hybrid`] with the model built in.
    Hybrid,
    /// Any other name is a path: [`Dense`] with the model there.
    Model(PathBuf),
}

/// A method that is ready to score.
pub struct Prepared {
    /// The method over its corpus.
    pub scorer: Box<dyn Scorer>,
    /// Identity of the model and its weights, if the method has one.
    pub model: Option<String>,
}

impl Method {
    /// Whether the method uses the model built in, so that another can take its place.
    #[must_use]
    pub fn uses_builtin_model(&self) -> bool {
        matches!(self, Method::Static | Method::Hybrid)
    }

    /// Indexes a corpus; `on_embedded` hears how many more documents a model has embedded.
    ///
    /// # Errors
    /// When the method is a path without a model, the model cannot be loaded or fails, or the index fails.
    pub fn prepare(
        &self,
        documents: &[Document],
        load: &LoadModel<'_>,
        on_embedded: impl FnMut(usize),
    ) -> Result<Prepared, EvalError> {
        let path = match self {
            Method::BagOfWords => {
                let scorer = BagOfWords::new(documents, BagOfWords::VOCABULARY_SIZE);
                return Ok(Prepared { scorer: Box::new(scorer), model: None });
            }
            Method::Bm25 => return Ok(Prepared { scorer: Box::new(Bm25::new(documents)?), model: None }),
            Method::Static | Method::Hybrid => None,
            Method::Model(path) if path.exists() => Some(path.as_path()),
            Method::Model(path) => {
                return Err(EvalError::UnknownMethod { found: path.display().to_string() });
            }
        };
        let embedder = load(path)?;
        let model = Some(embedder.id().to_owned());
        let dense = Dense::new(embedder, documents, on_embedded)?;
        let scorer: Box<dyn Scorer> = match self {
            Method::Hybrid => Box::new(Hybrid::new(Bm25::new(documents)?, dense)),
            _ => Box::new(dense),
        };
        Ok(Prepared { scorer, model })
    }
}

impl FromStr for Method {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(match name {
            "bow" => Method::BagOfWords,
            "bm25" => Method::Bm25,
            "static" => Method::Static,
            "hybrid" => Method::Hybrid,
            path => Method::Model(path.into()),
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::BagOfWords => formatter.write_str("bow"),
            Method::Bm25 => formatter.write_str("bm25"),
            Method::Static => formatter.write_str("static"),
            Method::Hybrid => formatter.write_str("hybrid"),
            Method::Model(path) => path.display().fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_embed::Vectors;

    pub(super) fn documents(texts: &[&str]) -> Vec<Document> {
        (0..)
            .zip(texts)
            .map(|(id, text)| Document { id: id.to_string(), title: String::new(), text: (*text).into() })
            .collect()
    }

    /// Looks at the letters `a` and `b` only.
    struct TwoLetters;

    impl Embedder for TwoLetters {
        fn id(&self) -> &str {
            "two letters"
        }

        fn dimension(&self) -> usize {
            2
        }

        fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            self.embed_documents(texts)
        }

        fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            let count = |text: &str, letter| text.matches(letter).count() as f32;
            let row = |text: &&str| {
                let (a, b) = (count(text, 'a'), count(text, 'b'));
                let norm = a.hypot(b).max(f32::MIN_POSITIVE);
                [a / norm, b / norm]
            };
            Ok(Vectors { dimension: 2, values: texts.iter().flat_map(row).collect() })
        }
    }

    fn scores(method: &Method, texts: &[&str], query: &str) -> Vec<f32> {
        let load = |_: Option<&Path>| Ok(Arc::new(TwoLetters) as Arc<dyn Embedder>);
        let prepared = method.prepare(&documents(texts), &load, |_| {}).unwrap();
        prepared.scorer.scores(&["other", query]).unwrap().swap_remove(1)
    }

    #[test]
    fn names_read_back() {
        for name in ["bow", "bm25", "static", "hybrid", "models/mine"] {
            assert_eq!(name.parse::<Method>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn each_method_finds_what_it_looks_at() {
        let texts = ["aaab", "abbb zebra", "zebra crossing"];
        assert_eq!(scores(&Method::Bm25, &texts, "crossing")[..2], [0.0, 0.0]);
        assert!(scores(&Method::Bm25, &texts, "crossing")[2] > 0.0);
        let dense = scores(&Method::Static, &texts, "a");
        assert!(dense[0] > dense[2] && dense[2] > dense[1], "{dense:?}");
        // The lexical side knows `zebra`, the dense side tells the two with it apart.
        let hybrid = scores(&Method::Hybrid, &texts, "zebra bbb");
        assert!(hybrid[1] > hybrid[2] && hybrid[2] > hybrid[0], "{hybrid:?}");
    }

    #[test]
    fn a_query_without_words_scores_nothing_lexically() {
        assert_eq!(scores(&Method::Bm25, &["a b", "c"], "?!"), [0.0, 0.0]);
    }

    #[test]
    fn many_documents_are_embedded_in_order() {
        let texts: Vec<String> = (0..1_000).map(|i| format!("a{}", "b".repeat(i % 7))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut heard = 0;
        let dense = Dense::new(Arc::new(TwoLetters), &documents(&texts), |n| heard += n).unwrap();
        let scores = dense.scores(&["a"]).unwrap().remove(0);
        assert_eq!((heard, scores.len()), (1_000, 1_000));
        assert!(scores.iter().enumerate().all(|(i, score)| (score - scores[i % 7]).abs() < 1e-6));
        assert!(scores[0] > scores[1]);
    }

    #[test]
    fn a_path_without_a_model_is_refused_with_the_known_names() {
        let load = |_: Option<&Path>| Ok(Arc::new(TwoLetters) as Arc<dyn Embedder>);
        let error =
            Method::Model("no/such/model".into()).prepare(&documents(&["a"]), &load, |_| {}).err().unwrap();
        assert!(error.to_string().contains("bow, bm25, static, hybrid or the path of a model"), "{error}");
    }
}
