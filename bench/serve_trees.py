#!/usr/bin/env python3
"""Measures `quarry serve` with many trees: the first index, memory, the time of a search, and of following a change.

    python3 bench/serve_trees.py --quarry target/release/quarry                    # 200 made-up trees of 100 functions
    python3 bench/serve_trees.py --quarry target/release/quarry --trees 50 --functions 1000
    python3 bench/serve_trees.py --quarry target/release/quarry --max-open 2M      # less than all of them

Every number of trees from 1 on, doubled until all are served, has a server of its own, on the same indexes; with --max-open
all are served, once with that limit and once without. Answers must
be those of all trees: results of the trees that are named, and of no other. Needs only Python's standard library."""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote_plus

from serve import Connection, make_tree, quantile, queries


def memory(pid: int) -> dict[str, float]:
    """Resident memory of a process in MB: of its own, and of files that it maps."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status)
    return {name: int(fields[field].split()[0]) / 1024 for name, field in (("own", "RssAnon"), ("files", "RssFile"))}


def is_ready(base: str) -> bool:
    try:
        with urllib.request.urlopen(base + "/readyz", timeout=30) as reply:
            return reply.status == 200
    except urllib.error.URLError:
        return False


def answer(base: str, path: str):
    with urllib.request.urlopen(base + path, timeout=60) as reply:
        return json.load(reply)


async def times(base: str, paths: list[str]) -> list[float]:
    host, port = base.removeprefix("http://").split(":")
    connection = Connection(host, int(port))
    await connection.open()
    taken = []
    for path in paths:
        start = time.perf_counter()
        status, body = await connection.get(path)
        taken.append((time.perf_counter() - start) * 1000)
        assert status == 200, (status, path, body[:200])
    connection.close()
    return taken


def segments(base: str) -> dict[str, float]:
    """How much of the indexes is open, and how often something was opened."""
    with urllib.request.urlopen(base + "/metrics", timeout=30) as reply:
        values = dict(line.split(" ") for line in reply.read().decode().splitlines() if line.startswith("quarry_segments"))
    opened = {"segments open": "open", "opened": "opened_total", "closed": "closed_total"}
    found = {name: float(values[f"quarry_segments_{key}"]) for name, key in opened.items()}
    return found | {"MB open": float(values["quarry_segments_open_bytes"]) / 1e6}


def measure(quarry: str, trees: list[Path], n_queries: int, run: int, options: list[str]) -> dict[str, float]:
    start = time.monotonic()
    command = [quarry, "serve", "--listen", "127.0.0.1:0", "--quality", "fast", *options, *map(str, trees)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        base = server.stdout.readline().strip().rstrip("/")
        while not is_ready(base):
            time.sleep(0.05)
        found = {"ready s": time.monotonic() - start}
        found |= {f"MB {name}": value for name, value in memory(server.pid).items()}
        asked = [quote_plus(query) for query in queries(n_queries, 1)]
        of_all = asyncio.run(times(base, [f"/api/v1/search?q={query}" for query in asked]))
        found |= {"p50 ms": statistics.median(of_all), "p99 ms": quantile(of_all, 0.99)}
        names = [trees[number % len(trees)].name for number in range(n_queries)]
        of_one = asyncio.run(times(base, [f"/api/v1/search?q={q}&tree={name}" for q, name in zip(asked, names)]))
        found["one tree p50 ms"] = statistics.median(of_one)
        found |= {f"MB {name} afterwards": value for name, value in memory(server.pid).items()}
        found |= segments(base)
        for query, name in zip(asked[:50], names):
            roots = {Path(result["root"]).name for result in answer(base, f"/api/v1/search?q={query}&tree={name}")["results"]}
            assert roots <= {name}, (roots, name)
        # The last tree changes.
        new = trees[-1] / f"just_written_{run}.py"
        new.write_text(f"def just_written_{run}(value):\n    return value\n")
        start = time.monotonic()
        while True:
            results = answer(base, f"/api/v1/search?q=just_written_{run}&limit=1")["results"]
            if results and results[0]["path"] == new.name:
                break
            time.sleep(0.02)
        found["change seen s"] = time.monotonic() - start
        return found
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--functions", type=int, default=100, help="functions of each tree")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--max-open", help="limit of what is open, as `quarry serve` takes it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(XDG_CACHE_HOME=f"{scratch}/cache", XDG_STATE_HOME=f"{scratch}/state")
        trees = [Path(scratch) / "trees" / f"tree-{number:03}" for number in range(args.trees)]
        for number, tree in enumerate(trees):
            make_tree(tree, args.functions, number)
        limit = ["--max-open", args.max_open] if args.max_open else []
        counts = [args.trees] * 2 if limit else [1 << power for power in range(args.trees.bit_length()) if 1 << power < args.trees] + [args.trees]
        first = measure(args.quarry, trees, 1, 0, [])
        print(f"first indexes of {args.trees} trees of {args.functions} functions: {first['ready s']:.1f} s")
        for run, n in enumerate(counts, 1):
            found = measure(args.quarry, trees[:n], args.queries, run, limit if run == 1 else [])
            if run == 1:
                print("trees " + " ".join(f"{name:>19}" for name in found))
            print(f"{n:>5} " + " ".join(f"{value:>19.2f}" for value in found.values()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
