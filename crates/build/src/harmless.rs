//! Untrusted texts for display: paths, names and messages may come from anybody.

/// Untrusted text on one line, with control characters escaped.
pub(crate) fn harmless(text: &str) -> String {
    let escape = |line: &mut String, c: char| match c {
        '\n' | '\r' => line.push(' '),
        c => line.extend(c.escape_default()),
    };
    quarry_text::escaped(text, &[], escape).into_owned()
}
