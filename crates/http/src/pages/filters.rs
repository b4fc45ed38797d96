//! Filters of a search, and facets of its results.

use maud::{Markup, html};
use quarry_session::{Facets, KINDS};

use crate::params::{Params, SWITCHES};
use crate::trees::Trees;

/// Values of a facet that are shown.
const MAX_FACET_VALUES: usize = 8;

/// Parameters that narrow a search, with what pages call them.
const FILTERS: [(&str, &str); 7] = [
    ("tree", "tree"),
    ("lang", "language"),
    ("kind", "kind"),
    ("dir", "directory"),
    ("glob", "files"),
    ("no-generated", "no generated files"),
    ("no-vendored", "no vendored files"),
];

/// Filters of a search, and links that change them.
pub(super) struct Narrowing<'a> {
    pub trees: &'a Trees,
    pub params: &'a Params,
}

impl Narrowing<'_> {
    /// The filters that are set, each with a link that removes it.
    pub(super) fn chosen(&self) -> Markup {
        let mut chosen: Vec<(&str, &str, Params)> = Vec::new();
        for (name, title) in FILTERS {
            if SWITCHES.contains(&name) {
                let is_on = self.params.is_on(name).unwrap_or_default();
                chosen.extend(is_on.then(|| (title, "", self.params.without(name))));
            } else if name == "dir" {
                chosen.extend(self.params.get(name).map(|value| (title, value, self.params.without(name))));
            } else {
                let values =
                    self.params.pairs().filter(|(known, value)| *known == name && !value.trim().is_empty());
                chosen.extend(values.map(|(_, value)| (title, value, self.params.toggled(name, value))));
            }
        }
        html! {
            @if !chosen.is_empty() {
                ul .chosen aria-label="Filters that are set" {
                    @for (title, value, rest) in &chosen {
                        li {
                            a href=(rest.link("/")) {
                                span .hidden { "Remove filter: " }
                                span .quiet { (title) } " " (value)
                                span .cross aria-hidden="true" { "×" }
                            }
                        }
                    }
                    @if chosen.len() > 1 { li { a .clear href=(self.unfiltered().link("/")) { "Remove all filters" } } }
                }
            }
        }
    }

    pub(super) fn unfiltered(&self) -> Params {
        FILTERS.iter().fold(self.params.clone(), |params, (name, _)| params.without(name))
    }

    pub(super) fn facets(&self, facets: &Facets) -> Markup {
        let kinds: Vec<(String, String, usize)> = KINDS
            .iter()
            .filter_map(|(kind, _)| facets.kinds.iter().find(|(found, _)| found == kind))
            .map(|(kind, n)| (kind.clone(), kind.clone(), *n))
            .collect();
        let plain = |(value, n): &(String, usize)| (value.clone(), value.clone(), *n);
        let languages: Vec<_> = facets.languages.iter().map(plain).collect();
        let directories: Vec<_> = facets.directories.iter().map(plain).collect();
        let trees: Vec<_> = facets
            .roots
            .iter()
            .filter_map(|(root, n)| {
                self.trees.names().get(*root).map(|name| (name.clone(), name.clone(), *n))
            })
            .collect();
        html! {
            @if self.trees.names().len() > 1 { (self.facet("Tree", "tree", &trees)) }
            (self.facet("Language", "lang", &languages))
            (self.facet("Kind", "kind", &kinds))
            (self.directories(&directories))
            h2 { "Scores" }
            ul {
                @if self.params.is_on("explain").unwrap_or_default() {
                    (value("explained", None, &self.params.without("explain")))
                } @else {
                    li { a href=(self.params.with("explain", "1").link("/")) rel="nofollow" { span { "explain" } } }
                }
            }
        }
    }

    /// Values of a parameter that can be chosen beside each other.
    fn facet(&self, title: &str, name: &str, values: &[(String, String, usize)]) -> Markup {
        let chosen: Vec<String> = self.params.all(name);
        let gone = chosen.iter().filter(|chosen| !values.iter().any(|(value, _, _)| value == *chosen));
        html! {
            @if values.len() > 1 || !chosen.is_empty() {
                h2 { (title) }
                ul {
                    @for (at, (id, shown, n)) in values.iter().enumerate() {
                        @if at < MAX_FACET_VALUES || self.params.has(name, id) {
                            @let params = self.params.toggled(name, id);
                            @if self.params.has(name, id) { (value(shown, Some(*n), &params)) }
                            @else { (choice(shown, *n, &params)) }
                        }
                    }
                    @for id in gone { (value(id, Some(0), &self.params.toggled(name, id))) }
                }
            }
        }
    }

    fn directories(&self, values: &[(String, String, usize)]) -> Markup {
        let chosen = self.params.get("dir");
        html! {
            @if !values.is_empty() || chosen.is_some() {
                h2 { "Directory" }
                ul {
                    @if let Some(chosen) = chosen { (value(chosen, None, &self.params.without("dir"))) }
                    @for (directory, shown, n) in values.iter().take(MAX_FACET_VALUES) {
                        (choice(shown, *n, &self.params.with("dir", directory)))
                    }
                }
            }
        }
    }
}

/// A value of a facet, with how many units have it; `params` choose it.
fn choice(shown: &str, n: usize, params: &Params) -> Markup {
    html! { li { a href=(params.link("/")) { span { (shown) } " " span .quiet { (n) } } } }
}

/// A value that is chosen; `params` are those without it.
fn value(shown: &str, n: Option<usize>, params: &Params) -> Markup {
    html! {
        li {
            a aria-current="true" href=(params.link("/")) title="Remove this filter" {
                span { (shown) span .cross aria-hidden="true" { "×" } span .hidden { ", remove" } }
                @if let Some(n) = n { " " span .quiet { (n) } }
            }
        }
    }
}
