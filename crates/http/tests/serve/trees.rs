//! More trees than may be open at a time.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use quarry_test_support::files::write_below;

use crate::fixture::{Served, Start, serve_all};

const N_TREES: usize = 24;

/// Trees with a function each that no other one has, and one that all have.
fn serve_many(max_open: Option<u64>) -> Served {
    let nouns = ["kettle", "lantern", "harbor", "violin", "glacier", "orchard"];
    let verbs = ["polish", "borrow", "measure", "repair"];
    let text = |tree: usize| {
        let (verb, noun) = (verbs[tree / nouns.len()], nouns[tree % nouns.len()]);
        format!(
            "def {verb}_{noun}(thing):\n    return thing.{verb}(1)\n\n\ndef common_sum(a, b):\n    return a + b + {tree}\n"
        )
    };
    let texts: Vec<String> = (0..N_TREES).map(text).collect();
    let names: Vec<String> = (0..N_TREES).map(|tree| format!("tree-{tree}")).collect();
    let files: Vec<[(&str, &str); 1]> = texts.iter().map(|text| [("code.py", text.as_str())]).collect();
    let trees: Vec<(&str, &[(&str, &str)])> =
        names.iter().zip(&files).map(|(name, files)| (name.as_str(), files.as_slice())).collect();
    serve_all(&trees, Start { max_open, ..Start::default() })
}

fn found(served: &Served, path: &str) -> Vec<(String, f64)> {
    let reply = served.get(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    let answer = reply.json();
    let results = answer["results"].as_array().unwrap().iter();
    results
        .map(|result| (result["name"].as_str().unwrap().to_owned(), result["score"].as_f64().unwrap()))
        .collect()
}

fn metric(served: &Served, name: &str) -> u64 {
    let metrics = served.get("/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

#[test]
fn all_trees_are_found_though_few_may_be_open() {
    // One byte: whatever is opened is closed for the next.
    let (limited, all_open) = (serve_many(Some(1)), serve_many(None));
    let paths: Vec<String> = ["polish_kettle", "repair+the+orchard", "measure+a+violin", "common_sum"]
        .into_iter()
        .flat_map(|query| {
            let of_one = (0..N_TREES).map(move |tree| format!("/api/v1/search?q={query}&tree=tree-{tree}"));
            of_one.chain([format!("/api/v1/search?q={query}&limit=100&explain=1")])
        })
        .collect();
    let expected: Vec<_> = paths.iter().map(|path| found(&all_open, path)).collect();
    assert!(expected.iter().filter(|results| !results.is_empty()).count() > N_TREES);
    for (path, expected) in paths.iter().zip(&expected) {
        assert_eq!(&found(&limited, path), expected, "{path}");
    }
    thread::scope(|scope| {
        for thread in 0..8 {
            let (paths, expected, limited) = (&paths, &expected, &limited);
            scope.spawn(move || {
                for number in (0..paths.len()).filter(|number| number % 8 == thread) {
                    assert_eq!(found(limited, &paths[number]), expected[number], "{}", paths[number]);
                }
            });
        }
    });
    assert_eq!(metric(&limited, "quarry_segments_open"), 1);
    assert!(metric(&limited, "quarry_segments_closed_total") > 4 * N_TREES as u64);
    assert!(!all_open.get("/metrics").body.contains("quarry_segments"));
}

#[test]
fn segments_stay_open_within_the_limit() {
    let served = serve_many(Some(1 << 30));
    let first = found(&served, "/api/v1/search?q=common_sum");
    let opened = metric(&served, "quarry_segments_opened_total");
    assert_eq!(found(&served, "/api/v1/search?q=common_sum"), first);
    assert_eq!(metric(&served, "quarry_segments_opened_total"), opened);
    // The postings and the vectors of each.
    assert_eq!(metric(&served, "quarry_segments_open"), 2 * N_TREES as u64);
}

#[test]
fn an_index_that_another_program_has_replaced_is_opened_again() {
    let served = serve_many(Some(1));
    let path = "/api/v1/search?q=polish_kettle";
    let expected = found(&served, path);
    served.replace();
    thread::scope(|scope| {
        let asked = [path, "/?q=polish_kettle", "/api/v1/search/stream?q=polish_kettle"]
            .map(|path| scope.spawn(|| served.get(path)));
        for request in asked {
            let reply = request.join().unwrap();
            assert!(reply.status == 200 && reply.body.contains("polish_kettle"), "{reply:?}");
        }
    });
    assert_eq!(found(&served, path), expected);
}

#[test]
fn an_answer_that_does_not_wait_for_the_update_of_the_index_names_the_changed_files() {
    let served = crate::fixture::serve();
    let (lock, root) = (served.lock_file(), served.directory().canonicalize().unwrap());
    lock.lock().unwrap();
    write_below(&root, &[("src/sleep.py", "def sleep_deeply(hours):\n    pause(3600 * hours)\n")]);
    fs::remove_file(root.join("lib/http.rs")).unwrap();
    served.trees.expect(Some(Instant::now()));
    let paths = ["/api/v1/search?q=sleep_deeply", "/api/v1/callers?name=pause"];
    for path in paths {
        let behind = &served.get(path).json()["behind"];
        assert_eq!(behind["total"], 2, "{behind}");
        let mut files: Vec<&str> =
            behind["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
        files.sort_unstable();
        assert_eq!(files, ["lib/http.rs", "src/sleep.py"]);
        assert_eq!(behind["files"][0]["root"], root.to_str().unwrap());
    }
    assert!(served.get("/?q=pause").body.contains("2 files changed since the index was built"));
    lock.unlock().unwrap();
    let is_fresh = || {
        let answer = served.get(paths[0]).json();
        answer.get("behind").is_none() && answer["results"][0]["name"] == "sleep_deeply"
    };
    assert!((0..300).any(|_| {
        thread::sleep(Duration::from_millis(100));
        is_fresh()
    }));
}
