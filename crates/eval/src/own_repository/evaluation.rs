//! Asks every question of every variant.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use quarry_corpus::formats::{Document, Query};
use quarry_embed::Embedder;
use quarry_index::lexical::{Groups, LexicalIndex, LexicalText};
use quarry_index::rules::path_parts;
use quarry_index::{Filter, Hit, Index, OpenOptions, RankingWeights};
use quarry_text::TermRules;
use rayon::prelude::*;

use super::tree::SourceFile;
use super::variants::{Shortened, Variant, VariantMethod, VariantModel};
use super::view::View;
use super::{Asked, LabelledQuery};
use crate::EvalError;
use crate::method::{BagOfWords, Corpus, LoadModel, ModelName, Scorer, Vocabulary};
use crate::repo_search::{K, Place, search};

/// What happens while questions are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// What a view shows is being indexed.
    Indexing,
    /// One more question was asked of one more variant.
    Asked,
}

/// A repository with what is needed to ask it.
pub struct Repository<'a> {
    /// Its folder.
    pub root: &'a Path,
    /// The files in it ([`super::tree::read`]).
    pub files: &'a [SourceFile],
    /// Loads models.
    pub load: &'a LoadModel<'a>,
    /// Path of the model that was given.
    pub model: Option<&'a Path>,
}

/// Units of a view, as they are indexed.
pub struct Units {
    /// Place of each.
    pub hits: Vec<Hit>,
    /// Source of each.
    pub texts: Vec<String>,
}

/// A copy of what a view shows, with its index; what is plain is indexed where it lies.
struct Viewed {
    folder: tempfile::TempDir,
    is_plain: bool,
}

impl Viewed {
    fn new(repository: &Repository<'_>, view: View) -> Result<Self, EvalError> {
        let folder = tempfile::tempdir().map_err(EvalError::TemporaryFolder)?;
        if !view.is_plain() {
            view.write(repository.files, &folder.path().join("tree")).map_err(EvalError::TemporaryFolder)?;
        }
        Ok(Self { folder, is_plain: view.is_plain() })
    }

    fn open(&self, repository: &Repository<'_>, model: VariantModel) -> Result<Index, EvalError> {
        let name = repository.model.filter(|_| model.is_given).map_or(ModelName::Builtin, ModelName::Path);
        let embedder = repository.load.load(name)?;
        let embedder: Arc<dyn Embedder> = match model.dimensions {
            Some(dimensions) => Arc::new(Shortened::new(embedder, dimensions)),
            None => embedder,
        };
        let options =
            OpenOptions { directory: Some(self.folder.path().join("index")), ..OpenOptions::default() };
        let copy = self.folder.path().join("tree");
        let root = if self.is_plain { repository.root } else { &copy };
        Ok(Index::open_or_build(root, &options, Some(embedder), &|_| {})?.index)
    }
}

/// The units that a view shows.
///
/// # Errors
/// When it cannot be indexed or read.
pub fn units(repository: &Repository<'_>, view: View) -> Result<Units, EvalError> {
    let viewed = Viewed::new(repository, view)?;
    units_of(&viewed.open(repository, VariantModel { is_given: false, dimensions: None })?)
}

fn units_of(index: &Index) -> Result<Units, EvalError> {
    let hits: Vec<Hit> = index.units(&Filter::default()).collect();
    let text = |hit| index.source(hit).map(|source| source.text);
    let texts = hits.par_iter().map(text).collect::<Result<_, _>>()?;
    Ok(Units { hits, texts })
}

/// NDCG@10 of each question of each entry of `asked`, by variant and question, in their orders.
///
/// # Errors
/// When something cannot be indexed, or a model or a search fails.
pub fn evaluate(
    repository: &Repository<'_>,
    asked: &[Asked],
    variants: &[Variant],
    on_progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Vec<Vec<f64>>>, EvalError> {
    let mut of_views: BTreeMap<View, Vec<usize>> = BTreeMap::new();
    for (number, asked) in asked.iter().enumerate() {
        of_views.entry(asked.view).or_default().push(number);
    }
    let mut values = vec![vec![Vec::new(); variants.len()]; asked.len()];
    for (view, numbers) in of_views {
        on_progress(Progress::Indexing);
        let viewed = Viewed::new(repository, view)?;
        let mut indexes: Vec<(VariantModel, Index)> = Vec::new();
        let mut units: Option<Units> = None;
        for (place, variant) in variants.iter().enumerate() {
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
                let ask = |query: &LabelledQuery| {
                    let value = finder.find(&query.text).map(|places| query.ndcg(&places));
                    on_progress(Progress::Asked);
                    value
                };
                let queries = &asked[number].questions.queries;
                values[number][place] = queries.par_iter().map(ask).collect::<Result<_, _>>()?;
            }
        }
    }
    Ok(values)
}

/// Finds places, best first, at most [`K`].
enum Finder<'a> {
    Search(&'a Index, &'a RankingWeights),
    Documents(&'a Units, Box<dyn Scorer + 'a>),
}

impl Finder<'_> {
    fn find(&self, query: &str) -> Result<Vec<Place>, EvalError> {
        match self {
            Finder::Search(index, ranking) => {
                Ok(search(index, query, ranking)?.hits.into_iter().map(Place::from).collect())
            }
            Finder::Documents(units, scorer) => {
                let query = Query { id: String::new(), text: query.to_owned() };
                let scores = scorer.scores(&[&query])?.into_iter().next().unwrap_or_default();
                Ok(best(&scores).into_iter().map(|unit| Place::from(units.hits[unit].clone())).collect())
            }
        }
    }
}

/// The documents with the best scores above 0, equal ones in their order.
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

fn document_scorer<'a>(
    units: &'a Units,
    method: VariantMethod,
    ranking: &'a RankingWeights,
) -> Result<Box<dyn Scorer + 'a>, EvalError> {
    if let VariantMethod::Bm25(rules) = method {
        let texts = units.hits.iter().zip(&units.texts).map(|(hit, text)| {
            let parts = path_parts(&hit.path);
            let (file, directory) = (parts.stem, parts.directory);
            LexicalText { name: &hit.name, file, directory, body: text.into(), ..LexicalText::default() }
        });
        return Ok(Box::new(Bm25 { index: LexicalIndex::in_memory_by(rules, texts)?, rules, ranking }));
    }
    let document = |text: &String| Document::new(String::new(), text.clone());
    let documents: Vec<Document> = units.texts.iter().map(document).collect();
    let corpus = Corpus::from(documents.as_slice());
    Ok(Box::new(BagOfWords::new(corpus, Vocabulary::Corpus, BagOfWords::VOCABULARY_SIZE)?))
}

/// BM25F over units, by any rules of terms.
struct Bm25<'a> {
    index: LexicalIndex,
    rules: TermRules,
    ranking: &'a RankingWeights,
}

impl Scorer for Bm25<'_> {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let no_groups = Groups { of_text: &[], lengths: &[] };
        let score = |query: &&Query| {
            let terms = self.rules.query_terms(&query.text);
            Ok(self.index.scores(&terms, &self.ranking.bm25f, no_groups)?.texts)
        };
        queries.iter().map(score).collect()
    }
}
