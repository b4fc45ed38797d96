//! A marked block in a file of instructions.

use std::ops::Range;

use super::line_end;
use crate::Problem;

const BEGIN: &str = "<!-- quarry: begin (written by `quarry agent install`) -->";
const END: &str = "<!-- quarry: end -->";

/// The block with its marks, with line ends as another text has them.
pub(super) fn lines(own: &str, like: &str) -> String {
    format!("{BEGIN}\n{}\n{END}\n", own.trim_end()).replace('\n', line_end(like))
}

/// Range of the block, with the end of its last line.
pub(super) fn find(text: &str) -> Result<Option<Range<usize>>, Problem> {
    let Some(begin) = text.find(BEGIN) else { return Ok(None) };
    let Some(end) = text[begin..].find(END).map(|end| begin + end + END.len()) else {
        let words = format!("Quarry's block starts here but is not closed: expected the line {END}");
        return Err(Problem::at(text, begin, words));
    };
    let rest = &text[end..];
    let line_end = ["\r\n", "\n"].into_iter().find(|line_end| rest.starts_with(line_end));
    Ok(Some(begin..end + line_end.map_or(0, str::len)))
}

/// The text with the block at its end, after an empty line.
pub(super) fn insert(text: &str, own: &str) -> String {
    let line_end = line_end(text);
    let between = match text {
        "" => String::new(),
        text if text.ends_with(&format!("{line_end}{line_end}")) => String::new(),
        text if text.ends_with('\n') => line_end.to_owned(),
        _ => line_end.repeat(2),
    };
    format!("{text}{between}{}", lines(own, text))
}

/// The text without the block and the empty line before it.
pub(super) fn remove(text: &str) -> Result<String, Problem> {
    let Some(range) = find(text)? else { return Ok(text.to_owned()) };
    let before = &text[..range.start];
    let kept = before.trim_end_matches(['\r', '\n']);
    let n_line_ends = before[kept.len()..].matches('\n').count();
    // One ends the line before.
    let before = match n_line_ends {
        0 | 1 => before,
        _ => &before[..kept.len() + line_end(text).len()],
    };
    Ok(format!("{before}{}", &text[range.end..]))
}
