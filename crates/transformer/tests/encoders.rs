//! Encoders other than BERT and RoBERTa, and all modules, against what transformers computes for the models of
//! `make_tiny_encoders.py`.

use crate::copy::{Copy, check_error, check_poolings, check_rows, check_tokens, expected, load, rows, texts};
use quarry_embed::Embedder;
use serde_json::{Value, json};

const EXPECTED: &str = "expected-encoders.json";

const ALL: [&str; 4] = ["tiny-mpnet", "tiny-xlm-roberta", "tiny-t5", "tiny-codet5p"];

#[test]
fn every_pooling_of_every_encoder_without_normalization() {
    let poolings = ["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"];
    for name in ALL {
        check_poolings(&Copy::new(name), name, &expected(EXPECTED), &poolings);
    }
}

#[test]
fn tokens_equal_those_of_the_library() {
    let expected = expected(EXPECTED);
    ALL.iter().for_each(|name| check_tokens(name, 180, &expected));
}

#[test]
fn dense_and_normalize_follow_the_pooling() {
    let expected = expected(EXPECTED);
    let texts = texts(&expected);
    let copy = Copy::new("tiny-mpnet");
    let model = load(copy.root(), "");
    assert_eq!(model.dimension(), 8);
    check_rows(&model.embed_documents(&texts).unwrap(), &rows(&expected["tiny-mpnet"]["directory"]), "dense");

    let model = load(copy.root(), ":3");
    assert_eq!(model.dimension(), 3);
    check_rows(&model.embed_documents(&texts).unwrap(), &rows(&expected["tiny-mpnet"]["first 3"]), "first 3");
}

#[test]
fn the_models_own_layers() {
    let expected = expected(EXPECTED);
    let texts = texts(&expected);
    let copy = Copy::new("tiny-codet5p");
    let projected = load(copy.root(), "").embed_documents(&texts).unwrap();
    check_rows(&projected, &rows(&expected["tiny-codet5p"]["directory"]), "projection");
    let copy = Copy::new("tiny-mpnet");
    let pooler = load(copy.root(), ":pooler:dot").embed_documents(&texts).unwrap();
    check_rows(&pooler, &rows(&expected["tiny-mpnet"]["pooler"]), "pooler");
}

#[test]
fn prompts_that_are_not_pooled_and_dot_products() {
    let expected = expected(EXPECTED);
    let texts = texts(&expected);
    let copy = Copy::new("tiny-xlm-roberta");
    let model = load(copy.root(), "");
    let expected = &expected["tiny-xlm-roberta"];
    check_rows(&model.embed_queries(&texts).unwrap(), &rows(&expected["query"]), "query");
    check_rows(&model.embed_documents(&texts).unwrap(), &rows(&expected["passage"]), "passage");
    let cosine = load(copy.root(), ":cosine").embed_queries(&texts[..1]).unwrap();
    let length: f32 = cosine.values.iter().map(|value| value * value).sum();
    assert!((length - 1.0).abs() < 1e-5);
    assert_ne!(model.id(), load(copy.root(), ":cosine").id());
}

#[test]
fn unixcoder_has_a_prefix_and_lists_of_tokens() {
    // The vocabulary of tiny-roberta as lists, with the prefix in place of a token that no text has.
    let roberta = || Copy::new("tiny-roberta").remove("config_sentence_transformers.json");
    let copy = roberta();
    let json = copy.json("tokenizer.json");
    let lists = |copy: Copy, vocabulary: &Value| {
        let merges = json["model"]["merges"].as_array().unwrap().iter().map(|merge| match merge {
            Value::String(merge) => merge.clone(),
            pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        });
        let merges = merges.collect::<Vec<_>>().join("\n");
        copy.remove("tokenizer.json").write("vocab.json", vocabulary.to_string()).write("merges.txt", merges)
    };
    let texts = ["sort a list", "", "def f():\n  return(<mask>)"];
    let from_json = load(copy.root(), ":mean").embed_documents(&texts).unwrap();
    let mut vocabulary = json["model"]["vocab"].clone();
    let copy = lists(copy, &vocabulary);
    check_rows(
        &load(copy.root(), ":mean").embed_documents(&texts).unwrap(),
        &from_json.values.chunks(16).map(<[f32]>::to_vec).collect::<Vec<_>>(),
        "lists",
    );

    check_error(&copy, ":unixcoder", &["without the token <encoder-only>", "UniXcoder"]);
    let id = vocabulary.as_object_mut().unwrap().remove("<unk>").unwrap();
    vocabulary["<encoder-only>"] = id;
    let copy = lists(roberta(), &vocabulary);
    let prefixed = load(copy.root(), ":unixcoder").embed_documents(&["sort a list"]).unwrap();
    // The same tokens, spelled out.
    let tokenizer = lists(roberta(), &vocabulary);
    let mut spelled: Value = json.clone();
    spelled["model"]["vocab"] = vocabulary;
    spelled["added_tokens"].as_array_mut().unwrap().retain(|token| token["content"] != "<unk>");
    let mut added = spelled["added_tokens"][0].clone();
    added["content"] = json!("<encoder-only>");
    added["id"] = json!(3);
    spelled["added_tokens"].as_array_mut().unwrap().insert(3, added);
    let spelled = tokenizer.write("tokenizer.json", spelled.to_string());
    let model = load(spelled.root(), ":mean");
    let found = model.embed_documents(&["<encoder-only></s>sort a list"]).unwrap();
    check_rows(&prefixed, &[found.values], "prefix");
}

#[test]
fn inconsistent_files_are_reported() {
    let mpnet = || Copy::new("tiny-mpnet");
    check_error(&mpnet(), ":9", &["gives 8 columns, of which 9"]);
    check_error(&mpnet(), ":0", &["unknown option \"0\"", "pooler"]);
    check_error(&mpnet(), ":median", &["unknown option \"median\"", "expected a number of columns, cls"]);
    let dense = "MODEL/2_Dense/config.json: ";
    check_error(
        &mpnet().set("2_Dense/config.json", "in_features", json!(12)),
        "",
        &[dense, "maps 12 columns to 8, expected 16"],
    );
    check_error(
        &mpnet().set("2_Dense/config.json", "activation_function", json!("torch.nn.SiLU")),
        "",
        &[dense, "\"SiLU\"", "expected Identity"],
    );
    check_error(
        &mpnet().set("2_Dense/config.json", "out_features", json!(7)),
        "",
        &["MODEL/2_Dense/model.safetensors: ", "linear.weight", "[8, 16], expected [7, 16]"],
    );
    check_error(&mpnet().remove("2_Dense/model.safetensors"), "", &["MODEL/2_Dense: has neither"]);
    check_error(
        &mpnet().set("config.json", "relative_attention_num_buckets", json!(16)),
        "",
        &["model.safetensors: ", "relative_attention_bias", "[32, 4], expected [16, 4]"],
    );
    check_error(
        &mpnet().set("config.json", "relative_attention_num_buckets", json!(3)),
        "",
        &["config.json: ", "relative_attention_num_buckets"],
    );
    check_error(
        &Copy::new("tiny-t5").set("config.json", "d_kv", json!(4)),
        "",
        &["model.safetensors: ", "SelfAttention.q.weight", "[24, 16], expected [16, 16]"],
    );
    check_error(
        &Copy::new("tiny-t5").set("config.json", "feed_forward_proj", json!("gated-mish")),
        "",
        &["config.json: ", "\"mish\""],
    );
    check_error(&Copy::new("tiny-t5"), ":pooler", &["model.safetensors: ", "pooler.dense.weight"]);
    check_error(
        &Copy::new("tiny-xlm-roberta").set(
            "config_sentence_transformers.json",
            "similarity_fn_name",
            json!("euclidean"),
        ),
        "",
        &["config_sentence_transformers.json: ", "\"euclidean\"", "cosine or dot"],
    );
    for name in ALL {
        check_error(
            &Copy::new(name).cut("model.safetensors"),
            "",
            &["MODEL/model.safetensors: is not a complete"],
        );
        check_error(&Copy::new(name).cut("tokenizer.json"), "", &["MODEL/tokenizer.json: "]);
    }
}
