"""Makes tiny-jina-v3 in fixtures/, with random weights, and what transformers computes for it.

The file of weights has the names and the adapters of jina-embeddings-v3 as published with its own code. That code is not at
hand, so the adapters of a task are added to the weights here (Hu et al., 2022, with the factor of config.json), and
JinaEmbeddingsV3Model of transformers 5.23 (torch 2.15) computes the hidden states. `python make_tiny_jina_v3.py`.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import JinaEmbeddingsV3Config, JinaEmbeddingsV3Model

DIRECTORY = Path(__file__).parent / "fixtures"
TEXTS = [
    "sort a list by value",
    "def sort(values):\n    return sorted(values)",
    "",
    "é à ü 日本 ﬁ \U0001f600",
    "</s> in the text",
    # Longer than the limit, and than the block of rows in which attention is computed.
    "read the list of files and sort it " * 50,
]
TASKS = ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"]
PROMPTS = {"retrieval.query": "read the query: ", "retrieval.passage": "sort the list: "}
HIDDEN, HEADS, LAYERS, INNER, RANK, ALPHA = 16, 4, 2, 24, 2, 3
MAX_TOKENS = 300


def noise(*shape, scale=0.4):
    return torch.randn(*shape) * scale


def make_tokenizer():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXTS[:5] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def make_tensors(n_tokens):
    """The file's tensors, and for each task those of the model with its adapters added."""
    file, tasks = {}, [{} for _ in TASKS]

    def plain(name, values):
        file[name] = values
        for task in tasks:
            task[name] = values

    def adapted(name, rows, columns, is_embedding=False):
        weight = noise(rows, columns)
        if is_embedding:
            first, second = noise(len(TASKS), rows, RANK), noise(len(TASKS), RANK, columns)
            changes = first @ second
        else:
            first, second = noise(len(TASKS), RANK, columns), noise(len(TASKS), rows, RANK)
            changes = second @ first
        file[f"{name}.parametrizations.weight.original"] = weight
        file[f"{name}.parametrizations.weight.0.lora_A"] = first
        file[f"{name}.parametrizations.weight.0.lora_B"] = second
        for task, change in zip(tasks, changes):
            task[f"{name}.weight"] = weight + change * (ALPHA / RANK)

    def norm(name):
        plain(f"{name}.weight", 1 + noise(HIDDEN))
        plain(f"{name}.bias", noise(HIDDEN))

    adapted("roberta.embeddings.word_embeddings", n_tokens, HIDDEN, is_embedding=True)
    adapted("roberta.embeddings.token_type_embeddings", 1, HIDDEN, is_embedding=True)
    norm("roberta.emb_ln")
    for index in range(LAYERS):
        at = f"roberta.encoder.layers.{index}."
        for name, rows, columns in [
            ("mixer.Wqkv", 3 * HIDDEN, HIDDEN), ("mixer.out_proj", HIDDEN, HIDDEN),
            ("mlp.fc1", INNER, HIDDEN), ("mlp.fc2", HIDDEN, INNER),
        ]:
            adapted(at + name, rows, columns)
            plain(f"{at}{name}.bias", noise(rows))
        norm(at + "norm1")
        norm(at + "norm2")
    adapted("roberta.pooler.dense", HIDDEN, HIDDEN)
    plain("roberta.pooler.dense.bias", noise(HIDDEN))
    return file, tasks


def library_names(tensors):
    renamed = {}
    for name, values in tensors.items():
        name = name.removeprefix("roberta.")
        for old, new in [
            ("emb_ln", "embeddings.LayerNorm"), ("encoder.layers", "layers"), ("mixer.out_proj", "self_attn.o_proj"),
            ("norm1", "post_attention_layernorm"), ("norm2", "post_mlp_layernorm"),
        ]:
            name = name.replace(old, new)
        if "mixer.Wqkv" in name:
            for part, rows in zip("qkv", values.chunk(3)):
                renamed[name.replace("mixer.Wqkv", f"self_attn.{part}_proj")] = rows
        else:
            renamed[name] = values
    return renamed


def write(directory, file, content):
    (directory / file).parent.mkdir(exist_ok=True)
    (directory / file).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def main():
    torch.manual_seed(5)
    torch.set_grad_enabled(False)
    tokenizer = make_tokenizer()
    n_tokens = tokenizer.get_vocab_size()
    file, tasks = make_tensors(n_tokens)
    directory = DIRECTORY / "tiny-jina-v3"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    save_file({name: values.contiguous() for name, values in file.items()}, directory / "model.safetensors")
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    write(directory, "tokenizer_config.json", {"model_max_length": MAX_TOKENS})
    write(directory, "config.json", {
        "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "position_embedding_type": "rotary",
        "rotary_emb_base": 20000.0, "vocab_size": n_tokens, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS, "intermediate_size": INNER, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
        "max_position_embeddings": 400, "type_vocab_size": 1, "pad_token_id": 1, "lora_adaptations": TASKS,
        "lora_alpha": ALPHA, "lora_rank": RANK, "load_trained_adapters": True, "task_instructions": PROMPTS,
    })
    write(directory, "modules.json", [
        {"idx": 0, "name": "transformer", "path": "", "type": "custom_st.Transformer"},
        {"idx": 1, "name": "pooler", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "normalizer", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ])
    write(directory, "1_Pooling/config.json", {
        "word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False,
    })
    config = JinaEmbeddingsV3Config(
        vocab_size=n_tokens, hidden_size=HIDDEN, num_attention_heads=HEADS, num_hidden_layers=LAYERS,
        intermediate_size=INNER, max_position_embeddings=400,
        rope_parameters={"rope_type": "default", "rope_theta": 20000.0},
    )
    tokenizer.enable_truncation(MAX_TOKENS)
    expected = {"texts": TEXTS}
    for task, tensors in zip(TASKS, tasks):
        model = JinaEmbeddingsV3Model(config).eval()
        model.load_state_dict(library_names(tensors), strict=True)
        rows = []
        for text in TEXTS:
            ids = torch.tensor([tokenizer.encode(PROMPTS.get(task, "") + text).ids])
            mean = model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].mean(0)
            rows.append([round(float(value), 6) for value in mean])
        expected[task] = rows
    (DIRECTORY / "expected-jina-v3.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
