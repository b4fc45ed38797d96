//! The formats in which models answer, and parsing their answers.

use quarry_llm::Schema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::language::Language;

mod fields;
#[cfg(test)]
mod tests;

pub(crate) use fields::bare;
pub use fields::is_same_value;
use fields::{AnswerPart, FieldNames, NamedValue};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, tag = "form", rename_all = "lowercase")]
pub enum AnswerFormat {
    Json(VerdictFormat),
    /// `name: value, name: value`.
    Fields(VerdictFormat),
    /// One of a few words, at the beginning of the answer.
    Word(VerdictFormat),
    Program,
    /// Commands that install packages, one per line.
    Packages,
    /// A text for people, on its own or as a field of a JSON object.
    Text(TextFormat),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFormat {
    /// The field of a JSON object that holds the text, in any case; a bare text is accepted too.
    pub field: Option<String>,
    #[serde(default)]
    pub one_line: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictFormat {
    /// The name of the field with the verdict, and alternative spellings.
    #[serde(default)]
    pub verdict: Vec<String>,
    pub reason: Option<String>,
    /// The name of the field with the model's confidence, from 0 to 1.
    pub confidence: Option<String>,
    pub values: Vec<VerdictMeaning>,
}

/// Meaning of a verdict: a label, or a follow-up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictMeaning {
    /// Spellings, ignoring case; numbers may have any number of zeros after the decimal point.
    pub says: Vec<String>,
    /// 1 if the code answers the query, 0 if not.
    pub label: Option<u8>,
    pub grade: Option<u8>,
    /// Follow-up without a label.
    pub then: Option<FollowUp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowUp {
    /// The next step decides.
    Next,
    Discard,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ParsedAnswer {
    pub meaning: VerdictMeaning,
    pub reason: String,
    /// The model's confidence in the verdict, from 0 to 1, if it was asked for.
    pub confidence: Option<f64>,
}

impl AnswerFormat {
    /// Checks that every verdict has one meaning.
    ///
    /// # Errors
    /// Returns a message that names the invalid entry and what was expected.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (Self::Json(verdicts) | Self::Fields(verdicts) | Self::Word(verdicts)) = self else {
            return Ok(());
        };
        if verdicts.verdict.is_empty() && !matches!(self, Self::Word(_)) {
            return Err("`verdict` is empty; expected the name of the verdict".to_owned());
        }
        if verdicts.confidence.is_some() && matches!(self, Self::Word(_)) {
            return Err("a single word has no `confidence`; expected the form `json` or `fields`".to_owned());
        }
        let mut words: Vec<&String> = Vec::new();
        for meaning in &verdicts.values {
            if meaning.says.is_empty() {
                return Err("`says` is empty; expected the words that the model writes".to_owned());
            }
            if let Some(says) = meaning.says.iter().find(|says| bare(says) != *says) {
                return Err(format!("{says:?} has punctuation around it; expected the text without it"));
            }
            if let Some(twice) =
                meaning.says.iter().find(|says| words.iter().any(|known| is_same_value(known, says)))
            {
                return Err(format!("{twice:?} has two meanings; expected one"));
            }
            words.extend(&meaning.says);
            if meaning.label.is_some() == meaning.then.is_some() {
                return Err(format!("{:?} needs either `label` or `then`", meaning.says));
            }
            if meaning.label.is_some_and(|label| label > 1) {
                return Err(format!("{:?} has a label above 1; grades belong in `grade`", meaning.says));
            }
        }
        if verdicts.values.is_empty() {
            return Err("`values` is empty; expected the possible verdicts".to_owned());
        }
        Ok(())
    }

    /// The highest grade that an answer may have; `None` without grades.
    pub(crate) fn max_grade(&self) -> Option<u8> {
        match self {
            Self::Json(verdicts) | Self::Fields(verdicts) | Self::Word(verdicts) => {
                verdicts.values.iter().filter_map(|meaning| meaning.grade).max()
            }
            Self::Program | Self::Packages | Self::Text(_) => None,
        }
    }

    pub(crate) fn asks_for_confidence(&self) -> bool {
        match self {
            Self::Json(verdicts) | Self::Fields(verdicts) => verdicts.confidence.is_some(),
            Self::Word(_) | Self::Program | Self::Packages | Self::Text(_) => false,
        }
    }

    /// The schema that servers can enforce: the reason comes first, so that the model writes it before the verdict.
    pub(crate) fn schema(&self, name: &str) -> Option<Schema> {
        let verdicts = match self {
            Self::Json(verdicts) => verdicts,
            Self::Text(TextFormat { field: Some(field), .. }) => {
                let schema = json!({
                    "type": "object", "properties": {field: {"type": "string"}}, "required": [field],
                    "additionalProperties": false,
                });
                return Some(Schema { name: name.to_owned(), schema });
            }
            _ => return None,
        };
        let verdict = verdicts.verdict.first()?;
        let words: Vec<&String> = verdicts.values.iter().filter_map(|meaning| meaning.says.first()).collect();
        let mut properties = Map::new();
        if let Some(reason) = &verdicts.reason {
            properties.insert(reason.clone(), json!({"type": "string"}));
        }
        properties.insert(verdict.clone(), json!({"type": "string", "enum": words}));
        if let Some(confidence) = &verdicts.confidence {
            properties.insert(confidence.clone(), json!({"type": "number"}));
        }
        let required: Vec<&String> = properties.keys().collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        Some(Schema { name: name.to_owned(), schema })
    }

    /// Reads a verdict. If JSON was requested, `name: value` pairs are accepted too, and vice versa.
    ///
    /// # Errors
    /// Returns a message with what was expected and what was found, phrased for the model.
    pub(crate) fn read(&self, text: &str) -> Result<ParsedAnswer, String> {
        check_characters(text)?;
        match self {
            Self::Word(verdicts) => verdicts.read_word(text),
            Self::Json(verdicts) | Self::Fields(verdicts) => verdicts.read_named(text),
            Self::Program | Self::Packages | Self::Text(_) => {
                Err("this prompt does not ask for a verdict".to_owned())
            }
        }
    }

    /// Reads a text for people.
    ///
    /// # Errors
    /// Returns a message with what was expected and what was found, phrased for the model.
    pub(crate) fn read_text(&self, text: &str) -> Result<String, String> {
        check_characters(text)?;
        match self {
            Self::Text(format) => format.read(text),
            _ => Err("this prompt does not ask for a text".to_owned()),
        }
    }
}

impl TextFormat {
    fn read(&self, text: &str) -> Result<String, String> {
        let text = fields::without_thoughts(text).trim();
        let text = match &self.field {
            None => text.to_owned(),
            Some(field) => self.field_of(field, text)?,
        };
        // Models put quotes around what they were asked to write.
        let unquoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let text = unquoted.filter(|inside| !inside.contains('"')).unwrap_or(&text).trim();
        if text.is_empty() {
            return Err("expected a text, and there is none".to_owned());
        }
        if self.one_line && text.lines().count() > 1 {
            return Err(format!("expected one line, found {}", text.lines().count()));
        }
        Ok(text.to_owned())
    }

    /// The field of a JSON object, which may be in a code fence; text that is not JSON is the value itself.
    fn field_of(&self, field: &str, text: &str) -> Result<String, String> {
        let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
        let inside = fenced.map_or(text, |inside| inside.strip_prefix("json").unwrap_or(inside).trim());
        if !inside.starts_with('{') {
            let (name, rest) = inside.split_once(':').unwrap_or(("", inside));
            let is_named = name.trim_matches(['"', '*', ' ']).eq_ignore_ascii_case(field);
            return Ok(if is_named { rest.trim() } else { inside }.to_owned());
        }
        let object: Map<String, Value> = serde_json::from_str(inside)
            .map_err(|error| format!("expected a JSON object with `{field}`, and it is no JSON: {error}"))?;
        let mut values = object.iter().filter(|(name, _)| name.eq_ignore_ascii_case(field));
        match (values.next(), values.next()) {
            (Some((_, Value::String(value))), None) => Ok(value.trim().to_owned()),
            _ => Err(format!("expected a JSON object with one `{field}`, a string")),
        }
    }
}

impl VerdictFormat {
    fn expected(&self) -> String {
        let words: Vec<&str> =
            self.values.iter().filter_map(|meaning| meaning.says.first()).map(String::as_str).collect();
        words.join(", ")
    }

    /// The meaning of a value; `written` must match completely.
    fn meaning(&self, written: &str) -> Option<&VerdictMeaning> {
        self.values.iter().find(|meaning| meaning.says.iter().any(|says| is_same_value(says, written)))
    }

    fn read_word(&self, text: &str) -> Result<ParsedAnswer, String> {
        match self.meaning(bare(fields::without_thoughts(text))) {
            Some(meaning) => {
                Ok(ParsedAnswer { meaning: meaning.clone(), reason: String::new(), confidence: None })
            }
            None => Err(format!("expected one of {} and nothing else", self.expected())),
        }
    }

    fn read_named(&self, text: &str) -> Result<ParsedAnswer, String> {
        let name = self.verdict.first().map_or("", String::as_str);
        let mut names: Vec<(AnswerPart, &str)> =
            self.verdict.iter().map(|name| (AnswerPart::Verdict, name.as_str())).collect();
        names.extend(self.reason.iter().map(|name| (AnswerPart::Reason, name.as_str())));
        names.extend(self.confidence.iter().map(|name| (AnswerPart::Confidence, name.as_str())));
        let values = self.named_values(text, &names).ok_or_else(|| {
            format!(
                "expected `{name}` once, with one of {}, and it is repeated over and over",
                self.expected()
            )
        })?;
        let meaning = self.decided(name, &values)?.clone();
        let confidence = self.confidence.as_deref().map(|name| confidence(name, &values)).transpose()?;
        let reason = values
            .into_iter()
            .find(|given| given.part == AnswerPart::Reason || given.part == AnswerPart::Other);
        Ok(ParsedAnswer {
            meaning,
            reason: reason.map(|reason| reason.value).unwrap_or_default(),
            confidence,
        })
    }

    fn named_values(&self, text: &str, names: &FieldNames<'_>) -> Option<Vec<NamedValue>> {
        let answer = fields::without_escapes(fields::without_thoughts(text));
        let is_value = |part: AnswerPart, written: &str| match part {
            AnswerPart::Verdict => self.meaning(written).is_some(),
            AnswerPart::Confidence => probability(written).is_some(),
            AnswerPart::Reason | AnswerPart::Other => false,
        };
        fields::given(&answer, names, &is_value)
    }

    /// The verdict of an answer, which must be the same wherever it is given.
    fn decided(&self, name: &str, values: &[NamedValue]) -> Result<&VerdictMeaning, String> {
        let mut decided: Option<(&VerdictMeaning, &NamedValue)> = None;
        let verdicts = || values.iter().filter(|given| given.part == AnswerPart::Verdict);
        for given in verdicts().filter(|given| !given.is_mentioned) {
            let Some(meaning) = self.meaning(&given.value).filter(|_| given.is_whole) else {
                let shown = beginning(&given.value);
                return Err(format!("expected one of {} as `{name}`, found {shown:?}", self.expected()));
            };
            decided.get_or_insert((meaning, given));
        }
        let Some((meaning, first)) = decided else {
            return Err(format!(
                "expected `{name}` with one of {}, and there is no `{name}`",
                self.expected()
            ));
        };
        // A verdict mentioned within the reason may be a different one.
        let differs = |given: &&NamedValue| {
            self.meaning(&given.value).is_some_and(|other| !std::ptr::eq(other, meaning))
        };
        match verdicts().find(differs) {
            Some(other) => Err(format!(
                "expected one value as `{name}`, found {:?} and {:?}",
                beginning(&first.value),
                beginning(&other.value)
            )),
            None => Ok(meaning),
        }
    }
}

/// The confidence of an answer; if given several times, the values must agree.
fn confidence(name: &str, values: &[NamedValue]) -> Result<f64, String> {
    let mut given = values.iter().filter(|given| given.part == AnswerPart::Confidence && !given.is_mentioned);
    let wrong =
        |found: &str| format!("expected a number from 0 to 1 as `{name}`, found {:?}", beginning(found));
    let read = |given: &NamedValue| {
        probability(&given.value).filter(|_| given.is_whole).ok_or_else(|| wrong(&given.value))
    };
    let first = given.next().ok_or_else(|| wrong("")).and_then(read)?;
    match given.find(|given| read(given) != Ok(first)) {
        Some(other) => Err(wrong(&other.value)),
        None => Ok(first),
    }
}

/// The probability that a value denotes: a number from 0 to 1, or a percentage of at least one. A value below one
/// percent is more likely a probability with a stray percent sign.
fn probability(written: &str) -> Option<f64> {
    let (digits, is_percentage) = match written.strip_suffix('%') {
        Some(digits) => (digits.trim_end(), true),
        None => (written, false),
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| is_plain)?;
    match is_percentage {
        true => (number == 0.0 || (1.0..=100.0).contains(&number)).then_some(number / 100.0),
        false => (0.0..=1.0).contains(&number).then_some(number),
    }
}

/// Rejects unpaired surrogates, which may occur in a program, but not in a verdict or a text.
fn check_characters(text: &str) -> Result<(), String> {
    match quarry_llm::lone_surrogate(text) {
        None => Ok(()),
        Some(escape) => Err(format!("expected whole characters, found half of a surrogate pair: {escape}")),
    }
}

fn beginning(value: &str) -> String {
    value.chars().take(40).collect()
}

const MAX_PROGRAM_BYTES: usize = 200_000;

/// The program in an answer: the content of the longest code fence with the language or no language; the whole answer
/// if there is no fence.
///
/// # Errors
/// Returns a message with what was expected and what was found, phrased for the model.
pub(crate) fn program(answer: &str, language: &Language) -> Result<String, String> {
    let program = match longest_fence(answer, language) {
        Some(program) => program.trim(),
        None if answer.contains("\n```") || answer.starts_with("```") => {
            return Err(format!(
                "expected {} in its code fence, and the fences name something else",
                language.title
            ));
        }
        None => answer.trim(),
    };
    if program.is_empty() {
        return Err(format!("expected a {} program, and there is none", language.title));
    }
    if program.len() > MAX_PROGRAM_BYTES {
        return Err(format!("expected a program of at most {MAX_PROGRAM_BYTES} bytes"));
    }
    Ok(format!("{program}\n"))
}

fn longest_fence<'a>(answer: &'a str, language: &Language) -> Option<&'a str> {
    let mut longest: Option<&str> = None;
    let mut rest = answer;
    while let Some((_, after)) = rest.split_once("```") {
        let (name, body) = after.split_once('\n')?;
        // An unclosed fence extends to the end: the program may be truncated, which running it will show.
        let closed = body.strip_prefix("```").map(|after| ("", after)).or_else(|| body.split_once("\n```"));
        let (inside, after) = closed.unwrap_or((body, ""));
        let name = name.trim().to_lowercase();
        let fits = name.is_empty() || language.fences.contains(&name);
        if fits && longest.is_none_or(|longest| longest.len() < inside.len()) {
            longest = Some(inside);
        }
        rest = after;
    }
    longest
}
