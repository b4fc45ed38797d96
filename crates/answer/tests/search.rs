//! From queries and units to answers, as the command line, HTTP and agents get them.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use quarry_answer::{
    Answer, Excerpt, LineMatch, Matching, SearchQuestion, Shown, Tree, UnitsRequest, search, similar,
};
use quarry_index::{Filter, Index, OpenOptions, RankingWeights};
use serde::Serialize;
use tempfile::TempDir;

const NET: &str =
    "def connect(host):\n    # slow\n    return dial(host)\n\n\ndef close(host):\n    hang_up(host)\n";
const DISK: &str = "def flush(file):\n    sync(file)\n\n\ndef connect_disk(file):\n    return mount(file)\n";
const SHOWN: Shown = Shown { units: true, excerpt: Excerpt::Best(1), context: (0, 0) };

struct Fixture {
    directory: TempDir,
    _index: TempDir,
    tree: Tree,
    ranking: RankingWeights,
}

impl Fixture {
    /// Two files, without a model.
    fn new() -> Self {
        let (directory, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(directory.path().join("net.py"), NET).unwrap();
        fs::write(directory.path().join("disk.py"), DISK).unwrap();
        let options = OpenOptions { directory: Some(index.path().join("index")), ..OpenOptions::default() };
        let opened = Index::open_or_build(directory.path(), &options, None, &|_| {}).unwrap();
        let tree = Tree::new(&[PathBuf::from(directory.path())], opened.index).unwrap();
        Self { directory, _index: index, tree, ranking: RankingWeights::default() }
    }

    fn request(&self) -> UnitsRequest<'_> {
        UnitsRequest::new(&self.ranking)
    }

    fn names(&self, query: &str, matching: Option<Matching>, request: &UnitsRequest) -> Vec<String> {
        let found = search(&self.tree.index, SearchQuestion::of(query), matching, request).unwrap();
        found.hits.into_iter().map(|hit| hit.name).collect()
    }

    /// The number of the unit with a name, and its line that has `text`.
    fn matching(&self, path: &str, name: &str, line: u32, text: &str) -> (usize, Vec<LineMatch>) {
        let file = self.tree.index.file(0, path).unwrap();
        let unit = file.hits().find(|hit| hit.name == name).unwrap().unit;
        (unit, vec![LineMatch { line, index: line as usize - 1, text: text.to_owned(), ranges: Vec::new() }])
    }
}

/// Each result in a line: rank, name, first line of the snippet, and the snippet.
fn lines<Q: Serialize>(answer: &Answer<Q>) -> Vec<String> {
    let line = |result: &quarry_answer::ResultView| {
        let unit = result.unit.as_ref().unwrap();
        format!("{} {} {}: {}", result.rank, unit.name, unit.snippet_line, unit.snippet.trim())
    };
    answer.results.iter().map(line).collect()
}

#[test]
fn a_query_is_answered_with_the_lines_that_it_matches() {
    let fixture = Fixture::new();
    let request = UnitsRequest { limit: 2, explain: true, ..fixture.request() };
    let found = search(&fixture.tree.index, SearchQuestion::of("dial a host"), None, &request).unwrap();
    let answer = found.answer(&fixture.tree, &SHOWN, Duration::from_millis(7)).unwrap();
    assert_eq!(lines(&answer), ["1 connect 3: return dial(host)", "2 close 6: def close(host):"]);
    let root = fixture.directory.path().canonicalize().unwrap();
    assert_eq!((answer.root.as_deref(), answer.roots.len()), (root.to_str(), 0));
    assert_eq!((answer.question.query.as_str(), answer.open_ms), ("dial a host", 7.0));
    for result in &answer.results {
        let explanation = result.unit.as_ref().unwrap().explanation.as_ref().unwrap();
        assert_eq!(explanation.value, result.score);
    }
}

#[test]
fn confidence_is_compared_with_the_threshold() {
    let fixture = Fixture::new();
    let confident = |threshold| {
        let request = UnitsRequest { threshold: Some(threshold), ..fixture.request() };
        search(&fixture.tree.index, SearchQuestion::of("connect"), None, &request).unwrap().confident
    };
    assert_eq!((confident(0.0), confident(1.0)), (Some(true), Some(false)));
}

#[test]
fn a_file_is_one_result_with_its_first_unit() {
    let fixture = Fixture::new();
    let query = "connect host file close";
    let all = fixture.names(query, None, &fixture.request());
    assert_eq!(all.len(), 4, "{all:?}");
    let request = UnitsRequest { per_file: true, limit: 2, ..fixture.request() };
    let found = search(&fixture.tree.index, SearchQuestion::of(query), None, &request).unwrap();
    let paths: Vec<&str> = found.hits.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!((paths.len(), found.hits[0].name == all[0]), (2, true), "{paths:?}");
    assert_ne!(paths[0], paths[1]);
    let first = UnitsRequest { per_file: true, limit: 1, ..fixture.request() };
    assert_eq!(fixture.names(query, None, &first), all[..1]);
}

#[test]
fn of_matching_units_the_ranked_ones_come_first() {
    let fixture = Fixture::new();
    let matching = || {
        vec![
            fixture.matching("disk.py", "flush", 2, "    sync(file)"),
            fixture.matching("net.py", "close", 7, "    hang_up(host)"),
        ]
    };
    let alone = search(&fixture.tree.index, SearchQuestion::of(""), Some(matching()), &fixture.request());
    let alone = alone.unwrap();
    assert_eq!((alone.confident, alone.confidence), (Some(true), 0.0), "an expression is met or not");
    let answer = alone.answer(&fixture.tree, &SHOWN, Duration::ZERO).unwrap();
    assert_eq!(lines(&answer), ["1 flush 2: sync(file)", "2 close 7: hang_up(host)"]);
    assert_eq!(answer.results[1].unit.as_ref().unwrap().matches[0].line, 7);
    let request = fixture.request();
    assert_eq!(fixture.names("close", Some(matching()), &request), ["close", "flush"]);
    // A unit without a matching line is not a result, however high it ranks.
    assert_eq!(fixture.names("connect", Some(matching()), &request), ["flush", "close"]);
    assert_eq!(fixture.names("close", Some(Vec::new()), &request), [""; 0]);
    let one = UnitsRequest { limit: 1, ..request };
    assert_eq!(fixture.names("close", Some(matching()), &one), ["close"]);
}

#[test]
fn results_keep_their_ranks_on_a_page_and_lose_lines_that_do_not_fit() {
    let fixture = Fixture::new();
    let fitted = |positions, max_bytes| {
        let request = UnitsRequest { explain: true, ..fixture.request() };
        let question = SearchQuestion::of("connect host file close");
        let found = search(&fixture.tree.index, question, None, &request).unwrap();
        found.fitted(&fixture.tree, positions, &SHOWN, max_bytes, Duration::ZERO).unwrap()
    };
    let (whole, without_lines) = fitted(0..4, usize::MAX);
    assert_eq!((whole.results.len(), without_lines), (4, 0));
    let (page, _) = fitted(1..3, usize::MAX);
    assert_eq!(lines(&page), lines(&whole)[1..3]);
    let explanations = |answer: &Answer<SearchQuestion>| -> Vec<_> {
        answer.results.iter().map(|result| result.unit.as_ref().unwrap().explanation.clone()).collect()
    };
    assert_eq!(explanations(&page), explanations(&whole)[1..3]);
    let first = whole.results.first().map_or(0, quarry_answer::n_bytes);
    let (cut, without_lines) = fitted(0..4, first);
    assert_eq!((without_lines, &lines(&cut)[0]), (3, &lines(&whole)[0]));
    assert!(cut.results[1..].iter().all(|result| quarry_answer::n_bytes(result) == 0));
    assert_eq!(explanations(&cut), explanations(&whole));
    assert_eq!(fitted(9..12, usize::MAX).0.results.len(), 0);
}

#[test]
fn similar_units_leave_out_the_given_one() {
    let fixture = Fixture::new();
    let given = fixture.tree.index.unit_at("net.py", 1).unwrap();
    let request = UnitsRequest { explain: true, ..fixture.request() };
    let found = similar(&fixture.tree.index, &given, &request).unwrap();
    assert!(found.hits.iter().all(|hit| hit.unit != given.unit) && !found.hits.is_empty());
    let answer = found.answer(&fixture.tree, &SHOWN, Duration::ZERO).unwrap();
    assert_eq!(answer.question.similar_to.name, "connect");
    let first = &answer.results[0];
    let explanation = first.unit.as_ref().unwrap().explanation.as_ref().unwrap();
    assert_eq!((explanation.name, explanation.value), ("cosine", first.score));
}

#[test]
fn only_what_the_filter_lets_pass_is_found() {
    let fixture = Fixture::new();
    let filter = Filter::new(&[], &[], &["disk.py".to_owned()]).unwrap();
    let request = UnitsRequest { filter: Some(&filter), ..fixture.request() };
    assert_eq!(fixture.names("connect", None, &request), ["connect_disk", "flush"]);
}

#[test]
fn lines_of_a_unit_have_the_numbers_of_the_file_and_none_are_left_of_a_removed_file() {
    let fixture = Fixture::new();
    let index = &fixture.tree.index;
    let found = search(index, SearchQuestion::of("hang up"), None, &fixture.request()).unwrap();
    assert_eq!(found.unit_lines(index, &found.hits[0], 1, false), [(7, "    hang_up(host)".to_owned())]);
    fs::remove_file(fixture.directory.path().join("net.py")).unwrap();
    assert!(found.unit_lines(index, &found.hits[0], 1, false).is_empty());
}
