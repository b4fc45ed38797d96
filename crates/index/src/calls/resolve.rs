//! The possible targets of a call, determined from names, scopes and imports only.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use quarry_source::{Call, Import, Language, NameScope, UnitKind};

use super::module::{Module, directory, imported, last_segment};
use super::words::{Words, is_word_part};
use crate::ranking::rules::last_part;

/// A definition with the called name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate<'a> {
    pub unit: usize,
    /// The tree that contains it: calls do not leave theirs.
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
    /// What contains it, with its location.
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
    /// See [`Candidate::tree`].
    pub tree: usize,
    /// See [`Candidate::path`].
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
    /// Whether a byte of the text is in what contains that unit, or outside of definitions.
    pub is_around: Box<dyn Fn(usize) -> bool + 'a>,
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
    let family = candidates.families.get(&(site.tree, site.language.family()));
    let Some(family) = family else { return Resolution::default() };
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
    let wholesale = imported_wholesale(site, &free);
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

/// The candidates in modules that are imported with all their members.
fn imported_wholesale<'a>(site: &Site, candidates: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let is_wholesale = |import: &&Import| {
        import.names.iter().any(|name| name.name == "*" && name.alias.is_none())
            || import.names.is_empty() && site.language.name_scope() != NameScope::File
    };
    let modules: Vec<Module> =
        site.imports.iter().filter(is_wholesale).map(|import| Module::new(&import.module, site)).collect();
    let is_in = |candidate: &&Candidate| modules.iter().any(|module| module.level(candidate) > 1);
    candidates.iter().filter(is_in).copied().collect()
}

/// The members of types that a file may name without importing each of them.
fn in_reach<'a>(site: &Site, members: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let reaches = |candidate: &Candidate| match site.language.name_scope() {
        NameScope::File => candidate.path == site.path,
        NameScope::Directory => directory(candidate.path) == directory(site.path),
        NameScope::Tree => true,
    };
    let is_in_reach =
        |member: &&Candidate| reaches(member) || !imported_wholesale(site, &[member.container()]).is_empty();
    members.iter().filter(is_in_reach).copied().collect()
}

/// The members of a type that is imported from a module which does not contain it: a module may pass on the types of
/// those below it. Elsewhere, a type is only of the same name.
fn reexported(module: &Module, site: &Site, members: &[Candidate]) -> Resolution {
    let is_below = |member: &&Candidate| module.level(&member.container()) > 1;
    let below: Vec<Candidate> = members.iter().filter(is_below).copied().collect();
    if below.is_empty() { nearest(site, members, false) } else { nearest(site, &below, true) }
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
    if let Some((imported_from, name)) = imported(first, site.imports) {
        let mut module = Module::new(imported_from, site);
        module.parts.extend(name.filter(|name| *name != "default").map(str::to_owned));
        module.parts.extend(words[1..].iter().map(|word| (*word).to_owned()));
        let found = in_module(&module, site, &family.all);
        if !found.units.is_empty() {
            return found;
        }
        let real_name = name.unwrap_or(first);
        if words.len() == 1 && !family.of_type(real_name).is_empty() {
            return reexported(&Module::new(imported_from, site), site, family.of_type(real_name));
        }
        // An object of the module may have any type; a receiver that is written like a path is outside of the tree.
        let is_value = words.len() > 1 || name.is_some_and(|name| name.starts_with(char::is_lowercase));
        return if is_value && !receiver.contains("::") {
            declared(receiver, site, family)
                .map_or_else(Resolution::default, |owner| certain(family.of_type(owner).iter().copied()))
        } else {
            Resolution::default()
        };
    }
    if receiver.contains("::") || matches!(*first, "crate" | "super") {
        let found = in_module(&Module::new(receiver, site), site, &family.all);
        return if found.units.is_empty() { nearest(site, family.of_type(last), false) } else { found };
    }
    if !family.of_type(last).is_empty() {
        let reached = in_reach(site, family.of_type(last));
        return match reached.is_empty() {
            true => nearest(site, family.of_type(last), false),
            false => nearest(site, &reached, true),
        };
    }
    if !receiver.ends_with([')', ']'])
        && let Some(owner) = declared(receiver, site, family)
    {
        return nearest(site, family.of_type(owner), true);
    }
    // A module may be used without an import, as in Rust and Erlang, and so may a variable.
    let named =
        Module { parts: vec![(*last).to_owned()], is_whole: false, is_own: false, is_directory: false };
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

/// The type of a variable or field, among those with one of the methods, if one of them is declared beside its name.
fn declared<'s, 'a>(receiver: &'s str, site: &Site<'s>, family: &Family<'a>) -> Option<&'a str> {
    let variable = *path_words(receiver).last()?;
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
    // A field may be declared anywhere in the file, a variable only around the call.
    let is_field = receiver != variable;
    let in_scope = positions.iter().filter(|at| is_field || (site.is_around)(**at));
    positions[begin..end].iter().chain(in_scope).find_map(owner)
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
pub(super) fn container(name: &str) -> &str {
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
