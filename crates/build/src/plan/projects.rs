//! Tables of projects with their licenses.

use std::collections::BTreeMap;
use std::path::Path;

use quarry_files::read_regular_text;

/// Maximum size of a table, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Reads the licenses of projects by name: a line `PROJECT<tab>LICENSE` for each, with an SPDX expression or nothing
/// if unknown. Blank lines and those that begin with `#` are ignored.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = read_regular_text(path, MAX_BYTES).map_err(|error| {
        format!("{}: cannot be read: {error}; expected a table of projects", path.display())
    })?;
    parse(&text).map_err(|problem| format!("{}:{problem}", path.display()))
}

fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut licenses = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((project, license)) = line.split_once('\t') else {
            return Err(format!("{number}: expected a project, a tab and its license, found {line:?}"));
        };
        let (project, license) = (project.trim(), license.trim());
        if !license.is_empty() && licenses.insert(project.to_owned(), license.to_owned()).is_some() {
            return Err(format!("{number}: {project:?} occurs twice; expected one line per project"));
        }
    }
    Ok(licenses)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_table_has_a_line_for_each_project() {
        let licenses = parse("# OSF\nab12c\tMIT\nde34f\t\n\ngh56i\tCC0-1.0\n").unwrap();
        let licenses: Vec<_> =
            licenses.iter().map(|(project, license)| (project.as_str(), license.as_str())).collect();
        assert_eq!(licenses, [("ab12c", "MIT"), ("gh56i", "CC0-1.0")]);
        assert!(parse("ab12c MIT\n").unwrap_err().starts_with("1: expected a project, a tab"));
        assert!(parse("a\tMIT\nb\tMIT\na\tMIT\n").unwrap_err().starts_with("3: \"a\" occurs twice"));
    }
}
