/// English words that do not describe what a function does, in alphabetical order.
const STOP_WORDS: &[&str] = &[
    "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by", "can",
    "could", "did", "do", "does", "doing", "for", "from", "had", "has", "have", "having", "how", "i", "if",
    "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "our", "s", "should", "so", "some",
    "such", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "to", "us", "was", "way", "we", "were", "what", "when", "where", "which", "while", "who", "whom",
    "whose", "why", "will", "with", "would", "you", "your",
];

/// Returns whether a word of a query does not describe what a function does (`how`, `to`, `the`); case does not matter.
pub fn is_stop_word(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    STOP_WORDS.binary_search(&lower.as_str()).is_ok()
}

/// Names of programming languages that are not English words, in alphabetical order.
const LANGUAGE_NAMES: &[&str] = &[
    "cpp",
    "csharp",
    "golang",
    "java",
    "javascript",
    "js",
    "kotlin",
    "lua",
    "perl",
    "php",
    "python",
    "python2",
    "python3",
    "ruby",
    "scala",
    "typescript",
];

/// Returns whether a word of a query names a programming language and nothing else; case does not matter.
pub fn is_language_name(word: &str) -> bool {
    LANGUAGE_NAMES.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        assert!(STOP_WORDS.is_sorted() && LANGUAGE_NAMES.is_sorted());
    }

    #[test]
    fn knows_function_words_in_any_case() {
        assert!(is_stop_word("The") && is_stop_word("how"));
        assert!(!is_stop_word("sort") && !is_stop_word(""));
    }
}
