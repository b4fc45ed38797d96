//! Importing filled-in forms.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use quarry_judge::ledger::{Generated, GeneratedStatus, Ledger, NewCode, NewReply, Reply, Subject, Writer};
use quarry_judge::{JudgeError, Language, Pair, Programs, Run, TestProgram, run_with_packages};
use quarry_sandbox::{Limits, Runner};
use serde::Serialize;

use crate::error::ImportError;
use crate::form::{Form, Row, rows};

const MAX_LISTED: usize = 20;

const MAX_NAME_CHARACTERS: usize = 100;

/// Options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportRequest<'a> {
    /// Annotator, if the file has no column `annotator`.
    pub person: Option<&'a str>,
    /// The date as YYYY-MM-DD, if the file has no column `date`.
    pub date: Option<&'a str>,
    /// If true, differing replies replace earlier ones of the same person.
    pub revise: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportSummary {
    pub filled: usize,
    pub blank: usize,
    pub new: usize,
    /// Number of these that replace another reply.
    pub revised: usize,
    pub unchanged: usize,
    pub programs: BTreeMap<&'static str, usize>,
}

struct AcceptedRow {
    form: usize,
    item: usize,
    person: String,
    date: Option<String>,
    reply: Reply,
}

/// Checks a filled-in form, runs its test programs in the sandbox that `sandbox` opens (only if there are any), and
/// stores new replies. If any row is invalid, none is imported. Replies that are already in the ledger are neither
/// run nor written again, so importing a file twice, or continuing after a crash, changes nothing that was done.
///
/// # Errors
/// [`ImportError::Rows`] with every invalid row; when the file cannot be read, a program cannot be run, or the
/// ledger cannot be written.
pub fn import(
    writer: &Writer,
    path: &Path,
    options: &ImportRequest<'_>,
    limits: &Limits,
    sandbox: &dyn Fn() -> Result<Box<dyn Programs>, JudgeError>,
) -> Result<ImportSummary, ImportError> {
    let bytes = fs::read(path).map_err(|source| JudgeError::Read { path: path.to_owned(), source })?;
    let wrong = |listed: Vec<(usize, String)>| ImportError::Rows {
        path: path.to_owned(),
        n_wrong: listed.len(),
        listed: grouped(listed)
            .iter()
            .take(MAX_LISTED)
            .map(|(line, more, problem)| {
                let more = if *more == 0 { String::new() } else { format!(" (and {more} more like it)") };
                format!("{}:{line}: {problem}{more}", path.display())
            })
            .collect(),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = quarry_files::invalid_line(&error);
        wrong(vec![(line, "expected UTF-8 text; save the table as CSV in UTF-8".to_owned())])
    })?;
    let rows = rows(&text).map_err(|problem| wrong(vec![problem]))?;
    if rows.is_empty() {
        return Err(wrong(vec![(1, "expected the rows of a form, found none".to_owned())]));
    }
    if !rows.iter().any(|row| row.cells.contains_key("label")) {
        let found: Vec<&str> = rows[0].cells.keys().map(String::as_str).collect();
        let problem = format!(
            "expected a column `label` with the labels that people gave, found the columns {}; restore its name, or name the \
             form that was filled in",
            found.join(", ")
        );
        return Err(wrong(vec![(1, problem)]));
    }
    let (forms, taken, blank) = check(writer.ledger(), &rows, options)?.map_err(wrong)?;

    let mut imported = ImportSummary { filled: taken.len(), blank, ..ImportSummary::default() };
    let (mut problems, mut new) = (Vec::new(), Vec::new());
    let mut reviews = HashMap::new();
    for (line, taken) in taken {
        let (form, item) = (&forms[taken.form], &forms[taken.form].items[taken.item]);
        if let (Subject::Generated(code), false) = (&item.subject, options.revise)
            && let Some(other) = other_review(writer.ledger(), form, code, &taken, &mut reviews)?
        {
            problems.push((line, other));
            continue;
        }
        match writer.ledger().reply(&form.name, item.number, &taken.person)? {
            Some(known) if known == taken.reply => imported.unchanged += 1,
            Some(known) if !options.revise => problems.push((
                line,
                format!(
                    "{} answered {:?} for this item before; now the answer is {:?}, or another column differs; pass \
                     --revise to replace the earlier answer",
                    taken.person, known.label, taken.reply.label
                ),
            )),
            known => {
                imported.revised += usize::from(known.is_some());
                new.push(taken);
            }
        }
    }
    if !problems.is_empty() {
        return Err(wrong(problems));
    }
    let programs = match new.iter().any(|taken| taken.reply.program.is_some()) {
        true => Some(sandbox()?),
        false => None,
    };
    for AcceptedRow { form, item, person, date, reply } in new {
        let (form, item) = (&forms[form], &forms[form].items[item]);
        let run = match (&reply.program, &item.subject, &programs) {
            (Some(source), Subject::Pair(pair), Some(programs)) => {
                Some(run_program(source, pair, programs.as_ref(), limits)?)
            }
            _ => None,
        };
        if let Some(run) = &run
            && let Some(language) = Language::named(&run.program.language)
        {
            *imported.programs.entry(run.result(language).name()).or_default() += 1;
        }
        let date = date.as_deref();
        let code = match &item.subject {
            Subject::Generated(code) => form
                .guideline
                .value(&reply.label)
                .and_then(|value| value.review)
                .map(|status| reviewed(code, status, &person, reply.edited.as_deref())),
            Subject::Pair(_) | Subject::Answers(_) => None,
        };
        let (form, item) = (form.name.as_str(), item.number);
        writer.add_reply(&NewReply {
            form,
            item,
            person: &person,
            date,
            reply: &reply,
            run: run.as_ref(),
            code,
        })?;
        imported.new += 1;
    }
    Ok(imported)
}

/// Merges equal problems: each with its first line and the number of further lines, as one mistake may be in every
/// row.
fn grouped(listed: Vec<(usize, String)>) -> Vec<(usize, usize, String)> {
    let (mut grouped, mut positions) = (Vec::<(usize, usize, String)>::new(), HashMap::new());
    for (line, problem) in listed {
        match positions.get(&problem) {
            Some(key) => {
                let (_, more, _) = &mut grouped[*key];
                *more += 1;
            }
            None => {
                positions.insert(problem.clone(), grouped.len());
                grouped.push((line, 0, problem));
            }
        }
    }
    grouped
}

/// Reviews of generated code by judge and query: the person, their decision, and the code.
type ReviewsByQuery = HashMap<(i64, String), (String, GeneratedStatus, String)>;

/// The conflicting review of another person, in the ledger or in the file (`reviews`), if there is one. Only one code
/// per query is kept, so one of the two has to yield.
fn other_review(
    ledger: &Ledger,
    form: &Form,
    code: &Generated,
    taken: &AcceptedRow,
    reviews: &mut ReviewsByQuery,
) -> Result<Option<String>, JudgeError> {
    let value = form.guideline.value(&taken.reply.label).and_then(|value| value.review);
    let Some(status) = value else { return Ok(None) };
    let left = taken.reply.edited.clone().unwrap_or_else(|| code.code.clone());
    let key = (code.judge, code.query_id.clone());
    let before = match reviews.remove(&key) {
        Some(before) => Some(before),
        None => ledger.generated_for(code.judge, &code.query_id)?.pop().and_then(|last| {
            // A review of code that was generated after the form was written is ignored.
            let person = last.person.filter(|_| last.round == code.round)?;
            Some((person, last.status, last.pair.code))
        }),
    };
    let now = (taken.person.clone(), status, left);
    let other = before.filter(|before| before.0 != now.0 && (before.1, &before.2) != (now.1, &now.2));
    let status = other.map(|(person, status, _)| {
        format!(
            "{person} left this code {}, but {} disagrees; settle it, and pass --revise to replace the earlier answer",
            status.name(),
            now.0
        )
    });
    reviews.insert(key, now);
    Ok(status)
}

fn reviewed(code: &Generated, status: GeneratedStatus, person: &str, edited: Option<&str>) -> NewCode {
    let Generated { judge, round, prompt, query_id, query, code, language, model } = code.clone();
    let (code, person) = (edited.map_or(code, str::to_owned), Some(person.to_owned()));
    let request = None;
    NewCode { judge, query_id, query, code, language, round, model, prompt, request, status, person }
}

/// Runs a person's test program for a pair, with the packages that it lacks.
pub(crate) fn run_program(
    source: &str,
    pair: &Pair,
    programs: &dyn Programs,
    limits: &Limits,
) -> Result<Run, JudgeError> {
    let Pair { language, code, .. } = pair;
    if let Some(problem) = programs.problem(Runner::named(language)?)? {
        let problem = format!("it is in {language}, and {problem}");
        return Err(JudgeError::Unrunnable { problem });
    }
    let source = source.to_owned();
    let program = TestProgram { language: language.clone(), source, ..TestProgram::default() };
    run_with_packages(programs, program, code, limits)
}

/// The forms, the filled-in rows with their lines, and the number of blank rows; or all problems by line.
type CheckedForms = Result<(Vec<Form>, Vec<(usize, AcceptedRow)>, usize), Vec<(usize, String)>>;

fn check(ledger: &Ledger, rows: &[Row], options: &ImportRequest<'_>) -> Result<CheckedForms, JudgeError> {
    let (mut forms, mut taken, mut problems, mut blank): (Vec<Form>, _, Vec<(usize, String)>, _) =
        (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut lines: HashMap<(usize, usize, String), usize> = HashMap::new();
    for row in rows {
        let mut wrong = |problem: String| problems.push((row.line, problem));
        let name = row.cell("form");
        let form = match forms.iter().position(|form| form.name == name) {
            Some(form) => form,
            None => match Form::read(ledger, name)? {
                Some(form) => {
                    forms.push(form);
                    forms.len() - 1
                }
                None => {
                    wrong(format!(
                        "expected in the column form the name of a form that was exported with {}, found {name:?}; \
                         name the plan or --ledger that it belongs to, and restore the column",
                        ledger.path().display()
                    ));
                    continue;
                }
            },
        };
        let items = &forms[form].items;
        // Spreadsheets may write 3 as 3.0.
        let number = row.cell("item").parse::<f64>().ok();
        let item = number
            .and_then(|number| items.binary_search_by(|item| (item.number as f64).total_cmp(&number)).ok());
        let Some(item) = item else {
            wrong(format!(
                "expected 1 to {} in the column item, found {:?}; restore it",
                items.len(),
                row.cell("item")
            ));
            continue;
        };
        let reply = match forms[form].reply(&items[item], row) {
            Ok(Some(reply)) => reply,
            Ok(None) => {
                blank += 1;
                continue;
            }
            Err(problem) => {
                wrong(problem);
                continue;
            }
        };
        let given = |column: &str, option: Option<&str>| {
            Some(row.cell(column)).filter(|cell| !cell.is_empty()).or(option).map(str::to_owned)
        };
        let person = given("annotator", options.person).unwrap_or_default().trim().to_owned();
        if person.is_empty()
            || person.chars().count() > MAX_NAME_CHARACTERS
            || person.contains(char::is_control)
        {
            wrong(format!(
                "expected the name of the person who filled it in, with 1 to {MAX_NAME_CHARACTERS} characters, found \
                 {person:?}; give --by NAME"
            ));
            continue;
        }
        let date = given("date", options.date);
        if let Some(date) = date.as_ref().filter(|date| !is_date(date)) {
            wrong(format!("expected a date such as 2026-03-31, found {date:?}"));
            continue;
        }
        if let Some(before) = lines.insert((form, item, person.clone()), row.line) {
            wrong(format!(
                "{person} already labeled item {} in line {before}; remove one of the two",
                items[item].number
            ));
            continue;
        }
        taken.push((row.line, AcceptedRow { form, item, person, date, reply }));
    }
    Ok(if problems.is_empty() { Ok((forms, taken, blank)) } else { Err(problems) })
}

/// Returns whether a text is a date in the form YYYY-MM-DD.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |text: &str, digits: usize| {
        let whole = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        if whole { text.parse::<u32>().ok() } else { None }
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_that_there_are() {
        for date in ["2026-03-31", "2024-02-29", "2000-02-29"] {
            assert!(is_date(date), "{date}");
        }
        for date in [
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-4-1",
            "31.3.2026",
            "2026-04-31",
            "2026-04-+1",
            "",
        ] {
            assert!(!is_date(date), "{date}");
        }
    }
}
