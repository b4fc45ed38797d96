//! Who calls a definition, and what it calls.

use std::time::Duration;

use quarry_index::{CallSite, Callee, Calls, Hit, UnfinishedFile};
use serde::Serialize;

use crate::{Tree, kind_name, milliseconds};

/// A definition.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DefinitionView {
    /// Its file.
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

/// The calls of something.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Callers {
    /// What was asked for.
    pub query: String,
    /// Absolute path that all paths are relative to.
    pub root: String,
    /// What has the name or is at the position.
    pub definitions: Vec<DefinitionView>,
    /// Where it is called.
    pub callers: Vec<SiteView>,
    /// How many there are, those that are left out of `callers` included.
    pub total: usize,
    /// Files in which more calls may be, from a line on.
    pub unfinished: Vec<UnfinishedView>,
    /// Milliseconds of the search.
    pub took_ms: f64,
    /// Milliseconds of opening the index.
    pub open_ms: f64,
}

/// A file in which more calls may be.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnfinishedView {
    /// The file.
    pub path: String,
    /// Line from which calls may be missing, 1-based.
    pub line: u32,
    /// The limit that was reached.
    pub reason: String,
}

impl UnfinishedView {
    fn of(file: &UnfinishedFile) -> Self {
        Self { path: file.path.clone(), line: file.line, reason: file.reason.clone() }
    }
}

/// A call.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SiteView {
    /// Its file.
    pub path: String,
    /// 1-based.
    pub line: u32,
    /// The text of the line.
    pub text: String,
    /// What the call is in; null outside of units.
    pub caller: Option<DefinitionView>,
    /// The name that is called.
    pub callee: String,
    /// What it is called on.
    pub receiver: Option<String>,
    /// Whether scopes or imports say what is called; else it may be any of `definitions`, or something else.
    pub certain: bool,
    /// What it may call.
    pub definitions: Vec<DefinitionView>,
}

/// What something calls.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Callees {
    /// What was asked for.
    pub query: String,
    /// Absolute path that all paths are relative to.
    pub root: String,
    /// Each definition, with what it calls.
    pub definitions: Vec<CalleesOfDefinition>,
    /// Files in which more calls may be, from a line on.
    pub unfinished: Vec<UnfinishedView>,
    /// Milliseconds of the search.
    pub took_ms: f64,
    /// Milliseconds of opening the index.
    pub open_ms: f64,
}

/// What a definition calls.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalleesOfDefinition {
    /// The definition.
    #[serde(flatten)]
    pub definition: DefinitionView,
    /// What the tree defines.
    pub callees: Vec<CalleeView>,
    /// What nothing in the tree defines.
    pub external: Vec<ExternalView>,
}

/// Something that is called.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalleeView {
    /// As it is written there.
    pub name: String,
    /// Where it is called, 1-based.
    pub lines: Vec<u32>,
    /// Whether scopes or imports say what is called.
    pub certain: bool,
    /// What it may be.
    pub definitions: Vec<DefinitionView>,
}

/// Something that is called and that nothing in the tree defines.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExternalView {
    /// As it is written there.
    pub name: String,
    /// Where it is called, 1-based.
    pub lines: Vec<u32>,
}

/// A search for calls: what was asked for and what that is, with the times to open and to search the index.
#[derive(Debug, Clone, Copy)]
pub struct CallsQuestion<'a> {
    /// As it was asked for.
    pub query: &'a str,
    /// What that is.
    pub definitions: &'a [Hit],
    /// Maximum number of calls, or of callees of each definition.
    pub limit: usize,
    /// Time of the search.
    pub took: Duration,
    /// Time of opening the index.
    pub open_time: Duration,
}

impl DefinitionView {
    /// Of a unit.
    #[must_use]
    pub fn of(hit: &Hit) -> Self {
        Self {
            path: hit.path.clone(),
            start_line: hit.start_line,
            end_line: hit.end_line,
            name: hit.name.clone(),
            kind: kind_name(hit.kind),
            language: hit.language.clone(),
        }
    }

    fn of_units(tree: &Tree, units: &[usize]) -> Vec<Self> {
        units.iter().map(|unit| Self::of(&tree.index.unit(*unit))).collect()
    }
}

/// The object of `callers --json`.
#[must_use]
pub fn callers(tree: &Tree, question: &CallsQuestion, calls: &Calls<CallSite>) -> Callers {
    let sites = &calls.found;
    let view = |site: &CallSite| SiteView {
        path: site.path.clone(),
        line: site.line,
        text: site.text.clone(),
        caller: site.caller.as_ref().map(DefinitionView::of),
        callee: site.callee.clone(),
        receiver: site.receiver.clone(),
        certain: site.is_certain,
        definitions: DefinitionView::of_units(tree, &site.definitions),
    };
    Callers {
        query: question.query.to_owned(),
        root: tree.roots().pop().unwrap_or_default(),
        definitions: question.definitions.iter().map(DefinitionView::of).collect(),
        callers: sites.iter().take(question.limit).map(view).collect(),
        total: sites.len(),
        unfinished: calls.unfinished.iter().map(UnfinishedView::of).collect(),
        took_ms: milliseconds(question.took),
        open_ms: milliseconds(question.open_time),
    }
}

/// The object of `callees --json`; `found` has the callees of each definition.
#[must_use]
pub fn callees(tree: &Tree, question: &CallsQuestion, found: &[Calls<Callee>]) -> Callees {
    let of = |(hit, callees): (&Hit, &Calls<Callee>)| {
        let callees = &callees.found;
        let (external, inside): (Vec<&Callee>, Vec<&Callee>) =
            callees.iter().take(question.limit).partition(|callee| callee.definitions.is_empty());
        let inside = inside.into_iter().map(|callee| CalleeView {
            name: callee.name.clone(),
            lines: callee.lines.clone(),
            certain: callee.is_certain,
            definitions: DefinitionView::of_units(tree, &callee.definitions),
        });
        let external = external
            .into_iter()
            .map(|callee| ExternalView { name: callee.name.clone(), lines: callee.lines.clone() });
        CalleesOfDefinition {
            definition: DefinitionView::of(hit),
            callees: inside.collect(),
            external: external.collect(),
        }
    };
    let mut unfinished: Vec<UnfinishedView> =
        found.iter().flat_map(|callees| &callees.unfinished).map(UnfinishedView::of).collect();
    unfinished.dedup();
    Callees {
        query: question.query.to_owned(),
        root: tree.roots().pop().unwrap_or_default(),
        definitions: question.definitions.iter().zip(found).map(of).collect(),
        unfinished,
        took_ms: milliseconds(question.took),
        open_ms: milliseconds(question.open_time),
    }
}
