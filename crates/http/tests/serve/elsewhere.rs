//! Trees that are kept elsewhere, of which every request gets a part.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use quarry_embed::StaticModel;
use quarry_index::{Error, Index, OpenOptions};
use quarry_session::{Elsewhere, Need, Tree};

use crate::fixture::{FILES, Served, Start, serve_with};

/// An index that is opened for each request.
struct Kept {
    tree: PathBuf,
    asked: Mutex<Vec<String>>,
    is_away: AtomicBool,
}

impl Elsewhere for Kept {
    fn index(&self, need: &Need) -> Result<Index, Error> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::Elsewhere("nobody answers at 10.0.0.7".into()));
        }
        let what = match need {
            Need::Query(text, _, limit) => format!("query {text} {limit}"),
            Need::Like((root, path, line), _, limit) => format!("like {root} {path} {line} {limit}"),
            Need::File(root, path) => format!("file {root} {path}"),
            Need::Calls => return Err(Error::NotKept { what: "who calls what" }),
        };
        self.asked.lock().unwrap().push(what);
        Ok(index(&self.tree))
    }

    fn sizes(&self) -> (usize, usize) {
        (70_000, 5_000)
    }
}

fn index(tree: &Path) -> Index {
    let options = OpenOptions { directory: Some(tree.with_file_name("index")), ..OpenOptions::default() };
    Index::open_or_build(tree, &options, Some(Arc::new(StaticModel::builtin())), &|_| {}).unwrap().index
}

fn serve() -> (Served, Arc<Kept>) {
    let served = serve_with(&FILES, Start { is_building: true, ..Start::default() });
    let tree = served.directory();
    let kept = Kept { tree: tree.clone(), asked: Mutex::default(), is_away: AtomicBool::new(false) };
    let kept = Arc::new(kept);
    let elsewhere = Arc::clone(&kept) as Arc<dyn Elsewhere>;
    served.trees.show(&Tree::elsewhere(&[PathBuf::from("/far/shop")], index(&tree), elsewhere));
    (served, kept)
}

#[test]
fn every_request_gets_what_it_needs() {
    let (served, kept) = serve();
    let answer = served.get("/api/v1/search?q=retry+with+backoff&limit=2").json();
    assert_eq!(answer["results"][0]["path"], "src/retry.py");
    assert_eq!(answer["results"][0]["root"], "/far/shop");
    assert!(answer["open_ms"].as_f64().unwrap() > 0.0);
    assert!(served.get("/?q=retry").body.contains("retry_with_backoff"));
    let similar = served.get("/api/v1/similar?path=src/wait.py&line=2&limit=1").json();
    assert_eq!(similar["similar_to"]["name"], "pause");
    assert!(served.get("/file/shop/src/wait.py").body.contains("clock"));
    assert_eq!(served.get("/raw/shop/lib/http.rs").body, FILES[2].1);
    let asked = kept.asked.lock().unwrap().clone();
    let expected = [
        "query retry with backoff 2",
        "query retry 11",
        "like 0 src/wait.py 2 1",
        "file 0 src/wait.py",
        "file 0 lib/http.rs",
    ];
    assert_eq!(asked, expected);
    let start = served.get("/").body;
    assert!(start.contains("70000 units"), "{start}");
    assert!(start.contains("5000 files"), "{start}");
    assert!(start.contains("another engine"), "{start}");
    assert!(served.get("/metrics").body.contains("\nquarry_index_units 70000\n"));
}

#[test]
fn data_that_is_not_stored_is_not_found_and_not_linked() {
    let (served, _) = serve();
    for path in [
        "/api/v1/callers?name=pause",
        "/api/v1/callees?name=pause",
        "/api/v1/related?name=pause",
        "/calls?name=pause",
        "/related?name=pause",
        "/history/shop/src/wait.py",
        "/commits?q=pause",
    ] {
        let reply = served.get(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.body.contains("who calls what is not kept"), "{}", reply.body);
    }
    assert!(!served.get("/?q=retry").body.contains("/calls?"));
    assert!(!served.get("/file/shop/src/wait.py?line=2").body.contains("/calls?"));
}

#[test]
fn an_unavailable_engine_is_answered_with_503_and_no_address() {
    let (served, kept) = serve();
    kept.is_away.store(true, Ordering::SeqCst);
    for path in ["/api/v1/search?q=retry", "/?q=retry", "/file/shop/src/wait.py", "/raw/shop/src/wait.py"] {
        let reply = served.get(path);
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("5")), "{path}");
        assert!(!reply.body.contains("10.0.0.7"), "{}", reply.body);
    }
    kept.is_away.store(false, Ordering::SeqCst);
    assert_eq!(served.get("/api/v1/search?q=retry").status, 200);
}
