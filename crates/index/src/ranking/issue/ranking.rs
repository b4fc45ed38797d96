//! Ranks the units of an index as the function that an issue is about.

use std::collections::HashMap;

use quarry_embed::StaticModel;
use quarry_source::UnitKind;
use quarry_text::{lexical_terms, query_terms};
use quarry_walk::FileFlags;
use rayon::prelude::*;

use super::Issue;
use super::evidence::{Evidence, FoundFile, N_PRINTING, UnitEvidence};
use super::kind::{KindModel, TextFeatures};
use super::literal::Message;
use super::model::{IssueFeatures, IssueModel};
use super::name::Origin;
use crate::lexical::{Groups, Scores};
use crate::ranking::fusion::{Fusion, max_or_one};
use crate::ranking::intent::{UnitFeatures, softmax};
use crate::ranking::ranked_units::{Candidate, RankedIssue, RankedUnits, Signals};
use crate::ranking::respelling::QueryReading;
use crate::ranking::rules;
use crate::ranking::selection::{best, better_first, hide};
use crate::{Error, Hit, Index, RankingWeights, ScoreParts, SearchRequest};

/// Number of units whose features are computed.
const N_CANDIDATES: usize = 400;

/// Maximum number of terms of a set, the rarest of the known ones.
const MAX_TERMS: usize = 60;

/// Maximum number of terms of an issue that are looked up at all, in the order of its parts.
const MAX_LOOKUPS: usize = 300;

/// Maximum number of messages that are compared with sources, the last ones.
const MAX_MESSAGES: usize = 4;

/// Words of a piece of prose that is embedded on its own, and maximum number of such pieces.
const PIECE_WORDS: usize = 80;
const MAX_PIECES: usize = 4;

/// Number of words whose tokens are compared with those of units.
const TOKEN_WORDS: usize = 40;

/// Weight of the cosines of a re-ranker for an issue: less than for a short query, since the trees are better
/// evidence. Those of a second re-ranker do not improve the ranking, and take most of a second.
const RERANK: f32 = 6.0;

/// The sets of terms that are scored separately, in this order; sets for messages follow.
#[derive(Debug, Clone, Copy)]
enum Set {
    Title,
    Prose,
    Code,
    All,
    Symbols,
}
const N_SETS: usize = 5;

/// The terms of an issue and the sets that they are in.
struct Terms {
    terms: Vec<String>,
    sets: Vec<Vec<usize>>,
}

/// The features of a long text, and its candidates with theirs.
pub type LongTextFeatures = (TextFeatures, Vec<(Hit, IssueFeatures)>);

/// The scores that features are made of.
struct IssueScores {
    sets: Vec<Scores>,
    /// Cosines: of the title, of the prose (the best piece) and of everything.
    dense: [Vec<f32>; 3],
    dense_of_files: [Vec<f32>; 3],
    evidence: Evidence,
}

impl Index {
    /// Ranks units for an issue; if it may also be an ordinary query, mixes in their shares for one.
    ///
    /// # Errors
    /// Like [`rank`](Index::rank).
    pub(crate) fn rank_issue(
        &self,
        request: &SearchRequest,
        issue: &Issue,
        query_share: Option<f32>,
    ) -> Result<RankedUnits, Error> {
        let (mut candidates, mut signals, features) = self.issue_candidates(request, issue)?;
        let report_probability = KindModel::reports().probability(&issue.text_features(request.query));
        let models = [IssueModel::reports(), IssueModel::descriptions()];
        let [reports, descriptions] = models.map(|model| {
            softmax(&features.par_iter().map(|features| model.score(features)).collect::<Vec<f32>>())
        });
        for ((candidate, report), description) in candidates.iter_mut().zip(reports).zip(descriptions) {
            candidate.parts.issue_shares = [report, description];
            candidate.score = report_probability * report + (1.0 - report_probability) * description;
            candidate.parts.issue_share = candidate.score;
            candidate.parts.issue = candidate.score.max(f32::MIN_POSITIVE).ln();
        }
        let features = candidates.iter().map(|candidate| candidate.unit).zip(features).collect();
        let mut ranking = RankingWeights { rerank_function: RERANK, ..request.ranking.clone() };
        let mut read_as = None;
        if let Some(share) = query_share {
            let (of_query, of_text) = self.query_candidates(request)?;
            add_query(&mut candidates, of_query, share);
            ranking.rerank_function += share * (request.ranking.rerank_function - RERANK);
            read_as = (of_text.reading.text != request.query).then(|| of_text.reading.text.clone());
            signals = of_text;
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)));
        self.keep_best_parts(&mut candidates);
        let of_issue = RankedIssue {
            features,
            parts: issue.parts(),
            report_probability,
            query_share: query_share.unwrap_or_default(),
        };
        let evidence = self.evidence(&candidates, &signals, request.query);
        // For reports, reading does not improve the ranking (`docs/reports/ranking.md`), and takes long.
        let is_asked = !self.reranks_stored_only() || report_probability < 0.5;
        let is_reranked = is_asked && self.rerank(&mut candidates, &issue.sentences(), &ranking)?;
        if let Some(cross_encoder) = self.dense.as_ref().and_then(|dense| dense.embedder.cross_encoder()) {
            self.read_with_query(&mut candidates, &issue.sentences(), cross_encoder, &ranking)?;
        }
        if query_share.is_some() {
            self.put_printing_first(&mut candidates, &signals, request)?;
            self.keep_best_parts(&mut candidates);
        }
        let of_issue = Some(of_issue);
        let asked = None;
        Ok(RankedUnits { candidates, signals, ranking, read_as, asked, evidence, is_reranked, of_issue })
    }

    /// The features of a long text, and its candidates with theirs, for fitting a [`KindModel`] and an [`IssueModel`]; the
    /// cosines of re-rankers are in the parts of the candidates. An ordinary query is split like a long text.
    ///
    /// # Errors
    /// The same as for a search.
    pub fn issue_features(&self, request: &SearchRequest) -> Result<LongTextFeatures, Error> {
        let issue = Issue::split(request.query);
        let (candidates, _, features) = self.issue_candidates(request, &issue)?;
        let ranked = self.rank_issue(request, &issue, None)?.candidates;
        let parts: HashMap<usize, ScoreParts> = ranked.into_iter().map(|of| (of.unit, of.parts)).collect();
        let parts_of = |of: &Candidate| parts.get(&of.unit).copied().unwrap_or(of.parts);
        let hits = candidates.iter().map(|of| self.hit(of.unit, of.score, parts_of(of)));
        Ok((issue.text_features(request.query), hits.zip(features).collect()))
    }

    fn issue_candidates(
        &self,
        request: &SearchRequest,
        issue: &Issue,
    ) -> Result<(Vec<Candidate>, Signals, Vec<IssueFeatures>), Error> {
        let allowed = self.allowed(request.filter);
        let allowed = allowed.as_deref();
        let messages: Vec<Message> =
            issue.messages.iter().rev().filter_map(|text| Message::parse(text)).take(MAX_MESSAGES).collect();
        let terms = Terms::collect(issue, &messages);
        // A long text is read as a whole only if none of its parts has a term.
        if terms.terms.is_empty() && query_terms(request.query).is_empty() {
            return Err(Error::EmptyQuery);
        }
        let ranking = &request.ranking;
        let groups = Groups { of_text: &self.file_of_unit, lengths: &self.file_lengths };
        let (matches, dense) = rayon::join(
            || self.lexical.term_matches(&terms.terms, &ranking.bm25f, groups),
            || self.issue_cosines(issue, request.query),
        );
        let (matches, mut dense) = (matches?, dense?);
        let sets = terms.sets.par_iter().map(|set| {
            let mut known: Vec<usize> =
                set.iter().copied().filter(|&term| matches.weights[term].is_known).collect();
            known.sort_by(|&a, &b| matches.weights[b].of_text.total_cmp(&matches.weights[a].of_text));
            known.truncate(MAX_TERMS);
            let mut scores = matches.scores(known, self.n_units(), self.n_files(), ranking.bm25f.k1);
            hide(&mut scores.texts, allowed);
            hide(&mut scores.matched, allowed);
            scores
        });
        let sets: Vec<Scores> = sets.collect();
        dense.iter_mut().for_each(|cosines| hide(cosines, allowed));
        let mut evidence = self.issue_evidence(issue, allowed)?;
        for (message, scores) in messages.iter().zip(&sets[N_SETS..]) {
            for (unit, share) in self.printing(message, &scores.matched, N_PRINTING) {
                let found = evidence.units.entry(unit).or_default();
                found.message = found.message.max(share);
            }
        }
        let dense_of_files = [0, 1, 2].map(|number| self.best_of_files(&dense[number]));
        let scores = IssueScores { sets, dense, dense_of_files, evidence };
        let units = self.preselected(&scores, allowed, request.limit);
        let weighted: Vec<Vec<(&str, f32)>> = terms.sets[..N_SETS]
            .iter()
            .map(|set| {
                set.iter().map(|&term| (terms.terms[term].as_str(), matches.weights[term].of_text)).collect()
            })
            .collect();
        let features = self.features_of_issue(issue, &scores, &weighted, &units, ranking);
        let IssueScores { mut sets, dense: [_, _, dense], dense_of_files: [_, _, dense_of_files], .. } =
            scores;
        let lexical = sets.swap_remove(Set::All as usize);
        let all: Vec<String> =
            terms.sets[Set::All as usize].iter().map(|&term| terms.terms[term].clone()).collect();
        let most: f32 = lexical.idf.iter().sum::<f32>() * (ranking.bm25f.k1 + 1.0);
        let candidates = units.iter().map(|&unit| {
            let parts = ScoreParts {
                lexical: lexical.texts[unit],
                dense: dense[unit],
                coverage: (lexical.texts[unit] / most.max(f32::MIN_POSITIVE)).min(1.0),
                demotion: 1.0,
                repetition: 1.0,
                reranker_factor: 1.0,
                cross_encoder_factor: 1.0,
                ..ScoreParts::default()
            };
            Candidate { unit, score: 0.0, parts, features: UnitFeatures::default() }
        });
        let candidates: Vec<Candidate> = candidates.collect();
        let signals = Signals {
            reading: QueryReading { text: issue.title.to_owned(), definitions: HashMap::new() },
            terms: all,
            lexical,
            dense,
            dense_of_files,
            by_meaning: None,
            meanings: Vec::new(),
            word_similarities: HashMap::new(),
            dense_weight: if self.dense.is_some() { ranking.dense_weight } else { 0.0 },
            words: vec![0.0; units.len()],
            candidates: units,
            best: 1.0,
            asks_for_tests: false,
        };
        Ok((candidates, signals, features))
    }

    fn issue_cosines(&self, issue: &Issue, text: &str) -> Result<[Vec<f32>; 3], Error> {
        let Some(dense) = &self.dense else { return Ok([0, 1, 2].map(|_| vec![0.0; self.n_units()])) };
        let pieces = pieces(&issue.prose);
        let mut texts: Vec<&str> = vec![issue.title, text];
        texts.extend(pieces.iter().map(String::as_str));
        let vectors = dense.embedder.embed_queries(&texts)?;
        let mut cosines = vectors.rows().map(|vector| dense.matrix.similarities(vector));
        let (Some(title), Some(all)) = (cosines.next(), cosines.next()) else {
            return Ok([0, 1, 2].map(|_| vec![0.0; self.n_units()]));
        };
        let mut prose = vec![0.0; self.n_units()];
        for piece in cosines {
            prose.iter_mut().zip(piece?).for_each(|(best, cosine): (&mut f32, f32)| *best = best.max(cosine));
        }
        Ok([title?, prose, all?])
    }

    /// The units that may be meant: the best by words, meaning and evidence together.
    fn preselected(&self, scores: &IssueScores, allowed: Option<&[bool]>, limit: usize) -> Vec<usize> {
        fn weighted(values: &[f32], weight: f32) -> (f32, &[f32]) {
            (weight / max_or_one(values), values)
        }
        let of_units = [
            weighted(&scores.sets[Set::Title as usize].texts, 0.6),
            weighted(&scores.sets[Set::All as usize].texts, 1.0),
            weighted(&scores.sets[Set::Symbols as usize].texts, 0.5),
            weighted(&scores.dense[0], 0.5),
            weighted(&scores.dense[1], 0.4),
        ];
        let of_files = [
            weighted(&scores.sets[Set::All as usize].groups, 0.6),
            weighted(&scores.sets[Set::Title as usize].groups, 0.3),
            weighted(&scores.dense_of_files[0], 0.3),
        ];
        let score = |unit: usize| {
            if allowed.is_some_and(|allowed| !allowed[unit]) {
                return 0.0;
            }
            let file = self.file_of_unit[unit] as usize;
            let words: f32 = of_units.iter().map(|(factor, values)| factor * values[unit].max(0.0)).sum();
            let around: f32 = of_files.iter().map(|(factor, values)| factor * values[file].max(0.0)).sum();
            let found = scores.evidence.units.get(&unit).map_or(0.0, UnitEvidence::sum);
            let of_file = scores
                .evidence
                .files
                .get(&self.file_of_unit[unit])
                .map_or(0.0, |file| 0.5 * (file.path + file.module + file.frame + file.names));
            let record = &self.table.units[unit];
            let kind = if rules::is_definition(record.kind()) { 1.0 } else { 0.5 };
            let flags = self.flags(record);
            let is_other =
                flags.contains(FileFlags::TEST) || !flags.difference(FileFlags::LEFT_OUT).is_empty();
            (words + around + found + of_file) * kind * if is_other { 0.6 } else { 1.0 }
        };
        let mut found = best(self.n_units(), N_CANDIDATES.max(limit), score);
        found.sort_unstable_by(better_first);
        found.into_iter().map(|(unit, _)| unit).collect()
    }

    /// The score of words and meaning that an ordinary query has, for the whole text, relative to the best one of some units.
    fn whole_text_scores(&self, scores: &IssueScores, ranking: &RankingWeights, units: &[usize]) -> Vec<f32> {
        let (lexical, dense) = (&scores.sets[Set::All as usize], &scores.dense[2]);
        let dense_weight = if self.dense.is_some() { ranking.dense_weight } else { 0.0 };
        let of_units = Fusion::new(&lexical.texts, dense, dense_weight);
        let of_files = Fusion::new(&lexical.groups, &scores.dense_of_files[2], dense_weight);
        let score = |&unit: &usize| {
            let file = self.file_of_unit[unit] as usize;
            let around = of_files.score(lexical.groups[file], scores.dense_of_files[2][file]);
            of_units.score(lexical.texts[unit], dense[unit]) + ranking.file_weight * around
        };
        let words: Vec<f32> = units.iter().map(score).collect();
        let best = max_or_one(&words);
        words.into_iter().map(|words| words / best).collect()
    }

    fn features_of_issue(
        &self,
        issue: &Issue,
        scores: &IssueScores,
        terms: &[Vec<(&str, f32)>],
        units: &[usize],
        ranking: &RankingWeights,
    ) -> Vec<IssueFeatures> {
        let IssueScores { sets, dense, dense_of_files, evidence } = scores;
        let best_of =
            |set: Set| (max_or_one(&sets[set as usize].texts), max_or_one(&sets[set as usize].groups));
        let best = [Set::Title, Set::Prose, Set::Code, Set::All, Set::Symbols].map(best_of);
        let best_dense =
            [0, 1, 2].map(|number| (max_or_one(&dense[number]), max_or_one(&dense_of_files[number])));
        let tokens: Vec<&[u16]> =
            units.iter().map(|&unit| self.table.tokens(&self.table.units[unit])).collect();
        let words = self.whole_text_scores(scores, ranking, units);
        let vocabulary = StaticModel::builtin();
        let title_tokens = vocabulary.query_tokens(issue.title).similarities(&tokens);
        let prose: Vec<&str> =
            issue.prose.iter().flat_map(|line| line.split_whitespace()).take(TOKEN_WORDS).collect();
        let prose_tokens = vocabulary.query_tokens(&prose.join(" ")).similarities(&tokens);
        let of_title = KnownTerms::new(terms, Set::Title);
        let of_all = KnownTerms::new(terms, Set::All);
        let of_names: Vec<[(f32, f32); 4]> = units
            .par_iter()
            .map(|&unit| {
                let record = &self.table.units[unit];
                let name = self.table.text(record.name);
                let own = if rules::is_definition(record.kind()) { rules::last_part(name) } else { "" };
                let owner = name.rsplit_once('.').map_or("", |(owner, _)| owner);
                let [own_title, own_all] = matching(own, [&of_title, &of_all]);
                let [owner_title, owner_all] = matching(owner, [&of_title, &of_all]);
                [own_title, own_all, owner_title, owner_all]
            })
            .collect();
        // By file: the stem's share and strength in the title and in all, and the directory's.
        let mut stems: HashMap<u32, [f32; 5]> = HashMap::new();
        let mut in_file: HashMap<u32, usize> = HashMap::new();
        let mut best_in_file: HashMap<u32, [f32; 4]> = HashMap::new();
        let values = |number: usize, unit: usize| {
            let (title, all) = (&sets[Set::Title as usize].texts, &sets[Set::All as usize].texts);
            [all[unit], title[unit], dense[2][unit].max(0.0), title_tokens[number].max(0.0)]
        };
        for (number, &unit) in units.iter().enumerate() {
            let best = best_in_file.entry(self.file_of_unit[unit]).or_default();
            best.iter_mut().zip(values(number, unit)).for_each(|(best, value)| *best = best.max(value));
        }
        let flag = |value: bool| f32::from(u8::from(value));
        let mut all: Vec<IssueFeatures> = Vec::with_capacity(units.len());
        for (number, &unit) in units.iter().enumerate() {
            let record = &self.table.units[unit];
            let file = self.file_of_unit[unit];
            let at = file as usize;
            let found = evidence.units.get(&unit).copied().unwrap_or_default();
            let of_file: FoundFile = evidence.files.get(&file).copied().unwrap_or_default();
            let name = self.table.text(record.name);
            let path = self.table.text(self.table.files[at].path);
            let stem = *stems.entry(file).or_insert_with(|| {
                let parts = rules::path_parts(path);
                let directory = parts.directory.rsplit('/').next().unwrap_or_default();
                let [title, all] = matching(parts.stem, [&of_title, &of_all]);
                let [of_directory] = matching(directory, [&of_all]);
                [title.0, title.1, all.0, all.1, of_directory.1]
            });
            let best_of_file = best_in_file[&file];
            let shares = values(number, unit);
            let in_its_file =
                |at: usize| if best_of_file[at] > 0.0 { shares[at] / best_of_file[at] } else { 0.0 };
            let [own_title, own_all, owner_title, owner_all] = of_names[number];
            let rank_in_file = in_file.entry(file).or_default();
            let rank = *rank_in_file;
            *rank_in_file += 1;
            let lines = record.end_line.saturating_sub(record.start_line) + 1;
            let log_lines = (lines as f32).ln();
            let flags = self.flags(record);
            let lexical = |set: Set| sets[set as usize].texts[unit] / best[set as usize].0;
            let around = |set: Set| sets[set as usize].groups[at] / best[set as usize].1;
            all.push([
                lexical(Set::Title),
                around(Set::Title),
                sets[Set::Title as usize].matched[unit],
                dense[0][unit].max(0.0) / best_dense[0].0,
                dense_of_files[0][at] / best_dense[0].1,
                title_tokens[number],
                lexical(Set::Prose),
                around(Set::Prose),
                dense[1][unit].max(0.0) / best_dense[1].0,
                dense_of_files[1][at] / best_dense[1].1,
                prose_tokens[number],
                lexical(Set::Code),
                around(Set::Code),
                lexical(Set::All),
                around(Set::All),
                sets[Set::All as usize].matched[unit],
                dense[2][unit].max(0.0) / best_dense[2].0,
                dense_of_files[2][at] / best_dense[2].1,
                words[number],
                lexical(Set::Symbols),
                around(Set::Symbols),
                found.title_name,
                found.title_word,
                found.marked_name,
                found.prose_name,
                found.code_called,
                found.code_name,
                found.trace_name,
                found.message_name,
                found.scope,
                found.title_owner,
                found.prose_owner,
                found.code_owner,
                own_title.0,
                own_title.1,
                own_all.0,
                own_all.1,
                owner_title.0,
                owner_all.0,
                owner_all.1,
                stem[0],
                stem[1],
                stem[2],
                stem[3],
                stem[4],
                found.origins(),
                in_its_file(0),
                in_its_file(1),
                in_its_file(2),
                in_its_file(3),
                of_file.path,
                of_file.module,
                found.position,
                found.frame,
                found.innermost_frame,
                of_file.frame,
                found.message,
                found.neighbor,
                found.second_neighbor,
                of_file.names,
                flag(record.kind() == UnitKind::Function),
                flag(record.kind() == UnitKind::Method),
                flag(record.kind() == UnitKind::Type),
                flag(flags.contains(FileFlags::TEST)),
                flag(!flags.difference(FileFlags::TEST | FileFlags::LEFT_OUT).is_empty()),
                flag(rules::is_private(name, self.table.text(record.signature))),
                log_lines,
                log_lines * log_lines,
                (rank as f32).min(20.0),
                flag(rank == 0),
            ]);
        }
        all
    }
}

/// Mixes the shares of units for an issue with those for an ordinary query, which count as much as `share`.
fn add_query(candidates: &mut Vec<Candidate>, of_query: Vec<Candidate>, share: f32) {
    let file_probability = share * of_query.first().map_or(0.0, |first| first.parts.file_probability);
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for (number, candidate) in candidates.iter_mut().enumerate() {
        candidate.score *= 1.0 - share;
        candidate.parts.file_probability = file_probability;
        numbers.insert(candidate.unit, number);
    }
    for mut candidate in of_query {
        let query_share = candidate.score;
        match numbers.get(&candidate.unit) {
            Some(&number) => {
                candidates[number].score += share * query_share;
                candidates[number].parts.query_share = query_share;
            }
            None => {
                candidate.score = share * query_share;
                candidate.parts.query_share = query_share;
                candidate.parts.file_probability = file_probability;
                candidates.push(candidate);
            }
        }
    }
}

/// Terms of an issue with their inverse document frequencies.
struct KnownTerms<'a> {
    weights: HashMap<&'a str, f32>,
    /// The maximum of these.
    most: f32,
}

impl<'a> KnownTerms<'a> {
    fn new(terms: &[Vec<(&'a str, f32)>], set: Set) -> Self {
        let of_set = &terms[set as usize];
        let most = of_set.iter().map(|(_, weight)| *weight).fold(f32::MIN_POSITIVE, f32::max);
        Self { weights: of_set.iter().copied().collect(), most }
    }
}

/// The share of the words of a name that are among each of some terms, by weight, and how rare these are together,
/// both 0 to 1.
fn matching<const K: usize>(name: &str, known: [&KnownTerms; K]) -> [(f32, f32); K] {
    let mut sums = [(0.0, 0.0); K];
    lexical_terms(last_words(name), |term, _| {
        for ((found, all), known) in sums.iter_mut().zip(known) {
            match known.weights.get(term) {
                Some(weight) => {
                    *found += weight;
                    *all += weight;
                }
                // Its rarity is unknown.
                None => *all += 0.7 * known.most,
            }
        }
    });
    let mut shares = [(0.0, 0.0); K];
    for ((share, (found, all)), known) in shares.iter_mut().zip(sums).zip(known) {
        if found > 0.0 {
            *share = (found / all, found / (found + known.most));
        }
    }
    shares
}

/// The last part of a name, whose words count.
fn last_words(name: &str) -> &str {
    &name[name.ceil_char_boundary(name.len().saturating_sub(80))..]
}

impl Terms {
    /// The terms of an issue, by [`Set`], and of each message.
    fn collect(issue: &Issue, messages: &[Message]) -> Self {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut all = Self { terms: Vec::new(), sets: vec![Vec::new(); N_SETS + messages.len()] };
        let mut add = |terms: &mut Self, set: usize, found: Vec<String>| {
            for term in found {
                if !numbers.contains_key(&term) && terms.terms.len() >= MAX_LOOKUPS {
                    continue;
                }
                let number = *numbers.entry(term).or_insert_with_key(|term| {
                    terms.terms.push(term.clone());
                    terms.terms.len() - 1
                });
                if !terms.sets[set].contains(&number) {
                    terms.sets[set].push(number);
                }
            }
        };
        let joined = |lines: &[&str]| query_terms(&truncated(lines).join("\n"));
        add(&mut all, Set::Title as usize, query_terms(issue.title));
        for (number, message) in messages.iter().enumerate() {
            add(&mut all, N_SETS + number, query_terms(&message.fixed()));
        }
        let symbols = issue.names.iter().filter(|(name, _)| name.is_symbol && name.origin != Origin::Message);
        for (name, _) in symbols {
            let mut wholes = Vec::new();
            // The last term of an identifier is the whole of it.
            name.scopes().for_each(|scope| {
                let mut last = None;
                lexical_terms(scope, |term, _| last = Some(term.to_owned()));
                wholes.extend(last);
            });
            add(&mut all, Set::Symbols as usize, wholes);
        }
        add(&mut all, Set::Prose as usize, joined(&issue.prose));
        add(&mut all, Set::Code as usize, joined(&issue.messages));
        add(&mut all, Set::Code as usize, joined(&issue.code));
        let traced: Vec<&str> = issue.traced.iter().map(|(line, _)| *line).collect();
        add(&mut all, Set::Code as usize, joined(&traced));
        let together: Vec<usize> = (0..N_SETS)
            .filter(|set| *set != Set::All as usize)
            .flat_map(|set| all.sets[set].clone())
            .collect();
        for number in together {
            if !all.sets[Set::All as usize].contains(&number) {
                all.sets[Set::All as usize].push(number);
            }
        }
        all
    }
}

/// Maximum bytes of a part of an issue whose terms count.
const MAX_PART_BYTES: usize = 8 << 10;

/// The first of some lines, up to a total length.
fn truncated<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut room = MAX_PART_BYTES;
    lines
        .iter()
        .take_while(|line| {
            let fits = room > 0;
            room = room.saturating_sub(line.len());
            fits
        })
        .map(|line| &line[..line.floor_char_boundary(MAX_PART_BYTES)])
        .collect()
}

/// Prose in pieces of about equal length.
fn pieces(prose: &[&str]) -> Vec<String> {
    let words: Vec<&str> =
        prose.iter().flat_map(|line| line.split_whitespace()).take(PIECE_WORDS * MAX_PIECES).collect();
    words.chunks(PIECE_WORDS).map(|words| words.join(" ")).collect()
}
