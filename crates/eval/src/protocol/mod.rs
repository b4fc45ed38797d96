//! Protocols of the papers on code search: which files go in, what is ranked or decided, what is measured.
//!
//! Each [`Protocol`] is an entry of [`PROTOCOLS`] with its inputs by role, the options that it takes and the
//! [`DISCREPANCIES`] between paper and code that may concern it. What one method reaches under it is an [`Outcome`].

mod discrepancies;
mod outcome;

pub use discrepancies::{DISCREPANCIES, Discrepancy, discrepancy};
pub use outcome::{Outcome, Part, Predictions, Values, Verdict, Verdicts};

/// A way to measure.
#[derive(Debug)]
pub struct Protocol {
    /// Its name on the command line.
    pub name: &'static str,
    /// Paper and section that it comes from.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// Its inputs.
    pub roles: &'static [Role],
    /// What it measures, by the names of means.
    pub measures: &'static [&'static str],
    /// The options that it takes, by the names of the fields of its options.
    pub options: &'static [&'static str],
    /// Numbers of the discrepancies that may concern it.
    pub discrepancies: &'static [&'static str],
}

/// An input of a protocol.
#[derive(Debug)]
pub struct Role {
    /// Its name on the command line.
    pub name: &'static str,
    /// Names of the formats that it may have, or the beginnings of such names up to a `-`; any if empty.
    pub formats: &'static [&'static str],
    /// Whether the protocol can do without.
    pub optional: bool,
    /// What it is.
    pub about: &'static str,
}

impl Role {
    const fn required(name: &'static str, formats: &'static [&'static str], about: &'static str) -> Self {
        Self { name, formats, optional: false, about }
    }

    const fn optional(name: &'static str, formats: &'static [&'static str], about: &'static str) -> Self {
        Self { name, formats, optional: true, about }
    }
}

/// The protocol of a name.
#[must_use]
pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|protocol| protocol.name == name)
}

const DEV: Role = Role::optional(
    "dev",
    &["cosqa-qa", "gecs", "cosqa-plus", "webquery"],
    "labelled pairs on which the threshold of matches is chosen; 0.5 without",
);
const BENCHMARK: Role =
    Role::required("benchmark", &[], "a BEIR folder, or files of queries, documents and judgements or pairs");

/// All protocols.
pub static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "full-corpus",
        source: "CoSQA section 5.3, CoSQA+ section 4, BEIR",
        about: "Ranks all documents for each query",
        roles: &[BENCHMARK],
        measures: &["mrr", "map", "ndcg@10", "recall@10"],
        options: &["measures", "ties"],
        discrepancies: &[],
    },
    Protocol {
        name: "distractors",
        source: "GenCodeSearchNet section 5.2",
        about: "Ranks what answers a query among drawn documents that do not",
        roles: &[BENCHMARK],
        measures: &["mrr"],
        options: &["measures", "ties", "seeds", "distractors", "sampling", "without_twins", "as_released"],
        discrepancies: &["G2", "G4", "G5"],
    },
    Protocol {
        name: "pair-matching",
        source: "CoSQA section 5.2, GenCodeSearchNet section 5.1",
        about: "Says for each pair whether the code answers the query, at 0.5 and at the best threshold of other pairs",
        roles: &[Role::required("pairs", &[], "labelled pairs"), DEV],
        measures: &["accuracy", "precision", "recall", "f1", "roc_auc"],
        options: &[],
        discrepancies: &["G6"],
    },
    Protocol {
        name: "cosqa-qa",
        source: "CoSQA section 5.2",
        about: "CoSQA's question answering",
        roles: &[Role::required("pairs", &["cosqa-qa"], "labelled pairs"), DEV],
        measures: &["accuracy", "precision", "recall", "f1", "roc_auc"],
        options: &[],
        discrepancies: &["P9"],
    },
    Protocol {
        name: "cosqa-search",
        source: "CoSQA section 5.3",
        about: "CoSQA's code search: all codes of the code base for each web query",
        roles: &[
            Role::required("queries", &["cosqa-retrieval"], "web queries with the numbers of their codes"),
            Role::required("codes", &["cosqa-codes"], "the code base"),
        ],
        measures: &["mrr"],
        options: &["measures", "ties", "as_released"],
        discrepancies: &["C5", "C11"],
    },
    Protocol {
        name: "cosqa-ablation",
        source: "CoSQA section 6.3, table 7",
        about: "CoSQA's code search over codes without their header, documentation or body",
        roles: &[
            Role::required("queries", &["cosqa-retrieval"], "web queries with the numbers of their codes"),
            Role::required("codes", &["cosqa-codes"], "the code base"),
        ],
        measures: &["mrr"],
        options: &["measures", "ties", "as_released"],
        discrepancies: &["C6", "C11"],
    },
    Protocol {
        name: "csn-mrr",
        source: "CodeSearchNet section 4, its evaluation script",
        about: "Ranks among batches of 1,000 pairs: the queries for each code, as the script does, and the codes for \
                each query",
        roles: &[Role::required("pairs", &[], "functions with their documentation")],
        measures: &["mrr"],
        options: &["seeds", "batch"],
        discrepancies: &[],
    },
    Protocol {
        name: "csn99-ndcg",
        source: "CodeSearchNet section 4, its evaluation script",
        about: "NDCG of the 99 queries over annotated functions, unannotated ones skipped and counted",
        roles: &[
            Role::required("annotations", &["csn99"], "annotationStore.csv"),
            Role::required("corpus", &[], "the functions of one or more languages, known by their links"),
        ],
        measures: &["ndcg"],
        options: &["depth"],
        discrepancies: &[],
    },
    Protocol {
        name: "csn99-python",
        source: "CoSQA+ version 1 section 4.2",
        about: "Ranks the Python functions of the 99 queries, positive where an annotator gave the greatest grade",
        roles: &[
            Role::required("annotations", &["csn99"], "annotationStore.csv"),
            Role::optional(
                "corpus",
                &[],
                "Python functions, known by their links; without, only counts are reported",
            ),
        ],
        measures: &["mrr", "mmrr", "map", "ndcg@10"],
        options: &["measures", "ties"],
        discrepancies: &["V5"],
    },
    Protocol {
        name: "advtest",
        source: "CodeXGLUE, NL-code-search-Adv",
        about: "AdvTest: MRR over all codes on dev, over lists of 100 codes on test, which it writes",
        roles: &[
            Role::optional("dev", &["advtest"], "validation split"),
            Role::optional("test", &["advtest"], "test split"),
            Role::optional(
                "predictions",
                &["advtest-predictions"],
                "lists for the test split, scored in the method's place",
            ),
        ],
        measures: &["mrr", "mrr@100"],
        options: &["depth"],
        discrepancies: &[],
    },
    Protocol {
        name: "webquerytest",
        source: "CodeXGLUE, NL-code-search-WebQuery; CoSQA section 5.2",
        about: "WebQueryTest: writes a verdict for each pair, scores it where answers are known, counts what the code \
                base of CoSQA shares with it",
        roles: &[
            Role::required("pairs", &["webquery"], "the pairs"),
            DEV,
            Role::optional("answers", &["webquery-answers"], "their labels"),
            Role::optional(
                "predictions",
                &["webquery-answers"],
                "verdicts that are scored in the method's place",
            ),
            Role::optional("codes", &["cosqa-codes"], "code base of CoSQA, for the overlap of codes"),
            Role::optional("queries", &["cosqa"], "pairs of CoSQA, for the overlap of queries"),
        ],
        measures: &["accuracy", "precision", "recall", "f1", "predicted_positive"],
        options: &[],
        discrepancies: &["C9", "C10"],
    },
    Protocol {
        name: "gecs",
        source: "GenCodeSearchNet section 5",
        about: "Ranks among 99 distractors and matches pairs on each test set, and aggregates by type of generalisation",
        roles: &[
            Role::optional("advtest", &["gecs", "advtest"], "AdvTest, test split"),
            Role::optional("go", &["gecs", "codesearchnet"], "CodeSearchNet, Go"),
            Role::optional("java", &["gecs", "codesearchnet"], "CodeSearchNet, Java"),
            Role::optional("javascript", &["gecs", "codesearchnet"], "CodeSearchNet, JavaScript"),
            Role::optional("ruby", &["gecs", "codesearchnet"], "CodeSearchNet, Ruby"),
            Role::optional("php", &["gecs", "codesearchnet"], "CodeSearchNet, PHP"),
            Role::optional("cosqa", &["gecs", "cosqa-qa"], "CoSQA"),
            Role::optional("statcodesearch", &["gecs", "statcodesearch"], "StatCodeSearch"),
        ],
        measures: &["mrr", "accuracy", "roc_auc"],
        options: &["seeds", "distractors", "sampling", "without_twins", "as_released"],
        discrepancies: &["G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9"],
    },
    Protocol {
        name: "cosqa-plus-v1",
        source: "CoSQA+ version 1 section 4",
        about: "CoSQA+: all codes for each query with a positive, and by number of positives",
        roles: COSQA_PLUS_ROLES,
        measures: &["mmrr", "mrr", "map", "ndcg@10"],
        options: &["measures", "ties", "seeds", "fold", "as_released"],
        discrepancies: &["P5", "P10"],
    },
    Protocol {
        name: "cosqa-plus-v2",
        source: "CoSQA+ version 2 section 5",
        about: "CoSQA+: all codes for each query with a positive, the best 1,000 kept, and by number of positives",
        roles: COSQA_PLUS_ROLES,
        measures: &["ndcg@10", "mrr", "map", "mmrr"],
        options: &["measures", "ties", "seeds", "fold", "as_released"],
        discrepancies: &["P10", "V3", "V4", "V7"],
    },
    Protocol {
        name: "query4code",
        source: "Query4Code section 5",
        about: "MRR of the best relevant code among the first 1,000 of the corpus, in per cent",
        roles: &[
            Role::required(
                "queries",
                &["query4code", "cosqa-retrieval", "webquery"],
                "queries with the ids of their codes",
            ),
            Role::optional(
                "corpus",
                &["query4code", "cosqa-codes"],
                "the codes; those of the queries without",
            ),
        ],
        measures: &["mrr@1000"],
        options: &["ties"],
        discrepancies: &["Q6"],
    },
];

const COSQA_PLUS_ROLES: &[Role] = &[
    Role::required("pairs", &["cosqa-plus"], "labelled pairs"),
    Role::optional("codes", &["cosqa-plus-codes"], "the code base; the codes of the pairs without"),
    Role::optional(
        "candidates",
        &["run"],
        "for each encoder that chose candidates a TREC run of them: leaves its pool out in turn",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_what_there_is() {
        for protocol in PROTOCOLS {
            for number in protocol.discrepancies {
                assert!(discrepancy(number).is_some(), "{} {number}", protocol.name);
            }
            assert!(std::ptr::eq(super::protocol(protocol.name).unwrap(), protocol));
        }
    }
}
