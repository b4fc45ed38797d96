//! Commands that keep search working: `quarry status`, `doctor`, `watch` and `log`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::fixture::{Fixture, Running, stderr, stdout};
use serde_json::Value;

#[test]
fn status_builds_nothing_and_says_what_is_there() {
    let fixture = Fixture::new();
    fixture.write("tree/picture.unknown-kind", "x");
    let before = fixture.run("status --json");
    assert_eq!(before.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&before.stdout).unwrap();
    assert_eq!((&answer["fresh"], &answer["holds"]), (&false.into(), &Value::Null));
    assert!(!fixture.path("cache").exists());

    fixture.run("index");
    let answer = fixture.json("status --json");
    assert_eq!((&answer["fresh"], &answer["reason"]), (&true.into(), &Value::Null));
    assert_eq!(answer["holds"]["files"], 2);
    assert_eq!(answer["holds"]["units_by_kind"]["function"], 1);
    assert_eq!(answer["holds"]["units_by_language"]["python"], answer["holds"]["units"]);
    assert_eq!(answer["holds"]["skipped"][0]["path"], "picture.unknown-kind");
    let text = fixture.stdout("status");
    assert!(text.contains("state    fresh") && text.contains("picture.unknown-kind"), "{text}");

    fixture.write("tree/new.py", "x = 1\n");
    let answer = fixture.json("status --json");
    assert_eq!(answer["fresh"], false);
    assert!(answer["reason"].as_str().unwrap().contains('1'), "{answer}");
    assert_eq!(fixture.json("status --json")["fresh"], false);
}

#[test]
fn an_index_is_fresh_after_skipping_files_with_misleading_names() {
    let fixture = Fixture::new();
    fixture.write("tree/binary.py", "x = '\0'\n");
    fixture.write("tree/.binary.py", "x = '\0'\n");
    fixture.write("tree/broken.ipynb", "{ not a notebook");
    // Their times are too recent to prove that they are the same.
    fixture.run("index --hidden");
    let answer = fixture.json("status --json");
    assert_eq!((&answer["fresh"], &answer["reason"]), (&true.into(), &Value::Null), "{answer}");
    assert_eq!(answer["holds"]["skipped"].as_array().unwrap().len(), 3);
    assert_eq!(fixture.json("index --json")["built"], false);

    fixture.write("tree/binary.py", "x = '0'\n");
    let answer = fixture.json("status --json");
    assert_eq!(answer["reason"], "1 file changed");
}

#[test]
fn searches_are_recorded_only_when_asked() {
    let fixture = Fixture::new();
    let state = || fixture.json("log --json");
    fixture.run("search socket");
    assert_eq!((&state()["on"], &state()["records"]), (&false.into(), &0.into()));
    assert!(!fixture.path("state").exists());
    let nothing = |words: &str| {
        let shown = fixture.run("log show");
        assert!(stdout(&shown).is_empty() && stderr(&shown).contains(words), "{}", stderr(&shown));
    };
    nothing("`quarry log on` starts recording");

    fixture.run("log on");
    nothing("no search is recorded yet");
    fixture.run("search 'open a socket'");
    assert_eq!((&state()["on"], &state()["records"]), (&true.into(), &1.into()));
    let record: Value = serde_json::from_str(fixture.stdout("log show").trim()).unwrap();
    assert_eq!((&record["query"], &record["opened"]), (&"open a socket".into(), &Value::Null));
    assert_eq!(record["results"][0]["path"], "net.py");
    assert_eq!(record["root"], fixture.path("tree").canonicalize().unwrap().to_str().unwrap());
    assert!(record["time"].as_u64().unwrap() > 1_000_000_000);

    fixture.check_error("log --opened 99", "expected the rank of one of them");
    let noted = fixture.stderr("log --opened 1");
    assert!(noted.contains("net.py:1 was the right result of the search for \"open a socket\""), "{noted}");
    let text = fixture.stdout("log show");
    let opened: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&opened["query"], &opened["opened"]), (&"open a socket".into(), &1.into()));
    assert_eq!(opened["results"], record["results"]);

    fixture.run("log off");
    fixture.run("search socket");
    assert_eq!((&state()["on"], &state()["records"]), (&false.into(), &2.into()));
    // The last search was not recorded, and an older one is not meant.
    fixture.check_error("log --opened 1", "searches are not recorded");
    assert_eq!(state()["records"], 2);
    fixture.run("log clear");
    assert_eq!(state()["records"], 0);
    assert_eq!(fixture.stdout("log show"), "");
    fixture.check_error("log --opened 1", "quarry log on");
}

#[test]
#[cfg(unix)]
fn the_log_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let fixture = Fixture::new();
    fixture.run("log on");
    fixture.run("search socket");
    let mode = fs::metadata(fixture.path("state/quarry/searches.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_doctor_finds_what_is_broken_and_says_what_to_do() {
    let fixture = Fixture::new();
    let states = |answer: &Value| -> Vec<(String, String)> {
        let checks = answer["checks"].as_array().unwrap().iter();
        let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
        checks.map(|check| (text(check, "name"), text(check, "state"))).collect()
    };
    let healthy = fixture.run(&["doctor", "--json"]);
    assert_eq!(healthy.status.code(), Some(0), "{}", stdout(&healthy));
    let answer: Value = serde_json::from_slice(&healthy.stdout).unwrap();
    assert!(states(&answer).iter().all(|(_, state)| state == "ok"), "{answer}");
    assert!(!fixture.path("cache").exists() && !fixture.path("state").exists(), "it leaves nothing behind");

    fixture.run("index");
    fixture.write("tree/.quarry.toml", "limt = 1\n");
    let broken = fixture.run(&["doctor", "--json", "--model", "nothing"]);
    assert_eq!(broken.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&broken.stdout).unwrap();
    assert_eq!(answer["ok"], false);
    let found = states(&answer).into_iter().filter(|(_, state)| state != "ok");
    let expected = ["settings", "model"].map(|name| (name.to_owned(), "broken".to_owned()));
    assert_eq!(found.collect::<Vec<_>>(), expected, "{answer}");
    let text = fixture.stdout(&["doctor"]);
    #[cfg(all(feature = "data", target_os = "linux"))]
    {
        let programs = text.lines().find(|line| line.contains("for `quarry judge`")).unwrap();
        for said in ["bubblewrap", "python", "javascript"] {
            assert!(programs.contains(said), "{programs}");
        }
    }
    let line = text.lines().find(|line| line.contains("settings")).unwrap();
    assert!(line.starts_with("BROKEN"), "{line}");
    assert!(line.contains(".quarry.toml:1"), "{line}");
    assert!(line.contains("`limit`"), "{line}");
    check_error_of_doctor(&fixture, &["no/such/directory"], "tree");
}

/// Flips a bit of the first file with an extension in an index, and leaves its time of modification.
fn flip_a_bit(directory: &Path, extension: &str) -> bool {
    let paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.into_iter().any(|path| {
        if path.is_dir() {
            return flip_a_bit(&path, extension);
        }
        if path.extension().is_none_or(|found| found != extension) {
            return false;
        }
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
        true
    })
}

#[test]
fn a_damaged_index_is_reported_and_rebuilt() {
    let fixture = Fixture::new();
    let search = || fixture.run("search 'open a socket'");
    let expected = stdout(&search());
    // Of postings: the columns that once ended every command, terms, what a query reads, and what none reads.
    for extension in ["fast", "term", "idx", "store"] {
        for command in [&["search", "open a socket"][..], &["index", "--rebuild"]] {
            assert!(flip_a_bit(&fixture.path("cache"), extension), "{extension}");
            let doctor = fixture.json(&["doctor", "--json"]);
            let checks = doctor["checks"].as_array().unwrap();
            let index = checks.iter().find(|check| check["name"] == "index").unwrap();
            assert_eq!(index["state"], "warning", "{extension}: {index}");
            assert!(index["found"].as_str().unwrap().contains(&format!(".{extension}: ")), "{index}");
            fixture.run("cache prune");
            let output = fixture.run(command);
            assert_eq!(output.status.code(), Some(0), "{extension}: {}", stderr(&output));
            let messages = stderr(&output);
            assert!(!messages.contains("panicked"), "{messages}");
            assert!(messages.matches("rebuilding it").count() <= 1, "{messages}");
            assert_eq!(stdout(&search()), expected, "{extension}");
            fixture.run("index --rebuild");
        }
    }
}

/// That `quarry doctor` finds something broken, and says of what.
#[track_caller]
fn check_error_of_doctor(fixture: &Fixture, arguments: &[&str], name: &str) {
    let output = fixture.run(&[&["doctor"], arguments].concat());
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    assert!(text.lines().any(|line| line.starts_with(&format!("BROKEN   {name}"))), "{text}");
}

struct Watch {
    process: Running,
    lines: Receiver<String>,
}

impl Watch {
    fn start(fixture: &Fixture, options: &[&str]) -> Self {
        let mut command = fixture.command(&[&["index", "--watch", "--json"], options].concat());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process: Running(process), lines }
    }

    /// Result of the next refresh.
    fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(Duration::from_secs(60)).unwrap()).unwrap()
    }

    /// Reads on until the index holds `n_files` files.
    #[track_caller]
    fn wait_for(&self, n_files: u64) {
        while self.next()["files"] != n_files {}
    }
}

#[test]
fn a_watched_index_follows_the_tree() {
    for options in [&[][..], &["--poll", "1"]] {
        let fixture = Fixture::new();
        fixture.write("tree/.gitignore", "out/\n");
        fixture.write("tree/out/generated.py", "x = 1\n");
        let watch = Watch::start(&fixture, options);
        let first = watch.next();
        assert_eq!((&first["files"], &first["built"]), (&2.into(), &true.into()), "{first}");
        // Ignored files do not count as changes, so this reports only the other file.
        fixture.write("tree/out/generated.py", "y = 2\n");
        fixture.write("tree/http/client.py", "def fetch(url):\n    return url\n");
        let second = watch.next();
        assert_eq!((&second["files"], &second["reason"]), (&3.into(), &"1 file new".into()));
        fs::remove_dir_all(fixture.path("tree/http")).unwrap();
        watch.wait_for(1);
        fixture.write("tree/http/header.py", "def parse(line):\n    return line\n");
        watch.wait_for(2);
        fixture.write("tree/http/deep/er/body.py", "def read(stream):\n    return stream\n");
        watch.wait_for(3);
        fs::rename(fixture.path("tree"), fixture.path("moved")).unwrap();
        fs::rename(fixture.path("moved"), fixture.path("tree")).unwrap();
        fixture.write("tree/http/deep/er/tail.py", "def end(stream):\n    return stream\n");
        watch.wait_for(4);
    }
}

#[test]
#[cfg(feature = "transformers")]
fn a_watch_has_the_reranker_read_units_in_the_background() {
    let fixture = Fixture::new();
    let watch = Watch::start(&fixture, &[]);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let n_models = || fixture.json("status --json")["holds"]["models"].as_array().map_or(0, Vec::len);
    while n_models() < 2 {
        assert!(std::time::Instant::now() < deadline, "{}", fixture.json("status --json"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fixture.json("index --quality best --json")["embedded_ahead"], 0);
    // One thread gives way to all others.
    #[cfg(target_os = "linux")]
    {
        let threads = fs::read_dir(format!("/proc/{}/task", watch.process.0.id())).unwrap();
        let stats = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")).unwrap());
        // The 19th field; the second one, in parentheses, may have spaces.
        let niceness =
            |stat: String| stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().to_owned();
        assert_eq!(stats.map(niceness).filter(|nice| nice == "19").count(), 1);
    }
}

#[test]
#[cfg(unix)]
fn a_watch_ends_when_it_is_interrupted() {
    let fixture = Fixture::new();
    let mut watch = Watch::start(&fixture, &[]);
    watch.next();
    let pid = watch.process.0.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(watch.process.0.wait().unwrap().code(), Some(0));
    assert_eq!(fixture.json("status --json")["fresh"], true);
}
