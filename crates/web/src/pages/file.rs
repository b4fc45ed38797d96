//! A file: its lines, with what is in it.

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use maud::html;
use quarry_answer::Need;
use quarry_index::IndexedFile;
use quarry_source::SourceText;

use super::ProblemPage;
use super::code::{Asked, CodeLine, lines};
use super::layout::{file_address, path_text};
use super::results::whole;
use crate::api::not_indexed;
use crate::app::App;
use crate::highlight::ColoredLines;
use crate::params::Params;
use crate::problem::Problem;

/// Lines of a file on one page.
const PAGE_LINES: usize = 2000;
/// Names that are listed.
const MAX_NAMES: usize = 500;

/// A file with its lines, from the page that holds the line which is asked for.
pub(crate) async fn file(
    State(app): State<App>,
    Path((name, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, ProblemPage> {
    params.only(&["line"])?;
    let root = app.trees.number(&name)?;
    let wanted: Option<u32> = params.number("line")?;
    let current = app.trees.ready()?;
    let gate = app.gate.clone();
    let html = gate.run(move || {
        let tree = current.tree.tree_for(&Need::File(root, &path))?;
        let file = tree.index.file(root, &path).ok_or_else(|| not_indexed(&path))?;
        let text = read(&file)?;
        let content = text.to_str();
        let all: Vec<&str> = content.lines().collect();
        let numbers: Vec<u32> = (0..all.len()).map(|index| text.line_number(index)).collect();
        let at = wanted.map_or(0, |line| numbers.partition_point(|number| *number < line));
        let first = at.min(all.len().saturating_sub(1)) / PAGE_LINES * PAGE_LINES;
        let end = all.len().min(first + PAGE_LINES);
        let colored = ColoredLines::of(file.language(), &content);
        let unit = wanted.and_then(|line| tree.index.unit_at_in(root, &path, line));
        let unit_lines = unit.as_ref().map(|hit| hit.start_line..hit.end_line + 1);
        let code = (first..end).map(|index| CodeLine { line: numbers[index], index, text: all[index] });
        let names: Vec<_> = file.hits().filter(|hit| !hit.name.is_empty()).take(MAX_NAMES).collect();
        let position = |line: u32| {
            Params::default().with("tree", &name).with("path", &path).with("line", &line.to_string())
        };
        let raw = format!("/raw/{}/{}", path_text(&name).replace('/', "%2F"), path_text(&path));
        let page_link = |index: usize| file_address(&name, &path, numbers.get(index).copied().unwrap_or(1));
        let line = wanted.unwrap_or(1);
        let focus = wanted.and_then(|_| numbers.get(at)).copied();
        let asked = Asked { has_anchors: true, current: unit_lines.as_ref(), focus };
        let body = html! {
            div .columns {
                @if !names.is_empty() {
                    nav .facets.outline aria-label="In this file" {
                        details {
                            summary { "In this file" }
                            ul .names {
                                @for hit in &names {
                                    li { a href=(file_address(&name, &path, hit.start_line)) { (hit.name) } }
                                }
                            }
                        }
                    }
                }
                main #main tabindex="-1" {
                    h1 .path { (name) "/" (path) }
                    p .actions {
                        a href=(raw) { "Raw" }
                        @if let Some(hit) = unit {
                            " · " a href=(position(hit.start_line).link("/similar")) { "Similar code" }
                            @if !hit.name.is_empty() && !tree.is_elsewhere() {
                                " · " a href=(position(hit.start_line).link("/calls")) { "Calls" }
                            }
                        }
                        @for link in &app.trees.links {
                            " · " a href=(link.address(&name, &tree.root(root), &path, line)) { (link.name) }
                        }
                    }
                    @if first > 0 { p { a href=(page_link(first - 1)) { "Lines before" } } }
                    (lines("Code", &colored, code, |_| Vec::new(), |line| format!("#L{line}"), asked))
                    @if end < all.len() { p { a href=(page_link(end)) { "Lines after" } } }
                }
            }
        };
        Ok(whole(&app.trees, &Params::default(), &path, body).into_string())
    });
    Ok(Html(html.await?))
}

/// The text of a file, as no browser interprets it.
pub(crate) async fn raw(
    State(app): State<App>,
    Path((name, path)): Path<(String, String)>,
) -> Result<Response, ProblemPage> {
    let root = app.trees.number(&name)?;
    let current = app.trees.ready()?;
    let text = app.gate.run(move || {
        let tree = current.tree.tree_for(&Need::File(root, &path))?;
        let file = tree.index.file(root, &path).ok_or_else(|| not_indexed(&path))?;
        Ok(read(&file)?.into_bytes())
    });
    let text = text.await?;
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ];
    Ok((headers, text).into_response())
}

fn read(file: &IndexedFile) -> Result<SourceText, Problem> {
    file.text().map_err(|_| {
        Problem::not_found(format!(
            "{:?}: this file can no longer be read; it may have been removed",
            file.path()
        ))
    })
}
