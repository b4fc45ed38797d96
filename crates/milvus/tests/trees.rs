//! Trees that are uploaded, interrupted, searched, changed and removed, in an engine in memory.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use quarry_embed::StaticModel;
use quarry_index::{Filter, Hit, Index, OpenOptions, RankingWeights, SearchRequest, UserDirectories};
use quarry_milvus::{
    Engine, EngineError, MemoryEngine, Narrowing, ReadOptions, Reader, Record, Search, Space, UnitRow,
    Uploaded, remove, upload,
};
use tempfile::TempDir;

/// A tree with `n_files` files, each with two functions and a test.
fn tree(n_files: usize) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let verbs = ["read", "write", "parse", "send", "count", "merge", "split", "encode"];
    let nouns = ["order", "header", "packet", "token", "image", "query", "price"];
    for n in 0..n_files {
        let (verb, noun) = (verbs[n % verbs.len()], nouns[n % nouns.len()]);
        let text = format!(
            "\"\"\"About {noun}s.\"\"\"\n\ndef {verb}_{noun}_{n}(source, limit={n}):\n    \"\"\"{verb} the {noun} number {n} from a \
             source.\"\"\"\n    for item in source.items():\n        if item.{noun} > limit:\n            return item.{verb}()\n    \
             return None\n\ndef retry_{n}(action):\n    \"\"\"Try the action again with a longer pause after each \
             failure.\"\"\"\n    pause = 1\n    while not action():\n        wait(pause)\n        pause *= {n}\n"
        );
        fs::write(directory.path().join(format!("{noun}_{n}.py")), text).unwrap();
    }
    directory
}

fn index(tree: &Path) -> Index {
    let user = UserDirectories { cache: None, state: None };
    let options = OpenOptions { user, ..OpenOptions::default() };
    let model = Some(Arc::new(StaticModel::builtin()) as _);
    Index::open_or_build(tree, &options, model, &|_| ()).unwrap().index
}

fn store(engine: &dyn Engine, name: &str, tree: &Path) -> Result<Uploaded, EngineError> {
    upload(engine, (name, &tree.to_string_lossy()), &index(tree), &mut |_| ())
}

fn reader(engine: &Arc<MemoryEngine>) -> Reader {
    let (engine, model) = (Arc::clone(engine), Arc::new(StaticModel::builtin()));
    Reader::open(engine, model, ReadOptions::default()).unwrap()
}

fn hits(index: &Index, query: &str, filter: &Filter) -> Vec<Hit> {
    let request = SearchRequest { query, limit: 10, ranking: RankingWeights::default(), filter };
    index.search(&request).unwrap().hits
}

fn found(reader: &Reader, query: &str, filter: &Filter) -> Vec<Hit> {
    hits(&reader.search(Search::Query(query), filter, 10).unwrap(), query, filter)
}

/// The visible fields of hits.
fn shown(hits: &[Hit]) -> Vec<(String, u32, u32, String, String)> {
    let shown = |hit: &Hit| {
        let score = format!("{:.3}", hit.score);
        (hit.path.clone(), hit.start_line, hit.end_line, hit.name.clone(), score)
    };
    hits.iter().map(shown).collect()
}

const QUERIES: [&str; 6] = [
    "try again after a failure with a longer pause",
    "parse the header from a source",
    "read_order_0",
    "readorder0",
    "count",
    "price number 6",
];

#[test]
fn results_are_those_of_the_local_index() {
    let (engine, tree) = (Arc::new(MemoryEngine::default()), tree(120));
    let local = index(tree.path());
    store(&*engine, "shop", tree.path()).unwrap();
    let reader = reader(&engine);
    assert_eq!(reader.totals().units as usize, local.n_units());
    assert_eq!(reader.totals().files as usize, local.n_files());
    let python = Filter::new(&["python".to_owned()], &[], &["*_1*.py".to_owned()]).unwrap();
    for filter in [Filter::default(), python] {
        for query in QUERIES {
            let (expected, found) = (hits(&local, query, &filter), found(&reader, query, &filter));
            assert!(!expected.is_empty());
            assert_eq!(shown(&found), shown(&expected), "{query}");
        }
    }
    // Its text is there without its files.
    let index = reader.search(Search::Query(QUERIES[0]), &Filter::default(), 10).unwrap();
    let hit = &hits(&index, QUERIES[0], &Filter::default())[0];
    let source = local.source(&hits(&local, QUERIES[0], &Filter::default())[0]).unwrap();
    tree.close().unwrap();
    assert_eq!(index.source(hit).unwrap(), source);
    assert!(source.text.contains("pause"));
}

#[test]
fn similar_units_and_files_are_found() {
    let (engine, tree) = (Arc::new(MemoryEngine::default()), tree(40));
    let local = index(tree.path());
    store(&*engine, "shop", tree.path()).unwrap();
    let reader = reader(&engine);
    let path = "order_0.py";
    let here = reader.search(Search::Like(0, path, 4), &Filter::default(), 5).unwrap();
    let expected = local.similar(path, 4, 5, &Filter::default()).unwrap();
    let found = here.similar(path, 4, 5, &Filter::default()).unwrap();
    assert_eq!(shown(&found.hits), shown(&expected.hits));
    let file = reader.file(0, path).unwrap();
    let text = file.file(0, path).unwrap().text().unwrap();
    assert_eq!(text.bytes(), fs::read(tree.path().join(path)).unwrap());
    assert!(reader.file(0, "nowhere.py").unwrap().file(0, "nowhere.py").is_none());
    assert!(reader.file(7, path).unwrap().file(7, path).is_none());
}

#[test]
fn only_changes_are_uploaded_and_missing_files_are_removed() {
    let (engine, tree) = (Arc::new(MemoryEngine::default()), tree(30));
    let first = store(&*engine, "shop", tree.path()).unwrap();
    assert_eq!((first.files, first.stored_files, first.removed_files), (30, 30, 0));
    let sizes = engine.sizes();
    let again = store(&*engine, "shop", tree.path()).unwrap();
    assert_eq!((again.stored_files, again.units, engine.sizes()), (0, first.units, sizes));
    let reader = reader(&engine);
    let path = tree.path().join("order_0.py");
    let before = fs::read(&path).unwrap();
    fs::write(&path, "def dispatch_parcel(parcel):\n    return parcel.courier\n").unwrap();
    fs::remove_file(tree.path().join("header_1.py")).unwrap();
    let changed = store(&*engine, "shop", tree.path()).unwrap();
    assert_eq!((changed.files, changed.stored_files, changed.removed_files), (29, 1, 2));
    assert!(engine.sizes().1 < sizes.1);
    // A reader that was open sees it.
    let filter = Filter::default();
    assert_eq!(found(&reader, "parcel courier", &filter)[0].path, "order_0.py");
    assert!(found(&reader, "read_order_0", &filter).iter().all(|hit| hit.name != "read_order_0"));
    let local = index(tree.path());
    for query in QUERIES {
        assert_eq!(shown(&found(&reader, query, &filter)), shown(&hits(&local, query, &filter)), "{query}");
    }
    // And back: nothing is left of what was between.
    fs::write(&path, before).unwrap();
    fs::write(tree.path().join("header_1.py"), "x = 1\n").unwrap();
    store(&*engine, "shop", tree.path()).unwrap();
    assert_eq!(found(&reader, "read_order_0", &filter)[0].name, "read_order_0");
}

#[test]
fn trees_are_ranked_together_and_apart() {
    let (engine, first, second) = (Arc::new(MemoryEngine::default()), tree(50), tempfile::tempdir().unwrap());
    fs::write(second.path().join("order_0.py"), "def ship_order(order):\n    return order.ship()\n").unwrap();
    store(&*engine, "shop", first.path()).unwrap();
    store(&*engine, "lib", second.path()).unwrap();
    let reader = reader(&engine);
    let names: Vec<&str> = reader.trees().iter().map(|tree| tree.name.as_str()).collect();
    assert_eq!(names, ["lib", "shop"]);
    let both = found(&reader, "order", &Filter::default());
    assert!([0, 1].iter().all(|root| both.iter().any(|hit| hit.root == *root)));
    let one = found(&reader, "order", &Filter::default().in_roots(vec![0]));
    assert!(!one.is_empty() && one.iter().all(|hit| hit.root == 0 && hit.path == "order_0.py"));
    remove(&*engine, "shop").unwrap();
    let left = found(&reader, "order", &Filter::default());
    assert!(!left.is_empty() && left.iter().all(|hit| hit.root == 0));
    let error = remove(&*engine, "shop").unwrap_err().to_string();
    assert_eq!(error, "the engine has no tree shop; it has lib");
    remove(&*engine, "lib").unwrap();
    assert_eq!(engine.sizes(), (0, 0));
    assert!(found(&reader, "order", &Filter::default()).is_empty());
}

#[test]
fn names_and_models_are_checked() {
    let (engine, first, second) = (MemoryEngine::default(), tree(2), tree(3));
    store(&engine, "shop", first.path()).unwrap();
    assert!(matches!(store(&engine, "shop", second.path()), Err(EngineError::Taken { .. })));
    assert!(matches!(store(&engine, "a\"b", second.path()), Err(EngineError::Name { .. })));
    assert!(matches!(engine.prepare(7), Err(EngineError::Refused { .. })));
}

/// An engine that fails after some requests that write, and may call something before each.
struct Faulty<'a> {
    inner: &'a MemoryEngine,
    writes_left: AtomicUsize,
    before_write: Mutex<Box<dyn FnMut() + Send + 'a>>,
    is_in_call: AtomicBool,
}

impl<'a> Faulty<'a> {
    fn after(inner: &'a MemoryEngine, writes: usize) -> Self {
        let before_write = Mutex::new(Box::new(|| ()) as _);
        Self {
            inner,
            writes_left: AtomicUsize::new(writes),
            before_write,
            is_in_call: AtomicBool::new(false),
        }
    }

    fn write(&self) -> Result<(), EngineError> {
        if !self.is_in_call.swap(true, Ordering::SeqCst) {
            (self.before_write.lock().unwrap())();
            self.is_in_call.store(false, Ordering::SeqCst);
        }
        let left =
            self.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(|_| ()).map_err(|_| EngineError::Unavailable {
            address: "faulty".to_owned(),
            reason: "on purpose".to_owned(),
        })
    }
}

impl Engine for Faulty<'_> {
    fn prepare(&self, dimension: usize) -> Result<(), EngineError> {
        self.inner.prepare(dimension)
    }

    fn put(&self, space: Space, records: &[Record]) -> Result<(), EngineError> {
        self.write()?;
        self.inner.put(space, records)
    }

    fn get(&self, space: Space, keys: &[String]) -> Result<Vec<Record>, EngineError> {
        self.inner.get(space, keys)
    }

    fn all(&self, space: Space) -> Result<Vec<Record>, EngineError> {
        self.inner.all(space)
    }

    fn keys(&self, space: Space, tree: &str) -> Result<Vec<String>, EngineError> {
        self.inner.keys(space, tree)
    }

    fn delete(&self, space: Space, keys: &[String]) -> Result<(), EngineError> {
        self.write()?;
        self.inner.delete(space, keys)
    }

    fn put_units(&self, units: &[UnitRow]) -> Result<(), EngineError> {
        self.write()?;
        self.inner.put_units(units)
    }

    fn delete_units(&self, files: &[String]) -> Result<(), EngineError> {
        self.write()?;
        self.inner.delete_units(files)
    }

    fn nearest(&self, vector: &[f32], limit: usize, within: &Narrowing) -> Result<Vec<String>, EngineError> {
        self.inner.nearest(vector, limit, within)
    }

    fn with_terms(
        &self,
        terms: &[(u32, f32)],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError> {
        self.inner.with_terms(terms, limit, within)
    }

    fn defining(
        &self,
        symbols: &[String],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError> {
        self.inner.defining(symbols, limit, within)
    }
}

fn change(tree: &Path, text: &str) {
    for entry in fs::read_dir(tree).unwrap() {
        let path = entry.unwrap().path();
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{before}\n\ndef {text}():\n    return '{text}'\n")).unwrap();
    }
}

/// The words by which a state of the tree is known, in all files: all old or all new.
fn states(reader: &Reader) -> Vec<usize> {
    let words = ["before_everything", "after_everything"];
    let found =
        |word: &&str| found(reader, word, &Filter::default()).iter().filter(|hit| hit.name == **word).count();
    words.iter().map(found).collect()
}

#[test]
fn an_upload_that_fails_anywhere_leaves_the_tree_as_it_was_and_is_resumed() {
    let (tree, other) = (tree(400), tempfile::tempdir().unwrap());
    for entry in fs::read_dir(tree.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, other.path().join(path.file_name().unwrap())).unwrap();
    }
    change(tree.path(), "before_everything");
    let before = index(tree.path());
    let root = tree.path().to_string_lossy().into_owned();
    // The same files, changed: as if the tree had been changed in place.
    change(other.path(), "after_everything");
    let after = index(other.path());
    let mut failures = 0;
    for writes in 0.. {
        let engine = Arc::new(MemoryEngine::default());
        upload(&*engine, ("shop", &root), &before, &mut |_| ()).unwrap();
        let reader = reader(&engine);
        let faulty = Faulty::after(&engine, writes);
        let failed = upload(&faulty, ("shop", &root), &after, &mut |_| ());
        let seen = states(&reader);
        assert!((seen[0] == 0) != (seen[1] == 0), "after {writes} writes: {seen:?}");
        if failed.is_ok() {
            assert_eq!(seen[0], 0);
            break;
        }
        failures += 1;
        let resumed = upload(&*engine, ("shop", &root), &after, &mut |_| ()).unwrap();
        assert_eq!(states(&reader)[0], 0);
        let clean = MemoryEngine::default();
        upload(&clean, ("shop", &root), &after, &mut |_| ()).unwrap();
        assert_eq!(engine.sizes(), clean.sizes(), "nothing is left over after {writes} writes");
        if writes == 4 {
            assert!(resumed.resumed_files > 0 && resumed.stored_files < 400, "{resumed:?}");
        }
    }
    assert!(failures > 8, "{failures}");
}

#[test]
fn a_reader_beside_a_writer_sees_the_tree_before_or_after() {
    let (tree, other) = (tree(60), tempfile::tempdir().unwrap());
    for entry in fs::read_dir(tree.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, other.path().join(path.file_name().unwrap())).unwrap();
    }
    change(tree.path(), "before_everything");
    change(other.path(), "after_everything");
    let indexes = [index(tree.path()), index(other.path())];
    let engine = Arc::new(MemoryEngine::default());
    let root = tree.path().to_string_lossy().into_owned();
    upload(&*engine, ("shop", &root), &indexes[0], &mut |_| ()).unwrap();
    let reader = reader(&engine);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let searched = scope.spawn(|| {
            let mut seen = Vec::new();
            while !is_over.load(Ordering::SeqCst) || seen.len() < 3 {
                // Both words in one search, so that both are of one moment.
                let query = "before_everything after_everything";
                let all = match reader.search(Search::Query(query), &Filter::default(), 100) {
                    Ok(index) => index,
                    // Replaced faster than it can be searched.
                    Err(EngineError::Replaced) => continue,
                    Err(error) => panic!("{error}"),
                };
                let names = |name: &str| all.units(&Filter::default()).filter(|hit| hit.name == name).count();
                let (before, after) = (names("before_everything"), names("after_everything"));
                assert!((before == 0) != (after == 0), "{before} and {after}");
                seen.push(before == 0);
            }
            seen
        });
        for round in 0..20 {
            upload(&*engine, ("shop", &root), &indexes[(round + 1) % 2], &mut |_| ()).unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(searched.join().unwrap().len() >= 3);
    });
}

#[test]
fn the_earlier_of_two_writers_stops() {
    let tree = tree(400);
    let root = tree.path().to_string_lossy().into_owned();
    let index = index(tree.path());
    let engine = Arc::new(MemoryEngine::default());
    let mut writes = 0;
    let faulty = Faulty::after(&engine, usize::MAX);
    let (inner, of_tree, root_of_tree) = (&engine, &index, &root);
    *faulty.before_write.lock().unwrap() = Box::new(move || {
        writes += 1;
        if writes == 3 {
            upload(&**inner, ("shop", root_of_tree), of_tree, &mut |_| ()).unwrap();
        }
    });
    let error = upload(&faulty, ("shop", &root), &index, &mut |_| ()).unwrap_err();
    assert!(matches!(error, EngineError::Conflict { .. }), "{error}");
    // The data of the second writer is complete; late writes of the first are removed by the next upload.
    assert_eq!(found(&reader(&engine), "read_order_0", &Filter::default())[0].name, "read_order_0");
    drop(faulty);
    let again = upload(&*engine, ("shop", &root), &index, &mut |_| ()).unwrap();
    assert_eq!(again.stored_files, 0);
}

#[test]
fn damaged_records_are_reported() {
    let (engine, tree) = (Arc::new(MemoryEngine::default()), tree(3));
    store(&*engine, "shop", tree.path()).unwrap();
    let keys = engine.keys(Space::Records, "shop").unwrap();
    let reader = reader(&engine);
    engine.delete(Space::Records, &keys).unwrap();
    let error =
        reader.search(Search::Query("order"), &Filter::default(), 10).err().map(|error| error.to_string());
    assert!(error.as_deref().is_some_and(|error| error.contains("--remove")), "{error:?}");
    let head = Record { key: "tree/shop".to_owned(), tree: "shop".to_owned(), value: "{}".to_owned() };
    engine.put(Space::Trees, &[head]).unwrap();
    assert!(matches!(store(&*engine, "shop", tree.path()), Err(EngineError::Damaged { .. })));
    remove(&*engine, "shop").unwrap();
    store(&*engine, "shop", tree.path()).unwrap();
    assert!(!found(&reader, "order", &Filter::default()).is_empty());
}
