//! A source tree that answers calls.

mod status;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use quarry_answer::context::{self, ContextRequest};
use quarry_answer::text::position;
use quarry_answer::{Found, SearchQuestion, UnitsRequest, count_tokens, outline};
use quarry_embed::Embedder;
use quarry_index::{Error, Event, Filter, Hit, Index, OpenOptions, Opened, RankingWeights};
use quarry_source::UnitKind;
use quarry_walk::{self as walk, Listing};
use serde_json::Value;

use crate::ToolError;
use crate::arguments::{Calls, Context as ContextCall, Detail, Outline, Part, ReadUnit, Search, Similar};
use crate::calls::{callees_text, callers_text};
use crate::reading::{UnitSelector, read_unit};
use crate::results::{FoundUnit, list};
use crate::tools::Call;
use crate::tree_path::TreePath;

/// Results that are named where none clearly answers.
const NEAREST: usize = 3;

/// A source tree, its index, and the model that it is searched with.
///
/// It holds nothing open between calls: each compares the tree with the index and refreshes that where files have changed,
/// which costs little where none has, and sees what other processes have indexed. Calls that wait for their turn share
/// what one of them has opened meanwhile. Only an index that can be written
/// nowhere is held in memory, and made again when files have changed.
pub struct Workspace {
    root: PathBuf,
    options: OpenOptions,
    embedder: Arc<dyn Embedder>,
    ranking: RankingWeights,
    observer: Option<Box<Observer>>,
    last_search: Mutex<Option<Searched>>,
    opened: Option<Box<OpenedObserver>>,
    in_memory: Mutex<Option<InMemory>>,
    shared: Mutex<Option<Shared>>,
}

/// Is told of each index that was opened.
type OpenedObserver = dyn Fn(&Opened) + Send + Sync;

/// An index that a call has open.
struct Shared {
    index: Weak<Index>,
    /// When it was begun to compare the tree with it.
    since: Instant,
}

/// An index that cannot be written.
struct InMemory {
    index: Arc<Index>,
    /// Why it could not be saved.
    reason: String,
}

/// Is told of searches and of what is read of their results.
type Observer = dyn Fn(&Searched, &dyn Fn() -> Tokens) + Send + Sync;

/// What an answer cost, and what it stood for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Of the answer.
    pub given: usize,
    /// Of the whole file, where a result was read, or of the files of all results that were shown in full.
    pub of_file: Option<usize>,
}

/// A search that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// What was searched for.
    pub query: String,
    /// The results, best first.
    pub results: Vec<SearchedUnit>,
    /// The rank, from 1, of the result that was read afterwards.
    pub opened: Option<usize>,
}

/// A result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchedUnit {
    /// Path relative to the root.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
}

impl SearchedUnit {
    fn of(hit: &Hit) -> Self {
        Self { path: hit.path.clone(), start_line: hit.start_line, end_line: hit.end_line }
    }
}

/// The progress of a call that builds an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The share of the work that is done, about: 0 to 1.
    pub share: f64,
    /// What is being done.
    pub message: &'static str,
}

impl Progress {
    /// What an event of a build means; nothing if no time passes.
    fn of(event: &Event) -> Option<Self> {
        event.progress().map(|(share, message)| Self { share, message })
    }
}

/// Is called with the progress of a call, from several threads.
pub type ReportProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// For the agent to read.
    pub text: String,
    /// The same as JSON. Only where it is all that the text says, because some clients show an agent nothing else.
    pub structured: Option<Value>,
    /// How sure it is that the answer is in the tree, 0 to 1; of a tool that does not rank 1, or 0 where nothing is there.
    pub confidence: f32,
}

impl From<String> for ToolAnswer {
    fn from(text: String) -> Self {
        Self { text, structured: None, confidence: 1.0 }
    }
}

impl Workspace {
    /// The tree at `root`. Nothing is read or indexed before the first call.
    #[must_use]
    pub fn new(root: PathBuf, options: OpenOptions, embedder: Arc<dyn Embedder>) -> Self {
        Self {
            root,
            options,
            embedder,
            ranking: RankingWeights::default(),
            observer: None,
            last_search: Mutex::new(None),
            opened: None,
            in_memory: Mutex::new(None),
            shared: Mutex::new(None),
        }
    }

    /// The root of the tree, as given.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it has an indexed file or directory at a path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let Ok(listing) = self.listing() else { return false };
        TreePath::of(path, &self.roots(), &paths(&listing)).is_ok()
    }

    /// Ranks with these weights instead of the default ones.
    #[must_use]
    pub fn with_ranking(self, ranking: RankingWeights) -> Self {
        Self { ranking, ..self }
    }

    /// Tells `observer` of each search, and once more when one of its results is read; what it calls counts the tokens.
    #[must_use]
    pub fn with_observer(
        self,
        observer: impl Fn(&Searched, &dyn Fn() -> Tokens) + Send + Sync + 'static,
    ) -> Self {
        Self { observer: Some(Box::new(observer)), ..self }
    }

    /// Tells `opened` of each index that was opened, and so of what kept it from being written.
    #[must_use]
    pub fn with_opened(self, opened: impl Fn(&Opened) + Send + Sync + 'static) -> Self {
        Self { opened: Some(Box::new(opened)), ..self }
    }

    /// Answers a call. Blocks while the index is built, by this process or another one, and reports on that.
    ///
    /// # Errors
    /// When the arguments name something that does not exist, or the tree cannot be read or indexed.
    pub fn answer(&self, call: &Call, report: ReportProgress) -> Result<ToolAnswer, ToolError> {
        self.answer_of(call, Instant::now(), report)
    }

    /// Answers a call that may have waited since it was `asked`.
    pub(crate) fn answer_of(
        &self,
        call: &Call,
        asked: Instant,
        report: ReportProgress,
    ) -> Result<ToolAnswer, ToolError> {
        let index = || self.index(asked, report);
        match call {
            Call::Search(search) => self.search(search, index),
            Call::Context(context) => self.context(context, index),
            Call::Outline(outline) => self.outline(outline, index),
            Call::Similar(similar) => self.similar(similar, index),
            Call::Callers(calls) => self.callers(calls, &*index()?),
            Call::Callees(calls) => self.callees(calls, &*index()?),
            Call::ReadUnit(unit) => self.read_unit(unit),
            Call::IndexStatus(_) => self.index_status(),
        }
    }

    fn search(
        &self,
        search: &Search,
        index: impl FnOnce() -> Result<Arc<Index>, ToolError>,
    ) -> Result<ToolAnswer, ToolError> {
        let filter = self.filter(&search.part)?;
        let index = index()?;
        let request =
            UnitsRequest { filter: Some(&filter), limit: search.size.k, ..UnitsRequest::new(&self.ranking) };
        let mut found = quarry_answer::search(&index, SearchQuestion::of(&search.query), None, &request)?;
        let is_unsure = found.hits.is_empty() || found.confident == Some(false);
        let heading = match is_unsure {
            true => context::nothing_heading(found.hits.is_empty(), !filter.is_empty()),
            false => String::new(),
        };
        // What is near tells whether other words would help; a list of what is not meant would not.
        if is_unsure && search.detail == Detail::Brief {
            found.hits.truncate(NEAREST);
        }
        let searched: Vec<SearchedUnit> = found.hits.iter().map(SearchedUnit::of).collect();
        let results = results(&index, &found, search.detail);
        let text = list(&heading, &results, search.detail, search.size.max_tokens);
        self.note_search(&search.query, searched, &|| Tokens { given: count_tokens(&text), of_file: None });
        Ok(ToolAnswer { text, structured: None, confidence: found.confidence })
    }

    fn filter(&self, part: &Part) -> Result<Filter, ToolError> {
        let path = self.part(&part.path)?;
        let kinds: Vec<UnitKind> = part.kinds.iter().map(|&kind| kind.into()).collect();
        Ok(Filter::new(&part.languages, &kinds, &path.globs(&part.globs))?)
    }

    /// The part of the tree that a path names; all of it if the path is empty.
    fn part(&self, path: &str) -> Result<TreePath, ToolError> {
        if path.is_empty() {
            return Ok(TreePath::Root);
        }
        let listing = self.listing()?;
        TreePath::of(path, &self.roots(), &paths(&listing))
    }

    fn context(
        &self,
        asked: &ContextCall,
        index: impl FnOnce() -> Result<Arc<Index>, ToolError>,
    ) -> Result<ToolAnswer, ToolError> {
        let filter = Filter::default().with_globs(&self.part(&asked.path)?.globs(&asked.globs), None)?;
        let index = index()?;
        let found = context::context(
            &index,
            &ContextRequest {
                query: &asked.query,
                filter: &filter,
                ranking: &self.ranking,
                max_tokens: asked.max_tokens,
                weights: context::Weights::default(),
                prefixes: &[],
            },
        )?;
        let shown = found.shown.iter().map(|unit| SearchedUnit::of(&index.unit(*unit))).collect();
        let tokens = || Tokens {
            given: count_tokens(&found.text),
            of_file: Some(context::file_tokens(&index, &found.shown)),
        };
        self.note_search(&asked.query, shown, &tokens);
        Ok(ToolAnswer { text: found.text, structured: None, confidence: found.confidence })
    }

    fn outline(
        &self,
        asked: &Outline,
        index: impl FnOnce() -> Result<Arc<Index>, ToolError>,
    ) -> Result<ToolAnswer, ToolError> {
        let filter = Filter::default().with_globs(&self.part(&asked.path)?.globs(&[]), None)?;
        Ok(outline::outline(&*index()?, &filter, asked.max_tokens, &[])?.into())
    }

    fn similar(
        &self,
        similar: &Similar,
        index: impl FnOnce() -> Result<Arc<Index>, ToolError>,
    ) -> Result<ToolAnswer, ToolError> {
        let listing = self.listing()?;
        let path = TreePath::file(&similar.path, &self.roots(), &paths(&listing))?;
        let index = index()?;
        let line = similar.line;
        let no_unit = || Error::NoUnit { path: path.clone(), line };
        let given = index.unit_at(&path, line).ok_or_else(no_unit)?;
        let request = UnitsRequest { limit: similar.size.k, ..UnitsRequest::new(&self.ranking) };
        let found = quarry_answer::similar(&index, &given, &request)?;
        let heading = if found.hits.is_empty() {
            format!("Nothing is similar to {}.\n", position(&given))
        } else {
            format!("Most similar to {}, best first:\n", position(&given))
        };
        // Without a query the first lines say most.
        let results = results(&index, &found, Detail::Brief);
        Ok(list(&heading, &results, Detail::Brief, similar.size.max_tokens).into())
    }

    fn callers(&self, calls: &Calls, index: &Index) -> Result<ToolAnswer, ToolError> {
        let definitions = self.definitions(index, calls)?;
        let name = calls.name.as_deref().unwrap_or_default();
        let sites = index.callers(name, &definitions, &Filter::default())?;
        let confidence = if definitions.is_empty() && sites.found.is_empty() { 0.0 } else { 1.0 };
        let text = callers_text(index, name, &definitions, &sites, calls.size);
        Ok(ToolAnswer { text, structured: None, confidence })
    }

    fn callees(&self, calls: &Calls, index: &Index) -> Result<ToolAnswer, ToolError> {
        let definitions = self.definitions(index, calls)?;
        let name = calls.name.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        for definition in definitions {
            let callees = index.callees(&definition)?;
            found.push((definition, callees));
        }
        let confidence = if found.is_empty() { 0.0 } else { 1.0 };
        let text = callees_text(index, name, &found, calls.size);
        Ok(ToolAnswer { text, structured: None, confidence })
    }

    /// The definitions that a call asks about; none where nothing has the name.
    fn definitions(&self, index: &Index, calls: &Calls) -> Result<Vec<Hit>, ToolError> {
        let (Some(path), Some(line)) = (&calls.path, calls.line) else {
            return Ok(index.definitions_of(calls.name.as_deref().unwrap_or_default(), &Filter::default()));
        };
        let listing = self.listing()?;
        let path = TreePath::file(path, &self.roots(), &paths(&listing))?;
        match index.definition_at(&path, line) {
            Some(hit) => Ok(vec![hit]),
            None => Err(ToolError::NoDefinition { path, line }),
        }
    }

    fn read_unit(&self, unit: &ReadUnit) -> Result<ToolAnswer, ToolError> {
        let listing = self.listing()?;
        let path = TreePath::file(&unit.path, &self.roots(), &paths(&listing))?;
        let wanted = match (unit.line, &unit.name) {
            (Some(line), None) => UnitSelector::Line(line),
            (None, Some(name)) => UnitSelector::Name(name),
            _ => return Err(ToolError::LineOrName),
        };
        let base = walk::open(walk::base_directory(&walk::resolved(&self.root))?)?;
        let text = walk::read_text(&base, &path, walk::MAX_FILE_BYTES)
            .map_err(|source| ToolError::Read { path: base.path().join(&path), source })?;
        // Cut anew rather than taken from the index, so that it is what the file holds now.
        let units = match listing.files.iter().find(|file| file.path == path) {
            Some(file) => text.extract(file.language).units,
            None => Vec::new(),
        };
        let (lines, answer) = read_unit(&path, &text, &units, wanted, unit.max_tokens)?;
        self.note_reading(&path, &lines, &|| Tokens {
            given: count_tokens(&answer),
            of_file: Some(count_tokens(&text.to_str())),
        });
        Ok(answer.into())
    }

    fn note_search(&self, query: &str, results: Vec<SearchedUnit>, tokens: &dyn Fn() -> Tokens) {
        let Some(observer) = &self.observer else { return };
        let searched = Searched { query: query.to_owned(), results, opened: None };
        observer(&searched, tokens);
        *self.last_search.lock().unwrap_or_else(PoisonError::into_inner) = Some(searched);
    }

    /// Lines of a file were read: if they are of a result of the last search, that one was opened.
    fn note_reading(&self, path: &str, lines: &RangeInclusive<u32>, tokens: &dyn Fn() -> Tokens) {
        let Some(observer) = &self.observer else { return };
        let last = self.last_search.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(searched) = &*last else { return };
        let is_read = |unit: &SearchedUnit| {
            unit.path == path && unit.start_line <= *lines.end() && *lines.start() <= unit.end_line
        };
        if let Some(position) = searched.results.iter().position(is_read) {
            observer(&Searched { opened: Some(position + 1), ..searched.clone() }, tokens);
        }
    }

    /// The index as the tree is now, for a call that was `asked` then.
    fn index(&self, asked: Instant, report: ReportProgress) -> Result<Arc<Index>, ToolError> {
        let since_then = self
            .shared()
            .as_ref()
            .filter(|shared| shared.since >= asked)
            .map(|shared| shared.index.upgrade());
        if let Some(index) = since_then.flatten() {
            return Ok(index);
        }
        let since = Instant::now();
        // Not locked while the tree is looked at or indexed, so that other calls can be answered.
        let held = self.in_memory().as_ref().map(|held| Arc::clone(&held.index));
        if let Some(index) = held.filter(|index| index.is_current_in_memory()) {
            return Ok(index);
        }
        let embedder = Some(Arc::clone(&self.embedder));
        let events = |event: Event| Progress::of(&event).into_iter().for_each(report);
        let opened = Index::open_or_build(&self.root, &self.options, embedder, &events)?;
        self.opened.iter().for_each(|tell| tell(&opened));
        let Opened { index, unsaved, .. } = opened;
        let index = Arc::new(index);
        *self.in_memory() =
            unsaved.map(|error| InMemory { index: Arc::clone(&index), reason: error.to_string() });
        *self.shared() = Some(Shared { index: Arc::downgrade(&index), since });
        Ok(index)
    }

    fn shared(&self) -> MutexGuard<'_, Option<Shared>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_memory(&self) -> MutexGuard<'_, Option<InMemory>> {
        self.in_memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listing(&self) -> Result<Listing, ToolError> {
        Ok(walk::list(&self.root, &Index::found(&self.root, &self.options)?)?)
    }

    /// The absolute paths that a caller may know the root by: with and without symbolic links resolved.
    fn roots(&self) -> Vec<PathBuf> {
        let base = walk::base_directory(&self.root).unwrap_or(Path::new(""));
        base.canonicalize().into_iter().chain(std::path::absolute(base)).collect()
    }
}

fn paths(listing: &Listing) -> Vec<&str> {
    listing.files.iter().map(|file| file.path.as_str()).collect()
}

fn results<Q>(index: &Index, found: &Found<Q>, detail: Detail) -> Vec<FoundUnit> {
    // Of a brief result the name says what the declaration would.
    let is_beside_declaration = detail == Detail::Brief;
    let unit = |hit: &Hit| FoundUnit {
        snippet: found.unit_lines(index, hit, detail.lines(), is_beside_declaration),
        hit: hit.clone(),
    };
    found.hits.iter().map(unit).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quarry_embed::StaticModel;
    use quarry_index::UserDirectories;

    use serde_json::json;

    use super::*;

    #[test]
    fn progress_goes_from_reading_to_embedding() {
        let share = |event: Event| Progress::of(&event).map(|progress| progress.share);
        assert_eq!(share(Event::Read { done: 1, total: 2 }), Some(0.25));
        assert_eq!(share(Event::Embedded { done: 1, total: 2 }), Some(0.75));
        assert_eq!(share(Event::Embedded { done: 0, total: 0 }), Some(0.5));
        assert_eq!(share(Event::Waiting), Some(0.0));
    }

    #[test]
    fn an_index_that_cannot_be_written_is_made_once_and_again_when_files_change() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(directory.path().join("net.py"), "def connect(host):\n    return dial(host)\n").unwrap();
        let blocked = elsewhere.path().join("file");
        fs::write(&blocked, "").unwrap();
        let options = OpenOptions { user: UserDirectories::below(&blocked), ..OpenOptions::default() };
        let opened = Arc::new(Mutex::new(0));
        let count = Arc::clone(&opened);
        let workspace =
            Workspace::new(directory.path().to_owned(), options, Arc::new(StaticModel::builtin()))
                .with_opened(move |opened: &Opened| {
                    assert!(opened.unsaved.is_some());
                    *count.lock().unwrap() += 1;
                });
        let call = |name: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else { return String::new() };
            let call = Call::new(name, arguments).unwrap().unwrap();
            workspace.answer(&call, &|_| {}).unwrap().text
        };
        for _ in 0..2 {
            assert!(call("search", json!({"query": "connect to a host"})).contains("net.py:1"));
        }
        let status = call("index_status", json!({}));
        assert!(
            status.contains("1 unit in 1 file, held in memory") && status.contains("cannot write"),
            "{status}"
        );
        assert_eq!(*opened.lock().unwrap(), 1);
        fs::write(directory.path().join("new.py"), "def listen(port):\n    return bind(port)\n").unwrap();
        assert!(call("search", json!({"query": "listen on a port"})).contains("new.py:1"));
        assert_eq!(*opened.lock().unwrap(), 2);
    }

    #[test]
    fn calls_that_waited_share_an_open_index_and_later_ones_see_later_files() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(directory.path().join("net.py"), "def connect(host):\n    return dial(host)\n").unwrap();
        let options =
            OpenOptions { directory: Some(elsewhere.path().join("index")), ..OpenOptions::default() };
        let workspace =
            Workspace::new(directory.path().to_owned(), options, Arc::new(StaticModel::builtin()));
        let asked = Instant::now();
        let first = workspace.index(asked, &|_| {}).unwrap();
        assert!(Arc::ptr_eq(&first, &workspace.index(asked, &|_| {}).unwrap()));
        fs::write(directory.path().join("new.py"), "def listen(port):\n    return bind(port)\n").unwrap();
        let later = workspace.index(Instant::now(), &|_| {}).unwrap();
        assert_eq!((first.n_files(), later.n_files()), (1, 2));
        assert!(Arc::ptr_eq(&later, &workspace.index(asked, &|_| {}).unwrap()));
        drop((first, later));
        assert!(workspace.shared().as_ref().unwrap().index.upgrade().is_none(), "nothing stays open");
    }

    #[test]
    fn cells_of_notebooks_are_read_on_the_lines_of_the_file() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = ["def close(socket):\n", "    say(\"bye\")\n", "    socket.shut()\n"];
        let cells =
            json!({"cells": [{"cell_type": "code", "outputs": [{"text": "zebra"}], "source": source}]});
        let file = serde_json::to_string_pretty(&cells).unwrap();
        let line = 1 + file.lines().position(|line| line.contains("shut")).unwrap();
        fs::write(directory.path().join("net.ipynb"), file).unwrap();
        let options =
            OpenOptions { directory: Some(elsewhere.path().join("index")), ..OpenOptions::default() };
        let workspace =
            Workspace::new(directory.path().to_owned(), options, Arc::new(StaticModel::builtin()));
        let call = |name: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else { return String::new() };
            let call = Call::new(name, arguments).unwrap().unwrap();
            workspace.answer(&call, &|_| {}).unwrap().text
        };
        let expected = format!("{}|     say(\"bye\")\n{line}|     socket.shut()\n", line - 1);
        let found = call(
            "search",
            json!({"query": "say bye and shut a socket", "languages": ["python"], "detail": "full"}),
        );
        assert!(found.contains(&format!("net.ipynb:{}-{line} function close", line - 2)), "{found}");
        assert!(found.contains(&expected), "{found}");
        let read = call("read_unit", json!({"path": "net.ipynb", "line": line}));
        assert!(read.ends_with(&expected), "{read}");
        assert!(call("similar", json!({"path": "net.ipynb", "line": line})).contains("net.ipynb"));
    }

    #[test]
    fn what_is_read_of_the_results_of_a_search_is_observed() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = "def connect(host):\n    return dial(host)\n\n\ndef close(socket):\n    socket.shut()\n";
        fs::write(directory.path().join("net.py"), source).unwrap();
        fs::write(directory.path().join("other.py"), "def unrelated():\n    return 1\n").unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (root, index) = (directory.path().to_owned(), elsewhere.path().join("index"));
        let options = OpenOptions { directory: Some(index), ..OpenOptions::default() };
        let (observed, noted) = (Arc::clone(&seen), Arc::clone(&seen));
        let workspace = Workspace::new(root, options, Arc::new(StaticModel::builtin()))
            .with_observer(move |searched, tokens| noted.lock().unwrap().push((searched.clone(), tokens())));
        let call = |name: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else { return };
            let call = Call::new(name, arguments).unwrap().unwrap();
            workspace.answer(&call, &|_| {}).unwrap();
        };
        call("read_unit", json!({"path": "net.py", "line": 1}));
        assert!(seen.lock().unwrap().is_empty(), "nothing was searched for");
        call("search", json!({"query": "close a socket", "globs": ["net.py"]}));
        call("read_unit", json!({"path": "other.py", "line": 1}));
        call("read_unit", json!({"path": "net.py", "name": "close"}));
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2);
        let (searched, tokens) = &seen[0];
        assert_eq!((searched.query.as_str(), searched.opened), ("close a socket", None));
        assert!(tokens.given > 10 && tokens.of_file.is_none(), "{tokens:?}");
        let rank = searched.results.iter().position(|unit| unit.start_line == 5).unwrap() + 1;
        assert_eq!(seen[1].0, Searched { opened: Some(rank), ..searched.clone() });
        assert_eq!(seen[1].1.of_file, Some(count_tokens(source)));
        drop(seen);
        call("context", json!({"query": "close a socket", "globs": ["net.py"]}));
        let seen = observed.lock().unwrap();
        let (searched, tokens) = &seen[2];
        assert!(searched.opened.is_none() && !searched.results.is_empty(), "{searched:?}");
        assert_eq!(tokens.of_file, Some(count_tokens(source)), "whole functions of one file");
    }
}
