//! Options of judges beyond CoSQA+'s agents, as functions from the evidence to the next step.

use quarry_judge::{
    Assertions, Event, Judge, JudgeOptions, ModelAnswer, Next, OptionalStep, Outcome, Pair, Prompts,
    Question, Run, TestOptions, TestProgram, TestsFrom, Verdict,
};

use crate::fixture::{run, sum};

const CODE: &str = "def add(a, b):\n    return a + b\n";

/// A judge with a pair, advanced step by step.
struct Walk {
    judge: Judge,
    pair: Pair,
    events: Vec<Event>,
}

impl Walk {
    /// Advances to the first question about tests.
    fn new(tests: TestOptions, alternative: Option<&str>) -> Self {
        let options = JudgeOptions { tests, ..JudgeOptions::default() };
        let judge =
            Judge::with_options("agents", &Prompts::open(None).unwrap(), 2, options).unwrap().unwrap();
        let pair = Pair {
            query: "python sum of two numbers".into(),
            code: CODE.into(),
            label: None,
            alternative: alternative.map(str::to_owned),
            ..sum()
        };
        let mut walk = Self { judge, pair, events: Vec::new() };
        walk.answer("screener", "preliminary_screening: 0.5, explanation: perhaps");
        walk
    }

    #[track_caller]
    fn next(&self) -> Next {
        self.judge.next(&self.pair, &self.events).unwrap()
    }

    /// Answers the question of `prompt`, which has to be the next step.
    #[track_caller]
    fn answer(&mut self, prompt: &str, text: &str) -> Question {
        let Next::Ask(question) = self.next() else { panic!("{:?}", self.next()) };
        assert_eq!(question.prompt, prompt);
        self.events.push(Event::Answer(ModelAnswer { prompt: prompt.into(), text: text.into() }));
        question
    }

    /// Ends the program that has to be the next step with a status: 0 passes, 1 fails an assertion, others are
    /// errors.
    #[track_caller]
    fn run(&mut self, code: i32) -> TestProgram {
        let Next::Run(program) = self.next() else { panic!("{:?}", self.next()) };
        let stderr = if code == 1 { "AssertionError: no" } else { "" };
        let failed = u64::from(code == 1);
        let assertions = Some(Assertions { ran: 1, sites: 1, failed, ..Assertions::default() });
        self.events.push(Event::Run(Run { assertions, ..run(program.clone(), code, stderr) }));
        program
    }

    /// The text shown to the arbiter, who says yes.
    #[track_caller]
    fn arbiter(&mut self) -> String {
        let question = self.answer("arbiter", "final_verdict: 1, final_explanation: so");
        assert!(matches!(self.next(), Next::Decide(Verdict { outcome: Outcome::Yes, .. })));
        question.request.messages.last().unwrap().content.clone()
    }
}

fn text(question: &Question) -> String {
    question.request.messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}

fn program(assertion: &str) -> String {
    format!("{CODE}\n\ndef main():\n    {assertion}\n\nmain()\n")
}

#[test]
fn tests_from_the_query_are_written_before_the_code_is_seen() {
    let mut walk = Walk::new(TestOptions { from: TestsFrom::Query, ..TestOptions::default() }, None);
    let question = walk.answer("query-test-generator", "```python\nassert subject(1, 2) == 3\n```");
    let asked = text(&question);
    assert!(asked.contains("sum of two numbers") && asked.contains("def subject(a, b)"), "{asked}");
    assert!(!asked.contains("a + b") && !asked.contains("add"), "{asked}");
    assert_eq!(question.optional_step, None);
    let question = walk.answer("test-adapter", "def add(a, b):\n    return a + b\n\nsubject = add");
    let asked = text(&question);
    assert!(
        asked.contains(CODE) && !asked.contains("sum of two numbers") && !asked.contains("== 3"),
        "{asked}"
    );
    assert_eq!(question.optional_step, Some(OptionalStep::FromQuery));
    let run = walk.run(0);
    assert_eq!(
        run.source,
        "def add(a, b):\n    return a + b\n\nsubject = add\n\n\nassert subject(1, 2) == 3\n"
    );
    assert_eq!(run.optional_step, None);
    assert!(walk.arbiter().contains("1 assertion ran, and it held"));
}

#[test]
fn code_without_a_function_is_tested_by_tests_that_see_it() {
    let mut walk = Walk::new(TestOptions { from: TestsFrom::Query, ..TestOptions::default() }, None);
    walk.pair.code = "print(1 + 2)".into();
    walk.answer("test-generator", "assert True");
    walk.run(0);
    walk.arbiter();
}

#[test]
fn a_prompt_for_unseen_tests_may_not_show_the_code() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, user: &str| {
        let text = format!("max_output_tokens = 9\nuser = '{user}'\nanswer = {{ form = 'program' }}\n");
        std::fs::write(directory.path().join(name), text).unwrap();
        Judge::named("agents", &Prompts::open(Some(directory.path())).unwrap(), 2)
    };
    assert!(write("query-test-generator.toml", "{{query}} {{interface}}").is_ok());
    let error = write("query-test-generator.toml", "{{query}} {{code}}").unwrap_err().to_string();
    assert!(error.contains("query-test-generator") && error.contains("unseen"), "{error}");
}

#[test]
fn several_programs_are_written_apart_and_the_arbiter_sees_all() {
    let mut walk = Walk::new(TestOptions { programs: 3, ..TestOptions::default() }, None);
    let mut asked = Vec::new();
    for number in 0..3 {
        let question = walk.answer("test-generator", &format!("assert {number} == 0"));
        asked.push((question.request.sample, question.optional_step, question.request.temperature));
        assert!(!text(&question).contains("assert 0"));
        walk.run(number.min(1));
    }
    let further = Some(OptionalStep::Programs);
    assert_eq!(asked, [(0, None, Some(0.0)), (1, further, Some(0.7)), (2, further, Some(0.7))]);
    let prompt = walk.arbiter();
    for part in [
        "Program 1:\nassert 0",
        "Program 3:\nassert 2",
        "Program 1:\nended without an error; 1 assertion ran, and it held",
        "Program 2:\nan assertion did not hold",
    ] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
}

#[test]
fn rounds_are_samples_of_their_own() {
    let judge = |round: u32, programs: u32, temperature: Option<f64>| {
        let options =
            JudgeOptions { round, temperature, tests: TestOptions { programs, ..TestOptions::default() } };
        Judge::with_options("agents", &Prompts::open(None).unwrap(), 2, options).unwrap().unwrap()
    };
    let pair = Walk::new(TestOptions::default(), None).pair;
    let first = |judge: &Judge| match judge.next(&pair, &[]).unwrap() {
        Next::Ask(question) => (question.request.sample, question.request.temperature),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        [0, 1, 2].map(|round| first(&judge(round, 2, Some(0.3)))),
        [(0, Some(0.3)), (16, Some(0.3)), (32, Some(0.3))]
    );
    // Without a given temperature, rounds use a positive one; otherwise all would give the same answers.
    assert_eq!([0, 1].map(|round| first(&judge(round, 2, None)).1), [Some(0.0), Some(0.7)]);
    assert_ne!(judge(0, 1, None).version, judge(1, 1, None).version);
}

#[test]
fn programs_are_tried_on_broken_functions() {
    let mut walk = Walk::new(TestOptions { mutation: true, ..TestOptions::default() }, None);
    walk.answer("test-generator", &program("assert add(1, 2) == 3"));
    assert_eq!(walk.run(0).optional_step, None);
    for (broken, code) in [("raise NotImplementedError()", 2), ("return None", 1), ("return a - b", 0)] {
        let run = walk.run(code);
        assert!(
            run.source.contains(broken) && run.source.contains("assert add(1, 2) == 3"),
            "{}",
            run.source
        );
        assert_eq!(run.optional_step, Some(OptionalStep::Mutation));
    }
    // An undetected operator change is reported, but does not cause a rewrite.
    let prompt = walk.arbiter();
    assert!(prompt.contains("of 3 versions with a fault put in, the program fails for 2"), "{prompt}");
    assert!(prompt.contains("`+` is `-` in its line 2") && !prompt.contains("proves nothing"), "{prompt}");
    // Mutants are not shown as the program.
    assert!(!prompt.contains("NotImplementedError()"), "{prompt}");
}

#[test]
fn a_program_that_proves_nothing_is_rewritten_once() {
    let mut walk = Walk::new(TestOptions { mutation: true, ..TestOptions::default() }, None);
    walk.answer("test-generator", &program("assert True"));
    (0..4).for_each(|_| drop(walk.run(0)));
    let better = program("assert add(1, 2) == 3");
    let question = walk.answer("test-improver", &better);
    assert_eq!(question.optional_step, Some(OptionalStep::Rewritten));
    let asked = text(&question);
    assert!(asked.contains("only raises an error; its whole body only returns None"), "{asked}");
    assert!(asked.contains("assert True") && !asked.contains("`+` is"), "{asked}");
    assert_eq!(walk.run(0).source, better);
    for code in [2, 1, 1] {
        walk.run(code);
    }
    let prompt = walk.arbiter();
    assert!(
        prompt.contains("the program fails for 3") && prompt.contains("assert add(1, 2) == 3"),
        "{prompt}"
    );

    // The second program is described as a rewrite, and its result counts even if it fails.
    for code in [0, 1] {
        let mut walk = Walk::new(TestOptions { mutation: true, ..TestOptions::default() }, None);
        walk.answer("test-generator", &program("assert True"));
        (0..4).for_each(|_| drop(walk.run(0)));
        walk.answer("test-improver", &program("assert 1"));
        walk.run(code);
        (0..3).filter(|_| code == 0).for_each(|_| drop(walk.run(0)));
        let prompt = walk.arbiter();
        assert_eq!(prompt.contains("it proves nothing"), code == 0, "{prompt}");
        assert_eq!(prompt.contains("an assertion did not hold"), code == 1, "{prompt}");
    }
}

#[test]
fn a_program_that_failed_is_not_tried_on_broken_functions() {
    let mut walk = Walk::new(TestOptions { mutation: true, ..TestOptions::default() }, None);
    walk.answer("test-generator", &program("assert add(1, 2) == 4"));
    walk.run(1);
    assert!(!walk.arbiter().contains("fault"));
}

#[test]
fn unseen_tests_are_improved_without_the_code() {
    let tests = TestOptions { from: TestsFrom::Query, mutation: true, ..TestOptions::default() };
    let mut walk = Walk::new(tests, None);
    walk.answer("query-test-generator", "assert True");
    walk.answer("test-adapter", &format!("{CODE}\nsubject = add"));
    (0..4).for_each(|_| drop(walk.run(0)));
    let question = walk.answer("query-test-improver", "assert subject(1, 2) == 3");
    let asked = text(&question);
    assert!(
        asked.contains("def subject(a, b)") && !asked.contains("a + b") && !asked.contains("def add"),
        "{asked}"
    );
    let run = walk.run(0);
    assert!(
        run.source.starts_with(CODE) && run.source.ends_with("assert subject(1, 2) == 3\n"),
        "{}",
        run.source
    );
}

#[test]
fn the_arbiter_sees_test_results_of_another_candidate() {
    let tests = || TestOptions { differential: true, ..TestOptions::default() };
    let other = "def plus(x, y):\n    return y + x\n";
    for (own, alternative, words) in [
        (0, 0, "also hold for another candidate"),
        (1, 1, "nor do the assertions all hold for another"),
        (0, 1, "an assertion does not hold"),
        (1, 0, "for another candidate for the query all assertions hold"),
        (0, 2, "1 assertion ran, and it held"),
    ] {
        let mut walk = Walk::new(tests(), Some(other));
        walk.answer("test-generator", &program("assert add(1, 2) == 3"));
        walk.run(own);
        let run = walk.run(alternative);
        assert_eq!(run.optional_step, Some(OptionalStep::Differential));
        assert!(run.source.starts_with("def plus(x, y):\n    return y + x\n\nadd = plus"), "{}", run.source);
        let prompt = walk.arbiter();
        assert!(prompt.contains(words), "{words}: {prompt}");
        assert_eq!(prompt.contains("another candidate"), alternative < 2, "{prompt}");
    }
    // No alternative, or none that can be compared.
    for (alternative, code) in [(None, 0), (Some("x = 1"), 0), (Some(other), 2)] {
        let mut walk = Walk::new(tests(), alternative);
        walk.answer("test-generator", &program("assert add(1, 2) == 3"));
        walk.run(code);
        walk.arbiter();
    }
}

#[test]
fn a_later_candidate_does_not_change_decided_results() {
    let mut walk = Walk::new(TestOptions { differential: true, ..TestOptions::default() }, None);
    walk.answer("test-generator", &program("assert add(1, 2) == 3"));
    walk.run(0);
    walk.answer("arbiter", "I cannot say");
    walk.pair.alternative = Some("def plus(x, y):\n    return y + x\n".into());
    walk.arbiter();
}

#[test]
fn the_arbiter_states_its_confidence() {
    let mut walk = Walk::new(TestOptions { confidence: true, ..TestOptions::default() }, None);
    walk.answer("test-generator", "assert True");
    walk.run(0);
    walk.answer("confident-arbiter", "final_verdict: 0, final_explanation: no");
    let question =
        walk.answer("confident-arbiter", "final_verdict: 0, confidence: 0.9, final_explanation: no");
    assert!(text(&question).contains("from 0 to 1 as `confidence`"));
    let Next::Decide(verdict) = walk.next() else { panic!() };
    assert_eq!((verdict.outcome, verdict.confidence), (Outcome::No, Some(0.9)));
}

#[test]
fn only_prompts_that_may_be_asked_are_part_of_the_version() {
    let names = |tests: TestOptions| {
        let walk = Walk::new(tests, None);
        walk.judge.prompts().map(|prompt| prompt.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(TestOptions::default()), "screener test-generator bug-fixer arbiter");
    let all =
        TestOptions { from: TestsFrom::Query, mutation: true, confidence: true, ..TestOptions::default() };
    assert_eq!(
        names(all),
        "screener test-generator query-test-generator test-adapter test-improver query-test-improver bug-fixer \
         confident-arbiter"
    );
}
