//! Ranking rules: signals other than the words of a unit.
//!
//! Each rule is a pure function of a query and of a unit's name, kind or path, with a value from 0 to 1;
//! [`RankingWeights`] contains their weights.

use std::collections::HashMap;

use quarry_source::UnitKind;
use quarry_text::{identifiers, lexical_terms, parts};
use quarry_walk::FileFlags;

use crate::RankingWeights;

/// A query with the data that the rules need.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// The text as typed.
    pub text: &'a str,
    /// Its terms ([`quarry_text::query_terms`]).
    pub terms: &'a [String],
    /// The weight of each term, above 0: its inverse document frequency.
    pub weights: &'a [f32],
}

impl<'a> Query<'a> {
    /// The symbol that the query is, if it is one word: the last part of `Type::method`, `module.Type` or `call()`.
    pub fn symbol(&self) -> Option<&'a str> {
        let text = self.text.trim();
        if text.contains(char::is_whitespace) { None } else { symbol_words(text).last() }
    }

    /// The words of a longer query that are written like symbols: with several parts (`read_csv`, `GsonBuilder`).
    pub fn mentions(&self) -> impl Iterator<Item = &'a str> {
        let is_longer = self.symbol().is_none();
        symbol_words(self.text).filter(move |word| is_longer && parts(word).count() > 1)
    }
}

/// Returns whether a query is a symbol, which is looked up by its name: no re-ranker reads anything for it.
pub fn is_symbol(query: &str) -> bool {
    Query { text: query, terms: &[], weights: &[] }.symbol().is_some()
}

/// Like identifiers, but with the `$` that some languages allow.
pub(crate) fn symbol_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).filter(|word| !word.is_empty())
}

/// Match of a name with the query, from 0 to 1: the geometric mean of the (weighted) share of the query's terms in the
/// name and the share of the name's words in the query. An identifier of several words also matches as a whole
/// (`WebSocket` and `websocket`). 0 for a name without words.
pub fn name_match(query: &Query, name: &str) -> f32 {
    let mut matched = vec![false; query.terms.len()];
    let (mut n_words, mut n_matched) = (0, 0);
    for identifier in identifiers(name) {
        let n_parts = parts(identifier).count();
        let (mut n_terms, mut n_found) = (0, 0);
        lexical_terms(identifier, |term, _| {
            n_terms += 1;
            if let Some(position) = query.terms.iter().position(|wanted| wanted == term) {
                matched[position] = true;
                // The term after the parts is the whole identifier.
                n_found = if n_terms > n_parts { n_parts } else { n_found + 1 };
            }
        });
        n_words += n_parts;
        n_matched += n_found;
    }
    if n_matched == 0 {
        return 0.0;
    }
    let total: f32 = query.weights.iter().sum();
    let found: f32 =
        query.weights.iter().zip(matched).filter(|(_, matched)| *matched).map(|(weight, _)| weight).sum();
    (found / total * n_matched as f32 / n_words as f32).sqrt()
}

/// [`name_match`] of the last part of a definition's qualified name; 0 for units without a name of their own.
pub fn own_name_match(query: &Query, kind: UnitKind, name: &str) -> f32 {
    if is_definition(kind) { name_match(query, last_part(name)) } else { 0.0 }
}

/// Match of the name of a unit with the query: [`own_name_match`], halved for functions, because a query in plain words
/// names the subject of a type more often than that of a function.
pub fn unit_match(query: &Query, kind: UnitKind, name: &str) -> f32 {
    own_name_match(query, kind, name) * name_factor(kind)
}

/// The factor of [`unit_match`]: a power of 2, so that it can be undone.
pub fn name_factor(kind: UnitKind) -> f32 {
    if kind == UnitKind::Type { 1.0 } else { 0.5 }
}

/// Match of the path of a file with the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathMatch {
    /// [`name_match`] of the file's stem.
    pub stem: f32,
    /// [`name_match`] of the name of its directory.
    pub directory: f32,
}

impl PathMatch {
    /// Both combined: the stem has four times the weight of the directory.
    #[must_use]
    pub fn combined(self) -> f32 {
        0.8 * self.stem + 0.2 * self.directory
    }
}

/// Match of the path of a file with the query; [`path_parts`] defines its stem and its directory.
pub fn path_match(query: &Query, path: &str) -> PathMatch {
    let PathParts { stem, directory } = path_parts(path);
    let parent = directory.rsplit_once('/').map_or(directory, |(_, parent)| parent);
    PathMatch { stem: name_match(query, stem), directory: name_match(query, parent) }
}

/// The symbol that a unit defines; empty if it defines none. The later parts of a long definition have its name but
/// no signature.
pub fn symbol<'a>(kind: UnitKind, name: &'a str, signature: &str) -> &'a str {
    if is_definition(kind) && !signature.is_empty() { last_part(name) } else { "" }
}

/// Returns whether a unit defines something, rather than being prose or code between definitions.
pub fn is_definition(kind: UnitKind) -> bool {
    matches!(kind, UnitKind::Type | UnitKind::Function | UnitKind::Method)
}

/// The part of a qualified name after its last dot.
pub(crate) fn last_part(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

/// Stems of files that stand for their directory.
const DIRECTORY_STEMS: [&str; 3] = ["__init__", "index", "mod"];

/// The parts of a file's path whose words count in ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathParts<'a> {
    /// The file's name up to its first dot; of a file that stands for its directory, the directory's name.
    pub stem: &'a str,
    /// The path of the directory, without the part that `stem` took.
    pub directory: &'a str,
}

/// Splits a path relative to the root.
pub fn path_parts(path: &str) -> PathParts<'_> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    if DIRECTORY_STEMS.contains(&stem) && !directory.is_empty() {
        let (directory, stem) = directory.rsplit_once('/').unwrap_or(("", directory));
        return PathParts { stem, directory };
    }
    PathParts { stem, directory }
}

/// The factor for the score of a unit by its kind of code: the smallest of the factors of `ranking` that apply to it
/// as part of a test, or of an example, generated code and the like, times that for a private helper.
pub fn demotion(flags: FileFlags, is_helper: bool, ranking: &RankingWeights) -> f32 {
    let test = if flags.contains(FileFlags::TEST) { ranking.test } else { 1.0 };
    let others = flags.difference(FileFlags::TEST | FileFlags::LEFT_OUT);
    let others = if others.is_empty() { 1.0 } else { ranking.demotion };
    test.min(others) * if is_helper { ranking.private } else { 1.0 }
}

/// Keywords that make a declaration inaccessible from outside.
const PRIVATE_WORDS: [&str; 3] = ["private", "fileprivate", "protected"];

/// Returns whether a definition is a helper of its type or file rather than part of its interface, by its declaration
/// (`private`, `protected`) or its name (`_helper`, `#field`; not Python's `__init__`). Languages that mark neither
/// have none.
pub fn is_private(name: &str, signature: &str) -> bool {
    let name = last_part(name);
    let is_special = name.starts_with("__") && name.ends_with("__");
    name.starts_with('#')
        || name.starts_with('_') && !is_special
        || signature.split(|c: char| !c.is_alphanumeric()).any(|word| PRIVATE_WORDS.contains(&word))
}

/// Multiplies the scores of units that are `alike` to a better one by `factor` (0 to 1), among the `depth` best.
/// `units` contains (file, unit, score); ties are in ascending order of units.
///
/// # Errors
/// As `alike`.
pub fn fold<E>(
    units: &mut [(u32, usize, f32)],
    factor: f32,
    depth: usize,
    alike: impl Fn(usize, usize) -> Result<bool, E>,
) -> Result<(), E> {
    units.sort_unstable_by(|a, b| b.2.total_cmp(&a.2).then(a.1.cmp(&b.1)));
    for number in 1..units.len().min(depth) {
        let (better, rest) = units.split_at_mut(number);
        for other in better {
            if alike(other.1, rest[0].1)? {
                rest[0].2 *= factor;
                break;
            }
        }
    }
    Ok(())
}

/// Returns whether a file only re-exports what others define: one that stands for its directory, without any
/// definition. Rust's `mod.rs` is not one, because it documents its module even if it defines nothing.
pub fn is_reexport(path: &str, kinds: impl IntoIterator<Item = UnitKind>) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    DIRECTORY_STEMS.contains(&stem) && stem != "mod" && !kinds.into_iter().any(is_definition)
}

/// Ranks units so that each file's best comes before the second ones of others: the scores of a file's units, best
/// first, are multiplied by 1, `factor`, `factor`², ... (0 to 1), but at least by the `minimum` of the unit: one whose
/// name the query has is not just another result of its kind. `units` contains (file, unit, score); the result is in
/// descending order of the new scores, ties in ascending order of units.
pub fn diversify(
    mut units: Vec<(u32, usize, f32)>,
    factor: f32,
    minimum: impl Fn(usize) -> f32,
) -> Vec<(u32, usize, f32)> {
    let best_first = |a: &(u32, usize, f32), b: &(u32, usize, f32)| b.2.total_cmp(&a.2).then(a.1.cmp(&b.1));
    units.sort_unstable_by(best_first);
    let mut next_factor: HashMap<u32, f32> = HashMap::new();
    for (file, unit, score) in &mut units {
        let next = next_factor.entry(*file).or_insert(1.0);
        *score *= next.max(minimum(*unit));
        *next *= factor;
    }
    units.sort_unstable_by(best_first);
    units
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use quarry_text::query_terms;

    use super::*;

    /// Calls `check` with a query whose terms have equal weights.
    fn with_query<T>(text: &str, check: impl Fn(&Query) -> T) -> T {
        let terms = query_terms(text);
        check(&Query { text, terms: &terms, weights: &vec![1.0; terms.len()] })
    }

    fn check_match(text: &str, name: &str, expected: f32) {
        let found = with_query(text, |query| name_match(query, name));
        assert!((found - expected).abs() < 1e-6, "{name:?} for {text:?}: {found}, not {expected}");
    }

    #[test]
    fn a_name_matches_by_the_words_it_shares() {
        check_match("connect pool", "ConnectPool", 1.0);
        check_match("connect pool", "connection_pools", 1.0);
        check_match("connect pool", "pool", 0.5_f32.sqrt());
        check_match("pool", "ConnectPool", 0.5_f32.sqrt());
        check_match("connect pool", "tree", 0.0);
        check_match("connect pool", "", 0.0);
    }

    #[test]
    fn an_identifier_matches_as_a_whole() {
        check_match("websocket", "WebSocket", 1.0);
        check_match("WebSocket", "WebSocket", 1.0);
        check_match("websocket client", "WebSocket", 0.5_f32.sqrt());
    }

    #[test]
    fn rare_words_weigh_more() {
        let terms = query_terms("json reader");
        let query = Query { text: "json reader", terms: &terms, weights: &[1.0, 3.0] };
        assert!(name_match(&query, "reader") > name_match(&query, "json"));
    }

    #[test]
    fn types_match_twice_as_well_as_functions_and_by_their_own_name() {
        let matched = |kind, name: &str| with_query("json reader", |query| unit_match(query, kind, name));
        assert_eq!(matched(UnitKind::Type, "stream.JsonReader"), 1.0);
        assert_eq!(matched(UnitKind::Method, "Stream.json_reader"), 0.5);
        assert_eq!(matched(UnitKind::Method, "JsonReader.close"), 0.0);
        assert_eq!(matched(UnitKind::Module, ""), 0.0);
    }

    #[test]
    fn a_path_matches_by_its_stem_and_a_little_by_its_directory() {
        let matched = |path: &str| with_query("json", |query| path_match(query, path).combined());
        let close =
            |found: f32, expected: f32| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        close(matched("src/json.rs"), 0.8);
        close(matched("src/json/reader.rs"), 0.2);
        close(matched("json/src/reader.rs"), 0.0);
        close(matched("src/json/mod.rs"), 0.8);
    }

    #[test]
    fn index_files_have_the_name_of_their_directory() {
        assert_eq!(path_parts("a/b/c.test.ts"), PathParts { stem: "c", directory: "a/b" });
        assert_eq!(path_parts("a/b/mod.rs"), PathParts { stem: "b", directory: "a" });
        assert_eq!(path_parts("b/__init__.py"), PathParts { stem: "b", directory: "" });
        assert_eq!(path_parts("index.ts"), PathParts { stem: "index", directory: "" });
    }

    #[test]
    fn a_definition_has_a_symbol() {
        assert_eq!(symbol(UnitKind::Method, "JsonReader.close", "void close()"), "close");
        assert_eq!(symbol(UnitKind::Method, "JsonReader.close", ""), "");
        assert_eq!(symbol(UnitKind::Section, "Closing", "Closing"), "");
    }

    #[test]
    fn the_symbol_is_the_last_word_of_a_query_that_is_one() {
        let symbol = |text| with_query(text, |query| query.symbol().map(str::to_owned));
        assert_eq!(symbol("GsonBuilder").as_deref(), Some("GsonBuilder"));
        assert_eq!(symbol("Rack::Builder").as_deref(), Some("Builder"));
        assert_eq!(symbol("reader.close()").as_deref(), Some("close"));
        assert_eq!(symbol("close the reader"), None);
    }

    #[test]
    fn a_longer_query_mentions_symbols_only() {
        let mentions =
            |text, symbol: &str| with_query(text, |query| query.mentions().any(|word| word == symbol));
        assert!(mentions("how GsonBuilder is configured", "GsonBuilder"));
        assert!(!mentions("how GsonBuilder is configured", "Gson"));
        assert!(!mentions("close the reader", "close"));
        assert!(!mentions("GsonBuilder", "GsonBuilder"));
    }

    #[test]
    fn demotions_multiply() {
        let ranking = RankingWeights { test: 0.25, demotion: 0.5, private: 0.9, ..RankingWeights::default() };
        let factor = |flags, is_helper| demotion(flags, is_helper, &ranking);
        assert_eq!(factor(FileFlags::empty(), false), 1.0);
        assert_eq!(factor(FileFlags::GENERATED, false), 0.5);
        assert_eq!(factor(FileFlags::LEFT_OUT, false), 1.0, "such files are shown only if asked for");
        assert_eq!(factor(FileFlags::TEST | FileFlags::GENERATED, false), 0.25);
        assert_eq!(factor(FileFlags::empty(), true), 0.9);
        assert_eq!(factor(FileFlags::GENERATED, true), 0.45);
    }

    #[test]
    fn private_units_are_recognized() {
        assert!(is_private("Pool._open", "def _open(self)"));
        assert!(is_private("Pool.open", "private void open()"));
        assert!(is_private("Pool.#open", "#open()"));
        assert!(!is_private("Pool.__init__", "def __init__(self)"));
        assert!(!is_private("privateKey", "function privateKey()"));
    }

    #[test]
    fn a_near_duplicate_ranks_after_its_original() {
        let mut units = vec![(0, 0, 0.5), (1, 1, 1.0), (2, 2, 0.9), (3, 3, 0.8)];
        let alike = |a, b| Ok::<_, Infallible>(a % 2 == 1 && b % 2 == 1);
        fold(&mut units, 0.5, 3, alike).unwrap();
        assert_eq!(units, [(1, 1, 1.0), (2, 2, 0.9), (3, 3, 0.4), (0, 0, 0.5)]);
    }

    #[test]
    fn a_reexport_defines_nothing() {
        let check = |path, kinds: &[UnitKind]| is_reexport(path, kinds.iter().copied());
        assert!(check("a/__init__.py", &[UnitKind::Module]));
        assert!(check("index.ts", &[]));
        assert!(!check("a/__init__.py", &[UnitKind::Module, UnitKind::Function]));
        assert!(!check("a/mod.rs", &[UnitKind::Module]));
        assert!(!check("a/names.py", &[UnitKind::Module]));
    }

    #[test]
    fn further_units_of_a_file_are_damped() {
        let found = vec![(0, 0, 0.8), (0, 1, 1.0), (0, 2, 0.9), (1, 3, 0.5)];
        let ranked = diversify(found.clone(), 0.5, |_| 0.0);
        let units: Vec<usize> = ranked.iter().map(|unit| unit.1).collect();
        assert_eq!(units, [1, 3, 2, 0]);
        let scores: Vec<f32> = ranked.iter().map(|unit| unit.2).collect();
        assert_eq!(scores, [1.0, 0.5, 0.45, 0.2]);
        // The third of the file has the name that is asked for.
        let ranked = diversify(found, 0.5, |unit| if unit == 0 { 0.9 } else { 0.0 });
        assert_eq!(ranked.iter().map(|unit| unit.1).collect::<Vec<_>>(), [1, 0, 3, 2]);
    }

    #[test]
    fn equal_units_stay_in_order() {
        let ranked = diversify(vec![(1, 5, 1.0), (0, 2, 1.0)], 0.5, |_| 0.0);
        assert_eq!(ranked, [(0, 2, 1.0), (1, 5, 1.0)]);
    }
}
