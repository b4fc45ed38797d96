//! Agreement of query sources with labels on the order of methods.

use std::collections::BTreeMap;

use serde::Serialize;

use super::QuerySource;
use quarry_metrics::agreement::{kendall_tau_b, spearman};
use quarry_metrics::significance::{Bootstrap, Interval, resampled_interval};

/// Minimum number of queries of a source in a repository; with fewer, the source is ignored.
pub const MIN_QUESTIONS: usize = 10;

/// Means of the variants in one repository, by labels and by each source of queries.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RepositoryValues {
    /// Short name of the repository.
    pub repository: String,
    /// Number of labeled queries.
    pub questions: usize,
    /// Mean of each variant by labels.
    pub labels: Vec<f64>,
    /// Number of queries and mean of each variant, by source.
    #[serde(rename = "proxies")]
    pub sources: BTreeMap<QuerySource, (usize, Vec<f64>)>,
}

/// Agreement of the order of the variants by a source of queries with that by labels.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SourceAgreement {
    /// Name of the source, or `all` for the mean over the sources of a repository.
    #[serde(rename = "proxy")]
    pub source: String,
    /// Number of repositories with enough queries.
    pub repositories: usize,
    /// Number of queries in them.
    pub questions: usize,
    /// Kendall's tau-b of the means over repositories.
    pub kendall: Option<Estimate>,
    /// Spearman's correlation of the means over repositories.
    pub spearman: Option<Estimate>,
    /// Mean over repositories of Kendall's tau-b within each, relevant for a user with one repository.
    pub kendall_within: Option<Estimate>,
    /// Name of the best variant by the source, over repositories.
    pub picks: String,
    /// Mean of that variant by labels, over the same repositories.
    pub picked: f64,
    /// Mean of the default by labels.
    pub default: f64,
    /// Mean by labels of the variant that is best by labels.
    pub best: f64,
    /// Number of repositories in which the source's best variant is by labels at least as good as the default.
    pub harmless: usize,
}

/// A correlation, and its bootstrap interval over repositories.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Estimate {
    /// Correlation, -1 to 1.
    pub value: f64,
    /// Its interval; `None` for a single repository.
    pub interval: Option<Interval>,
}

/// Agreement of each source that has enough queries in any repository, and of all sources together. `names` are those
/// of the variants, the default first.
pub fn agreement(
    repositories: &[RepositoryValues],
    names: &[String],
    bootstrap: &Bootstrap,
) -> Vec<SourceAgreement> {
    let sources = [QuerySource::Docstring, QuerySource::Commit, QuerySource::Test];
    let of_source = |source: QuerySource| {
        let pair = |values: &RepositoryValues| {
            let (questions, means) = values.sources.get(&source)?;
            (*questions >= MIN_QUESTIONS).then(|| Pair::new(values, *questions, means.clone()))
        };
        (source.to_string(), repositories.iter().filter_map(pair).collect::<Vec<_>>())
    };
    let all = |values: &RepositoryValues| {
        let enough: Vec<&(usize, Vec<f64>)> =
            values.sources.values().filter(|(questions, _)| *questions >= MIN_QUESTIONS).collect();
        let mean = |variant: usize| {
            enough.iter().map(|(_, means)| means[variant]).sum::<f64>() / enough.len() as f64
        };
        let questions = enough.iter().map(|(questions, _)| questions).sum();
        (!enough.is_empty()).then(|| Pair::new(values, questions, (0..names.len()).map(mean).collect()))
    };
    let of_all = ("all".to_owned(), repositories.iter().filter_map(all).collect::<Vec<_>>());
    let pairs = sources.into_iter().map(of_source).chain([of_all]);
    pairs
        .filter(|(_, pairs)| !pairs.is_empty())
        .map(|(source, pairs)| source_agreement(source, &pairs, names, bootstrap))
        .collect()
}

struct Pair {
    questions: usize,
    source: Vec<f64>,
    labels: Vec<f64>,
}

impl Pair {
    fn new(values: &RepositoryValues, questions: usize, source: Vec<f64>) -> Self {
        Self { questions, source, labels: values.labels.clone() }
    }
}

fn source_agreement(
    source: String,
    pairs: &[Pair],
    names: &[String],
    bootstrap: &Bootstrap,
) -> SourceAgreement {
    let means = |side: fn(&Pair) -> &Vec<f64>, drawn: &[usize]| -> Vec<f64> {
        let mean = |variant: usize| {
            drawn.iter().map(|&at| side(&pairs[at])[variant]).sum::<f64>() / drawn.len() as f64
        };
        (0..names.len()).map(mean).collect()
    };
    let everything: Vec<usize> = (0..pairs.len()).collect();
    let estimate = |statistic: &dyn Fn(&[usize]) -> Option<f64>| {
        let value = statistic(&everything)?;
        // Resampling a single repository always returns the same one.
        let interval =
            if pairs.len() < 2 { None } else { resampled_interval(pairs.len(), bootstrap, statistic) };
        Some(Estimate { value, interval })
    };
    let between = |correlation: fn(&[f64], &[f64]) -> Option<f64>| {
        estimate(&|drawn| correlation(&means(|pair| &pair.source, drawn), &means(|pair| &pair.labels, drawn)))
    };
    let within: Vec<Option<f64>> =
        pairs.iter().map(|pair| kendall_tau_b(&pair.source, &pair.labels)).collect();
    let (by_source, by_labels) =
        (means(|pair| &pair.source, &everything), means(|pair| &pair.labels, &everything));
    let picked = best(&by_source);
    SourceAgreement {
        source,
        repositories: pairs.len(),
        questions: pairs.iter().map(|pair| pair.questions).sum(),
        kendall: between(kendall_tau_b),
        spearman: between(spearman),
        kendall_within: estimate(&|drawn| {
            let values: Vec<f64> = drawn.iter().filter_map(|&at| within[at]).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        }),
        picks: names[picked].clone(),
        picked: by_labels[picked],
        default: by_labels[0],
        best: by_labels[best(&by_labels)],
        harmless: pairs.iter().filter(|pair| pair.labels[best(&pair.source)] >= pair.labels[0]).count(),
    }
}

/// Index of the maximum; the first of ties.
fn best(values: &[f64]) -> usize {
    let mut best = 0;
    for (position, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = position;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["default", "b", "c", "d"].map(String::from).to_vec()
    }

    fn values(labels: [f64; 4], sources: &[(QuerySource, usize, [f64; 4])]) -> RepositoryValues {
        let sources = sources.iter().map(|(source, n, means)| (*source, (*n, means.to_vec()))).collect();
        RepositoryValues { repository: "r".into(), questions: 20, labels: labels.to_vec(), sources }
    }

    #[test]
    fn the_same_order_is_1_and_the_other_one_is_less() {
        let labels = [0.4, 0.3, 0.2, 0.1];
        let repositories = [
            values(
                labels,
                &[
                    (QuerySource::Docstring, 10, [0.8, 0.7, 0.6, 0.5]),
                    (QuerySource::Test, 30, [0.1, 0.2, 0.3, 0.4]),
                ],
            ),
            values(
                labels,
                &[(QuerySource::Docstring, 20, [0.9, 0.7, 0.6, 0.5]), (QuerySource::Commit, 9, [0.1; 4])],
            ),
        ];
        let found = agreement(&repositories, &names(), &Bootstrap::default());
        let by_name: Vec<(&str, usize, usize)> =
            found.iter().map(|found| (found.source.as_str(), found.repositories, found.questions)).collect();
        assert_eq!(by_name, [("docstring", 2, 30), ("test", 1, 30), ("all", 2, 60)]);
        let one = Estimate { value: 1.0, interval: Some(Interval { low: 1.0, high: 1.0 }) };
        assert_eq!((found[0].kendall, found[0].kendall_within), (Some(one), Some(one)));
        assert!((found[0].spearman.unwrap().value - 1.0).abs() < 1e-12);
        assert_eq!((found[0].picks.as_str(), found[0].harmless), ("default", 2));
        // One repository has no interval.
        assert_eq!(found[1].kendall, Some(Estimate { value: -1.0, interval: None }));
        assert_eq!(
            (found[1].picks.as_str(), found[1].picked, found[1].default, found[1].best),
            ("d", 0.1, 0.4, 0.4)
        );
        assert_eq!(found[1].harmless, 0);
    }

    #[test]
    fn the_interval_is_over_repositories() {
        let source = [0.4, 0.3, 0.2, 0.1];
        let repositories = [
            values(source, &[(QuerySource::Docstring, 10, source)]),
            values([0.1, 0.2, 0.3, 0.4], &[(QuerySource::Docstring, 10, source)]),
        ];
        let found = agreement(&repositories, &names(), &Bootstrap::default()).swap_remove(0);
        let within = found.kendall_within.unwrap();
        assert_eq!((within.value, within.interval), (0.0, Some(Interval { low: -1.0, high: 1.0 })));
        // By the mean of the labels, all variants are equal.
        assert_eq!(found.kendall, None);
    }
}
