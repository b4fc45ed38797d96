//! Orders the first results of a search again, by a model that compares the whole query with the whole unit.
//!
//! Such a model is too slow for all units of a tree, and adds little to the words of a name or a path. So it reads only
//! the first results of the ranking without it, and its cosine joins the score as evidence: the score is multiplied by
//! exp(w · (cosine − maximum cosine)), which is the product of the two in a log-linear model. The weight w depends on what
//! the query wants ([`crate::intent`]). Units that are not read count as if they were like the worst that was.

use quarry_embed::Embedder;
use rayon::prelude::*;

use crate::build::embedding_text;
use crate::search::Candidate;
use crate::{Error, Index, RankingWeights};

/// Number of results that are read.
const DEPTH: usize = 30;

/// Maximum number of bytes of a unit that are read; the model reads less, but takes time to cut its text into tokens.
const MAX_BYTES: usize = 2000;

impl Index {
    /// Orders candidates again, which come best first and stay so.
    ///
    /// # Errors
    /// When the model fails.
    pub(crate) fn rerank(
        &self,
        candidates: &mut [Candidate],
        query: &str,
        reranker: &dyn Embedder,
        ranking: &RankingWeights,
    ) -> Result<(), Error> {
        let depth = DEPTH.min(candidates.len());
        let texts: Vec<Option<String>> =
            candidates[..depth].par_iter().map(|candidate| self.text_to_read(candidate)).collect();
        let read: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
        if read.is_empty() {
            return Ok(());
        }
        let of_query = reranker.embed_queries(&[query])?.values;
        let of_units = reranker.embed_documents(&read)?;
        let mut cosines = of_units
            .values
            .chunks_exact(of_units.dimension.max(1))
            .map(|unit| unit.iter().zip(&of_query).map(|(a, b)| a * b).sum::<f32>())
            .collect::<Vec<_>>()
            .into_iter();
        let cosines: Vec<Option<f32>> =
            texts.iter().map(|text| text.as_ref().and_then(|_| cosines.next())).collect();
        let known = || cosines.iter().flatten().copied();
        let (minimum, maximum) =
            (known().fold(f32::INFINITY, f32::min), known().fold(f32::NEG_INFINITY, f32::max));
        for (at, candidate) in candidates.iter_mut().enumerate() {
            let parts = &mut candidate.parts;
            let weight = parts.file_probability * ranking.rerank_file
                + (1.0 - parts.file_probability) * ranking.rerank_function;
            let cosine = cosines.get(at).copied().flatten();
            parts.reranker = cosine.unwrap_or_default();
            parts.reranker_factor = (weight * (cosine.unwrap_or(minimum) - maximum)).exp();
            candidate.score *= parts.reranker_factor;
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)));
        Ok(())
    }

    /// The text of a unit as it is now; none if it cannot be read.
    fn text_to_read(&self, candidate: &Candidate) -> Option<String> {
        let hit = self.hit(candidate.unit, candidate.score, candidate.parts);
        let source = self.source(&hit).ok()?.text;
        let record = &self.table.units[candidate.unit];
        let path = self.table.text(self.table.file_of(record).path);
        Some(embedding_text(
            path,
            self.table.text(record.name),
            &source[..source.floor_char_boundary(MAX_BYTES)],
        ))
    }
}
