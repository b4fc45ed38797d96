//! Queries from tests: the name of a test is a query for the function that it tests.
//!
//! A test is a function of a test file, or one that the language marks, or a call such as `it("…", …)` in a test
//! file. The function under test is the called function whose name, and whose type's or file's name, is most similar
//! to the test's.

use std::collections::{BTreeSet, HashMap};

use quarry_source::{Call, Unit};
use quarry_text::{identifiers, lexical_terms, parts, query_terms};
use quarry_walk::FileFlags;

use super::docstrings::repeats_name;
use super::tree::{Function, Functions, SourceFile, is_function, own_name};
use super::{LabeledQuery, Questions};

/// Minimum number of distinctive terms of a name.
const MIN_TERMS: usize = 2;

/// Maximum number of functions with one name; a more common name is not distinctive.
const MAX_SAME_NAME: usize = 20;

/// Words at the beginning or end of a name that only mark it as a test.
const TEST_WORDS: &[&str] = &["it", "should", "spec", "test", "tests"];

/// Texts before a function that mark it as a test.
const MARKS: &[&str] =
    &["@Test", "@ParameterizedTest", "[Test]", "[TestMethod]", "[Fact]", "[Theory]", "@test"];

/// Functions that take a test as an argument after its name.
const TEST_CALLS: &[&str] = &["it", "specify", "test"];

/// A test: its name, the names of its context, and its calls.
struct Test<'a> {
    words: String,
    /// Names of its type and file.
    around: String,
    calls: Vec<&'a Call>,
}

/// A query for each test with an informative name and an unambiguous function under test.
pub fn questions(files: &[SourceFile], functions: &Functions<'_>) -> Questions {
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, function) in functions.all.iter().enumerate() {
        by_name.entry(function.own_name()).or_default().push(number);
    }
    let mut questions = Questions::default();
    let mut asked = BTreeSet::new();
    for test in files.iter().flat_map(tests) {
        if query_terms(&test.words).len() < MIN_TERMS {
            questions.leave_out("tests with uninformative names");
            continue;
        }
        let names: BTreeSet<&str> = test.calls.iter().map(|call| call.callee.as_str()).collect();
        let called = names.iter().filter_map(|name| by_name.get(name));
        let candidates: Vec<usize> =
            called.filter(|numbers| numbers.len() <= MAX_SAME_NAME).flatten().copied().collect();
        if candidates.is_empty() {
            questions.leave_out("tests that call no eligible function");
            continue;
        }
        let Some(number) = most_similar(&test, &candidates, functions) else {
            questions.leave_out("tests that call several functions, none of which has the most similar name");
            continue;
        };
        if repeats_name(&test.words, functions.all[number].own_name()) {
            questions.leave_out("tests whose name adds nothing to the function's");
        } else if asked.insert(test.words.to_lowercase()) {
            questions
                .queries
                .push(LabeledQuery { text: test.words, answers: vec![functions.spans([number])] });
        } else {
            questions.leave_out("tests that share their name");
        }
    }
    questions
}

/// The function whose names are most similar to those of the test; `None` in case of a tie.
fn most_similar(test: &Test<'_>, candidates: &[usize], functions: &Functions<'_>) -> Option<usize> {
    let (words, around) = (terms(&test.words), terms(&test.around));
    let likeness = |function: &Function<'_>| {
        let own = share(&terms(function.own_name()), &words);
        let owner = function.unit.name.rsplit_once('.').map_or("", |(owner, _)| owner);
        let stem = stem(&function.file.path);
        let both: BTreeSet<String> = words.union(&around).cloned().collect();
        (own, share(&terms(own_name(owner)), &both) + share(&terms(stem), &around))
    };
    let mut ranked: Vec<(f64, f64, usize)> = candidates
        .iter()
        .map(|&number| {
            let (own, position) = likeness(&functions.all[number]);
            (own, position, number)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let best = *ranked.first()?;
    let equal_to = |number: usize| functions.all[number].equal_to;
    let is_clear = |other: &(f64, f64, usize)| {
        (other.0, other.1) != (best.0, best.1) || equal_to(other.2) == equal_to(best.2)
    };
    // If no name is similar, the test is unambiguous only if it calls a single function.
    let is_plain = best.0 > 0.0 || ranked.iter().all(|other| equal_to(other.2) == equal_to(best.2));
    (is_plain && ranked.iter().all(is_clear)).then_some(best.2)
}

/// The share of `terms` that `others` contain, 0 to 1.
fn share(terms: &BTreeSet<String>, others: &BTreeSet<String>) -> f64 {
    terms.intersection(others).count() as f64 / terms.len().max(1) as f64
}

/// The parts of a name, stemmed.
fn terms(name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in identifiers(name).flat_map(parts) {
        lexical_terms(part, |term, _| {
            found.insert(term.to_owned());
        });
    }
    found
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

fn tests(file: &SourceFile) -> Vec<Test<'_>> {
    let mut tests: Vec<Test<'_>> = Vec::new();
    for (number, unit) in file.units.iter().enumerate() {
        if is_function(unit) && !unit.signature.is_empty() && file.is_test(unit) && is_named_test(file, unit)
        {
            let words = words(own_name(&unit.name));
            let around = format!("{} {}", unit.name, stem(&file.path));
            let lies_in = |call: &&Call| {
                let of_call = call.unit.map(|at| (at, &file.units[at]));
                // Further parts of a long function, and functions within it.
                of_call.is_some_and(|(at, unit)| at == number || unit.parent == Some(number))
            };
            tests.push(Test { words, around, calls: file.calls.iter().filter(lies_in).collect() });
        }
    }
    if file.flags.contains(FileFlags::TEST) {
        let titled: Vec<(usize, String)> = file
            .calls
            .iter()
            .enumerate()
            .filter(|(_, call)| TEST_CALLS.contains(&call.callee.as_str()))
            .filter_map(|(at, call)| Some((at, title(&file.bytes[call.byte + call.callee.len()..])?)))
            .collect();
        for (position, (at, title)) in titled.iter().enumerate() {
            let end = titled.get(position + 1).map_or(file.calls.len(), |(next, _)| *next);
            tests.push(Test {
                words: title.clone(),
                around: stem(&file.path).to_owned(),
                calls: file.calls[at + 1..end].iter().collect(),
            });
        }
    }
    tests
}

fn is_named_test(file: &SourceFile, unit: &Unit) -> bool {
    let name = own_name(&unit.name);
    let is_test_word =
        |part: Option<&str>| part.is_some_and(|part| TEST_WORDS.contains(&part.to_lowercase().as_str()));
    let of_name: Vec<&str> = identifiers(name).flat_map(parts).collect();
    let head = String::from_utf8_lossy(&file.bytes[unit.bytes.clone()]);
    unit.is_test
        || is_test_word(of_name.first().copied())
        || is_test_word(of_name.last().copied())
        || MARKS.iter().any(|mark| head.contains(mark))
}

/// The words of a test's name, without those that mark it as a test.
fn words(name: &str) -> String {
    let all: Vec<String> = identifiers(name).flat_map(parts).map(str::to_lowercase).collect();
    let is_test_word = |word: &String| TEST_WORDS.contains(&word.as_str());
    let start = usize::from(all.first().is_some_and(is_test_word));
    let end = all.len() - usize::from(all.len() > start && all.last().is_some_and(is_test_word));
    all[start..end].join(" ")
}

/// The string literal that is the first argument.
fn title(after_callee: &[u8]) -> Option<String> {
    const MAX_TITLE_BYTES: usize = 300;
    let text = String::from_utf8_lossy(&after_callee[..after_callee.len().min(MAX_TITLE_BYTES)]);
    let text = text.trim_start();
    let text = text.strip_prefix('(').unwrap_or(text).trim_start();
    let quote = text.chars().next().filter(|c| ['"', '\'', '`'].contains(c))?;
    let (title, _) = text[1..].split_once(quote)?;
    (!title.contains('\n')).then(|| title.strip_prefix("should ").unwrap_or(title).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::files;
    use super::*;

    fn asked(tree: &[(&str, &str)]) -> (Vec<(String, u32)>, Vec<&'static str>) {
        let files = files(tree);
        let functions = Functions::collect(&files);
        let questions = questions(&files, &functions);
        let answer_line = |query: &LabeledQuery| (query.text.clone(), query.answers[0][0].lines.unwrap().0);
        (questions.queries.iter().map(answer_line).collect(), questions.left_out.into_keys().collect())
    }

    const CODE: &str = "def parse_header(line, strict):\n    name, value = line.split(':')\n    return name.strip(), value.strip(), strict\n\n\ndef join_lines(lines, mark):\n    return mark.join(line for line in lines if line is not None)\n";

    #[test]
    fn a_test_asks_for_what_it_calls_by_a_like_name() {
        let test = "def test_parsing_a_header_without_value():\n    assert parse_header(join_lines(['a'], ''), True)\n\n\ndef helper_of_header():\n    return parse_header('', False)\n";
        let (found, left_out) = asked(&[("lib/text.py", CODE), ("tests/test_text.py", test)]);
        assert_eq!(found, [("parsing a header without value".to_owned(), 1)]);
        assert_eq!(left_out, [""; 0]);
    }

    #[test]
    fn unclear_tests_are_left_out() {
        let test = "def test_everything_at_once():\n    parse_header(join_lines([], ''), True)\n\n\ndef test_parse_header():\n    parse_header('', True)\n\n\ndef test_nothing_is_called():\n    pass\n\n\ndef test_x():\n    parse_header('', True)\n";
        let (found, left_out) = asked(&[("lib/text.py", CODE), ("tests/test_text.py", test)]);
        assert_eq!(found, []);
        assert_eq!(left_out.len(), 4, "{left_out:?}");
    }

    #[test]
    fn the_nearer_of_two_functions_with_one_name_is_meant() {
        let classes = |extra: &str| {
            format!(
                "    def close(self, grace):\n        for socket in self.sockets_{extra}:\n            socket.{extra}(grace, self.reason_{extra})\n"
            )
        };
        let code = format!("class Client:\n{}\n\nclass Server:\n{}", classes("shut"), classes("stop"));
        let test =
            "class TestServer:\n    def test_close_waits_for_requests(self):\n        make().close(3)\n";
        let (found, _) = asked(&[("lib/net.py", &code), ("tests/test_net.py", test)]);
        assert_eq!(found, [("close waits for requests".to_owned(), 8)]);
    }

    #[test]
    fn titles_of_tests_are_read() {
        let code = "export function parseHeader(line, strict) {\n  const [name, value] = line.split(':');\n  return { name: name.trim(), value, strict };\n}\n";
        let test = "describe('header', () => {\n  it('should trim names while parsing', () => {\n    expect(parseHeader('a : b', true)).toBe(1);\n  });\n  it('fails', () => {});\n});\n";
        let (found, _) = asked(&[("src/header.js", code), ("test/header.test.js", test)]);
        assert_eq!(found, [("trim names while parsing".to_owned(), 1)]);
    }
}
