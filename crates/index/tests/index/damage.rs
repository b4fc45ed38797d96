//! Handling of damaged indexes.

use super::*;

/// All files below a directory, relative to it.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let name = PathBuf::from(entry.file_name());
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path()).into_iter().map(|path| name.join(path)));
        } else {
            files.push(name);
        }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        fs::create_dir_all(to.join(&file).parent().unwrap()).unwrap();
        fs::copy(from.join(&file), to.join(&file)).unwrap();
    }
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
