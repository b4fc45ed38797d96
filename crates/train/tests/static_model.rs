//! Trains small static models from start to end.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;

use quarry_embed::static_model::{StaticModel, StaticWeights, write_model};
use quarry_embed::{Embedder, Vectors};
use quarry_source::FunctionPair;
use quarry_train::static_model::{Progress, Settings, VocabularySize, train};
use quarry_train::{Teacher, TrainError};

const VERBS: [(&str, &str); 4] =
    [("remove", "delete"), ("fetch", "load"), ("order", "sort"), ("join", "concat")];
const NOUNS: [&str; 12] =
    ["file", "user", "token", "matrix", "socket", "color", "node", "price", "event", "cache", "row", "path"];

/// Functions whose code says one word for what their summary says with another.
fn pairs() -> Vec<FunctionPair> {
    let mut pairs = Vec::new();
    for repository in 0..8 {
        for (said, done) in VERBS {
            for noun in NOUNS {
                pairs.push(FunctionPair {
                    query: format!("{said} the given {noun}"),
                    doc: String::new(),
                    name: format!("{done}_{noun}"),
                    code: format!(
                        "def {done}_{noun}(x{repository}):\n    return x{repository}.{done}({noun})"
                    ),
                    language: "python".to_owned(),
                    repository: format!("owner/r{repository}"),
                    path: String::new(),
                    negatives: Vec::new(),
                });
            }
        }
    }
    pairs
}

fn settings() -> Settings {
    Settings {
        dimension: 32,
        vocabulary: VocabularySize { words: 200, bigrams: 20, query: 10 },
        batch: 32,
        epochs: 6,
        rate: 2e-2,
        warm_up: 5,
        ask_name: 0.1,
        validation: 0.1,
        ..Settings::default()
    }
}

fn run(settings: &Settings, directory: Option<&Path>) -> Result<(StaticWeights, Vec<Progress>), TrainError> {
    let mut reports = Vec::new();
    let (weights, _) = train(&pairs(), settings, None, None, directory, |progress| reports.push(progress))?;
    Ok((weights, reports))
}

fn load(weights: &StaticWeights) -> StaticModel {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.bin");
    std::fs::write(&path, write_model(weights)).unwrap();
    StaticModel::load(&path).unwrap()
}

fn similarity(model: &StaticModel, query: &str, document: &str) -> f32 {
    let query = model.embed_queries(&[query]).unwrap();
    let document = model.embed_documents(&[document]).unwrap();
    query.values.iter().zip(&document.values).map(|(a, b)| a * b).sum()
}

/// A judged negative moves away from its query, more than without the judgment.
#[test]
fn judged_negatives_are_learned_from() {
    let negative = "def delete_file_later(x): return x.delete(file, later)";
    let trained = |negatives: &[String]| {
        let mut pairs = pairs();
        for pair in pairs.iter_mut().filter(|pair| pair.query == "remove the given file") {
            pair.negatives = negatives.to_vec();
        }
        let settings = Settings { validation: 0.0, ..settings() };
        let (weights, _) = train(&pairs, &settings, None, None, None, |_| ()).unwrap();
        similarity(&load(&weights), "remove the given file", negative)
    };
    let (without, with) = (trained(&[]), trained(&[negative.to_owned()]));
    assert!(with < without - 0.01, "{with} {without}");
}

#[test]
fn learns_that_different_words_mean_the_same() {
    let (weights, reports) = run(&settings(), None).unwrap();
    let model = load(&weights);
    let right = similarity(&model, "remove the given file", "def delete_file(x): return x.delete(file)");
    let wrong_verb = similarity(&model, "remove the given file", "def sort_file(x): return x.sort(file)");
    let wrong_noun = similarity(&model, "remove the given file", "def delete_user(x): return x.delete(user)");
    assert!(right > wrong_verb + 0.2 && right > wrong_noun + 0.2, "{right} {wrong_verb} {wrong_noun}");
    let losses: Vec<f32> = reports
        .iter()
        .filter_map(|report| match report {
            Progress::Step { loss, .. } => Some(*loss),
            _ => None,
        })
        .collect();
    assert!(losses[losses.len() - 1] < losses[0] * 0.5, "{losses:?}");
}

#[test]
fn equal_runs_give_equal_models() {
    let (first, _) = run(&settings(), None).unwrap();
    let (second, _) = run(&settings(), None).unwrap();
    assert_eq!(write_model(&first), write_model(&second));
    let (other_seed, _) = run(&Settings { seed: 2, ..settings() }, None).unwrap();
    assert_ne!(write_model(&first), write_model(&other_seed));
}

#[test]
fn an_interrupted_run_continues_as_if_uninterrupted() {
    let (whole, _) = run(&settings(), None).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let cut = std::panic::catch_unwind(|| {
        train(&pairs(), &settings(), None, None, Some(directory.path()), |progress| {
            if matches!(progress, Progress::Step { step: 30, .. }) {
                std::panic::panic_any("cut off");
            }
        })
    });
    assert!(cut.is_err());
    let (resumed, reports) = run(&settings(), Some(directory.path())).unwrap();
    let first = reports.iter().find(|report| matches!(report, Progress::Step { .. }));
    assert!(matches!(first, Some(Progress::Step { step, .. }) if *step > 1), "{first:?}");
    assert_eq!(write_model(&whole), write_model(&resumed));
}

#[test]
fn quality_is_measured_only_where_something_is_held_out() {
    let measured = |validation| {
        let settings = Settings { validation, epochs: 1, ..settings() };
        let (_, reports) = run(&settings, None).unwrap();
        reports.into_iter().find_map(|report| match report {
            Progress::Validated { mrr, .. } => Some(mrr),
            _ => None,
        })
    };
    assert_eq!(measured(0.0), Some(None));
    let held_out = measured(0.5).unwrap().unwrap();
    assert!(0.0 < held_out.summary && held_out.summary <= 1.0, "{held_out:?}");
}

#[test]
fn the_state_of_another_run_is_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    run(&settings(), Some(directory.path())).unwrap();
    let kept = std::fs::read(directory.path().join("checkpoint.bin")).unwrap();
    let error = run(&Settings { rate: 1e-3, ..settings() }, Some(directory.path())).unwrap_err().to_string();
    assert!(error.contains("checkpoint.bin") && error.contains("other settings"), "{error}");
    assert_eq!(std::fs::read(directory.path().join("checkpoint.bin")).unwrap(), kept);
    for damaged in [&kept[..kept.len() - 1], &kept[..10], b"garbage\n"] {
        std::fs::write(directory.path().join("checkpoint.bin"), damaged).unwrap();
        assert!(run(&settings(), Some(directory.path())).is_err());
    }
    let line = kept.iter().position(|&byte| byte == b'\n').unwrap();
    for position in [line + 1, line + 4 + kept[line..].len() / 2, kept.len() - 1] {
        let mut damaged = kept.clone();
        damaged[position] ^= 1;
        std::fs::write(directory.path().join("checkpoint.bin"), damaged).unwrap();
        let error = run(&settings(), Some(directory.path())).unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{position}: {error}");
    }
}

#[test]
fn settings_out_of_range_are_named() {
    for (settings, name) in [
        (Settings { dimension: 100_000_000, ..settings() }, "dimension: expected 4 to 4096, found 100000000"),
        (Settings { batch: 1, ..settings() }, "batch: expected 2"),
        (Settings { positions: 65, ..settings() }, "positions: expected 1 to 64"),
        (Settings { max_words: 0, ..settings() }, "max_words: expected 1"),
        (Settings { epochs: usize::MAX, ..settings() }, "epochs: expected 0 to"),
        (Settings { rate: f32::NAN, ..settings() }, "rate: expected more than 0"),
        (Settings { undocumented: f32::INFINITY, ..settings() }, "undocumented: expected 0 or more"),
        (Settings { dimension: 30, ..settings() }, "dimension"),
        (Settings { with_doc: 1.5, ..settings() }, "with_doc"),
        (Settings { temperature: 0.0, ..settings() }, "temperature"),
        (Settings { sif: -1.0, ..settings() }, "sif"),
        (Settings { rate: f32::INFINITY, ..settings() }, "rate"),
        // More than there are pairs.
        (Settings { batch: 100_000, ..settings() }, "batch"),
    ] {
        let error = run(&settings, None).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

/// Knows two texts as equal that share their last word.
struct LastWordEmbedder;

impl Embedder for LastWordEmbedder {
    fn id(&self) -> &str {
        "last-word"
    }
    fn dimension(&self) -> usize {
        16
    }
    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, quarry_embed::EmbedError> {
        let one_hot = |text: &&str| {
            let last = text.rsplit(' ').next().unwrap_or_default();
            let at = NOUNS.iter().position(|noun| *noun == last).unwrap_or(NOUNS.len());
            (0..16).map(move |n| f32::from(u8::from(n == at)))
        };
        Ok(Vectors { dimension: 16, values: texts.iter().flat_map(one_hot).collect() })
    }
    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, quarry_embed::EmbedError> {
        self.embed_queries(texts)
    }
}

#[test]
fn a_teacher_draws_together_what_it_holds_for_equal() {
    let pairs = pairs();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("teacher.bin");
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.query.as_str()).chain(NOUNS).collect();
    Teacher::write(&path, &LastWordEmbedder, &texts, |_, _| {}).unwrap();
    let teacher = Teacher::read(&path).unwrap();
    let settings = Settings { teacher: 0.9, ..settings() };
    let similarity_with = |teacher: Option<&Teacher>| {
        let (weights, _) = train(&pairs, &settings, teacher, None, None, |_| {}).unwrap();
        similarity(&load(&weights), "remove the given file", "def sort_file(x): return x.sort(file)")
    };
    let (taught, untaught) = (similarity_with(Some(&teacher)), similarity_with(None));
    assert!(taught > untaught + 0.1, "{taught} {untaught}");
}

#[test]
fn a_model_that_is_trained_further_learns_new_words_and_keeps_the_others() {
    let (first, _) = run(&settings(), None).unwrap();
    // In new pairs "sort" is called "arrange", for some nouns alone; "x" stays what it was.
    let more: Vec<FunctionPair> = (pairs().into_iter())
        .filter(|pair| pair.name.starts_with("sort_") && !pair.name.ends_with("_user"))
        .map(|pair| FunctionPair { query: pair.query.replace("order", "concat"), ..pair })
        .collect();
    let settings = Settings { rate: 5e-3, batch: 16, validation: 0.0, warm_up: 1, ..settings() };
    let mut n_tokens = 0;
    let (further, vocabulary) = train(&more, &settings, None, Some(&first), None, |progress| {
        if let Progress::Ready { n_tokens: n, .. } = progress {
            n_tokens = n;
        }
    })
    .unwrap();
    assert_eq!((&further.slots, vocabulary.texts.len()), (&first.slots, 0));
    assert_eq!(n_tokens, first.document_rows.len() / first.dimension);
    let moved = |query: &str, document: &str| {
        similarity(&load(&further), query, document) - similarity(&load(&first), query, document)
    };
    // The noun was in no pair: the verb was learned.
    let learned = moved("concat the given user", "def sort_user(x1): return x1.sort(user)");
    assert!(learned > 0.05, "{learned}");
    let change = moved("remove the given file", "def delete_file(x): return x.delete(file)");
    assert!(change > -0.2, "{change}");
    let again = train(&more, &settings, None, Some(&first), None, |_| {}).unwrap().0;
    assert_eq!(write_model(&again), write_model(&further));
    let wider = Settings { dimension: 64, ..settings };
    let error = train(&more, &wider, None, Some(&first), None, |_| {}).unwrap_err().to_string();
    assert!(error.contains("dimension: expected 32, as in the model to begin with, found 64"), "{error}");
}

#[test]
fn a_loss_that_is_not_a_number_ends_the_run() {
    for epochs in [1, 2] {
        let mut reports = Vec::new();
        let settings = Settings { rate: f32::MAX, warm_up: 1, epochs, ..settings() };
        let error =
            train(&pairs(), &settings, None, None, None, |progress| reports.push(progress)).unwrap_err();
        assert!(error.to_string().contains("lower rate"), "{error}");
        // Nothing was measured with such weights.
        assert!(!reports.iter().any(|report| matches!(report, Progress::Validated { .. })), "{reports:?}");
    }
}

#[test]
fn codes_labeled_0_are_negatives() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pairs.jsonl");
    let line = |query: &str, code: &str, label: &str| {
        format!(
            "{{\"query\":\"{query}\",\"doc\":\"\",\"name\":\"\",\"code\":\"{code}\",\"language\":\"\",\"repository\":\"\"{label}}}\n"
        )
    };
    let lines =
        [line("a", "x", ",\"label\":1"), line(" a", "y", ",\"label\":0"), line("b", "z", "")].concat();
    std::fs::write(&path, &lines).unwrap();
    let found = quarry_train::read_pairs(&path).unwrap();
    let found: Vec<(&str, &[String])> =
        found.iter().map(|pair| (pair.code.as_str(), &pair.negatives[..])).collect();
    assert_eq!(found, [("x", &["y".to_owned()][..]), ("z", &[][..])]);
    std::fs::write(&path, line("a", "x", ",\"label\":-1")).unwrap();
    let error = quarry_train::read_pairs(&path).unwrap_err().to_string();
    assert!(error.contains("pairs.jsonl:1") && error.contains("found -1"), "{error}");
}
