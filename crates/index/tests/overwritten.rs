//! Files of an index that another program writes into while they are searched.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use quarry_embed::StaticModel;
use quarry_index::{Error, Filter, Index, OpenOptions, SegmentPool, UserDirectories};
use quarry_test_support::files::paths_below;

use crate::answer;

/// Number of times that all files are overwritten.
const N_TIMES: usize = 80;

fn names(index: &Index) -> Result<Vec<String>, Error> {
    let found = answer(index, "open a socket")?;
    index.callers("dial", &[], &Filter::default())?;
    Ok(found.hits.into_iter().map(|hit| hit.name).collect())
}

/// Overwrites files as `cp` does: a file is truncated and written again.
fn check_searches_survive(pool: Option<Arc<SegmentPool>>) {
    let temporary = tempfile::tempdir().unwrap();
    let (tree, user) = (temporary.path().join("tree"), temporary.path().join("user"));
    fs::create_dir(&tree).unwrap();
    for number in 0..200 {
        let text = format!(
            "def open_{number}(host):\n    return dial(host)\n\n\ndef socket_{number}():\n    pass\n"
        );
        fs::write(tree.join(format!("code{number}.py")), text).unwrap();
    }
    let options = OpenOptions { user: UserDirectories::below(&user), pool, ..OpenOptions::default() };
    let model = Arc::new(StaticModel::builtin());
    let open = || Index::open_or_build(&tree, &options, Some(model.clone()), &|_| {}).unwrap().index;
    let expected = names(&open()).unwrap();
    assert!(expected.len() > 5);
    let backup: Vec<(PathBuf, Vec<u8>)> = paths_below(&user.join("cache"))
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    let (is_over, n_searches) = (AtomicBool::new(false), AtomicUsize::new(0));
    let n_found = thread::scope(|scope| {
        let search = || {
            let (mut index, mut n_found) = (open(), 0);
            while !is_over.load(Ordering::SeqCst) {
                match names(&index) {
                    Ok(found) => {
                        assert_eq!(found, expected);
                        n_found += 1;
                    }
                    Err(Error::Replaced { .. }) => index = open(),
                    Err(error) => panic!("{error}"),
                }
                n_searches.fetch_add(1, Ordering::SeqCst);
            }
            n_found
        };
        let searches = scope.spawn(search);
        for _ in 0..N_TIMES {
            let before = n_searches.load(Ordering::SeqCst);
            while n_searches.load(Ordering::SeqCst) == before && !searches.is_finished() {
                thread::yield_now();
            }
            for (path, content) in &backup {
                // Files that a new generation has removed are restored as well.
                if path.parent().is_some_and(Path::is_dir) {
                    fs::write(path, content).unwrap();
                }
            }
        }
        is_over.store(true, Ordering::SeqCst);
        searches.join().unwrap()
    });
    assert!(n_found > 0);
    assert_eq!(names(&open()).unwrap(), expected);
}

#[test]
fn searches_survive_a_copy_over_their_index() {
    check_searches_survive(None);
}

#[test]
fn searches_survive_a_copy_over_their_index_with_a_segment_pool() {
    let n_replaced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&n_replaced);
    check_searches_survive(Some(Arc::new(SegmentPool::new(1, move || {
        count.fetch_add(1, Ordering::SeqCst);
    }))));
    assert_ne!(n_replaced.load(Ordering::SeqCst), 0);
}
