//! A study as tables, in the layout of the papers.

use quarry_judge::Criterion;
use quarry_metrics::significance::Interval;
use quarry_metrics::table::Table;

use super::{
    AnnotatorRow, Disagreement, FileAgreement, MajorityAgreement, ScoreRow, Share, Study, condition,
};

/// Maximum number of disagreements listed; the study contains all of them.
const MAX_LISTED: usize = 20;

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn range(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |Interval { low, high }| format!(" [{low:.3}, {high:.3}]"))
}

fn share(share: Option<Share>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.3}{}", share.share, range(share.interval)))
}

fn yes(label: bool) -> &'static str {
    if label { "yes" } else { "no" }
}

impl Study {
    /// The non-empty tables with their titles.
    pub fn tables(&self) -> Vec<(String, Table)> {
        let agreement = |title: &str, rows| (title.to_owned(), agreement(rows));
        let mut tables = vec![
            agreement("Agreement of people (Krippendorff's alpha, nominal)", &self.agreement),
            agreement("Agreement before pairs were removed", &self.agreement_before_removal),
            ("Pairs removed for low agreement".to_owned(), self.removed_table()),
            (format!("Annotators against the majority of {}", self.truth_title()), self.annotator_table()),
            ("Annotators against the labels of the file".to_owned(), against_file(&self.against_file)),
            (format!("People's work (executable: {})", self.executable_rule), self.program_table()),
            ("Ratings (r, tau and means)".to_owned(), scores(&self.scores)),
            ("Agreement of ratings".to_owned(), self.score_agreement_table()),
            ("Ratings by system".to_owned(), self.system_table()),
            ("Preferences (p: sign test over queries)".to_owned(), self.preference_table()),
            ("Generated code".to_owned(), self.review_table()),
            (self.disagreement_title(), self.disagreement_table()),
        ];
        tables.retain(|(_, table)| !table.rows().is_empty());
        tables
    }

    fn truth_title(&self) -> &'static str {
        match self.truth {
            super::ReferenceMajority::WithTests => "people with tests",
            super::ReferenceMajority::WithoutTests => "people without tests",
            super::ReferenceMajority::Auto | super::ReferenceMajority::People => "all people",
        }
    }

    fn removed_table(&self) -> Table {
        let mut table = Table::new(["pair", "alpha"]);
        self.removed.iter().for_each(|(pair, alpha)| table.push([pair.clone(), number(Some(*alpha), 3)]));
        table
    }

    /// As in the papers, 50 % first; columns of a criterion that nobody used are omitted.
    fn annotator_table(&self) -> Table {
        let rows = &self.annotators;
        let mut criteria = vec![Criterion::Half, Criterion::Exact];
        criteria.retain(|criterion| rows.iter().any(|row| row.under(*criterion).accuracy.is_some()));
        let has_blocks = |row: &AnnotatorRow| {
            Criterion::ALL.iter().any(|criterion| row.under(*criterion).alpha_by_blocks.is_some())
        };
        type Cell = fn(&MajorityAgreement) -> String;
        let mut cells: Vec<(&str, Cell)> = vec![
            ("labels", |against| {
                against.accuracy.map_or_else(|| "-".to_owned(), |share| share.of.to_string())
            }),
            ("accuracy", |against| share(against.accuracy)),
            ("alpha", |against| number(against.alpha, 3)),
        ];
        if rows.iter().any(has_blocks) {
            cells.push(("by blocks", |against| number(against.alpha_by_blocks, 3)));
        }
        let each = || cells.iter().flat_map(|cell| criteria.iter().map(move |criterion| (cell, *criterion)));
        let header = each().map(|((name, _), criterion)| format!("{name} {}", criterion.name()));
        let mut table = Table::new(std::iter::once("annotator".to_owned()).chain(header));
        for row in rows {
            let cells = each().map(|((_, cell), criterion)| cell(row.under(criterion)));
            table.push(std::iter::once(row.annotator.clone()).chain(cells));
        }
        table
    }

    fn program_table(&self) -> Table {
        let mut table = Table::new([
            "people",
            "labels",
            "programs",
            "executable",
            "tests per program",
            "timed",
            "minutes",
            "median minutes",
        ]);
        for row in &self.programs {
            table.push([
                row.people.clone(),
                row.labels.to_string(),
                row.programs.to_string(),
                share(row.executable),
                number(row.mean_tests, 2),
                row.timed.to_string(),
                number(row.mean_minutes, 2),
                number(row.median_minutes, 2),
            ]);
        }
        table
    }

    fn score_agreement_table(&self) -> Table {
        let mut table = Table::new(["guideline", "people", "items", "alpha ordinal", "alpha nominal"]);
        for row in &self.score_agreement {
            table.push([
                row.guideline.clone(),
                row.people.to_string(),
                row.items.to_string(),
                number(row.alpha_ordinal, 3),
                number(row.alpha_nominal, 3),
            ]);
        }
        table
    }

    fn system_table(&self) -> Table {
        let mut table = Table::new(["system", "guideline", "lists", "ratings", "mean"]);
        for row in &self.systems {
            let mean = format!("{:.3}{}", row.mean, range(row.interval));
            table.push([
                row.system.clone(),
                row.guideline.clone(),
                row.lists.to_string(),
                row.ratings.to_string(),
                mean,
            ]);
        }
        table
    }

    fn preference_table(&self) -> Table {
        let mut table = Table::new([
            "a : b",
            "people",
            "votes a : b : tie",
            "share of a",
            "queries a : b : tie",
            "share of a",
            "p",
            "alpha",
        ]);
        for row in &self.preferences {
            let three = |[a, b, tie]: [usize; 3]| format!("{a} : {b} : {tie}");
            table.push([
                row.systems.join(" : "),
                row.people.to_string(),
                three(row.votes),
                number(row.vote_share, 3),
                three(row.queries),
                share(row.share),
                if row.p < 0.0001 { "< 0.0001".to_owned() } else { format!("{:.4}", row.p) },
                number(row.alpha, 3),
            ]);
        }
        table
    }

    fn review_table(&self) -> Table {
        let mut table = Table::new(["person", "model", "approved", "edited", "rejected"]);
        for row in &self.reviews {
            let counts = [row.approved, row.edited, row.rejected].map(|count| count.to_string());
            table.push([row.person.clone(), row.model.clone()].into_iter().chain(counts));
        }
        table
    }

    fn disagreement_title(&self) -> String {
        let more = self.disagreements.len().saturating_sub(MAX_LISTED);
        let more = if more > 0 {
            format!(", the first {MAX_LISTED} of {}", self.disagreements.len())
        } else {
            String::new()
        };
        format!("Pairs with disagreement{more}")
    }

    fn disagreement_table(&self) -> Table {
        let mut table = Table::new(["pair", "criterion", "majority", "yes", "no"]);
        for Disagreement { pair, criterion, majority, labels, .. } in
            self.disagreements.iter().take(MAX_LISTED)
        {
            let say = |wanted: bool| {
                let who = labels.iter().filter(|(_, label, _)| *label == wanted);
                who.map(|(who, ..)| who.as_str()).collect::<Vec<_>>().join("; ")
            };
            let majority = majority.map_or("-", yes);
            table.push([pair, criterion.name(), majority, &say(true), &say(false)].map(str::to_owned));
        }
        table
    }
}

fn agreement(rows: &[super::AgreementRow]) -> Table {
    let blocks = rows.iter().any(|row| row.alpha_by_blocks.is_some());
    let mut header = vec!["people", "criterion", "people", "pairs", "labels", "equal", "alpha"];
    header.extend(blocks.then_some("by blocks"));
    let mut table = Table::new(header);
    for row in rows {
        table.push([
            condition(row.tests).to_owned(),
            row.criterion.name().to_owned(),
            row.people.to_string(),
            row.pairs.to_string(),
            row.labels.to_string(),
            number(row.percent_agreement, 3),
            number(row.alpha, 3) + &range(row.interval),
            number(row.alpha_by_blocks, 3),
        ]);
    }
    table
}

fn against_file(rows: &[FileAgreement]) -> Table {
    let mut table = Table::new([
        "annotator",
        "criterion",
        "pairs",
        "decided",
        "accuracy",
        "precision",
        "recall",
        "F1",
        "alpha",
    ]);
    for row in rows {
        table.push([
            row.annotator.clone(),
            row.criterion.name().to_owned(),
            row.pairs.to_string(),
            row.accuracy.of.to_string(),
            share(Some(row.accuracy)),
            number(Some(row.positive.precision), 3),
            number(Some(row.positive.recall), 3),
            number(Some(row.positive.f1), 3),
            number(row.alpha, 3),
        ]);
    }
    table
}

fn scores(rows: &[ScoreRow]) -> Table {
    let mut table =
        Table::new(["rater", "guideline", "items", "mean", "against", "items in common", "r", "tau"]);
    for row in rows {
        table.push([
            row.rater.clone(),
            row.guideline.clone(),
            row.items.to_string(),
            number(Some(row.mean), 2),
            row.against.clone().unwrap_or_else(|| "-".to_owned()),
            if row.against.is_some() { row.common.to_string() } else { "-".to_owned() },
            number(row.pearson, 3),
            number(row.kendall, 3),
        ]);
    }
    table
}
