use quarry_corpus::toml_file::Mistake;
use quarry_text::did_you_mean;

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// Values for which a metric is undefined.
    #[error(transparent)]
    Metrics(#[from] quarry_metrics::MetricsError),
    #[error("{found:?} is neither a method nor the path of a model; {}", known_methods(found))]
    UnknownMethod {
        /// The unknown name.
        found: String,
    },
    /// A method that gave a score that is not a number.
    #[error(
        "{method}: expected numbers as scores, found NaN for the query {query:?}; its model or file is damaged"
    )]
    NotANumber {
        method: String,
        /// Id of the query.
        query: String,
    },
    /// A chat model in a build or command that does not support chat models.
    #[error("chat:{model}: chat models are not supported here; choose another method")]
    NoChat {
        /// Name of the model.
        model: String,
    },
    /// A chat model that returned no verdict.
    #[error("chat:{model}")]
    Chat {
        /// Name of the model.
        model: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A model that could not be trained.
    #[error("training of {name}")]
    Training {
        /// Name of the model in its plan.
        name: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Trained models with different numbers of seeds in one method or run.
    #[error(
        "expected the same number of seeds for all trained models, or one, found {}; list as many seeds for each",
        numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    )]
    Seeds {
        /// Numbers of seeds.
        numbers: Vec<usize>,
    },
    /// An expression that does not name a method.
    #[error(transparent)]
    Method(#[from] crate::method::MethodError),
    /// A missing checkout.
    #[error(
        "{}: expected the root of {name}, found no directory; in a clone of it run `{command} | tar -x -C DIR/{name}`",
        path.display()
    )]
    MissingRepository {
        /// Path of the expected root.
        path: std::path::PathBuf,
        /// Short name of the repository.
        name: String,
        /// Command that writes the root as a tar archive.
        command: String,
    },
    /// A missing clone.
    #[error(
        "{name}: expected a clone of it in {directories}, named OWNER/NAME, OWNER+NAME, OWNER__NAME or NAME, found none; clone it \
         there, or leave its issues out with --repository"
    )]
    NoClone {
        /// Owner and name of the repository.
        name: String,
        /// Searched directories.
        directories: String,
    },
    /// A repository with no query that has an answer.
    #[error("{name}: expected at least one query with an answer; add one, or leave the repository out")]
    NothingToAsk {
        /// Short name of the repository.
        name: String,
    },
    /// A method that ranks documents and cannot search repositories.
    #[error(
        "expected a method that searches repositories: bm25, static, fast or hybrid, best, the path of a model, or rerank(A, DIR, \
         depth = {}) for one of these with a model and the directory of a cross-encoder, found {found}",
        quarry_index::rerank::CROSS_ENCODER_DEPTH
    )]
    NoRepositoryMethod {
        /// The method.
        found: String,
    },
    /// A method that reads qrels, with qrels that contain no relevant document.
    #[error(
        "expected a relevant document for the vocabulary of relevant documents, found none; use bow instead"
    )]
    NoPositives,
    /// Vectors or scores of another program that are missing or malformed.
    #[error("{}: {problem}", path.display())]
    Precomputed {
        /// The file.
        path: std::path::PathBuf,
        problem: String,
    },
    /// A directory for an index cannot be created.
    #[error("a temporary directory cannot be created; check TMPDIR and the free space")]
    TemporaryDirectory(#[source] std::io::Error),
    /// A run cannot be written.
    #[error("the run cannot be written")]
    Output(#[source] std::io::Error),
    /// A missing input of a protocol.
    #[error("{protocol} needs --{role} ({formats}): {about}")]
    MissingRole {
        protocol: &'static str,
        /// Name of the input.
        role: &'static str,
        /// Formats that the input may have.
        formats: String,
        /// Description of the input.
        about: &'static str,
    },
    /// All of several optional inputs are missing, and the protocol needs one of them.
    #[error("{protocol} needs at least one of {roles}, found none")]
    MissingAnyRole {
        protocol: &'static str,
        /// Inputs of the protocol.
        roles: String,
    },
    /// An input that a protocol does not have.
    #[error("{protocol}: expected {roles}, found --{found}; remove it")]
    UnknownRole {
        protocol: &'static str,
        /// Name of the unknown input.
        found: String,
        /// Inputs of the protocol.
        roles: String,
    },
    /// An option that a protocol does not take.
    #[error("{protocol} does not take the option {found}: expected one of {options}; remove it")]
    UnknownOption {
        protocol: &'static str,
        /// Name of the option.
        found: &'static str,
        /// Options of the protocol.
        options: String,
    },
    /// A plan that cannot be run.
    #[error("{}: {problem}", path.display())]
    Plan {
        /// The plan.
        path: std::path::PathBuf,
        problem: String,
    },
    /// A plan with a wrong entry.
    #[error("{}:{mistake}", path.display())]
    PlanEntry {
        /// The plan.
        path: std::path::PathBuf,
        /// The line, and what was expected.
        mistake: Mistake,
    },
    /// Results that cannot be stored.
    #[error("{}: the results cannot be written; check the directory and the free space", path.display())]
    Results {
        /// The file or directory.
        path: std::path::PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Results that another process is writing.
    #[error("{}: another process writes these results; wait for it, or name another directory", path.display())]
    ResultsInUse {
        /// Directory of the results.
        path: std::path::PathBuf,
    },
    /// An input of a plan that cannot be read.
    #[error("{}: expected a file or directory that can be read; check the path in the plan", path.display())]
    Input {
        /// Path of the input.
        path: std::path::PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A clone cannot be read.
    #[error(transparent)]
    Git(#[from] quarry_history::GitError),
    /// A tree cannot be listed.
    #[error(transparent)]
    Walk(#[from] quarry_walk::WalkError),
    /// A model failed.
    #[error(transparent)]
    Embed(#[from] quarry_embed::EmbedError),
    /// An index failed.
    #[error(transparent)]
    Index(#[from] quarry_index::Error),
    /// A policy of reading failed.
    #[error("{policy}: reading failed")]
    Policy {
        /// Its name.
        policy: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A data set file is malformed.
    #[error(transparent)]
    Format(#[from] quarry_corpus::formats::FormatError),
}

/// The method that may be meant by a name, else all.
fn known_methods(found: &str) -> String {
    const ALONE: [&str; 9] =
        ["bow", "bm25", "bm25-lucene", "overlap", "static", "hybrid", "fast", "best", "balanced"];
    did_you_mean(found, ALONE).unwrap_or_else(|| {
        format!(
            "expected {}, the path of a model, api:MODEL, chat:MODEL, vectors:DIR, run:FILE, or mean, max-abs, rrf, zscore or \
             rerank of others, as in rrf(bm25, static)",
            ALONE.join(", ")
        )
    })
}
