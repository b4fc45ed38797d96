//! Labels: the candidates that answer their query, and the source of each label.

pub(crate) mod annotation;
pub(crate) mod calibration;
pub(crate) mod estimate;
pub(crate) mod living;
pub(crate) mod people;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::AtomicBool;

use quarry_corpus::dataset;
use quarry_corpus::formats::query_code::PAIRS;
use quarry_corpus::formats::{Record, RecordKind};
use quarry_judge::ledger::{GeneratedCode, GeneratedStatus};
use quarry_judge::{AuthorUsage, Estimate, JudgeError, JudgeReport, Judging, Ledger, Outcome};
use quarry_people::VotedLabel;
use quarry_text::counted;
use serde::Serialize;

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::labels::people::{Survey, SurveySummary};
use crate::outputs::{CANDIDATES, PAIRS_FILE, QUERIES};
use crate::plan::{LabelKind, LabelPlan, Plan};
use crate::queries::authoring::add_usage;
use crate::record::{Candidate, CodeRecord, PairRecord, QueryRecord, normalized_hash};
use crate::sources::function::{Origin, record_of_text};
use crate::sources::pool::PoolReader;
use crate::step::{Key, Step, content_hash};

/// Prepares a judging plan: opens the sandbox, if it needs one.
pub(crate) type PrepareJudging<'a> =
    dyn Fn(quarry_judge::Plan) -> Result<Judging, Box<dyn Error + Send + Sync>> + 'a;

/// Judges the pairs of a plan that is ready, until each has a verdict or failed, or the user stopped.
pub(crate) type RunJudging<'a> = dyn Fn(&Judging, &AtomicBool) -> Result<(), JudgeError> + 'a;

/// Incremented when the same candidates and labels yield different pairs.
const VERSION: u32 = 4;

/// The evidence of negative labels of pairs that were not judged.
pub(crate) const NEGATIVE: &str = "negative";

/// Code generated for queries without a correct candidate.
pub(crate) const GENERATED: &str = "generated.jsonl";
/// Pairs without a label.
pub(crate) const UNLABELED: &str = "unlabelled.jsonl";

/// The judging plan with this index among the labels of a plan. Its pairs come from the build, and its evidence is
/// kept in the build directory.
pub(crate) fn judging_plan(
    path: &Path,
    root: &Path,
    number: usize,
) -> Result<quarry_judge::Plan, BuildError> {
    Ok(quarry_judge::Plan::open(path, Some(&ledger_of(root, number)))?)
}

/// The ledger of the judging plan with this index among the labels of a plan. It is kept across all changes, so
/// that nothing is paid for twice.
pub(crate) fn ledger_of(root: &Path, number: usize) -> PathBuf {
    root.join(format!("judging-{number}.ledger"))
}

/// The plans of the judges of a build, in order, with their ledgers in its directory.
///
/// # Errors
/// When one of them is invalid.
pub fn judging_plans(plan: &Plan, root: &Path) -> Result<Vec<quarry_judge::Plan>, BuildError> {
    let judges = plan.labels.iter().enumerate().filter(|(_, label)| label.kind == LabelKind::Judge);
    judges.filter_map(|(number, label)| Some(judging_plan(label.path.as_deref()?, root, number))).collect()
}

#[derive(Serialize)]
struct Identity {
    kind: LabelKind,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    generate: bool,
    /// Hash of the file of labels, of the judge and its model, or of people's answers.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    people: Option<people::Identity>,
    /// Hash of people's reviews of generated code.
    #[serde(skip_serializing_if = "Option::is_none")]
    reviews: Option<String>,
}

/// Hash of people's reviews of the code that a judge's model wrote.
fn reviews(plan: &quarry_judge::Plan) -> Result<Option<String>, BuildError> {
    if !plan.ledger.exists() {
        return Ok(None);
    }
    let ledger = Ledger::open(&plan.ledger)?;
    Ok(ledger.judge(&plan.version)?.map_or(Ok(None), |judge| ledger.reviews_digest(judge))?)
}

pub(crate) fn step(
    plans: &[LabelPlan],
    root: &Path,
    candidates: &Key,
    queries: &Key,
    pool: &Key,
) -> Result<Step, BuildError> {
    let mut identities = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let (content, reviews) = match (plan.kind, &plan.path) {
            (LabelKind::File, Some(path)) => (Some(content_hash(path)?), None),
            (LabelKind::Judge, Some(path)) => {
                let judging = judging_plan(path, root, number)?;
                let reviews = if plan.generate { reviews(&judging)? } else { None };
                (Some(judging.version), reviews)
            }
            (LabelKind::People, _) => (Some(Survey::open(plan, root, number)?.version()?), None),
            _ => (None, None),
        };
        identities.push(Identity {
            kind: plan.kind,
            generate: plan.generate,
            content,
            people: (plan.kind == LabelKind::People).then(|| people::Identity::new(plan)),
            reviews,
        });
    }
    Ok(Step::new("labels", VERSION, &identities, &[candidates, queries, pool]))
}

/// Checks the files of labels and the judging plans that a plan names.
pub(crate) fn check(plans: &[LabelPlan], root: &Path) -> Result<(), BuildError> {
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

/// Checks by its first record that a file can contain labels.
fn check_file(path: &Path) -> Result<(), BuildError> {
    let sources = dataset::sources(slice::from_ref(&path.to_owned()), "", "test")?;
    if sources.iter().any(|source| source.format.holds == RecordKind::Pairs) {
        return Ok(());
    }
    let formats: Vec<&str> = sources.iter().map(|source| source.format.name).collect();
    let problem = format!(
        "expected labeled pairs, with the texts of query and code, found {}; name another file, or convert it",
        formats.join(", ")
    );
    Err(BuildError::Line { path: path.to_owned(), line: 1, problem })
}

pub(crate) struct Labeling<'l> {
    pub(crate) plans: &'l [LabelPlan],
    /// The directory of the build, which contains the ledgers.
    pub(crate) root: &'l Path,
    pub(crate) prepare_judging: &'l PrepareJudging<'l>,
    pub(crate) judge: &'l RunJudging<'l>,
    pub(crate) stop: &'l AtomicBool,
}

/// The label of a pair and its source. Without a value, the evidence is the reason why it is undecided.
#[derive(Debug, Clone, Default)]
struct Label {
    value: Option<i32>,
    evidence: Option<String>,
    /// True if the pair is removed from the data, so that no later source may label it.
    is_removed: bool,
}

impl Label {
    fn new(value: i32, evidence: &str) -> Self {
        Self { value: Some(value), evidence: Some(evidence.to_owned()), is_removed: false }
    }

    /// A pair without a label, and the reason.
    fn undecided(evidence: String) -> Self {
        Self { evidence: Some(evidence), ..Self::default() }
    }

    fn is_open(&self) -> bool {
        self.value.is_none() && !self.is_removed
    }

    /// Sets the label if there is none; otherwise, counts whether both agree.
    fn set_or_compare(&mut self, value: i32, evidence: &str, agreement: &mut BTreeMap<String, u64>) {
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

/// Suffix of the counts of pairs that two sources label.
const SAME: &str = ": the same label";
const OTHER: &str = ": other labels";

/// Number of pairs that two sources label the same and differently, by source.
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

/// The pairs of all candidates and of the codes from which queries were made. Texts are read when they are written.
struct Pairs {
    queries: Vec<QueryRecord>,
    /// Index of the query, and id of the code.
    ids: Vec<(usize, String)>,
    labels: Vec<Label>,
    pool: PoolReader,
    /// Counts of pairs that two sources label.
    agreement: BTreeMap<String, u64>,
}

impl Pairs {
    fn read((candidates, queries, pool): (&Path, &Path, &Path)) -> Result<Self, BuildError> {
        let queries: Vec<QueryRecord> = jsonl::read_all(&queries.join(QUERIES))?;
        let mut codes: HashMap<String, Vec<String>> = HashMap::new();
        jsonl::for_each(&candidates.join(CANDIDATES), &mut |candidate: Candidate, _| {
            codes.entry(candidate.query).or_default().push(candidate.code);
            Ok(())
        })?;
        let mut ids = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            let found = codes.remove(&query.id).unwrap_or_default();
            let mut seen = HashSet::new();
            for code in query.codes.iter().chain(&found) {
                if seen.insert(code) {
                    ids.push((number, code.clone()));
                }
            }
        }
        let (labels, pool) = (vec![Label::default(); ids.len()], PoolReader::open(pool)?);
        Ok(Self { queries, ids, labels, pool, agreement: BTreeMap::new() })
    }

    fn id(&self, place: usize) -> String {
        let (query, code) = &self.ids[place];
        PairRecord::id_of(&self.queries[*query], code)
    }

    fn open(&self) -> Vec<usize> {
        (0..self.labels.len()).filter(|place| self.labels[*place].is_open()).collect()
    }

    /// Indices of the queries with a positive label.
    fn answered(&self) -> HashSet<usize> {
        let answering = self.ids.iter().zip(&self.labels).filter(|(_, label)| label.value > Some(0));
        answering.map(|((query, _), _)| *query).collect()
    }

    /// Writes the pairs with such a label; returns their number.
    fn write(&mut self, path: &Path, is_written: impl Fn(&Label) -> bool) -> Result<usize, BuildError> {
        let (mut writer, mut n_written) = (Writer::create(path)?, 0);
        for ((query, code), label) in self.ids.iter().zip(&self.labels) {
            if is_written(label) {
                let (_, record) = self.pool.get(code)?;
                let Label { value, evidence, .. } = label.clone();
                writer.write(&PairRecord::new(&self.queries[*query], code, record, value, evidence))?;
                n_written += 1;
            }
        }
        writer.finish()?;
        Ok(n_written)
    }

    /// Sets the labels of a source that involves neither people nor models.
    fn set_known_labels(&mut self, plan: &LabelPlan) -> Result<(), BuildError> {
        match (plan.kind, &plan.path) {
            (LabelKind::Pairing, _) => {
                for ((query, code), label) in self.ids.iter().zip(&mut self.labels) {
                    if self.queries[*query].codes.contains(code) {
                        label.set_or_compare(1, "pairing", &mut self.agreement);
                    }
                }
            }
            (LabelKind::Negative, _) => {
                let open = self.labels.iter_mut().filter(|label| label.is_open());
                open.for_each(|label| *label = Label::new(0, NEGATIVE));
            }
            (LabelKind::File, Some(path)) => self.set_labels_of_file(path)?,
            (LabelKind::File | LabelKind::Judge | LabelKind::People, _) => {}
        }
        Ok(())
    }

    /// Labels of pairs with the same texts, ignoring white space and the case of the query.
    fn set_labels_of_file(&mut self, path: &Path) -> Result<(), BuildError> {
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
        for ((query, code), label) in self.ids.iter().zip(&mut self.labels) {
            let (_, record) = self.pool.get(code)?;
            let found = known.get(&(text_of(&self.queries[*query].text), normalized_hash(&record.code)));
            if let Some(value) = found {
                label.set_or_compare(*value, &evidence, &mut self.agreement);
            }
        }
        Ok(())
    }
}

/// Writes the pairs with their labels. The label is that of the first source in the plan that labels the pair. Pairs
/// without a label go to a separate file.
pub(crate) fn write(
    labelling: &Labeling<'_>,
    inputs: (&Path, &Path, &Path),
    (step, workspace): (&Path, &Path),
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut pairs = Pairs::read(inputs)?;
    let mut usage: Option<AuthorUsage> = None;
    let mut generated: Vec<CodeRecord> = Vec::new();
    let mut reviewed: BTreeMap<String, u64> = BTreeMap::new();
    let mut surveys: Vec<SurveySummary> = Vec::new();
    for (number, plan) in labelling.plans.iter().enumerate() {
        pairs.set_known_labels(plan)?;
        let open = pairs.open();
        if open.is_empty() {
            continue;
        }
        match (plan.kind, &plan.path) {
            (LabelKind::Judge, Some(path)) => {
                let file = workspace.join(format!("judge-{number}.jsonl"));
                pairs.write(&file, Label::is_open)?;
                let judging =
                    judge(labelling, judging_plan(path, labelling.root, number)?, &file, &mut pairs)?;
                if plan.generate {
                    let evidence = format!("generation by the model of judge {}", number + 1);
                    for (query, record) in generate(labelling, &judging, &pairs, &mut reviewed)? {
                        pairs.ids.push((query, record.id.clone()));
                        pairs.labels.push(Label::new(1, &evidence));
                        pairs.pool.add(vec![record.clone()]);
                        generated.push(record);
                    }
                }
                let (ledger, judge) = judging.ledger();
                let report = JudgeReport::new(ledger.counts(judge, &judging.plan().judge)?);
                let usage = usage.get_or_insert_default();
                usage.questions += report.answers;
                usage.cost += report.cost;
            }
            (LabelKind::People, _) => {
                let survey = Survey::open(plan, labelling.root, number)?;
                let file = workspace.join(format!("people-{number}.jsonl"));
                pairs.write(&file, Label::is_open)?;
                let ids: Vec<String> = open.iter().map(|place| pairs.id(*place)).collect();
                let (found, summary) = survey.labels(&ids, &file)?;
                for (place, found) in open.into_iter().zip(found) {
                    pairs.labels[place] = match found {
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
            _ => {}
        }
    }
    if !generated.is_empty() {
        let mut writer = Writer::create(&step.join(GENERATED))?;
        generated.iter().try_for_each(|record| writer.write(record))?;
        writer.finish()?;
    }
    if pairs.labels.iter().all(|label| label.value.is_none()) {
        let undecided = pairs.labels.iter().find_map(|label| label.evidence.as_deref());
        let undecided = undecided.map_or_else(String::new, |reason| format!(" ({reason})"));
        let problem = format!(
            "expected labels, found none for {}{undecided}; add another of [[labels]], such as kind = \"pairing\" for \
             queries made from docstrings",
            counted(pairs.ids.len(), "pair")
        );
        return Err(BuildError::step("labels", problem));
    }
    pairs.write(&step.join(PAIRS_FILE), |label| label.value.is_some())?;
    let n_unlabeled = pairs.write(&step.join(UNLABELED), |label| label.value.is_none())?;
    if !surveys.is_empty() {
        pairs.write(&step.join(people::REMOVED), |label| label.is_removed)?;
        jsonl::write_json(&step.join(people::SURVEYS), &surveys)?;
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for Label { value, evidence, is_removed } in &pairs.labels {
        match (value, evidence) {
            _ if *is_removed => *counts.entry(people::REMOVED_PAIRS.to_owned()).or_default() += 1,
            (Some(label), Some(evidence)) => {
                let answer = if *label > 0 { "positive" } else { "negative" };
                *counts.entry(answer.to_owned()).or_default() += 1;
                *counts.entry(format!("{answer} by {evidence}")).or_default() += 1;
            }
            (None, Some(_)) => *counts.entry("undecided".to_owned()).or_default() += 1,
            (_, None) => {}
        }
    }
    counts.insert("pairs".into(), pairs.ids.len() as u64);
    counts.insert("unlabelled".into(), n_unlabeled as u64);
    counts.insert("queries with a positive".into(), pairs.answered().len() as u64);
    counts.extend(pairs.agreement);
    counts.extend(reviewed);
    if let Some(usage) = usage {
        add_usage(&mut counts, usage);
    }
    Ok(counts)
}

/// Estimated cost of a judge of a build.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgingEstimate {
    pub judge: String,
    pub estimate: Estimate,
    /// Set if earlier sources of labels, whose results are not known yet, may leave fewer pairs for it.
    pub is_at_most: bool,
}

/// Estimated costs of the judges of a build, based on the candidates of its queries. Makes no calls and writes
/// nothing.
pub(crate) fn estimate(
    labelling: &Labeling<'_>,
    inputs: (&Path, &Path, &Path),
) -> Result<Vec<JudgingEstimate>, BuildError> {
    let mut pairs = Pairs::read(inputs)?;
    let (mut estimates, mut is_at_most) = (Vec::new(), false);
    for (number, plan) in labelling.plans.iter().enumerate() {
        pairs.set_known_labels(plan)?;
        if let (LabelKind::Judge, Some(path)) = (plan.kind, &plan.path) {
            let (plan, copy) = judging_plan(path, labelling.root, number)?.rehearsal()?;
            let file = copy.path().join("pairs.jsonl");
            pairs.write(&file, Label::is_open)?;
            let plan = plan.with_pairs(vec![file], PAIRS.name);
            let judging = (labelling.prepare_judging)(plan).map_err(BuildError::Tool)?;
            let judge = judging.plan().judge.name.clone();
            estimates.push(JudgingEstimate { judge, estimate: judging.estimate()?, is_at_most });
        }
        is_at_most |= matches!(plan.kind, LabelKind::Judge | LabelKind::People);
    }
    Ok(estimates)
}

fn judge(
    labelling: &Labeling<'_>,
    plan: quarry_judge::Plan,
    file: &Path,
    pairs: &mut Pairs,
) -> Result<Judging, BuildError> {
    let evidence = format!("judge {}", plan.judge.name);
    let plan = plan.with_pairs(vec![file.to_owned()], PAIRS.name);
    let judging: Judging = (labelling.prepare_judging)(plan).map_err(BuildError::Tool)?;
    (labelling.judge)(&judging, labelling.stop)?;
    if let Some((id, reason)) = judging.unjudged()? {
        let problem = format!(
            "some pairs have no verdict, such as {id}: {reason}; build again to try them again, or label them \
             otherwise"
        );
        return Err(BuildError::step("labels", problem));
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
    for place in pairs.open() {
        if let Some(decided) = decided.remove(&pairs.id(place)) {
            pairs.labels[place] = decided;
        }
    }
    Ok(judging)
}

/// Prefix of the counts of generated codes, followed by people's verdict on them.
const GENERATED_CODES: &str = "generated codes ";

/// The numbers of generated codes by people's verdict.
pub(crate) fn reviewed(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (&str, u64)> {
    counts.iter().filter_map(|(name, count)| Some((name.strip_prefix(GENERATED_CODES)?, *count)))
}

/// Codes that the model of a judge writes for queries without a correct candidate, with the indices of their
/// queries. Includes those accepted by people, or by the judge if nobody reviewed them. Counts people's verdicts on
/// all of them in `reviewed`.
fn generate(
    labelling: &Labeling<'_>,
    judging: &Judging,
    pairs: &Pairs,
    reviewed: &mut BTreeMap<String, u64>,
) -> Result<Vec<(usize, CodeRecord)>, BuildError> {
    let answered = pairs.answered();
    let numbers: HashMap<&str, usize> =
        pairs.queries.iter().enumerate().map(|(number, query)| (query.id.as_str(), number)).collect();
    let is_wanted = |id: &str| numbers.get(id).is_some_and(|number| !answered.contains(number));
    let summary = judging.generate_for(&is_wanted, labelling.stop, &|| ())?;
    if let Some((id, reason)) = summary.failed.first() {
        let problem = format!(
            "code could not be written for {}, such as {id}: {reason}; build again to retry",
            counted(summary.failed.len(), "query")
        );
        return Err(BuildError::step("labels", problem));
    }
    let (ledger, judge) = judging.ledger();
    let mut found = Vec::new();
    let generated = ledger.generated(judge)?;
    for code in generated.iter().filter(|code| is_wanted(&code.pair.query_id)) {
        let said = match (code.status, code.is_accepted()) {
            (GeneratedStatus::Generated, true) => "that only the judge accepted",
            (GeneratedStatus::Generated, false) => "that the judge did not accept",
            (GeneratedStatus::Approved, _) => "that people approved",
            (GeneratedStatus::Edited, _) => "that people edited",
            (GeneratedStatus::Rejected, _) => "that people rejected",
        };
        *reviewed.entry(format!("{GENERATED_CODES}{said}")).or_default() += 1;
    }
    for code in generated.into_iter().filter(GeneratedCode::is_accepted) {
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
