//! The calls, imports, literals and near-duplicates of a tree, kept in a file between requests.
//!
//! A file is read again if its content changed, or if a name that it calls is defined elsewhere than before.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use quarry_files::Readers;
use quarry_history::Texts;
use quarry_index::{FileLinks, Index, LinkedFile, LinkedUnit};
use quarry_source::{SourceText, UnitKind};
use quarry_text::near::{BandKeys, Shingles};
use quarry_walk::FileFlags;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::signals::{code_words, hash, literals, name_words, stem_words};

/// Incremented when the same files lead to other relations.
const VERSION: u32 = 2;

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 2 << 30;

/// Start of a file that is written.
const PREFIX: &str = ".relations-";

/// A call that may target more definitions shows nothing.
const MAX_TARGETS: usize = 8;

/// Minimum number of distinct trigrams of a near-duplicate: short functions are alike by chance.
pub(crate) const MIN_SHINGLES: usize = 12;

/// Stands for no candidate.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// Version of the program, whose rules may differ.
    program: String,
    /// Paths and names, each once.
    texts: Vec<String>,
    files: Vec<StoredFile>,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredFile {
    root: u32,
    path: u32,
    hash: u64,
    calls: Vec<StoredCall>,
    /// Path of the imported file, and line.
    imports: Vec<(u32, u32)>,
    /// Hashes of the called names.
    called: Vec<u32>,
    /// By the position of the unit in the file.
    units: Vec<StoredUnit>,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredCall {
    /// Position of the unit in the file.
    caller: u32,
    line: u32,
    is_certain: bool,
    /// Path and name of each definition.
    callees: Vec<(u32, u32)>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct StoredUnit {
    name: u32,
    words: Vec<u32>,
    /// Hashes of literals; of documentation, of the words from code. Ascending.
    literals: Vec<u32>,
    bands: Option<BandKeys>,
}

/// A file of the tree.
pub(crate) struct RelatedFile {
    pub root: usize,
    pub path: String,
    pub is_test: bool,
    pub is_documentation: bool,
    /// True if it is generated, or a copy of somebody else's code.
    pub is_foreign: bool,
    pub stem: Vec<u32>,
    /// Files that it imports, with the lines.
    pub imports: Vec<(u32, u32)>,
}

impl RelatedFile {
    pub(crate) fn directory(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }
}

/// A definition, a section of documentation, or a file without either.
pub(crate) struct Candidate {
    pub unit: usize,
    pub file: u32,
    pub kind: UnitKind,
    pub is_test: bool,
    /// Hash of the last part of its name.
    pub own_name: u32,
    /// Hash of the rest of its name; 0 if there is none.
    pub container: u32,
    pub n_lines: u32,
    pub words: Vec<u32>,
    pub literals: Vec<u32>,
    pub bands: Option<BandKeys>,
}

/// A call as seen from either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The candidate at the other side.
    pub other: u32,
    /// Line of the call.
    pub line: u32,
    /// Number of definitions that it may target.
    pub n_targets: u32,
    pub is_certain: bool,
}

/// The calls, imports, literals and near-duplicates of a tree.
#[derive(Default)]
pub struct Relations {
    pub(crate) files: Vec<RelatedFile>,
    pub(crate) candidates: Vec<Candidate>,
    /// The candidate that each unit belongs to, or [`NONE`].
    pub(crate) of_unit: Vec<u32>,
    /// Candidates of each file.
    pub(crate) of_file: Vec<std::ops::Range<usize>>,
    pub(crate) callers: Vec<Vec<Edge>>,
    pub(crate) callees: Vec<Vec<Edge>>,
    /// By file: those that import it, with the lines.
    pub(crate) importers: Vec<Vec<(u32, u32)>>,
    /// Number of candidates with each literal.
    pub(crate) n_with_literal: FxHashMap<u32, u32>,
    /// Number of candidates with each own name.
    pub(crate) n_named: FxHashMap<u32, u32>,
}

impl Relations {
    /// The relations of a tree; a file provides those of unchanged files, and is replaced if it lacks any. Failing to
    /// write it is not an error: it is a cache. `on_progress` is called with the number of files that were read, and
    /// the number to read.
    pub fn open(index: &Index, kept_at: Option<&Path>, on_progress: &(dyn Fn(usize, usize) + Sync)) -> Self {
        let before = kept_at.and_then(Stored::read).unwrap_or_default();
        let files: Vec<LinkedFile> = index.linked_files().collect();
        let (stored, is_new) = before.updated(index, &files, on_progress);
        if let Some(path) = kept_at.filter(|_| is_new) {
            let _ = stored.write(path);
        }
        Self::from_stored(index, &files, &stored)
    }

    fn from_stored(index: &Index, linked: &[LinkedFile], stored: &Stored) -> Self {
        let text = |number: u32| stored.texts.get(number as usize).map_or("", String::as_str);
        let n_files = linked.len();
        let mut relations = Self {
            files: Vec::with_capacity(n_files),
            candidates: Vec::new(),
            of_unit: vec![NONE; index.n_units()],
            of_file: Vec::with_capacity(n_files),
            callers: Vec::new(),
            callees: Vec::new(),
            importers: vec![Vec::new(); n_files],
            n_with_literal: FxHashMap::default(),
            n_named: FxHashMap::default(),
        };
        let mut numbers: FxHashMap<(usize, &str), u32> = FxHashMap::default();
        let mut named: FxHashMap<(u32, &str), u32> = FxHashMap::default();
        for ((file, kept), number) in linked.iter().zip(&stored.files).zip(0..) {
            numbers.insert((file.root, file.path), number);
            let first = relations.candidates.len();
            relations.add_units(index, file, kept, number, &mut named);
            relations.of_file.push(first..relations.candidates.len());
            relations.files.push(RelatedFile {
                root: file.root,
                path: file.path.to_owned(),
                is_test: file.flags.contains(FileFlags::TEST),
                is_documentation: file.flags.contains(FileFlags::DOCUMENTATION),
                is_foreign: file.flags.intersects(FileFlags::GENERATED | FileFlags::VENDORED),
                stem: stem_words(file.path),
                imports: Vec::new(),
            });
        }
        relations.callers = vec![Vec::new(); relations.candidates.len()];
        relations.callees = vec![Vec::new(); relations.candidates.len()];
        for ((file, kept), number) in linked.iter().zip(&stored.files).zip(0_u32..) {
            for (path, line) in &kept.imports {
                if let Some(other) = numbers.get(&(file.root, text(*path))) {
                    relations.files[number as usize].imports.push((*other, *line));
                    relations.importers[*other as usize].push((number, *line));
                }
            }
            for call in &kept.calls {
                let Some(caller) = relations.of_unit.get(file.units.start + call.caller as usize).copied()
                else {
                    continue;
                };
                let target = |(path, name): &(u32, u32)| {
                    let file = numbers.get(&(file.root, text(*path)))?;
                    named.get(&(*file, text(*name))).copied()
                };
                let targets: BTreeSet<u32> = call.callees.iter().filter_map(target).collect();
                let n_targets = u32::try_from(targets.len()).unwrap_or(u32::MAX);
                for callee in targets.into_iter().filter(|callee| caller != NONE && *callee != caller) {
                    let edge =
                        Edge { other: callee, line: call.line, n_targets, is_certain: call.is_certain };
                    relations.add_call(caller, callee, edge);
                }
            }
        }
        for candidate in &relations.candidates {
            *relations.n_named.entry(candidate.own_name).or_default() += 1;
            for literal in &candidate.literals {
                *relations.n_with_literal.entry(*literal).or_default() += 1;
            }
        }
        relations
    }

    fn add_units<'a>(
        &mut self,
        index: &'a Index,
        file: &LinkedFile,
        kept: &StoredFile,
        number: u32,
        named: &mut FxHashMap<(u32, &'a str), u32>,
    ) {
        let first = self.candidates.len();
        for (position, unit) in file.units.clone().enumerate() {
            let found = index.linked_unit(unit);
            let is_own = found.is_beginning && found.kind != UnitKind::Module;
            // Of a file without definitions, its first unit stands for it.
            let stands_for_file =
                || position == 0 && !file.units.clone().any(|unit| is_candidate(&index.linked_unit(unit)));
            if !(is_own || stands_for_file()) {
                self.of_unit[unit] = named.get(&(number, found.name)).copied().unwrap_or(NONE);
                continue;
            }
            let this = u32::try_from(self.candidates.len()).unwrap_or(NONE);
            let kept = kept.units.get(position).cloned().unwrap_or_default();
            named.entry((number, found.name)).or_insert(this);
            self.of_unit[unit] = this;
            let (container, own) = found.name.rsplit_once('.').unwrap_or(("", found.name));
            self.candidates.push(Candidate {
                unit,
                file: number,
                kind: found.kind,
                is_test: found.is_test,
                own_name: hash(own),
                container: if container.is_empty() { 0 } else { hash(container) },
                n_lines: found.end_line - found.start_line + 1,
                words: kept.words,
                literals: kept.literals,
                bands: kept.bands,
            });
        }
        // Lines of later parts count, too.
        for unit in file.units.clone() {
            let (of_unit, found) = (self.of_unit[unit], index.linked_unit(unit));
            if of_unit != NONE && of_unit as usize >= first && !found.is_beginning {
                self.candidates[of_unit as usize].n_lines += found.end_line - found.start_line + 1;
            }
        }
    }

    fn add_call(&mut self, caller: u32, callee: u32, edge: Edge) {
        let back = Edge { other: caller, ..edge };
        for (edges, edge) in
            [(&mut self.callees[caller as usize], edge), (&mut self.callers[callee as usize], back)]
        {
            // The first line of each, unless a later one is certain.
            match edges.iter_mut().find(|known| known.other == edge.other) {
                Some(known) if edge.is_certain && !known.is_certain => *known = edge,
                Some(_) => {}
                None => edges.push(edge),
            }
        }
    }

    /// The number of the place that has a unit of the index, if any has.
    pub fn number_of(&self, unit: usize) -> Option<u32> {
        self.of_unit.get(unit).copied().filter(|candidate| *candidate != NONE)
    }

    /// The definitions of a file, by number of unit; of a file without any, the unit that stands for it.
    pub(crate) fn units_of_file(&self, root: usize, path: &str) -> Vec<usize> {
        let file = self.files.iter().position(|file| file.root == root && file.path == path);
        let candidates = file.map(|file| self.of_file[file].clone()).unwrap_or_default();
        candidates.map(|candidate| self.candidates[candidate].unit).collect()
    }

    /// The first definition of a file with a name; without a name, the first of the file.
    pub fn unit_named(&self, index: &Index, root: usize, path: &str, name: &str) -> Option<usize> {
        let is_it = |unit: &usize| name.is_empty() || index.linked_unit(*unit).name == name;
        self.units_of_file(root, path).into_iter().find(is_it)
    }

    pub(crate) fn file_of(&self, candidate: u32) -> &RelatedFile {
        &self.files[self.candidates[candidate as usize].file as usize]
    }

    /// Number of definitions and sections.
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }
}

fn is_candidate(unit: &LinkedUnit) -> bool {
    unit.is_beginning && unit.kind != UnitKind::Module
}

impl Stored {
    fn read(path: &Path) -> Option<Self> {
        let bytes = quarry_files::read_regular(path, MAX_BYTES).ok()?;
        let stored: Self = postcard::from_bytes(&bytes).ok()?;
        (stored.version == VERSION && stored.program == env!("CARGO_PKG_VERSION")).then_some(stored)
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        if let Some(directory) = path.parent() {
            quarry_files::create_private_directory(directory)?;
        }
        let bytes = postcard::to_stdvec(self).map_err(std::io::Error::other)?;
        quarry_files::replace(path, PREFIX, Readers::User, &bytes)
    }

    /// The relations of the files of now, in their order, and whether any was read.
    fn updated(
        self,
        index: &Index,
        files: &[LinkedFile],
        on_progress: &(dyn Fn(usize, usize) + Sync),
    ) -> (Self, bool) {
        let text = |number: u32| self.texts.get(number as usize).map_or("", String::as_str);
        let known: HashMap<(u32, &str), &StoredFile> =
            self.files.iter().map(|file| ((file.root, text(file.path)), file)).collect();
        let kept_of = |file: &LinkedFile| known.get(&(file.root as u32, file.path)).copied();
        let is_same = |file: &LinkedFile| {
            kept_of(file).is_some_and(|kept| {
                kept.hash == file.hash && file.hash != 0 && kept.units.len() == file.units.len()
            })
        };
        // Names that are defined elsewhere than before.
        let mut moved: HashSet<u32> = HashSet::new();
        let mut still: HashSet<(u32, &str)> = HashSet::new();
        for file in files {
            still.insert((file.root as u32, file.path));
            if !is_same(file) {
                let new: HashSet<&str> =
                    file.units.clone().map(|unit| index.linked_unit(unit).name).collect();
                let old: HashSet<&str> = kept_of(file)
                    .into_iter()
                    .flat_map(|kept| &kept.units)
                    .map(|unit| text(unit.name))
                    .collect();
                moved.extend(new.symmetric_difference(&old).map(|name| hash(own_part(name))));
            }
        }
        for ((root, path), file) in &known {
            if !still.contains(&(*root, *path)) {
                moved.extend(file.units.iter().map(|unit| hash(own_part(text(unit.name)))));
            }
        }
        let is_kept = |file: &LinkedFile| {
            is_same(file)
                && kept_of(file).is_some_and(|kept| !kept.called.iter().any(|name| moved.contains(name)))
        };
        let to_read: Vec<&LinkedFile> = files.iter().filter(|file| !is_kept(file)).collect();
        let is_new = !to_read.is_empty() || known.len() != files.len();
        if !is_new {
            return (self, false);
        }
        let links = index.links();
        let n_read = std::sync::atomic::AtomicUsize::new(0);
        let read = |file: &&LinkedFile| {
            let found = FileRelations::read(index, &links, file);
            on_progress(n_read.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, to_read.len());
            (file.row, found)
        };
        let mut new: HashMap<usize, FileRelations> = to_read.par_iter().with_max_len(1).map(read).collect();
        let paths: HashMap<usize, &str> = files.iter().map(|file| (file.row, file.path)).collect();
        let file_of_unit = |unit: usize| {
            let at = files.partition_point(|file| file.units.end <= unit);
            files.get(at).filter(|file| file.units.contains(&unit))
        };
        let mut texts = Texts::default();
        let mut all = Vec::with_capacity(files.len());
        for file in files {
            let (root, path) = (file.root as u32, texts.number(file.path));
            let kept = match (new.remove(&file.row), kept_of(file)) {
                (Some(found), _) => {
                    let mut target = |unit: &usize| {
                        let file = file_of_unit(*unit)?;
                        Some((texts.number(file.path), texts.number(index.linked_unit(*unit).name)))
                    };
                    let calls = found.links.calls.iter().filter(|call| call.callees.len() <= MAX_TARGETS);
                    let calls = calls.map(|call| StoredCall {
                        caller: (call.caller - file.units.start) as u32,
                        line: call.line,
                        is_certain: call.is_certain,
                        callees: call.callees.iter().filter_map(&mut target).collect(),
                    });
                    let calls = calls.collect();
                    let imports = found.links.imports.iter();
                    let imports = imports
                        .filter_map(|import| Some((texts.number(paths.get(&import.row)?), import.line)))
                        .collect();
                    let called = found.links.called.iter().map(|name| hash(name)).collect();
                    let names = file.units.clone().map(|unit| index.linked_unit(unit).name);
                    let units = found.units.into_iter().zip(names);
                    let units =
                        units.map(|(unit, name)| StoredUnit { name: texts.number(name), ..unit }).collect();
                    StoredFile { root, path, hash: file.hash, calls, imports, called, units }
                }
                (None, Some(kept)) => {
                    let mut again = |number: u32| texts.number(text(number));
                    let mut kept = StoredFile { path, ..kept.clone() };
                    for call in &mut kept.calls {
                        call.callees
                            .iter_mut()
                            .for_each(|(path, name)| (*path, *name) = (again(*path), again(*name)));
                    }
                    kept.imports.iter_mut().for_each(|(path, _)| *path = again(*path));
                    kept.units.iter_mut().for_each(|unit| unit.name = again(unit.name));
                    kept
                }
                (None, None) => continue,
            };
            all.push(kept);
        }
        let program = env!("CARGO_PKG_VERSION").to_owned();
        (Self { version: VERSION, program, texts: texts.into_all(), files: all }, true)
    }
}

pub(crate) fn own_part(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, own)| own)
}

/// The links and units read from a file.
struct FileRelations {
    links: FileLinks,
    units: Vec<StoredUnit>,
}

impl FileRelations {
    fn read(index: &Index, links: &quarry_index::Links, file: &LinkedFile) -> Self {
        let text = index.file(file.root, file.path).and_then(|file| file.text().ok());
        let text = text.unwrap_or_else(|| SourceText::plain(Vec::new()));
        let text = text.to_str();
        let unit = |unit: usize| {
            let found = index.linked_unit(unit);
            let is_prose = file.flags.contains(FileFlags::DOCUMENTATION) || found.kind == UnitKind::Section;
            let code = text.get(found.start_byte..found.end_byte).unwrap_or_default();
            let mut literals: Vec<u32> = match is_prose {
                true => code_words(code).into_iter().map(hash).collect(),
                false => literals(code).into_iter().map(hash).collect(),
            };
            literals.sort_unstable();
            literals.dedup();
            let is_definition = is_candidate(&found) && !is_prose;
            let shingles = is_definition.then(|| Shingles::from_identifiers(code));
            let bands = shingles
                .filter(|shingles| shingles.len() >= MIN_SHINGLES)
                .and_then(|shingles| shingles.bands());
            StoredUnit { name: 0, words: name_words(found.name), literals, bands }
        };
        let units = file.units.clone().map(unit).collect();
        Self { links: links.file_links(file.row).unwrap_or_default(), units }
    }
}
