//! The codes of a data set, such as CodeSearchNet's functions, in any supported format.

use std::slice;

use quarry_corpus::dataset;
use quarry_corpus::formats::source::Source;
use quarry_corpus::formats::{FormatError, Record};
use quarry_source::{Language, language_called, language_for};
use rayon::prelude::*;

use super::{Content, Counts, TakeRecord, UNKNOWN_CODES, wrong};
use crate::error::BuildError;
use crate::plan::SourcePlan;
use crate::record::CodeRecord;
use crate::sources::detect::detected_language;
use crate::sources::function::{Origin, record_of_text};
use crate::step::content_hash;

const CODES_AT_ONCE: usize = 4096;

/// Prefixes of the names of formats in which a code's paired text is its documentation.
const DOCUMENTED: [&str; 2] = ["codesearchnet", "advtest"];

pub(crate) struct DataSet<'p> {
    plan: &'p SourcePlan,
    sources: Vec<Source>,
    hash: String,
}

struct Code {
    origin: Origin,
    language: Language,
    name: Option<String>,
    documentation: Option<String>,
    /// First line in its file, if known.
    line: u32,
    text: String,
}

impl<'p> DataSet<'p> {
    pub(crate) fn open(plan: &'p SourcePlan, is_hashed: bool) -> Result<Self, BuildError> {
        let hash = if is_hashed { content_hash(&plan.path)? } else { String::new() };
        let sources = dataset::sources(slice::from_ref(&plan.path), "", "test")?;
        Ok(Self { plan, sources, hash })
    }

    /// The code of a record; `None` if it has none, or an error with the reason if that should be counted.
    fn code(&self, source: &Source, record: Record, number: u64) -> Option<Result<Code, &'static str>> {
        let is_documented = DOCUMENTED.iter().any(|name| source.format.name.starts_with(name));
        let place = || format!("{}:{number}", source.path.file_name().unwrap_or_default().to_string_lossy());
        let (text, url, language, path, repository, name, documentation) = match record {
            Record::Pair(pair) => {
                let documentation = is_documented.then_some(pair.query.text);
                let by_path = pair.path.clone();
                (pair.code.text, pair.url, pair.language, by_path, pair.repository, pair.name, documentation)
            }
            Record::Document(document) => {
                let language = document.language_name().map(Into::into);
                (document.text, None, language, Some(document.id), None, None, None)
            }
            _ => return None,
        };
        let of_path = |path: &Option<String>| language_for(path.as_ref()?.as_ref(), b"");
        let of_plan = || self.plan.language.as_deref().and_then(language_called);
        let language = language.as_deref().and_then(language_called).or_else(|| of_path(&path));
        let language = language.or_else(of_plan).or_else(|| detected_language(&text));
        let Some(language) = language.filter(|language| !language.is_notebook()) else {
            return Some(Err(UNKNOWN_CODES));
        };
        let origin = Origin {
            source: self.plan.name.clone(),
            repository: repository
                .or_else(|| self.plan.repository.clone())
                .unwrap_or_else(|| self.plan.name.clone()),
            commit: url.as_deref().and_then(commit_of),
            path: path.unwrap_or_else(place),
            license: self.plan.license.clone(),
        };
        let line = url.as_deref().and_then(first_line_of).unwrap_or(1);
        Some(Ok(Code { origin, language, name, documentation, line, text }))
    }
}

/// The commit in a URL such as `https://host/owner/name/blob/COMMIT/path#L1-L9`.
fn commit_of(url: &str) -> Option<String> {
    let is_commit = |part: &&str| part.len() == 40 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    url.split('/').find(is_commit).map(str::to_owned)
}

fn first_line_of(url: &str) -> Option<u32> {
    url.rsplit_once("#L")?.1.split('-').next()?.parse().ok().filter(|line| *line > 0)
}

impl Code {
    fn record(self) -> CodeRecord {
        let mut record = record_of_text(&self.origin, self.language, &self.text);
        let n_lines = record.end_line.saturating_sub(record.start_line);
        record.start_line = self.line;
        record.end_line = self.line.saturating_add(n_lines);
        if let Some(name) = self.name.filter(|name| !name.is_empty()) {
            record.name = name;
        }
        if record.documentation.is_empty() {
            record.documentation = self.documentation.unwrap_or_default();
        }
        record
    }
}

impl Content for DataSet<'_> {
    fn hash(&self) -> &str {
        &self.hash
    }

    fn commit(&self) -> Option<&str> {
        None
    }

    fn read(&self, each: &mut TakeRecord<'_>) -> Result<Counts, BuildError> {
        let mut counts = Counts::new();
        let mut add = |name: &str, count: u64| *counts.entry(name.to_owned()).or_default() += count;
        let (mut pending, mut number, mut failed) = (Vec::new(), 0, None);
        let flush = |pending: &mut Vec<Code>, each: &mut TakeRecord<'_>| {
            let records: Vec<CodeRecord> =
                std::mem::take(pending).into_par_iter().map(Code::record).collect();
            records.into_iter().try_for_each(each)
        };
        let read = dataset::for_each(&self.sources, &mut |source, record| {
            number += 1;
            match self.code(source, record, number) {
                None => {}
                Some(Err(reason)) => add(reason, 1),
                Some(Ok(code)) => {
                    add("bytes", code.text.len() as u64);
                    add("functions", 1);
                    pending.push(code);
                }
            }
            if pending.len() >= CODES_AT_ONCE
                && let Err(error) = flush(&mut pending, each)
            {
                failed = Some(error);
                return Err(FormatError::Read {
                    path: source.path.clone(),
                    source: std::io::ErrorKind::Interrupted.into(),
                });
            }
            Ok(())
        });
        if let Some(error) = failed {
            return Err(error);
        }
        read?;
        flush(&mut pending, each)?;
        add("files", self.sources.len() as u64);
        if !counts.contains_key("functions") {
            let unknown = counts.get(UNKNOWN_CODES).copied().unwrap_or_default();
            let problem = match unknown {
                0 => "expected codes, found none; name the file or directory that has them".to_owned(),
                _ => format!(
                    "expected codes in a known language, found none in {unknown} codes; give the source `language`"
                ),
            };
            return Err(wrong(self.plan, problem));
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_commit_and_line() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let url = format!("https://example.com/a/b/blob/{commit}/c/d.py#L12-L20");
        assert_eq!(commit_of(&url), Some(commit.to_owned()));
        assert_eq!(first_line_of(&url), Some(12));
        assert_eq!((commit_of("x"), first_line_of("x#L0"), first_line_of("x")), (None, None, None));
    }
}
