//! Licenses: recognizing their texts, and whether they permit sharing.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use quarry_corpus::dataset::compared::comments;
use quarry_source::Language;
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

/// Maximum number of bytes examined of a license text.
pub(crate) const MAX_TEXT_BYTES: u64 = 256 << 10;

/// Prefix of the license of a file in its comments, as in `SPDX-License-Identifier: MIT`.
const HEADER: &str = "SPDX-License-Identifier:";

/// Ends of a comment, and with it of the line of a header.
const COMMENT_ENDS: [&str; 7] = ["*/", "-->", "*)", "-}", "#>", "=#", "]]"];

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

/// The licenses that headers in the comments of a file name, all of which apply; `None` for one that cannot be read.
pub(crate) fn header_licenses(language: Language, source: &[u8]) -> Vec<Option<String>> {
    let text = String::from_utf8_lossy(source);
    if !text.contains(HEADER) {
        return Vec::new();
    }
    match comments(language, source) {
        Some(comments) => {
            let texts = comments.into_iter().map(|range| String::from_utf8_lossy(&source[range]));
            texts.flat_map(|text| headers(&text, true)).collect()
        }
        None => headers(&text, false),
    }
}

/// The licenses of the headers in a comment, or in a text whose comments are not known.
fn headers(text: &str, is_comment: bool) -> Vec<Option<String>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.split(HEADER);
        let begins = parts.next().is_some_and(|before| !before.contains(char::is_alphanumeric));
        for part in parts {
            let end = COMMENT_ENDS.iter().filter_map(|end| part.find(end)).min().unwrap_or(part.len());
            let expression =
                part[..end].trim_end_matches(|c: char| "*/->#;\"'".contains(c) || c.is_whitespace());
            let expression = expression.trim_start();
            let license =
                Expression::parse_mode(expression, ParseMode::LAX).ok().map(|_| expression.to_owned());
            // Within a sentence, it is a header only if a license follows.
            if begins || is_comment && license.is_some() {
                found.push(license);
            }
        }
    }
    found
}

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

/// Returns whether a plan can use this name for a license or a group of licenses.
pub(crate) fn is_known(name: &str) -> bool {
    name == PERMISSIVE || license_id(name).is_some()
}

/// Returns whether code under an SPDX expression may be used if only some licenses are allowed. An unknown license is
/// not allowed.
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
    use quarry_source::language_named;

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
        let own = include_str!("../../../../LICENSE-APACHE");
        assert_eq!(detect(own).as_deref(), Some("Apache-2.0"));
        assert_eq!(
            all_of(["MIT", "Apache-2.0 OR ISC", "MIT"]).as_deref(),
            Some("(Apache-2.0 OR ISC) AND MIT")
        );
    }

    #[test]
    fn all_headers_in_comments_name_licenses() {
        let licenses = |language: &str, text: &str| {
            let headers = header_licenses(language_named(language).unwrap(), text.as_bytes());
            headers.into_iter().map(|license| license.unwrap_or_else(|| "?".to_owned())).collect::<Vec<_>>()
        };
        let id = HEADER;
        assert_eq!(licenses("python", &format!("# {id} MIT OR Apache-2.0\n")), ["MIT OR Apache-2.0"]);
        assert_eq!(licenses("c", &format!("/* {id} GPL-2.0-only */\nint x;")), ["GPL-2.0-only"]);
        assert_eq!(licenses("html", &format!("<!-- {id} MIT -->\n")), ["MIT"]);
        let boxed = format!("/*****\n * {id} MIT      *\n * {id} (ISC OR 0BSD)  *\n *****/\nint x;");
        assert_eq!(licenses("c", &boxed), ["MIT", "(ISC OR 0BSD)"]);
        // All of them apply, wherever they are.
        let far = "x = 1\n".repeat(2000);
        let two = format!("# {id} MIT\n{far}def f():\n    return 1  # {id} GPL-3.0-only\n");
        assert_eq!(licenses("python", &two), ["MIT", "GPL-3.0-only"]);
        assert_eq!(licenses("rust", &format!("// {id} MIT {id} GPL-3.0-only\n")), ["MIT", "GPL-3.0-only"]);
        assert_eq!(licenses("go", &format!("package a\n// Licensed so: {id} MIT\n")), ["MIT"]);
        // One that cannot be read is not as if there were none.
        assert_eq!(licenses("python", &format!("# {id} whatever this is\n")), ["?"]);
        assert_eq!(licenses("python", &format!("# {id}\n")), ["?"]);
        assert_eq!(licenses("python", &format!("# The line `{id} LICENSE` is written.\nx = 1\n")), [""; 0]);
        // Code and strings are not comments.
        for text in [
            format!("x = \"# {id} MIT\"\n"),
            format!("x = '''\n# {id} MIT\n'''\n"),
            format!("def f():\n    \"\"\"\n    {id} MIT\n    \"\"\"\n"),
        ] {
            assert_eq!(licenses("python", &text), [""; 0], "{text}");
        }
        // Without a syntax tree, lines that begin with one.
        assert_eq!(licenses("markdown", &format!("# {id} MIT\nx = \"{id} ISC\"\n")), ["MIT"]);
        assert_eq!(licenses("python", "# SPDX\n"), [""; 0]);
    }

    #[test]
    fn only_allowed_licenses_pass() {
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
