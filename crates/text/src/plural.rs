//! Numbers of things, in English.

use std::fmt::Display;

/// A number with the word for what it counts: `1 file`, `2 files`, `0 queries`. `noun` is in the singular.
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    let number = n.to_string();
    format!("{number} {}", plural(n, noun))
}

/// The word for `n` things of the kind that `noun`, in the singular, names.
pub fn plural<N: PartialEq + From<u8>>(n: N, noun: &str) -> String {
    if n == N::from(1) {
        return noun.to_owned();
    }
    let before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match before_y {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with(['s', 'x', 'z']) || noun.ends_with("ch") || noun.ends_with("sh") => {
            format!("{noun}es")
        }
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_others_are_plural() {
        let check = |n: usize, noun, expected| assert_eq!(counted(n, noun), expected);
        check(1, "question", "1 question");
        check(0, "question", "0 questions");
        check(2, "query", "2 queries");
        check(1, "query", "1 query");
        check(3, "key", "3 keys");
        check(2, "match", "2 matches");
        check(2, "index", "2 indexes");
        check(12, "test program", "12 test programs");
        check(7, "directory", "7 directories");
        assert_eq!(counted(1_u64, "call"), "1 call");
    }
}
