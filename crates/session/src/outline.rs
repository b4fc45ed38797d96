//! A map of a tree within a budget of tokens: its files with their entry points, and the types and signatures that are
//! mentioned most in the tree. Generated, vendored and minified code, tests, examples and the code in documentation come last.
//!
//! A definition counts for as many units as contain its name, divided by the number of definitions of that name; for a
//! name of one word, which may have other meanings, only a few of them count, as in Aider's repository map. A type counts
//! twice.

use std::collections::{BTreeMap, HashMap};

use quarry_index::{Error, Filter, Hit, Index};
use quarry_source::UnitKind;
use quarry_text::parts;
use quarry_walk::FileFlags;

use crate::context::prefixed;
use crate::count_tokens;
use crate::text::{numbered, quoted};

/// Fraction of the mentions of a name of one word that count.
const ONE_WORD: f64 = 0.03;

/// Factor of the mentions of a type.
const OF_TYPE: f64 = 2.0;

/// Names of functions at which programs begin.
const ENTRY_POINTS: [&str; 2] = ["main", "Main"];

/// Names of files at which programs begin, without extension, and of those that only build them.
const MAIN_FILES: [&str; 4] = ["main", "__main__", "Main", "Program"];
const BUILD_SCRIPTS: [&str; 3] = ["build.rs", "build.zig", "setup.py"];

/// Entry points that come before everything else: those of the shallowest files.
const MAX_ENTRY_POINTS: usize = 5;

/// Code that comes last.
const MINOR: FileFlags = FileFlags::GENERATED
    .union(FileFlags::VENDORED)
    .union(FileFlags::TEST)
    .union(FileFlags::EXAMPLE)
    .union(FileFlags::DOCUMENTATION);

/// Number of consecutive signatures that do not fit after which no more are tried.
const MISSES: usize = 20;

/// A line of the map.
struct Line {
    hit: Hit,
    place: LineGroup,
    weight: f64,
}

/// Order of lines, whatever their weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LineGroup {
    EntryPoint,
    Own,
    Minor,
}

impl Line {
    fn text(&self) -> String {
        numbered(self.hit.start_line, &self.hit.signature)
    }
}

/// The map of the definitions that pass a filter, of at most `max_tokens` tokens ([`count_tokens`]): the files with the
/// most mentions first, after those with entry points, each with its lines in order. `prefixes` precede the paths in each of the searched paths.
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
    let mut files: BTreeMap<(usize, &str), (LineGroup, f64, Vec<&Line>)> = BTreeMap::new();
    let mut misses = 0;
    for line in &lines {
        let key = (line.hit.root, line.hit.path.as_str());
        let heading = if files.contains_key(&key) { 0 } else { count_tokens(&heading(&line.hit, prefixes)) };
        let n_tokens = heading + count_tokens(&line.text());
        if n_tokens > left {
            misses += 1;
            if misses == MISSES {
                break;
            }
            continue;
        }
        misses = 0;
        left -= n_tokens;
        // Lines come in the order of their places.
        let file = files.entry(key).or_insert((line.place, 0.0, Vec::new()));
        file.1 += line.weight;
        file.2.push(line);
    }
    let mut files: Vec<(LineGroup, f64, Vec<&Line>)> = files.into_values().collect();
    // Stable: ties stay in the order of paths.
    files.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    loop {
        let n_shown: usize = files.iter().map(|(.., lines)| lines.len()).sum();
        let mut text: String = files.iter_mut().map(|(.., lines)| file_text(lines, prefixes)).collect();
        if n_shown < n_all {
            text.push_str(&ending(n_all - n_shown));
        }
        // Tokens may span lines, so that only the count of the whole is exact.
        if count_tokens(&text) <= max_tokens {
            return Ok(text);
        }
        let Some((.., last)) = files.last_mut() else { return Ok(String::new()) };
        last.pop();
        if last.is_empty() {
            files.pop();
        }
    }
}

fn heading(hit: &Hit, prefixes: &[String]) -> String {
    format!("{}\n", quoted(&prefixed(hit, prefixes)))
}

fn file_text(lines: &mut [&Line], prefixes: &[String]) -> String {
    lines.sort_by_key(|line| (line.hit.start_line, line.hit.unit));
    let heading = lines.first().map(|line| heading(&line.hit, prefixes)).unwrap_or_default();
    std::iter::once(heading).chain(lines.iter().map(|line| line.text())).collect()
}

fn ending(n_left_out: usize) -> String {
    format!("{n_left_out} more definitions; allow more tokens, or name a directory.\n")
}

/// All definitions, the most mentioned of each place first; ties in the order of paths and lines.
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
        let factor = if hit.kind == UnitKind::Type { OF_TYPE } else { 1.0 };
        let weight = factor * weights.get(own(&hit).as_str()).copied().unwrap_or_default();
        let place = if index.flags_of(&hit).intersects(MINOR) { LineGroup::Minor } else { LineGroup::Own };
        Line { hit, place, weight }
    };
    let mut lines: Vec<Line> = hits.into_iter().map(line).collect();
    let file = |line: &Line| line.hit.path.rsplit('/').next().unwrap_or_default().to_owned();
    let is_entry = |line: &&mut Line| {
        let Hit { name, kind, language, .. } = &line.hit;
        let is_called_so = *kind == UnitKind::Function && ENTRY_POINTS.contains(&name.as_str());
        is_called_so
            && line.place == LineGroup::Own
            && language != "bash"
            && !BUILD_SCRIPTS.contains(&file(line).as_str())
    };
    let mut entries: Vec<&mut Line> = lines.iter_mut().filter(is_entry).collect();
    entries.sort_by_key(|line| {
        let file = file(line);
        let is_main = MAIN_FILES.contains(&file.split('.').next().unwrap_or_default());
        (!is_main, line.hit.path.matches('/').count())
    });
    entries.into_iter().take(MAX_ENTRY_POINTS).for_each(|line| line.place = LineGroup::EntryPoint);
    lines.sort_by(|a, b| a.place.cmp(&b.place).then(b.weight.total_cmp(&a.weight)));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quarry_index::OpenOptions;
    use quarry_test_support::files::write;

    use super::*;

    #[test]
    fn the_most_mentioned_come_first_and_maps_fit_their_budget() {
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

    #[test]
    fn entry_points_come_first_and_code_of_others_last() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("tree");
        let uses = |name: &str| -> String {
            (0..9)
                .map(|n| format!("def {name}_{n}():\n    return load_plug_in({n}), PlayerState()\n\n\n"))
                .collect()
        };
        let minified = format!("var load_plug_in=1;{}", "function f(a){return load_plug_in(a)};".repeat(200));
        for (path, text) in [
            ("app/main.py", "def main():\n    return PlayerState()\n".to_owned()),
            (
                "app/state.py",
                "class PlayerState:\n    pass\n\n\ndef load_state(path):\n    return path\n".to_owned(),
            ),
            ("conftest.py", "def load_plug_in(n):\n    return n\n".to_owned()),
            (
                "README.md",
                "# Player\n\n```go\nfunc main() {\n\tload_plug_in(1)\n}\n```\n\n## Use\n\n```go\nfunc main() {\n\tload_plug_in(2)\n}\n```\n".to_owned(),
            ),
            ("tests/test_state.py", uses("test") + "def main():\n    pass\n"),
            ("vendor/lib/plug.py", "def load_plug_in(n):\n    return n\n".to_owned()),
            (
                "player_pb2.py",
                "# Generated by the protocol buffer compiler.  DO NOT EDIT!\n".to_owned() + &uses("of"),
            ),
            ("static/player.js", minified),
        ] {
            write(root.join(path), text);
        }
        let options =
            OpenOptions { directory: Some(directory.path().join("index")), ..OpenOptions::default() };
        let index = Index::open_or_build(&root, &options, None, &|_| {}).unwrap().index;
        let text = outline(&index, &Filter::default(), 10_000, &[]).unwrap();
        let files: Vec<&str> = text.lines().filter(|line| !line.contains("| ")).collect();
        assert_eq!(files[..2], ["app/main.py", "app/state.py"], "{text}");
        assert!(files.len() > 4 && text.starts_with("app/main.py\n1| def main()\n"), "{text}");
        let text = outline(&index, &Filter::default(), 50, &[]).unwrap();
        assert!(text.contains("class PlayerState") && !text.contains("load_plug_in"), "{text}");
    }
}
