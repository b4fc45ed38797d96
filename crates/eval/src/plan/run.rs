//! Runs a plan, cell by cell.

use super::{
    Cell, DatasetPlan, FirstDocument, Identity, Input, JudgedRank, Paths, Plan, Program, RankedQuery,
    Results, Store, TrainedModels,
};
use crate::EvalError;
use crate::method::{LoadModel, Method};
use crate::protocol::{self, MethodWithModels, Request, Role, RoleKind};
use crate::repo_search;
use crate::slices::{self, Languages, Property};
use quarry_corpus::formats::Query;
use quarry_corpus::formats::beir::Benchmark;
use quarry_corpus::formats::repo_search as table;
use quarry_metrics::ranking::{TiePolicy, rank_judged};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Locations {
    /// Directory that paths of data are relative to.
    pub data: PathBuf,
    /// Directory of the plan, that recipes are relative to.
    pub plan: PathBuf,
    /// Files that the plan measures on ([`Plan::measured_files`]).
    pub measured: Vec<PathBuf>,
    /// Directories of the checkouts for protocols that search repositories, as for [`repo_search::directory_of`].
    pub repositories: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The method was measured before, or the model trained.
    Known,
    /// The method is being measured, or the model trained.
    Started,
}

impl Plan {
    /// The files that the plan measures on, in a directory of data.
    pub fn measured_files(&self, data: &Path) -> Vec<PathBuf> {
        let files = self.datasets.iter().flat_map(|dataset| dataset.files.values());
        let files: BTreeSet<PathBuf> =
            files.flat_map(|Paths(paths)| paths).map(|path| data.join(path)).collect();
        files.into_iter().collect()
    }

    /// Measures the cells that are not stored, and computes the results; `on_method` is called for each method on
    /// each data set, for each seed of its models.
    ///
    /// # Errors
    /// When a data set cannot be read, a method fails, or results cannot be stored.
    pub fn run(
        &self,
        locations: &Locations,
        store: &Store,
        program: &Program<'_>,
        trained: &TrainedModels,
        mut on_method: impl FnMut(Event, &DatasetPlan, &str),
    ) -> Result<Results, EvalError> {
        let mut cells = Vec::with_capacity(self.datasets.len());
        for dataset in &self.datasets {
            let mut of_dataset = Vec::with_capacity(dataset.methods.len());
            let files = locations.inputs(dataset)?;
            for name in &dataset.methods {
                let method: Method = name.parse()?;
                let mut of_method = Vec::new();
                for seed in 0..trained.n_seeds(&method.paths())? {
                    let located = |path: &Path| trained.located(path, &locations.data, seed);
                    let identity = Identity {
                        build: program.build.clone(),
                        protocol: dataset.protocol.clone(),
                        options: dataset.options.clone(),
                        split: dataset.split.clone(),
                        files: files.clone(),
                        method: name.clone(),
                        method_files: method_files(&method, &located)?,
                        ranks: dataset.label_errors.is_some(),
                        models: program.models(&method)?,
                    };
                    of_method.push(match store.find(&identity) {
                        Some(cell) => {
                            on_method(Event::Known, dataset, name);
                            cell
                        }
                        None => {
                            on_method(Event::Started, dataset, name);
                            let mut method = method.clone().with_paths(&located);
                            if dataset.options.as_published
                                && let Some(protocol) = protocol::protocol(&dataset.protocol)
                            {
                                method = protocol.as_published(method);
                            }
                            let cell = dataset.measure(identity, &method, locations, program.load)?;
                            store.keep(&cell)?;
                            cell
                        }
                    });
                }
                of_dataset.push(of_method);
            }
            cells.push(of_dataset);
        }
        super::results::assemble(self, &cells, &trained.results, &locations.data)
    }
}

/// The files and directories that a method reads, by their paths in the expression, without the options after them.
fn method_files(
    method: &Method,
    located: &dyn Fn(&Path) -> PathBuf,
) -> Result<BTreeMap<String, Input>, EvalError> {
    let files = method.paths().into_iter().map(|path| {
        let (at, _) = quarry_transformer::split_options(&located(path));
        let input = Input { path: path.to_owned(), ..Input::read(Path::new(""), &at)? };
        Ok((path.display().to_string(), input))
    });
    files.collect()
}

impl Locations {
    /// The inputs of a data set, by role.
    fn inputs(&self, dataset: &DatasetPlan) -> Result<BTreeMap<String, Vec<Input>>, EvalError> {
        let mut inputs = BTreeMap::new();
        for (role, Paths(paths)) in &dataset.files {
            let read = paths.iter().map(|path| Input::read(&self.data, path));
            inputs.insert(role.clone(), read.collect::<Result<_, _>>()?);
        }
        if let Some(role) = dataset.checkouts() {
            let directories = self.checkouts(dataset)?;
            let mut trees = Vec::new();
            for path in self.files(dataset).values().flatten() {
                for repository in table::read(path)? {
                    // Only the part of a checkout that is searched.
                    let directory = repo_search::directory_of(directories, &repository);
                    trees.push(Input::read(directory, &repo_search::indexed_path(&repository))?);
                }
            }
            inputs.insert(role.name.to_owned(), trees);
        }
        Ok(inputs)
    }

    /// The paths of a data set's files, by role.
    fn files(&self, dataset: &DatasetPlan) -> BTreeMap<String, Vec<PathBuf>> {
        let located = |paths: &Paths| paths.0.iter().map(|path| self.data.join(path)).collect();
        dataset.files.iter().map(|(role, paths)| (role.clone(), located(paths))).collect()
    }

    fn checkouts(&self, dataset: &DatasetPlan) -> Result<&[PathBuf], EvalError> {
        if self.repositories.is_empty() {
            return Err(EvalError::File {
                path: self.files(dataset).into_values().flatten().next().unwrap_or_default(),
                problem: "needs checkouts; name the directory that contains them with --repos".into(),
            });
        }
        Ok(&self.repositories)
    }
}

impl DatasetPlan {
    /// The role of the protocol that takes checkouts, if it has one.
    fn checkouts(&self) -> Option<&'static Role> {
        protocol::protocol(&self.protocol)?.roles.iter().find(|role| role.kind == RoleKind::Checkouts)
    }

    fn measure(
        &self,
        identity: Identity,
        method: &Method,
        locations: &Locations,
        load: &LoadModel<'_>,
    ) -> Result<Cell, EvalError> {
        let protocol = self
            .known_protocol()
            .map_err(|problem| EvalError::File { path: self.name.clone().into(), problem })?;
        let mut files = locations.files(self);
        if let Some(role) = self.checkouts() {
            files.insert(role.name.to_owned(), locations.checkouts(self)?.to_vec());
        }
        let queries = RefCell::new(BTreeMap::<String, BTreeMap<String, RankedQuery>>::new());
        let languages = RefCell::new(BTreeMap::<String, Languages>::new());
        let request = Request {
            protocol,
            files: &files,
            split: &self.split,
            options: &self.options,
            method: &MethodWithModels { method, load },
            observe: Some(&|part, benchmark, query, scores| {
                let mut languages = languages.borrow_mut();
                let languages = languages
                    .entry(part.to_owned())
                    .or_insert_with(|| slices::languages(&benchmark.documents));
                let mut ranked = RankedQuery::new(benchmark, query, scores, languages);
                if self.label_errors.is_some() {
                    ranked.judged = judged_ranks(benchmark, query, scores)?;
                }
                queries.borrow_mut().entry(part.to_owned()).or_default().insert(query.id.clone(), ranked);
                Ok(())
            }),
        };
        let outcome = protocol::run(&request)?;
        Ok(Cell { identity, outcome, queries: queries.into_inner() })
    }
}

/// The ranks of the judged documents of a query, by id.
fn judged_ranks(benchmark: &Benchmark, query: &Query, scores: &[f32]) -> Result<Vec<JudgedRank>, EvalError> {
    let Some(judged) = benchmark.qrels.get(&query.id) else { return Ok(Vec::new()) };
    let ids: Vec<&str> = benchmark.documents.iter().map(|document| document.id.as_str()).collect();
    let found = ids.iter().enumerate().filter_map(|(position, id)| {
        let (document, grade) = judged.get_key_value(*id)?;
        Some((position, JudgedRank { document: document.clone(), grade: *grade, rank: 0 }))
    });
    let (positions, mut found): (Vec<usize>, Vec<JudgedRank>) = found.unzip();
    // Hits do not say whose they are, so that the number of each takes the place of its grade.
    let numbered: Vec<(usize, i32)> = positions.into_iter().zip(0..).collect();
    for hit in rank_judged(&ids, scores, &numbered, TiePolicy::default())?.hits {
        found[hit.grade as usize].rank = hit.rank;
    }
    found.sort_by(|a, b| a.document.cmp(&b.document));
    Ok(found)
}

impl RankedQuery {
    fn new(benchmark: &Benchmark, query: &Query, scores: &[f32], languages: &Languages) -> Self {
        let nothing = BTreeMap::new();
        let judged = benchmark.qrels.get(&query.id).unwrap_or(&nothing);
        // Ties are ranked by descending id, as everywhere.
        let documents = benchmark.documents.iter().zip(scores);
        let best =
            documents.max_by(|(a, score_a), (b, score_b)| score_a.total_cmp(score_b).then(a.id.cmp(&b.id)));
        let first = best.map_or_else(
            || FirstDocument::new("", false, ""),
            |(document, _)| {
                let relevant = judged.get(&document.id).is_some_and(|grade| *grade > 0);
                FirstDocument::new(&document.id, relevant, &document.full_text())
            },
        );
        let properties =
            Property::ALL.map(|property| (property, property.classify(query, judged, languages)));
        Self { text: query.text.clone(), properties: properties.into(), first, judged: Vec::new() }
    }
}
