//! The headings and code of AsciiDoc.

use crate::block::{Block, block_of_rows, code_language};
use crate::definition::Structure;
use crate::line::Lines;
use crate::section::{Headings, Sections, n_characters, row_text, uniform};

/// Maximum number of `=` of a heading.
const MAX_LEVEL: usize = 6;
/// Underlines of the titles of each level, in the older form.
const UNDERLINES: &[u8] = b"=-~^+";
/// Delimiters of blocks whose content is not AsciiDoc: listings, literals, passages that are passed on, comments.
const DELIMITERS: &[u8] = b"-.+/";
/// Minimum length of a delimiter.
const MIN_DELIMITER: usize = 4;

/// The sections of a text.
pub(crate) fn find_sections(lines: &Lines, headings: &mut Headings) -> Structure {
    let mut sections = Sections::new(headings, lines.source().len());
    let mut row = 0;
    while row < lines.count() {
        if let Some((level, title, n_rows)) = heading_at(lines, row) {
            sections.begin(lines.start(row), level, title);
            row += n_rows;
        } else {
            row = delimited(lines, row).map_or(row, |end| end) + 1;
        }
    }
    sections.finish()
}

/// The level and the title of the heading that begins at a row, and its number of rows.
fn heading_at(lines: &Lines, row: usize) -> Option<(usize, String, usize)> {
    let text = row_text(lines, row);
    let level = text.iter().take_while(|byte| **byte == b'=').count();
    if (1..=MAX_LEVEL).contains(&level) && text.get(level).is_some_and(u8::is_ascii_whitespace) {
        // The same mark may stand behind the title.
        let (mark, title) = text.split_at(level);
        let title = title.strip_suffix(mark).unwrap_or(title);
        return Some((level, String::from_utf8_lossy(title.trim_ascii()).into_owned(), 1));
    }
    if !text.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
        || row + 1 >= lines.count()
    {
        return None;
    }
    let (character, length) = uniform(row_text(lines, row + 1))?;
    let level = UNDERLINES.iter().position(|known| *known == character)? + 1;
    let is_alone = row == 0 || lines.is_blank(row - 1) || row_text(lines, row - 1).starts_with(b"[");
    (is_alone && length.abs_diff(n_characters(text)) <= 1)
        .then(|| (level, String::from_utf8_lossy(text).into_owned(), 2))
}

/// The last row of the block that a row delimits, if its content is not AsciiDoc; the last of all if it has no end.
fn delimited(lines: &Lines, row: usize) -> Option<usize> {
    let text = row_text(lines, row);
    let is_fence = text.starts_with(b"```");
    let is_delimiter = uniform(text)
        .is_some_and(|(character, length)| length >= MIN_DELIMITER && DELIMITERS.contains(&character));
    if !is_fence && !is_delimiter {
        return None;
    }
    let end: &[u8] = if is_fence { b"```" } else { text };
    Some((row + 1..lines.count()).find(|row| row_text(lines, *row) == end).unwrap_or(lines.count() - 1))
}

/// The code of listings that say its language: `[source,python]` before a delimited block, or a fence.
pub(crate) fn find_blocks(source: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    if [&b"----"[..], b"....", b"```"].iter().all(|mark| memchr::memmem::find(source, mark).is_none()) {
        return blocks;
    }
    let lines = Lines::new(source);
    // The row and the language of the attributes of the next block.
    let mut announced = None;
    let mut row = 0;
    while row < lines.count() {
        let text = row_text(&lines, row);
        let fence = text.strip_prefix(b"```").map(|name| (row, String::from_utf8_lossy(name).into_owned()));
        if let Some(end) = delimited(&lines, row) {
            let found = fence.or_else(|| announced.take());
            let language = found.and_then(|(mark, name)| Some((mark, code_language(&name)?)));
            if let Some((mark, language)) = language.filter(|_| row + 1 < end) {
                blocks.push(block_of_rows(&lines, language, mark, row + 1..end, end + 1));
            }
            row = end;
            announced = None;
        } else if let Some(name) = announced_language(text) {
            announced = Some((row, name));
        } else if !text.starts_with(b".") && !text.starts_with(b"[") {
            // Neither a title of the block nor more of its attributes.
            announced = None;
        }
        row += 1;
    }
    blocks
}

/// The language in attributes such as `[source,python]`, `[source%linenums, python]` and `[,python]`.
fn announced_language(text: &[u8]) -> Option<String> {
    let inner = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let mut parts = inner.split(|byte| *byte == b',');
    let style = parts.next()?;
    let style = style.split(|byte| matches!(byte, b'%' | b'#' | b'.')).next()?.trim_ascii();
    let is_source = style.is_empty() || style == b"source";
    is_source.then(|| String::from_utf8_lossy(parts.next().unwrap_or_default()).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use crate::language::Prose;
    use crate::prose::tests::{check_blocks, check_sections};

    #[track_caller]
    fn check(source: &str, expected: &[(&str, usize)]) {
        check_sections(Prose::AsciiDoc, source.as_bytes(), expected);
    }

    #[test]
    fn headings_have_marks_before_them_or_below() {
        check(
            "= Title\n:toc:\n\n== One ==\n\n=== Two\n\n== Three\n",
            &[("Title", 0), ("Title > One", 15), ("Title > One > Two", 26), ("Title > Three", 35)],
        );
        check(
            "git-add(1)\n==========\n\nNAME\n----\ntext\n",
            &[("git-add(1)", 0), ("git-add(1) > NAME", 23)],
        );
    }

    #[test]
    fn other_lines_are_no_headings() {
        check("----\n= code\n----\n\n....\n== code\n....\n", &[]);
        check("```\n= code\n```\n////\n= comment\n////\n", &[]);
        check("====\nexample\n====\n", &[]);
        check("=no heading\n======= too deep\n", &[]);
        check("[source]\n----\n= code\n----\n", &[]);
        check("a paragraph\nnext\n----\n= code\n----\n", &[]);
        check("----\n= code without an end\n", &[]);
        check("", &[]);
    }

    #[test]
    fn code_is_in_listings() {
        let check = |source: &str, expected: &[(&str, &str)]| check_blocks(Prose::AsciiDoc, source, expected);
        check("[source,python]\n----\nf()\n----\n", &[("python", "f()\n")]);
        check("[source%linenums, rust]\n.Title\n....\nf();\n....\n", &[("rust", "f();\n")]);
        check("[,js]\n----\nf()\n----\n```go\nf()\n```\n", &[("javascript", "f()\n"), ("go", "f()\n")]);
        check("[source,python]\n\ntext\n\n----\nf()\n----\n", &[]);
        check("[source,unknown]\n----\nf()\n----\n----\ng()\n----\n", &[]);
        check("[source,python]\n----\n----\n[source,python]\n----\n", &[]);
    }
}
