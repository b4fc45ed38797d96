//! Methods that score every document of a corpus for a query.
//!
//! A [`Method`] is an expression: a name, a path, or a combination of others. [`Method::prepare`] turns it into a
//! [`Scorer`] over a corpus.

mod bag_of_words;
pub(crate) mod cross_encoder;
mod error;
mod expression;
mod fusion;
mod late_interaction;
mod lucene;
mod matcher;
mod pairs;
mod parser;
mod postings;
mod precomputed;
mod scale;
mod searched;

pub use bag_of_words::{BagOfWords, Vocabulary};
pub use error::MethodError;
pub use expression::{ApiModel, ChatModel, Method};
pub use fusion::{Fused, Fusion, Reranked};
pub use lucene::LuceneBm25;
pub use pairs::{AllPairs, Overlap, PairScorer};
pub use precomputed::{Precomputed, RunScores, Similarity};
pub use scale::Scale;
pub use searched::{Bm25, Dense, Hybrid, Precision, Tiered};

use crate::EvalError;
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::{Document, Query};
use quarry_embed::{EmbedError, Embedder, PairModel};
use quarry_transformer::nearest::{self, Neighbor};
use quarry_transformer::{CrossEncoder, LateInteraction, Matcher};
use rayon::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// A method over a fixed corpus.
pub trait Scorer: Send + Sync {
    /// Scale of the scores: similarities, unless a method overrides it.
    fn scale(&self) -> Scale {
        Scale::Similarity
    }

    /// Scores of all documents for each query, in corpus order: higher is better, never NaN.
    ///
    /// # Errors
    /// When a model or an index fails.
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError>;

    /// Scores of some documents for each query, given and returned by their indices in the corpus, equal to those of
    /// [`Scorer::scores`]. Scores all documents, unless a method overrides it.
    ///
    /// # Errors
    /// When a model or an index fails.
    ///
    /// # Panics
    /// When an index is out of range.
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

    /// The `k` best documents of each query as indices in the corpus, best first, ties in corpus order, with the
    /// scores of [`Scorer::scores`]; fewer if there are fewer documents.
    ///
    /// # Errors
    /// When a model or an index fails.
    fn best(&self, queries: &[&Query], k: usize) -> Result<Vec<Vec<Neighbor>>, EvalError> {
        let mut found = Vec::with_capacity(queries.len());
        for batch in queries.chunks(QUERIES_PER_BATCH) {
            let best = |scores: &Vec<f32>| nearest::largest(scores, k);
            found.par_extend(self.scores(batch)?.par_iter().map(best));
        }
        Ok(found)
    }
}

/// Queries that a method scores at a time: enough for a model to form batches, few enough to hold their scores over a
/// corpus of millions of documents.
pub const QUERIES_PER_BATCH: usize = 32;

#[derive(Debug, Clone, Copy)]
pub struct Corpus<'a> {
    /// The documents, in the order in which they are scored.
    pub documents: &'a [Document],
    /// Their relevance judgments, for published methods that use them.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelName<'a> {
    /// The built-in model, or the one that replaces it.
    Builtin,
    Path(&'a Path),
    Api(&'a ApiModel),
    /// The model that re-ranks results with `--quality best`.
    Reranker,
}

/// Loads the models of methods. Implemented for functions that load embedders.
pub trait ModelSource {
    /// Loads an embedder.
    ///
    /// # Errors
    /// When it does not exist, or cannot be loaded.
    fn load(&self, name: ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError>;

    /// A scorer that asks a chat model about pairs with these documents, and its identity.
    ///
    /// # Errors
    /// When the model cannot be used, or chat models are not supported.
    fn chat(&self, chat: &ChatModel, documents: &[Document]) -> Result<(Box<dyn Scorer>, String), EvalError> {
        let _ = documents;
        Err(EvalError::NoChat { model: chat.model.clone() })
    }
}

impl<F: Fn(ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError>> ModelSource for F {
    fn load(&self, name: ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError> {
        self(name)
    }
}

pub type LoadModel<'a> = dyn ModelSource + 'a;

pub struct Prepared {
    pub scorer: Box<dyn Scorer>,
    /// Identities of its models with their weights, joined by ` + `, if it has any.
    pub model: Option<String>,
}

impl Method {
    /// Indexes a corpus; `on_embedded` is called with the number of further documents that a model has embedded, out
    /// of [`Method::n_embeddings`] times the corpus.
    ///
    /// # Errors
    /// When the method is a path without a model, a model cannot be loaded or fails, a file is missing or malformed,
    /// or the index fails.
    pub fn prepare(
        &self,
        corpus: Corpus<'_>,
        load: &LoadModel<'_>,
        on_embedded: &mut dyn FnMut(usize),
    ) -> Result<Prepared, EvalError> {
        let mut models = Vec::new();
        let scorer = self.scorer(corpus, load, on_embedded, &mut models)?;
        Ok(Prepared { scorer, model: (!models.is_empty()).then(|| models.join(" + ")) })
    }

    /// Prepares the method over a corpus; adds the identity of each model to `models`. The parts of a combination are
    /// checked for NaN as well, since a fused score does not show it.
    fn scorer(
        &self,
        corpus: Corpus<'_>,
        load: &LoadModel<'_>,
        on_embedded: &mut dyn FnMut(usize),
        models: &mut Vec<String>,
    ) -> Result<Box<dyn Scorer>, EvalError> {
        let scorer = self.unchecked(corpus, load, on_embedded, models)?;
        Ok(Box::new(Checked { scorer, method: self.to_string() }))
    }

    fn unchecked(
        &self,
        corpus: Corpus<'_>,
        load: &LoadModel<'_>,
        on_embedded: &mut dyn FnMut(usize),
        models: &mut Vec<String>,
    ) -> Result<Box<dyn Scorer>, EvalError> {
        let documents = corpus.documents;
        let mut dense = |name: ModelName<'_>, precision| -> Result<Dense, EvalError> {
            let embedder = load.load(name)?;
            models.push(embedder.id().to_owned());
            Dense::new(embedder, documents, precision, on_embedded)
        };
        Ok(match self {
            Method::BagOfWords(vocabulary) => {
                Box::new(BagOfWords::new(corpus, *vocabulary, BagOfWords::VOCABULARY_SIZE)?)
            }
            Method::Bm25 => Box::new(Bm25::new(documents)?),
            Method::LuceneBm25 => Box::new(LuceneBm25::new(documents)),
            Method::Overlap => Box::new(AllPairs::new(Overlap, documents)?),
            Method::Static => Box::new(dense(ModelName::Builtin, Precision::Search)?),
            Method::Hybrid => {
                let dense = dense(ModelName::Builtin, Precision::Search)?;
                Box::new(Hybrid { lexical: Bm25::new(documents)?, dense })
            }
            Method::Best => {
                let dense = dense(ModelName::Builtin, Precision::Search)?;
                let reranker = load.load(ModelName::Reranker)?;
                models.push(reranker.id().to_owned());
                Box::new(Tiered::new(Hybrid { lexical: Bm25::new(documents)?, dense }, reranker, documents))
            }
            Method::Model(path) if CrossEncoder::is_at(path) => {
                let model = CrossEncoder::load(path)?;
                models.push(model.id().to_owned());
                on_embedded(documents.len());
                Box::new(AllPairs::new(model, documents)?)
            }
            Method::Model(path) if Matcher::is_at(path) => {
                let model = Matcher::load(path)?;
                models.push(model.id().to_owned());
                on_embedded(documents.len());
                Box::new(AllPairs::new(model, documents)?)
            }
            Method::Model(path) if LateInteraction::is_at(path) => {
                let model = LateInteraction::load(path)?;
                models.push(model.id().to_owned());
                on_embedded(documents.len());
                Box::new(AllPairs::new(model, documents)?)
            }
            Method::Model(path) if quarry_transformer::split_options(path).0.exists() => {
                Box::new(dense(ModelName::Path(path), Precision::Full)?)
            }
            Method::Model(path) => {
                return Err(EvalError::UnknownMethod { found: path.display().to_string() });
            }
            Method::Api(api) => Box::new(dense(ModelName::Api(api), Precision::Full)?),
            Method::Chat(chat) => {
                let (scorer, identity) = load.chat(chat, documents)?;
                models.push(identity);
                scorer
            }
            Method::Vectors { directory, similarity } => {
                Box::new(Precomputed::read(directory, documents, *similarity)?)
            }
            Method::Run(path) => Box::new(RunScores::read(path, documents)?),
            Method::Fused { fusion, parts } => {
                let parts: Vec<(f64, Box<dyn Scorer>)> = parts
                    .iter()
                    .map(|(weight, part)| Ok((*weight, part.scorer(corpus, load, on_embedded, models)?)))
                    .collect::<Result<_, EvalError>>()?;
                Box::new(Fused { fusion: *fusion, parts })
            }
            Method::Rerank { first, second, depth } => {
                let first = first.scorer(corpus, load, on_embedded, models)?;
                let second = second.scorer(corpus, load, on_embedded, models)?;
                Box::new(Reranked { first, second, depth: *depth })
            }
        })
    }
}

/// A scorer whose scores are checked: NaN has no place in any order, and would be first in some.
struct Checked {
    scorer: Box<dyn Scorer>,
    method: String,
}

impl Checked {
    fn check<'q>(
        &self,
        queries: impl Iterator<Item = &'q Query>,
        scores: Vec<Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>, EvalError> {
        let mut broken = queries.zip(&scores).filter(|(_, scores)| scores.iter().any(|score| score.is_nan()));
        if let Some((query, _)) = broken.next() {
            return Err(EvalError::NotANumber { method: self.method.clone(), query: query.id.clone() });
        }
        drop(broken);
        Ok(scores)
    }
}

impl Scorer for Checked {
    fn scale(&self) -> Scale {
        self.scorer.scale()
    }

    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        self.check(queries.iter().copied(), self.scorer.scores(queries)?)
    }

    fn scores_of(&self, candidates: &[(&Query, &[usize])]) -> Result<Vec<Vec<f32>>, EvalError> {
        self.check(candidates.iter().map(|(query, _)| *query), self.scorer.scores_of(candidates)?)
    }

    fn best(&self, queries: &[&Query], k: usize) -> Result<Vec<Vec<Neighbor>>, EvalError> {
        self.scorer.best(queries, k)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use quarry_embed::Vectors;

    pub(super) fn documents(texts: &[&str]) -> Vec<Document> {
        (0..).zip(texts).map(|(id, text)| Document::new(id.to_string(), (*text).into())).collect()
    }

    pub(super) fn asked(text: &str) -> Query {
        Query { id: text.into(), text: text.into() }
    }

    /// A model with these vectors.
    pub(crate) struct TestEmbedder<const N: usize> {
        pub(crate) id: &'static str,
        pub(crate) query: fn(&str) -> [f32; N],
        pub(crate) document: fn(&str) -> [f32; N],
    }

    impl<const N: usize> TestEmbedder<N> {
        pub(crate) fn shared(
            id: &'static str,
            query: fn(&str) -> [f32; N],
            document: fn(&str) -> [f32; N],
        ) -> Arc<dyn Embedder> {
            Arc::new(Self { id, query, document })
        }
    }

    impl<const N: usize> Embedder for TestEmbedder<N> {
        fn id(&self) -> &str {
            self.id
        }

        fn dimension(&self) -> usize {
            N
        }

        fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            Ok(Vectors { dimension: N, values: texts.iter().flat_map(|text| (self.query)(text)).collect() })
        }

        fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            Ok(Vectors {
                dimension: N,
                values: texts.iter().flat_map(|text| (self.document)(text)).collect(),
            })
        }
    }

    /// Counts the letters `a` and `b` only.
    fn two_letters(_: ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError> {
        let row = |text: &str| {
            let [a, b] = ['a', 'b'].map(|letter| text.matches(letter).count() as f32);
            let norm = a.hypot(b).max(f32::MIN_POSITIVE);
            [a / norm, b / norm]
        };
        Ok(TestEmbedder::shared("two letters", row, row))
    }

    fn scores(method: &Method, texts: &[&str], query: &str) -> Vec<f32> {
        let prepared = method.prepare(documents(texts)[..].into(), &two_letters, &mut |_| {}).unwrap();
        prepared.scorer.scores(&[&asked("other"), &asked(query)]).unwrap().swap_remove(1)
    }

    #[test]
    fn each_method_finds_by_its_own_evidence() {
        let texts = ["aaab", "abbb zebra", "zebra crossing"];
        assert_eq!(scores(&Method::Bm25, &texts, "crossing")[..2], [0.0, 0.0]);
        assert!(scores(&Method::Bm25, &texts, "crossing")[2] > 0.0);
        let dense = scores(&Method::Static, &texts, "a");
        assert!(dense[0] > dense[2] && dense[2] > dense[1], "{dense:?}");
        // The lexical part knows `zebra`; the dense part distinguishes the two documents with it.
        let hybrid = scores(&Method::Hybrid, &texts, "zebra bbb");
        assert!(hybrid[1] > hybrid[2] && hybrid[2] > hybrid[0], "{hybrid:?}");
    }

    #[test]
    fn best_is_hybrid_with_the_first_documents_read_in_pieces() {
        // The answer is at the end of a document that begins with something else.
        let long = format!("zebra\n{}{}", "aaaa\n".repeat(80), "bbbb\n".repeat(80));
        let texts = ["zebra ab", &long, "a crossing"];
        let load = |name: ModelName<'_>| match name {
            ModelName::Builtin | ModelName::Reranker => two_letters(name),
            other => panic!("{other:?} is not needed"),
        };
        let scores = |method: Method| {
            let prepared = method.prepare(documents(&texts)[..].into(), &load, &mut |_| {}).unwrap();
            prepared.scorer.scores(&[&asked("zebra bbb")]).unwrap().remove(0)
        };
        let (fast, best) = (scores(Method::Hybrid), scores(Method::Best));
        assert!(fast[0] > fast[1], "{fast:?}");
        assert!(best[1] > best[0] && best[0] > best[2], "{best:?}");
        // The best one keeps its score.
        assert!((best[1] - fast[1]).abs() < 1e-6, "{fast:?} {best:?}");
    }

    #[test]
    fn scores_that_are_not_numbers_are_errors() {
        let load = |_: ModelName<'_>| Ok(TestEmbedder::shared("broken", |_| [f32::NAN], |_| [1.0]));
        let here = env!("CARGO_MANIFEST_DIR");
        for method in
            [here.to_owned(), format!("rrf(bm25, {here})"), format!("rerank(bm25, {here}, depth = 1)")]
        {
            let method: Method = method.parse().unwrap();
            let prepared = method.prepare(documents(&["a", "b"])[..].into(), &load, &mut |_| {}).unwrap();
            let error = prepared.scorer.scores(&[&asked("a")]).unwrap_err().to_string();
            assert!(error.contains("found NaN for the query \"a\""), "{error}");
        }
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
        for (precision, error) in [(Precision::Search, 0.01), (Precision::Full, 1e-6)] {
            let mut heard = 0;
            let documents = documents(&texts);
            let model = two_letters(ModelName::Builtin).unwrap();
            let dense = Dense::new(model, &documents, precision, &mut |n| heard += n).unwrap();
            let scores = dense.scores(&[&asked("a")]).unwrap().remove(0);
            assert_eq!((heard, scores.len()), (1_000, 1_000));
            let exact = |i: usize| 1.0 / 1.0_f32.hypot((i % 7) as f32);
            assert!(scores.iter().enumerate().all(|(i, score)| (score - exact(i)).abs() < error));
            let best = dense.best(&[&asked("ab"), &asked("a")], 300).unwrap();
            assert_eq!(best[1], nearest::largest(&scores, 300));
            let positions: Vec<usize> = best[1].iter().map(|found| found.position).collect();
            assert_eq!((&positions[..3], positions[143], positions.len()), (&[0, 7, 14][..], 1, 300));
        }
    }

    #[test]
    fn combinations_are_made_of_their_parts() {
        let texts = ["aaab", "abbb zebra", "zebra crossing"];
        let read = |text: &str| scores(&text.parse().unwrap(), &texts, "zebra bbb");
        let (lexical, dense, overlap) = (read("bm25"), read("static"), read("overlap"));
        let fused = Fusion::ZScore.combine(&[(1.0, &lexical), (0.5, &dense)]);
        assert_eq!(read("zscore(bm25, 0.5 * static)"), fused);
        let reranked = read("rerank(rrf(bm25, bow), overlap, depth = 1)");
        assert_eq!(reranked, [overlap[1] - 2.0, overlap[1], overlap[1] - 1.0]);
        let method: Method = "mean(static, hybrid, bm25-lucene)".parse().unwrap();
        let mut heard = 0;
        let prepared =
            method.prepare(documents(&texts)[..].into(), &two_letters, &mut |n| heard += n).unwrap();
        assert_eq!(
            (prepared.model.as_deref(), heard),
            (Some("two letters + two letters"), 3 * method.n_embeddings())
        );
    }

    #[test]
    fn a_cross_encoder_reranks() {
        let texts = ["def sort(values):", "read every line", "the list of files"];
        let directory =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-cross-bert");
        let model = CrossEncoder::load(&directory).unwrap();
        let pairs = texts.map(|text| ("sort a list", text));
        let expected = model.log_odds(&pairs).unwrap();
        let method = Method::Model(directory);
        assert_eq!(scores(&method, &texts, "sort a list"), expected);
        let rerank = Method::Rerank { first: Box::new(Method::Bm25), second: Box::new(method), depth: 3 };
        assert_eq!(scores(&rerank, &texts, "sort a list"), expected);
        let load = |_: ModelName<'_>| -> Result<Arc<dyn Embedder>, EmbedError> { unreachable!() };
        let mut heard = 0;
        let prepared = rerank.prepare(documents(&texts)[..].into(), &load, &mut |n| heard += n).unwrap();
        assert_eq!((prepared.model.as_deref(), heard), (Some(model.id()), 3 * rerank.n_embeddings()));
    }

    #[test]
    fn chat_models_are_scorers_of_their_own() {
        struct Chats;
        impl ModelSource for Chats {
            fn load(&self, name: ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError> {
                two_letters(name)
            }
            fn chat(
                &self,
                chat: &ChatModel,
                documents: &[Document],
            ) -> Result<(Box<dyn Scorer>, String), EvalError> {
                Ok((Box::new(AllPairs::new(Overlap, documents)?), chat.model.clone()))
            }
        }
        let documents = documents(&["a b", "c"]);
        let method: Method = "mean(chat:gpt, static)".parse().unwrap();
        let prepared = method.prepare(documents[..].into(), &Chats, &mut |_| {}).unwrap();
        assert_eq!(prepared.model.as_deref(), Some("gpt + two letters"));
        let error =
            method.prepare(documents[..].into(), &two_letters, &mut |_| {}).err().unwrap().to_string();
        assert!(error.contains("chat:gpt"), "{error}");
    }

    #[test]
    fn a_path_without_a_model_is_refused_with_the_known_names() {
        let error = Method::Model("no/such/model".into())
            .prepare(documents(&["a"])[..].into(), &two_letters, &mut |_| {})
            .err()
            .unwrap();
        assert!(error.to_string().contains("bow, bm25, bm25-lucene"), "{error}");
    }
}
