//! The intent filter of CoSQA, which keeps queries that look for code. Its rules are data: `intent.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Category {
    pub name: String,
    pub about: String,
    /// Keywords that indicate it; empty for the category of queries that match no rule, and for one without a rule.
    #[serde(default)]
    pub keywords: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentFile {
    matching: Matching,
    category: Vec<Category>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Matching {
    long: usize,
}

/// The reason why a query does not look for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding<'i> {
    pub category: &'i str,
    pub keyword: &'i str,
}

#[derive(Debug)]
pub struct Intents {
    categories: Vec<Category>,
    /// Index of the category, index of the keyword, and pattern.
    rules: Vec<(usize, usize, Rule)>,
}

#[derive(Debug)]
enum Rule {
    /// Matches anywhere.
    Symbol(String),
    /// Sequences of adjacent words, with a gap between two sequences; each word in any of its forms.
    Words(Vec<Vec<Vec<String>>>),
}

static BUILTIN: LazyLock<Intents> = LazyLock::new(|| {
    // A test parses it.
    Intents::parse(include_str!("intent.toml"))
        .unwrap_or(Intents { categories: Vec::new(), rules: Vec::new() })
});

impl Intents {
    /// The rules of CoSQA.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// The text of CoSQA's rules.
    pub(crate) fn builtin_text() -> &'static str {
        include_str!("intent.toml")
    }

    /// Parses rules in the format of the built-in ones.
    ///
    /// # Errors
    /// Returns a description of the problem.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: IntentFile = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut rules = Vec::new();
        for (category, Category { keywords, .. }) in file.category.iter().enumerate() {
            for (number, keyword) in keywords.iter().enumerate() {
                if keyword.trim().is_empty() {
                    return Err(format!(
                        "{}: expected a keyword, found an empty one",
                        file.category[category].name
                    ));
                }
                rules.push((category, number, Rule::new(keyword, file.matching.long)));
            }
        }
        Ok(Self { categories: file.category, rules })
    }

    /// The categories, in the order of the file.
    pub fn categories(&self) -> &[Category] {
        &self.categories
    }

    /// The first matching rule, which is the reason that a query does not look for code; `None` if it does.
    pub fn find(&self, query: &str) -> Option<Finding<'_>> {
        let query = query.to_lowercase();
        let words: Vec<&str> = query.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
        self.rules.iter().find(|(_, _, rule)| rule.matches(&query, &words)).map(|(category, keyword, _)| {
            let category = &self.categories[*category];
            Finding { category: &category.name, keyword: &category.keywords[*keyword] }
        })
    }
}

/// A word without surrounding punctuation, except in names such as `c#` and `can't`.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#' && c != '+')
}

impl Rule {
    fn new(keyword: &str, long: usize) -> Self {
        let keyword = keyword.to_lowercase();
        if !keyword.contains(char::is_alphanumeric) {
            return Self::Symbol(keyword);
        }
        let runs = keyword.split('…').map(|run| {
            let words = run.split_whitespace();
            words
                .map(|word| if word.chars().count() >= long { forms(word) } else { vec![word.to_owned()] })
                .collect()
        });
        Self::Words(runs.collect())
    }

    fn matches(&self, query: &str, words: &[&str]) -> bool {
        match self {
            Self::Symbol(symbol) => query.contains(symbol),
            Self::Words(runs) => {
                let mut at = 0;
                runs.iter().all(|run| match position(run, &words[at.min(words.len())..]) {
                    Some(found) => {
                        at += found + run.len();
                        true
                    }
                    None => false,
                })
            }
        }
    }
}

/// The index in `words` at which a sequence of words occurs.
fn position(run: &[Vec<String>], words: &[&str]) -> Option<usize> {
    let is_here =
        |words: &[&str]| run.iter().zip(words).all(|(forms, word)| forms.iter().any(|form| form == word));
    (0..(words.len() + 1).checked_sub(run.len())?).find(|start| is_here(&words[*start..]))
}

/// A word with its plural, its past form and its -ing form.
fn forms(word: &str) -> Vec<String> {
    let mut forms = vec![word.to_owned()];
    let mut add = |stem: &str, endings: &[&str]| {
        forms.extend(endings.iter().map(|ending| format!("{stem}{ending}")));
    };
    if let Some(stem) = word.strip_suffix('e') {
        add(stem, &["es", "ed", "ing"]);
    } else if let Some(stem) =
        word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']))
    {
        add(stem, &["ies", "ied"]);
        add(word, &["ing"]);
    } else {
        add(word, &["s", "es", "ed", "ing"]);
        if let Some(last) = word.chars().last().filter(|last| !"aeiouwxy".contains(*last)) {
            add(&format!("{word}{last}"), &["ed", "ing"]);
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: Option<(&str, &str)>) {
        let found = Intents::builtin().find(query).map(|finding| (finding.category, finding.keyword));
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn all_keywords_of_the_paper_are_there_and_match_themselves() {
        let intents = Intents::parse(Intents::builtin_text()).unwrap();
        assert_eq!(intents.categories().len(), 7);
        let n_keywords: usize = intents.categories().iter().map(|category| category.keywords.len()).sum();
        // The paper has 105 entries; `on/off` in two of them are two keywords each here.
        assert_eq!((n_keywords, intents.rules.len()), (105 + 2, 105 + 2));
        for category in intents.categories() {
            for keyword in &category.keywords {
                let query = format!("python {}", keyword.replace('…', "a list"));
                let found = intents.find(&query);
                assert!(found.is_some(), "{query}");
                let upper = query.to_uppercase();
                assert_eq!(intents.find(&upper), found, "{upper}");
            }
        }
    }

    #[test]
    fn words_are_matched_whole_and_long_ones_are_inflected() {
        check("python reverse a list", None);
        for kept in [
            "python inside a list",
            "generic numeric sort python",
            "python unless empty",
            "python classify text",
            "python endless loop",
            "python movie",
        ] {
            check(kept, None);
        }
        check("python class vs object", Some(("conceptual", "vs")));
        check("python importing a file", Some(("programming-knowledge", "import")));
        check("python versions", Some(("tool-usage", "version")));
        check("python libraries for maps", Some(("tool-usage", "library")));
        check("python declared names", Some(("programming-knowledge", "declare")));
        check("python require a key", Some(("conceptual", "require")));
        check("check if file-like python", Some(("other", "-")));
        // One symbol, as in the paper: a released query has brackets around words.
        check("python call f()", Some(("other", "()")));
        check("python sum (of a list)", None);
        check("what's c# in python", Some(("tool-usage", "c#")));
        check("python can't read, why?", Some(("conceptual", "can't")));
    }

    #[test]
    fn gaps_hold_any_words_and_order_counts() {
        check("python try something except it", Some(("debugging", "try … except")));
        check("how does a python dict work", Some(("conceptual", "how does … work")));
        check("python get my ip", Some(("tool-usage", "get … ip")));
        check("python ip get", None);
        check("turn a python dict on", Some(("conceptual", "turn … on")));
        check("how python works", Some(("conceptual", "how … works")));
    }

    #[test]
    fn wrong_rules_are_refused() {
        assert!(Intents::parse("").is_err());
        let empty = "[matching]\nlong = 6\n[[category]]\nname = \"a\"\nabout = \"b\"\nkeywords = [\" \"]\n";
        assert!(Intents::parse(empty).unwrap_err().contains("an empty one"));
    }
}
