//! npm packages from a registry on loopback.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use quarry_sandbox::packages::{Index, PackageError, Rules};
use serde_json::{Value, json};

use crate::harness::{Fixture, Server, can_fetch, run};

fn registry(directory: PathBuf) -> Server {
    Server::new(move |path| {
        let path = &path.trim_start_matches('/').replace("%2f", "/");
        if path.ends_with(".tgz") {
            return (200, fs::read(directory.join(path)).unwrap_or_default());
        }
        let Ok(text) = fs::read_to_string(directory.join(format!("{path}.json"))) else {
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
    // The path in the cached set.
    const TRACE: &str = "touch /opt/out/node_modules/ran";
    let script = json!({"scripts": {"install": TRACE, "postinstall": TRACE}, "bin": {"x": "index.js"}});
    let (fixture, _server) = fixture(&[
        package("six-words", "module.exports = require('base-x')(3)", json!([["base-x", "^1.0.0"]]), script),
        package("base-x", "module.exports = n => 2 * n", json!([]), json!({})),
    ]);
    let provided = fixture.provide("javascript", &["six-words"]).unwrap();
    assert_eq!(provided.packages, ["base-x 1.0.0", "six-words 1.0.0"]);
    let outcome = run("javascript", "console.log(require('six-words'))", &provided);
    assert_eq!(outcome.stdout.text(), "6\n", "{}", outcome.stderr.text());
    let (_, directory) = provided.directory.clone().unwrap();
    assert!(!directory.join("ran").exists() && !directory.join(".bin").exists());
    assert_eq!(fixture.provide("javascript", &["six-words"]).unwrap(), provided);
    let write = "try { require('fs').appendFileSync(require.resolve('base-x'), 'x'); console.log('ESCAPED') } catch (e) { console.log('refused') }";
    assert_eq!(run("javascript", write, &provided).stdout.text(), "refused\n");
}

#[test]
fn missing_and_denied_packages_are_refused() {
    if !can_fetch("javascript") {
        return;
    }
    let (mut fixture, _server) = fixture(&[
        package("needs-base", "", json!([["base-x", "1"]]), json!({})),
        package("base-x", "", json!([]), json!({})),
    ]);
    let reason = fixture.refusal("javascript", &["none-such"]);
    assert!(reason.contains("there is no package of none-such"), "{reason}");
    let reason = fixture.refusal("javascript", &["user/repository"]);
    assert!(reason.contains("is not the name of a package"), "{reason}");
    fixture.settings.npm.deny = vec!["base-x".to_owned()];
    let reason = fixture.refusal("javascript", &["needs-base"]);
    assert!(reason.contains("base-x is on the list of denied"), "{reason}");
}

#[test]
fn links_and_paths_in_a_package_lead_nowhere() {
    if !can_fetch("javascript") {
        return;
    }
    let (fixture, _server) = fixture(&[]);
    let mut evil = package("evil", "", json!([]), json!({}));
    evil["files"]["link"] = json!("-> /etc/passwd");
    evil["files"]["../../../escaped"] = json!("x");
    evil["files"][format!("../../../..{}", fixture.victim().display())] = json!("x");
    fixture.add(&[evil]);
    if let Ok(provided) = fixture.provide("javascript", &["evil"]) {
        let (_, directory) = provided.directory.unwrap();
        assert!(fs::symlink_metadata(directory.join("evil/link")).is_err());
    }
    fixture.assert_untouched();
}

#[test]
fn lists_hold_for_the_real_names_of_packages() {
    if !can_fetch("javascript") {
        return;
    }
    // A package of this name exists at the top, so that the other one is nested deeper.
    let mut harmless = package("harmless", "", json!([]), json!({}));
    harmless["version"] = json!("2.0.0");
    let needs = json!([["harmless", "npm:base-x@1"], ["@scope/six", "1"]]);
    let (mut fixture, _server) = fixture(&[
        package("wants", "module.exports = require('harmless')(require('@scope/six'))", needs, json!({})),
        harmless,
        package("@scope/six", "module.exports = 6", json!([]), json!({})),
        package("base-x", "module.exports = n => 2 * n", json!([]), json!({})),
    ]);
    let wanted = ["wants", "harmless"];
    fixture.settings.npm.deny = vec!["Base-X".to_owned()];
    let reason = fixture.refusal("javascript", &wanted);
    assert!(reason.contains("base-x is on the list of denied packages"), "{reason}");
    fixture.settings.npm.deny = vec!["@scope/six".to_owned()];
    let reason = fixture.refusal("javascript", &wanted);
    assert!(reason.contains("@scope/six is on the list of denied packages"), "{reason}");
    let allowed = ["wants", "harmless", "@scope/six", "base-x"].map(str::to_owned);
    fixture.settings.npm =
        Rules { allow: Some(allowed[..3].to_vec()), deny: Vec::new(), ..fixture.settings.npm };
    let reason = fixture.refusal("javascript", &wanted);
    assert!(reason.contains("base-x is not on the list of allowed packages"), "{reason}");
    fixture.settings.npm.allow = Some(allowed.to_vec());
    let provided = fixture.provide("javascript", &wanted).unwrap();
    assert_eq!(provided.packages, ["@scope/six 1.0.0", "base-x 1.0.0", "harmless 2.0.0", "wants 1.0.0"]);
    let outcome = run("javascript", "console.log(require('wants'))", &provided);
    assert_eq!(outcome.stdout.text(), "12\n", "{}", outcome.stderr.text());
}

#[test]
fn packages_come_from_the_registry_alone() {
    if !can_fetch("javascript") {
        return;
    }
    let elsewhere = Fixture::new(&[package("evil", "", json!([]), json!({}))]);
    let files = registry(elsewhere.index());
    let by_address = json!([["evil", format!("{}/evil-1.0.0.tgz", files.address)]]);
    let (mut fixture, server) = fixture(&[
        package("lure", "", by_address, json!({})),
        package("from-file", "", json!([["evil", "file:/opt/out/package.json"]]), json!({})),
        package("from-git", "", json!([["evil", "git+http://127.0.0.1:1/x.git"]]), json!({})),
        package("from-hub", "", json!([["evil", "user/repository"]]), json!({})),
    ]);
    for name in ["lure", "from-file", "from-git", "from-hub"] {
        let error = fixture.provide("javascript", &[name]).unwrap_err();
        assert!(matches!(error, PackageError::Refused { .. }), "{name}: {error}");
        assert_eq!(fixture.kept(), [] as [String; 0], "{name}");
    }
    let asked = files.count.load(Ordering::SeqCst);
    let error = fixture.provide("javascript", &["lure"]).unwrap_err().to_string();
    assert!(error.contains("only what lies below the registry is installed"), "{error}");
    // npm before 11.10 fetches it.
    assert!(asked == 0 || !error.contains("have been disabled"), "npm asked another server: {error}");

    // A registry that names files on another server.
    let index = fixture.index();
    let split =
        Server::new(move |path| match fs::read_to_string(index.join(format!("{}.json", &path[1..]))) {
            Ok(text) => {
                let mut manifest: Value = serde_json::from_str(&text).unwrap();
                manifest["dependencies"] = json!({});
                manifest["dist"]["tarball"] = json!(format!("{}/lure-1.0.0.tgz", server.address));
                let versions = json!({"1.0.0": manifest});
                let packument =
                    json!({"name": "lure", "dist-tags": {"latest": "1.0.0"}, "versions": versions});
                (200, packument.to_string().into_bytes())
            }
            Err(_) => (404, b"{}".to_vec()),
        });
    fixture.settings.npm.index = Some(Index::Address(split.address.clone()));
    let reason = fixture.refusal("javascript", &["lure"]);
    assert!(reason.contains("a mirror that serves them itself"), "{reason}");
}
