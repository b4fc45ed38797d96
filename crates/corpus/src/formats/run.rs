//! TREC runs: ranked documents of a system, with scores.

use super::text::{Lines, for_each_block};
use super::{
    Encoding, Field, Format, FormatError, Kind, Line, Record, RecordKind, Retrieved, Value, excerpt, open,
};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The documents that a system returned for one query, with scores: larger is better, never NaN.
#[derive(Debug, Clone, Default)]
pub struct RankedDocuments {
    /// Ranges of these documents, in the order of the file.
    segments: Vec<Segment>,
}

/// Consecutive documents of a part.
#[derive(Debug, Clone)]
struct Segment {
    part: Arc<Part>,
    rows: Range<usize>,
}

/// Documents of consecutive lines of a file, of any queries. All ids are concatenated, so that a run of millions of
/// documents needs few allocations.
#[derive(Debug, Default)]
struct Part {
    ids: String,
    /// End offset of each id.
    ends: Vec<u32>,
    scores: Vec<f64>,
    /// Rows whose line number is not that of the previous row plus one, with their line numbers.
    lines: Vec<(usize, usize)>,
}

impl RankedDocuments {
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.rows.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Ids, in the order of the file.
    pub fn documents(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().flat_map(|Segment { part, rows }| rows.clone().map(|row| part.id(row)))
    }

    /// Scores, in the order of the file.
    pub fn scores(&self) -> impl Iterator<Item = f64> {
        self.segments.iter().flat_map(|Segment { part, rows }| part.scores[rows.clone()].iter().copied())
    }

    /// Ids with scores, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.documents().zip(self.scores())
    }

    /// The first repeated document, with the number of its line; `seen` is reused between calls.
    fn repeated<'a>(&'a self, seen: &mut FxHashSet<&'a str>) -> Option<(usize, &'a str)> {
        seen.clear();
        seen.reserve(self.len());
        self.segments.iter().find_map(|Segment { part, rows }| {
            let row = rows.clone().find(|row| !seen.insert(part.id(*row)))?;
            Some((part.line(row)?, part.id(row)))
        })
    }
}

impl FromIterator<(String, f64)> for RankedDocuments {
    /// Documents that come from no file; each only once, with a score that is not NaN.
    fn from_iter<T: IntoIterator<Item = (String, f64)>>(documents: T) -> Self {
        let mut part = Part::default();
        for (row, (document, score)) in documents.into_iter().enumerate() {
            part.push(&document, score, row + 1);
        }
        let rows = 0..part.scores.len();
        Self { segments: vec![Segment { part: Arc::new(part), rows }] }
    }
}

impl PartialEq for RankedDocuments {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Part {
    fn id(&self, row: usize) -> &str {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ids[start as usize..self.ends[row] as usize]
    }

    fn line(&self, row: usize) -> Option<usize> {
        let (from, line) = self.lines.iter().rev().find(|(from, _)| *from <= row)?;
        Some(line + row - from)
    }

    fn push(&mut self, document: &str, score: f64, number: usize) {
        let row = self.scores.len();
        if self.lines.last().is_none_or(|(from, line)| line + row - from != number) {
            self.lines.push((row, number));
        }
        self.ids.push_str(document);
        // A part is smaller than a block, which is limited to the longest line and a bit more.
        self.ends.push(self.ids.len() as u32);
        self.scores.push(score);
    }
}

/// Returned documents by query id, in the order of the file.
pub type Run = BTreeMap<String, RankedDocuments>;

/// Reads a TREC run. See [`parse`].
///
/// # Errors
/// When the file cannot be read, and as [`parse`].
pub fn read(path: &Path) -> Result<Run, FormatError> {
    parse(open(path)?, path)
}

/// Parses a TREC run (`query Q0 document rank score tag`, separated by any ASCII white space), on all cores. As in
/// trec_eval, the rank is ignored: scores determine the order. `path` is for error messages only.
///
/// # Errors
/// When a line has the wrong number of fields, a score is not a number, or a document is listed twice for a query.
pub fn parse(reader: impl BufRead + Send, path: &Path) -> Result<Run, FormatError> {
    let mut run = Run::new();
    for_each_block(reader, path, |pieces| {
        let parts: Vec<Result<_, _>> = pieces.into_par_iter().map(|lines| part(&lines, path)).collect();
        for part in parts {
            // In the order of the file, so that the first of several invalid lines is reported.
            let (part, groups) = part?;
            let part = Arc::new(part);
            for (query, rows) in groups {
                let segment = Segment { part: part.clone(), rows };
                match run.get_mut(query) {
                    Some(found) => found.segments.push(segment),
                    None => {
                        run.insert(query.to_owned(), RankedDocuments { segments: vec![segment] });
                    }
                }
            }
        }
        Ok(())
    })?;
    let repeated = run.par_iter().map_init(FxHashSet::default, |seen, (query, found)| {
        let (number, document) = found.repeated(seen)?;
        Some((number, query, document))
    });
    match repeated.flatten().min() {
        None => Ok(run),
        Some((number, query, document)) => Err(Line { path, number, counts_records: false, text: "" }.error(
            format!("each document once for query {query:?}"),
            format!("{document:?} again"),
            "keep the line with the score that counts",
        )),
    }
}

/// A query, and the rows of its consecutive lines.
type Group<'a> = (&'a str, Range<usize>);

/// The documents of consecutive lines, and which rows belong to which query.
fn part<'a>(lines: &Lines<'a>, path: &'a Path) -> Result<(Part, Vec<Group<'a>>), FormatError> {
    let (text, n_lines) = (lines.text(path)?, lines.n_lines);
    let mut part = Part {
        // Ids are a part of each line; memory that is not written costs nothing.
        ids: String::with_capacity(text.len()),
        ends: Vec::with_capacity(n_lines),
        scores: Vec::with_capacity(n_lines),
        lines: Vec::new(),
    };
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut start = 0;
    for (number, end) in (lines.first..).zip(memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]))
    {
        let line = Line { path, number, counts_records: false, text: &text[start..end] };
        start = end + 1;
        if let Some((query, document, score)) = fields(&line)? {
            part.push(document, score, number);
            let rows = part.scores.len();
            match groups.last_mut() {
                Some((same, of_query)) if *same == query => of_query.end = rows,
                _ => groups.push((query, rows - 1..rows)),
            }
        }
    }
    part.ids.shrink_to_fit();
    Ok((part, groups))
}

/// Query, document and score of a line; `None` for a blank one.
fn fields<'a>(line: &Line<'a>) -> Result<Option<(&'a str, &'a str, f64)>, FormatError> {
    let (fields, n_fields) = split(line.text);
    let [query, _q0, document, _rank, score, _tag] = fields;
    if n_fields == 0 {
        return Ok(None);
    }
    if n_fields != fields.len() {
        return Err(line.error(
            "6 fields: query, Q0, document, rank, score, tag",
            format!("{n_fields} in {}", excerpt(line.text)),
            "fix the line, or remove it",
        ));
    }
    let score = score.parse().ok().filter(|score: &f64| !score.is_nan()).ok_or_else(|| {
        line.error("a number as score", excerpt(score), "write the score that the system gave")
    })?;
    Ok(Some((query, document, score)))
}

/// The first six fields, separated by ASCII white space, and the total number of fields.
fn split(text: &str) -> ([&str; 6], usize) {
    let bytes = text.as_bytes();
    let (mut fields, mut n_fields, mut at) = ([""; 6], 0, 0);
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| !byte.is_ascii_whitespace()) {
            at += 1;
        }
        if start == at {
            return (fields, n_fields);
        }
        if let Some(field) = fields.get_mut(n_fields) {
            *field = &text[start..at];
        }
        n_fields += 1;
    }
}

/// TREC runs as a row format.
pub static TREC: Format = Format {
    name: "trec-run",
    about: "TREC run: query Q0 document rank score tag",
    holds: RecordKind::Rankings,
    container: Encoding::Lines { header: false },
    fields: &[
        Field::required("query", Kind::Text, "id of the query"),
        Field::required("document", Kind::Text, "id of the document"),
        Field::required("score", Kind::Number, "greater is better; the rank is ignored"),
    ],
    read: |row, sink| {
        let score = row.number("score").unwrap_or_default();
        sink(Record::Retrieved(Retrieved { query: row.text("query"), document: row.text("document"), score }))
    },
    split: Some(|line| {
        Ok(fields(line)?.map(|(query, document, score)| {
            vec![Value::Text(query.into()), Value::Text(document.into()), Value::Real(score)]
        }))
    }),
    ..Format::BASE
};

/// Writes one query's ranking, best first, as lines of a TREC run. Ranks are 1-based.
///
/// # Errors
/// When an id is empty or contains white space, which the format cannot represent ([`io::ErrorKind::InvalidInput`]);
/// or when the writer fails.
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
                    "a TREC run cannot contain the name {text:?}: names must not be empty or contain white space"
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
        assert_eq!((run.len(), run.values().map(RankedDocuments::len).sum::<usize>()), (7, 50_000));
        for (query, found) in &run {
            let expected = (0..50_000).filter(|i| format!("q{}", i / 3 % 7) == *query);
            assert!(found.iter().eq(expected.map(|i| (lines[i].split(' ').nth(2).unwrap(), i as f64))));
        }
        // Line by line: before line 40,000 there are as many others and a blank line for every fifth.
        let error = |index: usize, from: &str, to: &str| {
            let mut wrong = lines.clone();
            wrong[index] = lines[index].replace(from, to);
            parse_text(&wrong.concat()).unwrap_err()
        };
        let again = error(40_000, "d40000", "d39999");
        assert!(again.starts_with("r:48001: expected each document once"), "{again}");
        let short = error(30_000, "d30000 ", "");
        assert!(short.starts_with("r:36001: expected 6 fields"), "{short}");
        // The first of several invalid lines is reported.
        let cut: Vec<&str> = lines.iter().map(|line| &line[..3]).collect();
        let first = parse_text(&(lines[..500].concat() + &cut.join("\n"))).unwrap_err();
        assert!(first.starts_with("r:601: expected 6 fields"), "{first}");
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
    fn runs_round_trip_with_the_same_scores() {
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
