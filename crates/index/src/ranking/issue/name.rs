//! Names of code in a text: dotted, in camel or snake case, called, or in backticks.

use quarry_text::parts;

/// Part of an issue in which something is mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Its first line.
    Title,
    /// Sentences.
    Prose,
    /// Quoted code, and what was typed into a shell.
    Code,
    /// The lines of source in a stack trace.
    Trace,
    /// Error messages.
    Message,
}

/// A name as an issue writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    /// With its scopes: `total`, `Cart.total`, `shop::cart::total`.
    pub text: &'a str,
    /// The part of the issue that contains it.
    pub origin: Origin,
    /// True if it is in backticks.
    pub is_marked: bool,
    /// True if it is called, or defined.
    pub is_called: bool,
    /// True if it is not an English word: it has several parts or scopes, or is called or marked.
    pub is_symbol: bool,
}

impl<'a> Name<'a> {
    /// The name itself and its scopes, the innermost first.
    pub fn scopes(&self) -> impl Iterator<Item = &'a str> {
        self.text.rsplit(|c: char| !is_name_char(c)).filter(|part| !part.is_empty())
    }
}

/// Separators between the parts of a name, longer ones first.
const SEPARATORS: [&str; 6] = ["::", "->", "?.", ".", "#", "\\"];

/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 256;

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The names in a piece of an issue, in order.
pub(super) fn names(text: &str, origin: Origin) -> impl Iterator<Item = Name<'_>> {
    // Backticks mark names in prose; in code they quote something else.
    let is_prose = matches!(origin, Origin::Title | Origin::Prose);
    let pieces = text.split(move |c: char| is_prose && c == '`');
    pieces.enumerate().flat_map(move |(number, piece)| {
        // Two backticks enclose text with one of them, or nothing: the piece between is empty.
        words(piece).map(move |(word, is_called)| {
            let is_marked = is_prose && number % 2 == 1;
            let is_symbol = is_marked || is_called || is_symbol(word);
            Name { text: word, origin, is_marked, is_called, is_symbol }
        })
    })
}

/// The dotted words of a text, each with true if it is called or defined.
fn words(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    let mut is_defined = false;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(is_name_char)?;
            let tail = &rest[start..];
            let mut end = name_end(tail);
            while let Some(after) = separated(&tail[end..]) {
                end += after;
            }
            let word = &tail[..end];
            rest = &tail[end..];
            let was_defined = std::mem::replace(&mut is_defined, DEFINING.contains(&word));
            if word.len() <= MAX_NAME_BYTES && !word.starts_with(|c: char| c.is_ascii_digit()) && !is_defined
            {
                return Some((word, was_defined || rest.starts_with('(')));
            }
        }
    })
}

/// Keywords after which a name is defined.
const DEFINING: [&str; 10] =
    ["def", "class", "func", "fn", "fun", "function", "interface", "struct", "trait", "enum"];

/// The end of the part at the beginning of a text.
fn name_end(text: &str) -> usize {
    text.find(|c| !is_name_char(c)).unwrap_or(text.len())
}

/// The length of a separator and the part after it, if a text begins with them.
fn separated(text: &str) -> Option<usize> {
    let separator = SEPARATORS.into_iter().find(|separator| text.starts_with(separator))?;
    let rest = &text[separator.len()..];
    rest.starts_with(|c: char| c.is_alphabetic() || c == '_').then(|| separator.len() + name_end(rest))
}

/// Returns true if a word is written like a name in code rather than prose.
fn is_symbol(word: &str) -> bool {
    let n_scopes = word.split(|c| !is_name_char(c)).filter(|part| part.len() > 1).count();
    // `e.g` and `i.e` have parts of one letter.
    n_scopes > 1 || word.contains('_') && word.len() > 2 || n_scopes == 1 && parts(word).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(text: &str, origin: Origin) -> Vec<&str> {
        names(text, origin).filter(|name| name.is_symbol).map(|name| name.text).collect()
    }

    #[test]
    fn names_are_distinguished_from_words() {
        let found = symbols(
            "The `tax` of Cart.total is wrong, e.g. in add_item(3) or shop::Cart. Or so",
            Origin::Prose,
        );
        assert_eq!(found, ["tax", "Cart.total", "add_item", "shop::Cart"]);
        assert_eq!(symbols("GitHub issue", Origin::Title), ["GitHub"]);
        assert_eq!(symbols("i.e. this, i.e that", Origin::Prose), [""; 0]);
    }

    #[test]
    fn calls_and_definitions_are_noticed() {
        let called = |text| {
            names(text, Origin::Code).filter(|name| name.is_called).map(|name| name.text).collect::<Vec<_>>()
        };
        assert_eq!(called("x = cart.total(tax)"), ["cart.total"]);
        assert_eq!(called("class Cart:\n    def total(self):"), ["Cart", "total"]);
        assert_eq!(called("$this->total($tax)"), ["$this->total"]);
    }

    #[test]
    fn scopes_begin_with_the_name_itself() {
        let name = Name {
            text: "shop::Cart.total",
            origin: Origin::Code,
            is_marked: false,
            is_called: false,
            is_symbol: true,
        };
        assert_eq!(name.scopes().collect::<Vec<_>>(), ["total", "Cart", "shop"]);
    }

    #[test]
    fn hostile_texts_take_linear_time() {
        for unit in ["a", ".", "a.", "`", "(", "1", "::", "_"] {
            let text = unit.repeat((64 << 10) / unit.len());
            assert!(names(&text, Origin::Prose).count() <= text.len());
        }
    }
}
