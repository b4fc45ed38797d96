use serde_json::json;

use super::*;

fn entry(format: Format, at: &[&str]) -> Content {
    let at = at.iter().map(|name| (*name).to_owned()).collect();
    Content::Entry { format, at, value: json!({ "args": ["mcp"], "command": "quarry" }) }
}

/// Inserts, compares, and takes out again as if the text had been edited elsewhere since.
#[track_caller]
fn check(content: &Content, before: &str, after: &str) {
    let edited = content.insert(before).unwrap();
    assert_eq!(edited, after);
    assert_eq!(content.presence(before), Ok(Presence::No));
    assert_eq!(content.presence(&edited), Ok(Presence::Same));
    let removed = content.remove(&edited, content.n_missing(before)).unwrap();
    assert_eq!(content.presence(&removed), Ok(Presence::No));
    assert!(content.is_equivalent(&removed, before), "{removed}");
}

/// Like [`check`]; removing restores the text to the byte.
#[track_caller]
fn check_exact(content: &Content, before: &str, after: &str) {
    check(content, before, after);
    assert_eq!(content.remove(after, content.n_missing(before)).as_deref(), Ok(before));
}

#[track_caller]
fn check_refused(content: &Content, text: &str, words: &str) {
    let problem = content.presence(text).and_then(|_| content.insert(text)).unwrap_err();
    assert!(problem.to_string().contains(words), "{problem}");
}

#[test]
fn json_with_servers_gets_another_one() {
    let json = entry(Format::Json, &["mcpServers"]);
    check_exact(
        &json,
        "{\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" }\n  },\n  \"x\": 1\n}\n",
        "{\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" },\n    \"quarry\": {\n      \"args\": [\n        \"mcp\"\n      ],\n      \"command\": \"quarry\"\n    }\n  },\n  \"x\": 1\n}\n",
    );
    check_exact(
        &json,
        "{\"theme\":\"dark\",\"mcpServers\":{\"a\":{}}}",
        "{\"theme\":\"dark\",\"mcpServers\":{\"a\":{}, \"quarry\": {\"args\":[\"mcp\"],\"command\":\"quarry\"}}}",
    );
}

#[test]
fn json_without_servers_gets_the_table_too() {
    let json = entry(Format::Json, &["mcpServers"]);
    let own = "\"mcpServers\": {\n\t\t\"quarry\": {\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t],\n\t\t\t\"command\": \"quarry\"\n\t\t}\n\t}";
    check_exact(&json, "{\n\t\"a\": 1\n}", &format!("{{\n\t\"a\": 1,\n\t{own}\n}}"));
    check(&json, "{}\n", &format!("{{\n  {}\n}}\n", own.replace("\n\t", "\n  ").replace('\t', "  ")));
    let whole = json.insert("").unwrap();
    assert_eq!(json.insert("\u{feff}").unwrap(), format!("\u{feff}{whole}"));
    assert!(json.is_nothing(&json.remove(&whole, 1).unwrap()));
}

#[test]
fn json_keeps_comments_and_commas() {
    let json = entry(Format::Json, &["mcpServers"]);
    check_exact(
        &json,
        "// mine\n{\n  \"mcpServers\": {\n    // the first\n    \"a\": 1, // one\n    \"b\": 2, /* two */\n    // the end\n  },\n}\n",
        "// mine\n{\n  \"mcpServers\": {\n    // the first\n    \"a\": 1, // one\n    \"b\": 2, /* two */\n    \"quarry\": {\n      \"args\": [\n        \"mcp\"\n      ],\n      \"command\": \"quarry\"\n    },\n    // the end\n  },\n}\n",
    );
    check(
        &json,
        "{\n  \"mcpServers\": {\n    \"a\": 1 // one, and only\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"a\": 1, // one, and only\n    \"quarry\": {\n      \"args\": [\n        \"mcp\"\n      ],\n      \"command\": \"quarry\"\n    }\n  }\n}\n",
    );
    check(
        &json,
        "{\n  \"mcpServers\": {\n    // none\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    // none\n    \"quarry\": {\n      \"args\": [\n        \"mcp\"\n      ],\n      \"command\": \"quarry\"\n    }\n  }\n}\n",
    );
}

#[test]
fn lines_end_as_they_did() {
    for content in [
        entry(Format::Json, &["mcpServers"]),
        entry(Format::Toml, &["mcp_servers"]),
        entry(Format::Yaml, &["extensions"]),
    ] {
        let before = match content {
            Content::Entry { format: Format::Json, .. } => "{\r\n  \"a\": 1\r\n}\r\n",
            Content::Entry { format: Format::Toml, .. } => "a = 1\r\n",
            _ => "a: 1\r\n",
        };
        let after = content.insert(before).unwrap();
        assert!(after.replace("\r\n", "").chars().all(|c| c != '\n'), "{after:?}");
        assert_eq!(content.remove(&after, 1).unwrap(), before);
    }
}

#[test]
fn json_that_cannot_be_edited_is_refused() {
    let json = entry(Format::Json, &["mcpServers"]);
    check_refused(&json, "{\n  \"a\": 1,\n  \"b\" 2\n}", ":3: not valid JSON");
    check_refused(&json, "{", ":1: not valid JSON");
    check_refused(&json, "{\"a\": 1 \"b\": 2}", "not valid JSON");
    check_refused(&json, "{a: 'b'}", "not valid JSON");
    check_refused(&json, "[]", ":1: expected an object");
    check_refused(&json, "{\n\"mcpServers\": []}", ":2: \"mcpServers\" is not an object");
    check_refused(&json, "{\"mcpServers\": {},\n\n\"mcpServers\": {}}", ":3: \"mcpServers\" occurs twice");
    check_refused(&json, &"[".repeat(100_000), "not valid JSON");
}

#[test]
fn foreign_entries_are_recognized() {
    let json = entry(Format::Json, &["mcpServers"]);
    assert_eq!(
        json.presence("{\"mcpServers\": {\"quarry\": {\"command\": \"other\"}}}"),
        Ok(Presence::Other)
    );
    let toml = entry(Format::Toml, &["mcp_servers"]);
    assert_eq!(toml.presence("[mcp_servers]\nquarry = { command = \"x\" }\n"), Ok(Presence::Other));
    assert_eq!(toml.presence("mcp_servers.quarry.command = \"x\"\n"), Ok(Presence::Other));
    let yaml = entry(Format::Yaml, &["extensions"]);
    assert_eq!(yaml.presence("extensions: {quarry: {cmd: x}}\n"), Ok(Presence::Other));
}

#[test]
fn toml_gets_a_table_at_its_end() {
    let toml = entry(Format::Toml, &["mcp_servers"]);
    let own = "[mcp_servers.quarry]\nargs = [\"mcp\"]\ncommand = \"quarry\"\n";
    check_exact(&toml, "", own);
    check_exact(&toml, "model = \"x\" # mine\n", &format!("model = \"x\" # mine\n\n{own}"));
    check(&toml, "model = \"x\"", &format!("model = \"x\"\n\n{own}"));
    check_exact(
        &toml,
        "[mcp_servers.a]\ncommand = \"a\"\n",
        &format!("[mcp_servers.a]\ncommand = \"a\"\n\n{own}"),
    );
    check_refused(&toml, "mcp_servers = { a = 1 }\n", "cannot be edited safely");
    check_refused(&toml, "b = 1\na = \n", ":2: not valid TOML");
    // Other tables came behind it since.
    let edited = format!("a = 1\n\n{own}\n# about b\n[b]\nc = 1\n");
    assert_eq!(toml.remove(&edited, 1).unwrap(), "a = 1\n\n# about b\n[b]\nc = 1\n");
}

#[test]
fn yaml_gets_a_field_in_its_mapping() {
    let yaml = entry(Format::Yaml, &["extensions"]);
    let own = "  quarry:\n    args:\n      - mcp\n    command: quarry\n";
    check_exact(&yaml, "", &format!("extensions:\n{own}"));
    check_exact(&yaml, "# mine\na: 1\n", &format!("# mine\na: 1\nextensions:\n{own}"));
    check_exact(
        &yaml,
        "extensions:\n  # built in\n  developer:\n    enabled: true\nGOOSE: x # ä\n",
        &format!("extensions:\n  # built in\n{own}  developer:\n    enabled: true\nGOOSE: x # ä\n"),
    );
    check_exact(&yaml, "extensions: # none yet\nb: 1\n", &format!("extensions: # none yet\n{own}b: 1\n"));
    let edited = yaml.insert("extensions: {a: {b: 1}}\n").unwrap();
    assert_eq!(edited, "extensions: {\"quarry\": {\"args\":[\"mcp\"],\"command\":\"quarry\"}, a: {b: 1}}\n");
    let edited = yaml.insert("extensions: {}\n").unwrap();
    assert_eq!(yaml.presence(&edited), Ok(Presence::Same));
    check_refused(&yaml, "a: 1\nextensions: [a]\n", ":2: `extensions` is not a mapping");
    check_refused(&yaml, "- a\n", ":1: expected a mapping");
    check_refused(&yaml, "a: 1\n---\nb: 2\n", ":3: expected one document");
    check_refused(&yaml, "b: 1\na: [\n", ": not valid YAML");
    check_refused(&yaml, "{a: 1}\n", "in braces");
}

#[test]
fn a_list_of_yaml_gets_an_item() {
    let item = Content::Item { at: "read".to_owned(), value: ".aider.quarry.md".to_owned() };
    check_exact(&item, "", "read:\n  - .aider.quarry.md\n");
    check_exact(&item, "model: x\nread:\n- A.md # a\n", "model: x\nread:\n- .aider.quarry.md\n- A.md # a\n");
    check_exact(&item, "read:\n    - A.md\n\nb: 1\n", "read:\n    - .aider.quarry.md\n    - A.md\n\nb: 1\n");
    assert_eq!(item.insert("read: A.md\n").unwrap(), "read: [A.md, .aider.quarry.md]\n");
    assert_eq!(
        item.insert("read: [A.md, 'b c.md']\n").unwrap(),
        "read: [.aider.quarry.md, A.md, 'b c.md']\n"
    );
    assert_eq!(item.presence("read: .aider.quarry.md\n"), Ok(Presence::Same));
    check_refused(&item, "read: {a: 1}\n", ":1: `read` is not a list");
    let odd = Content::Item { at: "read".to_owned(), value: "C:\\me\\a: b.md".to_owned() };
    check_exact(&odd, "", "read:\n  - \"C:\\\\me\\\\a: b.md\"\n");
}

#[test]
fn instructions_are_a_marked_block() {
    let block = Content::Block { text: "## Quarry\n\nSearch.\n".to_owned() };
    let own = "<!-- quarry: begin (written by `quarry agent install`) -->\n## Quarry\n\nSearch.\n<!-- quarry: end -->\n";
    check_exact(&block, "", own);
    check_exact(&block, "# Mine\n", &format!("# Mine\n\n{own}"));
    check(&block, "# Mine\n\n", &format!("# Mine\n\n{own}").replace("# Mine\n\n\n", "# Mine\n\n"));
    check(&block, "# Mine", &format!("# Mine\n\n{own}"));
    let between = format!("# Mine\n\n{own}\n# More\n");
    assert_eq!(block.remove(&between, 0).unwrap(), "# Mine\n\n# More\n");
    assert_eq!(block.presence(&own.replace("Search.", "Find.")), Ok(Presence::Other));
    assert_eq!(block.presence(&own.replace('\n', "\r\n")), Ok(Presence::Same));
    check_refused(
        &block,
        "# Mine\n<!-- quarry: begin (written by `quarry agent install`) -->\n",
        ":2: Quarry's block starts here but is not closed",
    );
}

mod random {
    use proptest::prelude::*;

    use super::*;
    use crate::splice::Splice;

    /// Separators between the parts of a text.
    fn space() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "",
            " ",
            "\n    ",
            "\r\n\t",
            " // a, } \" b\n",
            "/* { , \n */",
            "\n\n  // ä\n  ",
        ])
    }

    /// An object with fields `k0`, `k1` and so on.
    fn object(depth: u32) -> BoxedStrategy<String> {
        let leaf = prop::sample::select(vec![
            "1",
            "null",
            "\"a // , } \\\" b\"",
            "[1, {\"x\": 2}]",
            "{}",
            "{ /* x */ }",
        ]);
        let value = if depth == 0 {
            leaf.prop_map(str::to_owned).boxed()
        } else {
            prop_oneof![leaf.prop_map(str::to_owned), object(depth - 1)].boxed()
        };
        let field = (space(), space(), space(), value, space());
        (prop::collection::vec(field, 0..4), any::<bool>(), space())
            .prop_map(|(fields, has_trailing_comma, end)| {
                let n_fields = fields.len();
                let field = |(number, (a, b, c, value, d)): (usize, (&str, &str, &str, String, &str))| {
                    let comma = if number + 1 < n_fields || has_trailing_comma { "," } else { "" };
                    format!("{a}\"k{number}\"{b}:{c}{value}{d}{comma}")
                };
                let fields: String = fields.into_iter().enumerate().map(field).collect();
                format!("{{{fields}{end}}}")
            })
            .boxed()
    }

    proptest! {
        #[test]
        fn any_json_is_edited_and_restored(before in object(2), start in space(), end in space(), at in 0..3) {
            let before = format!("{start}{before}{end}");
            let at = [&["mcpServers"][..], &["k0"], &["k0", "k1"]][at as usize];
            let content = entry(Format::Json, at);
            match content.insert(&before) {
                // A name on the way that is something other than a table.
                Err(problem) => prop_assert!(problem.words.contains("is not an object"), "{}", problem),
                Ok(after) => {
                    prop_assert_eq!(content.presence(&after), Ok(Presence::Same));
                    let undone = Splice::between(&before, &after).undo(&after);
                    prop_assert_eq!(undone.as_deref(), Some(before.as_str()));
                    let removed = content.remove(&after, content.n_missing(&before));
                    prop_assert!(removed.is_ok(), "{:?}: {}", removed, after);
                    prop_assert!(content.is_equivalent(&removed.unwrap_or_default(), &before));
                }
            }
        }
    }
}

#[test]
fn json_gets_an_element_of_a_list() {
    let at = ["hooks", "PreToolUse"].map(str::to_owned).to_vec();
    let hook = Content::Element { at, value: json!({ "command": "quarry \"x\" \\n", "n": 5 }) };
    let own = "\"command\": \"quarry \\\"x\\\" \\\\n\"";
    for before in [
        "{}\n",
        "{\n  \"a\": 1\n}\n",
        "// mine\n{\n\t\"hooks\": {\n\t\t\"Stop\": [], // none\n\t},\n}\n",
        "{\"hooks\": {\"PreToolUse\": [{\"command\": \"mine\"}], \"x\": 1}}",
        "{\r\n  \"hooks\": {\r\n    \"PreToolUse\": [\r\n      { \"command\": \"mine\" } // ä\r\n    ]\r\n  }\r\n}\r\n",
    ] {
        let edited = hook.insert(before).unwrap();
        assert!(edited.contains(own) && !edited.replace("\r\n", "").contains('\r'), "{edited}");
        assert_eq!(edited.contains("\r\n"), before.contains("\r\n"));
        assert_eq!(hook.presence(before), Ok(Presence::No));
        assert_eq!(hook.presence(&edited), Ok(Presence::Same));
        let removed = hook.remove(&edited, hook.n_missing(before)).unwrap();
        assert_eq!(hook.presence(&removed), Ok(Presence::No));
        assert!(hook.is_equivalent(&removed, before), "{removed}");
    }
    let whole = hook.insert("").unwrap();
    assert!(whole.ends_with("}\n") && !whole.ends_with("\n\n"), "{whole}");
    assert!(hook.is_nothing(&hook.remove(&whole, 2).unwrap()));
    let others = "{\"hooks\": {\"PreToolUse\": [{\"command\": \"my quarry\"}]}}";
    assert_eq!(hook.presence(others), Ok(Presence::Other));
    check_refused(&hook, "{\"hooks\": []}", "something else");
    check_refused(&hook, "{\"hooks\": {}, \"hooks\": {\"a\": 1}}", "safely");
    check_refused(&hook, "[]", "something else");
}
