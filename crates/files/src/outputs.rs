//! Outputs whose paths a plan chooses, which may come from somebody else.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use crate::{Directory, Readers, sha256, sha256_of};

/// Name of the file that lists the outputs in a directory with their SHA-256 hashes, as `sha256sum` does.
pub const OUTPUTS: &str = ".quarry-outputs";

const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// The path of an output that a plan in `directory` names: below that directory, without hidden names and links.
///
/// # Errors
/// When the path leads elsewhere, with what to do.
pub fn output(directory: &Path, path: &Path) -> Result<PathBuf, String> {
    let mut at = directory.to_owned();
    for name in normal(path).map_err(|error| error.to_string())?.iter() {
        at.push(name);
        if at.is_symlink() {
            return Err(format!(
                "{} is a link, which a plan must not write through; remove it",
                at.display()
            ));
        }
    }
    Ok(at)
}

/// A path that a plan names, without `.`.
fn normal(path: &Path) -> io::Result<PathBuf> {
    let refused = |problem: &str| Err(io::Error::other(format!("{}: {problem}", path.display())));
    let mut names = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) if name.to_string_lossy().starts_with('.') => {
                return refused("expected an output whose name does not begin with a dot");
            }
            Component::Normal(name) if name.to_string_lossy().chars().any(char::is_control) => {
                return refused("expected an output without control characters in its name");
            }
            Component::Normal(name) => names.push(name),
            _ => {
                return refused(
                    "expected an output below the directory of the plan; name a relative path without `..`",
                );
            }
        }
    }
    if names.as_os_str().is_empty() { refused("expected the name of an output") } else { Ok(names) }
}

/// The outputs of plans in a directory. They replace only earlier outputs that have not been changed since, as the
/// manifest [`OUTPUTS`] in the directory shows.
#[derive(Debug)]
pub struct Outputs {
    directory: Directory,
    /// Hashes of the last output at each path, and of the one before, which remains if writing is interrupted.
    known: BTreeMap<String, Vec<String>>,
}

impl Outputs {
    /// Opens a directory that exists. Lines of its manifest that are malformed are ignored.
    ///
    /// # Errors
    /// When the directory or its manifest cannot be read.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let here = if directory == Path::new("") { Path::new(".") } else { directory };
        let directory = Directory::open(here)?;
        let manifest = match directory.read(Path::new(OUTPUTS), MAX_MANIFEST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (hash, path) in
            String::from_utf8_lossy(&manifest).lines().filter_map(|line| line.split_once("  "))
        {
            known.entry(path.to_owned()).or_default().push(hash.to_owned());
        }
        Ok(Self { directory, known })
    }

    /// Checks that an output can be written, before the work for it.
    ///
    /// # Errors
    /// As for [`write`](Self::write), except when there is no space.
    pub fn check(&self, path: &Path) -> io::Result<()> {
        self.replaced(&normal(path)?).map(drop)
    }

    /// Writes an output whole, at a path relative to the directory.
    ///
    /// # Errors
    /// When the path leads out of the directory, through a link, or to a file that is not an unchanged output of Quarry,
    /// and when the file cannot be written.
    pub fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let path = normal(path)?;
        let replaced = self.replaced(&path)?;
        let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
        let parent = self.directory.directory_or_new_for(parent, Readers::Umask)?;
        let hashes = replaced.into_iter().chain([sha256(content)]).collect();
        self.known.insert(key(&path), hashes);
        let lines = self
            .known
            .iter()
            .flat_map(|(path, hashes)| hashes.iter().map(move |hash| format!("{hash}  {path}\n")));
        replace(&self.directory, OUTPUTS, lines.collect::<String>().as_bytes())?;
        replace(&parent, &name.to_string_lossy(), content)
    }

    /// The hash of the output that is at a path.
    fn replaced(&self, path: &Path) -> io::Result<Option<String>> {
        let file = match self.directory.file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let (_, hash) = sha256_of(file)?;
        if self.known.get(&key(path)).is_some_and(|known| known.contains(&hash)) {
            return Ok(Some(hash));
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "expected no file there, or an output of Quarry that was not changed since; move the file, or name another \
             output",
        ))
    }
}

fn key(path: &Path) -> String {
    path.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn replace(directory: &Directory, name: &str, content: &[u8]) -> io::Result<()> {
    let aside = format!(".partial-{}", std::process::id());
    // Left by an earlier process with the same id.
    let _ = directory.remove_file(Path::new(&aside));
    directory.replace(name, &aside, Readers::Umask, |file| file.write_all(content))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refused(outputs: &mut Outputs, path: &str) -> String {
        let before = outputs.check(Path::new(path)).unwrap_err().to_string();
        assert_eq!(outputs.write(Path::new(path), b"x").unwrap_err().to_string(), before);
        before
    }

    #[test]
    fn only_unchanged_outputs_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        fs::write(at("notes.md"), "mine").unwrap();
        let mut outputs = Outputs::open(directory.path()).unwrap();
        outputs.write(Path::new("./new/page.md"), b"one").unwrap();
        // Another process knows it from the manifest.
        let mut outputs = Outputs::open(directory.path()).unwrap();
        outputs.write(Path::new("new/page.md"), b"two").unwrap();
        assert_eq!(read("new/page.md"), "two");
        // Interrupted after the manifest was written.
        fs::write(at("new/page.md"), "one").unwrap();
        Outputs::open(directory.path()).unwrap().check(Path::new("new/page.md")).unwrap();
        fs::write(at("new/page.md"), "edited").unwrap();
        for path in ["new/page.md", "notes.md"] {
            assert!(refused(&mut outputs, path).contains("not changed since"), "{path}");
        }
        assert_eq!((read("new/page.md"), read("notes.md")), ("edited".to_owned(), "mine".to_owned()));
        assert!(fs::read_dir(directory.path()).unwrap().count() == 3);
    }

    #[test]
    fn no_output_leaves_the_directory_or_is_hidden() {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("plan");
        fs::create_dir(&directory).unwrap();
        let absolute = outer.path().join("absolute");
        let mut outputs = Outputs::open(&directory).unwrap();
        for (path, words) in [
            (absolute.to_str().unwrap(), "below the directory"),
            ("../out", "below the directory"),
            ("a/../../out", "below the directory"),
            (OUTPUTS, "begin with a dot"),
            (".git/config", "begin with a dot"),
            ("a/.profile", "begin with a dot"),
            ("a\nb", "control characters"),
            (".", "the name of an output"),
        ] {
            assert!(refused(&mut outputs, path).contains(words), "{path}");
            assert!(output(&directory, Path::new(path)).unwrap_err().contains(words), "{path}");
        }
        assert_eq!(output(&directory, Path::new("./a/b")), Ok(directory.join("a/b")));
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("plan");
        fs::create_dir(&directory).unwrap();
        fs::write(outer.path().join("secret"), "mine").unwrap();
        for (target, link) in [("../secret", "page.md"), ("..", "up"), ("../none", "dangling")] {
            std::os::unix::fs::symlink(target, directory.join(link)).unwrap();
        }
        let mut outputs = Outputs::open(&directory).unwrap();
        for path in ["page.md", "up/secret", "up/new", "dangling"] {
            refused(&mut outputs, path);
            assert!(output(&directory, Path::new(path)).unwrap_err().contains("is a link"), "{path}");
        }
        assert_eq!(fs::read_to_string(outer.path().join("secret")).unwrap(), "mine");
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2);
    }
}
