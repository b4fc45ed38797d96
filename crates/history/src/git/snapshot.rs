//! The files of a commit, read from the objects of a repository without a checkout.

use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository};

use super::{GitError, OpenedRepository, failed};

/// Maximum number of directory entries visited. A few hundred objects can form trees with an astronomical number of
/// paths.
const MAX_ENTRIES: usize = 5_000_000;

/// Maximum nesting of directories.
const MAX_DEPTH: usize = 256;

pub struct Snapshot {
    repository: Repository,
    commit: Oid,
    /// When it was committed, in seconds since 1970.
    seconds: i64,
    /// Path and object of each file, ascending by path.
    files: Vec<(String, Oid)>,
    /// Number of symbolic links and submodules.
    n_links: usize,
    /// Number of files whose paths are not UTF-8.
    n_not_utf8: usize,
}

impl Snapshot {
    /// Lists the files of a commit given by any name that git accepts, `HEAD` by default: those of the whole
    /// repository, which may be bare, or of the directory in it that `path` names.
    ///
    /// # Errors
    /// When there is no repository or no such commit, or some of its objects are missing.
    pub fn open(path: &Path, revision: Option<&str>) -> Result<Self, GitError> {
        let OpenedRepository { repository, prefix } = OpenedRepository::new(path)?;
        let revision = revision.unwrap_or("HEAD");
        let object_missing = |commit: Oid| {
            move |source: git2::Error| match source.code() {
                ErrorCode::NotFound => {
                    GitError::IncompleteCommit { path: path.to_owned(), commit: commit.to_string() }
                }
                _ => failed(path, source),
            }
        };
        let (commit, seconds, tree) = {
            let missing = |_| GitError::NoCommit { path: path.to_owned(), revision: revision.to_owned() };
            let object = repository.revparse_single(revision).map_err(missing)?;
            let commit = object.peel_to_commit().map_err(missing)?;
            let root = commit.tree().map_err(object_missing(commit.id()))?;
            let tree = match prefix.is_empty() {
                true => root.id(),
                false => root.get_path(Path::new(&prefix)).map_err(|source| failed(path, source))?.id(),
            };
            (commit.id(), commit.time().seconds(), tree)
        };
        let mut snapshot = Self { repository, commit, seconds, files: Vec::new(), n_links: 0, n_not_utf8: 0 };
        snapshot.list(path, tree, &object_missing(commit))?;
        Ok(snapshot)
    }

    fn list(
        &mut self,
        path: &Path,
        root: Oid,
        failed: &dyn Fn(git2::Error) -> GitError,
    ) -> Result<(), GitError> {
        let odd = |problem: String| GitError::IrregularEntry { path: path.to_owned(), problem };
        let (mut open, mut n_entries) = (vec![(String::new(), root, 0)], 0);
        while let Some((prefix, id, depth)) = open.pop() {
            let tree = self.repository.find_tree(id).map_err(failed)?;
            for entry in &tree {
                n_entries += 1;
                if n_entries > MAX_ENTRIES {
                    return Err(odd(format!("the commit has more than {MAX_ENTRIES} files")));
                }
                let Ok(name) = std::str::from_utf8(entry.name_bytes()) else {
                    self.n_not_utf8 += 1;
                    continue;
                };
                let path = format!("{prefix}{name}");
                match (entry.kind(), entry.filemode()) {
                    (Some(ObjectType::Tree), _) if depth < MAX_DEPTH => {
                        open.push((format!("{path}/"), entry.id(), depth + 1));
                    }
                    (Some(ObjectType::Tree), _) => {
                        return Err(odd(format!("directories are nested more than {MAX_DEPTH} deep")));
                    }
                    (Some(ObjectType::Blob), 0o100_644 | 0o100_755 | 0o100_664) => {
                        self.files.push((path, entry.id()));
                    }
                    _ => self.n_links += 1,
                }
            }
        }
        self.files.sort_unstable();
        Ok(())
    }

    /// The id of the commit, in hexadecimal.
    pub fn commit(&self) -> String {
        self.commit.to_string()
    }

    /// When it was committed, in seconds since 1970.
    pub fn seconds(&self) -> i64 {
        self.seconds
    }

    /// The files, ascending by path: path, and id of the content in hexadecimal.
    pub fn files(&self) -> impl Iterator<Item = (&str, String)> {
        self.files.iter().map(|(path, id)| (path.as_str(), id.to_string()))
    }

    /// Paths of the files, `/` between their parts, ascending.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(path, _)| path.as_str())
    }

    /// Number of omitted symbolic links and submodules.
    pub fn n_links(&self) -> usize {
        self.n_links
    }

    /// Number of omitted files with paths that are not UTF-8.
    pub fn n_not_utf8(&self) -> usize {
        self.n_not_utf8
    }

    /// The size in bytes of the file at an index of [`Self::paths`]; `None` if its object is missing (a partial clone) or
    /// damaged.
    pub fn size(&self, number: usize) -> Option<u64> {
        let (_, id) = self.files.get(number)?;
        let (length, kind) = self.repository.odb().ok()?.read_header(*id).ok()?;
        (kind == ObjectType::Blob).then_some(length as u64)
    }

    /// The content of the file at an index of [`Self::paths`]; `None` if it is longer than `limit` bytes, or its
    /// object is missing (a partial clone) or damaged.
    pub fn content(&self, number: usize, limit: u64) -> Option<Vec<u8>> {
        self.size(number).filter(|size| *size <= limit)?;
        let (_, id) = self.files.get(number)?;
        Some(self.repository.odb().ok()?.read(*id).ok()?.data().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use git2::{RepositoryInitOptions, Signature, Time};

    use super::*;

    /// A repository, bare or not, with a commit for each list of paths and contents; a path that ends in `@` is a link.
    fn repository(bare: bool, commits: &[&[(&str, &str)]]) -> (tempfile::TempDir, Vec<Oid>) {
        let directory = tempfile::tempdir().unwrap();
        let mut options = RepositoryInitOptions::new();
        options.external_template(false).bare(bare);
        let repository = Repository::init_opts(directory.path(), &options).unwrap();
        let who = Signature::new("A B", "a@b", &Time::new(1_000, 0)).unwrap();
        let mut ids: Vec<Oid> = Vec::new();
        for files in commits {
            let mut index = git2::Index::new().unwrap();
            for (path, content) in *files {
                let mode = if path.ends_with('@') { 0o120_000 } else { 0o100_644 };
                let entry = git2::IndexEntry {
                    ctime: git2::IndexTime::new(0, 0),
                    mtime: git2::IndexTime::new(0, 0),
                    dev: 0,
                    ino: 0,
                    mode,
                    uid: 0,
                    gid: 0,
                    file_size: 0,
                    id: repository.blob(content.as_bytes()).unwrap(),
                    flags: 0,
                    flags_extended: 0,
                    path: path.as_bytes().to_vec(),
                };
                index.add(&entry).unwrap();
            }
            let tree = repository.find_tree(index.write_tree_to(&repository).unwrap()).unwrap();
            let parents: Vec<git2::Commit<'_>> =
                ids.last().map(|id| repository.find_commit(*id).unwrap()).into_iter().collect();
            let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
            ids.push(repository.commit(Some("HEAD"), &who, &who, "x", &tree, &parents).unwrap());
        }
        (directory, ids)
    }

    #[test]
    fn the_files_of_a_commit_are_read_without_a_checkout() {
        for bare in [false, true] {
            let commits: [&[(&str, &str)]; 2] = [
                &[("b.py", "old"), ("a/c.py", "c"), ("link@", "/etc/passwd")],
                &[("b.py", "new"), ("a.py", "a"), ("a/c.py", "c"), ("link@", "/etc/passwd")],
            ];
            let (directory, ids) = repository(bare, &commits);
            let now = Snapshot::open(directory.path(), None).unwrap();
            assert_eq!(now.commit(), ids[1].to_string());
            assert_eq!(now.paths().collect::<Vec<_>>(), ["a.py", "a/c.py", "b.py"]);
            assert_eq!((now.n_links(), now.seconds()), (1, 1_000));
            let blobs: Vec<String> = now.files().map(|(_, id)| id).collect();
            assert_eq!(blobs[0], Oid::hash_object(ObjectType::Blob, b"a").unwrap().to_string());
            assert_eq!(now.content(2, 3), Some(b"new".to_vec()));
            assert_eq!(now.content(2, 2), None);
            let name = ids[0].to_string();
            let before = Snapshot::open(directory.path(), Some(&name[..10])).unwrap();
            assert_eq!(before.paths().collect::<Vec<_>>(), ["a/c.py", "b.py"]);
            assert_eq!(before.content(1, 9), Some(b"old".to_vec()));
            let missing = Snapshot::open(directory.path(), Some("v9")).err().unwrap().to_string();
            assert!(missing.contains("the commit v9 is missing"), "{missing}");
        }
    }

    #[test]
    fn a_repository_without_configuration_is_bare_where_it_is_not_called_git() {
        let (directory, ids) = repository(true, &[&[("b.py", "b")]]);
        let bare = tempfile::tempdir().unwrap();
        let path = bare.path().join("mirror");
        fs::rename(directory.path(), &path).unwrap();
        fs::remove_file(path.join("config")).unwrap();
        let snapshot = Snapshot::open(&path, None).unwrap();
        assert_eq!((snapshot.commit(), snapshot.paths().count()), (ids[0].to_string(), 1));
        assert_eq!(crate::start_of_history(&path, None).unwrap().commit, ids[0].to_string());
        fs::create_dir(directory.path()).unwrap();
    }

    #[test]
    fn a_directory_of_a_repository_is_read_alone() {
        let (directory, _) = repository(false, &[&[("a/c.py", "c"), ("b.py", "b")]]);
        fs::create_dir(directory.path().join("a")).unwrap();
        let snapshot = Snapshot::open(&directory.path().join("a"), None).unwrap();
        assert_eq!(snapshot.paths().collect::<Vec<_>>(), ["c.py"]);
    }

    #[test]
    fn a_commit_without_its_directories_is_named() {
        let (directory, ids) = repository(true, &[&[("a/b.py", "b")]]);
        let snapshot = Snapshot::open(directory.path(), None).unwrap();
        assert_eq!((snapshot.size(0), snapshot.size(1)), (Some(1), None));
        let tree = snapshot.repository.find_commit(ids[0]).unwrap().tree().unwrap();
        for id in [tree.get_name("a").unwrap().id(), tree.id()].map(|id| id.to_string()) {
            fs::remove_file(directory.path().join("objects").join(&id[..2]).join(&id[2..])).unwrap();
            let missing = Snapshot::open(directory.path(), None).err().unwrap();
            assert!(matches!(missing, GitError::IncompleteCommit { .. }), "{missing}");
        }
    }

    #[test]
    fn trees_that_multiply_are_refused() {
        let (directory, _) = repository(true, &[&[("a", "a")]]);
        let repository = Repository::open(directory.path()).unwrap();
        let mut tree = repository.head().unwrap().peel_to_tree().unwrap().id();
        for _ in 0..8 {
            let mut builder = repository.treebuilder(None).unwrap();
            for number in 0..10 {
                builder.insert(format!("d{number}"), tree, 0o040_000).unwrap();
            }
            tree = builder.write().unwrap();
        }
        let who = Signature::new("A B", "a@b", &Time::new(1_000, 0)).unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let id = repository.commit(None, &who, &who, "x", &tree, &[]).unwrap();
        let refused = Snapshot::open(directory.path(), Some(&id.to_string())).err().unwrap().to_string();
        assert!(refused.contains("more than 5000000 files"), "{refused}");
    }

    #[test]
    fn directories_without_a_repository_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(Snapshot::open(directory.path(), None), Err(GitError::NoRepository(_))));
    }
}
