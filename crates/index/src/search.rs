//! Ranking units for a query.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use quarry_source::UnitKind;
use quarry_text::query_terms;
use quarry_walk::FileFlags;
use rayon::prelude::*;

use crate::fusion::{Fusion, convex_combination, max_or_one};
use crate::intent::UnitFeatures;
use crate::lexical::{Bm25f, Groups, Scores};
use crate::respelling::QueryReading;
use crate::rules::{self, PathMatch, Query};
use crate::selection::{best, better_first, hide};
use crate::table::UnitRecord;
use crate::{Error, Evidence, Filter, Index};

/// Number of units to which the rules are applied: those with the best scores before them.
const N_CANDIDATES: usize = 200;

/// Number of these among which near-duplicates are searched.
const N_FOLDED: usize = 50;

/// Files per task: enough to outweigh the cost of distributing them.
const FILES_PER_TASK: usize = 1 << 12;

/// Minimum cosine at which two units with the same name are near-duplicates.
const ALIKE: f32 = 0.95;

/// A search of an index.
#[derive(Debug, Clone)]
pub struct SearchRequest<'a> {
    /// The query: plain words or a symbol.
    pub query: &'a str,
    /// Maximum number of results.
    pub limit: usize,
    /// Weights of the ranking.
    pub ranking: RankingWeights,
    /// Which units may be found.
    pub filter: &'a Filter,
}

/// The weights of a ranking. A unit's score is the sum of
///
/// - its own words' score: BM25F and cosine, each relative to the best one of this query, fused
///   ([`convex_combination`]);
/// - `file_weight` times the same for its file, whose BM25F is that of all its units taken together and whose cosine
///   is that of its best unit; both sums are relative to the best unit's, so they are at most 1;
/// - the [rules](crate::rules), each times its weight;
///
/// and is multiplied by [`rules::demotion`], after which the weight of a definition is added, and then by the factors
/// of [`rules::fold`] and [`rules::diversify`]. That is the score by the rules; with `function_share` above 0 it is
/// mixed with that for questions about behavior, as [`intent`](crate::intent) describes. The defaults are those that
/// `quarry eval tune` chooses on the repository-search development set and on `bench/repo-queries.tsv` together, or
/// hardly differ from these; `docs/reports/ranking.md` has the figures.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingWeights {
    /// Parameters of the lexical score.
    pub bm25f: Bm25f,
    /// Weight of the cosine in a score, 0 to 1; ignored without a model.
    pub dense_weight: f32,
    /// Weight of the file's score relative to the unit's own.
    pub file_weight: f32,
    /// Weight of [`rules::path_match`].
    pub path_weight: f32,
    /// Weight of [`rules::unit_match`].
    pub name_weight: f32,
    /// Exponent of both matches, at least 1: the larger, the less partial matches count.
    pub name_power: f32,
    /// Bonus for the definition of the symbol that the query consists of: by default more than everything else
    /// together.
    pub definition: f32,
    /// Bonus for the definition of a symbol that a longer query mentions.
    pub mention: f32,
    /// Factor for examples, generated and vendored code, documentation and the like, 0 to 1.
    pub demotion: f32,
    /// Factor for tests, 0 to 1.
    pub test: f32,
    /// Factor for definitions private to a type or file ([`rules::is_private`]) if a public one of the file is
    /// among the candidates, 0 to 1.
    pub private: f32,
    /// Factor for each further unit of a file, 0 to 1.
    pub repetition: f32,
    /// Factor for a near-duplicate of a better unit, 0 to 1.
    pub duplicate: f32,
    /// How strongly a query that reads like a question about behavior is treated as one, from 0 (never: only the
    /// rules are used) to 1 (with the probability of [`file_probability`](crate::intent::Model::file_probability)).
    pub function_share: f32,
    /// How much the cosine of a re-ranker counts, in natural logarithms of a score, for queries that want a function;
    /// ignored without one.
    pub rerank_function: f32,
    /// The same for queries that want a file.
    pub rerank_file: f32,
    /// How much the cosine of the re-ranker's own re-ranker counts, for queries that want a function; it does not for those
    /// that want a file.
    pub rerank_again_function: f32,
    /// How much the log-odds of a cross-encoder count, likewise.
    pub cross_encoder_function: f32,
}

impl Default for RankingWeights {
    fn default() -> Self {
        Self {
            bm25f: Bm25f { k1: 0.9, ..Bm25f::default() },
            dense_weight: 0.65,
            file_weight: 0.75,
            path_weight: 0.5,
            name_weight: 0.25,
            name_power: 1.5,
            definition: 3.0,
            mention: 0.25,
            demotion: 0.25,
            test: 0.25,
            private: 0.99,
            repetition: 0.65,
            duplicate: 0.0,
            function_share: 1.0,
            rerank_function: 15.0,
            rerank_file: 0.0,
            rerank_again_function: 15.0,
            cross_encoder_function: 1.0,
        }
    }
}

/// Ranked units.
#[derive(Debug, Clone, Default)]
pub struct SearchResponse {
    /// The hits, best first; ties in the order of paths and lines.
    pub hits: Vec<Hit>,
    /// Confidence that any hit answers the query, 0 to 1, computed from `evidence`; for
    /// [`Index::similar`] the cosine of the first hit. 0 without hits.
    pub confidence: f32,
    /// The evidence for the confidence; none for [`Index::similar`].
    pub evidence: Evidence,
    /// The query as it was interpreted, if that differs from the text: with its symbols as they are written in the
    /// code.
    pub read_as: Option<String>,
}

/// A unit in the ranked answer to a search.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Number of the unit in the index.
    pub unit: usize,
    /// Index of the searched path in which it was found; 0 if there is only one.
    pub root: usize,
    /// Path relative to that path, `/` between its parts.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// Qualified name within the file; empty for parts between definitions.
    pub name: String,
    /// Declaration without body; empty for parts between definitions.
    pub signature: String,
    /// Kind of the unit.
    pub kind: UnitKind,
    /// Name of the language; in a notebook, of the cell.
    pub language: String,
    /// Score: larger is better; comparable within one response only.
    pub score: f32,
    /// The signals that make up the score.
    pub parts: ScoreParts,
}

/// The signals that make up a score.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct ScoreParts {
    /// BM25F of the unit.
    pub lexical: f32,
    /// Cosine of the unit, -1 to 1; 0 without a model.
    pub dense: f32,
    /// BM25F relative to the maximum that these terms can reach in a text of mean length or more: 0 to 1.
    pub coverage: f32,
    /// Fused score of the unit's and the file's words, relative to the best unit: 0 to 1.
    pub words: f32,
    /// [`rules::path_match`].
    #[serde(rename = "place")]
    pub path: f32,
    /// [`rules::unit_match`].
    pub name: f32,
    /// Whether it defines the symbol that the query is, or one that it mentions ([`rules::Query::mentions`]).
    pub defines: bool,
    /// How exactly that symbol is spelled like its name: 1, or less in another case or with a misspelled letter.
    pub exactness: f32,
    /// Factor for the kind of code: [`rules::demotion`].
    pub demotion: f32,
    /// Factor for better units of the same file and for being a near-duplicate.
    pub repetition: f32,
    /// The score by the rules, computed from all of the above.
    pub rules: f32,
    /// The probability that the query wants a file, 0 to 1; 1 if only the rules are used.
    pub file_probability: f32,
    /// The unit's share if a file is wanted: in a softmax over the scores by the rules, 0 to 1.
    pub file_share: f32,
    /// [`function_score`](crate::intent::Model::function_score).
    pub function: f32,
    /// The unit's share if a function is wanted: in a softmax over `function`, 0 to 1.
    pub function_share: f32,
    /// Factor for that share, for generated code and the like and for near-duplicates.
    pub function_factor: f32,
    /// Cosine of the unit by the re-ranker, -1 to 1; 0 without one, or if it was not read.
    pub reranker: f32,
    /// Factor for that cosine; 1 without a re-ranker.
    pub reranker_factor: f32,
    /// Cosine of the piece that the re-ranker's own re-ranker read, -1 to 1; 0 without one, or if it read nothing of the unit.
    pub second_reranker: f32,
    /// Factor for that cosine; 1 without one.
    pub second_reranker_factor: f32,
    /// Log-odds of the unit by the cross-encoder; 0 without one, or if it was not read.
    pub cross_encoder: f32,
    /// Factor for these; 1 without one.
    pub cross_encoder_factor: f32,
}

/// Units ranked by a search, with their signals.
pub struct RankedUnits {
    /// Best first.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) signals: Signals,
    pub(crate) ranking: RankingWeights,
    /// Like [`SearchResponse::read_as`].
    read_as: Option<String>,
    evidence: Evidence,
}

impl RankedUnits {
    /// Confidence that any unit answers the query, 0 to 1; 0 without units.
    #[must_use]
    pub fn confidence(&self) -> f32 {
        if self.candidates.is_empty() { 0.0 } else { self.evidence.confidence() }
    }

    /// The numbers of the units, best first.
    pub fn units(&self) -> impl Iterator<Item = usize> {
        self.candidates.iter().map(|candidate| candidate.unit)
    }
}

/// A unit that may be a result.
pub(crate) struct Candidate {
    pub unit: usize,
    pub score: f32,
    pub parts: ScoreParts,
    /// All 0 until they are computed.
    pub features: UnitFeatures,
}

/// The scores of a query for every unit and file that passes the filter; 0 for the others.
pub(crate) struct Signals {
    pub reading: QueryReading,
    pub terms: Vec<String>,
    /// BM25F of units and of files.
    pub lexical: Scores,
    /// Cosine of each unit.
    pub dense: Vec<f32>,
    /// The best cosine of each file.
    pub dense_of_files: Vec<f32>,
    /// Weight of the cosine in a score.
    pub dense_weight: f32,
    /// The units with the best `words`, unordered.
    pub candidates: Vec<usize>,
    /// The words' score of each candidate and its file.
    pub words: Vec<f32>,
    /// The best of `words`.
    pub best: f32,
}

impl Signals {
    /// The query as it was interpreted, with the weights of its terms.
    pub fn query(&self) -> Query<'_> {
        Query { text: &self.reading.text, terms: &self.terms, weights: &self.lexical.idf }
    }
}

impl Index {
    /// Ranks the units of the index for a query. Deterministic: equal indexes give equal responses.
    ///
    /// # Errors
    /// When the query has no word, the model fails, or the index cannot be read.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchResponse, Error> {
        let ranked = self.rank(request)?;
        Ok(self.response(&ranked, request.limit))
    }

    /// The best hits of a ranking.
    #[must_use]
    pub fn response(&self, ranked: &RankedUnits, limit: usize) -> SearchResponse {
        let candidates = ranked.candidates.iter().take(limit);
        SearchResponse {
            hits: candidates.map(|candidate| self.hit_of(candidate)).collect(),
            confidence: ranked.confidence(),
            evidence: ranked.evidence,
            read_as: ranked.read_as.clone(),
        }
    }

    /// The hit at a 0-based position of a ranking.
    #[must_use]
    pub fn ranked_hit(&self, ranked: &RankedUnits, position: usize) -> Option<Hit> {
        ranked.candidates.get(position).map(|candidate| self.hit_of(candidate))
    }

    /// Ranks units as [`search`](Self::search) does, for showing more of them later or explaining them
    /// ([`explain`](Self::explain)).
    ///
    /// # Errors
    /// Like [`search`](Self::search).
    pub fn rank(&self, request: &SearchRequest) -> Result<RankedUnits, Error> {
        let signals = self.signals(request)?;
        let ranking = &request.ranking;
        let query = signals.query();
        let path_matches = self.path_matches(&query, &signals.candidates);
        let parts = self.parts_by_rules(&signals, &query, ranking, &path_matches);
        let is_symbol = query.symbol().is_some();
        let mut scored: Vec<(u32, usize, f32)> = signals
            .candidates
            .iter()
            .map(|unit| (self.file_of_unit[*unit], *unit, ranking.score(&parts[unit], is_symbol)))
            .collect();
        if ranking.duplicate < 1.0 {
            rules::fold(&mut scored, ranking.duplicate, N_FOLDED, |a, b| self.are_alike(a, b))?;
        }
        let folded: HashMap<usize, f32> = scored.iter().map(|&(_, unit, score)| (unit, score)).collect();
        let over = |score: f32, of: f32| if of > 0.0 { score / of } else { 1.0 };
        let mut candidates: Vec<Candidate> = rules::diversify(scored, ranking.repetition)
            .into_iter()
            .map(|(_, unit, score)| {
                let alone = ranking.score(&parts[&unit], is_symbol);
                // For questions about behavior, being a test is one of the features.
                let flags = self.flags(&self.table.units[unit]).difference(FileFlags::TEST);
                let demotion = if flags.is_empty() { 1.0 } else { ranking.demotion };
                let parts = ScoreParts {
                    repetition: over(score, alone),
                    rules: score,
                    file_probability: 1.0,
                    function_factor: over(folded[&unit], alone) * demotion,
                    ..parts[&unit]
                };
                Candidate { unit, score, parts, features: UnitFeatures::default() }
            })
            .collect();
        if ranking.function_share > 0.0 && !is_symbol {
            self.mix(&mut candidates, &signals, &query, ranking, &path_matches);
        }
        let mut evidence = self.evidence(&candidates, &signals, request.query);
        let embedder = self.dense.as_ref().map(|dense| &dense.embedder).filter(|_| !is_symbol);
        if let Some(reranker) = embedder.and_then(|embedder| embedder.reranker()) {
            evidence.reranker = self.rerank(&mut candidates, request.query, reranker, ranking)?;
        }
        if let Some(cross_encoder) = embedder.and_then(|embedder| embedder.cross_encoder()) {
            self.read_with_query(&mut candidates, request.query, cross_encoder, ranking)?;
        }
        let text = &signals.reading.text;
        let read_as = (text != request.query).then(|| text.clone());
        Ok(RankedUnits { candidates, signals, ranking: ranking.clone(), read_as, evidence })
    }

    /// The signals of each candidate that do not depend on other candidates.
    fn parts_by_rules(
        &self,
        signals: &Signals,
        query: &Query,
        ranking: &RankingWeights,
        path_matches: &HashMap<u32, PathMatch>,
    ) -> HashMap<usize, ScoreParts> {
        let Signals { reading, lexical, dense, candidates, words, best: scale, .. } = signals;
        let is_symbol = query.symbol().is_some();
        let most: f32 = lexical.idf.iter().sum::<f32>() * (ranking.bm25f.k1 + 1.0);
        let is_private = |record: &UnitRecord| {
            rules::is_private(self.table.text(record.name), self.table.text(record.signature))
        };
        let with_public: HashSet<u32> = candidates
            .iter()
            .map(|&unit| &self.table.units[unit])
            .filter(|record| rules::is_definition(record.kind()) && !is_private(record))
            .map(|record| record.file)
            .collect();
        let mentioned: Vec<&str> = query.mentions().collect();
        let parts = |unit: usize, words: f32| {
            let record = &self.table.units[unit];
            let name = self.table.text(record.name);
            let exactness = if is_symbol {
                reading.definitions.get(&unit).copied()
            } else {
                let symbol = rules::symbol(record.kind(), name, self.table.text(record.signature));
                mentioned.contains(&symbol).then_some(1.0)
            };
            ScoreParts {
                lexical: lexical.texts[unit],
                dense: dense[unit],
                coverage: (lexical.texts[unit] / most).min(1.0),
                words: words / scale,
                path: path_matches[&record.file].whole(),
                name: rules::unit_match(query, record.kind(), name),
                defines: exactness.is_some(),
                exactness: exactness.unwrap_or_default(),
                demotion: rules::demotion(
                    self.flags(record),
                    with_public.contains(&record.file) && is_private(record),
                    ranking,
                ),
                repetition: 1.0,
                reranker_factor: 1.0,
                second_reranker_factor: 1.0,
                cross_encoder_factor: 1.0,
                ..ScoreParts::default()
            }
        };
        candidates.iter().zip(words).map(|(&unit, &words)| (unit, parts(unit, words))).collect()
    }

    /// The flags of a unit: those of its file, and whether it is test code.
    pub(crate) fn flags(&self, record: &UnitRecord) -> FileFlags {
        let mut flags = self.table.file_of(record).flags();
        flags.set(FileFlags::TEST, flags.contains(FileFlags::TEST) || record.is_test());
        flags
    }

    /// The lexical and dense scores of units and files, before any rule.
    pub(crate) fn signals(&self, request: &SearchRequest) -> Result<Signals, Error> {
        if query_terms(request.query).is_empty() {
            return Err(Error::EmptyQuery);
        }
        let allowed = self.allowed(request.filter);
        let reading = self.read_query(request.query, allowed.as_deref())?;
        let terms = query_terms(&reading.text);
        let ranking = &request.ranking;
        let groups = Groups { of_text: &self.file_of_unit, lengths: &self.file_lengths };
        let score_dense = || match &self.dense {
            Some(dense) => {
                let vectors = dense.embedder.embed_queries(&[reading.text.as_str()])?;
                Ok::<_, Error>((dense.matrix.similarities(&vectors.values)?, ranking.dense_weight))
            }
            None => Ok((vec![0.0; self.n_units()], 0.0)),
        };
        let (lexical, dense) =
            rayon::join(|| self.lexical.scores(&terms, &ranking.bm25f, groups), score_dense);
        let (mut lexical, (mut dense, dense_weight)) = (lexical?, dense?);
        hide(&mut lexical.texts, allowed.as_deref());
        hide(&mut dense, allowed.as_deref());
        let dense_of_files = self.best_of_files(&dense);
        let fusion = Fusion::of(&lexical.texts, &dense, dense_weight);
        let of_files = convex_combination(&lexical.groups, &dense_of_files, dense_weight);
        let words = |unit: usize| {
            let file = ranking.file_weight * of_files[self.file_of_unit[unit] as usize];
            let is_allowed = allowed.as_ref().is_none_or(|allowed| allowed[unit]);
            if is_allowed { fusion.score(lexical.texts[unit], dense[unit]) + file } else { 0.0 }
        };
        let mut found = best(self.n_units(), N_CANDIDATES.max(request.limit), words);
        // By its words' score, the definition of a commonly used symbol may not be among the best.
        if !found.iter().any(|(unit, _)| reading.definitions.contains_key(unit)) {
            let mut others: Vec<(usize, f32)> =
                reading.definitions.keys().map(|&unit| (unit, words(unit))).collect();
            others.sort_unstable_by(better_first);
            found.extend(others.into_iter().take(N_CANDIDATES));
        }
        let (candidates, words): (Vec<usize>, Vec<f32>) = found.into_iter().unzip();
        let best = max_or_one(&words);
        Ok(Signals { reading, terms, lexical, dense, dense_of_files, dense_weight, candidates, words, best })
    }

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

    /// Whether two units are near-duplicates: of the same kind and name, with nearly equal vectors or, without a
    /// model, embedding texts.
    ///
    /// # Errors
    /// When their vectors cannot be opened.
    fn are_alike(&self, a: usize, b: usize) -> Result<bool, Error> {
        let (first, second) = (&self.table.units[a], &self.table.units[b]);
        let own = |name| rules::last_part(self.table.text(name));
        if first.kind() != second.kind() || own(first.name) != own(second.name) {
            return Ok(false);
        }
        Ok(match &self.dense {
            Some(dense) => dense.matrix.similarity(first.part_and_row(), second.part_and_row())? >= ALIKE,
            None => self.table.hash(first) == self.table.hash(second),
        })
    }

    /// The maximum score among the units of each file, at least 0.
    fn best_of_files(&self, scores: &[f32]) -> Vec<f32> {
        let best = |units: &Range<usize>| scores[units.clone()].iter().copied().fold(0.0, f32::max);
        self.units_of_files.par_iter().with_min_len(FILES_PER_TASK).map(best).collect()
    }

    /// [`rules::path_match`] of the files of some units.
    pub(crate) fn path_matches(&self, query: &Query, units: &[usize]) -> HashMap<u32, PathMatch> {
        let mut matches = HashMap::new();
        for &unit in units {
            let file = self.file_of_unit[unit];
            matches.entry(file).or_insert_with(|| {
                rules::path_match(query, self.table.text(self.table.files[file as usize].path))
            });
        }
        matches
    }

    fn hit_of(&self, candidate: &Candidate) -> Hit {
        self.hit(candidate.unit, candidate.score, candidate.parts)
    }

    pub(crate) fn hit(&self, unit: usize, score: f32, parts: ScoreParts) -> Hit {
        let record = &self.table.units[unit];
        let file = self.table.file_of(record);
        let row = record.file as usize;
        // A unit that is given by its line may be excluded from searches.
        let found = self.root_of(row).or_else(|| self.roots_around(row).next());
        let (root, path) = found.map_or((0, self.table.text(file.path)), |(root, path)| (root.number, path));
        Hit {
            unit,
            root,
            path: path.to_owned(),
            start_line: record.start_line,
            end_line: record.end_line,
            name: self.table.text(record.name).to_owned(),
            signature: self.table.text(record.signature).to_owned(),
            kind: record.kind(),
            language: self.table.text(record.language).to_owned(),
            score,
            parts,
        }
    }
}

impl RankingWeights {
    /// The score before [`rules::diversify`].
    fn score(&self, parts: &ScoreParts, is_symbol: bool) -> f32 {
        let names = self.path_weight * parts.path.powf(self.name_power)
            + self.name_weight * parts.name.powf(self.name_power);
        // A definition that is searched by name is not demoted, whatever kind of code it is in.
        (parts.words + names) * parts.demotion + self.definition_score(parts, is_symbol)
    }

    /// The bonus for a unit that defines a symbol of the query.
    pub(crate) fn definition_score(&self, parts: &ScoreParts, is_symbol: bool) -> f32 {
        let weight = if is_symbol { self.definition } else { self.mention };
        parts.exactness * weight
    }
}
