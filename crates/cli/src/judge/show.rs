//! `quarry judge show`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use quarry_annotate::ledger::{PairReply, Scene, Story};
use quarry_annotate::{Event, Run};

use super::PlanArgs;
use crate::output;

/// Arguments of `quarry judge show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Id of the pair
    #[arg(value_name = "PAIR")]
    pair: String,
    /// Show what was asked too
    #[arg(long)]
    questions: bool,
}

/// Runs `quarry judge show`.
///
/// # Errors
/// When the plan or its ledger cannot be read, or there is no such pair.
pub fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let (plan, ledger, judge) = args.plan.judged()?;
    let Some(story) = ledger.story(judge, &args.pair)? else {
        bail!("{}: there is no pair {:?}", ledger.path().display(), args.pair);
    };
    let mut text = beginning(&story);
    for member in &plan.members {
        let Some(number) = ledger.judge(&member.version)? else { continue };
        let Some(story) = ledger.story(number, &args.pair)? else { continue };
        let name = output::printable(member.member.as_deref().unwrap_or_default());
        let _ = writeln!(text, "\n══ {name}");
        text += &events(&story, args.questions);
    }
    text += &events(&story, args.questions);
    text += &people(&ledger.replies_to(&args.pair)?);
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A part of a text, with its title.
fn part(text: &mut String, title: &str, body: &str) {
    let _ = writeln!(text, "\n── {title}\n{}", clean(body).trim_end());
}

/// What is judged.
fn beginning(story: &Story) -> String {
    let pair = &story.pair;
    let mut text = format!("pair {} (query {}, code {})\n", pair.id, pair.query_id, pair.code_id);
    part(&mut text, "query", &pair.query);
    part(&mut text, &format!("code, {}", pair.language), &pair.code);
    text
}

/// What happened.
fn events(story: &Story, questions: bool) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: &str| part(&mut text, title, body);
    for Scene { event, asked, messages, cost, seconds, .. } in &story.scenes {
        match event {
            Event::Answer(answer) => {
                let [version, model, origin] = asked.clone().unwrap_or_default();
                if questions {
                    part(&format!("asked by {}", answer.prompt), &readable(messages));
                }
                let title = format!("{} {version}: {model}, {origin}, {cost}, {seconds:.2} s", answer.prompt);
                part(&title, &answer.text);
            }
            Event::Run(run) => {
                run_parts(&mut part, run);
            }
        }
    }
    for failure in &story.failures {
        part("failed", failure);
    }
    match &story.verdict {
        Some(verdict) => {
            let grade = verdict.grade.map_or(String::new(), |grade| format!(", grade {grade}"));
            let confidence =
                verdict.confidence.map_or(String::new(), |sure| format!(", confidence {sure:.2}"));
            let title =
                format!("verdict: {}{grade}, by {}{confidence}", verdict.outcome.name(), verdict.decided_by);
            part(&title, &verdict.reason);
        }
        None => part("no verdict yet", ""),
    }
    text
}

/// A test program, and what came of it.
fn run_parts(part: &mut impl FnMut(&str, &str), run: &Run) {
    let mut title = format!("test program, {}", run.program.language);
    if let Some(extra) = run.program.extra {
        let _ = write!(title, ", for {}", extra.name());
    }
    if !run.program.packages.is_empty() {
        let _ = write!(title, ", with {}", run.program.packages.join(", "));
    }
    part(&title, &run.program.source);
    match &run.provided {
        Err(reason) => {
            part("it did not run: its packages cannot be had", reason);
            return;
        }
        Ok(provided) if !provided.is_empty() => part("its packages", &provided.join("\n")),
        Ok(_) => {}
    }
    let memory = run.peak_memory_bytes as f64 / f64::from(1 << 20);
    let title = format!(
        "its run: {:?}, {:.2} s, {memory:.1} MiB, {}",
        run.ended,
        run.wall_time.as_secs_f64(),
        run.isolation
    );
    part(&title, &format!("{}{}", run.stdout, run.stderr));
}

/// What people say.
fn people(replies: &[PairReply]) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: &str| part(&mut text, title, body);
    for PairReply { person, date, guideline, tests, label, comment, run } in replies {
        let date = date.as_ref().map_or(String::new(), |date| format!(", {date}"));
        let tests = if *tests { "with tests" } else { "without tests" };
        part(&output::printable(&format!("{person}{date}, {tests}: {label} ({guideline})")), comment);
        if let Some(run) = run {
            run_parts(&mut part, run);
        }
    }
    text
}

/// Messages as they read.
fn readable(messages: &str) -> String {
    let messages: Vec<serde_json::Value> = serde_json::from_str(messages).unwrap_or_default();
    let text = |message: &serde_json::Value| {
        let part = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        format!("[{}]\n{}\n", part("role"), part("content").trim())
    };
    messages.iter().map(text).collect()
}

/// Text of others without what could speak to the terminal.
fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}
