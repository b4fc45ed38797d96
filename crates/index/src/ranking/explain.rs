//! Explains a score as a tree of the numbers that it is computed from.

use std::collections::HashMap;

use serde::Serialize;

use crate::lexical::FIELDS;
use crate::ranking::fusion::max_or_one;
use crate::ranking::intent::{Model, QUERY_FEATURES, QueryFeatures, UNIT_FEATURES, UnitFeatures};
use crate::ranking::issue::model::{ISSUE_FEATURES, IssueModel};
use crate::ranking::ranked_units::{RankedIssue, RankedUnits, Signals};
use crate::{Error, Hit, Index, RankingWeights, ScoreParts};

/// A number and the numbers that it is computed from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Name of the number, in a few words.
    pub name: &'static str,
    /// Value of the number.
    pub value: f32,
    /// The operation that computes it from `parts`; `None` for a leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combination: Option<Combination>,
    /// The numbers that it is computed from, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Explanation>,
}

/// The operation that combines numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum Combination {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The first divided by the second.
    Quotient,
    /// The exponential of the first minus the second, which is the logarithm of the sum over all candidates.
    Softmax,
}

impl Combination {
    /// Computes the number from its parts.
    #[must_use]
    pub fn combine(self, parts: &[Explanation]) -> f32 {
        let mut values = parts.iter().map(|part| part.value);
        match self {
            Self::Sum => values.sum(),
            Self::Product => values.product(),
            Self::Quotient => values.next().unwrap_or_default() / values.product::<f32>(),
            Self::Softmax => (values.next().unwrap_or_default() - values.sum::<f32>()).exp(),
        }
    }
}

impl Explanation {
    /// A number without parts.
    pub fn leaf(name: &'static str, value: f32) -> Self {
        Self { name, value, combination: None, parts: Vec::new() }
    }

    fn new(name: &'static str, combination: Combination, parts: Vec<Self>) -> Self {
        Self { name, value: combination.combine(&parts), combination: Some(combination), parts }
    }

    fn sum(name: &'static str, parts: Vec<Self>) -> Self {
        Self::new(name, Combination::Sum, parts)
    }

    fn product<const N: usize>(name: &'static str, parts: [Self; N]) -> Self {
        Self::new(name, Combination::Product, parts.into())
    }

    fn quotient(name: &'static str, value: Self, of: Self) -> Self {
        Self::new(name, Combination::Quotient, vec![value, of])
    }
}

impl Index {
    /// Explains the scores of ranked units, one tree for each hit; a unit that was not ranked has a score of 0.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn explain(&self, ranked: &RankedUnits, hits: &[Hit]) -> Result<Vec<Explanation>, Error> {
        let RankedUnits { candidates, signals, ranking, of_issue, .. } = ranked;
        let query = signals.query();
        let is_symbol = query.symbol().is_some();
        let best = candidates.iter().map(|candidate| candidate.parts.rules).fold(f32::MIN_POSITIVE, f32::max);
        let path_matches = self.path_matches(&query, &signals.candidates);
        let of_query = self.query_features(candidates, signals, &query, &path_matches);
        let of_units: HashMap<usize, &UnitFeatures> =
            candidates.iter().map(|candidate| (candidate.unit, &candidate.features)).collect();
        let is_reranked = candidates.iter().any(|candidate| candidate.parts.reranker != 0.0);
        let is_read = candidates.iter().any(|candidate| candidate.parts.cross_encoder != 0.0);
        let explain = |hit: &Hit| {
            let Some(of_unit) = of_units.get(&hit.unit) else { return Ok(Explanation::leaf("score", 0.0)) };
            let is_found = hit.parts.words != 0.0 || hit.parts.issue_share != 0.0;
            let is_added = !is_found && hit.parts.message > 0.0;
            if is_added {
                return Ok(Explanation::leaf("message", hit.score));
            }
            let mut score = match of_issue {
                Some(issue) => explain_issue(issue, hit),
                None => explain_rules(self.explain_words(signals, ranking, hit)?, ranking, is_symbol, hit),
            };
            if of_issue.is_none() && !is_symbol && ranking.function_share > 0.0 {
                score = explain_mixture(score, best, &of_query, of_unit, &hit.parts);
            }
            let parts = &hit.parts;
            for (name, of, value, factor, applies) in [
                ("reranker", "cosine", parts.reranker, parts.reranker_factor, is_reranked),
                ("cross-encoder", "log-odds", parts.cross_encoder, parts.cross_encoder_factor, is_read),
            ] {
                if applies {
                    let factor = Explanation {
                        parts: vec![Explanation::leaf(of, value)],
                        ..Explanation::leaf(name, factor)
                    };
                    let before = Explanation { name: "before reranking", ..score };
                    score = Explanation::product("score", [before, factor]);
                }
            }
            if parts.message > 0.0 {
                let before = Explanation { name: "before messages", ..score };
                score = Explanation::sum("score", vec![before, Explanation::leaf("message", parts.message)]);
            }
            // Exactly the score of the ranking, without rounding differences.
            Ok(Explanation { value: hit.score, ..score })
        };
        hits.iter().map(explain).collect()
    }

    /// The scores for words and meaning of a unit and of its file.
    fn explain_words(
        &self,
        signals: &Signals,
        ranking: &RankingWeights,
        hit: &Hit,
    ) -> Result<Explanation, Error> {
        let Signals { terms, lexical, dense, dense_of_files, dense_weight, best, .. } = signals;
        let fields = self.lexical.field_scores(terms, &lexical.idf, &ranking.bm25f, hit.unit)?;
        let fields = FIELDS.into_iter().zip(fields).filter(|(_, score)| *score > 0.0);
        let fields = fields.map(|(field, score)| Explanation::leaf(field, score)).collect();
        let file = self.file_of_unit[hit.unit] as usize;
        let share = |name, value: Explanation, all: &[f32], weight: f32| {
            let best = Explanation::leaf("of the best one", max_or_one(all));
            Explanation::product(
                name,
                [Explanation::leaf("weight", weight), Explanation::quotient("share", value, best)],
            )
        };
        let both = |lexical_score, lexical: &[f32], cosine: f32, dense: &[f32]| {
            // A cosine below 0 counts as 0.
            let cosine = Explanation::leaf("cosine", cosine.max(0.0));
            let lexical = share("lexical", lexical_score, lexical, 1.0 - dense_weight);
            vec![lexical, share("dense", cosine, dense, *dense_weight)]
        };
        let of_unit = both(Explanation::sum("BM25F", fields), &lexical.texts, dense[hit.unit], dense);
        let of_file = both(
            Explanation::leaf("BM25F", lexical.groups[file]),
            &lexical.groups,
            dense_of_files[file],
            dense_of_files,
        );
        let parts = vec![
            Explanation::sum("unit", of_unit),
            Explanation::product(
                "file",
                [Explanation::leaf("weight", ranking.file_weight), Explanation::sum("both", of_file)],
            ),
        ];
        Ok(Explanation::quotient(
            "words",
            Explanation::sum("unit and file", parts),
            Explanation::leaf("of the best one", *best),
        ))
    }
}

/// The share for a long text, as an ordinary query, a report and a description, with the parts that were recognized.
fn explain_issue(issue: &RankedIssue, hit: &Hit) -> Explanation {
    let features = issue.features.get(&hit.unit).copied().unwrap_or([0.0; ISSUE_FEATURES.len()]);
    let of_kind = |name, probability: f32, model: &IssueModel, of_kind: f32| {
        let brought = model.contributions(&features);
        let term = |((name, brought), value): ((&&'static str, f32), &f32)| Explanation {
            parts: vec![Explanation::leaf("value", *value)],
            ..Explanation::leaf(name, brought)
        };
        let terms = ISSUE_FEATURES.iter().zip(brought).zip(&features).map(term);
        let terms: Vec<Explanation> = terms.filter(|term| term.value != 0.0).collect();
        let share = share(Explanation::sum("features", terms), of_kind);
        Explanation::product(name, [Explanation::leaf("probability", probability), share])
    };
    let parts = issue.parts.iter().map(|&(name, n)| Explanation::leaf(name, n as f32)).collect();
    let [report, description] = hit.parts.issue_shares;
    let of_query = issue.query_share;
    let of_report = (1.0 - of_query) * issue.report_probability;
    let mut kinds = Vec::new();
    if of_query > 0.0 {
        let share = Explanation::leaf("share", hit.parts.query_share);
        kinds.push(Explanation::product("query", [Explanation::leaf("probability", of_query), share]));
    }
    if hit.parts.issue_share > 0.0 {
        kinds.push(of_kind("report", of_report, IssueModel::reports(), report));
        kinds.push(of_kind(
            "description",
            1.0 - of_query - of_report,
            IssueModel::descriptions(),
            description,
        ));
    }
    kinds.push(Explanation { parts, ..Explanation::leaf("recognized", 0.0) });
    Explanation::sum("issue", kinds)
}

/// The products of weights and features, without those that are 0.
fn weighted(names: &[&'static str], weights: &[f32], features: &[f32]) -> Vec<Explanation> {
    let term = |((name, weight), feature): ((&&'static str, &f32), &f32)| {
        Explanation::product(
            name,
            [Explanation::leaf("weight", *weight), Explanation::leaf("value", *feature)],
        )
    };
    names.iter().zip(weights).zip(features).map(term).filter(|term| term.value != 0.0).collect()
}

/// A share in a softmax, of a score.
fn share(score: Explanation, share: f32) -> Explanation {
    let all = Explanation::leaf("of all candidates", score.value - share.ln());
    Explanation::new("share", Combination::Softmax, vec![score, all])
}

/// The rules, which are added to the words' score and multiplied.
fn explain_rules(words: Explanation, ranking: &RankingWeights, is_symbol: bool, hit: &Hit) -> Explanation {
    let rule = |name, weight: f32, found: f32| {
        let found = Explanation::leaf("match", found.powf(ranking.name_power));
        Explanation::product(name, [Explanation::leaf("weight", weight), found])
    };
    let matches = vec![
        words,
        rule("path", ranking.path_weight, hit.parts.path),
        rule("name", ranking.name_weight, hit.parts.name),
    ];
    let by_kind = Explanation::product(
        "by kind of code",
        [Explanation::sum("before factors", matches), Explanation::leaf("kind of code", hit.parts.demotion)],
    );
    let definition = Explanation::leaf("definition", ranking.definition_score(&hit.parts, is_symbol));
    Explanation::product(
        "score",
        [
            Explanation::sum("before repetition", vec![by_kind, definition]),
            Explanation::leaf("repetition", hit.parts.repetition),
        ],
    )
}

/// The mixture of the score by the rules and that for questions about behavior, as [`crate::intent`] describes.
fn explain_mixture(
    rules: Explanation,
    best: f32,
    query: &QueryFeatures,
    unit: &UnitFeatures,
    parts: &ScoreParts,
) -> Explanation {
    let model = Model::builtin();
    let mut odds = weighted(&QUERY_FEATURES, &model.query, query);
    odds.push(Explanation::leaf("intercept", model.intercept));
    odds.push(Explanation::leaf("file odds", model.file_odds.ln()));
    let mut file_probability = Explanation::leaf("probability of a file", parts.file_probability);
    // The numbers that it is computed from: a logistic function of their sum.
    file_probability.parts = vec![Explanation::sum("log-odds", odds)];
    let sharpened = Explanation::product(
        "rules",
        [
            Explanation::leaf("sharpness", model.sharpness),
            Explanation::quotient("of the best one", rules, Explanation::leaf("best", best)),
        ],
    );
    let behavior = Explanation::sum("behavior", weighted(&UNIT_FEATURES, &model.unit, unit));
    Explanation::sum(
        "score",
        vec![
            Explanation::product("as a file", [file_probability, share(sharpened, parts.file_share)]),
            Explanation::product(
                "as a function",
                [
                    Explanation::leaf("probability of a function", 1.0 - parts.file_probability),
                    share(behavior, parts.function_share),
                    Explanation::leaf("kind of code, repetition", parts.function_factor),
                ],
            ),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use quarry_embed::{EmbedError, Embedder, PairModel, StaticModel, WithCrossEncoder, WithReranker};

    use super::*;
    use crate::{Filter, OpenOptions, SearchRequest};

    /// A model by which longer documents are more likely to answer.
    struct Length;

    impl PairModel for Length {
        fn id(&self) -> &str {
            "length"
        }

        fn log_odds(&self, pairs: &[(&str, &str)]) -> Result<Vec<f32>, EmbedError> {
            Ok(pairs.iter().map(|(_, document)| document.len() as f32 / 100.0).collect())
        }
    }

    /// Checks that each number follows from its parts as stated, and that the root is `expected`.
    #[track_caller]
    fn check_combines(explanation: &Explanation, expected: f32) {
        let close = |a: f32, b: f32| (a - b).abs() <= 1e-4 * b.abs().max(1e-3);
        assert!(close(explanation.value, expected), "{expected} is not {explanation:#?}");
        if let Some(combination) = explanation.combination {
            assert!(close(explanation.value, combination.combine(&explanation.parts)), "{explanation:#?}");
        }
        explanation.parts.iter().for_each(|part| check_combines(part, part.value));
    }

    #[test]
    fn explanations_combine_to_the_scores() {
        let directory = tempfile::tempdir().unwrap();
        let write = |n: usize| {
            let text = format!(
                "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n\n\n\
                 def open_{n}(path):\n    return socket(path)\n"
            );
            fs::write(directory.path().join(format!("socket_{n}.py")), text).unwrap();
        };
        (0..5).for_each(write);
        let builtin = || Arc::new(StaticModel::builtin()) as Arc<dyn Embedder>;
        let reranked = |reranker| Arc::new(WithReranker { first: builtin(), reranker }) as Arc<dyn Embedder>;
        let read = |embedder| {
            Arc::new(WithCrossEncoder { embedder, cross_encoder: Arc::new(Length) }) as Arc<dyn Embedder>
        };
        let models = [
            None,
            Some(builtin()),
            Some(reranked(builtin())),
            Some(read(builtin())),
            Some(read(reranked(builtin()))),
        ];
        for (n, model) in models.into_iter().enumerate() {
            let index = open(directory.path(), model);
            for query in ["open a socket to a host", "open_3", "where open_2 opens a path"] {
                let filter = Filter::default();
                let request =
                    SearchRequest { query, limit: 20, ranking: RankingWeights::default(), filter: &filter };
                let ranked = index.rank(&request).unwrap();
                let hits = index.response(&ranked, request.limit).hits;
                let explanations = index.explain(&ranked, &hits).unwrap();
                assert!(hits.len() > 4 && explanations.len() == hits.len());
                for (hit, explanation) in hits.iter().zip(&explanations) {
                    check_combines(explanation, hit.score);
                    let mut before = explanation;
                    for name in ["message", "cross-encoder", "reranker"] {
                        if let [rest, factor] = before.parts.as_slice()
                            && factor.name == name
                        {
                            before = rest;
                        }
                    }
                    let rules = match before.parts.as_slice() {
                        [file, function] if function.name == "as a function" => {
                            &file.parts[1].parts[0].parts[1].parts[0]
                        }
                        _ => before,
                    };
                    check_combines(rules, hit.parts.rules);
                    let words = &rules.parts[0].parts[0].parts[0].parts[0];
                    check_combines(words, hit.parts.words);
                    let lexical = &words.parts[0].parts[0].parts[0];
                    check_combines(&lexical.parts[1].parts[0], hit.parts.lexical);
                }
            }
            // The next index has several parts.
            write(9 + n);
        }
    }

    fn open(root: &Path, model: Option<Arc<dyn Embedder>>) -> Index {
        let options = OpenOptions { directory: Some(root.join(".index")), ..OpenOptions::default() };
        Index::open_or_build(root, &options, model, &|_| {}).unwrap().index
    }

    #[test]
    fn numbers_combine() {
        let parts = || vec![Explanation::leaf("a", 6.0), Explanation::leaf("b", 1.5)];
        let value = |combination| Explanation::new("x", combination, parts()).value;
        assert_eq!(value(Combination::Sum), 7.5);
        assert_eq!(value(Combination::Product), 9.0);
        assert_eq!(value(Combination::Quotient), 4.0);
    }
}
