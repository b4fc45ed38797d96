//! The report as a page: bars by source of queries, and the table.

use maud::html;

use super::report::{SelfBenchmarkReport, SourceReport, VariantReport};
use crate::report::{Bar, chart, document, table};

impl SelfBenchmarkReport {
    /// The report on `repository` as one HTML file; `described` is about each source of queries, in their order, and
    /// `notes` about all.
    pub fn page(&self, repository: &str, described: &[String], notes: &[String]) -> String {
        let header = html! {
            p { (self.advice.text()) }
            @for note in notes { p.note { (note) } }
        };
        let main = html! {
            @for (report, described) in self.sources.iter().zip(described) {
                section {
                    h2 { (report.source) }
                    p.note { (described) }
                    figure {
                        (chart::bars(&format!("NDCG@10 by method, {}", report.source), &bars(report)))
                        figcaption { "NDCG@10, with its 95 % bootstrap interval" }
                    }
                    p { (report.best_and_next()) }
                }
            }
            section {
                h2 { "All methods" }
                (table(&self.table()))
                p.note { (self.legend()) }
            }
        };
        document(&format!("Search methods on {repository}"), &header, &main)
    }
}

fn bars(report: &SourceReport) -> Vec<Bar> {
    let bar = |variant: &VariantReport| Bar {
        label: variant.name.clone(),
        value: variant.ndcg,
        interval: Some((variant.interval.low, variant.interval.high)),
    };
    report.variants.iter().map(bar).collect()
}
