//! Queries that a model writes for functions, with reverse validation: does the function answer the query that was
//! written for it (Query4Code, 2024, section 3)?

mod unfit;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use quarry_judge::{AuthorAnswer, AuthorRole, Graded, language_title};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::labels::annotation::{ANNOTATIONS, Annotation, targets};
use crate::plan::{Extract, Given, QueryPlan};
use crate::queries::authoring::{Authoring, add_usage, first_drawn, stopped};
use crate::queries::found::{Excluded, Found};
use crate::queries::mask;
use crate::queries::styles::STYLES;
use crate::queries::{finish, rules_of, without_paths};
use crate::record::{PairRecord, id_of};
use crate::sources::pool::PoolReader;
use crate::step::{Key, Step};
use unfit::{LIMITS_TEXT, unfit};

/// Incremented when the same answers lead to other queries.
const VERSION: u32 = 4;

pub(crate) const WRITTEN: &str = "written.jsonl";

const QUERY_WRITER: &str = "query-writer";
const DIRECT_QUERY_WRITER: &str = "direct-query-writer";
const VALIDATOR: &str = "query4code";

/// Why written queries are removed.
const INVALID: &str = "reverse validation";
const UNREADABLE: &str = "unreadable answers";

/// Scores in reverse validation of queries that are kept: classes 1 and 2 of the paper.
const KEPT_SCORES: [u8; 2] = [3, 2];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WrittenQuery {
    pub(crate) code_id: String,
    pub(crate) style: String,
    pub(crate) query: String,
    pub(crate) query_id: String,
    pub(crate) summary: String,
    /// Quality of the function as an answer, from 0 to 3.
    pub(crate) score: u8,
    /// 1 for score 3, up to 4 for score 0: the classes of the paper.
    pub(crate) class: u8,
    pub(crate) explanation: String,
    /// Number of functions of the project that were shown, by their summaries or their code.
    pub(crate) callees: u64,
    pub(crate) project_calls: u64,
    pub(crate) third_party_calls: u64,
}

#[derive(Serialize)]
struct Identity<'p> {
    plan: QueryPlan,
    seed: Option<u64>,
    writer: String,
    validator: String,
    styles: Vec<&'p str>,
    limits: &'static str,
    masks: &'static str,
    rules: Option<String>,
}

pub(crate) fn step(
    plan: &QueryPlan,
    seed: u64,
    authoring: &Authoring<'_>,
    pool: &Key,
    annotations: &Key,
) -> Result<Step, BuildError> {
    let Authoring { plan: author, directory, .. } = authoring;
    let identity = Identity {
        plan: without_paths(plan),
        seed: plan.maximum.map(|_| seed),
        writer: author.version(directory, AuthorRole::Writer, &[writer_of(plan.given)])?,
        validator: author.version(directory, AuthorRole::Validator, &[VALIDATOR])?,
        styles: plan.styles.iter().filter_map(|style| Some(STYLES.get(style)?.wording.as_str())).collect(),
        limits: LIMITS_TEXT,
        masks: mask::RULES_TEXT,
        rules: rules_of(plan),
    };
    Ok(Step::new(format!("queries {}", plan.name), VERSION, &identity, &[pool, annotations]))
}

/// The prompt of a writer with this input.
fn writer_of(given: Given) -> &'static str {
    match given {
        Given::Summary => QUERY_WRITER,
        Given::Code | Given::Callees => DIRECT_QUERY_WRITER,
    }
}

enum Outcome {
    Graded(String, Graded),
    /// It was not validated.
    Unfit(Excluded),
}

/// Writes and validates queries for the functions of a pool that have summaries.
pub(crate) fn write(
    plan: &QueryPlan,
    seed: u64,
    authoring: &Authoring<'_>,
    (pool, annotations): (&Path, &Path),
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut annotated: HashMap<String, Annotation> = HashMap::new();
    jsonl::for_each(&annotations.join(ANNOTATIONS), &mut |annotation: Annotation, _| {
        annotated.insert(annotation.id.clone(), annotation);
        Ok(())
    })?;
    let known: HashSet<&str> = annotated.keys().map(String::as_str).collect();
    let targets = first_drawn(targets(pool, &known, None, seed)?, String::as_str, plan.maximum, seed);
    let tasks: Vec<(&Annotation, &str)> = (targets.iter())
        .filter_map(|id| annotated.get(id))
        .flat_map(|annotation| plan.styles.iter().map(move |style| (annotation, style.as_str())))
        .collect();
    let records = std::sync::Mutex::new(PoolReader::open(pool)?);
    let author = authoring.open()?;
    // Of a writer without summaries.
    let called = |annotation: &Annotation| match &annotation.called[..] {
        called if plan.given == Given::Callees && !called.is_empty() => called.join("\n"),
        _ => "none".to_owned(),
    };
    let answers =
        authoring.ask_all(&author, &format!("queries {}", plan.name), &tasks, |(annotation, style)| {
            let record = {
                let mut records = records.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                records.get(&annotation.id)?.1
            };
            let wording = STYLES.get(*style).map_or("", |style| &style.wording).to_owned();
            let mut values = BTreeMap::from([
                ("code", record.code.clone()),
                ("language", language_title(&record.language).to_owned()),
                ("summary", annotation.summary.clone()),
                ("style", wording),
                ("callees", called(annotation)),
            ]);
            let query = match author.write(writer_of(plan.given), &values, authoring.stop).map_err(stopped)? {
                AuthorAnswer::Read(query) => query,
                AuthorAnswer::Unreadable(problem) => return Ok(AuthorAnswer::Unreadable(problem)),
                AuthorAnswer::Rejected(problem) => return Ok(AuthorAnswer::Rejected(problem)),
                AuthorAnswer::Failed(problem) => return Ok(AuthorAnswer::Failed(problem)),
            };
            if let Some(excluded) = unfit(&query, &record.name) {
                return Ok(AuthorAnswer::Read(Outcome::Unfit(excluded)));
            }
            values.insert("query", query.clone());
            let graded =
                author.grade(AuthorRole::Validator, VALIDATOR, &values, authoring.stop).map_err(stopped)?;
            Ok(graded.map(|graded| Outcome::Graded(query, graded)))
        })?;

    let mut found = Found::default();
    let mut writer = Writer::create(&step.join(WRITTEN))?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut excluded: Vec<Excluded> = Vec::new();
    let mut n_kept = 0;
    let mut n_masked = BTreeMap::new();
    for ((annotation, style), answer) in tasks.iter().zip(answers) {
        let (text, filter, rule) = match answer {
            Ok(Outcome::Graded(query, Graded { grade, reason })) => {
                // Models repeat secrets and addresses from the code.
                let query = mask::masked(&query, &mut n_masked).into_owned();
                let masked = |text: &str| mask::masked(text, &mut BTreeMap::new()).into_owned();
                let class = 4_u8.saturating_sub(grade);
                *counts.entry(format!("class {class}")).or_default() += 1;
                let is_kept = KEPT_SCORES.contains(&grade);
                if is_kept {
                    n_kept += 1;
                    found.add(&query, Some(annotation.id.clone()));
                } else {
                    excluded.push(Excluded {
                        text: query.clone(),
                        filter: INVALID.to_owned(),
                        rule: format!("class {class}: {reason}"),
                    });
                    *counts.entry(format!("removed by {INVALID}")).or_default() += 1;
                }
                writer.write(&WrittenQuery {
                    code_id: annotation.id.clone(),
                    style: (*style).to_owned(),
                    query_id: id_of(&[&query.split_whitespace().collect::<Vec<_>>().join(" ")]),
                    query,
                    summary: masked(&annotation.summary),
                    score: grade,
                    class,
                    explanation: masked(&reason),
                    callees: match plan.given {
                        Given::Summary => annotation.callees,
                        Given::Code => 0,
                        Given::Callees => annotation.called.len() as u64,
                    },
                    project_calls: annotation.project_calls,
                    third_party_calls: annotation.third_party_calls,
                })?;
                continue;
            }
            Ok(Outcome::Unfit(Excluded { text, filter, rule })) => {
                (mask::masked(&text, &mut n_masked).into_owned(), filter, rule)
            }
            Err(problem) => (String::new(), UNREADABLE.to_owned(), problem),
        };
        *counts.entry(format!("removed by {filter}")).or_default() += 1;
        excluded.push(Excluded { text, filter, rule: format!("{style} of {}: {rule}", annotation.id) });
    }
    writer.finish()?;
    add_usage(&mut counts, author.usage());
    counts.extend(n_masked.into_iter().map(|(rule, count)| (format!("masked: {rule}"), count)));
    counts.insert("functions".into(), targets.len() as u64);
    counts.insert("written".into(), tasks.len() as u64);
    counts.insert("valid".into(), n_kept);
    // Functions were sampled, not queries.
    finish(&QueryPlan { maximum: None, ..plan.clone() }, seed, found, (counts, excluded), step)
}

/// Summaries of codes for which queries were written, by the ids of query and code.
pub(crate) fn summaries(
    written: &[std::path::PathBuf],
) -> Result<HashMap<(String, String), String>, BuildError> {
    let mut summaries = HashMap::new();
    for step in written {
        jsonl::for_each(&step.join(WRITTEN), &mut |written: WrittenQuery, _| {
            if KEPT_SCORES.contains(&written.score) && !written.summary.is_empty() {
                summaries.insert((written.query_id, written.code_id), written.summary);
            }
            Ok(())
        })?;
    }
    Ok(summaries)
}

/// Writes the pairs of a part in Query4Code's format; returns their number. A summary occurs once per code.
pub(crate) fn write_extract(
    extract: Extract,
    pairs: &Path,
    summaries: &HashMap<(String, String), String>,
    out: &Path,
) -> Result<u64, BuildError> {
    let mut writer = Writer::create(out)?;
    let mut n_written = 0;
    let mut seen = HashSet::new();
    jsonl::for_each(pairs, &mut |pair: PairRecord, _| {
        let PairRecord { query_id, query, code_id, code, label, .. } = pair;
        let Some(summary) = summaries.get(&(query_id, code_id.clone())) else { return Ok(()) };
        if label.is_none_or(|label| label < 1)
            || extract == Extract::Summaries && !seen.insert(code_id.clone())
        {
            return Ok(());
        }
        n_written += 1;
        writer.write(&match extract {
            Extract::Summaries => json!({"query": summary, "code": code, "url": code_id}),
            Extract::Triples => {
                json!({"query": query, "summary": summary, "code": code, "url": code_id})
            }
        })
    })?;
    writer.finish()?;
    Ok(n_written)
}
