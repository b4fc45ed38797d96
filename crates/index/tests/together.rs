//! Several paths, searched together.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_embed::{Embedder, StaticModel};
use quarry_index::{Error, Filter, Hit, Index, OpenOptions, RankingWeights, SearchRequest, UserDirectories};
use quarry_test_support::files;

/// The names of two directories that have some meaning, though a vague one, for the words of a query.
const WITH_MEANING: [&str; 2] = ["q", "z"];

/// The names of two directories without a meaning: not tokens of the built-in model.
const WITHOUT_MEANING: [&str; 2] = ["ä", "ü"];

/// A tree of two parts, and users, each with a separate cache.
struct Fixture {
    directory: tempfile::TempDir,
    model: Option<Arc<dyn Embedder>>,
}

impl Fixture {
    fn new(model: Option<Arc<dyn Embedder>>, parts: [&str; 2]) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap(), model };
        let verbs = ["open", "close", "read", "parse", "retry", "encode"];
        let things = ["socket", "header", "file", "token", "connection"];
        // Distributed unevenly, so that neither part has the statistics of the whole.
        for (number, (verb, thing)) in
            verbs.iter().flat_map(|verb| things.iter().map(move |thing| (verb, thing))).enumerate()
        {
            let part = parts[usize::from(number % 3 != 0)];
            let body: String = (0..number % 5).map(|line| format!("    step_{line}({thing})\n")).collect();
            fixture.write(
                &format!("{part}/{verb}_{thing}.py"),
                &format!(
                    "def {verb}_{thing}({thing}, times):\n    \"\"\"{verb} the {thing} with backoff.\"\"\"\n{body}    return {verb}({thing})\n\n\ndef helper_{number}(value):\n    return value + {number}\n"
                ),
            );
        }
        fixture
    }

    fn write(&self, path: &str, content: &str) {
        files::write(self.path(path), content);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("tree").join(path)
    }

    fn options(&self, user: &str) -> OpenOptions {
        OpenOptions {
            user: UserDirectories::below(&self.directory.path().join(user)),
            ..OpenOptions::default()
        }
    }

    /// The index of some paths, and the number of indexes that it combines.
    fn open(&self, user: &str, paths: &[&str]) -> (Index, usize) {
        let options = self.options(user);
        let paths: Vec<PathBuf> = paths.iter().map(|path| self.path(path)).collect();
        let asked: Vec<(&Path, &OpenOptions)> = paths.iter().map(|path| (path.as_path(), &options)).collect();
        let opened = Index::open_or_build_all(&asked, self.model.clone(), &|_| {}).unwrap();
        let n = opened.len();
        (Index::merge(opened.into_iter().map(|opened| opened.index).collect()).unwrap(), n)
    }
}

fn search(index: &Index, query: &str, limit: usize) -> Vec<Hit> {
    let request =
        SearchRequest { query, limit, ranking: RankingWeights::default(), filter: &Filter::default() };
    index.search(&request).unwrap().hits
}

/// Path below the tree and line of a hit, and its score.
type ScoredPosition = (String, f32);

const QUERIES: [&str; 6] = [
    "retry with backoff",
    "open a connection",
    "parse_header",
    "where are tokens encoded",
    "helper",
    "read the file until the socket is closed",
];

/// The hits of a query in the whole tree, and in its parts, with their positions.
fn compare(
    fixture: &Fixture,
    query: &str,
    paths: [&str; 2],
    check: impl Fn(&[ScoredPosition], &[ScoredPosition]),
) {
    let (whole, _) = fixture.open("one", &[""]);
    let (parts, n) = fixture.open("another", &paths);
    assert_eq!((n, parts.n_units(), parts.n_files()), (2, whole.n_units(), whole.n_files()));
    let roots = paths.map(|path| format!("{path}/"));
    let position = |hit: Hit, root: &str| (format!("{root}{}:{}", hit.path, hit.start_line), hit.score);
    let expected: Vec<ScoredPosition> =
        search(&whole, query, 60).into_iter().map(|hit| position(hit, "")).collect();
    let found = search(&parts, query, 60).into_iter();
    check(
        &found.map(|hit| (hit.root, hit)).map(|(root, hit)| position(hit, &roots[root])).collect::<Vec<_>>(),
        &expected,
    );
}

#[test]
fn the_parts_of_a_directory_rank_as_the_directory() {
    let [first, second] = WITHOUT_MEANING;
    let fixture = Fixture::new(None, WITHOUT_MEANING);
    for (query, paths) in
        QUERIES.into_iter().flat_map(|query| [(query, [first, second]), (query, [second, first])])
    {
        compare(&fixture, query, paths, |found, expected| assert_eq!(found, expected, "{query}"));
    }
}

#[test]
fn the_parts_of_a_directory_rank_nearly_as_the_directory() {
    let fixture = Fixture::new(Some(Arc::new(StaticModel::builtin())), WITH_MEANING);
    for query in QUERIES {
        compare(&fixture, query, WITH_MEANING, |found, expected| {
            let scores: HashMap<&str, f32> =
                expected.iter().map(|(position, score)| (position.as_str(), *score)).collect();
            // Many of the last ones have equal scores, so they may be in only one of the lists.
            for (position, score) in found.iter().take(20) {
                let expected = scores.get(position.as_str());
                assert!(
                    expected.is_some_and(|expected| (score - expected).abs() < 0.1),
                    "{query}: {position} {score} {expected:?}"
                );
            }
            // Of ties, any may come first.
            let (best, expected) = (scores[found[0].0.as_str()], expected[0].1);
            assert!((best - expected).abs() < 0.1, "{query}: {best} {expected}");
        });
    }
}

#[test]
fn paths_in_an_indexed_tree_share_its_index() {
    let fixture = Fixture::new(None, WITH_MEANING);
    fixture.open("one", &[""]);
    fixture.write("q/inner/backoff.py", "def backoff(times):\n    return 2 ** times\n");
    let (parts, n) = fixture.open("one", &["z", "q/inner", "q/inner/backoff.py", "q/open_socket.py"]);
    assert_eq!(n, 1);
    let found: HashSet<String> =
        search(&parts, "backoff", 100).iter().map(|hit| format!("{} {}", hit.root, hit.path)).collect();
    // Each file once, in the first path that contains it.
    assert!(found.contains("1 backoff.py") && found.contains("3 open_socket.py"), "{found:?}");
    assert_eq!(found.len(), 22, "{found:?}");
    let hits = search(&parts, "open_socket", 1);
    assert!(parts.source(&hits[0]).unwrap().text.starts_with("def open_socket"));
}

#[test]
fn a_file_is_found_once_however_many_paths_it_is_in() {
    let fixture = Fixture::new(None, WITH_MEANING);
    let count = |paths: &[&str]| {
        // A separate user each, who has no index yet.
        let (index, n) = fixture.open(&format!("user {}", paths.join("+").replace('/', "-")), paths);
        let hits = search(&index, "backoff", 100);
        let absolute = |hit: &Hit| (index.text(hit).unwrap().to_str().into_owned(), hit.start_line);
        let different: HashSet<_> = hits.iter().map(absolute).collect();
        assert_eq!(different.len(), hits.len(), "{paths:?}");
        (n, hits.len())
    };
    let (_, all) = count(&[""]);
    assert_eq!(all, 60);
    assert_eq!(count(&["", "", "."]), (1, all));
    assert_eq!(count(&["", "q", "q/open_socket.py"]), (1, all));
    // The inner ones have their own indexes, because they come first.
    assert_eq!(count(&["q/open_socket.py", "q", ""]), (3, all));
    assert_eq!(count(&["q/open_socket.py", "q/close_header.py", "q/open_socket.py"]), (2, 4));
}

#[test]
fn ignored_files_are_searched_where_they_are_named() {
    let fixture = Fixture::new(None, WITH_MEANING);
    fixture.write(".ignore", "build/\n");
    fixture.write("build/out.py", "def backoff_of_the_build(times):\n    return times\n");
    let found = |paths: &[&str]| {
        let hits = search(&fixture.open("one", paths).0, "backoff of the build", 100);
        hits.iter().filter(|hit| hit.path == "out.py").count()
    };
    assert_eq!(found(&[""]), 0);
    assert_eq!(found(&["", "build"]), 1);
}

#[test]
fn each_path_can_be_narrowed() {
    let fixture = Fixture::new(None, WITH_MEANING);
    let (mut index, _) = fixture.open("one", &["q", "z"]);
    index.narrow(1, Filter::new(&[], &[], &["!retry_*".to_owned()]).unwrap());
    let hits = search(&index, "retry with backoff", 100);
    let retries: Vec<usize> =
        hits.iter().filter(|hit| hit.path.starts_with("retry_")).map(|hit| hit.root).collect();
    assert!(!retries.is_empty() && retries.iter().all(|&root| root == 0), "{retries:?}");
}

#[test]
fn a_path_that_is_missing_is_an_error() {
    let fixture = Fixture::new(None, WITH_MEANING);
    let options = fixture.options("one");
    let (there, missing) = (fixture.path("q"), fixture.path("nothing"));
    let opened = Index::open_or_build_all(&[(&there, &options), (&missing, &options)], None, &|_| {});
    let Err(error @ (Error::Walk(_) | Error::Io { .. })) = opened else { panic!("found what is missing") };
    assert!(error.to_string().contains("nothing"), "{error}");
}
