//! Calls of a definition, and a card about it.

use axum::extract::{Path, State};
use axum::response::Html;
use maud::{Markup, html};
use quarry_index::{CallSite, Filter, Hit};
use quarry_session::{Marks, Need, Tree};
use quarry_source::{SourceText, language_named};
use quarry_text::counted;

use super::layout::{file_address, fragment};
use super::results::{Page, ResultsShown, whole};
use super::{ProblemPage, is_fragment};
use crate::api::{CallsAsked, MAX_CALLS, unit_at};
use crate::app::App;
use crate::highlight::ColoredLines;
use crate::params::Params;
use crate::problem::Problem;
use crate::question::Position;

/// Definitions on the way to this one.
const MAX_WAY: usize = 12;
/// Bytes of the longest text that is parsed for the documentation of a definition.
const MAX_DOCUMENTED_BYTES: usize = 400_000;
/// Calls that are listed in place, and bytes of the longest line.
const MAX_IN_PLACE: usize = 40;

pub(crate) async fn calls(State(app): State<App>, params: Params) -> Page {
    let is_in_place = is_fragment(&params);
    let way: Vec<Position> = params
        .all("via")
        .iter()
        .rev()
        .take(MAX_WAY)
        .rev()
        .map(|via| position(via, &app))
        .collect::<Result<_, _>>()?;
    let own = params.without("fragment").without("via").without("q");
    let asked = CallsAsked::read(&own, &app)?;
    let server = app.clone();
    let html = server.ask(move |current| {
        let tree = current.tree.tree_for(&Need::Calls)?;
        let definitions = asked.definitions(&tree)?;
        let found = tree.index.callers(&asked.query, &definitions, &Filter::default())?;
        let nothing = Params::default();
        let shown = ResultsShown { trees: &app.trees, params: &nothing, tree: &tree, marks: &Marks::default() };
        // The way goes on from here.
        let here: Vec<String> = definitions.first().map(|hit| shown.via(hit)).into_iter().collect();
        let further = here.iter().fold(params.clone(), |params, via| params.and("via", via));
        let page = CallsPage { shown: &shown, way: &further };
        let limit = if is_in_place { MAX_IN_PLACE } else { asked.limit() };
        let (certain, by_name): (Vec<&CallSite>, Vec<&CallSite>) =
            found.found.iter().partition(|site| site.is_certain);
        let n_certain = certain.len().min(limit);
        let n_by_name = by_name.len().min(limit - n_certain);
        let sites = html! {
            (page.by_file(&certain[..n_certain]))
            @if !by_name.is_empty() {
                details .sites open[certain.is_empty() && !is_in_place] {
                    summary { (counted(by_name.len(), "more call")) " matched by name only" }
                    (page.by_file(&by_name[..n_by_name]))
                }
            }
            @if n_certain + n_by_name < found.found.len() && asked.limit() < MAX_CALLS {
                p { a .button href=(params.without("fragment").with("k", &MAX_CALLS.to_string()).link("/calls")) { "Show more" } }
            }
        };
        let place = counted(found.found.len(), "place");
        if is_in_place {
            let heading = html! { p { b { "Called in " (place) } " " a href=(own.link("/calls")) { "All calls" } } };
            return Ok(fragment(&html! { (heading) (sites) }));
        }
        let mut called = Vec::new();
        for definition in &definitions {
            for callee in tree.index.callees(definition)?.found {
                if let Some(first) = callee.definitions.first().filter(|_| callee.is_certain) {
                    called.push((tree.index.unit(*first), callee));
                }
            }
        }
        let body = html! {
            div .columns {
                main #main tabindex="-1" {
                    @if !way.is_empty() { (page.way(&tree, &way, &params, &definitions)) }
                    h1 .summary {
                        "Calls of "
                        @for (at, definition) in definitions.iter().enumerate() {
                            @if at > 0 { ", " }
                            (shown.unit_link(definition))
                        }
                        @if definitions.is_empty() { (asked.query) }
                    }
                    h2 { "Called in " (place) }
                    (sites)
                    @for file in &found.unfinished {
                        p { (file.path) ":" (file.line) ": calls from here on may be missing: " (file.reason) }
                    }
                    h2 {
                        @if called.is_empty() { "Calls no known definition" }
                        @else { "Calls " (counted(called.len(), "definition")) }
                    }
                    ul .sites {
                        @for (hit, callee) in &called {
                            li {
                                (shown.unit_link(hit)) " "
                                span .quiet { "on " (counted(callee.lines.len(), "line")) " "
                                    @for line in callee.lines.iter().take(5) { (line) " " } }
                                (page.onward(hit))
                            }
                        }
                    }
                }
            }
        };
        Ok(whole(&app.trees, &nothing, &format!("Calls of {}", asked.query), body).into_string())
    });
    Ok(Html(html.await?))
}

/// `TREE:LINE:PATH`, as links have the definitions on the way.
fn position(via: &str, app: &App) -> Result<Position, Problem> {
    let expected = || Problem::bad_request("via: expected TREE:LINE:PATH, as links of this page have it");
    let mut parts = via.splitn(3, ':');
    let (Some(tree), Some(line), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(expected());
    };
    let line = line.parse().map_err(|_| expected())?;
    Ok(Position { root: app.trees.number(tree)?, path: path.to_owned(), line })
}

struct CallsPage<'a> {
    shown: &'a ResultsShown<'a>,
    /// The parameters with the way to the definition, and itself.
    way: &'a Params,
}

impl CallsPage<'_> {
    /// Calls in the order of their files, each with its line.
    fn by_file(&self, sites: &[&CallSite]) -> Markup {
        let files = sites.chunk_by(|a, b| (a.root, &a.path) == (b.root, &b.path));
        html! {
            @for of_file in files {
                @let first = of_file[0];
                div .file {
                    h3 .position { (self.shown.shown_path(first.root, &first.path)) }
                    ul .sites { @for site in of_file { (self.site(site)) } }
                }
            }
        }
    }

    fn site(&self, site: &CallSite) -> Markup {
        let address = file_address(&Params::default(), self.shown.name_of(site.root), &site.path, site.line);
        let caller = site.caller.as_ref().filter(|hit| !hit.name.is_empty());
        let language = site.caller.as_ref().map_or("", |hit| hit.language.as_str());
        let mut marks = Vec::new();
        if let Some(at) = site.text.find(&site.callee) {
            marks.push(at..at + site.callee.len());
        }
        html! {
            li {
                a .place href=(address) aria-label={ (site.path) ":" (site.line) } { (site.line) }
                " " code .text { (ColoredLines::new(language, &site.text).line(0, &site.text, &marks, &[])) }
                @if let Some(caller) = caller {
                    " " span .quiet { "in " }
                    (self.onward_as(caller, html! { code { (caller.name) } }))
                }
            }
        }
    }

    /// A link to the calls of a definition, by way of this one.
    fn onward(&self, hit: &Hit) -> Markup {
        self.onward_as(hit, html! { "its calls" })
    }

    fn onward_as(&self, hit: &Hit, text: Markup) -> Markup {
        let address = self
            .way
            .all("via")
            .iter()
            .fold(Params::default(), |params, via| params.and("via", via))
            .at(self.shown.name_of(hit.root), &hit.path, hit.start_line)
            .link("/calls");
        html! { a href=(address) title={ "Calls of " (hit.name) } { (text) } }
    }

    /// The definitions on the way to this one, each a link back.
    fn way(&self, tree: &Tree, way: &[Position], params: &Params, definitions: &[Hit]) -> Markup {
        let all = params.all("via");
        let all = &all[all.len() - way.len()..];
        html! {
            nav .way aria-label="The way here" {
                @for (at, Position { root, path, line }) in way.iter().enumerate() {
                    @let hit = tree.index.definition_at_in(*root, path, *line);
                    @let address = all[..at]
                        .iter()
                        .fold(Params::default(), |params, via| params.and("via", via))
                        .at(self.shown.name_of(*root), path, *line)
                        .link("/calls");
                    a href=(address) { @if let Some(hit) = &hit { (hit.name) } @else { (path) } }
                    span .separator aria-hidden="true" { "→" }
                }
                @for definition in definitions.iter().take(1) { span aria-current="page" { (definition.name) } }
            }
        }
    }
}

/// Card of a definition: its signature, the first line of its documentation, and its number of callers.
pub(crate) async fn card(
    State(app): State<App>,
    Path((name, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, ProblemPage> {
    params.only(&["line"])?;
    let params = params.with("tree", &name).with("path", &path);
    let position = Position::read(&params, &app.trees)?;
    let server = app.clone();
    let html = server.ask(move |current| {
        let tree = current.tree.tree_for(&Need::Calls)?;
        let hit = unit_at(&tree, &position)?;
        let calls = tree.index.callers(&hit.name, std::slice::from_ref(&hit), &Filter::default())?;
        let certain = calls.found.len() - calls.n_by_name();
        let colored = ColoredLines::new(&hit.language, &hit.signature);
        Ok(fragment(&html! {
            pre { @for (index, line) in hit.signature.lines().enumerate() { (colored.line(index, line, &[], &[])) "\n" } }
            @if let Some(summary) = documentation(&tree, &hit) { p { (summary) } }
            p .quiet {
                (path) ":" (hit.start_line) " · called in " (counted(certain, "place"))
                @if calls.n_by_name() > 0 { ", and perhaps " (calls.n_by_name()) " more" }
            }
        }))
    });
    Ok(Html(html.await?))
}

/// The first line of the documentation of a definition.
fn documentation(tree: &Tree, hit: &Hit) -> Option<String> {
    let language = language_named(&hit.language)?;
    let source = tree.index.source(hit).ok()?.text;
    let text = SourceText::plain(source.into_bytes());
    let is_short = text.bytes().len() <= MAX_DOCUMENTED_BYTES;
    let units = is_short.then(|| text.extract(language).units)?;
    let doc = units.into_iter().map(|unit| unit.doc).find(|doc| !doc.trim().is_empty())?;
    doc.trim().lines().next().map(str::to_owned)
}
