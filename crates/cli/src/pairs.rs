//! `quarry data pairs`: training pairs out of source trees.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::evaluation_guard::EvaluationGuard;
use quarry_corpus::pairs::{read_tree, thin};
use quarry_corpus::repositories::{Repository, read_manifest, read_names};
use quarry_source::FunctionPair;
use quarry_text::counted;

use crate::output;

/// Arguments of `quarry data pairs`.
#[derive(Debug, Args)]
pub struct PairsArgs {
    /// Tab-separated list of repositories to read: owner/name, commit and license
    #[arg(long, value_name = "FILE")]
    manifest: PathBuf,
    /// Directory with a checkout of each repository, named owner__name
    #[arg(long, value_name = "DIR")]
    sources: PathBuf,
    /// Repositories that must not be read, one per line: owner/name, an address, or a row of a manifest
    #[arg(long, value_name = "FILE")]
    exclude_repositories: Vec<PathBuf>,
    /// Data sets of evaluation data, or JSON Lines with query and code: functions that share one of them are left out
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Maximum number of pairs to keep with the same summary
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = crate::settings::at_least_one)]
    max_repeats: usize,
    /// Maximum number of pairs to keep from one repository
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = crate::settings::at_least_one)]
    max_repository: usize,
    /// File to write: one JSON object per line
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &PairsArgs) -> anyhow::Result<()> {
    let repositories = read_repositories(args)?;
    let evaluation_data = EvaluationGuard::new(&args.exclude)?;
    evaluation_data.warnings().for_each(|warning| output::note(&warning));
    for (name, counts) in evaluation_data.files() {
        output::note(&format!("left out: functions in {name} ({counts})"));
    }
    let mut pairs = Vec::new();
    for repository in repositories {
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
    Ok(())
}

/// The repositories of a manifest, none of which may be excluded.
fn read_repositories(args: &PairsArgs) -> anyhow::Result<Vec<String>> {
    let mut excluded = HashSet::new();
    for path in &args.exclude_repositories {
        excluded.extend(read_names(path)?);
    }
    let repositories = read_manifest(&args.manifest)?;
    let kept = repositories.iter().find(|repository| excluded.contains(&repository.name.to_lowercase()));
    if let Some(Repository { name, .. }) = kept {
        bail!(
            "{}: {name} is kept for evaluation and must not be trained on; remove its line",
            args.manifest.display()
        );
    }
    Ok(repositories.into_iter().map(|repository| repository.name).collect())
}

fn write(path: &Path, pairs: &[FunctionPair]) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for pair in pairs {
        serde_json::to_writer(&mut file, pair)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}
