//! Filters for code, from the papers, as functions of a record.

use quarry_source::language_named;
use quarry_text::identifiers;

use crate::queries::english::is_english;
use crate::record::{CodeKind, CodeRecord};
use crate::sources::snippet::{SnippetKind, snippet_kind};

#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// Its name in plans.
    pub name: &'static str,
    pub about: &'static str,
    keeps: fn(&CodeRecord) -> bool,
}

static FILTERS: &[Filter] = &[
    Filter {
        name: "documented",
        about: "code with documentation",
        keeps: |record| !record.documentation.trim().is_empty(),
    },
    Filter {
        name: "codesearchnet",
        about: "CodeSearchNet: documentation of 3 words or more, code of 3 lines or more, no tests, no constructors and \
                standard methods",
        keeps: |record| {
            words(&record.documentation) >= 3
                && record.code.lines().filter(|line| !line.trim().is_empty()).count() >= 3
                && !base_name(record).to_lowercase().contains("test")
                && !is_standard(record)
        },
    },
    Filter {
        name: "advtest",
        about: "AdvTest: code that can be parsed, documentation of 3 to 256 words without markup",
        keeps: |record| {
            !record.has_syntax_errors
                && (3..=256).contains(&words(&record.documentation))
                && !has_special_tokens(&record.documentation)
        },
    },
    Filter {
        name: "cosqa",
        about: "CoSQA: documentation in English, without HTML images and addresses",
        keeps: |record| {
            !record.documentation.trim().is_empty()
                && !has_special_tokens(&record.documentation)
                && is_english(&record.documentation)
        },
    },
    Filter {
        name: "cosqa-plus",
        about: "CoSQA+: at least one parameter, and a returned value; code whose signature cannot be parsed is removed",
        keeps: |record| {
            record.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty())
                && record.returns_value == Some(true)
        },
    },
    Filter {
        name: "english",
        about: "code whose documentation, if any, is in English",
        keeps: |record| is_english(&record.documentation),
    },
    Filter {
        name: SNIPPETS,
        about: "CoSQA+: snippets that are code in their language, complete, and neither transcripts nor output",
        keeps: |record| kind_of_snippet(record).is_none_or(|kind| kind == SnippetKind::Code),
    },
];

/// The filter whose removed snippets are broken down by kind on the card.
pub(crate) const SNIPPETS: &str = "snippets";

/// The kind of a snippet; `None` for other code.
pub(crate) fn kind_of_snippet(record: &CodeRecord) -> Option<SnippetKind> {
    let language = language_named(&record.language)?;
    (record.kind == CodeKind::Snippet).then(|| snippet_kind(language, record.text()))
}

/// The names of the filters in plans, with what they keep.
pub fn filters() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILTERS.iter().map(|filter| (filter.name, filter.about))
}

impl Filter {
    pub fn named(name: &str) -> Option<&'static Self> {
        FILTERS.iter().find(|filter| filter.name == name)
    }

    pub fn keeps(&self, record: &CodeRecord) -> bool {
        (self.keeps)(record)
    }
}

fn words(text: &str) -> usize {
    identifiers(text).count()
}

fn base_name(record: &CodeRecord) -> &str {
    record.name.rsplit('.').next().unwrap_or_default()
}

/// Methods that most types have and users do not search for.
const STANDARD_METHODS: [&str; 14] = [
    "clone",
    "compareTo",
    "constructor",
    "equals",
    "finalize",
    "hashCode",
    "initialize",
    "inspect",
    "new",
    "toString",
    "to_s",
    "fmt",
    "drop",
    "Equals",
];

/// Returns whether it is a constructor or a standard method: `__init__`, `toString`, a method named like its type.
fn is_standard(record: &CodeRecord) -> bool {
    let mut parts = record.name.rsplit('.');
    let (name, owner) = (parts.next().unwrap_or_default(), parts.next());
    let is_special =
        name.len() > 4 && name.starts_with("__") && name.ends_with("__") || name == "__construct";
    is_special || owner.is_some() && STANDARD_METHODS.contains(&name) || owner == Some(name)
}

/// Returns whether a documentation contains HTML images, links or URLs.
fn has_special_tokens(documentation: &str) -> bool {
    let text = documentation.to_lowercase();
    ["<img", "<a ", "http://", "https://", "ftp://", "www."].iter().any(|token| text.contains(token))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quarry_source::{SourceText, language_named};

    use super::*;
    use crate::sources::function::{Origin, extract_records};

    /// Checks that exactly the filters in `kept` keep the first function of a text.
    #[track_caller]
    fn check(language: &str, text: &str, kept: &[&str]) {
        let source = SourceText::read(Path::new("a"), text.as_bytes().to_vec()).unwrap();
        let records = extract_records(&Origin::default(), language_named(language).unwrap(), &source);
        let found: Vec<&str> =
            FILTERS.iter().filter(|filter| filter.keeps(&records[0])).map(|filter| filter.name).collect();
        assert_eq!(found, kept, "{text}");
    }

    #[test]
    fn each_filter_keeps_what_its_paper_keeps() {
        let all = ["documented", "codesearchnet", "advtest", "cosqa", "cosqa-plus"];
        // Both keep all English functions.
        let check = |language: &str, text: &str, kept: &[&str]| {
            check(language, text, &[kept, &["english", "snippets"]].concat());
        };
        check("python", "def f(a):\n    \"\"\"Do a thing.\"\"\"\n    b = a\n    return b\n", &all);
        check("python", "def f(a):\n    b = a\n    return b\n", &["cosqa-plus"]);
        // Two words; two lines.
        check(
            "python",
            "def f(a):\n    \"\"\"Do it.\"\"\"\n    b = a\n    return b\n",
            &["documented", "cosqa", "cosqa-plus"],
        );
        check(
            "python",
            "def f(a):\n    \"\"\"Do a thing.\"\"\"\n    return a\n",
            &["documented", "advtest", "cosqa", "cosqa-plus"],
        );
        check(
            "python",
            "def test_f(a):\n    \"\"\"Do a thing, see https://a.b.\"\"\"\n    b = a\n    return b\n",
            &["documented", "cosqa-plus"],
        );
        check(
            "python",
            "class A:\n    def __len__(self):\n        \"\"\"Do a thing.\"\"\"\n        b = 1\n        return b\n",
            &["documented", "advtest", "cosqa"],
        );
        check(
            "java",
            "class A {\n /** Makes a thing. */\n A(int a) {\n  b = a;\n  c = a;\n }\n}\n",
            &["documented", "advtest", "cosqa"],
        );
        // A return value of a nested function is not its own.
        check(
            "python",
            "def f(a):\n    \"\"\"Do a thing.\"\"\"\n    def g():\n        return a\n    g()\n",
            &["documented", "codesearchnet", "advtest", "cosqa"],
        );
    }
}
