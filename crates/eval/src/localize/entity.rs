//! Entities of a unit: a function, the class or top-level function around it, and a file.
//!
//! LocAgent's rules: an entity is `path:Class.method`, a function inside a function is the one around it, and `__init__`
//! is its class. A class without `__init__` is represented by its body, which would otherwise be found by nothing.

use std::collections::{HashMap, HashSet};

use quarry_corpus::formats::localize::ChangedLines;
use quarry_index::{Hit, Index};
use quarry_source::UnitKind;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Functions and methods.
    Functions,
    /// Classes and top-level functions.
    Modules,
    Files,
}

impl Level {
    pub const ALL: [Self; 3] = [Self::Functions, Self::Modules, Self::Files];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Modules => "modules",
            Self::Files => "files",
        }
    }
}

/// One value per level, in the order of [`Level::ALL`].
pub type Levels<T> = [T; 3];

const CONSTRUCTOR: &str = ".__init__";

/// The names of functions and classes of a file.
#[derive(Debug, Default)]
pub(super) struct FileEntities {
    functions: HashSet<String>,
    classes: HashSet<String>,
}

impl FileEntities {
    pub(super) fn new<'a>(units: impl IntoIterator<Item = (UnitKind, &'a str)>) -> Self {
        let mut entities = Self::default();
        for (kind, name) in units {
            match kind {
                UnitKind::Function | UnitKind::Method => entities.functions.insert(name.to_owned()),
                UnitKind::Type => entities.classes.insert(name.to_owned()),
                UnitKind::Module | UnitKind::Section => false,
            };
        }
        entities
    }

    /// The entity of a function, or of a class that is one: the outermost function around it, if there is one.
    pub(super) fn function<'n>(&self, name: &'n str) -> Option<&'n str> {
        let prefixes = name.match_indices('.').map(|(end, _)| &name[..end]).chain([name]);
        let outermost = prefixes.into_iter().find(|prefix| self.functions.contains(*prefix));
        match outermost {
            Some(function) => Some(function.strip_suffix(CONSTRUCTOR).unwrap_or(function)),
            None if self.functions.contains(&format!("{name}{CONSTRUCTOR}")) => Some(name),
            None => self.classes.contains(name).then_some(name),
        }
    }

    /// The entities of a unit, as a function and as a class or top-level function.
    fn unit_entities<'n>(&self, kind: UnitKind, name: &'n str) -> [Option<&'n str>; 2] {
        let has_constructor = || self.functions.contains(&format!("{name}{CONSTRUCTOR}"));
        let function = match kind {
            UnitKind::Function | UnitKind::Method => self.function(name),
            UnitKind::Type if !has_constructor() => self.function(name),
            _ => None,
        };
        let is_named = matches!(kind, UnitKind::Function | UnitKind::Method | UnitKind::Type);
        [function, is_named.then(|| top_level(name))]
    }
}

/// The class or top-level function of a qualified name.
fn top_level(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The entities of an index, read file by file.
pub(super) struct Entities<'i> {
    index: &'i Index,
    files: HashMap<String, Option<FileEntities>>,
}

impl<'i> Entities<'i> {
    pub(super) fn new(index: &'i Index) -> Self {
        Self { index, files: HashMap::new() }
    }

    fn file(&mut self, path: &str) -> Option<&FileEntities> {
        let read = || {
            let hits: Vec<Hit> = self.index.file(0, path)?.hits().collect();
            Some(FileEntities::new(hits.iter().map(|hit| (hit.kind, hit.name.as_str()))))
        };
        self.files.entry(path.to_owned()).or_insert_with(read).as_ref()
    }

    /// The distinct entities of ranked units, in the order of their first units, at most `depth` of each level.
    pub(super) fn ranked(&mut self, units: &[usize], depth: usize) -> Levels<Vec<String>> {
        let mut found: Levels<Vec<String>> = Default::default();
        let mut seen: Levels<HashSet<String>> = Default::default();
        for &unit in units {
            let hit = self.index.unit(unit);
            let [function, module] =
                self.file(&hit.path).map_or([None, None], |file| file.unit_entities(hit.kind, &hit.name));
            let of_levels = [function, module].map(|name| name.map(|name| format!("{}:{name}", hit.path)));
            let of_levels = of_levels.into_iter().chain([Some(hit.path.clone())]);
            for ((found, seen), entity) in found.iter_mut().zip(&mut seen).zip(of_levels) {
                if let Some(entity) = entity.filter(|entity| found.len() < depth && !seen.contains(entity)) {
                    seen.insert(entity.clone());
                    found.push(entity);
                }
            }
            if found.iter().all(|found| found.len() >= depth) {
                break;
            }
        }
        found
    }

    /// The functions and classes that changed lines are in, each as path, `:` and name.
    pub(super) fn functions_at(&mut self, lines: &[ChangedLines]) -> Vec<String> {
        let mut found = Vec::new();
        for ChangedLines { path, start, end } in lines {
            let Some(file) = self.index.file(0, path) else { continue };
            let hits: Vec<Hit> =
                file.hits().filter(|hit| hit.start_line <= *end && *start <= hit.end_line).collect();
            for hit in hits {
                let [function, _] =
                    self.file(path).map_or([None, None], |file| file.unit_entities(hit.kind, &hit.name));
                let function = function.map(|name| format!("{path}:{name}"));
                found.extend(function.filter(|function| !found.contains(function)));
            }
        }
        found
    }

    /// The gold entities of an issue, and how many functions are not among them because the tree does not have them, as
    /// those that the fix adds. Functions of files that are in the tree but not in the index remain, and are not found. Without `files`, these are
    /// those of the functions. `has_file` is whether the tree has a file.
    pub(super) fn gold(
        &mut self,
        functions: &[String],
        files: &[String],
        has_file: &dyn Fn(&str) -> bool,
    ) -> (Levels<Vec<String>>, usize) {
        let mut gold: Levels<Vec<String>> = Default::default();
        let mut absent = HashSet::new();
        let add = |gold: &mut Levels<Vec<String>>, level: Level, entity: String| {
            let gold = &mut gold[level as usize];
            if !gold.contains(&entity) {
                gold.push(entity);
            }
        };
        for function in functions {
            let Some((path, name)) = function.split_once(':') else { continue };
            let known = match self.file(path) {
                Some(file) => file.function(name),
                None => has_file(path).then(|| name.strip_suffix(CONSTRUCTOR).unwrap_or(name)),
            };
            if known.is_none() {
                absent.insert(function);
            }
            if let Some(name) = known {
                add(&mut gold, Level::Functions, format!("{path}:{name}"));
                add(&mut gold, Level::Modules, format!("{path}:{}", top_level(name)));
            }
        }
        let in_tree = files.iter().filter(|path| has_file(path));
        in_tree.for_each(|path| add(&mut gold, Level::Files, path.clone()));
        if gold[Level::Files as usize].is_empty() {
            for entity in gold[Level::Functions as usize].clone() {
                if let Some((path, _)) = entity.split_once(':') {
                    add(&mut gold, Level::Files, path.to_owned());
                }
            }
        }
        (gold, absent.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> FileEntities {
        use UnitKind::{Function, Method, Module, Type};
        FileEntities::new([
            (Function, "outer"),
            (Function, "outer.inner"),
            (Type, "outer.Local"),
            (Type, "Full"),
            (Method, "Full.__init__"),
            (Method, "Full.run"),
            (Method, "Full.run.step"),
            (Type, "Bare"),
            (Method, "Bare.go"),
            (Module, ""),
        ])
    }

    #[test]
    fn units_count_as_published() {
        use UnitKind::{Function, Method, Module, Section, Type};
        let file = file();
        for (kind, name, expected) in [
            (Function, "outer", [Some("outer"), Some("outer")]),
            (Function, "outer.inner", [Some("outer"), Some("outer")]),
            (Type, "outer.Local", [Some("outer"), Some("outer")]),
            (Method, "Full.__init__", [Some("Full"), Some("Full")]),
            (Method, "Full.run", [Some("Full.run"), Some("Full")]),
            (Function, "Full.run.step", [Some("Full.run"), Some("Full")]),
            // The constructor stands for a class that has one.
            (Type, "Full", [None, Some("Full")]),
            (Type, "Bare", [Some("Bare"), Some("Bare")]),
            (Module, "", [None, None]),
            (Section, "A > B", [None, None]),
        ] {
            assert_eq!(file.unit_entities(kind, name), expected, "{name}");
        }
    }

    #[test]
    fn gold_names_are_read_like_units() {
        let file = file();
        for (name, expected) in [
            ("outer.inner", Some("outer")),
            ("Full.__init__", Some("Full")),
            ("Full", Some("Full")),
            ("Bare", Some("Bare")),
            ("Bare.__init__", None),
            ("Full.added", None),
        ] {
            assert_eq!(file.function(name), expected, "{name}");
        }
    }
}
