//! Lists of repositories: those that pairs are made of, and those that are kept for evaluation.

use std::collections::HashSet;
use std::path::Path;

use crate::formats::{FormatError, excerpt};

/// First column of the line that names the columns of a list.
const HEADER: &str = "repository";

/// A row of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Its name, `owner/name`.
    pub name: String,
    pub license: String,
}

/// Reads a tab-separated list of repositories with their commits and licenses. A first line that names the columns is
/// skipped.
///
/// # Errors
/// When the file cannot be read, or a line is wrong.
pub fn read_manifest(path: &Path) -> Result<Vec<Repository>, FormatError> {
    let rows = rows(path)?;
    rows.iter().map(|(line, text)| repository(text).map_err(|problem| wrong(path, *line, problem))).collect()
}

/// Reads names of repositories, one per line, in lower case: `owner/name`, an address, or a row of a manifest. Blank lines
/// and those that begin with `#` are skipped.
///
/// # Errors
/// When the file cannot be read, or a line names no repository.
pub fn read_names(path: &Path) -> Result<HashSet<String>, FormatError> {
    let rows = rows(path)?;
    let name = |(line, text): &(usize, String)| match name_of(text) {
        Some(name) => Ok(name.to_lowercase()),
        None => Err(wrong(path, *line, ("owner/name or the address of a repository", excerpt(text)))),
    };
    rows.iter().filter(|(_, text)| !text.starts_with('#')).map(name).collect()
}

/// The lines with text, numbered, without the one that names the columns.
fn rows(path: &Path) -> Result<Vec<(usize, String)>, FormatError> {
    let bytes = std::fs::read(path).map_err(|source| FormatError::Read { path: path.to_owned(), source })?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let is_header = |(at, text): &(usize, &str)| {
        *at == 0 && first_word(text).is_some_and(|word| word.eq_ignore_ascii_case(HEADER))
    };
    let rows = lines.filter(|row| !row.1.trim().is_empty() && !is_header(row));
    // A tab at the end of a line stands before an empty column.
    Ok(rows.map(|(at, text)| (at + 1, text.trim_matches([' ', '\r']).to_owned())).collect())
}

fn wrong(path: &Path, line: usize, (expected, found): (&str, String)) -> FormatError {
    let remedy = "fix the line, or remove it".to_owned();
    FormatError::Line { path: path.to_owned(), line, expected: expected.to_owned(), found, remedy }
}

/// The repository of a row, or what was expected and found instead.
fn repository(text: &str) -> Result<Repository, (&'static str, String)> {
    let columns: Vec<&str> = text.split('\t').map(str::trim).collect();
    let [name, commit, license, ..] = columns[..] else {
        return Err(("repository, commit and license, separated by tabs", excerpt(text)));
    };
    let name = name_of(name).ok_or_else(|| ("owner/name", excerpt(name)))?;
    let is_commit = (7..=64).contains(&commit.len())
        && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
        && commit.bytes().any(|byte| byte != b'0');
    if !is_commit {
        return Err(("the hash of a commit", excerpt(commit)));
    }
    if license.is_empty() {
        return Err(("a license", "none".to_owned()));
    }
    Ok(Repository { name, license: license.to_owned() })
}

/// The name `owner/name` that a text begins with, however it is written: as an address with or without a scheme, as
/// `host:owner/name`, or as the name of a checkout, `owner__name`.
fn name_of(text: &str) -> Option<String> {
    let word = first_word(text)?;
    let (scheme, rest) = word.split_once("://").map_or((None, word), |(scheme, rest)| (Some(scheme), rest));
    // A user's name before the host, a commit behind the repository.
    let rest = match rest.split_once('@') {
        Some((user, host)) if !user.contains('/') => host,
        Some((name, _)) => name,
        None => rest,
    };
    let rest = rest.split(['?', '#']).next()?.replacen(':', "/", 1);
    let mut parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let has_host = scheme.is_some() || word.contains(':') || parts.len() > 2 && parts[0].contains('.');
    let host = has_host.then(|| parts.first().copied()).flatten();
    if host.is_some() {
        parts.remove(0);
    }
    if parts.len() > 2 && host.is_some_and(|host| host.ends_with("github.com")) {
        parts.truncate(2);
    }
    let (owner, name) = match parts[..] {
        [owner, name] => (owner, name),
        [checkout] => checkout.split_once("__")?,
        _ => return None,
    };
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_name = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    (is_name(owner) && is_name(name)).then(|| format!("{owner}/{name}"))
}

fn first_word(text: &str) -> Option<&str> {
    let word = text.split([' ', '\t', ',', ';']).find(|word| !word.is_empty())?;
    Some(word.trim().trim_matches(['"', '\'', '`', '<', '>']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_recognized_however_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("names.txt");
        for text in [
            "\u{feff}pallets/flask",
            "Pallets/Flask\r\n",
            "  pallets/flask  # held out",
            "pallets/flask/",
            "pallets/flask.git",
            "https://github.com/pallets/flask",
            "http://www.github.com/pallets/flask.git/",
            "https://github.com/pallets/flask/tree/main/src?x#readme",
            "github.com/pallets/flask",
            "git@github.com:pallets/flask.git",
            "ssh://git@github.com/pallets/flask.git",
            "git+https://github.com/pallets/flask@abc",
            "github:pallets/flask",
            "pallets/flask@0123456789abcdef",
            "pallets__flask",
            "\"pallets/flask\"",
            "pallets/flask\t8646edca6f47e2cd57464081b3911218d4734f8d\tBSD-3-Clause",
            "pallets/flask,8646edca6f47e2cd57464081b3911218d4734f8d",
            "repository\tcommit\tlicense\n# of the benchmark\n\npallets/flask\t8646edc\tBSD-3-Clause",
        ] {
            std::fs::write(&path, text).unwrap();
            let names = read_names(&path).unwrap();
            assert_eq!(names, HashSet::from(["pallets/flask".to_owned()]), "{text:?}");
        }
        for text in [
            "flask",
            "pallets/\u{200b}flask",
            "pallets/src/flask",
            "- pallets/flask",
            "ｐallets/flask",
            "https://github.com/pallets",
            "p\0a\0l\0l\0e\0t\0s\0/\0f\0",
        ] {
            std::fs::write(&path, format!("a/b\n{text}\n")).unwrap();
            let error = read_names(&path).unwrap_err().to_string();
            assert!(error.contains("names.txt:2: expected owner/name or the address"), "{error}");
        }
    }

    #[test]
    fn a_manifest_needs_no_header_and_has_a_commit_in_each_row() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manifest.tsv");
        let row =
            "https://github.com/pallets/flask.git\t8646edca6f47e2cd57464081b3911218d4734f8d\tBSD-3-Clause";
        let flask = Repository { name: "pallets/flask".into(), license: "BSD-3-Clause".into() };
        for text in [row.to_owned(), format!("\u{feff}Repository\tcommit\tlicense\r\n{row}\r\n")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_manifest(&path).unwrap(), std::slice::from_ref(&flask));
        }
        let zeros = format!("a/b\t{}\tMIT", "0".repeat(40));
        for (text, problem) in [
            (zeros.as_str(), "expected the hash of a commit"),
            ("a/b\tmain\tMIT", "expected the hash of a commit"),
            ("a/b\t8646edca\t", "expected a license"),
            ("a/b 8646edca MIT", "separated by tabs"),
            ("a\t8646edca\tMIT", "expected owner/name"),
        ] {
            std::fs::write(&path, format!("{row}\n{text}\n")).unwrap();
            let error = read_manifest(&path).unwrap_err().to_string();
            assert!(error.contains("manifest.tsv:2: ") && error.contains(problem), "{error}");
        }
    }
}
