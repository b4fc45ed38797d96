//! A dump of a Stack Exchange site: the code blocks of accepted answers, documented by the titles of their questions.
//!
//! `Posts.xml` has one row per line, in ascending order of ids, so that a question precedes its answers: only
//! questions whose accepted answer has not been read yet are held in memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use quarry_files::open_regular;
use quarry_source::{Language, language_called};
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::{Content, Counts, Stamped, TakeRecord, UNKNOWN_CODES, wrong};
use crate::error::FactoryError;
use crate::function::{Origin, snippet_record};
use crate::plan::SourcePlan;
use crate::step::hash_file;

/// Maximum size of a row in bytes. Posts of Stack Exchange have at most 30,000 characters.
const MAX_ROW_BYTES: u64 = 4 << 20;

/// A dump that was opened.
pub(super) struct Posts<'p> {
    plan: &'p SourcePlan,
    hash: String,
    stamp: Stamped,
}

/// A question whose accepted answer has not been read yet.
struct Question {
    id: u64,
    title: String,
    language: Option<Language>,
}

impl<'p> Posts<'p> {
    pub(super) fn open(plan: &'p SourcePlan, is_hashed: bool) -> Result<Self, FactoryError> {
        let hash = if is_hashed { hash_file(&plan.path)? } else { String::new() };
        Ok(Self { plan, hash, stamp: Stamped::of(&plan.path)? })
    }

    /// Opens a file of rows, with or without gzip compression.
    fn lines(&self) -> Result<Box<dyn BufRead>, FactoryError> {
        let read = || FactoryError::read(&self.plan.path);
        let mut file = BufReader::new(open_regular(&self.plan.path).map_err(read())?);
        match file.fill_buf().map_err(read())?.starts_with(&[0x1f, 0x8b]) {
            true => Ok(Box::new(BufReader::new(MultiGzDecoder::new(file)))),
            false => Ok(Box::new(file)),
        }
    }

    fn line_error(&self, line: usize, problem: impl Into<String>) -> FactoryError {
        FactoryError::Line { path: self.plan.path.clone(), line, problem: problem.into() }
    }
}

/// The attributes of a row; empty for other lines.
fn attributes(line: &str) -> Result<HashMap<String, String>, String> {
    let mut reader = Reader::from_str(line);
    let attributes_of = |element: BytesStart<'_>| {
        if element.name().as_ref() != "row" {
            return Ok(HashMap::new());
        }
        let mut attributes = HashMap::new();
        for attribute in element.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = unescape(&attribute.value).map_err(|error| error.to_string())?.into_owned();
            attributes.insert(attribute.key.as_ref().to_owned(), value);
        }
        Ok(attributes)
    };
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Empty(element) => return attributes_of(element),
            Event::Start(element) if element.name().as_ref() == "row" => return attributes_of(element),
            Event::Eof | Event::Start(_) | Event::End(_) => return Ok(HashMap::new()),
            _ => {}
        }
    }
}

/// The tags of a question: `|a|b|` in newer dumps, `<a><b>` in older ones.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split(['|', '<', '>']).filter(|tag| !tag.is_empty())
}

/// The language of a tag, such as `python`, `python-3.x` or `c++17`.
fn language_of_tag(tag: &str) -> Option<Language> {
    // Names of languages contain no `+`: `c++` is `cpp`.
    let tag = &*tag.replace('+', "p");
    let bare =
        tag.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | 'x')).trim_end_matches('-');
    // A tag that equals a file extension of a language rarely means that language.
    let named = |name: &str| {
        language_called(name).filter(|language| {
            language.name() == name || language.aliases().iter().any(|alias| alias == name)
        })
    };
    named(tag).or_else(|| named(bare)).filter(|language| language.has_rules() && !language.is_notebook())
}

/// The texts of the code blocks of a post, in order.
fn code_blocks(body: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find("<pre") {
        rest = &rest[at..];
        let end = rest.find("</pre>").unwrap_or(rest.len());
        let block = &rest[..end];
        if let Some(code) = block.find("<code").and_then(|code| block[code..].split_once('>'))
            && let Some((code, _)) = code.1.rsplit_once("</code>")
        {
            blocks.push(html_text(code));
        }
        rest = &rest[end.max(1)..];
    }
    blocks
}

/// The text of HTML: without tags, and with entities decoded.
fn html_text(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        text.push_str(before);
        rest = tag.find('>').map_or("", |end| &tag[end + 1..]);
    }
    text.push_str(rest);
    // Anything that is not a valid entity is kept.
    let unescaped = unescape(&text).map(std::borrow::Cow::into_owned);
    unescaped.unwrap_or_else(|_| {
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    })
}

/// `CC BY-SA 4.0` as an SPDX identifier.
fn spdx_of(license: &str) -> String {
    license.trim().replace(' ', "-")
}

impl Content for Posts<'_> {
    fn hash(&self) -> &str {
        &self.hash
    }

    fn commit(&self) -> Option<&str> {
        None
    }

    fn read(&self, each: &mut TakeRecord<'_>) -> Result<Counts, FactoryError> {
        let mut lines = self.lines()?;
        let mut open: HashMap<u64, Question> = HashMap::new();
        let (mut n_rows, mut n_questions, mut n_answers, mut n_bytes, mut n_snippets, mut n_unknown) =
            (0, 0, 0, 0, 0, 0);
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let n_read = (&mut lines).take(MAX_ROW_BYTES + 1).read_until(b'\n', &mut bytes);
            let n_read = n_read.map_err(FactoryError::read(&self.plan.path))?;
            if n_read == 0 {
                break;
            }
            if n_read as u64 > MAX_ROW_BYTES {
                let problem =
                    format!("expected a row of at most {MAX_ROW_BYTES} bytes; is this a Posts.xml file?");
                return Err(self.line_error(line, problem));
            }
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| self.line_error(line, "expected UTF-8; download it again"))?;
            if !text.trim_start().starts_with("<row") {
                continue;
            }
            let row = attributes(text).map_err(|error| {
                self.line_error(line, format!("expected a row of Posts.xml: {error}; download it again"))
            })?;
            n_rows += 1;
            let number = |name: &str| row.get(name).and_then(|value| value.parse::<u64>().ok());
            let field = |name: &str| row.get(name).map(String::as_str).unwrap_or_default();
            match (number("PostTypeId"), number("Id")) {
                (Some(1), Some(id)) => {
                    n_questions += 1;
                    if let Some(accepted) = number("AcceptedAnswerId") {
                        let language = tags(field("Tags")).find_map(language_of_tag);
                        open.insert(accepted, Question { id, title: field("Title").to_owned(), language });
                    }
                }
                (Some(2), Some(id)) => {
                    let Some(question) = open.remove(&id) else { continue };
                    n_answers += 1;
                    for (place, code) in code_blocks(field("Body")).into_iter().enumerate() {
                        let Some(language) = question.language else {
                            n_unknown += 1;
                            continue;
                        };
                        n_snippets += 1;
                        n_bytes += code.len() as u64;
                        let license = match field("ContentLicense") {
                            "" => self.plan.license.clone(),
                            license => Some(spdx_of(license)),
                        };
                        let origin = Origin {
                            source: self.plan.name.clone(),
                            repository: self
                                .plan
                                .repository
                                .clone()
                                .unwrap_or_else(|| self.plan.name.clone()),
                            commit: None,
                            path: format!("questions/{}/answers/{id}#{}", question.id, place + 1),
                            license,
                        };
                        let mut record = snippet_record(&origin, language, &code);
                        record.documentation.clone_from(&question.title);
                        each(record)?;
                    }
                }
                _ => {}
            }
        }
        self.stamp.check(self.plan)?;
        if n_rows == 0 {
            return Err(wrong(
                self.plan,
                "expected the rows of a Posts.xml, found none; unpack the dump first",
            ));
        }
        Ok([
            ("bytes", n_bytes),
            ("files", 1),
            ("questions", n_questions),
            ("accepted answers", n_answers),
            ("functions", n_snippets),
            (UNKNOWN_CODES, n_unknown),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_languages() {
        let named = |text: &str| tags(text).find_map(language_of_tag).map(Language::name);
        assert_eq!(named("|list|python-3.x|"), Some("python"));
        assert_eq!(named("<c++17><stl>"), Some("cpp"));
        assert_eq!(named("<c#>"), Some("csharp"));
        assert_eq!(named("|list|sorting|"), None);
    }

    #[test]
    fn code_blocks_are_texts() {
        let body = "<p>Use <code>x</code>:</p><pre class=\"lang-py\"><code>if a &lt; b:\n    <b>c</b>()\n</code></pre>\
                    <pre>no code</pre><pre><code>&amp;amp;</code></pre><pre><code>cut";
        assert_eq!(code_blocks(body), ["if a < b:\n    c()\n", "&amp;"]);
    }

    #[test]
    fn rows_have_attributes_and_entities_are_not_expanded() {
        let row = attributes("  <row Id=\"1\" Title=\"a &lt; b\" />").unwrap();
        assert_eq!((row["Id"].as_str(), row["Title"].as_str()), ("1", "a < b"));
        assert!(attributes("<row Id=\"&bomb;\" />").is_err());
        assert!(attributes("<row Id=\"1").is_err());
        assert_eq!(attributes("<posts>").unwrap(), HashMap::new());
    }
}
