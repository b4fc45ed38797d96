//! Rule files: the functions, types and comments of a language, defined as data.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as UnknownVariant;
use tree_sitter::Query;

use crate::flow::FlowRules;
use crate::pattern::{self, Pattern, PatternError};
use crate::scanner_words::ScannerWords;

/// The purpose of a language, so that searches can leave some out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Programs.
    #[default]
    Code,
    /// Text for people: Markdown, plain text.
    Prose,
    /// Configuration, markup and style sheets.
    Data,
}

/// Scope of a top-level name without an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NameScope {
    File,
    /// In the files of its directory.
    Directory,
    /// In all files.
    #[default]
    Tree,
}

/// A rule file, as written. Every list may be omitted.
///
/// The patterns of `query` are matched at single nodes, so the outermost element of each must be a node with a
/// kind. All matches at one node are combined; if two patterns capture the same thing, the first one counts, and
/// own patterns come before inherited ones. Captures:
///
/// | capture | stands for |
/// |---|---|
/// | `@function` | a function; a method where the next container around it is a `@type` |
/// | `@method` | a method wherever it is |
/// | `@type` | a type: a unit, and a container |
/// | `@scope` | a container that only lends its name |
/// | `@name` | its name; several are joined by dots |
/// | `@owner` | the type that a method written outside its type belongs to |
/// | `@body` | where the signature ends and, for containers, where members are looked for |
/// | `@doc` | a docstring |
/// | `@test` | a test, whatever else it is |
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleFile {
    /// Lower-case name of the language.
    pub(crate) name: String,
    /// Other lower-case names that people use; extensions and interpreters work without being listed.
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    /// Purpose of the language.
    #[serde(default)]
    pub(crate) content: Content,
    /// Feature of this crate that provides its grammar, if not all builds have it.
    pub(crate) feature: Option<String>,
    /// Name shared by languages that call each other's functions; by default the language's own.
    pub(crate) family: Option<String>,
    /// Scope of a top-level name without an import; by default the whole tree.
    pub(crate) name_scope: Option<NameScope>,
    /// True if a call without a receiver may refer to a method of the enclosing type.
    #[serde(default)]
    pub(crate) own_methods: bool,
    /// Receivers that refer to a base of the enclosing type, besides `super`.
    #[serde(default)]
    pub(crate) base_names: Vec<String>,
    /// True if a module or type may be referred to by its qualified name without an import.
    #[serde(default)]
    pub(crate) global_modules: bool,
    /// Files that map the names of modules to directories.
    #[serde(default)]
    pub(crate) manifests: Vec<Manifest>,
    /// Names of methods that are called by using the name of their type.
    #[serde(default)]
    pub(crate) constructors: Vec<String>,
    /// Name of a rule file whose query and lists of node kinds this one inherits.
    pub(crate) inherits: Option<String>,
    /// File name extensions without dot; case matters if two languages differ only by it.
    #[serde(default)]
    pub(crate) extensions: Vec<String>,
    /// Extensions that another language has as well.
    pub(crate) shared: Option<Shared>,
    /// Complete file names.
    #[serde(default)]
    pub(crate) file_names: Vec<String>,
    /// Programs named by a `#!` line, without version.
    #[serde(default)]
    pub(crate) interpreters: Vec<String>,
    /// Tags of a markup language that contain other languages.
    #[serde(default)]
    pub(crate) embedded: Vec<Embedded>,
    /// Node kinds of comments.
    #[serde(default)]
    pub(crate) comments: Vec<String>,
    /// Node kinds of functions without a name. Definitions in a short one stay part of it.
    #[serde(default)]
    pub(crate) closures: Vec<String>,
    /// Prefixes of comments for tools, which are not documentation.
    #[serde(default)]
    pub(crate) directives: Vec<String>,
    /// Beginnings of comments and prefixes that document the code after them, even below blank lines.
    #[serde(default)]
    pub(crate) docs: Vec<String>,
    /// True if docs are XML, whose tags are removed like markers.
    #[serde(default)]
    pub(crate) doc_markup: bool,
    /// Words that the grammar's scanner misreads at the beginning of a line: see
    /// [`ScannerWords`](crate::scanner_words::ScannerWords).
    pub(crate) scanner_words: Option<ScannerWords>,
    /// Beginnings of prefixes that are followed by a docstring.
    #[serde(default)]
    pub(crate) doc_prefixes: Vec<String>,
    /// True if consecutive definitions with the same name are one: clauses, equations.
    #[serde(default)]
    pub(crate) clauses: bool,
    /// Node kinds that may come between a comment and the code that it describes, and belong to the latter:
    /// decorators, attributes, annotations. Omitted from signatures.
    #[serde(default)]
    pub(crate) prefixes: Vec<String>,
    /// Node kinds that belong to the definition that they contain if it is the only one: `export`, a declaration
    /// with one declarator.
    #[serde(default)]
    pub(crate) wrappers: Vec<String>,
    /// Beginnings of prefixes that mark a test, or a scope for tests.
    #[serde(default)]
    pub(crate) test_prefixes: Vec<String>,
    /// Separators of the parts of a qualified name in the source.
    #[serde(default)]
    pub(crate) name_separators: Vec<String>,
    /// Parts of qualified names that are omitted, such as `prototype`.
    #[serde(default)]
    pub(crate) name_omits: Vec<String>,
    /// tree-sitter patterns of units.
    #[serde(default)]
    pub(crate) query: String,
    /// tree-sitter patterns of calls and imports, see [`ReferenceCapture`].
    #[serde(default)]
    pub(crate) references: String,
    /// tree-sitter patterns of checks in programs, see [`CheckCapture`].
    #[serde(default)]
    pub(crate) checks: String,
    /// tree-sitter patterns of the parameters and results of functions, see [`ShapeCapture`].
    #[serde(default)]
    pub(crate) shape: String,
    pub(crate) data_flow: Option<FlowRules>,
}

/// A file that maps the names of modules to directories: JSON, or lines of keys and values below `[section]` lines.
/// Keys of nested values are joined by dots.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Names of the file.
    pub files: Vec<String>,
    /// Keys of the names of the package in the directory of the file.
    #[serde(default)]
    pub names: Vec<String>,
    /// Keys of tables from prefixes of modules (`.` for the name of the package) to one or more paths, which are
    /// relative to the directory of the file.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Key of the directory that these paths are relative to instead.
    pub base: Option<String>,
    /// True if modules outside of all such packages are outside of the tree.
    #[serde(default)]
    pub is_complete: bool,
}

/// Extensions that two languages share; the text of a file decides between them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shared {
    pub(crate) extensions: Vec<String>,
    /// Name of the language of files without any of the `markers`.
    pub(crate) language: String,
    pub(crate) markers: Vec<String>,
}

/// A tag of a markup language and its content.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Embedded {
    /// Name of the tag, in lower case.
    pub(crate) tag: String,
    /// Name of the language, unless the tag specifies another one.
    pub(crate) language: String,
}

impl RuleFile {
    /// Appends the query and the lists of `base`.
    pub(crate) fn add_base(&mut self, base: &Self) {
        for (own, inherited) in [
            (&mut self.comments, &base.comments),
            (&mut self.closures, &base.closures),
            (&mut self.constructors, &base.constructors),
            (&mut self.directives, &base.directives),
            (&mut self.docs, &base.docs),
            (&mut self.doc_prefixes, &base.doc_prefixes),
            (&mut self.prefixes, &base.prefixes),
            (&mut self.wrappers, &base.wrappers),
            (&mut self.test_prefixes, &base.test_prefixes),
            (&mut self.name_separators, &base.name_separators),
            (&mut self.name_omits, &base.name_omits),
        ] {
            own.extend_from_slice(inherited);
        }
        self.manifests.extend_from_slice(&base.manifests);
        if self.family.is_none() {
            self.family.clone_from(&base.family);
        }
        self.name_scope = self.name_scope.or(base.name_scope);
        self.own_methods |= base.own_methods;
        self.global_modules |= base.global_modules;
        self.query.push_str(&base.query);
        self.references.push_str(&base.references);
        self.checks.push_str(&base.checks);
        self.shape.push_str(&base.shape);
    }
}

/// The reason why a rule file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuleError {
    #[error(
        "rules/{language}.toml: {kind:?} is not a node kind of the grammar; see node-types.json of its crate"
    )]
    UnknownKind { language: String, kind: String },
    #[error("rules/{language}.toml: pattern {pattern:?} must begin with a node kind: (kind ...)")]
    UnrootedPattern { language: String, pattern: String },
    #[error("rules/{language}.toml: @{capture} is not a known capture")]
    UnknownCapture { language: String, capture: String },
    #[error("rules/{language}.toml: bad query")]
    Query { language: String, source: tree_sitter::QueryError },
}

/// The roles of a node in extraction; a set, as some kinds have two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Role(u8);

impl Role {
    pub(crate) const COMMENT: Self = Self(1);
    pub(crate) const PREFIX: Self = Self(2);
    pub(crate) const WRAPPER: Self = Self(4);
    pub(crate) const CANDIDATE: Self = Self(8);
    /// A named node of the grammar, unlike punctuation and keywords.
    pub(crate) const NAMED: Self = Self(16);
    pub(crate) const CLOSURE: Self = Self(32);

    pub(crate) fn is(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The meaning of a capture in a rule file's query; see [`RuleFile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Capture {
    Function,
    Method,
    Type,
    Scope,
    Name,
    Owner,
    Body,
    Doc,
    Test,
}

/// The meaning of a capture in a rule file's `references`. Matches with the same `@callee` are one call, matches with
/// the same `@module` one import; several captures of one kind in a match form one range from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReferenceCapture {
    /// The name of the callee.
    Callee,
    /// The object or module that it is called on or looked up in.
    Receiver,
    /// A statement that imports.
    Import,
    /// A group whose `@module` applies to the imports in it.
    Group,
    /// The module that is imported, or imported from.
    Module,
    /// A name that is imported from the module.
    Name,
    /// The local name of the module's default export.
    Default,
    /// A mark that all members of the module are imported.
    All,
    /// The local name of what `@name` captures, else of the module.
    Alias,
    /// Code without calls, whatever it looks like.
    Excluded,
    /// A name that is a call, unless it is a variable.
    Bare,
    /// A name that is a variable from here on.
    Local,
    /// A scope that does not see the variables around it.
    Frame,
    /// A scope that sees the variables around it.
    Block,
}

/// Meaning of a capture of a rule file's `checks`. Each match has one of `@assert`, `@branch`, `@call`, `@entered`,
/// `@true` and `@false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckCapture {
    /// A statement that fails unless its `@condition` is true.
    Assert,
    Branch,
    Call,
    /// A call whose value is entered and left, as by Python's `with`.
    Entered,
    Condition,
    /// The code that runs if the condition is true.
    Then,
    /// The code that runs otherwise.
    Else,
    /// The name of the callee.
    Callee,
    /// The object or module that it is called on or looked up in.
    Receiver,
    Argument,
    /// An expression that is always true, such as a non-empty string.
    True,
    /// An expression that is always false.
    False,
}

/// Meaning of a capture of a rule file's `shape`. A parameter and a result belong to the innermost function, or
/// `@closure`, around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ShapeCapture {
    /// The name of a parameter, except that of the object that a method is called on.
    Parameter,
    /// A value that the function returns, or the type of one that it always returns.
    Result,
    /// A function without a name.
    Closure,
    /// The name of a variable, or a pattern of names, where it is declared or given a value.
    Local,
    /// The name of something that belongs to another thing and is written like a variable: an argument, a field.
    Member,
    /// The name of a callee, in languages where a variable may have the same name.
    Callee,
}

/// Compiles patterns of a rule file. Returns the meaning of each capture by its index; captures whose names begin
/// with `_` are for predicates and have no meaning.
fn compile<Capture: for<'de> Deserialize<'de>>(
    file: &RuleFile,
    grammar: &tree_sitter::Language,
    patterns: &str,
) -> Result<(Query, Vec<Option<Capture>>), RuleError> {
    let query = Query::new(grammar, patterns)
        .map_err(|source| RuleError::Query { language: file.name.clone(), source })?;
    let captures = meanings(file, query.capture_names().iter().copied())?;
    Ok((query, captures))
}

fn meanings<'a, Capture: for<'de> Deserialize<'de>>(
    file: &RuleFile,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<Option<Capture>>, RuleError> {
    let meaning = |name: &str| match name.starts_with('_') {
        true => Ok(None),
        false => Capture::deserialize(name.into_deserializer()).map(Some).map_err(|_: UnknownVariant| {
            RuleError::UnknownCapture { language: file.name.clone(), capture: name.to_owned() }
        }),
    };
    names.map(meaning).collect()
}

/// The `references` of a rule file, compiled for one grammar.
pub(crate) struct ReferenceRules {
    pub(crate) patterns: Vec<Pattern>,
    /// By number of capture in `patterns`, see [`compile`].
    pub(crate) captures: Vec<Option<ReferenceCapture>>,
    /// The patterns that only tree-sitter knows, if there are any.
    pub(crate) query: Option<Query>,
    /// By index of capture in `query`.
    pub(crate) query_captures: Vec<Option<ReferenceCapture>>,
    /// Separator between the module of a group and those in it.
    pub(crate) separator: String,
    /// By id of node kind.
    roots: Vec<Option<NodePatterns>>,
}

/// Patterns that may match at a kind of node.
#[derive(Default, Clone)]
pub(crate) struct NodePatterns {
    /// Numbers of the known patterns.
    pub(crate) known: Vec<usize>,
    /// True if patterns of the query may match as well.
    pub(crate) has_query: bool,
}

impl ReferenceRules {
    pub(crate) fn compile(file: &RuleFile, grammar: &tree_sitter::Language) -> Result<Self, RuleError> {
        Self::compile_by(pattern::parse, file, grammar)
    }

    /// Compiles the patterns that `parse` does not know as a query.
    pub(crate) fn compile_by(
        parse: pattern::ParsePattern,
        file: &RuleFile,
        grammar: &tree_sitter::Language,
    ) -> Result<Self, RuleError> {
        let language = || file.name.clone();
        let mut roots: Vec<Option<NodePatterns>> = vec![None; grammar.node_kind_count()];
        let (mut patterns, mut names, mut for_query) = (Vec::new(), Vec::new(), String::new());
        for text in pattern::split(&file.references) {
            let unrooted = || RuleError::UnrootedPattern { language: language(), pattern: text.into() };
            match parse(text, grammar, &mut names) {
                Ok(alternatives) => {
                    for alternative in alternatives {
                        let kinds = alternative.roots().ok_or_else(unrooted)?;
                        for kind in kinds {
                            roots[usize::from(*kind)].get_or_insert_default().known.push(patterns.len());
                        }
                        patterns.push(alternative);
                    }
                }
                Err(PatternError::UnknownKind(kind)) => {
                    return Err(RuleError::UnknownKind { language: language(), kind });
                }
                Err(PatternError::Unknown) => {
                    for kind in root_kinds(text.trim_end()).ok_or_else(unrooted)? {
                        match grammar.id_for_node_kind(kind, true) {
                            0 => {
                                return Err(RuleError::UnknownKind {
                                    language: language(),
                                    kind: kind.into(),
                                });
                            }
                            // No node is of such a kind.
                            id if grammar.node_kind_is_supertype(id) => return Err(unrooted()),
                            id => roots[usize::from(id)].get_or_insert_default().has_query = true,
                        }
                    }
                    for_query.push_str(text);
                }
            }
        }
        let (query, query_captures) = match for_query.is_empty() {
            true => (None, Vec::new()),
            false => compile(file, grammar, &for_query).map(|(query, captures)| (Some(query), captures))?,
        };
        let captures = meanings(file, names.iter().map(String::as_str))?;
        let separator = file.name_separators.first().cloned().unwrap_or_else(|| ".".to_owned());
        Ok(Self { patterns, captures, query, query_captures, separator, roots })
    }

    /// Patterns that may match at a node of this kind, if any.
    pub(crate) fn patterns_at(&self, kind_id: u16) -> Option<&NodePatterns> {
        self.roots.get(usize::from(kind_id))?.as_ref()
    }
}

/// The kinds of nodes that a pattern may match at: of `(kind ...)` that one, and of `[...]` and `(... (#predicate))`
/// those of what they enclose.
fn root_kinds(pattern: &str) -> Option<Vec<&str>> {
    let (mut kinds, mut depth, mut rest) = (Vec::new(), 0, pattern);
    loop {
        rest = rest.trim_start();
        let is_kind = |c: char| c.is_alphanumeric() || c == '_';
        if let Some(inner) = rest.strip_prefix('[') {
            (depth, rest) = (depth + 1, inner);
        } else if let Some(inner) = rest.strip_prefix('(') {
            let inner = inner.trim_start();
            if inner.starts_with(['[', '(']) {
                (depth, rest) = (depth + 1, inner);
                continue;
            }
            if !inner.starts_with('#') {
                let kind = &inner[..inner.find(|c| !is_kind(c)).unwrap_or(inner.len())];
                if kind.is_empty() || kind == "_" {
                    return None;
                }
                kinds.push(kind);
            }
            rest = after_bracket(inner)?;
        } else if let Some(after) = rest.strip_prefix([']', ')']) {
            (depth, rest) = (depth - 1, after);
        } else if let Some(capture) = rest.strip_prefix('@') {
            rest = capture.trim_start_matches(|c| is_kind(c) || c == '.' || c == '-');
        } else {
            return None;
        }
        if depth == 0 {
            return (!kinds.is_empty()).then_some(kinds);
        }
    }
}

/// Text after the bracket that closes the one before `text`.
fn after_bracket(text: &str) -> Option<&str> {
    let (mut depth, mut is_quoted, mut is_escaped) = (1, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[at + 1..]);
        }
    }
    None
}

/// The `checks` of a rule file, compiled for one grammar.
pub(crate) struct CheckRules {
    pub(crate) query: Query,
    /// By index of capture in `query`, see [`compile`].
    pub(crate) captures: Vec<Option<CheckCapture>>,
}

impl CheckRules {
    pub(crate) fn compile(file: &RuleFile, grammar: &tree_sitter::Language) -> Result<Self, RuleError> {
        let (query, captures) = compile(file, grammar, &file.checks)?;
        Ok(Self { query, captures })
    }
}

/// The `shape` of a rule file, made ready for one grammar.
pub(crate) struct ShapeRules {
    pub(crate) query: Query,
    /// By index of capture in `query`, see [`compile`].
    pub(crate) captures: Vec<Option<ShapeCapture>>,
}

impl ShapeRules {
    pub(crate) fn compile(file: &RuleFile, grammar: &tree_sitter::Language) -> Result<Self, RuleError> {
        let (query, captures) = compile(file, grammar, &file.shape)?;
        Ok(Self { query, captures })
    }
}

/// A rule file compiled for one grammar.
pub(crate) struct Rules {
    pub(crate) grammar: tree_sitter::Language,
    pub(crate) query: Query,
    /// By index of capture in `query`, see [`compile`].
    pub(crate) captures: Vec<Option<Capture>>,
    pub(crate) directives: Vec<String>,
    pub(crate) docs: Vec<String>,
    pub(crate) scanner_words: Option<ScannerWords>,
    pub(crate) doc_markup: bool,
    pub(crate) doc_prefixes: Vec<String>,
    pub(crate) clauses: bool,
    pub(crate) test_prefixes: Vec<String>,
    pub(crate) name_separators: Vec<String>,
    pub(crate) name_omits: Vec<String>,
    /// By id of node kind.
    roles: Vec<Role>,
}

impl Rules {
    pub(crate) fn compile(file: &RuleFile, grammar: tree_sitter::Language) -> Result<Self, RuleError> {
        let language = || file.name.clone();
        let (query, captures) = compile(file, &grammar, &file.query)?;
        let mut roles: Vec<Role> = (0..=u16::MAX)
            .take(grammar.node_kind_count())
            .map(|id| if grammar.node_kind_is_named(id) { Role::NAMED } else { Role::default() })
            .collect();
        let mut assign = |kind: &str, role: Role| match grammar.id_for_node_kind(kind, true) {
            0 => Err(RuleError::UnknownKind { language: language(), kind: kind.into() }),
            id => {
                roles[usize::from(id)].0 |= role.0;
                Ok(())
            }
        };
        for (kinds, role) in [
            (&file.closures, Role::CLOSURE),
            (&file.comments, Role::COMMENT),
            (&file.prefixes, Role::PREFIX),
            (&file.wrappers, Role::WRAPPER),
        ] {
            kinds.iter().try_for_each(|kind| assign(kind, role))?;
        }
        for index in 0..query.pattern_count() {
            let pattern = &file.query[query.start_byte_for_pattern(index)..query.end_byte_for_pattern(index)];
            let kind = pattern
                .strip_prefix('(')
                .and_then(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
                .filter(|kind| !kind.is_empty() && *kind != "_")
                .ok_or_else(|| RuleError::UnrootedPattern {
                    language: language(),
                    pattern: pattern.into(),
                })?;
            assign(kind, Role::CANDIDATE)?;
        }
        Ok(Self {
            grammar,
            query,
            captures,
            directives: file.directives.clone(),
            docs: file.docs.clone(),
            scanner_words: file.scanner_words.clone(),
            doc_markup: file.doc_markup,
            doc_prefixes: file.doc_prefixes.clone(),
            clauses: file.clauses,
            test_prefixes: file.test_prefixes.clone(),
            name_separators: file.name_separators.clone(),
            name_omits: file.name_omits.clone(),
            roles,
        })
    }

    pub(crate) fn role(&self, kind_id: u16) -> Role {
        // The kind of an ERROR node has the largest id there is.
        self.roles.get(usize::from(kind_id)).copied().unwrap_or(Role::NAMED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_match_at_its_roots() {
        for (pattern, expected) in [
            ("(call function: (name) @callee) @import", Some(vec!["call"])),
            ("[(a (b)) (c \")\" @x)] @excluded", Some(vec!["a", "c"])),
            ("([\n  (a) (b)\n] (#match? @a \"\\\"(\"))", Some(vec!["a", "b"])),
            ("((a) @bare (#any-of? @bare \"x\"))", Some(vec!["a"])),
            ("(_ (a))", None),
            ("\"+\" @callee", None),
        ] {
            assert_eq!(root_kinds(pattern), expected, "{pattern}");
        }
    }
}
