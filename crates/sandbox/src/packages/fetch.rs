//! Fetching and installing sets of packages.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use quarry_files::{create_private_directory, digest, open_private};

use super::cache::{
    MANIFEST, Manifest, PACKAGES, PARTIAL, SET_LOCK, lock, note_use, publish, read_manifest, remove, share,
};
use super::{
    Index, Manager, PackageError, PackageSet, PackageSource, Rules, SETS_AT_ONCE, Settings, manager, npm,
    refused,
};
use crate::linux::bubblewrap::{AbortReason, Access, Run};
use crate::linux::tree;
use crate::semaphore::Semaphore;
use crate::{Bubblewrap, Ended, Error, Limits, Program, Sandbox};

/// Version of the checks of a set. Sets that passed another version are not used.
const CHECKS: &str = "2";

/// The system's message for a full disk.
const DISK_FULL: &str = "No space left";

/// The outermost ancestor of `directory` that the users who run programs for root cannot enter.
fn private_ancestor(directory: &Path) -> Option<&Path> {
    let is_open = |path: &&Path| fs::metadata(path).map_or(true, |of| of.permissions().mode() & 0o001 != 0);
    let outer_first: Vec<&Path> = directory.ancestors().collect();
    let closed = outer_first.into_iter().rev().find(|path| !is_open(path));
    closed.filter(|_| rustix::process::geteuid().is_root())
}

/// Fetches packages, and caches them.
pub struct Packages {
    sandbox: Bubblewrap,
    settings: Settings,
    /// The output of package managers' probes, by name.
    runtimes: Mutex<HashMap<&'static str, String>>,
    /// Sets that cannot be installed, with the reason.
    refused: Mutex<HashMap<String, String>>,
    /// The cache, once it exists and was found to be accessible to programs.
    cache: Mutex<Option<Cache>>,
    semaphore: Semaphore,
    stop: Arc<AtomicBool>,
}

struct Cache {
    #[expect(dead_code, reason = "sets stay as long as the file is open")]
    lock: Option<File>,
}

impl Packages {
    /// Prepares fetching; nothing is created or looked up until packages are needed.
    ///
    /// # Errors
    /// When no sandbox can be opened, or the settings are invalid.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        if let Some(Index::Directory(directory)) = &settings.npm.index {
            return Err(Error::Program(format!(
                "npm installs packages only from the address of a registry, not from {}",
                directory.display()
            )));
        }
        if let Some(Index::Directory(directory)) = &settings.pip.index
            && let Err(error) = fs::read_dir(directory)
        {
            return Err(Error::Program(format!(
                "{}: cannot read the directory of wheels, `index` in `[packages.pip]`: {error}; name an existing one, \
                 or the address of an index",
                directory.display()
            )));
        }
        let settings =
            Settings { cache: std::path::absolute(&settings.cache).unwrap_or(settings.cache), ..settings };
        let semaphore = Semaphore::new(SETS_AT_ONCE);
        let (runtimes, refused, cache, stop) = Default::default();
        Ok(Self { sandbox: Bubblewrap::open()?, settings, runtimes, refused, cache, semaphore, stop })
    }

    /// The same, but work ends soon after `stop` is set.
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    /// Creates the cache if necessary, and tests whether programs can access it.
    fn open_cache(&self) -> Result<(), Error> {
        let mut used = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if used.is_some() {
            return Ok(());
        }
        let cache = &self.settings.cache;
        // Root's programs run as another user, who must be able to enter it.
        let is_root = rustix::process::geteuid().is_root();
        let made = if is_root { fs::create_dir_all(cache) } else { create_private_directory(cache) };
        made.map_err(Error::file(
            "make the directory for packages, `cache` in `[packages]` of the plan",
            cache,
        ))?;
        let seen = Program {
            command: vec!["true".to_owned()],
            read_only: vec![("cache".to_owned(), cache.clone())],
            ..Program::default()
        };
        self.sandbox.run(&seen, &Limits::default()).map_err(|error| {
            let closed = private_ancestor(cache).map_or_else(
                || "every user must be able to enter it and the directories around it".to_owned(),
                |closed| {
                    format!("root's programs run as another user, who cannot enter {}", closed.display())
                },
            );
            Error::Program(format!(
                "programs cannot read {}, the directory for packages; {closed}; let others enter \
                 it (chmod o+x), or name another with XDG_CACHE_HOME or `cache` in `[packages]` of the plan ({error})",
                cache.display()
            ))
        })?;
        *used = Some(Cache { lock: share(cache) });
        Ok(())
    }

    fn rules(&self, manager: &dyn Manager) -> &Rules {
        if manager.name() == npm::Npm.name() { &self.settings.npm } else { &self.settings.pip }
    }

    /// Environment that the packages of a manager depend on here: the output of its probe.
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
        let runtime = format!("{}\n{}", outcome.stdout.text().trim(), std::env::consts::ARCH);
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
            directory_bytes: 64 << 20,
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

    /// Fetches and installs a set that is not cached yet. The caller holds its lock.
    fn create(
        &self,
        manager: &dyn Manager,
        requirements: &[String],
        directory: &Path,
    ) -> Result<Manifest, PackageError> {
        let work = directory.with_extension(PARTIAL);
        // A process that was building it may have been killed.
        remove(&work)?;
        let made = self.create_in(&work, manager, requirements, directory);
        let removed = remove(&work);
        let manifest = made?;
        removed?;
        Ok(manifest)
    }

    fn create_in(
        &self,
        work: &Path,
        manager: &dyn Manager,
        requirements: &[String],
        directory: &Path,
    ) -> Result<Manifest, PackageError> {
        let index = self.rules(manager).index.as_ref();
        let [fetched, installed, ready] = ["fetched", "installed", "ready"].map(|name| work.join(name));
        for directory in [work, &fetched, &installed, &ready] {
            fs::create_dir(directory).map_err(Error::file("make a directory", directory))?;
            let open = Permissions::from_mode(0o755);
            fs::set_permissions(directory, open)
                .map_err(Error::file("open a directory to others", directory))?;
        }
        let mut fetch = manager.fetch(requirements, index);
        for (name, content) in std::mem::take(&mut fetch.files) {
            let path = fetched.join(name);
            fs::write(&path, content).map_err(Error::file("write", &path))?;
            let readable = Permissions::from_mode(0o644);
            fs::set_permissions(&path, readable).map_err(Error::file("open a file to others", &path))?;
        }
        if let Some(Index::Directory(from)) = index {
            let wheels = work.join("index");
            self.copy_wheels(from, &wheels)?;
            fetch.read_only.push(("index".to_owned(), wheels));
        }
        let needs_network = !matches!(index, Some(Index::Directory(_)));
        let (variables, files) = if needs_network { network_environment() } else { Default::default() };
        fetch.environment.extend(variables);
        let access = Access {
            network: needs_network,
            files: &files,
            output: Some((&fetched, self.settings.bytes)),
            no_fork: true,
            stop: Some(&self.stop),
        };
        self.step(manager, requirements, &fetch, access, &fetched)?;
        let packages = manager.list(&fetched, index, &self.runtime(manager)?).map_err(refused)?;
        let names = packages.iter().filter_map(|(name, _)| manager.package(name)).collect();
        self.check_rules(manager, &names)?;

        let [result, ..] = manager.result();
        let result = match manager.install(requirements) {
            Some(mut install) => {
                install.read_only.push(("fetched".to_owned(), fetched));
                let output = Some((installed.as_path(), self.settings.bytes));
                let access = Access { output, no_fork: true, stop: Some(&self.stop), ..Access::default() };
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
        open_private(File::options().write(true).create_new(true), &written)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(Error::file("write", &written))?;
        publish(&ready, directory).map_err(Error::file("keep the installed packages", directory))?;
        Ok(manifest)
    }

    /// Runs a step that fills `output`, and takes over the files.
    fn step(
        &self,
        manager: &dyn Manager,
        requirements: &[String],
        program: &Program,
        access: Access<'_>,
        output: &Path,
    ) -> Result<(), PackageError> {
        let run = self.sandbox.run_with(program, &self.limits(), access)?;
        let names = requirements.join(", ");
        let too_large = || {
            let mebibytes = self.settings.bytes >> 20;
            refused(format!("{names}: larger than {mebibytes} MiB, with its dependencies"))
        };
        let outcome = match run {
            Run::Ended(outcome) => outcome,
            Run::Aborted(AbortReason::Stopped) => return Err(PackageError::Stopped),
            Run::Aborted(AbortReason::OutputFull) => return Err(too_large()),
        };
        match outcome.ended {
            Ended::Exited { code: 0 } => {}
            Ended::WallTime | Ended::CpuTime => {
                let seconds = self.settings.wall_time.as_secs_f64();
                // A slow network says nothing about the package.
                let detail = format!("{names}: took longer than {seconds} s");
                return Err(PackageError::Failed { detail });
            }
            Ended::Memory => return Err(refused(format!("{names}: needs too much memory to install"))),
            Ended::Exited { .. } => {
                return Err(match manager.explain(requirements, &outcome) {
                    // A step that fails for lack of a network will always do so.
                    PackageError::Failed { detail } if !access.network && !detail.contains(DISK_FULL) => {
                        refused(format!("{names}: needs something that is not in the index: {detail}"))
                    }
                    error => error,
                });
            }
        }
        match tree::adopt(output) {
            Ok(bytes) if bytes <= self.settings.bytes => Ok(()),
            Ok(_) => Err(too_large()),
            Err(error) => Err(refused(format!("{names}: {error}"))),
        }
    }

    /// Copies the wheels of a directory to where every user can read them.
    fn copy_wheels(&self, from: &Path, to: &Path) -> Result<(), PackageError> {
        fs::create_dir(to).map_err(Error::file("make a directory", to))?;
        let mut bytes = 0;
        for entry in fs::read_dir(from).map_err(Error::file("read the directory of wheels", from))? {
            let path = entry.map_err(Error::file("read the directory of wheels", from))?.path();
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
        tree::adopt(to).map_err(Error::file("open a directory to others", to))?;
        Ok(())
    }
}

impl PackageSource for Packages {
    fn check(&self, language: &str) -> Result<(), Error> {
        manager(language).map_or(Ok(()), |manager| self.runtime(manager).map(drop))
    }

    fn provide(&self, language: &str, names: &[String]) -> Result<PackageSet, PackageError> {
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
        self.open_cache()?;
        let known =
            |name: &str| self.refused.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(reason) = known(&name) {
            return Err(refused(reason));
        }
        let directory = self.settings.cache.join(&name);
        let manifest = match read_manifest(&directory)? {
            Some(manifest) => manifest,
            None => {
                let _lock = lock(&directory.with_extension(SET_LOCK), &self.stop)?;
                match read_manifest(&directory)? {
                    Some(manifest) => manifest,
                    None if known(&name).is_some() => return Err(refused(known(&name).unwrap_or_default())),
                    None => {
                        let _permit = self.semaphore.acquire(&self.stop).ok_or(PackageError::Stopped)?;
                        let made = self.create(manager, &requirements, &directory);
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
        note_use(&directory);
        let [_, seen, variable] = manager.result();
        let mut packages: Vec<String> =
            manifest.packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
        packages.sort();
        Ok(PackageSet {
            packages,
            directory: Some((seen.to_owned(), directory.join(PACKAGES))),
            variable: Some((variable.to_owned(), format!("/opt/{seen}"))),
        })
    }
}

impl Packages {
    /// The name of a set: a hash of the requirements, their source, and the runtime.
    fn name_of(&self, manager: &dyn Manager, requirements: &[String]) -> Result<String, Error> {
        let index = match &self.rules(manager).index {
            None => String::new(),
            Some(Index::Address(address)) => address.clone(),
            Some(Index::Directory(directory)) => {
                let directory = fs::canonicalize(directory)
                    .map_err(Error::file("read the directory of wheels", directory))?;
                directory.display().to_string()
            }
        };
        let runtime = self.runtime(manager)?;
        let parts: Vec<&str> =
            [CHECKS, &runtime, &index].into_iter().chain(requirements.iter().map(String::as_str)).collect();
        Ok(format!("{}-{}", manager.name(), digest(&parts)))
    }
}

/// Environment variables for proxies and certificates, and the files that they name.
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
