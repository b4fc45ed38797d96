//! `quarry eval repo`: the self-benchmark of a repository.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::formats::repo_search as format;
use quarry_corpus::pairs::Extent;
use quarry_eval::method::{LoadModel, ModelName};
use quarry_eval::repo_search::indexed_directory;
use quarry_eval::self_benchmark::agreement::{Estimate, RepositoryValues, SourceAgreement, agreement};
use quarry_eval::self_benchmark::evaluation::{self, Progress, Repository, evaluate};
use quarry_eval::self_benchmark::report::{SelfBenchmarkReport, report};
use quarry_eval::self_benchmark::variants::{Variant, variants};
use quarry_eval::self_benchmark::view::View;
use quarry_eval::self_benchmark::{
    LabeledQuery, QuerySet, QuerySource, Questions, SelfBenchmarkOptions, export, own_questions, questions,
    tree,
};
use quarry_metrics::significance::{Bootstrap, mean};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{BootstrapArgs, BuiltinModelArgs, OutputArgs, ReposArgs, by_name};
use super::plan::write_page;
use crate::eval::shown;
use crate::new_file;
use crate::progress;
use crate::settings::at_least_one;
use crate::{model, output, trained_queries};

/// Arguments of `quarry eval repo`.
#[derive(Debug, Args)]
#[command(mut_arg("repos", |repos| repos.requires("agreement")))]
#[command(mut_arg("per_query", |file| file.conflicts_with_all(["write", "agreement"])))]
pub struct RepoArgs {
    /// Directory to search; if it is a git checkout, its history is read too
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Sources of queries, separated by commas: docstring, commit, test
    #[arg(long = "proxies", value_name = "NAMES", value_delimiter = ',', default_value = "docstring,commit,test",
        value_parser = generated_source)]
    sources: Vec<QuerySource>,
    /// Your own queries, one per line: query TAB path[:line[-line]]
    #[arg(long, value_name = "FILE", conflicts_with = "agreement")]
    ask: Option<PathBuf>,
    #[command(flatten)]
    model: BuiltinModelArgs,
    /// Maximum number of queries per source: a random sample, or the newest commits
    #[arg(long, value_name = "N", default_value_t = SelfBenchmarkOptions::default().queries, value_parser = at_least_one)]
    queries: usize,
    /// Maximum number of commits to read, newest first
    #[arg(long, value_name = "N", default_value_t = SelfBenchmarkOptions::default().history.commits)]
    commits: usize,
    /// The part of a function's documentation that becomes the query: sentence, paragraph
    #[arg(long, value_name = "EXTENT", default_value = "sentence", value_parser = by_name::<Extent>)]
    extent: Extent,
    /// Keep the documentation in the code when it is the query
    #[arg(long)]
    keep_docs: bool,
    /// Hide the names of functions when their documentation is the query
    #[arg(long)]
    hide_names: bool,
    /// Write the queries as BEIR directories (DIR/docstring and so on) instead of searching for them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["agreement", "format", "json"])]
    write: Option<PathBuf>,
    /// Measure whether these queries rank methods in the same order as labels; takes a table like that of `quarry eval
    /// repo-search`
    #[arg(long, value_name = "TSV", requires = "repos", conflicts_with = "path")]
    agreement: Option<PathBuf>,
    #[command(flatten)]
    repos: ReposArgs,
    /// Also write the results as an HTML page with charts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write", "agreement"])]
    page: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

fn generated_source(name: &str) -> Result<QuerySource, String> {
    match by_name(name) {
        Ok(QuerySource::Queries) | Err(_) => Err("expected docstring, commit or test".to_owned()),
        Ok(source) => Ok(source),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "OwnBenchmark"))]
pub struct RepositoryReport<'a> {
    /// Name of the repository.
    repository: String,
    #[serde(flatten)]
    report: &'a SelfBenchmarkReport,
    /// Remarks on the queries.
    notes: &'a [String],
    /// Resampling for intervals and p-values.
    bootstrap: Bootstrap,
    /// Time in milliseconds.
    took_ms: f64,
}

/// Runs `quarry eval repo`; the exit code is 1 if there is no query.
pub fn run(args: &RepoArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let bootstrap = args.bootstrap.resolve();
    if let Some(table) = &args.agreement {
        return agree(args, table, &bootstrap);
    }
    let reading = progress::Progress::new("reading", 0);
    reading.show();
    let files = tree::read(&args.path)?;
    let options = args.options(&bootstrap);
    let own = args.ask.as_deref().map(|path| own_questions(path, &files)).transpose()?.unwrap_or_default();
    let mut benchmark = questions(&args.path, &files, own, &options);
    drop(reading);
    if let Some(model) = args.model.path.as_deref() {
        let asked = || benchmark.sets.iter().flat_map(|set| &set.questions.queries);
        let trained = trained_queries::count(model, asked().map(|query| query.text.as_str()));
        if trained > 0 {
            benchmark.notes.push(format!(
                "{trained} of {} are among those that {} was trained on: its values are too high; ask others with --ask FILE",
                counted(asked().count(), "question"),
                model.display()
            ));
        }
    }
    benchmark.notes.iter().for_each(|text| output::note(text));
    if benchmark.sets.is_empty() {
        output::note("no questions were found; ask your own with --ask FILE");
        return Ok(ExitCode::from(1));
    }
    let load = |name: ModelName<'_>| model::load(path(name));
    let model = args.model.path.as_deref();
    let repository = Repository { root: &args.path, files: &files, load: &load, model };
    if let Some(directory) = &args.write {
        return write(directory, &repository, &benchmark.sets);
    }
    let variants = variants(model.is_some())?;
    let values = with_bar(&benchmark.sets, &variants, |on_progress| {
        Ok(evaluate(&repository, &benchmark.sets, &variants, on_progress)?)
    })?;
    let report = report(&benchmark.sets, &variants, &values, &bootstrap)?;
    let printed = RepositoryReport {
        repository: shown::directory_name(&args.path),
        report: &report,
        notes: &benchmark.notes,
        bootstrap,
        took_ms: quarry_session::milliseconds(start.elapsed()),
    };
    let described: Vec<String> = benchmark.sets.iter().map(describe).collect();
    args.output.layout.print(&printed, || {
        let named = |(set, described): (&QuerySet, &String)| format!("{}: {described}\n", set.source);
        let described: String = benchmark.sets.iter().zip(&described).map(named).collect();
        report.sections().after(format!("{described}\n"))
    })?;
    if let Some(path) = &args.page {
        write_page(path, &report.page(&printed.repository, &described, &benchmark.notes))?;
    }
    if let Some(path) = &args.output.per_query {
        write_per_query(path, &benchmark.sets, &variants, &values)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a row or JSON object for each query: where it comes from, its first answer, and NDCG@10 by variant.
fn write_per_query(
    path: &Path,
    sets: &[QuerySet],
    variants: &[Variant],
    values: &[Vec<Vec<f64>>],
) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct QueryLine<'a> {
        proxy: QuerySource,
        query: &'a str,
        answer: &'a str,
        #[serde(rename = "ndcg@10")]
        ndcg: serde_json::Map<String, serde_json::Value>,
    }
    let names = || variants.iter().map(|variant| variant.name.clone());
    let lines = sets.iter().zip(values).flat_map(|(set, values)| {
        set.questions.queries.iter().enumerate().map(move |(number, query)| QueryLine {
            proxy: set.source,
            query: &query.text,
            answer: query.answers.iter().flatten().next().map_or("", |target| target.path.as_str()),
            ndcg: names().zip(values.iter().map(|of_variant| of_variant[number].into())).collect(),
        })
    });
    new_file::write_records(path, lines)
}

/// A set of queries with an example, and what was left out.
fn describe(set: &QuerySet) -> String {
    let QuerySet { view, questions, .. } = set;
    let hidden: Vec<&str> =
        [(view.hides_docs, "documentation"), (view.hides_names, "names"), (view.hides_tests, "tests")]
            .into_iter()
            .filter_map(|(is_hidden, what)| is_hidden.then_some(what))
            .collect();
    let mut text = counted(questions.queries.len(), "question");
    if let Some(query) = questions.queries.get(questions.queries.len() / 2) {
        let _ = write!(text, ", such as {:?}", query.text);
    }
    if !hidden.is_empty() {
        let _ = write!(text, "; {} hidden", hidden.join(" and "));
    }
    let left_out: Vec<String> =
        questions.left_out.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
    if !left_out.is_empty() {
        let _ = write!(text, "\n    left out: {}", left_out.join("; "));
    }
    text
}

impl RepoArgs {
    fn options(&self, bootstrap: &Bootstrap) -> SelfBenchmarkOptions {
        let mut options = SelfBenchmarkOptions {
            sources: self.sources.clone(),
            queries: self.queries,
            seed: bootstrap.seed,
            extent: self.extent,
            keeps_docs: self.keep_docs,
            hides_names: self.hide_names,
            ..SelfBenchmarkOptions::default()
        };
        options.sources.sort_unstable();
        options.sources.dedup();
        if self.ask.is_some() {
            options.sources.push(QuerySource::Queries);
        }
        options.history.commits = self.commits;
        options
    }
}

fn with_bar<T>(
    sets: &[QuerySet],
    variants: &[Variant],
    work: impl FnOnce(&(dyn Fn(Progress) + Sync)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let queries: usize = sets.iter().map(|set| set.questions.queries.len()).sum();
    let bar = progress::Progress::new("indexing and asking", queries * variants.len());
    bar.show();
    work(&|progress| match progress {
        Progress::Indexing => bar.show(),
        Progress::Asked => bar.inc(1),
    })
}

fn write(directory: &Path, repository: &Repository<'_>, sets: &[QuerySet]) -> anyhow::Result<ExitCode> {
    for set in sets {
        let target = directory.join(set.source.to_string());
        let units = evaluation::units(repository, set.view)?;
        export::write_beir(&target, set, &units)?;
        output::note(&format!(
            "{}: {}, {}",
            target.display(),
            counted(set.questions.queries.len(), "question"),
            counted(units.hits.len(), "document")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "BenchmarkAgreement"))]
pub struct AgreementReport<'a> {
    /// Name of the data set.
    dataset: String,
    /// Names of the methods.
    variants: Vec<&'a str>,
    /// Agreement by source of queries.
    agreement: &'a [SourceAgreement],
    /// The repositories.
    repositories: &'a [RepositoryValues],
    /// Resampling for intervals and p-values.
    bootstrap: &'a Bootstrap,
}

/// Path of a variant's model; variants use the built-in model or the one that the user names.
fn path(name: ModelName<'_>) -> Option<&Path> {
    if let ModelName::Path(path) = name { Some(path) } else { None }
}

fn agree(args: &RepoArgs, table: &Path, bootstrap: &Bootstrap) -> anyhow::Result<ExitCode> {
    let repositories = format::read(table)?;
    let variants = variants(args.model.path.is_some())?;
    let load = |name: ModelName<'_>| model::load(path(name));
    let bar = progress::Progress::new("repositories", repositories.len());
    bar.show();
    let mut values = Vec::new();
    for labeled in &repositories {
        let root = indexed_directory(&args.repos.directories, labeled);
        if !root.is_dir() {
            bail!(
                "{}: expected the root of {}, found no directory; check --repos",
                root.display(),
                labeled.name
            );
        }
        let (of_repository, notes) = repository_values(args, labeled, &root, &variants, &load, bootstrap)
            .with_context(|| labeled.name.clone())?;
        notes.iter().for_each(|text| output::note(&format!("{}: {text}", labeled.name)));
        values.push(of_repository);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let agreement = agreement(&values, &names, bootstrap);
    let report = AgreementReport {
        dataset: shown::file_name(table),
        variants: names.iter().map(String::as_str).collect(),
        agreement: &agreement,
        repositories: &values,
        bootstrap,
    };
    args.output.layout.print(&report, || agreement_sections(&names, &values, &agreement))?;
    Ok(ExitCode::from(u8::from(agreement.is_empty())))
}

/// Means of the variants in one repository, by labels and by the sources of queries, and notes on these.
fn repository_values(
    args: &RepoArgs,
    labeled: &format::Repository,
    root: &Path,
    variants: &[Variant],
    load: &LoadModel<'_>,
    bootstrap: &Bootstrap,
) -> anyhow::Result<(RepositoryValues, Vec<String>)> {
    let files = tree::read(root)?;
    let mut options = args.options(bootstrap);
    options.history.start = Some(labeled.revision.clone());
    let benchmark = questions(root, &files, Vec::new(), &options);
    let answered = labeled.queries.iter().filter(|query| !query.targets.is_empty());
    let labels = Questions { queries: answered.map(LabeledQuery::from).collect(), ..Questions::default() };
    if labels.queries.is_empty() {
        bail!(
            "expected at least one question with an answer in the table; add one, or leave the repository out"
        );
    }
    let mut sets = benchmark.sets;
    sets.push(QuerySet { source: QuerySource::Queries, view: View::default(), questions: labels });
    let repository = Repository { root, files: &files, load, model: args.model.path.as_deref() };
    let values = evaluate(&repository, &sets, variants, &|_| {})?;
    let mut sources: BTreeMap<QuerySource, (usize, Vec<f64>)> = sets
        .iter()
        .zip(&values)
        .map(|(set, values)| {
            let means = values.iter().map(|values| mean(&[values])).collect();
            (set.source, (set.questions.queries.len(), means))
        })
        .collect();
    let (questions, labels) = sources.remove(&QuerySource::Queries).unwrap_or_default();
    let values = RepositoryValues { repository: labeled.name.clone(), questions, labels, sources };
    Ok((values, benchmark.notes))
}

fn agreement_sections(
    names: &[String],
    repositories: &[RepositoryValues],
    agreement: &[SourceAgreement],
) -> Sections {
    const SOURCES: [QuerySource; 3] = [QuerySource::Docstring, QuerySource::Commit, QuerySource::Test];
    let header = |first: &str| {
        let sources = SOURCES.iter().map(ToString::to_string);
        Table::new([first.to_owned(), "labels".to_owned()].into_iter().chain(sources))
    };
    let mut counts = header("questions");
    for values in repositories {
        let of_sources = SOURCES.map(|source| values.sources.get(&source).map_or(0, |(count, _)| *count));
        let row = [values.repository.clone(), values.questions.to_string()];
        counts.push(row.into_iter().chain(of_sources.map(|count| count.to_string())));
    }
    let mean_of = |values: Vec<f64>| match values.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.3}", values.iter().sum::<f64>() / values.len() as f64),
    };
    let mut means = header("mean NDCG@10");
    for (variant, name) in names.iter().enumerate() {
        let labels = mean_of(repositories.iter().map(|values| values.labels[variant]).collect());
        let of_sources = SOURCES.map(|source| {
            let of_source = repositories.iter().filter_map(|values| values.sources.get(&source));
            mean_of(of_source.map(|(_, means)| means[variant]).collect())
        });
        means.push([name.clone(), labels].into_iter().chain(of_sources));
    }
    let header = [
        "source",
        "repos",
        "questions",
        "Kendall's tau-b",
        "Spearman",
        "tau-b within",
        "picks",
        "by labels",
        "default",
        "best",
        "picks no worse than default",
    ];
    let mut correlations = Table::new(header).align_left([6]);
    for of in agreement {
        let estimate = |estimate: Option<Estimate>| {
            estimate.map_or_else(
                || "-".to_owned(),
                |found| {
                    let interval = found.interval.map_or_else(String::new, shown::format_interval);
                    format!("{:+.2} {interval}", found.value).trim_end().to_owned()
                },
            )
        };
        correlations.push([
            of.source.clone(),
            of.repositories.to_string(),
            of.questions.to_string(),
            estimate(of.kendall),
            estimate(of.spearman),
            estimate(of.kendall_within),
            of.picks.clone(),
            format!("{:.3}", of.picked),
            format!("{:.3}", of.default),
            format!("{:.3}", of.best),
            format!("{} of {}", of.harmless, of.repositories),
        ]);
    }
    Sections::new().table(counts).text("\n").table(means).text("\n").table(correlations).text(
        "\nIntervals are over repositories. Kendall and Spearman compare means over repositories, tau-b within compares \
         within each.\n",
    )
}
