//! `quarry data pull`: public data sets.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::dataset::public::{PublicFile, PublicSet, public_sets};
use quarry_corpus::formats::write::NewDirectories;
use quarry_download::Expected;
use quarry_text::counted;
use quarry_text::did_you_mean;
use serde::Serialize;
use url::Url;

use crate::new_file;
use crate::output;
use crate::progress;

/// Arguments of `quarry data pull`.
#[derive(Debug, Args)]
pub struct PullArgs {
    /// Data set to download; without one, list all known data sets
    name: Option<String>,
    /// Directory for the files [default: the name of the data set]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Address of a mirror to use instead of that of the data set
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct SetList {
    /// The known data sets.
    sets: &'static [PublicSet],
}

/// A downloaded data set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pulled<'a> {
    /// Name of the data set.
    set: &'a str,
    /// Directory of the files.
    folder: &'a Path,
    /// The files.
    files: Vec<PulledFile>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct PulledFile {
    /// Path of the file.
    path: PathBuf,
    /// Length in bytes.
    bytes: u64,
    /// Bytes that were downloaded before.
    kept: u64,
    /// Hash of its content.
    sha256: String,
    /// True if the hash is the expected one.
    verified: bool,
}

/// Lists data sets, or downloads one. An interrupted download is resumed.
pub fn run(args: &PullArgs) -> anyhow::Result<()> {
    let sets = public_sets();
    let Some(name) = &args.name else {
        if args.json {
            output::print_json(&SetList { sets })?;
        } else {
            output::print(&list(sets)?)?;
        }
        return Ok(());
    };
    let Some(set) = sets.iter().find(|set| set.name == *name) else {
        let meant = did_you_mean(name, sets.iter().map(|set| set.name.as_str()));
        bail!("unknown data set {name:?}; {}", meant.as_deref().unwrap_or("`quarry data pull` lists all"));
    };
    if set.files.is_empty() {
        bail!("{name} has no files to download; get them from {}", set.home);
    }
    let base = base(args.from.as_deref().unwrap_or(&set.base))?;
    let directory = args.out.clone().unwrap_or_else(|| PathBuf::from(&set.name));
    // Removed again unless something is downloaded.
    let _directories =
        NewDirectories::create(&directory).with_context(|| new_file::cannot_write(&directory))?;
    output::note(&format!("{}: {}; license: {}; made for {}", set.name, set.about, set.licence, set.purpose));
    let mut files = Vec::new();
    for file in &set.files {
        files.push(pull(file, &base, &directory)?);
    }
    if args.json {
        output::print_json(&Pulled { set: &set.name, folder: &directory, files })?;
    }
    Ok(())
}

fn base(text: &str) -> anyhow::Result<Url> {
    let text = format!("{}/", text.trim_end_matches('/'));
    let url = Url::parse(&text)
        .with_context(|| format!("{text}: expected an address, such as https://host/directory"))?;
    if !matches!(url.scheme(), "https" | "http") {
        bail!("{text}: expected an address that begins with https:// or http://");
    }
    Ok(url)
}

fn pull(file: &PublicFile, base: &Url, directory: &Path) -> anyhow::Result<PulledFile> {
    let target = directory.join(file.name());
    let expected = Expected { size: file.size, sha256: file.sha256.clone(), ..Expected::default() };
    let got = progress::download(&base.join(&file.url)?, &target, &expected)?;
    let verified = match got.is_verified {
        true => format!("verified: sha256 {}", got.sha256),
        false => format!("not verified: no checksum is known; sha256 {}", got.sha256),
    };
    let kept = match got.kept {
        0 => String::new(),
        kept if kept == got.size => ", all downloaded before".into(),
        kept => format!(", {kept} of them downloaded before"),
    };
    output::note(&format!("{}: {}{kept}; {verified}", target.display(), counted(got.size, "byte")));
    if is_archive(&target) {
        output::note(&format!(
            "{}: archives are not unpacked, because they can contain any amount of data, and paths that point anywhere; \
             a source of `kind = \"archive\"` in a build plan reads it directly, within limits; for other commands, \
             unpack it with `unzip` or `tar`",
            target.display()
        ));
    }
    let verified = got.is_verified;
    Ok(PulledFile { path: target, bytes: got.size, kept: got.kept, sha256: got.sha256, verified })
}

fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    [".zip", ".tar", ".tar.gz", ".tgz"].iter().any(|ending| name.ends_with(ending))
}

fn list(sets: &[PublicSet]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for set in sets {
        let known = |has: fn(&PublicFile) -> bool| !set.files.is_empty() && set.files.iter().all(has);
        let files = match set.files.len() {
            0 => format!("manually from {}", set.home),
            _ if known(|file| file.sha256.is_some()) => "verified by hash".into(),
            _ if known(|file| file.size.is_some()) => "verified by length".into(),
            _ => "not verified".into(),
        };
        writeln!(text, "{:<26} {}", set.name, set.about)?;
        writeln!(text, "{:<26} {files}; license: {}; made for {}", "", set.licence, set.purpose)?;
    }
    Ok(text)
}
