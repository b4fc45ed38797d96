//! `quarry data distractors`: candidates that each query is ranked among.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use quarry_corpus::dataset::convert::{self, benchmark};
use quarry_corpus::dataset::distractors::{
    DistractorOptions, Sampling, candidate_counts, different_mismatches, mismatches, n_with_repeats, sample,
    to_match, write, write_pairs,
};
use quarry_corpus::dataset::python_random::PythonRandom;
use quarry_text::counted;

use super::{Inputs, inputs_and_output};
use crate::output;

/// Arguments of `quarry data distractors`.
#[derive(Debug, Args)]
pub struct DistractorsArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Number of distractors per query
    #[arg(long, value_name = "N", default_value_t = 99, value_parser = crate::settings::at_least_one)]
    count: usize,
    /// Documents to draw from
    #[arg(long, value_name = "RULE", default_value = "uniform")]
    sampling: SamplingArg,
    /// Draw no document with the same text as one that answers the query
    #[arg(long, conflicts_with = "matching")]
    without_twins: bool,
    /// Write pairs to match instead, as in GenCodeSearchNet: each query with its code and with that of another query
    #[arg(long, value_name = "RULE", conflicts_with_all = ["count", "sampling"])]
    matching: Option<MatchingArg>,
    /// Seed of the random numbers, which are those of Python's `random`
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Files or directories to read, then the file to write, which must not exist
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SamplingArg {
    /// All documents that do not answer the query
    Uniform,
    /// The candidates of the previous query, as the released script for CodeT5+ draws
    Rolling,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MatchingArg {
    /// The code of any other pair, as for AdvTest and CodeSearchNet
    Others,
    /// The code of a pair with a different code, as for StatCodeSearch
    OtherCodes,
}

pub fn run(args: &DistractorsArgs) -> anyhow::Result<()> {
    let (inputs, out) = inputs_and_output(&args.paths)?;
    let benchmark = benchmark(&args.inputs.sources(inputs)?, &convert::ConvertOptions::default())?;
    if let Some(rule) = args.matching {
        let mut random = PythonRandom::new(args.seed);
        let draw = |codes: &[&str], answers: &[Vec<usize>]| match rule {
            MatchingArg::Others => mismatches(answers, &mut random),
            MatchingArg::OtherCodes => different_mismatches(codes, answers, &mut random),
        };
        let pairs = to_match(&benchmark, draw, &inputs[0])?;
        let note =
            format!("wrote {}, half of them matches, to {}", counted(pairs.len(), "pair"), out.display());
        write_pairs(pairs, out)?;
        output::note(&note);
        return Ok(());
    }
    let options = DistractorOptions {
        count: args.count,
        sampling: match args.sampling {
            SamplingArg::Uniform => Sampling::Uniform,
            SamplingArg::Rolling => Sampling::Rolling,
        },
        without_twins: args.without_twins,
        seed: args.seed,
    };
    let lists = sample(&benchmark, options, &inputs[0])?;
    write(&lists, out)?;
    let n_repeats = n_with_repeats(&lists);
    if n_repeats > 0 {
        output::note(&format!("queries with a repeated answer or distractor, as released: {n_repeats}"));
    }
    let candidates = match candidate_counts(&lists) {
        (minimum, maximum) if minimum == maximum => maximum.to_string(),
        (minimum, maximum) => format!("{minimum} to {maximum}"),
    };
    output::note(&format!(
        "wrote {candidates} candidates ({} distractors and all positives) for each of {} to {}",
        args.count,
        counted(lists.len(), "query"),
        out.display()
    ));
    Ok(())
}
