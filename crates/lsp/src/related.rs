//! Prediction of related changes: a command, and lenses above definitions.
//!
//! Answers reflect saved files, because the relations stored on disk must not contain unsaved text.

use lsp_types::{CodeLens, Command, Position, Range};
use quarry_index::rules;
use quarry_related::{Kind, Question, Related, RelatedError, Subject};
use quarry_text::with_causes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::limit;
use crate::error::RequestError;
use crate::folders::Searchable;
use crate::navigation::Document;

/// Default number of places listed.
const DEFAULT_LIMIT: usize = 20;

/// Maximum number of tests that a lens counts.
const MAX_TESTS: usize = 50;

/// The command that lists the places counted by a lens.
pub(crate) const COMMAND: &str = "quarry.related";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    uri: Option<String>,
    line: Option<u32>,
    name: Option<String>,
    #[serde(default)]
    kinds: Vec<Kind>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lenses {
    text_document: Document,
}

/// A lens previously sent to the client.
#[derive(Debug, Deserialize)]
pub(crate) struct Lens {
    range: Range,
    data: LensData,
}

#[derive(Debug, Deserialize)]
struct LensData {
    uri: String,
    line: u32,
}

impl Searchable {
    pub(crate) fn related(&self, asked: &Asked) -> Result<Related, RequestError> {
        let subject = match asked {
            Asked { name: Some(name), uri: None, line: None, .. } if !name.trim().is_empty() => {
                Subject::Name(name.clone())
            }
            Asked { name: None, uri: Some(uri), line, .. } => {
                let (root, path) = self.place(uri)?;
                match line {
                    Some(line) => Subject::Line(root, path, line.saturating_add(1)),
                    None => Subject::File(root, path),
                }
            }
            _ => {
                let expected = "expected `uri`, `uri` and `line`, or `name`";
                return Err(RequestError::Parameters(expected.to_owned()));
            }
        };
        self.related_to(&subject, &asked.kinds, limit(asked.limit, DEFAULT_LIMIT)?)
    }

    fn related_to(&self, subject: &Subject, kinds: &[Kind], limit: usize) -> Result<Related, RequestError> {
        let question = Question { subject, kinds, limit, open_time: self.open_time };
        self.related.get(&self.saved).answer(&self.saved, &question).map_err(|error| match error {
            RelatedError::Index(error) => error.into(),
            error => RequestError::Failed(with_causes(&error)),
        })
    }

    /// A lens above each definition of a document, without the numbers.
    pub(crate) fn lenses(&self, asked: &Lenses) -> Result<Vec<CodeLens>, RequestError> {
        let (root, path) = self.place(&asked.text_document.uri)?;
        let Some(file) = self.saved.index.file(root, &path) else { return Ok(Vec::new()) };
        let definitions =
            file.hits().filter(|hit| rules::is_definition(hit.kind) && !hit.signature.is_empty());
        let lens = |line: u32| {
            let start = Position { line: line - 1, character: 0 };
            let data = json!({ "uri": asked.text_document.uri, "line": line - 1 });
            CodeLens { range: Range { start, end: start }, command: None, data: Some(data) }
        };
        Ok(definitions.map(|hit| lens(hit.start_line)).collect())
    }

    /// A lens with its numbers: `3 tests · changes with parse.rs`.
    pub(crate) fn lens(&self, asked: &Lens) -> Result<CodeLens, RequestError> {
        let LensData { uri, line } = &asked.data;
        let (root, path) = self.place(uri)?;
        let subject = Subject::Line(root, path.clone(), line.saturating_add(1));
        let tests = match self.related_to(&subject, &[Kind::Test], MAX_TESTS)?.results.len() {
            0 => "no tests found".to_owned(),
            MAX_TESTS => format!("{MAX_TESTS} tests or more"),
            n => quarry_text::counted(n, "test"),
        };
        let changes = self.related_to(&subject, &[Kind::Change], MAX_TESTS)?.results;
        let other = changes.iter().find(|place| !place.test && place.hit.path != path).map(|place| {
            let file = place.hit.path.rsplit('/').next().unwrap_or_default();
            format!(" · changes with {file}")
        });
        let data = json!({ "uri": uri, "line": line });
        let arguments: Option<Vec<Value>> = Some(vec![data.clone()]);
        let title = tests + &other.unwrap_or_default();
        let command = Command { title, command: COMMAND.to_owned(), arguments };
        Ok(CodeLens { range: asked.range, command: Some(command), data: Some(data) })
    }
}
