//! Documents name what exists.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use super::Violation;
use crate::tree::Tree;

const CODE_MAP: &str = "ARCHITECTURE.md";

/// The directory of the book, and its table of contents.
const BOOK: &str = "docs/";
const CONTENTS: &str = "docs/SUMMARY.md";

/// Documents for people who change the code, which name source files by their paths only, so that they can be checked.
const FOR_CONTRIBUTORS: [&str; 3] = [CODE_MAP, "docs/contributing/", "docs/decisions/"];

/// Checks the repository's documents: every path in a code span that begins in one of the repository's directories, and
/// every relative link, leads to a file or directory, and to a heading in it where the link names one; documents for
/// contributors name source files by such paths; every page of the book is in its table of contents, and links to other
/// pages only; and the code map names every crate.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let top: Vec<&str> = tree.directories("");
    let mut found = Vec::new();
    for (document, text) in tree.texts().filter(|(path, _)| is_document(path)) {
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let problem = match event {
                Event::Code(code) => path_in_code(&code, &top)
                    .and_then(|path| missing(tree, &path))
                    .or_else(|| without_directory(document, &code)),
                Event::Start(
                    Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. },
                ) => problem_of_link(tree, document, link_type, &dest_url),
                _ => None,
            };
            if let Some(problem) = problem {
                let line = 1 + text[..range.start].matches('\n').count();
                found.push(Violation::new(document, line, problem));
            }
        }
    }
    if let Some(contents) = tree.text(CONTENTS) {
        let listed: BTreeSet<String> = (Parser::new(contents))
            .filter_map(|event| match event {
                Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                    Some(target_of_link(CONTENTS, link_type, &dest_url)?.0)
                }
                _ => None,
            })
            .collect();
        for (page, _) in tree.texts().filter(|(path, _)| path.starts_with(BOOK) && is_document(path)) {
            if page != CONTENTS && !listed.contains(page) {
                found.push(Violation::new(page, None, format!("is not in {CONTENTS}; list it there")));
            }
        }
    }
    for name in tree.directories("crates/") {
        let is_named = |text: &str| text.contains(&format!("`crates/{name}`"));
        if !tree.text(CODE_MAP).is_some_and(is_named) {
            let message = format!("the code map lacks `crates/{name}`; describe the crate there");
            found.push(Violation::new(CODE_MAP, None, message));
        }
    }
    found
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && (!path.contains('/') || path.starts_with("docs/"))
}

/// The path that a code span is, without a line number; none if it is something else, a pattern say.
fn path_in_code(code: &str, top: &[&str]) -> Option<String> {
    let (directory, _) = code.split_once('/')?;
    let is_path =
        top.contains(&directory) && !code.contains(|c: char| c.is_whitespace() || "*<>{}$".contains(c));
    let without_line = code.split(':').next().unwrap_or(code);
    is_path.then(|| without_line.to_owned())
}

/// The problem of a code span that names a source file without its directory.
fn without_directory(document: &str, code: &str) -> Option<String> {
    let is_source = [".rs", ".py"].iter().any(|ending| code.ends_with(ending));
    let is_checked = FOR_CONTRIBUTORS.iter().any(|start| document.starts_with(start));
    (is_checked && is_source && !code.contains(|c: char| c == '/' || c == '*' || c.is_whitespace())).then(
        || format!("names {code} without its directory; write its path from the root, which is checked"),
    )
}

fn missing(tree: &Tree, path: &str) -> Option<String> {
    let message = || format!("names {path}, which does not exist; name what does, by its path from the root");
    (!tree.has(path)).then(message)
}

fn problem_of_link(tree: &Tree, document: &str, kind: LinkType, link: &str) -> Option<String> {
    let (path, heading) = target_of_link(document, kind, link)?;
    if !tree.has(&path) {
        return missing(tree, &path);
    }
    if document.starts_with(BOOK) && !path.starts_with(BOOK) {
        return Some(format!("links to {path}, which is not part of the book; write it as code, `{path}`"));
    }
    if path != document && tree.texts().any(|(page, _)| included(tree, page).as_deref() == Some(document)) {
        return Some(format!(
            "links to {path}, but a page of the book includes this; write it as code, `{path}`"
        ));
    }
    let heading = heading.filter(|_| path.ends_with(".md"))?;
    let headings = headings(tree, &path);
    (!headings.contains(heading)).then(|| {
        let known = headings.into_iter().collect::<Vec<_>>().join(", ");
        format!("links to #{heading}, which is not a heading of {path}; it has {known}")
    })
}

/// The path that a link leads to, from the root, and the heading there; none for links to elsewhere.
fn target_of_link<'a>(document: &str, kind: LinkType, link: &'a str) -> Option<(String, Option<&'a str>)> {
    if link.contains("://") || link.starts_with("mailto:") || kind == LinkType::Email {
        return None;
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    if path.is_empty() {
        return Some((document.to_owned(), heading));
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            _ => parts.push(part),
        }
    }
    Some((parts.join("/"), heading))
}

/// The path of the document that a page of the book consists of, if that is elsewhere.
fn included(tree: &Tree, page: &str) -> Option<String> {
    let rest = tree.text(page).filter(|_| page.starts_with(BOOK))?.strip_prefix("{{#include ")?;
    Some(target_of_link(page, LinkType::Inline, rest.split("}}").next()?)?.0)
}

/// The headings of a document as links name them, also of one that it includes.
fn headings(tree: &Tree, document: &str) -> BTreeSet<String> {
    if let Some(path) = included(tree, document) {
        return headings(tree, &path);
    }
    let text = tree.text(document).unwrap_or_default();
    let (mut found, mut heading) = (BTreeSet::new(), None::<String>);
    for event in Parser::new(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::End(TagEnd::Heading(_)), _) => found.extend(heading.take().map(|text| anchor(&text))),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            _ => {}
        }
    }
    found
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_rule;

    fn check(document: &str, text: &str, found: &[&str]) {
        let map = "# Map\n\nThe crate `crates/a`";
        let guide = "# The `guide`: *how*?\n\n## A part\n";
        let files = [
            (CODE_MAP, map),
            ("crates/a/src/lib.rs", ""),
            ("docs/guide.md", guide),
            ("docs/map.md", "{{#include ../ARCHITECTURE.md}}\n"),
            (document, text),
        ];
        check_rule(|tree, _| super::check(tree), "", &files, found);
    }

    use super::CODE_MAP;

    #[test]
    fn paths_in_documents_exist() {
        let text = "`crates/a/src/lib.rs`, `crates/a/src/lib.rs:12`, `crates/a/`, `crates/*/src`, `crates/NAME x`, \
                    `and/or`, `target/release/quarry`, [guide](docs/guide.md#a-part), <https://example.com/docs/x>\n\n\
                    ```\ncrates/gone\n```\n\n`crates/b`\n[gone](docs/gone.md)\n";
        check("README.md", text, &["README.md:7: names crates/b,", "README.md:8: names docs/gone.md,"]);
    }

    #[test]
    fn paths_for_contributors_start_at_the_root() {
        let text = "`lib.rs`, `*.rs`, `a.b.rs c`, `crates/a/src/lib.rs`\n`bench.py`\n";
        let found =
            ["docs/decisions/one.md:1: names lib.rs without", "docs/decisions/one.md:2: names bench.py"];
        let map = (CODE_MAP, "`crates/a`");
        let check = |document, found: &[&str]| {
            let files = [map, ("crates/a/src/lib.rs", ""), (document, text)];
            check_rule(|tree, _| super::check(tree), "", &files, found);
        };
        check("docs/decisions/one.md", &found);
        check("README.md", &[]);
    }

    #[test]
    fn links_are_relative_to_their_document() {
        let text = "[a](guide.md) [b](./guide.md) [d](docs/guide.md)";
        check("docs/more.md", text, &["docs/more.md:1: names docs/docs/guide.md,"]);
    }

    #[test]
    fn links_lead_to_headings_that_there_are() {
        let text = "# One\n\n[a](#one) [b](guide.md#the-guide-how) [c](map.md#map)\n[d](#two)\n[e](guide.md#part)\n\
                    [f](map.md#crates)\n";
        let found = [
            "docs/more.md:4: links to #two, which is not a heading of docs/more.md; it has one",
            "docs/more.md:5: links to #part, which is not a heading of docs/guide.md; it has a-part, the-guide-how",
            "docs/more.md:6: links to #crates, which is not a heading of docs/map.md; it has map",
        ];
        check("docs/more.md", text, &found);
    }

    #[test]
    fn pages_of_the_book_link_to_pages() {
        let text = "[a](../ARCHITECTURE.md)";
        check(
            "docs/more.md",
            text,
            &["docs/more.md:1: links to ARCHITECTURE.md, which is not part of the book"],
        );
        check("README.md", "[a](ARCHITECTURE.md)", &[]);
        let map = "`crates/a` [a](#b) [c](docs/guide.md)\n\n# B";
        check(
            CODE_MAP,
            map,
            &["ARCHITECTURE.md:1: links to docs/guide.md, but a page of the book includes this"],
        );
    }

    #[test]
    fn the_table_of_contents_has_every_page() {
        check(
            "docs/SUMMARY.md",
            "- [guide](guide.md)\n- [gone](gone.md)",
            &["docs/SUMMARY.md:2: names docs/gone.md,", "docs/map.md: is not in docs/SUMMARY.md"],
        );
    }

    #[test]
    fn other_files_are_no_documents() {
        check("crates/a/tests/data.md", "`crates/b`", &[]);
    }

    #[test]
    fn the_code_map_names_every_crate() {
        check("crates/b/Cargo.toml", "", &["ARCHITECTURE.md: the code map lacks `crates/b`"]);
        check_rule(
            |tree, _| super::check(tree),
            "",
            &[("crates/a/Cargo.toml", "")],
            &["ARCHITECTURE.md: the code map lacks"],
        );
    }
}
