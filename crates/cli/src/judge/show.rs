//! `quarry judge show`.

use std::fmt::Write as _;

use anyhow::bail;
use clap::Args;
use quarry_judge::ledger::{History, ListedPair, PairReply, Step};
use quarry_judge::{Event, JudgeError, Ledger, Run};

use super::PlanArgs;
use crate::output;

const MAX_QUERY_CHARACTERS: usize = 100;

/// Width of a column; longer cells push those after them to the right.
const MAX_COLUMN_CHARACTERS: usize = 60;

/// Arguments of `quarry judge show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Id of the pair, or at least its first four characters; without one, list all pairs, one per line
    #[arg(value_name = "PAIR")]
    pair: Option<String>,
    /// Show the questions too
    #[arg(long, requires = "pair")]
    questions: bool,
    /// List only pairs whose verdict differs from their file's label
    #[arg(long, conflicts_with = "pair")]
    differing: bool,
}

pub fn run(args: &ShowArgs) -> anyhow::Result<()> {
    let (plan, ledger, judge) = args.plan.judged()?;
    let Some(id) = &args.pair else {
        output::print(&list(&ledger, judge, args.differing)?)?;
        return Ok(());
    };
    let called = ledger.id_of(id)?;
    let history = called.map_or(Ok(None), |id| ledger.history(judge, &id))?;
    let Some(history) = history else {
        let plan = args.plan.plan.display();
        bail!(
            "{}: expected the id of a pair, or the beginning of exactly one, found {id:?}; `quarry judge show {plan}` \
             lists the pairs of the plan",
            ledger.path().display()
        );
    };
    let id = &history.pair.id;
    let mut text = beginning(&history);
    for member in &plan.members {
        let Some(number) = ledger.judge(&member.version)? else { continue };
        let Some(history) = ledger.history(number, id)? else { continue };
        let name = output::printable(member.member.as_deref().unwrap_or_default());
        let _ = writeln!(text, "\n══ {name}");
        text += &events(&history, args.questions);
    }
    text += &events(&history, args.questions);
    text += &people(&ledger.replies_to(id)?);
    output::print(&text)?;
    Ok(())
}

fn list(ledger: &Ledger, judge: i64, differing: bool) -> Result<String, JudgeError> {
    let mut rows = vec![["pair", "verdict", "decided by", "label", "query"].map(str::to_owned)];
    ledger.for_each_listed(judge, |listed| {
        if differing && !listed.differs() {
            return;
        }
        let none = || "-".to_owned();
        let ListedPair { id, query, file, verdict } = listed;
        let (outcome, decided_by) =
            verdict.map_or_else(|| (none(), none()), |(outcome, by)| (outcome.name().to_owned(), by));
        let file = file.map_or_else(none, |label| label.to_string());
        rows.push([output::printable(&id).into_owned(), outcome, decided_by, file, one_line(&query)]);
    })?;
    let longest =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let width = |column| longest(column).min(MAX_COLUMN_CHARACTERS);
    let [id, outcome, by, file] = [0, 1, 2, 3].map(width);
    let line = |row: &[String; 5]| {
        format!("{:<id$}  {:<outcome$}  {:<by$}  {:<file$}  {}\n", row[0], row[1], row[2], row[3], row[4])
    };
    Ok(rows.iter().map(line).collect())
}

/// The beginning of a text, on one line.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = words.char_indices().nth(MAX_QUERY_CHARACTERS).map(|(end, _)| end);
    let shown = end.map_or_else(|| words.clone(), |end| format!("{}…", &words[..end]));
    output::printable(&shown).into_owned()
}

/// A part of a text, with its title. Either may hold what files and servers say.
fn part(text: &mut String, title: &str, body: &str) {
    let _ = writeln!(text, "\n── {}", output::printable(title));
    let body = output::harmless(body);
    if !body.trim().is_empty() {
        let _ = writeln!(text, "{}", body.trim_end());
    }
}

fn beginning(history: &History) -> String {
    let pair = &history.pair;
    let [id, query, code] = [&pair.id, &pair.query_id, &pair.code_id].map(|id| output::printable(id));
    let mut text = format!("pair {id} (query {query}, code {code})\n");
    part(&mut text, "query", &pair.query);
    part(&mut text, &format!("code, {}", pair.language), &pair.code);
    text
}

fn events(history: &History, questions: bool) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: &str| part(&mut text, title, body);
    // A program is shown once, mostly in the answer that it was read from.
    let mut shown = String::new();
    for Step { event, asked, messages, cost, seconds, .. } in &history.steps {
        match event {
            Event::Answer(answer) => {
                let [version, model, origin] = asked.clone().unwrap_or_default();
                if questions {
                    part(&format!("asked by {}", answer.prompt), &readable(messages));
                }
                let title = format!("{} {version}: {model}, {origin}, {cost}, {seconds:.2} s", answer.prompt);
                part(&title, &answer.text);
                shown.push_str(&answer.text);
            }
            Event::Run(run) => {
                let is_shown = shown.contains(run.program.source.trim());
                run_parts(&mut part, run, is_shown);
                shown.push_str(&run.program.source);
            }
        }
    }
    let mut failures: Vec<(&String, usize)> = Vec::new();
    for failure in &history.failures {
        match failures.iter_mut().find(|(known, _)| *known == failure) {
            Some((_, times)) => *times += 1,
            None => failures.push((failure, 1)),
        }
    }
    for (failure, times) in failures {
        part(&if times > 1 { format!("failed, {times} times") } else { "failed".to_owned() }, failure);
    }
    match &history.verdict {
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

/// A test program, unless that was shown before, and what came of it.
fn run_parts(part: &mut impl FnMut(&str, &str), run: &Run, is_shown: bool) {
    let mut title = format!("test program, {}", run.program.language);
    if let Some(optional_step) = run.program.optional_step {
        let _ = write!(title, ", for {}", optional_step.name());
    }
    if !run.program.packages.is_empty() {
        let _ = write!(title, ", with {}", run.program.packages.join(", "));
    }
    if is_shown {
        part(&format!("{title}: as above"), "");
    } else {
        part(&title, &run.program.source);
    }
    match &run.provided {
        Err(reason) => {
            part("it did not run: its packages are not available", reason);
            return;
        }
        Ok(provided) if !provided.is_empty() => part("its packages", &provided.join("\n")),
        Ok(_) => {}
    }
    let memory = run.peak_memory_bytes as f64 / f64::from(1 << 20);
    let is_apart = run.assertions.is_some_and(|assertions| assertions.is_apart);
    let title = format!(
        "its run: {}, {:.2} s, {memory:.1} MiB, {}{}",
        run.ended,
        run.wall_time.as_secs_f64(),
        run.isolation,
        if is_apart { ", its assertions reported apart from the code" } else { "" }
    );
    part(&title, &format!("{}{}", run.stdout, run.stderr));
}

fn people(replies: &[PairReply]) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: &str| part(&mut text, title, body);
    for PairReply { person, date, guideline, tests, label, comment, run } in replies {
        let tests = if *tests { "with tests" } else { "without tests" };
        part(&format!("{person}, {date}, {tests}: {label} ({guideline})"), comment);
        if let Some(run) = run {
            run_parts(&mut part, run, false);
        }
    }
    text
}

fn readable(messages: &str) -> String {
    let messages: Vec<serde_json::Value> = serde_json::from_str(messages).unwrap_or_default();
    let text = |message: &serde_json::Value| {
        let part = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        format!("[{}]\n{}\n", part("role"), part("content").trim())
    };
    messages.iter().map(text).collect()
}
