//! Query–function pairs for training, extracted from source trees.

use std::collections::HashMap;
use std::path::Path;

use quarry_source::{FunctionPair, Language, Unit, UnitKind, extract};
use quarry_text::{identifiers, parts};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::evaluation_guard::EvaluationGuard;
pub use crate::summary::{MIN_CODE_WORDS, cut_out, fingerprint, split_summary};
use crate::summary::{first_paragraph, sentence_end};
use quarry_walk::{FileFlags, WalkError, WalkOptions, base_directory, list, open, read, resolved};

/// Number of words of a summary that can be a query.
const SUMMARY_WORDS: std::ops::RangeInclusive<usize> = 3..=40;
/// Maximum size in bytes of the code, and of the documentation after the summary.
const MAX_CODE_BYTES: usize = 4000;
const MAX_DOC_BYTES: usize = 1500;

/// Extent of a function's documentation that becomes the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    #[default]
    Sentence,
    Paragraph,
}

/// The query derived from a function's documentation, if it is plausible as one.
pub fn question(doc: &str, own_name: &str, extent: Extent) -> Option<String> {
    let (sentence, _) = split_summary(doc, own_name);
    if !is_useful_query(&sentence) {
        return None;
    }
    match extent {
        Extent::Sentence => Some(sentence),
        Extent::Paragraph => {
            let (paragraph, _) = first_paragraph(doc);
            let others = paragraph[sentence_end(&paragraph)..].trim();
            Some(format!("{sentence} {others}").trim().to_owned())
        }
    }
}

/// Reads the functions of one source tree, in order of path and line. Files of tests, examples, documentation, stubs,
/// and generated or vendored ones are skipped, and so are functions that are too short or excluded. Of code repeated
/// within the tree, one copy is kept.
pub fn read_tree(
    root: &Path,
    repository: &str,
    excluded: &EvaluationGuard,
) -> Result<Vec<FunctionPair>, WalkError> {
    let root = &*resolved(root);
    let options = WalkOptions::default();
    let listing = list(root, &options)?;
    let base = open(base_directory(root)?)?;
    let files: Vec<Vec<FunctionPair>> = listing
        .files
        .par_iter()
        .map(|file| match read(&base, file, &options) {
            Ok(content) if content.flags.difference(FileFlags::DOCUMENTATION).is_empty() => {
                let pairs = read_functions(file.language, content.text.bytes(), repository, excluded);
                pairs.into_iter().map(|pair| FunctionPair { path: file.path.clone(), ..pair }).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let mut seen = std::collections::HashSet::new();
    Ok(files.into_iter().flatten().filter(|pair| seen.insert(fingerprint(&pair.code))).collect())
}

fn read_functions(
    language: Language,
    bytes: &[u8],
    repository: &str,
    excluded: &EvaluationGuard,
) -> Vec<FunctionPair> {
    let is_function = |unit: &Unit| matches!(unit.kind, UnitKind::Function | UnitKind::Method);
    let units = extract(language, bytes).units;
    units
        .iter()
        .filter(|unit| is_function(unit) && !unit.signature.is_empty())
        .filter_map(|unit| {
            let code = cut_out(bytes, unit.bytes.clone(), &unit.doc_bytes);
            let words = identifiers(&code).take(MIN_CODE_WORDS).count();
            let own_name = unit.name.rsplit('.').next().unwrap_or(&unit.name);
            if words < MIN_CODE_WORDS || own_name.is_empty() || own_name.to_lowercase().starts_with("test") {
                return None;
            }
            let (_, doc) = split_summary(&unit.doc, own_name);
            let pair = FunctionPair {
                query: question(&unit.doc, own_name, Extent::Sentence).unwrap_or_default(),
                doc: truncate(doc, MAX_DOC_BYTES),
                name: unit.name.clone(),
                code: truncate(code, MAX_CODE_BYTES),
                language: language.name().to_owned(),
                repository: repository.to_owned(),
                path: String::new(),
                negatives: Vec::new(),
            };
            let whole = String::from_utf8_lossy(&bytes[unit.bytes.clone()]);
            (!excluded.has_function(&whole, &pair)).then_some(pair)
        })
        .collect()
}

fn truncate(mut text: String, max_bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(max_bytes));
    text
}

/// Returns whether a summary is plausible as a query: several words, mostly in the Latin alphabet, and not a remark
/// about the code itself.
fn is_useful_query(summary: &str) -> bool {
    let words = identifiers(summary).flat_map(parts).count();
    let latin = summary.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').count();
    let lower = summary.to_lowercase();
    let remarks = [
        "todo",
        "fixme",
        "deprecated",
        "see ",
        "inheritdoc",
        "copyright",
        "noqa",
        "eslint",
        "pylint",
        "auto-generated",
        "non-javadoc",
        "@",
        "http",
        "=",
        "safety",
        "istanbul",
    ];
    SUMMARY_WORDS.contains(&words)
        && latin * 10 >= summary.chars().count() * 8
        && !remarks.iter().any(|remark| lower.starts_with(remark))
}

/// Keeps at most `max_repeats` pairs with the same summary, at most `max_tree` pairs per repository (every n-th), and
/// one copy of code that several repositories share. The order is kept.
pub fn thin(pairs: Vec<FunctionPair>, max_repeats: usize, max_tree: usize) -> Vec<FunctionPair> {
    let mut sizes: HashMap<String, usize> = HashMap::new();
    for pair in &pairs {
        *sizes.entry(pair.repository.clone()).or_default() += 1;
    }
    let mut taken: HashMap<String, usize> = HashMap::new();
    let mut asked: HashMap<u64, usize> = HashMap::new();
    let mut seen = std::collections::HashSet::new();
    pairs
        .into_iter()
        .filter(|pair| {
            let at = taken.entry(pair.repository.clone()).or_default();
            *at += 1;
            let step = sizes[&pair.repository].div_ceil(max_tree);
            if !at.is_multiple_of(step) || !seen.insert(fingerprint(&pair.code)) {
                return false;
            }
            let repeats = asked.entry(fingerprint(&pair.query)).or_default();
            *repeats += 1;
            pair.query.is_empty() || *repeats <= max_repeats
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation_data::EvaluationData;
    use quarry_source::language_named;

    fn check_summary(doc: &str, name: &str, summary: &str, rest: &str) {
        assert_eq!(split_summary(doc, name), (summary.to_owned(), rest.to_owned()), "{doc:?}");
    }

    #[test]
    fn the_summary_is_the_first_sentence() {
        check_summary("Sort a list.", "f", "Sort a list.", "");
        check_summary("Sort a list. Stable.\n\nMore.", "f", "Sort a list.", "Stable. More.");
        check_summary(
            "Sort a list,\ne.g. of words, in place\n@param x what",
            "f",
            "Sort a list, e.g. of words, in place",
            "@param x what",
        );
        check_summary("\nArgs:\n  x: what", "f", "", "Args:\n  x: what");
        check_summary("Returns the {@link Foo} of <b>bar</b>.", "f", "Returns the Foo of bar.", "");
        check_summary("whether a < b", "f", "whether a < b", "");
        check_summary("", "f", "", "");
    }

    #[test]
    fn a_leading_name_is_dropped() {
        check_summary("ReadFile reads the file.", "ReadFile", "reads the file.", "");
        check_summary("ReadFiles reads the file.", "ReadFile", "ReadFiles reads the file.", "");
    }

    #[test]
    fn remarks_are_not_asked() {
        assert!(is_useful_query("Sort the list in place"));
        for remark in
            ["TODO sort this list", "Sort", "见下面的说明 以及 其他 说明", "See other function for details"]
        {
            assert!(!is_useful_query(remark), "{remark}");
        }
    }

    #[test]
    fn a_question_is_a_sentence_or_a_paragraph() {
        let doc = "Sort reads the list in place. It is stable.\n\nSlow.";
        assert_eq!(question(doc, "Sort", Extent::Sentence).unwrap(), "reads the list in place.");
        assert_eq!(
            question(doc, "Sort", Extent::Paragraph).unwrap(),
            "reads the list in place. It is stable."
        );
        assert_eq!(question("TODO sort this list", "Sort", Extent::Paragraph), None);
    }

    fn python(code: &str, excluded: &EvaluationGuard) -> Vec<FunctionPair> {
        read_functions(language_named("python").unwrap(), code.as_bytes(), "owner/name", excluded)
    }

    fn guard(code: &str) -> EvaluationGuard {
        let mut data = EvaluationData::default();
        data.add_code(code, None);
        data.into()
    }

    const CODE: &str = "@cached\ndef add_all(numbers, start):\n    \"\"\"Add up all the given numbers.\n\n    From start on.\n    \"\"\"\n    total = start\n    for number in numbers:\n        total += number\n    return total\n";

    #[test]
    fn a_function_is_taken_apart() {
        let pairs = python(CODE, &EvaluationGuard::default());
        assert_eq!(pairs.len(), 1);
        assert_eq!(pairs[0].query, "Add up all the given numbers.");
        assert_eq!(pairs[0].doc, "From start on.");
        assert!(!pairs[0].code.contains("Add up") && pairs[0].code.starts_with("@cached\ndef add_all"));
    }

    #[test]
    fn excluded_functions_are_known_in_any_form() {
        let undecorated = CODE.split_once('\n').unwrap().1;
        let bare = "def add_all(numbers, start):\n  total = start\n  for number in numbers: total += number\n  return total";
        let other_version = undecorated.replace("total", "sum_so_far");
        for text in [undecorated, bare, &other_version] {
            assert_eq!(python(CODE, &guard(text)), [], "{text}");
        }
        let other = "def add_all(numbers, start):\n    return start + len(numbers) * numbers[0]";
        assert_eq!(python(CODE, &guard(other)).len(), 1);
    }

    #[test]
    fn thinning_bounds_repeats_and_trees() {
        let pair = |n: usize, repository: &str, query: &str| FunctionPair {
            query: query.to_owned(),
            name: format!("f{n}"),
            code: format!("def f{n}()"),
            language: "python".to_owned(),
            repository: repository.to_owned(),
            ..FunctionPair::default()
        };
        let same: Vec<_> = (0..10).map(|n| pair(n, "a/b", "the same question")).collect();
        assert_eq!(thin(same, 3, 100).len(), 3);
        let many: Vec<_> = (0..10).map(|n| pair(n, "a/b", &format!("question {n}"))).collect();
        assert_eq!(thin(many.clone(), 3, 5).len(), 5);
        let copied = many
            .iter()
            .cloned()
            .chain(many.iter().cloned().map(|p| FunctionPair { repository: "c/d".into(), ..p }));
        assert_eq!(thin(copied.collect(), 3, 100).len(), 10);
    }
}
