//! Harmless programs.
#![cfg(not(quarry_no_sandbox))]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::io::Write;
use std::time::Duration;

use quarry_sandbox::{Bubblewrap, Ended, Error, Isolation, Limits, Program, Runner, Sandbox, open};

/// A program in each language that reads a file from its work directory.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "go",
        "package main\nimport \"os\"\nfunc main() { b, _ := os.ReadFile(\"data/number.txt\"); os.Stdout.Write(b) }",
    ),
    (
        "java",
        "import java.nio.file.*;\nclass Main { public static void main(String[] a) throws Exception {\n\
         System.out.println(Files.readString(Path.of(\"data/number.txt\")).trim()); } }",
    ),
    ("javascript", "console.log(require('fs').readFileSync('data/number.txt', 'utf8').trim())"),
    ("php", "<?php echo trim(file_get_contents('data/number.txt')), \"\\n\";"),
    ("python", "print(open('data/number.txt').read().strip())"),
    ("r", "cat(readLines('data/number.txt'), '\\n', sep = '')"),
    ("ruby", "puts File.read('data/number.txt').strip"),
    (
        "typescript",
        "const text: string = require('fs').readFileSync('data/number.txt', 'utf8'); console.log(text.trim())",
    ),
];

/// All sandboxes that work here; the last one isolates nothing.
fn sandboxes() -> Vec<Box<dyn Sandbox>> {
    let all = [Isolation::Bubblewrap, Isolation::Podman { image: None }, Isolation::UnsafeNoSandbox];
    let opened = all.into_iter().filter_map(|isolation| match open(isolation) {
        Ok(sandbox) => Some(sandbox),
        Err(error) => {
            skipped(&format!("A SANDBOX IS NOT TESTED: {error}"));
            None
        }
    });
    opened.collect()
}

fn skipped(what: &str) {
    // Not with a macro, whose output the test runner hides.
    let _ = writeln!(std::io::stderr(), "\n{what}\n");
}

/// Enough time for programs that exit by themselves on a busy machine.
fn patient() -> Limits {
    Limits { wall_time: Duration::from_secs(120), ..Limits::default() }
}

fn python(source: &str) -> Program {
    Runner::named("python").unwrap().program(source)
}

#[test]
fn each_language_runs_where_it_is_installed() {
    let names: Vec<&str> = PROGRAMS.iter().map(|(language, _)| *language).collect();
    assert_eq!(Runner::names().collect::<Vec<_>>(), names);
    // Calls that are refused only to programs watched by sampling are not needed by interpreters.
    let Ok(counted) = Bubblewrap::open() else { return skipped("bubblewrap does not work here") };
    let watched = Bubblewrap::open().unwrap().without_cgroups();
    for (language, source) in PROGRAMS {
        let runner = Runner::named(language).unwrap();
        if let Some(problem) = runner.problem() {
            skipped(&format!("{language} is not tested: {problem}"));
            continue;
        }
        let mut program = runner.program(source);
        program.files.push(("data/number.txt".to_owned(), b"42\n".to_vec()));
        for sandbox in [&counted, &watched] {
            let limits = patient();
            let outcome = runner.run(sandbox, &program, &limits).unwrap();
            assert_eq!(outcome.stdout.text(), "42\n", "{language}: {outcome:?} {}", outcome.stderr.text());
            assert_eq!(outcome.ended, Ended::Exited { code: 0 }, "{language}");
            let peak = outcome.peak_memory_bytes;
            assert!(peak < limits.memory_bytes / 4 * 3, "{language}, {}: {peak}", outcome.memory_bound);
        }
    }
}

/// Slow interpreters and compilers do not get more time for a program than it was given.
#[test]
fn no_language_runs_for_longer_than_it_may() {
    let Ok(sandbox) = Bubblewrap::open() else { return skipped("bubblewrap does not work here") };
    let endless = [
        ("go", "package main\nfunc main() { for {} }"),
        ("java", "class Main { public static void main(String[] a) { while (true) {} } }"),
        ("javascript", "while (true) {}"),
        ("php", "<?php while (true) {}"),
        ("python", "while True: pass"),
        ("r", "while (TRUE) {}"),
        ("ruby", "loop {}"),
        ("typescript", "while (true) {}"),
    ];
    assert!(endless.iter().map(|(language, _)| *language).eq(Runner::names()));
    let limits = Limits { wall_time: Duration::from_secs(3), ..patient() };
    for (language, source) in endless {
        let runner = Runner::named(language).unwrap();
        if let Some(problem) = runner.problem() {
            skipped(&format!("{language} is not tested: {problem}"));
            continue;
        }
        let outcome = runner.run(&sandbox, &runner.program(source), &limits).unwrap();
        assert_eq!(outcome.ended, Ended::WallTime, "{language}: {}", outcome.stderr.text());
        // Compilation may take a while on a busy machine, and has its own limit.
        let most = if language == "go" { 90 } else { 15 };
        assert!(outcome.wall_time < Duration::from_secs(most), "{language}: {:?}", outcome.wall_time);
    }
}

#[test]
fn programs_that_do_not_compile_do_not_run() {
    let runner = Runner::named("go").unwrap();
    if let Some(problem) = runner.problem() {
        return skipped(&format!("Go is not tested: {problem}"));
    }
    for sandbox in sandboxes() {
        let run = |source: &str| runner.run(sandbox.as_ref(), &runner.program(source), &patient()).unwrap();
        let outcome = run("package main\nfunc main() { nothing() }");
        assert!(matches!(outcome.ended, Ended::Exited { code } if code != 0), "{outcome:?}");
        assert!(
            outcome.stderr.text().contains("main.go:2:") && outcome.stdout.bytes.is_empty(),
            "{outcome:?}"
        );
        let outcome = run("package main\nfunc main() { panic(\"no\") }");
        assert_eq!(outcome.ended, Ended::Exited { code: 2 }, "{}", outcome.stderr.text());
        assert!(outcome.stderr.text().contains("panic: no"), "{outcome:?}");
    }
}

#[test]
fn status_and_output_are_those_of_the_program() {
    for sandbox in sandboxes() {
        let source = "import os, sys\nprint(os.environ['WORD'])\nsys.exit('a reason')";
        let mut program = python(source);
        program.environment.push(("WORD".to_owned(), "a = b\n".to_owned()));
        let outcome = sandbox.run(&program, &patient()).unwrap();
        assert_eq!(outcome.ended, Ended::Exited { code: 1 });
        assert_eq!(outcome.stdout.text(), "a = b\n\n");
        assert_eq!(outcome.stderr.text(), "a reason\n");
        assert!(outcome.wall_time > Duration::ZERO && outcome.peak_memory_bytes < 100 << 20, "{outcome:?}");
    }
}

#[test]
fn reports_of_a_program_are_separate_from_its_output() {
    let report = "import os, sys\n\
                  place = '/proc/self/fd/' + os.environ['QUARRY_REPORT']\n\
                  os.close(1); os.close(2)\n\
                  with open(place, 'wb', buffering=0) as pipe:\n\
                  \x20   if os.fork() == 0:\n\
                  \x20       pipe.write(b'child '); os._exit(0)\n\
                  \x20   os.wait()\n\
                  \x20   pipe.write(b'parent ' + b'x' * 200_000)\n";
    for sandbox in sandboxes() {
        let program = Program { reports: true, ..python(report) };
        let outcome = sandbox.run(&program, &patient()).unwrap();
        assert_eq!(outcome.ended, Ended::Exited { code: 0 }, "{outcome:?}");
        assert!(outcome.report.text().starts_with("child parent xxx"), "{}", outcome.stderr.text());
        assert_eq!((outcome.report.bytes.len(), outcome.report.total_bytes), (64 << 10, 200_013));
        assert_eq!((outcome.stdout.total_bytes, outcome.stderr.total_bytes), (0, 0));
        // No other user has one.
        let other =
            sandbox.run(&python("import os\nassert 'QUARRY_REPORT' not in os.environ"), &patient()).unwrap();
        assert_eq!((other.ended, other.report.total_bytes), (Ended::Exited { code: 0 }, 0));
    }
}

#[test]
fn limits_may_be_as_high_as_can_be() {
    let limits =
        Limits { wall_time: Duration::MAX, memory_bytes: u64::MAX, output_bytes: usize::MAX, ..patient() };
    for sandbox in sandboxes() {
        let outcome = sandbox.run(&python("print('done')"), &limits).unwrap();
        assert_eq!(outcome.stdout.text(), "done\n", "{outcome:?}");
    }
}

#[test]
fn a_signal_is_reported_as_shells_do() {
    for sandbox in sandboxes() {
        let program = python("import os\nos.abort()");
        let outcome = sandbox.run(&program, &patient()).unwrap();
        assert_eq!(outcome.ended, Ended::Exited { code: 128 + 6 });
    }
}

#[test]
fn limits_hold_without_isolation_too() {
    let sandbox = open(Isolation::UnsafeNoSandbox).unwrap();
    let limits = Limits { wall_time: Duration::from_secs(1), ..patient() };
    let outcome = sandbox.run(&python("import time\ntime.sleep(60)"), &limits).unwrap();
    assert_eq!(outcome.ended, Ended::WallTime);
    let limits = Limits { memory_bytes: 128 << 20, ..patient() };
    let bomb = "block = []\nimport time\nwhile True:\n    block.append(bytes(b'x' * (1 << 20)))\n    time.sleep(0.001)";
    assert_eq!(sandbox.run(&python(bomb), &limits).unwrap().ended, Ended::Memory);
}

#[test]
fn cpu_time_and_memory_are_measured() {
    let source = "import time\nblock = bytearray(b'x' * (64 << 20))\nend = time.process_time() + 0.5\n\
                  while time.process_time() < end: pass";
    for sandbox in sandboxes() {
        let outcome = sandbox.run(&python(source), &patient()).unwrap();
        assert!((0.4..3.0).contains(&outcome.cpu_time.as_secs_f64()), "{outcome:?}");
        assert!((64 << 20..200 << 20).contains(&outcome.peak_memory_bytes), "{outcome:?}");
    }
}

#[test]
fn runs_on_many_threads_do_not_meet() {
    let sandbox = sandboxes().remove(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                for _ in 0..3 {
                    let source = format!(
                        "import os\nopen('/tmp/x', 'x').write('{thread}')\nprint(open('/tmp/x').read())"
                    );
                    let outcome = sandbox.run(&python(&source), &patient());
                    let text = outcome.unwrap().stdout.text();
                    assert!(text == format!("{thread}\n"), "{text}");
                }
            });
        }
    });
}

#[test]
fn unrunnable_programs_are_refused_with_a_reason() {
    for sandbox in sandboxes() {
        let program = Program { command: vec!["no-such-program".to_owned()], ..Program::default() };
        let error = sandbox.run(&program, &patient()).unwrap_err();
        assert!(matches!(error, Error::Program(_)), "{error}");
    }
    let error = Runner::named("cobol").unwrap_err().to_string();
    assert!(error.contains("go, java, javascript"), "{error}");
}

#[test]
fn a_missing_directory_is_an_error_of_the_setup() {
    if let Ok(sandbox) = open(Isolation::Bubblewrap) {
        let mut program = python("");
        program.read_only.push(("packages".to_owned(), "/no/such/directory".into()));
        let error = sandbox.run(&program, &patient()).unwrap_err();
        assert!(
            matches!(&error, Error::Setup { detail } if detail.contains("/no/such/directory")),
            "{error}"
        );
    }
}
