"""Compares repository search with semble's lexical search and ranking rules, query by query.

semble's own embedding model is not part of its package, so it runs with a constant model and with alpha=0,
which leaves its BM25 and its rules. Both tools answer the same queries over the same directories; results count by the
protocol of `quarry eval repo-search`. Prints the mean over repositories of NDCG@10 for both, the difference with the
interval and the two-sided p-value of a paired bootstrap (queries drawn within repositories), and the median times of
indexing and of a warm query.

    pip install semble==0.7.0
    python compare_semble.py QUARRY TABLE REPOS
"""

import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

K = 10
RESAMPLES = 10_000


class Silent:
    """A model whose vectors are all equal."""

    dim = 2

    def encode(self, texts, **_):
        import numpy

        return numpy.ones((len(texts), self.dim), dtype=numpy.float32)


def targets(row):
    root = row["root"].strip("/")
    for cell in (row["relevant"], row.get("secondary") or ""):
        for text in filter(None, map(str.strip, cell.split(","))):
            path, _, lines = text.partition(":")
            path = path.removeprefix(root + "/") if root else path
            yield path, tuple(map(int, lines.split("-"))) if lines else None


def ndcg(results, wanted):
    gain = 0.0
    for path, lines in wanted:
        for rank, (found, start, end) in enumerate(results[:K], 1):
            if found == path and (lines is None or (start <= lines[1] and lines[0] <= end)):
                gain += 1 / math.log2(rank + 1)
                break
    return min(1.0, gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(wanted), K) + 1)))


def silence():
    """Replaces semble's model by the silent one, and stops it from recording searches."""
    import semble.index.index as module

    module.load_model = lambda path=None: (Silent(), "silent")
    module.save_search_stats = lambda *_: None


def run_semble(repositories, directory):
    from semble import SembleIndex

    silence()
    values, index_ms, query_ms = {}, [], []
    for name, rows in repositories.items():
        root = Path(directory) / name / rows[0]["root"].strip("/")
        start = time.perf_counter()
        index = SembleIndex.from_path(root)
        index_ms.append((time.perf_counter() - start) * 1000)
        for row in rows:
            start = time.perf_counter()
            found = index.search(row["query"], top_k=K, alpha=0.0)
            query_ms.append((time.perf_counter() - start) * 1000)
            spans = [(r.chunk.file_path, r.chunk.start_line, r.chunk.end_line) for r in found]
            values[name, row["query"]] = ndcg(spans, list(targets(row)))
    return values, index_ms, query_ms


def run_quarry(quarry, table, directory):
    with tempfile.TemporaryDirectory() as scratch:
        per_query = Path(scratch) / "queries.jsonl"
        command = [quarry, "eval", "repo-search", table, "--repos", directory, "--json", "--per-query", per_query]
        summary = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        values = {}
        for line in per_query.read_text().splitlines():
            query = json.loads(line)
            values[query["repository"], query["query"]] = query["ndcg"]
    return values, [r["index_ms"] for r in summary["repositories"]], [summary["query_ms"]]


def mean(values, repositories):
    return statistics.fmean(
        statistics.fmean(values[name, row["query"]] for row in rows) for name, rows in repositories.items()
    )


def paired_bootstrap(difference):
    draw = random.Random(42)
    means = sorted(
        statistics.fmean(statistics.fmean(draw.choices(values, k=len(values))) for values in difference)
        for _ in range(RESAMPLES)
    )
    below = sum(value <= 0 for value in means) / RESAMPLES
    p = min(1.0, 2 * max(min(below, 1 - below), 1 / RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)], p


def main(quarry, table, directory):
    repositories = defaultdict(list)
    with open(table, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["category"] != "unanswerable":
                repositories[row["repo"]].append(row)
    with tempfile.TemporaryDirectory() as cache:
        # Without semble's caches of earlier runs.
        os.environ["XDG_CACHE_HOME"] = os.environ["SEMBLE_CACHE_LOCATION"] = cache
        theirs, their_index, their_query = run_semble(repositories, directory)
    ours, our_index, our_query = run_quarry(quarry, table, directory)
    for name, rows in repositories.items():
        one = {name: rows}
        print(f"{name:16} semble {mean(theirs, one):.4f}  quarry {mean(ours, one):.4f}")
    difference = [[ours[name, r["query"]] - theirs[name, r["query"]] for r in rows] for name, rows in repositories.items()]
    low, high, p = paired_bootstrap(difference)
    a, b = mean(theirs, repositories), mean(ours, repositories)
    print(f"mean             semble {a:.4f}  quarry {b:.4f}  difference {b - a:+.4f} [{low:+.4f}, {high:+.4f}] p {p:.4f}")
    print(f"index, ms        semble {statistics.median(their_index):.1f}  quarry {statistics.median(our_index):.1f} (medians over repositories)")
    print(f"query, ms        semble {statistics.median(their_query):.2f}  quarry {our_query[0]:.2f} (medians, warm)")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
