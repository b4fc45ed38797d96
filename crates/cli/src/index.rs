//! `quarry index`: building and refreshing an index.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use indicatif::{HumanBytes, HumanDuration};
use quarry_embed::Embedder;
use quarry_index::{Event, Index, OpenOptions, Opened, Outdated, RebuildReason, SegmentPool, Update};
use quarry_session::models::{Quality, Rerank};
use quarry_session::settings::Narrowing;
use quarry_session::{Models, Notice, Notices, OpenChoice, Session, SessionError, byte_size};
use quarry_text::counted;
use quarry_walk::{WalkChoice, count_by_reason, describe_skipped};
use serde::Serialize;

use crate::model::{RerankArgs, quality_parser};
use crate::progress::Progress;
use crate::settings::Settings;
use crate::tuned::{self, Tuned};
use crate::watch::{self, WatchArgs};
use crate::{model, output};

/// Units that one core embeds for re-ranking in a second, and bytes of their vectors (`docs/reports/performance.md`).
const EMBEDDED_PER_SECOND: f64 = 30.0;
const BYTES_PER_UNIT: u64 = 800;

/// A tree, where its index is and what that is made with.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Directory of sources, or one file
    #[arg(default_value = ".")]
    pub path: PathBuf,
    #[command(flatten)]
    open: OpenArgs,
}

/// Trees that are searched together, where their indexes are and what these are made with.
#[derive(Debug, Clone, Args)]
pub struct SourcesArgs {
    /// Directories of sources, or files; all are ranked together [default: .]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    open: OpenArgs,
}

/// Location and options of a tree's index.
#[derive(Debug, Clone, Args)]
struct OpenArgs {
    /// Directory of the index of PATH [default: the nearest index at or above PATH, in its .quarry or in the
    /// user's cache]
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
    /// Embedding model: a transformer's directory, a static model's file or directory, or `builtin`; `quarry index
    /// --model DIR` makes all searches of PATH use it [default: that of the index, else the built-in one]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Skip files larger than this, such as 500kB or 2M [default: 1000000, or in an indexed directory the limit of its
    /// index]
    #[arg(long, value_name = "BYTES", value_parser = byte_size::parse)]
    max_bytes: Option<u64>,
    /// Also find hidden files; `quarry index --hidden` makes all searches of PATH find them [--no-hidden: do not]
    #[arg(long, overrides_with = "no_hidden")]
    hidden: bool,
    #[arg(long, overrides_with = "hidden", hide = true)]
    no_hidden: bool,
    /// Also find files that .gitignore, .ignore and .quarryignore exclude; `quarry index --no-ignore` makes all
    /// searches of PATH find them [--ignore: do not]
    #[arg(long, overrides_with = "ignore")]
    no_ignore: bool,
    #[arg(long, overrides_with = "no_ignore", hide = true)]
    ignore: bool,
    /// Re-ranking options; empty where a command does not re-rank.
    #[arg(skip)]
    rerank: Option<Rerank>,
    /// Limits the parts of indexes that are open at a time.
    #[arg(skip)]
    pool: Option<Arc<SegmentPool>>,
}

/// Arguments of `quarry index`.
#[derive(Debug, Args)]
pub struct IndexArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Also compute the vectors that searches of this quality need; `auto` computes none, and uses those of `best` [default: that
    /// of the settings, else auto]
    #[arg(long, value_name = "NAME", value_parser = quality_parser())]
    quality: Option<Quality>,
    /// Also compute the vectors that searches with `--reranker DIR` need
    #[arg(long, value_name = "DIR", conflicts_with = "quality")]
    reranker: Option<PathBuf>,
    /// Rebuild the index even if it is fresh
    #[arg(long)]
    rebuild: bool,
    /// Keep the index in the tree, in PATH/.quarry, where later searches find it
    #[arg(long, conflicts_with = "index")]
    local: bool,
    /// Also store the tree in the engine at this address, `milvus://HOST[:PORT][/DATABASE]`, which `quarry serve --from
    /// URL` serves; only changes are uploaded. Needs a build with the feature `milvus`
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Name of the tree in the engine [default: the name of the directory]
    #[arg(long = "as", value_name = "NAME", requires = "to")]
    name: Option<String>,
    /// Remove the tree from the engine; nothing is indexed
    #[arg(long, requires = "to", conflicts_with_all = ["rebuild", "local", "json"])]
    remove: bool,
    #[command(flatten)]
    watch: WatchArgs,
    /// Print one JSON object, or with --watch one per line for each refresh
    #[arg(long)]
    json: bool,
}

/// The outcome of opening or building an index.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary<'a> {
    /// The given path.
    path: &'a Path,
    /// Indexed files.
    files: usize,
    /// Indexed units.
    units: usize,
    /// True if the index had to be built.
    built: bool,
    /// Why the index was built; null if there was none before.
    reason: Option<String>,
    /// Units that were embedded this time.
    embedded_units: usize,
    /// Number of units embedded for the re-ranker, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedded_ahead: Option<usize>,
    /// Number of skipped files by reason.
    skipped: BTreeMap<String, usize>,
    /// Time in milliseconds.
    took_ms: f64,
    /// Outcome of the upload, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    upload: Option<crate::engine::Upload>,
}

pub fn run(mut args: IndexArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let (quality, reranker) = (args.quality, args.reranker.take());
    // Cross-encoders compute nothing ahead of a query.
    args.source.open.rerank = Some(Rerank { quality, reranker, cross_encoder: None });
    if args.watch.watch {
        return watch::run(args.source, &args.watch, args.json);
    }
    let source = &args.source;
    #[cfg(not(feature = "milvus"))]
    if args.to.is_some() || args.name.is_some() || args.remove {
        return crate::engine::missing("--to");
    }
    #[cfg(feature = "milvus")]
    if let Some(url) = args.to.as_deref().filter(|_| args.remove) {
        crate::engine::remove(url, args.name.as_deref(), &source.path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = Settings::load(&source.path)?;
    let mut options = source.options(&settings);
    // A path that is named here gets an index of its own.
    options.enclosing = false;
    options.remember = true;
    options.model = source.open.model.as_deref().map(model::name).transpose()?;
    options.update = if args.rebuild { Update::Anew } else { Update::Required };
    options.local = args.local;
    if args.local && !source.path.is_dir() {
        bail!(
            "{}: not a directory, so it cannot hold an index; name a directory, or omit --local",
            source.path.display()
        );
    }
    let opened = source.open_as(&options, source.load_model(&settings)?)?;
    let is_optional = opened.index.reranks_stored_only();
    let work = opened.index.precomputation().filter(|_| !is_optional);
    let counts = work
        .map(|work| with_notices(|notices| work.embed(&|| false, &|event| notices(Notice::Event(&event)))));
    let counts = counts.transpose()?;
    #[cfg_attr(not(feature = "milvus"), allow(unused_mut, reason = "nothing is added"))]
    let mut summary = Summary {
        embedded_ahead: counts.map(|counts| counts.embedded),
        ..Summary::new(&source.path, &opened, start.elapsed())
    };
    if !args.json {
        output::note(&summary.sentence());
        match if is_optional { opened.index.n_not_precomputed()? } else { 0 } {
            0 => {}
            n => output::note(&offer(n)),
        }
    }
    #[cfg(feature = "milvus")]
    if let Some(url) = &args.to {
        let uploaded = crate::engine::upload(url, args.name.as_deref(), &source.path, &opened.index)?;
        if !args.json {
            output::note(&uploaded.sentence());
        }
        summary.upload = Some(uploaded);
    }
    if args.json {
        output::print_json(&summary)?;
    }
    if let Some(name) = &options.model {
        forget_tuned(&source.path, name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Benefit of re-ranking, and the cost of embedding `n` units for it.
fn offer(n: usize) -> String {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let seconds = (n as f64 / (EMBEDDED_PER_SECOND * cores as f64)).max(1.0);
    format!(
        "`quarry index --quality best` stores vectors of {} for re-ranking (about {}, {}), which raises the NDCG@10 of questions \
         about functions from 0.51 to 0.57",
        counted(n, "unit"),
        HumanDuration(Duration::from_secs_f64(seconds)),
        HumanBytes(n as u64 * BYTES_PER_UNIT)
    )
}

/// Makes searches of `path` use the model that it was just indexed with, if `quarry tune` had replaced it: the later
/// command takes precedence.
fn forget_tuned(path: &Path, name: &str) -> anyhow::Result<()> {
    let Some(tuned) = Tuned::nearest(path).filter(|tuned| tuned.in_place_of == name) else { return Ok(()) };
    let (shown, tree) = (path.display(), tuned.tree.display());
    if path.canonicalize().is_ok_and(|path| path == tuned.tree) {
        tuned::undo(&tuned.tree)?;
        output::note(&format!(
            "{shown}: searches use the model {name}; the model that `quarry tune` made is removed; `quarry tune \
             {shown}` makes it again"
        ));
    } else {
        output::note(&format!(
            "{shown}: searches use the model that `quarry tune` made for {tree}; run `quarry index --model {name} \
             {tree}` to search without it"
        ));
    }
    Ok(())
}

impl<'a> Summary<'a> {
    pub fn new(path: &'a Path, opened: &Opened, took: Duration) -> Self {
        let Opened { index, built, .. } = opened;
        Self {
            path,
            files: index.n_files(),
            units: index.n_units(),
            built: built.is_some(),
            reason: built
                .as_ref()
                .filter(|report| report.reason != RebuildReason::Missing)
                .map(|report| report.reason.to_string()),
            embedded_units: built.as_ref().map_or(0, |report| report.n_embedded),
            embedded_ahead: None,
            skipped: built.as_ref().map_or_else(BTreeMap::new, |report| count_by_reason(&report.skipped)),
            took_ms: quarry_session::milliseconds(took),
            upload: None,
        }
    }

    pub fn sentence(&self) -> String {
        let Self { path, files, units, reason, took_ms, .. } = self;
        let path = path.to_string_lossy();
        let path = output::printable(&path);
        let holds = format!("{} in {}", counted(*units, "unit"), counted(*files, "file"));
        let ahead = match self.embedded_ahead {
            None | Some(0) => String::new(),
            Some(n) => format!("; embedded {} for re-ranking", counted(n, "unit")),
        };
        if !self.built {
            return format!("{path}: {holds}, up to date{ahead}");
        }
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        let skipped: Vec<String> = describe_skipped(&self.skipped).collect();
        let skipped =
            if skipped.is_empty() { String::new() } else { format!("; skipped {}", skipped.join(", ")) };
        format!("{path}: indexed {holds} in {:.1} s{reason}{ahead}{skipped}", took_ms / 1000.0)
    }
}

impl SourceArgs {
    pub fn rerank(&mut self, rerank: RerankArgs) {
        self.open.rerank = Some(rerank.into());
    }

    pub fn session(&self) -> Session {
        Session::new(vec![self.path.clone()], self.open.choice())
    }

    pub fn options(&self, settings: &Settings) -> OpenOptions {
        self.open.choice().options(settings)
    }

    /// The model that the command line, else the index, else a settings file names.
    pub fn load_model(&self, settings: &Settings) -> anyhow::Result<Arc<dyn Embedder>> {
        let (path, settings) = (std::slice::from_ref(&self.path), std::slice::from_ref(settings));
        Ok(self.open.choice().load_model(path, settings)?)
    }

    pub fn open_as(&self, options: &OpenOptions, model: Arc<dyn Embedder>) -> anyhow::Result<Opened> {
        let opened = with_notices(|notices| {
            let events = |event: Event| notices(Notice::Event(&event));
            Index::open_or_build(&self.path, options, Some(model), &events)
        })?;
        warn_unwritten(std::slice::from_ref(&opened));
        Ok(opened)
    }
}

impl SourcesArgs {
    pub fn paths(&self) -> Vec<PathBuf> {
        if self.paths.is_empty() { vec![PathBuf::from(".")] } else { self.paths.clone() }
    }

    /// Adds a path that was parsed as another argument, before the others.
    pub fn prepend(&mut self, path: PathBuf) {
        self.paths.insert(0, path);
    }

    pub fn put_first(&mut self, position: usize) {
        if let Some(paths) = self.paths.get_mut(..=position) {
            paths.rotate_right(1);
        }
    }

    pub fn session(&self, narrowing: Narrowing) -> Session {
        Session::new(self.paths(), self.open.choice()).narrowed(narrowing)
    }

    pub fn choice(&self) -> OpenChoice {
        self.open.choice()
    }

    /// Names the paths independently of the current directory.
    #[cfg(any(feature = "lsp", feature = "serve"))]
    pub fn make_absolute(&mut self) -> anyhow::Result<()> {
        use anyhow::Context as _;
        self.paths = self.paths();
        for path in &mut self.paths {
            quarry_walk::base_directory(path)?;
            *path = path.canonicalize().with_context(|| format!("{}: cannot be read", path.display()))?;
        }
        Ok(())
    }

    #[cfg(any(feature = "lsp", feature = "mcp"))]
    pub fn names_no_path(&self) -> bool {
        self.paths.is_empty()
    }

    /// The model that is named, else the built-in one, regardless of what the searched paths use.
    #[cfg(all(feature = "serve", feature = "milvus"))]
    pub fn load_named_model(&self, settings: &Settings) -> anyhow::Result<Arc<dyn Embedder>> {
        let path = self.open.model.as_deref().and_then(quarry_session::models::named).map(Path::to_owned);
        let choice = model::ModelChoice { path, ..Default::default() };
        Ok(choice
            .reranked(self.open.rerank.as_ref(), settings)
            .load(Path::new("."), &model::bundled_model_directories())?)
    }

    #[cfg(feature = "serve")]
    pub fn limit_open(&mut self, pool: Arc<SegmentPool>) {
        self.open.pool = Some(pool);
    }

    pub fn rerank(&mut self, rerank: RerankArgs) {
        self.open.rerank = Some(rerank.into());
    }
}

impl OpenArgs {
    fn choice(&self) -> OpenChoice {
        let said = |yes: bool, no: bool| (yes || no).then_some(yes);
        OpenChoice {
            directory: self.index.clone(),
            model: self.model.clone(),
            walk: WalkChoice {
                max_bytes: self.max_bytes,
                hidden: said(self.hidden, self.no_hidden),
                ignored: said(self.no_ignore, self.ignore),
            },
            rerank: self.rerank.clone(),
            models: Models::in_directories(model::bundled_model_directories()),
            pool: self.pool.clone(),
            ..OpenChoice::default()
        }
    }
}

/// Runs a function that opens an index, and shows its notices.
pub fn with_notices<T>(run: impl FnOnce(Notices) -> T) -> T {
    // The steps after opening an index show their own progress.
    let progress: Mutex<Option<Progress>> = Mutex::new(Some(Progress::new("reading", 0)));
    run(&|notice| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Event(event) => show(progress.get_or_insert_with(|| Progress::new("reading", 0)), event),
            Notice::Ready(_) => *progress = None,
            notice => match progress.as_ref() {
                Some(progress) => progress.suspend(|| print_notice(notice)),
                None => print_notice(notice),
            },
        }
    })
}

/// Prints a notice about an index that is opened, but not the progress.
pub fn print_notice(notice: Notice) {
    match notice {
        Notice::Ignored(error @ SessionError::SeveralModels { .. }) => {
            output::note_once(&format!("{error}; searching both with that of the first"));
        }
        Notice::Ignored(error) => output::warn_once("searching without the settings of a tree", error),
        Notice::Unsearched(error) => output::note_once(&error.to_string()),
        Notice::Opened(opened) => warn_unwritten(opened),
        Notice::Event(_) | Notice::Ready(_) => {}
    }
}

/// Reports that indexes could not be written, why, and what is searched instead. Indexes in memory are reported for
/// the first one only: the cause is the same for the others.
pub fn warn_unwritten(opened: &[Opened]) {
    for Outdated { reason, error } in opened.iter().filter_map(|opened| opened.outdated.as_ref()) {
        output::warn_once(&format!("searching the existing index ({reason})"), error);
    }
    if let Some(error) = opened.iter().find_map(|opened| opened.unsaved.as_ref()) {
        output::warn_once(
            "the index is in memory and is lost when this command ends; set XDG_CACHE_HOME, or name a directory with \
             --index, to keep it",
            error,
        );
    }
}

pub fn warn_ignored(path: &Path) {
    output::note_once(&format!("{} {IGNORED}; `quarry index --local` builds one there", path.display()));
}

pub const IGNORED: &str = "was not built by this user on this machine and is ignored";

fn show(progress: &Progress, event: &Event) {
    let (name, done, total) = match event {
        Event::Rebuilding(
            RebuildReason::Missing
            | RebuildReason::Requested
            | RebuildReason::Files(_)
            | RebuildReason::Choice
            | RebuildReason::Model(_),
        ) => return,
        Event::Rebuilding(reason) => {
            return progress.suspend(|| output::note(&format!("{reason}; rebuilding it")));
        }
        Event::Ignored(path) => return progress.suspend(|| warn_ignored(path)),
        Event::Waiting => {
            return progress
                .suspend(|| output::note("another process is building this index; waiting for it"));
        }
        Event::Read { done, total } => ("reading", done, total),
        Event::Embedded { done, total } => ("embedding", done, total),
    };
    progress.rename(name);
    progress.set(*done as u64, *total as u64);
}
