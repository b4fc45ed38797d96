#!/usr/bin/env python3
"""Compares the files that `quarry search -e` lists with those that ripgrep lists, and how long both take.

    python3 bench/compare_ripgrep.py target/release/quarry TREE [TREE…]

Each TREE is indexed once, and searched for a few expressions with `quarry search -e EXPRESSION -l` and
`rg -l EXPRESSION`, --runs times each; the best time counts. Notebooks are left out: Quarry searches their cells. The exit code
is 1 if the files of any search differ, or with --max-ratio if the geometric mean of the ratios of times is larger.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPRESSIONS = [r"TODO", r"err(or)?\b.*not", r"^#", r"reverse_proxy", r"0x[0-9a-f]+", r"\bcopyright\b", r"zzyzx_nowhere"]


def best_time(command, runs, **options):
    best, paths = math.inf, set()
    for _ in range(runs):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, **options)
        best = min(best, time.perf_counter() - start)
        if done.returncode not in (0, 1):
            sys.exit(f"{command}: {done.stderr}")
        paths = {str(Path(line)) for line in done.stdout.splitlines() if not line.endswith(".ipynb")}
    return best, paths


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry")
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-ratio", type=float)
    args = parser.parse_args()
    quarry = str(Path(args.quarry).resolve())
    is_different, ratios = False, []
    print("| Tree | Expression | Files | Only ripgrep | Only Quarry | ripgrep, ms | Quarry, ms | Ratio |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache, "XDG_STATE_HOME": cache}
        for tree in args.trees:
            options = {"cwd": tree, "env": environment}
            subprocess.run([quarry, "index", "."], check=True, capture_output=True, **options)
            for expression in EXPRESSIONS:
                theirs, expected = best_time(["rg", "--no-config", "-l", "-e", expression, "."], args.runs, **options)
                ours, found = best_time([quarry, "search", "-e", expression, "-l"], args.runs, **options)
                missing, more = expected - found, found - expected
                is_different |= bool(missing or more)
                ratios.append(ours / theirs)
                shown = expression.replace("|", "\\|")
                print(
                    f"| {tree.name} | `{shown}` | {len(expected)} | {len(missing)} | {len(more)} | {theirs * 1000:.0f} |"
                    f" {ours * 1000:.0f} | {ours / theirs:.2f} |"
                )
                for name, paths in (("only ripgrep", missing), ("only Quarry", more)):
                    for path in sorted(paths)[:5]:
                        print(f"{name}: {path}", file=sys.stderr)
    ratio = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\nGeometric mean of the ratios: {ratio:.2f}")
    sys.exit(int(is_different or (args.max_ratio is not None and ratio > args.max_ratio)))


if __name__ == "__main__":
    main()
