"""Makes the tiny models with random weights in fixtures/ of newer architectures, and what the original library computes.

Hidden states and logits come from the PyTorch models of transformers 5.23 (torch 2.15), except for JinaBERT, which the
library does not have: its forward pass is written here, as the model is published. Pooling and what follows it is computed
here, by the formulas of sentence-transformers. Run as `python make_tiny_modern_encoders.py`.
"""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig, BertForSequenceClassification, Gemma3TextConfig, Gemma3TextModel, ModernBertConfig,
    ModernBertForSequenceClassification, ModernBertModel, NomicBertConfig, NomicBertModel, Qwen3Config, Qwen3Model,
    RobertaConfig, RobertaForSequenceClassification,
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
    "[SEP] and </s> in the text",
    "one",
    # Longer than each limit, and than the block of rows in which attention is computed.
    " ".join(["read the list of files and sort it"] * 50),
]
PAIRS = [
    ("sort a list", "def sort(values):\n    return sorted(values)"),
    ("", "read every line"),
    ("open the file", ""),
    ("", ""),
    ("é 日本 ﬁ", "\U0001f600 e\u0301"),
    ("read " * 20, "the list of files " * 100),
    ("the list of files " * 100, "one"),
    ("the list of files " * 100, "sort it " * 100),
]
MAX_TOKENS = 300
MAX_PAIR_TOKENS = 40
SIZES = dict(hidden_size=16, num_attention_heads=4, num_hidden_layers=3, intermediate_size=24)
POOLINGS = ["cls", "lasttoken", "max", "mean"]


def word_piece():
    words = "sort a list by value open the file read every line def return find one of and it in text i n s d".split()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, "##s", "##ed", "##e", "u", "##n", "日", "本"]
    tokens += list("()[],:!_=.")
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return with_template(tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")


def byte_pairs(special, single, pair=None):
    """Byte pairs of all bytes, with the special tokens first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + 280, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return with_template(tokenizer, single, pair)


def sentence_pieces(special, single):
    """Byte pairs of characters, others as bytes, with ▁ for spaces, as Gemma has them."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + 256 + 60, special_tokens=special + bytes_, show_progress=False, limit_alphabet=30,
    )
    tokenizer.train_from_iterator(TEXTS[:3] * 3, trainer)
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = [token for token in made["added_tokens"] if token["content"] in special]
    return with_template(Tokenizer.from_str(json.dumps(made)), single)


def with_template(tokenizer, single, pair=None):
    names = {part for part in f"{single} {pair or ''}".replace(":1", "").split() if not part.startswith("$")}
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair or single + " $B",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in sorted(names)],
    )
    return tokenizer


def build(kind, config):
    """A model with random weights that are large enough to matter."""
    torch.manual_seed(11)
    model = kind._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, values in model.named_parameters():
            values.normal_(0, 0.4)
            if values.dim() == 1 and name.endswith("weight") and not isinstance(config, Gemma3TextConfig):
                values += 1
    return model


def save(name, model, tokenizer, max_tokens=MAX_TOKENS):
    directory = DIRECTORY / name
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    write(directory, "tokenizer_config.json", {"model_max_length": max_tokens})
    return directory


def write(directory, file, content):
    (directory / file).parent.mkdir(exist_ok=True)
    (directory / file).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def modules(directory, names, pooling, prompts=None):
    write(directory, "modules.json", [
        {"idx": index, "name": str(index), "path": f"{index}_{name}" if index else "",
         "type": f"sentence_transformers.models.{name}"}
        for index, name in enumerate(["Transformer", *names])
    ])
    write(directory, "1_Pooling/config.json", {"word_embedding_dimension": SIZES["hidden_size"]} | pooling)
    if prompts:
        write(directory, "config_sentence_transformers.json", {"prompts": prompts, "similarity_fn_name": "cosine"})


def padded(encodings, pad):
    width = max(len(found.ids) for found in encodings)
    ids = torch.tensor([found.ids + [pad] * (width - len(found.ids)) for found in encodings])
    mask = torch.tensor([[1] * len(found.ids) + [0] * (width - len(found.ids)) for found in encodings])
    return ids, mask


def hidden_states(model, tokenizer, texts):
    """The vectors of each text's tokens, alone and within a padded batch, which must agree."""
    tokenizer.enable_truncation(MAX_TOKENS)
    encodings = [tokenizer.encode(text) for text in texts]
    tokenizer.no_truncation()
    with torch.no_grad():
        states = [model(torch.tensor([found.ids])).last_hidden_state[0] for found in encodings]
        ids, mask = padded(encodings, model.config.pad_token_id)
        batch = model(ids, attention_mask=mask).last_hidden_state
    for alone, together in zip(states, batch):
        assert (alone - together[: len(alone)]).abs().max() < 1e-4
    return states, [found.ids for found in encodings]


def pooled(states, pooling):
    function = {
        "cls": lambda state: state[0], "lasttoken": lambda state: state[-1], "max": lambda state: state.amax(0),
        "mean": lambda state: state.mean(0),
    }[pooling]
    return torch.stack([function(state) for state in states])


def normalized(rows):
    return torch.nn.functional.normalize(rows)


def rounded(rows):
    return [[round(value, 6) for value in row] for row in rows.tolist()]


def logits(model, tokenizer, pairs):
    """The scores of pairs, of which the longer text is cut."""
    tokenizer.enable_truncation(MAX_PAIR_TOKENS)
    encodings = [tokenizer.encode(*pair) for pair in pairs]
    tokenizer.no_truncation()
    typed = getattr(model.config, "type_vocab_size", 0) > 1
    with torch.no_grad():
        scores = [
            model(torch.tensor([found.ids]), **({"token_type_ids": torch.tensor([found.type_ids])} if typed else {}))
            .logits[0].tolist()
            for found in encodings
        ]
    return [[round(x, 6) for x in row] for row in scores]


SPECIAL = ["<|pad|>", "<|end|>"]
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def modern_bert(tokenizer, **changes):
    return ModernBertConfig(
        **SIZES, vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=MAX_TOKENS, local_attention=10,
        pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, **changes,
    )


def make_modern_bert():
    tokenizer = byte_pairs(BERT_SPECIAL, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]")
    model = build(ModernBertModel, modern_bert(tokenizer))
    directory = save("tiny-modernbert", model, tokenizer)
    modules(directory, ["Pooling"], {"pooling_mode_mean_tokens": True})
    return model, tokenizer, {}


def make_nomic_bert():
    tokenizer = word_piece()
    model = build(NomicBertModel, NomicBertConfig(
        **SIZES, vocab_size=tokenizer.get_vocab_size() + 3, max_position_embeddings=MAX_TOKENS,
    ))
    directory = save("tiny-nomic-bert", model, tokenizer)
    # As the model's own code writes its configuration.
    write(directory, "config.json", {
        "activation_function": "swiglu", "architectures": ["NomicBertModel"], "causal": False,
        "layer_norm_epsilon": 1e-12, "max_trained_positions": 2048, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
        "model_type": "nomic_bert", "n_embd": 16, "n_head": 4, "n_inner": 24, "n_layer": 3, "n_positions": MAX_TOKENS,
        "parallel_block": False, "prenorm": False, "qkv_proj_bias": False, "rotary_emb_base": 1000,
        "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
        "rotary_scaling_factor": None, "type_vocab_size": 2, "use_rms_norm": False,
        "vocab_size": model.config.vocab_size,
    })
    modules(directory, ["Pooling"], {"pooling_mode_cls_token": True}, {"query": "find: "})
    return model, tokenizer, {"query": "find: "}


def make_qwen3():
    tokenizer = byte_pairs(SPECIAL, "$A <|end|>")
    model = build(Qwen3Model, Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=6, vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=MAX_TOKENS, pad_token_id=0, eos_token_id=1, rope_parameters={
            "rope_type": "default", "rope_theta": 1000000.0},
    ))
    directory = save("tiny-qwen3", model, tokenizer)
    prompts = {"query": "Instruct: find\nQuery:", "document": ""}
    modules(directory, ["Pooling", "Normalize"], {"pooling_mode_lasttoken": True, "include_prompt": True}, prompts)
    return model, tokenizer, prompts


def make_gemma3():
    tokenizer = sentence_pieces(["<pad>", "<eos>", "<bos>", "<unk>"], "<bos> $A <eos>")
    model = build(Gemma3TextModel, Gemma3TextConfig(
        **SIZES, num_key_value_heads=1, head_dim=6, query_pre_attn_scalar=9, vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=MAX_TOKENS, sliding_window=10, use_bidirectional_attention=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ))
    directory = save("tiny-gemma3", model, tokenizer)
    prompts = {"query": "task: search result | query: ", "document": "title: none | text: "}
    modules(
        directory, ["Pooling", "Dense", "Dense", "Normalize"], {"pooling_mode_mean_tokens": True}, prompts,
    )
    dense = [torch.randn(20, 16) * 0.4, torch.randn(16, 20) * 0.4]
    for index, weight in enumerate(dense, 2):
        write(directory, f"{index}_Dense/config.json", {
            "in_features": weight.shape[1], "out_features": weight.shape[0], "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity",
        })
        save_file({"linear.weight": weight}, directory / f"{index}_Dense/model.safetensors")
    return model, tokenizer, prompts, lambda rows: rows @ dense[0].T @ dense[1].T


class JinaBert(torch.nn.Module):
    """JinaBERT as published, of which that for code normalizes queries and keys, and adds its input twice."""

    def __init__(self, n_tokens, for_code):
        super().__init__()
        self.for_code, self.config = for_code, BertConfig(
            **SIZES, vocab_size=n_tokens, max_position_embeddings=MAX_TOKENS, pad_token_id=0,
            position_embedding_type="alibi", feed_forward_type="geglu", architectures=["JinaBertModel"],
        )
        random = torch.Generator().manual_seed(13)
        self.tensors, hidden, inner = {}, SIZES["hidden_size"], SIZES["intermediate_size"]

        def add(name, *shape, bias=True, shift=0.0):
            self.tensors[f"{name}.weight"] = torch.randn(shape, generator=random) * 0.4 + shift
            if bias:
                self.tensors[f"{name}.bias"] = torch.randn(shape[0], generator=random) * 0.4

        add("embeddings.word_embeddings", n_tokens, hidden, bias=False)
        add("embeddings.token_type_embeddings", 2, hidden, bias=False)
        add("embeddings.LayerNorm", hidden, shift=1.0)
        for index in range(SIZES["num_hidden_layers"]):
            at = f"encoder.layer.{index}."
            for name in ["self.query", "self.key", "self.value", "output.dense"]:
                add(f"{at}attention.{name}", hidden, hidden)
            norms = ["attention.self.layer_norm_q", "attention.self.layer_norm_k", "layer_norm_1", "layer_norm_2"]
            for name in ["attention.output.LayerNorm", *(norms if for_code else ["mlp.layernorm"])]:
                add(at + name, hidden, shift=1.0)
            add(at + ("mlp.up_gated_layer" if for_code else "mlp.gated_layers"), 2 * inner, hidden, bias=False)
            add(at + ("mlp.down_layer" if for_code else "mlp.wo"), hidden, inner)

    def save_pretrained(self, directory):
        directory.mkdir()
        save_file(self.tensors, directory / "model.safetensors", metadata={"format": "pt"})
        write(directory, "config.json", self.config.to_dict())

    def forward(self, ids, attention_mask=None):
        mask = torch.ones_like(ids) if attention_mask is None else attention_mask
        norm = lambda name, x: torch.nn.functional.layer_norm(
            x, x.shape[-1:], self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], self.config.layer_norm_eps)
        linear = lambda name, x: torch.nn.functional.linear(
            x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))
        heads = lambda x: x.unflatten(-1, (SIZES["num_attention_heads"], -1)).transpose(1, 2)
        slopes = torch.tensor([2 ** (-8 * head / SIZES["num_attention_heads"]) for head in range(1, 5)])
        positions = torch.arange(ids.shape[1])
        bias = -slopes[:, None, None] * (positions[None] - positions[:, None]).abs()
        bias = bias[None].masked_fill(mask[:, None, None] == 0, float("-inf"))
        x = self.tensors["embeddings.word_embeddings.weight"][ids]
        x = norm("embeddings.LayerNorm", x + self.tensors["embeddings.token_type_embeddings.weight"][0])
        for index in range(SIZES["num_hidden_layers"]):
            at = f"encoder.layer.{index}."
            q, k, v = [linear(f"{at}attention.self.{name}", x) for name in ["query", "key", "value"]]
            if self.for_code:
                q, k = norm(f"{at}attention.self.layer_norm_q", q), norm(f"{at}attention.self.layer_norm_k", k)
            scores = heads(q) @ heads(k).transpose(2, 3) / heads(q).shape[-1] ** 0.5 + bias
            context = (scores.softmax(-1) @ heads(v)).transpose(1, 2).flatten(2)
            attended = norm(f"{at}attention.output.LayerNorm", x + linear(f"{at}attention.output.dense", context))
            if self.for_code:
                x = norm(f"{at}layer_norm_1", x + attended)
                plain, gated = linear(f"{at}mlp.up_gated_layer", x).chunk(2, -1)
                output = linear(f"{at}mlp.down_layer", plain * torch.nn.functional.gelu(gated))
                x = norm(f"{at}layer_norm_2", x + output)
            else:
                x = attended
                gated, plain = linear(f"{at}mlp.gated_layers", x).chunk(2, -1)
                x = norm(f"{at}mlp.layernorm", x + linear(f"{at}mlp.wo", plain * torch.nn.functional.gelu(gated)))
        return SimpleNamespace(last_hidden_state=x)


def make_jina(name, for_code):
    tokenizer = word_piece()
    model = JinaBert(tokenizer.get_vocab_size(), for_code)
    directory = save(name, model, tokenizer)
    modules(directory, ["Pooling"], {"pooling_mode_mean_tokens": True})
    return model, tokenizer, {}


def make_jina_bert():
    return make_jina("tiny-jina-bert", False)


def make_jina_code():
    return make_jina("tiny-jina-code", True)


def make_cross_encoders():
    bert = word_piece()
    roberta = byte_pairs(["<s>", "<pad>", "</s>"], "<s> $A </s>", "<s> $A </s> </s> $B </s>")
    modern = byte_pairs(BERT_SPECIAL, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]")
    positions = dict(max_position_embeddings=MAX_PAIR_TOKENS + 2, num_labels=1)
    small = SIZES | {"num_hidden_layers": 1}
    made = [
        ("tiny-cross-bert", bert, BertForSequenceClassification, BertConfig(
            **small, **positions, vocab_size=bert.get_vocab_size())),
        ("tiny-cross-roberta", roberta, RobertaForSequenceClassification, RobertaConfig(
            **small, **positions, vocab_size=roberta.get_vocab_size(), type_vocab_size=1)),
        ("tiny-cross-modernbert", modern, ModernBertForSequenceClassification, modern_bert(
            modern, num_labels=1, classifier_pooling="mean")),
    ]
    for name, tokenizer, kind, config in made:
        model = build(kind, config)
        save(name, model, tokenizer, MAX_PAIR_TOKENS)
        yield name, logits(model, tokenizer, PAIRS)


def main():
    expected = {"texts": TEXTS, "pairs": PAIRS}
    for make in [make_modern_bert, make_nomic_bert, make_qwen3, make_gemma3, make_jina_bert, make_jina_code]:
        model, tokenizer, prompts, *head = make()
        states, ids = hidden_states(model, tokenizer, TEXTS)
        cases = {"ids": ids} | {pooling: rounded(pooled(states, pooling)) for pooling in POOLINGS}
        pooling = {"make_qwen3": "lasttoken", "make_nomic_bert": "cls"}.get(make.__name__, "mean")
        for side in ["query", "document"]:
            prompted, _ = hidden_states(model, tokenizer, [prompts.get(side, "") + text for text in TEXTS])
            rows = pooled(prompted, pooling)
            cases[side] = rounded(normalized(head[0](rows) if head else rows))
        expected["tiny-" + make.__name__.removeprefix("make_").replace("modern_", "modern").replace("_", "-")] = cases
    expected |= dict(make_cross_encoders())
    (DIRECTORY / "expected-modern-encoders.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
