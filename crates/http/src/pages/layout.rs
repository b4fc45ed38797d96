//! Layout of all pages.

use std::sync::LazyLock;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use quarry_text::needs_escape;

use crate::params::Params;

/// Characters that a path in an address may have.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Directory of the files of the pages, which hold nothing of a tree.
pub(crate) const ASSETS: &str = "/assets/";

pub(super) const STYLE: &str = include_str!("../../assets/style.css");
pub(super) const SCRIPT: &str = include_str!("../../assets/search.js");

pub(super) const ICON: &str = "/assets/icon.svg";
pub(super) const ICON_SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><circle cx=\"7\" \
    cy=\"7\" r=\"4.5\" fill=\"none\" stroke=\"#2f6f9f\" stroke-width=\"2\"/><path d=\"M10.5 10.5 14 14\" \
    stroke=\"#2f6f9f\" stroke-width=\"2.5\" stroke-linecap=\"round\"/></svg>";

/// Seconds after which a page without a script is loaded anew.
pub(crate) const RELOAD_SECONDS: u32 = 10;

static STYLE_ADDRESS: LazyLock<String> = LazyLock::new(|| address("style", "css", STYLE));
static SCRIPT_ADDRESS: LazyLock<String> = LazyLock::new(|| address("search", "js", SCRIPT));

fn address(name: &str, extension: &str, content: &str) -> String {
    let hash = &quarry_files::sha256(content)[..12];
    format!("{ASSETS}{name}-{hash}.{extension}")
}

pub(super) fn style_address() -> &'static str {
    &STYLE_ADDRESS
}

pub(super) fn script_address() -> &'static str {
    &SCRIPT_ADDRESS
}

pub(crate) fn path_text(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

pub(super) fn place(tree: &str, path: &str) -> String {
    format!("{}/{}", path_text(tree).replace('/', "%2F"), path_text(path))
}

/// The address of a line of a file, where the query and the filters of `params` stay.
pub(super) fn file_address(params: &Params, tree: &str, path: &str, line: u32) -> String {
    format!(
        "{}#L{line}",
        params.with("line", &line.to_string()).link(&format!("/file/{}", place(tree, path)))
    )
}

/// The address of a directory, where the query and the filters of `params` stay.
pub(super) fn directory_address(params: &Params, tree: &str, directory: &str) -> String {
    params.link(format!("/dir/{}", place(tree, directory)).trim_end_matches('/'))
}

/// Section that a page belongs to, which decides what its keys do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    Search,
    /// The state of some work.
    Status,
    Problem,
    #[cfg(feature = "labels")]
    Labels,
}

impl Site {
    /// Actions of keys, as in the script.
    fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Search => &[
                ("/", "write a query"),
                ("j", "next result"),
                ("k", "previous result"),
                ("Enter", "open the result"),
                ("y", "copy the address of the result or page"),
                ("s", "save the query, or forget it"),
                ("?", "show these keys"),
            ],
            Self::Status | Self::Problem => &[("?", "show these keys")],
            #[cfg(feature = "labels")]
            Self::Labels => &[
                ("1 … 9", "answer, as on the buttons"),
                ("s", "skip: see the item again at the end"),
                ("u", "change the last answer"),
                ("r", "run the test program (Ctrl+Enter while writing it)"),
                ("Escape", "leave a field, so that these keys work again"),
                ("?", "show these keys"),
            ],
        }
    }
}

/// The keys that are always shown, where there are scripts and a keyboard.
pub(super) fn hints() -> Markup {
    html! {
        p .hints {
            span { kbd { "/" } " search" }
            span { kbd { "j" } kbd { "k" } " select" }
            span { kbd { "Enter" } " open" }
            button type="button" data-keys="1" { kbd { "?" } " all keys" }
        }
    }
}

/// A whole page of search.
pub(crate) fn page(title: &str, body: Markup) -> Markup {
    page_of(Site::Search, title, body)
}

/// A whole page. Names from trees, texts of people and output of programs may hold characters that change the direction
/// of what comes after them, or control characters, anywhere on it: their codes are shown.
pub(crate) fn page_of(site: Site, title: &str, body: Markup) -> Markup {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Quarry" }
                link rel="icon" href=(ICON);
                link rel="stylesheet" href=(style_address());
                @if site == Site::Search {
                    link rel="search" type="application/opensearchdescription+xml" title="Quarry" href="/opensearch.xml";
                }
                @if site == Site::Status {
                    noscript { meta http-equiv="refresh" content=(RELOAD_SECONDS); }
                }
                script defer src=(script_address()) {}
            }
            body {
                a .skip href="#main" { "Skip to content" }
                (body)
                dialog #keys aria-labelledby="keys-title" {
                    h2 #keys-title { "Keys" }
                    dl {
                        @for (key, what) in site.keys() { dt { kbd { (key) } } dd { (what) } }
                    }
                    form method="dialog" { button { "Close" } }
                }
            }
        }
    };
    PreEscaped(with_codes(page.into_string()))
}

/// A part of a page, with the same codes.
pub(super) fn fragment(part: &Markup) -> String {
    with_codes(part.0.clone())
}

fn with_codes(html: String) -> String {
    if !html.contains(needs_code) {
        return html;
    }
    let mut shown = String::with_capacity(html.len() + 64);
    for c in html.chars() {
        if needs_code(c) { shown.push_str(&format!("U+{:04X}", u32::from(c))) } else { shown.push(c) }
    }
    shown
}

/// Returns whether a character is shown as its code: what needs an escape, which includes all that HTML cannot have.
fn needs_code(c: char) -> bool {
    needs_escape(c) && !matches!(c, '\n' | '\r' | '\t')
}
