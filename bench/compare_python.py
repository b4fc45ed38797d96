#!/usr/bin/env python3
"""Times what the Python package adds to a search and to a start of the program, and its metrics beside the program's.

    pip install quarry-code-search      # the wheel of `maturin build`
    python3 bench/compare_python.py target/release/quarry TREE [--documents 10000000] [--repeats 3]

- What a search from Python adds to the engine, is the time of the call less that which the answer has as `took_ms`: from the
  query to the lines of the results, without anything of Python. The goal is a median of 0.1 ms at most.
- The program of the package, which Python starts, is timed in turns with the program of an archive.
- `quarry.evaluate` reads the same files as `quarry eval score`, or is given the same dictionaries. The goal is 1.5 times the
  time of the program at most. Both have 10,000 resamples for intervals.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np

import quarry
from quarry import _quarry
from quarry._index import _Request

QUERIES = [
    "retry with backoff", "wait until a lock is free", "parse the header of a request", "read a file line by line",
    "evict the least recently used entry", "compare two rankings", "split an identifier into words", "open a socket",
]  # fmt: skip
MEASURES = ["mrr", "map", "ndcg@10", "recall@100"]
PER_QUERY = 1_000


def seconds(task):
    gc.collect()
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def time_search(tree, directory, calls):
    index = quarry.Index.open(tree, directory=directory / "index", quality="fast")
    added, whole = [], []
    for number in range(calls):
        start = time.perf_counter()
        answer = index.search(QUERIES[number % len(QUERIES)])
        took = 1e3 * (time.perf_counter() - start)
        # The first ones read the index from disk.
        if number >= len(QUERIES):
            added.append(took - answer.took_ms)
            whole.append(took)
    # Of that: passing work to a thread and waiting for it, by a call that does nothing else.
    passing = [1e3 * seconds_of(lambda: index._index.calls("", 0, True)) for _ in range(calls)]
    found = index._index.search(QUERIES[0], _Request.of(10, (), (), (), None))
    objects = [1e3 * seconds_of(lambda: quarry.Answer._of(found)) for _ in range(calls)]
    low, median, high = statistics.quantiles(added, n=4)
    print(f"| search from Python, ms | {statistics.median(whole):.3f} |")
    print(f"| added to the engine, ms: median; quartiles | {median:.3f}; {low:.3f}, {high:.3f} |")
    # The least is what a busy machine does not change.
    print(f"| the least that was added, ms | {min(added):.3f} |")
    print(f"| of it: passing to a thread and back | {min(passing):.3f} |")
    print(f"| of it: objects of {len(answer)} results | {min(objects):.3f} |")


def time_start(program, tree, directory, calls):
    """A search in a new process, by both programs."""
    packaged = Path(sysconfig.get_path("scripts")) / "quarry"
    arguments = ["search", QUERIES[0], tree, "--index", directory / "index", "--quality", "fast", "--json"]
    times = {"the program": (program, []), "the package's program": (packaged, [])}
    for _ in range(calls):
        for started, took in times.values():
            run = lambda: subprocess.run([started, *arguments], stdout=subprocess.DEVNULL, check=False)  # noqa: B023
            took.append(1e3 * seconds_of(run))
    medians = {name: statistics.median(took) for name, (_, took) in times.items()}
    for name, took in medians.items():
        print(f"| search in a new process, {name}, ms | {took:.1f} | {took / medians['the program']:.2f} |")


def seconds_of(task):
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def generate(directory, documents, seed):
    """A run with ties and its judgments, as files and as dictionaries."""
    rng = np.random.default_rng(seed)
    qrels, run = directory / "qrels.txt", directory / "run.txt"
    judged, ranked = {}, {}
    with qrels.open("w") as judgments, run.open("w") as results:
        for query in (f"q{number}" for number in range(documents // PER_QUERY)):
            ids = [f"d{number}" for number in rng.choice(1_000_000, PER_QUERY, replace=False)]
            scores = (np.sort(rng.integers(0, 5_000, PER_QUERY))[::-1] / 1_000).tolist()
            grades = dict(zip(rng.permutation(ids)[:20].tolist(), rng.integers(0, 3, 20).tolist()))
            judged[query], ranked[query] = grades, dict(zip(ids, scores))
            judgments.writelines(f"{query} 0 {id} {grade}\n" for id, grade in grades.items())
            results.writelines(f"{query} Q0 {id} {rank} {score} tag\n" for rank, (id, score) in enumerate(zip(ids, scores), 1))
    return (qrels, run), (judged, ranked)


def time_metrics(program, directory, documents, repeats, seed):
    files, dictionaries = generate(directory, documents, seed)
    command = [program, "eval", "score", "--qrels", files[0], "--run", files[1], "--metrics", ",".join(MEASURES), "--json"]
    ways = {
        "the program": lambda: json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["metrics"],
        "Python, files": lambda: quarry.evaluate(*files, MEASURES).means,
        "Python, dictionaries": lambda: quarry.evaluate(*dictionaries, MEASURES).means,
    }
    times, means = {name: [] for name in ways}, {}
    for _ in range(repeats):
        for name, way in ways.items():
            took, means[name] = seconds(way)
            times[name].append(took)
    medians = {name: statistics.median(of) for name, of in times.items()}
    for name, took in medians.items():
        print(f"| metrics of {documents:,} documents, {name}, s | {took:.2f} | {took / medians['the program']:.2f} |")
        for measure in MEASURES:
            if abs(means[name][measure] - means["the program"][measure]) > 1e-12:
                raise SystemExit(f"{name}: {measure} {means[name][measure]}, the program {means['the program'][measure]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"quarry {_quarry.__version__}\n\n| what | time | times the program's |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        time_search(arguments.tree, Path(directory), arguments.calls)
        time_start(arguments.program.resolve(), arguments.tree, Path(directory), arguments.calls // 10)
        time_metrics(arguments.program.resolve(), Path(directory), arguments.documents, arguments.repeats, arguments.seed)


if __name__ == "__main__":
    main()
