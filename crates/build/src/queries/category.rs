//! The categories of comments and their code: kinds of analysis.

use std::sync::LazyLock;

use serde::Deserialize;

/// The categories as text, for the keys of steps.
pub(crate) const RULES_TEXT: &str = include_str!("categories.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CategoryFile {
    category: Vec<Category>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Category {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) examples: Vec<Example>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Example {
    pub(crate) comment: String,
    pub(crate) code: String,
}

/// The categories; the last one stands for none of the others. A test parses them.
pub(crate) static CATEGORIES: LazyLock<Vec<Category>> = LazyLock::new(|| {
    toml::from_str(RULES_TEXT).map_or_else(|_| Vec::new(), |CategoryFile { category }| category)
});

pub(crate) fn max_examples() -> usize {
    CATEGORIES.iter().map(|category| category.examples.len()).min().unwrap_or(0)
}

/// The name of the category with a grade: its number from 1, or 0 for none.
pub(crate) fn named(grade: u8) -> &'static str {
    let number = usize::from(grade).checked_sub(1).unwrap_or(CATEGORIES.len().saturating_sub(1));
    CATEGORIES.get(number).map_or("", |category| &category.name)
}
