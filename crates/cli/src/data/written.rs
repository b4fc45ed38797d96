//! `quarry data written`: what a build says of calls and of the queries that a model wrote.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quarry_factory::{CallRow, QualityRow, WrittenReport};
use serde_json::{Value, json};

use crate::output;

/// Arguments of `quarry data written`.
#[derive(Debug, Args)]
pub struct WrittenArgs {
    /// Directory of a build with written queries
    #[arg(value_name = "DIR")]
    build: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reports.
///
/// # Errors
/// When nothing was built there, or without written queries.
pub fn run(args: &WrittenArgs) -> anyhow::Result<ExitCode> {
    let report = WrittenReport::read(&args.build)?;
    match args.json {
        true => output::print_json(&value(&report))?,
        false => output::print(&text(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Of a query that was kept, if there is one.
fn per_query(report: &WrittenReport, amount: f64) -> Option<f64> {
    (report.kept() > 0).then(|| amount / report.kept() as f64)
}

fn value(report: &WrittenReport) -> Value {
    let calls = report.calls.map(|CallRow { kind, calls, mean, maximum, functions, share, .. }| {
        json!({
            "kind": kind, "calls": calls, "mean": mean, "maximum": maximum, "functions": functions, "share": share,
        })
    });
    let quality: Vec<Value> = (report.quality.iter())
        .map(|QualityRow { calls, with_callees, queries, score, kept }| {
            json!({
                "calls": calls, "with_callees": with_callees, "queries": queries, "score": score, "kept": kept,
            })
        })
        .collect();
    json!({
        "functions": report.functions,
        "calls": calls,
        "classes": report.classes,
        "unreadable": report.unreadable,
        "kept": report.kept(),
        "quality": quality,
        "tokens": report.tokens,
        "dollars": report.dollars,
        "tokens_per_query": per_query(report, report.tokens as f64),
        "dollars_per_query": per_query(report, report.dollars),
    })
}

fn text(report: &WrittenReport) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut text = format!("functions in the call graph: {}\n", report.functions);
    for CallRow { kind, calls, mean, maximum, functions, share, published } in report.calls {
        let (published_mean, published_maximum, published_share) = published;
        text += &format!(
            "calls {kind}: {calls}, {} of both; {mean:.2} a function, at most {maximum}; {} of functions (Query4Code: {}, \
             {published_mean} a function, at most {published_maximum})\n",
            percent(share),
            percent(functions),
            percent(published_share),
        );
    }
    let written: u64 = report.classes.iter().sum();
    let classes: Vec<String> =
        (1..).zip(report.classes).map(|(class, count)| format!("{class}: {count}")).collect();
    text += &format!(
        "queries written: {written}, by class {}; answers that cannot be read: {}; kept: {}{}\n",
        classes.join(", "),
        report.unreadable,
        report.kept(),
        if written > 0 {
            format!(", {}", percent(report.kept() as f64 / written as f64))
        } else {
            String::new()
        },
    );
    text += "calls in the project  callees shown  queries  mean score  kept\n";
    for QualityRow { calls, with_callees, queries, score, kept } in &report.quality {
        let calls = if *calls == 5 { "5 or more".to_owned() } else { calls.to_string() };
        let shown = if *with_callees { "yes" } else { "no" };
        text += &format!("{calls:>20}  {shown:>13}  {queries:>7}  {score:>10.2}  {:>4.0} %\n", kept * 100.0);
    }
    text += &format!("tokens of all questions: {}", report.tokens);
    if report.dollars > 0.0 {
        text += &format!(", {:.4} dollars", report.dollars);
    }
    if let (Some(tokens), Some(dollars)) =
        (per_query(report, report.tokens as f64), per_query(report, report.dollars))
    {
        text += &format!("; for a query that was kept: {tokens:.0} tokens");
        if dollars > 0.0 {
            text += &format!(", {dollars:.6} dollars");
        }
    }
    text + "\n"
}
