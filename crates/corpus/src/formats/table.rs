//! Tables with a header: CSV, or TSV if the header contains a tab.

use super::delimited::Rows;
use super::text::read_error;
use super::{FormatError, Line, excerpt, open};
use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    path: PathBuf,
    /// Names of the columns, which are unique.
    pub columns: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    line: usize,
    fields: Vec<String>,
}

/// Ratings of units (rows) by raters (columns).
#[derive(Debug, Clone, PartialEq)]
pub struct Ratings {
    pub raters: Vec<String>,
    /// A row for each unit with a column for each rater, `None` for a missing rating. Labels are numbered in
    /// alphabetical order.
    pub units: Vec<Vec<Option<f64>>>,
    /// The labels, by number; empty if all ratings are numbers.
    pub labels: Vec<String>,
}

impl Table {
    /// Reads a table. See [`Table::parse`].
    ///
    /// # Errors
    /// When the file cannot be read, and as [`Table::parse`].
    pub fn read(path: &Path) -> Result<Self, FormatError> {
        Self::parse(open(path)?, path)
    }

    /// Parses a table whose first line names its columns. Fields are separated by tabs if the first line contains
    /// one, otherwise by commas, and quoted as in RFC 4180. White space around fields is trimmed. `path` is for error
    /// messages only.
    ///
    /// # Errors
    /// When the text is not UTF-8, a row has the wrong number of fields, two columns have the same name, or there are
    /// no rows.
    pub fn parse(mut reader: impl BufRead, path: &Path) -> Result<Self, FormatError> {
        let first = reader.fill_buf().map_err(|error| read_error(error, path, 1))?;
        let tabs = first.split(|byte| *byte == b'\n').next().is_some_and(|line| line.contains(&b'\t'));
        let mut reader = Rows::new(reader, path, if tabs { b'\t' } else { b',' })?;
        let columns: Vec<String> = reader.header().iter().map(str::to_owned).collect();
        let (mut rows, mut record) = (Vec::new(), csv::StringRecord::new());
        while let Some(number) = reader.read(&mut record)? {
            let line = Line { path, number, counts_records: false, text: "" };
            if let Some(error) = reader.refuse_length(&record, &line) {
                return Err(error);
            }
            rows.push(Row {
                line: number,
                fields: record.iter().map(|field| field.trim().to_owned()).collect(),
            });
        }
        let table = Self { path: path.to_owned(), columns, rows };
        let unique: BTreeSet<&String> = table.columns.iter().collect();
        if unique.len() < table.columns.len() {
            let found = excerpt(&table.columns.join(","));
            return Err(table.refuse("columns with different names", found, "rename one in the first line"));
        }
        if table.rows.is_empty() {
            return Err(table.refuse(
                "a header and at least one row below it",
                "none",
                "check that this is the right file",
            ));
        }
        Ok(table)
    }

    fn refuse(&self, expected: impl Into<String>, found: impl Into<String>, remedy: &str) -> FormatError {
        let (expected, found) = (expected.into(), found.into());
        FormatError::File { path: self.path.clone(), expected, found, remedy: remedy.into() }
    }

    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }

    /// The fields of a column, converted; `expected` describes what `convert` accepts.
    ///
    /// # Errors
    /// When there is no such column, or a field cannot be converted.
    pub fn column<'a, T>(
        &'a self,
        column: &str,
        expected: &str,
        convert: impl Fn(&'a str) -> Option<T>,
    ) -> Result<Vec<T>, FormatError> {
        let Some(position) = self.columns.iter().position(|name| name == column) else {
            let found = excerpt(&self.columns.join(","));
            return Err(self.refuse(format!("a column {column:?}"), found, "name it in the first line"));
        };
        let convert = |row: &'a Row| {
            let field = &row.fields[position];
            convert(field).ok_or_else(|| FormatError::Line {
                path: self.path.clone(),
                line: row.line,
                expected: format!("{expected} as {column}"),
                found: excerpt(field),
                remedy: "fix the field".into(),
            })
        };
        self.rows.iter().map(convert).collect()
    }

    /// The ratings in the columns `raters`, or, if empty, in all columns except the one that identifies the units.
    /// Blank fields are missing ratings. With `numbers`, text is rejected instead of being numbered.
    ///
    /// # Errors
    /// When a rating is text and `numbers` is set, a column is missing or has ids, or there are no ratings.
    pub fn ratings(
        &self,
        raters: &[String],
        units: Option<&str>,
        numbers: bool,
    ) -> Result<Ratings, FormatError> {
        for column in raters.iter().map(String::as_str).chain(units) {
            self.column(column, "a name", Some)?;
        }
        let is_rater = |name: &&String| match raters {
            [] => Some(name.as_str()) != units,
            raters => raters.contains(*name),
        };
        let raters_are_named = !raters.is_empty();
        let raters: Vec<&String> = self.columns.iter().filter(is_rater).collect();
        if let Some(ids) = raters.iter().find(|name| !raters_are_named && self.has_ids(name, numbers)) {
            return Err(self.refuse(
                "columns of ratings",
                format!("ids or texts in the column {ids:?}"),
                "name it with --unit-column, or the columns of ratings with --raters",
            ));
        }
        let number = |field: &str| field.parse().ok().filter(|number: &f64| number.is_finite());
        let texts = raters
            .iter()
            .map(|rater| {
                self.column(rater, "a number or nothing", |field| {
                    (!numbers || field.is_empty() || number(field).is_some()).then_some(field)
                })
            })
            .collect::<Result<Vec<Vec<&str>>, FormatError>>()?;
        let given: BTreeSet<&str> = texts.iter().flatten().copied().filter(|text| !text.is_empty()).collect();
        if given.is_empty() {
            return Err(self.refuse(
                "at least one rating",
                "blank fields only",
                "check that this is the right file",
            ));
        }
        let all_numbers = given.iter().all(|text| number(text).is_some());
        let labels: Vec<&str> = if all_numbers { Vec::new() } else { given.into_iter().collect() };
        let rating = |text: &str| match text {
            "" => None,
            _ if all_numbers => number(text),
            _ => labels.binary_search(&text).ok().map(|position| position as f64),
        };
        Ok(Ratings {
            raters: raters.into_iter().cloned().collect(),
            units: (0..self.rows.len()).map(|row| texts.iter().map(|of| rating(of[row])).collect()).collect(),
            labels: labels.into_iter().map(str::to_owned).collect(),
        })
    }
}

/// Names of columns that identify units in files of judgments.
const ID_COLUMNS: [&str; 12] =
    ["id", "idx", "index", "pair", "unit", "item", "query", "code", "pair_id", "query_id", "code_id", "text"];

impl Table {
    /// Returns true if a column identifies units: by its name, or, if ratings are labels, because all its fields
    /// differ.
    fn has_ids(&self, column: &str, numbers: bool) -> bool {
        const ROWS: usize = 5;
        let name = column.to_ascii_lowercase().replace([' ', '-'], "_");
        let position = self.columns.iter().position(|name| name == column);
        let fields: BTreeSet<&String> =
            position.iter().flat_map(|at| self.rows.iter().map(move |row| &row.fields[*at])).collect();
        ID_COLUMNS.contains(&name.as_str())
            || (!numbers && self.rows.len() >= ROWS && fields.len() == self.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_not_ratings() {
        let ids = parse("pair,ann,bob\np1,yes,no\np2,no,no\n").unwrap();
        let error = ids.ratings(&[], None, false).unwrap_err().to_string();
        assert!(error.contains("the column \"pair\"") && error.contains("--unit-column"), "{error}");
        let named = ["ann", "bob"].map(str::to_owned);
        assert_eq!(ids.ratings(&named, None, false).unwrap().raters, named);
        assert_eq!(ids.ratings(&[], Some("pair"), false).unwrap().raters, named);
        assert!(ids.ratings(&["eve".to_owned()], None, false).is_err());
        let rows: String = (0..5).map(|row| format!("t{row},{},1\n", row % 2)).collect();
        let distinct = parse(&format!("words,ann,bob\n{rows}")).unwrap();
        assert!(distinct.ratings(&[], None, false).unwrap_err().to_string().contains("\"words\""));
        // Numbers of one rater may all differ.
        let scores: String = (0..5).map(|row| format!("{row}.5,{row}\n")).collect();
        assert!(parse(&format!("ann,bob\n{scores}")).unwrap().ratings(&[], None, true).is_ok());
    }

    fn parse(text: &str) -> Result<Table, String> {
        Table::parse(text.as_bytes(), Path::new("t")).map_err(|error| error.to_string())
    }

    #[test]
    fn commas_and_tabs_and_quotes_are_read() {
        for text in ["a,b\n1, x\n2,\"y, z\"\n", "a\tb\r\n1\tx\r\n2\ty, z\r\n"] {
            let table = parse(text).unwrap();
            assert_eq!(table.column("a", "a number", |field| field.parse::<i32>().ok()).unwrap(), [1, 2]);
            assert_eq!(table.column("b", "text", Some).unwrap(), ["x", "y, z"]);
            assert!(table.has("b") && !table.has("c"));
        }
    }

    #[test]
    fn numbers_stay_numbers_and_labels_are_numbered() {
        let table = parse("unit,ann,bob\nu1,10,9\nu2,,1e1\n").unwrap();
        let found = table.ratings(&[], Some("unit"), true).unwrap();
        assert_eq!((found.raters.len(), found.labels.len()), (2, 0));
        assert_eq!(found.units, [[Some(10.0), Some(9.0)], [None, Some(10.0)]]);
        let found = parse("ann,bob\nyes,no\n,yes\n").unwrap().ratings(&[], None, false).unwrap();
        assert_eq!(found.units, [[Some(1.0), Some(0.0)], [None, Some(1.0)]]);
        assert_eq!(found.labels, ["no", "yes"]);
    }

    #[test]
    fn invalid_rows_are_reported() {
        for (text, start) in [
            ("a,b\n1,2\n1\n", "t:3: expected 2 fields, found 1 beginning with \"1\";"),
            ("a,a\n1,2\n", "t: expected columns with different names"),
            ("a,b\n", "t: expected a header and at least one row"),
            ("", "t: expected a header and at least one row"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
        let error = Table::parse(&b"a,b\n1,\xff\n"[..], Path::new("t")).unwrap_err().to_string();
        assert!(error.starts_with("t:2: expected UTF-8 text"), "{error}");
        let table = parse("a,b\n1,x\n").unwrap();
        let text = |error: FormatError| error.to_string();
        let error = text(table.ratings(&[], None, true).unwrap_err());
        assert!(error.starts_with("t:2: expected a number or nothing as b, found \"x\""), "{error}");
        let error = text(table.ratings(&[], Some("unit"), false).unwrap_err());
        assert!(error.starts_with("t: expected a column \"unit\""), "{error}");
        let error = text(parse("a,b\n,\n").unwrap().ratings(&[], None, false).unwrap_err());
        assert!(error.starts_with("t: expected at least one rating"), "{error}");
    }
}
