//! Results as tables, shared by all output formats.

use std::collections::BTreeSet;

use quarry_text::counted;

use super::{DatasetResults, PartResults, Reference, Results, Slices, TrainedCombination, TrainingResults};
use quarry_metrics::significance::PairedDifference;
use quarry_metrics::table::Table;

impl Results {
    /// How to read the numbers of a data set's tables.
    #[must_use]
    pub fn note(&self, dataset: &DatasetResults) -> String {
        let bootstrap = &self.bootstrap;
        format!(
            "In brackets: {:.0} % bootstrap interval over queries{}; p: paired bootstrap against {}, two-sided, corrected \
             by Holm over the table; {} resamples, seed {}.",
            bootstrap.confidence * 100.0,
            if self.training.is_empty() {
                ""
            } else {
                ", of means over seeds, with ± their standard deviation"
            },
            dataset.baseline,
            bootstrap.resamples,
            bootstrap.seed
        )
    }
}

impl TrainingResults {
    /// How the training went, for each combination of the grid.
    fn rows(&self) -> impl Iterator<Item = [String; 7]> + '_ {
        self.combinations.iter().enumerate().map(|(index, combination)| {
            let TrainedCombination { settings, mean, deviation, epochs } = combination;
            let deviation = deviation.map_or(String::new(), |deviation| format!(" ± {deviation:.3}"));
            let epochs = epochs.iter().map(|epoch| epoch.map_or("-".to_owned(), |epoch| epoch.to_string()));
            let chosen = if index == self.chosen && self.combinations.len() > 1 { " (used)" } else { "" };
            [
                self.name.clone(),
                self.model.clone(),
                format!(
                    "{}{}{chosen}",
                    self.recipe,
                    settings.iter().map(|setting| format!(" {setting}")).collect::<String>()
                ),
                self.examples.to_string(),
                self.measure.clone(),
                number(*mean) + &deviation,
                epochs.collect::<Vec<_>>().join(", "),
            ]
        })
    }
}

impl Results {
    /// The models that were trained; `None` without any.
    #[must_use]
    pub fn training_table(&self) -> Option<Table> {
        let header =
            ["trained model", "began as", "recipe", "examples", "held-out measure", "value", "epochs"];
        let mut table = Table::new(header).align_left([1, 2, 4]);
        self.training.iter().flat_map(TrainingResults::rows).for_each(|row| table.push(row));
        (!self.training.is_empty()).then_some(table)
    }
}

impl DatasetResults {
    /// Derived figures of each method; `None` without any.
    #[must_use]
    pub fn figures_table(&self) -> Option<Table> {
        let names: BTreeSet<&String> = self.figures.iter().flat_map(|(_, figures)| figures.keys()).collect();
        if names.is_empty() {
            return None;
        }
        let mut table = Table::new(
            std::iter::once("figure".to_owned()).chain(self.figures.iter().map(|(method, _)| method.clone())),
        );
        for name in names {
            let values = self.figures.iter().map(|(_, figures)| number(figures.get(name).copied()));
            table.push(std::iter::once(name.clone()).chain(values));
        }
        Some(table)
    }

    /// Means of each method on every part side by side, for each measure that all parts have; empty for a single
    /// part.
    #[must_use]
    pub fn overview(&self) -> Vec<(String, Table)> {
        let [first, _, ..] = &self.parts[..] else { return Vec::new() };
        let shared = first
            .measures
            .iter()
            .filter(|measure| self.parts.iter().all(|part| part.measures.contains(measure)));
        let table = |measure: &String| {
            let names = self.parts.iter().map(|part| part.name.clone());
            let mut table = Table::new(std::iter::once("method".to_owned()).chain(names));
            for (index, method) in first.methods.iter().enumerate() {
                let of = |part: &PartResults| part.methods.get(index)?.metrics.get(measure).copied();
                let means = self.parts.iter().map(|part| number(of(part)));
                table.push(std::iter::once(method.method.clone()).chain(means));
            }
            table
        };
        shared.map(|measure| (measure.clone(), table(measure))).collect()
    }

    /// Reference points: results of others.
    #[must_use]
    pub fn references_table(&self) -> Table {
        let measures: BTreeSet<&String> =
            self.references.iter().flat_map(|reference| reference.values.keys()).collect();
        let mut table = Table::new(
            std::iter::once("method")
                .chain(measures.iter().map(|measure| measure.as_str()))
                .chain(["source"]),
        );
        for reference in &self.references {
            let values = measures.iter().map(|measure| number(reference.values.get(*measure).copied()));
            let row = std::iter::once(reference.name.clone()).chain(values);
            table.push(row.chain([reference.source.clone()]));
        }
        table
    }
}

impl PartResults {
    /// Numbers of queries and documents as text.
    #[must_use]
    pub fn counts(&self) -> String {
        match self.documents {
            0 => counted(self.queries, "query"),
            documents => format!("{}, {}", counted(self.queries, "query"), counted(documents, "document")),
        }
    }

    /// Means of each method with intervals, and p-values against the baseline.
    #[must_use]
    pub fn methods_table(&self, baseline: &str) -> Table {
        // A column of p-values only if any method has them.
        let compared =
            |measure: &String| self.methods.iter().any(|method| method.over_baseline.contains_key(measure));
        let mut header = vec!["method".to_owned()];
        for measure in &self.measures {
            header.push(measure.clone());
            if compared(measure) {
                header.push("p".into());
            }
        }
        let mut table = Table::new(header);
        for method in &self.methods {
            let mut row = vec![method.method.clone()];
            for measure in &self.measures {
                let interval = method.intervals.get(measure);
                let interval = interval.map_or(String::new(), |interval| {
                    format!(" [{:.3}, {:.3}]", interval.low, interval.high)
                });
                let deviation = method.deviations.get(measure);
                let deviation = deviation.map_or(String::new(), |deviation| format!(" ± {deviation:.3}"));
                row.push(number(method.metrics.get(measure).copied()) + &deviation + &interval);
                if compared(measure) {
                    let p = method.over_baseline.get(measure).map(|difference| p_value(difference.p));
                    row.push(p.unwrap_or_else(|| {
                        if method.method == baseline { String::new() } else { "-".into() }
                    }));
                }
            }
            table.push(row);
        }
        table
    }

    /// The first measure of each method, and its difference from the baseline with a paired interval and test; `None` if
    /// nothing is compared. The deviation is that over seeds.
    #[must_use]
    pub fn differences_table(&self, baseline: &str) -> Option<Table> {
        let measure = self.measures.first()?;
        if !self.methods.iter().any(|method| method.over_baseline.contains_key(measure)) {
            return None;
        }
        let has_seeds = self.methods.iter().any(|method| method.deviations.contains_key(measure));
        let mut header = vec!["method".to_owned(), measure.clone()];
        header.extend(has_seeds.then(|| "deviation".to_owned()));
        header.extend([format!("difference from {baseline}"), "interval".into(), "p".into()]);
        let mut table = Table::new(header);
        for method in &self.methods {
            let mut row = vec![method.method.clone(), number(method.metrics.get(measure).copied())];
            row.extend(has_seeds.then(|| number(method.deviations.get(measure).copied())));
            row.extend(match method.over_baseline.get(measure) {
                Some(PairedDifference { difference, interval, p, .. }) => [
                    format!("{difference:+.3}"),
                    format!("[{:+.3}, {:+.3}]", interval.low, interval.high),
                    p_value(*p),
                ],
                None => Default::default(),
            });
            table.push(row);
        }
        Some(table)
    }

    /// The first measure of each stratum.
    #[must_use]
    pub fn strata_table(&self, references: &[Reference]) -> Table {
        let references: Vec<&Reference> =
            references.iter().filter(|reference| !reference.parts.is_empty()).collect();
        let methods = self.methods.iter().map(|method| method.method.clone());
        let names = references.iter().map(|reference| reference.name.clone());
        let mut table = Table::new(std::iter::once(self.stratum_name.clone()).chain(methods).chain(names));
        for stratum in &self.strata {
            let values = self.methods.iter().map(|method| number(method.by_stratum.get(stratum).copied()));
            let theirs = references.iter().map(|reference| number(reference.parts.get(stratum).copied()));
            table.push(std::iter::once(stratum.clone()).chain(values).chain(theirs));
        }
        table
    }

    /// The first measure of each class of queries.
    #[must_use]
    pub fn slices_table(&self, slices: &Slices) -> Table {
        let methods = self.methods.iter().map(|method| method.method.clone());
        let mut table = Table::new([slices.property.clone(), "queries".into()].into_iter().chain(methods));
        for slice in &slices.values {
            let means = slice.means.iter().map(|mean| number(Some(*mean)));
            table.push([slice.value.clone(), slice.queries.to_string()].into_iter().chain(means));
        }
        table
    }
}

/// Three decimals; integers without decimals.
fn number(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(value) if value.fract() == 0.0 && value.abs() > 1.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.3}"),
    }
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}
