//! Running programs: packages that arrive while other programs run, and audits that continue after failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quarry_judge::{IsolatedPrograms, JudgeError, Judging, Programs, audit};
use quarry_sandbox::packages::{PackageError, PackageSet, PackageSource};
use quarry_sandbox::{Limits, Program, Runner, Sandbox};

use crate::fixture::{FakePackages, FakeSandbox, Fixture, honest};

/// Provides packages once `after` programs have run; fails if that takes too long.
struct Late {
    runs: Arc<AtomicUsize>,
    after: usize,
}

impl PackageSource for Late {
    fn provide(&self, language: &str, names: &[String]) -> Result<PackageSet, PackageError> {
        let start = Instant::now();
        while self.runs.load(Ordering::SeqCst) < self.after {
            if start.elapsed() > Duration::from_secs(10) {
                return Err(PackageError::Failed { detail: "nothing ran meanwhile".to_owned() });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        FakePackages.provide(language, names)
    }
}

#[test]
fn programs_run_while_packages_are_fetched() {
    let server = honest();
    let mut fixture = Fixture::new(36, &server.url());
    fixture.packages = true;
    fixture.entries = ["workers = 4".to_owned(), String::new(), "[sandbox]\nat_once = 1".to_owned()];
    // Twelve programs, of which four lack a package: four workers wait for it when the last program has run.
    let late = Late { runs: Arc::clone(&fixture.runs), after: 12 };
    let programs = IsolatedPrograms { packages: Some(Box::new(late)), ..fixture.programs() };
    let judging = Judging::prepare(fixture.plan(), Some(programs)).unwrap();
    judging.run(&AtomicBool::new(false), &|_| ()).unwrap();
    drop(judging);
    fixture.check_labels(36);
}

#[test]
fn a_stopped_run_does_not_wait_for_packages() {
    struct Stopping(Arc<AtomicBool>);
    impl PackageSource for Stopping {
        fn provide(&self, _: &str, _: &[String]) -> Result<PackageSet, PackageError> {
            self.0.store(true, Ordering::SeqCst);
            Err(PackageError::Stopped)
        }
    }
    let server = honest();
    let mut fixture = Fixture::new(36, &server.url());
    fixture.packages = true;
    let stop = Arc::new(AtomicBool::new(false));
    let packages: Option<Box<dyn PackageSource>> = Some(Box::new(Stopping(Arc::clone(&stop))));
    let programs = IsolatedPrograms { packages, stop: Arc::clone(&stop), ..fixture.programs() };
    let judging = Judging::prepare(fixture.plan(), Some(programs)).unwrap();
    assert!(matches!(judging.run(&stop, &|_| ()), Err(JudgeError::Stopped)));
    // A stop is not a failure of the pair.
    assert!(judging.unjudged().unwrap().is_none_or(|(_, reason)| !reason.contains("packages")));
    drop(judging);
    fixture.run().unwrap();
    fixture.check_labels(36);
}

#[test]
fn an_audit_continues_when_packages_cannot_be_fetched() {
    struct Away;
    impl PackageSource for Away {
        fn provide(&self, _: &str, _: &[String]) -> Result<PackageSet, PackageError> {
            Err(PackageError::Failed { detail: "the index is away".to_owned() })
        }
    }
    let server = honest();
    let mut fixture = Fixture::new(36, &server.url());
    fixture.packages = true;
    fixture.run().unwrap();
    let (ledger, judge) = fixture.ledger();
    let programs = IsolatedPrograms { packages: Some(Box::new(Away)), ..fixture.programs() };
    let stop = AtomicBool::new(false);
    let found = audit(&ledger, judge, &programs, &Limits::default(), 2, &stop).unwrap();
    let pairs: Vec<&str> = found.not_run.iter().map(|not_run| not_run.pair.as_str()).collect();
    assert_eq!((found.runs, pairs), (16, vec!["17", "26", "35", "8"]));
    assert!(found.not_run.iter().all(|not_run| not_run.reason.contains("the index is away")));
    assert!(found.changed.is_empty() && !found.holds());
    // Findings so far are reported even if the user stops.
    stop.store(true, Ordering::SeqCst);
    let found = audit(&ledger, judge, &programs, &Limits::default(), 2, &stop).unwrap();
    assert!(found.stopped && !found.holds() && found.runs == 0);
}

#[test]
fn an_audit_finds_what_no_longer_holds() {
    /// A sandbox in which every program passes.
    struct Lenient;
    impl Sandbox for Lenient {
        fn run(
            &self,
            program: &Program,
            limits: &Limits,
        ) -> Result<quarry_sandbox::Outcome, quarry_sandbox::Error> {
            let empty = Program { files: vec![(program.files[0].0.clone(), Vec::new())], ..program.clone() };
            FakeSandbox(Arc::default()).run(&empty, limits)
        }
    }
    let server = honest();
    let fixture = Fixture::new(18, &server.url());
    fixture.run().unwrap();
    let (ledger, judge) = fixture.ledger();
    let stop = AtomicBool::new(false);
    let audited = |sandbox: Box<dyn Sandbox>| {
        let programs = IsolatedPrograms { sandbox, ..fixture.programs() };
        audit(&ledger, judge, &programs, &Limits::default(), 2, &stop).unwrap()
    };
    let same = audited(Box::new(FakeSandbox(Arc::default())));
    assert_eq!((same.runs, same.changed.len()), (6, 0));
    let changed = audited(Box::new(Lenient));
    assert_eq!((changed.runs, changed.changed.len()), (6, 4));
    assert_eq!(changed.changed[0].before.name(), "failed");
}

#[test]
fn a_sandbox_without_an_interpreter_is_refused_before_anything_is_asked() {
    struct Bare;
    impl Sandbox for Bare {
        fn run(&self, _: &Program, _: &Limits) -> Result<quarry_sandbox::Outcome, quarry_sandbox::Error> {
            panic!("nothing is run")
        }

        fn problem(&self, runner: &Runner) -> Result<Option<String>, quarry_sandbox::Error> {
            Ok(Some(format!("there is no {}", runner.command[0])))
        }
    }
    let server = honest();
    let fixture = Fixture::new(3, &server.url());
    let bare = IsolatedPrograms { sandbox: Box::new(Bare), ..fixture.programs() };
    assert_eq!(bare.languages().unwrap(), [""; 0]);
    let error = Judging::prepare(fixture.plan(), Some(bare)).err().unwrap().to_string();
    assert!(error.contains("there is no python3, or leave these pairs out"), "{error}");
    assert!(server.count() == 0 && !fixture.path("plan.ledger").exists());
}
