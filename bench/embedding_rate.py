#!/usr/bin/env python3
"""Measures how fast `quarry index --quality best` has the transformer read functions of about 60 tokens.

    pip install tokenizers==0.23.3
    python3 bench/embedding_rate.py --quarry target/release/quarry

The tree is that of bench/serve.py. Beside it, `quarry index` of the same tree without the transformer; with several rounds,
medians. The target is 300 functions per second on two idle cores."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tokenizers import Tokenizer

from serve import make_tree

MODEL = Path(__file__).resolve().parent.parent / "crates/embed/models/best/tokenizer.json"
TARGET = 300


def seconds(quarry: str, tree: Path, scratch: Path, quality: str) -> tuple[float, dict]:
    index = scratch / f"index-{quality}"
    # Not --rebuild, which takes the vectors of unchanged functions from the index before.
    shutil.rmtree(index, ignore_errors=True)
    command = [quarry, "index", str(tree), "--index", str(index), "--json", "--quality", quality]
    start = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.monotonic() - start, json.loads(done.stdout)


def texts_read(path: Path, source: str) -> list[str]:
    """What the transformer reads of each function: a line with the words of path and name, then the source."""

    def words(text: str) -> str:
        return " ".join(re.findall(r"[a-z]+|\d+", text))

    functions = source.split("\n\n\n")
    return [f"{words(str(path.with_suffix('')))} {words(text.split('(')[0][4:])}\n{text}" for text in functions]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quarry", default="target/release/quarry")
    parser.add_argument("--functions", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(MODEL))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        os.environ.update(XDG_CACHE_HOME=f"{scratch}/cache", XDG_STATE_HOME=f"{scratch}/state")
        tree = scratch / "tree"
        make_tree(tree, args.functions, seed=1)
        texts = [text for path in tree.rglob("*.py") for text in texts_read(path.relative_to(tree), path.read_text())]
        tokens = statistics.median(len(tokenizer.encode(text).ids) for text in texts)
        rates = {"fast": [], "best": []}
        for _ in range(args.rounds):
            for quality, values in rates.items():
                took, summary = seconds(args.quarry, tree, scratch, quality)
                if quality == "best" and summary["embedded_ahead"] < args.functions:
                    raise SystemExit(f"expected {args.functions} units, found {summary}")
                values.append(args.functions / took)
    print(f"{args.functions} functions, {tokens:.0f} tokens in the median")
    for quality, values in rates.items():
        print(f"{quality}: {statistics.median(values):.0f} functions per second")
    return 0 if statistics.median(rates["best"]) >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
