//! What a model's answer must say, and reading it out of what the model wrote.

use std::collections::BTreeSet;

use quarry_llm::{Schema, structured};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::language::Language;

/// What an answer must hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, tag = "form", rename_all = "lowercase")]
pub enum Grammar {
    /// A JSON object.
    Json(Verdicts),
    /// `name: value, name: value`.
    Fields(Verdicts),
    /// One of a few words, which comes first.
    Word(Verdicts),
    /// A program.
    Program,
    /// Commands that install packages, a line each.
    Packages,
}

/// A verdict, and what follows from it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdicts {
    /// The name of the verdict, and other spellings of it.
    #[serde(default)]
    pub verdict: Vec<String>,
    /// The name of the reasons.
    #[serde(default)]
    pub reason: Option<String>,
    /// The name of how sure the model is, from 0 to 1.
    #[serde(default)]
    pub confidence: Option<String>,
    /// What the verdict may be.
    pub values: Vec<Meaning>,
}

/// What a verdict means: a label, or what is done next.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meaning {
    /// How it is written, in any case; numbers with any number of zeros behind the point.
    pub says: Vec<String>,
    /// 1 if the code answers the query, 0 if not.
    #[serde(default)]
    pub label: Option<u8>,
    /// How well it does, where the guideline has grades.
    #[serde(default)]
    pub grade: Option<u8>,
    /// What follows where there is no label.
    #[serde(default)]
    pub then: Option<Then>,
}

/// What follows from a verdict that is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    /// The next step decides.
    Next,
    /// The pair is not one that has a label.
    Discard,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What the verdict means.
    pub meaning: Meaning,
    /// Why; empty where nothing was said.
    pub reason: String,
    /// How sure the model is that it is right, from 0 to 1, where it is asked.
    pub confidence: Option<f64>,
}

impl Grammar {
    /// Checks that every verdict has one meaning.
    ///
    /// # Errors
    /// What is wrong, and what was expected.
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
        let mut said = BTreeSet::new();
        for meaning in &verdicts.values {
            if meaning.says.is_empty() {
                return Err("`says` is empty; expected what the model writes".to_owned());
            }
            if let Some(twice) = meaning.says.iter().find(|says| !said.insert(canonical(says))) {
                return Err(format!("{twice:?} has two meanings; expected one"));
            }
            if meaning.label.is_some() == meaning.then.is_some() {
                return Err(format!("{:?} needs either `label` or `then`", meaning.says));
            }
            if meaning.label.is_some_and(|label| label > 1) {
                return Err(format!("{:?} has a label above 1; grades belong into `grade`", meaning.says));
            }
        }
        if verdicts.values.is_empty() {
            return Err("`values` is empty; expected what the verdict may be".to_owned());
        }
        Ok(())
    }

    /// The greatest grade that an answer may have, where there are grades.
    pub(crate) fn greatest_grade(&self) -> Option<u8> {
        match self {
            Self::Json(verdicts) | Self::Fields(verdicts) | Self::Word(verdicts) => {
                verdicts.values.iter().filter_map(|meaning| meaning.grade).max()
            }
            Self::Program | Self::Packages => None,
        }
    }

    /// Whether answers say how sure they are.
    pub(crate) fn asks_for_confidence(&self) -> bool {
        match self {
            Self::Json(verdicts) | Self::Fields(verdicts) => verdicts.confidence.is_some(),
            Self::Word(_) | Self::Program | Self::Packages => false,
        }
    }

    /// The form that servers can hold an answer to: reasons first, so that they stand before the verdict.
    pub(crate) fn schema(&self, name: &str) -> Option<Schema> {
        let Self::Json(verdicts) = self else { return None };
        let verdict = verdicts.verdict.first()?;
        let said: Vec<&String> = verdicts.values.iter().filter_map(|meaning| meaning.says.first()).collect();
        let mut properties = Map::new();
        if let Some(reason) = &verdicts.reason {
            properties.insert(reason.clone(), json!({"type": "string"}));
        }
        properties.insert(verdict.clone(), json!({"type": "string", "enum": said}));
        if let Some(confidence) = &verdicts.confidence {
            properties.insert(confidence.clone(), json!({"type": "number"}));
        }
        let required: Vec<&String> = properties.keys().collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        Some(Schema { name: name.to_owned(), schema })
    }

    /// Reads a verdict. What was asked for as JSON is also taken as named values, and the other way round.
    ///
    /// # Errors
    /// What was expected and what is there, in words for the model.
    pub(crate) fn read(&self, text: &str) -> Result<Reading, String> {
        match self {
            Self::Word(verdicts) => verdicts.read_word(text),
            Self::Json(verdicts) | Self::Fields(verdicts) => verdicts.read_named(text),
            Self::Program | Self::Packages => Err("this prompt asks for no verdict".to_owned()),
        }
    }
}

impl Verdicts {
    fn expected(&self) -> String {
        let said: Vec<&str> =
            self.values.iter().filter_map(|meaning| meaning.says.first()).map(String::as_str).collect();
        said.join(", ")
    }

    fn meaning(&self, written: &str) -> Option<&Meaning> {
        let written = canonical(written);
        self.values.iter().find(|meaning| meaning.says.iter().any(|says| canonical(says) == written))
    }

    /// The meaning of a value, or of its first word where more was written.
    fn meaning_of_value(&self, value: &str) -> Option<&Meaning> {
        let first = || value.split(|c: char| c.is_whitespace() || ",;:(".contains(c)).next();
        self.meaning(value).or_else(|| self.meaning(first()?))
    }

    fn read_word(&self, text: &str) -> Result<Reading, String> {
        let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let first = words.next().and_then(|word| self.meaning(word));
        // Who says `True or False` repeats the question.
        let other = words.find(|word| *word != "or").and_then(|word| self.meaning(word));
        match first.filter(|first| other.is_none_or(|other| std::ptr::eq(other, *first))) {
            Some(meaning) => {
                Ok(Reading { meaning: meaning.clone(), reason: String::new(), confidence: None })
            }
            None => Err(format!("expected one of {} and nothing else", self.expected())),
        }
    }

    fn read_named(&self, text: &str) -> Result<Reading, String> {
        let said = self.in_json(text).or_else(|| self.in_fields(text));
        let name = self.verdict.first().map_or("", String::as_str);
        let Some(Said { verdict, reason, confidence }) = said else {
            return Err(format!(
                "expected `{name}` with one of {}, and there is no `{name}`",
                self.expected()
            ));
        };
        let Some(meaning) = self.meaning_of_value(&verdict) else {
            let shown: String = verdict.chars().take(40).collect();
            return Err(format!("expected one of {} as `{name}`, found {shown:?}", self.expected()));
        };
        let confidence = match &self.confidence {
            Some(name) => Some(probability(confidence.as_deref().unwrap_or_default()).ok_or_else(|| {
                let shown: String = confidence.iter().flat_map(|value| value.chars()).take(40).collect();
                format!("expected a number from 0 to 1 as `{name}`, found {shown:?}")
            })?),
            None => None,
        };
        Ok(Reading { meaning: meaning.clone(), reason, confidence })
    }

    fn in_json(&self, text: &str) -> Option<Said> {
        let object: Map<String, Value> = structured::json(text).ok()?;
        let get = |wanted: &str| {
            let (_, value) = object.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
            match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
                _ => None,
            }
        };
        Some(Said {
            verdict: self.verdict.iter().find_map(|name| get(name))?,
            reason: self.reason.as_deref().and_then(get).unwrap_or_default(),
            confidence: self.confidence.as_deref().and_then(get),
        })
    }

    fn in_fields(&self, text: &str) -> Option<Said> {
        let names = self.verdict.iter().chain(&self.reason).chain(&self.confidence);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let mut values = structured::fields(text, &names);
        let confidence = if self.confidence.is_some() { values.pop().flatten() } else { None };
        let reason = if self.reason.is_some() { values.pop().flatten() } else { None };
        let verdict = values.into_iter().flatten().next()?;
        Some(Said { verdict, reason: reason.unwrap_or_default(), confidence })
    }
}

/// The named values of an answer, as they were written.
struct Said {
    verdict: String,
    reason: String,
    confidence: Option<String>,
}

/// The number from 0 to 1, or the percentage, that a value begins with.
fn probability(written: &str) -> Option<f64> {
    let text = written.trim_start_matches(|c: char| "\"'`* ".contains(c));
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].trim_end_matches('.').parse().ok()?;
    let number = if text[end..].trim_start().starts_with('%') { number / 100.0 } else { number };
    (0.0..=1.0).contains(&number).then_some(number)
}

/// A verdict without what does not count in it: case, marks around it, zeros behind the point.
fn canonical(written: &str) -> String {
    // A sign or a point at the beginning belongs to a number: -1 is not 1, and .5 is not 5.
    let number =
        written.trim_matches(|c: char| !c.is_alphanumeric() && !"+-.".contains(c)).trim_end_matches('.');
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() => number.to_string(),
        _ => written.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase(),
    }
}

/// The most bytes that a test program may have.
const MAX_PROGRAM_BYTES: usize = 200_000;

/// The program in an answer: what stands in the longest code fence of the language, or of no language; the whole
/// answer where there is no fence.
///
/// # Errors
/// What was expected and what is there, in words for the model.
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
        // A fence that is not closed goes up to the end: the program may be cut, which running it will tell.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grammar(form: &str) -> Grammar {
        let text = format!(
            "form = '{form}'\nverdict = ['verdict', 'judgement']\nreason = 'why'\n\
             values = [{{ says = ['1', 'yes'], label = 1 }}, {{ says = ['0', 'no'], label = 0, grade = 2 }}, \
             {{ says = ['0.5'], then = 'next' }}]"
        );
        let grammar: Grammar = toml::from_str(&text).unwrap();
        grammar.check().unwrap();
        grammar
    }

    fn check(form: &str, text: &str, says: &str, reason: &str) {
        let reading = grammar(form).read(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!((reading.meaning.says[0].as_str(), reading.reason.as_str()), (says, reason), "{text}");
    }

    #[test]
    fn verdicts_are_read_in_any_dress() {
        for form in ["fields", "json"] {
            check(form, "verdict: 1, why: it does", "1", "it does");
            check(form, "```\n[\"Verdict\": \"0.50\" , \"why\": \"a, b\"]\n```", "0.5", "a, b");
            check(form, "{\"why\": \"x\", \"verdict\": 0.5}", "0.5", "x");
            check(form, "{\"judgement\": \"YES.\"}", "1", "");
            check(form, "verdict: 1.0\nI am sure.\nwhy: it does", "1", "it does");
            check(form, "{\"verdict\": 0}", "0", "");
        }
        check("fields", "verdict: .5, why: half", "0.5", "half");
        check("fields", "verdict: **1.**", "1", "");
        assert!(grammar("fields").read("verdict: -1").is_err());
        check("word", " **Yes**", "1", "");
        check("word", "No, it does not.", "0", "");
        check("word", "no, no and no", "0", "");
    }

    #[test]
    fn a_fence_of_another_language_holds_no_program() {
        let python = Language::named("python").unwrap();
        assert_eq!(program("So:\n```python\nx = 1\n```", python).unwrap(), "x = 1\n");
        assert_eq!(program("x = 1", python).unwrap(), "x = 1\n");
        for other in ["```javascript\nlet x\n```", "So:\n```js\nlet x\n```"] {
            assert!(program(other, python).unwrap_err().contains("fences name something else"));
        }
    }

    #[test]
    fn confidence_is_read_where_it_is_asked_for() {
        let text = "form = 'fields'\nverdict = ['verdict']\nreason = 'why'\nconfidence = 'confidence'\n\
                    values = [{ says = ['1'], label = 1 }, { says = ['0'], label = 0 }]";
        let plain = grammar("fields");
        let grammar: Grammar = toml::from_str(text).unwrap();
        grammar.check().unwrap();
        for (answer, expected) in [
            ("verdict: 1, confidence: 0.85, why: so", 0.85),
            ("verdict: 1, why: so, confidence: **1.0**", 1.0),
            ("{\"why\": \"so\", \"verdict\": 1, \"confidence\": 0}", 0.0),
            ("verdict: 1\nconfidence: 70 %\nwhy: so", 0.7),
        ] {
            let reading = grammar.read(answer).unwrap_or_else(|problem| panic!("{answer}: {problem}"));
            assert_eq!((reading.confidence, reading.reason.as_str()), (Some(expected), "so"), "{answer}");
        }
        for answer in ["verdict: 1, why: so", "verdict: 1, confidence: high", "verdict: 1, confidence: 7"] {
            assert!(grammar.read(answer).unwrap_err().contains("from 0 to 1 as `confidence`"), "{answer}");
        }
        assert_eq!(plain.read("verdict: 1").unwrap().confidence, None);
        let json: Grammar = toml::from_str(&text.replace("fields", "json")).unwrap();
        let schema = json.schema("x").unwrap().schema;
        assert_eq!(schema["required"].as_array().unwrap().len(), 3);
        let word = toml::from_str::<Grammar>(&text.replace("fields", "word")).unwrap();
        assert!(word.check().unwrap_err().contains("confidence"));
    }

    #[test]
    fn what_is_no_verdict_is_said() {
        for (text, words) in [
            ("", "there is no `verdict`"),
            ("I cannot say", "there is no `verdict`"),
            ("verdict: perhaps", "found \"perhaps\""),
            ("{\"verdict\": null}", "`verdict`"),
            ("verdict: 0.7, why: x", "found \"0.7\""),
        ] {
            let problem = grammar("fields").read(text).unwrap_err();
            assert!(problem.contains(words) && problem.contains("1, 0, 0.5"), "{problem}");
        }
        assert!(grammar("word").read("It is true: yes").unwrap_err().contains("nothing else"));
        for text in ["", "yes or no", "Yes/No"] {
            assert!(grammar("word").read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reasons_stand_before_the_verdict_in_the_schema() {
        let schema = grammar("json").schema("x").unwrap().schema;
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(schema["properties"]["verdict"]["enum"], json!(["1", "0", "0.5"]));
        assert_eq!(names.len(), 2);
        assert!(grammar("fields").schema("x").is_none());
    }

    #[test]
    fn grammars_that_cannot_work_are_refused() {
        for (text, words) in [
            ("form = 'fields'\nvalues = []", "`verdict`"),
            ("form = 'word'\nvalues = []", "`values`"),
            (
                "form = 'word'\nvalues = [{ says = ['1'], label = 1 }, { says = ['1.0'], label = 0 }]",
                "two meanings",
            ),
            ("form = 'word'\nvalues = [{ says = ['1'] }]", "either"),
            ("form = 'word'\nvalues = [{ says = ['1'], label = 3 }]", "grade"),
            ("form = 'word'\nvalues = [{ says = [], label = 1 }]", "`says`"),
        ] {
            let problem = toml::from_str::<Grammar>(text).unwrap().check().unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn a_program_is_taken_out_of_its_fence() {
        let python = Language::named("python").unwrap();
        let check = |answer: &str, expected: &str| assert_eq!(program(answer, python).unwrap(), expected);
        check("x = 1\n", "x = 1\n");
        check("Here:\n```python\nx = 1\n```\nand so on", "x = 1\n");
        check("```bash\npip install something-long\n```\n```py\ny\n```", "y\n");
        check("```\nshort\n```\n```python\nmuch longer\n```", "much longer\n");
        check("```python\ncut", "cut\n");
        for none in ["", "```python\n\n```", "  \n"] {
            assert!(program(none, python).is_err(), "{none}");
        }
        assert!(program(&"x".repeat(MAX_PROGRAM_BYTES + 1), python).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(text in prop_oneof![".{0,120}", "[{}\"':,a-z`\n\\[\\]01.]{0,120}"]) {
            let python = Language::named("python").unwrap();
            let _ = (grammar("json").read(&text), grammar("word").read(&text), program(&text, python));
            let _ = (python.packages(&text), python.missing_package(&text, &text), python.without_noise(&text));
        }

        #[test]
        fn a_program_survives_its_fence(body in "[a-z =\n]{0,60}[a-z]", before in "[a-z \n]{0,20}", name in prop::sample::select(vec!["", "python", "py"])) {
            let python = Language::named("python").unwrap();
            let fenced = format!("{before}\n```{name}\n{body}\n```\nend");
            prop_assert_eq!(program(&fenced, python).unwrap(), format!("{}\n", body.trim()));
        }
    }
}
