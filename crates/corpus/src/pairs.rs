//! Query–function pairs for training, extracted from source trees.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use quarry_source::{FunctionPair, Language, Unit, UnitKind, extract};
use quarry_text::{identifiers, parts};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::evaluation_data::EvaluationData;
use quarry_walk::{FileFlags, WalkError, WalkOptions, base_directory, list, open, read, resolved};

/// Number of words of a summary that can be a query.
const SUMMARY_WORDS: std::ops::RangeInclusive<usize> = 3..=40;
/// Minimum number of words of a function's code; shorter functions do nothing worth searching for.
pub const MIN_CODE_WORDS: usize = 8;
/// Maximum size in bytes of the code, and of the documentation after the summary.
const MAX_CODE_BYTES: usize = 4000;
const MAX_DOC_BYTES: usize = 1500;

/// How much of a function's documentation becomes the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// The first sentence.
    #[default]
    Sentence,
    /// The first paragraph.
    Paragraph,
}

/// The query derived from a function's documentation, if it is plausible as one.
#[must_use]
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

/// Hash of the letters and digits of a text in lower case, so that white space and punctuation are ignored.
#[must_use]
pub fn fingerprint(text: &str) -> u64 {
    let normalized: String =
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    xxh3_64(normalized.as_bytes())
}

/// Hash of a function's own name and its summary, if the summary is long enough to be distinctive.
pub(crate) fn summary_fingerprint(name: &str, summary: &str) -> Option<u64> {
    let own = name.rsplit('.').next().unwrap_or(name);
    (identifiers(summary).count() >= 4).then(|| fingerprint(&format!("{own} {summary}")))
}

/// Reads the functions of one source tree, in order of path and line. Files of tests, examples, documentation, stubs,
/// and generated or vendored ones are skipped, and so are functions that are too short or excluded. Of code repeated
/// within the tree, one copy is kept.
///
/// # Errors
/// When the directory cannot be read.
pub fn read_tree(
    root: &Path,
    repository: &str,
    excluded: &EvaluationData,
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
    excluded: &EvaluationData,
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

/// The text of `span` without the ascending ranges `holes`.
#[must_use]
pub fn cut_out(bytes: &[u8], span: Range<usize>, holes: &[Range<usize>]) -> String {
    let mut kept = Vec::with_capacity(span.len());
    let mut at = span.start;
    for hole in holes {
        kept.extend_from_slice(&bytes[at..hole.start.max(at)]);
        at = hole.end.max(at);
    }
    kept.extend_from_slice(&bytes[at..span.end.max(at)]);
    String::from_utf8_lossy(&kept).trim().to_owned()
}

fn truncate(mut text: String, max_bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(max_bytes));
    text
}

/// The first sentence of a function's documentation, on one line and without markup, and the text after it. The
/// function's name at the beginning, as in Go, is removed: users do not know the name of what they search for.
#[must_use]
pub fn split_summary(doc: &str, own_name: &str) -> (String, String) {
    let (summary, rest) = first_paragraph(doc);
    let end = sentence_end(&summary);
    let (first, others) = summary.split_at(end);
    let first = match first.trim().split_once(' ') {
        Some((name, tail)) if name.trim_matches('`') == own_name => tail,
        _ => first,
    };
    (first.trim().to_owned(), format!("{} {}", others.trim(), rest.trim()).trim().to_owned())
}

/// The first paragraph of a function's documentation, on one line and without markup, and the lines after it.
fn first_paragraph(doc: &str) -> (String, String) {
    let is_tag = |line: &str| {
        let line = line.trim_start();
        line.starts_with(['@', ':', '\\', '>']) || line.ends_with(':') && line.split(' ').count() < 3
    };
    let mut lines = doc.lines();
    let mut summary = String::new();
    let mut rest = String::new();
    for line in lines.by_ref() {
        let text = line.trim().trim_start_matches("@brief").trim_start_matches("\\brief").trim();
        if text.is_empty() && !summary.is_empty() || is_tag(text) {
            rest.push_str(line);
            break;
        }
        let is_rule = text.chars().all(|c| !c.is_alphanumeric());
        if !is_rule {
            if !summary.is_empty() {
                summary.push(' ');
            }
            summary.push_str(text);
        }
    }
    lines.for_each(|line| {
        rest.push('\n');
        rest.push_str(line);
    });
    (without_markup(&summary), rest)
}

/// The end of the first sentence: after a full stop, question or exclamation mark before white space, except after an
/// abbreviation.
fn sentence_end(text: &str) -> usize {
    text.char_indices()
        .filter(|&(_, c)| matches!(c, '.' | '!' | '?'))
        .map(|(at, _)| at + 1)
        .find(|&end| {
            let before = &text[..end];
            let abbreviated = ["e.g.", "i.e.", "etc.", "vs.", "cf."].iter().any(|a| before.ends_with(a));
            !abbreviated && text[end..].starts_with(char::is_whitespace)
        })
        .unwrap_or(text.len())
}

/// Text without HTML tags, with `{@link x}` and the like as `x`, white space collapsed.
fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '{', '}']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let tag = tail.starts_with('<').then(|| tail.find('>')).flatten();
        rest = match tag {
            Some(end) if end < 40 && tail[1..].starts_with(|c: char| c == '/' || c.is_ascii_alphabetic()) => {
                &tail[end + 1..]
            }
            _ if tail.starts_with("{@") => tail.split_once(' ').map_or("", |(_, rest)| rest),
            _ => {
                if tail.starts_with('<') {
                    out.push('<');
                }
                &tail[1..]
            }
        };
    }
    out.push_str(rest);
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a summary is plausible as a query: several words, mostly in the Latin alphabet, and not a remark about the
/// code itself.
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
#[must_use]
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
    use crate::evaluation_data::each_text;
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

    fn python(code: &str, excluded: &EvaluationData) -> Vec<FunctionPair> {
        read_functions(language_named("python").unwrap(), code.as_bytes(), "owner/name", excluded)
    }

    const CODE: &str = "@cached\ndef add_all(numbers, start):\n    \"\"\"Add up all the given numbers.\n\n    From start on.\n    \"\"\"\n    total = start\n    for number in numbers:\n        total += number\n    return total\n";

    #[test]
    fn a_function_is_taken_apart() {
        let pairs = python(CODE, &EvaluationData::default());
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
            let mut excluded = EvaluationData::default();
            each_text(&serde_json::json!([{ "code": text }]).to_string(), &mut |text| excluded.add(text));
            assert_eq!(python(CODE, &excluded), [], "{text}");
        }
        let mut excluded = EvaluationData::default();
        excluded.add("def add_all(numbers, start):\n    return start + len(numbers) * numbers[0]");
        assert_eq!(python(CODE, &excluded).len(), 1);
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
