//! The compared methods: a table, `variants.toml`, of differences from the default search.

use std::sync::Arc;

use quarry_embed::{EmbedError, Embedder, Vectors};
use quarry_index::{NamedRanking, RANKINGS, RankingWeights};
use quarry_text::TermRules;
use serde::Deserialize;

use crate::EvalError;
use quarry_metrics::MetricsError;

const TABLE: &str = include_str!("variants.toml");

#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    pub name: String,
    pub about: String,
    pub method: VariantMethod,
    /// Weights of the ranking; if units are documents, only the parameters of BM25F are used.
    pub ranking: RankingWeights,
    /// Setting that selects this variant, if there is one.
    pub setting: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariantMethod {
    /// With the index, like the search command.
    Search(VariantModel),
    /// With units as documents: bag of words.
    BagOfWords,
    /// With units as documents: BM25F.
    Bm25(TermRules),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariantModel {
    /// True for the model given by the user, false for the built-in one.
    pub is_given: bool,
    /// Number of dimensions to keep, if it has more; all if `None`.
    pub dimensions: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    variant: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    ranking: Option<String>,
    name: Option<String>,
    about: Option<String>,
    dimensions: Option<usize>,
    model: Option<Model>,
    documents: Option<Documents>,
    #[serde(default)]
    terms: Terms,
    setting: Option<String>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Model {
    Given,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Documents {
    Bow,
    Bm25,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Terms {
    stems: bool,
    parts: bool,
}

impl Default for Terms {
    fn default() -> Self {
        let TermRules { stems, parts } = TermRules::default();
        Self { stems, parts }
    }
}

/// The variants of the table, the default first. Includes those with a given model if `has_model`.
///
/// # Errors
/// When the table is invalid, which a test checks.
pub fn variants(has_model: bool) -> Result<Vec<Variant>, EvalError> {
    let wrong = |found: String| MetricsError::Values { found };
    let table: Table = toml::from_str(TABLE).map_err(|error| wrong(error.to_string()))?;
    let entries = table.variant.into_iter().filter(|entry| has_model || entry.model.is_none());
    let variants: Result<_, MetricsError> = entries.map(|entry| variant(entry).map_err(wrong)).collect();
    Ok(variants?)
}

fn variant(entry: Entry) -> Result<Variant, String> {
    let ranking = match &entry.ranking {
        None => &RANKINGS[0],
        Some(name) => {
            NamedRanking::find(name).ok_or_else(|| format!("the ranking {name:?} in variants.toml"))?
        }
    };
    let method = match entry.documents {
        Some(Documents::Bow) => VariantMethod::BagOfWords,
        Some(Documents::Bm25) => {
            VariantMethod::Bm25(TermRules { stems: entry.terms.stems, parts: entry.terms.parts })
        }
        None => VariantMethod::Search(VariantModel {
            is_given: entry.model == Some(Model::Given),
            dimensions: entry.dimensions,
        }),
    };
    let chosen =
        entry.ranking.map(|name| format!("--ranking {name}, or `ranking = \"{name}\"` in .quarry.toml"));
    Ok(Variant {
        name: entry.name.unwrap_or_else(|| ranking.name.to_owned()),
        about: entry.about.unwrap_or_else(|| ranking.about.to_owned()),
        method,
        ranking: ranking.weights(),
        setting: entry.setting.or(chosen),
    })
}

/// A model truncated to its first dimensions.
pub(super) struct Shortened {
    inner: Arc<dyn Embedder>,
    dimension: usize,
    id: String,
}

impl Shortened {
    /// Keeps `dimension` dimensions, or all that the model has.
    pub(super) fn new(inner: Arc<dyn Embedder>, dimension: usize) -> Self {
        let dimension = dimension.min(inner.dimension());
        let id = format!("{} cut to {dimension}", inner.id());
        Self { inner, dimension, id }
    }

    /// Truncates each vector and normalizes it again.
    fn cut(&self, vectors: &Vectors) -> Vectors {
        let mut values = Vec::with_capacity(vectors.values.len() / vectors.dimension * self.dimension);
        for vector in vectors.values.chunks_exact(vectors.dimension) {
            let kept = &vector[..self.dimension];
            let norm = kept.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            values.extend(kept.iter().map(|value| value / norm));
        }
        Vectors { dimension: self.dimension, values }
    }
}

impl Embedder for Shortened {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn adds_words(&self) -> bool {
        self.inner.adds_words()
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        Ok(self.cut(&self.inner.embed_queries(texts)?))
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        Ok(self.cut(&self.inner.embed_documents(texts)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_embed::StaticModel;
    use std::collections::HashSet;

    #[test]
    fn the_table_holds_at_least_twelve_different_methods_and_the_default_first() {
        let variants = variants(true).unwrap();
        assert_eq!(variants[0].ranking, RankingWeights::default());
        assert_eq!(
            variants[0].method,
            VariantMethod::Search(VariantModel { is_given: false, dimensions: None })
        );
        let names: HashSet<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names.len(), variants.len());
        for (position, variant) in variants.iter().enumerate() {
            let is_same =
                |other: &Variant| other.method == variant.method && other.ranking == variant.ranking;
            assert!(!variants[..position].iter().any(is_same), "{}", variant.name);
        }
        let without = super::variants(false).unwrap();
        assert!(without.len() >= 12 && without.len() < variants.len());
    }

    #[test]
    fn a_variant_differs_as_its_entry_says() {
        let variants = variants(false).unwrap();
        let find = |name: &str| variants.iter().find(|variant| variant.name == name).unwrap();
        assert_eq!(find("no-rules").ranking, NamedRanking::find("no-rules").unwrap().weights());
        assert_eq!(find("no-rules").about, "words and meaning, without rules");
        assert!(find("no-rules").setting.as_ref().unwrap().starts_with("--ranking no-rules"));
        assert_eq!(find("search").setting, None);
        let unstemmed = TermRules { stems: false, ..TermRules::default() };
        assert_eq!(find("bm25 unstemmed").method, VariantMethod::Bm25(unstemmed));
    }

    #[test]
    fn a_shortened_model_has_vectors_of_length_1() {
        let model: Arc<dyn Embedder> = Arc::new(StaticModel::builtin());
        let short = Shortened::new(Arc::clone(&model), 16);
        assert_ne!(short.id(), model.id());
        let (whole, cut) =
            (model.embed_queries(&["sort a list"]).unwrap(), short.embed_queries(&["sort a list"]).unwrap());
        assert_eq!((cut.dimension, cut.values.len()), (16, 16));
        let norm: f32 = cut.values.iter().map(|value| value * value).sum();
        assert!((norm - 1.0).abs() < 1e-5);
        let ratio = cut.values[0] / whole.values[0];
        assert!((cut.values[1] / whole.values[1] - ratio).abs() < 1e-4);
    }
}
