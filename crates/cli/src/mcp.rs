//! `quarry mcp`: search for coding agents.

use std::process::ExitCode;

use clap::Args;
use quarry_index::{Index, Opened};
use quarry_server::{Searched, Workspace};
use quarry_walk as walk;

use crate::ahead::Background;
use crate::index::{SourceArgs, tell_ignored, tell_unwritten};
use crate::log::{self, Record};
use crate::model_choice::RerankArgs;
use crate::settings::Settings;

/// Arguments of `quarry mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    rerank: RerankArgs,
}

/// Runs `quarry mcp`: until the client closes stdin.
///
/// # Errors
/// When there is no such tree or model, or the client does not speak the protocol.
pub fn run(mut args: McpArgs) -> anyhow::Result<ExitCode> {
    args.source.rerank(args.rerank);
    // What is wrong from the start is told before a client connects.
    walk::base_directory(&args.source.path)?;
    let settings = Settings::load(&args.source.path)?;
    let (options, model) = (args.source.options(&settings), args.source.load_model(&settings)?);
    Index::ignored(&args.source.path, &options)?.iter().for_each(|path| tell_ignored(path));
    let root = args.source.path.clone();
    let record = move |searched: &Searched| {
        let results = searched.results.iter().map(|unit| (unit.path.as_str(), unit.start_line));
        log::append(|| Record::new("mcp", &root, &searched.query, results, searched.opened));
    };
    let background = Background::start(|| {});
    let opened = move |opened: &Opened| {
        tell_unwritten(std::slice::from_ref(opened));
        background.embed(&opened.index);
    };
    let workspace = Workspace::new(args.source.path, options, model).with_ranking(settings.ranking(None));
    quarry_server::serve_stdio(workspace.with_observer(record).with_opened(opened))?;
    Ok(ExitCode::SUCCESS)
}
