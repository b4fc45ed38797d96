//! Runs a plan, cell by cell.

use super::{Answer, Cell, DatasetPlan, Identity, Input, Paths, Plan, Program, RankedQuery, Results, Store};
use crate::EvalError;
use crate::evaluation::Evaluation;
use crate::method::{Corpus, LoadModel, Method};
use crate::protocol::{self, Outcome, Part, Request};
use crate::repo_search::{self, RepositoryScores};
use crate::slices::{self, Languages, Property};
use quarry_corpus::formats::Query;
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::repo_search as table;
use quarry_metrics::abstention::Confidence;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the files of a plan are.
#[derive(Debug, Clone)]
pub struct Locations {
    /// What paths of data are relative to.
    pub data: PathBuf,
    /// Checkouts for repository search, as [`repo_search::indexed_folder`] has them.
    pub repositories: Option<PathBuf>,
}

/// What happens while a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The method was measured before.
    Known,
    /// The method is being measured.
    Started,
}

impl Plan {
    /// Measures what the store does not have of this program, and puts all of it together; `on_method` hears of each
    /// method on each data set.
    ///
    /// # Errors
    /// When a data set cannot be read, a method fails, or results cannot be kept.
    pub fn run(
        &self,
        locations: &Locations,
        store: &Store,
        program: &Program<'_>,
        mut on_method: impl FnMut(Event, &DatasetPlan, &str),
    ) -> Result<Results, EvalError> {
        let mut cells = Vec::with_capacity(self.datasets.len());
        for dataset in &self.datasets {
            let mut of_dataset = Vec::with_capacity(dataset.methods.len());
            let files = locations.inputs(dataset)?;
            for name in &dataset.methods {
                let method: Method = name.parse()?;
                let identity = Identity {
                    build: program.build.clone(),
                    protocol: dataset.protocol.clone(),
                    options: dataset.options.clone(),
                    split: dataset.split.clone(),
                    files: files.clone(),
                    method: name.clone(),
                    method_files: locations.method_files(&method)?,
                    models: program.models(&method)?,
                };
                of_dataset.push(match store.find(&identity) {
                    Some(cell) => {
                        on_method(Event::Known, dataset, name);
                        cell
                    }
                    None => {
                        on_method(Event::Started, dataset, name);
                        let cell = dataset.measure(
                            identity,
                            &method.clone().in_folder(&locations.data),
                            locations,
                            program.load,
                        )?;
                        store.keep(&cell)?;
                        cell
                    }
                });
            }
            cells.push(of_dataset);
        }
        super::results::assemble(self, &cells)
    }
}

impl Locations {
    fn inputs(&self, dataset: &DatasetPlan) -> Result<BTreeMap<String, Vec<Input>>, EvalError> {
        let mut inputs = BTreeMap::new();
        for (role, Paths(paths)) in &dataset.files {
            let read = paths.iter().map(|path| Input::read(&self.data, path));
            inputs.insert(role.clone(), read.collect::<Result<_, _>>()?);
        }
        if dataset.is_repo_search() {
            let repositories = table::read(&self.table(dataset))?;
            let folder = self.repositories(dataset)?;
            let read = repositories.iter().map(|repository| {
                let indexed = repo_search::indexed_folder(Path::new(""), repository);
                Input::read(folder, &indexed)
            });
            inputs.insert("checkouts".into(), read.collect::<Result<_, _>>()?);
        }
        Ok(inputs)
    }

    fn method_files(&self, method: &Method) -> Result<BTreeMap<String, Input>, EvalError> {
        let files = method
            .paths()
            .into_iter()
            .map(|path| Ok((path.display().to_string(), Input::read(&self.data, path)?)));
        files.collect()
    }

    fn table(&self, dataset: &DatasetPlan) -> PathBuf {
        let path = dataset.files.get("table").and_then(|Paths(paths)| paths.first());
        path.map_or_else(PathBuf::new, |path| self.data.join(path))
    }

    fn repositories(&self, dataset: &DatasetPlan) -> Result<&Path, EvalError> {
        self.repositories.as_deref().ok_or_else(|| EvalError::Plan {
            path: self.table(dataset),
            problem: "is searched in checkouts; name the folder that holds them with --repos".into(),
        })
    }
}

impl DatasetPlan {
    fn measure(
        &self,
        identity: Identity,
        method: &Method,
        locations: &Locations,
        load: &LoadModel<'_>,
    ) -> Result<Cell, EvalError> {
        if self.is_repo_search() {
            let repositories = table::read(&locations.table(self))?;
            let folder = locations.repositories(self)?;
            let scores = repo_search::evaluate(&repositories, folder, method, load, |_| {})?;
            let parts = scores.repositories.iter().map(part).collect();
            let outcome = Outcome {
                protocol: self.protocol.clone(),
                parts,
                figures: BTreeMap::new(),
                discrepancies: Vec::new(),
                predictions: None,
            };
            return Ok(Cell { identity, model: scores.model, outcome, queries: BTreeMap::new() });
        }
        let protocol = self
            .known_protocol()
            .map_err(|problem| EvalError::Plan { path: self.name.clone().into(), problem })?;
        let files: BTreeMap<String, Vec<PathBuf>> = self
            .files
            .iter()
            .map(|(role, Paths(paths))| {
                (role.clone(), paths.iter().map(|path| locations.data.join(path)).collect())
            })
            .collect();
        let model = RefCell::new(None);
        let queries = RefCell::new(BTreeMap::<String, BTreeMap<String, RankedQuery>>::new());
        let languages = RefCell::new(BTreeMap::<String, Languages>::new());
        let request = Request {
            protocol,
            files: &files,
            split: &self.split,
            options: &self.options,
            prepare: &|corpus: Corpus<'_>| {
                let prepared = method.prepare(corpus, load, &mut |_| {})?;
                *model.borrow_mut() = prepared.model;
                Ok(prepared.scorer)
            },
            observe: Some(&|part, benchmark, query, scores| {
                let mut languages = languages.borrow_mut();
                let languages = languages
                    .entry(part.to_owned())
                    .or_insert_with(|| slices::languages(&benchmark.documents));
                let ranked = RankedQuery::new(benchmark, query, scores, languages);
                queries.borrow_mut().entry(part.to_owned()).or_default().insert(query.id.clone(), ranked);
                Ok(())
            }),
        };
        let outcome = protocol::run(&request)?;
        Ok(Cell { identity, model: model.into_inner(), outcome, queries: queries.into_inner() })
    }
}

impl RankedQuery {
    fn new(benchmark: &Benchmark, query: &Query, scores: &[f32], languages: &Languages) -> Self {
        let nothing = BTreeMap::new();
        let judged = benchmark.qrels.get(&query.id).unwrap_or(&nothing);
        // Equal scores stand by id, descending, as everywhere.
        let documents = benchmark.documents.iter().zip(scores);
        let best =
            documents.max_by(|(a, score_a), (b, score_b)| score_a.total_cmp(score_b).then(a.id.cmp(&b.id)));
        let first = best.map_or_else(
            || Answer::new("", false, ""),
            |(document, _)| {
                let relevant = judged.get(&document.id).is_some_and(|grade| *grade > 0);
                Answer::new(&document.id, relevant, &document.full_text())
            },
        );
        let properties = Property::ALL.map(|property| (property, property.of(query, judged, languages)));
        Self { text: query.text.clone(), properties: properties.into(), first }
    }
}

/// The queries of a repository.
fn part(repository: &RepositoryScores) -> Part {
    let queries = repository.queries.iter().enumerate();
    let evaluation = Evaluation {
        measures: vec![repo_search::MEASURE],
        // Questions may repeat: a number makes each of them another.
        queries: queries
            .map(|(number, score)| (format!("{number} {}", score.query), vec![score.ndcg]))
            .collect(),
        confidences: repository.queries.iter().map(|score| Confidence::new(&[score.confidence])).collect(),
    };
    Part::rankings(repository.name.clone(), 0, evaluation)
}
