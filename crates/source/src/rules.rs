//! Rule files: what is a function, a type and a comment in a language, as data.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as UnknownVariant;
use tree_sitter::Query;

/// What a language is for, so that searches can leave some of it out.
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

/// A rule file, as written. Every list may be left out.
///
/// The patterns of `query` are matched at single nodes, so the outermost thing of each must be a node with a kind.
/// All matches at one node are taken together; where two patterns capture the same thing, the first one counts, and
/// own patterns come before inherited ones. Captures:
///
/// | capture | stands for |
/// |---|---|
/// | `@function` | a function; a method where the next container around it is a `@type` |
/// | `@method` | a method wherever it stands |
/// | `@type` | a type: a unit, and a container |
/// | `@scope` | a container that only lends its name |
/// | `@name` | its name; several are joined by dots |
/// | `@owner` | the type that a method written outside its type belongs to |
/// | `@body` | where the signature ends and, for containers, where members are looked for |
/// | `@doc` | a docstring |
/// | `@test` | what is a test, whatever else it is |
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleFile {
    /// Lower-case name of the language.
    pub(crate) name: String,
    /// Other lower-case names that people use; extensions and interpreters are understood anyway.
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    /// What is written in it.
    #[serde(default)]
    pub(crate) content: Content,
    /// Name of a rule file whose query and lists of node kinds are used as well.
    pub(crate) inherits: Option<String>,
    /// File name extensions without dot; case matters where two languages differ by it only.
    #[serde(default)]
    pub(crate) extensions: Vec<String>,
    /// Extensions out of `extensions` that another language has as well.
    pub(crate) shared: Option<Shared>,
    /// Whole file names.
    #[serde(default)]
    pub(crate) file_names: Vec<String>,
    /// Programs named by a `#!` line, without version.
    #[serde(default)]
    pub(crate) interpreters: Vec<String>,
    /// Node kinds of comments.
    #[serde(default)]
    pub(crate) comments: Vec<String>,
    /// Node kinds of functions without a name. What is defined in a short one stays part of it.
    #[serde(default)]
    pub(crate) closures: Vec<String>,
    /// What comments begin with that are for tools, and so are no docs.
    #[serde(default)]
    pub(crate) directives: Vec<String>,
    /// Whether docs are XML, whose tags are markers too.
    #[serde(default)]
    pub(crate) doc_markup: bool,
    /// Node kinds that may stand between a comment and what it describes, and belong to the latter: decorators,
    /// attributes, annotations. Left out of signatures.
    #[serde(default)]
    pub(crate) prefixes: Vec<String>,
    /// Node kinds that belong to the definition they hold if it is the only one: `export`, a declaration with one
    /// declarator.
    #[serde(default)]
    pub(crate) wrappers: Vec<String>,
    /// What prefixes begin with that mark a test, or a scope for tests.
    #[serde(default)]
    pub(crate) test_prefixes: Vec<String>,
    /// What separates the parts of a qualified name in the source.
    #[serde(default)]
    pub(crate) name_separators: Vec<String>,
    /// Parts of qualified names that say nothing, such as `prototype`.
    #[serde(default)]
    pub(crate) name_omits: Vec<String>,
    /// tree-sitter patterns of what becomes a unit.
    #[serde(default)]
    pub(crate) query: String,
    /// tree-sitter patterns of calls and imports, see [`ReferenceCapture`].
    #[serde(default)]
    pub(crate) references: String,
    /// tree-sitter patterns of what a program may check itself by, see [`CheckCapture`].
    #[serde(default)]
    pub(crate) checks: String,
}

/// Extensions that two languages share: which of them a file is in, its text says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shared {
    pub(crate) extensions: Vec<String>,
    /// Name of the language of files that hold none of the `markers`.
    pub(crate) language: String,
    pub(crate) markers: Vec<String>,
}

impl RuleFile {
    /// Adds the query and the lists of `base` after these.
    pub(crate) fn add_base(&mut self, base: &Self) {
        for (own, inherited) in [
            (&mut self.comments, &base.comments),
            (&mut self.closures, &base.closures),
            (&mut self.directives, &base.directives),
            (&mut self.prefixes, &base.prefixes),
            (&mut self.wrappers, &base.wrappers),
            (&mut self.test_prefixes, &base.test_prefixes),
            (&mut self.name_separators, &base.name_separators),
            (&mut self.name_omits, &base.name_omits),
        ] {
            own.extend_from_slice(inherited);
        }
        self.query.push_str(&base.query);
        self.references.push_str(&base.references);
        self.checks.push_str(&base.checks);
    }
}

/// Why a rule file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuleError {
    #[error(
        "rules/{language}.toml: {kind:?} is no node kind of the grammar; see node-types.json of its crate"
    )]
    UnknownKind { language: String, kind: String },
    #[error("rules/{language}.toml: pattern {pattern:?} must begin with a node kind: (kind ...)")]
    UnrootedPattern { language: String, pattern: String },
    #[error("rules/{language}.toml: @{capture} is not one of the captures that extraction knows")]
    UnknownCapture { language: String, capture: String },
    #[error("rules/{language}.toml: bad query")]
    Query { language: String, source: tree_sitter::QueryError },
}

/// What a node is to extraction; a set, as some kinds are two things.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Role(u8);

impl Role {
    pub(crate) const COMMENT: Self = Self(1);
    pub(crate) const PREFIX: Self = Self(2);
    pub(crate) const WRAPPER: Self = Self(4);
    pub(crate) const CANDIDATE: Self = Self(8);
    /// Has a name in the grammar, other than punctuation and keywords.
    pub(crate) const NAMED: Self = Self(16);
    pub(crate) const CLOSURE: Self = Self(32);

    pub(crate) fn is(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a capture of a rule file's query stands for; see [`RuleFile`].
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

/// What a capture of a rule file's `references` stands for. Matches with the same `@callee` are one call, matches with
/// the same `@module` one import; several captures of the same in one match stand for all from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReferenceCapture {
    /// The name of what is called.
    Callee,
    /// What it is called on or looked up in.
    Receiver,
    /// A statement that imports.
    Import,
    /// What lends its `@module` to the imports in it.
    Group,
    /// What is imported, or imported from.
    Module,
    /// A name that is imported from the module.
    Name,
    /// The name here of what the module exports by default.
    Default,
    /// The name here of what `@name` captures, else of the module.
    Alias,
    /// Where no calls are, whatever it looks like.
    Excluded,
    /// A name that is a call, unless it is that of a variable.
    Bare,
    /// A name that is that of a variable from here on.
    Local,
    /// What has variables of its own and sees no others.
    Frame,
    /// What has variables of its own and sees those around it.
    Block,
}

/// What a capture of a rule file's `checks` stands for. Each match has one of `@assert`, `@branch`, `@call` and
/// `@entered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckCapture {
    /// A statement that fails unless its `@condition` is true.
    Assert,
    /// What does one thing or another.
    Branch,
    /// A call.
    Call,
    /// A call whose value is entered and left.
    Entered,
    /// What decides.
    Condition,
    /// What is done where the condition is true.
    Then,
    /// What is done otherwise.
    Else,
    /// The name of what is called.
    Callee,
    /// What it is called on or looked up in.
    Receiver,
    /// An argument.
    Argument,
}

/// Compiles patterns of a rule file. What each of their captures stands for comes by its index; those whose names begin
/// with `_` are for predicates and stand for nothing.
fn compile<Capture: for<'de> Deserialize<'de>>(
    file: &RuleFile,
    grammar: &tree_sitter::Language,
    patterns: &str,
) -> Result<(Query, Vec<Option<Capture>>), RuleError> {
    let query = Query::new(grammar, patterns)
        .map_err(|source| RuleError::Query { language: file.name.clone(), source })?;
    let meaning = |name: &&str| match name.starts_with('_') {
        true => Ok(None),
        false => Capture::deserialize((*name).into_deserializer()).map(Some).map_err(|_: UnknownVariant| {
            RuleError::UnknownCapture { language: file.name.clone(), capture: (*name).to_owned() }
        }),
    };
    let captures = query.capture_names().iter().map(meaning).collect::<Result<_, _>>()?;
    Ok((query, captures))
}

/// The `references` of a rule file, made ready for one grammar.
pub(crate) struct ReferenceRules {
    pub(crate) query: Query,
    /// By index of capture in `query`, see [`compile`].
    pub(crate) captures: Vec<Option<ReferenceCapture>>,
    /// Stands between the module of a group and those in it.
    pub(crate) separator: String,
}

impl ReferenceRules {
    pub(crate) fn compile(file: &RuleFile, grammar: &tree_sitter::Language) -> Result<Self, RuleError> {
        let (query, captures) = compile(file, grammar, &file.references)?;
        let separator = file.name_separators.first().cloned().unwrap_or_else(|| ".".to_owned());
        Ok(Self { query, captures, separator })
    }
}

/// The `checks` of a rule file, made ready for one grammar.
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

/// A rule file made ready for one grammar.
pub(crate) struct Rules {
    pub(crate) grammar: tree_sitter::Language,
    pub(crate) query: Query,
    /// By index of capture in `query`, see [`compile`].
    pub(crate) captures: Vec<Option<Capture>>,
    pub(crate) directives: Vec<String>,
    pub(crate) doc_markup: bool,
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
            doc_markup: file.doc_markup,
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
