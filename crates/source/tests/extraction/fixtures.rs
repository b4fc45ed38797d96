//! The files that the tests read.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use quarry_source::{Language, language_for, languages};

/// A file and its language.
pub(crate) struct Fixture {
    pub path: PathBuf,
    pub language: Language,
    pub source: Vec<u8>,
}

pub(crate) fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The files in a directory beside this one, ascending, without those of what is expected of them.
pub(crate) fn fixtures(name: &str) -> Vec<Fixture> {
    let mut paths: Vec<_> =
        fs::read_dir(directory(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_none_or(|extension| extension != "txt"));
    paths.sort();
    let read = |path: PathBuf| {
        let source = fs::read(&path).unwrap();
        Fixture { language: language_for(&path, b"").unwrap(), path, source }
    };
    paths.into_iter().map(read).collect()
}

/// Compares what `describe` says of each fixture with the file of what is expected; `UPDATE_EXPECT=1` writes the
/// latter. There is a fixture for each language that `is_covered` names. Those of languages that this build lacks the
/// grammar of are left out.
pub(crate) fn check_fixtures(
    name: &str,
    is_covered: impl Fn(Language) -> bool,
    describe: impl Fn(Language, &str) -> String,
) {
    let fixtures = fixtures(name);
    for language in languages().filter(|language| is_covered(*language)) {
        assert!(fixtures.iter().any(|fixture| fixture.language == language), "{name}: no {language:?}");
    }
    for Fixture { path, language, source } in fixtures {
        if language.lacks_grammar() {
            continue;
        }
        let description = describe(language, str::from_utf8(&source).unwrap());
        expect_file![format!("{}.txt", path.display())].assert_eq(&description);
    }
}
