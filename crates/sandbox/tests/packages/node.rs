//! Packages of npm, from a registry on loopback.

use std::fs;
use std::path::PathBuf;

use quarry_sandbox::packages::Index;
use serde_json::{Value, json};

use crate::harness::{Fixture, Server, can_fetch, run};

/// A registry with the packages of a folder.
fn registry(folder: PathBuf) -> Server {
    Server::new(move |path| {
        let path = path.trim_start_matches('/');
        if path.ends_with(".tgz") {
            return (200, fs::read(folder.join(path)).unwrap_or_default());
        }
        let Ok(text) = fs::read_to_string(folder.join(format!("{path}.json"))) else {
            return (404, b"{}".to_vec());
        };
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        let (name, version) = (manifest["name"].clone(), manifest["version"].as_str().unwrap().to_owned());
        manifest["dist"]["tarball"] = json!(format!("{{HOST}}/{path}-{version}.tgz"));
        let packument =
            json!({"name": name, "dist-tags": {"latest": version}, "versions": {version.clone(): manifest}});
        (200, packument.to_string().into_bytes())
    })
}

fn package(name: &str, code: &str, needs: Value, manifest: Value) -> Value {
    json!({"kind": "npm", "name": name, "version": "1.0.0", "files": {"index.js": code}, "needs": needs, "manifest": manifest})
}

fn fixture(packages: &[Value]) -> (Fixture, Server) {
    let mut fixture = Fixture::new(packages);
    let server = registry(fixture.index());
    fixture.settings.npm.index = Some(Index::Address(server.address.clone()));
    (fixture, server)
}

#[test]
fn a_package_is_there_with_what_it_needs_and_its_scripts_do_not_run() {
    if !can_fetch("javascript") {
        return;
    }
    let script = json!({"scripts": {"install": "touch /opt/out/ran", "postinstall": "touch /opt/out/ran"}, "bin": {"x": "index.js"}});
    let (fixture, _server) = fixture(&[
        package("six-words", "module.exports = require('base-x')(3)", json!([["base-x", "^1.0.0"]]), script),
        package("base-x", "module.exports = n => 2 * n", json!([]), json!({})),
    ]);
    let provided = fixture.provide("javascript", &["six-words"]).unwrap();
    assert_eq!(provided.packages, ["base-x 1.0.0", "six-words 1.0.0"]);
    let outcome = run("javascript", "console.log(require('six-words'))", &provided);
    assert_eq!(outcome.stdout.text(), "6\n", "{}", outcome.stderr.text());
    let (_, folder) = provided.folder.clone().unwrap();
    assert!(!folder.join("../ran").exists() && !folder.join(".bin").exists());
    assert_eq!(fixture.provide("javascript", &["six-words"]).unwrap(), provided);
    let write = "try { require('fs').appendFileSync(require.resolve('base-x'), 'x'); console.log('ESCAPED') } catch (e) { console.log('refused') }";
    assert_eq!(run("javascript", write, &provided).stdout.text(), "refused\n");
}

#[test]
fn what_npm_has_not_and_what_is_denied_is_refused() {
    if !can_fetch("javascript") {
        return;
    }
    let (mut fixture, _server) = fixture(&[
        package("lure", "", json!([["from-git", "git+http://127.0.0.1:1/x.git"]]), json!({})),
        package("needs-base", "", json!([["base-x", "1"]]), json!({})),
        package("base-x", "", json!([]), json!({})),
    ]);
    let reason = fixture.refusal("javascript", &["none-such"]);
    assert!(reason.contains("there is no package of none-such"), "{reason}");
    let reason = fixture.refusal("javascript", &["user/repository"]);
    assert!(reason.contains("is not the name of a package"), "{reason}");
    let reason = fixture.provide("javascript", &["lure"]).unwrap_err().to_string();
    assert!(!reason.is_empty() && fixture.kept().is_empty(), "{reason}");
    fixture.settings.npm.deny = vec!["base-x".to_owned()];
    let reason = fixture.refusal("javascript", &["needs-base"]);
    assert!(reason.contains("base-x is on the list of denied"), "{reason}");
}

#[test]
fn links_and_paths_in_a_package_lead_nowhere() {
    if !can_fetch("javascript") {
        return;
    }
    let mut evil = package("evil", "", json!([]), json!({}));
    evil["files"]["link"] = json!("-> /etc/passwd");
    evil["files"]["../../../escaped"] = json!("x");
    let (fixture, _server) = fixture(&[evil]);
    if let Ok(provided) = fixture.provide("javascript", &["evil"]) {
        let (_, folder) = provided.folder.unwrap();
        assert!(fs::symlink_metadata(folder.join("evil/link")).is_err());
        assert!(!folder.join("../escaped").exists() && !folder.join("../../escaped").exists());
    }
}
