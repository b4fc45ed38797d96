//! Packages that programs need: fetched, installed, cached, and made available to runs as read-only directories.
//!
//! Fetching is a separate run. The package manager has access to the network and one empty writable directory; it
//! sees no other file of the machine, and cannot start other processes, so that no code of a package runs, whatever
//! it requests. The fetched files are then installed by a run without network. A set of packages is cached under a
//! hash of everything it depends on; it appears there atomically, and is never fetched again.

#[cfg(not(quarry_no_sandbox))]
mod cache;
mod diagnostics;
#[cfg(not(quarry_no_sandbox))]
mod fetch;
mod npm;
mod pip;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Error, Outcome, Program};

#[cfg(quarry_no_sandbox)]
pub use crate::elsewhere::{CachedPackages, Packages};
#[cfg(not(quarry_no_sandbox))]
pub use cache::CachedPackages;
#[cfg(not(quarry_no_sandbox))]
pub use fetch::Packages;

/// Number of sets that are fetched or installed concurrently.
pub const SETS_AT_ONCE: usize = 2;

/// Packages that may be installed, their index, and limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The cache directory. It belongs to this machine, and is not sent to others.
    #[serde(skip)]
    pub cache: PathBuf,
    /// Time limit for fetching a set, and for installing it.
    pub wall_time: Duration,
    /// Maximum total size of a set's fetched files, and of its installed files, in bytes.
    pub bytes: u64,
    pub pip: Rules,
    /// Rules for JavaScript and TypeScript packages.
    pub npm: Rules,
}

/// Rules for the packages of one package manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Package index; the package manager's default if `None`.
    pub index: Option<Index>,
    /// All packages that may be installed, dependencies included; any if `None`.
    pub allow: Option<Vec<String>>,
    /// Packages that are never installed, nor any that depend on them.
    pub deny: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Index {
    /// A URL that the package manager understands.
    Address(String),
    /// A directory with wheels. No network is needed then.
    #[serde(rename = "Folder")]
    Directory(PathBuf),
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// They cannot be installed, now or later.
    #[error("{reason}")]
    Refused {
        /// An explanation for people and models.
        reason: String,
    },
    #[error(
        "packages cannot be fetched now: {detail}; the index must be reachable, and the disk must have free space; \
         without a network, {WITHOUT}"
    )]
    Failed { detail: String },
    #[error("stopped while packages were fetched")]
    Stopped,
    /// The sandbox for fetching does not work.
    #[error(transparent)]
    Sandbox(#[from] Error),
}

/// Advice to do without packages.
const WITHOUT: &str = "set `install = false` in `[packages]` of the plan";

/// Provides packages for programs.
pub trait PackageSource: Send + Sync {
    /// Provides packages for programs of a language: `names` are requirements of its package manager, with or without
    /// versions.
    fn provide(&self, language: &str, names: &[String]) -> Result<PackageSet, PackageError>;

    /// Checks that packages can be installed for a language, as far as possible without a network. Languages without
    /// a package manager always pass.
    fn check(&self, language: &str) -> Result<(), Error> {
        let _ = language;
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageSet {
    /// The packages in it: name and version, separated by a space, in alphabetical order.
    pub packages: Vec<String>,
    /// The directory, with the name under which programs see it, as in [`Program::read_only`].
    pub directory: Option<(String, PathBuf)>,
    /// The environment variable by which an interpreter finds it.
    pub variable: Option<(String, String)>,
}

impl PackageSet {
    /// Makes these packages available to a program.
    pub fn add_to(&self, program: &mut Program) {
        program.read_only.extend(self.directory.clone());
        program.environment.extend(self.variable.clone());
    }
}

/// A package manager: how to run it, and how to interpret its output.
trait Manager: Sync {
    fn name(&self) -> &'static str;
    fn remedy(&self) -> String;
    /// Prints what installed packages depend on besides their names, such as versions of the runtime.
    fn probe(&self) -> Program;
    /// The normalized name of the package that a requirement is for; `None` if it is an option, a path or an address.
    fn package(&self, requirement: &str) -> Option<String>;
    /// Fetches packages into [`OUTPUT_DIRECTORY`](crate::OUTPUT_DIRECTORY), which also holds its temporary files.
    fn fetch(&self, requirements: &[String], index: Option<&Index>) -> Program;
    /// The packages among the fetched files: name and version. `runtime` is the output of [`Manager::probe`].
    fn list(
        &self,
        fetched: &Path,
        index: Option<&Index>,
        runtime: &str,
    ) -> Result<Vec<(String, String)>, String>;
    /// Installs the fetched files from `/opt/fetched`; `None` if fetching already did.
    fn install(&self, requirements: &[String]) -> Option<Program>;
    /// The written directory that contains the packages; the name below `/opt` and the environment variable by which
    /// programs find it.
    fn result(&self) -> [&'static str; 3];
    /// The error that a failed run means.
    fn explain(&self, requirements: &[String], outcome: &Outcome) -> PackageError;
}

const MANAGERS: [(&dyn Manager, &[&str]); 2] =
    [(&pip::Pip, &["python"]), (&npm::Npm, &["javascript", "typescript"])];

fn manager(language: &str) -> Option<&'static dyn Manager> {
    MANAGERS.iter().find(|(_, languages)| languages.contains(&language)).map(|(manager, _)| *manager)
}

pub fn is_supported(language: &str) -> bool {
    manager(language).is_some()
}

/// Returns whether `text` can be the name of a package of a package manager (`pip`, `npm`), without a version: other
/// entries in a list would allow or deny nothing.
pub fn is_name(manager: &str, text: &str) -> bool {
    let names_one = |(known, _): &(&dyn Manager, _)| known.name() == manager && known.package(text).is_some();
    MANAGERS.iter().any(names_one) && !text.chars().skip(1).any(|c| "=<>~![@".contains(c))
}

/// The default cache directory: in the user's cache directory, which `XDG_CACHE_HOME` changes. Without that variable,
/// root uses `/var/cache`, because the users who run programs for root cannot enter root's home directory; that they
/// can enter another directory is checked before it is used.
pub fn default_cache() -> Option<PathBuf> {
    let moved = std::env::var_os("XDG_CACHE_HOME").is_some_and(|path| Path::new(&path).is_absolute());
    default_cache_of(crate::system::is_root(), moved, dirs::cache_dir())
}

/// Like [`default_cache`]; `moved` is set if the user chose `cache`.
fn default_cache_of(is_root: bool, moved: bool, cache: Option<PathBuf>) -> Option<PathBuf> {
    let base = if is_root && !moved { PathBuf::from("/var/cache") } else { cache? };
    Some(base.join("quarry/packages"))
}

fn refused(reason: impl Into<String>) -> PackageError {
    PackageError::Refused { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_at_most_one_manager() {
        assert!(is_supported("python") && is_supported("javascript") && !is_supported("go"));
        assert_eq!(manager("typescript").map(Manager::name), Some("npm"));
    }

    #[test]
    fn root_has_a_cache_that_others_can_enter_unless_it_chose_one() {
        let cache = |is_root, moved| default_cache_of(is_root, moved, Some("/c".into())).unwrap();
        assert_eq!(cache(true, false), Path::new("/var/cache/quarry/packages"));
        for (is_root, moved) in [(true, true), (false, false), (false, true)] {
            assert_eq!(cache(is_root, moved), Path::new("/c/quarry/packages"));
        }
        assert_eq!(default_cache_of(false, false, None), None);
    }

    #[test]
    fn package_names_are_recognized() {
        for (manager, name) in
            [("pip", "ruamel.yaml"), ("pip", "a_b-C2"), ("npm", "left-pad"), ("npm", "@s/name")]
        {
            assert!(is_name(manager, name), "{name}");
        }
        for name in
            ["tor ch", "-r x", "", "torch==2", "torch>2", "torch~2", "torch[x]", "./x", "a@1", "https://x/y"]
        {
            assert!(!is_name("pip", name) && !is_name("npm", name), "{name}");
        }
        assert!(!is_name("pip", "@s/name") && !is_name("cargo", "name"));
    }
}
