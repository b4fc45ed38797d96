//! The modules that files import, and which definitions are in them.

use std::collections::HashMap;
use std::path::Path;

use quarry_source::{Import, ImportedName, Language, NameScope};

use super::modules::{Modules, SOURCE_DIRECTORIES};
use super::resolve::{Candidate, container};
use crate::Index;

/// File names that stand for their directory.
pub(super) const DIRECTORY_FILES: &[&str] = &["__init__", "index", "init", "lib", "main", "mod"];

/// The module that a name is imported from, and its name there unless it is the module itself.
pub(super) fn imported<'a>(word: &str, imports: &'a [Import]) -> Option<(&'a str, Option<&'a str>)> {
    for import in imports {
        for name in &import.names {
            // The module itself, among its names: Rust's `self`, JavaScript's `* as other`.
            let is_module = name.name == "self" || name.name == "*" && name.alias.is_some();
            if is_module && name.alias.as_deref().unwrap_or_else(|| last_segment(&import.module)) == word {
                return Some((&import.module, None));
            }
            if name.alias.as_deref().unwrap_or(&name.name) == word && name.name != "*" {
                let there = if name.name == "default" { word_of(name.alias.as_ref()) } else { &name.name };
                return Some((&import.module, Some(there)));
            }
        }
        let here = import.alias.as_deref().unwrap_or_else(|| module_word(&import.module));
        // A module whose members are all imported may be named, too, if it has no other name.
        let is_named = || import.module == word && import.names.iter().all(is_everything);
        if here == word && (import.alias.is_some() || import.names.is_empty() || is_named()) {
            return Some((&import.module, None));
        }
    }
    None
}

/// Returns whether an import is of all members of a module.
pub(super) fn is_everything(name: &ImportedName) -> bool {
    name.name == "*" && name.alias.is_none()
}

/// The name of a module in a file that imports it: the last part of its name, except for a version as in `shop/v2`.
fn module_word(module: &str) -> &str {
    let is_version = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    match module.rsplit_once(['/', '.']) {
        Some((before, version)) if module.contains('/') && is_version(version) => last_segment(before),
        _ => last_segment(module),
    }
}

fn word_of(alias: Option<&String>) -> &str {
    alias.map_or("default", String::as_str)
}

/// A file, as far as the meaning of names depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct File<'a> {
    /// See [`Candidate::tree`].
    pub tree: usize,
    /// See [`Candidate::path`].
    pub path: &'a str,
    pub language: Language,
}

/// The module that something is imported from.
#[derive(Debug, Clone)]
pub(super) struct Module {
    pub parts: Vec<String>,
    /// The directory or file that contains it, by a manifest.
    pub below: Option<Vec<String>>,
    /// Set if the parts are the complete path from the root.
    is_whole: bool,
    /// Set if they are [`own_parts`], followed by those in the file.
    is_exact: bool,
    /// Set if it is part of this tree, whatever the parts are.
    is_own: bool,
    /// Set if it is a directory.
    is_directory: bool,
    /// Set if it is outside of the tree, whatever the parts are.
    is_outside: bool,
}

impl Module {
    pub fn new(module: &str, file: &File, modules: &Modules) -> Self {
        let is_relative = module.starts_with("./") || module.starts_with("../");
        let dots = module.len() - module.trim_start_matches('.').len();
        let mut parts: Vec<String> = Vec::new();
        let mut rest = module;
        let is_whole = is_relative || dots > 0;
        let (mut below, mut is_outside) = (None, false);
        if is_relative {
            parts = directory_parts(file.path);
        } else if dots > 0 {
            // Python's: one dot is the directory of the file, each further one its parent.
            parts = directory_parts(file.path);
            parts.truncate(parts.len().saturating_sub(dots - 1));
            rest = &module[dots..];
        } else if !file.language.manifests().is_empty() {
            let tree = modules.tree_modules(file);
            if let Some((path, after)) = tree.mapped(module, file) {
                below = Some(path.to_vec());
                rest = after;
            } else if is_of_package(module) {
                below = tree.package_around(file.path).map(directory_parts_of);
            } else {
                is_outside = tree.is_complete;
            }
        }
        let mut rest = rest.strip_prefix("package:").unwrap_or(rest);
        if let Some((stem, extension)) = rest.rsplit_once('.')
            && (rest.contains('/') || is_relative || !extension.contains(char::is_uppercase))
            && file.language.family_extensions().any(|known| known == extension)
        {
            rest = stem;
        }
        let mut is_own = false;
        let is_path = module.contains('/');
        let separators: &[char] = if is_path { &['/'] } else { &['.', ':', '\\'] };
        for part in rest.split(separators) {
            match part {
                "" | "." | "@" | "~" => {}
                ".." => _ = parts.pop(),
                "crate" | "self" | "super" if module.contains("::") || module == part => is_own = true,
                part => parts.push(part.to_owned()),
            }
        }
        if let Some(last) = parts.last_mut().filter(|_| is_path) {
            // As in the names of files.
            last.truncate(last.find('.').filter(|at| *at > 0).unwrap_or(last.len()));
        }
        let is_directory = file.language.name_scope() == NameScope::Directory;
        Self { parts, below, is_whole, is_exact: false, is_own, is_directory, is_outside }
    }

    /// The module with a complete path from the root of the tree: [`own_parts`], followed by those in the file.
    pub fn at(parts: Vec<String>) -> Self {
        Self { is_whole: true, is_exact: true, ..Self::anywhere(parts) }
    }

    /// A module that may be anywhere.
    pub fn named(parts: &[&str]) -> Self {
        Self::anywhere(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    fn anywhere(parts: Vec<String>) -> Self {
        Self {
            parts,
            below: None,
            is_whole: false,
            is_exact: false,
            is_own: false,
            is_directory: false,
            is_outside: false,
        }
    }

    /// The same with other parts.
    pub fn with_parts(&self, parts: &[String]) -> Self {
        Self { parts: parts.to_vec(), ..self.clone() }
    }

    /// Returns whether it is part of the tree, if its form or a manifest determines that.
    pub fn is_in_tree(&self) -> Option<bool> {
        match self.is_outside {
            true => Some(false),
            false => (self.is_whole || self.is_own || self.below.is_some()).then_some(true),
        }
    }

    /// Returns whether it is the file with a path.
    pub fn is_file(&self, path: &str) -> bool {
        let parts: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        let file = file_parts(path);
        let file = file.as_slice();
        match &self.below {
            _ if self.is_outside => false,
            _ if self.is_exact => own_parts(path) == parts,
            _ if self.is_whole => is_same_file(file, &parts),
            None => !parts.is_empty() && file.ends_with(&parts),
            Some(below) => after(file, below).is_some_and(|rest| match parts.as_slice() {
                [] => rest.is_empty() || matches!(rest, [source] if SOURCE_DIRECTORIES.contains(source)),
                parts => rest.ends_with(parts),
            }),
        }
    }

    /// Quality of a candidate's match: 4 exactly in the module of a package, 3 in the module, 2 below it or by most of
    /// its path, 1 only by the end of its path, 0 not.
    pub fn level(&self, candidate: &Candidate) -> u8 {
        if self.is_outside {
            return 0;
        }
        let inside: Vec<&str> =
            container(candidate.name).split('.').filter(|part| !part.is_empty()).collect();
        if self.is_exact {
            let full = [own_parts(candidate.path), inside].concat();
            return if full == self.parts { 3 } else { 0 };
        }
        let file = file_parts(candidate.path);
        // A file that is named like the only type in it, as in Java, is not part of the name of the module.
        let is_repeated = !inside.is_empty() && file.last() == inside.first();
        match is_repeated {
            true => self
                .level_at(candidate, &file[..file.len() - 1], &inside)
                .max(self.level_at(candidate, &file, &inside)),
            false => self.level_at(candidate, &file, &inside),
        }
    }

    fn level_at(&self, candidate: &Candidate, file: &[&str], inside: &[&str]) -> u8 {
        let full = [file, inside].concat();
        let directories: Vec<&str> = directory_names(candidate.path).collect();
        let (mut full, mut directories) = (full.as_slice(), directories.as_slice());
        let parts: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        let is_free = inside.is_empty();
        let n_outside = match candidate.package_start {
            _ if self.is_whole => Some(0),
            Some(start) if !self.is_own => Some(directory_names(&candidate.path[..start]).count()),
            _ => None,
        };
        if let Some(n_outside) = n_outside {
            let (full, directories) = (&full[n_outside..], &directories[n_outside..]);
            return match () {
                () if is_same_file(full, &parts) => 3,
                () if is_free && directories.starts_with(&parts) => 2,
                () => 0,
            };
        }
        if let Some(below) = &self.below {
            let Some(rest) = after(full, below) else { return 0 };
            full = rest;
            directories = after(directories, below).unwrap_or_default();
            let in_sources = match full {
                [source, inside @ ..] if SOURCE_DIRECTORIES.contains(source) => inside,
                _ => full,
            };
            // A program is not the root module that other files mean.
            let is_program = parts.is_empty() && file_stem(candidate.path) == "main";
            if !self.is_directory && !is_program && (full == parts || in_sources == parts) {
                return 4;
            }
            if parts.is_empty() {
                return match () {
                    () if self.is_directory => {
                        if is_free && directories.is_empty() {
                            3
                        } else {
                            0
                        }
                    }
                    () if full.is_empty() => 3,
                    () if is_free => 2,
                    () => 0,
                };
            }
            if full == parts {
                return 3;
            }
        }
        let is_in = |parts: &[&str]| full.ends_with(parts) || is_free && directories.ends_with(parts);
        let common = parts.iter().rev().zip(directories.iter().rev()).take_while(|(a, b)| a == b).count();
        match () {
            () if parts.is_empty() => {
                if self.is_own {
                    2
                } else {
                    0
                }
            }
            // A package of a directory is named with the whole path to it.
            () if is_in(&parts) && (!self.is_directory || parts.len() >= directories.len()) => 3,
            () if self.below.is_some() && self.is_directory => 0,
            () if is_free && !directories.is_empty() && common == directories.len() => 3,
            () if is_free && common >= 2 => 2,
            () if self.is_directory => 0,
            () if is_free && full.windows(parts.len()).any(|window| window == parts) => 2,
            () if self.below.is_some() => 0,
            // The first part may be the name of a package that is not a directory.
            () if parts.len() >= 2 && is_in(&parts[1..]) => {
                if parts.len() > 2 || self.is_own {
                    2
                } else {
                    1
                }
            }
            () => 0,
        }
    }
}

/// The parts of the module that a file is in a language where each file is one: only a root module, and one that is
/// named like its directory, have no name of their own.
pub(super) fn own_parts(path: &str) -> Vec<&str> {
    let stem = file_stem(path);
    directory_names(path).chain((!matches!(stem, "lib" | "main" | "mod")).then_some(stem)).collect()
}

/// Returns whether the name of a module begins at the package of the file that names it.
fn is_of_package(module: &str) -> bool {
    module.split("::").next() == Some("crate")
}

/// Returns whether the parts of a module are those of a file, which may stand for its directory.
fn is_same_file(file: &[&str], parts: &[&str]) -> bool {
    file == parts
        || parts
            .split_last()
            .is_some_and(|(last, directory)| DIRECTORY_FILES.contains(last) && file == directory)
}

/// The parts after those of a directory or file.
fn after<'p, 's>(path: &'p [&'s str], below: &[String]) -> Option<&'p [&'s str]> {
    let (start, rest) = path.split_at_checked(below.len())?;
    (start == below).then_some(rest)
}

/// The file that makes its directory a package, which is imported by its whole name.
const PACKAGE_FILE: &str = "__init__.py";

/// The packages that files are in.
pub(super) struct Packages<'a> {
    index: &'a Index,
    /// By number of the tree and directory in it.
    known: HashMap<(usize, &'a str), bool>,
}

impl<'a> Packages<'a> {
    pub fn new(index: &'a Index) -> Self {
        Self { index, known: HashMap::new() }
    }

    /// Length of what is outside of the package of a file (given by its row) in its path, which may be relative to a
    /// part of the tree; `None` if it is in no package.
    pub fn start(&mut self, row: usize, path: &str) -> Option<usize> {
        let whole = self.index.table.text(self.index.table.files[row].path);
        if Path::new(whole).extension() != Path::new(PACKAGE_FILE).extension() {
            return None;
        }
        let n_above = whole.len() - path.len();
        let mut start = None;
        let mut directory = whole;
        while let Some((around, _)) = directory.rsplit_once('/').filter(|(around, _)| around.len() > n_above)
        {
            if !self.is_package(row, around) {
                break;
            }
            start = Some(around.rfind('/').map_or(0, |at| at + 1).max(n_above) - n_above);
            directory = around;
        }
        start
    }

    /// Returns whether a directory of the tree of a file (given by its row) is a package.
    fn is_package(&mut self, row: usize, directory: &'a str) -> bool {
        let index = self.index;
        let tree = index.trees.partition_point(|tree| tree.files.end <= row);
        *self.known.entry((tree, directory)).or_insert_with(|| {
            let files = &index.table.files[index.trees[tree].files.clone()];
            let file = format!("{directory}/{PACKAGE_FILE}");
            files.binary_search_by(|record| index.table.text(record.path).cmp(&file)).is_ok()
        })
    }
}

pub(super) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn directory_parts(path: &str) -> Vec<String> {
    directory_parts_of(directory(path))
}

fn directory_parts_of(directory: &str) -> Vec<String> {
    directory.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn directory_names(path: &str) -> impl Iterator<Item = &str> {
    directory(path).split('/').filter(|part| !part.is_empty())
}

/// The directories and the name of a file, without the name of one that stands for its directory.
pub(super) fn file_parts(path: &str) -> Vec<&str> {
    let stem = file_stem(path);
    directory_names(path)
        .chain((!stem.is_empty() && !DIRECTORY_FILES.contains(&stem)).then_some(stem))
        .collect()
}

fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

pub(super) fn last_segment(module: &str) -> &str {
    module.rsplit(['/', '.', ':', '\\']).next().unwrap_or(module)
}
