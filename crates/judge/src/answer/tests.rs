use super::*;
use proptest::prelude::*;

use crate::prompt::Prompts;

fn grammar(form: &str) -> AnswerFormat {
    let text = format!(
        "form = '{form}'\nverdict = ['verdict', 'judgement']\nreason = 'why'\n\
         values = [{{ says = ['1', 'yes'], label = 1 }}, {{ says = ['0', 'no'], label = 0, grade = 2 }}, \
         {{ says = ['0.5'], then = 'next' }}]"
    );
    let grammar: AnswerFormat = toml::from_str(&text).unwrap();
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
    check("word", "no.\n", "0", "");
    check("fields", "verdict: 1, explanation: under another name", "1", "under another name");
    check("fields", "<think>verdict: 0 | 1?</think>\nverdict: 1, why: so", "1", "so");
    check("json", "{\"why\": \"a\\u0020b\", \"verdict\": \"0\"}\nThat is all.", "0", "a b");
}

/// Each of these answers was once read as a label, or resembles one that was.
#[test]
fn undecided_answers_are_asked_again() {
    let screener = Prompts::open(None).unwrap();
    let screener = screener.named("screener").unwrap().grammar();
    for value in [
        "0 | 0.5 | 1",
        "0,5",
        "0 or 0.5",
        "0 to 1",
        "\"0\" or \"1\"",
        "1 / 2",
        "1 out of 2",
        "1 or 0.5",
        "0/1",
        "0|1",
        "1, explanation: a preliminary_screening: 0 would be wrong",
        "1, or: 0",
        "between 0 and 1",
        "1 (or 0.5)",
        "not 0",
        "0.5?",
        "1 -> 0",
        "1\npreliminary_screening: 0",
        "1\n\nOr rather 0.",
        "0; 1",
    ] {
        for text in [
            format!("preliminary_screening: {value}"),
            format!("preliminary_screening: {value}, explanation: so"),
            format!("{{\"preliminary_screening\": {value}, \"explanation\": \"so\"}}"),
            format!("**preliminary_screening**: **{value}**"),
        ] {
            assert!(screener.read(&text).is_err(), "{text}: {:?}", screener.read(&text));
        }
    }
    for name in ["arbiter", "confident-arbiter"] {
        let prompts = Prompts::open(None).unwrap();
        let arbiter = prompts.named(name).unwrap().grammar();
        for text in [
            "final_verdict: 0 | 1",
            "final_verdict: 0 | 1, confidence: 0.9, final_explanation: <one or two sentences>",
            "final_verdict: 1, confidence: 0,9, final_explanation: final_verdict: 0",
            "final_verdict: 0.5, confidence: 0.9",
            "{\"final_verdict\": 1, \"confidence\": 0.9, \"final_verdict\": 0}",
            "{\"final_verdict\": 1, \"confidence\": 0.9, \"final\\u005fverdict\": 0}",
            "{\"final_verdict\": {\"before\": 0, \"after\": 1}, \"confidence\": 0.9}",
            "{\"final_verdict\": true, \"confidence\": 0.9}",
            "final_verdict: 1, confidence: 0.9\nFinal verdict: 0",
        ] {
            assert!(arbiter.read(text).is_err(), "{name} {text}: {:?}", arbiter.read(text));
        }
    }
}

/// The same for judges with one prompt.
#[test]
fn every_judge_asks_again_where_an_answer_is_undecided() {
    let prompts = Prompts::open(None).unwrap();
    for (name, texts) in [
        (
            "gencodesearchnet-query",
            &[
                "True or False",
                "True Or False",
                "True/False",
                "True, I think",
                "Not True",
                "TrueFalse",
                "True False",
                "True? False?",
                "True.\nOr False.",
            ][..],
        ),
        (
            "query4code",
            &[
                "{\"related_score\": \"<0 to 3>\"}",
                "{\"related_score\": \"2 or 3\"}",
                "{\"related_score\": \"2-3\"}",
                "{\"related_score\": 2.5}",
                "{\"related_score\": [2, 3]}",
                "{\"related_score\": 2, \"score\": 1}",
                "{\"related_score\": \"3/3\"}",
                "{\"related_score\": \"2 (out of 3)\"}",
            ],
        ),
        (
            "cosqa-answer",
            &[
                "{\"case\": \"<1 to 7>\"}",
                "{\"case\": \"4/5\"}",
                "{\"case\": \"4, 5\"}",
                "{\"case\": \"case 4\"}",
                "{\"explanation\": \"rather case: 5\", \"case\": \"4\"}",
                "{\"case\": \"3\", \"case\": \"6\"}",
            ],
        ),
        (
            "cosqa-intent",
            &["{\"intent\": \"yes\" or \"no\"}", "{\"intent\": \"yes/no\"}", "{\"intent\": \"yes and no\"}"],
        ),
        (
            "cosqa-plus",
            &[
                "{\"judgement\": \"yes\" or \"no\"}",
                "{\"judgement\": \"no, but nearly yes\"}",
                "{\"judgement\": [\"yes\", \"no\"]}",
                "{\"judgement\": \"yes\", \"judgment\": \"no\"}",
                "{\"judgement\": \"yes\"}\n{\"judgement\": \"no\"}",
                "{\"judgement\": \"not sure\"}",
                "{\"judgement\": \"no",
                "judgement: yes\njudgement: no",
            ],
        ),
    ] {
        let grammar = prompts.named(name).unwrap().grammar();
        for text in texts {
            assert!(grammar.read(text).is_err(), "{name} {text}: {:?}", grammar.read(text));
        }
    }
}

#[test]
fn a_fence_of_another_language_contains_no_program() {
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
    let grammar: AnswerFormat = toml::from_str(text).unwrap();
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
    for answer in [
        "verdict: 1, why: so",
        "verdict: 1, confidence: high",
        "verdict: 1, confidence: 7",
        "verdict: 1, confidence: 0,9",
        "verdict: 1, confidence: 0.9 or 0.8",
        "verdict: 1, confidence: <0.5 to 1.0>",
        "verdict: 1, confidence: 0.5-0.7",
        "verdict: 1, confidence: 0.9%",
        "verdict: 1, confidence: 0.9 (quite)",
        "verdict: 1, confidence: 0.8, confidence: 0.9",
        "verdict: 1, confidence: -0.5",
        "verdict: 1, confidence: 120%",
        "verdict: 1, confidence: 1e0",
    ] {
        assert!(grammar.read(answer).unwrap_err().contains("from 0 to 1 as `confidence`"), "{answer}");
    }
    assert_eq!(plain.read("verdict: 1").unwrap().confidence, None);
    let json: AnswerFormat = toml::from_str(&text.replace("fields", "json")).unwrap();
    let schema = json.schema("x").unwrap().schema;
    assert_eq!(schema["required"].as_array().unwrap().len(), 3);
    let word = toml::from_str::<AnswerFormat>(&text.replace("fields", "word")).unwrap();
    assert!(word.check().unwrap_err().contains("confidence"));
}

#[test]
fn invalid_verdicts_are_reported() {
    for (text, words) in [
        ("", "there is no `verdict`"),
        ("I cannot say", "there is no `verdict`"),
        ("verdict: perhaps", "found \"perhaps\""),
        ("{\"verdict\": null}", "found \"null\""),
        ("verdict: 0.7, why: x", "found \"0.7\""),
    ] {
        let problem = grammar("fields").read(text).unwrap_err();
        assert!(problem.contains(words) && problem.contains("1, 0, 0.5"), "{problem}");
    }
    let problem = grammar("fields").read("verdict: 1, why: verdict: 0").unwrap_err();
    assert_eq!(problem, "expected one value as `verdict`, found \"1\" and \"0\"");
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
        let problem = toml::from_str::<AnswerFormat>(text).unwrap().check().unwrap_err();
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

/// Characters around a value that carry no meaning.
const MARKUP: &str = " \n\"'`*_[](){}“”";

/// The values of [`grammar`], grouped by meaning, in every accepted spelling.
const VALUES: [(&[&str], &str); 3] =
    [(&["1", "1.0", "yes", "YES", "Yes"], "1"), (&["0", "0.0", "no", "No"], "0"), (&["0.5", ".50"], "0.5")];

/// A value, and the first spelling of its meaning.
fn value() -> impl Strategy<Value = (String, &'static str)> {
    (0..VALUES.len(), any::<prop::sample::Index>()).prop_map(|(number, index)| {
        let (written, meaning) = VALUES[number];
        ((*index.get(written)).to_owned(), meaning)
    })
}

/// A name, a colon and a value, in some markup.
fn given(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["verdict", "Verdict", "judgement", "JUDGEMENT"]);
    let quote = prop::sample::select(vec!["", "\"", "'", "**", "`"]);
    let colon = prop::sample::select(vec![":", ": ", " : ", " = ", ":\n"]);
    (name, quote.clone(), colon, quote, value).prop_map(|(name, around, colon, quote, value)| {
        format!("{around}{name}{around}{colon}{quote}{value}{quote}")
    })
}

fn between() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        ", ",
        "\n",
        "; ",
        "}\n{",
        ", why: so, ",
        "\n\nOr rather ",
        " ",
        "}",
        ". Then ",
        ", why: \"",
    ])
    .prop_map(str::to_owned)
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

    /// An answer that gives the verdict two values has no label, whatever the markup.
    #[test]
    fn two_values_are_none(
        first in value(), second in value(), form in prop::sample::select(vec!["fields", "json"]),
        open in prop::sample::select(vec!["", "{", "[", "```json\n{", "So: "]),
        close in ".{0,10}".prop_filter("extends the value", |close| !close.trim_start_matches('.').starts_with(char::is_alphanumeric)),
        dressed in any::<prop::sample::Index>(), between in between(),
    ) {
        prop_assume!(first.1 != second.1);
        let dress = |value: &str, index: usize| {
            let quote = ["", "\"", "'", "**"][index % 4];
            let name = ["verdict", "Verdict", "judgement", "\"verdict\"", "**judgement**"][index / 4 % 5];
            format!("{name}{}{quote}{value}{quote}", [": ", "=", ":"][index / 20 % 3])
        };
        let index = dressed.index(3600);
        let text = format!("{open}{}{between}{}{close}", dress(&first.0, index % 60), dress(&second.0, index / 60));
        prop_assert!(grammar(form).read(&text).is_err(), "{}", text);
    }

    /// Text in place of a value counts only if it is a value and nothing else.
    #[test]
    fn a_value_is_all_there_is(
        written in prop_oneof!["[01.5/|, \\-]{1,6}", "(1|0|0\\.5|yes|no|or|to|[ ,/|().;!?'\"*-]){1,5}", ".{0,8}"],
        form in prop::sample::select(vec!["fields", "json", "word"]),
    ) {
        prop_assume!(!written.contains([':', '=', '：']));
        let text = if form == "word" { written.clone() } else { format!("verdict: {written}") };
        if let Ok(reading) = grammar(form).read(&text) {
            // Trimmed one by one, as a reader would.
            let plain = written.trim_matches(|c: char| MARKUP.contains(c) || c.is_whitespace() || "’‘«»".contains(c) || ".,;!".contains(c));
            let (plain, is_fraction) = (plain.to_lowercase(), plain == "5" && written.contains(".5"));
            let number = written.trim_matches(|c: char| MARKUP.contains(c) || c.is_whitespace() || "’‘«»,;!".contains(c));
            let number: Option<f64> = number.trim_end_matches('.').parse().ok();
            let is_one = VALUES.iter().any(|(values, means)| {
                reading.meaning.says[0] == *means
                    && (values.iter().any(|value| value.to_lowercase() == plain.trim_end_matches('0').trim_end_matches('.') || value.to_lowercase() == plain)
                        || *means == "0.5" && (is_fraction || plain.trim_end_matches('0') == "0.5")
                        || number.is_some() && number == means.parse().ok())
            });
            let lines = written.lines().filter(|line| !line.trim().is_empty()).count();
            prop_assert!(is_one || lines > 1, "{:?} is {:?}", text, reading);
        }
    }

    /// A single value is read as it was meant, whatever surrounds it.
    #[test]
    fn one_value_is_read_in_any_dress(
        given in value().prop_flat_map(|(written, meaning)| (given(Just(written)), Just(meaning))),
        open in prop::sample::select(vec!["", "[", "{", "```\n", "```json\n{ ", "Sure:\n"]),
        why in "[a-z ]{0,20}[a-z]", is_first in any::<bool>(), form in prop::sample::select(vec!["fields", "json"]),
    ) {
        let (given, meaning) = given;
        prop_assume!(!why.contains("yes") && !why.contains("no"));
        let text = if is_first { format!("{open}{given}, why: {why}") } else { format!("{open}why: {why}, {given}") };
        let reading = grammar(form).read(&text);
        prop_assert_eq!(reading.map(|reading| (reading.meaning.says[0].clone(), reading.reason)), Ok((meaning.to_owned(), why.trim().to_owned())), "{}", text);
    }
}

#[test]
fn texts_are_read_alone_and_as_a_field() {
    let query = AnswerFormat::Text(TextFormat { field: Some("Query".to_owned()), one_line: true });
    for (answer, expected) in [
        (r#"{"Query": "merge two lists"}"#, "merge two lists"),
        (r#"{"query": " merge two lists "}"#, "merge two lists"),
        ("```json\n{\"Query\": \"merge two lists\"}\n```", "merge two lists"),
        ("merge two lists\n", "merge two lists"),
        ("\"merge two lists\"", "merge two lists"),
        ("Query: merge two lists", "merge two lists"),
        ("<think>{\"Query\": \"x\"}</think> merge: two lists", "merge: two lists"),
    ] {
        assert_eq!(query.read_text(answer).as_deref(), Ok(expected), "{answer}");
    }
    for (answer, problem) in [
        ("", "there is none"),
        ("{\"Query\": \"\"}", "there is none"),
        ("{\"Query\": 1}", "a string"),
        ("{\"Query\": \"a\", \"query\": \"b\"}", "one `Query`"),
        ("{\"Query\": \"a", "no JSON"),
        ("first\nsecond", "one line"),
    ] {
        let found = query.read_text(answer).unwrap_err();
        assert!(found.contains(problem), "{answer}: {found}");
    }
    let summary = AnswerFormat::Text(TextFormat::default());
    assert_eq!(summary.read_text(" First.\nSecond. ").as_deref(), Ok("First.\nSecond."));
    assert!(summary.read("1").is_err() && AnswerFormat::Program.read_text("x").is_err());
    assert_eq!(query.schema("q").unwrap().schema["required"][0], "Query");
}
