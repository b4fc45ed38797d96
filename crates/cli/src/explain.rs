//! `--explain`: a score as a tree of its parts.

use std::fmt::Write as _;

use quarry_index::ScoreParts;
use serde_json::Value;

/// What the parts of a score mean, and which part of it they are themselves parts of.
const MEANINGS: &[(&str, &str, &str)] = &[
    ("words", "", "words and meaning of the unit and its file, over the best unit's"),
    ("lexical", "words", "BM25F: the query's words in the unit"),
    ("coverage", "words", "share of the query that these words can show at most"),
    ("dense", "words", "cosine of the unit's and the query's meaning"),
    ("place", "", "the query's words in the names of file and folder"),
    ("name", "", "the query's words in the unit's name"),
    ("defines", "", "whether the unit defines a symbol of the query"),
    ("demotion", "", "factor for tests, examples, generated code and the like"),
];

/// A line for each part. A part that has no meaning here is shown with its name alone.
pub fn tree(score: f32, parts: &ScoreParts) -> String {
    let parts = match serde_json::to_value(parts) {
        Ok(Value::Object(parts)) => parts,
        _ => return String::new(),
    };
    let meaning = |name: &str| MEANINGS.iter().find(|(known, ..)| *known == name);
    let parent = |name: &str| meaning(name).map_or("", |(_, parent, _)| parent);
    let below = |of: &str| parts.keys().filter(|name| parent(name) == of).collect::<Vec<_>>();
    let mut text = format!("    score {score:.3}\n");
    let top = below("");
    for (position, name) in top.iter().enumerate() {
        let is_last = position + 1 == top.len();
        let mut line = |before: &str, name: &str| {
            let value = match &parts[name] {
                Value::Number(number) => format!("{:.3}", number.as_f64().unwrap_or_default()),
                other => other.to_string(),
            };
            let meaning = meaning(name).map_or("", |(.., meaning)| meaning);
            let _ = writeln!(text, "    {}", format!("{before} {name} {value}  {meaning}").trim_end());
        };
        line(if is_last { "└─" } else { "├─" }, name);
        let inner = below(name);
        for (position, name) in inner.iter().enumerate() {
            let branch = if position + 1 == inner.len() { "└─" } else { "├─" };
            line(&format!("{}  {branch}", if is_last { " " } else { "│" }), name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_below_what_they_are_parts_of() {
        let parts = ScoreParts { words: 0.5, dense: 0.25, ..ScoreParts::default() };
        let text = tree(1.5, &parts);
        assert!(text.starts_with("    score 1.500\n"), "{text}");
        let words = text.lines().position(|line| line.contains("─ words 0.500")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[words + 1].contains("   ├─") && text.contains("─ dense 0.250"), "{text}");
        assert!(text.contains("└─") && text.contains("defines false"), "{text}");
    }
}
