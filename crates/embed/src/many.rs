//! Embeds long lists of texts piece by piece.

use crate::{EmbedError, Embedder, Vectors};

/// The side of a search that a text is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A query in plain words.
    Query,
    /// Code, or text about it.
    Document,
}

/// Embeds `texts` in chunks of `chunk_length` (1 where it is 0), one row each, in order. After each chunk `progress`
/// gets the number of texts done so far. Chunks of some thousand texts keep every core busy and report often enough.
///
/// # Errors
/// When the model cannot run on its input; earlier results are lost.
pub fn embed_many(
    embedder: &dyn Embedder,
    side: Side,
    texts: &[&str],
    chunk_length: usize,
    mut progress: impl FnMut(usize),
) -> Result<Vectors, EmbedError> {
    let mut values = Vec::with_capacity(texts.len() * embedder.dimension());
    let mut n_done = 0;
    for chunk in texts.chunks(chunk_length.max(1)) {
        let vectors = match side {
            Side::Query => embedder.embed_queries(chunk)?,
            Side::Document => embedder.embed_documents(chunk)?,
        };
        values.extend(vectors.values);
        n_done += chunk.len();
        progress(n_done);
    }
    Ok(Vectors { dimension: embedder.dimension(), values })
}
