//! Reasons for the rank of a result, in sentences.

use quarry_index::question::QuestionKind;
use quarry_index::{Hit, snippet};
use quarry_source::SourceText;
use quarry_walk::FileFlags;

use crate::Tree;

/// Maximum number of words listed in a sentence.
const MAX_WORDS: usize = 8;

/// Minimum cosine that is mentioned.
const MIN_COSINE: f32 = 0.2;

/// Minimum probability at which a query is said to be answered by a file, or by a function.
const MIN_PROBABILITY: f32 = 0.7;

/// Sentences about how a query was interpreted, which of its words occur where in a result, and what ranked that up
/// and down.
pub(crate) fn reasons(tree: &Tree, hit: &Hit, query: &str, terms: &[String]) -> Vec<String> {
    let parts = &hit.parts;
    let mut reasons = vec![reading(query, hit)];
    let source = source(tree, hit);
    let (declared, rest) = split(&source, &hit.signature);
    let (mut found, mut missing): (Vec<(String, &str)>, Vec<String>) = (Vec::new(), Vec::new());
    for (term, word) in words(query, terms) {
        let has = |text: &str| !snippet::matches(text, std::slice::from_ref(term)).is_empty();
        let places =
            [("name", hit.name.as_str()), ("declaration", declared.as_str()), ("path", hit.path.as_str())];
        let place = places.into_iter().find(|(_, text)| has(text)).map(|(place, _)| place);
        match place.or_else(|| has(&rest).then_some("text")) {
            Some(place) => found.push((word, place)),
            None => missing.push(word),
        }
    }
    for place in ["name", "declaration", "path", "text"] {
        let here = found.iter().filter(|(_, found)| *found == place).map(|(word, _)| word.as_str());
        let here: Vec<&str> = here.take(MAX_WORDS).collect();
        if !here.is_empty() {
            reasons.push(format!("{} in its {place}", listed(&here)));
        }
    }
    if !missing.is_empty() && !found.is_empty() {
        let missing: Vec<&str> = missing.iter().map(String::as_str).take(MAX_WORDS).collect();
        reasons.push(format!("not in it: {}", listed(&missing)));
    }
    if parts.message > 0.0 {
        reasons.push("up: it prints the text of the query".to_owned());
    }
    if parts.defines {
        let how = if parts.exactness < 1.0 { ", spelled a little differently" } else { "" };
        reasons.push(format!("up: it defines a name of the query{how}"));
    } else if parts.name > 0.5 {
        reasons.push("up: its name matches the query".to_owned());
    }
    if parts.path > 0.5 {
        reasons.push("up: its path matches the query".to_owned());
    }
    if parts.dense >= MIN_COSINE {
        let how = if parts.dense >= 0.5 { "close" } else { "related" };
        reasons
            .push(format!("up: its meaning is {how} to that of the query (similarity {:.2})", parts.dense));
    }
    if parts.demotion > 0.0 && parts.demotion < 1.0 {
        reasons.push(format!("down: {}", demoted(tree, hit)));
    }
    if parts.repetition > 0.0 && parts.repetition < 1.0 {
        reasons.push("down: better results of the same file, or nearly the same code, come first".to_owned());
    }
    reasons
}

/// Sentence about how the query was interpreted.
fn reading(query: &str, hit: &Hit) -> String {
    let kind = match QuestionKind::classify(query) {
        QuestionKind::Name => "a name",
        QuestionKind::Error => "the message of an error",
        QuestionKind::Long => "a long text",
        QuestionKind::Description => "a question about behavior",
    };
    let parts = &hit.parts;
    let is_mixed = parts.file_share > 0.0 || parts.function_share > 0.0;
    let wanted = match parts.file_probability {
        _ if !is_mixed => "",
        share if share >= MIN_PROBABILITY => ", which a file answers",
        share if share <= 1.0 - MIN_PROBABILITY => ", which a function answers",
        _ => ", which a file or a function answers",
    };
    format!("the query is read as {kind}{wanted}")
}

/// The words of the query that have terms, each with its term.
fn words<'a>(query: &str, terms: &'a [String]) -> impl Iterator<Item = (&'a String, String)> {
    let query = query.to_owned();
    terms.iter().map(move |term| {
        let word = snippet::matches(&query, std::slice::from_ref(term)).into_iter().next();
        let word = word.and_then(|range| query.get(range)).unwrap_or(term);
        (term, format!("“{word}”"))
    })
}

fn demoted(tree: &Tree, hit: &Hit) -> String {
    let flags = tree.index.flags_of(hit);
    let kinds = [
        (FileFlags::TEST, "test code"),
        (FileFlags::EXAMPLE, "an example"),
        (FileFlags::GENERATED, "generated code"),
        (FileFlags::VENDORED, "a copy of third-party code"),
        (FileFlags::DOCUMENTATION, "documentation"),
        (FileFlags::TYPE_STUB, "a type stub"),
        (FileFlags::REEXPORT, "only a re-export"),
    ];
    let kinds = kinds.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, kind)| kind);
    match kinds.collect::<Vec<_>>().as_slice() {
        [] => "its kind of code is seldom what is asked for, such as what is private".to_owned(),
        kinds => format!("it is {}", kinds.join(" and ")),
    }
}

fn source(tree: &Tree, hit: &Hit) -> String {
    let file = tree.text(hit);
    let Some(file) = file.as_ref().as_ref() else { return String::new() };
    let lines = tree.index.lines(hit, file);
    let content = SourceText::to_str(file);
    content.split_inclusive('\n').skip(lines.start).take(lines.len()).collect()
}

/// The declaration, and the rest of a source.
fn split(source: &str, signature: &str) -> (String, String) {
    let declared = snippet::declaration_lines(source, signature);
    let (inside, outside): (Vec<_>, Vec<_>) =
        source.lines().enumerate().partition(|(at, _)| declared.contains(at));
    let text =
        |lines: Vec<(usize, &str)>| lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    (text(inside), text(outside))
}

fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed() {
        assert_eq!(
            ["", "a", "a and b", "a, b and c"],
            [listed(&[]), listed(&["a"]), listed(&["a", "b"]), listed(&["a", "b", "c"])]
        );
    }
}
