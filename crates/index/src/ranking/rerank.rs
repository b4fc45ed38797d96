//! Re-ranks the first results of a search, by a model that compares the whole query with the whole unit.
//!
//! Such a model is too slow for all units of a tree, and adds little to the words of a name or a path. So it reads
//! only the first results of the ranking without it, passage by passage, and the cosine of the best passage joins the
//! score as evidence: the score is multiplied by exp(w · (cosine − maximum cosine)), which is the product of the two
//! in a log-linear model. The weight w depends on whether the query wants a function or a file. Units that are not
//! read count like the worst one that was.
//!
//! Stored vectors ([`Precomputation`](crate::Precomputation)) are not computed again. A re-ranker that uses nothing
//! else ([`Embedder::reranks_stored_only`]) orders results if most of them have stored vectors; the others count like
//! the median.
//!
//! A model that gives each token a vector ([`Embedder::token_embedder`]) reads a unit at once; the mean over the tokens of the
//! query of the maximum cosine with one of the unit takes the place of the cosine of the best passage.
//!
//! A cross-encoder ([`Embedder::cross_encoder`]) comes last. It reads the query with each of the first results,
//! and the score is multiplied by exp(w · (log-odds − maximum log-odds)).

use std::sync::Arc;

use quarry_embed::{EmbedError, Embedder, PairModel, Vectors, max_sim};
use rayon::prelude::*;

use crate::ranking::ranked_units::Candidate;
use crate::vectors::embedding_text::embedding_text;
use crate::vectors::passages::{PassageVectors, embedded_passages};
use crate::{Error, Index, RankingWeights, ScoreParts};

/// Number of results that are read.
pub const DEPTH: usize = 30;

/// Minimum share of the first results with stored vectors for a re-ranker that reads none: reached in a tree in which
/// a few files were edited, but not in one whose vectors are still being computed.
const MIN_STORED: f32 = 0.8;

/// Number of results that a cross-encoder reads.
pub const CROSS_ENCODER_DEPTH: usize = 12;

/// The vectors of the passages that texts are read in, in their order.
///
/// # Errors
/// When the model fails.
pub fn piece_vectors(texts: &[&str], reranker: &dyn Embedder) -> Result<Vec<Vectors>, EmbedError> {
    let texts: Vec<(usize, String)> = texts.iter().map(|text| (0, (*text).to_owned())).collect();
    Ok(embedded_passages(&texts, reranker)?.into_iter().map(|(_, vectors)| vectors).collect())
}

/// The maximum dot product of a passage with a query, or the mean of these of the query's vectors; `None` without passages.
pub fn best_cosine(passages: &Vectors, query: &Vectors) -> Option<f32> {
    (passages.n_rows() > 0).then(|| max_sim(query, passages) / query.n_rows().max(1) as f32)
}

/// The factors of the scores of results: exp(w · (evidence − maximum evidence)), at most 1, with a weight w for each.
/// Evidence is a cosine or log-odds; a result without any counts like the one with the minimum.
pub fn factors(
    evidence: &[Option<f32>],
    weights: impl IntoIterator<Item = f32>,
) -> impl Iterator<Item = f32> {
    let known = || evidence.iter().flatten().copied();
    let (minimum, maximum) =
        (known().fold(f32::INFINITY, f32::min), known().fold(f32::NEG_INFINITY, f32::max));
    let is_known = minimum <= maximum;
    evidence.iter().zip(weights).map(move |(evidence, weight)| match is_known {
        true => (weight * (evidence.unwrap_or(minimum) - maximum)).exp(),
        false => 1.0,
    })
}

impl Index {
    /// Re-ranks candidates, which are and remain ordered best first, if the model has a re-ranker that can do it;
    /// returns true if it did.
    pub(crate) fn rerank(
        &self,
        candidates: &mut [Candidate],
        query: &str,
        ranking: &RankingWeights,
    ) -> Result<bool, Error> {
        let Some(dense) = &self.dense else { return Ok(false) };
        let stored_only = dense.embedder.reranks_stored_only();
        // Without stored vectors the re-ranker is not even loaded.
        if stored_only && dense.passages.is_empty() {
            return Ok(false);
        }
        let Some(reranker) = dense.embedder.reranker() else { return Ok(false) };
        let depth = DEPTH.min(candidates.len());
        let dimension = reranker.dimension();
        let stored = candidates[..depth]
            .iter()
            .map(|candidate| self.stored_passages(candidate, dimension))
            .collect::<Result<Vec<_>, Error>>()?;
        let n_stored = stored.iter().flatten().count();
        if stored_only && (n_stored == 0 || (n_stored as f32) < MIN_STORED * depth as f32) {
            return Ok(false);
        }
        let of_query = match reranker.token_embedder() {
            Some(model) => model.query_tokens(query)?,
            None => reranker.embed_queries(&[query])?,
        };
        let mut cosines: Vec<Option<f32>> = stored
            .iter()
            .map(|stored| stored.as_ref().and_then(|(rows, row)| rows.best(*row, &of_query)))
            .collect();
        if stored_only {
            let median = median(cosines.iter().flatten().copied());
            cosines.iter_mut().for_each(|cosine| *cosine = cosine.or(median));
        } else {
            let texts: Vec<(usize, String)> = (0..depth)
                .into_par_iter()
                .filter(|&at| cosines[at].is_none())
                .filter_map(|at| Some((at, self.text_to_read(&candidates[at])?)))
                .collect();
            for (at, vectors) in embedded_passages(&texts, reranker)? {
                cosines[at] = best_cosine(&vectors, &of_query);
            }
        }
        if cosines.iter().all(Option::is_none) {
            return Ok(false);
        }
        cosines.resize(candidates.len(), None);
        multiply(candidates, &cosines, [ranking.rerank_function, ranking.rerank_file], |parts| {
            (&mut parts.reranker, &mut parts.reranker_factor)
        });
        Ok(true)
    }

    /// Returns true if re-ranking reads no result during a search.
    pub fn reranks_stored_only(&self) -> bool {
        self.dense.as_ref().is_some_and(|dense| dense.embedder.reranks_stored_only())
    }

    /// Re-ranks candidates by a model that reads the query together with each of the first ones.
    pub(crate) fn read_with_query(
        &self,
        candidates: &mut [Candidate],
        query: &str,
        cross_encoder: &dyn PairModel,
        ranking: &RankingWeights,
    ) -> Result<(), Error> {
        let depth = CROSS_ENCODER_DEPTH.min(candidates.len());
        let texts: Vec<(usize, String)> = (0..depth)
            .into_par_iter()
            .filter_map(|at| Some((at, self.text_to_read(&candidates[at])?)))
            .collect();
        let pairs: Vec<(&str, &str)> = texts.iter().map(|(_, text)| (query, text.as_str())).collect();
        let mut log_odds = vec![None; candidates.len()];
        for ((at, _), found) in texts.iter().zip(cross_encoder.log_odds(&pairs)?) {
            log_odds[*at] = Some(found);
        }
        multiply(candidates, &log_odds, [ranking.cross_encoder_function, 0.0], |parts| {
            (&mut parts.cross_encoder, &mut parts.cross_encoder_factor)
        });
        Ok(())
    }

    /// The vectors of a part that has some of this dimension of a unit, and its row there.
    fn stored_passages(
        &self,
        candidate: &Candidate,
        dimension: usize,
    ) -> Result<Option<(Arc<PassageVectors>, usize)>, Error> {
        let (part, row) = self.table.units[candidate.unit].part_and_row();
        let Some(stored) = self.dense.as_ref().and_then(|dense| dense.passages.get(part)) else {
            return Ok(None);
        };
        match stored.get() {
            Ok(stored) => Ok(stored.has_row(row, dimension).then_some((stored, row))),
            // More of them have been stored since: the unit is read until the index is opened again.
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

/// The lower median of some values.
fn median(values: impl Iterator<Item = f32>) -> Option<f32> {
    let mut values: Vec<f32> = values.collect();
    values.sort_by(f32::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// Multiplies the scores of candidates by [`factors`], with weights for those that want a function and a file, and
/// sorts them best first. `parts` returns the fields for a candidate's evidence and factor.
fn multiply(
    candidates: &mut [Candidate],
    evidence: &[Option<f32>],
    [function, file]: [f32; 2],
    parts: impl Fn(&mut ScoreParts) -> (&mut f32, &mut f32),
) {
    let weights = candidates.iter().map(|candidate| {
        let probability = candidate.parts.file_probability;
        probability * file + (1.0 - probability) * function
    });
    let factors: Vec<f32> = factors(evidence, weights).collect();
    for ((candidate, evidence), factor) in candidates.iter_mut().zip(evidence).zip(factors) {
        let (of_evidence, of_factor) = parts(&mut candidate.parts);
        *of_evidence = evidence.unwrap_or_default();
        *of_factor = factor;
        candidate.score *= factor;
    }
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)));
}
