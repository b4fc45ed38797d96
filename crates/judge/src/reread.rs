//! Reading the answers and runs of a ledger again, by the current rules.
//!
//! The rules for parsing answers and classifying runs are part of a label's version, as the prompts and the model
//! are. So labels by earlier rules remain, beside those by the current rules: this derives the latter from the
//! evidence of the former, without calling a model or running a program. If the evidence does not lead to a
//! decision by the current rules, because an answer can no longer be parsed or a run has a different result from
//! the one reported to the arbiter, the pair waits, with the evidence that is still valid, for the next `quarry
//! judge run`.

use serde::Serialize;

use crate::error::JudgeError;
use crate::evidence::{Event, Run, RunResult};
use crate::judge::{Judge, Next};
use crate::language::Language;
use crate::ledger::{AdoptedPair, ChangedLabel, ChangedResult, Ledger, StoredPair, Writer};
use crate::pair::Pair;
use crate::pairs;
use crate::plan::Plan;

const PAGE: usize = 256;

/// The results of reinterpreting earlier answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Rereading")]
pub struct RereadSummary {
    /// Pairs for which evidence was adopted this time; under a majority, counted for each member.
    pub read: u64,
    /// Labels that are the same under both rules.
    pub same: u64,
    /// Labels that differ, in the order of the pairs.
    pub changed: Vec<ChangedLabel>,
}

/// The judge that used this plan under earlier rules, if there is one.
pub(crate) fn predecessor(ledger: &Ledger, plan: &Plan) -> Result<Option<i64>, JudgeError> {
    let started = ledger.described(&plan.version, &plan.description())?;
    let is_same = |text: &str| rules_for_packages(text) == rules_for_packages(&plan.text);
    Ok(started.into_iter().find(|(_, text)| is_same(text)).map(|(judge, _)| judge))
}

/// Returns true if a ledger has labels by earlier rules that [`reread`] would read again, and none by the current
/// rules.
pub fn has_earlier_labels(ledger: &Ledger, plan: &Plan) -> Result<bool, JudgeError> {
    if ledger.judge(&plan.version)?.is_some() {
        return Ok(false);
    }
    for plan in plan.members.iter().chain([plan]) {
        if let Some(before) = predecessor(ledger, plan)?
            && ledger.n_verdicts(before)? > 0
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The entries of a plan that specify packages, which the description of a judge does not include.
fn rules_for_packages(plan: &str) -> Option<toml::Table> {
    let mut plan: toml::Table = toml::from_str(plan).ok()?;
    let mut packages =
        plan.remove("packages").and_then(|packages| packages.try_into::<toml::Table>().ok())?;
    packages.remove("cache");
    Some(packages)
}

/// Parses answers again that were judged by earlier rules. Skips pairs that were already read again, so this can be
/// repeated, and resumed after an interruption.
///
/// # Errors
/// When there is no ledger, its pairs cannot be read, or it cannot be written.
pub fn reread(plan: &Plan) -> Result<RereadSummary, JudgeError> {
    Ledger::open(&plan.ledger)?;
    let checked = pairs::check(plan)?;
    let writer = Writer::open(&plan.ledger)?;
    let mut found = RereadSummary::default();
    let Some(before) = predecessor(writer.ledger(), plan)? else { return Ok(found) };
    pairs::note(&checked, plan, &writer)?;
    let members =
        plan.members.iter().map(|member| writer.start(member, &[])).collect::<Result<Vec<_>, _>>()?;
    let judge = writer.start(plan, &members)?;
    writer.adopt_generated(judge, before)?;
    let judges: Vec<(&Plan, i64)> = match members.is_empty() {
        true => vec![(plan, judge)],
        false => plan.members.iter().zip(members).collect(),
    };
    for (plan, number) in judges {
        if let Some(before) = predecessor(writer.ledger(), plan)? {
            found.read += adopt(&writer, &plan.judge, [number, before, judge])?;
        }
    }
    (found.same, found.changed) = writer.ledger().differences(judge, before)?;
    Ok(found)
}

/// Adopts the evidence of judge `before` for pairs without any of `number`; returns the number of pairs.
fn adopt(writer: &Writer, judge: &Judge, [number, before, owner]: [i64; 3]) -> Result<u64, JudgeError> {
    let (mut after, mut n_pairs) = (0, 0);
    loop {
        let page = writer.ledger().stored([number, before, owner], after, PAGE)?;
        let Some(last) = page.last() else { return Ok(n_pairs) };
        after = last.number;
        n_pairs += page.len() as u64;
        writer.adopt(number, page.into_iter().map(|stored| read_again(judge, stored)).collect())?;
    }
}

/// Judges a pair from its stored evidence by the current rules.
fn read_again(judge: &Judge, stored: StoredPair) -> AdoptedPair {
    let StoredPair { number, pair, events, verdict } = stored;
    let had_verdict = verdict.is_some();
    let mut known: Vec<Event> = Vec::new();
    let mut taken = Vec::new();
    let mut other_run = None;
    for event in events {
        let is_next = match judge.next(&pair, &known) {
            // Later evidence depended on something that has changed.
            Ok(Next::Ask(_)) => other_run.is_none(),
            Ok(Next::Run(_)) => true,
            Ok(Next::Decide(_)) | Err(_) => false,
        };
        if !is_next {
            break;
        }
        known.push(event.event.clone());
        if judge.next(&pair, &known).is_err() {
            known.pop();
            break;
        }
        let came_to = match &event.event {
            Event::Run(run) => changed_result(run, event.result.as_deref()),
            Event::Answer(_) => None,
        };
        if let Some(ChangedResult { result, .. }) = &came_to {
            let before = event.result.clone().unwrap_or_default();
            other_run.get_or_insert((before, *result));
        }
        taken.push((event, came_to));
    }
    let verdict = match judge.next(&pair, &known) {
        Ok(Next::Decide(verdict)) => Some(verdict),
        _ => None,
    };
    let is_open = had_verdict && verdict.is_none();
    let reason = is_open.then(|| pending_reason(judge, &pair, &known, other_run));
    AdoptedPair { number, events: taken, verdict, reason }
}

/// The result of a run, if it differs from the stored one.
fn changed_result(run: &Run, stored: Option<&str>) -> Option<ChangedResult> {
    let language = Language::named(&run.program.language)?;
    let result = run.result(language);
    let tests = run.n_tests(language);
    (Some(result.name()) != stored).then(|| ChangedResult { run: run.clone(), result, tests })
}

/// The reason why a pair waits.
fn pending_reason(
    judge: &Judge,
    pair: &Pair,
    known: &[Event],
    other_run: Option<(String, RunResult)>,
) -> String {
    if let Some((before, now)) = other_run {
        return format!(
            "reinterpreted: the result of its program is {}, not {before}; questions that quoted it must be asked \
             again",
            now.name()
        );
    }
    match judge.next(pair, known) {
        Ok(Next::Ask(question)) => {
            let content = question.request.messages.last().map_or("", |message| message.content.as_str());
            let problem = content.split_once(". Answer again").map(|(problem, _)| problem);
            let problem = problem.and_then(|problem| problem.strip_prefix("That cannot be read: "));
            let problem = problem.unwrap_or("under these rules, its question is a different one");
            format!("reinterpreted: {} must be asked again: {problem}", question.prompt)
        }
        Ok(Next::Run(_)) => "reinterpreted: a different program must be run".to_owned(),
        Ok(Next::Decide(_)) => String::new(),
        Err(wrong) => format!("reinterpreted: {wrong}"),
    }
}
