//! Numbers of the papers that follow from other numbers in them, and those that do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
use quarry_eval::protocol::{generalization, reliability};
use quarry_metrics::agreement::{Variance, average_variance, cronbach_alpha};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Published {
    gecs: Vec<Gecs>,
    languages: Vec<Languages>,
    gecs_pairs: Pairs,
    /// For each model, by measure, the values for 2, 3, 4 and 5 positives.
    by_positives: Vec<BTreeMap<String, [f64; 4]>>,
    cosqa_plus: CosqaPlus,
}

#[derive(Deserialize)]
struct Gecs {
    model: String,
    #[serde(default)]
    corrected: BTreeMap<String, [f64; 2]>,
    /// Accuracy and MRR by set or type.
    #[serde(flatten)]
    values: BTreeMap<String, [f64; 2]>,
}

#[derive(Deserialize)]
struct Languages {
    model: String,
    accuracy: Vec<f64>,
    mrr: Vec<f64>,
}

#[derive(Deserialize)]
struct Pairs {
    sets: Vec<u32>,
    all: u32,
}

#[derive(Deserialize)]
struct CosqaPlus {
    queries_by_positives: Vec<u32>,
    queries: u32,
    positives: u32,
    retrieval: Vec<[f64; 2]>,
}

fn published() -> Published {
    toml::from_str(include_str!("published.toml")).unwrap()
}

/// Returns whether a computed number agrees with the printed one, given that its inputs were rounded too.
fn agrees(computed: f64, printed: f64) -> bool {
    (computed - printed).abs() < 1.1e-4
}

const SETS: [&str; 4] = ["csn", "advtest", "cosqa", "statcodesearch"];
const TYPES: [&str; 4] = ["robustness", "cross-lingual", "domain", "combined"];

#[test]
fn four_aggregates_of_gencodesearchnet_do_not_follow_from_their_parts() {
    let mut wrong = Vec::new();
    for Gecs { model, corrected, values } in published().gecs {
        for (column, measure) in ["accuracy", "mrr"].into_iter().enumerate() {
            let printed = |names: &[&str]| -> BTreeMap<String, f64> {
                names.iter().map(|name| ((*name).to_owned(), values[*name][column])).collect()
            };
            if values["csn"][column] < 0.0 {
                continue;
            }
            let mut computed = generalization(&printed(&SETS));
            // The combined value follows from the values by type as printed, correct or not.
            computed.insert("combined".into(), generalization(&printed(&TYPES[..3]))["combined"]);
            for name in TYPES {
                if !agrees(computed[name], values[name][column]) {
                    assert!(agrees(computed[name], corrected[name][column]), "{model} {name} {computed:?}");
                    wrong.push((model.clone(), name, measure));
                }
            }
        }
    }
    let cell = |model: &str, name, measure| (model.to_owned(), name, measure);
    assert_eq!(
        wrong,
        [
            cell("RoBERTa", "cross-lingual", "mrr"),
            cell("CodeBERT", "cross-lingual", "accuracy"),
            cell("CodeBERT", "combined", "mrr"),
            cell("CodeT5+ fine-tuned", "robustness", "mrr"),
        ]
    );
}

#[test]
fn codesearchnet_is_the_mean_of_its_languages() {
    let published = published();
    for Languages { model, accuracy, mrr } in &published.languages {
        let of_model = published.gecs.iter().find(|of| of.model == *model).unwrap();
        for (column, values) in [accuracy, mrr].into_iter().enumerate() {
            let names = ["ruby", "go", "php", "java", "javascript"].map(str::to_owned);
            let sets: BTreeMap<String, f64> = names.into_iter().zip(values.iter().copied()).collect();
            match generalization(&sets).get("csn") {
                Some(mean) => assert!(agrees(*mean, of_model.values["csn"][column]), "{model} {mean}"),
                None => assert!(of_model.values["csn"][column] < 0.0, "{model}"),
            }
        }
    }
    assert_eq!(published.gecs_pairs.sets.iter().sum::<u32>(), published.gecs_pairs.all);
}

#[test]
fn mmrr_is_the_least_reliable_by_cronbach_and_the_steadiest_by_variance() {
    let published = published().by_positives;
    let parts = |model: &BTreeMap<String, [f64; 4]>| -> BTreeMap<String, BTreeMap<String, f64>> {
        let part = |(place, n): (usize, usize)| {
            let means = model.iter().map(|(name, values)| (name.clone(), values[place])).collect();
            (format!("{n} positives"), means)
        };
        [2, 3, 4, 5].into_iter().enumerate().map(part).collect()
    };
    let found = reliability(&published.iter().map(parts).collect::<Vec<_>>());
    for (measure, alpha, variance) in
        [("mmrr", 0.956, 0.0006), ("map", 0.990, 0.0071), ("mrr", 0.993, 0.0116)]
    {
        let value = |name: &str| found[&format!("{measure}: {name}")];
        assert!((value("cronbach alpha") - alpha).abs() < 5e-4, "{measure} {found:?}");
        assert!((value("average variance") - variance).abs() < 6e-5, "{measure} {found:?}");
    }
    assert!((found["mmrr: cronbach alpha"] - 0.9558).abs() < 5e-5, "{found:?}");
    // The published variance of 0.0004 is neither the population variance nor the sample variance.
    let table: Vec<Vec<Option<f64>>> =
        (0..4).map(|place| published.iter().map(|model| Some(model["mmrr"][place])).collect()).collect();
    assert!((average_variance(&table, Variance::Sample).unwrap() - 0.0008).abs() < 5e-5);
    // With the sets of queries as items, alpha differs.
    let transposed: Vec<Vec<Option<f64>>> =
        (0..3).map(|model| table.iter().map(|row| row[model]).collect()).collect();
    assert!((cronbach_alpha(&transposed).unwrap() - 0.994).abs() < 5e-4);
}

#[test]
fn counts_of_the_papers_follow_from_each_other() {
    let CosqaPlus { queries_by_positives, queries, positives, retrieval } = published().cosqa_plus;
    assert_eq!(queries_by_positives.iter().sum::<u32>(), queries);
    let counted = queries_by_positives.iter().zip(1..).map(|(queries, positives)| queries * positives);
    assert_eq!(counted.sum::<u32>(), positives);
    // MRR below NDCG@10 by nearly identical factor for all methods (V4).
    for [ndcg, mrr] in retrieval {
        assert!((0.735..0.765).contains(&(mrr / ndcg)), "{mrr} {ndcg}");
    }
    // GPT-3.5's accuracy on the CoSQA set is its share of True among 10,293 matches (G6).
    assert!(agrees(3_379.0 / 10_293.0, 0.3282));
    // Chance: the mean reciprocal rank of a random order of n documents is the n-th harmonic number over n (C5).
    let chance = |n: u32| (1..=n).map(|rank| 1.0 / f64::from(rank)).sum::<f64>() / f64::from(n);
    assert!((chance(6_267) - 0.00149).abs() < 5e-6 && (chance(100) - 0.0519).abs() < 5e-5);
}
