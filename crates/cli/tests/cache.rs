//! Data on the user's machine: its permissions, and `quarry cache`, which lists and removes it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::fixture::{Fixture, assert_private, stderr, stdout};
use quarry_test_support::model_server::{Reply, Server};
use serde_json::{Value, json};

fn write_benchmark(fixture: &Fixture) {
    fixture.write("bench/corpus.jsonl", r#"{"_id": "a", "text": "def read(): pass"}"#);
    fixture.write("bench/queries.jsonl", r#"{"_id": "q", "text": "please read"}"#);
    fixture.write("bench/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\ta\t1\n");
}

/// Runs the binary with an umask that lets others read, and the key of a server.
#[track_caller]
fn run_open(fixture: &Fixture, server: &Server, arguments: &[&str]) -> Output {
    let quarry = fixture.command(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022; exec \"$0\" \"$@\""]).arg(quarry.get_program()).args(quarry.get_args());
    shell.current_dir(fixture.path("tree"));
    for (name, value) in quarry.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("OPENAI_BASE_URL", server.url()).env("OPENAI_API_KEY", "sk-test-0123456789");
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    output
}

/// A user with something of every kind: indexes of `tree` and `other`, vectors of a model, answers of a server.
fn user_of_everything() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("other/main.py", "def start():\n    return run()\n");
    write_benchmark(&fixture);
    fixture.write("bench/main.py", "def start():\n    return run()\n");
    let server = Server::script(|_, seen| {
        let texts = seen.body["input"].as_array().unwrap().len();
        let data: Vec<Value> =
            (0..texts).map(|index| json!({"index": index, "embedding": [0.6, 0.8]})).collect();
        Reply::ok(json!({"data": data, "usage": {"prompt_tokens": 7, "total_tokens": 7}}))
    });
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-bert");
    for arguments in [
        &["log", "on"][..],
        &["search", "open a socket"],
        &["index", "../other"],
        &["index", "--local", "../bench"],
        &["eval", "../bench", "--method", model.to_str().unwrap()],
        &["eval", "../bench", "--method", "api:tiny"],
    ] {
        run_open(&fixture, &server, arguments);
    }
    fixture
}

fn list(fixture: &Fixture) -> Vec<Value> {
    fixture.json("cache list --json")["entries"].as_array().unwrap().clone()
}

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect()
}

fn canonical(fixture: &Fixture, path: &str) -> String {
    fixture.path(path).canonicalize().unwrap().display().to_string()
}

#[test]
fn cached_files_are_private() {
    let fixture = user_of_everything();
    for (path, least) in [("cache/quarry", 20), ("state/quarry", 4), ("bench/.quarry", 5)] {
        let n = assert_private(&fixture.path(path));
        assert!(n >= least, "{path} holds {n}");
    }
}

#[test]
fn entries_are_listed_and_unneeded_ones_are_removed() {
    let fixture = user_of_everything();
    let entries = list(&fixture);
    assert_eq!(kinds(&entries), ["indexes", "indexes", "indexes", "vectors", "vectors", "answers"]);
    let whats: Vec<&str> = entries.iter().map(|entry| entry["what"].as_str().unwrap()).collect();
    for tree in ["tree", "other", "bench"] {
        assert!(whats.contains(&&*canonical(&fixture, tree)), "{whats:?}");
    }
    assert!(whats[5].starts_with("tiny at http://127.0.0.1:") && whats[5].ends_with(")"), "{whats:?}");
    assert!(entries.iter().all(|entry| entry["bytes"].as_u64().unwrap() > 0), "{entries:?}");
    assert_eq!(entries[2]["state"], "in_tree");
    let text = fixture.stdout("cache list");
    assert!(text.contains("today") && text.contains("(kept in the tree)"), "{text}");
    assert_eq!(text.lines().count(), entries.len() + 2, "{text}");

    let nothing = fixture.run("cache prune");
    assert_eq!((stdout(&nothing).as_str(), nothing.status.code()), ("nothing to remove\n", Some(0)));
    let gone = canonical(&fixture, "other");
    fs::remove_dir_all(fixture.path("other")).unwrap();
    let dry = fixture.json("cache prune --dry-run --json");
    assert_eq!((&dry["removed"][0]["what"], &dry["dry_run"]), (&json!(gone), &json!(true)));
    assert_eq!(list(&fixture).len(), 6);
    let pruned = fixture.json("cache prune --json");
    assert_eq!((pruned["removed"].as_array().unwrap().len(), &pruned["bytes"]), (1, &dry["bytes"]));
    assert_eq!(list(&fixture).len(), 5);
}

#[test]
fn kinds_and_ages_are_chosen() {
    let fixture = user_of_everything();
    let vectors = fixture.path("cache/quarry/embeddings");
    for entry in
        fs::read_dir(&vectors).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let two_months = Duration::from_secs(60 * 24 * 60 * 60);
        File::options()
            .append(true)
            .open(entry)
            .unwrap()
            .set_modified(SystemTime::now() - two_months)
            .unwrap();
    }
    let text = fixture.stdout("cache prune --older-than 30d --dry-run");
    assert!(text.contains("bert-2x16") && text.ends_with("would be removed\n"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    fixture.run("cache prune --older-than 30d --kind answers --kind indexes");
    assert_eq!(list(&fixture).len(), 6);
    fixture.run("cache prune --older-than 30d");
    assert_eq!(kinds(&list(&fixture)), ["indexes", "indexes", "indexes", "answers"]);
    fixture.run("cache prune --all --kind indexes");
    let left = list(&fixture);
    assert_eq!(kinds(&left), ["indexes", "answers"]);
    assert_eq!(left[0]["state"], "in_tree", "what lies in a tree stays");
    fixture.run("cache prune --all --kind answers");
    assert_eq!(kinds(&list(&fixture)), ["indexes"]);
    assert_eq!(fixture.run("search 'open a socket'").status.code(), Some(0));
    fixture.check_error("cache prune --older-than soon", "such as 12h, 30d or 8w");
}

#[test]
fn entries_in_use_or_not_ours_are_kept_and_reported() {
    let fixture = user_of_everything();
    let index = fixture.json("status --json")["index"].as_str().unwrap().to_owned();
    let lock = File::open(Path::new(&index).join("lock")).unwrap();
    lock.lock().unwrap();
    fixture.write("cache/quarry/index/notes/diary.txt", "mine");
    fixture.write("elsewhere/00/mine.json", "mine");
    fs::rename(fixture.path("cache/quarry/embeddings"), fixture.path("elsewhere/embeddings")).unwrap();
    symlink(fixture.path("elsewhere/embeddings"), fixture.path("cache/quarry/embeddings")).unwrap();
    let output = fixture.run("cache prune --all --kind indexes --kind vectors --json");
    assert_eq!(output.status.code(), Some(0));
    let (printed, pruned) = (stderr(&output), serde_json::from_slice::<Value>(&output.stdout).unwrap());
    for words in ["a running process uses it", "notes is not removed", "embeddings is a symbolic link"] {
        assert!(printed.contains(words), "{printed}");
    }
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 1);
    assert_eq!(pruned["left"].as_array().unwrap().len(), 2);
    assert!(fixture.path("cache/quarry/index/notes/diary.txt").exists() && Path::new(&index).exists());
    assert!(fs::read_dir(fixture.path("elsewhere/embeddings")).unwrap().count() > 2);
    drop(lock);
    fixture.run("cache prune --all --kind indexes");
    assert!(!Path::new(&index).exists());
}
