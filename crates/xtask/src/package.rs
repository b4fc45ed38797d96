//! Files for package managers and the GitHub Action, made from the archives of a release by `crates/xtask/package.toml`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const TEMPLATES: &str = "packaging/templates";
const OUT: &str = "target/package";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packages {
    publisher: String,
    #[serde(rename = "platform")]
    platforms: Vec<Platform>,
    #[serde(rename = "file")]
    files: Vec<Output>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    target: String,
    os: String,
    cpu: String,
}

/// A file to write; the fields are explained in `package.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Output {
    source: String,
    path: String,
    os: Option<String>,
    #[serde(default)]
    each_platform: bool,
    without: Option<String>,
}

/// The parts of `pyproject.toml` that every package has.
#[derive(Debug, Deserialize)]
struct Manifest {
    project: Project,
}

#[derive(Debug, Deserialize)]
struct Project {
    name: String,
    description: String,
    keywords: Vec<String>,
}

/// An archive of a release, as templates see it.
#[derive(Debug, Serialize)]
struct Archive {
    target: String,
    /// Rust's name of the processor, which Linux distributions use too.
    arch: String,
    os: String,
    cpu: String,
    archive: String,
    url: String,
    sha256: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    archives: PathBuf,
    repository: String,
    skip_missing: bool,
}

impl Options {
    /// Reads `--archives DIR --repository URL [--skip-missing]`.
    pub(crate) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let (mut archives, mut repository, mut skip_missing) = (None, None, false);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--archives" => archives = arguments.next().map(PathBuf::from),
                "--repository" => repository = arguments.next().cloned(),
                "--skip-missing" => skip_missing = true,
                option => bail!("unknown option `{option}`"),
            }
        }
        let archives =
            archives.context("--archives: expected the directory that packaging/pack.sh wrote to")?;
        let repository = repository.context("--repository: expected the address of the repository")?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte);
        ensure!(
            repository.bytes().all(is_plain) && owner(&repository).is_some(),
            "--repository: expected an address that ends in OWNER/NAME, found {repository}"
        );
        Ok(Self { archives, repository, skip_missing })
    }
}

fn owner(repository: &str) -> Option<&str> {
    let mut parts = repository.rsplit('/');
    let name = parts.next().filter(|name| !name.is_empty());
    name.and(parts.next()).filter(|owner| !owner.is_empty())
}

impl Packages {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Replaces `target/package` in `root`; returns its path.
    pub(crate) fn write(&self, root: &Path, options: &Options) -> anyhow::Result<PathBuf> {
        let manifest = fs::read_to_string(root.join("pyproject.toml")).context("pyproject.toml")?;
        let Manifest { project } = toml::from_str(&manifest).context("pyproject.toml")?;
        let version = env!("CARGO_PKG_VERSION");
        let archives = self.archives(options, version)?;
        let out = root.join(OUT);
        if out.exists() {
            fs::remove_dir_all(&out).with_context(|| format!("{OUT} cannot be replaced"))?;
        }
        let release = context! {
            name => project.name,
            description => project.description,
            keywords => project.keywords,
            publisher => self.publisher.as_str(),
            version,
            license => env!("CARGO_PKG_LICENSE"),
            repository => options.repository.as_str(),
            owner => owner(&options.repository),
            platforms => Value::from(Serde(&archives)),
        };
        for file in &self.files {
            let has = |os: &String| archives.iter().any(|archive| archive.os == *os);
            if file.os.as_ref().is_some_and(|os| !has(os)) {
                continue;
            }
            let source = root.join(TEMPLATES).join(&file.source);
            if file.each_platform {
                for archive in &archives {
                    let of_platform = context! { platform => Value::from(Serde(archive)), ..release.clone() };
                    let path = out.join(render(&file.path, &of_platform)?);
                    unpack(&options.archives.join(&archive.archive), parent(&path))?;
                    if let Some(unwanted) = &file.without {
                        let unwanted = parent(&path).join(unwanted);
                        fs::remove_dir_all(&unwanted).with_context(|| unwanted.display().to_string())?;
                    }
                    write(&source, &path, &of_platform)?;
                }
            } else {
                write(&source, &out.join(render(&file.path, &release)?), &release)?;
            }
        }
        Ok(out)
    }

    fn archives(&self, options: &Options, version: &str) -> anyhow::Result<Vec<Archive>> {
        let mut found = Vec::new();
        for Platform { target, os, cpu } in self.platforms.iter().cloned() {
            let archive = format!("quarry-{target}.{}", if os == "win32" { "zip" } else { "tar.gz" });
            let path = options.archives.join(&archive);
            if !path.is_file() {
                ensure!(options.skip_missing, "{}: missing; --skip-missing leaves it out", path.display());
                continue;
            }
            let content = fs::read(&path).with_context(|| path.display().to_string())?;
            let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
            let url = format!("{}/releases/download/v{version}/{archive}", options.repository);
            let arch = target.split('-').next().unwrap_or_default().to_owned();
            found.push(Archive { target, arch, os, cpu, archive, url, sha256 });
        }
        ensure!(!found.is_empty(), "{}: expected at least one archive", options.archives.display());
        Ok(found)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn unpack(archive: &Path, directory: &Path) -> anyhow::Result<()> {
    let scratch = parent(directory).join(".unpacked");
    fs::create_dir_all(&scratch)?;
    let is_zip = archive.extension().is_some_and(|extension| extension == "zip");
    let mut command = Command::new(if is_zip { "unzip" } else { "tar" });
    command.args(if is_zip { ["-q", "-d"] } else { ["-x", "-C"] }).arg(&scratch);
    let status = command.args((!is_zip).then_some("-f")).arg(archive).status();
    let status = status.with_context(|| format!("{:?} cannot be started", command.get_program()))?;
    ensure!(status.success(), "{}: cannot be unpacked", archive.display());
    let entries = fs::read_dir(&scratch)?.collect::<Result<Vec<_>, _>>()?;
    let [entry] = entries.as_slice() else {
        bail!("{}: expected one directory, found {} entries", archive.display(), entries.len())
    };
    fs::rename(entry.path(), directory).with_context(|| directory.display().to_string())?;
    Ok(fs::remove_dir(&scratch)?)
}

fn write(source: &Path, path: &Path, release: &Value) -> anyhow::Result<()> {
    fs::create_dir_all(parent(path))?;
    if source.extension().is_none_or(|extension| extension != "j2") {
        fs::copy(source, path).with_context(|| source.display().to_string())?;
        return Ok(());
    }
    let template = fs::read_to_string(source).with_context(|| source.display().to_string())?;
    let text = render(&template, release).with_context(|| source.display().to_string())?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn render(template: &str, release: &Value) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    environment.set_syntax(syntax.keep_trailing_newline(true).trim_blocks(true).lstrip_blocks(true).build()?);
    Ok(environment.render_str(template, release)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn options(arguments: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    /// Packages of the repository, of the archives with these names.
    fn written(names: &[&str], more: &[&str]) -> anyhow::Result<Vec<Archive>> {
        let directory = tempfile::tempdir()?;
        for name in names {
            fs::write(directory.path().join(name), "abc")?;
        }
        let archives = directory.path().to_str().context("UTF-8")?;
        let mut arguments = vec!["--archives", archives, "--repository", "https://example.org/owner/name"];
        arguments.extend(more);
        Packages::parse(crate::PACKAGES)?.archives(&options(&arguments)?, "1.2.3")
    }

    #[test]
    fn checksums_are_those_of_the_archives_and_none_is_invented() {
        let names = ["quarry-x86_64-unknown-linux-gnu.tar.gz", "quarry-x86_64-pc-windows-msvc.zip"];
        let error = written(&names, &[]).unwrap_err().to_string();
        assert!(error.contains("quarry-aarch64-unknown-linux-gnu.tar.gz: missing"), "{error}");
        let archives = written(&names, &["--skip-missing"]).unwrap();
        let urls: Vec<&str> = archives.iter().map(|archive| archive.url.as_str()).collect();
        assert_eq!(
            urls,
            names.map(|name| format!("https://example.org/owner/name/releases/download/v1.2.3/{name}"))
        );
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(archives.iter().all(|archive| archive.sha256 == of_abc));
        assert!(written(&[], &["--skip-missing"]).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn npm_packages_have_the_program_without_its_models() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        let pack = |program: &str| {
            fs::write(at(program), "").unwrap();
            let mut command = Command::new(crate::root().join("packaging/pack.sh"));
            command.arg(at(program)).args(["x86_64-unknown-linux-gnu"]).arg(at("archives")).output().unwrap()
        };
        let refused = pack("quarry-1.0");
        assert!(!refused.status.success());
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(message.contains("expected a program named quarry"), "{message}");
        let packed = pack("quarry");
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        let archive = at("archives/quarry-x86_64-unknown-linux-gnu.tar.gz");
        unpack(&archive, &at("whole")).unwrap();
        assert!(at("whole/models/best").is_dir() && at("whole/quarry").is_file());

        let root = at("root");
        fs::create_dir_all(root.join("target")).unwrap();
        for name in ["pyproject.toml", "packaging", "LICENSE-APACHE", "LICENSE-MIT"] {
            std::os::unix::fs::symlink(crate::root().join(name), root.join(name)).unwrap();
        }
        let archives = at("archives").display().to_string();
        let arguments =
            ["--archives", &archives, "--repository", "https://example.org/a/b", "--skip-missing"];
        let packages = Packages::parse(crate::PACKAGES).unwrap();
        let out = packages.write(&root, &options(&arguments).unwrap()).unwrap();
        let package = out.join("npm/quarry-code-search-linux-x64");
        assert!(package.join("quarry").is_file() && package.join("package.json").is_file());
        assert!(!package.join("models").exists());
    }

    #[test]
    fn an_address_has_an_owner_and_ends_no_string() {
        for repository in
            ["https://example.org/a'b/c", "https://example.org/a\"b/c", "https://e/$(a)/c", "name", "/"]
        {
            assert!(options(&["--archives", ".", "--repository", repository]).is_err(), "{repository}");
        }
        assert!(options(&["--archives", "."]).is_err());
        assert_eq!(owner("https://example.org/owner/name"), Some("owner"));
    }

    #[test]
    fn a_release_is_built_and_installed_for_these_platforms() {
        let packages = Packages::parse(crate::PACKAGES).unwrap();
        let targets: BTreeSet<String> =
            packages.platforms.into_iter().map(|platform| platform.target).collect();
        let named = |paths: &[&str]| -> BTreeSet<String> {
            let text: String =
                paths.iter().map(|path| fs::read_to_string(crate::root().join(path)).unwrap()).collect();
            let words =
                text.split(|character: char| !character.is_ascii_alphanumeric() && !"_-".contains(character));
            let targets = words.map(|word| word.trim_start_matches("quarry-"));
            targets
                .filter(|word| word.starts_with("x86_64-") || word.starts_with("aarch64-"))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(named(&[".github/workflows/release.yml"]), targets);
        assert_eq!(named(&["packaging/install.sh", "packaging/install.ps1"]), targets);
    }
}
