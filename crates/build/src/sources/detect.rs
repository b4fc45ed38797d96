//! The language of code that comes without a path or a name of its language.

use std::collections::HashSet;
use std::sync::LazyLock;

use quarry_source::{Language, language_named};
use serde::Deserialize;

use crate::sources::function::has_syntax_errors;

/// Number of languages whose grammar is tried: parsing takes a thousand times as long as looking for marks.
const MAX_PARSED: usize = 4;

/// Minimum number of marks, where no grammar reads the text.
const MIN_MARKS: usize = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    languages: Vec<LanguageMarks>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LanguageMarks {
    name: String,
    marks: Vec<String>,
}

static RULES: LazyLock<Vec<(Language, Vec<String>)>> = LazyLock::new(|| {
    let rules: Rules = toml::from_str(include_str!("detect.toml")).expect("detect.toml is well-formed");
    let known = |LanguageMarks { name, marks }| Some((language_named(&name)?, marks));
    rules.languages.into_iter().filter_map(known).collect()
});

/// The language of a code, by its marks and by which grammar reads it; `None` if nothing decides.
///
/// Of the languages with the most marks the first one is taken whose grammar reads the text without errors, and without
/// such a one (as in code whose line breaks were lost) the one that has more marks than any other.
pub(crate) fn detected_language(text: &str) -> Option<Language> {
    let tokens = tokens(text);
    let mut counted: Vec<(usize, Language)> = (RULES.iter())
        .map(|(language, marks)| {
            (marks.iter().filter(|mark| tokens.contains(mark.as_str())).count(), *language)
        })
        .filter(|(count, _)| *count > 0)
        .collect();
    // Stable, so that the order of the rules decides ties.
    counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let parsed = counted.iter().take(MAX_PARSED).find(|(_, language)| !has_syntax_errors(*language, text));
    if let Some((_, language)) = parsed {
        return Some(*language);
    }
    match counted.as_slice() {
        [(most, language), rest @ ..]
            if *most >= MIN_MARKS && rest.first().is_none_or(|(next, _)| next < most) =>
        {
            Some(*language)
        }
        _ => None,
    }
}

/// The words of a text, also with the sign before them (`$this`), and its runs of signs.
fn tokens(text: &str) -> HashSet<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = HashSet::new();
    let mut start = 0;
    let mut before = None;
    let boundaries = text.char_indices().chain([(text.len(), ' ')]);
    for (at, c) in boundaries {
        let class = if c.is_whitespace() { 0 } else { 1 + u8::from(is_word(c)) };
        match before {
            Some(last) if last == class && at < text.len() => continue,
            Some(last) if last != 0 => {
                let token = &text[start..at];
                found.insert(token);
                let sign = text[..start].chars().next_back().filter(|c| matches!(c, '$' | '@' | '#' | '&'));
                if last == 2
                    && let Some(sign) = sign
                {
                    found.insert(&text[start - sign.len_utf8()..at]);
                }
            }
            _ => {}
        }
        (start, before) = (at, Some(class));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &str, text: &str) {
        assert_eq!(detected_language(text).map_or("", Language::name), expected, "{text}");
    }

    #[test]
    fn the_language_of_a_function_is_recognized() {
        assert!(RULES.len() >= 14, "{}", RULES.len());
        check("python", "def f(x):\n    return x\n");
        check("ruby", "def f(x)\n  return x\nend\n");
        check("javascript", "function f(a) { return a; }");
        check("typescript", "function f(a: string): string { return a; }");
        check("java", "public int get(int i) {\n  return of(i);\n}");
        check("php", "public function put($x)\n{\n  return $this->h($x);\n}");
        check("go", "func f(a int) int {\n\treturn a\n}\n");
        check("rust", "fn f(a: usize) -> usize { a }");
        check("r", "f <- function(x) {\n  x + 1\n}\n");
        check("", "42");
        check("", "");
    }

    #[test]
    fn tokens_joined_by_spaces_are_recognized_without_their_lines() {
        check("python", "def f ( self , x ) : if x is None : raise ValueError ( x ) y = x + 1 return y");
        check("java", "public static void f ( int a ) throws Exception { throw new Exception ( a ) ; }");
        check("go", "func f ( a int ) error { if err := g ( a ) ; err != nil { return err } return nil }");
        check("ruby", "def f ( x ) return nil unless x y = x end");
        check("php", "public function f ( $a ) { return $this -> b :: c ( $a ) ; }");
        check("javascript", "function f ( a ) { var b = a ; return typeof b === 'x' ; }");
    }
}
