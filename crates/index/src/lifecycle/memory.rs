//! An index in memory, for cases in which none can be written.

use std::sync::Arc;

use quarry_embed::Embedder;
use quarry_walk::{self as walk, ListedFile, Skipped};

use crate::index::{Dense, Origin};
use crate::lexical::{LexicalIndex, Part};
use crate::lifecycle::build::{NewPart, batches, empty_tree_error, make_parts};
use crate::lifecycle::changes::compare;
use crate::lifecycle::complete;
use crate::lifecycle::source_tree::{Tree, left_out};
use crate::storage::index_directory::Manifest;
use crate::storage::table::{Table, TableSize};
use crate::vectors::{Rows, UnitVectors};
use crate::{Error, Event, Index};

/// The result of a build in memory.
pub(crate) struct InMemory {
    pub table: Table,
    pub lexical: LexicalIndex,
    pub dense: Option<Dense>,
    pub origin: Origin,
    /// Files of the tree that were skipped, ascending by path.
    pub skipped: Vec<Skipped>,
    /// Number of units that were embedded.
    pub n_embedded: usize,
}

/// Indexes a tree.
///
/// # Errors
/// When no file has a unit, the tree is too large, or the model fails.
pub(crate) fn build(
    tree: &Tree,
    embedder: Option<Arc<dyn Embedder>>,
    events: &(dyn Fn(Event) + Sync),
) -> Result<InMemory, Error> {
    let files: Vec<&ListedFile> = tree.listing.files.iter().collect();
    let keep =
        |_, NewPart { records, texts, skipped }| Ok((records, Part::in_memory(texts)?.into(), skipped));
    let made = make_parts((tree.base, tree.walk), &batches(&files, tree.walk), 0, &keep, events)?;
    let (mut records, mut parts, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for (of_part, part, not_read) in made {
        records.push(of_part);
        parts.push(part);
        skipped.extend(not_read);
    }
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    let left_out = left_out(tree.listing, &skipped);
    let table = Table::in_memory(records)?;
    if table.units.is_empty() {
        return Err(empty_tree_error(tree.root, tree.walk, &tree.listing.files, &left_out));
    }
    let numbering = Arc::new(table.numbering());
    let lexical = LexicalIndex::from_parts(parts, &numbering, &table.field_sizes());
    let mut n_embedded = 0;
    let dense = match embedder {
        Some(embedder) => {
            let missing = |units: usize| Rows::missing(embedder.dimension(), units).into_matrix().into();
            let parts = numbering.parts.iter().map(|units| missing(units.len())).collect();
            let mut matrix = UnitVectors { parts, numbering };
            let keep = |_, rows: Rows| Ok(rows.into_matrix().into());
            n_embedded = complete::embed(tree.base, &table, &mut matrix, embedder.as_ref(), keep, events)?;
            Some(Dense { embedder, matrix, passages: Vec::new() })
        }
        None => None,
    };
    let manifest = Manifest {
        models: dense.iter().map(|dense| dense.embedder.id().to_owned()).collect(),
        size: TableSize { files: table.files.len(), units: table.units.len() },
        skipped,
        ..tree.manifest()
    };
    let origin = Origin { root: tree.root.to_owned(), manifest };
    Ok(InMemory { table, lexical, dense, origin, skipped: left_out, n_embedded })
}

impl Index {
    /// Returns true if this is an index in memory that still matches its tree; false for one on disk, which
    /// [`open_or_build`](Self::open_or_build) checks.
    pub fn is_current_in_memory(&self) -> bool {
        let Some(Origin { root, manifest }) = &self.in_memory else { return false };
        let Ok(base) = walk::base_directory(root).and_then(walk::open) else { return false };
        let Ok(listing) = walk::list(root, &manifest.walk) else { return false };
        compare(&self.table, manifest, &base, &listing, &manifest.walk).changes.total() == 0
    }
}
