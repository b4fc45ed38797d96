//! Directories of the searched paths.

use std::collections::BTreeSet;

use crate::{Error, Index};

/// The names in a directory, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// Those of directories with files below them.
    pub directories: Vec<String>,
    /// Those of files, indexed or not ([`Index::unindexed`]).
    pub files: Vec<String>,
}

impl Index {
    /// The names in a directory, whose path is relative to the searched path with index `root`; empty if it has no file that
    /// can be found.
    ///
    /// # Errors
    /// When a tree cannot be listed.
    pub fn entries(&self, root: usize, directory: &str) -> Result<Entries, Error> {
        let (mut directories, mut files) = (BTreeSet::new(), BTreeSet::new());
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut add = |path: &str| {
            let Some(inside) = path.strip_prefix(&prefix) else { return };
            match inside.split_once('/') {
                Some((first, _)) => directories.insert(first.to_owned()),
                None => files.insert(inside.to_owned()),
            };
        };
        for tree in &self.trees {
            let Some(found) = tree.roots.iter().find(|found| found.number == root) else { continue };
            let absolute = found.scope.absolute(&prefix);
            let text = |row: usize| self.table.text(self.table.files[row].path);
            let start = tree.files.start
                + self.table.files[tree.files.clone()]
                    .partition_point(|file| self.table.text(file.path) < absolute.as_ref());
            let below = (start..tree.files.end).take_while(|row| text(*row).starts_with(absolute.as_ref()));
            for row in below {
                let flags = self.table.files[row].flags();
                let path = found.scope.relative(text(row)).filter(|path| {
                    found.found.lists(self.table.files[row].text_bytes.into(), flags)
                        && found.filter.path(path, flags)
                });
                path.into_iter().for_each(&mut add);
            }
            if self.carried.is_some() {
                continue;
            }
            for file in tree.others()?.iter() {
                let path = found
                    .scope
                    .relative(&file.path)
                    .filter(|path| found.found.lists(0, file.flags) && found.filter.path(path, file.flags));
                path.into_iter().for_each(&mut add);
            }
        }
        Ok(Entries { directories: directories.into_iter().collect(), files: files.into_iter().collect() })
    }
}
