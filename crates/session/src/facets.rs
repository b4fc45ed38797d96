//! Facets of the results of a search.

use std::collections::BTreeMap;

use quarry_index::Hit;

use crate::kind_name;

/// Values with the number of units that have them, the most frequent first.
pub type Counts = Vec<(String, usize)>;

/// Number of units by language, kind, directory and searched path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facets {
    /// By the name of the language.
    pub languages: Counts,
    pub kinds: Counts,
    /// By the directory of the file below `directory`, at the first depth with more than one.
    pub directories: Counts,
    /// By the number of the searched path.
    pub roots: Vec<(usize, usize)>,
}

impl Facets {
    /// Number of the units.
    pub fn n_units(&self) -> usize {
        self.roots.iter().map(|(_, n)| n).sum()
    }

    /// The facets of some units, whose search was narrowed to `directory` unless that is empty.
    pub fn new(hits: &[Hit], directory: &str) -> Self {
        let mut roots: BTreeMap<usize, usize> = BTreeMap::new();
        for hit in hits {
            *roots.entry(hit.root).or_default() += 1;
        }
        Self {
            languages: counts(hits.iter().map(|hit| hit.language.clone())),
            kinds: counts(hits.iter().map(|hit| kind_name(hit.kind).to_owned())),
            directories: directories(hits, directory.trim_matches('/')),
            roots: roots.into_iter().collect(),
        }
    }
}

/// The directories directly below `directory` that contain units, or deeper ones if all units are in one.
fn directories(hits: &[Hit], directory: &str) -> Counts {
    let mut prefix = directory.to_owned();
    loop {
        let next: Vec<String> = hits
            .iter()
            .filter_map(|hit| {
                let inside = match prefix.as_str() {
                    "" => hit.path.as_str(),
                    prefix => hit.path.strip_prefix(prefix)?.strip_prefix('/')?,
                };
                let (first, _) = inside.split_once('/')?;
                Some(if prefix.is_empty() { first.to_owned() } else { format!("{prefix}/{first}") })
            })
            .collect();
        let n = next.len();
        let counts = counts(next.into_iter());
        match counts.as_slice() {
            [(only, _)] if n == hits.len() => prefix.clone_from(only),
            _ => return counts,
        }
    }
}

fn counts(values: impl Iterator<Item = String>) -> Counts {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Counts = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use quarry_index::ScoreParts;
    use quarry_source::UnitKind;

    use super::*;

    fn hit(path: &str) -> Hit {
        Hit {
            unit: 0,
            root: 0,
            path: path.to_owned(),
            start_line: 1,
            end_line: 1,
            name: String::new(),
            signature: String::new(),
            kind: UnitKind::Function,
            language: "rust".to_owned(),
            score: 0.0,
            parts: ScoreParts::default(),
        }
    }

    fn check(paths: &[&str], directory: &str, expected: &[(&str, usize)]) {
        let hits: Vec<Hit> = paths.iter().map(|path| hit(path)).collect();
        let found = Facets::new(&hits, directory).directories;
        let found: Vec<(&str, usize)> = found.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, expected, "{paths:?} below {directory}");
    }

    #[test]
    fn directories_are_as_deep_as_is_informative() {
        check(&["a/x.rs", "b/y.rs", "b/z.rs", "c.rs"], "", &[("b", 2), ("a", 1)]);
        check(&["src/a/x.rs", "src/b/y.rs"], "", &[("src/a", 1), ("src/b", 1)]);
        check(&["src/a/x.rs", "src/a/y.rs"], "", &[]);
        check(&["src/a/x.rs", "src/b/y.rs"], "src/", &[("src/a", 1), ("src/b", 1)]);
        check(&["src/ab/x.rs", "src/ab/c/y.rs"], "src/ab", &[("src/ab/c", 1)]);
        check(&[], "", &[]);
    }

    #[test]
    fn the_most_frequent_come_first_and_equals_by_name() {
        let facets = Facets::new(&[hit("a/x"), hit("b/x"), hit("b/y")], "");
        assert_eq!(facets.languages, [("rust".to_owned(), 3)]);
        assert_eq!(facets.kinds, [("function".to_owned(), 3)]);
        assert_eq!(facets.roots, [(0, 3)]);
    }
}
