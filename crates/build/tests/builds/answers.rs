//! Answers of models that cannot be used.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use quarry_build::Built;
use quarry_test_support::model_server::{Seen, Server};
use serde_json::{Value, json};

use super::{
    DOCSTRINGS, answered, asked_function, counts, directory_of, files, lines, made, open_plan, plan, remake,
    rest, script, source, texts, write_judge,
};

fn lines_of(out: &Path, built: &Built, step: &str, file: &str) -> Vec<Value> {
    lines(&fs::read_to_string(directory_of(built, out, step).join(file)).unwrap())
}

#[test]
fn an_answer_that_says_nothing_is_excluded_and_not_paid_for_again() {
    // One summary and one query are empty, whatever is asked after them.
    let server = Server::script(|_, seen| {
        let (system, question) = texts(seen);
        let name = asked_function(&question);
        let is_summary = system.contains("You document");
        let is_query = system.contains("search engine") && system.contains("keywords");
        if is_summary && name == "vague" || is_query && name == "clean" {
            answered(if name == "vague" { "" } else { " \n" })
        } else {
            script(seen)
        }
    });
    let (_directory, plan, out) = plan(&server, 4);
    let built = made(&plan, &out).unwrap();
    let excluded = lines_of(&out, &built, "annotations", "excluded.jsonl");
    assert_eq!(excluded.len(), 1, "{excluded:?}");
    assert!(excluded[0]["problem"].as_str().unwrap().contains("cannot be read"), "{excluded:?}");
    let excluded = lines_of(&out, &built, "queries asked", "excluded.jsonl");
    let is_unreadable = |line: &&Value| line["filter"] == "unreadable answers";
    assert_eq!(excluded.iter().filter(is_unreadable).count(), 3, "{excluded:?}");
    let counts = |name: &str| counts(&built, name);
    assert_eq!(counts("annotations")["summaries"], 5);
    // Of five functions in two styles, three queries cannot be read: one of `clean` and both of `odd`.
    assert_eq!((counts("queries asked")["written"], counts("queries asked")["kept"]), (10, 7));
    // Each question was asked once, also over a restart that does all steps again.
    let bodies: Vec<String> = server.seen().iter().map(|seen| seen.body.to_string()).collect();
    let distinct: BTreeSet<&String> = bodies.iter().collect();
    assert_eq!(bodies.len(), distinct.len());
    remake(&plan, &out, &server);
}

#[test]
fn a_model_that_says_nothing_is_asked_each_question_once() {
    let server = Server::script(|_, _| answered(""));
    let (_directory, plan, out) = plan(&server, 4);
    for _ in 0..2 {
        let error = made(&plan, &out).unwrap_err().to_string();
        assert!(error.contains("expected queries, found none"), "{error}");
        // An explanation and six summaries, and a second try at each.
        assert_eq!(server.count(), 14);
    }
}

#[test]
fn written_queries_that_cannot_be_queries_are_excluded_with_a_reason() {
    let server = Server::script(|_, seen| {
        let (system, question) = texts(seen);
        let query = match (system.contains("search engine"), asked_function(&question).as_str()) {
            (true, "clean") => "word ".repeat(400_000),
            (true, "shout") => "how \u{1b}[2J to shout".to_owned(),
            (true, "strip_all") => "what does strip_all do".to_owned(),
            (true, "bang") => "bang()".to_owned(),
            _ => return script(seen),
        };
        answered(&json!({"Query": query}).to_string())
    });
    let (_directory, plan, out) = plan(&server, 4);
    let built = made(&plan, &out);
    // Only `vague`, which does not answer its queries, and `odd`, whose queries cannot be read, are left.
    let error = built.unwrap_err().to_string();
    assert!(error.contains("expected queries, found none"), "{error}");
    let found = fs::read_dir(out.join("steps")).unwrap().map(|entry| entry.unwrap().path());
    let texts = found.filter_map(|step| fs::read_to_string(step.join("excluded.jsonl")).ok());
    let excluded: Vec<Value> = texts.flat_map(|text| lines(&text)).collect();
    for (filter, expected) in [
        ("length", "400000 words"),
        ("control characters", "U+001B"),
        ("names of functions", "strip_all"),
        ("names of functions", "bang"),
    ] {
        let is_it =
            |line: &&Value| line["filter"] == filter && line["rule"].as_str().unwrap().contains(expected);
        assert!(excluded.iter().any(|line| is_it(&line)), "{filter} {expected}");
    }
    assert!(excluded.iter().all(|line| line["text"].as_str().is_none_or(|text| text.len() <= 300)));
    // They were not validated.
    let is_graded = |seen: &Seen| seen.body.to_string().contains("related_score");
    assert!(server.seen().iter().filter(|seen| is_graded(seen)).count() <= 2);
}

#[test]
fn written_queries_and_summaries_are_masked() {
    let server = Server::script(|_, seen| {
        let (system, question) = texts(seen);
        match (system.contains("search engine"), asked_function(&question).as_str()) {
            (true, "clean") => answered(r#"{"Query": "tidy mail of ann@example.org"}"#),
            (false, "clean") if system.contains("You document") => answered("It writes to ann@example.org."),
            _ => script(seen),
        }
    });
    let (_directory, plan, out) = plan(&server, 4);
    let built = made(&plan, &out).unwrap();
    let exports = files(&out.join("exports"));
    assert!(exports.values().any(|text| text.contains("tidy mail of")), "{exports:?}");
    assert!(exports.values().all(|text| !text.contains("ann@")), "{exports:?}");
    let counts = counts(&built, "queries asked");
    assert!(counts.iter().any(|(name, count)| name.starts_with("masked: ") && *count > 0), "{counts:?}");
}

#[test]
fn verdicts_that_cannot_be_read_leave_pairs_without_a_label() {
    let server = Server::script(|_, _| answered("I would rather not say."));
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let code = "def clean(text):\n    \"\"\"Remove spaces at both ends.\"\"\"\n    return text.strip()\n\n\n\
                def spaces(text):\n    return text.count(' ')\n";
    write_judge(directory.path(), "", &server);
    let text = source(directory.path(), code)
        + DOCSTRINGS
        + &rest(2, &["judge", "pairing"], "test", &["query-code"])
            .replace("\"judge\"", "\"judge\"\npath = \"judge.toml\"");
    let out = path("out");
    let built = made(&open_plan(directory.path(), &text).unwrap(), &out).unwrap();
    let counts = counts(&built, "labels");
    // The pair that the query was made of has a label by another source.
    assert_eq!(
        (counts["positive by pairing"], counts["undecided"], counts["unlabelled"]),
        (1, 1, 1),
        "{counts:?}"
    );
    let listed = lines_of(&out, &built, "labels", "unlabelled.jsonl");
    let reason = listed[0]["evidence"].as_str().unwrap();
    assert!(
        reason.starts_with("judge cosqa-plus: ") && listed[0]["code"].as_str().unwrap().contains("spaces"),
        "{reason}"
    );

    let text = text.replace("[[labels]]\nkind = \"pairing\"\n", "");
    let error = made(&open_plan(directory.path(), &text).unwrap(), &out).unwrap_err().to_string();
    assert!(error.contains("found none for 2 pairs (judge cosqa-plus: "), "{error}");
}
