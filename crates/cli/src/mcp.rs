//! `quarry mcp`: search for coding agents.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use quarry_index::Index;
use quarry_mcp::{Searched, Tokens, Trees, Workspace};
use quarry_session::Notice;
use quarry_session::settings::Settings;
use quarry_walk as walk;

use crate::index::{SourcesArgs, print_notice, warn_ignored};
use crate::log::{self, Record};
use crate::model::RerankArgs;
use crate::precompute::Background;

/// Arguments of `quarry mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    rerank: RerankArgs,
}

/// Runs `quarry mcp`: until the client closes stdin.
pub fn run(mut args: McpArgs) -> anyhow::Result<ExitCode> {
    args.source.rerank(args.rerank);
    let paths = args.source.paths();
    // Report problems before a client connects; of several trees, one may come later.
    if let [only] = paths.as_slice() {
        walk::base_directory(only)?;
    }
    let settings = paths.iter().map(|path| Settings::load(path)).collect::<Result<Vec<_>, _>>()?;
    let choice = args.source.choice();
    // A model is loaded once, and problems with it are reported before a client connects.
    choice.load_model(&paths, &settings)?;
    for (path, settings) in paths.iter().zip(&settings) {
        Index::ignored(path, &choice.options(settings))
            .into_iter()
            .flatten()
            .for_each(|path| warn_ignored(&path));
    }
    let n_changes = Arc::clone(&choice.n_changes);
    let embedded = move || _ = n_changes.fetch_add(1, Ordering::SeqCst);
    let background = Arc::new(Background::start(embedded));
    let gives_way = args.source.names_no_path();
    let make = move |paths: Vec<PathBuf>| {
        let record = move |searched: &Searched, tokens: &dyn Fn() -> Tokens| {
            let results = searched.results.iter().map(|unit| (unit.path.as_str(), unit.start_line));
            log::append(|| {
                let mut record =
                    Record::new("mcp", &searched.root, &searched.query, results, searched.opened);
                let Tokens { given, of_file } = tokens();
                (record.tokens, record.file_tokens) = (Some(given), of_file);
                record
            });
        };
        let background = Arc::clone(&background);
        let on_notice = move |notice: Notice| match notice {
            Notice::Ready(index) => background.embed(index),
            notice => print_notice(notice),
        };
        Workspace::new(paths, choice.clone()).with_observer(record).with_notices(on_notice)
    };
    quarry_mcp::serve_stdio(Trees::new(&paths, gives_way, make))?;
    Ok(ExitCode::SUCCESS)
}
