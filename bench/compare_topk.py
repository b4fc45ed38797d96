#!/usr/bin/env python3
"""Times the exact nearest vectors of many queries beside NumPy with its BLAS, in one run on the same threads.

    pip install numpy==2.3.5
    cargo bench -p quarry-transformer --bench nearest --no-run      # names the program NEAREST_BENCH
    python3 bench/compare_topk.py NEAREST_BENCH [--documents 1000000] [--queries 500] [--dimension 384] [--k 100]

NumPy multiplies the matrices, picks the best with argpartition and sorts them; both programs hold the vectors in
memory before. Medians of the repeats, which alternate; the documents found must be the same, unless products differ
by rounding.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

arguments = argparse.ArgumentParser()
arguments.add_argument("program")
arguments.add_argument("--documents", type=int, default=1_000_000)
arguments.add_argument("--queries", type=int, default=500)
arguments.add_argument("--dimension", type=int, default=384)
arguments.add_argument("--k", type=int, default=100)
arguments.add_argument("--repeats", type=int, default=3)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--directory", "--folder", type=Path)
args = arguments.parse_args()
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[variable] = str(args.threads)

import numpy as np  # noqa: E402  after the number of threads


def normalized(rng, rows):
    matrix = rng.standard_normal((rows, args.dimension), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix


def numpy_top_k(queries, documents):
    """Seconds of the product, seconds of the selection, and the indices, best first."""
    start = time.perf_counter()
    products = queries @ documents.T
    multiplied = time.perf_counter()
    best = np.argpartition(products, -args.k, axis=1)[:, -args.k :]
    order = np.argsort(-np.take_along_axis(products, best, axis=1), axis=1)
    positions = np.take_along_axis(best, order, axis=1)
    return multiplied - start, time.perf_counter() - multiplied, positions


with tempfile.TemporaryDirectory(dir=args.directory) as directory:
    rng = np.random.default_rng(1)
    queries, documents = normalized(rng, args.queries), normalized(rng, args.documents)
    files = [Path(directory) / name for name in ("queries.npy", "documents.npy")]
    np.save(files[0], queries)
    np.save(files[1], documents)
    product, choice, ours = [], [], []
    for _ in range(args.repeats):
        multiplied, chosen, expected = numpy_top_k(queries, documents)
        product.append(multiplied)
        choice.append(chosen)
        command = [args.program, *map(str, files), str(args.k), "1"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        ours.append(found["seconds"])
    positions = np.array(found["positions"])
    same = np.mean(positions == expected)
    shared = np.mean([len(set(a) & set(b)) / args.k for a, b in zip(positions, expected)])
    # Documents found in place of the expected ones must be as near, except for rounding.
    similarity = lambda chosen: np.sort(np.einsum("qd,qkd->qk", queries, documents[chosen]), axis=1)
    difference = np.abs(similarity(positions) - similarity(expected)).max()

numpy_s = statistics.median(a + b for a, b in zip(product, choice))
ours_s = statistics.median(ours)
print(f"{args.documents} documents, {args.queries} queries, {args.dimension} values, best {args.k}, {args.threads} threads")
print(f"numpy   {numpy_s:8.2f} s   product {statistics.median(product):.2f} s, choice {statistics.median(choice):.2f} s")
print(f"quarry  {ours_s:8.2f} s   {numpy_s / ours_s:.1f} times as fast")
print(f"same documents {shared:.6f}, same ranks {same:.6f}, maximum difference of a product {difference:.1e}")
sys.exit(0 if difference < 1e-5 and ours_s < numpy_s else 1)
