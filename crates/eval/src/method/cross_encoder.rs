//! Models that read a query and a document together.

use super::PairScorer;
use crate::EvalError;
use quarry_embed::PairModel;
use quarry_transformer::CrossEncoder;

impl PairScorer for CrossEncoder {
    type Query = String;
    type Document = String;

    const PAIRS_PER_CALL: usize = 256;

    fn prepare_queries(&self, texts: &[&str]) -> Result<Vec<String>, EvalError> {
        Ok(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn prepare_documents(&self, texts: &[&str]) -> Result<Vec<String>, EvalError> {
        self.prepare_queries(texts)
    }

    fn score_pairs(&self, pairs: &[(&String, &String)]) -> Result<Vec<f32>, EvalError> {
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(query, document)| (query.as_str(), document.as_str())).collect();
        Ok(self.log_odds(&pairs)?)
    }
}
