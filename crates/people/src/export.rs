//! Writing forms.

use std::fs;
use std::path::{Path, PathBuf};

use quarry_corpus::formats::write::Staged;
use quarry_judge::ledger::{Generated, GeneratedCode, GeneratedStatus, Subject, Writer};
use quarry_judge::{JudgeError, Language, Pair};

use crate::answers::{AnswersOptions, answers};
use crate::form::{FileFormat, Form};
use crate::guideline::{Guideline, ItemKind};
use crate::sample::{Sampling, candidates};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedForm {
    pub form: String,
    pub rows: usize,
    pub instructions: PathBuf,
    /// Numbers of rows with a text that many spreadsheets would truncate.
    pub too_long: Vec<i64>,
    /// Queries that were omitted because both sides give the same answers.
    pub same: usize,
}

/// Writes pairs of the ledger's last start to `out`, with the instructions beside it.
///
/// # Errors
/// When no pair is selected, test programs are requested in a language that has no runner, the guideline is for
/// another kind of item, `out` already exists, or a file cannot be written.
pub fn export_pairs(
    writer: &Writer,
    judge: i64,
    guideline: Guideline,
    sampling: &Sampling,
    tests: bool,
    out: &Path,
) -> Result<ExportedForm, JudgeError> {
    expect(&guideline, ItemKind::Pair)?;
    let ledger = writer.ledger();
    let pairs = ledger.pairs(&sampling.choose(candidates(ledger, judge)?))?;
    if let Some(pair) = pairs.iter().find(|pair| tests && Language::named(&pair.language).is_none()) {
        let known = Language::names().collect::<Vec<_>>().join(", ");
        return Err(wrong(
            out,
            format!(
                "people are asked for test programs, but the pair {} is in {:?}, which cannot be run; expected one of \
                 {known}",
                pair.id, pair.language
            ),
        ));
    }
    let subjects = pairs.into_iter().map(Subject::Pair).collect();
    write(writer, Form::new(guideline, tests, sampling.seed, subjects), 0, out)
}

/// Writes the answers of one or two systems, with the instructions beside them. See [`answers`].
///
/// # Errors
/// Like [`answers`] and [`export_pairs`].
pub fn export_answers(
    writer: &Writer,
    guideline: Guideline,
    systems: &[(String, PathBuf)],
    options: &AnswersOptions,
    out: &Path,
) -> Result<ExportedForm, JudgeError> {
    expect(&guideline, if systems.len() == 1 { ItemKind::List } else { ItemKind::Sides })?;
    if let [(first, _), (second, _)] = systems
        && first == second
    {
        return Err(wrong(out, format!("both sides are called {first:?}; give them different names")));
    }
    let (same, answers) = answers(systems, options)?;
    let subjects = answers.into_iter().map(Subject::Answers).collect();
    write(writer, Form::new(guideline, false, options.seed, subjects), same, out)
}

/// Writes generated code of the plan of `judge` that has not been reviewed yet, at most `at_most` codes in random
/// order by `seed`, with the instructions beside it.
pub fn export_generated(
    writer: &Writer,
    judge: i64,
    guideline: Guideline,
    at_most: Option<usize>,
    seed: u64,
    out: &Path,
) -> Result<ExportedForm, JudgeError> {
    expect(&guideline, ItemKind::Generated)?;
    let mut open = writer.ledger().generated(judge)?;
    open.retain(|code| code.status == GeneratedStatus::Generated);
    fastrand::Rng::with_seed(seed).shuffle(&mut open);
    open.truncate(at_most.unwrap_or(usize::MAX));
    let subject = |code: GeneratedCode| {
        let GeneratedCode { pair, round, model, prompt, .. } = code;
        let Pair { query_id, query, code, language, .. } = pair;
        Subject::Generated(Generated { judge, round, prompt, query_id, query, code, language, model })
    };
    write(writer, Form::new(guideline, false, seed, open.into_iter().map(subject).collect()), 0, out)
}

fn expect(guideline: &Guideline, exported: ItemKind) -> Result<(), JudgeError> {
    if guideline.asks() == exported {
        return Ok(());
    }
    let asks = match guideline.asks() {
        ItemKind::Pair => "pairs",
        ItemKind::List => "lists of results (--side NAME=PATH)",
        ItemKind::Sides => "two sides (--side NAME=PATH twice)",
        ItemKind::Generated => "generated code (--generated)",
    };
    let exported = match exported {
        ItemKind::Pair => "pairs",
        ItemKind::List => "one list of results",
        ItemKind::Sides => "two sides",
        ItemKind::Generated => "generated code",
    };
    let problem =
        format!("this guideline asks about {asks}, but {exported} are exported; choose one that fits");
    Err(JudgeError::Prompt { file: guideline.name.clone(), problem })
}

/// The form is recorded in the ledger before the file exists: an unused form is harmless, but one that is not in the
/// ledger could not be imported.
fn write(writer: &Writer, form: Form, same: usize, out: &Path) -> Result<ExportedForm, JudgeError> {
    if form.items.is_empty() {
        return Err(wrong(out, "nothing to export: no item matches the options".to_owned()));
    }
    let ending = out.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let format = match ending.as_str() {
        "csv" => FileFormat::Csv,
        "jsonl" => FileFormat::JsonLines,
        _ => return Err(wrong(out, "expected a name that ends in .csv or .jsonl".to_owned())),
    };
    let instructions = out.with_extension("md");
    let texts = [
        (instructions.clone(), form.guideline.instructions(form.tests)),
        (out.to_owned(), form.write(format)),
    ];
    let staged = texts.iter().map(|(path, _)| Staged::new(path)).collect::<Result<Vec<_>, _>>()?;
    form.record(writer)?;
    for (staged, (path, text)) in staged.into_iter().zip(texts) {
        fs::write(staged.path(), text).map_err(|source| JudgeError::Write { path, source })?;
        staged.publish()?;
    }
    let too_long = if format == FileFormat::Csv { form.too_long_for_spreadsheets() } else { Vec::new() };
    Ok(ExportedForm { form: form.name, rows: form.items.len(), instructions, too_long, same })
}

fn wrong(path: &Path, problem: String) -> JudgeError {
    JudgeError::Plan { path: path.to_owned(), problem }
}
