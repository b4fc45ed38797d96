//! `quarry lsp`: search for editors.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use clap::Args;
use quarry_index::{Index, OpenOptions};
use quarry_lsp::{Ending, OpenError, Opener};
use quarry_session::models::{Quality, Rerank};
use quarry_session::settings::Settings;
use quarry_session::{Notice, OpenChoice, Session, StatusView};
use quarry_walk::WalkOptions;

use crate::index::{SourcesArgs, print_notice};
use crate::model::RerankArgs;
use crate::precompute::Background;
use crate::watch::{Changes, Message, next_changes};

/// Maximum time that a request waits for changed files to be indexed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Arguments of `quarry lsp`.
#[derive(Debug, Args)]
pub struct LspArgs {
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    rerank: RerankArgs,
}

/// Runs `quarry lsp` until the client ends it. The exit code is 0 if it ended as the protocol specifies, else 1.
pub fn run(args: LspArgs) -> anyhow::Result<ExitCode> {
    let LspArgs { mut source, rerank } = args;
    let paths = if source.names_no_path() {
        // The client reports its open folders.
        Vec::new()
    } else {
        source.make_absolute()?;
        source.paths()
    };
    let changed: Arc<OnceLock<OnChange>> = Arc::default();
    let callback = Arc::clone(&changed);
    let background = Background::start(move || callback.get().into_iter().for_each(|changed| changed()));
    let (choice, rerank) = (source.choice(), rerank.into());
    let trees = CommandLine { choice, rerank, paths, background, changed };
    Ok(match quarry_lsp::serve(io::stdin().lock(), io::stdout(), trees)? {
        Ending::Orderly => ExitCode::SUCCESS,
        Ending::Abrupt => ExitCode::from(1),
    })
}

type OnChange = Arc<dyn Fn() + Send + Sync>;

/// Opens trees as the command line and the settings of each say.
struct CommandLine {
    choice: OpenChoice,
    rerank: Rerank,
    paths: Vec<PathBuf>,
    /// Embeds for re-rankers while the server is idle.
    background: Background,
    /// Callback for units that were embedded.
    changed: Arc<OnceLock<OnChange>>,
}

impl CommandLine {
    fn choice(&self, quality: Option<&str>) -> OpenChoice {
        let rerank = match quality.and_then(Quality::named) {
            Some(quality) => Rerank { quality: Some(quality), reranker: None, ..self.rerank.clone() },
            None => self.rerank.clone(),
        };
        OpenChoice { rerank: Some(rerank), ..self.choice.clone() }
    }

    fn states(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<StatusView>> {
        let state = |path: &PathBuf| Ok(StatusView::new(Index::status(path, &self.options(path))?));
        paths.iter().map(state).collect()
    }

    /// The options of a path, whose settings may not be readable.
    fn options(&self, path: &Path) -> OpenOptions {
        self.choice.options(&Settings::load(path).unwrap_or_else(|_| Settings::defaults()))
    }

    /// The files that are found in some paths, and the directories of their indexes.
    fn followed(&self, paths: &[PathBuf]) -> (Vec<(PathBuf, WalkOptions)>, Vec<PathBuf>) {
        let (mut walks, mut indexes) = (Vec::new(), Vec::new());
        for path in paths {
            let options = self.options(path);
            if let Ok(walk) = Index::found(path, &options) {
                walks.push((path.clone(), walk));
            }
            if let Ok(status) = Index::status(path, &options) {
                indexes.push(std::path::absolute(&status.directory).unwrap_or(status.directory));
            }
        }
        (walks, indexes)
    }
}

impl Opener for CommandLine {
    fn qualities(&self) -> Vec<String> {
        Quality::NAMES.map(str::to_owned).to_vec()
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.paths.clone()
    }

    fn session(&self, paths: &[PathBuf], quality: Option<&str>) -> Session {
        let background = self.background.clone();
        let on_notice = move |notice: Notice| handle_notice(&background, notice);
        Session::new(paths.to_vec(), self.choice(quality)).lenient().waiting(PATIENCE, on_notice)
    }

    fn notify(&self, notice: Notice) {
        handle_notice(&self.background, notice);
    }

    fn status(&self, paths: &[PathBuf]) -> Result<Vec<StatusView>, OpenError> {
        self.states(paths).map_err(|error| OpenError::Failed(format!("{error:#}")))
    }

    fn watch(&self, paths: &[PathBuf], changed: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Send> {
        // The first callback suffices: all of a server are the same.
        let _ = self.changed.set(Arc::clone(&changed));
        let (sender, messages) = mpsc::channel();
        let (walks, indexes) = self.followed(paths);
        let events = sender.clone();
        // It ends with the process, or when the folders change.
        thread::spawn(move || {
            let mut changes = Changes::watched(events, indexes);
            loop {
                // Before checking for changes, so that none is missed.
                changes.follow(&walks);
                changed();
                match next_changes(&messages, changes.interval()) {
                    Some(gone) => changes.forget(&gone),
                    None => return,
                }
            }
        });
        Box::new(WatchGuard(sender))
    }
}

/// Passes units of an index on to be embedded, and prints other notices.
fn handle_notice(background: &Background, notice: Notice) {
    match notice {
        Notice::Ready(index) => background.embed(index),
        notice => print_notice(notice),
    }
}

/// Ends the watching when it is dropped.
struct WatchGuard(Sender<Message>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.send(Message::Stop);
    }
}
