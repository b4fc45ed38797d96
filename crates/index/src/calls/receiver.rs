//! The types of receivers, as far as they are declared in the same file.

use std::ops::Range;

use super::words::{Words, is_word_part};

/// Words between a variable and its type.
const TYPE_WORDS: &[&str] = &[
    "Arc", "Box", "Option", "Rc", "await", "const", "dyn", "final", "impl", "mut", "new", "ref", "val", "var",
];

/// The text around a call, which may declare the type of a variable.
pub(crate) struct Surroundings<'a> {
    /// The text of the file.
    pub text: &'a str,
    /// The words of that text.
    pub words: &'a Words<'a>,
    /// The unit that contains the call: its declarations take precedence.
    pub unit_bytes: Range<usize>,
    /// Returns true if a byte of the text is in a definition that contains that unit, or outside of definitions.
    pub is_around: Box<dyn Fn(usize) -> bool + 'a>,
}

/// The members of the type of a variable or field, if a type that has any is declared beside its name; `members`
/// gives those of a type.
pub(super) fn declared<'s, T>(
    receiver: &'s str,
    around: &Surroundings<'s>,
    members: &dyn Fn(&str) -> Option<T>,
) -> Option<T> {
    let variable = *path_words(receiver).last()?;
    let text = around.text;
    let positions = around.words.positions(text, variable);
    let begin = positions.partition_point(|at| *at < around.unit_bytes.start);
    let end = positions.partition_point(|at| *at < around.unit_bytes.end);
    let owner = |at: &usize| {
        // Text further away says nothing about the variable.
        let before = &text[text.ceil_char_boundary(at.saturating_sub(MAX_DECLARATION_BYTES))..*at];
        let after =
            &text[at + variable.len()..text.floor_char_boundary(at + variable.len() + MAX_DECLARATION_BYTES)];
        type_after(after, members).or_else(|| type_before(before, members))
    };
    // A field may be declared anywhere in the file, a variable only around the call.
    let is_field = receiver != variable;
    let in_scope = positions.iter().filter(|at| is_field || (around.is_around)(**at));
    positions[begin..end].iter().chain(in_scope).find_map(owner)
}

/// Number of bytes beside a variable in which its type is searched.
const MAX_DECLARATION_BYTES: usize = 256;

/// A type as in `x: &mut Cart`, `x := shop.Cart{`, `x = Cart::new()`, `x *Cart`.
fn type_after<T>(text: &str, owner: &dyn Fn(&str) -> Option<T>) -> Option<T> {
    let mut rest = text;
    for _ in 0..6 {
        let next = rest.trim_start_matches([' ', '\t', ':', '=', '&', '*', '?', '!', '<', '[', ']']);
        if next.len() == rest.len() {
            return None;
        }
        let (word, after) = next.split_at(next.find(|c| !is_word_part(c)).unwrap_or(next.len()));
        if let Some(owner) = owner(word) {
            return Some(owner);
        }
        rest = match after.strip_prefix("::").or_else(|| after.strip_prefix('.')) {
            // Any part of a path may be the type.
            Some(path) => {
                let word = path.split(|c| !is_word_part(c)).next().unwrap_or_default();
                return owner(word);
            }
            None if TYPE_WORDS.contains(&word) => after,
            None => return None,
        };
    }
    None
}

/// A type as in `Cart x`, `Cart<Item> x`, `Cart *x`.
fn type_before<T>(text: &str, owner: &dyn Fn(&str) -> Option<T>) -> Option<T> {
    let before = text.trim_end_matches([' ', '\t', '*', '&', '?', '$']);
    if before.len() == text.len() {
        return None;
    }
    let before = match before.strip_suffix('>') {
        Some(generic) => generic.rsplit_once('<')?.0,
        None => before.trim_end_matches(['[', ']']),
    };
    let start = before
        .rfind(|c| !is_word_part(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    owner(&before[start..])
}

/// The identifiers of `a.b[0]::c`, without those in brackets.
pub(super) fn path_words(receiver: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut depth = 0usize;
    let mut start = None;
    for (at, c) in receiver.char_indices().chain([(receiver.len(), ' ')]) {
        if depth == 0 && is_word_part(c) {
            start.get_or_insert(at);
            continue;
        }
        if let Some(start) = start.take() {
            words.push(&receiver[start..at]);
        }
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    words
}
