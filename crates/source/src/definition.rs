//! Finds the functions and types of a syntax tree.

use std::ops::Range;

use tree_sitter::{Node, QueryCursor, StreamingIterator, Tree, TreeCursor};

use crate::comment::{comment_text, docstring_text};
use crate::line::Lines;
use crate::rules::{Capture, Role, Rules};
use crate::size::{fits_window, is_long};
use crate::traversal::goto_next;
use crate::unit::{MAX_NAME_BYTES, MAX_SIGNATURE_BYTES, UnitKind, truncate};

/// A named definition that becomes one unit or, if it is long, several.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) kind: UnitKind,
    pub(crate) name: String,
    pub(crate) signature: String,
    pub(crate) doc: String,
    pub(crate) doc_bytes: Vec<Range<usize>>,
    /// Span, including the leading comment and decorators.
    pub(crate) bytes: Range<usize>,
    /// True if it may contain other definitions, which become separate units.
    pub(crate) is_open: bool,
}

/// Maximum nesting of containers in which definitions are found: qualified names for every level would take
/// memory quadratic in the size of a hostile file.
const MAX_NESTING: usize = 32;

/// The definitions, nesting depths and tests of a file.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    /// In ascending order of starts; disjoint, except that those within an open one follow it.
    pub(crate) definitions: Vec<Definition>,
    /// For each row, the depth in the tree of the node that begins there: the lower, the better to split before it.
    /// `u16::MAX` if nothing begins there, if a comment belongs to the node, or within definitions that are not
    /// open. Empty for files without a tree.
    pub(crate) row_depths: Vec<u16>,
    /// Bytes of tests, and of scopes that contain tests: ascending, disjoint.
    pub(crate) test_bytes: Vec<Range<usize>>,
}

/// Finds the definitions of `tree` in one walk, which skips the bodies of short functions.
pub(crate) fn find_definitions(
    tree: &Tree,
    rules: &Rules,
    lines: &Lines,
    query_cursor: &mut QueryCursor,
) -> Structure {
    let mut cursor = tree.walk();
    let mut finder = Finder {
        rules,
        lines,
        source: lines.source(),
        query_cursor,
        header_cursor: tree.walk(),
        names: Vec::new(),
        run: None,
        wrapped: None,
        path: String::new(),
        containers: Vec::new(),
        last_row: None,
        structure: Structure { row_depths: vec![u16::MAX; lines.count()], ..Structure::default() },
    };
    let mut depth = 0;
    'walk: loop {
        if finder.visit(cursor.node(), depth) && cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                break 'walk;
            }
            depth -= 1;
        }
    }
    finder.structure
}

/// Maximum number of line ends between documentation and what it documents.
const MAX_DOC_LINE_ENDS: usize = 4;

/// Number of bytes of a comment that are searched for signs that it is about the whole file.
const HEADER_BYTES: usize = 2000;

/// Words of comments about the whole file, such as licenses.
const HEADER_WORDS: [&[u8]; 4] = [b"opyright", b"icense", b"@file", b"@module"];

/// Comments and prefixes without blank lines between them, except below documentation.
struct Run {
    bytes: Range<usize>,
    /// True if it begins on a line with other code, to which it belongs.
    is_trailing: bool,
    /// True if it contains documentation.
    is_doc: bool,
    comments: Vec<Range<usize>>,
    /// True if one of the prefixes marks a test.
    is_test: bool,
}

/// The outermost of the wrappers around a definition.
struct Wrapped<'tree> {
    node: Node<'tree>,
    depth: usize,
    run: Option<Run>,
}

/// A definition or scope that encloses the current node of the walk.
struct Container {
    depth: usize,
    /// Length of the path of names around it.
    path_length: usize,
    is_type: bool,
    /// Start of its members, which follow its header.
    body_start: usize,
}

/// The captures of the matches at one node, except names.
#[derive(Default)]
struct Matched<'tree> {
    is_function: bool,
    is_method: bool,
    is_type: bool,
    is_scope: bool,
    is_test: bool,
    has_owner: bool,
    body: Option<Node<'tree>>,
    doc: Option<Node<'tree>>,
}

/// The value captured by the pattern that comes first in the rule file.
struct First<T> {
    pattern: usize,
    value: Option<T>,
}

impl<T> Default for First<T> {
    fn default() -> Self {
        Self { pattern: usize::MAX, value: None }
    }
}

impl<T> First<T> {
    /// Takes `value` if `pattern` precedes all previous ones; returns whether it does.
    fn offer(&mut self, pattern: usize, value: T) -> bool {
        let is_first = pattern < self.pattern;
        if is_first {
            *self = Self { pattern, value: Some(value) };
        }
        is_first
    }
}

struct Finder<'a, 'tree> {
    rules: &'a Rules,
    lines: &'a Lines<'a>,
    source: &'a [u8],
    query_cursor: &'a mut QueryCursor,
    header_cursor: TreeCursor<'tree>,
    /// Names of the last matched node: owner, then name.
    names: Vec<Node<'tree>>,
    run: Option<Run>,
    wrapped: Option<Wrapped<'tree>>,
    /// Qualified name of the innermost container.
    path: String,
    containers: Vec<Container>,
    last_row: Option<usize>,
    structure: Structure,
}

impl<'tree> Finder<'_, 'tree> {
    /// Visits a node, in document order; returns whether to visit its children.
    fn visit(&mut self, node: Node<'tree>, depth: usize) -> bool {
        while let Some(container) = self.containers.pop_if(|container| container.depth >= depth) {
            self.path.truncate(container.path_length);
            // Broken syntax can put a comment and the code after it into different containers.
            self.run = None;
        }
        let role = self.rules.role(node.kind_id());
        self.note_row(node, depth, role);
        if role.is(Role::COMMENT) || role.is(Role::PREFIX) {
            self.extend_run(node.byte_range(), role.is(Role::COMMENT));
            return false;
        }
        if let Some(container) = self.containers.last()
            && node.start_byte() < container.body_start
        {
            return node.end_byte() > container.body_start;
        }
        if role.is(Role::WRAPPER) {
            if !self.holds_one_definition(node) {
                self.wrapped = None;
            } else if self.wrapped.is_none() {
                self.wrapped = Some(Wrapped { node, depth, run: self.take_run(node.start_byte()) });
            }
        }
        if role.is(Role::CANDIDATE)
            && let Some(matched) = self.match_node(node)
        {
            return self.define(node, depth, &matched);
        }
        if role.is(Role::CANDIDATE) && !role.is(Role::WRAPPER) {
            self.wrapped = None;
        }
        !role.is(Role::CLOSURE) || !fits_window(self.lines, &node.byte_range())
    }

    /// Records the depth of the outermost node that begins a row.
    fn note_row(&mut self, node: Node, depth: usize, role: Role) {
        let row = node.start_position().row;
        if self.last_row == Some(row) {
            return;
        }
        self.last_row = Some(row);
        let follows_comment =
            || self.run.as_ref().is_some_and(|run| self.is_adjacent(run, node.start_byte()));
        // There is an extra row if the parser was given an extra line end.
        let is_row = row < self.structure.row_depths.len();
        if role.is(Role::NAMED) && is_row && !follows_comment() {
            self.structure.row_depths[row] = u16::try_from(depth).unwrap_or(u16::MAX);
        }
    }

    /// Adds a comment or prefix to the run that it continues, or begins a new run.
    fn extend_run(&mut self, bytes: Range<usize>, is_comment: bool) {
        // Some grammars include the line end in a line comment.
        let bytes = bytes.start..bytes.start + self.source[bytes].trim_ascii_end().len();
        let mut run = match self.run.take() {
            Some(run) if self.is_adjacent(&run, bytes.start) => run,
            _ => Run {
                bytes: bytes.clone(),
                is_trailing: !self.begins_line(bytes.start),
                is_doc: false,
                comments: Vec::new(),
                is_test: false,
            },
        };
        run.bytes.end = bytes.end;
        run.is_doc |= self.is_doc(&bytes);
        let begins_with_one_of = |starts: &[String]| {
            starts.iter().any(|start| self.source[bytes.clone()].starts_with(start.as_bytes()))
        };
        if !is_comment {
            run.is_test |= begins_with_one_of(&self.rules.test_prefixes);
            if begins_with_one_of(&self.rules.doc_prefixes) {
                run.comments.push(bytes);
            }
        } else if !begins_with_one_of(&self.rules.directives) {
            run.comments.push(bytes);
        }
        self.run = Some(run);
    }

    /// The run that ends directly above `byte` or on its line.
    fn take_run(&mut self, byte: usize) -> Option<Run> {
        // Consumed in either case, so that no white space is examined twice.
        self.run.take().filter(|run| self.is_adjacent(run, byte))
    }

    fn is_adjacent(&self, run: &Run, byte: usize) -> bool {
        let Some(between) = self.source.get(run.bytes.end..byte) else { return false };
        let max_newlines = match run {
            Run { is_trailing: true, .. } => 0,
            Run { is_doc: true, .. } => MAX_DOC_LINE_ENDS,
            _ => 1,
        };
        let mut newlines = 0;
        between.iter().all(|byte| {
            newlines += usize::from(*byte == b'\n');
            byte.is_ascii_whitespace() && newlines <= max_newlines
        })
    }

    /// Returns whether a comment or prefix documents the code after it, even with blank lines in between.
    fn is_doc(&self, bytes: &Range<usize>) -> bool {
        let text = &self.source[bytes.clone()];
        let rest = self.rules.docs.iter().find_map(|start| {
            let rest = text.strip_prefix(start.as_bytes())?;
            // `////` and `/***/` are rulers, `/**/` is empty, and `///<` documents the code before it.
            let last = start.as_bytes().last();
            rest.first().filter(|next| Some(*next) != last && !b"/<".contains(next)).map(|_| rest)
        });
        let is_of_file = |text: &[u8]| {
            let text = &text[..text.len().min(HEADER_BYTES)];
            HEADER_WORDS.iter().any(|word| text.windows(word.len()).any(|window| window == *word))
        };
        rest.is_some_and(|rest| !is_of_file(rest))
    }

    fn begins_line(&self, byte: usize) -> bool {
        // A byte order mark is before the first line.
        let before = self.source.get(self.lines.start(0)..byte).unwrap_or_default();
        let before = before.iter().rev().find(|byte| **byte == b'\n' || !byte.is_ascii_whitespace());
        before.is_none_or(|byte| *byte == b'\n')
    }

    /// Returns whether exactly one child of `node` may be a definition.
    fn holds_one_definition(&mut self, node: Node<'tree>) -> bool {
        self.header_cursor.reset(node);
        let mut candidates = 0;
        let mut more = self.header_cursor.goto_first_child();
        while more && candidates < 2 {
            let role = self.rules.role(self.header_cursor.node().kind_id());
            candidates += usize::from(role.is(Role::CANDIDATE) || role.is(Role::WRAPPER));
            more = self.header_cursor.goto_next_sibling();
        }
        candidates == 1
    }

    /// Combines all matches at `node`; of several patterns that capture the same thing, the first in the rule
    /// file counts.
    fn match_node(&mut self, node: Node<'tree>) -> Option<Matched<'tree>> {
        let mut matched = Matched::default();
        let (mut owner, mut body, mut doc) = (First::default(), First::default(), First::default());
        let mut name_match = First::default();
        self.names.clear();
        let mut matches = self.query_cursor.matches(&self.rules.query, node, self.source);
        while let Some(query_match) = matches.next() {
            let pattern = query_match.pattern_index;
            let mut is_naming = false;
            for capture in query_match.captures() {
                let Some(meaning) = self.rules.captures[capture.index as usize] else { continue };
                match meaning {
                    Capture::Function => matched.is_function = true,
                    Capture::Method => matched.is_method = true,
                    Capture::Type => matched.is_type = true,
                    Capture::Scope => matched.is_scope = true,
                    Capture::Test => matched.is_test = true,
                    Capture::Owner => _ = owner.offer(pattern, capture.node),
                    Capture::Body => _ = body.offer(pattern, capture.node),
                    Capture::Doc => _ = doc.offer(pattern, capture.node),
                    Capture::Name if is_naming => self.names.push(capture.node),
                    Capture::Name if name_match.offer(pattern, ()) => {
                        is_naming = true;
                        self.names.clear();
                        self.names.push(capture.node);
                    }
                    Capture::Name => {}
                }
            }
        }
        matched.body = body.value;
        matched.doc = doc.value;
        matched.has_owner = owner.value.is_some();
        if let Some(owner) = owner.value {
            self.names.insert(0, owner);
        }
        (matched.is_function || matched.is_method || matched.is_type || matched.is_scope).then_some(matched)
    }

    /// Records a match; returns whether to look for definitions in it.
    fn define(&mut self, node: Node<'tree>, depth: usize, matched: &Matched<'tree>) -> bool {
        let wrapped = self.wrapped.take();
        let (outer, depth) = wrapped.as_ref().map_or((node, depth), |wrapped| (wrapped.node, wrapped.depth));
        let outer_run = wrapped.and_then(|wrapped| wrapped.run);
        let is_function = matched.is_function || matched.is_method;
        let path_length = self.path.len();
        self.append_names();
        let may_open = self.containers.len() < MAX_NESTING;
        let mut is_open = may_open;
        let mut start = outer.start_byte();
        let mut comments = Vec::new();
        let mut is_test = matched.is_test;
        for run in [outer_run, self.take_run(node.start_byte())].into_iter().flatten() {
            start = start.min(run.bytes.start);
            is_test |= run.is_test;
            if comments.is_empty() {
                comments = run.comments;
            }
        }
        // Some grammars include the line end in a node, or put a missing first token before white space.
        let text = self.source[start..outer.end_byte()].trim_ascii_start();
        let start = outer.end_byte() - text.len();
        let end = start + text.trim_ascii_end().len();
        if is_test && self.structure.test_bytes.last().is_none_or(|last| last.end <= start) {
            self.structure.test_bytes.push(start..end);
        }
        if is_function || matched.is_type {
            let in_type = self.containers.last().is_some_and(|container| container.is_type);
            is_open = may_open && (matched.is_type || is_long(self.lines, &(start..end)));
            let (doc, doc_bytes) = self.doc(matched.doc, &comments);
            let body_start = matched.body.map_or(outer.end_byte(), |body| body.start_byte());
            let kind = match () {
                () if matched.is_type => UnitKind::Type,
                () if matched.is_method || matched.has_owner || in_type => UnitKind::Method,
                () => UnitKind::Function,
            };
            if self.continues_definition(kind, start) {
                if let Some(last) = self.structure.definitions.last_mut() {
                    last.bytes.end = end;
                }
                self.path.truncate(path_length);
                return false;
            }
            let signature = self.signature(outer, matched.doc, body_start);
            self.structure.definitions.push(Definition {
                kind,
                name: self.path.clone(),
                signature,
                doc,
                doc_bytes,
                bytes: start..end,
                is_open,
            });
        }
        if is_open {
            let body_start = matched.body.map_or(node.start_byte(), |body| body.start_byte());
            self.containers.push(Container { depth, path_length, is_type: matched.is_type, body_start });
        } else {
            self.path.truncate(path_length);
        }
        is_open
    }

    /// Returns whether a function of the current path that begins at `start` is a further clause of the last
    /// definition.
    fn continues_definition(&self, kind: UnitKind, start: usize) -> bool {
        let is_continued = |last: &Definition| {
            let between = self.source.get(last.bytes.end..start);
            !last.is_open
                && (last.kind, &last.name) == (kind, &self.path)
                && between.is_some_and(|between| between.iter().all(|byte| b";. \t\r\n".contains(byte)))
        };
        self.rules.clauses
            && kind != UnitKind::Type
            && self.structure.definitions.last().is_some_and(is_continued)
    }

    /// Appends the parts of the last matched names to the path.
    fn append_names(&mut self) {
        let length = self.path.len();
        let mut append = |part: &str| {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(part);
        };
        let mut last = None;
        for node in &self.names {
            let bytes = &self.source[node.byte_range()];
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_NAME_BYTES)]);
            for part in name_parts(&text, &self.rules.name_separators) {
                if !self.rules.name_omits.iter().any(|omit| omit == part) {
                    append(part);
                }
                last = Some(part.to_owned());
            }
        }
        // A name that consists of omitted parts only, such as `module.exports`.
        if let (true, Some(last)) = (self.path.len() == length, last) {
            self.path.push_str(if length > 0 { "." } else { "" });
            self.path.push_str(&last);
        }
    }

    /// The docstring, or else the text of `comments`, and its spans.
    fn doc(&self, docstring: Option<Node>, comments: &[Range<usize>]) -> (String, Vec<Range<usize>>) {
        let text = |bytes: &Range<usize>| String::from_utf8_lossy(&self.source[bytes.clone()]);
        if let Some(docstring) = docstring {
            return (docstring_text(&text(&docstring.byte_range())), vec![docstring.byte_range()]);
        }
        let texts: Vec<_> = comments.iter().map(text).collect();
        let mut docstrings = comments.iter().zip(&texts).filter_map(|(bytes, text)| {
            let mut prefixes = self.rules.doc_prefixes.iter();
            let prefix = prefixes.find(|prefix| text.starts_with(prefix.as_str()))?;
            // The quotes belong to the literal.
            Some((bytes, if prefix.ends_with('"') { text } else { &text[prefix.len()..] }))
        });
        if let Some((bytes, literal)) = docstrings.next_back() {
            // A prefix without quotes states that there is no documentation: `@doc false`.
            let doc = if literal.contains('"') { docstring_text(literal) } else { String::new() };
            let bytes = if doc.is_empty() { Vec::new() } else { vec![bytes.clone()] };
            return (doc, bytes);
        }
        let doc = comment_text(texts.iter().map(AsRef::as_ref), self.rules.doc_markup);
        if doc.is_empty() {
            return (doc, Vec::new());
        }
        let mut doc_bytes: Vec<Range<usize>> = Vec::new();
        for comment in comments {
            match doc_bytes.last_mut() {
                Some(last) if self.source[last.end..comment.start].trim_ascii().is_empty() => {
                    last.end = comment.end
                }
                _ => doc_bytes.push(comment.clone()),
            }
        }
        (doc, doc_bytes)
    }

    /// The text from the start of `outer` to the body, without comments, the docstring and the prefixes before the name.
    fn signature(&mut self, outer: Node<'tree>, doc: Option<Node<'tree>>, body_start: usize) -> String {
        let name_start = self.names.last().map_or(body_start, Node::start_byte);
        let mut header = Vec::new();
        let mut position = outer.start_byte();
        let cursor = &mut self.header_cursor;
        cursor.reset(outer);
        loop {
            let node = cursor.node();
            if node.start_byte() >= body_start || header.len() > MAX_HEADER_BYTES {
                break;
            }
            let role = self.rules.role(node.kind_id());
            let is_doc = doc.is_some_and(|doc| doc == node);
            let is_left_out =
                is_doc || role.is(Role::COMMENT) || role.is(Role::PREFIX) && node.start_byte() < name_start;
            if is_left_out {
                header.extend_from_slice(&self.source[position..node.start_byte()]);
                position = node.end_byte();
            }
            if !goto_next(cursor, !is_left_out) {
                break;
            }
        }
        let rest = self.source.get(position..body_start).unwrap_or_default();
        header.extend_from_slice(&rest[..rest.len().min(MAX_HEADER_BYTES)]);
        collapse_header(&String::from_utf8_lossy(&header))
    }
}

/// Maximum length of a header that is read: enough to fill a signature, unless it is mostly white space.
const MAX_HEADER_BYTES: usize = 4 * MAX_SIGNATURE_BYTES;

/// A declaration on one line, without the `{`, `:`, `=`, `;` or `,` after it, and without trailing commas in a list
/// that was written on several lines.
fn collapse_header(header: &str) -> String {
    let mut signature = String::new();
    for word in header.split_whitespace() {
        let ends_list = word.starts_with([')', ']', '>', '}']) && signature.ends_with(',');
        if ends_list {
            signature.pop();
        }
        // `f<` opens a list; `a <` is a comparison.
        let opens_types = signature.ends_with('<') && !signature.ends_with(" <");
        let is_tight = signature.ends_with(['(', '['])
            || opens_types
            || word.starts_with([')', ']', ','])
            || ends_list && word.starts_with('>');
        if !signature.is_empty() && !is_tight {
            signature.push(' ');
        }
        signature.push_str(word);
    }
    truncate(&mut signature, MAX_SIGNATURE_BYTES);
    signature.truncate(signature.trim_end_matches([' ', '{', ':', '=', ';', ',']).len());
    signature
}

/// The parts of a name as written in the source: `a` and `b` of `a::b`, without type arguments, quotes and
/// brackets.
fn name_parts<'text>(text: &'text str, separators: &[String]) -> Vec<&'text str> {
    let mut parts = Vec::new();
    let mut nesting = 0usize;
    let (mut start, mut position) = (0, 0);
    while let Some(character) = text[position..].chars().next() {
        match character {
            '<' | '(' | '[' => nesting += 1,
            '>' | ')' | ']' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        let separator = separators.iter().find(|separator| text[position..].starts_with(separator.as_str()));
        if let (0, Some(separator)) = (nesting, separator) {
            parts.push(&text[start..position]);
            position += separator.len();
            start = position;
        } else {
            position += character.len_utf8();
        }
    }
    parts.push(&text[start..]);
    for part in &mut parts {
        *part = part.trim().trim_matches(['"', '\'', '`']);
        *part = part.strip_prefix('[').and_then(|part| part.strip_suffix(']')).unwrap_or(part);
        if let (Some(arguments), true) = (part.find('<'), part.ends_with('>')) {
            *part = part[..arguments].trim_end();
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |text, separators: &[&str], expected: &[&str]| {
            let separators: Vec<String> = separators.iter().map(ToString::to_string).collect();
            assert_eq!(name_parts(text, &separators), expected);
        };
        check("f", &[], &["f"]);
        check("print.data.frame", &[], &["print.data.frame"]);
        check("Foo.prototype.bar", &["."], &["Foo", "prototype", "bar"]);
        check("Map<K, a::V>::get", &["::"], &["Map", "get"]);
        check("'quoted key'", &["."], &["quoted key"]);
        check("[Symbol.iterator]", &["."], &["Symbol.iterator"]);
        check("M:f", &[".", ":"], &["M", "f"]);
        check("operator<<", &["::"], &["operator<<"]);
        check("", &["."], &[]);
    }

    #[test]
    fn headers() {
        let check = |header: &str, expected| assert_eq!(collapse_header(header), expected);
        check("def f(\n    a,\n    b,\n):", "def f(a, b)");
        check("fn f<\n    A,\n    B,\n>(\n    a: A,\n) -> B {", "fn f<A, B>(a: A) -> B");
        check("fn f(a: (u8,), b: [u8; 2],) {", "fn f(a: (u8,), b: [u8; 2],)");
        check("fn f() {", "fn f()");
        check("const f = (a) => ", "const f = (a) =>");
        check("fun f() =", "fun f()");
        assert_eq!(collapse_header(&"é".repeat(1000)).len(), MAX_SIGNATURE_BYTES);
    }
}
