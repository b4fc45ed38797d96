//! Installing and uninstalling for every agent, on files as people have them.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use quarry_agents::{Agent, Environment, Note, Plan, Receipts, Scope, agents, install, uninstall};
use quarry_test_support::files;

struct Fixture {
    directory: tempfile::TempDir,
    environment: Environment,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let environment = Environment {
            home: at("home"),
            config: at("config"),
            project: at("project"),
            command: "quarry".to_owned(),
            variables: HashMap::new(),
        };
        Self { directory, environment }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        files::write(self.path(path), text);
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn receipts(&self) -> PathBuf {
        self.path("state/agents.json")
    }

    fn install(&self, names: &[&str], scope: Scope) -> Plan {
        let plan = self.plan_install(names, scope).unwrap();
        plan.apply(&self.receipts()).unwrap();
        plan
    }

    fn plan_install(&self, names: &[&str], scope: Scope) -> Result<Plan, quarry_agents::Error> {
        install(&named(names), scope, &self.environment, &Receipts::read(&self.receipts()).unwrap())
    }

    fn uninstall(&self, names: &[&str], scope: Scope) -> Plan {
        let receipts = Receipts::read(&self.receipts()).unwrap();
        let plan = uninstall(&named(names), scope, &self.environment, &receipts).unwrap();
        plan.apply(&self.receipts()).unwrap();
        plan
    }

    /// All files and directories but the state, with their texts.
    fn all(&self) -> BTreeMap<PathBuf, Option<String>> {
        let mut found = BTreeMap::new();
        let mut directories = vec![self.directory.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path == self.path("state") {
                    continue;
                }
                let is_directory = entry.file_type().unwrap().is_dir();
                // A link may lead to a directory.
                found.insert(path.clone(), fs::read_to_string(&path).ok());
                if is_directory {
                    directories.push(path);
                }
            }
        }
        found
    }
}

fn named(names: &[&str]) -> Vec<&'static Agent> {
    names.iter().map(|name| agents().iter().find(|agent| agent.name == *name).unwrap()).collect()
}

/// Settings as somebody may have them, for a file of this name.
fn settings(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => {
            "// Mine.\n{\n    \"theme\": \"dark\", // at night\n    \"mcpServers\": {\n        \"other\": { \"command\": \"x\" },\n    },\n}\n"
        }
        Some("toml") => "# Mine.\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"x\"",
        Some("yaml" | "yml") => "# Mine.\nextensions:\n  other:\n    cmd: x # y\nread: A.md\n",
        _ => "# Mine\r\n\r\nDo as I say.\r\n",
    }
}

#[test]
fn every_agent_is_as_it_was_after_uninstalling() {
    for agent in agents() {
        for scope in agent.scopes() {
            for has_settings in [false, true] {
                let fixture = Fixture::new();
                if has_settings {
                    for path in agent.paths(scope, &fixture.environment) {
                        // A file of its own is not somebody else's.
                        if !path.to_string_lossy().contains("quarry") {
                            files::write(&path, settings(&path));
                        }
                    }
                }
                let before = fixture.all();
                let plan = fixture.install(&[&agent.name], scope);
                assert_eq!(
                    plan.changes.len(),
                    agent.paths(scope, &fixture.environment).len(),
                    "{}",
                    agent.name
                );
                assert!(plan.notes.is_empty(), "{:?}", plan.notes);
                let installed = fixture.all();
                assert_ne!(installed, before, "{}", agent.name);
                let again = fixture.install(&[&agent.name], scope);
                assert!(again.is_empty() && !again.notes.is_empty(), "{}: {}", agent.name, again.diff());
                fixture.uninstall(&[&agent.name], scope);
                assert_eq!(fixture.all(), before, "{} {scope} {has_settings}", agent.name);
            }
        }
    }
}

#[test]
fn all_agents_together_are_as_they_were_in_any_order() {
    let all: Vec<&str> = agents().iter().map(|agent| agent.name.as_str()).collect();
    let with = |scope| -> Vec<&str> {
        all.iter().copied().filter(|name| named(&[*name])[0].scopes().contains(&scope)).collect()
    };
    for scope in [Scope::User, Scope::Project] {
        for seed in 0..4 {
            let fixture = Fixture::new();
            fixture.write("project/AGENTS.md", "# Mine");
            fixture.write("home/.claude.json", "{}");
            let before = fixture.all();
            fixture.install(&with(scope), scope);
            let mut order = with(scope);
            order.rotate_left(seed * 3 % all.len());
            if seed % 2 == 1 {
                order.reverse();
            }
            for name in order {
                fixture.uninstall(&[name], scope);
            }
            assert_eq!(fixture.all(), before, "{scope} {seed}");
            assert!(Receipts::read(&fixture.receipts()).unwrap().receipts.is_empty());
        }
    }
}

#[test]
fn directories_are_removed_with_their_last_file() {
    let mut fixture = Fixture::new();
    let config = fixture.path("home/.config");
    fixture.environment.variables.insert("XDG_CONFIG_HOME".to_owned(), config.to_string_lossy().into_owned());
    let before = fixture.all();
    for name in ["opencode", "zed", "goose"] {
        fixture.install(&[name], Scope::User);
    }
    for name in ["opencode", "zed", "goose"] {
        assert!(config.exists(), "{name}");
        fixture.uninstall(&[name], Scope::User);
    }
    assert_eq!(fixture.all(), before);
}

#[test]
fn foreign_entries_are_left_alone() {
    let fixture = Fixture::new();
    let own = "{\n  \"mcpServers\": { \"quarry\": { \"command\": \"/my/own\" } }\n}\n";
    fixture.write("home/.aws/amazonq/mcp.json", own);
    let plan = fixture.install(&["amazon-q"], Scope::User);
    assert!(plan.is_empty());
    assert!(matches!(plan.notes.as_slice(), [Note::LeftAlone(_)]), "{:?}", plan.notes);
    let plan = fixture.uninstall(&["amazon-q"], Scope::User);
    assert!(matches!(plan.notes.as_slice(), [Note::NotInstalled(_)]), "{:?}", plan.notes);
    assert_eq!(fixture.read("home/.aws/amazonq/mcp.json"), own);
}

#[test]
fn only_our_part_of_an_edited_file_is_removed() {
    let fixture = Fixture::new();
    fixture.write("home/.gemini/settings.json", "{\n  \"a\": 1\n}\n");
    fixture.install(&["gemini"], Scope::User);
    let installed = fixture.read("home/.gemini/settings.json");
    let edited = installed.replace("\"a\": 1", "\"a\": 2,\n  \"b\": 3").replace(
        "\"mcpServers\": {\n",
        "\"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // mine\n",
    );
    fixture.write("home/.gemini/settings.json", &edited);
    fixture.uninstall(&["gemini"], Scope::User);
    assert_eq!(
        fixture.read("home/.gemini/settings.json"),
        "{\n  \"a\": 2,\n  \"b\": 3,\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" } // mine\n  }\n}\n"
    );
}

#[test]
fn edited_files_are_left_alone() {
    let fixture = Fixture::new();
    fixture.install(&["claude-code"], Scope::Project);
    let changed = fixture.read("project/.mcp.json").replace("\"quarry\",", "\"/my/quarry\",");
    fixture.write("project/.mcp.json", &changed);
    fixture.write("project/.claude/skills/quarry/SKILL.md", "mine\n");
    fixture.write("project/.claude/agents/quarry-finder.md", "mine\n");
    let plan = fixture.uninstall(&["claude-code"], Scope::Project);
    assert_eq!(plan.notes.len(), 3, "{:?}", plan.notes);
    assert!(matches!(plan.changes.as_slice(), [hooks] if hooks.path.ends_with(".claude/settings.json")));
    assert_eq!(fixture.read("project/.mcp.json"), changed);
    assert_eq!(fixture.read("project/.claude/skills/quarry/SKILL.md"), "mine\n");
}

#[test]
fn another_command_replaces_the_entry_and_uninstalling_still_restores() {
    let mut fixture = Fixture::new();
    fixture.write("home/.codex/config.toml", "a = 1\n");
    let before = fixture.all();
    fixture.install(&["codex"], Scope::User);
    fixture.environment.command = "/opt/quarry".to_owned();
    let plan = fixture.install(&["codex"], Scope::User);
    assert_eq!(plan.changes.len(), 1, "{}", plan.diff());
    let text = fixture.read("home/.codex/config.toml");
    assert_eq!(text.matches("quarry]").count(), 1, "{text}");
    assert!(text.contains("command = \"/opt/quarry\""), "{text}");
    fixture.uninstall(&["codex"], Scope::User);
    assert_eq!(fixture.all(), before);
}

#[test]
fn hooks_keep_foreign_ones_and_are_replaced_with_the_command() {
    let mut fixture = Fixture::new();
    let own = "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"matcher\": \"Bash\", \"hooks\": [] } // mine\n    ]\n  }\n}\n";
    fixture.write("home/.claude/settings.json", own);
    let before = fixture.all();
    fixture.install(&["claude-code"], Scope::User);
    let text = fixture.read("home/.claude/settings.json");
    assert!(text.contains("\"matcher\": \"Bash\", \"hooks\": [] }") && text.contains("// mine"), "{text}");
    assert!(text.contains("\"matcher\": \"Grep|Bash\"") && text.contains("\"SubagentStart\""), "{text}");
    fixture.environment.command = "/o'pt/quarry".to_owned();
    fixture.install(&["claude-code"], Scope::User);
    let text = fixture.read("home/.claude/settings.json");
    assert_eq!(text.matches("Grep|Bash").count(), 1, "{text}");
    assert_eq!(text.matches(r"command -v '/o'\\''pt/quarry'").count(), 2, "{text}");
    // Edited since: only the own hooks go.
    fixture.write("home/.claude/settings.json", &text.replace("\"Bash\"", "\"Read\""));
    fixture.uninstall(&["claude-code"], Scope::User);
    let text = fixture.read("home/.claude/settings.json");
    assert_eq!(text, own.replace("\"Bash\"", "\"Read\""));
    fixture.write("home/.claude/settings.json", own);
    assert_eq!(fixture.all(), before);
}

#[test]
fn a_dry_run_shows_a_diff_and_changes_nothing() {
    let fixture = Fixture::new();
    fixture.write("home/.cursor/mcp.json", "{\n  \"mcpServers\": {}\n}\n");
    let before = fixture.all();
    let plan = fixture.plan_install(&["cursor"], Scope::User).unwrap();
    assert_eq!(fixture.all(), before);
    let diff = plan.diff();
    assert!(diff.contains("-  \"mcpServers\": {}\n+  \"mcpServers\": {\n+    \"quarry\": {\n"), "{diff}");
    let plan = fixture.plan_install(&["claude-code"], Scope::User).unwrap();
    assert!(plan.diff().contains("--- /dev/null\n+++ "), "{}", plan.diff());
}

#[test]
fn damaged_settings_are_refused_and_nothing_is_written() {
    let fixture = Fixture::new();
    fixture.write("home/.gemini/settings.json", "{ \"mcpServers\": ");
    let before = fixture.all();
    let error = fixture.plan_install(&["claude-code", "gemini"], Scope::User).unwrap_err().to_string();
    assert!(error.contains(".gemini/settings.json:1: not valid JSON"), "{error}");
    assert!(error.contains("by hand: {\"mcpServers\""), "{error}");
    assert_eq!(fixture.all(), before);
    let error = fixture.plan_install(&["kiro"], Scope::Project).map(|plan| plan.changes.len());
    assert_eq!(error.unwrap(), 2);
}

#[test]
fn concurrent_writes_are_not_overwritten() {
    let fixture = Fixture::new();
    fixture.write("home/.cursor/mcp.json", "{}");
    let plan = fixture.plan_install(&["cursor"], Scope::User).unwrap();
    fixture.write("home/.cursor/mcp.json", "{\"new\": 1}");
    let error = plan.apply(&fixture.receipts()).unwrap_err().to_string();
    assert!(error.contains("in the meantime"), "{error}");
    assert_eq!(fixture.read("home/.cursor/mcp.json"), "{\"new\": 1}");
    // An entry that was recorded but not written does not prevent it.
    fixture.install(&["cursor"], Scope::User);
    fixture.uninstall(&["cursor"], Scope::User);
    assert_eq!(fixture.read("home/.cursor/mcp.json"), "{\"new\": 1}");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_and_permissions_of_settings_are_kept() {
        let fixture = Fixture::new();
        fixture.write("dotfiles/cursor.json", "{}");
        fs::set_permissions(fixture.path("dotfiles/cursor.json"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(fixture.path("home/.cursor")).unwrap();
        symlink("../../dotfiles/cursor.json", fixture.path("home/.cursor/mcp.json")).unwrap();
        fixture.install(&["cursor"], Scope::User);
        assert!(fs::symlink_metadata(fixture.path("home/.cursor/mcp.json")).unwrap().is_symlink());
        assert!(fixture.read("dotfiles/cursor.json").contains("quarry"));
        let mode = fs::metadata(fixture.path("dotfiles/cursor.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fixture.uninstall(&["cursor"], Scope::User);
        assert_eq!(fixture.read("dotfiles/cursor.json"), "{}");
        assert!(fs::symlink_metadata(fixture.path("home/.cursor/mcp.json")).unwrap().is_symlink());
    }

    #[test]
    fn copies_that_a_killed_run_left_are_removed_but_not_those_in_use() {
        let fixture = Fixture::new();
        fixture.write("home/.cursor/mcp.json", "{}");
        fixture.write("home/.cursor/.mcp.json.quarry-1-1", "{\"key\": \"left");
        fixture.write("home/.cursor/.mcp.json.quarry-2-2", "{\"key\": \"in use");
        let in_use = fs::File::open(fixture.path("home/.cursor/.mcp.json.quarry-2-2")).unwrap();
        in_use.lock().unwrap();
        fixture.install(&["cursor"], Scope::User);
        let exists = |name: &str| fixture.path("home/.cursor").join(name).exists();
        assert_eq!((exists(".mcp.json.quarry-1-1"), exists(".mcp.json.quarry-2-2")), (false, true));
        drop(in_use);
        fixture.uninstall(&["cursor"], Scope::User);
        assert!(!exists(".mcp.json.quarry-2-2"));
    }

    #[test]
    fn links_in_a_project_do_not_lead_out_of_it() {
        for link in [".mcp.json", ".cursor", ".github"] {
            let fixture = Fixture::new();
            fixture.write("home/rc", "mine\n");
            symlink("../home/rc", fixture.path("project").join(".mcp.json")).unwrap();
            for name in [".cursor", ".github"] {
                symlink("../home", fixture.path("project").join(name)).unwrap();
            }
            let agent = match link {
                ".mcp.json" => "claude-code",
                ".cursor" => "cursor",
                _ => "copilot",
            };
            let before = fixture.all().keys().cloned().collect::<Vec<_>>();
            let error = fixture.plan_install(&[agent], Scope::Project).unwrap_err().to_string();
            assert!(error.contains("outside the project"), "{error}");
            assert_eq!(fixture.all().keys().cloned().collect::<Vec<_>>(), before);
        }
    }

    #[test]
    fn only_text_in_regular_files_is_edited() {
        let problem = |fixture: &Fixture| {
            let error = fixture.plan_install(&["cursor"], Scope::User).unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            format!("{error}: {cause}")
        };
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.path("home/.cursor/mcp.json")).unwrap();
        assert!(problem(&fixture).contains("a directory, not a regular file"), "{}", problem(&fixture));
        let fixture = Fixture::new();
        fs::create_dir(fixture.path("home/.cursor")).unwrap();
        symlink("/dev/zero", fixture.path("home/.cursor/mcp.json")).unwrap();
        assert!(problem(&fixture).contains("a device, not a regular file"), "{}", problem(&fixture));
        fs::remove_file(fixture.path("home/.cursor/mcp.json")).unwrap();
        fs::write(fixture.path("home/.cursor/mcp.json"), b"{\n\"\xff\"}").unwrap();
        assert!(problem(&fixture).contains("line 2 is not valid UTF-8"), "{}", problem(&fixture));
    }

    #[test]
    fn a_dangling_link_is_refused() {
        let fixture = Fixture::new();
        fs::create_dir(fixture.path("home/.cursor")).unwrap();
        symlink("nowhere", fixture.path("home/.cursor/mcp.json")).unwrap();
        // A directory of dotfiles that is not mounted.
        symlink("nowhere", fixture.path("home/.gemini")).unwrap();
        for (agent, link) in [
            ("cursor", "mcp.json: the target of the link does not exist"),
            ("gemini", ".gemini: the target of the link does not exist"),
        ] {
            let error = fixture.plan_install(&[agent], Scope::User).unwrap_err().to_string();
            assert!(error.contains(link), "{error}");
        }
    }

    #[test]
    fn links_within_a_project_are_followed_but_not_into_its_repository() {
        let fixture = Fixture::new();
        fixture.write("project/CLAUDE.md", "# Mine\n");
        symlink("CLAUDE.md", fixture.path("project/AGENTS.md")).unwrap();
        let before = fixture.all();
        fixture.install(&["zed"], Scope::Project);
        assert!(fixture.read("project/CLAUDE.md").contains("quarry: begin"));
        assert!(fs::symlink_metadata(fixture.path("project/AGENTS.md")).unwrap().is_symlink());
        fixture.uninstall(&["zed"], Scope::Project);
        assert_eq!(fixture.all(), before);

        fs::remove_file(fixture.path("project/AGENTS.md")).unwrap();
        fixture.write("project/.git/hooks/post-merge", "#!/bin/sh\n");
        symlink(".git/hooks/post-merge", fixture.path("project/AGENTS.md")).unwrap();
        let error = fixture.plan_install(&["zed"], Scope::Project).unwrap_err().to_string();
        assert!(error.contains("outside the project"), "{error}");
        assert_eq!(fixture.read("project/.git/hooks/post-merge"), "#!/bin/sh\n");
    }

    #[test]
    fn a_directory_that_becomes_a_link_after_the_plan_is_not_followed() {
        let fixture = Fixture::new();
        let plan = fixture.plan_install(&["cursor"], Scope::Project).unwrap();
        fs::create_dir(fixture.path("home/.ssh")).unwrap();
        symlink("../home/.ssh", fixture.path("project/.cursor")).unwrap();
        let error = plan.apply(&fixture.receipts()).unwrap_err().to_string();
        assert!(error.contains("outside the project"), "{error}");
        assert_eq!(fs::read_dir(fixture.path("home/.ssh")).unwrap().count(), 0);

        // Nor is an empty directory elsewhere removed in its place.
        let fixture = Fixture::new();
        fixture.install(&["cursor"], Scope::Project);
        fs::rename(fixture.path("project/.cursor"), fixture.path("home/moved")).unwrap();
        fs::create_dir_all(fixture.path("home/other/rules")).unwrap();
        symlink("../home/other", fixture.path("project/.cursor")).unwrap();
        let receipts = Receipts::read(&fixture.receipts()).unwrap();
        let planned = uninstall(&named(&["cursor"]), Scope::Project, &fixture.environment, &receipts);
        assert!(planned.unwrap_err().to_string().contains("outside the project"));
        assert!(fixture.path("home/other/rules").is_dir() && fixture.path("home/moved/mcp.json").is_file());
    }

    #[test]
    fn new_files_have_default_permissions_and_the_record_is_private() {
        let fixture = Fixture::new();
        fixture.install(&["cursor"], Scope::Project);
        let mode = |path: &str| fs::metadata(fixture.path(path)).unwrap().permissions().mode() & 0o777;
        fixture.write("other/made", "");
        assert_eq!(mode("project/.cursor/mcp.json"), mode("other/made"));
        assert_eq!(mode("project/.cursor"), mode("other"));
        assert_eq!((mode("state"), mode("state/agents.json")), (0o700, 0o600));
    }

    #[test]
    fn a_file_that_was_moved_and_linked_is_removed_with_its_link() {
        let fixture = Fixture::new();
        fixture.install(&["cursor"], Scope::User);
        fs::create_dir(fixture.path("dotfiles")).unwrap();
        fs::rename(fixture.path("home/.cursor/mcp.json"), fixture.path("dotfiles/mcp.json")).unwrap();
        symlink("../../dotfiles/mcp.json", fixture.path("home/.cursor/mcp.json")).unwrap();
        fixture.uninstall(&["cursor"], Scope::User);
        assert!(!fixture.path("dotfiles/mcp.json").exists());
        assert!(fs::symlink_metadata(fixture.path("home/.cursor")).is_err());
    }
}

mod random {
    use proptest::prelude::*;

    use super::*;

    /// Agents with files of each format, and those files.
    const FILES: [(&str, &str); 8] = [
        ("claude-code", "home/.claude.json"),
        ("claude-code", "home/.claude/settings.json"),
        ("opencode", "config/opencode/opencode.json"),
        ("codex", "home/.codex/config.toml"),
        ("codex", "home/.codex/AGENTS.md"),
        ("goose", "config/goose/config.yaml"),
        ("aider", "home/.aider.conf.yml"),
        ("gemini", "home/.gemini/GEMINI.md"),
    ];

    /// Lines that are valid, in any order, in a file with this ending.
    fn lines(path: &str) -> Vec<&'static str> {
        match path.rsplit('.').next() {
            Some("json") => vec![
                "\"a\": 1,",
                "// \" { ,",
                "/* } */",
                "\"b\": {\"quarry\": [1, 2,]},",
                "   \"ä\": \"\\u00e4 // }\",",
                "",
                "\t\"mcpServers\": {\"other\": {\"command\": \"x\"} /* y */},",
                "\"mcp\": { // none\n},",
                "\"hooks\": {\"PreToolUse\": [ {\"matcher\": \"x\"}, /* y */ ], },",
            ],
            Some("toml") => vec![
                "# [mcp_servers.quarry]",
                "[mcp_servers.other]",
                "command = \"x\" # ä",
                "",
                "[other]",
                "  text = '''\n[mcp_servers.quarry]\n'''",
            ],
            Some("yaml" | "yml") => vec![
                "# extensions:",
                "extensions:\n  other:\n    cmd: x # ä",
                "read:\n- A.md\n- 'b c.md'",
                "text: |\n  read:\n    - quarry",
                "",
                "b: {quarry: [1]}",
                "extensions: {a: {b: 1}}",
                "read: A.md",
            ],
            _ => {
                vec!["# Mine", "", "Do as I say.", "<!-- quarry: end -->", "\t- ä", "```\n## Searching\n```"]
            }
        }
    }

    fn file(path: &'static str) -> impl Strategy<Value = String> {
        let chosen = prop::sample::subsequence(lines(path), 0..=lines(path).len()).prop_shuffle();
        (chosen, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(move |(lines, mark, crlf, ends)| {
            let mut text = lines.join("\n");
            if path.ends_with(".json") {
                text = format!("{{\n{text}\n}}");
            }
            if ends {
                text.push('\n');
            }
            if crlf {
                text = text.replace('\n', "\r\n");
            }
            if mark { format!("\u{feff}{text}") } else { text }
        })
    }

    fn case() -> impl Strategy<Value = (&'static str, &'static str, String)> {
        prop::sample::select(FILES.to_vec())
            .prop_flat_map(|(agent, path)| file(path).prop_map(move |text| (agent, path, text)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn uninstalling_restores_every_byte_of_any_file((agent, path, text) in case()) {
            let mut fixture = Fixture::new();
            let config = fixture.path("config").to_string_lossy().into_owned();
            fixture.environment.variables.insert("XDG_CONFIG_HOME".to_owned(), config);
            fixture.write(path, &text);
            let before = fixture.all();
            match fixture.plan_install(&[agent], Scope::User) {
                // A file that is invalid, or cannot be edited safely, is refused with its name.
                Err(error) => prop_assert!(error.to_string().contains(path), "{}", error),
                Ok(plan) => {
                    prop_assert!(plan.changes.iter().any(|change| change.path == fixture.path(path)));
                    plan.apply(&fixture.receipts()).unwrap();
                    prop_assert_ne!(fixture.read(path), text);
                    fixture.uninstall(&[agent], Scope::User);
                }
            }
            prop_assert_eq!(fixture.all(), before);
        }
    }
}
