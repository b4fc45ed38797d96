//! Documents name what exists.

use pulldown_cmark::{Event, LinkType, Parser, Tag};

use super::Violation;
use crate::tree::Tree;

const CODE_MAP: &str = "ARCHITECTURE.md";

/// Checks the repository's documents: every path in a code span that begins in one of the repository's folders, and
/// every relative link, leads to a file or folder; and the code map names every crate.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let top: Vec<&str> = tree.folders("");
    let mut found = Vec::new();
    for (document, text) in tree.texts().filter(|(path, _)| is_document(path)) {
        for (event, range) in Parser::new(text).into_offset_iter() {
            let path = match event {
                Event::Code(code) => path_in_code(&code, &top),
                Event::Start(
                    Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. },
                ) => path_of_link(document, link_type, &dest_url),
                _ => None,
            };
            if let Some(path) = path.filter(|path| !tree.has(path)) {
                let line = 1 + text[..range.start].matches('\n').count();
                let message =
                    format!("names {path}, which does not exist; name what does, by its path from the root");
                found.push(Violation::new(document, line, message));
            }
        }
    }
    for name in tree.folders("crates/") {
        let is_named = |text: &str| text.contains(&format!("`crates/{name}`"));
        if !tree.text(CODE_MAP).is_some_and(is_named) {
            let message = format!("the code map lacks `crates/{name}`; say what the crate holds");
            found.push(Violation::new(CODE_MAP, None, message));
        }
    }
    found
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && (!path.contains('/') || path.starts_with("docs/"))
}

/// The path that a code span is, without a line number; none where it is something else, a pattern say.
fn path_in_code(code: &str, top: &[&str]) -> Option<String> {
    let (folder, _) = code.split_once('/')?;
    let is_path =
        top.contains(&folder) && !code.contains(|c: char| c.is_whitespace() || "*<>{}$".contains(c));
    let without_line = code.split(':').next().unwrap_or(code);
    is_path.then(|| without_line.to_owned())
}

/// The path that a link leads to, from the root; none for other links.
fn path_of_link(document: &str, kind: LinkType, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or(target);
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") || kind == LinkType::Email {
        return None;
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
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::check as check_rule;

    fn check(document: &str, text: &str, found: &[&str]) {
        let map = "The crate `crates/a`";
        let files = [(CODE_MAP, map), ("crates/a/src/lib.rs", ""), ("docs/guide.md", ""), (document, text)];
        check_rule(|tree, _| super::check(tree), "", &files, found);
    }

    use super::CODE_MAP;

    #[test]
    fn paths_in_documents_exist() {
        let text = "`crates/a/src/lib.rs`, `crates/a/src/lib.rs:12`, `crates/a/`, `crates/*/src`, `crates/NAME x`, \
                    `and/or`, `target/release/quarry`, [guide](docs/guide.md#part), <https://example.com/docs/x>\n\n\
                    ```\ncrates/gone\n```\n\n`crates/b`\n[gone](docs/gone.md)\n";
        check("README.md", text, &["README.md:7: names crates/b,", "README.md:8: names docs/gone.md,"]);
    }

    #[test]
    fn links_are_relative_to_their_document() {
        let text = "[a](guide.md) [b](../crates/a/src/lib.rs) [c](#part) [d](docs/guide.md)";
        check("docs/more.md", text, &["docs/more.md:1: names docs/docs/guide.md,"]);
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
