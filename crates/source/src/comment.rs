//! The text of comments and docstrings, without the characters that mark them.

/// Text of a run of comments, given as they are in the file: markers (`//`, `///`, `#`, `#'`, `--`, `/* */`, ...)
/// and `*` gutters removed, common indentation removed, lines that only draw a rule (`// -----`) dropped; if the
/// text is `markup`, its tags too.
pub(crate) fn comment_text<'a>(comments: impl Iterator<Item = &'a str>, markup: bool) -> String {
    let mut lines = Vec::new();
    let mut line_comments = Vec::new();
    for comment in comments {
        match block_comment_body(comment) {
            Some(body) => {
                append_dedented(&mut lines, &mut line_comments);
                lines.extend(clean_block(body.lines().map(without_gutter).filter(is_text)));
            }
            None => line_comments.extend(comment.lines().map(without_line_marker).filter(is_text)),
        }
    }
    append_dedented(&mut lines, &mut line_comments);
    if !markup {
        return join(&lines);
    }
    let text = without_tags(&lines.join("\n"));
    join(&text.lines().map(str::trim_end).collect::<Vec<_>>())
}

/// XML without its tags; of an empty element (`<see cref="Cart"/>`), its target is kept.
fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once('<') {
        plain.push_str(before);
        let is_tag = opened.trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic());
        match opened.split_once('>').filter(|(tag, _)| is_tag && !tag.contains('<')) {
            Some((tag, after)) => {
                if tag.ends_with('/') {
                    plain.push_str(tag.split('"').nth(1).unwrap_or_default());
                }
                rest = after;
            }
            None => {
                plain.push('<');
                rest = opened;
            }
        }
    }
    plain + rest
}

/// Text of a string literal that is documentation: prefix and quotes removed, indentation removed as Python's
/// `inspect.cleandoc` does. Escapes stay as written.
pub(crate) fn docstring_text(literal: &str) -> String {
    let quoted = literal.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '~');
    let body = ["\"\"\"", "'''", "\"", "'"]
        .iter()
        .find_map(|quote| quoted.strip_prefix(quote).map(|rest| rest.strip_suffix(quote).unwrap_or(rest)))
        .unwrap_or(quoted);
    join(&clean_block(body.lines()))
}

/// The text between the markers of a comment that has an end marker.
fn block_comment_body(comment: &str) -> Option<&str> {
    if let Some(body) = comment.strip_prefix("/*") {
        let body = body.trim_start_matches(['*', '!']);
        return Some(body.strip_suffix('/').unwrap_or(body).trim_end_matches('*'));
    }
    for (open, close) in [
        ("=begin", "=end"),
        ("<!--", "-->"),
        // PowerShell, Julia, Haskell, then OCaml and F#.
        ("<#", "#>"),
        ("#=", "=#"),
        ("{-", "-}"),
        ("(*", "*)"),
    ] {
        if let Some(body) = comment.strip_prefix(open) {
            let body = body.strip_suffix(close).unwrap_or(body);
            return Some(body.trim_start_matches(['*', '|']).trim_end_matches('*'));
        }
    }
    // Lua: `--[[ ]]` and `--[==[ ]==]`.
    let level = comment.strip_prefix("--[")?;
    let body = level.trim_start_matches('=').strip_prefix('[')?;
    Some(body.strip_suffix(']').unwrap_or(body).trim_end_matches('=').trim_end_matches(']'))
}

fn without_gutter(line: &str) -> &str {
    let text = line.trim_start();
    match text.strip_prefix('*') {
        Some(rest) => rest.strip_prefix(' ').unwrap_or(rest),
        None => line,
    }
}

fn without_line_marker(line: &str) -> &str {
    let line = line.trim_start();
    let Some(marker) = line.chars().next().filter(|c| "/#-;%!".contains(*c)) else { return line };
    let text = line.trim_start_matches(marker).trim_start_matches(['!', '\'', '|', '>']);
    let text = text.strip_prefix(' ').unwrap_or(text);
    // Haddock's: `-- | What it does.`
    if marker == '-' { text.strip_prefix("| ").unwrap_or(text) } else { text }
}

/// The first line without indentation, the other lines without their common indentation.
fn clean_block<'a>(mut lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut cleaned: Vec<&str> = lines.next().map(str::trim).into_iter().collect();
    append_dedented(&mut cleaned, &mut lines.collect());
    cleaned
}

/// Moves `block` to the end of `lines`, without the indentation that its non-blank lines share.
fn append_dedented<'a>(lines: &mut Vec<&'a str>, block: &mut Vec<&'a str>) {
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let margin = block.iter().filter(|line| !line.trim().is_empty()).map(indentation).min().unwrap_or(0);
    lines.extend(block.drain(..).map(|line| {
        // A margin counts bytes of white space, which may be within a character of another kind of white space.
        line.get(margin..).unwrap_or_else(|| line.trim_start()).trim_end()
    }));
}

/// Returns whether a line is more than a rule drawn with punctuation.
fn is_text(line: &&str) -> bool {
    let line = line.trim();
    line.len() < 3 || !line.chars().all(|c| "=-*#~/_+.".contains(c))
}

/// Lines without the blank ones at both ends.
fn join(lines: &[&str]) -> String {
    let is_filled = |line: &&str| !line.is_empty();
    let (Some(first), Some(last)) = (lines.iter().position(is_filled), lines.iter().rposition(is_filled))
    else {
        return String::new();
    };
    lines[first..=last].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_markers_too() {
        let text = |comment| comment_text(std::iter::once(comment), true);
        assert_eq!(text("/// <summary>\n/// C# doc.\n/// </summary>"), "C# doc.");
        assert_eq!(text("/// <param name=\"n\">At least <c>1</c>.</param>"), "At least 1.");
        assert_eq!(
            text("/// Fills a <see cref=\"Cart\"/>, a<b and 1 < 2 > 0"),
            "Fills a Cart, a<b and 1 < 2 > 0"
        );
    }

    fn check(comments: &[&str], expected: &str) {
        assert_eq!(comment_text(comments.iter().copied(), false), expected);
    }

    #[test]
    fn line_comments() {
        check(&["// One", "//   indented", "//", "// two"], "One\n  indented\n\ntwo");
        check(&["/// Rust doc.", "///", "/// # Errors"], "Rust doc.\n\n# Errors");
        check(&["#' Roxygen title", "#' @param x number"], "Roxygen title\n@param x number");
        check(&["--- Lua doc", "-- more"], "Lua doc\nmore");
        check(&["-- | Haskell doc.", "-- More."], "Haskell doc.\nMore.");
        check(&["!> Fortran doc.", "! More."], "Fortran doc.\nMore.");
        check(&["#"], "");
    }

    #[test]
    fn block_comments() {
        check(&["/** One line. */"], "One line.");
        check(&["/**\n * Text.\r\n *\n *   code\n * @return x\n */"], "Text.\n\n  code\n@return x");
        check(&["/*\n   No gutter,\n     kept indentation.\n*/"], "No gutter,\n  kept indentation.");
        check(&["/*! Qt style */", "// and a line"], "Qt style\nand a line");
        check(&["--[==[ Lua\n  block ]==]"], "Lua\nblock");
        check(&["=begin\nRuby\n=end"], "Ruby");
        check(&["<#\n.SYNOPSIS\nAdds.\n#>"], ".SYNOPSIS\nAdds.");
        check(&["{-| Haskell\n    doc. -}"], "Haskell\ndoc.");
        check(&["(** OCaml doc. *)"], "OCaml doc.");
        check(&["#= Julia =#"], "Julia");
        check(&["/*"], "");
        check(&["/*/"], "");
    }

    #[test]
    fn rules_are_dropped() {
        check(&["//------", "// Title", "//======"], "Title");
        check(&["/*****************\n * Title\n ****************/"], "Title");
    }

    #[test]
    fn docstrings() {
        assert_eq!(
            docstring_text("\"\"\"Sum.\n\n    More:\n      code\n    \"\"\""),
            "Sum.\n\nMore:\n  code"
        );
        assert_eq!(docstring_text("r'''\n  Raw \\d.\n'''"), "Raw \\d.");
        assert_eq!(docstring_text("'one'"), "one");
        assert_eq!(docstring_text("\"\"\""), "");
        // A no-break space is white space of two bytes: dedenting must not cut it in half.
        assert_eq!(docstring_text("\"\"\"a\n b\n\u{a0}c\"\"\""), "a\nb\nc");
    }
}
