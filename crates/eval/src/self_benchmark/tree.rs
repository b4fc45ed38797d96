//! A repository as files with their functions.

use std::collections::HashMap;
use std::path::Path;

use quarry_corpus::formats::repo_search::Target;
use quarry_corpus::pairs::{MIN_CODE_WORDS, cut_out};
use quarry_source::{
    Call, Language, Limits, References, SourceText, Unit, UnitKind, extract_with_references,
};
use quarry_text::identifiers;
use quarry_text::near::NearIndex;
use quarry_walk::{self as walk, FileFlags, WalkError, WalkOptions};
use rayon::prelude::*;

const DUPLICATE_SIMILARITY: f64 = 0.9;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Path relative to the root, `/` between parts.
    pub path: String,
    /// Properties such as generated or test.
    pub flags: FileFlags,
    pub bytes: Vec<u8>,
    /// Its units, ascending.
    pub units: Vec<Unit>,
    /// The calls in it, ascending.
    pub calls: Vec<Call>,
}

impl SourceFile {
    pub fn new(path: &str, language: Language, flags: FileFlags, text: SourceText) -> Self {
        let (extraction, references) = if language.is_notebook() {
            (text.extract(language), References::default())
        } else {
            extract_with_references(language, text.bytes(), &Limits::default())
        };
        let (units, bytes) = (extraction.units, text.into_bytes());
        Self { path: path.to_owned(), flags, bytes, units, calls: references.calls }
    }

    pub fn is_test(&self, unit: &Unit) -> bool {
        unit.is_test || self.flags.contains(FileFlags::TEST)
    }
}

/// Reads the searchable files of a tree, in order of their paths.
///
/// # Errors
/// When the directory cannot be read. Files that cannot be read are skipped, as in search.
pub fn read(root: &Path) -> Result<Vec<SourceFile>, WalkError> {
    let root = &*walk::resolved(root);
    let base = walk::open(walk::base_directory(root)?)?;
    let options = WalkOptions::default();
    let listing = walk::list(root, &options)?;
    Ok(listing
        .files
        .par_iter()
        .filter_map(|file| {
            let content = walk::read(&base, file, &options).ok()?;
            let language = quarry_source::language_for(file.path.as_ref(), content.text.bytes());
            let language = language.unwrap_or(file.language);
            Some(SourceFile::new(&file.path, language, content.flags, content.text))
        })
        .collect())
}

/// A function that can be an answer.
#[derive(Debug, Clone)]
pub struct Function<'a> {
    pub file: &'a SourceFile,
    /// Its unit; the first one, if it is long and was split into several.
    pub unit: &'a Unit,
    /// First and last line of all its units.
    pub lines: (u32, u32),
    /// Its source without the documentation.
    pub code: String,
    /// Index of the first near-duplicate: equivalent functions share it.
    pub equal_to: usize,
}

impl Function<'_> {
    /// The name without its qualification.
    pub fn own_name(&self) -> &str {
        own_name(&self.unit.name)
    }
}

/// The part of a qualified name after its last dot.
pub fn own_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The functions of a repository, excluding generated, vendored, example and test code, and functions too short to do
/// anything.
#[derive(Debug)]
pub struct Functions<'a> {
    /// Ordered by path and line.
    pub all: Vec<Function<'a>>,
    by_equal: HashMap<usize, Vec<usize>>,
}

impl<'a> Functions<'a> {
    pub fn collect(files: &'a [SourceFile]) -> Self {
        let mut all: Vec<Function<'a>> = files
            .par_iter()
            .filter(|file| file.flags.difference(FileFlags::DOCUMENTATION).is_empty())
            .flat_map_iter(|file| (0..file.units.len()).filter_map(|unit| function(file, unit)))
            .collect();
        let mut near = NearIndex::new(DUPLICATE_SIMILARITY);
        // Only the first of near-duplicates is added, so indices are mapped to those of the functions here.
        let mut firsts = Vec::new();
        let mut by_equal: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, function) in all.iter_mut().enumerate() {
            function.equal_to = match near.find(&function.code) {
                Some(found) => firsts[found],
                None => {
                    near.add(&function.code);
                    firsts.push(number);
                    number
                }
            };
            by_equal.entry(function.equal_to).or_default().push(number);
        }
        Self { all, by_equal }
    }

    /// The spans of some functions, given by index, and of their near-duplicates, in order, without duplicates.
    pub fn spans(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<Target> {
        let mut with_equals: Vec<usize> = numbers
            .into_iter()
            .flat_map(|number| self.by_equal[&self.all[number].equal_to].iter().copied())
            .collect();
        with_equals.sort_unstable();
        with_equals.dedup();
        let span = |number: usize| {
            let function = &self.all[number];
            Target { path: function.file.path.clone(), lines: Some(function.lines) }
        };
        with_equals.into_iter().map(span).collect()
    }
}

fn function(file: &SourceFile, number: usize) -> Option<Function<'_>> {
    let unit = &file.units[number];
    if !is_function(unit)
        || unit.signature.is_empty()
        || file.is_test(unit)
        || own_name(&unit.name).is_empty()
    {
        return None;
    }
    // Further units of a long function: the same name, no declaration.
    let further = file.units[number + 1..].iter().filter(|other| {
        other.parent == Some(number) && other.signature.is_empty() && other.name == unit.name
    });
    let last = further.clone().next_back().unwrap_or(unit);
    let mut code = cut_out(&file.bytes, unit.bytes.clone(), &unit.doc_bytes);
    for other in further {
        code.push_str(&String::from_utf8_lossy(&file.bytes[other.bytes.clone()]));
    }
    if identifiers(&code).take(MIN_CODE_WORDS).count() < MIN_CODE_WORDS {
        return None;
    }
    Some(Function { file, unit, lines: (unit.start_line, last.end_line), code, equal_to: 0 })
}

pub fn is_function(unit: &Unit) -> bool {
    matches!(unit.kind, UnitKind::Function | UnitKind::Method)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Files from (path, content), with the flags that their paths give them.
    pub(crate) fn files(files: &[(&str, &str)]) -> Vec<SourceFile> {
        files
            .iter()
            .map(|(path, content)| {
                let language = quarry_source::language_for(path.as_ref(), content.as_bytes()).unwrap();
                let text = SourceText::read(path.as_ref(), content.as_bytes().to_vec()).unwrap();
                SourceFile::new(path, language, walk::path_flags(path), text)
            })
            .collect()
    }

    fn spans(files: &[SourceFile]) -> Vec<Vec<(String, (u32, u32))>> {
        let functions = Functions::collect(files);
        let span = |target: Target| (target.path, target.lines.unwrap());
        (0..functions.all.len()).map(|n| functions.spans([n]).into_iter().map(span).collect()).collect()
    }

    #[test]
    fn near_duplicates_count_as_equals() {
        let body = "(first, second):\n    total = first * 2 + second\n    print(total, first, second)\n    return total\n";
        let other = "def other(path, mode):\n    with open(path, mode) as file:\n        return file.read().strip().split(mode)\n";
        let found = spans(&files(&[
            ("a.py", &format!("def add{body}")),
            ("b.py", &format!("{other}\n\ndef add{body}")),
        ]));
        let (a, b) = (("a.py".to_owned(), (1, 4)), ("b.py".to_owned(), (6, 9)));
        assert_eq!(found, [vec![a.clone(), b.clone()], vec![("b.py".to_owned(), (1, 3))], vec![a, b]]);
    }

    #[test]
    fn tests_and_what_does_nothing_are_not_asked_for() {
        let long = "def run(first, second):\n    return [first + number * second for number in range(9)]\n";
        let found = spans(&files(&[
            ("a.py", "def short(x):\n    return x\n"),
            ("tests/test_a.py", long),
            ("examples/a.py", long),
            ("b.py", long),
        ]));
        assert_eq!(found, [[("b.py".to_owned(), (1, 2))]]);
    }

    #[test]
    fn a_long_function_has_all_its_lines() {
        let lines: String = (0..400).map(|n| format!("    value_{n} = compute({n}, other)\n")).collect();
        let files = files(&[("a.py", &format!("def long(other):\n{lines}    return other\n\n\nx = 1\n"))]);
        assert!(files[0].units.len() > 2);
        assert_eq!(spans(&files), [[("a.py".to_owned(), (1, 402))]]);
    }
}
