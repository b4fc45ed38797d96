//! `quarry model pull best`: the model of a release of Quarry.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use quarry_download::Expected;
use quarry_download::known::{self, KnownFile, KnownFileError};
use quarry_embed::shipped;
use quarry_text::counted;
use url::Url;

use super::{RECEIPT, Receipt, ReceiptFile};
use crate::{model, new_file, output, progress};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Address of the repository whose releases have the models; empty if neither whoever built the program nor its package
/// names one.
const REPOSITORY: &str = match option_env!("QUARRY_REPOSITORY") {
    Some(repository) => repository,
    None => env!("CARGO_PKG_REPOSITORY"),
};

enum Source {
    /// Address of an archive.
    Url(Url),
    Archive(PathBuf),
    /// The directory of the model itself.
    Directory(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Archive(path) | Self::Directory(path) => path.display().fmt(f),
        }
    }
}

/// Installs the model of `--quality best` unless it is installed; returns its directory, which exists whole or not at all.
///
/// # Errors
/// When it cannot be fetched from `from`, is not the model of this version, or cannot be written, and when something
/// else is in its place.
pub fn pull(from: Option<&str>) -> anyhow::Result<PathBuf> {
    let name = shipped::RERANKER;
    let files: Vec<KnownFile> = shipped::reranker_files()
        .map(|file| KnownFile { path: file.path, size: file.size, sha256: file.sha256 })
        .collect();
    let models = super::pulled_models()?;
    let target = models.join(name);
    if let Some(found) = installed(&files, &target)? {
        return Ok(found);
    }
    let source = source(name, from)?;
    fs::create_dir_all(&models).with_context(|| new_file::cannot_write(&models))?;
    let _lock = lock(&models.join(format!(".{name}.lock")))?;
    // The previous holder of the lock may have installed it.
    if let Some(found) = installed(&files, &target)? {
        return Ok(found);
    }
    if target.symlink_metadata().is_ok() && !target.join(RECEIPT).is_file() {
        bail!(
            "{}: exists, and was not created by `quarry model pull`; move it, or remove it",
            target.display()
        );
    }
    let prefix = format!(".{name}-");
    remove_leftovers(&models, &prefix);
    let staging = tempfile::Builder::new().prefix(&prefix).tempdir_in(&models);
    let staging = staging.with_context(|| new_file::cannot_write(&models))?;
    let new = staging.path().join("new");
    fs::create_dir(&new).with_context(|| new_file::cannot_write(&new))?;
    fetch(&source, name, &files, &models, &new)?;
    let receipt = Receipt {
        name: name.to_owned(),
        revision: VERSION.to_owned(),
        files: files
            .iter()
            .map(|file| ReceiptFile {
                path: file.path.to_owned(),
                size: file.size,
                sha256: Some(file.sha256.to_owned()),
            })
            .collect(),
    };
    new_file::write_json(&new.join(RECEIPT), &receipt)?;
    replace(&target, &new, &staging.path().join("old")).with_context(|| new_file::cannot_write(&target))?;
    let size = files.iter().map(|file| file.size).sum::<u64>();
    output::note(&format!("{}: {}, verified", target.display(), counted(size, "byte")));
    Ok(target)
}

/// The directory from which searches take the model, if it is that of this version. A model that a pull can replace
/// counts as not installed.
fn installed(files: &[KnownFile], target: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Ok(found) = model::reranker() else { return Ok(None) };
    match known::verify(&found, files) {
        Ok(()) => {
            output::note(&format!("{}: installed already, verified", found.display()));
            Ok(Some(found))
        }
        Err(_) if found == target => Ok(None),
        Err(error) => Err(error).with_context(|| {
            format!(
                "{}: is what searches use, but not the model of Quarry {VERSION}; move it, or remove it",
                found.display()
            )
        }),
    }
}

fn source(name: &str, from: Option<&str>) -> anyhow::Result<Source> {
    let archive = format!("quarry-model-{name}.tar.gz");
    let from = match from {
        Some(from) => from.to_owned(),
        None if REPOSITORY.is_empty() => bail!(
            "this build has no release URL; name one with --from, or, in a clone of the \
             repository, `quarry model pull {name} --from crates/embed/models`"
        ),
        None => format!("{REPOSITORY}/releases/download/v{VERSION}"),
    };
    if from.starts_with("https://") || from.starts_with("http://") {
        let address = match from.ends_with(".tar.gz") {
            true => from.clone(),
            false => format!("{}/{archive}", from.trim_end_matches('/')),
        };
        let url = Url::parse(&address);
        return url
            .map(Source::Url)
            .with_context(|| format!("{from}: expected an address, such as https://host"));
    }
    let path = PathBuf::from(&from);
    let [packed, unpacked] = [&archive, name].map(|name| path.join(name));
    if let Some(file) = [path, packed].into_iter().find(|path| path.is_file()) {
        return Ok(Source::Archive(file));
    }
    if unpacked.is_dir() {
        return Ok(Source::Directory(unpacked));
    }
    bail!(
        "{from}: expected an address that begins with https:// or http://, an archive such as {archive}, or a directory \
         that has {archive} or {name}"
    )
}

/// Writes the files of a model into an empty directory.
fn fetch(source: &Source, name: &str, files: &[KnownFile], models: &Path, new: &Path) -> anyhow::Result<()> {
    let unpack = |path: &Path| {
        let archive = quarry_files::open_regular(path)
            .map_err(|source| KnownFileError::Read { path: path.to_owned(), source })?;
        known::unpack(archive, name, files, new)
    };
    let fetched = match source {
        Source::Directory(path) => known::copy(path, files, new),
        Source::Archive(path) => unpack(path),
        Source::Url(url) => {
            let packed = models.join(format!(".quarry-model-{name}-{VERSION}.tar.gz"));
            let expected = Expected { max_size: Some(known::max_archive_size(files)), ..Expected::default() };
            progress::download(url, &packed, &expected)?;
            let fetched = unpack(&packed);
            // A wrong one is asked for again; a right one that there was no space to unpack is not.
            if !matches!(fetched, Err(KnownFileError::Write { .. })) {
                let _ = fs::remove_file(&packed);
            }
            fetched
        }
    };
    fetched.with_context(|| format!("{source}: expected the model {name} of Quarry {VERSION}"))
}

/// Takes the lock of the pulls of a model; waits while another process has it.
fn lock(path: &Path) -> anyhow::Result<File> {
    let mut options = File::options();
    let file = options.create(true).truncate(false).write(true).open(path);
    let file = file.with_context(|| new_file::cannot_write(path))?;
    let locked = quarry_files::try_lock(&file).and_then(|is_locked| {
        if is_locked {
            return Ok(());
        }
        output::note("another process pulls this model; waiting for it");
        file.lock()
    });
    locked.with_context(|| format!("{}: cannot be locked", path.display()))?;
    Ok(file)
}

/// Removes what pulls left that were killed. Nobody else uses it: the lock is held.
fn remove_leftovers(models: &Path, prefix: &str) {
    let entries = fs::read_dir(models).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Gives the directory `new` the name `target`; what has it is moved to `aside`.
fn replace(target: &Path, new: &Path, aside: &Path) -> std::io::Result<()> {
    let is_there = target.symlink_metadata().is_ok();
    if is_there {
        fs::rename(target, aside)?;
    }
    fs::rename(new, target).inspect_err(|_| {
        if is_there {
            let _ = fs::rename(aside, target);
        }
    })
}
