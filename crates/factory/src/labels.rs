//! Labels: which of the candidates answer their query, and according to whom.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::AtomicBool;

use quarry_annotate::ledger::GeneratedCode;
use quarry_annotate::people::VotedLabel;
use quarry_annotate::{Judging, Outcome};
use quarry_corpus::dataset;
use quarry_corpus::formats::query_code::PAIRS;
use quarry_corpus::formats::{Record, RecordKind};
use quarry_text::counted;
use serde::Serialize;

use crate::error::FactoryError;
use crate::function::{Origin, record_of_text};
use crate::jsonl::{self, Writer};
use crate::outputs::{CANDIDATES, PAIRS_FILE, QUERIES};
use crate::people::{self, Survey, SurveySummary};
use crate::plan::{LabelKind, LabelPlan};
use crate::pool::PoolReader;
use crate::record::{Candidate, CodeRecord, PairRecord, QueryRecord, normalized_hash};
use crate::step::{Key, Step, content_hash};

/// Prepares a judging plan: opens the sandbox, if it needs one.
pub(crate) type PrepareJudging<'a> =
    dyn Fn(quarry_annotate::Plan) -> Result<Judging, Box<dyn Error + Send + Sync>> + 'a;

/// Changes when the same candidates and labels give other pairs.
const VERSION: u32 = 3;

/// The evidence of negative labels of pairs that were not judged.
pub(crate) const NEGATIVE: &str = "negative";

/// Codes that were generated for queries without a correct candidate.
pub(crate) const GENERATED: &str = "generated.jsonl";
/// Pairs without one.
pub(crate) const UNLABELED: &str = "unlabelled.jsonl";

/// The judging plan with this index among the labels of a plan, which is given pairs, and keeps its evidence in the
/// directory of the build.
pub(crate) fn judging_plan(
    path: &Path,
    root: &Path,
    number: usize,
) -> Result<quarry_annotate::Plan, FactoryError> {
    Ok(quarry_annotate::Plan::open(path, Some(&ledger_of(root, number)))?)
}

/// The ledger of the judging plan with this index among the labels of a plan. It is kept whatever changes, so that
/// nothing is paid for twice.
pub(crate) fn ledger_of(root: &Path, number: usize) -> PathBuf {
    root.join(format!("judging-{number}.ledger"))
}

#[derive(Serialize)]
struct Identity<'p> {
    kind: LabelKind,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    generate: bool,
    /// Hash of the file of labels, of the judge and its model, or of people's answers.
    content: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    people: Option<people::Identity>,
}

/// The step that labels candidates.
///
/// # Errors
/// When a file of labels cannot be read, or a judging plan is invalid.
pub(crate) fn step(
    plans: &[LabelPlan],
    root: &Path,
    candidates: &Key,
    queries: &Key,
    pool: &Key,
) -> Result<Step, FactoryError> {
    let mut contents = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        contents.push(match (plan.kind, &plan.path) {
            (LabelKind::File, Some(path)) => Some(content_hash(path)?),
            (LabelKind::Judge, Some(path)) => Some(judging_plan(path, root, number)?.version),
            (LabelKind::People, _) => Some(Survey::open(plan, root, number)?.version()?),
            _ => None,
        });
    }
    let identities: Vec<Identity<'_>> = (plans.iter().zip(&contents))
        .map(|(plan, content)| Identity {
            kind: plan.kind,
            generate: plan.generate,
            content: content.as_deref(),
            people: (plan.kind == LabelKind::People).then(|| people::Identity::of(plan)),
        })
        .collect();
    Ok(Step::new("labels", VERSION, &identities, &[candidates, queries, pool]))
}

/// Checks the files of labels and the judging plans that a plan names.
///
/// # Errors
/// When one of them is missing or invalid.
pub(crate) fn check(plans: &[LabelPlan], root: &Path) -> Result<(), FactoryError> {
    for (number, plan) in plans.iter().enumerate() {
        match (plan.kind, &plan.path) {
            (LabelKind::File, Some(path)) => check_file(path)?,
            (LabelKind::Judge, Some(path)) => drop(judging_plan(path, root, number)?),
            (LabelKind::People, _) => drop(Survey::open(plan, root, number)?),
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a file can contain labels, judging by its first record.
fn check_file(path: &Path) -> Result<(), FactoryError> {
    let sources = dataset::sources(slice::from_ref(&path.to_owned()), "", "test")?;
    if sources.iter().any(|source| source.format.holds == RecordKind::Pairs) {
        return Ok(());
    }
    let formats: Vec<&str> = sources.iter().map(|source| source.format.name).collect();
    let problem = format!(
        "expected labeled pairs, with the texts of query and code, found {}; name another file, or convert it",
        formats.join(", ")
    );
    Err(FactoryError::Line { path: path.to_owned(), line: 1, problem })
}

/// What labeling needs.
pub(crate) struct Labeling<'l> {
    pub(crate) plans: &'l [LabelPlan],
    /// The directory of the build, which contains the ledgers.
    pub(crate) root: &'l Path,
    pub(crate) prepare_judging: &'l PrepareJudging<'l>,
    pub(crate) stop: &'l AtomicBool,
}

/// The label of a pair, and who gave it. Without a value, the evidence is why nobody could decide.
#[derive(Debug, Clone, Default)]
struct Label {
    value: Option<i32>,
    evidence: Option<String>,
    /// Whether the pair is removed from the data: nobody is to give it a label after that.
    is_removed: bool,
}

impl Label {
    fn new(value: i32, evidence: &str) -> Self {
        Self { value: Some(value), evidence: Some(evidence.to_owned()), is_removed: false }
    }

    /// A pair without a label, and why it has none.
    fn undecided(evidence: String) -> Self {
        Self { evidence: Some(evidence), ..Self::default() }
    }

    fn is_open(&self) -> bool {
        self.value.is_none() && !self.is_removed
    }

    /// Takes a label unless there is one. If there is one, counts whether both agree.
    fn give(&mut self, value: i32, evidence: &str, agreement: &mut BTreeMap<String, u64>) {
        match (self.value, &self.evidence) {
            _ if self.is_removed => {}
            (Some(known), Some(by)) => {
                let says = if (known > 0) == (value > 0) { SAME } else { OTHER };
                *agreement.entry(format!("{by} and {evidence}{says}")).or_default() += 1;
            }
            _ => *self = Self::new(value, evidence),
        }
    }
}

/// What the counts of pairs end with that two sources label.
const SAME: &str = ": the same label";
const OTHER: &str = ": other labels";

/// How many pairs two sources of labels give the same label and other ones, by who they are.
pub(crate) fn agreement(counts: &BTreeMap<String, u64>) -> BTreeMap<String, [u64; 2]> {
    let mut agreement: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (name, count) in counts {
        for (number, says) in [SAME, OTHER].into_iter().enumerate() {
            if let Some(who) = name.strip_suffix(says) {
                agreement.entry(who.to_owned()).or_default()[number] += count;
            }
        }
    }
    agreement
}

/// Writes the pairs of all candidates, and of the codes from which queries were made, with their labels: the first
/// source of labels in the plan that has one for a pair determines it. Pairs without a label are in a separate file.
///
/// # Errors
/// When a file cannot be read or written, a pair cannot be judged, or no pair has a label.
pub(crate) fn write(
    labelling: &Labeling<'_>,
    (candidates, queries, pool): (&Path, &Path, &Path),
    (step, workspace): (&Path, &Path),
) -> Result<BTreeMap<String, u64>, FactoryError> {
    let mut pool = PoolReader::open(pool)?;
    let queries: Vec<QueryRecord> = jsonl::read_all(&queries.join(QUERIES))?;
    let mut codes: HashMap<String, Vec<String>> = HashMap::new();
    jsonl::for_each(&candidates.join(CANDIDATES), &mut |candidate: Candidate, _| {
        codes.entry(candidate.query).or_default().push(candidate.code);
        Ok(())
    })?;
    // Pairs by the ids of query and code; texts are read when they are written.
    let mut pairs: Vec<(usize, String)> = Vec::new();
    for (number, query) in queries.iter().enumerate() {
        let found = codes.remove(&query.id).unwrap_or_default();
        let mut seen = HashSet::new();
        for code in query.codes.iter().chain(&found) {
            if seen.insert(code) {
                pairs.push((number, code.clone()));
            }
        }
    }
    let mut labels: Vec<Label> = vec![Label::default(); pairs.len()];
    let mut agreement: BTreeMap<String, u64> = BTreeMap::new();
    let mut generated: Vec<CodeRecord> = Vec::new();
    let mut surveys: Vec<SurveySummary> = Vec::new();
    for (number, plan) in labelling.plans.iter().enumerate() {
        match (plan.kind, &plan.path) {
            (LabelKind::Pairing, _) => {
                for ((query, code), label) in pairs.iter().zip(&mut labels) {
                    if queries[*query].codes.contains(code) {
                        label.give(1, "pairing", &mut agreement);
                    }
                }
            }
            (LabelKind::Negative, _) => {
                let open = labels.iter_mut().filter(|label| label.is_open());
                open.for_each(|label| *label = Label::new(0, NEGATIVE));
            }
            (LabelKind::File, Some(path)) => {
                from_file(path, &queries, &pairs, &mut pool, &mut labels, &mut agreement)?;
            }
            (LabelKind::Judge, Some(path)) => {
                let open: Vec<usize> = (0..labels.len()).filter(|place| labels[*place].is_open()).collect();
                if !open.is_empty() {
                    let file = workspace.join(format!("judge-{number}.jsonl"));
                    write_pairs(&file, open.iter().copied(), &queries, &pairs, &labels, &mut pool)?;
                    let plan = judging_plan(path, labelling.root, number)?;
                    let judging = judge(labelling, plan, &file, &pairs, &queries, &mut labels)?;
                    if labelling.plans[number].generate {
                        let answered: HashSet<usize> = (pairs.iter().zip(&labels))
                            .filter(|(_, label)| label.value.is_some_and(|value| value > 0))
                            .map(|((query, _), _)| *query)
                            .collect();
                        let evidence = format!("generation by the model of judge {}", number + 1);
                        for (query, record) in generate(labelling, &judging, &queries, &answered)? {
                            pairs.push((query, record.id.clone()));
                            labels.push(Label::new(1, &evidence));
                            pool.add(vec![record.clone()]);
                            generated.push(record);
                        }
                    }
                }
            }
            (LabelKind::People, _) => {
                let survey = Survey::open(plan, labelling.root, number)?;
                let open: Vec<usize> = (0..labels.len()).filter(|place| labels[*place].is_open()).collect();
                if !open.is_empty() {
                    let file = workspace.join(format!("people-{number}.jsonl"));
                    write_pairs(&file, open.iter().copied(), &queries, &pairs, &labels, &mut pool)?;
                    let ids: Vec<String> = open
                        .iter()
                        .map(|at| PairRecord::id_of(&queries[pairs[*at].0], &pairs[*at].1))
                        .collect();
                    let (found, summary) = survey.labels(&ids, &file)?;
                    for (place, found) in open.into_iter().zip(found) {
                        labels[place] = match found {
                            VotedLabel::Label(label) => Label::new(label.into(), survey.evidence()),
                            VotedLabel::Removed(alpha, said) => {
                                Label { is_removed: true, ..Label::undecided(survey.removal(alpha, &said)) }
                            }
                            VotedLabel::Undecided(reason) => {
                                Label::undecided(format!("{}: {reason}", survey.evidence()))
                            }
                            VotedLabel::Open(_) => Label::default(),
                        };
                    }
                    surveys.push(summary);
                }
            }
            (LabelKind::File | LabelKind::Judge, None) => {}
        }
    }
    if !generated.is_empty() {
        let mut writer = Writer::create(&step.join(GENERATED))?;
        generated.iter().try_for_each(|record| writer.write(record))?;
        writer.finish()?;
    }
    let [labelled, unlabeled] = [true, false].map(|wanted| {
        (0..pairs.len()).filter(|place| labels[*place].value.is_some() == wanted).collect::<Vec<_>>()
    });
    if labelled.is_empty() {
        let undecided = labels.iter().find_map(|label| label.evidence.as_deref());
        let undecided = undecided.map_or_else(String::new, |reason| format!(" ({reason})"));
        let problem = format!(
            "expected labels, found none for {}{undecided}; add another of [[labels]], such as kind = \"pairing\" for \
             queries made from docstrings",
            counted(pairs.len(), "pair")
        );
        return Err(FactoryError::step("labels", problem));
    }
    write_pairs(&step.join(PAIRS_FILE), labelled.iter().copied(), &queries, &pairs, &labels, &mut pool)?;
    write_pairs(&step.join(UNLABELED), unlabeled.iter().copied(), &queries, &pairs, &labels, &mut pool)?;
    if !surveys.is_empty() {
        let removed = (0..pairs.len()).filter(|place| labels[*place].is_removed);
        write_pairs(&step.join(people::REMOVED), removed, &queries, &pairs, &labels, &mut pool)?;
        jsonl::write_json(&step.join(people::SURVEYS), &surveys)?;
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut answered = HashSet::new();
    for ((query, _), Label { value, evidence, is_removed }) in pairs.iter().zip(&labels) {
        match (value, evidence) {
            _ if *is_removed => *counts.entry(people::REMOVED_PAIRS.to_owned()).or_default() += 1,
            (Some(label), Some(evidence)) => {
                let answer = if *label > 0 { "positive" } else { "negative" };
                *counts.entry(answer.to_owned()).or_default() += 1;
                *counts.entry(format!("{answer} by {evidence}")).or_default() += 1;
                if *label > 0 {
                    answered.insert(*query);
                }
            }
            (None, Some(_)) => *counts.entry("undecided".to_owned()).or_default() += 1,
            (_, None) => {}
        }
    }
    counts.extend(agreement);
    counts.insert("pairs".into(), pairs.len() as u64);
    counts.insert("unlabelled".into(), unlabeled.len() as u64);
    counts.insert("queries with a positive".into(), answered.len() as u64);
    Ok(counts)
}

fn write_pairs(
    path: &Path,
    places: impl Iterator<Item = usize>,
    queries: &[QueryRecord],
    pairs: &[(usize, String)],
    labels: &[Label],
    pool: &mut PoolReader,
) -> Result<(), FactoryError> {
    let mut writer = Writer::create(path)?;
    for place in places {
        let (query, code) = &pairs[place];
        let query = &queries[*query];
        let (_, record) = pool.get(code)?;
        let Label { value: label, evidence, .. } = labels[place].clone();
        writer.write(&PairRecord::new(query, code, record, label, evidence))?;
    }
    writer.finish()
}

/// Labels of pairs with the same texts, ignoring white space and the case of the query.
fn from_file(
    path: &Path,
    queries: &[QueryRecord],
    pairs: &[(usize, String)],
    pool: &mut PoolReader,
    labels: &mut [Label],
    agreement: &mut BTreeMap<String, u64>,
) -> Result<(), FactoryError> {
    let text_of = |query: &str| normalized_hash(&query.to_lowercase());
    let mut known: HashMap<(u128, u128), i32> = HashMap::new();
    let sources = dataset::sources(slice::from_ref(&path.to_owned()), "", "test")?;
    dataset::for_each(&sources, &mut |_, record| {
        if let Record::Pair(pair) = record
            && let Some(label) = pair.label
        {
            known.insert((text_of(&pair.query.text), normalized_hash(&pair.code.text)), label);
        }
        Ok(())
    })?;
    let evidence = format!("file {}", path.file_name().unwrap_or_default().to_string_lossy());
    for ((query, code), label) in pairs.iter().zip(labels) {
        let (_, record) = pool.get(code)?;
        let found = known.get(&(text_of(&queries[*query].text), normalized_hash(&record.code)));
        if let Some(value) = found {
            label.give(*value, &evidence, agreement);
        }
    }
    Ok(())
}

/// Judges the pairs in a file, and reads the verdicts.
fn judge(
    labelling: &Labeling<'_>,
    plan: quarry_annotate::Plan,
    file: &Path,
    pairs: &[(usize, String)],
    queries: &[QueryRecord],
    labels: &mut [Label],
) -> Result<Judging, FactoryError> {
    let evidence = format!("judge {}", plan.judge.name);
    let plan = plan.with_pairs(vec![file.to_owned()], PAIRS.name);
    let judging: Judging = (labelling.prepare_judging)(plan).map_err(FactoryError::Tool)?;
    judging.run(labelling.stop, &|_| {})?;
    if let Some((id, reason)) = judging.unjudged()? {
        let problem = format!(
            "some pairs have no verdict, such as {id}: {reason}; build again to try them again, or label them \
             otherwise"
        );
        return Err(FactoryError::step("labels", problem));
    }
    let (ledger, judge) = judging.ledger();
    let mut decided: HashMap<String, Label> = HashMap::new();
    ledger.for_each_decided(judge, |judged| {
        let reason = || format!("{evidence}: {} {}", judged.verdict.decided_by, judged.verdict.reason);
        let label = match judged.verdict.outcome {
            Outcome::Yes => Label::new(1, &evidence),
            Outcome::No => Label::new(0, &evidence),
            Outcome::Discarded | Outcome::Unresolved => Label::undecided(reason()),
        };
        decided.insert(judged.pair.id, label);
        Ok(())
    })?;
    for ((query, code), label) in pairs.iter().zip(labels) {
        if label.is_open()
            && let Some(decided) = decided.remove(&PairRecord::id_of(&queries[*query], code))
        {
            *label = decided;
        }
    }
    Ok(judging)
}

/// Codes that the model of a judge writes for queries without a correct candidate, if the judge accepts them; with
/// the indices of their queries.
fn generate(
    labelling: &Labeling<'_>,
    judging: &Judging,
    queries: &[QueryRecord],
    answered: &HashSet<usize>,
) -> Result<Vec<(usize, CodeRecord)>, FactoryError> {
    let numbers: HashMap<&str, usize> =
        queries.iter().enumerate().map(|(number, query)| (query.id.as_str(), number)).collect();
    let is_wanted = |id: &str| numbers.get(id).is_some_and(|number| !answered.contains(number));
    let summary = judging.generate_for(&is_wanted, labelling.stop, &|| ())?;
    if let Some((id, reason)) = summary.failed.first() {
        let problem = format!(
            "code could not be written for {}, such as {id}: {reason}; build again to retry",
            counted(summary.failed.len(), "query")
        );
        return Err(FactoryError::step("labels", problem));
    }
    let (ledger, judge) = judging.ledger();
    let mut found = Vec::new();
    for code in ledger.generated(judge)?.into_iter().filter(GeneratedCode::is_accepted) {
        let language = quarry_source::language_called(&code.pair.language);
        if let (Some(&query), Some(language)) = (numbers.get(code.pair.query_id.as_str()), language)
            && !answered.contains(&query)
        {
            let origin = Origin {
                source: "generated".to_owned(),
                repository: "generated".to_owned(),
                path: code.pair.query_id.clone(),
                ..Origin::default()
            };
            found.push((query, record_of_text(&origin, language, &code.pair.code)));
        }
    }
    found.sort_by_key(|(query, _)| *query);
    Ok(found)
}
