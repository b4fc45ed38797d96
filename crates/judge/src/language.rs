//! Facts about languages for judging by tests, as data: `languages.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::assertions::ReportStyle;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Language {
    /// The name in prompts.
    pub title: String,
    /// Info strings of code fences that contain programs of the language.
    pub fences: Vec<String>,
    /// Instructions for the test generator in addition to its prompt.
    pub guidance: String,
    failed_test: Vec<String>,
    #[serde(default)]
    names_failures: Vec<String>,
    missing: Vec<(String, String)>,
    traceback: Option<String>,
    #[serde(default)]
    reports_errors: bool,
    install: Vec<String>,
    standard: Vec<String>,
    test: Vec<String>,
    noise: Vec<String>,
    reporting: ReportStyle,
}

/// Options of `pip install` and `npm install` that do not change what is requested and take no value.
const OPTIONS_WITHOUT_VALUE: [&str; 14] = [
    "-q",
    "--quiet",
    "-U",
    "--upgrade",
    "--user",
    "-g",
    "--global",
    "--save",
    "--save-dev",
    "-D",
    "-y",
    "--yes",
    "--no-cache-dir",
    "--break-system-packages",
];

/// The text of the table, which is part of the versions of judges.
pub(crate) const LANGUAGES_TEXT: &str = include_str!("languages.toml");

static LANGUAGES: LazyLock<BTreeMap<String, Language>> =
    LazyLock::new(|| toml::from_str(LANGUAGES_TEXT).expect("languages.toml is well-formed"));

impl Language {
    /// The names of all languages, in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LANGUAGES.keys().map(String::as_str)
    }

    /// The language with a name, ignoring case.
    pub fn named(name: &str) -> Option<&'static Self> {
        LANGUAGES.get(&name.to_lowercase())
    }

    pub(crate) fn reporting(&self) -> &ReportStyle {
        &self.reporting
    }

    pub(crate) fn reports_failed_test(&self, output: &str) -> bool {
        self.failed_test.iter().any(|mark| output.contains(mark.as_str()))
    }

    /// Returns whether `output` ends with just the name of an assertion in the program, such as that of `stopifnot("the
    /// sum" = …)`.
    pub(crate) fn names_failed_test(&self, output: &str, program: &str) -> bool {
        let mut names: Vec<&str> = Vec::new();
        for call in &self.names_failures {
            for arguments in program.split(&format!("{call}(")).skip(1) {
                for quote in ['"', '\'', '`'] {
                    let parts: Vec<&str> = arguments.split(quote).collect();
                    let is_name = |pair: &&[&str]| pair[1].trim_start().starts_with('=');
                    names.extend(parts.windows(2).filter(is_name).map(|pair| pair[0].trim()));
                }
            }
        }
        let names_error = |line: &str, name: &str| {
            let before = line.trim_end().strip_suffix(name).map(str::trim);
            before.is_some_and(|before| {
                before.is_empty() || before.starts_with("Error") && before.ends_with(':')
            })
        };
        names.into_iter().any(|name| !name.is_empty() && output.lines().any(|line| names_error(line, name)))
    }

    /// The name of the package that is missing according to the error that ended a program, without the path inside
    /// the package. Output or assertions of the program about packages do not count.
    pub(crate) fn missing_package(&self, stdout: &str, stderr: &str) -> Option<String> {
        let output = if self.reports_errors { format!("{stdout}\n{stderr}") } else { stderr.to_owned() };
        let errors = match &self.traceback {
            Some(traceback) => errors(&output, traceback),
            None => vec![output.as_str()],
        };
        // An assertion may be about a package, too.
        if errors.iter().any(|error| self.reports_failed_test(error)) {
            return None;
        }
        let last = format!("{}\n", errors.last()?);
        self.missing.iter().find_map(|(before, after)| {
            let mut names =
                last.split(before.as_str()).skip(1).filter_map(|rest| rest.split_once(after.as_str()));
            let name = names.find_map(|(name, _)| (!name.contains(char::is_whitespace)).then_some(name))?;
            if name.is_empty() || self.standard.iter().any(|beginning| name.starts_with(beginning.as_str())) {
                return None;
            }
            Some(if self.has_packages() { package_of(name) } else { name.to_owned() })
        })
    }

    /// Returns whether its programs can use packages.
    pub(crate) fn has_packages(&self) -> bool {
        !self.install.is_empty()
    }

    /// The packages that the bug fixer names, one or more per line; an error if it names none.
    pub(crate) fn packages(&self, answer: &str) -> Result<Vec<String>, String> {
        let mut packages = Vec::new();
        for command in answer.lines().flat_map(|line| line.split(" && ")) {
            for word in self.asked_for(command) {
                if OPTIONS_WITHOUT_VALUE.contains(&word.as_str()) {
                    continue;
                }
                // Within quotes, there may be spaces between name and version.
                let word = word.replace(' ', "");
                // The value of an unknown option would be taken for a package, and anybody can publish one under that
                // name.
                if word.starts_with('-') {
                    return Err(format!("{word} is an option; expected names of packages and nothing else"));
                }
                let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@/[]=<>!~,^+".contains(c);
                if !word.chars().all(allowed) || word.len() > 100 {
                    return Err(format!("{word:?} is not the name of a package"));
                }
                if !packages.contains(&word) {
                    packages.push(word);
                }
            }
        }
        if packages.is_empty() {
            let install = self.install.first().map_or("", String::as_str);
            return Err(format!("expected lines `{install}PACKAGE`, found none"));
        }
        Ok(packages)
    }

    /// The arguments of the command that installs packages, split as a shell does; empty if it is another command or
    /// none.
    fn asked_for(&self, command: &str) -> Vec<String> {
        // Prefixes of a command in a list, a console or a notebook.
        let number = command.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        let command = number.strip_prefix(['.', ')']).unwrap_or(command);
        let command = command.trim_matches(|c: char| c.is_whitespace() || c == '`');
        let command = command.trim_start_matches(['$', '>', '-', '*', '`', '!', '%', ' ']);
        let words =
            shlex::split(command).unwrap_or_else(|| command.split_whitespace().map(str::to_owned).collect());
        let mut words = words.as_slice();
        if let Some((_, rest)) = words.split_first().filter(|(first, _)| *first == "sudo") {
            words = &rest[rest.iter().take_while(|word| word.starts_with('-')).count()..];
        }
        let after = |install: &String| {
            let mut rest = words;
            for wanted in install.split_whitespace() {
                rest = rest.split_first().filter(|(word, _)| *word == wanted)?.1;
            }
            Some(rest.to_vec())
        };
        self.install.iter().find_map(after).unwrap_or_default()
    }

    /// The number of tests in a program: its lines that begin with an assertion.
    pub fn count_tests(&self, program: &str) -> usize {
        let is_test = |line: &&str| self.test.iter().any(|mark| line.trim_start().starts_with(mark.as_str()));
        program.lines().filter(is_test).count()
    }

    /// Output without details that differ between interpreters or runs.
    pub(crate) fn without_noise(&self, output: &str) -> String {
        let is_noise = |line: &str| {
            let marks = line.trim();
            !marks.is_empty() && marks.chars().all(|c| matches!(c, '^' | '~' | ' '))
                || self.noise.iter().any(|mark| line.starts_with(mark.as_str()))
        };
        let lines: Vec<String> =
            output.lines().filter(|line| !is_noise(line)).map(without_addresses).collect();
        lines.join("\n").trim().to_owned()
    }
}

/// The errors of the tracebacks in a text: of each, the first line that is not indented.
fn errors<'t>(text: &'t str, traceback: &str) -> Vec<&'t str> {
    let mut lines = text.lines();
    let mut errors = Vec::new();
    while lines.any(|line| line.starts_with(traceback)) {
        errors.extend(lines.find(|line| !line.starts_with(' ')));
    }
    errors
}

/// The package that contains a module: `yaml.nodes` is in `yaml`, `@scope/name/part` in `@scope/name`.
fn package_of(module: &str) -> String {
    let parts = if module.starts_with('@') { 2 } else { 1 };
    let package: Vec<&str> = module.split('/').take(parts).collect();
    let package = package.join("/");
    match package.split_once('.') {
        // Names of npm packages may contain dots, as `socket.io`; Python's modules never contain slashes.
        Some((first, _)) if !module.contains('/') && !module.ends_with(".js") && !module.ends_with(".io") => {
            first.to_owned()
        }
        _ => package,
    }
}

/// Replaces memory addresses with `0x…`.
fn without_addresses(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits >= 8 {
            text.push_str("0x…");
            text.push_str(&part[digits..]);
        } else {
            text.push_str("0x");
            text.push_str(part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python() -> &'static Language {
        Language::named("Python").unwrap()
    }

    fn javascript() -> &'static Language {
        Language::named("javascript").unwrap()
    }

    #[test]
    fn every_language_has_a_runner() {
        for name in Language::names() {
            assert!(quarry_sandbox::Runner::named(name).is_ok(), "{name}");
            let has_packages = Language::named(name).unwrap().has_packages();
            assert_eq!(has_packages, quarry_sandbox::packages::is_supported(name), "{name}");
        }
    }

    #[test]
    fn a_missing_package_is_seen_and_nothing_else_is() {
        let check = |language: &Language, stderr: &str, expected: Option<&str>| {
            assert_eq!(language.missing_package("", stderr).as_deref(), expected, "{stderr}");
        };
        let traceback = |error: &str| {
            let line = format!("assert '{}' not in output", error.lines().next().unwrap());
            format!(
                "Traceback (most recent call last):\n  File \"main.py\", line 1, in f\n    {line}\n{error}\n"
            )
        };
        check(python(), &traceback("ModuleNotFoundError: No module named 'yaml'"), Some("yaml"));
        check(python(), &traceback("ModuleNotFoundError: No module named 'google.cloud'"), Some("google"));
        check(python(), &traceback("ImportError: No module named yaml"), Some("yaml"));
        check(python(), &traceback("ImportError: cannot import name 'x' from 'y'"), None);
        check(python(), &traceback("ModuleNotFoundError: No module named ''"), None);
        check(python(), "ModuleNotFoundError: No module named 'yaml'\n", None);
        // The last error counts, whatever was logged before it and whatever its message says.
        let [missing, other] =
            ["ModuleNotFoundError: No module named 'yaml'", "KeyError: 'x'"].map(traceback);
        let during = "\nDuring handling of the above exception, another exception occurred:\n\n";
        check(python(), &format!("{missing}{during}{other}"), None);
        check(python(), &format!("{other}{during}{missing}"), Some("yaml"));
        let asserted = "AssertionError: ModuleNotFoundError: No module named 'yaml'";
        check(python(), &traceback(asserted), None);
        check(python(), &traceback(&format!("AssertionError: it said\n{missing}")), None);

        let node = |name: &str| format!("Cannot find module '{name}'\nRequire stack:\n- /box/main.js\n");
        let thrown = |name: &str| format!("Error: {}    at f (main.js:1:1)\n", node(name));
        check(javascript(), &thrown("lodash"), Some("lodash"));
        check(javascript(), &thrown("@scope/name/part"), Some("@scope/name"));
        check(javascript(), &thrown("socket.io"), Some("socket.io"));
        check(javascript(), &thrown("./helper"), None);
        check(
            javascript(),
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x' imported from /box/m",
            Some("x"),
        );
        check(javascript(), "Error: Cannot find module 'x' is what it should say", None);
        check(javascript(), &format!("{}AssertionError: the sum\n", thrown("lodash")), None);
        // The format in which programs are asked to report errors.
        let reported = |stdout: &str| javascript().missing_package(stdout, "");
        assert_eq!(reported(&format!("Error {}", node("lodash"))).as_deref(), Some("lodash"));
        assert_eq!(reported(&format!("Error {}AssertionError no\n", node("lodash"))), None);
        assert_eq!(python().missing_package(&missing, ""), None);

        for (name, error) in [
            ("go", "main.go:3:8: no required module provides package x/y: go.mod file not found\n"),
            ("r", "Error in library(x) : there is no package called ‘x’\nExecution halted\n"),
            ("ruby", "main.rb:1:in `require': cannot load such file -- x (LoadError)\n"),
            ("java", "Main.java:1: error: package x.y does not exist\n"),
        ] {
            let language = Language::named(name).unwrap();
            assert!(language.missing_package("", error).is_some(), "{name}");
            assert_eq!(language.missing_package(error, "assertion failed: no"), None, "{name}");
            let failed = format!("{error}{}: no\n", language.failed_test[0]);
            assert_eq!(language.missing_package("", &failed), None, "{name}");
        }
    }

    #[test]
    fn packages_are_read_and_nothing_that_a_shell_could_misread() {
        let read = |answer: &str| python().packages(answer);
        assert_eq!(
            read("pip install PyYAML\npip install -q numpy==1.2 PyYAML"),
            Ok(vec!["PyYAML".into(), "numpy==1.2".into()])
        );
        assert_eq!(read("Sure:\n```\n$ pip3 install `x`").map_err(|_| ()), Err(()));
        for (answer, package) in [
            ("- `pip install beautifulsoup4`", "beautifulsoup4"),
            ("pip install \"x>=1.0\"", "x>=1.0"),
            ("pip install 'x >= 1.0, <2'", "x>=1.0,<2"),
            ("!pip install x", "x"),
            ("%pip install x", "x"),
            ("sudo pip install x", "x"),
            ("$ sudo -H pip3 install -y x", "x"),
            ("python -m pip install x", "x"),
            ("!python3 -m pip install --no-cache-dir x", "x"),
            ("1. pip  install x  # for yaml", "x"),
            ("cd /tmp && pip install x", "x"),
        ] {
            assert_eq!(read(answer), Ok(vec![package.into()]), "{answer}");
        }
        assert_eq!(read("pip install a && pip install b"), Ok(vec!["a".into(), "b".into()]));
        for bad in [
            "",
            "nothing can be done",
            "pip install x;rm",
            "pip install \"x; python_version < '3'\"",
            "pip install 'x",
            "sudo rm x",
            "pip uninstall x",
            "pip install $(x)",
            "pip install --upgrade",
            "pip install -r requirements.txt",
            "pip install --target lib yaml",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(javascript().packages("npm install @scope/name"), Ok(vec!["@scope/name".into()]));
    }

    #[test]
    fn differences_between_interpreters_are_left_out() {
        let output =
            "  File \"main.py\", line 1\n    assert f(1)\n           ~^^^\n<A at 0x7f00aa11bb22>, 0x10\n\n";
        let expected = "  File \"main.py\", line 1\n    assert f(1)\n<A at 0x…>, 0x10";
        assert_eq!(python().without_noise(output), expected.trim());
        let output = "node:internal/x:1\n  throw err;\n  ^\n\nError: no\n    at f (/box/main.js:1:1)\n\nNode.js v20.1.0\n";
        assert_eq!(javascript().without_noise(output), "Error: no");
    }

    #[test]
    fn tests_are_lines_that_assert() {
        assert_eq!(
            python().count_tests("def main():\n    assert f(1), 'x'\n    # assert\n    assert(f(2))\n"),
            2
        );
        assert_eq!(javascript().count_tests("assert.strictEqual(1, 1);\n  assert(true)\n// assert"), 2);
    }
}
