//! Files as an editor has them, in place of those on disk: for one process, and never written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_walk::{self as walk, Content, FileFlags, ListedFile, Stamp};
use rayon::prelude::*;

use crate::index::Dense;
use crate::index::roots::Tree;
use crate::lexical::Part;
use crate::lifecycle::build::{NewPart, Prepared};
use crate::storage::content_hash::content_hash;
use crate::storage::table::Table;
use crate::vectors::embedding_text::{embedding_text, hash_of};
use crate::vectors::passages::PassageVectors;
use crate::vectors::{Rows, UnitVectors};
use crate::{Error, Index};

/// Texts of an editor that were split, so that only changed ones are split again.
#[derive(Default)]
pub struct SplitFiles(Mutex<HashMap<u128, Arc<Prepared<'static>>>>);

impl SplitFiles {
    /// The units of all of some texts. Those of other texts are forgotten.
    fn split(&self, unsaved: &[Unsaved]) -> Vec<Prepared<'static>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let split = |unsaved: &Unsaved| {
            let key = unsaved.key();
            let found = known.get(&key).cloned();
            (key, found.unwrap_or_else(|| Arc::new(Prepared::new(&unsaved.file, &unsaved.content).owned())))
        };
        let split: Vec<(u128, Arc<Prepared<'static>>)> = unsaved.par_iter().map(split).collect();
        let prepared = split.iter().map(|(_, prepared)| Prepared::clone(prepared)).collect();
        *known = split.into_iter().collect();
        prepared
    }
}

/// A text that differs from what is indexed.
struct Unsaved {
    /// The position of its tree.
    tree: usize,
    /// The row of the file in the table, if it is indexed.
    row: Option<usize>,
    file: ListedFile,
    content: Content,
}

impl Unsaved {
    /// A hash of all that its units depend on.
    fn key(&self) -> u128 {
        let Self { file: ListedFile { path, language, .. }, content, .. } = self;
        let about = format!("{}\0{}\0{}\0", path, language.name(), content.flags.bits());
        hash_of(&format!("{about}{}", content_hash(&content.text)))
    }
}

impl Index {
    /// This index with the texts of some files as an editor has them, which are in memory only. Paths are absolute,
    /// with links resolved. A file that is not on disk yet is added; one that is on disk but not indexed is left out,
    /// like a text that is not source code or not in a searched path. `None` if no text differs from what is indexed.
    /// `split` caches the files split by earlier calls.
    ///
    /// # Errors
    /// When the model fails, or the index cannot be read.
    pub fn with_unsaved(
        &self,
        texts: &[(PathBuf, String)],
        split: &SplitFiles,
    ) -> Result<Option<Self>, Error> {
        let mut unsaved: Vec<Unsaved> =
            texts.iter().filter_map(|(path, text)| self.unsaved(path, text)).collect();
        unsaved.sort_by(|a, b| (a.tree, &a.file.path).cmp(&(b.tree, &b.file.path)));
        unsaved.dedup_by(|a, b| (a.tree, &a.file.path) == (b.tree, &b.file.path));
        if unsaved.is_empty() {
            return Ok(None);
        }
        let NewPart { records, texts, .. } = NewPart::new(split.split(&unsaved), 0)?;
        let new = Table::in_memory(vec![records])?;
        let rows = self.vectors_of(&new, &unsaved)?;

        let ranges: Vec<_> = self.trees.iter().map(|tree| tree.files.clone()).collect();
        let places: Vec<usize> = unsaved.iter().map(|unsaved| unsaved.tree).collect();
        let n_new = new.units.len();
        let (table, ranges) = self.table.with_part(&ranges, new, &places)?;
        if table.units.is_empty() {
            return Ok(None);
        }
        let numbering = Arc::new(table.numbering());
        // A part without units has no postings and no vectors, and comes last.
        let part = if n_new > 0 { Some(Part::in_memory(texts)?) } else { None };
        let lexical = self.lexical.with_part(part, &numbering, &table.field_sizes());
        let dense = match (&self.dense, rows) {
            (Some(dense), Some(rows)) => {
                let (mut parts, mut passages) = (dense.matrix.parts.clone(), dense.passages.clone());
                if n_new > 0 {
                    parts.push(rows.into_matrix().into());
                    if !passages.is_empty() {
                        passages.push(PassageVectors::missing(n_new).into());
                    }
                }
                let matrix = UnitVectors { parts, numbering };
                Some(Dense { embedder: Arc::clone(&dense.embedder), matrix, passages })
            }
            _ => None,
        };
        let mut trees: Vec<Tree> =
            self.trees.iter().zip(ranges).map(|(tree, files)| Tree { files, ..tree.clone() }).collect();
        for Unsaved { tree, file, content, .. } in unsaved {
            trees[tree].unsaved.insert(file.path, Arc::new(content.text));
        }
        Ok(Some(Self { intact: self.intact.clone(), ..Self::from_parts(trees, table, lexical, dense, None) }))
    }

    /// The file that a text belongs to, if it differs from what is indexed there.
    fn unsaved(&self, path: &Path, text: &str) -> Option<Unsaved> {
        // The innermost tree that has the file; else the innermost one around it.
        let mut around: Vec<(usize, String)> = (0..self.trees.len())
            .filter_map(|number| Some((number, relative(path, &self.trees[number].base)?)))
            .collect();
        around.sort_by_key(|(_, path)| path.len());
        let row_of = |(number, path): &(usize, String)| {
            let files = self.trees[*number].files.clone();
            let found =
                self.table.files[files.clone()].binary_search_by(|file| self.table.text(file.path).cmp(path));
            Some(files.start + found.ok()?)
        };
        let known = around.iter().find_map(|place| Some((place, Some(row_of(place)?))));
        let is_searched = |(number, path): &&(usize, String)| {
            self.trees[*number].roots.iter().any(|root| root.scope.relative(path).is_some())
        };
        // A file on disk that is not indexed is usually ignored or hidden.
        let new = || around.iter().find(is_searched).filter(|_| !path.exists()).map(|place| (place, None));
        let ((tree, relative), row) = known.or_else(new)?;
        let options = self.trees[*tree].roots.iter().map(|root| root.found).reduce(|a, b| a.union(&b))?;
        if row.is_none() {
            walk::max_bytes_of_member(relative, &options)?;
        }
        let (language, content) =
            walk::read_member(relative, text.as_bytes().to_vec(), &options.for_named_file()).ok()?;
        let record = row.map(|row| &self.table.files[row]);
        if record.is_some_and(|record| record.hash == content_hash(&content.text)) {
            return None;
        }
        let flags =
            record.map_or(FileFlags::empty(), |record| record.flags().intersection(FileFlags::LEFT_OUT));
        let stamp = Stamp { bytes: text.len() as u64, modified_ns: 0, changed_ns: 0, inode: 0 };
        let content = Content { flags: content.flags | flags, ..content };
        let file = ListedFile { path: relative.clone(), stamp, language, flags };
        Some(Unsaved { tree: *tree, row, file, content })
    }

    /// The vectors of the units of unsaved files: those of the index for units that have not changed, others of the model.
    fn vectors_of(&self, new: &Table, unsaved: &[Unsaved]) -> Result<Option<Rows>, Error> {
        let Some(dense) = &self.dense else { return Ok(None) };
        let mut rows = Rows::missing(dense.embedder.dimension(), new.units.len());
        let mut texts: Vec<(usize, String)> = Vec::new();
        for (units, Unsaved { row, content, file, .. }) in new.units_of_files().into_iter().zip(unsaved) {
            let old = row.map_or(0..0, |row| self.units_of_files[row].clone());
            let known: HashMap<u128, usize> =
                old.map(|unit| (self.table.hash(&self.table.units[unit]), unit)).collect();
            for unit in units {
                let record = &new.units[unit];
                let place = known.get(&new.hash(record)).map(|unit| self.table.units[*unit].part_and_row());
                let vector = place.map(|place| dense.matrix.quantized(place)).transpose()?.flatten();
                match vector {
                    Some((factor, values)) => rows.set_quantized(record.row(), (factor, &values)),
                    None => {
                        let bytes = record.start_byte as usize..record.end_byte as usize;
                        let source = content.text.bytes().get(bytes).unwrap_or_default();
                        let source = String::from_utf8_lossy(source);
                        let text = embedding_text(&file.path, new.text(record.name), &source);
                        texts.push((record.row(), text));
                    }
                }
            }
        }
        if !texts.is_empty() {
            let borrowed: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let made = dense.embedder.embed_documents(&borrowed)?;
            texts.iter().zip(made.rows()).for_each(|((row, _), vector)| rows.set(*row, vector));
        }
        Ok(Some(rows))
    }
}

/// The path of a file in a tree, `/` between its parts.
fn relative(path: &Path, base: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.strip_prefix(base).ok()?.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/")).filter(|path| !path.is_empty())
}
