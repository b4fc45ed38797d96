//! The styles in which a model writes queries.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StyleRules {
    pub(crate) wording: String,
}

/// By name.
pub(crate) static STYLES: LazyLock<BTreeMap<String, StyleRules>> =
    LazyLock::new(|| toml::from_str(include_str!("styles.toml")).unwrap_or_default());

/// Names of the styles in which queries can be written.
pub(crate) fn styles() -> Vec<&'static str> {
    STYLES.keys().map(String::as_str).collect()
}
