//! Classifying posted snippets: code of their language, or one of the kinds that CoSQA+ removed with Guesslang.
//!
//! Here grammars decide instead of a model: text is code of a language if its grammar can parse it.

use quarry_source::{Language, Limits, extract_within, language_named};

/// The kind of a snippet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnippetKind {
    /// Code of its language.
    Code,
    /// Truncated code, or code with omissions.
    Incomplete,
    /// Text that no grammar can parse: output, prose, data.
    Irrelevant,
    /// Code of another language.
    OtherLanguage,
    /// A session at a prompt, with input and output.
    Transcript,
}

impl SnippetKind {
    /// The name in data cards.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Incomplete => "incomplete",
            Self::Irrelevant => "irrelevant",
            Self::OtherLanguage => "in another language",
            Self::Transcript => "a transcript",
        }
    }
}

/// Languages whose grammars reject most other texts. Those of shells and Ruby parse prose as calls.
const OTHER_LANGUAGES: [&str; 9] =
    ["python", "javascript", "java", "c", "cpp", "csharp", "go", "rust", "typescript"];

/// Prefixes of lines after a prompt.
const PROMPTS: [&str; 9] = [">>> ", "$ ", "In [", "Out[", "irb(", "mysql> ", "sqlite> ", "C:\\", "scala> "];

/// The kind of a snippet that is supposed to be in a language.
pub(crate) fn snippet_kind(language: Language, text: &str) -> SnippetKind {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_prompt = |line: &&&str| PROMPTS.iter().any(|prompt| line.trim_start().starts_with(prompt));
    let n_prompts = lines.iter().filter(is_prompt).count();
    if n_prompts * 3 >= lines.len().max(1) || text.contains("Traceback (most recent call last)") {
        return SnippetKind::Transcript;
    }
    let Some(first_error) = first_error(language, text) else { return SnippetKind::Code };
    let mut others = OTHER_LANGUAGES.iter().filter_map(|name| language_named(name));
    // A single line may be code in many languages.
    if lines.len() > 1
        && others.any(|other| other.family() != language.family() && self::first_error(other, text).is_none())
    {
        return SnippetKind::OtherLanguage;
    }
    let is_gap = |line: &&str| matches!(line.trim(), "..." | "…" | "# ..." | "// ..." | "....");
    let n_lines = u32::try_from(text.trim_end().lines().count()).unwrap_or(u32::MAX);
    if lines.iter().any(is_gap) || opened(text) != 0 || first_error >= n_lines {
        return SnippetKind::Incomplete;
    }
    SnippetKind::Irrelevant
}

/// The 1-based line of the first syntax error.
fn first_error(language: Language, text: &str) -> Option<u32> {
    let extraction = extract_within(language, text.as_bytes(), &Limits::default());
    extraction.diagnostics.iter().map(|diagnostic| diagnostic.line).min()
}

/// The number of opening brackets minus that of closing brackets.
fn opened(text: &str) -> i64 {
    text.chars()
        .map(|c| match c {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: SnippetKind) {
        assert_eq!(snippet_kind(language_named("python").unwrap(), text), expected, "{text}");
    }

    #[test]
    fn snippets_are_told_apart() {
        check("for x in xs:\n    print(x)\n", SnippetKind::Code);
        check("x = 1", SnippetKind::Code);
        check(">>> x = 1\n>>> x\n1\n", SnippetKind::Transcript);
        check("$ pip install x\nCollecting x\n", SnippetKind::Transcript);
        check("Traceback (most recent call last):\n  File \"a.py\", line 1\n", SnippetKind::Transcript);
        check("public class A {\n  int f(int a) { return a; }\n}\n", SnippetKind::OtherLanguage);
        check("func f(a int) int {\n\treturn a\n}\n", SnippetKind::OtherLanguage);
        check("def f(a):\n    return g(a,\n", SnippetKind::Incomplete);
        check("def f(a):\n    if a:\n....\n    x = = 1\n", SnippetKind::Incomplete);
        check("Name    Age\nBob B.  12 years\nthe end of it ?\n", SnippetKind::Irrelevant);
    }
}
