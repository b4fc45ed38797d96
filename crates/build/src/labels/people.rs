//! Labels by people: a form of the pairs without a label, and the majority of what comes back.
//!
//! A build writes a plan for `quarry judge`, `people-N.toml`, with its pairs, its ledger and a form beside it. Until each
//! pair has enough answers, building again ends there; people answer in the browser (`quarry judge serve`) or in the file
//! (`quarry judge people import`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use quarry_judge::{Ledger, record_pairs};
use quarry_people::{
    Guideline, ItemKind, MajorityRules, PairVotes, Sampling, VotedLabel, VotedLabels, export_pairs,
};
use quarry_text::counted;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::jsonl::{self, read_json};
use crate::plan::LabelPlan;
use crate::record::PairRecord;
use crate::step::{self, Step, hash_file, write_file};

/// The summaries of surveys, in the step's directory.
pub(crate) const SURVEYS: &str = "people.json";
/// The pairs that were removed because people did not agree.
pub(crate) const REMOVED: &str = "removed.jsonl";
/// The name of their number among the counts of the step.
pub(crate) const REMOVED_PAIRS: &str = "removed by people's agreement";

const GUIDELINE: &str = "cosqa-plus";

/// The seed for the order of a form, the same for the same pairs.
const SEED: u64 = 42;

/// Maximum share of pairs without a majority, by default: where most people disagree, the question is wrong.
const MAXIMUM_UNDECIDED: f64 = 0.5;

/// Dependencies of a label besides people's answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Identity {
    guideline: String,
    annotators: Vec<String>,
    minimum: usize,
    minimum_alpha: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum_undecided: Option<f64>,
}

impl Identity {
    pub(crate) fn new(plan: &LabelPlan) -> Self {
        let MajorityRules { minimum, minimum_alpha } = rules(plan);
        // The name; its text is part of the survey's version.
        let guideline = plan.guideline.as_deref().unwrap_or(GUIDELINE);
        let guideline = guideline.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        let LabelPlan { annotators, maximum_undecided, .. } = plan.clone();
        Self { guideline, annotators, minimum, minimum_alpha, maximum_undecided }
    }
}

/// Without a number in the plan, everybody who is named answers for each pair, or one person if nobody is.
fn rules(plan: &LabelPlan) -> MajorityRules {
    let minimum = plan.minimum.unwrap_or(plan.annotators.len().max(1));
    MajorityRules { minimum, minimum_alpha: plan.minimum_alpha }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SurveySummary {
    pub(crate) guideline: String,
    pub(crate) people: Vec<String>,
    /// Number of pairs that they were asked about.
    pub(crate) pairs: usize,
    pub(crate) minimum: usize,
    pub(crate) minimum_alpha: Option<f64>,
    /// Nominal Krippendorff's α of all pairs, and of those that were not removed.
    pub(crate) alpha: [Option<f64>; 2],
    pub(crate) removed: Vec<Removal>,
    /// Number of pairs for which enough people answered, but gave no label by majority.
    pub(crate) undecided: usize,
    /// The name of the survey's plan for `quarry judge`, in the directory of the build.
    pub(crate) plan: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Removal {
    pub(crate) pair: String,
    pub(crate) query: String,
    pub(crate) alpha: f64,
    /// The labels given, by the names of the guideline's values.
    pub(crate) labels: String,
}

pub(crate) struct Survey<'p> {
    plan: &'p LabelPlan,
    guideline: Guideline,
    /// The files of the survey, without their endings.
    stem: PathBuf,
    evidence: String,
}

impl<'p> Survey<'p> {
    /// The survey with this index among the labels of a plan.
    pub(crate) fn open(plan: &'p LabelPlan, root: &Path, number: usize) -> Result<Self, BuildError> {
        let guideline = Guideline::named(plan.guideline.as_deref().unwrap_or(GUIDELINE))?;
        if guideline.asks() != ItemKind::Pair || !guideline.gives_labels() {
            let problem = format!(
                "the guideline {} gives pairs no labels; expected one that does, such as {GUIDELINE} \
                 (`quarry judge people guidelines` lists them)",
                guideline.name
            );
            return Err(BuildError::step("labels", problem));
        }
        let evidence = format!("people, by {}", guideline.name);
        Ok(Self { plan, guideline, stem: root.join(format!("people-{}", number + 1)), evidence })
    }

    pub(crate) fn evidence(&self) -> &str {
        &self.evidence
    }

    pub(crate) fn removal(&self, alpha: f64, said: &str) -> String {
        let minimum = self.plan.minimum_alpha.unwrap_or_default();
        format!("{}: removed, as α {alpha:.3} of {said} is below {minimum}", self.evidence)
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.stem.with_extension(ending)
    }

    /// Hash of the guideline and all answers.
    pub(crate) fn version(&self) -> Result<String, BuildError> {
        Ok(format!("{} {}", self.guideline.version, self.votes()?.digest()))
    }

    fn votes(&self) -> Result<PairVotes, BuildError> {
        let ledger = self.file("ledger");
        if !ledger.exists() {
            return Ok(PairVotes::default());
        }
        Ok(PairVotes::read(&Ledger::open(&ledger)?, &self.guideline, &self.plan.annotators)?)
    }

    /// The labels of the pairs in a file, which have these ids.
    pub(crate) fn labels(
        &self,
        ids: &[String],
        pairs: &Path,
    ) -> Result<(Vec<VotedLabel>, SurveySummary), BuildError> {
        let form = self.write_form(pairs)?;
        let rules = rules(self.plan);
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let VotedLabels { labels, people, alpha } = self.votes()?.labels(&ids, &self.guideline, rules);
        let open = labels.iter().filter(|label| matches!(label, VotedLabel::Open(_))).count();
        if open > 0 {
            return Err(BuildError::Waiting(self.request(open, &form, rules.minimum)));
        }
        let undecided = labels.iter().filter(|label| matches!(label, VotedLabel::Undecided(_))).count();
        let maximum = self.plan.maximum_undecided.unwrap_or(MAXIMUM_UNDECIDED);
        if undecided as f64 > maximum * labels.len() as f64 {
            let problem = format!(
                "people gave no label by majority to {undecided} of {}, more than `maximum_undecided` = {maximum} of them; \
                 decide these in the browser (`{}`), improve the guideline, or raise the limit",
                counted(labels.len(), "pair"),
                serve(&self.file("toml"), &self.plan.annotators)
            );
            return Err(BuildError::step("labels", problem));
        }
        let mut texts = std::collections::HashMap::new();
        jsonl::for_each(pairs, &mut |pair: PairRecord, _| {
            texts.insert(pair.id, pair.query);
            Ok(())
        })?;
        let removed = (ids.iter().zip(&labels)).filter_map(|(id, label)| match label {
            VotedLabel::Removed(alpha, said) => Some(Removal {
                pair: (*id).to_owned(),
                query: texts.get(*id).cloned().unwrap_or_default(),
                alpha: *alpha,
                labels: said.clone(),
            }),
            _ => None,
        });
        let removed = removed.collect();
        let summary = SurveySummary {
            guideline: self.guideline.name.clone(),
            people: people.into_iter().collect(),
            pairs: ids.len(),
            minimum: rules.minimum,
            minimum_alpha: rules.minimum_alpha,
            alpha,
            removed,
            undecided,
            plan: self.file("toml").file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Ok((labels, summary))
    }

    /// Writes the plan, the pairs and the form, unless that for the same pairs is there; returns the form.
    fn write_form(&self, pairs: &Path) -> Result<PathBuf, BuildError> {
        let version = &self.guideline.version;
        let name = self.stem.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_pairs = &hash_file(pairs)?[..8];
        let form = self.stem.with_file_name(format!("{name}-{of_pairs}-{}.csv", &version[..4]));
        if form.exists() {
            return Ok(form);
        }
        let (own, plan) = (self.file("jsonl"), self.file("toml"));
        write_file(&own, &fs::read(pairs).map_err(BuildError::read(pairs))?)?;
        let text = format!(
            "# Pairs for people, by `quarry data build`. No model is asked.\npairs = [\"{name}.jsonl\"]\n\
             judge = \"screener\"\n\n[model]\nprovider = \"openai-compatible\"\nbase_url = \"http://localhost:9/v1\"\n\
             model = \"none\"\n"
        );
        write_file(&plan, text.as_bytes())?;
        let plan = quarry_judge::Plan::open(&plan, None)?;
        let (writer, judge) = record_pairs(&plan)?;
        let sampling = Sampling { seed: SEED, ..Sampling::default() };
        export_pairs(&writer, judge, self.guideline.clone(), &sampling, false, &form)?;
        Ok(form)
    }

    /// Instructions for labeling the rest.
    fn request(&self, open: usize, form: &Path, minimum: usize) -> String {
        let plan = self.file("toml");
        format!(
            "{} from people, {minimum} or more each; have them answer in the browser (`{}`), or fill in {} and import each \
             (`quarry judge people import {} FILE --by NAME`), and build again",
            if open == 1 {
                "1 pair waits for labels".to_owned()
            } else {
                format!("{} wait for labels", counted(open, "pair"))
            },
            serve(&plan, &self.plan.annotators),
            form.display(),
            plan.display()
        )
    }
}

/// The command with which people answer in the browser, and the organizer decides where they disagree.
fn serve(plan: &Path, people: &[String]) -> String {
    let mut serve = format!("quarry judge serve {}", plan.display());
    let unnamed = ["NAME".to_owned()];
    for name in if people.is_empty() { &unnamed } else { people } {
        let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@'));
        let name = if is_word { name.clone() } else { format!("'{}'", name.replace('\'', "'\\''")) };
        let _ = write!(serve, " --annotator {name}");
    }
    serve
}

/// A warning about the pairs that people gave no label in the build in `out`.
pub(crate) fn warning(survey: &SurveySummary, out: &Path) -> Option<String> {
    let SurveySummary { guideline, undecided, pairs, alpha, plan, people, .. } = survey;
    let adjudicate = serve(&out.join(plan), people);
    let alpha = alpha[0].map_or_else(String::new, |alpha| format!(" (Krippendorff's α {alpha:.3})"));
    (*undecided > 0).then(|| {
        format!(
            "people gave no label by majority to {undecided} of {} by the guideline {guideline}{alpha}; decide these in the \
             browser (`{adjudicate}`), and build again",
            counted(*pairs, "pair")
        )
    })
}

pub(crate) fn summaries(steps: &[Step], out: &Path) -> Result<Vec<SurveySummary>, BuildError> {
    let Some(labels) = steps.iter().find(|step| step.name == "labels") else { return Ok(Vec::new()) };
    let path = step::directory_of(out, &labels.key()).join(SURVEYS);
    if path.exists() { read_json(&path) } else { Ok(Vec::new()) }
}
