/// Why something could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A score that has no place in any order.
    #[error(
        "the score of document number {position} is not a number: expected numbers only; mend the method"
    )]
    NotANumber {
        /// Place of the document among those scored, from 0.
        position: usize,
    },
    /// A scorer that does not fit its documents.
    #[error("expected one score for each of {documents} documents, found {scores}; mend the method")]
    ScoreCount {
        /// Number of documents.
        documents: usize,
        /// Number of scores.
        scores: usize,
    },
    /// Nothing to take a mean of.
    #[error("expected at least one query to average over, found none: {remedy}")]
    NoQueries {
        /// What to do.
        remedy: &'static str,
    },
    /// Values that a bootstrap cannot take.
    #[error("expected finite values of the same shape on both sides, found {found}")]
    Values {
        /// What is wrong with them.
        found: String,
    },
    /// A measure's name that is not known.
    #[error(
        "expected a measure (mrr, mrr@K, map, ndcg@K, recall@K, precision@K, hit_rate@K, with K from 1), found {found:?}"
    )]
    UnknownMeasure {
        /// The name.
        found: String,
    },
    /// A model failed.
    #[error(transparent)]
    Embed(#[from] quarry_embed::EmbedError),
    /// A data set file is wrong.
    #[error(transparent)]
    Format(#[from] quarry_corpus::formats::FormatError),
}
