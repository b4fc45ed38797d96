//! Questions that are drawn from a tree: names that it defines, some of them in another case or misspelled, and messages of
//! its errors.
//!
//! They are other people's text, so they are drawn when they are needed and stored nowhere. Equal trees give equal draws.

use std::collections::BTreeMap;

use quarry_corpus::formats::repo_search::{RepositoryQuery, Target};
use quarry_index::rules::is_definition;
use quarry_index::{Filter, Index};
use quarry_text::{folded, parts};
use quarry_walk::FileFlags;

use crate::EvalError;

/// Number of names, and of messages, that are drawn from a tree: together about as many as there are questions of these
/// kinds without an answer.
const N_DRAWN: usize = 2;

/// Maximum number of definitions with a name, and of functions with a message: a more common one asks for nothing in
/// particular.
const MAX_SHARED: usize = 3;

/// Length of a message in characters.
const MESSAGE_CHARACTERS: std::ops::RangeInclusive<usize> = 20..=160;

const MESSAGE_WORDS: usize = 4;

/// Words in the line of a message that reports a failure.
const FAILURES: [&str; 10] =
    ["abort", "error", "exception", "fail", "fatal", "invalid", "panic", "raise", "throw", "warn"];

/// Questions for names and messages, which the definitions with that name or message answer.
///
/// # Errors
/// When a file of the tree cannot be read.
pub fn questions(index: &Index) -> Result<Vec<RepositoryQuery>, EvalError> {
    let (mut names, mut messages) = (Texts::new(), Texts::new());
    for file in index.files(&Filter::default().without(FileFlags::all())) {
        let text = file.text()?;
        let text = text.to_str();
        let lines: Vec<&str> = text.lines().collect();
        for hit in file.hits().filter(|hit| is_definition(hit.kind)) {
            let target = Target { path: hit.path.clone(), lines: Some((hit.start_line, hit.end_line)) };
            let name = hit.name.rsplit('.').next().unwrap_or_default();
            if parts(name).count() > 1 && !hit.signature.is_empty() {
                names.entry(name.to_owned()).or_default().push(target.clone());
            }
            let own =
                lines.iter().take(hit.end_line as usize).skip(hit.start_line.saturating_sub(1) as usize);
            for message in own.flat_map(|line| messages_of(line)) {
                let targets = messages.entry(message.to_owned()).or_default();
                if targets.last() != Some(&target) {
                    targets.push(target.clone());
                }
            }
        }
    }
    // Each tree has other spellings, so that all of them are asked for.
    let seed = names.len() as u64;
    let names = drawn(names, seed).into_iter().zip(seed as usize..);
    let names = names.map(|((name, targets), number)| ("name", as_typed(&name, number), targets));
    let messages = drawn(messages, seed).into_iter().map(|(text, targets)| ("error", text, targets));
    let question = |(category, text, targets): (&str, String, Vec<Target>)| RepositoryQuery {
        category: category.to_owned(),
        text,
        targets,
    };
    Ok(names.chain(messages).map(question).collect())
}

/// Texts with what answers them.
type Texts = BTreeMap<String, Vec<Target>>;

/// Some of the texts that few targets have.
fn drawn(texts: Texts, seed: u64) -> Vec<(String, Vec<Target>)> {
    let mut rare: Vec<_> = texts.into_iter().filter(|(_, targets)| targets.len() <= MAX_SHARED).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut rare);
    rare.truncate(N_DRAWN);
    rare
}

/// A name as somebody types it: exactly, in lower case without separators, without a letter, or in a sentence.
fn as_typed(name: &str, number: usize) -> String {
    match number % 4 {
        0 => name.to_owned(),
        1 => folded(name),
        2 => {
            let middle = name.chars().count() / 2;
            name.chars().enumerate().filter(|(at, _)| *at != middle).map(|(_, letter)| letter).collect()
        }
        _ => format!("where is {name} called"),
    }
}

/// The texts in quotes of a line that reports a failure, if they are sentences.
fn messages_of(line: &str) -> Vec<&str> {
    let lower = line.to_lowercase();
    if !FAILURES.iter().any(|word| lower.contains(word)) {
        return Vec::new();
    }
    let is_word = |word: &&str| word.chars().filter(|c| c.is_alphabetic()).count() > 1;
    let is_message = |text: &&str| {
        MESSAGE_CHARACTERS.contains(&text.chars().count())
            && text.split_whitespace().filter(is_word).count() >= MESSAGE_WORDS
            && !text.contains('\\')
    };
    ['"', '\'']
        .into_iter()
        .flat_map(|quote| line.split(quote).skip(1).step_by(2))
        .filter(is_message)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_index::OpenOptions;

    #[test]
    fn a_tree_gives_names_and_messages_with_their_definitions() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let code = "def open_lock(path):\n    raise LockError(\"the lock is held by another process\")\n\n\ndef go():\n    return 'nothing to see here at all'\n";
        std::fs::write(tree.join("lock.py"), code).unwrap();
        let options =
            OpenOptions { directory: Some(directory.path().join("index")), ..OpenOptions::default() };
        let index = Index::open_or_build(&tree, &options, None, &|_| {}).unwrap().index;
        let drawn = questions(&index).unwrap();
        let target = vec![Target { path: "lock.py".into(), lines: Some((1, 2)) }];
        let found: Vec<(&str, &[Target])> =
            drawn.iter().map(|query| (query.category.as_str(), query.targets.as_slice())).collect();
        assert_eq!(found, [("name", target.as_slice()), ("error", target.as_slice())]);
        assert_eq!(drawn[1].text, "the lock is held by another process");
        assert_eq!(questions(&index).unwrap(), drawn);
    }

    #[test]
    fn a_name_is_typed_in_four_ways() {
        let typed: Vec<String> = (0..4).map(|number| as_typed("open_lock", number)).collect();
        assert_eq!(typed, ["open_lock", "openlock", "openlock", "where is open_lock called"]);
    }
}
