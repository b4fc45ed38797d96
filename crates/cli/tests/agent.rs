//! `quarry agent` as a user runs it.

#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod fixture;

use std::fs;

use fixture::{Fixture, check_error, stderr, stdout};

#[test]
fn an_agent_is_installed_for_and_uninstalled() {
    let fixture = Fixture::new();
    fixture.write("home/.claude.json", "{\n  \"theme\": \"dark\"\n}\n");
    let shown = fixture.run(&["agent", "install", "claude-code", "--dry-run", "--command", "quarry"]);
    let diff = stdout(&shown);
    assert!(
        diff.contains("-  \"theme\": \"dark\"\n+  \"theme\": \"dark\",\n+  \"mcpServers\": {\n"),
        "{diff}"
    );
    assert!(diff.contains("skills/quarry/SKILL.md") && diff.contains("+Use `search` when"), "{diff}");
    assert!(!fixture.path("home/.claude").exists());

    let done = fixture.run(&["agent", "install", "claude-code"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let text = fs::read_to_string(fixture.path("home/.claude.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
    // The name would lead to another program, or to none.
    let command = settings["mcpServers"]["quarry"]["command"].as_str().unwrap();
    assert!(std::path::Path::new(command).is_absolute(), "{text}");
    let listed = fixture.json(&["agent", "list", "--json"]);
    let agents = listed["agents"].as_array().unwrap();
    assert!(agents.len() >= 10);
    let claude = agents.iter().find(|agent| agent["name"] == "claude-code").unwrap();
    assert_eq!((&claude["found"], &claude["scopes"][0]["installed"]), (&true.into(), &true.into()));
    assert!(stdout(&fixture.run(&["agent", "list"])).contains("user (installed), project"));

    let done = fixture.run(&["agent", "uninstall", "claude-code"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(
        fs::read_to_string(fixture.path("home/.claude.json")).unwrap(),
        "{\n  \"theme\": \"dark\"\n}\n"
    );
    assert!(!fixture.path("home/.claude").exists());
    let again = fixture.run(&["agent", "uninstall", "claude-code"]);
    assert!(stderr(&again).contains("nothing was installed"), "{}", stderr(&again));
}

#[cfg(unix)]
#[test]
fn a_file_of_definitions_that_has_no_end_is_refused() {
    let fixture = Fixture::new();
    let output = fixture.run(&["agent", "list", "--definitions", "/dev/zero"]);
    check_error(&output, "/dev/zero: cannot be read");
    assert!(stderr(&output).contains("longer than 1048576 bytes"), "{}", stderr(&output));
}

#[test]
fn a_project_has_entries_that_fit_everybody() {
    let fixture = Fixture::new();
    let install = ["agent", "install", "claude-code", "codex", "cursor", "--scope", "project"];
    let done = fixture.run(&install);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    for (file, words) in [
        (".mcp.json", "\"command\": \"quarry\""),
        (".codex/config.toml", "[mcp_servers.quarry]"),
        ("AGENTS.md", "<!-- quarry: begin"),
        (".cursor/mcp.json", "${workspaceFolder}"),
        (".cursor/rules/quarry.mdc", "grep"),
    ] {
        let text = fs::read_to_string(fixture.path("tree").join(file)).unwrap();
        assert!(text.contains(words), "{file}: {text}");
    }
    let from = fixture.path("tree/http");
    let elsewhere = fixture.run(&[
        "agent",
        "uninstall",
        "codex",
        "--scope",
        "project",
        "--project",
        from.to_str().unwrap(),
    ]);
    assert!(stderr(&elsewhere).contains("codex: nothing was installed here"), "{}", stderr(&elsewhere));
    fixture.run(&["agent", "uninstall", "cursor", "codex", "claude-code", "--scope", "project"]);
    let mut left: Vec<_> =
        fs::read_dir(fixture.path("tree")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["http", "net.py"]);
}

#[test]
fn mistakes_are_answered() {
    let fixture = Fixture::new();
    check_error(&fixture.run(&["agent", "install", "claude"]), "did you mean `claude-code`");
    check_error(&fixture.run(&["agent", "install"]), "AGENT");
    check_error(
        &fixture.run(&["agent", "install", "codex", "--project", "nowhere"]),
        "nowhere: expected the directory",
    );
    fixture.write("home/.gemini/settings.json", "{,}");
    check_error(&fixture.run(&["agent", "install", "gemini"]), "settings.json:1: not valid JSON");
    fixture.write("state/quarry/agents.json", "[]");
    check_error(
        &fixture.run(&["agent", "install", "codex"]),
        "agents.json: not a record of installed entries",
    );
}
