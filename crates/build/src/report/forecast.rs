//! Forecast of a plan that was never built: an estimate from a sample of its sources, which takes seconds. Nothing is
//! written, and no model is asked.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use quarry_corpus::messages::question_of_title;
use quarry_judge::{Pair, SECONDS_PER_ANSWER};

use crate::candidates::Methods;
use crate::error::BuildError;
use crate::labels::estimate::{typical_categories_cost, typical_writing_cost};
use crate::labels::judging_plan;
use crate::plan::{LabelKind, Plan, QueryKind, QueryPlan};
use crate::queries::history;
use crate::queries::{Filters, question_of, read_file};
use crate::record::{CodeRecord, normalized_hash};
use crate::sources::pool;
use crate::sources::{OpenedSource, SampleLimits};

/// Maximum time for the samples of all sources, and for those of all histories.
const SAMPLING: Duration = Duration::from_secs(3);

/// Maximum number of files of a source in the sample, and of records of one that is read from its beginning.
const FILES: usize = 400;
const RECORDS: usize = 2000;

const QUERIES: usize = 10_000;

/// Number of pairs of the sample by which questions of judges are estimated.
const PAIRS: usize = 20;

/// Number of codes by which the time of the static model is measured.
const CODES: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    pub value: f64,
    pub is_exact: bool,
    /// Upper bound, if known.
    pub at_most: Option<f64>,
}

impl Amount {
    fn exact(value: usize) -> Self {
        Self { value: value as f64, is_exact: true, at_most: Some(value as f64) }
    }

    fn estimated(value: f64, at_most: Option<f64>) -> Self {
        Self { value: at_most.map_or(value, |most| value.min(most)), is_exact: false, at_most }
    }

    /// The same with a maximum that a plan sets.
    fn capped(self, maximum: Option<usize>) -> Self {
        let Some(maximum) = maximum.map(|maximum| maximum as f64) else { return self };
        let at_most = Some(self.at_most.map_or(maximum, |most| most.min(maximum)));
        Self { value: self.value.min(maximum), at_most, ..self }
    }

    fn times(self, factor: f64) -> Self {
        let Self { value, is_exact, at_most } = self;
        Self { value: value * factor, is_exact, at_most: at_most.map(|most| most * factor) }
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        let none = Self { value: 0.0, is_exact: true, at_most: Some(0.0) };
        amounts.fold(none, |sum, other| Self {
            value: sum.value + other.value,
            is_exact: sum.is_exact && other.is_exact,
            at_most: sum.at_most.zip(other.at_most).map(|(sum, other)| sum + other),
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    /// Counts, such as `codes in the pool`, in the order of the steps.
    pub rows: Vec<(String, Amount)>,
    /// Parts that the estimates leave out.
    pub without: Vec<String>,
}

struct Sampled {
    /// Sampled codes of the pool, with the number of codes that each stands for.
    kept: Vec<(f64, CodeRecord)>,
    share: f64,
    /// Seconds for reading all sources.
    seconds: f64,
}

pub(crate) fn forecast(
    plan: &Plan,
    sources: &[OpenedSource<'_>],
    methods: &Methods,
    root: &Path,
) -> Result<Forecast, BuildError> {
    let mut forecast = Forecast::default();
    let sampled = sample(plan, sources, &mut forecast)?;
    let n_codes: f64 = sampled.kept.iter().map(|(weight, _)| weight).sum();
    forecast.add("codes in the pool", Amount::estimated(n_codes, None));

    if plan.is_of_fixes() {
        return Ok(forecast);
    }
    let mut amounts = Vec::new();
    let mut texts = Vec::new();
    for queries in &plan.queries {
        let amount = count(plan, queries, &sampled, n_codes, &mut texts)?.capped(queries.maximum);
        forecast.add(format!("queries {}", queries.name), amount);
        amounts.push(amount);
    }
    let n_queries: Amount = amounts.into_iter().sum();
    let per_query = plan.candidates_per_query() as f64;
    let mut candidates = n_queries.times(per_query.min(n_codes.max(1.0)));
    // Methods find some of the same codes.
    candidates.is_exact = false;
    candidates.at_most = n_queries.at_most.map(|most| most * per_query);
    forecast.add("candidates", candidates);

    let (mut seconds, mut tokens, mut dollars, mut questions) = (sampled.seconds, 0.0, None, 0.0);
    let mut spend = |of_questions: f64, of_tokens: f64, of_dollars: Option<f64>, of_seconds: f64| {
        questions += of_questions;
        tokens += of_tokens;
        seconds += of_seconds;
        if let Some(more) = of_dollars {
            *dollars.get_or_insert(0.0) += more;
        }
    };
    let codes: Vec<&str> = sampled.kept.iter().take(CODES).map(|(_, record)| record.code.as_str()).collect();
    if let Some(of_code) = methods.static_seconds(&plan.candidates, &codes) {
        spend(0.0, 0.0, None, of_code * (n_codes + n_queries.value));
    }
    let others = plan.candidates.union.iter();
    forecast.without.extend(others.map(|name| format!("the time of {name}")));
    let others = plan.candidates.encoders.iter().filter(|name| *name != "static");
    forecast.without.extend(others.map(|name| format!("the time and the price of the encoder {name}")));
    let bytes: f64 = sampled.kept.iter().map(|(weight, record)| weight * record.code.len() as f64).sum();
    let mean_bytes = bytes / n_codes.max(1.0);
    if let Some(author) = plan.author.as_ref().filter(|_| plan.asks_for_categories()) {
        let estimate = typical_categories_cost(author, n_codes, mean_bytes);
        spend(estimate.questions as f64, estimate.tokens as f64, estimate.dollars, estimate.seconds);
    }
    if plan.categories.is_some() {
        forecast.without.push("that code of no category is removed from the pool".into());
    }
    if let Some(author) = plan.author.as_ref().filter(|_| plan.has_author()) {
        let functions =
            |maximum: Option<usize>| maximum.map_or(n_codes, |maximum| n_codes.min(maximum as f64));
        let written = plan.queries.iter().filter(|queries| queries.kind == QueryKind::Written);
        let counts: Vec<(f64, f64)> =
            written.map(|queries| (functions(queries.maximum), queries.styles.len() as f64)).collect();
        let of_any = counts.iter().map(|(functions, _)| *functions).fold(0.0, f64::max);
        let summaries = if plan.has_summaries() { of_any } else { 0.0 };
        let n_written: f64 = counts.iter().map(|(functions, styles)| functions * styles).sum();
        let estimate = typical_writing_cost(author, summaries, n_written, mean_bytes);
        spend(estimate.questions as f64, estimate.tokens as f64, estimate.dollars, estimate.seconds);
        forecast.without.push("summaries of functions that are called only by functions of queries".into());
    }
    let pairs = sample_pairs(&sampled, &texts);
    for (number, label) in plan.labels.iter().enumerate() {
        if let (LabelKind::Judge, Some(path)) = (label.kind, &label.path) {
            let judge = judging_plan(path, root, number)?;
            let of_pair = judge.typical_cost(&pairs);
            forecast.add("pairs to judge", Amount { is_exact: false, ..candidates });
            let n_questions = of_pair.questions * candidates.value;
            spend(
                n_questions,
                (of_pair.input_tokens + of_pair.output_tokens) * candidates.value,
                of_pair.dollars.map(|dollars| dollars * candidates.value),
                n_questions * SECONDS_PER_ANSWER / judge.workers.max(1) as f64,
            );
            if label.generate {
                forecast.without.push("code that is generated for queries that nothing answers".into());
            }
        }
    }
    if questions > 0.0 {
        forecast.add("questions to models", Amount::estimated(questions, None));
        forecast.add("tokens", Amount::estimated(tokens, None));
    }
    if let Some(dollars) = dollars {
        forecast.add("dollars", Amount::estimated(dollars, None));
    }
    forecast.add("seconds", Amount::estimated(seconds, None));
    Ok(forecast)
}

impl Forecast {
    fn add(&mut self, what: impl Into<String>, amount: Amount) {
        self.rows.push((what.into(), amount));
    }
}

/// Reads a part of each source, and passes it through the filters of the pool.
fn sample(plan: &Plan, sources: &[OpenedSource<'_>], forecast: &mut Forecast) -> Result<Sampled, BuildError> {
    let time = SAMPLING / u32::try_from(sources.len().max(1)).unwrap_or(u32::MAX);
    let (mut records, mut weights, mut seconds) = (Vec::new(), Vec::new(), 0.0);
    for (number, source) in sources.iter().enumerate() {
        let begin = Instant::now();
        let limits = SampleLimits { files: FILES, records: RECORDS, time, begin };
        let before = records.len();
        let sample = source.content.sample(&limits, &mut |record| {
            records.push((number, record));
            Ok(())
        })?;
        let n_found = records.len() - before;
        let share = sample.share.filter(|share| *share > 0.0);
        let weight = share.map_or(1.0, |share| 1.0 / share);
        weights.push(weight);
        seconds += sample.seconds.unwrap_or_else(|| begin.elapsed().as_secs_f64() * weight);
        if let Some(files) = sample.files {
            forecast.add(format!("files of {}", source.plan.name), Amount::exact(files as usize));
        }
        let functions = match share {
            Some(1.0) => Amount::exact(n_found),
            _ => Amount::estimated(n_found as f64 * weight, None),
        };
        forecast.add(format!("functions of {}", source.plan.name), functions);
        if share.is_none() {
            forecast.without.push(format!("all but the first {n_found} codes of {}", source.plan.name));
        }
    }
    let n_read = records.len();
    let kept: Vec<(f64, CodeRecord)> = pool::kept(&plan.pool, records)
        .into_iter()
        .map(|(source, record)| (weights.get(source).copied().unwrap_or(1.0), record))
        .collect();
    let share = kept.len() as f64 / n_read.max(1) as f64;
    Ok(Sampled { kept, share, seconds })
}

/// The number of queries of a source. Texts of some are added to `texts`.
fn count(
    plan: &Plan,
    queries: &QueryPlan,
    sampled: &Sampled,
    n_codes: f64,
    texts: &mut Vec<String>,
) -> Result<Amount, BuildError> {
    let filters = Filters::new(queries);
    let mut seen: HashSet<u128> = HashSet::new();
    let mut is_kept = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_kept = !text.is_empty()
            && seen.insert(normalized_hash(&text.to_lowercase()))
            && filters.rule_against(&text).is_none();
        if is_kept && texts.len() < PAIRS {
            texts.push(text);
        }
        is_kept
    };
    Ok(match (queries.kind, &queries.path) {
        (QueryKind::Docstrings, _) => {
            let asked = sampled
                .kept
                .iter()
                .filter(|(_, record)| question_of(record, queries).is_some_and(|text| is_kept(&text)));
            Amount::estimated(asked.map(|(weight, _)| weight).sum(), None)
        }
        (QueryKind::File, Some(path)) => {
            let (mut n_read, mut n_kept) = (0, 0);
            read_file(path, &mut |text| {
                n_read += 1;
                n_kept += usize::from(n_read <= QUERIES && is_kept(text));
            })?;
            extrapolate(n_read, n_kept)
        }
        (QueryKind::Issues, Some(path)) => {
            let issues =
                history::distinct(path, !queries.sources.is_empty(), &mut history::LeftOut::default())?;
            let asked = issues.iter().take(QUERIES).filter(|issue| {
                question_of_title(&issue.title, &issue.author).is_ok_and(|text| is_kept(&text))
            });
            extrapolate(issues.len(), asked.count())
        }
        (QueryKind::Commits, _) => {
            let histories = history::open(plan, queries)?;
            let time = SAMPLING / u32::try_from(histories.len().max(1)).unwrap_or(u32::MAX);
            let amounts: Result<Vec<Amount>, BuildError> = (histories.iter())
                .map(|history| {
                    let survey =
                        history::survey(history, (sampled.share, plan.pool.tests), time, &mut is_kept)?;
                    let most = (!survey.is_cut).then_some(survey.messages as f64);
                    Ok(Amount::estimated(survey.messages as f64 * survey.share, most))
                })
                .collect();
            amounts?.into_iter().sum()
        }
        (QueryKind::Written, _) => {
            let functions = queries.maximum.map_or(n_codes, |maximum| n_codes.min(maximum as f64));
            let n_styles = queries.styles.len();
            let most = queries.maximum.map(|maximum| (maximum * n_styles) as f64);
            // Their maximum is one of functions.
            return Ok(Amount::estimated(functions * n_styles as f64, most));
        }
        (QueryKind::File | QueryKind::Issues, None) => Amount::exact(0),
    })
}

/// The number of queries kept of `n_read`, estimated from the first [`QUERIES`].
fn extrapolate(n_read: usize, n_kept: usize) -> Amount {
    if n_read <= QUERIES {
        return Amount::exact(n_kept);
    }
    Amount::estimated(n_read as f64 * n_kept as f64 / QUERIES as f64, Some(n_read as f64))
}

/// Some queries with codes, to see how long the questions of judges are.
fn sample_pairs(sampled: &Sampled, texts: &[String]) -> Vec<Pair> {
    let queries = texts.iter().map(String::as_str).chain(std::iter::repeat("find the code for this"));
    let pair = |(query, (_, record)): (&str, &(f64, CodeRecord))| Pair {
        id: String::new(),
        query_id: String::new(),
        query: query.to_owned(),
        code_id: String::new(),
        code: record.code.clone(),
        language: record.language.clone(),
        label: None,
        alternative: None,
    };
    queries.zip(&sampled.kept).take(PAIRS).map(pair).collect()
}
