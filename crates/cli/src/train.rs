//! `quarry train`: training models.

mod encoder;
mod leakage;
pub mod plan;
pub mod sweep;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use quarry_corpus::dataset;
use quarry_corpus::dataset::convert::{ConvertOptions, Grades, benchmark};
use quarry_corpus::evaluation_guard::ComparedFiles;
use quarry_corpus::formats::Document;
use quarry_corpus::formats::source::check_regular;
use quarry_corpus::formats::write::NewDirectories;
use quarry_corpus::toml_file::{self, Mistake};
use quarry_embed::static_model::{StaticModel, write_model};
use quarry_source::{FunctionPair, functions, language_called};
use quarry_text::{counted, plain_message};
use quarry_train::static_model::{HeldOutMrr, Progress, Settings, VocabularySize, choose, train};
use quarry_train::{LeftOut, Teacher, clean, read_pairs};
use serde::de::DeserializeOwned;

pub use self::leakage::Permission;
use crate::{invocation, output, progress, trained_queries};

/// Maximum length of a line that is read to distinguish formats, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// Arguments of `quarry train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a static model on query–function pairs
    Static(StaticArgs),
    /// Fine-tune a transformer encoder on pairs of queries and functions, also with every combination of some settings
    Encoder(Box<sweep::SweepArgs>),
    /// Embed the queries and words of pairs with a teacher model, for a static model to learn from
    Teacher(TeacherArgs),
}

#[derive(Debug, Args)]
struct TeacherArgs {
    /// Pairs or labeled data, as `quarry train static` takes them
    #[arg(long, value_name = "PATH")]
    pairs: PathBuf,
    /// Directory of the model, as sentence-transformers writes it
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Number of most frequent words to embed too
    #[arg(long, value_name = "N", default_value_t = 80_000)]
    words: usize,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct StaticArgs {
    /// Pairs as `quarry data pairs` writes them, or labeled data in any format of `quarry data formats`: functions
    /// labeled 0 are hard negatives of their query
    #[arg(long, value_name = "PATH")]
    pairs: PathBuf,
    /// Data sets of evaluation data, or JSON Lines with query and code: pairs that share one of them are refused, as are
    /// those in public sets beside the pairs or in the working directory
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Data sets with which pairs may share queries and codes, such as other splits of their set; the model's card has the
    /// numbers
    #[arg(long, value_name = "FILE")]
    tolerate: Vec<PathBuf>,
    /// Train even on evaluation data; the model's card notes it
    #[arg(long)]
    allow_evaluation_data: bool,
    /// File of a teacher's vectors, as `quarry train teacher` writes it
    #[arg(long, value_name = "FILE")]
    teacher: Option<PathBuf>,
    /// Continue training this model, instead of starting from scratch: a file that `quarry train static` wrote, or
    /// builtin. Its tokens are kept, and its dimension, positions and max_words must equal the settings
    #[arg(long, value_name = "FILE", conflicts_with = "teacher")]
    begin: Option<PathBuf>,
    /// Recipe: a TOML file of settings; settings that it omits have defaults
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    /// Override a setting of the recipe, as KEY=VALUE in TOML
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Directory for the model (model.bin), its card, its vocabulary, its settings and the run's state; an interrupted
    /// run resumes from there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub fn run(args: TrainArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Static(args) => train_static(&args),
        Command::Encoder(args) => sweep::run(&args),
        Command::Teacher(args) => write_teacher(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Pairs in the format of training, or made of labeled data: one for each query and code that answers it, with the
/// codes that were judged not to answer. Also the statement of a card about evaluation data among them.
pub fn training_pairs(
    path: &Path,
    files: ComparedFiles<'_>,
    allowed: Permission,
) -> anyhow::Result<(Vec<FunctionPair>, String)> {
    check_regular(path)?;
    let (mut pairs, named) = if path.is_file() && is_training_pair(&first_line(path)?) {
        (read_pairs(path)?, leakage::named(path)?)
    } else {
        labeled_pairs(path)?
    };
    let leakage = leakage::check_pairs(named, files, path, &pairs, allowed)?;
    note_left_out(clean(&mut pairs));
    Ok((pairs, leakage))
}

fn note_left_out(LeftOut { empty, contradictory }: LeftOut) {
    for (n, what, why) in [
        (empty, "pair", "without a query or a code"),
        (contradictory, "code", "labeled 0 for a query that the same code answers"),
    ] {
        if n > 0 {
            output::note(&format!("left out: {} {why}", counted(n, what)));
        }
    }
}

/// Pairs made of labeled data, and the evaluation data among them, by name.
fn labeled_pairs(path: &Path) -> anyhow::Result<(Vec<FunctionPair>, Vec<String>)> {
    let sources = dataset::sources(&[path.to_owned()], "", "train").or_else(|error| {
        // Of data without that split.
        dataset::sources(&[path.to_owned()], "", "test").map_err(|_| error)
    })?;
    let named = leakage::named_in(&sources)?;
    let options = ConvertOptions { grades: Grades::Max, ..ConvertOptions::default() };
    let benchmark = benchmark(&sources, &options)?;
    let documents: HashMap<&str, &Document> =
        benchmark.documents.iter().map(|document| (document.id.as_str(), document)).collect();
    let mut pairs = Vec::new();
    for query in &benchmark.queries {
        let Some(judged) = benchmark.qrels.get(&query.id) else { continue };
        let codes = |answers: bool| {
            let judged = judged.iter().filter(move |(_, grade)| (**grade > 0) == answers);
            judged.filter_map(|(id, _)| documents.get(id.as_str()).copied())
        };
        let negatives: Vec<String> = codes(false).map(|code| code.full_text().into_owned()).collect();
        for document in codes(true) {
            let code = document.full_text().into_owned();
            let language = document.language_name().map(Cow::into_owned).unwrap_or_default();
            let functions = language_called(&language).map(|language| functions(language, code.as_bytes()));
            let name = functions.into_iter().flatten().next().map(|function| function.name);
            pairs.push(FunctionPair {
                query: query.text.clone(),
                doc: String::new(),
                name: name.unwrap_or_default(),
                code,
                language,
                // Data held out for validation are chosen by repository: here, by query.
                repository: format!("query {}", query.id),
                path: String::new(),
                negatives: negatives.clone(),
            });
        }
    }
    if pairs.is_empty() {
        bail!(
            "{}: expected pairs that are labeled as matching, found none of {} queries; label them, for example with \
             `quarry judge`, or make pairs with `quarry data pairs`",
            path.display(),
            benchmark.queries.len()
        );
    }
    let n_negatives: usize = pairs.iter().map(|pair| pair.negatives.len()).sum();
    output::note(&format!(
        "{}: {} of labeled data, with {}",
        path.display(),
        counted(pairs.len(), "pair"),
        counted(n_negatives, "hard negative")
    ));
    Ok((pairs, named))
}

/// The beginning of a file: at most the maximum length of a pair.
fn first_line(path: &Path) -> anyhow::Result<String> {
    let file = std::fs::File::open(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let mut line = Vec::new();
    BufReader::new(file.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Returns true if a line is in the format of training, or was meant to be: no other format has its fields.
fn is_training_pair(line: &str) -> bool {
    let value: Result<serde_json::Value, _> = serde_json::from_str(line);
    value.is_ok_and(|value| value.get("repository").is_some() && value.get("doc").is_some())
}

fn write_teacher(args: &TeacherArgs) -> anyhow::Result<()> {
    let (pairs, _) = training_pairs(&args.pairs, ComparedFiles::default(), Permission::Never)?;
    let model = quarry_transformer::load(&args.model)?;
    let all: Vec<&FunctionPair> = pairs.iter().collect();
    let size = VocabularySize { words: args.words, bigrams: 0, query: 0 };
    let words = choose(&all, size).texts;
    let questions = pairs.iter().map(|pair| pair.query.as_str()).filter(|query| !query.is_empty());
    let texts: Vec<&str> = questions.chain(words.iter().map(String::as_str)).collect();
    let bar = progress::Progress::new("reading", 0);
    let mut n_texts = 0;
    Teacher::write(&args.out, &*model, &texts, |n_done, n_all| {
        n_texts = n_all;
        bar.set(n_done as u64, n_all as u64);
    })?;
    bar.finish_and_clear();
    print_line(&bar, &format!("{}: {}", args.out.display(), counted(n_texts, "text")));
    Ok(())
}

fn train_static(args: &StaticArgs) -> anyhow::Result<()> {
    let settings: Settings = read_settings(args.recipe.as_deref(), &args.settings)?;
    let allowed = if args.allow_evaluation_data { Permission::Now } else { Permission::OnRequest };
    let files = ComparedFiles { named: &args.exclude, tolerated: &args.tolerate, ..ComparedFiles::default() };
    let (pairs, leakage) = training_pairs(&args.pairs, files, allowed)?;
    // Removed again unless something is written into it.
    let _directories = NewDirectories::create(&args.out)
        .with_context(|| format!("{}: cannot be created", args.out.display()))?;
    let teacher = args.teacher.as_deref().map(Teacher::read).transpose()?;
    let begin = match &args.begin {
        Some(name) if name.as_os_str() == "builtin" => Some(StaticModel::builtin().weights()),
        Some(path) => Some(StaticModel::load(path)?.weights()),
        None => None,
    };
    let bar = progress::Progress::new("training", 0);
    let mut mean_loss = None;
    let (mut numbers, mut held_out) = (String::new(), "nothing was held out".to_owned());
    let (weights, vocabulary) = train(
        &pairs,
        &settings,
        teacher.as_ref(),
        begin.as_ref(),
        Some(&args.out),
        |progress| match progress {
            Progress::Ready { n_pairs, n_validation, n_tokens, n_steps } => {
                bar.set(0, n_steps);
                numbers = format!("{}, {n_validation} held out", counted(n_pairs, "pair"));
                let (tokens, steps) = (counted(n_tokens, "token"), counted(n_steps, "step"));
                print_line(&bar, &format!("{numbers}, {tokens}, {steps}"));
            }
            Progress::Step { step, loss } => {
                let mean = mean_loss.get_or_insert(loss);
                *mean += (loss - *mean) * 0.02;
                bar.set_done(step);
                bar.set_detail(&format!("loss {mean:.3}"));
            }
            Progress::Validated { step, mrr } => {
                let loss = mean_loss.unwrap_or(f32::NAN);
                if let Some(HeldOutMrr { summary, name }) = mrr {
                    held_out = format!("held-out MRR {summary:.4} by summary, {name:.4} by name");
                }
                print_line(&bar, &format!("step {step}: loss {loss:.3}, {held_out}"));
            }
        },
    )?;
    bar.finish_and_clear();
    let model = write_model(&weights);
    let write = |name: &str, bytes: &[u8]| {
        let path = args.out.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("{}: cannot be written", path.display()))
    };
    if begin.is_none() {
        write("vocabulary.txt", (vocabulary.texts.join("\n") + "\n").as_bytes())?;
    }
    let (settings, command) = (toml::to_string(&settings)?, encoder::command_line(&invocation::arguments()));
    let (file, hash) = encoder::hash_of(&args.pairs)?;
    let card = format!(
        "# A static model trained with Quarry\n\nTrained by quarry {} with\n\n```sh\n{command}\n```\n\n## Data\n\n\
         {numbers}: `{file}` (xxh3 {hash}).\n\nEvaluation data: {leakage}.\n\n## Results\n\nAfter the last step: \
         {held_out}.\n\n## Settings\n\n```toml\n{settings}```\n",
        env!("CARGO_PKG_VERSION")
    );
    write("README.md", card.as_bytes())?;
    write("settings.toml", settings.as_bytes())?;
    let queries = trained_queries::listed(pairs.iter().map(|pair| pair.query.as_str()));
    write(trained_queries::FILE, queries.as_bytes())?;
    write("model.bin", &model)?;
    print_line(&bar, &format!("{}: {}", args.out.join("model.bin").display(), counted(model.len(), "byte")));
    Ok(())
}

/// A recipe's settings, with those given as `KEY=VALUE` in place of its own.
fn read_settings<T: DeserializeOwned>(recipe: Option<&Path>, changes: &[String]) -> anyhow::Result<T> {
    let Some(path) = recipe else { return changed(toml::Table::new(), changes) };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let located = |mistake: Mistake| anyhow!("{}:{mistake}", path.display());
    // A table has no line numbers: mistakes in the file are reported before anything is changed.
    toml_file::parse::<T>(&text).map_err(located)?;
    changed(toml_file::parse(&text).map_err(located)?, changes)
}

/// Settings, with those given as `KEY=VALUE` in place of their own.
pub fn changed<T: DeserializeOwned>(mut table: toml::Table, changes: &[String]) -> anyhow::Result<T> {
    for setting in changes {
        let new =
            setting.parse::<toml::Table>().with_context(|| format!("--set {setting}: expected KEY=VALUE"))?;
        for (key, value) in new {
            match (table.get_mut(&key), value) {
                (Some(toml::Value::Table(old)), toml::Value::Table(new)) => old.extend(new),
                (_, value) => _ = table.insert(key, value),
            }
        }
    }
    match table.try_into() {
        Ok(settings) => Ok(settings),
        Err(error) => bail!("--set {}: {}", changes.join(" "), plain_message(error.message())),
    }
}

/// Prints a line on standard error, above the bar if there is one.
#[expect(clippy::print_stderr, reason = "the command line speaks to the person who runs it")]
fn print_line(bar: &progress::Progress, line: &str) {
    bar.suspend(|| eprintln!("{}", output::harmless(line)));
}
