//! Results as a page of markdown.

use super::{DatasetResults, Results};
use std::fmt::Write;

impl Results {
    /// The page, in markdown. It holds nothing that changes from run to run.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = format!("# {}\n", self.title);
        paragraph(&mut page, &self.introduction);
        for dataset in &self.datasets {
            let _ = write!(page, "\n## {}\n", dataset.name);
            paragraph(&mut page, &dataset.description);
            let _ = write!(page, "\n{} queries", dataset.queries);
            if let Some(documents) = dataset.documents {
                let _ = write!(page, ", {documents} documents");
            }
            let _ = writeln!(
                page,
                ". In brackets: {:.0} % bootstrap interval over queries; p: paired bootstrap against {}, two-sided; \
                 {} resamples, seed {}.",
                self.bootstrap.confidence * 100.0,
                dataset.baseline,
                self.bootstrap.resamples,
                self.bootstrap.seed,
            );
            page.push_str(&methods_table(dataset));
            if !dataset.references.is_empty() {
                page.push_str("\nReference points:\n");
                page.push_str(&references_table(dataset));
            }
            if !dataset.parts.is_empty() {
                let _ = write!(page, "\nBy repository, {}:\n", dataset.measures.join(", "));
                page.push_str(&parts_table(dataset));
            }
        }
        page
    }
}

fn paragraph(page: &mut String, text: &str) {
    if !text.trim().is_empty() {
        let _ = write!(page, "\n{}\n", text.trim());
    }
}

fn methods_table(dataset: &DatasetResults) -> String {
    let mut header = vec!["method".to_owned()];
    header.extend(dataset.measures.iter().flat_map(|measure| [measure.clone(), "p".to_owned()]));
    let rows = dataset.methods.iter().map(|method| {
        let mut row = vec![method.method.clone()];
        for measure in &dataset.measures {
            let interval = method.intervals[measure];
            row.push(format!("{:.3} [{:.3}, {:.3}]", method.metrics[measure], interval.low, interval.high));
            row.push(
                method.over_baseline.get(measure).map_or(String::new(), |difference| format_p(difference.p)),
            );
        }
        row
    });
    table(&header, rows)
}

fn references_table(dataset: &DatasetResults) -> String {
    let mut header = vec!["method".to_owned()];
    header.extend(dataset.measures.iter().cloned());
    header.push("source".to_owned());
    let rows = dataset.references.iter().map(|reference| {
        let mut row = vec![reference.name.clone()];
        row.extend(dataset.measures.iter().map(|measure| format_value(reference.values.get(measure))));
        row.push(reference.source.clone());
        row
    });
    table(&header, rows)
}

fn parts_table(dataset: &DatasetResults) -> String {
    let references = || dataset.references.iter().filter(|reference| !reference.parts.is_empty());
    let mut header = vec!["repository".to_owned()];
    header.extend(dataset.methods.iter().map(|method| method.method.clone()));
    header.extend(references().map(|reference| reference.name.clone()));
    let rows = dataset.parts.iter().map(|part| {
        let mut row = vec![part.clone()];
        row.extend(dataset.methods.iter().map(|method| format_value(method.parts.get(part))));
        row.extend(references().map(|reference| format_value(reference.parts.get(part))));
        row
    });
    table(&header, rows)
}

fn format_value(value: Option<&f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.3}"))
}

fn format_p(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

fn table(header: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> =
            cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut table = format!("\n{}|{}\n", line(header), "---|".repeat(header.len()));
    rows.for_each(|row| table.push_str(&line(&row)));
    table
}
