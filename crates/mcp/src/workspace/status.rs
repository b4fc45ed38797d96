//! The state of the index, as text and as JSON.

use std::collections::BTreeMap;

use quarry_index::{Index, Status};
use quarry_session::settings::Settings;
use quarry_session::text::{quoted, quoted_start};
use quarry_text::counted;
use quarry_walk::count_by_reason;
use serde_json::json;

use super::{NamedTree, ToolAnswer, Workspace, lock};
use crate::ToolError;

impl Workspace {
    pub(super) fn index_status(&self) -> Result<ToolAnswer, ToolError> {
        let note = self.note(0);
        if self.trees.len() == 1 {
            let mut answer = self.status_of(0)?;
            answer.text += &note;
            return Ok(answer);
        }
        let status = |(number, tree): (usize, &NamedTree)| {
            let name = quoted_start(&tree.name);
            let status = self.status_of(number);
            let text = status.map_or_else(|error| format!("{}\n", error.report()), |status| status.text);
            format!("Tree {name}, whose paths begin with {name}/:\n{text}")
        };
        let all: String = self.trees.iter().enumerate().map(status).collect();
        Ok((all + &note).into())
    }

    fn status_of(&self, tree: usize) -> Result<ToolAnswer, ToolError> {
        // Not asked of a session that is opening its index.
        let unsaved = lock(&self.unsaved).clone();
        let opened = self.session.opened();
        if let (Some(reason), Some(snapshot), [_]) = (unsaved, &opened, self.trees.as_slice()) {
            return Ok(self.status_in_memory(&snapshot.tree().index, &reason));
        }
        let path = &self.trees[tree].root;
        let Status { root, part, index, stale, .. } = Index::status(path, &self.options(tree))?;
        let opened = opened.and_then(|snapshot| Some(snapshot.tree().index.model()?.0.to_owned()));
        let settings = Settings::load(path).unwrap_or_else(|_| Settings::defaults());
        let model = match opened {
            Some(model) => model,
            None => self.choice.load_model(std::slice::from_ref(path), &[settings])?.id().to_owned(),
        };
        let root = root.to_string_lossy().into_owned();
        let reason = stale.map(|reason| reason.to_string());
        let Some(index) = index else {
            let reason = reason.unwrap_or_default();
            let text = format!(
                "{}: {reason}; the first search builds an index, which may take a while\n",
                quoted(&root)
            );
            let structured = json!({ "root": root, "indexed": false, "fresh": false, "reason": reason });
            return Ok(ToolAnswer { text, structured: Some(structured) });
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
        let precomputed = index.precomputed.values().max().copied().unwrap_or_default();
        let vectors = match precomputed {
            0 => "none".to_owned(),
            n => format!("{n} of {}", counted(index.units, "unit")),
        };
        let text = format!(
            "{}: {} in {}, {state}\n{searched}model: {}\nvectors for re-ranking: {vectors}\nunits by language: {}\nfiles left out: {}\n",
            quoted(&root),
            counted(index.units, "unit"),
            counted(index.files, "file"),
            model,
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
            "model": model,
            "precomputed": precomputed,
            "units_by_language": index.units_by_language,
            "left_out": left_out,
        });
        Ok(ToolAnswer { text, structured: Some(structured) })
    }

    fn status_in_memory(&self, index: &Index, reason: &str) -> ToolAnswer {
        let root = &self.trees[0].root;
        let root = root.canonicalize().unwrap_or_else(|_| root.clone());
        let root = root.to_string_lossy();
        let (units, files) = (counted(index.n_units(), "unit"), counted(index.n_files(), "file"));
        let model = index.model().map_or("none", |(id, _)| id);
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
        ToolAnswer { text, structured: Some(structured) }
    }
}

fn counts(counts: &BTreeMap<String, usize>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}
