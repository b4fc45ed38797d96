//! Results as a page of Markdown.

use super::{DatasetResults, PartResults, Results};
use quarry_metrics::table::{Layout, Sections, Table};
use std::fmt::Write;

pub(crate) const RELIABILITY: &str = "Over the queries with 2, 3, 4 and 5 positives, Cronbach's alpha with the methods as items, \
                                      and the variance of a method, averaged:";

impl Results {
    /// The page in Markdown. It contains nothing that changes from run to run.
    pub fn page(&self) -> String {
        let mut page = format!("# {}\n", self.title);
        paragraph(&mut page, &self.introduction);
        if let Some(training) = self.training_table() {
            write_table(&mut page, "Trained models:", &training);
            paragraph(&mut page, "Evaluation data among their pairs:");
            page.push('\n');
            for statement in self.evaluation_data() {
                let _ = writeln!(page, "- {statement}");
            }
        }
        for dataset in &self.datasets {
            let _ = write!(page, "\n## {}\n", dataset.name);
            paragraph(&mut page, &dataset.description);
            for (measure, table) in dataset.overview() {
                write_table(&mut page, &format!("By part, {measure}:"), &table);
            }
            for part in &dataset.parts {
                self.write_part(&mut page, dataset, part);
            }
            if let Some(figures) = dataset.figures_table() {
                write_table(&mut page, "Derived figures:", &figures);
            }
            if let Some(reliability) = dataset.reliability_table() {
                write_table(&mut page, RELIABILITY, &reliability);
            }
            if !dataset.references.is_empty() {
                write_table(&mut page, "Reference points:", &dataset.references_table());
            }
            if !dataset.discrepancies.is_empty() {
                paragraph(&mut page, "Where papers and released code differ:");
                page.push('\n');
                for (number, sentence) in &dataset.discrepancies {
                    let _ = writeln!(page, "- {number}: {sentence}");
                }
            }
        }
        page
    }

    /// The table of methods of every part, for papers.
    pub fn sections(&self) -> Sections {
        let parts =
            self.datasets.iter().flat_map(|dataset| dataset.parts.iter().map(move |part| (dataset, part)));
        parts.fold(Sections::new(), |sections, (dataset, part)| {
            sections.table(part.methods_table(&dataset.baseline))
        })
    }

    fn write_part(&self, page: &mut String, dataset: &DatasetResults, part: &PartResults) {
        if dataset.parts.len() > 1 {
            let _ = write!(page, "\n### {}\n", part.name);
        }
        let counts = format!("{}. {}", part.counts(), self.table_note(dataset));
        write_table(page, &counts, &part.methods_table(&dataset.baseline));
        let first = part.measures.first().map_or("", String::as_str);
        if let Some(differences) = part.differences_table(&dataset.baseline) {
            write_table(page, &format!("Differences in {first}, query by query:"), &differences);
        }
        if let Some(errors) = part.label_errors_table() {
            write_table(page, DatasetResults::LABEL_ERRORS, &errors);
        }
        if !part.strata.is_empty() {
            write_table(
                page,
                &format!("By {}, {first}:", part.stratum_name),
                &part.strata_table(&dataset.references),
            );
        }
        // With several parts, slices would fill most of the page; the HTML page shows them.
        for slices in part.slices.iter().filter(|_| dataset.parts.len() == 1) {
            write_table(
                page,
                &format!("Queries by {}, {first}:", slices.property),
                &part.slices_table(slices),
            );
        }
    }
}

fn paragraph(page: &mut String, text: &str) {
    if !text.trim().is_empty() {
        let _ = write!(page, "\n{}\n", text.trim());
    }
}

fn write_table(page: &mut String, text: &str, table: &Table) {
    paragraph(page, text);
    let _ = write!(page, "\n{}", table.render(Layout::Markdown));
}
