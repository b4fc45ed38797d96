//! Features of each place in relation to one that changes, as numbers.

use std::collections::{HashSet, VecDeque};

use quarry_index::{Error, Index};
use quarry_source::UnitKind;
use quarry_text::identifiers;
use quarry_text::near::n_common;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::changes::Changes;
use crate::model::Class;
use crate::relations::{Edge, Relations, own_part};
use crate::signals::hash;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The features of a place, each 0 if it does not apply.
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct Features { $($(#[$doc])* pub $name: f32,)* }

        /// The names of the features, in the order of [`Features::values`].
        pub const FEATURES: &[&str] = &[$(stringify!($name),)*];

        impl Features {
            /// Their values, in the order of [`FEATURES`].
            pub fn values(&self) -> [f32; FEATURES.len()] {
                [$(self.$name,)*]
            }

            fn read(next: &mut dyn FnMut() -> f32) -> Self {
                Self { $($name: next(),)* }
            }
        }
    };
}

features! {
    /// 1 in the same file.
    same_file,
    /// 1 over the distance in definitions, in the same file.
    near,
    /// 1 in the same directory.
    same_directory,
    /// 1 in the same type or function.
    same_container,
    /// 1 for the type of a method, and for the methods of a type.
    member,
    /// 1 if it calls the target.
    calls,
    /// 1 over the number of definitions that its call may target, if only the name matches.
    calls_by_name,
    /// 1 if the target calls it.
    called,
    /// Likewise for a call by name only.
    called_by_name,
    /// 1 if it calls the target through one other.
    through_one,
    /// 1 if it calls the target through two or three others.
    through_more,
    /// Logarithm of the weight of commits that changed both.
    together,
    /// Likewise of commits that changed few definitions.
    together_in_few,
    /// 1 if the latest commit of the target changed both.
    together_last,
    /// Share of the target's commits that changed both.
    together_share,
    /// Share of its own commits that changed both.
    together_back,
    /// Logarithm of the weight of the target's commits that changed its file.
    file_together,
    /// Share of the target's commits that changed its file.
    file_share,
    /// Share of the commits of the target's file, or of its file, that changed both files.
    files_together,
    /// Logarithm of the weight of its commits.
    changes,
    /// Weight of its latest commit, by a short half-life.
    recent,
    /// 1 if no commit is known that changed the target.
    target_is_new,
    /// 1 with the same name.
    same_name,
    /// Common words of both names, over all words of both.
    name_words,
    /// 1 if its name has all words of the target's name, and there are several.
    name_holds,
    /// Cosine of the vectors.
    cosine,
    /// 1 over the rank by cosine.
    cosine_rank,
    /// Logarithm of the rarity of common literals.
    literals,
    /// Share of equal bands of the signatures.
    twin,
    /// Rarity of the target's name, if it has that.
    mentions,
    /// Rarity of its name, if the target has that.
    mentioned,
    /// 1 if its file imports the target's file.
    imports,
    /// 1 if the target's file imports its file.
    imported,
    /// Common words of the names of both files, over all words.
    stem,
    /// 1 for a type.
    is_type,
    /// Logarithm of the number of lines.
    lines,
    /// 1 if the documentation names the target.
    documents,
}

impl Features {
    /// Those with some values, in the order of [`FEATURES`]; missing values are 0.
    pub fn from_values(values: &[f32]) -> Self {
        let mut rest = values.iter().copied();
        Self::read(&mut || rest.next().unwrap_or_default())
    }

    /// Returns true if a place of a class has a reason, as far as features show that.
    pub fn has_evidence(&self, class: Class) -> bool {
        let is_any = |values: &[f32]| values.iter().any(|value| *value > 0.0);
        let of_history = [self.together, self.file_share];
        let of_class = match class {
            Class::Tests => {
                is_any(&[self.through_one, self.through_more, self.name_holds, self.mentions, self.imports])
                    || self.name_words >= WHOLE
                    || self.stem >= WHOLE
                    || self.files_together >= OFTEN_TOGETHER
                    || self.is_similar()
            }
            Class::Code => {
                is_any(&[self.member, self.same_name, self.is_type * self.mentioned]) || self.is_similar()
            }
            Class::Documents => self.documents > 0.0,
        };
        let of_calls = [self.calls, self.calls_by_name, self.called, self.called_by_name];
        of_class || is_any(&of_history) || is_any(&of_calls) || is_any(&[self.literals, self.twin])
    }
}

impl Features {
    /// Returns true for the places whose vectors are closest to that of the target.
    pub(crate) fn is_similar(&self) -> bool {
        self.cosine_rank >= 1.0 / N_SIMILAR as f32 && self.cosine >= MIN_COSINE
    }
}

/// Number of similar places that are a reason.
const N_SIMILAR: usize = 10;

/// Minimum cosine of these: in a small tree, the closest may have nothing in common.
const MIN_COSINE: f32 = 0.4;

/// Minimum share of commits with both files that is a reason for a test.
pub(crate) const OFTEN_TOGETHER: f32 = 0.05;

/// A share of 1, within rounding.
pub(crate) const WHOLE: f32 = 0.999;

/// A place in relation to a target.
#[derive(Debug, Clone)]
pub struct PlaceFeatures {
    pub unit: usize,
    /// Number of its file.
    pub file: u32,
    pub class: Class,
    /// True if it is shown once it is probable enough.
    pub has_evidence: bool,
    /// Its features.
    pub features: Features,
}

/// The places from which a target is called, with the number of calls between and the next place on the way.
pub(crate) struct Reached {
    pub hops: u32,
    pub next: u32,
    pub edge: Edge,
}

/// Maximum number of calls between a test and what it tests.
const MAX_HOPS: u32 = 4;

/// Maximum number of places that are visited for calls through others.
const MAX_REACHED: usize = 2_000;

/// A place that most of a tree calls connects nothing.
const MAX_CALLERS: usize = 60;

/// Number of definitions that a commit changes if it is about little.
const FEW: usize = 8;

/// Recent changes lose weight this many times faster than the weight of commits.
const RECENT: i32 = 12;

/// A target and the places that reach it.
pub(crate) struct Target<'a> {
    pub candidate: u32,
    /// Its name without what contains it.
    pub name: &'a str,
    /// Places that call it, directly or through others.
    pub reached: FxHashMap<u32, Reached>,
}

/// The data that features are computed from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The index of the tree.
    pub index: &'a Index,
    pub relations: &'a Relations,
    /// Its history.
    pub changes: &'a Changes,
}

impl<'a> Sources<'a> {
    /// A place as a target, and the features of all places in relation to it.
    pub(crate) fn target(&self, candidate: u32) -> Result<(Target<'a>, Vec<Features>), Error> {
        let Self { index, relations, changes } = *self;
        let target = &relations.candidates[candidate as usize];
        let unit = index.linked_unit(target.unit);
        let name = own_part(unit.name);
        let mut all: Vec<Features> = Vec::with_capacity(relations.candidates.len());
        let its_file = &relations.files[target.file as usize];
        let directory = its_file.directory();
        let whole_name = hash(unit.name);
        let imports: FxHashSet<u32> = its_file.imports.iter().map(|(file, _)| *file).collect();
        let importers: FxHashSet<u32> =
            relations.importers[target.file as usize].iter().map(|(file, _)| *file).collect();
        let own_words = self.words_of(target.unit);
        let union = |a: &[u32], b: &[u32], common: usize| a.len() + b.len() - common;
        let rarity = |n: u32| 1.0 / (1.0 + (n as f32).ln_1p());
        let files: Vec<(bool, f32)> = relations
            .files
            .iter()
            .map(|file| {
                let common = n_common(&file.stem, &its_file.stem);
                let stem = common as f32 / union(&file.stem, &its_file.stem, common).max(1) as f32;
                (file.root == its_file.root && file.directory() == directory, stem)
            })
            .collect();
        for (other, number) in relations.candidates.iter().zip(0_u32..) {
            let (same_directory, stem) = files[other.file as usize];
            let is_same_file = other.file == target.file;
            let common = n_common(&other.words, &target.words);
            let n_rare: f32 = shared(&other.literals, &target.literals)
                .map(|literal| relations.n_with_literal.get(&literal).copied().unwrap_or(1))
                .filter(|n| *n <= MAX_WITH_LITERAL)
                .map(|n| 1.0 / n as f32)
                .sum();
            let name_of_container = |container: u32, of: u32| container != 0 && container == of;
            let is_named_there = !name.is_empty() && other.literals.binary_search(&target.own_name).is_ok();
            let is_prose =
                other.kind == UnitKind::Section || relations.files[other.file as usize].is_documentation;
            all.push(Features {
                same_file: flag(is_same_file),
                near: if is_same_file && number != candidate {
                    1.0 / number.abs_diff(candidate) as f32
                } else {
                    0.0
                },
                same_directory: flag(same_directory),
                same_container: flag(is_same_file && name_of_container(other.container, target.container)),
                member: flag(
                    is_same_file
                        && (name_of_container(other.container, whole_name)
                            || target.container != 0
                                && target.container == hash(index.linked_unit(other.unit).name)),
                ),
                same_name: flag(other.own_name == target.own_name && !name.is_empty()),
                name_words: common as f32 / union(&other.words, &target.words, common).max(1) as f32,
                name_holds: flag(target.words.len() > 1 && common == target.words.len()),
                literals: if is_prose { 0.0 } else { n_rare.ln_1p() },
                twin: match (&other.bands, &target.bands) {
                    (Some(a), Some(b)) => {
                        a.iter().zip(b).filter(|(a, b)| a == b).count() as f32 / a.len() as f32
                    }
                    _ => 0.0,
                },
                mentioned: match own_words.contains(&other.own_name) {
                    true => rarity(relations.n_named.get(&other.own_name).copied().unwrap_or(1)),
                    false => 0.0,
                },
                imports: flag(importers.contains(&other.file)),
                imported: flag(imports.contains(&other.file)),
                stem,
                is_type: flag(other.kind == UnitKind::Type),
                lines: (other.n_lines as f32).ln_1p(),
                documents: flag(is_prose && is_named_there)
                    * rarity(relations.n_named.get(&target.own_name).copied().unwrap_or(1)),
                target_is_new: flag(changes.of_candidate.get(candidate as usize).is_none_or(Vec::is_empty)),
                ..Features::default()
            });
        }
        for (edges, is_caller) in [(&relations.callers, true), (&relations.callees, false)] {
            for edge in &edges[candidate as usize] {
                let features = &mut all[edge.other as usize];
                let value = 1.0 / edge.n_targets.max(1) as f32;
                match (is_caller, edge.is_certain) {
                    (true, true) => features.calls = 1.0,
                    (true, false) => features.calls_by_name = value,
                    (false, true) => features.called = 1.0,
                    (false, false) => features.called_by_name = value,
                }
            }
        }
        let reached = self.reached(candidate);
        for (other, found) in &reached {
            match found.hops {
                1 => {}
                2 => all[*other as usize].through_one = 1.0,
                _ => all[*other as usize].through_more = 1.0,
            }
        }
        self.add_changes(candidate, &mut all);
        if let Some(cosines) = index.cosines(target.unit)? {
            let mut order: Vec<u32> = (0..).take(all.len()).collect();
            let cosine = |number: u32| cosines[relations.candidates[number as usize].unit];
            order.sort_by(|a, b| cosine(*b).total_cmp(&cosine(*a)).then(a.cmp(b)));
            order.retain(|number| *number != candidate);
            for (rank, number) in order.into_iter().enumerate() {
                all[number as usize].cosine = cosine(number).max(0.0);
                all[number as usize].cosine_rank = 1.0 / (rank + 1) as f32;
            }
        }
        if !name.is_empty() {
            let units = index.units_mentioning(name)?;
            let found: FxHashSet<u32> = units.iter().filter_map(|unit| relations.number_of(*unit)).collect();
            let value = rarity(u32::try_from(found.len()).unwrap_or(u32::MAX));
            found.into_iter().for_each(|other| all[other as usize].mentions = value);
        }
        Ok((Target { candidate, name, reached }, all))
    }

    /// All places in relation to one of them, in their order.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn place_features(&self, place: u32) -> Result<Vec<PlaceFeatures>, Error> {
        let (_, features) = self.target(place)?;
        let known = |(number, features): (u32, Features)| {
            let (found, class) = (&self.relations.candidates[number as usize], self.class(number));
            let is_foreign = self.relations.file_of(number).is_foreign;
            let is_shown = class != Class::Documents
                || features.documents > 0.0
                || self.relations.of_file[found.file as usize].start == number as usize;
            let has_evidence = !is_foreign && is_shown && features.has_evidence(class);
            PlaceFeatures { unit: found.unit, file: found.file, class, has_evidence, features }
        };
        Ok((0_u32..).zip(features).map(known).collect())
    }

    /// The features that come from the history.
    fn add_changes(&self, candidate: u32, all: &mut [Features]) {
        let Self { relations, changes, .. } = *self;
        if changes.is_empty() {
            return;
        }
        let total = |commits: &[u32]| commits.iter().map(|commit| changes.weight(*commit)).sum::<f32>();
        let target_file = relations.candidates[candidate as usize].file;
        let of_target = &changes.of_candidate[candidate as usize];
        let n_target = total(of_target);
        let mut together: FxHashMap<u32, [f32; 2]> = FxHashMap::default();
        let mut with_file: FxHashMap<u32, f32> = FxHashMap::default();
        for commit in of_target {
            let weight = changes.weight(*commit);
            let changed = &changes.candidates[*commit as usize];
            let in_few = if changed.len() <= FEW { weight } else { 0.0 };
            for other in changed {
                let both = together.entry(*other).or_default();
                *both = [both[0] + weight, both[1] + in_few];
            }
            for file in &changes.files[*commit as usize] {
                *with_file.entry(*file).or_default() += weight;
            }
        }
        let mut files: FxHashMap<u32, f32> = FxHashMap::default();
        for commit in &changes.of_file[target_file as usize] {
            for file in &changes.files[*commit as usize] {
                *files.entry(*file).or_default() += changes.weight(*commit);
            }
        }
        let n_file = total(&changes.of_file[target_file as usize]);
        let of_files: FxHashMap<u32, f32> = files
            .into_iter()
            .filter(|(file, _)| *file != target_file)
            .map(|(file, both)| (file, both / (n_file + total(&changes.of_file[file as usize]) - both + 0.5)))
            .collect();
        for (number, features) in (0_u32..).zip(all.iter_mut()) {
            let file = relations.candidates[number as usize].file;
            let own = &changes.of_candidate[number as usize];
            let n_own = total(own);
            features.changes = n_own.ln_1p();
            features.recent = own.first().map_or(0.0, |commit| changes.weight(*commit).powi(RECENT));
            if let Some([both, in_few]) = together.get(&number) {
                features.together = both.ln_1p();
                features.together_in_few = in_few.ln_1p();
                features.together_last = flag(own.binary_search(&of_target[0]).is_ok());
                features.together_share = both / (n_target + 0.5);
                features.together_back = both / (n_own + 0.5);
            }
            if file != target_file
                && let Some(both) = with_file.get(&file)
            {
                features.file_together = both.ln_1p();
                features.file_share = both / (n_target + 0.5);
            }
            features.files_together = of_files.get(&file).copied().unwrap_or_default();
        }
    }

    /// The places that call a target, directly or through others, each on the shortest way.
    fn reached(&self, candidate: u32) -> FxHashMap<u32, Reached> {
        let mut found: FxHashMap<u32, Reached> = FxHashMap::default();
        let mut open = VecDeque::from([(candidate, 0)]);
        while let Some((place, hops)) = open.pop_front() {
            let callers = &self.relations.callers[place as usize];
            if hops == MAX_HOPS || found.len() > MAX_REACHED || hops > 0 && callers.len() > MAX_CALLERS {
                continue;
            }
            for edge in callers {
                // A guess through a guess is none.
                let is_sure = edge.is_certain || hops == 0 && edge.n_targets <= 3;
                if !is_sure || edge.other == candidate || found.contains_key(&edge.other) {
                    continue;
                }
                found.insert(edge.other, Reached { hops: hops + 1, next: place, edge: *edge });
                open.push_back((edge.other, hops + 1));
            }
        }
        found
    }

    /// Hashes of the identifiers in a definition.
    fn words_of(&self, unit: usize) -> HashSet<u32> {
        let Some(text) = self.text_of(unit) else { return HashSet::new() };
        identifiers(&text).map(hash).collect()
    }

    /// The text of a definition, with all its parts.
    pub(crate) fn text_of(&self, unit: usize) -> Option<String> {
        let hit = self.index.unit(unit);
        let text = self.index.text(&hit).ok()?;
        let last = self.index.last_line(&hit);
        let text = text.to_str();
        let lines = text.lines().skip(hit.start_line as usize - 1);
        let n_lines = (last + 1).saturating_sub(hit.start_line) as usize;
        Some(lines.take(n_lines).collect::<Vec<_>>().join("\n"))
    }
}

/// A literal that more units have is common.
pub(crate) const MAX_WITH_LITERAL: u32 = 8;

/// Common elements of two ascending lists.
pub(crate) fn shared<'a>(a: &'a [u32], b: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short.iter().copied().filter(|value| long.binary_search(value).is_ok())
}

fn flag(is_set: bool) -> f32 {
    if is_set { 1.0 } else { 0.0 }
}
