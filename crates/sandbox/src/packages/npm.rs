//! JavaScript and TypeScript packages, with npm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::diagnostics::{error_lines, without_passwords};
use super::{Index, Manager, PackageError, WITHOUT, refused};
use crate::{OUTPUT_DIRECTORY, Outcome, Program};

pub(super) struct Npm;

/// Codes of permanent errors.
const PERMANENT: &[&str] =
    &["E404", "ETARGET", "EINVALIDPACKAGENAME", "ERESOLVE", "EBADPLATFORM", "EBADENGINE", "EINTEGRITY"];

/// npm's lock file: the installed packages by path.
#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Locked {
    /// The name, if it differs from the name in the path, as with `npm:NAME@1`.
    name: Option<String>,
    version: String,
    /// The URL it came from.
    resolved: String,
    /// True if it is a link to another directory.
    link: bool,
    /// True if it was bundled with another package.
    in_bundle: bool,
}

/// Remedy if a registry serves files from other hosts.
const OTHER_HOST_REMEDY: &str = "only what lies below the registry is installed; if the registry keeps its files elsewhere, \
                         set `index` in `[packages.npm]` to a mirror that serves them itself";

/// npm's default registry, from its own settings.
fn usual_registry(runtime: &str) -> Option<String> {
    let address = runtime.lines().find_map(|line| line.strip_prefix("registry="))?;
    address.contains("://").then(|| below(address))
}

/// The prefix of URLs of an index's files.
fn below(index: &str) -> String {
    format!("{}/", index.trim_end_matches('/'))
}

/// The real name of the package at a path, which must come from the registry.
fn real_name(path: &str, locked: &Locked, usual: &str, registry: &str) -> Result<String, String> {
    let installed_as = path.rsplit_once("node_modules/").map_or("", |(_, name)| name);
    let name = locked.name.as_deref().unwrap_or(installed_as);
    if Npm.package(installed_as).is_none() || Npm.package(name).is_none() {
        return Err(format!("{path:?} is not the path of a package"));
    }
    let Locked { resolved, link, in_bundle, .. } = locked;
    // npm requests packages that are named at the default registry from the given one.
    let is_of_registry = [registry, usual].iter().any(|address| resolved.starts_with(address));
    if *link || !(is_of_registry || *in_bundle && resolved.is_empty()) {
        let from = if resolved.is_empty() { "no address" } else { resolved };
        return Err(format!(
            "{name} comes from {}, not from {registry}: {OTHER_HOST_REMEDY}",
            without_passwords(from)
        ));
    }
    Ok(name.to_owned())
}

fn parts(requirement: &str) -> (&str, &str) {
    match requirement.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (&requirement[..at], &requirement[at + 1..]),
        None => (requirement, "latest"),
    }
}

impl Manager for Npm {
    fn name(&self) -> &'static str {
        "npm"
    }

    fn remedy(&self) -> String {
        format!("install npm, for example `apt install npm`, or {WITHOUT}")
    }

    fn probe(&self) -> Program {
        let command = ["npm", "config", "get", "npm-version", "registry"].map(str::to_owned).into();
        Program { command, ..Program::default() }
    }

    /// A name, with or without a scope, and a version or the name of one.
    fn package(&self, requirement: &str) -> Option<String> {
        let (name, version) = parts(requirement);
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c))
        };
        let is_named = match name.strip_prefix('@') {
            Some(scoped) => {
                scoped.split_once('/').is_some_and(|(scope, name)| is_name(scope) && is_name(name))
            }
            None => is_name(name),
        };
        let is_version = !version.is_empty()
            && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-+^~<>=*".contains(c));
        (is_named && is_version && requirement.len() <= 214).then(|| name.to_lowercase())
    }

    fn fetch(&self, requirements: &[String], index: Option<&Index>) -> Program {
        let mut command =
            vec!["npm", "install", "--prefix", OUTPUT_DIRECTORY, "--ignore-scripts", "--no-bin-links"];
        command.extend(["--no-audit", "--no-fund", "--no-update-notifier", "--omit=dev", "--no-progress"]);
        command.extend([
            "--fetch-retries=2",
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
        ]);
        command.extend(["--fetch-timeout=15000", "--loglevel=error"]);
        let cache = format!("--cache={OUTPUT_DIRECTORY}/cache");
        command.push(&cache);
        if let Some(Index::Address(address)) = index {
            command.extend(["--registry", address]);
        }
        command.push("--omit-lockfile-registry-resolved=false");
        // Since npm 11.10; with older versions, such packages are refused afterwards.
        command.extend(["--allow-git=none", "--allow-remote=none", "--allow-file=none"]);
        command.push("--allow-directory=none");
        // Passed in a file, because on the command line npm would take some names for files or repositories.
        let dependencies: BTreeMap<&str, &str> =
            requirements.iter().map(|requirement| parts(requirement)).collect();
        let wanted =
            json!({"name": "wanted", "version": "1.0.0", "private": true, "dependencies": dependencies});
        Program {
            command: command.into_iter().map(str::to_owned).collect(),
            files: vec![("package.json".to_owned(), wanted.to_string().into_bytes())],
            ..Program::default()
        }
    }

    fn list(
        &self,
        fetched: &Path,
        index: Option<&Index>,
        runtime: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let path = fetched.join("node_modules/.package-lock.json");
        let text =
            fs::read(&path).map_err(|error| format!("npm did not report what it installed: {error}"))?;
        let lock: Lock = serde_json::from_slice(&text)
            .map_err(|error| format!("npm's report of what it installed cannot be read: {error}"))?;
        let usual = usual_registry(runtime).ok_or("npm does not report which registry it uses")?;
        let registry = match index {
            Some(Index::Address(address)) => below(address),
            _ => usual.clone(),
        };
        let packages = lock.packages.into_iter();
        packages
            .map(|(path, locked)| Ok((real_name(&path, &locked, &usual, &registry)?, locked.version)))
            .collect()
    }

    fn install(&self, _: &[String]) -> Option<Program> {
        None
    }

    fn result(&self) -> [&'static str; 3] {
        // Packages find each other in a directory of this name, whatever the environment contains.
        ["node_modules", "node_modules", "NODE_PATH"]
    }

    fn explain(&self, requirements: &[String], outcome: &Outcome) -> PackageError {
        const MARKS: [&str; 2] = ["npm error ", "npm ERR! "];
        let message = outcome.stderr.text();
        let code =
            error_lines(&message, &MARKS.map(|mark| [mark, "code "].concat()).each_ref().map(String::as_str));
        let names = requirements.join(", ");
        match PERMANENT.iter().find(|permanent| **permanent == code) {
            Some(&("E404" | "ETARGET")) => {
                refused(format!("there is no package of {names}, or no such version"))
            }
            Some(_) => refused(format!("{names}: {}", error_lines(&message, &MARKS))),
            None if code.starts_with("EALLOW") => {
                let detail = error_lines(&message, &MARKS);
                refused(format!("{names}: {detail}; {OTHER_HOST_REMEDY}"))
            }
            // npm's error for a program that it cannot start, such as git.
            None if message.contains("EPERM") => refused(format!("{names}: needs a program to fetch it")),
            None => PackageError::Failed { detail: error_lines(&message, &MARKS) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_names_and_versions_and_nothing_else() {
        for (requirement, package) in [
            ("lodash", "lodash"),
            ("lodash@4", "lodash"),
            ("lodash@^4.17.0", "lodash"),
            ("@scope/name", "@scope/name"),
            ("@scope/name@latest", "@scope/name"),
            ("socket.io", "socket.io"),
        ] {
            assert_eq!(Npm.package(requirement).as_deref(), Some(package), "{requirement}");
        }
        for bad in [
            "",
            "@",
            "--registry=http://x",
            "user/repository",
            "x@npm:y",
            "x@file:../y",
            "x@http://y",
            "../x",
            "./x",
            "x@git+ssh://y",
            "x@user/y",
            "@scope",
            "@scope/",
            "@/x",
            "x y",
            "x@",
            "x@1 || 2",
            "x\n",
        ] {
            assert_eq!(Npm.package(bad), None, "{bad}");
        }
    }

    #[test]
    fn installed_packages_have_their_real_name_and_are_from_the_registry() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("node_modules")).unwrap();
        let list = |path: &str, locked: serde_json::Value| {
            let lock = json!({"packages": {path: locked}}).to_string();
            fs::write(directory.path().join("node_modules/.package-lock.json"), lock).unwrap();
            let index = Index::Address("http://host/npm".to_owned());
            Npm.list(directory.path(), Some(&index), "npm-version=11.0.0\nregistry=https://usual/\n")
        };
        let deep = "node_modules/a/node_modules/@scope/b";
        for (path, locked, name) in [
            ("node_modules/a", json!({"resolved": "http://host/npm/a/-/a-1.tgz"}), "a"),
            (deep, json!({"resolved": "http://host/npm/b.tgz"}), "@scope/b"),
            (deep, json!({"name": "@x/real", "resolved": "http://host/npm/real.tgz"}), "@x/real"),
            ("node_modules/a", json!({"resolved": "https://usual/a/-/a-1.tgz"}), "a"),
            ("node_modules/a/node_modules/b", json!({"inBundle": true}), "b"),
        ] {
            assert_eq!(list(path, locked.clone()), Ok(vec![(name.to_owned(), String::new())]), "{locked}");
        }
        for locked in [
            json!({}),
            json!({"resolved": ""}),
            json!({"resolved": "http://host/other/a.tgz"}),
            json!({"resolved": "http://host/npm.tgz"}),
            json!({"resolved": "http://host.other/npm/a.tgz"}),
            json!({"resolved": "https://host/npm/a.tgz"}),
            json!({"resolved": "git+ssh://git@host/npm/a.git#1"}),
            json!({"resolved": "file:../a.tgz"}),
            json!({"resolved": "../a", "link": true}),
            json!({"resolved": "http://host/npm/a.tgz", "link": true}),
            json!({"resolved": "http://other/a.tgz", "inBundle": true}),
        ] {
            let problem = list("node_modules/a", locked.clone()).unwrap_err();
            assert!(
                problem.contains("not from http://host/npm/: only what lies below"),
                "{locked}: {problem}"
            );
        }
        for (path, name) in [("a", "a"), ("node_modules/a", "--x"), ("node_modules/../a", "a")] {
            let locked = json!({"name": name, "resolved": "http://host/npm/a.tgz"});
            assert!(list(path, locked).unwrap_err().contains("not the path of a package"), "{path} {name}");
        }
    }

    #[test]
    fn a_requirement_has_two_parts() {
        assert_eq!(parts("@a/b@1"), ("@a/b", "1"));
        assert_eq!(parts("@a/b"), ("@a/b", "latest"));
        assert_eq!(parts("a@^2"), ("a", "^2"));
    }
}
