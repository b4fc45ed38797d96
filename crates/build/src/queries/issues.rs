//! Exports of issues: the output of `gh issue list --json`, or of the APIs of GitHub and GitLab, as one JSON array,
//! as several arrays in sequence or in an outer array (pages), or as JSON lines. Files are untrusted: they are read
//! one issue at a time, and only the required fields are kept.

use std::fmt;
use std::io::BufReader;
use std::path::Path;

use quarry_files::open_regular;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::BuildError;

/// Maximum size of an export, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Maximum length of a quotation from the file in an error, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// Maximum size of a title, in bytes; longer ones are not titles.
const MAX_TITLE_BYTES: usize = 4096;

/// Maximum size of a body, in bytes; the rest is cut off.
const MAX_BODY_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issue {
    /// Number in its repository.
    pub(crate) number: u64,
    /// Invalid bytes are replaced with U+FFFD.
    pub(crate) title: String,
    /// Its text below the title; may be empty.
    pub(crate) body: String,
    /// Name of the account that opened it; empty if unknown.
    pub(crate) author: String,
    pub(crate) address: Option<String>,
    /// True if it is a pull request, which GitHub's API lists among issues.
    pub(crate) is_pull_request: bool,
}

impl Issue {
    /// The address of the repository: the issue's address without the number.
    pub(crate) fn repository(&self) -> Option<&str> {
        Some(self.address.as_deref()?.rsplit_once('/')?.0)
    }
}

/// An entry of an export. Unknown and unused fields are skipped.
#[derive(Deserialize)]
struct Entry {
    /// GitLab calls it `iid`, and uses `id` for a number that is unique among all projects.
    #[serde(alias = "iid")]
    number: u64,
    title: Text,
    /// GitLab calls it `description`.
    #[serde(default, alias = "description")]
    body: Option<Text>,
    #[serde(default, alias = "author")]
    user: Option<Account>,
    /// The address of the page; `url` is that of the API.
    #[serde(default, alias = "web_url")]
    html_url: Option<Text>,
    url: Option<Text>,
    pull_request: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default, alias = "username")]
    login: Option<Text>,
    #[serde(default, rename = "type")]
    kind: Option<Text>,
    is_bot: Option<bool>,
}

/// A text that may contain invalid Unicode.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Text;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

impl From<Entry> for Issue {
    fn from(entry: Entry) -> Self {
        let Entry { number, title: Text(mut title), body, user, html_url, url, pull_request } = entry;
        title.truncate(title.floor_char_boundary(MAX_TITLE_BYTES));
        let mut body = body.map_or_else(String::new, |Text(body)| body);
        body.truncate(body.floor_char_boundary(MAX_BODY_BYTES));
        let author = user.map_or_else(String::new, |Account { login, kind, is_bot }| {
            let is_bot = is_bot == Some(true) || kind.is_some_and(|Text(kind)| kind == "Bot");
            let login = login.map_or_else(String::new, |Text(login)| login);
            if is_bot && !login.contains("[bot]") { login + "[bot]" } else { login }
        });
        let address = html_url.or(url).map(|Text(address)| address);
        Self { number, title, body, author, address, is_pull_request: pull_request.is_some() }
    }
}

type TakeIssue<'t> = dyn FnMut(Issue) -> Result<(), BuildError> + 't;

/// Reads an issue, or an array of issues or of pages of them.
struct Page<'p, 't> {
    each: &'p mut TakeIssue<'t>,
    failed: &'p mut Option<BuildError>,
    depth: usize,
}

/// Maximum nesting of arrays: pages of issues.
const MAX_DEPTH: usize = 2;

impl<'de> DeserializeSeed<'de> for Page<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Page<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an issue with `number` (`iid` of GitLab) and `title`, or an array of issues")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let entry = Entry::deserialize(MapAccessDeserializer::new(map))?;
        (self.each)(entry.into()).map_err(|error| {
            *self.failed = Some(error);
            A::Error::custom("stopped")
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { each, failed, depth } = self;
        if depth == MAX_DEPTH {
            return Err(A::Error::custom("arrays are nested in each other"));
        }
        while items.next_element_seed(Page { each, failed, depth: depth + 1 })?.is_some() {}
        Ok(())
    }
}

/// Passes the issues of an export to `each`, in order.
///
/// # Errors
/// When it cannot be read or is not an export, naming the line, or an error of `each`.
pub(crate) fn read(path: &Path, each: &mut TakeIssue<'_>) -> Result<(), BuildError> {
    let file = open_regular(path).map_err(BuildError::read(path))?;
    let n_bytes = file.metadata().map_err(BuildError::read(path))?.len();
    let wrong = |line: usize, problem: String| {
        let mut quoted: String = problem.chars().take(MAX_QUOTED_CHARS).collect();
        if quoted.len() < problem.len() {
            quoted.push('…');
        }
        let problem = format!(
            "expected issues, as `gh issue list --json number,title,body,labels,state,url` and the APIs of GitHub and GitLab \
             print them: {quoted}; export them again"
        );
        BuildError::Line { path: path.to_owned(), line: line.max(1), problem }
    };
    if n_bytes > MAX_BYTES {
        return Err(wrong(1, format!("the file has more than {MAX_BYTES} bytes")));
    }
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let begin = std::io::BufRead::fill_buf(&mut reader).map_err(BuildError::read(path))?;
    if begin.starts_with(b"\xef\xbb\xbf") {
        std::io::BufRead::consume(&mut reader, 3);
    }
    let mut failed = None;
    let mut values = serde_json::Deserializer::from_reader(reader);
    loop {
        match values.end() {
            Ok(()) => return Ok(()),
            // Either more values follow, or the rest is not JSON, for which the next read reports a better error.
            Err(error) if error.is_syntax() => {}
            Err(error) => return Err(wrong(error.line(), error.to_string())),
        }
        let page = Page { each, failed: &mut failed, depth: 0 };
        if let Err(error) = page.deserialize(&mut values) {
            return Err(failed.unwrap_or_else(|| wrong(error.line(), error.to_string())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issues(text: impl AsRef<[u8]>) -> Result<Vec<Issue>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("issues.json");
        std::fs::write(&path, text).unwrap();
        let mut found = Vec::new();
        read(&path, &mut |issue| {
            found.push(issue);
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok(found)
    }

    fn issue(number: u64, title: &str) -> Issue {
        let (body, author) = (String::new(), String::new());
        Issue { number, title: title.into(), body, author, address: None, is_pull_request: false }
    }

    #[test]
    fn issues_are_read_as_each_program_prints_them() {
        let address = |issue: Issue, address: &str| Issue { address: Some(address.into()), ..issue };
        let gh = r#"[{"body":"b","labels":[{"id":"x","name":"bug"}],"number":3,"state":"OPEN","title":"Three","url":"https://github.com/a/b/issues/3"}]"#;
        let three = address(issue(3, "Three"), "https://github.com/a/b/issues/3");
        assert_eq!(issues(gh), Ok(vec![Issue { body: "b".into(), ..three.clone() }]));
        let github = r#"[
          {"url":"https://api.github.com/repos/a/b/issues/3","html_url":"https://github.com/a/b/issues/3","number":3,"title":"Three","user":{"login":"jane","type":"User"},"pull_request":null},
          {"url":"https://api.github.com/repos/a/b/issues/4","html_url":"https://github.com/a/b/pull/4","number":4,"title":"Four","user":{"login":"x","type":"Bot"},"pull_request":{"url":"u"}}
        ]"#;
        let found = issues(github).unwrap();
        assert_eq!(found[0], Issue { author: "jane".into(), ..three });
        assert_eq!((found[1].is_pull_request, found[1].author.as_str()), (true, "x[bot]"));
        let gitlab = r#"[{"id":90,"iid":5,"title":"Five","description":"d","author":{"username":"joe"},"web_url":"https://gitlab.com/a/b/-/issues/5"}]"#;
        let five = Issue {
            author: "joe".into(),
            body: "d".into(),
            ..address(issue(5, "Five"), "https://gitlab.com/a/b/-/issues/5")
        };
        assert_eq!(five.repository(), Some("https://gitlab.com/a/b/-/issues"));
        assert_eq!(issues(gitlab), Ok(vec![five]));
    }

    #[test]
    fn arrays_pages_and_lines_are_read() {
        let [one, two] = [1, 2].map(|number| format!(r#"{{"number":{number},"title":"t"}}"#));
        let expected = Ok(vec![issue(1, "t"), issue(2, "t")]);
        for text in [
            format!("[{one},{two}]"),
            format!("[{one}]\n[{two}]"),
            format!("[[{one}],[{two}]]"),
            format!("{one}\n{two}\n"),
            format!("\u{feff}{one}\r\n\n{two}"),
        ] {
            assert_eq!(issues(&text), expected, "{text}");
        }
        assert_eq!(issues("[]"), Ok(vec![]));
        assert_eq!(issues(""), Ok(vec![]));
    }

    #[test]
    fn other_files_are_refused_with_their_line() {
        for (text, expected) in [
            ("{\"number\":1,\"title\":\"t\"}\n{\"number\":2}", ":2: expected issues"),
            ("{\"number\":2}", "missing field `title`"),
            ("[\n{\"number\":\"2\",\"title\":\"t\"}]", ":2: "),
            ("[{\"number\":2,\"title\":{}}]", "expected a text"),
            ("[{\"number\":-2,\"title\":\"\"}]", "invalid value"),
            ("[{\"number\":2,\"title\":\"t\"}", "EOF"),
            ("[1]", "expected an issue with `number`"),
            ("number,title\n1,t\n", "expected ident"),
            ("[[[{\"number\":2,\"title\":\"t\"}]]]", "arrays are nested in each other"),
            ("[{\"number\":2,\"title\":\"t\",\"title\":\"u\"}]", "duplicate field"),
        ] {
            let error = issues(text).unwrap_err();
            assert!(error.contains("issues.json:") && error.contains(expected), "{text}: {error}");
        }
        let long = format!(r#"[{{"number":"{}","title":"t"}}]"#, "ä".repeat(1 << 20));
        assert!(issues(long).unwrap_err().chars().count() < 600);
        let deep = format!("[{{\"number\":1,\"title\":\"t\",\"body\":{}", "[".repeat(1 << 20));
        assert!(issues(deep).unwrap_err().contains("issues.json:1: "));
    }

    #[test]
    fn invalid_unicode_is_read_and_long_titles_are_cut() {
        let found = issues(b"[{\"number\":1,\"title\":\"a \xff\",\"body\":\"\xff \\ud800\"}]").unwrap();
        assert_eq!(
            found,
            [Issue { body: "\u{fffd} \u{fffd}\u{fffd}\u{fffd}".into(), ..issue(1, "a \u{fffd}") }]
        );
        let found = issues(r#"[{"number":1,"title":"a \ud800 b"}]"#).unwrap();
        assert!(found[0].title.contains('\u{fffd}'), "{found:?}");
        let long = issues(format!(r#"[{{"number":1,"title":"{}"}}]"#, "ä".repeat(1 << 20))).unwrap();
        assert_eq!(long[0].title.len(), MAX_TITLE_BYTES);
    }
}
