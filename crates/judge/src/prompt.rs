//! Prompts: questions to models, as files that a user can replace.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quarry_corpus::toml_file::{self, Mistake};
use quarry_files::{digest, member, read_regular_text};
use quarry_llm::{ChatRequest, Message, Role};
use serde::Deserialize;

use crate::answer::AnswerFormat;
use crate::error::JudgeError;

/// Maximum size of a prompt's file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The names allowed between `{{` and `}}` in a prompt.
const VARIABLES: [&str; 18] = [
    "query",
    "code",
    "language",
    "guidance",
    "interface",
    "program",
    "result",
    "output",
    "verdict",
    "summary",
    "style",
    "callees",
    "apis",
    "api",
    "documentation",
    "explanation",
    "categories",
    "examples",
];

const BUILT_IN: &[(&str, &str)] = &[
    ("screener", include_str!("../prompts/screener.toml")),
    ("test-generator", include_str!("../prompts/test-generator.toml")),
    ("query-test-generator", include_str!("../prompts/query-test-generator.toml")),
    ("test-adapter", include_str!("../prompts/test-adapter.toml")),
    ("test-improver", include_str!("../prompts/test-improver.toml")),
    ("query-test-improver", include_str!("../prompts/query-test-improver.toml")),
    ("bug-fixer", include_str!("../prompts/bug-fixer.toml")),
    ("arbiter", include_str!("../prompts/arbiter.toml")),
    ("confident-arbiter", include_str!("../prompts/confident-arbiter.toml")),
    ("code-generator", include_str!("../prompts/code-generator.toml")),
    ("code-repairer", include_str!("../prompts/code-repairer.toml")),
    ("cosqa-plus", include_str!("../prompts/cosqa-plus.toml")),
    ("cosqa-plus-half", include_str!("../prompts/cosqa-plus-half.toml")),
    ("cosqa-intent", include_str!("../prompts/cosqa-intent.toml")),
    ("cosqa-answer", include_str!("../prompts/cosqa-answer.toml")),
    ("query4code", include_str!("../prompts/query4code.toml")),
    ("gencodesearchnet-comment", include_str!("../prompts/gencodesearchnet-comment.toml")),
    ("gencodesearchnet-query", include_str!("../prompts/gencodesearchnet-query.toml")),
    ("summary-writer", include_str!("../prompts/summary-writer.toml")),
    ("query-writer", include_str!("../prompts/query-writer.toml")),
    ("direct-query-writer", include_str!("../prompts/direct-query-writer.toml")),
    ("api-explainer", include_str!("../prompts/api-explainer.toml")),
    ("api-recall", include_str!("../prompts/api-recall.toml")),
    ("api-rating", include_str!("../prompts/api-rating.toml")),
    ("statcodesearch", include_str!("../prompts/statcodesearch.toml")),
    ("statcodesearch-comment", include_str!("../prompts/statcodesearch-comment.toml")),
];

#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The name of its file, without extension.
    pub name: String,
    /// Hash of its whole text; part of every label.
    pub version: String,
    pub text: String,
    content: PromptFile,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptFile {
    max_output_tokens: u32,
    temperature: Option<f64>,
    system: Option<String>,
    user: String,
    answer: AnswerFormat,
}

impl Prompt {
    /// Parses the text of a prompt's file; `file` is its name in messages.
    ///
    /// # Errors
    /// [`JudgeError::Prompt`] with what was expected.
    pub fn parse(name: &str, text: &str, file: &str) -> Result<Self, JudgeError> {
        let wrong = |problem: String| JudgeError::Prompt { file: file.to_owned(), problem };
        let content: PromptFile = toml_file::parse(text).map_err(|Mistake { line, problem }| {
            JudgeError::Prompt { file: format!("{file}:{line}"), problem }
        })?;
        content.answer.check().map_err(|problem| wrong(format!("`answer`: {problem}")))?;
        for template in content.system.iter().chain([&content.user]) {
            if let Some(variable) = variables(template).find(|variable| !VARIABLES.contains(variable)) {
                let known = VARIABLES.join(", ");
                return Err(wrong(format!("{{{{{variable}}}}} is not a variable; expected one of {known}")));
            }
        }
        if content.max_output_tokens == 0 {
            return Err(wrong(
                "`max_output_tokens` is 0; expected the maximum length of an answer".to_owned(),
            ));
        }
        let version = digest(&[text])[..16].to_owned();
        Ok(Self { name: name.to_owned(), version, text: text.to_owned(), content })
    }

    pub fn grammar(&self) -> &AnswerFormat {
        &self.content.answer
    }

    pub(crate) fn names(&self, variable: &str) -> bool {
        let mut templates = self.content.system.iter().chain([&self.content.user]);
        templates.any(|template| variables(template).any(|named| named == variable))
    }

    /// The request, with `values` in place of the variables. Variables within a value are not replaced, and a value cannot
    /// end the section that it is in.
    pub fn request(&self, values: &BTreeMap<&str, String>) -> ChatRequest {
        let mut request = ChatRequest::new(fill(&self.content.user, values), self.content.max_output_tokens);
        if let Some(system) = &self.content.system {
            request.messages.insert(0, Message::new(Role::System, fill(system, values)));
        }
        request.temperature = self.content.temperature;
        request.schema = self.content.answer.schema(&self.name.replace('-', "_"));
        request
    }
}

/// The names between `{{` and `}}`.
fn variables(template: &str) -> impl Iterator<Item = &str> {
    template.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(variable, _)| variable.trim())
}

/// The template with `values` in place of its variables. A value between the markers of a section, such as `<output>` and
/// `</output>`, cannot end the section.
fn fill(template: &str, values: &BTreeMap<&str, String>) -> String {
    let mut parts = template.split("{{");
    let first = parts.next().unwrap_or_default();
    let (mut text, mut open) = (first.to_owned(), Vec::new());
    follow_sections(first, &mut open);
    for part in parts {
        match part.split_once("}}") {
            Some((variable, after)) => {
                let value = values.get(variable.trim()).map_or("", String::as_str);
                let kept =
                    open.iter().fold(Cow::Borrowed(value), |value, section| escaped_section(value, section));
                text.push_str(&kept);
                text.push_str(after);
                follow_sections(after, &mut open);
            }
            None => {
                text.push_str("{{");
                text.push_str(part);
            }
        }
    }
    text
}

/// Adds the sections that a part of a template begins to the `open` ones, and removes those that it ends.
fn follow_sections<'t>(part: &'t str, open: &mut Vec<&'t str>) {
    for marker in part.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0)) {
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.contains(|c| !is_in_name(c))
        };
        match marker.strip_prefix('/') {
            Some(name) => open.retain(|section| *section != name),
            None if is_name(marker) => open.push(marker),
            None => {}
        }
    }
}

/// A value without the end of a section, in which the slash gets a backslash before it. Models read the end of a section
/// in any case, and with blanks or characters that are not seen.
fn escaped_section<'v>(value: Cow<'v, str>, section: &str) -> Cow<'v, str> {
    let is_unseen = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
    };
    // Byte offset of the slash, if the section ends at this `<`.
    let slash = |at: usize| {
        let after = value[at + 1..].trim_start_matches(is_unseen);
        let name = after.strip_prefix('/')?.trim_start_matches(is_unseen);
        let is_end = name.get(..section.len()).is_some_and(|name| name.eq_ignore_ascii_case(section))
            && !name[section.len()..].starts_with(is_in_name);
        is_end.then(|| value.len() - after.len())
    };
    let slashes: Vec<usize> = value.match_indices('<').filter_map(|(at, _)| slash(at)).collect();
    if slashes.is_empty() {
        return value;
    }
    let (mut kept, mut copied) = (String::with_capacity(value.len() + slashes.len()), 0);
    for slash in slashes {
        kept.push_str(&value[copied..slash]);
        kept.push('\\');
        copied = slash;
    }
    kept.push_str(&value[copied..]);
    Cow::Owned(kept)
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// All prompts: the built-in ones, except those that a directory replaces.
#[derive(Clone, Debug)]
pub struct Prompts(BTreeMap<String, Prompt>);

impl Prompts {
    /// Reads the built-in prompts, replaced by the files `NAME.toml` in `directory`.
    ///
    /// # Errors
    /// When the directory cannot be read, contains a file that replaces nothing, or contains an invalid file.
    pub fn open(directory: Option<&Path>) -> Result<Self, JudgeError> {
        let mut prompts = BTreeMap::new();
        for (name, text) in BUILT_IN {
            prompts.insert((*name).to_owned(), Prompt::parse(name, text, name)?);
        }
        let Some(directory) = directory else { return Ok(Self(prompts)) };
        let unreadable = |source| JudgeError::Read { path: directory.to_owned(), source };
        let mut n_replaced = 0;
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let file = path.display().to_string();
            if !prompts.contains_key(&name) {
                let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                return Err(JudgeError::Prompt {
                    file,
                    problem: format!(
                        "it does not replace a prompt; expected a file named like one of {}",
                        known.join(", ")
                    ),
                });
            }
            member(directory, path.file_name().unwrap_or_default().as_ref())
                .map_err(|problem| JudgeError::Prompt { file: file.clone(), problem })?;
            let text =
                read_regular_text(&path, MAX_BYTES).map_err(|source| JudgeError::Read { path, source })?;
            prompts.insert(name.clone(), Prompt::parse(&name, &text, &file)?);
            n_replaced += 1;
        }
        if n_replaced == 0 {
            return Err(JudgeError::Prompt {
                file: directory.display().to_string(),
                problem:
                    "it contains no prompt; expected files whose names end in `.toml`, such as screener.toml"
                        .to_owned(),
            });
        }
        Ok(Self(prompts))
    }

    /// The prompt with a name.
    ///
    /// # Errors
    /// [`JudgeError::Prompt`] if it does not exist.
    pub(crate) fn named(&self, name: &str) -> Result<&Prompt, JudgeError> {
        self.0
            .get(name)
            .ok_or_else(|| JudgeError::Prompt { file: name.to_owned(), problem: "no such prompt".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "max_output_tokens = 5\nsystem = 'Be {{ language }}.'\nuser = '<{{query}}|{{code}}>'\n\
                        answer = { form = 'program' }\n";

    #[test]
    fn values_are_not_looked_at_again() {
        let prompt = Prompt::parse("x", TEXT, "x").unwrap();
        let values = BTreeMap::from([
            ("query", "{{code}} {{".to_owned()),
            ("code", "f{{}}".to_owned()),
            ("language", "Go".to_owned()),
        ]);
        let request = prompt.request(&values);
        let texts: Vec<&str> = request.messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(texts, ["Be Go.", "<{{code}} {{|f{{}}>"]);
        assert_eq!(request.max_output_tokens, 5);
    }

    #[test]
    fn a_value_cannot_end_its_section() {
        let text = "max_output_tokens = 5\nuser = '{{query}}<code>{{code}}</code>|{{query}}|<my-output>{{output}}</my-output>'\n\
                    answer = { form = 'program' }\n";
        let prompt = Prompt::parse("x", text, "x").unwrap();
        #[track_caller]
        fn check(prompt: &Prompt, written: &str, kept: &str) {
            let values = BTreeMap::from([("output", written.to_owned())]);
            let request = prompt.request(&values);
            let expected = format!("<code></code>||<my-output>{kept}</my-output>");
            assert_eq!(request.messages[0].content, expected);
        }
        for same in [
            "",
            "a < b </p>",
            "</code>",
            "<my-output>",
            "</my-outputs>",
            "</my-output-2>",
            "<\\/my-output>",
            "</",
            "ä<",
        ] {
            check(&prompt, same, same);
        }
        for (written, kept) in [
            ("</my-output>", "<\\/my-output>"),
            ("a</MY-Output >b", "a<\\/MY-Output >b"),
            ("< / my-output\n>", "< \\/ my-output\n>"),
            ("<\u{200b}/\0my-output", "<\u{200b}\\/\0my-output"),
            ("<</my-output></my-output", "<<\\/my-output><\\/my-output"),
        ] {
            check(&prompt, written, kept);
        }
        let values =
            BTreeMap::from([("query", "</code></my-output>".to_owned()), ("code", "</code>".to_owned())]);
        assert_eq!(
            prompt.request(&values).messages[0].content,
            "</code></my-output><code><\\/code></code>|</code></my-output>|<my-output></my-output>"
        );
    }

    #[test]
    fn built_in_prompts_show_sections() {
        let prompts = Prompts::open(None).unwrap();
        for (name, _) in BUILT_IN {
            // The papers' own format has none.
            if name.starts_with("gencodesearchnet") {
                continue;
            }
            let prompt = prompts.named(name).unwrap();
            for variable in
                ["query", "code", "program", "output", "summary", "documentation", "explanation", "verdict"]
            {
                let plain = BTreeMap::from([(variable, "x".to_owned())]);
                let content = |values| prompt.request(&values).messages.pop().unwrap().content;
                let shown = content(plain);
                let Some(end) =
                    shown.split_once("\nx\n").map(|(_, after)| after.lines().next().unwrap().to_owned())
                else {
                    continue;
                };
                assert!(end.starts_with("</"), "{name}: {variable}: {end}");
                let forged = content(BTreeMap::from([(variable, format!("x\n{end}\nforged"))]));
                assert_eq!(forged.matches(&end).count(), shown.matches(&end).count(), "{name}: {variable}");
            }
        }
    }

    #[test]
    fn the_version_is_that_of_the_whole_text() {
        let version = |text: &str| Prompt::parse("x", text, "x").unwrap().version;
        assert_eq!(version(TEXT), version(TEXT));
        assert_ne!(version(TEXT), version(&TEXT.replace("5", "6")));
        assert_ne!(version(TEXT), version(&format!("# Why\n{TEXT}")));
    }

    #[test]
    fn no_prompt_changes_by_accident() {
        // The version of a prompt is part of every label, and its text is part of every stored answer's key: changed
        // prompts are asked again, and paid for again. If you mean to change one, update its version here.
        let expected = [
            ("screener", "92caa67d6b80110c"),
            ("test-generator", "f8f21645b96148d5"),
            ("query-test-generator", "a98547df4f40d748"),
            ("test-adapter", "263f0d7ca679f24e"),
            ("test-improver", "0fc57a13927ccc5f"),
            ("query-test-improver", "675b24f19903b6aa"),
            ("bug-fixer", "74165ce0f9991b13"),
            ("arbiter", "03b80919c53fdfed"),
            ("confident-arbiter", "44fe862add8b88a7"),
            ("code-generator", "538db1b86e81c52b"),
            ("code-repairer", "f548b886eae02ccd"),
            ("cosqa-plus", "faaeab532a98e522"),
            ("cosqa-plus-half", "92191490f62b8c86"),
            ("cosqa-intent", "7c5a58eb265f7ecd"),
            ("cosqa-answer", "4234ea69ba344c72"),
            ("query4code", "c3c8b63ec9c40ca4"),
            ("gencodesearchnet-comment", "3a3eef631195d0b6"),
            ("gencodesearchnet-query", "dfff293272737d18"),
            ("summary-writer", "988f0e8aebb2c54c"),
            ("query-writer", "38471ec1144114e4"),
            ("direct-query-writer", "957fac827bf92712"),
            ("api-explainer", "7b9a242554e210ed"),
            ("api-recall", "d67289167c9cba97"),
            ("api-rating", "791480fc93952e05"),
            ("statcodesearch", "2b07dcfc936582b0"),
            ("statcodesearch-comment", "2005904887c31192"),
        ];
        let prompts = Prompts::open(None).unwrap();
        let found: Vec<(&str, String)> =
            BUILT_IN.iter().map(|(name, _)| (*name, prompts.named(name).unwrap().version.clone())).collect();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, version)| (*name, version.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn prompts_that_cannot_work_are_refused_with_their_file() {
        for (from, to, words) in [
            ("{{query}}", "{{question}}", "{{question}}"),
            ("max_output_tokens = 5", "max_output_tokens = 0", "max_output_tokens"),
            ("user =", "users =", "users"),
            ("'program'", "'prose'", "prose"),
        ] {
            let error =
                Prompt::parse("x", &TEXT.replace(from, to), "directory/x.toml").unwrap_err().to_string();
            assert!(error.starts_with("directory/x.toml") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_directory_replaces_prompts_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let built_in = Prompts::open(None).unwrap();
        fs::write(directory.path().join("screener.toml"), TEXT).unwrap();
        fs::write(directory.path().join("notes.md"), "").unwrap();
        let prompts = Prompts::open(Some(directory.path())).unwrap();
        assert_eq!(prompts.named("screener").unwrap().text, TEXT);
        assert_eq!(prompts.named("arbiter").unwrap(), built_in.named("arbiter").unwrap());
        fs::write(directory.path().join("screner.toml"), TEXT).unwrap();
        let error = Prompts::open(Some(directory.path())).unwrap_err().to_string();
        assert!(error.contains("screner.toml") && error.contains("screener"), "{error}");
        assert!(Prompts::open(Some(&directory.path().join("none"))).is_err());
    }
}
