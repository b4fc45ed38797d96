//! Splitting questions into those that a model may learn from and those that decide whether it has become better.
//!
//! Functions are split, not questions: a function, with its near-duplicates, is on one side, and a question is on the
//! side of the functions that answer it. Questions answered by functions of both sides are left out.

use std::collections::{HashMap, HashSet};

use quarry_corpus::formats::repo_search::Target;
use quarry_corpus::pairs::fingerprint;

use super::tree::Functions;
use super::{LabeledQuery, QuerySet, QuerySource, Questions};

/// Questions of a repository in two parts that share no function.
#[derive(Debug, Clone, Default)]
pub struct HoldOut {
    pub learned: Vec<Lesson>,
    /// Questions to decide by; sets without any are left out.
    pub held_out: Vec<QuerySet>,
    /// Number of questions that functions of both sides answer.
    pub mixed: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    pub source: QuerySource,
    pub text: String,
    /// Indices of the functions that answer it, one of each group of near-duplicates.
    pub functions: Vec<usize>,
}

/// Held-out functions, by index: about this share (0..=1), chosen by their code and the seed, so that a change of one
/// function moves no other one to the other side.
pub fn held_out_functions(functions: &Functions<'_>, share: f64, seed: u64) -> Vec<bool> {
    let is_held_out = |code: &str| fastrand::Rng::with_seed(fingerprint(code) ^ seed).f64() < share;
    functions.all.iter().map(|function| is_held_out(&functions.all[function.equal_to].code)).collect()
}

/// Splits sets of questions by the functions that answer them. No question that is held out is also learned from,
/// whatever its source.
pub fn hold_out(sets: &[QuerySet], functions: &Functions<'_>, is_held_out: &[bool]) -> HoldOut {
    let mut by_lines: HashMap<(&str, (u32, u32)), usize> = HashMap::new();
    for (number, function) in functions.all.iter().enumerate() {
        by_lines.insert((&function.file.path, function.lines), number);
    }
    let answers = |query: &LabeledQuery| -> Vec<usize> {
        let function = |target: &Target| {
            let number = *by_lines.get(&(target.path.as_str(), target.lines?))?;
            Some(functions.all[number].equal_to)
        };
        let mut numbers: Vec<usize> = query.answers.iter().flatten().filter_map(function).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let mut split = HoldOut::default();
    for set in sets {
        let mut held_out = QuerySet { questions: Questions::default(), ..set.clone() };
        for query in &set.questions.queries {
            let numbers = answers(query);
            if numbers.is_empty() {
                continue;
            }
            match numbers.iter().filter(|number| is_held_out[**number]).count() {
                0 => split.learned.push(Lesson {
                    source: set.source,
                    text: query.text.clone(),
                    functions: numbers,
                }),
                n if n == numbers.len() => held_out.questions.queries.push(query.clone()),
                _ => split.mixed += 1,
            }
        }
        if !held_out.questions.queries.is_empty() {
            split.held_out.push(held_out);
        }
    }
    let queries = split.held_out.iter().flat_map(|set| &set.questions.queries);
    let asked: HashSet<u64> = queries.map(|query| fingerprint(&query.text)).collect();
    split.learned.retain(|lesson| !asked.contains(&fingerprint(&lesson.text)));
    split
}

#[cfg(test)]
mod tests {
    use super::super::docstrings;
    use super::super::tree::tests::files;
    use super::super::view::View;
    use super::*;
    use quarry_corpus::pairs::Extent;

    fn function(n: usize) -> String {
        format!(
            "def function_{n}(first_{n}, second_{n}):\n    \"\"\"Explains the number {n} of the list.\"\"\"\n    third_{n} = first_{n} + second_{n}\n    return other_{n}(third_{n}, fourth_{n})\n\n\n"
        )
    }

    #[test]
    fn no_function_is_on_both_sides() {
        let content: String = (0..100).map(function).collect();
        // A copy of the first file: near-duplicates stay together.
        let files = files(&[("a.py", &content), ("b.py", &content)]);
        let functions = Functions::collect(&files);
        let is_held_out = held_out_functions(&functions, 0.4, 7);
        assert_eq!(is_held_out[..100], is_held_out[100..]);
        let n = is_held_out[..100].iter().filter(|is| **is).count();
        assert!((20..60).contains(&n), "{n}");
        assert_ne!(is_held_out, held_out_functions(&functions, 0.4, 8));

        let mut questions = docstrings::questions(&functions, Extent::Sentence);
        let (first, last) =
            (questions.queries[0].answers[0].clone(), questions.queries[99].answers[0].clone());
        let (mine, other) =
            (is_held_out[0], is_held_out.iter().position(|is| *is != is_held_out[0]).unwrap());
        let other = questions.queries[other].answers[0].clone();
        questions.queries.push(LabeledQuery { text: "mixed".into(), answers: vec![first.clone(), other] });
        let set = QuerySet { source: QuerySource::Docstring, view: View::default(), questions };
        // The same question from another source, about a function of the other side.
        let (_, text) = (last, set.questions.queries[0].text.clone());
        let at = is_held_out.iter().position(|is| *is != mine).unwrap();
        let elsewhere = LabeledQuery { text, answers: set.questions.queries[at].answers.clone() };
        let commits = QuerySet {
            source: QuerySource::Commit,
            view: View::default(),
            questions: Questions { queries: vec![elsewhere], ..Questions::default() },
        };
        let split = hold_out(&[set, commits], &functions, &is_held_out);
        assert_eq!(split.mixed, 1);
        let lines = |targets: &[Vec<Target>]| {
            targets.iter().flatten().map(|target| target.lines.unwrap()).collect::<Vec<_>>()
        };
        let held: HashSet<(u32, u32)> =
            split.held_out[0].questions.queries.iter().flat_map(|query| lines(&query.answers)).collect();
        for lesson in &split.learned {
            for number in &lesson.functions {
                assert!(!is_held_out[*number] && !held.contains(&functions.all[*number].lines));
            }
        }
        let n_held: usize = split.held_out.iter().map(|set| set.questions.queries.len()).sum();
        assert_eq!(n_held + split.learned.len() + split.mixed, 101, "one question is asked on both sides");
    }
}
