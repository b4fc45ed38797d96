//! `quarry data browse`: pairs of queries and codes, to page through, filter and search.
//!
//! On a terminal it draws on stderr, as the picker does; otherwise it prints the pairs that fit.

mod filter;
mod state;
mod view;

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::slice;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use quarry_corpus::dataset;
use quarry_corpus::dataset::convert::{ConvertOptions, benchmark};
use quarry_corpus::formats::{FormatError, Pair, Record, RecordKind};
use quarry_factory::{BuiltPair, for_each_pair};
use ratatui::crossterm::event;

use self::filter::{Filter, LabelFilter};
use self::state::{Browser, State, Step};
use super::Inputs;
use crate::output;
use crate::screen::Screen;

/// Arguments of `quarry data browse`.
#[derive(Debug, Args)]
pub struct BrowseArgs {
    /// Directory of a build, or files of pairs, queries, codes and judgments in any format
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: Inputs,
    /// Words that query or code must contain, ignoring case
    #[arg(long, value_name = "WORDS", default_value = "")]
    search: String,
    /// Only pairs with this label
    #[arg(long, value_enum)]
    label: Option<LabelArg>,
    /// Only pairs with code in this language
    #[arg(long, value_name = "NAME")]
    language: Option<String>,
    /// Only pairs in this part of a build
    #[arg(long, value_name = "PART")]
    part: Option<String>,
    /// Maximum number of pairs to show on a terminal
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = crate::settings::at_least_one)]
    maximum: usize,
    /// Print each pair as a line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LabelArg {
    /// The code answers the query
    Positive,
    /// The code does not answer the query
    Negative,
    /// Nobody said whether it does
    None,
}

impl From<LabelArg> for LabelFilter {
    fn from(label: LabelArg) -> Self {
        match label {
            LabelArg::Positive => Self::Positive,
            LabelArg::Negative => Self::Negative,
            LabelArg::None => Self::Missing,
        }
    }
}

/// Shows pairs, or prints them if there is no terminal; exit code 1 if none match.
///
/// # Errors
/// When a file is missing or wrong, or holds no pairs.
pub fn run(args: &BrowseArgs) -> anyhow::Result<ExitCode> {
    let filter = Filter {
        label: args.label.map_or(LabelFilter::Any, Into::into),
        language: args.language.clone(),
        part: args.part.clone(),
        words: Filter::words_of(&args.search),
    };
    if args.json || !io::stdout().is_terminal() || !io::stderr().is_terminal() {
        return print(args, &filter);
    }
    let (mut pairs, mut n_pairs) = (Vec::new(), 0);
    args.read(&mut |pair| {
        n_pairs += 1;
        if pairs.len() < args.maximum {
            pairs.push(pair);
        }
        Ok(())
    })?;
    if pairs.is_empty() {
        bail!("expected pairs, found none");
    }
    let browser = Browser::new(pairs, n_pairs);
    let mut state = State::new(&browser, filter, &args.search);
    let mut screen = Screen::open()?;
    loop {
        // What was typed meanwhile is taken together.
        if !event::poll(Duration::ZERO)? {
            state.search(&browser);
            screen.draw(|frame| view::draw(frame, &browser, &mut state))?;
        }
        if state.update(&browser, &event::read()?) == Step::Leave {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Prints the pairs that fit, one at a time.
fn print(args: &BrowseArgs, filter: &Filter) -> anyhow::Result<ExitCode> {
    let mut n_shown = 0;
    args.read(&mut |pair| {
        if !filter.keeps(&pair) {
            return Ok(());
        }
        n_shown += 1;
        if args.json {
            return output::print_json(&pair);
        }
        let gap = if n_shown > 1 { "\n" } else { "" };
        Ok(output::print(&format!("{gap}{}\n", view::text(&pair)))?)
    })?;
    Ok(ExitCode::from(u8::from(n_shown == 0)))
}

/// Takes pairs one at a time.
type Take<'t> = dyn FnMut(BuiltPair) -> anyhow::Result<()> + 't;

impl BrowseArgs {
    /// Reads all pairs; those of queries, codes and judgments in separate files are joined in memory.
    fn read(&self, take: &mut Take<'_>) -> anyhow::Result<()> {
        let mut failed = None;
        let mut take = |pair| {
            if failed.is_none() {
                failed = take(pair).err();
            }
        };
        if let [build] = &self.paths[..]
            && build.join("build.json").is_file()
        {
            for_each_pair(build, &mut take)?;
            return failed.map_or(Ok(()), Err);
        }
        let sources = self.inputs.sources(&self.paths)?;
        let (pairs, others): (Vec<_>, Vec<_>) =
            sources.into_iter().partition(|source| source.format.holds == RecordKind::Pairs);
        for source in &pairs {
            dataset::for_each(slice::from_ref(source), &mut |_, record| {
                if let Record::Pair(pair) = record {
                    take(of_file(*pair));
                }
                Ok::<(), FormatError>(())
            })?;
        }
        if pairs.is_empty() {
            let data = benchmark(&others, &ConvertOptions::default())?;
            let documents: HashMap<_, _> =
                data.documents.iter().map(|document| (document.id.as_str(), document)).collect();
            for query in &data.queries {
                for (id, grade) in data.qrels.get(&query.id).into_iter().flatten() {
                    let Some(document) = documents.get(id.as_str()) else { continue };
                    take(BuiltPair {
                        query_id: query.id.clone(),
                        query: query.text.clone(),
                        code_id: id.clone(),
                        code: document.full_text().into_owned(),
                        language: document.language_name().unwrap_or_default().into_owned(),
                        label: Some(*grade),
                        evidence: None,
                        part: None,
                    });
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

fn of_file(pair: Pair) -> BuiltPair {
    BuiltPair {
        query_id: pair.query.id.unwrap_or_default(),
        query: pair.query.text,
        code_id: pair.code.id.unwrap_or_default(),
        code: pair.code.text,
        language: pair.language.unwrap_or_default(),
        label: pair.label,
        evidence: None,
        part: pair.partition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair of a query and a code.
    pub fn pair(query: &str, code: &str, language: &str, label: Option<i32>) -> BuiltPair {
        BuiltPair {
            query_id: "q".to_owned(),
            query: query.to_owned(),
            code_id: "c".to_owned(),
            code: code.to_owned(),
            language: language.to_owned(),
            label,
            evidence: label.map(|_| "judge x".to_owned()),
            part: Some(if label == Some(1) { "train" } else { "test" }.to_owned()),
        }
    }

    /// Some pairs in two languages and parts.
    pub fn browser() -> Browser {
        let pairs = vec![
            pair("open a file", "def open_file(path):\n    return open(path)", "python", Some(1)),
            pair("open a file", "func Close(file *File) {}", "go", Some(0)),
            pair("sum of a list", "def total(numbers):\n    return sum(numbers)", "python", Some(1)),
            pair("sum of a list", "func Open() {}", "go", None),
        ];
        Browser::new(pairs, 4)
    }
}
