//! Answers searches from the trees in an engine.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;

use quarry_embed::Embedder;
use quarry_index::lexical::{TermCount, TermCounts, inverse_document_frequency};
use quarry_index::{Filter, Index, PortableFile, PortableTree, Totals};
use quarry_text::query_terms;

use crate::cache::Cache;
use crate::layout::{self, FileEntry, Head, TermList, TreeState, parsed, sparse, tree_of_head};
use crate::{Engine, EngineError, Narrowing, Space};

/// Number of tries of a search while a tree is replaced.
const MAX_TRIES: usize = 4;
/// Maximum number of units that define a symbol of a query.
const MAX_DEFINITIONS: usize = 200;
/// Number of units with the words of a query, regardless of filters.
const BEST: usize = 50;
/// Factor for the number of candidates if a filter depends on data that the engine does not have.
const FILTERED: usize = 4;
/// Maximum number of candidates that are requested.
const MAX_CANDIDATES: usize = 2000;
/// Number of files whose records are requested at once.
const FILES_AT_ONCE: usize = 64;
/// Memory of a file relative to the size of its record.
const UNPACKED: usize = 8;

#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// Number of candidates by vectors, and as many by words.
    pub candidates: usize,
    /// Approximate memory for files that were read, in bytes.
    pub max_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { candidates: 200, max_bytes: 1 << 30 }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Search<'a> {
    /// Units that answer a query.
    Query(&'a str),
    /// Units similar to the one at a line of a file of a tree, given by its number.
    Like(usize, &'a str, u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedTree {
    pub name: String,
    /// The directory in which it was indexed, on any machine.
    pub root: PathBuf,
}

/// Searches the trees that an engine contained when the reader was opened, in their current state.
pub struct Reader {
    engine: Arc<dyn Engine>,
    embedder: Arc<dyn Embedder>,
    options: ReadOptions,
    trees: Vec<ServedTree>,
    /// True once `trees` is known.
    is_open: bool,
    snapshot: RwLock<Arc<Snapshot>>,
    files: Cache<PortableFile>,
    terms: Arc<Cache<HashMap<String, TermCount>>>,
}

/// All trees at one point in time.
struct Snapshot {
    /// The heads that were found; each names the state of its tree.
    heads: BTreeMap<String, Head>,
    /// By number; `None` for a removed tree.
    trees: Vec<Option<Arc<TreeSnapshot>>>,
    totals: Totals,
}

/// A tree at one point in time.
struct TreeSnapshot {
    head: Head,
    state: TreeState,
    /// In the order of paths.
    files: Vec<FileEntry>,
    /// The position of each file, by its key.
    by_key: HashMap<String, usize>,
}

/// The term counts of a snapshot that were needed so far.
struct CountedTerms {
    engine: Arc<dyn Engine>,
    snapshot: Arc<Snapshot>,
    lists: Arc<Cache<HashMap<String, TermCount>>>,
    /// Term counts that this search requested.
    known: Mutex<HashMap<String, TermCount>>,
}

/// Files, by the number of their tree and their position there.
type Positions = BTreeSet<(usize, usize)>;

impl Reader {
    /// Opens the trees that an engine has.
    ///
    /// # Errors
    /// When it cannot be read, or has trees of another model than `embedder`.
    pub fn open(
        engine: Arc<dyn Engine>,
        embedder: Arc<dyn Embedder>,
        options: ReadOptions,
    ) -> Result<Self, EngineError> {
        let mut reader = Self {
            engine,
            embedder,
            trees: Vec::new(),
            is_open: false,
            snapshot: RwLock::new(Arc::new(Snapshot {
                heads: BTreeMap::new(),
                trees: Vec::new(),
                totals: Totals::default(),
            })),
            files: Cache::new(options.max_bytes),
            terms: Arc::new(Cache::new(options.max_bytes / 4)),
            options,
        };
        reader.engine.prepare(reader.embedder.dimension())?;
        for _ in 0..MAX_TRIES {
            let mut trees = Vec::new();
            let heads = reader.heads()?;
            for (name, head) in &heads {
                let Some(state) = layout::state(&*reader.engine, head)? else { continue };
                trees.push(ServedTree { name: name.clone(), root: PathBuf::from(state.root) });
            }
            if trees.len() == heads.len() {
                (reader.trees, reader.is_open) = (trees, true);
                reader.refresh()?;
                return Ok(reader);
            }
        }
        Err(EngineError::Replaced)
    }

    pub fn trees(&self) -> &[ServedTree] {
        &self.trees
    }

    /// Numbers of files and units of all trees, as last seen.
    pub fn totals(&self) -> Totals {
        self.snapshot().totals
    }

    /// An index of the files that contain candidates, which answers a search as an index of all trees would.
    ///
    /// # Errors
    /// When the engine or the model fails.
    pub fn search(&self, search: Search, filter: &Filter, limit: usize) -> Result<Index, EngineError> {
        self.consistently(|snapshot| match search {
            Search::Query(query) => self.answering(snapshot, query, filter, limit),
            Search::Like(tree, path, line) => self.similar(snapshot, (tree, path, line), filter, limit),
        })
    }

    /// An index of one file, or of none if there is no such file.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn file(&self, tree: usize, path: &str) -> Result<Index, EngineError> {
        self.consistently(|snapshot| {
            let files = snapshot.file(tree, path).into_iter().collect();
            self.index(snapshot, &files, self.counts(snapshot), &HashSet::new())
        })
    }

    /// An index without files that knows the trees.
    ///
    /// # Errors
    /// Currently none.
    pub fn empty(&self) -> Result<Index, EngineError> {
        let snapshot = self.snapshot();
        self.index(&snapshot, &Positions::new(), self.counts(&snapshot), &HashSet::new())
    }

    /// Runs an action on a snapshot of the trees, and again if a tree was replaced meanwhile, since its data may be
    /// partly removed.
    fn consistently<T>(
        &self,
        read: impl Fn(&Arc<Snapshot>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        for _ in 0..MAX_TRIES {
            let snapshot = self.snapshot();
            let found = read(&snapshot);
            if matches!(found, Err(EngineError::Unavailable { .. })) {
                return found;
            }
            // Data of a snapshot are removed only after a head was replaced, so with unchanged heads, none were
            // missing.
            if self.heads()? == snapshot.heads {
                return found;
            }
            self.refresh()?;
        }
        Err(EngineError::Replaced)
    }

    fn answering(
        &self,
        snapshot: &Arc<Snapshot>,
        query: &str,
        filter: &Filter,
        limit: usize,
    ) -> Result<Index, EngineError> {
        let within = self.narrowing(filter);
        let counts = self.counts(snapshot);
        let (mut files, mut terms) = (Positions::new(), HashSet::new());
        let mut text = query.to_owned();
        loop {
            let of_text = query_terms(&text);
            if of_text.is_empty() {
                return Err(quarry_index::Error::EmptyQuery.into());
            }
            for term in &of_text {
                counts.count(term)?;
            }
            files.extend(self.candidates(snapshot, &text, &counts, &within, self.depth(filter, limit))?);
            terms.extend(of_text);
            let index = self.index(snapshot, &files, Arc::clone(&counts), &terms)?;
            let written = index.as_written(query, filter)?;
            if written == text || text != query {
                return Ok(index);
            }
            // Retries with the symbols spelled as in the code.
            text = written;
        }
    }

    fn similar(
        &self,
        snapshot: &Arc<Snapshot>,
        (tree, path, line): (usize, &str, u32),
        filter: &Filter,
        limit: usize,
    ) -> Result<Index, EngineError> {
        let counts = self.counts(snapshot);
        let mut files: Positions = snapshot.file(tree, path).into_iter().collect();
        let index = self.index(snapshot, &files, Arc::clone(&counts), &HashSet::new())?;
        let Some(given) = index.unit_at_in(tree, path, line) else { return Ok(index) };
        let vector = index.vector(given.unit)?;
        let found = self.engine.nearest(&vector, self.depth(filter, limit), &self.narrowing(filter))?;
        files.extend(found.iter().filter_map(|key| snapshot.position(key)));
        self.index(snapshot, &files, counts, &HashSet::new())
    }

    /// The files of candidates for a text.
    fn candidates(
        &self,
        snapshot: &Snapshot,
        text: &str,
        counts: &CountedTerms,
        within: &Narrowing,
        depth: usize,
    ) -> Result<Positions, EngineError> {
        let vectors = self.embedder.embed_queries(&[text]).map_err(quarry_index::Error::from)?;
        let mut weights: BTreeMap<String, f32> = BTreeMap::new();
        for term in query_terms(text) {
            let weight = inverse_document_frequency(snapshot.totals.units, counts.count(&term)?.units);
            *weights.entry(term).or_default() += weight;
        }
        let weights = sparse(weights.iter().map(|(term, weight)| (term.as_str(), *weight)));
        let symbols = Index::symbols_of(text);
        let engine = &*self.engine;
        // The engine may answer both concurrently.
        let found = thread::scope(|scope| {
            let by_terms = scope.spawn(|| engine.with_terms(&weights, depth, within));
            // Files are scored relative to the best one, whether or not it passes.
            let best = scope.spawn(|| match *within == Narrowing::default() {
                true => Ok(Vec::new()),
                false => engine.with_terms(&weights, BEST, &Narrowing::default()),
            });
            let defining = scope.spawn(|| match symbols.is_empty() {
                true => Ok(Vec::new()),
                false => engine.defining(&symbols, MAX_DEFINITIONS, within),
            });
            let failed = |_| EngineError::Replaced;
            let nearest = engine.nearest(&vectors.values, depth, within)?;
            let by_terms = by_terms.join().map_err(failed)??;
            let best = best.join().map_err(failed)??;
            Ok::<_, EngineError>([nearest, by_terms, best, defining.join().map_err(failed)??])
        })?;
        Ok(found.iter().flatten().filter_map(|key| snapshot.position(key)).collect())
    }

    /// An index of some files of a snapshot, which are read if they are not cached.
    fn index(
        &self,
        snapshot: &Snapshot,
        wanted: &Positions,
        counts: Arc<CountedTerms>,
        terms: &HashSet<String>,
    ) -> Result<Index, EngineError> {
        let mut found: BTreeMap<(usize, usize), Arc<PortableFile>> = BTreeMap::new();
        let mut missing: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for &(tree, at) in wanted {
            let Some(key) = snapshot.trees[tree].as_ref().map(|tree| &tree.files[at].key) else { continue };
            match self.files.get(key) {
                Some(file) => drop(found.insert((tree, at), file)),
                None => drop(missing.insert(key.clone(), (tree, at))),
            }
        }
        let keys: Vec<String> = missing.keys().cloned().collect();
        for keys in keys.chunks(FILES_AT_ONCE) {
            let mut read = layout::read(&*self.engine, keys)?;
            for key in keys {
                let (text, bytes) = read.remove(key).ok_or_else(|| gone(key))?;
                let file: Arc<PortableFile> = Arc::new(parsed(key, &text)?);
                self.files.put(key.clone(), Arc::clone(&file), bytes * UNPACKED);
                found.insert(missing[key], file);
            }
        }
        let mut trees: Vec<PortableTree> = self
            .trees
            .iter()
            .enumerate()
            .map(|(number, tree)| PortableTree { number, root: tree.root.clone(), files: Vec::new() })
            .collect();
        for ((tree, _), file) in found {
            trees[tree].files.push(file);
        }
        let embedder = Arc::clone(&self.embedder);
        Ok(Index::from_portable(trees, &snapshot.totals, counts, embedder, terms)?)
    }

    /// Number of candidates to request.
    fn depth(&self, filter: &Filter, limit: usize) -> usize {
        let depth = self.options.candidates.max(2 * limit);
        if filter.has_others() { FILTERED * depth } else { depth }.min(MAX_CANDIDATES)
    }

    /// The part of a filter that the engine can apply.
    fn narrowing(&self, filter: &Filter) -> Narrowing {
        let languages = filter.languages();
        let shared = languages.iter().flat_map(|language| language.shared_extensions());
        // Cells of a notebook have languages of their own.
        let notebooks = languages.iter().filter(|language| language.is_notebook());
        let notebooks = notebooks.flat_map(|language| language.extensions());
        Narrowing {
            trees: filter
                .roots()
                .iter()
                .filter_map(|number| Some(self.trees.get(*number)?.name.clone()))
                .collect(),
            languages: languages.iter().map(|language| language.name().to_owned()).collect(),
            extensions: shared.chain(notebooks).map(|extension| format!(".{extension}")).collect(),
            kinds: filter.kinds().iter().map(|kind| layout::kind_text(*kind)).collect(),
            directory: filter.directory().to_owned(),
        }
    }

    fn counts(&self, snapshot: &Arc<Snapshot>) -> Arc<CountedTerms> {
        Arc::new(CountedTerms {
            engine: Arc::clone(&self.engine),
            snapshot: Arc::clone(snapshot),
            lists: Arc::clone(&self.terms),
            known: Mutex::default(),
        })
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The heads of the served trees, by name; of all trees before the served ones are known.
    fn heads(&self) -> Result<BTreeMap<String, Head>, EngineError> {
        let is_served = |name: &str| !self.is_open || self.trees.iter().any(|tree| tree.name == name);
        let mut heads = BTreeMap::new();
        for record in self.engine.all(Space::Trees)? {
            if let Some(name) = tree_of_head(&record.key).filter(|name| is_served(name)) {
                heads.insert(name.to_owned(), Head::read(&record)?);
            }
        }
        Ok(heads)
    }

    /// Updates the snapshot to the current trees.
    fn refresh(&self) -> Result<(), EngineError> {
        for _ in 0..MAX_TRIES {
            let (before, heads) = (self.snapshot(), self.heads()?);
            let mut trees = Vec::new();
            let mut totals = Totals::default();
            for (number, served) in self.trees.iter().enumerate() {
                let known = before.trees.get(number).cloned().flatten();
                let tree = match heads.get(&served.name) {
                    Some(head) if known.as_ref().is_some_and(|known| known.head == *head) => known,
                    Some(head) => self.tree(&served.name, head)?.map(Arc::new),
                    None => None,
                };
                totals.add(&tree.as_ref().map(|tree| tree.state.totals).unwrap_or_default());
                trees.push(tree);
            }
            if trees.iter().flatten().count() == heads.len() {
                let snapshot = Arc::new(Snapshot { heads, trees, totals });
                *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
                return Ok(());
            }
        }
        Err(EngineError::Replaced)
    }

    /// A tree by its head; `None` if parts of it are gone because the head was replaced.
    fn tree(&self, name: &str, head: &Head) -> Result<Option<TreeSnapshot>, EngineError> {
        let Some(state) = layout::state(&*self.engine, head)? else { return Ok(None) };
        if state.model != self.embedder.id() {
            let (tree, expected) = (name.to_owned(), self.embedder.id().to_owned());
            return Err(EngineError::Model { tree, found: state.model, expected });
        }
        let Some(files) = layout::files(&*self.engine, &state)? else { return Ok(None) };
        let by_key = files.iter().enumerate().map(|(at, file)| (file.key.clone(), at)).collect();
        Ok(Some(TreeSnapshot { head: head.clone(), state, files, by_key }))
    }
}

impl Snapshot {
    fn file(&self, tree: usize, path: &str) -> Option<(usize, usize)> {
        let files = &self.trees.get(tree)?.as_ref()?.files;
        Some((tree, files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?))
    }

    /// The position of the file of a unit, if a tree currently contains it.
    fn position(&self, unit: &str) -> Option<(usize, usize)> {
        let file = unit.split('/').next()?;
        let mut trees = self.trees.iter().enumerate();
        trees.find_map(|(number, tree)| Some((number, *tree.as_ref()?.by_key.get(file)?)))
    }
}

impl TermCounts for CountedTerms {
    fn count(&self, term: &str) -> Result<TermCount, quarry_index::Error> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known().get(term) {
            return Ok(*count);
        }
        let mut sum = TermCount::default();
        for tree in self.snapshot.trees.iter().flatten() {
            let lists = &tree.state.terms;
            let at = lists.partition_point(|(first, _)| first.as_str() <= term);
            let Some((_, key)) = at.checked_sub(1).and_then(|at| lists.get(at)) else { continue };
            let list = match self.lists.get(key) {
                Some(list) => list,
                None => {
                    let mut read = layout::read(&*self.engine, std::slice::from_ref(key))?;
                    let (text, _) = read.remove(key).ok_or_else(|| gone(key))?;
                    let bytes = text.len() * UNPACKED;
                    let list: TermList = parsed(key, &text)?;
                    let counted = |(term, units, files)| (term, TermCount { units, files });
                    let list: Arc<HashMap<_, _>> = Arc::new(list.into_iter().map(counted).collect());
                    self.lists.put(key.clone(), Arc::clone(&list), bytes);
                    list
                }
            };
            let count = list.get(term).copied().unwrap_or_default();
            sum.units += count.units;
            sum.files += count.files;
        }
        known().insert(term.to_owned(), sum);
        Ok(sum)
    }
}

/// The error for missing data that a tree refers to.
fn gone(key: &str) -> EngineError {
    EngineError::Damaged { key: key.to_owned(), problem: "it is not there".to_owned() }
}
