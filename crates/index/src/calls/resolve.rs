//! The possible targets of a call, determined from names, scopes and imports only.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use quarry_source::{Call, Import, Language, NameScope, UnitKind};

use super::module::{File, Module, directory, imported, is_everything, last_segment, own_parts};
use super::modules::Modules;
use super::receiver::{Surroundings, declared, path_words};
use crate::ranking::rules::last_part;

/// A definition with the called name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate<'a> {
    pub unit: usize,
    /// The tree that contains it: calls do not cross trees.
    pub tree: usize,
    /// Path relative to the tree, `/` between its parts.
    pub path: &'a str,
    /// Length of the part of the path that is outside of its package, if it is in one that is imported by its whole
    /// name only.
    pub package_start: Option<usize>,
    /// Name qualified within the file.
    pub name: &'a str,
    pub kind: UnitKind,
    pub language: Language,
}

impl Candidate<'_> {
    /// The containing definition, with its location.
    fn container(&self) -> Self {
        Self { name: container(self.name), ..*self }
    }
}

/// All definitions with one name.
#[derive(Default)]
pub(crate) struct Candidates<'a> {
    /// By tree and family of languages.
    families: HashMap<(usize, &'static str), Family<'a>>,
}

/// Definitions with one name in a tree, in languages that can call each other.
#[derive(Default)]
struct Family<'a> {
    all: Vec<Candidate<'a>>,
    /// Top-level definitions.
    free: Vec<Candidate<'a>>,
    /// Definitions nested in something.
    methods: Vec<Candidate<'a>>,
    /// Nested definitions by the last part of the name of their container.
    owners: HashMap<&'a str, Vec<Candidate<'a>>>,
    /// The units of `methods`, shared by all calls that may target any of them.
    any_method: Arc<[usize]>,
}

impl<'a> Candidates<'a> {
    pub fn new(definitions: impl IntoIterator<Item = Candidate<'a>>) -> Self {
        let mut families: HashMap<(usize, &'static str), Family> = HashMap::new();
        for candidate in definitions {
            let family = families.entry((candidate.tree, candidate.language.family())).or_default();
            family.all.push(candidate);
            let container = container(candidate.name);
            if container.is_empty() {
                family.free.push(candidate);
            }
            if candidate.kind == UnitKind::Method || !container.is_empty() {
                family.methods.push(candidate);
                if !container.is_empty() {
                    family.owners.entry(last_part(container)).or_default().push(candidate);
                }
            }
        }
        for family in families.values_mut() {
            family.any_method = family.methods.iter().map(|candidate| candidate.unit).collect();
        }
        Self { families }
    }
}

impl<'a> Family<'a> {
    /// Members of a type, by the last part of its name.
    fn members_of_type(&self, name: &str) -> &[Candidate<'a>] {
        self.owners.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Members of the type that a qualified name ends with.
    fn members_of_same_type(&self, name: &str) -> &[Candidate<'a>] {
        if name.is_empty() { &[] } else { self.members_of_type(last_part(name)) }
    }

    /// The members of a type, or those that it inherits.
    fn members(&self, name: &str, site: &Site) -> Vec<Candidate<'a>> {
        match self.members_of_type(name) {
            [] => self.inherited(name, site),
            members => members.to_vec(),
        }
    }

    fn inherited(&self, name: &str, site: &Site) -> Vec<Candidate<'a>> {
        site.modules.inherited(name, &site.file, &|base| self.members_of_type(base).to_vec())
    }

    /// The members of the declared type of a variable or field.
    fn declared<'s>(&self, receiver: &'s str, site: &Site<'s>) -> Option<Vec<Candidate<'a>>> {
        let members = |word: &str| {
            let members = match word.starts_with(char::is_uppercase) {
                true => self.members(word, site),
                false => self.members_of_type(word).to_vec(),
            };
            (!members.is_empty()).then_some(members)
        };
        declared(receiver, &site.surroundings, &members)
    }

    /// Every method; where there is none, every function, since a receiver may be a module.
    fn possible(&self) -> Resolution {
        match self.any_method.is_empty() {
            true => by_name(&self.free),
            false => Resolution { units: self.any_method.clone(), is_certain: false },
        }
    }
}

/// The location of a call.
pub(crate) struct Site<'a> {
    pub file: File<'a>,
    /// The row of the file.
    pub row: usize,
    pub modules: &'a Modules<'a>,
    /// Qualified name of the unit that contains the call; empty outside of definitions.
    pub name: &'a str,
    /// Set if `::` is between the receiver and the called name.
    pub follows_path: bool,
    pub imports: &'a [Import],
    pub surroundings: Surroundings<'a>,
}

/// Possible meanings of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// Numbers of units, ascending.
    pub units: Arc<[usize]>,
    /// True if scopes or imports determine the target; otherwise only the name matches, and the target may be outside
    /// of the tree.
    pub is_certain: bool,
}

/// Receivers that refer to the enclosing type.
const SELF_NAMES: &[&str] = &["self", "this", "cls", "Self", "$this", "static", "@self", "me", "Me"];
/// Receivers that refer to a base of the enclosing type.
const BASE_NAMES: &[&str] = &["super", "super()"];

/// The name of the callee in its definition: for an alias, the imported name.
pub(crate) fn name_of<'a>(call: &'a Call, imports: &'a [Import]) -> &'a str {
    let names = imports.iter().flat_map(|import| &import.names);
    let is_alias = |alias: &Option<String>| alias.as_deref() == Some(call.callee.as_str());
    let mut renamed =
        names.filter(|name| is_alias(&name.alias) && name.name != "default").map(|name| &name.name);
    match (&call.receiver, renamed.next_back()) {
        (None, Some(name)) => name,
        _ => &call.callee,
    }
}

/// The possible targets of a call among `candidates`, all definitions with the called name. Empty if it calls
/// something outside of the tree, as far as can be determined.
pub(crate) fn resolve<'s>(call: &'s Call, site: &Site<'s>, candidates: &Candidates) -> Resolution {
    let family = candidates.families.get(&(site.file.tree, site.file.language.family()));
    let Some(family) = family else { return Resolution::default() };
    match &call.receiver {
        None => resolve_bare(&call.callee, site, &family.all),
        Some(receiver) => resolve_member(call, receiver, site, family),
    }
}

/// A call of a bare name.
fn resolve_bare(callee: &str, site: &Site, known: &[Candidate]) -> Resolution {
    let free: Vec<Candidate> =
        known.iter().filter(|candidate| candidate.kind != UnitKind::Method).copied().collect();
    if let Some((module, name)) = imported(callee, site.imports)
        && (name.is_some() || last_segment(module) == callee)
    {
        let mut module = Module::new(module, &site.file, site.modules);
        let mut found = in_module(&module, callee, site, known);
        if name.is_none() && found.is_none() && module.parts.len() > 1 {
            // The last part may be the name of a function instead of a module.
            module.parts.pop();
            found = in_module(&module, callee, site, known);
        }
        // A member of a type may be imported from a type that inherits it.
        let inherited = |owner: &String| {
            let found = site.modules.inherited(owner, &site.file, &|base| members_of(known, base));
            (!found.is_empty()).then(|| nearest(site, &found, true))
        };
        found = found.or_else(|| module.parts.last().and_then(inherited));
        return found.unwrap_or_else(|| match site.modules.has(&module, &site.file) {
            true => by_name(if free.is_empty() { known } else { &free }),
            // In some languages, the module of a type has the type's name.
            false if name.is_none() => by_name(known),
            false => Resolution::default(),
        });
    }
    let around = container(site.name);
    let in_scope = |candidate: &&Candidate| {
        candidate.path == site.file.path
            && is_inside(site.name, container(candidate.name))
            && (candidate.kind != UnitKind::Method || site.file.language.calls_own_methods())
    };
    let here: Vec<Candidate> = known.iter().filter(in_scope).copied().collect();
    if !here.is_empty() {
        // The innermost scope that contains both.
        let depth = |candidate: &Candidate| common_parts(site.name, container(candidate.name));
        let deepest = here.iter().map(depth).max().unwrap_or_default();
        return certain(here.into_iter().filter(|candidate| depth(candidate) == deepest));
    }
    let has_own = site.file.language.calls_own_methods() && !around.is_empty();
    let members = |name: &str| match has_own {
        true => members_of(known, name),
        false => Vec::new(),
    };
    if let Some(found) = own_members(callee, around, site, known, &members) {
        return found;
    }
    match site.file.language.name_scope() {
        NameScope::File if has_wildcard_import_of_tree(site) => {
            by_name(if free.is_empty() { known } else { &free })
        }
        NameScope::File => Resolution::default(),
        NameScope::Directory => {
            let beside = |candidate: &Candidate| directory(candidate.path) == directory(site.file.path);
            certain(free.into_iter().filter(beside))
        }
        NameScope::Tree => {
            let found = nearest(site, &free, true);
            if found.units.is_empty() && site.file.language.calls_own_methods() {
                // Possibly of an unknown base type.
                return by_name(known);
            }
            found
        }
    }
}

/// The methods of a type.
fn members_of<'a>(known: &[Candidate<'a>], name: &str) -> Vec<Candidate<'a>> {
    let is_member =
        |member: &&Candidate| member.kind == UnitKind::Method && same_type(container(member.name), name);
    known.iter().filter(is_member).copied().collect()
}

/// The members of the type around a call that it calls by their name, or through a reference to itself: its own ones
/// in the same file, otherwise those that are imported wholesale, otherwise those of its bases or of another part of
/// it.
fn own_members<'a>(
    name: &str,
    around: &str,
    site: &Site,
    known: &[Candidate<'a>],
    members: &dyn Fn(&str) -> Vec<Candidate<'a>>,
) -> Option<Resolution> {
    let own = members(around);
    let here: Vec<Candidate> = own.iter().filter(|member| member.path == site.file.path).copied().collect();
    if !here.is_empty() {
        return Some(nearest(site, &here, true));
    }
    let wholesale = imported_wholesale(name, site, known);
    if !wholesale.is_empty() {
        return Some(nearest(site, &wholesale, true));
    }
    let mut found = site.modules.inherited(last_part(around), &site.file, members);
    // Another type may have the same name.
    found.extend(own);
    (!found.is_empty()).then(|| nearest(site, &found, true))
}

/// The modules that are imported with all their members.
fn wildcard_modules(site: &Site) -> Vec<Module> {
    let is_wholesale = |import: &&Import| {
        import.names.iter().any(is_everything)
            || import.names.is_empty() && site.file.language.name_scope() != NameScope::File
    };
    let imports = site.imports.iter().filter(is_wholesale);
    imports.map(|import| Module::new(&import.module, &site.file, site.modules)).collect()
}

/// Returns true if a module of the tree is imported with all its members, some of which may not be known.
fn has_wildcard_import_of_tree(site: &Site) -> bool {
    wildcard_modules(site).iter().any(|module| site.modules.has(module, &site.file))
}

/// The candidates in modules that are imported with all their members, or in those that these pass on.
fn imported_wholesale<'a>(name: &str, site: &Site, candidates: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let modules = wildcard_modules(site);
    let is_in = |candidate: &&Candidate| modules.iter().any(|module| module.level(candidate) > 1);
    let found: Vec<Candidate> = candidates.iter().filter(is_in).copied().collect();
    if !found.is_empty() {
        return found;
    }
    if site.file.language.name_scope() != NameScope::File {
        let types = modules.iter().filter_map(|module| module.parts.last());
        let inherited =
            |owner: &String| site.modules.inherited(owner, &site.file, &|base| members_of(candidates, base));
        return types.flat_map(inherited).collect();
    }
    let matching = |module: &Module| best_matches(module, candidates, 2);
    modules.iter().flat_map(|module| site.modules.through(module, name, &site.file, &matching)).collect()
}

/// The members of types that a file may name without importing each of them.
fn reachable_members<'a>(name: &str, site: &Site, members: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let reaches = |candidate: &Candidate| match site.file.language.name_scope() {
        NameScope::File => candidate.path == site.file.path,
        NameScope::Directory => directory(candidate.path) == directory(site.file.path),
        NameScope::Tree => true,
    };
    let is_in_reach = |member: &&Candidate| {
        reaches(member) || !imported_wholesale(name, site, &[member.container()]).is_empty()
    };
    members.iter().filter(is_in_reach).copied().collect()
}

/// The members of a type that is imported from a module which does not contain it: a module may pass on the types of
/// others. Elsewhere, a type is only of the same name.
fn reexported(module: &Module, name: &str, site: &Site, members: &[Candidate]) -> Resolution {
    let matching = |module: &Module| {
        members.iter().filter(|member| module.level(&member.container()) > 1).copied().collect::<Vec<_>>()
    };
    let mut found = matching(module);
    if found.is_empty() || n_definitions(&found) > 1 {
        let through = site.modules.through(module, name, &site.file, &matching);
        found = if through.is_empty() { found } else { through };
    }
    if found.is_empty() { by_name(members) } else { nearest(site, &found, true) }
}

/// A call of a name with a receiver or qualifier.
fn resolve_member<'s>(call: &'s Call, receiver: &'s str, site: &Site<'s>, family: &Family) -> Resolution {
    // Where names are known in one file only, what is before `::` is a type or a module, never a value.
    let is_module = site.follows_path && site.file.language.name_scope() == NameScope::File;
    if is_module {
        if let Some(found) = in_module_around(call, receiver, site, family) {
            return found;
        }
        if matches!(receiver, "self" | "super") {
            return by_name(if family.free.is_empty() { &family.all } else { &family.free });
        }
    }
    let around = enclosing_type(site, family);
    if SELF_NAMES.contains(&receiver) {
        let members = |name: &str| family.members_of_same_type(name).to_vec();
        let own = own_members(&call.callee, around, site, &family.methods, &members);
        return own.unwrap_or_else(|| family.possible());
    }
    if BASE_NAMES.contains(&receiver) || site.file.language.base_names().iter().any(|name| name == receiver) {
        let inherited = family.inherited(last_part(around), site);
        if !inherited.is_empty() {
            return nearest(site, &inherited, true);
        }
        let others = family.methods.iter().filter(|candidate| !same_type(container(candidate.name), around));
        return Resolution { units: others.map(|candidate| candidate.unit).collect(), is_certain: false };
    }
    let words = path_words(receiver);
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return family.possible() };
    // The value of a call may be of any type, wherever the function is.
    let is_path = !receiver.contains(['(', '[', '{']);
    if let Some((imported_from, name)) = imported(first, site.imports) {
        let mut module = Module::new(imported_from, &site.file, site.modules);
        let is_in_tree = site.modules.has(&module, &site.file);
        module.parts.extend(name.filter(|name| *name != "default").map(str::to_owned));
        module.parts.extend(words[1..].iter().map(|word| (*word).to_owned()));
        if is_path && let Some(found) = in_module(&module, &call.callee, site, &family.all) {
            return found;
        }
        let real_name =
            if words.len() == 1 { name.filter(|name| *name != "default").unwrap_or(first) } else { last };
        if is_path && !family.members_of_type(real_name).is_empty() {
            module.parts.pop_if(|part| part.as_str() == real_name);
            return reexported(&module, real_name, site, family.members_of_type(real_name));
        }
        if is_path && is_in_tree {
            let inherited = family.inherited(real_name, site);
            if !inherited.is_empty() {
                return nearest(site, &inherited, true);
            }
        }
        if is_path && let Some(members) = family.declared(receiver, site) {
            return certain(members.into_iter());
        }
        return if is_in_tree || !is_path { family.possible() } else { Resolution::default() };
    }
    let is_package =
        || is_module && site.modules.tree_modules(&site.file).mapped(receiver, &site.file).is_some();
    if receiver.contains("::") || matches!(*first, "crate" | "super") || is_package() {
        let module = Module::new(receiver, &site.file, site.modules);
        if let Some(found) = in_module(&module, &call.callee, site, &family.all) {
            return found;
        }
        let members = family.members(last, site);
        return match members.is_empty() {
            false => by_name(&members),
            true if site.modules.has(&module, &site.file) => by_name(&family.all),
            true => Resolution::default(),
        };
    }
    if is_path && (words.len() > 1 || site.file.language.has_global_modules()) {
        // A qualified name needs no import.
        let module = Module::named(&words);
        let found: Vec<Candidate> = best_matches(&module, &family.all, 3);
        let is_whole = |candidate: &Candidate| words.len() > 1 || container(candidate.name) == *first;
        if !found.is_empty() && found.iter().all(is_whole) {
            return nearest(site, &found, true);
        }
    }
    let members = if is_path { family.members(last, site) } else { family.members_of_type(last).to_vec() };
    if !members.is_empty() {
        let reached = reachable_members(&call.callee, site, &members);
        return if reached.is_empty() { by_name(&members) } else { nearest(site, &reached, true) };
    }
    if !receiver.ends_with([')', ']'])
        && let Some(members) = family.declared(receiver, site)
    {
        return nearest(site, &members, true);
    }
    // A module may be used without an import, as in Rust and Erlang, and so may a variable.
    let named = Module::named(&[last]);
    let is_named = |candidate: &&Candidate| named.level(candidate) == 3;
    let free: Vec<usize> = match words.len() {
        1 => family.free.iter().filter(is_named).map(|candidate| candidate.unit).collect(),
        _ => Vec::new(),
    };
    if free.is_empty() {
        return family.possible();
    }
    let units: BTreeSet<usize> = free.into_iter().chain(family.any_method.iter().copied()).collect();
    Resolution { units: units.into_iter().collect(), is_certain: false }
}

/// The candidates in a module whose path begins at the module of the call: with `self`, `super`, or a module in that
/// one. `None` if it is another path, or there are none.
fn in_module_around(call: &Call, receiver: &str, site: &Site, family: &Family) -> Option<Resolution> {
    if receiver.contains(['(', '[', '{', '<']) {
        return None;
    }
    let words = path_words(receiver);
    let first = *words.first()?;
    let is_relative = matches!(first, "self" | "super");
    let is_other = || first == "crate" || first.starts_with(char::is_uppercase);
    if !is_relative && (is_other() || imported(first, site.imports).is_some()) {
        return None;
    }
    let file = own_parts(site.file.path);
    let inside = site.modules.modules_around(site.row, site.name);
    let around = |n_inside: usize| {
        let mut parts: Vec<&str> = [file.as_slice(), &inside[..n_inside]].concat();
        for word in &words {
            match *word {
                "self" => {}
                "super" => _ = parts.pop(),
                part => parts.push(part),
            }
        }
        let module = Module::at(parts.into_iter().map(str::to_owned).collect());
        let mut found = best_matches(&module, &family.all, 3);
        if found.is_empty() {
            let passed_on = |module: &Module| best_matches(module, &family.all, 2);
            found = site.modules.through(&module, &call.callee, &site.file, &passed_on);
        }
        (!found.is_empty()).then(|| nearest(site, &found, true))
    };
    match is_relative {
        true => around(inside.len()),
        // A module inside of the file often imports all that is around it.
        false => (0..=inside.len()).rev().find_map(around),
    }
}

/// The candidates in a module that match it best, or else in those that it passes them on from; `None` if there are
/// none.
fn in_module(module: &Module, name: &str, site: &Site, known: &[Candidate]) -> Option<Resolution> {
    let direct = best_matches(module, known, 3);
    let found = nearest(site, &direct, true);
    if found.is_certain {
        return Some(found);
    }
    let matching = |module: &Module| best_matches(module, known, 2);
    let through = site.modules.through(module, name, &site.file, &matching);
    if !through.is_empty() {
        let passed_on = nearest(site, &through, true);
        if direct.is_empty() || passed_on.is_certain {
            return Some(passed_on);
        }
    }
    if !direct.is_empty() {
        return Some(found);
    }
    let level = known.iter().map(|candidate| module.level(candidate)).max().filter(|level| *level > 0)?;
    Some(nearest(site, &best_matches(module, known, level), level > 1))
}

/// The candidates that match a module best, if they do at least at a level.
fn best_matches<'a>(module: &Module, known: &[Candidate<'a>], least: u8) -> Vec<Candidate<'a>> {
    let levels: Vec<u8> = known.iter().map(|candidate| module.level(candidate)).collect();
    let best = levels.iter().copied().max().unwrap_or_default();
    if best < least {
        return Vec::new();
    }
    known.iter().zip(levels).filter(|(_, level)| *level == best).map(|(candidate, _)| *candidate).collect()
}

/// Everything with the called name.
fn by_name(candidates: &[Candidate]) -> Resolution {
    Resolution { units: units_of(candidates), is_certain: false }
}

fn units_of(candidates: &[Candidate]) -> Arc<[usize]> {
    candidates.iter().map(|candidate| candidate.unit).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The candidates nearest to a call: in its file, otherwise in its directory, otherwise anywhere. All of them, if that
/// does not determine one.
fn nearest(site: &Site, candidates: &[Candidate], is_certain: bool) -> Resolution {
    let distance = |candidate: &Candidate| match () {
        () if candidate.path == site.file.path => 0,
        () if directory(candidate.path) == directory(site.file.path) => 1,
        () => 2,
    };
    let least = candidates.iter().map(distance).min().unwrap_or_default();
    let found: Vec<Candidate> =
        candidates.iter().filter(|candidate| distance(candidate) == least).copied().collect();
    match is_certain && n_definitions(&found) == 1 {
        true => Resolution { units: units_of(&found), is_certain },
        false => by_name(candidates),
    }
}

fn certain<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> Resolution {
    let found: Vec<Candidate> = candidates.collect();
    Resolution { units: units_of(&found), is_certain: n_definitions(&found) == 1 }
}

/// Number of distinct definitions: those with the same name in a file are overloads, clauses or parts of one.
pub(crate) fn n_definitions(candidates: &[Candidate]) -> usize {
    candidates.iter().map(|candidate| (candidate.path, candidate.name)).collect::<BTreeSet<_>>().len()
}

/// The container of a qualified name; empty for top-level names.
pub(super) fn container(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(container, _)| container)
}

/// The qualified name of the type that contains a call: the innermost enclosing one with one of the methods,
/// otherwise the innermost enclosing one.
fn enclosing_type<'a>(site: &Site<'a>, family: &Family) -> &'a str {
    let mut around = container(site.name);
    let innermost = around;
    while !around.is_empty() {
        if !family.members_of_same_type(around).is_empty() {
            return around;
        }
        around = container(around);
    }
    innermost
}

fn same_type(a: &str, b: &str) -> bool {
    !a.is_empty() && last_part(a) == last_part(b)
}

pub(super) fn is_inside(name: &str, container: &str) -> bool {
    container.is_empty()
        || name == container
        || name.strip_prefix(container).is_some_and(|rest| rest.starts_with('.'))
}

/// Length of the common prefix of two qualified names, in parts.
fn common_parts(a: &str, b: &str) -> usize {
    if b.is_empty() {
        return 0;
    }
    a.split('.').zip(b.split('.')).take_while(|(a, b)| a == b).count()
}
