//! Orders the first results of a search again, by a model that compares the whole query with the whole unit.
//!
//! Such a model is too slow for all units of a tree, and adds little to the words of a name or a path. So it reads only
//! the first results of the ranking without it, piece by piece, and the cosine of the best piece joins the score as
//! evidence: the score is multiplied by exp(w · (cosine − maximum cosine)), which is the product of the two in a log-linear
//! model. The weight w depends on what the query wants. Units that are not read count as if they were like the worst that
//! was. Those whose vectors are stored ([`Ahead`](crate::Ahead)) need not be read.

use quarry_embed::{EmbedError, Embedder, Vectors};
use rayon::prelude::*;

use crate::ahead::embedded_pieces;
use crate::build::embedding_text;
use crate::search::Candidate;
use crate::{Error, Index, RankingWeights};

/// Number of results that are read.
pub const DEPTH: usize = 30;

/// The vectors of the pieces that texts are read in, in their order.
///
/// # Errors
/// When the model fails.
pub fn piece_vectors(texts: &[&str], reranker: &dyn Embedder) -> Result<Vec<Vectors>, EmbedError> {
    let texts: Vec<(usize, String)> = texts.iter().map(|text| (0, (*text).to_owned())).collect();
    Ok(embedded_pieces(&texts, reranker)?.into_iter().map(|(_, vectors)| vectors).collect())
}

/// The cosine of a query with the piece that is most like it; none if there is no piece.
#[must_use]
pub fn best_cosine(pieces: &Vectors, query: &[f32]) -> Option<f32> {
    let cosine = |piece: &[f32]| piece.iter().zip(query).map(|(a, b)| a * b).sum();
    pieces.rows().map(cosine).reduce(f32::max)
}

/// What the scores of results are multiplied by: exp(w · (cosine − maximum cosine)), at most 1, with a weight w for each.
/// One without a cosine counts like the lowest that is known.
pub fn factors(cosines: &[Option<f32>], weights: impl IntoIterator<Item = f32>) -> impl Iterator<Item = f32> {
    let known = || cosines.iter().flatten().copied();
    let (minimum, maximum) =
        (known().fold(f32::INFINITY, f32::min), known().fold(f32::NEG_INFINITY, f32::max));
    let is_known = minimum <= maximum;
    cosines.iter().zip(weights).map(move |(cosine, weight)| match is_known {
        true => (weight * (cosine.unwrap_or(minimum) - maximum)).exp(),
        false => 1.0,
    })
}

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
        let of_query = reranker.embed_queries(&[query])?.values;
        let mut cosines = candidates[..depth]
            .iter()
            .map(|candidate| self.stored_cosine(candidate, &of_query))
            .collect::<Result<Vec<_>, Error>>()?;
        let texts: Vec<(usize, String)> = (0..depth)
            .into_par_iter()
            .filter(|&at| cosines[at].is_none())
            .filter_map(|at| Some((at, self.text_to_read(&candidates[at])?)))
            .collect();
        for (at, vectors) in embedded_pieces(&texts, reranker)? {
            cosines[at] = best_cosine(&vectors, &of_query);
        }
        if cosines.iter().all(Option::is_none) {
            return Ok(());
        }
        cosines.resize(candidates.len(), None);
        let weights = candidates.iter().map(|candidate| {
            let probability = candidate.parts.file_probability;
            probability * ranking.rerank_file + (1.0 - probability) * ranking.rerank_function
        });
        let factors: Vec<f32> = factors(&cosines, weights).collect();
        for ((candidate, cosine), factor) in candidates.iter_mut().zip(&cosines).zip(factors) {
            candidate.parts.reranker = cosine.unwrap_or_default();
            candidate.parts.reranker_factor = factor;
            candidate.score *= factor;
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)));
        Ok(())
    }

    /// The cosine of a unit whose vector is stored.
    fn stored_cosine(&self, candidate: &Candidate, query: &[f32]) -> Result<Option<f32>, Error> {
        let Some(ahead) = self.dense.as_ref().and_then(|dense| dense.ahead.as_ref()) else { return Ok(None) };
        let (part, row) = self.table.units[candidate.unit].part_and_row();
        match ahead[part].get() {
            Ok(part) => Ok(part.best(row, query)),
            // More of them were stored since: the unit is read until the index is opened again.
            Err(Error::Replaced { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The text of a unit as it is now; none if it cannot be read.
    fn text_to_read(&self, candidate: &Candidate) -> Option<String> {
        let hit = self.hit(candidate.unit, candidate.score, candidate.parts);
        let source = self.source(&hit).ok()?.text;
        let record = &self.table.units[candidate.unit];
        let path = self.table.text(self.table.file_of(record).path);
        Some(embedding_text(path, self.table.text(record.name), &source))
    }
}
