//! `quarry judge export`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use quarry_corpus::dataset::convert::Target;
use quarry_judge::{ExportRequest, ExportSummary};
use quarry_text::counted;

use super::PlanArgs;
use crate::data::GradesArg;
use crate::output;

/// Arguments of `quarry judge export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// The new file or directory
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Format: cosqa-plus, beir, trec-qrels, or any other that `quarry data convert` writes
    #[arg(long, value_name = "FORMAT", default_value = "cosqa-plus")]
    to: String,
    /// Name of the split
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: String,
    /// Write grades instead of labels, if the guideline of the judge has grades
    #[arg(long)]
    graded: bool,
    /// Renumber queries and codes
    #[arg(long)]
    renumber: bool,
    /// Label to use if a query and code have several
    #[arg(long, value_name = "RULE", default_value = "refuse")]
    grades: GradesArg,
}

pub fn run(args: &ExportArgs) -> anyhow::Result<()> {
    let (_, ledger, judge) = args.plan.judged()?;
    let target = Target::named(&args.to).ok_or_else(|| {
        let known: Vec<&str> = Target::names().collect();
        anyhow!("--to {}: expected one of {}", args.to, known.join(", "))
    })?;
    let export = ExportRequest {
        target,
        split: &args.split,
        graded: args.graded,
        renumber: args.renumber,
        grades: args.grades.into(),
    };
    let exported = quarry_judge::export(&ledger, judge, &export, &args.out)?;
    lines(&exported, target).iter().for_each(|line| output::note(line));
    Ok(())
}

fn lines(exported: &ExportSummary, target: Target) -> Vec<String> {
    let ExportSummary { files, generated, unlabeled, negatives, rejected, foreign, ungraded } = exported;
    let mut lines: Vec<String> = files.iter().map(ToString::to_string).collect();
    lines.extend(
        generated.iter().map(|(path, number)| format!("{}: {}", path.display(), counted(*number, "code"))),
    );
    let mut add = |number: u64, what: String| {
        if number > 0 {
            lines.push(format!("{number} {what}"));
        }
    };
    let name = target.name();
    add(*unlabeled, "pairs without a label are left out; `quarry judge status` shows why".to_owned());
    add(*negatives as u64, format!("pairs with label 0 are left out: {name} holds only matches"));
    add(*rejected as u64, "generated codes that neither the judge nor people accept are left out".to_owned());
    let language = target.language().unwrap_or_default();
    add(*foreign as u64, format!("pairs are not in {language}, which readers of {name} assume of all code"));
    add(*ungraded, "labels have no grade and are written as 0 and 1".to_owned());
    lines
}
