//! `quarry index --watch`: an index that follows its tree.
//!
//! The system reports changes in the directories that the index is made from only, so that a build that writes
//! thousands of ignored files does not wake the process. The changed files are then found as by every other command.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{self, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, value_parser};
use notify::event::{EventKind, ModifyKind};
use notify::{ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};
use quarry_index::{Index, OpenOptions, Update};
use quarry_text::counted;
use quarry_walk::{self as walk, WalkOptions};

use crate::index::{SourceArgs, Summary};
use crate::output;
use crate::precompute::Background;
use crate::settings::Settings;

/// Debounce delay: a change is acted upon when nothing has changed for this long, because editors and checkouts write
/// many files in a row.
const QUIET: Duration = Duration::from_millis(100);

/// Maximum debounce delay, from the first change.
const LATEST: Duration = Duration::from_secs(2);

/// Polling interval if the system cannot report changes.
const POLL: Duration = Duration::from_secs(5);

/// Time after a failure until the next try, unless something changes before.
const RETRY: Duration = Duration::from_secs(5);

/// Command that lets the system watch more directories.
pub const RAISE_LIMIT: &str = "sudo sysctl fs.inotify.max_user_watches=524288";

/// The error numbers of Linux for no inotify watch and no inotify instance being left.
const LIMIT_ERRORS: [i32; 2] = [28, 24];

/// Options for watching a tree.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Keep the index fresh while files change, until interrupted
    #[arg(long, conflicts_with_all = ["rebuild", "local", "to", "name", "remove"])]
    pub watch: bool,
    /// Poll for changes every N seconds instead of relying on the operating system, for network directories
    #[arg(long, value_name = "N", requires = "watch", value_parser = value_parser!(u64).range(1..))]
    poll: Option<u64>,
}

/// A message to a process that keeps an index fresh.
pub enum Message {
    /// A change in the tree: of the files or directories at these paths.
    Changed {
        /// Paths that are gone.
        gone: Vec<PathBuf>,
    },
    Stop,
}

/// Runs `quarry index --watch`, until it is interrupted; each refresh is reported, as a line of JSON if requested.
///
/// # Errors
/// When the tree cannot be indexed at the start; later failures are reported, and tried again.
pub fn run(mut source: SourceArgs, args: &WatchArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (sender, messages) = mpsc::channel();
    let refreshing = Arc::new(AtomicBool::new(false));
    stop_on_signal(sender.clone(), Arc::clone(&refreshing))?;
    let settings = Settings::load(&source.path)?;
    let options = OpenOptions { update: Update::Required, ..source.options(&settings) };
    let model = source.load_model(&settings)?;
    let background = Background::start(|| {});
    let index = Index::status(&source.path, &options)?.directory;
    // The system reports paths as they were named, and a relative one would follow the directory when that is moved.
    source.path = source.path.canonicalize()?;
    let root = &source.path;
    let index = path::absolute(&index).unwrap_or(index);
    let refresh = || {
        let start = Instant::now();
        refreshing.store(true, Ordering::SeqCst);
        let opened = source.open_as(&options, Arc::clone(&model));
        refreshing.store(false, Ordering::SeqCst);
        let opened = opened?;
        background.embed(&opened.index);
        anyhow::Ok((opened, start.elapsed()))
    };
    let report = |summary: &Summary| {
        if json {
            return output::print_json(summary);
        }
        output::note(&summary.sentence());
        Ok(())
    };

    let mut changes = match args.poll {
        Some(seconds) => Changes::Polled(Duration::from_secs(seconds)),
        None => Changes::watched(sender, vec![index]),
    };
    let walk = Index::found(root, &options)?;
    let followed = [(root.clone(), walk)];
    changes.follow(&followed);
    let (opened, took) = refresh()?;
    report(&Summary::new(root, &opened, took))?;
    output::note(&changes.announcement());
    let mut problem = String::new();
    loop {
        let patience = if problem.is_empty() { changes.interval() } else { Some(RETRY) };
        match next_changes(&messages, patience) {
            Some(gone) => changes.forget(&gone),
            None => break,
        }
        // Before checking for changes, so that none is missed.
        changes.follow(&followed);
        match refresh() {
            Ok((opened, took)) => {
                problem.clear();
                if opened.built.is_some() {
                    report(&Summary::new(root, &opened, took))?;
                }
            }
            // Reported once, however often it is retried.
            Err(error) => {
                let now = format!("{error:#}");
                if now != problem {
                    output::note(&format!("{now}; the index is unchanged; trying again"));
                    problem = now;
                }
            }
        }
    }
    output::note("stopped; the index is kept");
    Ok(ExitCode::SUCCESS)
}

/// The next changes, collected until they pause, or nothing new after `patience`: the paths that are gone. None when it
/// is time to stop.
pub fn next_changes(messages: &Receiver<Message>, patience: Option<Duration>) -> Option<Vec<PathBuf>> {
    let first = match patience {
        Some(patience) => messages.recv_timeout(patience),
        None => messages.recv().map_err(RecvTimeoutError::from),
    };
    let latest = Instant::now() + LATEST;
    let mut all = Vec::new();
    let mut next = first;
    loop {
        match next {
            Ok(Message::Changed { gone }) => all.extend(gone),
            Err(RecvTimeoutError::Timeout) => return Some(all),
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
        }
        next = messages.recv_timeout(QUIET.min(latest.saturating_duration_since(Instant::now())));
    }
}

/// An interrupt ends the waiting; while the index is written it ends the program, which loses nothing.
fn stop_on_signal(sender: Sender<Message>, refreshing: Arc<AtomicBool>) -> anyhow::Result<()> {
    let stop = move || {
        if refreshing.load(Ordering::SeqCst) || sender.send(Message::Stop).is_err() {
            output::note("stopped; the index is unchanged");
            process::exit(0);
        }
    };
    ctrlc::set_handler(stop).context("cannot install the Ctrl-C handler")
}

pub enum Changes {
    Watched(Watched),
    Polled(Duration),
}

pub struct Watched {
    watcher: RecommendedWatcher,
    directories: BTreeSet<PathBuf>,
}

impl Changes {
    /// By events of the operating system; events in the directories of indexes are our own.
    pub fn watched(sender: Sender<Message>, indexes: Vec<PathBuf>) -> Self {
        let forward = move |event: notify::Result<Event>| {
            if let Some(message) = message(event, &indexes) {
                // At shutdown, the receiver is gone.
                let _ = sender.send(message);
            }
        };
        match notify::recommended_watcher(forward) {
            Ok(watcher) => Self::Watched(Watched { watcher, directories: BTreeSet::new() }),
            Err(error) => Self::poll_after_error(error),
        }
    }

    fn poll_after_error(error: notify::Error) -> Self {
        let seconds = POLL.as_secs();
        output::note(&format!("{}; polling every {seconds} s instead", reason(error)));
        Self::Polled(POLL)
    }

    pub fn follow(&mut self, trees: &[(PathBuf, WalkOptions)]) {
        let Self::Watched(watched) = self else { return };
        // A tree that has gone is waited for.
        let directories = |(root, options): &(PathBuf, WalkOptions)| walk::directories(root, options);
        let there: BTreeSet<PathBuf> =
            trees.iter().flat_map(|tree| directories(tree).unwrap_or_default()).collect();
        if let Err(error) = watched.follow(there) {
            *self = Self::poll_after_error(error);
        }
    }

    /// The watch on a directory ends when that is removed, and follows it when it is renamed.
    pub fn forget(&mut self, gone: &[PathBuf]) {
        let Self::Watched(Watched { watcher, directories }) = self else { return };
        directories.retain(|directory| {
            let is_gone = gone.iter().any(|path| directory.starts_with(path));
            if is_gone {
                // It may have ended already.
                let _ = watcher.unwatch(directory);
            }
            !is_gone
        });
    }

    /// Polling interval, if the system does not report changes.
    pub fn interval(&self) -> Option<Duration> {
        match self {
            Self::Watched(_) => None,
            Self::Polled(interval) => Some(*interval),
        }
    }

    fn announcement(&self) -> String {
        let what = match self {
            Self::Watched(watched) => format!("watching {}", counted(watched.directories.len(), "directory")),
            Self::Polled(interval) => format!("polling every {} s", interval.as_secs()),
        };
        format!("{what}; Ctrl-C stops it")
    }
}

impl Watched {
    fn follow(&mut self, there: BTreeSet<PathBuf>) -> notify::Result<()> {
        let mut paths = self.watcher.paths_mut();
        for directory in self.directories.difference(&there) {
            // It may have ended already.
            let _ = paths.remove(directory);
        }
        for directory in there.difference(&self.directories) {
            match paths.add(directory, RecursiveMode::NonRecursive) {
                // It has disappeared meanwhile, which is reported for its parent.
                Err(error) if is_missing(&error) => {}
                added => added?,
            }
        }
        paths.commit()?;
        self.directories = there;
        Ok(())
    }
}

/// The message for an event of the system; none for mere reads, and for events in the directory of an index.
fn message(event: notify::Result<Event>, indexes: &[PathBuf]) -> Option<Message> {
    // Events were missed: everything is checked.
    let Ok(event) = event else { return Some(Message::Changed { gone: Vec::new() }) };
    if event.kind.is_access()
        || (!event.paths.is_empty()
            && event.paths.iter().all(|path| indexes.iter().any(|index| path.starts_with(index))))
    {
        return None;
    }
    let is_gone = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
    Some(Message::Changed { gone: if is_gone { event.paths } else { Vec::new() } })
}

fn is_missing(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// The reason why the system cannot report changes, and the fix.
fn reason(error: notify::Error) -> String {
    let is_limit = match &error.kind {
        ErrorKind::MaxFilesWatch => true,
        ErrorKind::Io(error) => error.raw_os_error().is_some_and(|number| LIMIT_ERRORS.contains(&number)),
        _ => false,
    };
    if is_limit {
        let limit = directory_limit()
            .map_or_else(String::new, |limit| format!(" ({limit} directories for all programs)"));
        format!("the system's limit on watched directories is reached{limit}; `{RAISE_LIMIT}` raises it")
    } else {
        format!("the system cannot report changes: {error}")
    }
}

/// Maximum number of directories that the system lets a user watch; `None` without a limit.
pub fn directory_limit() -> Option<usize> {
    fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind, RemoveKind};

    use super::*;

    fn changed(kind: EventKind, path: &str) -> Option<Vec<PathBuf>> {
        let event = Event::new(kind).add_path(PathBuf::from(path));
        match message(Ok(event), &[PathBuf::from("/tree/.quarry")])? {
            Message::Changed { gone } => Some(gone),
            Message::Stop => None,
        }
    }

    #[test]
    fn reading_and_the_index_itself_are_no_changes() {
        assert_eq!(changed(EventKind::Access(AccessKind::Any), "/tree/a.rs"), None);
        assert_eq!(changed(EventKind::Create(CreateKind::File), "/tree/.quarry/lock"), None);
        assert_eq!(changed(EventKind::Create(CreateKind::File), "/tree/a.rs"), Some(Vec::new()));
        let removed = changed(EventKind::Remove(RemoveKind::Folder), "/tree/a");
        assert_eq!(removed, Some(vec![PathBuf::from("/tree/a")]));
        let failed = message(Err(notify::Error::generic("overflow")), &[PathBuf::from("/tree/.quarry")]);
        assert!(matches!(failed, Some(Message::Changed { .. })));
    }

    #[test]
    fn changes_are_collected_until_they_pause() {
        let (sender, messages) = mpsc::channel();
        for path in ["a", "b"] {
            sender.send(Message::Changed { gone: vec![PathBuf::from(path)] }).unwrap();
        }
        assert_eq!(next_changes(&messages, None), Some(vec![PathBuf::from("a"), PathBuf::from("b")]));
        assert_eq!(next_changes(&messages, Some(Duration::from_millis(1))), Some(Vec::new()));
        sender.send(Message::Stop).unwrap();
        assert_eq!(next_changes(&messages, None), None);
        drop(sender);
        assert_eq!(next_changes(&messages, None), None);
    }

    #[test]
    fn changes_without_a_pause_are_acted_upon_all_the_same() {
        let (sender, messages) = mpsc::channel();
        let writer = std::thread::spawn(move || {
            while sender.send(Message::Changed { gone: Vec::new() }).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let start = Instant::now();
        assert!(next_changes(&messages, None).is_some());
        assert!(start.elapsed() < LATEST * 5);
        drop(messages);
        writer.join().unwrap();
    }

    #[test]
    fn the_limit_is_reported_with_its_remedy() {
        let full = notify::Error::new(ErrorKind::MaxFilesWatch);
        assert!(reason(full).contains(RAISE_LIMIT));
        let no_instance = notify::Error::io(io::Error::from_raw_os_error(LIMIT_ERRORS[1]));
        assert!(reason(no_instance).contains(RAISE_LIMIT));
        assert!(!reason(notify::Error::generic("odd")).contains(RAISE_LIMIT));
    }
}
