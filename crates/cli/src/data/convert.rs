//! `quarry data convert`: conversion of any format to any other.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use quarry_corpus::dataset::convert::{ConvertOptions, Converted, Grades, HideNames, Target, convert};
use quarry_source::{Language, language_called};
use quarry_text::counted;

use super::Inputs;
use crate::output;

/// Arguments of `quarry data convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Format to write: beir, coir, mteb or another that `quarry data formats` lists as written [default: beir, or for
    /// a file name such as pairs.parquet, the format of the input]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Another file to read: the queries
    #[arg(long, value_name = "FILE")]
    queries: Vec<PathBuf>,
    /// Another file to read: the corpus
    #[arg(long, value_name = "FILE")]
    corpus: Vec<PathBuf>,
    /// Use the published tokens, joined by spaces, as texts
    #[arg(long)]
    tokens: bool,
    /// Keep only pairs and judgments of this programming language
    #[arg(long, value_name = "NAME")]
    language: Option<String>,
    /// Grade of pairs that have no label
    #[arg(long, alias = "unlabelled", value_name = "GRADE")]
    unlabeled: Option<i32>,
    /// Grade to use if a query and document have several
    #[arg(long, value_name = "RULE", default_value = "refuse")]
    grades: GradesArg,
    /// Renumber queries and documents from 0, merging equal texts of pairs
    #[arg(long)]
    renumber: bool,
    /// Hide the names of functions and variables in code (func, arg_0, arg_1, ...), as in AdvTest; with LANGUAGE, as in
    /// --hide-names=python, also in code whose record names none
    #[arg(long, value_name = "LANGUAGE", num_args = 0..=1, require_equals = true)]
    hide_names: Option<Option<String>>,
    /// Number of results of each query in a run that become pairs [default: all]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Files or directories to read, then the file or directory to write, which must not exist
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Choice among several grades for one query and document.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum GradesArg {
    /// Treat different grades as an error
    Refuse,
    Max,
    Min,
    /// Rounded to a whole number
    Mean,
}

impl From<GradesArg> for Grades {
    fn from(rule: GradesArg) -> Self {
        match rule {
            GradesArg::Refuse => Self::Refuse,
            GradesArg::Max => Self::Max,
            GradesArg::Min => Self::Min,
            GradesArg::Mean => Self::Mean,
        }
    }
}

pub fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    let named = args.to.as_deref().map(named).transpose()?;
    let (out, rest) = args.paths.split_last().context("expected a path to write")?;
    let inputs: Vec<PathBuf> = [&args.queries, &args.corpus, rest].into_iter().flatten().cloned().collect();
    if inputs.is_empty() {
        bail!("{}: expected files to read before the one to write", out.display());
    }
    // A language after a space is a path: the option's value is optional, and paths follow it.
    if let (Some(None), Some(name)) = (&args.hide_names, inputs.first().filter(|path| !path.exists()))
        && let Some(name) = name.to_str().filter(|name| language_called(name).is_some())
    {
        bail!("{name}: no such file; for a language write --hide-names={name}");
    }
    let hide_names = args.hide_names.as_ref().map(|name| language(name.as_deref())).transpose()?;
    let options = ConvertOptions {
        hide_names: hide_names.map(|language| HideNames { language }),
        top: args.top.map(|top| top as usize),
        tokens: args.tokens,
        language: args.language.clone(),
        unlabeled: args.unlabeled,
        grades: args.grades.into(),
        renumber: args.renumber,
        without_judgments: false,
    };
    let sources = args.inputs.sources(&inputs)?;
    let target = named.map_or_else(|| Target::default_for(out, &sources), Ok)?;
    let Converted { files, negatives, names_kept } =
        convert(&sources, target, out, &args.inputs.split, &options)?;
    files.iter().for_each(|file| output::note(&file.to_string()));
    if negatives > 0 {
        output::note(&format!(
            "left out {} with label 0: {} holds only matches",
            counted(negatives, "pair"),
            target.name()
        ));
    }
    if names_kept > 0 {
        output::note(&format!(
            "names remain in {}: no function was found there, or its language is unknown; name it with \
             --hide-names=LANGUAGE",
            counted(names_kept, "code")
        ));
    }
    Ok(())
}

fn language(name: Option<&str>) -> anyhow::Result<Option<Language>> {
    let known = |name| {
        language_called(name).with_context(|| {
            format!("--hide-names={name}: expected a language; `quarry languages` lists them")
        })
    };
    name.map(known).transpose()
}

fn named(name: &str) -> anyhow::Result<Target> {
    Target::named(name).with_context(|| {
        let names: Vec<&str> = Target::names().collect();
        format!("--to {name}: expected a format that can be written: {}", names.join(", "))
    })
}
