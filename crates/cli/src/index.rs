//! `quarry index`: building and refreshing an index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use quarry_answer::Tree;
use quarry_embed::Embedder;
use quarry_index::{
    Error, Event, Filter, Index, OpenOptions, Opened, Outdated, RebuildReason, SegmentPool, Update,
};
use quarry_text::counted;
use quarry_walk::{WalkChoice, WalkOptions, count_by_reason, skipped_in_words};
use serde::Serialize;

use crate::model::Quality;
use crate::model_choice::{ModelChoice, ModelSource, RerankArgs};
use crate::progress::Progress;
use crate::settings::Settings;
use crate::tuned::{self, Tuned};
use crate::watch::{self, WatchArgs};
use crate::{byte_size, model, output};

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

/// Where the index of a tree is and what it is made with.
#[derive(Debug, Clone, Args)]
struct OpenArgs {
    /// Directory of the index of PATH [default: that of PATH or else of the nearest directory above it, in its .quarry
    /// or in the user's cache]
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
    /// What orders results again; nothing does where a command has no use for it.
    #[arg(skip)]
    rerank: Option<RerankArgs>,
    /// What limits how much of the indexes is open at a time.
    #[arg(skip)]
    pool: Option<Arc<SegmentPool>>,
}

/// Arguments of `quarry index`.
#[derive(Debug, Args)]
pub struct IndexArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Also compute the vectors that searches of this quality need [default: that of the settings, else fast]
    #[arg(long, value_name = "NAME")]
    quality: Option<Quality>,
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
    /// Whether the index had to be built.
    built: bool,
    /// Why the index was built; null if there was none before.
    reason: Option<String>,
    /// Units that were embedded this time.
    embedded_units: usize,
    /// Number of units embedded for re-rankers, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedded_ahead: Option<usize>,
    /// Number of skipped files by reason.
    skipped: BTreeMap<String, usize>,
    /// Time in milliseconds.
    took_ms: f64,
    /// What was uploaded, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    upload: Option<crate::engine::Upload>,
}

/// Runs `quarry index`.
///
/// # Errors
/// When the tree cannot be indexed.
pub fn run(mut args: IndexArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    args.source.rerank(RerankArgs::of_quality(args.quality));
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
    let work = opened.index.precomputation();
    let counts = work.map(|work| with_progress(|events| work.embed(&|| false, events))).transpose()?;
    #[cfg_attr(not(feature = "milvus"), allow(unused_mut, reason = "nothing is added"))]
    let mut summary = Summary {
        embedded_ahead: counts.map(|counts| counts.embedded),
        ..Summary::new(&source.path, &opened, start.elapsed())
    };
    if !args.json {
        output::note(&summary.sentence());
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

/// Has searches of `path` use the model that it was just indexed with, whose place another one took by `quarry tune`:
/// what is named later counts.
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
    /// The tree at `path`, whose index was opened in `took`.
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
            took_ms: quarry_answer::milliseconds(took),
            upload: None,
        }
    }

    /// Text for people.
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
        let skipped: Vec<String> = skipped_in_words(&self.skipped).collect();
        let skipped =
            if skipped.is_empty() { String::new() } else { format!("; skipped {}", skipped.join(", ")) };
        format!("{path}: indexed {holds} in {:.1} s{reason}{ahead}{skipped}", took_ms / 1000.0)
    }
}

impl SourceArgs {
    /// Has models order results again, as these arguments say.
    pub fn rerank(&mut self, rerank: RerankArgs) {
        self.open.rerank = Some(rerank);
    }

    /// Opens the index for a search, showing the progress.
    ///
    /// # Errors
    /// When the tree cannot be indexed, or there is no index and `--no-index-update` is given.
    pub fn open(&self, settings: &Settings, update: Update) -> anyhow::Result<Opened> {
        let options = OpenOptions { update, ..self.options(settings) };
        self.open_as(&options, self.load_model(settings)?)
    }

    /// Where the index is and what it covers.
    pub fn options(&self, settings: &Settings) -> OpenOptions {
        self.open.options(settings)
    }

    /// The model that the command line, else the index, else a settings file names.
    ///
    /// # Errors
    /// When it is missing or broken.
    pub fn load_model(&self, settings: &Settings) -> anyhow::Result<Arc<dyn Embedder>> {
        self.open.model(&self.path, settings)?.load(&self.path)
    }

    /// Opens the index with a loaded model.
    ///
    /// # Errors
    /// When the tree cannot be indexed.
    pub fn open_as(&self, options: &OpenOptions, model: Arc<dyn Embedder>) -> anyhow::Result<Opened> {
        let opened = with_progress(|events| Index::open_or_build(&self.path, options, Some(model), events))?;
        tell_unwritten(std::slice::from_ref(&opened));
        Ok(opened)
    }
}

impl SourcesArgs {
    /// The searched paths, in the order of the command line.
    pub fn paths(&self) -> Vec<PathBuf> {
        if self.paths.is_empty() { vec![PathBuf::from(".")] } else { self.paths.clone() }
    }

    /// Adds a path that was parsed as another argument, before the others.
    pub fn prepend(&mut self, path: PathBuf) {
        self.paths.insert(0, path);
    }

    /// Moves the path at this position before the others.
    pub fn put_first(&mut self, position: usize) {
        if let Some(paths) = self.paths.get_mut(..=position) {
            paths.rotate_right(1);
        }
    }

    /// Opens the indexes of the searched paths, by the settings and the filter of each path. Of several paths, a
    /// directory without anything to index is reported and skipped. A search that ranks nothing needs no model, unless
    /// one is named.
    ///
    /// # Errors
    /// When a tree cannot be indexed, there is no index and none is to be built, or the paths do not go together.
    pub fn open(
        &self,
        settings: &[Settings],
        filters: Vec<Filter>,
        update: Update,
        is_ranked: bool,
    ) -> anyhow::Result<Tree> {
        let model = match is_ranked || self.open.model.is_some() {
            true => Some(self.load_model(settings)?),
            false => None,
        };
        with_progress(|events| self.open_with(settings, &filters, update, model, events))
    }

    /// The same options for other paths.
    #[cfg(feature = "lsp")]
    pub fn of_paths(&self, paths: Vec<PathBuf>) -> Self {
        Self { paths, open: self.open.clone() }
    }

    /// Names the paths independently of the current directory.
    ///
    /// # Errors
    /// When one is missing.
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

    /// Whether it names no path.
    #[cfg(any(feature = "lsp", feature = "mcp"))]
    pub fn names_no_path(&self) -> bool {
        self.paths.is_empty()
    }

    /// The model that is named, else the built-in one, whatever the searched paths use.
    ///
    /// # Errors
    /// When it is missing or broken.
    #[cfg(all(feature = "serve", feature = "milvus"))]
    pub fn load_named_model(&self, settings: &Settings) -> anyhow::Result<Arc<dyn Embedder>> {
        let path = self.open.model.as_deref().and_then(model::named).map(Path::to_owned);
        ModelChoice { path, ..ModelChoice::default() }
            .reranked(self.open.rerank.as_ref(), settings)
            .load(Path::new("."))
    }

    /// Limits how much of the indexes is open at a time.
    #[cfg(feature = "serve")]
    pub fn limit_open(&mut self, pool: Arc<SegmentPool>) {
        self.open.pool = Some(pool);
    }

    /// Has models order results again, as these arguments say.
    pub fn rerank(&mut self, rerank: RerankArgs) {
        self.open.rerank = Some(rerank);
    }

    /// The model of all paths, that the command line, else their indexes, else settings files name.
    ///
    /// # Errors
    /// When it is missing or broken, or the paths name several.
    pub fn load_model(&self, settings: &[Settings]) -> anyhow::Result<Arc<dyn Embedder>> {
        let paths = self.paths();
        self.model(&paths, settings)?.load(&paths[0])
    }

    /// Where the index of each path is and what it covers.
    pub fn options(&self, settings: &[Settings]) -> Vec<OpenOptions> {
        settings.iter().map(|settings| self.open.options(settings)).collect()
    }

    /// Like [`open`](Self::open), with a model that was loaded before, and tells `events` of progress.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    fn open_with(
        &self,
        settings: &[Settings],
        filters: &[Filter],
        update: Update,
        model: Option<Arc<dyn Embedder>>,
        events: &(dyn Fn(Event) + Sync),
    ) -> anyhow::Result<Tree> {
        let (mut index, numbers) = self.open_filled(settings, update, model, events)?;
        for (number, asked) in numbers.iter().enumerate() {
            index.narrow(number, filters[*asked].clone());
        }
        let paths = self.paths();
        let filled: Vec<PathBuf> = numbers.iter().map(|number| paths[*number].clone()).collect();
        Ok(Tree::new(&filled, index)?)
    }

    /// Like [`open`](Self::open), with a model that was loaded before, and tells `events` of progress. Paths keep their
    /// numbers, whether or not there is something to index.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    #[cfg(any(feature = "lsp", feature = "serve"))]
    pub fn open_numbered(
        &self,
        settings: &[Settings],
        filters: &[Filter],
        update: Update,
        model: Option<Arc<dyn Embedder>>,
        events: &(dyn Fn(Event) + Sync),
    ) -> anyhow::Result<Tree> {
        let (mut index, numbers) = self.open_filled(settings, update, model, events)?;
        index.renumber(&numbers);
        for number in numbers {
            index.narrow(number, filters[number].clone());
        }
        Ok(Tree::new(&self.paths(), index)?)
    }

    /// The index of the paths that have something to index, and the numbers of these among all.
    fn open_filled(
        &self,
        settings: &[Settings],
        update: Update,
        model: Option<Arc<dyn Embedder>>,
        events: &(dyn Fn(Event) + Sync),
    ) -> anyhow::Result<(Index, Vec<usize>)> {
        let mut paths = self.paths();
        let mut numbers: Vec<usize> = (0..paths.len()).collect();
        if let (Some(index), [_, _, ..]) = (&self.open.index, paths.as_slice()) {
            bail!("--index {} is the index of one path; name one PATH, or omit --index", index.display());
        }
        let mut options = self.options(settings);
        options.iter_mut().for_each(|options| options.update = update);
        let opened = loop {
            let asked: Vec<(&Path, &OpenOptions)> =
                paths.iter().map(PathBuf::as_path).zip(&options).collect();
            let found = Index::open_or_build_all(&asked, model.clone(), events);
            let is_empty = |path: &PathBuf| {
                matches!(&found, Err(Error::NothingToIndex { root, .. }) if root == path) && path.is_dir()
            };
            let empty = paths.iter().position(is_empty).filter(|_| paths.len() > 1);
            let (error, empty) = match (found, empty) {
                (Err(error), Some(empty)) => (error, empty),
                (found, _) => break found?,
            };
            output::note(&error.to_string());
            paths.remove(empty);
            options.remove(empty);
            numbers.remove(empty);
        };
        tell_unwritten(&opened);
        let index = Index::together(opened.into_iter().map(|opened| opened.index).collect())?;
        Ok((index, numbers))
    }

    /// The model of all paths: vectors of several models cannot be compared.
    fn model(&self, paths: &[PathBuf], settings: &[Settings]) -> anyhow::Result<ModelChoice> {
        let mut chosen: Option<(&Path, ModelChoice)> = None;
        for (path, settings) in paths.iter().zip(settings) {
            let choice = self.open.model(path, settings)?;
            match &chosen {
                Some((first, other)) if other.path != choice.path => bail!(
                    "{} uses {other}, {} uses {choice}; name one model for both with --model",
                    first.display(),
                    path.display()
                ),
                Some(_) => {}
                None => chosen = Some((path, choice)),
            }
        }
        Ok(chosen.map(|(_, choice)| choice).unwrap_or_default())
    }
}

impl OpenArgs {
    fn options(&self, settings: &Settings) -> OpenOptions {
        let said = |yes: bool, no: bool| (yes || no).then_some(yes);
        let walk = WalkChoice {
            max_bytes: self.max_bytes,
            hidden: said(self.hidden, self.no_hidden),
            ignored: said(self.no_ignore, self.ignore),
        };
        // What is remembered comes before the settings.
        let of_settings =
            WalkChoice { max_bytes: settings.get(|layer| layer.max_bytes), ..WalkChoice::default() };
        let defaults = of_settings.over(&WalkOptions::default());
        let (directory, pool) = (self.index.clone(), self.pool.clone());
        OpenOptions { directory, walk, defaults, pool, ..OpenOptions::default() }
    }

    /// The model that the command line, else the index of a path, else a settings file names.
    fn model(&self, path: &Path, settings: &Settings) -> anyhow::Result<ModelChoice> {
        Ok(self.first_model(path, settings)?.reranked(self.rerank.as_ref(), settings))
    }

    /// The model that finds results, whatever orders them again.
    fn first_model(&self, path: &Path, settings: &Settings) -> anyhow::Result<ModelChoice> {
        if let Some(path) = &self.model {
            let path = model::named(path).map(Path::to_owned);
            return Ok(ModelChoice { path, ..ModelChoice::default() });
        }
        let untuned = ModelChoice::untuned(path, &self.options(settings), settings)?;
        match Tuned::nearest(path) {
            Some(tuned) if untuned.name().is_ok_and(|name| name == tuned.in_place_of) => Ok(ModelChoice {
                path: tuned.path(),
                source: ModelSource::Tuned(tuned.tree),
                ..ModelChoice::default()
            }),
            _ => Ok(untuned),
        }
    }
}

/// Opens an index, showing the progress.
fn with_progress<T, E>(open: impl FnOnce(&(dyn Fn(Event) + Sync)) -> Result<T, E>) -> Result<T, E> {
    let progress = Progress::new("reading", 0);
    open(&|event| show(&progress, &event))
}

/// Reports that indexes could not be written, why, and what is searched instead. That indexes are in memory is reported
/// for the first one: what keeps one from being written keeps the others.
pub fn tell_unwritten(opened: &[Opened]) {
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

/// Says that an index in a tree is ignored.
pub fn tell_ignored(path: &Path) {
    output::note_once(&format!("{} {IGNORED}; `quarry index --local` builds one there", path.display()));
}

/// Why an index in a tree is not used.
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
        Event::Ignored(path) => return progress.suspend(|| tell_ignored(path)),
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
