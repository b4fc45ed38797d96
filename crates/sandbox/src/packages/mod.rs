//! Packages that programs lack: fetched, installed and kept, and shown to runs as directories that they cannot change.
//!
//! Fetching is a run of its own. The package manager has the network and one empty directory to write to; it sees no
//! other file of the machine, and can start no other process, so that nothing a package brings with it runs, whatever
//! it asks for. What it fetched is then installed by a run that has no network. A set of packages is kept under a name
//! that stands for all that it depends on; it appears there whole or not at all, and is never fetched again.

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
pub use crate::elsewhere::{KeptPackages, Packages};
#[cfg(not(quarry_no_sandbox))]
pub use cache::KeptPackages;
#[cfg(not(quarry_no_sandbox))]
pub use fetch::Packages;

/// Sets that are fetched or installed at the same time.
pub const SETS_AT_ONCE: usize = 2;

/// Which packages may be installed, from where, and within which limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where packages are kept, for all programs that name this directory. It is of this machine, and not told to
    /// others.
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
    /// A directory with wheels. Then no network is needed.
    #[serde(rename = "Folder")]
    Directory(PathBuf),
}

/// Why packages cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// They cannot be installed, now or later.
    #[error("{reason}")]
    Refused {
        /// In words, for people and models.
        reason: String,
    },
    /// They could not be had this time.
    #[error(
        "packages cannot be fetched now: {detail}; the index must be reachable, and the disk have room: where there is \
         no network, {WITHOUT}"
    )]
    Failed {
        /// What the package manager said.
        detail: String,
    },
    /// The user stopped the run.
    #[error("stopped while packages were fetched")]
    Stopped,
    /// Nothing can be fetched here.
    #[error(transparent)]
    Sandbox(#[from] Error),
}

/// How to do without packages.
const WITHOUT: &str = "set `install = false` in `[packages]` of the plan";

/// Provides packages for programs.
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
    /// The directory, under the name that programs see it by, as in [`Program::read_only`].
    pub directory: Option<(String, PathBuf)>,
    /// The environment variable by which an interpreter finds it.
    pub variable: Option<(String, String)>,
}

impl Provided {
    /// Lets a program use these packages.
    pub fn add_to(&self, program: &mut Program) {
        program.read_only.extend(self.directory.clone());
        program.environment.extend(self.variable.clone());
    }
}

/// A package manager: how it is started, and what its output means.
trait Manager: Sync {
    /// The name of its command.
    fn name(&self) -> &'static str;
    /// How to install it.
    fn remedy(&self) -> String;
    /// Prints what installed packages depend on, beside their names.
    fn probe(&self) -> Program;
    /// The name of the package that a requirement is about, in the spelling that equal names share; `None` if it is
    /// an option, a path or an address.
    fn package(&self, requirement: &str) -> Option<String>;
    /// Fetches into [`OUTPUT_DIRECTORY`](crate::OUTPUT_DIRECTORY), where also its files are.
    fn fetch(&self, requirements: &[String], index: Option<&Index>) -> Program;
    /// The packages among the fetched files: name and version. `runtime` is what [`Manager::probe`] printed.
    ///
    /// # Errors
    /// When a file is not a package, or does not come from the index.
    fn list(
        &self,
        fetched: &Path,
        index: Option<&Index>,
        runtime: &str,
    ) -> Result<Vec<(String, String)>, String>;
    /// Installs what was fetched, where that is a step of its own, from `/opt/fetched`.
    fn install(&self, requirements: &[String]) -> Option<Program>;
    /// Which of the directories that were written holds the packages; the name and the environment variable by which
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

/// Whether there is a package manager of this name.
#[cfg(not(quarry_no_sandbox))]
fn is_manager(name: &str) -> bool {
    MANAGERS.iter().any(|(known, _)| known.name() == name)
}

/// Whether there is a package manager for a language.
pub fn is_supported(language: &str) -> bool {
    manager(language).is_some()
}

/// Whether this can be the name of a package of a package manager (`pip`, `npm`), without a version: lists of other
/// things would allow or deny nothing.
pub fn is_name(manager: &str, text: &str) -> bool {
    let names_one = |(known, _): &(&dyn Manager, _)| known.name() == manager && known.package(text).is_some();
    MANAGERS.iter().any(names_one) && !text.chars().skip(1).any(|c| "=<>~![@".contains(c))
}

/// Where packages are kept unless somebody says otherwise: in the user's cache directory, which `XDG_CACHE_HOME` moves.
/// Without that variable root's is `/var/cache`, as those who run programs for root cannot enter root's home directory;
/// that they can enter another is checked before it is used.
pub fn default_cache() -> Option<PathBuf> {
    let moved = std::env::var_os("XDG_CACHE_HOME").is_some_and(|path| Path::new(&path).is_absolute());
    default_cache_of(crate::system::is_root(), moved, dirs::cache_dir())
}

/// Like [`default_cache`]; `moved` says whether the user chose `cache`.
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
    fn names_of_packages_are_told_from_other_texts() {
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
