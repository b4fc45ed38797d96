//! Filters in Milvus's syntax.

use crate::Narrowing;

impl Narrowing {
    /// Conditions that all units must meet.
    pub(super) fn filter(&self) -> Vec<String> {
        let mut conditions = Vec::new();
        if !self.trees.is_empty() {
            conditions.push(is_in("tree", &self.trees));
        }
        if !self.languages.is_empty() {
            let languages = is_in("language", &self.languages);
            let extensions = self
                .extensions
                .iter()
                .map(|extension| format!(" or path like {}", quoted(&format!("%{extension}"))));
            conditions.push(format!("({languages}{})", extensions.collect::<String>()));
        }
        if !self.kinds.is_empty() {
            conditions.push(is_in("kind", &self.kinds));
        }
        if !self.directory.is_empty() {
            // Characters that mean any in a pattern let more pass.
            conditions.push(format!("path like {}", quoted(&format!("{}%", self.directory))));
        }
        conditions
    }
}

/// A filter for rows with one of some values.
pub(super) fn is_in(column: &str, values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    format!("{column} in [{}]", values.join(", "))
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_translated() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let narrowing = Narrowing {
            trees: texts(&["shop", "lib"]),
            languages: texts(&["c"]),
            extensions: texts(&[".h"]),
            kinds: texts(&["function"]),
            directory: "src/a \"b\"/".to_owned(),
        };
        assert_eq!(
            narrowing.filter().join(" and "),
            "tree in [\"shop\", \"lib\"] and (language in [\"c\"] or path like \"%.h\") and kind in [\"function\"] and \
             path like \"src/a \\\"b\\\"/%\""
        );
        assert!(Narrowing::default().filter().is_empty());
    }
}
