//! The formats of exports, and what plans must know of them.

pub(crate) const EXPORT_FORMATS: [&str; 16] = [
    TRAINING_PAIRS,
    "beir",
    "coir",
    "cosqa",
    "cosqa-qa",
    "cosqa-plus",
    "cosqa-plus-folder",
    "gecs",
    LOCALIZE,
    "mteb",
    "mteb-parquet",
    "query-code",
    "query4code",
    "query4code-summaries",
    "query4code-triples",
    CATEGORIES,
];

/// The format that `quarry train` reads.
pub(crate) const TRAINING_PAIRS: &str = "training-pairs";

/// The format of exports that has categories.
pub(crate) const CATEGORIES: &str = "statcodesearch";

/// The format that `quarry eval localize` reads: issues with what fixed them, whatever the labels.
pub(crate) const LOCALIZE: &str = "localize";

/// The format of a file that has no negatives.
pub(crate) const ONLY_MATCHES: &str = "query4code";

/// The kind of export of written queries: one entry for each positive pair whose query was written for its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extract {
    /// The summary in place of the query.
    Summaries,
    Triples,
}

impl Extract {
    pub(crate) fn named(format: &str) -> Option<Self> {
        match format {
            "query4code-summaries" => Some(Self::Summaries),
            "query4code-triples" => Some(Self::Triples),
            _ => None,
        }
    }
}
