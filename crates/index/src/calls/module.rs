//! The modules that files import, and which definitions are in them.

use std::collections::HashMap;
use std::path::Path;

use quarry_source::{Import, NameScope};

use super::resolve::{Candidate, Site, container};
use crate::Index;

/// File names that stand for their directory.
const DIRECTORY_FILES: &[&str] = &["__init__", "index", "init", "lib", "main", "mod"];

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
        let here = import.alias.as_deref().unwrap_or_else(|| last_segment(&import.module));
        if here == word && (import.alias.is_some() || import.names.is_empty()) {
            return Some((&import.module, None));
        }
    }
    None
}

fn word_of(alias: Option<&String>) -> &str {
    alias.map_or("default", String::as_str)
}

/// The module that something is imported from.
pub(super) struct Module {
    pub parts: Vec<String>,
    /// Whether the parts are the complete path from the root.
    pub is_whole: bool,
    /// Whether it is part of this tree, whatever the parts are.
    pub is_own: bool,
    /// Whether it is a directory.
    pub is_directory: bool,
}

impl Module {
    pub fn new(module: &str, site: &Site) -> Self {
        let is_relative = module.starts_with("./") || module.starts_with("../");
        let dots = module.len() - module.trim_start_matches('.').len();
        let mut parts: Vec<String> = Vec::new();
        let mut rest = module;
        let is_whole = is_relative || dots > 0;
        if is_relative {
            parts = directory_parts(site.path);
        } else if dots > 0 {
            // Python's: one dot is the directory of the file, each further one its parent.
            parts = directory_parts(site.path);
            parts.truncate(parts.len().saturating_sub(dots - 1));
            rest = &module[dots..];
        }
        let mut rest = rest.strip_prefix("package:").unwrap_or(rest);
        if let Some((stem, extension)) = rest.rsplit_once('.')
            && (rest.contains('/') || is_relative || !extension.contains(char::is_uppercase))
            && site.language.extensions().iter().any(|known| known == extension)
        {
            rest = stem;
        }
        let mut is_own = false;
        let separators: &[char] = if is_relative { &['/'] } else { &['/', '.', ':', '\\'] };
        for part in rest.split(separators) {
            match part {
                "" | "." | "@" | "~" => {}
                ".." => _ = parts.pop(),
                "crate" | "self" | "super" if module.contains("::") || module == part => is_own = true,
                part => parts.push(part.to_owned()),
            }
        }
        let is_directory = site.language.name_scope() == NameScope::Directory;
        Self { parts, is_whole, is_own, is_directory }
    }

    /// How well a candidate matches: 3 in the module, 2 below it or by most of its path, 1 only by the end of its
    /// path, 0 not.
    pub fn level(&self, candidate: &Candidate) -> u8 {
        let directories = directory_parts(candidate.path);
        let mut file = directories.clone();
        let stem = file_stem(candidate.path);
        if !DIRECTORY_FILES.contains(&stem) {
            file.push(stem.to_owned());
        }
        let inside: Vec<&str> =
            container(candidate.name).split('.').filter(|part| !part.is_empty()).collect();
        let full: Vec<&str> = file.iter().map(String::as_str).chain(inside.iter().copied()).collect();
        let directories: Vec<&str> = directories.iter().map(String::as_str).collect();
        let parts: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        let n_outside = match candidate.package_start {
            _ if self.is_whole => Some(0),
            Some(start) if !self.is_own => Some(directory_parts(&candidate.path[..start]).len()),
            _ => None,
        };
        if let Some(n_outside) = n_outside {
            let (full, directories) = (&full[n_outside..], &directories[n_outside..]);
            return match () {
                () if full == parts => 3,
                () if inside.is_empty() && directories.starts_with(&parts) => 2,
                () => 0,
            };
        }
        let is_free = inside.is_empty();
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
            () if is_free && !directories.is_empty() && common == directories.len() => 3,
            () if is_free && common >= 2 => 2,
            () if self.is_directory => 0,
            () if is_free && full.windows(parts.len()).any(|window| window == parts) => 2,
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

/// The file that makes its directory a package, which is imported by its whole name.
const PACKAGE_FILE: &str = "__init__.py";

/// The packages that files are in.
pub(super) struct Packages<'a> {
    index: &'a Index,
    /// By number of the tree and directory in it.
    known: HashMap<(usize, &'a str), bool>,
}

impl<'a> Packages<'a> {
    pub fn of(index: &'a Index) -> Self {
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

    /// Whether a directory of the tree of a file (given by its row) is a package.
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
    directory(path).split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

pub(super) fn last_segment(module: &str) -> &str {
    module.rsplit(['/', '.', ':', '\\']).next().unwrap_or(module)
}
