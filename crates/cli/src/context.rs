//! `quarry context` and `quarry outline`: code within a budget of tokens, as agents read it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use quarry_index::Filter;
use quarry_session::context::{ContextRequest, context, file_tokens};
use quarry_session::outline::outline;
use quarry_session::{Snapshot, TOKENIZER, Tree, count_tokens};
use quarry_text::counted;
use serde::Serialize;

use crate::index::{SourcesArgs, with_notices};
use crate::log::{self, Record};
use crate::model::RerankArgs;
use crate::output;
use crate::results::FilterArgs;
use crate::search::given_query;
use crate::settings;

/// Arguments of `quarry context`.
#[derive(Debug, Args)]
pub struct ContextArgs {
    /// What the code does, in a few words, or the name of a symbol; - reads it from stdin
    query: String,
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of tokens (o200k_base)
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = settings::at_least_one)]
    tokens: usize,
    #[command(flatten)]
    rerank: RerankArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `quarry outline`.
#[derive(Debug, Args)]
pub struct OutlineArgs {
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of tokens (o200k_base)
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = settings::at_least_one)]
    tokens: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A text within a budget.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Printed<'a> {
    /// Directory that paths in the text are relative to.
    root: &'a Path,
    /// The code, as agents read it.
    text: &'a str,
    /// Number of its tokens.
    tokens: usize,
    /// Name of the tokenizer.
    tokenizer: &'static str,
    /// True if a result clearly answers; absent for a long text searched by words alone, and for `quarry outline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    confident: Option<bool>,
}

impl Printed<'_> {
    fn print(&self, json: bool, max_tokens: usize) -> anyhow::Result<()> {
        if json {
            return output::print_json(self);
        }
        if self.text.is_empty() {
            output::note(&format!("nothing fits in {}; increase --tokens", counted(max_tokens, "token")));
        } else if self.root != Path::new(".") {
            output::note(&format!("paths are relative to {}", self.root.display()));
        }
        Ok(output::print(self.text)?)
    }
}

/// Directory that paths are relative to.
fn root(source: &SourcesArgs) -> PathBuf {
    let mut paths = source.paths();
    if paths.len() == 1 { paths.remove(0) } else { PathBuf::from(".") }
}

/// Runs `quarry context`; the exit code says whether something clearly answers.
pub fn run(mut args: ContextArgs) -> anyhow::Result<ExitCode> {
    let query = given_query(args.query)?;
    args.source.rerank(args.rerank);
    let session = args.source.session(args.filter.narrowing()?);
    let context = |tree: &Tree, snapshot: &Snapshot| {
        let found = context(
            &tree.index,
            &ContextRequest {
                query: &query,
                filter: &Filter::default(),
                ranking: &snapshot.defaults.ranking,
                max_tokens: args.tokens,
                prefixes: &tree.prefixes(),
            },
        )?;
        let tokens = count_tokens(&found.text);
        let shown: Vec<_> = found.shown.iter().map(|unit| tree.index.unit(*unit)).collect();
        log::append(|| {
            let mut record = Record::from_hits("context", tree, &query, shown.iter(), None);
            record.tokens = Some(tokens);
            record.file_tokens = Some(file_tokens(&tree.index, &found.shown));
            record
        });
        anyhow::Ok((found.text, found.confident, tokens))
    };
    let (text, confident, tokens) = with_notices(|notices| session.ask(None, notices, context))?;
    let root = &root(&args.source);
    Printed { root, text: &text, tokens, tokenizer: TOKENIZER, confident }.print(args.json, args.tokens)?;
    Ok(ExitCode::from(u8::from(confident == Some(false))))
}

pub fn run_outline(args: &OutlineArgs) -> anyhow::Result<ExitCode> {
    let session = args.source.session(args.filter.narrowing()?);
    let outline = |tree: &Tree, _: &Snapshot| -> anyhow::Result<String> {
        Ok(outline(&tree.index, &Filter::default(), args.tokens, &tree.prefixes())?)
    };
    let text = with_notices(|notices| session.ask(None, notices, outline))?;
    let (root, tokens) = (&root(&args.source), count_tokens(&text));
    Printed { root, text: &text, tokens, tokenizer: TOKENIZER, confident: None }
        .print(args.json, args.tokens)?;
    Ok(ExitCode::SUCCESS)
}
