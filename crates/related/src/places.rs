//! The places that may have to change with a target, each with its reasons.

use std::collections::{BTreeMap, HashMap};

use quarry_history::LoggedCommit;
use quarry_index::{Error, Hit};
use quarry_session::{DefinitionView, Tree};
use quarry_source::UnitKind;
use quarry_text::identifiers;
use quarry_text::near::Shingles;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::features::{Features, MAX_WITH_LITERAL, OFTEN_TOGETHER, Sources, Target, WHOLE, shared};
use crate::kind::Kind;
use crate::model::{Class, Scorer};
use crate::relations::{Edge, MIN_SHINGLES, own_part};
use crate::signals::{code_words, hash, literals};

/// Maximum number of targets that are compared, such as the definitions of a file.
const MAX_TARGETS: usize = 60;

/// Maximum number of commits that are shown for a place.
const N_COMMITS: usize = 3;

/// Minimum similarity of a twin, of its trigrams of identifiers.
const TWIN: f64 = 0.6;

/// Minimum probability of a place in an answer.
const MIN_PROBABILITY: f32 = 0.01;

/// Number of candidates that are looked at for each place of an answer: not all have reasons.
const LOOKED_AT: usize = 6;

/// Maximum number of places beyond the limit that are counted, besides tests and callers.
const MAX_COUNTED: usize = 300;

/// Maximum length of a line that is shown, in characters.
const MAX_LINE_CHARS: usize = 160;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Numbers of the units that change.
    pub targets: &'a [usize],
    /// Kinds of reasons; empty for all.
    pub kinds: &'a [Kind],
    /// True if `targets` have changed already, so that tests among them are tests of the change.
    pub is_change: bool,
    /// Maximum number of places.
    pub limit: usize,
}

/// A line of a file as evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RelatedLine"))]
pub struct Line {
    /// Its file, relative to the root of the place.
    pub path: String,
    /// 1-based.
    pub line: u32,
    /// Trimmed.
    pub text: String,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Commit"))]
pub struct CommitView {
    /// In hexadecimal.
    pub id: String,
    /// When the change was made (the author's date), in seconds since 1970.
    pub time: i64,
    /// First line of the message.
    pub subject: String,
    /// Number of files that it changed.
    pub files: u32,
    /// The message, without addresses of people; absent from reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a place may have to change.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RelatedReason"))]
pub struct Reason {
    /// Its kind.
    pub kind: Kind,
    /// In words; `it` is the target.
    pub evidence: String,
    /// Name of the target, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A line that shows it.
    #[serde(flatten)]
    pub line: Option<Line>,
    /// True if scopes or imports determine a call; false if only the name matches.
    pub certain: bool,
    /// The latest commits that changed both.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub commits: Vec<CommitView>,
}

/// A place that may have to change.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RelatedPlace"))]
pub struct Place {
    /// From 1.
    pub rank: usize,
    /// The definition, section or file.
    #[serde(skip)]
    pub hit: Hit,
    /// The same.
    #[serde(flatten)]
    pub definition: DefinitionView,
    /// True if it is test code.
    pub test: bool,
    /// Probability that it changes with the targets, 0 to 1.
    pub probability: f32,
    /// Why; at least one.
    pub reasons: Vec<Reason>,
}

/// The places of an answer.
pub(crate) struct Found {
    /// The most probable first.
    pub places: Vec<Place>,
    /// Number of targets that were compared.
    pub n_compared: usize,
    /// Number of targets.
    pub n_targets: usize,
    /// Number of places beyond the limit.
    pub n_more: usize,
    /// True if not all of these were counted.
    pub has_uncounted: bool,
    /// Those of them that call a target or test it, by kind of reason.
    pub more_by_kind: BTreeMap<Kind, usize>,
}

/// The targets, and how the places compare with them.
struct Compared<'a> {
    targets: Vec<Target<'a>>,
    /// For each place, the target for which it is most probable.
    best: Vec<Scored>,
    /// For places that certainly call targets, and for their tests, the target for which they are most probable.
    callers: FxHashMap<u32, Scored>,
}

/// A place scored against the target for which it is most probable.
#[derive(Clone)]
struct Scored {
    probability: f32,
    /// Position of the target.
    target: usize,
    features: Features,
}

impl<'a> Sources<'a> {
    /// The places that may have to change with the targets, the most probable first, then in the order of paths and lines.
    pub(crate) fn places(&self, tree: &Tree, request: &Request, scorer: &Scorer) -> Result<Found, Error> {
        let mut seen = FxHashSet::default();
        let mut numbers: Vec<u32> =
            request.targets.iter().filter_map(|unit| self.relations.number_of(*unit)).collect();
        numbers.retain(|candidate| seen.insert(*candidate));
        let changed = seen;
        let Compared { targets, best, callers } = self.compared(&self.spread(&numbers), scorer)?;
        let name_of = |candidate: u32| (numbers.len() > 1).then(|| self.name(candidate).to_owned());
        let is_wanted = |kind: Kind| request.kinds.is_empty() || request.kinds.contains(&kind);
        let mut found = Found {
            places: Vec::new(),
            n_compared: targets.len(),
            n_targets: numbers.len(),
            n_more: 0,
            has_uncounted: false,
            more_by_kind: BTreeMap::new(),
        };
        if request.is_change && is_wanted(Kind::Test) {
            for target in numbers.iter().filter(|target| self.class(**target) == Class::Tests) {
                if found.places.len() >= request.limit {
                    found.add_more(Kind::Test);
                    continue;
                }
                let reason = Reason { target: name_of(*target), ..Reason::new(Kind::Test, "changed itself") };
                found.places.push(self.place(tree, *target, 1.0, vec![reason]));
            }
        }
        let mut order: Vec<(u32, Scored)> = (0..).zip(best).collect();
        order.retain(|(candidate, scored)| {
            let is_shown = !request.kinds.is_empty()
                || scored.probability >= MIN_PROBABILITY
                || scored.features.has_evidence(self.class(*candidate));
            is_shown && !changed.contains(candidate)
        });
        order.sort_by(|a, b| b.1.probability.total_cmp(&a.1.probability).then(a.0.cmp(&b.0)));
        let mut texts = Texts { sources: self, known: HashMap::new() };
        let n_first = request.limit.saturating_mul(LOOKED_AT);
        for (position, (candidate, scored)) in order.into_iter().enumerate() {
            let (class, calls) = (self.class(candidate), callers.get(&candidate));
            let is_full = found.places.len() >= request.limit;
            if is_full && found.n_more >= MAX_COUNTED && calls.is_none() {
                found.has_uncounted = true;
                continue;
            }
            // Those of one kind may be rare among all; further down, only what is known to have reasons is looked at.
            let is_known = || calls.is_some() || scored.features.has_evidence(class);
            if request.kinds.is_empty() && (is_full || position >= n_first) && !is_known() {
                continue;
            }
            let is_prose = class == Class::Documents;
            let mut reasons_for = |scored: &Scored| {
                let target = &targets[scored.target];
                let mut reasons = self.reasons(target, candidate, &scored.features, &mut texts);
                reasons.retain(|reason| is_wanted(reason.kind));
                reasons.iter_mut().for_each(|reason| reason.target = name_of(target.candidate));
                reasons.sort_by_key(|reason| reason.kind);
                let is_enough =
                    |reason: &Reason| !request.kinds.is_empty() || reason.kind != Kind::Similar || !is_prose;
                reasons.iter().any(is_enough).then_some(reasons)
            };
            let reasons = match (reasons_for(&scored), calls) {
                (Some(reasons), _) => Some((scored.probability, reasons)),
                // It may call another target than the one for which it is most probable, or test it.
                (None, Some(calls)) => reasons_for(calls).map(|reasons| (calls.probability, reasons)),
                (None, None) => None,
            };
            let Some((probability, reasons)) = reasons else { continue };
            if !is_full {
                found.places.push(self.place(tree, candidate, probability, reasons));
                continue;
            }
            if calls.is_some_and(|calls| calls.features.calls > 0.0)
                && let Some(kind) = reasons
                    .iter()
                    .map(|reason| reason.kind)
                    .find(|kind| [Kind::Test, Kind::Caller].contains(kind))
            {
                found.add_more(kind);
            } else {
                found.n_more += 1;
            }
        }
        found.places.iter_mut().zip(1..).for_each(|(place, rank)| place.rank = rank);
        Ok(found)
    }

    /// The targets that are compared: of too many, some of each file.
    fn spread(&self, targets: &[u32]) -> Vec<u32> {
        if targets.len() <= MAX_TARGETS {
            return targets.to_vec();
        }
        let mut n_of_file: FxHashMap<u32, usize> = FxHashMap::default();
        let mut by_round: Vec<(usize, u32)> = targets
            .iter()
            .map(|target| {
                let n = n_of_file.entry(self.relations.candidates[*target as usize].file).or_default();
                *n += 1;
                (*n, *target)
            })
            .collect();
        // Stable, so that files keep their order in each round.
        by_round.sort_by_key(|(round, _)| *round);
        by_round.into_iter().take(MAX_TARGETS).map(|(_, target)| target).collect()
    }

    fn compared(&self, candidates: &[u32], scorer: &Scorer) -> Result<Compared<'a>, Error> {
        let unknown = Scored { probability: 0.0, target: 0, features: Features::default() };
        let best = vec![unknown; self.relations.len()];
        let mut found = Compared { targets: Vec::new(), best, callers: FxHashMap::default() };
        for candidate in candidates.iter().copied() {
            let (target, all) = self.target(candidate)?;
            for ((other, features), best) in (0_u32..).zip(all).zip(&mut found.best) {
                if other == candidate || self.is_left_out(candidate, other) {
                    continue;
                }
                let probability = scorer.probability(self.class(other), &features);
                let scored = Scored { probability, target: found.targets.len(), features };
                if (scored.features.calls > 0.0 || target.reached.contains_key(&other))
                    && found.callers.get(&other).is_none_or(|known| known.probability < probability)
                {
                    found.callers.insert(other, scored.clone());
                }
                if probability > best.probability {
                    *best = scored;
                }
            }
            found.targets.push(target);
        }
        Ok(found)
    }

    /// Generated code changes with its source, and copies of others' code with theirs.
    fn is_left_out(&self, target: u32, other: u32) -> bool {
        self.relations.file_of(other).is_foreign && !self.relations.file_of(target).is_foreign
    }

    /// The class of a place.
    pub fn class(&self, candidate: u32) -> Class {
        let found = &self.relations.candidates[candidate as usize];
        let file = &self.relations.files[found.file as usize];
        match found.kind {
            _ if file.is_documentation => Class::Documents,
            UnitKind::Section | UnitKind::Module => Class::Documents,
            _ if found.is_test || file.is_test => Class::Tests,
            _ => Class::Code,
        }
    }

    fn place(&self, tree: &Tree, candidate: u32, probability: f32, reasons: Vec<Reason>) -> Place {
        let hit = self.index.unit(self.relations.candidates[candidate as usize].unit);
        let hit = Hit { end_line: self.index.last_line(&hit), ..hit };
        let (definition, test) = (DefinitionView::new(tree, &hit), self.class(candidate) == Class::Tests);
        Place { rank: 0, hit, definition, test, probability, reasons }
    }

    fn reasons(
        &self,
        target: &Target,
        candidate: u32,
        features: &Features,
        texts: &mut Texts<'_, '_>,
    ) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let mut add = |reason: Option<Reason>| reasons.extend(reason);
        match self.class(candidate) {
            Class::Tests => add(self.test_reason(target, candidate, features, texts)),
            Class::Documents => {
                add(self.documentation_reason(target, candidate, features, texts));
                add(self.script_reason(target, candidate, texts));
            }
            Class::Code => {
                let called = self.relations.callees[target.candidate as usize].iter();
                let callers = self.relations.callers[target.candidate as usize].iter();
                let by = |mut edges: std::slice::Iter<'_, Edge>| {
                    edges.find(|edge| edge.other == candidate).copied()
                };
                let edges =
                    [(by(callers), Kind::Caller, candidate), (by(called), Kind::Callee, target.candidate)];
                for (edge, kind, place) in edges {
                    let Some(edge) = edge else { continue };
                    let words = if kind == Kind::Caller { "calls it" } else { "called by it" };
                    add(Some(self.call_reason(kind, words, place, edge, texts)));
                }
                add(self.override_reason(target, candidate, features));
                add(self.type_reason(target, candidate, features, texts));
            }
        }
        // Of a test, what it tests.
        if self.class(target.candidate) == Class::Tests && self.class(candidate) == Class::Tests {
            let edge =
                self.relations.callees[target.candidate as usize].iter().find(|edge| edge.other == candidate);
            add(edge
                .map(|edge| self.call_reason(Kind::Callee, "called by it", target.candidate, *edge, texts)));
        }
        add(self.change_reason(target, candidate, features));
        add(self.literal_reason(target, candidate, features, texts));
        add(self.twin_reason(target, candidate, features));
        if features.is_similar() {
            add(Some(Reason::new(Kind::Similar, format!("cosine {:.2}", features.cosine))));
        }
        reasons
    }

    fn call_reason(&self, kind: Kind, words: &str, place: u32, edge: Edge, texts: &mut Texts) -> Reason {
        let line = texts.line(self.relations.candidates[place as usize].file, edge.line);
        let mut evidence = words.to_owned();
        if !edge.is_certain {
            evidence.push_str(match edge.n_targets {
                0 | 1 => ", by name only",
                _ => ", by name only, one of several of that name",
            });
        }
        Reason { line, certain: edge.is_certain, ..Reason::new(kind, evidence) }
    }

    fn test_reason(
        &self,
        target: &Target,
        candidate: u32,
        features: &Features,
        texts: &mut Texts,
    ) -> Option<Reason> {
        if let Some(found) = target.reached.get(&candidate) {
            let mut through = Vec::new();
            let mut next = found.next;
            while next != target.candidate {
                through.push(self.name(next).to_owned());
                next = target.reached.get(&next)?.next;
            }
            let words = match through.as_slice() {
                [] => "calls it".to_owned(),
                through => format!("calls it through {}", through.join(", ")),
            };
            return Some(self.call_reason(Kind::Test, &words, candidate, found.edge, texts));
        }
        let own = &self.relations.candidates[target.candidate as usize];
        if features.name_words >= WHOLE || features.name_holds > 0.0 {
            return Some(Reason::new(Kind::Test, "named after it"));
        }
        let file = self.relations.candidates[candidate as usize].file;
        let place = &self.relations.candidates[candidate as usize];
        if features.mentions > 0.0 {
            let start = self.index.linked_unit(place.unit).start_line;
            let is_mention = |line: &str| identifiers(line).any(|word| word == target.name);
            if let Some(line) = texts.find(place.file, start..=start + place.n_lines, is_mention) {
                return Some(Reason { line: Some(line), ..Reason::new(Kind::Test, "has its name") });
            }
        }
        let import =
            self.relations.importers[own.file as usize].iter().find(|(importer, _)| *importer == file);
        if let Some((_, line)) = import {
            let line = texts.line(file, *line);
            return Some(Reason { line, ..Reason::new(Kind::Test, "its file imports the file") });
        }
        (features.stem >= WHOLE).then(|| Reason::new(Kind::Test, "its file is named after the file"))
    }

    fn documentation_reason(
        &self,
        target: &Target,
        candidate: u32,
        features: &Features,
        texts: &mut Texts,
    ) -> Option<Reason> {
        if features.documents == 0.0 {
            return None;
        }
        let place = &self.relations.candidates[candidate as usize];
        let unit = self.index.linked_unit(place.unit);
        let lines = unit.start_line..=unit.start_line + place.n_lines;
        let line = texts.find(place.file, lines, |line| code_words(line).contains(&target.name))?;
        Some(Reason { line: Some(line), ..Reason::new(Kind::Doc, format!("names `{}`", target.name)) })
    }

    /// A file without definitions is compared like documentation, but its code may call the target.
    fn script_reason(&self, target: &Target, candidate: u32, texts: &mut Texts) -> Option<Reason> {
        let place = &self.relations.candidates[candidate as usize];
        let file = &self.relations.files[place.file as usize];
        if place.kind != UnitKind::Module || file.is_documentation {
            return None;
        }
        let mut edges = self.relations.callers[target.candidate as usize].iter();
        let edge = *edges.find(|edge| edge.other == candidate)?;
        let kind = if place.is_test || file.is_test { Kind::Test } else { Kind::Caller };
        Some(self.call_reason(kind, "calls it", candidate, edge, texts))
    }

    fn override_reason(&self, target: &Target, candidate: u32, features: &Features) -> Option<Reason> {
        let places = [target.candidate, candidate].map(|place| &self.relations.candidates[place as usize]);
        if features.same_name == 0.0 || places.iter().any(|place| place.kind != UnitKind::Method) {
            return None;
        }
        let names = [target.candidate, candidate].map(|place| self.name(place));
        let [owner, other] = names.map(|name| own_part(name.rsplit_once('.').map_or("", |(owner, _)| owner)));
        let declares = |place: u32, owner: &str, base: &str| {
            let file = self.relations.candidates[place as usize].file as usize;
            let units =
                self.relations.of_file[file].clone().map(|candidate| &self.relations.candidates[candidate]);
            let mut types = units.filter(|place| place.kind == UnitKind::Type);
            types.any(|place| {
                let found = self.index.unit(place.unit);
                own_part(&found.name) == owner && identifiers(&found.signature).any(|word| word == base)
            })
        };
        if owner.is_empty() || other.is_empty() {
            return None;
        }
        if declares(candidate, other, owner) {
            return Some(Reason::new(Kind::Override, format!("overrides it in `{other}`")));
        }
        declares(target.candidate, owner, other)
            .then(|| Reason::new(Kind::Override, format!("overridden by it in `{owner}`")))
    }

    fn type_reason(
        &self,
        target: &Target,
        candidate: u32,
        features: &Features,
        texts: &mut Texts,
    ) -> Option<Reason> {
        let of_target = &self.relations.candidates[target.candidate as usize];
        let of_place = &self.relations.candidates[candidate as usize];
        if features.member > 0.0 {
            let words = if of_place.kind == UnitKind::Type { "its type" } else { "a member of it" };
            return Some(Reason::new(Kind::Type, words));
        }
        let name = own_part(self.name(candidate));
        let (of, name, words) = match (of_place.kind, of_target.kind) {
            (UnitKind::Type, _) if features.mentioned > 0.0 && self.is_only(of_place.own_name) => {
                (of_target, name, "a type that it uses")
            }
            (_, UnitKind::Type) if features.mentions > 0.0 && self.is_only(of_target.own_name) => {
                (of_place, target.name, "uses the type")
            }
            _ => return None,
        };
        let start = self.index.linked_unit(of.unit).start_line;
        let line = texts
            .find(of.file, start..=start + of.n_lines, |line| identifiers(line).any(|word| word == name))?;
        Some(Reason { line: Some(line), ..Reason::new(Kind::Type, words) })
    }

    /// Returns true if a name means one thing in the tree.
    fn is_only(&self, name: u32) -> bool {
        self.relations.n_named.get(&name) == Some(&1)
    }

    fn change_reason(&self, target: &Target, candidate: u32, features: &Features) -> Option<Reason> {
        let changes = self.changes;
        let of_target = changes.of_candidate.get(target.candidate as usize)?;
        let place = &self.relations.candidates[candidate as usize];
        // Histories do not have sections: the first one stands for its file.
        if self.class(candidate) == Class::Documents
            && self.relations.of_file[place.file as usize].start != candidate as usize
        {
            return None;
        }
        let is_both = |commit: &&u32| changes.candidates[**commit as usize].binary_search(&candidate).is_ok();
        let of_file = |commit: &&u32| changes.files[**commit as usize].binary_search(&place.file).is_ok();
        let both: Vec<u32> = of_target.iter().filter(is_both).copied().collect();
        let is_same_file = place.file == self.relations.candidates[target.candidate as usize].file;
        let (both, words) = if !both.is_empty() || is_same_file {
            // A change of the file that holds both is not evidence.
            (both, "changed in")
        } else {
            let words = if place.kind == UnitKind::Module { "changed in" } else { "its file changed in" };
            (of_target.iter().filter(of_file).copied().collect(), words)
        };
        let (both, evidence) = if !both.is_empty() {
            let n = both.len();
            (both, format!("{words} {n} of its {}", quarry_text::counted(of_target.len(), "commit")))
        } else if self.class(candidate) == Class::Tests && features.files_together >= OFTEN_TOGETHER {
            let file = self.relations.candidates[target.candidate as usize].file;
            let all = changes.of_file.get(file as usize)?;
            let both: Vec<u32> = all.iter().filter(of_file).copied().collect();
            let n = both.len();
            (
                both,
                format!(
                    "its file changed in {n} of the file's {}",
                    quarry_text::counted(all.len(), "commit")
                ),
            )
        } else {
            return None;
        };
        let commits =
            both.iter().take(N_COMMITS).map(|commit| CommitView::short(changes.commit(*commit))).collect();
        Some(Reason { commits, ..Reason::new(Kind::Change, evidence) })
    }

    fn literal_reason(
        &self,
        target: &Target,
        candidate: u32,
        features: &Features,
        texts: &mut Texts,
    ) -> Option<Reason> {
        if features.literals == 0.0 {
            return None;
        }
        let [of_target, of_place] =
            [target.candidate, candidate].map(|place| &self.relations.candidates[place as usize]);
        let common = shared(&of_target.literals, &of_place.literals);
        let n = |literal: &u32| self.relations.n_with_literal.get(literal).copied().unwrap_or(u32::MAX);
        let rarest = common.filter(|literal| n(literal) <= MAX_WITH_LITERAL).min_by_key(n)?;
        let text = self.text_of(of_target.unit)?;
        let literal = literals(&text).into_iter().find(|literal| hash(literal) == rarest)?;
        let start = self.index.linked_unit(of_place.unit).start_line;
        let line =
            texts.find(of_place.file, start..=start + of_place.n_lines, |line| line.contains(literal))?;
        let evidence = match n(&rarest) {
            2 => format!("only both have `{literal}`"),
            n => format!("one of {n} places with `{literal}`"),
        };
        Some(Reason { line: Some(line), ..Reason::new(Kind::Literal, evidence) })
    }

    fn twin_reason(&self, target: &Target, candidate: u32, features: &Features) -> Option<Reason> {
        if features.twin == 0.0 {
            return None;
        }
        let [a, b] = [target.candidate, candidate].map(|place| {
            let text = self.text_of(self.relations.candidates[place as usize].unit).unwrap_or_default();
            Shingles::from_identifiers(&text)
        });
        let similarity = a.similarity(&b);
        let is_long = a.len().min(b.len()) >= MIN_SHINGLES;
        (is_long && similarity >= TWIN).then(|| {
            Reason::new(Kind::Twin, format!("near-duplicate: {:.0} % of both in common", similarity * 100.0))
        })
    }

    fn name(&self, candidate: u32) -> &str {
        self.index.linked_unit(self.relations.candidates[candidate as usize].unit).name
    }

    /// The commits that changed any of some units, or a file, newest first.
    pub(crate) fn commits(
        &self,
        units: &[usize],
        file: Option<(usize, &str)>,
        limit: usize,
    ) -> Vec<CommitView> {
        let Self { relations, changes, .. } = *self;
        let candidates = units.iter().filter_map(|unit| relations.number_of(*unit));
        let of_units = candidates.filter_map(|candidate| changes.of_candidate.get(candidate as usize));
        // Many commits change a file, but none of its definitions.
        let number = file.and_then(|(root, path)| {
            relations.files.iter().position(|file| file.root == root && file.path == path)
        });
        let of_file = number.and_then(|number| changes.of_file.get(number));
        let mut commits: Vec<u32> = of_units.chain(of_file).flatten().copied().collect();
        commits.sort_unstable();
        commits.dedup();
        commits.into_iter().take(limit).map(|commit| CommitView::full(changes.commit(commit))).collect()
    }
}

impl Found {
    fn add_more(&mut self, kind: Kind) {
        self.n_more += 1;
        *self.more_by_kind.entry(kind).or_default() += 1;
    }
}

impl Reason {
    fn new(kind: Kind, evidence: impl Into<String>) -> Self {
        Self { kind, evidence: evidence.into(), target: None, line: None, certain: true, commits: Vec::new() }
    }
}

impl CommitView {
    /// With its whole message.
    pub(crate) fn full(commit: &LoggedCommit) -> Self {
        Self { message: Some(commit.message.clone()), ..Self::short(commit) }
    }

    /// The day of the change in UTC, as `2026-11-29`.
    pub fn day(&self) -> String {
        // Hinnant, *chrono-Compatible Low-Level Date Algorithms*, `civil_from_days`.
        let days = self.time.div_euclid(86_400) + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// The id as people quote it.
    pub fn short_id(&self) -> &str {
        self.id.get(..10).unwrap_or(&self.id)
    }

    pub(crate) fn short(commit: &LoggedCommit) -> Self {
        let (id, subject) = (commit.id.to_string(), commit.subject().to_owned());
        Self { id, time: commit.seconds, subject, files: commit.n_files, message: None }
    }
}

/// The lines of files, each read once.
struct Texts<'s, 'a> {
    sources: &'s Sources<'a>,
    known: HashMap<u32, Vec<String>>,
}

impl Texts<'_, '_> {
    fn lines(&mut self, file: u32) -> &[String] {
        let Self { sources, known } = self;
        known.entry(file).or_insert_with(|| {
            let found = &sources.relations.files[file as usize];
            let text = sources.index.file(found.root, &found.path).and_then(|file| file.text().ok());
            text.map_or_else(Vec::new, |text| text.to_str().lines().map(str::to_owned).collect())
        })
    }

    fn line(&mut self, file: u32, line: u32) -> Option<Line> {
        self.find(file, line..=line, |_| true)
    }

    /// The first of some lines (1-based) that is wanted.
    fn find(
        &mut self,
        file: u32,
        lines: std::ops::RangeInclusive<u32>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Option<Line> {
        let found = lines.clone().zip(self.lines(file).get(*lines.start() as usize - 1..)?);
        let (line, text) = found.into_iter().find(|(_, text)| is_wanted(text))?;
        let mut shown: String = text.trim().chars().take(MAX_LINE_CHARS).collect();
        if shown.len() < text.trim().len() {
            shown.push('…');
        }
        let found = &self.sources.relations.files[file as usize];
        Some(Line { path: found.path.clone(), line, text: shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (-86_400, "1969-12-31"),
            (1_795_910_400, "2026-11-29"),
        ] {
            let id = "0123456789abcdef".to_owned();
            let commit = CommitView { id, time: seconds, subject: String::new(), files: 1, message: None };
            assert_eq!((commit.day().as_str(), commit.short_id()), (expected, "0123456789"));
        }
    }
}
