//! Plans of installation and removal.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;
use std::path::{Path, PathBuf};

use diffy::DiffOptions;
use quarry_files::{Readers, sha256};

use crate::agent::TargetFile;
use crate::edit::{Content, Presence};
use crate::receipt::{Receipt, Receipts};
use crate::splice::Splice;
use crate::{Agent, Environment, Error, Problem, Scope, file};

/// Lines around a change that a diff shows.
const CONTEXT: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    /// The text before; `None` if the file did not exist.
    pub before: Option<String>,
    /// The text after; `None` if the file is removed.
    pub after: Option<String>,
    project: Option<PathBuf>,
}

/// Why a file, or an agent, stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The file already has the content to be written.
    Already(PathBuf),
    /// The entry or instructions in the file were not written by this program, or were changed since.
    LeftAlone(PathBuf),
    /// Other agents, which are named, still need the content of the file.
    Shared(PathBuf, String),
    /// The file no longer contains what was installed.
    Gone(PathBuf),
    /// Nothing was installed for the agent.
    NotInstalled(String),
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Already(path) => write!(formatter, "{}: already installed", path.display()),
            Self::LeftAlone(path) => write!(
                formatter,
                "{}: left alone: its entry or instructions for quarry differ from what `quarry agent install` writes",
                path.display()
            ),
            Self::Shared(path, agents) => write!(formatter, "{}: kept for {agents}", path.display()),
            Self::Gone(path) => {
                write!(formatter, "{}: the installed entry is missing", path.display())
            }
            Self::NotInstalled(agent) => write!(formatter, "{agent}: nothing was installed here"),
        }
    }
}

/// The files that installing or uninstalling changes.
#[derive(Debug)]
pub struct Plan {
    pub changes: Vec<Change>,
    /// Unchanged files, with reasons.
    pub notes: Vec<Note>,
    receipts: Receipts,
    directories: Vec<PathBuf>,
    project: Option<PathBuf>,
    is_removal: bool,
}

/// Texts before and after the changes.
struct Texts<'p> {
    project: Option<&'p Path>,
    texts: BTreeMap<PathBuf, [Option<String>; 2]>,
}

impl<'p> Texts<'p> {
    /// No file yet; files of a scope other than the user's are below the project.
    fn new(scope: Scope, environment: &'p Environment) -> Self {
        let project = (scope == Scope::Project).then_some(environment.project.as_path());
        Self { project, texts: BTreeMap::new() }
    }

    /// The text of a file after the changes.
    fn get(&mut self, path: &Path) -> Result<&mut Option<String>, Error> {
        Ok(match self.texts.entry(path.to_owned()) {
            Slot::Occupied(known) => &mut known.into_mut()[1],
            Slot::Vacant(free) => {
                let text = file::read(path, self.project)?;
                &mut free.insert([text.clone(), text])[1]
            }
        })
    }

    fn changes(self) -> Vec<Change> {
        let changed = |(path, [before, after]): (PathBuf, [Option<String>; 2])| {
            (before != after).then(|| Change {
                path,
                before,
                after,
                project: self.project.map(Path::to_owned),
            })
        };
        self.texts.into_iter().filter_map(changed).collect()
    }
}

/// Plans the installation for some agents.
///
/// # Errors
/// When an agent has no files in this scope, or a file cannot be read or edited.
pub fn install(
    agents: &[&Agent],
    scope: Scope,
    environment: &Environment,
    receipts: &Receipts,
) -> Result<Plan, Error> {
    let mut texts = Texts::new(scope, environment);
    let project = texts.project;
    let mut receipts = receipts.clone();
    let mut notes = Vec::new();
    for agent in agents {
        let placed = agent.files(scope, environment);
        if placed.is_empty() {
            return Err(Error::NoTarget { agent: agent.title.clone(), scope: scope.to_string() });
        }
        for TargetFile { path, content } in placed {
            let text = texts.get(&path)?;
            let known = receipts.find(&path, &content);
            let present = match text.as_deref() {
                None => Presence::No,
                // All of a file: what else is there is another one.
                Some(text) => {
                    content.presence(text).map_err(|problem| cannot_insert(&path, problem, &content))?
                }
            };
            match (known, present) {
                (Some(known), Presence::Same) if receipts.receipts[known].content == content => {
                    receipts.receipts[known].agents.insert(agent.name.clone());
                    notes.push(Note::Already(path));
                    continue;
                }
                // Another version of what was written before.
                (Some(known), Presence::Other | Presence::Same) => {
                    let receipt = receipts.receipts.remove(known);
                    let Some(without) = without_entry(&receipt, text.as_deref().unwrap_or_default())? else {
                        receipts.receipts.insert(known, receipt);
                        notes.push(Note::LeftAlone(path));
                        continue;
                    };
                    *text = without;
                    let agents = receipt.agents.clone();
                    let mut again = written(text, &path, content, agent, scope, project)?;
                    again.agents.extend(agents);
                    again.directories = receipt.directories;
                    receipts.receipts.push(again);
                    continue;
                }
                (Some(known), Presence::No) => drop(receipts.receipts.remove(known)),
                (None, Presence::No) => {}
                (None, Presence::Same) => {
                    notes.push(Note::Already(path));
                    continue;
                }
                (None, Presence::Other) => {
                    notes.push(Note::LeftAlone(path));
                    continue;
                }
            }
            receipts.receipts.push(written(text, &path, content, agent, scope, project)?);
        }
    }
    Ok(Plan {
        changes: texts.changes(),
        notes,
        receipts,
        directories: Vec::new(),
        project: project.map(Path::to_owned),
        is_removal: false,
    })
}

fn cannot_insert(path: &Path, problem: Problem, content: &Content) -> Error {
    Error::Edit {
        path: path.to_owned(),
        problem,
        by_hand: format!("add this by hand: {}", content.by_hand()),
    }
}

fn cannot_remove(path: &Path, problem: Problem) -> Error {
    Error::Edit {
        path: path.to_owned(),
        problem,
        by_hand: "remove the entries about quarry by hand".to_owned(),
    }
}

/// Writes a content into a text.
fn written(
    text: &mut Option<String>,
    path: &Path,
    content: Content,
    agent: &Agent,
    scope: Scope,
    project: Option<&Path>,
) -> Result<Receipt, Error> {
    let before = text.as_deref().unwrap_or_default();
    let after = content.insert(before).map_err(|problem| cannot_insert(path, problem, &content))?;
    let receipt = Receipt {
        agents: [agent.name.clone()].into(),
        scope,
        project: project.map(Path::to_owned),
        path: path.to_owned(),
        splice: Splice::between(before, &after),
        n_made: content.n_missing(before),
        before: text.as_deref().map(sha256),
        after: sha256(&after),
        directories: if text.is_none() { file::missing_directories(path) } else { Vec::new() },
        content,
    };
    *text = Some(after);
    Ok(receipt)
}

/// Plans the removal for some agents.
///
/// # Errors
/// When a file cannot be read or edited.
pub fn uninstall(
    agents: &[&Agent],
    scope: Scope,
    environment: &Environment,
    receipts: &Receipts,
) -> Result<Plan, Error> {
    let mut texts = Texts::new(scope, environment);
    let project = texts.project;
    let (mut notes, mut directories) = (Vec::new(), Vec::new());
    let mut kept = Receipts::default();
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let mut is_installed = vec![false; agents.len()];
    // The last first, so that each finds the text that it left.
    for receipt in receipts.receipts.iter().rev() {
        let mut rest = receipt.clone();
        let is_meant = receipt.scope == scope && receipt.project.as_deref() == project;
        if !is_meant || !names.iter().any(|name| receipt.agents.contains(*name)) {
            kept.receipts.push(rest);
            continue;
        }
        for (name, is_installed) in names.iter().zip(&mut is_installed) {
            *is_installed |= rest.agents.remove(*name);
        }
        if !rest.agents.is_empty() {
            let agents: Vec<&str> = rest.agents.iter().map(String::as_str).collect();
            notes.push(Note::Shared(rest.path.clone(), agents.join(", ")));
            kept.receipts.push(rest);
            continue;
        }
        let text = texts.get(&receipt.path)?;
        let Some(found) = text.as_deref() else {
            notes.push(Note::Gone(receipt.path.clone()));
            continue;
        };
        let presence = receipt.content.presence(found);
        match presence.map_err(|problem| cannot_remove(&receipt.path, problem))? {
            Presence::No => notes.push(Note::Gone(receipt.path.clone())),
            Presence::Other => notes.push(Note::LeftAlone(receipt.path.clone())),
            Presence::Same => match without_entry(receipt, found)? {
                None => notes.push(Note::LeftAlone(receipt.path.clone())),
                Some(without) => {
                    // Other entries in the file take over the duty to remove it and its directories.
                    if receipt.before.is_none() && without.is_some() {
                        let same_file = kept.receipts.iter_mut().filter(|other| other.path == receipt.path);
                        for other in same_file {
                            other.before = None;
                            other.directories.clone_from(&receipt.directories);
                        }
                    }
                    *text = without;
                    directories.extend(receipt.directories.iter().cloned());
                }
            },
        }
    }
    kept.receipts.reverse();
    transfer_directories(&directories, &mut kept);
    let missing = names.iter().zip(is_installed).filter(|(_, is_installed)| !is_installed);
    notes.extend(missing.map(|(name, _)| Note::NotInstalled((*name).to_owned())));
    Ok(Plan {
        changes: texts.changes(),
        notes,
        receipts: kept,
        directories,
        project: project.map(Path::to_owned),
        is_removal: true,
    })
}

/// A directory that was created for a removed file is removed with the last file in it.
fn transfer_directories(directories: &[PathBuf], kept: &mut Receipts) {
    for directory in directories {
        for receipt in kept.receipts.iter_mut().filter(|receipt| receipt.path.starts_with(directory)) {
            if !receipt.directories.contains(directory) {
                receipt.directories.push(directory.clone());
                receipt.directories.sort_by_key(|directory| Reverse(directory.components().count()));
            }
        }
    }
}

/// The text without the insertion of a receipt, or none if the file is removed too; nothing if it was changed since.
fn without_entry(receipt: &Receipt, text: &str) -> Result<Option<Option<String>>, Error> {
    let content = &receipt.content;
    let was_there = receipt.before.is_some();
    // Nobody has edited the file: it is as it was, to the byte.
    if sha256(text) == receipt.after {
        let before = receipt.splice.undo(text).filter(|before| match &receipt.before {
            Some(hash_before) => sha256(before) == *hash_before,
            None => before.is_empty(),
        });
        if let Some(before) = before {
            return Ok(Some(was_there.then_some(before)));
        }
    }
    match content.presence(text).map_err(|problem| cannot_remove(&receipt.path, problem))? {
        Presence::Same => {}
        Presence::No | Presence::Other => return Ok(None),
    }
    if let Content::File { .. } = content {
        return Ok(Some(was_there.then(String::new)));
    }
    // Edited elsewhere: what was inserted may still stand there as it is. Else the entry alone is taken out.
    let fits = |without: &String| match content.remove(text, receipt.n_made) {
        Ok(removed) => content.is_equivalent(without, &removed),
        Err(_) => matches!(content.presence(without), Ok(Presence::No)),
    };
    let without = match receipt.splice.undo_once(text).filter(fits) {
        Some(without) => without,
        None => {
            content.remove(text, receipt.n_made).map_err(|problem| cannot_remove(&receipt.path, problem))?
        }
    };
    Ok(Some(if !was_there && content.is_nothing(&without) { None } else { Some(without) }))
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn diff(&self) -> String {
        let mut text = String::new();
        for Change { path, before, after, .. } in &self.changes {
            let name = |side: &Option<String>| match side {
                Some(_) => path.display().to_string(),
                None => "/dev/null".to_owned(),
            };
            let mut options = DiffOptions::new();
            options
                .set_context_len(CONTEXT)
                .set_original_filename(name(before))
                .set_modified_filename(name(after));
            let patch = options
                .create_patch(before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
            text.push_str(&patch.to_string());
        }
        text
    }

    /// Changes the files, and keeps at `receipts` what was written. An interrupted run can be repeated:
    /// additions are recorded before they are made, removals afterwards.
    ///
    /// # Errors
    /// When a file has changed since the plan was made, or cannot be written.
    pub fn apply(&self, receipts: &Path) -> Result<(), Error> {
        for Change { path, before, project, .. } in &self.changes {
            file::check_unchanged(path, project.as_deref(), before.as_deref())?;
        }
        if !self.is_removal {
            self.receipts.write(receipts)?;
        }
        for Change { path, before, after, project } in &self.changes {
            file::replace(path, project.as_deref(), before.as_deref(), after.as_deref(), Readers::Umask)?;
        }
        if self.is_removal {
            self.receipts.write(receipts)?;
            file::remove_empty(&self.directories, self.project.as_deref());
        }
        Ok(())
    }
}
