//! The documents that an editor has open, as they stand there.

use std::collections::HashMap;
use std::path::PathBuf;

use lsp_types::TextDocumentContentChangeEvent;

use crate::lines::byte_of;
use crate::locations::path_of;

/// The open documents that are files, by their URIs.
#[derive(Default)]
pub(crate) struct Documents {
    open: HashMap<String, Document>,
    /// Counts changes.
    version: u64,
}

struct Document {
    /// Absolute, with links resolved.
    path: PathBuf,
    text: String,
}

impl Documents {
    pub(crate) fn open(&mut self, uri: String, text: String) {
        if let Some(path) = path_of(&uri) {
            self.open.insert(uri, Document { path, text });
            self.version += 1;
        }
    }

    pub(crate) fn close(&mut self, uri: &str) {
        if self.open.remove(uri).is_some() {
            self.version += 1;
        }
    }

    /// A document was changed, one change after the other. One that is not open is left alone.
    pub(crate) fn change(&mut self, uri: &str, changes: Vec<TextDocumentContentChangeEvent>) {
        let Some(Document { text, .. }) = self.open.get_mut(uri) else { return };
        for TextDocumentContentChangeEvent { range, text: new, .. } in changes {
            match range {
                Some(range) => {
                    let (start, end) = (byte_of(text, range.start), byte_of(text, range.end));
                    text.replace_range(start.min(end)..start.max(end), &new);
                }
                None => *text = new,
            }
        }
        self.version += 1;
    }

    /// Number of changes so far.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// All texts, with their paths.
    pub(crate) fn all(&self) -> Vec<(PathBuf, String)> {
        self.open.values().map(|document| (document.path.clone(), document.text.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use lsp_types::{Position, Range};

    use super::*;

    #[test]
    fn changes_follow_each_other_and_stay_within_the_text() {
        let uri = "file:///none/a.py";
        let all = |text: &str| [(PathBuf::from("/none/a.py"), text.to_owned())];
        let mut documents = Documents::default();
        documents.open(uri.to_owned(), "one\ntwo\n".to_owned());
        let change = |(line, from): (u32, u32), (to_line, to): (u32, u32), text: &str| {
            let position = |line, character| Position { line, character };
            let range = Some(Range { start: position(line, from), end: position(to_line, to) });
            TextDocumentContentChangeEvent { range, range_length: None, text: text.to_owned() }
        };
        documents.change(uri, vec![change((0, 3), (1, 0), " "), change((0, 0), (0, 3), "1")]);
        assert_eq!(documents.all(), all("1 two\n"));
        documents.change(uri, vec![change((9, 9), (0, 1), "!")]);
        assert_eq!(documents.all(), all("1!"));
        let whole = TextDocumentContentChangeEvent { range: None, range_length: None, text: "x".to_owned() };
        documents.change(uri, vec![whole.clone()]);
        assert_eq!(documents.all(), all("x"));
        documents.change("file:///none/b.py", vec![whole]);
        documents.open("untitled:Untitled-1".to_owned(), "x".to_owned());
        assert_eq!(documents.all(), all("x"));
        documents.close(uri);
        assert!(documents.all().is_empty());
    }
}
