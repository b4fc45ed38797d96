//! Protocols of the papers on code search: which files go in, what is ranked or decided, what is measured.
//!
//! Each [`Protocol`] is an entry of [`PROTOCOLS`] with its inputs by role, the options that it takes and the
//! [`DISCREPANCIES`] between paper and code that may concern it. What one method reaches under it is an [`Outcome`].

mod advtest;
mod candidates;
mod codesearchnet;
mod cosqa_plus;
mod discrepancies;
mod full_corpus;
mod gecs;
mod matching;
mod outcome;
mod query4code;
mod request;

pub use cosqa_plus::reliability;
pub use discrepancies::{DISCREPANCIES, Discrepancy, discrepancy};
pub use gecs::generalisation;
pub use outcome::{Outcome, Part, Predictions, Values, Verdict, Verdicts};
pub use request::{Fold, Observe, Options, PrepareMethod, Request, Sampling};

use crate::EvalError;
use quarry_metrics::Measure;

/// A way to measure.
#[derive(Debug)]
pub struct Protocol {
    /// Its name on the command line.
    pub name: &'static str,
    /// Where it comes from: paper or repository, and what in it.
    pub source: &'static str,
    /// What it does, and where it departs from its source.
    pub about: &'static str,
    /// Its inputs.
    pub roles: &'static [Role],
    /// What it measures of rankings unless something else is asked for; verdicts are measured in one way.
    pub measures: &'static [Measure],
    /// The [`Options`] that it takes, by the names of the fields.
    pub options: &'static [&'static str],
    /// Numbers of the discrepancies that may concern it.
    pub discrepancies: &'static [&'static str],
    run: fn(&Request<'_>) -> Result<Outcome, EvalError>,
}

/// All protocols.
pub static PROTOCOLS: &[&Protocol] = &[
    &full_corpus::FULL_CORPUS,
    &candidates::DISTRACTORS_PROTOCOL,
    &matching::PAIR_MATCHING,
    &full_corpus::COSQA_SEARCH,
    &full_corpus::COSQA_ABLATION,
    &matching::COSQA_QA,
    &matching::WEBQUERYTEST,
    &codesearchnet::CSN_MRR,
    &codesearchnet::CSN99_NDCG,
    &codesearchnet::CSN99_PYTHON,
    &advtest::ADVTEST,
    &gecs::GECS,
    &cosqa_plus::COSQA_PLUS_V1,
    &cosqa_plus::COSQA_PLUS_V2,
    &query4code::QUERY4CODE,
];

/// The protocol of a name.
#[must_use]
pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().copied().find(|protocol| protocol.name == name)
}

/// Measures a method under a protocol.
///
/// # Errors
/// A role or option that the protocol does not know, a role that it lacks, a file that is missing or wrong, or when
/// the method fails.
pub fn run(request: &Request<'_>) -> Result<Outcome, EvalError> {
    request.check()?;
    (request.protocol.run)(request)
}

impl Protocol {
    /// Its input of a name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&'static Role> {
        self.roles.iter().find(|role| role.name == name)
    }
}

/// An input of a protocol.
#[derive(Debug)]
pub struct Role {
    /// Its name on the command line.
    pub name: &'static str,
    /// Names of the formats that it may have; any if empty.
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

    /// Its formats as text: `gecs or advtest`.
    #[must_use]
    pub fn formats_text(&self) -> String {
        if self.formats.is_empty() { "any format".into() } else { self.formats.join(" or ") }
    }
}

const BENCHMARK: Role =
    Role::required("benchmark", &[], "a BEIR folder, or files of queries, documents and judgements or pairs");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::{Corpus, Scorer};
    use quarry_corpus::formats::Query;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;

    /// Cosine of how often the letters `a` and `b` stand in a text.
    struct Letters(Vec<[f32; 2]>);

    fn letters(text: &str) -> [f32; 2] {
        let count = |letter| text.matches(letter).count() as f32;
        let (a, b) = (count('a'), count('b'));
        let norm = a.hypot(b).max(1.0);
        [a / norm, b / norm]
    }

    impl Scorer for Letters {
        fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
            let score = |query: &&Query| {
                let [a, b] = letters(&query.text);
                self.0.iter().map(|document| a * document[0] + b * document[1]).collect()
            };
            Ok(queries.iter().map(score).collect())
        }
    }

    fn prepare(corpus: Corpus<'_>) -> Result<Box<dyn Scorer>, EvalError> {
        Ok(Box::new(Letters(corpus.documents.iter().map(|document| letters(&document.text)).collect())))
    }

    /// Files in a folder, and options.
    pub(super) struct Fixture {
        folder: tempfile::TempDir,
        pub(super) options: Options,
    }

    impl Fixture {
        pub(super) fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            Self { folder, options: Options::default() }
        }

        pub(super) fn files(&self, roles: &[(&str, &[&str])]) -> BTreeMap<String, Vec<PathBuf>> {
            let path = |name: &&str| self.folder.path().join(name);
            roles.iter().map(|(role, names)| ((*role).to_owned(), names.iter().map(path).collect())).collect()
        }

        pub(super) fn request<'a>(
            &'a self,
            name: &str,
            files: &'a BTreeMap<String, Vec<PathBuf>>,
        ) -> Request<'a> {
            let protocol = protocol(name).unwrap();
            Request {
                protocol,
                files,
                split: "test",
                options: &self.options,
                prepare: &prepare,
                observe: None,
            }
        }

        pub(super) fn error(&self, request: &Request<'_>) -> String {
            super::run(request).unwrap_err().to_string()
        }
    }

    pub(super) fn run(request: &Request<'_>) -> Outcome {
        super::run(request).unwrap()
    }

    #[track_caller]
    pub(super) fn check(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }

    #[test]
    fn the_table_names_what_there_is() {
        let options: Vec<&str> = Options {
            measures: vec![Measure::Bpref],
            ties: Some(Default::default()),
            seeds: vec![1],
            distractors: Some(1),
            sampling: Some(Sampling::Uniform),
            without_twins: true,
            depth: Some(1),
            batch: Some(1),
            fold: Some(Fold::Dev),
            as_released: true,
        }
        .said();
        for known in PROTOCOLS {
            for number in known.discrepancies {
                assert!(discrepancy(number).is_some(), "{} {number}", known.name);
            }
            for option in known.options {
                assert!(options.contains(option), "{} {option}", known.name);
            }
            assert!(std::ptr::eq(protocol(known.name).unwrap(), *known));
        }
        for Discrepancy { number, .. } in DISCREPANCIES {
            assert!(PROTOCOLS.iter().any(|known| known.discrepancies.contains(number)), "{number}");
        }
    }

    #[test]
    fn what_a_protocol_does_not_know_or_lacks_is_refused() {
        let mut fixture = Fixture::new(&[("pairs.json", r#"[{"idx":"1","doc":"a","code":"a","label":1}]"#)]);
        let files = fixture.files(&[("queries", &["pairs.json"])]);
        let error = fixture.error(&fixture.request("cosqa-search", &files));
        assert!(error.contains("cosqa-search needs --codes (cosqa-codes): the code base"), "{error}");
        let files = fixture.files(&[("query", &["pairs.json"])]);
        let error = fixture.error(&fixture.request("cosqa-search", &files));
        assert!(
            error.contains("expected --queries (cosqa-retrieval), --codes (cosqa-codes), found --query"),
            "{error}"
        );
        let files = fixture.files(&[("queries", &["pairs.json"])]);
        let error = fixture.error(&fixture.request("query4code", &files));
        assert!(
            error.contains("expected one of the formats query4code, cosqa-retrieval, webquery"),
            "{error}"
        );
        fixture.options.batch = Some(7);
        let error = fixture.error(&fixture.request("query4code", &files));
        assert!(error.contains("batch"), "{error}");
    }
}
