//! Files of a run's directory: written, resumed from, and left alone.

use super::*;

#[test]
fn a_run_that_was_killed_ends_with_the_same_weights() {
    for (objective, name) in [
        (Objective::InfoNce, "tiny-bert"),
        (Objective::CoclrPaper, "tiny-roberta"),
        (Objective::CrossEntropy, "tiny-bert"),
    ] {
        let select = if objective == Objective::CrossEntropy { Select::Accuracy } else { Select::Mrr };
        let rewrite = if objective == Objective::CoclrPaper { Rewrite::Switch } else { Rewrite::None };
        let average_decay = if objective == Objective::InfoNce { 0.5 } else { 0.0 };
        let settings =
            Settings { objective, select, rewrite, average_decay, accumulate: 2, batch: 4, ..settings() };
        let base = base(name, "");
        let (_kept, whole) = out();
        let uncut = run(&base, &settings, &whole, |_| {}).unwrap();
        for killed_after in [1, 3, 5] {
            let (_kept, cut) = out();
            let killed = catch_unwind(AssertUnwindSafe(|| {
                _ = run(&base, &settings, &cut, |progress| {
                    assert!(
                        !matches!(progress, Progress::Step { step, .. } if step == killed_after),
                        "killed"
                    );
                });
            }));
            assert!(killed.is_err());
            assert!(!cut.join("model.safetensors").exists());
            let mut done = None;
            let resumed = run(&base, &settings, &cut, |progress| {
                if let Progress::Ready { n_done, .. } = progress {
                    done = Some(n_done);
                }
            })
            .unwrap();
            assert!(done.is_some_and(|done| done < killed_after && done + 3 > killed_after), "{done:?}");
            assert_eq!(uncut, resumed);
            for file in ["model.safetensors", MATCHER_FILE] {
                let bytes = |directory: &Path| fs::read(directory.join(file)).ok();
                assert!(bytes(&whole) == bytes(&cut), "{objective:?}, killed after {killed_after}: {file}");
            }
        }
    }
}

#[test]
fn nothing_good_is_overwritten() {
    let (_kept, out) = out();
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("model.safetensors"), "good").unwrap();
    check_error(&settings(), &out, &["model.safetensors", "is a finished model"]);
    assert_eq!(fs::read(out.join("model.safetensors")).unwrap(), b"good");
}

#[test]
fn a_directory_with_files_of_others_is_refused() {
    let (_kept, out) = out();
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("config.json"), "mine").unwrap();
    check_error(&settings(), &out, &["contains config.json", "new or empty"]);
    assert_eq!(fs::read(out.join("config.json")).unwrap(), b"mine");
    // As does that of the model, whose weights may have another name.
    let copy = out.parent().unwrap().join("copy");
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(base("tiny-bert", "")).unwrap().map(Result::unwrap) {
        if entry.path().is_file() && entry.file_name() != "model.safetensors" {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    check_error(&settings(), &copy, &["contains ", "new or empty"]);
}

#[test]
fn partial_output_of_a_killed_run_is_removed() {
    let (_kept, out) = out();
    fs::create_dir_all(&out).unwrap();
    let partial = [".tmp7FjuAk", ".partial-x", "checkpoint.new"];
    partial.iter().for_each(|name| fs::write(out.join(name), "half").unwrap());
    run(&base("tiny-bert", ""), &settings(), &out, |_| {}).unwrap();
    assert!(partial.iter().all(|name| !out.join(name).exists()));
}

#[test]
fn two_runs_do_not_share_a_directory() {
    let (_kept, out) = out();
    let mut second = None;
    run(&base("tiny-bert", ""), &settings(), &out, |progress| {
        if matches!(progress, Progress::Ready { .. }) {
            second = run(&base("tiny-bert", ""), &settings(), &out, |_| {}).err();
        }
    })
    .unwrap();
    let error = second.unwrap().to_string();
    assert!(error.contains("in use by another run"), "{error}");
    assert!(!out.join("checkpoint.lock").exists());
}

#[test]
fn a_run_that_was_cut_off_before_it_removed_its_checkpoint_ends_with_the_same_weights() {
    let (_kept, out) = out();
    let mut kept = Vec::new();
    run(&base("tiny-bert", ""), &settings(), &out, |progress| {
        if matches!(progress, Progress::Evaluated(_)) {
            kept = fs::read(out.join("checkpoint.safetensors")).unwrap_or_default();
        }
    })
    .unwrap();
    let weights = fs::read(out.join("model.safetensors")).unwrap();
    fs::write(out.join("checkpoint.safetensors"), kept).unwrap();
    run(&base("tiny-bert", ""), &settings(), &out, |_| {}).unwrap();
    assert_eq!(fs::read(out.join("model.safetensors")).unwrap(), weights);
    assert!(!out.join("checkpoint.safetensors").exists());
}

#[test]
fn a_run_continues_with_the_same_teacher_only() {
    let (_kept, out) = out();
    let settings = Settings { objective: Objective::DistillScores, checkpoint_steps: 1, ..settings() };
    let path = base("tiny-bert", "");
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        run(&path, &settings, &out, |progress| {
            assert!(!matches!(progress, Progress::Step { step: 3, .. }), "cut off");
        })
    }));
    assert!(stopped.is_err() && out.join("checkpoint.safetensors").exists());
    let other = TransformerModel::load(&base("tiny-roberta", "")).unwrap();
    let error = run_with(rows(), &[], Some(Teacher::Encoder(&other)), &path, &settings, &out, |_| {});
    assert!(error.unwrap_err().to_string().contains("another model or teacher"));
    run(&path, &settings, &out, |_| {}).unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_written_or_used_is_an_error_that_says_so() {
    let (_kept, out) = out();
    fs::create_dir_all(out.join("checkpoint.new")).unwrap();
    check_error(&settings(), &out, &["checkpoint.new: cannot be written", "make space"]);
    fs::remove_dir(out.join("checkpoint.new")).unwrap();

    let path = out.join("checkpoint.safetensors");
    let killed = catch_unwind(AssertUnwindSafe(|| {
        _ = run(&base("tiny-bert", ""), &settings(), &out, |progress| {
            assert!(!matches!(progress, Progress::Step { step: 3, .. }), "killed");
        });
    }));
    assert!(killed.is_err() && path.exists());
    check_error(
        &Settings { seed: 2, ..settings() },
        &out,
        &["belongs to a run with another model or teacher, other settings"],
    );
    let bytes = fs::read(&path).unwrap();
    let mut damaged = bytes.clone();
    // The first value after the header of safetensors.
    let header = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    damaged[8 + header] ^= 1;
    fs::write(&path, damaged).unwrap();
    check_error(&settings(), &out, &["checkpoint.safetensors: ", "is damaged"]);
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    check_error(
        &settings(),
        &out,
        &["checkpoint.safetensors: is not a complete checkpoint", "move the directory away"],
    );
}

#[test]
fn a_prefix_that_a_model_was_trained_with_is_written_with_it() {
    let (_kept, out) = out();
    let copy = out.parent().unwrap().join("copy");
    fs::create_dir_all(&copy).unwrap();
    for name in ["config.json", "pytorch_model.bin", "tokenizer_config.json", "tokenizer.json"] {
        let bytes = fs::read(base("tiny-roberta", "").join(name)).unwrap();
        // A token of UniXcoder in the place of one that is not used.
        let bytes = match name {
            "tokenizer.json" => {
                String::from_utf8(bytes).unwrap().replace("<mask>", "<encoder-only>").into_bytes()
            }
            _ => bytes,
        };
        fs::write(copy.join(name), bytes).unwrap();
    }
    run(&with_options(&copy, ":unixcoder:cosine"), &settings(), &out, |_| {}).unwrap();
    let embed =
        |path: &Path| TransformerModel::load(path).unwrap().embed_queries(&["sort the list"]).unwrap();
    let plain = embed(&out);
    // Also where the user adds the option all the same.
    assert_eq!(plain, embed(&with_options(&out, ":unixcoder:cosine")));
    // And with the pooler and dot products, as Query4Code trains it.
    let pooled = out.parent().unwrap().join("pooled");
    run(&with_options(&copy, ":unixcoder:pooler:dot"), &settings(), &pooled, |_| {}).unwrap();
    assert_eq!(embed(&pooled), embed(&with_options(&pooled, ":unixcoder:pooler:dot")));
    let tokenizer =
        fs::read_to_string(out.join("tokenizer.json")).unwrap().replace("<encoder-only>", "<mask>");
    let other = out.parent().unwrap().join("other");
    fs::create_dir_all(other.join("1_Pooling")).unwrap();
    for name in ["config.json", "model.safetensors", "modules.json", "1_Pooling/config.json"] {
        fs::copy(out.join(name), other.join(name)).unwrap();
    }
    let original = fs::read_to_string(copy.join("tokenizer.json")).unwrap();
    assert_ne!(tokenizer, original);
    fs::write(other.join("tokenizer.json"), original).unwrap();
    assert_ne!(plain, embed(&with_options(&other, ":mean:cosine")));
    let limit = |path: &Path| {
        Trainable::read(path).unwrap().text_tokenizer(8).unwrap().ids("a b c d e f g h i").unwrap()
    };
    assert_eq!(limit(&out), limit(&with_options(&copy, ":unixcoder")));
}

#[test]
fn a_projection_is_trained_with_its_encoder() {
    for objective in [Objective::InfoNce, Objective::Siamese] {
        let (_kept, out) = out();
        let settings = Settings { objective, matryoshka: Vec::new(), ..settings() };
        let base = base("tiny-codet5p", "");
        run(&base, &settings, &out, |_| {}).unwrap();
        let projection = |path: &Path| {
            let tensors = Trainable::read(path).unwrap().tensors;
            tensors.into_iter().find(|tensor| tensor.name == "proj.weight").unwrap().values
        };
        assert_ne!(projection(&base), projection(&out));
        match objective {
            Objective::Siamese => assert_eq!(Matcher::load(&out).unwrap().dimension(), 6),
            _ => {
                let rows = TransformerModel::load(&out).unwrap().embed_queries(&["sort the list"]).unwrap();
                let length: f32 = rows.values.iter().map(|value| value * value).sum();
                assert!(rows.dimension == 6 && (length - 1.0).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn the_best_epoch_is_chosen_among_the_codes_of_a_corpus() {
    let corpus: Vec<String> = split(rows(), settings().held_out).0.into_iter().map(|row| row.code).collect();
    let measure = |select: Select, corpus: &[String]| {
        let (_kept, out) = out();
        let settings = Settings { select, epochs: 1, ..settings() };
        let mut n_codes = 0;
        let report = |progress| {
            if let Progress::Ready { n_codes: n, .. } = progress {
                n_codes = n;
            }
        };
        let outcome = run_with(rows(), corpus, None, &base("tiny-bert", ""), &settings, &out, report)?;
        let card = fs::read_to_string(out.join("README.md")).unwrap();
        assert!(card.contains(&format!("held-out pairs among {n_codes} codes")), "{card}");
        Ok::<_, TrainError>((outcome.kept.unwrap().value.unwrap(), n_codes))
    };
    for select in [Select::Mrr, Select::Ndcg] {
        let (own, among) = (measure(select, &[]).unwrap(), measure(select, &corpus).unwrap());
        assert!(own.0 > among.0 && own.1 < among.1, "{own:?} {among:?}");
    }
    let error = measure(Select::Last, &corpus).unwrap_err().to_string();
    assert!(error.contains("leave out --corpus"), "{error}");
}
