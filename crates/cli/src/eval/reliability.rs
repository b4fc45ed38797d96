//! `quarry eval protocol --reliability`: how reliable the measures of CoSQA+ are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use quarry_eval::protocol::reliability as reliability_of;
use quarry_metrics::table::{Sections, Table};
use serde::Deserialize;

use super::arguments::LayoutArgs;

/// The part of a printed report that is read again.
#[derive(Deserialize)]
struct PrintedReport {
    parts: Vec<PrintedPart>,
}

#[derive(Deserialize)]
struct PrintedPart {
    name: String,
    metrics: BTreeMap<String, f64>,
}

pub fn reliability(files: &[PathBuf], layout: &LayoutArgs) -> anyhow::Result<()> {
    let read = |path: &PathBuf| -> anyhow::Result<BTreeMap<String, BTreeMap<String, f64>>> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{}: cannot be read: expected a file there", path.display()))?;
        let printed: PrintedReport = serde_json::from_str(&text).with_context(|| {
            format!("{}: expected the output of `quarry eval protocol NAME --json`", path.display())
        })?;
        Ok(printed.parts.into_iter().map(|part| (part.name, part.metrics)).collect())
    };
    if let [only] = files {
        bail!("expected a file for each of two methods or more, found only {}", only.display());
    }
    let figures = reliability_of(&files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?);
    if figures.is_empty() {
        bail!(
            "expected parts by number of positives (2 positives, 3 positives, ...) in all files, found too few; print \
             them with `quarry eval protocol cosqa-plus-v1 --json`"
        );
    }
    layout.print(&figures, || {
        let mut table = Table::new(["figure", "value"]);
        for (name, value) in &figures {
            table.push([name.clone(), format!("{value:.4}")]);
        }
        Sections::new().table(table)
    })
}
