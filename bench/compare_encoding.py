#!/usr/bin/env python3
"""Times the embedding of texts by a transformer beside PyTorch and ONNX Runtime, in one run on the same threads.

    pip install sentence-transformers==6.2.0 onnx==1.23.2 onnxruntime==1.32.0 onnxscript
    cargo bench --workspace --bench encode --no-run      # names the program ENCODE_BENCH
    python3 bench/compare_encoding.py ENCODE_BENCH MODEL [BEIR_DIRECTORY] [--rounded DIR] [--threads 2] [--rounds 3]

32 texts of 64, 128 and 256 tokens each, and the corpus of a BEIR directory, sorted by length as sentence-transformers
does itself; --texts N takes N of its documents, evenly spaced. PyTorch runs sentence-transformers. ONNX Runtime runs the
same model, exported here, with the tokenizer and the mean of its library; in 8 bits as its `quantize_dynamic` makes it.
--rounded names the same model by `quarry model convert --bits 8`. All take turns; medians. The vectors of the first text must agree.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

arguments = argparse.ArgumentParser()
arguments.add_argument("program")
arguments.add_argument("model")
arguments.add_argument("directory", nargs="?", type=Path)
arguments.add_argument("--rounded", help="the model in 8 bits, as quarry has it")
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--rounds", type=int, default=3)
arguments.add_argument("--texts", type=int, default=500)
args = arguments.parse_args()
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[variable] = str(args.threads)

import numpy as np  # noqa: E402  after the number of threads
import torch  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402

torch.set_num_threads(args.threads)
model = SentenceTransformer(args.model, device="cpu")
words = [word for word in model.tokenizer.get_vocab() if word.isalpha() and word.isascii()]


def of_length(n_tokens):
    """32 texts of that many tokens, including the two special ones."""
    rng = random.Random(n_tokens)
    texts = [" ".join(rng.choices(words, k=n_tokens - 2)) for _ in range(32)]
    assert {len(ids) for ids in model.tokenizer(texts)["input_ids"]} == {n_tokens}
    return texts


def of_corpus():
    lines = [json.loads(line) for line in (args.directory / "corpus.jsonl").open(encoding="utf-8")]
    texts = sorted((line["text"] for line in lines), key=len)
    return texts[:: max(1, len(texts) // args.texts)][: args.texts]


def n_tokens(texts):
    longest = model.max_seq_length
    return sum(len(ids) for ids in model.tokenizer(texts, truncation=True, max_length=longest)["input_ids"])


class States(torch.nn.Module):
    """The vectors of all tokens, of two inputs by position, as the exporter wants them."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, input_ids, attention_mask):
        return self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def onnx_session(directory, rounded):
    """The model exported to ONNX, on the threads of this run."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = directory / "model.onnx"
    if not path.exists():
        inputs = dict(model.tokenizer(["a text of some words", "another one"], padding=True, return_tensors="pt"))
        names = ["input_ids", "attention_mask"]
        size = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
        torch.onnx.export(
            States(model[0].auto_model.eval()),
            tuple(inputs[name] for name in names),
            str(path),
            input_names=names,
            output_names=["states"],
            dynamic_shapes=(size, size),
            dynamo=True,
        )
    if rounded:
        quantize_dynamic(path, directory / "int8.onnx", per_channel=True, weight_type=QuantType.QInt8)
        path = directory / "int8.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def onnx_encode(session, texts):
    vectors = []
    for start in range(0, len(texts), 32):
        inputs = model.tokenizer(
            texts[start : start + 32], padding=True, truncation=True, max_length=model.max_seq_length, return_tensors="np"
        )
        wanted = {one.name: inputs[one.name] for one in session.get_inputs()}
        states, mask = session.run(["states"], wanted)[0], inputs["attention_mask"][..., None]
        means = (states * mask).sum(1) / mask.sum(1)
        vectors.append(means / np.linalg.norm(means, axis=1, keepdims=True))
    return np.concatenate(vectors)


def seconds_of(encode, texts, repeats):
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        vectors = encode(texts)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]), vectors[0]


def quarry(path):
    def seconds(file, _, repeats):
        command = [args.program, path, file, str(repeats)]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return ours["seconds"], ours["first"]

    return seconds


def peer(encode):
    return lambda _, texts, repeats: seconds_of(encode, texts, repeats)


cases = {f"32 texts of {length} tokens": (of_length(length), 10) for length in (64, 128, 256)}
if args.directory:
    texts = of_corpus()
    cases[f"{len(texts)} documents, sorted by length"] = (texts, 1)
scratch = Path(tempfile.mkdtemp())
whole, rounded = (onnx_session(scratch, in_8_bits) for in_8_bits in (False, True))
sides = {
    "quarry": quarry(args.model),
    "PyTorch": peer(lambda texts: model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)),
    "ONNX Runtime": peer(lambda texts: onnx_encode(whole, texts)),
    "ONNX Runtime, 8 bits": peer(lambda texts: onnx_encode(rounded, texts)),
}
if args.rounded:
    sides["quarry, 8 bits"] = quarry(args.rounded)
print("| texts | tokens | " + " | ".join(f"{side}, tokens/s" for side in sides) + " |")
print("|---" * (2 + len(sides)) + "|")
for name, (texts, repeats) in cases.items():
    times = {side: [] for side in sides}
    firsts = {}
    file = scratch / "texts.json"
    file.write_text(json.dumps(texts), encoding="utf-8")
    for _ in range(args.rounds):
        for side, seconds in sides.items():
            taken, firsts[side] = seconds(str(file), texts, repeats)
            times[side].append(taken)
    for side, first in firsts.items():
        least = 0.95 if "8 bits" in side else 0.99999
        assert float(np.dot(first, firsts["PyTorch"])) > least, f"{side}: another vector"
    tokens = n_tokens(texts)
    rates = " | ".join(f"{tokens / statistics.median(times[side]):.0f}" for side in sides)
    print(f"| {name} | {tokens} | {rates} |", flush=True)
shutil.rmtree(scratch)
