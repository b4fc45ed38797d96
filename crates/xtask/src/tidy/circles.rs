//! Circles of imports between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use syn::visit::Visit;

use super::{Violation, crate_of};
use crate::tree::Tree;

/// Maximum number of files that import each other in a circle.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Circles {
    max_files: usize,
}

/// The names of a module below the root of its crate.
type Path = Vec<String>;

/// Imports and re-exports of one file.
#[derive(Default)]
struct File {
    /// Paths from the root of the crate that the file uses, but for those that it only exports again.
    uses: BTreeSet<Path>,
    /// Names that the file brings into its module, with their paths, for those who take them from there.
    names: BTreeMap<String, Path>,
}

/// Checks the files of each crate, tests aside. A file imports another one by a path that leads to something defined there;
/// declaring a module, or exporting its names again, does not. A parent module combines its children: what it takes from
/// them is not counted, so that they may use what it defines.
pub(super) fn check(tree: &Tree, rule: &Circles) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, BTreeMap<Path, (&str, &str)>> = BTreeMap::new();
    for (path, text) in tree.texts() {
        if let (Some(name), Some(module)) = (crate_of(path), module_of(path)) {
            crates.entry(name).or_default().insert(module, (path, text));
        }
    }
    crates.values().flat_map(|files| check_crate(files, rule)).collect()
}

fn check_crate(files: &BTreeMap<Path, (&str, &str)>, rule: &Circles) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut parsed: BTreeMap<&Path, File> = BTreeMap::new();
    for (module, (path, text)) in files {
        match syn::parse_file(text) {
            Ok(syntax) => {
                parsed.insert(module, read(module, &syntax, files));
            }
            Err(error) => found.push(Violation::new(path, None, format!("cannot be parsed: {error}"))),
        }
    }
    let imports: BTreeMap<&Path, BTreeSet<&Path>> = parsed
        .iter()
        .map(|(module, file)| {
            let targets = file.uses.iter().filter_map(|path| defined_in(path, &parsed, 8));
            (*module, targets.filter(|target| !target.starts_with(module)).collect())
        })
        .collect();
    found.extend(circles(&imports).into_iter().filter(|circle| circle.len() > rule.max_files).map(|circle| {
        let names: Vec<&str> = circle.iter().map(|module| files[*module].0).collect();
        let message = format!(
            "{} files import each other in a circle, expected at most {}; move what the lower ones need below them: {}",
            circle.len(),
            rule.max_files,
            names.join(", ")
        );
        Violation::new(names[0], None, message)
    }));
    found
}

/// The module of a file in `src`; none for tests and other targets.
fn module_of(path: &str) -> Option<Path> {
    let (_, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let file = file.strip_suffix(".rs")?;
    let mut module: Path = file.split('/').map(str::to_owned).collect();
    if module.iter().any(|name| name == "tests" || name == "bin") {
        return None;
    }
    match module.last().map(String::as_str) {
        Some("mod") => drop(module.pop()),
        Some("lib" | "main") if module.len() == 1 => module.clear(),
        _ => {}
    }
    Some(module)
}

/// The longest beginning of `path` that is a module with a file.
fn module_file<'a, T>(path: &[String], files: &'a BTreeMap<Path, T>) -> Option<&'a Path> {
    (0..=path.len()).rev().find_map(|end| files.get_key_value(&path[..end])).map(|(module, _)| module)
}

/// The module in whose file that which `path` names is defined; names that are only exported again are followed.
fn defined_in<'a>(path: &[String], files: &BTreeMap<&'a Path, File>, hops: usize) -> Option<&'a Path> {
    let (module, file) = (0..=path.len()).rev().find_map(|end| files.get_key_value(&path[..end].to_vec()))?;
    match path.get(module.len()).and_then(|name| file.names.get(name)) {
        Some(origin) if hops > 0 => {
            let rest = path[module.len() + 1..].iter().cloned();
            defined_in(&origin.iter().cloned().chain(rest).collect::<Path>(), files, hops - 1)
        }
        _ => Some(module),
    }
}

fn read(module: &Path, syntax: &syn::File, files: &BTreeMap<Path, (&str, &str)>) -> File {
    let mut reader = Reader { module: module.clone(), files, file: File::default() };
    reader.visit_file(syntax);
    reader.file
}

struct Reader<'a> {
    /// The module that is being read, which may be one within the file.
    module: Path,
    files: &'a BTreeMap<Path, (&'a str, &'a str)>,
    file: File,
}

impl Reader<'_> {
    /// The path from the root of the crate; none if it leads to another crate, or to something in scope.
    fn resolve(&self, path: &[String]) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let mut start = self.module.clone();
        match first.as_str() {
            "crate" => start.clear(),
            "self" => {}
            "super" => {
                start.pop()?;
            }
            name => {
                start.push(name.to_owned());
                return (module_file(&start, self.files) == Some(&start))
                    .then(|| [start, rest.to_vec()].concat());
            }
        }
        let mut rest = rest;
        while let Some((first, after)) = rest.split_first() {
            if first != "super" {
                break;
            }
            start.pop()?;
            rest = after;
        }
        start.extend(rest.iter().cloned());
        Some(start)
    }

    fn use_tree(&mut self, tree: &syn::UseTree, path: &mut Path, exported: bool) {
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.use_tree(&step.tree, path, exported);
                path.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.use_tree(item, path, exported))
            }
            syn::UseTree::Glob(_) => self.bring(path, None, exported),
            syn::UseTree::Name(name) => self.bring_name(&name.ident, &name.ident, path, exported),
            syn::UseTree::Rename(name) => self.bring_name(&name.ident, &name.rename, path, exported),
        }
    }

    fn bring_name(&mut self, name: &syn::Ident, known_as: &syn::Ident, path: &mut Path, exported: bool) {
        if name == "self" {
            return self.bring(path, path.last().cloned(), exported);
        }
        path.push(name.to_string());
        self.bring(path, Some(known_as.to_string()), exported);
        path.pop();
    }

    fn bring(&mut self, path: &[String], known_as: Option<String>, exported: bool) {
        let Some(resolved) = self.resolve(path) else { return };
        if let Some(name) = known_as {
            self.file.names.insert(name, resolved.clone());
        }
        if !exported {
            self.file.uses.insert(resolved);
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
        _ => attribute.path().is_ident("test"),
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_some() && !is_test(&module.attrs) {
            self.module.push(module.ident.to_string());
            syn::visit::visit_item_mod(self, module);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            let exported = !matches!(item.vis, syn::Visibility::Inherited);
            self.use_tree(&item.tree, &mut Path::new(), exported);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_test(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let segments: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.file.uses.extend(self.resolve(&segments));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// The largest groups whose members all lead to each other, with at least two members.
fn circles<'a>(imports: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> Vec<BTreeSet<&'a Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = imports
        .keys()
        .map(|start| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![*start]);
            while let Some(targets) = open.pop().and_then(|module| imports.get(module)) {
                open.extend(targets.iter().filter(|target| seen.insert(**target)));
            }
            (*start, seen)
        })
        .collect();
    let circle = |(module, targets): (&&'a Path, &BTreeSet<&'a Path>)| {
        let back =
            targets.iter().filter(|target| reached.get(*target).is_some_and(|back| back.contains(module)));
        back.copied().collect::<BTreeSet<_>>()
    };
    let circles: BTreeSet<BTreeSet<&Path>> =
        reached.iter().map(circle).filter(|circle| circle.len() > 1).collect();
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_rule;

    fn check(files: &[(&str, &str)], found: &[&str]) {
        check_rule(|tree, rules| super::check(tree, &rules.circles), "circles.max_files = 1", files, found);
    }

    #[test]
    fn files_that_import_each_other_are_found() {
        let found = "crates/a/src/low.rs: 3 files import each other in a circle, expected at most 1; move what the lower \
                     ones need below them: crates/a/src/low.rs, crates/a/src/middle.rs, crates/a/src/top.rs";
        check(
            &[
                ("crates/a/src/lib.rs", "mod low; mod middle; mod top; pub use top::Top;"),
                ("crates/a/src/low.rs", "use crate::Top; fn f(_: Top) {}"),
                ("crates/a/src/middle.rs", "fn g() { crate::low::f() }"),
                ("crates/a/src/top.rs", "use super::middle::{self as m}; pub struct Top;"),
            ],
            &[found],
        );
    }

    #[test]
    fn a_parent_combines_its_children() {
        check(
            &[
                ("crates/a/src/lib.rs", "mod parent; fn f() { parent::f() }"),
                ("crates/a/src/parent.rs", "mod child; mod other; pub struct P; pub fn f() { child::g() }"),
                ("crates/a/src/parent/child.rs", "use super::P; pub fn g() { crate::lib_function() }"),
                ("crates/a/src/parent/other.rs", "use super::child::g;"),
            ],
            &[],
        );
    }

    #[test]
    fn declarations_exports_and_tests_are_not_imports() {
        check(
            &[
                ("crates/a/src/lib.rs", "mod low; mod top; pub use low::Low; pub struct Lib;"),
                ("crates/a/src/low.rs", "use crate::Lib; #[cfg(test)] mod tests { use crate::top::Top; }"),
                ("crates/a/src/top.rs", "use crate::Low; use std::fmt; pub struct Top;"),
                ("crates/a/src/top/tests.rs", "use crate::low::Low;"),
            ],
            &[],
        );
    }
}
