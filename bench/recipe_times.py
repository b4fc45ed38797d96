"""Measures how long recipes take for 1,000 examples, each by one step of `quarry eval run --dry-run`.

    pip install numpy
    python bench/recipe_times.py target/release/quarry PAIRS

PAIRS is what `quarry data pairs` wrote. Models have arbitrary weights: BERT's architecture with CodeBERT's 12 layers of 768,
or that of all-MiniLM-L6-v2. Batches are of 8, so that a step ends soon; larger ones take about as long for an example. The
recipes of UniXcoder, CodeT5+ and RoBERTa, which are left out, have models of the same size as CodeBERT's.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent
N_EXAMPLES = 320
# The recipes, with the size of their models and the fields of their pairs.
RECIPES = {
    "cosqa-pretraining": ("base", "pairs"),
    "cosqa-search": ("base", "labeled"),
    "cosqa-search-coclr": ("base", "labeled"),
    "cosqa-search-coclr-paper": ("base", "labeled"),
    "cosqa-qa": ("base", "labeled"),
    "cosqa-qa-coclr": ("base", "labeled"),
    "cosqa-plus-v1-codebert": ("base", "pairs"),
    "cosqa-plus-v2-codebert": ("base", "pairs"),
    "gencodesearchnet-codebert": ("base", "pairs"),
    "query4code-pretraining": ("base", "pairs"),
    "query4code-finetuning": ("base", "labeled"),
    "query4code-summaries": ("base", "pairs"),
    "small-encoder": ("small", "pairs"),
    "query-encoder": ("small", "pairs"),
    "cross-encoder": ("small", "negatives"),
}
TEACHERS = {"small-encoder": "small", "query-encoder": "builtin"}


def write_model(directory, hidden, layers):
    """A BERT with arbitrary weights; returns its number of parameters."""
    known = ROOT / "crates/embed/models/best"
    shutil.copytree(known, directory, ignore=shutil.ignore_patterns("model.safetensors"))
    config = json.loads((known / "config.json").read_text())
    inner = 4 * hidden
    config |= {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers}
    (directory / "config.json").write_text(json.dumps(config))
    pooling = json.loads((known / "1_Pooling/config.json").read_text())
    (directory / "1_Pooling/config.json").write_text(json.dumps(pooling | {"word_embedding_dimension": hidden}))
    norm = {"LayerNorm.weight": [hidden], "LayerNorm.bias": [hidden]}
    shapes = {f"embeddings.{name}": shape for name, shape in norm.items()}
    rows = {"word": config["vocab_size"], "position": config["max_position_embeddings"], "token_type": 2}
    shapes |= {f"embeddings.{name}_embeddings.weight": [n, hidden] for name, n in rows.items()}
    dense = {f"attention.self.{name}": (hidden, hidden) for name in ("query", "key", "value")}
    dense |= {"attention.output.dense": (hidden, hidden), "intermediate.dense": (inner, hidden), "output.dense": (hidden, inner)}
    for layer in range(layers):
        for part in ("attention.output", "output"):
            shapes |= {f"encoder.layer.{layer}.{part}.{name}": shape for name, shape in norm.items()}
        for name, (outputs, inputs) in dense.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = [outputs, inputs]
            shapes[f"encoder.layer.{layer}.{name}.bias"] = [outputs]
    shapes |= {"pooler.dense.weight": [hidden, hidden], "pooler.dense.bias": [hidden]}
    draw, header, at = numpy.random.default_rng(1), {}, 0
    with tempfile.TemporaryFile() as data:
        for name, shape in shapes.items():
            is_scale = name.endswith("LayerNorm.weight")
            values = numpy.ones(shape) if is_scale else draw.normal(0, 0.02, shape)
            data.write(values.astype("<f4").tobytes())
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, data.tell()]}
            at = data.tell()
        head = json.dumps(header).encode()
        with open(directory / "model.safetensors", "wb") as file:
            file.write(len(head).to_bytes(8, "little") + head)
            data.seek(0)
            shutil.copyfileobj(data, file)
    return at // 4


def write_pairs(directory, path):
    """The pairs in the forms that the recipes need."""
    lines = (json.loads(line) for line in open(path, encoding="utf-8"))
    pairs = [(line["query"], line["code"]) for line in lines if line["query"] and line["code"]][:N_EXAMPLES]
    if len(pairs) < N_EXAMPLES:
        sys.exit(f"{path}: expected {N_EXAMPLES} pairs with a query, found {len(pairs)}")
    others = [code for _, code in pairs[1:] + pairs[:1]]
    forms = {
        "pairs": [{"query": q, "code": c, "summary": q} for q, c in pairs],
        "negatives": [{"query": q, "code": c, "negatives": [other]} for (q, c), other in zip(pairs, others)],
        "labeled": [
            {"query": q, "code": code, "label": label}
            for (q, c), other in zip(pairs, others)
            for code, label in ((c, 1), (other, 0))
        ],
    }
    for name, records in forms.items():
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def minutes(quarry, directory, recipe, model, form):
    """Of 1,000 examples, by the time of one step."""
    plan = directory / f"{recipe}.toml"
    teacher = f"teacher = '{TEACHERS[recipe]}'\n" if recipe in TEACHERS else ""
    plan.write_text(
        f"title = 'Times'\n[[training]]\nname = 'model'\nmodel = '{model}'\nrecipe = '{ROOT / 'recipes' / recipe}.toml'\n"
        f"set = {{ batch = 8, epochs = 1, held_out = 0.1 }}\npairs = '{form}.jsonl'\n{teacher}"
        "[[datasets]]\nname = 'pairs'\nprotocol = 'cosqa-search'\nmethods = ['model', 'bm25']\nbaseline = 'bm25'\n"
        f"files = {{ queries = '{form}.jsonl', codes = '{form}.jsonl' }}\n"
    )
    command = [quarry, "eval", "run", plan, "--data", directory, "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True)
    row = re.search(r"^model +(\d+) +(\d+) +([\d.]+) ", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not row:
        sys.exit(f"{recipe}: {done.stderr}")
    examples, steps, per_step = map(float, row.groups())
    return 1000 * steps * per_step / examples / 60


def main(quarry, pairs):
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        sizes = {"base": write_model(directory / "base", 768, 12), "small": write_model(directory / "small", 384, 6)}
        write_pairs(directory, pairs)
        print("| recipe | parameters, millions | minutes for 1,000 examples |\n|---|---|---|")
        for recipe, (model, form) in RECIPES.items():
            time = minutes(quarry, directory, recipe, model, form)
            print(f"| {recipe} | {sizes[model] / 1e6:.0f} | {time:.1f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
