//! The tokens of a code in the form in which its copies are recognized: without layout, comments, documentation, imports and
//! annotated types, whatever its variables are called.

use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::{Node, Tree};

use crate::anonymous::is_variable;
use crate::highlight::{Highlight, has_insertion, whole_node};
use crate::traversal::goto_next;
use crate::unit::Function;

/// A code in the form in which its copies are recognized.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparableCode {
    /// Words, literals and operators in their order, without punctuation; `_` for the name of a variable: one that is not
    /// looked up in something, and not only called.
    pub tokens: Vec<String>,
    /// The bodies of the functions in the code, as ranges of tokens.
    pub bodies: Vec<Range<usize>>,
    /// Documentation of these functions and comments before the code, with their marks.
    pub documentation: Vec<String>,
    /// All comments and documentation, as ascending ranges of bytes.
    pub comments: Vec<Range<usize>>,
}

impl ComparableCode {
    /// The text that this was read from, without comments and documentation; unchanged if it consists of them.
    pub fn uncommented(&self, text: &str) -> String {
        let mut kept = String::with_capacity(text.len());
        let mut end = 0;
        for comment in &self.comments {
            kept.push_str(text.get(end..comment.start).unwrap_or_default());
            end = comment.end;
        }
        kept.push_str(text.get(end..).unwrap_or_default());
        if kept.trim().is_empty() { text.to_owned() } else { kept }
    }
}

/// Stands for the name of a variable.
const VARIABLE: &str = "_";

/// Signs before a name that is looked up in something.
const ACCESS: [&str; 4] = [".", "?.", "&.", "::"];

/// Signs that only separate, and so differ between styles.
const PUNCTUATION: [&str; 12] = ["(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "->", "=>"];

/// The tokens of `tree` within a range of bytes.
pub(crate) fn find_comparable(
    tree: &Tree,
    functions: &[Function],
    source: &[u8],
    within: &Range<usize>,
) -> ComparableCode {
    let mut found = ComparableCode::default();
    let (mut starts, mut comments) = (Vec::new(), Vec::<(usize, Range<usize>)>::new());
    let (mut callees, mut variables) = (Vec::new(), HashSet::new());
    // True if the leaf before looks the next one up in something.
    let mut is_member = false;
    let text = |bytes: Range<usize>| String::from_utf8_lossy(&source[bytes]).into_owned();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        let bytes = node.byte_range();
        let is_here = bytes.start < within.end && within.start < bytes.end;
        let mut descend = false;
        let role = role(&node);
        if is_here && matches!(role, NodeRole::Comment | NodeRole::Documentation) {
            let in_text = |byte: usize| byte.clamp(within.start, within.end) - within.start;
            found.comments.push(in_text(bytes.start)..in_text(bytes.end));
        }
        match role {
            _ if !is_here => {}
            NodeRole::Comment => match comments.last_mut() {
                // Lines of one comment.
                Some((at, last)) if *at == starts.len() && is_blank(&source[last.end..bytes.start]) => {
                    last.end = bytes.end;
                }
                _ => comments.push((starts.len(), bytes)),
            },
            NodeRole::Documentation => found.documentation.push(text(bytes)),
            NodeRole::Skipped => {}
            NodeRole::Text => {
                let content = text(bytes.clone());
                let letters = content.trim_start_matches(|c: char| c.is_ascii_alphabetic());
                let content = if letters.starts_with(['"', '\'', '`']) { letters } else { &content };
                let content = content.trim_matches(['"', '\'', '`']);
                if !content.is_empty() {
                    starts.push(bytes.start);
                    found.tokens.push(content.to_owned());
                }
            }
            NodeRole::Inner => descend = true,
            NodeRole::Leaf => {
                let leaf = text(bytes.clone());
                let was_member = std::mem::replace(&mut is_member, ACCESS.contains(&leaf.as_str()));
                if !leaf.trim().is_empty() && !PUNCTUATION.contains(&leaf.as_str()) {
                    let is_bare = is_variable(&node) && !was_member;
                    let after = source[bytes.end..].iter().find(|byte| !byte.is_ascii_whitespace());
                    let is_called = after == Some(&b'(');
                    if is_bare && is_called {
                        callees.push(found.tokens.len());
                    } else if is_bare {
                        variables.insert(leaf.clone());
                    }
                    starts.push(bytes.start);
                    found.tokens.push(if is_bare && !is_called { VARIABLE.to_owned() } else { leaf });
                }
            }
        }
        if !goto_next(&mut cursor, descend) {
            break;
        }
    }
    let token = |byte: usize| starts.partition_point(|start| *start < byte);
    for at in callees {
        if variables.contains(&found.tokens[at]) {
            found.tokens[at] = VARIABLE.to_owned();
        }
    }
    let body = |function: &Function| token(function.body.start)..token(function.body.end);
    found.bodies = functions.iter().map(body).filter(|tokens| !tokens.is_empty()).collect();
    let documents = |at: usize| at == 0 || functions.iter().any(|function| token(function.bytes.start) == at);
    let comments = comments.into_iter().filter(|(at, _)| documents(*at));
    found.documentation.extend(comments.map(|(_, bytes)| text(bytes)));
    found
}

/// The part of a node in the form in which codes are compared.
enum NodeRole {
    Comment,
    Documentation,
    Skipped,
    /// A string, which is one token.
    Text,
    Inner,
    Leaf,
}

fn role(node: &Node<'_>) -> NodeRole {
    let kind = node.kind();
    if !node.is_named() {
        return if node.child_count() == 0 { NodeRole::Leaf } else { NodeRole::Inner };
    }
    match whole_node(node) {
        Some(Highlight::Comment) => return NodeRole::Comment,
        Some(_) if !has_insertion(node) => return NodeRole::Text,
        _ => {}
    }
    let is_import = kind.contains("import") && node.child_count() > 0
        || matches!(kind, "preproc_include" | "use_declaration" | "using_directive")
        || kind.starts_with("package_") && node.child_count() > 0
        || kind == "namespace_use_declaration";
    if is_import || matches!(kind, "type" | "type_annotation") {
        return NodeRole::Skipped;
    }
    let only =
        node.named_child(0).filter(|_| kind == "expression_statement" && node.named_child_count() == 1);
    if only.is_some_and(|only| whole_node(&only) == Some(Highlight::String) && !has_insertion(&only)) {
        return NodeRole::Documentation;
    }
    if node.child_count() == 0 { NodeRole::Leaf } else { NodeRole::Inner }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use crate::{comparable, language_named};

    #[track_caller]
    fn same(language: &str, codes: &[&str]) {
        let language = language_named(language).unwrap();
        let forms: Vec<Vec<String>> =
            codes.iter().map(|code| comparable(language, code).unwrap().tokens).collect();
        for (form, code) in forms.iter().zip(codes) {
            assert_eq!(*form, forms[0], "{code}");
        }
    }

    #[test]
    fn copies_have_the_same_tokens() {
        same(
            "python",
            &[
                "def sort(values, key):\n    found = values.copy()\n    return sorted(found, key=key)[0]\n",
                "import os\nfrom re import sub\n\n# By the key.\ndef sort(values, key):\n    \"\"\"Sort.\"\"\"\n    # one\n    \
                 found = values.copy()  # two\n    return sorted(found, key=key)[0]\n",
                "def sort(xs: list[int], by: 'Key') -> int:\n    copy: list = xs.copy()\n    return sorted(copy, by=by)[0]\n",
            ],
        );
        same(
            "python",
            &["def f(a):\n    return a\n", "def f(a):  # One.\n    # Two.\n    return a  # three\n"],
        );
        same(
            "typescript",
            &[
                "function sum(xs) {\n  let n = 0;\n  for (const x of xs) n += x.size();\n  return n;\n}",
                "import { y } from 'y';\n/** Sums. */\nfunction sum(list: Item[]): number { let total: number = 0; \
                 for (const item of list) total += item.size(); return total }",
            ],
        );
        same(
            "java",
            &[
                "int add(List<Integer> xs) {\n  int n = 0;\n  for (int x : xs) n += x;\n  return n;\n}",
                "/** Adds. */\nint add(List<Integer> numbers) {\n  int sum = 0; // none\n  for (int one : numbers) sum += one;\n  return sum; }",
            ],
        );
        same(
            "go",
            &[
                "func F(a int) int {\n\treturn g.Add(a, 'x')\n}",
                "// F adds.\nfunc F(b int) int { return g.Add(b, 'x') }",
            ],
        );
    }

    #[test]
    fn behavior_is_compared() {
        let tokens =
            |code: &str| comparable(language_named("python").unwrap(), code).unwrap().tokens.join(" ");
        let code = "def f(a):\n    return a.x + g(a, \"b\") - 1\n";
        assert_eq!(tokens(code), "def f _ return _ x + g _ b - 1");
        for other in [
            code.replace(".x", ".y"),
            code.replace("g(", "h("),
            code.replace('+', "*"),
            code.replace("\"b\"", "\"c\""),
            code.replace('1', "2"),
        ] {
            assert_ne!(tokens(code), tokens(&other), "{other}");
        }
    }

    #[test]
    fn functions_and_documentation_are_found() {
        let code = "# Sort a list.\ndef sort(a):\n    'By length.'\n    # inner\n    return a\n\n# Then.\ndef other(b):\n    return b\n";
        let found = comparable(language_named("python").unwrap(), code).unwrap();
        assert_eq!(found.tokens.join(" "), "def sort _ return _ def other _ return _");
        assert_eq!(found.bodies, [3..5, 8..10]);
        assert_eq!(found.documentation, ["'By length.'", "# Sort a list.", "# Then."]);
        assert_eq!(
            found.uncommented(code),
            "\ndef sort(a):\n    \n    \n    return a\n\n\ndef other(b):\n    return b\n"
        );
        // A method that stands alone.
        let found =
            comparable(language_named("java").unwrap(), "/** One. */ int one() { return 1; }").unwrap();
        assert_eq!(found.tokens.join(" "), "int one return 1");
        assert_eq!((found.bodies.len(), &found.bodies[0]), (1, &(2..4)));
        assert_eq!(comparable(language_named("markdown").unwrap(), "# Title"), None);
    }
}
