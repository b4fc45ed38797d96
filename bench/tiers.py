#!/usr/bin/env python3
"""Measures what a search takes with each `--quality`, before and after the transformer has read the tree.

    python3 bench/tiers.py TREE --quarry target/release/quarry

For each quality: a search in a new process with an index that no transformer has read; `quarry index`, which has it read it;
the same search in a new process; and in `quarry serve`, by its HTTP API. Medians, in milliseconds; `auto` uses what `best` has
computed, and its targets are 60 in a new process and 15 in `quarry serve` for a tree of 10,000 units."""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote_plus

QUERIES = [
    "read the body of a request into a structure and check it",
    "give up when nothing arrives for some time",
    "turn a list of values into text with separators",
    "remove what is not needed any longer",
    "decide which of several handlers answers",
]
TIERS = ["fast", "best", "auto"]
MOST = {"new process": 60, "served": 15}


def took(action) -> float:
    start = time.monotonic()
    action()
    return 1000 * (time.monotonic() - start)


def answers(url: str) -> bool:
    """Whether a request is answered with success."""
    try:
        with urllib.request.urlopen(url) as answer:
            return bool(answer.read())
    except urllib.error.HTTPError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ.update(XDG_CACHE_HOME=f"{directory}/cache", XDG_STATE_HOME=f"{directory}/state")

        def quarry(*command: str) -> None:
            subprocess.run([args.quarry, *command], check=True, stdout=subprocess.DEVNULL)

        def in_processes(tier: str) -> float:
            search = lambda query: quarry("search", query, str(args.tree), "--quality", tier, "--threshold", "0")
            return statistics.median(took(lambda: search(query)) for _ in range(args.rounds) for query in QUERIES)

        quarry("index", str(args.tree))
        unread = {tier: in_processes(tier) for tier in TIERS}
        print("| quality | new process, unread | reading the tree, s | new process | in `quarry serve` |")
        print("|---|---|---|---|---|")
        for tier in TIERS:
            reading = took(lambda: quarry("index", str(args.tree), "--quality", tier)) / 1000
            read = in_processes(tier)
            serve = [args.quarry, "serve", "--listen", "127.0.0.1:0", "--quality", tier, str(args.tree)]
            server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                address = server.stdout.readline().strip().rstrip("/")
                while not answers(f"{address}/readyz"):
                    time.sleep(0.2)
                urls = [f"{address}/api/v1/search?q={quote_plus(query)}" for query in QUERIES]
                assert answers(urls[0])
                served = [took(lambda: answers(url)) for _ in range(args.rounds) for url in urls]
            finally:
                server.terminate()
                server.wait()
            served = statistics.median(served)
            print(f"| {tier} | {unread[tier]:.0f} | {reading:.1f} | {read:.0f} | {served:.1f} |", flush=True)
    return 0 if read <= MOST["new process"] and served <= MOST["served"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
