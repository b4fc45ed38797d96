#!/usr/bin/env python3
"""Measures `quarry serve --from` beside `quarry serve` of the same trees: what is lost, and how long it takes.

    pip install milvus-lite==3.2.2 pymilvus==3.0.2
    cargo build --release -p quarry-cli --features milvus
    python3 bench/engine_quality.py --quarry target/release/quarry TABLE REPOS gin rack gson

Each checkout becomes a tree in Milvus Lite. Each query of a table of the repository search is asked of both servers, in its
own tree alone and in all trees together: nDCG at 10 and hits by files, how many of the ten results are the same, the
times, and the difference in nDCG with the interval and the two-sided p-value of a paired bootstrap over queries. Before the
searches Milvus Lite writes what it holds in memory to its files and starts anew, which is when it builds its indexes;
without that, it builds one with each search. Speeds are those of Milvus Lite, which is written in Python."""

import argparse
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
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote_plus

from check_engine import Engine, Server

RESULTS = 10
RANKED = 100
RESAMPLES = 10_000
# The longest that somebody waits for a search that is refused, in seconds.
PATIENCE = 300
# The longest that Milvus Lite may take to write its files and to build its indexes, in seconds.
SETTLING = 1800


def quality(ranked: list[tuple], relevant: set[tuple]) -> tuple[float, float]:
    """nDCG at 10 and whether a relevant file is among the first 10, by files, each where it comes first."""
    files = list(dict.fromkeys(ranked))[:RESULTS]
    gains = [1 / math.log2(rank + 2) for rank, file in enumerate(files) if file in relevant]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(relevant), RESULTS)))
    return sum(gains) / ideal, float(bool(gains))


def ask(base: str, query: str, more: str) -> tuple[list[dict], float]:
    address = f"{base}/api/v1/search?q={quote_plus(query)}&limit={RANKED}&threshold=0{more}"
    deadline = time.monotonic() + PATIENCE
    while True:
        start = time.monotonic()
        try:
            with urllib.request.urlopen(address, timeout=120) as reply:
                return json.load(reply)["results"], time.monotonic() - start
        except urllib.error.HTTPError as error:
            # Milvus Lite may take longer than a search may.
            if error.code != 503 or time.monotonic() > deadline:
                raise
            time.sleep(1)


def settled(engine: Engine, directory: Path) -> Engine:
    """Milvus Lite with what it holds in memory written to its files, and with its indexes built."""
    from pymilvus import MilvusClient

    client = MilvusClient(uri=f"http://127.0.0.1:{engine.port}")
    for name in client.list_collections():
        client.flush(name, timeout=SETTLING)
    client.close()
    engine.stop()
    engine = Engine(directory, engine.port)
    client = MilvusClient(uri=f"http://127.0.0.1:{engine.port}")
    for name in client.list_collections():
        client.load_collection(name, timeout=SETTLING)
    # Sparse indexes are built by the first search, again by each that comes while one is built.
    client.search("quarry_units", [{0: 1.0}], anns_field="sparse", limit=1, timeout=SETTLING)
    client.close()
    return engine


def paired_bootstrap(differences: list[float]) -> tuple[float, float, float]:
    """The interval of the mean at 95 %, and the two-sided p-value."""
    draw = random.Random(42)
    means = sorted(statistics.fmean(draw.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    below, above = sum(mean <= 0 for mean in means), sum(mean >= 0 for mean in means)
    p = min(1.0, 2 * max(min(below, above), 1) / RESAMPLES)
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)], p


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("table", type=Path)
    parser.add_argument("repos", type=Path)
    parser.add_argument("names", nargs="+", metavar="REPO")
    args = parser.parse_args()
    with args.table.open(newline="") as file:
        questions = [row for row in csv.DictReader(file, delimiter="\t") if row["repo"] in args.names]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(XDG_CACHE_HOME=f"{scratch}/cache", XDG_STATE_HOME=f"{scratch}/state")
        engine = Engine(Path(scratch, "milvus"))
        roots = {}
        units, took = 0, 0.0
        for row in questions:
            root = (args.repos / row["repo"] / (row["root"] or ".")).resolve()
            if row["repo"] in roots:
                continue
            # Servers name a tree by its directory.
            tree = Path(scratch, "trees", row["repo"])
            tree.parent.mkdir(exist_ok=True)
            subprocess.run(["cp", "-r", str(root), str(tree)], check=True)
            roots[row["repo"]] = tree
            command = [args.quarry, "index", str(tree), "--json"]
            subprocess.run(command, check=True, capture_output=True)
            start = time.monotonic()
            done = subprocess.run([*command, "--to", engine.url], check=True, capture_output=True, text=True)
            took += time.monotonic() - start
            units += json.loads(done.stdout)["upload"]["stored_units"]
        start = time.monotonic()
        engine = settled(engine, Path(scratch, "milvus"))
        built = time.monotonic() - start
        size = sum(path.stat().st_size for path in Path(scratch, "milvus").rglob("*") if path.is_file())
        print(
            f"{units} units of {len(roots)} trees stored in {took:.1f} s ({units / took:.0f}/s), {size / units:.0f} bytes each, "
            f"settled in {built:.1f} s",
            flush=True,
        )
        servers = {
            "local": Server(args.quarry, *map(str, roots.values())),
            "engine": Server(args.quarry, "--from", engine.url),
        }
        print(f"{len(questions)} queries, {RESAMPLES} resamples, seed 42")
        print(f"{'':<32} {'nDCG@10':>8} {'hit@10':>7} {'same ten':>9} {'same first':>10} {'ms, median':>11} {'ms, p95':>8}")
        for scope in ("own tree", "all trees"):
            sums = {name: [] for name in servers}
            for row in questions:
                more = f"&tree={row['repo']}" if scope == "own tree" else ""
                prefix = f"{row['root']}/" if row["root"] else ""
                relevant = {(row["repo"], path.removeprefix(prefix)) for path in row["relevant"].split("|")}
                answers = {}
                for name, server in servers.items():
                    # The first time, files are read from the engine; the second time, they are known.
                    answers[name], first = ask(server.base, row["query"], more)
                    _, second = ask(server.base, row["query"], more)
                    files = [(Path(found["root"]).name, found["path"]) for found in answers[name]]
                    sums[name].append((*quality(files, relevant), first * 1000, second * 1000))
                places = {
                    name: [(found["root"], found["path"], found["start_line"]) for found in results[:RESULTS]]
                    for name, results in answers.items()
                }
                ours = places["local"]
                for name in servers:
                    same = sum(place in places[name] for place in ours) / max(1, len(ours))
                    sums[name][-1] += (same, float(places[name][:1] == ours[:1]))
            for name, values in sums.items():
                columns = list(zip(*values))
                mean = [statistics.fmean(column) for column in columns]
                for time_name, column in (("", columns[3]), (", first time", columns[2])):
                    print(
                        f"{name + ', ' + scope + time_name:<32} {mean[0]:>8.4f} {mean[1]:>7.3f} {mean[4]:>9.3f} {mean[5]:>10.3f} "
                        f"{statistics.median(column):>11.1f} {sorted(column)[int(0.95 * len(column))]:>8.1f}",
                        flush=True,
                    )
            differences = [kept[0] - ours[0] for kept, ours in zip(sums["engine"], sums["local"])]
            low, high, p = paired_bootstrap(differences)
            worse, better = sum(value < 0 for value in differences), sum(value > 0 for value in differences)
            print(
                f"{scope}: nDCG@10 {statistics.fmean(differences):+.4f} [{low:+.4f}, {high:+.4f}], p {p:.4f}; {worse} queries worse, "
                f"{better} better",
                flush=True,
            )
        for server in servers.values():
            server.stop()
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
