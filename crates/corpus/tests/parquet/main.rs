//! Parquet files from several writers, intact and damaged. `make.py` wrote them.

use quarry_corpus::dataset::convert::{ConvertOptions, Target, benchmark, convert};
use quarry_corpus::dataset::sources;
use quarry_corpus::formats::source::Source;
use quarry_corpus::formats::{Encoding, FormatError, Record};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parquet").join(name)
}

fn records(path: &Path, wanted: &str) -> Result<Vec<Record>, FormatError> {
    let mut records = Vec::new();
    Source::open(path, wanted)?.for_each(&mut |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

#[test]
fn tables_of_several_writers_are_one_data_set() {
    let paths = ["corpus", "queries", "qrels"].map(|name| fixture(&format!("{name}.parquet")));
    let found = sources(&paths, "", "test").unwrap();
    assert!(found.iter().all(|source| source.container == Encoding::Parquet));
    let data = benchmark(&found, &ConvertOptions::default()).unwrap();
    assert_eq!((data.documents.len(), data.queries.len(), data.qrels.len()), (300, 30, 30));
    for (i, document) in data.documents.iter().enumerate() {
        let title = if i % 3 == 0 { format!("title {i}") } else { String::new() };
        assert_eq!(
            (document.id.as_str(), document.title.as_str()),
            (format!("d{i}").as_str(), title.as_str())
        );
        assert_eq!(document.text, format!("def f{i}(): return {}", i % 7));
    }
    assert_eq!(data.queries[29].text, "what is 29 é");
    assert_eq!((data.qrels["q4"]["d4"], data.qrels["q5"]["d5"]), (0, 1));
}

#[test]
fn lists_keep_their_elements() {
    let mut lists = [0; 30];
    for record in records(&fixture("top_ranked.parquet"), "").unwrap() {
        let Record::Retrieved(found) = record else { panic!("{record:?}") };
        let (query, place) =
            (found.query.parse::<usize>().unwrap(), &mut lists[found.query.parse::<usize>().unwrap()]);
        let expected = if query == 29 { 1 + *place % 2 } else { *place };
        assert_eq!(found.document, format!("d{expected}"));
        *place += 1;
    }
    assert_eq!((&lists[..29], lists[29]), (&(0..29).map(|i| i % 5).collect::<Vec<_>>()[..], 100));
}

#[test]
fn a_configuration_stands_for_its_directories() {
    let directory = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("corpus", "go-corpus/corpus"),
        ("queries", "go-queries/queries"),
        ("qrels", "go-qrels/test"),
        ("corpus", "rust-corpus/corpus"),
        ("qrels", "default/test"),
    ] {
        let to = directory.path().join(format!("{to}-00000-of-00001.parquet"));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(fixture(&format!("{from}.parquet")), to).unwrap();
    }
    let inside = |subset| {
        let paths = [
            directory.path().join("go-corpus"),
            directory.path().join("go-queries"),
            directory.path().join(subset),
        ];
        benchmark(&sources(&paths, "", "test").unwrap(), &ConvertOptions::default()).unwrap()
    };
    assert_eq!(inside("go-qrels"), inside("default"));
}

#[test]
fn other_tables_are_refused() {
    let error = records(&fixture("qrels.parquet"), "mteb-corpus").unwrap_err().to_string();
    assert!(error.contains("record 1: expected a column `id`") && error.contains("corpus-id"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let whole = fs::read(fixture("corpus.parquet")).unwrap();
    for end in [4, 11, 12, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..end]).unwrap();
        let error = records(&path, "beir-corpus").unwrap_err().to_string();
        assert!(error.contains("record 1: expected a complete Parquet file"), "{error}");
        assert!(error.contains("download the file again"), "{error}");
    }
}

/// Any file is read or rejected, without a panic and without more memory than its size justifies.
#[test]
fn broken_files_are_refused_or_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let n_cases: usize = std::env::var("PROPTEST_CASES").map_or(400, |n| n.parse().unwrap());
    let mut n_refused = 0;
    let files = [
        ("corpus", "beir-corpus"),
        ("queries", "mteb-queries"),
        ("qrels", "mteb-qrels"),
        ("top_ranked", "mteb-top-ranked"),
    ];
    for (file, format) in files {
        let whole = fs::read(fixture(&format!("{file}.parquet"))).unwrap();
        let metadata = whole.len()
            - 8
            - u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap()) as usize;
        let mut random = fastrand::Rng::with_seed(7);
        for case in 0..n_cases {
            let mut bytes = whole.clone();
            // Half of the cases damage the metadata, half the pages.
            let range = if case % 2 == 0 { metadata..whole.len() - 8 } else { 4..metadata };
            for _ in 0..random.usize(1..4) {
                let place = random.usize(range.clone());
                bytes[place] = match random.u8(..3) {
                    0 => bytes[place] ^ (1 << random.u8(..8)),
                    1 => [0, 1, 0x7f, 0x80, 0xff][random.usize(..5)],
                    _ => random.u8(..),
                };
            }
            fs::write(&path, bytes).unwrap();
            n_refused += usize::from(records(&path, format).is_err());
        }
    }
    assert!(n_refused > n_cases / 4, "{n_refused}");
}

#[test]
fn converted_tables_read_back_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let fixtures = ["corpus", "queries", "qrels"].map(|name| fixture(&format!("{name}.parquet")));
    let before = sources(&fixtures, "", "test").unwrap();
    let out = directory.path().join("data");
    let target = Target::named("mteb-parquet").unwrap();
    let written = convert(&before, target, &out, "dev", &ConvertOptions::default()).unwrap().files;
    assert_eq!(written.iter().map(|file| file.records).collect::<Vec<_>>(), [300, 30, 30]);
    assert_eq!(written[2].path, out.join("qrels/dev-00000-of-00001.parquet"));
    let after = sources(&[out], "", "dev").unwrap();
    assert!(after.iter().all(|source| source.container == Encoding::Parquet));
    let read = |sources: &[Source]| benchmark(sources, &ConvertOptions::default()).unwrap();
    assert_eq!(read(&after), read(&before));
    // A single file, given by name; with lists, numbers and languages.
    let functions = directory.path().join("functions.jsonl");
    let function = |number: usize, tokens: &[&str]| {
        serde_json::json!({
            "repo": "o/n", "path": "a.go", "func_name": format!("f{number}"), "language": "go",
            "code": "func é", "code_tokens": tokens, "docstring": "says é", "docstring_tokens": ["says"],
            "url": format!("u{number}"),
        })
        .to_string()
    };
    let lines = [function(0, &["func", "é"]), function(1, &[]), function(2, &["x"; 300])];
    fs::write(&functions, lines.join("\n")).unwrap();
    let from = sources(&[functions], "", "").unwrap();
    let out = directory.path().join("functions.parquet");
    convert(&from, Target::named("codesearchnet").unwrap(), &out, "", &ConvertOptions::default()).unwrap();
    let (Record::Pair(first), Record::Pair(last)) =
        (&records(&out, "").unwrap()[0], &records(&out, "").unwrap()[2])
    else {
        panic!("pairs")
    };
    assert_eq!((first.code.tokens.as_deref(), first.language.as_deref()), (Some("func é"), Some("go")));
    assert_eq!(last.code.tokens.as_deref().map(|tokens| tokens.split(' ').count()), Some(300));
    assert_eq!(records(&out, "").unwrap().len(), 3);
}

#[test]
fn a_table_of_many_row_groups_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let (from, out) = (directory.path().join("corpus.jsonl"), directory.path().join("corpus.parquet"));
    // More bytes than fit in one row group.
    let text = |number: usize| format!("{number} {}", "word ".repeat(20_000 + number));
    let lines: Vec<String> =
        (0..800).map(|number| serde_json::json!({"_id": number, "text": text(number)}).to_string()).collect();
    fs::write(&from, lines.join("\n")).unwrap();
    let target = Target::named("beir-corpus").unwrap();
    convert(&sources(&[from], "", "").unwrap(), target, &out, "", &ConvertOptions::default()).unwrap();
    let found = records(&out, "beir-corpus").unwrap();
    assert_eq!(found.len(), 800);
    for (number, record) in found.iter().enumerate() {
        let Record::Document(document) = record else { panic!("{record:?}") };
        assert!(document.id == number.to_string() && document.text == text(number), "{number}");
    }
}
