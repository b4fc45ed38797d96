//! `quarry eval repo`: a repository as a benchmark of itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use indicatif::ProgressBar;
use quarry_corpus::formats::repo_search as format;
use quarry_corpus::pairs::Extent;
use quarry_eval::method::{LoadModel, ModelName};
use quarry_eval::own_repository::agreement::{Estimate, ProxyAgreement, RepositoryValues, agreement};
use quarry_eval::own_repository::evaluation::{self, Progress, Repository, evaluate};
use quarry_eval::own_repository::report::{Report, report};
use quarry_eval::own_repository::variants::{Variant, variants};
use quarry_eval::own_repository::view::View;
use quarry_eval::own_repository::{
    Asked, LabelledQuery, Options, Proxy, Questions, export, own_questions, questions, tree,
};
use quarry_eval::repo_search::indexed_folder;
use quarry_metrics::significance::{Bootstrap, mean};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{BootstrapArgs, by_name};
use crate::eval::shown;
use crate::progress;
use crate::{model, output};

#[derive(Debug, Args)]
pub struct RepoArgs {
    /// Folder whose code is searched; of a git checkout also its history is read
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Where questions come from, with commas between: docstring, commit, test
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "docstring,commit,test",
        value_parser = proxy)]
    proxies: Vec<Proxy>,
    /// Your own questions, a line each: query TAB path[:line[-line]]
    #[arg(long, value_name = "FILE", conflicts_with = "agreement")]
    ask: Option<PathBuf>,
    /// Another model to compare: a transformer's folder, or a static model's file or folder
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Questions from each source, drawn by the seed; the newest of the history
    #[arg(long, value_name = "N", default_value_t = Options::default().queries, value_parser = at_least_one)]
    queries: usize,
    /// Commits that are looked at, newest first
    #[arg(long, value_name = "N", default_value_t = Options::default().history.commits)]
    commits: usize,
    /// How much of a documentation is asked: sentence, paragraph
    #[arg(long, value_name = "EXTENT", default_value = "sentence", value_parser = by_name::<Extent>)]
    extent: Extent,
    /// Leave documentation in the code that it asks for
    #[arg(long)]
    keep_docs: bool,
    /// Take the names of functions out of their code, when their documentation asks for them
    #[arg(long)]
    hide_names: bool,
    /// Write the questions as BEIR folders, DIR/docstring and so on, rather than answer them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["agreement", "json"])]
    write: Option<PathBuf>,
    /// Say how far the questions order methods as labels do: a table as for `quarry eval repo-search`
    #[arg(long, value_name = "TSV", requires = "repos", conflicts_with = "path")]
    agreement: Option<PathBuf>,
    /// Folder with the labelled repositories, as for `quarry eval repo-search`
    #[arg(long, value_name = "DIR", requires = "agreement")]
    repos: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

fn proxy(name: &str) -> Result<Proxy, String> {
    match by_name(name) {
        Ok(Proxy::Queries) | Err(_) => Err("expected docstring, commit or test".to_owned()),
        Ok(proxy) => Ok(proxy),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a number from 1".to_owned())
}

#[derive(Serialize)]
struct RepositoryReport<'a> {
    repository: String,
    #[serde(flatten)]
    report: &'a Report,
    notes: &'a [String],
    bootstrap: Bootstrap,
    took_ms: f64,
}

/// Runs `quarry eval repo`; the exit code is 1 where nothing can be asked.
///
/// # Errors
/// When the folder or a file is missing or wrong, or a model fails.
pub fn run(args: &RepoArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let bootstrap = args.bootstrap.resolve()?;
    if let (Some(table), Some(repos)) = (&args.agreement, &args.repos) {
        return agree(args, table, repos, &bootstrap);
    }
    let files = tree::read(&args.path)?;
    let options = args.options(&bootstrap);
    let own = args.ask.as_deref().map(|path| own_questions(path, &files)).transpose()?.unwrap_or_default();
    let found = questions(&args.path, &files, own, &options);
    found.notes.iter().for_each(|text| output::note(text));
    if found.asked.is_empty() {
        output::note("nothing to ask; ask questions of your own with --ask FILE");
        return Ok(ExitCode::from(1));
    }
    let load = |name: ModelName<'_>| model::load(path(name));
    let repository =
        Repository { root: &args.path, files: &files, load: &load, model: args.model.as_deref() };
    if let Some(folder) = &args.write {
        return write(folder, &repository, &found.asked);
    }
    let variants = variants(args.model.is_some())?;
    let values = with_bar(&found.asked, &variants, |on_progress| {
        Ok(evaluate(&repository, &found.asked, &variants, on_progress)?)
    })?;
    let report = report(&found.asked, &variants, &values, &bootstrap)?;
    if args.json {
        output::print_json(&RepositoryReport {
            repository: shown::folder_name(&args.path),
            report: &report,
            notes: &found.notes,
            bootstrap,
            took_ms: output::milliseconds(start.elapsed()),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for asked in &found.asked {
        let _ = writeln!(text, "{}", describe(asked));
    }
    let _ = write!(text, "\n{}", report.text());
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is asked, with an example, and what was left out.
fn describe(asked: &Asked) -> String {
    let Asked { proxy, view, questions } = asked;
    let hidden: Vec<&str> =
        [(view.hides_docs, "documentation"), (view.hides_names, "names"), (view.hides_tests, "tests")]
            .into_iter()
            .filter_map(|(is_hidden, what)| is_hidden.then_some(what))
            .collect();
    let mut text = format!("{proxy}: {}", counted(questions.queries.len(), "question"));
    if let Some(query) = questions.queries.get(questions.queries.len() / 2) {
        let _ = write!(text, ", such as {:?}", query.text);
    }
    if !hidden.is_empty() {
        let _ = write!(text, "; {} hidden", hidden.join(" and "));
    }
    let left_out: Vec<String> =
        questions.left_out.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if !left_out.is_empty() {
        let _ = write!(text, "\n    left out: {}", left_out.join("; "));
    }
    text
}

impl RepoArgs {
    fn options(&self, bootstrap: &Bootstrap) -> Options {
        let mut options = Options {
            proxies: self.proxies.clone(),
            queries: self.queries,
            seed: bootstrap.seed,
            extent: self.extent,
            keeps_docs: self.keep_docs,
            hides_names: self.hide_names,
            ..Options::default()
        };
        options.proxies.sort_unstable();
        options.proxies.dedup();
        if self.ask.is_some() {
            options.proxies.push(Proxy::Queries);
        }
        options.history.commits = self.commits;
        options
    }
}

/// Shows how many questions were asked of how many variants.
fn with_bar<T>(
    asked: &[Asked],
    variants: &[Variant],
    work: impl FnOnce(&(dyn Fn(Progress) + Sync)) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let questions: usize = asked.iter().map(|asked| asked.questions.queries.len()).sum();
    let bar: ProgressBar = progress::progress_bar("indexing and asking", questions * variants.len());
    bar.tick();
    let result = work(&|progress| match progress {
        Progress::Indexing => bar.tick(),
        Progress::Asked => bar.inc(1),
    });
    bar.finish_and_clear();
    result
}

fn write(folder: &Path, repository: &Repository<'_>, asked: &[Asked]) -> anyhow::Result<ExitCode> {
    for asked in asked {
        let target = folder.join(asked.proxy.to_string());
        let units = evaluation::units(repository, asked.view)?;
        export::write_beir(&target, asked, &units)?;
        output::note(&format!(
            "{}: {}, {}",
            target.display(),
            counted(asked.questions.queries.len(), "question"),
            counted(units.hits.len(), "document")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct AgreementReport<'a> {
    dataset: String,
    variants: Vec<&'a str>,
    agreement: &'a [ProxyAgreement],
    repositories: &'a [RepositoryValues],
    bootstrap: &'a Bootstrap,
}

/// Where the model of a variant is; variants have no other than the one built in and the one that the user names.
fn path(name: ModelName<'_>) -> Option<&Path> {
    if let ModelName::Path(path) = name { Some(path) } else { None }
}

fn agree(args: &RepoArgs, table: &Path, repos: &Path, bootstrap: &Bootstrap) -> anyhow::Result<ExitCode> {
    let repositories = format::read(table)?;
    let variants = variants(args.model.is_some())?;
    let load = |name: ModelName<'_>| model::load(path(name));
    let bar = progress::progress_bar("repositories", repositories.len());
    bar.tick();
    let mut found = Vec::new();
    for labelled in &repositories {
        let root = indexed_folder(repos, labelled);
        if !root.is_dir() {
            bail!(
                "{}: expected the root of {}, found no folder; check --repos",
                root.display(),
                labelled.name
            );
        }
        let of_repository = || of_repository(args, labelled, &root, &variants, &load, bootstrap);
        let (values, notes) = of_repository().with_context(|| labelled.name.clone())?;
        notes.iter().for_each(|text| output::note(&format!("{}: {text}", labelled.name)));
        found.push(values);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let agreement = agreement(&found, &names, bootstrap);
    if args.json {
        output::print_json(&AgreementReport {
            dataset: shown::file_name(table),
            variants: names.iter().map(String::as_str).collect(),
            agreement: &agreement,
            repositories: &found,
            bootstrap,
        })?;
    } else {
        output::print(&agreement_text(&names, &found, &agreement))?;
    }
    Ok(ExitCode::from(u8::from(agreement.is_empty())))
}

/// What labels and proxies say of the variants in one repository, and what is to be said of the proxies.
fn of_repository(
    args: &RepoArgs,
    labelled: &format::Repository,
    root: &Path,
    variants: &[Variant],
    load: &LoadModel<'_>,
    bootstrap: &Bootstrap,
) -> anyhow::Result<(RepositoryValues, Vec<String>)> {
    let files = tree::read(root)?;
    let mut options = args.options(bootstrap);
    options.history.start = Some(labelled.revision.clone());
    let found = questions(root, &files, Vec::new(), &options);
    let answered = labelled.queries.iter().filter(|query| !query.targets.is_empty());
    let labels = Questions { queries: answered.map(LabelledQuery::from).collect(), ..Questions::default() };
    if labels.queries.is_empty() {
        bail!(
            "expected at least one question with an answer in the table; add one, or leave the repository out"
        );
    }
    let mut asked = found.asked;
    asked.push(Asked { proxy: Proxy::Queries, view: View::default(), questions: labels });
    let repository = Repository { root, files: &files, load, model: args.model.as_deref() };
    let values = evaluate(&repository, &asked, variants, &|_| {})?;
    let mut of_proxies: BTreeMap<Proxy, (usize, Vec<f64>)> = asked
        .iter()
        .zip(&values)
        .map(|(asked, values)| {
            let means = values.iter().map(|values| mean(&[values])).collect();
            (asked.proxy, (asked.questions.queries.len(), means))
        })
        .collect();
    let (questions, labels) = of_proxies.remove(&Proxy::Queries).unwrap_or_default();
    let values =
        RepositoryValues { repository: labelled.name.clone(), questions, labels, proxies: of_proxies };
    Ok((values, found.notes))
}

fn agreement_text(names: &[String], found: &[RepositoryValues], agreement: &[ProxyAgreement]) -> String {
    let proxies = [Proxy::Docstring, Proxy::Commit, Proxy::Test];
    let mut text = format!("{:<16} {:>8}", "questions", "labels");
    proxies.iter().for_each(|proxy| {
        let _ = write!(text, " {proxy:>10}");
    });
    text.push('\n');
    for values in found {
        let _ = write!(text, "{:<16} {:>8}", values.repository, values.questions);
        for proxy in proxies {
            let _ =
                write!(text, " {:>10}", values.proxies.get(&proxy).map_or(0, |(questions, _)| *questions));
        }
        text.push('\n');
    }
    let _ = write!(text, "\n{:<16} {:>8}", "mean NDCG@10", "labels");
    proxies.iter().for_each(|proxy| {
        let _ = write!(text, " {proxy:>10}");
    });
    text.push('\n');
    let mean_of = |values: Vec<f64>| match values.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.3}", values.iter().sum::<f64>() / values.len() as f64),
    };
    for (place, name) in names.iter().enumerate() {
        let labels = found.iter().map(|values| values.labels[place]).collect();
        let _ = write!(text, "{name:<16} {:>8}", mean_of(labels));
        for proxy in proxies {
            let of_proxy = found.iter().filter_map(|values| values.proxies.get(&proxy));
            let _ = write!(text, " {:>10}", mean_of(of_proxy.map(|(_, means)| means[place]).collect()));
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\n{:<10} {:>5} {:>9}  {:<22} {:<22} {:<22} picks",
        "", "repos", "questions", "Kendall's tau-b", "Spearman", "tau-b within"
    );
    for of in agreement {
        let estimate = |estimate: Option<Estimate>| {
            estimate.map_or_else(
                || "-".to_owned(),
                |found| {
                    let interval = found.interval.map_or_else(String::new, shown::format_interval);
                    format!("{:+.2} {interval}", found.value)
                },
            )
        };
        let _ = writeln!(
            text,
            "{:<10} {:>5} {:>9}  {:<22} {:<22} {:<22} {}: {:.3} by labels (default {:.3}, best {:.3}); own picks no worse in {} of {}",
            of.proxy,
            of.repositories,
            of.questions,
            estimate(of.kendall),
            estimate(of.spearman),
            estimate(of.kendall_within),
            of.picks,
            of.picked,
            of.default,
            of.best,
            of.harmless,
            of.repositories
        );
    }
    text + "\nIntervals are over repositories. Kendall and Spearman compare means over repositories, tau-b within compares in each.\n"
}
