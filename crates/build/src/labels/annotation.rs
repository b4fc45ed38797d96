//! Summaries of functions, written by a model, callees first: each is based on the function's code, the summaries of
//! its callees in the project, and explanations of its callees in rarely used packages (Query4Code, 2024, section 3).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use quarry_judge::{Author, AuthorAnswer, AuthorRole, language_title};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::BuildError;
use crate::jsonl::{self, RandomReader, Writer};
use crate::labels::calibration::Understanding;
use crate::plan::{
    AnnotationPlan, Calibrated, Documentation, Given, Plan, QueryKind, ShownCallees, UnpopularBelow,
};
use crate::queries::authoring::{Authoring, add_usage, first_drawn, stopped};
use crate::record::CodeRecord;
use crate::sources::documented::{Documented, documentation_hash};
use crate::sources::graph::{APIS, Api, GRAPH, Node};
use crate::sources::pool::POOL;
use crate::step::{Key, Step};

/// Incremented when the same answers yield different annotations.
const VERSION: u32 = 2;

/// Summaries of functions.
pub(crate) const ANNOTATIONS: &str = "annotations.jsonl";
/// Functions without a summary, with the reason.
const EXCLUDED: &str = "excluded.jsonl";
/// Explanations of functions from other packages.
const EXPLANATIONS: &str = "explanations.jsonl";

pub(crate) const SUMMARY_WRITER: &str = "summary-writer";
const API_EXPLAINER: &str = "api-explainer";

/// A function with the information from which queries are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Annotation {
    pub(crate) id: String,
    pub(crate) level: u32,
    /// Empty if queries are written without summaries.
    pub(crate) summary: String,
    /// Number of functions of its project that its summary is based on.
    pub(crate) callees: u64,
    /// The code of the functions of its project that it calls, if queries are written from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) called: Vec<String>,
    /// Number of functions from other packages whose explanations were in the prompt.
    pub(crate) apis: u64,
    pub(crate) project_calls: u64,
    pub(crate) third_party_calls: u64,
}

#[derive(Serialize)]
struct Identity {
    callees: ShownCallees,
    summarizes: bool,
    keeps_called: bool,
    unpopular_below: UnpopularBelow,
    documentation: Option<String>,
    /// Treatment of documentation in the code that models see.
    code: Documentation,
    author: String,
    maximum: Option<usize>,
    seed: Option<u64>,
}

/// Number of functions to annotate: the maximum over the sources of queries; `None` if one of them has no limit.
fn maximum(plan: &Plan) -> Option<usize> {
    let written = plan.queries.iter().filter(|query| query.kind == QueryKind::Written);
    written.map(|query| query.maximum).try_fold(0, |most, maximum| Some(most.max(maximum?)))
}

pub(crate) fn step(
    plan: &Plan,
    authoring: &Authoring<'_>,
    pool: &Key,
    (graph, calibration): (&Key, Option<&Key>),
    sources: &[&Key],
) -> Result<Step, BuildError> {
    let AnnotationPlan { callees, unpopular_below, documentation, .. } = &plan.annotation;
    let prompts = [SUMMARY_WRITER, API_EXPLAINER];
    let maximum = maximum(plan);
    let identity = Identity {
        callees: *callees,
        summarizes: plan.has_summaries(),
        keeps_called: plan.is_written_given(Given::Callees),
        unpopular_below: *unpopular_below,
        documentation: documentation.as_deref().map(documentation_hash).transpose()?,
        code: plan.pool.documentation,
        author: authoring.plan.version(authoring.directory, AuthorRole::Writer, &prompts)?,
        maximum,
        seed: maximum.map(|_| plan.seed),
    };
    let calibration = calibration.as_slice();
    Ok(Step::new("annotations", VERSION, &identity, &[&[pool, graph], sources, calibration].concat()))
}

/// Ids of the functions for which queries are written: functions of the pool that are in the graph, selected by a
/// hash of the id, so that a larger number includes the smaller one. In the order of the pool.
pub(crate) fn targets(
    pool: &Path,
    nodes: &HashSet<&str>,
    maximum: Option<usize>,
    seed: u64,
) -> Result<Vec<String>, BuildError> {
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    let mut ids = Vec::new();
    jsonl::for_each(&pool.join(POOL), &mut |Id { id }, _| {
        if nodes.contains(id.as_str()) {
            ids.push(id);
        }
        Ok(())
    })?;
    Ok(first_drawn(ids, String::as_str, maximum, seed))
}

pub(crate) struct Records {
    files: Mutex<Vec<RandomReader>>,
    documentation: Documentation,
}

impl Records {
    pub(crate) fn open(sources: &[PathBuf], documentation: Documentation) -> Result<Self, BuildError> {
        let files = sources.iter().map(|path| RandomReader::open(path)).collect::<Result<_, _>>()?;
        Ok(Self { files: Mutex::new(files), documentation })
    }

    /// The record at a position, with the code as shown to a model.
    pub(crate) fn get(&self, (source, at): (usize, u64)) -> Result<CodeRecord, BuildError> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = files.get_mut(source) else {
            return Err(BuildError::step(
                "annotations",
                "a source is missing; remove the directory `steps` and build again",
            ));
        };
        let mut record: CodeRecord = file.read(at)?;
        if self.documentation == Documentation::Kept {
            record.code = std::mem::take(&mut record.whole);
        }
        Ok(record)
    }
}

pub(crate) struct Inputs<'i> {
    pub(crate) pool: &'i Path,
    pub(crate) graph: &'i Path,
    /// Calibration of the model's knowledge of functions from other packages, if the plan uses it.
    pub(crate) calibration: Option<&'i Path>,
    pub(crate) sources: &'i [PathBuf],
}

/// Writes the summaries of the functions for which queries are written, and of all functions that they call, level
/// by level.
pub(crate) fn write(
    plan: &Plan,
    authoring: &Authoring<'_>,
    inputs: &Inputs<'_>,
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let nodes: Vec<Node> = jsonl::read_all(&inputs.graph.join(GRAPH))?;
    let wanted = wanted(plan, inputs.pool, &nodes)?;
    let places: HashMap<&str, (usize, u64)> =
        nodes.iter().map(|node| (node.id.as_str(), node.place)).collect();
    let records = Records::open(inputs.sources, plan.pool.documentation)?;
    let author = authoring.open()?;
    let mut excluded = Writer::create(&step.join(EXCLUDED))?;
    let (summarizes, keeps_called) = (plan.has_summaries(), plan.is_written_given(Given::Callees));
    let summarized = if summarizes { wanted.as_slice() } else { &[] };
    let (explanations, undocumented, unreadable) =
        explain(plan, authoring, &author, inputs, summarized, step, &mut excluded)?;

    // Includes the names of the functions, which are shown to callers.
    let mut summaries: HashMap<&str, String> = HashMap::new();
    let mut writer = Writer::create(&step.join(ANNOTATIONS))?;
    let (mut n_written, mut n_excluded, mut n_with_callees, mut n_with_apis) = (0, 0, 0, 0);
    for level in wanted.chunk_by(|one, other| one.level == other.level) {
        let answers = authoring.ask_all(&author, "annotations", level, |node| {
            let record = records.get(node.place)?;
            let called = if keeps_called { codes_of(node, &places, &records)? } else { Vec::new() };
            if !summarizes {
                return Ok(AuthorAnswer::Read((String::new(), record.name, called)));
            }
            let callees = match plan.annotation.callees {
                shown if shown.are_codes() => codes_of(node, &places, &records)?,
                shown => {
                    let shown = node.callees.iter().filter(|_| shown.are_summaries());
                    shown
                        .filter_map(|callee| Some(format!("- {}", summaries.get(callee.as_str())?)))
                        .collect()
                }
            };
            let values = values(&record, node, callees, &explanations);
            let answer = author.write(SUMMARY_WRITER, &values, authoring.stop).map_err(stopped)?;
            Ok(answer.map(|summary| (summary, record.name, called)))
        })?;
        for (node, answer) in level.iter().zip(answers) {
            match answer {
                Ok((summary, name, called)) => {
                    n_written += u64::from(summarizes);
                    let shown = plan.annotation.callees;
                    let is_shown = |callee: &&String| {
                        summarizes && shown.are_codes()
                            || shown.are_summaries() && summaries.contains_key(callee.as_str())
                    };
                    let annotation = Annotation {
                        id: node.id.clone(),
                        level: node.level,
                        callees: node.callees.iter().filter(is_shown).count() as u64,
                        apis: node.apis.iter().filter(|api| explanations.contains_key(*api)).count() as u64,
                        project_calls: node.project_calls,
                        third_party_calls: node.third_party_calls,
                        summary,
                        called,
                    };
                    n_with_callees += u64::from(annotation.callees > 0);
                    n_with_apis += u64::from(annotation.apis > 0);
                    writer.write(&annotation)?;
                    summaries.insert(&node.id, format!("{name}: {}", annotation.summary));
                }
                Err(problem) => {
                    n_excluded += 1;
                    excluded.write(&json!({"id": node.id, "problem": problem}))?;
                }
            }
        }
    }
    writer.finish()?;
    excluded.finish()?;
    let mut counts: BTreeMap<String, u64> = [
        ("functions", wanted.len() as u64),
        ("summaries", n_written),
        ("summaries with those of callees", n_with_callees),
        ("summaries with explanations of packages", n_with_apis),
        ("removed by unreadable answers", n_excluded),
        ("explanations of packages", explanations.len() as u64),
        ("explanations removed by unreadable answers", unreadable),
        ("unpopular without documentation", undocumented),
    ]
    .map(|(name, count)| (name.to_owned(), count))
    .into();
    add_usage(&mut counts, author.usage());
    Ok(counts)
}

/// The functions for which queries are written, sorted by level; if callees are shown, also all functions that they
/// call.
pub(crate) fn wanted(plan: &Plan, pool: &Path, nodes: &[Node]) -> Result<Vec<Node>, BuildError> {
    let by_id: HashMap<&str, &Node> = nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let targets = targets(pool, &by_id.keys().copied().collect(), maximum(plan), plan.seed)?;
    let mut wanted: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = targets.iter().map(String::as_str).collect();
    while let Some(id) = open.pop() {
        if let Some((id, node)) = by_id.get_key_value(id)
            && wanted.insert(id)
            && plan.has_summaries()
            && plan.annotation.callees.are_summaries()
        {
            open.extend(node.callees.iter().map(String::as_str));
        }
    }
    // The graph is sorted by level.
    Ok(nodes.iter().filter(|node| wanted.contains(node.id.as_str())).cloned().collect())
}

/// Explanations of rarely called functions from other packages, by name; the number of those without documentation, and
/// of those whose explanation cannot be parsed.
fn explain(
    plan: &Plan,
    authoring: &Authoring<'_>,
    author: &Author,
    inputs: &Inputs<'_>,
    wanted: &[Node],
    step: &Path,
    excluded: &mut Writer,
) -> Result<(HashMap<String, String>, u64, u64), BuildError> {
    let unpopular_below = match (plan.annotation.unpopular_below, inputs.calibration) {
        (UnpopularBelow::Calls(calls), _) => calls,
        (UnpopularBelow::Named(Calibrated::Calibrated), calibration) => {
            let understanding = calibration.map(Understanding::read).transpose()?;
            understanding.and_then(|understanding| understanding.threshold()).unwrap_or(u64::MAX)
        }
    };
    let called: BTreeSet<&str> = wanted.iter().flat_map(|node| &node.apis).map(String::as_str).collect();
    let mut unpopular: Vec<Api> = Vec::new();
    jsonl::for_each(&inputs.graph.join(APIS), &mut |api: Api, _| {
        if api.calls < unpopular_below && called.contains(api.name.as_str()) {
            unpopular.push(api);
        }
        Ok(())
    })?;
    let documented = Documented::open(plan.annotation.documentation.as_deref())?;
    let n_unpopular = unpopular.len();
    unpopular.retain(|api| documented.has(&api.name));
    let undocumented = (n_unpopular - unpopular.len()) as u64;
    let answers = authoring.ask_all(author, "annotations", &unpopular, |api| {
        let values = BTreeMap::from([
            ("api", api.name.clone()),
            ("language", language_title(&api.language).to_owned()),
            ("documentation", documented.text(&api.name)?),
        ]);
        author.write(API_EXPLAINER, &values, authoring.stop).map_err(stopped)
    })?;
    let mut writer = Writer::create(&step.join(EXPLANATIONS))?;
    let (mut explanations, mut unreadable) = (HashMap::new(), 0);
    for (api, answer) in unpopular.into_iter().zip(answers) {
        match answer {
            Ok(explanation) => {
                writer.write(&json!({"api": api.name, "calls": api.calls, "explanation": explanation}))?;
                explanations.insert(api.name, explanation);
            }
            Err(problem) => {
                unreadable += 1;
                excluded.write(&json!({"id": api.name, "problem": problem}))?;
            }
        }
    }
    writer.finish()?;
    Ok((explanations, undocumented, unreadable))
}

/// The code of the functions of its project that a function calls directly. Query4Code's released code shows it to
/// the writer of summaries, and its Figure 2 to the writer of queries.
fn codes_of(
    node: &Node,
    places: &HashMap<&str, (usize, u64)>,
    records: &Records,
) -> Result<Vec<String>, BuildError> {
    let places = node.callees.iter().filter_map(|callee| places.get(callee.as_str()));
    places.map(|place| Ok(records.get(*place)?.code)).collect()
}

/// The values available to the prompt for summaries.
fn values(
    record: &CodeRecord,
    node: &Node,
    callees: Vec<String>,
    explanations: &HashMap<String, String>,
) -> BTreeMap<&'static str, String> {
    let listed = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join("\n") };
    let apis = node.apis.iter().filter_map(|api| Some(format!("- {api}: {}", explanations.get(api)?)));
    BTreeMap::from([
        ("code", record.code.clone()),
        ("language", language_title(&record.language).to_owned()),
        ("callees", listed(callees)),
        ("apis", listed(apis.collect())),
    ])
}
