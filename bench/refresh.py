#!/usr/bin/env python3
"""Measures what it costs to update an index after changes, in processor time.

    python3 bench/refresh.py TREE --quarry target/release/quarry [--changed 1 10 100 1000]

TREE is copied and indexed. Then a comment is appended to some files, spread evenly over the tree, and `quarry index` updates the
index; at the end it is built anew. Medians of several rounds; a round without changes is the cost of looking for them."""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

COMMENTS = {".py": "#", ".rb": "#", ".sh": "#", ".lua": "--", ".sql": "--"}


def processor_seconds(command: list[str]) -> tuple[float, float]:
    """Processor time and time of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("--changed", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ.update(XDG_CACHE_HOME=f"{directory}/cache", XDG_STATE_HOME=f"{directory}/state")
        tree = Path(directory) / "tree"
        shutil.copytree(args.tree, tree, symlinks=True)
        index = [args.quarry, "index", str(tree), "--quality", "fast"]
        subprocess.run(index, check=True)
        listed = subprocess.run([*index[:3], "--json"], check=True, capture_output=True, text=True).stdout
        suffixes = {".py", ".rs", ".c", ".h", ".cc", ".cpp", ".go", ".java", ".js", ".ts", ".tsx", ".rb", ".scala", ".kt"}
        files = sorted(path for path in tree.rglob("*") if path.suffix in suffixes and path.is_file() and ".git" not in path.parts)
        print(f"{listed.strip()}\n\n| changed files | processor time, s | of a full index | time, s |\n|---|---|---|---|", flush=True)
        rounds = range(args.rounds)
        anew = [processor_seconds([*index, "--rebuild"]) for _ in rounds]
        full = statistics.median(processor for processor, _ in anew)

        def row(name: str, costs: list[tuple[float, float]]) -> None:
            processor, took = (statistics.median(cost) for cost in zip(*costs))
            print(f"| {name} | {processor:.2f} | {processor / full:.0%} | {took:.2f} |", flush=True)

        for n in [0, *(n for n in args.changed if n <= len(files))]:
            costs = []
            for number in rounds:
                for path in files[:: max(1, len(files) // n)][:n] if n else []:
                    with path.open("a") as file:
                        file.write(f"{COMMENTS.get(path.suffix, '//')} change {n}.{number}\n")
                costs.append(processor_seconds(index))
            row(str(n), costs)
        row(f"all {len(files)}, anew", anew)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
