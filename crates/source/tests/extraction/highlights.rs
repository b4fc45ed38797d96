//! Highlights in the fixtures.

use std::fs;
use std::path::Path;

use quarry_source::{highlights, languages};

#[test]
fn ranges_are_ascending_and_disjoint_in_every_language() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for language in languages() {
        let Some(extension) = language.extensions().first() else { continue };
        let source = fs::read(directory.join(format!("{}.{extension}", language.name())))
            .unwrap_or_else(|_| b"if x { \"a\" } else 'b' # c // d\n".to_vec());
        let mut end = 0;
        for (range, _) in highlights(language, &source) {
            assert!(end <= range.start && range.start < range.end, "{} {range:?}", language.name());
            end = range.end;
        }
        assert!(end <= source.len());
    }
}
