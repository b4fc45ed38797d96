//! A file: its lines, with what is in it and around it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, PreEscaped, html};
use quarry_index::{Hit, IndexedFile, UnindexedFile, rules, snippet};
use quarry_session::{Marks, Need, Query, Tree};
use quarry_source::SourceText;
use quarry_text::query_terms;

use super::ProblemPage;
use super::code::line;
use super::directory::Place;
use super::layout::{file_address, place};
use super::results::{disjoint, whole};
use crate::api::not_indexed;
use crate::app::App;
use crate::highlight::{ColoredLines, Link};
use crate::params::Params;
use crate::problem::Problem;
use crate::question::COMMON;

/// Lines of a file on one page, and bytes of their HTML: together with what is beside them, less than 100 kB.
const PAGE_LINES: usize = 600;
const MAX_CODE_BYTES: usize = 68_000;
/// Lines before the one that is asked for, where it would be beyond those bytes.
const LINES_BEFORE: usize = 20;
/// Bytes of the HTML of the outline.
const MAX_OUTLINE_BYTES: usize = 12_000;

pub(super) enum ShownFile<'a> {
    Indexed(IndexedFile<'a>),
    Unindexed(UnindexedFile<'a>),
}

impl<'a> ShownFile<'a> {
    pub(super) fn find(tree: &'a Tree, root: usize, path: &str) -> Result<Self, Problem> {
        if let Some(file) = tree.index.file(root, path) {
            return Ok(Self::Indexed(file));
        }
        let unindexed = if tree.is_elsewhere() { None } else { tree.index.unindexed_file(root, path)? };
        unindexed.map(Self::Unindexed).ok_or_else(|| not_indexed(path))
    }

    pub(super) fn text(&self, path: &str) -> Result<SourceText, Problem> {
        let text = match self {
            Self::Indexed(file) => file.text(),
            Self::Unindexed(file) => file.text(),
        };
        let gone = format!("{path:?}: this file can no longer be read; it may have been removed");
        let text = text.map_err(|_| Problem::not_found(gone))?;
        if text.bytes().iter().take(8192).any(|byte| *byte == 0) {
            return Err(Problem::not_found(format!("{path:?}: this file is binary and is not shown")));
        }
        Ok(text)
    }

    pub(super) fn language(&self) -> &str {
        match self {
            Self::Indexed(file) => file.language(),
            Self::Unindexed(file) => file.language(),
        }
    }

    /// Its units, each once, however many parts it was split into.
    fn units(&self, tree: &Tree) -> Vec<Hit> {
        let Self::Indexed(file) = self else { return Vec::new() };
        file.hits().filter(|hit| tree.index.first_part(hit.unit) == hit.unit).collect()
    }
}

/// A file with its lines, from the page that holds the line which is asked for.
pub(crate) async fn file(
    State(app): State<App>,
    Path((name, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, ProblemPage> {
    params.only(&[&["line", "q"], &COMMON[..]].concat())?;
    let root = app.trees.number(&name)?;
    let wanted: Option<u32> = params.number("line")?;
    let params = params.without("line");
    let server = app.clone();
    let html = server.ask(move |current| {
        let tree = current.tree.tree_for(&Need::File(root, &path))?;
        let file = ShownFile::find(&tree, root, &path)?;
        let text = file.text(&path)?;
        let place = Place { params: &params, tree: &name, path: &path };
        let (units, names) = (file.units(&tree), app.trees.names());
        let page = FilePage { tree: &tree, root, place: &place, file: &file, text: &text, units, names };
        let beside = if tree.is_elsewhere() { None } else { Some(place.surroundings(&tree, root)?) };
        let code = page.code(wanted)?;
        let body = html! {
            div .columns {
                nav .facets.outline aria-label="Files and definitions" {
                    @if !page.units.is_empty() {
                        details data-remember="outline" { summary { "In this file" } (page.outline()) }
                    }
                    @if let Some(beside) = beside {
                        details .files data-remember="files" { summary { "Files" } (beside) }
                    }
                }
                main #main tabindex="-1" {
                    h1 .path { (place.crumbs()) }
                    (page.actions(wanted, &app.trees.links))
                    (code)
                }
            }
        };
        Ok(whole(&app.trees, &params, &path, body).into_string())
    });
    Ok(Html(html.await?))
}

/// The text of a file, as no browser interprets it.
pub(crate) async fn raw(
    State(app): State<App>,
    Path((name, path)): Path<(String, String)>,
) -> Result<Response, ProblemPage> {
    let root = app.trees.number(&name)?;
    let text = app.ask(move |current| {
        let tree = current.tree.tree_for(&Need::File(root, &path))?;
        Ok(ShownFile::find(&tree, root, &path)?.text(&path)?.into_bytes())
    });
    let text = text.await?;
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ];
    Ok((headers, text).into_response())
}

struct FilePage<'a> {
    tree: &'a Tree,
    root: usize,
    place: &'a Place<'a>,
    file: &'a ShownFile<'a>,
    text: &'a SourceText,
    units: Vec<Hit>,
    /// The names of the trees.
    names: &'a [String],
}

impl FilePage<'_> {
    fn address(&self, line: u32) -> String {
        file_address(self.place.params, self.place.tree, self.place.path, line)
    }

    /// The definitions and sections, each below the one that contains it.
    fn outline(&self) -> Markup {
        let mut items = String::new();
        let mut n_left_out = 0;
        let mut around: Vec<&str> = Vec::new();
        for hit in self.units.iter().filter(|hit| !hit.name.is_empty()) {
            let is_inside =
                |outer: &&str| hit.name.strip_prefix(*outer).is_some_and(|rest| rest.starts_with('.'));
            around.truncate(around.iter().take_while(|outer| is_inside(outer)).count());
            let label = around.last().map_or(hit.name.as_str(), |outer| &hit.name[outer.len() + 1..]);
            // The page itself, without its path.
            let address = self.place.params.with("line", &hit.start_line.to_string()).link("");
            let item = html! {
                li .{ "d" (around.len().min(6)) } {
                    a href={ (address) "#L" (hit.start_line) } title=(hit.name) { (label) }
                }
            };
            around.push(&hit.name);
            if items.len() + item.0.len() > MAX_OUTLINE_BYTES {
                n_left_out += 1
            } else {
                items.push_str(&item.0)
            }
        }
        html! {
            ul .names { (PreEscaped(items)) @if n_left_out > 0 { li .quiet { (n_left_out) " more" } } }
        }
    }

    fn actions(&self, wanted: Option<u32>, links: &[super::CodeLink]) -> Markup {
        let Place { tree: name, path, .. } = self.place;
        let unit = wanted.and_then(|line| self.tree.index.unit_at_in(self.root, path, line));
        let line = wanted.unwrap_or(1);
        let position = |line: u32| Params::default().at(name, path, line);
        html! {
            p .actions {
                @if let Some(hit) = unit {
                    @if rules::is_definition(hit.kind) && !self.tree.is_elsewhere() {
                        a href=(position(hit.start_line).link("/calls")) { "Calls" } " "
                        a href=(position(hit.start_line).link("/related")) { "Related" } " "
                    }
                    a href=(position(hit.start_line).link("/similar")) { "Similar" } " "
                }
                @if let ShownFile::Indexed(_) = self.file {
                    @if !self.tree.is_elsewhere() { a href={ "/history/" (place(name, path)) } { "History" } " " }
                }
                a href={ "/raw/" (place(name, path)) } { "Raw" } " "
                button type="button" data-copy=(path) { "Copy path" } " "
                button type="button" data-copy-link=(file_address(&Params::default(), name, path, line)) { "Copy link" }
                @for link in links {
                    " " a href=(link.address(name, &self.tree.root(self.root), path, line)) { (link.name) }
                }
            }
        }
    }

    /// The lines, with links to more of them.
    fn code(&self, wanted: Option<u32>) -> Result<Markup, Problem> {
        let content = self.text.to_str();
        let all: Vec<&str> = content.lines().collect();
        let numbers: Vec<u32> = (0..all.len()).map(|index| self.text.line_number(index)).collect();
        let at = wanted.map_or(0, |line| numbers.partition_point(|number| *number < line));
        let at = at.min(all.len().saturating_sub(1));
        let colored = ColoredLines::new(self.file.language(), &content);
        let current = wanted.and_then(|line| self.tree.index.unit_at_in(self.root, self.place.path, line));
        let current = current.map_or(0..0, |hit| hit.start_line..hit.end_line + 1);
        let marks = PageMarks::new(self.place.params);
        let links = self.links(&all, &numbers)?;
        let render = |first: usize| {
            let (mut html, mut end) = (String::new(), first);
            for (index, text) in all.iter().enumerate().skip(first).take(PAGE_LINES) {
                let number = numbers[index];
                let is_current = current.contains(&number);
                let no_links = Vec::new();
                let links = links.get(&index).unwrap_or(&no_links);
                let shown = colored.line(index, text, &marks.ranges(text, is_current), links);
                let shown = line(number, is_current, wanted == Some(number) && index == at, &shown);
                if html.len() + shown.len() > MAX_CODE_BYTES && index > first {
                    break;
                }
                html.push_str(&shown);
                end = index + 1;
            }
            (html, first..end)
        };
        let (mut html, mut range) = render(at / PAGE_LINES * PAGE_LINES);
        if range.end <= at {
            (html, range) = render(at.saturating_sub(LINES_BEFORE));
        }
        let page_link = |index: usize| self.address(numbers.get(index).copied().unwrap_or(1));
        Ok(html! {
            @if range.start > 0 { p { a href=(page_link(range.start - 1)) { "Lines before" } } }
            div .code tabindex="0" role="region" aria-label="Code" { (PreEscaped(html)) }
            @if range.end < all.len() { p { a href=(page_link(range.end)) { "Lines after" } } }
        })
    }

    /// By the index of a line: what is called there leads to its definition, and what is defined there to its calls.
    fn links(&self, all: &[&str], numbers: &[u32]) -> Result<HashMap<usize, Vec<Link>>, Problem> {
        let ShownFile::Indexed(file) = self.file else { return Ok(HashMap::new()) };
        if self.tree.is_elsewhere() || self.text.notebook_lines().is_some() {
            return Ok(HashMap::new());
        }
        let mut links: HashMap<usize, Vec<Link>> = HashMap::new();
        let Place { tree: name, path, .. } = self.place;
        for hit in self.units.iter().filter(|hit| rules::is_definition(hit.kind)) {
            let lines = self.tree.index.lines(hit, self.text);
            let source = all.get(lines.start..lines.end.min(all.len())).unwrap_or_default().join("\n");
            let declared = snippet::declaration_line(&source, &hit.signature).map(|line| lines.start + line);
            let own = hit.name.rsplit('.').next().unwrap_or_default();
            let Some((index, text)) = declared.and_then(|index| Some((index, *all.get(index)?))) else {
                continue;
            };
            let address = Params::default().at(name, path, hit.start_line).link("/calls");
            links.entry(index).or_default().extend(words(text, own).into_iter().take(1).map(|range| Link {
                range,
                class: "refs",
                address: address.clone(),
            }));
        }
        // Calls of one name in a line may be several.
        let mut seen = HashSet::new();
        for site in self.tree.index.certain_calls_in(file)? {
            let Some(index) = numbers.iter().position(|number| *number == site.line) else { continue };
            let (Some(text), Some(unit)) = (all.get(index), site.definitions.first()) else { continue };
            if !seen.insert((index, site.callee.clone())) {
                continue;
            }
            let target = self.tree.index.unit(*unit);
            let address = self.target(&target);
            let of_line = links.entry(index).or_default();
            for range in words(text, &site.callee) {
                if of_line.iter().all(|link| link.range.end <= range.start || range.end <= link.range.start) {
                    of_line.push(Link { range, class: "def", address: address.clone() });
                }
            }
        }
        links.values_mut().for_each(|links| links.sort_by_key(|link| link.range.start));
        Ok(links)
    }

    /// The address of a definition; in the same file, without its path.
    fn target(&self, target: &Hit) -> String {
        if target.root == self.root && target.path == self.place.path {
            let line = target.start_line;
            return format!("{}#L{line}", self.place.params.with("line", &line.to_string()).link(""));
        }
        let name = self.names.get(target.root).map_or("", String::as_str);
        file_address(self.place.params, name, &target.path, target.start_line)
    }
}

/// Offset of a whole word in a line.
fn words(line: &str, word: &str) -> Vec<Range<usize>> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    if word.is_empty() {
        return Vec::new();
    }
    line.match_indices(word)
        .map(|(at, _)| at..at + word.len())
        .filter(|range| {
            !line[..range.start].ends_with(is_letter) && !line[range.end..].starts_with(is_letter)
        })
        .collect()
}

/// Marks of a query in a file: lines that match an expression everywhere, words in the unit that is shown.
struct PageMarks {
    marks: Marks,
    is_exact: bool,
}

impl PageMarks {
    fn new(params: &Params) -> Self {
        let asked = params.get("q").and_then(|text| Query::parse(text).ok()).unwrap_or_default();
        Self { is_exact: asked.is_exact(), marks: Marks::from_query(&asked, query_terms(&asked.words)) }
    }

    fn ranges(&self, text: &str, is_current: bool) -> Vec<Range<usize>> {
        if self.is_exact || is_current { disjoint(self.marks.ranges(text)) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_matched_whole() {
        assert_eq!(words("get(target.get, getter, _get, get)", "get"), [0..3, 11..14, 30..33]);
        assert!(words("a", "").is_empty());
    }
}
