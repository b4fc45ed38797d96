//! `quarry judge status`, and the table at the end of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use quarry_judge::ledger::Pace;
use quarry_judge::{EXECUTABLE_RULES, JudgeReport, Ledger, MemberAgreement, OptionCosts, PerPairs, Plan};
use quarry_metrics::agreement::{Level, krippendorff_alpha};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::PlanArgs;
use crate::eval::arguments::LayoutArgs;
use crate::eval::shown::format_defined;
use crate::output;

const MAX_LISTED: usize = 20;

/// Arguments of `quarry judge status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// List all pairs without a label, not just the first twenty
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JudgeStatus"))]
pub struct Status<'a> {
    /// Name of the judge.
    judge: &'a str,
    /// Version of the judge, which labels depend on.
    version: &'a str,
    /// Path of the ledger.
    ledger: String,
    #[serde(flatten)]
    report: JudgeReport,
    /// While judging is under way.
    pace: Option<Pace>,
    /// Rule that decides which programs count as executable.
    executable_rule: &'static str,
    /// Of the file's labels with the judge's.
    krippendorff_alpha: Option<f64>,
    /// The members, if the label is a majority.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<MemberAgreement>,
    /// Costs and effects of the judge's options, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<OptionCosts>,
    /// Numbers of queries with generated code that answers them, and with generated code that does not; null if nothing
    /// was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    generated: Option<[usize; 2]>,
    /// Pairs without a label, with the reason.
    unresolved: Vec<(String, String)>,
    /// True if these are all, to be listed one by one.
    #[serde(skip)]
    all: bool,
}

pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let listed = if args.all { usize::MAX } else { MAX_LISTED };
    let (plan, ledger, judge) = args.plan.judged()?;
    let status = Status { pace: ledger.pace(judge)?, ..Status::new(&ledger, judge, &plan, listed)? };
    status.print(&args.layout)?;
    Ok(())
}

#[cfg(feature = "serve")]
pub fn tables(plan: PlanArgs) -> Box<quarry_http::MakeTables> {
    Box::new(move || {
        let made = || {
            let (plan, ledger, judge) = plan.judged()?;
            let pace = ledger.pace(judge)?;
            Ok(sections(&Status { pace, ..Status::new(&ledger, judge, &plan, MAX_LISTED)? }))
        };
        made().map_err(|error: anyhow::Error| format!("{error:#}"))
    })
}

/// Prints the progress of `judge` with a plan, at the end of a run.
pub fn print(ledger: &Ledger, judge: i64, plan: &Plan, layout: &LayoutArgs) -> anyhow::Result<()> {
    Status::new(ledger, judge, plan, MAX_LISTED)?.print(layout)
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
            members: MemberAgreement::measure(plan, ledger, judge)?,
            options: OptionCosts::sum(plan, ledger, judge)?,
            unresolved: ledger.unresolved(judge, listed)?,
            all: listed == usize::MAX,
            report,
        })
    }

    fn print(&self, layout: &LayoutArgs) -> anyhow::Result<()> {
        layout.print(self, || sections(self))
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

fn sections(status: &Status<'_>) -> Sections {
    let report = &status.report;
    let mut sections = Sections::new().table(overview(status));
    let mut counts = |title: &str, first: &str, second: &str, rows: Vec<(String, u64)>| {
        if !rows.is_empty() {
            let mut table = Table::new([first, second]);
            rows.iter().for_each(|(name, number)| table.push([name.clone(), number.to_string()]));
            sections = std::mem::take(&mut sections).titled(title, table);
        }
    };
    let outcomes = report.outcomes.iter().map(|(outcome, number)| ((*outcome).to_owned(), *number));
    counts("Verdicts", "verdict", "pairs", outcomes.collect());
    let decided = report
        .decided_by
        .iter()
        .map(|(prompt, (number, share))| (format!("{prompt} ({})", percent(Some(*share))), *number));
    counts("Decided by", "prompt", "pairs", decided.collect());
    let mut runs: Vec<(String, u64)> =
        report.runs.iter().map(|(result, number)| (result.replace('_', " "), *number)).collect();
    if report.without_program > 0 {
        runs.push(("could not be read".to_owned(), report.without_program));
    }
    counts("Test programs", "result", "programs", runs);
    let labels = report.labels.iter();
    let labels = labels.map(|(file, judge, number)| (format!("label {file}, judged {judge}"), *number));
    counts("Labels of the file and of the judge", "labels", "pairs", labels.collect());
    if let Some(costs) = costs_of_pairs(&report.per_pair) {
        sections = sections.titled("Mean cost of a pair with a verdict", costs);
    }
    if !report.runs.is_empty() || report.without_program > 0 {
        sections =
            sections.text(format!("\nA test program counts as executable if {}.\n", status.executable_rule));
    }
    if report.unconfirmed.tokens > 0 {
        sections = sections.text(
            "\nThe worst case is booked for attempts that failed, were interrupted or are in progress, because their \
             cost is unknown.\n",
        );
    }
    if let Some(members) = &status.members {
        sections = add_members(sections, members);
    }
    if let Some(options) = &status.options {
        sections = add_options(sections, options);
    }
    add_unlabeled(sections, status)
}

fn overview(status: &Status<'_>) -> Table {
    let report = &status.report;
    let mut table = Table::new(["statistic", "value"]).align_left([1]);
    let mut line = |name: &str, value: String| table.push([name.to_owned(), value]);
    line("judge", format!("{} ({})", status.judge, status.version));
    line("pairs", format!("{}, {} without a verdict", report.pairs, report.waiting));
    if let Some(Pace { pairs_per_second, seconds_left }) = status.pace {
        let left = indicatif::HumanDuration(Duration::from_secs_f64(seconds_left.ceil().min(1e9)));
        line("in progress", format!("{pairs_per_second:.1} pairs per second, about {left} left"));
    }
    line(
        "clear share",
        share_of(report.clear_share, report.clear, report.pairs - report.waiting, "verdicts"),
    );
    let n_programs = report.runs.values().sum::<u64>() + report.without_program;
    if n_programs > 0 {
        line("test programs", format!("{n_programs}, for {}", counted(report.tested, "pair")));
        if report.missing_packages > 0 {
            let (missing, repaired) = (report.missing_packages, report.repaired);
            line(
                "programs that lacked a package",
                format!("{missing}, of which {repaired} could be executed once it was installed"),
            );
        }
        line("executable rate", percent(report.executable_rate));
        line("mean number of tests", report.mean_tests.map_or("-".to_owned(), |mean| format!("{mean:.2}")));
    }
    line("cost of all answers", format!("{} in {}", report.cost, counted(report.answers, "answer")));
    line("booked with this ledger", report.spent.to_string());
    if report.unconfirmed.tokens > 0 {
        line("booked at the worst case", report.unconfirmed.to_string());
    }
    if report.accuracy.is_some() {
        let (compared, labeled) = (report.compared(), report.labelled);
        let agreement = percent(report.accuracy);
        line(
            "agreement with the file",
            format!("{agreement}, on {compared} of {}", counted(labeled, "labeled pair")),
        );
        line("Krippendorff's alpha", format_defined(status.krippendorff_alpha));
    }
    if let Some([accepted, others]) = status.generated {
        line("generated code", format!("for {}; not accepted for {others}", counted(accepted, "query")));
    }
    table
}

/// Mean cost of pairs decided with and without tests.
fn costs_of_pairs(per_pair: &PerPairs) -> Option<Table> {
    let mut table = Table::new(["pair", "pairs", "tokens", "dollars", "seconds"]);
    for (name, per) in [("per clear pair", &per_pair.clear), ("per unclear pair", &per_pair.unclear)] {
        if per.pairs > 0 {
            let [pairs, tokens] = [per.pairs.to_string(), format!("{:.0}", per.tokens)];
            table.push([name.to_owned(), pairs, tokens, dollars(per.dollars), format!("{:.2}", per.seconds)]);
        }
    }
    (!table.rows().is_empty()).then_some(table)
}

fn add_members(sections: Sections, members: &MemberAgreement) -> Sections {
    let mut together = Table::new(["statistic", "value"]);
    together.push(["percent agreement".to_owned(), percent(members.percent_agreement)]);
    together.push(["Krippendorff's alpha".to_owned(), format_defined(members.krippendorff_alpha)]);
    together.push(["without a majority".to_owned(), members.without_majority.to_string()]);
    let mut each = Table::new(["member", "decided", "yes", "agreement with majority", "agreement with file"]);
    for member in &members.members {
        each.push([
            output::printable(&member.name).into_owned(),
            member.decided.to_string(),
            member.yes.to_string(),
            percent(member.agreement_with_majority),
            percent(member.accuracy),
        ]);
    }
    let title = format!(
        "Majority of {}, on {}",
        counted(members.members.len(), "member"),
        counted(members.pairs, "pair")
    );
    sections.titled(title, together).titled("Members", each)
}

fn add_options(sections: Sections, options: &OptionCosts) -> Sections {
    let mut costs = Table::new(["option", "calls", "tokens", "dollars", "runs", "seconds"]);
    for added in &options.added {
        costs.push([
            added.option.replace('_', " "),
            added.calls.to_string(),
            added.tokens.to_string(),
            dollars(added.dollars),
            added.runs.to_string(),
            format!("{:.2}", added.seconds),
        ]);
    }
    let sections = sections.titled("Cost of the options of `[tests]`", costs);
    let Some(beside) = &options.beside_plain else {
        return sections.text(
            "\nThe effect of the options is shown once the plan without `[tests]` has also been judged with this \
             ledger.\n",
        );
    };
    let mut differences = Table::new(["difference to the judge without options", "value"]);
    let mut line = |name: &str, value: String| differences.push([name.to_owned(), value]);
    line("pairs that both judged", beside.pairs.to_string());
    line("calls", format!("{:+}", beside.calls));
    line("tokens", format!("{:+}", beside.tokens));
    line("dollars", beside.dollars.map_or("-".to_owned(), |dollars| format!("{dollars:+.6}")));
    line("runs", format!("{:+}", beside.runs));
    line("labels changed", beside.changed.iter().map(|(_, _, number)| number).sum::<u64>().to_string());
    for (from, to, number) in &beside.changed {
        line(&format!("from {from} to {to}"), number.to_string());
    }
    if let Some([without, with]) = beside.accuracy {
        line("agreement with the file, without", percent(Some(without)));
        line("agreement with the file, with", percent(Some(with)));
    }
    sections.titled("Effect of the options", differences)
}

/// Pairs without a label, those with the same reason on one line unless all are listed.
fn add_unlabeled(sections: Sections, status: &Status<'_>) -> Sections {
    if status.unresolved.is_empty() {
        return sections;
    }
    let reasons = &status.report.reasons;
    let mut table = Table::new(["pair", "pairs with this reason", "reason"]).align_left([2]);
    let (mut listed, mut n_listed) = (BTreeSet::new(), 0);
    for (pair, reason) in &status.unresolved {
        let alike = reasons.iter().find(|(known, _)| known == reason).map_or(1, |(_, number)| *number);
        let number = if status.all { 1 } else { alike };
        if status.all || listed.insert(reason) {
            n_listed += number;
            let reason = output::printable(reason).into_owned();
            table.push([output::printable(pair).into_owned(), number.to_string(), reason]);
        }
    }
    let sections = sections.titled("Pairs without a label", table);
    let more = reasons.iter().map(|(_, number)| number).sum::<u64>().saturating_sub(n_listed);
    match more {
        0 => sections,
        _ => sections.text(format!("and {more} more; `quarry judge status --all` lists them\n")),
    }
}

fn share_of(share: Option<f64>, part: u64, whole: u64, what: &str) -> String {
    share.map_or("-".to_owned(), |_| format!("{}, {part} of {whole} {what}", percent(share)))
}

/// An amount of dollars, or a dash if no price is known.
fn dollars(dollars: Option<f64>) -> String {
    dollars.map_or("-".to_owned(), |dollars| format!("${dollars:.6}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}
