"""Chooses the weights of `quarry context`, cross-validated by repository.

Reads the files that `quarry eval repo-search TABLE --repos DIR --per-query FILE` wrote with the same --policy arguments, of
which those given here by their positions, counted from 0, are weights of `context` (context, context:1:0, ...). For
each repository, the weights with the highest mean share of questions answered within 1,000, 2,000 and 4,000 tokens on all
other repositories are chosen and measured on it. Prints the mean over repositories of that, and of each of the weights.

    python fit_context.py POSITION,POSITION,... FILE...
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

BUDGETS = (1_000, 2_000, 4_000)


def main(positions, files):
    positions = [int(position) for position in positions.split(",")]
    values = defaultdict(list)
    for file in files:
        for line in Path(file).read_text().splitlines():
            read = json.loads(line)
            shares = [
                statistics.fmean(tokens is not None and tokens <= budget for budget in BUDGETS)
                for tokens in (read["tokens"][position] for position in positions)
            ]
            values[read["repository"]].append(shares)
    means = {name: [statistics.fmean(column) for column in zip(*rows)] for name, rows in values.items()}

    def over(names):
        return [statistics.fmean(means[name][weights] for name in names) for weights in range(len(positions))]

    held_out = []
    for name in means:
        others = over([other for other in means if other != name])
        held_out.append(means[name][others.index(max(others))])
    print(f"repositories {len(means)}, cross-validated {statistics.fmean(held_out):.4f}")
    for position, value in zip(positions, over(means)):
        print(f"policy {position}: {value:.4f}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
