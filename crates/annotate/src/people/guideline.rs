//! Guidelines: instructions for people and the meanings of their labels, as files.

use std::fs;
use std::path::Path;

use quarry_corpus::toml_file::{self, Mistake};
use quarry_text::did_you_mean_or_all;
use serde::{Deserialize, Serialize};

use crate::answer::is_same;
use crate::digest::digest;
use crate::error::AnnotateError;
use crate::ledger::GeneratedStatus;

/// The built-in guidelines by name.
const BUILT_IN: [(&str, &str); 8] = [
    ("cosqa", include_str!("../../guidelines/cosqa.toml")),
    ("cosqa-plus", include_str!("../../guidelines/cosqa-plus.toml")),
    ("cosqa-plus-half", include_str!("../../guidelines/cosqa-plus-half.toml")),
    ("generated", include_str!("../../guidelines/generated.toml")),
    ("preference", include_str!("../../guidelines/preference.toml")),
    ("query4code", include_str!("../../guidelines/query4code.toml")),
    ("relevance", include_str!("../../guidelines/relevance.toml")),
    ("results", include_str!("../../guidelines/results.toml")),
];

/// How to fill in a form, for any guideline.
const COLUMNS: &str = include_str!("../../guidelines/columns.md");

/// Instructions for writing test programs.
const TEST_PROGRAMS: &str = include_str!("../../guidelines/test-programs.md");

/// Instructions and labels for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Guideline {
    /// The name of its file, without extension.
    pub name: String,
    /// Hash of its whole text.
    pub version: String,
    /// The text of the file.
    pub text: String,
    content: GuidelineFile,
}

/// A guideline's file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuidelineFile {
    asks: ItemKind,
    about: String,
    text: String,
    values: Vec<Value>,
}

/// The kind of a form's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    /// A query and a code.
    Pair,
    /// A query and a list of results.
    List,
    /// A query and the answers of two systems.
    Sides,
    /// A query and a code that a model wrote for it.
    Generated,
}

/// A label of a guideline.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Accepted spellings; the first is its name.
    pub says: Vec<String>,
    /// Its meaning, in a few words.
    pub means: String,
    /// Whether the code does all that the query asks for; `None` if the label does not say.
    #[serde(default)]
    pub exact: Option<bool>,
    /// Whether the code does more than half of it; `None` if the label does not say.
    #[serde(default)]
    pub half: Option<bool>,
    /// Its position on the scale of the guideline.
    #[serde(default)]
    pub scale: Option<f64>,
    /// Which of two answers it prefers, for guidelines on preferences.
    #[serde(default)]
    pub prefers: Option<Preferred>,
    /// The review status that it gives generated code.
    #[serde(default)]
    pub review: Option<GeneratedStatus>,
}

/// Which of two answers is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preferred {
    /// The left one.
    First,
    /// The right one.
    Second,
    /// Neither is better.
    Neither,
}

impl Guideline {
    /// The names of the built-in guidelines with their descriptions, in alphabetical order.
    pub fn names() -> impl Iterator<Item = (&'static str, String)> {
        BUILT_IN.iter().filter_map(|(name, text)| {
            let content: GuidelineFile = toml::from_str(text).ok()?;
            Some((*name, content.about))
        })
    }

    /// The built-in guideline with a name, or that in the file `name` if it ends in `.toml`.
    ///
    /// # Errors
    /// When no built-in guideline has this name, or the file cannot be read or is invalid.
    pub fn named(name: &str) -> Result<Self, AnnotateError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text, name);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            let known = BUILT_IN.iter().map(|(name, _)| *name).chain(["a file that ends in .toml"]);
            let hint = did_you_mean_or_all(name, known);
            return Err(AnnotateError::Prompt {
                file: name.to_owned(),
                problem: format!("there is no such guideline; {hint}"),
            });
        }
        let text = fs::read_to_string(path)
            .map_err(|source| AnnotateError::Read { path: path.to_owned(), source })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text, &path.display().to_string())
    }

    /// Parses the text of a guideline's file; `file` is its name in messages.
    ///
    /// # Errors
    /// [`AnnotateError::Prompt`] with what was expected.
    pub fn parse(name: &str, text: &str, file: &str) -> Result<Self, AnnotateError> {
        let wrong = |problem: String| AnnotateError::Prompt { file: file.to_owned(), problem };
        let content: GuidelineFile = toml_file::parse(text).map_err(|Mistake { line, problem }| {
            AnnotateError::Prompt { file: format!("{file}:{line}"), problem }
        })?;
        content.check().map_err(wrong)?;
        let version = digest(&[text])[..16].to_owned();
        Ok(Self { name: name.to_owned(), version, text: text.to_owned(), content })
    }

    /// The kind of items that it is for.
    pub fn asks(&self) -> ItemKind {
        self.content.asks
    }

    /// The label that a cell contains, ignoring case and surrounding white space; numbers in any notation. `None` if
    /// the guideline does not have it.
    pub fn value(&self, cell: &str) -> Option<&Value> {
        let says = |word: &String| is_same(word, cell.trim());
        self.content.values.iter().find(|value| value.says.iter().any(says))
    }

    /// The names of its labels, as listed in messages.
    pub fn expected(&self) -> String {
        self.content.values.iter().map(Value::name).collect::<Vec<_>>().join(", ")
    }

    /// Its labels, in the order of the file.
    pub fn values(&self) -> &[Value] {
        &self.content.values
    }

    /// Its question, as a sentence, and how to decide it, in Markdown.
    pub fn question(&self) -> (&str, &str) {
        (&self.content.about, self.content.text.trim())
    }

    /// The distinct values of its scale, in ascending order; empty if it has none.
    pub fn scale(&self) -> Vec<f64> {
        let mut scale: Vec<f64> = self.content.values.iter().filter_map(|value| value.scale).collect();
        scale.sort_by(f64::total_cmp);
        scale
    }

    /// The instructions for people, in Markdown.
    pub fn instructions(&self, tests: bool) -> String {
        let mut text = format!("# {}\n\n{}\n", self.content.about, self.content.text.trim());
        text.push_str("\n| label | meaning |\n|---|---|\n");
        for value in &self.content.values {
            text.push_str(&format!("| {} | {} |\n", value.name(), value.means));
        }
        for part in tests.then_some(TEST_PROGRAMS).into_iter().chain([COLUMNS]) {
            text.push('\n');
            text.push_str(part);
        }
        text
    }
}

impl Value {
    /// The name in the file.
    pub fn name(&self) -> &str {
        self.says.first().map_or("", String::as_str)
    }
}

impl GuidelineFile {
    fn check(&self) -> Result<(), String> {
        let mut words: Vec<String> =
            self.values.iter().flat_map(|value| &value.says).map(|word| word.to_lowercase()).collect();
        if self.values.len() < 2 || self.values.iter().any(|value| value.says.is_empty()) {
            return Err("expected two `values` or more, each with a word that `says` it".to_owned());
        }
        words.sort();
        if let Some(twice) = words.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{:?} says two values; expected each word once", twice[0]));
        }
        if words.iter().any(|word| word.trim().is_empty() || word.trim() != word) {
            return Err("a word is blank, or has white space around it".to_owned());
        }
        let fits = |value: &Value| match self.asks {
            ItemKind::Pair => value.prefers.is_none() && value.review.is_none(),
            ItemKind::List => value.scale.is_some(),
            ItemKind::Sides => value.prefers.is_some(),
            ItemKind::Generated => value.review.is_some_and(|status| status != GeneratedStatus::Generated),
        };
        match self.values.iter().find(|value| !fits(value)) {
            None => Ok(()),
            Some(value) => Err(format!(
                "the value {:?} does not fit what is asked; expected `exact`, `half` or `scale` of a pair, `scale` of a \
                 list, `prefers` of two sides, `review` of generated code",
                value.name()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guidelines_of_the_papers_mean_what_they_say() {
        for (name, _) in BUILT_IN {
            let guideline = Guideline::named(name).unwrap();
            assert!(guideline.instructions(true).contains("test_program"), "{name}");
            assert!(!guideline.instructions(false).contains("test_program"), "{name}");
        }
        assert_eq!(Guideline::names().count(), BUILT_IN.len());
        let both = |guideline: &str, label: &str| {
            let guideline = Guideline::named(guideline).unwrap();
            let value = guideline.value(label).unwrap();
            (value.exact, value.half)
        };
        // CoSQA: 1 and 2 do all, 3 and 4 a kind of it, 5 to 7 half or less; a query of another kind says nothing.
        for (case, expected) in [
            ("0", (None, None)),
            ("2", (Some(true), Some(true))),
            ("4", (Some(false), Some(true))),
            ("5", (Some(false), Some(false))),
        ] {
            assert_eq!(both("cosqa", case), expected, "{case}");
        }
        assert_eq!(both("cosqa-plus", "no"), (Some(false), None));
        assert_eq!(both("cosqa-plus-half", "yes"), (None, Some(true)));
        assert_eq!(both("query4code", "2"), (Some(false), Some(true)));
        assert_eq!(Guideline::named("results").unwrap().scale(), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_a_spreadsheet_makes_of_a_label_is_read() {
        let guideline = Guideline::named("cosqa-plus").unwrap();
        for cell in ["yes", " YES ", "Y", "1", "1.0", "TRUE"] {
            assert_eq!(guideline.value(cell).map(Value::name), Some("yes"), "{cell}");
        }
        for cell in ["", "perhaps", "10", "yes no"] {
            assert_eq!(guideline.value(cell), None, "{cell}");
        }
        assert_eq!(guideline.expected(), "yes, no, cannot tell");
        let unsure = guideline.value("?").unwrap();
        assert_eq!((unsure.name(), unsure.exact, unsure.half), ("cannot tell", None, None));
    }

    #[test]
    fn guidelines_that_cannot_work_are_refused() {
        let text = "asks = 'list'\nabout = 'x'\ntext = 'x'\nvalues = [{says=['1'],means='',scale=1},{says=['0'],means='',scale=0}]";
        assert!(Guideline::parse("x", text, "x").is_ok());
        for (from, to, words) in [
            ("'list'", "'lists'", "lists"),
            ("'list'", "'sides'", "`prefers` of two sides"),
            ("['0']", "['1']", "says two values"),
            ("['0']", "[]", "expected two `values`"),
            ("['0']", "[' 0']", "white space"),
            ("means=''", "mean=''", "mean"),
        ] {
            let error = Guideline::parse("x", &text.replace(from, to), "dir/x.toml").unwrap_err().to_string();
            assert!(error.starts_with("dir/x.toml") && error.contains(words), "{error}");
        }
        let problem = |name| Guideline::named(name).unwrap_err().to_string();
        assert!(problem("cosqua").contains("did you mean `cosqa`?"), "{}", problem("cosqua"));
        assert!(problem("none").contains("expected one of cosqa, cosqa-plus"), "{}", problem("none"));
    }
}
