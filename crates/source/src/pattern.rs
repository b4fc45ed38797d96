//! Matches the patterns of rule files at single nodes.
//!
//! The patterns are tree-sitter's. Its own queries are made for walking whole trees: starting one at each call in a
//! file requires setting it up each time, and analyzing the patterns of a language takes time in every process.
//! These patterns are matched by inspecting the children of a node. Unsupported constructs, repetitions and groups
//! of siblings, are left to queries ([`parse`]).

use std::ops::Range;

use regex::bytes::Regex;
use tree_sitter::{Language, Node, TreeCursor};

type FieldId = std::num::NonZeroU16;

/// A pattern that begins at a node.
pub(crate) struct Pattern {
    test: NodeTest,
    predicates: Vec<Predicate>,
}

/// Kinds of nodes.
enum Kind {
    /// Any node that is not an error.
    Any,
    /// Any named node.
    Named,
    One(u16),
    /// Kinds of a supertype.
    OneOf(Vec<u16>),
}

struct NodeTest {
    kind: Kind,
    /// Numbers of the captures of the node.
    captures: Vec<u32>,
    /// Fields that it must not have.
    absent: Vec<FieldId>,
    /// In order, possibly with other nodes between them.
    children: Vec<Child>,
    /// True if no named node may follow the last of the children.
    is_closed: bool,
}

struct Child {
    /// Any of these.
    tests: Vec<NodeTest>,
    field: Option<FieldId>,
    /// True if no named node may be between the previous child and this one.
    is_immediate: bool,
    is_optional: bool,
}

/// A condition on the text of all nodes with a capture.
#[derive(Clone)]
struct Predicate {
    capture: u32,
    condition: Condition,
}

#[derive(Clone)]
enum Condition {
    OneOf(Vec<String>),
    NoneOf(Vec<String>),
    Matches(Regex),
}

/// The reason why a pattern cannot be parsed here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// It may still be valid for a query.
    Unknown,
    /// The grammar does not have this kind of node.
    UnknownKind(String),
}

/// Reads a pattern as [`parse`] does.
pub(crate) type ParsePattern = fn(&str, &Language, &mut Vec<String>) -> Result<Vec<Pattern>, PatternError>;

/// Parses a pattern; `captures` are the names of captures so far. Returns several if its outermost node is a
/// choice.
///
/// # Errors
/// When it contains an unsupported construct.
pub(crate) fn parse(
    text: &str,
    grammar: &Language,
    captures: &mut Vec<String>,
) -> Result<Vec<Pattern>, PatternError> {
    let mut parser = Parser { rest: text, grammar, captures, predicates: Vec::new() };
    let tests = parser.tests()?;
    parser.skip_space();
    if !parser.rest.is_empty() {
        return Err(PatternError::Unknown);
    }
    let predicates = parser.predicates;
    Ok(tests.into_iter().map(|test| Pattern { test, predicates: predicates.clone() }).collect())
}

/// The patterns of a rule file, each with the text up to the next one.
pub(crate) fn split(patterns: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    let (mut depth, mut is_quoted, mut is_comment, mut is_escaped) = (0_usize, false, false, false);
    for (at, character) in patterns.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\n' => is_comment = false,
            _ if is_comment => {}
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            ';' => is_comment = true,
            '(' | '[' => {
                if depth == 0 {
                    starts.push(at);
                }
                depth += 1;
            }
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let ends = starts.iter().skip(1).copied().chain([patterns.len()]);
    starts.iter().zip(ends).map(|(start, end)| &patterns[*start..end]).collect()
}

struct Parser<'a> {
    rest: &'a str,
    grammar: &'a Language,
    captures: &'a mut Vec<String>,
    predicates: Vec<Predicate>,
}

impl<'a> Parser<'a> {
    fn skip_space(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with(';') {
                return;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    /// Consumes a token if it comes next.
    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), PatternError> {
        if self.take(token) { Ok(()) } else { Err(PatternError::Unknown) }
    }

    /// A name, if one comes next.
    fn name(&mut self) -> &'a str {
        self.skip_space();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let (name, rest) = self.rest.split_at(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        name
    }

    /// A quoted text, after its opening quote.
    fn quoted(&mut self) -> Result<String, PatternError> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                    _ => return Err(PatternError::Unknown),
                },
                _ => text.push(character),
            }
        }
        Err(PatternError::Unknown)
    }

    /// The alternatives of a node, with the captures of all of them.
    fn tests(&mut self) -> Result<Vec<NodeTest>, PatternError> {
        let mut tests = Vec::new();
        if self.take("[") {
            while !self.take("]") {
                tests.extend(self.tests()?);
            }
        } else if self.take("\"") {
            let text = self.quoted()?;
            tests.push(NodeTest::new(Kind::One(self.kind(&text, false)?)));
        } else if self.take("(") {
            self.skip_space();
            if self.rest.starts_with(['(', '[']) {
                // One pattern with its predicates; several would be siblings.
                tests = self.tests()?;
                self.predicates()?;
                self.expect(")")?;
            } else {
                tests.push(self.node()?);
            }
        } else if self.name() == "_" {
            tests.push(NodeTest::new(Kind::Any));
        } else {
            return Err(PatternError::Unknown);
        }
        while self.take("@") {
            let capture = self.capture();
            tests.iter_mut().for_each(|test| test.captures.push(capture));
        }
        Ok(tests)
    }

    fn capture(&mut self) -> u32 {
        let name = self.name();
        let known = self.captures.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.captures.push(name.to_owned());
            self.captures.len() - 1
        }) as u32
    }

    fn kind(&self, name: &str, is_named: bool) -> Result<u16, PatternError> {
        match self.grammar.id_for_node_kind(name, is_named) {
            0 => Err(PatternError::UnknownKind(name.to_owned())),
            id => Ok(id),
        }
    }

    /// A node, after its opening bracket.
    fn node(&mut self) -> Result<NodeTest, PatternError> {
        let kind = match self.name() {
            "_" => Kind::Named,
            "" | "ERROR" | "MISSING" => return Err(PatternError::Unknown),
            name => match self.kind(name, true)? {
                id if self.grammar.node_kind_is_supertype(id) => Kind::OneOf(subtypes(self.grammar, id)),
                id => Kind::One(id),
            },
        };
        let mut test = NodeTest::new(kind);
        let mut is_immediate = false;
        loop {
            self.skip_space();
            if self.rest.starts_with("(#") {
                self.predicates()?;
            } else if self.take(")") {
                test.is_closed = is_immediate && !test.children.is_empty();
                return Ok(test);
            } else if self.take("!") {
                let field = self.name();
                test.absent.push(self.field(field)?);
            } else if self.take(".") {
                is_immediate = true;
            } else {
                let mut child = self.child()?;
                let is_any = |last: &Child| last.tests.iter().any(|test| matches!(test.kind, Kind::Any));
                if is_immediate && test.children.last().is_some_and(is_any) {
                    // After a wildcard, queries also count unnamed nodes.
                    return Err(PatternError::Unknown);
                }
                child.is_immediate = is_immediate;
                is_immediate = false;
                test.children.push(child);
            }
        }
    }

    fn field(&self, name: &str) -> Result<FieldId, PatternError> {
        self.grammar.field_id_for_name(name).ok_or(PatternError::Unknown)
    }

    fn child(&mut self) -> Result<Child, PatternError> {
        let before = self.rest;
        let name = self.name();
        let field = if !name.is_empty() && self.take(":") {
            Some(self.field(name)?)
        } else {
            self.rest = before;
            None
        };
        let mut tests = self.tests()?;
        let is_optional = self.take("?");
        if self.take("+") || self.take("*") {
            return Err(PatternError::Unknown);
        }
        while self.take("@") {
            let capture = self.capture();
            tests.iter_mut().for_each(|test| test.captures.push(capture));
        }
        Ok(Child { tests, field, is_immediate: false, is_optional })
    }

    fn predicates(&mut self) -> Result<(), PatternError> {
        while self.take("(#") {
            let name = self.name();
            self.expect("?")?;
            self.expect("@")?;
            let capture = self.capture();
            let mut texts = Vec::new();
            while self.take("\"") {
                texts.push(self.quoted()?);
            }
            self.expect(")")?;
            let condition = match (name, &texts[..]) {
                ("any-of" | "eq", _) => Condition::OneOf(texts),
                ("not-any-of" | "not-eq", _) => Condition::NoneOf(texts),
                ("match", [expression]) => {
                    Condition::Matches(Regex::new(expression).map_err(|_| PatternError::Unknown)?)
                }
                _ => return Err(PatternError::Unknown),
            };
            self.predicates.push(Predicate { capture, condition });
        }
        Ok(())
    }
}

fn subtypes(grammar: &Language, supertype: u16) -> Vec<u16> {
    let mut kinds = Vec::new();
    let mut open = vec![supertype];
    while let Some(kind) = open.pop() {
        for &subtype in grammar.subtypes_for_supertype(kind) {
            if grammar.node_kind_is_supertype(subtype) {
                open.push(subtype);
            } else if !kinds.contains(&subtype) {
                kinds.push(subtype);
            }
        }
    }
    kinds
}

impl Condition {
    fn holds(&self, text: &[u8]) -> bool {
        let is_one = |texts: &[String]| texts.iter().any(|other| other.as_bytes() == text);
        match self {
            Self::OneOf(texts) => is_one(texts),
            Self::NoneOf(texts) => !is_one(texts),
            Self::Matches(expression) => expression.is_match(text),
        }
    }
}

impl NodeTest {
    fn new(kind: Kind) -> Self {
        Self { kind, captures: Vec::new(), absent: Vec::new(), children: Vec::new(), is_closed: false }
    }
}

impl Pattern {
    /// The kinds of nodes that it may match at; `None` for any kind.
    pub(crate) fn roots(&self) -> Option<&[u16]> {
        match &self.test.kind {
            Kind::One(kind) => Some(std::slice::from_ref(kind)),
            Kind::OneOf(kinds) => Some(kinds),
            Kind::Any | Kind::Named => None,
        }
    }
}

/// Matches patterns at nodes of one tree.
pub(crate) struct Matcher<'tree> {
    cursor: TreeCursor<'tree>,
    /// The children of the visited nodes, with their fields.
    children: Vec<(Node<'tree>, Option<FieldId>)>,
    captured: Vec<(u32, Node<'tree>)>,
    /// Number of visited nodes.
    n_looked: usize,
    is_over: bool,
}

/// Number of nodes visited between two checks of the clock.
const NODES_PER_LOOK: usize = 4096;

/// Callback for the captured nodes of a match.
type OnMatch<'a, 'tree> = &'a mut dyn FnMut(&[(u32, Node<'tree>)]);

/// Continuation after a match of a part of a pattern.
type Continuation<'a, 'tree> = &'a mut dyn FnMut(&mut Matcher<'tree>);

impl<'tree> Matcher<'tree> {
    pub(crate) fn new(cursor: TreeCursor<'tree>) -> Self {
        Self { cursor, children: Vec::new(), captured: Vec::new(), n_looked: 0, is_over: false }
    }

    /// Passes the captured nodes of each match of a pattern at a node to `found`, in the order of the nodes.
    /// Returns false if `is_over` reported that time is up, so that matches may be missing.
    pub(crate) fn match_at(
        &mut self,
        pattern: &Pattern,
        node: Node<'tree>,
        source: &[u8],
        is_over: &dyn Fn() -> bool,
        found: OnMatch<'_, 'tree>,
    ) -> bool {
        self.is_over = false;
        self.node(&pattern.test, node, is_over, &mut |matcher| {
            let holds = |predicate: &Predicate| {
                let mut captured =
                    matcher.captured.iter().filter(|(capture, _)| *capture == predicate.capture);
                captured.all(|(_, node)| predicate.condition.holds(&source[node.byte_range()]))
            };
            if pattern.predicates.iter().all(holds) {
                found(&matcher.captured);
            }
        });
        !self.is_over
    }

    fn node(
        &mut self,
        test: &NodeTest,
        node: Node<'tree>,
        is_over: &dyn Fn() -> bool,
        then: Continuation<'_, 'tree>,
    ) {
        self.n_looked += 1;
        if self.n_looked.is_multiple_of(NODES_PER_LOOK) {
            self.is_over |= is_over();
        }
        let is_kind = match &test.kind {
            Kind::Any => !node.is_error(),
            Kind::Named => node.is_named() && !node.is_error(),
            Kind::One(kind) => node.kind_id() == *kind,
            Kind::OneOf(kinds) => kinds.contains(&node.kind_id()),
        };
        if !is_kind || test.absent.iter().any(|field| node.child_by_field_id(field.get()).is_some()) {
            return;
        }
        let n_captured = self.captured.len();
        self.captured.extend(test.captures.iter().map(|capture| (*capture, node)));
        if test.children.is_empty() {
            then(self);
        } else {
            let start = self.children.len();
            self.cursor.reset(node);
            if self.cursor.goto_first_child() {
                loop {
                    self.children.push((self.cursor.node(), self.cursor.field_id()));
                    if !self.cursor.goto_next_sibling() {
                        break;
                    }
                }
            }
            let of_node = Children { test, nodes: start..self.children.len() };
            self.siblings(&of_node, (0, start), Anchor::AsWritten, is_over, then);
            self.children.truncate(start);
        }
        self.captured.truncate(n_captured);
    }

    /// Matches the remaining children of a test, from number `at`, with those of a node, from number `first`.
    fn siblings(
        &mut self,
        of: &Children,
        (at, first): (usize, usize),
        anchor: Anchor,
        is_over: &dyn Fn() -> bool,
        then: Continuation<'_, 'tree>,
    ) {
        let Some(child) = of.test.children.get(at) else { return then(self) };
        let is_last = of.test.is_closed && at + 1 == of.test.children.len();
        let is_immediate = match anchor {
            Anchor::AsWritten => child.is_immediate,
            Anchor::Void => false,
            Anchor::First => true,
        };
        for number in first..of.nodes.end {
            let (node, field) = self.children[number];
            let is_at_field = child.field.is_none() || child.field == field;
            if is_at_field && !(is_last && self.has_named(number + 1..of.nodes.end)) {
                for test in &child.tests {
                    self.node(test, node, is_over, &mut |matcher| {
                        matcher.siblings(of, (at + 1, number + 1), Anchor::AsWritten, is_over, then);
                    });
                }
            }
            if self.is_over || anchor == Anchor::First || is_immediate && node.is_named() {
                break;
            }
        }
        if child.is_optional && !(is_last && at > 0 && self.has_named(first..of.nodes.end)) {
            // The position that queries assume for an absent node.
            let next = match (child.is_immediate, at) {
                (false, _) => Anchor::Void,
                (true, 0) => Anchor::First,
                (true, _) => Anchor::AsWritten,
            };
            self.siblings(of, (at + 1, first), next, is_over, then);
        }
    }

    fn has_named(&self, nodes: Range<usize>) -> bool {
        self.children[nodes].iter().any(|(node, _)| node.is_named())
    }
}

/// The children of a node and the test that they must match.
struct Children<'a> {
    test: &'a NodeTest,
    nodes: Range<usize>,
}

/// Required distance of a child from the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    AsWritten,
    /// Anywhere after it.
    Void,
    /// The very first of all children.
    First,
}
