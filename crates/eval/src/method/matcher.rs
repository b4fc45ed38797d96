//! Siamese matchers: models that compare the vectors of a query and a document by a small network.

use super::{PairScorer, Scale};
use crate::EvalError;
use quarry_transformer::Matcher;

impl PairScorer for Matcher {
    type Query = Vec<f32>;
    type Document = Vec<f32>;

    const SCALE: Scale = Scale::LogOdds;
    // A query is one product with all its documents.
    const PAIRS_PER_CALL: usize = 1 << 16;

    fn prepare_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EvalError> {
        Ok(self.embed_queries(texts)?)
    }

    fn prepare_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EvalError> {
        Ok(self.embed_documents(texts)?)
    }

    fn score_pairs(&self, pairs: &[(&Vec<f32>, &Vec<f32>)]) -> Result<Vec<f32>, EvalError> {
        let mut scores = Vec::with_capacity(pairs.len());
        for of_query in pairs.chunk_by(|a, b| std::ptr::eq(a.0, b.0)) {
            let Some((query, _)) = of_query.first() else { continue };
            let documents: Vec<&[f32]> = of_query.iter().map(|(_, document)| document.as_slice()).collect();
            scores.extend(self.log_odds(query, &documents)?);
        }
        Ok(scores)
    }
}
