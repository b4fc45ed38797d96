//! The inputs that determine a measurement.

use crate::EvalError;
use crate::method::{ApiModel, ChatModel, LoadModel, Method, ModelName};
use crate::protocol::ProtocolOptions;
use quarry_files::{sha256, sha256_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The inputs that determine a measurement: two with the same identity give the same numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Identity of the program's build ([`Program::build`]).
    pub build: String,
    pub protocol: String,
    pub options: ProtocolOptions,
    /// Split whose qrels are read from a directory.
    pub split: String,
    pub files: BTreeMap<String, Vec<Input>>,
    /// Method as the plan names it.
    pub method: String,
    /// Files that the method reads, by their paths in the expression.
    pub method_files: BTreeMap<String, Input>,
    /// True if the ranks of judged documents are stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ranks: bool,
    /// Models of the method that are not among these files, by their names in the expression.
    pub models: BTreeMap<String, String>,
}

/// The measuring program: another build may give other results.
pub struct Program<'a> {
    /// Identity of its code, because the version alone does not distinguish builds. See [`running_build`].
    pub build: String,
    pub load: &'a LoadModel<'a>,
    /// Returns all else that the vectors of an API model depend on, such as the server's address. Sends no request
    /// to the server.
    pub api: &'a dyn Fn(&ApiModel) -> Result<String, EvalError>,
    /// The same for the answers of a chat model.
    pub chat: &'a dyn Fn(&ChatModel) -> Result<String, EvalError>,
}

impl Program<'_> {
    /// The models of a method that are not files of it, by their names in the expression.
    pub(super) fn models(&self, method: &Method) -> Result<BTreeMap<String, String>, EvalError> {
        let mut models = BTreeMap::new();
        for leaf in method.leaves() {
            if let Method::Api(api) = leaf {
                models.insert(leaf.to_string(), (self.api)(api)?);
            } else if let Method::Chat(chat) = leaf {
                models.insert(leaf.to_string(), (self.chat)(chat)?);
            } else if leaf.uses_builtin_model() {
                let mut id = self.load.load(ModelName::Builtin)?.id().to_owned();
                if let Method::Best = leaf {
                    id += " + ";
                    id += self.load.load(ModelName::Reranker)?.id();
                }
                models.insert(leaf.to_string(), id);
            }
        }
        Ok(models)
    }
}

/// SHA-256 of the file that has the code of the running program.
///
/// # Errors
/// When it cannot be read.
pub fn running_build(code: &Path) -> Result<String, EvalError> {
    let read = digest(code).map_err(|source| EvalError::Input { path: code.to_owned(), source })?;
    Ok(read.1)
}

/// A file or directory that is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "InputFile")]
pub struct Input {
    /// Path as in the plan.
    pub path: PathBuf,
    /// Total size in bytes.
    pub bytes: u64,
    /// SHA-256 of a file's bytes; for a directory, of the lines `SHA-256  path` of its files, by path.
    pub sha256: String,
}

impl Identity {
    pub(super) fn name(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        sha256(text)[..32].to_owned()
    }
}

impl Input {
    /// Reads the file or directory at `path` relative to `directory`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(directory: &Path, path: &Path) -> Result<Self, EvalError> {
        let at = directory.join(path);
        let (bytes, sha256) = digest(&at).map_err(|source| EvalError::Input { path: at.clone(), source })?;
        Ok(Self { path: path.to_owned(), bytes, sha256 })
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    if !path.is_dir() {
        return sha256_of(File::open(path)?);
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    let (mut total, mut lines) = (0, String::new());
    for entry in entries {
        let (bytes, of_entry) = digest(&entry)?;
        total += bytes;
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        lines += &format!("{of_entry}  {name}\n");
    }
    Ok((total, sha256(lines)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_known_by_their_content() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a"), "abc").unwrap();
        fs::create_dir(directory.path().join("b")).unwrap();
        fs::write(directory.path().join("b/c"), "").unwrap();
        let read = |name: &str| Input::read(directory.path(), Path::new(name));
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(read("a").unwrap(), Input { path: "a".into(), bytes: 3, sha256: abc.into() });
        let before = read("b").unwrap();
        fs::write(directory.path().join("b/c"), "x").unwrap();
        assert_ne!(read("b").unwrap().sha256, before.sha256);
        let error = read("missing").unwrap_err().to_string();
        assert!(error.contains("missing: expected a file or directory"), "{error}");
    }
}
