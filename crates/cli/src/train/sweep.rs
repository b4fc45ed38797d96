//! `quarry train encoder --grid`: a recipe with every combination of some settings, and seeds.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::formats::write::NewDirectories;
use quarry_eval::report::training::{TrainingRun, training_page};
use quarry_metrics::significance::mean_and_deviation;
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use quarry_train::encoder::{Evaluation, LossPoint, Outcome, Select, Settings};
use serde::{Deserialize, Serialize};

use super::encoder::{ComparedPairs, EncoderArgs, PAGE, facts_of, settings, train_encoder, training_run};
use crate::eval::arguments::LayoutArgs;
use crate::{new_file, output};

/// The record of a finished run in its directory, so that it is not done again.
const RESULT: &str = "result.json";

/// Arguments of `quarry train encoder`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    #[command(flatten)]
    encoder: EncoderArgs,
    /// A setting and its values, such as rate=1e-5,2e-5 (can be repeated): every combination is trained in its own
    /// directory below --out, and report.html shows which is best on held-out pairs
    #[arg(long, value_name = "KEY=VALUES")]
    grid: Vec<String>,
    /// Number of seeds to train each combination with: the recipe's and the ones after it
    #[arg(long, value_name = "N", default_value_t = 1, requires = "grid", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RunResult {
    /// Settings of the grid, and the seed.
    settings: Vec<String>,
    /// Over the whole run; results of older versions have none.
    #[serde(default)]
    losses: Vec<LossPoint>,
    /// After each epoch.
    evaluations: Vec<Evaluation>,
    /// Of the weights that were kept.
    kept: Option<Evaluation>,
}

/// A combination over all its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Combination {
    /// Its settings, as `key=value`.
    settings: Vec<String>,
    /// Mean of the held-out measure over seeds.
    mean: f64,
    /// Sample standard deviation over seeds; null for one seed.
    deviation: Option<f64>,
    /// Of each seed.
    values: Vec<f64>,
    /// The directory of the best seed.
    best_run: PathBuf,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SweepReport {
    /// The measure on held-out pairs.
    measure: &'static str,
    /// The best first.
    combinations: Vec<Combination>,
    /// Page with the curves of all runs.
    report: PathBuf,
}

/// Runs `quarry train encoder`.
///
/// # Errors
/// When a file cannot be used, the pairs hold evaluation data, the settings or a value of the grid do not allow
/// training, or a run of the grid fails; those that have ended are kept.
pub fn run(args: &SweepArgs) -> anyhow::Result<()> {
    if args.grid.is_empty() {
        train_encoder(&args.encoder, &ComparedPairs::default())?;
        return Ok(());
    }
    let combinations = combinations(&args.grid)?;
    let base = settings(&args.encoder)?;
    if base.select == Select::Last {
        bail!("the recipe does not select by held-out pairs; pass --set select='\"mrr\"', ndcg or accuracy");
    }
    let measure = base.select.measure();
    // All mistakes are found before the first run.
    let mut runs: Vec<Vec<EncoderArgs>> = Vec::new();
    for combination in &combinations {
        let of_seeds = (0..args.seeds).map(|n| run_arguments(args, combination, base.seed + n));
        runs.push(of_seeds.collect::<anyhow::Result<_>>()?);
    }
    let _directories = NewDirectories::create(&args.encoder.out)
        .with_context(|| format!("{}: cannot be created", args.encoder.out.display()))?;
    let n_runs = combinations.len() * args.seeds as usize;
    let mut results: Vec<Vec<RunResult>> = Vec::new();
    let compared = ComparedPairs::default();
    for (combination, runs) in combinations.iter().zip(&runs) {
        let mut of_seeds = Vec::new();
        for (n, run) in runs.iter().enumerate() {
            let at = results.len() * runs.len() + n + 1;
            output::note(&format!("run {at} of {n_runs}: {}", run.out.display()));
            of_seeds.push(result_of(run, combination, base.seed + n as u64, &compared)?);
        }
        results.push(of_seeds);
    }
    let report = args.encoder.out.join(PAGE);
    new_file::write_text(&report, &page(args, &base, measure, &runs, &results))?;
    let report = SweepReport { measure, combinations: summary(&combinations, &runs, &results)?, report };
    args.layout.print(&report, || sections(&report, args.seeds))
}

/// The settings of every combination, in the order of the grid, as `KEY=VALUE`.
fn combinations(grid: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
    for axis in grid {
        let expected = || format!("--grid {axis}: expected a setting and its values, such as rate=1e-5,2e-5");
        let (key, values) = axis.split_once('=').with_context(expected)?;
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        if key.trim().is_empty() || values.iter().any(|value| value.is_empty()) {
            bail!(expected());
        }
        let key = key.trim();
        if key == "seed" {
            bail!(
                "--grid {axis}: seeds are not part of the grid; --seeds N trains each combination with N of them"
            );
        }
        if combinations[0].iter().any(|setting| setting.split('=').next() == Some(key)) {
            bail!("--grid {axis}: {key} is in the grid twice; give all its values at once");
        }
        let with = |combination: &Vec<String>| {
            let with = |value: &&str| [combination.clone(), vec![format!("{key}={value}")]].concat();
            values.iter().map(with).collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    Ok(combinations)
}

/// The arguments of one run, whose settings are checked.
fn run_arguments(args: &SweepArgs, combination: &[String], seed: u64) -> anyhow::Result<EncoderArgs> {
    let mut run = args.encoder.clone();
    run.settings.extend(combination.iter().map(|setting| in_toml(setting)));
    run.settings.push(format!("seed={seed}"));
    settings(&run).with_context(|| combination.join(" "))?.check()?;
    let name: String = combination.iter().map(|setting| format!("{setting},")).collect();
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.=,".contains(c) { c } else { '_' };
    run.out = args.encoder.out.join(name.chars().map(safe).collect::<String>() + &format!("seed={seed}"));
    Ok(run)
}

/// A setting as TOML has it: a word without quotes is a text.
fn in_toml(setting: &str) -> String {
    match setting.split_once('=') {
        Some((key, value)) if setting.parse::<toml::Table>().is_err() => format!("{key}={value:?}"),
        _ => setting.to_owned(),
    }
}

/// Result of a run; trains unless it has ended before.
fn result_of(
    run: &EncoderArgs,
    combination: &[String],
    seed: u64,
    compared: &ComparedPairs,
) -> anyhow::Result<RunResult> {
    let path = run.out.join(RESULT);
    let names = [combination, &[format!("seed={seed}")]].concat();
    if path.is_file() {
        let bytes = std::fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        return serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{}: was not written by `quarry train encoder --grid`; remove the directory to train again",
                path.display()
            )
        });
    }
    let outcome = train_encoder(run, compared)?;
    let Outcome { losses, evaluations, kept } = outcome;
    let result = RunResult { settings: names, losses, evaluations, kept };
    new_file::write_json(&path, &result)?;
    Ok(result)
}

fn value_of(result: &RunResult) -> anyhow::Result<f64> {
    let value = result.kept.as_ref().and_then(|kept| kept.value);
    value.with_context(|| format!("{}: nothing was measured", result.settings.join(" ")))
}

/// Every combination over its seeds, the best first.
fn summary(
    combinations: &[Vec<String>],
    runs: &[Vec<EncoderArgs>],
    results: &[Vec<RunResult>],
) -> anyhow::Result<Vec<Combination>> {
    let mut all = Vec::new();
    for ((settings, runs), results) in combinations.iter().zip(runs).zip(results) {
        let values: Vec<f64> = results.iter().map(value_of).collect::<anyhow::Result<_>>()?;
        let (mean, deviation) = mean_and_deviation(&values);
        let best = values.iter().zip(runs).max_by(|a, b| a.0.total_cmp(b.0));
        let best_run = best.map(|(_, run)| run.out.clone()).unwrap_or_default();
        all.push(Combination { settings: settings.clone(), mean, deviation, values, best_run });
    }
    all.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    Ok(all)
}

fn sections(report: &SweepReport, seeds: u64) -> Sections {
    let keys: Vec<String> =
        report.combinations[0].settings.iter().map(|setting| key(setting).to_owned()).collect();
    let n = keys.len();
    let measure = format!("held-out {}", report.measure);
    let mut table =
        Table::new(keys.into_iter().chain([measure, "deviation".to_owned(), "best seed in".to_owned()]))
            .align_left([n + 2]);
    for combination in &report.combinations {
        let values = combination.settings.iter().map(|setting| setting[key(setting).len() + 1..].to_owned());
        let deviation = combination.deviation.map_or_else(|| "-".to_owned(), |found| format!("{found:.4}"));
        let directory = combination.best_run.display().to_string();
        table.push(values.chain([format!("{:.4}", combination.mean), deviation, directory]));
    }
    let best = &report.combinations[0];
    Sections::new().text(format!("mean over {}\n\n", counted(seeds, "seed"))).table(table).text(format!(
        "\nBest: {}. Curves: {}\n",
        best.settings.join(" "),
        report.report.display()
    ))
}

fn key(setting: &str) -> &str {
    setting.split('=').next().unwrap_or(setting)
}

/// The curves of all runs as a page, with the settings that they share.
fn page(
    args: &SweepArgs,
    base: &Settings,
    measure: &str,
    runs: &[Vec<EncoderArgs>],
    results: &[Vec<RunResult>],
) -> String {
    let curve = |(run, result): (&EncoderArgs, &RunResult)| {
        training_run(&relative(&run.out, &args.encoder.out), &result.losses, &result.evaluations)
    };
    let curves: Vec<TrainingRun> = runs.iter().flatten().zip(results.iter().flatten()).map(curve).collect();
    let varied: Vec<&str> = args.grid.iter().map(|axis| key(axis)).chain(["seed"]).collect();
    let mut facts = facts_of(base);
    facts.retain(|(name, _)| !varied.contains(&name.as_str()));
    training_page(&format!("Sweep of {}", args.encoder.model.display()), measure, &curves, &facts)
}

fn relative(path: &Path, base: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_every_combination() {
        let grid = |axes: &[&str]| combinations(&axes.iter().map(ToString::to_string).collect::<Vec<_>>());
        let found = grid(&["rate=1e-5,2e-5", "batch=32,64"]).unwrap();
        let expected = [
            ["rate=1e-5", "batch=32"],
            ["rate=1e-5", "batch=64"],
            ["rate=2e-5", "batch=32"],
            ["rate=2e-5", "batch=64"],
        ];
        assert_eq!(found, expected);
        for (axes, words) in [
            (["rate", "batch=1"], "expected a setting and its values"),
            (["rate=1,,2", "batch=1"], "expected a setting and its values"),
            (["seed=1,2", "batch=1"], "--seeds N"),
            (["rate=1", "rate=2"], "twice"),
        ] {
            let error = grid(&axes).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn means_and_deviations_are_over_seeds() {
        assert_eq!(mean_and_deviation(&[0.5]), (0.5, None));
        let (mean, deviation) = mean_and_deviation(&[0.1, 0.2, 0.3]);
        assert!((mean - 0.2).abs() < 1e-12 && (deviation.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(in_toml("objective=margin"), "objective=\"margin\"");
        assert_eq!(in_toml("rate=1e-5"), "rate=1e-5");
    }

    #[test]
    fn results_are_read_again_as_they_were_written() {
        let evaluation = Evaluation { epoch: 1, step: 3, loss: 0.5, value: Some(0.25) };
        let result = RunResult {
            settings: vec!["seed=1".into()],
            losses: vec![LossPoint { step: 3, loss: 0.5 }],
            evaluations: vec![evaluation.clone()],
            kept: Some(evaluation),
        };
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
        let before = text.replace(r#""losses":[{"step":3,"loss":0.5}],"#, "");
        assert!(serde_json::from_str::<RunResult>(&before).unwrap().losses.is_empty());
    }
}
