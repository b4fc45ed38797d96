//! Indexes of which only a part may be open at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_embed::StaticModel;
use quarry_index::{Error, Index, OpenOptions, SegmentPool, Update, UserDirectories};
use quarry_test_support::files::paths_below;

use crate::answer;

fn open(tree: &Path, user: &Path, update: Update, pool: Option<Arc<SegmentPool>>) -> Index {
    let user = UserDirectories::below(user);
    let options = OpenOptions { update, user, pool, ..OpenOptions::default() };
    Index::open_or_build(tree, &options, Some(Arc::new(StaticModel::builtin())), &|_| {}).unwrap().index
}

fn names(index: &Index, query: &str) -> Result<Vec<(String, f32)>, Error> {
    let found = answer(index, query)?;
    Ok(found.hits.into_iter().map(|hit| (hit.name, hit.score)).collect())
}

#[test]
fn replaced_indexes_are_reported_and_not_searched() {
    let temporary = tempfile::tempdir().unwrap();
    let user = temporary.path().join("user");
    let trees = ["a", "b"].map(|name| temporary.path().join(name));
    for (tree, noun) in trees.iter().zip(["socket", "kettle"]) {
        fs::create_dir(tree).unwrap();
        let text = format!("def open_{noun}(host):\n    return dial(host)\n");
        fs::write(tree.join("code.py"), text).unwrap();
    }
    let n_replaced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&n_replaced);
    let replaced = move || {
        count.fetch_add(1, Ordering::SeqCst);
    };
    let pool = Arc::new(SegmentPool::new(1, replaced));
    let both = |pool: Option<Arc<SegmentPool>>| {
        let open = |tree: &PathBuf| open(tree, &user, Update::IfPossible, pool.clone());
        Index::merge(trees.iter().map(open).collect()).unwrap()
    };
    let expected = names(&both(None), "open_socket").unwrap();
    assert_eq!(expected.len(), 2);
    let limited = both(Some(Arc::clone(&pool)));
    for _ in 0..3 {
        assert_eq!(names(&limited, "open_socket").unwrap(), expected);
    }
    assert_eq!((pool.counts().open, n_replaced.load(Ordering::SeqCst)), (1, 0));
    // Another process builds it anew.
    drop(open(&trees[0], &user, Update::Anew, None));
    let error = names(&limited, "open_socket").unwrap_err();
    assert!(matches!(&error, Error::Replaced { path, .. } if path.starts_with(&user)), "{error}");
    assert_ne!(n_replaced.load(Ordering::SeqCst), 0);
    let limited = both(Some(Arc::clone(&pool)));
    assert_eq!(names(&limited, "open_socket").unwrap(), expected);
    // Whichever file is removed first.
    let index = fs::read_dir(user.join("cache/index")).unwrap().next().unwrap().unwrap().path();
    let mut n_needed = 0;
    for file in paths_below(&index) {
        let content = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        match names(&limited, "open_socket") {
            Ok(found) => assert_eq!(found, expected, "without {}", file.display()),
            Err(Error::Replaced { .. }) => n_needed += 1,
            Err(error) => panic!("without {}: {error}", file.display()),
        }
        fs::write(&file, content).unwrap();
    }
    assert!(n_needed > 3, "{n_needed}");
}
