//! `quarry status` and `quarry log`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod fixture;

use fixture::{Fixture, stdout};
use serde_json::Value;

#[test]
fn status_builds_nothing_and_says_what_is_there() {
    let fixture = Fixture::new();
    fixture.write("tree/picture.unknown-kind", "x");
    let before = fixture.run(&["status", "--json"]);
    assert_eq!(before.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&before.stdout).unwrap();
    assert_eq!((&answer["fresh"], &answer["holds"]), (&false.into(), &Value::Null));
    assert!(!fixture.path("cache").exists());

    fixture.run(&["index"]);
    let answer = fixture.json(&["status", "--json"]);
    assert_eq!((&answer["fresh"], &answer["reason"]), (&true.into(), &Value::Null));
    assert_eq!(answer["holds"]["files"], 2);
    assert_eq!(answer["holds"]["units_by_kind"]["function"], 1);
    assert_eq!(answer["holds"]["units_by_language"]["python"], answer["holds"]["units"]);
    assert_eq!(answer["holds"]["skipped"][0]["path"], "picture.unknown-kind");
    let text = stdout(&fixture.run(&["status"]));
    assert!(text.contains("state    fresh") && text.contains("picture.unknown-kind"), "{text}");

    fixture.write("tree/new.py", "x = 1\n");
    let answer = fixture.json(&["status", "--json"]);
    assert_eq!(answer["fresh"], false);
    assert!(answer["reason"].as_str().unwrap().contains('1'), "{answer}");
    assert_eq!(fixture.json(&["status", "--json"])["fresh"], false);
}

#[test]
fn searches_are_recorded_only_when_asked() {
    let fixture = Fixture::new();
    let state = || fixture.json(&["log", "status", "--json"]);
    fixture.run(&["search", "socket"]);
    assert_eq!((&state()["on"], &state()["records"]), (&false.into(), &0.into()));
    assert!(!fixture.path("state").exists());

    fixture.run(&["log", "on"]);
    fixture.run(&["search", "open a socket"]);
    assert_eq!((&state()["on"], &state()["records"]), (&true.into(), &1.into()));
    let record: Value = serde_json::from_str(stdout(&fixture.run(&["log", "show"])).trim()).unwrap();
    assert_eq!((&record["query"], &record["opened"]), (&"open a socket".into(), &Value::Null));
    assert_eq!(record["results"][0]["path"], "net.py");
    assert_eq!(record["root"], fixture.path("tree").canonicalize().unwrap().to_str().unwrap());
    assert!(record["time"].as_u64().unwrap() > 1_000_000_000);

    fixture.run(&["log", "off"]);
    fixture.run(&["search", "socket"]);
    assert_eq!((&state()["on"], &state()["records"]), (&false.into(), &1.into()));
    fixture.run(&["log", "clear"]);
    assert_eq!(state()["records"], 0);
    assert_eq!(stdout(&fixture.run(&["log", "show"])), "");
}

#[test]
#[cfg(unix)]
fn the_log_is_for_its_owner_only() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    let fixture = Fixture::new();
    fixture.run(&["log", "on"]);
    fixture.run(&["search", "socket"]);
    let mode = fs::metadata(fixture.path("state/quarry/searches.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
