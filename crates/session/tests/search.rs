//! From queries and units to answers, as the command line, HTTP and agents get them.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use quarry_index::{Filter, Index, OpenOptions, RankingWeights};
use quarry_session::{
    Answer, DisplayOptions, Excerpt, Query, SearchQuestion, Tree, UnitsRequest, search, similar,
};
use serde::Serialize;
use tempfile::TempDir;

const NET: &str =
    "def connect(host):\n    # slow\n    return dial(host)\n\n\ndef close(host):\n    hang_up(host)\n";
const DISK: &str = "def flush(file):\n    sync(file)\n\n\ndef connect_disk(file):\n    return mount(file)\n";
const SHOWN: DisplayOptions = DisplayOptions { units: true, excerpt: Excerpt::Best(1), context: (0, 0) };

struct Fixture {
    directory: TempDir,
    _index: TempDir,
    tree: Tree,
    ranking: RankingWeights,
}

impl Fixture {
    /// Two files, without a model.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("net.py"), NET).unwrap();
        fs::write(directory.path().join("disk.py"), DISK).unwrap();
        Self::index(directory)
    }

    /// The same directory, indexed anew.
    fn opened_again(self) -> Self {
        Self::index(self.directory)
    }

    fn index(directory: TempDir) -> Self {
        let index = tempfile::tempdir().unwrap();
        let options = OpenOptions { directory: Some(index.path().join("index")), ..OpenOptions::default() };
        let opened = Index::open_or_build(directory.path(), &options, None, &|_| {}).unwrap();
        let tree = Tree::new(&[PathBuf::from(directory.path())], opened.index).unwrap();
        Self { directory, _index: index, tree, ranking: RankingWeights::default() }
    }

    fn request(&self) -> UnitsRequest<'_> {
        UnitsRequest::new(&self.ranking)
    }

    fn found(&self, query: &str, request: &UnitsRequest) -> quarry_session::SearchResults<SearchQuestion> {
        search(&self.tree.index, Query::parse(query).unwrap(), request).unwrap()
    }

    fn names(&self, query: &str, request: &UnitsRequest) -> Vec<String> {
        self.found(query, request).hits.into_iter().map(|hit| hit.name).collect()
    }

    /// The path and first line of each result of a query in the query syntax.
    fn places(&self, query: &str) -> Vec<String> {
        let hits = self.found(query, &self.request()).hits;
        hits.iter().map(|hit| format!("{}:{}", hit.path, hit.start_line)).collect()
    }
}

/// Each result in a line: rank, name, first line of the snippet, and the snippet.
fn lines<Q: Serialize>(answer: &Answer<Q>) -> Vec<String> {
    let line = |result: &quarry_session::ResultView| {
        let unit = result.unit.as_ref().unwrap();
        format!("{} {} {}: {}", result.rank, unit.name, unit.snippet_line, unit.snippet.trim())
    };
    answer.results.iter().map(line).collect()
}

#[test]
fn a_query_is_answered_with_the_lines_that_it_matches() {
    let fixture = Fixture::new();
    let request = UnitsRequest { limit: 2, explain: true, ..fixture.request() };
    let found = fixture.found("dial a host", &request);
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
        fixture.found("connect", &request).confident
    };
    assert_eq!((confident(0.0), confident(1.0)), (Some(true), Some(false)));
}

#[test]
fn an_unclear_answer_names_the_words_that_the_index_has() {
    let fixture = Fixture::new();
    let request = UnitsRequest { threshold: Some(1.0), ..fixture.request() };
    let notes = |query: &str| fixture.found(query, &request).notes;
    let expected = "the query shares only these words with the index: Dialing, host";
    assert_eq!(notes("Dialing the zebra's host?"), [expected]);
    assert!(notes("dial the host").is_empty(), "all of its words are there");
    let request = UnitsRequest { threshold: Some(0.0), ..fixture.request() };
    assert!(fixture.found("dial the zebra's host", &request).notes.is_empty());
}

#[test]
fn a_file_is_one_result_with_its_first_unit() {
    let fixture = Fixture::new();
    let query = "connect host file close";
    let all = fixture.names(query, &fixture.request());
    assert_eq!(all.len(), 4, "{all:?}");
    let request = UnitsRequest { per_file: true, limit: 2, ..fixture.request() };
    let found = fixture.found(query, &request);
    let paths: Vec<&str> = found.hits.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!((paths.len(), found.hits[0].name == all[0]), (2, true), "{paths:?}");
    assert_ne!(paths[0], paths[1]);
    let first = UnitsRequest { per_file: true, limit: 1, ..fixture.request() };
    assert_eq!(fixture.names(query, &first), all[..1]);
}

#[test]
fn ranked_units_come_first_among_matching_units() {
    let fixture = Fixture::new();
    let alone = fixture.found("/sync|hang/", &fixture.request());
    assert_eq!((alone.confident, alone.confidence), (Some(true), 0.0), "an expression is met or not");
    let answer = alone.answer(&fixture.tree, &SHOWN, Duration::ZERO).unwrap();
    assert_eq!(lines(&answer), ["1 flush 2: sync(file)", "2 close 7: hang_up(host)"]);
    let first = &answer.results[1].unit.as_ref().unwrap().matches[0];
    assert_eq!(first.line, 7);
    assert!(first.ranges.iter().eq([&(4..8)]), "{:?}", first.ranges);
    let request = fixture.request();
    assert_eq!(fixture.names("close /sync|hang/", &request), ["close", "flush"]);
    // A unit without a matching line is not a result, however high it ranks.
    assert_eq!(fixture.names("connect /sync|hang/", &request), ["flush", "close"]);
    let patterns = Query::plain("close").with_patterns(&["zebra".to_owned()], false).unwrap();
    assert!(search(&fixture.tree.index, patterns, &request).unwrap().hits.is_empty());
    let one = UnitsRequest { limit: 1, ..request };
    let found = fixture.found("close /sync|hang/", &one);
    assert_eq!((found.hits.len(), found.notes), (1, vec!["1 result beyond the limit of 1".to_owned()]));
    let all = UnitsRequest { unranked_limit: Some(9), ..one };
    assert_eq!(fixture.names("/sync|hang/", &all), ["flush", "close"]);
    assert_eq!(fixture.names("/sync|hang/ \"file\"", &all), ["flush"], "each in a line of the unit");
}

#[test]
fn every_text_file_is_searched_exactly() {
    let fixture = Fixture::new();
    let write = |path: &str, text: &[u8]| fs::write(fixture.directory.path().join(path), text).unwrap();
    write("a.unknown", b"first\ndial tone\nlast\nDIAL\n");
    write("LICENSE-X", b"dial nothing\n");
    write("data.bin", b"\0\0 dial");
    write("large.py", &[b"x = 1  # dial\n".as_slice(), &b"y = 2\n".repeat(200_000)].concat());
    let fixture = fixture.opened_again();
    assert_eq!(fixture.places("\"dial\""), ["LICENSE-X:1", "a.unknown:2", "large.py:1", "net.py:1"]);
    let found = fixture.found("\"dial\" path:unknown", &fixture.request());
    let answer = found.answer(&fixture.tree, &SHOWN, Duration::ZERO).unwrap();
    let unit = answer.results[0].unit.as_ref().unwrap();
    let matches: Vec<u32> = unit.matches.iter().map(|line| line.line).collect();
    assert_eq!((unit.start_line, unit.end_line, unit.kind, &matches[..]), (2, 4, "module", &[2, 4][..]));
    assert_eq!(answer.results[0].language, "text");
    // By meaning they are not ranked, and words beside an expression put them last.
    assert_eq!(fixture.places("dial host \"dial\"").first().unwrap(), "net.py:1");
    assert_eq!(fixture.places("dial host \"dial\"").len(), 4);
    assert!(fixture.places("dial tone").iter().all(|place| !place.contains("unknown")));
    let found = fixture.found("\"dial\" lang:python", &fixture.request());
    assert_eq!(found.hits.len(), 2);
    assert!(found.notes[0].contains("leaves out 3 files without units"), "{:?}", found.notes);
}

#[test]
fn filters_of_a_query_narrow_and_list() {
    let fixture = Fixture::new();
    assert_eq!(fixture.names("connect path:disk", &fixture.request()), ["connect_disk", "flush"]);
    assert_eq!(fixture.names("connect -path:disk", &fixture.request()), ["connect", "close"]);
    assert_eq!(fixture.names("name:connect*", &fixture.request()), ["connect_disk", "connect"]);
    assert_eq!(fixture.names("name:c*e kind:function", &fixture.request()), ["close"]);
    let filter = Filter::new(&[], &[], &["net.py".to_owned()]).unwrap();
    let request = UnitsRequest { filter: Some(&filter), ..fixture.request() };
    assert_eq!(fixture.names("connect lang:py", &request), ["connect", "close"]);
    let trees = ["shop".to_owned()];
    let request = UnitsRequest { trees: &trees, ..fixture.request() };
    assert_eq!(fixture.names("connect host tree:shop", &request)[0], "connect");
    let unknown = search(&fixture.tree.index, Query::parse("x tree:none").unwrap(), &request).err().unwrap();
    assert_eq!(unknown.to_string(), "unknown tree \"none\"; the searched ones are shop");
}

#[test]
fn pasted_messages_are_found() {
    let fixture = Fixture::new();
    let code = "def read_settings(path):\n    raise OSError(f'cannot read settings of \"{path}\" now')\n\n\n\
                def open_log(name):\n    fail(\"no permission to open %s for writing\", name)\n\n\n\
                def other():\n    return load('tcp', \"/var/log/\")\n";
    fs::write(fixture.directory.path().join("messages.py"), code).unwrap();
    let fixture = fixture.opened_again();
    for (query, expected) in [
        // Its values stand between quotes and slashes at the edges of tokens, and some are elsewhere in the tree.
        ("cannot read settings of \"tcp\" now", "read_settings"),
        ("cannot read settings of \"a.ini\" now", "read_settings"),
        ("OSError: cannot read settings of \"/etc/x/\" now", "read_settings"),
        ("no permission to open /var/log/ for writing", "open_log"),
        ("no permission to open /var/ for writing", "open_log"),
        ("\"no permission to open a.log for writing\"", "open_log"),
        ("kind:Pod no permission to open /tmp/x for writing", "open_log"),
    ] {
        assert_eq!(
            fixture.names(query, &fixture.request()).first().map(String::as_str),
            Some(expected),
            "{query}"
        );
    }
    let found = fixture.found("open the log of \"nowhere\"", &fixture.request());
    assert_eq!(found.hits[0].name, "open_log");
    assert!(found.notes[0].contains("no line matches it exactly"), "{:?}", found.notes);
    // An exact query without a match finds nothing.
    assert!(fixture.names("\"nowhere\"", &fixture.request()).is_empty());
    assert!(fixture.names("/no.where/", &fixture.request()).is_empty());
    assert_eq!(fixture.names("\"/var/log/\"", &fixture.request()), ["other"]);
}

#[test]
fn results_keep_their_ranks_on_a_page_and_lose_lines_that_do_not_fit() {
    let fixture = Fixture::new();
    let fitted = |positions, max_bytes| {
        let request = UnitsRequest { explain: true, ..fixture.request() };
        let found = fixture.found("connect host file close", &request);
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
    let first = whole.results.first().map_or(0, quarry_session::n_bytes);
    let (cut, without_lines) = fitted(0..4, first);
    assert_eq!((without_lines, &lines(&cut)[0]), (3, &lines(&whole)[0]));
    assert!(cut.results[1..].iter().all(|result| quarry_session::n_bytes(result) == 0));
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
fn only_matching_units_are_found() {
    let fixture = Fixture::new();
    let filter = Filter::new(&[], &[], &["disk.py".to_owned()]).unwrap();
    let request = UnitsRequest { filter: Some(&filter), ..fixture.request() };
    assert_eq!(fixture.names("connect", &request), ["connect_disk", "flush"]);
}

#[test]
fn lines_of_a_unit_have_the_numbers_of_the_file_and_none_are_left_of_a_removed_file() {
    let fixture = Fixture::new();
    let index = &fixture.tree.index;
    let found = fixture.found("hang up", &fixture.request());
    assert_eq!(found.unit_lines(index, 0, 1, false), [(7, "    hang_up(host)".to_owned())]);
    fs::remove_file(fixture.directory.path().join("net.py")).unwrap();
    assert!(found.unit_lines(index, 0, 1, false).is_empty());
}
