//! Which pairs are shown.

use quarry_factory::BuiltPair;

/// Which labels pairs have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LabelFilter {
    #[default]
    Any,
    Positive,
    Negative,
    Missing,
}

impl LabelFilter {
    /// The next one, and after the last the first.
    pub fn next(self) -> Self {
        match self {
            Self::Any => Self::Positive,
            Self::Positive => Self::Negative,
            Self::Negative => Self::Missing,
            Self::Missing => Self::Any,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Positive => "answers",
            Self::Negative => "does not answer",
            Self::Missing => "none",
        }
    }

    fn keeps(self, label: Option<i32>) -> bool {
        match self {
            Self::Any => true,
            Self::Positive => label.is_some_and(|label| label > 0),
            Self::Negative => label.is_some_and(|label| label <= 0),
            Self::Missing => label.is_none(),
        }
    }
}

/// What pairs must be like to be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub label: LabelFilter,
    pub language: Option<String>,
    pub part: Option<String>,
    /// In lower case, as far as letters are ASCII.
    pub words: Vec<String>,
}

impl Filter {
    /// The words of a line that was typed.
    pub fn words_of(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_ascii_lowercase).collect()
    }

    /// Whether a pair is shown: query and code together hold each of the words.
    pub fn keeps(&self, pair: &BuiltPair) -> bool {
        let is_in = |wanted: &Option<String>, found: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted)))
        };
        self.label.keeps(pair.label)
            && is_in(&self.language, Some(&pair.language))
            && is_in(&self.part, pair.part.as_deref())
            && (self.words.is_empty() || {
                let texts = [&pair.query, &pair.code].map(|text| text.to_ascii_lowercase());
                self.words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;

    #[test]
    fn words_may_be_in_query_or_code_and_case_does_not_count() {
        let found = |words: &str, label: LabelFilter, language: Option<&str>, pair: &BuiltPair| {
            let language = language.map(str::to_owned);
            Filter { label, language, part: None, words: Filter::words_of(words) }.keeps(pair)
        };
        let positive = pair("Open a file", "def READ(path)", "python", Some(2));
        assert!(found("open read", LabelFilter::Positive, Some("Python"), &positive));
        assert!(!found("open write", LabelFilter::Any, None, &positive));
        assert!(!found("", LabelFilter::Negative, None, &positive));
        assert!(!found("", LabelFilter::Any, Some("go"), &positive));
        let unlabeled = pair("q", "c", "go", None);
        assert!(found("", LabelFilter::Missing, None, &unlabeled));
        let filter = Filter { part: Some("train".to_owned()), ..Filter::default() };
        assert!(!filter.keeps(&BuiltPair { part: None, ..unlabeled.clone() }) && !filter.keeps(&unlabeled));
    }

    #[test]
    fn label_filters_come_in_a_cycle() {
        let mut filter = LabelFilter::default();
        let names: Vec<&str> = (0..5)
            .map(|_| {
                filter = filter.next();
                filter.name()
            })
            .collect();
        assert_eq!(names, ["answers", "does not answer", "none", "any", "answers"]);
    }
}
