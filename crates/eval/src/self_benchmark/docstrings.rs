//! Queries from documentation: the description of a function is a query for it.

use std::collections::BTreeMap;

use quarry_corpus::pairs::{Extent, fingerprint, question};
use quarry_text::{lexical_terms, query_terms};

use super::tree::Functions;
use super::{LabeledQuery, Questions};

/// Maximum number of functions with the same description; if more have it, it is not used as a query.
const MAX_SHARED: usize = 5;

/// A query for each informative documentation: its first sentence, or paragraph. If several functions share it, any
/// of them is an answer.
pub fn questions(functions: &Functions<'_>, extent: Extent) -> Questions {
    let mut questions = Questions::default();
    // In the order of their first function.
    let mut asked: BTreeMap<u64, (usize, String, Vec<usize>)> = BTreeMap::new();
    for (number, function) in functions.all.iter().enumerate() {
        if function.unit.doc.trim().is_empty() {
            continue;
        }
        let Some(text) = question(&function.unit.doc, function.own_name(), extent) else {
            questions.leave_out("documentation that is not a question");
            continue;
        };
        if repeats_name(&text, function.own_name()) {
            questions.leave_out("documentation that adds nothing to the name");
            continue;
        }
        asked.entry(fingerprint(&text)).or_insert_with(|| (number, text, Vec::new())).2.push(number);
    }
    let mut asked: Vec<(usize, String, Vec<usize>)> = asked.into_values().collect();
    asked.sort_unstable();
    for (_, text, numbers) in asked {
        let mut different: Vec<usize> =
            numbers.iter().map(|&number| functions.all[number].equal_to).collect();
        different.sort_unstable();
        different.dedup();
        if different.len() > MAX_SHARED {
            questions.leave_out("documentation that many functions share");
        } else {
            questions.queries.push(LabeledQuery { text, answers: vec![functions.spans(numbers)] });
        }
    }
    questions
}

/// Returns whether a question has only words of the name.
pub(super) fn repeats_name(text: &str, name: &str) -> bool {
    let mut of_name = Vec::new();
    lexical_terms(name, |term, _| of_name.push(term.to_owned()));
    query_terms(text).iter().all(|term| of_name.contains(term))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::files;
    use super::*;

    fn asked(content: &str) -> (Vec<(String, Vec<u32>)>, usize) {
        let files = files(&[("a.py", content)]);
        let questions = questions(&Functions::collect(&files), Extent::Sentence);
        let answer_lines = |query: &LabeledQuery| {
            let lines = query.answers[0].iter().map(|target| target.lines.unwrap().0).collect();
            (query.text.clone(), lines)
        };
        (questions.queries.iter().map(answer_lines).collect(), questions.left_out.values().sum())
    }

    fn function(name: &str, doc: &str, n: usize) -> String {
        format!(
            "def {name}(first, second):\n    \"\"\"{doc}\"\"\"\n    value_{n} = first_{n} + second_{n}\n    return other_{n}(value_{n}, third_{n})\n"
        )
    }

    #[test]
    fn documentation_asks_for_its_function() {
        let content = function("a", "Open the door to the garden. Slowly.", 1)
            + &function("b", "TODO", 2)
            + &function("close_the_door", "Closes the doors", 3)
            + &function("c", "", 4);
        assert_eq!(asked(&content), (vec![("Open the door to the garden.".into(), vec![1])], 2));
    }

    #[test]
    fn repeated_documentation_asks_for_any_and_frequent_documentation_for_none() {
        let same = |n_functions: usize| -> String {
            (0..n_functions).map(|n| function(&format!("f{n}"), "Write the buffer to disk", n)).collect()
        };
        let text = "Write the buffer to disk".to_owned();
        assert_eq!(asked(&same(2)), (vec![(text, vec![1, 5])], 0));
        assert_eq!(asked(&same(6)), (vec![], 1));
    }
}
