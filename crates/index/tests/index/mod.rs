//! Building, opening and searching an index, through the public API.

mod damage;
mod languages;
mod reranking;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use quarry_embed::{EmbedError, Embedder, Vectors};
use quarry_index::{
    Changes, DEFAULT_THRESHOLD, Error, Event, Filter, Hit, Index, OpenOptions, Opened, RebuildReason, Update,
};
use quarry_source::UnitKind;
use quarry_test_support::files;
use quarry_walk::SkipReason;

use crate::{answer, request};

/// Embeds a text as the sum of one direction per word, and counts the documents.
struct WordHashes {
    id: String,
    n_documents: AtomicUsize,
}

const DIMENSION: usize = 64;

impl WordHashes {
    fn new(id: &str) -> Arc<Self> {
        Arc::new(Self { id: id.to_owned(), n_documents: AtomicUsize::new(0) })
    }

    fn embed(texts: &[&str]) -> Vectors {
        let mut values = Vec::new();
        for text in texts {
            let mut row = vec![0.0_f32; DIMENSION];
            quarry_text::lexical_terms(text, |term, _| {
                let hash =
                    term.bytes().fold(7_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
                row[hash % DIMENSION] += 1.0;
            });
            let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt().max(1.0);
            values.extend(row.into_iter().map(|value| value / norm));
        }
        Vectors { dimension: DIMENSION, values }
    }
}

impl Embedder for WordHashes {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        Ok(Self::embed(texts))
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.n_documents.fetch_add(texts.len(), Ordering::Relaxed);
        Ok(Self::embed(texts))
    }
}

/// A tree, and the directory of its index.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(fixture.root()).unwrap();
        files.iter().for_each(|(path, content)| fixture.write(path, content));
        fixture
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    fn index_directory(&self) -> PathBuf {
        self.directory.path().join("index")
    }

    fn write(&self, path: &str, content: &str) {
        files::write(self.root().join(path), content);
    }

    fn open_with(&self, embedder: Option<Arc<dyn Embedder>>) -> Result<Opened, Error> {
        let options = OpenOptions { directory: Some(self.index_directory()), ..OpenOptions::default() };
        Index::open_or_build(&self.root(), &options, embedder, &|_| {})
    }

    fn open(&self) -> Opened {
        self.open_with(None).unwrap()
    }

    fn generations(&self) -> usize {
        let entries = fs::read_dir(self.index_directory()).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("generation-")).count()
    }
}

const CONNECT: &str = "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n";
const PARSE: &str =
    "def parse_header(line):\n    \"\"\"Split a header line.\"\"\"\n    return line.split(':')\n";

fn search(index: &Index, query: &str) -> Vec<Hit> {
    answer(index, query).unwrap().hits
}

fn paths(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.path.as_str()).collect()
}

#[track_caller]
fn check_rebuilt(opened: &Opened, expected: &RebuildReason) {
    assert_eq!(opened.built.as_ref().map(|report| &report.reason), Some(expected));
}

#[test]
fn builds_once_and_finds_units() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("http/header.py", PARSE)]);
    check_rebuilt(&fixture.open(), &RebuildReason::Missing);
    let Opened { index, built, .. } = fixture.open();
    assert!(built.is_none());
    let hits = search(&index, "split a header");
    assert_eq!(paths(&hits), ["http/header.py"]);
    assert_eq!((hits[0].name.as_str(), hits[0].start_line, hits[0].end_line), ("parse_header", 1, 3));
    assert_eq!(index.source(&hits[0]).unwrap().text, PARSE.trim_end());
}

#[test]
fn with_a_model_both_sides_count() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let Opened { index, .. } = fixture.open_with(Some(WordHashes::new("a"))).unwrap();
    let hits = search(&index, "open a socket");
    assert_eq!(hits[0].path, "net.py");
    assert!(hits[0].parts.dense > 0.1 && hits[0].parts.lexical > 0.0);
}

#[test]
fn a_changed_new_or_deleted_file_makes_a_new_generation() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let first = fixture.open().index;
    fixture.write("net.py", "def listen(port):\n    return accept(port)\n");
    check_rebuilt(&fixture.open(), &RebuildReason::Files(Changes { changed: 1, ..Changes::default() }));
    let index = fixture.open().index;
    assert_eq!(paths(&search(&index, "listen")), ["net.py"]);
    assert!(search(&index, "socket").is_empty());
    // A process that has the previous generation open is not affected.
    assert_eq!(paths(&search(&first, "socket")), ["net.py"]);
    fixture.write("new.py", CONNECT);
    check_rebuilt(&fixture.open(), &RebuildReason::Files(Changes { new: 1, ..Changes::default() }));
    fs::remove_file(fixture.root().join("header.py")).unwrap();
    check_rebuilt(&fixture.open(), &RebuildReason::Files(Changes { removed: 1, ..Changes::default() }));
    assert!(search(&fixture.open().index, "header").is_empty());
    assert_eq!(fixture.generations(), 1);
}

#[test]
fn only_changed_units_are_embedded_again() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let model = WordHashes::new("a");
    fixture.open_with(Some(model.clone())).unwrap();
    assert_eq!(model.n_documents.load(Ordering::Relaxed), 2);
    fixture.write("net.py", "def listen(port):\n    return accept(port)\n");
    let Opened { index, built, .. } = fixture.open_with(Some(model.clone())).unwrap();
    assert_eq!(built.unwrap().n_embedded, 1);
    assert_eq!(model.n_documents.load(Ordering::Relaxed), 3);
    // The copied vector is still that of its unit.
    let hit = &search(&index, "split a header line")[0];
    assert_eq!(hit.path, "header.py");
    assert!(hit.parts.dense > 0.3, "{:?}", hit.parts);
}

#[test]
fn the_vectors_of_each_model_stay() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let (a, b) = (WordHashes::new("a"), WordHashes::new("b"));
    fixture.open_with(Some(a.clone())).unwrap();
    let opened = fixture.open_with(Some(b.clone())).unwrap();
    check_rebuilt(&opened, &RebuildReason::Model("b".to_owned()));
    assert_eq!(opened.built.unwrap().n_embedded, 2);
    // Neither the other model nor a search without a model needs a rebuild.
    assert!(fixture.open().built.is_none());
    assert!(fixture.open_with(Some(a.clone())).unwrap().built.is_none());
    // Of a changed file, only the new unit is embedded, by each model when it is used next.
    fixture.write("net.py", &format!("{CONNECT}\n\ndef listen(port):\n    return accept(port)\n"));
    for model in [a, b] {
        assert_eq!(fixture.open_with(Some(model.clone())).unwrap().built.unwrap().n_embedded, 1);
        let Opened { index, built, .. } = fixture.open_with(Some(model)).unwrap();
        assert!(built.is_none());
        assert!(search(&index, "open a socket to a host")[0].parts.dense > 0.3);
    }
}

/// Everything about hits except their position in the index.
fn all_hits(index: &Index, query: &str) -> Vec<String> {
    let hits = search(index, query);
    hits.iter().map(|hit| format!("{} {} {} {:?}", hit.unit, hit.path, hit.start_line, hit.parts)).collect()
}

#[test]
fn an_updated_index_answers_as_one_built_from_nothing() {
    let function = |n: usize, word: &str| {
        format!(
            "def read_{word}_{n}(path):\n    \"\"\"Read the {word} of a path, {n}.\"\"\"\n    return open(path).{word}\n"
        )
    };
    let words = ["header", "socket", "table", "cache", "token"];
    let fixture = Fixture::new(&[]);
    let mut random = fastrand::Rng::with_seed(7);
    let mut write = |file: usize| {
        let text: String =
            (0..random.usize(1..9)).map(|n| function(n, words[random.usize(..words.len())])).collect();
        fixture.write(&format!("{}/f{file}.py", words[file % 3]), &text);
    };
    (0..60).for_each(&mut write);
    let model = WordHashes::new("a");
    fixture.open_with(Some(model.clone())).unwrap();
    for step in 0..25 {
        match step % 5 {
            4 => drop(fs::remove_file(fixture.root().join(format!("{}/f{step}.py", words[step % 3])))),
            3 => (step..step + 12).for_each(&mut write),
            _ => write(step * 7 % 70),
        }
        let updated = fixture.open_with(Some(model.clone())).unwrap().index;
        let elsewhere = tempfile::tempdir().unwrap();
        let options = OpenOptions { directory: Some(elsewhere.path().into()), ..OpenOptions::default() };
        let new =
            Index::open_or_build(&fixture.root(), &options, Some(model.clone()), &|_| {}).unwrap().index;
        assert_eq!((updated.n_files(), updated.n_units()), (new.n_files(), new.n_units()));
        for query in ["read the header of a path", "socket", "cached tokens 3"] {
            assert_eq!(all_hits(&updated, query), all_hits(&new, query), "step {step}, {query}");
        }
    }
}

#[test]
fn a_touched_file_is_not_indexed_again() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    fixture.open();
    let file = fs::File::options().append(true).open(fixture.root().join("net.py")).unwrap();
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
    assert!(fixture.open().built.is_none());
    // But a change of the same size is detected, even with the same modification time.
    let modified = file.metadata().unwrap().modified().unwrap();
    fixture.write("net.py", &CONNECT.replace("dial", "dyal"));
    let file = fs::File::options().append(true).open(fixture.root().join("net.py")).unwrap();
    file.set_modified(modified).unwrap();
    check_rebuilt(&fixture.open(), &RebuildReason::Files(Changes { changed: 1, ..Changes::default() }));
}

#[test]
#[cfg(unix)]
fn a_change_that_keeps_length_and_time_is_seen() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let set_back = |path: &Path| {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    };
    let (path, aside) = (fixture.root().join("net.py"), fixture.directory.path().join("aside"));
    let settle = || {
        // Until the time of the last change is significant.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(fixture.open().built.is_none());
    };
    let changed = RebuildReason::Files(Changes { changed: 1, ..Changes::default() });
    set_back(&path);
    fixture.open();
    settle();
    fixture.write("net.py", &CONNECT.replace("dial", "dyal"));
    set_back(&path);
    check_rebuilt(&fixture.open(), &changed);
    assert_eq!(paths(&search(&fixture.open().index, "dyal")), ["net.py"]);
    // Another old file that replaces it.
    fs::write(&aside, CONNECT.replace("dial", "dual")).unwrap();
    set_back(&aside);
    settle();
    fs::rename(&aside, &path).unwrap();
    check_rebuilt(&fixture.open(), &changed);
    assert_eq!(paths(&search(&fixture.open().index, "dual")), ["net.py"]);
}

#[test]
fn a_manifest_of_another_version_is_rebuilt() {
    let fixture = Fixture::new(&[("net.py", CONNECT)]);
    fixture.open();
    fs::write(
        fixture.index_directory().join("manifest.json"),
        r#"{"format": 99, "generation": "generation-1"}"#,
    )
    .unwrap();
    check_rebuilt(&fixture.open(), &RebuildReason::Format(99));
    assert_eq!(paths(&search(&fixture.open().index, "socket")), ["net.py"]);
}

#[test]
fn a_failed_build_leaves_the_former_index() {
    struct Broken;
    impl Embedder for Broken {
        fn id(&self) -> &str {
            "broken"
        }
        fn dimension(&self) -> usize {
            1
        }
        fn embed_queries(&self, _: &[&str]) -> Result<Vectors, EmbedError> {
            self.embed_documents(&[])
        }
        fn embed_documents(&self, _: &[&str]) -> Result<Vectors, EmbedError> {
            Err(EmbedError::Model { path: "x".to_owned(), problem: "broken".to_owned() })
        }
    }
    let fixture = Fixture::new(&[("net.py", CONNECT)]);
    fixture.open();
    assert!(matches!(fixture.open_with(Some(Arc::new(Broken))), Err(Error::Embed(_))));
    assert!(fixture.open().built.is_none());
    // The next build removes what the failed one left.
    fixture.write("new.py", PARSE);
    fixture.open();
    assert_eq!(fixture.generations(), 1);
}

#[test]
fn one_of_two_writers_builds_and_one_waits() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let n_built = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let opened = fixture.open();
                n_built.fetch_add(usize::from(opened.built.is_some()), Ordering::Relaxed);
                assert_eq!(paths(&search(&opened.index, "socket")), ["net.py"]);
            });
        }
    });
    assert_eq!(n_built.load(Ordering::Relaxed), 1);
}

#[test]
fn a_rebuild_can_be_asked_for() {
    let fixture = Fixture::new(&[("net.py", CONNECT)]);
    fixture.open();
    let options = OpenOptions {
        directory: Some(fixture.index_directory()),
        update: Update::Anew,
        ..OpenOptions::default()
    };
    let reasons = Mutex::new(Vec::new());
    let record = |event: Event| {
        if let Event::Rebuilding(reason) = event {
            reasons.lock().unwrap().push(reason.clone());
        }
    };
    let opened = Index::open_or_build(&fixture.root(), &options, None, &record).unwrap();
    check_rebuilt(&opened, &RebuildReason::Requested);
    assert_eq!(*reasons.lock().unwrap(), [RebuildReason::Requested]);
}

#[test]
fn another_tree_does_not_get_this_ones_index() {
    let fixture = Fixture::new(&[("net.py", CONNECT)]);
    fixture.open();
    fixture.write("sub/header.py", PARSE);
    let options = OpenOptions { directory: Some(fixture.index_directory()), ..OpenOptions::default() };
    let opened = Index::open_or_build(&fixture.root().join("sub"), &options, None, &|_| {}).unwrap();
    assert!(matches!(opened.built.unwrap().reason, RebuildReason::Root(_)));
}

#[test]
fn a_directory_with_something_else_is_not_touched() {
    let fixture = Fixture::new(&[("net.py", CONNECT)]);
    fs::create_dir(fixture.index_directory()).unwrap();
    fs::write(fixture.index_directory().join("precious.txt"), "x").unwrap();
    assert!(matches!(fixture.open_with(None), Err(Error::ForeignDirectory(_))));
    assert_eq!(fs::read_dir(fixture.index_directory()).unwrap().count(), 1);
}

#[test]
fn reasons_for_an_empty_index_are_reported() {
    let fixture =
        Fixture::new(&[("a.unknown-kind", "x"), (".gitignore", "hidden.py\n"), ("hidden.py", CONNECT)]);
    let error = fixture.open_with(None).err().unwrap().to_string();
    assert!(error.contains("nothing to index"), "{error}");
    assert!(error.contains("a.unknown-kind") && error.contains("2 hidden or ignored"), "{error}");
}

#[test]
fn a_query_without_words_is_an_error() {
    let fixture = Fixture::new(&[("net.py", CONNECT)]);
    let index = fixture.open().index;
    for query in ["", "  ", "?!"] {
        assert!(matches!(answer(&index, query), Err(Error::EmptyQuery)), "{query:?}");
    }
}

#[test]
fn definitions_come_before_uses_and_tests_come_late() {
    let fixture = Fixture::new(&[
        ("pool.py", "class Pool:\n    \"\"\"Holds connections.\"\"\"\n    size = 1\n"),
        (
            "use.py",
            "def use():\n    \"\"\"Pool, pool, pool: takes a pool from the pool.\"\"\"\n    return Pool()\n",
        ),
        ("tests/test_pool.py", "class Pool:\n    \"\"\"Holds connections.\"\"\"\n    size = 1\n"),
    ]);
    let hits = search(&fixture.open().index, "Pool");
    assert_eq!(paths(&hits)[0], "pool.py");
    let rank = |path: &str| hits.iter().position(|hit| hit.path == path).unwrap();
    assert!(rank("pool.py") < rank("tests/test_pool.py"));
}

#[test]
fn a_symbol_is_found_however_it_is_typed() {
    let fixture = Fixture::new(&[
        ("header.py", "def parseHTTPHeader(line):\n    return line.split(':')\n"),
        ("pool.py", "class ConnectionPool:\n    size = 1\n"),
        ("use.py", "def use(line):\n    return parseHTTPHeader(line), ConnectionPool(line)\n"),
    ]);
    let index = fixture.open().index;
    for (typed, path) in [
        ("parsehttpheader", "header.py"),
        ("parse_http_header", "header.py"),
        ("parseHTPHeader", "header.py"),
        ("parsehttpheadr", "header.py"),
        ("connectionpool", "pool.py"),
        ("ConectionPool", "pool.py"),
    ] {
        let hits = search(&index, typed);
        assert_eq!(paths(&hits)[0], path, "{typed}");
    }
}

#[test]
fn confidence_distinguishes_found_from_not_found() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let index = fixture.open().index;
    let confidence = |query| answer(&index, query).unwrap().confidence;
    for found in ["open a socket to a host", "connect", "parse_header"] {
        assert!(confidence(found) > 0.5, "{found}: {}", confidence(found));
    }
    for lacking in ["zebra unicorn host recipes", "open_database_pool", "verify the signature of a token"] {
        assert!(confidence(lacking) < DEFAULT_THRESHOLD, "{lacking}: {}", confidence(lacking));
    }
    assert_eq!(confidence("zebra"), 0.0);
}

#[test]
fn a_file_can_be_the_tree() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("header.py", PARSE)]);
    let options = OpenOptions { directory: Some(fixture.index_directory()), ..OpenOptions::default() };
    let file: &Path = &fixture.root().join("net.py");
    let index = Index::open_or_build(file, &options, None, &|_| {}).unwrap().index;
    assert_eq!(index.n_files(), 1);
    assert_eq!(paths(&search(&index, "socket")), ["net.py"]);
}

#[test]
fn a_filter_narrows_what_is_found() {
    let fixture = Fixture::new(&[
        ("net.py", CONNECT),
        ("net.js", "function connect(host) { return dial(host); }\n"),
        ("README.md", "# Connect\n\nHow to connect to a host.\n"),
    ]);
    let index = fixture.open().index;
    let paths = |languages: &[&str], kinds: &[UnitKind], globs: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let filter = Filter::new(&owned(languages), kinds, &owned(globs)).unwrap();
        let hits = index.search(&request("connect host", &filter)).unwrap().hits;
        let mut paths: Vec<String> = hits.into_iter().map(|hit| hit.path).collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(&[], &[], &[]), ["README.md", "net.js", "net.py"]);
    assert_eq!(paths(&["python"], &[], &[]), ["net.py"]);
    assert_eq!(paths(&[], &[UnitKind::Section], &[]), ["README.md"]);
    assert_eq!(paths(&[], &[], &["!*.js"]), ["README.md", "net.py"]);
    assert_eq!(paths(&["python"], &[UnitKind::Type], &[]), [""; 0]);
}

#[test]
fn similar_units_are_those_with_like_words() {
    let copy = CONNECT.replace("connect", "reconnect");
    let fixture = Fixture::new(&[("a.py", CONNECT), ("b.py", &copy), ("c.py", PARSE)]);
    let index = fixture.open_with(Some(WordHashes::new("model"))).unwrap().index;
    let similar = |path, line| index.similar(path, line, 10, &Filter::default());
    let response = similar("a.py", 2).unwrap();
    assert_eq!(response.hits[0].name, "reconnect");
    assert!(response.confidence > 0.8, "{}", response.confidence);
    assert!(response.hits.iter().all(|hit| hit.name != "connect"));
    assert_eq!(index.unit_at("c.py", 3).unwrap().name, "parse_header");
    assert!(index.unit_at("c.py", 9).is_none());
    assert!(matches!(similar("d.py", 1), Err(Error::NoUnit { .. })));
}

#[test]
fn an_index_can_be_opened_as_it_is() {
    let fixture = Fixture::new(&[("net.py", CONNECT)]);
    let options = OpenOptions {
        directory: Some(fixture.index_directory()),
        update: Update::Never,
        ..OpenOptions::default()
    };
    let open = || Index::open_or_build(&fixture.root(), &options, None, &|_| {});
    let error = open().err().unwrap();
    assert!(matches!(error, Error::NoIndex { reason: RebuildReason::Missing, .. }), "{error}");
    assert!(!fixture.index_directory().exists());
    fixture.open();
    fixture.write("header.py", PARSE);
    let opened = open().unwrap();
    assert!(opened.built.is_none());
    assert_eq!(opened.index.n_files(), 1);
}

#[test]
fn the_status_says_what_there_is_and_builds_nothing() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("notes.md", "# A\n\nb\n"), ("a.unknown-kind", "x")]);
    let options = OpenOptions { directory: Some(fixture.index_directory()), ..OpenOptions::default() };
    let status = || Index::status(&fixture.root(), &options).unwrap();
    let missing = status();
    assert!(missing.index.is_none() && missing.stale == Some(RebuildReason::Missing));
    assert!(!fixture.index_directory().exists());

    fixture.open_with(Some(WordHashes::new("a"))).unwrap();
    let fresh = status();
    assert_eq!((fresh.stale, fresh.root), (None, fixture.root().canonicalize().unwrap()));
    let index = fresh.index.unwrap();
    assert_eq!((index.files, index.units, index.models), (2, 2, vec!["a".to_owned()]));
    assert_eq!((index.units_by_language["python"], index.units_by_language["markdown"]), (1, 1));
    assert!(index.units_by_kind.contains(&(UnitKind::Function, 1)), "{:?}", index.units_by_kind);
    assert_eq!(index.skipped.len(), 1);
    assert_eq!(
        (index.skipped[0].path.as_str(), &index.skipped[0].reason),
        ("a.unknown-kind", &SkipReason::UnknownLanguage)
    );
    assert!(index.bytes > 100 && index.made.elapsed().unwrap().as_secs() < 600);

    fixture.write("net.py", PARSE);
    fixture.write("new.py", PARSE);
    fs::remove_file(fixture.root().join("notes.md")).unwrap();
    assert_eq!(status().stale, Some(RebuildReason::Files(Changes { changed: 1, new: 1, removed: 1 })));
    let line = status().stale.unwrap().to_string();
    assert_eq!(line, "1 file changed, 1 new, 1 removed");
}
