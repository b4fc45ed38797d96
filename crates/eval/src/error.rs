/// Why something could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// Nothing that could be measured.
    #[error(transparent)]
    Metrics(#[from] quarry_metrics::MetricsError),
    /// A method's name that is not known.
    #[error(
        "expected a method: bow, bm25, bm25-lucene, overlap, static, hybrid, the path of a model, api:MODEL, \
         chat:MODEL, vectors:FOLDER, run:FILE, or mean, max-abs, rrf, zscore or rerank of others, as in rrf(bm25, static); found \
         {found:?}, where no model is"
    )]
    UnknownMethod {
        /// The name.
        found: String,
    },
    /// A chat model where none can be asked.
    #[error("chat:{model}: no chat model can be asked here; take another method")]
    NoChat {
        /// Its name.
        model: String,
    },
    /// A chat model that gave no verdict.
    #[error("chat:{model}")]
    Chat {
        /// Its name.
        model: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An expression that is no method.
    #[error(transparent)]
    Method(#[from] crate::method::MethodError),
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
        "expected a method that searches repositories: bm25, static, hybrid or the path of a model, found {found}"
    )]
    NoRepositoryMethod {
        /// The method.
        found: String,
    },
    /// A method that looks at judgements, without any.
    #[error(
        "expected a document that is judged relevant, for the vocabulary of relevant documents, found none; take bow"
    )]
    NoPositives,
    /// Vectors or scores of another program that are missing or wrong.
    #[error("{}: {problem}", path.display())]
    Precomputed {
        /// The file.
        path: std::path::PathBuf,
        /// What was expected, what was found, what to do.
        problem: String,
    },
    /// No folder for an index.
    #[error("a temporary folder cannot be made; check TMPDIR and the free space")]
    TemporaryFolder(#[source] std::io::Error),
    /// A run, or whatever is done with scores, cannot be written.
    #[error("the run cannot be written")]
    Output(#[source] std::io::Error),
    /// A protocol without something that it needs.
    #[error("{protocol} needs --{role} ({formats}): {about}")]
    MissingRole {
        /// The protocol.
        protocol: &'static str,
        /// What it needs.
        role: &'static str,
        /// The formats that it may have.
        formats: String,
        /// What it is.
        about: &'static str,
    },
    /// A protocol without any of several inputs.
    #[error("{protocol} needs at least one of {roles}, found none")]
    MissingAnyRole {
        /// The protocol.
        protocol: &'static str,
        /// What it takes.
        roles: String,
    },
    /// An input that a protocol does not know.
    #[error("{protocol}: expected {roles}, found --{found}; leave it out")]
    UnknownRole {
        /// The protocol.
        protocol: &'static str,
        /// What was named.
        found: String,
        /// What it takes.
        roles: String,
    },
    /// An option that a protocol does not take.
    #[error("{protocol} does not take the option {found}: expected one of {options}; leave it out")]
    UnknownOption {
        /// The protocol.
        protocol: &'static str,
        /// What was said.
        found: &'static str,
        /// What it takes.
        options: String,
    },
    /// A plan that cannot be run.
    #[error("{}: {problem}", path.display())]
    Plan {
        /// The plan.
        path: std::path::PathBuf,
        /// What was expected, what was found, what to do.
        problem: String,
    },
    /// Results that cannot be kept.
    #[error("{}: the results cannot be written; check the directory and the free space", path.display())]
    Results {
        /// The file or folder.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Results that another process writes.
    #[error("{}: another process writes these results; wait for it, or name another folder", path.display())]
    ResultsInUse {
        /// The folder.
        path: std::path::PathBuf,
    },
    /// A file or folder that is measured on, and cannot be read.
    #[error("{}: expected a file or folder that can be read; check the path in the plan", path.display())]
    Input {
        /// Where it should be.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A tree cannot be listed.
    #[error(transparent)]
    Walk(#[from] quarry_walk::WalkError),
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
