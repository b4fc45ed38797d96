//! Policies of a text search: an agent searches for the rarest words of a question (`rg -iF`), looks at the number of
//! matches of each file (`rg -c`), and reads the files with most of these words first.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;
use std::str::FromStr;

use memchr::memmem;
use quarry_index::{Filter, Index, IndexedFile};
use quarry_text::identifiers;
use rayon::prelude::*;

use super::{Policy, Reader, is_function};
use crate::EvalError;

/// Number of words that are searched for unless another is given.
const WORDS: usize = 3;

/// Minimum length of a word, in characters.
const MIN_CHARS: usize = 3;

/// Number of different words of a long text that are looked at, from its beginning.
const MAX_WORDS: usize = 300;

/// Number of files whose matches are listed.
const LISTED: usize = 30;

/// Lines before and after a match.
const CONTEXT: usize = 20;

/// Part of a file with matches that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// All of it.
    Files,
    /// The lines around its matches.
    Lines,
    /// Functions with matches: those of any file with most of the words first.
    Functions,
}

/// A policy by name: `grep-files`, `grep-lines` or `grep-functions`, with the number of words after a colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grep {
    pub unit: Unit,
    /// Number of words that are searched for.
    pub n_words: usize,
}

impl FromStr for Grep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, n_words) = text.split_once(':').map_or((text, None), |(name, n)| (name, Some(n)));
        let unit = match name {
            "grep-files" => Unit::Files,
            "grep-lines" => Unit::Lines,
            "grep-functions" => Unit::Functions,
            _ => return Err(format!("expected grep-files, grep-lines or grep-functions, found {name}")),
        };
        let n_words = n_words.map_or(Ok(WORDS), str::parse).ok().filter(|n| *n > 0);
        let n_words = n_words.ok_or("expected a number of words of 1 or more after the colon")?;
        Ok(Self { unit, n_words })
    }
}

impl fmt::Display for Grep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Files => "files",
            Unit::Lines => "lines",
            Unit::Functions => "functions",
        };
        match self.n_words {
            WORDS => write!(formatter, "grep-{unit}"),
            n => write!(formatter, "grep-{unit}:{n}"),
        }
    }
}

pub struct Files(Vec<File>);

struct File {
    path: String,
    text: String,
    /// The same in lower case; lines are at the same numbers.
    folded: String,
    functions: Vec<RangeInclusive<u32>>,
}

impl Files {
    /// Reads all files of an index.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(index: &Index) -> Result<Self, EvalError> {
        let file = |file: &IndexedFile<'_>| {
            let text = file.text()?.to_str().into_owned();
            let functions = file.hits().filter(is_function);
            let functions = functions.map(|hit| hit.start_line..=index.last_line(&hit)).collect();
            Ok(File { path: file.path().to_owned(), folded: text.to_lowercase(), text, functions })
        };
        Ok(Self(index.files(&Filter::default()).par_iter().map(file).collect::<Result<_, EvalError>>()?))
    }
}

pub struct GrepPolicy<'a> {
    pub grep: Grep,
    pub files: &'a Files,
}

/// A file with matches: for each matching line its number, counted from 0, and the words in it.
struct Matches<'a> {
    file: &'a File,
    lines: Vec<(usize, BTreeSet<usize>)>,
}

impl Matches<'_> {
    fn n_words(&self) -> usize {
        self.lines.iter().flat_map(|(_, words)| words).collect::<BTreeSet<_>>().len()
    }
}

/// The lines of a file that have any of some words; none if it has none of them.
fn matches<'f>(file: &'f File, words: &[String]) -> Option<Matches<'f>> {
    let is_in = |word: &String| memmem::find(file.folded.as_bytes(), word.as_bytes()).is_some();
    if !words.iter().any(is_in) {
        return None;
    }
    let in_line = |line: &str| -> BTreeSet<usize> {
        (0..words.len()).filter(|word| line.contains(&words[*word])).collect()
    };
    let lines = file.folded.lines().map(in_line).enumerate().filter(|(_, words)| !words.is_empty()).collect();
    Some(Matches { file, lines })
}

impl GrepPolicy<'_> {
    /// The rarest words of a text that occur in the tree, in lower case; ties in the order of the text.
    fn rarest(&self, text: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in identifiers(text).filter(|word| word.chars().count() >= MIN_CHARS) {
            let word = word.to_lowercase();
            if words.len() < MAX_WORDS && !words.contains(&word) {
                words.push(word);
            }
        }
        let count = |word: &String| {
            let finder = memmem::Finder::new(word);
            self.files.0.iter().map(|file| finder.find_iter(file.folded.as_bytes()).count()).sum::<usize>()
        };
        let counts: Vec<usize> = words.par_iter().map(count).collect();
        let mut found: Vec<(usize, String)> = counts.into_iter().zip(words).filter(|(n, _)| *n > 0).collect();
        found.sort_by_key(|(n, _)| *n);
        found.into_iter().take(self.grep.n_words).map(|(_, word)| word).collect()
    }

    /// The files with matches, those with most different words first, then by the number of matching lines, then by path.
    fn search(&self, words: &[String]) -> Vec<Matches<'_>> {
        let mut found: Vec<Matches<'_>> =
            self.files.0.par_iter().filter_map(|file| matches(file, words)).collect();
        found.sort_by_cached_key(|found| (Reverse(found.n_words()), Reverse(found.lines.len())));
        found
    }
}

impl Policy for GrepPolicy<'_> {
    fn name(&self) -> String {
        self.grep.to_string()
    }

    fn read(&self, question: &str, reader: &mut Reader<'_>) -> Result<(), EvalError> {
        let found = self.search(&self.rarest(question));
        let listed = found.iter().take(LISTED);
        let listing: String =
            listed.map(|found| format!("{}:{}\n", found.file.path, found.lines.len())).collect();
        if !reader.read_output(&listing, []) {
            return Ok(());
        }
        match self.grep.unit {
            Unit::Files => {
                found.iter().all(|Matches { file, .. }| {
                    reader.read_output(&file.text, [(file.path.as_str(), 1..=u32::MAX)])
                });
            }
            Unit::Lines => {
                found.iter().all(|found| {
                    let (output, shown) = context_lines(found);
                    reader.read_output(
                        &output,
                        shown.into_iter().map(|lines| (found.file.path.as_str(), lines)),
                    )
                });
            }
            Unit::Functions => {
                let mut functions: Vec<(&File, &RangeInclusive<u32>, usize)> = Vec::new();
                for Matches { file, lines } in &found {
                    for function in &file.functions {
                        let of_lines = lines.iter().filter(|(line, _)| function.contains(&number(*line)));
                        let words: BTreeSet<usize> = of_lines.flat_map(|(_, words)| words).copied().collect();
                        functions.push((file, function, words.len()));
                    }
                }
                functions.retain(|(.., n_words)| *n_words > 0);
                // Stable: then the order of the files and of the lines.
                functions.sort_by_key(|(.., n_words)| Reverse(*n_words));
                functions.iter().all(|(file, lines, _)| {
                    let skipped = (*lines.start() as usize).saturating_sub(1);
                    let n_lines = (lines.end() + 1).saturating_sub(*lines.start()) as usize;
                    let text = file.text.lines().skip(skipped).take(n_lines);
                    let text: String = text.flat_map(|line| [line, "\n"]).collect();
                    reader.read_output(&text, [(file.path.as_str(), (*lines).clone())])
                });
            }
        }
        Ok(())
    }
}

/// The number of a line, 1-based.
fn number(line: usize) -> u32 {
    u32::try_from(line + 1).unwrap_or(u32::MAX)
}

/// The lines around matches, as `rg -n -C` prints them for one file, and which lines these are.
fn context_lines(found: &Matches<'_>) -> (String, Vec<RangeInclusive<u32>>) {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let n_lines = found.file.text.lines().count();
    for (line, _) in &found.lines {
        let (start, end) = (line.saturating_sub(CONTEXT), (line + CONTEXT + 1).min(n_lines));
        match ranges.last_mut() {
            Some(last) if start <= last.1 => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    let is_match = |line: usize| found.lines.binary_search_by_key(&line, |(line, _)| *line).is_ok();
    let mut output = String::new();
    let mut lines = found.file.text.lines().enumerate();
    for (position, (start, end)) in ranges.iter().enumerate() {
        if position > 0 {
            output.push_str("--\n");
        }
        for (line, text) in lines.by_ref().skip_while(|(line, _)| line < start).take(end - start) {
            let mark = if is_match(line) { ':' } else { '-' };
            let _ = writeln!(output, "{}{mark}{text}", line + 1);
        }
    }
    (output, ranges.into_iter().map(|(start, end)| number(start)..=number(end.saturating_sub(1))).collect())
}

#[cfg(test)]
mod tests {
    use super::super::GoldFunction;
    use super::*;

    fn files(texts: &[(&str, &str)]) -> Files {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
            folded: text.to_lowercase(),
            functions: vec![1..=2, 3..=4],
        };
        Files(texts.iter().map(file).collect())
    }

    fn tokens(files: &Files, policy: &str, question: &str, gold: (&str, [u32; 2])) -> Option<usize> {
        let policy = GrepPolicy { grep: policy.parse().unwrap(), files };
        assert!(policy.name().starts_with("grep-"));
        let gold = [GoldFunction { path: gold.0.to_owned(), lines: gold.1.into() }];
        let mut reader = Reader::new(&gold, &|text| text.lines().count());
        policy.read(question, &mut reader).unwrap();
        reader.answered_at()
    }

    #[test]
    fn files_with_most_of_the_rarest_words_are_read_first() {
        let files = files(&[
            ("a.py", "def one():\n    return Alpha\ndef two():\n    return the\n"),
            ("b.py", "def three():\n    return alpha, beta\ndef four():\n    the\n"),
            ("c.py", "the\nthe\nthe\nthe\n"),
        ]);
        // Two files are listed; b.py has both words and four lines.
        let question = "the alpha and the beta";
        assert_eq!(tokens(&files, "grep-files:2", question, ("b.py", [1, 2])), Some(2 + 4));
        assert_eq!(tokens(&files, "grep-files:2", question, ("a.py", [3, 4])), Some(2 + 4 + 4));
        assert_eq!(tokens(&files, "grep-files:2", question, ("c.py", [3, 4])), None);
        assert_eq!(tokens(&files, "grep-functions:2", question, ("b.py", [1, 2])), Some(2 + 2));
        assert_eq!(tokens(&files, "grep-functions:2", question, ("a.py", [1, 2])), Some(2 + 2 + 2));
        assert_eq!(tokens(&files, "grep-functions:2", question, ("a.py", [3, 4])), None);
    }

    #[test]
    fn lines_around_matches_are_merged_and_counted_once() {
        let line = |n: usize| format!("line {n}{}\n", if [3, 30, 99].contains(&n) { " needle" } else { "" });
        let text: String = (0..100).map(line).collect();
        let files = files(&[("a.py", &text)]);
        let policy = GrepPolicy { grep: "grep-lines".parse().unwrap(), files: &files };
        let found = policy.search(&["needle".to_owned()]);
        let (output, shown) = context_lines(&found[0]);
        assert_eq!(shown, [1..=51, 80..=100]);
        assert_eq!(output.lines().count(), 51 + 1 + 21);
        assert!(output.starts_with("1-line 0\n") && output.contains("\n4:line 3 needle\n"), "{output}");
        assert!(output.contains("\n--\n80-line 79\n") && output.ends_with("\n100:line 99 needle\n"));
    }

    #[test]
    fn policies_are_read_by_name() {
        assert_eq!("grep-lines".parse(), Ok(Grep { unit: Unit::Lines, n_words: WORDS }));
        assert_eq!("grep-files:7".parse(), Ok(Grep { unit: Unit::Files, n_words: 7 }));
        for wrong in ["grep", "grep-files:0", "grep-files:x"] {
            assert!(wrong.parse::<Grep>().is_err(), "{wrong}");
        }
    }
}
