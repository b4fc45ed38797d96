//! The modules of the indexed trees: their files, re-exports, and the bases of the types in them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_source::{Import, NameScope, UnitKind, language_named};
use quarry_text::folded;
use quarry_walk::FileFlags;

use super::manifest::{ModulePrefix, module_prefixes};
use super::module::{
    DIRECTORY_FILES, File, Module, Packages, directory, file_parts, imported, is_everything, last_segment,
};
use super::resolve::Candidate;
use super::stored::StoredReferences;
use super::words::is_word_part;
use crate::Index;
use crate::ranking::rules::{is_definition, last_part};

/// Looks up modules and types in the trees of an index.
pub(super) struct Modules<'a> {
    index: &'a Index,
    trees: Mutex<HashMap<(usize, &'static str), Arc<TreeModules>>>,
    bases: Mutex<HashMap<TypeKey, Arc<[String]>>>,
}

/// The tree, family of languages and name of a type.
type TypeKey = (usize, &'static str, String);

/// The modules of one tree, in one family of languages.
pub(super) struct TreeModules {
    /// Files, by row, by the last part of their [`file_parts`].
    files: HashMap<String, Vec<usize>>,
    /// Parts of their paths, and pairs of successive ones with a `/` between them.
    parts: HashSet<String>,
    pairs: HashSet<String>,
    /// The longest first.
    prefixes: Vec<ModulePrefix>,
    /// Directories with a manifest.
    packages: BTreeSet<String>,
    /// Set if modules without a prefix are outside of the tree.
    pub is_complete: bool,
}

/// Directories of a package that contain its root module.
pub(super) const SOURCE_DIRECTORIES: &[&str] = &["lib", "src"];

/// Maximum number of modules between an import and a definition.
const MAX_STEPS: usize = 8;

/// Maximum number of files that are read for one import.
const MAX_FILES: usize = 64;

/// Maximum number of types that are visited for the bases of one.
const MAX_BASES: usize = 64;

impl<'a> Modules<'a> {
    pub fn new(index: &'a Index) -> Self {
        Self { index, trees: Mutex::default(), bases: Mutex::default() }
    }

    pub fn tree_modules(&self, file: &File) -> Arc<TreeModules> {
        let key = (file.tree, file.language.family());
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.entry(key).or_insert_with(|| Arc::new(TreeModules::read(self.index, file))).clone()
    }

    /// Returns whether a tree may contain a module, as seen from a file.
    pub fn has(&self, module: &Module, from: &File) -> bool {
        if let Some(is_in_tree) = module.is_in_tree() {
            return is_in_tree;
        }
        let tree = self.tree_modules(from);
        let parts = &module.parts;
        if from.language.name_scope() == NameScope::Directory {
            // Directories are imported by their whole path.
            return false;
        }
        match (parts.first(), parts.get(1)) {
            (None, _) => false,
            // The first part of a namespace, such as `com`, says little.
            (Some(first), Some(second))
                if from.language.name_scope() == NameScope::Tree && parts.len() > 2 =>
            {
                tree.pairs.contains(&format!("{first}/{second}"))
            }
            (Some(first), _) => tree.parts.contains(first.as_str()),
        }
    }

    /// Results of `matching` in the modules that a module re-exports `name` from: those that its files import the
    /// name, or everything, from.
    pub fn through<'c>(
        &self,
        module: &Module,
        name: &str,
        from: &File,
        matching: &dyn Fn(&Module) -> Vec<Candidate<'c>>,
    ) -> Vec<Candidate<'c>> {
        self.pass_on(module, name, from, matching, &mut HashSet::new(), MAX_STEPS)
    }

    fn pass_on<'c>(
        &self,
        module: &Module,
        name: &str,
        from: &File,
        matching: &dyn Fn(&Module) -> Vec<Candidate<'c>>,
        seen: &mut HashSet<(usize, String)>,
        n_steps: usize,
    ) -> Vec<Candidate<'c>> {
        if n_steps == 0 {
            return Vec::new();
        }
        for n_parts in (0..=module.parts.len()).rev() {
            let (parts, rest) = module.parts.split_at(n_parts);
            let next = rest.first().map_or(name, String::as_str);
            let mut found: Vec<Candidate> = Vec::new();
            for (row, path) in self.files_of(&module.with_parts(parts), from) {
                if seen.len() >= MAX_FILES || !seen.insert((row, next.to_owned())) {
                    continue;
                }
                let file = File { path, ..*from };
                for target in self.targets(row, &file, next, rest) {
                    let direct = matching(&target);
                    found.extend(match direct.is_empty() {
                        true => self.pass_on(&target, name, &file, matching, seen, n_steps - 1),
                        false => direct,
                    });
                }
            }
            if !found.is_empty() {
                found.sort_by_key(|candidate| candidate.unit);
                found.dedup();
                return found;
            }
        }
        Vec::new()
    }

    /// The modules that a file passes `next` on from, followed by the parts after the first of `rest`.
    fn targets(&self, row: usize, file: &File, next: &str, rest: &[String]) -> Vec<Module> {
        let mut imports = self.imports(row);
        // Tests import for themselves.
        imports.retain(|import| !self.is_in_tests(import, row));
        let mut targets = Vec::new();
        if let Some((imported_from, name)) = imported(next, &imports) {
            let mut target = Module::new(imported_from, file, self);
            match name {
                Some(name) if !rest.is_empty() && name != "default" => target.parts.push(name.to_owned()),
                None if rest.is_empty() => _ = target.parts.pop(),
                _ => {}
            }
            target.parts.extend(rest.iter().skip(1).cloned());
            targets.push(target);
        }
        let all = imports.iter().filter(|import| import.names.iter().any(is_everything));
        for import in all.filter(|import| !is_only_around(&import.module)) {
            let mut target = Module::new(&import.module, file, self);
            // A module inside of a file may import all of that file, which passes on nothing.
            let is_one_module = !file.language.has_global_modules();
            if is_one_module && self.files_of(&target, file).iter().any(|(other, _)| *other == row) {
                continue;
            }
            target.parts.extend_from_slice(rest);
            targets.push(target);
        }
        targets
    }

    /// Returns whether an import is in the test code of a file that is not a test itself.
    fn is_in_tests(&self, import: &Import, row: usize) -> bool {
        let table = &self.index.table;
        if table.files[row].flags().contains(FileFlags::TEST) {
            return false;
        }
        let units = &table.units[self.index.units_of_files[row].clone()];
        let mut around =
            units.iter().filter(|unit| (unit.start_line..=unit.end_line).contains(&import.line)).peekable();
        around.peek().is_some() && around.all(|unit| self.index.flags(unit).contains(FileFlags::TEST))
    }

    /// The imports of a file, as it was indexed.
    fn imports(&self, row: usize) -> Vec<Import> {
        let file = &self.index.table.files[row];
        let language = language_named(self.index.table.text(file.language));
        let stored =
            language.and_then(|language| StoredReferences::read(self.index.table.calls(file), language));
        stored.map_or_else(Vec::new, |stored| stored.imports)
    }

    /// The files of a module, by row, with their paths.
    pub(super) fn files_of(&self, module: &Module, from: &File) -> Vec<(usize, &'a str)> {
        let tree = self.tree_modules(from);
        let with_path = |row: &usize| Some((*row, self.index.outermost_root_of(*row)?.1));
        let named = |last: &str| {
            let rows = tree.files.get(last).into_iter().flatten().filter_map(with_path);
            rows.filter(|(_, path)| module.is_file(path)).collect::<Vec<_>>()
        };
        let mut found = Vec::new();
        if let Some(last) = module.parts.last().or(module.below.as_ref().and_then(|below| below.last())) {
            found = named(last);
            // Some names of files are mostly those of their directory.
            if let [.., around, last] = module.parts.as_slice()
                && found.is_empty()
                && DIRECTORY_FILES.contains(&last.as_str())
            {
                found = named(around);
            }
        }
        if found.is_empty() && module.parts.is_empty() && module.below.is_some() {
            found = SOURCE_DIRECTORIES.iter().flat_map(|directory| named(directory)).collect();
        }
        if found.is_empty() && from.language.has_global_modules() && !module.parts.is_empty() {
            let name = module.parts.join(".");
            let types = self.types(last_part(&name), from);
            let named = types.iter().filter(|unit| self.index.name_of_unit(**unit) == name);
            found.extend(named.filter_map(|unit| with_path(&(self.index.table.units[*unit].file as usize))));
        }
        found
    }

    /// The modules inside of a file (given by its row) that contain something with a qualified name: its parts before
    /// the first definition.
    pub fn modules_around<'n>(&self, row: usize, name: &'n str) -> Vec<&'n str> {
        let units = &self.index.table.units[self.index.units_of_files[row].clone()];
        let is_defined = |name: &str| {
            units.iter().any(|unit| is_definition(unit.kind()) && self.index.table.text(unit.name) == name)
        };
        let mut end = 0;
        let is_module = |part: &&str| {
            end += part.len();
            let whole = &name[..end];
            end += 1;
            // The declaration of a type may be in another file.
            !part.is_empty() && !part.starts_with(char::is_uppercase) && !is_defined(whole)
        };
        name.split('.').take_while(is_module).collect()
    }

    /// The types of a tree with a name, in the family of a file.
    fn types(&self, name: &str, from: &File) -> Vec<usize> {
        let units = self.index.lexical.definitions(&folded(name)).unwrap_or_default();
        let is_type = |unit: &usize| {
            let record = &self.index.table.units[*unit];
            let language = language_named(self.index.table.text(record.language));
            record.kind() == UnitKind::Type
                && last_part(self.index.table.text(record.name)) == name
                && language.is_some_and(|language| language.family() == from.language.family())
                && self.index.is_first_part(*unit)
                && self
                    .index
                    .outermost_root_of(record.file as usize)
                    .is_some_and(|(root, _)| root.number == from.tree)
        };
        units.into_iter().filter(is_type).collect()
    }

    /// Names of types that a type is declared with, or includes: its bases, if they are types.
    fn bases(&self, name: &str, from: &File) -> Arc<[String]> {
        let key = (from.tree, from.language.family(), name.to_owned());
        let known = self.bases.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let mut found: Vec<String> = Vec::new();
            let mut add = |base: &str| {
                if base != name && !found.iter().any(|known| known == base) {
                    found.push(base.to_owned());
                }
            };
            for unit in self.types(name, from) {
                let record = &self.index.table.units[unit];
                bases_in(self.index.table.text(record.signature), name).into_iter().for_each(&mut add);
                let imports = self.imports(record.file as usize);
                let is_included = |import: &&Import| {
                    import.line > record.start_line && import.names.iter().any(is_everything)
                };
                imports.iter().filter(is_included).for_each(|import| add(last_segment(&import.module)));
            }
            let found: Arc<[String]> = found.into();
            self.bases.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
            found
        })
    }

    /// The members that a type inherits, from the nearest of its bases that has any; `members` gives those of a type.
    pub fn inherited<'c>(
        &self,
        name: &str,
        from: &File,
        members: &dyn Fn(&str) -> Vec<Candidate<'c>>,
    ) -> Vec<Candidate<'c>> {
        let mut seen: HashSet<String> = HashSet::from([name.to_owned()]);
        let mut level = vec![name.to_owned()];
        while !level.is_empty() && seen.len() < MAX_BASES {
            let bases: Vec<String> = level
                .iter()
                .flat_map(|name| self.bases(name, from).to_vec())
                .filter(|base| seen.insert(base.clone()))
                .collect();
            let found: Vec<Candidate> = bases.iter().flat_map(|base| members(base)).collect();
            if !found.is_empty() {
                return found;
            }
            level = bases;
        }
        Vec::new()
    }
}

impl TreeModules {
    fn read(index: &Index, of: &File) -> Self {
        let mut files: HashMap<String, Vec<usize>> = HashMap::new();
        let (mut parts, mut pairs, mut directories): (HashSet<String>, _, _) =
            (HashSet::new(), HashSet::new(), BTreeSet::new());
        let mut packages = Packages::new(index);
        let is_of_family = |row: usize| {
            let language = language_named(index.table.text(index.table.files[row].language));
            language.is_some_and(|language| language.family() == of.language.family())
        };
        for row in (0..index.table.files.len()).filter(|row| is_of_family(*row)) {
            let Some((root, path)) = index.outermost_root_of(row) else { continue };
            if root.number != of.tree {
                continue;
            }
            let of_file = file_parts(path);
            files.entry(of_file.last().copied().unwrap_or_default().to_owned()).or_default().push(row);
            let inside = match packages.start(row, path) {
                // A package is imported by its whole name, which begins with its own directory.
                Some(start) => {
                    of_file.iter().skip(file_parts(&path[..start]).len()).take(1).copied().collect()
                }
                None => of_file.clone(),
            };
            for (at, part) in inside.iter().enumerate() {
                if !parts.contains(*part) {
                    parts.insert((*part).to_owned());
                }
                if let Some(next) = inside.get(at + 1) {
                    pairs.insert(format!("{part}/{next}"));
                }
            }
            let mut around = directory(path);
            while directories.insert(around) && !around.is_empty() {
                around = directory(around);
            }
        }
        let (mut prefixes, mut with_manifest, mut is_complete) = (Vec::new(), BTreeSet::new(), false);
        for directory in directories {
            for manifest in of.language.manifests() {
                for file in &manifest.files {
                    let path = [directory, file].map(str::trim_end).join("/");
                    let Ok(text) = index.text_in(of.tree, path.trim_start_matches('/')) else { continue };
                    let text = String::from_utf8_lossy(text.bytes());
                    with_manifest.insert(directory.to_owned());
                    let found = module_prefixes(manifest, directory, file, &text);
                    is_complete |= manifest.is_complete && !found.is_empty();
                    prefixes.extend(found);
                }
            }
        }
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.name.len()));
        Self { files, parts, pairs, prefixes, packages: with_manifest, is_complete }
    }

    /// The path that a module stands for by a manifest, as seen from a file, and the rest of its name.
    pub fn mapped<'m>(&self, module: &'m str, from: &File) -> Option<(&[String], &'m str)> {
        let matching =
            self.prefixes.iter().filter_map(|prefix| Some((prefix, rest_after(module, &prefix.name)?)));
        let existing = matching.filter(|(prefix, _)| match prefix.path.as_slice() {
            [] => true,
            [.., last] => self.parts.contains(last.as_str()),
        });
        // The nearest one of the most specific ones.
        let nearness = |prefix: &ModulePrefix| {
            let common =
                prefix.directory.split('/').zip(from.path.split('/')).take_while(|(a, b)| a == b).count();
            (prefix.name.len(), common, prefix.path.len())
        };
        let (prefix, rest) = existing.max_by_key(|(prefix, _)| nearness(prefix))?;
        let is_directory_file =
            prefix.path.last().is_some_and(|last| DIRECTORY_FILES.contains(&last.as_str()));
        Some((&prefix.path[..prefix.path.len() - usize::from(is_directory_file)], rest))
    }

    /// The directory of the package that a file belongs to, if a manifest says so.
    pub fn package_around(&self, path: &str) -> Option<&str> {
        let mut around = directory(path);
        loop {
            if let Some(found) = self.packages.get(around) {
                return Some(found);
            }
            if around.is_empty() {
                return None;
            }
            around = directory(around);
        }
    }
}

/// Returns whether the name of a module is only `super`, `self` or `crate`, as in the `use super::*` of Rust: it stands
/// for a module around the import, whose names are mostly imported for use, not passed on. What it is depends on the
/// module inside of the file that has the import, which is not known.
fn is_only_around(module: &str) -> bool {
    module.split("::").all(|part| matches!(part, "crate" | "self" | "super"))
}

/// The rest of the name of a module after a prefix; names that differ in hyphens and underscores are the same.
fn rest_after<'m>(module: &'m str, prefix: &str) -> Option<&'m str> {
    let is_same = |(a, b): (u8, u8)| a == b || matches!((a, b), (b'_', b'-'));
    if module.len() < prefix.len() || !module.bytes().zip(prefix.bytes()).all(is_same) {
        return None;
    }
    let rest = module.get(prefix.len()..)?;
    let is_separator = |c: char| !is_word_part(c) && c != '-';
    (rest.is_empty() || rest.starts_with(is_separator) || prefix.ends_with(is_separator)).then_some(rest)
}

/// The names that a type may be derived from, in the declaration of a type: those outside of brackets, and those
/// in parentheses that hold nothing but names, as in Python.
fn bases_in<'s>(signature: &'s str, name: &str) -> Vec<&'s str> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0usize, None);
    for (at, c) in signature.char_indices().chain([(signature.len(), ' ')]) {
        if depth == 0 && is_word_part(c) {
            start.get_or_insert(at);
            continue;
        }
        if let Some(start) = start.take() {
            // The last part of a path is its name.
            if !signature[at..].starts_with(['.']) && !signature[at..].starts_with("::") {
                found.push(&signature[start..at]);
            }
        }
        let rest = &signature[at..];
        match c {
            '(' if depth == 0 && signature[..at].trim_end().ends_with(name) => {
                let inside = rest.split_once(')').map_or("", |(inside, _)| &inside[1..]);
                let is_path =
                    |item: &&str| !item.is_empty() && item.chars().all(|c| is_word_part(c) || c == '.');
                let items = inside.split(',').map(|item| item.split('[').next().unwrap_or_default().trim());
                found.extend(items.filter(is_path).map(last_part));
                depth += 1;
            }
            '(' | '[' | '{' => depth += 1,
            '<' if rest.contains('>') => depth += 1,
            '>' if signature[..at].ends_with(['-', '=']) => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found.retain(|word| *word != name);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_in_declarations() {
        for (signature, name, expected) in [
            (
                "class Cart(Base, shop.Mixin, Generic[T], metaclass=Meta):",
                "Cart",
                &["Base", "Mixin", "Generic"][..],
            ),
            (
                "export class Cart<T extends Item> extends Base<T> implements Named {",
                "Cart",
                &["Base", "Named"],
            ),
            ("class Cart(val item: Item, n: Int) : Base(item), Named {", "Cart", &["Base", "Named"]),
            ("class Cart < Shop::Base", "Cart", &["Base"]),
            ("class Cart : public shop::Base, private Named<int> {", "Cart", &["Base", "Named"]),
            ("impl<T: Clone> Named for Cart<T> {", "Cart", &["Named"]),
            ("public record Cart(Item item) : Base {", "Cart", &["Base"]),
        ] {
            let found = bases_in(signature, name);
            assert_eq!(
                found.iter().filter(|word| expected.contains(word)).count(),
                expected.len(),
                "{signature}: {found:?}"
            );
            assert!(
                !found.iter().any(|word| ["Item", "Meta", "T", "Clone", "Int"].contains(word)),
                "{signature}: {found:?}"
            );
        }
    }

    #[test]
    fn prefixes_end_at_separators() {
        for (module, prefix, expected) in [
            ("@shop/cart", "@shop/cart", Some("")),
            ("@shop/cart/price", "@shop/cart", Some("/price")),
            ("@shop/cart-old", "@shop/cart", None),
            ("shop_cart::Cart", "shop-cart", Some("::Cart")),
            ("@/a", "@/", Some("a")),
            ("Shop\\Cart", "Shop\\", Some("Cart")),
            ("sho", "shop", None),
        ] {
            assert_eq!(rest_after(module, prefix), expected, "{module} {prefix}");
        }
    }
}
