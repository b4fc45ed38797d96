//! TREC runs: what a system found, with scores.

use super::text::for_each_block;
use super::{
    Container, Field, Format, FormatError, Holds, Kind, Line, Record, Retrieved, Value, excerpt, open,
};
use rayon::prelude::*;
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// What a system found for one query: documents with scores, greater is better, never NaN. All ids are one text, so
/// that a run of millions of documents is a few allocations a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    ids: String,
    /// Where each id ends.
    ends: Vec<usize>,
    scores: Vec<f64>,
}

impl Found {
    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Ids, in the order of the file.
    pub fn documents(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.ids[start..self.ends[index]]
        })
    }

    /// Scores, in the order of the file.
    #[must_use]
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Ids with scores, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.documents().zip(self.scores.iter().copied())
    }

    fn push(&mut self, document: &str, score: f64) {
        self.ids.push_str(document);
        self.ends.push(self.ids.len());
        self.scores.push(score);
    }

    fn append(&mut self, other: &Found) {
        let before = self.ids.len();
        self.ids.push_str(&other.ids);
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.scores.extend_from_slice(&other.scores);
    }

    /// Place of the first document that stands before already.
    fn repeated(&self) -> Option<usize> {
        let mut seen = FxHashSet::with_capacity_and_hasher(self.len(), FxBuildHasher);
        self.documents().position(|document| !seen.insert(document))
    }
}

/// Found documents by query id, in the order of the file.
pub type Run = BTreeMap<String, Found>;

/// Reads a TREC run. See [`parse`].
///
/// # Errors
/// When the file cannot be read, and as [`parse`].
pub fn read(path: &Path) -> Result<Run, FormatError> {
    parse(open(path)?, path)
}

/// Reads a TREC run (`query Q0 document rank score tag`, any ASCII white space between), on all cores. As trec_eval
/// does, the rank is ignored: scores decide. `path` is used in messages only.
///
/// # Errors
/// A line with another number of fields, a score that is not a number, a document listed twice for a query.
pub fn parse(reader: impl BufRead, path: &Path) -> Result<Run, FormatError> {
    let mut all: BTreeMap<String, Numbered> = BTreeMap::new();
    for_each_block(reader, path, |first, text| {
        let groups: Vec<Vec<(&str, Numbered)>> = pieces(first, text)
            .into_par_iter()
            .map(|(first, piece)| groups(first, piece, path))
            .collect::<Result<_, FormatError>>()?;
        for (query, numbered) in groups.into_iter().flatten() {
            match all.entry(query.to_owned()) {
                Entry::Vacant(free) => {
                    free.insert(numbered);
                }
                Entry::Occupied(taken) => taken.into_mut().append(&numbered),
            }
        }
        Ok(())
    })?;
    let repeated = all.par_iter().filter_map(|(query, Numbered { found, lines })| {
        let place = found.repeated()?;
        let number =
            lines.iter().rev().find(|(from, _)| *from <= place).map(|(from, line)| line + place - from)?;
        Some((number, query, found.documents().nth(place)?))
    });
    match repeated.min() {
        None => Ok(all.into_iter().map(|(query, numbered)| (query, numbered.found)).collect()),
        Some((number, query, document)) => Err(Line { path, number, counts_records: false, text: "" }.error(
            format!("each document once for query {query:?}"),
            format!("{document:?} again"),
            "keep the line with the score that counts",
        )),
    }
}

/// What was found, and on which lines: documents from a place on stand on consecutive lines from a number on.
#[derive(Default)]
struct Numbered {
    found: Found,
    lines: Vec<(usize, usize)>,
}

impl Numbered {
    fn push(&mut self, document: &str, score: f64, number: usize) {
        let place = self.found.len();
        if self.lines.last().is_none_or(|(from, line)| line + place - from != number) {
            self.lines.push((place, number));
        }
        self.found.push(document, score);
    }

    fn append(&mut self, other: &Numbered) {
        let before = self.found.len();
        self.lines.extend(other.lines.iter().map(|(from, line)| (before + from, *line)));
        self.found.append(&other.found);
    }
}

/// Cuts a block of lines into some pieces a core, with the number of the first line of each.
fn pieces(first: usize, text: &str) -> Vec<(usize, &str)> {
    let size = text.len() / (4 * rayon::current_num_threads()) + 1;
    let (mut pieces, mut rest, mut number) = (Vec::new(), text, first);
    while !rest.is_empty() {
        let from = size.min(rest.len());
        let end =
            memchr::memchr(b'\n', &rest.as_bytes()[from..]).map_or(rest.len(), |place| from + place + 1);
        let (piece, behind) = rest.split_at(end);
        pieces.push((number, piece));
        number += memchr::memchr_iter(b'\n', piece.as_bytes()).count();
        rest = behind;
    }
    pieces
}

/// Documents of consecutive lines of one query, for each such group.
fn groups<'a>(first: usize, text: &'a str, path: &'a Path) -> Result<Vec<(&'a str, Numbered)>, FormatError> {
    let mut groups: Vec<(&str, Numbered)> = Vec::new();
    for (number, text) in (first..).zip(text.lines()) {
        if text.trim_ascii().is_empty() {
            continue;
        }
        let (query, document, score) = fields(&Line { path, number, counts_records: false, text })?;
        match groups.last_mut() {
            Some((same, numbered)) if *same == query => numbered.push(document, score, number),
            _ => {
                let mut numbered = Numbered::default();
                numbered.push(document, score, number);
                groups.push((query, numbered));
            }
        }
    }
    Ok(groups)
}

/// Query, document and score of a line.
fn fields<'a>(line: &Line<'a>) -> Result<(&'a str, &'a str, f64), FormatError> {
    let fields = || line.text.split_ascii_whitespace();
    let mut first = fields();
    let (Some(query), Some(_q0), Some(document), Some(_rank), Some(score), Some(_tag), None) =
        (first.next(), first.next(), first.next(), first.next(), first.next(), first.next(), first.next())
    else {
        return Err(line.error(
            "6 fields: query, Q0, document, rank, score, tag",
            format!("{} in {}", fields().count(), excerpt(line.text)),
            "mend the line, or remove it",
        ));
    };
    let score = score.parse().ok().filter(|score: &f64| !score.is_nan()).ok_or_else(|| {
        line.error("a number as score", excerpt(score), "write the score that the system gave")
    })?;
    Ok((query, document, score))
}

/// A run by its lines.
pub static TREC: Format = Format {
    name: "trec-run",
    about: "TREC run: query Q0 document rank score tag",
    holds: Holds::Rankings,
    container: Container::Lines { header: false },
    fields: &[
        Field::required("query", Kind::Text, "id of the query"),
        Field::required("document", Kind::Text, "id of the document"),
        Field::required("score", Kind::Number, "greater is better; the rank is ignored"),
    ],
    hint: "",
    read: |row, sink| {
        let score = row.number("score").unwrap_or_default();
        sink(Record::Retrieved(Retrieved { query: row.text("query"), document: row.text("document"), score }))
    },
    write: None,
    split: Some(|line| {
        let (query, document, score) = fields(line)?;
        Ok(Some(vec![Value::Text(query.into()), Value::Text(document.into()), Value::Real(score)]))
    }),
};

/// Writes one query's ranking, best first, as lines of a TREC run. Ranks count from 1.
///
/// # Errors
/// An id that is empty or holds white space, which the format cannot carry ([`io::ErrorKind::InvalidInput`]);
/// or what the writer says.
pub fn write_ranking<'a>(
    writer: &mut impl Write,
    query: &str,
    ranking: impl IntoIterator<Item = (&'a str, f32)>,
    tag: &str,
) -> io::Result<()> {
    let field = |text: &str| {
        if text.is_empty() || text.contains(char::is_whitespace) {
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a TREC run cannot hold the name {text:?}: names must not be empty or hold white space"
                ),
            ))
        } else {
            Ok(())
        }
    };
    field(query)?;
    field(tag)?;
    for (index, (document, score)) in ranking.into_iter().enumerate() {
        field(document)?;
        writeln!(writer, "{query} Q0 {document} {} {score} {tag}", index + 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Run, String> {
        parse(text.as_bytes(), Path::new("r")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_order_of_the_file_is_kept_and_ranks_are_ignored() {
        let run = parse_text("1 Q0 b 9 0.5 t\n1\tQ0\ta\t1\t1e3\tt\n").unwrap();
        assert_eq!(run["1"].iter().collect::<Vec<_>>(), [("b", 0.5), ("a", 1000.0)]);
    }

    #[test]
    fn queries_whose_lines_stand_apart_are_joined_and_lines_are_counted() {
        let lines: Vec<String> = (0..50_000)
            .map(|i| format!("q{} Q0 d{i} 1 {} t\r\n{}", i / 3 % 7, i, if i % 5 == 0 { "\n" } else { "" }))
            .collect();
        let run = parse_text(&lines.concat()).unwrap();
        assert_eq!((run.len(), run.values().map(Found::len).sum::<usize>()), (7, 50_000));
        for (query, found) in &run {
            let expected = (0..50_000).filter(|i| format!("q{}", i / 3 % 7) == *query);
            assert!(found.iter().eq(expected.map(|i| (lines[i].split(' ').nth(2).unwrap(), i as f64))));
        }
        // Line by line: in front of 40,000 stand as many others and a blank line for each fifth.
        let error = |place: usize, from: &str, to: &str| {
            let mut wrong = lines.clone();
            wrong[place] = lines[place].replace(from, to);
            parse_text(&wrong.concat()).unwrap_err()
        };
        let again = error(40_000, "d40000", "d39999");
        assert!(again.starts_with("r:48001: expected each document once"), "{again}");
        let short = error(30_000, "d30000 ", "");
        assert!(short.starts_with("r:36001: expected 6 fields"), "{short}");
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, start) in [
            ("1 Q0 a 1 0.5\n", "r:1: expected 6 fields: query, Q0, document, rank, score, tag, found 5 in"),
            ("1 Q0 a 1 0.5 t\n1 Q0 b 1 NaN t\n", "r:2: expected a number as score, found \"NaN\""),
            ("1 Q0 a 1 high t\n", "r:1: expected a number as score, found \"high\""),
            ("1 Q0 a 1 1 t\n1 Q0 a 2 0 t\n", "r:2: expected each document once for query \"1\", found \"a\""),
        ] {
            let error = parse_text(text).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn what_is_written_reads_back_with_the_same_scores() {
        let scores = [f32::MAX, 0.1, 1.0 / 3.0, f32::MIN_POSITIVE, 0.0, -2.5];
        let names = ["a", "b", "c", "d", "e", "f"];
        let mut bytes = Vec::new();
        write_ranking(&mut bytes, "q", names.into_iter().zip(scores), "tag").unwrap();
        let run = parse(&bytes[..], Path::new("r")).unwrap();
        let read: Vec<(&str, f32)> =
            run["q"].iter().map(|(document, score)| (document, score as f32)).collect();
        assert_eq!(read, names.into_iter().zip(scores).collect::<Vec<_>>());
    }

    #[test]
    fn names_that_the_format_cannot_carry_are_refused() {
        for (query, document, tag) in
            [("a b", "d", "t"), ("q", "d\te", "t"), ("q", "", "t"), ("q", "d", "t u")]
        {
            let error = write_ranking(&mut Vec::new(), query, [(document, 1.0)], tag).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
