//! `quarry judge status`, and the table at the end of a run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use quarry_annotate::ledger::Pace;
use quarry_annotate::{EXECUTABLE_RULES, JudgeReport, Ledger, MemberAgreement, OptionCosts, Plan};
use quarry_metrics::agreement::{Level, krippendorff_alpha};
use quarry_text::counted;
use serde::Serialize;

use super::PlanArgs;
use crate::eval::shown::format_defined;
use crate::output;

/// Pairs without a label that are listed.
const MAX_LISTED: usize = 20;

/// Bytes of a line that stands beside a name.
const LINE_WIDTH: usize = 70;

/// Arguments of `quarry judge status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// List every pair without a label, rather than the first twenty
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Status<'a> {
    judge: &'a str,
    version: &'a str,
    ledger: String,
    #[serde(flatten)]
    report: JudgeReport,
    /// While judging is under way.
    pace: Option<Pace>,
    executable_rule: &'static str,
    /// Of the file's labels with the judge's.
    krippendorff_alpha: Option<f64>,
    /// Who judged, where the label is a majority.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<MemberAgreement>,
    /// What options cost and changed, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<OptionCosts>,
    /// Queries with generated code that answers them, and with such that does not; none if nothing was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    generated: Option<[usize; 2]>,
    /// Pairs without a label, with the reason.
    unresolved: Vec<(String, String)>,
    /// Whether these are all, and told one by one.
    #[serde(skip)]
    all: bool,
}

/// Runs `quarry judge status`.
///
/// # Errors
/// When the plan or its ledger cannot be read.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let (plan, ledger, judge) = args.plan.judged()?;
    let listed = if args.all { usize::MAX } else { MAX_LISTED };
    let status = Status { pace: ledger.pace(judge)?, ..Status::new(&ledger, judge, &plan, listed)? };
    status.print(args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints how far `judge` came with a plan, at the end of a run.
///
/// # Errors
/// When the ledger cannot be read or stdout cannot be written.
pub fn print(ledger: &Ledger, judge: i64, plan: &Plan, json: bool) -> anyhow::Result<()> {
    Status::new(ledger, judge, plan, MAX_LISTED)?.print(json)
}

impl<'a> Status<'a> {
    fn new(ledger: &Ledger, judge: i64, plan: &'a Plan, listed: usize) -> anyhow::Result<Self> {
        let report = JudgeReport::new(ledger.counts(judge, &plan.judge)?);
        let generated = ledger.generated(judge)?;
        Ok(Self {
            judge: &plan.judge.name,
            version: &plan.version,
            ledger: ledger.path().display().to_string(),
            krippendorff_alpha: alpha(&report.labels),
            pace: None,
            executable_rule: EXECUTABLE_RULES[usize::from(plan.packages.is_none())],
            generated: (!generated.is_empty()).then(|| {
                let accepted = generated.iter().filter(|code| code.is_accepted()).count();
                [accepted, generated.len() - accepted]
            }),
            members: MemberAgreement::of(plan, ledger, judge)?,
            options: OptionCosts::of(plan, ledger, judge)?,
            unresolved: ledger.unresolved(judge, listed)?,
            all: listed == usize::MAX,
            report,
        })
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json { output::print_json(self) } else { Ok(output::print(&text(self))?) }
    }
}

fn alpha(labels: &[(i32, i32, u64)]) -> Option<f64> {
    let row = |(file, judge, number): &(i32, i32, u64)| {
        let row = vec![Some(f64::from(*file >= 1)), Some(f64::from(*judge))];
        std::iter::repeat_n(row, usize::try_from(*number).unwrap_or_default())
    };
    let table: Vec<Vec<Option<f64>>> = labels.iter().flat_map(row).collect();
    krippendorff_alpha(&table, Level::Nominal)
}

fn text(status: &Status<'_>) -> String {
    let report = &status.report;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<28} {value}");
    };
    line("judge", format!("{} ({})", status.judge, status.version));
    line("pairs", format!("{}, {} without a verdict", report.pairs, report.waiting));
    if let Some(Pace { pairs_per_second, seconds_left }) = status.pace {
        let left = indicatif::HumanDuration(Duration::from_secs_f64(seconds_left.ceil().min(1e9)));
        line("under way", format!("{pairs_per_second:.1} pairs a second, about {left} left"));
    }
    for (outcome, number) in &report.outcomes {
        line(&format!("  {outcome}"), number.to_string());
    }
    for (prompt, (number, share)) in &report.decided_by {
        line(&format!("  decided by {prompt}"), format!("{number} ({:.1} %)", 100.0 * share));
    }
    line("clear share", of(report.clear_share, report.clear, report.pairs - report.waiting, "verdicts"));
    let n_programs = report.runs.values().sum::<u64>() + report.without_program;
    if n_programs > 0 {
        let run = if report.without_program > 0 { ", those that were run" } else { "" };
        line("test programs", format!("{n_programs}{run}, for {}", counted(report.tested, "pair")));
        for (result, number) in &report.runs {
            line(&format!("  {}", result.replace('_', " ")), number.to_string());
        }
        if report.without_program > 0 {
            line("  could not be read", report.without_program.to_string());
        }
        if report.missing_packages > 0 {
            let (missing, repaired) = (report.missing_packages, report.repaired);
            line(
                "  lacked a package at first",
                format!("{missing}, of which {repaired} could be executed with it"),
            );
        }
        line("executable rate", percent(report.executable_rate));
        for (position, part) in wrapped(status.executable_rule).iter().enumerate() {
            line(if position == 0 { "  counts as executable" } else { "" }, part.clone());
        }
        line("mean number of tests", report.mean_tests.map_or("-".to_owned(), |mean| format!("{mean:.2}")));
    }
    for (name, per) in
        [("per clear pair", &report.per_pair.clear), ("per unclear pair", &report.per_pair.unclear)]
    {
        if per.pairs > 0 {
            let dollars = in_dollars(per.dollars);
            line(name, format!("{:.0} tokens{dollars}, {:.2} s", per.tokens, per.seconds));
        }
    }
    line("cost of all answers", format!("{} in {}", report.cost, counted(report.answers, "answer")));
    line("booked with this ledger", report.spent.to_string());
    if report.unconfirmed.tokens > 0 {
        line("  of it at the worst case", report.unconfirmed.to_string());
        line(
            "    which is for attempts",
            "that failed, were cut off or are under way: nobody told their cost".to_owned(),
        );
    }
    if report.accuracy.is_some() {
        line(
            "agreement with the file",
            format!(
                "{}, on {} of {} labeled pairs",
                percent(report.accuracy),
                report.compared(),
                report.labelled
            ),
        );
        line("  Krippendorff's alpha", format_defined(status.krippendorff_alpha));
        for (file, judge, number) in &report.labels {
            line(&format!("  label {file}, judged {judge}"), number.to_string());
        }
    }
    if let Some([accepted, others]) = status.generated {
        let _ = writeln!(
            text,
            "{:<28} for {}; not accepted for {others}",
            "generated code",
            counted(accepted, "query")
        );
    }
    if let Some(members) = &status.members {
        write_members(&mut text, members);
    }
    if let Some(options) = &status.options {
        write_options(&mut text, options);
    }
    if !status.unresolved.is_empty() {
        let _ = writeln!(text, "\nwithout a label:");
        let (mut told, mut n_told) = (BTreeSet::new(), 0);
        for (pair, reason) in &status.unresolved {
            let alike =
                report.reasons.iter().find(|(known, _)| known == reason).map_or(1, |(_, number)| *number);
            let (pair, shown) = (output::printable(pair), output::printable(reason));
            if status.all || alike == 1 {
                n_told += 1;
                let _ = writeln!(text, "  {pair}: {shown}");
            } else if told.insert(reason) {
                n_told += alike;
                let _ = writeln!(text, "  {alike} pairs, such as {pair}: {shown}");
            }
        }
        let all: u64 = report.reasons.iter().map(|(_, number)| number).sum();
        let more = all.saturating_sub(n_told);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more; `quarry judge status --all` lists them");
        }
    }
    text
}

/// A share with what it is of.
fn of(share: Option<f64>, part: u64, whole: u64, what: &str) -> String {
    share.map_or("-".to_owned(), |_| format!("{}, {part} of {whole} {what}", percent(share)))
}

/// A text in lines that fit beside the names of a table.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= LINE_WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// What something costs, behind its tokens; nothing if no price is known.
fn in_dollars(dollars: Option<f64>) -> String {
    dollars.map_or(String::new(), |dollars| format!(", ${dollars:.6}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

fn write_members(text: &mut String, members: &MemberAgreement) {
    let _ = writeln!(
        text,
        "\nmajority of {}, on {}:",
        counted(members.members.len(), "member"),
        counted(members.pairs, "pair")
    );
    let _ = writeln!(text, "  {:<26} {}", "percent agreement", percent(members.percent_agreement));
    let _ = writeln!(text, "  {:<26} {}", "Krippendorff's alpha", format_defined(members.krippendorff_alpha));
    let _ = writeln!(text, "  {:<26} {}", "without a majority", members.without_majority);
    for member in &members.members {
        let _ = writeln!(
            text,
            "  {:<26} {} decided, {} yes; {} with the majority, {} with the file",
            output::printable(&member.name),
            member.decided,
            member.yes,
            percent(member.agreement_with_majority),
            percent(member.accuracy)
        );
    }
}

fn write_options(text: &mut String, options: &OptionCosts) {
    let _ = writeln!(text, "\nbeyond the judge without options:");
    for added in &options.added {
        let _ = writeln!(
            text,
            "  {:<26} {}, {}{}; {}; {:.2} s",
            added.option.replace('_', " "),
            counted(added.calls, "call"),
            counted(added.tokens, "token"),
            in_dollars(added.dollars),
            counted(added.runs, "run"),
            added.seconds
        );
    }
    let Some(beside) = &options.beside_plain else {
        let _ = writeln!(
            text,
            "  what they changed is known once the plan without `[tests]` has judged too, with this ledger"
        );
        return;
    };
    let _ = writeln!(
        text,
        "  {:<26} {:+} calls, {:+} tokens{}, {:+} runs, on the {} pairs that both judged",
        "together",
        beside.calls,
        beside.tokens,
        beside.dollars.map_or(String::new(), |dollars| format!(", {dollars:+.6} dollars")),
        beside.runs,
        beside.pairs
    );
    let changed: u64 = beside.changed.iter().map(|(_, _, number)| number).sum();
    let _ = writeln!(text, "  {:<26} {changed}", "labels changed");
    for (from, to, number) in &beside.changed {
        let _ = writeln!(text, "    {from} to {to}: {number}");
    }
    if let Some([without, with]) = beside.accuracy {
        let [without, with] = [without, with].map(|share| percent(Some(share)));
        let _ = writeln!(text, "  {:<26} {without} without, {with} with", "agreement with the file");
    }
}
