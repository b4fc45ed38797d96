//! `quarry similar`: code similar to the code at a position.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use quarry_index::{Hit, RankingWeights};
use quarry_session::{Snapshot, Tree};
use quarry_walk as walk;

use crate::index::{SourcesArgs, with_notices};
use crate::results::{self, FilterArgs, OutputArgs, Words};

/// Arguments of `quarry similar`.
#[derive(Debug, Clone, Args)]
pub struct SimilarArgs {
    /// A line of the function, as FILE:LINE
    #[arg(value_name = "FILE:LINE", value_parser = position)]
    position: (PathBuf, u32),
    #[command(flatten)]
    source: SourcesArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(mut args: SimilarArgs) -> anyhow::Result<ExitCode> {
    args.output.quieten();
    let start = Instant::now();
    let (file, line) = &args.position;
    let paths = args.source.paths();
    let (position, path) = innermost(file, &paths)?;
    // A position is relative to the first path.
    args.source.put_first(position);
    let session = args.source.session(args.filter.narrowing()?);
    let similar = |tree: &Tree, snapshot: &Snapshot| {
        let open_time = start.elapsed();
        let layout = args.output.layout(&snapshot.settings);
        let is_in_file = |unit: &Hit| {
            Path::new(&tree.root_of(unit)).join(&unit.path).canonicalize().ok() == file.canonicalize().ok()
        };
        let Some(given) = tree.index.unit_at(&path, *line).filter(is_in_file) else {
            bail!(
                "{}:{line}: no indexed unit covers this line; name a line of code in an indexed file",
                file.display()
            );
        };
        let limit = layout.limit.unwrap_or(snapshot.defaults.limit);
        let ranking = RankingWeights::default();
        let found = quarry_session::similar(&tree.index, &given, &layout.request(limit, &ranking))?;
        Ok((found.answer(tree, &layout.shown(), open_time)?, layout))
    };
    let (answer, layout) = with_notices(|notices| session.ask(None, notices, similar))?;
    let words = Words {
        nothing: "nothing found: no other unit is similar",
        unsure: "No unit is clearly similar; showing the closest ones",
    };
    results::print(&answer, &layout, &words, |_| Vec::new())
}

/// `FILE:LINE`; a column after it, as compilers print it, is left out.
pub fn position(text: &str) -> anyhow::Result<(PathBuf, u32)> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (file, line) = match text.rsplit_once(':') {
        Some((before, last)) if is_number(last) => match before.rsplit_once(':') {
            Some((file, line)) if is_number(line) => (file, line),
            _ => (before, last),
        },
        _ => bail!("expected FILE:LINE, such as src/main.rs:12"),
    };
    if file.is_empty() {
        bail!("expected FILE:LINE, such as src/main.rs:12");
    }
    // No file has more lines than that.
    match line.parse().unwrap_or(u32::MAX) {
        0 => bail!("lines are counted from 1"),
        line => Ok((PathBuf::from(file), line)),
    }
}

/// Position of the path that contains the file, the innermost of several, and the file's path relative to it.
fn innermost(file: &Path, paths: &[PathBuf]) -> anyhow::Result<(usize, String)> {
    let mut found: Option<(usize, String)> = None;
    let mut problem = None;
    for (position, path) in paths.iter().enumerate() {
        match relative(file, path) {
            Ok(path) if found.as_ref().is_none_or(|(_, other)| path.len() < other.len()) => {
                found = Some((position, path));
            }
            Ok(_) => {}
            Err(error) => problem = Some(error),
        }
    }
    match (found, problem) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) if paths.len() == 1 => Err(error),
        _ => bail!("{} is not in any PATH; add its tree", file.display()),
    }
}

/// The path of a file relative to the root of a tree, `/` between its parts.
pub fn relative(file: &Path, root: &Path) -> anyhow::Result<String> {
    let canonical =
        |path: &Path| path.canonicalize().with_context(|| format!("{}: cannot be read", path.display()));
    let base = canonical(walk::base_directory(root)?)?;
    let file = canonical(file)?;
    let Ok(relative) = file.strip_prefix(&base) else {
        bail!("{} is not in {}; name its tree as PATH", file.display(), base.display());
    };
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_as_compilers_print_them() {
        assert_eq!(position("a/b.rs:12").unwrap(), (PathBuf::from("a/b.rs"), 12));
        assert_eq!(position("a/b.rs:12:5").unwrap(), (PathBuf::from("a/b.rs"), 12));
        assert_eq!(position("C:x.rs:5").unwrap(), (PathBuf::from("C:x.rs"), 5));
        assert_eq!(position("a/b.rs:99999999999").unwrap().1, u32::MAX);
        for wrong in ["a/b.rs", "a:b", "a:0", "12", ":12", ":1:2", ""] {
            assert!(position(wrong).is_err(), "{wrong}");
        }
    }
}
