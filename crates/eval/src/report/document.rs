//! Frame of pages: one file that needs no other, and that loads and runs nothing but its own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use quarry_metrics::table::Table;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page that a server sends, with the policy to send with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPage {
    pub html: String,
    /// The value of its header `Content-Security-Policy`.
    pub policy: String,
}

/// A page with a title, what is below it in its header, and its main part.
pub fn document(title: &str, header: &Markup, main: &Markup) -> String {
    document_by(&policy("'none'"), title, &html! {}, header, main)
}

/// A page that may have forms, which are sent to the server that the page is from; above it are links to others, each with
/// its name.
pub fn served_document(
    title: &str,
    links: &[(String, String)],
    header: &Markup,
    main: &Markup,
) -> ServedPage {
    let policy = policy("'self'");
    let bar = html! {
        nav.bar aria-label="Pages" {
            span.name { "Quarry" }
            @for (name, address) in links { a href=(address) { (name) } }
        }
    };
    ServedPage { html: document_by(&policy, title, &bar, header, main), policy: served_policy(&policy) }
}

/// A page that was written as a file, of this program or any other: only the style and the script of this program's
/// pages have an effect in it.
pub fn served_file(html: String) -> ServedPage {
    ServedPage { html, policy: served_policy(&policy("'none'")) }
}

/// No other page may show what a server sends.
fn served_policy(policy: &str) -> String {
    format!("{policy}; frame-ancestors 'none'")
}

fn document_by(policy: &str, title: &str, bar: &Markup, header: &Markup, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (bar)
                header { h1 { (title) } (header) }
                main { (main) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Allows the style and the script of the page, by their hashes, and nothing else: texts in it come from anybody.
fn policy(forms: &str) -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action {forms}",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// A table whose columns a click sorts by.
pub fn table(table: &Table) -> Markup {
    html! {
        div.scroll { table.sortable {
            thead { tr { @for (index, name) in table.header().iter().enumerate() {
                th.words[has_words(table, index)] scope="col" { button type="button" { (name) } }
            } } }
            tbody { @for row in table.rows() { tr {
                @for (index, cell) in row.iter().enumerate() {
                    @if index == 0 { th scope="row" { (cell) } } @else { td.words[is_words(cell)] { (cell) } }
                }
            } } }
        } }
    }
}

/// Returns whether all cells of a column hold words, which stand below their heading then.
fn has_words(table: &Table, column: usize) -> bool {
    let mut cells =
        (table.rows().iter()).filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
    cells.peek().is_some() && cells.all(|cell| is_words(cell))
}

/// Returns whether a cell holds words rather than a number, a sign, or nothing.
fn is_words(cell: &str) -> bool {
    cell.starts_with(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_texts_and_allows_only_its_own_style_and_script() {
        let mut rows = Table::new(["name", "n"]);
        rows.push(["<img src=x onerror=alert(1)>", "2"]);
        let page = document("a</title><script>", &html! {}, &table(&rows));
        assert!(page.contains("<title>a&lt;/title&gt;&lt;script&gt;</title>"), "{page}");
        assert!(!page.contains("<img") && page.matches("<script>").count() == 1, "{page}");
        // The hashes are those of what a browser sees between the tags.
        let between = |tag: &str| {
            let rest = page.split_once(&format!("<{tag}>")).unwrap().1;
            rest.split_once(&format!("</{tag}>")).unwrap().0
        };
        for tag in ["style", "script"] {
            let hash = STANDARD.encode(Sha256::digest(between(tag)));
            assert!(page.contains(&format!("{tag}-src 'sha256-{hash}'")), "{tag}");
        }
    }
}
