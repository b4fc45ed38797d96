//! Brings an index to an engine, and removes it.

use std::collections::{BTreeMap, HashSet};

use quarry_index::Index;

use crate::layout::{
    self, FileEntry, Head, TermList, TreeState, file_key, file_lists, hashed, head_key, is_name, pieces,
    rows, term_lists, tree_of_head, writer_key,
};
use crate::{Engine, EngineError, Record, Space};

/// Units that are written at once, about.
const UNITS_AT_ONCE: usize = 500;
/// Bytes of records that are written at once, about.
const BYTES_AT_ONCE: usize = 8 << 20;
/// Keys that are asked for or removed at once.
const KEYS_AT_ONCE: usize = 500;

/// Ends the note of a writer that removes what no head names.
const SWEEPS: &str = " sweeps";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Stored files, of those that were not stored before.
    Stored { done: usize, total: usize },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uploaded {
    pub files: usize,
    pub units: usize,
    /// Files that were stored now.
    pub stored_files: usize,
    pub stored_units: usize,
    /// Files of an interrupted upload that were taken over.
    pub resumed_files: usize,
    /// Files of the tree that were removed.
    pub removed_files: usize,
}

/// Stores what an index finds as the tree `name`; `root` says where it was indexed. What is stored already stays.
///
/// # Errors
/// When the engine fails, the name is taken, or somebody else writes the tree; readers then see it as it was before.
/// When a file has changed since it was indexed.
pub fn upload(
    engine: &dyn Engine,
    (name, root): (&str, &str),
    index: &Index,
    events: &mut dyn FnMut(Event),
) -> Result<Uploaded, EngineError> {
    if !is_name(name) {
        return Err(EngineError::Name { tree: name.to_owned() });
    }
    let (model, dimension) = index.model().unwrap_or_default();
    engine.prepare(dimension)?;
    let mut before = None;
    for record in engine.all(Space::Trees)? {
        let Some(tree) = tree_of_head(&record.key) else { continue };
        let head = Head::read(&record)?;
        // One that was replaced just now is seen by whoever replaces it.
        let Some(state) = layout::state(engine, &head)? else { continue };
        if tree == name && state.root != root {
            return Err(EngineError::Taken { tree: name.to_owned(), root: state.root });
        }
        if tree != name && state.model != model {
            let (tree, expected) = (tree.to_owned(), model.to_owned());
            return Err(EngineError::Model { tree, found: state.model, expected });
        }
        if tree == name {
            before = Some((head, state));
        }
    }
    let tree = Tree { engine, name };
    let keys = index.file_keys();
    let entry =
        |file: &quarry_index::FileKey| FileEntry { path: file.path.clone(), key: file_key(name, file.key) };
    let files: Vec<FileEntry> = keys.iter().map(entry).collect();
    let known = match &before {
        Some((_, state)) => layout::files(engine, state)?.unwrap_or_default(),
        None => Vec::new(),
    };
    let interrupted = engine.get(Space::Trees, &[writer_key(name)])?.pop();
    let was_interrupted = interrupted.is_some();
    let mut uploaded = Uploaded { files: files.len(), ..Uploaded::default() };
    let is_same = before.as_ref().is_some_and(|(_, state)| state.model == model) && known == files;
    if is_same && !was_interrupted {
        uploaded.units = before.map_or(0, |(_, state)| state.totals.units as usize);
        return Ok(uploaded);
    }
    let writer = tree.begin()?;
    if interrupted.is_some_and(|note| note.value.ends_with(SWEEPS)) {
        // Of what was being removed, parts may be gone already.
        let named = before.iter().flat_map(|(head, state)| state.lists(head));
        tree.sweep(&known.iter().map(|file| &file.key).chain(named).collect(), &writer)?;
    }
    let named: HashSet<&String> = known.iter().map(|file| &file.key).collect();
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    for (file, of_index) in files.iter().zip(&keys).filter(|(file, _)| !named.contains(&file.key)) {
        missing.insert(file.key.clone(), of_index.row);
    }
    if was_interrupted {
        let asked: Vec<String> = missing.keys().cloned().collect();
        for keys in asked.chunks(KEYS_AT_ONCE) {
            for record in engine.get(Space::Records, keys)? {
                uploaded.resumed_files += usize::from(missing.remove(&record.key).is_some());
            }
        }
    }
    tree.store(index, &missing, dimension, &writer, &mut uploaded, events)?;
    let (totals, counts) = index.totals()?;
    uploaded.units = totals.units as usize;
    let counts: TermList = counts.into_iter().map(|(term, count)| (term, count.units, count.files)).collect();
    let mut lists = Lists { tree: name, records: Vec::new() };
    let state = TreeState {
        root: root.to_owned(),
        model: model.to_owned(),
        totals,
        files: file_lists(&files).into_iter().map(|list| lists.add(&list)).collect(),
        terms: term_lists(&counts).into_iter().map(|list| (list[0].0.clone(), lists.add(&list))).collect(),
    };
    let head = Head::new(lists.add(&state));
    let old_lists: HashSet<&String> = before.iter().flat_map(|(head, state)| state.lists(head)).collect();
    lists.records.retain(|records| records.last().is_some_and(|first| !old_lists.contains(&first.key)));
    tree.put(lists.records.concat())?;
    writer.check()?;
    engine.put(Space::Trees, &[head.record(name)])?;
    // From here on readers see the new tree.
    let stays: HashSet<&String> = files.iter().map(|file| &file.key).chain(state.lists(&head)).collect();
    let gone: Vec<&String> = known.iter().map(|file| &file.key).filter(|key| !stays.contains(key)).collect();
    uploaded.removed_files = gone.len();
    writer.renew(SWEEPS)?;
    tree.sweep(&stays, &writer)?;
    writer.end()?;
    Ok(uploaded)
}

/// Removes a tree.
///
/// # Errors
/// When there is none, the engine fails, or somebody else writes the tree.
pub fn remove(engine: &dyn Engine, name: &str) -> Result<(), EngineError> {
    let heads = engine.all(Space::Trees)?;
    if !heads.iter().any(|record| record.tree == name) {
        let known: Vec<&str> = heads.iter().filter_map(|record| tree_of_head(&record.key)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(EngineError::NoTree { tree: name.to_owned(), known });
    }
    let tree = Tree { engine, name };
    let writer = tree.begin()?;
    engine.delete(Space::Trees, &[head_key(name)])?;
    writer.renew(SWEEPS)?;
    tree.sweep(&HashSet::new(), &writer)?;
    writer.end()
}

impl TreeState {
    /// Keys of its head's state and of all lists.
    fn lists<'a>(&'a self, head: &'a Head) -> impl Iterator<Item = &'a String> {
        let terms = self.terms.iter().map(|(_, key)| key);
        std::iter::once(&head.state).chain(&self.files).chain(terms)
    }
}

/// Records that are made before they are written.
struct Lists<'a> {
    tree: &'a str,
    records: Vec<Vec<Record>>,
}

impl Lists<'_> {
    fn add(&mut self, value: &impl serde::Serialize) -> String {
        let (key, text) = hashed(self.tree, value);
        self.records.push(pieces(self.tree, &key, &text));
        key
    }
}

#[derive(Clone, Copy)]
struct Tree<'a> {
    engine: &'a dyn Engine,
    name: &'a str,
}

/// The writer of a tree: whoever began last.
struct Writer<'a> {
    tree: Tree<'a>,
    token: String,
}

impl<'a> Tree<'a> {
    /// Takes over the tree from its current writer.
    fn begin(self) -> Result<Writer<'a>, EngineError> {
        let mut token = [0; 16];
        // Without randomness, the time must do.
        if getrandom::fill(&mut token).is_err() {
            let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
            token = now.to_le_bytes();
        }
        let writer = Writer { tree: self, token: format!("{:032x}", u128::from_le_bytes(token)) };
        writer.write("")?;
        Ok(writer)
    }

    /// Stores files, by their keys and rows in the index.
    fn store(
        self,
        index: &Index,
        missing: &BTreeMap<String, usize>,
        dimension: usize,
        writer: &Writer,
        uploaded: &mut Uploaded,
        events: &mut dyn FnMut(Event),
    ) -> Result<(), EngineError> {
        let keys: BTreeMap<usize, &String> = missing.iter().map(|(key, row)| (*row, key)).collect();
        let wanted: Vec<usize> = keys.keys().copied().collect();
        let total = wanted.len();
        let (mut units, mut records, mut bytes, mut n_files) = (Vec::new(), Vec::new(), 0, 0);
        let write = |units: &mut Vec<_>, records: &mut Vec<_>| -> Result<(), EngineError> {
            writer.check()?;
            for units in units.chunks(UNITS_AT_ONCE) {
                self.engine.put_units(units)?;
            }
            // A file counts as stored when its record is there, which is written after all else.
            self.put(std::mem::take(records))?;
            units.clear();
            Ok(())
        };
        let mut done = 0;
        index.export(&wanted, |row, file| {
            let Some(key) = keys.get(&row) else { return Ok(()) };
            let text = serde_json::to_vec(&file).unwrap_or_default();
            let of_file = pieces(self.name, key, &text);
            bytes += of_file.iter().map(|record| record.value.len()).sum::<usize>();
            records.extend(of_file);
            units.extend(rows(self.name, key, &file, dimension));
            uploaded.stored_units += file.units.len();
            n_files += 1;
            if units.len() >= UNITS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                write(&mut units, &mut records)?;
                done += n_files;
                (bytes, n_files) = (0, 0);
                events(Event::Stored { done, total });
            }
            Ok::<(), EngineError>(())
        })?;
        write(&mut units, &mut records)?;
        uploaded.stored_files = done + n_files;
        Ok(())
    }

    /// Writes records within the limits of a request.
    fn put(self, records: Vec<Record>) -> Result<(), EngineError> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for record in records {
            bytes += record.value.len();
            batch.push(record);
            if bytes >= BYTES_AT_ONCE {
                self.engine.put(Space::Records, &std::mem::take(&mut batch))?;
                bytes = 0;
            }
        }
        if batch.is_empty() { Ok(()) } else { self.engine.put(Space::Records, &batch) }
    }

    /// Removes all records of the tree but those with these keys and their pieces, and the units of the files among them.
    fn sweep(self, stays: &HashSet<&String>, writer: &Writer) -> Result<(), EngineError> {
        let whole = |key: &str| key.split('/').next().unwrap_or_default().to_owned();
        let mut gone = self.engine.keys(Space::Records, self.name)?;
        gone.retain(|key| !stays.contains(&whole(key)));
        let texts: HashSet<String> = gone.iter().map(|key| whole(key)).collect();
        let texts: Vec<String> = texts.into_iter().collect();
        // Units first: while the record of a file is there, whoever goes on with this finds the file.
        for files in texts.chunks(KEYS_AT_ONCE) {
            writer.check()?;
            self.engine.delete_units(files)?;
        }
        for keys in gone.chunks(KEYS_AT_ONCE) {
            self.engine.delete(Space::Records, keys)?;
        }
        Ok(())
    }
}

impl Writer<'_> {
    fn check(&self) -> Result<(), EngineError> {
        let found = self.tree.engine.get(Space::Trees, &[writer_key(self.tree.name)])?;
        if found.first().is_some_and(|record| record.value.starts_with(&self.token)) {
            return Ok(());
        }
        Err(EngineError::Conflict { tree: self.tree.name.to_owned() })
    }

    /// Renews the note, if this is still the writer.
    fn renew(&self, doing: &str) -> Result<(), EngineError> {
        self.check()?;
        self.write(doing)
    }

    fn write(&self, doing: &str) -> Result<(), EngineError> {
        let Tree { engine, name } = self.tree;
        let value = format!("{}{doing}", self.token);
        engine.put(Space::Trees, &[Record { key: writer_key(name), tree: name.to_owned(), value }])
    }

    fn end(self) -> Result<(), EngineError> {
        self.check()?;
        self.tree.engine.delete(Space::Trees, &[writer_key(self.tree.name)])
    }
}
