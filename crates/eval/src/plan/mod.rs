//! Benchmark plans: data sets and methods in one file, results as one page.
//!
//! A plan is TOML. Paths of data are relative to a folder that the caller names, those of the results to the
//! plan's own folder. Reference points, measured elsewhere or published, are part of the plan, with their sources.

mod page;

use crate::EvalError;
use crate::evaluation::{Conventions, evaluate_method};
use crate::method::{LoadModel, Method};
use crate::metrics::Measure;
use crate::repo_search;
use crate::significance::{Bootstrap, Interval, PairedDifference, mean, mean_interval, paired_difference};
use quarry_corpus::dataset::convert;
use quarry_corpus::formats::beir::{self, Benchmark};
use quarry_corpus::formats::repo_search as repo_search_format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is measured and where results go.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Heading of the page.
    pub title: String,
    /// Markdown before the first data set.
    #[serde(default)]
    pub introduction: String,
    /// The page, relative to the plan's folder.
    pub page: PathBuf,
    /// The results as JSON, relative to the plan's folder.
    pub json: PathBuf,
    /// How intervals and p-values are drawn.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// What is measured.
    pub datasets: Vec<DatasetPlan>,
}

/// A data set, and what is measured on it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetPlan {
    /// Heading.
    pub name: String,
    /// Markdown below it.
    #[serde(default)]
    pub description: String,
    /// Where it is.
    pub source: Source,
    /// What is reported; NDCG@10 for repository search.
    #[serde(default = "default_measures")]
    pub measures: Vec<Measure>,
    /// Conventions of documents' scores; repository search has its own.
    #[serde(default)]
    pub conventions: Conventions,
    /// Methods, as for `quarry eval --method`; paths of models are relative to the folder of the data.
    pub methods: Vec<String>,
    /// The one among `methods` that the others are compared with.
    pub baseline: String,
    /// What others reached.
    #[serde(default)]
    pub references: Vec<Reference>,
}

/// Format and files of a data set.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "format", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// A BEIR folder.
    Beir {
        /// The folder.
        folder: PathBuf,
        /// The judgements.
        split: String,
    },
    /// The two CoSQA files.
    Cosqa {
        /// The retrieval file.
        queries: PathBuf,
        /// The code base.
        corpus: PathBuf,
    },
    /// A table of repository search; checkouts lie in a folder of their own.
    RepoSearch {
        /// The table.
        table: PathBuf,
    },
}

/// A number that was not measured by this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The method.
    pub name: String,
    /// Values by measure.
    pub values: BTreeMap<String, f64>,
    /// Values by part of the data set (repository).
    #[serde(default)]
    pub parts: BTreeMap<String, f64>,
    /// Who measured it, on what, and how that differs from here.
    pub source: String,
}

/// Where the files of a plan are.
#[derive(Debug, Clone)]
pub struct Locations {
    /// What paths of data are relative to.
    pub data: PathBuf,
    /// Checkouts for repository search, as [`repo_search::indexed_folder`] has them.
    pub repositories: Option<PathBuf>,
}

/// What a plan measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// Heading.
    pub title: String,
    /// Markdown before the first data set.
    pub introduction: String,
    /// How intervals and p-values were drawn.
    pub bootstrap: Bootstrap,
    /// One entry a data set of the plan.
    pub datasets: Vec<DatasetResults>,
}

/// What was measured on a data set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatasetResults {
    /// Heading.
    pub name: String,
    /// Markdown below it.
    pub description: String,
    /// Number of queries.
    pub queries: usize,
    /// Number of documents that are ranked; absent for repository search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<usize>,
    /// Names of the measures, in the order of the page.
    pub measures: Vec<String>,
    /// Names of the parts that have means of their own (repositories), in the order of the page.
    pub parts: Vec<String>,
    /// The method that the others are compared with.
    pub baseline: String,
    /// One entry a method of the plan.
    pub methods: Vec<MethodResults>,
    /// As in the plan.
    pub references: Vec<Reference>,
}

/// What a method reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MethodResults {
    /// Name.
    pub method: String,
    /// Identity of its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Means by measure.
    pub metrics: BTreeMap<String, f64>,
    /// Bootstrap intervals of the means.
    pub intervals: BTreeMap<String, Interval>,
    /// Means by part of the data set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, f64>,
    /// This method less the baseline, by measure; empty for the baseline itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub over_baseline: BTreeMap<String, PairedDifference>,
}

/// Values of one method for every query: measures, then strata, then queries. The shape is the same for all methods
/// of a data set.
struct Values {
    method: String,
    model: Option<String>,
    values: Vec<Vec<Vec<f64>>>,
}

fn default_measures() -> Vec<Measure> {
    vec![Measure::ReciprocalRank(None), Measure::Ndcg(Some(10)), Measure::Recall(10)]
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// When the file cannot be read, is no plan, or names a baseline that is not among the methods.
    pub fn read(path: &Path) -> Result<Plan, EvalError> {
        let refuse = |problem: String| EvalError::Plan { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path)
            .map_err(|error| refuse(format!("the plan cannot be read: {error}")))?;
        let plan: Plan = toml::from_str(&text)
            .map_err(|error| refuse(format!("expected a benchmark plan, found\n{error}")))?;
        for dataset in &plan.datasets {
            for method in &dataset.methods {
                method.parse::<Method>().map_err(|error| refuse(error.to_string()))?;
            }
            let DatasetPlan { name, methods, baseline, measures, source, .. } = dataset;
            if !methods.contains(baseline) {
                return Err(refuse(format!(
                    "expected the baseline of {name:?} among its methods {}, found {baseline:?}; add it, or name \
                     another",
                    methods.join(", ")
                )));
            }
            if matches!(source, Source::RepoSearch { .. }) && measures != &[repo_search::MEASURE] {
                return Err(refuse(format!(
                    "expected measures = [\"{}\"] for {name:?}: repository search has no other",
                    repo_search::MEASURE
                )));
            }
        }
        Ok(plan)
    }

    /// Measures everything; `on_method` hears the data set and the method before each starts.
    ///
    /// # Errors
    /// When a data set cannot be read or a method fails.
    pub fn run(
        &self,
        locations: &Locations,
        load: &LoadModel<'_>,
        mut on_method: impl FnMut(&str, &str),
    ) -> Result<Results, EvalError> {
        let datasets = self
            .datasets
            .iter()
            .map(|dataset| {
                let mut on_method = |method: &str| on_method(&dataset.name, method);
                match &dataset.source {
                    Source::Beir { folder, split } => {
                        let benchmark = beir::read(&locations.data.join(folder), split)?;
                        self.run_benchmark(dataset, &benchmark, locations, load, &mut on_method)
                    }
                    Source::Cosqa { queries, corpus } => {
                        let benchmark = convert::cosqa_benchmark(
                            &locations.data.join(queries),
                            &locations.data.join(corpus),
                        )?;
                        self.run_benchmark(dataset, &benchmark, locations, load, &mut on_method)
                    }
                    Source::RepoSearch { table } => {
                        self.run_repositories(dataset, table, locations, load, &mut on_method)
                    }
                }
            })
            .collect::<Result<_, EvalError>>()?;
        Ok(Results {
            title: self.title.clone(),
            introduction: self.introduction.clone(),
            bootstrap: self.bootstrap.clone(),
            datasets,
        })
    }

    fn run_benchmark(
        &self,
        dataset: &DatasetPlan,
        benchmark: &Benchmark,
        locations: &Locations,
        load: &LoadModel<'_>,
        on_method: &mut dyn FnMut(&str),
    ) -> Result<DatasetResults, EvalError> {
        let values = dataset
            .methods
            .iter()
            .map(|name| {
                on_method(name);
                let prepared = locations.method(name)?.prepare(benchmark.into(), load, &mut |_| {})?;
                let evaluation = evaluate_method(
                    benchmark,
                    prepared.scorer.as_ref(),
                    &dataset.measures,
                    &dataset.conventions,
                    |_, _| Ok(()),
                )?;
                Ok(Values {
                    method: name.clone(),
                    model: prepared.model,
                    values: (0..dataset.measures.len())
                        .map(|measure| vec![evaluation.values(measure)])
                        .collect(),
                })
            })
            .collect::<Result<Vec<_>, EvalError>>()?;
        let parts = Vec::new();
        self.results(dataset, Some(benchmark.documents.len()), parts, &values)
    }

    fn run_repositories(
        &self,
        dataset: &DatasetPlan,
        table: &Path,
        locations: &Locations,
        load: &LoadModel<'_>,
        on_method: &mut dyn FnMut(&str),
    ) -> Result<DatasetResults, EvalError> {
        let path = locations.data.join(table);
        let repositories = repo_search_format::read(&path)?;
        let Some(folder) = &locations.repositories else {
            let problem = "is searched in checkouts; name the folder that holds them with --repos".into();
            return Err(EvalError::Plan { path, problem });
        };
        let values = dataset
            .methods
            .iter()
            .map(|name| {
                on_method(name);
                let scores =
                    repo_search::evaluate(&repositories, folder, &locations.method(name)?, load, |_| {})?;
                Ok(Values { method: name.clone(), values: vec![scores.strata()], model: scores.model })
            })
            .collect::<Result<Vec<_>, EvalError>>()?;
        let parts = repositories.into_iter().map(|repository| repository.name).collect();
        self.results(dataset, None, parts, &values)
    }

    fn results(
        &self,
        dataset: &DatasetPlan,
        documents: Option<usize>,
        parts: Vec<String>,
        values: &[Values],
    ) -> Result<DatasetResults, EvalError> {
        let measures: Vec<String> = dataset.measures.iter().map(Measure::to_string).collect();
        let baseline = values.iter().find(|values| values.method == dataset.baseline);
        Ok(DatasetResults {
            name: dataset.name.clone(),
            description: dataset.description.clone(),
            queries: values
                .first()
                .and_then(|values| values.values.first())
                .map_or(0, |strata| strata.iter().map(Vec::len).sum()),
            documents,
            baseline: dataset.baseline.clone(),
            methods: values
                .iter()
                .map(|method| method_results(method, baseline, &measures, &parts, &self.bootstrap))
                .collect::<Result<_, EvalError>>()?,
            measures,
            parts,
            references: dataset.references.clone(),
        })
    }
}

impl Locations {
    /// A method whose paths are found.
    fn method(&self, name: &str) -> Result<Method, EvalError> {
        Ok(name.parse::<Method>()?.in_folder(&self.data))
    }
}

fn method_results(
    method: &Values,
    baseline: Option<&Values>,
    measures: &[String],
    parts: &[String],
    bootstrap: &Bootstrap,
) -> Result<MethodResults, EvalError> {
    let mut results = MethodResults {
        method: method.method.clone(),
        model: method.model.clone(),
        metrics: BTreeMap::new(),
        intervals: BTreeMap::new(),
        parts: BTreeMap::new(),
        over_baseline: BTreeMap::new(),
    };
    for (index, measure) in measures.iter().enumerate() {
        let strata: Vec<&[f64]> = method.values[index].iter().map(Vec::as_slice).collect();
        results.metrics.insert(measure.clone(), mean(&strata));
        results.intervals.insert(measure.clone(), mean_interval(&strata, bootstrap)?);
        if let Some(baseline) = baseline.filter(|baseline| baseline.method != method.method) {
            let of_baseline: Vec<&[f64]> = baseline.values[index].iter().map(Vec::as_slice).collect();
            let difference = paired_difference(&of_baseline, &strata, bootstrap)?;
            results.over_baseline.insert(measure.clone(), difference);
        }
        // Parts have one measure, repository search's only one.
        results.parts.extend(parts.iter().zip(&strata).map(|(part, values)| (part.clone(), mean(&[values]))));
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PLAN: &str = r#"
        title = "Numbers"
        introduction = "Measured."
        page = "out/page.md"
        json = "out/page.json"
        bootstrap = { resamples = 500 }

        [[datasets]]
        name = "Tiny"
        source = { format = "cosqa", queries = "pairs.json", corpus = "codes.json" }
        measures = ["mrr", "recall@1"]
        methods = ["bow", "bm25"]
        baseline = "bow"
        references = [{ name = "Them | us", values = { mrr = 0.5 }, source = "a paper" }]

        [[datasets]]
        name = "Whole repositories"
        description = "Pinned."
        source = { format = "repo-search", table = "table.tsv" }
        measures = ["ndcg@10"]
        methods = ["bm25"]
        baseline = "bm25"
        references = [{ name = "Other", values = { "ndcg@10" = 0.8 }, parts = { demo = 0.7 }, source = "here" }]
    "#;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn read(plan: &str) -> Result<Plan, String> {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[("plan.toml", plan)]);
        Plan::read(&folder.path().join("plan.toml")).map_err(|error| error.to_string())
    }

    fn run(plan: &Plan, with_repositories: bool) -> Result<Results, EvalError> {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[
                (
                    "codes.json",
                    r#"{"def read_csv(path): pass": 0, "def sort_list(xs): pass": 1, "x = 1": 2}"#,
                ),
                (
                    "pairs.json",
                    r#"[{"idx":"a","doc":"python read csv","label":1,"retrieval_idx":0},
                        {"idx":"b","doc":"sort a list","label":1,"retrieval_idx":1}]"#,
                ),
                (
                    "table.tsv",
                    "repo\trevision\troot\tcategory\tquery\trelevant\n\
                     demo\tr\tsrc\tsymbol\tread_csv\tsrc/a.py\ndemo\tr\tsrc\tsymbol\tnothing\tsrc/b.py\n",
                ),
                ("repos/demo/src/a.py", "def read_csv(path):\n    pass\n"),
                ("repos/demo/src/b.py", "def sort_list(xs):\n    pass\n"),
            ],
        );
        let locations = Locations {
            data: folder.path().to_owned(),
            repositories: with_repositories.then(|| folder.path().join("repos")),
        };
        plan.run(&locations, &|_| unreachable!("no method here has a model"), |_, _| {})
    }

    #[test]
    fn a_plan_becomes_a_page() {
        let results = run(&read(PLAN).unwrap(), true).unwrap();
        let tiny = &results.datasets[0];
        assert_eq!((tiny.queries, tiny.documents), (2, Some(3)));
        // Counting words finds no whole identifier; search cuts them into parts.
        assert_eq!(tiny.methods[1].metrics["mrr"], 1.0);
        assert!(tiny.methods[0].metrics["mrr"] < 1.0);
        assert!(tiny.methods[0].over_baseline.is_empty());
        assert!(tiny.methods[1].over_baseline["mrr"].difference > 0.0);
        let page = results.page();
        for line in [
            "# Numbers",
            "Measured.",
            "## Tiny",
            "| method | mrr | p | recall@1 | p |",
            "| Them \\| us | 0.500 |  | a paper |",
            "## Whole repositories",
            "Pinned.",
            "| bm25 | 0.500 [0.000, 1.000] |  |",
            "| repository | bm25 | Other |",
            "| demo | 0.500 | 0.700 |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(page.contains("2 queries, 3 documents. In brackets: 95 % bootstrap interval"), "{page}");
        assert!(page.lines().any(|line| line.starts_with("| bm25 | 1.000 [1.000, 1.000] | ")), "{page}");
    }

    #[test]
    fn a_run_repeats_exactly() {
        let plan = read(PLAN).unwrap();
        assert_eq!(run(&plan, true).unwrap(), run(&plan, true).unwrap());
    }

    #[test]
    fn repository_search_needs_checkouts() {
        let error = run(&read(PLAN).unwrap(), false).unwrap_err().to_string();
        assert!(error.contains("table.tsv: is searched in checkouts; name the folder"), "{error}");
    }

    #[test]
    fn wrong_plans_are_refused() {
        for (from, to, expected) in [
            (
                "baseline = \"bow\"",
                "baseline = \"static\"",
                "expected the baseline of \"Tiny\" among its methods bow",
            ),
            ("[\"ndcg@10\"]", "[\"mrr\"]", "expected measures = [\"ndcg@10\"] for \"Whole repositories\""),
            ("\"recall@1\"", "\"recall\"", "expected a measure (mrr,"),
            ("format = \"cosqa\"", "format = \"cosq\"", "unknown variant `cosq`"),
            ("title", "titel", "unknown field `titel`"),
        ] {
            let error = read(&PLAN.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
