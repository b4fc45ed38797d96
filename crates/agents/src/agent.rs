//! The supported agents, and the files written for each.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::edit::{Content, Format};

/// The instructions, by name.
const TEXTS: [(&str, &str); 4] = [
    ("mcp", include_str!("../instructions/mcp.md")),
    ("code-finder", include_str!("../instructions/code-finder.md")),
    ("command-line", include_str!("../instructions/command-line.md")),
    ("continue-server", include_str!("../instructions/continue-server.yaml")),
];

/// Placeholder for the front matter that a file begins with.
const FRONT: &str = "{front}";

/// The commands of hooks, by the placeholder that stands for them.
const HINTS: [(&str, &str); 2] = [
    ("{grep-hint}", include_str!("../instructions/grep-hint.sh")),
    ("{start-hint}", include_str!("../instructions/start-hint.sh")),
];

/// For whom something is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// For the user, in all projects.
    User,
    /// For everybody who works on a project.
    Project,
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::User => "user",
            Self::Project => "project",
        })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Its name on the command line.
    pub name: String,
    /// Displayed name.
    pub title: String,
    found: String,
    #[serde(rename = "target")]
    targets: Vec<Target>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    scope: Scope,
    path: String,
    entry: Option<Entry>,
    element: Option<Element>,
    item: Option<Item>,
    file: Option<String>,
    block: Option<String>,
    #[serde(default)]
    front: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    format: Format,
    at: Vec<String>,
    value: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Element {
    at: Vec<String>,
    value: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    at: String,
    value: String,
}

/// The base directories and commands on this machine.
#[derive(Debug, Clone)]
pub struct Environment {
    pub home: PathBuf,
    /// The user's settings directory, as defined by the system.
    pub config: PathBuf,
    pub project: PathBuf,
    /// Command by which agents start Quarry.
    pub command: String,
    /// Variables of the environment; empty ones count as not set.
    pub variables: HashMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TargetFile {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
}

#[derive(Deserialize)]
struct Table {
    agent: Vec<Agent>,
}

/// All known agents, in the order of the table.
pub fn agents() -> &'static [Agent] {
    static AGENTS: LazyLock<Vec<Agent>> = LazyLock::new(|| {
        // A test reads the table, which is part of the program.
        toml::from_str::<Table>(include_str!("agents.toml")).map(|table| table.agent).unwrap_or_default()
    });
    &AGENTS
}

/// Agents that a user defines, in the format of the table of known agents.
///
/// # Errors
/// When a table, path or content is not as expected.
pub fn defined(text: &str, path: &Path) -> Result<Vec<Agent>, Error> {
    let problem = |problem: String| Error::Definition { path: path.to_owned(), problem };
    let table: Table =
        toml::from_str(text).map_err(|error| problem(error.to_string().trim_end().to_owned()))?;
    for agent in &table.agent {
        for target in &agent.targets {
            if target.n_contents() != 1 || !target.is_known() {
                let what = "expected one of entry, element, item, file and block; file and block name mcp or command-line";
                return Err(problem(format!("{}: {}: {what}", agent.name, target.path)));
            }
            let is_below = ["~/", "{project}/", "{config}/", "{xdg}/"]
                .iter()
                .any(|start| target.path.starts_with(start));
            let leads_out = target.path.split(['/', '\\', '|']).any(|part| part == "..");
            let is_of_project = target.path.starts_with("{project}/");
            if leads_out
                || !is_below && !target.path.contains('|')
                || is_of_project != (target.scope == Scope::Project)
            {
                let what = "expected a path below ~, {config} or {xdg} for the user, and below {project} for a project";
                return Err(problem(format!("{}: {}: {what}", agent.name, target.path)));
            }
        }
    }
    Ok(table.agent)
}

impl Agent {
    pub fn is_found(&self, environment: &Environment) -> bool {
        environment.path(&self.found).exists()
    }

    pub fn scopes(&self) -> Vec<Scope> {
        let mut scopes: Vec<Scope> = self.targets.iter().map(|target| target.scope).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    }

    /// The files that are written in a scope.
    pub fn paths(&self, scope: Scope, environment: &Environment) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for TargetFile { path, .. } in self.files(scope, environment) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    pub(crate) fn files(&self, scope: Scope, environment: &Environment) -> Vec<TargetFile> {
        let targets = self.targets.iter().filter(|target| target.scope == scope);
        let file = |target: &Target| {
            Some(TargetFile { path: environment.path(&target.path), content: target.content(environment)? })
        };
        targets.filter_map(file).collect()
    }
}

impl Target {
    fn n_contents(&self) -> usize {
        let Self { entry, element, item, file, block, .. } = self;
        let are = [entry.is_some(), element.is_some(), item.is_some(), file.is_some(), block.is_some()];
        are.into_iter().filter(|is| *is).count()
    }

    /// Returns whether its text, if it has one, exists.
    fn is_known(&self) -> bool {
        let mut texts = self.file.iter().chain(&self.block);
        texts.all(|name| TEXTS.iter().any(|(known, _)| known == name))
    }

    /// `None` if it names no content, or an unknown text, which a test detects.
    fn content(&self, environment: &Environment) -> Option<Content> {
        let text = |name: &str| {
            let (_, text) = TEXTS.iter().find(|(known, _)| *known == name)?;
            Some(environment.fill(&match text.contains(FRONT) {
                true => text.replace(FRONT, &self.front),
                false => format!("{}{text}", self.front),
            }))
        };
        match self {
            Self { entry: Some(Entry { format, at, value }), .. } => {
                let value = environment.fill_value(value);
                Some(Content::Entry { format: *format, at: at.clone(), value })
            }
            Self { element: Some(Element { at, value }), .. } => {
                let event = at.last().map_or("", String::as_str);
                Some(Content::Element { at: at.clone(), value: environment.fill_hints(value, event) })
            }
            Self { item: Some(Item { at, value }), .. } => {
                Some(Content::Item { at: at.clone(), value: environment.fill(value) })
            }
            Self { file: Some(name), .. } => Some(Content::File { text: text(name)? }),
            Self { block: Some(name), .. } => Some(Content::Block { text: text(name)? }),
            _ => None,
        }
    }
}

impl Environment {
    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn path(&self, template: &str) -> PathBuf {
        let (base, rest) = match template.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(("project", rest)) => (self.project.clone(), rest),
            Some(("config", rest)) => (self.config.clone(), rest),
            Some(("xdg", rest)) => (self.xdg(), rest),
            Some((choice, rest)) => {
                let (variable, default) = choice.split_once('|').unwrap_or((choice, "~"));
                (self.variable(variable).map_or_else(|| self.path(default), PathBuf::from), rest)
            }
            None => match template.strip_prefix('~') {
                Some(rest) => (self.home.clone(), rest),
                None => (PathBuf::from(template), ""),
            },
        };
        // Joining nothing would add a slash.
        match rest.trim_start_matches('/') {
            "" => base,
            rest => base.join(rest),
        }
    }

    fn xdg(&self) -> PathBuf {
        let set = self.variable("XDG_CONFIG_HOME").map(Path::new).filter(|path| path.is_absolute());
        set.map_or_else(|| self.home.join(".config"), Path::to_owned)
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{command}", &self.command)
            .replace("{project}", &self.project.to_string_lossy())
            .replace("{home}", &self.home.to_string_lossy())
    }

    fn fill_value(&self, value: &Value) -> Value {
        with_texts(value, &|text| self.fill(text))
    }

    /// A hook for an event.
    fn fill_hints(&self, value: &Value, event: &str) -> Value {
        with_texts(value, &|text| match HINTS.iter().find(|(name, _)| *name == text) {
            Some((_, hint)) => {
                let command = format!("'{}'", self.command.replace('\'', r"'\''"));
                hint.trim_end().replace("{event}", event).replace("{shell-command}", &command)
            }
            None => self.fill(text),
        })
    }
}

fn with_texts(value: &Value, replace: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(replace(text)),
        Value::Array(items) => items.iter().map(|item| with_texts(item, replace)).collect(),
        Value::Object(object) => {
            object.iter().map(|(name, value)| (name.clone(), with_texts(value, replace))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            home: "/users/me".into(),
            config: "/users/me/.config".into(),
            project: "/project".into(),
            command: "quarry".into(),
            variables: HashMap::from([
                ("CODEX_HOME".into(), "/codex".into()),
                ("EMPTY".into(), String::new()),
            ]),
        }
    }

    #[test]
    fn the_table_is_whole() {
        let table: Table = toml::from_str(include_str!("agents.toml")).unwrap();
        assert!(table.agent.len() >= 15, "{}", table.agent.len());
        let mut names: Vec<&str> = table.agent.iter().map(|agent| agent.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.agent.len());
        for agent in &table.agent {
            for target in &agent.targets {
                assert_eq!(target.n_contents(), 1, "{}: {}", agent.name, target.path);
                let content = target.content(&environment()).unwrap();
                let text = serde_json::to_string(&content).unwrap();
                for placeholder in ["{command}", "{project}", "{front}", "{event}", "-hint}", "{shell-"] {
                    assert!(!text.contains(placeholder), "{text}");
                }
                let path = environment().path(&target.path);
                assert!(path.is_absolute(), "{path:?}");
                assert!(!path.to_string_lossy().contains(['{', '}', '~', '|']), "{path:?}");
                assert_eq!(path.starts_with("/project"), target.scope == Scope::Project, "{path:?}");
            }
            // A server without instructions is worth something, and so are instructions for a command; nothing is not.
            for scope in agent.scopes() {
                assert!(!agent.files(scope, &environment()).is_empty());
            }
        }
    }

    #[test]
    fn a_definition_of_the_user_is_checked() {
        let read = |target: &str| {
            let text = format!(
                "[[agent]]\nname = \"mine\"\ntitle = \"Mine\"\nfound = \"~/.mine\"\n[[agent.target]]\n{target}\n"
            );
            defined(&text, Path::new("mine.toml")).map_err(|error| error.to_string())
        };
        let entry = "entry = { format = \"json\", at = [\"servers\"], value = { command = \"{command}\" } }";
        let found = read(&format!("scope = \"user\"\npath = \"~/.mine/settings.json\"\n{entry}")).unwrap();
        let files = found[0].files(Scope::User, &environment());
        assert_eq!(files[0].path, Path::new("/users/me/.mine/settings.json"));
        for (target, words) in [
            ("scope = \"user\"\npath = \"~/a\"".to_owned(), "expected one of entry"),
            ("scope = \"user\"\npath = \"~/a\"\nfile = \"made-up\"".to_owned(), "expected one of entry"),
            (format!("scope = \"user\"\npath = \"a.json\"\n{entry}"), "expected a path below ~"),
            (format!("scope = \"user\"\npath = \"~/../a.json\"\n{entry}"), "expected a path below ~"),
            (format!("scope = \"user\"\npath = \"/etc/a.json\"\n{entry}"), "expected a path below ~"),
            (format!("scope = \"project\"\npath = \"~/a.json\"\n{entry}"), "below {project} for a project"),
            (format!("scope = \"all\"\npath = \"~/a.json\"\n{entry}"), "line 6"),
        ] {
            let error = read(&target).unwrap_err();
            assert!(error.starts_with("mine.toml: ") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_instructions_say_when_which_search_is_better() {
        for (name, text) in TEXTS.iter().filter(|(_, text)| text.starts_with("## Searching")) {
            let text = text.to_lowercase();
            assert!(text.contains("grep"), "{name}");
            assert!(!text.contains("never"), "{name}");
            assert!(!text.contains("instead of grep"), "{name}");
        }
    }

    #[test]
    fn paths_are_filled_in() {
        let path = |template: &str| environment().path(template).display().to_string();
        assert_eq!(path("~/.x/y"), "/users/me/.x/y");
        assert_eq!(path("{xdg}/zed"), "/users/me/.config/zed");
        assert_eq!(path("{project}/.mcp.json"), "/project/.mcp.json");
        assert_eq!(path("{CODEX_HOME|~/.codex}/config.toml"), "/codex/config.toml");
        assert_eq!(path("{EMPTY|~/.codex}/config.toml"), "/users/me/.codex/config.toml");
        assert_eq!(path("{CLAUDE_CONFIG_DIR|~}/.claude.json"), "/users/me/.claude.json");
    }
}
