//! Repository search: queries about whole repositories and the files that answer them, as a table.
//!
//! Columns, in any order, separated by tabs and named in a header line: `repo`, `revision`, `root` (the directory
//! that is indexed, relative to the repository, empty for all of it), `category`, `query`, `relevant` and optionally
//! `secondary`. The last two contain comma-separated paths relative to the repository, each of a whole file (`path`)
//! or a range of lines (`path:start-end`).

use super::{
    Encoding, Field, Format, FormatError, Judgment, Kind, Line, Query, Record, RecordKind, Value, excerpt,
    for_each_line, open,
};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

/// The table as a row format, with its columns in this order. A row becomes a query, whose id consists of repository
/// and number, and a judgment for each target, whose id is the target as in the table.
pub static TABLE: Format = Format {
    name: "repo-search",
    about: "questions about whole repositories, and the files that answer them",
    holds: RecordKind::Queries,
    container: Encoding::Lines { header: true },
    fields: &[
        Field::required("repo", Kind::Text, "short name of the repository"),
        Field::required("revision", Kind::Text, "commit that the judgments are made for"),
        Field::optional("root", Kind::Text, "directory that is indexed, relative to the repository"),
        Field::required("category", Kind::Text, "kind of question"),
        Field::required("query", Kind::Text, "the query"),
        Field::optional("relevant", Kind::Text, "path or path:start-end, commas between"),
        Field::optional("secondary", Kind::Text, "others that answer it as well"),
    ],
    read: |row, sink| {
        let id = format!("{}:{}", row.text("repo"), row.index + 1);
        sink(Record::Query(Query { id: id.clone(), text: row.text("query") }))?;
        let (root, category) = (row.text("root"), row.text("category"));
        let cells = [row.text("relevant"), row.text("secondary")];
        for target in
            targets(&row.line, root.trim_matches('/'), &category, cells.each_ref().map(String::as_str))?
        {
            let lines = target.lines.map(|(start, end)| format!(":{start}-{end}")).unwrap_or_default();
            let document = format!("{}/{}{lines}", row.text("repo"), target.path);
            sink(Record::Judgment(Judgment { query: id.clone(), document, grade: 1, language: None }))?;
        }
        Ok(())
    },
    split: Some(|line| {
        let cells: Vec<&str> = line.text.split('\t').collect();
        if !(COLUMNS.len() - 1..=COLUMNS.len()).contains(&cells.len()) {
            return Err(line.error(
                format!("{} fields separated by tabs", COLUMNS.len()),
                format!("{} in {}", cells.len(), excerpt(line.text)),
                "fix the line, or remove it",
            ));
        }
        if COLUMNS.starts_with(&cells) {
            return Ok(None);
        }
        let value = |cell: &str| if cell.trim().is_empty() { Value::Absent } else { cell.to_owned().into() };
        let missing = COLUMNS.len() - cells.len();
        Ok(Some(cells.into_iter().map(value).chain(std::iter::repeat_n(Value::Absent, missing)).collect()))
    }),
    ..Format::BASE
};

/// A repository at one revision, and the queries about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub name: String,
    /// Commit to which the judgments apply.
    pub revision: String,
    /// Directory that is indexed, relative to the repository, `/` between parts; empty for the whole repository.
    pub root: String,
    pub queries: Vec<RepositoryQuery>,
}

/// Category of the queries that have no answer in the repository.
pub const UNANSWERABLE: &str = "unanswerable";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryQuery {
    /// Category of the query (`symbol`, `semantic`, ...).
    pub category: String,
    pub text: String,
    /// Its answers, relevant ones first, then secondary ones, without repetition; empty exactly for [`UNANSWERABLE`]
    /// queries.
    pub targets: Vec<Target>,
}

/// A file, or a range of its lines, that answers a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Path relative to the repository's `root`, as in results.
    pub path: String,
    /// First and last line, 1-based, inclusive; `None` for the whole file.
    pub lines: Option<(u32, u32)>,
}

/// Reads a repository search file. See [`parse`].
///
/// # Errors
/// When the file cannot be read, and as [`parse`].
pub fn read(path: &Path) -> Result<Vec<Repository>, FormatError> {
    parse(open(path)?, path)
}

/// Parses a repository search table; repositories are in the order of their first occurrence.
///
/// # Errors
/// When a column is missing, a row has the wrong number of fields, a query is empty, there is no target (or one, for
/// a query of the category [`UNANSWERABLE`]), a target is not `path` or `path:start-end`, is outside `root` or occurs
/// twice, or a repository has two revisions or roots.
pub fn parse(reader: impl BufRead, path: &Path) -> Result<Vec<Repository>, FormatError> {
    let mut columns: Option<Columns> = None;
    let mut repositories: Vec<Repository> = Vec::new();
    for_each_line(reader, path, |line| {
        let Some(columns) = &columns else {
            columns = Some(Columns::from_header(line)?);
            return Ok(());
        };
        let [name, revision, root, category, query, relevant, secondary] = columns.fields(line)?;
        let root = root.trim_matches('/');
        if query.trim().is_empty() {
            return Err(line.error("a query", "none", "write the question, or remove the line"));
        }
        let query = RepositoryQuery {
            category: category.to_owned(),
            text: query.to_owned(),
            targets: targets(line, root, category, [relevant, secondary])?,
        };
        match repositories.iter_mut().find(|repository| repository.name == name) {
            None => repositories.push(Repository {
                name: name.to_owned(),
                revision: revision.to_owned(),
                root: root.to_owned(),
                queries: vec![query],
            }),
            Some(repository) if repository.revision == revision && repository.root == root => {
                repository.queries.push(query);
            }
            Some(repository) => {
                return Err(line.error(
                    format!("revision {} and root {:?} for {name}", repository.revision, repository.root),
                    format!("{revision} and {root:?}"),
                    "use a different repository name for the other revision or root",
                ));
            }
        }
        Ok(())
    })?;
    if repositories.is_empty() {
        return Err(FormatError::empty(path, "a header line and at least one query", "no query"));
    }
    Ok(repositories)
}

/// Repositories of several tables, each once with the queries of all of them; another revision or root is another one.
pub fn merged(repositories: impl IntoIterator<Item = Repository>) -> Vec<Repository> {
    let mut merged: Vec<Repository> = Vec::new();
    for repository in repositories {
        let key = |of: &Repository| (of.name.clone(), of.revision.clone(), of.root.clone());
        match merged.iter_mut().find(|known| key(known) == key(&repository)) {
            Some(known) => known.queries.extend(repository.queries),
            None => merged.push(repository),
        }
    }
    merged
}

/// Reads a user's queries about a tree. See [`parse_questions`].
///
/// # Errors
/// When the file cannot be read, and as [`parse_questions`].
pub fn read_questions(
    path: &Path,
    lengths: &BTreeMap<&str, usize>,
) -> Result<Vec<RepositoryQuery>, FormatError> {
    parse_questions(open(path)?, path, lengths)
}

/// Parses a user's queries about a tree, one per line: `query TAB path[:line[-line]]`. Lines with the same query are
/// one query with several targets; empty lines are skipped. `lengths` contains the number of lines of each searched
/// file, by its path.
///
/// # Errors
/// When a line has no tab, a query is empty, a target is not `path`, `path:line` or `path:start-end`, occurs twice or
/// refers to a missing file or line, or the file has no query.
pub fn parse_questions(
    reader: impl BufRead,
    path: &Path,
    lengths: &BTreeMap<&str, usize>,
) -> Result<Vec<RepositoryQuery>, FormatError> {
    let mut queries: Vec<RepositoryQuery> = Vec::new();
    for_each_line(reader, path, |line| {
        let Some((text, location)) = line.text.split_once('\t').filter(|(text, _)| !text.trim().is_empty())
        else {
            return Err(line.error(
                "query TAB path[:line[-line]]",
                excerpt(line.text),
                "write the question, a tab, and the location that answers it",
            ));
        };
        let (text, location) = (text.trim(), location.trim());
        let target = match location.rsplit_once(':') {
            Some((file, number)) if number.parse::<u32>().is_ok_and(|number| number > 0) => {
                target(line, "", &format!("{file}:{number}-{number}"))?
            }
            _ => target(line, "", location)?,
        };
        let Some(&length) = lengths.get(target.path.as_str()) else {
            let nearest = quarry_text::nearest(&target.path, lengths.keys().copied(), 1);
            let nearest = nearest.first().map_or("one of the tree", String::as_str);
            return Err(line.error(
                "a file that is searched, by its path from the root of the tree",
                excerpt(&target.path),
                format!("name {nearest} if you meant that one"),
            ));
        };
        if let Some((_, end)) = target.lines.filter(|(_, end)| *end as usize > length) {
            return Err(line.error(
                format!("lines of {}, which has {length}", target.path),
                format!("line {end}"),
                "fix the range of lines",
            ));
        }
        let position = queries.iter().position(|query| query.text == text).unwrap_or_else(|| {
            let category = "queries".to_owned();
            queries.push(RepositoryQuery { category, text: text.to_owned(), targets: Vec::new() });
            queries.len() - 1
        });
        if queries[position].targets.contains(&target) {
            return Err(line.error("each target of a query once", "one again", "remove one of the two"));
        }
        queries[position].targets.push(target);
        Ok(())
    })?;
    if queries.is_empty() {
        return Err(FormatError::File {
            path: path.to_owned(),
            expected: "at least one line `query TAB path[:line[-line]]`".into(),
            found: "none".into(),
            remedy: "write a question and the location that answers it".into(),
        });
    }
    Ok(queries)
}

const COLUMNS: [&str; 7] = ["repo", "revision", "root", "category", "query", "relevant", "secondary"];

/// Index of each of [`COLUMNS`]; the last may be absent.
struct Columns {
    positions: [Option<usize>; COLUMNS.len()],
    count: usize,
}

impl Columns {
    fn from_header(line: &Line<'_>) -> Result<Self, FormatError> {
        let names: Vec<&str> = line.text.split('\t').collect();
        let positions = COLUMNS.map(|column| names.iter().position(|name| *name == column));
        let missing: Vec<&str> = COLUMNS
            .into_iter()
            .zip(positions)
            .filter(|(column, position)| position.is_none() && *column != "secondary")
            .map(|(column, _)| column)
            .collect();
        if missing.is_empty() {
            return Ok(Self { positions, count: names.len() });
        }
        Err(line.error(
            format!("a header with the columns {}", COLUMNS.join(", ")),
            format!("none named {}", missing.join(", ")),
            "add the columns, separated by tabs",
        ))
    }

    fn fields<'a>(&self, line: &Line<'a>) -> Result<[&'a str; COLUMNS.len()], FormatError> {
        let fields: Vec<&str> = line.text.split('\t').collect();
        if fields.len() == self.count {
            return Ok(self.positions.map(|position| position.map_or("", |position| fields[position])));
        }
        Err(line.error(
            format!("{} fields separated by tabs", self.count),
            format!("{} in {}", fields.len(), excerpt(line.text)),
            "fix the line, or remove it",
        ))
    }
}

fn targets(
    line: &Line<'_>,
    root: &str,
    category: &str,
    cells: [&str; 2],
) -> Result<Vec<Target>, FormatError> {
    let mut targets = Vec::new();
    for text in
        cells.into_iter().flat_map(|cell| cell.split(',')).map(str::trim).filter(|text| !text.is_empty())
    {
        let target = target(line, root, text)?;
        if targets.contains(&target) {
            return Err(line.error(
                "each target once",
                format!("{} again", excerpt(text)),
                "remove one of the two",
            ));
        }
        targets.push(target);
    }
    match (category == UNANSWERABLE, targets.is_empty()) {
        (false, true) => Err(line.error("at least one target", "none", "name a file that answers the query")),
        (true, false) => Err(line.error("no target", "some", "remove them, or change the category")),
        _ => Ok(targets),
    }
}

fn target(line: &Line<'_>, root: &str, text: &str) -> Result<Target, FormatError> {
    let (path, lines) = match text.split_once(':') {
        None => (text, None),
        Some((path, range)) => {
            let range = range
                .split_once('-')
                .and_then(|(start, end)| Some((start.parse::<u32>().ok()?, end.parse::<u32>().ok()?)))
                .filter(|(start, end)| 1 <= *start && start <= end);
            if range.is_none() {
                return Err(line.error(
                    "a target as path or path:start-end, lines counted from 1",
                    excerpt(text),
                    "fix the range of lines",
                ));
            }
            (path, range)
        }
    };
    let inside = if root.is_empty() {
        Some(path)
    } else {
        path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'))
    };
    match inside {
        Some(path) if !path.is_empty() => Ok(Target { path: path.to_owned(), lines }),
        _ => Err(line.error(
            format!("a path within the root {root:?}"),
            excerpt(text),
            "only what is indexed can be found: fix the path or the root",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "repo\trevision\troot\tcategory\tquery\trelevant\tsecondary\n";

    fn parse_rows(rows: &str) -> Result<Vec<Repository>, String> {
        parse(format!("{HEADER}{rows}").as_bytes(), Path::new("t")).map_err(|error| error.to_string())
    }

    fn questions(text: &str) -> Result<Vec<RepositoryQuery>, String> {
        let lengths = BTreeMap::from([("a.py", 9), ("lib/b.py", 3)]);
        parse_questions(text.as_bytes(), Path::new("q"), &lengths).map_err(|error| error.to_string())
    }

    #[test]
    fn questions_of_one_text_have_several_targets() {
        let found = questions("how\ta.py:3-9\n\nwho\tlib/b.py\n how \tlib/b.py:2\n").unwrap();
        let target = |path: &str, lines| Target { path: path.into(), lines };
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].text.as_str(), found[0].category.as_str()), ("how", "queries"));
        assert_eq!(found[0].targets, [target("a.py", Some((3, 9))), target("lib/b.py", Some((2, 2)))]);
        assert_eq!(found[1].targets, [target("lib/b.py", None)]);
    }

    #[test]
    fn a_repository_of_two_tables_is_one() {
        let first = parse_rows("a\tr\t\tx\thow\ta.py\t\nb\tr\t\tx\twho\tb.py\t\n").unwrap();
        let second = parse_rows("a\tr\t\tunanswerable\twhy\t\t\nb\tother\t\tx\twhen\tb.py\t\n").unwrap();
        let merged = merged(first.into_iter().chain(second));
        let found: Vec<(&str, &str, usize)> =
            merged.iter().map(|of| (of.name.as_str(), of.revision.as_str(), of.queries.len())).collect();
        assert_eq!(found, [("a", "r", 2), ("b", "r", 1), ("b", "other", 1)]);
    }

    #[test]
    fn questions_name_existing_files() {
        for (text, words) in [
            ("how\ta.py\nhow a.py\n", "q:2: expected query TAB path"),
            ("\ta.py\n", "q:1: expected query TAB path"),
            ("how\tb.py\n", "name lib/b.py"),
            ("how\ta.py:10\n", "which has 9, found line 10"),
            ("how\ta.py:0\n", "q:1: expected a target"),
            ("how\ta.py:4-2\n", "q:1: expected a target"),
            ("how\ta.py\nhow\ta.py\n", "q:2: expected each target"),
            ("\n", "expected at least one line"),
        ] {
            let error = questions(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn rows_are_grouped_by_repository_and_paths_are_relative_to_the_root() {
        let repositories = parse_rows(
            "a\tr1\tsrc/lib\tsymbol\tFoo\tsrc/lib/x/foo.py:3-9\tsrc/lib/b.py,src/lib/c.py\n\
             b\tr2\t\tsemantic\twho\tm.go\t\n\
             a\tr1\tsrc/lib\tsemantic\thow\tsrc/lib/b.py\t\n",
        )
        .unwrap();
        let target = |path: &str, lines| Target { path: path.into(), lines };
        assert_eq!(repositories.len(), 2);
        assert_eq!(repositories[0].root, "src/lib");
        assert_eq!(repositories[0].queries.len(), 2);
        assert_eq!(
            repositories[0].queries[0].targets,
            [target("x/foo.py", Some((3, 9))), target("b.py", None), target("c.py", None)]
        );
        assert_eq!(repositories[1].queries[0].targets, [target("m.go", None)]);
    }

    #[test]
    fn rows_are_queries_and_judgments_to_those_who_read_any_format() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table.tsv");
        let rows = "a\tr\tsrc\tsymbol\tFoo \"x\"\tsrc/x.py:3-9\tsrc/b.py\nb\tr\t\tunanswerable\twho\t\t\n";
        std::fs::write(&path, format!("{HEADER}{rows}")).unwrap();
        let read = || {
            let source = super::super::source::Source::open(&path, "")?;
            assert_eq!(source.format.name, "repo-search");
            let mut seen = Vec::new();
            source.for_each(&mut |record| {
                seen.push(match record {
                    Record::Query(query) => format!("{} {}", query.id, query.text),
                    Record::Judgment(judgment) => format!("{} {}", judgment.query, judgment.document),
                    other => panic!("{other:?}"),
                });
                Ok(())
            })?;
            Ok::<_, FormatError>(seen)
        };
        assert_eq!(read().unwrap(), ["a:1 Foo \"x\"", "a:1 a/x.py:3-9", "a:1 a/b.py", "b:2 who"]);
        std::fs::write(&path, format!("{HEADER}{rows}a\tr\tsrc\tk\tq\tx.py\t\n")).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("table.tsv:4: expected a path within the root \"src\""), "{error}");
    }

    #[test]
    fn unanswerable_queries_have_no_target() {
        let repositories = parse_rows("a\tr\t\tunanswerable\thow\t\t\n").unwrap();
        assert!(repositories[0].queries[0].targets.is_empty());
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = "query\trelevant\tcategory\troot\trevision\trepo\nhow\tf.py\tk\t\tr\ta\n";
        let repositories = parse(text.as_bytes(), Path::new("t")).unwrap();
        assert_eq!((repositories[0].name.as_str(), repositories[0].revision.as_str()), ("a", "r"));
        assert_eq!(repositories[0].queries[0].category, "k");
    }

    #[test]
    fn wrong_rows_are_named() {
        for (rows, start) in [
            ("a\tr\t\tk\tq\tf.py\n", "t:2: expected 7 fields separated by tabs, found 6"),
            ("a\tr\t\tk\t \tf.py\t\n", "t:2: expected a query"),
            ("a\tr\t\tk\tq\t,\t\n", "t:2: expected at least one target"),
            ("a\tr\t\tunanswerable\tq\tf.py\t\n", "t:2: expected no target"),
            ("a\tr\t\tk\tq\tf.py:9-3\t\n", "t:2: expected a target as path or path:start-end"),
            ("a\tr\t\tk\tq\tf.py:0-3\t\n", "t:2: expected a target as path"),
            ("a\tr\t\tk\tq\tf.py:3\t\n", "t:2: expected a target as path"),
            ("a\tr\tsrc\tk\tq\tsrcs/f.py\t\n", "t:2: expected a path within the root \"src\""),
            ("a\tr\tsrc\tk\tq\tsrc/\t\n", "t:2: expected a path within the root"),
            ("a\tr\t\tk\tq\tf.py\tf.py\n", "t:2: expected each target once"),
            ("a\tr\t\tk\tq\tf\t\na\ts\t\tk\tq\tf\t\n", "t:3: expected revision r and root \"\" for a"),
            ("", "t: expected a header line and at least one query"),
        ] {
            let error = parse_rows(rows).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
        let error = parse("repo\tquery\n".as_bytes(), Path::new("t")).unwrap_err().to_string();
        assert!(
            error.contains("t:1:") && error.contains("none named revision, root, category, relevant"),
            "{error}"
        );
    }
}
