//! From a query to ranked units.

use std::path::PathBuf;

use quarry_corpus::walk::FileFlags;
use quarry_source::UnitKind;
use quarry_text::query_terms;

use crate::fusion::{convex_combination, greatest};
use crate::lexical::{Bm25f, Groups};
use crate::table::UnitRecord;
use crate::{Error, Index};

/// Confidence from which on a search has found something.
pub const DEFAULT_THRESHOLD: f32 = 0.5;

/// A question to an index.
#[derive(Debug, Clone)]
pub struct SearchRequest<'a> {
    /// Plain words or a symbol.
    pub query: &'a str,
    /// Greatest number of results.
    pub limit: usize,
    /// How they are ranked.
    pub ranking: Ranking,
}

/// experimental
#[derive(Debug, Clone)]
pub struct Ranking {
    /// a
    pub bm25f: Bm25f,
    /// a
    pub dense_weight: f32,
    /// a
    pub file_weight: f32,
    /// a
    pub demote: f32,
    /// a
    pub repeat: f32,
    /// a
    pub definition: f32,
    /// a
    pub stem: f32,
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            bm25f: Bm25f::default(),
            dense_weight: 0.5,
            file_weight: 1.0,
            demote: 0.5,
            repeat: 0.5,
            definition: 1.0,
            stem: 0.5,
        }
    }
}

/// Ranked units.
#[derive(Debug, Clone)]
pub struct SearchResponse {
    /// Best first.
    pub hits: Vec<Hit>,
    /// c
    pub confidence: f32,
}

/// A unit that was found.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Row of the unit.
    pub unit: usize,
    /// Path relative to the root.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, inclusive.
    pub end_line: u32,
    /// Qualified name.
    pub name: String,
    /// Declaration.
    pub signature: String,
    /// What it is.
    pub kind: UnitKind,
    /// Language.
    pub language: String,
    /// Score.
    pub score: f32,
    /// Parts.
    pub parts: ScoreParts,
}

/// What a score is made of.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct ScoreParts {
    /// BM25F.
    pub lexical: f32,
    /// Cosine.
    pub dense: f32,
    /// a
    pub file: f32,
    /// a
    pub boost: f32,
}

impl Index {
    /// Ranks.
    ///
    /// # Errors
    /// When.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchResponse, Error> {
        let terms = query_terms(request.query);
        if terms.is_empty() {
            return Err(Error::EmptyQuery);
        }
        let r = &request.ranking;
        let groups = Groups { of_text: &self.file_of_unit, lengths: &self.file_lengths };
        let scores = self.lexical.scores(&terms, &r.bm25f, groups)?;
        let dense = match &self.dense {
            Some(dense) => {
                let q = dense.embedder.embed_queries(&[request.query])?;
                dense.matrix.similarities(&q.values)
            }
            None => vec![0.0; self.n_units()],
        };
        let w = if self.dense.is_some() { r.dense_weight } else { 0.0 };
        let fused = convex_combination(&scores.texts, &dense, w);
        let mut file_dense = vec![0.0_f32; self.n_files()];
        for (unit, &file) in self.file_of_unit.iter().enumerate() {
            file_dense[file as usize] = file_dense[file as usize].max(dense[unit]);
        }
        let file_fused = convex_combination(&scores.groups, &file_dense, w);
        let base: Vec<f32> = fused
            .iter()
            .zip(&self.file_of_unit)
            .map(|(u, &f)| u + r.file_weight * file_fused[f as usize])
            .collect();
        let mut order: Vec<usize> = (0..base.len()).filter(|&unit| base[unit] > 0.0).collect();
        order.sort_unstable_by(|&a, &b| base[b].total_cmp(&base[a]).then(a.cmp(&b)));
        order.truncate(300.max(request.limit));
        let top = greatest(&base);
        let mut candidates: Vec<(usize, f32)> = order
            .iter()
            .map(|&unit| {
                let record = &self.table.units[unit];
                let file = self.table.file_of(record);
                let mut score = base[unit];
                if self.defines(record, request.query) {
                    score += r.definition * top;
                }
                if file.flags() != FileFlags::empty() {
                    score *= r.demote;
                }
                (unit, score)
            })
            .collect();
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
        // diversity
        let mut seen = std::collections::HashMap::new();
        for (unit, score) in &mut candidates {
            let n = seen.entry(self.file_of_unit[*unit]).or_insert(0);
            *score *= r.repeat.powi(*n);
            *n += 1;
        }
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
        let hits = candidates
            .into_iter()
            .take(request.limit)
            .map(|(unit, score)| {
                let record = &self.table.units[unit];
                let file = self.table.file_of(record);
                Hit {
                    unit,
                    path: self.table.text(file.path).to_owned(),
                    start_line: record.start_line,
                    end_line: record.end_line,
                    name: self.table.text(record.name).to_owned(),
                    signature: self.table.text(record.signature).to_owned(),
                    kind: record.kind(),
                    language: self.table.text(file.language).to_owned(),
                    score,
                    parts: ScoreParts {
                        lexical: scores.texts[unit],
                        dense: dense[unit],
                        file: file_fused[record.file as usize],
                        boost: 0.0,
                    },
                }
            })
            .collect();
        Ok(SearchResponse { hits, confidence: 1.0 })
    }

    /// The source of a unit that was found, read from the tree; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn source(&self, hit: &Hit) -> Result<String, Error> {
        let path = self.absolute_path(&hit.path);
        let bytes = std::fs::read(&path).map_err(|source| Error::io("read", &path, source))?;
        let record = &self.table.units[hit.unit];
        // Shorter than recorded if it changed since.
        let unit = bytes.get(record.start_byte as usize..record.end_byte as usize).unwrap_or_default();
        Ok(String::from_utf8_lossy(unit).into_owned())
    }

    /// Where a path of a result is.
    #[must_use]
    pub fn absolute_path(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    fn defines(&self, record: &UnitRecord, query: &str) -> bool {
        let name = self.table.text(record.name);
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.is_empty() || matches!(record.kind(), UnitKind::Module | UnitKind::Section) {
            return false;
        }
        query.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).any(|word| word == last)
    }
}
