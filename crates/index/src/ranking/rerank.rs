//! Orders the first results of a search again, by a model that compares the whole query with the whole unit.
//!
//! Such a model is too slow for all units of a tree, and adds little to the words of a name or a path. So it reads only
//! the first results of the ranking without it, passage by passage, and the cosine of the best passage joins the score as
//! evidence: the score is multiplied by exp(w · (cosine − maximum cosine)), which is the product of the two in a log-linear
//! model. The weight w depends on what the query wants. Units that are not read count as if they were like the worst that
//! was.
//!
//! A re-ranker that has a re-ranker of its own ([`Embedder::reranker`]) leaves the last word to it: that one, slower again,
//! reads of the first results of the new order the one passage that was most like the query, and its cosine joins the score in
//! the same way. What of either is stored ([`Precomputation`](crate::Precomputation)) need not be read.
//!
//! A cross-encoder ([`Embedder::cross_encoder`]) comes after all of these. It reads the query with each of the first results,
//! and the score is multiplied by exp(w · (log-odds − maximum log-odds)).

use std::collections::HashMap;

use quarry_embed::{EmbedError, Embedder, PairModel, Vectors};
use rayon::prelude::*;

use crate::ranking::ranked_units::Candidate;
use crate::vectors::embedding_text::embedding_text;
pub use crate::vectors::passages::BestPassage;
use crate::vectors::passages::{PassageVectors, embedded_passages, passages};
use crate::{Error, Index, RankingWeights, ScoreParts};

/// Number of results that are read.
pub const DEPTH: usize = 30;

/// Number of results of which the re-ranker's own re-ranker reads a passage, and that a cross-encoder reads.
pub const SECOND_DEPTH: usize = 12;

/// The vectors of the passages that texts are read in, in their order.
///
/// # Errors
/// When the model fails.
pub fn piece_vectors(texts: &[&str], reranker: &dyn Embedder) -> Result<Vec<Vectors>, EmbedError> {
    let texts: Vec<(usize, String)> = texts.iter().map(|text| (0, (*text).to_owned())).collect();
    Ok(embedded_passages(&texts, reranker)?.into_iter().map(|(_, vectors)| vectors).collect())
}

/// The passage whose vector is most like a query; `None` without passages.
#[must_use]
pub fn best_passage(passages: &Vectors, query: &[f32]) -> Option<BestPassage> {
    BestPassage::of(passages.rows().map(|passage| product(passage, query)))
}

/// The passage of a text with a number; none if it has fewer.
#[must_use]
pub fn passage(text: &str, number: usize) -> Option<String> {
    passages(text).into_iter().nth(number)
}

/// The dot product of two vectors, which is their cosine if they have length 1.
#[must_use]
pub fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// What the scores of results are multiplied by: exp(w · (evidence − maximum evidence)), at most 1, with a weight w for each.
/// Evidence is a cosine or log-odds; a result without any counts like the one that has the least.
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
        let mut best = candidates[..depth]
            .iter()
            .map(|candidate| self.stored(0, candidate, |passages, row| passages.best(row, &of_query)))
            .collect::<Result<Vec<_>, Error>>()?;
        let texts: Vec<(usize, String)> = (0..depth)
            .into_par_iter()
            .filter(|&at| best[at].is_none())
            .filter_map(|at| Some((at, self.text_to_read(&candidates[at])?)))
            .collect();
        for (at, vectors) in embedded_passages(&texts, reranker)? {
            best[at] = best_passage(&vectors, &of_query);
        }
        if best.iter().all(Option::is_none) {
            return Ok(());
        }
        let read: HashMap<usize, BestPassage> = candidates
            .iter()
            .zip(&best)
            .filter_map(|(candidate, best)| Some((candidate.unit, (*best)?)))
            .collect();
        let mut cosines: Vec<Option<f32>> = best.iter().map(|best| best.map(|best| best.cosine)).collect();
        cosines.resize(candidates.len(), None);
        multiply(candidates, &cosines, [ranking.rerank_function, ranking.rerank_file], |parts| {
            (&mut parts.reranker, &mut parts.reranker_factor)
        });
        match reranker.reranker() {
            Some(second) if ranking.rerank_again_function > 0.0 => {
                self.rerank_again(candidates, query, second, &read, ranking)
            }
            _ => Ok(()),
        }
    }

    /// Orders candidates again that another re-ranker has ordered, by the best passage of what that one `read`.
    fn rerank_again(
        &self,
        candidates: &mut [Candidate],
        query: &str,
        reranker: &dyn Embedder,
        read: &HashMap<usize, BestPassage>,
        ranking: &RankingWeights,
    ) -> Result<(), Error> {
        let depth = SECOND_DEPTH.min(candidates.len());
        let of_query = reranker.embed_queries(&[query])?.values;
        let mut cosines = vec![None; candidates.len()];
        for (candidate, cosine) in candidates.iter().zip(&mut cosines).take(depth) {
            if let Some(best) = read.get(&candidate.unit) {
                *cosine =
                    self.stored(1, candidate, |passages, row| passages.cosine(row, best.number, &of_query))?;
            }
        }
        let unread: Vec<(usize, String)> = (0..depth)
            .into_par_iter()
            .filter(|&at| cosines[at].is_none())
            .filter_map(|at| {
                let best = read.get(&candidates[at].unit)?;
                Some((at, passage(&self.text_to_read(&candidates[at])?, best.number)?))
            })
            .collect();
        if !unread.is_empty() {
            let texts: Vec<&str> = unread.iter().map(|(_, text)| text.as_str()).collect();
            for ((at, _), vector) in unread.iter().zip(reranker.embed_documents(&texts)?.rows()) {
                cosines[*at] = Some(product(vector, &of_query));
            }
        }
        multiply(candidates, &cosines, [ranking.rerank_again_function, 0.0], |parts| {
            (&mut parts.second_reranker, &mut parts.second_reranker_factor)
        });
        Ok(())
    }

    /// Orders candidates again by a model that reads the query together with each of the first ones.
    ///
    /// # Errors
    /// When the model fails.
    pub(crate) fn read_with_query(
        &self,
        candidates: &mut [Candidate],
        query: &str,
        cross_encoder: &dyn PairModel,
        ranking: &RankingWeights,
    ) -> Result<(), Error> {
        let depth = SECOND_DEPTH.min(candidates.len());
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

    /// What the stored vectors of a unit say, those of the first re-ranker or of the next; `None` if they do not.
    fn stored<T>(
        &self,
        reranker: usize,
        candidate: &Candidate,
        say: impl Fn(&PassageVectors, usize) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(stored) = self.dense.as_ref().and_then(|dense| dense.passages.get(reranker)) else {
            return Ok(None);
        };
        let (part, row) = self.table.units[candidate.unit].part_and_row();
        match stored[part].get() {
            Ok(part) => Ok(say(&part, row)),
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

/// Multiplies the scores of candidates by [`factors`], with weights for those that want a function and a file, and puts the
/// best first. `parts` is where a candidate's evidence and factor are stored.
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
