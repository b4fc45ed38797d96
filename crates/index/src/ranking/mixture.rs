//! The mixture of [`crate::intent`], for the candidates of a search.

use std::collections::HashMap;

use quarry_embed::{StaticModel, meanings_per_word};
use quarry_source::UnitKind;
use quarry_walk::FileFlags;

use crate::ranking::confidence;
use crate::ranking::fusion::max_or_one;
use crate::ranking::intent::{
    self, Model, NameMatches, QueryFeatures, QueryMatches, RuleScore, Shares, UnitFeatures, UnitMatches,
};
use crate::ranking::question::QuestionKind;
use crate::ranking::ranked_units::{Candidate, Signals};
use crate::ranking::rules::{self, PathMatch, Query};
use crate::ranking::selection::best;
use crate::{Error, Evidence, Hit, Index, RankingWeights, SearchRequest};

impl Index {
    /// Mixes the scores of the rules with those for questions about behavior, and sorts by the mixture.
    pub(crate) fn mix(
        &self,
        candidates: &mut [Candidate],
        signals: &Signals,
        query: &Query,
        ranking: &RankingWeights,
        path_matches: &HashMap<u32, PathMatch>,
    ) {
        let model = Model::builtin();
        let file_probability =
            model.file_probability(&self.query_features(candidates, signals, query, path_matches));
        let file_probability = 1.0 - ranking.function_share * (1.0 - file_probability);
        self.set_features(candidates, signals);
        let rules: Vec<RuleScore> = candidates
            .iter()
            .map(|candidate| RuleScore::new(self.file_of_unit[candidate.unit], &candidate.parts))
            .collect();
        let features: Vec<UnitFeatures> = candidates.iter().map(|candidate| candidate.features).collect();
        let Shares { file, function } = model.shares(&rules, &features);
        for ((candidate, file_share), function_share) in candidates.iter_mut().zip(file).zip(function) {
            let parts = &mut candidate.parts;
            parts.file_probability = file_probability;
            parts.file_share = file_share;
            parts.function = model.function_score(&candidate.features);
            parts.function_share = function_share;
            candidate.score =
                intent::mixture(file_probability, file_share, function_share * parts.function_factor);
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)));
    }

    /// The share of the first candidate: in the mixture, or in the softmax of the rules if only they are used; 0
    /// without candidates.
    pub(crate) fn share_of_first(candidates: &[Candidate]) -> f32 {
        let Some(first) = candidates.first() else { return 0.0 };
        let is_mixed = first.parts.file_share > 0.0 || first.parts.issue_share > 0.0;
        if is_mixed {
            first.score
        } else {
            Model::builtin().file_shares(candidates.iter().map(|candidate| candidate.parts.rules))[0]
        }
    }

    /// The evidence of candidates, best first, that no re-ranker has read.
    pub(crate) fn evidence(&self, candidates: &[Candidate], signals: &Signals, query: &str) -> Evidence {
        let Signals { reading, lexical, dense, .. } = signals;
        let first = &candidates[..confidence::N_RESULTS.min(candidates.len())];
        let texts: Vec<&[u16]> =
            first.iter().map(|candidate| self.table.tokens(&self.table.units[candidate.unit])).collect();
        let gaps = StaticModel::builtin().query_words(&reading.text).largest_gaps(&texts);
        // The best score and the n-th best; in a tree with fewer units, the least of all.
        let best_and_nth = |scores: &[f32], n: usize| {
            let n = n.min(scores.len()).max(1);
            let best = best(scores.len(), n, |unit| scores[unit]);
            let score = best.iter().map(|(_, score)| *score);
            let nth = if best.len() < n { 0.0 } else { score.clone().fold(f32::INFINITY, f32::min) };
            (score.fold(0.0, f32::max), nth)
        };
        let score = |position: usize| candidates.get(position).map_or(0.0, |candidate| candidate.score);
        Evidence {
            kind: QuestionKind::classify(query),
            matched: first.iter().map(|candidate| lexical.matched[candidate.unit]).fold(0.0, f32::max),
            known: lexical.known,
            gap: gaps.into_iter().reduce(f32::min).unwrap_or(1.0),
            words: best_and_nth(&lexical.texts, confidence::N_RESULTS).1
                / self.lexical.n_among().max(2.0).ln(),
            cosine: self.dense.as_ref().map(|_| {
                let (best, nth) = best_and_nth(dense, confidence::COSINE_RANK);
                best - nth
            }),
            share: Self::share_of_first(candidates),
            lead: score(0) / score(1).max(f32::MIN_POSITIVE),
        }
    }

    /// Computes the features of the query, including how well names among the candidates match it.
    pub(crate) fn query_features(
        &self,
        candidates: &[Candidate],
        signals: &Signals,
        query: &Query,
        path_matches: &HashMap<u32, PathMatch>,
    ) -> QueryFeatures {
        let maximum = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
        let own_name = |candidate: &Candidate| {
            let kind = self.table.units[candidate.unit].kind();
            // Splitting names into terms takes most of the time of the rules, so it is done once.
            (kind, candidate.parts.name / rules::name_factor(kind))
        };
        let names: Vec<(UnitKind, f32)> = candidates.iter().map(own_name).collect();
        let of_types = names.iter().filter(|(kind, _)| *kind == UnitKind::Type);
        let matches = QueryMatches {
            known: signals.lexical.known,
            coverage: maximum(&mut candidates.iter().map(|candidate| candidate.parts.coverage)),
            with_meaning: meanings_per_word(&signals.meanings, query.text),
            cosine: maximum(&mut candidates.iter().map(|candidate| candidate.parts.dense)),
            names: NameMatches {
                stem: maximum(&mut path_matches.values().map(|matched| matched.stem)),
                directory: maximum(&mut path_matches.values().map(|matched| matched.directory)),
                type_name: maximum(&mut of_types.map(|(_, found)| *found)),
                name: maximum(&mut names.iter().map(|(_, found)| *found)),
            },
        };
        intent::query_features(query.text, &matches)
    }

    /// Computes the features of candidates.
    fn set_features(&self, candidates: &mut [Candidate], signals: &Signals) {
        let Signals { reading, lexical, dense, dense_of_files, word_similarities, meanings, .. } = signals;
        let units = candidates.iter().map(|candidate| candidate.unit);
        let others = self.word_similarities(
            &reading.text,
            meanings,
            units.filter(|unit| !word_similarities.contains_key(unit)),
        );
        let by_meaning = signals.by_meaning.as_ref().unwrap_or(dense);
        let best =
            [&lexical.texts, by_meaning, &lexical.groups, dense_of_files].map(|scores| max_or_one(scores));
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&candidates[a], &candidates[b]);
            b.parts.words.total_cmp(&a.parts.words).then(a.unit.cmp(&b.unit))
        });
        let mut in_file: HashMap<u32, usize> = HashMap::new();
        let mut ranks = vec![0; candidates.len()];
        for number in order {
            let seen = in_file.entry(self.file_of_unit[candidates[number].unit]).or_default();
            ranks[number] = *seen;
            *seen += 1;
        }
        for (candidate, rank_in_file) in candidates.iter_mut().zip(ranks) {
            let found = word_similarities.get(&candidate.unit).or_else(|| others.get(&candidate.unit));
            let [token_similarity, meaning_similarity] = found.copied().unwrap_or_default();
            let record = &self.table.units[candidate.unit];
            let file = self.file_of_unit[candidate.unit];
            candidate.features = UnitMatches {
                lexical_share: lexical.texts[candidate.unit] / best[0],
                token_similarity,
                meaning_similarity,
                meaning_share: by_meaning[candidate.unit].max(0.0) / best[1],
                file_lexical_share: lexical.groups[file as usize] / best[2],
                file_dense_share: dense_of_files[file as usize].max(0.0) / best[3],
                coverage: candidate.parts.coverage,
                matched: lexical.matched[candidate.unit],
                kind: record.kind(),
                is_test: self.flags_for(record, signals).contains(FileFlags::TEST),
                defines: candidate.parts.defines,
                lines: record.end_line.saturating_sub(record.start_line) + 1,
                rank_in_file,
                in_file: in_file[&file],
            }
            .features();
        }
    }

    /// The features of a query, and its candidates with their features, in the order of the scores of the rules, for
    /// fitting a [`Model`].
    ///
    /// # Errors
    /// The same as for a search.
    pub fn features(
        &self,
        request: &SearchRequest,
    ) -> Result<(QueryFeatures, Vec<(Hit, UnitFeatures)>), Error> {
        self.read(|| self.features_of_query(request))
    }

    fn features_of_query(
        &self,
        request: &SearchRequest,
    ) -> Result<(QueryFeatures, Vec<(Hit, UnitFeatures)>), Error> {
        let signals = self.signals(request)?;
        let query = signals.query();
        let path_matches = self.path_matches(&query, &signals.candidates);
        let mut candidates = self.rank_by_rules(&signals, &request.ranking, &path_matches)?;
        let features = self.query_features(&candidates, &signals, &query, &path_matches);
        self.set_features(&mut candidates, &signals);
        let hit = |candidate: Candidate| {
            (self.hit(candidate.unit, candidate.score, candidate.parts), candidate.features)
        };
        Ok((features, candidates.into_iter().map(hit).collect()))
    }
}
