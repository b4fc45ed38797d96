#!/usr/bin/env python3
"""Measures how often queries in other languages find a function among the first three results, beside the same in English.

    python bench/other_languages.py QUARRY CHECKOUTS

CHECKOUTS holds gin at d3ffc998 and rack at ca8a4047; the third tree is Quarry itself, around this file. Thresholds of the table
(bench/query_table.py) were chosen on the first, third, … queries.
"""

import argparse
import csv
import json
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def rank(quarry, tree, query, targets):
    """The rank of the first target among ten results; None if it was not found."""
    command = [quarry, "search", query, tree, "--json", "-k", "10", "--threshold", "0", "--quality", "fast"]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    found = [f"{result['path']}#{result['name'].rsplit('.', 1)[-1]}" for result in answer["results"]]
    ranks = [number for number, place in enumerate(found, 1) if place in targets.split(",")]
    return ranks[0] if ranks else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry")
    parser.add_argument("checkouts", type=Path)
    arguments = parser.parse_args()
    with open(HERE / "other-languages.tsv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    ranks = []
    for row in rows:
        tree = HERE.parent if row["repository"] == "quarry" else arguments.checkouts / row["repository"]
        of_query = rank(arguments.quarry, tree, row["query"], row["targets"])
        of_twin = rank(arguments.quarry, tree, row["english"], row["targets"])
        print(row["language"], row["repository"], of_query, of_twin, row["query"])
        ranks.append((of_query, of_twin))
    for name, part in [("chosen on", ranks[::2]), ("the others", ranks[1::2]), ("all", ranks)]:
        for what, column in zip(["queries", "English twins"], zip(*part)):
            found = sum(found is not None and found <= 3 for found in column)
            reciprocal = sum(1 / found for found in column if found) / len(column)
            print(f"{name}: {what} found {found} of {len(column)} among three, MRR {reciprocal:.3f}")


if __name__ == "__main__":
    main()
