//! The page of related places: what else must change with a definition or a file, and the commits behind it.

use axum::extract::{Path, State};
use axum::response::Html;
use maud::{Markup, html};
use quarry_related::{CommitView, FileHistory, HistoryView, Place, Reason};
use quarry_session::{Marks, Need};
use quarry_text::counted;

use super::ProblemPage;
use super::layout::{file_address, place};
use super::results::{Page, ResultsShown, whole};
use crate::api::not_indexed;
use crate::app::App;
use crate::params::Params;
use crate::related::{RelatedAsked, find_commits};

/// Maximum number of commits of a file that are listed.
const MAX_COMMITS: usize = 50;

/// The places that may have to change with a definition or a file, and the commits that changed it.
pub(crate) async fn related(State(app): State<App>, params: Params) -> Page {
    let asked = RelatedAsked::read(&params, &app)?;
    let server = app.clone();
    let html = server.ask(move |current| {
        let tree = current.tree.tree_for(&Need::Calls)?;
        let opened = app.related.get(&tree);
        let found = asked.answer(&opened, &tree)?;
        let commits = asked.commits(&opened, &tree)?.commits.unwrap_or_default();
        let nothing = Params::default();
        let shown =
            ResultsShown { trees: &app.trees, params: &nothing, tree: &tree, marks: &Marks::default() };
        let page = RelatedPage { shown: &shown };
        let title = match found.targets.as_slice() {
            [target] if !target.name.is_empty() => target.name.clone(),
            _ => found.query.clone(),
        };
        let body = html! {
            div .columns {
                main #main tabindex="-1" {
                    h1 .summary { "Related to " code { (title) } }
                    @if found.results.is_empty() {
                        p { "Nothing related found among " (counted(found.places, "place")) "." }
                    } @else {
                        p .quiet { "May have to change with it, the most probable first." }
                    }
                    ol .related { @for place in &found.results { (page.place(place)) } }
                    h2 #commits { "Commits that changed it" }
                    @if commits.is_empty() { p { "No known commit." } }
                    (commit_list(&commits))
                    (histories(&opened.histories, app.trees.names()))
                }
            }
        };
        Ok(whole(&app.trees, &nothing, &format!("Related to {title}"), body).into_string())
    });
    Ok(Html(html.await?))
}

/// The latest change of each definition of a file, and the commits of the file.
pub(crate) async fn history(
    State(app): State<App>,
    Path((name, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, ProblemPage> {
    params.only(&[])?;
    let root = app.trees.number(&name)?;
    let server = app.clone();
    let html = server.ask(move |current| {
        let tree = current.tree.tree_for(&Need::Calls)?;
        tree.index.file(root, &path).ok_or_else(|| not_indexed(&path))?;
        let opened = app.related.get(&tree);
        let FileHistory { definitions, commits, n_commits } = opened.file_history(&tree, root, &path, MAX_COMMITS);
        let nothing = Params::default();
        let position = |line: u32| nothing.at(&name, &path, line);
        let body = html! {
            div .columns {
                main #main tabindex="-1" {
                    h1 .summary { "History of " a href={ "/file/" (place(&name, &path)) } { (path) } }
                    @if !definitions.is_empty() {
                        table .history {
                            thead { tr { th { "Definition" } th { "Last changed" } th { "Commit" } th { "Commits" } } }
                            tbody {
                                @for (hit, commit, n_commits) in &definitions {
                                    tr {
                                        td { a href=(file_address(&nothing, &name, &path, hit.start_line)) { code { (hit.name) } } }
                                        td { time { (commit.day()) } }
                                        td { (commit.subject) }
                                        td {
                                            a href={ (position(hit.start_line).link("/related")) "#commits" }
                                                aria-label={ (counted(*n_commits, "commit")) " of " (hit.name) } { (n_commits) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    h2 { (counted(n_commits, "commit")) }
                    (commit_list(&commits))
                    @if n_commits > commits.len() { p .quiet { "The latest " (commits.len()) " are listed." } }
                    (histories(&opened.histories, app.trees.names()))
                }
            }
        };
        Ok(whole(&app.trees, &nothing, &format!("History of {path}"), body).into_string())
    });
    Ok(Html(html.await?))
}

pub(crate) async fn commits(State(app): State<App>, params: Params) -> Page {
    let found = find_commits(&app, &params).await?;
    let body = html! {
        div .columns {
            main #main tabindex="-1" {
                h1 .summary { (counted(found.results.len(), "commit")) " for " q { (found.query) } }
                ul .commits {
                    @for result in &found.results {
                        li {
                            (commit_line(&result.commit))
                            @for function in result.functions.iter().take(5) {
                                " " code .quiet { (function.name) }
                            }
                        }
                    }
                }
                (histories(&found.history, app.trees.names()))
                p { a href=(Params::default().with("q", &found.query).link("/")) { "Search the code" } }
            }
        }
    };
    let params = params.without("k");
    Ok(Html(whole(&app.trees, &params, &format!("Commits: {}", found.query), body).into_string()))
}

struct RelatedPage<'a> {
    shown: &'a ResultsShown<'a>,
}

impl RelatedPage<'_> {
    fn place(&self, place: &Place) -> Markup {
        html! {
            li {
                (self.shown.unit_link(&place.hit))
                @if place.test { " " span .kind { "test" } }
                ul .sites { @for reason in &place.reasons { (self.reason(place, reason)) } }
            }
        }
    }

    fn reason(&self, place: &Place, reason: &Reason) -> Markup {
        let tree = self.shown.name_of(place.hit.root);
        html! {
            li {
                span .kind { (reason.kind) } " " (reason.evidence)
                @if let Some(line) = &reason.line {
                    " " a .place href=(file_address(&Params::default(), tree, &line.path, line.line))
                        aria-label={ (line.path) ":" (line.line) } { (line.line) }
                    " " code .text { (line.text) }
                }
                @if !reason.commits.is_empty() { (commit_list(&reason.commits)) }
            }
        }
    }
}

fn commit_line(commit: &CommitView) -> Markup {
    html! {
        time { (commit.day()) } " " code .quiet { (commit.short_id()) } " " (commit.subject)
        " " span .quiet { (counted(commit.files as usize, "file")) }
    }
}

fn commit_list(commits: &[CommitView]) -> Markup {
    html! { ul .commits { @for commit in commits { li { (commit_line(commit)) } } } }
}

/// The extent of each history, with the names of the trees if there are several.
fn histories(histories: &[HistoryView], names: &[String]) -> Markup {
    html! {
        @for (history, name) in histories.iter().zip(names) {
            p .quiet { @if names.len() > 1 { (name) ": " } (history.sentence()) }
        }
    }
}
