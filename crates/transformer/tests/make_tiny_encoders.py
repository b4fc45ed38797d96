"""Makes the tiny models with random weights in fixtures/ other than BERT and RoBERTa, and what transformers computes.

Hidden states come from the TensorFlow models of transformers 4.46 (tensorflow-cpu 2.15, numpy 1.26), which read the
same files; pooling and what follows it is computed here, by the formulas of sentence-transformers. Run as
`TF_USE_LEGACY_KERAS=1 python make_tiny_encoders.py`.
"""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    MPNetConfig, T5Config, TFMPNetModel, TFT5EncoderModel, TFXLMRobertaModel, XLMRobertaConfig,
)

DIRECTORY = Path(__file__).parent / "fixtures"
TEXTS = [
    "sort a list by value",
    "Open the file, read every line!",
    "def sort(values):\n    return sorted(values)",
    "",
    "   \t\n",
    "é à ü 日本 ﬁ ½ \u200b e\u0301 \U0001f600",
    "unknowable zzz",
    "</s> and <pad> in the text",
    "one",
    # Longer than each limit, and than the distance from which on relative positions share a bucket.
    " ".join(["read the list of files and sort it"] * 40),
]
HIDDEN, HEADS, LAYERS, INNER = 16, 4, 2, 32
MAX_TOKENS = 180
random = np.random.default_rng(11)


def noise(*shape, scale=0.4):
    return (random.standard_normal(shape) * scale).astype(np.float32)


def linear(name, n_inputs, n_outputs):
    return {f"{name}.weight": noise(n_outputs, n_inputs), f"{name}.bias": noise(n_outputs)}


def norm(name, width=HIDDEN):
    return {f"{name}.weight": 1 + noise(width), f"{name}.bias": noise(width)}


def word_piece():
    words = "sort a list by value open the file read every line def return find one of and it in text i n s d".split()
    tokens = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", *words, "##s", "##ed", "##e", "u", "##n", "日", "本"]
    tokens += list("()[],:!_=.")
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<mask>"])
    return tokenizer


def unigram(special, before, after):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        TEXTS[:7] * 3, trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="<unk>")
    )
    single = [*before, "$A", *after]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=[*single, "$B"],
        special_tokens=[(token, special.index(token)) for token in {*before, *after}],
    )
    return tokenizer


def bert_layers(names):
    tensors = {}
    for index in range(LAYERS):
        at = f"encoder.layer.{index}."
        for name in names[:4]:
            tensors |= linear(at + name, HIDDEN, HIDDEN)
        tensors |= norm(at + names[4])
        tensors |= linear(at + "intermediate.dense", HIDDEN, INNER)
        tensors |= linear(at + "output.dense", INNER, HIDDEN) | norm(at + "output.LayerNorm")
    return tensors | linear("pooler.dense", HIDDEN, HIDDEN)


def bert_config(kind, tokenizer):
    return kind(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, intermediate_size=INNER, max_position_embeddings=190, layer_norm_eps=1e-5,
        type_vocab_size=1, pad_token_id=1,
    )


def make_mpnet():
    tokenizer = word_piece()
    config = bert_config(MPNetConfig, tokenizer)
    names = [f"attention.attn.{part}" for part in "qkvo"] + ["attention.LayerNorm"]
    tensors = {
        "embeddings.word_embeddings.weight": noise(config.vocab_size, HIDDEN),
        "embeddings.position_embeddings.weight": noise(config.max_position_embeddings, HIDDEN),
        "encoder.relative_attention_bias.weight": noise(32, HEADS, scale=2),
    } | norm("embeddings.LayerNorm") | bert_layers(names)
    return save("tiny-mpnet", config, tensors, tokenizer), TFMPNetModel


def make_xlm_roberta():
    tokenizer = unigram(["<s>", "<pad>", "</s>", "<unk>"], ["<s>"], ["</s>"])
    config = bert_config(XLMRobertaConfig, tokenizer)
    names = [f"attention.self.{part}" for part in ["query", "key", "value"]]
    names += ["attention.output.dense", "attention.output.LayerNorm"]
    tensors = {
        "embeddings.word_embeddings.weight": noise(config.vocab_size, HIDDEN),
        "embeddings.position_embeddings.weight": noise(config.max_position_embeddings, HIDDEN),
        "embeddings.token_type_embeddings.weight": noise(1, HIDDEN),
    } | norm("embeddings.LayerNorm") | bert_layers(names)
    return save("tiny-xlm-roberta", config, tensors, tokenizer), TFXLMRobertaModel


def make_t5(name, feed_forward, projection=None):
    tokenizer = unigram(["<pad>", "</s>", "<unk>"], [], ["</s>"])
    head_width = 6
    config = T5Config(
        vocab_size=tokenizer.get_vocab_size(), d_model=HIDDEN, d_kv=head_width, d_ff=INNER, num_layers=LAYERS,
        num_heads=HEADS, feed_forward_proj=feed_forward,
    )
    width = HEADS * head_width
    tensors = {
        "shared.weight": noise(config.vocab_size, HIDDEN),
        "encoder.final_layer_norm.weight": 1 + noise(HIDDEN),
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": noise(32, HEADS, scale=2),
    }
    for index in range(LAYERS):
        at = f"encoder.block.{index}.layer."
        for part in "qkv":
            tensors[f"{at}0.SelfAttention.{part}.weight"] = noise(width, HIDDEN)
        tensors[f"{at}0.SelfAttention.o.weight"] = noise(HIDDEN, width)
        for part in ["wi_0", "wi_1"] if feed_forward.startswith("gated") else ["wi"]:
            tensors[f"{at}1.DenseReluDense.{part}.weight"] = noise(INNER, HIDDEN)
        tensors[f"{at}1.DenseReluDense.wo.weight"] = noise(HIDDEN, INNER)
        for half in "01":
            tensors[f"{at}{half}.layer_norm.weight"] = 1 + noise(HIDDEN)
    changes = {}
    if projection:
        tensors |= linear("proj", HIDDEN, projection)
        changes = {"model_type": "codet5p_embedding", "embed_dim": projection}
    return save(name, config, tensors, tokenizer, changes), TFT5EncoderModel


def save(name, config, tensors, tokenizer, changes=None):
    """Saves a plain Hugging Face directory; returns it with the configuration that the library reads."""
    directory = DIRECTORY / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config.to_dict() | (changes or {}), indent=2) + "\n")
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    write(directory, "tokenizer_config.json", {"model_max_length": MAX_TOKENS})
    return directory, config, tensors, tokenizer


def write(directory, file, content):
    (directory / file).parent.mkdir(exist_ok=True)
    (directory / file).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def modules(directory, names):
    write(directory, "modules.json", [
        {"idx": index, "path": f"{index}_{name}" if index else "", "type": f"sentence_transformers.models.{name}"}
        for index, name in enumerate(["Transformer", *names])
    ])


def hidden_states(made, kind, texts):
    """The vectors of each text's tokens, alone and within a padded batch, which must agree."""
    directory, config, tensors, tokenizer = made
    with tempfile.TemporaryDirectory() as path:
        save_file(tensors, Path(path) / "model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(path)
        model = kind.from_pretrained(path)
    tokenizer.enable_truncation(MAX_TOKENS)
    ids = [tokenizer.encode(text).ids for text in texts]
    states = []
    for row in ids:
        inputs = np.array([row or [config.pad_token_id]], dtype=np.int32)
        # Every token counts, also one that is spelled like padding.
        states.append(np.array(model(input_ids=inputs, attention_mask=np.ones_like(inputs)).last_hidden_state)[0][: len(row)])
    width = max(map(len, ids))
    padded = np.array([row + [config.pad_token_id] * (width - len(row)) for row in ids], dtype=np.int32)
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in ids], dtype=np.int32)
    batch = np.array(model(input_ids=padded, attention_mask=mask).last_hidden_state)
    for alone, together in zip(states, batch):
        assert np.abs(alone - together[: len(alone)]).max(initial=0) < 1e-4
    return states, ids


def pooled(states, pooling, skipped=0):
    rows = []
    for state in states:
        weights = np.arange(1, len(state) + 1)[skipped:, None]
        kept = state[skipped:]
        rows.append({
            "cls": lambda: state[0],
            "lasttoken": lambda: kept[-1],
            "max": lambda: kept.max(0),
            "mean": lambda: kept.mean(0),
            "mean_sqrt_len_tokens": lambda: kept.sum(0) / np.sqrt(len(kept)),
            "weightedmean": lambda: (kept * weights).sum(0) / weights.sum(),
        }[pooling]())
    return np.array(rows)


def normalized(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def rounded(rows):
    return [[round(float(value), 6) for value in row] for row in rows]


POOLINGS = ["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"]


def main():
    expected = {"texts": TEXTS}
    for make in [
        make_mpnet, make_xlm_roberta, lambda: make_t5("tiny-t5", "gated-gelu"),
        lambda: make_t5("tiny-codet5p", "relu", projection=6),
    ]:
        made, kind = make()
        directory, config, tensors, tokenizer = made
        states, ids = hidden_states(made, kind, TEXTS)
        cases = {"ids": ids} | {pooling: rounded(pooled(states, pooling)) for pooling in POOLINGS}
        if kind is TFMPNetModel:
            weight, bias = noise(8, HIDDEN), noise(8)
            modules(directory, ["Pooling", "Dense", "Normalize"])
            write(directory, "1_Pooling/config.json", {
                "word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False,
            })
            write(directory, "2_Dense/config.json", {
                "in_features": HIDDEN, "out_features": 8, "bias": True,
                "activation_function": "torch.nn.modules.activation.Tanh",
            })
            save_file(
                {"linear.weight": weight, "linear.bias": bias}, directory / "2_Dense/model.safetensors",
                metadata={"format": "pt"},
            )
            dense = normalized(np.tanh(pooled(states, "mean") @ weight.T + bias))
            cases |= {"directory": rounded(dense), "first 3": rounded(normalized(dense[:, :3]))}
        if kind is not TFT5EncoderModel:
            pooler = np.tanh(pooled(states, "cls") @ tensors["pooler.dense.weight"].T + tensors["pooler.dense.bias"])
            cases["pooler"] = rounded(pooler)
        if kind is TFXLMRobertaModel:
            prompts = {"query": "sort: ", "passage": "read the file: "}
            modules(directory, ["Pooling"])
            write(directory, "1_Pooling/config.json", {
                "word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True, "include_prompt": False,
            })
            write(directory, "config_sentence_transformers.json", {"prompts": prompts, "similarity_fn_name": "dot"})
            for name, prompt in prompts.items():
                skipped = len(tokenizer.encode(prompt).ids) - 1
                prompted, _ = hidden_states(made, kind, [prompt + text for text in TEXTS])
                cases[name] = rounded(pooled(prompted, "mean", skipped))
        if directory.name == "tiny-codet5p":
            projected = pooled(states, "cls") @ tensors["proj.weight"].T + tensors["proj.bias"]
            cases["directory"] = rounded(normalized(projected))
        expected[directory.name] = cases
    write(DIRECTORY, "expected-encoders.json", expected)
    path = DIRECTORY / "expected-encoders.json"
    path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
