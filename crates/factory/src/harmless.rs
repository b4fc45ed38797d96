//! Texts of others that are shown: paths, names and messages may come from anybody.

/// Whether a character controls terminals or the direction of text.
pub(crate) fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Untrusted text on one line, with control characters escaped.
pub(crate) fn harmless(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => line.push(' '),
            c if is_odd(c) => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}
