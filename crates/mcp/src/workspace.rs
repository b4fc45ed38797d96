//! Source trees that answer calls.

mod status;

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quarry_index::{Error, Event, Filter, Hit, Index, OpenOptions};
use quarry_related::{Background, Question, RelatedError, Subject};
use quarry_session::context::{self, ContextRequest};
use quarry_session::settings::Settings;
use quarry_session::text::{position, quoted_start};
use quarry_session::{
    Notice, OpenChoice, Query, SearchResults, Session, Snapshot, Tree, UnitsRequest, count_tokens, outline,
};
use quarry_source::{UnitKind, language_named};
use quarry_text::{counted, printable};
use quarry_walk::{self as walk, Listing};
use serde_json::Value;

use crate::ToolError;
use crate::arguments::{Calls, Detail, Part, ReadUnit, Related, Search, Similar, Size};
use crate::calls::{Paths, callees_text, callers_text};
use crate::reading::{UnitSelector, read_unit};
use crate::related::related_text;
use crate::results::{FoundUnit, list};
use crate::tools::Call;
use crate::tree_path::TreePath;

/// Maximum time that a call waits for changed files to be indexed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum tokens of the paths of changed files in an answer that has not waited for them.
const CHANGED_TOKENS: usize = 80;

/// Number of results listed at low confidence.
const NEAREST: usize = 3;

/// Maximum number of trees that an error names.
const NAMED: usize = 8;

/// Maximum tokens of the name of a tree.
const NAME_TOKENS: usize = 24;

/// Source trees, with the session that answers questions about all of them.
///
/// Each call compares the trees with the index, which stays open, and opens it again where files have changed. Of several
/// trees each has a name, and paths begin with that.
pub struct Workspace {
    trees: Vec<NamedTree>,
    /// Number of trees that are not searched, because there are too many.
    n_left_out: usize,
    choice: OpenChoice,
    session: Session,
    observer: Option<Box<Observer>>,
    last_search: Mutex<Option<Searched>>,
    notices: Option<Arc<NoticeObserver>>,
    related: Background,
    /// Why the index could not be saved, if it is in memory.
    unsaved: Arc<Mutex<Option<String>>>,
}

struct NamedTree {
    name: String,
    root: PathBuf,
}

/// Source of the answers to a question.
struct Source<'a> {
    tree: &'a Tree,
    snapshot: &'a Snapshot,
    /// Prefix of the paths of each searched tree; nothing for one.
    prefixes: &'a [String],
    /// Maximum tokens of the answer.
    max_tokens: usize,
}

type NoticeObserver = dyn Fn(Notice) + Send + Sync;

/// Receives searches, and what is read of their results.
type Observer = dyn Fn(&Searched, &dyn Fn() -> Tokens) + Send + Sync;

/// Tokens of an answer, and of the files that it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Of the answer.
    pub given: usize,
    /// Of the whole file, if a result was read, or of the files of all results that were shown in full.
    pub of_file: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// The directory that paths of results are relative to.
    pub root: PathBuf,
    pub query: String,
    /// The results, best first.
    pub results: Vec<SearchedUnit>,
    /// The rank, from 1, of the result that was read afterwards.
    pub opened: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SearchedUnit {
    /// Path relative to the root of the search.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
}

impl SearchedUnit {
    fn new(tree: &Tree, hit: &Hit) -> Self {
        Self { path: tree.path_in_common(hit), start_line: hit.start_line, end_line: hit.end_line }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Approximate fraction of the work that is done, 0 to 1.
    pub share: f64,
    /// The current step.
    pub message: &'static str,
}

impl Progress {
    /// The progress that an event of a build marks; `None` if its step takes no time.
    fn from_event(event: &Event) -> Option<Self> {
        event.progress().map(|(share, message)| Self { share, message })
    }
}

/// Callback for the progress of a call, called from several threads.
pub type ReportProgress<'a> = &'a (dyn Fn(Progress) + Sync);

#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// For the agent to read.
    pub text: String,
    /// The same as JSON; only if it contains all that the text says, because some clients show an agent nothing else.
    pub structured: Option<Value>,
}

impl From<String> for ToolAnswer {
    fn from(text: String) -> Self {
        Self { text, structured: None }
    }
}

impl Workspace {
    /// The trees at some paths. Nothing is read or indexed before the first call.
    pub fn new(roots: Vec<PathBuf>, choice: OpenChoice) -> Self {
        let session = Session::new(roots.clone(), choice.clone()).lenient().comparing_files();
        let workspace = Self {
            trees: named(roots),
            n_left_out: 0,
            related: Background::new(&choice.user),
            choice,
            session,
            observer: None,
            last_search: Mutex::new(None),
            notices: None,
            unsaved: Arc::default(),
        };
        workspace.waiting()
    }

    /// Passes on the notices of a refresh that no call waits for.
    fn waiting(self) -> Self {
        let (unsaved, observer) = (Arc::clone(&self.unsaved), self.notices.clone());
        let on_notice = move |notice: Notice| handle_notice(notice, &unsaved, observer.as_deref());
        Self { session: self.session.clone().waiting(PATIENCE, on_notice), ..self }
    }

    /// States in answers that `n_left_out` other trees are not searched.
    #[must_use]
    pub fn with_left_out(self, n_left_out: usize) -> Self {
        Self { n_left_out, ..self }
    }

    /// Notifies `observer` of each search, and again when one of its results is read; the function passed to it counts
    /// the tokens.
    #[must_use]
    pub fn with_observer(
        self,
        observer: impl Fn(&Searched, &dyn Fn() -> Tokens) + Send + Sync + 'static,
    ) -> Self {
        Self { observer: Some(Box::new(observer)), ..self }
    }

    /// Passes the notices of opening an index to `notices`.
    #[must_use]
    pub fn with_notices(self, notices: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self { notices: Some(Arc::new(notices)), ..self }.waiting()
    }

    /// Answers a call. Blocks while the index is built, by this process or another one, and reports on that.
    ///
    /// # Errors
    /// When the arguments name something that does not exist, or the trees cannot be read or indexed.
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
        let (place, call) = self.place(call)?;
        let max_tokens = call.max_tokens().unwrap_or_default();
        let ask = |question: &dyn Fn(&Source) -> Result<ToolAnswer, ToolError>| {
            let notices = |notice: Notice| self.handle_notice(notice, report);
            self.session.ask(Some(asked), &notices, |tree, snapshot| {
                let prefixes = &self.prefixes(snapshot);
                let note = self.note(snapshot.n_unsearched) + &changed_note(tree, prefixes);
                let max_tokens = max_tokens.saturating_sub(count_tokens(&note));
                let mut answer = question(&Source { tree, snapshot, prefixes, max_tokens })?;
                answer.text += &note;
                Ok(answer)
            })
        };
        match &call {
            Call::Search(search) => {
                let filter = self.filter(place, &search.part)?;
                ask(&|of| self.search(search, &self.within(&filter, place, of.snapshot)?, of))
            }
            Call::Context(context) => {
                let path = self.part(place, &context.path)?;
                let filter = Filter::default().with_globs(&path.globs(&context.globs), None)?;
                ask(&|of| self.context(&context.query, &self.within(&filter, place, of.snapshot)?, of))
            }
            Call::Outline(asked) => {
                let filter =
                    Filter::default().with_globs(&self.part(place, &asked.path)?.globs(&[]), None)?;
                ask(&|of| {
                    let filter = self.within(&filter, place, of.snapshot)?;
                    Ok(outline::outline(&of.tree.index, &filter, of.max_tokens, of.prefixes)?.into())
                })
            }
            Call::Similar(similar) => {
                let place = self.file(place, &similar.path)?;
                ask(&|of| self.similar(similar, &place, of))
            }
            Call::Callers(calls) => {
                let place = self.position(place, calls)?;
                ask(&|of| self.callers(calls, place.as_ref(), of))
            }
            Call::Callees(calls) => {
                let place = self.position(place, calls)?;
                ask(&|of| self.callees(calls, place.as_ref(), of))
            }
            Call::Related(related) => {
                let file = related.of.path.as_ref().map(|path| self.file(place, path)).transpose()?;
                ask(&|of| self.related(related, file.as_ref(), of))
            }
            Call::ReadUnit(unit) => self.read_unit(place, unit),
            Call::IndexStatus(_) => self.index_status(),
        }
    }

    /// Note on what an answer leaves out; normally empty.
    fn note(&self, n_unsearched: usize) -> String {
        let mut note = String::new();
        let n = self.trees.len();
        if self.n_left_out > 0 {
            let n_open = n + self.n_left_out;
            note += &format!("{n_open} directories are open; only the first {n} are searched.\n");
        }
        if n_unsearched > 0 {
            note += &format!("{n_unsearched} of {n} trees could not be searched; see index_status.\n");
        }
        note
    }

    /// The tree that the path of a call names, and the call with the rest of the path; none of several trees if the call has
    /// no path.
    fn place(&self, call: &Call) -> Result<(Option<usize>, Call), ToolError> {
        if self.trees.len() == 1 {
            return Ok((Some(0), call.clone()));
        }
        let Some(path) = call.path().filter(|path| !path.is_empty()) else { return Ok((None, call.clone())) };
        // As answers show it.
        let shown = path.strip_prefix('"').and_then(|path| path.strip_suffix('"'));
        let path = shown.filter(|path| !path.contains('\\')).unwrap_or(path);
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let called = self.trees.iter().position(|tree| tree.name == first);
        // A tree may have a directory of its own name, as packages of Python do.
        if let Some(tree) = called.filter(|tree| rest.is_empty() || self.has(*tree, rest)) {
            return Ok((Some(tree), call.with_path(rest)));
        }
        let having: Vec<usize> = (0..self.trees.len()).filter(|tree| self.has(*tree, path)).collect();
        let name = |tree: &usize| self.trees[*tree].name.as_str();
        match (having.as_slice(), called) {
            ([only], _) => Ok((Some(*only), call.with_path(path))),
            ([], Some(tree)) => Ok((Some(tree), call.with_path(rest))),
            ([], None) => Err(ToolError::UnknownPath {
                path: path.to_owned(),
                nearest: self.trees.iter().map(|tree| tree.name.clone()).take(NAMED).collect(),
            }),
            (several, _) => Err(ToolError::SeveralTrees {
                path: path.to_owned(),
                trees: several.iter().map(|tree| format!("{}/{path}", name(tree))).take(NAMED).collect(),
            }),
        }
    }

    /// Returns true if a tree has a file or directory at a path.
    fn has(&self, tree: usize, path: &str) -> bool {
        let Ok(listing) = self.listing(tree) else { return false };
        TreePath::resolve(path, &self.roots(tree), &paths(&listing)).is_ok()
    }

    /// Passes a notice on, and reports the progress of a call.
    fn handle_notice(&self, notice: Notice, report: ReportProgress) {
        if let Notice::Event(event) = notice {
            Progress::from_event(event).into_iter().for_each(report);
        }
        handle_notice(notice, &self.unsaved, self.notices.as_deref());
    }

    /// Prefix of the paths of each searched tree; nothing for one.
    fn prefixes(&self, snapshot: &Snapshot) -> Vec<String> {
        if self.trees.len() == 1 {
            return Vec::new();
        }
        let prefix = |path: &PathBuf| {
            let tree = self.trees.iter().find(|tree| tree.root == *path);
            tree.map(|tree| format!("{}/", tree.name)).unwrap_or_default()
        };
        snapshot.paths.iter().map(prefix).collect()
    }

    /// The number of a tree among those that are searched.
    fn number(&self, tree: usize, snapshot: &Snapshot) -> Result<usize, ToolError> {
        let NamedTree { name, root } = &self.trees[tree];
        let number = snapshot.paths.iter().position(|path| path == root);
        number.ok_or_else(|| ToolError::UnknownPath { path: name.clone(), nearest: Vec::new() })
    }

    /// A filter that lets one of several trees through, if a call names it.
    fn within(
        &self,
        filter: &Filter,
        place: Option<usize>,
        snapshot: &Snapshot,
    ) -> Result<Filter, ToolError> {
        match place.filter(|_| self.trees.len() > 1) {
            Some(tree) => Ok(filter.clone().in_roots(vec![self.number(tree, snapshot)?])),
            None => Ok(filter.clone()),
        }
    }

    fn filter(&self, place: Option<usize>, part: &Part) -> Result<Filter, ToolError> {
        let path = self.part(place, &part.path)?;
        let kinds: Vec<UnitKind> = part.kinds.iter().map(|&kind| kind.into()).collect();
        Ok(Filter::new(&part.languages, &kinds, &path.globs(&part.globs))?)
    }

    /// The part of a tree that a path names; all of it if the path is empty.
    fn part(&self, place: Option<usize>, path: &str) -> Result<TreePath, ToolError> {
        let Some(tree) = place.filter(|_| !path.is_empty()) else { return Ok(TreePath::Root) };
        let listing = self.listing(tree)?;
        TreePath::resolve(path, &self.roots(tree), &paths(&listing))
    }

    /// The tree and the file that a path names.
    fn file(&self, place: Option<usize>, path: &str) -> Result<(usize, String), ToolError> {
        let tree = place.unwrap_or_default();
        let listing = self.listing(tree)?;
        Ok((tree, TreePath::file(path, &self.roots(tree), &paths(&listing))?))
    }

    fn search(&self, search: &Search, filter: &Filter, of: &Source) -> Result<ToolAnswer, ToolError> {
        let Source { tree, snapshot, prefixes, max_tokens } = *of;
        let trees = tree.names();
        let k = search.size.k(snapshot.defaults.limit);
        let request = UnitsRequest { trees: &trees, ..snapshot.defaults.request(filter, k) };
        let mut found = quarry_session::search(&tree.index, Query::parse(&search.query)?, &request)?;
        let is_unsure = found.hits.is_empty() || found.confident == Some(false);
        let is_narrowed = snapshot.is_narrowed || !filter.is_empty();
        let mut heading: String =
            found.notes.iter().map(|note| format!("Note: {}.\n", printable(note))).collect();
        if is_unsure {
            heading.push_str(&context::no_answer_heading(found.hits.is_empty(), is_narrowed));
        }
        // The nearest results show whether other words would help; a full list of poor results would not.
        if is_unsure && search.detail == Detail::Brief {
            found.hits.truncate(NEAREST);
        }
        let searched = found.hits.iter().map(|hit| SearchedUnit::new(tree, hit)).collect();
        let results = results(&tree.index, &found, search.detail, prefixes);
        let text = list(&heading, &results, search.detail, max_tokens);
        let tokens = || Tokens { given: count_tokens(&text), of_file: None };
        self.note_search(tree, &search.query, searched, &tokens);
        Ok(text.into())
    }

    fn context(&self, query: &str, filter: &Filter, of: &Source) -> Result<ToolAnswer, ToolError> {
        let Source { tree, snapshot, prefixes, max_tokens } = *of;
        let index = &tree.index;
        let found = context::context(
            index,
            &ContextRequest { query, filter, ranking: &snapshot.defaults.ranking, max_tokens, prefixes },
        )?;
        let shown = found.shown.iter().map(|unit| SearchedUnit::new(tree, &index.unit(*unit))).collect();
        let tokens = || Tokens {
            given: count_tokens(&found.text),
            of_file: Some(context::file_tokens(index, &found.shown)),
        };
        self.note_search(tree, query, shown, &tokens);
        Ok(found.text.into())
    }

    fn similar(
        &self,
        similar: &Similar,
        (place, path): &(usize, String),
        of: &Source,
    ) -> Result<ToolAnswer, ToolError> {
        let Source { tree, snapshot, prefixes, max_tokens } = *of;
        let (line, root) = (similar.line, self.number(*place, snapshot)?);
        let no_unit = || Error::NoUnit { path: path.clone(), line };
        let given = tree.index.unit_at_in(root, path, line).ok_or_else(no_unit)?;
        let all = Filter::default();
        let request = snapshot.defaults.request(&all, similar.size.k(snapshot.defaults.limit));
        let found = quarry_session::similar(&tree.index, &given, &request)?;
        let given = position(&prefixed(&given, prefixes));
        let heading = match found.hits.is_empty() {
            true => format!("Nothing is similar to {given}.\n"),
            false => format!("Most similar to {given}, best first:\n"),
        };
        // Without a query the first lines say most.
        let results = results(&tree.index, &found, Detail::Brief, prefixes);
        Ok(list(&heading, &results, Detail::Brief, max_tokens).into())
    }

    fn callers(
        &self,
        calls: &Calls,
        place: Option<&(usize, String, u32)>,
        of: &Source,
    ) -> Result<ToolAnswer, ToolError> {
        let definitions = self.definitions(calls, place, of)?;
        let name = calls.name.as_deref().unwrap_or_default();
        let sites = of.tree.index.callers(name, &definitions, &Filter::default())?;
        let paths = Paths { index: &of.tree.index, prefixes: of.prefixes };
        let size = Size { max_tokens: of.max_tokens, ..calls.size };
        Ok(callers_text(&paths, name, &definitions, &sites, size).into())
    }

    fn callees(
        &self,
        calls: &Calls,
        place: Option<&(usize, String, u32)>,
        of: &Source,
    ) -> Result<ToolAnswer, ToolError> {
        let definitions = self.definitions(calls, place, of)?;
        let name = calls.name.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        for definition in definitions {
            let callees = of.tree.index.callees(&definition)?;
            found.push((definition, callees));
        }
        let paths = Paths { index: &of.tree.index, prefixes: of.prefixes };
        let size = Size { max_tokens: of.max_tokens, ..calls.size };
        Ok(callees_text(&paths, name, &found, size).into())
    }

    fn related(
        &self,
        asked: &Related,
        file: Option<&(usize, String)>,
        of: &Source,
    ) -> Result<ToolAnswer, ToolError> {
        let subject = match file {
            Some((root, path)) => {
                let root = self.number(*root, of.snapshot)?;
                match asked.of.line {
                    Some(line) => Subject::Line(root, path.clone(), line),
                    None => Subject::File(root, path.clone()),
                }
            }
            None => Subject::Name(asked.of.name.clone().unwrap_or_default()),
        };
        let limit = asked.of.size.k(of.snapshot.defaults.limit);
        let question = Question { subject: &subject, kinds: &asked.kinds, limit, open_time: Duration::ZERO };
        let found = self.related.get(of.tree).answer(of.tree, &question).map_err(|error| match error {
            RelatedError::NoDefinition { path, line } => ToolError::NoDefinition { path, line },
            RelatedError::Index(error) => error.into(),
            error => ToolError::Related(error),
        })?;
        Ok(related_text(&found, of.prefixes, of.max_tokens).into())
    }

    /// The tree, file and line that a call asks about, unless it names a symbol.
    fn position(
        &self,
        place: Option<usize>,
        calls: &Calls,
    ) -> Result<Option<(usize, String, u32)>, ToolError> {
        let (Some(path), Some(line)) = (&calls.path, calls.line) else { return Ok(None) };
        let (tree, path) = self.file(place, path)?;
        Ok(Some((tree, path, line)))
    }

    /// The definitions that a call asks about; none where nothing has the name.
    fn definitions(
        &self,
        calls: &Calls,
        place: Option<&(usize, String, u32)>,
        of: &Source,
    ) -> Result<Vec<Hit>, ToolError> {
        let Some((tree, path, line)) = place else {
            let name = calls.name.as_deref().unwrap_or_default();
            return Ok(of.tree.index.definitions_of(name, &Filter::default()));
        };
        match of.tree.index.definition_at_in(self.number(*tree, of.snapshot)?, path, *line) {
            Some(hit) => Ok(vec![hit]),
            None => Err(ToolError::NoDefinition { path: path.clone(), line: *line }),
        }
    }

    fn read_unit(&self, place: Option<usize>, unit: &ReadUnit) -> Result<ToolAnswer, ToolError> {
        let (tree, path) = self.file(place, &unit.path)?;
        let wanted = match (unit.line, &unit.name) {
            (Some(line), None) => UnitSelector::Line(line),
            (None, Some(name)) => UnitSelector::Name(name),
            _ => return Err(ToolError::LineOrName),
        };
        let NamedTree { name, root } = &self.trees[tree];
        let base = walk::open(walk::base_directory(&walk::resolved(root))?)?;
        let text = walk::read_text(&base, &path, walk::MAX_FILE_BYTES)
            .map_err(|source| ToolError::Read { path: base.path().join(&path), source })?;
        // Cut anew rather than taken from the index, so that it is what the file holds now.
        let listing = self.listing(tree)?;
        let units = match listing.files.iter().find(|file| file.path == path) {
            Some(file) => text.extract(file.language).units,
            None => language_named("text").map_or_else(Vec::new, |plain| text.extract(plain).units),
        };
        let shown = if self.trees.len() == 1 { path.clone() } else { format!("{name}/{path}") };
        let (lines, answer) = read_unit(&shown, &text, &units, wanted, unit.max_tokens)?;
        let read = base.path().canonicalize().unwrap_or_else(|_| base.path().to_owned()).join(&path);
        self.note_reading(&read, &lines, &|| Tokens {
            given: count_tokens(&answer),
            of_file: Some(count_tokens(&text.to_str())),
        });
        Ok(answer.into())
    }

    fn note_search(&self, tree: &Tree, query: &str, results: Vec<SearchedUnit>, tokens: &dyn Fn() -> Tokens) {
        let Some(observer) = &self.observer else { return };
        let root = tree.common_root().to_owned();
        let searched = Searched { root, query: query.to_owned(), results, opened: None };
        observer(&searched, tokens);
        *lock(&self.last_search) = Some(searched);
    }

    /// Lines of a file were read: if they are of a result of the last search, that one was opened.
    fn note_reading(&self, file: &Path, lines: &RangeInclusive<u32>, tokens: &dyn Fn() -> Tokens) {
        let Some(observer) = &self.observer else { return };
        let last = lock(&self.last_search);
        let Some(searched) = &*last else { return };
        let is_read = |unit: &SearchedUnit| {
            searched.root.join(&unit.path) == file
                && unit.start_line <= *lines.end()
                && *lines.start() <= unit.end_line
        };
        if let Some(position) = searched.results.iter().position(is_read) {
            observer(&Searched { opened: Some(position + 1), ..searched.clone() }, tokens);
        }
    }

    /// Options for opening a tree. Settings that cannot be read are replaced by the defaults.
    fn options(&self, tree: usize) -> OpenOptions {
        self.choice.options(&Settings::load(&self.trees[tree].root).unwrap_or_else(|_| Settings::defaults()))
    }

    fn listing(&self, tree: usize) -> Result<Listing, ToolError> {
        let root = &self.trees[tree].root;
        Ok(walk::list(root, &Index::found(root, &self.options(tree))?)?)
    }

    /// The absolute paths that a caller may know the root of a tree by: with and without symbolic links resolved.
    fn roots(&self, tree: usize) -> Vec<PathBuf> {
        let base = walk::base_directory(&self.trees[tree].root).unwrap_or(Path::new(""));
        base.canonicalize().into_iter().chain(std::path::absolute(base)).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Note on changed files that an answer does not reflect.
fn changed_note(tree: &Tree, prefixes: &[String]) -> String {
    let Some(behind) = tree.changed_files() else { return String::new() };
    let mut n_left = CHANGED_TOKENS;
    let paths = behind.files.iter().map(|(root, path)| quoted_start(&shown_path(*root, path, prefixes)));
    let mut named: Vec<String> = paths
        .take_while(|path| {
            n_left = n_left.saturating_sub(count_tokens(path));
            n_left > 0
        })
        .collect();
    match behind.total - named.len() {
        0 => {}
        n => named.push(format!("{n} more")),
    }
    let n_files = counted(behind.total, "file");
    format!("{n_files} changed since the index was built; it is being updated: {}.\n", named.join(", "))
}

/// The paths that searches find, those of text in unknown languages too.
fn paths(listing: &Listing) -> Vec<&str> {
    let (files, others) = (listing.files.iter(), listing.others.iter());
    files.map(|file| file.path.as_str()).chain(others.map(|file| file.path.as_str())).collect()
}

/// A unit with its path as it is shown.
pub(crate) fn prefixed(hit: &Hit, prefixes: &[String]) -> Hit {
    Hit { path: shown_path(hit.root, &hit.path, prefixes), ..hit.clone() }
}

/// The path of a file as it is shown.
pub(crate) fn shown_path(root: usize, path: &str, prefixes: &[String]) -> String {
    format!("{}{path}", prefixes.get(root).map_or("", String::as_str))
}

/// Notes whether an index is in memory, and passes a notice on.
fn handle_notice(notice: Notice, unsaved: &Mutex<Option<String>>, observer: Option<&NoticeObserver>) {
    if let Notice::Opened(opened) = notice {
        let reason = opened.iter().find_map(|opened| opened.unsaved.as_ref());
        *lock(unsaved) = reason.map(ToString::to_string);
    }
    observer.into_iter().for_each(|observe| observe(notice));
}

fn results<Q>(
    index: &Index,
    found: &SearchResults<Q>,
    detail: Detail,
    prefixes: &[String],
) -> Vec<FoundUnit> {
    // The name in a brief result already says what the declaration would.
    let is_beside_declaration = detail == Detail::Brief;
    let unit = |(position, hit): (usize, &Hit)| FoundUnit {
        snippet: found.unit_lines(index, position, detail.lines(), is_beside_declaration),
        hit: prefixed(hit, prefixes),
    };
    found.hits.iter().enumerate().map(unit).collect()
}

/// Trees with distinct names: those of their directories, numbered where two are equal.
fn named(roots: Vec<PathBuf>) -> Vec<NamedTree> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let name = |root: PathBuf| {
        let canonical = root.canonicalize().unwrap_or_else(|_| root.clone());
        let own = canonical.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut own = own.unwrap_or_else(|| "root".to_owned());
        while count_tokens(&own) > NAME_TOKENS {
            own.pop();
        }
        let mut name = own.clone();
        let number = numbers.entry(own.clone()).or_insert(2);
        while !taken.insert(name.clone()) {
            name = format!("{own}-{number}");
            *number += 1;
        }
        NamedTree { name, root }
    };
    roots.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quarry_index::UserDirectories;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    /// A directory of files, and one that its index may be below.
    fn tree(files: &[(&str, &str)]) -> (TempDir, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            fs::write(directory.path().join(path), text).unwrap();
        }
        (directory, tempfile::tempdir().unwrap())
    }

    fn workspace(directory: &TempDir, elsewhere: &Path) -> Workspace {
        let choice = OpenChoice { user: UserDirectories::below(elsewhere), ..OpenChoice::default() };
        Workspace::new(vec![directory.path().to_owned()], choice)
    }

    fn ask(workspace: &Workspace, name: &str, arguments: Value) -> Result<String, ToolError> {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        let call = Call::new(name, arguments).unwrap()?;
        workspace.answer(&call, &|_| {}).map(|answer| answer.text)
    }

    #[test]
    fn progress_goes_from_reading_to_embedding() {
        let share = |event: Event| Progress::from_event(&event).map(|progress| progress.share);
        assert_eq!(share(Event::Read { done: 1, total: 2 }), Some(0.25));
        assert_eq!(share(Event::Embedded { done: 1, total: 2 }), Some(0.75));
        assert_eq!(share(Event::Embedded { done: 0, total: 0 }), Some(0.5));
        assert_eq!(share(Event::Waiting), Some(0.0));
    }

    #[test]
    fn an_unwritable_index_is_built_once_and_again_when_files_change() {
        let (directory, elsewhere) = tree(&[("net.py", "def connect(host):\n    return dial(host)\n")]);
        let blocked = elsewhere.path().join("file");
        fs::write(&blocked, "").unwrap();
        let opened = Arc::new(Mutex::new(0));
        let count = Arc::clone(&opened);
        let workspace = workspace(&directory, &blocked).with_notices(move |notice| {
            let Notice::Opened(opened) = notice else { return };
            assert!(opened[0].unsaved.is_some());
            *count.lock().unwrap() += 1;
        });
        let call = |name: &str, arguments: Value| ask(&workspace, name, arguments).unwrap();
        for _ in 0..2 {
            assert!(call("search", json!({"query": "connect to a host"})).contains("net.py:1"));
        }
        let status = call("index_status", json!({}));
        assert!(status.contains("1 unit in 1 file, held in memory"), "{status}");
        assert!(status.contains("cannot write"), "{status}");
        assert_eq!(*opened.lock().unwrap(), 1);
        fs::write(directory.path().join("new.py"), "def listen(port):\n    return bind(port)\n").unwrap();
        assert!(call("search", json!({"query": "listen on a port"})).contains("new.py:1"));
        assert_eq!(*opened.lock().unwrap(), 2);
    }

    #[test]
    fn an_answer_that_does_not_wait_names_the_changed_files() {
        let (directory, elsewhere) = tree(&[("net.py", "def connect(host):\n    return dial(host)\n")]);
        let write = |path: &str, text: &str| fs::write(directory.path().join(path), text).unwrap();
        let workspace = workspace(&directory, elsewhere.path());
        let search = |max_tokens: usize| {
            let arguments = json!({"query": "listen on a port", "max_tokens": max_tokens});
            ask(&workspace, "search", arguments).unwrap()
        };
        assert!(!search(500).contains("changed"));
        let index = fs::read_dir(elsewhere.path().join("cache/index")).unwrap().next().unwrap().unwrap();
        let lock = fs::File::options().append(true).open(index.path().join("lock")).unwrap();
        lock.lock().unwrap();
        write("new.py", "def listen(port):\n    return bind(port)\n");
        let stale = search(500);
        let note = "1 file changed since the index was built; it is being updated: new.py.\n";
        assert!(stale.ends_with(note) && !stale.contains("function listen"), "{stale}");
        for n in 0..50 {
            write(&format!("{}{n}.py", "long_name_".repeat(10)), "def other(port):\n    return port\n");
        }
        let stale = search(200);
        assert!(stale.contains("51 files changed since") && stale.ends_with(" more.\n"), "{stale}");
        assert!(count_tokens(&stale) <= 200, "{stale}");
        lock.unlock().unwrap();
        let later = |_| {
            std::thread::sleep(Duration::from_millis(100));
            search(500)
        };
        let fresh = (0..600).map(later).find(|answer| !answer.contains("changed since"));
        assert!(fresh.as_ref().unwrap().contains("new.py:1-2 function listen"), "{fresh:?}");
    }

    #[test]
    fn cells_of_notebooks_are_read_on_the_lines_of_the_file() {
        let source = ["def close(socket):\n", "    say(\"bye\")\n", "    socket.shut()\n"];
        let cells =
            json!({"cells": [{"cell_type": "code", "outputs": [{"text": "zebra"}], "source": source}]});
        let file = serde_json::to_string_pretty(&cells).unwrap();
        let line = 1 + file.lines().position(|line| line.contains("shut")).unwrap();
        let (directory, elsewhere) = tree(&[("net.ipynb", &file)]);
        let workspace = workspace(&directory, elsewhere.path());
        let call = |name: &str, arguments: Value| ask(&workspace, name, arguments).unwrap();
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
    fn queries_are_exact_and_narrow() {
        let source = "def connect(host):\n    return dial(host)\n\n\ndef close(host):\n    hang_up(host)\n";
        let (directory, elsewhere) = tree(&[("net.py", source), ("notes.unknown", "first\ndial again\n")]);
        let workspace = workspace(&directory, elsewhere.path());
        let search = |query: &str| {
            ask(&workspace, "search", json!({"query": query})).unwrap_or_else(|error| error.report())
        };
        let expected = "1. net.py:1-2 function connect\n2|     return dial(host)\n2. notes.unknown:2-2 module\n2| dial again\n";
        assert_eq!(search("\"DIAL\""), expected);
        let read = ask(&workspace, "read_unit", json!({"path": "notes.unknown", "line": 2})).unwrap();
        assert!(read.contains("2| dial again\n"));
        assert!(search("name:clo*").starts_with("1. net.py:5-6 function close\n"), "{}", search("name:clo*"));
        assert!(search("/dial(/").contains("is not a regular expression"), "{}", search("/dial(/"));
        let text = search("host file:net.py");
        assert!(text.starts_with("Note: `file:` is not a key"), "{text}");
    }

    #[test]
    fn reads_of_search_results_are_observed() {
        let source = "def connect(host):\n    return dial(host)\n\n\ndef close(socket):\n    socket.shut()\n";
        let other = ("other.py", "def unrelated():\n    return 1\n");
        let (directory, elsewhere) = tree(&[("net.py", source), other]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (observed, noted) = (Arc::clone(&seen), Arc::clone(&seen));
        let workspace = workspace(&directory, elsewhere.path())
            .with_observer(move |searched, tokens| noted.lock().unwrap().push((searched.clone(), tokens())));
        let call = |name: &str, arguments: Value| ask(&workspace, name, arguments).unwrap();
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
