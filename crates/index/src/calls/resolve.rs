//! The possible targets of a call, determined from names, scopes and imports only.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use quarry_source::{Call, Import, Language, NameScope, UnitKind};

use super::words::{Words, is_word_part};
use crate::rules::last_part;

/// A definition with the called name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate<'a> {
    pub unit: usize,
    /// Path relative to the root, `/` between its parts.
    pub path: &'a str,
    /// Name qualified within the file.
    pub name: &'a str,
    pub kind: UnitKind,
    pub language: Language,
}

/// All definitions with one name.
#[derive(Default)]
pub(crate) struct Candidates<'a> {
    families: HashMap<&'static str, Family<'a>>,
}

/// Definitions with one name in languages that can call each other.
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
        let mut families: HashMap<&'static str, Family> = HashMap::new();
        for candidate in definitions {
            let family = families.entry(candidate.language.family()).or_default();
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
    fn of_type(&self, name: &str) -> &[Candidate<'a>] {
        self.owners.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Members of the type that a qualified name ends with.
    fn of_same_type(&self, name: &str) -> &[Candidate<'a>] {
        if name.is_empty() { &[] } else { self.of_type(last_part(name)) }
    }

    fn possible(&self) -> Resolution {
        Resolution { units: self.any_method.clone(), is_certain: false }
    }
}

/// The location of a call.
pub(crate) struct Site<'a> {
    pub path: &'a str,
    pub language: Language,
    /// Qualified name of the unit that contains the call; empty outside of definitions.
    pub name: &'a str,
    pub imports: &'a [Import],
    /// The text of the file, which may declare the type of a variable.
    pub text: &'a str,
    /// The words of that text.
    pub words: &'a Words<'a>,
    /// The unit that contains the call: its declarations take precedence.
    pub unit_bytes: Range<usize>,
}

/// What a call may mean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// Numbers of units, ascending.
    pub units: Arc<[usize]>,
    /// Whether scopes or imports determine the target; otherwise only the name matches, and it may be outside of the
    /// tree.
    pub is_certain: bool,
}

/// Receivers that refer to the enclosing type.
const SELF_NAMES: &[&str] = &["self", "this", "cls", "Self", "$this", "static", "@self", "me", "Me"];
/// Receivers that refer to a base of the enclosing type.
const BASE_NAMES: &[&str] = &["super", "super()", "base", "parent", "MyBase"];
/// File names that stand for their directory.
const DIRECTORY_FILES: &[&str] = &["__init__", "index", "init", "lib", "main", "mod"];
/// Words between a variable and its type.
const TYPE_WORDS: &[&str] = &[
    "Arc", "Box", "Option", "Rc", "await", "const", "dyn", "final", "impl", "mut", "new", "ref", "val", "var",
];

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
    let Some(family) = candidates.families.get(site.language.family()) else { return Resolution::default() };
    match &call.receiver {
        None => resolve_bare(&call.callee, site, &family.all),
        Some(receiver) => resolve_member(receiver, site, family),
    }
}

/// A call of a bare name.
fn resolve_bare(callee: &str, site: &Site, known: &[Candidate]) -> Resolution {
    if let Some((module, name)) = imported(callee, site.imports)
        && (name.is_some() || last_segment(module) == callee)
    {
        // In some languages, the module of a type has the type's name.
        let found = in_module(&Module::new(module, site), site, known);
        return if found.units.is_empty() && name.is_none() { nearest(site, known, false) } else { found };
    }
    let around = container(site.name);
    let in_scope = |candidate: &&Candidate| {
        candidate.path == site.path
            && is_inside(site.name, container(candidate.name))
            && (candidate.kind != UnitKind::Method || site.language.calls_own_methods())
    };
    let here: Vec<Candidate> = known.iter().filter(in_scope).copied().collect();
    if !here.is_empty() {
        // The innermost scope that contains both.
        let depth = |candidate: &Candidate| common_parts(site.name, container(candidate.name));
        let deepest = here.iter().map(depth).max().unwrap_or_default();
        return certain(here.into_iter().filter(|candidate| depth(candidate) == deepest));
    }
    if site.language.calls_own_methods() && !around.is_empty() {
        let is_own = |candidate: &&Candidate| {
            candidate.kind == UnitKind::Method && same_type(container(candidate.name), around)
        };
        let own: Vec<Candidate> = known.iter().filter(is_own).copied().collect();
        if !own.is_empty() {
            return certain(own.into_iter());
        }
    }
    let free: Vec<Candidate> =
        known.iter().filter(|candidate| candidate.kind != UnitKind::Method).copied().collect();
    // Modules that are imported with all their members.
    let wholesale = site.imports.iter().filter(|import| {
        import.names.iter().any(|name| name.name == "*" && name.alias.is_none())
            || import.names.is_empty() && site.language.name_scope() != NameScope::File
    });
    let wholesale: Vec<Candidate> = free
        .iter()
        .filter(|candidate| {
            wholesale.clone().any(|import| Module::new(&import.module, site).level(candidate) > 1)
        })
        .copied()
        .collect();
    if !wholesale.is_empty() {
        return nearest(site, &wholesale, true);
    }
    match site.language.name_scope() {
        NameScope::File => Resolution::default(),
        NameScope::Directory => {
            let beside = |candidate: &Candidate| directory(candidate.path) == directory(site.path);
            certain(free.into_iter().filter(beside))
        }
        NameScope::Tree => {
            let found = nearest(site, &free, true);
            if found.units.is_empty() && site.language.calls_own_methods() {
                // Possibly of a base type.
                return nearest(site, known, false);
            }
            found
        }
    }
}

/// A call of a name with a receiver or qualifier.
fn resolve_member<'s>(receiver: &'s str, site: &Site<'s>, family: &Family) -> Resolution {
    let around = enclosing_type(site, family);
    if SELF_NAMES.contains(&receiver) {
        let found = nearest(site, family.of_same_type(around), true);
        return if found.units.is_empty() { family.possible() } else { found };
    }
    if BASE_NAMES.contains(&receiver) {
        let others = family.methods.iter().filter(|candidate| !same_type(container(candidate.name), around));
        return Resolution { units: others.map(|candidate| candidate.unit).collect(), is_certain: false };
    }
    let words = path_words(receiver);
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return family.possible() };
    if let Some((module, name)) = imported(first, site.imports) {
        let mut module = Module::new(module, site);
        module.parts.extend(name.filter(|name| *name != "default").map(str::to_owned));
        module.parts.extend(words[1..].iter().map(|word| (*word).to_owned()));
        let found = in_module(&module, site, &family.all);
        if !found.units.is_empty() {
            return found;
        }
        let real_name = name.unwrap_or(first);
        if words.len() == 1 && !family.of_type(real_name).is_empty() {
            return nearest(site, family.of_type(real_name), true);
        }
        // An object of the module may have any type; a receiver that is written like a path is outside of the tree.
        let is_value = words.len() > 1 || name.is_some_and(|name| name.starts_with(char::is_lowercase));
        return if is_value && !receiver.contains("::") {
            declared(last, site, family)
                .map_or_else(Resolution::default, |owner| certain(family.of_type(owner).iter().copied()))
        } else {
            Resolution::default()
        };
    }
    if !family.of_type(last).is_empty() {
        return nearest(site, family.of_type(last), true);
    }
    let is_path = receiver.contains("::") || matches!(*first, "crate" | "super");
    if is_path {
        return in_module(&Module::new(receiver, site), site, &family.all);
    }
    if !receiver.ends_with([')', ']'])
        && let Some(owner) = declared(last, site, family)
    {
        return nearest(site, family.of_type(owner), true);
    }
    // A module may be used without an import, as in Rust and Erlang, and so may a variable.
    let named = Module { parts: vec![(*last).to_owned()], is_whole: false, is_own: false };
    let is_named = |candidate: &&Candidate| named.level(candidate) == 3;
    let free: Arc<[usize]> = match words.len() {
        1 => family.free.iter().filter(is_named).map(|candidate| candidate.unit).collect(),
        _ => Arc::default(),
    };
    if free.is_empty() { family.possible() } else { Resolution { units: free, is_certain: false } }
}

/// The candidates in a module that match it best.
fn in_module(module: &Module, site: &Site, known: &[Candidate]) -> Resolution {
    let best = known.iter().map(|candidate| module.level(candidate)).max().unwrap_or_default();
    if best == 0 {
        return Resolution::default();
    }
    let found: Vec<Candidate> =
        known.iter().filter(|candidate| module.level(candidate) == best).copied().collect();
    nearest(site, &found, best > 1)
}

/// The candidates nearest to a call: in its file, otherwise in its directory, otherwise anywhere.
fn nearest(site: &Site, candidates: &[Candidate], is_certain: bool) -> Resolution {
    let distance = |candidate: &Candidate| match () {
        () if candidate.path == site.path => 0,
        () if directory(candidate.path) == directory(site.path) => 1,
        () => 2,
    };
    let least = candidates.iter().map(distance).min().unwrap_or_default();
    let found: Vec<Candidate> =
        candidates.iter().filter(|candidate| distance(candidate) == least).copied().collect();
    let is_certain = is_certain && n_definitions(&found) == 1;
    Resolution { units: found.iter().map(|candidate| candidate.unit).collect(), is_certain }
}

fn certain<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> Resolution {
    let found: Vec<Candidate> = candidates.collect();
    let is_certain = n_definitions(&found) == 1;
    Resolution { units: found.iter().map(|candidate| candidate.unit).collect(), is_certain }
}

/// Number of distinct definitions: those with the same name in a file are overloads, clauses or parts of one.
pub(crate) fn n_definitions(candidates: &[Candidate]) -> usize {
    candidates.iter().map(|candidate| (candidate.path, candidate.name)).collect::<BTreeSet<_>>().len()
}

/// The module that a name is imported from, and its name there unless it is the module itself.
fn imported<'a>(word: &str, imports: &'a [Import]) -> Option<(&'a str, Option<&'a str>)> {
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
struct Module {
    parts: Vec<String>,
    /// Whether the parts are the complete path from the root.
    is_whole: bool,
    /// Whether it is part of this tree, whatever the parts are.
    is_own: bool,
}

impl Module {
    fn new(module: &str, site: &Site) -> Self {
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
        Self { parts, is_whole, is_own }
    }

    /// How well a candidate matches: 3 in the module, 2 below it or by most of its path, 1 only by the end of its
    /// path, 0 not.
    fn level(&self, candidate: &Candidate) -> u8 {
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
        if self.is_whole {
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
            () if is_in(&parts) => 3,
            () if is_free && !directories.is_empty() && common == directories.len() => 3,
            () if is_free && common >= 2 => 2,
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

/// The type of a variable, among those with one of the methods, if one of them is declared beside its name.
fn declared<'s, 'a>(variable: &'s str, site: &Site<'s>, family: &Family<'a>) -> Option<&'a str> {
    let text = site.text;
    let positions = site.words.positions(text, variable);
    let begin = positions.partition_point(|at| *at < site.unit_bytes.start);
    let end = positions.partition_point(|at| *at < site.unit_bytes.end);
    let owner = |at: &usize| {
        // Text further away says nothing about the variable.
        let before = &text[text.ceil_char_boundary(at.saturating_sub(MAX_DECLARATION_BYTES))..*at];
        let after =
            &text[at + variable.len()..text.floor_char_boundary(at + variable.len() + MAX_DECLARATION_BYTES)];
        type_after(after, family).or_else(|| type_before(before, family))
    };
    positions[begin..end].iter().chain(&*positions).find_map(owner)
}

/// Number of bytes beside a variable in which its type is searched.
const MAX_DECLARATION_BYTES: usize = 256;

/// A type as in `x: &mut Cart`, `x := shop.Cart{`, `x = Cart::new()`, `x *Cart`.
fn type_after<'a>(text: &str, family: &Family<'a>) -> Option<&'a str> {
    let owner = |word: &str| family.owners.get_key_value(word).map(|(owner, _)| *owner);
    let mut rest = text;
    for _ in 0..6 {
        let next = rest.trim_start_matches([' ', '\t', ':', '=', '&', '*', '?', '!', '<', '[', ']']);
        if next.len() == rest.len() {
            return None;
        }
        let (word, after) = next.split_at(next.find(|c| !is_word_part(c)).unwrap_or(next.len()));
        if let Some(owner) = owner(word) {
            return Some(owner);
        }
        rest = match after.strip_prefix("::").or_else(|| after.strip_prefix('.')) {
            // Any part of a path may be the type.
            Some(path) => {
                let word = path.split(|c| !is_word_part(c)).next().unwrap_or_default();
                return owner(word);
            }
            None if TYPE_WORDS.contains(&word) => after,
            None => return None,
        };
    }
    None
}

/// A type as in `Cart x`, `Cart<Item> x`, `Cart *x`.
fn type_before<'a>(text: &str, family: &Family<'a>) -> Option<&'a str> {
    let before = text.trim_end_matches([' ', '\t', '*', '&', '?', '$']);
    if before.len() == text.len() {
        return None;
    }
    let before = match before.strip_suffix('>') {
        Some(generic) => generic.rsplit_once('<')?.0,
        None => before.trim_end_matches(['[', ']']),
    };
    let start = before
        .rfind(|c| !is_word_part(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    family.owners.get_key_value(&before[start..]).map(|(owner, _)| *owner)
}

/// The identifiers of `a.b[0]::c`, without those in brackets.
fn path_words(receiver: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut depth = 0usize;
    let mut start = None;
    for (at, c) in receiver.char_indices().chain([(receiver.len(), ' ')]) {
        if depth == 0 && is_word_part(c) {
            start.get_or_insert(at);
            continue;
        }
        if let Some(start) = start.take() {
            words.push(&receiver[start..at]);
        }
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    words
}

/// The container of a qualified name; empty for top-level names.
fn container(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(container, _)| container)
}

/// The qualified name of the type that contains a call: the innermost enclosing one with one of the methods,
/// otherwise the innermost enclosing one.
fn enclosing_type<'a>(site: &Site<'a>, family: &Family) -> &'a str {
    let mut around = container(site.name);
    let innermost = around;
    while !around.is_empty() {
        if !family.of_same_type(around).is_empty() {
            return around;
        }
        around = container(around);
    }
    innermost
}

fn same_type(a: &str, b: &str) -> bool {
    !a.is_empty() && last_part(a) == last_part(b)
}

fn is_inside(name: &str, container: &str) -> bool {
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

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn directory_parts(path: &str) -> Vec<String> {
    directory(path).split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

fn last_segment(module: &str) -> &str {
    module.rsplit(['/', '.', ':', '\\']).next().unwrap_or(module)
}
