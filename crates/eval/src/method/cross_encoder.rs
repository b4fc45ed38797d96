//! Models that read a query and a document together.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::{PairScorer, Scale};
use crate::EvalError;
use quarry_embed::{EmbedError, PairModel};
use quarry_transformer::CrossEncoder;

impl PairScorer for CrossEncoder {
    type Query = String;
    type Document = String;

    const SCALE: Scale = Scale::LogOdds;
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

/// A cross-encoder that remembers what it said, for searches that are done again with other weights.
pub(crate) struct CachedCrossEncoder {
    model: CrossEncoder,
    known: Mutex<HashMap<(String, String), f32>>,
}

impl CachedCrossEncoder {
    /// Loads a directory.
    ///
    /// # Errors
    /// When it holds no cross-encoder, or a broken one.
    pub(crate) fn load(path: &Path) -> Result<Self, EmbedError> {
        Ok(Self { model: CrossEncoder::load(path)?, known: Mutex::default() })
    }
}

impl PairModel for CachedCrossEncoder {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn log_odds(&self, pairs: &[(&str, &str)]) -> Result<Vec<f32>, EmbedError> {
        let owned = |(query, document): &(&str, &str)| ((*query).to_owned(), (*document).to_owned());
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<Option<f32>> = {
            let known = known();
            pairs.iter().map(|pair| known.get(&owned(pair)).copied()).collect()
        };
        let new: Vec<(&str, &str)> =
            pairs.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(pair, _)| *pair).collect();
        let mut said = self.model.log_odds(&new)?.into_iter();
        let all: Vec<f32> =
            found.into_iter().map(|found| found.or_else(|| said.next()).unwrap_or_default()).collect();
        known().extend(pairs.iter().map(owned).zip(all.iter().copied()));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_remembered() {
        let directory =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-cross-bert");
        let model = CachedCrossEncoder::load(&directory).unwrap();
        let pairs = [("sort a list", "def sort(values):"), ("one", "read every line"), ("one", "")];
        let direct = model.model.log_odds(&pairs).unwrap();
        let first = model.log_odds(&pairs[1..]).unwrap();
        assert_eq!(model.known.lock().unwrap().len(), 2);
        // Other batches differ in the last bits: what was said before is what counts.
        let all = model.log_odds(&pairs).unwrap();
        assert_eq!(all[1..], first);
        assert!(all.iter().zip(&direct).all(|(said, direct)| (said - direct).abs() < 1e-5));
        assert!(model.log_odds(&[]).unwrap().is_empty());
    }
}
