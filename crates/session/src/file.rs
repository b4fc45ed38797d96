//! A file and what is in it.

use serde::Serialize;

use crate::{Tree, kind_name};

/// An indexed file with its units.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileView {
    /// Absolute path that `path` is relative to.
    pub root: String,
    /// Relative to `root`, `/` between its parts.
    pub path: String,
    /// Name of the language.
    pub language: String,
    /// The units, in the order of their lines; with a line, only the innermost one there.
    pub units: Vec<UnitOfFile>,
}

/// A unit of a file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitOfFile {
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// Qualified name within the file; empty for parts between definitions.
    pub name: String,
    /// function, method, type, module or section.
    pub kind: &'static str,
    /// Declaration without body.
    pub signature: String,
    /// The whole text, if one unit was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The units of an indexed file, or the innermost one at a line with its source. `None` if no such file is indexed, or
/// no unit is at the line.
pub fn file(tree: &Tree, root: usize, path: &str, line: Option<u32>) -> Option<FileView> {
    let file = tree.index.file(root, path)?;
    let view = |hit: quarry_index::Hit, source: Option<String>| UnitOfFile {
        start_line: hit.start_line,
        end_line: hit.end_line,
        kind: kind_name(hit.kind),
        name: hit.name,
        signature: hit.signature,
        source,
    };
    let units = match line {
        None => file.hits().map(|hit| view(hit, None)).collect(),
        Some(line) => {
            let hit = tree.index.unit_at_in(root, path, line)?;
            // A file that has gone since the index was opened has no lines to show.
            let source = tree.index.source(&hit).unwrap_or_default().text;
            vec![view(hit, Some(source))]
        }
    };
    Some(FileView {
        root: tree.root(root),
        path: file.path().to_owned(),
        language: file.language().to_owned(),
        units,
    })
}
