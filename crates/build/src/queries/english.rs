//! Detecting English text.

use whatlang::{Lang, detect};

/// Words that are frequent in English and rare in other languages with Latin letters.
const ENGLISH_WORDS: [&str; 40] = [
    "the", "of", "to", "and", "is", "that", "for", "it", "this", "with", "are", "be", "from", "by", "if",
    "not", "or", "an", "as", "which", "when", "returns", "return", "given", "used", "value", "file", "list",
    "string", "get", "set", "whether", "all", "has", "will", "can", "into", "its", "at", "name",
];

/// Texts with fewer words count as English if their letters are Latin.
const MIN_WORDS: usize = 5;

/// Returns whether a text is English, as far as can be determined: short texts and lists of names count as English,
/// unless their letters are not Latin. Words that look like code are ignored.
pub(crate) fn is_english(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (mut n_letters, mut n_foreign) = (0_usize, 0_usize);
    for c in letters {
        n_letters += 1;
        // Latin letters end at U+024F; an English text has few with diacritics.
        n_foreign += usize::from(c > '\u{24f}' && !is_mathematical(c));
    }
    if n_foreign * 5 > n_letters {
        return false;
    }
    let words: Vec<&str> = text.split_whitespace().map(bare).filter(|word| is_word(word)).collect();
    if words.len() < MIN_WORDS {
        return true;
    }
    let n_english = words.iter().filter(|word| ENGLISH_WORDS.contains(&word.to_lowercase().as_str())).count();
    if n_english * 5 >= words.len() {
        return true;
    }
    detect(&words.join(" ")).is_none_or(|found| found.lang() == Lang::Eng || !found.is_reliable())
}

/// Greek letters stand for quantities in formulas, as do letter-like symbols.
fn is_mathematical(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{3ff}' | '\u{2100}'..='\u{214f}' | '\u{1d400}'..='\u{1d7ff}')
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '_' && c != '/' && c != '\\')
}

/// Returns whether a word is natural language rather than a name in code.
fn is_word(word: &str) -> bool {
    let has_inner_capital =
        word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    !word.is_empty() && !has_inner_capital && word.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_is_distinguished_from_other_languages() {
        for english in [
            "Return the number of items.",
            "Parse args.",
            "",
            "x y z",
            "Open file, retry on error: see `openFile` and open_file_descriptor for details",
            "Compute α · x + β for each row, as in the naïve approach of Poincaré",
            "Serializes model weights",
            "Convert numpy array dtype float tensor shape batch channel height width",
            "Initialize a new instance of the class with default values",
        ] {
            assert!(is_english(english), "{english}");
        }
        for other in [
            "返回列表中元素的数量",
            "Возвращает количество элементов",
            "Devuelve el número de elementos de la lista que cumplen una condición dada",
            "Gibt die Anzahl der Elemente in der Liste zurück und prüft die Bedingung",
            "Renvoie le nombre d'éléments de la liste qui satisfont la condition donnée",
            "リストの要素数を返す",
            "Retorna o número de elementos na lista que satisfazem a condição informada",
        ] {
            assert!(!is_english(other), "{other}");
        }
    }
}
