//! TREC runs: what a system found, with scores.

use super::{
    Container, Field, Format, FormatError, Holds, Kind, Line, Record, Retrieved, Value, excerpt,
    for_each_line, open,
};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead, Write};
use std::path::Path;

/// A document that a system found.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredDocument {
    /// Document id.
    pub document: String,
    /// Score, greater is better, never NaN.
    pub score: f64,
}

/// Found documents by query id, in the order of the file.
pub type Run = BTreeMap<String, Vec<ScoredDocument>>;

/// Reads a TREC run. See [`parse`].
///
/// # Errors
/// When the file cannot be read, and as [`parse`].
pub fn read(path: &Path) -> Result<Run, FormatError> {
    parse(open(path)?, path)
}

/// Reads a TREC run (`query Q0 document rank score tag`, any white space between). As trec_eval does, the rank
/// is ignored: scores decide. `path` is used in messages only.
///
/// # Errors
/// A line with another number of fields, a score that is not a number, a document listed twice for a query.
pub fn parse(reader: impl BufRead, path: &Path) -> Result<Run, FormatError> {
    let mut run = Run::new();
    let mut seen: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    for_each_line(reader, path, |line| {
        let (query, document, score) = fields(line)?;
        if !seen.entry(query.to_owned()).or_default().insert(document.to_owned()) {
            return Err(line.error(
                format!("each document once for query {query:?}"),
                format!("{document:?} again"),
                "keep the line with the score that counts",
            ));
        }
        run.entry(query.to_owned())
            .or_default()
            .push(ScoredDocument { document: document.to_owned(), score });
        Ok(())
    })?;
    Ok(run)
}

/// Query, document and score of a line.
fn fields<'a>(line: &Line<'a>) -> Result<(&'a str, &'a str, f64), FormatError> {
    let fields: Vec<&str> = line.text.split_whitespace().collect();
    let [query, _q0, document, _rank, score, _tag] = fields[..] else {
        return Err(line.error(
            "6 fields: query, Q0, document, rank, score, tag",
            format!("{} in {}", fields.len(), excerpt(line.text)),
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
        let expected = [("b", 0.5), ("a", 1000.0)]
            .map(|(document, score)| ScoredDocument { document: document.into(), score });
        assert_eq!(run["1"], expected);
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
            run["q"].iter().map(|found| (found.document.as_str(), found.score as f32)).collect();
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
