//! Results: of a query, and like other code.

use std::ops::Range;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Html;
use maud::{Markup, PreEscaped, html};
use quarry_index::{Combination, Explanation, Hit};
use quarry_session::{Block, Excerpt, Marks, Need, Query, ResultView, Tree, UnitView};
use quarry_source::SourceText;
use quarry_text::counted;

use super::code::{CodeLine, preview};
use super::filters::Narrowing;
use super::layout::{file_address, fragment, hints, page};
use super::start::{start, suggestions};
use super::{ProblemPage, is_fragment};
use crate::api::{need_for_similar, unit_at};
use crate::app::App;
use crate::examples::Examples;
use crate::fitted::Fitted;
use crate::highlight::ColoredLines;
use crate::metrics::Stage;
use crate::params::Params;
use crate::problem::Problem;
use crate::question::{COMMON, MAX_QUERY_CHARS, MAX_RESULTS, Position, Question, query};
use crate::trees::{Progress, Trees};

/// Lines of a result, about, where a request does not say how many.
const PAGE_LINES: usize = 10;
/// The longest unit that is parsed to color some lines of it, in bytes; of longer ones only these lines are.
const MAX_UNIT_BYTES: usize = 16_000;
/// The longest page of results, in bytes: results beyond are left out.
const MAX_PAGE_BYTES: usize = 90_000;

/// Levels of an explanation that are shown without being asked for.
const OPEN_LEVELS: usize = 2;

pub(super) type Page = Result<Html<String>, ProblemPage>;

/// The search page: a form, and the results if something is asked for.
pub(crate) async fn search(State(app): State<App>, params: Params) -> Page {
    params.only(&[&["q", "fragment", "from"], &COMMON[..]].concat())?;
    let is_fragment = is_fragment(&params);
    let from: usize = params.number("from")?.unwrap_or(1);
    if !(1..=MAX_RESULTS).contains(&from) {
        return Err(Problem::bad_request(format!("from: expected 1 to {MAX_RESULTS}, found {from}")).into());
    }
    let params = params.without("fragment").without("from");
    let Some(current) = app.trees.current() else {
        let progress = app.trees.progress().clone();
        return Ok(Html(whole(&app.trees, &params, "Indexing", building(&progress, &params)).into_string()));
    };
    if params.get("q").is_none() {
        let gate = app.gate.clone();
        let html = gate.run(move || {
            let body = start(&app.trees, &params, &current);
            Ok(match is_fragment {
                true => fragment(&body),
                false => framed(&app.trees, &params, ("Search", true), body).into_string(),
            })
        });
        return Ok(Html(html.await?));
    }
    let text = query(&params)?.to_owned();
    let asked = Query::parse(&text).map_err(Problem::from)?;
    let mut question = Question::read(&params, &app.trees)?;
    if params.get("lines").is_none() {
        question.shown.excerpt = Excerpt::Preview(PAGE_LINES);
    }
    let n_on_page = question.limit;
    // One more than is shown, to know whether there is more.
    question.limit = (from + n_on_page).min(MAX_RESULTS);
    let server = app.clone();
    let html = server.ask(move |current| {
        let filter = asked.narrow(question.filter.clone(), app.trees.names())?;
        let need = Need::Query(&asked.words, &filter, question.limit);
        let (start, tree) = (Instant::now(), current.tree.tree_for(&need)?);
        let found = quarry_session::search(&tree.index, asked.clone(), &question.request(app.trees.names()))?;
        let searched = start.elapsed();
        app.metrics.time(Stage::Search, searched);
        let facets = found.facets(&tree, &question.directory);
        let has_more = found.hits.len() >= from + n_on_page;
        let page = from - 1..from - 1 + n_on_page;
        let hits: Vec<Hit> = found.hits.iter().skip(page.start).take(n_on_page).cloned().collect();
        let (marks, read_as) = (found.marks(), found.read_as.clone());
        let fitted = Fitted::new(&tree, found, page, &question.shown, Duration::ZERO)?;
        let (answer, without_lines) = fitted.into_parts();
        let shown = ResultsShown { trees: &app.trees, params: &params, tree: &tree, marks: &marks };
        let narrowing = Narrowing { trees: &app.trees, params: &params };
        let heading = html! {
            h1 .hidden { "Results for " (text) }
            p .summary role="status" {
                @if hits.is_empty() {
                    (if from > 1 { "No more results." } else { "Nothing found." })
                } @else {
                    @if from == 1 { b { (counted(hits.len(), "result")) } }
                    @else { b { "Results " (from) "–" (from + hits.len() - 1) } }
                    " of " (counted(facets.n_units(), "candidate"))
                    " in " (format!("{:.1} ms", searched.as_secs_f64() * 1000.0))
                }
                @if let Some(read_as) = &read_as { ". Searched for " b { (read_as) } "." }
                " " button type="button" data-save="1" { "Save query" }
                @if !tree.is_elsewhere() && text.len() <= MAX_QUERY_CHARS {
                    " " a href=(Params::default().with("q", &text).link("/commits")) { "Commits" }
                }
            }
            (narrowing.chosen())
            @for note in &answer.notes { p .notice { (sentence(note)) } }
            @if let Some(behind) = &answer.behind {
                p .notice { (counted(behind.total, "file")) " changed since the index was built; it is being updated." }
            }
            @if answer.confident == Some(false) && !hits.is_empty() {
                p .notice { "No match clearly answers the query; showing the closest ones." }
            }
            @if hits.is_empty() && from == 1 { (no_results_advice(&narrowing, current.examples())) }
        };
        let facets = narrowing.facets(&facets);
        let results = shown.results(&answer.results, &hits, without_lines);
        let further = shown.further(from, n_on_page, has_more);
        let body = html! {
            div .columns {
                nav .facets aria-label="Narrow the results" { details { summary { "Filters" } (facets) } }
                main #main tabindex="-1" { (heading) (results) (further) }
            }
        };
        let html = match is_fragment {
            true => fragment(&body),
            false => whole(&app.trees, &params, &text, body).into_string(),
        };
        app.metrics.time(Stage::Render, start.elapsed().saturating_sub(searched));
        Ok(html)
    });
    Ok(Html(html.await?))
}

pub(crate) async fn similar(State(app): State<App>, params: Params) -> Page {
    params.only(&[&["path", "line"], &COMMON[..]].concat())?;
    let position = Position::read(&params, &app.trees)?;
    let mut question = Question::read(&params.without("tree"), &app.trees)?;
    if params.get("lines").is_none() {
        question.shown.excerpt = Excerpt::Preview(PAGE_LINES);
    }
    let server = app.clone();
    let html = server.ask(move |current| {
        let tree = current.tree.tree_for(&need_for_similar(&position, &question))?;
        let given = unit_at(&tree, &position)?;
        let found = quarry_session::similar(&tree.index, &given, &question.request(&[]))?;
        let hits = found.hits.clone();
        let fitted = Fitted::new(&tree, found, 0..hits.len(), &question.shown, Duration::ZERO)?;
        let (answer, without_lines) = fitted.into_parts();
        let params = Params::default();
        let page = ResultsShown { trees: &app.trees, params: &params, tree: &tree, marks: &Marks::default() };
        let body = html! {
            div .columns {
                main #main tabindex="-1" {
                    h1 .summary { "Code like " (page.unit_link(&given)) }
                    @if answer.results.is_empty() { p role="status" { "Nothing similar found." } }
                    (page.results(&answer.results, &hits, without_lines))
                }
            }
        };
        Ok(whole(&app.trees, &params, &format!("Like {}", given.name), body).into_string())
    });
    Ok(Html(html.await?))
}

/// A page with the search form above `body`.
pub(super) fn whole(trees: &Trees, params: &Params, title: &str, body: Markup) -> Markup {
    framed(trees, params, (title, false), body)
}

/// Like [`whole`]; the form has the focus if `is_focused`.
fn framed(trees: &Trees, params: &Params, (title, is_focused): (&str, bool), body: Markup) -> Markup {
    let query = params.get("q").unwrap_or_default();
    page(
        title,
        html! {
            header {
                a .name href="/" { "Quarry" }
                form #search role="search" method="get" action="/" {
                    label .hidden for="q" { "What the code does, or the name of a symbol" }
                    input #q type="search" name="q" value=(query) maxlength="1000" autocomplete="off"
                        spellcheck="false" autofocus[is_focused]
                        placeholder={ "What does the code do, in " (trees.names_text()) "?" };
                    @for (name, value) in params.pairs().filter(|(name, _)| *name != "q") {
                        input type="hidden" name=(name) value=(value);
                    }
                    button type="submit" { "Search" }
                }
                (hints())
            }
            div #page { (body) }
        },
    )
}

fn building(progress: &Progress, params: &Params) -> Markup {
    html! {
        main #main tabindex="-1" data-building="1" {
            h1 { "The index is being built" }
            @match &progress.failure {
                Some(failure) => p role="alert" { (failure) },
                None => {
                    p role="status" { (progress.message) }
                    progress max="100" value=(format!("{:.0}", progress.share * 100.0)) aria-label="Index" {}
                },
            }
            p { a href=(params.link("/")) { "Look again" } }
        }
    }
}

fn no_results_advice(narrowing: &Narrowing, examples: &Examples) -> Markup {
    let unfiltered = narrowing.unfiltered();
    html! {
        div .nothing {
            p {
                "Try other words for what the code does, or the name of a symbol"
                @if unfiltered != *narrowing.params {
                    ", or " a href=(unfiltered.link("/")) { "search without filters" }
                }
                "."
            }
            (suggestions(&unfiltered, examples))
        }
    }
}

pub(super) struct ResultsShown<'a> {
    pub trees: &'a Trees,
    pub params: &'a Params,
    pub tree: &'a Tree,
    pub marks: &'a Marks,
}

impl ResultsShown<'_> {
    pub(super) fn name_of(&self, root: usize) -> &str {
        self.trees.names().get(root).map_or("", String::as_str)
    }

    /// The path of a file, with the name of its tree where there are several.
    pub(super) fn shown_path(&self, root: usize, path: &str) -> String {
        if self.trees.names().len() > 1 { format!("{}/{path}", self.name_of(root)) } else { path.to_owned() }
    }

    pub(super) fn unit_link(&self, hit: &Hit) -> Markup {
        let address = file_address(self.params, self.name_of(hit.root), &hit.path, hit.start_line);
        let position = format!("{}:{}", self.shown_path(hit.root, &hit.path), hit.start_line);
        html! {
            a href=(address) { @if hit.name.is_empty() { (position) } @else { code { (hit.name) } } }
            @if !hit.name.is_empty() { " " span .quiet { (position) } }
        }
    }

    /// As pages of calls name a definition on the way.
    pub(super) fn via(&self, hit: &Hit) -> String {
        format!("{}:{}:{}", self.name_of(hit.root), hit.start_line, hit.path)
    }

    /// Links to the results before and after those from a rank on.
    fn further(&self, from: usize, n_on_page: usize, has_more: bool) -> Markup {
        let link = |from: usize| self.params.with("from", &from.to_string()).link("/");
        let next = from + n_on_page;
        html! {
            @if from > 1 || (has_more && next <= MAX_RESULTS) {
                nav .further aria-label="Further results" {
                    @if from > 1 { a .button rel="prev" href=(link(from.saturating_sub(n_on_page).max(1))) { "Previous results" } }
                    @if has_more && next <= MAX_RESULTS { a .button rel="next" href=(link(next)) { "More results" } }
                }
            }
        }
    }

    /// The results, of which the last ones may be without lines.
    fn results(&self, results: &[ResultView], hits: &[Hit], without_lines: usize) -> Markup {
        let mut html = String::new();
        let mut left_out = 0;
        for (result, hit) in results.iter().zip(hits) {
            let Some(unit) = &result.unit else { continue };
            let item = self.result(result, unit, hit).into_string();
            if html.len() + item.len() > MAX_PAGE_BYTES {
                left_out += 1;
                continue;
            }
            html.push_str(&item);
        }
        html! {
            ol .results { (PreEscaped(html)) }
            @if left_out > 0 {
                p .quiet { (counted(left_out, "longer result")) " left out; ask for fewer lines to see all" }
            }
            @if without_lines > 0 {
                p .quiet { "Lines of " (counted(without_lines, "result")) " left out; ask for fewer lines to see them" }
            }
        }
    }

    fn result(&self, result: &ResultView, unit: &UnitView, hit: &Hit) -> Markup {
        let tree = self.name_of(hit.root);
        let address = |line: u32| file_address(self.params, tree, &result.path, line);
        let position = Params::default().at(tree, &result.path, unit.start_line);
        let is_definition = matches!(unit.kind, "function" | "method" | "type");
        let file = result.path.rsplit('/').next().unwrap_or_default();
        html! {
            li #{ "r" (result.rank) } .result {
                article aria-labelledby={ "t" (result.rank) } {
                    header {
                        h2 #{ "t" (result.rank) } {
                            a .open href=(address(unit.start_line)) {
                                @if unit.name.is_empty() { (file) } @else { (unit.name) }
                            }
                        }
                        span .kind { (unit.kind) }
                        (self.crumbs(hit, unit, &address(1)))
                        p .actions {
                            @if hit.unit != Hit::NO_UNIT { a href=(position.link("/similar")) { "Similar code" } }
                            @if is_definition && !self.tree.is_elsewhere() {
                                " " a href=(position.link("/calls")) { "Calls" }
                                " " a href=(position.link("/related")) { "Related" }
                            }
                            @for link in &self.trees.links {
                                " " a href=(link.address(tree, &result.root, &result.path, unit.start_line)) { (link.name) }
                            }
                        }
                    }
                    @if !unit.is_declared && !unit.signature.is_empty() {
                        pre .signature { (unit.signature) }
                    }
                    (self.blocks(unit, hit, &address))
                    @if !unit.reasons.is_empty() {
                        ul .reasons { @for reason in &unit.reasons { li { (reason) } } }
                    }
                    @if let Some(explanation) = &unit.explanation {
                        details .score { summary { "Numbers" } ul .explanation { (explained(explanation, 0)) } }
                    }
                }
            }
        }
    }

    /// The path of a file: its directories narrow the search to them, its last part leads to the file.
    fn crumbs(&self, hit: &Hit, unit: &UnitView, address: &str) -> Markup {
        let tree = self.name_of(hit.root);
        let has_trees = self.trees.names().len() > 1;
        let is_search = self.params.get("q").is_some();
        let of_tree =
            if has_trees && is_search { self.params.with("tree", tree) } else { self.params.clone() };
        let ends = hit.path.match_indices('/').map(|(at, _)| at);
        let (_, file) = hit.path.rsplit_once('/').unwrap_or(("", &hit.path));
        let separator = html! { span .separator { "/" } };
        html! {
            p .position {
                span .path {
                    @if has_trees {
                        @if is_search { a href=(of_tree.without("dir").link("/")) { (tree) } } @else { (tree) }
                        (separator)
                    }
                    @for (start, end) in std::iter::once(0).chain(ends.clone().map(|at| at + 1)).zip(ends) {
                        @let directory = &hit.path[..end];
                        @if is_search { a href=(of_tree.with("dir", directory).link("/")) { (&hit.path[start..end]) } }
                        @else { (&hit.path[start..end]) }
                        (separator)
                    }
                    a .file href=(address) { (file) }
                    ":" (unit.start_line) "–" (unit.end_line)
                }
                " " span .language { (hit.language) }
            }
        }
    }

    fn blocks(&self, unit: &UnitView, hit: &Hit, address: &impl Fn(u32) -> String) -> Markup {
        let file = self.tree.text(hit);
        let Some(file) = file.as_ref().as_ref() else { return Markup::default() };
        let of_unit = self.tree.index.lines(hit, file);
        let content = SourceText::to_str(file);
        let source: String = content.split_inclusive('\n').skip(of_unit.start).take(of_unit.len()).collect();
        // The lines of a long unit are parsed without what is around them.
        let whole = (source.len() <= MAX_UNIT_BYTES).then(|| ColoredLines::new(&hit.language, &source));
        let marks = |text: &str| disjoint(self.marks.ranges(text));
        let block = |block: &Block| {
            let own;
            let (colored, first) = match &whole {
                Some(whole) if block.first_index >= of_unit.start => (whole, of_unit.start),
                _ => {
                    own = ColoredLines::new(&hit.language, &block.text());
                    (&own, block.first_index)
                }
            };
            let code = block.lines.iter().enumerate().map(|(at, (line, text))| CodeLine {
                line: *line,
                index: block.first_index + at - first,
                text,
            });
            preview(colored, code, marks, address)
        };
        html! {
            @if !unit.blocks.is_empty() {
                div .code {
                    @for (at, shown) in unit.blocks.iter().enumerate() {
                        @if at > 0 { div .gap aria-hidden="true" {} }
                        (block(shown))
                    }
                }
            }
        }
    }
}

/// A score as a tree of the numbers that it is made of, of which the first levels are open.
fn explained(explanation: &Explanation, depth: usize) -> Markup {
    let how = explanation.combination.map_or("", |combination| match combination {
        Combination::Sum => "sum of",
        Combination::Product => "product of",
        Combination::Quotient => "quotient of",
        Combination::Softmax => "exponential of the difference of",
    });
    html! {
        li {
            @let value = html! { b { (format!("{:.3}", explanation.value)) } " " (explanation.name) };
            @if explanation.parts.is_empty() {
                (value)
            } @else {
                details open[depth < OPEN_LEVELS] {
                    summary { (value) " " span .quiet { (how) } }
                    ul { @for part in &explanation.parts { (explained(part, depth + 1)) } }
                }
            }
        }
    }
}

/// A note as a sentence.
fn sentence(note: &str) -> String {
    let mut chars = note.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", chars.as_str())
}

/// Ranges without what ranges before them have.
pub(super) fn disjoint(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut done = 0;
    let rest = |range: Range<usize>| {
        let start = range.start.max(done);
        done = done.max(range.end);
        start..range.end
    };
    ranges.into_iter().map(rest).filter(|range| range.start < range.end).collect()
}

impl From<quarry_index::Error> for ProblemPage {
    fn from(error: quarry_index::Error) -> Self {
        Problem::from(error).into()
    }
}
