/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// A score that cannot be ordered.
    #[error("the score of document number {position} is not a number: expected numbers only; fix the method")]
    NotANumber {
        /// Position of the document among those scored, from 0.
        position: usize,
    },
    /// A scorer that does not fit its documents.
    #[error("expected one score for each of {documents} documents, found {scores}; fix the method")]
    ScoreCount { documents: usize, scores: usize },
    /// Nothing to take a mean of.
    #[error("expected at least one query to average over, found none: {remedy}")]
    NoQueries { remedy: &'static str },
    /// Values that a bootstrap cannot take.
    #[error("expected finite values of the same shape on both sides, found {found}")]
    Values { found: String },
    /// Invalid probabilities, or probabilities without outcomes.
    #[error("expected one outcome for each probability between 0 and 1, and at least one, found {found}")]
    Forecasts { found: String },
    #[error(
        "expected a measure (mrr, mmrr, map, ndcg, all also as mrr@K, recall@K, precision@K, hit_rate@K, success@K, acc@K (all relevant documents found), judged@K, r_precision, bpref, rbp.P, with K from 1 and P such as 95), found {found:?}"
    )]
    UnknownMeasure { found: String },
}
