//! The data card: what a data set is made of, how, and what is known of its limits.

use std::fmt::Write;

use crate::plan::{Documentation, LabelKind, Plan, QueryKind};
use crate::pool::{Fork, Removed, Shares, UNKNOWN_LICENSE};
use crate::step::Step;

/// The card in Markdown.
pub(crate) fn markdown(plan: &Plan, steps: &[Step], removed: &[Removed], shares: &Shares) -> String {
    let mut card = String::new();
    let mut line = |text: &str| {
        card.push_str(text);
        card.push('\n');
    };
    let file = harmless(&plan.path.file_name().unwrap_or_default().to_string_lossy());
    line(&format!("# {}\n", plan.title));
    line("Built by Quarry, by this command:\n");
    line(&format!("```sh\nquarry data build {file}\n```\n"));
    line("The same plan, sources and version give the same files, byte for byte.\n");

    line("## Contents\n");
    let find = |name: &str| steps.iter().find(|step| step.name.split(' ').next() == Some(name));
    let count =
        |step: &str, name: &str| find(step).and_then(|step| step.counts.get(name)).copied().unwrap_or(0);
    line(&table(
        &["what", "number"],
        &[
            ["codes".to_owned(), count("pool", "kept").to_string()],
            ["queries".to_owned(), count("merge", "queries").to_string()],
            ["candidates".to_owned(), count("candidates", "candidates").to_string()],
            ["pairs that answer".to_owned(), count("labels", "positive").to_string()],
            ["pairs that do not".to_owned(), count("labels", "negative").to_string()],
            ["pairs without a label, left out".to_owned(), count("labels", "unlabelled").to_string()],
            ["queries with an answer".to_owned(), count("labels", "queries with a positive").to_string()],
        ],
    ));

    line("## Sources\n");
    let rows: Vec<[String; 5]> = (plan.sources.iter())
        .map(|source| {
            let step = steps.iter().find(|step| step.name == format!("source {}", source.name));
            let number = |name: &str| {
                step.and_then(|step| step.counts.get(name)).map_or_else(String::new, u64::to_string)
            };
            let said = |name: &str| {
                let said = step.and_then(|step| step.parameters.get(name)).and_then(|value| value.as_str());
                said.unwrap_or("unknown").to_owned()
            };
            let license = source.license.clone().unwrap_or_else(|| "detected".to_owned());
            [source.name.clone(), said("commit"), license, number("files"), number("functions")]
        })
        .collect();
    line(&table(&["source", "commit", "license", "files", "functions"], &rows));
    for (title, shares) in
        [("language", &shares.languages), ("license", &shares.licenses), ("source", &shares.sources)]
    {
        let rows: Vec<[String; 2]> =
            shares.iter().map(|(name, count)| [name.clone(), count.to_string()]).collect();
        line(&table(&[title, "codes kept"], &rows));
    }

    if !shares.forks.is_empty() {
        line("Sources most of whose code another source has too, and what was found in both:\n");
        let rows: Vec<[String; 4]> = (shares.forks.iter())
            .map(|Fork { source, of, shared, codes }| {
                [source.clone(), of.clone(), shared.to_string(), codes.to_string()]
            })
            .collect();
        line(&table(&["fork", "of", "codes in both", "codes"], &rows));
    }

    line("## Filters\n");
    let documentation = match plan.pool.documentation {
        Documentation::Removed => "Documentation is taken out of the codes.",
        Documentation::Kept => "Codes have their documentation.",
    };
    line(&format!(
        "{documentation} Filters are asked in this order; what one removes is not shown to the next.\n"
    ));
    let rows: Vec<[String; 4]> = (removed.iter())
        .map(|removed| {
            [
                removed.filter.clone(),
                removed.about.clone(),
                removed.count.to_string(),
                removed.examples.join("; "),
            ]
        })
        .collect();
    line(&table(&["filter", "keeps", "removed", "such as"], &rows));

    let kinds: Vec<[String; 2]> = find("pool").map_or_else(Vec::new, |step| {
        let kinds = step.counts.iter().filter_map(|(name, count)| {
            Some([name.strip_prefix("snippets removed: ")?.to_owned(), count.to_string()])
        });
        kinds.collect()
    });
    if !kinds.is_empty() {
        line(&table(&["snippets that were", "removed"], &kinds));
    }
    if plan.pool.mask {
        line(
            "Secrets and personal data are masked, in code and documentation, by rules; what no rule knows is not.\n",
        );
        let rows: Vec<[String; 2]> =
            shares.masked.iter().map(|(rule, count)| [rule.clone(), count.to_string()]).collect();
        line(&table(&["masked", "number"], &rows));
    }

    line("## Queries\n");
    let rows: Vec<[String; 4]> = (plan.queries.iter())
        .map(|query| {
            let step = steps.iter().find(|step| step.name == format!("queries {}", query.name));
            let counts = step.map(|step| &step.counts);
            let number = |name: &str| counts.and_then(|counts| counts.get(name)).copied().unwrap_or(0);
            let kind = match query.kind {
                QueryKind::Docstrings => "documentation of the codes",
                QueryKind::File => "a file of queries",
                QueryKind::Written => "written by a model for the codes, validated in reverse",
            };
            [query.name.clone(), kind.to_owned(), number("read").to_string(), number("kept").to_string()]
        })
        .collect();
    line(&table(&["source", "made of", "read", "kept"], &rows));
    let rules: Vec<[String; 2]> = (steps.iter())
        .filter(|step| step.name.starts_with("queries "))
        .flat_map(|step| &step.counts)
        .filter(|(name, _)| name.starts_with("removed by "))
        .map(|(name, count)| [name.trim_start_matches("removed by ").to_owned(), count.to_string()])
        .collect();
    if !rules.is_empty() {
        line(&table(&["rule", "queries removed"], &rules));
    }

    line("## Candidates\n");
    let candidates = &plan.candidates;
    line(&format!(
        "The {} best codes of each query by the mean cosine of {}, and as many of each of {}; codes with equal texts are one.\n",
        candidates.k,
        listed(&candidates.encoders),
        listed(&candidates.union),
    ));

    line("## Labels\n");
    for (number, label) in (1..).zip(&plan.labels) {
        let about = match label.kind {
            LabelKind::Pairing => "the code that a query was made of answers it",
            LabelKind::File => "labels that were made elsewhere, found again by the texts of query and code",
            LabelKind::Judge => "a judge of `quarry judge`; its evidence is in the ledger beside this card",
            LabelKind::Negative => "what has no label by then does not answer; nobody looked at it",
        };
        line(&format!("{number}. {about}"));
    }
    line("");
    let rows: Vec<[String; 2]> = find("labels").map_or_else(Vec::new, |step| {
        let by = step.counts.iter().filter(|(name, _)| name.contains(" by "));
        by.map(|(name, count)| [name.clone(), count.to_string()]).collect()
    });
    line(&table(&["label", "pairs"], &rows));

    line("## Splits\n");
    line(&format!("By query, stratified by the number of its answers, with the seed {}.\n", plan.seed));
    let rows: Vec<[String; 3]> = (plan.splits.parts.keys())
        .map(|part| {
            let [queries, pairs] =
                ["queries", "pairs"].map(|what| count("splits", &format!("{what} in {part}")));
            [part.clone(), queries.to_string(), pairs.to_string()]
        })
        .collect();
    line(&table(&["part", "queries", "pairs"], &rows));

    line("## Exports\n");
    let rows: Vec<[String; 3]> = (steps.iter())
        .filter_map(|step| Some((step.name.strip_prefix("export ")?, step)))
        .flat_map(|(format, step)| {
            step.counts.iter().map(move |(file, count)| [format.to_owned(), file.clone(), count.to_string()])
        })
        .collect();
    line(&table(&["format", "file", "records"], &rows));

    line("## Known limits\n");
    for limit in limits(plan, shares, count("labels", "unlabelled")) {
        line(&format!("- {limit}"));
    }
    line("");
    line("## Steps\n");
    let rows: Vec<[String; 2]> =
        steps.iter().map(|step| [step.name.clone(), step.key().as_str().to_owned()]).collect();
    line(&table(&["step", "directory"], &rows));
    card.truncate(card.trim_end().len());
    card.push('\n');
    card
}

/// What users of the data set have to know.
fn limits(plan: &Plan, shares: &Shares, unlabelled: u64) -> Vec<String> {
    let mut limits = Vec::new();
    if plan.queries.iter().any(|query| query.kind == QueryKind::Docstrings) {
        limits.push(
            "Queries made of documentation say what an author wrote of a function, not what somebody asks who looks for it."
                .to_owned(),
        );
    }
    if plan.has_author() {
        limits.push(
            "Written queries come from a model that saw the code that they are to find, and were validated by a model: they \
             say what the code does, in words that a model chose."
                .to_owned(),
        );
    }
    if plan.labels.iter().any(|label| label.kind == LabelKind::Negative) {
        limits.push("Some negatives were never looked at: among them are codes that answer.".to_owned());
    }
    if unlabelled > 0 {
        limits.push(format!("{unlabelled} candidates have no label and are in no export."));
    }
    limits.push(
        "Only candidates were labelled: a code that no method found counts as one that does not answer, which favors the \
         methods that found the candidates."
            .to_owned(),
    );
    if shares.licenses.contains_key(UNKNOWN_LICENSE) {
        limits.push("The license of some code is unknown: do not share that code.".to_owned());
    }
    if plan.sources.iter().any(|source| source.license.is_none()) {
        limits.push(
            "Licenses that the plan does not name were detected by the texts of license files, the nearest directory's for \
             each file, and by SPDX-License-Identifier in files; of several texts in a directory all are taken to hold."
                .to_owned(),
        );
    }
    limits
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no method".to_owned() } else { names.join(", ") }
}

/// A text of others on one line, without what terminals obey: paths and names in it may come from anybody.
fn harmless(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        let is_odd = c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match c {
            '\n' | '\r' => line.push(' '),
            _ if is_odd => line.extend(c.escape_default()),
            _ => line.push(c),
        }
    }
    line
}

/// A table in Markdown.
fn table<const N: usize>(header: &[&str; N], rows: &[[String; N]]) -> String {
    let cell = |text: &str| harmless(text).replace('|', "\\|");
    let mut table = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(table, "| {} |", header.join(" | "));
    let _ = writeln!(table, "|{}", " --- |".repeat(N));
    for row in rows {
        let _ = writeln!(table, "| {} |", row.each_ref().map(|text| cell(text)).join(" | "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_stay_in_their_cells() {
        let rows = [["a|b\nc\u{1b}[2J\u{202e}d".to_owned()]];
        assert_eq!(table(&["x"], &rows), "| x |\n| --- |\n| a\\|b c\\u{1b}[2J\\u{202e}d |\n");
    }
}
