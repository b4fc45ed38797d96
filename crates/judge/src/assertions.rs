//! Evaluated assertions of a test program, and those that held.
//!
//! A program that exits with status 0 may have evaluated none of its assertions, or continued after a failed one. So
//! programs are rewritten before they run ([`instrument`]): the expression that decides an assertion is wrapped in a
//! call that reports it and changes nothing else. Reports go over a separate pipe, each with a random number chosen
//! for the run, so that printed output cannot be mistaken for one. Code in the same process can still find the
//! number, or call the reporter, so a Python program that passed runs again with its test in a process separate
//! from the code ([`separate`]), if possible. A nonzero status overrides the reports: such a program has not
//! passed, whatever was reported.

mod instrument;
mod separate;
mod sites;
mod style;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub(crate) use instrument::InstrumentedProgram;
pub(crate) use separate::NOT_SEPARABLE;
pub(crate) use sites::may_assert;
pub(crate) use style::ReportStyle;

/// Maximum number of reports per process; after that, it reports only that there are more.
const MAX_REPORTS: u32 = 1_000;

/// The assertions of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertions {
    /// Number of evaluated assertions, counting each evaluation.
    pub ran: u64,
    /// Number of distinct positions of these in the program. An assertion in a helper such as `check` counts once
    /// per call of the helper.
    #[serde(rename = "places")]
    pub sites: u64,
    /// Number of evaluated assertions that failed.
    pub failed: u64,
    /// Number of evaluated assertions that were interrupted by an error or the end of the program, which is how
    /// most assertions fail.
    pub broken_off: u64,
    /// 1-based line in the program of the first assertion that failed or was interrupted, if known.
    pub first_failed_line: Option<u32>,
    /// True if more assertions were evaluated than reported.
    pub is_cut: bool,
    /// True if a process other than that of the code under test reported them.
    #[serde(default)]
    pub is_apart: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum ReportKind {
    Started,
    Held,
    Failed,
    Begun,
    /// The assertion whose evaluation was started holds.
    BegunHeld,
    /// The assertion whose evaluation was started cannot fail: it checks a value that is never false.
    BegunVoid,
    More,
}

impl ReportKind {
    fn from_letter(letter: &str) -> Option<Self> {
        Some(match letter {
            "s" => Self::Started,
            "h" => Self::Held,
            "f" => Self::Failed,
            "b" => Self::Begun,
            "H" => Self::BegunHeld,
            "x" => Self::BegunVoid,
            "m" => Self::More,
            _ => return None,
        })
    }
}

impl Assertions {
    /// Counts the reports with this number; `None` if the program did not start reporting. Anything else in the
    /// pipe is ignored. `called` contains the lines of assertions inside helper functions.
    fn reported(report: &str, number: &str, called: &BTreeSet<u32>) -> Option<Self> {
        let mut found = Self::default();
        let (mut has_started, mut begun) = (false, Vec::new());
        // The lines of all evaluated assertions.
        let mut evaluated: Vec<u32> = Vec::new();
        for line in report.lines() {
            let Some((kind, line)) = read_report(line, number) else { continue };
            // The last one on that line, because assertions may be nested and run in several threads.
            let end = |lines: &mut Vec<u32>| {
                let position = lines.iter().rposition(|known| *known == line);
                position.map(|position| lines.remove(position)).is_some()
            };
            match kind {
                ReportKind::Started => has_started = true,
                ReportKind::Held => evaluated.push(line),
                ReportKind::Failed => {
                    evaluated.push(line);
                    found.failed += 1;
                    found.first_failed_line = found.first_failed_line.or(Some(line));
                }
                ReportKind::Begun => {
                    evaluated.push(line);
                    begun.push(line);
                }
                ReportKind::BegunHeld => {
                    end(&mut begun);
                }
                ReportKind::BegunVoid => {
                    if end(&mut begun) {
                        end(&mut evaluated);
                    }
                }
                ReportKind::More => found.is_cut = true,
            }
        }
        found.ran = evaluated.len() as u64;
        let mut lines = BTreeSet::new();
        let is_site = |line: &u32| lines.insert(*line) || called.contains(line);
        found.sites = evaluated.into_iter().filter(is_site).count() as u64;
        // If reports were truncated, the end of an assertion may be missing from them.
        if !found.is_cut {
            found.broken_off = begun.len() as u64;
            found.first_failed_line = found.first_failed_line.or(begun.first().copied());
        }
        found.first_failed_line = found.first_failed_line.filter(|line| *line > 0);
        has_started.then_some(found)
    }

    pub fn held(&self) -> u64 {
        self.ran - self.failed - self.broken_off
    }

    /// Number of assertions that ran, as a phrase.
    pub(crate) fn description(&self) -> String {
        match (self.ran, self.is_cut) {
            (1, _) => "1 assertion ran".to_owned(),
            (ran, false) => format!("{ran} assertions ran"),
            (ran, true) => format!("{ran} assertions or more ran"),
        }
    }

    /// The position of the first failed assertion as a phrase; empty if unknown.
    pub(crate) fn failure_position(&self) -> String {
        self.first_failed_line.map(|line| format!(" in line {line} of the program")).unwrap_or_default()
    }
}

fn read_report(text: &str, number: &str) -> Option<(ReportKind, u32)> {
    let (kind, line) = text.strip_prefix(number)?.strip_prefix(' ')?.split_once(' ')?;
    Some((ReportKind::from_letter(kind)?, line.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(report: &str, expected: Option<(u64, u64, Option<u32>, bool)>) {
        let found = Assertions::reported(report, "77", &BTreeSet::new());
        let summary =
            |found: Assertions| (found.ran, found.ran - found.held(), found.first_failed_line, found.is_cut);
        assert_eq!(found.map(summary), expected, "{report}");
    }

    #[test]
    fn reports_are_counted() {
        check("", None);
        check("77 h 3\n", None);
        check("77 s 0\n", Some((0, 0, None, false)));
        check("77 s 0\n77 h 3\n77 h 3\n77 f 4\n77 f 5\n", Some((4, 2, Some(4), false)));
        check("77 s 0\n77 b 3\n77 H 3\n", Some((1, 0, None, false)));
        check("77 s 0\n77 b 3\n77 b 4\n77 H 4\n77 h 9\n", Some((3, 1, Some(3), false)));
        check("77 s 0\n77 f 0\n", Some((1, 1, None, false)));
        check("77 s 0\n77 b 3\n77 x 3\n77 H 3\n77 h 4\n", Some((1, 0, None, false)));
        check("77 s 0\n77 x 3\n77 h 3\n", Some((1, 0, None, false)));
        check("77 s 0\n77 h 1\n77 b 2\n77 m 2\n", Some((2, 0, None, true)));
    }

    #[test]
    fn reports_with_another_number_do_not_count() {
        check(
            "77 s 0\n78 h 3\n7 h 3\n77h 3\n 77 h 3\n77 x 3\n77 h\n77 h x\nh 3\n",
            Some((0, 0, None, false)),
        );
        check("78 s 0\n78 h 3\n", None);
    }

    #[test]
    fn places_are_lines_unless_called() {
        let report = "77 s 0\n77 h 3\n77 h 3\n77 f 4\n77 b 9\n77 H 9\n77 b 9\n";
        let found = Assertions::reported(report, "77", &BTreeSet::from([9])).unwrap();
        let expected = Assertions {
            ran: 5,
            sites: 4,
            failed: 1,
            broken_off: 1,
            first_failed_line: Some(4),
            ..Assertions::default()
        };
        assert_eq!((found, found.held()), (expected, 3));
    }

    #[test]
    fn counts_are_reported() {
        let description = |ran, is_cut| Assertions { ran, is_cut, ..Assertions::default() }.description();
        assert_eq!(description(1, false), "1 assertion ran");
        assert_eq!(description(5, false), "5 assertions ran");
        assert_eq!(description(1000, true), "1000 assertions or more ran");
    }

    proptest! {
        #[test]
        fn any_report_is_counted(lines in prop::collection::vec("(77|78)? ?[shfbHxm]? ?[0-9]{0,3}", 0..20)) {
            let report = lines.join("\n");
            if let Some(found) = Assertions::reported(&report, "77", &BTreeSet::new()) {
                prop_assert!(found.failed + found.broken_off <= found.ran && found.ran <= lines.len() as u64);
                prop_assert!(found.sites <= found.ran && found.held() <= found.ran);
            }
        }
    }
}
