//! Help, languages, settings, completions, manual pages.

use crate::fixture::{Fixture, check_error, stderr, stdout};
use serde_json::{Value, json};

fn commands(fixture: &Fixture) -> Vec<String> {
    let help = fixture.stdout("--help");
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_explains_itself() {
    let fixture = Fixture::new();
    let commands = commands(&fixture);
    assert!(commands.len() >= 9, "{commands:?}");
    for name in commands {
        let output = fixture.run(&[&name, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        assert!(stdout(&output).contains(&format!("Usage: quarry {name}")), "{name}");
    }
}

#[test]
fn the_version_names_the_build() {
    let fixture = Fixture::new();
    for option in ["--version", "-V"] {
        let text = fixture.stdout(&[option]);
        let (version, build) = text.trim().strip_suffix(')').unwrap().split_once(" (").unwrap();
        assert_eq!(version, concat!("quarry ", env!("CARGO_PKG_VERSION")));
        // The commit is not known everywhere, as in an archive that git did not make.
        let target = build.split_once(", ").map_or(build, |(commit, target)| {
            assert!(commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
            target
        });
        assert!(target.contains(std::env::consts::ARCH), "{text}");
    }
}

#[test]
fn languages_have_names_and_extensions() {
    let fixture = Fixture::new();
    let answer = fixture.json("languages --json");
    let languages = answer["languages"].as_array().unwrap();
    let python = languages.iter().find(|language| language["name"] == "python").unwrap();
    assert_eq!((&python["units"], &python["content"]), (&true.into(), &"code".into()));
    assert!(python["extensions"].as_array().unwrap().contains(&"py".into()));
    let text = fixture.stdout("languages");
    assert!(
        text.lines().any(|line| line.trim_start().starts_with("rust ") && line.ends_with(".rs")),
        "{text}"
    );
}

#[test]
fn shells_get_their_completions() {
    let fixture = Fixture::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = fixture.stdout(&["completions", shell]);
        assert!(script.contains("languages") && script.contains("threshold"), "{shell}");
    }
    fixture.check_error("completions command.com", "zsh");
}

#[test]
fn every_command_has_a_manual_page() {
    let fixture = Fixture::new();
    assert!(fixture.stdout("man").contains(".TH quarry 1"));
    assert!(fixture.stdout("man cache prune").contains(".TH quarry-cache-prune 1"));
    fixture.check_error("man nothing", "unknown command `quarry nothing`");
    let directory = fixture.path("man");
    assert_eq!(fixture.run(&["man", "--out", directory.to_str().unwrap()]).status.code(), Some(0));
    for name in commands(&fixture) {
        assert!(directory.join(format!("quarry-{name}.1")).is_file(), "{name}");
    }
}

#[test]
fn a_disabled_command_is_reported_with_its_feature() {
    let fixture = Fixture::new();
    let commands = commands(&fixture);
    for (name, feature) in [("eval", "eval"), ("judge", "data"), ("worker", "data"), ("mcp", "mcp")] {
        let output = fixture.run(&[name, "--no-such-option"]);
        if commands.iter().any(|command| command == name) {
            assert!(!stderr(&output).contains("this build"), "{}", stderr(&output));
        } else {
            check_error(&output, &format!("this build has no `quarry {name}`"));
            check_error(&output, &format!("--features {feature}"));
        }
    }
}

/// Value and source of a setting by `quarry config --json`.
fn setting(answer: &Value, name: &str) -> (Value, String) {
    let settings = answer["settings"].as_array().unwrap();
    let setting = settings.iter().find(|setting| setting["name"] == name).unwrap();
    (setting["value"].clone(), setting["from"].as_str().unwrap_or("default").to_owned())
}

#[test]
fn settings_come_from_the_tree_then_the_user_then_the_program() {
    let fixture = Fixture::new();
    fixture.write("tree/.quarry.toml", "limit = 2\n");
    fixture.write("config/quarry/config.toml", "limit = 5\nlines = 7\n");
    let answer = fixture.json("config --json");
    let (limit, from) = setting(&answer, "limit");
    assert_eq!(limit, json!(2));
    assert!(from.ends_with(".quarry.toml"), "{from}");
    let (lines, from) = setting(&answer, "lines");
    assert_eq!(lines, json!(7));
    assert!(from.ends_with("config.toml"), "{from}");
    assert_eq!(setting(&answer, "context"), (json!(0), "default".to_owned()));
    assert_eq!(answer["files"].as_array().unwrap().len(), 2);
    let text = fixture.stdout("config");
    assert!(text.contains("limit") && text.contains(".quarry.toml") && text.contains("default"), "{text}");
}

#[test]
fn a_mistake_in_a_settings_file_is_shown_where_it_is() {
    let fixture = Fixture::new();
    fixture.write("tree/.quarry.toml", "limit = 2\ntreshold = 0.5\n");
    fixture.check_error("config", ".quarry.toml:2: unknown setting `treshold`; did you mean `threshold`?");
    assert_eq!(fixture.run("search --help").status.code(), Some(0));
    assert_eq!(fixture.run("languages").status.code(), Some(0));
}
