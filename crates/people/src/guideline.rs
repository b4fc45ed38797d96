//! Guidelines: instructions for people and the meanings of their labels, as files.

use std::fs;
use std::path::Path;

use quarry_corpus::toml_file::{self, Mistake};
use quarry_files::digest;
use quarry_judge::ledger::{GeneratedStatus, GuidelineText, Ledger};
use quarry_judge::{Criterion, JudgeError, is_same_value};
use quarry_text::did_you_mean_or_all;
use serde::{Deserialize, Serialize};

const BUILT_IN: [(&str, &str); 8] = [
    ("cosqa", include_str!("../guidelines/cosqa.toml")),
    ("cosqa-plus", include_str!("../guidelines/cosqa-plus.toml")),
    ("cosqa-plus-half", include_str!("../guidelines/cosqa-plus-half.toml")),
    ("generated", include_str!("../guidelines/generated.toml")),
    ("preference", include_str!("../guidelines/preference.toml")),
    ("query4code", include_str!("../guidelines/query4code.toml")),
    ("relevance", include_str!("../guidelines/relevance.toml")),
    ("results", include_str!("../guidelines/results.toml")),
];

/// Instructions for filling in a form, for any guideline.
const COLUMNS: &str = include_str!("../guidelines/columns.md");

/// Instructions for writing test programs.
const TEST_PROGRAMS: &str = include_str!("../guidelines/test-programs.md");

#[derive(Clone, Debug, PartialEq)]
pub struct Guideline {
    /// The name of its file, without extension.
    pub name: String,
    pub version: String,
    pub text: String,
    content: GuidelineFile,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuidelineFile {
    asks: ItemKind,
    #[serde(default)]
    criterion: Criterion,
    about: String,
    text: String,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    Pair,
    /// A query and a list of results.
    List,
    /// A query and the answers of two systems.
    Sides,
    /// A query and a code that a model wrote for it.
    Generated,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Accepted spellings; the first is its name.
    pub says: Vec<String>,
    /// Its meaning, in a few words.
    pub means: String,
    /// The label that it gives a pair, under the guideline's criterion.
    #[serde(default)]
    label: Option<ValueLabel>,
    /// `true` if the code does all that the query asks for. Set if the criterion is another one and the value
    /// states it.
    #[serde(default)]
    exact: Option<bool>,
    /// `true` if the code does more than half of it. Set if the criterion is another one and the value states it.
    #[serde(default)]
    half: Option<bool>,
    /// Its position on the scale of the guideline.
    #[serde(default)]
    pub scale: Option<f64>,
    /// The preferred answer of two, for guidelines on preferences.
    #[serde(default)]
    pub prefers: Option<Preferred>,
    /// The review status that it gives generated code.
    #[serde(default)]
    pub review: Option<GeneratedStatus>,
}

/// The label of a value: `1`, `0` or `"none"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
struct ValueLabel(Option<bool>);

impl TryFrom<toml::Value> for ValueLabel {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        match &value {
            toml::Value::Integer(label @ (0 | 1)) => Ok(Self(Some(*label == 1))),
            toml::Value::String(word) if word == "none" => Ok(Self(None)),
            _ => Err(format!("expected 1, 0 or \"none\" as `label`, found {value}")),
        }
    }
}

/// Value of a reply in comparisons of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedAs<'g> {
    Label(Option<bool>),
    /// Its value, under a guideline without labels.
    Value(&'g str),
}

/// The better one of two answers.
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
    pub fn named(name: &str) -> Result<Self, JudgeError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text, name);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            let known = BUILT_IN.iter().map(|(name, _)| *name).chain(["a file that ends in .toml"]);
            let hint = did_you_mean_or_all(name, known);
            return Err(JudgeError::Prompt {
                file: name.to_owned(),
                problem: format!("no such guideline; {hint}"),
            });
        }
        let text =
            fs::read_to_string(path).map_err(|source| JudgeError::Read { path: path.to_owned(), source })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text, &path.display().to_string())
    }

    /// Parses the text of a guideline's file; `file` is its name in messages.
    ///
    /// # Errors
    /// [`JudgeError::Prompt`] with what was expected.
    pub fn parse(name: &str, text: &str, file: &str) -> Result<Self, JudgeError> {
        let wrong = |problem: String| JudgeError::Prompt { file: file.to_owned(), problem };
        let content: GuidelineFile = toml_file::parse(text).map_err(|Mistake { line, problem }| {
            JudgeError::Prompt { file: format!("{file}:{line}"), problem }
        })?;
        content.check().map_err(wrong)?;
        let version = digest(&[text])[..16].to_owned();
        Ok(Self { name: name.to_owned(), version, text: text.to_owned(), content })
    }

    /// The guideline of a form in a ledger.
    pub(crate) fn stored(stored: &GuidelineText, ledger: &Ledger) -> Result<Self, JudgeError> {
        Self::parse(&stored.name, &stored.text, &ledger.path().display().to_string())
    }

    pub fn asks(&self) -> ItemKind {
        self.content.asks
    }

    /// The label that a cell contains, ignoring case and surrounding white space; numbers in any notation. `None` if
    /// the guideline does not have it.
    pub fn value(&self, cell: &str) -> Option<&Value> {
        let says = |word: &String| is_same_value(word, cell.trim());
        self.content.values.iter().find(|value| value.says.iter().any(says))
    }

    /// The label that a value gives a pair; `None` if it gives none. Every other label of people is derived from this
    /// one, so that they all agree.
    pub(crate) fn label(&self, value: &str) -> Option<bool> {
        self.value(value)?.label?.0
    }

    /// Meaning of a value under a criterion: the label if it is the guideline's own criterion, otherwise the
    /// value's statement about it.
    pub(crate) fn under(&self, value: &Value, criterion: Criterion) -> Option<bool> {
        if criterion == self.criterion() { value.label?.0 } else { value.beside(criterion) }
    }

    /// Returns whether any of its values gives a pair a label.
    pub fn gives_labels(&self) -> bool {
        self.content.values.iter().any(|value| value.label.is_some_and(|label| label.0.is_some()))
    }

    pub(crate) fn criterion(&self) -> Criterion {
        self.content.criterion
    }

    pub(crate) fn counted_as<'g>(&self, value: &'g str) -> CountedAs<'g> {
        match self.gives_labels() {
            true => CountedAs::Label(self.label(value)),
            false => CountedAs::Value(value),
        }
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

    /// Statement about a criterion besides its label.
    fn beside(&self, criterion: Criterion) -> Option<bool> {
        match criterion {
            Criterion::Exact => self.exact,
            Criterion::Half => self.half,
        }
    }
}

impl GuidelineFile {
    fn check(&self) -> Result<(), String> {
        let mut words: Vec<String> =
            self.values.iter().flat_map(|value| &value.says).map(|word| word.to_lowercase()).collect();
        if self.values.len() < 2 || self.values.iter().any(|value| value.says.is_empty()) {
            return Err("expected at least two `values`, each with its word in `says`".to_owned());
        }
        words.sort();
        if let Some(twice) = words.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{:?} stands for two values; expected each word once", twice[0]));
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
        let fits = |value: &Value| fits(value) && (self.asks == ItemKind::Pair || value.label.is_none());
        if let Some(value) = self.values.iter().find(|value| !fits(value)) {
            return Err(format!(
                "the value {:?} does not fit the question; expected `label` or `scale` for a pair, `scale` for a list, \
                 `prefers` for two sides, `review` for generated code",
                value.name()
            ));
        }
        if self.asks == ItemKind::Pair { self.check_labels() } else { Ok(()) }
    }

    /// Checks that each value has a label, and that its statements about other criteria do not contradict the
    /// label.
    fn check_labels(&self) -> Result<(), String> {
        let criterion = match self.criterion {
            Criterion::Exact => "exact",
            Criterion::Half => "half",
        };
        for value in &self.values {
            let Some(label) = value.label else {
                return Err(format!(
                    "the value {:?} has no label; add `label = 1` if the code of such a pair answers the query, \
                     `label = 0` if it does not, or `label = \"none\"` if the value implies neither",
                    value.name()
                ));
            };
            if let Some(stated) = value.beside(self.criterion).filter(|stated| Some(*stated) != label.0) {
                return Err(format!(
                    "the value {:?} has a label that differs from its `{criterion} = {stated}`, and labels are under \
                     `criterion = \"{criterion}\"`; change one of the three",
                    value.name()
                ));
            }
        }
        Ok(())
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
        let labels = |guideline: &str| {
            let guideline = Guideline::named(guideline).unwrap();
            let both = |value: &Value| Criterion::ALL.map(|criterion| guideline.under(value, criterion));
            let label = |value: &Value| (guideline.label(value.name()), both(value));
            guideline.values().iter().map(label).collect::<Vec<_>>()
        };
        let (yes, no) = (Some(true), Some(false));
        // CoSQA: 1 to 4 are positive, and only 1 and 2 do everything; a query of another kind has no label.
        let mut expected = vec![(None, [None, None])];
        expected.extend([(yes, [yes, yes]); 2]);
        expected.extend([(yes, [no, yes]); 2]);
        expected.extend([(no, [no, no]); 3]);
        assert_eq!(labels("cosqa"), expected);
        assert_eq!(
            labels("cosqa-plus"),
            [(yes, [yes, None]), (no, [no, None]), (None, [None, None])],
            "most of the demands is a no"
        );
        assert_eq!(labels("cosqa-plus-half"), [(yes, [None, yes]), (no, [None, no]), (None, [None, None])]);
        // Query4Code keeps 3 and 2.
        assert_eq!(
            labels("query4code"),
            [(yes, [yes, yes]), (yes, [no, yes]), (no, [no, no]), (no, [no, no])]
        );
        assert_eq!(labels("relevance"), [(None, [None, None]); 4], "its measure takes grades");
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
        assert_eq!((unsure.name(), guideline.label("?")), ("cannot tell", None));
    }

    #[test]
    fn guidelines_that_cannot_work_are_refused() {
        let text = "asks = 'list'\nabout = 'x'\ntext = 'x'\nvalues = [{says=['1'],means='',scale=1},{says=['0'],means='',scale=0}]";
        assert!(Guideline::parse("x", text, "x").is_ok());
        for (from, to, words) in [
            ("'list'", "'lists'", "lists"),
            ("'list'", "'sides'", "`prefers` for two sides"),
            ("['0']", "['1']", "stands for two values"),
            ("['0']", "[]", "expected at least two `values`"),
            ("['0']", "[' 0']", "white space"),
            ("means=''", "mean=''", "mean"),
        ] {
            let error = Guideline::parse("x", &text.replace(from, to), "dir/x.toml").unwrap_err().to_string();
            assert!(error.starts_with("dir/x.toml") && error.contains(words), "{error}");
        }
        let text = "asks = 'pair'\ncriterion = 'half'\nabout = 'x'\ntext = 'x'\n\
                    values = [{says=['1'],means='',label=1,exact=false},{says=['0'],means='',label='none'}]";
        assert!(Guideline::parse("x", text, "x").is_ok());
        for (from, to, words) in [
            (",label='none'", "", "the value \"0\" has no label; add `label = 1`"),
            ("label='none'", "label='no'", "expected 1, 0 or \"none\" as `label`"),
            ("label=1", "label=2", "expected 1, 0 or \"none\" as `label`"),
            ("criterion = 'half'\n", "", "the value \"1\" has a label that differs from its `exact = false`"),
            ("asks = 'pair'", "asks = 'list'", "does not fit"),
        ] {
            let error = Guideline::parse("x", &text.replace(from, to), "dir/x.toml").unwrap_err().to_string();
            assert!(error.starts_with("dir/x.toml") && error.contains(words), "{error}");
        }
        let problem = |name| Guideline::named(name).unwrap_err().to_string();
        assert!(problem("cosqua").contains("did you mean `cosqa`?"), "{}", problem("cosqua"));
        assert!(problem("none").contains("expected one of cosqa, cosqa-plus"), "{}", problem("none"));
    }
}
