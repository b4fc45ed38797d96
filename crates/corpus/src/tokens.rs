//! The tokens of a code, as CodeSearchNet publishes them, for codes that come without.

use quarry_source::{data_flow, language_called, language_of_function};

/// The tokens of a function joined by spaces, without comments and docstrings; its language is recognized if it is not
/// known. `None` where the language has no rules for it, or nothing is recognized. A token of several lines is on one;
/// CodeSearchNet keeps its line breaks.
pub fn code_tokens(code: &str, language: Option<&str>) -> Option<String> {
    let language = language.and_then(language_called).or_else(|| language_of_function(code))?;
    data_flow(language, code).map(|flow| flow.tokens.join(" ")).filter(|tokens| !tokens.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_no_documentation() {
        let code = "def f(a):\n    \"\"\"Add one.\"\"\"\n    # One.\n    return a + 1\n";
        let tokens = "def f ( a ) : return a + 1";
        assert_eq!(code_tokens(code, Some("python")).as_deref(), Some(tokens));
        assert_eq!(code_tokens(code, None).as_deref(), Some(tokens));
        assert_eq!(code_tokens("no code at all", None), None);
    }
}
