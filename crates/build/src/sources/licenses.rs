//! The licenses of the files of a source.

use std::collections::BTreeMap;

use quarry_source::Language;
use serde::Serialize;

use crate::sources::license::{MAX_TEXT_BYTES, all_of, detect, header_licenses};

/// Maximum number of license files that are read, nearest to the root first.
const MAX_FILES: usize = 1000;

/// The license given by the plan, or those found in the files of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Licenses {
    of_plan: Option<String>,
    /// Licenses of directories by path; the root has the empty path.
    of_directories: BTreeMap<String, String>,
}

impl Licenses {
    /// The license given by a plan, or the licenses recognized in those of `paths` whose text `read` returns.
    pub(crate) fn new(
        of_plan: Option<&str>,
        mut paths: Vec<String>,
        read: &mut dyn FnMut(&str, u64) -> Option<Vec<u8>>,
    ) -> Self {
        if let Some(license) = of_plan {
            return Self { of_plan: Some(license.to_owned()), ..Self::default() };
        }
        paths.sort_by_key(|path| (path.matches('/').count(), path.clone()));
        let (mut found, mut known) = (BTreeMap::<String, Vec<String>>::new(), BTreeMap::new());
        for path in paths.into_iter().take(MAX_FILES) {
            let Some(bytes) = read(&path, MAX_TEXT_BYTES) else { continue };
            // The same text often occurs more than once.
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let license = known.entry(text).or_insert_with_key(|text| detect(text));
            if let Some(license) = license {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                found.entry(directory.to_owned()).or_default().push(license.clone());
            }
        }
        let of_directories = found.into_iter().filter_map(|(directory, licenses)| {
            Some((directory, all_of(licenses.iter().map(String::as_str))?))
        });
        Self { of_plan: None, of_directories: of_directories.collect() }
    }

    /// The license of a file: given by the plan, by the headers of the file itself, or by the nearest directory that
    /// contains it. If a header cannot be read, it is unknown.
    pub(crate) fn detect(&self, path: &str, language: Language, source: &[u8]) -> Option<String> {
        if self.of_plan.is_some() {
            return self.of_plan.clone();
        }
        let headers = header_licenses(language, source);
        if !headers.is_empty() {
            let licenses: Option<Vec<&str>> = headers.iter().map(Option::as_deref).collect();
            return licenses.and_then(all_of);
        }
        let mut directory = path;
        loop {
            directory = directory.rsplit_once('/').map_or("", |(above, _)| above);
            match self.of_directories.get(directory) {
                Some(license) => return Some(license.clone()),
                None if directory.is_empty() => return None,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_source::language_named;

    use super::*;

    #[test]
    fn the_nearest_license_applies() {
        let own = include_str!("../../../../LICENSE-APACHE");
        let zero = "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is \
            hereby granted.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS \
            SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE \
            FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, \
            DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN \
            CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.\n";
        let files =
            BTreeMap::from([("LICENSE", own), ("vendor/x/COPYING", zero), ("vendor/x/LICENSE.md", own)]);
        let paths: Vec<String> = files.keys().map(|path| (*path).to_owned()).collect();
        let mut read = |path: &str, _| files.get(path).map(|text| text.as_bytes().to_vec());
        let licenses = Licenses::new(None, paths.clone(), &mut read);
        let python = language_named("python").unwrap();
        let detect = |path: &str, text: &str| licenses.detect(path, python, text.as_bytes());
        assert_eq!(detect("src/a/b.py", "").as_deref(), Some("Apache-2.0"));
        assert_eq!(detect("vendor/x/y/b.py", "").as_deref(), Some("0BSD AND Apache-2.0"));
        assert_eq!(detect("vendor/b.py", "# SPDX-License-Identifier: ISC").as_deref(), Some("ISC"));
        let two = "# SPDX-License-Identifier: MIT\n# SPDX-License-Identifier: GPL-3.0-only";
        assert_eq!(detect("src/b.py", two).as_deref(), Some("GPL-3.0-only AND MIT"));
        assert_eq!(detect("src/b.py", "# SPDX-License-Identifier: my own\n"), None);
        let licenses = Licenses::new(Some("MIT"), paths, &mut read);
        assert_eq!(
            licenses.detect("vendor/x/b.py", python, b"# SPDX-License-Identifier: ISC").as_deref(),
            Some("MIT")
        );
        assert_eq!(Licenses::default().detect("a/b", python, b""), None);
    }
}
