//! Licenses: recognizing their texts, and whether they permit sharing.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use spdx::detection::scan::Scanner;
use spdx::detection::{Store, TextData};
use spdx::{Expression, ParseMode, license_id};

/// The name for all licenses that allow sharing, modifying and training on code without applying their terms to the
/// result.
pub(crate) const PERMISSIVE: &str = "permissive";

/// Licenses that require at most to keep the notice.
const PERMISSIVE_LICENSES: [&str; 33] = [
    "0BSD",
    "AFL-3.0",
    "Apache-1.1",
    "Apache-2.0",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-2-Clause-Patent",
    "BSD-3-Clause",
    "BSD-3-Clause-Clear",
    "BSL-1.0",
    "Beerware",
    "BlueOak-1.0.0",
    "CC-BY-3.0",
    "CC-BY-4.0",
    "CC0-1.0",
    "ECL-2.0",
    "HPND",
    "ISC",
    "MIT",
    "MIT-0",
    "MulanPSL-2.0",
    "NCSA",
    "PSF-2.0",
    "PostgreSQL",
    "Python-2.0",
    "Python-2.0.1",
    "UPL-1.0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "WTFPL",
    "X11",
    "Zlib",
];

/// Maximum number of bytes examined of a license text, and of the head of a file.
pub(crate) const MAX_TEXT_BYTES: u64 = 256 << 10;
const HEAD_BYTES: usize = 4096;

/// Minimum similarity of a text to a known license.
const THRESHOLD: f32 = 0.9;

/// Maximum number of licenses recognized in one text.
const MAX_LICENSES: u16 = 5;

static TEXTS: LazyLock<Store> = LazyLock::new(|| Store::load_inline().unwrap_or_default());

/// The licenses whose texts are in a file, as an SPDX expression joined by AND. `None` if none is recognized.
pub(crate) fn detect(text: &str) -> Option<String> {
    let scanner =
        Scanner::new(&TEXTS).confidence_threshold(THRESHOLD).optimize(true).max_passes(MAX_LICENSES);
    let found = scanner.scan(&TextData::new(text));
    let contained = found.containing.iter().map(|contained| contained.license.name);
    let names: BTreeSet<&str> =
        found.license.map(|license| license.name).into_iter().chain(contained).collect();
    all_of(names)
}

/// The SPDX expression that joins licenses by AND.
pub(crate) fn all_of<'l>(licenses: impl IntoIterator<Item = &'l str>) -> Option<String> {
    let licenses: BTreeSet<&str> = licenses.into_iter().collect();
    let is_alone = licenses.len() == 1;
    let terms: Vec<String> = licenses
        .into_iter()
        .map(
            |license| {
                if license.contains(' ') && !is_alone { format!("({license})") } else { license.to_owned() }
            },
        )
        .collect();
    (!terms.is_empty()).then(|| terms.join(" AND "))
}

/// The license in the first lines of a file, such as `SPDX-License-Identifier: MIT`.
pub(crate) fn of_head(source: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&source[..source.len().min(HEAD_BYTES)]);
    let (_, rest) = head.split_once("SPDX-License-Identifier:")?;
    let line = rest.lines().next()?.trim();
    let expression = line.trim_end_matches(|c: char| "*/->#;\"'".contains(c)).trim();
    Expression::parse_mode(expression, ParseMode::LAX).ok().map(|_| expression.to_owned())
}

/// Whether a file contains a license, by its name.
pub(crate) fn is_license_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let stem = name.split(['.', '-', '_']).next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_text =
        matches!(ending, "" | "txt" | "md" | "rst" | "markdown" | "adoc" | "lesser" | "mit" | "apache");
    is_text && matches!(stem, "license" | "licence" | "copying" | "unlicense")
}

/// Checks a text that should be an SPDX expression.
///
/// # Errors
/// The error of the parser.
pub(crate) fn check_expression(expression: &str) -> Result<(), String> {
    Expression::parse(expression).map(drop).map_err(|error| error.reason.to_string())
}

/// Whether a plan can use this name for a license or a group of licenses.
pub(crate) fn is_known(name: &str) -> bool {
    name == PERMISSIVE || license_id(name).is_some()
}

/// Whether code under an SPDX expression may be used if only some licenses are allowed. An unknown license is not
/// allowed.
pub(crate) fn is_allowed(expression: Option<&str>, allowed: &[String]) -> bool {
    let Some(expression) = expression.and_then(|text| Expression::parse_mode(text, ParseMode::LAX).ok())
    else {
        return false;
    };
    expression.evaluate(|required| {
        let Some(id) = required.license.id() else { return false };
        allowed
            .iter()
            .any(|name| name == id.name || name == PERMISSIVE && PERMISSIVE_LICENSES.contains(&id.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIT: &str = "MIT License\n\nCopyright (c) 2024 Somebody\n\nPermission is hereby granted, free of charge, to any \
        person obtaining a copy of this software and associated documentation files (the \"Software\"), to deal in the \
        Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, \
        distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished \
        to do so, subject to the following conditions:\n\nThe above copyright notice and this permission notice shall be \
        included in all copies or substantial portions of the Software.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT \
        WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS \
        FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY \
        CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN \
        CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.\n";

    #[test]
    fn texts_and_heads_of_files_name_licenses() {
        assert_eq!(detect(MIT).as_deref(), Some("MIT"));
        assert_eq!(detect("All rights reserved."), None);
        let own = include_str!("../../../LICENSE-APACHE");
        assert_eq!(detect(own).as_deref(), Some("Apache-2.0"));
        assert_eq!(
            of_head(b"# SPDX-License-Identifier: MIT OR Apache-2.0\n").as_deref(),
            Some("MIT OR Apache-2.0")
        );
        assert_eq!(of_head(b"/* SPDX-License-Identifier: GPL-2.0-only */").as_deref(), Some("GPL-2.0-only"));
        assert_eq!(of_head(b"// SPDX-License-Identifier: whatever this is\n"), None);
        assert_eq!(
            all_of(["MIT", "Apache-2.0 OR ISC", "MIT"]).as_deref(),
            Some("(Apache-2.0 OR ISC) AND MIT")
        );
    }

    #[test]
    fn only_what_is_allowed_is() {
        let permissive = [PERMISSIVE.to_owned()];
        for (license, expected) in [
            (Some("MIT"), true),
            (Some("MIT AND Apache-2.0"), true),
            (Some("GPL-3.0-only OR ISC"), true),
            (Some("MIT AND GPL-2.0-or-later"), false),
            (Some("Apache-2.0 WITH LLVM-exception"), true),
            (Some("CC-BY-SA-4.0"), false),
            (Some("LicenseRef-own"), false),
            (Some("no license at all"), false),
            (None, false),
        ] {
            assert_eq!(is_allowed(license, &permissive), expected, "{license:?}");
        }
        assert!(is_allowed(Some("MPL-2.0"), &["MPL-2.0".to_owned()]));
        assert!(PERMISSIVE_LICENSES.iter().all(|name| license_id(name).is_some()));
        assert!(is_known("permissive") && is_known("MIT") && !is_known("free"));
    }

    #[test]
    fn files_of_licenses_are_known_by_their_names() {
        for path in ["LICENSE", "a/LICENSE-MIT", "COPYING.txt", "Licence.md", "UNLICENSE", "COPYING.LESSER"] {
            assert!(is_license_file(path), "{path}");
        }
        for path in ["license.py", "src/licenses/mod.rs", "README.md"] {
            assert!(!is_license_file(path), "{path}");
        }
    }
}
