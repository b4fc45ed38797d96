//! `quarry lsp`: search for editors.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use clap::{Args, ValueEnum};
use quarry_answer::{Excerpt, Shown, StatusView};
use quarry_embed::Embedder;
use quarry_index::{Error, Event, Filter, Index, Update};
use quarry_lsp::{Ending, OpenError, Opened, Opener};
use quarry_walk::WalkOptions;

use crate::index::SourcesArgs;
use crate::model::Quality;
use crate::model_choice::RerankArgs;
use crate::output;
use crate::precompute::Background;
use crate::results::FilterArgs;
use crate::settings::Settings;
use crate::watch::{Changes, Message, next_changes};

/// Arguments of `quarry lsp`.
#[derive(Debug, Args)]
pub struct LspArgs {
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    rerank: RerankArgs,
}

/// Runs `quarry lsp`: until the client ends it. The exit code is 0 if that was as the protocol says, else 1.
///
/// # Errors
/// When the tree does not exist, or the client cannot be read.
pub fn run(args: LspArgs) -> anyhow::Result<ExitCode> {
    let LspArgs { mut source, rerank } = args;
    let paths = if source.names_no_path() {
        // The client says what is open.
        Vec::new()
    } else {
        source.make_absolute()?;
        source.paths()
    };
    let changed: Arc<OnceLock<Changed>> = Arc::default();
    let told = Arc::clone(&changed);
    let background = Background::start(move || told.get().into_iter().for_each(|changed| changed()));
    let models = Mutex::default();
    let trees = CommandLine { source, rerank, paths, models, background, changed };
    Ok(match quarry_lsp::serve(io::stdin().lock(), io::stdout(), trees)? {
        Ending::Orderly => ExitCode::SUCCESS,
        Ending::Abrupt => ExitCode::from(1),
    })
}

/// What to call when something has changed.
type Changed = Arc<dyn Fn() + Send + Sync>;

/// The models of some paths in some quality.
type Models = HashMap<(Vec<PathBuf>, Option<String>), Arc<dyn Embedder>>;

/// Opens trees as the command line and the settings of each say.
struct CommandLine {
    source: SourcesArgs,
    rerank: RerankArgs,
    /// Those that are named on the command line.
    paths: Vec<PathBuf>,
    /// Each is loaded once.
    models: Mutex<Models>,
    /// Embeds for re-rankers while nothing is asked.
    background: Background,
    /// What to call when more is embedded.
    changed: Arc<OnceLock<Changed>>,
}

impl CommandLine {
    fn source(&self, paths: &[PathBuf], quality: Option<&str>) -> SourcesArgs {
        let mut source = self.source.of_paths(paths.to_vec());
        let quality = quality.and_then(|name| Quality::from_str(name, false).ok());
        source.rerank(self.rerank.clone().or_quality(quality));
        source
    }

    fn model(
        &self,
        source: &SourcesArgs,
        settings: &[Settings],
        quality: Option<&str>,
    ) -> anyhow::Result<Arc<dyn Embedder>> {
        let key = (source.paths(), quality.map(str::to_owned));
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = models.get(&key) {
            return Ok(Arc::clone(model));
        }
        let model = source.load_model(settings)?;
        models.insert(key, Arc::clone(&model));
        Ok(model)
    }

    fn open_paths(
        &self,
        paths: &[PathBuf],
        quality: Option<&str>,
        events: &(dyn Fn(Event) + Sync),
    ) -> anyhow::Result<Opened> {
        let source = self.source(paths, quality);
        let all = settings_of(paths);
        let model = self.model(&source, &all, quality)?;
        let narrow = FilterArgs::default();
        let filter = |(settings, path): (&Settings, &PathBuf)| narrow.filter(settings, path);
        let filters: Vec<Filter> = all.iter().zip(paths).map(filter).collect::<anyhow::Result<_>>()?;
        let tree = source.open_numbered(&all, &filters, Update::IfPossible, Some(model), events)?;
        self.background.embed(&tree.index);
        let settings = Settings::shared(&all);
        let context = settings.get(|layer| layer.context).unwrap_or_default();
        let excerpt = match settings.get(|layer| layer.lines).unwrap_or_default() {
            0 => Excerpt::All,
            n => Excerpt::Best(n),
        };
        Ok(Opened {
            tree,
            ranking: settings.ranking(None),
            limit: settings.get(|layer| layer.limit).unwrap_or_default(),
            threshold: settings.get(|layer| layer.threshold),
            shown: Shown { units: true, excerpt, context: (context, context) },
        })
    }

    fn states(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<StatusView>> {
        let all = settings_of(paths);
        let options = self.source(paths, None).options(&all);
        let state = |(path, options)| Ok(StatusView::of(Index::status(path, options)?));
        paths.iter().map(PathBuf::as_path).zip(&options).map(state).collect()
    }

    /// Which files of some paths are found, and where their indexes are.
    fn followed(&self, paths: &[PathBuf]) -> (Vec<(PathBuf, WalkOptions)>, Vec<PathBuf>) {
        let (mut walks, mut indexes) = (Vec::new(), Vec::new());
        for path in paths {
            let settings = Settings::load(path).unwrap_or_else(|_| Settings::defaults());
            let options = self.source.options(std::slice::from_ref(&settings)).pop().unwrap_or_default();
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
        let names = Quality::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        names.map(|value| value.get_name().to_owned()).collect()
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.paths.clone()
    }

    fn open(
        &self,
        paths: &[PathBuf],
        quality: Option<&str>,
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<Opened, OpenError> {
        self.open_paths(paths, quality, events).map_err(|error| {
            let text = format!("{error:#}");
            match error.downcast_ref() {
                Some(Error::NothingToIndex { .. }) => OpenError::Nothing(text),
                _ => OpenError::Failed(text),
            }
        })
    }

    fn status(&self, paths: &[PathBuf]) -> Result<Vec<StatusView>, OpenError> {
        self.states(paths).map_err(|error| OpenError::Failed(format!("{error:#}")))
    }

    fn watch(&self, paths: &[PathBuf], changed: Arc<dyn Fn() + Send + Sync>) -> Box<dyn Send> {
        // The first one does: all of a server are the same.
        let _ = self.changed.set(Arc::clone(&changed));
        let (sender, messages) = mpsc::channel();
        let (walks, indexes) = self.followed(paths);
        let told = sender.clone();
        // It ends with the process, or when the folders change.
        thread::spawn(move || {
            let mut changes = Changes::told(told, indexes);
            loop {
                // Before looking for changes, so that none falls between.
                changes.follow(&walks);
                changed();
                match next_changes(&messages, changes.interval()) {
                    Some(gone) => changes.forget(&gone),
                    None => return,
                }
            }
        });
        Box::new(Watching(sender))
    }
}

/// Ends the watching when it is dropped.
struct Watching(Sender<Message>);

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.send(Message::Stop);
    }
}

/// The settings of each path. One whose settings cannot be read is searched without them, rather than not at all.
fn settings_of(paths: &[PathBuf]) -> Vec<Settings> {
    let settings = |path: &Path| {
        Settings::load(path).unwrap_or_else(|error| {
            output::note_once(&format!("{error:#}; searching without these settings"));
            Settings::defaults()
        })
    };
    paths.iter().map(|path| settings(path)).collect()
}
