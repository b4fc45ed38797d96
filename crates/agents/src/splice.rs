//! The change of a text by one edit.

use serde::{Deserialize, Serialize};

/// A part of a text that was replaced by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Splice {
    /// Where, in bytes.
    pub(crate) offset: usize,
    /// The previous text; usually empty.
    pub(crate) removed: String,
    pub(crate) inserted: String,
}

impl Splice {
    /// The shortest part in which two texts differ.
    pub(crate) fn between(before: &str, after: &str) -> Self {
        let common = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
        let offset = before.floor_char_boundary(common);
        let (before, after) = (&before[offset..], &after[offset..]);
        let common = before.bytes().rev().zip(after.bytes().rev()).take_while(|(a, b)| a == b).count();
        // The bytes at both ends are the same, so that a boundary of one text is one of the other.
        let kept = before.len() - before.ceil_char_boundary(before.len() - common);
        Self {
            offset,
            removed: before[..before.len() - kept].to_owned(),
            inserted: after[..after.len() - kept].to_owned(),
        }
    }

    /// The text before, if this is the text after.
    pub(crate) fn undo(&self, after: &str) -> Option<String> {
        let rest = after.get(self.offset..)?.strip_prefix(&self.inserted)?;
        Some(format!("{}{}{rest}", &after[..self.offset], self.removed))
    }

    /// The text without the insertion, if it occurs exactly once.
    pub(crate) fn undo_once(&self, text: &str) -> Option<String> {
        let mut found = text.match_indices(&self.inserted);
        let (at, _) = found.next().filter(|_| !self.inserted.is_empty())?;
        let is_only = found.next().is_none();
        is_only.then(|| format!("{}{}{}", &text[..at], self.removed, &text[at + self.inserted.len()..]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_difference_is_as_short_as_can_be_and_ends_at_characters() {
        let splice = Splice::between("{\"a\": 1}", "{\"a\": 1, \"b\": 2}");
        assert_eq!((splice.offset, splice.removed.as_str(), splice.inserted.as_str()), (7, "", ", \"b\": 2"));
        let splice = Splice::between("ä", "ö");
        assert_eq!((splice.removed.as_str(), splice.inserted.as_str()), ("ä", "ö"));
        assert_eq!(Splice::between("x", "x").inserted, "");
    }

    #[test]
    fn repeated_text_is_not_removed() {
        let splice = Splice::between("a", "ab");
        assert_eq!(splice.undo_once("xbx").as_deref(), Some("xx"));
        assert_eq!(splice.undo_once("xbxb"), None);
        assert_eq!(splice.undo_once("x"), None);
        assert_eq!(splice.undo("ac"), None);
    }

    proptest! {
        #[test]
        fn undo_restores_the_text(before in "[abä\n]{0,12}", after in "[abä\n]{0,12}") {
            let splice = Splice::between(&before, &after);
            prop_assert_eq!(splice.undo(&after), Some(before));
        }
    }
}
