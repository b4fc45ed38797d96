//! References and call hierarchy, from callers and callees.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use lsp_types::{
    CallHierarchyIncomingCall, CallHierarchyItem, CallHierarchyOutgoingCall, Location, Position, Range,
    SymbolKind,
};
use quarry_index::{CallSite, Callee, Filter, Hit, Index, rules, snippet};
use quarry_source::UnitKind;
use serde::Deserialize;

use crate::error::RequestError;
use crate::folders::Searchable;
use crate::lines;
use crate::locations::uri_of;

/// Maximum number of calls that are listed.
const MAX_CALLS: usize = 1000;

#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    pub(crate) uri: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct At {
    text_document: Document,
    position: Position,
    #[serde(default)]
    context: Context,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    #[serde(default)]
    include_declaration: bool,
}

/// An item of a call hierarchy that the client was sent.
#[derive(Debug, Deserialize)]
pub(crate) struct OfItem {
    item: Item,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    name: String,
    uri: String,
    selection_range: Range,
}

struct Subject {
    name: String,
    definitions: Vec<Hit>,
}

impl Searchable {
    pub(crate) fn references(&self, asked: &At) -> Result<Vec<Location>, RequestError> {
        let texts = Texts::new(&self.tree.index);
        let Some(subject) = self.subject(&texts, asked)? else { return Ok(Vec::new()) };
        let calls = self.tree.index.callers(&subject.name, &subject.definitions, &Filter::default())?;
        let mut locations = Vec::new();
        if asked.context.include_declaration {
            let definitions = subject.definitions.iter();
            locations.extend(
                definitions.filter_map(|hit| self.location(hit.root, &hit.path, texts.selection(hit))),
            );
        }
        let mut sites = Sites::new(&texts);
        let sites = calls.found.iter().take(MAX_CALLS).filter_map(|site| {
            let range = sites.range(site);
            self.location(site.root, &site.path, range)
        });
        locations.extend(sites);
        self.tree.index.check_intact()?;
        Ok(locations)
    }

    /// The definitions at a position, or of what is called there.
    pub(crate) fn hierarchy(&self, asked: &At) -> Result<Vec<CallHierarchyItem>, RequestError> {
        let texts = Texts::new(&self.tree.index);
        let Some(subject) = self.subject(&texts, asked)? else { return Ok(Vec::new()) };
        let items = subject.definitions.iter().filter_map(|hit| self.item(&texts, hit)).collect();
        self.tree.index.check_intact()?;
        Ok(items)
    }

    pub(crate) fn incoming(&self, asked: &OfItem) -> Result<Vec<CallHierarchyIncomingCall>, RequestError> {
        let index = &self.tree.index;
        let Some(target) = self.definition(&asked.item)? else { return Ok(Vec::new()) };
        let texts = Texts::new(index);
        let calls = index.callers(&target.name, std::slice::from_ref(&target), &Filter::default())?;
        let mut found: Vec<(Option<usize>, CallHierarchyIncomingCall)> = Vec::new();
        let mut sites = Sites::new(&texts);
        for site in calls.found.iter().take(MAX_CALLS) {
            let range = sites.range(site);
            let caller = index.definition_at_in(site.root, &site.path, site.line);
            let unit = caller.as_ref().map(|hit| hit.unit);
            let known = found.iter_mut().find(|(other, call)| {
                *other == unit && (unit.is_some() || call.from.detail.as_ref() == Some(&site.path))
            });
            if let Some((_, call)) = known {
                call.from_ranges.push(range);
                continue;
            }
            let from = match &caller {
                Some(hit) => self.item(&texts, hit),
                None => self.file_item(site, range),
            };
            found.extend(
                from.map(|from| (unit, CallHierarchyIncomingCall { from, from_ranges: vec![range] })),
            );
        }
        index.check_intact()?;
        Ok(found.into_iter().map(|(_, call)| call).collect())
    }

    /// Calls of an item, as far as they are resolved: a name with several definitions is left out.
    pub(crate) fn outgoing(&self, asked: &OfItem) -> Result<Vec<CallHierarchyOutgoingCall>, RequestError> {
        let index = &self.tree.index;
        let Some(caller) = self.definition(&asked.item)? else { return Ok(Vec::new()) };
        let texts = Texts::new(index);
        let is_known = |callee: &&Callee| callee.is_certain || callee.definitions.len() == 1;
        let calls = index.callees(&caller)?;
        let mut found = Vec::new();
        for callee in calls.found.iter().filter(is_known) {
            let name = last_name(&callee.name);
            let lines = callee.lines.iter();
            let from_ranges: Vec<Range> =
                lines.flat_map(|line| texts.ranges(caller.root, &caller.path, *line, name)).collect();
            for unit in callee.definitions.iter() {
                let to = self.item(&texts, &index.unit(*unit));
                found.extend(to.map(|to| CallHierarchyOutgoingCall { to, from_ranges: from_ranges.clone() }));
            }
        }
        index.check_intact()?;
        Ok(found)
    }

    fn subject(&self, texts: &Texts, asked: &At) -> Result<Option<Subject>, RequestError> {
        let index = &self.tree.index;
        let (root, path) = self.place(&asked.text_document.uri)?;
        let Position { line: number, character } = asked.position;
        let here = index.definition_at_in(root, &path, number.saturating_add(1));
        let alone = |hit: Hit| Subject { name: hit.name.clone(), definitions: vec![hit] };
        let line = texts.text(root, &path).and_then(|text| lines::line(&text, number).map(str::to_owned));
        let word = line.as_deref().and_then(|line| {
            let found = lines::identifier_at(line, lines::byte_in_line(line, character))?;
            Some(&line[found])
        });
        let Some(word) = word else { return Ok(here.map(alone)) };
        let is_declared_here = |hit: &Hit| {
            is_declaration(hit) && last_name(&hit.name) == word && texts.selection(hit).start.line == number
        };
        if let Some(hit) = index.file(root, &path).and_then(|file| file.hits().find(is_declared_here)) {
            return Ok(Some(alone(hit)));
        }
        if let Some(here) = &here {
            let is_here = |callee: &&Callee| {
                callee.lines.contains(&number.saturating_add(1)) && last_name(&callee.name) == word
            };
            let calls = index.callees(here)?;
            let called = calls.found.iter().filter(is_here).flat_map(|callee| callee.definitions.iter());
            let definitions: Vec<Hit> = called.map(|unit| index.unit(*unit)).collect();
            if !definitions.is_empty() {
                return Ok(Some(Subject { name: word.to_owned(), definitions }));
            }
        }
        let definitions = index.definitions_of(word, &Filter::default());
        Ok(Some(Subject { name: word.to_owned(), definitions }))
    }

    /// The definition that an item stands for.
    fn definition(&self, item: &Item) -> Result<Option<Hit>, RequestError> {
        let (root, path) = self.place(&item.uri)?;
        let line = item.selection_range.start.line.saturating_add(1);
        let is_it = |hit: &Hit| is_declaration(hit) && hit.name == item.name;
        let named = self
            .tree
            .index
            .file(root, &path)
            .and_then(|file| file.hits().filter(is_it).min_by_key(|hit| hit.start_line.abs_diff(line)));
        Ok(named.or_else(|| self.tree.index.definition_at_in(root, &path, line)))
    }

    pub(crate) fn location(&self, root: usize, path: &str, range: Range) -> Option<Location> {
        Some(Location { uri: uri_of(&self.spelled(root, path))?, range })
    }

    fn item(&self, texts: &Texts, hit: &Hit) -> Option<CallHierarchyItem> {
        Some(CallHierarchyItem {
            name: hit.name.clone(),
            kind: symbol_kind(hit.kind),
            tags: None,
            detail: Some(hit.path.clone()),
            uri: uri_of(&self.spelled(hit.root, &hit.path))?,
            range: texts.definition_range(hit),
            selection_range: texts.selection(hit),
            data: None,
        })
    }

    /// Stands for the code of a file outside of definitions.
    fn file_item(&self, site: &CallSite, range: Range) -> Option<CallHierarchyItem> {
        let name = site.path.rsplit('/').next().unwrap_or_default().to_owned();
        Some(CallHierarchyItem {
            name,
            kind: SymbolKind::FILE,
            tags: None,
            detail: Some(site.path.clone()),
            uri: uri_of(&self.spelled(site.root, &site.path))?,
            range,
            selection_range: range,
            data: None,
        })
    }
}

pub(crate) fn symbol_kind(kind: UnitKind) -> SymbolKind {
    match kind {
        UnitKind::Function => SymbolKind::FUNCTION,
        UnitKind::Method => SymbolKind::METHOD,
        UnitKind::Type => SymbolKind::CLASS,
        UnitKind::Module => SymbolKind::MODULE,
        UnitKind::Section => SymbolKind::STRING,
    }
}

/// Returns whether a unit is a definition with its declaration, rather than a later part of one.
fn is_declaration(hit: &Hit) -> bool {
    rules::is_definition(hit.kind) && !hit.signature.is_empty()
}

/// The last part of a name, as it is written anywhere.
fn last_name(name: &str) -> &str {
    let mut parts = name.rsplit(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$'));
    parts.find(|part| !part.is_empty()).unwrap_or(name)
}

/// A file: the number of its folder, and its path there.
type FileKey = (usize, String);

/// The texts of files, each read once.
pub(crate) struct Texts<'a> {
    index: &'a Index,
    read: RefCell<HashMap<FileKey, Option<Rc<str>>>>,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(index: &'a Index) -> Self {
        Self { index, read: RefCell::default() }
    }

    /// The text of a file; none of one that cannot be read, or of a notebook, whose lines are those of its JSON.
    fn text(&self, root: usize, path: &str) -> Option<Rc<str>> {
        let read = || {
            let text = self.index.file(root, path)?.text().ok()?;
            text.notebook_lines().is_none().then(|| Rc::from(&*text.to_str()))
        };
        self.read.borrow_mut().entry((root, path.to_owned())).or_insert_with(read).clone()
    }

    fn definition_range(&self, hit: &Hit) -> Range {
        let last = self.index.last_line(hit).saturating_sub(1);
        let text = self.text(hit.root, &hit.path);
        let line = text.as_deref().and_then(|text| lines::line(text, last)).unwrap_or_default();
        let end = Position { line: last, character: lines::character_of(line, line.len()) };
        Range { start: Position { line: hit.start_line.saturating_sub(1), character: 0 }, end }
    }

    /// Range of the declared name of a unit; its first line if that is unknown.
    pub(crate) fn selection(&self, hit: &Hit) -> Range {
        let first = hit.start_line.saturating_sub(1);
        let start = Position { line: first, character: 0 };
        let begin = Range { start, end: start };
        let name = last_name(&hit.name);
        let Some(text) = self.text(hit.root, &hit.path).filter(|_| !name.is_empty()) else { return begin };
        let n_lines = hit.end_line.saturating_sub(hit.start_line) as usize + 1;
        let source: Vec<&str> = text.lines().skip(first as usize).take(n_lines).collect();
        let declared = snippet::declaration_lines(&source.join("\n"), &hit.signature);
        let declared = if declared.is_empty() { 0..source.len() } else { declared };
        let lines = source.get(declared.clone()).unwrap_or_default();
        let found = lines
            .iter()
            .zip(declared)
            .find_map(|(line, number)| Some((*line, number, lines::occurrences(line, name).next()?)));
        found.map_or(begin, |(line, number, found)| range_in(line, first + number as u32, found))
    }

    /// Ranges of a word in a line, which is counted from 1.
    fn ranges(&self, root: usize, path: &str, line: u32, word: &str) -> Vec<Range> {
        let (text, number) = (self.text(root, path), line.saturating_sub(1));
        let line = text.as_deref().and_then(|text| lines::line(text, number)).unwrap_or_default();
        lines::occurrences(line, word).map(|found| range_in(line, number, found)).collect()
    }
}

/// Finds calls in their lines, one after the other where a line has several.
struct Sites<'a> {
    texts: &'a Texts<'a>,
    seen: HashMap<(usize, String, u32, String), usize>,
}

impl<'a> Sites<'a> {
    fn new(texts: &'a Texts<'a>) -> Self {
        Self { texts, seen: HashMap::new() }
    }

    fn range(&mut self, site: &CallSite) -> Range {
        let name = last_name(&site.callee);
        let ranges = self.texts.ranges(site.root, &site.path, site.line, name);
        let before = self.seen.entry((site.root, site.path.clone(), site.line, name.to_owned())).or_default();
        let start = Position { line: site.line.saturating_sub(1), character: 0 };
        let found = ranges.get(*before).or(ranges.last()).copied();
        *before += 1;
        found.unwrap_or(Range { start, end: start })
    }
}

fn range_in(line: &str, number: u32, bytes: std::ops::Range<usize>) -> Range {
    let position = |byte| Position { line: number, character: lines::character_of(line, byte) };
    Range { start: position(bytes.start), end: position(bytes.end) }
}
