//! Which method is best on a repository, and whether that is more than chance.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::variants::Variant;
use super::view::View;
use super::{Asked, Proxy};
use crate::EvalError;
use quarry_metrics::MetricsError;
use quarry_metrics::significance::{
    Bootstrap, Interval, PairedComparison, compare_paired, correct_together, mean, mean_interval,
};

/// Level of significance.
const SIGNIFICANCE: f64 = 0.05;

/// What was found, proxy by proxy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the variant that the others are compared with: how `quarry search` ranks.
    pub default: String,
    /// One entry a proxy.
    pub proxies: Vec<ProxyReport>,
    /// What to make of it.
    pub advice: Advice,
}

/// How well the variants answer the questions of one proxy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProxyReport {
    /// Where the questions come from.
    pub proxy: Proxy,
    /// What was hidden.
    pub view: View,
    /// Number of questions.
    pub questions: usize,
    /// How much was left out, by the reason.
    pub left_out: BTreeMap<&'static str, usize>,
    /// One entry a variant, in the order of the table.
    pub variants: Vec<VariantReport>,
    /// Name of the best; of equals the first.
    pub best: String,
    /// Name of the next best.
    pub next: String,
    /// The best less the next.
    pub best_and_next: Difference,
}

/// How well a variant answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantReport {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Mean NDCG@10.
    #[serde(rename = "ndcg@10")]
    pub ndcg: f64,
    /// Bootstrap interval of the mean.
    pub interval: Interval,
    /// The variant less the default; none for the default itself.
    pub to_default: Option<Difference>,
}

/// A difference of means over the same questions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Of the means.
    pub difference: f64,
    /// Bootstrap interval.
    pub interval: Interval,
    /// p-value of the paired randomisation test.
    pub p: f64,
    /// The same, corrected (Holm) over every difference of the report.
    pub p_holm: f64,
    /// Difference that a test of one pair over so many questions would find four times in five.
    pub detectable: Option<f64>,
}

impl Difference {
    /// Whether it is more than chance, at 0.05 after correction.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.p_holm < SIGNIFICANCE
    }

    fn of(found: &PairedComparison) -> Self {
        let test = &found.tests["randomisation"];
        Self {
            difference: found.difference.difference,
            interval: found.difference.interval,
            p: test.test.p,
            p_holm: test.p_holm,
            detectable: found.minimum_detectable_difference,
        }
    }
}

/// What to make of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "advice", rename_all = "snake_case")]
pub enum Advice {
    /// No variant is really better than the default by any proxy.
    KeepDefault {
        /// Greatest difference that the questions of the proxy with the most of them would still have hidden.
        detectable: Option<f64>,
    },
    /// A variant is really better than the default by some proxies and really worse by none.
    Change {
        /// Its name.
        variant: String,
        /// By which.
        proxies: Vec<Proxy>,
        /// What to do to search so, where a setting does it.
        setting: Option<String>,
    },
    /// What is really better by one proxy is really worse by another.
    Disagreement {
        /// Name of a variant.
        variant: String,
        /// By which it is better.
        better: Vec<Proxy>,
        /// By which it is worse.
        worse: Vec<Proxy>,
    },
}

/// Reports on the values that [`super::evaluation::evaluate`] gives. Every variant is compared with the first one, and
/// the best by each proxy with the next; p-values are corrected over all of these together.
///
/// # Errors
/// When there are fewer than two variants, or no question.
pub fn report(
    asked: &[Asked],
    variants: &[Variant],
    values: &[Vec<Vec<f64>>],
    bootstrap: &Bootstrap,
) -> Result<Report, EvalError> {
    let [default, _, ..] = variants else {
        return Err(MetricsError::Values { found: "fewer than two methods".into() }.into());
    };
    struct Compared {
        /// Best first.
        order: Vec<usize>,
        /// With the default, of all but the default.
        to_default: Vec<PairedComparison>,
        best_and_next: PairedComparison,
    }
    let mut compared = values
        .iter()
        .map(|values| {
            let means: Vec<f64> = values.iter().map(|values| mean(&[values])).collect();
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&a, &b| means[b].total_cmp(&means[a]));
            let compare = |a: &[f64], b: &[f64]| compare_paired(a, b, a.len(), bootstrap);
            Ok(Compared {
                to_default: values[1..]
                    .iter()
                    .map(|of_variant| compare(&values[0], of_variant))
                    .collect::<Result<_, _>>()?,
                best_and_next: compare(&values[order[1]], &values[order[0]])?,
                order,
            })
        })
        .collect::<Result<Vec<_>, MetricsError>>()?;
    correct_together(
        compared
            .iter_mut()
            .flat_map(|compared| compared.to_default.iter_mut().chain([&mut compared.best_and_next])),
    );
    let mut proxies = Vec::new();
    for ((asked, values), compared) in asked.iter().zip(values).zip(&compared) {
        let of_variant = |(place, variant): (usize, &Variant)| {
            Ok(VariantReport {
                name: variant.name.clone(),
                about: variant.about.clone(),
                ndcg: mean(&[&values[place]]),
                interval: mean_interval(&[&values[place]], bootstrap)?,
                to_default: place.checked_sub(1).map(|place| Difference::of(&compared.to_default[place])),
            })
        };
        proxies.push(ProxyReport {
            proxy: asked.proxy,
            view: asked.view,
            questions: asked.questions.queries.len(),
            left_out: asked.questions.left_out.clone(),
            variants: variants.iter().enumerate().map(of_variant).collect::<Result<_, EvalError>>()?,
            best: variants[compared.order[0]].name.clone(),
            next: variants[compared.order[1]].name.clone(),
            best_and_next: Difference::of(&compared.best_and_next),
        });
    }
    let advice = advice(&proxies, variants);
    Ok(Report { default: default.name.clone(), proxies, advice })
}

fn advice(proxies: &[ProxyReport], variants: &[Variant]) -> Advice {
    struct Candidate<'a> {
        variant: &'a Variant,
        better: Vec<Proxy>,
        worse: Vec<Proxy>,
        /// Over all proxies.
        sum: f64,
    }
    let candidate = |(place, variant): (usize, _)| {
        let differences = || {
            let of = |report: &ProxyReport| Some((report.proxy, report.variants[place].to_default?));
            proxies.iter().filter_map(of)
        };
        let real = |is_better: bool| {
            let is_so =
                |found: &(Proxy, Difference)| found.1.is_real() && (found.1.difference > 0.0) == is_better;
            differences().filter(is_so).map(|(proxy, _)| proxy).collect()
        };
        let sum = differences().map(|(_, found)| found.difference).sum();
        Candidate { variant, better: real(true), worse: real(false), sum }
    };
    let mut candidates: Vec<Candidate<'_>> = variants
        .iter()
        .enumerate()
        .map(candidate)
        .filter(|candidate: &Candidate<'_>| !candidate.better.is_empty())
        .collect();
    // Those that are worse by nothing come first, then what is better by more.
    candidates
        .sort_by(|a, b| a.worse.is_empty().cmp(&b.worse.is_empty()).reverse().then(b.sum.total_cmp(&a.sum)));
    match candidates.into_iter().next() {
        None => {
            let most = proxies.iter().max_by_key(|report| report.questions);
            Advice::KeepDefault {
                detectable: most.and_then(|report| {
                    let of = |variant: &VariantReport| variant.to_default.and_then(|found| found.detectable);
                    report.variants.iter().filter_map(of).max_by(f64::total_cmp)
                }),
            }
        }
        Some(Candidate { variant, better, worse, .. }) if worse.is_empty() => Advice::Change {
            variant: variant.name.clone(),
            proxies: better,
            setting: variant.setting.clone(),
        },
        Some(Candidate { variant, better, worse, .. }) => {
            Advice::Disagreement { variant: variant.name.clone(), better, worse }
        }
    }
}

fn listed(proxies: &[Proxy]) -> String {
    let names: Vec<String> = proxies.iter().map(Proxy::to_string).collect();
    names.join(" and ")
}

impl Report {
    /// A table of variants by proxies, and sentences about it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{:<16}", "NDCG@10");
        for report in &self.proxies {
            let _ = write!(text, " {:>20}", format!("{} ({})", report.proxy, report.questions));
        }
        text.push('\n');
        let n_variants = self.proxies.first().map_or(0, |report| report.variants.len());
        for place in 0..n_variants {
            let _ = write!(text, "{:<16}", self.proxies[0].variants[place].name);
            for report in &self.proxies {
                let variant = &report.variants[place];
                let best = if variant.name == report.best { "*" } else { "" };
                let mark = match variant.to_default {
                    Some(found) if found.is_real() && found.difference > 0.0 => "+",
                    Some(found) if found.is_real() => "-",
                    _ => "",
                };
                let _ = write!(text, " {:>18}{:<2}", format!("{:.3}", variant.ndcg), format!("{mark}{best}"));
            }
            let _ = writeln!(text, " {}", self.proxies[0].variants[place].about);
        }
        let _ = writeln!(
            text,
            "\n* the best, + really better than {:?}, - really worse (paired randomisation, p < 0.05, corrected by Holm over the table)\n",
            self.default
        );
        for report in &self.proxies {
            let found = &report.best_and_next;
            let chance = if found.is_real() { "more than chance" } else { "no more than chance" };
            let _ = writeln!(
                text,
                "{}: {} is best; it is {:.3} above {}, {chance} (p = {:.4}, corrected {:.4})",
                report.proxy, report.best, found.difference, report.next, found.p, found.p_holm
            );
        }
        text + "\n" + &self.advice.text() + "\n"
    }
}

impl Advice {
    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Advice::KeepDefault { detectable } => {
                let hidden = detectable.map_or_else(String::new, |difference| {
                    format!("; what is less than {difference:.3} better would not have been seen")
                });
                format!("Search as it is does best here, or as well as the best: keep it{hidden}.")
            }
            Advice::Change { variant, proxies, setting } => {
                let proxies = listed(proxies);
                let setting = setting.as_ref().map_or_else(
                    || "quarry search has no setting for it".to_owned(),
                    |setting| format!("to search so: {setting}"),
                );
                format!(
                    "{variant:?} is really better here by {proxies}, and really worse by nothing; {setting}."
                )
            }
            Advice::Disagreement { variant, better, worse } => format!(
                "The proxies disagree: {variant:?} is really better by {} and really worse by {}. Keep search as it is, or ask questions of your own (--ask).",
                listed(better),
                listed(worse)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::variants::variants;
    use super::super::{LabelledQuery, Questions};
    use super::*;

    /// Reports on means of the first three variants, by proxy; each of 60 questions moves by as much.
    fn of(means: &[[f64; 3]]) -> Report {
        let variants: Vec<Variant> = variants(true).unwrap().into_iter().take(3).collect();
        let proxies = [Proxy::Docstring, Proxy::Commit];
        let query = LabelledQuery { text: String::new(), answers: vec![] };
        let questions = Questions { queries: vec![query; 60], ..Questions::default() };
        let asked: Vec<Asked> = proxies
            .iter()
            .zip(means)
            .map(|(&proxy, _)| Asked { proxy, view: View::default(), questions: questions.clone() })
            .collect();
        let noise = |n: usize| ((n * 37 % 60) as f64 / 60.0 - 0.5) / 10.0;
        let of_variant = |mean: f64, variant: usize| -> Vec<f64> {
            (0..60).map(|n| mean + noise(n + 7 * variant) - noise(59 - n)).collect()
        };
        let values: Vec<Vec<Vec<f64>>> = means
            .iter()
            .map(|means| means.iter().enumerate().map(|(place, &mean)| of_variant(mean, place)).collect())
            .collect();
        report(&asked, &variants, &values, &Bootstrap::default()).unwrap()
    }

    #[test]
    fn the_default_is_kept_where_nothing_is_really_better() {
        let report = of(&[[0.5, 0.501, 0.3]]);
        assert_eq!(report.proxies[0].best, report.proxies[0].variants[1].name);
        assert!(matches!(report.advice, Advice::KeepDefault { detectable: Some(_) }), "{:?}", report.advice);
        let worse = report.proxies[0].variants[2].to_default.unwrap();
        assert!(worse.is_real() && worse.difference < 0.0);
        assert!(report.proxies[0].variants[0].to_default.is_none());
        let text = report.text();
        assert!(text.contains("0.501*") && text.contains("0.300-"), "{text}");
        assert!(text.contains("no more than chance") && text.contains("keep it"), "{text}");
    }

    #[test]
    fn a_better_method_is_advised_unless_a_proxy_speaks_against_it() {
        let Advice::Change { variant, proxies, setting } = of(&[[0.5, 0.7, 0.3], [0.5, 0.5, 0.3]]).advice
        else {
            panic!("a change")
        };
        assert_eq!((variant.as_str(), proxies, setting), ("no rules", vec![Proxy::Docstring], None));
        let report = of(&[[0.5, 0.7, 0.3], [0.5, 0.3, 0.3]]);
        let expected = Advice::Disagreement {
            variant: "no rules".into(),
            better: vec![Proxy::Docstring],
            worse: vec![Proxy::Commit],
        };
        assert_eq!(report.advice, expected);
        assert!(report.text().contains("disagree"));
    }

    #[test]
    fn p_values_are_corrected_over_the_whole_table() {
        let (one, two) = (of(&[[0.5, 0.52, 0.5]]), of(&[[0.5, 0.52, 0.5], [0.5, 0.52, 0.5]]));
        let p = |report: &Report| report.proxies[0].variants[1].to_default.unwrap();
        assert_eq!(p(&one).p, p(&two).p);
        assert!(p(&one).p_holm <= p(&two).p_holm && p(&one).p < p(&one).p_holm);
    }
}
