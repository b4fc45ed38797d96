//! A map of a tree within a budget of tokens: its files with the types and signatures that are mentioned most in the
//! tree.
//!
//! A definition counts for as many units as contain its name, divided by the number of definitions of that name; for a
//! name of one word, which may have other meanings, only a tenth of them count, as in Aider's repository map.

use std::collections::{BTreeMap, HashMap};

use quarry_index::{Error, Filter, Hit, Index};
use quarry_source::UnitKind;
use quarry_text::parts;

use crate::context::prefixed;
use crate::count_tokens;
use crate::text::{numbered, quoted};

/// Fraction of the mentions of a name of one word that count.
const ONE_WORD: f64 = 0.1;

/// Number of consecutive signatures that do not fit after which no more are tried.
const MISSES: usize = 20;

/// A line of the map.
struct Line {
    hit: Hit,
    text: String,
    weight: f64,
}

/// The map of the definitions that pass a filter, of at most `max_tokens` tokens ([`count_tokens`]): the files with the
/// most mentions first, each with its lines in order. `prefixes` precede the paths in each of the searched paths.
///
/// # Errors
/// When the index cannot be read.
pub fn outline(
    index: &Index,
    filter: &Filter,
    max_tokens: usize,
    prefixes: &[String],
) -> Result<String, Error> {
    let lines = lines(index, filter)?;
    let n_all = lines.len();
    let mut left = max_tokens.saturating_sub(count_tokens(&ending(n_all)));
    let mut files: BTreeMap<(usize, &str), (f64, Vec<&Line>)> = BTreeMap::new();
    let mut misses = 0;
    for line in &lines {
        let key = (line.hit.root, line.hit.path.as_str());
        let heading = if files.contains_key(&key) { 0 } else { count_tokens(&heading(&line.hit, prefixes)) };
        let n_tokens = heading + count_tokens(&line.text);
        if n_tokens > left {
            misses += 1;
            if misses == MISSES {
                break;
            }
            continue;
        }
        misses = 0;
        left -= n_tokens;
        let file = files.entry(key).or_default();
        file.0 += line.weight;
        file.1.push(line);
    }
    let mut files: Vec<(f64, Vec<&Line>)> = files.into_values().collect();
    // Stable: ties stay in the order of paths.
    files.sort_by(|a, b| b.0.total_cmp(&a.0));
    loop {
        let n_shown: usize = files.iter().map(|(_, lines)| lines.len()).sum();
        let mut text: String = files.iter_mut().map(|(_, lines)| of_file(lines, prefixes)).collect();
        if n_shown < n_all {
            text.push_str(&ending(n_all - n_shown));
        }
        // Tokens may span lines, so that only the count of the whole is exact.
        if count_tokens(&text) <= max_tokens {
            return Ok(text);
        }
        let Some((_, last)) = files.last_mut() else { return Ok(String::new()) };
        last.pop();
        if last.is_empty() {
            files.pop();
        }
    }
}

fn heading(hit: &Hit, prefixes: &[String]) -> String {
    format!("{}\n", quoted(&prefixed(hit, prefixes)))
}

fn of_file(lines: &mut [&Line], prefixes: &[String]) -> String {
    lines.sort_by_key(|line| (line.hit.start_line, line.hit.unit));
    let heading = lines.first().map(|line| heading(&line.hit, prefixes)).unwrap_or_default();
    std::iter::once(heading.as_str()).chain(lines.iter().map(|line| line.text.as_str())).collect()
}

fn ending(n_left_out: usize) -> String {
    format!("{n_left_out} more definitions; allow more tokens, or name a directory.\n")
}

/// All definitions, the most mentioned first; ties in the order of paths and lines.
fn lines(index: &Index, filter: &Filter) -> Result<Vec<Line>, Error> {
    let is_definition = |hit: &Hit| {
        matches!(hit.kind, UnitKind::Function | UnitKind::Method | UnitKind::Type)
            && !hit.signature.is_empty()
    };
    let hits: Vec<Hit> = index.units(filter).filter(is_definition).collect();
    let own = |hit: &Hit| hit.name.rsplit('.').next().unwrap_or_default().to_owned();
    let mut named: HashMap<String, usize> = HashMap::new();
    for hit in &hits {
        *named.entry(own(hit)).or_default() += 1;
    }
    let mut weights: HashMap<&str, f64> = HashMap::new();
    for (name, n) in &named {
        let factor = if parts(name).count() > 1 { 1.0 } else { ONE_WORD };
        weights.insert(name, factor * index.mentions(name)? as f64 / *n as f64);
    }
    let line = |hit: Hit| {
        let weight = weights.get(own(&hit).as_str()).copied().unwrap_or_default();
        Line { text: numbered(hit.start_line, &hit.signature), hit, weight }
    };
    let mut lines: Vec<Line> = hits.into_iter().map(line).collect();
    lines.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quarry_index::OpenOptions;

    use super::*;

    #[test]
    fn what_is_mentioned_most_comes_first_and_no_map_is_longer_than_its_budget() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("tree");
        fs::create_dir_all(root.join("net")).unwrap();
        let users: String =
            (0..30).map(|n| format!("def use_{n}():\n    return open_socket({n})\n\n\n")).collect();
        fs::write(
            root.join("net/a.py"),
            "def open_socket(port):\n    return port\n\n\ndef spare_part():\n    pass\n",
        )
        .unwrap();
        fs::write(root.join("users.py"), users).unwrap();
        let options =
            OpenOptions { directory: Some(directory.path().join("index")), ..OpenOptions::default() };
        let index = Index::open_or_build(&root, &options, None, &|_| {}).unwrap().index;
        let all = Filter::default();
        let text = outline(&index, &all, 60, &[]).unwrap();
        assert!(text.starts_with("net/a.py\n1| def open_socket(port)\n"), "{text}");
        assert!(text.ends_with(" more definitions; allow more tokens, or name a directory.\n"), "{text}");
        for max_tokens in (0..400).step_by(3) {
            let text = outline(&index, &all, max_tokens, &[]).unwrap();
            assert!(count_tokens(&text) <= max_tokens, "{max_tokens}: {text}");
        }
        let whole = outline(&index, &all, 10_000, &[]).unwrap();
        assert_eq!(whole.matches("| def ").count(), 32, "{whole}");
        let below = Filter::default().below("net");
        assert_eq!(outline(&index, &below, 10_000, &[]).unwrap().lines().count(), 3);
    }
}
