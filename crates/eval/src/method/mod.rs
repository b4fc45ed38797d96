//! Methods that score every document of a corpus for a query.

mod bag_of_words;
mod searched;

pub use bag_of_words::BagOfWords;
pub use searched::{Bm25, Dense, Hybrid};

use crate::EvalError;
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::{Document, Query};
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
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError>;

    /// Scores of some documents for each query, by their positions in the corpus, in the order of the positions: as
    /// [`Scorer::scores`] has them. Scores all documents, unless a method can do with less.
    ///
    /// # Errors
    /// When a model or an index fails.
    ///
    /// # Panics
    /// When there is no document at a position.
    fn scores_of(&self, candidates: &[(&Query, &[usize])]) -> Result<Vec<Vec<f32>>, EvalError> {
        let mut scores = Vec::with_capacity(candidates.len());
        for batch in candidates.chunks(QUERIES_PER_BATCH) {
            let queries: Vec<&Query> = batch.iter().map(|(query, _)| *query).collect();
            let of_all = self.scores(&queries)?;
            scores.extend(batch.iter().zip(of_all).map(|((_, positions), of_all)| {
                positions.iter().map(|&position| of_all[position]).collect()
            }));
        }
        Ok(scores)
    }
}

/// Queries that a method scores at once: enough for a model to make a batch of, few enough to hold their scores
/// over a corpus of millions.
pub const QUERIES_PER_BATCH: usize = 32;

/// What a method ranks.
#[derive(Debug, Clone, Copy)]
pub struct Corpus<'a> {
    /// The documents, in the order in which they are scored.
    pub documents: &'a [Document],
    /// What is known of them, for methods that were published so that they look at it.
    pub qrels: Option<&'a Qrels>,
}

impl<'a> From<&'a [Document]> for Corpus<'a> {
    fn from(documents: &'a [Document]) -> Self {
        Self { documents, qrels: None }
    }
}

impl<'a> From<&'a Benchmark> for Corpus<'a> {
    fn from(benchmark: &'a Benchmark) -> Self {
        Self { documents: &benchmark.documents, qrels: Some(&benchmark.qrels) }
    }
}

/// A model that a method runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelName<'a> {
    /// The one built in, or that which takes its place.
    Builtin,
    /// The one at a path.
    Path(&'a Path),
}

/// Loads a model.
pub type LoadModel<'a> = dyn Fn(ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError> + 'a;

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
        corpus: Corpus<'_>,
        load: &LoadModel<'_>,
        on_embedded: &mut dyn FnMut(usize),
    ) -> Result<Prepared, EvalError> {
        let documents = corpus.documents;
        let name = match self {
            Method::BagOfWords => {
                let scorer = BagOfWords::new(documents, BagOfWords::VOCABULARY_SIZE);
                return Ok(Prepared { scorer: Box::new(scorer), model: None });
            }
            Method::Bm25 => return Ok(Prepared { scorer: Box::new(Bm25::new(documents)?), model: None }),
            Method::Static | Method::Hybrid => ModelName::Builtin,
            Method::Model(path) if path.exists() => ModelName::Path(path),
            Method::Model(path) => {
                return Err(EvalError::UnknownMethod { found: path.display().to_string() });
            }
        };
        let embedder = load(name)?;
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

    pub(super) fn asked(text: &str) -> Query {
        Query { id: text.into(), text: text.into() }
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
        let load = |_: ModelName<'_>| Ok(Arc::new(TwoLetters) as Arc<dyn Embedder>);
        let prepared = method.prepare(documents(texts)[..].into(), &load, &mut |_| {}).unwrap();
        prepared.scorer.scores(&[&asked("other"), &asked(query)]).unwrap().swap_remove(1)
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
    fn candidates_score_as_among_all_documents() {
        let documents = documents(&["a", "ab", "b", "bb a"]);
        let scorer = Bm25::new(&documents).unwrap();
        let queries: Vec<Query> = (0..2 * QUERIES_PER_BATCH).map(|i| asked(["ab", "bb"][i % 2])).collect();
        let candidates: Vec<(&Query, &[usize])> =
            queries.iter().map(|query| (query, &[3, 1, 3][..])).collect();
        let found = scorer.scores_of(&candidates).unwrap();
        let of_all = scorer.scores(&queries.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.len(), queries.len());
        assert!(found.iter().zip(of_all).all(|(found, all)| *found == [all[3], all[1], all[3]]));
        assert!(found[0][1] > 0.0 && found[1][0] > 0.0);
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
        let dense = Dense::new(Arc::new(TwoLetters), &documents(&texts), &mut |n| heard += n).unwrap();
        let scores = dense.scores(&[&asked("a")]).unwrap().remove(0);
        assert_eq!((heard, scores.len()), (1_000, 1_000));
        assert!(scores.iter().enumerate().all(|(i, score)| (score - scores[i % 7]).abs() < 1e-6));
        assert!(scores[0] > scores[1]);
    }

    #[test]
    fn a_path_without_a_model_is_refused_with_the_known_names() {
        let load = |_: ModelName<'_>| Ok(Arc::new(TwoLetters) as Arc<dyn Embedder>);
        let error = Method::Model("no/such/model".into())
            .prepare(documents(&["a"])[..].into(), &load, &mut |_| {})
            .err()
            .unwrap();
        assert!(error.to_string().contains("bow, bm25, static, hybrid or the path of a model"), "{error}");
    }
}
