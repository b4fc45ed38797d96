//! Source trees that are opened once, kept fresh, and queried.
//!
//! A [`Session`] resolves the settings of its paths, opens their index, and opens it again when files have changed. An index
//! that turns out to be damaged, replaced by another program, or to make a question panic counts as gone: it is opened or
//! built again, and asked once more ([`Session::ask`]).
//!
//! A server does not let questions wait long ([`Session::waiting`]): the refresh of an index goes on in the background, and
//! meanwhile an answer from the index as it is names the files that have changed since.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quarry_embed::Embedder;
use quarry_index::{
    Behind, Error, Event, Filter, Index, OpenOptions, Opened, RankingWeights, RebuildReason, SegmentPool,
    Update, UserDirectories,
};
use quarry_walk::{self as walk, LanguageMap, Listing, WalkChoice, WalkOptions};
use xxhash_rust::xxh3::Xxh3;

use crate::models::{ModelChoice, ModelError, Rerank};
use crate::settings::{Narrowing, SearchDefaults, Settings, SettingsError};
use crate::{SharedTree, Tree, TreeError};

/// Maximum number of times that an index is opened again because other programs replace it meanwhile.
const MAX_TIMES: usize = 5;

/// Age from which the times of a file prove that it has not changed since: file systems count in steps of up to 2 s.
const CLOCK_STEP: Duration = Duration::from_secs(2);

/// Options for opening trees, regardless of the settings of each.
#[derive(Clone, Default)]
pub struct OpenChoice {
    /// Directory of the index of a single path.
    pub directory: Option<PathBuf>,
    /// The model that finds results, by its path or as [`BUILTIN`](crate::models::BUILTIN).
    pub model: Option<PathBuf>,
    /// Choice of the files that are found.
    pub walk: WalkChoice,
    /// Models that re-rank; without, results are not re-ranked.
    pub rerank: Option<Rerank>,
    /// Models that were loaded.
    pub models: Models,
    /// Limits how much of the indexes is open at a time.
    pub pool: Option<Arc<SegmentPool>>,
    /// The user's own directories.
    pub user: UserDirectories,
    /// A search to measure, whatever the settings say; its index is opened as it is.
    pub measured: Option<MeasuredSearch>,
    /// Counts changes that are not of files, such as vectors that were computed ahead: indexes are opened again.
    pub n_changes: Arc<AtomicU64>,
}

#[derive(Clone)]
pub struct MeasuredSearch {
    pub model: Arc<dyn Embedder>,
    pub ranking: RankingWeights,
}

/// Models, each loaded once.
#[derive(Clone, Default)]
pub struct Models {
    directories: Vec<PathBuf>,
    loaded: Arc<Mutex<HashMap<ModelChoice, Arc<dyn Embedder>>>>,
}

impl Models {
    /// Models; those that come with the program are in one of `directories`.
    pub fn in_directories(directories: Vec<PathBuf>) -> Self {
        Self { directories, loaded: Arc::default() }
    }

    fn load(&self, choice: ModelChoice, searched: &Path) -> Result<Arc<dyn Embedder>, ModelError> {
        let mut loaded = lock(&self.loaded);
        if let Some(model) = loaded.get(&choice) {
            return Ok(Arc::clone(model));
        }
        let model = choice.load(searched, &self.directories)?;
        loaded.insert(choice, Arc::clone(&model));
        Ok(model)
    }
}

impl OpenChoice {
    /// The options of a tree with these settings. Settings count less than what an index remembers.
    pub fn options(&self, settings: &Settings) -> OpenOptions {
        let of_settings =
            WalkChoice { max_bytes: settings.get(|layer| layer.max_bytes), ..WalkChoice::default() };
        let languages = LanguageMap::new(settings.get(|layer| layer.languages.clone()).unwrap_or_default());
        OpenOptions {
            directory: self.directory.clone(),
            walk: self.walk,
            defaults: of_settings.over(&WalkOptions { languages, ..WalkOptions::default() }),
            pool: self.pool.clone(),
            user: self.user.clone(),
            ..OpenOptions::default()
        }
    }

    /// The model of some paths.
    ///
    /// # Errors
    /// When it is missing or damaged, or the paths use different ones.
    pub fn load_model(
        &self,
        paths: &[PathBuf],
        settings: &[Settings],
    ) -> Result<Arc<dyn Embedder>, SessionError> {
        let choices = paths.iter().zip(settings).map(|(path, settings)| self.model_choice(path, settings));
        let choices = choices.collect::<Result<Vec<_>, _>>()?;
        // Vectors of several models cannot be compared.
        if let Some(other) = choices.iter().position(|choice| choice.path != choices[0].path) {
            return Err(SessionError::SeveralModels {
                paths: Box::new([paths[0].clone(), paths[other].clone()]),
                models: [choices[0].to_string(), choices[other].to_string()],
            });
        }
        let searched = paths.first().map_or(Path::new("."), PathBuf::as_path);
        Ok(self.models.load(choices.into_iter().next().unwrap_or_default(), searched)?)
    }

    fn model_choice(&self, path: &Path, settings: &Settings) -> Result<ModelChoice, Error> {
        let choice = ModelChoice::resolve(self.model.as_deref(), path, &self.options(settings), settings)?;
        Ok(choice.reranked(self.rerank.as_ref(), settings))
    }
}

/// Trees that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A settings file cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The index fails.
    #[error(transparent)]
    Index(#[from] Error),
    /// A path is missing.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The directory of an index was named for several paths.
    #[error("--index {} is the index of one path; name one PATH, or omit --index", .0.display())]
    OneIndex(PathBuf),
    /// Paths use different models.
    #[error(
        "{} uses {}, {} uses {}; name one model for both with --model",
        paths[0].display(), models[0], paths[1].display(), models[1]
    )]
    SeveralModels {
        /// Two of the paths.
        paths: Box<[PathBuf; 2]>,
        /// Their models, in words.
        models: [String; 2],
    },
    /// There is no path to search.
    #[error("no folder is open; open one to search it")]
    NoPath,
}

impl AsRef<dyn StdError + 'static> for SessionError {
    fn as_ref(&self) -> &(dyn StdError + 'static) {
        self
    }
}

/// A notice that a session sends while it opens an index. Several threads send notices.
#[derive(Clone, Copy)]
pub enum Notice<'a> {
    /// The progress of a build.
    Event(&'a Event<'a>),
    /// Settings that are ignored, or models of some paths.
    Ignored(&'a SessionError),
    /// One of several paths cannot be searched, and is skipped.
    Unsearched(&'a Error),
    /// The indexes, before they are joined.
    Opened(&'a [Opened]),
    /// The index of all paths.
    Ready(&'a Index),
}

/// The receiver of notices.
pub type Notices<'a> = &'a (dyn Fn(Notice) + Sync);

/// Source trees that are searched together. Clones share the index.
#[derive(Clone)]
pub struct Session {
    paths: Vec<PathBuf>,
    choice: OpenChoice,
    narrowing: Narrowing,
    update: Update,
    needs_model: bool,
    is_exact: bool,
    is_lenient: bool,
    compares_files: bool,
    patience: Option<Patience>,
    opening: Arc<OpeningLock>,
    opened: Arc<Mutex<Option<Arc<Snapshot>>>>,
}

/// Limit on the time that questions wait for a refresh.
#[derive(Clone)]
struct Patience {
    wait: Duration,
    /// Receives the notices of a refresh, except for its progress.
    on_notice: Arc<dyn Fn(Notice) + Send + Sync>,
}

/// Lets one thread at a time open an index.
#[derive(Default)]
struct OpeningLock {
    /// Start time of the thread that opens it, if any.
    begun: Mutex<Option<Instant>>,
    ended: Condvar,
}

/// Held while the index is opened.
struct OpeningGuard(Arc<OpeningLock>);

/// A message from the thread that opens an index to the question that waits for it.
enum Message {
    Rebuilding(RebuildReason),
    Progress(Event<'static>),
    Opened(Result<Arc<Snapshot>, SessionError>),
}

/// The index of the trees of a session as it was opened once.
pub struct Snapshot {
    /// The searched paths, by which results number their roots.
    pub paths: Vec<PathBuf>,
    /// Number of the paths of the session that are not searched: they are missing, or have nothing to index.
    pub n_unsearched: usize,
    /// The settings that all paths share.
    pub settings: Settings,
    /// True if settings or the command leave something out.
    pub is_narrowed: bool,
    /// Default parameters of a search.
    pub defaults: SearchDefaults,
    tree: SharedTree,
    /// Time of its last comparison with the files; none if it was opened as it is.
    compared: Mutex<Option<Instant>>,
    /// The files that have changed since it was opened, for questions about a time.
    behind: Mutex<Option<(Instant, Option<Arc<Behind>>)>>,
    n_changes: u64,
    state: Option<State>,
}

/// Hash of what an index depends on: settings and files.
#[derive(PartialEq, Eq)]
struct State(u64);

impl Session {
    /// The directories of the user whose indexes are opened.
    pub fn user(&self) -> &UserDirectories {
        &self.choice.user
    }

    /// The trees at some paths. They are opened when they are asked first.
    pub fn new(paths: Vec<PathBuf>, choice: OpenChoice) -> Self {
        let update = if choice.measured.is_some() { Update::Never } else { Update::IfPossible };
        Self {
            paths,
            choice,
            narrowing: Narrowing::default(),
            update,
            needs_model: true,
            is_exact: false,
            is_lenient: false,
            compares_files: false,
            patience: None,
            opening: Arc::default(),
            opened: Arc::default(),
        }
    }

    /// Narrows all questions.
    #[must_use]
    pub fn narrowed(self, narrowing: Narrowing) -> Self {
        Self { narrowing, ..self }
    }

    /// Refreshes the index as `update` says.
    #[must_use]
    pub fn with_update(self, update: Update) -> Self {
        Self { update, ..self }
    }

    /// Opens the index without a model, for questions that rank nothing.
    #[must_use]
    pub fn without_model(self) -> Self {
        Self { needs_model: false, ..self }
    }

    /// Opens paths too in which nothing can be indexed, for questions about all text.
    #[must_use]
    pub fn with_all_text(self) -> Self {
        Self { is_exact: true, ..self }
    }

    /// Leaves out paths that are missing and settings that cannot be read, instead of failing, and searches all paths with
    /// the model of the first.
    #[must_use]
    pub fn lenient(self) -> Self {
        Self { is_lenient: true, ..self }
    }

    /// Opens the index again only if settings or files have changed since. Otherwise it is opened again for each question
    /// about a later time.
    #[must_use]
    pub fn comparing_files(self) -> Self {
        Self { compares_files: true, ..self }
    }

    /// Limits the time that questions wait for a refresh to `wait`; the refresh then goes on in the background, and
    /// its notices, except for its progress, go to `on_notice`. A first index is waited for.
    #[must_use]
    pub fn waiting(self, wait: Duration, on_notice: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self { patience: Some(Patience { wait, on_notice: Arc::new(on_notice) }), ..self }
    }

    /// The index as it was opened last.
    pub fn opened(&self) -> Option<Arc<Snapshot>> {
        lock(&self.opened).clone()
    }

    /// The paths, as given.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The index as its files were at `as_of` or later; without `as_of`, as it was opened last.
    ///
    /// # Errors
    /// When a tree cannot be read or indexed, or its settings or model cannot be used.
    pub fn snapshot(&self, as_of: Option<Instant>, notices: Notices) -> Result<Arc<Snapshot>, SessionError> {
        if let Some(snapshot) = self.opened().filter(|_| as_of.is_none()) {
            return Ok(snapshot);
        }
        // Callers that ask while it is being opened wait here, and share it.
        let opening = self.opening.begin();
        match self.opened() {
            Some(snapshot) if as_of.is_none_or(|as_of| self.is_fresh(&snapshot, as_of)) => Ok(snapshot),
            _ => self.open_now(self.update, &opening, notices),
        }
    }

    /// The index as its files were at `as_of` or later. If it is not refreshed within the time that questions wait
    /// ([`waiting`](Self::waiting)), the index as it is, with the files that have changed since.
    ///
    /// # Errors
    /// When a tree cannot be read or indexed, or its settings or model cannot be used.
    pub fn latest(
        &self,
        as_of: Instant,
        notices: Notices,
    ) -> Result<(Arc<Snapshot>, Option<Arc<Behind>>), SessionError> {
        let in_time = || Ok((self.snapshot(Some(as_of), notices)?, None));
        let Some(Patience { wait, on_notice }) = &self.patience else { return in_time() };
        if let Some(snapshot) = self.opened().filter(|snapshot| self.is_known(snapshot, as_of)) {
            return Ok((snapshot, None));
        }
        let deadline = Instant::now() + *wait;
        let Some(opening) = self.opening.begin_within(*wait) else {
            return self.stale_snapshot(as_of).map_or_else(in_time, Ok);
        };
        if let Some(snapshot) = self.opened().filter(|snapshot| self.is_fresh(snapshot, as_of)) {
            return Ok((snapshot, None));
        }
        let (sender, received) = mpsc::channel();
        let (session, on_notice) = (self.clone(), Arc::clone(on_notice));
        thread::spawn(move || {
            let notices = |notice: Notice| {
                let message = match notice {
                    Notice::Event(Event::Rebuilding(reason)) => Message::Rebuilding((*reason).clone()),
                    Notice::Event(Event::Waiting) => Message::Progress(Event::Waiting),
                    Notice::Event(&Event::Read { done, total }) => {
                        Message::Progress(Event::Read { done, total })
                    }
                    Notice::Event(&Event::Embedded { done, total }) => {
                        Message::Progress(Event::Embedded { done, total })
                    }
                    notice => return on_notice(notice),
                };
                // The question may no longer wait for it.
                let _ = sender.send(message);
            };
            let opened = session.open_now(session.update, &opening, &notices);
            drop(opening);
            let _ = sender.send(Message::Opened(opened));
        });
        let mut deadline = Some(deadline);
        loop {
            let message = match deadline {
                Some(deadline) => received.recv_timeout(deadline.saturating_duration_since(Instant::now())),
                None => received.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Rebuilding(reason)) => notices(Notice::Event(&Event::Rebuilding(&reason))),
                Ok(Message::Progress(event)) => notices(Notice::Event(&event)),
                Ok(Message::Opened(opened)) => return Ok((opened?, None)),
                Err(mpsc::RecvTimeoutError::Timeout) => match self.stale_snapshot(as_of) {
                    Some(found) => return Ok(found),
                    None => deadline = None,
                },
                // The thread panicked. Opening the index on this one passes the panic on.
                Err(mpsc::RecvTimeoutError::Disconnected) => return in_time(),
            }
        }
    }

    /// The index as it was opened last, or as it is stored, with the files that have changed since; none if these are
    /// unknown.
    fn stale_snapshot(&self, as_of: Instant) -> Option<(Arc<Snapshot>, Option<Arc<Behind>>)> {
        let snapshot = match self.opened() {
            Some(snapshot) => snapshot,
            None => {
                let stored = self.open(Update::Never, &|_| {}).ok()?;
                // A first index of some of the trees is waited for.
                if stored.n_unsearched > self.paths.len() - self.present().len() {
                    return None;
                }
                // The refresh may have ended meanwhile.
                Arc::clone(lock(&self.opened).get_or_insert(Arc::new(stored)))
            }
        };
        let mut known = lock(&snapshot.behind);
        let behind = match &*known {
            Some((of, behind)) if *of == as_of => behind.clone(),
            _ => Some(snapshot.tree.index.behind()?).filter(|behind| behind.total > 0).map(Arc::new),
        };
        *known = Some((as_of, behind.clone()));
        drop(known);
        Some((snapshot, behind))
    }

    /// Answers a question from the index as its files were at `as_of` or later, see [`latest`](Self::latest); without `as_of`,
    /// as it was opened last. If the index is gone, it is opened or built again, and asked once more.
    ///
    /// # Errors
    /// Those of the question, and when the index cannot be opened.
    pub fn ask<T, E>(
        &self,
        as_of: Option<Instant>,
        notices: Notices,
        question: impl Fn(&Tree, &Snapshot) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<SessionError> + AsRef<dyn StdError + 'static>,
    {
        let (mut snapshot, mut behind) = match as_of {
            Some(as_of) => self.latest(as_of, notices)?,
            None => (self.snapshot(None, notices)?, None),
        };
        let mut may_be_built = self.update != Update::Never;
        let mut n_left = MAX_TIMES;
        loop {
            let answered = catch_unwind(AssertUnwindSafe(|| -> Result<T, E> {
                let tree = snapshot.tree.clone().behind(behind.clone()).tree();
                let answer = question(&tree, &snapshot)?;
                tree.index.check_intact().map_err(SessionError::from)?;
                Ok(answer)
            }));
            let loss = match &answered {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Loss::find(error.as_ref()),
                Err(_) => Some(Loss::Damaged),
            };
            let update = match loss {
                Some(Loss::Replaced) if n_left > 0 => self.update,
                Some(Loss::Damaged) if may_be_built => Update::Anew,
                _ => return answered.unwrap_or_else(|panic| resume_unwind(panic)),
            };
            n_left = n_left.saturating_sub(1);
            may_be_built &= update != Update::Anew;
            (snapshot, behind) = (self.reopen(&snapshot, update, notices)?, None);
        }
    }

    /// Opens the index anew, unless another thread has done so since `gone` was opened.
    fn reopen(
        &self,
        gone: &Arc<Snapshot>,
        update: Update,
        notices: Notices,
    ) -> Result<Arc<Snapshot>, SessionError> {
        let opening = self.opening.begin();
        match self.opened().filter(|snapshot| !Arc::ptr_eq(snapshot, gone)) {
            Some(snapshot) => Ok(snapshot),
            None => self.open_now(update, &opening, notices),
        }
    }

    fn open_now(
        &self,
        update: Update,
        _opening: &OpeningGuard,
        notices: Notices,
    ) -> Result<Arc<Snapshot>, SessionError> {
        let opened = catch_unwind(AssertUnwindSafe(|| self.open(update, notices)));
        let may_be_built = matches!(update, Update::IfPossible | Update::Required);
        let snapshot = match opened {
            Ok(Err(error)) if may_be_built && matches!(Loss::find(&error), Some(Loss::Damaged)) => {
                self.open(Update::Anew, notices)?
            }
            Err(_) if may_be_built => self.open(Update::Anew, notices)?,
            opened => opened.unwrap_or_else(|panic| resume_unwind(panic))?,
        };
        let snapshot = Arc::new(snapshot);
        *lock(&self.opened) = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    fn open(&self, update: Update, notices: Notices) -> Result<Snapshot, SessionError> {
        let (begun, n_changes) = (Instant::now(), self.choice.n_changes.load(Ordering::SeqCst));
        let is_compared = update != Update::Never || self.update == Update::Never;
        let paths = self.present();
        if paths.is_empty() {
            return Err(SessionError::NoPath);
        }
        let settings = self.settings(&paths, notices)?;
        let mut options: Vec<OpenOptions> = settings.iter().map(|of| self.choice.options(of)).collect();
        if let (Some(index), [_, _, ..]) = (&self.choice.directory, paths.as_slice()) {
            return Err(SessionError::OneIndex(index.clone()));
        }
        let filter = |(settings, path): (&Settings, &PathBuf)| settings.filter(&self.narrowing, path);
        let filters: Vec<Filter> = settings.iter().zip(&paths).map(filter).collect::<Result<_, _>>()?;
        let is_narrowed = filters.iter().any(|filter| !filter.is_empty());
        let model = match self.needs_model || self.choice.model.is_some() {
            true => Some(self.model(&paths, &settings, notices)?),
            false => None,
        };
        let state =
            if self.compares_files && is_compared { state(&paths, &settings, &options) } else { None };
        options.iter_mut().for_each(|options| options.update = update);
        let (mut index, numbers) =
            open_all(&paths, options, model, (self.is_lenient, self.is_exact), notices)?;
        let n_unsearched = self.paths.len() - numbers.len();
        index.renumber(&numbers);
        for number in numbers {
            index.narrow(number, filters[number].clone());
        }
        notices(Notice::Ready(&index));
        let tree = Tree::new(&paths, index)?.shared();
        let settings = Settings::shared(&settings);
        let mut defaults = settings.search();
        if let Some(MeasuredSearch { ranking, .. }) = &self.choice.measured {
            defaults.ranking = ranking.clone();
        }
        Ok(Snapshot {
            paths,
            n_unsearched,
            settings,
            is_narrowed,
            defaults,
            tree,
            compared: Mutex::new(is_compared.then_some(begun)),
            behind: Mutex::default(),
            n_changes,
            state,
        })
    }

    /// Returns true if an index was compared with its files at `as_of` or later, or is never to be.
    fn is_known(&self, snapshot: &Snapshot, as_of: Instant) -> bool {
        let is_same = snapshot.n_changes == self.choice.n_changes.load(Ordering::SeqCst);
        let is_compared = || lock(&snapshot.compared).is_some_and(|compared| compared >= as_of);
        self.update == Update::Never || (is_same && is_compared())
    }

    /// Returns true if an index matches its files as of `as_of` or later.
    fn is_fresh(&self, snapshot: &Snapshot, as_of: Instant) -> bool {
        if self.is_known(snapshot, as_of) {
            return true;
        }
        let is_known = snapshot.n_changes == self.choice.n_changes.load(Ordering::SeqCst);
        let Some(known) = snapshot.state.as_ref().filter(|_| is_known) else {
            // An index in memory would have to be built again.
            return is_known && snapshot.tree.index.is_current_in_memory();
        };
        let compared = Instant::now();
        let paths = self.present();
        let Ok(settings) = self.settings(&paths, &|_| {}) else { return false };
        let options: Vec<OpenOptions> = settings.iter().map(|of| self.choice.options(of)).collect();
        let is_same = state(&paths, &settings, &options).is_some_and(|now| now == *known);
        if is_same {
            *lock(&snapshot.compared) = Some(compared);
        }
        is_same
    }

    /// The paths to search.
    fn present(&self) -> Vec<PathBuf> {
        if !self.is_lenient {
            return self.paths.clone();
        }
        let mut seen = Vec::new();
        let is_new = |path: &&PathBuf| {
            path.canonicalize().is_ok_and(|path| {
                let is_new = !seen.contains(&path);
                seen.push(path);
                is_new
            })
        };
        let present: Vec<PathBuf> = self.paths.iter().filter(is_new).cloned().collect();
        // The error names the missing ones.
        if present.is_empty() { self.paths.clone() } else { present }
    }

    fn settings(&self, paths: &[PathBuf], notices: Notices) -> Result<Vec<Settings>, SessionError> {
        let load = |path: &PathBuf| match Settings::load(path) {
            _ if self.choice.measured.is_some() => Ok(Settings::defaults()),
            Err(error) if self.is_lenient => {
                notices(Notice::Ignored(&error.into()));
                Ok(Settings::defaults())
            }
            loaded => Ok(loaded?),
        };
        paths.iter().map(load).collect()
    }

    fn model(
        &self,
        paths: &[PathBuf],
        settings: &[Settings],
        notices: Notices,
    ) -> Result<Arc<dyn Embedder>, SessionError> {
        if let Some(measured) = &self.choice.measured {
            return Ok(Arc::clone(&measured.model));
        }
        match self.choice.load_model(paths, settings) {
            Err(error @ SessionError::SeveralModels { .. }) if self.is_lenient => {
                notices(Notice::Ignored(&error));
                self.choice.load_model(&paths[..1], settings)
            }
            loaded => loaded,
        }
    }
}

impl Snapshot {
    /// The tree, with no file read yet.
    pub fn tree(&self) -> Tree {
        self.tree.tree()
    }

    /// The tree, for other threads.
    pub fn shared(&self) -> &SharedTree {
        &self.tree
    }
}

impl OpeningLock {
    /// Waits until no other thread is opening the index.
    fn begin(self: &Arc<Self>) -> OpeningGuard {
        let begun = lock(&self.begun);
        let free = self.ended.wait_while(begun, |begun| begun.is_some());
        self.busy(free.unwrap_or_else(PoisonError::into_inner))
    }

    /// Like [`begin`](Self::begin), but waits at most `wait` from now, and from the start of the other thread.
    fn begin_within(self: &Arc<Self>, wait: Duration) -> Option<OpeningGuard> {
        let asked = Instant::now();
        let mut begun = lock(&self.begun);
        while let Some(since) = *begun {
            let left = (since.min(asked) + wait).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            begun = self.ended.wait_timeout(begun, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(self.busy(begun))
    }

    fn busy(self: &Arc<Self>, mut begun: MutexGuard<'_, Option<Instant>>) -> OpeningGuard {
        *begun = Some(Instant::now());
        OpeningGuard(Arc::clone(self))
    }
}

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        *lock(&self.0.begun) = None;
        self.0.ended.notify_all();
    }
}

/// Ways in which an index can be lost.
enum Loss {
    /// Another program has replaced it.
    Replaced,
    /// It does not hold what was written.
    Damaged,
}

impl Loss {
    fn find<'e>(error: &'e (dyn StdError + 'static)) -> Option<Self> {
        let mut errors =
            std::iter::successors(Some(error), |error: &&'e (dyn StdError + 'static)| (*error).source());
        errors.find_map(|error| {
            let index = match error.downcast_ref() {
                Some(SessionError::Index(error)) => Some(error),
                _ => error.downcast_ref::<Error>(),
            };
            match index? {
                Error::Replaced { .. } => Some(Self::Replaced),
                Error::Corrupt { .. } | Error::Lexical(_) | Error::LexicalSegments { .. } => {
                    Some(Self::Damaged)
                }
                _ => None,
            }
        })
    }
}

/// The index of the paths that have something to index, and the numbers of these.
fn open_all(
    paths: &[PathBuf],
    mut options: Vec<OpenOptions>,
    model: Option<Arc<dyn Embedder>>,
    (is_lenient, is_exact): (bool, bool),
    notices: Notices,
) -> Result<(Index, Vec<usize>), Error> {
    let mut numbers: Vec<usize> = (0..paths.len()).collect();
    let mut of_text = Vec::new();
    let opened = loop {
        let asked: Vec<(&Path, &OpenOptions)> =
            numbers.iter().map(|number| paths[*number].as_path()).zip(&options).collect();
        let events = |event: Event| notices(Notice::Event(&event));
        let found = Index::open_or_build_all(&asked, model.clone(), &events);
        let error = match found {
            Err(error) if numbers.len() > 1 || is_exact => error,
            found => break found?,
        };
        let is_empty = |number: &usize| {
            let path = &paths[*number];
            matches!(&error, Error::NothingToIndex { root, .. } if root == path)
                && (is_exact || path.is_dir())
        };
        // The error does not say which of several paths it is about.
        let fails = |at: &usize| {
            is_lenient && Index::open_or_build_all(&asked[*at..*at + 1], model.clone(), &events).is_err()
        };
        let unsearched = numbers.iter().position(is_empty).or_else(|| (0..numbers.len()).find(fails));
        let Some(unsearched) = unsearched else { return Err(error) };
        let (options, number) = (options.remove(unsearched), numbers.remove(unsearched));
        match is_exact && matches!(error, Error::NothingToIndex { .. }) {
            true => of_text.push((number, options.walk.over(&options.defaults))),
            false => notices(Notice::Unsearched(&error)),
        }
    };
    notices(Notice::Opened(&opened));
    let mut indexes: Vec<Index> = opened.into_iter().map(|opened| opened.index).collect();
    for (number, found) in of_text {
        indexes.push(Index::without_units(&paths[number], numbers.len(), found)?);
        numbers.push(number);
    }
    Ok((Index::merge(indexes)?, numbers))
}

/// The state of settings and files; none if a file may still change undetected.
fn state(paths: &[PathBuf], settings: &[Settings], options: &[OpenOptions]) -> Option<State> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let proven_ns = u64::try_from(now.saturating_sub(CLOCK_STEP).as_nanos()).unwrap_or(u64::MAX);
    let mut hasher = Xxh3::new();
    for ((path, settings), options) in paths.iter().zip(settings).zip(options) {
        path.hash(&mut hasher);
        format!("{settings:?}").hash(&mut hasher);
        let found = Index::found(path, options).ok()?;
        format!("{found:?}").hash(&mut hasher);
        let Listing { files, skipped, .. } = walk::list(path, &found).ok()?;
        for file in files {
            let stamp = file.stamp;
            if stamp.modified_ns.max(stamp.changed_ns) >= proven_ns {
                return None;
            }
            (file.path, file.flags.bits()).hash(&mut hasher);
            (stamp.bytes, stamp.modified_ns, stamp.changed_ns, stamp.inode).hash(&mut hasher);
        }
        for file in skipped {
            (file.path, file.reason.to_string()).hash(&mut hasher);
        }
    }
    Some(State(hasher.finish()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
