//! Packages of JavaScript and TypeScript, by npm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::{Index, Manager, PackageError, complaint, refused};
use crate::bubblewrap::OUTPUT_FOLDER;
use crate::{Error, Outcome, Program};

pub(super) struct Npm;

/// Codes of errors that are not for now only.
const LASTING: &[&str] =
    &["E404", "ETARGET", "EINVALIDPACKAGENAME", "ERESOLVE", "EBADPLATFORM", "EBADENGINE", "EINTEGRITY"];

/// What npm says of what it installed, and where.
#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(Deserialize)]
struct Locked {
    #[serde(default)]
    version: String,
}

/// A requirement's package and version.
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

    fn remedy(&self) -> &'static str {
        "install npm, for example `apt install npm`, or do without packages"
    }

    fn probe(&self) -> Program {
        let command = ["npm", "--version"].map(str::to_owned).into();
        Program { command, ..Program::default() }
    }

    /// A name, with a scope or without, and a version or the name of one.
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
            vec!["npm", "install", "--prefix", OUTPUT_FOLDER, "--ignore-scripts", "--no-bin-links"];
        command.extend(["--no-audit", "--no-fund", "--no-update-notifier", "--omit=dev", "--no-progress"]);
        command.extend([
            "--fetch-retries=2",
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
        ]);
        command.extend(["--fetch-timeout=15000", "--loglevel=error"]);
        let cache = format!("--cache={OUTPUT_FOLDER}/cache");
        command.push(&cache);
        if let Some(Index::Address(address)) = index {
            command.extend(["--registry", address]);
        }
        // Not on the command line, where npm would take some names for files or repositories.
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

    fn list(&self, fetched: &Path) -> Result<Vec<(String, String)>, String> {
        let path = fetched.join("node_modules/.package-lock.json");
        let text = fs::read(&path).map_err(|error| format!("npm did not say what it installed: {error}"))?;
        let lock: Lock = serde_json::from_slice(&text)
            .map_err(|error| format!("what npm says of what it installed cannot be read: {error}"))?;
        let packages = lock.packages.into_iter().map(|(place, locked)| {
            let name = place.rsplit_once("node_modules/").map_or("", |(_, name)| name).to_owned();
            match self.package(&name) {
                Some(_) => Ok((name, locked.version)),
                None => Err(format!("{place:?} is not the place of a package")),
            }
        });
        packages.collect()
    }

    fn install(&self, _: &Path) -> Result<Option<Program>, Error> {
        Ok(None)
    }

    fn result(&self) -> [&'static str; 3] {
        // Under this name packages find each other, whatever the environment says.
        ["node_modules", "node_modules", "NODE_PATH"]
    }

    fn explain(&self, requirements: &[String], outcome: &Outcome) -> PackageError {
        const MARKS: [&str; 2] = ["npm error ", "npm ERR! "];
        let said = outcome.stderr.text();
        let code =
            complaint(&said, &MARKS.map(|mark| [mark, "code "].concat()).each_ref().map(String::as_str));
        let names = requirements.join(", ");
        match LASTING.iter().find(|lasting| **lasting == code) {
            Some(&("E404" | "ETARGET")) => {
                refused(format!("there is no package of {names}, or no such version"))
            }
            Some(_) => refused(format!("{names}: {}", complaint(&said, &MARKS))),
            // npm says it of a program that it cannot start, such as git.
            None if said.contains("EPERM") => refused(format!("{names}: needs a program to fetch it")),
            None => PackageError::Failed { detail: complaint(&said, &MARKS) },
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
    fn a_requirement_has_two_parts() {
        assert_eq!(parts("@a/b@1"), ("@a/b", "1"));
        assert_eq!(parts("@a/b"), ("@a/b", "latest"));
        assert_eq!(parts("a@^2"), ("a", "^2"));
    }
}
