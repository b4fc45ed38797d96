//! Report of the best method on a repository, and of the significance of differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::variants::Variant;
use super::view::View;
use super::{QuerySet, QuerySource};
use crate::EvalError;
use quarry_metrics::MetricsError;
use quarry_metrics::significance::{
    Bootstrap, Interval, PairedComparison, compare_paired, correct_together, mean, mean_interval,
};
use quarry_metrics::table::{Sections, Table};

const SIGNIFICANCE: f64 = 0.05;

/// The comparison of all variants, by source of queries.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SelfBenchmarkReport {
    /// Name of the variant to which the others are compared: the default ranking of `quarry search`.
    pub default: String,
    /// One entry per source.
    #[serde(rename = "proxies")]
    pub sources: Vec<SourceReport>,
    /// The recommendation.
    pub advice: Advice,
}

/// Measures of the variants on the queries of one source.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "SelfBenchmarkSource")]
pub struct SourceReport {
    /// Source of the queries.
    #[serde(rename = "proxy")]
    pub source: QuerySource,
    /// Text hidden from search.
    pub view: View,
    /// Number of queries.
    pub questions: usize,
    /// Number of rejected candidates, by reason.
    pub left_out: BTreeMap<&'static str, usize>,
    /// One entry per variant, in the order of the table.
    pub variants: Vec<VariantReport>,
    /// Name of the best variant; the first of ties.
    pub best: String,
    /// Name of the second best variant.
    pub next: String,
    /// Best minus second best.
    pub best_and_next: Difference,
}

/// Measures of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "SelfBenchmarkVariant")]
pub struct VariantReport {
    /// Name of the variant.
    pub name: String,
    /// Description in a few words.
    pub about: String,
    /// Mean NDCG@10.
    #[serde(rename = "ndcg@10")]
    pub ndcg: f64,
    /// Bootstrap interval of the mean.
    pub interval: Interval,
    /// Variant minus default; `None` for the default itself.
    pub to_default: Option<Difference>,
}

/// A difference of means over the same queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// Difference of the means.
    pub difference: f64,
    /// Bootstrap interval.
    pub interval: Interval,
    /// p-value of the paired randomization test.
    pub p: f64,
    /// The p-value, corrected (Holm) over all differences of the report.
    pub p_holm: f64,
    /// Minimum difference that a test with this many queries detects with a power of 80 %.
    pub detectable: Option<f64>,
}

impl Difference {
    /// Returns true if the difference is significant at 0.05 after correction.
    pub fn is_significant(&self) -> bool {
        self.p_holm < SIGNIFICANCE
    }

    fn new(found: &PairedComparison) -> Self {
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

/// A recommendation.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(tag = "advice", rename_all = "snake_case")]
pub enum Advice {
    /// No variant is significantly better than the default by any source.
    KeepDefault {
        /// Maximum over variants of the minimum detectable difference, by the source with the most queries.
        detectable: Option<f64>,
    },
    /// A variant is significantly better than the default by some sources and significantly worse by none.
    Change {
        /// Name of the variant.
        variant: String,
        /// Sources by which it is better.
        #[serde(rename = "proxies")]
        sources: Vec<QuerySource>,
        /// The setting that searches like this variant, if there is one.
        setting: Option<String>,
    },
    /// A variant is significantly better by one source and significantly worse by another.
    Disagreement {
        /// Name of the variant.
        variant: String,
        /// Sources by which it is better.
        better: Vec<QuerySource>,
        /// Sources by which it is worse.
        worse: Vec<QuerySource>,
    },
}

/// Reports on the values of [`super::evaluation::evaluate`]. Every variant is compared with the first one, and the
/// best by each source with the second best; p-values are corrected over all comparisons together.
///
/// # Errors
/// When there are fewer than two variants, or a set without queries.
pub fn report(
    sets: &[QuerySet],
    variants: &[Variant],
    values: &[Vec<Vec<f64>>],
    bootstrap: &Bootstrap,
) -> Result<SelfBenchmarkReport, EvalError> {
    let [default, _, ..] = variants else {
        return Err(MetricsError::Values { found: "fewer than two methods".into() }.into());
    };
    struct Compared {
        /// Indices of the variants, best first.
        order: Vec<usize>,
        /// Comparisons with the default, except that of the default itself.
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
    let mut sources = Vec::new();
    for ((set, values), compared) in sets.iter().zip(values).zip(&compared) {
        let of_variant = |(position, variant): (usize, &Variant)| {
            Ok(VariantReport {
                name: variant.name.clone(),
                about: variant.about.clone(),
                ndcg: mean(&[&values[position]]),
                interval: mean_interval(&[&values[position]], bootstrap)?,
                to_default: position.checked_sub(1).map(|of| Difference::new(&compared.to_default[of])),
            })
        };
        sources.push(SourceReport {
            source: set.source,
            view: set.view,
            questions: set.questions.queries.len(),
            left_out: set.questions.left_out.clone(),
            variants: variants.iter().enumerate().map(of_variant).collect::<Result<_, EvalError>>()?,
            best: variants[compared.order[0]].name.clone(),
            next: variants[compared.order[1]].name.clone(),
            best_and_next: Difference::new(&compared.best_and_next),
        });
    }
    let advice = advice(&sources, variants);
    Ok(SelfBenchmarkReport { default: default.name.clone(), sources, advice })
}

fn advice(sources: &[SourceReport], variants: &[Variant]) -> Advice {
    struct Candidate<'a> {
        variant: &'a Variant,
        better: Vec<QuerySource>,
        worse: Vec<QuerySource>,
        /// Sum of the differences over all sources.
        sum: f64,
    }
    let candidate = |(position, variant): (usize, _)| {
        let differences = || {
            let difference =
                |report: &SourceReport| Some((report.source, report.variants[position].to_default?));
            sources.iter().filter_map(difference)
        };
        let significant = |is_better: bool| {
            let is_so = |found: &(QuerySource, Difference)| {
                found.1.is_significant() && (found.1.difference > 0.0) == is_better
            };
            differences().filter(is_so).map(|(source, _)| source).collect()
        };
        let sum = differences().map(|(_, found)| found.difference).sum();
        Candidate { variant, better: significant(true), worse: significant(false), sum }
    };
    let mut candidates: Vec<Candidate<'_>> = variants
        .iter()
        .enumerate()
        .map(candidate)
        .filter(|candidate: &Candidate<'_>| !candidate.better.is_empty())
        .collect();
    // Variants that no source ranks worse come first, then those that users can select by a setting, then by the
    // sum of differences.
    let order = |found: &Candidate<'_>| (!found.worse.is_empty(), found.variant.setting.is_none());
    candidates.sort_by(|a, b| order(a).cmp(&order(b)).then(b.sum.total_cmp(&a.sum)));
    match candidates.into_iter().next() {
        None => {
            let most = sources.iter().max_by_key(|report| report.questions);
            Advice::KeepDefault {
                detectable: most.and_then(|report| {
                    let detectable =
                        |variant: &VariantReport| variant.to_default.and_then(|found| found.detectable);
                    report.variants.iter().filter_map(detectable).max_by(f64::total_cmp)
                }),
            }
        }
        Some(Candidate { variant, better, worse, .. }) if worse.is_empty() => Advice::Change {
            variant: variant.name.clone(),
            sources: better,
            setting: variant.setting.clone(),
        },
        Some(Candidate { variant, better, worse, .. }) => {
            Advice::Disagreement { variant: variant.name.clone(), better, worse }
        }
    }
}

fn listed(sources: &[QuerySource]) -> String {
    let names: Vec<String> = sources.iter().map(QuerySource::to_string).collect();
    names.join(" and ")
}

impl SelfBenchmarkReport {
    /// A table of variants by sources, with explanations.
    pub fn sections(&self) -> Sections {
        let mut words = format!("\n{}\n\n", self.legend());
        for report in &self.sources {
            let _ = writeln!(words, "{}: {}", report.source, report.best_and_next());
        }
        Sections::new().table(self.table()).text(format!("{words}\n{}", self.advice.text()))
    }

    pub(super) fn legend(&self) -> String {
        format!(
            "* significantly better than the second best, + than {0:?}, - significantly worse than {0:?} (paired randomization, \
             p < 0.05, corrected by Holm over the table)",
            self.default
        )
    }

    pub(super) fn table(&self) -> Table {
        let headings = self.sources.iter().map(|report| format!("{} ({})", report.source, report.questions));
        let header = std::iter::once("NDCG@10".to_owned()).chain(headings).chain(["about".to_owned()]);
        // Significance marks follow the numbers, so cells are aligned left.
        let mut table = Table::new(header).align_left(1..=self.sources.len() + 1);
        let variants = self.sources.first().map_or(&[][..], |report| &report.variants);
        for (position, VariantReport { name, about, .. }) in variants.iter().enumerate() {
            let cells = self.sources.iter().map(|report| {
                let variant = &report.variants[position];
                let is_best = variant.name == report.best && report.best_and_next.is_significant();
                let best = if is_best { "*" } else { "" };
                let mark = match variant.to_default {
                    Some(found) if found.is_significant() && found.difference > 0.0 => "+",
                    Some(found) if found.is_significant() => "-",
                    _ => "",
                };
                format!("{:.3}{mark}{best}", variant.ndcg)
            });
            table.push(std::iter::once(name.clone()).chain(cells).chain([about.clone()]));
        }
        table
    }
}

impl SourceReport {
    /// The best variant, and the significance of its lead.
    pub(super) fn best_and_next(&self) -> String {
        let Self { best, next, best_and_next: found, .. } = self;
        let (difference, p) =
            (found.difference, format!("p = {:.4}, corrected {:.4}", found.p, found.p_holm));
        if found.is_significant() {
            format!("{best} is best, {difference:.3} above {next} ({p})")
        } else {
            format!("{best} comes first, {difference:.3} above {next}, which may be due to chance ({p})")
        }
    }
}

impl Advice {
    pub fn text(&self) -> String {
        match self {
            Advice::KeepDefault { detectable } => {
                let hidden = detectable.map_or_else(String::new, |difference| {
                    format!(", but these questions would not show a difference of less than {difference:.3}")
                });
                format!("No variant is significantly better than the default here{hidden}: keep the default.")
            }
            Advice::Change { variant, sources, setting } => {
                let sources = listed(sources);
                let setting = setting.as_ref().map_or_else(
                    || "`quarry search` has no setting for it".to_owned(),
                    |setting| format!("to search this way: {setting}"),
                );
                format!(
                    "{variant:?} is significantly better here by {sources}, and significantly worse by no source; \
                     {setting}."
                )
            }
            Advice::Disagreement { variant, better, worse } => format!(
                "The sources disagree: {variant:?} is significantly better by {} and significantly worse by {}. Keep \
                 the default, or ask queries of your own (--ask).",
                listed(better),
                listed(worse)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::variants::variants;
    use super::super::{LabeledQuery, Questions};
    use super::*;
    use quarry_metrics::table::Layout;

    /// Reports on means of the first three variants, by source; the 60 queries vary by the same amount.
    fn report_on(means: &[[f64; 3]]) -> SelfBenchmarkReport {
        report_on_variants(means, variants(true).unwrap().into_iter().take(3).collect())
    }

    fn report_on_variants(means: &[[f64; 3]], variants: Vec<Variant>) -> SelfBenchmarkReport {
        let sources = [QuerySource::Docstring, QuerySource::Commit];
        let query = LabeledQuery { text: String::new(), answers: vec![] };
        let questions = Questions { queries: vec![query; 60], ..Questions::default() };
        let sets: Vec<QuerySet> = sources
            .iter()
            .zip(means)
            .map(|(&source, _)| QuerySet { source, view: View::default(), questions: questions.clone() })
            .collect();
        let noise = |n: usize| ((n * 37 % 60) as f64 / 60.0 - 0.5) / 10.0;
        let of_variant = |mean: f64, variant: usize| -> Vec<f64> {
            (0..60).map(|n| mean + noise(n + 7 * variant) - noise(59 - n)).collect()
        };
        let values: Vec<Vec<Vec<f64>>> = means
            .iter()
            .map(|means| {
                means.iter().enumerate().map(|(position, &mean)| of_variant(mean, position)).collect()
            })
            .collect();
        report(&sets, &variants, &values, &Bootstrap::default()).unwrap()
    }

    #[test]
    fn the_default_is_kept_unless_a_variant_is_significantly_better() {
        let report = report_on(&[[0.5, 0.501, 0.3]]);
        assert_eq!(report.sources[0].best, report.sources[0].variants[1].name);
        assert!(matches!(report.advice, Advice::KeepDefault { detectable: Some(_) }), "{:?}", report.advice);
        let worse = report.sources[0].variants[2].to_default.unwrap();
        assert!(worse.is_significant() && worse.difference < 0.0);
        assert!(report.sources[0].variants[0].to_default.is_none());
        let text = report.sections().render(Layout::Text);
        // A lead that may be chance is not marked as the best.
        assert!(text.contains("0.501 ") && text.contains("0.300-"), "{text}");
        assert!(
            text.contains("no-rules comes first, 0.001 above search, which may be due to chance"),
            "{text}"
        );
        assert!(text.contains("not show a difference of less than 0.018: keep the default"), "{text}");
    }

    #[test]
    fn the_page_has_a_bar_and_a_row_for_each_variant() {
        let report = report_on(&[[0.5, 0.7, 0.3]]);
        let page = report.page("<shop>", &["60 questions".to_owned()], &["a note".to_owned()]);
        for text in
            ["Search methods on &lt;shop&gt;", "60 questions", "a note", "0.700+*", "no-rules is best"]
        {
            assert!(page.contains(text), "{text}\n{page}");
        }
        assert_eq!(page.matches("<rect").count(), 3);
    }

    #[test]
    fn a_better_method_is_advised_unless_a_source_contradicts() {
        let Advice::Change { variant, sources, setting } =
            report_on(&[[0.5, 0.7, 0.3], [0.5, 0.5, 0.3]]).advice
        else {
            panic!("a change")
        };
        assert_eq!((variant.as_str(), sources), ("no-rules", vec![QuerySource::Docstring]));
        assert!(setting.unwrap().contains("--ranking no-rules"));
        let report = report_on(&[[0.5, 0.7, 0.3], [0.5, 0.3, 0.3]]);
        let expected = Advice::Disagreement {
            variant: "no-rules".into(),
            better: vec![QuerySource::Docstring],
            worse: vec![QuerySource::Commit],
        };
        assert_eq!(report.advice, expected);
        assert!(report.sections().render(Layout::Text).contains("disagree"));
    }

    #[test]
    fn a_method_that_users_can_choose_is_advised_before_a_better_one() {
        let mut of_two: Vec<Variant> = variants(true).unwrap().into_iter().take(3).collect();
        of_two[1].setting = None;
        let Advice::Change { variant, setting, .. } = report_on_variants(&[[0.5, 0.8, 0.7]], of_two).advice
        else {
            panic!("a change")
        };
        assert_eq!(variant, "no-file");
        assert!(setting.is_some());
    }

    #[test]
    fn p_values_are_corrected_over_the_whole_table() {
        let (one, two) = (report_on(&[[0.5, 0.52, 0.5]]), report_on(&[[0.5, 0.52, 0.5], [0.5, 0.52, 0.5]]));
        let p = |report: &SelfBenchmarkReport| report.sources[0].variants[1].to_default.unwrap();
        assert_eq!(p(&one).p, p(&two).p);
        assert!(p(&one).p_holm <= p(&two).p_holm && p(&one).p < p(&one).p_holm);
    }
}
