//! The folders of a client, and their indexes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quarry_answer::{SharedTree, Shown, StatusView, Tree};
use quarry_index::{Event, RankingWeights};
use serde_json::Value;

use crate::OpenError;
use crate::documents::Documents;
use crate::error::RequestError;
use crate::locations::uri_of;

/// How often an index is opened again that another program overwrites meanwhile.
const MAX_TIMES: usize = 5;

/// Folders of a client that are searched; the first ones.
const MAX_FOLDERS: usize = 64;

/// Opens trees as the command line and settings say.
pub trait Opener: Send + Sync + 'static {
    /// Names of the qualities that a search may have.
    fn qualities(&self) -> Vec<String>;

    /// Paths that are searched besides the client's folders, absolute.
    fn paths(&self) -> Vec<PathBuf>;

    /// Opens the indexes of some paths, and refreshes them first. Searched paths have the numbers of `paths`. `events` is
    /// called from several threads.
    ///
    /// # Errors
    /// When one cannot be read or indexed, or all have nothing to index.
    fn open(
        &self,
        paths: &[PathBuf],
        quality: Option<&str>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, OpenError>;

    /// The state of the index of each path.
    ///
    /// # Errors
    /// When one cannot be read.
    fn status(&self, paths: &[PathBuf]) -> Result<Vec<StatusView>, OpenError>;

    /// Calls `changed` whenever files of some paths have changed, until what is returned is dropped.
    fn watch(&self, paths: &[PathBuf], changed: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Send>;
}

/// What was opened, and how it is searched unless a request says otherwise.
pub struct Opened {
    /// The index of all paths.
    pub tree: Tree,
    /// How a search ranks.
    pub ranking: RankingWeights,
    /// Maximum number of results.
    pub limit: usize,
    /// Minimum confidence, if one is given.
    pub threshold: Option<f32>,
    /// What is shown of results.
    pub shown: Shown,
}

/// The folders of a client.
pub(crate) struct Folders<O> {
    opener: O,
    /// As the client spells them.
    paths: Mutex<Vec<PathBuf>>,
    /// What the client asked for at the start.
    quality: Mutex<Option<String>>,
    documents: Mutex<Documents>,
    /// Counts changes of files.
    n_changes: AtomicU64,
    /// By quality.
    opened: Mutex<HashMap<Option<String>, Arc<Slot>>>,
}

/// Holds what was opened last; locked while it is opened.
type Slot = Mutex<Option<Current>>;

/// The index as it was opened last.
struct Current {
    /// How many changes it reflects, and the paths that it is of.
    state: (u64, Vec<PathBuf>),
    base: Arc<Base>,
    /// With what editors have not saved, and the version of the documents that this reflects.
    unsaved: Option<(u64, SharedTree)>,
}

/// An index of what is on disk.
struct Base {
    paths: Vec<PathBuf>,
    /// The directories that the paths of results are relative to, as the client spells them.
    directories: Vec<PathBuf>,
    tree: SharedTree,
    ranking: RankingWeights,
    limit: usize,
    threshold: Option<f32>,
    shown: Shown,
}

/// An index that answers one request.
pub(crate) struct Searchable {
    base: Arc<Base>,
    /// The index of all folders, with what is not saved.
    pub(crate) tree: Tree,
    /// Time of opening it.
    pub(crate) open_time: Duration,
}

impl<O: Opener> Folders<O> {
    pub(crate) fn new(opener: O) -> Self {
        let paths = Mutex::new(opener.paths());
        Self {
            opener,
            paths,
            quality: Mutex::default(),
            documents: Mutex::default(),
            n_changes: AtomicU64::new(0),
            opened: Mutex::default(),
        }
    }

    pub(crate) fn opener(&self) -> &O {
        &self.opener
    }

    /// The quality of searches that do not say one.
    pub(crate) fn set_quality(&self, quality: Option<String>) {
        *lock(&self.quality) = quality;
    }

    /// Folders were opened and closed.
    pub(crate) fn change_paths(&self, closed: &[PathBuf], opened: Vec<PathBuf>) {
        let given = self.opener.paths();
        let mut paths = lock(&self.paths);
        paths.retain(|path| given.contains(path) || !closed.contains(path));
        for path in opened {
            if !paths.contains(&path) && paths.len() < MAX_FOLDERS {
                paths.push(path);
            }
        }
    }

    /// Those that are there now, each once.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let mut seen = Vec::new();
        let mut paths = lock(&self.paths).clone();
        paths.retain(|path| {
            path.canonicalize().is_ok_and(|path| {
                let is_new = !seen.contains(&path);
                seen.push(path);
                is_new
            })
        });
        paths
    }

    pub(crate) fn documents(&self) -> MutexGuard<'_, Documents> {
        lock(&self.documents)
    }

    /// Files may have changed.
    pub(crate) fn mark_changed(&self) {
        self.n_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The state of the index of each folder.
    pub(crate) fn status(&self) -> Result<Vec<StatusView>, OpenError> {
        self.opener.status(&self.paths())
    }

    /// Answers from the index as files and documents are now, and again if that is overwritten meanwhile.
    ///
    /// # Errors
    /// Those of `answer`, and when the folders cannot be searched.
    pub(crate) fn answer<T>(
        &self,
        quality: Option<&str>,
        events: &(dyn Fn(Event) + Sync),
        answer: impl Fn(&Searchable) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let quality = quality.map(str::to_owned).or_else(|| lock(&self.quality).clone());
        let slot = Arc::clone(lock(&self.opened).entry(quality.clone()).or_default());
        let attempt = || {
            let current = self.current(&slot, quality.as_deref(), events)?;
            answer(&current)
        };
        for _ in 1..MAX_TIMES {
            match attempt() {
                Err(RequestError::Replaced) => *lock(&slot) = None,
                answered => return answered,
            }
        }
        attempt()
    }

    fn current(
        &self,
        slot: &Slot,
        quality: Option<&str>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Searchable, RequestError> {
        let begun = Instant::now();
        // Whoever comes while it is opened waits here.
        let mut slot = lock(slot);
        let state = (self.n_changes.load(Ordering::SeqCst), self.paths());
        if slot.as_ref().is_none_or(|current| current.state != state) {
            let base = Arc::new(self.open(&state.1, quality, events)?);
            *slot = Some(Current { state, base, unsaved: None });
        }
        let Some(current) = &mut *slot else { return Err(RequestError::Replaced) };
        let documents = self.documents();
        let version = documents.version();
        let is_current = current.unsaved.as_ref().is_some_and(|(of, _)| *of == version);
        let texts = if is_current { Vec::new() } else { documents.all() };
        drop(documents);
        let Current { base, unsaved, .. } = current;
        if !is_current {
            let tree = match base.tree.index.with_unsaved(&texts)? {
                Some(index) => {
                    let tree = Tree::new(&base.paths, index);
                    tree.map_err(|error| OpenError::Failed(error.to_string()))?.shared()
                }
                None => base.tree.clone(),
            };
            *unsaved = Some((version, tree));
        }
        let tree = unsaved.as_ref().map_or(&base.tree, |(_, tree)| tree).tree();
        Ok(Searchable { base: Arc::clone(base), tree, open_time: begun.elapsed() })
    }

    fn open(
        &self,
        paths: &[PathBuf],
        quality: Option<&str>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Base, OpenError> {
        if paths.is_empty() {
            return Err(OpenError::Nothing("no folder is open; open one to search it".to_owned()));
        }
        let Opened { tree, ranking, limit, threshold, shown } = self.opener.open(paths, quality, events)?;
        let directory = |path: &PathBuf| match path.parent() {
            Some(parent) if path.is_file() => parent.to_owned(),
            _ => path.clone(),
        };
        let directories = paths.iter().map(directory).collect();
        let (paths, tree) = (paths.to_vec(), tree.shared());
        Ok(Base { paths, directories, tree, ranking, limit, threshold, shown })
    }
}

impl Searchable {
    pub(crate) fn ranking(&self) -> &RankingWeights {
        &self.base.ranking
    }

    pub(crate) fn limit(&self) -> usize {
        self.base.limit
    }

    pub(crate) fn threshold(&self) -> Option<f32> {
        self.base.threshold
    }

    pub(crate) fn shown(&self) -> &Shown {
        &self.base.shown
    }

    /// Number of the folder that a path is in, the innermost of several, and the path relative to it.
    pub(crate) fn place_of(&self, path: &Path) -> Option<(usize, String)> {
        let relative = |number: usize| {
            let inside = path.strip_prefix(self.tree.root(number)).ok()?;
            let parts: Option<Vec<&str>> = inside.iter().map(|part| part.to_str()).collect();
            Some((number, parts?.join("/")))
        };
        (0..self.tree.n_paths()).filter_map(relative).min_by_key(|(_, path)| path.len())
    }

    /// Number of the folder that is at a path, as the client or its links spell it.
    pub(crate) fn folder_at(&self, path: &Path) -> Option<usize> {
        let canonical = path.canonicalize();
        let is_it = |number: &usize| {
            self.base.paths[*number] == path
                || canonical.as_ref().is_ok_and(|path| Path::new(&self.tree.root(*number)) == path)
        };
        (0..self.base.paths.len()).find(is_it)
    }

    /// The absolute path of a file in a folder, as the client spells that.
    pub(crate) fn spelled(&self, root: usize, path: &str) -> PathBuf {
        self.base.directories[root].join(path)
    }

    /// Adds `uri` to each object that has a `root` and a `path`.
    pub(crate) fn add_uris(&self, value: &mut Value) {
        let directories: HashMap<String, &PathBuf> = (0..self.tree.n_paths())
            .rev()
            .map(|root| (self.tree.root(root), &self.base.directories[root]))
            .collect();
        add_uris(value, &directories);
    }
}

fn add_uris(value: &mut Value, directories: &HashMap<String, &PathBuf>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add_uris(item, directories)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| add_uris(field, directories));
            if let (Some(Value::String(root)), Some(Value::String(path))) =
                (fields.get("root"), fields.get("path"))
            {
                let directory =
                    directories.get(root).map_or(Path::new(root), |directory| directory.as_path());
                if let Some(uri) = uri_of(&directory.join(path)) {
                    fields.insert("uri".to_owned(), Value::from(uri.as_str()));
                }
            }
        }
        _ => {}
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
