//! Files that a plan, which may come from somebody else, names.

use std::path::{Component, Path, PathBuf};

/// Path of a file that a plan in `directory` names. The plan's text shows where it leads, absolute paths and `..`
/// included; a link in its directory, which may have come with it from somebody else, cannot lead elsewhere.
///
/// # Errors
/// When a link leads out of `directory`, with where it leads.
pub fn member(directory: &Path, path: &Path) -> Result<PathBuf, String> {
    let here = if directory == Path::new("") { Path::new(".") } else { directory };
    let mut at = directory.to_owned();
    for part in path.components() {
        at.push(part);
        if !matches!(part, Component::Normal(_)) {
            // From here on the plan names what is outside of its directory.
            if part != Component::CurDir {
                return Ok(directory.join(path));
            }
        } else if at.is_symlink()
            && let (Ok(target), Ok(root)) = (at.canonicalize(), here.canonicalize())
            && !target.starts_with(root)
        {
            return Err(format!(
                "{} is a link to {}, outside the directory; name that file itself",
                at.display(),
                target.display()
            ));
        }
    }
    Ok(directory.join(path))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leads_out_of_the_directory_of_a_plan() {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("plan");
        fs::create_dir_all(directory.join("inner")).unwrap();
        fs::write(outer.path().join("secret"), "").unwrap();
        fs::write(directory.join("inner/file"), "").unwrap();
        symlink("../secret", directory.join("out")).unwrap();
        symlink("..", directory.join("up")).unwrap();
        symlink("../../secret", directory.join("inner/out")).unwrap();
        symlink("inner/file", directory.join("in")).unwrap();
        symlink("nowhere", directory.join("dangling")).unwrap();
        for path in ["out", "./out", "up/secret", "inner/out"] {
            let problem = member(&directory, Path::new(path)).unwrap_err();
            assert!(problem.contains("outside the directory"), "{path}: {problem}");
        }
        for path in ["in", "inner/file", "none", "dangling", "../secret", "/etc/hosts", "inner/../in"] {
            assert_eq!(member(&directory, Path::new(path)), Ok(directory.join(path)), "{path}");
        }
        assert_eq!(member(Path::new(""), Path::new("none")), Ok(PathBuf::from("none")));
    }
}
