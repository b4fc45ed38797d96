//! The commands of `workspace/executeCommand`: each is answered with the JSON of the command of that name.

use std::path::Path;
use std::time::Instant;

use quarry_index::{Event, Filter, Hit};
use quarry_session::{CallsQuestion, KINDS, Query, UnitsRequest};
use quarry_source::UnitKind;
use quarry_text::{did_you_mean_or_all, with_causes};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::RequestError;
use crate::folders::{Folders, Opener, Searchable};
use crate::locations::{path_of, spelled_path_of};
use crate::related;

pub(crate) const COMMANDS: [&str; 7] = [
    "quarry.search",
    "quarry.similar",
    "quarry.callers",
    "quarry.callees",
    related::COMMAND,
    "quarry.status",
    "quarry.refresh",
];

const MAX_RESULTS: usize = 1000;
/// Calls that are listed unless a request says otherwise.
const DEFAULT_CALLS: usize = 100;
/// Bytes of the longest query.
const MAX_QUERY_BYTES: usize = 64 << 10;

/// Parameters of `workspace/executeCommand`.
#[derive(Debug, Deserialize)]
pub(crate) struct Execute {
    command: String,
    #[serde(default)]
    arguments: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: Option<usize>,
    quality: Option<String>,
    language: Option<OneOrMore>,
    glob: Option<OneOrMore>,
    kind: Option<OneOrMore>,
    folder: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Similar {
    uri: String,
    line: u32,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    uri: Option<String>,
    line: Option<u32>,
    name: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn list(this: &Option<Self>) -> Vec<String> {
        match this {
            None => Vec::new(),
            // An empty one is a field that was left empty.
            Some(Self::One(text)) => Some(text.clone()).filter(|text| !text.is_empty()).into_iter().collect(),
            Some(Self::More(texts)) => texts.clone(),
        }
    }
}

impl<O: Opener> Folders<O> {
    /// Answers a command.
    pub(crate) fn execute(
        &self,
        asked: Execute,
        events: &(dyn Fn(&Event) + Sync),
    ) -> Result<Value, RequestError> {
        let Execute { command, arguments } = asked;
        match command.as_str() {
            "quarry.search" => {
                let search: Search = arguments_of(&command, arguments)?;
                self.check_quality(search.quality.as_deref())?;
                self.answer(search.quality.as_deref(), events, |found| found.search(&search))
            }
            "quarry.similar" => {
                let similar: Similar = arguments_of(&command, arguments)?;
                self.answer(None, events, |found| found.similar(&similar))
            }
            "quarry.callers" => {
                let calls: Calls = arguments_of(&command, arguments)?;
                self.answer(None, events, |found| found.callers(&calls))
            }
            "quarry.callees" => {
                let calls: Calls = arguments_of(&command, arguments)?;
                self.answer(None, events, |found| found.callees(&calls))
            }
            related::COMMAND => {
                let asked: related::Asked = arguments_of(&command, arguments)?;
                self.answer(None, events, |found| found.view(&found.related(&asked)?))
            }
            "quarry.status" => Ok(json(&self.status()?)?),
            "quarry.refresh" => {
                self.mark_changed();
                self.refresh(events).map(|()| Value::Null)
            }
            other => Err(RequestError::Parameters(format!(
                "unknown command {other:?}; {}",
                did_you_mean_or_all(other, COMMANDS)
            ))),
        }
    }

    /// Checks the name of a quality.
    pub(crate) fn check_quality(&self, quality: Option<&str>) -> Result<(), RequestError> {
        let all = self.opener().qualities();
        let Some(unknown) = quality.filter(|quality| !all.iter().any(|known| known == quality)) else {
            return Ok(());
        };
        let meant = did_you_mean_or_all(unknown, all.iter().map(String::as_str));
        Err(RequestError::Parameters(format!("unknown quality {unknown:?}; {meant}")))
    }
}

pub(crate) fn parsed(text: &str) -> Result<Query, RequestError> {
    Query::parse(text).map_err(|error| RequestError::Parameters(error.with_place()))
}

impl Searchable {
    fn search(&self, asked: &Search) -> Result<Value, RequestError> {
        if asked.query.len() > MAX_QUERY_BYTES {
            let problem = format!("the query is longer than {} KiB; send less text", MAX_QUERY_BYTES >> 10);
            return Err(RequestError::Parameters(problem));
        }
        let kinds = OneOrMore::list(&asked.kind);
        let kinds = kinds.iter().map(|kind| kind_named(kind)).collect::<Result<Vec<_>, _>>()?;
        let (languages, globs) = (OneOrMore::list(&asked.language), OneOrMore::list(&asked.glob));
        let filter = Filter::new(&languages, &kinds, &globs)
            .map_err(|error| RequestError::Parameters(with_causes(&error)))?;
        let folder = asked.folder.as_deref().filter(|folder| !folder.is_empty());
        let filter = match folder {
            Some(folder) => filter.in_roots(vec![self.folder(folder)?]),
            None => filter,
        };
        let trees = self.tree.names();
        let limit = limit(asked.limit, self.defaults.limit)?;
        let request = UnitsRequest { trees: &trees, ..self.defaults.request(&filter, limit) };
        let found = quarry_session::search(&self.tree.index, parsed(asked.query.trim())?, &request)?;
        self.view(&found.answer(&self.tree, &self.defaults.shown(), self.open_time)?)
    }

    fn similar(&self, asked: &Similar) -> Result<Value, RequestError> {
        let (root, path) = self.place(&asked.uri)?;
        let line = asked.line.saturating_add(1);
        let given = self.tree.index.unit_at_in(root, &path, line).ok_or_else(|| {
            RequestError::Failed(format!("{path}:{line}: no indexed unit covers this line"))
        })?;
        let all = Filter::default();
        let request = self.defaults.request(&all, limit(asked.limit, self.defaults.limit)?);
        let found = quarry_session::similar(&self.tree.index, &given, &request)?;
        self.view(&found.answer(&self.tree, &self.defaults.shown(), self.open_time)?)
    }

    fn callers(&self, asked: &Calls) -> Result<Value, RequestError> {
        let (query, definitions) = self.definitions(asked)?;
        let begun = Instant::now();
        let calls = self.tree.index.callers(&query, &definitions, &Filter::default())?;
        let limit = limit(asked.limit, DEFAULT_CALLS)?;
        let (query, took) = (query.as_str(), begun.elapsed());
        let definitions = definitions.as_slice();
        let question = CallsQuestion { query, definitions, limit, took, open_time: self.open_time };
        self.view(&quarry_session::callers(&self.tree, &question, &calls))
    }

    fn callees(&self, asked: &Calls) -> Result<Value, RequestError> {
        let (query, definitions) = self.definitions(asked)?;
        let begun = Instant::now();
        let calls = definitions.iter().map(|hit| self.tree.index.callees(hit));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        let limit = limit(asked.limit, DEFAULT_CALLS)?;
        let (query, took) = (query.as_str(), begun.elapsed());
        let definitions = definitions.as_slice();
        let question = CallsQuestion { query, definitions, limit, took, open_time: self.open_time };
        self.view(&quarry_session::callees(&self.tree, &question, &calls))
    }

    /// The symbol and its definitions; none if nothing has the name.
    fn definitions(&self, asked: &Calls) -> Result<(String, Vec<Hit>), RequestError> {
        match asked {
            Calls { name: Some(name), uri: None, line: None, .. } if !name.trim().is_empty() => {
                Ok((name.clone(), self.tree.index.definitions_of(name, &Filter::default())))
            }
            Calls { name: None, uri: Some(uri), line: Some(line), .. } => {
                let (root, path) = self.place(uri)?;
                let line = line.saturating_add(1);
                let found = self.tree.index.definition_at_in(root, &path, line).ok_or_else(|| {
                    let problem = "no function, method or type is indexed there";
                    RequestError::Failed(format!("{path}:{line}: {problem}; name a line in one"))
                })?;
                Ok((format!("{path}:{line}"), vec![found]))
            }
            _ => Err(RequestError::Parameters("expected `uri` and `line`, or `name`".to_owned())),
        }
    }

    /// The folder that a client names, by its URI or path.
    fn folder(&self, folder: &str) -> Result<usize, RequestError> {
        let path = spelled_path_of(folder).unwrap_or_else(|| folder.into());
        self.folder_at(&path)
            .ok_or_else(|| RequestError::Parameters(format!("{folder:?} is not one of the open folders")))
    }

    /// Number of the folder that a document is in, and its path there.
    pub(crate) fn place(&self, uri: &str) -> Result<(usize, String), RequestError> {
        let path = path_of(uri)
            .ok_or_else(|| RequestError::Parameters(format!("{uri:?} is not the URI of a file")))?;
        self.place_of(&path).ok_or_else(|| outside(&path))
    }

    fn view(&self, answer: &impl serde::Serialize) -> Result<Value, RequestError> {
        self.tree.index.check_intact()?;
        let mut value = json(answer)?;
        self.add_uris(&mut value);
        Ok(value)
    }
}

fn outside(path: &Path) -> RequestError {
    RequestError::Failed(format!("{} is not in any open folder", path.display()))
}

/// The only argument of a command.
fn arguments_of<T: DeserializeOwned>(command: &str, arguments: Vec<Value>) -> Result<T, RequestError> {
    let problem = |problem: String| RequestError::Parameters(format!("{command}: {problem}"));
    let [argument] = <[Value; 1]>::try_from(arguments)
        .map_err(|all| problem(format!("expected one argument, an object; found {}", all.len())))?;
    serde_json::from_value(argument).map_err(|error| problem(error.to_string()))
}

pub(crate) fn limit(asked: Option<usize>, default: usize) -> Result<usize, RequestError> {
    match asked {
        None => Ok(default),
        Some(limit @ 1..=MAX_RESULTS) => Ok(limit),
        Some(other) => {
            Err(RequestError::Parameters(format!("limit: expected 1 to {MAX_RESULTS}, found {other}")))
        }
    }
}

fn kind_named(name: &str) -> Result<UnitKind, RequestError> {
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind).ok_or_else(|| {
        let meant = did_you_mean_or_all(name, KINDS.map(|(name, _)| name));
        RequestError::Parameters(format!("unknown kind {name:?}; {meant}"))
    })
}

/// As the command line prints it: numbers of 32 bits keep their digits.
fn json(value: &impl serde::Serialize) -> Result<Value, RequestError> {
    let text = serde_json::to_string(value).and_then(|text| serde_json::from_str(&text));
    text.map_err(|error| RequestError::Failed(error.to_string()))
}
