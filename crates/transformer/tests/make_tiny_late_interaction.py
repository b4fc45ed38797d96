"""Makes the tiny models of late interaction with random weights in fixtures/, and what PyLate computes with them.

    pip install pylate==1.6.0
    python make_tiny_late_interaction.py
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from pylate import models, scores
from transformers import PreTrainedTokenizerFast

DIRECTORY = Path(__file__).parent / "fixtures"
TEXTS = [
    "sort a list by value",
    "Open the file, read every line!",
    "def sort(values):\n    return sorted(values)",
    "",
    "é 日本 ﬁ",
    "read the list of files and sort it, " * 10,
]
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
MODELS = {
    # The window of its layers is shorter than its queries: some mask tokens attend to nothing there.
    "tiny-late-modernbert": ("tiny-modernbert", {"query_length": 24, "document_length": 40}),
    "tiny-late-bert": (
        "tiny-bert",
        {"query_length": 12, "document_length": 30, "attend_to_expansion_tokens": True, "query_prefix": "[CLS]", "document_prefix": ""},
    ),
    "tiny-late-residual": ("tiny-bert", {"query_length": 16, "document_length": 30, "do_query_expansion": False, "skiplist_words": ["(", ")"]}),
}


def make(name, base, settings):
    torch.manual_seed(len(name))
    with tempfile.TemporaryDirectory() as directory:
        start = Path(directory) / "start"
        shutil.copytree(DIRECTORY / base, start)
        (start / "modules.json").unlink()
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(start / "tokenizer.json"), **SPECIAL)
        tokenizer.save_pretrained(start)
        model = models.ColBERT(str(start), embedding_size=8, device="cpu", **settings)
        if name.endswith("residual"):
            for n_inputs, n_outputs in [(8, 8), (8, 6)]:
                model.append(models.Dense(n_inputs, n_outputs, bias=True, use_residual=True))
        saved = DIRECTORY / name
        shutil.rmtree(saved, ignore_errors=True)
        model.save(str(saved), create_model_card=False)
        for file in saved.rglob("*"):
            if file.is_file() and file.name not in KEPT:
                file.unlink()
        model = models.ColBERT(str(saved), device="cpu")
    vectors = {side: model.encode(TEXTS, is_query=side == "query", batch_size=1, show_progress_bar=False) for side in ("query", "document")}
    found = [[scores.colbert_scores([query], [document]).item() for document in vectors["document"]] for query in vectors["query"]]
    return {"scores": found, **{side: [rounded(rows.tolist()) for rows in of_side] for side, of_side in vectors.items()}}


def rounded(rows):
    return [[round(value, 7) for value in row] for row in rows]


KEPT = {"config.json", "config_sentence_transformers.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json"}

expected = {"texts": TEXTS} | {name: make(name, *rest) for name, rest in MODELS.items()}
(DIRECTORY / "expected-late-interaction.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")
