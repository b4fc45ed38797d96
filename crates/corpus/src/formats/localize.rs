//! Issues and the code changed by their fixes, one JSON object per line, for issue localization.
//!
//! An object has `id`, `repository` (`OWNER/NAME`), `commit` (full hash of the state before the fix), `text` (title and body),
//! `functions` (`path:Class.method` or `path:function`), `lines` (each with `path`, `start` and `end`: the lines
//! changed by the fix, as of the state before it) or both, and optionally `files` (by default those of the
//! functions or lines) and `source` (the data set of the issue). Other members are ignored.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::row::json_error;
use super::{FormatError, for_each_line, open};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Unique in the file.
    pub id: String,
    /// Owner and name of the repository, separated by `/`.
    pub repository: String,
    /// The commit before the fix.
    pub commit: String,
    /// Title and body.
    pub text: String,
    /// The changed functions, each as path, `:` and qualified name; may be empty.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Paths of the changed files; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The changed lines; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<ChangedLines>,
    /// The data set of the issue; may be empty.
    #[serde(default)]
    pub source: String,
}

/// Consecutive lines changed by a fix, as of the state before it; for an insertion, the lines before and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedLines {
    pub path: String,
    /// First line, 1-based.
    pub start: u32,
    /// Last line, inclusive.
    pub end: u32,
}

const EXPECTED: &str = "an issue with `id`, `repository`, `commit`, `text`, and `functions` or `lines`";

/// Returns whether a text names a repository in the format's notation: `OWNER/NAME`.
pub fn is_repository(text: &str) -> bool {
    let is_name = |part: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_allowed)
    };
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

/// Returns true if a text is the full hash of a commit. Other names may refer to another commit later.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads a file of issues. See [`parse`].
///
/// # Errors
/// When the file cannot be read, and as [`parse`].
pub fn read(path: &Path) -> Result<Vec<Issue>, FormatError> {
    parse(open(path)?, path)
}

/// Parses issues, in the order of the file.
///
/// # Errors
/// When a line is not an issue, an id occurs twice, a repository is not `OWNER/NAME`, a commit is not a full hash, a function
/// has no path or no name, or the file has no issue.
pub fn parse(reader: impl BufRead, path: &Path) -> Result<Vec<Issue>, FormatError> {
    let mut issues: Vec<Issue> = Vec::new();
    let mut lines: HashMap<String, usize> = HashMap::new();
    for_each_line(reader, path, |line| {
        let issue: Issue =
            serde_json::from_str(line.text).map_err(|error| json_error(line, &error, EXPECTED))?;
        if !is_repository(&issue.repository) {
            return Err(line.error(
                "a repository as OWNER/NAME",
                format!("{:?}", issue.repository),
                "write it as in its URL",
            ));
        }
        if !is_commit(&issue.commit) {
            return Err(line.error(
                "a commit as its full hash of 40 or 64 hexadecimal digits",
                format!("{:?}", issue.commit),
                "resolve it with `git rev-parse`",
            ));
        }
        let has_parts = |function: &&String| {
            function.split_once(':').is_some_and(|(path, name)| !path.is_empty() && !name.is_empty())
        };
        if let Some(wrong) = issue.functions.iter().find(|function| !has_parts(function)) {
            return Err(line.error(
                "functions as path:Class.method or path:function",
                format!("{wrong:?}"),
                "fix the function, or remove it",
            ));
        }
        if let Some(wrong) = issue.lines.iter().find(|lines| lines.start == 0 || lines.end < lines.start) {
            return Err(line.error(
                "lines from 1 on, `start` not after `end`",
                format!("{} to {} of {:?}", wrong.start, wrong.end, wrong.path),
                "fix the lines, or remove them",
            ));
        }
        if let Some(first) = lines.insert(issue.id.clone(), line.number) {
            return Err(line.error(
                "each id once",
                format!("{:?}, as on {}", issue.id, line.named(first)),
                "give it another id, or remove one of the two",
            ));
        }
        issues.push(issue);
        Ok(())
    })?;
    if issues.is_empty() {
        return Err(FormatError::empty(path, "at least one issue, a JSON object per line", "none"));
    }
    Ok(issues)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789ABCDEF01234567";

    fn issues(text: &str) -> Result<Vec<Issue>, String> {
        parse(text.as_bytes(), Path::new("t")).map_err(|error| error.to_string())
    }

    #[test]
    fn optional_fields_may_be_missing() {
        let found = issues(&format!(
            "{{\"id\":\"1\",\"repository\":\"o/n\",\"commit\":\"{COMMIT}\",\"text\":\"t\",\"functions\":[\"a.py:f\"],\"x\":1}}\n\n"
        ))
        .unwrap();
        let expected = Issue {
            id: "1".into(),
            repository: "o/n".into(),
            commit: COMMIT.into(),
            text: "t".into(),
            functions: vec!["a.py:f".into()],
            files: Vec::new(),
            lines: Vec::new(),
            source: String::new(),
        };
        assert_eq!(found, [expected]);
        let found = issues(
            "{\"id\": \"1\", \"repository\": \"o/n\", \"commit\": \"0000000000000000000000000000000000000000\", \"text\": \"t\", \"lines\": [{\"path\": \"a.c\", \"start\": 2, \"end\": 3}]}\n",
        )
        .unwrap();
        assert!(found[0].functions.is_empty());
        assert_eq!(found[0].lines, [ChangedLines { path: "a.c".into(), start: 2, end: 3 }]);
    }

    #[test]
    fn wrong_lines_are_named() {
        let line = |id: &str, repository: &str, function: &str| {
            format!(
                "{{\"id\":{id},\"repository\":\"{repository}\",\"commit\":\"{COMMIT}\",\"text\":\"t\",\"functions\":[\"{function}\"]}}\n"
            )
        };
        let good = line("\"1\"", "o/n", "a:f");
        for commit in
            ["HEAD", "HEAD~1", ":/two", "main", "", "0123456789ab", &format!("{COMMIT}0"), &"g".repeat(40)]
        {
            let error = issues(&good.replace(COMMIT, commit)).unwrap_err();
            assert!(error.contains("t:1: expected a commit as its full hash"), "{commit}: {error}");
        }
        for (text, words) in [
            (line("1", "o/n", "a:f"), "t:1: expected an issue with"),
            (line("\"1\"", "on", "a:f"), "t:1: expected a repository as OWNER/NAME, found \"on\""),
            (line("\"1\"", "../n", "a:f"), "expected a repository as OWNER/NAME"),
            (line("\"1\"", "o/n/m", "a:f"), "expected a repository as OWNER/NAME"),
            (line("\"1\"", "o/n", "a"), "expected functions as path:Class.method"),
            (line("\"1\"", "o/n", ":f"), "expected functions as path:Class.method"),
            (
                "{\"id\":\"1\",\"repository\":\"o/n\",\"commit\":\"0000000000000000000000000000000000000000\",\"text\":\"t\",\"lines\":[{\"path\":\"a\",\"start\":3,\"end\":2}]}\n"
                    .to_owned(),
                "t:1: expected lines from 1 on, `start` not after `end`, found 3 to 2 of \"a\"",
            ),
            (format!("{good}{good}"), "t:2: expected each id once, found \"1\", as on line 1"),
            ("\n".to_owned(), "t: expected at least one issue"),
        ] {
            let error = issues(&text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
