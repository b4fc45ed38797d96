//! What is indexed of a tree, as text and as JSON.

use std::collections::BTreeMap;

use quarry_answer::text::quoted;
use quarry_index::{Index, Status};
use quarry_text::counted;
use quarry_walk::count_by_reason;
use serde_json::json;

use super::{InMemory, ToolAnswer, Workspace};
use crate::ToolError;

impl Workspace {
    pub(super) fn index_status(&self) -> Result<ToolAnswer, ToolError> {
        if let Some(InMemory { index, reason }) = &*self.in_memory() {
            return Ok(self.status_in_memory(index, reason));
        }
        let Status { root, part, index, stale, .. } = Index::status(&self.root, &self.options)?;
        let root = root.to_string_lossy().into_owned();
        let reason = stale.map(|reason| reason.to_string());
        let Some(index) = index else {
            let reason = reason.unwrap_or_default();
            let text = format!(
                "{}: {reason}; the first search builds an index, which may take a while\n",
                quoted(&root)
            );
            let structured = json!({ "root": root, "indexed": false, "fresh": false, "reason": reason });
            return Ok(ToolAnswer { text, structured: Some(structured), confidence: 1.0 });
        };
        let left_out = count_by_reason(&index.skipped);
        let searched = if part.is_empty() {
            String::new()
        } else {
            format!("searched: {} of it in {part}\n", counted(index.files_in_part, "file"))
        };
        let state = match &reason {
            None => "up to date".to_owned(),
            Some(reason) => format!("not up to date ({reason}); the next search updates it"),
        };
        let text = format!(
            "{}: {} in {}, {state}\n{searched}model: {}\nunits by language: {}\nfiles left out: {}\n",
            quoted(&root),
            counted(index.units, "unit"),
            counted(index.files, "file"),
            self.embedder.id(),
            counts(&index.units_by_language),
            counts(&left_out),
        );
        let structured = json!({
            "root": root,
            "indexed": true,
            "searched": part,
            "fresh": reason.is_none(),
            "reason": reason,
            "files": index.files,
            "units": index.units,
            "model": self.embedder.id(),
            "units_by_language": index.units_by_language,
            "left_out": left_out,
        });
        Ok(ToolAnswer { text, structured: Some(structured), confidence: 1.0 })
    }

    fn status_in_memory(&self, index: &Index, reason: &str) -> ToolAnswer {
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let root = root.to_string_lossy();
        let (units, files) = (counted(index.n_units(), "unit"), counted(index.n_files(), "file"));
        let model = self.embedder.id();
        let text = format!(
            "{}: {units} in {files}, held in memory while this server runs: {reason}\nmodel: {model}\n",
            quoted(&root)
        );
        let structured = json!({
            "root": root,
            "indexed": true,
            "in_memory": reason,
            "files": index.n_files(),
            "units": index.n_units(),
            "model": model,
        });
        ToolAnswer { text, structured: Some(structured), confidence: 1.0 }
    }
}

fn counts(counts: &BTreeMap<String, usize>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}
