//! `quarry tune`: continues training the model of search on a tree, and keeps it if it finds significantly more there.

mod lessons;
pub mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use quarry_embed::static_model::{StaticWeights, write_model};
use quarry_embed::{Embedder, StaticModel};
use quarry_eval::method::ModelName;
use quarry_eval::self_benchmark::evaluation::{Progress as Asking, Repository, measure};
use quarry_eval::self_benchmark::hold_out::HoldOut;
use quarry_eval::self_benchmark::tree::{self, SourceFile};
use quarry_eval::self_benchmark::variants::{Variant, VariantMethod, VariantModel};
use quarry_eval::self_benchmark::{LabeledQuery, QuerySet, SelfBenchmarkOptions};
use quarry_index::{OpenOptions, RankingWeights};
use quarry_metrics::significance::Bootstrap;
use quarry_source::FunctionPair;
use quarry_text::counted;
use quarry_train::static_model::{BatchesOf, Progress, Settings as Recipe, train};
use serde::Serialize;

use self::report::{Report, Values};
use crate::eval::arguments::LayoutArgs;
use crate::model::ModelChoice;
use crate::settings::Settings;
use crate::train::changed;
use crate::tuned::{self, Tuned};
use crate::{model, output, progress};

/// Minimum numbers of questions to learn from, and of held-out ones to decide by; with fewer, nothing is trained.
const MIN_LEARNED: usize = 64;
const MIN_HELD_OUT: usize = 30;

/// Maximum number of held-out questions of one source that are asked.
const MAX_ASKED: usize = 1000;

/// Maximum number of pairs in a step.
const MAX_BATCH: usize = 256;

/// Arguments of `quarry tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Source tree to tune for; if it is a git checkout, its history supplies questions too
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Also learn from these pairs, as `quarry data build` and `quarry data pairs` write them; those about held-out
    /// functions are used for the decision instead
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Data sets of evaluation data, or JSON Lines with query and code: pairs that share one of them are refused, and the
    /// tree's own are not learned from
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Number of passes over the questions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,
    /// Override a setting of training, as KEY=VALUE in TOML
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Seed for the choice of held-out functions, training and resamples
    #[arg(long, value_name = "SEED", default_value_t = Bootstrap::default().seed)]
    seed: u64,
    /// Fraction of the functions to hold out for the decision
    #[arg(long, value_name = "SHARE", default_value_t = 0.4, value_parser = share)]
    hold_out: f64,
    /// Maximum number of commits to read, newest first
    #[arg(long, value_name = "N", default_value_t = SelfBenchmarkOptions::default().history.commits)]
    commits: usize,
    /// Train and measure without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Return to the model that searches used before tuning
    #[arg(long, conflicts_with_all = ["pairs", "exclude", "epochs", "settings", "seed", "hold_out", "commits", "dry_run"])]
    undo: bool,
    #[command(flatten)]
    layout: LayoutArgs,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.1..=0.9).contains(share));
    share.ok_or_else(|| "expected a number from 0.1 to 0.9".to_owned())
}

/// Runs `quarry tune`; the exit code is 1 if the tuned model is not kept, or nothing was to be undone.
pub fn run(args: &TuneArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    if !args.path.is_dir() {
        bail!("{}: expected the directory of a source tree, found none", args.path.display());
    }
    let tree =
        args.path.canonicalize().with_context(|| format!("{}: cannot be read", args.path.display()))?;
    let settings = Settings::load(&args.path)?;
    let untuned = ModelChoice::untuned(&args.path, &OpenOptions::default(), &settings)?;
    if args.undo {
        return undo(args, &tree, &untuned);
    }
    let begin = begin(&untuned, &args.path)?;
    let in_place_of = untuned.name()?;
    let known = Tuned::for_tree(&tree).filter(|tuned| tuned.in_place_of == in_place_of);
    let before: Arc<dyn Embedder> = match known.as_ref().and_then(Tuned::path) {
        Some(path) => model::load(Some(&path))
            .with_context(|| format!("`quarry tune --undo {}` removes it", args.path.display()))?,
        None => model::load(untuned.path.as_deref())?,
    };

    let reading = progress::Progress::new("reading", 0);
    reading.show();
    let files = tree::read(&args.path)?;
    let (mut split, pairs) = lessons::collect(args, &files)?;
    drop(reading);
    check(&split, &pairs, &args.path)?;
    split.held_out.iter_mut().for_each(|set| set.questions.sample(MAX_ASKED, args.seed));
    let n_held_out: usize = split.held_out.iter().map(|set| set.questions.queries.len()).sum();
    output::note(&format!(
        "{} to learn from, {n_held_out} about other functions held out",
        counted(pairs.len(), "question")
    ));
    let training = Instant::now();
    let weights = trained(args, &pairs, &begin)?;
    let train_ms = quarry_session::milliseconds(training.elapsed());
    let bytes = write_model(&weights);
    let after: Arc<dyn Embedder> = Arc::new(StaticModel::parse(&bytes, Path::new("the tuned model"))?);

    let models = [Arc::clone(&before), Arc::clone(&after)];
    let values = ask(&args.path, &files, &split.held_out, &models, &settings.ranking(None))?;
    let bootstrap = Bootstrap { seed: args.seed, ..Bootstrap::default() };
    let mut report = Report::new(&split, pairs.len(), &values, &bootstrap)?;
    report.before = before.id().to_owned();
    report.after = after.id().to_owned();
    report.train_ms = train_ms;
    if report.is_better && !args.dry_run {
        let tuned =
            Tuned { tree, in_place_of, file: format!("{}.bin", after.id()), model: after.id().to_owned() };
        tuned::keep(&tuned, &bytes)?;
        report.kept = tuned.path();
    }
    report.took_ms = quarry_session::milliseconds(start.elapsed());
    let path = args.path.display().to_string();
    args.layout.print(&report, || report.sections(&path, args.dry_run))?;
    Ok(ExitCode::from(u8::from(!report.is_better)))
}

/// Outcome of `--undo`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TuningUndone {
    /// True if something was tuned.
    undone: bool,
    /// The model that searches use now.
    model: String,
}

fn undo(args: &TuneArgs, tree: &Path, untuned: &ModelChoice) -> anyhow::Result<ExitCode> {
    let undone = tuned::undo(tree)?;
    let path = args.path.display();
    if args.layout.is_json() {
        output::print_json(&TuningUndone { undone, model: untuned.name()? })?;
    } else if undone {
        output::note(&format!("{path}: searches use {untuned} again"));
    } else {
        output::note(&format!("{path}: nothing was tuned; searches use {untuned}"));
    }
    Ok(ExitCode::from(u8::from(!undone)))
}

/// The tables of the model that is trained further.
fn begin(untuned: &ModelChoice, path: &Path) -> anyhow::Result<StaticWeights> {
    match model::load_static(untuned.path.as_deref())? {
        Some(model) => Ok(model.weights()),
        None => bail!(
            "searches of {0} use {untuned}, a transformer, but `quarry tune` trains static models only; switch to the \
             built-in model with `quarry index --model builtin {0}`, or train an encoder with `quarry train encoder`",
            path.display()
        ),
    }
}

/// Fails if there are too few questions to learn from or to decide by.
fn check(split: &HoldOut, pairs: &[FunctionPair], path: &Path) -> anyhow::Result<()> {
    let n_held_out: usize = split.held_out.iter().map(|set| set.questions.queries.len()).sum();
    if pairs.len() < MIN_LEARNED || n_held_out < MIN_HELD_OUT {
        bail!(
            "{}: documentation, commits and tests give {} to learn from and {n_held_out} about other functions; \
             expected at least {MIN_LEARNED} and {MIN_HELD_OUT}: name a larger tree, one with more documentation or \
             history, or add questions with --pairs FILE",
            path.display(),
            counted(pairs.len(), "question")
        );
    }
    Ok(())
}

/// The settings of training: those of the built-in model, with smaller steps, in batches of the same size.
fn recipe(args: &TuneArgs, n_pairs: usize, begin: &StaticWeights) -> anyhow::Result<Recipe> {
    let n_batches = n_pairs.div_ceil(MAX_BATCH);
    let epochs = usize::from(args.epochs);
    let recipe = Recipe {
        dimension: begin.dimension,
        positions: begin.position_weights.len(),
        max_words: begin.max_words,
        batch: n_pairs / n_batches,
        batches_of: BatchesOf::All,
        epochs,
        rate: 1e-3,
        warm_up: (n_batches * epochs / 10) as u64,
        temperature: 0.1,
        ask_name: 0.1,
        validation: 0.0,
        seed: args.seed,
        ..Recipe::default()
    };
    let table = toml::Table::try_from(&recipe).context("the settings of training")?;
    changed(table, &args.settings)
}

fn trained(args: &TuneArgs, pairs: &[FunctionPair], begin: &StaticWeights) -> anyhow::Result<StaticWeights> {
    let recipe = recipe(args, pairs.len(), begin)?;
    let bar = progress::Progress::new("training", 0);
    let (weights, _) = train(pairs, &recipe, None, Some(begin), None, |progress| match progress {
        Progress::Ready { n_steps, .. } => bar.set(0, n_steps),
        Progress::Step { step, .. } => bar.set_done(step),
        Progress::Validated { .. } => {}
    })?;
    Ok(weights)
}

/// Results of search for the held-out questions with each of the models, by set, model and question.
fn ask(
    root: &Path,
    files: &[SourceFile],
    sets: &[QuerySet],
    models: &[Arc<dyn Embedder>; 2],
    ranking: &RankingWeights,
) -> anyhow::Result<Vec<Vec<Vec<Values>>>> {
    let load = |name: ModelName<'_>| {
        let is_after = matches!(name, ModelName::Path(_));
        Ok(Arc::clone(&models[usize::from(is_after)]))
    };
    let repository = Repository { root, files, load: &load, model: Some(Path::new("after")) };
    let variant = |is_given| Variant {
        name: String::new(),
        about: String::new(),
        method: VariantMethod::Search(VariantModel { is_given, dimensions: None }),
        ranking: ranking.clone(),
        setting: None,
    };
    let n_queries: usize = sets.iter().map(|set| set.questions.queries.len()).sum();
    let bar = progress::Progress::new("asking", n_queries * models.len());
    let values = measure(
        &repository,
        sets,
        &[variant(false), variant(true)],
        &|query: &LabeledQuery, found| Values { ndcg: query.ndcg(found), mrr: query.reciprocal_rank(found) },
        &|progress| match progress {
            Asking::Indexing => bar.show(),
            Asking::Asked => bar.inc(1),
        },
    )?;
    Ok(values)
}
