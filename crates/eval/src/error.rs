use quarry_corpus::toml_file::Mistake;
use quarry_text::did_you_mean;

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    #[error(transparent)]
    Metrics(#[from] quarry_metrics::MetricsError),
    #[error("{found:?} is neither a method nor the path of a model; {}", known_methods(found))]
    UnknownMethod { found: String },
    #[error(
        "{method}: expected numbers as scores, found NaN for the query {query:?}; its model or file is damaged"
    )]
    NotANumber { method: String, query: String },
    #[error("chat:{model}: chat models are not supported here; choose another method")]
    NoChat { model: String },
    #[error("chat:{model}")]
    Chat { model: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("training of {name}")]
    Training { name: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "expected the same number of seeds for all trained models, or one, found {}; list as many seeds for each",
        numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    )]
    Seeds { numbers: Vec<usize> },
    #[error(transparent)]
    Method(#[from] crate::method::MethodError),
    #[error(
        "{}: expected the root of {name}, found no directory; in a clone of it run `{command} | tar -x -C DIR/{name}`",
        path.display()
    )]
    MissingRepository { path: std::path::PathBuf, name: String, command: String },
    #[error(
        "{name}: expected a clone of it in {directories}, named OWNER/NAME, OWNER+NAME, OWNER__NAME or NAME, found none; clone it \
         there, or leave its issues out with --repository"
    )]
    NoClone { name: String, directories: String },
    #[error("{name}: expected at least one query with an answer; add one, or leave the repository out")]
    NothingToAsk { name: String },
    /// A method that ranks documents and cannot search repositories.
    #[error(
        "expected a method that searches repositories: bm25, static, fast or hybrid, best, the path of a model, or rerank(A, DIR, \
         depth = {}) for one of these with a model and the directory of a cross-encoder, found {found}",
        quarry_index::rerank::CROSS_ENCODER_DEPTH
    )]
    NoRepositoryMethod { found: String },
    /// A method that reads qrels, with qrels that contain no relevant document.
    #[error(
        "expected a relevant document for the vocabulary of relevant documents, found none; use bow instead"
    )]
    NoPositives,
    /// A plan, or vectors or scores of another program, that are missing or malformed.
    #[error("{}: {problem}", path.display())]
    File { path: std::path::PathBuf, problem: String },
    #[error("a temporary directory cannot be created; check TMPDIR and the free space")]
    TemporaryDirectory(#[source] std::io::Error),
    #[error("the run cannot be written")]
    Output(#[source] std::io::Error),
    #[error("{protocol} needs --{role} ({formats}): {about}")]
    MissingRole { protocol: &'static str, role: &'static str, formats: String, about: &'static str },
    /// All of several optional inputs are missing, and the protocol needs one of them.
    #[error("{protocol} needs at least one of {roles}, found none")]
    MissingAnyRole { protocol: &'static str, roles: String },
    #[error("{protocol}: expected {roles}, found --{found}; remove it")]
    UnknownRole { protocol: &'static str, found: String, roles: String },
    #[error("{protocol} does not take the option {found}: expected one of {options}; remove it")]
    UnknownOption { protocol: &'static str, found: &'static str, options: String },
    #[error("{}:{mistake}", path.display())]
    PlanEntry {
        path: std::path::PathBuf,
        /// The line, and what was expected.
        mistake: Mistake,
    },
    #[error("{}: the results cannot be written; check the directory and the free space", path.display())]
    Results { path: std::path::PathBuf, source: std::io::Error },
    #[error("{}: another process writes these results; wait for it, or name another directory", path.display())]
    ResultsInUse { path: std::path::PathBuf },
    #[error("{}: expected a file or directory that can be read; check the path in the plan", path.display())]
    Input { path: std::path::PathBuf, source: std::io::Error },
    #[error(transparent)]
    Git(#[from] quarry_history::GitError),
    #[error(transparent)]
    Walk(#[from] quarry_walk::WalkError),
    #[error(transparent)]
    Embed(#[from] quarry_embed::EmbedError),
    #[error(transparent)]
    Index(#[from] quarry_index::Error),
    #[error("{policy}: reading failed")]
    Policy { policy: String, source: Box<dyn std::error::Error + Send + Sync> },
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
