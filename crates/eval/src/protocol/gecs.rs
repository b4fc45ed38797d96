//! GenCodeSearchNet: eight test sets, ranked and matched, and their aggregates by type of generalization.
//!
//! As in github.com/drndr/gencodesearchnet where that agrees with the paper; its other choices are options.

use super::candidates::{Candidates, DISTRACTORS, SEED, ceiling, over_seeds, rank, too_few_records};
use super::matching::best_threshold;
use super::request::{Request, Sampling};
use super::{Outcome, Part, Protocol, Role, Values, Verdicts};
use crate::EvalError;
use crate::method::{Corpus, Scorer};
use quarry_corpus::dataset::distractors::{different_mismatches, draw, mismatches};
use quarry_corpus::dataset::python_random::PythonRandom;
use quarry_corpus::formats::{Document, Pair, Query};
use quarry_metrics::Measure;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

pub(super) static GECS: Protocol = Protocol {
    name: "gecs",
    source: "GenCodeSearchNet sections 4 and 5",
    about: "Ranks each text's code among 99 drawn ones, after all with the same score, and distinguishes its \
            code from one drawn code; aggregates the sets by type of generalization where possible. The draws of \
            each set begin with the same seed; matches score above 0.5, in log-odds above 0. As released: rolling \
            distractors, negatives in a different form than positives, and for CoSQA the docstrings of the pairs \
            labeled 0",
    roles: &[
        Role::optional("advtest", &["gecs", "advtest"], "AdvTest, test split"),
        Role::optional("go", CSN, "CodeSearchNet, Go"),
        Role::optional("java", CSN, "CodeSearchNet, Java"),
        Role::optional("javascript", CSN, "CodeSearchNet, JavaScript"),
        Role::optional("ruby", CSN, "CodeSearchNet, Ruby"),
        Role::optional("php", CSN, "CodeSearchNet, PHP"),
        Role::optional(
            "cosqa",
            &["gecs", "cosqa-qa"],
            "CoSQA: the released set, or the pairs that it is made of",
        ),
        Role::optional(
            "statcodesearch",
            &["gecs", "statcodesearch", "statcodesearch-json"],
            "StatCodeSearch",
        ),
    ],
    measures: &[Measure::ReciprocalRank(None)],
    options: &["seeds", "distractors", "sampling", "without_twins", "matching_only", "as_released"],
    discrepancies: &["G1", "G2", "G3", "G4", "G5", "G7", "G8", "G9", "W1"],
    strata: None,
    published: None,
    run,
};

/// The languages of CodeSearchNet that are not in the training data.
const LANGUAGES: [&str; 5] = ["go", "java", "javascript", "php", "ruby"];

const CSN: &[&str] = &["gecs", "codesearchnet", "codesearchnet-huggingface"];

struct Set {
    name: &'static str,
    queries: Vec<Query>,
    /// The code of each query.
    documents: Vec<Document>,
    /// Each code as a negative, if the released scripts format negatives differently.
    negatives: Option<Vec<String>>,
}

fn run(request: &Request<'_>) -> Result<Outcome, EvalError> {
    let sampling = match request.options.as_released {
        true => request.options.sampling.unwrap_or(Sampling::Rolling),
        false => request.options.sampling.unwrap_or_default(),
    };
    let seeds = request.options.seeds(SEED);
    let (mut parts, mut by_seed) = (Vec::new(), vec![BTreeMap::new(); seeds.len()]);
    let mut of_sets = vec![BTreeMap::<&str, BTreeMap<String, f64>>::new(); seeds.len()];
    let (mut model, mut figures) = (None, BTreeMap::new());
    let ranks = !request.options.matching_only;
    let mut discrepancies = if ranks { vec!["G2", "G7"] } else { Vec::new() };
    let mut add = |number| {
        if !discrepancies.contains(&number) {
            discrepancies.push(number)
        }
    };
    if ranks {
        add(if sampling == Sampling::Uniform { "G5" } else { "G4" });
    }
    if request.method.asks_chat_models() {
        add("W1");
    }
    for role in request.protocol.roles.iter().filter(|role| request.has(role.name)) {
        let set = read(request, role.name)?;
        if role.name == "cosqa" {
            let released = request.sources("cosqa")?.iter().any(|source| source.format.name == "gecs");
            if released || request.options.as_released {
                add("G1");
            }
            figures.extend(cosqa_counts(&set));
        }
        if set.negatives.is_some() {
            add(if role.name == "cosqa" { "G8" } else { "G3" });
        }
        for (index, &seed) in seeds.iter().enumerate() {
            let path = request.files[role.name].first().map_or(Path::new(""), |path| path.as_path());
            let wanted = request.options.distractors.unwrap_or(DISTRACTORS);
            let lists = ranks.then(|| candidates(request, &set, sampling, seed)).transpose();
            let lists = lists.map_err(|found| too_few_records(path, found, wanted))?;
            let mut documents = set.documents.clone();
            let negatives = negatives(&mut documents, set.negatives.as_deref(), set.name, seed);
            let prepared = request.method.prepare(Corpus { documents: &documents, qrels: None })?;
            let scorer = prepared.scorer.as_ref();
            model = prepared.model;
            let of_seed: &mut BTreeMap<String, f64> = &mut by_seed[index];
            let mut keep = |measure, value| {
                of_sets[index].entry(measure).or_default().insert(set.name.to_owned(), value);
            };
            if let Some(lists) = lists {
                let name = format!("{} ranking, seed {seed}", set.name);
                let ranked = rank(request, &name, &set.documents, scorer, &lists)?;
                let mrr = ranked.means()["mrr"];
                of_seed.insert(format!("{} mrr", set.name), mrr);
                of_seed.insert(format!("{} mrr ceiling", set.name), ceiling(&set.documents, &lists));
                keep("mrr", mrr);
                parts.push(ranked);
            }
            if let Some(negatives) = negatives {
                let (part, best) = matched(&set, &negatives, documents.len(), scorer, seed)?;
                let means = part.means();
                for (name, value) in [
                    ("accuracy", means["accuracy"]),
                    ("roc_auc", means["roc_auc"]),
                    ("accuracy at best, an upper bound", best),
                ] {
                    of_seed.insert(format!("{} {name}", set.name), value);
                    keep(name, value);
                }
                parts.push(part);
            }
        }
    }
    if parts.is_empty() {
        return Err(request.missing_any());
    }
    for (of_seed, measures) in by_seed.iter_mut().zip(&of_sets) {
        for (measure, sets) in measures {
            let aggregates = generalization(sets).into_iter();
            of_seed.extend(aggregates.map(|(name, value)| (format!("{name} {measure}"), value)));
        }
        if of_seed.contains_key("combined mrr") {
            add("G9");
        }
    }
    figures.extend(over_seeds(&by_seed));
    Ok(Outcome::new(request, model, parts).with_figures(figures).with_discrepancies(&discrepancies))
}

/// Reads a set of queries with their codes, numbered.
fn read(request: &Request<'_>, role: &'static str) -> Result<Set, EvalError> {
    let as_released = request.options.as_released;
    let format = request.sources(role)?.first().map_or("", |source| source.format.name);
    let wanted = if format == "cosqa-qa" && as_released { Some(0) } else { Some(1) };
    let mut set = Set { name: role, queries: Vec::new(), documents: Vec::new(), negatives: None };
    let mut negatives = Vec::new();
    for pair in request.pairs(role)?.into_iter().filter(|pair| pair.label == wanted) {
        let id = set.queries.len().to_string();
        // The web query, or the text that the release has in its place.
        let text = if format == "cosqa-qa" && as_released {
            pair.documentation.clone().unwrap_or_default()
        } else if format == "cosqa-qa" {
            pair.query.text.clone()
        } else {
            pair.query.form(true).to_owned()
        };
        negatives.push(negative_form(&pair, format));
        set.queries.push(Query { id: id.clone(), text });
        set.documents.push(Document::new(id, pair.code.form(true).to_owned()));
    }
    set.negatives = negatives.into_iter().collect::<Option<Vec<_>>>().filter(|_| as_released);
    Ok(set)
}

/// A code as the released scripts format it in non-matching pairs: its characters separated by spaces for the sets of
/// CodeSearchNet, raw for CoSQA. `None` if positives have the same format.
fn negative_form(pair: &Pair, format: &str) -> Option<String> {
    match format {
        "cosqa-qa" => Some(pair.code.text.clone()),
        _ if format.starts_with("codesearchnet") => {
            let characters: Vec<String> = pair.code.text.chars().map(String::from).collect();
            Some(characters.join(" "))
        }
        _ => None,
    }
}

/// Properties that characterize the released CoSQA set: texts that contain "Python", empty texts, distinct pairs.
fn cosqa_counts(set: &Set) -> BTreeMap<String, f64> {
    let pairs: HashSet<(&str, &str)> = set
        .queries
        .iter()
        .zip(&set.documents)
        .map(|(query, document)| (query.text.trim(), document.text.trim()))
        .collect();
    let texts = |holds: fn(&str) -> bool| set.queries.iter().filter(|query| holds(&query.text)).count();
    let counts = [
        ("cosqa: pairs", set.queries.len()),
        ("cosqa: different pairs", pairs.len()),
        ("cosqa: texts that name python", texts(|text| text.to_lowercase().contains("python"))),
        ("cosqa: empty texts", texts(|text| text.trim().is_empty())),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count as f64)).collect()
}

/// Random distractors, then the correct code, for each query.
fn candidates<'s>(
    request: &Request<'_>,
    set: &'s Set,
    sampling: Sampling,
    seed: u32,
) -> Result<Vec<Candidates<'s>>, (usize, usize)> {
    let count = request.options.distractors.unwrap_or(DISTRACTORS);
    let answers: Vec<Vec<usize>> = (0..set.queries.len()).map(|number| vec![number]).collect();
    // Documents to exclude: the answers, and with `without_twins` documents with the same text.
    let left_out = match request.options.without_twins {
        true => twins(&set.documents),
        false => answers,
    };
    let drawn =
        draw(set.documents.len(), &left_out, count, sampling.into(), &mut PythonRandom::new(seed.into()))?;
    let lists = set.queries.iter().zip(drawn).enumerate();
    Ok(lists
        .map(|(number, (query, mut positions))| {
            positions.push(number);
            Candidates { query, positions, n_answers: 1 }
        })
        .collect())
}

/// For each document the ascending indices of those with the same text, including itself.
fn twins(documents: &[Document]) -> Vec<Vec<usize>> {
    let mut by_text: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, document) in documents.iter().enumerate() {
        by_text.entry(&document.text).or_default().push(position);
    }
    documents.iter().map(|document| by_text[document.text.as_str()].clone()).collect()
}

/// For each query the index of a code that does not match it. Codes with another format as negatives are appended to
/// the documents. `None` without another code.
fn negatives(
    documents: &mut Vec<Document>,
    forms: Option<&[String]>,
    set: &str,
    seed: u32,
) -> Option<Vec<usize>> {
    let mut random = PythonRandom::new(seed.into());
    let answers: Vec<Vec<usize>> = (0..documents.len()).map(|position| vec![position]).collect();
    let drawn = if set == "statcodesearch" {
        let codes: Vec<&str> = documents.iter().map(|document| document.text.as_str()).collect();
        different_mismatches(&codes, &answers, &mut random)?
    } else if documents.is_empty() {
        return None;
    } else {
        mismatches(&answers, &mut random)?
    };
    let Some(forms) = forms else { return Some(drawn) };
    Some(
        drawn
            .into_iter()
            .map(|other| {
                let id = documents.len().to_string();
                documents.push(Document::new(id, forms[other].clone()));
                documents.len() - 1
            })
            .collect(),
    )
}

/// Each query with its code and with the drawn one, so both classes have the same size; and the maximum accuracy over
/// all thresholds.
fn matched(
    set: &Set,
    negatives: &[usize],
    n_documents: usize,
    scorer: &dyn Scorer,
    seed: u32,
) -> Result<(Part, f64), EvalError> {
    let positions: Vec<[usize; 2]> =
        negatives.iter().enumerate().map(|(number, negative)| [number, *negative]).collect();
    let asked: Vec<(&Query, &[usize])> =
        set.queries.iter().zip(&positions).map(|(query, positions)| (query, positions.as_slice())).collect();
    let scores: Vec<f64> = scorer.scores_of(&asked)?.into_iter().flatten().map(f64::from).collect();
    let truth: Vec<bool> = (0..scores.len()).map(|position| position % 2 == 0).collect();
    let scored = scores.iter().zip(&truth).enumerate().map(|(position, (score, truth))| {
        let kind = if *truth { "match" } else { "no match" };
        (format!("{} {kind}", position / 2), Some(*truth), *score)
    });
    let values = Values::Verdicts(Verdicts::decide(scored, scorer.scale().threshold())?);
    let part = Part {
        name: format!("{} matching, seed {seed}", set.name),
        queries: set.queries.len(),
        documents: n_documents,
        values,
    };
    Ok((part, best_threshold(&truth, &scores).1))
}

/// GenCodeSearchNet's aggregates of the values of its sets (section 5), by name: `csn` is the mean of its five
/// languages, `robustness` that of `advtest` and `cosqa`, `cross-lingual` that of `csn` and `statcodesearch`,
/// `domain` is `statcodesearch`, and `combined` the mean of these three. Aggregates that `values` already contains
/// are kept, and those with missing parts are omitted.
pub fn generalization(values: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let levels: [(&str, &[&str]); 5] = [
        ("csn", &LANGUAGES),
        ("robustness", &["advtest", "cosqa"]),
        ("cross-lingual", &["csn", "statcodesearch"]),
        ("domain", &["statcodesearch"]),
        ("combined", &["robustness", "cross-lingual", "domain"]),
    ];
    let (mut known, mut aggregates) = (values.clone(), BTreeMap::new());
    for (name, parts) in levels {
        let values: Option<Vec<f64>> = parts.iter().map(|part| known.get(*part).copied()).collect();
        let mean = values.map(|values| values.iter().sum::<f64>() / values.len() as f64);
        if let Some(value) = known.get(name).copied().or(mean) {
            known.insert(name.to_owned(), value);
            aggregates.insert(name.to_owned(), value);
        }
    }
    aggregates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{Fixture, check};

    fn pairs(of: &[(&str, &str)]) -> String {
        let line = |(text, code): &(&str, &str)| {
            format!("{{\"input\":\"{text} [CODESPLIT] {code}\",\"target\":1}}\n")
        };
        of.iter().map(line).collect()
    }

    #[test]
    fn sets_are_ranked_matched_and_aggregated() {
        let set = pairs(&[("a", "a"), ("b", "b"), ("a", "ab")]);
        let names: Vec<String> = LANGUAGES.iter().map(|language| format!("{language}.jsonl")).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), set.as_str())).collect();
        let easy = pairs(&[("a", "a"), ("b", "b"), ("b", "bb b")]);
        files.extend([("advtest.jsonl", set.as_str()), ("cosqa.jsonl", &easy), ("stat.jsonl", &easy)]);
        let mut fixture = Fixture::new(&files);
        fixture.options.distractors = Some(2);
        let paths: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
        let mut roles: Vec<(&str, &[&str])> =
            LANGUAGES.iter().zip(&paths).map(|(language, path)| (*language, &path[..])).collect();
        roles.extend([
            ("advtest", &["advtest.jsonl"][..]),
            ("cosqa", &["cosqa.jsonl"]),
            ("statcodesearch", &["stat.jsonl"]),
        ]);
        let outcome = fixture.run("gecs", &roles);
        // With all others as distractors: 1, 1 and 1/2 after `a`; in the easy sets `b` and `bb b` are tied.
        let (hard, easy) = ((1.0 + 1.0 + 0.5) / 3.0, (1.0 + 0.5 + 0.5) / 3.0);
        check(outcome.figures["go mrr"], hard);
        check(outcome.figures["statcodesearch mrr"], easy);
        check(outcome.figures["csn mrr"], hard);
        check(outcome.figures["robustness mrr"], (hard + easy) / 2.0);
        let cross = (hard + easy) / 2.0;
        check(outcome.figures["cross-lingual mrr"], cross);
        check(outcome.figures["combined mrr"], ((hard + easy) / 2.0 + cross + easy) / 3.0);
        check(outcome.figures["cosqa mrr ceiling"], 1.0);
        assert_eq!(outcome.figures["cosqa: pairs"], 3.0);
        assert_eq!(outcome.discrepancies, ["G2", "G7", "G5", "G1", "G9"]);
        // Sixteen parts; all matches score above 0.5.
        assert_eq!(outcome.parts.len(), 16);
        for part in outcome.parts.iter().filter(|part| part.name.contains("matching")) {
            check(part.means()["recall"], 1.0);
            assert_eq!(part.values_of("accuracy").unwrap().len(), 6);
        }
        fixture.options.distractors = Some(3);
        let error = fixture.error("gecs", &roles);
        assert!(error.contains("expected 3 codes that do not answer query 1, found 2"), "{error}");
        assert!(fixture.error("gecs", &[]).contains("--advtest (gecs or advtest)"));
    }

    #[test]
    fn cosqa_is_corrected_or_as_released() {
        let qa = r#"[{"idx":"1","doc":"python a","code":"def a","code_tokens":"a","docstring_tokens":"b","label":1},
            {"idx":"2","doc":"python b","code":"def b","code_tokens":"b","docstring_tokens":"b","label":1},
            {"idx":"3","doc":"python b","code":"def a","code_tokens":"a","docstring_tokens":"a","label":0},
            {"idx":"4","doc":"python b","code":"def b","code_tokens":"b","docstring_tokens":"","label":0},
            {"idx":"5","doc":"python b","code":"def b","code_tokens":"b","docstring_tokens":"b","label":0}]"#;
        let mut fixture = Fixture::new(&[("qa.json", qa)]);
        fixture.options.distractors = Some(1);
        let files: &[(&str, &[&str])] = &[("cosqa", &["qa.json"])];
        let outcome = fixture.run("gecs", files);
        assert_eq!((outcome.parts[0].queries, outcome.figures["cosqa: texts that name python"]), (2, 2.0));
        check(outcome.figures["cosqa mrr"], 1.0);
        assert_eq!(outcome.discrepancies, ["G2", "G7", "G5"]);
        fixture.options.as_released = true;
        let outcome = fixture.run("gecs", files);
        assert_eq!((outcome.parts[0].queries, outcome.figures["cosqa: texts that name python"]), (3, 0.0));
        assert_eq!(outcome.figures["cosqa: empty texts"], 1.0);
        assert_eq!(outcome.discrepancies, ["G2", "G7", "G4", "G1", "G8"]);
        // Negatives are appended as separate documents.
        assert_eq!(outcome.parts[1].documents, 6);
    }

    #[test]
    fn negatives_of_codesearchnet_are_spaced_as_released() {
        let mut pair = Pair::default();
        pair.code.text = "f(x)".into();
        assert_eq!(negative_form(&pair, "codesearchnet").as_deref(), Some("f ( x )"));
        assert_eq!(negative_form(&pair, "codesearchnet-huggingface").as_deref(), Some("f ( x )"));
        assert_eq!(negative_form(&pair, "cosqa-qa").as_deref(), Some("f(x)"));
        assert_eq!(negative_form(&pair, "gecs"), None);
    }
}
