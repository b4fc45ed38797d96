//! Operations on data sets, on small files in several formats.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use quarry_corpus::dataset::convert::{ConvertOptions, Grades, HideNames, Target, benchmark, convert};
use quarry_corpus::dataset::dedupe::{ComparedText, Equality, dedupe};
use quarry_corpus::dataset::describe::Census;
use quarry_corpus::dataset::python_random::PythonRandom;
use quarry_corpus::dataset::split::{Part, QueryGrouping, split};
use quarry_corpus::dataset::{check, distractors, sources};
use quarry_corpus::formats::FORMATS;
use quarry_corpus::formats::source::Source;
use quarry_test_support::files::{contents_below, directory_with as directory};

const QA: &str = r#"[
    {"idx": "1", "doc": "add two", "code": "def f(x):\n  return x + 2", "label": 1},
    {"idx": "2", "doc": "add two", "code": "def g(): pass", "label": 0},
    {"idx": "3", "doc": "say hello", "code": "def g(): pass", "label": 1}
]"#;

/// Opens a file or directory, whose format is detected.
#[track_caller]
fn read(path: impl Into<PathBuf>) -> Vec<Source> {
    sources(&[path.into()], "", "test").unwrap()
}

/// Converts files of a directory; returns the error message, or the texts of the written files by path.
fn converted(
    directory: &Path,
    files: &[&str],
    to: &str,
    options: &ConvertOptions,
) -> Result<Vec<(String, String)>, String> {
    let paths: Vec<PathBuf> = files.iter().map(|file| directory.join(file)).collect();
    let out = directory.join(format!("out-{to}"));
    let before = fs::read_dir(directory).unwrap().count();
    let sources = sources(&paths, "", "test").map_err(|error| error.to_string())?;
    if let Err(error) = convert(&sources, Target::named(to).unwrap(), &out, "test", options) {
        assert_eq!(fs::read_dir(directory).unwrap().count(), before, "something half-written stays behind");
        return Err(error.to_string().replace(&format!("{}/", directory.display()), ""));
    }
    if out.is_file() {
        return Ok(vec![(String::new(), fs::read_to_string(out).unwrap())]);
    }
    let text = |(name, bytes)| (name, String::from_utf8(bytes).unwrap());
    Ok(contents_below(&out).into_iter().map(text).collect())
}

#[test]
fn pairs_become_a_beir_directory_and_come_back() {
    let directory = directory(&[("qa.json", QA)]);
    let files = converted(directory.path(), &["qa.json"], "beir", &ConvertOptions::default()).unwrap();
    let expected = [
        (
            "corpus.jsonl",
            "{\"_id\":\"0\",\"title\":\"\",\"text\":\"def f(x):\\n  return x + 2\",\"language\":\"python\"}\n\
             {\"_id\":\"1\",\"title\":\"\",\"text\":\"def g(): pass\",\"language\":\"python\"}\n",
        ),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n0\t0\t1\n0\t1\t0\n1\t1\t1\n"),
        ("queries.jsonl", "{\"_id\":\"0\",\"text\":\"add two\"}\n{\"_id\":\"1\",\"text\":\"say hello\"}\n"),
    ];
    assert_eq!(files, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let back = converted(directory.path(), &["out-beir"], "cosqa-plus", &ConvertOptions::default()).unwrap();
    assert!(
        back[0].1.contains(r#""query":"say hello","code-idx":1,"code":"def g(): pass","label":1"#),
        "{back:?}"
    );
}

#[test]
fn every_format_that_is_written_reads_back_the_same() {
    let directory = directory(&[("qa.json", QA)]);
    converted(directory.path(), &["qa.json"], "cosqa-plus-folder", &ConvertOptions::default()).unwrap();
    let out = directory.path().join("out-cosqa-plus-folder");
    let expected = benchmark(&read(&out), &ConvertOptions::default()).unwrap();
    assert_eq!(expected.documents.len(), 2);
    for name in Target::names() {
        let target = tempfile::tempdir().unwrap();
        let path = target.path().join("written");
        let target = Target::named(name).unwrap();
        convert(&read(&out), target, &path, "test", &ConvertOptions::default()).unwrap();
        let whole = ["beir", "coir", "mteb", "mteb-parquet", "cosqa", "cosqa-plus-folder"].contains(&name);
        // A single file, a part of one, or a file without negatives is less certain.
        let written = read(path);
        if whole {
            let mut written = benchmark(&written, &ConvertOptions::default()).unwrap();
            if name == "cosqa" {
                // In this format, each pair is a separate query.
                assert_eq!(written.qrels.values().map(|grades| grades.len()).sum::<usize>(), 3);
                // All of its codes are Python.
                written.documents.iter_mut().for_each(|document| document.language = None);
                written.queries.clone_from(&expected.queries);
                written.qrels.clone_from(&expected.qrels);
            }
            assert_eq!(written, expected, "{name}");
        } else {
            assert_eq!(written[0].format.name, name);
            let mut n_records = 0;
            written[0]
                .for_each(&mut |_| {
                    n_records += 1;
                    Ok(())
                })
                .unwrap();
            assert!(n_records >= 2, "{name}");
        }
    }
}

#[test]
fn files_that_belong_together_are_read_together() {
    let directory = directory(&[
        ("retrieval.json", r#"[{"idx":"t","doc":"make b","label":1,"retrieval_idx":1}]"#),
        ("other.json", r#"[{"idx":"t","doc":"make b","label":1,"retrieval_idx":9}]"#),
        ("codes.json", "{\"def a(): 1\\n\": 0, \"def b(): 2\": 1}"),
        ("web.json", r#"[{"idx":"w-1","doc":"q","code":"c"},{"idx":"w-2","doc":"q","code":"d"}]"#),
        ("answers.txt", "w-1\t1\nw-2\t0\n"),
        ("wrong.txt", "w-9\t1\n"),
        ("corpus.jsonl", r#"{"_id":"d","title":"","text":"func f() {}","language":"go"}"#),
        ("queries.jsonl", r#"{"_id":"7","text":"Make it"}"#),
        ("test.tsv", "query-id\tcorpus-id\tscore\n7\td\t2\n"),
        ("csn99.csv", "Language,Query,GitHubUrl,Relevance,Notes\nGo,A b,u,3,\nGo,a B,u,0,\nR,a b,v,1,\n"),
    ]);
    let files =
        |names: &[&str], to, options: &ConvertOptions| converted(directory.path(), names, to, options);
    let plain = ConvertOptions::default();
    let beir = files(&["retrieval.json", "codes.json"], "beir", &plain).unwrap();
    assert_eq!(beir[1].1, "query-id\tcorpus-id\tscore\nt\t1\t1\n");
    assert!(beir[0].1.contains("def a(): 1"));
    let error = files(&["other.json", "codes.json"], "mteb", &plain).unwrap_err();
    assert!(
        error.starts_with("other.json:1: expected a code among the 2 of the code base, found \"9\""),
        "{error}"
    );
    let gecs = files(&["web.json", "answers.txt"], "gecs", &plain).unwrap();
    assert!(gecs[0].1.contains("q [CODESPLIT] d\",\"target\":0"), "{gecs:?}");
    // A pair that could not be read back is not written, whatever its label.
    for label in [0, 1] {
        let pair = format!("{{\"query\":\"q\",\"code\":\"f() # [CODESPLIT] g()\",\"label\":{label}}}\n");
        fs::write(directory.path().join("split.jsonl"), pair).unwrap();
        fs::remove_file(directory.path().join("out-gecs")).unwrap_or_default();
        let error = files(&["split.jsonl"], "gecs", &plain).unwrap_err();
        assert!(error.contains("cannot be split again"), "{error}");
    }
    // Each candidate of a query is a separate record.
    let renumbered = ConvertOptions { renumber: true, ..ConvertOptions::default() };
    let cosqa = files(&["web.json", "answers.txt"], "cosqa-retrieval", &renumbered).unwrap();
    assert!(cosqa[0].1.contains(r#""idx":"w-1""#) && cosqa[0].1.contains(r#""idx":"w-2""#), "{cosqa:?}");
    // CSN99 identifies queries by their texts.
    let csn99 = files(&["web.json", "answers.txt"], "csn99", &renumbered).unwrap();
    assert_eq!(csn99[0].1, "Language,Query,GitHubUrl,Relevance,Notes\npython,q,0,1,\npython,q,1,0,\n");
    fs::remove_file(directory.path().join("out-csn99")).unwrap();
    let csn99 = files(&["corpus.jsonl", "queries.jsonl", "test.tsv"], "csn99", &plain).unwrap();
    assert_eq!(csn99[0].1, "Language,Query,GitHubUrl,Relevance,Notes\ngo,Make it,d,2,\n");
    let error = files(&["web.json"], "cosqa-qa", &plain).unwrap_err();
    assert!(error.contains("--unlabeled"), "{error}");
    let error = files(&["web.json", "wrong.txt"], "mteb", &plain).unwrap_err();
    assert!(error.contains("expected labels of known pairs"), "{error}");
    let error = files(&["csn99.csv"], "trec-qrels", &ConvertOptions { grades: Grades::Max, ..plain.clone() })
        .unwrap_err();
    assert!(error.starts_with("out-trec-qrels: expected ids without white space"), "{error}");
    let error = files(&["csn99.csv"], "beir-qrels", &plain).unwrap_err();
    assert!(error.contains("found 0 after 3") && error.contains("--grades"), "{error}");
    for (grades, expected) in [(Grades::Max, 3), (Grades::Min, 0), (Grades::Mean, 2)] {
        let options = ConvertOptions { grades, language: Some("go".into()), ..ConvertOptions::default() };
        fs::remove_file(directory.path().join("out-beir-qrels")).ok();
        let qrels = files(&["csn99.csv"], "beir-qrels", &options).unwrap();
        assert_eq!(qrels[0].1, format!("query-id\tcorpus-id\tscore\na b\tu\t{expected}\n"));
    }
}

#[test]
fn checking_lists_every_problem_with_its_line() {
    let directory = directory(&[
        (
            "corpus.jsonl",
            "{\"_id\":\"1\",\"text\":\"a\"}\n{\"_id\":\"1\",\"text\":\"b\"}\nnot json\n{\"_id\":\"2\",\"text\":\" \"}\n",
        ),
        ("queries.jsonl", "{\"_id\":\"q\",\"text\":\"a\"}\n"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\t1\t1\nq\t9\t1\nz\t1\t1\nq\t1\t0\n"),
    ]);
    let found = check::check(&read(directory.path()), 10).unwrap();
    let problems: Vec<String> = found
        .iter()
        .flat_map(|file| &file.problems)
        .map(|problem| format!("{} {}", problem.is_warning, problem.error))
        .map(|text| text.replace(&format!("{}/", directory.path().display()), ""))
        .collect();
    let starts = [
        "false corpus.jsonl:2: expected each `_id` once, found \"1\" again, first in line 1",
        "false corpus.jsonl:3: expected an object with `_id`, `text`",
        "true corpus.jsonl:4: expected a document with text, found an empty one",
        "false qrels/test.tsv:3: expected the id of an existing document, found \"9\"",
        "false qrels/test.tsv:4: expected the id of an existing query, found \"z\"",
        "true qrels/test.tsv:5: expected each record once, found the same again, first in line 2",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
    }
}

#[test]
fn statistics_are_correct() {
    let directory =
        directory(&[("a.json", QA), ("b.json", r#"[{"idx":"9","doc":"add  two","code":"x y","label":1}]"#)]);
    let census = |name: &str| {
        let tokens = |text: &str, each: &mut dyn FnMut(&str)| text.split_whitespace().for_each(each);
        Census::new(&read(directory.path().join(name)), false, &tokens).unwrap()
    };
    let (a, b) = (census("a.json"), census("b.json"));
    let description = a.describe();
    assert_eq!((description.pairs, description.labels["1"], description.labels["0"]), (3, 2, 1));
    assert_eq!(description.positives_per_query.into_iter().collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!((description.codes.texts, description.codes.distinct), (3, 2));
    assert_eq!((description.codes.all.words.max, description.codes.all.words.min), (6, 3));
    assert_eq!((description.codes.all.words.mean, description.codes.once.words.mean), (4.0, 4.5));
    assert_eq!(description.queries.word_vocabulary, 4);
    let comparison = a.compare(&b);
    assert_eq!((comparison.queries.shared, comparison.queries.shared_of_this), (1, 0.5));
    // add 2/6, two 2/6, say 1/6, hello 1/6 against add 1/2, two 1/2.
    assert!((comparison.queries.total_variation_distance - 1.0 / 3.0).abs() < 1e-15);
    // They share only x: 1/12 of the one, 1/2 of the other.
    assert!((comparison.codes.total_variation_distance - 11.0 / 12.0).abs() < 1e-15);
}

#[test]
fn splits_keep_queries_together_and_strata_even() {
    let mut lines = String::new();
    for query in 0..200 {
        for code in 0..=query % 4 {
            lines += &format!(
                "{{\"query\":\"q {query}\",\"code\":\"c {code}\",\"url\":\"u{query}-{code}\",\"extra\":1}}\n"
            );
        }
    }
    let directory = directory(&[("pairs.jsonl", &lines)]);
    let sources = read(directory.path().join("pairs.jsonl"));
    let parts = [("train", 8.0), ("dev", 1.0), ("test", 1.0)].map(|(name, weight)| Part {
        name: name.into(),
        weight,
        positives_only: false,
    });
    let run = |out: &str, seed| {
        let out = directory.path().join(out);
        let sizes = split(&sources, &parts, (seed, QueryGrouping::Equal), &out).unwrap();
        let texts = ["train", "dev", "test"]
            .map(|name| fs::read_to_string(out.join(name).with_extension("jsonl")).unwrap());
        (sizes, texts)
    };
    let (sizes, texts) = run("one", 1);
    assert_eq!(sizes.iter().map(|size| size.queries).collect::<Vec<_>>(), [160, 20, 20]);
    // 50 queries for each number of positives: 40, 5 and 5 of each.
    assert_eq!(sizes.iter().map(|size| size.rows).collect::<Vec<_>>(), [400, 50, 50]);
    let mut all: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    let mut expected: Vec<&str> = lines.lines().collect();
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected);
    let queries = texts.each_ref().map(|text| {
        text.lines().map(|line| line.split(',').next().unwrap()).collect::<std::collections::HashSet<_>>()
    });
    assert!(
        queries[0].is_disjoint(&queries[1])
            && queries[0].is_disjoint(&queries[2])
            && queries[1].is_disjoint(&queries[2])
    );
    assert_eq!(run("two", 1).1, texts);
    assert_ne!(run("three", 2).1, texts);
}

#[test]
fn nearly_equal_queries_and_those_with_one_answer_stay_in_one_part() {
    let code = |n: usize, name: &str| {
        format!(
            "def do_{n}({name}):\\n    return {name}.first_{n}() + {name}.second_{n}({n}) or other_{n}({name}) - {name}.third_{n}({n}, {name}) * fourth_{n}()"
        )
    };
    let mut lines = String::new();
    for n in 0..60 {
        let row = |query: String, code: String| {
            format!("{{\"query\":\"{query}\",\"code\":\"{code}\",\"label\":1}}\n")
        };
        // The same but for case, punctuation and order; and another query with the same answer, but for a name.
        lines += &row(format!("how to sort list number{n} by length"), code(n, "a"));
        lines += &row(format!("Sorting  lists by length: number{n}?"), code(n + 1000, "a"));
        lines += &row(format!("put values{n} into their order"), code(n, "values"));
    }
    let directory = directory(&[("pairs.jsonl", &lines)]);
    let sources = read(directory.path().join("pairs.jsonl"));
    let parts = [("train", 2.0), ("test", 1.0)];
    let parts = parts.map(|(name, weight)| Part { name: name.into(), weight, positives_only: false });
    let split_groups = |together, name: &str| {
        let out = directory.path().join(name);
        let sizes = split(&sources, &parts, (1, together), &out).unwrap();
        let numbers = ["train", "test"].map(|part| -> std::collections::HashSet<String> {
            let text = fs::read_to_string(out.join(part).with_extension("jsonl")).unwrap();
            let number =
                |line: &str| line.split("number").nth(1).or(line.split("values").nth(1)).unwrap().to_owned();
            let digits = |text: String| text.chars().take_while(char::is_ascii_digit).collect();
            text.lines().map(|line| digits(number(line))).collect()
        });
        (
            sizes.iter().map(|size| size.queries).collect::<Vec<_>>(),
            numbers[0].intersection(&numbers[1]).count(),
        )
    };
    assert_eq!(split_groups(QueryGrouping::Related, "related"), (vec![120, 60], 0));
    let (sizes, n_shared) = split_groups(QueryGrouping::Equal, "equal");
    assert!(sizes == [120, 60] && n_shared > 20, "{sizes:?} {n_shared}");
}

#[test]
fn parts_of_positives_have_no_query_without_one_and_nothing_that_does_not_match() {
    let mut lines = String::new();
    for query in 0..100 {
        // Every second query has a positive; all have two negatives.
        let row = |code: &str, label: u8| {
            format!("{{\"query\":\"q {query}\",\"code\":\"{code} {query}\",\"label\":{label}}}\n")
        };
        lines += &[row("no", 0), row("never", 0)].concat();
        if query % 2 == 0 {
            lines += &row("yes", 1);
        }
    }
    let directory = directory(&[("pairs.jsonl", &lines)]);
    let sources = read(directory.path().join("pairs.jsonl"));
    let parts = [("train", 8.0, false), ("dev", 1.0, true), ("test", 1.0, true)]
        .map(|(name, weight, positives_only)| Part { name: name.into(), weight, positives_only });
    let out = directory.path().join("out");
    let sizes = split(&sources, &parts, (1, QueryGrouping::Equal), &out).unwrap();
    let found: Vec<_> = sizes.iter().map(|size| (size.queries, size.rows, size.left_out)).collect();
    // 50 queries with a positive are split 40, 5 and 5; the others all go to the first part.
    assert_eq!(found, [(90, 90 * 2 + 40, 0), (5, 5, 10), (5, 5, 10)]);
    for part in ["dev", "test"] {
        let text = fs::read_to_string(out.join(part).with_extension("jsonl")).unwrap();
        assert!(text.lines().all(|line| line.ends_with("\"label\":1}")), "{text}");
    }
}

#[test]
fn a_run_becomes_pairs_of_its_best_results_with_their_labels() {
    let directory = directory(&[
        (
            "corpus.jsonl",
            "{\"_id\":\"a\",\"text\":\"def a(): pass\"}\n{\"_id\":\"b\",\"text\":\"def b(): pass\"}\n{\"_id\":\"c\",\"text\":\"c\"}\n",
        ),
        ("queries.jsonl", "{\"_id\":\"1\",\"text\":\"first\"}\n{\"_id\":\"2\",\"text\":\"second\"}\n"),
        ("test.tsv", "query-id\tcorpus-id\tscore\n1\tb\t2\n1\tc\t1\n2\ta\t0\n"),
        ("run.trec", "2 Q0 a 1 0.5 r\n1 Q0 a 1 3 r\n1 Q0 c 2 1 r\n1 Q0 b 3 2 r\n"),
    ]);
    let files = ["corpus.jsonl", "queries.jsonl", "test.tsv", "run.trec"];
    let pairs = |options: &ConvertOptions| {
        let text = converted(directory.path(), &files, "query-code", options).unwrap().remove(0).1;
        fs::remove_file(directory.path().join("out-query-code")).unwrap();
        let field =
            |line: &str, name: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()[name].clone();
        let pair =
            |line| format!("{} {} {}", field(line, "query"), field(line, "code"), field(line, "label"));
        text.lines().map(|line| pair(line).replace('"', "")).collect::<Vec<_>>()
    };
    let top = ConvertOptions { top: Some(2), ..ConvertOptions::default() };
    let expected = ["second def a(): pass 0", "first def a(): pass null", "first def b(): pass 1"];
    assert_eq!(pairs(&top), expected);
    let all = ConvertOptions { unlabeled: Some(0), ..ConvertOptions::default() };
    let expected = ["second def a(): pass 0", "first def a(): pass 0", "first def b(): pass 1", "first c 1"];
    assert_eq!(pairs(&all), expected);
    let error = converted(directory.path(), &["queries.jsonl", "run.trec"], "query-code", &top).unwrap_err();
    assert!(error.contains("a document whose text is known"), "{error}");
}

#[test]
fn names_are_hidden_in_all_codes_whose_language_is_known() {
    let directory = directory(&[
        ("qa.json", QA),
        (
            "pairs.jsonl",
            "{\"query\":\"q\",\"code\":\"def g(x): return x\"}\n{\"query\":\"r\",\"code\":\"y = 1\"}\n",
        ),
    ]);
    let hidden = |language: Option<&str>| ConvertOptions {
        hide_names: Some(HideNames { language: language.and_then(quarry_source::language_called) }),
        unlabeled: Some(1),
        ..ConvertOptions::default()
    };
    let texts = converted(directory.path(), &["qa.json"], "query-code", &hidden(None)).unwrap();
    assert!(texts[0].1.contains("def func(arg_0):\\n  return arg_0 + 2"), "{texts:?}");
    fs::remove_file(directory.path().join("out-query-code")).unwrap();
    let texts = converted(directory.path(), &["pairs.jsonl"], "query-code", &hidden(None)).unwrap();
    assert!(texts[0].1.contains("def g(x): return x"), "{texts:?}");
    fs::remove_file(directory.path().join("out-query-code")).unwrap();
    let texts = converted(directory.path(), &["pairs.jsonl"], "query-code", &hidden(Some("python"))).unwrap();
    assert!(
        texts[0].1.contains("def func(arg_0): return arg_0") && texts[0].1.contains("y = 1"),
        "{texts:?}"
    );
}

#[test]
fn comments_do_not_hide_what_data_sets_share() {
    let row = |code: &str, language: Option<&str>| {
        serde_json::json!({"query": code, "code": code, "language": language}).to_string() + "\n"
    };
    let code = "def add(first, second):\n    total = first + second\n    return total\n";
    let commented = "def add(first, second):\n    \"\"\"Add two numbers to each other.\"\"\"\n    # Whatever they \
        are.\n    total = first + second\n    return total  # which is their sum\n";
    let files = [
        ("a.jsonl", row(code, Some("python"))),
        ("b.jsonl", row(commented, Some("python"))),
        ("c.jsonl", row(commented, None)),
    ];
    let directory =
        directory(&[(files[0].0, &files[0].1), (files[1].0, &files[1].1), (files[2].0, &files[2].1)]);
    let read = |name: &str| read(directory.path().join(name));
    for other in ["b.jsonl", "c.jsonl"] {
        let left =
            |same| dedupe(&read("a.jsonl"), &read(other), (same, ComparedText::Code), None, 1).unwrap().kept;
        assert_eq!((left(Equality::Near(0.9)), left(Equality::Normalized)), (0, 1), "{other}");
    }
}

#[test]
fn duplicates_and_leaks_are_removed_and_reported() {
    let row =
        |query: &str, code: &str| format!("{{\"input\":\"{query} [CODESPLIT] {code}\",\"target\":1}}\n");
    let long: Vec<String> = (0..40).map(|i| format!("name{i}")).collect();
    let (long, near) = (long.join(" "), long.join(" ").replace("name39", "other"));
    let train =
        [row("a", "x = 1"), row("b", "x  =  1"), row("c", "y"), row("d", &long), row("e", "z")].concat();
    let directory =
        directory(&[("train.jsonl", &train), ("test.jsonl", &[row("t", "y"), row("u", &near)].concat())]);
    let read = |name: &str| read(directory.path().join(name));
    let report = |same, out: Option<&Path>| {
        dedupe(&read("train.jsonl"), &read("test.jsonl"), (same, ComparedText::Code), out, 9).unwrap()
    };
    let counts = |same| {
        let report = report(same, None);
        (report.rows, report.repeated, report.leaked, report.kept)
    };
    assert_eq!(counts(Equality::Exact), (5, 0, 1, 4));
    assert_eq!(counts(Equality::Normalized), (5, 1, 1, 3));
    let out = directory.path().join("left.jsonl");
    let near = report(Equality::Near(0.8), Some(&out));
    assert_eq!((near.repeated, near.leaked, near.leaking, near.kept), (1, 2, 2, 2));
    assert!(
        near.examples[1].row.ends_with("train.jsonl:3") && near.examples[1].same_as.ends_with("test.jsonl:1")
    );
    assert_eq!(fs::read_to_string(out).unwrap(), [row("a", "x = 1"), row("e", "z")].concat());
}

#[test]
fn distractors_are_others_and_rolling_ones_come_from_the_pool_before() {
    let lines: String =
        (0..300).map(|i| format!("{{\"input\":\"q{i} [CODESPLIT] c{}\",\"target\":1}}\n", i / 2)).collect();
    let directory = directory(&[("pairs.jsonl", &lines)]);
    let path = directory.path().join("pairs.jsonl");
    let data = benchmark(&read(&path), &ConvertOptions::default()).unwrap();
    let draw = |sampling, without_twins, seed| {
        let options = distractors::DistractorOptions { count: 99, sampling, without_twins, seed };
        distractors::sample(&data, options, &path).unwrap()
    };
    let uniform = draw(distractors::Sampling::Uniform, true, 1);
    assert_eq!(uniform.len(), 300);
    for (query, candidates) in &uniform {
        let different: std::collections::HashSet<&String> = candidates.iter().collect();
        assert_eq!((candidates.len(), different.len()), (100, 100));
        // The answer is last; its duplicate is missing.
        let own: usize = query.parse().unwrap();
        assert_eq!(candidates[99], *query);
        assert!(!candidates.contains(&(own ^ 1).to_string()));
    }
    assert_eq!(uniform, draw(distractors::Sampling::Uniform, true, 1));
    assert_ne!(uniform, draw(distractors::Sampling::Uniform, true, 2));
    let rolling = draw(distractors::Sampling::Rolling, false, 1);
    for pair in rolling.windows(2) {
        assert!(pair[1].1[..99].iter().all(|candidate| pair[0].1.contains(candidate)));
    }
    let pairs =
        distractors::to_match(&data, |codes, _| Some((1..=codes.len()).map(|i| i % 300).collect()), &path);
    let pairs: Vec<_> = pairs.unwrap().into_iter().map(|p| (p.query.text, p.code.text, p.label)).collect();
    assert_eq!(pairs.len(), 600);
    assert_eq!(pairs[598], ("q299".to_owned(), "c149".to_owned(), Some(1)));
    assert_eq!(pairs[599], ("q299".to_owned(), "c0".to_owned(), Some(0)));
    let few = distractors::DistractorOptions {
        count: 300,
        sampling: distractors::Sampling::Uniform,
        without_twins: false,
        seed: 1,
    };
    let error = distractors::sample(&data, few, &path).unwrap_err().to_string();
    assert!(error.contains("expected 300 documents that do not answer \"0\""), "{error}");
}

#[test]
fn repeats_are_counted_by_content_and_not_by_id() {
    // The ids of this format are row numbers.
    let row = |text: &str| format!("{{\"input\":\"{text}\",\"target\":1}}\n");
    let texts = ["q [CODESPLIT] f ( )", "q  [CODESPLIT]  f  ( )", "q [CODESPLIT] g ( )", " [CODESPLIT] h"];
    let pairs = texts.map(row).concat() + &row(texts[3]);
    let directory = directory(&[
        ("pairs.jsonl", pairs.as_str()),
        (
            "beir/corpus.jsonl",
            "{\"_id\":\"1\",\"text\":\"f\"}\n{\"_id\":\"2\",\"text\":\" f\"}\n{\"_id\":\"3\",\"text\":\"g\"}\n",
        ),
        ("beir/queries.jsonl", "{\"_id\":\"1\",\"text\":\"q\"}\n"),
        ("beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\n1\t1\t1\n1\t2\t1\n1\t3\t1\n"),
    ]);
    let repeated = |name: &str| {
        let sources = read(directory.path().join(name));
        let census = Census::new(&sources, false, &|_: &str, _: &mut dyn FnMut(&str)| {}).unwrap();
        census.describe().repeated_pairs
    };
    assert_eq!(repeated("pairs.jsonl"), 2);
    assert_eq!(repeated("beir"), 1);
    // Without the texts, only the ids are compared.
    assert_eq!(repeated("beir/qrels/test.tsv"), 0);
}

#[test]
fn queries_with_several_positives_keep_them_all() {
    let pair = |query: &str, code: &str| {
        format!("{{\"query\":\"{query}\",\"code\":\"{code}\",\"language\":\"python\",\"label\":1}}\n")
    };
    let lines = [pair("q", "a"), pair("q", "b"), pair("r", "c"), pair("s", "d")].concat();
    let directory = directory(&[("pairs.jsonl", lines.as_str())]);
    let path = directory.path().join("pairs.jsonl");
    let data = benchmark(&read(&path), &ConvertOptions::default()).unwrap();
    let options = distractors::DistractorOptions {
        count: 2,
        sampling: distractors::Sampling::Uniform,
        without_twins: false,
        seed: 1,
    };
    let lists = distractors::sample(&data, options, &path).unwrap();
    assert_eq!(distractors::candidate_counts(&lists), (3, 4));
    for seed in 0..20 {
        let mut random = PythonRandom::new(seed);
        let draw = |_: &[&str], answers: &[Vec<usize>]| distractors::mismatches(answers, &mut random);
        let pairs = distractors::to_match(&data, draw, &path).unwrap();
        assert_eq!(pairs.len(), 8);
        let wrong = pairs.iter().find(|pair| {
            pair.label == Some(0) && pair.query.text == "q" && ["a", "b"].contains(&pair.code.text.as_str())
        });
        assert!(wrong.is_none(), "seed {seed}: an answer is not a mismatch: {wrong:?}");
    }
}

#[test]
fn rows_that_name_a_code_of_another_file_are_no_repeats() {
    let retrieval = r#"[
        {"idx": "a", "doc": "q", "code": "", "retrieval_idx": 0, "label": 1},
        {"idx": "b", "doc": "r", "code": "", "retrieval_idx": 1, "label": 1}
    ]"#;
    let directory = directory(&[("pairs.json", retrieval)]);
    let sources = sources(&[directory.path().join("pairs.json")], "cosqa-retrieval", "test").unwrap();
    for on in [ComparedText::Code, ComparedText::Pair] {
        let report = dedupe(&sources, &[], (Equality::Normalized, on), None, 9).unwrap();
        assert_eq!((report.repeated, report.kept), (0, 2));
    }
}

#[test]
fn the_name_of_a_file_keeps_the_format_and_a_directory_is_not_called_like_one() {
    let directory = directory(&[("a.json", QA), ("b.jsonl", "{\"_id\":\"1\",\"text\":\"f\"}\n")]);
    let read = |names: &[&str]| {
        let paths: Vec<PathBuf> = names.iter().map(|name| directory.path().join(name)).collect();
        sources(&paths, "", "test").unwrap()
    };
    let qa = read(&["a.json"]);
    let default = |out: &str| Target::default_for(Path::new(out), &qa).unwrap().name();
    assert_eq!((default("a.parquet"), default("A.JSON"), default("a")), ("cosqa-qa", "cosqa-qa", "beir"));
    assert_eq!(default("benchmark.v2"), "beir");
    let both = read(&["a.json", "b.jsonl"]);
    let error = Target::default_for(Path::new("a.parquet"), &both).unwrap_err().to_string();
    assert!(error.contains("beir-queries, cosqa-qa") && error.contains("--to"), "{error}");
    let out = directory.path().join("deep/er/a.parquet");
    let target = Target::named("beir").unwrap();
    let error = convert(&qa, target, &out, "test", &ConvertOptions::default()).unwrap_err().to_string();
    assert!(error.contains("expected the name of a directory"), "{error}");
    assert!(!directory.path().join("deep").exists());
}

#[test]
fn a_conversion_that_fails_leaves_no_directory_behind() {
    let directory = directory(&[("a.json", r#"[{"idx": "1", "doc": "q", "code": "f()"}]"#)]);
    let sources = sources(&[directory.path().join("a.json")], "cosqa-qa", "test").unwrap();
    let out = directory.path().join("deep/er/out");
    assert!(
        convert(&sources, Target::named("beir").unwrap(), &out, "test", &ConvertOptions::default()).is_err()
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn names_are_each_used_once() {
    let mut names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    names.extend(quarry_corpus::dataset::convert::LAYOUTS.iter().map(|layout| layout.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
