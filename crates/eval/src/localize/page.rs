//! The page of an outcome: for each issue what fixes changed, and what came first.

use maud::{Markup, html};
use quarry_corpus::formats::localize::Issue;
use quarry_metrics::table::Table;

use super::report::ranking;
use super::{EvaluatedIssue, Outcome};
use crate::report::{document, table};

const SHOWN: usize = 10;

/// Maximum characters of an issue that are shown.
const MAX_CHARS: usize = 4_000;

impl Outcome {
    /// One HTML file: tables of the means, then each issue with its gold functions and the first functions of each method.
    pub fn page(&self, title: &str, issues: &[Issue], methods: &[String], tables: &[Table]) -> String {
        let header = html! {
            @for of_level in tables { (table(of_level)) }
        };
        let main = html! {
            @for asked in &self.asked { (section(&issues[asked.issue], asked, methods)) }
        };
        document(title, &header, &main)
    }
}

fn section(issue: &Issue, asked: &EvaluatedIssue, methods: &[String]) -> Markup {
    let gold = &asked.gold[0];
    let rank = |function: &String, found: &[String]| {
        found.iter().position(|entity| entity == function).map_or("-".to_owned(), |at| (at + 1).to_string())
    };
    let mut ranks = Table::new(std::iter::once("function").chain(methods.iter().map(String::as_str)));
    for function in gold {
        let of_methods = asked.answers.iter().map(|answer| rank(function, &answer.found[0]));
        ranks.push(std::iter::once(function.clone()).chain(of_methods));
    }
    let title = issue.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let text: String = issue.text.chars().take(MAX_CHARS).collect();
    html! {
        section {
            h2 { (issue.id) ": " (title) }
            p.note { (issue.repository) ", " (issue.commit) }
            details { summary { "Issue" } pre { (text) } }
            (table(&ranks))
            @for (method, answer) in methods.iter().zip(&asked.answers) {
                @let first = ranking(gold, &answer.found[0]).hits.first().map(|hit| hit.rank);
                details {
                    summary { (method) ": " (first.map_or("none found".to_owned(), |rank| format!("first at {rank}"))) }
                    ol { @for entity in answer.found[0].iter().take(SHOWN) {
                        li { @if gold.contains(entity) { strong { (entity) } } @else { (entity) } }
                    } }
                }
            }
        }
    }
}
