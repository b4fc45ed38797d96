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
    /// Probabilities that are none, or that have no outcomes.
    #[error("expected one outcome for each probability between 0 and 1, and at least one, found {found}")]
    Forecasts {
        /// What is wrong with them.
        found: String,
    },
    /// A measure's name that is not known.
    #[error(
        "expected a measure (mrr, mmrr, map, ndcg, all also as mrr@K, recall@K, precision@K, hit_rate@K, success@K, judged@K, r_precision, bpref, rbp.P, with K from 1 and P such as 95), found {found:?}"
    )]
    UnknownMeasure {
        /// The name.
        found: String,
    },
    /// A method's name that is not known.
    #[error(
        "expected a method: bow, bm25, static, hybrid or the path of a model, found {found:?}, which is none"
    )]
    UnknownMethod {
        /// The name.
        found: String,
    },
    /// A checkout that is not there.
    #[error(
        "{}: expected the root of {name}, found no folder; in a clone of it run `{command} | tar -x -C DIR/{name}`",
        path.display()
    )]
    MissingRepository {
        /// Where it should be.
        path: std::path::PathBuf,
        /// Short name of the repository.
        name: String,
        /// What writes its root as a tar archive.
        command: String,
    },
    /// A repository without a query that has an answer.
    #[error("{name}: expected at least one query with an answer; add one, or leave the repository out")]
    NothingToAsk {
        /// Short name of the repository.
        name: String,
    },
    /// A method that ranks documents, not repositories.
    #[error(
        "expected a method that searches repositories (bm25, static, hybrid or the path of a model), found bow"
    )]
    NoRepositoryMethod,
    /// No folder for an index.
    #[error("a temporary folder cannot be made; check TMPDIR and the free space")]
    TemporaryFolder(#[source] std::io::Error),
    /// A run, or whatever is done with scores, cannot be written.
    #[error("the run cannot be written")]
    Output(#[source] std::io::Error),
    /// A plan that cannot be run.
    #[error("{}: {problem}", path.display())]
    Plan {
        /// The plan.
        path: std::path::PathBuf,
        /// What was expected, what was found, what to do.
        problem: String,
    },
    /// A tree cannot be listed.
    #[error(transparent)]
    Walk(#[from] quarry_corpus::walk::WalkError),
    /// A model failed.
    #[error(transparent)]
    Embed(#[from] quarry_embed::EmbedError),
    /// An index failed.
    #[error(transparent)]
    Index(#[from] quarry_index::Error),
    /// A data set file is wrong.
    #[error(transparent)]
    Format(#[from] quarry_corpus::formats::FormatError),
}
