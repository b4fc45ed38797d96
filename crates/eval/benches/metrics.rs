//! Times MRR, MAP, NDCG@10 and recall@100 of a run: `metrics QRELS RUN [REPEATS]`, see `bench/compare_metrics.py`.
//!
//! Prints one JSON object: seconds to read both files, seconds to evaluate them (medians), and the means.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use quarry_corpus::formats::{qrels, run};
use quarry_eval::evaluation::{Conventions, evaluate_run};
use quarry_metrics::Measure;
use quarry_metrics::significance::mean;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [qrels, run, ..] = &arguments[..] else {
        return println!("usage: metrics QRELS RUN [REPEATS]");
    };
    let repeats =
        arguments.get(2).map_or(5, |repeats| repeats.parse().expect("expected REPEATS to be a number"));
    let (mut load, mut evaluate, mut means) = (Vec::new(), Vec::new(), BTreeMap::new());
    for _ in 0..repeats {
        let start = Instant::now();
        let qrels = qrels::read(Path::new(qrels)).unwrap_or_else(|error| panic!("{error}"));
        let run = run::read(Path::new(run)).unwrap_or_else(|error| panic!("{error}"));
        load.push(start.elapsed().as_secs_f64());
        let measures = ["mrr", "map", "ndcg@10", "recall@100"];
        let measures = measures.map(|name| name.parse::<Measure>().unwrap_or_else(|error| panic!("{error}")));
        for _ in 0..repeats {
            let start = Instant::now();
            let found = evaluate_run(&qrels, &run, &measures, &Conventions::default())
                .unwrap_or_else(|error| panic!("{error}"));
            evaluate.push(start.elapsed().as_secs_f64());
            means = (0..measures.len())
                .map(|index| (measures[index].to_string(), mean(&[&found.values(index)])))
                .collect();
        }
    }
    let figures = serde_json::json!({
        "load_s": median(&mut load),
        "evaluate_s": median(&mut evaluate),
        "means": means,
    });
    println!("{figures}");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
