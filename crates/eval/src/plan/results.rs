//! Computing the results on a page from the cells of a data set.

use super::noise::add_label_errors;
use super::{Cell, DatasetPlan, Input, Plan, Reference};
use crate::EvalError;
use crate::evaluation::largest_changes;
use crate::protocol::{
    OF_TRAINING, Outcome, Part, Values, discrepancy, over_seeds, protocol, reliability as reliability_of,
};
use crate::slices::Property;
use quarry_metrics::calibration::{Bin, Binning, reliability};
use quarry_metrics::significance::{
    Bootstrap, Interval, LabelErrors, PairedDifference, holm, mean, mean_and_deviation, mean_interval,
    paired_difference,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Prefix of the name of a trained model, as the model to begin with or in a method.
pub(super) const PREFIX: &str = "trained:";

/// The results of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "PlanResults")]
pub struct Results {
    /// Heading.
    pub title: String,
    /// Markdown before the first data set.
    pub introduction: String,
    /// Resampling of intervals and p-values.
    pub bootstrap: Bootstrap,
    /// One entry per model that the plan trained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub training: Vec<TrainingResults>,
    /// One entry per data set of the plan.
    pub datasets: Vec<DatasetResults>,
}

/// The results of a model that was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TrainingResults {
    /// Name.
    pub name: String,
    /// The initial model, as in the plan.
    pub model: String,
    /// The recipe, as in the plan; empty without one.
    pub recipe: String,
    /// Number of training examples.
    pub examples: usize,
    /// Texts that the pairs share with evaluation data, and the files that they were compared with.
    #[serde(default)]
    pub evaluation_data: String,
    /// The measure on held-out pairs.
    pub measure: String,
    /// Each combination of the grid; one without a grid.
    pub combinations: Vec<TrainedCombination>,
    /// Number of the combination that methods use.
    pub chosen: usize,
}

/// A combination of settings over all its seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TrainedCombination {
    /// Settings of the grid.
    pub settings: Vec<String>,
    /// Mean of the measure over seeds; `None` if nothing was measured.
    pub mean: Option<f64>,
    /// Sample standard deviation over seeds; `None` for one seed.
    pub deviation: Option<f64>,
    /// The epoch of the weights of each seed.
    pub epochs: Vec<Option<usize>>,
}

/// The results on a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DatasetResults {
    /// Heading.
    pub name: String,
    /// Markdown below it.
    pub description: String,
    /// Name of the protocol.
    pub protocol: String,
    /// Files that were read, by role.
    pub files: BTreeMap<String, Vec<Input>>,
    /// The method that the others are compared with.
    pub baseline: String,
    /// One entry per part of the protocol.
    pub parts: Vec<PartResults>,
    /// Numbers derived from several parts, for each method.
    pub figures: Vec<(String, BTreeMap<String, f64>)>,
    /// Reliability of measures over all methods, under protocols of CoSQA+ with queries of 2, 3, 4 and 5 positives.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reliability: BTreeMap<String, f64>,
    /// Numbers and descriptions of the discrepancies between papers and code that affect the results.
    pub discrepancies: Vec<(String, String)>,
    /// Reference points of the plan.
    pub references: Vec<Reference>,
}

/// The results on a part of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PartResults {
    /// Name.
    pub name: String,
    /// Number of queries.
    pub queries: usize,
    /// Number of ranked documents; 0 for whole repositories.
    pub documents: usize,
    /// Names of the measures, in the order of the page.
    pub measures: Vec<String>,
    /// Name of the strata, such as `repository`; empty without strata.
    pub stratum_name: String,
    /// Names of the strata whose means are averaged; empty if all queries have equal weight.
    pub strata: Vec<String>,
    /// One entry per method of the plan.
    pub methods: Vec<MethodResults>,
    /// Means over classes of queries.
    pub slices: Vec<Slices>,
    /// The queries on which the best method differs most from the baseline.
    pub moved: Vec<Moved>,
}

/// The results of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MethodResults {
    /// Name.
    pub method: String,
    /// Identity of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Means by measure.
    pub metrics: BTreeMap<String, f64>,
    /// Sample standard deviations of the means over seeds, by measure; empty for a single seed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviations: BTreeMap<String, f64>,
    /// Bootstrap intervals of the means.
    pub intervals: BTreeMap<String, Interval>,
    /// Means of the first measure by stratum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_stratum: BTreeMap<String, f64>,
    /// Differences from the baseline by measure; p-values are corrected by Holm over the part. Empty for the baseline
    /// itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub over_baseline: BTreeMap<String, PairedDifference>,
    /// The first measure of each query, in the order of their ids; the mean over seeds.
    pub values: Vec<f64>,
    /// Means with the errors of labels by measure, if the plan says how often they err.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with_label_errors: BTreeMap<String, super::NoisyMean>,
    /// Calibration, if scores are probabilities; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reliability: Vec<Bin>,
}

/// Means over the classes of queries by one property.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Slices {
    /// Name of the property.
    pub property: String,
    /// One entry per class.
    pub values: Vec<Slice>,
}

/// Means over one class of queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Slice {
    /// Name of the class.
    pub value: String,
    /// Number of its queries.
    pub queries: usize,
    /// Mean of the part's first measure, for each method.
    pub means: Vec<f64>,
}

/// A query on which two methods differ greatly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Moved {
    /// Text of the query.
    pub text: String,
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the other method.
    pub method: String,
    /// The part's first measure under the baseline.
    pub before: f64,
    /// The part's first measure under the other method.
    pub after: f64,
    /// First document by the baseline.
    pub first_before: super::FirstDocument,
    /// First document by the other method.
    pub first_after: super::FirstDocument,
}

/// Number of queries shown for gains and for losses each.
const MOVED: usize = 5;
const BINS: usize = 10;

/// Computes the results of a plan.
///
/// # Errors
/// When two cells of a data set are inconsistent.
pub(super) fn assemble(
    plan: &Plan,
    cells: &[Vec<Vec<Cell>>],
    training: &[TrainingResults],
    data: &Path,
) -> Result<Results, EvalError> {
    let datasets = plan.datasets.iter().zip(cells).map(|(dataset, cells)| {
        dataset_results(dataset, cells, &plan.bootstrap, dataset.label_errors(data)?.as_ref())
    });
    Ok(Results {
        title: plan.title.clone(),
        introduction: plan.introduction.clone(),
        bootstrap: plan.bootstrap.clone(),
        training: training.to_vec(),
        datasets: datasets.collect::<Result<_, _>>()?,
    })
}

fn dataset_results(
    dataset: &DatasetPlan,
    cells: &[Vec<Cell>],
    bootstrap: &Bootstrap,
    errors: Option<&LabelErrors>,
) -> Result<DatasetResults, EvalError> {
    let first_cell = cells.first().and_then(|cells| cells.first());
    let first: Option<&Outcome> = first_cell.map(|cell| &cell.outcome);
    let parts = match protocol(&dataset.protocol).and_then(|protocol| protocol.strata) {
        Some(stratum) => vec![part_results(dataset, cells, "all", Some(stratum), (bootstrap, errors))?],
        None => {
            let names = first.iter().flat_map(|outcome| &outcome.parts).map(|part| part.name.as_str());
            names
                .map(|name| part_results(dataset, cells, name, None, (bootstrap, errors)))
                .collect::<Result<_, _>>()?
        }
    };
    let of_protocol = protocol(&dataset.protocol).map_or(&[][..], |protocol| protocol.discrepancies);
    let trains = dataset.methods.iter().any(|method| method.contains(PREFIX));
    let of_training = OF_TRAINING.into_iter().filter(|number| trains && of_protocol.contains(number));
    let of_outcome = first.iter().flat_map(|outcome| &outcome.discrepancies);
    let numbers = of_outcome.cloned().chain(of_training.map(str::to_owned));
    let firsts = cells.iter().filter_map(|seeds| seeds.first());
    let is_reliable =
        |cell: &&Cell| dataset.reliable.is_empty() || dataset.reliable.contains(&cell.identity.method);
    let means: Vec<_> = firsts.filter(is_reliable).map(|cell| cell.outcome.means()).collect();
    Ok(DatasetResults {
        reliability: if means.len() > 1 { reliability_of(&means) } else { BTreeMap::new() },
        name: dataset.name.clone(),
        description: dataset.description.clone(),
        protocol: dataset.protocol.clone(),
        files: first_cell.map(|cell| cell.identity.files.clone()).unwrap_or_default(),
        baseline: dataset.baseline.clone(),
        parts,
        figures: cells
            .iter()
            .filter_map(|seeds| {
                let figures: Vec<_> = seeds.iter().map(|cell| cell.outcome.figures.clone()).collect();
                Some((seeds.first()?.identity.method.clone(), over_seeds(&figures)))
            })
            .collect(),
        discrepancies: numbers
            .filter_map(|number| {
                let about = discrepancy(&number)?.about.to_owned();
                Some((number, about))
            })
            .collect(),
        references: dataset.references.clone(),
    })
}

/// The results on a part of all methods' outcomes; if `stratum_name` is given, on all parts as strata.
fn part_results<'a>(
    dataset: &DatasetPlan,
    cells: &'a [Vec<Cell>],
    name: &str,
    stratum_name: Option<&str>,
    (bootstrap, errors): (&Bootstrap, Option<&LabelErrors>),
) -> Result<PartResults, EvalError> {
    let chosen = |part: &&Part| stratum_name.is_some() || part.name == name;
    let parts_of = |cell: &'a Cell| -> Vec<&'a Part> { cell.outcome.parts.iter().filter(chosen).collect() };
    // By method, seed and stratum.
    let strata: Vec<Vec<Vec<&Part>>> =
        cells.iter().map(|seeds| seeds.iter().map(parts_of).collect()).collect();
    let first = strata.first().and_then(|seeds| seeds.first()).map_or(&[][..], Vec::as_slice);
    let measures = shown_measures(dataset, first);
    let firsts: Vec<&Cell> = cells.iter().filter_map(|seeds| seeds.first()).collect();
    let baseline = firsts.iter().position(|cell| cell.identity.method == dataset.baseline);
    let mut methods = Vec::with_capacity(cells.len());
    for (index, (cell, parts)) in firsts.iter().zip(&strata).enumerate() {
        let against =
            baseline.filter(|baseline| *baseline != index).map(|baseline| strata[baseline].as_slice());
        methods.push(method_results(cell, parts, against, &measures, bootstrap)?);
    }
    correct(&mut methods, &measures);
    let of_queries: Vec<&BTreeMap<String, super::RankedQuery>> =
        firsts.iter().filter_map(|cell| cell.queries.get(name)).collect();
    let complete = of_queries.len() == cells.len()
        && of_queries.iter().zip(&methods).all(|(queries, method)| queries.len() == method.values.len());
    let of_queries = if complete { of_queries } else { Vec::new() };
    if let Some(errors) = errors {
        let means = methods.iter_mut().map(|method| (&method.metrics, &mut method.with_label_errors));
        let judged = of_queries.iter().map(|queries| {
            queries.iter().map(|(id, query)| (id.as_str(), query.judged.as_slice())).collect()
        });
        let judged: Vec<_> = judged.collect();
        add_label_errors(&mut means.collect::<Vec<_>>(), &judged, baseline, errors, bootstrap)?;
    }
    let slices = of_queries.first().map_or(Vec::new(), |queries| {
        let by = Property::ALL.into_iter().map(|property| slices(property, queries, &methods));
        by.filter(|slices| slices.values.len() > 1).collect()
    });
    Ok(PartResults {
        name: name.to_owned(),
        queries: first.iter().map(|part| part.queries).sum(),
        documents: first.iter().map(|part| part.documents).sum(),
        moved: moved(baseline, &of_queries, &methods, measures.first()),
        measures,
        stratum_name: stratum_name.unwrap_or_default().to_owned(),
        strata: stratum_name.map_or(Vec::new(), |_| first.iter().map(|part| part.name.clone()).collect()),
        methods,
        slices,
    })
}

/// The measures that the plan names, or all that the outcome has.
fn shown_measures(dataset: &DatasetPlan, parts: &[&Part]) -> Vec<String> {
    let Some(part) = parts.first() else { return Vec::new() };
    let all: Vec<String> = match &part.values {
        Values::Rankings(evaluation) => evaluation.measures.iter().map(ToString::to_string).collect(),
        Values::Verdicts(_) => part.means().into_keys().collect(),
    };
    let named: Vec<String> = dataset.measures.iter().filter(|name| all.contains(name)).cloned().collect();
    if named.is_empty() { all } else { named }
}

fn method_results(
    cell: &Cell,
    seeds: &[Vec<&Part>],
    against: Option<&[Vec<&Part>]>,
    measures: &[String],
    bootstrap: &Bootstrap,
) -> Result<MethodResults, EvalError> {
    let mut results = MethodResults {
        method: cell.identity.method.clone(),
        model: cell.outcome.model.clone(),
        metrics: BTreeMap::new(),
        deviations: BTreeMap::new(),
        intervals: BTreeMap::new(),
        by_stratum: BTreeMap::new(),
        over_baseline: BTreeMap::new(),
        values: Vec::new(),
        with_label_errors: BTreeMap::new(),
        reliability: seeds.first().and_then(|parts| parts.first()).map_or(Vec::new(), |part| bins(part)),
    };
    for (index, measure) in measures.iter().enumerate() {
        let of_seeds: Option<Vec<f64>> = seeds.iter().map(|parts| mean_of(parts, measure)).collect();
        let of_seeds = of_seeds.filter(|values| !values.is_empty());
        if let Some((mean, deviation)) = of_seeds.map(|values| mean_and_deviation(&values)) {
            results.metrics.insert(measure.clone(), mean);
            results.deviations.extend(deviation.map(|deviation| (measure.clone(), deviation)));
        }
        let Some(values) = values(seeds, measure) else { continue };
        let strata: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
        results.intervals.insert(measure.clone(), mean_interval(&strata, bootstrap)?);
        if let Some(of_baseline) = against.and_then(|against| self::values(against, measure)) {
            let of_baseline: Vec<&[f64]> = of_baseline.iter().map(Vec::as_slice).collect();
            let difference = paired_difference(&of_baseline, &strata, bootstrap)?;
            results.over_baseline.insert(measure.clone(), difference);
        }
        if index == 0 {
            let parts = seeds.first().into_iter().flatten();
            let by_stratum = parts.zip(&strata).map(|(part, values)| (part.name.clone(), mean(&[values])));
            results.by_stratum = by_stratum.collect();
            results.values = values.concat();
        }
    }
    Ok(results)
}

/// The mean of a measure over the strata of a seed. An area under a curve, for example, is not a mean over cases: it has a
/// value, but no interval.
fn mean_of(parts: &[&Part], measure: &str) -> Option<f64> {
    match values_of(parts, measure) {
        Some(strata) => Some(mean(&strata.iter().map(Vec::as_slice).collect::<Vec<_>>())),
        None => parts.first()?.means().get(measure).copied(),
    }
}

/// Values of a measure, stratum by stratum.
fn values_of(parts: &[&Part], measure: &str) -> Option<Vec<Vec<f64>>> {
    let strata: Option<Vec<Vec<f64>>> = parts.iter().map(|part| part.values_of(measure)).collect();
    strata.filter(|strata| !strata.is_empty())
}

/// The same as means over seeds, query by query: a difference is between methods then, not between seeds of one.
fn values(seeds: &[Vec<&Part>], measure: &str) -> Option<Vec<Vec<f64>>> {
    let mut sum: Option<Vec<Vec<f64>>> = None;
    for parts in seeds {
        let of_seed = values_of(parts, measure)?;
        match &mut sum {
            None => sum = Some(of_seed),
            Some(sum) => {
                let cells = sum.iter_mut().flatten().zip(of_seed.into_iter().flatten());
                cells.for_each(|(sum, value)| *sum += value);
            }
        }
    }
    let n = seeds.len() as f64;
    sum.iter_mut().flatten().flatten().for_each(|value| *value /= n);
    sum
}

/// Corrects the p-values of all methods and measures together.
fn correct(methods: &mut [MethodResults], measures: &[String]) {
    let mut differences: Vec<&mut PairedDifference> = methods
        .iter_mut()
        .flat_map(|method| method.over_baseline.iter_mut())
        .filter(|(measure, _)| measures.contains(measure))
        .map(|(_, difference)| difference)
        .collect();
    let corrected = holm(&differences.iter().map(|difference| difference.p).collect::<Vec<_>>());
    for (difference, p) in differences.iter_mut().zip(corrected) {
        difference.p = p;
    }
}

/// Calibration of the scores; empty if they are not probabilities, or the truth is unknown.
fn bins(part: &Part) -> Vec<Bin> {
    let Values::Verdicts(verdicts) = &part.values else { return Vec::new() };
    let known: Option<Vec<(f64, bool)>> =
        verdicts.pairs.iter().map(|pair| Some((pair.score, pair.truth?))).collect();
    let Some(known) = known.filter(|known| known.iter().all(|(score, _)| (0.0..=1.0).contains(score))) else {
        return Vec::new();
    };
    let (scores, truth): (Vec<f64>, Vec<bool>) = known.into_iter().unzip();
    reliability(&scores, &truth, BINS, Binning::Width).into_iter().filter(|bin| bin.count > 0).collect()
}

fn slices(
    property: Property,
    queries: &BTreeMap<String, super::RankedQuery>,
    methods: &[MethodResults],
) -> Slices {
    let mut members: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
    for (position, query) in queries.values().enumerate() {
        if let Some(value) = query.properties.get(&property) {
            let number = value.split(|character: char| !character.is_ascii_digit()).next();
            let order = number.and_then(|number| number.parse().ok()).unwrap_or(usize::MAX);
            members.entry((order, value)).or_default().push(position);
        }
    }
    let values = members.into_iter().map(|((_, value), positions)| Slice {
        value: value.to_owned(),
        queries: positions.len(),
        means: methods
            .iter()
            .map(|method| {
                positions.iter().map(|position| method.values[*position]).sum::<f64>()
                    / positions.len() as f64
            })
            .collect(),
    });
    Slices { property: property.name().into(), values: values.collect() }
}

/// The queries that differ most between the baseline and the method with the highest mean, gains before losses.
fn moved(
    baseline: Option<usize>,
    queries: &[&BTreeMap<String, super::RankedQuery>],
    methods: &[MethodResults],
    measure: Option<&String>,
) -> Vec<Moved> {
    let (Some(baseline), Some(measure), false) = (baseline, measure, queries.is_empty()) else {
        return Vec::new();
    };
    let others = (0..methods.len()).filter(|index| *index != baseline);
    let value = |index: &usize| methods[*index].metrics.get(measure).copied().unwrap_or(f64::NEG_INFINITY);
    let Some(best) = others.max_by(|a, b| value(a).total_cmp(&value(b))) else { return Vec::new() };
    let (before, after) = (&methods[baseline], &methods[best]);
    let sides: Vec<Vec<&super::RankedQuery>> =
        [baseline, best].map(|index| queries[index].values().collect()).into();
    largest_changes(&before.values, &after.values, MOVED)
        .into_iter()
        .map(|position| Moved {
            text: sides[0][position].text.clone(),
            baseline: before.method.clone(),
            method: after.method.clone(),
            before: before.values[position],
            after: after.values[position],
            first_before: sides[0][position].first.clone(),
            first_after: sides[1][position].first.clone(),
        })
        .collect()
}
