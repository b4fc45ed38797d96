//! Syntax highlighting of source text by the names that grammars give to nodes. The relevant names are the same in
//! all grammars (a comment is a comment everywhere), so languages need no highlighting queries.

use std::ops::Range;

use tree_sitter::{Node, Tree};

use crate::traversal::goto_next;

/// The class of a part of source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Highlight {
    Comment,
    /// A string or a character.
    String,
    Number,
    Keyword,
    /// The name of a type.
    Type,
    /// The name of a function in its definition or in a call.
    Function,
}

/// The highlighted byte ranges of a parsed text, ascending and disjoint.
pub(crate) fn find_highlights(tree: &Tree) -> Vec<(Range<usize>, Highlight)> {
    let mut found = Vec::new();
    let mut cursor = tree.walk();
    // The strings around the current node, by depth; interpolated parts of a string are code again.
    let mut strings: Vec<(u32, bool)> = Vec::new();
    loop {
        let node = cursor.node();
        let depth = cursor.depth();
        while strings.last().is_some_and(|(of, _)| *of >= depth) {
            strings.pop();
        }
        let in_string = strings.last().is_some_and(|(_, is_string)| *is_string);
        let whole = whole_node(&node);
        let mut descend = whole.is_none();
        if let Some(highlight) = whole {
            if highlight == Highlight::String && has_insertion(&node) {
                strings.push((depth, true));
                descend = true;
            } else {
                found.push((node.byte_range(), highlight));
            }
        } else if in_string && is_insertion(node.kind()) {
            strings.push((depth, false));
        } else if node.child_count() == 0 {
            let highlight =
                if in_string { Some(Highlight::String) } else { leaf(&node, cursor.field_name()) };
            found.extend(highlight.map(|highlight| (node.byte_range(), highlight)));
        }
        if !goto_next(&mut cursor, descend) {
            found.retain(|(range, _)| !range.is_empty());
            return found;
        }
    }
}

/// The class of a node and everything in it.
pub(crate) fn whole_node(node: &Node) -> Option<Highlight> {
    let kind = node.kind();
    if !node.is_named() {
        return None;
    }
    if kind.contains("comment") || kind == "haddock" || kind == "hash_bang_line" || kind == "shebang" {
        return Some(Highlight::Comment);
    }
    let is_string = kind.contains("string") && !kind.contains("type") && !kind.contains("section");
    let is_character = kind.contains("char_lit")
        || kind.contains("character_lit")
        || matches!(kind, "character" | "char" | "rune_literal" | "regex" | "heredoc_body" | "quoted_atom");
    (is_string || is_character).then_some(Highlight::String)
}

pub(crate) fn has_insertion(node: &Node) -> bool {
    (0..node.child_count()).filter_map(|at| node.child(at)).any(|child| is_insertion(child.kind()))
}

/// Returns true if a kind of node is code within a string.
fn is_insertion(kind: &str) -> bool {
    kind.contains("interpolation") || kind.contains("substitution") || kind.contains("expansion")
}

fn leaf(node: &Node, field: Option<&str>) -> Option<Highlight> {
    let kind = node.kind();
    if !node.is_named() {
        let is_word = kind.starts_with(|c: char| c.is_ascii_alphabetic() || c == '#' || c == '@')
            && kind.chars().skip(1).all(|c| c.is_ascii_alphanumeric() || c == '_')
            && kind.len() > 1;
        return is_word.then_some(Highlight::Keyword);
    }
    if matches!(kind, "true" | "false" | "null" | "nil" | "none" | "self" | "this" | "super") {
        return Some(Highlight::Keyword);
    }
    if ["integer", "float", "number", "numeric", "int_literal", "decimal"]
        .iter()
        .any(|part| kind.contains(part))
    {
        return Some(Highlight::Number);
    }
    if kind.ends_with("type_identifier") || kind.ends_with("primitive_type") || kind == "predefined_type" {
        return Some(Highlight::Type);
    }
    let parent = node.parent()?;
    let parent_kind = parent.kind();
    let is_named_by = field == Some("name");
    if is_named_by && (parent_kind.contains("function") || parent_kind.contains("method"))
        || field == Some("function")
    {
        return Some(Highlight::Function);
    }
    let is_type = ["class", "struct", "enum", "interface", "trait", "type"]
        .iter()
        .any(|part| parent_kind.contains(part));
    if is_named_by && is_type {
        return Some(Highlight::Type);
    }
    // `object.method(…)`: the last part of the callee.
    let grandparent = parent.parent()?;
    let is_last = parent.end_byte() == node.end_byte();
    let is_called = grandparent
        .child_by_field_name("function")
        .is_some_and(|function| function.byte_range() == parent.byte_range());
    (is_last && is_called).then_some(Highlight::Function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{highlights, language_named};

    fn check(language: &str, source: &str, expected: &[(&str, Highlight)]) {
        let language = language_named(language).unwrap();
        let found = highlights(language, source.as_bytes());
        let found: Vec<(&str, Highlight)> =
            found.into_iter().map(|(range, highlight)| (&source[range], highlight)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn words_strings_numbers_and_names_are_found() {
        use Highlight::{Comment, Function, Keyword, Number, String, Type};
        check(
            "rust",
            "// Adds.\nfn add(a: Total) -> u8 { log::say(\"x\"); a.plus(1) }",
            &[
                ("// Adds.\n", Comment),
                ("fn", Keyword),
                ("add", Function),
                ("Total", Type),
                ("u8", Type),
                ("say", Function),
                ("\"x\"", String),
                ("plus", Function),
                ("1", Number),
            ]
            .map(|(text, highlight)| (text.trim_end_matches('\n'), highlight)),
        );
        check(
            "python",
            "def f(x):\n    return f\"a {len(x)} b\"  # why\n",
            &[
                ("def", Keyword),
                ("f", Function),
                ("return", Keyword),
                ("f\"", String),
                ("a ", String),
                ("len", Function),
                (" b", String),
                ("\"", String),
                ("# why", Comment),
            ],
        );
    }
}
