//! Files as clients call them: by URIs.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use lsp_types::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use url::Url;

/// Characters that are escaped in a part of a path: all but the unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The file that a `file:` URI names: an absolute path, whose links are resolved as far as it exists.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let path = spelled_path_of(uri)?;
    if let Ok(path) = path.canonicalize() {
        return Some(path);
    }
    // A file that is not there yet is in a directory that may be.
    let directory = path.parent()?.canonicalize().ok();
    Some(
        directory
            .zip(path.file_name())
            .map_or_else(|| path.clone(), |(directory, name)| directory.join(name)),
    )
}

/// The same path as the client spells it.
pub(crate) fn spelled_path_of(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
    url.to_file_path().ok().filter(|path| path.is_absolute())
}

pub(crate) fn uri_of(path: &Path) -> Option<Uri> {
    let mut uri = "file://".to_owned();
    for part in path.components() {
        let part = match part {
            Component::Normal(part) => part.as_encoded_bytes(),
            Component::Prefix(drive) => drive.as_os_str().as_encoded_bytes(),
            _ => continue,
        };
        uri.push('/');
        uri.extend(percent_encode(part, RESERVED));
    }
    if uri == "file://" {
        uri.push('/');
    }
    Uri::from_str(&uri).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn any_path_has_a_uri_that_leads_back_to_it() {
        for path in ["/", "/a/b.rs", "/pages/[id].tsx", "/a b/ä#1?.py", "/100%/{x}|^.c"] {
            let uri = uri_of(Path::new(path)).unwrap();
            assert_eq!(spelled_path_of(uri.as_str()).as_deref(), Some(Path::new(path)), "{}", uri.as_str());
        }
        assert_eq!(spelled_path_of("file:///pages/[id].tsx"), Some(PathBuf::from("/pages/[id].tsx")));
        for uri in ["", "a", "untitled:a", "http://a/b", "file://elsewhere.example/a", "\0"] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}
