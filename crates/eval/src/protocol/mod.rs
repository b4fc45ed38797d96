//! Protocols of papers on code search: their inputs, rankings or verdicts, and measures.
//!
//! Each [`Protocol`] is an entry of [`PROTOCOLS`] with its inputs by role, its options and the [`DISCREPANCIES`]
//! between paper and code that may affect it. The result of one method is an [`Outcome`].

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
mod repositories;
mod request;

pub(crate) use candidates::over_seeds;
pub use cosqa_plus::reliability;
pub(crate) use discrepancies::OF_TRAINING;
pub use discrepancies::{DISCREPANCIES, Discrepancy, discrepancy, recipe_discrepancies};
pub use full_corpus::mrr_ceiling;
pub use gecs::generalization;
pub use outcome::{Outcome, Part, Predictions, VERDICT_MEASURES, Values, Verdict, Verdicts};
pub use request::{Fold, MeasuredMethod, MethodWithModels, Observe, ProtocolOptions, Request, Sampling};

use crate::EvalError;
use crate::method::Method;
use quarry_metrics::Measure;
use quarry_transformer::{CrossEncoder, published_option};

/// The exact steps of a measurement.
#[derive(Debug)]
pub struct Protocol {
    /// Name on the command line.
    pub name: &'static str,
    /// The paper or repository that it comes from, with the section or script.
    pub source: &'static str,
    /// Description of ranking and measures, and departures from the source.
    pub about: &'static str,
    pub roles: &'static [Role],
    /// Default measures of rankings; empty for verdicts, whose measures are fixed.
    pub measures: &'static [Measure],
    /// The supported [`ProtocolOptions`], by the names of the fields.
    pub options: &'static [&'static str],
    /// Numbers of the discrepancies that may affect its results.
    pub discrepancies: &'static [&'static str],
    /// Name of the parts of an outcome, such as `repository`, if the result is the mean over them; `None` if each part
    /// is a result of its own.
    pub strata: Option<&'static str>,
    /// Maximum numbers of tokens of queries and documents that the published script reads, with each run of white
    /// space collapsed to one space; for protocols that can reproduce this.
    pub published: Option<[usize; 2]>,
    run: fn(&Request<'_>) -> Result<Outcome, EvalError>,
}

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
    &repositories::REPO_SEARCH,
];

pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().copied().find(|protocol| protocol.name == name)
}

/// Measures a method under a protocol.
///
/// # Errors
/// When a role or option does not belong to the protocol, a required role or a file is missing, a file is malformed,
/// or the method fails.
pub fn run(request: &Request<'_>) -> Result<Outcome, EvalError> {
    request.check()?;
    (request.protocol.run)(request)
}

impl Protocol {
    /// The method with models that truncate inputs as the published script does, if the protocol has one.
    pub fn as_published(&self, method: Method) -> Method {
        let Some(limits) = self.published else { return method };
        method.with_paths(&|path| {
            let (directory, _) = quarry_transformer::split_options(path);
            let has = |name: &str| directory.join(name).is_file();
            if !has("config.json") || CrossEncoder::is_at(&directory) {
                return path.to_owned();
            }
            // Models published in sentence-transformers' format keep that library's limits.
            let limits = (!has("modules.json") || has("training.json")).then_some(limits);
            let mut path = path.as_os_str().to_owned();
            path.push(":");
            path.push(published_option(limits));
            path.into()
        })
    }

    pub fn role(&self, name: &str) -> Option<&'static Role> {
        self.roles.iter().find(|role| role.name == name)
    }
}

#[derive(Debug)]
pub struct Role {
    /// Name on the command line, without `--`.
    pub name: &'static str,
    pub kind: RoleKind,
    /// Names of the formats that its files may have; any if empty.
    pub formats: &'static [&'static str],
    pub optional: bool,
    /// Description, in lower case and without a period.
    pub about: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleKind {
    /// Data sets: files, or directories in a layout of several files.
    Data,
    /// A directory that contains a checkout of each repository.
    Checkouts,
}

impl Role {
    const fn required(name: &'static str, formats: &'static [&'static str], about: &'static str) -> Self {
        Self { name, kind: RoleKind::Data, formats, optional: false, about }
    }

    const fn optional(name: &'static str, formats: &'static [&'static str], about: &'static str) -> Self {
        Self { name, kind: RoleKind::Data, formats, optional: true, about }
    }

    /// Formats as text, such as `gecs or advtest`.
    pub fn formats_text(&self) -> String {
        match (self.kind, self.formats) {
            (RoleKind::Checkouts, _) => "a directory".into(),
            (RoleKind::Data, []) => "any format".into(),
            (RoleKind::Data, formats) => formats.join(" or "),
        }
    }
}

const BENCHMARK: Role =
    Role::required("benchmark", &[], "a BEIR directory, or files of queries, documents, and qrels or pairs");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::{Corpus, Prepared, Scale, Scorer};
    use quarry_corpus::formats::Query;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;

    /// Cosine of the counts of the letters `a` and `b` in a text.
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

    fn prepare(corpus: Corpus<'_>) -> Result<Prepared, EvalError> {
        let vectors = corpus.documents.iter().map(|document| letters(&document.text)).collect();
        Ok(Prepared { scorer: Box::new(Letters(vectors)), model: Some("letters".to_owned()) })
    }

    /// Log-odds: 0 where [`Letters`] has a cosine of 0.8.
    struct LogOdds(Letters);

    impl Scorer for LogOdds {
        fn scale(&self) -> Scale {
            Scale::LogOdds
        }

        fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
            let mut scores = self.0.scores(queries)?;
            scores.iter_mut().flatten().for_each(|score| *score -= 0.8);
            Ok(scores)
        }
    }

    pub(super) fn prepare_log_odds(corpus: Corpus<'_>) -> Result<Prepared, EvalError> {
        let vectors = corpus.documents.iter().map(|document| letters(&document.text)).collect();
        Ok(Prepared { scorer: Box::new(LogOdds(Letters(vectors))), model: None })
    }

    pub(super) struct Fixture {
        directory: tempfile::TempDir,
        pub(super) options: ProtocolOptions,
    }

    impl Fixture {
        pub(super) fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(directory.path().join(name), text).unwrap();
            }
            Self { directory, options: ProtocolOptions::default() }
        }

        pub(super) fn files(&self, roles: &[(&str, &[&str])]) -> BTreeMap<String, Vec<PathBuf>> {
            let path = |name: &&str| self.directory.path().join(name);
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
                method: &prepare,
                observe: None,
            }
        }

        pub(super) fn run(&self, name: &str, roles: &[(&str, &[&str])]) -> Outcome {
            run(&self.request(name, &self.files(roles)))
        }

        pub(super) fn error(&self, name: &str, roles: &[(&str, &[&str])]) -> String {
            super::run(&self.request(name, &self.files(roles))).unwrap_err().to_string()
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
    fn the_table_names_existing_options_and_discrepancies() {
        let options: Vec<&str> = ProtocolOptions {
            measures: vec![Measure::Bpref],
            ties: Some(Default::default()),
            seeds: vec![1],
            distractors: Some(1),
            sampling: Some(Sampling::Uniform),
            without_twins: true,
            matching_only: true,
            depth: Some(1),
            batch: Some(1),
            fold: Some(Fold::Dev),
            as_released: true,
            as_published: true,
        }
        .set();
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
            let is_printed = PROTOCOLS.iter().any(|known| known.discrepancies.contains(number));
            // Discrepancies in how data sets are built are on data cards, and those in recipes are printed by
            // training.
            let is_of_builds = ["G14", "Q3", "Q12", "W8", "W9", "W10"].contains(number);
            let is_of_training = recipe_discrepancies("cosqa-qa").any(|found| found.number == *number);
            assert!(is_printed != (is_of_builds || is_of_training), "{number}");
        }
    }

    #[test]
    fn unknown_and_missing_roles_and_options_are_refused() {
        let mut fixture = Fixture::new(&[("pairs.json", r#"[{"idx":"1","doc":"a","code":"a","label":1}]"#)]);
        let error = fixture.error("cosqa-search", &[("queries", &["pairs.json"])]);
        assert!(error.contains("cosqa-search needs --codes (cosqa-codes): the code base"), "{error}");
        let error = fixture.error("cosqa-search", &[("query", &["pairs.json"])]);
        assert!(
            error.contains("expected --queries (cosqa-retrieval), --codes (cosqa-codes), found --query"),
            "{error}"
        );
        let files: &[(&str, &[&str])] = &[("queries", &["pairs.json"])];
        let error = fixture.error("query4code", files);
        assert!(
            error.contains("expected one of the formats query4code, cosqa-retrieval, webquery"),
            "{error}"
        );
        fixture.options.batch = Some(7);
        let error = fixture.error("query4code", files);
        assert!(error.contains("batch"), "{error}");
    }
}
