//! The headings and code of reStructuredText.

use crate::block::{Block, block_of_rows, code_language};
use crate::definition::Structure;
use crate::line::Lines;
use crate::section::{Headings, Sections, n_characters, row_text, uniform};

/// Shorter lines of punctuation may be something else, such as an ellipsis, unless they are as long as a title.
const MIN_ADORNMENT: usize = 4;

/// The sections of a text, whose headings are marked by lines of punctuation below, or above and below: these are
/// ranked in the order of their first occurrence.
pub(crate) fn find_sections(lines: &Lines, headings: &mut Headings) -> Structure {
    let mut sections = Sections::new(headings, lines.source().len());
    let mut row = 0;
    while row < lines.count() {
        let Some(heading) = heading_at(lines, row) else {
            row += 1;
            continue;
        };
        let styles = &mut sections.headings().styles;
        let known = styles.iter().position(|style| *style == heading.style);
        let level = known.unwrap_or_else(|| {
            styles.push(heading.style);
            styles.len() - 1
        });
        sections.begin(lines.start(row), level, heading.title);
        row = heading.next_row;
    }
    sections.finish()
}

struct Heading {
    title: String,
    /// The character of its lines, and whether there is one above.
    style: (u8, bool),
    next_row: usize,
}

/// The heading that begins at a row.
fn heading_at(lines: &Lines, row: usize) -> Option<Heading> {
    let first = row_text(lines, row);
    if first.is_empty() || first[0].is_ascii_whitespace() {
        return None;
    }
    let above = uniform(first).filter(|_| row + 2 < lines.count());
    if let Some((character, length)) = above
        && uniform(row_text(lines, row + 2)) == Some((character, length))
    {
        let title = row_text(lines, row + 1);
        let is_title = uniform(title).is_none() && n_characters(title) <= length;
        return (is_title && !title.trim_ascii().is_empty()).then(|| Heading {
            title: plain(title),
            style: (character, true),
            next_row: row + 3,
        });
    }
    if row + 1 >= lines.count() || uniform(first).is_some_and(|(_, length)| length >= MIN_ADORNMENT) {
        return None;
    }
    let (character, length) = uniform(row_text(lines, row + 1))?;
    // The last line of a paragraph is not a title.
    let follows_text = row > 0 && !lines.is_blank(row - 1) && {
        let before = row_text(lines, row - 1);
        uniform(before).is_none() && !before.starts_with(b"..")
    };
    let is_long = length >= MIN_ADORNMENT || length >= n_characters(first);
    (is_long && !follows_text && !first.starts_with(b".. ")).then(|| Heading {
        title: plain(first),
        style: (character, false),
        next_row: row + 2,
    })
}

/// A title without marks: the text of roles and references, and the words of emphasis and literals.
fn plain(title: &[u8]) -> String {
    let title = String::from_utf8_lossy(title.trim_ascii());
    let mut plain = String::new();
    for (number, part) in title.split('`').enumerate() {
        let is_quoted = number % 2 == 1;
        // `text <target>`_
        let part = if is_quoted { part.split(" <").next().unwrap_or(part) } else { part };
        let part = if number > 0 && !is_quoted { part.trim_start_matches('_') } else { part };
        // :role:`text`
        let is_role =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+._".contains(&byte));
        let without_role = part.strip_suffix(':').and_then(|part| {
            let (before, role) = part.rsplit_once(':')?;
            (!role.is_empty() && is_role(role)).then_some(before)
        });
        plain.push_str(if is_quoted { part } else { without_role.unwrap_or(part) });
    }
    plain.replace("**", "")
}

/// The directives that show code.
const DIRECTIVES: [&[u8]; 3] = [b"code-block::", b"code::", b"sourcecode::"];

/// The code of directives such as `.. code-block:: python`: what is indented below them.
pub(crate) fn find_blocks(source: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    if DIRECTIVES.iter().all(|directive| memchr::memmem::find(source, directive).is_none()) {
        return blocks;
    }
    let lines = Lines::new(source);
    let mut row = 0;
    while row < lines.count() {
        let mark = row;
        row += 1;
        let text = row_text(&lines, mark);
        let indent = indent_of(text);
        let Some(directive) = text[indent..].strip_prefix(b"..").map(<[u8]>::trim_ascii_start) else {
            continue;
        };
        let Some(name) = DIRECTIVES.iter().find_map(|known| directive.strip_prefix(*known)) else { continue };
        let is_inside = |row: usize| lines.is_blank(row) || indent_of(row_text(&lines, row)) > indent;
        let end = (row..lines.count()).find(|row| !is_inside(*row)).unwrap_or(lines.count());
        // Options such as `:linenos:` come first.
        let is_option = |row: &usize| row_text(&lines, *row).trim_ascii_start().starts_with(b":");
        let n_options = (row..end).take_while(is_option).count();
        row = end;
        let begin = mark + 1 + n_options;
        let filled = || (begin..end).filter(|row| !lines.is_blank(*row));
        let (Some(first), Some(last)) = (filled().next(), filled().next_back()) else { continue };
        if let Some(language) = code_language(&String::from_utf8_lossy(name)) {
            blocks.push(block_of_rows(&lines, language, mark, first..last + 1, last + 1));
        }
    }
    blocks
}

/// Number of bytes of white space that a row begins with.
fn indent_of(row: &[u8]) -> usize {
    row.len() - row.trim_ascii_start().len()
}

#[cfg(test)]
mod tests {
    use crate::language::Prose;
    use crate::prose::tests::{check_blocks, check_sections};

    #[track_caller]
    fn check(source: &str, expected: &[(&str, usize)]) {
        check_sections(Prose::ReStructuredText, source.as_bytes(), expected);
    }

    #[test]
    fn levels_are_in_the_order_of_their_first_headings() {
        check(
            "=====\nTitle\n=====\n\nOne\n===\n\ntext\n\nTwo\n---\n\nThree\n=====\n",
            &[("Title", 0), ("Title > One", 19), ("Title > One > Two", 34), ("Title > Three", 43)],
        );
        check("A\n~\n\nB\n^\n\nC\n~\n", &[("A", 0), ("A > B", 5), ("C", 10)]);
        check(".. _label:\nTitle\n=====\n", &[("Title", 11)]);
    }

    #[test]
    fn titles_are_plain() {
        check("The :class:`Flask` object\n=========================\n", &[("The Flask object", 0)]);
        check("``a`` and `b <http://c>`_\n=========================\n", &[("a and b", 0)]);
        check("Ärger\n=====\n", &[("Ärger", 0)]);
        check("Note: this\n==========\n", &[("Note: this", 0)]);
    }

    #[test]
    fn other_lines_of_punctuation_are_no_headings() {
        check("text\n\n----\n\ntext\n", &[]);
        check("a paragraph\nthat goes on\n----\n", &[]);
        check("===== ====\na     b\n===== ====\n", &[]);
        check("+---+\n| a |\n+---+\n", &[]);
        check("code::\n\n    A\n    =\n", &[]);
        check("a longer line\n--\n", &[]);
        check("=====\n=====\n=====\n", &[]);
        check("====\n", &[]);
        check("a", &[]);
        check("", &[]);
    }

    #[test]
    fn code_is_below_directives() {
        let check = |source: &str, expected: &[(&str, &str)]| {
            check_blocks(Prose::ReStructuredText, source, expected);
        };
        check(
            ".. code-block:: python\n\n    f()\n\n    g()\n\ntext\n",
            &[("python", "    f()\n\n    g()\n")],
        );
        check("- a\n\n  .. code:: rust\n     :name: x\n\n     f();\n  b\n", &[("rust", "     f();\n")]);
        check(".. sourcecode:: unknown\n\n    f()\n.. code:: js\n\n  f()", &[("javascript", "  f()")]);
        check(".. code-block:: python\n", &[]);
        check(".. note:: code-block:: python\n\n    f()\n", &[]);
    }
}
