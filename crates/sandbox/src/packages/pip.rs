//! Python packages, with pip.

use std::fs;
use std::path::Path;

use super::diagnostics::error_lines;
use super::{Index, Manager, PackageError, WITHOUT, refused};
use crate::{OUTPUT_DIRECTORY, Outcome, Program};

pub(super) struct Pip;

/// The directory of installed wheels, relative to the directory of the step.
const SITE: &str = "site";

/// Prints the properties that wheels have to match, and fails without pip.
const PROBE: &str = "
import importlib.util, sys, sysconfig
print(sys.implementation.cache_tag, sysconfig.get_platform())
sys.exit(importlib.util.find_spec('pip') is None)
";

/// pip's message for a package that has releases, but no wheel.
const SOURCE_ONLY: &str = "No sources permitted for";

const NOT_THERE: &str = "No matching distribution found";

/// Messages of transient errors.
const TRANSIENT: &[&str] = &[
    "connection broken by",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Read timed out",
    "Server Error",
    "403 Client Error",
    "429 Client Error",
    "No space left on device",
];

fn pip(arguments: &[&str], rest: impl IntoIterator<Item = String>) -> Program {
    // Isolated: neither the working directory nor the user's settings matter.
    let command = [
        "python3",
        "-I",
        "-m",
        "pip",
        "--isolated",
        "--no-input",
        "--no-color",
        "--disable-pip-version-check",
    ];
    let command = command.iter().chain(arguments).map(|&word| word.to_owned()).chain(rest).collect();
    // In the output directory, so that moving a file does not copy it, and its size is counted.
    let environment = vec![("TMPDIR".to_owned(), OUTPUT_DIRECTORY.to_owned())];
    Program { command, environment, ..Program::default() }
}

impl Manager for Pip {
    fn name(&self) -> &'static str {
        "pip"
    }

    fn remedy(&self) -> String {
        format!("install pip for /usr/bin/python3, for example `apt install python3-pip`, or {WITHOUT}")
    }

    fn probe(&self) -> Program {
        let command = ["python3", "-I", "-c", PROBE].map(str::to_owned).into();
        Program { command, ..Program::default() }
    }

    /// A requirement as in PEP 508, without markers and URLs; names are normalized as in PEP 503.
    fn package(&self, requirement: &str) -> Option<String> {
        let is_name = |text: &str| {
            let letters = |c: char| c.is_ascii_alphanumeric();
            text.starts_with(letters)
                && text.ends_with(letters)
                && text.chars().all(|c| letters(c) || "-_.".contains(c))
        };
        let versions = requirement.find(['=', '<', '>', '~', '!']).unwrap_or(requirement.len());
        let (named, versions) = requirement.split_at(versions);
        let (name, extras) = match named.strip_suffix(']') {
            Some(named) => named.split_once('[')?,
            None => (named, "x"),
        };
        let versions_are_plain = versions.is_empty()
            || versions.split(',').all(|version| {
                let number = version.trim_start_matches(['=', '<', '>', '~', '!']);
                number.len() < version.len()
                    && !number.is_empty()
                    && number.chars().all(|c| c.is_ascii_alphanumeric() || ".*+!-_".contains(c))
            });
        if requirement.len() > 100 || !is_name(name) || !extras.split(',').all(is_name) || !versions_are_plain
        {
            return None;
        }
        let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
        Some(parts.join("-").to_lowercase())
    }

    fn fetch(&self, requirements: &[String], index: Option<&Index>) -> Program {
        let mut arguments =
            // With double verbosity, pip says what it skips.
            vec!["-vv", "--no-cache-dir", "--retries", "2", "--timeout", "15", "download"];
        arguments.extend(["--only-binary=:all:", "--progress-bar", "off", "--dest"]);
        let wheels = format!("{OUTPUT_DIRECTORY}/wheels");
        arguments.push(&wheels);
        match index {
            None => {}
            Some(Index::Address(address)) => arguments.extend(["--index-url", address]),
            Some(Index::Directory(_)) => arguments.extend(["--no-index", "--find-links", "/opt/index"]),
        }
        arguments.push("--");
        pip(&arguments, requirements.iter().cloned())
    }

    fn list(&self, fetched: &Path, _: Option<&Index>, _: &str) -> Result<Vec<(String, String)>, String> {
        wheels(fetched)?
            .iter()
            .map(|wheel| {
                // The name of a wheel: distribution, version, optional build, three tags.
                let mut parts = wheel.split('-');
                match (parts.next(), parts.next()) {
                    (Some(name), Some(version)) if self.package(name).is_some() => {
                        Ok((name.replace('_', "-"), version.to_owned()))
                    }
                    _ => Err(format!("{wheel:?} is not the name of a wheel")),
                }
            })
            .collect()
    }

    /// Resolved again from the fetched files only: so a wheel that another one requires by URL, which pip fetches
    /// from anywhere, fails here, without a network.
    fn install(&self, requirements: &[String]) -> Option<Program> {
        let target = format!("{OUTPUT_DIRECTORY}/{SITE}");
        let mut arguments = vec!["--no-cache-dir", "--retries", "0", "install", "--only-binary=:all:"];
        arguments.extend(["--no-index", "--find-links", "/opt/fetched/wheels", "--progress-bar", "off"]);
        arguments.extend(["--target", &target, "--"]);
        Some(pip(&arguments, requirements.iter().cloned()))
    }

    fn result(&self) -> [&'static str; 3] {
        [SITE, "packages", "PYTHONPATH"]
    }

    fn explain(&self, requirements: &[String], outcome: &Outcome) -> PackageError {
        let message = format!("{}\n{}", outcome.stdout.text(), outcome.stderr.text());
        if TRANSIENT.iter().any(|mark| message.contains(mark)) {
            return PackageError::Failed { detail: error_lines(&message, &["ERROR:"]) };
        }
        let names = requirements.join(", ");
        if let Some((_, missing)) = message.split_once(NOT_THERE) {
            let missing = missing.trim_start_matches(" for ").split_whitespace().next().unwrap_or(&names);
            let missing = missing.split(['(', ';']).next().unwrap_or(missing);
            let is_source =
                message.contains(&format!("{SOURCE_ONLY} {}:", self.package(missing).unwrap_or_default()));
            return refused(if is_source {
                format!("{missing} exists as source only, and only wheels are installed")
            } else {
                format!("there is no package {missing}, or no wheel of it for this machine")
            });
        }
        refused(format!("{names}: {}", error_lines(&message, &["ERROR:"])))
    }
}

/// The names of the fetched wheels, in alphabetical order.
fn wheels(fetched: &Path) -> Result<Vec<String>, String> {
    let entries =
        fs::read_dir(fetched.join("wheels")).map_err(|error| format!("nothing was fetched: {error}"))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        match name.to_str() {
            Some(name) if name.ends_with(".whl") => names.push(name.to_owned()),
            _ => return Err(format!("{name:?} was fetched, which is not a wheel")),
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_names_and_versions_and_nothing_else() {
        for (requirement, package) in [
            ("PyYAML", "pyyaml"),
            ("ruamel.yaml", "ruamel-yaml"),
            ("zope__x-.y", "zope-x-y"),
            ("numpy==1.26.4", "numpy"),
            ("numpy>=1,<2", "numpy"),
            ("x~=1.0.post1", "x"),
            ("uvicorn[standard]", "uvicorn"),
            ("uvicorn[standard,x]==0.1", "uvicorn"),
        ] {
            assert_eq!(Pip.package(requirement).as_deref(), Some(package), "{requirement}");
        }
        for bad in [
            "",
            "-r",
            "--index-url=http://x",
            "x @ http://x/y",
            "x@http://x/y",
            "../x",
            "./x",
            "/x",
            "x y",
            "x;y",
            "x==",
            "x==1;y",
            "x[",
            "x[]",
            "x]",
            "x==1 y",
            "git+https://x/y",
            "x\n--pre",
            "x==1,",
            "http://x",
            "$(x)",
            "x/y",
            "_x",
        ] {
            assert_eq!(Pip.package(bad), None, "{bad}");
        }
        assert_eq!(Pip.package(&"x".repeat(101)), None);
    }
}
