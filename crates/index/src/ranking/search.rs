//! Ranking units for a query.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use quarry_embed::{Meaning, StaticModel, meanings, meanings_per_word, normalize};
use quarry_text::query_terms;
use quarry_walk::FileFlags;
use rayon::prelude::*;

use crate::index::Dense;
use crate::lexical::Groups;
use crate::ranking::fusion::{Fusion, convex_combination, max_or_one};
use crate::ranking::intent::UnitFeatures;
use crate::ranking::issue::Issue;
use crate::ranking::issue::evidence::N_PRINTING;
use crate::ranking::issue::literal::Message;
use crate::ranking::issue::log::logged;
use crate::ranking::question::{QuestionKind, asks_for_tests};
use crate::ranking::ranked_units::{Candidate, RankedUnits, Signals};
use crate::ranking::rules::{self, PathMatch, Query};
use crate::ranking::selection::{best, better_first, hide};
use crate::storage::table::UnitRecord;
use crate::{Error, Hit, Index, RankingWeights, ScoreParts, SearchRequest, SearchResponse};

/// Number of units to which the rules are applied: those with the best scores before them.
const N_CANDIDATES: usize = 200;

/// Number of these among which near-duplicates are searched.
const N_FOLDED: usize = 50;

/// Number of candidates that are added for their meaning: the closest by vectors and word by word.
const N_BY_MEANING: usize = 100;

/// Number of units that are compared word by word for that: the closest by vectors.
const N_COMPARED: usize = 2_000;

/// Weight of the cosine with the meanings of the query's words where topics are concerned: names and files have words of
/// their own.
const RULES_SHARE: f32 = 0.25;

/// Files per task: enough to outweigh the cost of distributing them.
const FILES_PER_TASK: usize = 1 << 12;

/// Minimum share of a message that a unit must print to come first for it.
const MIN_PRINTED: f32 = 0.75;

/// Minimum share of the words of a report that a unit must have to be compared with it.
const LEAST_OF_REPORT: f32 = 0.6;

/// Fraction of (1 − score) added to a unit that prints the whole query; the rest keeps the order of several.
const MOST_OF_MESSAGE: f32 = 0.99;

/// Minimum cosine at which two units with the same name are near-duplicates.
const ALIKE: f32 = 0.95;

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
    pub fn ranked_hit(&self, ranked: &RankedUnits, position: usize) -> Option<Hit> {
        ranked.candidates.get(position).map(|candidate| self.hit_of(candidate))
    }

    /// Ranks units as [`search`](Self::search) does, for showing more of them later or explaining them
    /// ([`explain`](Self::explain)).
    ///
    /// # Errors
    /// Like [`search`](Self::search).
    pub fn rank(&self, request: &SearchRequest) -> Result<RankedUnits, Error> {
        self.read(|| self.rank_by(request))
    }

    fn rank_by(&self, request: &SearchRequest) -> Result<RankedUnits, Error> {
        // The time, the process and the level of a line of a log are words of no unit.
        match logged(request.query).filter(|_| request.query.trim().lines().count() == 1) {
            Some(message) => {
                let ranked = self.rank_text(&SearchRequest { query: message, ..request.clone() })?;
                Ok(RankedUnits { asked: ranked.asked.or_else(|| Some(message.to_owned())), ..ranked })
            }
            None => self.rank_text(request),
        }
    }

    fn rank_text(&self, request: &SearchRequest) -> Result<RankedUnits, Error> {
        if request.ranking.issues
            && let Some(issue) = Issue::parse(request.query)
        {
            return self.rank_issue(request, &issue, None);
        }
        let Some(english) = self.in_english(request.query)? else {
            let share = if request.ranking.issues { Issue::share_of_long(request.query) } else { 0.0 };
            if share > 0.0 {
                return self.rank_issue(request, &Issue::split(request.query), Some(1.0 - share));
            }
            return self.rank_query(request);
        };
        let ranked = self.rank_query(&SearchRequest { query: &english, ..request.clone() })?;
        Ok(RankedUnits { read_as: Some(ranked.signals.reading.text.clone()), asked: Some(english), ..ranked })
    }

    /// The candidates of an ordinary query with their scores by the rules, best first.
    pub(crate) fn rank_by_rules(
        &self,
        signals: &Signals,
        ranking: &RankingWeights,
        path_matches: &HashMap<u32, PathMatch>,
    ) -> Result<Vec<Candidate>, Error> {
        let query = signals.query();
        let parts = self.parts_by_rules(signals, &query, ranking, path_matches);
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
        let own_name = |unit: usize| parts[&unit].name / rules::name_factor(self.table.units[unit].kind());
        let candidates = rules::diversify(scored, ranking.repetition, own_name)
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
        Ok(candidates)
    }

    /// The candidates of an ordinary query with their scores, best first, before anything reads them.
    pub(crate) fn query_candidates(
        &self,
        request: &SearchRequest,
    ) -> Result<(Vec<Candidate>, Signals), Error> {
        let signals = self.signals(request)?;
        let ranking = &request.ranking;
        let query = signals.query();
        let path_matches = self.path_matches(&query, &signals.candidates);
        let mut candidates = self.rank_by_rules(&signals, ranking, &path_matches)?;
        if ranking.function_share > 0.0 && query.symbol().is_none() {
            self.mix(&mut candidates, &signals, &query, ranking, &path_matches);
        }
        self.keep_best_parts(&mut candidates);
        Ok((candidates, signals))
    }

    fn rank_query(&self, request: &SearchRequest) -> Result<RankedUnits, Error> {
        let (mut candidates, signals) = self.query_candidates(request)?;
        let ranking = &request.ranking;
        let is_symbol = signals.query().symbol().is_some();
        let evidence = self.evidence(&candidates, &signals, request.query);
        let embedder = self.dense.as_ref().map(|dense| &dense.embedder).filter(|_| !is_symbol);
        let is_reranked = !is_symbol && self.rerank(&mut candidates, request.query, ranking)?;
        if let Some(cross_encoder) = embedder.and_then(|embedder| embedder.cross_encoder()) {
            self.read_with_query(&mut candidates, request.query, cross_encoder, ranking)?;
        }
        if !is_symbol {
            self.put_printing_first(&mut candidates, &signals, request)?;
            self.keep_best_parts(&mut candidates);
        }
        let text = &signals.reading.text;
        let read_as = (text != request.query).then(|| text.clone());
        let ranking = ranking.clone();
        let of_issue = None;
        Ok(RankedUnits {
            candidates,
            signals,
            ranking,
            read_as,
            asked: None,
            evidence,
            is_reranked,
            of_issue,
        })
    }

    /// Of the parts of a long definition, keeps the best one.
    pub(crate) fn keep_best_parts(&self, candidates: &mut Vec<Candidate>) {
        let mut seen = HashSet::new();
        candidates.retain(|candidate| seen.insert(self.first_part(candidate.unit)));
    }

    /// The first part of the definition that a unit (by its number) is a later part of; the unit itself if it is not one.
    pub fn first_part(&self, unit: usize) -> usize {
        let record = &self.table.units[unit];
        let name = self.table.text(record.name);
        if !rules::is_definition(record.kind()) || !self.table.text(record.signature).is_empty() {
            return unit;
        }
        let is_first = |other: &usize| {
            let other = &self.table.units[*other];
            other.kind() == record.kind()
                && !self.table.text(other.signature).is_empty()
                && self.table.text(other.name) == name
        };
        (self.units_of_files[record.file as usize].start..unit).rev().find(is_first).unwrap_or(unit)
    }

    /// Puts first the units that print the query, if it is the text of a message: these get a share of what their scores lack to 1.
    pub(crate) fn put_printing_first(
        &self,
        candidates: &mut Vec<Candidate>,
        signals: &Signals,
        request: &SearchRequest,
    ) -> Result<(), Error> {
        let Some(message) = Message::parse(request.query).filter(Message::is_phrase) else { return Ok(()) };
        let is_report = QuestionKind::classify(request.query) == QuestionKind::Error;
        let fixed = if message.has_values() {
            // The words of values are in other units.
            let groups = Groups { of_text: &self.file_of_unit, lengths: &self.file_lengths };
            let terms = query_terms(&message.fixed());
            let mut scores = self.lexical.scores(&terms, &request.ranking.bm25f, groups)?;
            hide(&mut scores.texts, self.allowed(request.filter).as_deref());
            Some(scores)
        } else {
            None
        };
        let lexical = fixed.as_ref().unwrap_or(&signals.lexical);
        // A report may be filled with words that look like others; any other text has to be in the unit.
        let least = if is_report || message.has_values() { LEAST_OF_REPORT } else { 0.99 };
        let most = max_or_one(&lexical.texts);
        // Of those with equal parts of it, the best by their words.
        let matched = lexical.matched.iter().zip(&lexical.texts).map(|(&matched, score)| {
            if *score > 0.0 && matched >= least { matched + 0.01 * score / most } else { 0.0 }
        });
        let matched: Vec<f32> = matched.collect();
        let mut printing = self.printing(&message, &matched, 8 * N_PRINTING);
        printing.retain(|(_, printed)| *printed >= MIN_PRINTED);
        let demotion =
            |unit: usize| rules::demotion(self.flags(&self.table.units[unit]), false, &request.ranking);
        // A report that only tests or generated files print is found there.
        let mildest = if is_report {
            printing.iter().map(|(unit, _)| demotion(*unit)).fold(f32::MIN_POSITIVE, f32::max)
        } else {
            1.0
        };
        for (unit, printed) in printing {
            if !candidates.iter().any(|candidate| candidate.unit == unit) {
                let parts = ScoreParts {
                    lexical: signals.lexical.texts[unit],
                    dense: signals.dense[unit],
                    ..ScoreParts::default()
                };
                candidates.push(Candidate { unit, score: 0.0, parts, features: UnitFeatures::default() });
            }
            if let Some(candidate) = candidates.iter_mut().find(|candidate| candidate.unit == unit) {
                let share = MOST_OF_MESSAGE * printed * demotion(unit) / mildest;
                candidate.parts.message = share * (1.0 - candidate.score).max(0.0);
                candidate.score += candidate.parts.message;
            }
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)));
        Ok(())
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
                path: path_matches[&record.file].combined(),
                name: rules::unit_match(query, record.kind(), name),
                defines: exactness.is_some(),
                exactness: exactness.unwrap_or_default(),
                demotion: rules::demotion(
                    self.flags_for(record, signals),
                    with_public.contains(&record.file) && is_private(record),
                    ranking,
                ),
                repetition: 1.0,
                reranker_factor: 1.0,
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

    /// The flags of a unit for a query; if this asks for tests, units that are not tests have their flag instead.
    pub(crate) fn flags_for(&self, record: &UnitRecord, signals: &Signals) -> FileFlags {
        let mut flags = self.flags(record);
        if signals.asks_for_tests {
            flags.toggle(FileFlags::TEST);
        }
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
        let meanings = if rules::is_symbol(&reading.text) { Vec::new() } else { meanings(&reading.text) };
        let ranking = &request.ranking;
        let groups = Groups { of_text: &self.file_of_unit, lengths: &self.file_lengths };
        let score_dense = || match &self.dense {
            Some(dense) => {
                let vectors = dense.embedder.embed_queries(&[reading.text.as_str()])?;
                let by_meaning = if meanings.is_empty() || !dense.embedder.adds_words() {
                    None
                } else {
                    let vector = with_meanings(&vectors.values, &reading.text, &meanings, dense)?;
                    Some(dense.matrix.similarities(&vector)?)
                };
                let found = dense.matrix.similarities(&vectors.values)?;
                Ok::<_, Error>((found, by_meaning, ranking.dense_weight))
            }
            None => Ok((vec![0.0; self.n_units()], None, 0.0)),
        };
        let (lexical, dense) =
            rayon::join(|| self.lexical.scores(&terms, &ranking.bm25f, groups), score_dense);
        let (mut lexical, (mut dense, mut by_meaning, dense_weight)) = (lexical?, dense?);
        hide(&mut lexical.texts, allowed.as_deref());
        hide(&mut dense, allowed.as_deref());
        if let Some(cosines) = &mut by_meaning {
            hide(cosines, allowed.as_deref());
            dense
                .iter_mut()
                .zip(&*cosines)
                .for_each(|(cosine, other)| *cosine += RULES_SHARE * (other - *cosine));
        }
        let dense_of_files = self.best_of_files(&dense);
        let fusion = Fusion::new(&lexical.texts, &dense, dense_weight);
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
        let known: HashSet<usize> = found.iter().map(|(unit, _)| *unit).collect();
        let (closest, word_similarities) =
            self.closest(&reading.text, &meanings, by_meaning.as_ref().unwrap_or(&dense));
        found
            .extend(closest.into_iter().filter(|unit| !known.contains(unit)).map(|unit| (unit, words(unit))));
        let (candidates, words): (Vec<usize>, Vec<f32>) = found.into_iter().unzip();
        let best = max_or_one(&words);
        let asks_for_tests = asks_for_tests(request.query);
        Ok(Signals {
            reading,
            terms,
            lexical,
            dense,
            dense_of_files,
            by_meaning,
            meanings,
            word_similarities,
            dense_weight,
            candidates,
            words,
            best,
            asks_for_tests,
        })
    }

    /// The units closest in meaning to a query, best first, and the word similarities of those that were compared: none
    /// without vectors, or for a symbol.
    fn closest(
        &self,
        query: &str,
        meanings: &[Meaning],
        dense: &[f32],
    ) -> (Vec<usize>, HashMap<usize, [f32; 2]>) {
        if self.dense.is_none() || rules::is_symbol(query) {
            return Default::default();
        }
        let near = best(self.n_units(), N_COMPARED, |unit| dense[unit]);
        let word_similarities = self.word_similarities(query, meanings, near.iter().map(|(unit, _)| *unit));
        let mut near: Vec<(usize, f32)> =
            near.into_iter().map(|(unit, cosine)| (unit, cosine + word_similarities[&unit][1])).collect();
        near.sort_unstable_by(better_first);
        (near.into_iter().take(N_BY_MEANING).map(|(unit, _)| unit).collect(), word_similarities)
    }

    /// Computes [`Signals::word_similarities`] of some units.
    pub(crate) fn word_similarities(
        &self,
        query: &str,
        meanings: &[Meaning],
        units: impl Iterator<Item = usize> + Clone,
    ) -> HashMap<usize, [f32; 2]> {
        let texts: Vec<&[u16]> =
            units.clone().map(|unit| self.table.tokens(&self.table.units[unit])).collect();
        let vocabulary = StaticModel::builtin();
        let query = vocabulary.query_words(query).with_meanings(meanings);
        units.zip(query.similarities_by_meaning(&texts)).collect()
    }

    /// Returns whether two units are near-duplicates: of the same kind and name, with nearly equal vectors or, without
    /// a model, embedding texts.
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
    pub(crate) fn best_of_files(&self, scores: &[f32]) -> Vec<f32> {
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
}

/// The vector of a query moved towards the words that programmers write for its own, the more of them the farther.
fn with_meanings(query: &[f32], text: &str, meanings: &[Meaning], dense: &Dense) -> Result<Vec<f32>, Error> {
    let words: Vec<&str> = meanings.iter().map(|meaning| meaning.code_words).collect();
    let words = dense.embedder.embed_queries(&[words.join(" ").as_str()])?;
    let share = meanings_per_word(meanings, text).sqrt();
    let mut sum: Vec<f32> =
        query.iter().zip(&words.values).map(|(query, meaning)| query + share * meaning).collect();
    normalize(&mut sum);
    Ok(sum)
}
