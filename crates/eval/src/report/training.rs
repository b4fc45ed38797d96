//! How training went, as a page with curves.

use maud::html;
use quarry_metrics::table::Table;

use super::chart::{Series, curves};
use super::{document, table};

/// A training run.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRun {
    /// Its name.
    pub name: String,
    /// Its epochs.
    pub epochs: Vec<TrainedEpoch>,
}

/// An epoch of a training run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainedEpoch {
    /// Counted from 1.
    pub number: usize,
    /// Mean loss of its steps.
    pub loss: f64,
    /// The measure on held-out pairs after it, if there is one.
    pub value: Option<f64>,
}

/// A page with the held-out measure and the loss of each run by epoch.
#[must_use]
pub fn training_page(title: &str, measure: &str, runs: &[TrainingRun]) -> String {
    let highest = runs.iter().flat_map(|run| &run.epochs).map(|epoch| epoch.loss).fold(0.0, f64::max);
    let series = |value: &dyn Fn(&TrainedEpoch) -> Option<f64>| -> Vec<Series> {
        let of = |run: &TrainingRun| Series {
            label: run.name.clone(),
            points: run
                .epochs
                .iter()
                .filter_map(|epoch| Some((epoch.number as f64, value(epoch)?, 1)))
                .collect(),
        };
        runs.iter().map(of).filter(|series| !series.points.is_empty()).collect()
    };
    let measured = series(&|epoch| epoch.value);
    // Charts are from 0 to 1.
    let losses = series(&|epoch| (highest > 0.0).then(|| epoch.loss / highest));
    let mut rows = Table::new(["run", "epoch", "loss", measure]).align_left([0]);
    for run in runs {
        for TrainedEpoch { number, loss, value } in &run.epochs {
            let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
            rows.push([run.name.clone(), number.to_string(), format!("{loss:.4}"), value]);
        }
    }
    let main = html! {
        @if !measured.is_empty() {
            section { h2 { "Held-out " (measure) } (curves(measure, "epoch", measure, &measured)) }
        }
        @if !losses.is_empty() {
            section {
                h2 { "Loss, as a share of " (format!("{highest:.3}")) }
                (curves("loss", "epoch", "loss", &losses))
            }
        }
        section { h2 { "Epochs" } (table(&rows)) }
    };
    document(title, &html! {}, &main)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_its_curves_and_rows() {
        let run = |name: &str, value| TrainingRun {
            name: name.to_owned(),
            epochs: vec![
                TrainedEpoch { number: 1, loss: 2.0, value: Some(value) },
                TrainedEpoch { number: 2, loss: 1.0, value: Some(value + 0.1) },
            ],
        };
        let page = training_page("Sweep of <x>", "MRR", &[run("rate=1", 0.25), run("rate=2", 0.5)]);
        assert!(page.contains("Sweep of &lt;x&gt;") && !page.contains("<x>"), "{page}");
        assert_eq!(page.matches("<polyline").count(), 4);
        for text in ["rate=1", "0.3500", "2.0000", "as a share of 2.000"] {
            assert!(page.contains(text), "{text}");
        }
        let unmeasured = TrainingRun {
            name: "x".into(),
            epochs: vec![TrainedEpoch { number: 1, loss: 0.5, value: None }],
        };
        assert_eq!(training_page("x", "MRR", &[unmeasured]).matches("<polyline").count(), 1);
    }
}
