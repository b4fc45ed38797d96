//! Results as tables, shared by all output formats.

use std::collections::{BTreeMap, BTreeSet};

use quarry_text::counted;

use super::{
    DatasetResults, MethodResults, PartResults, Reference, Results, Slices, TrainedCombination,
    TrainingResults,
};
use quarry_metrics::significance::{Bootstrap, Interval, PairedDifference};
use quarry_metrics::table::Table;

impl Results {
    /// Explanation of the numbers of a data set's tables.
    pub fn table_note(&self, dataset: &DatasetResults) -> String {
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

    /// A sentence on the method with the highest mean on each data set, by the first measure of its first part.
    pub fn conclusion(&self) -> Option<String> {
        let clauses: Vec<String> =
            self.datasets.iter().filter_map(|dataset| dataset.conclusion(&self.bootstrap)).collect();
        (!clauses.is_empty()).then(|| format!("{}.", clauses.join("; ")))
    }

    /// Lists what training pairs share with evaluation data, with the names of the models.
    pub fn evaluation_data(&self) -> Vec<String> {
        let mut models: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for training in &self.training {
            models.entry(&training.evaluation_data).or_default().push(&training.name);
        }
        let statements = models.into_iter().filter(|(statement, _)| !statement.is_empty());
        statements.map(|(statement, names)| format!("{}: {statement}", names.join(", "))).collect()
    }

    /// The models that were trained; `None` without any.
    pub fn training_table(&self) -> Option<Table> {
        let header =
            ["trained model", "began as", "recipe", "examples", "held-out measure", "value", "epochs"];
        let mut table = Table::new(header).align_left([1, 2, 4]);
        self.training.iter().flat_map(TrainingResults::rows).for_each(|row| table.push(row));
        (!self.training.is_empty()).then_some(table)
    }
}

impl TrainingResults {
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

impl DatasetResults {
    fn conclusion(&self, bootstrap: &Bootstrap) -> Option<String> {
        let part = self.parts.first()?;
        let measure = part.measures.first()?;
        let mean =
            |method: &MethodResults| method.metrics.get(measure).copied().filter(|mean| mean.is_finite());
        let best = part.methods.iter().filter(|method| mean(method).is_some());
        let best = best.max_by(|a, b| mean(a).unwrap_or(0.0).total_cmp(&mean(b).unwrap_or(0.0)))?;
        let place =
            if self.parts.len() > 1 { format!("{}, {}", self.name, part.name) } else { self.name.clone() };
        let baseline = part.methods.iter().find(|method| method.method == self.baseline)?;
        let compared = match best.over_baseline.get(measure) {
            _ if best.method == self.baseline && part.methods.len() == 1 => String::new(),
            _ if best.method == self.baseline => ", the baseline".to_owned(),
            None => format!(" (baseline {}: {:.3})", self.baseline, mean(baseline)?),
            Some(found) => {
                let is_significant = found.p < 1.0 - bootstrap.confidence;
                let contradiction = match found.contradicts(found.p, bootstrap) {
                    true if is_significant => ", although the interval of the difference includes 0",
                    true => ", although the interval of the difference, which is not corrected, excludes 0",
                    false => "",
                };
                format!(
                    ", {:.3} above {} (p = {}, {}{contradiction})",
                    found.difference,
                    self.baseline,
                    p_value(found.p),
                    if is_significant { "significant" } else { "not significant" },
                )
            }
        };
        Some(format!("{place}: {} has the highest {measure}, {:.3}{compared}", best.method, mean(best)?))
    }

    /// Derived figures of each method; `None` without any.
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

    /// Explanation of [`PartResults::label_errors_table`].
    pub(crate) const LABEL_ERRORS: &str = "With the errors of labels, as their judge was calibrated: means with the expected \
                                           errors removed, and whether the order against the baseline survives them:";

    pub fn reliability_table(&self) -> Option<Table> {
        let mut table = Table::new(["reliability", "value"]);
        for (name, value) in &self.reliability {
            table.push([name.clone(), format!("{value:.4}")]);
        }
        (!self.reliability.is_empty()).then_some(table)
    }

    /// Means of each method on every part side by side, for each measure that all parts have; empty for a single
    /// part.
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
                let mean = |part: &PartResults| part.methods.get(index)?.metrics.get(measure).copied();
                let means = self.parts.iter().map(|part| number(mean(part)));
                table.push(std::iter::once(method.method.clone()).chain(means));
            }
            table
        };
        shared.map(|measure| (measure.clone(), table(measure))).collect()
    }

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
    /// Intervals of labels as they are, and of labels that err; `None` without the errors of labels.
    pub fn label_errors_table(&self) -> Option<Table> {
        let header = [
            "method",
            "measure",
            "as labeled",
            "interval",
            "errors removed",
            "interval with errors",
            "order",
            "kept in",
        ];
        let mut table = Table::new(header).align_left([1, 6]);
        let bounds = |interval: &Interval| format!("{:.3} to {:.3}", interval.low, interval.high);
        for method in &self.methods {
            for (measure, found) in &method.with_label_errors {
                let (order, kept) = match &found.against_baseline {
                    None => ("baseline".to_owned(), String::new()),
                    Some(difference) => (
                        if difference.survives { "survives" } else { "does not survive" }.to_owned(),
                        format!("{:.0} %", 100.0 * difference.kept),
                    ),
                };
                table.push([
                    method.method.clone(),
                    measure.clone(),
                    number(method.metrics.get(measure).copied()),
                    method.intervals.get(measure).map(bounds).unwrap_or_default(),
                    number(Some(found.mean)),
                    bounds(&found.interval),
                    order,
                    kept,
                ]);
            }
        }
        self.methods.iter().any(|method| !method.with_label_errors.is_empty()).then_some(table)
    }

    /// Numbers of queries and documents as text.
    pub fn counts(&self) -> String {
        match self.documents {
            0 => counted(self.queries, "query"),
            documents => format!("{}, {}", counted(self.queries, "query"), counted(documents, "document")),
        }
    }

    /// Means of each method with intervals, and p-values against the baseline.
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
