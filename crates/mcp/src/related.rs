//! Places that may have to change with others, as text.

use quarry_related::{CommitView, Place, Reason, Related};
use quarry_session::text::{BudgetedText, numbered, position, quoted, quoted_start};
use quarry_text::{counted, printable};

use crate::workspace::{prefixed, shown_path};

/// Maximum number of targets listed.
const N_TARGETS: usize = 5;

/// The places that may have to change, and commits if requested.
pub(crate) fn related_text(found: &Related, prefixes: &[String], max_tokens: usize) -> String {
    if found.targets.is_empty() {
        return format!("Nothing in the tree defines {}.\n", quoted_start(&found.query));
    }
    let target = |target: &quarry_session::DefinitionView| {
        let position = format!("{}:{}", quoted(&target.path), target.start_line);
        if target.name.is_empty() { position } else { format!("{} {position}", quoted(&target.name)) }
    };
    let targets: Vec<String> = found.targets.iter().take(N_TARGETS).map(target).collect();
    let more = if found.targets.len() > targets.len() { ", …" } else { "" };
    let (targets, histories) = (targets.join(", ") + more, printable(&found.histories()).into_owned());
    if found.is_empty() {
        return format!("Nothing related to {targets} found; {histories}.\n");
    }
    let mut text = BudgetedText::new(&format!("Related to {targets} ({histories}):\n"), max_tokens);
    let commits = found.commits.as_deref().unwrap_or_default();
    let pieces = found.results.iter().map(|place| place_text(place, prefixes));
    let pieces = pieces.chain(commits.iter().map(commit_text));
    let n_shown = pieces.take_while(|piece| text.push(piece)).count();
    text.finish(&match found.results.len() + commits.len() - n_shown {
        0 => String::new(),
        n => format!("{n} more; raise max_tokens to see them.\n"),
    })
}

fn place_text(place: &Place, prefixes: &[String]) -> String {
    let (hit, percent) = (prefixed(&place.hit, prefixes), place.probability * 100.0);
    let reason = |reason: &Reason| reason_text(reason, place.hit.root, prefixes);
    let reasons: String = place.reasons.iter().map(reason).collect();
    format!("{}. {}, {percent:.0} %\n{reasons}", place.rank, position(&hit))
}

fn reason_text(reason: &Reason, root: usize, prefixes: &[String]) -> String {
    let mut text = format!("   {}: {}", reason.kind, printable(&reason.evidence));
    let subjects: Vec<String> = reason
        .commits
        .iter()
        .map(|commit| format!("{} {}", &commit.id[..10], quoted_start(&commit.subject)))
        .collect();
    if !subjects.is_empty() {
        text += &format!(": {}", subjects.join("; "));
    }
    if let Some(line) = &reason.line {
        let path = shown_path(root, &line.path, prefixes);
        text +=
            &format!(" ({}:{})\n{}", quoted(&path), line.line, numbered(line.line, &line.text).trim_end());
    }
    text + "\n"
}

fn commit_text(commit: &CommitView) -> String {
    let files = counted(commit.files as usize, "file");
    format!("{} {}, {files}\n", &commit.id[..10], quoted_start(&commit.subject))
}
