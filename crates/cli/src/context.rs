//! `quarry context` and `quarry outline`: code within a budget of tokens, as agents read it.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use quarry_answer::context::{ContextRequest, Weights, context};
use quarry_answer::outline::outline;
use quarry_answer::{TOKENIZER, count_tokens};
use quarry_index::Update;
use quarry_text::counted;
use serde::Serialize;

use crate::index::SourceArgs;
use crate::model_choice::RerankArgs;
use crate::output;
use crate::results::FilterArgs;
use crate::settings::{self, Settings};

/// Arguments of `quarry context`.
#[derive(Debug, Args)]
pub struct ContextArgs {
    /// What the code does, in a few words, or the name of a symbol
    query: String,
    #[command(flatten)]
    source: SourceArgs,
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
    source: SourceArgs,
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
    /// What the paths in the text are relative to.
    root: &'a Path,
    /// The code, as agents read it.
    text: &'a str,
    /// Number of its tokens.
    tokens: usize,
    /// Name of the tokenizer.
    tokenizer: &'static str,
    /// Whether a result clearly answers; absent for a long text, and for `quarry outline`.
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

/// Runs `quarry context`; the exit code tells whether something clearly answers.
///
/// # Errors
/// When the tree cannot be indexed or searched.
pub fn run(mut args: ContextArgs) -> anyhow::Result<ExitCode> {
    args.source.rerank(args.rerank);
    let settings = Settings::load(&args.source.path)?;
    let filter = args.filter.filter(&settings, &args.source.path)?;
    let index = args.source.open(&settings, Update::IfPossible)?.index;
    let ranking = settings.ranking(None);
    let found = context(
        &index,
        &ContextRequest {
            query: &args.query,
            filter: &filter,
            ranking: &ranking,
            max_tokens: args.tokens,
            weights: Weights::default(),
        },
    )?;
    let (text, confident) = (found.text.as_str(), found.confident);
    let root = args.source.path.as_path();
    let tokens = count_tokens(text);
    Printed { root, text, tokens, tokenizer: TOKENIZER, confident }.print(args.json, args.tokens)?;
    Ok(ExitCode::from(u8::from(confident == Some(false))))
}

/// Runs `quarry outline`.
///
/// # Errors
/// When the tree cannot be indexed.
pub fn run_outline(args: &OutlineArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.source.path)?;
    let filter = args.filter.filter(&settings, &args.source.path)?;
    let index = args.source.open(&settings, Update::IfPossible)?.index;
    let text = outline(&index, &filter, args.tokens)?;
    let tokens = count_tokens(&text);
    let root = args.source.path.as_path();
    Printed { root, text: &text, tokens, tokenizer: TOKENIZER, confident: None }
        .print(args.json, args.tokens)?;
    Ok(ExitCode::SUCCESS)
}
