//! Files that a plan names.

use std::path::{Component, Path, PathBuf};

/// Where a file is that a plan in `folder` names. What the plan says can be read in it, absolute paths and `..` included;
/// a link in its directory, which may have come with it from somebody else, cannot lead elsewhere.
///
/// # Errors
/// When a link leads out of `folder`, with where it leads.
pub(crate) fn member(folder: &Path, path: &Path) -> Result<PathBuf, String> {
    let here = if folder == Path::new("") { Path::new(".") } else { folder };
    let mut at = folder.to_owned();
    for part in path.components() {
        at.push(part);
        if !matches!(part, Component::Normal(_)) {
            // From here on the plan names what is outside of its directory.
            if part != Component::CurDir {
                return Ok(folder.join(path));
            }
        } else if at.is_symlink()
            && let (Ok(target), Ok(root)) = (at.canonicalize(), here.canonicalize())
            && !target.starts_with(root)
        {
            return Err(format!(
                "{} is a link that leads out of the directory, to {}; name that file itself",
                at.display(),
                target.display()
            ));
        }
    }
    Ok(folder.join(path))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leads_out_of_the_directory_of_a_plan() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("plan");
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(outer.path().join("secret"), "").unwrap();
        fs::write(folder.join("inner/file"), "").unwrap();
        symlink("../secret", folder.join("out")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        symlink("../../secret", folder.join("inner/out")).unwrap();
        symlink("inner/file", folder.join("in")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        for path in ["out", "./out", "up/secret", "inner/out"] {
            let problem = member(&folder, Path::new(path)).unwrap_err();
            assert!(problem.contains("leads out of the directory"), "{path}: {problem}");
        }
        for path in ["in", "inner/file", "none", "dangling", "../secret", "/etc/hosts", "inner/../in"] {
            assert_eq!(member(&folder, Path::new(path)), Ok(folder.join(path)), "{path}");
        }
        assert_eq!(member(Path::new(""), Path::new("none")), Ok(PathBuf::from("none")));
    }
}
