//! How far the proxies order methods as labels do.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Proxy;
use quarry_metrics::agreement::{kendall_tau_b, spearman};
use quarry_metrics::significance::{Bootstrap, Interval, resampled_interval};

/// Fewest questions of a proxy in a repository for which its order of methods counts.
pub const MIN_QUESTIONS: usize = 10;

/// What labels and proxies say of the variants in one repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepositoryValues {
    /// Its short name.
    pub repository: String,
    /// Number of labelled questions.
    pub questions: usize,
    /// Mean of each variant by labels.
    pub labels: Vec<f64>,
    /// Number of questions and mean of each variant, by proxy.
    pub proxies: BTreeMap<Proxy, (usize, Vec<f64>)>,
}

/// How far a proxy orders the variants as labels do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProxyAgreement {
    /// The proxy, or `all` for the mean over those that a repository has.
    pub proxy: String,
    /// Repositories with questions enough.
    pub repositories: usize,
    /// Questions in them.
    pub questions: usize,
    /// Of the means over repositories: Kendall's tau-b.
    pub kendall: Option<Estimate>,
    /// Of the means over repositories: Spearman's correlation.
    pub spearman: Option<Estimate>,
    /// Within a repository, as its user sees it: the mean over repositories of Kendall's tau-b.
    pub kendall_within: Option<Estimate>,
    /// Name of the variant that is best by the proxy, over repositories.
    pub picks: String,
    /// The mean of that variant by labels, over the same repositories.
    pub picked: f64,
    /// That of the default.
    pub default: f64,
    /// That of the variant that is best by labels.
    pub best: f64,
    /// How many repositories' own pick by the proxy is by labels at least as good there as the default.
    pub harmless: usize,
}

/// A correlation and its interval over repositories, drawn again with all their questions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// -1 to 1.
    pub value: f64,
    /// Bootstrap interval.
    pub interval: Option<Interval>,
}

/// Agreement of each proxy that any repository has questions enough of, and of all together. `names` are those of the
/// variants, the default first.
#[must_use]
pub fn agreement(
    repositories: &[RepositoryValues],
    names: &[String],
    bootstrap: &Bootstrap,
) -> Vec<ProxyAgreement> {
    let proxies = [Proxy::Docstring, Proxy::Commit, Proxy::Test];
    let of_proxy = |proxy: Proxy| {
        let of = |values: &RepositoryValues| {
            let (questions, means) = values.proxies.get(&proxy)?;
            (*questions >= MIN_QUESTIONS).then(|| Pair::new(values, *questions, means.clone()))
        };
        (proxy.to_string(), repositories.iter().filter_map(of).collect::<Vec<_>>())
    };
    let all = |values: &RepositoryValues| {
        let enough: Vec<&(usize, Vec<f64>)> =
            values.proxies.values().filter(|(questions, _)| *questions >= MIN_QUESTIONS).collect();
        let mean = |variant: usize| {
            enough.iter().map(|(_, means)| means[variant]).sum::<f64>() / enough.len() as f64
        };
        let questions = enough.iter().map(|(questions, _)| questions).sum();
        (!enough.is_empty()).then(|| Pair::new(values, questions, (0..names.len()).map(mean).collect()))
    };
    let of_all = ("all".to_owned(), repositories.iter().filter_map(all).collect::<Vec<_>>());
    let pairs = proxies.into_iter().map(of_proxy).chain([of_all]);
    pairs
        .filter(|(_, pairs)| !pairs.is_empty())
        .map(|(proxy, pairs)| of(proxy, &pairs, names, bootstrap))
        .collect()
}

/// Means of the variants in one repository.
struct Pair {
    questions: usize,
    proxy: Vec<f64>,
    labels: Vec<f64>,
}

impl Pair {
    fn new(values: &RepositoryValues, questions: usize, proxy: Vec<f64>) -> Self {
        Self { questions, proxy, labels: values.labels.clone() }
    }
}

fn of(proxy: String, pairs: &[Pair], names: &[String], bootstrap: &Bootstrap) -> ProxyAgreement {
    let means = |side: fn(&Pair) -> &Vec<f64>, drawn: &[usize]| -> Vec<f64> {
        let mean = |variant: usize| {
            drawn.iter().map(|&at| side(&pairs[at])[variant]).sum::<f64>() / drawn.len() as f64
        };
        (0..names.len()).map(mean).collect()
    };
    let everything: Vec<usize> = (0..pairs.len()).collect();
    let estimate = |statistic: &dyn Fn(&[usize]) -> Option<f64>| {
        let value = statistic(&everything)?;
        // One repository drawn again is the same.
        let interval =
            if pairs.len() < 2 { None } else { resampled_interval(pairs.len(), bootstrap, statistic) };
        Some(Estimate { value, interval })
    };
    let between = |correlation: fn(&[f64], &[f64]) -> Option<f64>| {
        estimate(&|drawn| correlation(&means(|pair| &pair.proxy, drawn), &means(|pair| &pair.labels, drawn)))
    };
    let within: Vec<Option<f64>> =
        pairs.iter().map(|pair| kendall_tau_b(&pair.proxy, &pair.labels)).collect();
    let (by_proxy, by_labels) =
        (means(|pair| &pair.proxy, &everything), means(|pair| &pair.labels, &everything));
    let picked = best(&by_proxy);
    ProxyAgreement {
        proxy,
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
        harmless: pairs.iter().filter(|pair| pair.labels[best(&pair.proxy)] >= pair.labels[0]).count(),
    }
}

/// The place of the greatest value; of equals the first.
fn best(values: &[f64]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
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

    fn values(labels: [f64; 4], proxies: &[(Proxy, usize, [f64; 4])]) -> RepositoryValues {
        let proxies = proxies.iter().map(|(proxy, n, means)| (*proxy, (*n, means.to_vec()))).collect();
        RepositoryValues { repository: "r".into(), questions: 20, labels: labels.to_vec(), proxies }
    }

    #[test]
    fn the_same_order_is_1_and_the_other_one_is_less() {
        let labels = [0.4, 0.3, 0.2, 0.1];
        let repositories = [
            values(
                labels,
                &[(Proxy::Docstring, 10, [0.8, 0.7, 0.6, 0.5]), (Proxy::Test, 30, [0.1, 0.2, 0.3, 0.4])],
            ),
            values(labels, &[(Proxy::Docstring, 20, [0.9, 0.7, 0.6, 0.5]), (Proxy::Commit, 9, [0.1; 4])]),
        ];
        let found = agreement(&repositories, &names(), &Bootstrap::default());
        let by_name: Vec<(&str, usize, usize)> =
            found.iter().map(|found| (found.proxy.as_str(), found.repositories, found.questions)).collect();
        assert_eq!(by_name, [("docstring", 2, 30), ("test", 1, 30), ("all", 2, 60)]);
        let one = Estimate { value: 1.0, interval: Some(Interval { low: 1.0, high: 1.0 }) };
        assert_eq!((found[0].kendall, found[0].kendall_within), (Some(one), Some(one)));
        assert!((found[0].spearman.unwrap().value - 1.0).abs() < 1e-12);
        assert_eq!((found[0].picks.as_str(), found[0].harmless), ("default", 2));
        // Of one repository there is no interval.
        assert_eq!(found[1].kendall, Some(Estimate { value: -1.0, interval: None }));
        assert_eq!(
            (found[1].picks.as_str(), found[1].picked, found[1].default, found[1].best),
            ("d", 0.1, 0.4, 0.4)
        );
        assert_eq!(found[1].harmless, 0);
    }

    #[test]
    fn the_interval_is_over_repositories() {
        let proxy = [0.4, 0.3, 0.2, 0.1];
        let repositories = [
            values(proxy, &[(Proxy::Docstring, 10, proxy)]),
            values([0.1, 0.2, 0.3, 0.4], &[(Proxy::Docstring, 10, proxy)]),
        ];
        let found = agreement(&repositories, &names(), &Bootstrap::default()).swap_remove(0);
        let within = found.kendall_within.unwrap();
        assert_eq!((within.value, within.interval), (0.0, Some(Interval { low: -1.0, high: 1.0 })));
        // All variants are equal by the mean of the labels.
        assert_eq!(found.kendall, None);
    }
}
