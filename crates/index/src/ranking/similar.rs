//! Searching for code like given code.

use quarry_text::query_terms;

use crate::lexical::{Bm25f, Groups};
use crate::ranking::selection::{best, better_first, hide};
use crate::{Error, Filter, Hit, Index, ScoreParts, SearchResponse};

impl Index {
    /// Ranks units by similarity to the one at a line (1-based) of a file (path relative to the root), which is
    /// omitted: by the cosine of their vectors; without a model, by BM25F for the words of its name and signature.
    /// The confidence is the cosine of the first one.
    ///
    /// # Errors
    /// When no unit covers the line, it has no word, or the index cannot be read.
    pub fn similar(
        &self,
        path: &str,
        line: u32,
        limit: usize,
        filter: &Filter,
    ) -> Result<SearchResponse, Error> {
        let no_unit = || Error::NoUnit { path: path.to_owned(), line };
        self.similar_to(&self.unit_at(path, line).ok_or_else(no_unit)?, limit, filter)
    }

    /// Like [`similar`](Self::similar), to a unit that was found before.
    ///
    /// # Errors
    /// When it has no word, or the index cannot be read.
    pub fn similar_to(&self, given: &Hit, limit: usize, filter: &Filter) -> Result<SearchResponse, Error> {
        self.read(|| self.nearest_to(given, limit, filter))
    }

    fn nearest_to(&self, given: &Hit, limit: usize, filter: &Filter) -> Result<SearchResponse, Error> {
        let mut scores = match &self.dense {
            Some(dense) => {
                let vector = dense.matrix.vector(self.table.units[given.unit].part_and_row())?;
                dense.matrix.similarities(&vector)?
            }
            None => {
                let terms = query_terms(&format!("{} {}", given.name, given.signature));
                let groups = Groups { of_text: &[], lengths: &[] };
                self.lexical.scores(&terms, &Bm25f::default(), groups)?.texts
            }
        };
        scores[given.unit] = 0.0;
        hide(&mut scores, self.allowed(filter).as_deref());
        let mut units = best(scores.len(), limit, |unit| scores[unit]);
        units.sort_unstable_by(better_first);
        let part = |score: f32| match &self.dense {
            Some(_) => ScoreParts { dense: score, ..ScoreParts::default() },
            None => ScoreParts { lexical: score, ..ScoreParts::default() },
        };
        let hits: Vec<Hit> =
            units.into_iter().map(|(unit, score)| self.hit(unit, score, part(score))).collect();
        let first = hits.first().map_or(0.0, |hit| hit.parts.dense);
        Ok(SearchResponse { hits, confidence: first, ..SearchResponse::default() })
    }
}
