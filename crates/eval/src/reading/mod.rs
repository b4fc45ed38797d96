//! Number of tokens that an agent reads until the target function is fully shown, without a language model.
//!
//! A [`Policy`] is a fixed way to search: it makes calls and reads their outputs one after the other, and a [`Reader`] adds
//! up their tokens until every line of one of the gold functions that is not blank has been shown. [`grep`] has the policies
//! of a text search; those of Quarry's own tools are given by the caller, and so is the tokenizer.

pub mod grep;
pub mod report;
pub mod trees;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use quarry_index::{Hit, Index};
use quarry_source::UnitKind;
use rayon::prelude::*;
use serde::Serialize;

use crate::EvalError;

/// Tokens within which the share of answered questions is given.
pub const BUDGETS: [usize; 5] = [1_000, 2_000, 4_000, 8_000, 16_000];

/// Tokens after which an agent stops reading.
pub const MAX_TOKENS: usize = 64_000;

pub type CountTokens<'a> = &'a (dyn Fn(&str) -> usize + Sync);

/// A question, and the functions of which any answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Unique in what is measured together.
    pub id: String,
    /// Repository of the tree: its questions are a stratum.
    pub repository: String,
    pub text: String,
    /// At least one.
    pub gold: Vec<GoldFunction>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldFunction {
    /// Path relative to the tree, `/` between its parts.
    pub path: String,
    /// Its lines that are not blank, 1-based.
    pub lines: BTreeSet<u32>,
}

/// A fixed way to search and read.
pub trait Policy: Sync {
    fn name(&self) -> String;

    /// Reads about a question until the reader has seen enough, or nothing is left to read.
    ///
    /// # Errors
    /// When the tree cannot be searched.
    fn read(&self, question: &str, reader: &mut Reader<'_>) -> Result<(), EvalError>;
}

/// An agent that reads outputs of tools.
pub struct Reader<'a> {
    count: CountTokens<'a>,
    gold: &'a [GoldFunction],
    /// The lines of each gold function that it has not seen.
    unseen: Vec<(&'a str, BTreeSet<u32>)>,
    n_tokens: usize,
    answered_at: Option<usize>,
}

impl<'a> Reader<'a> {
    pub fn new(gold: &'a [GoldFunction], count: CountTokens<'a>) -> Self {
        let unseen = gold.iter().map(|gold| (gold.path.as_str(), gold.lines.clone())).collect();
        Self { count, gold, unseen, n_tokens: 0, answered_at: None }
    }

    /// Tokens of all outputs up to the one that completed a gold function; none if no output has.
    pub fn answered_at(&self) -> Option<usize> {
        self.answered_at
    }

    /// Reads an output that shows lines of files, and tells whether to go on.
    pub fn read_output<'p>(
        &mut self,
        output: &str,
        shown: impl IntoIterator<Item = (&'p str, RangeInclusive<u32>)>,
    ) -> bool {
        self.n_tokens += (self.count)(output);
        for (path, lines) in shown {
            for (_, unseen) in self.unseen.iter_mut().filter(|(gold, _)| *gold == path) {
                let seen: Vec<u32> = unseen.range(lines.clone()).copied().collect();
                seen.iter().for_each(|line| {
                    unseen.remove(line);
                });
            }
        }
        self.judge()
    }

    /// Reads an answer of one of Quarry's tools.
    pub fn read_answer(&mut self, answer: &str) -> bool {
        let shown = shown_lines(answer);
        self.read_output(answer, shown.iter().map(|(path, line)| (*path, *line..=*line)))
    }

    /// Reads an answer in place of all that was read so far: for policies that are given a budget and spend it in one call.
    pub fn replace_answer(&mut self, answer: &str) -> bool {
        let answered_at = self.answered_at;
        *self = Self::new(self.gold, self.count);
        self.answered_at = answered_at;
        self.read_answer(answer)
    }

    fn judge(&mut self) -> bool {
        if self.n_tokens <= MAX_TOKENS && self.unseen.iter().any(|(_, lines)| lines.is_empty()) {
            self.answered_at.get_or_insert(self.n_tokens);
        }
        self.answered_at.is_none() && self.n_tokens < MAX_TOKENS
    }
}

/// The lines of files that an answer of one of Quarry's tools shows: those after a number and a gutter (`12| `), below a
/// position (`path:10-20`, which may follow a rank).
fn shown_lines(answer: &str) -> Vec<(&str, u32)> {
    let mut path = None;
    let mut shown = Vec::new();
    for line in answer.lines() {
        let numbered = line.split_once('|').map(|(number, _)| number.trim_start());
        match (path, numbered.and_then(|number| number.parse().ok())) {
            (Some(path), Some(number)) => shown.push((path, number)),
            _ => path = position(line).map(|(path, _)| path).or(path),
        }
    }
    shown
}

/// The path and the first line at the beginning of a heading.
fn position(line: &str) -> Option<(&str, u32)> {
    let is_rank = |rank: &str| !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit());
    let line = line.split_once(". ").filter(|(rank, _)| is_rank(rank)).map_or(line, |(_, rest)| rest);
    let (path, lines) = line.split_whitespace().next()?.rsplit_once(':')?;
    let (start, end) = lines.split_once('-')?;
    Some((path, start.parse().ok().filter(|_| end.parse::<u32>().is_ok())?))
}

/// The paths and first lines of the results in an answer of one of Quarry's tools.
pub fn positions(answer: &str) -> impl Iterator<Item = (&str, u32)> {
    answer.lines().filter(|line| !line.contains('|')).filter_map(position)
}

/// The definition of a file that has most lines in common with a range, or the range itself if none has: as a gold function.
/// None if the file is not in the index, or has no such line.
///
/// # Errors
/// When the file cannot be read.
pub fn gold_at(
    index: &Index,
    path: &str,
    lines: &RangeInclusive<u32>,
) -> Result<Option<GoldFunction>, EvalError> {
    let Some(file) = index.file(0, path) else { return Ok(None) };
    let common = |of: &RangeInclusive<u32>| {
        (of.end().min(lines.end()) + 1).saturating_sub(*of.start().max(lines.start()))
    };
    let definitions = file.hits().filter(is_function).map(|hit| hit.start_line..=index.last_line(&hit));
    let best = definitions
        .filter(|of| common(of) > 0)
        .max_by_key(|of| (common(of), std::cmp::Reverse(of.end() - of.start())));
    gold(index, path, best.unwrap_or_else(|| lines.clone()))
}

/// The definition of a file with a name (`Class.method`), as a gold function. None if the index has no such definition.
///
/// # Errors
/// When the file cannot be read.
pub fn gold_named(index: &Index, path: &str, name: &str) -> Result<Option<GoldFunction>, EvalError> {
    let Some(file) = index.file(0, path) else { return Ok(None) };
    let constructor = format!("{name}.__init__");
    let hits: Vec<Hit> = file.hits().filter(|hit| !hit.signature.is_empty()).collect();
    let found =
        hits.iter().find(|hit| hit.name == constructor).or_else(|| hits.iter().find(|hit| hit.name == name));
    let Some(hit) = found else { return Ok(None) };
    gold(index, path, hit.start_line..=index.last_line(hit))
}

fn is_function(hit: &Hit) -> bool {
    matches!(hit.kind, UnitKind::Function | UnitKind::Method) && !hit.signature.is_empty()
}

fn gold(index: &Index, path: &str, lines: RangeInclusive<u32>) -> Result<Option<GoldFunction>, EvalError> {
    let Some(file) = index.file(0, path) else { return Ok(None) };
    let text = file.text()?;
    let content = text.to_str();
    let numbers = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let lines: BTreeSet<u32> =
        numbers.map(|(number, _)| text.line_number(number)).filter(|number| lines.contains(number)).collect();
    Ok((!lines.is_empty()).then(|| GoldFunction { path: path.to_owned(), lines }))
}

/// Cost of a policy for a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Read {
    /// Id of the question.
    pub question: String,
    pub repository: String,
    /// Tokens until the answer, of each policy; none if it did not come within [`MAX_TOKENS`].
    pub tokens: Vec<Option<usize>>,
}

/// Has all policies read about all questions of one tree.
///
/// # Errors
/// When a policy fails.
pub fn read_all(
    questions: &[Question],
    policies: &[&dyn Policy],
    count: CountTokens<'_>,
) -> Result<Vec<Read>, EvalError> {
    let of_question = |question: &Question| {
        let of_policy = |policy: &&dyn Policy| {
            let mut reader = Reader::new(&question.gold, count);
            policy.read(&question.text, &mut reader)?;
            Ok(reader.answered_at())
        };
        let tokens = policies.iter().map(of_policy).collect::<Result<_, EvalError>>()?;
        Ok(Read { question: question.id.clone(), repository: question.repository.clone(), tokens })
    };
    questions.par_iter().map(of_question).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn gold(path: &str, lines: impl IntoIterator<Item = u32>) -> GoldFunction {
        GoldFunction { path: path.to_owned(), lines: lines.into_iter().collect() }
    }

    #[test]
    fn an_answer_is_complete_when_every_line_of_one_gold_function_was_shown() {
        let gold = [gold("a.py", [1, 2, 4]), gold("b.py", [7])];
        let mut reader = Reader::new(&gold, &words);
        assert!(reader.read_output("one two three", [("a.py", 1..=2)]));
        assert!(reader.read_output("four", [("c.py", 1..=9), ("b.py", 1..=6)]));
        assert_eq!(reader.answered_at(), None);
        assert!(!reader.read_output("five six", [("a.py", 3..=4)]));
        assert_eq!(reader.answered_at(), Some(6));
        assert!(!reader.read_output("seven", [("b.py", 7..=7)]));
        assert_eq!(reader.answered_at(), Some(6), "the first one counts");
    }

    #[test]
    fn reading_is_bounded() {
        let gold = [gold("a.py", [1])];
        let mut reader = Reader::new(&gold, &|_| MAX_TOKENS + 1);
        assert!(!reader.read_output("x", [("a.py", 1..=1)]));
        assert_eq!(reader.answered_at(), None);
    }

    #[test]
    fn shown_lines_are_read_from_answers() {
        let answer = "Heading: a:b\n1. net/http.py:10-20 function parse\n      | def parse(line)\n    12|     return 1\n\
                      src/a.rs:1-2 method A.b\n     1| fn b() { a | b }\n     2| // c.rs:3-4 x\n    12 more\n";
        assert_eq!(positions(answer).collect::<Vec<_>>(), [("net/http.py", 10), ("src/a.rs", 1)]);
        assert_eq!(shown_lines(answer), [("net/http.py", 12), ("src/a.rs", 1), ("src/a.rs", 2)]);
        let gold = [gold("src/a.rs", [1, 2])];
        let mut reader = Reader::new(&gold, &words);
        assert!(!reader.read_answer(answer));
        let mut reader = Reader::new(&gold, &words);
        assert!(reader.replace_answer("nothing at all"));
        assert!(!reader.replace_answer(answer));
        assert_eq!(reader.answered_at(), Some(words(answer)), "the first call was not made");
    }
}
