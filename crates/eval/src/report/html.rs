//! The results of a plan as one self-contained HTML file.

use super::chart::{self, Bar, Series};
use super::document::{self, ServedPage, table};
use crate::plan::{DatasetResults, Moved, PartResults, RELIABILITY, Results};
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Event, Parser};

pub fn page(results: &Results) -> String {
    let (header, main) = parts(results, None);
    document::document(&results.title, &header, &main)
}

/// The page as a server sends it that compares methods query by query at `comparison`, below links to other pages.
pub fn served_page(results: &Results, comparison: &str, links: &[(String, String)]) -> ServedPage {
    let (header, main) = parts(results, Some(comparison));
    document::served_document(&results.title, links, &header, &main)
}

/// A page of links, each with its name.
pub fn served_list(title: &str, links: &[(String, String)]) -> ServedPage {
    let list = html! { ul { @for (name, address) in links { li { a href=(address) { (name) } } } } };
    document::served_document(title, &[], &html! {}, &list)
}

fn parts(results: &Results, comparison: Option<&str>) -> (Markup, Markup) {
    let header = html! {
        @if let Some(conclusion) = results.conclusion() { p { strong { (conclusion) } } }
        (markdown(&results.introduction))
        nav aria-label="Data sets" { @for (index, dataset) in results.datasets.iter().enumerate() {
            a href=(format!("#dataset-{index}")) { (dataset.name) }
        } }
    };
    let main = html! {
        @if let Some(training) = results.training_table() {
            section {
                h2 { "Trained models" }
                (table(&training))
                @for statement in results.evaluation_data() { p { "Evaluation data among the pairs of " (statement) } }
            }
        }
        @for (index, dataset) in results.datasets.iter().enumerate() { (section(results, dataset, index, comparison)) }
    };
    (header, main)
}

fn section(results: &Results, dataset: &DatasetResults, index: usize, comparison: Option<&str>) -> Markup {
    html! {
        section id=(format!("dataset-{index}")) {
            h2 { (dataset.name) }
            (markdown(&dataset.description))
            @for (measure, overview) in dataset.overview() {
                p.note { (measure) " by part" }
                (table(&overview))
            }
            @for (number, part) in dataset.parts.iter().enumerate() {
                @let content = html! {
                    (part_section(results, dataset, part))
                    @if let Some(address) = comparison.filter(|_| !part.moved.is_empty()) {
                        p { a href=(format!("{address}?dataset={index}&part={number}")) { "Compare query by query" } }
                    }
                };
                @if dataset.parts.len() > 1 {
                    details { summary { (part.name) } (content) }
                } @else {
                    (content)
                }
            }
            @if let Some(figures) = dataset.figures_table() {
                h3 { "Derived figures" }
                (table(&figures))
            }
            @if let Some(reliability) = dataset.reliability_table() {
                h3 { "Reliability of the measures" }
                p { (RELIABILITY) }
                (table(&reliability))
            }
            @if !dataset.references.is_empty() {
                details open { summary { "Reference points" } (table(&dataset.references_table())) }
            }
            @if !dataset.discrepancies.is_empty() {
                details { summary { "Where papers and released code differ" }
                    dl { @for (number, sentence) in &dataset.discrepancies { dt { (number) } dd { (sentence) } } }
                }
            }
        }
    }
}

fn part_section(results: &Results, dataset: &DatasetResults, part: &PartResults) -> Markup {
    html! {
        p.note { (part.counts()) ". " (results.table_note(dataset)) }
        (table(&part.methods_table(&dataset.baseline)))
        @if let Some(differences) = part.differences_table(&dataset.baseline) {
            p.note { "Differences in " (part.measures.first().map_or("", String::as_str)) ", query by query" }
            (table(&differences))
        }
        @if let Some(errors) = part.label_errors_table() {
            p.note { (DatasetResults::LABEL_ERRORS) }
            (table(&errors))
        }
        (charts(dataset, part))
        @if !part.strata.is_empty() {
            details { summary { "By " (part.stratum_name) } (table(&part.strata_table(&dataset.references))) }
        }
        @for slices in &part.slices {
            details { summary { "By " (slices.property) } (table(&part.slices_table(slices))) }
        }
        @if !part.moved.is_empty() {
            details { summary { "Queries that differ most" } @for moved in &part.moved { (moved_query(moved, &html! { h4 { (moved.text) } })) } }
        }
    }
}

fn charts(dataset: &DatasetResults, part: &PartResults) -> Markup {
    let Some(measure) = part.measures.first() else { return html! {} };
    let bars: Vec<Bar> = part
        .methods
        .iter()
        .filter_map(|method| {
            let interval = method.intervals.get(measure).map(|interval| (interval.low, interval.high));
            Some(Bar { label: method.method.clone(), value: *method.metrics.get(measure)?, interval })
        })
        .collect();
    let baseline = part.methods.iter().find(|method| method.method == dataset.baseline);
    let others = part.methods.iter().filter(|method| method.method != dataset.baseline);
    let positives = part.slices.iter().find(|slices| slices.property == "positives");
    let reliabilities: Vec<Series> = part
        .methods
        .iter()
        .filter(|method| !method.reliability.is_empty())
        .map(|method| Series {
            label: method.method.clone(),
            points: method
                .reliability
                .iter()
                .map(|bin| (bin.mean_probability, bin.share_held, bin.count))
                .collect(),
        })
        .collect();
    html! {
        figure { (chart::bars(&format!("{measure} of each method"), &bars)) figcaption { (measure) ", with its interval" } }
        div.figures {
            @if let Some(baseline) = baseline {
                @for other in others {
                    @if other.values.len() == baseline.values.len() && !other.values.is_empty() {
                        @let pairs: Vec<(f64, f64)> = baseline.values.iter().copied().zip(other.values.iter().copied()).collect();
                        @let wins = pairs.iter().filter(|(a, b)| b > a).count();
                        @let losses = pairs.iter().filter(|(a, b)| b < a).count();
                        figure {
                            (chart::scatter(&baseline.method, &other.method, &pairs))
                            figcaption { (measure) " by query: " (wins) " better, " (losses) " worse, " (pairs.len() - wins - losses) " even" }
                        }
                    }
                }
            }
            @if let Some(positives) = positives.filter(|slices| slices.values.len() > 2) {
                @let curve = |method: usize| -> Vec<(f64, f64, usize)> {
                    positives.values.iter().filter_map(|slice| Some((leading_number(&slice.value)?, slice.means[method], slice.queries))).collect()
                };
                figure {
                    @let lines: Vec<Series> = part.methods.iter().enumerate().map(|(index, method)| Series { label: method.method.clone(), points: curve(index) }).collect();
                    (chart::curves(&format!("{measure} by number of relevant documents"), "relevant documents of the query", measure, &lines))
                    figcaption { (measure) " by number of relevant documents" }
                }
            }
            @if !reliabilities.is_empty() {
                figure {
                    (chart::reliability("How often a predicted match is correct, by probability", &reliabilities))
                    figcaption { "Reliability of the scores as probabilities" }
                }
            }
        }
    }
}

/// The number at the beginning of a slice's name, such as 6 in `6-10`.
fn leading_number(text: &str) -> Option<f64> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The first results of two methods for a query, below a heading.
pub(super) fn moved_query(moved: &Moved, heading: &Markup) -> Markup {
    html! {
        article.moved {
            (heading)
            p.note { (moved.baseline) ": " (format!("{:.3}", moved.before)) " → " (moved.method) ": " (format!("{:.3}", moved.after)) }
            div.sides {
                @for (name, answer) in [(&moved.baseline, &moved.first_before), (&moved.method, &moved.first_after)] {
                    div {
                        p.note { (name) " puts first" @if answer.relevant { " (relevant)" } }
                        pre tabindex="0" { code { (answer.text) } }
                    }
                }
            }
        }
    }
}

/// Markdown as HTML; HTML within it is escaped.
fn markdown(text: &str) -> Markup {
    let events = Parser::new(text).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        other => other,
    });
    let mut page = String::new();
    pulldown_cmark::html::push_html(&mut page, events);
    html! { (PreEscaped(page)) }
}
