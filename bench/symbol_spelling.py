#!/usr/bin/env python3
"""Measures how often a symbol is found that is typed differently from the code.

    python bench/symbol_spelling.py QUARRY CHECKOUTS... [--count N] [--seed N] [--misses]

CHECKOUTS are directories of one repository each. Of each, N names of functions, methods and types are drawn by the
seed, at least six letters long, and asked for

- as written,
- in lower case, without underscores, where that changes the name,
- with one letter missing, which one being drawn too, and
- in lower case with one letter missing.

A name is found where a result defines it under exactly this name. Printed are the shares of names that are found
first, and among the first five.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ["function", "method", "type"]
MIN_LETTERS = 6


def search(quarry, checkout, index, options, query=()):
    command = [quarry, "search", "--index", index, "--json", "--quality", "fast", *options, "--", *query, str(checkout)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode > 1:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)["results"] if done.stdout.strip() else []


def last_part(name):
    return name.rsplit(".", 1)[-1]


def folded(name):
    return name.replace("_", "").lower()


def symbols(quarry, checkout, index):
    """The names of all definitions, each once, that are made of letters, digits and underscores."""
    kinds = [argument for kind in KINDS for argument in ("--kind", kind)]
    results = search(quarry, checkout, index, ["-e", "^", "-k", "1000000", "--lines", "1", *kinds])
    names = {last_part(result["name"]) for result in results}
    is_symbol = lambda name: name.isidentifier() and sum(map(str.isalpha, name)) >= MIN_LETTERS
    return sorted(filter(is_symbol, names))


def without_letter(name, random_numbers):
    positions = [position for position, letter in enumerate(name) if letter.isalpha()]
    position = random_numbers.choice(positions)
    return name[:position] + name[position + 1 :]


def rank(quarry, checkout, index, query, name):
    results = search(quarry, checkout, index, ["-k", "5", "--no-index-update"], [query])
    return next((result["rank"] for result in results if last_part(result["name"]) == name), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry")
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=20, help="names drawn from each checkout")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--misses", action="store_true", help="print what is not found")
    arguments = parser.parse_args()
    ranks = {}
    for checkout in arguments.checkouts:
        with tempfile.TemporaryDirectory() as directory:
            index = str(Path(directory) / "index")
            names = symbols(arguments.quarry, checkout, index)
            random_numbers = random.Random(f"{arguments.seed} {checkout.name}")
            for name in random_numbers.sample(names, min(arguments.count, len(names))):
                missing = without_letter(name, random_numbers)
                queries = {"as written": name, "one letter missing": missing, "both": folded(missing)}
                if folded(name) != name:
                    queries["lower case"] = folded(name)
                for kind, query in queries.items():
                    found = rank(arguments.quarry, checkout, index, query, name)
                    ranks.setdefault(kind, []).append(found)
                    if arguments.misses and found != 1:
                        print(f"{checkout.name}\t{kind}\t{query}\t{name}\t{found or 'not among five'}")
    print("| typed | names | first | among the first five |")
    print("|---|---|---|---|")
    for kind in ["as written", "lower case", "one letter missing", "both"]:
        found = ranks.get(kind, [])
        share = lambda most: 100 * sum(1 for rank in found if rank and rank <= most) / max(len(found), 1)
        print(f"| {kind} | {len(found)} | {share(1):.1f} % | {share(5):.1f} % |")


if __name__ == "__main__":
    main()
