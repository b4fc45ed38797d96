//! The data card: what a data set is made of, how, and what is known of its limits.

mod markdown;
mod page;

use std::collections::BTreeMap;

use quarry_corpus::dataset::split::QueryGrouping;
use quarry_eval::protocol::discrepancy;
use quarry_metrics::table::Table;

pub(crate) use markdown::markdown;
pub(crate) use page::page;

use crate::export::leaks::STEP as LEAKS;
use crate::harmless::harmless;
use crate::labels;
use crate::labels::calibration;
use crate::labels::people::{self, Removal, SurveySummary};
use crate::plan::{Documentation, LOCALIZE, LabelKind, LabelPlan, LeakAction, Plan, QueryKind, Units};
use crate::queries::authoring::StepCost;
use crate::queries::categories;
use crate::sources::EXCLUSIONS;
use crate::sources::filter::SNIPPETS;
use crate::sources::pool::{Fork, Removed, Shares, UNKNOWN_LICENSE};
use crate::step::Step;

#[derive(Debug)]
pub(crate) struct Card {
    title: String,
    introduction: Vec<Block>,
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    heading: &'static str,
    blocks: Vec<Block>,
}

#[derive(Debug)]
enum Block {
    /// A paragraph, with names of commands between backticks.
    Text(String),
    Command(String),
    Numbered(Vec<String>),
    Bullets(Vec<String>),
    Table(Table),
    /// The content of the table beside it, for pages.
    Chart(&'static str, Vec<(String, u64)>),
}

pub(crate) struct Facts<'f> {
    pub(crate) plan: &'f Plan,
    pub(crate) steps: &'f [Step],
    pub(crate) removed: &'f [Removed],
    /// The first queries that filters removed, by the name of their source.
    pub(crate) removed_queries: &'f BTreeMap<String, BTreeMap<String, Vec<String>>>,
    pub(crate) shares: &'f Shares,
    /// Labels of annotators, and the pairs that were removed.
    pub(crate) surveys: &'f [SurveySummary],
    /// Overlap of the training parts with public evaluation data.
    pub(crate) evaluation: &'f [String],
}

pub(crate) fn card(facts: &Facts<'_>) -> Card {
    let Facts { plan, steps, shares, .. } = *facts;
    let file = harmless(&plan.path.file_name().unwrap_or_default().to_string_lossy());
    let section = |heading, blocks| Section { heading, blocks };
    // Of a plan that only joins issues with histories.
    let is_left_out = |section: &Section| {
        section.blocks.is_empty()
            || plan.is_of_fixes() && matches!(section.heading, "Queries" | "Candidates" | "Labels" | "Splits")
    };
    let mut sections = vec![
        section("Contents", facts.contents()),
        section("Sources", facts.sources()),
        section("Filters", facts.filters()),
        section("Queries", facts.queries()),
        section("Candidates", facts.candidates()),
        section("Labels", facts.labels()),
        section("Splits", facts.splits()),
        section("Leaks", facts.leaks()),
        section("Exports", facts.exports()),
        section("Cost", facts.cost()),
        section(
            "Known limits",
            vec![Block::Bullets(limits(plan, shares, facts.count("labels", "unlabelled"), facts.evaluation))],
        ),
        section(
            "Steps",
            vec![table(
                ["step", "directory"],
                steps.iter().map(|step| [step.name.clone(), step.key().as_str().to_owned()]),
            )],
        ),
    ];
    sections.retain(|section| !is_left_out(section));
    Card {
        title: plan.title.clone(),
        introduction: vec![
            text("Built by Quarry with this command:"),
            Block::Command(format!("quarry data build {file}")),
            text("The same plan, sources and version give the same files, byte for byte."),
        ],
        sections,
    }
}

impl Facts<'_> {
    fn find(&self, kind: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name.split(' ').next() == Some(kind))
    }

    fn named(&self, kind: &str, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == format!("{kind} {name}"))
    }

    fn count(&self, step: &str, name: &str) -> u64 {
        self.find(step).and_then(|step| step.counts.get(name)).copied().unwrap_or(0)
    }

    fn pool(&self) -> &'static str {
        if self.find(categories::STEP).is_some() { categories::STEP } else { "pool" }
    }

    fn contents(&self) -> Vec<Block> {
        let rows = [
            ("codes", self.pool(), "kept"),
            ("queries", "merge", "queries"),
            ("candidates", "candidates", "candidates"),
            ("pairs that answer", "labels", "positive"),
            ("pairs that do not", "labels", "negative"),
            ("pairs without a label, left out", "labels", "unlabelled"),
            ("queries with an answer", "labels", "queries with a positive"),
        ];
        let rows = rows.into_iter().filter(|(_, step, _)| self.find(step).is_some());
        let rows = rows.map(|(what, step, name)| [what.to_owned(), self.count(step, name).to_string()]);
        vec![table(["what", "number"], rows)]
    }

    fn sources(&self) -> Vec<Block> {
        let rows = self.plan.sources.iter().map(|source| {
            let step = self.named("source", &source.name);
            let number = |name: &str| {
                step.and_then(|step| step.counts.get(name)).map_or_else(String::new, u64::to_string)
            };
            let commit = step.and_then(|step| step.parameters.get("commit")?.as_str()).unwrap_or("unknown");
            let license = source.license.clone().unwrap_or_else(|| "detected".to_owned());
            [source.name.clone(), commit.to_owned(), license, number("files"), number("functions")]
        });
        let mut blocks = vec![table(["source", "commit", "license", "files", "functions"], rows)];
        let excluded: Vec<[String; 3]> =
            self.plan.sources.iter().flat_map(|source| self.excluded_of(&source.name)).collect();
        if !excluded.is_empty() {
            blocks.push(table(["source", "excluded", "number"], excluded));
        }
        let Shares { languages, licenses, sources, forks, .. } = self.shares;
        for (name, title, shares) in [
            ("language", "Codes kept, by language", languages),
            ("license", "Codes kept, by license", licenses),
            ("source", "Codes kept, by source", sources),
        ] {
            blocks.push(Block::Chart(title, sorted_by_count(shares)));
            blocks.push(table([name, "codes kept"], pairs(shares)));
        }
        if !forks.is_empty() {
            blocks.push(text(
                "Sources most of whose code another source also contains, with what was found in both:",
            ));
            let rows = forks.iter().map(|Fork { source, of, shared, codes }| {
                [source.clone(), of.clone(), shared.to_string(), codes.to_string()]
            });
            blocks.push(table(["fork", "of", "codes in both", "codes"], rows));
        }
        blocks
    }

    /// Unread files of a source, and its codes that filters removed.
    fn excluded_of<'f>(&'f self, source: &'f str) -> impl Iterator<Item = [String; 3]> + 'f {
        let step = self.named("source", source);
        let not_read = EXCLUSIONS.iter().filter_map(move |name| {
            Some(((*name).to_owned(), *step?.counts.get(*name).filter(|count| **count > 0)?))
        });
        let removed = self.removed.iter().filter_map(move |removed| {
            Some((format!("codes removed by {}", removed.filter), *removed.sources.get(source)?))
        });
        not_read.chain(removed).map(move |(what, count)| [source.to_owned(), what, count.to_string()])
    }

    fn filters(&self) -> Vec<Block> {
        let documentation = match self.plan.pool.documentation {
            Documentation::Removed => "Documentation is removed from the codes.",
            Documentation::Kept => "Codes keep their documentation.",
        };
        let mut blocks = vec![Block::Text(format!("{documentation} Filters are applied in this order."))];
        let bars = self.removed.iter().map(|removed| (removed.filter.clone(), removed.count));
        let bars = bars.chain([("kept".to_owned(), self.count(self.pool(), "kept"))]).collect();
        blocks.push(Block::Chart("Codes that filters removed, and codes kept", bars));
        let rows = self.removed.iter().map(|Removed { filter, about, count, examples, .. }| {
            [filter.clone(), about.clone(), count.to_string(), examples.join("; ")]
        });
        blocks.push(table(["filter", "keeps", "removed", "such as"], rows));
        let kinds: Vec<[String; 2]> = self.find("pool").map_or_else(Vec::new, |step| {
            let kinds = step.counts.iter().filter_map(|(name, count)| {
                Some([name.strip_prefix("snippets removed: ")?.to_owned(), count.to_string()])
            });
            kinds.collect()
        });
        if !kinds.is_empty() {
            blocks.push(table(["snippets that were", "removed"], kinds));
        }
        if let (Some(step), Some(plan)) = (self.find(categories::STEP), &self.plan.categories) {
            let by = match plan.review {
                Some(_) => "People decided the category of each code, and which codes to keep".to_owned(),
                None => format!(
                    "A model decided the category of each code, after {} examples of each; nobody checked it",
                    plan.examples
                ),
            };
            blocks.push(Block::Text(format!("{by}.")));
            let counts = step.counts.iter().filter(|(name, _)| categories::is_of_codes(name));
            let rows = counts.map(|(name, count)| [name.clone(), count.to_string()]);
            blocks.push(table(["category", "codes"], rows));
        }
        if self.plan.pool.mask {
            blocks.push(text(
                "Secrets and personal data that the rules recognize are masked, in code and documentation.",
            ));
            match self.shares.masked.is_empty() {
                true => blocks.push(text("There was nothing to mask.")),
                false => blocks.push(table(["masked", "number"], pairs(&self.shares.masked))),
            }
        }
        blocks
    }

    fn queries(&self) -> Vec<Block> {
        let rows: Vec<[String; 4]> = (self.plan.queries.iter())
            .map(|query| {
                let counts = self.named("queries", &query.name).map(|step| &step.counts);
                let number = |name: &str| counts.and_then(|counts| counts.get(name)).copied().unwrap_or(0);
                let kind = match query.kind {
                    QueryKind::Docstrings => "documentation of the codes",
                    QueryKind::Commits => "messages of commits, for the functions that they changed",
                    QueryKind::Issues => "titles of issues",
                    QueryKind::File => "a file of queries",
                    QueryKind::Written => "written by a model for the codes, validated in reverse",
                };
                [query.name.clone(), kind.to_owned(), number("read").to_string(), number("kept").to_string()]
            })
            .collect();
        let mut blocks = vec![table(["source", "made of", "read", "kept"], rows)];
        let rules: Vec<[String; 4]> = (self.plan.queries.iter())
            .filter_map(|query| self.named("queries", &query.name))
            .flat_map(|step| {
                let source = step.name.strip_prefix("queries ").unwrap_or_default();
                let examples = self.removed_queries.get(source);
                step.counts.iter().filter_map(move |(name, count)| {
                    let filter = name.strip_prefix("removed by ")?;
                    let examples = examples.and_then(|examples| examples.get(filter));
                    let examples = examples.map_or_else(String::new, |examples| examples.join("; "));
                    Some([source.to_owned(), filter.to_owned(), count.to_string(), examples])
                })
            })
            .collect();
        if !rules.is_empty() {
            blocks.push(table(["source", "rule", "queries removed", "such as"], rules));
        }
        if let Some(step) = self.find(calibration::STEP) {
            let which = step.counts.get("unpopular below").map_or_else(String::new, |threshold| {
                format!(" that are called fewer than {threshold} times in all sources")
            });
            blocks.push(Block::Text(format!(
                "The model was shown the documentation of functions of other packages{which}; what it knows was \
                 measured on {} of them.",
                self.count(calibration::STEP, "functions")
            )));
        }
        blocks
    }

    fn candidates(&self) -> Vec<Block> {
        let candidates = &self.plan.candidates;
        vec![Block::Text(format!(
            "The {} best codes of each query by the mean cosine of {}, and as many of each of {}; codes with equal texts are \
             one.",
            candidates.k,
            listed(&candidates.encoders),
            listed(&candidates.union),
        ))]
    }

    fn labels(&self) -> Vec<Block> {
        let about = |label: &LabelPlan| match label.kind {
            LabelKind::Pairing => "the code that a query was made from answers it",
            LabelKind::File => "labels made elsewhere, matched by the texts of query and code",
            LabelKind::Judge => "a judge of `quarry judge`; its evidence is in the ledger beside this card",
            LabelKind::People => "people, by majority; their answers are in the ledger beside this card",
            LabelKind::Negative => {
                "pairs that still have no label count as not answering; nobody looked at them"
            }
        };
        let counts = self.find("labels").map(|step| step.counts.clone()).unwrap_or_default();
        let by: BTreeMap<String, u64> = (counts.iter())
            .filter(|(name, _)| name.contains(" by "))
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        let mut blocks = vec![
            Block::Numbered(self.plan.labels.iter().map(|label| about(label).to_owned()).collect()),
            Block::Chart("Pairs, by label and who gave it", sorted_by_count(&by)),
            table(["label", "pairs"], pairs(&by)),
        ];
        let agreement = labels::agreement(&counts);
        if self.plan.labels.iter().any(|label| label.generate) {
            let written = labels::reviewed(&counts).map(|(said, count)| [said.to_owned(), count.to_string()]);
            blocks.push(text(
                "A judge's model wrote code for queries that no candidate answers. People's word on it counts before the \
                 judge's.",
            ));
            blocks.push(table(["generated code", "number"], written));
        }
        blocks.extend(self.surveys.iter().flat_map(survey));
        if agreement.is_empty() && self.surveys.is_empty() {
            blocks.push(text("No pair was labeled by two of them, so their agreement is unknown."));
        } else if !agreement.is_empty() {
            blocks.push(text("If two of them label a pair, the first one's label counts. Agreement:"));
            let rows = agreement.into_iter().map(|(who, [same, other])| {
                let share = 100.0 * same as f64 / (same + other).max(1) as f64;
                [who, (same + other).to_string(), same.to_string(), format!("{share:.1}")]
            });
            blocks.push(table(["who", "pairs", "the same label", "%"], rows));
        }
        blocks
    }

    fn splits(&self) -> Vec<Block> {
        // Leaks are not exported.
        let step = if self.find(LEAKS).is_some() { LEAKS } else { "splits" };
        let count = |what: &str, part: &str| self.count(step, &format!("{what} in {part}"));
        let parts = || self.plan.splits.parts.keys();
        let rows = parts()
            .map(|part| [part.clone(), count("queries", part).to_string(), count("pairs", part).to_string()]);
        vec![
            Block::Text(format!(
                "{}, stratified by the number of answers, with the seed {}.",
                match self.plan.splits.query_grouping() {
                    QueryGrouping::Related =>
                        "By groups of queries that are nearly equal or have an answer in common, as far as a comparison of their \
                         texts found them",
                    QueryGrouping::Equal => "By query",
                },
                self.plan.seed
            )),
            Block::Chart(
                "Pairs, by part",
                parts().map(|part| (part.clone(), count("pairs", part))).collect(),
            ),
            table(["part", "queries", "pairs"], rows),
        ]
    }

    fn leaks(&self) -> Vec<Block> {
        let (Some(plan), Some(step)) = (&self.plan.leaks, self.find(LEAKS)) else { return Vec::new() };
        let action = match plan.action {
            LeakAction::Remove => "removed from the larger part",
            LeakAction::Count => "counted and kept",
            LeakAction::Refuse => "refused",
        };
        let near = match plan.near {
            Some(near) => format!("equal texts, and codes with a similarity of at least {near}"),
            None => "equal texts".to_owned(),
        };
        let against: Vec<String> =
            plan.against.iter().map(|path| harmless(&path.display().to_string())).collect();
        let against =
            if against.is_empty() { String::new() } else { format!(", and with {}", against.join(", ")) };
        let rows = step.counts.iter().filter(|(name, _)| !name.contains(" in "));
        let rows: Vec<[String; 2]> = rows.map(|(name, count)| [name.clone(), count.to_string()]).collect();
        let mut blocks = vec![Block::Text(format!(
            "The parts were compared with each other{against}: {near}. What they share is {action}; `leaks.jsonl` in the directory \
             of the step lists it."
        ))];
        blocks.push(if rows.is_empty() {
            text("Nothing was found.")
        } else {
            table(["what", "number"], rows)
        });
        blocks
    }

    /// Cost of models by step; empty if none was asked.
    fn cost(&self) -> Vec<Block> {
        let costs: Vec<(&str, StepCost)> = (self.steps.iter())
            .filter_map(|step| Some((step.name.as_str(), StepCost::from_counts(step)?)))
            .collect();
        if costs.is_empty() {
            return Vec::new();
        }
        let total = StepCost::sum(costs.iter().map(|(_, cost)| *cost));
        let rows = costs.into_iter().chain([("all", total)]).map(|(step, cost)| {
            let StepCost { answers, tokens, dollars } = cost;
            let dollars = dollars.map_or_else(|| "unknown".to_owned(), |dollars| format!("{dollars:.6}"));
            [step.to_owned(), answers.to_string(), tokens.to_string(), dollars]
        });
        vec![
            text(
                "Answers of models, by the tokens that servers counted and the prices of the plan. Attempts without an \
                 answer are not in it; `quarry judge status` on the plan shows what they may have cost.",
            ),
            table(["step", "answers", "tokens", "dollars"], rows),
        ]
    }

    fn exports(&self) -> Vec<Block> {
        let rows = (self.steps.iter())
            .filter_map(|step| Some((step.name.strip_prefix("export ")?, step)))
            .flat_map(|(format, step)| {
                (step.counts.iter())
                    .map(move |(file, count)| [format.to_owned(), file.clone(), count.to_string()])
            });
        vec![table(["format", "file", "records"], rows)]
    }
}

/// Labels of annotators, and the pairs that they disagreed on.
fn survey(survey: &SurveySummary) -> Vec<Block> {
    let SurveySummary { guideline, people, pairs, minimum, minimum_alpha, alpha, removed, undecided, .. } =
        survey;
    let shown =
        |alpha: Option<f64>| alpha.map_or_else(|| "unknown".to_owned(), |alpha| format!("{alpha:.3}"));
    let mut text = format!(
        "People labeled {pairs} pairs by the guideline {guideline}: {}, at least {minimum} for each pair. Krippendorff's α \
         of their labels: {}",
        listed(people),
        shown(alpha[0])
    );
    if let Some(minimum) = minimum_alpha {
        text += &format!(
            "; {} pairs with an α of their own below {minimum} are removed, and of the others it is {}. \
             `{}` in the directory of the step `labels` lists them",
            removed.len(),
            shown(alpha[1]),
            people::REMOVED
        );
    }
    if *undecided > 0 {
        text += &format!(
            ". To {undecided} of the pairs they gave no label by majority; the next kind of labels applies to these, or \
             they are not exported"
        );
    }
    let mut blocks = vec![Block::Text(text + ".")];
    if !removed.is_empty() {
        let rows = removed.iter().map(|Removal { pair, query, alpha, labels }| {
            [pair.clone(), query.clone(), labels.clone(), format!("{alpha:.3}")]
        });
        blocks.push(table(["removed pair", "query", "what people said", "α"], rows));
    }
    blocks
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Block {
    let mut table = Table::new(header);
    rows.into_iter().for_each(|row| table.push(row.map(|cell| harmless(&cell))));
    Block::Table(table)
}

fn pairs(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = [String; 2]> {
    counts.iter().map(|(name, count)| [name.clone(), count.to_string()])
}

/// The bars of a chart; of equal numbers in the order of names.
fn sorted_by_count(counts: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut bars: Vec<(String, u64)> = counts.iter().map(|(name, count)| (harmless(name), *count)).collect();
    bars.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    bars
}

fn limits(plan: &Plan, shares: &Shares, unlabeled: u64, evaluation: &[String]) -> Vec<String> {
    let mut limits = Vec::new();
    let mut add = |is_in_effect: bool, limit: &str| {
        if is_in_effect {
            limits.push(limit.to_owned());
        }
    };
    let shared: Vec<String> = evaluation.iter().map(|found| harmless(found)).collect();
    add(
        !evaluation.is_empty(),
        &format!(
            "The training parts share texts with public evaluation data, on which models trained on them cannot be measured: \
             {}.",
            shared.join("; ")
        ),
    );
    add(
        !plan.is_of_fixes(),
        match plan.splits.query_grouping() {
            QueryGrouping::Related => {
                "Codes that do not answer may be in several parts, and so may answers that the comparison does not recognize."
            }
            QueryGrouping::Equal => "Parts may have answers and nearly equal queries in common.",
        },
    );
    add(
        plan.queries.iter().any(|query| query.kind == QueryKind::Docstrings),
        "Queries made from documentation are what an author wrote about a function, not what somebody looking for it would \
         ask.",
    );
    add(
        plan.has_author(),
        "Written queries come from a model that saw the code that they should find, and were validated by a model: they \
         describe what the code does, in words that a model chose.",
    );
    for (number, is_in_effect) in [
        ("Q3", plan.has_author()),
        ("Q12", plan.has_author()),
        ("W1", plan.has_author() || plan.has_judge() || plan.asks_for_categories()),
        ("W9", plan.has_author()),
        ("W10", plan.has_author()),
        ("G14", plan.sources.iter().any(|source| source.units == Units::Comments)),
        ("W8", plan.pool.filters.iter().any(|filter| filter == SNIPPETS)),
    ] {
        if let Some(found) = discrepancy(number) {
            add(is_in_effect, found.about);
        }
    }
    add(
        plan.labels.iter().any(|label| label.kind == LabelKind::Negative),
        "Some negatives were never looked at: some of them are codes that answer.",
    );
    add(unlabeled > 0, &format!("{unlabeled} candidates have no label and are not exported."));
    add(
        plan.exports.iter().any(|export| export.format == LOCALIZE),
        "A fix may change functions that its issue is not about, and issues that no commit names are missing.",
    );
    add(
        !plan.is_of_fixes(),
        "Only candidates were labelled: a code that no method found counts as one that does not answer, which favors the \
         methods that found the candidates.",
    );
    add(
        shares.licenses.contains_key(UNKNOWN_LICENSE),
        "The license of some code is unknown: do not share that code.",
    );
    add(
        plan.sources.iter().any(|source| source.license.is_none()),
        "Licenses that the plan does not name were detected from the license texts in the nearest directory of each file, \
         all of which are taken to apply, and from SPDX-License-Identifier in files.",
    );
    limits
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no method".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card in which others chose the texts.
    fn hostile() -> Card {
        let shares: BTreeMap<String, u64> =
            [("a|b\nc\u{1b}[2J\u{202e}d".to_owned(), 3), ("<script>alert(1)</script>".to_owned(), 9)].into();
        let blocks = vec![
            text("of `quarry judge`, <i>not</i> me"),
            Block::Chart("Codes", sorted_by_count(&shares)),
            table(["x", "n"], pairs(&shares)),
        ];
        Card {
            title: "T & <b>".to_owned(),
            introduction: vec![Block::Command("quarry data build a.toml".to_owned())],
            sections: vec![Section { heading: "Known limits", blocks }],
        }
    }

    #[test]
    fn texts_of_others_stay_in_their_cells() {
        let text = markdown(&hostile());
        assert!(text.contains("| a\\|b c\\u{1b}[2J\\u{202e}d | 3 |\n"), "{text}");
        assert!(text.starts_with("# T & <b>\n\n```sh\nquarry data build a.toml\n```\n\n## Known limits\n\n"));
    }

    #[test]
    fn a_page_shows_texts_of_others_as_texts_and_draws_the_largest_first() {
        let page = page(&hostile());
        assert!(!page.contains("<script>alert") && !page.contains("<i>") && !page.contains('\u{1b}'));
        assert!(page.contains("<h1>T &amp; &lt;b&gt;</h1>") && page.contains("<code>quarry judge</code>"));
        let chart = page.split_once("<svg").unwrap().1.split_once("</svg>").unwrap().0;
        let (largest, other) = (chart.find("&lt;script&gt;").unwrap(), chart.find("a|b c").unwrap());
        assert!(largest < other, "{chart}");
        assert!(page.contains(r##"<a href="#known-limits">"##) && page.contains(r#"id="known-limits""#));
    }
}
