//! Classification of posted snippets: code of their language, or one of the kinds that CoSQA+ removed with
//! Guesslang.
//!
//! Grammars decide instead of a model: text is code of a language if its grammar can parse it. Grammars recover
//! from errors and accept more than compilers do, and some fragments parse, so the first and last lines are also
//! checked for signs of truncation that most languages share.

use quarry_source::{Language, Limits, extract_within, language_named};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnippetKind {
    Code,
    /// Truncated code, and the kind of truncation.
    Incomplete(Cut),
    /// Text that no grammar can parse: output, prose, data.
    Irrelevant,
    /// Code of another language.
    OtherLanguage,
    /// An interactive session with prompts, input and output.
    Transcript,
}

/// Incomplete part of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It begins within a statement or a function.
    Beginning,
    /// It ends within a statement or before the body of a block.
    End,
    Brackets,
    /// It contains a placeholder for omitted code.
    Gap,
    /// It only uses objects that it does not create.
    Object,
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
            Self::Incomplete(Cut::Object) => "incomplete, of an unknown object",
            Self::Irrelevant => "irrelevant",
            Self::OtherLanguage => "in another language",
            Self::Transcript => "a transcript",
        }
    }
}

/// Languages whose grammars reject most other texts. The grammars of shells and Ruby parse prose as calls.
const OTHER_LANGUAGES: [&str; 9] =
    ["python", "javascript", "java", "c", "cpp", "csharp", "go", "rust", "typescript"];

/// Prefixes of lines after a prompt.
const PROMPTS: [&str; 9] = [">>> ", "$ ", "In [", "Out[", "irb(", "mysql> ", "sqlite> ", "C:\\", "scala> "];

pub(crate) fn snippet_kind(language: Language, text: &str) -> SnippetKind {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let is_prompt = |line: &&&str| PROMPTS.iter().any(|prompt| line.trim_start().starts_with(prompt));
    let n_prompts = lines.iter().filter(is_prompt).count();
    if n_prompts * 3 >= lines.len().max(1) || text.contains("Traceback (most recent call last)") {
        return SnippetKind::Transcript;
    }
    let first_error = first_error(language, text);
    if first_error.is_some() && is_prose(&lines) {
        return SnippetKind::Irrelevant;
    }
    if let Some(cut) = cut(&lines) {
        return SnippetKind::Incomplete(cut);
    }
    let Some(first_error) = first_error else {
        return match uses_undefined_objects(&lines) {
            true => SnippetKind::Incomplete(Cut::Object),
            false => SnippetKind::Code,
        };
    };
    let mut others = OTHER_LANGUAGES.iter().filter_map(|name| language_named(name));
    // A single line can be valid in many languages.
    if lines.len() > 1
        && others.any(|other| other.family() != language.family() && self::first_error(other, text).is_none())
    {
        return SnippetKind::OtherLanguage;
    }
    let n_lines = u32::try_from(text.trim_end().lines().count()).unwrap_or(u32::MAX);
    if is_unbalanced(text) {
        return SnippetKind::Incomplete(Cut::Brackets);
    }
    // If there is only a single line, the error concerns all of it.
    if n_lines > 1 && first_error >= n_lines {
        return SnippetKind::Incomplete(Cut::End);
    }
    SnippetKind::Irrelevant
}

/// Placeholder lines for omitted code, without comment signs around them.
const GAPS: [&str; 8] =
    ["...", "…", "....", "[...]", "your code here", "more code", "rest of the code", "some code here"];

/// Words that cannot begin a standalone statement: those that continue an earlier block, or belong in a function.
const CONTINUED: [&str; 10] =
    ["else", "elif", "elsif", "except", "finally", "catch", "return", "yield", "break", "continue"];

/// Ends of lines after which a statement continues. After a colon, the body of a block follows.
const OPEN_ENDS: [&str; 14] =
    ["(", "[", "{", ",", ":", "\\", "=", "+", "&&", "||", "->", "=>", " and", " or"];

/// Incomplete part of nonblank lines, by signs that do not depend on the language.
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
    // Code that begins within a block ends the block on a line that is less indented than the first one.
    if ends_a_block
        || CONTINUED.contains(&word.as_str())
        || lines.iter().any(|line| indentation(line) < indentation(first))
    {
        return Some(Cut::Beginning);
    }
    let end = without_trailing_comment(last);
    OPEN_ENDS.iter().any(|open| end.ends_with(open)).then_some(Cut::End)
}

/// Well-known modules and objects.
const KNOWN_NAMES: &[&str] = &[
    "np",
    "numpy",
    "pd",
    "pandas",
    "plt",
    "sns",
    "tf",
    "torch",
    "scipy",
    "sp",
    "nltk",
    "sklearn",
    "requests",
    "os",
    "sys",
    "re",
    "json",
    "csv",
    "math",
    "cmath",
    "random",
    "time",
    "datetime",
    "date",
    "timedelta",
    "calendar",
    "string",
    "itertools",
    "collections",
    "functools",
    "operator",
    "subprocess",
    "socket",
    "threading",
    "logging",
    "shutil",
    "glob",
    "pickle",
    "copy",
    "struct",
    "hashlib",
    "base64",
    "urllib",
    "urllib2",
    "zipfile",
    "decimal",
    "io",
    "str",
    "dict",
    "list",
    "int",
    "Math",
    "JSON",
    "Object",
    "Array",
    "console",
    "document",
    "window",
    "Arrays",
    "Collections",
    "String",
    "System",
    "fmt",
    "strings",
    "std",
    "self",
];

/// Returns true if each line reads or calls a member of an object that the snippet does not create, or uses values
/// that earlier lines took from one. A call of `soup.find_all`, or a plot of two slices, is incomplete without the
/// rest.
fn uses_undefined_objects(lines: &[&str]) -> bool {
    let is_sign = |c: char| !c.is_alphanumeric() && c != '_';
    let mut taken: Vec<&str> = Vec::new();
    for line in lines {
        let line = without_trailing_comment(line.trim());
        let (target, value) = line.split_once(" = ").unwrap_or(("", line));
        let (head, rest) = value.trim().split_at(value.trim().find(is_sign).unwrap_or(value.trim().len()));
        let is_name = head.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_access = rest.starts_with(['[', '.']);
        let is_unknown = is_name && is_access && !KNOWN_NAMES.contains(&head);
        let uses_taken = || rest.split(is_sign).any(|word| taken.contains(&word));
        if !(is_unknown || is_name && rest.starts_with(['.', '(']) && uses_taken()) {
            return false;
        }
        if !target.is_empty() {
            taken.extend(target.split(',').map(str::trim));
        }
    }
    !lines.is_empty()
}

/// A line without a trailing comment. Comment signs within strings do not matter at the end of a line.
fn without_trailing_comment(line: &str) -> &str {
    let code = [" #", " //"].iter().filter_map(|sign| line.find(sign)).min();
    line[..code.unwrap_or(line.len())].trim_end()
}

/// Returns true if lines are prose: words with hardly any signs of code among them.
fn is_prose(lines: &[&str]) -> bool {
    const WORDS: usize = 5;
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    let is_word = |word: &&&str| {
        let word = word.trim_matches(|c: char| ".,;:?!\"…".contains(c));
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '-' || c == '\'')
    };
    words.len() >= WORDS && words.iter().filter(is_word).count() * 5 >= words.len() * 4
}

/// The 1-based line of the first syntax error.
fn first_error(language: Language, text: &str) -> Option<u32> {
    let extraction = extract_within(language, text.as_bytes(), &Limits::default());
    extraction.diagnostics.iter().map(|diagnostic| diagnostic.line).min()
}

/// Returns whether brackets of a kind are opened more or less often than closed.
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
    fn truncated_code_is_incomplete_even_if_it_parses() {
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
        // Complete code: an indented block, a call over several lines, and signs within strings.
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
    fn snippets_are_distinguished() {
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
        // As in CoSQA+'s figure of removed codes.
        for text in
            ["soup.find_all('a', {'class': 'title'})", "x = data[:, 0]\ny = data[:, 1]\nplt.plot(x, y)"]
        {
            check(text, SnippetKind::Incomplete(Cut::Object));
        }
        for text in [
            "sorted(values, key=len)",
            "np.array([1, 2]).mean()",
            "import numpy as np\nx = data[0]",
            "words = text.split()\nprint(len('a b'))",
            "value = 1.5",
            "[x.name for x in items]",
        ] {
            check(text, SnippetKind::Code);
        }
        check("Age plus 2 Height subtract 32 times half of 1.5", SnippetKind::Irrelevant);
        check("Width plus height subtract the border times half of the scale…", SnippetKind::Irrelevant);
        check("Width plus height, then take half of the sum:", SnippetKind::Irrelevant);
        check("Name    Age\nBob B.  12 years\nthe end of it ?\n", SnippetKind::Irrelevant);
    }
}
