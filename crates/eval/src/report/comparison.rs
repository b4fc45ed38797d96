//! Two methods query by query, with the code that each ranked first.

use std::collections::BTreeMap;

use maud::{Markup, html};
use quarry_text::counted;

use super::document::{ServedPage, served_document};
use super::html::moved_query;
use crate::plan::{Moved, RankedQuery, Results};

const ON_A_PAGE: usize = 20;
const FORM: &str = "choices";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The largest differences first.
    #[default]
    Differences,
    /// The largest gains of the second method first.
    Gains,
    /// The largest losses of the second method first.
    Losses,
    /// By the ids of the queries.
    Ids,
}

impl Order {
    pub const ALL: [(&str, Self); 4] = [
        ("differences", Self::Differences),
        ("gains", Self::Gains),
        ("losses", Self::Losses),
        ("ids", Self::Ids),
    ];

    fn key(self, difference: f64) -> f64 {
        match self {
            Self::Differences => -difference.abs(),
            Self::Gains => -difference,
            Self::Losses => difference,
            Self::Ids => 0.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Question {
    /// Number of the data set.
    pub dataset: usize,
    pub part: usize,
    pub methods: [usize; 2],
    pub order: Order,
    /// Words that the text of a query must contain, in any case; empty for all queries.
    pub words: String,
    /// Number of the page, from 0.
    pub page: usize,
}

/// The queries that are shown of all, and how many match.
fn shown<'a>(
    question: &Question,
    values: [&[f64]; 2],
    queries: &'a BTreeMap<String, RankedQuery>,
) -> (Vec<(usize, &'a str)>, usize) {
    let words = question.words.to_lowercase();
    let matching = queries.iter().enumerate();
    let matching = matching.filter(|(_, (_, query))| query.text.to_lowercase().contains(&words));
    let mut found: Vec<(usize, &str)> = matching.map(|(position, (id, _))| (position, id.as_str())).collect();
    let difference = |position: usize| values[1][position] - values[0][position];
    let key = |position: &usize| question.order.key(difference(*position));
    // Stable: equal ones stay in the order of their ids.
    found.sort_by(|(a, _), (b, _)| key(a).total_cmp(&key(b)));
    let n = found.len();
    (found.into_iter().skip(question.page.saturating_mul(ON_A_PAGE)).take(ON_A_PAGE).collect(), n)
}

/// The page of a comparison, whose queries `queries` reads by the number of the method; it is at `address`. `None` if
/// the part or method does not exist.
///
/// # Errors
/// When the queries cannot be read.
pub fn comparison<E>(
    results: &Results,
    question: &Question,
    queries: impl Fn(usize) -> Result<Option<BTreeMap<String, RankedQuery>>, E>,
    (address, links): (&str, &[(String, String)]),
) -> Result<Option<ServedPage>, E> {
    let found = results.datasets.get(question.dataset);
    let Some((dataset, part)) = found.and_then(|dataset| Some((dataset, dataset.parts.get(question.part)?)))
    else {
        return Ok(None);
    };
    let [Some(before), Some(after)] = question.methods.map(|number| part.methods.get(number)) else {
        return Ok(None);
    };
    let measure = part.measures.first().map_or("", String::as_str);
    let both = [queries(question.methods[0])?, queries(question.methods[1])?];
    let content = match &both {
        [Some(of_before), Some(of_after)] => {
            let values = [before.values.as_slice(), after.values.as_slice()];
            let (shown, n) = shown(question, values, of_before);
            let pairs = || values[0].iter().zip(values[1]);
            let [wins, losses] =
                [pairs().filter(|(a, b)| b > a).count(), pairs().filter(|(a, b)| b < a).count()];
            let moved = shown.iter().filter_map(|(position, id)| {
                Some(Moved {
                    text: of_before.get(*id)?.text.clone(),
                    baseline: before.method.clone(),
                    method: after.method.clone(),
                    before: values[0][*position],
                    after: values[1][*position],
                    first_before: of_before.get(*id)?.first.clone(),
                    first_after: of_after.get(*id)?.first.clone(),
                })
            });
            let moved: Vec<Moved> = moved.collect();
            html! {
                p role="status" {
                    (measure) ": " (wins) " better, " (losses) " worse, " (before.values.len() - wins - losses) " even. "
                    (counted(n, "query")) " shown"
                    @if n > ON_A_PAGE { ", page " (question.page + 1) " of " (n.div_ceil(ON_A_PAGE)) }
                    "."
                }
                @for moved in &moved { (moved_query(moved, &html! { h2 { (moved.text) } })) }
                (pages(question, n))
            }
        }
        _ => html! {
            p role="alert" {
                "The queries of these methods are not stored with the results; run the plan again."
            }
        },
    };
    let header = html! {
        p.note { (dataset.name) @if dataset.parts.len() > 1 { ", " (part.name) } }
        (form(question, &part.methods.iter().map(|method| method.method.as_str()).collect::<Vec<_>>(), address))
    };
    let title = format!("{} and {}, query by query", before.method, after.method);
    Ok(Some(served_document(&title, links, &header, &content)))
}

fn form(question: &Question, methods: &[&str], address: &str) -> Markup {
    let choice = |name: &str, label: &str, chosen: usize| {
        html! {
            label { (label) " "
                select name=(name) {
                    @for (number, method) in methods.iter().enumerate() {
                        option value=(number) selected[number == chosen] { (method) }
                    }
                }
            }
        }
    };
    html! {
        form #(FORM) .choices method="get" action=(address) {
            input type="hidden" name="dataset" value=(question.dataset);
            input type="hidden" name="part" value=(question.part);
            (choice("a", "Baseline", question.methods[0]))
            (choice("b", "Compared with it", question.methods[1]))
            label { "Order "
                select name="order" {
                    @for (name, order) in Order::ALL { option value=(name) selected[order == question.order] { (name) } }
                }
            }
            label { "Queries with " input type="search" name="q" value=(question.words) maxlength="200"; }
            button type="submit" { "Show" }
        }
    }
}

/// Buttons of the form that lead to the pages before and after.
fn pages(question: &Question, n: usize) -> Markup {
    let button = |page: usize, text: &str| {
        html! { button type="submit" form=(FORM) name="page" value=(page) { (text) } }
    };
    html! {
        @if n > ON_A_PAGE {
            p {
                @if question.page > 0 { (button(question.page - 1, "Previous")) " " }
                @if (question.page + 1).saturating_mul(ON_A_PAGE) < n { (button(question.page + 1, "Next")) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FirstDocument;

    fn queries(texts: &[String]) -> BTreeMap<String, RankedQuery> {
        let first = || FirstDocument { document: "d".into(), relevant: false, text: "code".into() };
        let query = |text: &String| RankedQuery {
            text: text.clone(),
            properties: BTreeMap::new(),
            first: first(),
            judged: Vec::new(),
        };
        texts.iter().enumerate().map(|(n, text)| (format!("q{n:02}"), query(text))).collect()
    }

    #[test]
    fn queries_are_ordered_filtered_and_split_into_pages() {
        let texts: Vec<String> = (0..50).map(|n| format!("Query {n}")).collect();
        let queries = queries(&texts);
        let before = [0.5; 50];
        let mut after = [0.5; 50];
        (after[7], after[30], after[41]) = (1.0, 0.2, 0.6);
        let ids = |question: &Question| -> Vec<String> {
            let (found, _) = shown(question, [&before, &after], &queries);
            found.into_iter().map(|(_, id)| id.to_owned()).collect()
        };
        let ids_by = |order: Order| ids(&Question { order, ..Question::default() });
        assert_eq!(ids_by(Order::Differences)[..4], ["q07", "q30", "q41", "q00"]);
        assert_eq!(ids_by(Order::Gains)[..3], ["q07", "q41", "q00"]);
        assert_eq!(ids_by(Order::Losses)[..2], ["q30", "q00"]);
        assert_eq!(ids_by(Order::Ids)[..3], ["q00", "q01", "q02"]);
        let last = Question { order: Order::Ids, page: 2, ..Question::default() };
        assert_eq!(ids(&last), (40..50).map(|n| format!("q{n}")).collect::<Vec<_>>());
        assert!(ids(&Question { page: usize::MAX, ..last.clone() }).is_empty());
        let worded = Question { words: "QUERY 4".into(), order: Order::Ids, ..Question::default() };
        let (found, n) = shown(&worded, [&before, &after], &queries);
        assert_eq!((found.len(), n, found[0].1), (11, 11, "q04"));
    }
}
