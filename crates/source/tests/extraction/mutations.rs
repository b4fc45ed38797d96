//! Random changes to the fixtures, the same in every run; `PROPTEST_CASES=10000` makes more of them.

use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use quarry_source::{Language, languages};

use crate::fixtures::{directory, fixtures};
use crate::invariants::check_repeated;

/// Pieces with a meaning in some language, and bytes without a meaning in any.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\r",
    b"\n\n\n",
    b"\t",
    b"  ",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"\xe2\x82\xac",
    b"(",
    b")",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"((((((((",
    b"}}}}}}}}",
    b"\"",
    b"'",
    b"`",
    b"\"\"\"",
    b"/*",
    b"*/",
    b"//",
    b"#",
    b"--[[",
    b"]]",
    b"<<EOF\n",
    b"=begin\n",
    b"=end\n",
    b"?>",
    b"<?php ",
    b"---\n",
    b"\n# ",
    b"\n> ",
    b"```\n",
    b"$",
    b"${",
    b"#{",
    b"@",
    b"\\",
    b"\\\n",
    b";",
    b":",
    b"::",
    b"=",
    b"=>",
    b",",
    b".",
    b"end\n",
    b"def ",
    b"class ",
    b"function ",
    b"fn ",
    b"import ",
    b"#define ",
    b"#if 0\n",
    b"template<",
];

const LINE_ENDS: &[&[u8]] = &[b"\r\n", b"\r", b"\n\r"];

#[derive(Debug, Clone)]
enum Change {
    Truncate,
    Delete,
    Duplicate,
    Move(Index),
    Flip(u8),
    Insert(&'static [u8]),
    EndLines(&'static [u8]),
}

/// Changes with the place and the length in bytes of what they change.
fn changes() -> impl Strategy<Value = Vec<(Index, usize, Change)>> {
    let change = prop_oneof![
        1 => Just(Change::Truncate),
        3 => Just(Change::Delete),
        2 => Just(Change::Duplicate),
        2 => any::<Index>().prop_map(Change::Move),
        2 => (1..=u8::MAX).prop_map(Change::Flip),
        6 => select(PIECES).prop_map(Change::Insert),
        1 => select(LINE_ENDS).prop_map(Change::EndLines),
    ];
    let length = prop_oneof![4 => 0..40_usize, 1 => 0..1000_usize];
    vec((any::<Index>(), length, change), 1..8)
}

fn change(source: &mut Vec<u8>, at: Index, length: usize, change: &Change) {
    let at = at.index(source.len() + 1);
    let end = (at + length).min(source.len());
    match change {
        Change::Truncate => source.truncate(at),
        Change::Delete => drop(source.drain(at..end)),
        Change::Duplicate => source.extend_from_within(at..end),
        Change::Move(to) => {
            let moved: Vec<u8> = source.drain(at..end).collect();
            let to = to.index(source.len() + 1);
            source.splice(to..to, moved);
        }
        Change::Flip(bits) => source[at..end].iter_mut().take(1).for_each(|byte| *byte ^= bits),
        Change::Insert(piece) => drop(source.splice(at..at, piece.iter().copied())),
        Change::EndLines(line_end) => {
            let lines = source[at..end].split(|byte| *byte == b'\n').collect::<Vec<_>>().join(*line_end);
            source.splice(at..end, lines);
        }
    }
}

/// A failing change is reduced and kept, as a file that is checked ever after.
#[test]
fn changed_fixtures() {
    for language in languages() {
        let originals = ["fixtures", "references"].into_iter().flat_map(fixtures);
        let originals = originals.filter(|fixture| fixture.language == language);
        let originals: Vec<Vec<u8>> = originals.map(|fixture| fixture.source).collect();
        if !originals.is_empty() {
            check_changed(language, originals);
        }
    }
}

fn check_changed(language: Language, originals: Vec<Vec<u8>>) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let changed = (select(originals), changes()).prop_map(|(mut source, changes)| {
        for (at, length, kind) in &changes {
            change(&mut source, *at, *length, kind);
        }
        source
    });
    let outcome = TestRunner::new_with_rng(config, random).run(&changed, |source: Vec<u8>| {
        check_repeated(language, &source);
        Ok(())
    });
    if let Err(TestError::Fail(reason, source)) = outcome {
        let path = directory("failures").join(format!("random.{}", language.extensions()[0]));
        fs::write(&path, source).unwrap();
        panic!("{reason}\nkept as {}; rename it after what it shows", path.display());
    }
    outcome.unwrap();
}
