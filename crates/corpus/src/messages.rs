//! Queries from messages of commits and titles of issues that describe the behavior of code. The rules are data:
//! `messages.toml`.

use std::sync::LazyLock;

use quarry_text::{changes_direction, identifiers, parts, query_terms};
use serde::Deserialize;

use quarry_history::Header;

/// The text of the rules, which is part of the version of their results.
pub const RULES_TEXT: &str = include_str!("messages.toml");

static RULES: LazyLock<RuleFile> = LazyLock::new(|| parse(RULES_TEXT).unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    limits: Limits,
    cleaning: Cleaning,
    rule: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    least_terms: usize,
    most_words: usize,
    most_characters: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cleaning {
    types: Vec<String>,
    tags: Vec<String>,
    trailers: Vec<String>,
    closing: Vec<String>,
}

/// A rule that rejects texts that do not describe the behavior of code. All its words are in lower case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    #[serde(default)]
    authors: Vec<String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    first_words: Vec<String>,
    #[serde(default)]
    phrases: Vec<String>,
    /// If true, matches version numbers of three parts, as in `1.2.0`.
    #[serde(default)]
    version_numbers: bool,
    /// If true, also applies to titles of issues.
    #[serde(default = "yes")]
    titles: bool,
}

fn yes() -> bool {
    true
}

fn parse(text: &str) -> Result<RuleFile, toml::de::Error> {
    toml::from_str(text)
}

/// Treatment of the scope of a conventional commit, such as `parser` in `fix(parser): text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scopes {
    /// It is the first word of the query.
    Kept,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The name of the rule, under which rejections are counted.
    pub filter: &'static str,
    pub rule: String,
}

impl Rejection {
    fn new(filter: &'static str, rule: impl Into<String>) -> Self {
        Self { filter, rule: rule.into() }
    }

    /// Returns whether a commit with it cannot have fixed an issue either: a merge, or a commit that reverts
    /// others.
    pub fn is_of_other_commits(&self) -> bool {
        matches!(self.filter, "merge" | "revert" | FIRST_COMMIT)
    }
}

const FIRST_COMMIT: &str = "first commit";

/// The query in the message of a commit: its subject (the first paragraph, as in git) without trailers, issue
/// numbers and the type of a conventional commit. A component before a colon is kept.
///
/// # Errors
/// Returns the reason why it does not describe the behavior of code.
pub fn question_of_commit(header: &Header, scopes: Scopes) -> Result<String, Rejection> {
    match header.parents {
        0 => return Err(Rejection::new(FIRST_COMMIT, "no parent")),
        1 => {}
        n_parents => return Err(Rejection::new("merge", format!("{n_parents} parents"))),
    }
    question(&subject(&header.message), &header.author, scopes, &|_| true)
}

/// The query in the title of an issue, cleaned in the same way, and without marks such as `[Bug]`.
///
/// # Errors
/// Returns the reason why it does not describe the behavior of code.
pub fn question_of_title(title: &str, author: &str) -> Result<String, Rejection> {
    let mut title = title.trim();
    while let Some(rest) = without_tag(title) {
        title = rest;
    }
    question(title, author, Scopes::Removed, &|rule| rule.titles)
}

/// A title without the mark at its beginning, if there is one.
fn without_tag(title: &str) -> Option<&str> {
    let (tag, rest) = match title.strip_prefix('[') {
        Some(tagged) => tagged.split_once(']')?,
        None => title.split_once(':')?,
    };
    let tag = tag.trim().to_lowercase();
    RULES
        .cleaning
        .tags
        .contains(&tag)
        .then(|| rest.trim_start_matches(|c: char| c == ':' || c.is_whitespace()))
}

/// The first paragraph of a message on one line, without trailers.
pub fn subject(message: &str) -> String {
    let lines = message.lines().map(str::trim).skip_while(|line| line.is_empty());
    let paragraph = lines.take_while(|line| !line.is_empty()).enumerate();
    let lines: Vec<&str> =
        paragraph.filter(|(number, line)| *number == 0 || !is_trailer(line)).map(|(_, line)| line).collect();
    lines.join(" ")
}

fn is_trailer(line: &str) -> bool {
    let is_name =
        |name: &str| RULES.cleaning.trailers.iter().any(|trailer| name.eq_ignore_ascii_case(trailer));
    line.split_once(':').is_some_and(|(name, _)| is_name(name.trim()))
}

fn question(
    text: &str,
    author: &str,
    scopes: Scopes,
    applies: &dyn Fn(&Rule) -> bool,
) -> Result<String, Rejection> {
    let rules = || RULES.rule.iter().filter(|rule| applies(rule));
    let limits = &RULES.limits;
    let author = author.to_lowercase();
    for rule in rules() {
        if let Some(mark) = rule.authors.iter().find(|mark| author.contains(*mark)) {
            return Err(Rejection::new(&rule.name, mark));
        }
    }
    if let Some(odd) = text.chars().find(|c| is_odd(*c)) {
        return Err(Rejection::new("not text", format!("U+{:04X}", odd as u32)));
    }
    if text.chars().nth(limits.most_characters).is_some() {
        let rule = format!("more than {} characters", limits.most_characters);
        return Err(Rejection::new("too long", rule));
    }
    let (mut subject, mut component) = (text.trim(), "");
    if let Some((prefix, rest)) = subject.split_once(": ")
        && !prefix.contains(' ')
    {
        let (kind, scope) = prefix.split_once('(').unwrap_or((prefix, ""));
        let kind = kind.trim_end_matches('!').to_lowercase();
        if let Some(rule) = rules().find(|rule| rule.types.contains(&kind)) {
            return Err(Rejection::new(&rule.name, format!("{kind}:")));
        }
        component = match (RULES.cleaning.types.contains(&kind), scopes) {
            (false, _) => prefix,
            (true, Scopes::Kept) => scope.trim_end_matches(['!', ')']),
            (true, Scopes::Removed) => "",
        };
        subject = rest;
    }
    let words = std::iter::once(component).filter(|component| !component.is_empty());
    let text = words.chain(without_issues(subject)).collect::<Vec<_>>().join(" ");
    let lower = text.to_lowercase();
    let first = identifiers(subject).next().unwrap_or_default().to_lowercase();
    for rule in rules() {
        if rule.first_words.contains(&first) {
            return Err(Rejection::new(&rule.name, first));
        }
        if let Some(phrase) = rule.phrases.iter().find(|phrase| contains_phrase(&lower, phrase)) {
            return Err(Rejection::new(&rule.name, phrase));
        }
        if let Some(number) = lower.split_whitespace().find(|word| rule.version_numbers && is_version(word)) {
            return Err(Rejection::new(&rule.name, number));
        }
    }
    if query_terms(&text).len() < limits.least_terms {
        let rule = format!("fewer than {} meaningful words", limits.least_terms);
        return Err(Rejection::new("too short", rule));
    }
    if identifiers(&text).flat_map(parts).count() > limits.most_words {
        return Err(Rejection::new("too long", format!("more than {} words", limits.most_words)));
    }
    Ok(text)
}

/// Returns whether a word is a version number of three parts, with or without `v` before it.
fn is_version(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let mut parts = bare.strip_prefix('v').unwrap_or(bare).split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.clone().count() >= 3 && parts.all(is_number)
}

/// Returns whether a character does not occur in text for people: control characters, characters that change the
/// direction of the text, and the replacement for invalid bytes.
fn is_odd(c: char) -> bool {
    c.is_control() && !c.is_whitespace() || changes_direction(c) || c == '\u{fffd}'
}

/// Returns whether a text contains a phrase as whole words.
fn contains_phrase(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + phrase.len()..].chars().next())
    })
}

/// The words of a subject without issue references, and without a `fixes` before a reference at the end.
fn without_issues(subject: &str) -> Vec<&str> {
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_with_issue = false;
    for (position, word) in subject.split_whitespace().enumerate() {
        ends_with_issue = is_issue(position, word);
        if !ends_with_issue {
            kept.push(word);
        }
    }
    if ends_with_issue && kept.len() > 1 {
        kept.truncate(kept.len() - usize::from(kept.last().is_some_and(|word| is_closing(word))));
        if let Some(last) = kept.last_mut() {
            *last = last.trim_end_matches([',', ';', ':', '-']);
        }
        kept.retain(|word| !word.is_empty());
    }
    kept
}

/// Returns whether a word is an issue reference: `#12`, its address, and `GH-12` or `ABC-12` at the beginning of
/// the subject or in brackets. `UTF-8` is not one.
fn is_issue(position: usize, word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let is_address = || {
        let mut parts = bare.rsplit('/');
        let (number, kind) = (parts.next().unwrap_or_default(), parts.next());
        bare.starts_with("http")
            && is_number(number)
            && matches!(kind, Some("issues" | "pull" | "merge_requests"))
    };
    bare.strip_prefix('#').is_some_and(is_number)
        || (position == 0 || word.starts_with(['(', '[']))
            && bare.split_once('-').is_some_and(|(project, number)| {
                project.len() > 1 && project.chars().all(|c| c.is_ascii_uppercase()) && is_number(number)
            })
        || is_address()
}

fn is_closing(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    RULES.cleaning.closing.contains(&word)
}

/// An issue that a commit closes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reference {
    /// By its number in the same repository.
    Number(u64),
    Address(String),
}

/// The issues that the commit closes according to its message, as in `Fixes #12`, `closes: GH-12` and `Resolves #1,
/// #2 and https://host/owner/name/issues/3`. Issues of other repositories (`owner/name#12`) are only recognized by
/// address.
pub fn closed_issues(message: &str) -> Vec<Reference> {
    let (mut found, mut is_closed) = (Vec::new(), false);
    for word in message.split_whitespace() {
        if is_closing(word) && !word.ends_with(['.', ';', '!', '?']) {
            is_closed = true;
            continue;
        }
        match reference(word).filter(|_| is_closed) {
            Some(reference) if !found.contains(&reference) => found.push(reference),
            Some(_) => {}
            None => is_closed = is_closed && matches!(word, "and" | "&" | ","),
        }
        // The end of a sentence ends a list.
        is_closed = is_closed && !word.ends_with(['.', ';']);
    }
    found
}

/// The issues that a commit fixes according to its message: those of [`closed_issues`], and those that its subject
/// mentions in brackets, as in `Accept empty lines (#12)`. Empty if the commit, or the merged change, reverts or
/// reapplies others.
pub fn fixed_issues(message: &str) -> Vec<Reference> {
    let is_of_others = |paragraph: &str| {
        let first = identifiers(paragraph).next().unwrap_or_default().to_lowercase();
        RULES.rule.iter().any(|rule| rule.name == "revert" && rule.first_words.contains(&first))
    };
    let subject = subject(message);
    // The second paragraph of a merge is the title of the merged request.
    let is_merge = subject.to_lowercase().starts_with("merge");
    let title = message.split("\n\n").nth(1).filter(|_| is_merge);
    if is_of_others(&subject) || title.is_some_and(is_of_others) {
        return Vec::new();
    }
    let mut found = closed_issues(message);
    let in_brackets = subject.split_whitespace().filter(|word| word.starts_with("(#"));
    for reference in in_brackets.filter_map(reference) {
        if !found.contains(&reference) {
            found.push(reference);
        }
    }
    found
}

fn reference(word: &str) -> Option<Reference> {
    let bare = word
        .trim_matches(|c: char| matches!(c, '(' | ')' | '[' | ']' | '<' | '>' | ',' | '.' | ';' | ':' | '!'));
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let prefixed = bare.strip_prefix('#').or_else(|| {
        let (project, number) = bare.split_once('-')?;
        project.eq_ignore_ascii_case("gh").then_some(number)
    });
    if let Some(number) = prefixed.and_then(number) {
        return Some(Reference::Number(number));
    }
    let (before, last) = bare.rsplit_once('/')?;
    let is_address = bare.starts_with("http") && before.ends_with("/issues");
    number(last).filter(|_: &u64| is_address).map(|_| Reference::Address(bare.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(message: &str) -> Header {
        Header { id: "0".into(), message: message.into(), author: "A B".into(), parents: 1, seconds: 0 }
    }

    #[track_caller]
    fn check(message: &str, scopes: Scopes, expected: &str) {
        assert_eq!(question_of_commit(&header(message), scopes).as_deref(), Ok(expected), "{message}");
    }

    #[track_caller]
    fn rejected(message: &str, filter: &str, rule: &str) {
        let rejection = question_of_commit(&header(message), Scopes::Removed).unwrap_err();
        assert_eq!((rejection.filter, rejection.rule.as_str()), (filter, rule), "{message}");
    }

    #[test]
    fn rules_are_read() {
        let rules = parse(RULES_TEXT).unwrap();
        let is_lower = |words: &[String]| words.iter().all(|word| *word == word.to_lowercase());
        for Rule { name, authors, types, first_words, phrases, .. } in &rules.rule {
            assert!([authors, types, first_words, phrases].iter().all(|words| is_lower(words)), "{name}");
        }
        assert!(rules.limits.least_terms > 0 && is_lower(&rules.cleaning.tags));
    }

    #[test]
    fn subjects_are_stripped_of_process_text() {
        let both = |message: &str, expected: &str| {
            check(message, Scopes::Kept, expected);
            check(message, Scopes::Removed, expected);
        };
        both("Retry requests after a timeout (#123)", "Retry requests after a timeout");
        both("fix!: retry requests after timeout (GH-12)", "retry requests after timeout");
        both("Fix: retry requests after timeout", "retry requests after timeout");
        both("parser: accept empty header lines", "parser accept empty header lines");
        both("Decode names as UTF-8 strictly", "Decode names as UTF-8 strictly");
        both("ABC-77 Accept empty header lines", "Accept empty header lines");
        both("Accept empty header lines, fixes #12", "Accept empty header lines");
        both("Fix #12: accept empty header lines", "Fix accept empty header lines");
        both("Accept empty header lines https://a.b/c/d/issues/12", "Accept empty header lines");
        both("\n\nAccept empty\nheader lines\nSigned-off-by: A <a@b.c>\n\nbody", "Accept empty header lines");
        check("feat(client): retry after timeout", Scopes::Kept, "client retry after timeout");
        rejected("feat(client): retry after it", "too short", "fewer than 3 meaningful words");
        check("feat(client): retry requests after timeout", Scopes::Removed, "retry requests after timeout");
    }

    #[test]
    fn messages_that_do_not_say_what_code_does_are_rejected_by_name() {
        rejected("Merge branch 'x' into main please", "merge", "merge");
        rejected("Revert \"Retry requests after a timeout\"", "revert", "revert");
        rejected("chore(deps): bump serde from 1.0 to 1.1", "not about code", "chore:");
        rejected("Bump serde from 1.0 to 1.1", "version", "bump");
        rejected("docs: say how requests are retried", "documents", "docs:");
        rejected("Document how requests are retried", "documents", "document");
        rejected("Retry requests and say so in the README", "documents", "readme");
        rejected("Split the retries of requests into files", "refactoring", "split");
        rejected("refactor(client): retry requests in one place", "refactoring", "refactor:");
        rejected("Retry requests without code duplication", "refactoring", "code duplication");
        rejected("Add regression test of retried requests", "tests", "test");
        rejected("Allow retries by client 1.2.0 again", "release", "1.2.0");
        rejected("Prepare retries of the client for later", "release", "prepare");
        rejected("Apply rustfmt to all files", "formatting", "rustfmt");
        rejected("Fix typo in request handler name", "typo", "fix typo");
        rejected("Fix it", "too short", "fewer than 3 meaningful words");
        rejected("", "too short", "fewer than 3 meaningful words");
        rejected("Retry \u{1b}[31mrequests after timeout", "not text", "U+001B");
        rejected("Retry \u{202e}requests after timeout", "not text", "U+202E");
        rejected("Retry \u{61c}requests after timeout", "not text", "U+061C");
        rejected("Retry \u{fffd}requests after timeout", "not text", "U+FFFD");
        rejected(&format!("Retry requests {}", "a".repeat(1 << 20)), "too long", "more than 300 characters");
        rejected(&"map key cache ".repeat(14), "too long", "more than 40 words");
        let filter = |parents, author: &str| {
            let header =
                Header { parents, author: author.into(), ..header("Retry requests after a timeout") };
            question_of_commit(&header, Scopes::Removed).unwrap_err().filter
        };
        assert_eq!((filter(2, ""), filter(0, ""), filter(1, "x[bot]")), ("merge", "first commit", "bot"));
    }

    #[test]
    fn titles_lose_marks_and_may_begin_with_update() {
        let check = |title: &str, expected: &str| {
            assert_eq!(question_of_title(title, "jane").as_deref(), Ok(expected), "{title}");
        };
        check("[Bug]: [Feature Request] Crash on empty header lines", "Crash on empty header lines");
        check("BUG: crash on empty header lines", "crash on empty header lines");
        check("Update fails without a network", "Update fails without a network");
        check("[parser] crash on empty header", "[parser] crash on empty header");
        assert_eq!(question_of_title("Fix typo in the header name", "").unwrap_err().filter, "typo");
        assert_eq!(question_of_title("Crash on empty header lines", "x[bot]").unwrap_err().filter, "bot");
    }

    #[test]
    fn issues_that_a_commit_closes_are_found() {
        let check = |message: &str, expected: &[u64]| {
            let found = closed_issues(message);
            let expected: Vec<Reference> = expected.iter().copied().map(Reference::Number).collect();
            assert_eq!(found, expected, "{message}");
        };
        check("Accept empty lines\n\nFixes #12", &[12]);
        check("closes: GH-12, #13 and #14. See #15", &[12, 13, 14]);
        check("Resolved [#3]; #4", &[3]);
        check("Fix the lines of #12", &[]);
        check("See #12", &[]);
        check("Fixes owner/name#12, #99999999999999999999, #", &[]);
        check("fix #1 fix #1", &[1]);
        let fixed = |message: &str, expected: &[u64]| {
            let expected: Vec<Reference> = expected.iter().copied().map(Reference::Number).collect();
            assert_eq!(fixed_issues(message), expected, "{message}");
        };
        fixed("Accept empty lines (#12)", &[12]);
        fixed("Accept empty lines (#12)\n\nCloses #13, see (#14)", &[13, 12]);
        fixed("Merge pull request #20 from jane/lines\n\nAccept empty lines\n\nFixes #12", &[12]);
        fixed("Merge pull request #20 from jane/lines\n\nRevert \"Accept empty lines\"\n\nFixes #12", &[]);
        fixed("Revert \"Accept empty lines (#12)\"", &[]);
        let address = "https://github.com/a/b/issues/7";
        assert_eq!(closed_issues(&format!("Closes {address}.")), [Reference::Address(address.into())]);
        assert_eq!(closed_issues("Closes https://github.com/a/b/pull/7"), []);
    }
}
