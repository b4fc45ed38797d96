//! Reading the pairs of a plan from files into the ledger.

use std::slice;

use quarry_corpus::dataset;
use quarry_corpus::formats::source::Source;
use quarry_corpus::formats::{Record, RecordKind};

use crate::error::JudgeError;
use crate::language::Language;
use crate::ledger::Writer;
use crate::pair::Pair;
use crate::plan::Plan;

/// Maximum number of invalid pairs listed in an error.
const MAX_LISTED: usize = 10;

/// Pairs written per transaction.
const BATCH: usize = 1000;

/// Files of pairs that were read completely and can be judged.
#[derive(Debug)]
pub(crate) struct CheckedPairs {
    sources: Vec<Source>,
    /// The languages that occur, in alphabetical order.
    pub(crate) languages: Vec<String>,
}

/// Reads all pairs of a plan once, to find invalid ones before any question is asked.
///
/// # Errors
/// When the plan names no file, or an invalid one, and [`JudgeError::Pairs`].
pub(crate) fn check(plan: &Plan) -> Result<CheckedPairs, JudgeError> {
    if plan.pairs.is_empty() {
        return Err(JudgeError::Plan {
            path: plan.path.clone(),
            problem: "`pairs` is missing or empty; expected files of pairs".to_owned(),
        });
    }
    let mut sources = Vec::new();
    for path in &plan.pairs {
        let mut found = dataset::sources(slice::from_ref(path), &plan.format, "test")?;
        // A directory may also contain separate files of queries and codes.
        if path.is_dir() && found.iter().any(|source| source.format.holds == RecordKind::Pairs) {
            found.retain(|source| source.format.holds == RecordKind::Pairs);
        }
        sources.append(&mut found);
    }
    if let Some(other) = sources.iter().find(|source| source.format.holds != RecordKind::Pairs) {
        return Err(JudgeError::Plan {
            path: plan.path.clone(),
            problem: format!(
                "{}: expected a file of pairs, found one of {} ({}); if it contains pairs, name its format (`format = …`) to \
                 see what is wrong with the first; `quarry data convert --to query-code` makes pairs from queries, \
                 codes and judgments",
                other.path.display(),
                other.format.name,
                other.format.about
            ),
        });
    }
    let (mut n_pairs, mut n_wrong, mut listed, mut languages) = (0, 0, Vec::new(), Vec::new());
    for source in &sources {
        let mut number = 0;
        for_each(slice::from_ref(source), plan, &mut |pair| {
            n_pairs += 1;
            number += 1;
            if let Some(problem) = problem(&pair, plan) {
                n_wrong += 1;
                if listed.len() < MAX_LISTED {
                    // A pair without an id in the file cannot be found by a generated one.
                    listed.push(format!(
                        "  {}: record {number}, pair {}: {problem}",
                        source.path.display(),
                        pair.id
                    ));
                }
            } else if !languages.contains(&pair.language) {
                languages.push(pair.language);
            }
        })?;
    }
    if n_wrong > listed.len() {
        listed.push(format!("  and {} more", n_wrong - listed.len()));
    }
    if n_wrong > 0 || n_pairs == 0 {
        return Err(JudgeError::Pairs { n_wrong, n_pairs, listed });
    }
    languages.sort();
    Ok(CheckedPairs { sources, languages })
}

pub(crate) fn note(checked: &CheckedPairs, plan: &Plan, writer: &Writer) -> Result<(), JudgeError> {
    writer.begin_list()?;
    let (mut batch, mut clashes, mut n_clashes, mut failed) = (Vec::new(), Vec::new(), 0, None);
    let mut add = |batch: &mut Vec<Pair>| match writer.add_pairs(std::mem::take(batch)) {
        Ok(found) => {
            n_clashes += found.len();
            clashes.extend(found.into_iter().take(MAX_LISTED - clashes.len()));
        }
        Err(error) => failed = failed.take().or(Some(error)),
    };
    for_each(&checked.sources, plan, &mut |pair| {
        batch.push(pair);
        if batch.len() == BATCH {
            add(&mut batch);
        }
    })?;
    add(&mut batch);
    if let Some(error) = failed {
        return Err(error);
    }
    if n_clashes == 0 {
        return Ok(());
    }
    let lines = clashes.iter().map(|problem| format!("\n  {problem}"));
    let more = match n_clashes - clashes.len() {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Err(JudgeError::Plan {
        path: plan.path.clone(),
        problem: format!(
            "an id must identify one text and one label, in all files and in the ledger; give different pairs different \
             ids, or name another ledger if the pairs have changed since it was made:{}{more}",
            lines.collect::<String>()
        ),
    })
}

/// Opens the ledger of a plan for writing, with the number of the plan's judge. If the judge has not judged yet, the
/// plan's pairs are recorded first, so that people can label before models do.
///
/// # Errors
/// When a pair cannot be judged, or the ledger cannot be used.
pub fn open_ledger(plan: &Plan) -> Result<(Writer, i64), JudgeError> {
    if plan.ledger.exists() {
        let writer = Writer::open(&plan.ledger)?;
        if let Some(judge) = writer.ledger().judge(&plan.version)? {
            return Ok((writer, judge));
        }
    }
    record_pairs(plan)
}

/// Opens the ledger of a plan for writing, and records the plan's pairs as its current list, whatever it has already.
/// Returns it with the number of the plan's judge.
///
/// # Errors
/// Like [`open_ledger`].
pub fn record_pairs(plan: &Plan) -> Result<(Writer, i64), JudgeError> {
    let checked = check(plan)?;
    let writer = Writer::open(&plan.ledger)?;
    note(&checked, plan, &writer)?;
    let members =
        plan.members.iter().map(|member| writer.start(member, &[])).collect::<Result<Vec<_>, _>>()?;
    let judge = writer.start(plan, &members)?;
    Ok((writer, judge))
}

fn for_each(sources: &[Source], plan: &Plan, each: &mut dyn FnMut(Pair)) -> Result<(), JudgeError> {
    Ok(dataset::for_each(sources, &mut |_, record| {
        if let Record::Pair(pair) = record {
            each(from_record(*pair, plan));
        }
        Ok(())
    })?)
}

fn from_record(pair: quarry_corpus::formats::Pair, plan: &Plan) -> Pair {
    let language = language(&pair.language.or_else(|| plan.language.clone()).unwrap_or_default());
    let id = |id: Option<String>, text: &str| id.unwrap_or_else(|| Pair::id_of(&[text]));
    let mut pair = Pair {
        id: pair.id.unwrap_or_default(),
        query_id: id(pair.query.id, &pair.query.text),
        query: pair.query.text,
        code_id: id(pair.code.id, &pair.code.text),
        code: pair.code.text,
        language,
        label: pair.label,
        alternative: None,
    };
    if pair.id.is_empty() {
        pair.id = pair.content()[..16].to_owned();
    }
    pair
}

/// The canonical name of a language that has tests, for aliases such as `js` or `golang`; other names in lower case.
pub(crate) fn language(called: &str) -> String {
    let called = called.to_lowercase();
    let known = || quarry_source::language_called(&called).map(quarry_source::Language::name);
    match Language::named(&called) {
        Some(_) => called,
        None => known().filter(|name| Language::named(name).is_some()).map_or(called.clone(), str::to_owned),
    }
}

/// Why a pair cannot be judged.
fn problem(pair: &Pair, plan: &Plan) -> Option<String> {
    if pair.query.trim().is_empty() {
        return Some("it has no query; add it, or remove the pair".to_owned());
    }
    if pair.code.trim().is_empty() {
        return Some("it has no code; add it, or remove the pair".to_owned());
    }
    if plan.judge.runs_tests() && Language::named(&pair.language).is_none() {
        let known = Language::names().collect::<Vec<_>>().join(", ");
        let (found, remedy) = match pair.language.as_str() {
            "" => ("no language", "set `language` in the plan for pairs without one"),
            language => (language, "fix it"),
        };
        return Some(format!(
            "expected one of {known} as its language, found {found}; {remedy}, or choose a judge without tests"
        ));
    }
    None
}
