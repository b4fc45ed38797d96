//! Evaluating every variant on every query.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use quarry_corpus::formats::{Document, Query};
use quarry_embed::Embedder;
use quarry_index::lexical::{LexicalIndex, LexicalText};
use quarry_index::rules::path_parts;
use quarry_index::{Filter, Hit, Index, OpenOptions, RankingWeights};
use rayon::prelude::*;

use super::tree::SourceFile;
use super::variants::{Shortened, Variant, VariantMethod, VariantModel};
use super::view::View;
use super::{LabeledQuery, QuerySet};
use crate::EvalError;
use crate::method::{BagOfWords, Bm25, Corpus, LoadModel, ModelName, Scorer, Vocabulary};
use crate::repo_search::search;
use crate::spans::{CodeSpan, K};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Indexing,
    /// A query was searched with a variant.
    Asked,
}

pub struct Repository<'a> {
    pub root: &'a Path,
    /// Files below the root ([`super::tree::read`]).
    pub files: &'a [SourceFile],
    pub load: &'a LoadModel<'a>,
    /// Path of a model given by the user.
    pub model: Option<&'a Path>,
}

pub struct Units {
    /// Path, lines and name of each.
    pub hits: Vec<Hit>,
    pub texts: Vec<String>,
}

/// A copy of the visible files of a view, with its index; a view that hides nothing is indexed in place.
struct IndexedView {
    directory: tempfile::TempDir,
    is_plain: bool,
}

impl IndexedView {
    fn new(repository: &Repository<'_>, view: View) -> Result<Self, EvalError> {
        let directory = tempfile::tempdir().map_err(EvalError::TemporaryDirectory)?;
        if !view.is_plain() {
            let tree = directory.path().join("tree");
            view.write(repository.files, &tree).map_err(EvalError::TemporaryDirectory)?;
        }
        Ok(Self { directory, is_plain: view.is_plain() })
    }

    fn open(&self, repository: &Repository<'_>, model: VariantModel) -> Result<Index, EvalError> {
        let name = repository.model.filter(|_| model.is_given).map_or(ModelName::Builtin, ModelName::Path);
        let embedder = repository.load.load(name)?;
        let embedder: Arc<dyn Embedder> = match model.dimensions {
            Some(dimensions) => Arc::new(Shortened::new(embedder, dimensions)),
            None => embedder,
        };
        let options =
            OpenOptions { directory: Some(self.directory.path().join("index")), ..OpenOptions::default() };
        let copy = self.directory.path().join("tree");
        let root = if self.is_plain { repository.root } else { &copy };
        Ok(Index::open_or_build(root, &options, Some(embedder), &|_| {})?.index)
    }
}

/// The units that are visible in a view.
///
/// # Errors
/// When the view cannot be indexed or read.
pub fn units(repository: &Repository<'_>, view: View) -> Result<Units, EvalError> {
    let viewed = IndexedView::new(repository, view)?;
    units_of(&viewed.open(repository, VariantModel { is_given: false, dimensions: None })?)
}

fn units_of(index: &Index) -> Result<Units, EvalError> {
    let hits: Vec<Hit> = index.units(&Filter::default()).collect();
    let text = |hit| index.source(hit).map(|source| source.text);
    let texts = hits.par_iter().map(text).collect::<Result<_, _>>()?;
    Ok(Units { hits, texts })
}

/// NDCG@10 for each set, by variant and query, in their orders.
///
/// # Errors
/// When a view cannot be indexed, or a model or a search fails.
pub fn evaluate(
    repository: &Repository<'_>,
    sets: &[QuerySet],
    variants: &[Variant],
    on_progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Vec<Vec<f64>>>, EvalError> {
    measure(repository, sets, variants, &LabeledQuery::ndcg, on_progress)
}

/// The value of the ranked results of each query, for each set, by variant and query, in their orders.
///
/// # Errors
/// Like [`evaluate`].
pub fn measure<T: Send + Clone>(
    repository: &Repository<'_>,
    sets: &[QuerySet],
    variants: &[Variant],
    value: &(dyn Fn(&LabeledQuery, &[CodeSpan]) -> T + Sync),
    on_progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Vec<Vec<T>>>, EvalError> {
    let mut of_views: BTreeMap<View, Vec<usize>> = BTreeMap::new();
    for (number, set) in sets.iter().enumerate() {
        of_views.entry(set.view).or_default().push(number);
    }
    let mut values = vec![vec![Vec::new(); variants.len()]; sets.len()];
    for (view, numbers) in of_views {
        on_progress(Progress::Indexing);
        let viewed = IndexedView::new(repository, view)?;
        let mut indexes: Vec<(VariantModel, Index)> = Vec::new();
        let mut units: Option<Units> = None;
        for (position, variant) in variants.iter().enumerate() {
            let model = match variant.method {
                VariantMethod::Search(model) => model,
                _ => VariantModel { is_given: false, dimensions: None },
            };
            if !indexes.iter().any(|(known, _)| *known == model) {
                indexes.push((model, viewed.open(repository, model)?));
            }
            let Some((_, index)) = indexes.iter().find(|(known, _)| *known == model) else { continue };
            let finder = match variant.method {
                VariantMethod::Search(_) => Finder::Search(index, &variant.ranking),
                method => {
                    if units.is_none() {
                        units = Some(units_of(index)?);
                    }
                    let Some(units) = &units else { continue };
                    Finder::Documents(units, document_scorer(units, method, &variant.ranking)?)
                }
            };
            for &number in &numbers {
                let ask = |query: &LabeledQuery| {
                    let value = finder.find(&query.text).map(|spans| value(query, &spans));
                    on_progress(Progress::Asked);
                    value
                };
                let queries = &sets[number].questions.queries;
                values[number][position] = queries.par_iter().map(ask).collect::<Result<_, _>>()?;
            }
        }
    }
    Ok(values)
}

/// Finds spans of code, best first, at most [`K`].
enum Finder<'a> {
    Search(&'a Index, &'a RankingWeights),
    Documents(&'a Units, Box<dyn Scorer>),
}

impl Finder<'_> {
    fn find(&self, query: &str) -> Result<Vec<CodeSpan>, EvalError> {
        match self {
            Finder::Search(index, ranking) => {
                Ok(search(index, query, ranking)?.hits.into_iter().map(CodeSpan::from).collect())
            }
            Finder::Documents(units, scorer) => {
                let query = Query { id: String::new(), text: query.to_owned() };
                let scores = scorer.scores(&[&query])?.into_iter().next().unwrap_or_default();
                Ok(best(&scores).into_iter().map(|unit| CodeSpan::from(units.hits[unit].clone())).collect())
            }
        }
    }
}

/// The documents with the best scores above 0, ties in order.
fn best(scores: &[f32]) -> Vec<usize> {
    let mut found: Vec<usize> = (0..scores.len()).filter(|&document| scores[document] > 0.0).collect();
    let order = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    if found.len() > K {
        found.select_nth_unstable_by(K, order);
        found.truncate(K);
    }
    found.sort_unstable_by(order);
    found
}

fn document_scorer(
    units: &Units,
    method: VariantMethod,
    ranking: &RankingWeights,
) -> Result<Box<dyn Scorer>, EvalError> {
    if let VariantMethod::Bm25(rules) = method {
        let texts = units.hits.iter().zip(&units.texts).map(|(hit, text)| {
            let parts = path_parts(&hit.path);
            let (file, directory) = (parts.stem, parts.directory);
            LexicalText { name: &hit.name, file, directory, body: text.into(), ..LexicalText::default() }
        });
        let index = LexicalIndex::in_memory_by(rules, texts)?;
        return Ok(Box::new(Bm25 { index, rules, ranking: ranking.clone() }));
    }
    let document = |text: &String| Document::new(String::new(), text.clone());
    let documents: Vec<Document> = units.texts.iter().map(document).collect();
    let corpus = Corpus::from(documents.as_slice());
    Ok(Box::new(BagOfWords::new(corpus, Vocabulary::Corpus, BagOfWords::VOCABULARY_SIZE)?))
}
