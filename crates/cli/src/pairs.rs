//! `quarry data pairs`: training pairs out of source trees.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::evaluation_data::EvaluationData;
use quarry_corpus::pairs::{read_tree, thin};
use quarry_source::FunctionPair;
use quarry_text::counted;

use crate::output;

/// Arguments of `quarry data pairs`.
#[derive(Debug, Args)]
pub struct PairsArgs {
    /// Tab-separated list of repositories to read: repository (owner/name), commit, license
    #[arg(long, value_name = "FILE")]
    manifest: PathBuf,
    /// Directory with a checkout of each repository, named owner__name
    #[arg(long, value_name = "DIR")]
    sources: PathBuf,
    /// Repositories that must not be read: owner/name, one per line
    #[arg(long, value_name = "FILE")]
    exclude_repositories: Vec<PathBuf>,
    /// Files of evaluation data (plain text or data sets): no function or query in one of them is written
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Maximum number of pairs to keep with the same summary
    #[arg(long, value_name = "N", default_value_t = 8)]
    max_repeats: usize,
    /// Maximum number of pairs to keep from one repository
    #[arg(long, value_name = "N", default_value_t = 40_000)]
    max_repository: usize,
    /// File to write: one JSON object per line
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Writes the pairs.
///
/// # Errors
/// When a file is missing or wrong, or the manifest names an excluded repository.
pub fn run(args: &PairsArgs) -> anyhow::Result<ExitCode> {
    let excluded = read_lines(&args.exclude_repositories)?;
    let evaluation_data = EvaluationData::read(&args.exclude)?;
    let mut pairs = Vec::new();
    for repository in read_manifest(&args.manifest, &excluded)? {
        let directory = args.sources.join(repository.replace('/', "__"));
        let found = read_tree(&directory, &repository, &evaluation_data)
            .with_context(|| format!("{repository} of {}", args.manifest.display()))?;
        output::note(&format!("{repository}: {}", counted(found.len(), "function")));
        pairs.extend(found);
    }
    let pairs = thin(pairs, args.max_repeats, args.max_repository);
    write(&args.out, &pairs).with_context(|| format!("{}: cannot be written", args.out.display()))?;
    let mut languages: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for pair in &pairs {
        languages.entry(&pair.language).or_default()[usize::from(pair.query.is_empty())] += 1;
    }
    for (language, [documented, undocumented]) in &languages {
        output::note(&format!("{language}: {documented} with documentation, {undocumented} without"));
    }
    output::note(&format!("{}: {}", args.out.display(), counted(pairs.len(), "pair")));
    Ok(ExitCode::SUCCESS)
}

fn read_lines(paths: &[PathBuf]) -> anyhow::Result<HashSet<String>> {
    let mut lines = HashSet::new();
    for path in paths {
        let text = read_text(path)?;
        lines.extend(text.lines().map(|line| line.trim().to_lowercase()).filter(|line| !line.is_empty()));
    }
    Ok(lines)
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The repositories of a manifest, whose first line names its columns.
fn read_manifest(path: &Path, excluded: &HashSet<String>) -> anyhow::Result<Vec<String>> {
    let mut repositories = Vec::new();
    for (line, text) in read_text(path)?.lines().enumerate().skip(1) {
        let location = format!("{}:{}", path.display(), line + 1);
        let columns: Vec<&str> = text.split('\t').collect();
        let [repository, commit, license, ..] = columns[..] else {
            bail!("{location}: expected repository, commit and license, separated by tabs");
        };
        if repository.split('/').count() != 2 || commit.is_empty() || license.is_empty() {
            bail!("{location}: expected owner/name, a commit and a license, found {text:?}");
        }
        if excluded.contains(&repository.to_lowercase()) {
            bail!(
                "{location}: {repository} is kept for evaluation and must not be trained on; remove the line"
            );
        }
        repositories.push(repository.to_owned());
    }
    Ok(repositories)
}

fn write(path: &Path, pairs: &[FunctionPair]) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for pair in pairs {
        serde_json::to_writer(&mut file, pair)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}
