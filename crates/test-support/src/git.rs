//! Git repositories, written object by object: tests need no `git`, and may write what it refuses to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A repository with one branch.
pub struct GitRepository {
    directory: PathBuf,
    work_tree: Option<PathBuf>,
    files: BTreeMap<String, Vec<u8>>,
    head: Option<String>,
    n_commits: u64,
}

impl GitRepository {
    /// A repository without a work tree in a directory, which is created.
    pub fn bare(directory: &Path) -> Self {
        Self::create(directory, None)
    }

    /// A repository in `.git` of a directory, where the files of its last commit are.
    pub fn with_work_tree(directory: &Path) -> Self {
        Self::create(&directory.join(".git"), Some(directory.to_owned()))
    }

    fn create(directory: &Path, work_tree: Option<PathBuf>) -> Self {
        for name in ["objects", "refs/heads"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        fs::write(directory.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let bare = work_tree.is_none();
        fs::write(
            directory.join("config"),
            format!("[core]\n\trepositoryformatversion = 0\n\tbare = {bare}\n"),
        )
        .unwrap();
        let directory = directory.to_owned();
        Self { directory, work_tree, files: BTreeMap::new(), head: None, n_commits: 0 }
    }

    /// Commits what files are from now on, those without content removed; returns the id.
    pub fn commit(&mut self, message: impl AsRef<[u8]>, files: &[(&str, Option<&str>)]) -> String {
        self.commit_by("Jane Doe", message, files, &[])
    }

    /// Commits as somebody, with further parents.
    pub fn commit_by(
        &mut self,
        author: &str,
        message: impl AsRef<[u8]>,
        files: &[(&str, Option<&str>)],
        parents: &[&str],
    ) -> String {
        for (path, content) in files {
            let on_disk = self.work_tree.as_ref().map(|tree| tree.join(path));
            match content {
                Some(content) => {
                    self.files.insert((*path).to_owned(), content.as_bytes().to_vec());
                    if let Some(path) = on_disk {
                        fs::create_dir_all(path.parent().unwrap()).unwrap();
                        fs::write(path, content).unwrap();
                    }
                }
                None => {
                    self.files.remove(*path);
                    on_disk.map_or(Ok(()), fs::remove_file).unwrap();
                }
            }
        }
        let tree = self.tree("");
        self.n_commits += 1;
        let who = format!("{author} <jane@example.org> {} +0000", 1_000_000 + self.n_commits);
        let parents = self.head.iter().map(String::as_str).chain(parents.iter().copied());
        let parents: String = parents.map(|parent| format!("parent {parent}\n")).collect();
        let head = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\n");
        let id = self.object("commit", &[head.as_bytes(), message.as_ref()].concat());
        fs::write(self.directory.join("refs/heads/main"), format!("{id}\n")).unwrap();
        self.head = Some(id.clone());
        id
    }

    /// Writes the tree of a directory, which is empty or ends with `/`.
    fn tree(&self, directory: &str) -> String {
        // Git sorts directories as if their names ended with `/`.
        let mut entries: BTreeMap<String, (String, &str, String)> = BTreeMap::new();
        for (path, content) in &self.files {
            let Some(rest) = path.strip_prefix(directory) else { continue };
            match rest.split_once('/') {
                None => {
                    let id = self.object("blob", content);
                    entries.insert(rest.to_owned(), (rest.to_owned(), "100644", id));
                }
                Some((name, _)) => {
                    entries.entry(format!("{name}/")).or_insert_with(|| {
                        (name.to_owned(), "40000", self.tree(&format!("{directory}{name}/")))
                    });
                }
            }
        }
        let mut bytes = Vec::new();
        for (name, mode, id) in entries.into_values() {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            bytes.extend((0..20).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()));
        }
        self.object("tree", &bytes)
    }

    /// Writes an object, and returns its id.
    pub fn object(&self, kind: &str, content: &[u8]) -> String {
        let bytes = [format!("{kind} {}\0", content.len()).as_bytes(), content].concat();
        let id: String = sha1(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.directory.join("objects").join(&id[..2]).join(&id[2..]);
        if !path.exists() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, zlib(&bytes)).unwrap();
        }
        id
    }
}

/// A stream of zlib whose blocks are not compressed.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(0xffff).peekable();
    if bytes.is_empty() {
        stream.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap();
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend_from_slice(&((high << 16) | low).to_be_bytes());
    stream
}

/// SHA-1 (FIPS 180-4), by which git names objects.
fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().unwrap());
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc_u32),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut hash = [0; 20];
    for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_ids_that_git_gives_them() {
        let directory = tempfile::tempdir().unwrap();
        let repository = GitRepository::bare(directory.path());
        assert_eq!(repository.object("blob", b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(repository.object("blob", b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(repository.object("tree", b""), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        for length in 54..66 {
            let id = repository.object("blob", &vec![b'a'; length]);
            assert_eq!(id.len(), 40);
        }
    }
}
