//! Kinds of analysis, as StatCodeSearch distinguishes them (GenCodeSearchNet, 2023, section 3): a model decides for each comment
//! with its code which kind it is, people check that on a sheet, and codes of no kind are removed from the pool.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use quarry_corpus::formats::table::Table;
use quarry_corpus::formats::write::write_csv;
use quarry_judge::{AuthorRole, Graded, language_title};
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::jsonl::{self, RandomReader, Writer};
use crate::plan::{CategoryInput, CategoryPlan};
use crate::queries::authoring::{Authoring, add_usage, stopped};
use crate::queries::category::{CATEGORIES, Example, RULES_TEXT, named};
use crate::record::{CodeRecord, PairRecord};
use crate::sources::pool::{self, POOL, Removed, Shares};
use crate::step::{Key, Step, hash_file};

/// Incremented when the same answers lead to another pool.
const VERSION: u32 = 1;

pub(crate) const STEP: &str = "categories";

/// The sheet for people, with the categories that the model chose.
pub(crate) const SHEET: &str = "review.csv";
/// Codes whose category cannot be read, with the reason.
const EXCLUDED: &str = "excluded.jsonl";

fn prompt(plan: &CategoryPlan) -> &'static str {
    match plan.shown {
        CategoryInput::Pair => "statcodesearch",
        CategoryInput::Comment => "statcodesearch-comment",
    }
}

/// Columns of the sheet that people fill in or correct.
const ID: &str = "id";
const MODEL: &str = "model";
const CATEGORY: &str = "category";
const KEEP: &str = "keep";

/// The names of all categories, without the one for none.
fn relevant() -> Vec<&'static str> {
    let names = CATEGORIES.iter().map(|category| category.name.as_str());
    names.take(CATEGORIES.len().saturating_sub(1)).collect()
}

/// Returns whether a count of the step is one of codes, not of questions or tokens.
pub(crate) fn is_of_codes(count: &str) -> bool {
    count.starts_with(REMOVED) || count == CHANGED || relevant().contains(&count)
}

/// Prefix of counts of removed codes, and the count of those whose category people changed.
const REMOVED: &str = "removed: ";
const CHANGED: &str = "categories that people changed";

#[derive(Serialize)]
struct Identity<'p> {
    plan: &'p CategoryPlan,
    /// Hash of the sheet that people filled in, or the version of the model's answers.
    says: String,
    rules: String,
}

pub(crate) fn step(
    plan: &CategoryPlan,
    authoring: Option<&Authoring<'_>>,
    pool: &Key,
) -> Result<Step, BuildError> {
    let says = match (&plan.review, authoring) {
        (Some(review), _) => hash_file(review)?,
        (None, Some(authoring)) => {
            authoring.plan.version(authoring.directory, AuthorRole::Writer, &[prompt(plan)])?
        }
        (None, None) => return Err(BuildError::step(STEP, NOBODY)),
    };
    let identity = Identity { plan, says, rules: quarry_files::sha256(RULES_TEXT) };
    Ok(Step::new(STEP, VERSION, &identity, &[pool]))
}

/// Plans are checked for this.
const NOBODY: &str =
    "expected [author], the model that decides the category of each comment, or `review`, found neither";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    Category(&'static str),
    /// It is not kept, for this reason.
    Removed(&'static str),
    Unreadable(String),
}

const NO_CATEGORY: &str = "of no category";
const NOT_REVIEWED: &str = "not reviewed";
const REFUSED: &str = "not kept by people";
const UNREADABLE: &str = "unreadable answers";
const UNDOCUMENTED: &str = "without a comment";

/// Writes the codes of a pool that are of a category, and the sheet for people if a model decided.
pub(crate) fn write(
    plan: &CategoryPlan,
    authoring: Option<&Authoring<'_>>,
    pool: &Path,
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut counts = BTreeMap::new();
    let decisions = match (&plan.review, authoring) {
        (Some(review), _) => decided_by_people(review, &mut counts)?,
        (None, Some(authoring)) => decided_by_model(plan, authoring, pool, &mut counts)?,
        (None, None) => return Err(BuildError::step(STEP, NOBODY)),
    };
    let about = match plan.review {
        Some(_) => format!("code that people keep, of {}", relevant().join(", ")),
        None => format!("code that a model assigned to {}", relevant().join(", ")),
    };
    let mut removed = Removed::new(STEP, &about);
    let mut shares = Shares { forks: Vec::new(), ..Shares::default() };
    let mut writer = Writer::create(&step.join(POOL))?;
    let mut excluded = Writer::create(&step.join(EXCLUDED))?;
    let mut sheet = match plan.review {
        Some(_) => None,
        None => Some(ReviewSheet::create(step.join(SHEET))?),
    };
    let mut n_kept = 0;
    jsonl::for_each(&pool.join(POOL), &mut |record: CodeRecord, _| {
        let decision = decisions.get(&record.id).cloned().unwrap_or(match plan.review {
            Some(_) => Decision::Removed(NOT_REVIEWED),
            None => Decision::Removed(UNDOCUMENTED),
        });
        let reason = match decision {
            Decision::Category(category) => {
                n_kept += 1;
                *counts.entry(category.to_owned()).or_default() += 1;
                shares.count(&record);
                if let Some(sheet) = &mut sheet {
                    sheet.add(&record, category)?;
                }
                return writer.write(&CodeRecord { category: Some(category.to_owned()), ..record });
            }
            Decision::Removed(reason) => reason,
            Decision::Unreadable(problem) => {
                let CodeRecord { id, path, start_line, .. } = &record;
                let place = format!("{path}:{start_line}");
                excluded.write(&serde_json::json!({"id": id, "place": place, "problem": problem}))?;
                UNREADABLE
            }
        };
        *counts.entry(format!("{REMOVED}{reason}")).or_default() += 1;
        removed.count(&record);
        Ok(())
    })?;
    writer.finish()?;
    excluded.finish()?;
    sheet.map(ReviewSheet::finish).transpose()?;
    if n_kept == 0 {
        let found: Vec<String> = counts.iter().map(|(what, count)| format!("{what} {count}")).collect();
        let problem = format!(
            "expected code of a category, found none: {}; take other sources, or fill in the column `{KEEP}` of the sheet",
            found.join(", ")
        );
        return Err(BuildError::step(STEP, problem));
    }
    let (mut all_removed, of_pool) = pool::summary(pool)?;
    shares = Shares { forks: of_pool.forks, masked: of_pool.masked, ..shares };
    all_removed.push(removed);
    pool::write_summary(step, &all_removed, &shares)?;
    counts.insert("kept".into(), n_kept);
    Ok(counts)
}

/// The decisions of a model on all codes with a comment, by their ids.
fn decided_by_model(
    plan: &CategoryPlan,
    authoring: &Authoring<'_>,
    pool: &Path,
    counts: &mut BTreeMap<String, u64>,
) -> Result<HashMap<String, Decision>, BuildError> {
    #[derive(Deserialize)]
    struct Documented {
        id: String,
        #[serde(default)]
        documentation: String,
    }
    let path = pool.join(POOL);
    let mut items: Vec<(String, u64)> = Vec::new();
    jsonl::for_each(&path, &mut |Documented { id, documentation }, at| {
        if !documentation.trim().is_empty() {
            items.push((id, at));
        }
        Ok(())
    })?;
    let records = Mutex::new(RandomReader::open(&path)?);
    let author = authoring.open()?;
    let (categories, examples) = (listed(), shown(plan.examples, plan.shown));
    let answers = authoring.ask_all(&author, STEP, &items, |(_, at)| {
        let record: CodeRecord = records.lock().unwrap_or_else(PoisonError::into_inner).read(*at)?;
        let values = BTreeMap::from([
            ("query", record.documentation),
            ("code", record.code),
            ("language", language_title(&record.language).to_owned()),
            ("categories", categories.clone()),
            ("examples", examples.clone()),
        ]);
        author.grade(AuthorRole::Writer, prompt(plan), &values, authoring.stop).map_err(stopped)
    })?;
    add_usage(counts, author.usage());
    let decision = |answer| match answer {
        Ok(Graded { grade: 0, .. }) => Decision::Removed(NO_CATEGORY),
        Ok(Graded { grade, .. }) => Decision::Category(named(grade)),
        Err(problem) => Decision::Unreadable(problem),
    };
    Ok(items.into_iter().map(|(id, _)| id).zip(answers.into_iter().map(decision)).collect())
}

fn listed() -> String {
    let lines: Vec<String> =
        CATEGORIES.iter().map(|category| format!("- {}: {}", category.name, category.about)).collect();
    lines.join("\n")
}

/// So many examples of each category, for the prompt; one of each before the second of any.
fn shown(n_examples: usize, input: CategoryInput) -> String {
    let examples = (0..n_examples).flat_map(|number| {
        CATEGORIES.iter().filter_map(move |category| Some((&category.name, category.examples.get(number)?)))
    });
    let example = |(name, Example { comment, code }): (&String, &Example)| {
        let code = match input {
            CategoryInput::Pair => format!("<code>\n{code}\n</code>\n"),
            CategoryInput::Comment => String::new(),
        };
        format!("<comment>\n{comment}\n</comment>\n{code}{name}\n\n")
    };
    examples.map(example).collect()
}

/// The decisions on a sheet that people filled in, by the ids of codes.
fn decided_by_people(
    path: &Path,
    counts: &mut BTreeMap<String, u64>,
) -> Result<HashMap<String, Decision>, BuildError> {
    let sheet = Table::read(path)?;
    let names: Vec<&'static str> = CATEGORIES.iter().map(|category| category.name.as_str()).collect();
    let expected = format!("one of {}", names.join(", "));
    let known = |field: &str| names.iter().copied().find(|name| name.eq_ignore_ascii_case(field));
    let ids = sheet.column(ID, "the id of a code", |field| (!field.is_empty()).then_some(field))?;
    let categories = sheet.column(CATEGORY, &expected, known)?;
    let models = sheet.column(MODEL, &expected, known)?;
    let keeps = sheet.column(KEEP, "yes, no or nothing", |field| match field.to_lowercase().as_str() {
        "" => Some(None),
        "yes" => Some(Some(true)),
        "no" => Some(Some(false)),
        _ => None,
    })?;
    let mut decisions = HashMap::new();
    for (((id, category), model), keep) in ids.into_iter().zip(categories).zip(models).zip(keeps) {
        if keep.is_some() && category != model {
            *counts.entry(CHANGED.to_owned()).or_default() += 1;
        }
        let decision = match keep {
            None => Decision::Removed(NOT_REVIEWED),
            Some(false) => Decision::Removed(REFUSED),
            Some(true) if relevant().contains(&category) => Decision::Category(category),
            Some(true) => Decision::Removed(NO_CATEGORY),
        };
        if decisions.insert(id.to_owned(), decision).is_some() {
            let problem =
                format!("expected each code once in {}, found {id} twice; remove one row", path.display());
            return Err(BuildError::step(STEP, problem));
        }
    }
    Ok(decisions)
}

/// The sheet on which people decide what to keep.
struct ReviewSheet {
    path: PathBuf,
    file: BufWriter<File>,
}

impl ReviewSheet {
    fn create(path: PathBuf) -> Result<Self, BuildError> {
        let file = File::create(&path).map_err(BuildError::write(&path))?;
        let mut sheet = Self { path, file: BufWriter::new(file) };
        // Without a byte order mark, some spreadsheets do not recognize UTF-8.
        let id = format!("\u{feff}{ID}");
        sheet.row(&[
            &id,
            "repository",
            "path",
            "line",
            "license",
            "comment",
            "code",
            MODEL,
            CATEGORY,
            KEEP,
        ])?;
        Ok(sheet)
    }

    fn row(&mut self, cells: &[&str]) -> Result<(), BuildError> {
        write_csv(&mut self.file, cells).map_err(BuildError::write(&self.path))
    }

    fn add(&mut self, record: &CodeRecord, category: &str) -> Result<(), BuildError> {
        let CodeRecord { id, repository, path, start_line, license, documentation, code, .. } = record;
        let (line, license) = (start_line.to_string(), license.as_deref().unwrap_or_default());
        let [repository, path, license, comment, code] =
            [repository, path, license, documentation, code].map(|text| protected(text));
        self.row(&[id, &repository, &path, &line, &license, &comment, &code, category, category, ""])
    }

    fn finish(mut self) -> Result<(), BuildError> {
        self.file.flush().map_err(BuildError::write(&self.path))
    }
}

/// An untrusted text that no spreadsheet reads as a formula: with an apostrophe before what may begin one. These columns
/// are not read again.
fn protected(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

/// Writes the pairs of a part that answer, with the categories of their codes, as StatCodeSearch's table; returns their
/// number.
pub(crate) fn write_table(
    pairs: &Path,
    code: &mut dyn FnMut(&str) -> Result<CodeRecord, BuildError>,
    out: &Path,
) -> Result<u64, BuildError> {
    let mut file = BufWriter::new(File::create(out).map_err(BuildError::write(out))?);
    let mut n_written = 0_u64;
    write_csv(&mut file, ["Idx", "Comment", "Code", "License", "Label"]).map_err(BuildError::write(out))?;
    jsonl::for_each(pairs, &mut |pair: PairRecord, _| {
        if !pair.is_positive() {
            return Ok(());
        }
        let CodeRecord { license, category, .. } = code(&pair.code_id)?;
        let Some(category) = category else { return Ok(()) };
        let cells = [n_written.to_string(), pair.query, pair.code, license.unwrap_or_default(), category];
        n_written += 1;
        write_csv(&mut file, cells).map_err(BuildError::write(out))
    })?;
    file.flush().map_err(BuildError::write(out))?;
    Ok(n_written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_knows_the_categories_by_their_numbers() {
        for text in [
            include_str!("../../../judge/prompts/statcodesearch.toml"),
            include_str!("../../../judge/prompts/statcodesearch-comment.toml"),
        ] {
            let prompt: toml::Table = toml::from_str(text).unwrap();
            let values = prompt["answer"]["values"].as_array().unwrap();
            assert_eq!(values.len(), CATEGORIES.len());
            for value in values {
                let grade = u8::try_from(value["grade"].as_integer().unwrap()).unwrap();
                assert_eq!(value["says"][0].as_str().unwrap(), named(grade));
            }
        }
        assert_eq!(
            relevant(),
            ["Statistical Test", "Statistical Modeling", "Data Variable", "Visualization"]
        );
    }

    #[test]
    fn examples_are_of_each_category_in_turn() {
        assert_eq!(
            (crate::queries::category::max_examples(), shown(0, CategoryInput::Pair)),
            (3, String::new())
        );
        let names = |n_examples: usize| -> Vec<String> {
            let examples = shown(n_examples, CategoryInput::Pair);
            let examples = examples.split("</code>\n").skip(1);
            examples.map(|after| after.lines().next().unwrap().to_owned()).collect()
        };
        let all: Vec<&str> = CATEGORIES.iter().map(|category| category.name.as_str()).collect();
        assert_eq!(names(1), all);
        let of_comments = shown(1, CategoryInput::Comment);
        assert!(of_comments.contains("</comment>\nVisualization\n") && !of_comments.contains("<code>"));
        assert_eq!(names(3), [&all[..], &all, &all].concat());
    }

    #[test]
    fn sheets_are_read_as_people_fill_them_in() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sheet.csv");
        let read = |rows: &str| {
            std::fs::write(&path, format!("id,comment,model,category,keep\n{rows}")).unwrap();
            let mut counts = BTreeMap::new();
            decided_by_people(&path, &mut counts)
                .map(|decisions| (decisions, counts))
                .map_err(|error| error.to_string())
        };
        let (decisions, counts) = read(
            "a,\"x,\ny\",Visualization,Visualization,yes\nb,x,Visualization,data variable,YES\nc,x,Data Variable,Data Variable,no\n\
             d,x,Data Variable,Data Variable,\ne,x,Data Variable,No Relevant Class,yes\n",
        )
        .unwrap();
        let expected = [
            ("a", Decision::Category("Visualization")),
            ("b", Decision::Category("Data Variable")),
            ("c", Decision::Removed(REFUSED)),
            ("d", Decision::Removed(NOT_REVIEWED)),
            ("e", Decision::Removed(NO_CATEGORY)),
        ];
        assert_eq!(decisions, expected.map(|(id, decision)| (id.to_owned(), decision)).into());
        assert_eq!(counts["categories that people changed"], 2);
        for (rows, problem) in [
            ("a,x,Visualization,Plot,yes\n", "Plot"),
            ("a,x,Visualization,Visualization,maybe\n", "yes, no or nothing"),
            ("a,x,Visualization,Visualization,no\na,x,Visualization,Visualization,yes\n", "found a twice"),
        ] {
            let error = read(rows).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
