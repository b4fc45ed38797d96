//! `quarry serve`: search in a browser and over HTTP, and pages of results.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use quarry_embed::Embedder;
use quarry_http::{CodeLink, Progress, Server, Trees};
use quarry_index::{Event, Index, OpenOptions, SegmentPool};
use quarry_mcp::Workspace;
use quarry_session::settings::{Narrowing, Settings};
use quarry_session::{Notice, OpenChoice, Session, byte_size};
use quarry_walk::WalkOptions;

use crate::index::{SourcesArgs, print_notice};
use crate::model::RerankArgs;
use crate::output;
use crate::precompute::Background;
use crate::watch::{Changes, Message, next_changes};

/// Time after a failure until the next try, unless something changes before.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum time that a request waits for changed files to be indexed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum bytes of a token file.
const MAX_TOKEN_BYTES: u64 = 4096;
/// The environment variable that may hold the token.
const TOKEN_VARIABLE: &str = "QUARRY_TOKEN";

/// Arguments of `quarry serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    rerank: RerankArgs,
    /// Serve all trees that the engine at this address holds (`quarry index --to URL`), instead of local trees. Needs a
    /// build with the feature `milvus`
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Serve these results instead of trees: directories that `quarry eval run` wrote, with a comparison of methods
    /// query by query, and directories or files of HTML pages, such as data cards (can be repeated)
    #[cfg(feature = "eval")]
    #[arg(long, value_name = "RESULTS", conflicts_with_all = ["paths", "from"])]
    report: Vec<PathBuf>,
    #[command(flatten)]
    listen: ListenArgs,
    /// Answer only requests with the token in this file (or in the environment variable QUARRY_TOKEN), of 16 characters
    /// or more; an address that other machines reach needs one, or --behind-proxy
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Link from results to an editor or a forge, such as 'editor=vscode://file{root}/{path}:{line}'; {tree} is the
    /// name of the tree (can be repeated)
    #[arg(long = "link", value_name = "NAME=ADDRESS", value_parser = CodeLink::parse)]
    links: Vec<CodeLink>,
    /// Maximum size of open indexes, such as 500M: the least recently used are closed, and reopened when a search needs
    /// them
    #[arg(long, value_name = "BYTES", value_parser = byte_size::parse, default_value = "4G")]
    max_open: u64,
}

/// Answers until it is interrupted.
pub fn run_pages(server: Server) -> anyhow::Result<ExitCode> {
    let stop = server.stop();
    ctrlc::set_handler(move || stop.stop()).context("cannot install the Ctrl-C handler")?;
    output::print(&format!("http://{}/\n", server.address()))?;
    output::note("serving; Ctrl-C stops the server");
    server.run();
    output::note("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Options for the address of a server and its clients.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, alias = "bind", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7878")]
    pub listen: SocketAddr,
    /// Host name of the server, besides `localhost` and addresses; requests to other names are refused (can be
    /// repeated)
    #[arg(long = "host", value_name = "NAME", value_parser = host_name)]
    pub hosts: Vec<String>,
    /// Trust a proxy in front of the server for authentication and TLS
    #[arg(long)]
    pub behind_proxy: bool,
}

impl ListenArgs {
    /// The address of pages that have no token: one of this machine.
    pub fn local(&self) -> anyhow::Result<SocketAddr> {
        let address = self.listen;
        if !address.ip().is_loopback() || self.behind_proxy || !self.hosts.is_empty() {
            bail!(
                "--listen {address}: other machines can reach this address; use a local one, such as 127.0.0.1:7878, \
                 without --host and --behind-proxy, and forward it with `ssh -L`"
            );
        }
        Ok(address)
    }
}

/// A name as the header `Host` has it, without a port.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if text.is_empty() || !text.chars().all(is_name) {
        return Err("expected only a name, such as code.example.org".to_owned());
    }
    Ok(text.to_owned())
}

impl ServeArgs {
    /// The token, if there is one.
    fn token(&self) -> anyhow::Result<Option<String>> {
        let Some(file) = &self.token_file else { return Ok(env::var(TOKEN_VARIABLE).ok()) };
        let token = quarry_files::read_regular_text(file, MAX_TOKEN_BYTES);
        Ok(Some(token.with_context(|| format!("cannot read the token in {}", file.display()))?))
    }
}

/// Runs `quarry serve`, until it is interrupted.
///
/// # Errors
/// When there is no such tree or model, or the address cannot be used; later failures are reported and retried.
pub fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "eval")]
    if !args.report.is_empty() {
        let address = args.listen.local()?;
        return run_pages(Server::for_documents(address, crate::eval::documents(&args.report)?)?);
    }
    if let Some(url) = args.from.clone() {
        return run_from(&url, args);
    }
    let token = args.token()?;
    let (sender, messages) = mpsc::channel();
    let replaced = sender.clone();
    // At shutdown, the receiver is gone.
    let reopen = move || drop(replaced.send(Message::Changed { gone: Vec::new() }));
    let pool = Arc::new(SegmentPool::new(args.max_open, reopen));
    let mut source = args.source;
    source.rerank(args.rerank);
    source.limit_open(Arc::clone(&pool));
    let served = Served::new(source)?;
    let defaults = Settings::shared(&served.settings).search();
    let (paths, options) = (served.paths.clone(), served.options.clone());
    let status = move |number: usize| Index::status(&paths[number], &options[number]);
    let model = Arc::clone(&served.model);
    let trees = Trees::new(&served.names(), defaults, args.links, Box::new(status), model);
    let trees = Arc::new(trees.with_pool(pool).with_session(Arc::clone(&served.session)));
    let ListenArgs { listen, hosts, behind_proxy } = args.listen;
    let server =
        Server::bind(listen, Arc::clone(&trees), hosts, token.as_deref(), behind_proxy, served.workspaces())?;
    let (stop, stopped) = (server.stop(), sender.clone());
    ctrlc::set_handler(move || {
        stop.stop();
        // At shutdown, the receiver is gone.
        let _ = stopped.send(Message::Stop);
    })
    .context("cannot install the Ctrl-C handler")?;
    output::print(&format!("http://{}/\n", server.address()))?;
    output::note("serving; Ctrl-C stops the server");
    let (reopened, n_changes) = (sender.clone(), Arc::clone(&served.choice.n_changes));
    let background = Background::start(move || {
        n_changes.fetch_add(1, Ordering::SeqCst);
        drop(reopened.send(Message::Changed { gone: Vec::new() }));
    });
    let changes = Changes::watched(sender, served.indexes()?);
    // It ends with the process: an index that is being written remains unchanged.
    thread::spawn(move || served.follow(&trees, changes, &messages, &background));
    server.run();
    output::note("stopped");
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "milvus"))]
fn run_from(_url: &str, _args: ServeArgs) -> anyhow::Result<ExitCode> {
    crate::engine::missing("--from")
}

/// Serves the trees of an engine, until it is interrupted.
#[cfg(feature = "milvus")]
fn run_from(url: &str, mut args: ServeArgs) -> anyhow::Result<ExitCode> {
    args.source.rerank(args.rerank.clone());
    if !args.source.names_no_path() {
        bail!("--from {url} serves the trees of the engine; remove PATH");
    }
    let token = args.token()?;
    let settings = Settings::load(".".as_ref())?;
    let model = args.source.load_named_model(&settings)?;
    let kept = crate::engine::open(url, Arc::clone(&model), args.max_open)?;
    let (names, roots): (Vec<String>, Vec<PathBuf>) =
        kept.0.trees().iter().map(|tree| (tree.name.clone(), tree.root.clone())).unzip();
    if names.is_empty() {
        bail!("{url}: the engine has no trees; `quarry index PATH --to {url}` stores one");
    }
    let empty = kept.0.empty()?;
    let tree = quarry_session::Tree::elsewhere(&roots, empty, Arc::new(kept));
    let status = |_| Err(quarry_index::Error::NotKept { what: "the status of an index" });
    let trees = Trees::new(&names, settings.search(), args.links, Box::new(status), model);
    let trees = Arc::new(trees);
    trees.show(&tree);
    let ListenArgs { listen, hosts, behind_proxy } = args.listen;
    let server = Server::bind(listen, trees, hosts, token.as_deref(), behind_proxy, Vec::new())?;
    run_pages(server)
}

struct Served {
    session: Arc<Session>,
    choice: OpenChoice,
    paths: Vec<PathBuf>,
    settings: Vec<Settings>,
    options: Vec<OpenOptions>,
    model: Arc<dyn Embedder>,
}

impl Served {
    fn new(mut source: SourcesArgs) -> anyhow::Result<Self> {
        source.make_absolute()?;
        let paths = source.paths();
        let settings: Vec<Settings> =
            paths.iter().map(|path| Settings::load(path)).collect::<Result<_, _>>()?;
        for (settings, path) in settings.iter().zip(&paths) {
            settings.filter(&Narrowing::default(), path)?;
        }
        let choice = source.choice();
        let options = settings.iter().map(|settings| choice.options(settings)).collect();
        let model = choice.load_model(&paths, &settings)?;
        let session = Arc::new(Session::new(paths.clone(), choice.clone()).waiting(PATIENCE, print_notice));
        Ok(Self { session, choice, paths, settings, options, model })
    }

    /// Names of the trees for people: the last parts of their paths.
    fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| {
            path.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned())
        };
        self.paths.iter().map(name).collect()
    }

    fn workspaces(&self) -> Vec<Workspace> {
        self.paths.iter().map(|path| Workspace::new(vec![path.clone()], self.choice.clone())).collect()
    }

    fn indexes(&self) -> anyhow::Result<Vec<PathBuf>> {
        let index = |(path, options): (&PathBuf, &OpenOptions)| {
            let directory = Index::status(path, options)?.directory;
            Ok(std::path::absolute(&directory).unwrap_or(directory))
        };
        self.paths.iter().zip(&self.options).map(index).collect()
    }

    fn follow(
        &self,
        trees: &Trees,
        mut changes: Changes,
        messages: &Receiver<Message>,
        background: &Background,
    ) {
        let notices = |notice: Notice| match notice {
            Notice::Event(event) => report_progress(trees, event),
            notice => print_notice(notice),
        };
        let (mut problem, mut is_first) = (String::new(), true);
        loop {
            // Before checking for changes, so that none is missed.
            changes.follow(&self.walks());
            let changed = Instant::now();
            trees.expect(Some(changed));
            let latest = self.session.latest(changed, &notices);
            // A stored index answers requests until it is up to date.
            if let Ok((snapshot, Some(_))) = &latest
                && is_first
            {
                trees.show(&snapshot.tree());
            }
            is_first = false;
            match latest.and_then(|_| self.session.snapshot(Some(changed), &notices)) {
                Ok(snapshot) => {
                    problem.clear();
                    let tree = snapshot.tree();
                    trees.show(&tree);
                    background.embed(&tree.index);
                }
                // Reported once, however often it is retried.
                Err(error) => {
                    trees.expect(None);
                    let now = quarry_text::with_causes(&error);
                    trees.report(Progress { failure: Some(now.clone()), ..Progress::default() });
                    if now != problem {
                        output::note(&format!("{now}; trying again"));
                        problem = now;
                    }
                }
            }
            let patience = if problem.is_empty() { changes.interval() } else { Some(RETRY) };
            match next_changes(messages, patience) {
                Some(gone) => changes.forget(&gone),
                None => return,
            }
        }
    }

    fn walks(&self) -> Vec<(PathBuf, WalkOptions)> {
        let walk = |(path, options): (&PathBuf, &OpenOptions)| {
            Some((path.clone(), Index::found(path, options).ok()?))
        };
        self.paths.iter().zip(&self.options).filter_map(walk).collect()
    }
}

fn report_progress(trees: &Trees, event: &Event) {
    let Some((share, message)) = event.progress() else { return };
    trees.report(Progress { share, message: message.to_owned(), failure: None });
}
