//! Directories: a page of each, and the tree beside a file.

use axum::extract::{Path, State};
use axum::response::Html;
use maud::{Markup, html};
use quarry_index::Entries;
use quarry_session::Tree;
use quarry_text::counted;

use super::ProblemPage;
use super::layout::{directory_address, file_address};
use super::results::whole;
use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;
use crate::question::COMMON;

/// Names of each directory that are shown beside a file.
const MAX_BESIDE: usize = 60;
/// Names that a page shows.
const MAX_NAMES: usize = 600;

/// A place in the trees, with the query and filters that stay in its links.
pub(super) struct Place<'a> {
    pub params: &'a Params,
    /// The name of the tree.
    pub tree: &'a str,
    pub path: &'a str,
}

pub(crate) async fn top_directory(
    state: State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Html<String>, ProblemPage> {
    directory(state, Path((name, String::new())), params).await
}

pub(crate) async fn directory(
    State(app): State<App>,
    Path((name, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, ProblemPage> {
    params.only(&[&["q"], &COMMON[..]].concat())?;
    let root = app.trees.number(&name)?;
    let server = app.clone();
    let html = server.ask(move |current| {
        let tree = current.tree.tree();
        let path = path.trim_matches('/');
        let Entries { directories, files } = entries(&tree, root, path)?;
        if directories.is_empty() && files.is_empty() {
            return Err(Problem::not_found(format!(
                "{path:?}: no such directory has files that can be found; name one relative to its tree"
            )));
        }
        let place = Place { params: &params, tree: &name, path };
        let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        let n_left_out = (directories.len() + files.len()).saturating_sub(MAX_NAMES);
        let body = html! {
            div .columns {
                main #main tabindex="-1" {
                    h1 .path { (place.crumbs()) }
                    p .quiet { (counted(directories.len(), "directory").replace("directorys", "directories")) ", " (counted(files.len(), "file")) }
                    ul .entries {
                        @for directory in directories.iter().take(MAX_NAMES) {
                            li { a href=(directory_address(&params, &name, &inside(directory))) { (directory) "/" } }
                        }
                        @for file in files.iter().take(MAX_NAMES.saturating_sub(directories.len())) {
                            li { a href=(file_address(&params, &name, &inside(file), 1)) { (file) } }
                        }
                    }
                    @if n_left_out > 0 { p .quiet { (counted(n_left_out, "name")) " left out; search with path: to narrow" } }
                }
            }
        };
        // Searches from this page are limited to the directory.
        let below = params.with("tree", &name);
        let below = if path.is_empty() { below.without("dir") } else { below.with("dir", path) };
        Ok(whole(&app.trees, &below, &inside(""), body).into_string())
    });
    Ok(Html(html.await?))
}

fn entries(tree: &Tree, root: usize, directory: &str) -> Result<Entries, Problem> {
    if tree.is_elsewhere() {
        return Err(Problem::not_found(
            "these trees are kept in another engine, which does not list directories",
        ));
    }
    Ok(tree.index.entries(root, directory)?)
}

impl Place<'_> {
    /// The path, whose parts are links to directories; the last one is text.
    pub(super) fn crumbs(&self) -> Markup {
        let (directory, last) = self.path.rsplit_once('/').unwrap_or(("", self.path));
        let mut ends: Vec<usize> = directory.match_indices('/').map(|(at, _)| at).collect();
        if !directory.is_empty() {
            ends.push(directory.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
        html! {
            a href=(directory_address(self.params, self.tree, "")) { (self.tree) } "/"
            @for (start, end) in starts.zip(&ends) {
                a href=(directory_address(self.params, self.tree, &directory[..*end])) { (&directory[start..*end]) }
                "/"
            }
            (last)
        }
    }

    /// The directories around a file, opened down to it.
    pub(super) fn surroundings(&self, tree: &Tree, root: usize) -> Result<Markup, Problem> {
        let parts: Vec<&str> = self.path.split('/').collect();
        self.level(tree, root, "", &parts)
    }

    fn level(&self, tree: &Tree, root: usize, directory: &str, open: &[&str]) -> Result<Markup, Problem> {
        let Entries { directories, files } = entries(tree, root, directory)?;
        let inside =
            |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
        let (first, rest) = open.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
        let is_directory = !rest.is_empty();
        let below = if is_directory { Some(self.level(tree, root, &inside(first), rest)?) } else { None };
        // Around the one that is open.
        let window = |names: &[String], has_open: bool| {
            let at = names.iter().position(|name| has_open && name == first).unwrap_or(0);
            let start = at.saturating_sub(MAX_BESIDE / 2).min(names.len().saturating_sub(MAX_BESIDE));
            start..names.len().min(start + MAX_BESIDE)
        };
        let (shown, shown_files) = (window(&directories, is_directory), window(&files, !is_directory));
        let n_left_out = directories.len() + files.len() - shown.len() - shown_files.len();
        Ok(html! {
            ul {
                @for name in &directories[shown] {
                    li {
                        a href=(directory_address(self.params, self.tree, &inside(name))) { (name) "/" }
                        @if name == first { @if let Some(below) = &below { (below) } }
                    }
                }
                @for name in &files[shown_files] {
                    @let is_open = !is_directory && name == first;
                    li {
                        a aria-current=[is_open.then_some("page")] href=(file_address(self.params, self.tree, &inside(name), 1)) {
                            (name)
                        }
                    }
                }
                @if n_left_out > 0 {
                    li { a href=(directory_address(self.params, self.tree, directory)) { (n_left_out) " more" } }
                }
            }
        })
    }
}
