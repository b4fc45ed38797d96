//! Packages that programs lack: fetched, installed and kept, and shown to runs as folders that they cannot change.
//!
//! Fetching is a run of its own. The package manager has the network and one empty folder to write to; it sees no
//! other file of the machine, and can start no other process, so that nothing a package brings with it runs, whatever
//! it asks for. What it fetched is then installed by a run that has no network. A set of packages is kept under a name
//! that stands for all that it depends on; it appears there whole or not at all, and is never fetched again.

mod npm;
mod pip;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bubblewrap::Access;
use crate::{Bubblewrap, Ended, Error, Limits, Outcome, Program, Sandbox, tree};

/// What is allowed, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where packages are kept, for all programs that name this folder. It is of this machine, and not told to others.
    #[serde(skip)]
    pub cache: PathBuf,
    /// How long fetching a set may take, and installing it.
    pub wall_time: Duration,
    /// How large the fetched files of a set may be together, and the installed ones, in bytes.
    pub bytes: u64,
    /// Packages of Python.
    pub pip: Rules,
    /// Packages of JavaScript and TypeScript.
    pub npm: Rules,
}

/// What is allowed of the packages of one package manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Where packages come from; the package manager's usual index otherwise.
    pub index: Option<Index>,
    /// All packages that may be installed, also those that others need; any otherwise.
    pub allow: Option<Vec<String>>,
    /// Packages that are never installed, nor what needs them.
    pub deny: Vec<String>,
}

/// Where packages come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Index {
    /// An address that the package manager understands.
    Address(String),
    /// A folder with wheels. Then no network is needed.
    Folder(PathBuf),
}

/// Why packages cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// They cannot, now and later.
    #[error("{reason}")]
    Refused {
        /// Why not.
        reason: String,
    },
    /// They could not be had this time.
    #[error("packages cannot be fetched now: {detail}; the index must be reachable, and the disk have room")]
    Failed {
        /// What happened.
        detail: String,
    },
    /// Nothing can be fetched here.
    #[error(transparent)]
    Sandbox(#[from] Error),
}

/// Something that has packages for programs.
pub trait PackageSource: Send + Sync {
    /// Packages for programs of a language: `names` as its package manager has them, with a version or without.
    ///
    /// # Errors
    /// When they cannot be had.
    fn provide(&self, language: &str, names: &[String]) -> Result<Provided, PackageError>;

    /// Checks that packages can be installed for a language, as far as that can be said without a network. Languages
    /// without a package manager have nothing to check.
    ///
    /// # Errors
    /// When the package manager is missing.
    fn check(&self, language: &str) -> Result<(), Error> {
        let _ = language;
        Ok(())
    }
}

/// A set of packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provided {
    /// What is in it: name and version, with a space between, in alphabetical order.
    pub packages: Vec<String>,
    /// The folder, under the name that programs see it by, as in [`Program::read_only`].
    pub folder: Option<(String, PathBuf)>,
    /// The environment variable by which an interpreter finds it.
    pub variable: Option<(String, String)>,
}

impl Provided {
    /// Lets a program use these packages.
    pub fn add_to(&self, program: &mut Program) {
        program.read_only.extend(self.folder.clone());
        program.environment.extend(self.variable.clone());
    }
}

/// What is kept beside a set.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    requirements: Vec<String>,
    /// Name, version.
    packages: Vec<(String, String)>,
}

/// A package manager: how it is called, and what it says.
trait Manager: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// What it takes to be there.
    fn remedy(&self) -> &'static str;
    /// Prints what installed packages depend on, beside their names.
    fn probe(&self) -> Program;
    /// The name of the package that a requirement is about, in the spelling that equal names share; `None` if this is
    /// no requirement, but an option, a path or an address.
    fn package(&self, requirement: &str) -> Option<String>;
    /// Fetches into [`OUTPUT_FOLDER`](crate::bubblewrap::OUTPUT_FOLDER), where also its files are.
    fn fetch(&self, requirements: &[String], index: Option<&Index>) -> Program;
    /// The packages among the fetched files: name and version.
    ///
    /// # Errors
    /// When a file is no package.
    fn list(&self, fetched: &Path) -> Result<Vec<(String, String)>, String>;
    /// Installs what was fetched, where that is a step of its own, from `/opt/fetched`.
    fn install(&self, fetched: &Path) -> Result<Option<Program>, Error>;
    /// Which of the folders that were written holds the packages; the name and the environment variable by which
    /// programs find it below `/opt`.
    fn result(&self) -> [&'static str; 3];
    /// What a run that failed means.
    fn explain(&self, requirements: &[String], outcome: &Outcome) -> PackageError;
}

const MANAGERS: [(&dyn Manager, &[&str]); 2] =
    [(&pip::Pip, &["python"]), (&npm::Npm, &["javascript", "typescript"])];

fn manager(language: &str) -> Option<&'static dyn Manager> {
    MANAGERS.iter().find(|(_, languages)| languages.contains(&language)).map(|(manager, _)| *manager)
}

/// Whether there is a package manager for a language.
pub fn is_supported(language: &str) -> bool {
    manager(language).is_some()
}

/// Where packages are kept unless somebody says otherwise. Root's is outside of root's own folder, which those who run
/// programs for root cannot enter.
pub fn default_cache() -> Option<PathBuf> {
    let folder = if rustix::process::geteuid().is_root() {
        Some(PathBuf::from("/var/cache"))
    } else {
        dirs::cache_dir()
    };
    Some(folder?.join("quarry/packages"))
}

/// Fetches packages, and keeps them.
pub struct Packages {
    sandbox: Bubblewrap,
    settings: Settings,
    /// What package managers said of themselves.
    runtimes: Mutex<HashMap<&'static str, String>>,
    /// Sets that cannot be had, and why.
    refused: Mutex<HashMap<String, String>>,
}

impl Packages {
    /// Makes the cache where there is none, and tries whether programs can be shown what is in it.
    ///
    /// # Errors
    /// When that does not work, or the settings cannot.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        if let Some(Index::Folder(folder)) = &settings.npm.index {
            return Err(Error::Program(format!(
                "npm takes packages from the address of a registry only, not from {}",
                folder.display()
            )));
        }
        let settings =
            Settings { cache: std::path::absolute(&settings.cache).unwrap_or(settings.cache), ..settings };
        let cache = &settings.cache;
        fs::create_dir_all(cache).map_err(Error::file("make the folder for packages", cache))?;
        let sandbox = Bubblewrap::open()?;
        let seen = Program {
            command: vec!["true".to_owned()],
            read_only: vec![("cache".to_owned(), cache.clone())],
            ..Program::default()
        };
        sandbox.run(&seen, &Limits::default()).map_err(|error| {
            Error::Program(format!(
                "programs cannot be shown what is in {}, the folder for packages: every user must be able to enter it \
                 and the folders around it ({error})",
                cache.display()
            ))
        })?;
        Ok(Self { sandbox, settings, runtimes: Mutex::default(), refused: Mutex::default() })
    }

    fn rules(&self, manager: &dyn Manager) -> &Rules {
        if manager.name() == npm::Npm.name() { &self.settings.npm } else { &self.settings.pip }
    }

    /// What the packages of a manager depend on here.
    fn runtime(&self, manager: &dyn Manager) -> Result<String, Error> {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runtimes.get(manager.name()) {
            return Ok(known.clone());
        }
        let missing = || Error::Missing { program: manager.name().to_owned(), remedy: manager.remedy() };
        let outcome = match self.sandbox.run(&manager.probe(), &self.limits()) {
            Err(Error::Program(_)) => return Err(missing()),
            other => other?,
        };
        if outcome.ended != (Ended::Exited { code: 0 }) {
            return Err(missing());
        }
        let runtime = format!("{} {}", outcome.stdout.text().trim(), std::env::consts::ARCH);
        runtimes.insert(manager.name(), runtime.clone());
        Ok(runtime)
    }

    fn limits(&self) -> Limits {
        Limits {
            wall_time: self.settings.wall_time,
            cpu_time: self.settings.wall_time,
            memory_bytes: 2 << 30,
            processes: 64,
            file_bytes: self.settings.bytes,
            folder_bytes: 64 << 20,
            open_files: 1024,
            output_bytes: 1 << 20,
        }
    }

    fn check_rules(&self, manager: &dyn Manager, packages: &BTreeSet<String>) -> Result<(), PackageError> {
        let Rules { allow, deny, .. } = self.rules(manager);
        let named = |list: &[String], package: &String| {
            list.iter().any(|name| manager.package(name).is_some_and(|name| name == *package))
        };
        for package in packages {
            if named(deny, package) {
                return Err(refused(format!("{package} is on the list of denied packages")));
            }
            if allow.as_ref().is_some_and(|allow| !named(allow, package)) {
                return Err(refused(format!("{package} is not on the list of allowed packages")));
            }
        }
        Ok(())
    }

    /// Fetches and installs a set that is not kept yet. The caller holds its lock.
    fn make(
        &self,
        manager: &dyn Manager,
        requirements: &[String],
        folder: &Path,
    ) -> Result<Manifest, PackageError> {
        let work = folder.with_extension("partial");
        // Somebody who was making it may have been killed.
        remove(&work)?;
        let made = self.make_in(&work, manager, requirements, folder);
        let removed = remove(&work);
        let manifest = made?;
        removed?;
        Ok(manifest)
    }

    fn make_in(
        &self,
        work: &Path,
        manager: &dyn Manager,
        requirements: &[String],
        folder: &Path,
    ) -> Result<Manifest, PackageError> {
        let index = self.rules(manager).index.as_ref();
        let [fetched, installed, ready] = ["fetched", "installed", "ready"].map(|name| work.join(name));
        for folder in [work, &fetched, &installed, &ready] {
            fs::create_dir(folder).map_err(Error::file("make a folder", folder))?;
            let open = Permissions::from_mode(0o755);
            fs::set_permissions(folder, open).map_err(Error::file("open a folder to others", folder))?;
        }
        let mut fetch = manager.fetch(requirements, index);
        for (name, content) in std::mem::take(&mut fetch.files) {
            let path = fetched.join(name);
            fs::write(&path, content).map_err(Error::file("write", &path))?;
            let readable = Permissions::from_mode(0o644);
            fs::set_permissions(&path, readable).map_err(Error::file("open a file to others", &path))?;
        }
        if let Some(Index::Folder(from)) = index {
            let wheels = work.join("index");
            self.copy_wheels(from, &wheels)?;
            fetch.read_only.push(("index".to_owned(), wheels));
        }
        let needs_network = !matches!(index, Some(Index::Folder(_)));
        let (variables, files) = if needs_network { network_environment() } else { Default::default() };
        fetch.environment.extend(variables);
        let access = Access {
            network: needs_network,
            files: &files,
            output: Some((&fetched, self.settings.bytes)),
            alone: true,
        };
        self.step(manager, requirements, &fetch, access, &fetched)?;
        let packages = manager.list(&fetched).map_err(refused)?;
        let names = packages.iter().filter_map(|(name, _)| manager.package(name)).collect();
        self.check_rules(manager, &names)?;

        let [result, ..] = manager.result();
        let result = match manager.install(&fetched)? {
            Some(mut install) => {
                install.read_only.push(("fetched".to_owned(), fetched));
                let output = Some((installed.as_path(), self.settings.bytes));
                let access = Access { output, alone: true, ..Access::default() };
                self.step(manager, requirements, &install, access, &installed)?;
                installed.join(result)
            }
            None => fetched.join(result),
        };
        let manifest = Manifest { requirements: requirements.to_vec(), packages };
        let kept = ready.join(PACKAGES);
        fs::rename(&result, &kept).map_err(Error::file("move the installed packages", &result))?;
        let written = ready.join(MANIFEST);
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
        fs::write(&written, text).map_err(Error::file("write", &written))?;
        publish(&ready, folder).map_err(Error::file("keep the installed packages", folder))?;
        Ok(manifest)
    }

    /// Runs a step that fills `output`, and takes over what it wrote.
    fn step(
        &self,
        manager: &dyn Manager,
        requirements: &[String],
        program: &Program,
        access: Access<'_>,
        output: &Path,
    ) -> Result<(), PackageError> {
        let outcome = self.sandbox.run_with(program, &self.limits(), access)?;
        let names = requirements.join(", ");
        let too_large = || {
            let mebibytes = self.settings.bytes >> 20;
            refused(format!("{names}: larger than {mebibytes} MiB, with what is needed for it"))
        };
        match outcome.ended {
            Ended::Exited { code: 0 } => {}
            Ended::Memory if tree::size(output) > self.settings.bytes => return Err(too_large()),
            Ended::WallTime | Ended::CpuTime => {
                let seconds = self.settings.wall_time.as_secs_f64();
                // A slow network is no word on the package.
                let detail = format!("{names}: took longer than {seconds} s");
                return Err(PackageError::Failed { detail });
            }
            Ended::Memory => return Err(refused(format!("{names}: needs too much memory to install"))),
            Ended::Exited { .. } => return Err(manager.explain(requirements, &outcome)),
        }
        match tree::adopt(output) {
            Ok(bytes) if bytes <= self.settings.bytes => Ok(()),
            Ok(_) => Err(too_large()),
            Err(error) => Err(refused(format!("{names}: {error}"))),
        }
    }

    /// Copies the wheels of a folder to where every user can read them.
    fn copy_wheels(&self, from: &Path, to: &Path) -> Result<(), PackageError> {
        fs::create_dir(to).map_err(Error::file("make a folder", to))?;
        let mut bytes = 0;
        for entry in fs::read_dir(from).map_err(Error::file("read the folder of wheels", from))? {
            let path = entry.map_err(Error::file("read the folder of wheels", from))?.path();
            let (Some(name), true) = (path.file_name(), path.extension().is_some_and(|kind| kind == "whl"))
            else {
                continue;
            };
            bytes += fs::copy(&path, to.join(name)).map_err(Error::file("copy", &path))?;
            if bytes > self.settings.bytes {
                let limit = self.settings.bytes >> 20;
                return Err(Error::Program(format!(
                    "{}: the wheels are larger than {limit} MiB together, the limit for packages; raise it, or name an \
                     address that serves them",
                    from.display()
                ))
                .into());
            }
        }
        tree::adopt(to).map_err(Error::file("open a folder to others", to))?;
        Ok(())
    }
}

impl PackageSource for Packages {
    fn check(&self, language: &str) -> Result<(), Error> {
        manager(language).map_or(Ok(()), |manager| self.runtime(manager).map(drop))
    }

    fn provide(&self, language: &str, names: &[String]) -> Result<Provided, PackageError> {
        let manager =
            manager(language).ok_or_else(|| refused(format!("no packages are installed for {language}")))?;
        let requirements: BTreeSet<String> = names.iter().cloned().collect();
        let wanted: BTreeSet<String> = (requirements.iter())
            .map(|requirement| {
                manager.package(requirement).ok_or_else(|| {
                    refused(format!(
                        "{requirement:?} is not the name of a package, with a version or without"
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        self.check_rules(manager, &wanted)?;
        let requirements: Vec<String> = requirements.into_iter().collect();
        let name = self.name_of(manager, &requirements)?;
        let known =
            |name: &str| self.refused.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(reason) = known(&name) {
            return Err(refused(reason));
        }
        let folder = self.settings.cache.join(&name);
        let manifest = match read_manifest(&folder)? {
            Some(manifest) => manifest,
            None => {
                let _lock = lock(&folder.with_extension("lock"))?;
                match read_manifest(&folder)? {
                    Some(manifest) => manifest,
                    None if known(&name).is_some() => return Err(refused(known(&name).unwrap_or_default())),
                    None => {
                        let made = self.make(manager, &requirements, &folder);
                        if let Err(PackageError::Refused { reason }) = &made {
                            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                            refused.insert(name, reason.clone());
                        }
                        made?
                    }
                }
            }
        };
        let names = manifest.packages.iter().filter_map(|(name, _)| manager.package(name)).collect();
        self.check_rules(manager, &names)?;
        let [_, seen, variable] = manager.result();
        let mut packages: Vec<String> =
            manifest.packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
        packages.sort();
        Ok(Provided {
            packages,
            folder: Some((seen.to_owned(), folder.join(PACKAGES))),
            variable: Some((variable.to_owned(), format!("/opt/{seen}"))),
        })
    }
}

impl Packages {
    /// The name of a set: it stands for what is asked for, where that comes from, and what runs it.
    fn name_of(&self, manager: &dyn Manager, requirements: &[String]) -> Result<String, Error> {
        let index = match &self.rules(manager).index {
            None => String::new(),
            Some(Index::Address(address)) => address.clone(),
            Some(Index::Folder(folder)) => {
                let folder =
                    fs::canonicalize(folder).map_err(Error::file("read the folder of wheels", folder))?;
                folder.display().to_string()
            }
        };
        let runtime = self.runtime(manager)?;
        let mut hash = Sha256::new();
        for part in [runtime.as_str(), &index].into_iter().chain(requirements.iter().map(String::as_str)) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digits: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("{}-{digits}", manager.name()))
    }
}

/// The folder of a set that programs see, and what tells of it.
const PACKAGES: &str = "packages";
const MANIFEST: &str = "manifest.json";

fn refused(reason: impl Into<String>) -> PackageError {
    PackageError::Refused { reason: reason.into() }
}

/// What is known of a set that is kept.
fn read_manifest(folder: &Path) -> Result<Option<Manifest>, Error> {
    let path = folder.join(MANIFEST);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| Error::File {
            path,
            action: "be read: remove its folder",
            source: error.into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", &path)(error)),
    }
}

/// Waits for the lock of a set. The system gives it back when its holder ends, however that ends.
fn lock(path: &Path) -> Result<File, Error> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(Error::file("write", path))?;
    file.lock().map_err(Error::file("lock", path))?;
    Ok(file)
}

fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Puts a finished folder in its place, which it has whole or not at all, also after the machine has stopped.
fn publish(ready: &Path, folder: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(ready)?)?;
    fs::rename(ready, folder)?;
    match folder.parent() {
        Some(around) => File::open(around)?.sync_all(),
        None => Ok(()),
    }
}

/// What of the environment says how the network is reached and whom to trust, and the files that it names.
fn network_environment() -> (Vec<(String, String)>, Vec<PathBuf>) {
    const NAMES: [&str; 9] = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
    ];
    let variables: Vec<(String, String)> =
        NAMES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
    let files = variables.iter().map(|(_, value)| PathBuf::from(value));
    let files = files.filter(|path| path.is_absolute() && path.is_file()).collect();
    (variables, files)
}

/// What a package manager said, for a person: the lines that say what is wrong, shortened and without passwords.
fn complaint(text: &str, marks: &[&str]) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| marks.iter().find_map(|mark| line.trim().strip_prefix(mark)))
        .collect();
    let said: String = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
    if said.is_empty() { "it gave no reason".to_owned() } else { without_passwords(&said) }
}

/// Addresses without what stands before an `@` in their machine's name.
fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let host = part.split(['/', ' ', '\'', '"', ')', '>']).next().unwrap_or_default();
        let user = host.rfind('@').map_or(0, |at| at + 1);
        clean.push_str("://");
        clean.push_str(&part[user..]);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_short_and_tell_no_password() {
        let said = "Looking in https://a\nERROR: no x at https://user:secret@host/simple/x\n  ERROR: none\n";
        assert_eq!(complaint(said, &["ERROR:"]), "no x at https://host/simple/x none");
        assert_eq!(complaint("", &["ERROR:"]), "it gave no reason");
        assert_eq!(complaint(&format!("ERROR:{}", "x".repeat(999)), &["ERROR:"]).len(), 300);
    }

    #[test]
    fn languages_have_at_most_one_manager() {
        assert!(is_supported("python") && is_supported("javascript") && !is_supported("go"));
        assert_eq!(manager("typescript").map(Manager::name), Some("npm"));
    }
}
