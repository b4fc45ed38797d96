//! `quarry agent` as a user runs it.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::fixture::{Fixture, check_error, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn an_agent_is_installed_for_and_uninstalled() {
    let fixture = Fixture::new();
    fixture.write("home/.claude.json", "{\n  \"theme\": \"dark\"\n}\n");
    let shown = fixture.run("agent install claude-code --dry-run --command quarry");
    let diff = stdout(&shown);
    assert!(
        diff.contains("-  \"theme\": \"dark\"\n+  \"theme\": \"dark\",\n+  \"mcpServers\": {\n"),
        "{diff}"
    );
    assert!(diff.contains("skills/quarry/SKILL.md") && diff.contains("+Use `search` when"), "{diff}");
    assert!(!fixture.path("home/.claude").exists());

    fixture.succeed("agent install claude-code");
    let text = fixture.read("home/.claude.json");
    let settings: Value = serde_json::from_str(&text).unwrap();
    // The name would lead to another program, or to none.
    let command = settings["mcpServers"]["quarry"]["command"].as_str().unwrap();
    assert!(std::path::Path::new(command).is_absolute(), "{text}");
    let listed = fixture.json("agent list --json");
    let agents = listed["agents"].as_array().unwrap();
    assert!(agents.len() >= 10);
    let claude = agents.iter().find(|agent| agent["name"] == "claude-code").unwrap();
    assert_eq!((&claude["found"], &claude["scopes"][0]["installed"]), (&true.into(), &true.into()));
    assert!(fixture.stdout("agent list").contains("user (installed), project"));

    fixture.succeed("agent uninstall claude-code");
    assert_eq!(fixture.read("home/.claude.json"), "{\n  \"theme\": \"dark\"\n}\n");
    assert!(!fixture.path("home/.claude").exists());
    let again = fixture.run("agent uninstall claude-code");
    assert!(stderr(&again).contains("nothing was installed"), "{}", stderr(&again));
}

#[cfg(unix)]
#[test]
fn a_file_of_definitions_that_has_no_end_is_refused() {
    let fixture = Fixture::new();
    let output = fixture.run("agent list --definitions /dev/zero");
    check_error(&output, "/dev/zero: cannot be read");
    assert!(stderr(&output).contains("longer than 1048576 bytes"), "{}", stderr(&output));
}

#[test]
fn a_project_has_entries_that_fit_everybody() {
    let fixture = Fixture::new();
    let install = ["agent", "install", "claude-code", "codex", "cursor", "--scope", "project"];
    fixture.succeed(&install);
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
    let from = fixture.path("tree/http").display().to_string();
    let elsewhere = fixture.stderr(&format!("agent uninstall codex --scope project --project {from}"));
    assert!(elsewhere.contains("codex: nothing was installed here"), "{elsewhere}");
    fixture.run("agent uninstall cursor codex claude-code --scope project");
    let mut left: Vec<_> =
        fs::read_dir(fixture.path("tree")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["http", "net.py"]);
}

#[test]
fn mistakes_are_answered() {
    let fixture = Fixture::new();
    fixture.check_error("agent install claude", "did you mean `claude-code`");
    fixture.check_error("agent install", "AGENT");
    fixture.check_error("agent install codex --project nowhere", "nowhere: expected the directory");
    fixture.write("home/.gemini/settings.json", "{,}");
    fixture.check_error("agent install gemini", "settings.json:1: not valid JSON");
    fixture.write("state/quarry/agents.json", "[]");
    fixture.check_error("agent install codex", "agents.json: not a record of installed entries");
}

#[test]
fn context_and_outline_take_several_paths_and_context_a_query_from_stdin() {
    let fixture = Fixture::new();
    fixture.write("tree/http/net.py", "def connect(address):\n    return dial(address)\n");
    let map = fixture.stdout("outline http net.py");
    assert!(map.contains("http/header.py\n") && map.contains("http/net.py\n"), "{map}");
    assert!(map.contains("\nnet.py\n") || map.starts_with("net.py\n"), "{map}");
    // Of one path, paths are relative to it.
    let map = fixture.stdout("outline http");
    assert!(map.contains("header.py\n") && !map.contains("http/"), "{map}");
    let code = fixture.json("context 'open a socket to a host' . http --json");
    assert_eq!(code["root"], ".");
    let text = code["text"].as_str().unwrap();
    assert!(text.contains("net.py:1-3 function connect\n"), "{text}");

    let mut command = fixture.command("context - http");
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(b"  HeaderParser\n").unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(stdout(&output).contains("class HeaderParser"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn tokens_of_context_are_compared_with_those_of_its_files() {
    let fixture = Fixture::new();
    fixture.run("log on");
    let given = fixture.json("context HeaderParser.parse --json");
    let savings = fixture.json("log show --savings --json");
    assert_eq!((&savings["searches"], &savings["tokens_given"]), (&1.into(), &given["tokens"]));
    assert!(savings["opened"].as_u64().unwrap() >= 1, "{savings}");
    assert!(savings["tokens_of_files"].as_u64().unwrap() > 10, "{savings}");
    let records = fixture.stdout("log show");
    assert!(records.contains("\"command\":\"context\""), "{records}");
}

#[cfg(unix)]
#[test]
fn a_hook_answers_guessed_words_and_never_fails() {
    let fixture = Fixture::new();
    let hook = |agent: &str, file: &str, event: &str, program: &str| {
        let install = ["agent", "install", agent, "--scope", "project", "--command", program];
        assert_eq!(fixture.run(&install).status.code(), Some(0));
        let text = fs::read_to_string(fixture.path("tree").join(file)).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        let hook = &settings["hooks"][event][0];
        hook["command"].as_str().or(hook["hooks"][0]["command"].as_str()).unwrap().to_owned()
    };
    let run = |command: &str, input: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = shell.spawn().unwrap();
        // One that reads nothing may be gone.
        let _ = running.stdin.take().unwrap().write_all(input.as_bytes());
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        stdout(&output)
    };
    let call = |name: &str, value: &str| {
        let input = json!({name: value, "description": "find retry|backoff"});
        json!({"session_id": "a", "tool_name": "Bash", "tool_input": input}).to_string()
    };
    for (agent, file, event) in [
        ("claude-code", ".claude/settings.json", "PreToolUse"),
        ("gemini", ".gemini/settings.json", "AfterTool"),
        ("crush", "crush.json", "PreToolUse"),
    ] {
        let silent = hook(agent, file, event, "no such program");
        let command = hook(agent, file, event, "sh");
        for (name, value) in [
            ("pattern", "retry|backoff|attempt"),
            ("pattern", "rate.*limit"),
            ("command", "cd src && grep -rn \"retry\\|back off\" ."),
            ("command", "rg -i 'throttl|rate.?limit' | head -5"),
        ] {
            let answer: Value = serde_json::from_str(&run(&command, &call(name, value))).unwrap();
            let hint = &answer["hookSpecificOutput"];
            assert_eq!(hint["hookEventName"], event);
            assert!(hint["additionalContext"].as_str().unwrap().contains("tool context"), "{hint}");
            assert!(hint.get("permissionDecision").is_none(), "the call is not decided on");
            assert_eq!(run(&silent, &call(name, value)), "");
        }
        for (name, value) in [
            ("pattern", "parseHttpHeader"),
            ("pattern", "fn connect\\("),
            ("command", "cargo test 2>&1 | grep error | head"),
            ("command", "echo 'retry|backoff'"),
        ] {
            assert_eq!(run(&command, &call(name, value)), "", "{value}");
        }
        for input in ["", "{", "\u{0}\u{fffd}", &"\"pattern\": \"".repeat(100_000)] {
            assert_eq!(run(&command, input), "");
        }
    }
    let start = hook("claude-code", ".claude/settings.json", "SubagentStart", "sh");
    assert!(run(&start, "{}").contains("\"hookEventName\":\"SubagentStart\""));
}
