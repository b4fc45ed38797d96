//! The judges as functions from the evidence to the next step.

use quarry_judge::{Event, Judge, ModelAnswer, Next, Outcome, Prompts, Run, TestProgram};
use quarry_llm::Role;

use crate::fixture::{run, sum};

fn judge(name: &str) -> Judge {
    Judge::named(name, &Prompts::open(None).unwrap(), 2).unwrap().unwrap()
}

fn answer(prompt: &str, text: &str) -> Event {
    Event::Answer(ModelAnswer { prompt: prompt.into(), text: text.into() })
}

fn ran(source: &str, code: i32, stderr: &str) -> Event {
    let program = TestProgram { language: "python".into(), source: source.into(), ..TestProgram::default() };
    Event::Run(run(program, code, stderr))
}

/// The name of the prompt, and the text of the last message.
#[track_caller]
fn asked(next: Next) -> (String, String) {
    match next {
        Next::Ask(question) => (question.prompt, question.request.messages.last().unwrap().content.clone()),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn decided(name: &str, events: &[Event]) -> (Outcome, Option<u8>, String) {
    match judge(name).next(&sum(), events).unwrap() {
        Next::Decide(verdict) => (verdict.outcome, verdict.grade, verdict.decided_by),
        other => panic!("{other:?}"),
    }
}

const UNCLEAR: &str = "preliminary_screening: 0.5, explanation: perhaps";

#[test]
fn the_screener_sees_query_and_code_and_not_the_label() {
    let Next::Ask(question) = judge("agents").next(&sum(), &[]).unwrap() else { panic!() };
    let text: String = question.request.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(question.prompt, "screener");
    assert!(
        text.contains("python add two numbers") && text.contains("return a + b") && text.contains("Python")
    );
    assert!(!text.contains("{{") && !text.contains("label"));
    assert_eq!(question.version.len(), 16);
}

#[test]
fn clear_pairs_are_decided_by_the_screener() {
    let screened =
        |value: &str| answer("screener", &format!("preliminary_screening: {value}, explanation: so"));
    assert_eq!(decided("agents", &[screened("1")]), (Outcome::Yes, None, "screener".into()));
    assert_eq!(decided("agents", &[screened("0")]), (Outcome::No, None, "screener".into()));
    let next = judge("agents").next(&sum(), &[screened("0.5")]).unwrap();
    assert_eq!(asked(next).0, "test-generator");
}

#[test]
fn an_unparsable_answer_is_asked_again_with_the_problem_and_then_counts_as_unclear() {
    let first = answer("screener", "I like it");
    let next = judge("agents").next(&sum(), std::slice::from_ref(&first)).unwrap();
    let Next::Ask(question) = &next else { panic!("{next:?}") };
    let roles: Vec<Role> = question.request.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
    assert!(asked(next.clone()).1.contains("no `preliminary_screening`"));
    let next = judge("agents").next(&sum(), &[first, answer("screener", "")]).unwrap();
    assert_eq!(asked(next).0, "test-generator");
}

#[test]
fn a_program_is_run_and_the_arbiter_sees_its_outcome() {
    let judge = judge("agents");
    let mut events =
        vec![answer("screener", UNCLEAR), answer("test-generator", "```python\nassert add(1, 1) == 3\n```")];
    let Next::Run(program) = judge.next(&sum(), &events).unwrap() else { panic!() };
    assert_eq!(program.source, "assert add(1, 1) == 3\n");
    events.push(ran(&program.source, 1, "AssertionError: three"));
    let (prompt, text) = asked(judge.next(&sum(), &events).unwrap());
    assert_eq!(prompt, "arbiter");
    for part in
        ["an assertion did not hold", "AssertionError: three", "add(1, 1) == 3", "python add two numbers"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A failed test does not force the verdict.
    events.push(answer("arbiter", "final_verdict: 1, final_explanation: the test is wrong"));
    assert_eq!(decided("agents", &events), (Outcome::Yes, None, "arbiter".into()));
}

#[test]
fn the_bug_fixer_is_asked_for_missing_packages_only() {
    let judge = judge("agents");
    let before = [answer("screener", UNCLEAR), answer("test-generator", "import yaml\n")];
    let after = |stderr: &str, more: &[Event]| {
        let mut events = before.to_vec();
        events.push(ran("import yaml\n", 1, stderr));
        events.extend_from_slice(more);
        asked(judge.next(&sum(), &events).unwrap())
    };
    assert_eq!(after("NameError: name 'x' is not defined", &[]).0, "arbiter");
    let missing = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'yaml'";
    assert_eq!(after(missing, &[]).0, "bug-fixer");
    let (prompt, text) = after(missing, &[answer("bug-fixer", "pip install PyYAML")]);
    assert!(
        prompt == "arbiter" && text.contains("the package yaml is missing (to be installed: PyYAML)"),
        "{text}"
    );
    let hopeless = [answer("bug-fixer", "no idea"), answer("bug-fixer", "none")];
    assert_eq!(after(missing, &hopeless).0, "arbiter");
}

#[test]
fn missing_packages_are_installed_by_name_and_then_as_the_bug_fixer_says() {
    let judge = judge("agents").with_packages();
    assert_ne!(judge.version, self::judge("agents").version);
    let source = "import yaml\nassert add(1, 1) == 2\n";
    let missing = |name: &str| {
        format!("Traceback (most recent call last):\nModuleNotFoundError: No module named '{name}'")
    };
    let with = |packages: &[&str], run: Event| match run {
        Event::Run(mut run) => {
            run.program.packages = packages.iter().map(|&package| package.to_owned()).collect();
            Event::Run(run)
        }
        other => other,
    };
    let unavailable = |packages: &[&str]| {
        let run = Run::unavailable(
            TestProgram { language: "python".into(), source: source.into(), ..TestProgram::default() },
            "there is no such package".into(),
        );
        with(packages, Event::Run(run))
    };
    #[track_caller]
    fn wants(next: Next) -> Vec<String> {
        match next {
            Next::Run(program) => program.packages,
            other => panic!("{other:?}"),
        }
    }
    let mut events = vec![answer("screener", UNCLEAR), answer("test-generator", source)];
    assert!(wants(judge.next(&sum(), &events).unwrap()).is_empty());
    events.push(ran(source, 1, &missing("yaml")));
    assert_eq!(wants(judge.next(&sum(), &events).unwrap()), ["yaml"]);
    events.push(unavailable(&["yaml"]));
    let (prompt, text) = asked(judge.next(&sum(), &events).unwrap());
    assert!(prompt == "bug-fixer" && text.contains("there is no such package"), "{text}");
    events.push(answer("bug-fixer", "pip install PyYAML"));
    assert_eq!(wants(judge.next(&sum(), &events).unwrap()), ["PyYAML"]);
    // A newly discovered missing package is added.
    events.push(with(&["PyYAML"], ran(source, 1, &missing("numpy"))));
    assert_eq!(wants(judge.next(&sum(), &events).unwrap()), ["PyYAML", "numpy"]);
    let mut repaired = events.clone();
    repaired.push(with(&["PyYAML", "numpy"], ran(source, 0, "")));
    let (prompt, text) = asked(judge.next(&sum(), &repaired).unwrap());
    assert!(prompt == "arbiter" && text.contains("how many assertions ran is not known"), "{text}");
    // A wrong guess is dropped, and an answer without a new package ends the repair.
    events.push(with(&["PyYAML", "numpy"], ran(source, 1, &missing("numpy"))));
    assert_eq!(asked(judge.next(&sum(), &events).unwrap()).0, "bug-fixer");
    events.push(answer("bug-fixer", "pip install numpy"));
    let (prompt, text) = asked(judge.next(&sum(), &events).unwrap());
    assert!(prompt == "arbiter" && text.contains("the package numpy is missing"), "{text}");
}

#[test]
fn without_a_program_the_arbiter_decides_by_reading() {
    let mut events =
        vec![answer("screener", UNCLEAR), answer("test-generator", ""), answer("test-generator", "```\n```")];
    let (prompt, text) = asked(judge("agents").next(&sum(), &events).unwrap());
    assert!(prompt == "arbiter" && text.contains("there is no program"), "{text}");
    events.extend([answer("arbiter", "well"), answer("arbiter", "final_verdict: maybe")]);
    assert_eq!(decided("agents", &events), (Outcome::Unresolved, None, "arbiter".into()));
}

#[test]
fn evidence_of_another_judge_is_an_error() {
    let judge = judge("agents");
    for events in [
        vec![answer("arbiter", "final_verdict: 1")],
        vec![answer("screener", UNCLEAR), ran("x", 0, "")],
        vec![answer("screener", "preliminary_screening: 1"), answer("screener", UNCLEAR)],
        vec![answer("screener", UNCLEAR), answer("test-generator", "a"), ran("b\n", 0, "")],
    ] {
        let error = judge.next(&sum(), &events).unwrap_err();
        assert_eq!(error.position, events.len(), "{error}");
    }
}

#[test]
fn single_prompts_follow_their_guidelines() {
    for (name, text, outcome, grade) in [
        ("cosqa-plus", "{\"analysis\": \"it adds\", \"judgement\": \"yes\"}", Outcome::Yes, None),
        ("cosqa-plus", "{\"analysis\": \"it adds\", \"judgment\": \"No\"}", Outcome::No, None),
        ("cosqa-plus-half", "{\"judgement\": \"yes\"}", Outcome::Yes, None),
        ("query4code", "{\"explanation\": \"x\", \"related_score\": 3}", Outcome::Yes, Some(3)),
        ("query4code", "{\"Explanation\": \"x\", \"Score\": \"2\"}", Outcome::Yes, Some(2)),
        ("query4code", "{\"related_score\": 1}", Outcome::No, Some(1)),
        ("query4code", "{\"related_score\": 0}", Outcome::No, Some(0)),
        ("gencodesearchnet-query", "True", Outcome::Yes, None),
        ("gencodesearchnet-comment", " false.", Outcome::No, None),
    ] {
        let found = decided(name, &[answer(name, text)]);
        assert_eq!((found.0, found.1), (outcome, grade), "{name}: {text}");
    }
}

#[test]
fn cosqa_asks_for_the_intent_first() {
    assert_eq!(decided("cosqa", &[answer("cosqa-intent", "{\"intent\": \"no\"}")]).0, Outcome::Discarded);
    let yes = answer("cosqa-intent", "{\"explanation\": \"x\", \"intent\": \"yes\"}");
    assert_eq!(asked(judge("cosqa").next(&sum(), std::slice::from_ref(&yes)).unwrap()).0, "cosqa-answer");
    for (case, outcome) in
        [1, 2, 3, 4, 5, 6, 7].into_iter().zip([[Outcome::Yes; 4].as_slice(), &[Outcome::No; 3]].concat())
    {
        let events = [yes.clone(), answer("cosqa-answer", &format!("{{\"case\": \"{case}\"}}"))];
        // Only the cases in which all is done are exact.
        let grade = [3, 3, 2, 2, 1, 1, 0][case - 1];
        let found = decided("cosqa", &events);
        assert_eq!((found.0, found.1), (outcome, Some(grade)), "case {case}");
    }
}

#[test]
fn without_tests_open_pairs_are_unresolved() {
    assert_eq!(decided("screener", &[answer("screener", UNCLEAR)]).0, Outcome::Unresolved);
    let bad = [answer("cosqa-plus", "yes it does"), answer("cosqa-plus", "{}")];
    assert_eq!(decided("cosqa-plus", &bad).0, Outcome::Unresolved);
}

#[test]
fn every_judge_has_a_version_of_its_own_and_asks_first() {
    let mut versions: Vec<String> = Judge::names().map(|(name, _)| judge(name).version).collect();
    let n_judges = versions.len();
    for (name, about) in Judge::names() {
        assert!(!about.is_empty());
        asked(judge(name).next(&sum(), &[]).unwrap());
    }
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), n_judges);
}

#[test]
fn a_replaced_prompt_changes_the_version_and_must_fit_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let prompt =
        |answer: &str| format!("max_output_tokens = 9\nuser = '{{{{query}}}}?'\nanswer = {answer}\n");
    let open = |text: &str| {
        std::fs::write(directory.path().join("arbiter.toml"), text).unwrap();
        Judge::named("agents", &Prompts::open(Some(directory.path())).unwrap(), 2)
    };
    let own =
        prompt("{ form = 'word', values = [{ says = ['yes'], label = 1 }, { says = ['no'], label = 0 }] }");
    assert_ne!(open(&own).unwrap().unwrap().version, judge("agents").version);
    let error = open(&prompt("{ form = 'program' }")).unwrap_err().to_string();
    assert!(error.contains("arbiter") && error.contains("does not fit"), "{error}");
}
