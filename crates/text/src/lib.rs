//! Tokenizes code and English, for lexical search and for static models, and escapes untrusted text.
//!
//! Search and models start with the same two steps: a text is split into [`identifiers`] (runs of letters, digits and
//! `_`), an identifier into its [`parts`] (`parseHTTPHeader2` → `parse`, `HTTP`, `Header2`).
//!
//! ```
//! let parts: Vec<&str> = quarry_text::parts("parseHTTPHeader_v2").collect();
//! assert_eq!(parts, ["parse", "HTTP", "Header", "v2"]);
//! ```

mod causes;
mod escape;
mod lexical;
pub mod near;
mod nearest;
mod plural;
mod script;
mod spelling;
mod stems;
mod stop_words;
mod table;

pub use causes::with_causes;
pub use escape::{changes_direction, escaped, harmless, needs_escape, printable};
pub use lexical::{TermRules, folded, lexical_terms, lower_case, query_terms};
pub use nearest::{did_you_mean, did_you_mean_or_all, edits_within, misspelled, nearest, plain_message};
pub use plural::{counted, plural};
pub use script::runs_by_script;
pub use stop_words::{is_language_name, is_stop_word};
pub use table::find_in_table;

/// The identifiers of a text in order: maximal runs of letters, digits and `_`, in any script.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(is_identifier_char)?;
        let tail = &rest[start..];
        let end = tail.find(|c| !is_identifier_char(c)).unwrap_or(tail.len());
        rest = &tail[end..];
        Some(&tail[..end])
    })
}

/// The parts of an identifier in order: split at `_`, where lower case turns into upper (`readFile`), and before
/// the last capital of a run that continues in lower case (`HTTPHeader`). Digits stay with the letters before them, so
/// that `utf8` and `base64` stay whole.
pub fn parts(identifier: &str) -> impl Iterator<Item = &str> {
    identifier.split('_').flat_map(|run| {
        let mut rest = run;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (part, tail) = rest.split_at(part_length(rest));
            rest = tail;
            Some(part)
        })
    })
}

fn is_identifier_char(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() || c == '_' } else { c.is_alphanumeric() }
}

/// Length in bytes of the first part of `run`, which holds no `_` and is not empty.
fn part_length(run: &str) -> usize {
    let mut before_previous_is_upper = false;
    let mut previous = None::<(usize, char)>;
    for (at, c) in run.char_indices() {
        if let Some((previous_at, p)) = previous {
            if c.is_uppercase() && !p.is_uppercase() {
                return at;
            }
            if c.is_lowercase() && p.is_uppercase() && before_previous_is_upper {
                return previous_at;
            }
            before_previous_is_upper = p.is_uppercase();
        }
        previous = Some((at, c));
    }
    run.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = identifiers(text).flat_map(parts).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn cuts_identifiers_where_people_read_a_border() {
        check("readFile(path_name)", &["read", "File", "path", "name"]);
        check("HTTPHeader XMLHttpRequest", &["HTTP", "Header", "XML", "Http", "Request"]);
        check("__init__ _x", &["init", "x"]);
        check("utf8 base64_encode sha256Sum", &["utf8", "base64", "encode", "sha256", "Sum"]);
        check("HTML5Parser", &["HTML5", "Parser"]);
        check("aB AB ABc A", &["a", "B", "AB", "A", "Bc", "A"]);
        check("", &[]);
        check("+-*/ ::", &[]);
    }

    #[test]
    fn reads_every_script() {
        check("größeBerechnen", &["größe", "Berechnen"]);
        check("длинаСтроки 長さ", &["длина", "Строки", "長さ"]);
        check("e\u{301}tat naïve", &["e", "tat", "naïve"]);
    }
}
