//! `[packages]` of a plan.

use std::path::{Path, PathBuf};
use std::time::Duration;

use quarry_sandbox::packages::{self, Index, Rules, Settings};
use serde::Deserialize;
use serde_json::json;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PackagesPlan {
    install: bool,
    /// Directory to keep them in; in the user's cache directory by default.
    cache: Option<PathBuf>,
    /// Time limit for fetching a set of packages, and for installing it.
    wall_seconds: f64,
    /// Maximum size of a set of packages, in MiB.
    mib: u64,
    pip: RulesPlan,
    npm: RulesPlan,
}

impl Default for PackagesPlan {
    fn default() -> Self {
        let [pip, npm] = Default::default();
        Self { install: true, cache: None, wall_seconds: 300.0, mib: 1024, pip, npm }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RulesPlan {
    /// Address of an index, or a directory of wheels.
    index: Option<String>,
    /// All packages that may be installed, dependencies included; any if `None`.
    allow: Option<Vec<String>>,
    deny: Vec<String>,
}

impl PackagesPlan {
    /// The settings for packages, if they are installed. Paths are relative to `directory`.
    ///
    /// # Errors
    /// The invalid entry, and what was expected.
    pub(super) fn settings(self, directory: &Path) -> Result<Option<Settings>, String> {
        if !self.install {
            return Ok(None);
        }
        let fits = self.wall_seconds > 0.0 && self.wall_seconds <= 3600.0;
        if !fits {
            return Err(format!(
                "`packages.wall_seconds` is {}; expected more than 0 and at most 3600 seconds",
                self.wall_seconds
            ));
        }
        if !(1..=1 << 20).contains(&self.mib) {
            return Err(format!("`packages.mib` is {}; expected 1 to {}", self.mib, 1 << 20));
        }
        if self.npm.index.as_ref().is_some_and(|index| !index.contains("://")) {
            return Err("`packages.npm.index` is a directory; expected the address of a registry".to_owned());
        }
        let cache = match self.cache {
            Some(cache) => quarry_files::output(directory, &cache)?,
            None => packages::default_cache().ok_or(
                "there is no directory for packages, since this user has no home directory; set `packages.cache`, or \
                 `packages.install = false`",
            )?,
        };
        Ok(Some(Settings {
            cache,
            wall_time: Duration::from_secs_f64(self.wall_seconds),
            bytes: self.mib << 20,
            pip: self.pip.rules("pip", directory)?,
            npm: self.npm.rules("npm", directory)?,
        }))
    }
}

impl RulesPlan {
    fn rules(self, name: &str, directory: &Path) -> Result<Rules, String> {
        let index = match self.index {
            // The plan's text is stored in the ledger.
            Some(index) if index.contains("://") && index.contains('@') => {
                return Err(format!(
                    "`packages.{name}.index` contains a name or password; expected an address that needs none, or a \
                     directory of wheels"
                ));
            }
            Some(index) if index.contains("://") => Some(Index::Address(index)),
            index => index.map(|index| Index::Directory(directory.join(index))),
        };
        for (list, names) in [("allow", self.allow.as_ref()), ("deny", Some(&self.deny))] {
            if let Some(odd) = names.into_iter().flatten().find(|text| !packages::is_name(name, text)) {
                return Err(format!(
                    "`packages.{name}.{list}` has {odd:?}; expected names of packages, without versions"
                ));
            }
        }
        Ok(Rules { index, allow: self.allow, deny: self.deny })
    }
}

/// The settings that may change a label, independent of where the plan is read.
pub(super) fn label_inputs(settings: &Settings, directory: &Path) -> String {
    let rules = |Rules { index, allow, deny }: &Rules| {
        let index = index.as_ref().map(|index| match index {
            Index::Address(address) => address.clone(),
            Index::Directory(path) => path.strip_prefix(directory).unwrap_or(path).display().to_string(),
        });
        json!({"index": index, "allow": allow, "deny": deny})
    };
    let Settings { wall_time, bytes, pip, npm, .. } = settings;
    json!({"wall_seconds": wall_time.as_secs_f64(), "bytes": bytes, "pip": rules(pip), "npm": rules(npm)})
        .to_string()
}
