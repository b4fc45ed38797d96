//! Tokens as a public tokenizer counts them: o200k_base, that of OpenAI's models since 2024. Other models split text
//! into about as many.

use bpe_openai::o200k_base;

/// The name of the tokenizer.
pub const TOKENIZER: &str = "o200k_base";

/// Number of tokens of a text.
#[must_use]
pub fn count_tokens(text: &str) -> usize {
    o200k_base().count(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_and_parts_of_words() {
        assert_eq!(count_tokens(""), 0);
        assert_eq!(count_tokens("hello world"), 2);
        assert_eq!(count_tokens("    return dial(host)\n"), 5);
    }

    #[test]
    fn no_text_takes_long() {
        for text in ["a".repeat(1 << 20), " ".repeat(1 << 20), "\u{0}\u{fffd}".repeat(1 << 18)] {
            assert!(count_tokens(&text) <= text.len());
        }
    }
}
