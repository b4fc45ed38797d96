//! Models of late interaction against what PyLate computes for those of `make_tiny_late_interaction.py`.

use quarry_embed::{Embedder, TokenEmbedder, max_sim};
use quarry_transformer::{LateInteraction, TransformerModel};
use serde_json::json;

use crate::copy::{Copy, expected, fixtures, rows, texts, with_options};

const ALL: [&str; 3] = ["tiny-late-modernbert", "tiny-late-bert", "tiny-late-residual"];

#[test]
fn vectors_and_scores_equal_those_of_pylate() {
    let expected = expected("expected-late-interaction.json");
    let texts = texts(&expected);
    for name in ALL {
        let path = fixtures().join(name);
        assert!(LateInteraction::is_at(&path), "{name}");
        let model = LateInteraction::load(&path).unwrap();
        let queries: Vec<_> = texts.iter().map(|text| model.query_tokens(text).unwrap()).collect();
        let documents = model.document_tokens(&texts).unwrap();
        for (side, found) in [("query", &queries), ("document", &documents)] {
            for (number, found) in found.iter().enumerate() {
                let expected = rows(&expected[name][side][number]);
                check_close(&found.values, &expected.concat(), &format!("{name} {side} {number}"));
            }
        }
        for (query, expected) in queries.iter().zip(rows(&expected[name]["scores"])) {
            let found: Vec<f32> = documents.iter().map(|document| max_sim(query, document)).collect();
            check_close(&found, &expected, name);
        }
    }
}

/// Every value within 1e-5, of its size where that is above 1.
fn check_close(found: &[f32], expected: &[f32], case: &str) {
    assert_eq!(found.len(), expected.len(), "{case}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 1e-5 * expected.abs().max(1.0),
            "{case}: {found}, expected {expected}"
        );
    }
}

#[test]
fn a_model_with_several_vectors_is_loaded_as_one_and_refuses_to_give_one() {
    let path = fixtures().join("tiny-late-bert");
    let model = quarry_transformer::load(&path).unwrap();
    assert!(model.token_embedder().is_some());
    let error = model.embed_documents(&["x"]).unwrap_err().to_string();
    assert!(error.contains("several vectors"), "{error}");
    let error = TransformerModel::load(&path).err().unwrap().to_string();
    assert!(error.contains("gives each token a vector"), "{error}");
    // The encoder in it can be used alone.
    let pooled = with_options(&path, ":mean");
    assert!(!LateInteraction::is_at(&pooled));
    assert_eq!(TransformerModel::load(&pooled).unwrap().embed_documents(&["x"]).unwrap().n_rows(), 1);
}

#[test]
fn settings_that_do_not_fit_the_tokenizer_are_errors() {
    let check_error = |copy: Copy, part: &str| {
        let error = LateInteraction::load(copy.root()).err().expect("an error").to_string();
        assert!(error.contains(part), "expected {part:?} in {error:?}");
    };
    let config = "config_sentence_transformers.json";
    let copy = || Copy::new("tiny-late-bert");
    check_error(copy().set(config, "query_prefix", json!("[unknown]")), "puts \"[unknown]\" before texts");
    check_error(copy().set(config, "query_length", json!("long")), "the settings of PyLate");
    check_error(copy().set(config, "document_length", json!(1)), "set a length of at least 8");
    let prompted = copy().set(config, "default_prompt_name", json!("query")).set(
        config,
        "prompts",
        json!({"query": "find: "}),
    );
    check_error(prompted, "remove default_prompt_name");
    check_error(copy().set("1_Dense/config.json", "in_features", json!(7)), "maps 7 columns");
}
