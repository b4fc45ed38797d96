#!/usr/bin/env python3
"""Compares the ranking of a transformer with that of sentence-transformers, on a BEIR directory.

    pip install sentence-transformers==6.2.0 numpy==2.3.5
    python3 bench/check_transformer.py target/release/quarry MODEL BEIR_DIRECTORY SPLIT [--vectors DIR]

sentence-transformers embeds queries and documents; the vectors go to a directory as `vectors:DIR` takes them, and are
found there the next time. NumPy ranks by cosine, the larger id first if two are equal. The ten best documents of each
query by `--method MODEL` and by `--method vectors:DIR` must have the same ranks, except one in a hundred.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

arguments = argparse.ArgumentParser()
arguments.add_argument("quarry", type=Path)
arguments.add_argument("model", type=Path)
arguments.add_argument("directory", type=Path)
arguments.add_argument("split")
arguments.add_argument("--vectors", type=Path)
args = arguments.parse_args()
DEPTH = 10


def read(name):
    lines = [json.loads(line) for line in (args.directory / name).open(encoding="utf-8")]
    texts = [f"{line['title']} {line['text']}" if line.get("title") else line["text"] for line in lines]
    return [line["_id"] for line in lines], texts


def vectors(directory, side, ids, texts):
    """The vectors of one side, embedded if the directory does not hold them."""
    matrix = directory / f"{side}.npy"
    if not matrix.exists():
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(args.model), device="cpu")
        directory.mkdir(parents=True, exist_ok=True)
        np.save(matrix, model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False))
        (directory / f"{side}.txt").write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
    return np.load(matrix)


def run(method, path):
    """The run of a method, and its mean reciprocal rank."""
    command = [args.quarry, "eval", args.directory, "--split", args.split, "--json", "--method", method]
    output = subprocess.run([*command, "--run", path, "--depth", str(DEPTH)], check=True, capture_output=True, text=True)
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        query, _, document, *_ = line.split()
        found.setdefault(query, []).append(document)
    return found, json.loads(output.stdout)["metrics"]["mrr"]


with tempfile.TemporaryDirectory() as scratch:
    directory = args.vectors or Path(scratch) / "vectors"
    (queries, query_texts), (documents, document_texts) = read("queries.jsonl"), read("corpus.jsonl")
    of_queries = vectors(directory, "queries", queries, query_texts)
    of_documents = vectors(directory, "documents", documents, document_texts)
    by_id = np.argsort(np.array(documents))[::-1]
    cosines = of_queries @ of_documents[by_id].T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :DEPTH]
    expected = {query: [documents[by_id[position]] for position in row] for query, row in zip(queries, best)}
    failed = False
    for method in (str(args.model), f"vectors:{directory}"):
        found, mrr = run(method, Path(scratch) / "run")
        same = [a == b for query in found for a, b in zip(found[query], expected[query], strict=True)]
        print(f"{method}: mrr {mrr:.4f}, {np.mean(same):.4%} of {len(same)} ranks as in the reference")
        failed |= np.mean(same) < 0.99
    sys.exit(int(failed))
