//! Which assertions of a test program were evaluated, and which of them held.
//!
//! A program that exits with status 0 may have evaluated none of its assertions, or continued after a failed one. So
//! programs are rewritten before they run ([`instrument`]): the expression that decides an assertion is wrapped in a
//! call that reports it and changes nothing else. Reports go over a separate pipe, each with a random number chosen
//! for the run, so that printed output cannot be mistaken for one. A malicious program can still find the number, as
//! it runs in the same process; but it gains no more than by exiting with status 0, because a nonzero status
//! overrides the reports: such a program has not passed, whatever was reported.

mod instrument;
mod sites;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub(crate) use instrument::{InstrumentedProgram, ReportStyle};
pub(crate) use sites::may_assert;

/// Maximum number of reports per process; after that, it reports only that there are more.
const MAX_REPORTS: u32 = 1_000;

/// The assertions of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertions {
    /// Number of evaluated assertions, counting each evaluation.
    pub ran: u64,
    /// Number of distinct positions of these in the program; an assertion in a helper such as `check` counts once per
    /// call of it.
    #[serde(rename = "places")]
    pub sites: u64,
    /// Number of evaluated assertions that failed.
    pub failed: u64,
    /// Number of evaluated assertions that were interrupted by an error or the end of the program; how many
    /// assertions fail.
    pub broken_off: u64,
    /// 1-based line in the program of the first assertion that failed or was interrupted, if known.
    pub first_failed_line: Option<u32>,
    /// Whether there were more than were counted.
    pub is_cut: bool,
}

/// The kind of a report.
#[derive(Clone, Copy, PartialEq)]
enum ReportKind {
    /// The program has started.
    Started,
    /// An assertion holds.
    Held,
    /// An assertion does not hold.
    Failed,
    /// The evaluation of an assertion has started.
    Begun,
    /// The assertion whose evaluation was started holds.
    BegunHeld,
    /// There are more reports than were written.
    More,
}

impl ReportKind {
    fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "s" => Self::Started,
            "h" => Self::Held,
            "f" => Self::Failed,
            "b" => Self::Begun,
            "H" => Self::BegunHeld,
            "m" => Self::More,
            _ => return None,
        })
    }
}

impl Assertions {
    /// Counts the reports with this number; `None` if the program did not start reporting. Anything else in the pipe
    /// is ignored. `called` are the lines of assertions inside helper functions.
    fn reported(report: &str, number: &str, called: &BTreeSet<u32>) -> Option<Self> {
        let mut found = Self::default();
        let (mut has_started, mut begun, mut lines) = (false, Vec::new(), BTreeSet::new());
        for line in report.lines() {
            let Some((kind, line)) = read_report(line, number) else { continue };
            if matches!(kind, ReportKind::Held | ReportKind::Failed | ReportKind::Begun) {
                found.sites += u64::from(lines.insert(line) || called.contains(&line));
            }
            match kind {
                ReportKind::Started => has_started = true,
                ReportKind::Held => found.ran += 1,
                ReportKind::Failed => {
                    found.ran += 1;
                    found.failed += 1;
                    found.first_failed_line = found.first_failed_line.or(Some(line));
                }
                ReportKind::Begun => {
                    found.ran += 1;
                    begun.push(line);
                }
                ReportKind::BegunHeld => {
                    // The last one on that line: assertions may be nested, and run in several threads.
                    if let Some(position) = begun.iter().rposition(|known| *known == line) {
                        begun.remove(position);
                    }
                }
                ReportKind::More => found.is_cut = true,
            }
        }
        // If reports were truncated, the end of this one may be among those not written.
        if !found.is_cut {
            found.broken_off = begun.len() as u64;
            found.first_failed_line = found.first_failed_line.or(begun.first().copied());
        }
        found.first_failed_line = found.first_failed_line.filter(|line| *line > 0);
        has_started.then_some(found)
    }

    /// Number of assertions that held.
    pub fn held(&self) -> u64 {
        self.ran - self.failed - self.broken_off
    }

    /// How many assertions ran, as a phrase.
    pub(crate) fn told(&self) -> String {
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

/// Parses a report with this number into its kind and line.
fn read_report(text: &str, number: &str) -> Option<(ReportKind, u32)> {
    let (kind, line) = text.strip_prefix(number)?.strip_prefix(' ')?.split_once(' ')?;
    Some((ReportKind::of(kind)?, line.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(report: &str, expected: Option<(u64, u64, Option<u32>, bool)>) {
        let found = Assertions::reported(report, "77", &BTreeSet::new());
        let told =
            |found: Assertions| (found.ran, found.ran - found.held(), found.first_failed_line, found.is_cut);
        assert_eq!(found.map(told), expected, "{report}");
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
        check("77 s 0\n77 h 1\n77 b 2\n77 m 2\n", Some((2, 0, None, true)));
    }

    #[test]
    fn what_has_another_number_does_not_count() {
        check(
            "77 s 0\n78 h 3\n7 h 3\n77h 3\n 77 h 3\n77 x 3\n77 h\n77 h x\nh 3\n",
            Some((0, 0, None, false)),
        );
        check("78 s 0\n78 h 3\n", None);
    }

    #[test]
    fn places_are_lines_unless_others_call_them() {
        let report = "77 s 0\n77 h 3\n77 h 3\n77 f 4\n77 b 9\n77 H 9\n77 b 9\n";
        let found = Assertions::reported(report, "77", &BTreeSet::from([9])).unwrap();
        let expected = Assertions {
            ran: 5,
            sites: 4,
            failed: 1,
            broken_off: 1,
            first_failed_line: Some(4),
            is_cut: false,
        };
        assert_eq!((found, found.held()), (expected, 3));
    }

    #[test]
    fn counts_are_told() {
        let told = |ran, is_cut| Assertions { ran, is_cut, ..Assertions::default() }.told();
        assert_eq!(told(1, false), "1 assertion ran");
        assert_eq!(told(5, false), "5 assertions ran");
        assert_eq!(told(1000, true), "1000 assertions or more ran");
    }

    proptest! {
        #[test]
        fn any_report_is_counted(lines in prop::collection::vec("(77|78)? ?[shfbHm]? ?[0-9]{0,3}", 0..20)) {
            let report = lines.join("\n");
            if let Some(found) = Assertions::reported(&report, "77", &BTreeSet::new()) {
                prop_assert!(found.failed + found.broken_off <= found.ran && found.ran <= lines.len() as u64);
                prop_assert!(found.sites <= found.ran && found.held() <= found.ran);
            }
        }
    }
}
