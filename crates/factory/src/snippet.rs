//! Classifying posted snippets: code of their language, or one of the kinds that CoSQA+ removed with Guesslang.
//!
//! Grammars decide instead of a model: text is code of a language if its grammar can parse it. Grammars recover from errors
//! and accept more than compilers do, and some fragments parse, so the first and last lines are also checked for signs of
//! a cut that most languages share.

use quarry_source::{Language, Limits, extract_within, language_named};

/// The kind of a snippet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnippetKind {
    /// Code of its language.
    Code,
    /// Code that is cut off, and where.
    Incomplete(Cut),
    /// Text that no grammar can parse: output, prose, data.
    Irrelevant,
    /// Code of another language.
    OtherLanguage,
    /// A session at a prompt, with input and output.
    Transcript,
}

/// Where code is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It begins within a statement or a function.
    Beginning,
    /// It ends within a statement or before the body of a block.
    End,
    /// It has brackets that are not closed or not opened.
    Brackets,
    /// It says that something was left out.
    Gap,
}

impl SnippetKind {
    /// The name in data cards.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Incomplete(Cut::Beginning) => "incomplete at the beginning",
            Self::Incomplete(Cut::End) => "incomplete at the end",
            Self::Incomplete(Cut::Brackets) => "incomplete, of brackets",
            Self::Incomplete(Cut::Gap) => "incomplete, with a gap",
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
    if let Some(cut) = cut(&lines) {
        return SnippetKind::Incomplete(cut);
    }
    let Some(first_error) = first_error(language, text) else { return SnippetKind::Code };
    let mut others = OTHER_LANGUAGES.iter().filter_map(|name| language_named(name));
    // A single line may be code in many languages.
    if lines.len() > 1
        && others.any(|other| other.family() != language.family() && self::first_error(other, text).is_none())
    {
        return SnippetKind::OtherLanguage;
    }
    let n_lines = u32::try_from(text.trim_end().lines().count()).unwrap_or(u32::MAX);
    if is_unbalanced(text) {
        return SnippetKind::Incomplete(Cut::Brackets);
    }
    if first_error >= n_lines {
        return SnippetKind::Incomplete(Cut::End);
    }
    SnippetKind::Irrelevant
}

/// Lines that stand for what was left out, without comment signs around them.
const GAPS: [&str; 8] =
    ["...", "…", "....", "[...]", "your code here", "more code", "rest of the code", "some code here"];

/// Words with which no statement begins that stands for itself: those of a block that began before, and of a function.
const CONTINUED: [&str; 10] =
    ["else", "elif", "elsif", "except", "finally", "catch", "return", "yield", "break", "continue"];

/// Ends of lines after which a statement goes on. A colon begins a block whose body comes below.
const OPEN_ENDS: [&str; 14] =
    ["(", "[", "{", ",", ":", "\\", "=", "+", "&&", "||", "->", "=>", " and", " or"];

/// Where lines that are not blank are cut off, by signs that do not depend on the language.
fn cut(lines: &[&str]) -> Option<Cut> {
    let is_comment =
        |line: &&&str| line.trim_start().starts_with(['#', '*']) || line.trim_start().starts_with("//");
    let (first, last) = (lines.first()?, lines.iter().rev().find(|line| !is_comment(line))?);
    let without_comment_signs = |line: &str| {
        line.trim().trim_start_matches(['#', '/', '*', '-', ' ', '<', '!']).trim().to_lowercase()
    };
    if lines.iter().any(|line| GAPS.contains(&without_comment_signs(line).trim_end_matches('*').trim())) {
        return Some(Cut::Gap);
    }
    let word: String = first.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let ends_a_block = first.trim_start().starts_with(['}', ')', ']']);
    // The lines of a block that began before end where one is less indented than the first.
    if ends_a_block
        || CONTINUED.contains(&word.as_str())
        || lines.iter().any(|line| indentation(line) < indentation(first))
    {
        return Some(Cut::Beginning);
    }
    let end = without_trailing_comment(last);
    OPEN_ENDS.iter().any(|open| end.ends_with(open)).then_some(Cut::End)
}

/// A line without a comment after its code. Signs of comments within texts do not matter at the end of a line.
fn without_trailing_comment(line: &str) -> &str {
    let code = [" #", " //"].iter().filter_map(|sign| line.find(sign)).min();
    line[..code.unwrap_or(line.len())].trim_end()
}

/// The 1-based line of the first syntax error.
fn first_error(language: Language, text: &str) -> Option<u32> {
    let extraction = extract_within(language, text.as_bytes(), &Limits::default());
    extraction.diagnostics.iter().map(|diagnostic| diagnostic.line).min()
}

/// Whether brackets of a kind are opened more or less often than closed.
fn is_unbalanced(text: &str) -> bool {
    let count = |bracket: char| text.matches(bracket).count();
    [('(', ')'), ('[', ']'), ('{', '}')].into_iter().any(|(open, close)| count(open) != count(close))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: SnippetKind) {
        assert_eq!(snippet_kind(language_named("python").unwrap(), text), expected, "{text}");
    }

    #[test]
    fn what_is_cut_off_is_incomplete_even_if_a_grammar_reads_it() {
        for text in
            ["def area(width, height):", "for name in names:\n", "x = [f(a) for a in b]\nif x:  # found\n"]
        {
            check(text, SnippetKind::Incomplete(Cut::End));
        }
        for text in [
            "return sorted(values)\n",
            "else:\n    x = 1\n",
            "    total += value\nprint(total)\n",
            "    ) + rest\n",
        ] {
            check(text, SnippetKind::Incomplete(Cut::Beginning));
        }
        for text in
            ["x = 1\n...\ny = 2\n", "def f(a):\n    # ...\n    return a\n", "x = 1\n# your code here\n"]
        {
            check(text, SnippetKind::Incomplete(Cut::Gap));
        }
        // Whole: an indented block, a call over several lines, and signs within texts.
        for text in [
            "    x = 1\n    y = 2\n",
            "f(\n    a,\n    b,\n)\n",
            "print('a:')\n",
            "x = 'a # b'\n# note:\n",
            "def f(a):\n    return a  # the end:\n",
        ] {
            check(text, SnippetKind::Code);
        }
        let java = language_named("java").unwrap();
        assert_eq!(snippet_kind(java, "if (a > 0) {\n  b();\n"), SnippetKind::Incomplete(Cut::Brackets));
        assert_eq!(snippet_kind(java, "if (a > 0) {"), SnippetKind::Incomplete(Cut::End));
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
        check("def f(a):\n    return g(a,\n", SnippetKind::Incomplete(Cut::End));
        check("def f(a):\n    if a:\n....\n    x = = 1\n", SnippetKind::Incomplete(Cut::Gap));
        check("x = f(a]\ny = 1\nz = 2", SnippetKind::Incomplete(Cut::Brackets));
        check("Name    Age\nBob B.  12 years\nthe end of it ?\n", SnippetKind::Irrelevant);
    }
}
