//! A training run, as a page with curves.

use maud::html;
use quarry_metrics::table::Table;

use super::chart::{Line, lines};
use super::{document, table};

#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRun {
    pub name: String,
    /// The step up to which a loss is a mean, and this loss; over the whole run.
    pub losses: Vec<(u64, f64)>,
    pub epochs: Vec<TrainedEpoch>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainedEpoch {
    /// Counted from 1.
    pub number: usize,
    /// Steps done after it.
    pub step: u64,
    /// Mean loss of its steps.
    pub loss: f64,
    /// The measure on held-out pairs after it, if there is one.
    pub value: Option<f64>,
}

/// A page with the held-out measure of each run by epoch and its loss by step, and what else there is to say about all of
/// them: a name and a text each.
pub fn training_page(title: &str, measure: &str, runs: &[TrainingRun], facts: &[(String, String)]) -> String {
    let drawn = |points: &dyn Fn(&TrainingRun) -> Vec<(f64, f64)>| -> Vec<Line> {
        let line = |run: &TrainingRun| Line { label: run.name.clone(), points: points(run) };
        runs.iter().map(line).filter(|line| !line.points.is_empty()).collect()
    };
    let measured = drawn(&|run| {
        run.epochs.iter().filter_map(|epoch| Some((epoch.number as f64, epoch.value?))).collect()
    });
    let losses = drawn(&|run| run.losses.iter().map(|(step, loss)| (*step as f64, *loss)).collect());
    let mut rows = Table::new(["run", "epoch", "step", "loss", measure]).align_left([0]);
    for run in runs {
        for TrainedEpoch { number, step, loss, value } in &run.epochs {
            let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
            rows.push([run.name.clone(), number.to_string(), step.to_string(), format!("{loss:.4}"), value]);
        }
    }
    let mut about = Table::new(["", ""]).align_left([0, 1]);
    for (name, text) in facts {
        about.push([name.clone(), text.clone()]);
    }
    let main = html! {
        @if !measured.is_empty() {
            section { h2 { "Held-out " (measure) } (lines(measure, "epoch", measure, &measured)) }
        }
        @if !losses.is_empty() {
            section { h2 { "Loss" } (lines("loss", "step", "mean loss", &losses)) }
        }
        section { h2 { "Epochs" } (table(&rows)) }
        @if !facts.is_empty() {
            section { h2 { "Settings" } (table(&about)) }
        }
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
            losses: vec![(5, 2.5), (10, 1.5), (20, 1.0)],
            epochs: vec![
                TrainedEpoch { number: 1, step: 10, loss: 2.0, value: Some(value) },
                TrainedEpoch { number: 2, step: 20, loss: 1.0, value: Some(value + 0.1) },
            ],
        };
        let facts = [("rate".to_owned(), "2e-5 <".to_owned())];
        let page = training_page("Sweep of <x>", "MRR", &[run("rate=1", 0.25), run("rate=2", 0.5)], &facts);
        assert!(page.contains("Sweep of &lt;x&gt;") && !page.contains("<x>"), "{page}");
        assert_eq!(page.matches("<polyline").count(), 4);
        for text in ["rate=1", "0.3500", "2.0000", "rate=1: 5 → 2.5000", "2e-5 &lt;"] {
            assert!(page.contains(text), "{text}");
        }
        let unmeasured = TrainingRun {
            name: "x".into(),
            losses: vec![(3, 0.5)],
            epochs: vec![TrainedEpoch { number: 1, step: 3, loss: 0.5, value: None }],
        };
        assert_eq!(training_page("x", "MRR", &[unmeasured], &[]).matches("<polyline").count(), 1);
    }
}
