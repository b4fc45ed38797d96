//! Handling of damaged indexes.

use std::fs::File;

use quarry_files::cache::Selection;
use quarry_index::{UserDirectories, UserIndexes};
use quarry_test_support::files::{copy, paths_below};

use super::*;

/// All files below a directory, relative to it.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let relative = |path: PathBuf| path.strip_prefix(directory).unwrap().to_owned();
    paths_below(directory).into_iter().map(relative).collect()
}

/// Ways to damage a file; each returns false if the file is unchanged.
const DAMAGES: [fn(&Path) -> bool; 4] = [
    |path| fs::remove_file(path).is_ok(),
    |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        !bytes.is_empty()
    },
    |path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x21);
        fs::write(path, &bytes).unwrap();
        !bytes.is_empty()
    },
    |path| {
        fs::write(path, b"\xff\xfegarbage").unwrap();
        true
    },
];

#[test]
fn damage_to_any_file_is_found_and_costs_no_vectors_but_those_in_it() {
    let fixture = Fixture::new(&[("net.py", CONNECT), ("http/header.py", PARSE)]);
    let (a, b) = (WordHashes::new("a"), WordHashes::new("b"));
    fixture.open_with(Some(a.clone())).unwrap();
    let before = files_below(&fixture.index_directory());
    let expected = all_hits(&fixture.open_with(Some(b.clone())).unwrap().index, "open a socket");
    let whole = tempfile::tempdir().unwrap();
    copy(&fixture.index_directory(), whole.path());
    let is_called = |file: &Path, name: &str| file.file_name().unwrap().to_string_lossy().starts_with(name);
    for file in files_below(whole.path()) {
        for (number, damage) in DAMAGES.iter().enumerate() {
            fs::remove_dir_all(fixture.index_directory()).unwrap();
            copy(whole.path(), &fixture.index_directory());
            if !damage(&fixture.index_directory().join(&file)) {
                continue;
            }
            let what = format!("damage {number} to {}", file.display());
            let Opened { index, built, .. } = fixture.open_with(Some(a.clone())).unwrap();
            assert_eq!(all_hits(&index, "open a socket"), expected, "{what}");
            let is_of_b = is_called(&file, "vectors-") && !before.contains(&file);
            let reason = built.as_ref().map(|report| &report.reason);
            // These files are not read.
            let is_unused =
                ["lock", ".gitignore", "manifest.copy.json"].iter().any(|name| is_called(&file, name));
            if is_unused || is_of_b {
                assert_eq!(reason, None, "{what}");
            } else if is_called(&file, "manifest.json") && number == 0 {
                assert_eq!(reason, Some(&RebuildReason::Missing), "{what}");
            } else {
                assert!(matches!(reason, Some(RebuildReason::Broken(_))), "{what}: {reason:?}");
            }
            let n_embedded =
                |built: Option<quarry_index::BuildReport>| built.map_or(0, |report| report.n_embedded);
            let of_a = n_embedded(built);
            let of_b = n_embedded(fixture.open_with(Some(b.clone())).unwrap().built);
            let lost = if is_called(&file, "hashes") {
                (2, 2)
            } else if is_of_b {
                (0, 2)
            } else if is_called(&file, "vectors-") {
                (2, 0)
            } else {
                (0, 0)
            };
            assert_eq!((of_a, of_b), lost, "{what}");
            assert!(fixture.open_with(Some(b.clone())).unwrap().built.is_none(), "{what}");
        }
    }
}

/// Flips a bit of a file, and leaves its time of modification as it was, as rot does.
fn flip(path: &Path, at: usize, bit: u8) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
    File::options().append(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// Copies an index with its times, so that nothing but its content tells that it is damaged.
fn restore(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    copy(from, to);
    for file in files_below(from) {
        let modified = fs::metadata(from.join(&file)).unwrap().modified().unwrap();
        File::options().append(true).open(to.join(&file)).unwrap().set_modified(modified).unwrap();
    }
}

/// Everything that a search reads: postings, symbols, vectors, tokens and calls.
fn answers(index: &Index) -> Result<String, Error> {
    index.read(|| {
        let mut answers = String::new();
        for query in ["open a socket to a host", "parse_header", "dial", "parse_haeder split lines"] {
            answers += &format!("{:?}\n", answer(index, query)?.hits);
        }
        answers += &format!("{:?}", index.callers("dial", &[], &Filter::default())?.found);
        Ok(answers)
    })
}

/// Positions spread over a file, its first and last byte among them.
fn positions(bytes: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n.min(bytes)).map(move |at| at * (bytes - 1) / (n.min(bytes) - 1).max(1))
}

/// `QUARRY_DAMAGE_POSITIONS` tries more positions of each file.
#[test]
fn one_flipped_bit_changes_no_answer_and_blocks_no_search() {
    let n = std::env::var("QUARRY_DAMAGE_POSITIONS").map_or(6, |n| n.parse().unwrap());
    let fixture = Fixture::new(&[("net.py", CONNECT), ("http/header.py", PARSE)]);
    let model: Arc<dyn Embedder> = WordHashes::new("a");
    let user = UserDirectories::below(fixture.directory.path());
    let open = |update| {
        let options = OpenOptions { update, user: user.clone(), ..OpenOptions::default() };
        (Index::open_or_build(&fixture.root(), &options, Some(model.clone()), &|_| {}), options)
    };
    let ask = |update| match open(update).0.and_then(|opened| answers(&opened.index)) {
        Err(Error::Replaced { .. }) => answers(&open(update).0.unwrap().index).unwrap(),
        found => found.unwrap(),
    };
    let expected = ask(Update::Required);
    let damage = || Index::damage(&fixture.root(), &open(Update::Never).1).unwrap();
    assert_eq!(damage().len(), 0);
    let (whole, cache) = (tempfile::tempdir().unwrap(), user.cache.clone().unwrap());
    restore(&cache, whole.path());
    let mut n_flipped = 0;
    for file in files_below(whole.path()) {
        let bytes = fs::metadata(whole.path().join(&file)).unwrap().len() as usize;
        for (number, at) in positions(bytes, n).enumerate() {
            let what = format!("bit {} of byte {at} of {}", number % 8, file.display());
            let damaged = || {
                restore(whole.path(), &cache);
                flip(&cache.join(&file), at, (number % 8) as u8);
            };
            damaged();
            assert_eq!(damage().len(), 1, "{what}");
            UserIndexes::list(&user).unwrap();
            UserIndexes::prune(&user, Selection::Useless, false).unwrap();
            assert_eq!(ask(Update::Required), expected, "{what}");
            damaged();
            assert_eq!(ask(Update::Anew), expected, "{what}");
            assert_eq!(damage().len(), 0, "{what}");
            n_flipped += 1;
        }
    }
    assert!(n_flipped > 10 * n, "{n_flipped}");
}
