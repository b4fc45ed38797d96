//! Lines of source as HTML, colored by what their parts are, with what matches a query marked.

use std::ops::Range;

use maud::{Markup, PreEscaped};
use quarry_source::{Highlight, highlights, language_named};
use quarry_text::needs_escape;

/// Longer texts are not colored: parsing them would take longer than finding them.
const MAX_BYTES: usize = 400_000;
/// The longest line that is shown whole, in bytes.
const MAX_LINE_BYTES: usize = 2000;

/// The colored parts of a text, by line.
pub(crate) struct ColoredLines {
    lines: Vec<Vec<(Range<usize>, Highlight)>>,
}

impl ColoredLines {
    /// Highlights a text in a language, by its name.
    pub(crate) fn new(language: &str, text: &str) -> Self {
        let found = match language_named(language) {
            Some(language) if text.len() <= MAX_BYTES => highlights(language, text.as_bytes()),
            _ => Vec::new(),
        };
        let mut lines = Vec::new();
        let (mut start, mut next) = (0, 0);
        for line in text.split_inclusive('\n') {
            let end = start + line.len();
            let mut parts = Vec::new();
            while let Some((range, highlight)) = found.get(next) {
                let part = range.start.max(start)..range.end.min(end);
                if range.start >= end {
                    break;
                }
                // A part that begins in the middle of a character, in text that is not what was parsed, is left out.
                if part.start < part.end
                    && text.is_char_boundary(part.start)
                    && text.is_char_boundary(part.end)
                {
                    parts.push((part.start - start..part.end - start, *highlight));
                }
                if range.end > end {
                    break;
                }
                next += 1;
            }
            lines.push(parts);
            start = end;
        }
        Self { lines }
    }

    /// A line by its number, from 0; `marks` and `links` are ascending and disjoint.
    pub(crate) fn line(&self, number: usize, text: &str, marks: &[Range<usize>], links: &[Link]) -> Markup {
        let parts = self.lines.get(number).map_or(&[][..], Vec::as_slice);
        line(text, parts, marks, links)
    }
}

pub(crate) struct Link {
    pub range: Range<usize>,
    /// A word for the style and the script.
    pub class: &'static str,
    pub address: String,
}

fn line(text: &str, parts: &[(Range<usize>, Highlight)], marks: &[Range<usize>], links: &[Link]) -> Markup {
    let whole = text.trim_end_matches(['\n', '\r']);
    let end = whole.floor_char_boundary(MAX_LINE_BYTES);
    let shown = &whole[..end];
    let mut html = String::with_capacity(shown.len() * 2);
    let mut at = 0;
    let (mut parts, mut marks) = (parts.iter().peekable(), marks.iter().peekable());
    let mut links = links.iter().peekable();
    while at < end {
        while parts.next_if(|(range, _)| range.end <= at).is_some() {}
        while marks.next_if(|range| range.end <= at).is_some() {}
        while links.next_if(|link| link.range.end <= at).is_some() {}
        let link = links.peek().copied();
        let part = parts.peek().map(|(range, highlight)| (range, *highlight));
        let mark = marks.peek().copied();
        let edges = [part.map(|(range, _)| range), mark, link.map(|link| &link.range)];
        let edges = edges.into_iter().flatten().flat_map(|range| [range.start, range.end]);
        let next = edges.filter(|edge| *edge > at).min().unwrap_or(end).min(end);
        let class = part.filter(|(range, _)| range.start <= at).map(|(_, highlight)| class(highlight));
        let is_marked = mark.is_some_and(|range| range.start <= at);
        let piece = shown.get(at..next).unwrap_or_default();
        let link = link.filter(|link| link.range.start <= at);
        if let Some(Link { class, address, .. }) = link {
            html.push_str(&format!("<a class={class} href=\""));
            escape(address, &mut html);
            html.push_str("\">");
        }
        let open = class.map_or_else(String::new, |class| format!("<span class=\"{class}\">"));
        html.push_str(&open);
        html.push_str(if is_marked { "<mark>" } else { "" });
        escape(piece, &mut html);
        html.push_str(if is_marked { "</mark>" } else { "" });
        html.push_str(if class.is_some() { "</span>" } else { "" });
        html.push_str(if link.is_some() { "</a>" } else { "" });
        at = next;
    }
    if end < whole.len() {
        html.push('…');
    }
    PreEscaped(html)
}

fn class(highlight: Highlight) -> &'static str {
    match highlight {
        Highlight::Comment => "hc",
        Highlight::String => "hs",
        Highlight::Number => "hn",
        Highlight::Keyword => "hk",
        Highlight::Type => "ht",
        Highlight::Function => "hf",
    }
}

/// Source as HTML. Characters that need an escape, because they can make source look like other source, are shown as their
/// codes.
fn escape(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\t' => html.push('\t'),
            c if needs_escape(c) => html.push_str(&format!("<span class=\"odd\">U+{:04X}</span>", c as u32)),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_escaped_colored_and_marked() {
        let text = "let a = \"<b>&\"; // a\n\"two\nlines\"\n";
        let colored = ColoredLines::new("rust", text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            colored.line(0, lines[0], &[4..5, 9..10], &[]).into_string(),
            "<span class=\"hk\">let</span> <mark>a</mark> = <span class=\"hs\">&quot;</span>\
             <span class=\"hs\"><mark>&lt;</mark></span><span class=\"hs\">b&gt;&amp;&quot;</span>; \
             <span class=\"hc\">// a</span>"
        );
        assert_eq!(colored.line(1, lines[1], &[], &[]).into_string(), "<span class=\"hs\">&quot;two</span>");
        assert_eq!(
            colored.line(2, lines[2], &[], &[]).into_string(),
            "<span class=\"hs\">lines&quot;</span>"
        );
        let link = |range, address: &str| [Link { range, class: "def", address: address.to_owned() }];
        assert_eq!(
            colored.line(9, "a.b(c)", std::slice::from_ref(&(3..4)), &link(2..3, "/x?a=\"&b")).into_string(),
            "a.<a class=def href=\"/x?a=&quot;&amp;b\">b</a><mark>(</mark>c)"
        );
    }

    #[test]
    fn hostile_lines_stay_text() {
        let plain = ColoredLines::new("no such language", "");
        let shown = plain
            .line(0, "<script>\u{202e}'\u{7}ä</script>", std::slice::from_ref(&(1..200)), &[])
            .into_string();
        assert!(shown.starts_with("&lt;<mark>script&gt;") && !shown.contains("<script"), "{shown}");
        assert!(shown.contains("U+202E") && shown.contains("U+0007"), "{shown}");
        let long = plain.line(0, &"ä".repeat(5000), &[], &[]).into_string();
        assert!(long.ends_with('…') && long.len() < 2100);
    }
}
