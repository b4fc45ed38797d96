//! The page before anything is asked for.

use maud::{Markup, html};
use quarry_text::counted;

use super::layout::directory_address;
use crate::examples::Examples;
use crate::params::Params;
use crate::trees::{Current, Trees};

/// Languages of a tree that are named.
const MAX_LANGUAGES: usize = 3;

/// The page before the first query.
pub(super) fn start(trees: &Trees, params: &Params, current: &Current) -> Markup {
    let tree = current.tree.tree();
    let summaries = current.summaries();
    let (units, files) = match tree.is_elsewhere() {
        true => tree.sizes(),
        false => {
            summaries.iter().fold((0, 0), |(units, files), tree| (units + tree.units, files + tree.files))
        }
    };
    html! {
        main #main .start tabindex="-1" {
            h1 { "Search " (counted(units, "unit")) " in " (counted(files, "file")) }
            p { "Find code by what it does, in plain words, by the name of a symbol, or exactly: "
                code { "\"exact phrase\"" } ", " code { "/regex/" } ", " code { "lang:go" } ", " code { "path:src/" } "." }
            div #kept data-kept="1" hidden {}
            (suggestions(params, current.examples()))
            h2 { (if trees.names().len() == 1 { "Tree" } else { "Trees" }) }
            ul .trees {
                @for (number, name) in trees.names().iter().enumerate() {
                    li {
                        @if tree.is_elsewhere() { b { (name) } }
                        @else { a href=(directory_address(&Params::default(), name, "")) { b { (name) } } }
                        @if let Some(summary) = summaries.get(number).filter(|summary| summary.files > 0) {
                            " " span .quiet {
                                (counted(summary.files, "file"))
                                @for (language, _) in summary.languages.iter().take(MAX_LANGUAGES) { " · " (language) }
                            }
                        }
                        " " span .quiet { (tree.root(number)) }
                    }
                }
            }
            @if tree.is_elsewhere() {
                p .quiet {
                    "Served from another engine, as of the last upload. Callers are not available."
                }
            } @else {
                p .quiet { "Changes were last read " (ago(current.since.elapsed().as_secs())) "." }
            }
        }
    }
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "less than a minute ago".to_owned(),
        60..3600 => format!("{} ago", counted(seconds / 60, "minute")),
        3600..86_400 => format!("{} ago", counted(seconds / 3600, "hour")),
        _ => format!("{} ago", counted(seconds / 86_400, "day")),
    }
}

pub(super) fn suggestions(params: &Params, examples: &Examples) -> Markup {
    let link = |query: &str| params.with("q", query).link("/");
    let own = !examples.descriptions.is_empty();
    html! {
        h2 { (if own { "Examples from this code" } else { "Example" }) }
        ul .examples {
            @if !own { li { a href=(link("retry with backoff")) { "retry with backoff" } } }
            @for description in &examples.descriptions { li { a href=(link(description)) { (description) } } }
            @for name in &examples.names { li { a href=(link(name)) { code { (name) } } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_words() {
        assert_eq!(
            [ago(59), ago(60), ago(7300), ago(90_000)].join(", "),
            "less than a minute ago, 1 minute ago, 2 hours ago, 1 day ago"
        );
    }
}
