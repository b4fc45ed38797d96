//! How the programs of a language are started.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::{Error, Program, find_executable};

/// How the programs of a language are started. Which there are is data: `runners.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runner {
    /// Name of the source file in the work folder.
    pub file: String,
    /// The program that runs it, with its arguments.
    pub command: Vec<String>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
}

static RUNNERS: LazyLock<BTreeMap<String, Runner>> =
    LazyLock::new(|| toml::from_str(include_str!("runners.toml")).expect("runners.toml is well-formed"));

impl Runner {
    /// The names of the languages that have runners, in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        RUNNERS.keys().map(String::as_str)
    }

    /// The runner of a language.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(language: &str) -> Result<&'static Self, Error> {
        RUNNERS.get(language).ok_or_else(|| Error::UnknownLanguage {
            name: language.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Whether the language's interpreter or compiler is on this machine, where sandboxes look for it.
    pub fn is_available(&self) -> bool {
        self.command.first().is_some_and(|executable| find_executable(executable).is_some())
    }

    /// A program of one source file.
    pub fn program(&self, source: &str) -> Program {
        Program {
            command: self.command.clone(),
            files: vec![(self.file.clone(), source.as_bytes().to_vec())],
            environment: self.environment.clone().into_iter().collect(),
            read_only: Vec::new(),
        }
    }
}
