//! `quarry train encoder`: fine-tuning transformer encoders.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use quarry_corpus::evaluation_data::is_marked;
use quarry_corpus::evaluation_guard::{ComparedFiles, EvaluationGuard};
use quarry_corpus::formats::Record;
use quarry_corpus::formats::source::check_regular;
use quarry_corpus::formats::write::NewDirectories;
use quarry_corpus::repositories::{Repository, read_manifest};
use quarry_corpus::tokens::code_tokens;
use quarry_embed::{EmbedError, Embedder};
use quarry_eval::protocol::recipe_discrepancies;
use quarry_eval::report::training::{TrainedEpoch, TrainingRun, training_page};
use quarry_text::counted;
use quarry_train::encoder::{
    Device, Estimate, Evaluation, Form, LossPoint, Outcome, Progress, Provenance, Row, Run, Select, Settings,
    Teacher, estimate, split, train,
};
use quarry_train::{Example, clean};
use quarry_transformer::CrossEncoder;
use quarry_transformer::trainable::Trainable;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::leakage::{self, Leakage, Permission};
use super::{note_left_out, print_line, read_settings};
use crate::{invocation, model, new_file, progress, trained_queries};

/// The device on which an encoder is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum DeviceChoice {
    /// The processor
    #[default]
    Cpu,
    /// The first GPU of NVIDIA's, in a program that is built with the feature `cuda`
    Cuda,
}

impl DeviceChoice {
    fn open(self) -> anyhow::Result<Device> {
        Ok(match self {
            Self::Cpu => Device::cpu(),
            Self::Cuda => Device::cuda()?,
        })
    }
}

/// Inputs and outputs of training an encoder.
#[derive(Debug, Clone, Args)]
pub struct EncoderArgs {
    /// Directory of the BERT, RoBERTa, MPNet or T5 model to begin with, as sentence-transformers or transformers writes
    /// it
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// File of pairs: as `quarry data pairs` or `quarry data build` writes it, or of another format with pairs
    #[arg(long, value_name = "FILE", required = true)]
    pub pairs: Vec<PathBuf>,
    /// File of pairs to choose the best epoch by, instead of holding out some of --pairs
    #[arg(long, value_name = "FILE")]
    pub dev: Vec<PathBuf>,
    /// File of more functions to rank for the queries of those pairs: a code base, or pairs
    #[arg(long, value_name = "FILE")]
    pub corpus: Vec<PathBuf>,
    /// Directory of a model to learn from, or `builtin`, for the objectives distill-scores and distill-vectors, and for
    /// code_vectors = "teacher"; for distill-scores also that of a cross-encoder
    #[arg(long, value_name = "DIR")]
    pub teacher: Option<PathBuf>,
    /// Recipe: a TOML file of settings; settings that it omits have defaults
    #[arg(long, value_name = "FILE")]
    pub recipe: Option<PathBuf>,
    /// Override a setting of the recipe, as KEY=VALUE in TOML
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Device to train on; the same seed gives the same model within rounding, and either device can resume a run of the
    /// other
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceChoice,
    /// Data sets of evaluation data, or JSON Lines with query and code: pairs that share one of them are refused, as are
    /// those in public sets beside the pairs or in the working directory
    #[arg(long, value_name = "FILE")]
    pub exclude: Vec<PathBuf>,
    /// Data sets with which pairs may share queries and codes, such as other splits of their set; the model's card has the
    /// numbers
    #[arg(long, value_name = "FILE")]
    pub tolerate: Vec<PathBuf>,
    /// Files that a plan measures on.
    #[arg(skip)]
    pub measured: Vec<PathBuf>,
    /// Train even on evaluation data; the model's card notes it
    #[arg(long)]
    pub allow_evaluation_data: bool,
    /// Tab-separated list of the pairs' repositories with their licenses, for the model's card
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Directory for the model, its card and the run's state; an interrupted run resumes from there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// The settings of a run.
pub fn settings(args: &EncoderArgs) -> anyhow::Result<Settings> {
    read_settings(args.recipe.as_deref(), &args.settings)
}

enum LoadedTeacher {
    Encoder(Arc<dyn Embedder>),
    CrossEncoder(Box<CrossEncoder>),
}

impl LoadedTeacher {
    fn load(path: &Path) -> Result<Self, EmbedError> {
        Ok(match CrossEncoder::is_at(path) {
            true => Self::CrossEncoder(Box::new(CrossEncoder::load(path)?)),
            false => Self::Encoder(model::load(model::named(path))?),
        })
    }

    fn as_teacher(&self) -> Teacher<'_> {
        match self {
            Self::Encoder(model) => Teacher::Encoder(&**model),
            Self::CrossEncoder(model) => Teacher::CrossEncoder(&**model),
        }
    }
}

struct LoadedRun {
    settings: Settings,
    device: Device,
    model: Trainable,
    teacher: Option<LoadedTeacher>,
    rows: Vec<Row>,
    held_out: Vec<Row>,
    corpus: Vec<String>,
    provenance: Provenance,
}

impl LoadedRun {
    /// Reads all files, and refuses evaluation data.
    fn load(args: &EncoderArgs, bar: &progress::Progress, compared: &ComparedPairs) -> anyhow::Result<Self> {
        let settings = settings(args)?;
        settings.check()?;
        let device = args.device.open()?;
        let mut model = Trainable::read(&with_options(&args.model, &settings.options))?;
        if settings.layers > 0 {
            model.keep_layers(settings.layers)?;
        }
        let teacher = args.teacher.as_deref().map(LoadedTeacher::load).transpose()?;
        let (mut rows, leakage) = read_checked(args, &settings, bar, compared)?;
        note_left_out(clean(&mut rows));
        let (rows, held_out) = if args.dev.is_empty() {
            let (rows, mut held_out) =
                split(rows, if settings.select == Select::Last { 0.0 } else { settings.held_out });
            if held_out.len() > settings.max_held_out {
                let pairs = counted(held_out.len(), "held-out pair");
                print_line(bar, &format!("{} of {pairs} are measured (max_held_out)", settings.max_held_out));
                held_out.truncate(settings.max_held_out);
            }
            (rows, held_out)
        } else {
            let mut held_out = Vec::new();
            for path in &args.dev {
                held_out.extend(read_rows(path, &settings)?.0);
            }
            note_left_out(clean(&mut held_out));
            (rows, held_out)
        };
        let corpus = read_corpus(&args.corpus, &settings)?;
        let files = args.pairs.iter().chain(&args.dev).chain(&args.corpus);
        let provenance = Provenance {
            command: command_line(&invocation::arguments()),
            base: args.model.display().to_string(),
            data: files.map(|path| hash_of(path)).collect::<anyhow::Result<_>>()?,
            licenses: licenses(&rows, args.manifest.as_deref())?,
            leakage,
            departures: departures(args),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Ok(Self { settings, device, model, teacher, rows, held_out, corpus, provenance })
    }

    fn as_run<'a>(&'a self, directory: &'a Path) -> Run<'a> {
        Run {
            model: &self.model,
            rows: &self.rows,
            held_out: &self.held_out,
            corpus: &self.corpus,
            settings: &self.settings,
            teacher: self.teacher.as_ref().map(LoadedTeacher::as_teacher),
            device: &self.device,
            provenance: &self.provenance,
            directory,
        }
    }
}

/// Departures of a recipe from its paper, by the register of the protocols.
fn departures(args: &EncoderArgs) -> Vec<String> {
    let recipe = args.recipe.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
    recipe_discrepancies(&recipe).map(|found| format!("{}: {}", found.number, found.about)).collect()
}

/// Sentences on what pairs share with evaluation data, by a hash of the pairs and of the names of the files: the runs of
/// a plan often have the same pairs, and comparing them takes longer than a short training.
#[derive(Debug, Default)]
pub struct ComparedPairs(Mutex<HashMap<u128, String>>);

impl ComparedPairs {
    fn key(args: &EncoderArgs, read: &[(Vec<Row>, Vec<String>)]) -> u128 {
        let mut hash = Xxh3::new();
        let EncoderArgs { pairs, exclude, measured, tolerate, allow_evaluation_data, .. } = args;
        (pairs, exclude, measured, tolerate, allow_evaluation_data).hash(&mut hash);
        for (rows, named) in read {
            named.hash(&mut hash);
            rows.iter().for_each(|row| (row.query(), row.code(), row.negatives()).hash(&mut hash));
        }
        hash.digest128()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the pairs of a run, with what they share with evaluation data, as a sentence.
fn read_checked(
    args: &EncoderArgs,
    settings: &Settings,
    bar: &progress::Progress,
    compared: &ComparedPairs,
) -> anyhow::Result<(Vec<Row>, String)> {
    let read: Vec<(Vec<Row>, Vec<String>)> =
        args.pairs.iter().map(|path| read_rows(path, settings)).collect::<anyhow::Result<_>>()?;
    let key = ComparedPairs::key(args, &read);
    let known = compared.lock().get(&key).cloned();
    let leakage = match known {
        Some(leakage) => leakage,
        None => compare(args, &read, bar)?,
    };
    compared.lock().insert(key, leakage.clone());
    Ok((read.into_iter().flat_map(|(rows, _)| rows).collect(), leakage))
}

/// Compares the pairs of files, with the names under which these are evaluation data.
fn compare(
    args: &EncoderArgs,
    read: &[(Vec<Row>, Vec<String>)],
    bar: &progress::Progress,
) -> anyhow::Result<String> {
    let files = ComparedFiles { named: &args.exclude, measured: &args.measured, tolerated: &args.tolerate };
    let guard = EvaluationGuard::open(files, &args.pairs)?;
    guard.warnings().for_each(|warning| print_line(bar, &warning));
    let mut found = Leakage::default();
    for (path, (rows, named)) in args.pairs.iter().zip(read) {
        found.found.extend(named.iter().cloned());
        found.add(&guard, path, rows);
    }
    let allowed = if args.allow_evaluation_data { Permission::Now } else { Permission::OnRequest };
    let leakage = leakage::checked(&guard, &found, allowed)?;
    if !found.found.is_empty() {
        print_line(bar, &format!("warning: {leakage}"));
    }
    Ok(leakage)
}

/// Compares the pairs of a run with evaluation data; returns what they share, as a sentence.
pub fn compare_pairs(args: &EncoderArgs, compared: &ComparedPairs) -> anyhow::Result<String> {
    let bar = progress::Progress::new("comparing pairs", 0);
    Ok(read_checked(args, &settings(args)?, &bar, compared)?.1)
}

/// Estimates the time of a run from one measured step; writes nothing.
pub fn estimate_encoder(args: &EncoderArgs, compared: &ComparedPairs) -> anyhow::Result<Estimate> {
    let bar = progress::Progress::new("measuring a step", 0);
    let loaded = LoadedRun::load(args, &bar, compared)?;
    Ok(estimate(&loaded.as_run(&args.out))?)
}

/// Trains, and says what it came to.
pub fn train_encoder(args: &EncoderArgs, compared: &ComparedPairs) -> anyhow::Result<Outcome> {
    let bar = progress::Progress::new("training", 0);
    let loaded = LoadedRun::load(args, &bar, compared)?;
    let LoadedRun { settings, provenance, .. } = &loaded;
    // Removed again unless something is written into it.
    let _directories = NewDirectories::create(&args.out)
        .with_context(|| format!("{}: cannot be created", args.out.display()))?;
    let page = args.out.join(PAGE);
    for departure in &provenance.departures {
        print_line(&bar, &format!("differs from the paper: {departure}"));
    }
    let mut mean_loss = None;
    let run = loaded.as_run(&args.out);
    let outcome = train(&run, |progress| match progress {
        Progress::Ready { n_examples, n_held_out, n_codes, n_steps, n_done, n_special } => {
            if n_special > 0 {
                let rows = counted(n_special, "row");
                print_line(
                    &bar,
                    &format!("left out: {rows} with special tokens of the tokenizer, as in GenCodeSearchNet"),
                );
            }
            bar.rename("training");
            bar.resume(n_done, n_steps);
            let resumed = if n_done > 0 { format!(", resumed after {n_done}") } else { String::new() };
            let examples = counted(n_examples, "example");
            let steps = counted(n_steps, "step");
            let among = match settings.select.ranks() && n_codes > 0 {
                true => format!(" among {}", counted(n_codes, "code")),
                false => String::new(),
            };
            print_line(&bar, &format!("{examples}, {n_held_out} held out{among}, {steps}{resumed}"));
        }
        Progress::Teacher { done, all } => {
            bar.rename("teacher reads");
            bar.set(done as u64, all as u64);
        }
        Progress::Step { step, loss } => {
            let mean = mean_loss.get_or_insert(loss);
            *mean += (loss - *mean) * 0.02;
            bar.set_done(step);
            bar.set_detail(&format!("loss {mean:.3}"));
        }
        Progress::Evaluated(so_far) => {
            if let Some(evaluation) = so_far.evaluations.last() {
                print_line(&bar, &line(evaluation, settings.select));
            }
            // The page is for people who wait; the run does not end because it cannot be written.
            if let Err(error) =
                new_file::write_text(&page, &training_page_of(&args.out, &so_far, settings, provenance))
            {
                print_line(&bar, &format!("warning: {error:#}"));
            }
        }
    })?;
    let path = args.out.join(trained_queries::FILE);
    let queries = trained_queries::listed(loaded.rows.iter().map(|row| row.query.as_str()));
    std::fs::write(&path, queries).with_context(|| format!("{}: cannot be written", path.display()))?;
    bar.finish_and_clear();
    let kept = outcome.kept.as_ref().map(|kept| format!(", after epoch {}", kept.epoch)).unwrap_or_default();
    print_line(
        &bar,
        &format!("{}: the model{kept}, its card in README.md, and curves in {PAGE}", args.out.display()),
    );
    Ok(outcome)
}

/// Name of the page with the curves of a run, in its directory.
pub const PAGE: &str = "report.html";

/// The page of a run, which may not have ended.
fn training_page_of(out: &Path, outcome: &Outcome, settings: &Settings, provenance: &Provenance) -> String {
    let mut facts = vec![
        ("model".to_owned(), provenance.base.clone()),
        ("command".to_owned(), provenance.command.clone()),
        ("evaluation data".to_owned(), provenance.leakage.clone()),
    ];
    if let Some(kept) = &outcome.kept {
        facts.push(("weights".to_owned(), format!("those after epoch {}", kept.epoch)));
    }
    facts.extend(facts_of(settings));
    let run = training_run(&out.display().to_string(), &outcome.losses, &outcome.evaluations);
    training_page(&format!("Training of {}", provenance.base), settings.select.measure(), &[run], &facts)
}

/// Settings by name, those of an optimizer and the like with a dot.
pub fn facts_of(settings: &Settings) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let Ok(serde_json::Value::Object(all)) = serde_json::to_value(settings) else { return facts };
    for (name, value) in all {
        match value {
            serde_json::Value::Object(inner) => {
                facts.extend(
                    inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value.to_string())),
                );
            }
            serde_json::Value::String(text) => facts.push((name, text)),
            value => facts.push((name, value.to_string())),
        }
    }
    facts
}

/// Curves of a run, for a page.
pub fn training_run(name: &str, losses: &[LossPoint], evaluations: &[Evaluation]) -> TrainingRun {
    TrainingRun {
        name: name.to_owned(),
        losses: losses.iter().map(|point| (point.step, f64::from(point.loss))).collect(),
        epochs: evaluations
            .iter()
            .map(|evaluation| TrainedEpoch {
                number: evaluation.epoch,
                step: evaluation.step,
                loss: f64::from(evaluation.loss),
                value: evaluation.value,
            })
            .collect(),
    }
}

fn line(evaluation: &Evaluation, select: Select) -> String {
    let name = select.measure();
    let value = match evaluation.value {
        Some(value) => format!("held-out {name} {value:.4}"),
        None => "nothing measured".to_owned(),
    };
    format!("epoch {}: step {}, loss {:.3}, {value}", evaluation.epoch, evaluation.step, evaluation.loss)
}

/// A model's path with the options of a recipe, unless it has its own.
fn with_options(path: &Path, options: &str) -> PathBuf {
    if options.is_empty() || quarry_transformer::split_options(path).1.is_some() {
        return path.to_owned();
    }
    let mut path = path.as_os_str().to_owned();
    path.push(":");
    path.push(options);
    path.into()
}

/// Reads the pairs of a file, and what of it is evaluation data by its name.
fn read_rows(path: &Path, settings: &Settings) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    check_regular(path)?;
    let (mut rows, mut named) = (Vec::new(), leakage::named(path)?);
    let [query_form, code_form] = [settings.query_form, settings.code_form].map(|form| form == Form::Tokens);
    if !read_own_rows(path, [query_form, code_form], &mut rows, &mut named)? {
        let sources = quarry_corpus::dataset::sources(&[path.to_owned()], "", "train")?;
        named = leakage::named_in(&sources)?;
        let mut others = 0usize;
        quarry_corpus::dataset::for_each(&sources, &mut |_, record| {
            let Record::Pair(pair) = record else {
                others += 1;
                return Ok(());
            };
            let of_grammar = || code_tokens(&pair.code.text, pair.language.as_deref());
            let tokens = (code_form && pair.code.tokens.is_none()).then(of_grammar).flatten();
            rows.push(Row {
                query: pair.query.form(query_form).to_owned(),
                code: tokens.unwrap_or_else(|| pair.code.form(code_form).to_owned()),
                label: pair.label,
                summary: pair.documentation.unwrap_or_default(),
                repository: pair.repository.unwrap_or_default(),
                license: String::new(),
                negatives: Vec::new(),
            });
            Ok(())
        })?;
        if others > 0 {
            bail!(
                "{}: holds {} that are not pairs; convert the data set to query-code with `quarry data convert` first",
                path.display(),
                counted(others, "record")
            );
        }
        let unlabeled = rows.iter().filter(|row| row.label.is_none()).count();
        if unlabeled > 0 && unlabeled < rows.len() {
            bail!(
                "{}: {unlabeled} of {} have no label or null as theirs, so it is unknown whether their code answers; expected \
                 labels everywhere or nowhere; remove those rows",
                path.display(),
                counted(rows.len(), "pair")
            );
        }
    }
    if rows.is_empty() {
        bail!("{}: contains no pairs; make some with `quarry data pairs`", path.display());
    }
    Ok((rows, named))
}

/// The codes of files, each once.
fn read_corpus(paths: &[PathBuf], settings: &Settings) -> anyhow::Result<Vec<String>> {
    let (mut codes, mut known) = (Vec::new(), HashSet::new());
    let mut add = |code: String| {
        if known.insert(code.clone()) {
            codes.push(code);
        }
    };
    for path in paths {
        check_regular(path)?;
        let mut rows = Vec::new();
        let forms = [settings.query_form, settings.code_form].map(|form| form == Form::Tokens);
        if read_own_rows(path, forms, &mut rows, &mut Vec::new())? {
            rows.into_iter().for_each(|row| add(row.code));
            continue;
        }
        let sources = quarry_corpus::dataset::sources(&[path.to_owned()], "", "train")?;
        quarry_corpus::dataset::for_each(&sources, &mut |_, record| {
            match record {
                Record::Document(document) => add(document.full_text().into_owned()),
                Record::Pair(pair) => add(pair.code.form(settings.code_form == Form::Tokens).to_owned()),
                _ => {}
            }
            Ok(())
        })?;
    }
    if codes.is_empty() && !paths.is_empty() {
        bail!("--corpus: the files hold no code; name a code base, or pairs");
    }
    Ok(codes)
}

/// Reads a file with one JSON object a line that has `query` and `code`, and names those that are evaluation data by
/// their own account; false if it is another one. As tokens, a side is what `query_tokens` or `code_tokens` hold, or
/// else the tokens of the code by its grammar, as other formats have them.
fn read_own_rows(
    path: &Path,
    [query_form, code_form]: [bool; 2],
    rows: &mut Vec<Row>,
    named: &mut Vec<String>,
) -> anyhow::Result<bool> {
    use std::io::{BufRead, BufReader};
    if path.is_dir() {
        return Ok(false);
    }
    let unreadable = || format!("{}: cannot be read", path.display());
    let file = std::fs::File::open(path).with_context(unreadable)?;
    for (number, line) in BufReader::new(file).lines().enumerate() {
        // A compressed file is not UTF-8, and read as a data set.
        let Ok(line) = line else { return if number == 0 { Ok(false) } else { bail!(unreadable()) } };
        let value: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        let has = |key: &str| value.as_ref().is_some_and(|value| value[key].is_string());
        if has("query") && has("code") {
            let wrong = || format!("{}:{}: is not a pair", path.display(), number + 1);
            let mut row: Row = serde_json::from_str(&line).with_context(wrong)?;
            let text = |key: &str| value.as_ref().and_then(|value| value[key].as_str());
            let tokens = |key: &str| value.as_ref().and_then(|value| joined(&value[key]));
            if let Some(tokens) = tokens("query_tokens").filter(|_| query_form) {
                row.query = tokens;
            }
            if code_form {
                let language = text("language");
                let of_grammar = |code: &str| code_tokens(code, language);
                if let Some(tokens) = tokens("code_tokens").or_else(|| of_grammar(&row.code)) {
                    row.code = tokens;
                }
                for code in &mut row.negatives {
                    if let Some(tokens) = of_grammar(code) {
                        *code = tokens;
                    }
                }
            }
            rows.push(row);
            if is_marked(text("id"), text("partition")) {
                named.push(format!("line {} of {}", number + 1, path.display()));
            }
        } else if number == 0 {
            return Ok(false);
        } else {
            bail!("{}:{}: expected an object with query and code, both strings", path.display(), number + 1);
        }
    }
    Ok(true)
}

/// Tokens joined by spaces, of a list or of a text that has them so.
fn joined(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Array(tokens) => {
            Some(tokens.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    }
}

/// Numbers of pairs by license: their own, else that of their repository in a manifest.
fn licenses(rows: &[Row], manifest: Option<&Path>) -> anyhow::Result<Vec<(String, usize)>> {
    let mut of_repository: BTreeMap<String, String> = BTreeMap::new();
    if let Some(path) = manifest {
        let repositories = read_manifest(path)?.into_iter();
        of_repository.extend(repositories.map(|Repository { name, license }| (name, license)));
    }
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        let license = match row.license.as_str() {
            "" => of_repository.get(&row.repository).map_or("not stated", String::as_str),
            license => license,
        };
        *numbers.entry(license).or_default() += 1;
    }
    Ok(numbers.into_iter().map(|(license, n)| (license.to_owned(), n)).collect())
}

/// The path of a file, and a hash of its content.
pub fn hash_of(path: &Path) -> anyhow::Result<(String, String)> {
    let hash = if path.is_dir() {
        "of a directory: none".to_owned()
    } else {
        let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        format!("{:016x}", xxh3_64(&bytes))
    };
    Ok((path.display().to_string(), hash))
}

/// The command as one can type it again.
pub fn command_line(args: &[OsString]) -> String {
    let quoted = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    std::iter::once("quarry".to_owned()).chain(args.iter().skip(1).map(quoted)).collect::<Vec<_>>().join(" ")
}
