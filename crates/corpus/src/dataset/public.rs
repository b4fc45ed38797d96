//! Public data sets and their URLs. The table is `public.toml`; nothing here uses a network.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// A public data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicSet {
    /// Name on the command line.
    pub name: String,
    /// Description.
    pub about: String,
    /// Home page.
    pub home: String,
    /// Terms of use, as stated by its publishers.
    pub licence: String,
    /// Purpose according to the publishers: an evaluation set must not be used for training or tuning.
    #[serde(rename = "use")]
    pub purpose: String,
    /// Common prefix of the URLs of its files, up to a slash.
    pub base: String,
    /// Files; empty if they must be downloaded manually.
    pub files: Vec<PublicFile>,
}

/// One file of a public data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicFile {
    /// URL relative to the base of the set.
    pub url: String,
    /// File name, if it differs from that in the URL.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    renamed: Option<String>,
    /// Size in bytes, if known.
    pub size: Option<u64>,
    /// SHA-256 hash of its content in lower case, if known.
    pub sha256: Option<String>,
}

impl PublicFile {
    pub fn name(&self) -> &str {
        let last = || self.url.rsplit('/').next().unwrap_or_default();
        self.renamed.as_deref().unwrap_or_else(last)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    set: Vec<PublicSet>,
}

pub fn public_sets() -> &'static [PublicSet] {
    static SETS: LazyLock<Vec<PublicSet>> = LazyLock::new(|| {
        // A test parses it, so it cannot be invalid in a release.
        toml::from_str(include_str!("public.toml")).map_or_else(|_| Vec::new(), |table: Table| table.set)
    });
    &SETS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_is_whole() {
        let table: Table = toml::from_str(include_str!("public.toml")).unwrap();
        assert_eq!(table.set, public_sets());
        let mut names = HashSet::new();
        for set in public_sets() {
            assert!(names.insert(&set.name), "{}", set.name);
            assert!(set.base.starts_with("https://") && set.base.ends_with('/'), "{}", set.name);
            assert!(!set.licence.is_empty() && set.home.starts_with("https://"), "{}", set.name);
            let mut files = HashSet::new();
            for file in &set.files {
                assert!(files.insert(file.name()), "{}", file.url);
                assert!(
                    !file.name().is_empty()
                        && !file.name().contains(['/', '\\'])
                        && !file.name().starts_with('.')
                );
                let is_hash = |hash: &String| {
                    hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                };
                assert!(file.sha256.as_ref().is_none_or(is_hash), "{}", file.url);
            }
        }
    }
}
