//! Models of late interaction, which compare the vectors of tokens.

use super::{PairScorer, Scale};
use crate::EvalError;
use quarry_embed::{TokenEmbedder, Vectors, max_sim};
use quarry_transformer::LateInteraction;
use rayon::prelude::*;

impl PairScorer for LateInteraction {
    type Query = Vectors;
    type Document = Vectors;

    const SCALE: Scale = Scale::Similarity;
    const PAIRS_PER_CALL: usize = 1 << 12;

    fn prepare_queries(&self, texts: &[&str]) -> Result<Vec<Vectors>, EvalError> {
        Ok(texts.iter().map(|text| self.query_tokens(text)).collect::<Result<_, _>>()?)
    }

    fn prepare_documents(&self, texts: &[&str]) -> Result<Vec<Vectors>, EvalError> {
        Ok(self.document_tokens(texts)?)
    }

    fn score_pairs(&self, pairs: &[(&Vectors, &Vectors)]) -> Result<Vec<f32>, EvalError> {
        Ok(pairs.par_iter().map(|(query, document)| max_sim(query, document)).collect())
    }
}
