//! Recognizes letters that only look like others, so that a copy of evaluation data cannot be disguised by them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::skeleton;

/// ASCII letters and digits by what they look like; a small and a capital letter may look like the same character.
struct Homoglyphs {
    small: HashMap<String, char>,
    capital: HashMap<String, char>,
}

static ASCII: LazyLock<Homoglyphs> = LazyLock::new(|| {
    let by_look = |letters: &mut dyn Iterator<Item = char>| {
        let mut found = HashMap::new();
        for letter in letters {
            found.entry(prototype(letter)).or_insert(letter);
        }
        found
    };
    Homoglyphs { small: by_look(&mut ('a'..='z').chain('0'..='9')), capital: by_look(&mut ('A'..='Z')) }
});

/// The prototype of a character, by the table of Unicode Technical Standard 39, without strokes and accents; empty for
/// an invisible one.
fn prototype(c: char) -> String {
    skeleton(c.encode_utf8(&mut [0; 4])).filter(|c| !is_combining_mark(*c)).collect()
}

/// The text in ASCII as far as it looks like it: compatibility forms such as full-width letters (NFKD), look-alikes from
/// other scripts, accents and invisible characters are replaced. ASCII is unchanged, other scripts too.
pub(crate) fn undisguised(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.nfkd().filter(|c| !is_combining_mark(*c)) {
        if c.is_ascii() {
            plain.push(c);
            continue;
        }
        let look = prototype(c);
        let tables = match c.is_uppercase() {
            true => [&ASCII.capital, &ASCII.small],
            false => [&ASCII.small, &ASCII.capital],
        };
        match tables.iter().find_map(|table| table.get(&look)) {
            Some(letter) => plain.push(*letter),
            None if look.is_ascii() => plain.push_str(&look),
            None => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_become_ascii_and_other_texts_stay() {
        for (text, expected) in [
            ("sort m1 | l0", "sort m1 | l0"),
            // Full-width, mathematical, and a ligature.
            ("ｓｏｒｔ（ｌｉｓｔ）", "sort(list)"),
            ("𝐬𝐨𝐫𝐭 ﬁle", "sort file"),
            // Cyrillic and Greek letters, small and capital.
            ("ѕоrt а list", "sort a list"),
            ("Іmport ΑΒС", "Import ABC"),
            // Invisible characters, accents, and strokes.
            ("so\u{200b}rt\u{feff} a\u{ad} list", "sort a list"),
            ("sört łist s\u{336}ort", "sort list sort"),
            ("don’t", "don't"),
            ("列表排序", "列表排序"),
        ] {
            assert_eq!(undisguised(text), expected, "{text}");
        }
    }
}
