//! `quarry data describe`: the statistics that papers print.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use clap::Args;
use quarry_corpus::dataset::describe::{Census, Comparison, Description, Length, Lengths, Texts};
use quarry_text::counted;
use quarry_text::{identifiers, parts};
use quarry_transformer::TokenCutter;
use serde_json::json;

use super::Inputs;
use crate::output;

/// Arguments of `quarry data describe`.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Another data set, a file or directory: what both share and how far their tokens are apart; may be repeated
    #[arg(long, value_name = "PATH")]
    against: Vec<PathBuf>,
    /// Use the published tokens, joined by spaces, as texts
    #[arg(long)]
    tokens: bool,
    /// Count tokens with this tokenizer.json, such as RoBERTa's in GenCodeSearchNet [default:
    /// the parts of identifiers, in lower case]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Files or directories of one data set
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Describes.
///
/// # Errors
/// When a file is missing or wrong.
pub fn run(args: &DescribeArgs) -> anyhow::Result<ExitCode> {
    let cutter = args.tokenizer.as_deref().map(TokenCutter::read).transpose()?;
    let failure = Mutex::new(None);
    let tokenize = |text: &str, each: &mut dyn FnMut(&str)| match &cutter {
        None => parts_of_identifiers(text, each),
        Some(cutter) => {
            if let (Err(error), Ok(mut failure)) = (cutter.cut(text, each), failure.lock()) {
                failure.get_or_insert(error);
            }
        }
    };
    let census = |paths: &[PathBuf]| Census::of(&args.inputs.sources(paths)?, args.tokens, &tokenize);
    let this = census(&args.paths)?;
    let mut comparisons = Vec::new();
    for path in &args.against {
        comparisons.push((path, this.compare(&census(std::slice::from_ref(path))?)));
    }
    if let Ok(Some(error)) = failure.into_inner() {
        return Err(error.into());
    }
    let description = this.describe();
    if args.json {
        let comparisons: Vec<_> = comparisons
            .iter()
            .map(|(path, comparison)| json!({ "path": path, "queries": comparison.queries, "codes": comparison.codes }))
            .collect();
        let mut object = serde_json::to_value(&description)?;
        object["against"] = json!(comparisons);
        output::print_json(&object)?;
    } else {
        let mut text = describe(&description)?;
        for (path, comparison) in &comparisons {
            compare(&mut text, &path.display(), comparison)?;
        }
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Parts of identifiers in lower case: the words of the static model.
fn parts_of_identifiers(text: &str, each: &mut dyn FnMut(&str)) {
    for part in identifiers(text).flat_map(parts) {
        each(&part.to_lowercase());
    }
}

fn describe(description: &Description) -> Result<String, std::fmt::Error> {
    let Description {
        pairs,
        labels,
        repeated_pairs,
        positives_per_query,
        languages,
        categories,
        queries,
        codes,
    } = description;
    let mut text = String::new();
    writeln!(text, "{:<28}{pairs}", "pairs")?;
    counts(&mut text, "  by label", labels)?;
    counts(&mut text, "  by language", languages)?;
    counts(&mut text, "  by category", categories)?;
    writeln!(text, "{:<28}{repeated_pairs}", "  repeated")?;
    counts(&mut text, "queries by positives", positives_per_query)?;
    for (name, texts) in [("queries", queries), ("codes", codes)] {
        let Texts {
            texts,
            distinct,
            distinct_normalised,
            empty,
            word_vocabulary,
            token_vocabulary,
            all,
            once,
        } = texts;
        writeln!(text, "{name:<28}{texts}")?;
        writeln!(text, "{:<28}{distinct} ({distinct_normalised} but for spacing)", "  different")?;
        writeln!(text, "{:<28}{empty}", "  empty")?;
        writeln!(
            text,
            "{:<28}{}, {}",
            "  vocabulary",
            counted(*word_vocabulary, "word"),
            counted(*token_vocabulary, "token")
        )?;
        lengths(&mut text, "", all)?;
        lengths(&mut text, ", each once", once)?;
    }
    Ok(text)
}

fn counts<T: Display>(text: &mut String, name: &str, counts: &BTreeMap<T, usize>) -> std::fmt::Result {
    if counts.is_empty() {
        return Ok(());
    }
    let counts: Vec<String> = counts.iter().map(|(value, count)| format!("{value}: {count}")).collect();
    writeln!(text, "{name:<28}{}", counts.join(", "))
}

fn lengths(text: &mut String, which: &str, lengths: &Lengths) -> std::fmt::Result {
    let units = [("words", &lengths.words), ("characters", &lengths.characters), ("tokens", &lengths.tokens)];
    for (unit, Length { mean, min, median, p90, max }) in units {
        let name = format!("  {unit}{which}");
        writeln!(text, "{name:<28}mean {mean:.2}, median {median}, 90 % {p90}, {min} to {max}")?;
    }
    Ok(())
}

fn compare(text: &mut String, name: &impl Display, comparison: &Comparison) -> std::fmt::Result {
    writeln!(text, "against {name}")?;
    for (side, comparison) in [("queries", &comparison.queries), ("codes", &comparison.codes)] {
        writeln!(
            text,
            "{:<28}{} shared ({:.2} % of these, {:.2} % of those), total variation distance {:.4}",
            format!("  {side}"),
            comparison.shared,
            100.0 * comparison.shared_of_this,
            100.0 * comparison.shared_of_other,
            comparison.total_variation_distance
        )?;
    }
    Ok(())
}
