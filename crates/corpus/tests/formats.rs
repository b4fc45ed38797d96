//! Reads a small file of every format, valid and damaged.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs;
use std::path::Path;

use quarry_corpus::formats::source::{Source, format_named};
use quarry_corpus::formats::{Encoding, FORMATS, Record, Side};

/// A format, a file with two records, and the expected first record.
type Fixture = (&'static str, &'static str, &'static str, &'static str);

const FIXTURES: &[Fixture] = &[
    (
        "cosqa-qa",
        "qa.json",
        r#"[
            {"idx": "t-1", "doc": "add two", "code": "def f(x):\n  return x + 2", "code_tokens": "def f ( x )",
             "docstring_tokens": "Add two .", "label": 1},
            {"idx": "t-2", "doc": "say hello", "code": "def g(): pass", "label": 0}
        ]"#,
        "pair t-1 1: add two | def f(x):\n  return x + 2",
    ),
    (
        "cosqa-retrieval",
        "retrieval.json",
        r#"[
            {"idx": "t-1", "doc": "add two", "code": "def f(x): pass", "label": 1, "retrieval_idx": 7},
            {"idx": "t-2", "doc": "add two", "code": "def g(x): pass", "label": 1, "retrieval_idx": 8}
        ]"#,
        "pair t-1 1: [t-1] add two | [7] def f(x): pass",
    ),
    (
        "query-code",
        "mine.jsonl",
        "{\"query\": \"add two\", \"code\": \"int f(int x) { return x + 2; }\"}\n\
         {\"query\": \"add two\", \"code\": \"int g() {}\", \"label\": 0, \"language\": \"java\", \"id\": \"b\"}\n",
        "pair - ?: add two | int f(int x) { return x + 2; }",
    ),
    (
        "cosqa-codes",
        "codes.json",
        "{\n \"def f():\\n\\tpass\": 0,\n \"def g(): {}, []\": 1\n}",
        "document 0: def f():\n\tpass",
    ),
    (
        "webquery",
        "webquery.json",
        r#"[{"idx": "webquery-test-1", "doc": "how to sort", "code": "def s(a):     return sorted(a)"},
            {"idx": "webquery-test-2", "doc": "how to sort", "code": "def s(a):     return a"}]"#,
        "pair webquery-test-1 ?: how to sort | def s(a):     return sorted(a)",
    ),
    (
        "webquery-answers",
        "answers.txt",
        "webquery-test-1\t1\nwebquery-test-2\t0\n",
        "label webquery-test-1 1",
    ),
    (
        "codesearchnet",
        "python_test_0.jsonl",
        r#"{"repo":"o/r","path":"a.py","func_name":"A.f","original_string":"def f(): 1","language":"python","code":"def f(): 1","code_tokens":["def","f"],"docstring":"Gives one.","docstring_tokens":["Gives","one","."],"sha":"c0","partition":"test","url":"u#L1"}
{"repo":"o/r","path":"b.py","func_name":"g","language":"python","code":"def g(): 2","code_tokens":["def","g"],"docstring":"Gives two.","docstring_tokens":["Gives"],"url":"u#L2"}
"#,
        "pair - 1: [u#L1] Gives one. | [u#L1] def f(): 1",
    ),
    (
        "codesearchnet-huggingface",
        "test.jsonl",
        r#"{"repository_name":"o/r","func_path_in_repository":"a.go","func_name":"F","language":"go","func_code_string":"func F() {}","func_code_tokens":["func"],"func_documentation_string":"F does.","func_documentation_tokens":["F"],"split_name":"test","func_code_url":"u"}
{"repository_name":"o/r","func_path_in_repository":"b.go","func_name":"G","language":"go","func_code_string":"func G() {}","func_code_tokens":["func"],"func_documentation_string":"G does.","func_documentation_tokens":["G"],"func_code_url":"v"}
"#,
        "pair - 1: [u] F does. | [u] func F() {}",
    ),
    (
        "codesearchnet-definitions",
        "go_dedupe_definitions.jsonl",
        r#"{"nwo":"o/r","sha":"c","path":"a.go","language":"go","identifier":"F","docstring":"","docstring_tokens":[],"function":"func F() {}","function_tokens":["func"],"url":"u"}
{"nwo":"o/r","sha":"c","path":"b.go","language":"go","identifier":"G","docstring":"G does.","function":"func G() {}","url":"v"}
"#,
        "document u: func F() {}",
    ),
    (
        "csn99",
        "annotationStore.csv",
        "Language,Query,GitHubUrl,Relevance,Notes\nGo,Sort a List,u1,3,\nJava,\"a, b\",u2,0,\"he said \"\"no\"\"\"\n",
        "judgment sort a list u1 3",
    ),
    (
        "csn99-queries",
        "queries.csv",
        "query\nConvert Int\n\"sort, then\"\n",
        "query convert int: Convert Int",
    ),
    (
        "advtest",
        "test.jsonl",
        r#"{"idx":4,"url":"u","docstring":"Does it.","docstring_tokens":["Does","it","."],"function":"def Func(arg_0): pass","function_tokens":["def","Func"]}
{"idx":5,"url":"v","docstring_tokens":["Does"],"code":"def f(): pass","code_tokens":["def"]}
"#,
        "pair 4 1: [u] Does it. | [4] def Func(arg_0): pass",
    ),
    (
        "advtest-predictions",
        "predictions.jsonl",
        "{\"url\":\"u\",\"answers\":[4,9]}\n{\"url\":\"v\",\"answers\":[5]}\n",
        "retrieved u 4 2",
    ),
    (
        "gecs",
        "stat.jsonl",
        r#"{"input":" 2. fit a model  [CODESPLIT] lm(y ~ x) ","target":1,"target_options":["no_match","match"]}
{"input":"plot [CODESPLIT] plot(x)","target":0,"target_options":["no_match","match"]}
"#,
        "pair 0 1: [0]  2. fit a model  | [0] lm(y ~ x) ",
    ),
    (
        "statcodesearch",
        "stat.csv",
        "Idx,Comment,Code,License,Label\n1,fit a model,\"lm(y ~ x,\n data)\",MIT,Modeling\n2,draw,plot(x),MIT,Visualization\n",
        "pair 1 1: [1] fit a model | [1] lm(y ~ x,\n data)",
    ),
    (
        "statcodesearch-json",
        "stat.json",
        r#"[{"ID":1,"Comment":"fit","Code":"lm(y)","Label":"Modeling","Source":"p","File":"a.R"},
            {"ID":2,"Comment":"draw","Code":"plot(x)","Label":"Visualization"}]"#,
        "pair 1 1: [1] fit | [1] lm(y)",
    ),
    (
        "cosqa-plus",
        "pairs.json",
        r#"[{"pair-idx":0,"query-idx":3,"query":"reverse a dict","code-idx":9,"code":"def r(d): pass","label":1},
            {"pair-idx":1,"query-idx":3,"query":"reverse a dict","code-idx":8,"code":"def s(d): pass","label":0}]"#,
        "pair 0 1: [3] reverse a dict | [9] def r(d): pass",
    ),
    (
        "cosqa-plus-queries",
        "query.json",
        r#"[{"query-idx":3,"query":"reverse a dict","code":"","label":""},
            {"query-idx":4,"query":"sort"}]"#,
        "query 3: reverse a dict",
    ),
    (
        "cosqa-plus-codes",
        "code.json",
        r#"[{"code-idx":9,"code":"def r(d): pass"},{"code-idx":10,"code":"def s(d): pass"}]"#,
        "document 9: def r(d): pass",
    ),
    (
        "query4code",
        "conala.jsonl",
        "{\"query\":\"read a file\",\"code\":\"open(f)\",\"relevant_ids\":[5,6]}\n{\"query\":\"w\",\"code\":\"x\",\"url\":\"u\"}\n",
        "pair 0 1: [0] read a file | [5] open(f)",
    ),
    (
        "query4code-annotations",
        "annotated.jsonl",
        "{\"summary\":\"Opens a file.\",\"query\":\"open file python\"}\n{\"summary\":\"Sorts.\",\"query\":\"sort\"}\n",
        "query 0: open file python",
    ),
    (
        "beir-corpus",
        "corpus.jsonl",
        "{\"_id\":\"d1\",\"title\":\"T\",\"text\":\"body\"}\n{\"_id\":2,\"text\":\"body\"}\n",
        "document d1: T body",
    ),
    (
        "beir-queries",
        "queries.jsonl",
        "{\"_id\":\"q1\",\"text\":\"what\"}\n{\"_id\":\"q2\",\"text\":\"who\"}\n",
        "query q1: what",
    ),
    (
        "mteb-corpus",
        "corpus.jsonl",
        "{\"id\":\"d1\",\"title\":null,\"text\":\"body\"}\n{\"id\":\"d2\",\"text\":\"body\"}\n",
        "document d1: body",
    ),
    (
        "mteb-queries",
        "queries.jsonl",
        "{\"id\":\"q1\",\"text\":\"what\"}\n{\"id\":\"q2\",\"text\":\"who\"}\n",
        "query q1: what",
    ),
    (
        "coir-qrels",
        "test.jsonl",
        "{\"query_id\":\"q1\",\"corpus_id\":\"d1\",\"score\":1}\n{\"query_id\":\"q2\",\"corpus_id\":\"d2\",\"score\":1.0}\n",
        "judgment q1 d1 1",
    ),
    (
        "mteb-qrels",
        "test.jsonl",
        "{\"query-id\":\"q1\",\"corpus-id\":\"d1\",\"score\":2}\n{\"query-id\":\"q2\",\"corpus-id\":\"d2\",\"score\":0}\n",
        "judgment q1 d1 2",
    ),
    (
        "mteb-top-ranked",
        "top.jsonl",
        "{\"query-id\":\"q1\",\"corpus-ids\":[\"d1\",\"d2\"]}\n{\"query-id\":\"q2\",\"corpus-ids\":[\"d2\"]}\n",
        "retrieved q1 d1 2",
    ),
    ("beir-qrels", "test.tsv", "query-id\tcorpus-id\tscore\nq1\td 1\t1\nq2\td2\t0\n", "judgment q1 d 1 1"),
    ("trec-qrels", "qrels.txt", "q1 0 d1 1\nq2 0 d2 0\n", "judgment q1 d1 1"),
    (
        "repo-search",
        "table.tsv",
        "repo\trevision\troot\tcategory\tquery\trelevant\tsecondary\n\
         demo\tabc\tsrc\tsymbol\tread csv\tsrc/a.py:3-9\t\ndemo\tabc\tsrc\tsymbol\twrite\tsrc/b.py\tsrc/c.py\n",
        "query demo:1: read csv",
    ),
    ("trec-run", "run.txt", "q1 Q0 d1 1 0.5 tag\nq2 Q0 d2 1 -1e3 tag\n", "retrieved q1 d1 0.5"),
];

fn show(record: &Record) -> String {
    let side = |side: &Side| match &side.id {
        Some(id) => format!("[{id}] {}", side.text),
        None => side.text.clone(),
    };
    match record {
        Record::Pair(pair) => format!(
            "pair {} {}: {} | {}",
            pair.id.as_deref().unwrap_or("-"),
            pair.label.map_or("?".into(), |label| label.to_string()),
            side(&pair.query),
            side(&pair.code)
        ),
        Record::Query(query) => format!("query {}: {}", query.id, query.text),
        Record::Document(document) => format!("document {}: {}", document.id, document.full_text()),
        Record::Judgment(judgment) => {
            format!("judgment {} {} {}", judgment.query, judgment.document, judgment.grade)
        }
        Record::Label(label) => format!("label {} {}", label.pair, label.label),
        Record::Retrieved(found) => format!("retrieved {} {} {}", found.query, found.document, found.score),
    }
}

/// Writes a file and reads it, as a given format or with detection.
fn read(file: &str, bytes: &[u8], wanted: &str) -> Result<(Source, Vec<String>), String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(file);
    fs::write(&path, bytes).unwrap();
    let read = |path: &Path| {
        let source = Source::open(path, wanted)?;
        let mut records = Vec::new();
        source.for_each(&mut |record| {
            records.push(show(&record));
            Ok(())
        })?;
        Ok::<_, quarry_corpus::formats::FormatError>((source, records))
    };
    read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), file))
}

#[test]
fn every_format_has_a_fixture_that_is_recognized_and_read() {
    for format in FORMATS {
        assert!(FIXTURES.iter().any(|fixture| fixture.0 == format.name), "{} has none", format.name);
    }
    for (format, file, text, first) in FIXTURES {
        let (source, records) = read(file, text.as_bytes(), "").unwrap();
        assert_eq!(source.format.name, *format);
        assert_eq!(records[0], *first, "{format}");
        assert!(records.len() >= 2, "{format}: {records:?}");
    }
}

#[test]
fn line_ends_byte_order_marks_and_packing_change_nothing() {
    for (format, file, text, _) in FIXTURES {
        let (_, records) = read(file, text.as_bytes(), "").unwrap();
        let marked = format!("\u{feff}{text}");
        assert_eq!(read(file, marked.as_bytes(), "").unwrap().1, records, "{format}");
        // A line break within quotes belongs to its CSV field.
        if *format != "statcodesearch" {
            let windows = text.replace('\n', "\r\n");
            assert_eq!(read(file, windows.as_bytes(), "").unwrap().1, records, "{format}");
        }
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packer, text.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(read(file, &packed, "").unwrap().1, records, "{format}");
        // The checksum at the end is truncated, then half of the data.
        for kept in [packed.len() - 3, packed.len() / 2] {
            let error = read(file, &packed[..kept], format).unwrap_err();
            assert!(error.contains("expected packed data to its end"), "{format}: {error}");
        }
    }
}

#[test]
fn garbage_is_refused_in_every_format_with_its_file_and_what_was_expected() {
    for (format, file, _, _) in FIXTURES {
        for garbage in [&b"\xff\xfe\x00g"[..], b"garbage", b"", b"{}", b"[[]]", b"[{}]", b"[1", b"\0\0\0\0"] {
            for wanted in [format, ""] {
                let outcome = read(file, garbage, wanted);
                // An object without members is a code base without codes.
                if *format == "cosqa-codes" && garbage == b"{}" && wanted == *format {
                    assert_eq!(outcome.unwrap().1.len(), 0);
                    continue;
                }
                let error = outcome.unwrap_err();
                assert!(error.starts_with(file) && error.contains("expected"), "{format}: {error}");
            }
        }
    }
}

#[test]
fn files_that_are_cut_off_are_refused_or_end_at_a_record() {
    for (format, file, text, _) in FIXTURES {
        let (source, whole) = read(file, text.as_bytes(), "").unwrap();
        let text = text.trim_end();
        for cut in (1..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            match read(file, &text.as_bytes()[..cut], format) {
                Err(error) => assert!(error.starts_with(file), "{error}"),
                // The end of a JSON record is explicit; that of a line is not, so its last field may be shorter.
                Ok((_, records)) => match source.container {
                    Encoding::JsonLines => assert!(whole.starts_with(&records), "{format}"),
                    Encoding::JsonArray | Encoding::JsonObject => panic!("{format} at {cut}"),
                    _ => assert!(records.len() <= whole.len()),
                },
            }
        }
    }
}

#[test]
fn a_wrong_type_is_named_with_its_line_and_field() {
    for (name, file, text, _) in FIXTURES {
        let format = format_named(name).unwrap();
        if !matches!(format.container, Encoding::JsonLines | Encoding::JsonArray) {
            continue;
        }
        let first: serde_json::Map<String, serde_json::Value> = {
            let text = text.trim().trim_start_matches('[');
            serde_json::Deserializer::from_str(text).into_iter().next().unwrap().unwrap()
        };
        for field in format.fields.iter().filter(|field| first.contains_key(field.name)) {
            for wrong in [serde_json::json!({"a": 1}), serde_json::json!(true), serde_json::json!([[1]])] {
                let mut record = first.clone();
                record.insert(field.name.into(), wrong);
                let [first, record] = [&first, &record].map(|map| serde_json::to_string(map).unwrap());
                let text = match format.container {
                    Encoding::JsonArray => format!("[{first},\n{record}]"),
                    _ => format!("{first}\n{record}\n"),
                };
                let error = read(file, text.as_bytes(), name).unwrap_err();
                let start = format!("{file}:2: expected {} as `{}`", field.kind.name(), field.name);
                assert!(error.starts_with(&start), "{error}");
            }
        }
    }
}

#[test]
fn an_invalid_first_record_selects_the_format_by_its_names() {
    for (text, expected) in [
        (r#"{"query":"q","code":"c","label":"yes"}"#, "f:1: expected a whole number as `label`"),
        (r#"{"query":"q","code":"c","label":2}"#, "f:1: expected `label` from 0 to 1, found 2"),
        (r#"{"query":"","code":"c"}"#, "f:1: expected `query` (the query) that is not blank"),
        (r#"{"query":"q","code":["c"],"language":"go"}"#, "f:1: expected text as `code`"),
        (
            r#"{"pair-idx":0,"query-idx":0,"query":"q","code-idx":0,"code":"c","label":"1"}"#,
            "f:1: expected a whole number as `label`",
        ),
    ] {
        let error = read("f", text.as_bytes(), "").unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn fields_required_by_one_format_are_reported_with_their_line() {
    const CSN99: &str = "Language,Query,GitHubUrl,Relevance,Notes\n";
    for (format, text, expected) in [
        (
            "query-code",
            "{\"query\":\"q\",\"code\":\"c\",\"label\":\"yes\"}".into(),
            "f:1: expected a whole number as `label`",
        ),
        (
            "gecs",
            "{\"input\":\"a b\",\"target\":1}".into(),
            "f:1: expected `input` with one [CODESPLIT], found 0",
        ),
        (
            "gecs",
            "{\"input\":\"a [CODESPLIT] b\",\"target\":2}".into(),
            "f:1: expected `target` from 0 to 1, found 2",
        ),
        (
            "advtest",
            "{\"idx\":1,\"url\":\"u\",\"docstring_tokens\":[]}".into(),
            "f:1: expected `function` or `code`",
        ),
        (
            "query4code",
            "{\"query\":\"q\",\"code\":\"c\"}".into(),
            "f:1: expected `url` or `relevant_ids`, found neither",
        ),
        ("csn99", format!("{CSN99}Go,q,u,4,\n"), "f:2: expected `Relevance` from 0 to 3, found 4"),
        (
            "csn99",
            format!("{CSN99}Go,q,u,x,\n"),
            "f:2: expected a whole number as `Relevance`, found the text \"x\"",
        ),
        ("csn99", format!("{CSN99}Go,q,u\n"), "f:2: expected 5 fields, found 3"),
        (
            "csn99",
            "Language,Query\nGo,q\n".into(),
            "f:1: expected a line that names the columns GitHubUrl, Relevance",
        ),
        ("webquery-answers", "a\t1\nb 0\n".into(), "f:2: expected 2 fields separated by a tab"),
        ("webquery-answers", "a\t1\nb\t2\n".into(), "f:2: expected `label` from 0 to 1, found 2"),
        (
            "cosqa-codes",
            "{\"a\": 0,\n \"b\": -1.5}".into(),
            "f:2: expected a whole number as `id`, found the number -1.5",
        ),
        ("cosqa-codes", "{\"a\": 0,\n \"b\"}".into(), "f:2: expected a member of an object"),
        (
            "beir-queries",
            "{\"_id\":\"1\",\"text\":\"a\"}\n{\"_id\":\"2\",\"text\":\" \\t\"}\n".into(),
            "f:2: expected `text` (the query) that is not blank, found only white space; write",
        ),
        ("csn99-queries", "query\na\n\" \"\n".into(), "f:3: expected `query` (the query) that is not blank"),
        ("csn99", format!("{CSN99}Go,,u,3,\n"), "f:2: expected `Query` (the query) that is not blank"),
    ] {
        let error = read("f", str::as_bytes(&text), format).unwrap_err();
        assert!(error.starts_with(expected), "{format}: {error}");
    }
}
