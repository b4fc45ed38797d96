//! Splits, and exports of the result.

pub(crate) mod croissant;
pub(crate) mod evaluation;
pub(crate) mod fixes;
pub(crate) mod leaks;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use quarry_corpus::dataset::convert::{ConvertOptions, Target, convert};
use quarry_corpus::dataset::{self, split};
use quarry_corpus::formats::source::Source;
use quarry_corpus::formats::{beir, cosqa_plus, query_code};
use quarry_corpus::pairs::split_summary;
use quarry_source::FunctionPair;
use serde::Serialize;
use serde_json::json;

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::labels::{GENERATED, NEGATIVE};
use crate::outputs::{PAIRS_FILE, PARTS, QUERIES, part_file};
use crate::plan::{CATEGORIES, ExportPlan, Extract, ONLY_MATCHES, SplitPlan, TRAINING_PAIRS};
use crate::queries::categories;
use crate::queries::written;
use crate::record::{CodeRecord, PairRecord, QueryRecord};
use crate::sources::pool::{POOL, PoolReader};
use crate::step::{Key, Step};

/// Change when the same input gives another output.
const SPLIT_VERSION: u32 = 2;
const EXPORT_VERSION: u32 = 3;

pub(crate) fn split_step(plan: &SplitPlan, seed: u64, labels: &Key) -> Step {
    Step::new("splits", SPLIT_VERSION, &(plan, seed), &[labels])
}

/// Splits pairs by query, stratified by the number of positives.
pub(crate) fn write_splits(
    plan: &SplitPlan,
    seed: u64,
    labels: &Path,
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let sources = [Source::open(&labels.join(PAIRS_FILE), query_code::PAIRS.name)?];
    let mut counts = BTreeMap::new();
    for part in split::split(&sources, &plan.parts(), (seed, plan.query_grouping()), &step.join(PARTS))? {
        counts.insert(format!("queries in {}", part.name), part.queries as u64);
        counts.insert(format!("pairs in {}", part.name), part.rows as u64);
        if part.left_out > 0 {
            counts.insert(format!("negatives left out of {}", part.name), part.left_out as u64);
        }
    }
    Ok(counts)
}

#[derive(Serialize)]
struct Identity<'p> {
    plan: &'p ExportPlan,
    parts: &'p [&'p str],
}

pub(crate) fn step(plan: &ExportPlan, splits: &SplitPlan, inputs: &[&Key]) -> Step {
    let identity = Identity { plan, parts: &parts_of(plan, splits) };
    Step::new(format!("export {}", plan.format), EXPORT_VERSION, &identity, inputs)
}

fn parts_of<'p>(plan: &'p ExportPlan, splits: &'p SplitPlan) -> Vec<&'p str> {
    let all = splits.parts.keys().map(String::as_str);
    all.filter(|part| plan.parts.is_empty() || plan.parts.iter().any(|name| name == part)).collect()
}

pub(crate) struct Inputs<'i> {
    pub(crate) pool: &'i Path,
    pub(crate) queries: &'i Path,
    pub(crate) splits: &'i Path,
    pub(crate) labels: &'i Path,
    pub(crate) written: &'i [PathBuf],
}

impl Inputs<'_> {
    /// Codes that are not in the pool, because they were generated for queries without a correct candidate.
    fn generated(&self) -> Result<Vec<CodeRecord>, BuildError> {
        let path = self.labels.join(GENERATED);
        if path.exists() { jsonl::read_all(&path) } else { Ok(Vec::new()) }
    }

    fn codes(&self) -> Result<PoolReader, BuildError> {
        let mut codes = PoolReader::open(self.pool)?;
        codes.add(self.generated()?);
        Ok(codes)
    }
}

pub(crate) fn write(
    plan: &ExportPlan,
    splits: &SplitPlan,
    inputs: &Inputs<'_>,
    (step, workspace): (&Path, &Path),
) -> Result<BTreeMap<String, u64>, BuildError> {
    let parts = parts_of(plan, splits);
    if plan.format == TRAINING_PAIRS {
        return write_training_pairs(&parts, inputs, step);
    }
    if plan.format == CATEGORIES {
        let (mut codes, mut counts) = (inputs.codes()?, BTreeMap::new());
        for part in parts {
            let name = format!("{part}.csv");
            let pairs = part_file(inputs.splits, part);
            let code = &mut |id: &str| Ok(codes.get(id)?.1);
            counts.insert(name.clone(), categories::write_table(&pairs, code, &step.join(&name))?);
        }
        return Ok(counts);
    }
    if let Some(extract) = Extract::named(&plan.format) {
        let summaries = written::summaries(inputs.written)?;
        let mut counts = BTreeMap::new();
        for part in parts {
            let name = format!("{part}.jsonl");
            let pairs = part_file(inputs.splits, part);
            counts.insert(
                name.clone(),
                written::write_extract(extract, &pairs, &summaries, &step.join(&name))?,
            );
        }
        return Ok(counts);
    }
    let Some(target) = Target::named(&plan.format) else {
        return Err(BuildError::step("export", format!("unknown format {:?}", plan.format)));
    };
    let numbered = NUMBERED.contains(&plan.format.as_str());
    // Left by an earlier attempt.
    fs::remove_dir_all(workspace).map_err(BuildError::write(workspace))?;
    fs::create_dir_all(workspace).map_err(BuildError::write(workspace))?;
    let shared = match target {
        Target::Directory(_) => write_corpus(inputs, workspace, numbered)?,
        Target::File(_) => Vec::new(),
    };
    let mut counts = BTreeMap::new();
    let mut judged = Vec::new();
    for part in parts {
        let mut sources = shared.clone();
        let pairs = part_file(inputs.splits, part);
        let has_pairs = fs::metadata(&pairs).map_err(BuildError::read(&pairs))?.len() > 0;
        if has_pairs {
            judged.push(part);
            sources.push(write_part(inputs, part, workspace, numbered)?);
        }
        dataset::sort(&mut sources);
        let out = match target {
            Target::Directory(_) => workspace.join(part).join(&plan.format),
            Target::File(format) => step.join(part).with_added_extension(ending(format)),
        };
        let options = ConvertOptions { without_judgments: !has_pairs, ..ConvertOptions::default() };
        if plan.format == ONLY_MATCHES && has_pairs && !has_positive(&part_file(inputs.splits, part))? {
            let problem = format!(
                "expected pairs that answer in the part {part}, for the format has no others, found none; remove the \
                 part from `parts` of this export, or label more pairs"
            );
            return Err(BuildError::step(&format!("export {}", plan.format), problem));
        }
        let converted = convert(&sources, target, &out, part, &options)?;
        for written in &converted.files {
            let name = written.path.strip_prefix(&out).ok().filter(|name| !name.as_os_str().is_empty());
            let name =
                name.map_or_else(|| written.path.file_name().unwrap_or_default().into(), Path::to_owned);
            counts.insert(name.display().to_string(), written.records as u64);
        }
        if converted.negatives > 0 {
            counts.insert(format!("negatives left out of {part}"), converted.negatives as u64);
        }
        if let Target::Directory(_) = target {
            move_files(&out, step)?;
        }
    }
    if let Some(files) = HUB_FILES.iter().find(|files| files.format == plan.format) {
        let path = step.join("README.md");
        fs::write(&path, files.readme(&judged)).map_err(BuildError::write(&path))?;
    }
    Ok(counts)
}

/// The files of a data set as the Hugging Face Hub has it, without their endings for each part.
struct HubFiles {
    format: &'static str,
    corpus: &'static str,
    queries: &'static str,
    judgments: [&'static str; 2],
}

const HUB_FILES: [HubFiles; 2] = [
    HubFiles {
        format: "mteb",
        corpus: "corpus.jsonl",
        queries: "queries.jsonl",
        judgments: ["qrels/", ".jsonl"],
    },
    HubFiles {
        format: "mteb-parquet",
        corpus: "corpus/corpus-*.parquet",
        queries: "queries/queries-*.parquet",
        judgments: ["qrels/", "-*.parquet"],
    },
];

impl HubFiles {
    /// The head by which the Python library `datasets` knows which files are the corpus, the queries, and the judgments of
    /// each part. The names are those that MTEB asks for.
    fn readme(&self, parts: &[&str]) -> String {
        let config = |name: &str, files: &[(&str, String)]| {
            let files: String =
                files.iter().map(|(split, path)| format!("  - split: {split}\n    path: {path}\n")).collect();
            format!("- config_name: {name}\n  data_files:\n{files}")
        };
        let [before, after] = self.judgments;
        let judgments: Vec<(&str, String)> =
            parts.iter().map(|part| (*part, format!("{before}{part}{after}"))).collect();
        let default = if judgments.is_empty() { String::new() } else { config("default", &judgments) };
        format!(
            "---\nconfigs:\n{default}{}{}---\n",
            config("corpus", &[("corpus", self.corpus.to_owned())]),
            config("queries", &[("queries", self.queries.to_owned())]),
        )
    }
}

/// Formats whose ids are whole numbers.
const NUMBERED: [&str; 4] = ["cosqa", "cosqa-plus", "cosqa-plus-folder", "cosqa-qa"];

fn has_positive(part: &Path) -> Result<bool, BuildError> {
    let mut found = false;
    jsonl::for_each(part, &mut |pair: PairRecord, _| {
        found |= pair.is_positive();
        Ok(())
    })?;
    Ok(found)
}

fn ending(format: &quarry_corpus::formats::Format) -> &'static str {
    use quarry_corpus::formats::Encoding;
    match format.container {
        Encoding::JsonLines => "jsonl",
        Encoding::JsonArray | Encoding::JsonObject => "json",
        Encoding::Csv => "csv",
        Encoding::Parquet => "parquet",
        Encoding::Pickle | Encoding::Lines { .. } => "tsv",
    }
}

/// Writes the whole corpus and all queries, which the parts of an export share.
fn write_corpus(inputs: &Inputs<'_>, workspace: &Path, numbered: bool) -> Result<Vec<Source>, BuildError> {
    let [corpus, queries] = ["corpus.jsonl", "queries.jsonl"].map(|name| workspace.join(name));
    let mut writer = Writer::create(&corpus)?;
    let mut number = 0;
    let mut write = |record: CodeRecord| {
        let id = if numbered { number.to_string() } else { record.id };
        number += 1;
        // Formats with numbers have code alone: a title would become part of it.
        if numbered {
            return writer.write(&json!({"_id": id, "text": record.code, "language": record.language}));
        }
        let location = (!record.path.is_empty()).then(|| format!("{}:{}", record.path, record.start_line));
        writer.write(&json!({
            "_id": id,
            "title": record.name,
            "text": record.code,
            "language": record.language,
            "location": location,
        }))
    };
    jsonl::for_each(&inputs.pool.join(POOL), &mut |record: CodeRecord, _| write(record))?;
    inputs.generated()?.into_iter().try_for_each(write)?;
    writer.finish()?;
    let mut writer = Writer::create(&queries)?;
    let mut number = 0;
    jsonl::for_each(&inputs.queries.join(QUERIES), &mut |query: QueryRecord, _| {
        let id = if numbered { number.to_string() } else { query.id };
        number += 1;
        writer.write(&json!({"_id": id, "text": query.text}))
    })?;
    writer.finish()?;
    Ok(vec![Source::open(&corpus, beir::CORPUS.name)?, Source::open(&queries, beir::QUERIES.name)?])
}

/// Writes the pairs of a part, with integer ids if required.
fn write_part(
    inputs: &Inputs<'_>,
    part: &str,
    workspace: &Path,
    numbered: bool,
) -> Result<Source, BuildError> {
    let path = part_file(inputs.splits, part);
    if !numbered {
        return Ok(Source::open(&path, query_code::PAIRS.name)?);
    }
    let mut codes = inputs.codes()?;
    let mut queries: HashMap<String, usize> = HashMap::new();
    jsonl::for_each(&inputs.queries.join(QUERIES), &mut |query: QueryRecord, _| {
        queries.insert(query.id, queries.len());
        Ok(())
    })?;
    let out = workspace.join(part).with_added_extension("pairs.json");
    let mut pairs = Vec::new();
    jsonl::for_each(&path, &mut |pair: PairRecord, _| {
        pairs.push(json!({
            "pair-idx": pairs.len(),
            "query-idx": queries.get(&pair.query_id),
            "query": pair.query,
            "code-idx": codes.get(&pair.code_id)?.0,
            "code": pair.code,
            "label": pair.label,
            "language": pair.language,
        }));
        Ok(())
    })?;
    let text = serde_json::to_vec(&pairs).unwrap_or_default();
    fs::write(&out, text).map_err(BuildError::write(&out))?;
    Ok(Source::open(&out, cosqa_plus::PAIRS.name)?)
}

/// Moves the files of a part to the common directory. Shared files are there already.
fn move_files(from: &Path, to: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(to).map_err(BuildError::write(to))?;
    for entry in fs::read_dir(from).map_err(BuildError::read(from))? {
        let entry = entry.map_err(BuildError::read(from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            move_files(&path, &target)?;
        } else if !target.exists() {
            fs::rename(&path, &target).map_err(BuildError::write(&target))?;
        }
    }
    Ok(())
}

/// The positive pairs of each part, a file each, with the codes that do not answer their queries.
fn write_training_pairs(
    parts: &[&str],
    inputs: &Inputs<'_>,
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut pool = inputs.codes()?;
    let mut counts = BTreeMap::new();
    for part in parts {
        let name = format!("{part}.jsonl");
        let mut writer = Writer::create(&step.join(&name))?;
        let (mut n_pairs, mut n_negatives) = (0, 0);
        // A pair that was not judged is only likely to be negative: such pairs are not used for training.
        let is_judged =
            |pair: &PairRecord| pair.label == Some(0) && pair.evidence.as_deref() != Some(NEGATIVE);
        let mut negatives: HashMap<String, Vec<String>> = HashMap::new();
        jsonl::for_each(&part_file(inputs.splits, part), &mut |pair: PairRecord, _| {
            if is_judged(&pair) {
                negatives.entry(pair.query_id).or_default().push(pair.code);
            }
            Ok(())
        })?;
        jsonl::for_each(&part_file(inputs.splits, part), &mut |pair: PairRecord, _| {
            if !pair.is_positive() {
                return Ok(());
            }
            let negatives = negatives.get(&pair.query_id).cloned().unwrap_or_default();
            n_negatives += negatives.len() as u64;
            let (_, code) = pool.get(&pair.code_id)?;
            n_pairs += 1;
            let base_name = code.name.rsplit('.').next().unwrap_or_default();
            writer.write(&FunctionPair {
                query: pair.query,
                doc: split_summary(&code.documentation, base_name).1,
                code: pair.code,
                language: code.language,
                repository: code.repository,
                name: code.name,
                path: String::new(),
                negatives,
            })
        })?;
        writer.finish()?;
        counts.insert(format!("hard negatives in {name}"), n_negatives);
        counts.insert(name, n_pairs);
    }
    Ok(counts)
}
