#!/usr/bin/env python3
"""Times the metrics of a large run beside pytrec_eval and ranx, in one run.

    pip install pytrec-eval-terrier==0.5.11 ranx==0.3.21
    cargo bench -p quarry-eval --bench metrics --no-run      # names the program METRICS_BENCH
    python3 bench/compare_metrics.py METRICS_BENCH [--queries 10000] [--depth 1000] [--repeats 3] [--directory DIR]

Random qrels and a random run are written to a directory. Every library reads the two files in its own way, then
computes MRR, MAP, NDCG@10 and recall@100 from what it holds; ranx has compiled its metrics before. Medians of the
repeats; the means must agree.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytrec_eval
import ranx

PYTREC_EVAL = {"mrr": "recip_rank", "map": "map", "ndcg@10": "ndcg_cut_10", "recall@100": "recall_100"}


def generate(directory, queries, depth, seed):
    """Distinct scores, because ranx breaks ties arbitrarily; 20 judged documents per query, half of them relevant."""
    rng = np.random.default_rng(seed)
    qrels, run = directory / "qrels.txt", directory / "run.txt"
    with qrels.open("w") as judged, run.open("w") as found:
        for query in range(queries):
            documents = rng.choice(1_000_000, size=depth + 5, replace=False)
            scores = rng.permutation(depth)[::-1] / depth + rng.random() * 1e-4
            order = np.argsort(-scores)
            found.writelines(
                f"q{query} Q0 d{documents[position]} {rank + 1} {scores[position]:.6f} tag\n" for rank, position in enumerate(order)
            )
            positions = rng.choice(depth + 5, size=20, replace=False)
            judged.writelines(f"q{query} 0 d{documents[position]} {index % 2}\n" for index, position in enumerate(positions))
    return qrels, run


def seconds(task):
    gc.collect()
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def time_pytrec_eval(qrels, run):
    def load():
        with open(qrels) as judged, open(run) as found:
            return pytrec_eval.parse_qrel(judged), pytrec_eval.parse_run(found)

    load_s, (judged, found) = seconds(load)

    def evaluate():
        evaluator = pytrec_eval.RelevanceEvaluator(judged, set(PYTREC_EVAL.values()))
        values = evaluator.evaluate(found)
        return {
            name: statistics.fmean(query[theirs] for query in values.values()) for name, theirs in PYTREC_EVAL.items()
        }

    evaluate_s, means = seconds(evaluate)
    return load_s, evaluate_s, means


def time_ranx(qrels, run):
    def load():
        return ranx.Qrels.from_file(str(qrels), kind="trec"), ranx.Run.from_file(str(run), kind="trec")

    load_s, (judged, found) = seconds(load)
    ranx.evaluate(judged, found, list(PYTREC_EVAL))
    evaluate_s, means = seconds(lambda: ranx.evaluate(judged, found, list(PYTREC_EVAL)))
    return load_s, evaluate_s, means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics_bench")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", "--folder", type=Path, help="keep the files here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        qrels, run = generate(directory, arguments.queries, arguments.depth, arguments.seed)
        done = subprocess.run(
            [arguments.metrics_bench, qrels, run, str(arguments.repeats)], capture_output=True, text=True, check=True
        )
        figures = json.loads(done.stdout)
        times = {"quarry": (figures["load_s"], figures["evaluate_s"])}
        for name, measure in [("pytrec_eval", time_pytrec_eval), ("ranx", time_ranx)]:
            found = [measure(qrels, run) for _ in range(arguments.repeats)]
            times[name] = tuple(statistics.median(each[part] for each in found) for part in (0, 1))
            for metric, value in found[0][2].items():
                if abs(value - figures["means"][metric]) > 1e-9:
                    sys.exit(f"{name}: {metric} {value}, quarry {figures['means'][metric]}")
    print("| library | read the files, s | metrics, s | both, s | metrics, times quarry's | both, times quarry's |")
    print("|---|---|---|---|---|---|")
    ours_load, ours = times["quarry"]
    for name, (load, evaluate) in times.items():
        both = load + evaluate
        print(
            f"| {name} | {load:.3f} | {evaluate:.3f} | {both:.3f} | {evaluate / ours:.1f} | {both / (ours_load + ours):.1f} |"
        )


if __name__ == "__main__":
    main()
