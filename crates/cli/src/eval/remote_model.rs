//! A model behind an API for embeddings.

use quarry_embed::{EmbedError, Embedder, Vectors};
use quarry_llm::Client;

/// Prefixes of texts, for models that were trained with a mark on each side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Prefixes {
    pub(super) query: String,
    pub(super) document: String,
}

/// A model that a server runs. Vectors are normalized here, whether or not the server does; a text without anything
/// but white space is not sent, and has a row of zeros.
pub(super) struct RemoteModel {
    id: String,
    client: Client,
    prefixes: Prefixes,
    dimension: usize,
}

impl RemoteModel {
    /// Asks the server for one vector, to learn their dimension.
    pub(super) fn new(client: Client, prefixes: Prefixes) -> Result<Self, EmbedError> {
        let dimension = client
            .embed(&["dimension"])
            .map_err(|error| EmbedError::Remote(error.into()))?
            .vectors
            .first()
            .map_or(0, Vec::len);
        let mut id = client.name();
        if prefixes != Prefixes::default() {
            id += &format!(", {:?} before queries, {:?} before documents", prefixes.query, prefixes.document);
        }
        Ok(Self { id, client, prefixes, dimension })
    }

    fn embed(&self, prefix: &str, texts: &[&str]) -> Result<Vectors, EmbedError> {
        let said = |text: &&&str| !text.trim().is_empty();
        let sent: Vec<String> = texts.iter().filter(said).map(|text| format!("{prefix}{text}")).collect();
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        let mut answers =
            self.client.embed(&sent).map_err(|error| EmbedError::Remote(error.into()))?.vectors.into_iter();
        let mut values = Vec::with_capacity(texts.len() * self.dimension);
        for text in texts {
            let row =
                if said(&text) { answers.next().unwrap_or_default() } else { vec![0.0; self.dimension] };
            if row.len() != self.dimension {
                return Err(EmbedError::Model {
                    path: self.client.name(),
                    problem: format!(
                        "expected vectors of {} values as before, found {}; empty the cache of answers if the model \
                         was replaced",
                        self.dimension,
                        row.len()
                    ),
                });
            }
            values.extend(row);
        }
        let mut vectors = Vectors { dimension: self.dimension, values };
        vectors.normalize();
        if !vectors.values.iter().all(|value| value.is_finite()) {
            return Err(EmbedError::Model {
                path: self.client.name(),
                problem: "gives vectors whose values are too large; name another model".to_owned(),
            });
        }
        Ok(vectors)
    }
}

impl Embedder for RemoteModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(&self.prefixes.query, texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(&self.prefixes.document, texts)
    }
}
