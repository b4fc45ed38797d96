//! The folders of a client, and their indexes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quarry_index::{Behind, Event, Index, SplitFiles};
use quarry_related::Background;
use quarry_session::settings::SearchDefaults;
use quarry_session::{Notice, Session, SessionError, SharedTree, Snapshot, StatusView, Tree};
use quarry_text::counted;
use serde_json::{Value, json};

use crate::OpenError;
use crate::documents::Documents;
use crate::error::RequestError;
use crate::locations::uri_of;
use crate::outbox::Outbox;

/// Maximum number of folders of a client that are searched; further ones are ignored.
pub(crate) const MAX_FOLDERS: usize = 64;

/// Opens trees according to the command line and settings.
pub trait Opener: Send + Sync + 'static {
    /// Names of the search qualities that are available.
    fn qualities(&self) -> Vec<String>;

    /// Absolute paths that are searched in addition to the client's folders.
    fn paths(&self) -> Vec<PathBuf>;

    /// Creates a session for the trees at some paths, with a search quality.
    fn session(&self, paths: &[PathBuf], quality: Option<&str>) -> Session;

    /// Receives notices about events while an index is opened, from several threads.
    fn notify(&self, notice: Notice);

    /// The state of the index of each path.
    ///
    /// # Errors
    /// When one cannot be read.
    fn status(&self, paths: &[PathBuf]) -> Result<Vec<StatusView>, OpenError>;

    /// Calls `changed` whenever files at some paths have changed, until the returned value is dropped.
    fn watch(&self, paths: &[PathBuf], changed: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Send>;
}

pub(crate) struct Folders<O> {
    opener: O,
    outbox: Outbox,
    /// In the client's spelling.
    paths: Mutex<Vec<PathBuf>>,
    /// Folders that are not searched because there are too many.
    left_out: Mutex<Vec<PathBuf>>,
    /// Quality requested by the client at initialization.
    quality: Mutex<Option<String>>,
    documents: Mutex<Documents>,
    /// Documents that are already split.
    split: SplitFiles,
    /// Time of the last file change.
    changed: Mutex<Instant>,
    /// The searched folders, by quality.
    trees: Mutex<HashMap<Option<String>, Arc<Trees>>>,
    related: Arc<Background>,
}

/// Folders, with the unsaved documents of editors.
struct Trees {
    session: Session,
    /// The index with unsaved documents, along with the versions of the documents and the index that it reflects.
    unsaved: Mutex<Option<(u64, Arc<Index>, SharedTree)>>,
}

/// An index that answers one request.
pub(crate) struct Searchable {
    /// The folders, in the client's spelling.
    paths: Vec<PathBuf>,
    /// The directories that the paths of results are relative to, in the client's spelling.
    directories: Vec<PathBuf>,
    pub(crate) defaults: SearchDefaults,
    /// The index of all folders, including unsaved documents.
    pub(crate) tree: Tree,
    /// The index of all folders as saved.
    pub(crate) saved: Tree,
    pub(crate) related: Arc<Background>,
    pub(crate) open_time: Duration,
}

impl<O: Opener> Folders<O> {
    pub(crate) fn new(opener: O, outbox: Outbox) -> Self {
        let paths = Mutex::new(opener.paths());
        Self {
            opener,
            outbox,
            paths,
            left_out: Mutex::default(),
            quality: Mutex::default(),
            documents: Mutex::default(),
            split: SplitFiles::default(),
            changed: Mutex::new(Instant::now()),
            trees: Mutex::default(),
            related: Arc::default(),
        }
    }

    pub(crate) fn opener(&self) -> &O {
        &self.opener
    }

    /// Sets the quality of searches that do not specify one.
    pub(crate) fn set_quality(&self, quality: Option<String>) {
        *lock(&self.quality) = quality;
    }

    /// Updates the folders after some were opened and closed. Returns the number of omitted ones, if there are too
    /// many.
    pub(crate) fn change_paths(&self, closed: &[PathBuf], opened: Vec<PathBuf>) -> usize {
        let given = self.opener.paths();
        let mut paths = lock(&self.paths);
        paths.retain(|path| given.contains(path) || !closed.contains(path));
        let mut left_out = lock(&self.left_out);
        left_out.retain(|path| !closed.contains(path) && !opened.contains(path));
        for path in opened {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let n_searched = MAX_FOLDERS.min(paths.len());
        left_out.extend(paths.split_off(n_searched));
        // Closed folders make room for others.
        let n_free = (MAX_FOLDERS - paths.len()).min(left_out.len());
        paths.extend(left_out.drain(..n_free));
        left_out.len()
    }

    /// The current folders, without duplicates.
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

    pub(crate) fn mark_changed(&self) {
        *lock(&self.changed) = Instant::now();
    }

    /// Time of the last file change.
    pub(crate) fn changed(&self) -> Instant {
        *lock(&self.changed)
    }

    pub(crate) fn status(&self) -> Result<Vec<StatusView>, OpenError> {
        self.opener.status(&self.paths())
    }

    /// Answers from the index of the current files and documents, and again if that index is overwritten meanwhile.
    pub(crate) fn answer<T>(
        &self,
        quality: Option<&str>,
        events: &(dyn Fn(&Event) + Sync),
        answer: impl Fn(&Searchable) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let begun = Instant::now();
        let changed = self.changed();
        let trees = self.trees(quality);
        let notices = |notice: Notice| self.handle_notice(notice, events);
        trees.session.ask(Some(changed), &notices, |indexed, snapshot| {
            let changed_files = indexed.changed_files().cloned();
            changed_files.iter().for_each(|behind| self.report_behind(behind));
            let tree = self.with_unsaved(&trees, snapshot)?.behind(changed_files).tree();
            let directory = |path: &PathBuf| match path.parent() {
                Some(parent) if path.is_file() => parent.to_owned(),
                _ => path.clone(),
            };
            answer(&Searchable {
                paths: snapshot.paths.clone(),
                directories: snapshot.paths.iter().map(directory).collect(),
                defaults: snapshot.defaults.clone(),
                tree,
                saved: snapshot.tree(),
                related: Arc::clone(&self.related),
                open_time: begun.elapsed(),
            })
        })
    }

    /// Updates the index to the current files and documents.
    pub(crate) fn refresh(&self, events: &(dyn Fn(&Event) + Sync)) -> Result<(), RequestError> {
        let changed = self.changed();
        let trees = self.trees(None);
        let snapshot = trees.session.snapshot(Some(changed), &|notice| self.handle_notice(notice, events))?;
        self.with_unsaved(&trees, &snapshot).map(drop)
    }

    fn handle_notice(&self, notice: Notice, events: &(dyn Fn(&Event) + Sync)) {
        match notice {
            Notice::Event(event) => events(event),
            notice => self.opener.notify(notice),
        }
    }

    /// Tells the client which files the answer does not reflect in their current state.
    fn report_behind(&self, behind: &Behind) {
        let paths = behind.files.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>().join(", ");
        let more = if behind.files.len() < behind.total { ", …" } else { "" };
        let n_files = counted(behind.total, "file");
        let message =
            format!("{n_files} changed since the index was built; it is being updated: {paths}{more}");
        self.outbox.notify("window/logMessage", json!({"type": 3, "message": message}));
    }

    /// The searched folders with a quality, by default that of the client.
    fn trees(&self, quality: Option<&str>) -> Arc<Trees> {
        let quality = quality.map(str::to_owned).or_else(|| lock(&self.quality).clone());
        let paths = self.paths();
        let mut all = lock(&self.trees);
        // Opened or closed folders are a change for all qualities.
        all.retain(|_, trees| trees.session.paths() == paths);
        let new =
            || Trees { session: self.opener.session(&paths, quality.as_deref()), unsaved: Mutex::default() };
        Arc::clone(all.entry(quality.clone()).or_insert_with(|| Arc::new(new())))
    }

    /// The tree with the current documents.
    fn with_unsaved(&self, trees: &Trees, snapshot: &Snapshot) -> Result<SharedTree, RequestError> {
        let index = &snapshot.shared().index;
        let mut unsaved = lock(&trees.unsaved);
        let documents = self.documents();
        let version = documents.version();
        if let Some((of, base, tree)) = &*unsaved
            && *of == version
            && Arc::ptr_eq(base, index)
        {
            return Ok(tree.clone());
        }
        let texts = documents.all();
        drop(documents);
        let tree = match index.with_unsaved(&texts, &self.split)? {
            Some(index) => Tree::new(&snapshot.paths, index).map_err(SessionError::from)?.shared(),
            None => snapshot.shared().clone(),
        };
        *unsaved = Some((version, Arc::clone(index), tree.clone()));
        Ok(tree)
    }
}

impl Searchable {
    /// Number of the folder that contains a path, the innermost of several, and the path relative to it.
    pub(crate) fn place_of(&self, path: &Path) -> Option<(usize, String)> {
        let relative = |number: usize| {
            let inside = path.strip_prefix(self.tree.root(number)).ok()?;
            let parts: Option<Vec<&str>> = inside.iter().map(|part| part.to_str()).collect();
            Some((number, parts?.join("/")))
        };
        (0..self.tree.n_paths()).filter_map(relative).min_by_key(|(_, path)| path.len())
    }

    /// Number of the folder at a path, in the client's spelling or that of its link target.
    pub(crate) fn folder_at(&self, path: &Path) -> Option<usize> {
        let canonical = path.canonicalize();
        let is_it = |number: &usize| {
            self.paths[*number] == path
                || canonical.as_ref().is_ok_and(|path| Path::new(&self.tree.root(*number)) == path)
        };
        (0..self.paths.len()).find(is_it)
    }

    /// The absolute path of a file in a folder, in the client's spelling.
    pub(crate) fn spelled(&self, root: usize, path: &str) -> PathBuf {
        self.directories[root].join(path)
    }

    /// Adds `uri` to each object that has a `root` and a `path`.
    pub(crate) fn add_uris(&self, value: &mut Value) {
        let directories: HashMap<String, &PathBuf> = (0..self.tree.n_paths())
            .rev()
            .map(|root| (self.tree.root(root), &self.directories[root]))
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
