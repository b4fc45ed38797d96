#!/usr/bin/env python3
"""Times the embedding of texts by a transformer beside sentence-transformers on PyTorch, in one run on the same threads.

    pip install sentence-transformers==6.2.0
    cargo bench --workspace --bench encode --no-run      # names the program ENCODE_BENCH
    python3 bench/compare_encoding.py ENCODE_BENCH MODEL [BEIR_DIRECTORY] [--threads 2] [--rounds 3]

32 texts of 64, 128 and 256 tokens each, and the corpus of a BEIR directory, sorted by length as sentence-transformers
does itself; --texts N takes N of its documents, evenly spaced. The two take turns; medians. The vectors of the first
text must agree.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

arguments = argparse.ArgumentParser()
arguments.add_argument("program")
arguments.add_argument("model")
arguments.add_argument("directory", nargs="?", type=Path)
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


def torch_seconds(texts, repeats):
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        vectors = model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]), vectors[0]


cases = {f"32 texts of {length} tokens": (of_length(length), 10) for length in (64, 128, 256)}
if args.directory:
    texts = of_corpus()
    cases[f"{len(texts)} documents, sorted by length"] = (texts, 1)
print("| texts | tokens | quarry, tokens/s | PyTorch, tokens/s | quarry over PyTorch |\n|---|---|---|---|---|")
for name, (texts, repeats) in cases.items():
    times = {"quarry": [], "torch": []}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(texts, file)
        file.flush()
        for _ in range(args.rounds):
            command = [args.program, args.model, file.name, str(repeats)]
            ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            times["quarry"].append(ours["seconds"])
            seconds, first = torch_seconds(texts, repeats)
            times["torch"].append(seconds)
    assert np.allclose(ours["first"], first, atol=1e-5), "vectors differ"
    tokens = n_tokens(texts)
    quarry, torch_s = (statistics.median(times[side]) for side in ("quarry", "torch"))
    print(f"| {name} | {tokens} | {tokens / quarry:.0f} | {tokens / torch_s:.0f} | {torch_s / quarry:.2f} |", flush=True)
