//! Extracts the data flow between variables as GraphCodeBERT's models were trained to read it (Guo et al., 2021).
//!
//! Every token of a function is numbered. A variable or literal is a node. Its sources are the tokens at which its
//! value was last assigned, or from which it is computed. The constructs that assign are data of the language
//! (`[data_flow]` in its rule file, see [`FlowRules`]). The order in which statements are walked follows the
//! original's extraction, including its omissions: the rules cover the constructs that the original knew, not all
//! that the language has.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use tree_sitter::{Node, Tree};

/// The tokens of a function, and the data flow between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataFlow {
    /// In order, without comments and docstrings. Line breaks within a token are removed.
    pub tokens: Vec<String>,
    /// Variables and literals that have a source or serve as one, in ascending order of their tokens. A token may
    /// have several.
    pub nodes: Vec<FlowNode>,
}

/// A use of a variable, or a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowNode {
    /// Number of its token.
    pub token: usize,
    /// Numbers of the tokens that its value comes from, ascending; may include its own.
    pub sources: Vec<usize>,
}

/// Data flow rules of a language. All lists are of node kinds, including words of the grammar.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FlowRules {
    /// Text before and after a function that is parsed; part of its tokens.
    pub(crate) around: [String; 2],
    /// Nodes that are a single token, whatever they contain.
    pub(crate) whole: Vec<String>,
    /// Statements that are ignored if they contain a single token of `whole`: docstrings.
    pub(crate) docs: Vec<String>,
    /// Declarations with the field `name` and an optional value.
    pub(crate) declarations: Vec<String>,
    /// The field of that value.
    pub(crate) value: Option<String>,
    /// Assignments of the field `right` to the field `left`.
    pub(crate) assignments: Vec<String>,
    /// Assignments of the last node to the first one.
    pub(crate) operator_assignments: Vec<String>,
    /// Assignments of the last node to the field `left`, visited before their siblings.
    pub(crate) clauses: Vec<String>,
    /// If true, the first value is assigned to the first name, the second to the second and so on; otherwise every
    /// value to every name.
    pub(crate) by_position: bool,
    /// Statements that compute each variable in them from all of them.
    pub(crate) increments: Vec<String>,
    /// Statements with parts that may not run.
    pub(crate) branches: Vec<String>,
    /// Parts of these at which the variables have their state before the statement.
    pub(crate) alternatives: Vec<String>,
    /// If true, all parts after an alternative are alternatives too.
    pub(crate) rest_is_alternative: bool,
    /// If true, the state of variables before a branch remains possible even if one of its parts must run.
    pub(crate) keeps_before: bool,
    /// Loops in which the part after a header runs twice.
    pub(crate) counting: Vec<CountingLoop>,
    /// Loops over the elements of something, which run twice.
    pub(crate) each: Vec<EachLoop>,
    /// Loops that run twice as a whole.
    pub(crate) loops: Vec<String>,
}

/// A loop with a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountingLoop {
    kind: String,
    /// Kind of the header.
    after: String,
    /// A field of the header that runs again.
    again: Option<String>,
}

/// A loop over the elements of something.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EachLoop {
    kind: String,
    /// The field of the variable.
    #[serde(default)]
    target: String,
    /// The field of the sequence.
    #[serde(default)]
    source: String,
    /// Kind of both, if they have no fields; the variable is the second one.
    #[serde(default)]
    both: String,
    /// True if several variables take several values.
    #[serde(default)]
    several: bool,
    /// The field of the body.
    #[serde(default)]
    body: String,
    /// Kind of the body, if it counts only as the last part.
    #[serde(default)]
    last: String,
}

impl FlowRules {
    /// Kinds and fields that the grammar lacks.
    #[cfg(test)]
    fn unknown(&self, grammar: &tree_sitter::Language) -> Vec<String> {
        let kinds =
            [&self.whole, &self.docs, &self.declarations, &self.assignments, &self.operator_assignments]
                .into_iter()
                .chain([&self.clauses, &self.increments, &self.branches, &self.alternatives, &self.loops])
                .flatten()
                .chain(self.counting.iter().flat_map(|counting| [&counting.kind, &counting.after]))
                .chain(self.each.iter().flat_map(|each| [&each.kind, &each.both, &each.last]));
        let fields = (self.value.iter())
            .chain(self.counting.iter().filter_map(|counting| counting.again.as_ref()))
            .chain(self.each.iter().flat_map(|each| [&each.target, &each.source, &each.body]));
        let has_kind =
            |kind: &str| [true, false].map(|named| grammar.id_for_node_kind(kind, named)) != [0, 0];
        let kinds = kinds.filter(|kind| !kind.is_empty() && !has_kind(kind));
        let fields = fields.filter(|field| !field.is_empty() && grammar.field_id_for_name(field).is_none());
        kinds.chain(fields).cloned().collect()
    }
}

/// Maximum number of steps of an extraction: nested loops double the work, and lists of variables multiply it.
const MAX_STEPS: usize = 1 << 19;
/// Maximum depth of nodes.
const MAX_DEPTH: usize = 200;

/// The tokens of `tree`, and the data flow between them, which is empty if a statement lacks a part that its rules
/// require, or if a limit is exceeded.
pub(crate) fn find_data_flow(tree: &Tree, rules: &FlowRules, comments: &[String], source: &[u8]) -> DataFlow {
    let mut finder = Finder {
        rules,
        comments,
        source,
        tokens: Vec::new(),
        by_bytes: HashMap::new(),
        names: HashMap::new(),
        steps: 0,
        depth: 0,
    };
    finder.number_tokens(tree.root_node());
    let mut entries = Vec::new();
    let whole = finder.visit(tree.root_node(), &mut States::new(), &mut entries);
    let nodes = if whole.is_some() { nodes(entries) } else { Vec::new() };
    DataFlow { tokens: finder.tokens.into_iter().map(|token| token.text).collect(), nodes }
}

/// The entries that have a source or are one.
fn nodes(mut entries: Vec<Entry>) -> Vec<FlowNode> {
    entries.sort_by_key(|entry| entry.token);
    let mut used: HashSet<usize> = entries.iter().flat_map(|entry| entry.sources.iter().copied()).collect();
    used.extend(entries.iter().filter(|entry| !entry.sources.is_empty()).map(|entry| entry.token));
    (entries.into_iter().filter(|entry| used.contains(&entry.token)))
        .map(|Entry { token, sources, .. }| FlowNode { token, sources: sources.into_iter().collect() })
        .collect()
}

/// Positions at which the value of each variable may have been assigned, by the number of its name.
type States = BTreeMap<usize, Vec<usize>>;

struct Token {
    text: String,
    /// Number of the first token with this text.
    name: usize,
}

/// A node, before unused ones are removed.
struct Entry {
    token: usize,
    /// True if it is assigned, false if it is used.
    is_computed: bool,
    sources: BTreeSet<usize>,
}

struct Finder<'a> {
    rules: &'a FlowRules,
    comments: &'a [String],
    source: &'a [u8],
    tokens: Vec<Token>,
    by_bytes: HashMap<(usize, usize), usize>,
    names: HashMap<String, usize>,
    steps: usize,
    depth: usize,
}

fn has(kinds: &[String], node: Node<'_>) -> bool {
    kinds.iter().any(|kind| kind == node.kind())
}

impl Finder<'_> {
    fn is_token(&self, node: Node<'_>) -> bool {
        node.child_count() == 0 || has(&self.rules.whole, node)
    }

    fn children<'tree>(&self, node: Node<'tree>) -> Vec<Node<'tree>> {
        let is_doc = |child: &Node<'_>| {
            has(&self.rules.docs, *child)
                && child.child_count() == 1
                && child.child(0).is_some_and(|only| has(&self.rules.whole, only))
        };
        let mut cursor = node.walk();
        (node.children(&mut cursor)).filter(|child| !has(self.comments, *child) && !is_doc(child)).collect()
    }

    fn number_tokens(&mut self, root: Node<'_>) {
        let mut waiting = vec![root];
        while let Some(node) = waiting.pop() {
            if !self.is_token(node) {
                waiting.extend(self.children(node).into_iter().rev());
                continue;
            }
            let text = String::from_utf8_lossy(&self.source[node.byte_range()]).replace('\n', "");
            let number = self.tokens.len();
            let name = *self.names.entry(text.clone()).or_insert(number);
            self.tokens.push(Token { text, name });
            self.by_bytes.insert((node.start_byte(), node.end_byte()), number);
        }
    }

    fn token(&self, node: Node<'_>) -> Option<usize> {
        self.by_bytes.get(&(node.start_byte(), node.end_byte())).copied()
    }

    /// The tokens in a node that are variables or literals: those whose text differs from their kind.
    fn variables(&mut self, node: Node<'_>) -> Option<Vec<usize>> {
        let (mut found, mut waiting) = (Vec::new(), vec![node]);
        while let Some(node) = waiting.pop() {
            self.step(1)?;
            if !self.is_token(node) {
                waiting.extend(self.children(node).into_iter().rev());
                continue;
            }
            let token = self.token(node)?;
            if self.tokens[token].text != node.kind() {
                found.push(token);
            }
        }
        Some(found)
    }

    fn step(&mut self, by: usize) -> Option<()> {
        self.steps += by;
        (self.steps <= MAX_STEPS).then_some(())
    }

    /// Appends the entries of a node, and updates the states to those after it.
    fn visit(&mut self, node: Node<'_>, states: &mut States, entries: &mut Vec<Entry>) -> Option<()> {
        self.step(1)?;
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        self.visit_within(node, states, entries)?;
        self.depth -= 1;
        Some(())
    }

    fn visit_within(&mut self, node: Node<'_>, states: &mut States, entries: &mut Vec<Entry>) -> Option<()> {
        let rules = self.rules;
        if self.is_token(node) {
            return self.visit_token(node, states, entries);
        }
        let children = self.children(node);
        if has(&rules.declarations, node) {
            let name = node.child_by_field_name("name")?;
            let value = node.child_by_field_name(rules.value.as_deref().unwrap_or("value"));
            let Some(value) = value else {
                for token in self.variables(name)? {
                    self.assign(token, false, [], states, entries)?;
                }
                return Some(());
            };
            self.visit(value, states, entries)?;
            self.assign_all(name, value, false, states, entries)
        } else if has(&rules.assignments, node) {
            let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
            match right {
                // In some grammars, a declaration of a type alone is an assignment.
                None if rules.by_position => Some(()),
                Some(right) if rules.by_position => {
                    self.assign_by_position(left?, right, true, states, entries)
                }
                right => {
                    self.visit(right?, states, entries)?;
                    self.assign_all(left?, right?, true, states, entries)
                }
            }
        } else if has(&rules.operator_assignments, node) {
            self.assign_by_position(*children.first()?, *children.last()?, false, states, entries)
        } else if has(&rules.clauses, node) {
            let left = node.child_by_field_name("left")?;
            self.assign_by_position(left, *children.last()?, false, states, entries)
        } else if has(&rules.increments, node) {
            let variables = self.variables(node)?;
            for token in &variables {
                for source in &variables {
                    self.assign(*token, true, [*source], states, entries)?;
                }
            }
            Some(())
        } else if has(&rules.branches, node) {
            self.visit_branches(node, states, entries)
        } else if let Some(counting) = rules.counting.iter().find(|each| each.kind == node.kind()) {
            let mut own = Vec::new();
            for child in &children {
                self.visit(*child, states, &mut own)?;
            }
            let mut parts = children.iter().skip_while(|child| child.kind() != counting.after);
            if let (Some(beginning), Some(again)) = (parts.next(), &counting.again)
                && let Some(again) = beginning.child_by_field_name(again)
            {
                self.visit(again, states, &mut own)?;
            }
            for child in parts {
                self.visit(*child, states, &mut own)?;
            }
            entries.extend(merged(own));
            Some(())
        } else if let Some(each) = rules.each.iter().find(|each| each.kind == node.kind()) {
            self.visit_each(each, node, states, entries)
        } else if has(&rules.loops, node) {
            let mut own = Vec::new();
            for child in children.iter().chain(&children) {
                self.visit(*child, states, &mut own)?;
            }
            entries.extend(merged(own));
            Some(())
        } else {
            let (first, then): (Vec<_>, Vec<_>) =
                children.into_iter().partition(|child| has(&rules.clauses, *child));
            for child in first.into_iter().chain(then) {
                self.visit(child, states, entries)?;
            }
            Some(())
        }
    }

    /// The sources of a variable are its last assignments; an unassigned variable is a source itself.
    fn visit_token(&mut self, node: Node<'_>, states: &mut States, entries: &mut Vec<Entry>) -> Option<()> {
        let token = self.token(node)?;
        if self.tokens[token].text == node.kind() {
            return Some(());
        }
        let name = self.tokens[token].name;
        let sources: BTreeSet<usize> = states.get(&name).into_iter().flatten().copied().collect();
        if !states.contains_key(&name) && node.kind() == "identifier" {
            states.insert(name, vec![token]);
        }
        self.step(sources.len())?;
        entries.push(Entry { token, is_computed: false, sources });
        Some(())
    }

    fn assign(
        &mut self,
        token: usize,
        is_computed: bool,
        sources: impl IntoIterator<Item = usize>,
        states: &mut States,
        entries: &mut Vec<Entry>,
    ) -> Option<()> {
        let sources: BTreeSet<usize> = sources.into_iter().collect();
        self.step(1 + sources.len())?;
        entries.push(Entry { token, is_computed, sources });
        states.insert(self.tokens[token].name, vec![token]);
        Some(())
    }

    /// Adds each variable in `value` as a source of each variable in `name`, as separate entries.
    fn assign_all(
        &mut self,
        name: Node<'_>,
        value: Node<'_>,
        is_computed: bool,
        states: &mut States,
        entries: &mut Vec<Entry>,
    ) -> Option<()> {
        let sources = self.variables(value)?;
        for token in self.variables(name)? {
            for source in &sources {
                self.assign(token, is_computed, [*source], states, entries)?;
            }
            states.insert(self.tokens[token].name, vec![token]);
        }
        Some(())
    }

    /// All variables in a part of `right` are sources of each variable in the same part of `left`. If both sides
    /// differ in the number of parts, each side is one part.
    fn assign_by_position(
        &mut self,
        left: Node<'_>,
        right: Node<'_>,
        several: bool,
        states: &mut States,
        entries: &mut Vec<Entry>,
    ) -> Option<()> {
        let [mut lefts, mut rights] = [left, right].map(|node| {
            let mut parts = self.children(node);
            parts.retain(|part| part.kind() != ",");
            parts
        });
        if !several || lefts.len() != rights.len() || lefts.is_empty() {
            (lefts, rights) = (vec![left], vec![right]);
        }
        for right in &rights {
            self.visit(*right, states, entries)?;
        }
        for (left, right) in lefts.into_iter().zip(rights) {
            let sources = self.variables(right)?;
            for token in self.variables(left)? {
                self.assign(token, true, sources.iter().copied(), states, entries)?;
            }
        }
        Some(())
    }

    fn visit_branches(
        &mut self,
        node: Node<'_>,
        states: &mut States,
        entries: &mut Vec<Entry>,
    ) -> Option<()> {
        let rules = self.rules;
        let mut current = states.clone();
        let mut ends = Vec::new();
        let (mut must_run, mut is_rest) = (node.kind().contains("else"), false);
        for child in self.children(node) {
            must_run |= child.kind().contains("else");
            if !is_rest && !has(&rules.alternatives, child) {
                self.visit(child, &mut current, entries)?;
                continue;
            }
            is_rest = rules.rest_is_alternative;
            let mut end = states.clone();
            self.step(end.len())?;
            self.visit(child, &mut end, entries)?;
            ends.push(end);
        }
        ends.push(current);
        if !must_run || rules.keeps_before {
            ends.push(std::mem::take(states));
        }
        let mut merged: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (name, tokens) in ends.into_iter().flatten() {
            self.step(tokens.len())?;
            merged.entry(name).or_default().extend(tokens);
        }
        *states = merged.into_iter().map(|(name, tokens)| (name, tokens.into_iter().collect())).collect();
        Some(())
    }

    fn visit_each(
        &mut self,
        each: &EachLoop,
        node: Node<'_>,
        states: &mut States,
        entries: &mut Vec<Entry>,
    ) -> Option<()> {
        let children = self.children(node);
        let field = |name: &str| node.child_by_field_name(name);
        let mut both = children.iter().filter(|child| child.kind() == each.both).copied();
        let (source, target) = match each.both.as_str() {
            "" => (field(&each.source)?, field(&each.target)?),
            _ => (both.next()?, both.next()?),
        };
        let body = match each.last.as_str() {
            "" => Some(field(&each.body)?),
            last => children.last().filter(|child| child.kind() == last).copied(),
        };
        let mut own = Vec::new();
        for _ in 0..2 {
            if self.rules.by_position {
                self.assign_by_position(target, source, each.several, states, &mut own)?;
            } else {
                self.visit(source, states, &mut own)?;
                self.assign_all(target, source, true, states, &mut own)?;
            }
            if let Some(body) = body {
                self.visit(body, states, &mut own)?;
            }
        }
        entries.extend(merged(own));
        Some(())
    }
}

/// Merges the entries of each token and way of use, with the sources of all, in the order of the tokens.
fn merged(entries: Vec<Entry>) -> impl Iterator<Item = Entry> {
    let mut places: HashMap<(usize, bool), usize> = HashMap::new();
    let mut merged: Vec<Entry> = Vec::new();
    for entry in entries {
        match places.get(&(entry.token, entry.is_computed)) {
            Some(place) => merged[*place].sources.extend(entry.sources),
            None => {
                places.insert((entry.token, entry.is_computed), merged.len());
                merged.push(entry);
            }
        }
    }
    merged.sort_by_key(|entry| entry.token);
    merged.into_iter()
}

#[cfg(test)]
mod tests {
    use crate::languages;

    #[test]
    fn the_rules_name_kinds_and_fields_of_the_grammars() {
        let mut n_languages = 0;
        for language in languages() {
            let Some(rules) = language.flow_rules() else { continue };
            assert_eq!(
                rules.unknown(&language.grammar().unwrap()),
                Vec::<String>::new(),
                "{}",
                language.name()
            );
            n_languages += 1;
        }
        assert_eq!(n_languages, 6);
    }
}
