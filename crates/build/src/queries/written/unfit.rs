//! Why an answer of the model is not a query.

use std::sync::LazyLock;

use quarry_text::needs_escape;
use serde::Deserialize;

use crate::queries::found::Excluded;

/// The limits as text, for the keys of steps.
pub(super) const LIMITS_TEXT: &str = include_str!("../written.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLimits {
    most_words: usize,
    most_characters: usize,
}

static LIMITS: LazyLock<WrittenLimits> = LazyLock::new(|| {
    toml::from_str(LIMITS_TEXT).unwrap_or(WrittenLimits { most_words: 0, most_characters: 0 })
});

/// Why a query that was written for the function of this name is removed; `None` if it is kept.
pub(super) fn unfit(query: &str, name: &str) -> Option<Excluded> {
    let WrittenLimits { most_words, most_characters } = *LIMITS;
    let (n_words, n_characters) = (query.split_whitespace().count(), query.chars().count());
    let (filter, rule) = if n_words == 0 {
        ("empty queries", "contains no word".to_owned())
    } else if n_words > most_words || n_characters > most_characters {
        let found = format!("{n_words} words, {n_characters} characters");
        ("length", format!("{found}; expected at most {most_words} and {most_characters}"))
    } else if let Some(odd) = query.chars().find(|c| needs_escape(*c) && !c.is_whitespace()) {
        ("control characters", format!("contains U+{:04X}", u32::from(odd)))
    } else if names(query, name) {
        ("names of functions", format!("names {name}"))
    } else {
        return None;
    };
    let text = query.chars().take(most_characters).collect();
    Some(Excluded { text, filter: filter.to_owned(), rule })
}

/// Returns whether a query is the name of the function, or holds it. A name that is one common word may occur in a
/// sentence.
fn names(query: &str, name: &str) -> bool {
    let own = name.rsplit(['.', ':', '#']).next().unwrap_or_default().trim_end_matches(['?', '!', '=']);
    let is_word = own.chars().skip(1).all(char::is_lowercase) && own.starts_with(char::is_alphabetic);
    let words = query.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let own = own.to_lowercase();
    let is_own = |word: &&str| word.to_lowercase() == own;
    !own.is_empty() && words.iter().any(is_own) && (!is_word || words.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_short_texts_without_the_name() {
        let filter = |query: &str, name: &str| unfit(query, name).map(|excluded| excluded.filter);
        for (query, name) in [
            ("how to clean a text", "clean"),
            ("strip all spaces\tof a text", "strip_all"),
            ("Größe der Datei", "Files.size"),
            ("is the list empty?", "List.empty?"),
            ("add", "sum"),
        ] {
            assert_eq!(filter(query, name), None, "{query}");
        }
        for (query, name, expected) in [
            (" \n", "f", "empty queries"),
            (&*"word ".repeat(41), "f", "length"),
            (&*"x".repeat(2_200_000), "f", "length"),
            ("a\u{1b}[2J text", "f", "control characters"),
            ("a \u{202e}text", "f", "control characters"),
            ("a \u{200f}text", "f", "control characters"),
            ("clean()", "Text.clean", "names of functions"),
            ("what does strip_all do", "strip_all", "names of functions"),
            ("call ParseHTTPHeader", "parseHttpHeader", "names of functions"),
            ("use `Cart.total2`", "Cart.total2", "names of functions"),
            ("__init__ of a cart", "Cart.__init__", "names of functions"),
        ] {
            assert_eq!(filter(query, name).as_deref(), Some(expected), "{}", &query[..query.len().min(40)]);
        }
        let excluded = unfit(&"x".repeat(2_200_000), "f").unwrap();
        assert_eq!(excluded.text.len(), 300);
        assert_eq!(excluded.rule, "1 words, 2200000 characters; expected at most 40 and 300");
    }

    #[test]
    fn limits_are_data() {
        toml::from_str::<WrittenLimits>(LIMITS_TEXT).unwrap();
    }
}
