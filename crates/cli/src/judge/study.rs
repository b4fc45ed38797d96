//! `quarry judge study`: the papers' tables of annotators, and the calibration of judges.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use quarry_judge::{EXECUTABLE_RULES, Ledger, Plan};
use quarry_metrics::table::Sections;
use quarry_people::study::{ReferenceMajority, StudiedJudge, Study, StudyOptions, gather, label_errors};

use super::PlanArgs;
use super::calibrate::{self, CalibrationArgs};
use crate::eval::arguments::{BootstrapArgs, LayoutArgs, by_name};
use crate::new_file;

/// Arguments of `quarry judge study`.
#[derive(Debug, Args)]
pub struct StudyArgs {
    /// Plans whose judges to study, with the labels of people in their ledgers
    #[arg(value_name = "PLAN", required = true)]
    plans: Vec<PathBuf>,
    /// Ledger of all plans, instead of those that they name
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Whose majority is the reference: auto (people who wrote tests if any did, else the others), with-tests,
    /// without-tests, people (all)
    #[arg(long, value_name = "WHO", default_value = "auto", value_parser = by_name::<ReferenceMajority>)]
    truth: ReferenceMajority,
    /// Minimum number of people who labeled a pair for a majority
    #[arg(long, alias = "least-labels", value_name = "N", default_value_t = 1, value_parser = crate::settings::at_least_one)]
    min_labels: usize,
    /// Remove pairs with a lower Krippendorff's alpha between people
    #[arg(long, alias = "least-agreement", value_name = "ALPHA", allow_negative_numbers = true, value_parser = alpha)]
    min_alpha: Option<f64>,
    /// Also average alpha over blocks of N pairs, as CoSQA+ does with 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    block: Option<u32>,
    /// Write to FILE how often the judge of one plan errs, for `label_errors` in plans of `quarry eval run`
    #[arg(long, value_name = "FILE")]
    errors: Option<PathBuf>,
    #[command(flatten)]
    calibration: CalibrationArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

/// A value that Krippendorff's alpha can have.
fn alpha(text: &str) -> Result<f64, String> {
    let alpha = text.parse().ok().filter(|alpha| (-1.0..=1.0).contains(alpha));
    alpha.ok_or_else(|| "expected a number from -1 to 1".to_owned())
}

pub fn run(args: &StudyArgs) -> anyhow::Result<()> {
    if args.calibration.calibration {
        let [plan] = &args.plans[..] else {
            bail!("--calibration: expected one PLAN, found {}", args.plans.len());
        };
        let plan = PlanArgs { plan: plan.clone(), ledger: args.ledger.clone() };
        return calibrate::run(&plan, &args.calibration, &args.layout);
    }
    let open = |path: &PathBuf| Plan::open(path, args.ledger.as_deref());
    let plans = args.plans.iter().map(open).collect::<Result<Vec<Plan>, _>>()?;
    let mut ledgers: BTreeMap<&PathBuf, Ledger> = BTreeMap::new();
    for plan in &plans {
        if !ledgers.contains_key(&plan.ledger) {
            ledgers.insert(&plan.ledger, Ledger::open(&plan.ledger)?);
        }
    }
    // The members of a majority stand before it, each judge once.
    let mut judges: Vec<(&Ledger, i64, String, &Plan)> = Vec::new();
    for plan in plans.iter().flat_map(|plan| plan.members.iter().chain([plan])) {
        let ledger = &ledgers[&plan.ledger];
        let known =
            |judge: i64| judges.iter().any(|other| other.0.path() == ledger.path() && other.1 == judge);
        if let Some(judge) = ledger.judge(&plan.version)?.filter(|judge| !known(*judge)) {
            let mut name = plan.title();
            // Judges that differ in their prompts or options only.
            if judges.iter().any(|other| other.2 == name) {
                let _ = write!(name, " {}", &plan.version[..6]);
            }
            judges.push((ledger, judge, name, plan));
        }
    }
    let judges: Vec<StudiedJudge<'_>> = judges
        .iter()
        .map(|(ledger, judge, name, plan)| StudiedJudge {
            ledger,
            judge: *judge,
            name,
            criterion: plan.judge.criterion,
        })
        .collect();
    let gathered = gather(&ledgers.values().collect::<Vec<_>>(), &judges)?;
    let options = StudyOptions {
        truth: args.truth,
        min_labels: args.min_labels,
        min_alpha: args.min_alpha,
        block: args.block.map(|block| block as usize),
        executable_rule: EXECUTABLE_RULES[usize::from(plans.iter().all(|plan| plan.packages.is_none()))],
        bootstrap: args.bootstrap.resolve(),
    };
    if let Some(path) = &args.errors {
        let ([_], Some(judge)) = (&args.plans[..], judges.last()) else {
            bail!("--errors: expected one PLAN whose judge has labels, found {}", args.plans.len());
        };
        let errors = label_errors(&gathered, judge, &options)?;
        new_file::write_text(path, &(serde_json::to_string_pretty(&errors)? + "\n"))?;
    }
    let study = Study::new(&gathered, &options);
    let tables = study.tables();
    if tables.is_empty() && !args.layout.is_json() {
        bail!(
            "there is nothing to study: expected labels of people (`quarry judge people`), or verdicts \
             (`quarry judge run`) on pairs whose file has labels"
        );
    }
    args.layout.print(&study, || {
        tables.into_iter().fold(Sections::new(), |sections, (title, table)| sections.titled(title, table))
    })
}
