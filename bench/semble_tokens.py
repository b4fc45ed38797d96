"""Measures the tokens of semble's lexical results until a gold function is fully shown, as `quarry eval repo-search --policy`.

An agent reads the results of one search for 30 chunks in their order, each as `path:first-last` and its text. Prints the
share of questions answered within a number of tokens (o200k_base), means over repositories, and the median.

    pip install semble==0.7.0 bpe-openai==0.1.4
    python semble_tokens.py REPOS TABLE...
"""

import csv
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import bpe_openai
from compare_semble import silence, targets

BUDGETS = (1_000, 2_000, 4_000, 8_000, 16_000, 64_000)
CHUNKS = 30


def main(directory, tables):
    from semble import SembleIndex

    silence()
    encoding = bpe_openai.get_encoding("o200k_base")
    repositories = defaultdict(list)
    for table in tables:
        with open(table, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if row["category"] != "unanswerable":
                    repositories[row["repo"], row["root"].strip("/")].append(row)
    read = {}
    for (name, root), rows in repositories.items():
        root = Path(directory) / name / root
        index = SembleIndex.from_path(root)
        read[name, root] = [tokens(index, root, row, encoding) for row in rows]
    for budget in BUDGETS:
        share = statistics.fmean(statistics.fmean(n <= budget for n in values) for values in read.values())
        print(f"{budget:>6} {share:.3f}")
    print("median", statistics.median_high(n for values in read.values() for n in values))


def tokens(index, root, row, encoding):
    """Tokens until the answer; more than any budget without one."""
    unseen = []
    for path, lines in targets(row):
        if lines and (root / path).is_file():
            text = (root / path).read_text(encoding="utf-8", errors="replace").splitlines()
            numbers = range(lines[0], min(lines[1], len(text)) + 1)
            unseen.append((path, {number for number in numbers if text[number - 1].strip()}))
    n_tokens = 0
    for result in index.search(row["query"], top_k=CHUNKS, alpha=0.0):
        chunk = result.chunk
        shown = f"{chunk.file_path}:{chunk.start_line}-{chunk.end_line}\n{chunk.content}\n"
        n_tokens += len(encoding.encode(shown))
        for path, lines in unseen:
            if path == chunk.file_path:
                lines.difference_update(range(chunk.start_line, chunk.end_line + 1))
                if not lines:
                    return n_tokens
    return BUDGETS[-1] + 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = os.environ["SEMBLE_CACHE_LOCATION"] = cache
        main(sys.argv[1], sys.argv[2:])
