//! `quarry mcp`: search for coding agents.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use quarry_index::{Index, Opened};
use quarry_server::{Searched, Tokens, Trees, Workspace};
use quarry_walk as walk;

use crate::ahead::Background;
use crate::index::{SourcesArgs, tell_ignored, tell_unwritten};
use crate::log::{self, Record};
use crate::model_choice::RerankArgs;
use crate::output;
use crate::settings::Settings;

/// Arguments of `quarry mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    rerank: RerankArgs,
}

/// Runs `quarry mcp`: until the client closes stdin.
///
/// # Errors
/// When there is no such tree or model, or the client does not speak the protocol.
pub fn run(mut args: McpArgs) -> anyhow::Result<ExitCode> {
    args.source.rerank(args.rerank);
    let paths = args.source.paths();
    // What is wrong from the start is told before a client connects; of several trees, one may come later.
    if let [only] = paths.as_slice() {
        walk::base_directory(only)?;
    }
    let settings = paths.iter().map(|path| Settings::load(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let model = args.source.load_model(&settings)?;
    for (path, options) in paths.iter().zip(args.source.options(&settings)) {
        Index::ignored(path, &options).into_iter().flatten().for_each(|path| tell_ignored(&path));
    }
    let background = Arc::new(Background::start(|| {}));
    let gives_way = args.source.names_no_path();
    let source = args.source;
    let make = move |path: &Path| {
        // A tree whose settings cannot be read is searched without them, rather than not at all.
        let settings = Settings::load(path).unwrap_or_else(|error| {
            output::print_error(&error);
            Settings::defaults()
        });
        let options = source.options(std::slice::from_ref(&settings)).pop().unwrap_or_default();
        let root = path.to_owned();
        let record = move |searched: &Searched, tokens: &dyn Fn() -> Tokens| {
            let results = searched.results.iter().map(|unit| (unit.path.as_str(), unit.start_line));
            log::append(|| {
                let mut record = Record::new("mcp", &root, &searched.query, results, searched.opened);
                let Tokens { given, of_file } = tokens();
                (record.tokens, record.file_tokens) = (Some(given), of_file);
                record
            });
        };
        let background = Arc::clone(&background);
        let opened = move |opened: &Opened| {
            tell_unwritten(std::slice::from_ref(opened));
            background.embed(&opened.index);
        };
        let workspace = Workspace::new(path.to_owned(), options, Arc::clone(&model));
        workspace.with_ranking(settings.ranking(None)).with_observer(record).with_opened(opened)
    };
    quarry_server::serve_stdio(Trees::new(&paths, gives_way, make))?;
    Ok(ExitCode::SUCCESS)
}
