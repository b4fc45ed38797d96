//! Trains tiny encoders from start to end.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod directories;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use quarry_embed::{EmbedError, Embedder, PairModel, TokenEmbedder, max_sim};
use quarry_train::TrainError;
use quarry_train::encoder::{
    CodeVectors, Device, Objective, Outcome, Progress, Provenance, Rewrite, Row, Run, Select, Settings,
    Teacher, split, train,
};
use quarry_transformer::trainable::{MATCHER_FILE, NamedTensor, Trainable};
use quarry_transformer::{CrossEncoder, LateInteraction, Matcher, TransformerModel};
use tempfile::TempDir;

const WORDS: [&str; 8] = ["sort", "list", "value", "open", "file", "read", "every", "line"];

/// Queries of two words, and codes that hold both among others; every third pair is wrong.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (a, first) in WORDS.iter().enumerate() {
        for (b, second) in WORDS.iter().enumerate().filter(|(b, _)| *b != a) {
            let wrong = (a + b) % 3 == 0;
            let shown = if wrong { WORDS[(a + 3) % 8] } else { *first };
            rows.push(Row {
                query: format!("{first} {second}"),
                code: format!("def {shown} ( {second} ) : return {shown} in {second}"),
                label: Some(i32::from(!wrong)),
                summary: format!("{second} of a {first}"),
                repository: String::new(),
                license: "MIT".to_owned(),
                negatives: Vec::new(),
            });
        }
    }
    rows
}

fn base(name: &str, options: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures");
    fixtures.join(format!("{name}{options}"))
}

fn with_options(path: &Path, options: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(options);
    path.into()
}

fn settings() -> Settings {
    Settings {
        batch: 8,
        epochs: 2,
        rate: 3e-3,
        warm_up: 2.0,
        scale: 10.0,
        held_out: 0.2,
        max_query_tokens: 8,
        max_code_tokens: 24,
        checkpoint_steps: 2,
        ..Settings::default()
    }
}

fn run(
    base: &Path,
    settings: &Settings,
    out: &Path,
    report: impl FnMut(Progress),
) -> Result<Outcome, TrainError> {
    let teacher = settings.needs_teacher().then(|| TransformerModel::load(base).unwrap());
    let teacher = teacher.as_ref().map(|teacher| Teacher::Encoder(teacher));
    run_with(rows(), &[], teacher, base, settings, out, report)
}

fn run_with(
    rows: Vec<Row>,
    corpus: &[String],
    teacher: Option<Teacher<'_>>,
    base: &Path,
    settings: &Settings,
    out: &Path,
    report: impl FnMut(Progress),
) -> Result<Outcome, TrainError> {
    let mut model = Trainable::read(base).unwrap();
    if settings.layers > 0 {
        model.keep_layers(settings.layers).unwrap();
    }
    let (learned, held_out) = split(rows, settings.held_out);
    let run = Run {
        model: &model,
        rows: &learned,
        held_out: &held_out,
        corpus,
        settings,
        teacher,
        device: &Device::cpu(),
        provenance: &Provenance::default(),
        directory: out,
    };
    train(&run, report)
}

fn out() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    (directory, out)
}

#[test]
fn training_improves_what_it_measures_and_writes_a_model_that_loads() {
    let (_kept, out) = out();
    let settings = Settings { epochs: 20, dropout: 0.0, ..settings() };
    let mut losses = Vec::new();
    let base = base("tiny-bert", "");
    let outcome = run(&base, &settings, &out, |progress| {
        if let Progress::Step { loss, .. } = progress {
            losses.push(loss);
        }
    })
    .unwrap();
    let part = losses.len() / 4;
    let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
    let (first, last) = (mean(&losses[..part]), mean(&losses[losses.len() - part..]));
    assert!(last < 0.7 * first, "from {first} to {last}");
    let best = outcome.kept.unwrap().value.unwrap();
    assert!(best >= outcome.evaluations[0].value.unwrap());

    let (before, after) = (TransformerModel::load(&base).unwrap(), TransformerModel::load(&out).unwrap());
    assert_eq!(before.dimension(), after.dimension());
    let vectors = |model: &TransformerModel| model.embed_queries(&["sort the list"]).unwrap().values;
    assert_ne!(vectors(&before), vectors(&after));
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    for part in ["## Data", "## Results", "| 20 |", "\"rate\": 0.003"] {
        assert!(card.contains(part), "{part} in {card}");
    }
    assert!(!out.join("checkpoint.safetensors").exists());
}

#[test]
fn fewer_layers_learn_to_read_queries_into_the_space_of_a_teacher() {
    let base = base("tiny-bert", "");
    let teacher = TransformerModel::load(&base).unwrap();
    let mut results = Vec::new();
    for chunk in [0, 3] {
        let (_kept, out) = out();
        let settings = Settings {
            code_vectors: CodeVectors::Teacher,
            layers: 1,
            epochs: 20,
            dropout: 0.0,
            chunk,
            ..settings()
        };
        let outcome = run(&base, &settings, &out, |_| {}).unwrap();
        let [first, last] = [0, 19].map(|at| outcome.evaluations[at].clone());
        assert!(last.loss < 0.8 * first.loss, "from {first:?} to {last:?}");
        results.push(last.loss);
        // The written model has one layer, and finds code among vectors that it did not make itself.
        let config = fs::read_to_string(out.join("config.json")).unwrap();
        assert!(config.contains("\"num_hidden_layers\": 1"), "{config}");
        let student = TransformerModel::load(&out).unwrap();
        let codes = ["def sort ( list ) : return sort in list", "def read ( file ) : return read in file"];
        let codes = teacher.embed_documents(&codes).unwrap();
        let query = student.embed_queries(&["sort list"]).unwrap().values;
        let cosines: Vec<f32> =
            codes.rows().map(|code| code.iter().zip(&query).map(|(a, b)| a * b).sum()).collect();
        assert!(cosines[0] > cosines[1], "{cosines:?}");
    }
    assert!((results[0] - results[1]).abs() < 1e-3, "chunks change nothing: {results:?}");

    let (_kept, out) = out();
    let settings =
        Settings { code_vectors: CodeVectors::Teacher, objective: Objective::Margin, ..settings() };
    let error = run(&base, &settings, &out, |_| {}).unwrap_err().to_string();
    assert!(error.contains("only info-nce"), "{error}");
    let error = Trainable::read(&base).unwrap().keep_layers(9).unwrap_err().to_string();
    assert!(error.contains("expected to keep 1 to all of them, not 9"), "{error}");
}

#[test]
fn every_objective_trains_and_its_model_loads() {
    use Objective::*;
    for objective in [
        InfoNce,
        TriLoss,
        Margin,
        DistillScores,
        DistillVectors,
        Siamese,
        Coclr,
        CoclrOnline,
        CoclrPaper,
        CrossEntropy,
    ] {
        for (name, options) in [("tiny-bert", ":pooler:dot"), ("tiny-roberta", "")] {
            let settings = Settings {
                objective,
                epochs: 1,
                chunk: 6,
                hard_negatives: 1,
                random_negatives: usize::from(objective.uses_labels()),
                select: if objective == CrossEntropy { Select::Accuracy } else { Select::Mrr },
                ..settings()
            };
            let (_kept, out) = out();
            let outcome = run(&base(name, options), &settings, &out, |_| {}).unwrap();
            assert!(outcome.evaluations[0].loss.is_finite());
            assert_eq!(
                out.join(MATCHER_FILE).exists(),
                matches!(objective, Siamese | Coclr | CoclrOnline | CoclrPaper)
            );
            if objective == CrossEntropy {
                assert!(CrossEncoder::load(&out).is_ok());
                continue;
            }
            let loaded = TransformerModel::load(&out).map(|model| model.dimension());
            if out.join(MATCHER_FILE).exists() {
                // Its vectors alone are not what was trained, unless they are asked for.
                let error = loaded.unwrap_err().to_string();
                assert!(error.contains("matcher.safetensors: compares the vectors"), "{error}");
                assert_eq!(TransformerModel::load(&with_options(&out, ":mean")).unwrap().dimension(), 16);
            } else {
                assert_eq!(loaded.unwrap(), 16, "{objective:?}");
            }
            // A trained model can be trained further.
            if options.is_empty() {
                assert!(Trainable::read(&out).is_ok());
            }
        }
    }
}

#[test]
fn a_matcher_measures_outside_of_training_as_it_did_within() {
    for (name, objective, select) in [
        ("tiny-roberta:pooler:dot", Objective::Siamese, Select::Accuracy),
        ("tiny-bert:pooler:dot", Objective::Coclr, Select::Mrr),
    ] {
        let settings = Settings { objective, select, epochs: 15, dropout: 0.0, held_out: 0.4, ..settings() };
        let (_kept, out) = out();
        let expected = run(&base(name, ""), &settings, &out, |_| {}).unwrap().kept.unwrap().value.unwrap();
        let (_, held_out) = split(rows(), settings.held_out);
        let matcher = Matcher::load(&out).unwrap();
        let texts = |text: fn(&Row) -> &str| held_out.iter().map(text).collect::<Vec<_>>();
        let queries = matcher.embed_queries(&texts(|row| &row.query)).unwrap();
        let mut codes = texts(|row| &row.code);
        let of_rows = codes.clone();
        codes.sort_unstable();
        codes.dedup();
        let vectors = matcher.embed_documents(&codes).unwrap();
        let vectors: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
        let mut values = Vec::new();
        for ((row, query), own) in held_out.iter().zip(&queries).zip(of_rows) {
            let scores = matcher.log_odds(query, &vectors).unwrap();
            let own = scores[codes.binary_search(&own).unwrap()];
            match select {
                Select::Accuracy => values.push(f64::from((own > 0.0) == row.answers())),
                _ if row.answers() => {
                    let answers = |code: &str| {
                        let same = |other: &&Row| other.query == row.query && other.code == code;
                        held_out.iter().filter(same).any(Row::answers)
                    };
                    let above =
                        codes.iter().zip(&scores).filter(|(code, score)| **score >= own && !answers(code));
                    values.push(1.0 / (1 + above.count()) as f64);
                }
                _ => {}
            }
        }
        let found = values.iter().sum::<f64>() / values.len() as f64;
        assert!((found - expected).abs() < 1e-9, "{name}: {found}, in training {expected}");
        assert!(values.iter().any(|value| *value != values[0]));
    }
}

/// Shows a teacher that prefers codes with an odd number of characters.
struct Odd;

impl PairModel for Odd {
    fn id(&self) -> &str {
        "odd"
    }

    fn log_odds(&self, pairs: &[(&str, &str)]) -> Result<Vec<f32>, EmbedError> {
        Ok(pairs.iter().map(|(_, code)| if code.len() % 2 == 1 { 4.0 } else { -4.0 }).collect())
    }
}

/// A copy of the tiny CodeT5+ whose tokenizer has a token before each text as well, as CodeT5+ has it.
fn codet5p_with_ends(copy: &Path) -> PathBuf {
    for entry in fs::read_dir(base("tiny-codet5p", "")).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let path = copy.join("tokenizer.json");
    let mut tokenizer: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let processor = &mut tokenizer["post_processor"];
    let first = serde_json::json!({ "SpecialToken": { "id": "<pad>", "type_id": 0 } });
    processor["single"].as_array_mut().unwrap().insert(0, first);
    processor["special_tokens"]["<pad>"] =
        serde_json::json!({ "id": "<pad>", "ids": [0], "tokens": ["<pad>"] });
    fs::write(&path, tokenizer.to_string()).unwrap();
    copy.to_owned()
}

#[test]
fn a_classifier_becomes_a_cross_encoder_with_the_accuracy_that_was_measured() {
    let copy = TempDir::new().unwrap();
    for name in ["tiny-bert", "tiny-roberta", "tiny-codet5p"] {
        let path = match name {
            "tiny-codet5p" => codet5p_with_ends(copy.path()),
            _ => base(name, ""),
        };
        let settings = Settings {
            objective: Objective::CrossEntropy,
            select: Select::Accuracy,
            epochs: 60,
            dropout: 0.0,
            held_out: 0.4,
            ..settings()
        };
        let (_kept, out) = out();
        let outcome = run(&path, &settings, &out, |_| {}).unwrap();
        let model = CrossEncoder::load(&out).unwrap();
        let (_, held_out) = split(rows(), settings.held_out);
        let pairs: Vec<(&str, &str)> =
            held_out.iter().map(|row| (row.query.as_str(), row.code.as_str())).collect();
        let found = model.log_odds(&pairs).unwrap();
        let hits = found.iter().zip(&held_out).filter(|(odds, row)| (**odds > 0.0) == row.answers()).count();
        assert_eq!(
            outcome.kept.unwrap().value,
            Some(hits as f64 / held_out.len() as f64),
            "{name}: {found:?}"
        );
        let (minimum, maximum) =
            found.iter().fold((f32::MAX, f32::MIN), |(low, high), odds| (odds.min(low), odds.max(high)));
        assert!(maximum - minimum > 0.1, "{found:?}");
    }
}

#[test]
fn an_encoder_learns_the_order_of_a_cross_encoder() {
    // Codes of the same words, some of which are one letter longer.
    let code = |words: &str, n: usize| format!("def {words} ( ) : return {words}{}", ["", "s"][n % 2]);
    let rows: Vec<Row> = rows()
        .into_iter()
        .filter(|row| row.answers())
        .map(|row| Row {
            code: code(&row.query, 0),
            negatives: vec![code(&row.query, 1), code(&row.summary, 0), code(&row.summary, 1)],
            ..row
        })
        .collect();
    let settings = Settings {
        objective: Objective::DistillScores,
        epochs: 15,
        hard_negatives: 3,
        dropout: 0.0,
        select: Select::Last,
        ..settings()
    };
    let (_kept, out) = out();
    let base = base("tiny-bert", "");
    let mut asked = 0;
    let report = |progress| {
        if let Progress::Teacher { all, .. } = progress {
            asked = all;
        }
    };
    let teacher = Some(Teacher::CrossEncoder(&Odd));
    run_with(rows.clone(), &[], teacher, &base, &settings, &out, report).unwrap();
    let (learned, _) = split(rows, settings.held_out);
    assert_eq!(asked, 4 * learned.len());
    let agreement = |path: &Path| {
        let model = TransformerModel::load(path).unwrap();
        let agrees = |row: &Row| {
            let texts =
                [&[row.code.as_str()], &row.negatives.iter().map(String::as_str).collect::<Vec<_>>()[..]];
            let texts = texts.concat();
            let (query, codes) =
                (model.embed_queries(&[&row.query]).unwrap(), model.embed_documents(&texts).unwrap());
            let cosine = |code: &[f32]| code.iter().zip(&query.values).map(|(a, b)| a * b).sum::<f32>();
            let cosines: Vec<f32> = codes.rows().map(cosine).collect();
            let best = (0..4).max_by(|a, b| cosines[*a].total_cmp(&cosines[*b])).unwrap();
            texts[best].len() % 2 == 1
        };
        learned.iter().filter(|row| agrees(row)).count() as f64 / learned.len() as f64
    };
    let (before, after) = (agreement(&base), agreement(&out));
    assert!(after > 0.9 && before < 0.8, "from {before} to {after}");

    let check = |settings: &Settings, rows: Vec<Row>, part: &str| {
        let (_kept, out) = self::out();
        let error = run_with(rows, &[], teacher, &base, settings, &out, |_| {}).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    check(&Settings { hard_negatives: 0, ..settings.clone() }, learned.clone(), "set hard_negatives");
    let without = learned.iter().map(|row| Row { negatives: Vec::new(), ..row.clone() }).collect();
    check(&settings, without, "give rows with `negatives`");
    let vectors = Settings { objective: Objective::DistillVectors, ..settings };
    check(&vectors, learned.clone(), "a cross-encoder, which has no vectors");
}

#[test]
fn a_cross_encoder_reads_as_much_of_a_query_as_in_training() {
    let settings = Settings {
        objective: Objective::CrossEntropy,
        select: Select::Accuracy,
        epochs: 4,
        max_query_tokens: 3,
        max_code_tokens: 14,
        ..settings()
    };
    let (_kept, out) = out();
    run(&base("tiny-bert", ""), &settings, &out, |_| {}).unwrap();
    let model = CrossEncoder::load(&out).unwrap();
    let code = "def sort ( list ) : return sort in list and every value of the file";
    let queries = ["sort the list", "sort the list of every file", "sort list list"];
    let found = model.log_odds(&queries.map(|query| (query, code))).unwrap();
    assert!((found[0] - found[1]).abs() < 1e-6 && (found[0] - found[2]).abs() > 1e-6, "{found:?}");
}

#[test]
fn mpnet_and_t5_are_trained_and_their_models_give_what_was_measured() {
    for (name, options) in [("tiny-mpnet", ":mean"), ("tiny-t5", ""), ("tiny-codet5p", ":mean")] {
        for objective in [Objective::InfoNce, Objective::Coclr] {
            let settings = Settings { objective, epochs: 2, ..settings() };
            let (_kept, out) = out();
            let path = base(name, options);
            let outcome = run(&path, &settings, &out, |_| {}).unwrap();
            assert!(outcome.kept.is_some_and(|kept| kept.loss.is_finite()));
            let before = Trainable::read(&path).unwrap();
            let after = Trainable::read(&out).unwrap();
            let moved = |tensors: fn(&str) -> bool| {
                let pairs = before.tensors.iter().zip(&after.tensors).filter(|(a, _)| tensors(&a.name));
                pairs.filter(|(a, b)| a.name == b.name && a.values != b.values).count()
            };
            assert!(moved(|name| name.contains("relative_attention_bias")) == 1, "{name}");
            assert!(moved(|_| true) > before.tensors.len() / 2, "{name}");
            let is_matcher = objective == Objective::Coclr;
            let model =
                TransformerModel::load(&with_options(&out, if is_matcher { ":mean" } else { "" })).unwrap();
            assert_eq!(model.dimension(), 16);
            assert_ne!(
                model.embed_queries(&["sort the list"]).unwrap(),
                TransformerModel::load(&path).unwrap().embed_queries(&["sort the list"]).unwrap()
            );
        }
        let settings =
            Settings { objective: Objective::CrossEntropy, select: Select::Accuracy, ..settings() };
        let (_kept, out) = out();
        let error = run(&base(name, options), &settings, &out, |_| {}).unwrap_err().to_string();
        assert!(error.contains("cross-entropy needs a BERT or RoBERTa model"), "{error}");
    }
}

#[test]
fn a_model_trained_with_its_pooler_gives_the_same_vectors_without_options() {
    let (_kept, out) = out();
    run(&base("tiny-bert", ":pooler:dot"), &Settings { epochs: 1, ..settings() }, &out, |_| {}).unwrap();
    let with_modules = TransformerModel::load(&out).unwrap();
    let with_options = TransformerModel::load(&with_options(&out, ":pooler:dot")).unwrap();
    let texts = ["sort the list", "a", ""];
    let [a, b] = [&with_modules, &with_options].map(|model| model.embed_queries(&texts).unwrap().values);
    assert_eq!(a, b);
    assert!(
        a.chunks(16).any(|row| (row.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() > 1e-3),
        "not normalized"
    );
}

/// Checks that a run fails with a message of these parts, and leaves no model.
fn check_error(settings: &Settings, out: &Path, parts: &[&str]) {
    let error = run(&base("tiny-bert", ""), settings, out, |_| {}).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "expected {part:?} in {error:?}");
    }
}

#[test]
fn a_loss_that_is_not_a_number_ends_the_run_and_keeps_the_checkpoint() {
    let (_kept, out) = out();
    let settings = Settings { rate: 1e30, warm_up: 0.0, clip: 0.0, checkpoint_steps: 1, ..settings() };
    check_error(&settings, &out, &["the loss is", "lower rate"]);
    assert!(!out.join("model.safetensors").exists());
}

#[test]
fn a_classifier_needs_both_labels() {
    let settings = Settings { objective: Objective::CrossEntropy, select: Select::Last, ..settings() };
    let rows = rows().into_iter().filter(Row::answers).collect();
    let (_kept, out) = out();
    let error =
        run_with(rows, &[], None, &base("tiny-bert", ""), &settings, &out, |_| {}).unwrap_err().to_string();
    assert!(error.contains("all pairs are labeled 1"), "{error}");
}

#[test]
fn settings_that_do_not_fit_are_refused_by_name() {
    let (_kept, out) = out();
    let cases = [
        (Settings { batch: 1, ..settings() }, "batch"),
        (Settings { rate: f64::NAN, ..settings() }, "rate"),
        (Settings { held_out: 0.0, ..settings() }, "held_out"),
        (Settings { select: Select::Accuracy, ..settings() }, "select"),
        (Settings { rewrite: Rewrite::Copy, ..settings() }, "rewrite"),
        (Settings { max_code_tokens: 2, ..settings() }, "at least"),
        (Settings { matryoshka: vec![17], ..settings() }, "matryoshka"),
        (Settings { average_decay: 1.0, ..settings() }, "average_decay"),
    ];
    for (settings, part) in cases {
        check_error(&settings, &out, &[part]);
    }
    let error = Trainable::read(&base("tiny-mpnet", "")).err().unwrap().to_string();
    assert!(error.contains("cannot be trained"), "{error}");
}

#[test]
fn an_average_of_the_weights_is_what_is_written() {
    let written = |average_decay: f64| {
        let (_kept, out) = out();
        let settings = Settings { average_decay, select: Select::Last, ..settings() };
        let outcome = run(&base("tiny-bert", ""), &settings, &out, |_| {}).unwrap();
        (outcome.losses, Trainable::read(&out).unwrap().tensors)
    };
    let (of_begin, averaged, last) =
        (Trainable::read(&base("tiny-bert", "")).unwrap().tensors, written(0.9), written(0.0));
    assert_eq!(averaged.0, last.0, "training itself is the same");
    let distance = |a: &[NamedTensor], b: &[NamedTensor]| -> f32 {
        let flattened = |tensors: &[NamedTensor]| -> Vec<f32> {
            tensors.iter().flat_map(|tensor| tensor.values.clone()).collect()
        };
        flattened(a).iter().zip(flattened(b)).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt()
    };
    // It lies on the way.
    assert!(distance(&averaged.1, &last.1) > 0.0);
    assert!(distance(&averaged.1, &of_begin) < distance(&last.1, &of_begin));
}

#[test]
fn training_ends_when_patience_does() {
    let (_kept, out) = out();
    // A step size of almost nothing: no epoch is better than the first, but a tie is.
    let settings = Settings { epochs: 6, patience: 1, rate: 5e-2, warm_up: 0.0, ..settings() };
    let outcome = run(&base("tiny-bert", ""), &settings, &out, |_| {}).unwrap();
    let values: Vec<f64> = outcome.evaluations.iter().map(|evaluation| evaluation.value.unwrap()).collect();
    let falls = values.windows(2).position(|pair| pair[1] < pair[0]);
    assert_eq!(values.len(), falls.map_or(6, |at| at + 2), "{values:?}");
    let best = outcome.kept.unwrap();
    assert_eq!(best.value.unwrap(), values.iter().copied().fold(f64::MIN, f64::max));
}

#[test]
fn repositories_are_held_out_and_queries_where_there_is_one_repository() {
    let row = |n: usize, repository: String| Row {
        query: format!("query {n}"),
        code: format!("code {n}"),
        label: Some(1),
        summary: String::new(),
        repository,
        license: String::new(),
        negatives: Vec::new(),
    };
    let sides = |rows: Vec<Row>, field: fn(&Row) -> &str| {
        let (learned, held_out) = split(rows, 0.2);
        let fields = |rows: &[Row]| {
            rows.iter().map(|row| field(row).to_owned()).collect::<std::collections::HashSet<_>>()
        };
        let (learned, held_out) = (fields(&learned), fields(&held_out));
        assert!(!learned.is_empty() && !held_out.is_empty() && learned.is_disjoint(&held_out));
        held_out.len()
    };
    let many = (0..300).map(|n| row(n, format!("owner/{}", n % 60))).collect();
    assert!((3..30).contains(&sides(many, |row| &row.repository)));
    for repository in ["owner/one", "owner/two", ""] {
        let one = (0..300).map(|n| row(n, repository.to_owned())).collect();
        assert!((30..90).contains(&sides(one, |row| &row.query)));
    }
    assert_eq!(split((0..9).map(|n| row(n, "owner/one".into())).collect(), 0.0).1, []);
}

#[test]
fn a_classifier_skips_rows_with_special_tokens() {
    for (name, ends, other) in
        [("tiny-bert", ["[SEP]", "[CLS]"], "</s>"), ("tiny-roberta", ["</s>", "<s>"], "[SEP]")]
    {
        let mut rows = rows();
        rows[0].code.push_str(ends[0]);
        rows[1].query.push_str(ends[1]);
        rows[2].code.push_str(other);
        let settings = Settings {
            objective: Objective::CrossEntropy,
            select: Select::Accuracy,
            epochs: 1,
            ..settings()
        };
        let (_kept, out) = out();
        let mut skipped = None;
        let report = |progress| {
            if let Progress::Ready { n_special, .. } = progress {
                skipped = Some(n_special);
            }
        };
        run_with(rows, &[], None, &base(name, ""), &settings, &out, report).unwrap();
        assert_eq!(skipped, Some(2), "{name}");
    }
}

#[test]
fn a_model_of_late_interaction_learns_and_is_measured_outside_of_training_as_within() {
    for name in ["tiny-late-bert", "tiny-late-residual"] {
        let (_kept, out) = out();
        let settings = Settings { scale: 1.0, epochs: 3, rate: 1e-3, dropout: 0.0, ..settings() };
        if name == "tiny-late-residual" {
            let error = Trainable::read(&base(name, "")).err().unwrap().to_string();
            assert!(error.contains("one Dense module without bias"), "{error}");
            continue;
        }
        let outcome = run(&base(name, ""), &settings, &out, |_| {}).unwrap();
        let losses: Vec<f32> = outcome.evaluations.iter().map(|evaluation| evaluation.loss).collect();
        assert!(losses[2] < losses[0], "{losses:?}");
        // The written model ranks the held-out codes as training did.
        let model = LateInteraction::load(&out).unwrap();
        let (_, held_out) = split(rows(), settings.held_out);
        let codes: Vec<&str> = held_out.iter().map(|row| row.code.as_str()).collect();
        let documents = model.document_tokens(&codes).unwrap();
        let reciprocal = |(at, row): (usize, &Row)| {
            let query = model.query_tokens(&row.query).unwrap();
            let scores: Vec<f32> = documents.iter().map(|document| max_sim(&query, document)).collect();
            1.0 / scores.iter().filter(|score| **score >= scores[at]).count() as f64
        };
        let found: Vec<f64> =
            held_out.iter().enumerate().filter(|(_, row)| row.answers()).map(reciprocal).collect();
        let mrr = found.iter().sum::<f64>() / found.len() as f64;
        let measured = outcome.kept.unwrap().value.unwrap();
        assert!((mrr - measured).abs() < 1e-6, "{mrr} {measured}");
        let wrong = Settings { objective: Objective::Margin, ..settings };
        let (_kept, out) = self::out();
        let error = run(&base(name, ""), &wrong, &out, |_| {}).unwrap_err().to_string();
        assert!(error.contains("a vector for each token is trained with"), "{error}");
    }
}
