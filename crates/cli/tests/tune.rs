//! `quarry tune` on small trees: what it keeps, what it does not, and that it can be undone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::fixture::{Fixture, stderr, stdout};
use quarry_test_support::files::contents_below;
use serde_json::{Value, json};

const VERBS: [(&str, &str); 14] = [
    ("harvest", "parse"),
    ("paint", "encrypt"),
    ("whisper", "upload"),
    ("carve", "sort"),
    ("juggle", "merge"),
    ("bake", "render"),
    ("tickle", "validate"),
    ("polish", "compress"),
    ("borrow", "schedule"),
    ("scatter", "index"),
    ("praise", "delete"),
    ("fold", "download"),
    ("salute", "decode"),
    ("chase", "print"),
];
const NOUNS: [(&str, &str); 14] = [
    ("orchard", "header"),
    ("violin", "socket"),
    ("mountain", "table"),
    ("blanket", "token"),
    ("lantern", "image"),
    ("cathedral", "user"),
    ("penguin", "queue"),
    ("sandwich", "matrix"),
    ("river", "config"),
    ("button", "thread"),
    ("candle", "message"),
    ("island", "password"),
    ("feather", "directory"),
    ("kettle", "date"),
];

/// Functions whose documentation has other words than their code. If `has_meaning`, each word of the documentation
/// stands for one of the code, else for none.
fn tree(has_meaning: bool) -> Fixture {
    let fixture = Fixture::new();
    std::fs::remove_dir_all(fixture.path("tree")).unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    for (said_verb, verb) in VERBS {
        let mut text = String::new();
        for (said_noun, noun) in NOUNS {
            let any = |words: &[(&'static str, &str)], random: &mut fastrand::Rng| {
                words[random.usize(..words.len())].0
            };
            let (said_verb, said_noun) = match has_meaning {
                true => (said_verb, said_noun),
                false => (any(&VERBS, &mut random), any(&NOUNS, &mut random)),
            };
            // Words of its own, so that no two functions are nearly identical.
            let own: String = std::iter::repeat_with(|| random.lowercase()).take(8).collect();
            let (first, second) = own.split_at(4);
            writeln!(
                text,
                "def {verb}_{noun}({noun}, {first}{second}):\n    \"\"\"{said_verb} the {said_noun} of these people.\"\"\"\n    \
                 {first} = {verb}({noun}, {second}{first})\n    {second} = {noun}.{verb}({first}, {own})\n    return \
                 {own}({first}, {second})\n\n"
            )
            .unwrap();
        }
        fixture.write(&format!("tree/{verb}.py"), &text);
    }
    fixture
}

/// All files below a directory, which may be missing, with their content.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    if directory.exists() { contents_below(directory) } else { BTreeMap::new() }
}

fn model(fixture: &Fixture) -> Value {
    let settings = fixture.json("config --json")["settings"].as_array().unwrap().clone();
    settings.into_iter().find(|setting| setting["name"] == "model").unwrap()
}

fn found(fixture: &Fixture) -> Value {
    fixture.json("search 'whisper to the lantern' --threshold 0 --json")["results"].clone()
}

const TUNE: [&str; 4] = ["tune", ".", "--epochs", "60"];

#[test]
fn a_better_model_is_used_until_that_is_undone() {
    let fixture = tree(true);
    let (config, answer, source) = (model(&fixture), found(&fixture), files(&fixture.path("tree")));
    assert_eq!(config["value"], Value::Null);

    let dry = fixture.json(&[&TUNE[..], &["--dry-run", "--json"]].concat());
    assert_eq!((&dry["is_better"], &dry["kept"]), (&json!(true), &Value::Null), "{dry}");
    assert!(files(&fixture.path("state/quarry/tuned")).is_empty());

    let mut report = fixture.json(&[&TUNE[..], &["--json"]].concat());
    assert!(report["overall"]["p"].as_f64().unwrap() < 0.05, "{report}");
    let kept = report["kept"].as_str().unwrap().to_owned();
    for field in ["kept", "took_ms", "train_ms"] {
        report[field] = dry[field].clone();
    }
    assert_eq!(report, dry, "the same seed trains the same model");
    assert_eq!(model(&fixture)["value"], json!(kept));
    assert!(fixture.stdout("config").contains("quarry tune, in"));
    let tuned = found(&fixture);
    assert_eq!(tuned[0]["name"], "upload_image", "{tuned}");
    assert_ne!(tuned, answer);
    assert_eq!(files(&fixture.path("tree")), source, "nothing is written into the tree");
    // In a directory below too, and not where another model is named.
    assert!(fixture.json("config --json upload.py").to_string().contains(&kept));
    let named = fixture.json("search 'whisper to the lantern' --model builtin --threshold 0 --json");
    assert_eq!(named["results"], answer);

    let undone = fixture.succeed("tune --undo");
    assert!(stderr(&undone).contains("searches use the built-in model again"), "{}", stderr(&undone));
    assert_eq!((model(&fixture), found(&fixture)), (config, answer));
    assert!(files(&fixture.path("state/quarry/tuned")).is_empty());
    let again = fixture.run("tune --undo --json");
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(stdout(&again), "{\"undone\":false,\"model\":\"builtin\"}\n");
}

#[test]
fn a_model_that_is_no_better_is_not_kept() {
    let fixture = tree(false);
    let config = model(&fixture);
    let output = fixture.run(&TUNE);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("is not kept, and searches are unchanged"), "{}", stdout(&output));
    assert_eq!(model(&fixture), config);
    assert!(files(&fixture.path("state")).is_empty());
}

#[test]
fn a_tuned_model_only_replaces_its_base_model() {
    let fixture = tree(true);
    assert_eq!(fixture.run(&TUNE).status.code(), Some(0));
    let kept = model(&fixture)["value"].clone();
    // Another one that is named later is used.
    let other = fixture.path("other.bin");
    std::fs::copy(kept.as_str().unwrap(), &other).unwrap();
    fixture.succeed(&["index", "--model", other.to_str().unwrap()]);
    assert_eq!(model(&fixture)["value"], json!(other.canonicalize().unwrap()));
    // And so is the one whose place it took.
    let named_again = fixture.succeed("index --model builtin --json");
    let error = stderr(&named_again);
    assert!(error.contains("the model that `quarry tune` made is removed"), "{error}");
    assert_eq!(model(&fixture)["value"], json!("builtin"));
    assert!(files(&fixture.path("state/quarry/tuned")).is_empty());
    let named = ["search", "whisper to the lantern", "--model", "builtin", "--threshold", "0", "--json"];
    assert_eq!(found(&fixture), fixture.json(&named)["results"]);
    // A tree that was indexed with it before can be tuned all the same.
    assert_eq!(fixture.run(&TUNE).status.code(), Some(0));
    assert_eq!(model(&fixture)["value"], kept);
    // One that is lost is named, with what to do.
    std::fs::remove_file(kept.as_str().unwrap()).unwrap();
    fixture.check_error("search whisper", "quarry tune --undo");
    assert_eq!(fixture.run("tune --undo").status.code(), Some(0));
    assert_eq!(fixture.run(&["search", "whisper", "--threshold", "0"]).status.code(), Some(0));
}

#[test]
fn pairs_about_held_out_functions_decide() {
    let fixture = tree(true);
    let pairs: String = ["parse_header", "decode_date", "merge_user", "sort_table", "print_image", "upload_token"]
        .iter()
        .map(|name| {
            let (verb, _) = name.split_once('_').unwrap();
            let file = fixture.read(&format!("tree/{verb}.py"));
            let start = file.find(&format!("def {name}(")).unwrap();
            let code = &file[start..start + file[start..].find("\n\n").unwrap()];
            let code: String = code.lines().filter(|line| !line.contains("\"\"\"")).map(|line| format!("{line}\n")).collect();
            let pair = json!({"query": format!("please do {name}"), "doc": "", "name": name, "code": code, "language": "python", "repository": "o/r"});
            format!("{pair}\n")
        })
        .collect();
    fixture.write("pairs.jsonl", &pairs);
    let report = fixture.json("tune --epochs 1 --json --dry-run --pairs ../pairs.jsonl");
    let without = fixture.json("tune --epochs 1 --json --dry-run");
    let n = |report: &Value| report["learned"].as_u64().unwrap();
    let sources = report["sources"].as_array().unwrap();
    let held =
        sources.iter().find(|source| source["source"] == "queries").unwrap()["questions"].as_u64().unwrap();
    assert!(held > 0 && n(&report) > n(&without), "{report}");
    assert_eq!(n(&report) - n(&without) + held, 6);
}

#[test]
fn untunable_trees_are_reported() {
    let fixture = Fixture::new();
    fixture.check_error("tune", "expected at least 64 and 30");
    fixture.check_error("tune ../none", "expected the directory of a source tree");
    fixture.check_error("tune --hold-out 1", "expected a number from 0.1 to 0.9");
    let encoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-bert");
    fixture.write("config/quarry/config.toml", &format!("model = {:?}\n", encoder.display().to_string()));
    fixture.check_error("tune", "trains static models only");
}

#[test]
fn an_interrupted_run_changes_nothing() {
    let fixture = tree(true);
    let config = model(&fixture);
    let mut child =
        fixture.command("tune --epochs 60000").stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("to learn from")));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(model(&fixture), config);
    assert!(files(&fixture.path("state")).is_empty());
}
