//! The calls and imports of a file as they are stored in the index.
//!
//! A request for calls reads the text of the file anyway, so a call is mostly stored as positions in it, which takes
//! four to six bytes. Only names that are written differently in the text, such as a receiver on several lines, are
//! stored as text, without the prefix that they share with the previous one.

use quarry_source::{
    Call, Diagnostic, Import, ImportedName, Language, References, SourceText, language_named,
};

/// Storage of the receiver of a call: none, as the bytes before the call, or as text.
const RECEIVERS: u8 = 0b11;
const NO_RECEIVER: u8 = 0;
const RECEIVER_BEFORE: u8 = 1;
const RECEIVER_WRITTEN: u8 = 2;
/// Set if the name of the callee is stored as text.
const IS_WRITTEN: u8 = 0b100;
/// Set if a call is in another language than the previous one.
const HAS_LANGUAGE: u8 = 0b1000;
/// The upper bits: number of bytes between a receiver and its call.
const GAP_SHIFT: u32 = 4;
const MAX_GAP: usize = 15;

/// The bytes to store for a file in `language` with some text.
pub(crate) fn stored(references: &References, language: Language, text: &[u8]) -> Vec<u8> {
    let References { calls, imports, missing } = references;
    let mut writer = Writer::default();
    if calls.is_empty() && imports.is_empty() && missing.is_none() {
        return writer.bytes;
    }
    writer.number(missing.as_ref().map_or(0, |missing| missing.line as usize));
    if let Some(missing) = missing {
        writer.text(&missing.message);
    }
    writer.number(imports.len());
    for Import { module, alias, names, line } in imports {
        writer.text(module);
        writer.alias(alias.as_ref());
        writer.number(*line as usize);
        writer.number(names.len());
        for ImportedName { name, alias } in names {
            writer.text(name);
            writer.alias(alias.as_ref());
        }
    }
    let mut languages = vec![language];
    for call in calls {
        if !languages.contains(&call.language) {
            languages.push(call.language);
        }
    }
    writer.number(languages.len() - 1);
    languages[1..].iter().for_each(|language| writer.text(language.name()));
    let (mut at, mut spoken, mut written) = (0, language, "");
    for call in calls {
        let before = text.get(..call.byte).unwrap_or_default();
        let gap = call.receiver.as_ref().and_then(|receiver| {
            let limit = MAX_GAP.min(before.len());
            (0..=limit).find(|gap| before[..before.len() - gap].ends_with(receiver.as_bytes()))
        });
        let is_written = !text.get(call.byte..).unwrap_or_default().starts_with(call.callee.as_bytes());
        let receiver = match (&call.receiver, gap) {
            (None, _) => NO_RECEIVER,
            (Some(_), Some(gap)) => RECEIVER_BEFORE | (gap as u8) << GAP_SHIFT,
            (Some(_), None) => RECEIVER_WRITTEN,
        };
        let has_language = call.language != spoken;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        writer.bytes.push(receiver | flag(is_written, IS_WRITTEN) | flag(has_language, HAS_LANGUAGE));
        writer.number(call.byte - at);
        if has_language {
            let number = languages.iter().position(|language| *language == call.language);
            writer.number(number.unwrap_or_default());
        }
        if is_written {
            writer.text(&call.callee);
        } else {
            writer.number(call.callee.len());
        }
        match (&call.receiver, gap) {
            (None, _) => {}
            (Some(receiver), Some(_)) => writer.number(receiver.len()),
            (Some(receiver), None) => {
                let is_same = |(a, b): &(u8, u8)| a == b;
                let common = receiver.bytes().zip(written.bytes()).take_while(is_same).count();
                let common = receiver.floor_char_boundary(common);
                writer.number(common);
                writer.text(&receiver[common..]);
                written = receiver;
            }
        }
        (at, spoken) = (call.byte, call.language);
    }
    writer.bytes
}

/// The content that [`stored`] wrote.
pub(super) struct StoredReferences<'a> {
    missing: Option<Diagnostic>,
    pub imports: Vec<Import>,
    /// The language of the file, and others that its calls are in.
    languages: Vec<Language>,
    calls: Reader<'a>,
}

impl<'a> StoredReferences<'a> {
    /// Reads the stored bytes of a file in a language; `None` if they are damaged.
    pub fn read(stored: &'a [u8], language: Language) -> Option<Self> {
        let mut reader = Reader(stored);
        if stored.is_empty() {
            let (missing, imports) = (None, Vec::new());
            return Some(Self { missing, imports, languages: vec![language], calls: reader });
        }
        let missing = match u32::try_from(reader.number()?).ok()? {
            0 => None,
            line => Some(Diagnostic { line, message: reader.text()?.to_owned() }),
        };
        let mut imports = Vec::new();
        for _ in 0..reader.number()? {
            let module = reader.text()?.to_owned();
            let (alias, line) = (reader.alias()?, u32::try_from(reader.number()?).ok()?);
            let mut names = Vec::new();
            for _ in 0..reader.number()? {
                names.push(ImportedName { name: reader.text()?.to_owned(), alias: reader.alias()? });
            }
            imports.push(Import { module, alias, names, line });
        }
        let mut languages = vec![language];
        for _ in 0..reader.number()? {
            languages.push(language_named(reader.text()?)?);
        }
        Some(Self { missing, imports, languages, calls: reader })
    }

    /// Everything except calls whose callee and byte offset are not `is_wanted`; `None` if it is damaged, or belongs
    /// to another text.
    pub fn with_calls(
        self,
        text: &SourceText,
        is_wanted: impl Fn(&str, usize) -> bool,
    ) -> Option<References> {
        let Self { missing, imports, languages, calls: mut reader } = self;
        let bytes = text.bytes();
        let mut calls = Vec::new();
        let (mut byte, mut language) = (0, *languages.first()?);
        let mut written = String::new();
        // Lines are counted only as far as calls are wanted.
        let (mut row, mut counted) = (0, 0);
        while let Some(head) = reader.byte() {
            byte += reader.number()?;
            if head & HAS_LANGUAGE != 0 {
                language = *languages.get(reader.number()?)?;
            }
            let callee = match head & IS_WRITTEN {
                0 => str::from_utf8(bytes.get(byte..)?.get(..reader.number()?)?).ok()?,
                _ => reader.text()?,
            };
            let before = match head & RECEIVERS {
                RECEIVER_BEFORE => {
                    let end = byte.checked_sub(usize::from(head >> GAP_SHIFT))?;
                    Some(bytes.get(end.checked_sub(reader.number()?)?..end)?)
                }
                RECEIVER_WRITTEN => {
                    written.truncate(reader.number()?);
                    written.push_str(reader.text()?);
                    Some(written.as_bytes())
                }
                _ => None,
            };
            if !is_wanted(callee, byte) {
                continue;
            }
            let receiver = match before {
                Some(before) => Some(str::from_utf8(before).ok()?.to_owned()),
                None => None,
            };
            row += memchr::memchr_iter(b'\n', bytes.get(counted..byte)?).count();
            counted = byte;
            let (callee, line) = (callee.to_owned(), text.line_number(row));
            calls.push(Call { callee, receiver, language, byte, line, unit: None });
        }
        Some(References { calls, imports, missing })
    }
}

/// Appends numbers, seven bits in a byte, and texts after their lengths.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn alias(&mut self, alias: Option<&String>) {
        self.bytes.push(alias.is_some().into());
        if let Some(alias) = alias {
            self.text(alias);
        }
    }
}

/// Reads what a [`Writer`] wrote; `None` at the end and if it is damaged.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        str::from_utf8(text).ok()
    }

    /// An optional alias; `None` if it is damaged.
    #[allow(clippy::option_option, reason = "the outer one is that of all that is read")]
    fn alias(&mut self) -> Option<Option<String>> {
        match self.byte()? {
            0 => Some(None),
            _ => Some(Some(self.text()?.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use quarry_source::language_for;
    use quarry_test_support::files::paths_below;

    use super::*;
    use crate::calls::tests::fixtures;

    fn read_back(stored: &[u8], language: Language, text: &SourceText) -> Option<References> {
        StoredReferences::read(stored, language)?.with_calls(text, |_, _| true)
    }

    /// Checks that everything reads back unchanged, and returns the number of calls and of stored bytes.
    fn check(path: &Path, content: &[u8]) -> Option<(usize, usize)> {
        let text = SourceText::read(path, content.to_vec()).ok()?;
        let language = language_for(path, text.bytes())?;
        let (_, references) = text.extract_with_references(language);
        let bytes = stored(&references, language, text.bytes());
        assert_eq!(read_back(&bytes, language, &text), Some(references.clone()), "{}", path.display());
        for end in 0..bytes.len() {
            // Truncated input does not panic.
            let _ = read_back(&bytes[..end], language, &text);
        }
        let _ = read_back(&bytes, language, &SourceText::read(path, Vec::new()).ok()?);
        Some((references.calls.len(), bytes.len()))
    }

    #[test]
    fn stored_calls_are_read_back() {
        let mut n_calls = 0;
        for path in fixtures().iter().flat_map(|directory| paths_below(directory)) {
            let content = fs::read(&path).unwrap();
            n_calls += check(&path, &content).map_or(0, |(calls, _)| calls);
        }
        assert!(n_calls > 300, "{n_calls}");
    }

    #[test]
    fn odd_texts_are_read_back() {
        for (path, content) in [
            ("a.py", &b"x\xff.f(\xff.g(), y\xc3\xa9.h())\n"[..]),
            ("a.js", b"a\n  .b(1)\n  .c(2)\n  .d\n  /* far away from it, further */ .e()\n"),
            (
                "a.js",
                b"\xef\xbb\xbff()\nimport * as b from 'c'; import d, { e as g } from \"h\"; b['f'](); g()\n",
            ),
            ("a.py", b"f()\r\ng()\r\nfrom .. import a as b, c\n"),
            ("a.html", b"<p>\n<script>\nf(a.b())\n</script>\n<script lang=ts>g<A>()</script>\n"),
            ("a.md", b"> ```js\n> a\n>   .f()\n> ```\n```python\ng()\n```\n"),
            ("a.txt", b"f()"),
            ("a.rs", b""),
        ] {
            check(path.as_ref(), content).unwrap();
        }
        let chain = format!("x{}", "\n  .f()".repeat(1_000));
        let (n_calls, n_bytes) = check("a.js".as_ref(), chain.as_bytes()).unwrap();
        assert_eq!(n_calls, 1_000);
        assert!(n_bytes < 20 * n_calls, "{n_bytes}");
    }
}
