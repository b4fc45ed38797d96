//! Kinds of queries: for tests, for long functions, with lines of logs, and in long sentences.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quarry_embed::StaticModel;
use quarry_index::{Filter, Hit, Index, OpenOptions, SearchRequest, SearchResponse};
use quarry_test_support::files::paths_below;

use crate::{Tree, answer, request, tree};

impl Tree {
    fn search(&self, query: &str) -> SearchResponse {
        let filter = Filter::default();
        self.index.search(&SearchRequest { limit: 20, ..request(query, &filter) }).unwrap()
    }

    fn first(&self, query: &str) -> Hit {
        self.search(query).hits.swap_remove(0)
    }
}

const RETRY: &str = "def retry_with_growing_waits(action):\n    \"\"\"Repeats an action until it works.\"\"\"\n    for attempt in range(5):\n        \
    if action():\n            return stop(attempt)\n        wait_longer(attempt)\n";
const TEST: &str = "def test_retry_stops():\n    calls = []\n    retry_with_growing_waits(lambda: calls.append(1))\n    \
    assert len(calls) == 1, 'the retry must stop'\n";

#[test]
fn tests_that_are_asked_for_come_first() {
    let tree = tree(&[("src/retry.py", RETRY), ("tests/test_retry.py", TEST)]);
    for query in ["test that the retry stops", "the unit test for the retry", "where is the retry tested"] {
        assert_eq!(tree.first(query).path, "tests/test_retry.py", "{query}");
    }
    assert_eq!(tree.first("stop the retry of an action").path, "src/retry.py");
}

#[test]
fn a_function_that_is_split_is_one_result() {
    let mut long = "def total_of_all_carts(carts):\n    \"\"\"Totals the carts.\"\"\"\n".to_owned();
    for number in 0..600 {
        long += &format!("    carts.total(tax_{number}, price_{number} + cart_{number})\n");
    }
    let tree = tree(&[("shop.py", &long), ("retry.py", RETRY)]);
    let n_units = tree.index.units(&Filter::default()).filter(|hit| hit.name == "total_of_all_carts").count();
    assert!(n_units > 2, "{n_units}");
    for query in [
        "total the carts with tax and price",
        "Totals the prices and taxes of all the carts that are given, one after the other, and adds each total to the cart that it \
         belongs to. The carts must not be changed by any other part of the shop while their totals are computed here.",
    ] {
        let hits = tree.search(query).hits;
        let n_found = hits.iter().filter(|hit| hit.name == "total_of_all_carts").count();
        assert_eq!(n_found, 1, "{query}");
    }
}

#[test]
fn a_line_of_a_log_is_searched_by_its_message() {
    let tree = tree(&[
        ("src/retry.py", RETRY),
        (
            "src/server.py",
            "def listen(port):\n    if is_used(port):\n        log.error('cannot bind the listener to port %s', port)\n",
        ),
        ("src/host.py", "def host_of(process):\n    return process.host or 'caddy'\n"),
    ]);
    let bare = tree.search("cannot bind the listener to port 80");
    let logged = tree.search("Nov 28 22:16:05 host caddy[812]: cannot bind the listener to port 80");
    let places = |response: &SearchResponse| response.hits.iter().map(|hit| hit.unit).collect::<Vec<_>>();
    assert_eq!(places(&logged), places(&bare));
    assert_eq!(logged.hits[0].path, "src/server.py");
    assert_eq!(logged.confidence, bare.confidence);
}

/// The first line of each comment of documentation in the sources of this crate, and the sentences after it.
fn documentation() -> Vec<Vec<String>> {
    let mut texts = Vec::new();
    for path in paths_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let source = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        for comment in lines.split(|line| !line.starts_with("/// ")) {
            let text = comment.iter().map(|line| &line[4..]).collect::<Vec<_>>().join(" ");
            texts.push(text.split_inclusive(". ").map(str::to_owned).collect::<Vec<_>>());
        }
    }
    texts.retain(|sentences| sentences.len() > 1);
    texts.sort();
    texts
}

#[test]
fn a_sentence_more_changes_little() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { directory: Some(directory.path().join("index")), ..OpenOptions::default() };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let model = Arc::new(StaticModel::builtin());
    let index = Index::open_or_build(&root, &options, Some(model), &|_| {}).unwrap().index;
    let first_ten = |query: &str| -> Vec<usize> {
        answer(&index, query).unwrap().hits.iter().map(|hit| hit.unit).collect()
    };
    let texts = documentation();
    assert!(texts.len() > 100, "{}", texts.len());
    let overlap = |sentences: &Vec<String>| {
        let shorter = first_ten(&sentences[..sentences.len() - 1].concat());
        first_ten(&sentences.concat()).iter().filter(|unit| shorter.contains(unit)).count()
    };
    let mut overlaps: Vec<usize> = texts.iter().map(overlap).collect();
    overlaps.sort_unstable();
    assert!(overlaps[overlaps.len() / 2] >= 6, "{overlaps:?}");
}
