//! Callers and callees of a definition.

use std::time::Duration;

use quarry_index::{CallSite, Callee, Calls, Hit, UnfinishedFile};
use serde::Serialize;

use crate::{BehindView, Tree, kind_name, milliseconds, roots};

/// A definition.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DefinitionView {
    /// Absolute path of its tree.
    pub root: String,
    /// Its file, relative to `root`.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// Qualified name within the file.
    pub name: String,
    /// function, method, type, module or section.
    pub kind: &'static str,
    /// Name of the language.
    pub language: String,
}

/// The callers of a definition.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Callers {
    /// The query, as given.
    pub query: String,
    /// Absolute path that all paths are relative to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// With several trees, their absolute paths.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roots: Vec<String>,
    /// The definitions of the name or at the position.
    pub definitions: Vec<DefinitionView>,
    /// The calls of it.
    pub callers: Vec<SiteView>,
    /// Total number, including those left out of `callers`.
    pub total: usize,
    /// Number of these that are matched by name only.
    pub by_name: usize,
    /// Number of other calls of the same name, which scopes or imports give another target.
    pub elsewhere: usize,
    /// Files that may contain more calls, from a line on.
    pub unfinished: Vec<UnfinishedView>,
    /// The files that have changed since, while a server updates the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindView>,
    /// Milliseconds of the search.
    pub took_ms: f64,
    /// Milliseconds of opening the index.
    pub open_ms: f64,
}

/// A file that may contain more calls.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "UnfinishedFile"))]
pub struct UnfinishedView {
    /// Absolute path of its tree.
    pub root: String,
    /// The file, relative to `root`.
    pub path: String,
    /// Line from which calls may be missing, 1-based.
    pub line: u32,
    /// The limit that was reached.
    pub reason: String,
}

impl UnfinishedView {
    fn all<'a>(tree: &Tree, files: impl IntoIterator<Item = &'a UnfinishedFile>) -> Vec<Self> {
        let view = |file: &UnfinishedFile| Self {
            root: tree.root(file.root),
            path: file.path.clone(),
            line: file.line,
            reason: file.reason.clone(),
        };
        files.into_iter().map(view).collect()
    }
}

/// A call.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CallSite"))]
pub struct SiteView {
    /// Absolute path of its tree.
    pub root: String,
    /// Its file, relative to `root`.
    pub path: String,
    /// 1-based.
    pub line: u32,
    /// The text of the line.
    pub text: String,
    /// The definition that contains the call; null outside of units.
    pub caller: Option<DefinitionView>,
    /// The name that is called.
    pub callee: String,
    /// The receiver of the call.
    pub receiver: Option<String>,
    /// True if scopes or imports determine the called definition.
    pub certain: bool,
    /// The called definitions; empty unless that is certain.
    pub definitions: Vec<DefinitionView>,
    /// Definitions with the called name, if it is not certain: any of them may be called, or something outside of the
    /// tree.
    pub candidates: Vec<DefinitionView>,
}

/// The callees of definitions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Callees {
    /// The query, as given.
    pub query: String,
    /// Absolute path that all paths are relative to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// With several trees, their absolute paths.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roots: Vec<String>,
    /// Each definition, with what it calls.
    pub definitions: Vec<CalleesOfDefinition>,
    /// Files that may contain more calls, from a line on.
    pub unfinished: Vec<UnfinishedView>,
    /// The files that have changed since, while a server updates the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindView>,
    /// Milliseconds of the search.
    pub took_ms: f64,
    /// Milliseconds of opening the index.
    pub open_ms: f64,
}

/// The callees of a definition.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalleesOfDefinition {
    /// The definition.
    #[serde(flatten)]
    pub definition: DefinitionView,
    /// Definitions in its tree, determined by scopes or imports.
    pub callees: Vec<CalleeView>,
    /// Callees matched by name only.
    pub unknown: Vec<UnknownView>,
    /// Callees without a definition in the index of its tree.
    pub external: Vec<ExternalView>,
}

/// Something that is called.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalleeView {
    /// The name as written in the code.
    pub name: String,
    /// Lines of the calls, 1-based.
    pub lines: Vec<u32>,
    /// The called definitions: several of one name in a file, such as overloads, are one callee.
    pub definitions: Vec<DefinitionView>,
}

/// A callee matched by name only, such as a method of a value of unknown type.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "UnknownCallee"))]
pub struct UnknownView {
    /// The name as written in the code.
    pub name: String,
    /// Lines of the calls, 1-based.
    pub lines: Vec<u32>,
    /// Definitions with that name: any of them may be called, or something outside of the tree.
    pub candidates: Vec<DefinitionView>,
}

/// A callee without a definition in the index: external code, a parameter or a local variable.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ExternalCallee"))]
pub struct ExternalView {
    /// The name as written in the code.
    pub name: String,
    /// Lines of the calls, 1-based.
    pub lines: Vec<u32>,
}

/// A search for calls: the request and the definitions it refers to, with the times to open and to search the index.
#[derive(Debug, Clone, Copy)]
pub struct CallsQuestion<'a> {
    /// The name or position, as given.
    pub query: &'a str,
    /// The definitions that it refers to.
    pub definitions: &'a [Hit],
    /// Maximum number of calls, or of callees of each definition.
    pub limit: usize,
    /// Time of the search.
    pub took: Duration,
    /// Time of opening the index.
    pub open_time: Duration,
}

impl DefinitionView {
    /// The view of a unit.
    pub fn new(tree: &Tree, hit: &Hit) -> Self {
        Self {
            root: tree.root_of(hit),
            path: hit.path.clone(),
            start_line: hit.start_line,
            end_line: hit.end_line,
            name: hit.name.clone(),
            kind: kind_name(hit.kind),
            language: hit.language.clone(),
        }
    }

    fn for_units(tree: &Tree, units: &[usize]) -> Vec<Self> {
        units.iter().map(|unit| Self::new(tree, &tree.index.unit(*unit))).collect()
    }
}

/// The object of `callers --json`.
pub fn callers(tree: &Tree, question: &CallsQuestion, calls: &Calls<CallSite>) -> Callers {
    let sites = &calls.found;
    let view = |site: &CallSite| {
        let definitions = DefinitionView::for_units(tree, &site.definitions);
        let (definitions, candidates) =
            if site.is_certain { (definitions, Vec::new()) } else { (Vec::new(), definitions) };
        SiteView {
            root: tree.root(site.root),
            path: site.path.clone(),
            line: site.line,
            text: site.text.clone(),
            caller: site.caller.as_ref().map(|hit| DefinitionView::new(tree, hit)),
            callee: site.callee.clone(),
            receiver: site.receiver.clone(),
            certain: site.is_certain,
            definitions,
            candidates,
        }
    };
    let (root, roots) = roots(tree, tree.n_paths());
    Callers {
        query: question.query.to_owned(),
        root,
        roots,
        definitions: question.definitions.iter().map(|hit| DefinitionView::new(tree, hit)).collect(),
        callers: sites.iter().take(question.limit).map(view).collect(),
        total: sites.len(),
        by_name: calls.n_by_name(),
        elsewhere: calls.n_elsewhere,
        unfinished: UnfinishedView::all(tree, &calls.unfinished),
        behind: BehindView::for_tree(tree),
        took_ms: milliseconds(question.took),
        open_ms: milliseconds(question.open_time),
    }
}

/// The object of `callees --json`; `found` has the callees of each definition.
pub fn callees(tree: &Tree, question: &CallsQuestion, found: &[Calls<Callee>]) -> Callees {
    let view = |(hit, callees): (&Hit, &Calls<Callee>)| {
        let callees = &callees.found;
        let mut view = CalleesOfDefinition {
            definition: DefinitionView::new(tree, hit),
            callees: Vec::new(),
            unknown: Vec::new(),
            external: Vec::new(),
        };
        for callee in callees.iter().take(question.limit) {
            let (name, lines) = (callee.name.clone(), callee.lines.clone());
            let definitions = DefinitionView::for_units(tree, &callee.definitions);
            match (callee.is_certain, definitions.is_empty()) {
                (_, true) => view.external.push(ExternalView { name, lines }),
                (true, false) => view.callees.push(CalleeView { name, lines, definitions }),
                (false, false) => view.unknown.push(UnknownView { name, lines, candidates: definitions }),
            }
        }
        view
    };
    let mut unfinished = UnfinishedView::all(tree, found.iter().flat_map(|callees| &callees.unfinished));
    unfinished.dedup();
    let (root, roots) = roots(tree, tree.n_paths());
    Callees {
        query: question.query.to_owned(),
        root,
        roots,
        definitions: question.definitions.iter().zip(found).map(view).collect(),
        unfinished,
        behind: BehindView::for_tree(tree),
        took_ms: milliseconds(question.took),
        open_ms: milliseconds(question.open_time),
    }
}
